//! The live sessions of a process, for surfaces in which a session stays open between prompts.
//!
//! Invariants: one session has one writer, which holds the lock of its file; a prompt is answered before
//! its run starts; a message is never lost between a run that ends and a queue.

mod checkpoint;
mod context;
mod live;
mod options;
mod review;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent::store::{LoadedSession, StoreError};
use agent::{Envelope, EventSink, Message, Queue};
use llm::{Content, UserMessage};
use parking_lot::Mutex;
use paths::AbsPath;
use policy::{Approver, Chosen, ErrorCode, Redactor, SandboxMode};
use tokio_util::sync::CancellationToken;

pub use checkpoint::*;
pub use review::*;
pub use types::*;

use crate::announce::ProjectHandle;
use crate::models;
use crate::project::Project;
use crate::request::{RequestError, Stop, parse_compact};
use crate::session::status_events::server_statuses;
use crate::session::{Input, SessionRequest, Subject};
use live::LiveSession;

/// Maximum number of listed sessions.
const MAX_LISTED: usize = 100;

/// The live sessions.
pub struct SessionService {
    options: ServiceOptions,
    state: Mutex<State>,
    /// Serializes openings, so that a session is opened once.
    opening: tokio::sync::Mutex<()>,
    /// Fires when the surface disconnects.
    gone: CancellationToken,
}

/// The parts of a surface that all its sessions share.
pub struct ServiceOptions {
    /// Sink of the events of all live sessions.
    pub sink: Arc<dyn EventSink>,
    /// Approver of questions instead of the project's own.
    pub approver: Option<Arc<dyn Approver>>,
    /// Profile of sessions for which neither the request nor their file names one.
    pub default_agent: Option<String>,
}

#[derive(Default)]
struct State {
    live: BTreeMap<String, Arc<LiveSession>>,
    /// Sessions that were live before.
    ended: HashMap<String, Ended>,
}

struct Ended {
    /// Number of the last event.
    seq: u64,
    /// The root of the project.
    root: AbsPath,
}

impl SessionService {
    pub fn new(options: ServiceOptions) -> Self {
        Self {
            options,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            gone: CancellationToken::new(),
        }
    }

    /// Opens a new session.
    ///
    /// # Errors
    /// When the request names what does not exist, or Pilcrow's directories cannot be used.
    pub async fn new_session(
        &self,
        request: NewSession,
        project: ProjectHandle,
    ) -> Result<SessionView, ServiceError> {
        let NewSession { model, agent, .. } = request;
        let request = SessionRequest { model, agent, ..self.request() };
        let live = self.start(Arc::new(project), request).await?;
        view(&live, None).await
    }

    /// Returns a live session, or opens a stored one of `project`.
    ///
    /// # Errors
    /// When there is no such session, another process has it open, or Pilcrow's directories cannot be used.
    pub async fn open(
        &self,
        request: OpenSession,
        project: ProjectHandle,
    ) -> Result<SessionView, ServiceError> {
        let _opening = self.opening.lock().await;
        if let Some(live) = self.find(&request.session) {
            return view(&live, request.since).await;
        }
        let id = find_stored(&project.project, request.session).await?;
        let live = match self.find(&id) {
            Some(live) => live,
            None => {
                let last_seq = self.last_seq(&id);
                let request = SessionRequest { resume: Some(id), last_seq, ..self.request() };
                self.start(Arc::new(project), request).await?
            }
        };
        view(&live, request.since).await
    }

    /// Closes a live session; its run is cancelled.
    ///
    /// # Errors
    /// When the session is not live.
    pub async fn close(&self, session: &str) -> Result<Done, ServiceError> {
        let _opening = self.opening.lock().await;
        let live = self.live(session)?;
        self.end(&live).await;
        Ok(Done {})
    }

    /// Lists the sessions of a project, the last active first.
    ///
    /// A session without a message is not listed.
    ///
    /// # Errors
    /// When the sessions cannot be read.
    pub async fn list(&self, project: &Project) -> Result<SessionList, ServiceError> {
        let store = project.sessions()?;
        let stored = tokio::task::spawn_blocking(move || store.list()).await??;
        let listed = stored.into_iter().take(MAX_LISTED).map(|stored| {
            let live = self.find(&stored.id);
            ListedSession {
                running: live.as_ref().is_some_and(|live| live.is_running()),
                live: live.is_some(),
                session: stored.id,
                title: stored.title,
                messages: stored.messages,
                last_active: stored.last_active,
                parent: stored.parent_session,
            }
        });
        Ok(SessionList { sessions: listed.collect() })
    }

