//! The sessions of one workspace, one file each. Blocking.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use workspace::{ErrorCode, Redactor, StateDir, StateError, StateLock};

use super::entry::{Header, VERSION, header_line};
use super::file::{SessionFile, mark};
use super::loaded::{LoadedSession, parse};
use super::summaries::{self, SessionSummary};

const EXTENSION: &str = ".jsonl";
/// The least of an id's end that names a session, and of an id by which one is deleted.
const LEAST_END: usize = 4;
const LEAST_DELETED: usize = 8;

/// The sessions of one workspace.
#[derive(Debug, Clone)]
pub struct SessionStore {
    dir: StateDir,
    sync: bool,
    redactor: Arc<Redactor>,
}

/// What a new session's header says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewSession {
    /// The session's id.
    pub id: String,
    /// The working directory.
    pub cwd: String,
    /// The session it is forked from.
    pub parent_session: Option<String>,
    /// The entry at which it leaves the parent.
    pub branch_point: Option<String>,
}

/// A session's file, as it is looked at without being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name within the store.
    pub name: String,
    /// When it was last written, in milliseconds since the Unix epoch.
    pub modified_ms: u64,
    /// Its bytes.
    pub size: u64,
}

/// Why a session cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder or a file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// No session has this id.
    #[error("there is no session {id:?}; `pilcrow sessions list` shows them")]
    NotFound {
        /// What was asked for.
        id: String,
    },
    /// Too little of the id for what cannot be taken back.
    #[error("{id:?} is too little of an id to delete by; give at least 8 characters of it")]
    Short {
        /// What was asked for.
        id: String,
    },
    /// Several sessions have ids that begin so.
    #[error("{count} sessions begin with {id:?}; give more of the id")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
    },
    /// The session has no such entry.
    #[error("the session has no entry {id:?}, or several that begin so; `pilcrow sessions tree` shows them")]
    NoEntry {
        /// What was asked for.
        id: String,
    },
    /// Somebody writes it.
    #[error("{file} is being written by another session or process; end that one, or fork the session")]
    InUse {
        /// The name of the file.
        file: String,
    },
    /// It is not any more what was read.
    #[error("{file} was written by somebody else since it was read; load it again")]
    Changed {
        /// The name of the file.
        file: String,
    },
    /// The file is no session that can be read.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        /// The name of the file.
        file: String,
        /// Why not.
        reason: String,
    },
}

impl StoreError {
    /// Whether what was named is not there or not one thing: who asked is to ask for something else.
    pub fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            StoreError::NotFound { .. }
                | StoreError::Short { .. }
                | StoreError::Ambiguous { .. }
                | StoreError::NoEntry { .. }
        )
    }

    /// The code of the closed list.
    pub fn code(&self) -> ErrorCode {
        match self {
            StoreError::State(error) => error.code(),
            StoreError::NotFound { .. } | StoreError::Short { .. } | StoreError::NoEntry { .. } => {
                ErrorCode::NotFound
            }
            StoreError::Ambiguous { .. } => ErrorCode::Ambiguous,
            StoreError::InUse { .. } | StoreError::Changed { .. } => ErrorCode::Conflict,
            StoreError::Unreadable { .. } => ErrorCode::Unsupported,
        }
    }
}

impl SessionStore {
    /// The sessions in this folder of ours. Values of the environment's secrets, and what looks like
    /// a key, are not written into them.
    pub fn new(dir: StateDir) -> SessionStore {
        SessionStore { dir, sync: false, redactor: Arc::new(Redactor::from_env()) }
    }

    /// Whether each entry is flushed to the disk before the run goes on; off by default.
    pub fn sync(self, sync: bool) -> SessionStore {
        SessionStore { sync, ..self }
    }

    /// A file for a new session. Nothing is written before its first entry.
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

