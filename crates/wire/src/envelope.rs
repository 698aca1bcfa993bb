//! The JSON-RPC 2.0 envelope, with raw bodies.
//!
//! Knows no method. A message that is not JSON-RPC is a [`Malformed`] value for the caller to log; it never
//! ends a stream. Unknown fields are ignored.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// Error codes of JSON-RPC 2.0 §5.1 and LSP 3.17 §Error Codes.
pub mod codes {
    /// The peer does not implement the method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The peer failed internally.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The client sent a request before `initialize`.
    pub const SERVER_NOT_INITIALIZED: i64 = -32002;
    /// A well-formed request failed.
    pub const REQUEST_FAILED: i64 = -32803;
    /// The server cancelled a request by itself.
    pub const SERVER_CANCELLED: i64 = -32802;
    /// The content changed during a request.
    pub const CONTENT_MODIFIED: i64 = -32801;
    /// The request was cancelled.
    pub(crate) const REQUEST_CANCELLED: i64 = -32800;
}

/// The id of a request. The peer may use strings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number; this side's ids are numbers.
    Number(i64),
    /// A string, which only the peer chooses.
    String(String),
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::String(string) => write!(f, "{string:?}"),
        }
    }
}

/// The `error` member of a response.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// A number from [`codes`], or one that the other side defines.
    pub code: i64,
    /// The failure, in one sentence.
    #[serde(default)]
    pub message: String,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Builds a [`codes::METHOD_NOT_FOUND`] error for `method`.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(codes::METHOD_NOT_FOUND, format!("unknown method {method}"))
    }
}

/// A JSON-RPC message.
#[derive(Debug, Clone)]
pub enum Envelope {
    /// A request, which requires a response with its id.
    Request {
        /// The id to repeat in the response.
        id: Id,
        /// The requested method.
        method: String,
        /// The unparsed parameters.
        params: Option<Box<RawValue>>,
    },
    /// A notification, which requires no response.
    Notification {
        /// The notified method.
        method: String,
        /// The unparsed parameters.
        params: Option<Box<RawValue>>,
    },
    /// The response to a request of this side.
    Response {
        /// The request's id; `None` if the peer could not read it.
        id: Option<Id>,
        /// The unparsed `result`, or `error`.
        outcome: Result<Box<RawValue>, RpcError>,
    },
}

/// A body that is not a JSON-RPC message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON-RPC message: {reason}")]
pub struct Malformed {
    /// The problem, for the log.
    pub reason: String,
    /// The id, if the body is recognizably a request; it can be answered with an error.
    pub id: Option<Id>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// Distinguishes `null` from a missing field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A received message; nothing of a notification is copied.
pub(crate) enum Incoming<'a> {
    /// A notification, which requires no response.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A request, which requires a response with its id.
    Request { id: Id, method: String, params: Option<Box<RawValue>> },
    /// The response to a request of this side.
    Response { id: Option<Id>, outcome: Result<Box<RawValue>, RpcError> },
}

/// Parses one body.
///
/// # Errors
/// [`Malformed`] for anything but a JSON object with a method or an outcome.
pub fn parse(body: &[u8]) -> Result<Envelope, Malformed> {
    Ok(match read(body)? {
        Incoming::Request { id, method, params } => Envelope::Request { id, method, params },
        Incoming::Response { id, outcome } => Envelope::Response { id, outcome },
        Incoming::Notification { method, params } => {
            Envelope::Notification { method: method.into_owned(), params: params.map(RawValue::to_owned) }
        }
    })
}