    /// Starts a run with a message, or queues it for the current run.
    ///
    /// Blocks while it reads images and sessions that the prompt names, so that messages keep the order of the
    /// calls.
    ///
    /// # Errors
    /// When the session is not live, or the text is empty, or names an unknown skill or an image that is too large.
    pub fn prompt(
        &self,
        request: &PromptParams,
        subject: Option<&Subject>,
    ) -> Result<PromptAck, ServiceError> {
        let live = self.live(&request.session)?;
        if request.text.trim().is_empty() {
            return Err(ServiceError::new(ErrorCode::InvalidArguments, "the prompt is empty; send a text"));
        }
        if let Some(wishes) = parse_compact(&request.text) {
            return Ok(live.compact(wishes));
        }
        let (text, mut images) = live.hosted.render(&request.text, subject)?;
        let model = live.session().model();
        if !request.images.is_empty() && !model.info().images {
            let message =
                format!("{} accepts no images; choose another model or send the text alone", model.info().id);
            return Err(ServiceError::new(ErrorCode::Unsupported, message));
        }
        for (at, data) in request.images.iter().enumerate() {
            let image = tools::pasted_image(&format!("image {}", at + 1), data);
            images.push(image.map_err(|failure| ServiceError::new(failure.code, failure.message))?);
        }
        let project = &live.project.project;
        let load = |id: &str| Ok(project.sessions()?.load(id)?);
        let text = context::with_links(&text, &request.context, &project.workspace, load)?;
        live.deliver(message(text, images).into(), request.delivery)
    }

    /// Changes, moves or sends a queued message.
    ///
    /// # Errors
    /// When the session is not live, or a message is not queued any more.
    pub async fn edit_queue(&self, edit: QueueEdit) -> Result<Done, ServiceError> {
        let QueueEdit { session, message_id, text, delivery, before } = edit;
        let live = self.live(&session)?;
        let text = text.map(|text| live.hosted.render(&text, None)).transpose()?;
        let message = text.map(|(text, images)| message(text, images));
        let queue = match delivery {
            None => None,
            Some(DeliveryMode::Queue) => Some(Queue::FollowUp),
            Some(DeliveryMode::Steer) => Some(Queue::Steering),
            Some(DeliveryMode::Interrupt) => {
                let removed = live.session().unqueue(&message_id).await;
                let (_, mut queued) = removed.ok_or_else(|| not_queued(&message_id))?;
                queued.message = message.unwrap_or(queued.message);
                return live.deliver(queued, DeliveryMode::Interrupt).map(|_| Done {});
            }
        };
        let edited = live.session().edit_queued(&message_id, message, queue, before.as_deref()).await;
        let is_queued = || live.session().queued_texts().iter().any(|it| it.message_id == message_id);
        match before {
            _ if edited => Ok(Done {}),
            Some(before) if is_queued() => Err(ServiceError::new(
                ErrorCode::NotFound,
                format!("message {before:?} is not queued; use another `before`"),
            )),
            _ => Err(not_queued(&message_id)),
        }
    }

    /// Removes a queued message; returns its text.
    ///
    /// # Errors
    /// When the session is not live, or the message is not queued any more.
    pub async fn remove_queued(&self, request: &QueueRemove) -> Result<RemovedMessage, ServiceError> {
        let removed = self.live(&request.session)?.session().unqueue(&request.message_id).await;
        let (_, queued) = removed.ok_or_else(|| not_queued(&request.message_id))?;
        Ok(RemovedMessage { text: queued.message.text() })
    }

    /// Answers a permission question of a live session.
    ///
    /// # Errors
    /// When the question is not open, or does not offer the answer.
    pub fn answer_permission(&self, request: PermissionParams) -> Result<Done, ServiceError> {
        let PermissionParams { session, request_id, answer, text } = request;
        let live = self.live(&session)?;
        let answered = live.session().answer_permission(&request_id, answer, text.unwrap_or_default());
        let hint = ", or does not offer this answer; use one of its `answers`";
        if answered { Ok(Done {}) } else { Err(not_open(&request_id, hint)) }
    }

    /// Answers a question of the agent.
    ///
    /// # Errors
    /// When the question is not open.
    pub fn answer_input(&self, request: InputParams) -> Result<Done, ServiceError> {
        let InputParams { session, request_id, answer } = request;
        let chosen = answer.map_or(Chosen::Dismissed, Chosen::Said);
        let answered = self.live(&session)?.session().answer_input(&request_id, chosen);
        if answered { Ok(Done {}) } else { Err(not_open(&request_id, "")) }
    }

