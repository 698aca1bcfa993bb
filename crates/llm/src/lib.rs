//! Models: the [`Model`] port, messages, streams, protocols, a scripted model.
//!
//! This crate knows no tool, session or file: callers pass in scripts and keys. A model's stream
//! never fails with `Err`; it ends with a final message whose stop reason reports the failure.

mod endpoint;
mod image;
mod key_source;
mod local_servers;
mod message;
mod message_builder;
mod model;
mod options;
mod overflow;
mod partial_json;
mod price;
pub mod protocol;
mod remote_model;
mod response_form;
mod script;
mod secret;
mod sigv4;
mod stream;
pub mod transcript;

mod http;
mod retry;
mod surrogates;

pub use endpoint::{Auth, Compat, Effort, Endpoint, ForcedTools, MaxTokensField, Thinking, ThinkingField};
pub use http::Timeouts;
pub use image::{ImageInfo, image_tokens};
pub use key_source::{KeyError, KeyRejection, KeySource, RejectionReason};
pub use local_servers::local_models;
pub use message::{
    AssistantMessage, Content, ErrorKind, Message, ModelError, StopReason, ToolCall, ToolResultMessage,
    Usage, UserMessage, now_ms,
};
pub use message_builder::MessageBuilder;
pub use model::{Model, ModelInfo, Request, RequestObserver, SharedObserver, ToolDefinition};
pub use options::{CacheRetention, ThinkingLevel, ToolChoice};
pub use overflow::is_overflow;
pub use price::{Cost, Price, PriceTier};
pub use remote_model::RemoteModel;
pub use retry::{RetryPolicy, is_quota_exhausted, random};
pub use script::{ScriptError, ScriptModel};
pub use secret::ApiKey;
pub use sigv4::{AwsCredentials, Signing};
pub use stream::{FinalMessage, MessageStream, StreamEvent, StreamWriter};
