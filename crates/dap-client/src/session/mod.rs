//! One debug session: its handshake, its requests to the adapter, and its end.
//!
//! Chooses no adapter and starts no process.
//!
//! Invariants: events reach the state machine in wire order; a request that the state forbids is
//! not sent; when a session ends, its adapter is ended and reaped before [`Session::ended`]
//! returns.

mod data;
mod end;
mod events;
mod extra_requests;
mod requests;
mod shared;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use paths::AbsPath;
use policy::SpawnGrant;
use process::{Process, ProcessView, deadlines};
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{ProtectedChange, RunId};

use crate::client::{Client, Handler, RequestError};
use crate::debuggee::Breakpoints;
use crate::debuggee::Handles;
use crate::debuggee::output_fence;
use crate::debuggee::required_capability;
use crate::debuggee::{Category, Output};
use crate::debuggee::{Input, Machine, Need, State};
use crate::error::{DapError, Result};
use crate::hub::{Controller, HubHandle, HubOptions, HubStatus, SessionListener};
use crate::launch::LaunchPlan;
use crate::transport::Connection;
use adapters::DebuggerDefinition;

pub use data::{Frame, Page, Scope, Thread, Variable};
pub use extra_requests::{ExceptionInfo, GotoTarget};

/// Requests that run, stop, change or end the program.
///
/// The agent may not send them while the user has control.
const CONTROL_COMMANDS: [&str; 15] = [
    "continue",
    "disconnect",
    "goto",
    "next",
    "pause",
    "restart",
    "restartFrame",
    "reverseContinue",
    "setExpression",
    "setVariable",
    "stepBack",
    "stepIn",
    "stepOut",
    "terminate",
    "writeMemory",
];
/// Maximum number of state changes stored for one subscriber.
const CHANGES: usize = 256;

/// Deadline and cancellation of a request.
#[derive(Debug, Clone)]
pub struct Clock {
    pub until: Instant,
    /// Fires when the caller no longer waits.
    pub cancel: CancellationToken,
}

