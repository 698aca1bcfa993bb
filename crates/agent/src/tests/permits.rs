//! Permits through the whole loop with the real policy: questions, events, outcome.

use paths::{AbsPath, StateDir};
use policy::{Answer, Approver, Mode, Policy, PolicyOptions, Question, TrustStore, Unattended};
use tokio_util::sync::CancellationToken;
use workspace::{Operation, Workspace, WorkspaceEdit};

use super::*;

struct Says(Answer);

impl Approver for Says {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async { self.0.clone() })
    }
}

/// Waits until it is cancelled.
struct Silent;

impl Approver for Silent {
    fn ask<'a>(&'a self, _: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async {
            cancel.cancelled().await;
            Answer::No { text: String::new() }
        })
    }
}

struct World {
    _directory: tempfile::TempDir,
    workspace: Workspace,
    state: StateDir,
    target: AbsPath,
}

fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let root = path.join("project");
    #[expect(clippy::disallowed_methods, reason = "a project to work in")]
    std::fs::create_dir(&root).unwrap();
    let state = StateDir::new(AbsPath::new(path.join("state")).unwrap());
    let (workspace, _) = Workspace::open(&root, &state, None).unwrap();
    let target = workspace.root().join("new.txt");
    World { _directory: directory, workspace, state, target }
}

/// Builds a tool that asks for the permit to create a file, its declared effect.
fn creating(world: &World) -> TestTool {
    let (workspace, target) = (world.workspace.clone(), world.target.clone());
    let body = tool("create", move |_, cx| {
        let (workspace, path) = (workspace.clone(), target.clone());
        Box::pin(async move {
            let create = Operation::Create { path, text: "text".to_owned(), replaces: None };
            let edit = WorkspaceEdit {
                label: "create a file".to_owned(),
                operations: vec![create],
                ..WorkspaceEdit::default()
            };
            let plan = workspace.plan(edit).unwrap();
            match cx.permit(&plan).await {
                Ok(_) => ToolResult::text("permitted"),
                Err(denied) => ToolResult::denied(&denied),
            }
        })
    });
    TestTool { writes: Writes::Paths(vec![world.target.clone()]), ..body }
}

struct Asked {
    outcome: RunOutcome,
    shown: Vec<String>,
    result: (String, bool),
}

fn start(world: &World, mode: Mode, approver: impl Approver + 'static) -> Running {
    let script =
        [calls(&[call("a", "create", json!({}))]), text("ok")].map(|line| format!("{line}\n")).concat();
    let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
    let events = Arc::new(Recorder::default());
    let options = PolicyOptions::new(TrustStore::new(world.state.clone()), world.workspace.root().clone());
    let session =
        Session::builder(model.clone(), Registry::new([Arc::new(creating(world)) as Arc<dyn Tool>]).unwrap())
            .sink(events.clone())
            .policy(Arc::new(Policy::new(PolicyOptions { mode, yes: mode == Mode::Permissive, ..options })))
            .approver(Arc::new(approver))
            .build();
    Running { session, model, events }
}

async fn ask(mode: Mode, approver: impl Approver + 'static) -> Asked {
    let world = world();
    let running = start(&world, mode, approver);
    let outcome = running.prompt("go").await;
    let result = running.results(&outcome).remove(0);
    Asked { shown: running.shown(), result, outcome }
}

impl Asked {
    /// The events of questions and calls.
    fn calls_and_questions(&self) -> Vec<&str> {
        let lines = self.shown.iter().map(String::as_str);
        lines.filter(|line| matches!(*line, "ask" | "answer") || line.starts_with("tool_")).collect()
    }
}

#[tokio::test]
async fn without_a_user_a_question_is_denied_in_the_outcome() {
    let asked = ask(Mode::Prompt, Unattended).await;
    assert!(asked.outcome.denied_unattended && asked.result.1, "{:?}", asked.result);
    assert_eq!(asked.calls_and_questions(), ["tool_start a", "ask", "answer", "tool_end a error"]);
    assert_eq!(asked.outcome.final_text, "ok", "the model receives the denial and continues");
}

#[tokio::test]
async fn the_users_answer_decides() {
    let asked = ask(Mode::Prompt, Says(Answer::Once)).await;
    assert_eq!(asked.result, ("permitted".to_owned(), false));
    assert_eq!(asked.calls_and_questions(), ["tool_start a", "ask", "answer", "tool_end a"]);
    let asked = ask(Mode::Prompt, Says(Answer::No { text: "not there".to_owned() })).await;
    assert!(asked.result.1 && asked.result.0.contains("not there"), "{:?}", asked.result);
    assert!(!asked.outcome.denied_unattended);
    let asked = ask(Mode::Permissive, Unattended).await;
    assert_eq!(
        (asked.result.0.as_str(), asked.calls_and_questions()),
        ("permitted", vec!["tool_start a", "tool_end a"])
    );
}

