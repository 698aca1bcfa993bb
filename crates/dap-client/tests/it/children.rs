//! Child sessions, and programs that an adapter wants run.

use std::path::PathBuf;
use std::sync::Arc;

use dap_client::{Category, Runs, State};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use testing::debug_adapter::{Script, Step};
use workspace::{CommandLine, Policy, PolicyOptions, SpawnGrant, StateDir, TrustStore};

use crate::bench::{Bench, LONG, clock};

fn asks(seq: i64, command: &str, arguments: Value) -> Step {
    Step::Request { seq: json!(seq), command: command.into(), arguments }
}

/// A launcher whose program runs in a child session that stops at once.
fn with_child() -> Bench {
    with_child_over("connect", &["--port", "${port}"])
}

fn with_child_over(transport: &str, args: &[&str]) -> Bench {
    let mut child = Script::new()
        .on(
            "launch",
            [Step::event("thread", json!({"reason": "started", "threadId": 0})), Step::Body(json!({}))],
        )
        .on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
        .on("continue", [Step::Body(json!({})), Step::output("bye"), Step::event("terminated", json!({}))]);
    let configuration = json!({"name": "a.txt [7]", "__pendingTargetId": "t1"});
    let start = asks(50, "startDebugging", json!({"request": "launch", "configuration": configuration}));
    let mut script = Script::new().on("launch", [Step::Body(json!({})), start]);
    // The record is one file for both.
    child.capabilities = script.capabilities.clone();
    script.child = Some(Box::new(child));
    let more = format!("transport.kind = \"{transport}\"\nquirks.launcher = true");
    Bench::with(script, &more, args)
}

