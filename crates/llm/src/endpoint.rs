//! An endpoint that serves a model, and its deviations from others of its protocol.
//!
//! All of it is data, so that a user can add a provider without code.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::http::Timeouts;
use crate::key_source::KeySource;
use crate::model::Request;
use crate::options::ThinkingLevel;
use crate::price::Price;
use crate::retry::RetryPolicy;
use crate::secret::ApiKey;
use crate::sigv4::AwsCredentials;

#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name, for users and messages.
    pub provider: String,
    /// Base URL such as `http://127.0.0.1:8080/v1`; a trailing slash is ignored.
    pub base_url: String,
    /// The model's id in the server's spelling.
    pub model: String,
    /// The key; local servers need none.
    pub api_key: Option<ApiKey>,
    /// Source of each request's key, instead of `api_key`.
    pub keys: Option<Arc<dyn KeySource>>,
    /// Credentials to sign requests instead of a key (`bedrock-converse-stream`).
    pub aws: Option<AwsCredentials>,
    /// Further secrets: environment values in the address or in headers.
    pub secrets: Vec<ApiKey>,
    /// Header that carries the key; `None` for the protocol's default.
    pub auth: Option<Auth>,
    pub headers: Vec<(String, String)>,
    /// Whether the model accepts images.
    pub images: bool,
    /// Tokens of a request and its answer together, if known.
    pub context_window: Option<u64>,
    /// Maximum output tokens, if known.
    pub max_output: Option<u64>,
    /// Whether tools can be introduced in the middle of a transcript.
    ///
    /// The provider's cache of the beginning then stays valid.
    pub late_tools: bool,
    /// Token prices, if known.
    pub price: Option<Price>,
    /// Rule by which a thinking level is requested.
    pub thinking: Thinking,
    /// Default thinking level of requests.
    pub level: Option<ThinkingLevel>,
    /// Hints added to an error of this HTTP status.
    pub texts: BTreeMap<u16, String>,
    /// Deviations of this server from its protocol.
    pub compat: Compat,
    /// Timeouts; `None` for the defaults of [`Timeouts::for_url`].
    pub timeouts: Option<Timeouts>,
    /// Retries of a request that does not stream yet.
    pub retry: RetryPolicy,
}

impl Endpoint {
    /// Creates an endpoint without a key and with defaults.
    pub fn new(provider: &str, base_url: &str, model: &str) -> Endpoint {
        Endpoint {
            provider: provider.to_owned(),
            base_url: base_url.to_owned(),
            model: model.to_owned(),
            api_key: None,
            keys: None,
            aws: None,
            secrets: Vec::new(),
            auth: None,
            headers: Vec::new(),
            images: false,
            context_window: None,
            max_output: None,
            late_tools: false,
            price: None,
            thinking: Thinking::default(),
            level: None,
            texts: BTreeMap::new(),
            compat: Compat::default(),
            timeouts: None,
            retry: RetryPolicy::default(),
        }
    }

    /// The timeouts that are set, else those for the address and the model.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts.unwrap_or_else(|| Timeouts::for_url(&self.base_url, !self.thinking.0.is_empty()))
    }

    /// The effective thinking level of `request`, and its value to send.
    ///
    /// `None` if not requested or unsupported.
    pub(crate) fn effort(&self, request: &Request) -> Option<(ThinkingLevel, &Effort)> {
        self.thinking.at(request.thinking.or(self.level)?)
    }

    /// The base URL followed by `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base_url.trim_end_matches('/'))
    }
}

/// The header that carries a key, and the prefix of the key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Name of the header, such as `x-api-key`.
    pub header: String,
    /// Text before the key, such as `Bearer ` with its space.
    #[serde(default)]
    pub prefix: String,
}

impl Auth {
    /// Sends `Authorization: Bearer KEY`.
    pub fn bearer() -> Auth {
        Auth { header: "authorization".to_owned(), prefix: "Bearer ".to_owned() }
    }

    /// Sends the key alone in this header.
    pub fn header(name: &str) -> Auth {
        Auth { header: name.to_owned(), prefix: String::new() }
    }
}

/// The value sent for each thinking level of a model; empty if it has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Thinking(pub BTreeMap<ThinkingLevel, Effort>);

/// The value sent for one thinking level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Effort {
    /// Maximum tokens; 0 for none.
    Budget(u64),
    Word(String),
}

impl Effort {
    /// The word or the number, for display.
    pub fn shown(&self) -> String {
        match self {
            Effort::Budget(tokens) => tokens.to_string(),
            Effort::Word(word) => word.clone(),
        }
    }
}

