//! Protocol of `pilcrow proxy` (`docs/protocols/proxy.md`), both sides.
//!
//! The stream consists of server-sent events that do not repeat earlier deltas; the client's
//! message equals the proxy's. The protocol is not in [`super::Protocols`], since it does not
//! address a provider.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::endpoint::{Auth, Endpoint};
use crate::message::{AssistantMessage, Content, ErrorKind, Message, ModelError};
use crate::message_builder::MessageBuilder;
use crate::model::{Request, ToolDefinition};
use crate::options::{CacheRetention, ThinkingLevel, ToolChoice};
use crate::partial_json::parse_arguments;
use crate::protocol::sse::SseDecoder;
use crate::protocol::{Decoder, EncodeError, HttpRequest, ProtocolDefinition};
use crate::stream::StreamEvent;

pub const API: &str = "pilcrow-proxy";

pub const PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: API,
    encode: encode_request,
    decoder: |_, empty| {
        Box::new(Client { sse: SseDecoder::default(), built: Built::new(empty), ended: false })
    },
    sends_own_key: false,
};

/// A request to a proxy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// The model as `PROVIDER/ID`.
    model: String,
    context: Context,
    #[serde(default)]
    options: Options,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    #[serde(default)]
    system: String,
    messages: Vec<Message>,
    #[serde(default)]
    tools: Vec<ToolDefinition>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingLevel>,
    tool_choice: Choice,
    cache: Cache,
    #[serde(skip_serializing_if = "String::is_empty")]
    session_id: String,
    #[serde(skip_serializing_if = "is_zero")]
    retries: u32,
}

/// An older proxy refuses fields that it does not know.
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Choice {
    #[default]
    Auto,
    Any,
    None,
    Tool(String),
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cache {
    None,
    #[default]
    Short,
    Long,
}
fn encode_request(endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
    super::check_tools(endpoint, request)?;
    let asked = Asked {
        model: format!("{}/{}", endpoint.provider, endpoint.model),
        context: Context {
            system: request.system.clone(),
            messages: request.messages.to_vec(),
            tools: request.tools.clone(),
        },
        options: Options {
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            thinking: request.thinking.or(endpoint.level),
            tool_choice: match &request.tool_choice {
                ToolChoice::Auto => Choice::Auto,
                ToolChoice::Any => Choice::Any,
                ToolChoice::None => Choice::None,
                ToolChoice::Tool(name) => Choice::Tool(name.clone()),
            },
            cache: match request.cache {
                CacheRetention::None => Cache::None,
                CacheRetention::Short => Cache::Short,
                CacheRetention::Long => Cache::Long,
            },
            session_id: request.session_id.clone(),
            retries: request.retries,
        },
    };
    // Strings, numbers and lists of them always serialize.
    let body = serde_json::to_value(asked).unwrap_or_default();
    // A key in the request is for the provider; the proxy has its own key.
    let keyless = Request { api_key: None, ..request.clone() };
    let http = HttpRequest::new(endpoint, &keyless, "api/stream", Auth::bearer(), body);
    // The proxy applies the provider's restrictions.
    Ok(HttpRequest { names: Default::default(), ..http })
}

/// Parses a request to a proxy: the model as `PROVIDER/ID`, and the request.
pub fn read_request(body: &[u8]) -> Result<(String, Request), String> {
    // serde would read a list as fields in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err("the request is not a JSON object".to_owned());
    }
    let asked: Asked = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let Asked { model, context, options } = asked;
    let request = Request {
        system: context.system,
        messages: context.messages.into(),
        tools: context.tools,
        max_tokens: options.max_tokens,
        temperature: options.temperature,
        thinking: options.thinking,
        tool_choice: match options.tool_choice {
            Choice::Auto => ToolChoice::Auto,
            Choice::Any => ToolChoice::Any,
            Choice::None => ToolChoice::None,
            Choice::Tool(name) => ToolChoice::Tool(name),
        },
        cache: match options.cache {
            Cache::None => CacheRetention::None,
            Cache::Short => CacheRetention::Short,
            Cache::Long => CacheRetention::Long,
        },
        session_id: options.session_id,
        retries: options.retries,
        patience: None,
        api_key: None,
        observer: None,
    };
    Ok((model, request))
}