#[tokio::test]
async fn a_child_session_at_the_same_socket() {
    let bench = with_child_over("socket", &["--socket", "${socket}"]);
    let root = bench.start().await;
    let child = bench.sessions.settled(&root, &clock()).await.unwrap();
    assert_eq!((child.id.as_str(), child.parent.as_deref()), ("debug-2", Some("debug-1")));
    assert!(matches!(child.state(), State::Stopped(_)));
    bench.sessions.terminate(&child, &clock()).await;
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_child_session_is_what_is_debugged() {
    let bench = with_child();
    let root = bench.start().await;
    let child = bench.sessions.settled(&root, &clock()).await.unwrap();
    assert_eq!((child.title.as_str(), child.parent.as_deref()), ("a.txt [7]", Some("debug-1")));
    assert!(matches!(child.state(), State::Stopped(_)));
    assert_eq!(bench.sessions.get(None).unwrap().id, child.id, "it is meant when none is named");
    assert_eq!(bench.sessions.get(Some("debug-1")).unwrap().id, child.id, "its launcher has nothing to show");
    // Its breakpoints were in place before it ran.
    let placed: Vec<bool> = child.breakpoints().list().map(|(_, placed)| placed.verified).collect();
    assert_eq!(placed, [true]);
    let answer = bench.record().into_iter().find(|it| it["type"] == "response").unwrap();
    assert_eq!((answer["success"].clone(), answer["request_seq"].clone()), (json!(true), json!(50)));

    bench.sessions.change_breakpoints(&child, |all| all.add(bench.at(3)), &clock()).await.unwrap();
    assert_eq!(root.breakpoints().list().count(), 2, "a later child will have it too");
    bench.sessions.terminate(&child, &clock()).await;
    assert_eq!((root.state().name(), child.state().name()), ("terminated", "terminated"));
    assert!(!bench.adapter_lives());
}

/// D8: whoever has joined the launcher is asked to join what it launches.
#[tokio::test]
async fn a_person_is_asked_to_join_a_child_session() {
    let bench = with_child();
    let root = bench.start().await;
    let mut person = crate::hub::Person::joined_for_children(&root).await;
    let asked = person.asked("startDebugging").await;
    assert_eq!(asked["request"], "attach");
    assert_eq!(asked["configuration"]["session"], "debug-2", "{asked}");
    let child = bench.sessions.settled(&root, &clock()).await.unwrap();
    bench.sessions.terminate(&child, &clock()).await;
}

#[tokio::test]
async fn the_end_of_the_child_is_the_end_of_the_program() {
    let bench = with_child();
    let root = bench.start().await;
    let child = bench.sessions.settled(&root, &clock()).await.unwrap();
    child.run("continue", None, &clock()).await.unwrap();
    let over = bench.sessions.settled(&child, &clock()).await.unwrap();
    assert_eq!((over.id.as_str(), over.state().name()), ("debug-2", "terminated"));
    assert_eq!(over.output(0).pieces[0].text, "bye\n");
    bench.sessions.terminate(&root, &clock()).await;
    tokio::time::timeout(LONG, root.over()).await.unwrap();
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_program_that_never_stops_is_told_of_by_the_session_that_ran_it() {
    let child = Script::new().on(
        "configurationDone",
        [Step::Body(json!({})), Step::output("bye"), Step::event("terminated", json!({}))],
    );
    let start =
        asks(50, "startDebugging", json!({"request": "launch", "configuration": {"name": "a.txt [7]"}}));
    let over = [
        start,
        Step::wait_for("response", 1),
        Step::output("written"),
        Step::DelayMs(300),
        Step::event("terminated", json!({})),
    ];
    let mut script = Script::new().on("launch", [Step::Body(json!({}))].into_iter().chain(over));
    script.child = Some(Box::new(child));
    let more = "transport.kind = \"connect\"\nquirks.launcher = true";
    let bench = Bench::with(script, more, &["--port", "${port}"]);
    let root = bench.start().await;
    let found = bench.sessions.settled(&root, &clock()).await.unwrap();
    assert_eq!((found.id.as_str(), found.state().name()), ("debug-2", "terminated"));
    let pieces = found.output(0).pieces;
    let wrote: String = pieces.iter().map(|it| it.text.as_str()).collect();
    assert!(wrote.contains("bye\n") && wrote.contains("written\n"), "the launcher's too: {wrote}");
}

#[tokio::test]
async fn a_child_that_cannot_be_reached_is_refused_and_the_parent_goes_on() {
    let start =
        asks(9, "startDebugging", json!({"request": "attach", "configuration": {"connect": {"port": 1}}}));
    let script = Script::new().on("launch", [Step::Body(json!({}))]).on(
        "configurationDone",
        [start, Step::Body(json!({})), Step::wait_for("response", 1), Step::stopped("breakpoint")],
    );
    let bench = Bench::with(script, "quirks.child_port = \"/connect/port\"", &[]);
    let session = bench.start().await;
    // The port is tried again until the deadline: the parent's end is what ends it here.
    bench.sessions.terminate(&session, &clock()).await;
    assert_eq!(bench.sessions.list().len(), 1);
    assert!(!bench.adapter_lives());
}

/// Grants what it is asked for, and notes it.
struct Agrees(Policy, std::sync::Mutex<Vec<String>>);

impl Runs for Agrees {
    fn grant(&self, by: &str, command: &CommandLine) -> BoxFuture<'static, Result<SpawnGrant, String>> {
        self.1.lock().unwrap().push(command.to_string());
        let grant = self.0.grant_invoked(by, command).map_err(|denied| denied.to_string());
        Box::pin(std::future::ready(grant))
    }
}

fn wants_terminal() -> Bench {
    let run = asks(
        5,
        "runInTerminal",
        json!({"kind": "integrated", "cwd": "/", "env": {"WORD": "hello"},
            "args": ["/bin/sh", "-c", "echo $WORD; echo oh >&2; exec sleep 1000"]}),
    );
    Bench::new(Script::new().on("launch", [run, Step::wait_for("response", 1), Step::Body(json!({}))]))
}

#[tokio::test]
async fn a_program_for_a_terminal_runs_as_ours_and_ends_with_the_session() {
    let bench = wants_terminal();
    let policy =
        PolicyOptions::new(TrustStore::new(StateDir::new(bench.root.join("state"))), bench.root.clone());
    let agrees = Arc::new(Agrees(Policy::new(policy.clone()), std::sync::Mutex::default()));
    let plan = bench.plan(|_| ());
    let grant = Policy::new(policy).grant_invoked("scripted", &plan.command).unwrap();
    let runs: Arc<dyn Runs> = Arc::<Agrees>::clone(&agrees);
    let session = bench.sessions.start_with(&plan, &grant, runs, &clock()).await.unwrap();
    assert!(agrees.1.lock().unwrap()[0].starts_with("/bin/sh -c"));
    let answer = bench.record().into_iter().find(|it| it["type"] == "response").unwrap();
    let pid = answer["body"]["processId"].as_u64().unwrap();
    let mut bell = bench.sessions.bell().subscribe();
    let said = async {
        while session.output(0).pieces.is_empty() {
            bell.changed().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, said).await.unwrap();
    assert_eq!(session.output(0).pieces[0].text, "hello\n");
    bench.sessions.terminate(&session, &clock()).await;
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "it outlived its session");
    let last = session.output(0).pieces.pop().unwrap();
    assert_eq!((last.category, last.text.as_str()), (Category::Stderr, "oh\n"));
}

#[tokio::test]
async fn without_an_agreement_nothing_runs_and_the_adapter_is_told() {
    let bench = wants_terminal();
    let session = bench.start().await;
    let answer = bench.record().into_iter().find(|it| it["type"] == "response").unwrap();
    assert_eq!(answer["success"], false);
    assert_eq!(answer["message"], "nobody can be asked whether it may run");
    bench.sessions.terminate(&session, &clock()).await;
}
