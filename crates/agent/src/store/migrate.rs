//! Migration of session files of versions 1 and 2 to version 3.
//!
//! The module is pure. Version 1 has neither ids nor parents: each entry follows the one before, and a
//! compaction names the first kept entry by index. Version 2 has a message role that became an entry type.

use serde_json::{Value, json};

use super::entry::VERSION;

/// The text as version 3.
///
/// Unreadable lines stay as they are; a cut last line is dropped with a warning.
pub(super) fn migrated(file: &str, text: &str, version: u64, warnings: &mut Vec<String>) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut ids: Vec<String> = Vec::new();
    let torn = !text.ends_with('\n');
    let count = text.lines().count();
    let mut is_header = true;
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            // The parser counts the lines.
            out.push_str(if is_header { "" } else { "\n" });
            continue;
        }
        let mut value: Value = match serde_json::from_str(line) {
            Ok(value @ Value::Object(_)) => value,
            _ if torn && at + 1 == count => {
                warnings.push(format!("{file}: skipped the last line, which a crash cut"));
                continue;
            }
            _ => {
                // The parser reports the line.
                out.push_str(line);
                out.push('\n');
                continue;
            }
        };
        if std::mem::take(&mut is_header) {
            value["version"] = json!(VERSION);
        } else {
            if version < 2 {
                entry_of_version_1(&mut value, &mut ids);
            }
            if value["message"]["role"] == "hookMessage" {
                value["message"]["role"] = json!("custom");
            }
        }
        out.push_str(&value.to_string());
        out.push('\n');
    }
    out
}

/// Adds an id and a parent to the entry; converts a compaction's index to an id.
fn entry_of_version_1(value: &mut Value, ids: &mut Vec<String>) {
    let id = match value["id"].as_str() {
        Some(id) => id.to_owned(),
        None => format!("{:08x}", ids.len() + 1),
    };
    if value.get("parentId").is_none() {
        value["parentId"] = json!(ids.last());
    }
    value["id"] = json!(id);
    if let Some(place) = value["firstKeptEntryIndex"].as_u64() {
        // Indices count the header.
        let kept = usize::try_from(place).ok().and_then(|place| ids.get(place.checked_sub(1)?));
        value["firstKeptEntryId"] = json!(kept.unwrap_or(&id));
    }
    if let Value::Object(fields) = value {
        fields.shift_remove("firstKeptEntryIndex");
    }
    ids.push(id);
}
