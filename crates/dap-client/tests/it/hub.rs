//! Shared sessions with a scripted adapter: what a joined client receives, may do, and leaves
//! behind.

use std::sync::Arc;
use std::time::Duration;

use dap_client::hub::{Controller, Envelope, Input, Kind, sockets};
use dap_client::{Client, Clock, DapError, DenySpawns, Handler, Session, State};
use futures_util::future::BoxFuture;
use paths::StateDir;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use testing::dap_schema::Schema;
use testing::debug_adapter::{Script, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Frame, Framing, Limits, MessageCodec};

use crate::bench::{Bench, LONG, clock, stopped_or_ended, within};

fn stops_at_start() -> Script {
    Script::new().on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
}

/// A scripted client of a session.
pub struct UserClient {
    stream: DuplexStream,
    codec: MessageCodec,
    buffer: BytesMut,
    seq: i64,
    /// Received messages, in order.
    got: Vec<Envelope>,
    read: usize,
}

impl UserClient {
    async fn connect(session: &Session) -> Self {
        let (stream, external) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(external);
        session.hub().join(reader, writer).await;
        let codec = MessageCodec::new(Framing::ContentLength, Limits::default());
        Self { stream, codec, buffer: BytesMut::new(), seq: 0, got: Vec::new(), read: 0 }
    }

    pub async fn joined(session: &Session) -> Self {
        Self::joined_as(session, json!({"adapterID": "pilcrow", "supportsRunInTerminalRequest": true})).await
    }

    /// A client that starts child sessions.
    pub async fn joined_for_children(session: &Session) -> Self {
        Self::joined_as(session, json!({"adapterID": "pilcrow", "supportsStartDebuggingRequest": true})).await
    }

    /// Answers the next request of this command and returns its arguments.
    pub async fn asked(&mut self, command: &str) -> Value {
        let asked = self.wait(command, |it| it.kind == Kind::Request && it.name == command).await;
        let mut answer = Envelope::answer(command, Value::Null);
        answer.set("request_seq", &asked.value("seq"));
        self.send(answer).await;
        asked.content()
    }

    async fn joined_as(session: &Session, about: Value) -> Self {
        let mut user = Self::connect(session).await;
        assert!(user.ask("initialize", about).await.success());
        assert!(user.ask("attach", json!({})).await.success());
        user.event("initialized").await;
        assert!(user.ask("configurationDone", json!({})).await.success());
        user
    }

    async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn send(&mut self, mut message: Envelope) -> i64 {
        self.seq += 1;
        message.set("seq", &json!(self.seq));
        let mut bytes = BytesMut::new();
        self.codec.encode(&message.bytes(), &mut bytes).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
        self.seq
    }

    pub async fn ask(&mut self, command: &str, arguments: Value) -> Envelope {
        let seq = self.send(Envelope::request(command, arguments)).await;
        let find = |it: &Envelope| it.kind == Kind::Response && it.answers() == Some(seq);
        self.wait(command, find).await
    }

    async fn event(&mut self, name: &str) -> Envelope {
        self.wait(name, |it| it.kind == Kind::Event && it.name == name).await
    }

    /// The next matching message after those already returned.
    async fn wait(&mut self, what: &str, fits: impl Fn(&Envelope) -> bool) -> Envelope {
        tokio::time::timeout(LONG, async {
            loop {
                while self.read < self.got.len() {
                    self.read += 1;
                    if fits(&self.got[self.read - 1]) {
                        return self.got[self.read - 1].clone();
                    }
                }
                assert!(self.more().await, "the stream ended before {what}: {:?}", self.names());
            }
        })
        .await
        .unwrap_or_else(|_| panic!("no {what} came"))
    }

