//! The sessions of one workspace, one file each. Blocks.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use paths::{StateDir, StateError, StateLock};
use policy::{ErrorCode, Redactor};
use serde_json::Value;

use super::entry::{Header, VERSION, header_line};
use super::file::{SessionFile, mark};
use super::import::{self, Converted};
use super::loaded::{LoadedSession, parse};
use super::summaries::{self, SessionSummary};
use crate::redact::redacted;

const EXTENSION: &str = ".jsonl";
/// Minimum length of an id suffix to name a session, or of a prefix to delete it.
const LEAST_END: usize = 4;
const LEAST_DELETED: usize = 8;

/// Access to the session files of one workspace.
#[derive(Debug, Clone)]
pub struct SessionStore {
    dir: StateDir,
    sync: bool,
    redactor: Arc<Redactor>,
}

/// The header of a new session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    pub id: String,
    pub cwd: String,
    /// The session it is forked from.
    pub parent_session: Option<String>,
    /// The entry of the parent at which it is forked.
    pub branch_point: Option<String>,
}

/// File metadata of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Name in the store.
    pub name: String,
    /// Last modification, in milliseconds since the Unix epoch.
    pub modified_ms: u64,
    /// Size in bytes.
    pub size: u64,
}

/// A session converted from the file of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSession {
    pub id: String,
    /// Name of the format: `pi`, `claude-code` or `codex`.
    pub format: &'static str,
    pub messages: usize,
    /// The directory of the session.
    pub cwd: String,
    /// Skipped lines and replaced blocks, for users.
    pub warnings: Vec<String>,
}

/// The name of the session that was active last.
pub const NEWEST: &str = "newest";

/// The reason why a session cannot be stored or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error("there is no session {id:?}; `pilcrow sessions list` shows them")]
    NotFound { id: String },
    #[error("{id:?} is too short to delete a session; give at least 8 characters of the id")]
    Short { id: String },
    #[error("{count} sessions match {id:?}; give more characters of the id")]
    Ambiguous { id: String, count: usize },
    #[error("the session has no unique entry {id:?}; `pilcrow sessions tree` shows the entries")]
    NoEntry { id: String },
    #[error("{file} is in use by another session or process; close that one or fork the session")]
    InUse { file: String },
    /// The file differs from the loaded session.
    #[error("{file} was changed by another process since it was read; load it again")]
    Changed { file: String },
    #[error("{file} cannot be read: {reason}")]
    Unreadable { file: String, reason: String },
    #[error("the session {id} exists already; delete it to import it again")]
    Exists { id: String },
}

impl StoreError {
    /// Whether the id is unknown or ambiguous, an error of the caller.
    pub fn is_usage_error(&self) -> bool {
        matches!(
            self,
            StoreError::NotFound { .. }
                | StoreError::Short { .. }
                | StoreError::Ambiguous { .. }
                | StoreError::NoEntry { .. }
        )
    }

    pub fn code(&self) -> ErrorCode {
        match self {
            StoreError::State(error) => ErrorCode::from(error),
            StoreError::NotFound { .. } | StoreError::Short { .. } | StoreError::NoEntry { .. } => {
                ErrorCode::NotFound
            }
            StoreError::Ambiguous { .. } => ErrorCode::Ambiguous,
            StoreError::InUse { .. } | StoreError::Changed { .. } | StoreError::Exists { .. } => {
                ErrorCode::Conflict
            }
            StoreError::Unreadable { .. } => ErrorCode::Unsupported,
        }
    }
}

impl SessionStore {
    /// Creates the store of the sessions in this state directory.
    ///
    /// Values of secret environment variables, and strings that look like keys, are redacted in files.
    pub fn new(dir: StateDir) -> SessionStore {
        SessionStore { dir, sync: false, redactor: Arc::new(Redactor::from_env()) }
    }

    /// Sets whether each entry is flushed to disk before the run continues.
    ///
    /// It is off by default.
    pub fn sync(self, sync: bool) -> SessionStore {
        SessionStore { sync, ..self }
    }

    /// A file for a new session, written with its first entry.
    pub fn create(&self, new: NewSession) -> SessionFile {
        let header = header(new);
        SessionFile {
            dir: self.dir.clone(),
            sync: self.sync,
            redactor: Arc::clone(&self.redactor),
            name: file_name(&header),
            preamble: Some(header_line(&header)),
            last: None,
            ids: HashSet::new(),
            lock: None,
            expected: None,
            rewritten: None,
        }
    }

