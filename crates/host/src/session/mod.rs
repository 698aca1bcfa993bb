//! The one place that assembles a session.
//!
//! A session needs a project, a request and the settings.

mod config_source;
mod environment;
mod profile;
mod prompt;
pub(crate) mod status_events;
pub(crate) mod unsaved;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::store::{LoadedSession, SessionStore, StoreError};
use agent::{
    Event, EventSink, QueuedMessage, Registry, ReplayModel, RunOutcome, Session, TerminationReason, deadlines,
};
use llm::{Content, Message, UserMessage};
use parking_lot::Mutex;
use paths::AbsPath;
use policy::Policy;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tools::planner::Planner;
use workspace::RunId;

pub use config_source::{SessionConfigSource, SourceOptions};
pub use profile::profile_directory;
pub(crate) use profile::profile_names;
pub use prompt::{Focus, Subject, is_undo, planner_help};

use crate::config::{Config, EditMode};
use crate::models::{self, Chosen, ModelSelector};
use crate::project::Project;
use crate::request::{BranchReport, BranchRequest, RequestError, Stop};
use crate::scope::RequestScope;
use profile::AgentProfile;
use status_events::StatusForwarder;
use unsaved::UnsavedFiles;

/// Beginning of the system prompt of every session.
///
/// The context files and the environment follow.
pub const INSTRUCTIONS: &str = include_str!("instructions.md");

/// Name of the argument with the text to which the positions of a call belong.
pub const AS_OF: &str = "as_of";

/// The parameters of a session to open.
pub struct SessionRequest {
    pub input: Input,
    /// Sink of the events of the session.
    pub sink: Arc<dyn EventSink>,
    /// The session to continue, by id or a unique part of it.
    pub resume: Option<String>,
    /// Id of a new session; generated without one.
    pub id: Option<String>,
    /// Model instead of the configured one.
    pub model: Option<String>,
    /// Name of an agent profile.
    pub agent: Option<String>,
    /// Profile of a session for which neither the request nor its file names one.
    pub default_agent: Option<String>,
    /// The directory that the request comes from; the project's root without it.
    pub directory: Option<PathBuf>,
    /// Time that each edit of the built-in planner waits for all its diagnostics.
    pub edit_wait: Option<Duration>,
    /// Number of the event before the first one.
    pub last_seq: u64,
}

impl SessionRequest {
    /// Creates the request for a new session with the configured model.
    pub fn new(input: Input, sink: Arc<dyn EventSink>) -> Self {
        Self {
            input,
            sink,
            resume: None,
            id: None,
            model: None,
            agent: None,
            default_agent: None,
            directory: None,
            edit_wait: None,
            last_seq: 0,
        }
    }
}

/// The input with which a session starts.
pub enum Input {
    Prompt {
        text: String,
        subject: Option<Subject>,
    },
    /// One tool call that the user's own command names; no model is asked.
    ToolCall {
        tool: &'static str,
        arguments: Map<String, Value>,
        /// The text to which the positions in `arguments` belong.
        as_of: Option<(AbsPath, Arc<str>)>,
        /// The call in plain words.
        text: String,
    },
    /// No input: the session is compacted, branched, or prompted later.
    None,
}

impl Input {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Prompt { text, .. } => Some(text),
            Self::ToolCall { .. } | Self::None => None,
        }
    }

    fn subject(&self) -> Option<&Subject> {
        match self {
            Self::Prompt { subject, .. } => subject.as_ref(),
            Self::ToolCall { .. } | Self::None => None,
        }
    }

    fn is_call(&self) -> bool {
        matches!(self, Self::ToolCall { .. })
    }
}

/// An open session, with the parts of its project that it uses.
pub struct HostedSession {
    session: Session,
    scope: RequestScope,
    prompts: Vec<String>,
    /// The images of the first prompt.
    images: Vec<Content>,
    notes: Vec<String>,
    unsaved: Mutex<UnsavedFiles>,
    cancel: CancellationToken,
    source: Arc<SessionConfigSource>,
    /// Name of the agent profile.
    agent: Option<String>,
}

impl HostedSession {
    pub(crate) fn source(&self) -> &SessionConfigSource {
        &self.source
    }

