//! Anthropic's messages (`POST /v1/messages`, streamed) and compatible servers.

mod decode;
mod encode;

use crate::protocol::ProtocolDefinition;
use crate::protocol::sse::SseStream;

pub const API: &str = "anthropic-messages";

pub(crate) const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode::encode,
    decoder: |_, empty| Box::new(SseStream::new(decode::MessagesDecoder::new(empty))),
    sends_own_key: true,
};
