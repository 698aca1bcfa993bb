//! Mistral's own chat completions (`POST /chat/completions`, streamed): like OpenAI's, but thinking is a part of the content and goes
//! back as such, ids of calls have nine letters and digits, and after a result nobody but the model may speak.

mod decode;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::chunks::ChunkDecoder;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

/// The protocol's name.
pub const API: &str = "mistral-conversations";

/// The protocol.
#[derive(Debug, Clone, Copy)]
pub struct MistralConversations;

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
