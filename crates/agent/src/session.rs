//! A session: one transcript, one run at a time. One task owns the transcript and serves operations strictly in the
//! order they were asked for; a failing one does not stop the next. Sessions are independent of each other.
//!
//! Dropping every handle cancels the run and ends the task; [`Session::close`] waits for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use llm::{Content, Message, Model, ThinkingLevel, UserMessage};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::actor::{Operation, outcome_without_run};
use crate::builder::SessionBuilder;
use crate::embedding::ModelRegistry;
use crate::emitter::{Attached, Emitter};
use crate::event::{Event, EventSink, TerminationReason};
use crate::queues::{Drain, Queue, Queues, Steering};
use crate::registry::Registry;
use crate::run::RunOutcome;
use crate::settings::Settings;
use crate::state::SessionState;
use crate::store::StoreError;

/// A handle to a session; cheap to clone.
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub id: String,
    pub operations: mpsc::UnboundedSender<Operation>,
    pub queues: Arc<Queues>,
    pub settings: Arc<Settings>,
    pub models: ModelRegistry,
    pub events: Emitter,
    pub state: watch::Receiver<SessionState>,
    /// Cancels the run that is going on, if any.
    pub current: Arc<Mutex<Option<CancellationToken>>>,
    pub disconnected: CancellationToken,
    pub tracker: TaskTracker,
    pub _end: DropGuard,
}

/// What a run begins with: text, text with pictures, one message or several.
#[derive(Debug, Clone)]
pub struct Prompt(pub Vec<Message>);

impl From<&str> for Prompt {
    fn from(text: &str) -> Prompt {
        Prompt(vec![Message::user(text)])
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Prompt {
        Prompt(vec![Message::user(text)])
    }
}

impl From<Message> for Prompt {
    fn from(message: Message) -> Prompt {
        Prompt(vec![message])
    }
}

impl From<Vec<Message>> for Prompt {
    fn from(messages: Vec<Message>) -> Prompt {
        Prompt(messages)
    }
}

impl Prompt {
    /// Text with pictures, each as base64 and its type (`image/png`).
    pub fn with_images(
        text: impl Into<String>,
        images: impl IntoIterator<Item = (String, String)>,
    ) -> Prompt {
        let images = images.into_iter().map(|(data, mime_type)| Content::Image { data, mime_type });
        let content = std::iter::once(Content::text(text)).chain(images).collect();
        Prompt(vec![Message::User(UserMessage { content, timestamp: llm::now_ms() })])
    }
}

/// Why a session cannot go on without a prompt, or from where it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Nothing was said yet.
    #[error("there is nothing to continue: the transcript is empty; send a prompt")]
    Empty,
    /// The model has the last word and nothing waits.
    #[error("cannot continue from an answer of the model with nothing queued; send a prompt")]
    Answered,
    /// No model has this name.
    #[error("there is no model {name:?}; there are: {known}")]
    NoModel {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The session is closed.
    #[error("the session is closed")]
    Closed,
    /// It was cancelled before anything was changed.
    #[error("cancelled; the session is where it was")]
    Cancelled,
    /// Only a session that is kept in a file has branches.
    #[error("the session is kept in no file, so it has no branches")]
    NotKept,
    /// Its file fails it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Session {
    /// A session with this model and these tools. Without a policy nothing that needs a permit is done; without an
    /// approver nobody can be asked; without a store nothing is kept.
    pub fn builder(model: Arc<dyn Model>, tools: Registry) -> SessionBuilder {
        SessionBuilder::new(model, tools)
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Runs with this prompt, after what was asked for before. Dropping the future does not end the run; [`Session::abort`] does.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> RunOutcome {
        self.prompt_messages(prompt.into().0, CancellationToken::new()).await
    }

    /// Runs with these messages; `cancel` ends this run alone.
    pub async fn prompt_messages(&self, messages: Vec<Message>, cancel: CancellationToken) -> RunOutcome {
        let asked = self.ask(|reply| Operation::Prompt { messages, cancel, reply }).await;
        asked.unwrap_or_else(|| outcome_without_run(TerminationReason::Disconnected, "the session is closed"))
    }

    /// Runs without a prompt, from where the transcript ends: a message of the person's or results are answered; after an answer, what
    /// waits in the queues is. `Err` when there is nothing of either; the queues stay as they are then.
    pub async fn continue_run(&self) -> Result<RunOutcome, SessionError> {
        let cancel = CancellationToken::new();
        let asked = self.ask(|reply| Operation::Continue { cancel, reply }).await;
        asked.unwrap_or(Err(SessionError::Closed))
    }

    /// Queues a message for after the current turn; see [`Session::set_steering`]. While idle it waits for the next run. It is queued
    /// when this returns; the future tells the listeners.
    pub fn steer(&self, message: Message) -> impl Future<Output = ()> + Send + 'static {
        self.queue(Queue::Steering, message)
    }

    /// Queues a message for when the run would stop, in the same way.
    pub fn follow_up(&self, message: Message) -> impl Future<Output = ()> + Send + 'static {
        self.queue(Queue::FollowUp, message)
    }