    /// Sets an option; the model and the like apply from the next turn on.
    ///
    /// # Errors
    /// When the option or its value is unknown, or a session that runs gets another profile.
    pub async fn set_option(&self, request: SetOption) -> Result<SessionOptions, ServiceError> {
        let SetOption { session, option, value } = request;
        let mut live = self.live(&session)?;
        if option == "agent" {
            live = self.set_agent(&live, value).await?;
        } else {
            let target = Arc::clone(&live);
            let set = move || {
                let LiveSession { hosted, project, .. } = &*target;
                options::set(&project.project, hosted.session(), hosted.source(), &option, &value)
            };
            tokio::task::spawn_blocking(set).await??;
        }
        Ok(SessionOptions { options: list_options(&live).await? })
    }

    /// Opens the session again with another profile.
    ///
    /// The mode, the edit mode and the thinking level stay.
    async fn set_agent(
        &self,
        live: &Arc<LiveSession>,
        name: String,
    ) -> Result<Arc<LiveSession>, ServiceError> {
        let _opening = self.opening.lock().await;
        let held = live.hold().await.filter(|held| held.session().queued_texts().is_empty());
        if held.is_none() {
            let message = "the session runs or has queued messages; set the profile when it is idle";
            return Err(ServiceError::new(ErrorCode::WrongState, message));
        }
        crate::session::profile_directory(&live.project.project.homes, &name)
            .map_err(|error| ServiceError::new(ErrorCode::InvalidArguments, error.to_string()))?;
        let id = live.id().to_owned();
        let before = live.hosted.agent().map(str::to_owned);
        let (mode, edits) = (live.hosted.source().mode(), live.hosted.source().edits());
        let thinking = live.session().thinking_level();
        self.end(live).await;
        drop(held);
        let stored = load(&live.project.project, id.clone()).await?.is_some();
        let (resume, id) = if stored { (Some(id), None) } else { (None, Some(id)) };
        let last_seq = self.last_seq(live.id());
        let request = |agent| SessionRequest {
            resume: resume.clone(),
            id: id.clone(),
            last_seq,
            agent,
            ..self.request()
        };
        let started = self.start(Arc::clone(&live.project), request(Some(name))).await;
        let (opened, error) = match started {
            Ok(opened) => (opened, None),
            Err(error) => (self.start(Arc::clone(&live.project), request(before)).await?, Some(error)),
        };
        opened.session().set_thinking_level(thinking);
        opened.hosted.source().set_mode(mode);
        opened.session().set_policy(&opened.hosted.source().set_edits(edits));
        error.map_or(Ok(opened), Err)
    }

    /// Forks a stored session, and opens the fork.
    ///
    /// # Errors
    /// When there is no such session or message, or Pilcrow's directories cannot be used.
    pub async fn fork(
        &self,
        request: ForkSession,
        project: ProjectHandle,
    ) -> Result<SessionView, ServiceError> {
        let store = project.project.sessions()?;
        let cwd = project.project.workspace.root().to_string();
        let fork = move || {
            let loaded = store.load(&request.session)?;
            store.fork(&loaded, request.message_id.as_deref(), &cwd)
        };
        let id = tokio::task::spawn_blocking(fork).await??;
        let request = SessionRequest { resume: Some(id), ..self.request() };
        let live = self.start(Arc::new(project), request).await?;
        view(&live, None).await
    }

    /// Sets the title of a live or stored session.
    ///
    /// # Errors
    /// When there is no such session, or another process has it open.
    pub async fn rename(&self, request: RenameSession, project: &Project) -> Result<Done, ServiceError> {
        let _opening = self.opening.lock().await;
        let RenameSession { session, title, .. } = request;
        if let Some(live) = self.find(&session) {
            live.session().set_name(title).await.map_err(RequestError::from)?;
            return Ok(Done {});
        }
        let store = project.sessions()?;
        let rename = move || {
            let loaded = store.load_locked(&session)?;
            store.reopen(&loaded).append_name(&title)
        };
        tokio::task::spawn_blocking(rename).await??;
        Ok(Done {})
    }

