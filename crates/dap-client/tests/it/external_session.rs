//! Sessions that the user's editor owns, with a scripted editor.

use std::collections::HashMap;
use std::sync::Arc;

use dap_client::hub::Controller;
use dap_client::{DapError, ExternalAdapter, ExternalSession, ExternalStart, Page, Session, State};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testing::debug_adapter::Script;

use crate::bench::{Bench, LONG, clock, stopped_or_ended};

/// Answers requests and records them.
#[derive(Default)]
struct Editor {
    answers: HashMap<&'static str, Value>,
    asked: Mutex<Vec<(String, Value)>>,
}

impl ExternalAdapter for Editor {
    fn request(&self, command: &str, arguments: Value) -> BoxFuture<'static, Result<Value, String>> {
        self.asked.lock().push((command.to_owned(), arguments));
        let answer = self.answers.get(command).cloned();
        let answer = answer.ok_or_else(|| format!("the adapter does not know {command}"));
        Box::pin(std::future::ready(answer))
    }
}

impl Editor {
    fn asked(&self) -> Vec<String> {
        self.asked.lock().iter().map(|(command, _)| command.clone()).collect()
    }

    /// The lines in the `count`th set of breakpoints.
    async fn lines(&self, count: usize) -> Vec<Value> {
        let sent = || {
            let asked = self.asked.lock();
            let sets: Vec<Value> =
                asked.iter().filter(|it| it.0 == "setBreakpoints").map(|it| it.1.clone()).collect();
            sets
        };
        let wait = async {
            while sent().len() < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, wait).await.unwrap();
        let last = sent()[count - 1]["breakpoints"].as_array().unwrap().clone();
        last.iter().map(|it| it["line"].clone()).collect()
    }
}

struct Followed {
    bench: Bench,
    editor: Arc<Editor>,
    external: ExternalSession,
    session: Arc<Session>,
    seq: i64,
}

impl Followed {
    /// A stopped session with one breakpoint of the user at line 3.
    async fn stopped() -> Self {
        let bench = Bench::new(Script::new());
        let frame = json!({"id": 1000, "name": "main", "line": 3, "column": 1,
            "source": {"path": bench.root.join("a.txt").to_string()}});
        let answers = HashMap::from([
            ("stackTrace", json!({"stackFrames": [frame], "totalFrames": 1})),
            ("scopes", json!({"scopes": [{"name": "Locals", "variablesReference": 5, "expensive": false}]})),
            ("variables", json!({"variables": [{"name": "n", "value": "1", "variablesReference": 0}]})),
            ("threads", json!({"threads": [{"id": 1, "name": "main"}]})),
            (
                "setBreakpoints",
                json!({"breakpoints": [{"id": 1, "verified": true}, {"id": 2, "verified": true}]}),
            ),
            ("next", json!({})),
        ]);
        let editor = Arc::new(Editor { answers, asked: Mutex::default() });
        let started = ExternalStart {
            title: "a.txt".to_owned(),
            kind: "scripted".to_owned(),
            root: bench.root.clone(),
        };
        let external = bench.sessions.open_external(&started, None, Arc::<Editor>::clone(&editor)).await;
        let session = Arc::clone(external.session());
        let mut followed = Self { bench, editor, external, session, seq: 0 };
        let about = json!({"linesStartAt1": true, "columnsStartAt1": true, "pathFormat": "path"});
        let can = json!({"supportsCancelRequest": true, "supportsSetVariable": true});
        followed.exchange("initialize", about, can).await;
        followed.event("initialized", json!({})).await;
        followed.sets(&[3]).await;
        followed.exchange("configurationDone", json!({}), json!({})).await;
        followed
            .event("stopped", json!({"reason": "breakpoint", "threadId": 1, "allThreadsStopped": true}))
            .await;
        assert!(matches!(stopped_or_ended(&followed.session).await, State::Stopped(_)));
        followed
    }

    async fn hear(&self, message: Value) {
        self.external.handle_message(&serde_json::value::to_raw_value(&message).unwrap()).await;
    }

    async fn event(&mut self, name: &str, body: Value) {
        self.seq += 1;
        self.hear(json!({"seq": self.seq, "type": "event", "event": name, "body": body})).await;
    }

    /// Sends a request of the editor and its answer.
    async fn exchange(&mut self, command: &str, arguments: Value, body: Value) {
        self.seq += 1;
        let seq = self.seq;
        self.hear(json!({"seq": seq, "type": "request", "command": command, "arguments": arguments})).await;
        self.hear(json!({"seq": seq, "type": "response", "request_seq": seq, "success": true,
            "command": command, "body": body}))
            .await;
    }