    /// The file of a loaded session; new entries follow the selected one.
    ///
    /// A concurrent change of the file is detected with the first entry.
    pub fn reopen(&self, loaded: &LoadedSession) -> SessionFile {
        SessionFile {
            dir: self.dir.clone(),
            sync: self.sync,
            redactor: Arc::clone(&self.redactor),
            name: loaded.file.clone(),
            // The line break ends a line cut by a crash, so that it stays the only unreadable one.
            preamble: loaded.torn.then(|| "\n".to_owned()),
            last: loaded.leaf().map(|entry| entry.id.clone()),
            ids: loaded.entries.iter().map(|entry| mark(&entry.id)).collect(),
            lock: loaded.lock.clone(),
            expected: Some(loaded.size),
            rewritten: loaded.is_migrated.then(|| loaded.text().to_owned()),
        }
    }

    /// The session with this id or the name [`NEWEST`].
    ///
    /// An id may be a unique beginning or end.
    pub fn load(&self, id: &str) -> Result<LoadedSession, StoreError> {
        read(&self.dir, &self.file_of(id)?)
    }

    /// The full id of the session with this id, as [`SessionStore::load`] finds it.
    pub fn find(&self, id: &str) -> Result<String, StoreError> {
        let file = self.file_of(id)?;
        Ok(id_of(&file).unwrap_or(id).to_owned())
    }

    /// Loads a session as [`SessionStore::load`] does, and locks its file.
    ///
    /// The lock lasts until the session and every file reopened from it are dropped.
    pub fn load_locked(&self, id: &str) -> Result<LoadedSession, StoreError> {
        let file = self.file_of(id)?;
        let lock = lock(&self.dir, &file)?;
        let mut loaded = read(&self.dir, &file)?;
        loaded.lock = Some(Arc::new(lock));
        Ok(loaded)
    }

    /// The session in the file of this name.
    pub fn load_file(&self, name: &str) -> Result<LoadedSession, StoreError> {
        read(&self.dir, name)
    }

    /// The files of all sessions, the oldest first.
    pub fn files(&self) -> Result<Vec<StoredFile>, StoreError> {
        let stored = |name: String| {
            // The file may have been deleted meanwhile.
            let (modified_ms, size) = self.dir.stat(&name)?;
            Some(StoredFile { name, modified_ms, size })
        };
        Ok(self.names()?.into_iter().filter_map(stored).collect())
    }

