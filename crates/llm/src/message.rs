//! Messages, their content, usage and stop reasons.
//!
//! They are serialized as in session files (`docs/formats/session.md`): camel case, roles `user`,
//! `assistant`, `toolResult`, blocks tagged by `type`. This module knows no provider, and unknown fields are
//! skipped, so that older and foreign files load.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::options::ThinkingLevel;
use crate::overflow;
use crate::price::Cost;

/// One entry of a transcript, as stored and as sent to models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Message {
    /// A message of the user, or of a program in their place.
    User(UserMessage),
    /// A model's answer.
    Assistant(AssistantMessage),
    /// The result of a tool call.
    ToolResult(ToolResultMessage),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMessage {
    /// Text and images; a bare string in a file is one text block.
    #[serde(deserialize_with = "text_or_blocks")]
    pub content: Vec<Content>,
    /// Milliseconds since the Unix epoch.
    #[serde(default)]
    pub timestamp: u64,
}

/// A response of a model, complete or cut short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Text, thinking and tool calls, in the order in which the model began them.
    #[serde(default, deserialize_with = "text_or_blocks")]
    pub content: Vec<Content>,
    /// The wire protocol, such as `openai-completions`.
    #[serde(default)]
    pub api: String,
    #[serde(default)]
    pub provider: String,
    /// The requested model.
    #[serde(default)]
    pub model: String,
    /// The model that answered, if the provider reports a different one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_model: Option<String>,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    #[serde(default)]
    pub usage: Usage,
    pub stop_reason: StopReason,
    /// The provider's own stop reason, if it is more specific.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_stop_reason: Option<String>,
    /// The error, if `stop_reason` is [`StopReason::Error`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The kind of error, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
    /// The thinking level used, if the model has levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// The provider's word or budget for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_thinking_level: Option<String>,
    /// Time of the request, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub timestamp: u64,
    /// Duration of the request and response in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// Id of the call.
    pub tool_call_id: String,
    /// The tool's name as the model called it.
    #[serde(default)]
    pub tool_name: String,
    /// The part that the model receives.
    #[serde(default, deserialize_with = "text_or_blocks")]
    pub content: Vec<Content>,
    /// Data for surfaces; never sent to a model.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    #[serde(default)]
    pub is_error: bool,
    /// Names of tools that the model knows from here on.
    ///
    /// A provider that supports late tools does not get them before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_tools: Vec<String>,
    /// Milliseconds since the Unix epoch.
    #[serde(default)]
    pub timestamp: u64,
}

/// A block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Content {
    Text {
        text: String,
        /// Opaque data, sent back only to the same provider and model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text_signature: Option<String>,
    },
    Image {
        /// The bytes as base64.
        data: String,
        /// MIME type, for example `image/png`.
        mime_type: String,
    },
    /// The model's reasoning, if the provider shows it.
    Thinking {
        /// The reasoning text; empty if redacted.
        thinking: String,
        /// Opaque data of the protocol.
        ///
        /// `openai-completions` stores the name of the source field here, or its `reasoning_details`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_signature: Option<String>,
        /// Whether the provider hid the text.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        redacted: bool,
    },
    /// A tool call; only in assistant messages.
    ToolCall(ToolCall),
}

/// A model's tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The id, unique within its message.
    pub id: String,
    pub name: String,
    /// The arguments, always an object; empty if the model's text was not one.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Reason why the arguments could not be parsed. Such a call must not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_error: Option<String>,
    /// Opaque data, sent back only to the same provider and model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
}

/// Reason why a response ended, the same for all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The model finished.
    Stop,
    /// The output limit was reached: tool calls may be cut and must not be run.
    Length,
    /// The model waits for tool results.
    ToolUse,
    /// The response failed; `error_message` has the reason.
    Error,
    /// The response was cancelled.
    Aborted,
}

/// The kind of failure that ended a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The connection failed.
    Network,
    /// The model's timeouts expired.
    Timeout,
    /// The provider answered with an error.
    Provider,
    /// The key is missing, invalid, or lacks permission.
    Authentication,
    /// Too many requests, or an exhausted quota.
    RateLimit,
    /// The provider is overloaded or failed; a later attempt may succeed.
    Unavailable,
    /// The request exceeds the model's window.
    ContextOverflow,
    /// The answer violates the protocol, or ended before its terminal event.
    Protocol,
    /// A request did not match the script of a scripted model.
    Script,
    /// A defect of Pilcrow.
    Internal,
}

