//! Providers' wire protocols.
//!
//! Each consists of two pure halves: encoding a request, and decoding bytes into events. The transport is
//! shared, and a vendor's deviations are data of its endpoint. They are not those of a multi-provider crate
//! (`genai`, `rig`, `async-openai`), which drop what matters here: signatures, encrypted reasoning and ids
//! that are sent back, and the parts of an interrupted answer.

mod blocks;
mod calls;
mod chunks;
mod claude;
mod ids;
mod limits;
mod strict;
pub(crate) mod tools;

pub mod anthropic_messages;
pub mod azure_openai_responses;
pub mod bedrock_converse_stream;
pub mod google_generative_ai;
pub mod google_vertex;
pub mod mistral_conversations;
pub mod openai_completions;
pub mod openai_responses;
pub mod pilcrow_proxy;
pub mod sse;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::endpoint::{Auth, Endpoint, ForcedTools};
use crate::message::{AssistantMessage, Content, ErrorKind, ModelError};
use crate::model::Request;
use crate::options::{ThinkingLevel, ToolChoice};
use crate::secret::ApiKey;
use crate::sigv4::Signing;
use crate::stream::StreamEvent;

/// A wire protocol.
///
/// A program that embeds this crate can add its own to a [`Protocols`].
pub trait Protocol: Send + Sync {
    /// The protocol's name, such as `anthropic-messages`.
    fn name(&self) -> &str;

    /// Encodes a request, deterministically.
    ///
    /// The transcript is repaired first ([`crate::transcript::repair`]).
    ///
    /// # Errors
    /// The request asks for something that the provider does not support.
    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError>;

    /// Whether a key in the request replaces the endpoint's.
    fn sends_own_key(&self) -> bool {
        true
    }

    /// A decoder that reads the answer into `empty`.
    fn decoder(&self, endpoint: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder>;
}

/// A built-in wire protocol: its encoder and decoder.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolDefinition {
    name: &'static str,
    encode: fn(&Endpoint, &Request) -> Result<HttpRequest, EncodeError>,
    decoder: fn(&Endpoint, AssistantMessage) -> Box<dyn Decoder>,
    sends_own_key: bool,
}

impl Protocol for ProtocolDefinition {
    fn name(&self) -> &str {
        self.name
    }

    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        (self.encode)(endpoint, request)
    }

    fn sends_own_key(&self) -> bool {
        self.sends_own_key
    }

    fn decoder(&self, endpoint: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        (self.decoder)(endpoint, empty)
    }
}

/// Reason why a request cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("the forced tool `{0}` is not among the request's tools; add it or force another")]
    NoSuchTool(String),
    #[error(
        "the request has {have} tools, and the provider takes {most} at most;\n\
         leave some out with `tools.disable`, or let the model find them with `tools.discovery = \"on\"`"
    )]
    TooManyTools { have: usize, most: usize },
    #[error("the provider cannot force the model to call {what}; let it choose, or set `compat.tool_choice`")]
    NotForced {
        /// The tool, or "a tool".
        what: String,
    },
    #[error(
        "the AWS region for signing is unknown; set it with the keys or in the base URL\n\
         (`https://bedrock-runtime.REGION.amazonaws.com`)"
    )]
    NoRegion,
}

/// An encoded request: always a POST with a JSON body.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest {
    pub url: String,
    /// Headers other than the key.
    pub headers: Vec<(String, String)>,
    /// Header that carries the key.
    pub auth: Auth,
    /// The key and its header, if there is one.
    pub key: Option<(Auth, ApiKey)>,
    /// The signature used instead of a key.
    pub signing: Option<Signing>,
    /// Further secrets in the request.
    pub secrets: Vec<ApiKey>,
    pub body: Value,
    /// Renamed tools by the name that is sent.
    pub names: BTreeMap<String, String>,
    /// The requested thinking level and its encoding, if any.
    pub thinking: Option<(ThinkingLevel, String)>,
}

impl HttpRequest {
    /// A request to `path` below the base URL.
    ///
    /// `auth` carries the key unless the endpoint overrides it.
    fn new(endpoint: &Endpoint, request: &Request, path: &str, auth: Auth, body: Value) -> HttpRequest {
        let key = request.api_key.clone().or_else(|| endpoint.api_key.clone());
        let auth = endpoint.auth.clone().unwrap_or(auth);
        HttpRequest {
            url: endpoint.url(path),
            headers: endpoint.headers.clone(),
            key: key.map(|key| (auth.clone(), key)),
            auth,
            signing: None,
            secrets: endpoint.secrets.clone(),
            body,
            names: tools::renamed(request),
            thinking: None,
        }
    }
}

/// Decodes a response's bytes into events.
///
/// It is pure: the same bytes give the same events apart from times, however they are split. Nothing
/// follows a final event.
pub trait Decoder: Send {
    /// Decodes the next bytes of an event stream.
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent>;

