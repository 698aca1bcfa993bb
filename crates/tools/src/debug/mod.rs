//! The tool `debug`: a program under a debugger, by actions that each answer with what a person would look
//! at next.
//!
//! Adapters and sessions are `dap_client`'s. Here is who is asked, and what is shown.

mod cargos;
mod configs;
mod expected;
mod extensions;
mod harmless;
mod launch;
mod look;
mod more;
mod named;
mod probe;
mod pythons;
mod report;
mod runners;
mod signals;
mod snapshot;
mod test;
mod titles;
mod trace;
mod values;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::{ExecutionMode, Presence, Tool, ToolCx, ToolResult};
use dap_client::{Clock, DapError, State};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{Effects, ErrorCode};

use crate::{Failure, Kit, arguments, shown};

/// How long an action may take unless it says otherwise, and at most.
const TIMEOUT: u64 = 30;
const MAX_TIMEOUT: u64 = 300;

/// Words of a first prompt that are about a program that runs: a crash, a failing test, a debugger.
const WHEN: &[&str] = &[
    "breakpoint",
    "breakpoints",
    "coredump",
    "crash",
    "crashed",
    "crashes",
    "crashing",
    "debug",
    "debugger",
    "debugging",
    "delve",
    "dlv",
    "failed",
    "failing",
    "fails",
    "failure",
    "gdb",
    "lldb",
    "panic",
    "panicked",
    "panics",
    "pdb",
    "segfault",
    "segfaults",
    "segmentation",
    "stacktrace",
    "traceback",
];

/// The tool.
pub struct Debug {
    kit: Arc<Kit>,
    definition: ToolDefinition,
    seen: Mutex<HashMap<String, snapshot::Seen>>,
}

/// What a model may write.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Arguments {
    action: String,
    session: Option<String>,
    program: Option<String>,
    module: Option<String>,
    args: Vec<String>,
    cwd: Option<String>,
    env: Option<HashMap<String, String>>,
    adapter: Option<String>,
    breakpoints: Vec<Point>,
    functions: Vec<String>,
    exceptions: Option<Vec<String>>,
    stop_on_entry: bool,
    pid: Option<i64>,
    host: Option<String>,
    port: Option<u16>,
    thread: Option<i64>,
    frame: Option<i64>,
    expression: Option<String>,
    name: Option<String>,
    value: Option<String>,
    variables_reference: Option<i64>,
    start: Option<u64>,
    count: Option<u64>,
    filter: Option<String>,
    context: Option<String>,
    file: Option<String>,
    line: Option<u64>,
    remove: bool,
    timeout: Option<u64>,
    arguments: Option<String>,
    config: Option<String>,
    granularity: Option<String>,
    memory_reference: Option<String>,
    offset: Option<i64>,
    data_id: Option<String>,
    condition: Option<String>,
    hit: Option<String>,
    log: Option<String>,
    access: Option<String>,
    points: Vec<probe::Watched>,
    until: Option<String>,
    on: Option<String>,
    command: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Point {
    file: String,
    line: u64,
    column: Option<u64>,
    condition: Option<String>,
    hit: Option<String>,
    log: Option<String>,
}

/// Every action there is; the schema's list.
const ACTIONS: &[&str] = &[
    "launch",
    "attach",
    "configs",
    "test",
    "probe",
    "trace",
    "breakpoints",
    "continue",
    "step_over",
    "step_in",
    "step_out",
    "step_back",
    "reverse_continue",
    "run_to",
    "goto",
    "pause",
    "restart",
    "snapshot",
    "threads",
    "stack",
    "scopes",
    "variables",
    "evaluate",
    "set_variable",
    "set_expression",
    "exception_info",
    "completions",
    "modules",
    "loaded_sources",
    "source",
    "disassemble",
    "read_memory",
    "write_memory",
    "output",
    "request",
    "sessions",
    "terminate",
    "disconnect",
];

/// Actions that change the program or end it, beside those that run it: not the agent's while the person has
/// control.
const CHANGES: &[&str] =
    &["set_variable", "set_expression", "write_memory", "goto", "restart", "run_to", "terminate"];

/// Actions that start a program from what is on disk.
const STARTS: &[&str] = &["launch", "test", "probe", "restart"];