/// Parses one body and borrows the parts that need not be stored.
///
/// # Errors
///
/// Like [`parse`].
pub(crate) fn read(body: &[u8]) -> Result<Incoming<'_>, Malformed> {
    let bad = |reason: String, id: Option<Id>| Malformed { reason, id };
    let raw: Raw<'_> = serde_json::from_slice(body).map_err(|error| bad(error.to_string(), None))?;
    let id = match raw.id.map(RawValue::get) {
        None | Some("null") => None,
        Some(text) => {
            Some(parse_id(text).ok_or_else(|| bad(format!("id {text} is neither number nor string"), None))?)
        }
    };
    if let Some(method) = raw.method {
        return match id {
            Some(id) => {
                let (method, params) = (method.into_owned(), raw.params.map(RawValue::to_owned));
                Ok(Incoming::Request { id, method, params })
            }
            None if raw.id.is_some() => Err(bad(format!("request {method} with id null"), None)),
            None => Ok(Incoming::Notification { method, params: raw.params }),
        };
    }
    if let Some(error) = raw.error {
        let error = serde_json::from_str(error.get())
            .unwrap_or_else(|_| RpcError::new(codes::INTERNAL_ERROR, error.get().to_owned()));
        return Ok(Incoming::Response { id, outcome: Err(error) });
    }
    match raw.result {
        Some(result) => Ok(Incoming::Response { id, outcome: Ok(result.to_owned()) }),
        // Some servers omit `result: null`; an id alone can only mean that.
        None if id.is_some() => Ok(Incoming::Response { id, outcome: Ok(null()) }),
        None => Err(bad("it has no method, no result and no error".to_owned(), id)),
    }
}

/// A number written as `1.0` is the same id.
fn parse_id(text: &str) -> Option<Id> {
    if let Ok(id) = serde_json::from_str(text) {
        return Some(id);
    }
    let number: f64 = serde_json::from_str(text).ok()?;
    let whole = number.fract() == 0.0 && number.abs() < 9e15;
    whole.then_some(Id::Number(number as i64))
}

/// Serializes a value to raw JSON.
///
/// # Errors
/// Those of `serde_json`: a map with keys that are not strings, or a failing `Serialize`.
pub fn raw(value: &(impl Serialize + ?Sized)) -> serde_json::Result<Box<RawValue>> {
    serde_json::value::to_raw_value(value)
}

pub(crate) fn null() -> Box<RawValue> {
    RawValue::from_string("null".to_owned()).expect("null is JSON")
}

#[derive(Serialize)]
struct Outgoing<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RpcError>,
}

impl Envelope {
    /// The message as one compact body without line ends.
    pub fn to_bytes(&self) -> Vec<u8> {
        let empty =
            Outgoing { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None };
        let outgoing = match self {
            Self::Request { id, method, params } => {
                Outgoing { id: Some(id), method: Some(method), params: params.as_deref(), ..empty }
            }
            Self::Notification { method, params } => {
                Outgoing { method: Some(method), params: params.as_deref(), ..empty }
            }
            Self::Response { id, outcome: Ok(result) } => {
                Outgoing { id: id.as_ref(), result: Some(result), ..empty }
            }
            Self::Response { id, outcome: Err(error) } => {
                Outgoing { id: id.as_ref(), error: Some(error), ..empty }
            }
        };
        serde_json::to_vec(&outgoing).expect("strings, numbers and raw JSON always serialize")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let shown = match parse(body.as_bytes()) {
            Ok(envelope) => String::from_utf8(envelope.to_bytes()).unwrap(),
            Err(malformed) => malformed.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn bodies_are_passed_unchanged() {
        let request = r#"{"jsonrpc":"2.0","id":"a-1","method":"x/y","params":{"big":12345678901234567890123,"é":[1.0]}}"#;
        check(request, request);
        let response = r#"{"jsonrpc":"2.0","id":7,"result":null}"#;
        check(response, response);
        check(r#"{"id":7,"result":{"a":1},"error":null}"#, r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#);
        check(r#"{"id":7.0}"#, response);
        check(r#"{"method":"m","extra":{}}"#, r#"{"jsonrpc":"2.0","method":"m"}"#);
        check(
            r#"{"id":1,"error":{"code":-5,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no"}}"#,
        );
    }

    #[test]
    fn malformed_messages_are_described() {
        check("{}", "not a JSON-RPC message: it has no method, no result and no error");
        check(r#"{"id":null,"method":"m"}"#, "not a JSON-RPC message: request m with id null");
        check(r#"{"id":[],"method":"m"}"#, "not a JSON-RPC message: id [] is neither number nor string");
        assert!(parse(b"[]").is_err());
        assert!(parse(b"{\"method\":\"\xff\"}").is_err());
    }
}
