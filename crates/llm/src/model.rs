//! The port to a model.
//!
//! It knows nothing of tools' effects or of stored transcripts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::message::Message;
use crate::options::{CacheRetention, ThinkingLevel, ToolChoice};
use crate::secret::ApiKey;
use crate::stream::MessageStream;

/// A model that returns the next message of a transcript.
pub trait Model: Send + Sync {
    /// Identity and abilities of the model. Does not block.
    fn info(&self) -> &ModelInfo;

    /// Requests the next message.
    ///
    /// Returns at once, inside a tokio runtime; the returned stream owns the task. There is no
    /// `Err`: a failure is the stream's final message with stop reason `error`, and a cancelled one
    /// ends at once with `aborted`. Both keep the received parts.
    fn stream(&self, request: Request, cancel: CancellationToken) -> MessageStream;

    /// Whether it can summarize a conversation; a model that answers by rules cannot.
    fn can_summarize(&self) -> bool {
        true
    }
}

/// Identity and abilities of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The provider's name, such as `openai`, `local` or `script`.
    pub provider: String,
    /// The model's id as the provider spells it.
    pub id: String,
    /// The wire protocol, such as `openai-completions`.
    pub api: String,
    /// Whether it accepts images.
    pub images: bool,
    /// Tokens of a request and its answer together, if known.
    pub context_window: Option<u64>,
}

impl ModelInfo {
    /// The name `PROVIDER/ID`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// The instructions; empty for none.
    pub system: String,
    /// The transcript, oldest first.
    ///
    /// Protocols repair what a provider would reject ([`crate::transcript::repair`]). The list is shared, so
    /// that a long one is not copied for each request.
    pub messages: Arc<Vec<Message>>,
    /// The tools, in a fixed order so that providers' caches stay valid.
    pub tools: Vec<ToolDefinition>,
    /// Maximum output tokens; `None` for the provider's default.
    pub max_tokens: Option<u64>,
    /// Sampling temperature; `None` for the provider's default.
    pub temperature: Option<f64>,
    /// The thinking level; `None` for the endpoint's default, else the provider's.
    ///
    /// An unsupported level becomes the next lower one, which the message reports.
    pub thinking: Option<ThinkingLevel>,
    /// The tool that may or must be called.
    pub tool_choice: ToolChoice,
    /// Time for which the provider caches the start of the request.
    pub cache: CacheRetention,
    /// Id of the conversation, by which providers route to their cache; empty for none.
    pub session_id: String,
    /// Retries of this turn so far; they count toward the endpoint's limit.
    pub retries: u32,
    /// Longest wait before a retry; `None` for the endpoint's limit.
    ///
    /// It is set where another model can answer instead.
    pub patience: Option<Duration>,
    /// A key for this request, used instead of the model's.
    pub api_key: Option<ApiKey>,
    /// Observes the request.
    pub observer: Option<SharedObserver>,
}

/// Observer of a request and its answer; called only by models behind a network.
pub trait RequestObserver: Send + Sync {
    /// Receives the request's body; a returned body replaces it.
    ///
    /// The request waits for the future.
    fn payload<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Option<Value>>;

    /// Receives the status and headers of each answer, names in lower case.
    ///
    /// Must not block.
    fn response(&self, status: u16, headers: &[(String, String)]);
}

/// A shared [`RequestObserver`], equal only to itself.
#[derive(Clone)]
pub struct SharedObserver(pub Arc<dyn RequestObserver>);

impl PartialEq for SharedObserver {
    fn eq(&self, other: &SharedObserver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for SharedObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedObserver")
    }
}

/// A tool as sent to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    pub name: String,
    /// Display name for users; not sent to models.
    pub label: String,
    /// Purpose and use, for the model.
    pub description: String,
    /// JSON Schema of its arguments; an object schema.
    pub parameters: Value,
}
