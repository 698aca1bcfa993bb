//! A session: one transcript, one run at a time.
//!
//! One task owns the transcript and serves operations strictly in order; a failing one does not stop the
//! next. Sessions are independent of each other. Dropping every handle cancels the run and ends the task;
//! [`Session::close`] waits for it.

mod actor;
mod approver;
mod builder;
mod error;

use std::sync::Arc;
use std::time::Duration;

use llm::{Content, Message, Model, ThinkingLevel, UserMessage};
use parking_lot::Mutex;
use policy::{Chosen, Policy};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use builder::SessionBuilder;
pub use error::SessionError;

use crate::events::SessionState;
use crate::events::emitter::{Attached, Emitter, Replay};
use crate::events::{Event, EventSink, PermissionAnswer, TerminationReason};
use crate::run::RunOutcome;
use crate::run::queues::{Drain, Queue, QueuedMessage, QueuedMessageView, Queues, Steering};
use crate::run::settings::SharedSettings;
use crate::tool::registry::Registry;
use actor::Operation;
use approver::OpenQuestions;

/// A handle to a session; cheap to clone.
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub id: String,
    pub operations: mpsc::UnboundedSender<Operation>,
    pub queues: Arc<Queues>,
    pub settings: Arc<SharedSettings>,
    pub events: Emitter,
    pub questions: Arc<OpenQuestions>,
    pub state: watch::Receiver<SessionState>,
    /// Cancels the current run.
    pub current: Arc<Mutex<Option<CancellationToken>>>,
    pub disconnected: CancellationToken,
    pub tracker: TaskTracker,
    pub _end: DropGuard,
}

/// The start of a run: text, text with pictures, or messages.
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
    /// Text with pictures, each as base64 and its MIME type (`image/png`).
    pub fn with_images(
        text: impl Into<String>,
        images: impl IntoIterator<Item = (String, String)>,
    ) -> Prompt {
        let images = images.into_iter().map(|(data, mime_type)| Content::Image { data, mime_type });
        let content = std::iter::once(Content::text(text)).chain(images).collect();
        Prompt(vec![Message::User(UserMessage { content, timestamp: llm::now_ms() })])
    }
}

