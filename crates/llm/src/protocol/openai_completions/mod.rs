//! OpenAI's chat completions and compatible servers.
//!
//! The request is `POST /chat/completions`, streamed. The servers are llama.cpp, Ollama, LM Studio,
//! vLLM and many hosts. [`crate::Compat`] has their deviations.

mod decode;
mod details;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::chunks::ChunkDecoder;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

pub const API: &str = "openai-completions";

#[derive(Debug, Clone, Copy)]
pub struct OpenAiCompletions;

impl Protocol for OpenAiCompletions {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        encode::encode(endpoint, request)
    }

    fn decoder(&self, endpoint: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        let dialect = decode::Completions::new(endpoint.compat.finish_reason);
        Box::new(ChunkDecoder::new(empty, dialect))
    }
}