    /// Decodes a complete answer, from a server that does not stream.
    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent>;

    /// Ends the stream unless it has ended; `cut` is the failure that ended the bytes.
    fn finish(&mut self, cut: Option<ModelError>) -> Vec<StreamEvent>;

    /// Whether the final event was returned.
    fn ended(&self) -> bool;

    /// Whether the stream contains a `start` event.
    ///
    /// Otherwise the response headers are the start.
    fn has_start_event(&self) -> bool {
        false
    }
}

/// A decoder that changes the events of another.
pub(crate) struct Mapped<F> {
    inner: Box<dyn Decoder>,
    change: F,
}

impl<F: Fn(&mut StreamEvent) + Send + 'static> Mapped<F> {
    pub fn wrap(inner: Box<dyn Decoder>, change: F) -> Box<dyn Decoder> {
        Box::new(Mapped { inner, change })
    }

    fn mapped(&self, mut events: Vec<StreamEvent>) -> Vec<StreamEvent> {
        events.iter_mut().for_each(&self.change);
        events
    }
}

impl<F: Fn(&mut StreamEvent) + Send + 'static> Decoder for Mapped<F> {
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        let events = self.inner.feed(bytes);
        self.mapped(events)
    }

    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent> {
        let events = self.inner.feed_whole(answer);
        self.mapped(events)
    }

    fn finish(&mut self, cut: Option<ModelError>) -> Vec<StreamEvent> {
        let events = self.inner.finish(cut);
        self.mapped(events)
    }

    fn ended(&self) -> bool {
        self.inner.ended()
    }

    fn has_start_event(&self) -> bool {
        self.inner.has_start_event()
    }
}

/// Protocols by name.
#[derive(Clone)]
pub struct Protocols(BTreeMap<String, Arc<dyn Protocol>>);

impl Default for Protocols {
    /// All protocols of this crate.
    fn default() -> Protocols {
        let mut protocols = Protocols(BTreeMap::new());
        for protocol in [
            anthropic_messages::PROTOCOL,
            azure_openai_responses::PROTOCOL,
            bedrock_converse_stream::PROTOCOL,
            google_generative_ai::PROTOCOL,
            google_vertex::PROTOCOL,
            mistral_conversations::PROTOCOL,
            openai_completions::PROTOCOL,
            openai_responses::PROTOCOL,
        ] {
            protocols.register(Arc::new(protocol));
        }
        protocols
    }
}

impl Protocols {
    /// Adds a protocol; replaces one of the same name.
    pub fn register(&mut self, protocol: Arc<dyn Protocol>) {
        self.0.insert(protocol.name().to_owned(), protocol);
    }

    pub fn get(&self, name: &str) -> Option<Arc<dyn Protocol>> {
        self.0.get(name).cloned()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Whether this model and protocol produced the message and its opaque data.
fn is_own(endpoint: &Endpoint, api: &str, message: &AssistantMessage) -> bool {
    message.api == api && message.provider == endpoint.provider && message.model == endpoint.model
}

/// Checks the number of tools and the tool choice.
fn check_tools(endpoint: &Endpoint, request: &Request) -> Result<(), EncodeError> {
    let have = request.tools.len();
    if let Some(most) = endpoint.compat.most_tools.filter(|most| have > *most) {
        return Err(EncodeError::TooManyTools { have, most });
    }
    check_forced(request, endpoint.compat.tool_choice)?;
    match &request.tool_choice {
        ToolChoice::Tool(name) if !request.tools.iter().any(|tool| tool.name == *name) => {
            Err(EncodeError::NoSuchTool(name.clone()))
        }
        _ => Ok(()),
    }
}

/// Checks that the model supports the forced tool call.
fn check_forced(request: &Request, forced: ForcedTools) -> Result<(), EncodeError> {
    let (asked, what) = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => return Ok(()),
        ToolChoice::Any => (ForcedTools::Any, "some tool".to_owned()),
        ToolChoice::Tool(name) => (ForcedTools::Named, format!("the tool `{name}`")),
    };
    if asked > forced { Err(EncodeError::NotForced { what }) } else { Ok(()) }
}

/// Content for a model that may not accept images.
///
/// Each run of images becomes one note.
fn visible<'a>(endpoint: &Endpoint, content: &'a [Content], note: &'a str) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for block in content {
        match block {
            // Many providers reject blank text, which has no meaning.
            Content::Text { text, .. } if text.trim().is_empty() => {}
            Content::Text { text, .. } => pieces.push(Piece::Text(text)),
            Content::Image { data, mime_type } if endpoint.images => {
                pieces.push(Piece::Image { data, mime_type });
            }
            Content::Image { .. } if pieces.last() != Some(&Piece::Text(note)) => {
                pieces.push(Piece::Text(note));
            }
            Content::Image { .. } | Content::Thinking { .. } | Content::ToolCall(_) => {}
        }
    }
    pieces
}

