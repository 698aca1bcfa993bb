//! The hub's state machine under random traffic of an adapter, the agent and three joined clients.
//!
//! The adapter follows the protocol in every unusual way that it allows: late answers, answers
//! after the next stop, `continued` or not, double and unknown answers.

use std::collections::{BTreeMap, BTreeSet};

use dap_client::hub::{Controller, Envelope, Hub, HubOptions, Input, Kind, Output, Role, View};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
enum Op {
    /// A client joins, or takes the next step of its handshake.
    Advance(u64),
    ExternalAdapter(u64, &'static str),
    Run(u64, i64, bool),
    Breakpoints(u64, Vec<i64>),
    CancelLast(u64),
    Leave(u64),
    /// The adapter answers a waiting request.
    Answer(usize, bool),
    Stop(i64, bool),
    ContinuedByItself,
    Thread(i64, bool),
    Output,
    Unknown,
    Twice,
    ReverseRequest,
    Reply(usize, bool),
    ReturnControl,
}

fn ops() -> impl Strategy<Value = Op> {
    let client = || 0..4u64;
    let user = || 1..4u64;
    prop_oneof![
        6 => user().prop_map(Op::Advance),
        3 => (client(), prop_oneof![Just("threads"), Just("stackTrace"), Just("x/unknown")]).prop_map(|(c, w)| Op::ExternalAdapter(c, w)),
        4 => (client(), 1..4i64, any::<bool>()).prop_map(|(c, t, s)| Op::Run(c, t, s)),
        2 => (client(), proptest::collection::vec(1..6i64, 0..4)).prop_map(|(c, l)| Op::Breakpoints(c, l)),
        1 => client().prop_map(Op::CancelLast),
        1 => user().prop_map(Op::Leave),
        8 => (any::<usize>(), proptest::bool::weighted(0.8)).prop_map(|(i, g)| Op::Answer(i, g)),
        4 => (1..4i64, any::<bool>()).prop_map(|(t, a)| Op::Stop(t, a)),
        1 => Just(Op::ContinuedByItself),
        1 => (1..4i64, any::<bool>()).prop_map(|(t, l)| Op::Thread(t, l)),
        1 => Just(Op::Output),
        1 => Just(Op::Unknown),
        1 => Just(Op::Twice),
        1 => Just(Op::ReverseRequest),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(i, g)| Op::Reply(i, g)),
        1 => Just(Op::ReturnControl),
    ]
}

/// A thread, whether all others run too, and the time in the client's own view.
type Run = (i64, bool, u64);

#[derive(Default)]
struct Peer {
    joined: bool,
    /// Handshake step: 0 nothing, 1 initialize, 2 attach, 3 configurationDone sent.
    step: u8,
    live: bool,
    next: i64,
    /// Unanswered requests: the command, and the run with its time.
    open: BTreeMap<i64, (String, Option<Run>)>,
    answered: BTreeSet<i64>,
    last_seq: i64,
    view: View,
    reverse: Vec<Value>,
}

struct Waiting {
    request: Value,
    /// Whether a run was carried out when it arrived.
    ran: Option<bool>,
}

struct World {
    hub: Hub,
    peers: BTreeMap<u64, Peer>,
    /// The adapter's threads: whether each is stopped.
    threads: BTreeMap<i64, bool>,
    waiting: Vec<Waiting>,
    received: BTreeSet<i64>,
    last_answer: Option<Value>,
    asked: BTreeMap<String, u32>,
    next: i64,
    refuse_next: bool,
    lines: Vec<i64>,
}

impl World {
    fn new() -> Self {
        let options = HubOptions {
            or_operator: None,
            exception_names: None,
            has_output_fence: false,
            wrap: None,
            canonical_path: Box::new(str::to_owned),
            session_info: json!({}),
            initial_breakpoints: Vec::new(),
            known_requests: Vec::new(),
            runs_in_terminal_itself: false,
            end_program: None,
        };
        let mut world = Self {
            hub: Hub::new(options),
            peers: (0..4).map(|id| (id, Peer { next: 1000 * (id as i64 + 1), ..Peer::default() })).collect(),
            threads: BTreeMap::from([(1, false)]),
            waiting: Vec::new(),
            received: BTreeSet::new(),
            last_answer: None,
            asked: BTreeMap::new(),
            next: 0,
            refuse_next: false,
            lines: Vec::new(),
        };
        world.give(Input::Joined { client: 0, role: Role::Agent });
        let agent = world.peers.get_mut(&0).unwrap();
        (agent.joined, agent.live, agent.step) = (true, true, 3);
        world.send(0, "initialize", json!({"adapterID": "x"}), None);
        world.answer(0, true);
        world.event("initialized", Value::Null);
        world.event("thread", json!({"reason": "started", "threadId": 1}));
        world
    }

