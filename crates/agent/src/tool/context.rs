//! The context of a tool call: ids, cancellation, permits and progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use paths::AbsPath;
use policy::{
    Answer, Approver, Confinement, Denied, DeniedBy, ErrorCode, HostPermit, Permit, Policy, Question,
    SpawnGrant, SpawnRequest,
};
use serde_json::Value;
use shell::CommandLine;
use tokio_util::sync::CancellationToken;
use workspace::{Plan, RunId};

use crate::events::emitter::{Emitter, WeakEmitter};
use crate::events::{Event, PlanStep, Update};
use crate::tool::discovery::Toolset;
use crate::tool::gate::Gate;

/// The context of one call.
pub struct ToolCx {
    pub call_id: String,
    /// The run of the call; its commits are undone together.
    pub run: RunId,
    /// Owner of the processes that the call starts.
    ///
    /// It is the run, or one id for successive calls outside a run.
    pub starter: RunId,
    /// Fires when the call should stop what it started and return.
    pub cancel: CancellationToken,
    gate: Arc<Gate>,
    tools: Arc<Toolset>,
    updates: Updates,
    accepts_images: bool,
}

enum Updates {
    Events { events: Emitter, open: Arc<AtomicBool> },
    Call(Box<dyn Fn(Update) + Send + Sync>),
}

/// The parameters of [`ToolCx::standalone`].
pub struct StandaloneCall {
    pub call_id: String,
    /// The run as which the commits of the call are undone.
    pub run: RunId,
    /// One id for successive calls of one caller; see [`ToolCx::starter`].
    pub starter: RunId,
    pub cancel: CancellationToken,
    pub policy: Arc<Policy>,
    pub tools: Arc<Toolset>,
    pub approver: Arc<dyn Approver>,
    /// Whether the user's own command named the action: only a denying rule stops it.
    pub invoked: bool,
    /// Callback for the call's progress; must not block.
    pub on_update: Box<dyn Fn(Update) + Send + Sync>,
}

impl ToolCx {
    /// Creates the context of a call without a model, as for `pilcrow tool`.
    pub fn standalone(standalone: StandaloneCall) -> ToolCx {
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
            accepts_images: false,
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
        ToolCx {
            call_id: call_id.to_owned(),
            run,
            starter,
            cancel,
            gate,
            tools,
            updates,
            accepts_images: false,
        }
    }

    /// Sets whether the model that reads the result accepts images.
    pub(crate) fn with_images(self, accepts_images: bool) -> ToolCx {
        ToolCx { accepts_images, ..self }
    }

    /// Whether the model that reads the result accepts images.
    pub fn accepts_images(&self) -> bool {
        self.accepts_images
    }

    /// Requests the permit to commit this plan.
    ///
    /// Waits for the user's answer until `cancel` fires. [`crate::ToolResult::denied`] makes a result of the
    /// error.
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

    /// Whether the canonical `path` may be shown to the model without a question.
    pub fn may_read(&self, path: &AbsPath) -> bool {
        self.gate.policy().is_some_and(|policy| policy.may_read(path))
    }