    pub(crate) fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns notes about the choice of the model and the profile.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Runs the session's input.
    pub async fn run(&self, stop: Stop<'_>) -> RunOutcome {
        let run = async {
            let mut prompts = self.prompts.iter().cloned();
            let mut content = vec![Content::text(prompts.next().unwrap_or_default())];
            content.extend(self.images.iter().cloned());
            let mut outcome = self.prompt(content, stop).await;
            for prompt in prompts {
                if outcome.reason != TerminationReason::NoToolCalls {
                    break;
                }
                outcome = self.prompt(vec![Content::text(prompt)], stop).await;
            }
            outcome
        };
        self.report_status(run).await
    }

    /// Runs a message in an open session.
    pub(crate) async fn run_message(&self, message: QueuedMessage, cancel: CancellationToken) -> RunOutcome {
        // A prompt lets the agent work again.
        self.scope.context.debug.return_control().await;
        self.report_status(self.session.prompt_messages(vec![message], cancel)).await
    }

    /// Renders a prompt for the session's model, and reads the images it names. Blocks.
    ///
    /// The prompt gets its template and subject.
    ///
    /// # Errors
    /// When it names an unknown skill, or an image that no model accepts.
    pub(crate) fn render(
        &self,
        text: &str,
        subject: Option<&Subject>,
    ) -> Result<(String, Vec<Content>), RequestError> {
        let text = self.source.expand(text).map_err(RequestError::invalid)?;
        let (model, workspace) = (self.session.model(), &self.scope.project.workspace);
        let images = images_of(&self.scope, workspace.root().as_path(), &*model, &text)?;
        let is_planner = model.info().api == "planner";
        Ok((prompt::render(&text, subject, is_planner, workspace), images))
    }

    /// Waits for `run`; meanwhile, reports status changes of servers and programs.
    async fn report_status(&self, run: impl Future<Output = RunOutcome>) -> RunOutcome {
        let forwarder = StatusForwarder::start(&self.session, &self.scope.context);
        let outcome = run.await;
        forwarder.stop().await;
        if was_stopped(outcome.reason) {
            self.scope.context.debug.stop(&outcome.run, deadlines::STOPPED_PROGRAMS).await;
        }
        outcome
    }

    /// Runs one prompt.
    ///
    /// A session whose surface is gone ends as disconnected.
    async fn prompt(&self, content: Vec<Content>, stop: Stop<'_>) -> RunOutcome {
        let stopped = CancellationToken::new();
        let message = Message::User(UserMessage { content, timestamp: llm::now_ms() });
        let run = self.session.prompt_messages(vec![message], stopped.clone());
        let mut run = std::pin::pin!(run);
        tokio::select! {
            outcome = &mut run => return outcome,
            // The run continues to its end.
            () = stop.cancel.cancelled() => {}
        }
        if !stop.gone.is_cancelled() {
            stopped.cancel();
        }
        run.await
    }

    /// Lists the files that `run` changed in the editor and that are not saved.
    ///
    /// Reads the disk.
    pub fn unsaved_files(&self, run: &RunId) -> Vec<String> {
        self.unsaved.lock().files(run)
    }

    /// Reports `text` to the session's sink and into its file.
    pub async fn note(&self, text: String) {
        self.session.report(Event::Notice { level: "info".to_owned(), text }).await;
    }

    /// Closes the session, with its last entries written and its last events delivered.
    ///
    /// A stopped session waits for a slow sink for a short time only.
    pub async fn close(&self) {
        let stopped = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(deadlines::SESSION_CLOSE).await;
        };
        tokio::select! {
            // Both may be dropped: the session ends without its handle.
            _ = self.session.close(Duration::MAX) => {}
            () = stopped => tracing::warn!("a stopped session did not end in time"),
        }
        self.scope.notify_project_servers().await;
    }
}

/// Whether a run ended with a complete answer.
pub fn ended_well(outcome: &RunOutcome) -> bool {
    matches!(outcome.reason, TerminationReason::NoToolCalls | TerminationReason::TerminatedByTools)
        && outcome.error.is_none()
}