    async fn more(&mut self) -> bool {
        loop {
            if let Some(frame) = self.codec.decode(&mut self.buffer).unwrap() {
                let Frame::Body(body) = frame else { panic!("{frame:?}") };
                self.got.push(Envelope::parse(&body).unwrap());
                return true;
            }
            if self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return false;
            }
        }
    }

    async fn end(&mut self) {
        tokio::time::timeout(LONG, async { while self.more().await {} }).await.unwrap();
    }

    /// All output that it received, until the end.
    pub async fn wrote(mut self) -> Vec<String> {
        self.end().await;
        let output = self.got.iter().filter(|it| it.name == "output");
        output.filter_map(|it| Some(it.content()["output"].as_str()?.to_owned())).collect()
    }

    fn names(&self) -> Vec<String> {
        self.got.iter().map(|it| it.name.clone()).collect()
    }

    fn count(&self, event: &str) -> usize {
        self.got.iter().filter(|it| it.kind == Kind::Event && it.name == event).count()
    }
}

/// Checks the hub's messages against the published schema.
///
/// Runs in every test that passes, if the tools are set up.
impl Drop for UserClient {
    fn drop(&mut self) {
        let Some(schema) = Schema::of_environment().filter(|_| !std::thread::panicking()) else { return };
        for it in &self.got {
            schema.check(&serde_json::from_slice(&it.bytes()).unwrap()).unwrap();
        }
    }
}

/// Waits until the hub has this many joined clients.
async fn wait_for_joined(session: &Session, count: usize) {
    let mut status = session.hub().status();
    tokio::time::timeout(LONG, status.wait_for(|it| it.joined_clients == count)).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_user_sees_a_step_of_the_agent() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    assert_eq!(user.event("stopped").await.content()["reason"], "breakpoint");
    session.run("next", None, &clock()).await.unwrap();
    stopped_or_ended(&session).await;
    let went_on = user.event("continued").await.content();
    assert_eq!(went_on, json!({"threadId": 1, "allThreadsContinued": true}));
    assert_eq!(user.event("stopped").await.content()["reason"], "step");
    let external = user.ask("stackTrace", json!({"threadId": 1})).await.content();
    let (ours, _) = session.stack(None, 0, 20, &clock()).await.unwrap();
    assert_eq!(external["stackFrames"][0]["line"], json!(ours[0].line), "both see the same line");
    assert_eq!(external["stackFrames"][0]["id"], 1000, "the adapter's own number");
    session.terminate(&clock()).await;
}

/// Reports `continued` before the answer, after it, or never.
#[tokio::test]
async fn each_run_is_reported_once_to_other_clients() {
    let continued = || Step::event("continued", json!({"threadId": 1, "allThreadsContinued": true}));
    for steps in [
        vec![Step::Body(json!({})), continued(), Step::stopped("step")],
        vec![continued(), Step::Body(json!({})), Step::stopped("step")],
        vec![continued(), Step::stopped("step"), Step::Body(json!({}))],
        vec![Step::Body(json!({})), Step::stopped("step")],
        vec![Step::stopped("step"), Step::Body(json!({}))],
    ] {
        let bench = Bench::new(stops_at_start().on("next", steps.clone()));
        let session = bench.start().await;
        stopped_or_ended(&session).await;
        let mut user = UserClient::joined(&session).await;
        user.event("stopped").await;
        for round in 1..=2 {
            session.run("next", None, &clock()).await.unwrap();
            stopped_or_ended(&session).await;
            user.event("stopped").await;
            user.ask("threads", json!({})).await;
            assert_eq!(user.count("continued"), round, "{steps:?}: {:?}", user.names());
        }
        session.terminate(&clock()).await;
    }
}

