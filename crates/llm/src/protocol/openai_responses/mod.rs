//! OpenAI's responses (`POST /responses`, streamed), without server-side storage.
//!
//! Reasoning is encrypted and sent back with the transcript.

pub(super) mod decode;
pub(super) mod encode;

use serde_json::{Value, json};

use crate::endpoint::{Auth, Endpoint};
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

pub const API: &str = "openai-responses";

#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenAiResponses;

impl Protocol for OpenAiResponses {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        let (body, thinking) = encode::body(API, &endpoint.model, endpoint, request)?;
        let http = HttpRequest::new(endpoint, request, "responses", Auth::bearer(), body);
        Ok(HttpRequest { thinking, ..http })
    }

    fn decoder(&self, _: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        Box::new(decode::ResponsesDecoder::new(empty))
    }
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
