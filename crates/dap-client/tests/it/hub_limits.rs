//! Limits of the hub's state machine.
//!
//! Covers clients and adapters that do not answer, and requests that the state forbids.

use dap_client::hub::{Controller, Envelope, Hub, HubOptions, Input, Output, Role};
use serde_json::{Value, json};

const AGENT: u64 = 0;
const USER: u64 = 1;
const OTHER: u64 = 2;
/// Limit of one client's waiting requests.
const MAX_WAITING_REQUESTS: usize = 512;
/// Limit of the events deferred while a set is in flight.
const MAX_DEFERRED_EVENTS: usize = 4096;

struct Bench {
    hub: Hub,
    seq: i64,
}

impl Bench {
    /// Creates a hub with an agent and a user's client.
    fn new() -> Self {
        Self::with(Vec::new())
    }

    fn with(known_requests: Vec<String>) -> Self {
        let options = HubOptions {
            or_operator: None,
            exception_names: None,
            has_output_fence: false,
            wrap: None,
            canonical_path: Box::new(str::to_owned),
            session_info: json!({}),
            initial_breakpoints: Vec::new(),
            known_requests,
            runs_in_terminal_itself: false,
            end_program: None,
        };
        let mut bench = Self { hub: Hub::new(options), seq: 0 };
        bench.hub.handle(Input::Joined { client: AGENT, role: Role::Agent });
        bench.hub.handle(Input::Joined { client: USER, role: Role::User });
        bench
    }

    /// The messages to the user's client after a request.
    fn ask(&mut self, client: u64, command: &str, arguments: Value) -> Vec<Envelope> {
        self.seq += 1;
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(self.seq));
        let outputs = self.hub.handle(Input::Client { client, message });
        let to_user = |it| match it {
            Output::Client { client: USER, message } => Some(message),
            _ => None,
        };
        outputs.into_iter().filter_map(to_user).collect()
    }

    fn busy(&mut self, count: usize, command: &str, arguments: &Value) -> usize {
        let refused = |it: &Envelope| !it.success() && it.value("message") == "busy";
        (0..count).flat_map(|_| self.ask(USER, command, arguments.clone())).filter(refused).count()
    }

    /// The adapter answers the first request and reports `initialized`.
    fn adapter_is_there(&mut self) {
        let mut answer = Envelope::answer("initialize", json!({}));
        answer.set("request_seq", &json!(1));
        self.hub.handle(Input::Adapter(answer));
        self.hub.handle(Input::Adapter(Envelope::event("initialized", json!({}))));
    }
}

#[test]
fn requests_that_wait_for_the_adapter_are_counted() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    assert_eq!(bench.busy(MAX_WAITING_REQUESTS + 7, "initialize", &json!({})), 7);
}

#[test]
fn requests_that_wait_for_their_turn_are_counted() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.ask(USER, "initialize", json!({}));
    bench.ask(USER, "attach", json!({}));
    let set = json!({ "source": { "path": "/p/a" }, "breakpoints": [] });
    assert_eq!(
        bench.busy(MAX_WAITING_REQUESTS + 7, "setBreakpoints", &set),
        7,
        "the adapter answers none of them"
    );
    // A client can always leave.
    let sent = bench.ask(USER, "disconnect", json!({}));
    assert!(sent.iter().any(|it| it.name == "disconnect" && it.success()), "{sent:?}");
}

/// The messages to the adapter.
fn to_adapter(outputs: Vec<Output>) -> Vec<Envelope> {
    let said = |it| match it {
        Output::Adapter(message) => Some(message),
        _ => None,
    };
    outputs.into_iter().filter_map(said).collect()
}

/// The adapter's answer to a message of the hub.
fn answer(to: &Envelope, body: Value) -> Input {
    let mut answer = Envelope::answer(&to.name, body);
    answer.set("request_seq", &to.value("seq"));
    Input::Adapter(answer)
}

/// A session with two joined clients, whose program runs.
fn two_users() -> Bench {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.hub.handle(Input::Joined { client: OTHER, role: Role::User });
    for client in [USER, OTHER] {
        for command in ["initialize", "attach", "configurationDone"] {
            bench.ask(client, command, json!({}));
        }
    }
    bench
}

fn stopped() -> Input {
    let body = json!({ "reason": "breakpoint", "threadId": 1, "allThreadsStopped": true });
    Input::Adapter(Envelope::event("stopped", body))
}

