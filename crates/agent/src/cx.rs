//! What a call is given: its ids, its cancellation, the way to ask for permits, and the way to show progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workspace::{
    AbsPath, Answer, Approver, CommandLine, Denied, ErrorCode, Permit, Plan, Policy, Question, RunId,
    SpawnGrant, SpawnRequest,
};

use crate::discovery::Toolset;
use crate::emitter::Emitter;
use crate::event::{Event, PlanStep, Update};

/// The surroundings of one call.
pub struct ToolCx {
    /// The id of the call.
    pub call_id: String,
    /// The run that the call belongs to: what it commits is undone together.
    pub run: RunId,
    /// Whose programs are meant: the run's, or those of all calls that come one after the other from outside of a run.
    pub starter: RunId,
    /// Fires when the call should end what it started and return.
    pub cancel: CancellationToken,
    gate: Arc<Gate>,
    tools: Arc<Toolset>,
    updates: Updates,
}

enum Updates {
    Events { events: Emitter, open: Arc<AtomicBool> },
    Call(Box<dyn Fn(Update) + Send + Sync>),
}

/// Where permits come from in one run.
pub(crate) struct Gate {
    policy: RwLock<Option<Arc<Policy>>>,
    pub approver: Arc<dyn Approver>,
    /// The person's own command named what is done, so only a denying rule stops it.
    pub invoked: bool,
    pub nobody_to_ask: AtomicBool,
    /// What the session's file is to know of.
    pub notes: Arc<Notes>,
}

/// Entries for the session's file that wait for the next message: who writes it has it for itself.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<(&'static str, Value)>>);

impl Notes {
    pub fn push(&self, kind: &'static str, fields: Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((kind, fields));
    }

    pub fn take(&self) -> Vec<(&'static str, Value)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Gate {
    pub fn new(
        policy: Option<Arc<Policy>>,
        approver: Arc<dyn Approver>,
        invoked: bool,
        notes: Arc<Notes>,
    ) -> Gate {
        Gate { policy: RwLock::new(policy), approver, invoked, nobody_to_ask: AtomicBool::new(false), notes }
    }

    /// The policy of the turn that goes on.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another one, between turns.
    pub fn set_policy(&self, policy: Option<Arc<Policy>>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }
}

/// What a call without a model is given; see [`ToolCx::standalone`].
pub struct Standalone {
    /// Names the call.
    pub call_id: String,
    /// What the call commits is undone as this run.
    pub run: RunId,
    /// One for all calls of whoever makes several; see [`ToolCx::starter`].
    pub starter: RunId,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// The policy.
    pub policy: Arc<Policy>,
    /// The tools that there are.
    pub tools: Arc<Toolset>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// Whether the person's own command named what the call does, so that only a denying rule stops it.
    pub invoked: bool,
    /// Gets the call's progress; must not block.
    pub on_update: Box<dyn Fn(Update) + Send + Sync>,
}

impl ToolCx {
    /// The surroundings of a call that no model made, as `pilcrow tool` needs them.
    pub fn standalone(standalone: Standalone) -> ToolCx {
        ToolCx {
            call_id: standalone.call_id,
            run: standalone.run,
            starter: standalone.starter,
            cancel: standalone.cancel,
            gate: Arc::new(Gate::new(
                Some(standalone.policy),
                standalone.approver,
                standalone.invoked,
                Arc::default(),
            )),
            tools: standalone.tools,
            updates: Updates::Call(standalone.on_update),
        }
    }

    pub(crate) fn in_run(
        call_id: &str,
        run: &RunId,
        cancel: CancellationToken,
        gate: Arc<Gate>,
        tools: Arc<Toolset>,
        events: Emitter,
        open: Arc<AtomicBool>,
    ) -> ToolCx {
        let updates = Updates::Events { events, open };
        let (run, starter) = (run.clone(), run.clone());
        ToolCx { call_id: call_id.to_owned(), run, starter, cancel, gate, tools, updates }
    }