    /// Requests the permit to read this file if one is needed; see [`ToolCx::permit`].
    pub async fn permit_read(&self, path: &AbsPath) -> Result<(), Denied> {
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => policy.permit_read(path, &Invoked, &self.cancel).await,
            Some(policy) => policy.permit_read(path, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(permit)
    }

    /// Requests the grant to start this process; see [`ToolCx::permit`].
    pub async fn grant_spawn(&self, request: &SpawnRequest) -> Result<SpawnGrant, Denied> {
        let grant = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) => policy.grant_spawn(request, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(grant)
    }

    /// Requests the permit for `by` to run a user's program; see [`ToolCx::permit`].
    pub async fn permit_run(
        &self,
        by: &str,
        command: &CommandLine,
        confinement: Confinement,
    ) -> Result<(), Denied> {
        let approver = if self.gate.invoked { &Invoked } else { self.gate.approver.as_ref() };
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) => policy.permit_run(by, command, confinement, approver, &self.cancel).await,
        };
        self.note(permit)
    }

    /// Requests the grant to run a shell command line; see [`ToolCx::permit`].
    ///
    /// The line is evaluated even if the user named it. If the sandbox is waived, the policy asks.
    pub async fn grant_line(
        &self,
        by: &str,
        command: &CommandLine,
        confinement: Confinement,
    ) -> Result<SpawnGrant, Denied> {
        let approver = if self.gate.invoked { &Invoked } else { self.gate.approver.as_ref() };
        let grant = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) => policy.grant_line(by, command, confinement, approver, &self.cancel).await,
        };
        self.note(grant)
    }

    /// Whether a model made the call, and reads its result.
    pub fn is_in_run(&self) -> bool {
        matches!(self.updates, Updates::Events { .. })
    }

    /// Requests grants after the call has ended, for what it started.
    pub fn grant_requester(&self) -> GrantRequester {
        GrantRequester { gate: self.gate.clone() }
    }

    /// Requests the permit to attach to a process; see [`ToolCx::permit`].
    pub async fn permit_attach(&self, what: &str) -> Result<(), Denied> {
        let approver = if self.gate.invoked { &Invoked } else { self.gate.approver.as_ref() };
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) => policy.permit_attach(what, approver, &self.cancel).await,
        };
        self.note(permit)
    }

    /// Requests the permit for an action on a debugged program; see [`ToolCx::permit`].
    pub async fn permit_debug(&self, what: &str) -> Result<(), Denied> {
        let permit = match &self.gate.policy() {
            None => Err(no_policy()),
            Some(policy) if self.gate.invoked => policy.permit_debug(what, &Invoked, &self.cancel).await,
            Some(policy) => policy.permit_debug(what, self.gate.approver.as_ref(), &self.cancel).await,
        };
        self.note(permit)
    }

    /// Reports progress.
    ///
    /// Waits only while the event queue is full; ignored once the call has a result.
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

    /// Reports the steps of the work, in a session only; see [`ToolCx::update`].
    pub async fn show_plan(&self, steps: Vec<PlanStep>) {
        if let Updates::Events { events, open } = &self.updates
            && open.load(Ordering::Acquire)
        {
            events.send(Event::Plan { steps }).await;
        }
    }

    /// Reports an event outside the conversation ([`Event::is_status`]).
    ///
    /// Other events are dropped with a warning in the log. See [`ToolCx::show_plan`].
    pub async fn report(&self, event: Event) {
        if !event.is_status() {
            tracing::warn!(?event, "dropped an event that a tool may not send");
        } else if let Updates::Events { events, open } = &self.updates
            && open.load(Ordering::Acquire)
        {
            events.send(event).await;
        }
    }

    /// Reports status events of this call after it has ended.
    pub fn event_reporter(&self) -> EventReporter {
        let events = match &self.updates {
            Updates::Events { events, .. } => Some(events.downgrade()),
            Updates::Call(_) => None,
        };
        EventReporter { call_id: self.call_id.clone(), events }
    }

    /// Records an entry of this type in the session file, before the call's result.
    ///
    /// No model receives it. Outside a session, the call does nothing.
    pub fn keep(&self, kind: &'static str, fields: Value) {
        if let Updates::Events { .. } = &self.updates {
            self.gate.notes.push(kind, fields);
        }
    }

    /// The tools of the session, including those that the model does not know.
    pub fn tools(&self) -> &Toolset {
        &self.tools
    }

    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.gate.policy()
    }

    pub fn approver(&self) -> &Arc<dyn Approver> {
        &self.gate.approver
    }

    fn note<T>(&self, outcome: Result<T, Denied>) -> Result<T, Denied> {
        if matches!(&outcome, Err(denied) if denied.by == DeniedBy::Unattended) {
            self.gate.unattended.store(true, Ordering::Release);
        }
        outcome
    }
}

/// Reports status events of a call while its session lives.
pub struct EventReporter {
    call_id: String,
    events: Option<WeakEmitter>,
}

impl EventReporter {
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Reports an event outside the conversation; see [`ToolCx::report`].
    pub async fn report(&self, event: Event) {
        if !event.is_status() {
            tracing::warn!(?event, "dropped an event that a tool may not send");
        } else if let Some(events) = &self.events {
            events.send(event).await;
        }
    }
}

/// Requests grants with the authority of the call that made it.
#[derive(Clone)]
pub struct GrantRequester {
    gate: Arc<Gate>,
}

impl GrantRequester {
    /// Requests the grant to run exactly this program under the tool `by`.
    ///
    /// Waits for the user's answer until `cancel` fires.
    pub async fn grant_run(
        &self,
        by: &str,
        command: &CommandLine,
        confinement: Confinement,
        cancel: &CancellationToken,
    ) -> Result<SpawnGrant, Denied> {
        let Some(policy) = &self.gate.policy() else { return Err(no_policy()) };
        let approver = if self.gate.invoked { &Invoked } else { self.gate.approver.as_ref() };
        policy.grant_run(by, command, confinement, approver, cancel).await
    }

    /// Requests the permit for a command to connect to a host; see [`ToolCx::permit`].
    ///
    /// The user did not name the host, so the policy asks even if they named the command.
    pub async fn permit_host(
        &self,
        host: &str,
        port: u16,
        program: &str,
        cancel: &CancellationToken,
    ) -> Result<HostPermit, Denied> {
        let Some(policy) = &self.gate.policy() else { return Err(no_policy()) };
        policy.permit_host(host, port, program, self.gate.approver.as_ref(), cancel).await
    }
}

/// Approves, since the user's own command named the action.
struct Invoked;

impl Approver for Invoked {
    fn ask<'a>(&'a self, _: Question, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Once })
    }
}

fn no_policy() -> Denied {
    Denied {
        code: ErrorCode::Denied,
        reason: "this session has no policy, so it denies what needs a permit".to_owned(),
        by: DeniedBy::Policy,
    }
}