/// Whether a run was stopped from outside.
pub fn was_stopped(reason: TerminationReason) -> bool {
    matches!(reason, TerminationReason::Aborted | TerminationReason::Disconnected)
}

/// Assembles a session. Files are read on blocking threads.
pub(crate) async fn open(
    scope: &RequestScope,
    request: SessionRequest,
    stop: Stop<'_>,
) -> Result<HostedSession, RequestError> {
    let (parts, given) = (scope.clone(), Arc::new(request));
    let request = Arc::clone(&given);
    let loaded = blocking(move || load(&parts, &given)).await?;
    let asks_model = request.model.is_none() && !request.input.is_call();
    let found = if asks_model {
        models::find_local(&loaded.source.config(), &user_file(&scope.project)).await
    } else {
        None
    };
    let (parts, given) = (scope.clone(), Arc::clone(&request));
    let Assembly { loaded, chosen, prompts, images, registry, policy, notes } =
        blocking(move || assemble(&parts, &given, loaded, found)).await?;
    let Loaded { store, resumed, profile, source, .. } = loaded;
    let config = source.config();
    let builder = Session::builder(chosen.model, registry)
        .fallbacks(chosen.fallbacks)
        .summarizer(chosen.summarizer)
        .system(source.instructions())
        .cwd(scope.project.workspace.root().to_string())
        .store(store)
        .sink(Arc::clone(&request.sink))
        .policy(Arc::new(policy))
        .approver(Arc::clone(&scope.approver))
        .invoked(request.input.is_call())
        .searches_tools(config.values.tools.discovery.0)
        .queues(config.values.run.steering.0, config.values.run.queue.0)
        .limits(config_source::limits(&config))
        .settles_on_close(!matches!(request.input, Input::None))
        .last_seq(request.last_seq)
        .commits(scope.project.workspace.subscribe())
        .disconnected(stop.gone.clone())
        .reload_source(Arc::<SessionConfigSource>::clone(&source) as Arc<dyn agent::ReloadSource>);
    let builder = match (resumed, &request.id) {
        (Some(loaded), _) => builder.resume(loaded),
        (None, Some(id)) => builder.id(id),
        (None, None) => builder,
    };
    let session = match request.input {
        // A run has its own token, which knows the cause of a stop.
        Input::Prompt { .. } | Input::ToolCall { .. } => builder.build(),
        Input::None => builder.cancel(stop.cancel.clone()).build(),
    };
    profile.record(&session).await?;
    if matches!(request.input, Input::Prompt { .. }) {
        // A prompt lets the agent work again.
        scope.context.debug.return_control().await;
    }
    let unsaved = Mutex::new(UnsavedFiles::watch(&scope.project.workspace));
    let cancel = stop.cancel.clone();
    Ok(HostedSession {
        session,
        scope: scope.clone(),
        prompts,
        images,
        notes,
        unsaved,
        cancel,
        source,
        agent: profile.name,
    })
}

/// The contents of the files for a request.
struct Loaded {
    store: SessionStore,
    resumed: Option<LoadedSession>,
    /// The model that answered last, with its level of thinking.
    last_model: Option<String>,
    profile: AgentProfile,
    source: Arc<SessionConfigSource>,
    /// The files that the prompt is about.
    files: Vec<String>,
}

/// Reads the session's file, its profile and the settings. Blocks.
fn load(scope: &RequestScope, request: &SessionRequest) -> Result<Loaded, RequestError> {
    let project = &scope.project;
    let store = project.sessions()?;
    let resumed = match &request.resume {
        None => None,
        Some(id) => Some(store.load_locked(id)?),
    };
    let last_model = resumed.as_ref().filter(|_| request.model.is_none()).and_then(models::last_model);
    let default = request.default_agent.as_deref();
    let profile = AgentProfile::choose(request.agent.as_deref(), default, resumed.as_ref());
    let options = SourceOptions {
        policy: &scope.policy,
        context: &scope.context,
        agent: profile.name.as_deref(),
        cwd: request.directory.as_deref(),
    };
    let source = SessionConfigSource::new(project, options).map_err(RequestError::invalid)?;
    let place = request.input.subject().and_then(|subject| subject.path.as_ref());
    let directory = directory(scope, request);
    let files = request.input.text().map(|text| models::files_about(text, project, directory, place));
    let files = files.unwrap_or_default();
    Ok(Loaded { store, resumed, last_model, profile, source: Arc::new(source), files })
}