impl Thinking {
    /// The level used for `asked`, and its value.
    ///
    /// Falls back to the next lower level, else to the lowest one; `None` if the model has no
    /// levels.
    pub fn at(&self, asked: ThinkingLevel) -> Option<(ThinkingLevel, &Effort)> {
        let lower = self.0.range(..=asked).next_back();
        lower.or_else(|| self.0.first_key_value()).map(|(level, effort)| (*level, effort))
    }
}

/// Deviations of a server from its protocol's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compat {
    /// Field that limits the output in `openai-completions`.
    pub max_tokens_field: MaxTokensField,
    /// Whether `openai-completions` supports `stream_options.include_usage`.
    pub usage_in_streaming: bool,
    /// Whether every `openai-completions` stream ends with a `finish_reason`.
    ///
    /// If not, the end of the stream ends the message.
    pub finish_reason: bool,
    /// Whether a message with only tool calls needs the content `""` instead of `null`.
    ///
    /// Applies to `openai-completions`.
    pub non_null_assistant_content: bool,
    /// Whether assistant messages of any model need `reasoning_content`.
    ///
    /// Applies to `openai-completions`.
    pub reasoning_content: bool,
    /// Field for the thinking level in `openai-completions`.
    pub thinking_field: ThinkingField,
    /// Whether `prompt_cache_key` is supported.
    pub prompt_cache_key: bool,
    /// Whether `cache_control` is supported.
    pub cache_control: bool,
    /// Whether arguments are constrained to the schema (`strict`, Google `VALIDATED`).
    ///
    /// Applies to each tool whose schema allows it, and for Claude within the limits of a request.
    pub strict_tools: bool,
    /// Whether `anthropic-messages` streams arguments while they are generated.
    ///
    /// This is the option `eager_input_streaming`.
    pub eager_input_streaming: bool,
    /// Support for forced tool calls (`tool_choice`).
    ///
    /// An unsupported request is rejected before it is sent.
    pub tool_choice: ForcedTools,
    /// Maximum number of tools; a request with more is rejected before it is sent.
    pub most_tools: Option<usize>,
    /// Maximum characters of a tool's description.
    ///
    /// Longer ones are cut and repeated in the instructions.
    pub longest_description: Option<usize>,
    /// Deployments of `azure-openai-responses` by model id; the default is the id.
    pub deployments: BTreeMap<String, String>,
}

/// Support for forced tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForcedTools {
    /// The model decides; no call can be forced.
    Auto,
    Any,
    /// A named tool can be forced.
    Named,
}

/// The field that limits the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// Field `max_completion_tokens`, as OpenAI names it.
    MaxCompletionTokens,
    /// Field `max_tokens`, which every local server accepts.
    MaxTokens,
}

/// The field for the thinking level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingField {
    /// Field `reasoning_effort` of OpenAI.
    ReasoningEffort,
    /// Field `reasoning = { effort }`, as in OpenRouter.
    Reasoning,
    /// Field `thinking = { type: enabled | disabled }`, as in DeepSeek and Z.ai.
    ///
    /// `reasoning_effort` has values other than `on` and `off`.
    Thinking,
    /// Field `enable_thinking`, as in Qwen.
    ///
    /// `reasoning_effort` has values other than `on` and `off`.
    EnableThinking,
}

impl Default for Compat {
    fn default() -> Compat {
        Compat {
            max_tokens_field: MaxTokensField::MaxTokens,
            usage_in_streaming: true,
            finish_reason: true,
            non_null_assistant_content: false,
            reasoning_content: false,
            strict_tools: false,
            eager_input_streaming: false,
            tool_choice: ForcedTools::Named,
            most_tools: None,
            longest_description: None,
            thinking_field: ThinkingField::ReasoningEffort,
            prompt_cache_key: false,
            cache_control: true,
            deployments: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_unsupported_level_becomes_the_next_lower_one() {
        let thinking: Thinking =
            serde_json::from_value(json!({"none": 0, "low": 2048, "high": "much"})).unwrap();
        let at = |level| thinking.at(level).map(|(level, effort)| (level.name(), effort.shown()));
        assert_eq!(at(ThinkingLevel::Off), Some(("off", "0".to_owned())));
        assert_eq!(at(ThinkingLevel::Medium), Some(("low", "2048".to_owned())));
        assert_eq!(at(ThinkingLevel::Max), Some(("high", "much".to_owned())));
        let always: Thinking = serde_json::from_value(json!({"low": "low"})).unwrap();
        assert_eq!(always.at(ThinkingLevel::Off).unwrap().0, ThinkingLevel::Low, "it cannot be off");
        assert_eq!(Thinking::default().at(ThinkingLevel::High), None);
    }
}
