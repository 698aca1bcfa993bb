//! Providers' wire protocols. Each is two pure halves, a request encoded and bytes decoded into
//! events; what touches the network is one shared edge. A vendor's oddities are data of its endpoint, not
//! code here.
//!
//! They are our own and not those of a multi-provider crate (`genai`, `rig`, `async-openai`): what is sent back of
//! an answer (signatures, encrypted reasoning, ids) and what is kept of one that is cut short is the
//! quality we are about, and those crates drop it.

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
use crate::message::{AssistantMessage, Content, ErrorKind};
use crate::model::Request;
use crate::options::{ThinkingLevel, ToolChoice};
use crate::secret::ApiKey;
use crate::sigv4::Signing;
use crate::stream::StreamEvent;

/// One wire protocol. A program that embeds this crate can add its own to a [`Protocols`].
pub trait Protocol: Send + Sync {
    /// The field's name of it, for example `anthropic-messages`.
    fn name(&self) -> &str;

    /// The request for this endpoint, the same bytes for the same request. The transcript is repaired
    /// first ([`crate::transcript::repair`]).
    ///
    /// # Errors
    /// When the request asks for what this provider cannot be asked for.
    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError>;

    /// Whether a key of the request's own is sent, in place of the endpoint's.
    fn sends_own_key(&self) -> bool {
        true
    }

    /// What reads the answer into `empty`.
    fn decoder(&self, endpoint: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder>;
}

/// Why a request cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A tool is to be called that the request does not have.
    #[error("the tool `{0}` is to be called, but is not among the request's tools")]
    NoSuchTool(String),
    /// The provider takes fewer tools than the request has.
    #[error(
        "the request has {have} tools, and the provider takes {most} at most; leave some out with \
         `tools.disable`, or let the model find them with `tools.discovery = \"on\"`"
    )]
    TooManyTools {
        /// Of the request.
        have: usize,
        /// Of the provider.
        most: usize,
    },
    /// A tool is to be called, and the model cannot be made to.
    #[error(
        "the model is to call {what}, which the provider cannot make it do; let it choose (`compat.tool_choice` in models.toml \
         where it can)"
    )]
    NotForced {
        /// The tool, or some.
        what: String,
    },
    /// A request is to be signed for a region, and none is known.
    #[error(
        "no region is known to sign for; name it in the base URL \
         (`https://bedrock-runtime.REGION.amazonaws.com`) or with the keys"
    )]
    NoRegion,
}

/// A request ready to be sent: always a POST with a JSON body.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest {
    /// The whole address.
    pub url: String,
    /// Further headers, without the key.
    pub headers: Vec<(String, String)>,
    /// How a key is sent.
    pub auth: Auth,
    /// The key and the header it is sent in, if there is one.
    pub key: Option<(Auth, ApiKey)>,
    /// How it is signed, if it is; the key is not sent then.
    pub signing: Option<Signing>,
    /// What else of it must not be shown.
    pub secrets: Vec<ApiKey>,
    /// The body.
    pub body: Value,
    /// The tools that are sent by another name than their own, by that name.
    pub names: BTreeMap<String, String>,
    /// The level of thinking it asks for, and how it says so; `None` when it says nothing of it.
    pub thinking: Option<(ThinkingLevel, String)>,
}

impl HttpRequest {
    /// A request to `path` below the endpoint's base URL, with the key in `auth` unless the endpoint says otherwise.
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

/// The protocols there are, by name.
#[derive(Clone)]
pub struct Protocols(BTreeMap<String, Arc<dyn Protocol>>);

impl Default for Protocols {
    /// All of this crate.
    fn default() -> Protocols {
        let mut protocols = Protocols(BTreeMap::new());
        protocols.register(Arc::new(anthropic_messages::AnthropicMessages));
        protocols.register(Arc::new(azure_openai_responses::AzureOpenAiResponses));
        protocols.register(Arc::new(bedrock_converse_stream::BedrockConverseStream));
        protocols.register(Arc::new(google_generative_ai::GoogleGenerativeAi));
        protocols.register(Arc::new(google_vertex::GoogleVertex));
        protocols.register(Arc::new(mistral_conversations::MistralConversations));
        protocols.register(Arc::new(openai_completions::OpenAiCompletions));
        protocols.register(Arc::new(openai_responses::OpenAiResponses));
        protocols
    }
}

impl Protocols {
    /// Adds a protocol, in the place of another of its name.
    pub fn register(&mut self, protocol: Arc<dyn Protocol>) {
        self.0.insert(protocol.name().to_owned(), protocol);
    }