/// The messages to the adapter after a request, and the answer to the client.
fn asked(bench: &mut Bench, client: u64, command: &str) -> (Vec<Envelope>, Option<Envelope>) {
    bench.seq += 1;
    let mut message = Envelope::request(command, json!({ "threadId": 1 }));
    message.set("seq", &json!(bench.seq));
    let outputs = bench.hub.handle(Input::Client { client, message });
    let answer = outputs.iter().find_map(|it| match it {
        Output::Client { client: to, message } if *to == client && message.name == command => {
            Some(message.clone())
        }
        _ => None,
    });
    (to_adapter(outputs), answer)
}

/// debugpy stops answering after a `continue` of a running program.
#[test]
fn forbidden_requests_do_not_reach_the_adapter() {
    let mut bench = two_users();
    let (sent, refused) = asked(&mut bench, USER, "next");
    assert!(sent.is_empty(), "{sent:?}");
    let refused = refused.unwrap();
    assert_eq!((refused.success(), refused.value("message")), (false, json!("notStopped")));
    let sentence = refused.value("body")["error"]["format"].to_string();
    expect_test::expect![[
        r#""`next` does not fit: the session is running; `pause` it, or wait for a breakpoint""#
    ]]
    .assert_eq(&sentence);
    assert_eq!(bench.hub.status().controller, Controller::Agent, "it had no effect");
    let (sent, answered) = asked(&mut bench, USER, "continue");
    assert!(sent.is_empty(), "{sent:?}");
    let answered = answered.unwrap();
    assert!(answered.success());
    assert_eq!(answered.content(), json!({ "allThreadsContinued": true }));
    assert_eq!(bench.hub.status().controller, Controller::User);
    assert_eq!(asked(&mut bench, USER, "pause").0.len(), 1);

    bench.hub.handle(stopped());
    let (sent, refused) = asked(&mut bench, USER, "pause");
    assert!(sent.is_empty() && !refused.unwrap().success());
    // The program counts as running once the first is sent.
    let (first, _) = asked(&mut bench, USER, "continue");
    let (second, answered) = asked(&mut bench, OTHER, "continue");
    assert_eq!((first.len(), second.len()), (1, 0));
    assert!(answered.unwrap().success());
    let (sent, refused) = asked(&mut bench, OTHER, "stepIn");
    assert!(sent.is_empty() && !refused.unwrap().success());
    bench.hub.handle(Input::ReturnControl);
    assert!(asked(&mut bench, AGENT, "continue").0.is_empty());
    assert_eq!(asked(&mut bench, OTHER, "pause").0.len(), 1, "the program may stop at once");
    // A stop may precede the answer, which then does not concern it.
    bench.hub.handle(stopped());
    assert_eq!(asked(&mut bench, OTHER, "next").0.len(), 1);
    bench.hub.handle(answer(&first[0], json!({})));
    assert!(asked(&mut bench, OTHER, "next").0.is_empty());
}

#[test]
fn a_refused_run_is_corrected_for_other_clients() {
    let mut bench = two_users();
    bench.hub.handle(stopped());
    let (first, _) = asked(&mut bench, USER, "continue");
    asked(&mut bench, OTHER, "continue");
    let mut refusal = Envelope::refusal("continue", "no", "no");
    refusal.set("request_seq", &first[0].value("seq"));
    let outputs = bench.hub.handle(Input::Adapter(refusal));
    let stops =
        |it: &Output| matches!(it, Output::Client { client: OTHER, message } if message.name == "stopped");
    assert_eq!(outputs.iter().filter(|it| stops(it)).count(), 1, "{outputs:?}");
    assert_eq!(asked(&mut bench, OTHER, "continue").0.len(), 1, "and may continue");
}

