//! Providers' wire protocols. Each is two pure halves, a request encoded and bytes decoded into
//! events; what touches the network is one shared edge. A vendor's oddities are data of its protocol, not code here.

pub mod openai_completions;
pub mod sse;

use serde_json::Value;

use crate::message::ErrorKind;
use crate::secret::ApiKey;
use crate::stream::StreamEvent;

/// A request ready to be sent: always a POST with a JSON body.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest {
    /// The whole address.
    pub url: String,
    /// Further headers, without the key.
    pub headers: Vec<(String, String)>,
    /// Sent as `Authorization: Bearer`, if there is one.
    pub api_key: Option<ApiKey>,
    /// The body.
    pub body: Value,
}

/// Turns a response's bytes into events. Pure: the same bytes give the same events apart from times, however they
/// are cut. After an event that ends the stream it returns nothing more.
pub trait Decoder: Send {
    /// Takes the next bytes of an event stream.
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent>;

    /// Takes a whole answer, from a server that does not stream.
    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent>;

    /// The bytes are over; `cut` says why if the connection broke. Ends the stream unless it has ended.
    fn finish(&mut self, cut: Option<(ErrorKind, String)>) -> Vec<StreamEvent>;

    /// Whether the final event has been returned.
    fn ended(&self) -> bool;
}
