//! A message of the Debug Adapter Protocol (DAP 1.71 §Base Protocol), with raw members.
//!
//! Pure. Knows no command and no event. Invariants: unknown members, and numbers of any size, pass unchanged;
//! ids may be numbers or strings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::value::RawValue;
use serde_json::{Value, json};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Request,
    Response,
    Event,
}

/// A message with raw members.
///
/// Cheap to change, and cheap to clone if bodies are small.
#[derive(Debug, Clone)]
pub struct Envelope {
    pub kind: Kind,
    /// Name of the command or event.
    pub name: String,
    members: BTreeMap<String, Box<RawValue>>,
}

impl Envelope {
    /// Reads one body (DAP 1.71 §Base Protocol).
    ///
    /// Invalid Unicode is marked with U+FFFD.
    ///
    /// # Errors
    /// [`Malformed`] for a body that is not a request, response or event.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let bad = |reason: String| Malformed { reason };
        let mut members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(&lenient(body)).map_err(|error| bad(error.to_string()))?;
        // Some adapters fail on an explicit null.
        members.retain(|name, value| !matches!(name.as_str(), "arguments" | "body") || value.get() != "null");
        let text = |name: &str| -> Option<String> {
            members.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
        };
        let lacks = |kind: &str, what: &str| bad(format!("{kind} without `{what}`"));
        let (kind, name) = match text("type").as_deref() {
            Some("request") => {
                if !members.contains_key("seq") {
                    return Err(lacks("request", "seq"));
                }
                (Kind::Request, text("command").ok_or_else(|| lacks("request", "command"))?)
            }
            Some("response") => {
                if !members.contains_key("request_seq") {
                    return Err(lacks("response", "request_seq"));
                }
                (Kind::Response, text("command").unwrap_or_default())
            }
            Some("event") => (Kind::Event, text("event").ok_or_else(|| lacks("event", "event"))?),
            other => return Err(bad(format!("its type is {other:?}"))),
        };
        Ok(Self { kind, name, members })
    }

    pub fn event(name: &str, body: Value) -> Self {
        let fields = json!({ "type": "event", "event": name, "body": body });
        Self::from_fields(Kind::Event, name, fields)
    }

    pub fn request(command: &str, arguments: Value) -> Self {
        let fields = json!({ "type": "request", "command": command, "arguments": arguments });
        Self::from_fields(Kind::Request, command, fields)
    }

    /// A successful response to `command`; the sender sets `request_seq`.
    pub fn answer(command: &str, body: Value) -> Self {
        let fields = json!({ "type": "response", "success": true, "command": command, "body": body });
        Self::from_fields(Kind::Response, command, fields)
    }

    /// A refusal of `command`, with a code and a sentence (DAP §ErrorResponse).
    ///
    /// The sentence is for the user.
    pub fn refusal(command: &str, short: &str, sentence: &str) -> Self {
        let error = json!({ "id": 1, "format": sentence, "showUser": true });
        let fields = json!({ "type": "response", "success": false, "command": command, "message": short,
            "body": { "error": error } });
        Self::from_fields(Kind::Response, command, fields)
    }

    fn from_fields(kind: Kind, name: &str, fields: Value) -> Self {
        let mut made = Self { kind, name: name.to_owned(), members: BTreeMap::new() };
        if let Value::Object(fields) = fields {
            for (member, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
                made.set(&member, &value);
            }
        }
        made
    }

    /// A member as raw JSON.
    pub fn raw(&self, name: &str) -> Option<&RawValue> {
        self.members.get(name).map(AsRef::as_ref)
    }

    /// A member, parsed; null if missing.
    pub fn value(&self, name: &str) -> Value {
        self.raw(name).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    /// The arguments of a request, or the body of any other message.
    pub fn content(&self) -> Value {
        self.value(self.content_name())
    }

    /// Replaces arguments or body; null removes them.
    pub fn set_content(&mut self, content: &Value) {
        self.set(self.content_name(), content);
    }

    fn content_name(&self) -> &'static str {
        if self.kind == Kind::Request { "arguments" } else { "body" }
    }

    /// The text of a number member, as a key for tables.
    pub fn key(&self, name: &str) -> String {
        self.raw(name).map(|raw| raw.get().trim().to_owned()).unwrap_or_default()
    }

    /// The number of the answered request; adapters may write it as a string.
    pub fn answers(&self) -> Option<i64> {
        match self.value("request_seq") {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// Whether a response is successful. Some adapters omit the member.
    pub fn success(&self) -> bool {
        self.value("success").as_bool().unwrap_or(true)
    }

    /// The raw body of a response, or the failure.
    pub fn outcome(&self) -> Result<Box<RawValue>, AdapterError> {
        if self.success() {
            let empty = || RawValue::from_string("{}".to_owned()).expect("an empty object is JSON");
            return Ok(self.raw("body").map_or_else(empty, ToOwned::to_owned));
        }
        Err(AdapterError { message: self.failure_reason() })
    }

    /// `body.error.format` with its variables, else `message`.
    fn failure_reason(&self) -> String {
        let body = self.content();
        let error = &body["error"];
        if let Some(format) = error["format"].as_str().filter(|format| !format.trim().is_empty()) {
            let mut text = format.to_owned();
            for (name, value) in error["variables"].as_object().into_iter().flatten() {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text = text.replace(&format!("{{{name}}}"), &value);
            }
            return text.trim().to_owned();
        }
        let message = self.value("message");
        let message = message.as_str().map(str::trim).filter(|message| !message.is_empty());
        message.unwrap_or("it gave no reason").to_owned()
    }

    /// Sets a member; null removes it.
    pub fn set(&mut self, name: &str, value: &Value) {
        if value.is_null() {
            self.members.remove(name);
        } else if let Ok(raw) = serde_json::value::to_raw_value(value) {
            self.members.insert(name.to_owned(), raw);
        }
    }

    /// Sets an unparsed member.
    pub(crate) fn set_raw(&mut self, name: &str, raw: Box<RawValue>) {
        self.members.insert(name.to_owned(), raw);
    }

    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.members).unwrap_or_default()
    }
}