/// Launches a program again that the adapter cannot restart.
///
/// The user continues there.
#[tokio::test]
async fn a_joined_client_is_sent_to_a_relaunched_program() {
    let bench = Bench::new(stops_at_start());
    let directory = StateDir::new(bench.root.join("run"));
    bench.sessions.announce(directory.clone());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    user.event("stopped").await;
    let path = bench.root.join("a.txt").to_string();
    let set = |lines: Value| json!({"source": {"path": path}, "breakpoints": lines});
    user.ask("setBreakpoints", set(json!([{"line": 7, "condition": "n == 3"}]))).await;
    let again = bench.sessions.relaunch(&session, Arc::new(DenySpawns), &clock()).await.unwrap();
    stopped_or_ended(&again).await;
    let ended = user.event("terminated").await.content();
    assert_eq!((user.count("terminated"), &ended["restart"]["session"]), (1, &json!("debug-2")), "{ended}");
    assert_eq!(ended["restart"]["pipe"], json!(again.socket_path().unwrap().to_string()));
    // The second program does not run before the user's breakpoint is set.
    let record = bench.record();
    let begin = record.iter().rposition(|it| it["command"] == "launch").unwrap();
    let sent: Vec<&Value> = record[begin..]
        .iter()
        .filter(|it| ["setBreakpoints", "configurationDone"].iter().any(|name| it["command"] == *name))
        .collect();
    let both = json!([{"line": 2}, {"line": 7, "condition": "n == 3"}]);
    assert_eq!(sent[sent.len() - 2]["arguments"]["breakpoints"], both, "{sent:?}");
    assert_eq!(sent.last().unwrap()["command"], "configurationDone", "{sent:?}");
    user.end().await;
    // A joined client's own breakpoints replace the previous ones.
    let mut user = UserClient::joined(&again).await;
    user.ask("threads", json!({})).await;
    let last = bench.record().into_iter().rfind(|it| it["command"] == "setBreakpoints").unwrap();
    assert_eq!(last["arguments"]["breakpoints"], json!([{"line": 2}]), "{last}");
    drop(user);
    // The old names work too, after another relaunch.
    let third = bench.sessions.relaunch(&again, Arc::new(DenySpawns), &clock()).await.unwrap();
    stopped_or_ended(&third).await;
    for name in ["debug-1", "debug-2", "debug-3"] {
        let sockets = sockets(&directory).unwrap();
        let found = sockets.iter().find(|it| it.session == name).unwrap();
        let (reader, writer) = wire::local::Stream::connect(found.path.as_path()).await.unwrap().split();
        let tracker = TaskTracker::new();
        let client = Client::spawn(name, reader, writer, Arc::new(RefuseRequests), &tracker);
        let about = client.request("pilcrow/session", json!({}), LONG, &CancellationToken::new()).await;
        let about: Value = serde_json::from_str(about.unwrap().get()).unwrap();
        assert_eq!(about["session"], "debug-3", "{name}");
        client.close("the test closed it");
    }
    bench.sessions.terminate(&third, &clock()).await;
    drop((session, again, third));
    assert!(!bench.adapter_lives());
}

/// Delays the program until the user's earlier breakpoints are set.
///
/// This holds even if the agent sets none.
#[tokio::test]
async fn a_program_waits_for_the_users_earlier_breakpoints() {
    let body = json!({"breakpoints": "${placed}"});
    let mut script = stops_at_start()
        .on("setBreakpoints", [Step::DelayMs(150), Step::Body(body.clone())])
        .on("setFunctionBreakpoints", [Step::DelayMs(150), Step::Body(body)]);
    script.capabilities["exceptionBreakpointFilters"] = json!([]);
    let bench = Bench::new(script);
    let mut plan = bench.plan(|_| ());
    plan.breakpoints = dap_client::Breakpoints::default();
    plan.user_breakpoints = vec![
        ("setBreakpoints", json!({"source": {"path": "/p/b.txt"}, "breakpoints": [{"line": 3}]})),
        ("setFunctionBreakpoints", json!({"breakpoints": [{"name": "f"}]})),
    ];
    let session = bench.start_plan(&plan, &clock()).await.unwrap();
    stopped_or_ended(&session).await;
    let sets = ["setBreakpoints", "setFunctionBreakpoints", "configurationDone"];
    let got: Vec<String> = bench.got().into_iter().filter(|it| sets.contains(&it.as_str())).collect();
    assert_eq!(got, sets);
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn a_joined_client_learns_of_the_end_if_a_relaunch_fails() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    user.event("stopped").await;
    let gone = Clock::new(Duration::ZERO, &CancellationToken::new());
    assert!(bench.sessions.relaunch(&session, Arc::new(DenySpawns), &gone).await.is_err());
    let ended = user.event("terminated").await.content();
    assert!(ended["restart"].is_null(), "{ended}");
    user.end().await;
    assert_eq!(user.count("terminated"), 1);
    bench.sessions.shutdown(LONG).await;
}

