//! What the hub's machine keeps of one client, and of an adapter that does not answer, is bounded; and what the
//! state forbids does not reach the adapter.

use dap_client::hub::{Controller, Envelope, Hub, Input, Options, Output, Who};
use serde_json::{Value, json};

const AGENT: u64 = 0;
const PERSON: u64 = 1;
const OTHER: u64 = 2;
/// Requests of one client that may wait.
const WAITING: usize = 512;
/// Events that are held while a set is not answered.
const HELD: usize = 4096;

struct Bench {
    hub: Hub,
    seq: i64,
}

impl Bench {
    /// The agent asks for the adapter's capabilities, and a person is there.
    fn new() -> Self {
        let options = Options {
            or: None,
            exception_names: None,
            marks: false,
            wrap: None,
            same: Box::new(str::to_owned),
            about: json!({}),
            former: Vec::new(),
        };
        let mut bench = Self { hub: Hub::new(options), seq: 0 };
        bench.hub.take(Input::Joined { client: AGENT, who: Who::Agent });
        bench.hub.take(Input::Joined { client: PERSON, who: Who::Person });
        bench
    }

    /// What the person is told upon a request of a client.
    fn ask(&mut self, client: u64, command: &str, arguments: Value) -> Vec<Envelope> {
        self.seq += 1;
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(self.seq));
        let outputs = self.hub.take(Input::Client { client, message });
        let told = |it| match it {
            Output::Client { client: PERSON, message } => Some(message),
            _ => None,
        };
        outputs.into_iter().filter_map(told).collect()
    }

    fn busy(&mut self, count: usize, command: &str, arguments: &Value) -> usize {
        let refused = |it: &Envelope| !it.success() && it.value("message") == "busy";
        (0..count).flat_map(|_| self.ask(PERSON, command, arguments.clone())).filter(refused).count()
    }

    /// The adapter answers the first request and takes breakpoints from then on.
    fn adapter_is_there(&mut self) {
        let mut answer = Envelope::answer("initialize", json!({}));
        answer.set("request_seq", &json!(1));
        self.hub.take(Input::Adapter(answer));
        self.hub.take(Input::Adapter(Envelope::event("initialized", json!({}))));
    }
}

#[test]
fn requests_that_wait_for_the_adapter_are_counted() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    assert_eq!(bench.busy(WAITING + 7, "initialize", &json!({})), 7);
}

#[test]
fn requests_that_wait_for_their_turn_are_counted() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.ask(PERSON, "initialize", json!({}));
    bench.ask(PERSON, "attach", json!({}));
    let set = json!({ "source": { "path": "/p/a" }, "breakpoints": [] });
    assert_eq!(bench.busy(WAITING + 7, "setBreakpoints", &set), 7, "the adapter answers none of them");
    // One that waits can be taken back, and whoever leaves is let go.
    let told = bench.ask(PERSON, "disconnect", json!({}));
    assert!(told.iter().any(|it| it.name == "disconnect" && it.success()), "{told:?}");
}

/// What the hub says to the adapter.
fn to_adapter(outputs: Vec<Output>) -> Vec<Envelope> {
    let said = |it| match it {
        Output::Adapter(message) => Some(message),
        _ => None,
    };
    outputs.into_iter().filter_map(said).collect()
}

/// The answer to what the hub said to the adapter.
fn answer(to: &Envelope, body: Value) -> Input {
    let mut answer = Envelope::answer(&to.name, body);
    answer.set("request_seq", &to.value("seq"));
    Input::Adapter(answer)
}

