//! The builder of a session: its parts and settings.

use std::collections::VecDeque;
use std::sync::Arc;

use llm::{Message, Model, ThinkingLevel};
use parking_lot::Mutex;
use policy::{Approver, Policy, Redactor, Unattended};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::Commit;

use crate::events::EventSink;
use crate::events::SessionState;
use crate::events::emitter::Emitter;
use crate::run::context::RecordedSettings;
use crate::run::hooks::{Hooks, NoHooks};
use crate::run::limits::Limits;
use crate::run::queues::{Drain, Queue, Queues, Steering};
use crate::run::reload::ReloadSource;
use crate::run::settings::{SharedSettings, TurnSettings};
use crate::session::actor::Actor;
use crate::session::approver::{OpenQuestions, ReportingApprover};
use crate::session::{Inner, Session};
use crate::store::{ContextItem, LoadedSession, NewSession, SessionFile, SessionStore};
use crate::tool::Tool;
use crate::tool::discovery::Toolset;
use crate::tool::gate::Notes;
use crate::tool::registry::{Registry, RegistryError};
use crate::transcript::Transcript;

/// The parts and settings of a session.
pub struct SessionBuilder {
    model: Arc<dyn Model>,
    fallbacks: VecDeque<Arc<dyn Model>>,
    summarizer: Option<Arc<dyn Model>>,
    thinking_level: Option<ThinkingLevel>,
    tools: Registry,
    instructions: String,
    cwd: String,
    store: Option<SessionStore>,
    resume: Option<LoadedSession>,
    parent: Option<(String, Option<String>)>,
    sinks: Vec<Arc<dyn EventSink>>,
    policy: Option<Arc<Policy>>,
    approver: Arc<dyn Approver>,
    hooks: Arc<dyn Hooks>,
    cancel: CancellationToken,
    limits: Limits,
    searches_tools: bool,
    steering: Steering,
    drain: Drain,
    id: Option<String>,
    invoked: bool,
    reload_source: Option<Arc<dyn ReloadSource>>,
    commits: Option<broadcast::Receiver<Arc<Commit>>>,
    disconnected: CancellationToken,
    settles_on_close: bool,
    last_seq: u64,
}

impl SessionBuilder {
    pub(crate) fn new(model: Arc<dyn Model>, tools: Registry) -> SessionBuilder {
        SessionBuilder {
            model,
            fallbacks: VecDeque::new(),
            summarizer: None,
            thinking_level: None,
            tools,
            instructions: String::new(),
            cwd: String::new(),
            store: None,
            resume: None,
            parent: None,
            sinks: Vec::new(),
            policy: None,
            approver: Arc::new(Unattended),
            hooks: Arc::new(NoHooks),
            cancel: CancellationToken::new(),
            limits: Limits::default(),
            searches_tools: false,
            steering: Steering::default(),
            drain: Drain::default(),
            id: None,
            invoked: false,
            reload_source: None,
            commits: None,
            disconnected: CancellationToken::new(),
            settles_on_close: false,
            last_seq: 0,
        }
    }

    pub fn system(self, system: impl Into<String>) -> Self {
        SessionBuilder { instructions: system.into(), ..self }
    }

    /// Sets the models to try in order when the first one fails.
    pub fn fallbacks(self, models: impl IntoIterator<Item = Arc<dyn Model>>) -> Self {
        SessionBuilder { fallbacks: models.into_iter().collect(), ..self }
    }

    /// Sets a model for summaries; if it fails, the session's own model is asked.
    pub fn summarizer(self, model: Option<Arc<dyn Model>>) -> Self {
        SessionBuilder { summarizer: model, ..self }
    }

    /// Sets how much the model thinks; without it, the model's own default applies.
    pub fn thinking_level(self, level: ThinkingLevel) -> Self {
        SessionBuilder { thinking_level: Some(level), ..self }
    }

