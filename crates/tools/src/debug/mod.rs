//! The tool `debug`: runs programs under a debugger.
//!
//! Each action returns what a user would inspect next. `dap_client` owns adapters and sessions; this module asks
//! for permissions and renders results.

mod actions;
mod advanced;
mod cargo_tests;
mod caught_exceptions;
mod configs;
mod inspect;
mod js_test_filter;
mod launch;
mod probe;
mod python_tests;
mod runners;
mod side_effects;
mod signals;
mod snapshot;
mod test;
mod test_discovery;
mod test_search;
mod trace;
mod values;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agent::{ToolCx, ToolResult};
use dap_client::{Clock, DapError, Session, State};
use llm::ToolDefinition;
use parking_lot::Mutex;
use serde_json::{Value, json};

use actions::{Action, Call};

use crate::bash::CommandHosts;
use crate::described::{BuiltIn, Described};
use crate::{Failure, ToolContext};

/// Default and maximum timeout of an action, in seconds.
const TIMEOUT: u64 = 30;
const MAX_TIMEOUT: u64 = 300;

/// Time to stop for a session that may run for long.
///
/// Another of its tree is stopped, or it attached to a running program.
const SHORT_WAIT: Duration = Duration::from_secs(1);

/// Words of a first prompt that suggest debugging.
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

pub struct Debug {
    context: Arc<ToolContext>,
    last_snapshots: Mutex<HashMap<String, snapshot::LastSnapshot>>,
    /// The hosts of each session.
    hosts: Mutex<HashMap<String, Arc<CommandHosts>>>,
}

impl Debug {
    pub fn new(context: Arc<ToolContext>) -> Described<Self> {
        let definition = ToolDefinition {
            name: "debug".to_owned(),
            label: "Debugger".to_owned(),
            description: include_str!("debug.md").trim().to_owned(),
            parameters: actions::SCHEMA.clone(),
        };
        // Sequential: a step and a concurrent inspection would see different stops.
        Described::of(definition, Self { context, last_snapshots: Mutex::default(), hosts: Mutex::default() })
            .for_words(WHEN)
            .sequential()
    }
}

impl BuiltIn for Debug {
    async fn run(&self, args: Value, cx: &ToolCx) -> Answer {
        let result = self.call(args, cx).await.unwrap_or_else(ToolResult::from);
        Ok(match self.unsaved_note() {
            // The program runs from disk.
            Some(note) => advanced::prepend(&note, result),
            None => result,
        })
    }
}

/// The result of an action.
type Answer = Result<ToolResult, Failure>;

/// A call with the time that it has.
#[derive(Clone, Copy)]
struct Cx<'a> {
    call: &'a ToolCx,
    clock: &'a Clock,
}

impl std::ops::Deref for Cx<'_> {
    type Target = ToolCx;

    fn deref(&self) -> &ToolCx {
        self.call
    }
}

impl Debug {
    async fn call(&self, args: Value, call: &ToolCx) -> Answer {
        let command = command_line(&args);
        let (Call { action, session, timeout }, name) = Call::read(args)?;
        let usual = if action.takes_long() { MAX_TIMEOUT } else { TIMEOUT };
        let seconds = timeout.unwrap_or(usual).clamp(1, MAX_TIMEOUT);
        let clock = &Clock::new(Duration::from_secs(seconds), &call.cancel);
        let cx = Cx { call, clock };
        if action.starts() {
            crate::unsaved::confirm(&self.context, &command, call).await?;
        }
        let session = || -> Result<Arc<Session>, Failure> {
            let session = self.context.debug.get(session.as_deref(), &cx.starter)?;
            if action.changes() {
                session.in_control(&name)?;
            }
            Ok(session)
        };
        match &action {
            Action::Launch(args) => self.launch(args, false, cx).await,
            Action::Attach(args) => self.launch(args, true, cx).await,
            Action::Configs(args) => self.configs(args, cx).await,
            Action::Test(args) => self.test(args, cx).await,
            Action::Probe(args) => self.probe(args, cx).await,
            Action::Sessions => Ok(self.sessions()),
            Action::Continue(args) => {
                let session = session()?;
                self.run_on(&session, "continue", args, clock).await?;
                // This session may wait for another of its tree.
                let waits = timeout.is_none() && self.another_is_stopped(&session);
                let soon = Clock::new(SHORT_WAIT, &cx.cancel);
                self.snapshot(&session, Cx { clock: if waits { &soon } else { clock }, ..cx }).await
            }
            Action::StepOver(args) => self.step(&session()?, "next", args, cx).await,
            Action::StepIn(args) => self.step(&session()?, "stepIn", args, cx).await,
            Action::StepOut(args) => self.step(&session()?, "stepOut", args, cx).await,
            Action::StepBack(args) => self.step(&session()?, "stepBack", args, cx).await,
            Action::ReverseContinue(args) => self.step(&session()?, "reverseContinue", args, cx).await,
            Action::RunTo(args) => self.run_to(&session()?, args, cx).await,
            Action::Goto(args) => self.goto(&session()?, args, cx).await,
            Action::Restart => self.restart(&session()?, cx).await,
            Action::Trace(args) => self.trace(&session()?, args, cx).await,
            Action::Pause(args) => {
                let session = session()?;
                session.pause(args.thread, clock).await?;
                self.paused(&session, cx).await
            }
            Action::Snapshot => self.snapshot(&session()?, cx).await,
            Action::Breakpoints(args) => self.breakpoints(&session()?, args, cx).await,
            Action::Threads => self.threads(&*session()?, clock).await,
            Action::Stack(args) => self.stack(&*session()?, args, clock).await,
            Action::Scopes(args) => self.scopes(&*session()?, args, clock).await,
            Action::Variables(args) => self.variables(&*session()?, args, clock).await,
            Action::Evaluate(args) => self.evaluate(&*session()?, args, cx).await,
            Action::SetVariable(args) => self.set_variable(&*session()?, args, cx).await,
            Action::SetExpression(args) => self.set_expression(&*session()?, args, cx).await,
            Action::ExceptionInfo(args) => self.exception_info(&*session()?, args, clock).await,
            Action::Completions(args) => self.completions(&*session()?, args, clock).await,
            Action::Modules => self.loaded(&*session()?, true, clock).await,
            Action::LoadedSources => self.loaded(&*session()?, false, clock).await,
            Action::Source(args) => self.source(&*session()?, args, clock).await,
            Action::Disassemble(args) => self.disassemble(&*session()?, args, cx).await,
            Action::ReadMemory(args) => self.read_memory(&*session()?, args, cx).await,
            Action::WriteMemory(args) => self.write_memory(&*session()?, args, cx).await,
            Action::Request(args) => self.request(&session()?, args, cx).await,
            Action::Output(args) => Ok(self.output(&*session()?, args)),
            Action::Terminate => self.terminate(&session()?, cx).await,
            Action::Disconnect => {
                let session = session()?;
                session.disconnect(clock).await;
                self.snapshot(&session, cx).await
            }
        }
    }