/// The message as built from the deltas, the same on both sides.
struct Built {
    builder: MessageBuilder,
    /// The text of the calls' arguments as received.
    arguments: HashMap<usize, String>,
}

impl Built {
    fn new(empty: AssistantMessage) -> Built {
        Built { builder: MessageBuilder::new(empty), arguments: HashMap::new() }
    }

    fn apply(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::ToolCallStart { index, .. } => {
                self.arguments.insert(*index, String::new());
            }
            StreamEvent::ToolCallDelta { index, delta } => {
                self.arguments.entry(*index).or_default().push_str(delta);
            }
            _ => {}
        }
        self.builder.apply(event);
    }

    /// The text of the block so far.
    fn text(&self, index: usize) -> Option<&str> {
        match self.builder.message().content.get(index)? {
            Content::Text { text, .. } => Some(text),
            Content::Thinking { thinking, .. } => Some(thinking),
            _ => None,
        }
    }

    /// The parsed arguments, or the error.
    fn call(&self, index: usize) -> (Map<String, Value>, Option<String>) {
        match parse_arguments(self.arguments.get(&index).map_or("", String::as_str)) {
            Ok(arguments) => (arguments, None),
            Err(error) => (Map::new(), Some(error)),
        }
    }
}

/// Encoder of the proxy's side.
pub struct ProxyEncoder {
    built: Built,
}

impl Default for ProxyEncoder {
    fn default() -> ProxyEncoder {
        ProxyEncoder { built: Built::new(AssistantMessage::empty("", "", "")) }
    }
}

impl ProxyEncoder {
    /// Encodes an event as a server-sent event.
    pub fn write(&mut self, event: &StreamEvent) -> String {
        let mut value = serde_json::to_value(event).unwrap_or_default();
        match event {
            StreamEvent::TextEnd { index, content } | StreamEvent::ThinkingEnd { index, content } => {
                let (field, text) = match content {
                    Content::Text { text, .. } => ("text", Some(text.as_str())),
                    Content::Thinking { thinking, .. } => ("thinking", Some(thinking.as_str())),
                    _ => ("", None),
                };
                if text.is_some() && text == self.built.text(*index) {
                    remove(&mut value["content"], &[field]);
                }
            }
            StreamEvent::ToolCallEnd { index, call }
                if self.built.call(*index) == (call.arguments.clone(), call.arguments_error.clone()) =>
            {
                remove(&mut value["call"], &["arguments", "argumentsError"]);
            }
            StreamEvent::Done { message } | StreamEvent::Error { message } => {
                let known = self.built.builder.snapshot().content;
                let blocks = message.content.iter().enumerate().map(|(index, block)| {
                    let is_known = known.get(index) == Some(block);
                    if is_known { Value::Null } else { json!(block) }
                });
                value["message"]["content"] = blocks.collect();
            }
            _ => {}
        }
        self.built.apply(event);
        format!("data: {value}\n\n")
    }
}

fn remove(object: &mut Value, fields: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        fields.iter().for_each(|field| {
            object.shift_remove(*field);
        });
    }
}

struct Client {
    sse: SseDecoder,
    built: Built,
    ended: bool,
}

impl Client {
    fn take(&mut self, data: &str) -> StreamEvent {
        let event = match self.read(data) {
            Ok(event) => event,
            Err(error) => {
                self.failed(ErrorKind::Protocol, format!("an event of the proxy cannot be read: {error}"))
            }
        };
        self.built.apply(&event);
        self.ended = matches!(event, StreamEvent::Done { .. } | StreamEvent::Error { .. });
        event
    }