    /// Adds a tool. `Err` if its name is taken.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        self.tools.add(tool)?;
        Ok(self)
    }

    /// Sets the working directory that the session file records.
    ///
    /// Each tool gets its workspace when it is made.
    pub fn cwd(self, cwd: impl Into<String>) -> Self {
        SessionBuilder { cwd: cwd.into(), ..self }
    }

    /// Sets the store of the session.
    pub fn store(self, store: SessionStore) -> Self {
        SessionBuilder { store: Some(store), ..self }
    }

    /// Continues a loaded session: its id and its transcript up to the selected entry.
    ///
    /// Writes to its file if there is a store.
    pub fn resume(self, session: LoadedSession) -> Self {
        SessionBuilder { resume: Some(session), ..self }
    }

    /// Sets the parent session and branch point that the session file records.
    ///
    /// Nothing is inherited; [`SessionStore::fork`] does that.
    pub fn parent(self, session: impl Into<String>, branch_point: Option<String>) -> Self {
        SessionBuilder { parent: Some((session.into(), branch_point)), ..self }
    }

    /// Adds a sink for events; sinks receive each event in this order.
    pub fn sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Sets the policy that decides on permits.
    pub fn policy(self, policy: Arc<Policy>) -> Self {
        SessionBuilder { policy: Some(policy), ..self }
    }

    /// Sets the approver of questions; each question is an event as well.
    pub fn approver(self, approver: Arc<dyn Approver>) -> Self {
        SessionBuilder { approver, ..self }
    }

    pub fn hooks(self, hooks: Arc<dyn Hooks>) -> Self {
        SessionBuilder { hooks, ..self }
    }

    /// Sets a token that cancels every run of the session.
    pub fn cancel(self, cancel: CancellationToken) -> Self {
        SessionBuilder { cancel, ..self }
    }

    /// Sets the limits of each run.
    pub fn limits(self, limits: Limits) -> Self {
        SessionBuilder { limits, ..self }
    }

    /// Sets the id of a new session; a UUID by default.
    pub fn id(self, id: impl Into<String>) -> Self {
        SessionBuilder { id: Some(id.into()), ..self }
    }

    /// Sets whether the user's own command named the action.
    ///
    /// Only a denying rule stops such an action.
    pub fn invoked(self, invoked: bool) -> Self {
        SessionBuilder { invoked, ..self }
    }

    /// Sets whether the model knows few tools and searches the others; see [`Toolset`].
    pub fn searches_tools(self, searches_tools: bool) -> Self {
        SessionBuilder { searches_tools, ..self }
    }

    /// Sets the delivery of queued messages.
    ///
    /// See [`Session::set_steering`] and [`Session::set_drain`].
    pub fn queues(self, steering: Steering, drain: Drain) -> Self {
        SessionBuilder { steering, drain, ..self }
    }

    /// Sets the source of changed settings, which the session polls before each turn.
    pub fn reload_source(self, reload_source: Arc<dyn ReloadSource>) -> Self {
        SessionBuilder { reload_source: Some(reload_source), ..self }
    }

    /// Sets the source of the workspace's commits; those of a run become its events.
    pub fn commits(self, commits: broadcast::Receiver<Arc<Commit>>) -> Self {
        SessionBuilder { commits: Some(commits), ..self }
    }

    /// Reports that the surface disconnected, like [`Session::disconnect`].
    pub fn disconnected(self, disconnected: CancellationToken) -> Self {
        SessionBuilder { disconnected, ..self }
    }

    /// Sets whether `agent_settled` is the last event, sent by [`Session::close`].
    ///
    /// Otherwise it is sent whenever the session is idle, and reports may follow.
    pub fn settles_on_close(self, settles_on_close: bool) -> Self {
        SessionBuilder { settles_on_close, ..self }
    }

    /// Sets the number of the event before the first one.
    ///
    /// A session that a process opens again continues its numbers.
    pub fn last_seq(self, last_seq: u64) -> Self {
        SessionBuilder { last_seq, ..self }
    }

    /// Starts the session's task in the current tokio runtime.
    ///
    /// Writes nothing yet: the file begins with the first message.
    pub fn build(self) -> Session {
        let SessionBuilder { limits, searches_tools, steering, drain, .. } = self;
        let recorded = self.resume.as_ref().map(LoadedSession::last_settings).unwrap_or_default();
        let recorded = RecordedSettings { model: recorded.0, thinking_level: recorded.1 };
        let resumed_from = self.resume.as_ref().map(|loaded| loaded.file.clone());
        let (id, items) = match &self.resume {
            Some(loaded) => (loaded.header.id.clone(), loaded.context_items()),
            None => (self.id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()), Vec::new()),
        };
        let registry = Arc::new(self.tools);
        recall(&registry, &items);
        let tools = if searches_tools { Toolset::searchable(registry) } else { Toolset::all(registry) };
        let mut thinking_level = self.thinking_level;
        if let Some(loaded) = &self.resume {
            tools.activate(loaded.activated().iter().map(String::as_str));
            // The file already records them.
            tools.take_new();
            thinking_level = thinking_level.or(recorded.thinking_level);
        }
        let warnings = self.resume.as_ref().map(|loaded| loaded.warnings.clone()).unwrap_or_default();
        let (parent_session, branch_point) = self.parent.map_or((None, None), |(id, at)| (Some(id), at));
        let file = self.store.map(|store| match &self.resume {
            Some(loaded) => store.reopen(loaded),
            None => store.create(NewSession {
                id: id.clone(),
                cwd: self.cwd.clone(),
                parent_session,
                branch_point,
            }),
        });
        tracing::debug!(session = id, resumed = resumed_from.is_some(), "session");
        // The full text of cut results is read there.
        let outputs = file.as_ref().map(SessionFile::outputs);
        let readable = outputs.into_iter().collect();
        let transcript = Transcript::new(items, file);
        let tracker = TaskTracker::new();
        let mut state = SessionState::default();
        state.instructions.clone_from(&self.instructions);
        state.model.clone_from(&self.model.info().id);
        state.thinking_level = thinking_level;
        state.tools = tools.active();
        state.messages = transcript.messages().clone();
        let current = TurnSettings {
            model: self.model,
            fallbacks: self.fallbacks,
            summarizer: self.summarizer,
            thinking_level,
            instructions: self.instructions,
            tools: Arc::new(tools),
            limits,
            policy: self.policy,
        };
        let events = Emitter::start(id.clone(), self.sinks, state, self.last_seq, &tracker);
        let queues = Arc::new(Queues::default());
        queues.set_steering(steering);
        queues.set_drain(Queue::Steering, drain);
        queues.set_drain(Queue::FollowUp, drain);
        let running = Arc::new(Mutex::new(None));
        let disconnected = self.disconnected.child_token();
        let notes = Arc::<Notes>::default();
        let questions = Arc::<OpenQuestions>::default();
        let settings = Arc::new(SharedSettings::new(current, searches_tools, readable));
        let current = settings.get();
        let (operations, incoming) = mpsc::unbounded_channel();
        let end = self.cancel.child_token();
        let actor = Actor {
            settings: settings.clone(),
            last: current,
            hooks: self.hooks,
            approver: Arc::new(ReportingApprover {
                approver: self.approver,
                events: events.clone(),
                notes: notes.clone(),
                open: questions.clone(),
            }),
            invoked: self.invoked,
            reload_source: self.reload_source,
            transcript,
            events: events.clone(),
            queues: queues.clone(),
            redactor: Arc::new(Redactor::from_env()),
            notes,
            commits: self.commits,
            resumed_from,
            recorded: Some(recorded),
            warnings,
            unsettled: None,
            settles_on_close: self.settles_on_close,
            current: running.clone(),
            disconnected: disconnected.clone(),
            end: end.clone(),
        };
        tracker.spawn(actor.serve(incoming));
        Session {
            inner: Arc::new(Inner {
                id,
                operations,
                queues,
                settings,
                state: events.state(),
                events,
                questions,
                current: running,
                disconnected,
                tracker,
                _end: end.drop_guard(),
            }),
        }
    }
}

/// Notifies the tools of the results that the context of a resumed session has.
fn recall(registry: &Registry, items: &[ContextItem]) {
    let results = items.iter().filter_map(|item| match &item.message {
        Message::ToolResult(result) => Some((result.tool_name.clone(), item.message.text())),
        _ => None,
    });
    let results: Vec<(String, String)> = results.collect();
    let results: Vec<(&str, &str)> =
        results.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    if !results.is_empty() {
        registry.tools().for_each(|tool| tool.recall(&results));
    }
}
