//! Old tool results that one line replaces in later requests, and images that a provider refused.
//!
//! The module is pure.

use std::time::Duration;

use llm::{Content, Message};

use crate::transcript::estimate;

/// Time after which a provider has dropped the cached start of a request.
const CACHE_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// Smallest result that is replaced, in tokens.
const SMALL: u64 = 100;
/// Characters of a result's first line in the line that replaces it.
const FIRST_LINE: usize = 100;
/// Replaces an image that the provider refused.
const REFUSED: &str = "(image removed: the provider refused it)";
const START: &str = "[removed to save room: ";

/// Whether the next request cannot use a provider's cache of the last one.
///
/// The model changed, or the last answer is older than the cache's lifetime.
pub(crate) fn is_cache_lost(messages: &[Message], model: (&str, &str), now_ms: u64) -> bool {
    let last = messages.iter().rev().find_map(|message| match message {
        Message::Assistant(answer) if !answer.failed() => Some(answer),
        _ => None,
    });
    last.is_some_and(|last| {
        let age = Duration::from_millis(now_ms.saturating_sub(last.timestamp));
        (last.provider.as_str(), last.model.as_str()) != model || age > CACHE_LIFETIME
    })
}

/// The results older than the newest `keep` tokens, with their replacements.
pub(crate) fn stale_results(messages: &[Message], keep: u64, api: &str) -> Vec<(usize, String)> {
    let mut tokens = 0;
    let mut stale = Vec::new();
    for (at, message) in messages.iter().enumerate().rev() {
        let size = estimate(message, api);
        if let Message::ToolResult(result) = message
            && tokens >= keep
            && size >= SMALL
            && !message.text().starts_with(START)
        {
            stale.push((at, replacement(&result.tool_name, message)));
        }
        tokens += size;
    }
    stale
}

/// The content without images of the messages since the last answer.
///
/// A provider refused a request because of an image; it accepted earlier ones with that answer. If no
/// message since has an image, all messages are searched.
pub(crate) fn without_images(messages: &[Message]) -> Vec<(usize, Vec<Content>)> {
    let answered = |message: &Message| matches!(message, Message::Assistant(answer) if !answer.failed());
    let last = messages.iter().rposition(answered).unwrap_or(0);
    let without = |from: usize| {
        let contents = messages.iter().enumerate().skip(from).filter_map(|(at, message)| {
            let is_image = |block: &Content| matches!(block, Content::Image { .. });
            let blocks = message.content().iter();
            message.content().iter().any(is_image).then(|| {
                let replaced =
                    |block: &Content| if is_image(block) { Content::text(REFUSED) } else { block.clone() };
                (at, blocks.map(replaced).collect())
            })
        });
        contents.collect::<Vec<_>>()
    };
    match without(last) {
        contents if contents.is_empty() => without(0),
        contents => contents,
    }
}

/// The line that replaces a result.
///
/// It has the size, the tool and the first line, which has the path and the tag of a read.
fn replacement(tool: &str, result: &Message) -> String {
    let text = result.text();
    let images = result.content().iter().filter(|block| matches!(block, Content::Image { .. })).count();
    let count = |count: usize, name: &str| format!("{count} {name}{}", if count == 1 { "" } else { "s" });
    let lines = count(text.lines().count(), "line");
    let size = if images == 0 { lines } else { format!("{lines} and {}", count(images, "image")) };
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let first: String = first.chars().take(FIRST_LINE).collect();
    format!("{START}{size} from `{tool}`, beginning with `{first}`; call the tool again if you need it]")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use llm::{AssistantMessage, ToolResultMessage};

    use super::*;

    fn result(text: &str) -> Message {
        Message::ToolResult(ToolResultMessage {
            tool_call_id: "i".to_owned(),
            tool_name: "read".to_owned(),
            content: vec![Content::text(text)],
            details: serde_json::Value::Null,
            is_error: false,
            added_tools: Vec::new(),
            timestamp: 0,
        })
    }

    #[test]
    fn old_large_results_become_one_line() {
        let long = format!("[src/a.rs#3F2A]\n{}", "1kq:let x = 1;\n".repeat(40));
        let mut messages = vec![Message::user("go"), result(&long), result("small"), result(&long)];
        let size = estimate(&messages[1], "a");
        let stale = stale_results(&messages, size, "a");
        expect![[r#"
            [
                (
                    1,
                    "[removed to save room: 41 lines from `read`, beginning with `[src/a.rs#3F2A]`; call the tool again if you need it]",
                ),
            ]
        "#]]
        .assert_debug_eq(&stale);
        assert_eq!(stale_results(&messages, 10 * size, "a"), []);
        let removed = format!("{}{}", stale[0].1, "x".repeat(400));
        messages[1] = result(&removed);
        assert_eq!(stale_results(&messages, size, "a"), []);
    }

    #[test]
    fn images_since_the_last_answer_are_removed_first() {
        let image = Content::Image { data: "AAAA".to_owned(), mime_type: "image/png".to_owned() };
        let with_image = |text: &str| {
            let Message::ToolResult(result) = result(text) else { return Message::user(text) };
            let content = [result.content, vec![image.clone()]].concat();
            Message::ToolResult(ToolResultMessage { content, ..result })
        };
        let answer = Message::Assistant(AssistantMessage::empty("a", "p", "m"));
        let mut messages = vec![Message::user("go"), with_image("one"), answer, with_image("two")];
        let places = |messages: &[Message]| -> Vec<usize> {
            without_images(messages).into_iter().map(|(at, _)| at).collect()
        };
        assert_eq!(places(&messages), [3]);
        assert_eq!(without_images(&messages)[0].1, [Content::text("two"), Content::text(REFUSED)]);
        messages[3] = result("two");
        assert_eq!(places(&messages), [1]);
        messages[1] = result("one");
        assert_eq!(places(&messages), [0; 0]);
    }

    #[test]
    fn a_pause_or_another_model_loses_the_cache() {
        let answer = AssistantMessage { timestamp: 1_000, ..AssistantMessage::empty("a", "p", "m") };
        let messages = [Message::Assistant(answer), Message::user("on")];
        assert!(!is_cache_lost(&messages, ("p", "m"), 301_000));
        assert!(is_cache_lost(&messages, ("p", "m"), 301_001));
        assert!(is_cache_lost(&messages, ("p", "n"), 1_000));
        assert!(!is_cache_lost(&messages[1..], ("p", "m"), 301_001));
    }
}
