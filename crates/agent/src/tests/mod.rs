//! Tests at the boundary of the session, with a scripted model and small tools.

mod behaviours;
mod crash;
mod discovery;
mod hooks;
mod listeners;
mod order;
mod permits;
mod pipeline;
mod properties;
mod queues;
mod recovery;
mod reload;
mod retries;
mod session_settings;
mod sessions;
mod stop;
mod stored_sessions;
mod tools;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use llm::{Message, ScriptModel, ToolDefinition};
use parking_lot::Mutex;
use policy::{Effects, Writes};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::hooks::NoHooks;
use crate::{
    Envelope, Event, EventSink, ExecutionMode, Limits, Registry, RunOutcome, Session, Tool, ToolCx,
    ToolResult,
};

/// Time limit of a test; only a failure takes this long.
const DEADLINE: Duration = Duration::from_secs(30);

type Body = dyn for<'a> Fn(Value, &'a ToolCx) -> BoxFuture<'a, ToolResult> + Send + Sync;

struct TestTool {
    definition: ToolDefinition,
    writes: Writes,
    /// Whether it executes a command.
    executes: bool,
    mode: ExecutionMode,
    body: Box<Body>,
}

impl Tool for TestTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }
    fn effects(&self, _: &Value) -> Effects {
        let cwd = || paths::AbsPath::new("/").unwrap();
        let exec = self.executes.then(|| shell::CommandLine {
            program: "x".into(),
            args: vec![],
            env: vec![],
            cwd: cwd(),
        });
        Effects { reads: true, writes: self.writes.clone(), exec }
    }
    fn execution_mode(&self) -> ExecutionMode {
        self.mode
    }
    fn execute<'a>(&'a self, args: Value, cx: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        (self.body)(args, cx)
    }
}

fn tool(
    name: &str,
    body: impl for<'a> Fn(Value, &'a ToolCx) -> BoxFuture<'a, ToolResult> + Send + Sync + 'static,
) -> TestTool {
    TestTool {
        definition: ToolDefinition {
            name: name.to_owned(),
            label: format!("Label of {name}"),
            description: String::new(),
            parameters: json!({
                "type": "object",
                "properties": {"n": {"type": "integer"}, "text": {"type": "string"}},
            }),
        },
        writes: Writes::None,
        executes: false,
        mode: ExecutionMode::Parallel,
        body: Box::new(body),
    }
}

/// Builds a tool that answers with its arguments.
fn echo(name: &str) -> TestTool {
    tool(name, |args, _| Box::pin(async move { ToolResult::text(args.to_string()) }))
}

/// Reports that it runs.
async fn say_running(cx: &ToolCx) {
    let update_type = crate::events::UpdateKind::Progress;
    cx.update(crate::events::Update { update_type, content: "running".to_owned(), progress_percent: None })
        .await;
}

/// Builds a tool that waits until it is cancelled.
fn waiting(name: &str) -> TestTool {
    tool(name, |_, cx| {
        Box::pin(async move {
            say_running(cx).await;
            cx.cancel.cancelled().await;
            ToolResult::text("stopped")
        })
    })
}

/// Builds a tool that reports that it runs, and waits until `count` calls do.
fn meeting(name: &str, count: usize) -> TestTool {
    let (present, arrived) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    tool(name, move |_, _| {
        let (present, arrived) = (present.clone(), arrived.clone());
        Box::pin(async move {
            present.fetch_add(1, Ordering::SeqCst);
            arrived.notify_waiters();
            loop {
                let changed = arrived.notified();
                if present.load(Ordering::SeqCst) >= count {
                    return ToolResult::text("met");
                }
                changed.await;
            }
        })
    })
}

#[derive(Default)]
struct Recorder {
    envelopes: Mutex<Vec<Envelope>>,
    heard: Notify,
}

impl EventSink for Recorder {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.envelopes.lock().push(envelope.clone());
            self.heard.notify_waiters();
        })
    }
}

impl Recorder {
    fn shown(&self) -> Vec<String> {
        let envelopes = self.envelopes.lock();
        let mut shown: Vec<String> = Vec::new();
        for envelope in envelopes.iter() {
            let line = show(&envelope.event);
            if line == "update" && shown.last().is_some_and(|last| last == "update") {
                continue;
            }
            shown.push(line);
        }
        shown
    }

