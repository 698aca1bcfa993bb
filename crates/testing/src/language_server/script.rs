//! The script of a language server, as JSON.
//!
//! ```json
//! { "capabilities": {"referencesProvider": true},
//!  "record": "/tmp/x/record.jsonl",
//!  "start": [{"stdout": "hello\n"}],
//!  "methods": {"textDocument/references": [[{"delay_ms": 50}, {"result": []}]]} }
//! ```
//!
//! `methods` has a list of turns per method: the first call runs the first turn, and so on; the last is
//! repeated. A turn is a list of steps. Strings in results may hold `${params.a.b}` (of the message),
//! `${root}` (the root's URI), `${version}` and `${text}` (of the message's document when the turn began) and
//! `${documents}` (all open ones by URI); a string that is nothing else becomes the value itself.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The behaviour of a scripted server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// `capabilities` in the response to `initialize`, unless `methods` has one.
    pub capabilities: Value,
    /// The file to append each message to, one JSON per line.
    pub record: Option<PathBuf>,
    /// The file for the process id.
    pub pid_file: Option<PathBuf>,
    /// Steps that run before the server reads.
    pub start: Vec<Step>,
    /// The scripted turns for each method of a request or notification.
    pub methods: HashMap<String, Vec<Vec<Step>>>,
    /// Whether the server ignores `exit` and the end of the input.
    pub stay: bool,
}

/// One step of a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Responds to the message. May occur twice.
    Result(Value),
    /// Responds with an error: `{"code", "message"}`.
    Error(Value),
    /// Responds to a chosen id.
    AnswerId { id: Value, result: Value },
    /// Waits this many milliseconds, for tests of slow responses.
    DelayMs(u64),
    /// Waits until `count` messages of `method` were received, including this one.
    WaitFor {
        /// The method; `response` counts responses to the server's requests.
        method: String,
        count: usize,
    },
    /// Ends the turn without a response.
    Never,
    /// Exits the process at once with this status; in process, ends the stream.
    Crash(i32),
    /// Writes to the error stream.
    Stderr(String),
    /// Writes bytes to the output, outside any message.
    Stdout(String),
    Notify {
        method: String,
        #[serde(default)]
        params: Value,
    },
    /// Sends a request; its response is recorded.
    Request {
        /// The id, number or string.
        id: Value,
        method: String,
        #[serde(default)]
        params: Value,
    },
    /// Responds with a text of this many bytes in the field `contents`.
    Big(usize),
    /// Repeats other steps.
    Repeat { count: usize, steps: Vec<Step> },
    /// Responds with the open documents: `{uri: {version, language, text}}`.
    Documents,
    /// Creates an empty file, unless it exists.
    EnsureFile(PathBuf),
    /// Starts `sleep` for an hour and writes its process id to a file.
    Grandchild {
        /// Whether the child has a process group of its own.
        #[serde(default)]
        own_group: bool,
        pid_file: PathBuf,
    },
}

impl Script {
    /// Creates a script with these server capabilities.
    pub fn new(capabilities: Value) -> Self {
        Self { capabilities, ..Self::default() }
    }

    /// Adds a turn for `method`.
    #[must_use]
    pub fn on(mut self, method: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.methods.entry(method.to_owned()).or_default().push(steps.into_iter().collect());
        self
    }

    /// Adds a step that runs before the server reads.
    #[must_use]
    pub fn at_start(mut self, step: Step) -> Self {
        self.start.push(step);
        self
    }
}

impl Step {
    pub fn notify(method: &str, params: Value) -> Self {
        Self::Notify { method: method.to_owned(), params }
    }

    /// A request with a string id.
    pub fn request(id: &str, method: &str, params: Value) -> Self {
        Self::Request { id: id.into(), method: method.to_owned(), params }
    }

    /// Waits until `count` messages of `method` were received.
    pub fn wait_for(method: &str, count: usize) -> Self {
        Self::WaitFor { method: method.to_owned(), count }
    }
}

/// Replaces each `${…}` in `value` by the result of `lookup`.
pub(crate) fn fill(value: &Value, lookup: &dyn Fn(&str) -> Option<Value>) -> Value {
    match value {
        Value::String(text) => fill_text(text, lookup),
        Value::Array(items) => items.iter().map(|item| fill(item, lookup)).collect(),
        Value::Object(map) => Value::Object(
            map.iter().map(|(key, value)| (fill_key(key, lookup), fill(value, lookup))).collect(),
        ),
        other => other.clone(),
    }
}

fn fill_key(key: &str, lookup: &dyn Fn(&str) -> Option<Value>) -> String {
    fill_text(key, lookup).as_str().unwrap_or(key).to_owned()
}

fn fill_text(text: &str, lookup: &dyn Fn(&str) -> Option<Value>) -> Value {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        let Some(value) = lookup(name) else {
            // The text is not a placeholder of the script, but a snippet's tab stop.
            out.push_str(&format!("{before}${{{name}}}"));
            rest = after;
            continue;
        };
        if before.is_empty() && after.is_empty() && out.is_empty() {
            return value;
        }
        out.push_str(before);
        out.push_str(&value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        rest = after;
    }
    out.push_str(rest);
    Value::String(out)
}
