//! The live sessions of a process, for surfaces in which a session stays open between prompts.
//!
//! Invariants: one session has one writer, which holds the lock of its file; a prompt is answered before
//! its run starts; a message is never lost between a run that ends and a queue.

mod live;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent::store::{LoadedSession, StoreError};
use agent::{Envelope, EventSink, Message, Queue};
use parking_lot::Mutex;
use policy::{ErrorCode, Redactor};
use tokio_util::sync::CancellationToken;

pub use types::*;

use crate::announce::ProjectHandle;
use crate::project::Project;
use crate::request::{Stop, parse_compact};
use crate::session::{Input, SessionRequest, Subject};
use live::Live;

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
    /// Profile of sessions for which neither the request nor their file names one.
    pub default_agent: Option<String>,
}

#[derive(Default)]
struct State {
    live: BTreeMap<String, Arc<Live>>,
    /// Number of the last event of each closed session.
    ended: HashMap<String, u64>,
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
    /// When the request names what does not exist, or a directory of Pilcrow fails.
    pub async fn create(
        &self,
        request: NewSession,
        project: ProjectHandle,
    ) -> Result<SessionView, ServiceError> {
        let NewSession { model, agent, .. } = request;
        let request = SessionRequest { model, agent, ..self.request() };
        let live = self.start(project, request).await?;
        view(&live, None).await
    }

    /// Returns a live session, or opens a stored one of `project`.
    ///
    /// # Errors
    /// When there is no such session, another process has it open, or a directory of Pilcrow fails.
    pub async fn open(
        &self,
        request: OpenSession,
        project: impl Future<Output = Result<ProjectHandle, ServiceError>>,
    ) -> Result<SessionView, ServiceError> {
        let _opening = self.opening.lock().await;
        if let Some(live) = self.find(&request.session) {
            return view(&live, request.since).await;
        }
        let project = project.await?;
        let id = find_stored(&project.project, request.session).await?;
        let live = match self.find(&id) {
            Some(live) => live,
            None => {
                let seq = self.state.lock().ended.get(&id).copied().unwrap_or_default();
                let request = SessionRequest { resume: Some(id), seq, ..self.request() };
                self.start(project, request).await?
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
    /// Neither waits nor blocks, so that messages keep the order of the calls.
    ///
    /// # Errors
    /// When the session is not live, or the text is empty or names an unknown skill.
    pub fn prompt(
        &self,
        request: &PromptParams,
        subject: Option<&Subject>,
    ) -> Result<PromptAck, ServiceError> {
        let live = self.live(&request.session)?;
        if request.text.trim().is_empty() {
            return Err(ServiceError::new(ErrorCode::InvalidArguments, "a prompt needs a text"));
        }
        if let Some(wishes) = parse_compact(&request.text) {
            return Ok(live.compact(wishes));
        }
        let text = live.hosted.render(&request.text, subject)?;
        Ok(live.prompt(&text, request.mode))
    }

    /// Changes, moves or sends a queued message.
    ///
    /// # Errors
    /// When the session is not live, or a message is not queued any more.
    pub async fn edit_queue(&self, edit: QueueEdit) -> Result<Done, ServiceError> {
        let QueueEdit { session, message_id, text, mode, before } = edit;
        let live = self.live(&session)?;
        let text = text.map(|text| live.hosted.render(&text, None)).transpose()?;
        let message = text.map(Message::user);
        let queue = match mode {
            None => None,
            Some(DeliveryMode::Queue) => Some(Queue::FollowUp),
            Some(DeliveryMode::Steer) => Some(Queue::Steering),
            Some(DeliveryMode::Interrupt) => {
                let removed = live.session().unqueue(&message_id).await;
                let (_, mut queued) = removed.ok_or_else(|| not_queued(&message_id))?;
                queued.message = message.unwrap_or(queued.message);
                live.deliver(queued, DeliveryMode::Interrupt);
                return Ok(Done {});
            }
        };
        let edited = live.session().edit_queued(&message_id, message, queue, before.as_deref()).await;
        if edited { Ok(Done {}) } else { Err(not_queued(&message_id)) }
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

    /// Ends all sessions as disconnected. They can be opened again.
    pub async fn shut_down(&self, deadline: Duration) {
        self.gone.cancel();
        let live: Vec<Arc<Live>> = self.state.lock().live.values().cloned().collect();
        let ends = futures_util::future::join_all(live.iter().map(|live| self.end(live)));
        if tokio::time::timeout(deadline, ends).await.is_err() {
            tracing::warn!("a session did not end in time");
        }
    }

    async fn end(&self, live: &Arc<Live>) {
        let seq = live.close().await;
        let mut state = self.state.lock();
        state.live.remove(live.id());
        state.ended.insert(live.id().to_owned(), seq);
    }

    fn request(&self) -> SessionRequest {
        SessionRequest {
            default_agent: self.options.default_agent.clone(),
            ..SessionRequest::new(Input::None, Arc::clone(&self.options.sink))
        }
    }

    async fn start(
        &self,
        project: ProjectHandle,
        request: SessionRequest,
    ) -> Result<Arc<Live>, ServiceError> {
        let cancel = CancellationToken::new();
        let stop = Stop { cancel: &cancel, gone: &self.gone };
        let hosted = project.project.scope().open_session(request, stop).await?;
        for note in hosted.notes() {
            hosted.note(note.clone()).await;
        }
        let live = Live::new(hosted, project);
        self.state.lock().live.insert(live.id().to_owned(), Arc::clone(&live));
        Ok(live)
    }

    fn find(&self, session: &str) -> Option<Arc<Live>> {
        self.state.lock().live.get(session).cloned()
    }

    fn live(&self, session: &str) -> Result<Arc<Live>, ServiceError> {
        self.find(session).ok_or_else(|| ServiceError::not_live(session))
    }
}

fn not_queued(message_id: &str) -> ServiceError {
    ServiceError::new(
        ErrorCode::NotFound,
        format!("message {message_id:?}, or the one it is placed before, is not queued any more"),
    )
}

/// Finds the full id of a stored session.
async fn find_stored(project: &Project, id: String) -> Result<String, ServiceError> {
    let store = project.sessions()?;
    Ok(tokio::task::spawn_blocking(move || store.find(&id)).await??)
}

/// The events after `since`, or the whole state.
async fn view(live: &Live, since: Option<u64>) -> Result<SessionView, ServiceError> {
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
                model: session.model().info().name(),
                messages: loaded.as_ref().map(messages).unwrap_or_default(),
                partial: partial.map(|partial| agent::redacted(&redactor, &partial).unwrap_or(partial)),
                pending_calls: state.pending_calls,
                queue: agent::redacted(&redactor, &state.queue).unwrap_or(state.queue),
                plan: agent::redacted(&redactor, &state.plan).unwrap_or(state.plan),
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