impl Arguments {
    /// For people.
    fn what_runs(&self) -> String {
        let named = [&self.program, &self.module, &self.config, &self.name, &self.session, &self.file];
        let named = named.into_iter().flatten().next().map(String::as_str).unwrap_or_default();
        let words =
            ["debug", self.action.as_str(), named].into_iter().chain(self.args.iter().map(String::as_str));
        words.filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The parameters of all actions.
fn schema() -> Value {
    let plain = json!({ "type": "string" });
    let number = json!({ "type": "integer" });
    let yes = json!({ "type": "boolean" });
    let text = |about: &str| json!({ "type": "string", "description": about });
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let point = json!({ "type": "object", "required": ["file", "line"], "properties": {
        "file": plain, "line": number, "column": number, "condition": plain,
        "hit": text("count, as the debugger reads it"), "log": text("message with {expressions}; does not stop"),
    } });
    let watched = json!({ "type": "object", "required": ["file", "line", "expressions"], "properties": {
        "file": plain, "line": number, "expressions": list,
    } });
    // Two values, since the macro takes no longer one.
    let mut properties = json!({
        "action": { "type": "string", "enum": ACTIONS },
        "session": plain,
        "program": text("file to run"),
        "module": plain,
        "args": list,
        "cwd": plain,
        "env": { "type": "object", "description": "variables and their values" },
        "adapter": plain,
        "breakpoints": { "type": "array", "items": point },
        "functions": list,
        "exceptions": list,
        "stop_on_entry": yes,
        "pid": number,
        "host": plain,
        "port": number,
    });
    let more = json!({
        "thread": number,
        "frame": number,
        "expression": plain,
        "name": plain,
        "value": plain,
        "variables_reference": number,
        "start": number,
        "count": number,
        "filter": { "type": "string", "enum": ["indexed", "named"] },
        "context": { "type": "string", "enum": ["watch", "repl", "hover"] },
        "file": plain,
        "line": number,
        "remove": yes,
        "config": text("a name in .vscode/launch.json"),
        "granularity": { "type": "string", "enum": ["statement", "line", "instruction"] },
        "memory_reference": plain,
        "offset": number,
        "data_id": plain,
        "condition": plain,
        "hit": plain,
        "log": plain,
        "access": { "type": "string", "enum": ["read", "write", "readWrite"] },
        "points": { "type": "array", "items": watched },
        "until": text("FILE:LINE, or an expression that becomes true"),
        "on": { "type": "string", "enum": ["failure"] },
        "command": text("of the protocol"),
        "timeout": { "type": "integer", "description": "seconds" },
        "arguments": text("JSON laid over the adapter's own launch arguments, or of `request`"),
    });
    look::merge(&mut properties, more);
    json!({ "type": "object", "properties": properties, "required": ["action"] })
}

impl Debug {
    /// The tool over `kit`.
    pub fn new(kit: Arc<Kit>) -> Self {
        let definition = ToolDefinition {
            name: "debug".to_owned(),
            label: "Debugger".to_owned(),
            description: shown::described(&kit, include_str!("debug.md")),
            parameters: schema(),
        };
        Self { kit, definition, seen: Mutex::default() }
    }
}

impl Tool for Debug {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn presence(&self) -> Presence {
        Presence::Search { when: WHEN }
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects { reads: true, ..Effects::default() }
    }

    fn execution_mode(&self) -> ExecutionMode {
        // A step and a look beside it would be about different stops.
        ExecutionMode::Sequential
    }

    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let result = self.run(args, cx).await.unwrap_or_else(ToolResult::from);
            match self.not_saved() {
                // What runs is what is on disk.
                Some(said) => more::before(&said, result),
                None => result,
            }
        })
    }
}

