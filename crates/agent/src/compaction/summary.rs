//! Builds the summarization request, and the summary that needs no model.
//!
//! The module is pure.

use std::collections::BTreeMap;

use llm::Message;

use crate::compaction::kept;
use crate::store::{is_summary, summary_text};

/// Instructions for the model that summarizes.
pub(crate) const INSTRUCTIONS: &str = include_str!("instructions.md");

/// Maximum characters of one tool result.
const RESULT: usize = 2_000;
/// Minimum characters of a message that is shortened for lack of room.
const LEAST: usize = 120;
/// Number of recent requests in an extract, and characters of each.
const REQUESTS: usize = 12;
const REQUEST: usize = 300;

const GOAL: &str = "## Goal";
const ASKED: &str = "## Asked since, newest last";
const PROGRESS: &str = "## Progress";
const FAILED: &str = "## Failed, newest last";
const SAID: &str = "## Last said";

/// The summarization request: the conversation as text, the earlier summary apart.
///
/// The conversation has about `room` characters at most; the answer should have at most `tokens` tokens.
pub(crate) fn question(messages: &[Message], wishes: &str, room: usize, tokens: u64) -> String {
    let mut parts: Vec<String> = Vec::new();
    for message in messages.iter().filter(|message| !is_summary(message)) {
        match message {
            Message::User(_) => parts.push(format!("[User]: {}", message.text())),
            Message::Assistant(assistant) => {
                let said = assistant.text();
                if !said.is_empty() {
                    parts.push(format!("[Assistant]: {said}"));
                }
                for call in assistant.tool_calls() {
                    let arguments = serde_json::Value::Object(call.arguments.clone());
                    parts.push(format!("[Assistant tool call]: {}({arguments})", call.name));
                }
            }
            Message::ToolResult(_) => {
                parts.push(format!("[Tool result]: {}", shortened(&message.text(), RESULT)));
            }
        }
    }
    let earlier = messages.iter().rev().find(|it| is_summary(it)).map(summary_text);
    let earlier = earlier.as_deref().map(|it| kept::without(it).0);
    let earlier =
        earlier.map(|it| format!("<earlier-summary>\n{it}\n</earlier-summary>\n\n")).unwrap_or_default();
    let wishes =
        if wishes.trim().is_empty() { String::new() } else { format!("\n\nMind: {}", wishes.trim()) };
    fit(&mut parts, room.saturating_sub(earlier.chars().count()));
    // A word has more than one token.
    let words = tokens / 2;
    let conversation = parts.join("\n\n");
    format!(
        "{earlier}<conversation>\n{}\n</conversation>\n\nUse at most {words} words.{wishes}",
        conversation.trim_end()
    )
}

/// Shortens the longest parts, then drops parts after the first, to fit `room`.
fn fit(parts: &mut Vec<String>, room: usize) {
    let size = |parts: &[String]| parts.iter().map(|part| part.chars().count() + 2).sum::<usize>();
    let mut limit = RESULT * 4;
    while size(parts) > room && limit > LEAST {
        limit = (limit / 2).max(LEAST);
        for part in parts.iter_mut() {
            *part = shortened(part, limit);
        }
    }
    let mut left_out = 0;
    while size(parts) > room && parts.len() > 2 {
        // Several parts are dropped at a time, so that a long conversation does not take quadratic time.
        let count = (parts.len() / 8).max(1);
        parts.drain(1..=count);
        left_out += count;
    }
    if left_out > 0 {
        parts.insert(1, format!("[… {left_out} messages omitted …]"));
    }
}

