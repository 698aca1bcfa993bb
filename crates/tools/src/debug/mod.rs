//! The tool `debug`: a program under a debugger, by actions that each answer with what a person would look
//! at next.
//!
//! Adapters and sessions are `dap_client`'s. Here is who is asked, and what is shown.

mod actions;
mod advanced;
mod cargo_tests;
mod caught_exceptions;
mod configs;
mod harmless;
mod inspect;
mod js_test_filter;
mod launch;
mod probe;
mod python_tests;
mod runners;
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

use agent::{ExecutionMode, Presence, Tool, ToolCx, ToolResult};
use dap_client::{Clock, DapError, Session, State};
use futures_util::future::BoxFuture;
use llm::ToolDefinition;
use parking_lot::Mutex;
use policy::{Effects, ErrorCode};
use serde_json::{Value, json};

use actions::{Action, Call};

use crate::{Failure, ToolContext, display};

/// How long an action may take unless it says otherwise, and at most.
const TIMEOUT: u64 = 30;
const MAX_TIMEOUT: u64 = 300;

/// How long a session that continues is waited for while another of its tree is stopped.
const BESIDE: Duration = Duration::from_secs(1);

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

pub struct Debug {
    context: Arc<ToolContext>,
    definition: ToolDefinition,
    seen: Mutex<HashMap<String, snapshot::Seen>>,
}

impl Debug {
    pub fn new(context: Arc<ToolContext>) -> Self {
        let definition = ToolDefinition {
            name: "debug".to_owned(),
            label: "Debugger".to_owned(),
            description: display::described(&context, include_str!("debug.md")),
            parameters: actions::schema(),
        };
        Self { context, definition, seen: Mutex::default() }
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
                Some(said) => advanced::before(&said, result),
                None => result,
            }
        })
    }
}

