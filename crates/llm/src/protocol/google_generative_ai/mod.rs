//! Google's generative language API, which serves Gemini.
//!
//! The request is `POST /models/MODEL:streamGenerateContent`.

pub(super) mod decode;
pub(super) mod encode;
mod partial_arguments;

use crate::endpoint::{Auth, Endpoint};
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

pub const API: &str = "google-generative-ai";

#[derive(Debug, Clone, Copy)]
pub(crate) struct GoogleGenerativeAi;

impl Protocol for GoogleGenerativeAi {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        let (body, thinking) = encode::body(encode::Place { api: API, ids: true }, endpoint, request)?;
        let path = format!("models/{}:streamGenerateContent?alt=sse", endpoint.model);
        let http = HttpRequest::new(endpoint, request, &path, Auth::header("x-goog-api-key"), body);
        Ok(HttpRequest { thinking, ..http })
    }

    fn decoder(&self, _: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        Box::new(decode::GenerateDecoder::new(empty))
    }
}