/// A summary by rules: requests, calls and failures, merged with the earlier one.
///
/// It is deterministic and has about `most` characters at most, however often an extract is extracted
/// again.
pub(crate) fn extract_within(messages: &[Message], most: usize) -> String {
    let earlier = messages.iter().rev().find(|it| is_summary(it)).map(summary_text).unwrap_or_default();
    let mut earlier = sections(kept::without(&earlier).0);
    let mut take = |heading: &str| {
        let at = earlier.iter().position(|(it, _)| *it == heading);
        at.map(|at| earlier.remove(at).1).unwrap_or_default()
    };
    let request = REQUEST.min(most / 16);
    let line = |text: &String| format!("- {}", one_line(text, request));
    let mut goal = take(GOAL);
    let mut asked = take(ASKED);
    let mut progress = take(PROGRESS);
    let mut failed = take(FAILED);
    let mut said = take(SAID);
    let requests = messages.iter().filter(|it| matches!(it, Message::User(_)) && !is_summary(it));
    asked.extend(requests.map(|it| line(&it.text())));
    if goal.is_empty() && !asked.is_empty() {
        goal.push(asked.remove(0));
    }
    asked.drain(..asked.len().saturating_sub(REQUESTS));

    let mut calls: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    progress.retain(|line| match counted(line) {
        Some((name, made, failed)) => {
            calls.insert(name, (made, failed));
            false
        }
        None => true,
    });
    for message in messages {
        match message {
            Message::Assistant(assistant) => {
                assistant.tool_calls().for_each(|call| calls.entry(call.name.clone()).or_default().0 += 1);
                let text = assistant.text();
                if !text.is_empty() {
                    said = shortened(&text, (most / 8).min(RESULT)).lines().map(str::to_owned).collect();
                }
            }
            Message::ToolResult(result) if result.is_error => {
                calls.entry(result.tool_name.clone()).or_default().1 += 1;
                failed.push(format!("- {}: {}", result.tool_name, one_line(&message.text(), request)));
            }
            _ => {}
        }
    }
    failed.drain(..failed.len().saturating_sub(REQUESTS));
    progress.extend(calls.into_iter().map(|(name, (made, failed))| {
        let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        format!("- {name}: {made} calls{failed}")
    }));

    let mut all = vec![(GOAL, first_of(goal, most / 8)), (ASKED, last_of(asked, most / 4))];
    // Sections of an earlier summary by a model are kept.
    let each = most / 4 / earlier.len().max(1);
    all.extend(earlier.into_iter().map(|(heading, lines)| (heading, first_of(lines, each))));
    all.push((PROGRESS, first_of(progress, most / 8)));
    all.push((FAILED, last_of(failed, most / 8)));
    all.push((SAID, first_of(said, most / 8)));
    written(&all)
}

/// The summary cut to about `most` characters: each section loses lines at its end.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let sections = sections(text);
    let headings: usize = sections.iter().map(|(heading, _)| heading.chars().count() + 3).sum();
    let room = most.saturating_sub(headings);
    let shares = sections.into_iter().map(|(heading, lines)| {
        let length: usize = lines.iter().map(|line| line.chars().count() + 1).sum();
        (heading, first_of(lines, length * room / count))
    });
    written(&shares.collect::<Vec<_>>())
}

/// The sections of a summary by `##` heading; text before the first has none.
fn sections(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut all: Vec<(&str, Vec<String>)> = vec![("", Vec::new())];
    for line in text.lines() {
        match all.last_mut() {
            _ if line.starts_with("## ") => all.push((line.trim_end(), Vec::new())),
            Some((_, lines)) if !line.trim().is_empty() => lines.push(line.to_owned()),
            _ => {}
        }
    }
    all.retain(|(_, lines)| !lines.is_empty());
    all
}

fn written(sections: &[(&str, Vec<String>)]) -> String {
    let filled = sections.iter().filter(|(_, lines)| !lines.is_empty());
    let texts = filled.map(|(heading, lines)| format!("{heading}\n{}", lines.join("\n")));
    texts.collect::<Vec<_>>().join("\n\n").trim().to_owned()
}

/// Parses a progress line of an extract: tool name, calls, failures.
fn counted(line: &str) -> Option<(String, usize, usize)> {
    let (name, counts) = line.strip_prefix("- ")?.split_once(": ")?;
    let (made, failed) = match counts.split_once(" calls, ") {
        Some((made, failed)) => (made, failed.strip_suffix(" failed")?),
        None => (counts.strip_suffix(" calls")?, "0"),
    };
    Some((name.to_owned(), made.parse().ok()?, failed.parse().ok()?))
}

/// The first lines, up to `most` characters; at least one, shortened.
fn first_of(mut lines: Vec<String>, most: usize) -> Vec<String> {
    let mut room = most;
    let fitting = lines.iter().take_while(|line| {
        let length = line.chars().count() + 1;
        let fits = length <= room;
        room = room.saturating_sub(length);
        fits
    });
    let count = fitting.count().max(1).min(lines.len());
    lines.truncate(count);
    lines.iter_mut().for_each(|line| *line = shortened(line, most.max(LEAST)));
    lines
}