    /// Decodes an event and restores the omitted parts.
    fn read(&self, data: &str) -> Result<StreamEvent, serde_json::Error> {
        let mut value: Value = serde_json::from_str(data)?;
        let index =
            value["index"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(usize::MAX);
        let put = |object: &mut Value, field: &str, known: Value| {
            if let Some(object) = object.as_object_mut() {
                object.entry(field).or_insert(known);
            }
        };
        match value["type"].as_str() {
            Some("text_end") => put(&mut value["content"], "text", json!(self.built.text(index))),
            Some("thinking_end") => put(&mut value["content"], "thinking", json!(self.built.text(index))),
            Some("toolcall_end") if value["call"].get("arguments").is_none() => {
                let (arguments, error) = self.built.call(index);
                put(&mut value["call"], "arguments", Value::Object(arguments));
                if let Some(error) = error {
                    put(&mut value["call"], "argumentsError", json!(error));
                }
            }
            Some("done" | "error") => {
                let known = self.built.builder.snapshot().content;
                let blocks = value["message"]["content"].as_array_mut();
                for (index, block) in blocks.into_iter().flatten().enumerate() {
                    if block.is_null() {
                        *block = json!(known.get(index));
                    }
                }
            }
            _ => {}
        }
        serde_json::from_value(value)
    }

    fn failed(&self, kind: ErrorKind, error: String) -> StreamEvent {
        StreamEvent::Error { message: Arc::new(self.built.builder.ended(Some(ModelError::new(kind, error)))) }
    }
}

impl Decoder for Client {
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        if self.ended {
            return Vec::new();
        }
        let events = match self.sse.feed(bytes) {
            Ok(events) => events,
            Err(error) => return self.finish(Some(error.into())),
        };
        let mut out = Vec::new();
        for event in events {
            if self.ended {
                break;
            }
            out.push(self.take(&event.data));
        }
        out
    }

    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent> {
        let text =
            super::non_empty(&answer["error"]["message"]).unwrap_or("it is not an event stream").to_owned();
        self.finish(Some(ModelError::new(
            ErrorKind::Protocol,
            format!("the proxy's answer cannot be used: {text}"),
        )))
    }

    fn finish(&mut self, cut: Option<ModelError>) -> Vec<StreamEvent> {
        if std::mem::replace(&mut self.ended, true) {
            return Vec::new();
        }
        let ended = || ModelError::new(ErrorKind::Protocol, "the proxy's stream ended before its last event");
        let ModelError { kind, message } = cut.unwrap_or_else(ended);
        vec![self.failed(kind, message)]
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn has_start_event(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;

    #[test]
    fn a_proxied_request_round_trips() {
        let request = Request {
            system: "s".to_owned(),
            messages: vec![Message::user("hi")].into(),
            tools: vec![ToolDefinition {
                name: "a.b".to_owned(),
                label: "A".to_owned(),
                description: "d".to_owned(),
                parameters: json!({"type": "object"}),
            }],
            max_tokens: Some(5),
            temperature: Some(0.5),
            thinking: Some(ThinkingLevel::High),
            tool_choice: ToolChoice::Tool("a.b".to_owned()),
            cache: CacheRetention::Long,
            session_id: "id".to_owned(),
            retries: 2,
            patience: None,
            api_key: None,
            observer: None,
        };
        let endpoint = Endpoint::new("anthropic", "http://127.0.0.1:1/", "claude");
        let http = PROTOCOL.encode(&endpoint, &request).unwrap();
        assert_eq!(http.url, "http://127.0.0.1:1/api/stream");
        let read = read_request(http.body.to_string().as_bytes()).unwrap();
        assert_eq!(read, ("anthropic/claude".to_owned(), request));
        assert!(read_request(b"{\"model\": \"x\"}").unwrap_err().contains("context"));
    }

    #[test]
    fn a_providers_key_is_not_sent_to_the_proxy() {
        let mut endpoint = Endpoint::new("anthropic", "http://127.0.0.1:1/", "claude");
        endpoint.api_key = crate::ApiKey::new("of the proxy");
        let request = Request { api_key: crate::ApiKey::new("of the provider"), ..Request::default() };
        let http = PROTOCOL.encode(&endpoint, &request).unwrap();
        assert_eq!(http.key.map(|(_, key)| key), endpoint.api_key);
        assert!(!PROTOCOL.sends_own_key());
    }

    #[test]
    fn a_cut_stream_keeps_the_received_text() {
        let empty = AssistantMessage::empty("a", "p", "m");
        let mut decoder = PROTOCOL.decoder(&Endpoint::new("p", "http://x", "m"), empty);
        decoder.feed(b"data: {\"type\":\"text_start\",\"index\":0}\n\ndata: {\"type\":\"text_delta\",\"index\":0,\"delta\":\"half\"}\n\n");
        let events = decoder.finish(None);
        let [StreamEvent::Error { message }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((message.text().as_str(), message.error_kind), ("half", Some(ErrorKind::Protocol)));
        assert!(decoder.finish(None).is_empty());
    }
}
