//! The script of a debug adapter, as JSON.
//!
//! ```json
//! { "capabilities": {"supportsConfigurationDoneRequest": true},
//!  "record": "/tmp/x/record.jsonl",
//!  "commands": {"next": [[{"body": {}}, {"event": {"event": "stopped", "body": {"reason": "step"}}}]]} }
//! ```
//!
//! `commands` has a list of turns per command: the first request runs the first turn, and so on; the last is
//! repeated. Strings in bodies may hold `${arguments.a.b}` of the request; a string that is nothing else
//! becomes the value itself.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The behaviour of a scripted adapter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The body of the response to `initialize`, unless `commands` has one.
    pub capabilities: Value,
    /// The file to append each message to, one JSON per line.
    pub record: Option<PathBuf>,
    /// The file for the process id.
    pub pid_file: Option<PathBuf>,
    /// Steps that run before the adapter reads, and before it prints a port.
    pub start: Vec<Step>,
    pub commands: HashMap<String, Vec<Vec<Step>>>,
    /// Whether the adapter sends numbers as strings.
    pub string_ids: bool,
    /// The script for later connections to its port.
    ///
    /// `None`: later connections wait.
    pub child: Option<Box<Script>>,
}

/// One step of a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Responds to the request. May occur twice.
    Body(Value),
    Fail(String),
    /// Responds to the request of a chosen number, sent or not.
    AnswerTo {
        request_seq: Value,
        body: Value,
    },
    Event {
        event: String,
        #[serde(default)]
        body: Value,
    },
    /// Sends a request; its response is recorded.
    Request {
        /// The number, or a string.
        seq: Value,
        command: String,
        #[serde(default)]
        arguments: Value,
    },
    /// Waits this many milliseconds, for tests of slow responses.
    DelayMs(u64),
    /// Waits until `count` messages of `command` were received.
    ///
    /// `response` counts responses to the adapter's requests.
    WaitFor {
        command: String,
        count: usize,
    },
    /// Exits the process at once with this status; in process, ends the stream.
    Crash(i32),
    /// Writes to the error stream.
    Stderr(String),
    /// Writes bytes outside any message.
    Raw(String),
    /// Repeats other steps.
    Repeat {
        count: usize,
        steps: Vec<Step>,
    },
}

impl Script {
    /// Creates an adapter with the usual capabilities.
    pub fn new() -> Self {
        let capabilities = json!({
            "supportsConfigurationDoneRequest": true, "supportsConditionalBreakpoints": true,
            "supportsSetVariable": true,
            "exceptionBreakpointFilters": [{"filter": "uncaught", "label": "Uncaught", "default": true}],
        });
        Self { capabilities, ..Self::default() }
    }

    /// Adds a turn for `command`.
    #[must_use]
    pub fn on(mut self, command: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.commands.entry(command.to_owned()).or_default().push(steps.into_iter().collect());
        self
    }

    /// Adds a step that runs before the adapter reads.
    #[must_use]
    pub fn at_start(mut self, step: Step) -> Self {
        self.start.push(step);
        self
    }

    /// The steps of a well-behaved adapter, for commands without a turn.
    pub(super) fn usual(&self, command: &str) -> Vec<Step> {
        match command {
            "initialize" => {
                vec![Step::Body(self.capabilities.clone()), Step::event("initialized", Value::Null)]
            }
            "launch" | "attach" | "setExceptionBreakpoints" | "configurationDone" | "pause" | "cancel" => {
                vec![Step::Body(json!({}))]
            }
            "setBreakpoints" | "setFunctionBreakpoints" => {
                vec![Step::Body(json!({"breakpoints": "${placed}"}))]
            }
            "threads" => vec![Step::Body(json!({"threads": [{"id": 1, "name": "main"}]}))],
            "continue" => vec![Step::Body(json!({"allThreadsContinued": true}))],
            "next" | "stepIn" | "stepOut" => vec![Step::Body(json!({})), Step::stopped("step")],
            "stackTrace" => vec![Step::Body(json!({"totalFrames": 1, "stackFrames": [
                {"id": 1000, "name": "main", "line": 1, "column": 1}]}))],
            "scopes" => vec![Step::Body(json!({"scopes": [
                {"name": "Locals", "presentationHint": "locals", "variablesReference": 1, "expensive": false}]}))],
            "variables" => vec![Step::Body(json!({"variables": [
                {"name": "n", "value": "3", "type": "int", "variablesReference": 0}]}))],
            "disconnect" | "terminate" => {
                vec![Step::Body(json!({})), Step::event("terminated", Value::Null)]
            }
            other => vec![Step::Fail(format!("no script for {other}"))],
        }
    }
}

impl Step {
    pub fn event(event: &str, body: Value) -> Self {
        Self::Event { event: event.to_owned(), body }
    }

    /// The event `stopped` of thread 1, for all threads.
    pub fn stopped(reason: &str) -> Self {
        Self::event("stopped", json!({"reason": reason, "threadId": 1, "allThreadsStopped": true}))
    }

    /// Creates one line of the program's standard output.
    pub fn output(line: &str) -> Self {
        Self::event("output", json!({"category": "stdout", "output": format!("{line}\n")}))
    }

    /// Waits until `count` messages of `command` were received.
    pub fn wait_for(command: &str, count: usize) -> Self {
        Self::WaitFor { command: command.to_owned(), count }
    }
}