/// The last lines, up to `most` characters; at least one, shortened.
fn last_of(mut lines: Vec<String>, most: usize) -> Vec<String> {
    lines.reverse();
    let mut lines = first_of(lines, most);
    lines.reverse();
    lines
}

fn one_line(text: &str, limit: usize) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), limit)
}

/// The text, or its beginning and end with the middle omitted.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit * 2 / 3).collect();
    let tail: String = text.chars().skip(count - limit / 3).collect();
    format!("{head} [… {} characters omitted …] {tail}", count - limit * 2 / 3 - limit / 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::summary_message;

    fn extract(messages: &[Message]) -> String {
        extract_within(messages, 16_000)
    }

    #[test]
    fn an_extract_is_deterministic_and_bounded() {
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
        assert_eq!(summary.lines().take(2).collect::<Vec<_>>(), ["## Goal", "- rename it everywhere"]);
    }

    #[test]
    fn the_request_separates_the_earlier_summary_and_cuts_results() {
        let messages = [summary_message("before"), Message::user("go on")];
        let asked = question(&messages, "keep names", 10_000, 1_000);
        assert_eq!(
            asked,
            "<earlier-summary>\nbefore\n</earlier-summary>\n\n<conversation>\n[User]: go on\n</conversation>\n\n\
             Use at most 500 words.\n\nMind: keep names"
        );
        let messages: Vec<Message> =
            (0..200).map(|at| Message::user(format!("{at} {}", "word ".repeat(at)))).collect();
        let asked = question(&messages, "", 2_000, 1_000);
        assert!(asked.chars().count() < 2_200, "{}", asked.len());
        for start in ["[User]: 0 ", "[User]: 199 "] {
            assert!(asked.lines().any(|line| line.starts_with(start)), "{asked}");
        }
        assert!(asked.contains("messages omitted"), "{asked}");
    }

    #[test]
    fn a_second_extract_updates_the_first_without_repeating_it() {
        let call = |name: &str| llm::ToolCall {
            id: "i".to_owned(),
            name: name.to_owned(),
            arguments: serde_json::Map::new(),
            arguments_error: None,
            thought_signature: None,
        };
        let answer = |content| {
            let empty = llm::AssistantMessage::empty("a", "p", "m");
            Message::Assistant(llm::AssistantMessage { content, ..empty })
        };
        let first = extract(&[
            Message::user("rename it"),
            answer(vec![llm::Content::ToolCall(call("lsp")), llm::Content::text("half done")]),
        ]);
        let second = extract(&[
            summary_message(&first),
            Message::user("and the tests"),
            answer(vec![llm::Content::ToolCall(call("lsp")), llm::Content::text("all done")]),
        ]);
        let expected = "## Goal\n- rename it\n\n## Asked since, newest last\n- and the tests\n\n\
                        ## Progress\n- lsp: 2 calls\n\n## Last said\nall done";
        assert_eq!(second, expected);
        let by_model = "## Goal\nrename it\n## Key Decisions\nnone\n## Progress\n### Done\n- a.rs";
        let third = extract(&[summary_message(by_model), Message::user("go on")]);
        let expected = "## Goal\nrename it\n\n## Asked since, newest last\n- go on\n\n\
                        ## Key Decisions\nnone\n\n## Progress\n### Done\n- a.rs";
        assert_eq!(third, expected);
    }

    #[test]
    fn a_long_summary_loses_the_ends_of_its_sections() {
        let lines: String = (0..100).map(|at| format!("- decision {at}\n")).collect();
        let text = format!("## Goal\nrename it\n## Key Decisions\n{lines}## Next Steps\n- test");
        let bounded = bounded(&text, 400);
        assert!(bounded.chars().count() <= 450, "{}", bounded.len());
        for kept in ["## Goal\nren", "## Key Decisions\n- decision 0\n- decision 1\n", "## Next Steps\n"] {
            assert!(bounded.contains(kept), "{kept}: {bounded}");
        }
    }
}