/// An unanswered request fails with an error, and forbids nothing afterwards.
#[test]
fn a_request_that_the_adapter_never_answers_has_a_deadline() {
    let mut bench = two_users();
    bench.hub.handle(stopped());
    let mut sentences = Vec::new();
    for command in ["continue", "stackTrace", "evaluate", "setBreakpoints"] {
        bench.seq += 1;
        let arguments = if command == "setBreakpoints" { set(1) } else { json!({ "threadId": 1 }) };
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(bench.seq));
        let outputs = bench.hub.handle(Input::Client { client: USER, message });
        let due = outputs.iter().find_map(|it| match it {
            Output::Deadline { number, .. } => Some(*number),
            _ => None,
        });
        let number = due.unwrap_or_else(|| panic!("{command} has no deadline"));
        let sent = bench.hub.handle(Input::DeadlinePassed { number });
        let answer = sent.iter().find_map(|it| match it {
            Output::Client { client: USER, message } if message.name == command => Some(message),
            _ => None,
        });
        let answer = answer.unwrap_or_else(|| panic!("{command} is not answered: {sent:?}"));
        assert_eq!((answer.success(), answer.value("message")), (false, json!("timeout")));
        sentences.push(answer.value("body")["error"]["format"].to_string());
        assert!(bench.hub.handle(Input::DeadlinePassed { number }).is_empty(), "once");
    }
    expect_test::expect![[r#"
        "the debug adapter did not answer `continue` in time; it may be busy or hang. `terminate` ends it"
        "the debug adapter did not answer `stackTrace` in time; it may be busy or hang. `terminate` ends it"
        "the debug adapter did not answer `evaluate` in time; it may be busy or hang. `terminate` ends it"
        "the debug adapter did not answer `setBreakpoints` in time; it may be busy or hang. `terminate` ends it""#]].assert_eq(&sentences.join("\n"));
    for command in ["continue", "pause"] {
        assert_eq!(asked(&mut bench, OTHER, command).0.len(), 1, "{command}: the run state is unknown");
    }
}

/// Passes a request of the adapter from a silent client to the agent.
#[test]
fn a_request_that_a_client_does_not_answer_goes_to_the_next() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.ask(USER, "initialize", json!({ "supportsRunInTerminalRequest": true }));
    bench.ask(USER, "attach", json!({}));
    bench.ask(USER, "configurationDone", json!({}));
    let mut asks = Envelope::request("runInTerminal", json!({ "args": ["x"], "cwd": "/" }));
    asks.set("seq", &json!(70));
    let outputs = bench.hub.handle(Input::Adapter(asks));
    let asked = |of: u64, outputs: &[Output]| {
        let of = |it: &&Output| matches!(it, Output::Client { client, message } if *client == of && message.name == "runInTerminal");
        outputs.iter().filter(of).count()
    };
    assert_eq!((asked(USER, &outputs), asked(AGENT, &outputs)), (1, 0), "{outputs:?}");
    let due = outputs.iter().find_map(|it| match it {
        Output::Deadline { number, .. } => Some(*number),
        _ => None,
    });
    let number = due.expect("it has a deadline");
    let outputs = bench.hub.handle(Input::DeadlinePassed { number });
    assert_eq!((asked(USER, &outputs), asked(AGENT, &outputs)), (0, 1), "{outputs:?}");
    assert!(bench.hub.handle(Input::DeadlinePassed { number }).is_empty(), "once");
}

/// The hub and the client number requests differently.
#[test]
fn a_cancelled_request_is_named_by_the_adapters_number() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    let mut answer = Envelope::answer("initialize", json!({ "supportsCancelRequest": true }));
    answer.set("request_seq", &json!(1));
    bench.hub.handle(Input::Adapter(answer));
    bench.hub.handle(Input::Adapter(Envelope::event("initialized", json!({}))));
    bench.ask(USER, "initialize", json!({}));
    bench.ask(USER, "attach", json!({}));
    bench.ask(USER, "configurationDone", json!({}));
    let mut send = |command: &str, arguments: Value| {
        bench.seq += 1;
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(bench.seq));
        let outputs = bench.hub.handle(Input::Client { client: USER, message });
        let sent = outputs.into_iter().find_map(|it| match it {
            Output::Adapter(message) if message.name == command => Some(message),
            _ => None,
        });
        (bench.seq, sent.unwrap_or_else(|| panic!("{command} does not reach the adapter")))
    };
    let (own, sent) = send("evaluate", json!({ "expression": "n" }));
    let number = sent.value("seq");
    assert_ne!(number, json!(own), "hub and client use different numbers");
    let (_, cancel) = send("cancel", json!({ "requestId": own }));
    assert_eq!(cancel.content(), json!({ "requestId": number }));
    // An adapter may answer nothing more after a request that names nothing.
    for nothing in [json!({}), json!({ "requestId": 99_999 }), json!({ "progressId": null })] {
        let answers = bench.ask(USER, "cancel", nothing.clone());
        assert!(answers.iter().any(Envelope::success), "{nothing}");
    }
}

#[test]
fn requests_that_would_end_an_adapter_are_refused() {
    let mut bench = Bench::with(vec!["scopes".to_owned()]);
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    for command in ["initialize", "attach", "configurationDone"] {
        bench.ask(USER, command, json!({}));
    }
    for (command, arguments, message) in [
        ("unknown", json!({}), "notSupported"),
        ("scopes", json!({ "frameId": "1" }), "invalidArguments"),
        ("scopes", json!({ "frameId": 1 }), ""),
    ] {
        let answers = bench.ask(USER, command, arguments.clone());
        let refused = answers.first().map(|it| it.value("message")).unwrap_or(json!(""));
        assert_eq!(refused, json!(message), "{command} {arguments}");
    }
}

/// Breakpoints of one client in one source.
fn set(line: i64) -> Value {
    json!({ "source": { "path": "/p/a" }, "breakpoints": [{ "line": line }] })
}

