//! The lines of a session file as values.
//!
//! The module is pure.

use std::borrow::Cow;
use std::ops::Range;

use llm::{Content, Message, ThinkingLevel, UserMessage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version that is written; older versions are read.
pub const VERSION: u64 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Version of the format.
    #[serde(default = "first_version")]
    pub version: u64,
    pub id: String,
    /// Start of the session, in RFC 3339.
    #[serde(default)]
    pub timestamp: String,
    #[serde(default)]
    pub cwd: String,
    /// The session this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// The entry of the parent at which it was forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_point: Option<String>,
}

fn first_version() -> u64 {
    1
}

/// Any line after the header; its body is parsed on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Id that is unique within the file.
    pub id: String,
    /// The preceding entry; `None` for a root.
    pub parent_id: Option<String>,
    /// Time of writing, in RFC 3339.
    pub timestamp: String,
    /// The `type` of the line.
    pub kind: String,
    /// Range of the line in the text, without its line break.
    pub line: Range<usize>,
}

/// The content of an entry.
/// Kind of the custom entry that records a run.
pub(super) const RUN: &str = "run";

#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    Message(Box<Message>),
    /// A command that the user ran, and its output.
    Command {
        command: String,
        /// The kept part of the output.
        output: String,
        /// Exit code, if it ended.
        exit_code: Option<i64>,
        /// Whether it is hidden from the model.
        excluded: bool,
    },
    /// Another model from here on.
    ModelChange {
        provider: String,
        model: String,
    },
    /// Another thinking level from here on; an unknown level counts as none.
    ThinkingLevelChange(Option<ThinkingLevel>),
    /// A summary that replaces the messages before it.
    Compaction {
        summary: String,
        /// The first entry that is kept; if it is this entry itself, none is.
        first_kept: Option<String>,
        /// Estimated tokens before the compaction.
        tokens_before: u64,
    },
    /// A summary of an abandoned branch.
    BranchSummary {
        /// The last entry of that branch.
        from: String,
        summary: String,
    },
    /// The label of an entry, or its removal.
    Label {
        target: String,
        label: Option<String>,
    },
    Info {
        name: Option<String>,
    },
    /// A replacement of an entry for the model from here on; `None` removes it.
    ContextEdit {
        target: String,
        replacement: Option<Box<Message>>,
    },
    /// Data of the embedding program, not sent to a model.
    Custom {
        kind: String,
        data: Value,
    },
    /// Text of the embedding program, sent to the model.
    CustomMessage {
        kind: String,
        content: Vec<Content>,
        /// Whether surfaces show it.
        display: bool,
    },
    /// Tools that the model now knows.
    ToolActivation(Vec<String>),
    /// A restore point for `undo`.
    Checkpoint {
        name: String,
    },
    /// A permission question.
    Permission {
        title: String,
        /// The answer, as in [`crate::events::PermissionAnswer`].
        answer: String,
    },
    /// Any other type (such as `usage`), or a message of an unknown role.
    ///
    /// The entry keeps the whole line; no model receives it.
    Other(Value),
}

impl Entry {
    /// Parses the head of a line, and whether the whole line was parsed.
    ///
    /// If a line begins as Pilcrow writes it, only its beginning is read.
    pub(super) fn read(text: &str, line: Range<usize>) -> Result<(Entry, bool), String> {
        let content = &text[line.clone()];
        if let Some((kind, id, parent_id, timestamp)) = head(content) {
            let entry = Entry {
                id: id.to_owned(),
                parent_id: parent_id.map(str::to_owned),
                timestamp: timestamp.to_owned(),
                kind: kind.to_owned(),
                line,
            };
            return Ok((entry, false));
        }
        #[derive(Deserialize)]
        struct Head<'a> {
            #[serde(rename = "type", borrow)]
            kind: Option<Cow<'a, str>>,
            #[serde(borrow)]
            id: Option<Cow<'a, str>>,
            #[serde(rename = "parentId", borrow, default)]
            parent_id: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            timestamp: Option<Cow<'a, str>>,
        }
        let head: Head = serde_json::from_str(content).map_err(|error| error.to_string())?;
        let entry = Entry {
            id: head.id.ok_or("it has no id")?.into_owned(),
            parent_id: head.parent_id.map(Cow::into_owned),
            timestamp: head.timestamp.map(Cow::into_owned).unwrap_or_default(),
            kind: head.kind.ok_or("it has no type")?.into_owned(),
            line,
        };
        Ok((entry, true))
    }
}