impl Clock {
    pub fn new(time: Duration, cancel: &CancellationToken) -> Self {
        Self { until: Instant::now() + time, cancel: cancel.clone() }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Handles an adapter's reverse requests and knows the session's tree.
pub(crate) trait ReverseRequestHandler: Send + Sync + 'static {
    /// Carries out a reverse request of the adapter (DAP §Reverse Requests).
    fn answer(
        self: Arc<Self>,
        session: Arc<Session>,
        command: String,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Value, String>>;

    /// The sessions below `session`, parents first.
    fn descendants(&self, session: &Session) -> Vec<Arc<Session>>;

    /// The session of its tree that runs the launched program.
    fn program_of(&self, session: &Arc<Session>) -> Option<Arc<Session>>;

    /// Ends the programs that `runInTerminal` started.
    ///
    /// Their standard error goes to `session`.
    fn end_programs<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, ()>;
}

/// A debug session with one adapter.
///
/// [`Session::terminate`] or the end of the program ends it.
pub struct Session {
    /// Name of the session, such as `debug-1`.
    pub id: String,
    /// The debugged program, for messages.
    pub title: String,
    pub adapter: Arc<DebuggerDefinition>,
    /// Whether the program was launched, and so ends with the session.
    pub launched: bool,
    /// Whether Pilcrow launched the program, here or in the root of its tree.
    ours: bool,
    /// The session whose adapter requested this one.
    pub parent: Option<String>,
    plan: LaunchPlan,
    /// Permission for the adapter's process.
    ///
    /// `None` if the user's editor owns the session.
    grant: Option<SpawnGrant>,
    run: OnceLock<RunId>,
    listener: OnceLock<SessionListener>,
    /// Names of sessions that this one replaced, with their listeners.
    previous_names: Mutex<Vec<(String, Option<SessionListener>)>>,
    /// The adapter, which also serves child sessions, if Pilcrow started it.
    adapter_process: Option<ProcessView>,
    client: Client,
    /// The hub, which forwards all requests to the adapter, so that clients can join.
    hub: HubHandle,
    /// Number of takeovers by the user when the agent last ran the program or checked.
    observed_takeovers: AtomicU64,
    /// Number of fences sent.
    sent_fences: AtomicU64,
    /// Whether a fence did not arrive, so that none is waited for.
    lost_fence: AtomicBool,
    /// The first unanswered request, while the adapter answers nothing.
    silence: Mutex<Option<(String, Instant)>>,
    /// Whether the expression for the first stop was evaluated.
    prepared: AtomicBool,
    inner: Arc<Inner>,
    ended: CancellationToken,
    /// Changes of protected files, which are reverted at the end.
    reverted: OnceLock<Vec<ProtectedChange>>,
}

struct Inner {
    adapter: Arc<DebuggerDefinition>,
    core: Mutex<Core>,
    /// Output of the program and the adapter.
    output: Arc<Mutex<Output>>,
    /// Whether the output is the parent's.
    ///
    /// A launcher receives the output of all its programs as one.
    one_output: bool,
    /// The end of the last output, if it may not be the program's.
    ///
    /// Sessions that share the output share it too.
    partial_output: Arc<Mutex<Option<(Category, String)>>>,
    state: watch::Sender<State>,
    changes: broadcast::Sender<State>,
    /// The last fence that the output contained.
    fence_reached: watch::Sender<u64>,
    /// Set by the `terminated` event, after which no more events are expected.
    finished: CancellationToken,
    reverse_handler: Arc<dyn ReverseRequestHandler>,
    /// The session that owns this, once it is built.
    session: OnceLock<Weak<Session>>,
    /// Counter of changes of all sessions.
    change_signal: watch::Sender<u64>,
}

struct Core {
    machine: Machine,
    /// The program's process id, if the adapter reports it.
    process: Option<i64>,
    capabilities: Value,
    breakpoints: Breakpoints,
    /// Ids from `dataBreakpointInfo`, with their access types if reported.
    data_ids: HashMap<String, Vec<String>>,
    frames: Handles,
    variables: Handles,
    /// Hidden details of the frames of one epoch, by Pilcrow's number.
    details: HashMap<i64, Details>,
    details_epoch: u64,
}

/// Details of a frame that later requests need.
struct Details {
    source: Value,
    instruction: Option<String>,
}

impl Inner {
    fn core(&self) -> MutexGuard<'_, Core> {
        // Every use leaves the state consistent, so a panic elsewhere has no effect on it.
        self.core.lock()
    }

    /// Applies one input and publishes the state if it changed.
    ///
    /// Holds the lock, so that no other input is applied meanwhile.
    fn take(&self, input: Input) {
        let mut core = self.core();
        if let Some(state) = core.machine.take(input) {
            self.state.send_replace(state.clone());
            // An error means that there are no subscribers.
            drop(self.changes.send(state));
            drop(core);
            self.notify_change();
        }
    }

    fn partial_output(&self) -> MutexGuard<'_, Option<(Category, String)>> {
        // An error means that there are no subscribers.
        self.partial_output.lock()
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        // An error means that there are no subscribers.
        self.output.lock()
    }

    fn write(&self, category: Category, text: &str) {
        self.output().push(category, text);
        self.notify_change();
    }

