//! Anthropic's messages (`POST /v1/messages`, streamed) and compatible servers.

mod decode;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

pub const API: &str = "anthropic-messages";

#[derive(Debug, Clone, Copy)]
pub(crate) struct AnthropicMessages;

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
