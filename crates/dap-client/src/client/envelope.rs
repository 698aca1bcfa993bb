//! The envelope of the Debug Adapter Protocol (DAP 1.71 §Base Protocol), with raw
//! bodies.
//!
//! Knows no command and no event. Invariants: unknown content survives in the body; sent messages hold no
//! explicit `null`; ids may be numbers or strings.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::Id;

#[derive(Debug, Clone)]
pub enum Message {
    Request {
        /// Sequence number, which some adapters send as a string.
        seq: Id,
        command: String,
        arguments: Option<Box<RawValue>>,
    },
    Response {
        request_seq: Id,
        command: Option<String>,
        /// The raw body, or the failure.
        outcome: Result<Box<RawValue>, AdapterError>,
    },
    Event {
        event: String,
        body: Option<Box<RawValue>>,
    },
}

/// The adapter's refusal of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AdapterError {
    /// The formatted text if there is one, else the short one.
    pub message: String,
}

/// A body that is no DAP message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a message of a debug adapter: {reason}")]
pub struct Malformed {
    pub reason: String,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    seq: Option<Id>,
    #[serde(default)]
    request_seq: Option<Id>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    event: Option<String>,
    #[serde(default)]
    success: Option<bool>,
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    #[serde(default)]
    body: Option<Box<RawValue>>,
}

/// Parses one body.
///
/// # Errors
/// [`Malformed`] for a body that is no request, response or event.
pub fn parse(body: &[u8]) -> Result<Message, Malformed> {
    let bad = |reason: String| Malformed { reason };
    let raw: Raw = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    let lacks = |what: &str| bad(format!("a {} without `{what}`", raw.kind));
    match raw.kind.as_str() {
        "request" => Ok(Message::Request {
            seq: raw.seq.clone().ok_or_else(|| lacks("seq"))?,
            command: raw.command.clone().ok_or_else(|| lacks("command"))?,
            arguments: raw.arguments,
        }),
        "response" => Ok(Message::Response {
            request_seq: raw.request_seq.clone().ok_or_else(|| lacks("request_seq"))?,
            command: raw.command.clone(),
            // Some adapters omit `success` in an answer with a body.
            outcome: if raw.success.unwrap_or(true) {
                Ok(raw.body.unwrap_or_else(empty))
            } else {
                Err(AdapterError { message: failure_reason(raw.message.as_ref(), raw.body.as_deref()) })
            },
        }),
        "event" => {
            let event = raw.event.clone().ok_or_else(|| lacks("event"))?;
            Ok(Message::Event { event, body: raw.body })
        }
        other => Err(bad(format!("its type is {other:?}"))),
    }
}

/// The reason of a failed response.
///
/// Prefers `body.error.format` with its variables over `message`.
fn failure_reason(message: Option<&Value>, body: Option<&RawValue>) -> String {
    let body: Value = body.and_then(|body| serde_json::from_str(body.get()).ok()).unwrap_or_default();
    let error = &body["error"];
    if let Some(format) = error["format"].as_str().filter(|format| !format.trim().is_empty()) {
        let mut text = format.to_owned();
        for (name, value) in error["variables"].as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text = text.replace(&format!("{{{name}}}"), &value);
        }
        return text.trim().to_owned();
    }
    match message {
        Some(Value::String(text)) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "it gave no reason".to_owned(),
    }
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an empty object is JSON")
}

#[derive(Serialize)]
struct Outgoing<'a> {
    seq: i64,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_seq: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a Value>,
}

impl Outgoing<'_> {
    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings, numbers and JSON values always serialize")
    }
}

/// Encodes a request; omits members that are `null`.
pub(crate) fn request(seq: i64, command: &str, arguments: Value) -> Vec<u8> {
    let arguments = without_nulls(arguments);
    let arguments = (!arguments.is_null()).then_some(arguments);
    let (arguments, kind) = (arguments.as_ref(), "request");
    let none = (None, None, None, None);
    let (request_seq, success, message, body) = none;
    Outgoing { seq, kind, request_seq, success, command, message, arguments, body }.bytes()
}

