//! What a list says of each session. Kept beside the sessions, by their files' time and size, so that a list reads whole only what has
//! changed. Derived: what is missing, damaged or of another format is made again, and nothing is in it that is not in a session.

use std::collections::BTreeMap;

use llm::{Message, Usage};
use serde::{Deserialize, Serialize};
use workspace::StateDir;

use super::entry::EntryBody;
use super::loaded::LoadedSession;
use super::sessions::{StoreError, StoredFile, read};

const NAME: &str = "summaries.json";
const FORMAT: u64 = 1;

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// The session's id.
    pub id: String,
    /// The name of its file.
    pub file: String,
    /// The working directory.
    pub cwd: String,
    /// When it began, in RFC 3339.
    pub created: String,
    /// When its last entry was written, in RFC 3339.
    pub last_active: String,
    /// Messages in it.
    pub messages: usize,
    /// Its name, else the start of the first prompt, in one line.
    pub title: String,
    /// Tokens used for it, and what they cost if that is known.
    pub usage: Usage,
    /// The session it was forked from.
    pub parent_session: Option<String>,
    /// The entry at which it left the parent.
    pub branch_point: Option<String>,
}

#[derive(Serialize, Deserialize, Default)]
struct Kept {
    format: u64,
    /// By the name of the file.
    files: BTreeMap<String, Known>,
}

#[derive(Serialize, Deserialize)]
struct Known {
    modified_ms: u64,
    size: u64,
    summary: SessionSummary,
}

/// Of each of these files that can be read; the others are left out with a warning in the log.
pub(super) fn of(dir: &StateDir, files: Vec<StoredFile>) -> Vec<SessionSummary> {
    let mut known = load(dir);
    let (mut kept, mut news) = (Kept { format: FORMAT, ..Kept::default() }, false);
    for StoredFile { name, modified_ms, size } in files {
        let old = known.files.remove(&name).filter(|it| (it.modified_ms, it.size) == (modified_ms, size));
        let summary = match old {
            Some(old) => Ok(old.summary),
            None => {
                news = true;
                // What is written after the look at the file is found by the next one.
                read(dir, &name).map(|session| summary(&session))
            }
        };
        match summary {
            Ok(summary) => drop(kept.files.insert(name, Known { modified_ms, size, summary })),
            Err(error) => tracing::warn!(%error, "left a session out of the list"),
        }
    }
    // Those that are left are of sessions that are gone.
    if (news || !known.files.is_empty())
        && let Err(error) = save(dir, &kept)
    {
        tracing::warn!(%error, "what the list of sessions says is not kept");
    }
    kept.files.into_values().map(|known| known.summary).collect()
}

/// Nothing of what was deleted stays.
pub(super) fn forget(dir: &StateDir, file: &str) -> Result<(), StoreError> {
    let mut kept = load(dir);
    if kept.files.remove(file).is_some() {
        return save(dir, &kept);
    }
    Ok(())
}

fn load(dir: &StateDir) -> Kept {
    let bytes = dir.read(NAME).ok().flatten();
    let kept = bytes.and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
    kept.filter(|kept| kept.format == FORMAT).unwrap_or_default()
}

fn save(dir: &StateDir, kept: &Kept) -> Result<(), StoreError> {
    let text = serde_json::to_vec(kept).map_err(|error| StoreError::Unreadable {
        file: NAME.to_owned(),
        reason: format!("it cannot be written: {error}"),
    })?;
    Ok(dir.write_atomic(NAME, &text)?)
}

fn summary(session: &LoadedSession) -> SessionSummary {
    let first =
        session.entries.iter().filter(|entry| entry.kind == "message").find_map(|entry| {
            match session.body(entry) {
                Ok(EntryBody::Message(message)) if matches!(*message, Message::User(_)) => {
                    Some(message.text())
                }
                _ => None,
            }
        });
    let title = session.name().or(first).unwrap_or_default();
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect();
    let newest = session.entries.iter().map(|entry| entry.timestamp.as_str()).max();
    SessionSummary {
        id: session.header.id.clone(),
        file: session.file.clone(),
        cwd: session.header.cwd.clone(),
        created: session.header.timestamp.clone(),
        last_active: newest.unwrap_or(&session.header.timestamp).to_owned(),
        messages: session.entries.iter().filter(|entry| entry.kind == "message").count(),
        title,
        usage: session.usage(),
        parent_session: session.header.parent_session.clone(),
        branch_point: session.header.branch_point.clone(),
    }
}
