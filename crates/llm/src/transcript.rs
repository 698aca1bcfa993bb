//! Repair of a transcript so that providers accept it.
//!
//! The repair is pure and idempotent.

use std::collections::{HashMap, HashSet};

use crate::message::{Content, Message, ToolResultMessage};

/// Text of the result of a call that has none.
pub(crate) const NO_RESULT: &str = "No result provided";

/// Removes failed responses with their results, and answers calls without a result.
///
/// Calls without a result (after a cancel or crash) get an error result. Results follow the message that made
/// their calls; results without a call, and second results, are removed.
pub fn repair(messages: &[Message]) -> Vec<Message> {
    let mut repaired: Vec<Message> = Vec::with_capacity(messages.len());
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::User(_) => repaired.push(message.clone()),
            Message::ToolResult(_) => {}
            Message::Assistant(assistant) => {
                if assistant.failed() || is_empty(&assistant.content) {
                    continue;
                }
                repaired.push(message.clone());
                let until = messages[at + 1..]
                    .iter()
                    .position(|it| matches!(it, Message::Assistant(_)))
                    .map_or(messages.len(), |found| at + 1 + found);
                answer(
                    assistant.tool_calls().map(|it| (&it.id, &it.name)),
                    &messages[at + 1..until],
                    &mut repaired,
                );
            }
        }
    }
    repaired
}

fn is_empty(content: &[Content]) -> bool {
    content.iter().all(|content| match content {
        Content::Text { text, .. } => text.trim().is_empty(),
        Content::Thinking { thinking, thinking_signature, .. } => {
            thinking.trim().is_empty() && thinking_signature.is_none()
        }
        Content::Image { .. } | Content::ToolCall(_) => false,
    })
}

fn answer<'a>(
    calls: impl Iterator<Item = (&'a String, &'a String)>,
    following: &[Message],
    repaired: &mut Vec<Message>,
) {
    let mut results: HashMap<&str, &Message> = HashMap::new();
    for message in following {
        if let Message::ToolResult(result) = message {
            // The first of two results counts.
            results.entry(&result.tool_call_id).or_insert(message);
        }
    }
    let mut answered: HashSet<&str> = HashSet::new();
    for (id, name) in calls {
        if !answered.insert(id) {
            continue;
        }
        repaired.push(results.get(id.as_str()).map(|it| Message::clone(it)).unwrap_or_else(|| {
            Message::ToolResult(ToolResultMessage {
                tool_call_id: id.clone(),
                tool_name: name.clone(),
                content: vec![Content::text(NO_RESULT)],
                details: serde_json::Value::Null,
                is_error: true,
                added_tools: Vec::new(),
                timestamp: 0,
            })
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AssistantMessage, StopReason, ToolCall};

    fn calls(stop_reason: StopReason, ids: &[&str]) -> Message {
        let call = |id: &&str| {
            Content::ToolCall(ToolCall {
                id: (*id).to_owned(),
                name: "t".to_owned(),
                arguments: serde_json::Map::new(),
                arguments_error: None,
                thought_signature: None,
            })
        };
        Message::Assistant(AssistantMessage {
            content: ids.iter().map(call).collect(),
            stop_reason,
            ..AssistantMessage::empty("a", "p", "m")
        })
    }

    fn result(id: &str) -> Message {
        Message::ToolResult(ToolResultMessage {
            tool_call_id: id.to_owned(),
            tool_name: "t".to_owned(),
            content: vec![Content::text(format!("result {id}"))],
            details: serde_json::Value::Null,
            is_error: false,
            added_tools: Vec::new(),
            timestamp: 0,
        })
    }

    #[track_caller]
    fn check(messages: &[Message], expected: &[&str]) {
        let repaired = repair(messages);
        let shown: Vec<String> = repaired
            .iter()
            .map(|message| match message {
                Message::ToolResult(result) => format!("{}: {}", result.tool_call_id, message.text()),
                Message::Assistant(assistant) => {
                    format!(
                        "calls {}",
                        assistant.tool_calls().map(|it| it.id.as_str()).collect::<Vec<_>>().join(" ")
                    )
                }
                Message::User(_) => message.text(),
            })
            .collect();
        assert_eq!(shown, expected);
        assert_eq!(repair(&repaired), repaired, "idempotent");
    }

    #[test]
    fn unanswered_calls_are_answered_before_the_next_message() {
        check(
            &[
                Message::user("go"),
                calls(StopReason::ToolUse, &["a", "b", "c"]),
                result("b"),
                Message::user("on"),
            ],
            &["go", "calls a b c", "a: No result provided", "b: result b", "c: No result provided", "on"],
        );
    }

    #[test]
    fn failed_responses_are_removed_with_their_results() {
        for stop_reason in [StopReason::Error, StopReason::Aborted] {
            check(
                &[Message::user("go"), calls(stop_reason, &["a"]), result("a"), Message::user("on")],
                &["go", "on"],
            );
        }
    }

    #[test]
    fn results_move_to_their_calls_and_strays_are_dropped() {
        check(
            &[
                result("x"),
                Message::user("go"),
                calls(StopReason::ToolUse, &["a"]),
                Message::user("steer"),
                result("a"),
                result("a"),
            ],
            &["go", "calls a", "a: result a", "steer"],
        );
    }
}
