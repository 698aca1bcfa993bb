//! Amazon Bedrock's `ConverseStream` (`POST /model/MODEL/converse-stream`), for all its models.
//!
//! A key is sent as a bearer token; without one the request is signed with the endpoint's
//! [`crate::AwsCredentials`]. `aws-smithy-eventstream` parses the binary frames.

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
