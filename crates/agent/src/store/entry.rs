//! The lines of a session's file, as values. Pure.

use std::collections::{HashMap, HashSet};

use llm::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The version that is written, and the only one that is read.
pub const VERSION: u64 = 3;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format.
    pub version: u64,
    /// The session's id.
    pub id: String,
    /// When it began, in RFC 3339.
    #[serde(default)]
    pub timestamp: String,
    /// The working directory.
    #[serde(default)]
    pub cwd: String,
    /// The session it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// The entry at which it left the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_point: Option<String>,
}

/// Any further line.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Names the entry within the file.
    pub id: String,
    /// The entry it follows; `None` for a root.
    pub parent_id: Option<String>,
    /// When it was written, in RFC 3339.
    pub timestamp: String,
    /// What it holds.
    pub body: EntryBody,
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    /// A message of the transcript.
    Message(Box<Message>),
    /// Any other type, or a message of a role not known here: the whole line, kept and not sent to a model.
    Other(Value),
}

/// A session as its file says.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedSession {
    /// The first line.
    pub header: Header,
    /// The entries, in the order of the file.
    pub entries: Vec<Entry>,
    /// What could not be read, for people.
    pub warnings: Vec<String>,
    /// The name of the file, as the store knows it.
    pub file: String,
    /// Whether the file ends in the middle of a line.
    pub torn: bool,
}

impl LoadedSession {
    /// The messages from the root to the newest entry: what a model is sent.
    pub fn context(&self) -> Vec<Message> {
        let message = |entry: &Entry| match &entry.body {
            EntryBody::Message(message) => Some(Message::clone(message)),
            EntryBody::Other(_) => None,
        };
        self.path().into_iter().filter_map(message).collect()
    }

    /// The tools that the model came to know on that way, in order.
    pub fn activated(&self) -> Vec<String> {
        let tools = |entry: &Entry| match &entry.body {
            EntryBody::Other(value) if value["type"] == TOOL_ACTIVATION => value["tools"].as_array().cloned(),
            _ => None,
        };
        let names = self.path().into_iter().filter_map(tools).flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// The entries from the root to the newest one.
    fn path(&self) -> Vec<&Entry> {
        let by_id: HashMap<&str, &Entry> =
            self.entries.iter().map(|entry| (entry.id.as_str(), entry)).collect();
        let mut path = Vec::new();
        let mut seen = HashSet::new();
        let mut at = self.entries.last();
        while let Some(entry) = at {
            if !seen.insert(entry.id.as_str()) {
                break;
            }
            path.push(entry);
            at = entry.parent_id.as_deref().and_then(|id| by_id.get(id).copied());
        }
        path.reverse();
        path
    }
}

/// Reads a whole file. `Err` says why it is no session that can be read here; lines that cannot be read are warnings, and so is a last line that a
/// crash cut.
pub fn parse(file: &str, text: &str) -> Result<LoadedSession, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next().ok_or("it is empty")?;
    let header: Value =
        serde_json::from_str(first).map_err(|error| format!("its first line is no header: {error}"))?;
    if header["type"] != "session" {
        return Err("its first line is no session header".to_owned());
    }
    match header["version"].as_u64().unwrap_or(1) {
        VERSION => {}
        newer if newer > VERSION => {
            return Err(format!(
                "it is of version {newer}, this program reads version {VERSION}; update pilcrow"
            ));
        }
        older => {
            return Err(format!(
                "it is of version {older}, which cannot be read yet; this program reads version {VERSION}"
            ));
        }
    }
    let header: Header =
        serde_json::from_value(header).map_err(|error| format!("its header cannot be read: {error}"))?;
    let torn = !text.ends_with('\n');
    let last_line = text.lines().count();
    let mut session =
        LoadedSession { header, entries: Vec::new(), warnings: Vec::new(), file: file.to_owned(), torn };
    for (at, line) in lines {
        match entry(line) {
            Ok(entry) => session.entries.push(entry),
            Err(_) if torn && at + 1 == last_line => {
                session.warnings.push(format!("{file}: the last line was cut by a crash and is left out"));
            }
            Err(error) => session.warnings.push(format!("{file}: line {} is left out: {error}", at + 1)),
        }
    }
    Ok(session)
}

fn entry(line: &str) -> Result<Entry, String> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    let id = text(&value, "id").ok_or("it has no id")?;
    let parent_id = text(&value, "parentId");
    let timestamp = text(&value, "timestamp").unwrap_or_default();
    let body = if value["type"] == "message" {
        match serde_json::from_value(value["message"].take()) {
            Ok(message) => EntryBody::Message(Box::new(message)),
            // Taken by the attempt, so read again.
            Err(_) => EntryBody::Other(serde_json::from_str(line).map_err(|error| error.to_string())?),
        }
    } else if value["type"].is_string() {
        EntryBody::Other(value)
    } else {
        return Err("it has no type".to_owned());
    };
    Ok(Entry { id, parent_id, timestamp, body })
}

