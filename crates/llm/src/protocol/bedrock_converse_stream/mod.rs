//! Amazon Bedrock's `ConverseStream` (`POST /model/MODEL/converse-stream`), for every model that is served there.
//!
//! A key is sent as bearer token; without one the request is signed with the endpoint's [`crate::AwsKeys`], if it has any.
//! The answer is a binary event stream, whose frames are read by `aws-smithy-eventstream`.

mod decode;
mod encode;

use crate::endpoint::Endpoint;
use crate::message::AssistantMessage;
use crate::model::Request;
use crate::protocol::{Decoder, EncodeError, HttpRequest, Protocol};

/// The protocol's name.
pub const API: &str = "bedrock-converse-stream";

/// The protocol.
#[derive(Debug, Clone, Copy)]
pub struct BedrockConverseStream;

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
