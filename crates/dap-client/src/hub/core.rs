//! The hub's state machine: one adapter, several clients; a message in, messages out.
//!
//! Pure: no clock, no I/O. What must stay true: each request of a client is answered once, under its own
//! number, also when the adapter is gone; no client sees another's numbers; each request of the adapter is
//! answered; what the clients were told of the program is what the adapter told; what we do not know
//! passes as it came.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::clients::{Facts, Member, Phase};
use super::coordinates::Coordinates;
use super::kept::Kept;
use super::merge::{Before, Book, Plan, Set, Told};
use super::message::{Envelope, Kind};
use super::view::{Missing, View};
use super::{ClientId, Controller, Input, Options, Output, Shared, Who};

/// Requests of one client that may wait; more are refused.
const WAITING: usize = 512;

/// What the agent is told then.
const THEIRS: &str =
    "the person has control of this session: look, do not run or change, until it is handed back";

/// The machine.
pub struct Hub {
    options: Options,
    pub(super) members: BTreeMap<ClientId, Member>,
    pending: HashMap<i64, Pending>,
    next: i64,
    book: Book,
    /// Sets are sent one after the other, since each replaces the one before.
    setting: Option<i64>,
    queue: VecDeque<Setting>,
    /// Events about breakpoints whose numbers the answer in flight will tell.
    held: Vec<Envelope>,
    view: View,
    kept: Kept,
    process: Option<Value>,
    capabilities: Option<Value>,
    ready: bool,
    /// Arguments of the agent's `launch` or `attach`, for a restart.
    launched: Value,
    shared: Shared,
    /// Requests that were overheard and are not answered, by the number they were sent under.
    overheard: HashMap<String, i64>,
    /// Requests of the adapter that wait for a client.
    asked: Vec<Asked>,
    /// What an editor is given to join the child sessions that are not over.
    children: Vec<Value>,
    over: bool,
    out: Vec<Output>,
}

struct Pending {
    /// Who asked, and under which number; `None` for the hub itself.
    from: Option<(ClientId, Box<RawValue>)>,
    /// As the client wrote it.
    command: String,
    work: Work,
}

enum Work {
    /// Passed through.
    Plain,
    Initialize,
    Launch,
    Threads,
    /// Runs the program.
    Run(Run),
    /// Changes a value.
    Change,
    Set(Box<Sent>),
    /// A set that an editor sent itself.
    Heard(Box<Heard>),
    /// Ends the program.
    End,
    /// Ends the program with the session.
    Disconnect,
}

struct Run {
    thread: Option<i64>,
    all: bool,
    /// The moment when it was sent, in the hub's view and in that of who asked.
    marks: (u64, u64),
    /// The others were told that the program runs on.
    told: bool,
}

/// A set as it was sent.
struct Sent {
    plan: Plan,
    before: Option<Before>,
}

/// A set that an editor sent past the hub.
struct Heard {
    client: ClientId,
    set: Set,
    before: Before,
    /// What was on its way then did not know of it.
    crossed: bool,
}

struct Setting {
    from: Option<(ClientId, Box<RawValue>)>,
    set: Set,
    arguments: Option<Value>,
}

struct Asked {
    adapter_seq: Box<RawValue>,
    message: Envelope,
    client: ClientId,
    client_seq: i64,
    tried: BTreeSet<ClientId>,
}

/// Requests that run the program or move where it runs on; a person's take control.
fn runs(command: &str) -> bool {
    matches!(
        command,
        "continue"
            | "next"
            | "stepIn"
            | "stepOut"
            | "stepBack"
            | "reverseContinue"
            | "restart"
            | "restartFrame"
            | "goto"
            | "pause"
            | "terminateThreads"
    )
}

/// Requests that change a value.
fn changes(command: &str) -> bool {
    matches!(command, "setVariable" | "setExpression" | "writeMemory")
}

impl Hub {
    /// One that has no clients yet.
    pub fn new(options: Options) -> Self {
        let book = Book::new(options.or.clone());
        Self {
            options,
            members: BTreeMap::new(),
            pending: HashMap::new(),
            next: 1,
            book,
            setting: None,
            queue: VecDeque::new(),
            held: Vec::new(),
            view: View::default(),
            kept: Kept::default(),
            process: None,
            capabilities: None,
            ready: false,
            launched: Value::Null,
            shared: Shared::default(),
            overheard: HashMap::new(),
            asked: Vec::new(),
            children: Vec::new(),
            over: false,
            out: Vec::new(),
        }
    }

    /// Who has control, and how many look on.
    pub fn shared(&self) -> Shared {
        self.shared
    }

