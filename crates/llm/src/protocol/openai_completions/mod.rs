//! OpenAI's chat completions (`POST /chat/completions`, streamed) and what is compatible with it:
//! llama.cpp, Ollama, LM Studio, vLLM and many hosts. Servers' oddities are the fields of [`Compat`].

mod decode;
mod encode;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use decode::CompletionsDecoder;
pub use encode::encode;

use crate::http::{Clocks, Edge};
use crate::message::AssistantMessage;
use crate::model::{Model, ModelInfo, Request};
use crate::retry::RetryPolicy;
use crate::secret::ApiKey;
use crate::stream::MessageStream;

/// The protocol's name.
pub const API: &str = "openai-completions";

/// Where a model is served and how to ask for it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name, for people and for messages.
    pub provider: String,
    /// For example `http://127.0.0.1:8080/v1`; a slash at the end does no harm.
    pub base_url: String,
    /// The model's id, as the server spells it.
    pub model: String,
    /// The key; local servers need none.
    pub api_key: Option<ApiKey>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Whether the model takes images.
    pub images: bool,
    /// Tokens that fit into one request and its answer, if known.
    pub context_window: Option<u64>,
    /// What this server does differently.
    pub compat: Compat,
    /// How long to wait for what; [`Clocks::for_url`] by default.
    pub clocks: Option<Clocks>,
    /// Attempts at a request that does not stream yet.
    pub retry: RetryPolicy,
}

impl Endpoint {
    /// An endpoint without a key, with everything else at its default.
    pub fn new(provider: &str, base_url: &str, model: &str) -> Endpoint {
        Endpoint {
            provider: provider.to_owned(),
            base_url: base_url.to_owned(),
            model: model.to_owned(),
            api_key: None,
            headers: Vec::new(),
            images: false,
            context_window: None,
            compat: Compat::default(),
            clocks: None,
            retry: RetryPolicy::default(),
        }
    }
}

/// What a server does differently from the protocol's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compat {
    /// The field that limits the output: `max_completion_tokens` or `max_tokens`.
    pub max_tokens_field: MaxTokensField,
    /// Whether `stream_options.include_usage` is understood.
    pub usage_in_streaming: bool,
    /// Whether every stream ends in a `finish_reason`; if not, the end of the stream is the end of the message.
    pub finish_reason: bool,
    /// Whether an assistant message with tool calls only must have `""` for content instead of `null`.
    pub non_null_assistant_content: bool,
}

/// The field that limits the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_completion_tokens`, OpenAI's own.
    MaxCompletionTokens,
    /// `max_tokens`, which every local server takes.
    MaxTokens,
}

impl Default for Compat {
    fn default() -> Compat {
        Compat {
            max_tokens_field: MaxTokensField::MaxTokens,
            usage_in_streaming: true,
            finish_reason: true,
            non_null_assistant_content: false,
        }
    }
}

/// A model behind this protocol. Its HTTP client is made with the first request.
pub struct OpenAiCompletions {
    endpoint: Endpoint,
    info: ModelInfo,
    edge: Arc<Edge>,
}

impl OpenAiCompletions {
    /// A model at this endpoint. Does nothing yet.
    pub fn new(endpoint: Endpoint) -> OpenAiCompletions {
        let info = ModelInfo {
            provider: endpoint.provider.clone(),
            id: endpoint.model.clone(),
            api: API.to_owned(),
            images: endpoint.images,
            context_window: endpoint.context_window,
        };
        let clocks = endpoint.clocks.unwrap_or_else(|| Clocks::for_url(&endpoint.base_url));
        let edge = Arc::new(Edge::new(&endpoint.provider, clocks, endpoint.retry));
        OpenAiCompletions { endpoint, info, edge }
    }
}

impl Model for OpenAiCompletions {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Request, cancel: CancellationToken) -> MessageStream {
        let empty = AssistantMessage::empty(API, &self.endpoint.provider, &self.endpoint.model);
        let http_request = encode(&self.endpoint, &request);
        let decoder = CompletionsDecoder::new(empty.clone(), &self.endpoint.compat);
        let edge = self.edge.clone();
        MessageStream::spawn(empty, cancel, move |writer| async move {
            edge.run(http_request, Box::new(decoder), request.tap.as_ref(), writer).await;
        })
    }
}
