//! A session: one transcript, one run at a time. One task owns the transcript and serves operations strictly in the
//! order they were asked for; a failing one does not stop the next. Sessions are independent of each other.
//!
//! Dropping every handle cancels the run and ends the task; [`Session::close`] waits for it.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use llm::{Message, Model, Usage};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use workspace::{Answer, Approver, Nobody, Policy, Question, QuestionKind, RunId};

use crate::cx::Gate;
use crate::discovery::Toolset;
use crate::emitter::Emitter;
use crate::event::{Event, EventSink, PermissionAnswer, TerminationReason};
use crate::hooks::{Hooks, NoHooks};
use crate::queues::{Drain, Queues};
use crate::registry::Registry;
use crate::run::{self, Limits, RunCx, RunOutcome, Transcript, wait_for_stragglers};
use crate::store::{LoadedSession, NewSession, SessionFile, SessionStore};

/// Operations that wait before callers do.
const OPERATIONS: usize = 64;

/// A handle to a session; cheap to clone.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    operations: mpsc::Sender<Operation>,
    queues: Arc<Queues>,
    events: Emitter,
    state: watch::Receiver<SessionState>,
    /// Cancels the run that is going on, if any.
    current: Arc<Mutex<Option<CancellationToken>>>,
    disconnected: CancellationToken,
    tracker: TaskTracker,
    _end: DropGuard,
}

enum Operation {
    Prompt { messages: Vec<Message>, cancel: CancellationToken, reply: oneshot::Sender<RunOutcome> },
    Messages { reply: oneshot::Sender<Vec<Message>> },
    SetModel { model: Arc<dyn Model>, reply: oneshot::Sender<()> },
    SetSystem { system: String, reply: oneshot::Sender<()> },
    Close { reply: oneshot::Sender<()> },
}

/// What a surface shows of a session at any moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionState {
    /// Whether a run is going on.
    pub running: bool,
    /// Whether the model is answering.
    pub streaming: bool,
    /// The turn of the run, from 1; 0 when idle.
    pub turns: u32,
    /// Messages in the transcript when the run began, or now when idle.
    pub messages: usize,
    /// The ids of the calls that have no result yet.
    pub pending_calls: Vec<String>,
    /// What the last run failed with; `None` once the next begins.
    pub error: Option<String>,
}

/// What a session is made of.
pub struct SessionBuilder {
    model: Arc<dyn Model>,
    tools: Registry,
    system: String,
    cwd: String,
    store: Option<SessionStore>,
    resume: Option<LoadedSession>,
    sinks: Vec<Arc<dyn EventSink>>,
    policy: Option<Arc<Policy>>,
    approver: Arc<dyn Approver>,
    hooks: Arc<dyn Hooks>,
    cancel: CancellationToken,
    limits: Limits,
    id: Option<String>,
    invoked: bool,
    searches: bool,
}

