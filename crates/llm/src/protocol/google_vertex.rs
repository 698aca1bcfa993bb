//! Gemini as served by Google's Vertex AI.
//!
//! The bodies are those of [`super::google_generative_ai`], at a project's address (`POST
//! …/projects/P/locations/L/publishers/google/models/MODEL:streamGenerateContent`) with a bearer token. An
//! API key needs `auth = { header = "x-goog-api-key" }`. This module does not obtain tokens. Version 1
//! rejects call ids, so calls and results are matched by order.

use super::google_generative_ai::{decode, encode};
use crate::endpoint::{Auth, Endpoint};
use crate::model::Request;
use crate::protocol::sse::SseStream;
use crate::protocol::{EncodeError, HttpRequest, ProtocolDefinition};

pub const API: &str = "google-vertex";

pub(crate) const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode_request,
    decoder: |_, empty| Box::new(SseStream::new(decode::GenerateDecoder::new(empty))),
    sends_own_key: true,
};

fn encode_request(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
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
            let http = encode_request(&Endpoint::new("v", place, model), &Request::default()).unwrap();
            assert_eq!(http.url, format!("{place}/{path}:streamGenerateContent?alt=sse"));
        }
    }

    #[test]
    fn the_global_location_has_a_plain_host() {
        let place = "https://global-aiplatform.googleapis.com/v1/projects/p/locations/global";
        let http = encode_request(&Endpoint::new("v", place, "g"), &Request::default()).unwrap();
        let expected = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers";
        assert!(http.url.starts_with(expected), "{}", http.url);
    }
}