    fn notify_change(&self) {
        self.change_signal.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Name of a session, permission to run its adapter, and handler of its reverse
/// requests.
pub(crate) struct Identity {
    pub id: String,
    /// `None` if the adapter was not started for this session.
    pub grant: Option<SpawnGrant>,
    pub reverse_handler: Arc<dyn ReverseRequestHandler>,
}

impl Session {
    /// Creates a session over a new connection, and watches for its end.
    pub(crate) fn new(
        identity: Identity,
        plan: &LaunchPlan,
        connection: Connection,
        change_signal: watch::Sender<u64>,
        parent: Option<&Session>,
        tracker: &TaskTracker,
    ) -> Arc<Self> {
        let Identity { id, grant, reverse_handler } = identity;
        let core = Core {
            machine: Machine::default(),
            process: None,
            capabilities: Value::Null,
            breakpoints: plan.breakpoints.clone(),
            data_ids: HashMap::new(),
            frames: Handles::new("frame", "stack"),
            variables: Handles::new("variables_reference", "scopes"),
            details: HashMap::new(),
            details_epoch: 0,
        };
        let above = parent.filter(|it| it.adapter_launches_only() || it.inner.one_output);
        let inner = Arc::new(Inner {
            adapter: Arc::clone(&plan.adapter),
            core: Mutex::new(core),
            output: above.map(|it| Arc::clone(&it.inner.output)).unwrap_or_default(),
            one_output: above.is_some(),
            partial_output: above.map(|it| Arc::clone(&it.inner.partial_output)).unwrap_or_default(),
            state: watch::channel(State::Launching).0,
            changes: broadcast::channel(CHANGES).0,
            fence_reached: watch::channel(0).0,
            finished: CancellationToken::new(),
            reverse_handler,
            session: OnceLock::new(),
            change_signal,
        });
        let Connection { reader, writer, process, stdout, protected, .. } = connection;
        let adapter_process = process.as_ref().map(Process::view).or_else(|| parent?.adapter_process.clone());
        let ours = parent.map_or(plan.request == "launch", |it| it.ours);
        let runs_on = ours && plan.adapter.quirks.program_outlives_session;
        let end_program = adapter_process.clone().filter(|_| runs_on).map(|process| {
            let end: Box<dyn Fn() + Send> = Box::new(move || process.kill_descendants());
            end
        });
        let handler: Arc<dyn Handler> = Arc::<Inner>::clone(&inner);
        let options = HubOptions {
            or_operator: plan.adapter.quirks.or_operator.clone(),
            exception_names: plan.adapter.quirks.exception_names.clone(),
            has_output_fence: plan.adapter.quirks.output_fence.is_some(),
            wrap: plan.adapter.quirks.wrap.clone(),
            canonical_path: Box::new(shared::real_path),
            session_info: json!({ "session": id, "title": plan.title, "adapter": plan.adapter.name }),
            initial_breakpoints: plan.user_breakpoints.clone(),
            known_requests: plan.adapter.quirks.known_requests.clone(),
            runs_in_terminal_itself: grant.as_ref().is_some_and(|grant| grant.sandbox().is_some()),
            end_program,
        };
        let (hub, agent) = HubHandle::spawn(&id, options, reader, writer, tracker);
        let (reader, writer) = tokio::io::split(agent);
        let client = Client::spawn(plan.adapter.name.clone(), reader, writer, handler, tracker);
        let session = Arc::new(Self {
            id,
            title: plan.title.clone(),
            adapter: Arc::clone(&plan.adapter),
            launched: plan.request == "launch",
            ours,
            parent: parent.map(|it| it.id.clone()),
            plan: plan.clone(),
            grant,
            run: OnceLock::new(),
            listener: OnceLock::new(),
            previous_names: Mutex::default(),
            adapter_process,
            client,
            hub,
            observed_takeovers: AtomicU64::new(0),
            sent_fences: AtomicU64::new(0),
            lost_fence: AtomicBool::new(false),
            silence: Mutex::new(None),
            prepared: AtomicBool::new(false),
            inner,
            ended: CancellationToken::new(),
            reverted: OnceLock::new(),
        });
        let written = stdout.map(|mut stdout| {
            let inner = Arc::downgrade(&session.inner);
            tracker.spawn(async move {
                while let Some(text) = stdout.recv().await {
                    let Some(inner) = inner.upgrade() else { break };
                    inner.write(Category::Stdout, &text);
                }
            })
        });
        // Only this line sets it.
        drop(session.inner.session.set(Arc::downgrade(&session)));
        tracker.spawn(Arc::clone(&session).supervise(process, written, protected));
        session
    }

    /// Sends `initialize`, `launch` or `attach`, breakpoints and `configurationDone`.
    pub(crate) async fn handshake(&self, plan: &LaunchPlan, clock: &Clock) -> Result<()> {
        let hello = json!({
            "clientID": "pilcrow", "clientName": "Pilcrow", "adapterID": plan.adapter.name, "locale": "en",
            "linesStartAt1": true, "columnsStartAt1": true, "pathFormat": "path",
            "supportsVariableType": true, "supportsVariablePaging": true,
            "supportsRunInTerminalRequest": true, "supportsStartDebuggingRequest": true,
            "supportsMemoryReferences": true,
        });
        let capabilities = self.ask("initialize", hello, Need::NotTerminated, clock).await?;
        if capabilities["supportsCancelRequest"] == true {
            self.client.enable_cancel();
        }
        self.inner.core().capabilities = capabilities;

        // The request is sent before waiting for anything: some adapters answer it only after the
        // configuration, and some report `initialized` only after it arrived.
        let arguments = crate::client::envelope::without_nulls(plan.arguments.clone());
        let flight = self.client.send(plan.request, arguments).await;
        let flight = match flight {
            Ok(flight) => flight,
            Err(error) => return Err(self.explain(error).await),
        };
        let mut answer = std::pin::pin!(flight.wait(clock.left(), &clock.cancel));
        let mut answered = false;
        let ready = self.configuring(clock);
        let ready = tokio::select! {
            // `ready` is created again if the answer came first.
            ready = ready => Some(ready),
            outcome = &mut answer => match outcome {
                Ok(_) => { answered = true; None }
                Err(error) => return Err(self.explain(error).await),
            },
        };
        match ready {
            Some(ready) => ready?,
            None => self.configuring(clock).await?,
        }
        self.configure(clock).await?;
        if !answered && let Err(error) = answer.await {
            return Err(self.explain(error).await);
        }
        Ok(())
    }

    /// Waits until the adapter accepts breakpoints.
    async fn configuring(&self, clock: &Clock) -> Result<()> {
        let mut states = self.inner.state.subscribe();
        let ready = async { states.wait_for(|state| *state != State::Launching).await.is_ok() };
        let in_time = tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            ready = tokio::time::timeout_at(clock.until, ready) => ready.is_ok(),
        };
        if let State::Terminated(_) = self.state() {
            return Err(self.crashed("it ended before it was ready").await);
        }
        let why = "it did not report in time that it is initialized".to_owned();
        let late = DapError::Late { adapter: self.adapter.name.clone(), why };
        if in_time { Ok(()) } else { Err(late) }
    }

    async fn configure(&self, clock: &Clock) -> Result<()> {
        if self.is_external() {
            self.inner.take(Input::Configured);
            return Ok(());
        }
        let (paths, functions) = {
            let core = self.inner.core();
            (core.breakpoints.paths(), !core.breakpoints.functions().is_empty())
        };
        for path in paths {
            self.send_source(&path, clock).await?;
        }
        if functions {
            self.send_functions(clock).await?;
        }
        self.send_exceptions(clock).await?;
        if self.can("supportsConfigurationDoneRequest") {
            self.ask("configurationDone", Value::Null, Need::NotTerminated, clock).await?;
        }
        self.inner.take(Input::Configured);
        Ok(())
    }

    pub fn state(&self) -> State {
        self.inner.core().machine.state().clone()
    }

    /// Number that grows with every resume. Handles are valid in one epoch.
    pub fn epoch(&self) -> u64 {
        self.inner.core().machine.epoch()
    }

    /// The program's process id on this machine, if the adapter reports it.
    ///
    /// Blocks for some milliseconds if the program is in a sandbox.
    pub fn process(&self) -> Option<i64> {
        let id = self.inner.core().process?;
        self.adapter_process.as_ref().map_or(Some(id), |adapter| adapter.id_outside(id))
    }

    /// Whether child sessions, and not this session, run the program.
    pub fn adapter_launches_only(&self) -> bool {
        self.parent.is_none() && self.adapter.quirks.launcher && !self.is_external()
    }

    /// Whether the user's editor owns the session.
    ///
    /// The agent then observes it through the editor.
    pub fn is_external(&self) -> bool {
        self.plan.external
    }

    pub(crate) fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// The directory in which the program was started.
    pub fn program_directory(&self) -> &AbsPath {
        self.plan.program.as_ref().map_or(&self.plan.root, |program| &program.cwd)
    }

    /// The permission for the adapter's process, if Pilcrow started it.
    pub fn grant(&self) -> Option<&SpawnGrant> {
        self.grant.as_ref()
    }

    pub(crate) fn is_terminated(&self) -> bool {
        matches!(self.state(), State::Terminated(_))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state(), State::Stopped(_))
    }