/// The body as valid text: U+FFFD replaces invalid bytes and escapes.
///
/// Python and JavaScript strings may hold half of a surrogate pair, which JSON text escapes (RFC 8259 §8.2).
fn lenient(body: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(body);
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return text;
    }
    // A backslash occurs only in strings, and the character after it is never a backslash of its own.
    static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
        let pair = r"\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}";
        let half = r"\\u[dD][89a-fA-F][[:xdigit:]]{2}";
        Regex::new(&format!(r"{pair}|(?<half>{half})|\\.")).expect("the pattern is valid")
    });
    let repaired = ESCAPE.replace_all(&text, |found: &Captures<'_>| match found.name("half") {
        Some(_) => "\\ufffd".to_owned(),
        None => found[0].to_owned(),
    });
    Cow::Owned(repaired.into_owned())
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

    #[test]
    fn unknown_members_are_written_unchanged() {
        let text = r#"{"body":{"big":12345678901234567890123,"x":null},"event":"new/thing","extra":[1.10],"seq":1,"type":"event"}"#;
        let mut message = Envelope::parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(message.bytes()).unwrap(), text);
        message.set("seq", &json!(7));
        assert_eq!(String::from_utf8(message.bytes()).unwrap(), text.replace("\"seq\":1", "\"seq\":7"));
    }

    #[test]
    fn invalid_unicode_is_marked_and_the_rest_kept() {
        let text = |escaped: &[u8]| {
            let body =
                [br#"{"type":"event","event":"output","body":{"output":""#, escaped, br#""}}"#].concat();
            Envelope::parse(&body).unwrap().content()["output"].as_str().unwrap().to_owned()
        };
        assert_eq!(text(br"a\ud800b \uDCFF\n"), "a\u{fffd}b \u{fffd}\n");
        assert_eq!(text(br"\ud83d\ude00 \\ud800 \ud83d\ud83d\ude00"), "\u{1f600} \\ud800 \u{fffd}\u{1f600}");
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn a_malformed_message_is_explained() {
        let reason = |text: &str| Envelope::parse(text.as_bytes()).unwrap_err().reason;
        assert_eq!(reason(r#"{"type":"event"}"#), "event without `event`");
        assert_eq!(reason(r#"{"type":"request","command":"x"}"#), "request without `seq`");
        assert_eq!(reason(r#"{"jsonrpc":"2.0"}"#), "its type is None");
    }

    #[track_caller]
    fn check(body: &str, expected: &str) {
        let message = Envelope::parse(body.as_bytes()).unwrap();
        let outcome = message.outcome().map_or_else(|error| error.message, |body| body.get().to_owned());
        assert_eq!(format!("{:?} {outcome}", message.answers()), expected);
    }

    #[test]
    fn ids_may_be_strings() {
        check(r#"{"type":"response","request_seq":"7","success":true}"#, "Some(7) {}");
        check(r#"{"type":"response","request_seq":7,"success":true,"body":{"a":1}}"#, "Some(7) {\"a\":1}");
    }

    #[test]
    fn the_best_reason_of_a_failure_is_used() {
        check(
            r#"{"type":"response","request_seq":1,"success":false,"message":"notStopped",
               "body":{"error":{"id":1,"format":"no {what} here","variables":{"what":"frame"}}}}"#,
            "Some(1) no frame here",
        );
        check(r#"{"type":"response","request_seq":1,"success":false,"message":" no "}"#, "Some(1) no");
        check(r#"{"type":"response","request_seq":1,"success":false}"#, "Some(1) it gave no reason");
    }
}