    /// Queues a message in either queue, in the same way.
    pub fn queue(&self, queue: Queue, message: Message) -> impl Future<Output = ()> + Send + 'static {
        let (steering, follow_up) = self.inner.queues.push(queue, message);
        let events = self.inner.events.clone();
        async move { events.send(Event::QueueUpdate { steering, follow_up }).await }
    }

    /// Removes what waits in one queue.
    pub async fn clear_queue(&self, queue: Queue) {
        self.tell_queues(self.inner.queues.clear(queue)).await;
    }

    /// Removes what waits in both queues.
    pub async fn clear_queues(&self) {
        self.inner.queues.clear(Queue::Steering);
        self.clear_queue(Queue::FollowUp).await;
    }

    /// What would be delivered next: steering first, as many as are delivered at once. They stay in their queue.
    pub fn peek_queues(&self) -> Vec<Message> {
        self.inner.queues.peek()
    }

    /// All that waits: steering, then follow-ups. They stay in their queue.
    pub fn queued(&self) -> Vec<Message> {
        self.inner.queues.all()
    }

    /// How many queued messages are delivered at once, from the next delivery on.
    pub fn set_drain(&self, queue: Queue, drain: Drain) {
        self.inner.queues.set_drain(queue, drain);
    }

    /// What steering does to the calls of the turn it comes in, from now on.
    pub fn set_steering(&self, mode: Steering) {
        self.inner.queues.set_steering(mode);
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
        self.ask(|reply| Operation::Messages { reply }).await.map(|messages| messages.to_vec())
    }

    /// Adds a message to the transcript without a run, once what was asked for before is done.
    pub async fn append(&self, message: Message) -> Result<(), SessionError> {
        self.ask(|reply| Operation::Append { message: Box::new(message), reply })
            .await
            .unwrap_or(Err(SessionError::Closed))
    }

    /// Keeps data of who embeds the session: shown, and not sent to a model unless
    /// [`crate::Hooks::custom_message`] makes a message of it.
    pub async fn append_custom(&self, kind: impl Into<String>, data: Value) -> Result<(), SessionError> {
        let kind = kind.into();
        self.ask(|reply| Operation::Custom { kind, data, reply }).await.unwrap_or(Err(SessionError::Closed))
    }

    /// Another transcript, or none, in place of this one, once what was asked for before is done. Its file keeps the old one as a
    /// branch. What is queued goes, and so does the last error.
    pub async fn replace_messages(&self, messages: Vec<Message>) -> Result<(), SessionError> {
        self.clear_queues().await;
        self.ask(|reply| Operation::Replace { messages, reply }).await.unwrap_or(Err(SessionError::Closed))
    }

    /// Goes on from another entry of its file, once what was asked for before is done; what comes next is a new branch there.
    pub async fn switch_to(&self, entry: impl Into<String>) -> Result<(), SessionError> {
        let entry = entry.into();
        self.ask(|reply| Operation::Switch { entry, summary: None, reply })
            .await
            .unwrap_or(Err(SessionError::Closed))
    }

    /// The same, and what is left is told in few words, made by the session's model with the person's `wishes` for them (by an extract
    /// where it makes none). [`Session::abort`] ends it; the session is where it was then.
    pub async fn switch_with_summary(
        &self,
        entry: impl Into<String>,
        wishes: impl Into<String>,
    ) -> Result<(), SessionError> {
        let (entry, summary) = (entry.into(), Some(wishes.into()));
        let asked = self.ask(|reply| Operation::Switch { entry, summary, reply }).await;
        asked.unwrap_or(Err(SessionError::Closed))
    }

    /// Puts the context into fewer words; a run that is going on is cancelled first. `wishes` are for the summary. False when there was
    /// nothing to put into fewer words.
    pub async fn compact(&self, wishes: impl Into<String>) -> Result<bool, SessionError> {
        let wishes = wishes.into();
        self.abort();
        self.ask(|reply| Operation::Compact { wishes, reply }).await.unwrap_or(Err(SessionError::Closed))
    }

    /// Another of the models that the session was given ([`SessionBuilder::models`]), from the next turn on.
    pub fn choose_model(&self, name: &str) -> Result<(), SessionError> {
        let models = &self.inner.models;
        let model = models.find(name).ok_or_else(|| SessionError::NoModel {
            name: name.to_owned(),
            known: models.names().join(", "),
        })?;
        self.set_model(model.clone());
        Ok(())
    }

    /// Another model, from the next turn on.
    pub fn set_model(&self, model: Arc<dyn Model>) {
        self.inner.settings.change(|current| current.model = model);
    }

    /// How much the model is asked to think, from the next turn on.
    pub fn set_thinking_level(&self, level: Option<ThinkingLevel>) {
        self.inner.settings.change(|current| current.thinking_level = level);
    }

    /// Other instructions, from the next turn on.
    pub fn set_instructions(&self, instructions: impl Into<String>) {
        let instructions = instructions.into();
        self.inner.events.set_instructions(&instructions);
        self.inner.settings.change(|current| current.instructions = instructions);
    }

    /// Other tools, from the next turn on. Those the model knew and that are still there it goes on knowing.
    pub fn set_tools(&self, tools: Registry) {
        self.inner.settings.set_tools(Arc::new(tools));
    }

    /// What a surface shows, as it changes.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.inner.state.clone()
    }

    /// Adds a listener, after those that are there. With `since` it first hears every event after that number, or is told by
    /// [`Attached::resync`] what they came to when they are no longer kept (10,000 or 16 MiB are). `None` when the session is closed.
    pub async fn attach(&self, sink: Arc<dyn EventSink>, since: Option<u64>) -> Option<Attached> {
        self.inner.events.attach(sink, since).await
    }

    /// Tells the listeners of something beside the conversation ([`Event::is_beside`]); anything else is left out with a warning in
    /// the log.
    pub async fn tell(&self, event: Event) {
        if event.is_beside() {
            self.inner.events.send(event).await;
        } else {
            tracing::warn!(?event, "only the loop tells this");
        }
    }

    /// Lets a listener go; it hears what was told before.
    pub async fn detach(&self, id: u64) {
        self.inner.events.detach(id).await;
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

    async fn tell_queues(&self, (steering, follow_up): (usize, usize)) {
        self.inner.events.send(Event::QueueUpdate { steering, follow_up }).await;
    }

    async fn ask<T>(&self, operation: impl FnOnce(oneshot::Sender<T>) -> Operation) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        // Their order is that in which they were asked for; with a bound, one that waits for room may be overtaken.
        self.inner.operations.send(operation(reply)).ok()?;
        answer.await.ok()
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
