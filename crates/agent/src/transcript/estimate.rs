//! Estimates of the number of tokens in a message.
//!
//! The module is pure.

use llm::{Content, Message};

/// Estimated tokens of a message: a quarter of its characters, and its images.
pub(crate) fn estimate(message: &Message, api: &str) -> u64 {
    let characters = |text: &str| text.chars().count() as u64;
    let block = |content: &Content| match content {
        Content::Text { text, .. } => characters(text),
        Content::Thinking { thinking, .. } => characters(thinking),
        Content::Image { data, .. } => llm::image_tokens(api, data) * 4,
        Content::ToolCall(call) => {
            let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
            characters(&call.name) + characters(&arguments)
        }
    };
    message.content().iter().map(block).sum::<u64>().div_ceil(4)
}