    /// Fires when no more events are expected.
    pub(crate) fn finished(&self) -> CancellationToken {
        self.inner.finished.clone()
    }

    pub(crate) fn push_output(&self, category: Category, text: &str) {
        self.inner.write(category, text);
    }

    /// Every later change of state, in order.
    pub fn changes(&self) -> broadcast::Receiver<State> {
        self.inner.changes.subscribe()
    }

    /// Waits until the adapter is ended and reaped. Cancel-safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Protected files that the programs changed; empty before the end.
    pub fn reverted(&self) -> &[ProtectedChange] {
        self.reverted.get().map_or(&[], Vec::as_slice)
    }

    /// Whether the adapter has a capability.
    pub fn can(&self, capability: &str) -> bool {
        self.inner.core().capabilities[capability] == true
    }

    /// The adapter's capabilities.
    pub fn capabilities(&self) -> Value {
        self.inner.core().capabilities.clone()
    }

    /// Waits until the program stops or ends, or the user takes control.
    ///
    /// Also ends at the deadline. Returns the state in every case.
    ///
    /// # Errors
    /// [`DapError::Cancelled`].
    pub async fn wait_for_stop(&self, clock: &Clock) -> Result<State> {
        let mut states = self.inner.state.subscribe();
        let taken = self.control_lost();
        let stop_or_end = async {
            let found = states.wait_for(|state| matches!(state, State::Stopped(_) | State::Terminated(_)));
            let terminated = found.await.is_ok_and(|state| matches!(*state, State::Terminated(_)));
            if terminated {
                // The last output and the exit code may come after `terminated`.
                self.ended().await;
            }
        };
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            () = taken => tracing::debug!(session = self.id, "the user took control"),
            stop_or_end = tokio::time::timeout_at(clock.until, stop_or_end) => if stop_or_end.is_err() {
                tracing::debug!(session = self.id, "still running at the deadline");
            }
        }
        Ok(self.state())
    }

    /// Waits for the output that a stopped program wrote before its stop.
    ///
    /// # Errors
    /// [`DapError::Cancelled`].
    pub async fn wait_for_stop_output(&self, clock: &Clock) -> Result<()> {
        if !self.is_stopped() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(DapError::Cancelled),
            () = self.wait_for_output(clock.until.min(Instant::now() + deadlines::PROGRAM_OUTPUT)) => Ok(()),
        }
    }

    /// Waits until `until` for the output that the program wrote before now.
    ///
    /// Waits only if the adapter supports an output fence.
    pub(crate) async fn wait_for_output(&self, until: Instant) {
        let code = self.adapter.quirks.output_fence.as_deref().filter(|_| !self.is_external());
        let Some(code) = code.filter(|_| !self.lost_fence.load(Ordering::Relaxed)) else { return };
        let number = self.sent_fences.fetch_add(1, Ordering::Relaxed) + 1;
        let arguments = json!({ "expression": output_fence::code(code, number), "context": "repl" });
        let mut reached = self.inner.fence_reached.subscribe();
        let clock = Clock { until, cancel: CancellationToken::new() };
        let all = async {
            self.client.request("evaluate", arguments, clock.left(), &clock.cancel).await.ok()?;
            reached.wait_for(|reached| *reached >= number).await.ok().map(|_| ())
        };
        tokio::select! {
            // Received output stays, so nothing needs to be undone.
            _ = self.client.closed() => {}
            all = tokio::time::timeout_at(until, all) => {
                let came = all.is_ok_and(|it| it.is_some());
                // An adapter that lost the program's output sends no fence.
                self.lost_fence.store(!came, Ordering::Relaxed);
                tracing::debug!(session = self.id, came, "output up to the fence");
            }
        }
    }

    /// Waits for the stop in focus, if this stop was reported before it.
    pub(crate) async fn wait_for_focus(&self, until: Instant) {
        let mut states = self.inner.state.subscribe();
        let other = states.wait_for(|state| !matches!(state, State::Stopped(stop) if stop.preserves_focus));
        // A stop that no other stop follows is shown unchanged.
        let came = tokio::time::timeout_at(until, other).await.is_ok();
        tracing::trace!(session = self.id, came, "the stop in focus");
    }

    /// Checks whether `command`, which needs `need`, fits the state.
    ///
    /// # Errors
    /// [`DapError::WrongState`] with the state's name.
    pub fn check(&self, command: &str, need: Need) -> Result<()> {
        Ok(self.inner.core().machine.check(command, need)?)
    }

    /// Sends a request to the adapter, unless the state forbids it.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn ask(&self, command: &str, arguments: Value, need: Need, clock: &Clock) -> Result<Value> {
        self.inner.core().machine.check(command, need)?;
        self.check_capability(command)?;
        if CONTROL_COMMANDS.contains(&command) {
            self.in_control(command)?;
        }
        if self.is_unresponsive() && !self.answers(&clock.cancel).await {
            return Err(self.unresponsive(command, Instant::now()));
        }
        let sent = Instant::now();
        match self.client.request(command, arguments, clock.left(), &clock.cancel).await {
            Ok(body) => {
                let read = serde_json::from_str(body.get()).map_err(|error| DapError::Answer {
                    adapter: self.adapter.name.clone(),
                    command: command.to_owned(),
                    reason: error.to_string(),
                });
                let body: Value = read?;
                if let ("dataBreakpointInfo", Some(id)) = (command, body["dataId"].as_str()) {
                    let access = body["accessTypes"].as_array().into_iter().flatten();
                    let access = access.filter_map(|it| it.as_str().map(str::to_owned)).collect();
                    self.inner.core().data_ids.insert(id.to_owned(), access);
                }
                Ok(body)
            }
            Err(RequestError::Deadline { .. }) if !self.answers(&clock.cancel).await => {
                Err(self.unresponsive(command, sent))
            }
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// Refuses a request for which the adapter lacks the capability.
    pub(super) fn check_capability(&self, command: &str) -> Result<()> {
        match required_capability(command).filter(|needed| !self.can(needed)) {
            Some(needed) => {
                Err(self
                    .lacks(&format!("answer `{command}`"), Some(format!("it does not declare `{needed}`"))))
            }
            None => Ok(()),
        }
    }

    /// Whether the adapter answers another request; a refusal is an answer.
    ///
    /// During the start, the caller's deadline decides.
    async fn answers(&self, cancel: &CancellationToken) -> bool {
        if !matches!(self.state(), State::Running | State::Stopped(_)) {
            return true;
        }
        let probe = self.client.request("threads", Value::Null, deadlines::ADAPTER_ANSWER, cancel).await;
        let answers = !matches!(probe, Err(RequestError::Deadline { .. }));
        if answers {
            *self.silence.lock() = None;
        }
        answers
    }

    /// Records that the adapter answers nothing, since `sent` at the latest.
    fn unresponsive(&self, command: &str, sent: Instant) -> DapError {
        let mut silence = self.silence.lock();
        let (command, since) = silence.get_or_insert_with(|| (command.to_owned(), sent));
        let (adapter, command) = (self.adapter.name.clone(), command.clone());
        DapError::Unresponsive { adapter, command, after: since.elapsed() }
    }

    /// Whether the adapter answered nothing when a request was last sent.
    ///
    /// Further requests then fail within a second, until it answers again.
    pub fn is_unresponsive(&self) -> bool {
        self.silence.lock().is_some()
    }

    /// The error of a failed request; the session's end explains a closed stream.
    async fn explain(&self, error: RequestError) -> DapError {
        match error {
            RequestError::Closed { command, .. } => {
                self.crashed(&format!("it ended before it answered `{command}`")).await
            }
            other => DapError::from_request(&self.adapter.name, other),
        }
    }

    async fn crashed(&self, without: &str) -> DapError {
        // `supervise` records the reason soon after the stream closed.
        let wait = tokio::time::timeout(2 * deadlines::ADAPTER_EXIT, self.ended()).await;
        tracing::trace!(in_time = wait.is_ok(), "the end of the session");
        let why = match self.state() {
            State::Terminated(end) => end.failure.unwrap_or_else(|| without.to_owned()),
            _ => without.to_owned(),
        };
        DapError::Crashed { adapter: self.adapter.name.clone(), why }
    }
}