/// A person and another in a session whose program runs.
fn two_persons() -> Bench {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.hub.take(Input::Joined { client: OTHER, who: Who::Person });
    for client in [PERSON, OTHER] {
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

/// What goes out upon a request of a client: to the adapter, and the answer to the client.
fn asked(bench: &mut Bench, client: u64, command: &str) -> (Vec<Envelope>, Option<Envelope>) {
    bench.seq += 1;
    let mut message = Envelope::request(command, json!({ "threadId": 1 }));
    message.set("seq", &json!(bench.seq));
    let outputs = bench.hub.take(Input::Client { client, message });
    let answer = outputs.iter().find_map(|it| match it {
        Output::Client { client: to, message } if *to == client && message.name == command => {
            Some(message.clone())
        }
        _ => None,
    });
    (to_adapter(outputs), answer)
}

/// debugpy answers nothing any more after a `continue` of what runs.
#[test]
fn what_the_state_forbids_does_not_reach_the_adapter() {
    let mut bench = two_persons();
    let (sent, refused) = asked(&mut bench, PERSON, "next");
    assert!(sent.is_empty(), "{sent:?}");
    let refused = refused.unwrap();
    assert_eq!((refused.success(), refused.value("message")), (false, json!("notStopped")));
    let sentence = refused.value("body")["error"]["format"].to_string();
    assert!(sentence.contains("`next` does not fit: the session is running"), "{sentence}");
    assert_eq!(bench.hub.shared().controller, Controller::Agent, "it changed nothing");
    let (sent, answered) = asked(&mut bench, PERSON, "continue");
    assert!(sent.is_empty(), "{sent:?}");
    let answered = answered.unwrap();
    assert!(answered.success());
    assert_eq!(answered.content(), json!({ "allThreadsContinued": true }));
    assert_eq!(bench.hub.shared().controller, Controller::Person);
    assert_eq!(asked(&mut bench, PERSON, "pause").0.len(), 1);

    bench.hub.take(stopped());
    let (sent, refused) = asked(&mut bench, PERSON, "pause");
    assert!(sent.is_empty() && !refused.unwrap().success());
    // From when the first is sent, the program runs.
    let (first, _) = asked(&mut bench, PERSON, "continue");
    let (second, answered) = asked(&mut bench, OTHER, "continue");
    assert_eq!((first.len(), second.len()), (1, 0));
    assert!(answered.unwrap().success());
    let (sent, refused) = asked(&mut bench, OTHER, "stepIn");
    assert!(sent.is_empty() && !refused.unwrap().success());
    bench.hub.take(Input::HandBack);
    assert!(asked(&mut bench, AGENT, "continue").0.is_empty());
    assert_eq!(asked(&mut bench, OTHER, "pause").0.len(), 1, "it may be stopped at once");
    // A stop may come before the answer, which then says nothing of it.
    bench.hub.take(stopped());
    assert_eq!(asked(&mut bench, OTHER, "next").0.len(), 1);
    bench.hub.take(answer(&first[0], json!({})));
    assert!(asked(&mut bench, OTHER, "next").0.is_empty());
}

#[test]
fn who_was_told_that_it_runs_is_told_where_it_does_not() {
    let mut bench = two_persons();
    bench.hub.take(stopped());
    let (first, _) = asked(&mut bench, PERSON, "continue");
    asked(&mut bench, OTHER, "continue");
    let mut refusal = Envelope::refusal("continue", "no", "no");
    refusal.set("request_seq", &first[0].value("seq"));
    let told = bench.hub.take(Input::Adapter(refusal));
    let stops =
        |it: &Output| matches!(it, Output::Client { client: OTHER, message } if message.name == "stopped");
    assert_eq!(told.iter().filter(|it| stops(it)).count(), 1, "{told:?}");
    assert_eq!(asked(&mut bench, OTHER, "continue").0.len(), 1, "and may go on");
}

/// What is not answered is given up, in the words of an error, and forbids nothing from then on.
#[test]
fn a_request_that_the_adapter_never_answers_has_a_deadline() {
    let mut bench = two_persons();
    bench.hub.take(stopped());
    for command in ["continue", "stackTrace", "evaluate", "setBreakpoints"] {
        bench.seq += 1;
        let arguments = if command == "setBreakpoints" { set(1) } else { json!({ "threadId": 1 }) };
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(bench.seq));
        let outputs = bench.hub.take(Input::Client { client: PERSON, message });
        let due = outputs.iter().find_map(|it| match it {
            Output::Deadline { number, .. } => Some(*number),
            _ => None,
        });
        let number = due.unwrap_or_else(|| panic!("{command} has no deadline"));
        let told = bench.hub.take(Input::Late { number });
        let answer = told.iter().find_map(|it| match it {
            Output::Client { client: PERSON, message } if message.name == command => Some(message),
            _ => None,
        });
        let answer = answer.unwrap_or_else(|| panic!("{command} is not answered: {told:?}"));
        assert_eq!((answer.success(), answer.value("message")), (false, json!("timeout")));
        assert!(answer.value("body")["error"]["format"].to_string().contains("has not answered"));
        assert!(bench.hub.take(Input::Late { number }).is_empty(), "once");
    }
    for command in ["continue", "pause"] {
        assert_eq!(asked(&mut bench, OTHER, command).0.len(), 1, "{command}: whether it runs is not known");
    }
}

/// A person's editor that says nothing does not hold up what the adapter asked for: the agent is asked then.
#[test]
fn what_a_persons_editor_does_not_answer_is_asked_of_the_next() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.ask(PERSON, "initialize", json!({ "supportsRunInTerminalRequest": true }));
    bench.ask(PERSON, "attach", json!({}));
    bench.ask(PERSON, "configurationDone", json!({}));
    let mut asks = Envelope::request("runInTerminal", json!({ "args": ["x"], "cwd": "/" }));
    asks.set("seq", &json!(70));
    let outputs = bench.hub.take(Input::Adapter(asks));
    let asked = |of: u64, outputs: &[Output]| {
        let of = |it: &&Output| matches!(it, Output::Client { client, message } if *client == of && message.name == "runInTerminal");
        outputs.iter().filter(of).count()
    };
    assert_eq!((asked(PERSON, &outputs), asked(AGENT, &outputs)), (1, 0), "{outputs:?}");
    let due = outputs.iter().find_map(|it| match it {
        Output::Deadline { number, .. } => Some(*number),
        _ => None,
    });
    let number = due.expect("it has a deadline");
    let outputs = bench.hub.take(Input::Late { number });
    assert_eq!((asked(PERSON, &outputs), asked(AGENT, &outputs)), (0, 1), "{outputs:?}");
    assert!(bench.hub.take(Input::Late { number }).is_empty(), "once");
}

