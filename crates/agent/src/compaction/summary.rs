//! What a conversation is summarized from, and the summary that needs no model. Pure.

use std::collections::BTreeMap;

use llm::Message;

use crate::store::{is_summary, summary_text};

/// What a model is told that summarizes.
pub(super) const INSTRUCTIONS: &str = include_str!("instructions.md");

/// More characters of one result are left out.
const RESULT: usize = 2_000;
/// More characters of an earlier summary are left out of an extract.
const EARLIER: usize = 6_000;
/// So many of the newest requests are in an extract, with so many characters each.
const REQUESTS: usize = 12;
const REQUEST: usize = 300;

/// What a model is asked: the conversation as text, the earlier summary apart.
pub(super) fn question(messages: &[Message], wishes: &str) -> String {
    let mut text = String::new();
    for message in messages.iter().filter(|message| !is_summary(message)) {
        match message {
            Message::User(_) => text.push_str(&format!("[User]: {}\n\n", message.text())),
            Message::Assistant(assistant) => {
                let said = assistant.text();
                if !said.is_empty() {
                    text.push_str(&format!("[Assistant]: {said}\n\n"));
                }
                for call in assistant.tool_calls() {
                    let arguments = serde_json::Value::Object(call.arguments.clone());
                    text.push_str(&format!("[Assistant tool call]: {}({arguments})\n\n", call.name));
                }
            }
            Message::ToolResult(_) => {
                text.push_str(&format!("[Tool result]: {}\n\n", shortened(&message.text(), RESULT)));
            }
        }
    }
    let earlier = messages.iter().rev().find(|it| is_summary(it)).map(summary_text);
    let earlier =
        earlier.map(|it| format!("<earlier-summary>\n{it}\n</earlier-summary>\n\n")).unwrap_or_default();
    let wishes =
        if wishes.trim().is_empty() { String::new() } else { format!("\n\nMind: {}", wishes.trim()) };
    format!("{earlier}<conversation>\n{}\n</conversation>{wishes}", text.trim_end())
}

/// A summary by rules: what was asked, what was called and what failed. The same messages give the same text, and its length is
/// bounded however often it is made of one of its own.
pub fn extract(messages: &[Message]) -> String {
    let mut out = String::new();
    if let Some(earlier) = messages.iter().rev().find(|it| is_summary(it)) {
        out.push_str(&format!("{}\n\n", shortened(&summary_text(earlier), EARLIER)));
    }
    let asked: Vec<String> = messages
        .iter()
        .filter(|it| matches!(it, Message::User(_)) && !is_summary(it))
        .map(Message::text)
        .collect();
    let line = |text: &String| format!("- {}\n", one_line(text, REQUEST));
    out.push_str("## Goal\n");
    out.extend(asked.first().map(line));
    if asked.len() > 1 {
        out.push_str("\n## Asked since, newest last\n");
        out.extend(asked[1..].iter().rev().take(REQUESTS).rev().map(line));
    }
    let mut calls: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut failures: Vec<String> = Vec::new();
    for message in messages {
        match message {
            Message::Assistant(assistant) => {
                assistant.tool_calls().for_each(|call| calls.entry(&call.name).or_default().0 += 1);
            }
            Message::ToolResult(result) if result.is_error => {
                calls.entry(&result.tool_name).or_default().1 += 1;
                failures.push(format!("- {}: {}\n", result.tool_name, one_line(&message.text(), REQUEST)));
            }
            _ => {}
        }
    }
    if !calls.is_empty() {
        out.push_str("\n## Progress\n");
        for (name, (made, failed)) in calls {
            let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
            out.push_str(&format!("- {name}: {made} calls{failed}\n"));
        }
    }
    if !failures.is_empty() {
        out.push_str("\n## Failed, newest last\n");
        out.extend(failures.into_iter().rev().take(REQUESTS).rev());
    }
    let said = messages.iter().rev().find_map(|message| match message {
        Message::Assistant(assistant) => Some(assistant.text()).filter(|text| !text.is_empty()),
        _ => None,
    });
    if let Some(said) = said {
        out.push_str(&format!("\n## Last said\n{}\n", shortened(&said, RESULT)));
    }
    out.trim_end().to_owned()
}

fn one_line(text: &str, limit: usize) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), limit)
}

/// The text, or its beginning and end with what is between left out.
fn shortened(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit * 2 / 3).collect();
    let tail: String = text.chars().skip(count - limit / 3).collect();
    format!("{head} [… {} characters left out …] {tail}", count - limit * 2 / 3 - limit / 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::summary_message;

    #[test]
    fn an_extract_is_the_same_each_time_and_stays_short() {
        let mut summary = extract(&[Message::user("rename it\neverywhere")]);
        assert_eq!(summary, "## Goal\n- rename it everywhere");
        let mut lengths = Vec::new();
        for round in 0..20 {
            let messages = [
                summary_message(&summary),
                Message::user(format!("{round} {}", "long ".repeat(1000))),
                Message::user("and the tests"),
            ];
            assert_eq!(extract(&messages), extract(&messages));
            summary = extract(&messages);
            lengths.push(summary.len());
        }
        assert!(lengths.iter().all(|it| *it < 8_000), "{lengths:?}");
        assert!(summary.contains("rename it everywhere"), "the first goal is still there: {summary}");
    }

    #[test]
    fn the_question_holds_the_earlier_summary_apart_and_cuts_results() {
        let messages = [summary_message("before"), Message::user("go on")];
        let asked = question(&messages, "keep names");
        assert_eq!(
            asked,
            "<earlier-summary>\nbefore\n</earlier-summary>\n\n<conversation>\n[User]: go on\n</conversation>\n\n\
             Mind: keep names"
        );
    }
}