/// The model, prompt and settings from which a session is built.
struct Assembly {
    loaded: Loaded,
    chosen: Chosen,
    prompts: Vec<String>,
    images: Vec<Content>,
    registry: Registry,
    policy: Policy,
    notes: Vec<String>,
}

/// Chooses the model and renders the prompt. Blocks.
fn assemble(
    scope: &RequestScope,
    request: &SessionRequest,
    loaded: Loaded,
    found: Option<String>,
) -> Result<Assembly, RequestError> {
    let Loaded { source, profile, store, .. } = &loaded;
    if request.model.is_none() && !request.input.is_call() {
        source.choose_by(reload_choice(scope, request, &loaded, found.clone()));
    }
    let config = source.config();
    let selector = ModelSelector {
        project: &scope.project,
        config: &config,
        directory: directory(scope, request),
        found: found.as_deref(),
        files: &loaded.files,
    };
    let mut images = Vec::new();
    let (chosen, prompts) = match &request.input {
        Input::ToolCall { tool, arguments, as_of, text } => {
            let mut arguments = arguments.clone();
            if let Some((path, text)) = as_of {
                let tag = scope.context.record_snapshot(path, Arc::clone(text));
                arguments.insert(AS_OF.to_owned(), Value::String(tag));
            }
            let model = Arc::new(Planner::with_call(tool, arguments));
            let chosen = Chosen { model, fallbacks: Vec::new(), summarizer: None, notes: Vec::new() };
            (chosen, vec![text.clone()])
        }
        Input::Prompt { text, subject } => {
            let chosen = choose(selector, request, &loaded)?;
            let prompts = match recorded_prompts(request, store)? {
                Some(prompts) => prompts,
                None => {
                    let text = source.expand(text).map_err(RequestError::invalid)?;
                    images = images_of(scope, selector.directory, &*chosen.model, &text)?;
                    let is_planner = chosen.model.info().api == "planner";
                    if let Some(wait) = request.edit_wait.filter(|_| is_planner) {
                        scope.context.set_settings(scope.context.settings().one_shot(wait));
                    }
                    vec![prompt::render(&text, subject.as_ref(), is_planner, &scope.project.workspace)]
                }
            };
            (chosen, prompts)
        }
        Input::None => {
            let chosen = choose(selector, request, &loaded)?;
            // The model that the request names writes the summary itself.
            let summarizer = chosen.summarizer.filter(|_| request.model.is_none());
            (Chosen { summarizer, ..chosen }, Vec::new())
        }
    };
    let mut notes = chosen.notes.clone();
    notes.extend(profile.note(request.agent.as_deref()));
    if let Some(name) = found.filter(|name| *name == chosen.model.info().name()) {
        notes.push(format!("no model is set; using {name}, found on this machine"));
    }
    notes.iter().for_each(|note| source.note(note.clone()));
    let registry = source.registry()?;
    let policy = scope.policy.allowing_reads(&source.readable());
    let policy = policy.proposing(source.edits() == EditMode::Propose);
    Ok(Assembly { loaded, chosen, prompts, images, registry, policy, notes })
}

/// The images that a prompt names, if the model accepts any. Blocks.
fn images_of(
    scope: &RequestScope,
    directory: &Path,
    model: &dyn llm::Model,
    text: &str,
) -> Result<Vec<Content>, RequestError> {
    match AbsPath::new(directory).filter(|_| model.info().images) {
        None => Ok(Vec::new()),
        Some(directory) => tools::images_in_prompt(&scope.context, &directory, text)
            .map_err(|failure| RequestError::invalid(anyhow::anyhow!(failure.message))),
    }
}

/// Chooses the models that the request names, else those of the session.
fn choose(
    selector: ModelSelector<'_>,
    request: &SessionRequest,
    loaded: &Loaded,
) -> Result<Chosen, RequestError> {
    let chosen = match &request.model {
        Some(name) => selector.choose(Some(name)),
        None => selector.resume(loaded.last_model.as_deref()),
    };
    chosen.map_err(RequestError::invalid)
}