/// Tokens of one response.
///
/// `input` excludes cached input; `output` includes reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens neither read from nor written to the cache.
    pub input: u64,
    /// Output tokens including reasoning.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// The part of `cache_write` stored for an hour, which costs more.
    #[serde(rename = "cacheWrite1h", skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
    /// Output tokens spent on reasoning, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Sum of input, output, cache reads and cache writes.
    pub total_tokens: u64,
    /// The cost, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Whether some tokens were not counted, so that the cost is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Reason why a model gave no answer, or broke off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ErrorKind,
    /// The redacted message for users.
    pub message: String,
}

impl ModelError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ModelError {
        ModelError { kind, message: message.into() }
    }
}

impl ErrorKind {
    /// The kind of an error code: an HTTP status as a number or digits, or a word.
    ///
    /// It is [`ErrorKind::Provider`] if the code is unknown.
    pub(crate) fn of_code(code: &Value) -> ErrorKind {
        let status = code.as_u64().or_else(|| code.as_str()?.parse().ok());
        match (status, code.as_str().unwrap_or_default()) {
            (Some(402 | 429), _)
            | (
                _,
                "rate_limit_exceeded"
                | "rate_limit_error"
                | "too_many_requests"
                | "insufficient_quota"
                | "RESOURCE_EXHAUSTED",
            ) => ErrorKind::RateLimit,
            (Some(401 | 403), _) | (_, "invalid_api_key") => ErrorKind::Authentication,
            (Some(408 | 500..=599), _) | (_, "server_error" | "overloaded_error" | "UNAVAILABLE") => {
                ErrorKind::Unavailable
            }
            (_, "context_length_exceeded") => ErrorKind::ContextOverflow,
            _ => ErrorKind::Provider,
        }
    }

    /// A more specific kind derived from the provider's message, else `self`.
    pub(crate) fn refined(self, words: &str) -> ErrorKind {
        const UNAVAILABLE: [&str; 5] = [
            "overloaded",
            "temporarily unavailable",
            "service unavailable",
            "internal server error",
            "bad gateway",
        ];
        // A failing server may fail because of the request's length.
        if !matches!(self, ErrorKind::Provider | ErrorKind::RateLimit | ErrorKind::Unavailable) {
            return self;
        }
        let lower = words.to_ascii_lowercase();
        if overflow::mentions_overflow(words) {
            ErrorKind::ContextOverflow
        } else if self == ErrorKind::Provider && UNAVAILABLE.iter().any(|it| lower.contains(it)) {
            ErrorKind::Unavailable
        } else {
            self
        }
    }
}

impl Usage {
    /// The usage with `total_tokens` set to the sum of the four counts.
    pub(crate) fn summed(self) -> Usage {
        let parts = [self.input, self.output, self.cache_read, self.cache_write];
        Usage { total_tokens: parts.into_iter().fold(0, u64::saturating_add), ..self }
    }

    /// Adds two usages.
    ///
    /// The sum of reasoning is known if either is, the cost only if both are. Zero tokens cost nothing.
    pub fn plus(self, other: Usage) -> Usage {
        let is_free = |usage: &Usage| usage.total_tokens == 0 && usage.cost.is_none() && !usage.uncounted;
        let cost = match (self.cost, other.cost) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (Some(cost), None) if is_free(&other) => Some(cost),
            (None, Some(cost)) if is_free(&self) => Some(cost),
            _ => None,
        };
        Usage {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cache_write_1h: self.cache_write_1h.saturating_add(other.cache_write_1h),
            reasoning: match (self.reasoning, other.reasoning) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
            },
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            cost,
            uncounted: self.uncounted || other.uncounted,
        }
    }
}

impl Message {
    /// A user message with this text and the current time.
    pub fn user(text: impl Into<String>) -> Message {
        Message::User(UserMessage { content: vec![Content::text(text)], timestamp: now_ms() })
    }

    /// The text blocks joined by line breaks.
    pub fn text(&self) -> String {
        joined_text(self.content())
    }

    pub fn content(&self) -> &[Content] {
        match self {
            Message::User(message) => &message.content,
            Message::Assistant(message) => &message.content,
            Message::ToolResult(message) => &message.content,
        }
    }

    /// The role: `user`, `assistant` or `toolResult`.
    pub fn role(&self) -> &'static str {
        match self {
            Message::User(_) => "user",
            Message::Assistant(_) => "assistant",
            Message::ToolResult(_) => "toolResult",
        }
    }
}

impl Content {
    /// A block of plain text.
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text { text: text.into(), text_signature: None }
    }
}