/// First user message for a transcript that begins with the model.
///
/// Providers reject such a transcript.
const BEGINNING: &str = "(the conversation continues)";
/// Replaces a user's images that the model cannot see.
const IMAGE_OMITTED: &str = "(image omitted: model does not support images)";
/// Replaces a tool's images that the model cannot see.
const TOOL_IMAGE_OMITTED: &str = "(tool image omitted: model does not support images)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Image { data: &'a str, mime_type: &'a str },
}

/// Maximum length of a line that names an image, in bytes.
const MAX_NAME: usize = 400;

/// A result's images, each after the line of text that names it.
fn named_images<'a>(pieces: &[Piece<'a>]) -> Vec<Piece<'a>> {
    let mut named = Vec::new();
    let mut name = None;
    for piece in pieces {
        match piece {
            Piece::Text(text) => name = text.lines().next().filter(|line| line.len() <= MAX_NAME),
            Piece::Image { .. } => {
                named.extend(name.take().map(Piece::Text));
                named.push(*piece);
            }
        }
    }
    named
}

/// The text of a tool's result, or a placeholder for an empty one.
fn result_text(pieces: &[Piece<'_>]) -> String {
    let texts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(*text),
            Piece::Image { .. } => None,
        })
        .collect();
    let text = texts.join("\n");
    match (text.is_empty(), pieces.iter().any(|piece| matches!(piece, Piece::Image { .. }))) {
        (false, _) => text,
        (true, false) => "(no tool output)".to_owned(),
        (true, true) => "(see attached image)".to_owned(),
    }
}

/// The data of an event.
enum Data {
    Object(Value),
    /// An event that is not part of the protocol.
    Other,
    /// The start of an object that cannot be parsed.
    ///
    /// A part is lost, so the rest is not a complete answer.
    Damaged(String),
}

fn data(text: &str) -> Data {
    match crate::partial_json::parse_piece(text) {
        Ok(object @ Value::Object(_)) => Data::Object(object),
        // Google wraps an error in a list of one.
        Ok(Value::Array(list)) if matches!(list.as_slice(), [Value::Object(_)]) => {
            list.into_iter().next().map_or(Data::Other, Data::Object)
        }
        Err(error) if text.trim_start().starts_with('{') => {
            Data::Damaged(format!("a part of the answer cannot be read: {error}"))
        }
        Ok(_) | Err(_) => {
            tracing::debug!("skipped an event that is not an object");
            Data::Other
        }
    }
}

/// A non-empty string.
fn non_empty(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The text of an error object.
fn error_text(error: &Value) -> String {
    let text = non_empty(error).or_else(|| non_empty(&error["message"]));
    text.map_or_else(|| error.to_string(), str::to_owned)
}

/// The text of an error object with its codes, once each and without `status`.
pub(crate) fn error_words(error: &Value, status: Option<u16>) -> String {
    let text = error_text(error);
    let lower = text.to_ascii_lowercase();
    let mut names: Vec<String> = Vec::new();
    for name in ["code", "type", "status"] {
        let name = match &error[name] {
            Value::String(name) => name.trim().to_owned(),
            Value::Number(number) if number.as_u64() != status.map(u64::from) => number.to_string(),
            _ => continue,
        };
        let is_repeated = name.is_empty() || name == "error" || lower.contains(&name.to_ascii_lowercase());
        if !is_repeated && !names.contains(&name) && status.is_none_or(|status| name != status.to_string()) {
            names.push(name);
        }
    }
    let colon = if names.is_empty() { "" } else { ": " };
    // A gateway's own text only reports a failure upstream.
    let raw = non_empty(&error["metadata"]["raw"]).filter(|raw| !text.contains(raw));
    let raw = raw.map(|raw| format!(": {}", raw.trim().chars().take(EXCERPT).collect::<String>()));
    format!("{}{colon}{text}{}", names.join(", "), raw.unwrap_or_default())
}

/// The error for an object that is not an answer.
fn no_answer(whole: &Value) -> ModelError {
    let words = ["error", "message", "detail", "msg"].iter().find_map(|field| match &whole[*field] {
        Value::Null => None,
        error => Some(error_words(error, None)),
    });
    let text: String = words.unwrap_or_else(|| whole.to_string()).chars().take(EXCERPT).collect();
    let text = format!("the provider sent no answer: {text}");
    ModelError::new(ErrorKind::Provider.refined(&text), text)
}

/// The error for an event named `error` that is not in the protocol's form.
fn named_error(words: &str) -> ModelError {
    reported(ErrorKind::Provider, &words.trim().chars().take(EXCERPT).collect::<String>())
}

/// Creates the error that a provider reported with these words.
fn reported(kind: ErrorKind, words: &str) -> ModelError {
    let text = format!("the provider reported an error: {words}");
    ModelError::new(kind.refined(&text), text)
}

/// Maximum characters quoted from an unexpected answer.
const EXCERPT: usize = 1000;
