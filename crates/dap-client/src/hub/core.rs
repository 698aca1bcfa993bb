//! The hub's state machine: one adapter, several clients; a message in, messages out.
//!
//! Pure: no clock, no I/O. What must stay true: each request of a client is answered once, under its own
//! number, also when the adapter is gone; no client sees another's numbers; each request of the adapter is
//! answered; what the clients were told of the program is what the adapter told; what we do not know
//! passes as it came.

mod asking;
mod ending;
mod joining;
mod overhearing;
mod running;
mod setting;
mod telling;

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::clients::{Member, Phase};
use super::coordinates::Coordinates;
use super::merge::{Book, FORMER};
use super::message::{Envelope, Kind};
use super::output_backlog::OutputBacklog;
use super::view::View;
use super::{ClientId, Controller, Input, Options, Output, Shared, Who};
use asking::Asked;
use overhearing::Heard;
use running::{Run, fold, runs};
use setting::{Sent, Setting};

use crate::debuggee::output_fence;

/// Requests of one client that may wait; more are refused.
const WAITING: usize = 512;

/// Events about breakpoints that are held while a set is not answered; beyond, the oldest is told.
const HELD: usize = 4096;

/// What the agent is told then.
const THEIRS: &str =
    "the person has control of this session: look, do not run or change, until it is handed back";

pub struct Hub {
    options: Options,
    pub(super) members: BTreeMap<ClientId, Member>,
    pending: HashMap<i64, Pending>,
    next: i64,
    book: Book,
    /// Sets are sent one after the other, since each replaces the one before.
    setting: Option<i64>,
    queue: VecDeque<Setting>,
    /// The agent's `configurationDone`, until what persons had set before is in place.
    configured: Option<(ClientId, Envelope)>,
    /// Events about breakpoints whose numbers the answer in flight will tell.
    held: VecDeque<Envelope>,
    view: View,
    kept: OutputBacklog,
    process: Option<Value>,
    capabilities: Option<Value>,
    ready: bool,
    /// Arguments of the agent's `launch` or `attach`, for a restart.
    launched: Value,
    shared: Shared,
    /// Requests that were overheard and are not answered, by the number they were sent under; the newest.
    overheard: HashMap<String, i64>,
    /// Requests of the adapter that wait for a client.
    asked: Vec<Asked>,
    /// The last number of those, counted downwards.
    asks: i64,
    /// What an editor is given to join the child sessions that are not over.
    children: Vec<Value>,
    over: bool,
    /// A request that runs the program was not answered in its time: whether it runs is not known.
    doubtful: bool,
    /// Persons are told of the end later, with what comes after it.
    relaunching: bool,
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
    Plain,
    Initialize,
    Launch,
    Threads,
    Run(Run),
    Change,
    Set(Box<Sent>),
    /// A set that an editor sent itself.
    Heard(Box<Heard>),
    End,
    /// Ends the program with the session.
    Disconnect,
}

impl Hub {
    /// One that has no clients yet.
    pub fn new(options: Options) -> Self {
        let mut book = Book::new(options.or.clone(), options.exception_names.clone());
        for (command, arguments) in &options.former {
            if let Some(set) = Book::set_of(command, arguments, &*options.same) {
                book.replace(FORMER, &set, arguments);
            }
        }
        Self {
            options,
            members: BTreeMap::new(),
            pending: HashMap::new(),
            next: 1,
            book,
            setting: None,
            queue: VecDeque::new(),
            configured: None,
            held: VecDeque::new(),
            view: View::default(),
            kept: OutputBacklog::default(),
            process: None,
            capabilities: None,
            ready: false,
            launched: Value::Null,
            shared: Shared::default(),
            overheard: HashMap::new(),
            asked: Vec::new(),
            asks: 0,
            children: Vec::new(),
            over: false,
            doubtful: false,
            relaunching: false,
            out: Vec::new(),
        }
    }

    /// Who has control, and how many look on.
    pub fn shared(&self) -> Shared {
        self.shared
    }