    fn give(&mut self, input: Input) {
        for output in self.hub.handle(input) {
            match output {
                Output::Adapter(message) => self.at_adapter(&message),
                Output::Client { client, message } => self.at_client(client, &message),
                Output::Close { client } => {
                    let peer = self.peers.get_mut(&client).unwrap();
                    let next = peer.next;
                    *peer = Peer { next, ..Peer::default() };
                }
                Output::Log(_) | Output::Deadline { .. } | Output::EndProgram => {}
            }
        }
    }

    fn send(&mut self, client: u64, command: &str, arguments: Value, run: Option<Run>) -> i64 {
        let peer = self.peers.get_mut(&client).unwrap();
        peer.next += 1;
        let seq = peer.next;
        peer.open.insert(seq, (command.to_owned(), run));
        let mut message = Envelope::request(command, arguments);
        message.set("seq", &json!(seq));
        self.give(Input::Client { client, message });
        seq
    }

    fn at_adapter(&mut self, message: &Envelope) {
        let seq = message.value("seq").as_i64().expect("a number");
        assert!(self.received.insert(seq), "the adapter receives {seq} twice");
        if message.kind == Kind::Response {
            let to = message.key("request_seq");
            let count = self.asked.get_mut(&to).unwrap_or_else(|| panic!("the adapter did not ask {to}"));
            *count += 1;
            assert_eq!(*count, 1, "{to} is answered twice");
            return;
        }
        let request: Value = serde_json::from_slice(&message.bytes()).unwrap();
        if let Some(id) = request["arguments"].get("requestId") {
            let known = self.waiting.iter().any(|it| it.request["seq"] == *id);
            assert!(known, "cancel is for what waits here: {request}");
        }
        // A run is carried out or refused when it arrives; its answer may come late.
        let mut ran = None;
        if message.name == "continue" {
            let thread = request["arguments"]["threadId"].as_i64().unwrap();
            let good = self.threads.get(&thread) == Some(&true) && !std::mem::take(&mut self.refuse_next);
            if good {
                let single = request["arguments"]["singleThread"] == true;
                for (id, stopped) in &mut self.threads {
                    *stopped &= single && *id != thread;
                }
            }
            ran = Some(good);
        }
        if message.name == "setBreakpoints" {
            let lines = request["arguments"]["breakpoints"].as_array().unwrap();
            self.lines = lines.iter().map(|it| it["line"].as_i64().unwrap()).collect();
        }
        self.waiting.push(Waiting { request, ran });
    }

    fn at_client(&mut self, client: u64, message: &Envelope) {
        let peer = self.peers.get_mut(&client).unwrap();
        let seq = message.value("seq").as_i64().expect("a number");
        assert!(seq > peer.last_seq, "client {client} sees numbers that rise");
        peer.last_seq = seq;
        match message.kind {
            Kind::Response => {
                let to = message.value("request_seq").as_i64().expect("its own number");
                let (command, run) = peer.open.remove(&to).unwrap_or_else(|| {
                    panic!(
                        "client {client} is answered {to}: {} (before: {})",
                        message.name,
                        peer.answered.contains(&to)
                    )
                });
                peer.answered.insert(to);
                assert_eq!(message.name, command);
                if let Some((thread, all, mark)) = run.filter(|_| message.success()) {
                    peer.view.continued(Some(thread), all, mark);
                }
                if command == "configurationDone" {
                    peer.live = true;
                }
            }
            Kind::Request => peer.reverse.push(message.value("seq")),
            Kind::Event => {
                let body = message.content();
                let thread = body["threadId"].as_i64();
                match message.name.as_str() {
                    "stopped" => peer.view.stopped(body),
                    "continued" => peer.view.continued(thread, body["allThreadsContinued"] == true, u64::MAX),
                    "thread" if body["reason"] == "exited" => peer.view.exited(thread.unwrap()),
                    "thread" => peer.view.started(thread.unwrap()),
                    _ => {}
                }
            }
        }
    }