/// Type, id, parent and timestamp of a line that begins as Pilcrow writes it.
fn head(line: &str) -> Option<(&str, &str, Option<&str>, &str)> {
    fn text(rest: &str) -> Option<(&str, &str)> {
        let rest = rest.strip_prefix('"')?;
        let end = rest.find('"')?;
        let (text, rest) = rest.split_at(end);
        (!text.contains('\\')).then_some((text, &rest[1..]))
    }
    let (kind, rest) = text(line.strip_prefix("{\"type\":")?)?;
    let (id, rest) = text(rest.strip_prefix(",\"id\":")?)?;
    let rest = rest.strip_prefix(",\"parentId\":")?;
    let (parent_id, rest) = match rest.strip_prefix("null") {
        Some(rest) => (None, rest),
        None => text(rest).map(|(id, rest)| (Some(id), rest))?,
    };
    let (timestamp, _) = text(rest.strip_prefix(",\"timestamp\":")?)?;
    Some((kind, id, parent_id, timestamp))
}

impl EntryBody {
    /// Parses the body of a line of this type.
    pub(super) fn read(kind: &str, line: &str) -> Result<EntryBody, String> {
        if kind == "message" {
            #[derive(Deserialize)]
            struct Line {
                message: Message,
            }
            if let Ok(Line { message }) = serde_json::from_str(line) {
                return Ok(EntryBody::Message(Box::new(message)));
            }
        }
        let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let optional = |name: &str| value[name].as_str().map(str::to_owned);
        Ok(match kind {
            "message" => match foreign_message(&value["message"]) {
                Some(body) => body,
                None => match known_part(&value["message"]) {
                    Some(message) => EntryBody::Message(Box::new(message)),
                    None => EntryBody::Other(value),
                },
            },
            "model_change" => {
                EntryBody::ModelChange { provider: text(&value, "provider"), model: text(&value, "modelId") }
            }
            "thinking_level_change" => EntryBody::ThinkingLevelChange(
                serde_json::from_value(value["thinkingLevel"].clone()).unwrap_or(None),
            ),
            "compaction" => EntryBody::Compaction {
                summary: text(&value, "summary"),
                first_kept: optional("firstKeptEntryId"),
                tokens_before: value["tokensBefore"].as_u64().unwrap_or(0),
            },
            "branch_summary" => {
                EntryBody::BranchSummary { from: text(&value, "fromId"), summary: text(&value, "summary") }
            }
            "label" => EntryBody::Label { target: text(&value, "targetId"), label: optional("label") },
            "session_info" => EntryBody::Info { name: optional("name") },
            "context_edit" => EntryBody::ContextEdit {
                target: text(&value, "targetId"),
                replacement: serde_json::from_value(value["replacement"].clone())
                    .unwrap_or(None)
                    .map(Box::new),
            },
            "custom" => EntryBody::Custom { kind: text(&value, "customType"), data: value["data"].clone() },
            "custom_message" => EntryBody::CustomMessage {
                kind: text(&value, "customType"),
                content: content(&value["content"]),
                display: value["display"].as_bool().unwrap_or(true),
            },
            "checkpoint" => EntryBody::Checkpoint { name: text(&value, "name") },
            "permission" => {
                EntryBody::Permission { title: text(&value, "title"), answer: text(&value, "answer") }
            }
            "tool_activation" => {
                EntryBody::ToolActivation(serde_json::from_value(value["tools"].clone()).unwrap_or_default())
            }
            _ => EntryBody::Other(value),
        })
    }

    /// The message that a model receives for the entry, if any.
    pub fn message(self, timestamp: u64) -> Option<Message> {
        Some(match self {
            EntryBody::Message(message) => *message,
            EntryBody::Command { command, output, exit_code, excluded: false } => {
                let status = match exit_code {
                    Some(0) | None => String::new(),
                    Some(code) => format!("\n(status {code})"),
                };
                user(
                    vec![Content::text(format!("Ran `{command}`\n```\n{}\n```{status}", output.trim_end()))],
                    timestamp,
                )
            }
            EntryBody::CustomMessage { content, .. } => user(content, timestamp),
            EntryBody::Compaction { summary, .. } => summary_message(&summary),
            EntryBody::BranchSummary { summary, .. } => branch_message(&summary),
            _ => return None,
        })
    }
}

