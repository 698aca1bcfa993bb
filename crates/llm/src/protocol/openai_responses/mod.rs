//! OpenAI's responses (`POST /responses`, streamed), without server-side storage.
//!
//! Reasoning is encrypted and sent back with the transcript.

pub(super) mod decode;
pub(super) mod encode;

use serde_json::{Value, json};

use crate::endpoint::{Auth, Endpoint};
use crate::model::Request;
use crate::protocol::sse::SseStream;
use crate::protocol::{EncodeError, HttpRequest, ProtocolDefinition};

pub const API: &str = "openai-responses";

pub(crate) const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode_request,
    decoder: |_, empty| Box::new(SseStream::new(decode::ResponsesDecoder::new(empty))),
    sends_own_key: true,
};

fn encode_request(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    let (body, thinking) = encode::body(API, &endpoint.model, endpoint, request)?;
    let http = HttpRequest::new(endpoint, request, "responses", Auth::bearer(), body);
    Ok(HttpRequest { thinking, ..http })
}

/// Whether a reasoning item has content.
///
/// The provider has stored no empty item, and rejects its id.
fn is_replayable(item: &Value) -> bool {
    let has_content = item["content"].as_array().is_some_and(|content| !content.is_empty());
    has_content || super::non_empty(&item["encrypted_content"]).is_some()
}

/// A text's id and phase, as stored in its signature.
fn text_signature(item: &Value) -> Option<String> {
    let id = item["id"].as_str()?;
    let mut signature = json!({ "v": 1, "id": id });
    if let Some(phase) = item["phase"].as_str() {
        signature["phase"] = json!(phase);
    }
    Some(signature.to_string())
}

/// Both ids of a call in one: results use one, and the call is sent back with both.
fn call_id(item: &Value) -> String {
    let call = item["call_id"].as_str().unwrap_or_default();
    match item["id"].as_str() {
        Some(id) if !id.is_empty() => format!("{call}|{id}"),
        _ => call.to_owned(),
    }
}
