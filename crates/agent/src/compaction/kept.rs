//! The part of a summary that no model writes: the user's messages and the files.
//!
//! It stands at the end of the summary, and the next compaction continues it. The module is pure.

use llm::Message;
use serde_json::{Value, json};

use crate::store::{is_any_summary, is_summary, summary_text};

const SAID: &str = "## The user's messages, verbatim";
const READ: &str = "## Files read";
const CHANGED: &str = "## Files changed";
/// Maximum number of files in each list.
const MAX_FILES: usize = 100;

/// The user's messages and the files of the part that a summary replaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The oldest first.
    said: Vec<String>,
    /// Paths that tools read and did not change, the latest last.
    read: Vec<String>,
    /// Paths that tools changed, the latest last.
    changed: Vec<String>,
}

impl Kept {
    /// Collects them from messages, whose first may be an earlier summary.
    pub(crate) fn of(messages: &[Message]) -> Kept {
        let mut kept = Kept::default();
        for message in messages {
            match message {
                message if is_summary(message) => kept = Kept::parse(&summary_text(message)),
                Message::User(_) if !is_any_summary(message) => kept.said.push(message.text()),
                Message::ToolResult(result) if !result.is_error => {
                    let changed = result.details["files"].as_array().into_iter().flatten();
                    for path in changed.filter_map(|file| file["path"].as_str()) {
                        kept.read.retain(|it| it != path);
                        add(&mut kept.changed, path);
                    }
                    let read = result.details["path"].as_str();
                    if let Some(path) = read.filter(|path| !kept.changed.iter().any(|it| it == path)) {
                        add(&mut kept.read, path);
                    }
                }
                _ => {}
            }
        }
        kept
    }

    fn parse(summary: &str) -> Kept {
        let mut kept = Kept::default();
        let (mut heading, mut is_new) = ("", true);
        for line in without(summary).1.lines() {
            let quoted = line.strip_prefix("> ").or_else(|| line.strip_prefix('>'));
            match (quoted, heading) {
                (Some(text), SAID) if is_new => {
                    kept.said.push(text.to_owned());
                    is_new = false;
                }
                (Some(text), SAID) => {
                    if let Some(last) = kept.said.last_mut() {
                        last.push('\n');
                        last.push_str(text);
                    }
                }
                _ if line.starts_with("## ") => heading = line,
                (None, READ) if !line.is_empty() => kept.read.push(line.to_owned()),
                (None, CHANGED) if !line.is_empty() => kept.changed.push(line.to_owned()),
                _ => is_new = true,
            }
        }
        kept
    }

    /// The lists of files, as the session's file has them.
    pub(crate) fn details(&self) -> Value {
        json!({ "readFiles": self.read, "modifiedFiles": self.changed })
    }

    /// Renders the end of a summary.
    ///
    /// The user's messages have at most about `most` characters.
    /// The first and the newest stay; those between are left out first.
    pub(crate) fn render(&self, most: usize) -> String {
        let mut text = String::new();
        let quoted = |message: &str| {
            let lines = message.lines().map(|line| format!("> {line}").trim_end().to_owned());
            lines.collect::<Vec<_>>().join("\n")
        };
        if let Some((first, others)) = self.said.split_first() {
            let first = super::summary::shortened(first, most / 2);
            let mut room = most.saturating_sub(first.chars().count());
            let mut newest: Vec<String> = Vec::new();
            for message in others.iter().rev() {
                let message = match newest.is_empty() {
                    true => super::summary::shortened(message, room),
                    false => message.clone(),
                };
                let Some(rest) = room.checked_sub(message.chars().count()) else { break };
                room = rest;
                newest.push(quoted(&message));
            }
            text.push_str(&format!("\n\n{SAID}\n\n{}", quoted(&first)));
            let left_out = others.len() - newest.len();
            if left_out > 0 {
                text.push_str(&format!(
                    "\n\n({left_out} message{} left out)",
                    if left_out == 1 { "" } else { "s" }
                ));
            }
            newest.iter().rev().for_each(|message| text.push_str(&format!("\n\n{message}")));
        }
        for (heading, files) in [(READ, &self.read), (CHANGED, &self.changed)] {
            if !files.is_empty() {
                let newest = &files[files.len().saturating_sub(MAX_FILES)..];
                text.push_str(&format!("\n\n{heading}\n{}", newest.join("\n")));
            }
        }
        text
    }
}

/// Splits a summary into the part that a model wrote and the kept part.
pub(crate) fn without(summary: &str) -> (&str, &str) {
    // Lines of the user's messages are quoted, so no heading is in them.
    let headings = [SAID, READ, CHANGED].map(|heading| format!("\n{heading}\n"));
    let at = headings.iter().filter_map(|heading| summary.find(heading.as_str())).min();
    at.map_or((summary, ""), |at| (summary[..at].trim_end(), &summary[at..]))
}

/// A model's summary without headings of the kept part.
pub(crate) fn demoted(summary: &str) -> String {
    let demote = |line: &str| match [SAID, READ, CHANGED].contains(&line.trim_end()) {
        true => format!("#{line}"),
        false => line.to_owned(),
    };
    summary.lines().map(demote).collect::<Vec<_>>().join("\n")
}

fn add(files: &mut Vec<String>, path: &str) {
    files.retain(|it| it != path);
    files.push(path.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::summary_message;
    use expect_test::expect;
    use llm::{Content, ToolResultMessage};

    fn result(details: serde_json::Value) -> Message {
        Message::ToolResult(ToolResultMessage {
            tool_call_id: "i".to_owned(),
            tool_name: "t".to_owned(),
            content: vec![Content::text("text")],
            details,
            is_error: false,
            added_tools: Vec::new(),
            timestamp: 0,
        })
    }

    #[test]
    fn the_next_summary_continues_messages_and_files() {
        let messages = [
            Message::user("rename `a`\n\n## Files read\nno file"),
            result(json!({ "path": "a.rs" })),
            result(json!({ "path": "b.rs" })),
            result(json!({ "files": [{ "path": "a.rs" }] })),
        ];
        let first = Kept::of(&messages);
        let summary = format!("## Goal\nrename{}", first.render(1_000));
        expect![[r#"
            ## Goal
            rename

            ## The user's messages, verbatim

            > rename `a`
            >
            > ## Files read
            > no file

            ## Files read
            b.rs

            ## Files changed
            a.rs"#]]
        .assert_eq(&summary);
        assert_eq!(without(&summary).0, "## Goal\nrename");
        let model = demoted("## Goal\nrename\n\n## Files read\n- a few\n\n## Progress\nnone");
        let summary_of_model = format!("{model}{}", first.render(1_000));
        assert_eq!(without(&summary_of_model).0, model);
        let mut second = Kept::of(&[summary_message(&summary)]);
        assert_eq!(second, first);
        let more = [summary_message(&summary), Message::user("and b"), result(json!({ "path": "a.rs" }))];
        second.said.push("and b".to_owned());
        assert_eq!(Kept::of(&more), second);
    }

    #[test]
    fn a_summary_keeps_the_first_and_the_newest_messages() {
        let said = ["first", "second, a longer one", "third", "fourth"].map(str::to_owned).to_vec();
        let kept = Kept { said, ..Kept::default() };
        expect![[r#"


            ## The user's messages, verbatim

            > first

            (1 message left out)

            > third

            > fourth"#]]
        .assert_eq(&kept.render(20));
        assert_eq!(Kept::default().render(10), "");
    }
}