    fn adapter(&mut self, fields: Value) {
        self.next += 1;
        let mut fields = fields;
        fields["seq"] = json!(self.next);
        let message = Envelope::parse(fields.to_string().as_bytes()).unwrap();
        self.give(Input::Adapter(message));
    }

    fn event(&mut self, event: &str, body: Value) {
        self.adapter(json!({"type": "event", "event": event, "body": body}));
    }

    fn answer(&mut self, index: usize, good: bool) {
        if self.waiting.is_empty() {
            return;
        }
        let Waiting { request, ran } = self.waiting.remove(index % self.waiting.len());
        let good = ran.unwrap_or(good);
        let mut body = json!({});
        match request["command"].as_str().unwrap() {
            "threads" => {
                body = json!({"threads": self.threads.keys().map(|id| json!({"id": id, "name": "t"})).collect::<Vec<_>>()});
            }
            "continue" => body = json!({"allThreadsContinued": request["arguments"]["singleThread"] != true}),
            "setBreakpoints" => {
                let list = request["arguments"]["breakpoints"].as_array().unwrap();
                self.next += list.len() as i64;
                let one = |(at, it): (usize, &Value)| json!({"id": self.next - at as i64, "verified": true, "line": it["line"]});
                body = json!({"breakpoints": list.iter().enumerate().map(one).collect::<Vec<_>>()});
            }
            _ => {}
        }
        let answer = json!({"type": "response", "request_seq": request["seq"], "success": good,
            "command": request["command"], "body": body});
        self.last_answer = Some(answer.clone());
        self.adapter(answer);
    }

    fn act(&mut self, op: Op) {
        match op {
            Op::Advance(client) => {
                let peer = self.peers.get_mut(&client).unwrap();
                if !peer.joined {
                    peer.joined = true;
                    self.give(Input::Joined { client, role: Role::User });
                }
                let peer = self.peers.get_mut(&client).unwrap();
                let step = peer.step;
                peer.step = (step + 1).min(3);
                match step {
                    0 => drop(self.send(
                        client,
                        "initialize",
                        json!({"supportsRunInTerminalRequest": client == 2}),
                        None,
                    )),
                    1 => drop(self.send(client, "attach", json!({}), None)),
                    2 => drop(self.send(client, "configurationDone", Value::Null, None)),
                    _ => {}
                }
            }
            Op::ExternalAdapter(client, command) if self.peers[&client].joined => {
                self.send(client, command, json!({"deep": [1]}), None);
            }
            Op::Run(client, thread, single) if self.peers[&client].joined => {
                self.refuse_next = thread == 3 && single;
                let mark = self.peers[&client].view.now();
                let arguments = json!({"threadId": thread, "singleThread": single});
                self.send(client, "continue", arguments, Some((thread, !single, mark)));
            }
            Op::Breakpoints(client, lines) if self.peers[&client].joined => {
                let breakpoints: Vec<Value> = lines.iter().map(|line| json!({"line": line})).collect();
                let arguments = json!({"source": {"path": "/a"}, "breakpoints": breakpoints});
                self.send(client, "setBreakpoints", arguments, None);
            }
            Op::CancelLast(client) if self.peers[&client].joined => {
                let last = self.peers[&client].next;
                self.send(client, "cancel", json!({"requestId": last}), None);
            }
            Op::Leave(client) if self.peers[&client].joined => {
                let next = self.peers[&client].next;
                self.peers.insert(client, Peer { next, ..Peer::default() });
                self.give(Input::Left { client });
                let next = self.peers[&client].next;
                self.peers.insert(client, Peer { next, ..Peer::default() });
            }
            Op::Answer(index, good) => self.answer(index, good),
            Op::Stop(thread, all) if self.threads.get(&thread) == Some(&false) => {
                self.threads.insert(thread, true);
                if all {
                    self.threads.values_mut().for_each(|stopped| *stopped = true);
                }
                self.event(
                    "stopped",
                    json!({"reason": "pause", "threadId": thread, "allThreadsStopped": all}),
                );
            }
            // Reports what its own requests already did.
            Op::ContinuedByItself if self.threads.values().all(|stopped| !stopped) => {
                self.event("continued", json!({"threadId": 1, "allThreadsContinued": true}));
            }
            // A stopped program starts no threads, and all runs were answered before.
            Op::Thread(thread, true)
                if !self.threads.contains_key(&thread)
                    && self.threads.values().all(|stopped| !stopped)
                    && self.waiting.iter().all(|it| it.ran.is_none()) =>
            {
                self.threads.insert(thread, false);
                self.event("thread", json!({"reason": "started", "threadId": thread}));
            }
            Op::Thread(thread, false) if self.threads.get(&thread) == Some(&false) => {
                self.threads.remove(&thread);
                self.event("thread", json!({"reason": "exited", "threadId": thread}));
            }
            Op::Output => self.event("output", json!({"category": "stdout", "output": "x\n"})),
            Op::Unknown => {
                self.event("x/new", json!({"big": 1}));
                self.adapter(json!({"type": "response", "request_seq": 987_654, "success": true, "command": "made up"}));
            }
            Op::Twice => {
                if let Some(answer) = self.last_answer.clone() {
                    self.adapter(answer);
                }
            }
            Op::ReverseRequest => {
                self.asked.insert((self.next + 1).to_string(), 0);
                self.adapter(
                    json!({"type": "request", "command": "runInTerminal", "arguments": {"args": ["x"]}}),
                );
            }
            Op::Reply(index, good) => {
                let waiting: Vec<(u64, Value)> = self
                    .peers
                    .iter()
                    .flat_map(|(id, it)| it.reverse.iter().map(|seq| (*id, seq.clone())))
                    .collect();
                if let Some((client, seq)) = waiting.get(index % waiting.len().max(1)).cloned() {
                    self.peers.get_mut(&client).unwrap().reverse.retain(|it| *it != seq);
                    let mut message = Envelope::answer("runInTerminal", json!({"processId": 1}));
                    message.set("success", &json!(good));
                    message.set("seq", &json!(1));
                    message.set("request_seq", &seq);
                    self.give(Input::Client { client, message });
                }
            }
            Op::ReturnControl => self.give(Input::ReturnControl),
            _ => {}
        }
    }