impl Debug {
    async fn run(&self, args: Value, cx: &ToolCx) -> Result<ToolResult, Failure> {
        let command = command_line(&args);
        let (Call { action, session, timeout }, name) = Call::read(args)?;
        let usual = if action.takes_long() { MAX_TIMEOUT } else { TIMEOUT };
        let seconds = timeout.unwrap_or(usual).clamp(1, MAX_TIMEOUT);
        let clock = &Clock::new(Duration::from_secs(seconds), &cx.cancel);
        if action.starts() {
            crate::unsaved::agreed(&self.context, &command, cx).await?;
        }
        let session = || -> Result<Arc<Session>, Failure> {
            let session = self.context.debug.get(session.as_deref(), &cx.starter)?;
            if action.changes() {
                session.in_control(&name)?;
            }
            Ok(session)
        };
        match &action {
            Action::Launch(args) => self.launch(args, false, cx, clock).await,
            Action::Attach(args) => self.launch(args, true, cx, clock).await,
            Action::Configs(args) => self.configs(args, cx).await,
            Action::Test(args) => self.test(args, cx, clock).await,
            Action::Probe(args) => self.probe(args, cx, clock).await,
            Action::Sessions => Ok(self.sessions()),
            Action::Continue(args) => {
                let session = session()?;
                self.run_on(&session, "continue", args, clock).await?;
                // Another session of the tree may be what this one waits for.
                let waits = timeout.is_none() && self.another_waits(&session);
                let soon = Clock::new(BESIDE, &cx.cancel);
                self.snapshot(&session, cx, if waits { &soon } else { clock }).await
            }
            Action::StepOver(args) => self.step(&session()?, "next", args, cx, clock).await,
            Action::StepIn(args) => self.step(&session()?, "stepIn", args, cx, clock).await,
            Action::StepOut(args) => self.step(&session()?, "stepOut", args, cx, clock).await,
            Action::StepBack(args) => self.step(&session()?, "stepBack", args, cx, clock).await,
            Action::ReverseContinue(args) => self.step(&session()?, "reverseContinue", args, cx, clock).await,
            Action::RunTo(args) => self.run_to(&session()?, args, cx, clock).await,
            Action::Goto(args) => self.goto(&session()?, args, cx, clock).await,
            Action::Restart => self.restart(&session()?, cx, clock).await,
            Action::Trace(args) => self.trace(&session()?, args, cx, clock).await,
            Action::Pause(args) => {
                let session = session()?;
                session.pause(args.thread, clock).await?;
                self.snapshot(&session, cx, clock).await
            }
            Action::Snapshot => self.snapshot(&session()?, cx, clock).await,
            Action::Breakpoints(args) => self.breakpoints(&session()?, args, cx, clock).await,
            Action::Threads => self.threads(&*session()?, clock).await,
            Action::Stack(args) => self.stack(&*session()?, args, clock).await,
            Action::Scopes(args) => self.scopes(&*session()?, args, clock).await,
            Action::Variables(args) => self.variables(&*session()?, args, clock).await,
            Action::Evaluate(args) => self.evaluate(&*session()?, args, cx, clock).await,
            Action::SetVariable(args) => self.set_variable(&*session()?, args, cx, clock).await,
            Action::SetExpression(args) => self.set_expression(&*session()?, args, cx, clock).await,
            Action::ExceptionInfo(args) => self.exception_info(&*session()?, args, clock).await,
            Action::Completions(args) => self.completions(&*session()?, args, clock).await,
            Action::Modules => self.loaded(&*session()?, true, clock).await,
            Action::LoadedSources => self.loaded(&*session()?, false, clock).await,
            Action::Source(args) => self.source(&*session()?, args, clock).await,
            Action::Disassemble(args) => self.disassemble(&*session()?, args, cx, clock).await,
            Action::ReadMemory(args) => self.read_memory(&*session()?, args, cx, clock).await,
            Action::WriteMemory(args) => self.write_memory(&*session()?, args, cx, clock).await,
            Action::Request(args) => self.request(&session()?, args, cx, clock).await,
            Action::Output(args) => Ok(self.output(&*session()?, args)),
            Action::Terminate => self.terminate(&session()?, cx, clock).await,
            Action::Disconnect => {
                let session = session()?;
                session.disconnect(clock).await;
                self.snapshot(&session, cx, clock).await
            }
        }
    }

    /// Ends a session; the user is asked about what we did not start.
    async fn terminate(
        &self,
        session: &Arc<Session>,
        cx: &ToolCx,
        clock: &Clock,
    ) -> Result<ToolResult, Failure> {
        if session.is_theirs() {
            cx.permit_debug(&format!("end the user's session {}", session.title)).await?;
        } else if !session.is_ours() && !matches!(session.state(), State::Terminated(_)) {
            session.can_end()?;
            cx.permit_debug(&format!("end what it was attached to, {}", session.title)).await?;
        }
        self.context.debug.terminate(session, clock).await;
        self.snapshot(session, cx, clock).await
    }

    /// Open documents that are not on disk as the editor has them.
    fn not_saved(&self) -> Option<String> {
        let names = self.context.not_saved();
        (!names.is_empty()).then(|| format!("not saved: {}\n", names.join(", ")))
    }

    fn sessions(&self) -> ToolResult {
        let sessions = self.context.debug.list();
        let mut text = String::new();
        let mut list = Vec::new();
        for it in &sessions {
            let shown = match &it.state() {
                State::Terminated(end) => snapshot::ended(
                    &self.context.debug.end_of(it).unwrap_or_else(|| end.clone()),
                    &it.adapter,
                ),
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
            let mut described = self.context.debug.describe(it);
            inspect::merge(
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

/// What a call runs, as a command line for the user.
fn command_line(args: &Value) -> String {
    let named =
        ["program", "module", "config", "name", "session", "file"].iter().find_map(|it| args[it].as_str());
    let words = args["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words = ["debug"].into_iter().chain(args["action"].as_str()).chain(named).chain(words);
    words.collect::<Vec<_>>().join(" ")
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
