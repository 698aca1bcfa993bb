//! Google's generative language API (`POST /models/MODEL:streamGenerateContent`), as Gemini is served by it.

mod decode;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

/// The protocol's name.
pub const API: &str = "google-generative-ai";

/// The protocol.
#[derive(Debug, Clone, Copy)]
pub struct GoogleGenerativeAi;

impl Protocol for GoogleGenerativeAi {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        encode::encode(endpoint, request)
    }

    fn decoder(&self, _: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        Box::new(decode::GenerateDecoder::new(empty))
    }
}