    /// Whether persons wait for what comes after the end.
    pub fn is_relaunching(&self) -> bool {
        self.relaunching
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
            Input::Relaunching => self.relaunching = true,
            Input::Relaunched { configuration } => self.relaunched(configuration),
            Input::Late { number } if number < 0 => self.unanswered(number),
            Input::Late { number } => self.late(number),
        }
        std::mem::take(&mut self.out)
    }

    fn request(&mut self, client: ClientId, message: Envelope) {
        let Some(member) = self.members.get(&client) else { return };
        let (who, phase, coordinates) = (member.who, member.phase, member.facts.coordinates);
        // A mark behind the program's last output is asked for after its end.
        let marks = self.options.marks && who == Who::Agent && message.name == "evaluate";
        let fits = matches!(message.name.as_str(), "disconnect" | "terminate" | "pilcrow/session") || marks;
        if self.over && !fits {
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
        // Who leaves is let go.
        let leaves = message.name == "disconnect" && message.content()["terminateDebuggee"] != true;
        if self.waiting(client) >= WAITING && !(who == Who::Person && leaves) {
            return self.refuse(client, &message, "busy", "too many requests at once");
        }
        match (who, message.name.as_str()) {
            (Who::Agent, "initialize") => self.initialize_adapter(client, message),
            (Who::Agent, "configurationDone") => {
                self.configured = Some((client, message));
                self.next_setting();
            }
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
                if command == "setBreakpoints" && !Book::names_source(&arguments) {
                    // debugpy 1.8.22 ends at it, with the program (DAP §SetBreakpointsArguments).
                    let sentence = "`source` has to name a `path` or a `sourceReference`";
                    return self.refuse(client, &message, "invalidArguments", sentence);
                }
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

    /// How many requests of a client wait for their answer: at the adapter, for their turn, for the adapter.
    fn waiting(&self, client: ClientId) -> usize {
        let own =
            |from: &Option<(ClientId, Box<RawValue>)>| from.as_ref().is_some_and(|(of, _)| *of == client);
        let sent = self.pending.values().filter(|it| own(&it.from)).count();
        let queued = self.queue.iter().filter(|it| own(&it.from)).count();
        sent + queued + self.members.get(&client).map_or(0, |it| it.waiting.len())
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
        let after = self.patience(&pending);
        self.pending.insert(number, pending);
        self.out.push(Output::Adapter(message));
        self.out.extend(after.map(|after| Output::Deadline { number, after }));
        number
    }

    fn number(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

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
                    self.doubtful = false;
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

    fn event(&mut self, mut message: Envelope) {
        let name = message.name.clone();
        match name.as_str() {
            "initialized" => {
                self.ready = true;
                for set in self.book.sets_of(FORMER) {
                    self.set_again(set);
                }
                self.next_setting();
                self.tell_agents(&message);
                return self.wake();
            }
            "capabilities" => {
                let told = message.content()["capabilities"].clone();
                if told.is_object() {
                    adapters::merge(self.capabilities.get_or_insert_with(|| json!({})), told);
                }
            }
            "process" => self.process = Some(message.content()),
            "thread" => fold(&mut self.view, &message),
            "continued" => {
                self.doubtful = false;
                fold(&mut self.view, &message);
                return self.tell_continued(&message);
            }
            "stopped" => {
                self.doubtful = false;
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
                let read = self.options.marks || self.options.wrap.is_some();
                let body = read.then(|| message.content());
                let rest = body.as_ref().and_then(|it| self.without_ours(it["output"].as_str()?));
                if let (Some(mut body), Some(rest)) = (body, rest) {
                    // What is ours in it is the agent's alone.
                    self.tell_agents(&message);
                    if !rest.is_empty() {
                        body["output"] = json!(rest);
                        message.set_content(&body);
                        self.keep(&message);
                        self.tell_persons(&message);
                    }
                    return;
                }
                self.keep(&message);
            }
            "breakpoint" => {
                let event = if self.setting.is_some() { self.hold(message) } else { Some(message) };
                return event.into_iter().for_each(|it| self.breakpoint(it));
            }
            "terminated" => {
                self.over = true;
                if self.relaunching {
                    return self.tell_agents(&message);
                }
            }
            _ => {}
        }
        self.tell_all(&message, None);
    }

    /// Keeps an event until the set in flight is answered; what has to be told now, since too many are kept.
    fn hold(&mut self, event: Envelope) -> Option<Envelope> {
        self.held.push_back(event);
        (self.held.len() > HELD).then(|| self.held.pop_front()).flatten()
    }

    /// An event about a breakpoint, for those who set it.
    fn breakpoint(&mut self, mut event: Envelope) {
        let mut body = event.content();
        let Some(owners) = self.book.event(&mut body) else { return self.tell_all(&event, None) };
        event.set_content(&body);
        owners.into_iter().for_each(|owner| self.tell_live(owner, event.clone()));
    }

    /// A text of the program's without what we had written into it; `None` where there is nothing of that.
    fn without_ours(&self, text: &str) -> Option<String> {
        let mark = || output_fence::take(text).map(|(rest, _)| rest);
        let marked = self.options.marks.then(mark).flatten();
        marked.or_else(|| self.options.wrap.as_ref()?.exit_code(text).map(|(_, rest)| rest))
    }

    fn keep(&mut self, output: &Envelope) {
        if let Some(body) = output.raw("body") {
            self.kept.push(body.to_owned());
        }
    }

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
}

/// Requests that change a value.
fn changes(command: &str) -> bool {
    matches!(command, "setVariable" | "setExpression" | "writeMemory")
}

fn raw_of(message: &Envelope, name: &str) -> Box<RawValue> {
    message.raw(name).map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned)
}
