//! OpenAI's responses as served by Azure.
//!
//! The bodies are those of [`super::openai_responses`], with a deployment name as model, a version in the
//! address, the key in `api-key`, and encrypted reasoning only at the end of a response.

use super::openai_responses::{decode, encode};
use crate::endpoint::{Auth, Endpoint};
use crate::model::Request;
use crate::protocol::sse::SseStream;
use crate::protocol::{EncodeError, HttpRequest, ProtocolDefinition};

pub const API: &str = "azure-openai-responses";

/// The version if the address has none.
const VERSION: &str = "api-version=v1";
/// Hosts of resources, whose API is below `/openai/v1`.
const HOSTS: [&str; 3] = [".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"];

pub(crate) const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode_request,
    decoder: |_, empty| Box::new(SseStream::new(decode::ResponsesDecoder::new(empty).with_late_reasoning())),
    sends_own_key: true,
};

fn encode_request(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    let deployment = endpoint.compat.deployments.get(&endpoint.model).unwrap_or(&endpoint.model);
    let (body, thinking) = encode::body(API, deployment, endpoint, request)?;
    let http = HttpRequest::new(endpoint, request, "", Auth::header("api-key"), body);
    Ok(HttpRequest { url: address(&endpoint.base_url), thinking, ..http })
}

/// The address of responses.
///
/// Adds the standard path to a host alone; keeps the address's own version.
fn address(base_url: &str) -> String {
    let (base, query) = base_url.split_once('?').unwrap_or((base_url, VERSION));
    let base = base.trim_end_matches('/');
    let is_resource = HOSTS.iter().any(|host| base.ends_with(host));
    let path = if is_resource { "/openai/v1" } else { "" };
    format!("{base}{path}/responses?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_completed_and_keeps_its_version() {
        for (base_url, expected) in [
            ("https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/responses?api-version=v1"),
            (
                "https://r.services.ai.azure.com/",
                "https://r.services.ai.azure.com/openai/v1/responses?api-version=v1",
            ),
            (
                "https://r.openai.azure.com/openai/v1/",
                "https://r.openai.azure.com/openai/v1/responses?api-version=v1",
            ),
            (
                "https://r.openai.azure.com/openai?api-version=2025-04-01-preview",
                "https://r.openai.azure.com/openai/responses?api-version=2025-04-01-preview",
            ),
            ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x/responses?api-version=v1"),
        ] {
            assert_eq!(address(base_url), expected);
        }
    }

    #[test]
    fn a_deployment_replaces_its_model() {
        let mut endpoint = Endpoint::new("azure", "https://r.openai.azure.com", "gpt-x");
        endpoint.compat.deployments.insert("gpt-x".to_owned(), "mine".to_owned());
        let model = |endpoint: &Endpoint| {
            encode_request(endpoint, &Request::default()).unwrap().body["model"].clone()
        };
        assert_eq!(model(&endpoint), "mine");
        assert_eq!(model(&Endpoint { model: "other".to_owned(), ..endpoint }), "other");
    }
}