/// Returns the function that chooses the model again when the settings change.
fn reload_choice(
    scope: &RequestScope,
    request: &SessionRequest,
    loaded: &Loaded,
    found: Option<String>,
) -> config_source::ChooseModel {
    let project = Arc::clone(&scope.project);
    let directory = directory(scope, request).to_owned();
    let (files, last_model) = (loaded.files.clone(), loaded.last_model.clone());
    Box::new(move |config: &Config| {
        let selector = ModelSelector {
            project: &project,
            config,
            directory: &directory,
            found: found.as_deref(),
            files: &files,
        };
        Ok(selector.resume(last_model.as_deref())?.model)
    })
}

/// Lists the prompts of a recorded session that is replayed without another one.
fn recorded_prompts(
    request: &SessionRequest,
    store: &SessionStore,
) -> Result<Option<Vec<String>>, RequestError> {
    let id = request.model.as_deref().and_then(|name| name.strip_prefix("replay:"));
    let is_empty = request.input.text().is_some_and(|text| text.trim().is_empty());
    match id.filter(|_| is_empty) {
        Some(id) => Ok(Some(ReplayModel::new(&store.load(id)?).prompts().to_vec())),
        None => Ok(None),
    }
}

/// Continues a session from an earlier entry.
pub(crate) async fn switch_branch(
    scope: &RequestScope,
    request: BranchRequest,
    sink: Arc<dyn EventSink>,
    cancel: &CancellationToken,
) -> Result<BranchReport, RequestError> {
    let BranchRequest { session, entry, instructions, model, directory } = request;
    let store = scope.project.sessions()?;
    let reading = store.clone();
    let (id, at) = match blocking(move || branch_point(&reading, &session, &entry)).await? {
        BranchPoint::Empty(report) => return Ok(report),
        BranchPoint::Summarize { session, at } => (session, at),
    };
    let request = SessionRequest {
        resume: Some(id.clone()),
        model,
        directory,
        ..SessionRequest::new(Input::None, sink)
    };
    let stop = Stop { cancel, gone: &CancellationToken::new() };
    let hosted = open(scope, request, stop).await?;
    let switched = hosted.session.switch_with_summary(&*at, instructions).await;
    let notes = hosted.notes.clone();
    hosted.close().await;
    switched?;
    let reading = id.clone();
    let leaf = blocking(move || Ok(store.load(&reading)?.leaf().map(|entry| entry.id.clone()))).await?;
    Ok(BranchReport { session: id, at, entry: leaf.unwrap_or_default(), notes })
}

/// The entry from which a session continues, or the result.
enum BranchPoint {
    /// Nothing follows the entry, so there is nothing to summarize.
    Empty(BranchReport),
    Summarize {
        session: String,
        at: String,
    },
}

/// Finds the entry; records the branch where nothing follows it. Blocks.
fn branch_point(store: &SessionStore, session: &str, entry: &str) -> Result<BranchPoint, RequestError> {
    let no_entry = || StoreError::NoEntry { id: entry.to_owned() };
    let mut loaded = store.load_locked(session)?;
    let at = loaded.find(entry).ok_or_else(no_entry)?.id.clone();
    let id = loaded.header.id.clone();
    if !loaded.leave_for(&at).ok_or_else(no_entry)?.is_empty() {
        return Ok(BranchPoint::Summarize { session: id, at });
    }
    let notes = loaded.warnings.iter().map(ToString::to_string).collect();
    let mut file = store.reopen(&loaded);
    let entry = file.new_id();
    file.append_custom(&entry, "branch", &Value::Null)?;
    Ok(BranchPoint::Empty(BranchReport { session: id, at, entry, notes }))
}

fn directory<'a>(scope: &'a RequestScope, request: &'a SessionRequest) -> &'a Path {
    request.directory.as_deref().unwrap_or(scope.project.workspace.root().as_path())
}

fn user_file(project: &Project) -> String {
    project.homes.config.join("config.toml").to_string()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<T, RequestError> {
    tokio::task::spawn_blocking(work).await?
}
