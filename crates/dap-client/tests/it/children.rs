//! Child sessions, and programs that an adapter asks to run.

use std::path::PathBuf;
use std::sync::Arc;

use dap_client::{Category, SpawnApprover, State};
use futures_util::future::BoxFuture;
use paths::StateDir;
use policy::{Policy, PolicyOptions, SpawnGrant, TrustStore};
use serde_json::{Value, json};
use shell::CommandLine;
use testing::debug_adapter::{Script, Step};
use workspace::RunId;

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
    // Both sessions write to one record.
    child.capabilities = script.capabilities.clone();
    script.child = Some(Box::new(child));
    let more = format!("transport.kind = \"{transport}\"\nquirks.launcher = true");
    Bench::with(script, &more, args)
}

#[tokio::test]
async fn a_child_session_uses_the_socket_of_its_parent() {
    let bench = with_child_over("socket", &["--socket", "${socket}"]);
    let root = bench.start().await;
    let child = bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    assert_eq!((child.id.as_str(), child.parent.as_deref()), ("debug-2", Some("debug-1")));
    assert!(matches!(child.state(), State::Stopped(_)));
    bench.sessions.terminate(&child, &clock()).await;
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_child_session_is_the_debugged_one() {
    let bench = with_child();
    let root = bench.start().await;
    let child = bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    assert_eq!((child.title.as_str(), child.parent.as_deref()), ("a.txt [7]", Some("debug-1")));
    assert!(matches!(child.state(), State::Stopped(_)));
    assert_eq!(
        bench.sessions.get(None, &RunId::new()).unwrap().id,
        child.id,
        "it is used when none is named"
    );
    assert_eq!(
        bench.sessions.get(Some("debug-1"), &RunId::new()).unwrap().id,
        child.id,
        "its launcher has no frames"
    );
    // The client sets its breakpoints before it runs.
    let placed: Vec<bool> = child.breakpoints().list().map(|(_, placed)| placed.verified).collect();
    assert_eq!(placed, [true]);
    let answer = bench.record().into_iter().find(|it| it["type"] == "response").unwrap();
    assert_eq!((answer["success"].clone(), answer["request_seq"].clone()), (json!(true), json!(50)));

    bench.sessions.change_breakpoints(&child, |all| all.add(bench.at(3)), &clock()).await.unwrap();
    assert_eq!(root.breakpoints().list().count(), 2, "a later child has it too");
    bench.sessions.terminate(&child, &clock()).await;
    assert_eq!((root.state().name(), child.state().name()), ("terminated", "terminated"));
    assert!(!bench.adapter_lives());
}

/// Asks clients of the launcher to join its child sessions.
#[tokio::test]
async fn a_user_is_asked_to_join_a_child_session() {
    let bench = with_child();
    let root = bench.start().await;
    let mut user = crate::hub::UserClient::joined_for_children(&root).await;
    let asked = user.asked("startDebugging").await;
    assert_eq!(asked["request"], "attach");
    assert_eq!(asked["configuration"]["session"], "debug-2", "{asked}");
    let child = bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    bench.sessions.terminate(&child, &clock()).await;
}

/// Sets the user's current breakpoints in a child from its start.
///
/// They apply until a client joins the child.
#[tokio::test]
async fn a_child_session_has_the_users_current_breakpoints() {
    let start = asks(50, "startDebugging", json!({"request": "launch", "configuration": {"name": "child"}}));
    let mut script = Script::new()
        .on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
        .on("next", [Step::Body(json!({})), start]);
    script.child = Some(Box::new(
        Script::new().on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")]),
    ));
    let bench = Bench::with(script, "transport.kind = \"connect\"", &["--port", "${port}"]);
    let mut plan = bench.plan(|_| ());
    let path = bench.root.join("a.txt").to_string();
    let set = |line: u64| json!({"source": {"path": path}, "breakpoints": [{"line": line}]});
    plan.user_breakpoints = vec![("setBreakpoints", set(5))];
    let root = bench.start_plan(&plan, &clock()).await.unwrap();
    bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    let mut user = crate::hub::UserClient::joined(&root).await;
    user.ask("setBreakpoints", set(7)).await;
    root.run("next", None, &clock()).await.unwrap();
    let child = bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    assert_eq!(child.parent.as_deref(), Some("debug-1"));
    let record = testing::recorded(bench.root.join("record-of-child").as_path());
    let sent: Vec<_> = record.iter().filter(|it| it["command"] == "setBreakpoints").collect();
    let lines = json!([{"line": 2}, {"line": 7}]);
    assert_eq!(sent.last().unwrap()["arguments"]["breakpoints"], lines, "{sent:?}");
    bench.sessions.terminate(&root, &clock()).await;
}

#[tokio::test]
async fn the_end_of_the_child_is_the_end_of_the_program() {
    let bench = with_child();
    let root = bench.start().await;
    let child = bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    child.run("continue", None, &clock()).await.unwrap();
    let ended = bench.sessions.wait_for_stop(&child, &clock()).await.unwrap();
    assert_eq!((ended.id.as_str(), ended.state().name()), ("debug-2", "terminated"));
    assert_eq!(ended.output(0).pieces[0].text, "bye\n");
    bench.sessions.terminate(&root, &clock()).await;
    tokio::time::timeout(LONG, root.ended()).await.unwrap();
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_program_that_never_stops_is_reported_by_its_session() {
    let child = Script::new().on(
        "configurationDone",
        [Step::Body(json!({})), Step::output("bye"), Step::event("terminated", json!({}))],
    );
    let start =
        asks(50, "startDebugging", json!({"request": "launch", "configuration": {"name": "a.txt [7]"}}));
    let end = [
        start,
        Step::wait_for("response", 1),
        Step::output("written"),
        Step::DelayMs(300),
        Step::event("terminated", json!({})),
    ];
    let mut script = Script::new().on("launch", [Step::Body(json!({}))].into_iter().chain(end));
    script.child = Some(Box::new(child));
    let more = "transport.kind = \"connect\"\nquirks.launcher = true";
    let bench = Bench::with(script, more, &["--port", "${port}"]);
    let root = bench.start().await;
    let found = bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    assert_eq!((found.id.as_str(), found.state().name()), ("debug-2", "terminated"));
    let pieces = found.output(0).pieces;
    let wrote: String = pieces.iter().map(|it| it.text.as_str()).collect();
    assert!(wrote.contains("bye\n") && wrote.contains("written\n"), "the launcher's too: {wrote}");
    assert!(found.shares_output() && !root.shares_output() && root.output(0) == found.output(0));
}

/// A launcher that reports the exit code through a wrapper around the program.
const WRAP: &str = "[quirks.wrap]\nprogram = \"by\"\nwords = \"words\"\ndefault = \"node\"\ncommand = [\"sh\"]\n\
    exit_code_text = \"ours: ${code}\\n\"";

#[tokio::test]
async fn an_exit_code_in_pieces_is_read_and_not_shown() {
    let said = |text: &str| Step::event("output", json!({"category": "stderr", "output": text}));
    let end = Step::event("terminated", json!({}));
    let pieces = [Step::Body(json!({})), said("oh noou"), said("rs: "), said("3\n"), end];
    let bench = Bench::with(Script::new().on("configurationDone", pieces), WRAP, &[]);
    let session = bench.start().await;
    tokio::time::timeout(LONG, session.ended()).await.unwrap();
    let State::Terminated(end) = session.state() else { panic!("not terminated") };
    assert_eq!(end.exit_code, Some(3));
    let wrote: String = session.output(0).pieces.into_iter().map(|it| it.text).collect();
    assert_eq!(wrote, "oh no");
}

/// Tests a program that did not end its last line.
///
/// Joined clients do not see the launcher's line.
#[tokio::test]
async fn the_launchers_exit_code_is_reported_for_the_program() {
    let child = || {
        Script::new()
            .on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
            .on("continue", [Step::Body(json!({})), Step::event("terminated", json!({}))])
    };
    let start = |seq: i64, name: &str| {
        asks(seq, "startDebugging", json!({"request": "launch", "configuration": {"name": name}}))
    };
    let said = |text: &str| Step::event("output", json!({"category": "stderr", "output": text}));
    let mut script = Script::new()
        .on(
            "launch",
            [Step::Body(json!({})), start(50, "program"), Step::wait_for("response", 1), start(51, "other")],
        )
        .on("x/end", [said("oh noours: 3\n"), Step::event("terminated", json!({})), Step::Body(json!({}))]);
    script.child = Some(Box::new(child()));
    let more = format!("transport.kind = \"connect\"\nquirks.launcher = true\n{WRAP}");
    let bench = Bench::with(script, &more, &["--port", "${port}"]);
    let root = bench.start().await;
    bench.sessions.wait_for_stop(&root, &clock()).await.unwrap();
    let both = || bench.sessions.tree(&root).iter().skip(1).all(|it| matches!(it.state(), State::Stopped(_)));
    let mut changes = bench.sessions.change_signal().subscribe();
    while !both() || bench.sessions.tree(&root).len() < 3 {
        tokio::time::timeout(LONG, changes.changed()).await.unwrap().unwrap();
    }
    let tree = bench.sessions.tree(&root);
    let mut user = crate::hub::UserClient::joined(&root).await;
    for it in &tree[1..] {
        it.run("continue", None, &clock()).await.unwrap();
    }
    user.ask("x/end", json!({})).await;
    for it in &tree {
        tokio::time::timeout(LONG, it.ended()).await.unwrap();
    }
    let code = |it: &Arc<dap_client::Session>| match it.state() {
        State::Terminated(end) => end.exit_code,
        _ => panic!("not terminated"),
    };
    assert_eq!(tree.iter().map(code).collect::<Vec<_>>(), [Some(3), Some(3), None]);
    let end = |it: &Arc<dap_client::Session>| bench.sessions.end_of(it).unwrap().exit_code;
    assert_eq!(
        tree.iter().map(end).collect::<Vec<_>>(),
        [Some(3), Some(3), None],
        "the other session is unknown"
    );
    assert_eq!(bench.sessions.focus(&root).id, tree[1].id);
    let wrote: String = root.output(0).pieces.iter().map(|it| it.text.as_str()).collect();
    assert_eq!((wrote.as_str(), user.wrote().await.concat().as_str()), ("oh no", "oh no"));
    bench.sessions.terminate(&root, &clock()).await;
}

#[tokio::test]
async fn an_unreachable_child_is_refused_and_the_parent_continues() {
    let start =
        asks(9, "startDebugging", json!({"request": "attach", "configuration": {"connect": {"port": 1}}}));
    let script = Script::new().on("launch", [Step::Body(json!({}))]).on(
        "configurationDone",
        [start, Step::Body(json!({})), Step::wait_for("response", 1), Step::stopped("breakpoint")],
    );
    let bench = Bench::with(script, "quirks.child_port = \"/connect/port\"", &[]);
    let session = bench.start().await;
    // The port is retried until the deadline; here the parent's end stops it.
    bench.sessions.terminate(&session, &clock()).await;
    assert_eq!(bench.sessions.list().len(), 1);
    assert!(!bench.adapter_lives());
}

/// Grants everything and records it.
struct ApproveAll(Policy, parking_lot::Mutex<Vec<String>>);

impl SpawnApprover for ApproveAll {
    fn grant(&self, by: &str, command: &CommandLine) -> BoxFuture<'static, Result<SpawnGrant, String>> {
        self.1.lock().push(command.to_string());
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
async fn a_program_for_a_terminal_ends_with_the_session() {
    let bench = wants_terminal();
    let policy =
        PolicyOptions::new(TrustStore::new(StateDir::new(bench.root.join("state"))), bench.root.clone());
    let approver = Arc::new(ApproveAll(Policy::new(policy.clone()), parking_lot::Mutex::default()));
    let plan = bench.plan(|_| ());
    let grant = Policy::new(policy).grant_invoked("scripted", &plan.command).unwrap();
    let shared: Arc<dyn SpawnApprover> = Arc::<ApproveAll>::clone(&approver);
    let session = bench.sessions.start_with(&plan, &grant, shared, &clock()).await.unwrap();
    assert!(approver.1.lock()[0].starts_with("/bin/sh -c"));
    let answer = bench.record().into_iter().find(|it| it["type"] == "response").unwrap();
    let pid = answer["body"]["processId"].as_u64().unwrap();
    let mut changes = bench.sessions.change_signal().subscribe();
    let said = async {
        while session.output(0).pieces.is_empty() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, said).await.unwrap();
    assert_eq!(session.output(0).pieces[0].text, "hello\n");
    bench.sessions.terminate(&session, &clock()).await;
    let State::Terminated(end) = session.state() else { panic!("{:?}", session.state()) };
    assert_eq!((end.exit_code, end.signal), (None, None), "Pilcrow ended it");
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists(), "it outlived its session");
    let last = session.output(0).pieces.pop().unwrap();
    assert_eq!((last.category, last.text.as_str()), (Category::Stderr, "oh\n"));
}

/// Tests adapters that do not report the exit code.
#[tokio::test]
async fn a_program_for_a_terminal_that_ends_has_an_exit_code() {
    let run = asks(5, "runInTerminal", json!({"cwd": "/", "args": ["/bin/sh", "-c", "exit 7"]}));
    let bench = Bench::new(
        Script::new()
            .on("launch", [run, Step::wait_for("response", 1), Step::Body(json!({}))])
            .on("configurationDone", [Step::Body(json!({})), Step::event("terminated", json!({}))]),
    );
    let policy =
        PolicyOptions::new(TrustStore::new(StateDir::new(bench.root.join("state"))), bench.root.clone());
    let approver = Arc::new(ApproveAll(Policy::new(policy.clone()), parking_lot::Mutex::default()));
    let plan = bench.plan(|_| ());
    let grant = Policy::new(policy).grant_invoked("scripted", &plan.command).unwrap();
    let session = bench.sessions.start_with(&plan, &grant, approver, &clock()).await.unwrap();
    tokio::time::timeout(LONG, session.ended()).await.unwrap();
    let State::Terminated(end) = session.state() else { panic!("{:?}", session.state()) };
    assert_eq!((end.exit_code, end.failure), (Some(7), None));
}

#[tokio::test]
async fn without_approval_nothing_runs_and_the_adapter_is_informed() {
    let bench = wants_terminal();
    let session = bench.start().await;
    let answer = bench.record().into_iter().find(|it| it["type"] == "response").unwrap();
    assert_eq!(answer["success"], false);
    assert_eq!(answer["message"], "there is no user to ask for permission to run it");
    bench.sessions.terminate(&session, &clock()).await;
}

#[tokio::test]
async fn stopped_sessions_are_named_first_when_ambiguous() {
    let bench = with_child();
    let (one, other) = (bench.start().await, bench.start().await);
    let children = [
        bench.sessions.wait_for_stop(&one, &clock()).await.unwrap(),
        bench.sessions.wait_for_stop(&other, &clock()).await.unwrap(),
    ];
    let run = RunId::new();
    one.started_by(run.clone());
    let error = bench.sessions.get(None, &run).map(|it| it.id.clone()).unwrap_err().to_string();
    for child in &children {
        assert!(error.contains(&format!("{} (a.txt [7], stopped)", child.id)), "{error}");
    }
    bench.sessions.show(&children[0], &run);
    assert_eq!(bench.sessions.get(None, &run).unwrap().id, children[0].id);
    bench.sessions.terminate(&one, &clock()).await;
    bench.sessions.terminate(&other, &clock()).await;
}
