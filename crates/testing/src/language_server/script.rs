//! What a script can say. JSON, read by `serde`:
//!
//! ```json
//! { "capabilities": {"referencesProvider": true},
//!   "record": "/tmp/x/record.jsonl",
//!   "start": [{"stdout": "hello\n"}],
//!   "methods": {"textDocument/references": [[{"delay_ms": 50}, {"result": []}]]} }
//! ```
//!
//! `methods` gives for each method a list of turns: the first call runs the first turn, and so on; the
//! last is repeated. A turn is a list of steps. Strings in results may hold `${params.a.b}` (of the
//! message that is answered), `${root}` (the root's URI), `${version}` and `${text}` (of the document
//! that the message is about, as it was when the turn began) and `${documents}` (all open ones by URI);
//! a string that is nothing else becomes the value itself.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All that a scripted server does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// `capabilities` of the answer to `initialize`, unless `methods` says otherwise.
    pub capabilities: Value,
    /// Where each message is appended, one JSON a line.
    pub record: Option<PathBuf>,
    /// Where the process id is written at the start.
    pub pid_file: Option<PathBuf>,
    /// Done before anything is read.
    pub start: Vec<Step>,
    /// Turns by method, of requests and notifications.
    pub methods: HashMap<String, Vec<Vec<Step>>>,
    /// `exit` and the end of the input are ignored.
    pub stay: bool,
}

/// One thing to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Answers the message. May be done twice.
    Result(Value),
    /// Answers with an error: `{"code", "message"}`.
    Error(Value),
    /// Answers an id of its own choosing.
    AnswerId {
        /// The id.
        id: Value,
        /// The result.
        result: Value,
    },
    /// Waits so many milliseconds, for tests of what takes time.
    DelayMs(u64),
    /// Waits until `count` messages of `method` have come, this one included.
    WaitFor {
        /// The method; `response` counts answers to our requests.
        method: String,
        /// How many.
        count: usize,
    },
    /// The turn ends here without an answer.
    Never,
    /// The process ends at once with this status; in process, the stream ends.
    Crash(i32),
    /// Writes to the error stream.
    Stderr(String),
    /// Writes bytes to the output, outside any message.
    Stdout(String),
    /// Sends a notification.
    Notify {
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default)]
        params: Value,
    },
    /// Sends a request; the answer is recorded.
    Request {
        /// Its id, number or string.
        id: Value,
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default)]
        params: Value,
    },
    /// Answers with a text of so many bytes in the field `contents`.
    Big(usize),
    /// Does other steps again and again.
    Repeat {
        /// How often.
        count: usize,
        /// What.
        steps: Vec<Step>,
    },
    /// Answers with the open documents: `{uri: {version, language, text}}`.
    Documents,
    /// Makes an empty file, unless it is there.
    EnsureFile(PathBuf),
    /// Starts `sleep` for an hour and writes its process id to a file.
    Grandchild {
        /// In a process group of its own.
        #[serde(default)]
        own_group: bool,
        /// The file.
        pid_file: PathBuf,
    },
}

impl Script {
    /// A script with these server capabilities.
    pub fn new(capabilities: Value) -> Self {
        Self { capabilities, ..Self::default() }
    }

    /// With one more turn for `method`.
    #[must_use]
    pub fn on(mut self, method: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.methods.entry(method.to_owned()).or_default().push(steps.into_iter().collect());
        self
    }

    /// With one more step before anything is read.
    #[must_use]
    pub fn at_start(mut self, step: Step) -> Self {
        self.start.push(step);
        self
    }
}

impl Step {
    /// A notification.
    pub fn notify(method: &str, params: Value) -> Self {
        Self::Notify { method: method.to_owned(), params }
    }

    /// A request with a string id.
    pub fn request(id: &str, method: &str, params: Value) -> Self {
        Self::Request { id: id.into(), method: method.to_owned(), params }
    }

    /// Waits until `count` messages of `method` have come.
    pub fn wait_for(method: &str, count: usize) -> Self {
        Self::WaitFor { method: method.to_owned(), count }
    }
}

/// `value` with its `${…}` replaced by what `lookup` knows.
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
            // Not ours: a snippet's tab stop.
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