impl Session {
    /// A session with this model and these tools. Without a policy nothing that needs a permit is done; without an
    /// approver nobody can be asked; without a store nothing is kept.
    pub fn builder(model: Arc<dyn Model>, tools: Registry) -> SessionBuilder {
        SessionBuilder {
            model,
            tools,
            system: String::new(),
            cwd: String::new(),
            store: None,
            resume: None,
            sinks: Vec::new(),
            policy: None,
            approver: Arc::new(Nobody),
            hooks: Arc::new(NoHooks),
            cancel: CancellationToken::new(),
            limits: Limits::default(),
            id: None,
            invoked: false,
            searches: false,
        }
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Runs with this prompt, after what was asked for before. Dropping the future does not end the run; [`Session::abort`] does.
    pub async fn prompt(&self, text: impl Into<String>) -> RunOutcome {
        self.prompt_messages(vec![Message::user(text)], CancellationToken::new()).await
    }

    /// Runs with these messages; `cancel` ends this run alone.
    pub async fn prompt_messages(&self, messages: Vec<Message>, cancel: CancellationToken) -> RunOutcome {
        let asked = self.ask(|reply| Operation::Prompt { messages, cancel, reply }).await;
        asked.unwrap_or_else(|| outcome_without_run(TerminationReason::Disconnected, "the session is closed"))
    }

    /// Queues a message for after the current turn; nothing is skipped. While idle it waits for the next run.
    pub async fn steer(&self, message: Message) {
        let (steering, follow_up) = self.inner.queues.steer(message);
        self.inner.events.send(Event::QueueUpdate { steering, follow_up }).await;
    }

    /// Queues a message for when the run would stop. While idle it waits for the next run.
    pub async fn follow_up(&self, message: Message) {
        let (steering, follow_up) = self.inner.queues.follow_up(message);
        self.inner.events.send(Event::QueueUpdate { steering, follow_up }).await;
    }

    /// Removes what waits in both queues.
    pub async fn clear_queues(&self) {
        let (steering, follow_up) = self.inner.queues.clear();
        self.inner.events.send(Event::QueueUpdate { steering, follow_up }).await;
    }

    /// How many queued messages are delivered at once, from the next delivery on.
    pub fn set_drain(&self, drain: Drain) {
        self.inner.queues.set_drain(drain);
    }

    /// Cancels the run that is going on; nothing when idle. Does not wait.
    pub fn abort(&self) {
        let current = self.inner.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = current.as_ref() {
            current.cancel();
        }
    }

    /// The surface went away: the run ends with reason `disconnected`, and those after it.
    pub fn disconnect(&self) {
        self.inner.disconnected.cancel();
    }

    /// The transcript, once what was asked for before is done; `None` when the session is closed.
    pub async fn messages(&self) -> Option<Vec<Message>> {
        self.ask(|reply| Operation::Messages { reply }).await
    }

    /// Another model, from the next run on. False when the session is closed.
    pub async fn set_model(&self, model: Arc<dyn Model>) -> bool {
        self.ask(|reply| Operation::SetModel { model, reply }).await.is_some()
    }

    /// Other instructions, from the next run on. False when the session is closed.
    pub async fn set_system(&self, system: String) -> bool {
        self.ask(|reply| Operation::SetSystem { system, reply }).await.is_some()
    }

    /// What a surface shows, as it changes.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.inner.state.clone()
    }

    /// Cancels the run that is going on, waits until it has ended, and ends the session; at most `deadline`. False when something
    /// still ran then, which is left behind.
    pub async fn close(&self, deadline: Duration) -> bool {
        self.abort();
        let ended = self.ask(|reply| Operation::Close { reply });
        if tokio::time::timeout(deadline, ended).await.is_err() {
            tracing::warn!(session = self.inner.id, "the session did not end in time");
            return false;
        }
        true
    }

    async fn ask<T>(&self, operation: impl FnOnce(oneshot::Sender<T>) -> Operation) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.inner.operations.send(operation(reply)).await.ok()?;
        answer.await.ok()
    }
}

impl SessionBuilder {
    /// The instructions.
    pub fn system(self, system: impl Into<String>) -> Self {
        SessionBuilder { system: system.into(), ..self }
    }

    /// The working directory, as the session's file shows it.
    pub fn cwd(self, cwd: impl Into<String>) -> Self {
        SessionBuilder { cwd: cwd.into(), ..self }
    }

    /// Where the session is kept.
    pub fn store(self, store: SessionStore) -> Self {
        SessionBuilder { store: Some(store), ..self }
    }

    /// Goes on with a session that was loaded: its id, its transcript, and its file if a store is given.
    pub fn resume(self, session: LoadedSession) -> Self {
        SessionBuilder { resume: Some(session), ..self }
    }

    /// Hears the events; several are told in this order.
    pub fn sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Decides what is permitted.
    pub fn policy(self, policy: Arc<Policy>) -> Self {
        SessionBuilder { policy: Some(policy), ..self }
    }

    /// Who is asked; each question is an event as well.
    pub fn approver(self, approver: Arc<dyn Approver>) -> Self {
        SessionBuilder { approver, ..self }
    }

    /// Takes part in the loop.
    pub fn hooks(self, hooks: Arc<dyn Hooks>) -> Self {
        SessionBuilder { hooks, ..self }
    }

