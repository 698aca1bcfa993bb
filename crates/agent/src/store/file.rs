//! Sessions in a folder of ours, one file each. Blocking, but short: an append is one small write.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use llm::Message;
use workspace::{ErrorCode, Redactor, StateDir, StateError};

use crate::redact::redacted;

use super::entry::{
    EntryBody, Header, LoadedSession, VERSION, header_line, message_line, parse, tool_activation_line,
};

const EXTENSION: &str = ".jsonl";

/// The sessions of one workspace.
#[derive(Debug, Clone)]
pub struct SessionStore {
    dir: StateDir,
    sync: bool,
    redactor: Arc<Redactor>,
}

/// The file of one session, open for appending in the sense that new entries follow the last one.
#[derive(Debug)]
pub struct SessionFile {
    dir: StateDir,
    sync: bool,
    redactor: Arc<Redactor>,
    name: String,
    /// Written before the first entry.
    preamble: Option<String>,
    last: Option<String>,
    ids: HashSet<String>,
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

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The start of the first prompt, in one line.
    pub title: String,
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
    /// Several sessions have ids that begin so.
    #[error("{count} sessions begin with {id:?}; give more of the id")]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// How many there are.
        count: usize,
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
    /// The code of the closed list.
    pub fn code(&self) -> ErrorCode {
        match self {
            StoreError::State(error) => error.code(),
            StoreError::NotFound { .. } => ErrorCode::NotFound,
            StoreError::Ambiguous { .. } => ErrorCode::Ambiguous,
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
        let timestamp = now();
        let name = format!("{}_{}{EXTENSION}", timestamp.replace([':', '.'], "-"), new.id);
        let header = Header {
            version: VERSION,
            id: new.id,
            timestamp,
            cwd: new.cwd,
            parent_session: new.parent_session,
            branch_point: new.branch_point,
        };
        SessionFile {
            dir: self.dir.clone(),
            sync: self.sync,
            redactor: Arc::clone(&self.redactor),
            name,
            preamble: Some(header_line(&header)),
            last: None,
            ids: HashSet::new(),
        }
    }

    /// The file of a loaded session; new entries follow its newest one.
    pub fn reopen(&self, loaded: &LoadedSession) -> SessionFile {
        SessionFile {
            dir: self.dir.clone(),
            sync: self.sync,
            redactor: Arc::clone(&self.redactor),
            name: loaded.file.clone(),
            // A line that a crash cut is ended, so that it stays the only one that cannot be read.
            preamble: loaded.torn.then(|| "\n".to_owned()),
            last: loaded.entries.last().map(|entry| entry.id.clone()),
            ids: loaded.entries.iter().map(|entry| entry.id.clone()).collect(),
        }
    }

    /// The session with this id, or the only one whose id begins or ends with it.
    pub fn load(&self, id: &str) -> Result<LoadedSession, StoreError> {
        let files = self.files()?;
        let found: Vec<&String> = files.iter().filter(|file| matches_id(file, id)).collect();
        match found.as_slice() {
            [] => Err(StoreError::NotFound { id: id.to_owned() }),
            [file] => self.read(file),
            several => match several.iter().find(|file| id_of(file) == Some(id)) {
                Some(file) => self.read(file),
                None => Err(StoreError::Ambiguous { id: id.to_owned(), count: several.len() }),
            },
        }
    }

    /// All sessions, the last active first. What cannot be read is left out with a warning in the log.
    pub fn list(&self) -> Result<Vec<SessionSummary>, StoreError> {
        let mut summaries = Vec::new();
        for file in self.files()? {
            match self.read(&file) {
                Ok(session) => summaries.push(summary(&session)),
                Err(error) => tracing::warn!(%error, "left a session out of the list"),
            }
        }
        summaries.sort_by(|a, b| b.last_active.cmp(&a.last_active).then_with(|| b.file.cmp(&a.file)));
        Ok(summaries)
    }

    fn files(&self) -> Result<Vec<String>, StoreError> {
        let mut files = self.dir.list()?;
        files.retain(|name| name.ends_with(EXTENSION));
        files.sort();
        Ok(files)
    }

    fn read(&self, file: &str) -> Result<LoadedSession, StoreError> {
        let bytes = self.dir.read(file)?.ok_or_else(|| StoreError::NotFound { id: file.to_owned() })?;
        // A crash may cut a character; the line it belongs to is left out in any case.
        let text = String::from_utf8_lossy(&bytes);
        parse(file, &text).map_err(|reason| StoreError::Unreadable { file: file.to_owned(), reason })
    }
}

impl SessionFile {
    /// An id that no entry of this file has.
    pub fn new_id(&mut self) -> String {
        loop {
            let id: String = uuid::Uuid::new_v4().simple().to_string().chars().take(8).collect();
            if self.ids.insert(id.clone()) {
                return id;
            }
        }
    }

    /// Appends a message after the newest entry.
    pub fn append_message(&mut self, id: &str, message: &Message) -> Result<(), StoreError> {
        let redacted = redacted(&self.redactor, message);
        let message = redacted.as_ref().unwrap_or(message);
        let line = message_line(id, self.last.as_deref(), &now(), message);
        self.append(id, &line)
    }

    /// Appends, after the newest entry, which tools a model came to know.
    pub fn append_tool_activation(&mut self, tools: &[String]) -> Result<(), StoreError> {
        let id = self.new_id();
        let line = tool_activation_line(&id, self.last.as_deref(), &now(), tools);
        self.append(&id, &line)
    }

    fn append(&mut self, id: &str, line: &str) -> Result<(), StoreError> {
        let lines = self.preamble.as_deref().unwrap_or_default().to_owned() + line;
        self.dir.append(&self.name, lines.as_bytes(), self.sync)?;
        self.preamble = None;
        self.last = Some(id.to_owned());
        Ok(())
    }

    /// The name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn id_of(file: &str) -> Option<&str> {
    file.strip_suffix(EXTENSION)?.split_once('_').map(|(_, id)| id)
}

fn matches_id(file: &str, id: &str) -> bool {
    !id.is_empty() && id_of(file).is_some_and(|found| found.starts_with(id) || found.ends_with(id))
}

fn summary(session: &LoadedSession) -> SessionSummary {
    let messages: Vec<&Message> = session
        .entries
        .iter()
        .filter_map(|entry| match &entry.body {
            EntryBody::Message(message) => Some(message.as_ref()),
            EntryBody::Other(_) => None,
        })
        .collect();
    let first = messages.iter().find(|message| matches!(message, Message::User(_)));
    let title = first.map(|message| message.text()).unwrap_or_default();
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect();
    let newest = session.entries.iter().map(|entry| entry.timestamp.as_str()).max();
    SessionSummary {
        id: session.header.id.clone(),
        file: session.file.clone(),
        cwd: session.header.cwd.clone(),
        created: session.header.timestamp.clone(),
        last_active: newest.unwrap_or(&session.header.timestamp).to_owned(),
        messages: messages.len(),
        title,
    }
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
