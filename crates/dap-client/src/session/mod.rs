//! One debug session: the handshake, what is asked of its adapter, and its end.
//!
//! Chooses no adapter and starts no process. What must stay true: events reach the state machine in the
//! order of the wire; a request that the state forbids is not sent; when the session is over, its
//! adapter is ended and reaped, and [`Session::over`] says so.

mod data;
mod end;
mod events;
mod extra_requests;
mod requests;
mod shared;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use policy::SpawnGrant;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::RunId;

use crate::client::{Client, Handler, RequestError};
use crate::debuggee::Breakpoints;
use crate::debuggee::Handles;
use crate::debuggee::output_fence;
use crate::debuggee::{Category, Output};
use crate::debuggee::{Input, Machine, Need, State};
use crate::error::DapError;
use crate::hub::{Controller, HubHandle, Options, SessionListener, Shared};
use crate::launch::LaunchPlan;
use crate::transport::Connection;
use adapters::DebuggerDefinition;

pub use data::{Frame, Page, Scope, Thread, Variable};
pub use extra_requests::{ExceptionInfo, GotoTarget};

pub(crate) use end::OUTPUT;

/// Requests that run the program, stop, change or end it: not the agent's while the person has control.
const RUNS: [&str; 15] = [
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
/// How long the process of a closed stream may take to end, and a stream after its process.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Changes of state kept for one that listens.
const CHANGES: usize = 256;

/// When an answer must be there, and who may no longer want it.
#[derive(Debug, Clone)]
pub struct Clock {
    pub until: Instant,
    /// Fires when nobody waits any more.
    pub cancel: CancellationToken,
}

impl Clock {
    /// One that ends after `time`.
    pub fn new(time: Duration, cancel: &CancellationToken) -> Self {
        Self { until: Instant::now() + time, cancel: cancel.clone() }
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// The sessions around one: answers its adapter's reverse requests and knows its tree.
pub(crate) trait Owner: Send + Sync + 'static {
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

    /// Ends the programs that `runInTerminal` started; their standard error goes to `session`.
    fn end_programs<'a>(&'a self, session: &'a Session) -> BoxFuture<'a, ()>;
}

/// A session with one adapter. Shared; [`Session::terminate`] or the end of the program ends it.
pub struct Session {
    /// Its name: `debug-1`.
    pub id: String,
    /// What is debugged, for people.
    pub title: String,
    pub adapter: Arc<DebuggerDefinition>,
    /// Whether the program was launched, and so ends with the session.
    pub launched: bool,
    /// Whether what it debugs runs because of us: it, or the root of its tree, was launched.
    ours: bool,
    /// The session whose adapter asked for this one.
    pub parent: Option<String>,
    plan: LaunchPlan,
    /// Permission for the adapter's process; none where the user's editor holds the session.
    grant: Option<SpawnGrant>,
    run: OnceLock<RunId>,
    door: OnceLock<SessionListener>,
    /// Names of sessions that this one came after, with the doors that lead here from there.
    former: Mutex<Vec<(String, Option<SessionListener>)>>,
    client: Client,
    /// All that is said to the adapter goes through it, so that a person can join.
    hub: HubHandle,
    /// How often a person had taken control when this side last ran on or looked.
    seen: AtomicU64,
    /// Marks that were asked for.
    asked_marks: AtomicU64,
    inner: Arc<Inner>,
    over: CancellationToken,
}

struct Inner {
    adapter: Arc<DebuggerDefinition>,
    core: Mutex<Core>,
    /// What its program and adapter wrote.
    output: Arc<Mutex<Output>>,
    /// That is its parent's: what the programs of a launcher write is told to the launcher, and is one.
    one_output: bool,
    /// The end of what was told as the program's, where it may be the beginning of what is not; with whom it shares its
    /// output.
    held: Arc<Mutex<Option<(Category, String)>>>,
    state: watch::Sender<State>,
    changes: broadcast::Sender<State>,
    /// The last mark that came back.
    marked: watch::Sender<u64>,
    /// Set by the event `terminated`, after which nothing more is to come.
    finished: CancellationToken,
    owner: Arc<dyn Owner>,
    /// The session that this is part of, once it is built.
    session: OnceLock<Weak<Session>>,
    /// Rung at every change of any session.
    bell: watch::Sender<u64>,
}

struct Core {
    machine: Machine,
    /// The program's number, where the adapter tells it.
    process: Option<i64>,
    capabilities: Value,
    breakpoints: Breakpoints,
    /// Data that `dataBreakpointInfo` gave an id, and how it can be watched, where it is said.
    named: HashMap<String, Vec<String>>,
    frames: Handles,
    variables: Handles,
    /// More of the frames that were handed out in one epoch, by our number.
    details: HashMap<i64, Details>,
    details_epoch: u64,
}

/// What is not shown of a frame and may be asked about.
struct Details {
    source: Value,
    instruction: Option<String>,
}

impl Inner {
    fn core(&self) -> MutexGuard<'_, Core> {
        // Every use leaves it whole, so a panic elsewhere does no harm to it.
        self.core.lock()
    }

    /// Takes one thing in and publishes the state if it changed, while no other can.
    fn take(&self, input: Input) {
        let mut core = self.core();
        if let Some(state) = core.machine.take(input) {
            self.state.send_replace(state.clone());
            // An error means that nobody listens.
            drop(self.changes.send(state));
            drop(core);
            self.ring();
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<(Category, String)>> {
        // As above.
        self.held.lock()
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        // As above.
        self.output.lock()
    }

    /// Adds to the output.
    fn write(&self, category: Category, text: &str) {
        self.output().push(category, text);
        self.ring();
    }

    fn ring(&self) {
        self.bell.send_modify(|rung| *rung = rung.wrapping_add(1));
    }
}

/// The name of a session, the permission to run its adapter, and the handler of its reverse requests.
pub(crate) struct Identity {
    pub id: String,
    /// `None` if the adapter was not started for this session.
    pub grant: Option<SpawnGrant>,
    pub owner: Arc<dyn Owner>,
}

impl Session {
    /// A session over a connection that was just made. Its end is watched from now on.
    pub(crate) fn new(
        identity: Identity,
        plan: &LaunchPlan,
        connection: Connection,
        bell: watch::Sender<u64>,
        parent: Option<&Session>,
        tracker: &TaskTracker,
    ) -> Arc<Self> {
        let Identity { id, grant, owner } = identity;
        let core = Core {
            machine: Machine::default(),
            process: None,
            capabilities: Value::Null,
            breakpoints: plan.breakpoints.clone(),
            named: HashMap::new(),
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
            held: above.map(|it| Arc::clone(&it.inner.held)).unwrap_or_default(),
            state: watch::channel(State::Launching).0,
            changes: broadcast::channel(CHANGES).0,
            marked: watch::channel(0).0,
            finished: CancellationToken::new(),
            owner,
            session: OnceLock::new(),
            bell,
        });
        let Connection { reader, writer, process, stdout, .. } = connection;
        let handler: Arc<dyn Handler> = Arc::<Inner>::clone(&inner);
        let options = Options {
            or: plan.adapter.quirks.or_operator.clone(),
            exception_names: plan.adapter.quirks.exception_names.clone(),
            marks: plan.adapter.quirks.output_fence.is_some(),
            wrap: plan.adapter.quirks.wrap.clone(),
            same: Box::new(shared::real_path),
            about: json!({ "session": id, "title": plan.title, "adapter": plan.adapter.name }),
            former: plan.of_persons.clone(),
        };
        let (hub, agent) = HubHandle::spawn(&id, options, reader, writer, tracker);
        let (reader, writer) = tokio::io::split(agent);
        let client = Client::spawn(plan.adapter.name.clone(), reader, writer, handler, tracker);
        let session = Arc::new(Self {
            id,
            title: plan.title.clone(),
            adapter: Arc::clone(&plan.adapter),
            launched: plan.request == "launch",
            ours: parent.map_or(plan.request == "launch", |it| it.ours),
            parent: parent.map(|it| it.id.clone()),
            plan: plan.clone(),
            grant,
            run: OnceLock::new(),
            door: OnceLock::new(),
            former: Mutex::default(),
            client,
            hub,
            seen: AtomicU64::new(0),
            asked_marks: AtomicU64::new(0),
            inner,
            over: CancellationToken::new(),
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
        // Nobody else sets it.
        drop(session.inner.session.set(Arc::downgrade(&session)));
        tracker.spawn(Arc::clone(&session).supervise(process, written));
        session
    }

    /// `initialize`, `launch` or `attach`, breakpoints, `configurationDone`.
    pub(crate) async fn handshake(&self, plan: &LaunchPlan, clock: &Clock) -> Result<(), DapError> {
        let hello = json!({
            "clientID": "pilcrow", "clientName": "Pilcrow", "adapterID": plan.adapter.name, "locale": "en",
            "linesStartAt1": true, "columnsStartAt1": true, "pathFormat": "path",
            "supportsVariableType": true, "supportsVariablePaging": true,
            "supportsRunInTerminalRequest": true, "supportsStartDebuggingRequest": true,
            "supportsMemoryReferences": true,
        });
        let capabilities = self.ask("initialize", hello, Need::NotTerminated, clock).await?;
        if capabilities["supportsCancelRequest"] == true {
            self.client.tell_cancels();
        }
        self.inner.core().capabilities = capabilities;

        // Sent before anything is waited for: some adapters answer it only after the configuration, and
        // some say that they are initialized only after it came.
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
            // `ready` is made again where the answer came first.
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

    /// Waits until the adapter takes breakpoints.
    async fn configuring(&self, clock: &Clock) -> Result<(), DapError> {
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
        let why = "it did not say in time that it is initialized".to_owned();
        let late = DapError::Late { adapter: self.adapter.name.clone(), why };
        if in_time { Ok(()) } else { Err(late) }
    }

    async fn configure(&self, clock: &Clock) -> Result<(), DapError> {
        if self.is_theirs() {
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

    /// Grows with every resume: what was told of an earlier stop is of another epoch.
    pub fn epoch(&self) -> u64 {
        self.inner.core().machine.epoch()
    }

    /// The number of the program's process, where the adapter tells it.
    pub fn process(&self) -> Option<i64> {
        self.inner.core().process
    }

    /// Whether its program is run by its child sessions and not by itself.
    pub fn adapter_launches_only(&self) -> bool {
        self.parent.is_none() && self.adapter.quirks.launcher && !self.is_theirs()
    }

    /// Whether the person's editor holds it, and we only look on through the editor.
    pub fn is_theirs(&self) -> bool {
        self.plan.theirs
    }

    pub(crate) fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    pub(crate) fn grant(&self) -> Option<&SpawnGrant> {
        self.grant.as_ref()
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state(), State::Terminated(_))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state(), State::Stopped(_))
    }

    /// Fires when nothing more is to come of it.
    pub(crate) fn finished(&self) -> CancellationToken {
        self.inner.finished.clone()
    }

    /// Adds to what its program wrote.
    pub(crate) fn push_output(&self, category: Category, text: &str) {
        self.inner.write(category, text);
    }

    /// Every change of state from now on, in order.
    pub fn changes(&self) -> broadcast::Receiver<State> {
        self.inner.changes.subscribe()
    }

    /// Ends when it is over: the adapter is ended and reaped. Cancel-safe.
    pub async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Whether the adapter says that it can.
    pub fn can(&self, capability: &str) -> bool {
        self.inner.core().capabilities[capability] == true
    }

    /// All that the adapter says it can.
    pub fn capabilities(&self) -> Value {
        self.inner.core().capabilities.clone()
    }

    /// Waits until the program is stopped or over, or the deadline passes. `Ok` in every case: the state
    /// says which.
    ///
    /// # Errors
    /// [`DapError::Cancelled`].
    pub async fn settled(&self, clock: &Clock) -> Result<State, DapError> {
        let mut states = self.inner.state.subscribe();
        let taken = self.taken();
        let settled = async {
            let found = states.wait_for(|state| matches!(state, State::Stopped(_) | State::Terminated(_)));
            let over = found.await.is_ok_and(|state| matches!(*state, State::Terminated(_)));
            if over {
                // The last output and the exit code may come after the word that it is over.
                self.over().await;
            }
        };
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            () = taken => tracing::debug!(session = self.id, "the person took control"),
            settled = tokio::time::timeout_at(clock.until, settled) => if settled.is_err() {
                tracing::debug!(session = self.id, "still running at the deadline");
            }
        }
        Ok(self.state())
    }

    /// Waits, at most until `until`, for what its program wrote before now, where its adapter can be made to
    /// tell when that has come.
    pub(crate) async fn caught_up(&self, until: Instant) {
        let code = self.adapter.quirks.output_fence.as_deref().filter(|_| !self.is_theirs());
        let Some(code) = code else { return };
        let number = self.asked_marks.fetch_add(1, Ordering::Relaxed) + 1;
        let arguments = json!({ "expression": output_fence::code(code, number), "context": "repl" });
        let mut marked = self.inner.marked.subscribe();
        let clock = Clock { until, cancel: CancellationToken::new() };
        let all = async {
            self.client.request("evaluate", arguments, clock.left(), &clock.cancel).await.ok()?;
            marked.wait_for(|marked| *marked >= number).await.ok().map(|_| ())
        };
        tokio::select! {
            // What came stays; there is nothing to take back.
            _ = self.client.closed() => {}
            all = tokio::time::timeout_at(until, all) => {
                let came = all.is_ok_and(|it| it.is_some());
                tracing::debug!(session = self.id, came, "the output until now");
            }
        }
    }

    /// Where it is stopped beside another thread's stop, waits for that one, which is the one to look at.
    pub(crate) async fn focused(&self, until: Instant) {
        let mut states = self.inner.state.subscribe();
        let other = states.wait_for(|state| !matches!(state, State::Stopped(stop) if stop.beside));
        // One that stays alone is shown as it is.
        let came = tokio::time::timeout_at(until, other).await.is_ok();
        tracing::trace!(session = self.id, came, "the stop in focus");
    }

    /// Whether `command`, which needs `need`, fits the state.
    ///
    /// # Errors
    /// [`DapError::WrongState`] with the state's name.
    pub fn check(&self, command: &str, need: Need) -> Result<(), DapError> {
        Ok(self.inner.core().machine.check(command, need)?)
    }

    /// Asks the adapter. What the state forbids is not sent.
    ///
    /// # Errors
    /// [`DapError`].
    pub async fn ask(
        &self,
        command: &str,
        arguments: Value,
        need: Need,
        clock: &Clock,
    ) -> Result<Value, DapError> {
        self.inner.core().machine.check(command, need)?;
        if RUNS.contains(&command) {
            self.in_control(command)?;
        }
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
                    self.inner.core().named.insert(id.to_owned(), access);
                }
                Ok(body)
            }
            Err(error) => Err(self.explain(error).await),
        }
    }

    /// A failed request; a closed stream is explained by how the session ended.
    async fn explain(&self, error: RequestError) -> DapError {
        match error {
            RequestError::Closed { command, .. } => {
                self.crashed(&format!("it ended before it answered `{command}`")).await
            }
            other => DapError::from_request(&self.adapter.name, other),
        }
    }

    async fn crashed(&self, without: &str) -> DapError {
        // The one who watches says why, soon after the stream closed.
        let wait = tokio::time::timeout(2 * LAST_WORDS, self.over()).await;
        tracing::trace!(in_time = wait.is_ok(), "the end of the session");
        let why = match self.state() {
            State::Terminated(end) => end.failure.unwrap_or_else(|| without.to_owned()),
            _ => without.to_owned(),
        };
        DapError::Crashed { adapter: self.adapter.name.clone(), why }
    }
}
