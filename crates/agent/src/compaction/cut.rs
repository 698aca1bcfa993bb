//! Finds where a conversation can be cut for compaction.
//!
//! The module is pure.

use llm::Message;

use crate::store::is_summary;
use crate::transcript::estimate;

/// Index of the first message to keep, so that about `keep` tokens remain.
///
/// Never separates a call from its result. An answer keeps the user message that its turn began with. `None`
/// when only a summary would be removed.
pub(crate) fn cut(messages: &[Message], keep: u64, api: &str) -> Option<usize> {
    let mut tokens = 0;
    let reached = messages.iter().rposition(|message| {
        tokens += estimate(message, api);
        tokens >= keep
    })?;
    let can = |at: &usize| !matches!(messages[*at], Message::ToolResult(_));
    // Only results remain at the end, so their call is kept as well.
    let at = (reached..messages.len()).find(can).or_else(|| (0..reached).rev().find(can))?;
    let mut at = at;
    if matches!(messages[at], Message::Assistant(_)) {
        while at > 0 && matches!(messages[at - 1], Message::User(_)) {
            at -= 1;
        }
    }
    let nothing_new = messages[..at].iter().all(is_summary);
    (!nothing_new).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::summary_message;
    use llm::{AssistantMessage, Content, ToolCall, ToolResultMessage};

    /// `u`, `a`: 10 tokens each; `c`: a call; `r`: its result; `S`: a summary.
    fn conversation(shape: &str) -> Vec<Message> {
        let text = "x".repeat(40);
        let assistant = |content| {
            Message::Assistant(AssistantMessage { content, ..AssistantMessage::empty("a", "p", "m") })
        };
        let message = |kind| match kind {
            'u' => Message::user(&text),
            'a' => assistant(vec![Content::text(&text)]),
            'c' => assistant(vec![Content::ToolCall(ToolCall {
                id: "i".to_owned(),
                name: "x".repeat(38),
                arguments: serde_json::Map::new(),
                arguments_error: None,
                thought_signature: None,
            })]),
            'r' => Message::ToolResult(ToolResultMessage {
                tool_call_id: "i".to_owned(),
                tool_name: "t".to_owned(),
                content: vec![Content::text(&text)],
                details: serde_json::Value::Null,
                is_error: false,
                added_tools: Vec::new(),
                timestamp: 0,
            }),
            _ => summary_message(&text),
        };
        shape.chars().map(message).collect()
    }

    #[track_caller]
    fn check(marked: &str, keep: u64) {
        let expected = marked.find('|');
        let shape = marked.replace('|', "");
        assert_eq!(cut(&conversation(&shape), keep, "a"), expected, "{marked} {keep}");
    }

    #[test]
    fn the_cut_is_never_between_a_call_and_its_result() {
        check("ua|ua", 20);
        check("uacr", 60);
        check("uacr|cr", 20);
        check("uacr|cr", 15);
        // The limit is reached at a result, so the cut is at the next possible place.
        check("uacr|cr", 30);
        // Only results are at the end, so their call is kept as well.
        check("ua|crrr", 20);
        check("uacr|cr", 10);
    }

    #[test]
    fn a_cut_at_an_answer_moves_to_the_start_of_its_turn() {
        check("ua|uua", 10);
        check("ua|ua", 10);
        check("uacr|ua", 15);
        check("ua", 10);
    }

    #[test]
    fn a_summary_alone_is_not_compacted_again() {
        check("Sua", 15);
        check("Sua|ua", 15);
        check("ua", 1000);
    }
}