impl Debug {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let args: Arguments = arguments(args)?;
        // What builds, or runs a program to its end, takes longer than a step.
        let usual = if ["test", "probe"].contains(&args.action.as_str()) { MAX_TIMEOUT } else { TIMEOUT };
        let seconds = args.timeout.unwrap_or(usual).clamp(1, MAX_TIMEOUT);
        let clock = Clock::new(Duration::from_secs(seconds), &cx.cancel);
        if STARTS.contains(&args.action.as_str()) {
            crate::unsaved::agreed(&self.kit, &args.what_runs(), cx).await?;
        }
        match args.action.as_str() {
            "launch" | "attach" => return self.launch(&args, cx, &clock).await,
            "configs" => return self.configs(&args, cx).await,
            "test" => return self.test(&args, cx, &clock).await,
            "probe" => return self.probe(&args, cx, &clock).await,
            "sessions" => return Ok(self.sessions()),
            action if !ACTIONS.contains(&action) => {
                let message = format!("`{action}` is no action of debug; there are: {}", ACTIONS.join(", "));
                return Err(Failure::new(ErrorCode::InvalidArguments, message));
            }
            _ => {}
        }
        let session = self.kit.debug.get(args.session.as_deref(), &cx.starter)?;
        if CHANGES.contains(&args.action.as_str()) {
            session.in_control(&args.action)?;
        }
        match args.action.as_str() {
            "continue" => self.step(&session, "continue", &args, cx, &clock).await,
            "step_over" => self.step(&session, "next", &args, cx, &clock).await,
            "step_in" => self.step(&session, "stepIn", &args, cx, &clock).await,
            "step_out" => self.step(&session, "stepOut", &args, cx, &clock).await,
            "step_back" => self.step(&session, "stepBack", &args, cx, &clock).await,
            "reverse_continue" => self.step(&session, "reverseContinue", &args, cx, &clock).await,
            "run_to" => self.run_to(&session, &args, cx, &clock).await,
            "goto" => self.goto(&session, &args, cx, &clock).await,
            "restart" => self.restart(&session, cx, &clock).await,
            "trace" => self.trace(&session, &args, cx, &clock).await,
            "pause" => {
                session.pause(args.thread, &clock).await?;
                self.snapshot(&session, cx, &clock).await
            }
            "snapshot" => self.snapshot(&session, cx, &clock).await,
            "breakpoints" => self.breakpoints(&session, &args, cx, &clock).await,
            "threads" => self.threads(&session, &clock).await,
            "stack" => self.stack(&session, &args, &clock).await,
            "scopes" => self.scopes(&session, &args, &clock).await,
            "variables" => self.variables(&session, &args, &clock).await,
            "evaluate" => self.evaluate(&session, &args, cx, &clock).await,
            "set_variable" => self.set_variable(&session, &args, cx, &clock).await,
            "set_expression" => self.set_expression(&session, &args, cx, &clock).await,
            "exception_info" => self.exception_info(&session, &args, &clock).await,
            "completions" => self.completions(&session, &args, &clock).await,
            "modules" => self.loaded(&session, true, &clock).await,
            "loaded_sources" => self.loaded(&session, false, &clock).await,
            "source" => self.source(&session, &args, &clock).await,
            "disassemble" => self.disassemble(&session, &args, cx, &clock).await,
            "read_memory" => self.read_memory(&session, &args, cx, &clock).await,
            "write_memory" => self.write_memory(&session, &args, cx, &clock).await,
            "request" => self.request(&session, &args, cx, &clock).await,
            "output" => Ok(self.output(&session, &args)),
            "terminate" => {
                if session.is_theirs() {
                    cx.permit_debug(&format!("end the person's session {}", session.title)).await?;
                } else if !session.is_ours() && !matches!(session.state(), State::Terminated(_)) {
                    session.can_end()?;
                    cx.permit_debug(&format!("end what it was attached to, {}", session.title)).await?;
                }
                self.kit.debug.terminate(&session, &clock).await;
                self.snapshot(&session, cx, &clock).await
            }
            _ => {
                session.disconnect(&clock).await;
                self.snapshot(&session, cx, &clock).await
            }
        }
    }

    /// Open documents that are not on disk as the editor has them.
    fn not_saved(&self) -> Option<String> {
        let names = self.kit.not_saved();
        (!names.is_empty()).then(|| format!("not saved: {}\n", names.join(", ")))
    }

    fn sessions(&self) -> ToolResult {
        let sessions = self.kit.debug.list();
        let mut text = String::new();
        let mut list = Vec::new();
        for it in &sessions {
            let shown = match &it.state() {
                State::Terminated(end) => {
                    snapshot::ended(&self.kit.debug.end_of(it).unwrap_or_else(|| end.clone()), &it.adapter)
                }
                other => other.name().to_owned(),
            };
            let of = it.parent.as_ref().map(|parent| format!(", of {parent}")).unwrap_or_default();
            let shared = it.shared();
            let joined = match shared.persons {
                0 => "",
                _ if it.is_theirs() && shared.controller == dap_client::hub::Controller::Agent => {
                    ", started by the person"
                }
                _ if it.is_theirs() => ", started by the person, who has control",
                _ if shared.controller == dap_client::hub::Controller::Person => ", the person has control",
                _ => ", the person looks on",
            };
            text.push_str(&format!("{}: {} ({}{of}), {shown}{joined}\n", it.id, it.title, it.adapter.name));
            let mut described = self.kit.debug.describe(it);
            look::merge(
                &mut described,
                json!({ "controller": shared.controller.name(), "persons": shared.persons }),
            );
            list.push(described);
        }
        if sessions.is_empty() {
            text = "no debug sessions; `launch` a program\n".to_owned();
        }
        ToolResult::text(text).with_details(json!({ "sessions": list }))
    }
}

/// What an action lacks.
fn needs(action: &str, argument: &str) -> Failure {
    Failure::new(ErrorCode::InvalidArguments, format!("`{action}` needs `{argument}`"))
}

impl From<DapError> for Failure {
    fn from(error: DapError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