    /// Ends every run of the session.
    pub fn cancel(self, cancel: CancellationToken) -> Self {
        SessionBuilder { cancel, ..self }
    }

    /// The bounds of each run.
    pub fn limits(self, limits: Limits) -> Self {
        SessionBuilder { limits, ..self }
    }

    /// The id of a new session, for surfaces that tell it before the session is made; one is chosen otherwise.
    pub fn id(self, id: impl Into<String>) -> Self {
        SessionBuilder { id: Some(id.into()), ..self }
    }

    /// The person's own command named what the session does, so that only a denying rule stops it.
    pub fn invoked(self, invoked: bool) -> Self {
        SessionBuilder { invoked, ..self }
    }

    /// The model is told of few tools and finds the others; see [`Toolset`]. Otherwise it is told of all.
    pub fn searches_tools(self, searches: bool) -> Self {
        SessionBuilder { searches, ..self }
    }

    /// Starts the session's task in the current tokio runtime. Writes nothing yet: the file begins with the first message.
    pub fn build(self) -> Session {
        let resumed = self.resume.is_some();
        let (id, messages) = match &self.resume {
            Some(loaded) => (loaded.header.id.clone(), loaded.context()),
            None => (self.id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()), Vec::new()),
        };
        let registry = Arc::new(self.tools);
        let tools = if self.searches { Toolset::searched(registry) } else { Toolset::whole(registry) };
        if let Some(loaded) = &self.resume {
            tools.activate(loaded.activated().iter().map(String::as_str));
            // The file knows them.
            tools.take_new();
        }
        let tools = Arc::new(tools);
        let file: Option<SessionFile> = self.store.map(|store| match &self.resume {
            Some(loaded) => store.reopen(loaded),
            None => {
                store.create(NewSession { id: id.clone(), cwd: self.cwd.clone(), ..NewSession::default() })
            }
        });
        tracing::debug!(session = id, resumed, "session");
        let tracker = TaskTracker::new();
        let events = Emitter::start(id.clone(), self.sinks, &tracker);
        let queues = Arc::new(Queues::default());
        let current = Arc::new(Mutex::new(None));
        let disconnected = CancellationToken::new();
        let (state, watched) =
            watch::channel(SessionState { messages: messages.len(), ..SessionState::default() });
        let (operations, incoming) = mpsc::channel(OPERATIONS);
        let end = self.cancel.child_token();
        let actor = Actor {
            model: self.model,
            tools,
            system: self.system,
            hooks: self.hooks,
            policy: self.policy,
            approver: Arc::new(ToldApprover { approver: self.approver, events: events.clone() }),
            limits: self.limits,
            invoked: self.invoked,
            transcript: Transcript::new(messages, file),
            events: events.clone(),
            queues: queues.clone(),
            state: Arc::new(state),
            current: current.clone(),
            disconnected: disconnected.clone(),
            end: end.clone(),
        };
        tracker.spawn(actor.serve(incoming));
        Session {
            inner: Arc::new(Inner {
                id,
                operations,
                queues,
                events,
                state: watched,
                current,
                disconnected,
                tracker,
                _end: end.drop_guard(),
            }),
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.inner.id)
            .field("tasks", &self.inner.tracker.len())
            .finish()
    }
}

/// The task that owns the transcript.
struct Actor {
    model: Arc<dyn Model>,
    tools: Arc<Toolset>,
    system: String,
    hooks: Arc<dyn Hooks>,
    policy: Option<Arc<Policy>>,
    approver: Arc<dyn Approver>,
    limits: Limits,
    invoked: bool,
    transcript: Transcript,
    events: Emitter,
    queues: Arc<Queues>,
    state: Arc<watch::Sender<SessionState>>,
    current: Arc<Mutex<Option<CancellationToken>>>,
    disconnected: CancellationToken,
    end: CancellationToken,
}

