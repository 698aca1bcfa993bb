//! The hub's state machine: one adapter and several clients; a message in, messages
//! out.
//!
//! Pure: no clock, no I/O.
//!
//! Invariants: each client request gets one response under its own number, even if the adapter closes; no
//! client sees another client's numbers; each adapter request gets a response; clients observe the program
//! state that the adapter reported; unknown messages and members pass through unchanged.

mod breakpoint_sets;
mod delivery;
mod external_messages;
mod membership;
mod reverse_requests;
mod run_control;
mod shutdown;

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::breakpoint_table::{BreakpointTable, PREVIOUS_SESSION};
use super::clients::{ClientState, Phase};
use super::coordinates::Coordinates;
use super::output_backlog::OutputBacklog;
use super::view::View;
use super::{ClientId, Controller, HubOptions, HubStatus, Input, Output, Role};
use crate::client::envelope::{Envelope, Kind};
use breakpoint_sets::{QueuedSet, SentSet};
use external_messages::ExternalSet;
use reverse_requests::ReverseRequest;
use run_control::{RunRequest, apply_event, runs};

use crate::debuggee::{output_fence, required_capability};

/// Maximum number of waiting requests of one client; the hub refuses more.
const MAX_WAITING_REQUESTS: usize = 512;

/// Maximum number of breakpoint events deferred while a set is in flight.
///
/// Beyond the limit, the hub sends the oldest.
const MAX_DEFERRED_EVENTS: usize = 4096;

/// The refusal of an agent request while the user has control.
const USER_HAS_CONTROL: &str =
    "the user has control of this session: inspect, do not run or change, until control is returned";

pub struct Hub {
    options: HubOptions,
    pub(super) clients: BTreeMap<ClientId, ClientState>,
    pending: HashMap<i64, Pending>,
    next_number: i64,
    breakpoints: BreakpointTable,
    /// Number of the set in flight.
    ///
    /// The hub sends sets one at a time, because each replaces the previous one.
    set_in_flight: Option<i64>,
    queued_sets: VecDeque<QueuedSet>,
    /// The agent's deferred `configurationDone`.
    ///
    /// The hub sends it once the user's earlier breakpoints are in place.
    pending_configuration_done: Option<(ClientId, Envelope)>,
    /// Breakpoint events whose numbers the answer in flight defines.
    deferred_events: VecDeque<Envelope>,
    view: View,
    backlog: OutputBacklog,
    process: Option<Value>,
    capabilities: Option<Value>,
    adapter_initialized: bool,
    /// Arguments of the agent's `launch` or `attach`, for a restart.
    launch_arguments: Value,
    status: HubStatus,
    /// Unanswered external requests, by the number under which the editor sent them.
    external_requests: HashMap<String, i64>,
    /// Adapter requests that wait for a client.
    reverse_requests: Vec<ReverseRequest>,
    /// The last number of an adapter request, counted downwards.
    last_reverse_number: i64,
    /// Configurations with which clients join the live child sessions.
    children: Vec<Value>,
    terminated: bool,
    /// Whether a run request timed out, so that the program may run or not.
    run_state_unknown: bool,
    /// Whether the session that replaces this one will report the end.
    relaunching: bool,
    out: Vec<Output>,
}

/// The requesting client and its number of the request; `None` for the hub itself.
type Requester = Option<(ClientId, Box<RawValue>)>;

struct Pending {
    from: Requester,
    /// The command as the client wrote it.
    command: String,
    work: Work,
}

enum Work {
    Plain,
    Initialize,
    Launch,
    Threads,
    Run(RunRequest),
    Change,
    Set(Box<SentSet>),
    /// A set that an editor sent to the adapter itself.
    ExternalSet(Box<ExternalSet>),
    End,
    /// A `disconnect` that ends the program.
    Disconnect,
}

impl Hub {
    pub fn new(options: HubOptions) -> Self {
        let mut breakpoints =
            BreakpointTable::new(options.or_operator.clone(), options.exception_names.clone());
        for (command, arguments) in &options.initial_breakpoints {
            if let Some(set) = BreakpointTable::set_of(command, arguments, &*options.canonical_path) {
                breakpoints.replace(PREVIOUS_SESSION, &set, arguments);
            }
        }
        Self {
            options,
            clients: BTreeMap::new(),
            pending: HashMap::new(),
            next_number: 1,
            breakpoints,
            set_in_flight: None,
            queued_sets: VecDeque::new(),
            pending_configuration_done: None,
            deferred_events: VecDeque::new(),
            view: View::default(),
            backlog: OutputBacklog::default(),
            process: None,
            capabilities: None,
            adapter_initialized: false,
            launch_arguments: Value::Null,
            status: HubStatus::default(),
            external_requests: HashMap::new(),
            reverse_requests: Vec::new(),
            last_reverse_number: 0,
            children: Vec::new(),
            terminated: false,
            run_state_unknown: false,
            relaunching: false,
            out: Vec::new(),
        }
    }