impl AssistantMessage {
    /// Marks the usage as uncounted if the provider reported no input or output tokens.
    pub(crate) fn note_uncounted(&mut self) {
        let Usage { input, cache_read, cache_write, total_tokens, cost, .. } = self.usage;
        let was_answered = !self.content.is_empty() || total_tokens > 0;
        self.usage.uncounted |=
            cost.is_none() && was_answered && (input, cache_read, cache_write) == (0, 0, 0);
    }

    /// Marks the usage of an answer that broke off before its tokens were reported.
    ///
    /// `has_begun` says whether generation had begun, even if nothing of it arrived.
    pub(crate) fn note_cut(&mut self, has_begun: bool) {
        self.usage.uncounted = self.usage.cost.is_none() && (has_begun || !self.content.is_empty());
    }

    /// An empty message of this model with the current time, which ends normally.
    pub fn empty(api: &str, provider: &str, model: &str) -> AssistantMessage {
        AssistantMessage {
            content: Vec::new(),
            api: api.to_owned(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            response_model: None,
            response_id: None,
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            raw_stop_reason: None,
            error_message: None,
            error_kind: None,
            thinking_level: None,
            provider_thinking_level: None,
            timestamp: now_ms(),
            duration_ms: None,
        }
    }

    /// Tool calls of the message, in the model's order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|content| match content {
            Content::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Text blocks of the message, joined by line breaks.
    pub fn text(&self) -> String {
        joined_text(&self.content)
    }

    /// Whether it ended with [`StopReason::Error`] or [`StopReason::Aborted`].
    pub fn failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }
}

fn joined_text(content: &[Content]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|content| match content {
            Content::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn text_or_blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Content>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Blocks(Vec<Content>),
        Nothing(()),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Text(text) => vec![Content::text(text)],
        Either::Blocks(blocks) => blocks,
        Either::Nothing(()) => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_of_session_files_round_trip() {
        let stored = json!({
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"},
                {"type": "text", "text": "done"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
            ],
            "api": "openai-completions", "provider": "local", "model": "m",
            "usage": {"input": 3, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 5},
            "stopReason": "toolUse",
            "timestamp": 7,
        });
        let message: Message = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), stored);
        assert_eq!(message.text(), "done");
    }

    #[test]
    fn error_codes_have_their_kind() {
        for (code, expected) in [
            (json!(429), ErrorKind::RateLimit),
            (json!("429"), ErrorKind::RateLimit),
            (json!(401), ErrorKind::Authentication),
            (json!("403"), ErrorKind::Authentication),
            (json!(408), ErrorKind::Unavailable),
            (json!(502), ErrorKind::Unavailable),
            (json!("server_error"), ErrorKind::Unavailable),
            (json!("rate_limit_exceeded"), ErrorKind::RateLimit),
            (json!("insufficient_quota"), ErrorKind::RateLimit),
            (json!(402), ErrorKind::RateLimit),
            (json!("context_length_exceeded"), ErrorKind::ContextOverflow),
            (json!(400), ErrorKind::Provider),
            (json!("invalid_prompt"), ErrorKind::Provider),
            (Value::Null, ErrorKind::Provider),
        ] {
            assert_eq!(ErrorKind::of_code(&code), expected, "{code}");
        }
        let words = "the request exceeds the available context size";
        assert_eq!(ErrorKind::Unavailable.refined(words), ErrorKind::ContextOverflow);
        assert_eq!(ErrorKind::Unavailable.refined("it broke"), ErrorKind::Unavailable);
    }

    #[test]
    fn an_answer_without_input_tokens_is_uncounted() {
        let usage =
            |input, cache_read, output| Usage { input, cache_read, output, ..Usage::default() }.summed();
        for (usage, uncounted) in [
            (usage(0, 0, 5), true),
            (usage(1, 0, 5), false),
            (usage(0, 1, 0), false),
            (usage(0, 0, 0), false),
        ] {
            let mut message = AssistantMessage { usage, ..AssistantMessage::empty("a", "p", "m") };
            message.note_uncounted();
            assert_eq!(message.usage.uncounted, uncounted, "{usage:?}");
        }
    }

    #[test]
    fn bare_content_is_accepted_and_unknown_fields_skipped() {
        let user: Message =
            serde_json::from_value(json!({"role": "user", "content": "hi", "new": 1})).unwrap();
        assert_eq!(user.text(), "hi");
        let result: Message = serde_json::from_value(
            json!({"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": null}),
        )
        .unwrap();
        assert!(result.content().is_empty());
    }
}