    /// Asks for the permit to commit this plan; waits for the person's answer, at most until `cancel` fires.
    /// `Err` says why not; [`crate::ToolResult::denied`] makes a result of it.
    pub async fn permit(&self, plan: &Plan) -> Result<Permit, Denied> {
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => {
                policy.permit_invoked_asking(plan, self.gate.approver.as_ref(), &self.cancel).await
            }
            Some(policy) => policy.permit(plan, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(permit)
    }

    /// Whether the text of `path`, which is canonical, may be shown to the model without asking anybody.
    pub fn may_read(&self, path: &AbsPath) -> bool {
        self.gate.policy().is_some_and(|policy| policy.may_read(path))
    }

    /// Asks for the permit to read this file, where a rule or its place needs one; waits and fails as
    /// [`ToolCx::permit`] does.
    pub async fn permit_read(&self, path: &AbsPath) -> Result<(), Denied> {
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => policy.permit_read(path, &Invoked, &self.cancel).await,
            Some(policy) => policy.permit_read(path, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(permit)
    }

    /// Asks for the grant to start this process; waits and fails as [`ToolCx::permit`] does.
    pub async fn grant_spawn(&self, request: &SpawnRequest) -> Result<SpawnGrant, Denied> {
        let grant = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) => policy.grant_spawn(request, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(grant)
    }

    /// Asks whether a program of the person's may be run under the tool `by`; waits and fails as
    /// [`ToolCx::permit`] does.
    pub async fn permit_run(&self, by: &str, command: &CommandLine) -> Result<(), Denied> {
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => policy.permit_run(by, command, &Invoked, &self.cancel).await,
            Some(policy) => policy.permit_run(by, command, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(permit)
    }

    /// Asks for the grant to run a shell's command line under the tool `by`; waits and fails as
    /// [`ToolCx::permit`] does. What the line does is judged whoever named it.
    pub async fn grant_line(&self, by: &str, command: &CommandLine) -> Result<SpawnGrant, Denied> {
        let grant = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => policy.grant_line(by, command, &Invoked, &self.cancel).await,
            Some(policy) => policy.grant_line(by, command, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(grant)
    }

    /// Who asks for grants to run the person's programs after the call is over: what a call started may
    /// want to run more.
    pub fn asker(&self) -> Asker {
        Asker { gate: self.gate.clone() }
    }

    /// Asks whether this may be done to a debugged program; waits and fails as [`ToolCx::permit`] does.
    pub async fn permit_debug(&self, what: &str) -> Result<(), Denied> {
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => policy.permit_debug(what, &Invoked, &self.cancel).await,
            Some(policy) => policy.permit_debug(what, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(permit)
    }

    /// Shows progress. Waits only while the queue of events is full; ignored once the call has its result.
    pub async fn update(&self, update: Update) {
        match &self.updates {
            Updates::Events { events, open } if open.load(Ordering::Acquire) => {
                let tool_call_id = self.call_id.clone();
                events.send(Event::ToolExecutionUpdate { tool_call_id, update }).await;
            }
            Updates::Events { .. } => {}
            Updates::Call(call) => call(update),
        }
    }

    /// Shows the steps of the work. Waits only while the queue of events is full; ignored once the call has its result, and where no
    /// session is.
    pub async fn show_plan(&self, steps: Vec<PlanStep>) {
        if let Updates::Events { events, open } = &self.updates
            && open.load(Ordering::Acquire)
        {
            events.send(Event::Plan { steps }).await;
        }
    }

    /// Tells of something beside the conversation ([`Event::is_beside`]); anything else is left out with a warning in the log. Waits and
    /// is ignored as [`ToolCx::show_plan`] does.
    pub async fn tell(&self, event: Event) {
        if !event.is_beside() {
            tracing::warn!(?event, "a tool may not tell this");
        } else if let Updates::Events { events, open } = &self.updates
            && open.load(Ordering::Acquire)
        {
            events.send(event).await;
        }
    }

    /// Keeps in the session's file what no model is sent, as an entry of this type, before the result of the call. Nothing where no
    /// session is.
    pub fn keep(&self, kind: &'static str, fields: Value) {
        if let Updates::Events { .. } = &self.updates {
            self.gate.notes.push(kind, fields);
        }
    }

    /// The tools of the session, those that its model has not heard of too.
    pub fn tools(&self) -> &Toolset {
        &self.tools
    }

    /// The policy, if there is one.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.gate.policy()
    }

    /// Who is asked.
    pub fn approver(&self) -> &Arc<dyn Approver> {
        &self.gate.approver
    }

    /// Whether something was denied because nobody could be asked.
    pub fn nobody_to_ask(&self) -> bool {
        self.gate.nobody_to_ask.load(Ordering::Acquire)
    }

    fn note<T>(&self, outcome: Result<T, Denied>) -> Result<T, Denied> {
        if matches!(&outcome, Err(denied) if denied.nobody_to_ask) {
            self.gate.nobody_to_ask.store(true, Ordering::Release);
        }
        outcome
    }
}

/// Asks as the call that it came from does.
#[derive(Clone)]
pub struct Asker {
    gate: Arc<Gate>,
}

impl Asker {
    /// Asks for the grant to run exactly this program of the person's under the tool `by`; waits for the
    /// person's answer, at most until `cancel` fires.
    pub async fn grant_run(
        &self,
        by: &str,
        command: &CommandLine,
        cancel: &CancellationToken,
    ) -> Result<SpawnGrant, Denied> {
        match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => policy.grant_run(by, command, &Invoked, cancel).await,
            Some(policy) => policy.grant_run(by, command, self.gate.approver.as_ref(), cancel).await,
        }
    }
}

/// The person named what is done, which is their answer.
struct Invoked;

impl Approver for Invoked {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Once })
    }
}

fn no_policy() -> Denied {
    Denied {
        code: ErrorCode::Denied,
        reason: "this session has no policy, so nothing that needs a permit is done".to_owned(),
        nobody_to_ask: false,
    }
}
