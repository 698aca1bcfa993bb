//! Claude's thinking options at every provider: a word or a token budget.

use serde_json::{Value, json};

use crate::endpoint::{Effort, Endpoint};
use crate::message::{Content, Message};
use crate::model::Request;
use crate::options::{ThinkingLevel, ToolChoice};
use crate::protocol::is_own;

/// Minimum thinking budget that is accepted.
const LEAST_BUDGET: u64 = 1024;
/// Tokens left for the answer in addition to the thinking budget.
const ANSWER: u64 = 1024;

/// Maximum number of blocks before a cache mark in which a prefix is searched.
const LOOK_BACK: usize = 20;

/// The thinking option of a request.
pub(super) struct Asked {
    pub level: ThinkingLevel,
    /// The effort word of an adaptive model.
    word: Option<String>,
    /// The token budget of a model that accepts one; 0 for none.
    budget: Option<u64>,
}

impl Asked {
    /// The thinking option for a request by the protocol `api`, if one is requested.
    pub fn new(endpoint: &Endpoint, api: &str, request: &Request, transcript: &[Message]) -> Option<Asked> {
        let (level, effort) = endpoint.effort(request)?;
        let forced = matches!(request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_));
        let asked = match effort {
            Effort::Word(word) => Asked { level, word: Some(word.clone()), budget: None },
            Effort::Budget(0) => Asked { level: ThinkingLevel::Off, word: None, budget: None },
            Effort::Budget(budget) => Asked { level, word: None, budget: Some(*budget) },
        };
        // Forced tool calls exclude thinking, which some adaptive models cannot disable.
        let can_rest = asked.budget.is_some() || endpoint.thinking.0.contains_key(&ThinkingLevel::Off);
        // With a budget, a turn in progress must begin with thinking that this model signed; another model's
        // turn continues without it.
        if forced && can_rest || asked.budget.is_some() && turn_lacks_thinking(endpoint, api, transcript) {
            return Some(Asked { level: ThinkingLevel::Off, word: None, budget: None });
        }
        Some(asked)
    }

    /// The output limit with room for the budget, but at most `room`.
    pub fn max_tokens(&self, endpoint: &Endpoint, max_tokens: u64, room: u64) -> u64 {
        let Some(budget) = self.budget else { return max_tokens };
        let most = endpoint.max_output.unwrap_or(u64::MAX).min(room);
        max_tokens.max(budget.saturating_add(ANSWER)).min(most.max(LEAST_BUDGET + ANSWER))
    }

    /// The word or the budget, for display.
    pub fn shown(&self) -> String {
        self.word.clone().unwrap_or_else(|| self.budget.unwrap_or(0).to_string())
    }

    /// The request's thinking fields.
    pub fn fields(&self, max_tokens: u64) -> Vec<(String, Value)> {
        let field = |name: &str, value| (name.to_owned(), value);
        match (&self.word, self.budget) {
            _ if self.level == ThinkingLevel::Off => vec![field("thinking", json!({ "type": "disabled" }))],
            (Some(word), _) => vec![
                field("thinking", json!({ "type": "adaptive", "display": "summarized" })),
                field("output_config", json!({ "effort": word })),
            ],
            (None, budget) => {
                let most = max_tokens.saturating_sub(ANSWER);
                let budget = budget.unwrap_or(LEAST_BUDGET).clamp(LEAST_BUDGET, most.max(LEAST_BUDGET));
                vec![field("thinking", json!({ "type": "enabled", "budget_tokens": budget }))]
            }
        }
    }
}

/// Indices of the messages marked for the cache.
///
/// These are the last one and, if more than [`LOOK_BACK`] blocks were added, the end of the
/// previous request.
pub(super) fn marked(messages: &[Value]) -> Vec<usize> {
    let Some(last) = messages.len().checked_sub(1) else { return Vec::new() };
    let before = messages[..last].iter().rposition(|message| message["role"] == "assistant");
    let before = before.and_then(|answer| answer.checked_sub(1)).filter(|at| {
        let added = messages[at + 1..].iter().filter_map(|message| message["content"].as_array());
        messages[last]["role"] == "user" && added.map(Vec::len).sum::<usize>() >= LOOK_BACK
    });
    before.into_iter().chain([last]).collect()
}

/// Whether the answer with the current tool calls lacks thinking to send back.
fn turn_lacks_thinking(endpoint: &Endpoint, api: &str, transcript: &[Message]) -> bool {
    if !matches!(transcript.last(), Some(Message::ToolResult(_))) {
        return false;
    }
    let answer = transcript.iter().rev().find_map(|message| match message {
        Message::Assistant(message) => Some(message),
        _ => None,
    });
    answer.is_some_and(|message| {
        let signed =
            |content: &Content| matches!(content, Content::Thinking { thinking_signature: Some(_), .. });
        !is_own(endpoint, api, message) || !message.content.iter().any(signed)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::endpoint::Thinking;

    #[test]
    fn a_forced_tool_disables_thinking_if_possible() {
        let word = |it: &str| Effort::Word(it.to_owned());
        let (off, high) = (ThinkingLevel::Off, ThinkingLevel::High);
        let asked = |levels: &[(ThinkingLevel, Effort)], tool_choice| {
            let mut endpoint = Endpoint::new("p", "http://x", "m");
            endpoint.thinking = Thinking(BTreeMap::from_iter(levels.iter().cloned()));
            endpoint.level = Some(high);
            let request = Request { tool_choice, ..Request::default() };
            Asked::new(&endpoint, "a", &request, &[]).map(|it| it.level)
        };
        for (levels, forced) in [
            (vec![(off, word("off")), (high, word("high"))], off),
            (vec![(high, word("high"))], high),
            (vec![(high, Effort::Budget(9000))], off),
        ] {
            assert_eq!(asked(&levels, ToolChoice::Auto), Some(high));
            assert_eq!(asked(&levels, ToolChoice::Any), Some(forced), "{levels:?}");
            assert_eq!(asked(&levels, ToolChoice::Tool("t".to_owned())), Some(forced), "{levels:?}");
        }
    }
}