impl Actor {
    async fn serve(mut self, mut incoming: mpsc::Receiver<Operation>) {
        // Ends when every handle is gone: that also cancels `end`, and so the run that is going on.
        while let Some(operation) = incoming.recv().await {
            // Each reply fails only when the caller has stopped waiting.
            match operation {
                Operation::Prompt { messages, cancel, reply } => {
                    reply.send(self.run(messages, cancel).await).ok();
                }
                Operation::Messages { reply } => {
                    reply.send(self.transcript.messages().to_vec()).ok();
                }
                Operation::SetModel { model, reply } => {
                    self.model = model;
                    reply.send(()).ok();
                }
                Operation::SetSystem { system, reply } => {
                    self.system = system;
                    reply.send(()).ok();
                }
                Operation::Close { reply } => {
                    incoming.close();
                    reply.send(()).ok();
                }
            }
        }
    }

    async fn run(&mut self, messages: Vec<Message>, cancel: CancellationToken) -> RunOutcome {
        if self.transcript.messages().is_empty() {
            messages.iter().for_each(|message| self.tools.activate_for(&message.text()));
        }
        let tracker = TaskTracker::new();
        let cx = RunCx {
            run: RunId::new(),
            model: self.model.clone(),
            system: self.system.clone(),
            tools: self.tools.clone(),
            hooks: self.hooks.clone(),
            events: self.events.clone(),
            gate: Arc::new(Gate {
                policy: self.policy.clone(),
                approver: self.approver.clone(),
                invoked: self.invoked,
                nobody_to_ask: AtomicBool::new(false),
            }),
            queues: self.queues.clone(),
            limits: self.limits,
            tracker: tracker.clone(),
            state: self.state.clone(),
            cancel: CancellationToken::new(),
        };
        // Three ways to abort: this run's token, `abort` of the session, and the session's own end.
        let outer = self.end.child_token();
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(outer.clone());
        let linked = outer.clone();
        let link = async move {
            cancel.cancelled().await;
            linked.cancel();
            std::future::pending::<()>().await;
        };
        let run = run::run(&cx, &mut self.transcript, messages, &outer, &self.disconnected);
        let run = AssertUnwindSafe(run).catch_unwind();
        let outcome = tokio::select! {
            // `link` owns nothing; the run is never dropped, since the other branch never ends.
            outcome = run => outcome.unwrap_or_else(|_| {
                tracing::error!("a run ended by a defect");
                outcome_without_run(TerminationReason::Error, "the run ended by a defect of pilcrow; see the log")
            }),
            () = link => outcome_without_run(TerminationReason::Aborted, "cancelled"),
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        wait_for_stragglers(&tracker, Duration::from_millis(50)).await;
        let aborted = outcome.reason == TerminationReason::Aborted;
        self.events.send(Event::AgentSettled { aborted }).await;
        outcome
    }
}

fn outcome_without_run(reason: TerminationReason, error: &str) -> RunOutcome {
    RunOutcome {
        run: RunId::new(),
        reason,
        error: Some(error.to_owned()),
        final_text: String::new(),
        messages: Vec::new(),
        turns: 0,
        usage: Usage::default(),
        denied_for_lack_of_asker: false,
    }
}

/// Asks the person, and tells the surfaces that it does.
struct ToldApprover {
    approver: Arc<dyn Approver>,
    events: Emitter,
}

impl Approver for ToldApprover {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let request_id = uuid::Uuid::now_v7().to_string();
            let kind = match question.kind {
                QuestionKind::Read => "read",
                QuestionKind::Write => "write",
                QuestionKind::Trust => "trust",
                QuestionKind::Exec => "exec",
            };
            let request = Event::PermissionRequest {
                request_id: request_id.clone(),
                kind: kind.to_owned(),
                title: question.title.clone(),
                detail: question.detail.clone(),
                files: question.files.clone(),
            };
            self.events.emit(request, cancel).await;
            let answer = self.approver.ask(question, cancel).await;
            let told = match &answer {
                Answer::Once => PermissionAnswer::Once,
                Answer::Session => PermissionAnswer::Session,
                Answer::Always => PermissionAnswer::Always,
                Answer::No { .. } | Answer::Refused { .. } | Answer::Dismissed => PermissionAnswer::No,
                Answer::Nobody => PermissionAnswer::Nobody,
            };
            self.events.send(Event::PermissionResolved { request_id, answer: told }).await;
            answer
        })
    }
}
