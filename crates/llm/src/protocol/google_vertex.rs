//! Gemini as served by Google's Vertex AI.
//!
//! The bodies are those of [`super::google_generative_ai`], at a project's address (`POST
//! …/projects/P/locations/L/publishers/google/models/MODEL:streamGenerateContent`) with a bearer token. An
//! API key needs `auth = { header = "x-goog-api-key" }`. This module does not obtain tokens. Version 1
//! rejects call ids, so calls and results are matched by order.

use super::google_generative_ai::{decode, encode};
use crate::endpoint::{Auth, Endpoint};
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

pub const API: &str = "google-vertex";

#[derive(Debug, Clone, Copy)]
pub(crate) struct GoogleVertex;

impl Protocol for GoogleVertex {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        let (body, thinking) = encode::body(encode::Place { api: API, ids: false }, endpoint, request)?;
        // A tuned model is served by an endpoint of the project.
        let model = match endpoint.model.contains('/') {
            true => endpoint.model.clone(),
            false => format!("publishers/google/models/{}", endpoint.model),
        };
        let path = format!("{model}:streamGenerateContent?alt=sse");
        let http = HttpRequest::new(endpoint, request, &path, Auth::bearer(), body);
        // The location `global` has a host without a location.
        let url = http.url.replacen("//global-aiplatform.", "//aiplatform.", 1);
        Ok(HttpRequest { url, thinking, ..http })
    }

    fn decoder(&self, _: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        Box::new(decode::GenerateDecoder::new(empty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_and_tuned_models_have_their_paths() {
        let place = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1";
        for (model, path) in [
            ("gemini-x", "publishers/google/models/gemini-x"),
            ("publishers/google/models/gemini-x", "publishers/google/models/gemini-x"),
            ("endpoints/123", "endpoints/123"),
        ] {
            let http = GoogleVertex.encode(&Endpoint::new("v", place, model), &Request::default()).unwrap();
            assert_eq!(http.url, format!("{place}/{path}:streamGenerateContent?alt=sse"));
        }
    }

    #[test]
    fn the_global_location_has_a_plain_host() {
        let place = "https://global-aiplatform.googleapis.com/v1/projects/p/locations/global";
        let http = GoogleVertex.encode(&Endpoint::new("v", place, "g"), &Request::default()).unwrap();
        let expected = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers";
        assert!(http.url.starts_with(expected), "{}", http.url);
    }
}
