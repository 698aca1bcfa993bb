//! Google's generative language API, which serves Gemini.
//!
//! The request is `POST /models/MODEL:streamGenerateContent`.

pub(super) mod decode;
pub(super) mod encode;
mod partial_arguments;

use crate::endpoint::{Auth, Endpoint};
use crate::model::Request;
use crate::protocol::sse::SseStream;
use crate::protocol::{EncodeError, HttpRequest, ProtocolDefinition};

pub const API: &str = "google-generative-ai";

pub(crate) const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode_request,
    decoder: |_, empty| Box::new(SseStream::new(decode::GenerateDecoder::new(empty))),
    sends_own_key: true,
};

fn encode_request(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    let (body, thinking) = encode::body(encode::Place { api: API, ids: true }, endpoint, request)?;
    let path = format!("models/{}:streamGenerateContent?alt=sse", endpoint.model);
    let http = HttpRequest::new(endpoint, request, &path, Auth::header("x-goog-api-key"), body);
    Ok(HttpRequest { thinking, ..http })
}
