//! Where a model is served, and everything in which it differs from others of its protocol: data, so that a
//! person can add a provider without code.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::http::Clocks;
use crate::keys::Keys;
use crate::model::Request;
use crate::options::ThinkingLevel;
use crate::price::Price;
use crate::retry::RetryPolicy;
use crate::secret::ApiKey;
use crate::sigv4::AwsKeys;

/// Where a model is served and how to ask for it.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The provider's name, for people and for messages.
    pub provider: String,
    /// For example `http://127.0.0.1:8080/v1`; a slash at the end does no harm.
    pub base_url: String,
    /// The model's id, as the server spells it.
    pub model: String,
    /// The key; local servers need none.
    pub api_key: Option<ApiKey>,
    /// Where the key of each request comes from; counts in place of `api_key`.
    pub keys: Option<Arc<dyn Keys>>,
    /// Keys that requests are signed with where no key is sent; `bedrock-converse-stream` alone signs.
    pub aws: Option<AwsKeys>,
    /// What else must not be shown: values of the environment that stand in the address or in headers.
    pub secrets: Vec<ApiKey>,
    /// How the key is sent; as the protocol does it when `None`.
    pub auth: Option<Auth>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Whether the model takes images.
    pub images: bool,
    /// Tokens that fit into one request and its answer, if known.
    pub context_window: Option<u64>,
    /// The most tokens the model answers with, if known.
    pub max_output: Option<u64>,
    /// Whether it can be told of tools in the middle of a transcript, as its protocol does that; what a server has cached of the
    /// beginning then holds.
    pub late_tools: bool,
    /// What its tokens cost, if known.
    pub price: Option<Price>,
    /// How it is told how hard to think.
    pub thinking: Thinking,
    /// How hard it thinks where a request does not say.
    pub level: Option<ThinkingLevel>,
    /// What is said beside an answer of this HTTP status.
    pub texts: BTreeMap<u16, String>,
    /// What this server does differently.
    pub compat: Compat,
    /// How long to wait for what; [`Clocks::for_url`] by default.
    pub clocks: Option<Clocks>,
    /// Attempts at a request that does not stream yet.
    pub retry: RetryPolicy,
}

impl Endpoint {
    /// An endpoint without a key, with everything else at its default.
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
            clocks: None,
            retry: RetryPolicy::default(),
        }
    }

    /// The level of thinking that `request` gets and what to send for it; `None` where nothing is asked for or the
    /// model has no levels.
    pub(crate) fn effort(&self, request: &Request) -> Option<(ThinkingLevel, &Effort)> {
        self.thinking.at(request.thinking.or(self.level)?)
    }

    /// The base URL with `path` after it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base_url.trim_end_matches('/'))
    }
}

/// The header that carries a key: its name and what stands before the key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// For example `x-api-key`.
    pub header: String,
    /// For example `Bearer ` with its blank.
    #[serde(default)]
    pub prefix: String,
}

impl Auth {
    /// `Authorization: Bearer KEY`.
    pub fn bearer() -> Auth {
        Auth { header: "authorization".to_owned(), prefix: "Bearer ".to_owned() }
    }

    /// The key alone in this header.
    pub fn header(name: &str) -> Auth {
        Auth { header: name.to_owned(), prefix: String::new() }
    }
}

/// What is sent for each level of thinking that a model has; nothing for a model that has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Thinking(pub BTreeMap<ThinkingLevel, Effort>);

/// What a model is told for one level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Effort {
    /// So many tokens at most; 0 for none.
    Budget(u64),
    /// The provider's word.
    Word(String),
}

impl Effort {
    /// As it is told to people: the word, or the number.
    pub fn shown(&self) -> String {
        match self {
            Effort::Budget(tokens) => tokens.to_string(),
            Effort::Word(word) => word.clone(),
        }
    }
}

impl Thinking {
    /// The level that is had when `asked` is asked for, and what to send for it: `asked` itself, else
    /// the next lower one, else the least there is. `None` for a model that has no levels.
    pub fn at(&self, asked: ThinkingLevel) -> Option<(ThinkingLevel, &Effort)> {
        let lower = self.0.range(..=asked).next_back();
        lower.or_else(|| self.0.first_key_value()).map(|(level, effort)| (*level, effort))
    }
}

/// What a server does differently from its protocol's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compat {
    /// `openai-completions`: the field that limits the output.
    pub max_tokens_field: MaxTokensField,
    /// `openai-completions`: whether `stream_options.include_usage` is understood.
    pub usage_in_streaming: bool,
    /// `openai-completions`: whether every stream ends in a `finish_reason`; if not, the end of the stream is the
    /// end of the message.
    pub finish_reason: bool,
    /// `openai-completions`: whether an assistant message with tool calls only must have `""` for content
    /// instead of `null`.
    pub non_null_assistant_content: bool,
    /// `openai-completions`: whether what an assistant said is refused without `reasoning_content`, which there is none of
    /// where another model said it.
    pub reasoning_content: bool,
    /// `openai-completions`: the field that says how hard to think.
    pub thinking_field: ThinkingField,
    /// Whether a key for the provider's cache (`prompt_cache_key`) is understood.
    pub prompt_cache_key: bool,
    /// Whether `cache_control` is understood.
    pub cache_control: bool,
    /// Whether arguments are held to a tool's schema while they are made (`strict`, Google's `VALIDATED`), for each tool whose schema
    /// can be said so, and of Claude's as many as a request may hold it to.
    pub strict_tools: bool,
    /// `anthropic-messages`: whether arguments are asked for as they are made and not when they are whole
    /// (`eager_input_streaming`).
    pub eager_input_streaming: bool,
    /// Whether the model can be made to call a tool (`tool_choice`); a request that asks for more is refused before it is sent.
    pub tool_choice: ForcedTools,
    /// The most tools that a request may have; a request with more is refused before it is sent.
    pub most_tools: Option<usize>,
    /// The most characters of a tool's description; longer ones are cut, and stand whole in the instructions.
    pub longest_description: Option<usize>,
    /// `azure-openai-responses`: the deployment that serves a model, by the model's id; one that is not here is deployed
    /// under its own name.
    pub deployments: BTreeMap<String, String>,
}

/// How far a model can be made to call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForcedTools {
    /// It calls what it likes.
    Auto,
    /// Some tool.
    Any,
    /// The one that is named.
    Named,
}

/// The field that limits the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_completion_tokens`, OpenAI's own.
    MaxCompletionTokens,
    /// `max_tokens`, which every local server takes.
    MaxTokens,
}

/// The field that says how hard to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingField {
    /// `reasoning_effort`, OpenAI's own.
    ReasoningEffort,
    /// `reasoning = { effort }`, as OpenRouter has it.
    Reasoning,
    /// `thinking = { type: enabled | disabled }`, as DeepSeek and Z.ai have it, and `reasoning_effort` beside it for every word
    /// but `on` and `off`.
    Thinking,
    /// `enable_thinking`, as Qwen has it, and `reasoning_effort` beside it for every word but `on` and `off`.
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
    fn a_level_that_is_lacked_becomes_the_next_lower_one() {
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
