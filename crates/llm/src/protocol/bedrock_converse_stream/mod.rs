//! Amazon Bedrock's `ConverseStream`, for all its models.
//!
//! The request is `POST /model/MODEL/converse-stream`. It has a key as a bearer token; without a key, the
//! transport signs it with the endpoint's [`crate::AwsCredentials`]. `aws-smithy-eventstream` parses the
//! binary frames.

mod decode;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

pub const API: &str = "bedrock-converse-stream";

#[derive(Debug, Clone, Copy)]
pub(crate) struct BedrockConverseStream;

impl Protocol for BedrockConverseStream {
    fn name(&self) -> &str {
        API
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        encode::encode(endpoint, request)
    }

    fn decoder(&self, _: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        Box::new(decode::ConverseDecoder::new(empty))
    }
}