    async fn wait_for(&self, line: &str) {
        let waiting = async {
            loop {
                let heard = self.heard.notified();
                if self.envelopes.lock().iter().any(|it| show(&it.event) == line) {
                    return;
                }
                heard.await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("never heard {line:?}"));
    }
}

/// One event in a few words.
fn show(event: &Event) -> String {
    let role = |message: &Message| message.role();
    match event {
        Event::AgentStart { .. } => "agent_start".to_owned(),
        Event::TurnStart { turn_index } => format!("turn_start {turn_index}"),
        Event::MessageStart { role, .. } => format!("start {role:?}"),
        Event::MessageUpdate { .. } => "update".to_owned(),
        Event::MessageEnd { message, .. } => format!("end {}: {}", role(message), message.text()),
        Event::ToolExecutionStart { tool_call_id, .. } => format!("tool_start {tool_call_id}"),
        Event::ToolExecutionUpdate { tool_call_id, update } => {
            format!("tool_update {tool_call_id}: {}", update.content)
        }
        Event::ToolExecutionEnd { tool_call_id, is_error, .. } => {
            format!("tool_end {tool_call_id}{}", if *is_error { " error" } else { "" })
        }
        Event::TurnEnd { turn_index, tool_results, should_continue, .. } => {
            format!("turn_end {turn_index} results={} continue={should_continue}", tool_results.len())
        }
        Event::AgentEnd { reason, .. } => format!("agent_end {reason:?}"),
        Event::QueueUpdate { steering, follow_up, .. } => format!("queue {steering} {follow_up}"),
        Event::AgentSettled { aborted } => format!("settled aborted={aborted}"),
        Event::Notice { .. } => "notice".to_owned(),
        // The shown delay has no random part.
        Event::RetryStart { attempt, delay_ms, .. } => {
            let whole =
                (0..6).map(|times| 1000 << times).find(|whole| (whole * 3 / 4..=*whole).contains(delay_ms));
            format!("retry {attempt} {}", whole.unwrap_or(*delay_ms))
        }
        Event::RetryEnd { attempt, success } => format!("retry_end {attempt} {success}"),
        Event::Reloaded { changed, problems } => format!("reloaded {changed:?} {problems:?}"),
        Event::ModelChange { model, .. } => format!("model {model}"),
        Event::ThinkingLevelChange { level } => format!("thinking {level:?}"),
        Event::CustomMessage { kind, .. } => format!("custom {kind}"),
        Event::CompactionStart { reason, .. } => format!("compaction_start {reason}"),
        Event::CompactionEnd { kept, summary, .. } => {
            format!("compaction_end {kept} {}", if summary.is_some() { "made" } else { "failed" })
        }
        Event::TranscriptReplaced { messages } => format!("replaced {}", messages.len()),
        Event::Plan { steps } => {
            let steps: Vec<String> = steps.iter().map(|it| format!("{} {:?}", it.text, it.status)).collect();
            format!("plan {}", steps.join(", "))
        }
        Event::Commit { label, files, .. } => format!("commit {label}: {}", files.len()),
        Event::Diagnostics { introduced, fixed, .. } => {
            format!("diagnostics +{} -{}", introduced.len(), fixed.len())
        }
        Event::ServerStatus { name, state, .. } => format!("server {name} {state}"),
        Event::DebugState { session, state, .. } => format!("debug {session} {state}"),
        Event::PermissionRequest { .. } => "ask".to_owned(),
        Event::InputRequest { .. } => "input".to_owned(),
        Event::InputResolved { .. } => "input resolved".to_owned(),
        Event::PermissionResolved { .. } => "answer".to_owned(),
    }
}

struct Setup {
    script: Vec<Value>,
    tools: Vec<TestTool>,
    limits: Limits,
    hooks: Arc<dyn crate::Hooks>,
}

struct Running {
    session: Session,
    model: Arc<ScriptModel>,
    events: Arc<Recorder>,
}

fn setup(script: &[Value]) -> Setup {
    Setup { script: script.to_vec(), tools: Vec::new(), limits: Limits::default(), hooks: Arc::new(NoHooks) }
}

impl Setup {
    fn tool(mut self, tool: TestTool) -> Self {
        self.tools.push(tool);
        self
    }
    fn limits(self, limits: Limits) -> Self {
        Setup { limits, ..self }
    }
    fn hooks(self, hooks: impl crate::Hooks + 'static) -> Self {
        Setup { hooks: Arc::new(hooks), ..self }
    }

    fn start(self) -> Running {
        let script: String = self.script.iter().map(|line| format!("{line}\n")).collect();
        let model = Arc::new(ScriptModel::parse("test", &script).unwrap());
        let events = Arc::new(Recorder::default());
        let tools = Registry::new(self.tools.into_iter().map(|it| Arc::new(it) as Arc<dyn Tool>)).unwrap();
        let session = Session::builder(model.clone(), tools)
            .sink(events.clone())
            .limits(self.limits)
            .hooks(self.hooks)
            .build();
        Running { session, model, events }
    }

    /// Runs one prompt that uses every answer of the script.
    async fn run(self) -> (RunOutcome, Running) {
        let running = self.start();
        let outcome = running.prompt("go").await;
        assert_eq!(running.model.unused(), 0, "answers were left; the run ended with {outcome:?}");
        (outcome, running)
    }
}

impl Running {
    async fn prompt(&self, text: &str) -> RunOutcome {
        tokio::time::timeout(DEADLINE, self.session.prompt(text)).await.expect("the run ends")
    }

    /// Lists the events without the settled event, which follows the outcome.
    fn shown(&self) -> Vec<String> {
        let mut shown = self.events.shown();
        shown.retain(|line| !line.starts_with("settled"));
        shown
    }

    fn results(&self, outcome: &RunOutcome) -> Vec<(String, bool)> {
        let results = outcome.messages.iter().filter_map(|message| match message {
            Message::ToolResult(result) => Some((message.text(), result.is_error)),
            _ => None,
        });
        results.collect()
    }
}

fn call(id: &str, name: &str, args: Value) -> Value {
    json!({"id": id, "name": name, "arguments": args})
}

fn calls(calls: &[Value]) -> Value {
    json!({ "tool_calls": calls })
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}