impl Session {
    /// Builds a session with this model and these tools.
    ///
    /// Without a policy the session does nothing that needs a permit; without an approver it asks no user;
    /// without a store it keeps nothing.
    pub fn builder(model: Arc<dyn Model>, tools: Registry) -> SessionBuilder {
        SessionBuilder::new(model, tools)
    }

    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Runs with this prompt, after earlier operations.
    ///
    /// Dropping the future does not end the run; [`Session::abort`] does.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> RunOutcome {
        self.prompt_messages(prompt.into().0, CancellationToken::new()).await
    }

    /// Runs with these messages; `cancel` cancels this run only.
    pub async fn prompt_messages(
        &self,
        messages: Vec<impl Into<QueuedMessage>>,
        cancel: CancellationToken,
    ) -> RunOutcome {
        let messages = messages.into_iter().map(Into::into).collect();
        let asked = self.ask(|reply| Operation::Prompt { messages, cancel, reply }).await;
        asked.unwrap_or_else(|| {
            RunOutcome::without_run(TerminationReason::Disconnected, "the session is closed")
        })
    }

    /// Runs without a prompt, from the end of the transcript.
    ///
    /// Answers a user message or results; after an answer, delivers queued messages. `Err` if there is
    /// nothing to answer or deliver.
    pub async fn continue_run(&self) -> Result<RunOutcome, SessionError> {
        let cancel = CancellationToken::new();
        let asked = self.ask(|reply| Operation::Continue { cancel, reply }).await;
        asked.unwrap_or(Err(SessionError::Closed))
    }

    /// Queues a message for after the current turn; see [`Session::set_steering`].
    ///
    /// While idle it waits for the next run. The message is queued when this returns; the future notifies the
    /// sinks.
    pub fn steer(&self, message: Message) -> impl Future<Output = ()> + Send + 'static {
        self.queue(Queue::Steering, message.into())
    }

    /// Queues a message for when the run would stop; see [`Session::steer`].
    pub fn follow_up(&self, message: Message) -> impl Future<Output = ()> + Send + 'static {
        self.queue(Queue::FollowUp, message.into())
    }

    /// Queues a message in either queue; see [`Session::steer`].
    pub fn queue(
        &self,
        queue: Queue,
        message: QueuedMessage,
    ) -> impl Future<Output = ()> + Send + use<> + 'static {
        self.inner.queues.push(queue, message);
        self.emit_queues()
    }

    /// Removes a queued message; `None` if it is not queued any more.
    pub async fn unqueue(&self, message_id: &str) -> Option<(Queue, QueuedMessage)> {
        let removed = self.inner.queues.remove(message_id)?;
        self.emit_queues().await;
        Some(removed)
    }

    /// Replaces a queued message, or moves it to a queue or before another one.
    ///
    /// Returns false if one of them is not queued any more.
    pub async fn edit_queued(
        &self,
        message_id: &str,
        message: Option<Message>,
        queue: Option<Queue>,
        before: Option<&str>,
    ) -> bool {
        let edited = self.inner.queues.edit(message_id, message, queue, before);
        if edited {
            self.emit_queues().await;
        }
        edited
    }

    /// Removes the messages of one queue.
    pub async fn clear_queue(&self, queue: Queue) {
        self.inner.queues.clear(queue);
        self.emit_queues().await;
    }

    /// Removes the messages of both queues.
    pub async fn clear_queues(&self) {
        self.inner.queues.clear(Queue::Steering);
        self.clear_queue(Queue::FollowUp).await;
    }

    /// The messages that would be delivered next, left in the queue.
    pub fn peek_queues(&self) -> Vec<Message> {
        self.inner.queues.peek()
    }

    /// All queued messages, left in the queues: steering, then follow-ups.
    pub fn queued(&self) -> Vec<Message> {
        self.inner.queues.all()
    }

    /// Sets how many queued messages are delivered at once, from the next delivery on.
    pub fn set_drain(&self, queue: Queue, drain: Drain) {
        self.inner.queues.set_drain(queue, drain);
    }

    /// Sets the effect of steering on the calls of the current turn.
    pub fn set_steering(&self, mode: Steering) {
        self.inner.queues.set_steering(mode);
    }

    /// Cancels the current run, if any. Does not wait.
    pub fn abort(&self) {
        let current = self.inner.current.lock();
        if let Some(current) = current.as_ref() {
            current.cancel();
        }
    }

    /// Ends the current run and later ones with reason `disconnected`.
    pub fn disconnect(&self) {
        self.inner.disconnected.cancel();
    }

    /// The transcript, after earlier operations; `None` if the session is closed.
    pub async fn messages(&self) -> Option<Vec<Message>> {
        self.ask(|reply| Operation::Messages { reply }).await.map(|messages| messages.to_vec())
    }

    /// Adds a message to the transcript without a run, after earlier operations.
    pub async fn append(&self, message: Message) -> Result<(), SessionError> {
        self.ask(|reply| Operation::Append { message: Box::new(message), reply })
            .await
            .unwrap_or(Err(SessionError::Closed))
    }

    /// Stores custom data, which surfaces show.
    ///
    /// No model receives it unless [`crate::Hooks::custom_message`] makes a message of it.
    pub async fn append_custom(&self, kind: impl Into<String>, data: Value) -> Result<(), SessionError> {
        let kind = kind.into();
        self.ask(|reply| Operation::Custom { kind, data, reply }).await.unwrap_or(Err(SessionError::Closed))
    }

    /// Replaces the transcript, after earlier operations.
    ///
    /// The file keeps the old one as a branch. Clears the queues and the last error.
    pub async fn replace_messages(&self, messages: Vec<Message>) -> Result<(), SessionError> {
        self.clear_queues().await;
        self.ask(|reply| Operation::Replace { messages, reply }).await.unwrap_or(Err(SessionError::Closed))
    }

    /// Continues from another entry of the file, after earlier operations.
    ///
    /// Later messages form a new branch.
    pub async fn switch_to(&self, entry: impl Into<String>) -> Result<(), SessionError> {
        let entry = entry.into();
        self.ask(|reply| Operation::Switch { entry, summary: None, reply })
            .await
            .unwrap_or(Err(SessionError::Closed))
    }

    /// Continues from another entry, with a summary of the branch that is left.
    ///
    /// See [`Session::switch_to`]. The session's model writes the summary with the user's `wishes`, or an
    /// extract replaces it. [`Session::abort`] cancels the switch.
    pub async fn switch_with_summary(
        &self,
        entry: impl Into<String>,
        wishes: impl Into<String>,
    ) -> Result<(), SessionError> {
        let (entry, summary) = (entry.into(), Some(wishes.into()));
        let asked = self.ask(|reply| Operation::Switch { entry, summary, reply }).await;
        asked.unwrap_or(Err(SessionError::Closed))
    }

    /// Compacts the context; cancels the current run first.
    ///
    /// `wishes` state what the user wants in the summary. Returns false if there was nothing to compact.
    pub async fn compact(&self, wishes: impl Into<String>) -> Result<bool, SessionError> {
        let wishes = wishes.into();
        self.abort();
        self.ask(|reply| Operation::Compact { wishes, reply }).await.unwrap_or(Err(SessionError::Closed))
    }

    /// Sets the model, from the next turn on.
    pub fn set_model(&self, model: Arc<dyn Model>) {
        self.inner.settings.change(|current| current.model = model);
    }

    /// The model of the next turn.
    pub fn model(&self) -> Arc<dyn Model> {
        self.inner.settings.get().model
    }

    /// The thinking level of the next turn.
    pub fn thinking_level(&self) -> Option<ThinkingLevel> {
        self.inner.settings.get().thinking_level
    }

    /// Sets the thinking level, from the next turn on.
    pub fn set_thinking_level(&self, level: Option<ThinkingLevel>) {
        self.inner.settings.change(|current| current.thinking_level = level);
    }

    /// Sets the model, its fallbacks and the summarizer, from the next turn on.
    pub fn set_models(
        &self,
        model: Arc<dyn Model>,
        fallbacks: Vec<Arc<dyn Model>>,
        summarizer: Option<Arc<dyn Model>>,
    ) {
        self.inner.settings.change(|current| {
            (current.model, current.fallbacks, current.summarizer) = (model, fallbacks.into(), summarizer);
        });
    }

    /// Sets the policy, from the next turn on.
    pub fn set_policy(&self, policy: &Policy) {
        self.inner.settings.set_policy(policy);
    }

    /// Sets the session's name in its file, after earlier operations.
    pub async fn set_name(&self, name: impl Into<String>) -> Result<(), SessionError> {
        let name = name.into();
        self.ask(|reply| Operation::Name { name, reply }).await.unwrap_or(Err(SessionError::Closed))
    }

    /// Sets the instructions, from the next turn on.
    pub fn set_instructions(&self, instructions: impl Into<String>) {
        let instructions = instructions.into();
        self.inner.events.set_instructions(&instructions);
        self.inner.settings.change(|current| current.instructions = instructions);
    }

    /// Sets the tools from the next turn on; the model still knows those that remain.
    pub fn set_tools(&self, tools: Registry) {
        self.inner.settings.set_tools(Arc::new(tools));
    }

    /// The visible state, as it changes.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.inner.state.clone()
    }

    /// Answers a permission question by the id of its event; `text` explains a refusal.
    ///
    /// Returns false if it is not open, or does not offer the answer.
    pub fn answer_permission(&self, request_id: &str, answer: PermissionAnswer, text: String) -> bool {
        self.inner.questions.answer_permission(request_id, answer, text)
    }

    /// Answers a question of the agent by the id of its event.
    ///
    /// Returns false if it is not open.
    pub fn answer_input(&self, request_id: &str, chosen: Chosen) -> bool {
        self.inner.questions.answer_input(request_id, chosen)
    }

    /// Adds a sink after the existing ones; `None` if the session is closed.
    ///
    /// With `since` it first receives every event after that number, or the state in [`Attached::resync`] if
    /// the backlog (10,000 events, 16 MiB) no longer has them.
    pub async fn attach(&self, sink: Arc<dyn EventSink>, since: Option<u64>) -> Option<Attached> {
        self.inner.events.attach(sink, since).await
    }

    /// The events after `since`, and the state; `None` if the session is closed.
    pub async fn replay(&self, since: Option<u64>) -> Option<Replay> {
        self.inner.events.replay(since).await
    }

    /// Reports an event outside the conversation ([`Event::is_status`]).
    ///
    /// Other events are dropped with a warning in the log.
    pub async fn report(&self, event: Event) {
        if event.is_status() {
            self.inner.events.send(event).await;
        } else {
            tracing::warn!(?event, "dropped an event that only the loop may send");
        }
    }

    /// Removes a sink; it receives the events sent before.
    pub async fn detach(&self, id: u64) {
        self.inner.events.detach(id).await;
    }

    /// Cancels the current run, waits for its end, and ends the session.
    ///
    /// On return the sinks have received every event. Returns false if the session did not end within `deadline`;
    /// its task then continues.
    pub async fn close(&self, deadline: Duration) -> bool {
        self.abort();
        let ended = self.ask(|reply| Operation::Close { reply });
        if tokio::time::timeout(deadline, ended).await.is_err() {
            tracing::warn!(session = self.inner.id, "the session did not end in time");
            return false;
        }
        true
    }

    /// The queued messages for surfaces: steering, then follow-ups.
    pub fn queued_texts(&self) -> Vec<QueuedMessageView> {
        self.inner.queues.texts()
    }

    fn emit_queues(&self) -> impl Future<Output = ()> + Send + use<> + 'static {
        let (events, queue) = (self.inner.events.clone(), self.inner.queues.texts());
        async move { events.send(Event::of_queue(queue)).await }
    }

    async fn ask<T>(&self, operation: impl FnOnce(oneshot::Sender<T>) -> Operation) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        // The queue is unbounded on purpose: operations are served in the order of this call, and with a bound, a
        // sender that waits for room could be overtaken. Each caller waits for its reply, so callers bound the queue.
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
