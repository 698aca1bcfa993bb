//! Models and how to talk to them: messages, the [`Model`] port, streaming, providers' wire
//! protocols, and a model that answers from a script.
//!
//! This crate knows no tool, no session and no file: a script's text or a key is handed in. A model's
//! stream never fails with `Err`; it ends in one final message whose stop reason tells.

mod discover;
mod endpoint;
mod fold;
mod keys;
mod message;
mod model;
mod options;
mod overflow;
mod partial_json;
mod price;
pub mod protocol;
mod remote;
mod script;
mod secret;
mod sigv4;
mod sniff;
mod stream;
pub mod transcript;

mod halves;
mod http;
mod retry;

pub use discover::local_models;
pub use endpoint::{Auth, Compat, Effort, Endpoint, ForcedTools, MaxTokensField, Thinking, ThinkingField};
pub use fold::MessageFold;
pub use http::Clocks;
pub use keys::{Keys, Refusal, RefusedFor};
pub use message::{
    AssistantMessage, Content, ErrorKind, Message, StopReason, ToolCall, ToolResultMessage, Usage,
    UserMessage, now_ms,
};
pub use model::{Model, ModelInfo, Request, Tap, ToolDefinition, Wire};
pub use options::{CacheRetention, ThinkingLevel, ToolChoice};
pub use overflow::is_overflow;
pub use partial_json::{PartialJson, parse_arguments};
pub use price::{Above, Cost, Price};
pub use remote::RemoteModel;
pub use retry::{RetryPolicy, is_used_up, random};
pub use script::{ScriptError, ScriptModel};
pub use secret::ApiKey;
pub use sigv4::{AwsKeys, Signing};
pub use stream::{FinalMessage, MessageStream, StreamEvent, StreamWriter};