    async fn sets(&mut self, lines: &[i64]) {
        let breakpoints: Vec<Value> = lines.iter().map(|line| json!({"line": line})).collect();
        let path = self.bench.root.join("a.txt").to_string();
        let arguments = json!({"source": {"path": path}, "breakpoints": breakpoints});
        self.exchange("setBreakpoints", arguments, json!({"breakpoints": []})).await;
    }

    async fn controller(&self, wanted: Controller) {
        let mut status = self.session.hub().status();
        tokio::time::timeout(LONG, status.wait_for(|it| it.controller == wanted)).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn observing_sets_nothing_and_the_user_has_control() {
    let followed = Followed::stopped().await;
    let session = &followed.session;
    assert!(followed.editor.asked().is_empty(), "{:?}", followed.editor.asked());
    assert_eq!(session.hub_status().controller, Controller::User);
    assert!(session.is_external());
    let (frames, _) = session.stack(None, 0, 20, &clock()).await.unwrap();
    assert_eq!(frames[0].line, 3);
    let scopes = session.scopes(frames[0].id, &clock()).await.unwrap();
    let values = session.variables(scopes[0].variables, &Page::default(), &clock()).await.unwrap();
    assert_eq!(values[0].value, "1");
    let set = session.set_variable(scopes[0].variables, "n", "2", &clock()).await;
    for refused in [session.run("next", None, &clock()).await.unwrap_err(), set.map(drop).unwrap_err()] {
        assert!(matches!(refused, DapError::Control(_)), "{refused}");
    }
    assert!(!followed.editor.asked().iter().any(|it| it == "next" || it == "setVariable"));
}

#[tokio::test]
async fn the_agent_gets_control_and_the_user_takes_it_back() {
    let mut followed = Followed::stopped().await;
    let session = Arc::clone(&followed.session);
    session.return_control().await;
    followed.controller(Controller::Agent).await;
    session.run("next", None, &clock()).await.unwrap();
    followed.event("stopped", json!({"reason": "step", "threadId": 1, "allThreadsStopped": true})).await;
    let State::Stopped(stop) = stopped_or_ended(&session).await else { panic!("{:?}", session.state()) };
    assert_eq!(stop.reason, "step");
    followed.exchange("continue", json!({"threadId": 1}), json!({"allThreadsContinued": true})).await;
    followed.controller(Controller::User).await;
    assert!(session.control_taken());
    let mut changes = session.changes();
    let runs = async {
        while session.state() != State::Running {
            changes.recv().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, runs).await.unwrap();
    let refused = session.run("next", None, &clock()).await.unwrap_err();
    assert!(matches!(refused, DapError::Control(_) | DapError::WrongState(_)), "{refused}");
}

#[tokio::test]
async fn breakpoints_of_agent_and_editor_stay() {
    let mut followed = Followed::stopped().await;
    let session = Arc::clone(&followed.session);
    session.change_breakpoints(|all| all.add(followed.bench.at(2)), &clock()).await.unwrap();
    assert_eq!(followed.editor.lines(1).await, [2, 3]);
    // The editor sends only its own breakpoints, so the hub sends all again.
    followed.sets(&[1]).await;
    assert_eq!(followed.editor.lines(2).await, [1, 2]);
    session.disconnect(&clock()).await;
    assert_eq!(followed.editor.lines(3).await, [1], "the user's stay");
    assert!(matches!(session.state(), State::Stopped(_)), "leaving ends nothing");
}

#[tokio::test]
async fn pilcrow_does_not_end_an_external_session() {
    let mut followed = Followed::stopped().await;
    followed.bench.sessions.shutdown(LONG).await;
    assert!(matches!(followed.session.state(), State::Terminated(_)), "ended here");
    assert!(followed.editor.asked().is_empty(), "{:?}", followed.editor.asked());

    followed = Followed::stopped().await;
    followed.event("exited", json!({"exitCode": 3})).await;
    followed.event("terminated", json!({})).await;
    tokio::time::timeout(LONG, followed.session.ended()).await.unwrap();
    let State::Terminated(end) = followed.session.state() else { panic!("not terminated") };
    assert_eq!(end.exit_code, Some(3));
    assert!(followed.editor.asked().is_empty(), "{:?}", followed.editor.asked());

    followed = Followed::stopped().await;
    let Followed { external, session, .. } = followed;
    drop(external);
    assert!(tokio::time::timeout(LONG, session.ended()).await.is_ok(), "the editor disconnected");
}