/// The adapter knows a request by another number than who sent it.
#[test]
fn what_a_client_cancels_is_named_to_the_adapter_by_its_number_there() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    let mut answer = Envelope::answer("initialize", json!({ "supportsCancelRequest": true }));
    answer.set("request_seq", &json!(1));
    bench.hub.take(Input::Adapter(answer));
    bench.hub.take(Input::Adapter(Envelope::event("initialized", json!({}))));
    bench.ask(PERSON, "initialize", json!({}));
    bench.ask(PERSON, "attach", json!({}));
    bench.ask(PERSON, "configurationDone", json!({}));
    let mut send = |command: &str, arguments: Value| {
        bench.seq += 1;
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(bench.seq));
        let outputs = bench.hub.take(Input::Client { client: PERSON, message });
        let sent = outputs.into_iter().find_map(|it| match it {
            Output::Adapter(message) if message.name == command => Some(message),
            _ => None,
        });
        (bench.seq, sent.unwrap_or_else(|| panic!("{command} does not reach the adapter")))
    };
    let (own, sent) = send("evaluate", json!({ "expression": "n" }));
    let number = sent.value("seq");
    assert_ne!(number, json!(own), "the two number otherwise");
    let (_, cancel) = send("cancel", json!({ "requestId": own }));
    assert_eq!(cancel.content(), json!({ "requestId": number }));
}

/// Breakpoints of one client in one source.
fn set(line: i64) -> Value {
    json!({ "source": { "path": "/p/a" }, "breakpoints": [{ "line": line }] })
}

#[test]
fn events_about_breakpoints_are_held_in_part_and_all_told() {
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    for (command, arguments) in [("initialize", json!({})), ("attach", json!({}))] {
        bench.ask(PERSON, command, arguments);
    }
    bench.ask(PERSON, "configurationDone", json!({}));
    let mut asked = Envelope::request("setBreakpoints", set(1));
    asked.set("seq", &json!(99));
    let asked = to_adapter(bench.hub.take(Input::Client { client: PERSON, message: asked }));
    let lines = |outputs: Vec<Output>| -> Vec<i64> {
        let told = outputs.into_iter().filter_map(|it| match it {
            Output::Client { client: PERSON, message } if message.name == "breakpoint" => Some(message),
            _ => None,
        });
        told.filter_map(|it| it.content()["breakpoint"]["line"].as_i64()).collect()
    };
    let total = i64::try_from(HELD).unwrap() + 3;
    let mut told = Vec::new();
    for line in 0..total {
        let body =
            json!({ "reason": "new", "breakpoint": { "id": 1000 + line, "verified": true, "line": line } });
        told.extend(lines(bench.hub.take(Input::Adapter(Envelope::event("breakpoint", body)))));
    }
    assert_eq!(told, [0, 1, 2], "beyond the bound the oldest is told");
    told.extend(lines(bench.hub.take(answer(&asked[0], json!({ "breakpoints": [{ "id": 1 }] })))));
    assert_eq!(told, (0..total).collect::<Vec<_>>(), "none is lost, and each comes in its turn");
}

#[test]
fn what_an_editor_asked_itself_is_not_waited_for_without_end() {
    const EDITOR: u64 = 2;
    let mut bench = Bench::new();
    bench.ask(AGENT, "initialize", json!({}));
    bench.adapter_is_there();
    bench.hub.take(Input::Beside { client: EDITOR });
    let mut asked = Envelope::request("setBreakpoints", set(1));
    asked.set("seq", &json!(99));
    let asked = to_adapter(bench.hub.take(Input::Client { client: AGENT, message: asked }));
    let mut seq = 0;
    let mut overhear = |bench: &mut Bench, command: &str, arguments: Value| {
        seq += 1;
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(seq));
        to_adapter(bench.hub.take(Input::Overheard { client: EDITOR, message }))
    };
    // All of these crossed the agent's set, and none is answered: it is sent again, once.
    for line in 0..3000 {
        assert!(overhear(&mut bench, "setBreakpoints", set(2 + line)).is_empty());
    }
    let body = json!({ "breakpoints": [{ "id": 1, "verified": true }, { "id": 2, "verified": true }] });
    let again = to_adapter(bench.hub.take(answer(&asked[0], body.clone())));
    assert_eq!(again.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["setBreakpoints"]);
    let lines: Vec<Value> = again[0].content()["breakpoints"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| it["line"].clone())
        .collect();
    assert!(lines.contains(&json!(1)) && lines.contains(&json!(3001)), "both want theirs: {lines:?}");
    assert!(to_adapter(bench.hub.take(answer(&again[0], body))).is_empty());
    // The bound is that of a client: the request before the last so many is given up.
    let sent: usize =
        (0..WAITING).map(|_| overhear(&mut bench, "next", json!({ "threadId": 1 })).len()).sum();
    assert!(sent > 0, "the agent's breakpoints are put back, which the adapter may have dropped");
    assert_eq!(overhear(&mut bench, "next", json!({ "threadId": 1 })).len(), 0, "no set is left");
}