    /// The program as the clients were told.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Takes one thing in; what goes out for it, in order.
    pub fn take(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Joined { client, who } => self.joined(client, who),
            Input::Beside { client } => {
                self.joined(client, Who::Person);
                self.shared.controller = Controller::Person;
                if let Some(member) = self.members.get_mut(&client) {
                    member.phase = Phase::Beside;
                }
                self.count();
            }
            Input::Overheard { client, message } => self.overheard(client, message),
            Input::Left { client } => self.left(client),
            Input::Client { client, message } => match message.kind {
                Kind::Request => self.request(client, message),
                Kind::Response => self.reply(client, &message),
                Kind::Event => self.log(format!("client {client} sent an event `{}`", message.name)),
            },
            Input::Adapter(message) => match message.kind {
                Kind::Request => self.reverse(message),
                Kind::Response => self.response(message),
                Kind::Event => self.event(message),
            },
            Input::Gone { why } => self.gone(&why),
            Input::HandBack => self.shared.controller = Controller::Agent,
            Input::ForgetAgent => self.forget_agent(),
            Input::Note { client, text } => {
                let body = json!({ "category": "console", "output": text });
                self.tell_live(client, Envelope::event("output", body));
            }
            Input::Child { configuration } => self.child(configuration),
            Input::ChildOver { configuration } => self.children.retain(|it| *it != configuration),
            Input::Late { number } => self.late(number),
        }
        std::mem::take(&mut self.out)
    }

    // Clients come and go.

    fn joined(&mut self, client: ClientId, who: Who) {
        let phase = if who == Who::Agent { Phase::Live } else { Phase::New };
        self.members.insert(
            client,
            Member {
                who,
                phase,
                facts: Facts::default(),
                told: View::default(),
                next: 1,
                waiting: Vec::new(),
            },
        );
        self.count();
    }

    fn left(&mut self, client: ClientId) {
        let Some(member) = self.members.remove(&client) else { return };
        self.pending.values_mut().for_each(|it| {
            if it.from.as_ref().is_some_and(|(of, _)| *of == client) {
                it.from = None;
            }
        });
        self.queue.retain(|it| it.from.as_ref().is_none_or(|(of, _)| *of != client));
        self.drop_lists(client);
        for asked in self.asked.extract_if(.., |it| it.client == client).collect::<Vec<_>>() {
            self.ask_next(asked.adapter_seq, asked.message, asked.tried);
        }
        if member.phase != Phase::Closed {
            self.out.push(Output::Close { client });
        }
        self.count();
    }

    fn count(&mut self) {
        let there = |it: &&Member| matches!(it.phase, Phase::Live | Phase::Beside);
        let joined = |it: &&Member| it.who == Who::Person && there(it);
        let persons = self.members.values().filter(joined).count();
        // The last person who leaves gives control back.
        if persons == 0 {
            self.shared.controller = Controller::Agent;
        }
        self.shared.persons = persons;
    }

    fn forget_agent(&mut self) {
        let agents: Vec<ClientId> =
            self.members.iter().filter(|(_, it)| it.who == Who::Agent).map(|(id, _)| *id).collect();
        agents.into_iter().for_each(|agent| self.drop_lists(agent));
        if self.shared.persons > 0 {
            self.shared.controller = Controller::Person;
        }
    }

    fn drop_lists(&mut self, client: ClientId) {
        for set in self.book.forget(client) {
            if !self.over {
                self.queue.push_back(Setting { from: None, set, arguments: None });
            }
        }
        self.next_setting();
    }

    // Requests of clients.

    fn request(&mut self, client: ClientId, message: Envelope) {
        let Some(member) = self.members.get(&client) else { return };
        let (who, phase, coordinates) = (member.who, member.phase, member.facts.coordinates);
        if self.over && !matches!(message.name.as_str(), "disconnect" | "terminate" | "pilcrow/session") {
            return self.refuse(client, &message, "notStopped", "the debug session is over");
        }
        if message.name == "pilcrow/session" {
            let about = self.about();
            return self.answer(client, &message, about);
        }
        if message.name == "pilcrow/handBack" && who == Who::Person {
            self.shared.controller = Controller::Agent;
            return self.answer(client, &message, Value::Null);
        }
        let waiting =
            self.pending.values().filter(|it| it.from.as_ref().is_some_and(|(of, _)| *of == client));
        if waiting.count() >= WAITING {
            return self.refuse(client, &message, "busy", "too many requests at once");
        }
        match (who, message.name.as_str()) {
            (Who::Agent, "initialize") => self.initialize_adapter(client, message),
            (Who::Agent, "launch" | "attach") => {
                self.launched = message.content();
                self.pass(client, message, Work::Launch);
            }
            (Who::Person, "initialize") => self.initialize_person(client, phase, message),
            (Who::Person, "disconnect") => self.disconnect(client, message),
            (Who::Person, _) if phase == Phase::New => {
                self.refuse(client, &message, "notInitialized", "`initialize` comes first");
            }
            (Who::Person, "attach") => self.attach(client, message),
            (Who::Person, "launch") => {
                let sentence = "the program runs already; join this session with `attach`";
                self.refuse(client, &message, "notSupported", sentence);
            }
            (Who::Person, _) if phase == Phase::Initialized => {
                self.refuse(client, &message, "notAttached", "join this session with `attach` first");
            }
            (Who::Person, "configurationDone") if phase == Phase::Live => {
                self.answer(client, &message, Value::Null)
            }
            (Who::Person, "configurationDone") => self.configured(client, message),
            (Who::Person, "terminate") => self.terminate(client, message),
            (_, "cancel") => self.cancel(client, message),
            (_, command) if runs(command) && phase != Phase::Live => {
                self.refuse(client, &message, "notConfigured", "`configurationDone` comes first");
            }
            (_, command) if runs(command) => self.run(client, who, message),
            (Who::Agent, command) if changes(command) && self.shared.controller == Controller::Person => {
                self.refuse(client, &message, "control_taken_by_user", THEIRS);
            }
            (_, command) if changes(command) => self.pass(client, message, Work::Change),
            (_, "threads") => self.pass(client, message, Work::Threads),
            (_, "terminate" | "disconnect") => self.pass(client, message, Work::End),
            (_, command) => {
                let mut own = message.clone();
                coordinates.to_adapter(&mut own);
                let arguments = own.content();
                match Book::set_of(command, &arguments, &*self.options.same) {
                    Some(set) => {
                        let seq = raw_of(&message, "seq");
                        let from = Some((client, seq));
                        self.queue.push_back(Setting { from, set, arguments: Some(arguments) });
                        self.next_setting();
                    }
                    None => self.pass(client, message, Work::Plain),
                }
            }
        }
    }

    fn initialize_adapter(&mut self, client: ClientId, mut message: Envelope) {
        let mut arguments = message.content();
        // What the hub passes on to those who can and keeps from the others.
        for can in [
            "supportsProgressReporting",
            "supportsInvalidatedEvent",
            "supportsMemoryEvent",
            "supportsMemoryReferences",
        ] {
            arguments[can] = json!(true);
        }
        message.set_content(&arguments);
        self.pass(client, message, Work::Initialize);
    }

    fn initialize_person(&mut self, client: ClientId, phase: Phase, message: Envelope) {
        if phase != Phase::New {
            return self.refuse(client, &message, "initialized", "`initialize` comes once");
        }
        let Some(capabilities) = &self.capabilities else {
            return self.wait(client, message);
        };
        let mut capabilities = capabilities.clone();
        // The hub's own.
        for can in
            ["supportsConfigurationDoneRequest", "supportTerminateDebuggee", "supportsTerminateRequest"]
        {
            capabilities[can] = json!(true);
        }
        if let Some(member) = self.members.get_mut(&client) {
            member.facts = Facts::read(&message.content());
            member.phase = Phase::Initialized;
        }
        self.answer(client, &message, capabilities);
    }

    fn attach(&mut self, client: ClientId, message: Envelope) {
        if !self.ready {
            return self.wait(client, message);
        }
        let Some(member) = self.members.get_mut(&client).filter(|it| it.phase == Phase::Initialized) else {
            return self.refuse(client, &message, "attached", "`attach` comes once");
        };
        member.phase = Phase::Attached;
        self.answer(client, &message, Value::Null);
        self.tell(client, Envelope::event("initialized", Value::Null));
    }

    /// Keeps a request until the adapter is there.
    fn wait(&mut self, client: ClientId, message: Envelope) {
        if let Some(member) = self.members.get_mut(&client) {
            member.waiting.push(message);
        }
    }

    fn wake(&mut self) {
        for client in self.members.keys().copied().collect::<Vec<_>>() {
            let waiting = self.members.get_mut(&client).map(|it| std::mem::take(&mut it.waiting));
            waiting.into_iter().flatten().for_each(|message| self.request(client, message));
        }
    }

    /// What happened before the client came, and from now on all that happens.
    fn configured(&mut self, client: ClientId, message: Envelope) {
        self.answer(client, &message, Value::Null);
        if let Some(member) = self.members.get_mut(&client) {
            member.phase = Phase::Live;
        }
        self.count();
        if let Some(process) = self.process.clone() {
            self.tell_live(client, Envelope::event("process", process));
        }
        for thread in self.view.live.clone() {
            self.tell_live(
                client,
                Envelope::event("thread", json!({ "reason": "started", "threadId": thread })),
            );
        }
        for stop in self.view.stops().cloned().collect::<Vec<_>>() {
            self.tell_live(client, Envelope::event("stopped", stop));
        }
        for output in self.kept.replay().collect::<Vec<_>>() {
            self.tell_live(client, output);
        }
        for child in self.children.clone() {
            self.ask_to_join(client, &child);
        }
    }

    fn disconnect(&mut self, client: ClientId, message: Envelope) {
        if message.content()["terminateDebuggee"] == true && !self.over {
            self.shared.ended_by_person = true;
            let from = Some((client, raw_of(&message, "seq")));
            return self.send_end(from, message.name);
        }
        self.answer(client, &message, Value::Null);
        self.left(client);
    }

    fn terminate(&mut self, client: ClientId, message: Envelope) {
        if self.over {
            return self.answer(client, &message, Value::Null);
        }
        self.shared.ended_by_person = true;
        let can = self.capabilities.as_ref().is_some_and(|it| it["supportsTerminateRequest"] == true);
        let from = Some((client, raw_of(&message, "seq")));
        if can {
            let number = self.send(message.clone(), Pending { from, command: message.name, work: Work::End });
            return self.out.push(Output::Deadline { number });
        }
        self.send_end(from, message.name);
    }

    /// `disconnect` that ends the program, for a client that asked so or with `terminate`.
    fn send_end(&mut self, from: Option<(ClientId, Box<RawValue>)>, command: String) {
        let own = Envelope::request("disconnect", json!({ "terminateDebuggee": true }));
        let number = self.send(own, Pending { from, command, work: Work::Disconnect });
        self.out.push(Output::Deadline { number });
    }

    /// The adapter did not answer a person who ends the program: it is asked to disconnect, then ended.
    fn late(&mut self, number: i64) {
        match self.pending.remove(&number) {
            Some(Pending { from, command, work: Work::End }) if !self.over => self.send_end(from, command),
            // Its answer comes when it is gone, as that of all that wait.
            Some(pending) => {
                self.shared.deaf = true;
                self.pending.insert(number, pending);
            }
            None => {}
        }
    }

    fn run(&mut self, client: ClientId, who: Who, mut message: Envelope) {
        let command = message.name.clone();
        if who == Who::Person {
            self.person_takes();
        } else if self.shared.controller == Controller::Person {
            return self.refuse(client, &message, "control_taken_by_user", THEIRS);
        }
        if command == "restart" && who == Who::Person && !self.launched.is_null() {
            // Theirs says how they joined.
            message.set_content(&json!({ "arguments": self.launched }));
        }
        let work = self.run_of(client, &command, &message.content()).map_or(Work::Plain, Work::Run);
        self.pass(client, message, work);
    }

    fn person_takes(&mut self) {
        if self.shared.controller != Controller::Person {
            self.shared.taken += 1;
        }
        self.shared.controller = Controller::Person;
    }

    /// What a request of `client` that runs the program means; `None` where only events can say.
    fn run_of(&self, client: ClientId, command: &str, arguments: &Value) -> Option<Run> {
        let own = self.members.get(&client).map_or(0, |it| it.told.now());
        let marks = (self.view.now(), own);
        let (thread, all) = match command {
            "pause" | "goto" | "restartFrame" | "terminateThreads" => return None,
            "restart" => (None, true),
            _ => (arguments["threadId"].as_i64(), arguments["singleThread"] != true),
        };
        Some(Run { thread, all, marks, told: false })
    }

    /// What an editor that holds the session said to the adapter, or was answered.
    fn overheard(&mut self, client: ClientId, mut message: Envelope) {
        if self.over || !self.members.contains_key(&client) {
            return;
        }
        if message.kind == Kind::Response {
            let asked = message.raw("request_seq").map(|it| it.get().trim().to_owned());
            if let Some(number) = asked.and_then(|seq| self.overheard.remove(&seq)) {
                message.set("request_seq", &json!(number));
                self.response(message);
            }
            return;
        }
        let (command, arguments) = (message.name.as_str(), message.content());
        let work = match command {
            _ if runs(command) => {
                self.person_takes();
                self.run_of(client, command, &arguments).map(Work::Run)
            }
            _ if changes(command) => Some(Work::Change),
            "terminate" | "disconnect" => {
                self.shared.ended_by_person = true;
                None
            }
            _ => Book::set_of(command, &arguments, &*self.options.same).map(|set| {
                let before = self.book.replace(client, &set, &arguments);
                let crossed = self.setting.is_some();
                Work::Heard(Box::new(Heard { client, set, before, crossed }))
            }),
        };
        if let (Some(work), Some(seq)) = (work, message.raw("seq")) {
            let number = self.number();
            self.overheard.insert(seq.get().trim().to_owned(), number);
            let command = message.name.clone();
            self.pending.insert(number, Pending { from: None, command, work });
        }
    }

    /// The adapter has now what an editor alone wants: with what the others want it is sent again.
    fn heard(&mut self, heard: Heard, good: bool) {
        let Heard { client, set, before, crossed } = heard;
        if !good {
            return self.book.restore(before);
        }
        if crossed || self.book.others_want(&set, client) {
            self.queue.push_back(Setting { from: None, set, arguments: None });
            self.next_setting();
        }
    }

    fn cancel(&mut self, client: ClientId, mut message: Envelope) {
        let mut arguments = message.content();
        if arguments["requestId"].is_null() {
            return self.pass(client, message, Work::Plain);
        }
        let key = arguments["requestId"].to_string();
        let own = |from: &Option<(ClientId, Box<RawValue>)>| {
            from.as_ref().is_some_and(|(of, seq)| *of == client && seq.get().trim() == key)
        };
        if let Some(at) = self.queue.iter().position(|it| own(&it.from)) {
            if let Some(Setting { from: Some((_, seq)), set, .. }) = self.queue.remove(at) {
                let refusal = Envelope::refusal(set.command(), "cancelled", "it was cancelled");
                self.respond(client, &seq, refusal);
            }
            return self.answer(client, &message, Value::Null);
        }
        let found = self.pending.iter().find(|(_, it)| own(&it.from)).map(|(number, _)| *number);
        let can = self.capabilities.as_ref().is_some_and(|it| it["supportsCancelRequest"] == true);
        match found {
            Some(number) if can => {
                arguments["requestId"] = json!(number);
                message.set_content(&arguments);
                self.pass(client, message, Work::Plain);
            }
            // It was answered meanwhile, or cannot be stopped: the acknowledgement says no more.
            _ => self.answer(client, &message, Value::Null),
        }
    }

    /// Sends a client's request on.
    fn pass(&mut self, client: ClientId, mut message: Envelope, work: Work) {
        let coordinates = self.members.get(&client).map_or(Coordinates::ADAPTER, |it| it.facts.coordinates);
        let from = Some((client, raw_of(&message, "seq")));
        let command = message.name.clone();
        coordinates.to_adapter(&mut message);
        self.send(message, Pending { from, command, work });
    }

    fn send(&mut self, mut message: Envelope, pending: Pending) -> i64 {
        let number = self.number();
        message.set("seq", &json!(number));
        self.pending.insert(number, pending);
        self.out.push(Output::Adapter(message));
        number
    }

    fn number(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    fn next_setting(&mut self) {
        if self.setting.is_some() {
            return;
        }
        let Some(Setting { from, set, arguments }) = self.queue.pop_front() else { return };
        let client = from.as_ref().map(|(client, _)| *client);
        let before = match (client, &arguments) {
            (Some(client), Some(arguments)) => Some(self.book.replace(client, &set, arguments)),
            _ => None,
        };
        let members = &self.members;
        let plan = self.book.plan(&set, &|client| match members.get(&client).map(|it| it.who) {
            Some(Who::Agent) => "the agent".to_owned(),
            _ => "the person".to_owned(),
        });
        let message = Envelope::request(set.command(), plan.arguments.clone());
        let command = set.command().to_owned();
        let number =
            self.send(message, Pending { from, command, work: Work::Set(Box::new(Sent { plan, before })) });
        self.setting = Some(number);
    }

    // What the adapter says.

    fn response(&mut self, message: Envelope) {
        let Some((number, pending)) =
            message.answers().and_then(|number| Some((number, self.pending.remove(&number)?)))
        else {
            return self.log(format!("late or unknown answer to {}", message.key("request_seq")));
        };
        let Pending { from, command, work } = pending;
        let good = message.success();
        // Most bodies concern the client alone; large ones are not read here.
        let read = matches!(work, Work::Initialize | Work::Threads | Work::Run(_));
        let body = if read { message.content() } else { Value::Null };
        let client = from.as_ref().map(|(client, _)| *client);
        match work {
            Work::Set(sent) => return self.set_answered(number, from, *sent, message),
            Work::Heard(heard) => return self.heard(*heard, good),
            Work::Initialize if good => {
                self.capabilities = Some(if body.is_object() { body.clone() } else { json!({}) });
            }
            Work::Threads if good => {
                let threads = body["threads"].as_array().into_iter().flatten();
                threads.filter_map(|it| it["id"].as_i64()).for_each(|id| self.view.started(id));
            }
            _ => {}
        }
        self.pass_back(from, &command, message);
        match work {
            Work::Initialize if good => self.wake(),
            Work::Run(Run { thread, all, marks: (mark, own), .. }) => {
                if good {
                    let all = body["allThreadsContinued"].as_bool().unwrap_or(all);
                    self.view.continued(thread, all, mark);
                    // Who asked knows that from the answer.
                    if let Some(member) = client.and_then(|client| self.members.get_mut(&client)) {
                        member.told.continued(thread, all, own);
                    }
                }
                self.reconcile();
            }
            Work::Change if good => {
                let message = Envelope::event("invalidated", json!({ "areas": ["variables"] }));
                self.tell_all(&message, client);
            }
            _ => {}
        }
    }

    fn pass_back(&mut self, from: Option<(ClientId, Box<RawValue>)>, command: &str, mut message: Envelope) {
        let Some((client, seq)) = from else { return };
        if message.name != command || message.raw("command").is_none() {
            message.set("command", &json!(command));
        }
        if message.raw("success").is_none() {
            message.set("success", &json!(true));
        }
        message.name = command.to_owned();
        let coordinates = self.members.get(&client).map_or(Coordinates::ADAPTER, |it| it.facts.coordinates);
        coordinates.to_client(&mut message);
        self.respond(client, &seq, message);
    }

    fn set_answered(
        &mut self,
        number: i64,
        from: Option<(ClientId, Box<RawValue>)>,
        sent: Sent,
        mut message: Envelope,
    ) {
        let Sent { plan, before } = sent;
        if self.setting == Some(number) {
            self.setting = None;
        }
        let command = plan.set.command();
        if message.success() {
            let body = message.content();
            let Told { answers, changed } = self.book.answered(&plan, &body);
            let client = from.as_ref().map(|(client, _)| *client);
            if let Some(client) = client
                && Book::has_answers(&plan, &body)
            {
                let mut own = if body.is_object() { body } else { json!({}) };
                own["breakpoints"] = json!(answers.get(&client).cloned().unwrap_or_default());
                message.set_content(&own);
            }
            self.pass_back(from, command, message);
            for (owner, breakpoint) in changed.into_iter().filter(|(owner, _)| Some(*owner) != client) {
                let body = json!({ "reason": "changed", "breakpoint": breakpoint });
                self.tell_live(owner, Envelope::event("breakpoint", body));
            }
        } else {
            if let Some(before) = before {
                self.book.restore(before);
            }
            self.pass_back(from, command, message);
        }
        for event in std::mem::take(&mut self.held) {
            self.event(event);
        }
        self.next_setting();
    }

    fn event(&mut self, mut message: Envelope) {
        let name = message.name.clone();
        match name.as_str() {
            "initialized" => {
                self.ready = true;
                self.tell_agents(&message);
                return self.wake();
            }
            "capabilities" => {
                let told = message.content()["capabilities"].clone();
                if told.is_object() {
                    crate::definition::merge(self.capabilities.get_or_insert_with(|| json!({})), told);
                }
            }
            "process" => self.process = Some(message.content()),
            "thread" | "continued" => fold(&mut self.view, &message),
            "stopped" => {
                // A request that runs on may be answered after the next stop only.
                self.resume_unanswered();
                let mut body = message.content();
                if body["hitBreakpointIds"].is_array() {
                    self.book.hit(&mut body);
                    message.set_content(&body);
                }
                fold(&mut self.view, &message);
            }
            "output" => {
                if let Some(body) = message.raw("body") {
                    self.kept.push(body.to_owned());
                }
            }
            "breakpoint" if self.setting.is_some() => return self.held.push(message),
            "breakpoint" => {
                let mut body = message.content();
                if let Some(owners) = self.book.event(&mut body) {
                    message.set_content(&body);
                    owners.into_iter().for_each(|owner| self.tell_live(owner, message.clone()));
                    return;
                }
            }
            "terminated" => self.over = true,
            _ => {}
        }
        self.tell_all(&message, None);
    }

    /// Tells of the requests that run the program and are not answered, before a stop is told. Should one
    /// be refused, its answer puts that right.
    fn resume_unanswered(&mut self) {
        let untold = self.pending.iter_mut().filter_map(|(number, it)| match &mut it.work {
            Work::Run(Run { thread, all, told, .. }) if !*told => {
                *told = true;
                Some((*number, it.from.as_ref().map(|(client, _)| *client), *thread, *all))
            }
            _ => None,
        });
        let mut untold: Vec<_> = untold.collect();
        untold.sort_unstable();
        for (_, client, thread, all) in untold {
            for other in self.members.keys().copied().filter(|it| Some(*it) != client).collect::<Vec<_>>() {
                let stopped = self.members.get(&other).is_some_and(|it| it.told.is_stopped());
                if stopped {
                    self.tell_live(other, continued(thread, all));
                }
            }
        }
    }

    /// After a request that runs the program was answered: all are told what they do not know.
    fn reconcile(&mut self) {
        for id in self.members.keys().copied().collect::<Vec<_>>() {
            let Some(member) = self.members.get(&id).filter(|it| it.phase == Phase::Live) else { continue };
            let last = member.told.stops().last().and_then(|stop| stop["threadId"].as_i64());
            for missing in member.told.missing(&self.view) {
                self.tell_live(
                    id,
                    match missing {
                        Missing::Continued(thread) => continued(thread.or(last), thread.is_none()),
                        Missing::Stopped(body) => Envelope::event("stopped", body),
                    },
                );
            }
        }
    }

    // What the adapter asks.

    fn reverse(&mut self, message: Envelope) {
        let seq = raw_of(&message, "seq");
        self.ask_next(seq, message, BTreeSet::new());
    }

    /// Asks the next who can answer: a person who can do it, then the agent, then nobody.
    fn ask_next(&mut self, adapter_seq: Box<RawValue>, message: Envelope, mut tried: BTreeSet<ClientId>) {
        let command = message.name.as_str();
        let able = |(id, it): &(&ClientId, &Member)| {
            // Children are the agent's to start: they get a hub of their own.
            let can = it.who == Who::Agent
                || it.phase == Phase::Live && command == "runInTerminal" && it.facts.terminal;
            can && !tried.contains(*id)
        };
        let chosen =
            self.members.iter().filter(able).max_by_key(|(_, it)| it.who == Who::Person).map(|(id, _)| *id);
        let Some(client) = chosen else {
            let sentence = format!("nobody here can answer `{command}`");
            let mut answer = Envelope::refusal(command, "notSupported", &sentence);
            answer.set_raw("request_seq", adapter_seq);
            return self.send_answer(answer);
        };
        tried.insert(client);
        let mut own = message.clone();
        let coordinates = self.members.get(&client).map_or(Coordinates::ADAPTER, |it| it.facts.coordinates);
        coordinates.to_client(&mut own);
        let client_seq = self.tell(client, own);
        self.asked.push(Asked { adapter_seq, message, client, client_seq, tried });
    }

    fn reply(&mut self, client: ClientId, message: &Envelope) {
        let to = message.answers();
        let Some(at) = self.asked.iter().position(|it| it.client == client && Some(it.client_seq) == to)
        else {
            // Also the answers to what the hub itself asked, which say nothing.
            return self.log(format!("client {client} answered {:?}, which was not asked", to));
        };
        let Asked { adapter_seq, message: asked, tried, .. } = self.asked.remove(at);
        let person = self.members.get(&client).is_some_and(|it| it.who == Who::Person);
        if !message.success() && person {
            return self.ask_next(adapter_seq, asked, tried);
        }
        let mut answer = message.clone();
        answer.set("command", &json!(asked.name));
        answer.set_raw("request_seq", adapter_seq);
        self.send_answer(answer);
    }

    fn send_answer(&mut self, mut answer: Envelope) {
        let number = self.number();
        answer.set("seq", &json!(number));
        self.out.push(Output::Adapter(answer));
    }

    /// A child session of the agent's: persons whose editors can are asked to join it.
    fn child(&mut self, configuration: Value) {
        for client in self.members.keys().copied().collect::<Vec<_>>() {
            self.ask_to_join(client, &configuration);
        }
        // Whoever comes later is asked then.
        self.children.push(configuration);
    }

    fn ask_to_join(&mut self, client: ClientId, configuration: &Value) {
        let able = |it: &Member| it.who == Who::Person && it.phase == Phase::Live && it.facts.children;
        if self.members.get(&client).is_some_and(able) {
            let arguments = json!({ "request": "attach", "configuration": configuration });
            self.tell(client, Envelope::request("startDebugging", arguments));
        }
    }

    /// The adapter's stream is closed.
    fn gone(&mut self, why: &str) {
        let first = !self.over;
        self.over = true;
        let mut pending: Vec<(i64, Pending)> = self.pending.drain().collect();
        pending.sort_by_key(|(number, _)| *number);
        let mut waiting: Vec<(ClientId, Box<RawValue>, String, bool)> = Vec::new();
        for (_, it) in pending {
            let ends = matches!(it.work, Work::End | Work::Disconnect);
            waiting.extend(it.from.map(|(client, seq)| (client, seq, it.command, ends)));
        }
        for it in std::mem::take(&mut self.queue) {
            waiting.extend(it.from.map(|(client, seq)| (client, seq, it.set.command().to_owned(), false)));
        }
        for (id, member) in &mut self.members {
            for message in std::mem::take(&mut member.waiting) {
                waiting.push((*id, raw_of(&message, "seq"), message.name.clone(), false));
            }
        }
        self.setting = None;
        self.held.clear();
        self.asked.clear();
        self.overheard.clear();
        for (client, seq, command, ends) in waiting {
            // The agent's own connection closes, which says the same.
            if self.members.get(&client).is_some_and(|it| it.who == Who::Person) {
                let answer = if ends {
                    Envelope::answer(&command, Value::Null)
                } else {
                    Envelope::refusal(&command, "terminated", &format!("the debug adapter is gone: {why}"))
                };
                self.respond(client, &seq, answer);
            }
        }
        let persons = self.members.iter().filter(|(_, it)| it.who == Who::Person);
        for client in persons.map(|(id, _)| *id).collect::<Vec<_>>() {
            if first {
                self.tell_live(client, Envelope::event("terminated", Value::Null));
            }
        }
        for (client, member) in &mut self.members {
            member.phase = Phase::Closed;
            self.out.push(Output::Close { client: *client });
        }
    }

    // Ways out.

    fn about(&self) -> Value {
        let mut about = self.options.about.clone();
        about["state"] = json!(match (self.over, self.view.is_stopped(), self.ready) {
            (true, ..) => "terminated",
            (_, true, _) => "stopped",
            (_, _, true) => "running",
            _ => "launching",
        });
        about["controller"] = json!(self.shared.controller.name());
        about["persons"] = json!(self.shared.persons);
        about
    }

    fn answer(&mut self, client: ClientId, to: &Envelope, body: Value) {
        let seq = raw_of(to, "seq");
        self.respond(client, &seq, Envelope::answer(&to.name, body));
    }

    fn refuse(&mut self, client: ClientId, to: &Envelope, short: &str, sentence: &str) {
        let seq = raw_of(to, "seq");
        self.respond(client, &seq, Envelope::refusal(&to.name, short, sentence));
    }

    fn respond(&mut self, client: ClientId, to: &RawValue, mut answer: Envelope) {
        answer.set_raw("request_seq", to.to_owned());
        self.tell(client, answer);
    }

    /// To all who are there, but for the one who needs no word.
    fn tell_all(&mut self, message: &Envelope, but: Option<ClientId>) {
        for client in self.members.keys().copied().filter(|it| Some(*it) != but).collect::<Vec<_>>() {
            self.tell_live(client, message.clone());
        }
    }

    fn tell_agents(&mut self, message: &Envelope) {
        let agents = self.members.iter().filter(|(_, it)| it.who == Who::Agent);
        for agent in agents.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.tell(agent, message.clone());
        }
    }

    fn tell_live(&mut self, client: ClientId, mut message: Envelope) {
        let Some(member) = self.members.get(&client).filter(|it| it.phase == Phase::Live) else { return };
        if member.facts.takes(member.who, &message.name) {
            if let Some(member) = self.members.get_mut(&client) {
                fold(&mut member.told, &message);
            }
            let Some(member) = self.members.get(&client) else { return };
            member.facts.coordinates.to_client(&mut message);
            self.tell(client, message);
        }
    }

    /// Sends under the client's own next number, which it gives.
    fn tell(&mut self, client: ClientId, mut message: Envelope) -> i64 {
        let deaf = |it: &Member| matches!(it.phase, Phase::Closed | Phase::Beside);
        let Some(member) = self.members.get_mut(&client).filter(|it| !deaf(it)) else {
            return 0;
        };
        let number = member.next;
        member.next += 1;
        message.set("seq", &json!(number));
        self.out.push(Output::Client { client, message });
        number
    }

    fn log(&mut self, text: String) {
        self.out.push(Output::Log(text));
    }
}

fn raw_of(message: &Envelope, name: &str) -> Box<RawValue> {
    message.raw(name).map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned)
}

/// The event that tells of a run that `thread`, or all, go on with.
fn continued(thread: Option<i64>, all: bool) -> Envelope {
    Envelope::event(
        "continued",
        json!({ "threadId": thread.unwrap_or_default(), "allThreadsContinued": all }),
    )
}

/// What an event says of the program.
fn fold(view: &mut View, event: &Envelope) {
    if !matches!(event.name.as_str(), "thread" | "stopped" | "continued") {
        return;
    }
    let body = event.content();
    let thread = body["threadId"].as_i64();
    match (event.name.as_str(), thread) {
        ("thread", Some(thread)) if body["reason"] == "exited" => view.exited(thread),
        ("thread", Some(thread)) => view.started(thread),
        // Left out means all (DAP §Continued Event).
        ("continued", _) => {
            view.continued(thread, body["allThreadsContinued"].as_bool().unwrap_or(true), u64::MAX)
        }
        ("stopped", _) => view.stopped(body),
        _ => {}
    }
}
