//! Amazon Bedrock's `ConverseStream`, for all its models.
//!
//! The request is `POST /model/MODEL/converse-stream`. It has a key as a bearer token; without a key, the
//! transport signs it with the endpoint's [`crate::AwsCredentials`]. `aws-smithy-eventstream` parses the
//! binary frames.

mod decode;
mod encode;

use crate::protocol::ProtocolDefinition;

pub const API: &str = "bedrock-converse-stream";

pub(crate) const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode::encode,
    decoder: |_, empty| Box::new(decode::ConverseDecoder::new(empty)),
    sends_own_key: true,
};