    /// All sessions, the last active first.
    ///
    /// Reads only those that changed since the last list. Unreadable ones are skipped with a warning in the
    /// log.
    pub fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let mut summaries = summaries::of(&self.dir, self.files()?);
        summaries.sort_by(|a, b| b.last_active.cmp(&a.last_active).then_with(|| b.file.cmp(&a.file)));
        Ok(summaries)
    }

    /// A new session that begins as this one up to `at`, else to the selected entry.
    ///
    /// Entries are inherited by their order in the tree, and files with full results are copied. Returns the
    /// id; the parent is unchanged.
    pub fn fork(&self, loaded: &LoadedSession, at: Option<&str>, cwd: &str) -> Result<String, StoreError> {
        let no_entry = |id: &str| StoreError::NoEntry { id: id.to_owned() };
        let branch_point = match at {
            Some(id) => Some(loaded.find(id).ok_or_else(|| no_entry(id))?),
            None => loaded.leaf(),
        };
        let mut path = Vec::new();
        let mut next = branch_point;
        let mut seen = HashSet::new();
        while let Some(entry) = next.filter(|entry| seen.insert(entry.id.as_str())) {
            path.push(entry);
            next = entry.parent_id.as_deref().and_then(|id| loaded.find(id));
        }
        let header = header(NewSession {
            id: uuid::Uuid::now_v7().to_string(),
            cwd: cwd.to_owned(),
            parent_session: Some(loaded.header.id.clone()),
            branch_point: branch_point.map(|entry| entry.id.clone()),
        });
        let mut text = header_line(&header);
        let name = file_name(&header);
        let (source, target) = (outputs(&loaded.file), outputs(&name));
        let within_line = |directory: &str| {
            let quoted = Value::from(self.dir.path().join(directory).to_string()).to_string();
            format!("{}/", &quoted[1..quoted.len() - 1])
        };
        let (old_path, new_path) = (within_line(&source), within_line(&target));
        for entry in path.into_iter().rev() {
            text.push_str(&loaded.line(entry).replace(&old_path, &new_path));
            text.push('\n');
        }
        for output in self.dir.child(&source)?.list()? {
            if text.contains(&format!("{new_path}{output}"))
                && let Some(bytes) = self.dir.read(&format!("{source}/{output}"))?
            {
                self.dir.write_atomic(&format!("{target}/{output}"), &bytes)?;
            }
        }
        self.dir.write_atomic(&name, text.as_bytes())?;
        Ok(header.id)
    }

    /// Imports a session of pi, Claude Code or Codex from the text of its file.
    ///
    /// `file` names it in messages. Secrets are redacted.
    pub fn import(&self, file: &str, text: &str) -> Result<ImportedSession, StoreError> {
        let unreadable = |reason: String| StoreError::Unreadable { file: file.to_owned(), reason };
        let Converted { mut header, entries, format, warnings } =
            import::convert(file, text).map_err(unreadable)?;
        let messages = entries.iter().filter(|entry| entry["type"] == "message").count();
        if messages == 0 {
            return Err(unreadable("it has no message".to_owned()));
        }
        // Both become a file's name.
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if header.id.is_empty() || header.id.len() > 64 || !header.id.chars().all(plain) {
            header.id = uuid::Uuid::now_v7().to_string();
        }
        header.timestamp = header.timestamp.parse().map_or_else(|_| now(), written);
        if self.names()?.iter().any(|name| id_of(name) == Some(&header.id)) {
            return Err(StoreError::Exists { id: header.id });
        }
        let header = redacted(&self.redactor, &header).unwrap_or(header);
        let mut text = header_line(&header);
        for entry in entries {
            let entry = redacted(&self.redactor, &entry).unwrap_or(entry);
            text.push_str(&format!("{entry}\n"));
        }
        self.dir.write_atomic(&file_name(&header), text.as_bytes())?;
        Ok(ImportedSession { id: header.id, format, messages, cwd: header.cwd, warnings })
    }

    /// Deletes a session file; its forks stay. Returns its id.
    pub fn delete(&self, id: &str) -> Result<String, StoreError> {
        let file = self.file_of(id)?;
        if id.len() < LEAST_DELETED && id_of(&file) != Some(id) {
            return Err(StoreError::Short { id: id.to_owned() });
        }
        let held = lock(&self.dir, &file)?;
        // The list is derived, so a failure to update it does not prevent the deletion.
        if let Err(error) = summaries::forget(&self.dir, &file) {
            tracing::warn!(%error, "cannot remove a deleted session from the cached list");
        }
        self.dir.remove(&file)?;
        self.dir.remove_tree(&outputs(&file))?;
        self.dir.remove(&lock_name(&file))?;
        drop(held);
        Ok(id_of(&file).unwrap_or(id).to_owned())
    }

    fn file_of(&self, id: &str) -> Result<String, StoreError> {
        if id == NEWEST {
            let newest = self.list()?.into_iter().next();
            return newest.map(|it| it.file).ok_or_else(|| StoreError::NotFound { id: id.to_owned() });
        }
        let files = self.names()?;
        let found: Vec<&String> = files.iter().filter(|file| matches_id(file, id)).collect();
        match found.as_slice() {
            [] => Err(StoreError::NotFound { id: id.to_owned() }),
            [file] => Ok((*file).clone()),
            several => match several.iter().find(|file| id_of(file) == Some(id)) {
                Some(file) => Ok((*file).clone()),
                None => Err(StoreError::Ambiguous { id: id.to_owned(), count: several.len() }),
            },
        }
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let mut files = self.dir.list()?;
        files.retain(|name| name.ends_with(EXTENSION));
        files.sort();
        Ok(files)
    }
}

pub(super) fn read(dir: &StateDir, file: &str) -> Result<LoadedSession, StoreError> {
    let bytes = dir.read(file)?.ok_or_else(|| StoreError::NotFound { id: file.to_owned() })?;
    let size = bytes.len() as u64;
    // A crash may cut a character; its line is dropped in any case.
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let mut loaded =
        parse(file, text).map_err(|reason| StoreError::Unreadable { file: file.to_owned(), reason })?;
    loaded.size = size;
    Ok(loaded)
}

fn lock_name(file: &str) -> String {
    format!("locks/{file}")
}

/// Directory of the full texts of cut results.
pub(super) fn outputs(file: &str) -> String {
    format!("outputs/{file}")
}

pub(super) fn lock(dir: &StateDir, file: &str) -> Result<StateLock, StoreError> {
    dir.try_lock(&lock_name(file))?.ok_or_else(|| StoreError::InUse { file: file.to_owned() })
}

fn header(new: NewSession) -> Header {
    Header {
        version: VERSION,
        id: new.id,
        timestamp: now(),
        cwd: new.cwd,
        parent_session: new.parent_session,
        branch_point: new.branch_point,
    }
}

fn file_name(header: &Header) -> String {
    format!("{}_{}{EXTENSION}", header.timestamp.replace([':', '.'], "-"), header.id)
}

fn id_of(file: &str) -> Option<&str> {
    file.strip_suffix(EXTENSION)?.split_once('_').map(|(_, id)| id)
}

/// Whether `id` names the session: its id, a prefix, or a suffix.
///
/// A suffix has at least [`LEAST_END`] characters.
fn matches_id(file: &str, id: &str) -> bool {
    id_of(file).is_some_and(|found| {
        !id.is_empty() && found.starts_with(id) || id.len() >= LEAST_END && found.ends_with(id)
    })
}

pub(super) fn now() -> String {
    written(Timestamp::now())
}

fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
