//! The port to a model: what is asked, and who can be asked. What tools do and where a transcript
//! is kept is not known here.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::message::Message;
use crate::options::{CacheRetention, ThinkingLevel, ToolChoice};
use crate::secret::ApiKey;
use crate::stream::MessageStream;

/// A model that can be asked for the next message of a transcript.
pub trait Model: Send + Sync {
    /// Who this is and what it can do. Does not block.
    fn info(&self) -> &ModelInfo;

    /// Asks for the next message. Returns at once, inside a tokio runtime; the work happens in a task
    /// that the returned stream owns. There is no `Err`: a failure is the stream's final message, with
    /// stop reason `error`, and a cancelled one ends at once with `aborted`; both keep what had come.
    fn stream(&self, request: Request, cancel: CancellationToken) -> MessageStream;

    /// Whether it can put a conversation into fewer words; one that answers by rules cannot.
    fn can_summarize(&self) -> bool {
        true
    }
}

/// Who a model is and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The provider's name, for example `openai`, `local` or `script`.
    pub provider: String,
    /// The model's id, as the provider spells it.
    pub id: String,
    /// The wire protocol, `openai-completions` for one.
    pub api: String,
    /// Whether it takes images.
    pub images: bool,
    /// Tokens that fit into one request and its answer; `None` when not known.
    pub context_window: Option<u64>,
}

impl ModelInfo {
    /// `PROVIDER/ID`, as it is chosen by.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider, self.id)
    }
}

/// What is asked of a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    /// The instructions; empty for none.
    pub system: String,
    /// The transcript, oldest first. Protocols repair what a provider would refuse
    /// ([`crate::transcript::repair`]). Shared, so that a long one is not copied for each request.
    pub messages: Arc<Vec<Message>>,
    /// The tools that may be called, in a fixed order, so that the provider's caches hold.
    pub tools: Vec<ToolDefinition>,
    /// The most tokens that may be answered; the provider's default when `None`.
    pub max_tokens: Option<u64>,
    /// The sampling temperature; the provider's default when `None`.
    pub temperature: Option<f64>,
    /// How hard to think; a level that the model lacks becomes the next lower one, and the message says so.
    /// `None`: as the endpoint says, else as the provider does by itself.
    pub thinking: Option<ThinkingLevel>,
    /// Which tool may or must be called.
    pub tool_choice: ToolChoice,
    /// How long the start of the request is kept for the next one.
    pub cache: CacheRetention,
    /// Names the conversation, so that a provider can send its requests to where they are cached; empty
    /// for none.
    pub session_id: String,
    /// A key for this request in place of the model's own.
    pub api_key: Option<ApiKey>,
    /// Sees the request on its way; nobody when `None`.
    pub tap: Option<Tap>,
}

/// Sees a request on its way to a provider and back. Only models behind a network call it.
pub trait Wire: Send + Sync {
    /// Sees the request's body; what it returns is sent in its place. Waited for.
    fn payload<'a>(&'a self, body: &'a Value) -> BoxFuture<'a, Option<Value>>;

    /// Sees the status and the headers of each answer, names in lower case. Must not block.
    fn response(&self, status: u16, headers: &[(String, String)]);
}

/// A shared [`Wire`]; equal to itself alone.
#[derive(Clone)]
pub struct Tap(pub Arc<dyn Wire>);

impl PartialEq for Tap {
    fn eq(&self, other: &Tap) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name the model calls it by.
    pub name: String,
    /// A few words for people; not sent to models.
    pub label: String,
    /// What it does and how to use it, for the model.
    pub description: String,
    /// JSON Schema of its arguments; an object schema.
    pub parameters: Value,
}
