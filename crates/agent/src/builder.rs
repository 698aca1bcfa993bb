//! What a session is made of.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use llm::{Model, ThinkingLevel};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Approver, Commit, Nobody, Policy, Redactor};

use crate::actor::Actor;
use crate::cx::Notes;
use crate::discovery::Toolset;
use crate::embedding::{AgentDirectory, ModelRegistry, SessionSettings};
use crate::emitter::Emitter;
use crate::event::EventSink;
use crate::hooks::{Hooks, NoHooks};
use crate::queues::{Drain, Queue, Queues, Steering};
use crate::registry::{Registry, RegistryError};
use crate::run::{Had, Limits};
use crate::session::{Inner, Session};
use crate::settings::{Current, Settings};
use crate::state::SessionState;
use crate::store::{LoadedSession, NewSession, SessionFile, SessionStore};
use crate::surroundings::Surroundings;
use crate::told::ToldApprover;
use crate::tool::Tool;
use crate::transcript::Transcript;

/// What a session is made of.
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
    settings: SessionSettings,
    agent: Option<AgentDirectory>,
    models: ModelRegistry,
    id: Option<String>,
    invoked: bool,
    surroundings: Option<Arc<dyn Surroundings>>,
    commits: Option<broadcast::Receiver<Arc<Commit>>>,
    disconnected: CancellationToken,
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
            approver: Arc::new(Nobody),
            hooks: Arc::new(NoHooks),
            cancel: CancellationToken::new(),
            settings: SessionSettings::default(),
            agent: None,
            models: ModelRegistry::default(),
            id: None,
            invoked: false,
            surroundings: None,
            commits: None,
            disconnected: CancellationToken::new(),
        }
    }

    /// The instructions.
    pub fn system(self, system: impl Into<String>) -> Self {
        SessionBuilder { instructions: system.into(), ..self }
    }

    /// Models to go on with when the first one fails, in order.
    pub fn fallbacks(self, models: impl IntoIterator<Item = Arc<dyn Model>>) -> Self {
        SessionBuilder { fallbacks: models.into_iter().collect(), ..self }
    }

    /// Another model that puts the conversation into fewer words; where it fails, the session's own does.
    pub fn summarizer(self, model: Option<Arc<dyn Model>>) -> Self {
        SessionBuilder { summarizer: model, ..self }
    }

    /// How much the model is asked to think; its own default otherwise.
    pub fn thinking_level(self, level: ThinkingLevel) -> Self {
        SessionBuilder { thinking_level: Some(level), ..self }
    }

    /// One more tool. `Err` when its name is taken.
    pub fn tool(mut self, tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        self.tools.add(tool)?;
        Ok(self)
    }

    /// The working directory, as the session's file shows it. Where tools work is theirs: each is given its workspace when it is made.
    pub fn cwd(self, cwd: impl Into<String>) -> Self {
        SessionBuilder { cwd: cwd.into(), ..self }
    }

    /// Where the session is kept.
    pub fn store(self, store: SessionStore) -> Self {
        SessionBuilder { store: Some(store), ..self }
    }

    /// Goes on with a session that was loaded: its id, its transcript to the selected entry, and its file if a store is given.
    pub fn resume(self, session: LoadedSession) -> Self {
        SessionBuilder { resume: Some(session), ..self }
    }

    /// The session that a new one came from, and the entry where it did, as its file shows them. Nothing is inherited: see
    /// [`SessionStore::fork`] for that.
    pub fn parent(self, session: impl Into<String>, branch_point: Option<String>) -> Self {
        SessionBuilder { parent: Some((session.into(), branch_point)), ..self }
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
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// All settings at once; those that are set one by one after it count over it.
    pub fn settings(self, settings: SessionSettings) -> Self {
        SessionBuilder { settings, ..self }
    }

    /// The folder of an agent: its words, its tools and what it may read count over the settings.
    pub fn agent_directory(self, agent: AgentDirectory) -> Self {
        SessionBuilder { agent: Some(agent), ..self }
    }

    /// The models that can be chosen by name; a resumed session goes on with the one of them that it had.
    pub fn models(self, models: ModelRegistry) -> Self {
        SessionBuilder { models, ..self }
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
    pub fn searches_tools(mut self, searches: bool) -> Self {
        self.settings.searches_tools = searches;
        self
    }

    /// How steering and follow-ups are delivered; [`Session::set_steering`] and [`Session::set_drain`] change it later.
    pub fn queues(mut self, steering: Steering, drain: Drain) -> Self {
        self.settings.steering = steering;
        self.settings.drain = drain;
        self
    }

    /// What may change outside of the session while it lives, looked at before each turn.
    pub fn surroundings(self, surroundings: Arc<dyn Surroundings>) -> Self {
        SessionBuilder { surroundings: Some(surroundings), ..self }
    }

    /// What is committed in the workspace: those of a run are told as events of it.
    pub fn commits(self, commits: broadcast::Receiver<Arc<Commit>>) -> Self {
        SessionBuilder { commits: Some(commits), ..self }
    }

    /// Says that the surface went away, as [`Session::disconnect`] does.
    pub fn disconnected(self, disconnected: CancellationToken) -> Self {
        SessionBuilder { disconnected, ..self }
    }

    /// Starts the session's task in the current tokio runtime. Writes nothing yet: the file begins with the first message.
    pub fn build(mut self) -> Session {
        if let Some(agent) = &self.agent {
            agent.lay_over(&mut self.settings);
            self.instructions = agent.instructions(&self.instructions);
        }
        let SessionSettings { limits, searches_tools, tools: filter, steering, drain, sync } = self.settings;
        self.tools = filter.sifted(&self.tools);
        if sync {
            self.store = self.store.map(|store| store.sync(true));
        }
        let had = self.resume.as_ref().map(LoadedSession::last_settings).unwrap_or_default();
        let had = Had { model: had.0, thinking_level: had.1 };
        let known =
            had.model.as_ref().and_then(|(provider, id)| self.models.find(&format!("{provider}/{id}")));
        self.model = known.cloned().unwrap_or(self.model);
        let resumed_from = self.resume.as_ref().map(|loaded| loaded.file.clone());
        let (id, items) = match &self.resume {
            Some(loaded) => (loaded.header.id.clone(), loaded.context_items()),
            None => (self.id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()), Vec::new()),
        };
        let registry = Arc::new(self.tools);
        let tools = if searches_tools { Toolset::searched(registry) } else { Toolset::whole(registry) };
        let mut thinking_level = self.thinking_level;
        if let Some(loaded) = &self.resume {
            tools.activate(loaded.activated().iter().map(String::as_str));
            // The file knows them.
            tools.take_new();
            thinking_level = thinking_level.or(had.thinking_level);
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
        // What a result was cut of is read there.
        let outputs = file.as_ref().map(SessionFile::outputs);
        let readable = outputs.into_iter().chain(self.agent.as_ref().and_then(AgentDirectory::resources));
        let readable = readable.collect();
        let transcript = Transcript::new(items, file);
        let tracker = TaskTracker::new();
        let mut state = SessionState::default();
        state.instructions.clone_from(&self.instructions);
        state.model.clone_from(&self.model.info().id);
        state.thinking_level = thinking_level;
        state.tools = tools.active();
        state.messages = transcript.messages().clone();
        let current = Current {
            model: self.model,
            fallbacks: self.fallbacks,
            summarizer: self.summarizer,
            thinking_level,
            instructions: self.instructions,
            tools: Arc::new(tools),
            limits,
            policy: self.policy,
        };
        let events = Emitter::start(id.clone(), self.sinks, state, &tracker);
        let queues = Arc::new(Queues::default());
        queues.set_steering(steering);
        queues.set_drain(Queue::Steering, drain);
        queues.set_drain(Queue::FollowUp, drain);
        let running = Arc::new(Mutex::new(None));
        let disconnected = self.disconnected.child_token();
        let notes = Arc::<Notes>::default();
        let settings = Arc::new(Settings::new(current, searches_tools, readable));
        let current = settings.get();
        let (operations, incoming) = mpsc::unbounded_channel();
        let end = self.cancel.child_token();
        let actor = Actor {
            settings: settings.clone(),
            last: current,
            hooks: self.hooks,
            approver: Arc::new(ToldApprover {
                approver: self.approver,
                events: events.clone(),
                notes: notes.clone(),
            }),
            invoked: self.invoked,
            surroundings: self.surroundings,
            transcript,
            events: events.clone(),
            queues: queues.clone(),
            redactor: Arc::new(Redactor::from_env()),
            notes,
            commits: self.commits,
            resumed_from,
            had: Some(had),
            warnings,
            unsettled: None,
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
                models: self.models,
                state: events.state(),
                events,
                current: running,
                disconnected,
                tracker,
                _end: end.drop_guard(),
            }),
        }
    }
}
