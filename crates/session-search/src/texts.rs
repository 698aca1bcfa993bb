//! The searched text of an entry.
//!
//! Pictures, models, levels and custom data are not searched.

use agent::store::{Entry, EntryBody, LoadedSession};
use llm::{Content, Message};
use serde_json::Value;

/// Kind and text of an entry; `None` if it has nothing to search.
pub(crate) fn of(session: &LoadedSession, entry: &Entry) -> Option<(String, String)> {
    let mut text = String::new();
    let kind = match session.body(entry).ok()? {
        EntryBody::Message(message) => {
            blocks(message.content(), &mut text);
            match *message {
                Message::User(_) => "user",
                Message::Assistant(_) => "assistant",
                Message::ToolResult(_) => "toolResult",
            }
            .to_owned()
        }
        EntryBody::Command { command, output, .. } => {
            add(&mut text, &command);
            add(&mut text, &output);
            "command".to_owned()
        }
        EntryBody::CustomMessage { content, .. } => {
            blocks(&content, &mut text);
            entry.kind.clone()
        }
        EntryBody::Compaction { summary, .. } | EntryBody::BranchSummary { summary, .. } => {
            add(&mut text, &summary);
            entry.kind.clone()
        }
        EntryBody::Label { label: Some(name), .. } | EntryBody::Info { name: Some(name) } => {
            add(&mut text, &name);
            entry.kind.clone()
        }
        _ => return None,
    };
    (!text.is_empty()).then_some((kind, text))
}

fn blocks(content: &[Content], text: &mut String) {
    for block in content {
        match block {
            Content::Text { text: block, .. } => add(text, block),
            Content::Thinking { thinking, .. } => add(text, thinking),
            Content::ToolCall(call) => {
                add(text, &call.name);
                call.arguments.values().for_each(|value| strings(value, text));
            }
            Content::Image { .. } => {}
        }
    }
}

fn strings(value: &Value, text: &mut String) {
    match value {
        Value::String(it) => add(text, it),
        Value::Array(items) => items.iter().for_each(|it| strings(it, text)),
        Value::Object(fields) => fields.values().for_each(|it| strings(it, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}