struct RefuseRequests;

impl Handler for RefuseRequests {
    fn event(&self, _: &str, _: Option<&RawValue>) {}

    fn request(&self, _: &str, _: Option<&RawValue>) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(std::future::ready(Err("no requests are expected".to_owned())))
    }
}

#[tokio::test]
async fn the_user_takes_control_while_the_agent_waits() {
    let script = stops_at_start()
        .on("continue", [Step::Body(json!({}))])
        .on("pause", [Step::Body(json!({})), Step::stopped("pause")]);
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    user.event("stopped").await;
    session.run("continue", None, &clock()).await.unwrap();
    user.event("continued").await;
    let wait = {
        let session = Arc::clone(&session);
        tokio::spawn(async move { session.wait_for_stop(&clock()).await })
    };
    let (of, sessions) = (Arc::clone(&session), Arc::clone(&bench.sessions));
    let of_tree =
        tokio::spawn(async move { sessions.wait_for_stop(&of, &clock()).await.map(|it| it.state()) });
    assert!(user.ask("continue", json!({"threadId": 1})).await.success());
    let tree = tokio::time::timeout(Duration::from_secs(20), of_tree).await.unwrap().unwrap().unwrap();
    assert_eq!(tree, State::Running, "a wait for any session of the tree ends too");
    let state = tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap().unwrap().unwrap();
    assert_eq!(state, State::Running, "the wait ends at once with the current state");
    assert!(session.control_taken());
    assert_eq!(session.hub_status().controller, Controller::User);

    // The agent may inspect, not run, until control is returned.
    assert!(user.ask("pause", json!({"threadId": 1})).await.success());
    assert!(matches!(stopped_or_ended(&session).await, State::Stopped(_)));
    session.stack(None, 0, 1, &clock()).await.unwrap();
    let error = session.run("next", None, &clock()).await.unwrap_err();
    assert!(matches!(error, DapError::Control(_)), "{error}");
    assert!(error.to_string().starts_with("control_taken_by_user"), "{error}");
    session.return_control().await;
    let mut status = session.hub().status();
    status.wait_for(|it| it.controller == Controller::Agent).await.unwrap();
    session.run("next", None, &clock()).await.unwrap();
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn the_last_client_that_leaves_returns_control() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    assert!(user.ask("next", json!({"threadId": 1})).await.success());
    assert_eq!(session.hub_status().controller, Controller::User);
    drop(user);
    wait_for_joined(&session, 0).await;
    assert_eq!(session.hub_status().controller, Controller::Agent);
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn breakpoints_of_agent_and_user_coexist() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    let path = bench.root.join("a.txt").to_string();
    let set = |lines: &[i64]| {
        let breakpoints: Vec<Value> = lines.iter().map(|line| json!({"line": line})).collect();
        json!({"source": {"path": path}, "breakpoints": breakpoints})
    };
    let answer = user.ask("setBreakpoints", set(&[3, 1])).await.content();
    assert_eq!(answer["breakpoints"].as_array().unwrap().len(), 2, "its own, in its own order: {answer}");
    let last = |bench: &Bench| -> Vec<Value> {
        let sent = bench.record().into_iter().rfind(|it| it["command"] == "setBreakpoints").unwrap();
        let lines = sent["arguments"]["breakpoints"].as_array().unwrap().clone();
        lines.iter().map(|it| it["line"].clone()).collect()
    };
    assert_eq!(last(&bench), [1, 2, 3]);
    session
        .change_breakpoints(|all| assert_eq!(all.remove(&bench.root.join("a.txt"), None), 1), &clock())
        .await
        .unwrap();
    assert_eq!(last(&bench), [1, 3], "the agent removes only its own");
    session.change_breakpoints(|all| all.add(bench.at(2)), &clock()).await.unwrap();
    assert!(user.ask("disconnect", json!({})).await.success());
    wait_for_joined(&session, 0).await;
    // This request follows what the hub sent for the client that left.
    session.threads(&clock()).await.unwrap();
    assert_eq!(last(&bench), [2], "the user's breakpoints leave with the user");
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn a_late_client_receives_past_events() {
    let script = Script::new().on(
        "configurationDone",
        [
            Step::event("process", json!({"name": "a.txt", "systemProcessId": 7})),
            Step::event("thread", json!({"reason": "started", "threadId": 1})),
            Step::event("thread", json!({"reason": "started", "threadId": 2})),
            Step::output("before"),
            Step::Body(json!({})),
            Step::event("stopped", json!({"reason": "breakpoint", "threadId": 1})),
            Step::event("stopped", json!({"reason": "breakpoint", "threadId": 2, "allThreadsStopped": true})),
        ],
    );
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    session.threads(&clock()).await.unwrap();
    let mut user = UserClient::joined(&session).await;
    user.event("output").await;
    let expected = [
        "initialize",
        "attach",
        "initialized",
        "configurationDone",
        "process",
        "thread",
        "thread",
        "stopped",
        "stopped",
        "output",
    ];
    assert_eq!(user.names(), expected);
    let output = user.got.last().unwrap().content();
    assert_eq!(
        (output["output"].as_str(), output["pilcrowReplay"].as_bool()),
        (Some("before\n"), Some(true))
    );
    assert_eq!(
        user.ask("stackTrace", json!({"threadId": 1})).await.content()["stackFrames"][0]["name"],
        "main"
    );
    // Another client counts from 0.
    let mut odd = UserClient::joined_as(
        &session,
        json!({"adapterID": "x", "linesStartAt1": false, "columnsStartAt1": false}),
    )
    .await;
    let frame = odd.ask("stackTrace", json!({"threadId": 1})).await.content();
    assert_eq!(
        (&frame["stackFrames"][0]["line"], &frame["stackFrames"][0]["column"]),
        (&json!(0), &json!(0))
    );
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn an_editor_leaves_and_the_session_continues() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    assert!(user.ask("disconnect", json!({"terminateDebuggee": false})).await.success());
    user.end().await;
    assert_eq!(user.count("terminated"), 0);
    let mut second = UserClient::joined(&session).await;
    second.event("stopped").await;
    drop(second);
    wait_for_joined(&session, 0).await;
    assert!(bench.adapter_lives());
    session.run("next", None, &clock()).await.unwrap();
    assert!(matches!(stopped_or_ended(&session).await, State::Stopped(_)));
    assert!(!bench.got().contains(&"disconnect".to_owned()), "the adapter was not informed");
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn a_stopped_run_leaves_a_joined_session_to_the_user() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    session.stop(&clock()).await;
    let mut status = session.hub().status();
    status.wait_for(|it| it.controller == Controller::User).await.unwrap();
    assert!(bench.adapter_lives());
    assert!(user.ask("threads", json!({})).await.success());
    let sent = bench.record().into_iter().rfind(|it| it["command"] == "setBreakpoints").unwrap();
    assert_eq!(sent["arguments"]["breakpoints"], json!([]), "the agent's own breakpoints are removed");
    // The session ends when it has no clients.
    drop(user);
    wait_for_joined(&session, 0).await;
    session.stop(&clock()).await;
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn the_user_ends_the_program_for_both() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    assert!(user.ask("terminate", json!({})).await.success());
    user.event("terminated").await;
    let State::Terminated(end) = stopped_or_ended(&session).await else { panic!("not terminated") };
    assert_eq!(end.failure, None);
    assert!(session.hub_status().ended_by_user);
    user.end().await;
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_crash_of_the_adapter_is_reported_to_both_at_once() {
    let script = stops_at_start().on("evaluate", [Step::Stderr("oh no\n".into()), Step::Crash(3)]);
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    let answer = user.ask("evaluate", json!({"expression": "n"})).await;
    assert!(!answer.success());
    assert_eq!(answer.value("message"), json!("terminated"));
    user.event("terminated").await;
    user.end().await;
    // The session waits for the adapter's last output.
    tokio::time::timeout(LONG, session.ended()).await.unwrap();
    let State::Terminated(end) = session.state() else { panic!("not terminated") };
    assert!(end.failure.is_some_and(|why| why.contains("oh no")));
}

#[tokio::test]
async fn malformed_messages_do_not_disturb_a_session() {
    let script = stops_at_start().on(
        "next",
        [
            Step::AnswerTo { request_seq: json!(9999), body: json!({}) },
            Step::Raw("Content-Length: many\r\n\r\n{}".into()),
            Step::event("x/unknown", json!({"big": 12_345_678_901_234_567u64})),
            Step::Body(json!({})),
            Step::Body(json!({})),
            Step::stopped("step"),
        ],
    );
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    session.run("next", None, &clock()).await.unwrap();
    stopped_or_ended(&session).await;
    let unknown = user.event("x/unknown").await;
    assert_eq!(unknown.content(), json!({"big": 12_345_678_901_234_567u64}), "unchanged");
    // The client sends one too.
    user.write("Content-Length: nonsense\r\n\r\n").await;
    user.send(Envelope::answer("runInTerminal", json!({}))).await;
    let refused = user.ask("x/unknown", json!({"a": [1]})).await;
    assert_eq!(refused.value("message"), "no script for x/unknown", "the adapter answers it");
    assert!(user.ask("threads", json!({})).await.success());
    // This message ends debugpy.
    let whose = user.ask("setBreakpoints", json!({"source": {"name": "a.py"}, "breakpoints": []})).await;
    assert_eq!(whose.value("message"), "invalidArguments");
    assert!(!bench.record().iter().any(|it| it["arguments"]["source"]["name"] == "a.py"));
    // The adapter refuses it without a body, which the schema requires; the hub passes it unchanged.
    user.got.retain(|it| it.name != "x/unknown");
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn a_child_session_is_offered_to_capable_editors() {
    let bench = Bench::new(stops_at_start());
    let (session, child) = (bench.start().await, bench.start().await);
    stopped_or_ended(&session).await;
    let about = json!({"adapterID": "x", "supportsStartDebuggingRequest": true});
    let mut user = UserClient::joined_as(&session, about.clone()).await;
    let configuration = json!({"name": child.title, "session": child.id});
    session.hub().handle(Input::ChildStarted { configuration: configuration.clone() }).await;
    let asked = user.wait("startDebugging", |it| it.kind == Kind::Request).await;
    let arguments = asked.content();
    assert_eq!(
        (arguments["request"].as_str(), arguments["configuration"]["session"].as_str()),
        (Some("attach"), Some("debug-2"))
    );
    // A client that joins later is asked too, as long as the child lives.
    let mut late = UserClient::joined_as(&session, about.clone()).await;
    let asked = late.wait("startDebugging", |it| it.kind == Kind::Request).await;
    assert_eq!(asked.content(), arguments);
    session.hub().handle(Input::ChildEnded { configuration }).await;
    let mut later = UserClient::joined_as(&session, about).await;
    assert!(later.ask("threads", json!({})).await.success());
    assert!(!later.got.iter().any(|it| it.name == "startDebugging"), "{:?}", later.names());
    session.terminate(&clock()).await;
    child.terminate(&clock()).await;
}

#[tokio::test]
async fn while_the_user_has_control_the_agent_restarts_nothing() {
    let bench = Bench::new(stops_at_start());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    assert!(user.ask("next", json!({"threadId": 1})).await.success());
    stopped_or_ended(&session).await;
    assert!(!session.can("supportsRestartRequest"));
    let error = session.restart(&clock()).await.unwrap_err();
    assert!(matches!(error, DapError::Control(_)), "{error}");
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn a_terminal_is_requested_from_the_editor_or_refused() {
    let ask = |seq: i64| Step::Request {
        seq: json!(seq),
        command: "runInTerminal".into(),
        arguments: json!({"args": ["x"], "cwd": "/"}),
    };
    let script = stops_at_start()
        .on("x/ask", [ask(70), Step::wait_for("response", 1), Step::Body(json!({}))])
        .on("x/ask", [ask(71), Step::wait_for("response", 2), Step::Body(json!({}))]);
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    user.send(Envelope::request("x/ask", json!({}))).await;
    let asked = user.wait("runInTerminal", |it| it.kind == Kind::Request).await;
    let mut answer = Envelope::answer("runInTerminal", json!({"processId": 42}));
    answer.set("request_seq", &asked.value("seq"));
    user.send(answer).await;
    user.wait("x/ask", |it| it.kind == Kind::Response && it.name == "x/ask").await;
    // A client without a terminal is not asked; the agent refuses.
    let mut plain = UserClient::joined_as(&session, json!({"adapterID": "x"})).await;
    drop(user);
    wait_for_joined(&session, 1).await;
    assert!(plain.ask("x/ask", json!({})).await.success());
    let answers: Vec<Value> = bench.record().into_iter().filter(|it| it["type"] == "response").collect();
    assert_eq!((&answers[0]["request_seq"], &answers[0]["body"]["processId"]), (&json!(70), &json!(42)));
    assert_eq!((&answers[1]["request_seq"], &answers[1]["success"]), (&json!(71), &json!(false)));
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn output_is_bounded_for_a_client_that_does_not_read() {
    let script = stops_at_start().on(
        "continue",
        [
            Step::Body(json!({})),
            Step::Repeat { count: 100_000, steps: vec![Step::output("a line of output")] },
            Step::stopped("breakpoint"),
        ],
    );
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let mut user = UserClient::joined(&session).await;
    user.event("stopped").await;
    session.run("continue", None, &clock()).await.unwrap();
    // The client reads nothing meanwhile, and blocks no other.
    let state = session.wait_for_stop(&within(Duration::from_secs(300))).await.unwrap();
    assert_eq!(state.name(), "stopped");
    assert_eq!(
        user.event("stopped").await.content()["reason"],
        "breakpoint",
        "important messages are not lost"
    );
    let got = user.count("output");
    assert!(got < 20_000, "{got}");
    // Once there is room again, the client is notified of the number of omitted pieces.
    assert!(user.ask("threads", json!({})).await.success());
    let mut late = UserClient::joined(&session).await;
    late.event("output").await;
    let replay = late.got.iter().find(|it| it.name == "output").unwrap().content();
    let (dropped, rest) = replay["output"].as_str().unwrap().split_once(' ').unwrap();
    assert!(dropped.parse::<u64>().is_ok_and(|dropped| dropped > 0), "{replay}");
    assert_eq!(rest, "earlier pieces of output were dropped\n");
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn another_process_joins_at_the_socket() {
    let bench = Bench::new(stops_at_start());
    let directory = StateDir::new(bench.root.join("run"));
    bench.sessions.announce(directory.clone());
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let found = dap_client::hub::sockets(&directory).unwrap();
    assert_eq!(
        (found.len(), found[0].session.as_str(), found[0].process),
        (1, "debug-1", std::process::id())
    );
    assert_eq!(session.socket_path().as_ref(), Some(&found[0].path));
    let stream = wire::local::Stream::connect(found[0].path.as_path()).await.unwrap();
    drop(stream);
    session.terminate(&clock()).await;
    let gone = async {
        while !dap_client::hub::sockets(&directory).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, gone).await.unwrap();
}
