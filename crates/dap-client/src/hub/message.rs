//! Protocol message on its way through the hub, with raw members.
//!
//! Pure. Invariants: unknown members, and numbers of any size, pass unchanged.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::envelope::Malformed;

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
    /// # Errors
    /// [`Malformed`] for a body that is no request, response or event.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let bad = |reason: String| Malformed { reason };
        let mut members: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
        // Some adapters fail on an explicit null.
        members.retain(|name, value| !matches!(name.as_str(), "arguments" | "body") || value.get() != "null");
        let text = |name: &str| -> Option<String> {
            members.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
        };
        let lacks = |kind: &str, what: &str| bad(format!("a {kind} without `{what}`"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_members_leave_unchanged() {
        let text = r#"{"body":{"big":12345678901234567890123,"x":null},"event":"new/thing","extra":[1.10],"seq":1,"type":"event"}"#;
        let mut message = Envelope::parse(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(message.bytes()).unwrap(), text);
        message.set("seq", &json!(7));
        assert_eq!(String::from_utf8(message.bytes()).unwrap(), text.replace("\"seq\":1", "\"seq\":7"));
    }

    #[test]
    fn a_malformed_message_is_explained() {
        let reason = |text: &str| Envelope::parse(text.as_bytes()).unwrap_err().reason;
        assert_eq!(reason(r#"{"type":"event"}"#), "a event without `event`");
        assert_eq!(reason(r#"{"type":"request","command":"x"}"#), "a request without `seq`");
        assert_eq!(reason(r#"{"jsonrpc":"2.0"}"#), "its type is None");
    }
}
