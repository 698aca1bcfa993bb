//! Mistral's chat completions (`POST /chat/completions`, streamed).
//!
//! They differ from OpenAI's: thinking is part of the content and is sent back, call ids have nine
//! letters and digits, and an assistant message must follow a result.

mod decode;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::chunks::ChunkDecoder;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

pub const API: &str = "mistral-conversations";

#[derive(Debug, Clone, Copy)]
pub(crate) struct MistralConversations;

impl Protocol for MistralConversations {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        encode::encode(endpoint, request)
    }

    fn decoder(&self, _: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        Box::new(ChunkDecoder::new(empty, decode::Mistral::default()))
    }
}