#[test]
fn deferred_breakpoint_events_are_bounded_and_all_sent() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    for (command, arguments) in [("initialize", json!({})), ("attach", json!({}))] {
        bench.ask(USER, command, arguments);
    }
    bench.ask(USER, "configurationDone", json!({}));
    let mut asked = Envelope::request("setBreakpoints", set(1));
    asked.set("seq", &json!(99));
    let asked = to_adapter(bench.hub.handle(Input::Client { client: USER, message: asked }));
    let lines = |outputs: Vec<Output>| -> Vec<i64> {
        let sent = outputs.into_iter().filter_map(|it| match it {
            Output::Client { client: USER, message } if message.name == "breakpoint" => Some(message),
            _ => None,
        });
        sent.filter_map(|it| it.content()["breakpoint"]["line"].as_i64()).collect()
    };
    let total = i64::try_from(MAX_DEFERRED_EVENTS).unwrap() + 3;
    let mut sent = Vec::new();
    for line in 0..total {
        let body =
            json!({ "reason": "new", "breakpoint": { "id": 1000 + line, "verified": true, "line": line } });
        sent.extend(lines(bench.hub.handle(Input::Adapter(Envelope::event("breakpoint", body)))));
    }
    assert_eq!(sent, [0, 1, 2], "beyond the limit the oldest is sent");
    sent.extend(lines(bench.hub.handle(answer(&asked[0], json!({ "breakpoints": [{ "id": 1 }] })))));
    assert_eq!(sent, (0..total).collect::<Vec<_>>(), "no event is lost, and the order stays");
}

#[test]
fn unanswered_external_requests_are_bounded() {
    const EDITOR: u64 = 2;
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.hub.handle(Input::ExternalClientJoined { client: EDITOR });
    let mut asked = Envelope::request("setBreakpoints", set(1));
    asked.set("seq", &json!(99));
    let asked = to_adapter(bench.hub.handle(Input::Client { client: AGENT, message: asked }));
    let mut seq = 0;
    let mut overhear = |bench: &mut Bench, command: &str, arguments: Value| {
        seq += 1;
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(seq));
        to_adapter(bench.hub.handle(Input::ExternalMessage { client: EDITOR, message }))
    };
    // All of these cross the agent's set, and none is answered: the set is sent again, once.
    for line in 0..3000 {
        assert!(overhear(&mut bench, "setBreakpoints", set(2 + line)).is_empty());
    }
    let body = json!({ "breakpoints": [{ "id": 1, "verified": true }, { "id": 2, "verified": true }] });
    let again = to_adapter(bench.hub.handle(answer(&asked[0], body.clone())));
    assert_eq!(again.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["setBreakpoints"]);
    let lines: Vec<Value> = again[0].content()["breakpoints"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it["line"].clone())
        .collect();
    assert!(
        lines.contains(&json!(1)) && lines.contains(&json!(3001)),
        "both sources have the editor's lines: {lines:?}"
    );
    assert!(to_adapter(bench.hub.handle(answer(&again[0], body))).is_empty());
    // The limit is that of one client: the oldest request is abandoned.
    let sent: usize =
        (0..MAX_WAITING_REQUESTS).map(|_| overhear(&mut bench, "next", json!({ "threadId": 1 })).len()).sum();
    assert!(sent > 0, "the hub restores the agent's breakpoints, which the adapter may have dropped");
    assert_eq!(overhear(&mut bench, "next", json!({ "threadId": 1 })).len(), 0, "no set remains in flight");
}

#[test]
fn the_program_is_ended_before_the_adapter_is_asked() {
    let sent = |client: u64, command: &str, arguments: Value| {
        let mut bench = Bench::new();
        bench.ask(AGENT, "initialize", json!({}));
        bench.adapter_is_there();
        bench.ask(USER, "initialize", json!({}));
        bench.ask(USER, "attach", json!({}));
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(100));
        let outputs = bench.hub.handle(Input::Client { client, message });
        let ends = outputs.iter().position(|it| matches!(it, Output::EndProgram));
        let asked = outputs.iter().position(|it| matches!(it, Output::Adapter(_)));
        (ends.is_some(), asked.is_some() && ends.is_none_or(|ends| Some(ends) < asked))
    };
    assert_eq!(sent(AGENT, "disconnect", json!({})), (true, true));
    assert_eq!(sent(AGENT, "disconnect", json!({"terminateDebuggee": false})), (false, true));
    assert_eq!(sent(USER, "terminate", json!({})), (true, true));
    assert_eq!(sent(USER, "disconnect", json!({})), (false, false), "the others continue");
}