    /// The file of a loaded session; new entries follow the selected one. Whoever wrote it meanwhile is found out when the first
    /// entry is written.
    pub fn reopen(&self, loaded: &LoadedSession) -> SessionFile {
        SessionFile {
            dir: self.dir.clone(),
            sync: self.sync,
            redactor: Arc::clone(&self.redactor),
            name: loaded.file.clone(),
            // A line that a crash cut is ended, so that it stays the only one that cannot be read.
            preamble: loaded.torn.then(|| "\n".to_owned()),
            last: loaded.leaf().map(|entry| entry.id.clone()),
            ids: loaded.entries.iter().map(|entry| mark(&entry.id)).collect(),
            lock: loaded.lock.clone(),
            expected: Some(loaded.size),
            rewritten: loaded.is_migrated.then(|| loaded.text().to_owned()),
        }
    }

    /// The session with this id, or the only one whose id begins or ends with it.
    pub fn load(&self, id: &str) -> Result<LoadedSession, StoreError> {
        read(&self.dir, &self.file_of(id)?)
    }

    /// The same, for who goes on with it: nobody else writes it until this is dropped, with every file that was opened from it.
    pub fn load_to_write(&self, id: &str) -> Result<LoadedSession, StoreError> {
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
            // One that was deleted meanwhile is none of them.
            let (modified_ms, size) = self.dir.stat(&name)?;
            Some(StoredFile { name, modified_ms, size })
        };
        Ok(self.names()?.into_iter().filter_map(stored).collect())
    }

    /// All sessions, the last active first. What cannot be read is left out with a warning in the log. Reads those that changed since
    /// they were listed last.
    pub fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let mut summaries = summaries::of(&self.dir, self.files()?);
        summaries.sort_by(|a, b| b.last_active.cmp(&a.last_active).then_with(|| b.file.cmp(&a.file)));
        Ok(summaries)
    }

    /// A new session that begins as this one up to and including the entry `at` (else the selected one): the same entries, by the order in
    /// which they follow each other, but that a file with the whole of a result is one of its own. Returns its id; the parent stays
    /// as it is.
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
        let (theirs, own) = (outputs(&loaded.file), outputs(&name));
        let within_line = |folder: &str| {
            let quoted = Value::from(self.dir.path().join(folder).to_string()).to_string();
            format!("{}/", &quoted[1..quoted.len() - 1])
        };
        let (there, here) = (within_line(&theirs), within_line(&own));
        for entry in path.into_iter().rev() {
            text.push_str(&loaded.line(entry).replace(&there, &here));
            text.push('\n');
        }
        for output in self.dir.child(&theirs)?.list()? {
            if text.contains(&format!("{here}{output}"))
                && let Some(bytes) = self.dir.read(&format!("{theirs}/{output}"))?
            {
                self.dir.write_atomic(&format!("{own}/{output}"), &bytes)?;
            }
        }
        self.dir.write_atomic(&name, text.as_bytes())?;
        Ok(header.id)
    }

    /// Removes a session's file; sessions forked from it stay. Returns its id.
    pub fn delete(&self, id: &str) -> Result<String, StoreError> {
        let file = self.file_of(id)?;
        if id.len() < LEAST_DELETED && id_of(&file) != Some(id) {
            return Err(StoreError::Short { id: id.to_owned() });
        }
        let held = lock(&self.dir, &file)?;
        // What the list says is derived: whether it could be brought up to date says nothing of the session.
        if let Err(error) = summaries::forget(&self.dir, &file) {
            tracing::warn!(%error, "what the list says of a deleted session stays until the next list");
        }
        self.dir.remove(&file)?;
        self.dir.remove_tree(&outputs(&file))?;
        self.dir.remove(&lock_name(&file))?;
        drop(held);
        Ok(id_of(&file).unwrap_or(id).to_owned())
    }

    fn file_of(&self, id: &str) -> Result<String, StoreError> {
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
    // A crash may cut a character; the line it belongs to is left out in any case.
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

/// Where the whole of its large results is.
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

/// Whether a session is meant: by its id, the beginning of it, or at least [`LEAST_END`] characters of its end.
fn matches_id(file: &str, id: &str) -> bool {
    id_of(file).is_some_and(|found| {
        !id.is_empty() && found.starts_with(id) || id.len() >= LEAST_END && found.ends_with(id)
    })
}

pub(super) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