    pub fn status(&self) -> HubStatus {
        self.status
    }

    /// Whether clients wait for the session that replaces this one.
    pub(crate) fn is_relaunching(&self) -> bool {
        self.relaunching
    }

    /// The program state that the adapter reported.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Handles one input; returns the outputs in order.
    pub fn handle(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Joined { client, role } => self.add_client(client, role),
            Input::ExternalClientJoined { client } => {
                self.add_client(client, Role::User);
                self.status.controller = Controller::User;
                if let Some(member) = self.clients.get_mut(&client) {
                    member.phase = Phase::External;
                }
                self.update_joined_clients();
            }
            Input::ExternalMessage { client, message } => self.external_message(client, message),
            Input::Left { client } => self.remove_client(client),
            Input::Client { client, message } => match message.kind {
                Kind::Request => self.client_request(client, message),
                Kind::Response => self.client_response(client, &message),
                Kind::Event => self.log(format!("client {client} sent an event `{}`", message.name)),
            },
            Input::Adapter(message) => match message.kind {
                Kind::Request => self.adapter_request(message),
                Kind::Response => self.adapter_response(message),
                Kind::Event => self.adapter_event(message),
            },
            Input::AdapterClosed { reason } => self.adapter_closed(&reason),
            Input::ReturnControl => self.status.controller = Controller::Agent,
            Input::AgentStopped => self.drop_agent_breakpoints(),
            Input::ConsoleMessage { client, text } => {
                let body = json!({ "category": "console", "output": text });
                self.notify_client(client, Envelope::event("output", body));
            }
            Input::ChildStarted { configuration } => self.child_started(configuration),
            Input::ChildEnded { configuration } => self.children.retain(|it| *it != configuration),
            Input::Relaunching => self.relaunching = true,
            Input::Relaunched { configuration } => self.relaunched(configuration),
            Input::DeadlinePassed { number } if number < 0 => self.reverse_request_expired(number),
            Input::DeadlinePassed { number } => self.request_expired(number),
        }
        std::mem::take(&mut self.out)
    }

    fn client_request(&mut self, client: ClientId, message: Envelope) {
        let Some(member) = self.clients.get(&client) else { return };
        let (role, phase, coordinates) = (member.role, member.phase, member.capabilities.coordinates);
        // The session sends a fence after the program's last output, even after the end.
        let is_fence = self.options.has_output_fence && role == Role::Agent && message.name == "evaluate";
        let fits =
            matches!(message.name.as_str(), "disconnect" | "terminate" | "pilcrow/session") || is_fence;
        if self.terminated && !fits {
            return self.refuse(client, &message, "notStopped", "the debug session has ended");
        }
        if message.name == "pilcrow/session" {
            let about = self.session_info();
            return self.answer(client, &message, about);
        }
        if message.name == "pilcrow/handBack" && role == Role::User {
            self.status.controller = Controller::Agent;
            return self.answer(client, &message, Value::Null);
        }
        // The limit does not stop a client from leaving.
        let leaves = message.name == "disconnect" && message.content()["terminateDebuggee"] != true;
        if self.waiting(client) >= MAX_WAITING_REQUESTS && !(role == Role::User && leaves) {
            return self.refuse(client, &message, "busy", "too many requests at once");
        }
        match (role, message.name.as_str()) {
            (Role::Agent, "initialize") => self.initialize_adapter(client, message),
            (Role::Agent, "configurationDone") => {
                self.pending_configuration_done = Some((client, message));
                self.send_next_set();
            }
            (Role::Agent, "launch" | "attach") => {
                self.launch_arguments = message.content();
                self.forward(client, message, Work::Launch);
            }
            (Role::User, "initialize") => self.initialize_client(client, phase, message),
            (Role::User, "disconnect") => self.disconnect_client(client, message),
            (Role::User, _) if phase == Phase::New => {
                self.refuse(client, &message, "notInitialized", "`initialize` comes first");
            }
            (Role::User, "attach") => self.attach_client(client, message),
            (Role::User, "launch") => {
                let sentence = "the program already runs; join this session with `attach`";
                self.refuse(client, &message, "notSupported", sentence);
            }
            (Role::User, _) if phase == Phase::Initialized => {
                self.refuse(client, &message, "notAttached", "join this session with `attach` first");
            }
            (Role::User, "configurationDone") if phase == Phase::Live => {
                self.answer(client, &message, Value::Null)
            }
            (Role::User, "configurationDone") => self.client_configured(client, message),
            (Role::User, "terminate") => self.terminate(client, message),
            (_, "cancel") => self.cancel(client, message),
            (_, command) if let Some(reason) = self.exclusion(command) => {
                let sentence = format!("the debug adapter has no `{command}`: {reason}");
                self.refuse(client, &message, "notSupported", &sentence);
            }
            (_, _) if let Some(member) = text_for_number(&message) => {
                // It ends delve 1.20.2 together with the program.
                let sentence = format!("`{member}` must be a number");
                self.refuse(client, &message, "invalidArguments", &sentence);
            }
            (_, command) if runs(command) && phase != Phase::Live => {
                self.refuse(client, &message, "notConfigured", "`configurationDone` comes first");
            }
            (_, command) if runs(command) => self.run_request(client, role, message),
            (Role::Agent, command) if changes(command) && self.status.controller == Controller::User => {
                self.refuse(client, &message, "control_taken_by_user", USER_HAS_CONTROL);
            }
            (_, command) if changes(command) => self.forward(client, message, Work::Change),
            (_, "threads") => self.forward(client, message, Work::Threads),
            (_, "terminate" | "disconnect") => {
                if message.content()["terminateDebuggee"] != false {
                    self.end_program();
                }
                self.forward(client, message, Work::End);
            }
            (_, command) => {
                let mut own = message.clone();
                coordinates.to_adapter(&mut own);
                let arguments = own.content();
                if command == "setBreakpoints" && !BreakpointTable::names_source(&arguments) {
                    // A missing source ends debugpy 1.8.22 together with the program (DAP
                    // §SetBreakpointsArguments).
                    let sentence = "`source` must name a `path` or a `sourceReference`";
                    return self.refuse(client, &message, "invalidArguments", sentence);
                }
                match BreakpointTable::set_of(command, &arguments, &*self.options.canonical_path) {
                    Some(set) => {
                        let seq = raw_member(&message, "seq");
                        let from = Some((client, seq));
                        self.queued_sets.push_back(QueuedSet { from, set, arguments: Some(arguments) });
                        self.send_next_set();
                    }
                    None => self.forward(client, message, Work::Plain),
                }
            }
        }
    }

    /// The reason not to send a request to this adapter.
    fn exclusion(&self, command: &str) -> Option<String> {
        let Some(needed) = required_capability(command) else {
            let known = &self.options.known_requests;
            let is_known = known.is_empty() || known.iter().any(|it| it == command);
            return (!is_known).then(|| "an unknown request would end it".to_owned());
        };
        let lacks = self.capabilities.as_ref().is_some_and(|it| it[needed] != true);
        lacks.then(|| format!("it lacks `{needed}`"))
    }

    /// Number of unanswered requests of a client: sent, queued and deferred.
    fn waiting(&self, client: ClientId) -> usize {
        let sent = self.pending.values().filter(|it| is_from(&it.from, client)).count();
        let queued = self.queued_sets.iter().filter(|it| is_from(&it.from, client)).count();
        sent + queued + self.clients.get(&client).map_or(0, |it| it.deferred_requests.len())
    }

    fn cancel(&mut self, client: ClientId, mut message: Envelope) {
        let mut arguments = message.content();
        let can = self.capabilities.as_ref().is_some_and(|it| it["supportsCancelRequest"] == true);
        // debugpy 1.8.22 answers nothing more after a `cancel` of nothing.
        if can && arguments["requestId"].is_null() && arguments["progressId"].is_string() {
            return self.forward(client, message, Work::Plain);
        }
        let key = arguments["requestId"].to_string();
        let is_named = |from: &Requester| {
            from.as_ref().is_some_and(|(sender, seq)| *sender == client && seq.get().trim() == key)
        };
        if let Some(at) = self.queued_sets.iter().position(|it| is_named(&it.from)) {
            if let Some(QueuedSet { from: Some((_, seq)), set, .. }) = self.queued_sets.remove(at) {
                let refusal = Envelope::refusal(set.command(), "cancelled", "the request was cancelled");
                self.respond(client, &seq, refusal);
            }
            return self.answer(client, &message, Value::Null);
        }
        let found = self.pending.iter().find(|(_, it)| is_named(&it.from)).map(|(number, _)| *number);
        match found {
            Some(number) if can => {
                arguments["requestId"] = json!(number);
                message.set_content(&arguments);
                self.forward(client, message, Work::Plain);
            }
            // The request is answered or cannot be cancelled; the protocol requires only this
            // response.
            _ => self.answer(client, &message, Value::Null),
        }
    }

    /// Forwards a client's request to the adapter.
    fn forward(&mut self, client: ClientId, mut message: Envelope, work: Work) {
        let coordinates =
            self.clients.get(&client).map_or(Coordinates::ADAPTER, |it| it.capabilities.coordinates);
        let from = Some((client, raw_member(&message, "seq")));
        let command = message.name.clone();
        coordinates.to_adapter(&mut message);
        self.send_to_adapter(message, Pending { from, command, work });
    }

    fn send_to_adapter(&mut self, mut message: Envelope, pending: Pending) -> i64 {
        let number = self.take_number();
        message.set("seq", &json!(number));
        let after = self.answer_timeout(&pending);
        self.pending.insert(number, pending);
        self.out.push(Output::Adapter(message));
        self.out.extend(after.map(|after| Output::Deadline { number, after }));
        number
    }

    fn take_number(&mut self) -> i64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn adapter_response(&mut self, message: Envelope) {
        let Some((number, pending)) =
            message.answers().and_then(|number| Some((number, self.pending.remove(&number)?)))
        else {
            return self.log(format!("late or unknown answer to {}", message.key("request_seq")));
        };
        let Pending { from, command, work } = pending;
        let good = message.success();
        // Most bodies concern the client alone, so the hub does not parse large ones.
        let read = matches!(work, Work::Initialize | Work::Threads | Work::Run(_));
        let body = if read { message.content() } else { Value::Null };
        let client = from.as_ref().map(|(client, _)| *client);
        match work {
            Work::Set(sent) => return self.set_answered(number, from, *sent, message),
            Work::ExternalSet(set) => return self.external_set_answered(*set, good),
            Work::Initialize if good => {
                self.capabilities = Some(if body.is_object() { body.clone() } else { json!({}) });
            }
            Work::Threads if good => {
                let threads = body["threads"].as_array().into_iter().flatten();
                threads.filter_map(|it| it["id"].as_i64()).for_each(|id| self.view.started(id));
            }
            _ => {}
        }
        self.forward_response(from, &command, message);
        match work {
            Work::Initialize if good => self.resume_deferred_requests(),
            Work::Run(RunRequest { thread, all, marks: (mark, own), .. }) => {
                if good {
                    self.run_state_unknown = false;
                    let all = body["allThreadsContinued"].as_bool().unwrap_or(all);
                    self.view.continued(thread, all, mark);
                    // The response informs the requesting client.
                    if let Some(member) = client.and_then(|client| self.clients.get_mut(&client)) {
                        member.view.continued(thread, all, own);
                    }
                }
                self.reconcile();
            }
            Work::Change if good => {
                let message = Envelope::event("invalidated", json!({ "areas": ["variables"] }));
                self.notify_all(&message, client);
            }
            _ => {}
        }
    }

    fn forward_response(&mut self, from: Requester, command: &str, mut message: Envelope) {
        let Some((client, seq)) = from else { return };
        if message.name != command || message.raw("command").is_none() {
            message.set("command", &json!(command));
        }
        if message.raw("success").is_none() {
            message.set("success", &json!(true));
        }
        message.name = command.to_owned();
        let coordinates =
            self.clients.get(&client).map_or(Coordinates::ADAPTER, |it| it.capabilities.coordinates);
        coordinates.to_client(&mut message);
        self.respond(client, &seq, message);
    }

    fn adapter_event(&mut self, mut message: Envelope) {
        let name = message.name.clone();
        match name.as_str() {
            "initialized" => {
                self.adapter_initialized = true;
                for set in self.breakpoints.sets_of(PREVIOUS_SESSION) {
                    self.queue_resend(set);
                }
                self.send_next_set();
                self.notify_agent(&message);
                return self.resume_deferred_requests();
            }
            "capabilities" => {
                let added = message.content()["capabilities"].clone();
                if added.is_object() {
                    adapters::merge(self.capabilities.get_or_insert_with(|| json!({})), added);
                }
            }
            "process" => self.process = Some(message.content()),
            "thread" => apply_event(&mut self.view, &message),
            "continued" => {
                self.run_state_unknown = false;
                apply_event(&mut self.view, &message);
                return self.notify_continued(&message);
            }
            "stopped" => {
                self.run_state_unknown = false;
                // An adapter may answer a run request only after the next stop.
                self.announce_unanswered_runs();
                let mut body = message.content();
                if body["hitBreakpointIds"].is_array() {
                    self.breakpoints.map_hit_ids(&mut body);
                    message.set_content(&body);
                }
                apply_event(&mut self.view, &message);
            }
            "output" => {
                let read = self.options.has_output_fence || self.options.wrap.is_some();
                let body = read.then(|| message.content());
                let rest = body.as_ref().and_then(|it| self.without_internal_text(it["output"].as_str()?));
                if let (Some(mut body), Some(rest)) = (body, rest) {
                    // Internal text is for the agent alone.
                    self.notify_agent(&message);
                    if !rest.is_empty() {
                        body["output"] = json!(rest);
                        message.set_content(&body);
                        self.store_output(&message);
                        self.notify_joined_clients(&message);
                    }
                    return;
                }
                self.store_output(&message);
            }
            "breakpoint" => {
                let event =
                    if self.set_in_flight.is_some() { self.defer_event(message) } else { Some(message) };
                return event.into_iter().for_each(|it| self.breakpoint_event(it));
            }
            "terminated" => {
                self.terminated = true;
                if self.relaunching {
                    return self.notify_agent(&message);
                }
            }
            _ => {}
        }
        self.notify_all(&message, None);
    }

    /// Defers an event until the set in flight is answered.
    ///
    /// Returns the oldest if too many are deferred.
    fn defer_event(&mut self, event: Envelope) -> Option<Envelope> {
        self.deferred_events.push_back(event);
        (self.deferred_events.len() > MAX_DEFERRED_EVENTS).then(|| self.deferred_events.pop_front()).flatten()
    }

    /// Sends a breakpoint event to the clients that set the breakpoint.
    fn breakpoint_event(&mut self, mut event: Envelope) {
        let mut body = event.content();
        let Some(owners) = self.breakpoints.map_event(&mut body) else {
            return self.notify_all(&event, None);
        };
        event.set_content(&body);
        owners.into_iter().for_each(|owner| self.notify_client(owner, event.clone()));
    }

    /// Program output without fences and exit codes; `None` if it holds none.
    fn without_internal_text(&self, text: &str) -> Option<String> {
        let fence = || output_fence::take(text).map(|(rest, _)| rest);
        let rest = self.options.has_output_fence.then(fence).flatten();
        rest.or_else(|| self.options.wrap.as_ref()?.exit_code(text).map(|(_, rest)| rest))
    }

    fn store_output(&mut self, output: &Envelope) {
        if let Some(body) = output.raw("body") {
            self.backlog.push(body.to_owned());
        }
    }

    fn session_info(&self) -> Value {
        let mut about = self.options.session_info.clone();
        about["state"] = json!(match (self.terminated, self.view.is_stopped(), self.adapter_initialized) {
            (true, ..) => "terminated",
            (_, true, _) => "stopped",
            (_, _, true) => "running",
            _ => "launching",
        });
        about["controller"] = json!(self.status.controller.name());
        about["persons"] = json!(self.status.joined_clients);
        about
    }
}

fn changes(command: &str) -> bool {
    matches!(command, "setVariable" | "setExpression" | "writeMemory")
}

/// The member of the arguments that is a text and must be a number.
fn text_for_number(message: &Envelope) -> Option<&'static str> {
    let arguments = message.content();
    ["threadId", "frameId", "variablesReference"].into_iter().find(|it| arguments[it].is_string())
}

fn is_from(requester: &Requester, client: ClientId) -> bool {
    requester.as_ref().is_some_and(|(sender, _)| *sender == client)
}

fn raw_member(message: &Envelope, name: &str) -> Box<RawValue> {
    message.raw(name).map_or_else(|| RawValue::NULL.to_owned(), ToOwned::to_owned)
}