    /// The protocol of this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Protocol>> {
        self.0.get(name).cloned()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Whether this very model said it, by this protocol: only then does what is opaque in it go back.
fn is_own(endpoint: &Endpoint, api: &str, message: &AssistantMessage) -> bool {
    message.api == api && message.provider == endpoint.provider && message.model == endpoint.model
}

/// Refuses more tools than the provider takes, and a choice of one that is not there.
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

/// Refuses to have a tool called where the model can be made to that no further than `forced`.
fn check_forced(request: &Request, forced: ForcedTools) -> Result<(), EncodeError> {
    let (asked, what) = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => return Ok(()),
        ToolChoice::Any => (ForcedTools::Any, "some tool".to_owned()),
        ToolChoice::Tool(name) => (ForcedTools::Named, format!("the tool `{name}`")),
    };
    if asked > forced { Err(EncodeError::NotForced { what }) } else { Ok(()) }
}

/// Content of a message as a model that may take no images gets it: images are replaced by one note for each run
/// of them.
fn visible<'a>(endpoint: &Endpoint, content: &'a [Content], note: &'a str) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for block in content {
        match block {
            // Many providers refuse it, and nobody misses it.
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

/// Stands at the start where a model would speak first and the provider lets only a person do that.
const BEGINNING: &str = "(the conversation goes on)";
/// Stands for images of the person that the model cannot see.
const IMAGE_OMITTED: &str = "(image omitted: model does not support images)";
/// Stands for images of a tool that the model cannot see.
const TOOL_IMAGE_OMITTED: &str = "(tool image omitted: model does not support images)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Image { data: &'a str, mime_type: &'a str },
}

/// The text of a tool's result: its texts, or words that stand for none.
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

/// What an event holds.
enum Data {
    /// An object.
    Object(Value),
    /// Nothing of the protocol's.
    Other,
    /// The start of an object that cannot be read: what it said is lost, so what follows must not be taken
    /// for the whole.
    Damaged(String),
}

fn data(text: &str) -> Data {
    match crate::partial_json::parse_piece(text) {
        Ok(object @ Value::Object(_)) => Data::Object(object),
        // Google puts an error into a list of one.
        Ok(Value::Array(list)) if matches!(list.as_slice(), [Value::Object(_)]) => {
            list.into_iter().next().map_or(Data::Other, Data::Object)
        }
        Err(error) if text.trim_start().starts_with('{') => {
            Data::Damaged(format!("a part of the answer cannot be read: {error}"))
        }
        Ok(_) | Err(_) => {
            tracing::debug!("skipped an event that is no object");
            Data::Other
        }
    }
}

/// A string that is not empty.
fn non_empty(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// What an error object says, as text.
fn error_text(error: &Value) -> String {
    let text = non_empty(error).or_else(|| non_empty(&error["message"]));
    text.map_or_else(|| error.to_string(), str::to_owned)
}

/// What an error object says with the names that it has for it, which say more to who looks them up; without those that are words
/// of its text, and without `status`, which is told already.
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
        let is_told = name.is_empty() || name == "error" || lower.contains(&name.to_ascii_lowercase());
        if !is_told && !names.contains(&name) && status.is_none_or(|status| name != status.to_string()) {
            names.push(name);
        }
    }
    let colon = if names.is_empty() { "" } else { ": " };
    // A gateway's own text says only that somebody else failed.
    let raw = non_empty(&error["metadata"]["raw"]).filter(|raw| !text.contains(raw));
    let raw = raw.map(|raw| format!(": {}", raw.trim().chars().take(EXCERPT).collect::<String>()));
    format!("{}{colon}{text}{}", names.join(", "), raw.unwrap_or_default())
}

/// The end of a response that is an object, but none of an answer.
fn no_answer(whole: &Value) -> (ErrorKind, String) {
    let words = ["error", "message", "detail", "msg"].iter().find_map(|field| match &whole[*field] {
        Value::Null => None,
        error => Some(error_words(error, None)),
    });
    let text: String = words.unwrap_or_else(|| whole.to_string()).chars().take(EXCERPT).collect();
    let text = format!("the provider sent no answer: {text}");
    (ErrorKind::Provider.refined(&text), text)
}

/// The end of a response by an event named `error` that is not as the protocol has it.
fn named_error(words: &str) -> (ErrorKind, String) {
    let text: String = words.trim().chars().take(EXCERPT).collect();
    let text = format!("the provider reported an error: {text}");
    (ErrorKind::Provider.refined(&text), text)
}

/// Characters of what a provider says that is not as its protocol has it.
const EXCERPT: usize = 1000;