#[tokio::test]
async fn a_denying_rule_applies_before_the_tool_runs() {
    let asked = ask(Mode::Strict, Says(Answer::Once)).await;
    assert!(asked.result.1, "{:?}", asked.result);
    assert_eq!(asked.calls_and_questions(), ["tool_start a", "tool_end a error"], "no question");
}

#[tokio::test]
async fn a_cancel_ends_an_unanswered_question() {
    let world = world();
    let running = start(&world, Mode::Prompt, Silent);
    let abort = async {
        running.events.wait_for("ask").await;
        running.session.abort();
    };
    let (outcome, ()) = tokio::join!(running.prompt("go"), abort);
    assert_eq!(outcome.reason, crate::TerminationReason::Aborted);
    assert!(running.results(&outcome)[0].1);
}

#[tokio::test]
async fn commits_are_events_answers_and_checkpoints_are_entries() {
    let world = world();
    let (workspace, path) = (world.workspace.clone(), world.target.clone());
    let commits = workspace.subscribe();
    let making = tool("make", move |_, cx| {
        let (workspace, path) = (workspace.clone(), path.clone());
        Box::pin(async move {
            let create = Operation::Create { path, text: "text".to_owned(), replaces: None };
            let edit = WorkspaceEdit {
                label: "make it".to_owned(),
                operations: vec![create],
                ..WorkspaceEdit::default()
            };
            cx.keep("checkpoint", json!({ "name": "before it" }));
            let plan = workspace.plan(edit).unwrap();
            let permit = cx.permit(&plan).await.unwrap();
            workspace.commit(plan, permit, &cx.run).await.unwrap();
            cx.report(Event::AgentSettled { aborted: true }).await;
            cx.report(Event::Notice { level: "info".to_owned(), text: "made".to_owned() }).await;
            ToolResult::text("made")
        })
    });
    let making = TestTool { writes: Writes::Paths(vec![world.target.clone()]), ..making };
    // Commits of other runs are not reported.
    let other = tool("other", |_, _| Box::pin(async { ToolResult::text("nothing") }));
    let script =
        [calls(&[call("a", "make", json!({}))]), calls(&[call("b", "other", json!({}))]), text("ok")];
    let script = script.map(|line| format!("{line}\n")).concat();
    let events = Arc::new(Recorder::default());
    let options = PolicyOptions::new(TrustStore::new(world.state.clone()), world.workspace.root().clone());
    let store = crate::store::SessionStore::new(world.state.child("sessions").unwrap());
    let tools = [making, other].map(|it| Arc::new(it) as Arc<dyn Tool>);
    let session =
        Session::builder(Arc::new(ScriptModel::parse("t", &script).unwrap()), Registry::new(tools).unwrap())
            .sink(events.clone())
            .policy(Arc::new(Policy::new(options)))
            .approver(Arc::new(Says(Answer::Once)))
            .store(store.clone())
            .commits(commits)
            .build();
    let outcome = session.prompt("go").await;
    assert_eq!(outcome.final_text, "ok");
    let shown = events.shown();
    let lines = shown.iter().filter(|it| {
        it.starts_with("commit")
            || it.starts_with("tool_")
            || ["ask", "answer", "notice"].contains(&it.as_str())
    });
    let lines: Vec<&str> = lines.map(String::as_str).collect();
    assert_eq!(
        lines,
        [
            "tool_start a",
            "ask",
            "answer",
            "notice",
            "commit make it: 1",
            "tool_end a",
            "tool_start b",
            "tool_end b"
        ]
    );
    let (run, file) = events
        .envelopes
        .lock()
        .iter()
        .find_map(|it| match &it.event {
            Event::Commit { run_id, files, .. } => Some((run_id.clone(), files[0].clone())),
            _ => None,
        })
        .unwrap();
    assert_eq!(run, outcome.run);
    let path = world.target.to_string();
    assert_eq!(
        file,
        crate::events::ChangedFile { path: path.clone(), kind: "created".to_owned(), from: None }
    );
    assert!(session.close(DEADLINE).await);
    let loaded = store.load(session.id()).unwrap();
    let kinds: Vec<&str> = loaded.entries.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds[..4], ["model_change", "custom", "message", "message"]);
    assert_eq!(kinds[4..7], ["checkpoint", "permission", "message"], "before the result: {kinds:?}");
    let bodies: Vec<_> = loaded.entries[4..6].iter().map(|it| loaded.body(it).unwrap()).collect();
    use crate::store::EntryBody;
    assert_eq!(bodies[0], EntryBody::Checkpoint { name: "before it".to_owned() });
    assert!(matches!(&bodies[1], EntryBody::Permission { answer, .. } if answer == "once"), "{bodies:?}");
    assert_eq!(loaded.runs(Some(&loaded.entries[2].id)), [outcome.run]);
    assert_eq!(loaded.context_items().len(), 6, "no model receives them");
}