    /// Ends a session. Asks the user about a program that Pilcrow did not start.
    async fn terminate(&self, session: &Arc<Session>, cx: Cx<'_>) -> Answer {
        if session.is_external() {
            cx.permit_debug(&format!("end the user's session {}", session.title)).await?;
        } else if !session.is_ours() && !matches!(session.state(), State::Terminated(_)) {
            session.can_end()?;
            cx.permit_debug(&format!("end what it was attached to, {}", session.title)).await?;
        }
        self.context.debug.terminate(session, cx.clock).await;
        self.snapshot(session, cx).await
    }

    /// Renders a note about open documents that are not saved, and proposed edits.
    fn unsaved_note(&self) -> Option<String> {
        let names = self.context.unsaved_files();
        let unsaved = (!names.is_empty()).then(|| format!("not saved: {}", names.join(", ")));
        let notes = [unsaved, self.context.proposed_note()];
        let lines: Vec<String> = notes.into_iter().flatten().map(|line| format!("{line}\n")).collect();
        (!lines.is_empty()).then(|| lines.concat())
    }

    fn sessions(&self) -> ToolResult {
        let sessions = self.context.debug.list();
        let mut text = String::new();
        let mut list = Vec::new();
        for session in &sessions {
            let state = match &session.state() {
                State::Terminated(end) => snapshot::ended(
                    &self.context.debug.end_of(session).unwrap_or_else(|| end.clone()),
                    &session.adapter,
                ),
                other if session.is_unresponsive() => {
                    format!("{}, but its adapter does not answer", other.name())
                }
                other => other.name().to_owned(),
            };
            let parent =
                session.parent.as_ref().map(|parent| format!(", child of {parent}")).unwrap_or_default();
            let status = session.hub_status();
            let user = match status.joined_clients {
                _ if matches!(session.state(), State::Terminated(_)) => "",
                0 => "",
                _ if session.is_external() && status.controller == dap_client::hub::Controller::Agent => {
                    ", started by the user"
                }
                _ if session.is_external() => ", started by the user, who has control",
                _ if status.controller == dap_client::hub::Controller::User => ", the user has control",
                _ => ", the user is watching",
            };
            text.push_str(&format!(
                "{}: {} ({}{parent}), {state}{user}\n",
                session.id, session.title, session.adapter.name
            ));
            let mut described = self.context.debug.describe(session);
            inspect::merge(
                &mut described,
                json!({ "controller": status.controller.name(), "persons": status.joined_clients }),
            );
            list.push(described);
        }
        if sessions.is_empty() {
            text = "no debug sessions; `launch` a program\n".to_owned();
        }
        ToolResult::text(text).with_details(json!({ "sessions": list }))
    }
}

/// Renders a call as a command line for the user.
fn command_line(args: &Value) -> String {
    let named =
        ["program", "module", "config", "name", "session", "file"].iter().find_map(|it| args[it].as_str());
    let words = args["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words = ["debug"].into_iter().chain(args["action"].as_str()).chain(named).chain(words);
    words.collect::<Vec<_>>().join(" ")
}

/// Creates the failure of a call that lacks an argument.
fn needs(action: &str, argument: &str) -> Failure {
    Failure::invalid(format!("`{action}` needs `{argument}`"))
}

impl From<DapError> for Failure {
    fn from(error: DapError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
