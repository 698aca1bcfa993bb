//! Mistral's chat completions (`POST /chat/completions`, streamed).
//!
//! They differ from OpenAI's: thinking is part of the content and is sent back, call ids have nine
//! letters and digits, and an assistant message must follow a result.

mod decode;
mod encode;

use crate::protocol::ProtocolDefinition;
use crate::protocol::chunks::ChunkDecoder;
use crate::protocol::sse::SseStream;

pub const API: &str = "mistral-conversations";

pub(crate) const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode::encode,
    decoder: |_, empty| Box::new(SseStream::new(ChunkDecoder::new(empty, decode::Mistral::default()))),
    sends_own_key: true,
};