    /// Closes and deletes a session.
    ///
    /// # Errors
    /// When there is no such session, another process has it open, or it has proposed edits.
    pub async fn delete(&self, request: DeleteSession, project: &Project) -> Result<Done, ServiceError> {
        let _opening = self.opening.lock().await;
        let (store, workspace) = (project.sessions()?, project.workspace.clone());
        let (id, checked) = (request.session.clone(), store.clone());
        let open = move || crate::project::open_proposals(&checked, &workspace, &id);
        if let Some(message) = tokio::task::spawn_blocking(open).await? {
            return Err(ServiceError::new(ErrorCode::WrongState, message));
        }
        let was_live = self.find(&request.session);
        if let Some(live) = &was_live {
            self.end(live).await;
        }
        match tokio::task::spawn_blocking(move || store.delete(&request.session)).await? {
            // A live session without an entry has no file.
            Err(StoreError::NotFound { .. }) if was_live.is_some() => Ok(Done {}),
            deleted => Ok(deleted.map(|_| Done {})?),
        }
    }

    /// Completes the links of a prompt.
    ///
    /// # Errors
    /// When the search fails.
    pub async fn complete_context(
        &self,
        request: CompleteContext,
        project: &Project,
    ) -> Result<ContextItems, ServiceError> {
        let workspace = project.workspace.clone();
        let sessions = self.list(project).await?.sessions;
        let CompleteContext { query, focus, .. } = request;
        let complete = move || context::complete(&workspace, &query, focus.as_ref(), &sessions);
        Ok(ContextItems { items: tokio::task::spawn_blocking(complete).await? })
    }

    /// Reports the state of a project's servers and sandbox, and of a live session.
    ///
    /// # Errors
    /// When the session is not live.
    pub async fn status(&self, session: Option<&str>, project: &Project) -> Result<StatusView, ServiceError> {
        let session = match session {
            None => None,
            Some(id) => {
                let live = self.live(id)?;
                let loaded = load(&live.project.project, live.id().to_owned()).await?;
                let answer = loaded.as_ref().and_then(LoadedSession::last_answer);
                let model = live.session().model();
                Some(SessionStatus {
                    running: live.is_running(),
                    model: models::name_of(model.info()),
                    context_used: answer.map_or(0, |answer| answer.usage.total_tokens),
                    context_size: model.info().context_window,
                    usage: loaded.map(|loaded| loaded.usage()).unwrap_or_default(),
                })
            }
        };
        let servers = server_statuses(&project.servers).await.into_iter();
        let servers =
            servers.map(|((name, root), (state, detail))| ServerView { name, root, state, detail }).collect();
        let sandbox = match project.policy.sandbox_mode() {
            SandboxMode::Off => "off".to_owned(),
            _ => project.processes.sandbox().await.level.name().to_owned(),
        };
        Ok(StatusView { session, servers, sandbox })
    }

    /// Cancels the run of a session; queued messages stay.
    ///
    /// # Errors
    /// When the session is not live.
    pub fn cancel(&self, session: &str) -> Result<Cancelled, ServiceError> {
        Ok(Cancelled { cancelled: self.live(session)?.cancel() })
    }

    /// The ids of the live sessions.
    pub fn live_ids(&self) -> Vec<String> {
        self.state.lock().live.keys().cloned().collect()
    }

    /// Whether a session is live.
    pub fn is_live(&self, session: &str) -> bool {
        self.find(session).is_some()
    }

    /// The root of the project of a session that is or was live.
    pub fn root_of(&self, session: &str) -> Option<AbsPath> {
        let state = self.state.lock();
        let live = state.live.get(session).map(|live| live.project.project.workspace.root());
        live.or_else(|| Some(&state.ended.get(session)?.root)).cloned()
    }

    /// Ends all sessions as disconnected. They can be opened again.
    pub async fn shut_down(&self, deadline: Duration) {
        self.gone.cancel();
        let live: Vec<Arc<LiveSession>> = self.state.lock().live.values().cloned().collect();
        let ends = futures_util::future::join_all(live.iter().map(|live| self.end(live)));
        if tokio::time::timeout(deadline, ends).await.is_err() {
            tracing::warn!("a session did not end in time");
        }
    }

    async fn end(&self, live: &Arc<LiveSession>) {
        let seq = live.close().await;
        let mut state = self.state.lock();
        state.live.remove(live.id());
        let root = live.project.project.workspace.root().clone();
        state.ended.insert(live.id().to_owned(), Ended { seq, root });
    }

    fn request(&self) -> SessionRequest {
        SessionRequest {
            default_agent: self.options.default_agent.clone(),
            ..SessionRequest::new(Input::None, Arc::clone(&self.options.sink))
        }
    }