    fn check(&self) {
        let stopped: BTreeSet<i64> =
            self.threads.iter().filter(|(_, stopped)| **stopped).map(|(id, _)| *id).collect();
        assert_eq!(self.hub.view().stopped_threads(), stopped, "the hub");
        for (id, peer) in &self.peers {
            assert!(peer.open.is_empty(), "client {id} waits for {:?}", peer.open);
            if peer.live {
                assert_eq!(peer.view.live, self.threads.keys().copied().collect(), "client {id}");
                assert_eq!(peer.view.stopped_threads(), stopped, "client {id}");
            }
        }
        if self.hub.status().joined_clients == 0 {
            assert_eq!(self.hub.status().controller, Controller::Agent, "no other client is joined");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn all_requests_are_answered_once_and_views_match(ops in proptest::collection::vec(ops(), 0..120)) {
        let mut world = World::new();
        for op in ops {
            world.act(op);
        }
        // All waiting requests are answered.
        while !world.waiting.is_empty() {
            world.answer(0, true);
        }
        loop {
            let next = world.peers.iter().find_map(|(id, it)| it.reverse.first().map(|seq| (*id, seq.clone())));
            if next.is_none() {
                break;
            }
            world.act(Op::Reply(0, true));
        }
        world.check();
        prop_assert!(world.asked.values().all(|count| *count == 1), "each question of the adapter is answered: {:?}", world.asked);
        // The adapter closes: waiting requests are answered once, and all clients are disconnected.
        for client in 1..4 {
            if world.peers[&client].joined {
                world.send(client, "evaluate", json!({"expression": "1"}), None);
            }
        }
        let waits: Vec<u64> = world.peers.iter().filter(|(_, it)| !it.open.is_empty()).map(|(id, _)| *id).collect();
        world.give(Input::AdapterClosed { reason: "it died".into() });
        for id in waits {
            prop_assert!(world.peers[&id].open.is_empty(), "client {id} still waits");
        }
        prop_assert!(world.peers.values().all(|it| !it.joined || it.open.is_empty()));
    }
}
