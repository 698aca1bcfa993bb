//! Cached summaries for session lists, by each file's time and size.
//!
//! A list reads only files that changed. The store rebuilds a cache that is missing, damaged or of another format.

use std::collections::BTreeMap;

use llm::{Message, Usage};
use paths::StateDir;
use serde::{Deserialize, Serialize};

use super::entry::EntryBody;
use super::loaded::LoadedSession;
use super::sessions::{StoreError, StoredFile, read};

const NAME: &str = "summaries.json";
const FORMAT: u64 = 1;

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    pub id: String,
    pub file: String,
    pub cwd: String,
    /// Start of the session, in RFC 3339.
    pub created: String,
    /// Time of the last entry, in RFC 3339.
    pub last_active: String,
    pub messages: usize,
    /// Its name, else the start of the first prompt, in one line.
    pub title: String,
    /// Tokens used, and their cost if known.
    pub usage: Usage,
    /// The session this one was forked from.
    pub parent_session: Option<String>,
    /// The entry of the parent at which it was forked.
    pub branch_point: Option<String>,
}

#[derive(Serialize, Deserialize, Default)]
struct SummaryFile {
    format: u64,
    /// Summaries by file name.
    files: BTreeMap<String, FileSummary>,
}

#[derive(Serialize, Deserialize)]
struct FileSummary {
    modified_ms: u64,
    size: u64,
    summary: SessionSummary,
}

/// Summaries of the readable files; others are skipped with a warning in the log.
pub(super) fn of(dir: &StateDir, files: Vec<StoredFile>) -> Vec<SessionSummary> {
    let mut known = load(dir);
    let (mut file_summaries, mut news) = (SummaryFile { format: FORMAT, ..SummaryFile::default() }, false);
    for StoredFile { name, modified_ms, size } in files {
        let old = known.files.remove(&name).filter(|it| (it.modified_ms, it.size) == (modified_ms, size));
        let summary = match old {
            Some(old) => Ok(old.summary),
            None => {
                news = true;
                // A later change of the file is found by the next list.
                read(dir, &name).map(|session| summary(&session))
            }
        };
        match summary {
            Ok(summary) => {
                drop(file_summaries.files.insert(name, FileSummary { modified_ms, size, summary }))
            }
            Err(error) => tracing::warn!(%error, "skipped an unreadable session in the list"),
        }
    }
    // The remaining ones belong to deleted sessions.
    if (news || !known.files.is_empty())
        && let Err(error) = save(dir, &file_summaries)
    {
        tracing::warn!(%error, "cannot write the cached list of sessions");
    }
    file_summaries.files.into_values().map(|known| known.summary).collect()
}

/// Removes a deleted session from the cache.
pub(super) fn forget(dir: &StateDir, file: &str) -> Result<(), StoreError> {
    let mut file_summaries = load(dir);
    if file_summaries.files.remove(file).is_some() {
        return save(dir, &file_summaries);
    }
    Ok(())
}

fn load(dir: &StateDir) -> SummaryFile {
    let bytes = dir.read(NAME).ok().flatten();
    let file_summaries = bytes.and_then(|bytes| serde_json::from_slice::<SummaryFile>(&bytes).ok());
    file_summaries.filter(|file_summaries| file_summaries.format == FORMAT).unwrap_or_default()
}

fn save(dir: &StateDir, file_summaries: &SummaryFile) -> Result<(), StoreError> {
    let text = serde_json::to_vec(file_summaries).map_err(|error| StoreError::Unreadable {
        file: NAME.to_owned(),
        reason: format!("it cannot be written: {error}"),
    })?;
    Ok(dir.write_atomic(NAME, &text)?)
}

impl LoadedSession {
    /// The session's name, else the start of the first prompt, in one line.
    pub fn title(&self) -> String {
        let first = || {
            let mut messages = self.entries.iter().filter(|entry| entry.kind == "message");
            messages.find_map(|entry| match self.body(entry) {
                Ok(EntryBody::Message(message)) if matches!(*message, Message::User(_)) => {
                    Some(message.text())
                }
                _ => None,
            })
        };
        let title = self.name().or_else(first).unwrap_or_default();
        title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect()
    }
}

fn summary(session: &LoadedSession) -> SessionSummary {
    let newest = session.entries.iter().map(|entry| entry.timestamp.as_str()).max();
    SessionSummary {
        id: session.header.id.clone(),
        file: session.file.clone(),
        cwd: session.header.cwd.clone(),
        created: session.header.timestamp.clone(),
        last_active: newest.unwrap_or(&session.header.timestamp).to_owned(),
        messages: session.entries.iter().filter(|entry| entry.kind == "message").count(),
        title: session.title(),
        usage: session.usage(),
        parent_session: session.header.parent_session.clone(),
        branch_point: session.header.branch_point.clone(),
    }
}