/// The first line of a file, with its line break.
pub(super) fn header_line(header: &Header) -> String {
    let mut line = json!({ "type": "session" });
    if let (Value::Object(line), Ok(Value::Object(header))) = (&mut line, serde_json::to_value(header)) {
        line.extend(header);
    }
    format!("{line}\n")
}

/// The line of a message, with its line break.
pub(super) fn message_line(id: &str, parent_id: Option<&str>, timestamp: &str, message: &Message) -> String {
    let line = json!({ "type": "message", "id": id, "parentId": parent_id, "timestamp": timestamp, "message": message });
    format!("{line}\n")
}

/// The type of an entry that says which tools a model came to know.
const TOOL_ACTIVATION: &str = "tool_activation";

/// The line that says which tools a model came to know, with its line break.
pub(super) fn tool_activation_line(
    id: &str,
    parent_id: Option<&str>,
    timestamp: &str,
    tools: &[String],
) -> String {
    let line = json!({ "type": TOOL_ACTIVATION, "id": id, "parentId": parent_id, "timestamp": timestamp, "tools": tools });
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &[Value]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn header() -> Value {
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"})
    }

    fn user(id: &str, parent: Option<&str>, text: &str) -> Value {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": "t",
               "message": {"role": "user", "content": text, "timestamp": 1}})
    }

    fn texts(session: &LoadedSession) -> Vec<String> {
        session.context().iter().map(Message::text).collect()
    }

    #[test]
    fn the_context_is_the_path_from_the_root_to_the_newest_entry() {
        let text = file(&[
            header(),
            user("a", None, "one"),
            user("b", Some("a"), "left"),
            json!({"type": "model_change", "id": "m", "parentId": "a", "timestamp": "t", "modelId": "x"}),
            json!({"type": "message", "id": "h", "parentId": "m", "message": {"role": "bashExecution", "command": "ls"}}),
            user("c", Some("h"), "right"),
        ]);
        let session = parse("f", &text).unwrap();
        assert_eq!(texts(&session), ["one", "right"]);
        assert_eq!((session.entries.len(), session.warnings.len()), (5, 0), "what is not known is kept");
        assert!(
            matches!(&session.entries[3].body, EntryBody::Other(value) if value["message"]["command"] == "ls")
        );
    }

    #[test]
    fn a_torn_tail_is_dropped_with_a_warning_and_nothing_else_is_lost() {
        let whole = file(&[header(), user("a", None, "one"), user("b", Some("a"), "two é")]);
        for cut in whole.len() - 40..whole.len() - 1 {
            let Some(text) = whole.get(..cut) else { continue };
            let session = parse("f", text).unwrap();
            assert_eq!(texts(&session), ["one"], "cut at {cut}");
            assert_eq!(session.warnings, ["f: the last line was cut by a crash and is left out"]);
            let resumed = format!("{text}\n{}\n", user("c", Some("a"), "three"));
            let session = parse("f", &resumed).unwrap();
            assert_eq!(texts(&session), ["one", "three"], "cut at {cut}, then resumed");
            assert!(session.warnings[0].starts_with("f: line 3 is left out"));
        }
    }

    #[test]
    fn other_versions_and_other_files_are_refused_by_name() {
        for (line, part) in [
            (
                json!({"type": "session", "version": 4, "id": "s"}),
                "of version 4, this program reads version 3; update",
            ),
            (json!({"type": "session", "version": 2, "id": "s"}), "of version 2, which cannot be read yet"),
            (json!({"type": "session", "id": "s"}), "of version 1"),
            (json!({"type": "message"}), "no session header"),
        ] {
            assert!(parse("f", &file(&[line])).unwrap_err().contains(part));
        }
        assert!(parse("f", "").is_err());
        assert!(parse("f", "not json").is_err());
    }

    #[test]
    fn parents_that_go_in_a_circle_end() {
        let text = file(&[header(), user("a", Some("b"), "one"), user("b", Some("a"), "two")]);
        assert_eq!(texts(&parse("f", &text).unwrap()), ["one", "two"]);
    }

    #[test]
    fn what_is_written_is_read() {
        let header = Header {
            version: VERSION,
            id: "s".to_owned(),
            timestamp: "t".to_owned(),
            cwd: "/p".to_owned(),
            parent_session: None,
            branch_point: None,
        };
        let text = header_line(&header) + &message_line("a", None, "t", &Message::user("hi\n\u{2028}there"));
        let session = parse("f", &text).unwrap();
        assert_eq!(session.header, header);
        assert_eq!(texts(&session), ["hi\n\u{2028}there"]);
        assert!(!session.torn);
    }
}