    async fn start(
        &self,
        project: Arc<ProjectHandle>,
        request: SessionRequest,
    ) -> Result<Arc<LiveSession>, ServiceError> {
        let cancel = CancellationToken::new();
        let stop = Stop { cancel: &cancel, gone: &self.gone };
        let mut scope = project.project.scope();
        if let Some(approver) = &self.options.approver {
            scope = scope.asking(Arc::clone(approver));
        }
        let hosted = scope.open_session(request, stop).await?;
        for note in hosted.notes() {
            hosted.note(note.clone()).await;
        }
        let live = LiveSession::new(hosted, project);
        self.state.lock().live.insert(live.id().to_owned(), Arc::clone(&live));
        Ok(live)
    }

    /// The number of the last event of a closed session.
    fn last_seq(&self, session: &str) -> u64 {
        self.state.lock().ended.get(session).map_or(0, |ended| ended.seq)
    }

    fn find(&self, session: &str) -> Option<Arc<LiveSession>> {
        self.state.lock().live.get(session).cloned()
    }

    fn live(&self, session: &str) -> Result<Arc<LiveSession>, ServiceError> {
        self.find(session).ok_or_else(|| ServiceError::not_live(session))
    }
}

/// A message of the user, with the images that it names.
fn message(text: String, images: Vec<Content>) -> Message {
    let content = std::iter::once(Content::text(text)).chain(images).collect();
    Message::User(UserMessage { content, timestamp: llm::now_ms() })
}

fn not_queued(message_id: &str) -> ServiceError {
    ServiceError::new(ErrorCode::NotFound, format!("message {message_id:?} is not queued"))
}

fn not_open(request_id: &str, hint: &str) -> ServiceError {
    ServiceError::new(ErrorCode::NotFound, format!("question {request_id:?} is not open{hint}"))
}

/// The options of a live session.
async fn list_options(live: &Arc<LiveSession>) -> Result<Vec<ConfigOption>, ServiceError> {
    let live = Arc::clone(live);
    let list = move || {
        let LiveSession { hosted, project, .. } = &*live;
        options::all(&project.project, hosted.session(), hosted.source(), hosted.agent())
    };
    Ok(tokio::task::spawn_blocking(list).await?)
}

/// Finds the full id of a stored session.
async fn find_stored(project: &Project, id: String) -> Result<String, ServiceError> {
    let store = project.sessions()?;
    Ok(tokio::task::spawn_blocking(move || store.find(&id)).await??)
}

/// The events after `since`, or the whole state.
async fn view(live: &Arc<LiveSession>, since: Option<u64>) -> Result<SessionView, ServiceError> {
    let session = live.hosted.session();
    let closed = || ServiceError::not_live(live.id());
    let replay = session.replay(since).await.ok_or_else(closed)?;
    let events =
        replay.missed.map(|missed| missed.iter().map(|envelope| Envelope::clone(envelope)).collect());
    let state = match events {
        Some(_) => None,
        None => {
            let loaded = load(&live.project.project, live.id().to_owned()).await?;
            let state = replay.state;
            let partial = state.partial().map(|(message_id, message)| StoredMessage {
                message_id,
                message: Message::Assistant(message),
            });
            let redactor = Redactor::from_env();
            Some(StateView {
                title: loaded.as_ref().map(LoadedSession::title).unwrap_or_default(),
                running: live.is_running(),
                compacting: state.compacting,
                model: models::name_of(session.model().info()),
                messages: loaded.as_ref().map(messages).unwrap_or_default(),
                partial: partial.map(|partial| agent::redacted(&redactor, &partial).unwrap_or(partial)),
                pending_calls: state.pending_calls,
                queue: agent::redacted(&redactor, &state.queue).unwrap_or(state.queue),
                plan: agent::redacted(&redactor, &state.plan).unwrap_or(state.plan),
                questions: agent::redacted(&redactor, &state.questions).unwrap_or(state.questions),
                error: state.error,
            })
        }
    };
    Ok(SessionView {
        session: live.id().to_owned(),
        cwd: live.project.project.workspace.root().to_string(),
        seq: replay.seq,
        events,
        state,
        options: list_options(live).await?,
    })
}

/// Reads a session's file; `None` before its first entry.
async fn load(project: &Project, id: String) -> Result<Option<LoadedSession>, ServiceError> {
    let store = project.sessions()?;
    match tokio::task::spawn_blocking(move || store.load(&id)).await? {
        Ok(loaded) => Ok(Some(loaded)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The messages on the selected path, with those that a compaction replaced.
fn messages(loaded: &LoadedSession) -> Vec<StoredMessage> {
    let message = |entry: &&agent::store::Entry| {
        let message = loaded.body(entry).ok()?.message(0)?;
        Some(StoredMessage { message_id: entry.id.clone(), message })
    };
    loaded.path().iter().filter_map(message).collect()
}