/// Encodes the answer to an adapter's request; the id returns unchanged.
pub(crate) fn response(seq: i64, to: &Id, command: &str, outcome: Result<Value, String>) -> Vec<u8> {
    let success = Some(outcome.is_ok());
    let message = outcome.as_ref().err().map(String::as_str);
    let body = match &outcome {
        Ok(body) => Some(without_nulls(body.clone())).filter(|body| !body.is_null()),
        // The protocol requires it (DAP §ErrorResponse).
        Err(why) => Some(json!({ "error": { "id": 1, "format": why } })),
    };
    let (kind, request_seq, body) = ("response", Some(to), body.as_ref());
    Outgoing { seq, kind, request_seq, success, command, message, arguments: None, body }.bytes()
}

/// The number of the answered request; adapters may write it as a string.
pub(crate) fn number(id: &Id) -> Option<i64> {
    match id {
        Id::Number(number) => Some(*number),
        Id::String(text) => text.trim().parse().ok(),
    }
}

/// Removes members that are `null`, at every depth; items of lists stay.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let shown = match parse(body.as_bytes()) {
            Ok(Message::Request { seq, command, arguments }) => {
                format!("{seq} {command} {}", arguments.map_or("-".into(), |it| it.get().to_owned()))
            }
            Ok(Message::Response { request_seq, outcome, .. }) => {
                let outcome = outcome.map_or_else(|error| error.message, |body| body.get().to_owned());
                format!("{request_seq} {:?} {outcome}", number(&request_seq))
            }
            Ok(Message::Event { event, body }) => {
                format!("{event} {}", body.map_or("-".into(), |it| it.get().to_owned()))
            }
            Err(malformed) => malformed.to_string(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn unknown_content_survives() {
        check(
            r#"{"seq":1,"type":"event","event":"debugpySockets","body":{"big":12345678901234567890123,"x":null}}"#,
            r#"debugpySockets {"big":12345678901234567890123,"x":null}"#,
        );
        check(r#"{"seq":"a","type":"request","command":"new/thing","extra":1}"#, "\"a\" new/thing -");
    }

    #[test]
    fn ids_may_be_strings() {
        check(r#"{"type":"response","request_seq":"7","success":true}"#, "\"7\" Some(7) {}");
        check(r#"{"type":"response","request_seq":7,"success":true,"body":{"a":1}}"#, "7 Some(7) {\"a\":1}");
    }

    #[test]
    fn the_best_reason_of_a_failure_is_used() {
        check(
            r#"{"type":"response","request_seq":1,"success":false,"message":"notStopped",
               "body":{"error":{"id":1,"format":"no {what} here","variables":{"what":"frame"}}}}"#,
            "1 Some(1) no frame here",
        );
        check(r#"{"type":"response","request_seq":1,"success":false,"message":" no "}"#, "1 Some(1) no");
        check(r#"{"type":"response","request_seq":1,"success":false}"#, "1 Some(1) it gave no reason");
    }

    #[test]
    fn a_malformed_message_is_explained() {
        let said = |what: &str| format!("not a message of a debug adapter: {what}");
        check(r#"{"type":"event"}"#, &said("a event without `event`"));
        check(r#"{"jsonrpc":"2.0","id":1}"#, &said("its type is \"\""));
        assert!(parse(b"[]").is_err());
    }

    #[test]
    fn sent_messages_contain_no_null() {
        let sent = request(3, "launch", json!({"a": null, "b": {"c": null, "d": [null, 1]}}));
        let expected = r#"{"seq":3,"type":"request","command":"launch","arguments":{"b":{"d":[null,1]}}}"#;
        assert_eq!(String::from_utf8(sent).unwrap(), expected);
        let sent = response(4, &Id::String("x".into()), "runInTerminal", Err("no".into()));
        let expected = r#"{"seq":4,"type":"response","request_seq":"x","success":false,"command":"runInTerminal","message":"no","body":{"error":{"id":1,"format":"no"}}}"#;
        assert_eq!(String::from_utf8(sent).unwrap(), expected);
    }
}
