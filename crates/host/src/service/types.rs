//! Requests and answers of the session service, the same for every surface.
//!
//! `docs/protocols/language-server.md` documents them; a test of `lsp-server` compares the fields.

use agent::events::{PermissionAnswer, PlanStep};
use agent::{Envelope, Event, Message, QueuedMessageView, Usage};
use policy::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::RequestError;

/// A failed request, with a code of `docs/formats/errors.md`.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    pub code: ErrorCode,
    pub message: String,
}

impl ServiceError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn not_live(session: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("session {session:?} is not open; open it first"))
    }
}

impl From<anyhow::Error> for ServiceError {
    fn from(error: anyhow::Error) -> Self {
        let stored = error.downcast_ref().map(agent::store::StoreError::code);
        let committed = error.downcast_ref().map(workspace::CommitError::code);
        let code = stored.or(committed).unwrap_or(ErrorCode::Internal);
        Self::new(code, format!("{error:#}"))
    }
}

impl From<agent::store::StoreError> for ServiceError {
    fn from(error: agent::store::StoreError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<paths::StateError> for ServiceError {
    fn from(error: paths::StateError) -> Self {
        Self::new(ErrorCode::from(&error), error.to_string())
    }
}

impl From<RequestError> for ServiceError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Invalid(reason) => Self::new(ErrorCode::InvalidArguments, reason),
            RequestError::Failed(error) => error.into(),
        }
    }
}

impl From<tokio::task::JoinError> for ServiceError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::new(ErrorCode::Internal, error.to_string())
    }
}

/// Parameters of `session/new`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct NewSession {
    /// A path in the project.
    pub cwd: Option<String>,
    pub model: Option<String>,
    /// Name of an agent profile.
    pub agent: Option<String>,
}

/// Parameters of `session/open`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct OpenSession {
    pub session: String,
    /// A path in the project, if the session is not live.
    pub cwd: Option<String>,
    /// The last event that the client has.
    pub since: Option<u64>,
}

/// Parameters of requests about a live session.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct SessionParams {
    pub session: String,
}

/// Parameters of `session/list`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ListSessions {
    pub cwd: Option<String>,
}

/// An open session: the missed events, or its whole state.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionView {
    pub session: String,
    /// Root of its project.
    pub cwd: String,
    /// Number of the last event that this answer includes.
    pub seq: u64,
    /// The events after `since`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Value>>")]
    pub events: Option<Vec<Envelope>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateView>,
    pub options: Vec<ConfigOption>,
}

/// An option of a session, in the form of the Agent Client Protocol.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConfigOption {
    pub id: String,
    pub name: String,
    pub category: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(rename = "currentValue")]
    pub current_value: String,
    pub options: Vec<OptionValue>,
}

/// A value of an option.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OptionValue {
    pub value: String,
    pub name: String,
}

/// Parameters of `session/setOption`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct SetOption {
    pub session: String,
    pub option: String,
    pub value: String,
}

/// The options of a session after a change.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionOptions {
    pub options: Vec<ConfigOption>,
}

/// Parameters of `session/fork`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ForkSession {
    pub session: String,
    pub cwd: Option<String>,
    /// The last message that the fork has; by default, it has all.
    pub message_id: Option<String>,
}

/// Parameters of `session/rename`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct RenameSession {
    pub session: String,
    pub cwd: Option<String>,
    pub title: String,
}

/// Parameters of `session/delete`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct DeleteSession {
    pub session: String,
    pub cwd: Option<String>,
}

/// Parameters of `permission`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct PermissionParams {
    pub session: String,
    pub request_id: String,
    #[schemars(with = "String")]
    pub answer: PermissionAnswer,
    /// The reason of a refusal, for the model.
    pub text: Option<String>,
}

/// Parameters of `input`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct InputParams {
    pub session: String,
    pub request_id: String,
    /// An option or another text; without it, the question is dismissed.
    pub answer: Option<String>,
}

/// Parameters of `status`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct StatusParams {
    pub session: Option<String>,
    pub cwd: Option<String>,
}

/// The state of a project, and of a live session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StatusView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionStatus>,
    pub servers: Vec<ServerView>,
    /// `bwrap`, `Landlock`, `none` or `off`.
    pub sandbox: String,
}

