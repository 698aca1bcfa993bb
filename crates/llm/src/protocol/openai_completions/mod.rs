//! OpenAI's chat completions and compatible servers.
//!
//! The request is `POST /chat/completions`, streamed. The servers are llama.cpp, Ollama, LM Studio,
//! vLLM and many hosts. [`crate::Compat`] has their deviations.

mod decode;
mod details;
mod encode;

use crate::protocol::ProtocolDefinition;
use crate::protocol::chunks::ChunkDecoder;
use crate::protocol::sse::SseStream;

pub const API: &str = "openai-completions";

pub const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode::encode,
    decoder: |endpoint, empty| {
        let dialect = decode::Completions::new(endpoint.compat.finish_reason);
        Box::new(SseStream::new(ChunkDecoder::new(empty, dialect)))
    },
    sends_own_key: true,
};
