//! What a script can say. JSON, read by `serde`:
//!
//! ```json
//! { "capabilities": {"supportsConfigurationDoneRequest": true},
//!   "record": "/tmp/x/record.jsonl",
//!   "commands": {"next": [[{"body": {}}, {"event": {"event": "stopped", "body": {"reason": "step"}}}]]} }
//! ```
//!
//! `commands` gives for each command a list of turns: the first request runs the first turn, and so on; the
//! last is repeated. Strings in bodies may hold `${arguments.a.b}` of the request that is answered; a string
//! that is nothing else becomes the value itself.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// All that a scripted adapter does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The body of the answer to `initialize`, unless `commands` says otherwise.
    pub capabilities: Value,
    /// Where each message is appended, one JSON a line.
    pub record: Option<PathBuf>,
    /// Where the process id is written at the start.
    pub pid_file: Option<PathBuf>,
    /// Done before anything is read, and before a port is printed.
    pub start: Vec<Step>,
    /// Turns by command.
    pub commands: HashMap<String, Vec<Vec<Step>>>,
    /// Numbers go out as strings.
    pub string_ids: bool,
    /// What second and later connections to its port are served with; without it they wait.
    pub child: Option<Box<Script>>,
}

/// One thing to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Answers the request. May be done twice.
    Body(Value),
    /// Refuses the request.
    Fail(String),
    /// Answers a number of its own choosing.
    AnswerTo {
        /// The number.
        request_seq: Value,
        /// The body.
        body: Value,
    },
    /// Tells.
    Event {
        /// What.
        event: String,
        /// More.
        #[serde(default)]
        body: Value,
    },
    /// Asks; the answer is recorded.
    Request {
        /// Its number, or a string.
        seq: Value,
        /// What.
        command: String,
        /// More.
        #[serde(default)]
        arguments: Value,
    },
    /// Waits so many milliseconds, for tests of what takes time.
    DelayMs(u64),
    /// Waits until `count` messages of `command` have come; `response` counts answers to our requests.
    WaitFor {
        /// The command.
        command: String,
        /// How many.
        count: usize,
    },
    /// The process ends at once with this status; in process, the stream ends.
    Crash(i32),
    /// Writes to the error stream.
    Stderr(String),
    /// Writes bytes to the stream, outside any message.
    Raw(String),
    /// Does other steps again and again.
    Repeat {
        /// How often.
        count: usize,
        /// What.
        steps: Vec<Step>,
    },
}

impl Script {
    /// One that can do what most adapters can.
    pub fn new() -> Self {
        let capabilities = json!({
            "supportsConfigurationDoneRequest": true, "supportsConditionalBreakpoints": true,
            "supportsSetVariable": true,
            "exceptionBreakpointFilters": [{"filter": "uncaught", "label": "Uncaught", "default": true}],
        });
        Self { capabilities, ..Self::default() }
    }

    /// With one more turn for `command`.
    #[must_use]
    pub fn on(mut self, command: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.commands.entry(command.to_owned()).or_default().push(steps.into_iter().collect());
        self
    }

    /// With one more step before anything is read.
    #[must_use]
    pub fn at_start(mut self, step: Step) -> Self {
        self.start.push(step);
        self
    }

    /// What a well-behaved adapter does where the script says nothing.
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
    /// An event.
    pub fn event(event: &str, body: Value) -> Self {
        Self::Event { event: event.to_owned(), body }
    }

    /// The event `stopped` of thread 1, for all.
    pub fn stopped(reason: &str) -> Self {
        Self::event("stopped", json!({"reason": reason, "threadId": 1, "allThreadsStopped": true}))
    }

    /// One line of the program's standard output.
    pub fn output(line: &str) -> Self {
        Self::event("output", json!({"category": "stdout", "output": format!("{line}\n")}))
    }

    /// Waits until `count` messages of `command` have come.
    pub fn wait_for(command: &str, count: usize) -> Self {
        Self::WaitFor { command: command.to_owned(), count }
    }
}