/// Model, tokens and cost of a session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionStatus {
    pub running: bool,
    pub model: String,
    /// Tokens of the last request and its answer.
    pub context_used: u64,
    /// Tokens of a request and its answer at most, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_size: Option<u64>,
    /// The tokens of all requests, and their cost if known.
    #[schemars(with = "Value")]
    pub usage: Usage,
}

/// A language server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ServerView {
    pub name: String,
    pub root: String,
    /// `starting`, `running`, `crashed` or `stopped`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The visible state of a session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StateView {
    pub title: String,
    pub running: bool,
    pub compacting: bool,
    pub model: String,
    #[schemars(with = "Vec<Value>")]
    pub messages: Vec<StoredMessage>,
    /// The message that is being streamed, as far as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub partial: Option<StoredMessage>,
    /// Ids of the tool calls without a result.
    pub pending_calls: Vec<String>,
    #[schemars(with = "Vec<Value>")]
    pub queue: Vec<QueuedMessageView>,
    #[schemars(with = "Vec<Value>")]
    pub plan: Vec<PlanStep>,
    /// The events of the open questions.
    #[schemars(with = "Vec<Value>")]
    pub questions: Vec<Event>,
    /// Error of the last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A message with the id of its entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredMessage {
    pub message_id: String,
    pub message: Message,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionList {
    /// The last active first.
    pub sessions: Vec<ListedSession>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ListedSession {
    pub session: String,
    pub title: String,
    /// Number of messages.
    pub messages: usize,
    /// Time of the last entry, in RFC 3339.
    pub last_active: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether it is open here.
    pub live: bool,
    pub running: bool,
}

/// When a message is delivered, if the session runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    /// When the run would stop.
    #[default]
    Queue,
    /// After the current turn.
    Steer,
    /// At once: the run is cancelled, and another one starts with the message.
    Interrupt,
}

/// Parameters of `prompt`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct PromptParams {
    pub session: String,
    pub text: String,
    #[serde(default)]
    pub delivery: DeliveryMode,
    /// The files, lines, diagnostics and sessions that the prompt is about.
    #[serde(default)]
    pub context: Vec<ContextLink>,
    /// Pasted images in base64: PNG, JPEG, GIF or WebP.
    #[serde(default)]
    pub images: Vec<String>,
}

/// A link to a file, lines of it, diagnostics or a session.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ContextLink {
    /// `file:///PATH`, `file:///PATH#L3-L7`, or the `uri` of a [`ContextItem`].
    pub uri: String,
}

/// Parameters of `context/complete`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct CompleteContext {
    pub query: String,
    pub cwd: Option<String>,
    /// The active document, with the selected lines if any.
    pub focus: Option<ContextLink>,
}

/// The best matches first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ContextItems {
    pub items: Vec<ContextItem>,
}

/// A target that a prompt can link.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ContextItem {
    pub kind: ContextKind,
    /// The text after `@` in the prompt, without white space.
    pub name: String,
    pub uri: String,
    /// The title of a session.
    pub detail: Option<String>,
}

/// The kind of a link's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextKind {
    /// The selected lines of the active document.
    Selection,
    /// The diagnostics of the active document, or of the project.
    Diagnostics,
    /// A file; its name is its path below the project's root.
    File,
    /// The lines of a declaration.
    Symbol,
    /// An earlier session of the project.
    Session,
}

/// The acknowledgement of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PromptAck {
    /// Id of the message in events and in the session's file.
    pub message_id: String,
    pub status: PromptStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptStatus {
    /// A run starts with the message.
    Started,
    /// The message waits in the queue.
    Queued,
    /// A run starts with the message once the current one ended.
    Interrupting,
}

/// Parameters of `queue/edit`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct QueueEdit {
    pub session: String,
    pub message_id: String,
    /// The new text.
    pub text: Option<String>,
    /// The new time of delivery; `interrupt` sends the message now.
    pub delivery: Option<DeliveryMode>,
    /// The message before which it is placed.
    pub before: Option<String>,
}

/// Parameters of `queue/remove`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct QueueRemove {
    pub session: String,
    pub message_id: String,
}

/// A message that is not queued any more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RemovedMessage {
    pub text: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Cancelled {
    /// Whether a run was active.
    pub cancelled: bool,
}

/// An answer without content.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Done {}
