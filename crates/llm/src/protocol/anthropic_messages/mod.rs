//! Anthropic's messages (`POST /v1/messages`, streamed) and what is compatible with it.

mod decode;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

/// The protocol's name.
pub const API: &str = "anthropic-messages";

/// The protocol.
#[derive(Debug, Clone, Copy)]
pub struct AnthropicMessages;

impl Protocol for AnthropicMessages {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        encode::encode(endpoint, request)
    }

    fn decoder(&self, _: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        Box::new(decode::MessagesDecoder::new(empty))
    }
}
