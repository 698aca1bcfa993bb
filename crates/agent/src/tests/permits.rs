//! Permits through the whole loop, with the real policy: who is asked, what surfaces hear, what the outcome tells.

use tokio_util::sync::CancellationToken;
use workspace::{
    AbsPath, Answer, Approver, Mode, Nobody, Operation, Policy, PolicyOptions, Question, StateDir,
    TrustStore, Workspace, WorkspaceEdit,
};

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
    _folder: tempfile::TempDir,
    workspace: Workspace,
    state: StateDir,
    target: AbsPath,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let root = path.join("project");
    #[expect(clippy::disallowed_methods, reason = "a project to work in")]
    std::fs::create_dir(&root).unwrap();
    let state = StateDir::new(AbsPath::new(path.join("state")).unwrap());
    let (workspace, _) = Workspace::open(&root, &state, None).unwrap();
    let target = workspace.root().join("new.txt");
    World { _folder: folder, workspace, state, target }
}

/// Asks for the permit to create a file, declared as its effect.
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
    fn told(&self) -> Vec<&str> {
        let told = self.shown.iter().map(String::as_str);
        told.filter(|line| matches!(*line, "ask" | "answer") || line.starts_with("tool_")).collect()
    }
}

#[tokio::test]
async fn what_nobody_can_be_asked_about_is_denied_and_the_outcome_says_so() {
    let asked = ask(Mode::Prompt, Nobody).await;
    assert!(asked.outcome.denied_for_lack_of_asker && asked.result.1, "{:?}", asked.result);
    assert_eq!(asked.told(), ["tool_start a", "ask", "answer", "tool_end a error"]);
    assert_eq!(asked.outcome.final_text, "ok", "the model hears of it and goes on");
}

#[tokio::test]
async fn the_persons_answer_decides() {
    let asked = ask(Mode::Prompt, Says(Answer::Once)).await;
    assert_eq!(asked.result, ("permitted".to_owned(), false));
    assert_eq!(asked.told(), ["tool_start a", "ask", "answer", "tool_end a"]);
    let asked = ask(Mode::Prompt, Says(Answer::No { text: "not there".to_owned() })).await;
    assert!(asked.result.1 && asked.result.0.contains("not there"), "{:?}", asked.result);
    assert!(!asked.outcome.denied_for_lack_of_asker);
    let asked = ask(Mode::Permissive, Nobody).await;
    assert_eq!((asked.result.0.as_str(), asked.told()), ("permitted", vec!["tool_start a", "tool_end a"]));
}

#[tokio::test]
async fn what_a_rule_denies_is_refused_before_the_tool_runs() {
    let asked = ask(Mode::Strict, Says(Answer::Once)).await;
    assert!(asked.result.1, "{:?}", asked.result);
    assert_eq!(asked.told(), ["tool_start a", "tool_end a error"], "nobody was asked");
}

#[tokio::test]
async fn cancel_ends_a_question_that_nobody_answers() {
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