/// Message roles that other programs write.
fn foreign_message(message: &Value) -> Option<EntryBody> {
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    Some(match message["role"].as_str()? {
        "bashExecution" => EntryBody::Command {
            command: text("command"),
            output: text("output"),
            exit_code: message["exitCode"].as_i64(),
            excluded: message["excludeFromContext"].as_bool().unwrap_or(false),
        },
        "custom" | "hookMessage" => EntryBody::CustomMessage {
            kind: text("customType"),
            content: content(&message["content"]),
            display: message["display"].as_bool().unwrap_or(true),
        },
        "branchSummary" => EntryBody::BranchSummary { from: text("fromId"), summary: text("summary") },
        "compactionSummary" => EntryBody::Compaction {
            summary: text("summary"),
            first_kept: None,
            tokens_before: message["tokensBefore"].as_u64().unwrap_or(0),
        },
        _ => return None,
    })
}

/// A message with its unknown blocks replaced by a text that says so.
///
/// `None` if unknown blocks are not the problem.
fn known_part(message: &Value) -> Option<Message> {
    let mut message = message.clone();
    for block in message.get_mut("content")?.as_array_mut()? {
        if serde_json::from_value::<Content>(block.clone()).is_err() {
            let kind: String = block["type"].as_str().unwrap_or("no").chars().take(40).collect();
            *block = json!({ "type": "text", "text": format!("[unsupported block of type {kind}]") });
        }
    }
    serde_json::from_value(message).ok()
}

fn content(value: &Value) -> Vec<Content> {
    match value {
        Value::String(text) => vec![Content::text(text.as_str())],
        blocks => serde_json::from_value(blocks.clone()).unwrap_or_default(),
    }
}

fn user(content: Vec<Content>, timestamp: u64) -> Message {
    Message::User(UserMessage { content, timestamp })
}

const SUMMARY: (&str, &str) =
    ("Summary of the conversation before this point:\n\n<summary>\n", "\n</summary>");
const BRANCH: (&str, &str) =
    ("Summary of another branch of the conversation, which was abandoned:\n\n<summary>\n", "\n</summary>");

/// A summary as a message for the model.
pub(crate) fn summary_message(summary: &str) -> Message {
    user(vec![Content::text(format!("{}{summary}{}", SUMMARY.0, SUMMARY.1))], 0)
}

fn branch_message(summary: &str) -> Message {
    user(vec![Content::text(format!("{}{summary}{}", BRANCH.0, BRANCH.1))], 0)
}

/// Whether a message is a summary of the earlier conversation.
pub(crate) fn is_summary(message: &Message) -> bool {
    match message.content() {
        [Content::Text { text, .. }] => matches!(message, Message::User(_)) && text.starts_with(SUMMARY.0),
        _ => false,
    }
}

/// Whether a message is a summary of the earlier conversation or of another branch.
pub(crate) fn is_any_summary(message: &Message) -> bool {
    is_summary(message) || matches!(message, Message::User(_)) && message.text().starts_with(BRANCH.0)
}

/// The summary in such a message.
pub fn summary_text(message: &Message) -> String {
    let text = message.text();
    let inner = text.strip_prefix(SUMMARY.0).unwrap_or(&text);
    inner.strip_suffix(SUMMARY.1).unwrap_or(inner).to_owned()
}

/// The first line of a file, with its line break.
pub(super) fn header_line(header: &Header) -> String {
    let mut line = json!({ "type": "session" });
    if let (Value::Object(line), Ok(Value::Object(header))) = (&mut line, serde_json::to_value(header)) {
        line.extend(header);
    }
    format!("{line}\n")
}

/// A line of this type, with its line break; `fields` follow the common members.
pub(super) fn line(kind: &str, id: &str, parent_id: Option<&str>, timestamp: &str, fields: Value) -> String {
    let mut line = json!({ "type": kind, "id": id, "parentId": parent_id, "timestamp": timestamp });
    if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
        line.extend(fields);
    }
    format!("{line}\n")
}

/// The line of a message, with its line break, serialized without a value tree.
pub(super) fn message_line(
    id: &str,
    parent_id: Option<&str>,
    timestamp: &str,
    message: &Message,
) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Line<'a> {
        r#type: &'static str,
        id: &'a str,
        #[serde(rename = "parentId")]
        parent_id: Option<&'a str>,
        timestamp: &'a str,
        message: &'a Message,
    }
    let mut line = serde_json::to_string(&Line { r#type: "message", id, parent_id, timestamp, message })?;
    line.push('\n');
    Ok(line)
}
