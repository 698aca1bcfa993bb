//! Making a plan real, all of it or nothing.

use serde::{Deserialize, Serialize};
use text::TextEdit;

use crate::{AbsPath, ChangeKind, ErrorCode, ReadError, RunId, StateError, Version};

/// Names one commit in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(pub String);

/// What was committed.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Its name in the journal, for undo.
    pub id: CommitId,
    /// The run it belongs to.
    pub run: RunId,
    /// One line for people.
    pub label: String,
    /// Every file, in order of path.
    pub files: Vec<CommittedFile>,
    /// What the person should know: written in place, formatter changed it, …
    pub notes: Vec<String>,
}

/// One file of a commit.
#[derive(Debug, Clone)]
pub struct CommittedFile {
    /// Where it is now.
    pub path: AbsPath,
    /// What happened to it.
    pub kind: ChangeKind,
    /// From the text before to the text after.
    pub edits: Vec<TextEdit>,
    /// As read back after writing; `None` when it is gone.
    pub version: Option<Version>,
}

/// One line of the history, newest first.
#[derive(Debug, Clone)]
pub struct CommitRecord {
    /// Its name.
    pub id: CommitId,
    /// The run it belongs to.
    pub run: RunId,
    /// One line for people.
    pub label: String,
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// Its files.
    pub files: Vec<AbsPath>,
    /// The commit that took it back, if one did.
    pub undone_by: Option<CommitId>,
}

/// What recovery found when the workspace was opened.
#[derive(Debug, Clone)]
pub struct RecoveryNote {
    /// The unfinished commit.
    pub commit: CommitId,
    /// The file.
    pub path: AbsPath,
    /// What was done or left, and where the kept text is.
    pub detail: String,
}

/// Why a commit did not happen. Unless it says otherwise, every file is as before.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A file changed after the plan was made; plan again.
    #[error("{} changed since the plan was made; plan again", list(paths))]
    Moved {
        /// Which.
        paths: Vec<AbsPath>,
    },
    /// The permit was given for another plan.
    #[error("the permit is for another plan")]
    WrongPermit,
    /// A file or folder may not be written.
    #[error("{path} is read-only; change its permissions and try again")]
    ReadOnly {
        /// Which.
        path: AbsPath,
    },
    /// No room.
    #[error("no space left for {path}; nothing was changed")]
    DiskFull {
        /// Which.
        path: AbsPath,
    },
    /// The editor did not take an edit; what had landed was taken back.
    #[error("the editor did not apply the edit of {path}: {detail}")]
    NotApplied {
        /// Which.
        path: AbsPath,
        /// What is known.
        detail: String,
    },
    /// Something could not be taken back.
    #[error("not everything could be taken back: {}", details.join("; "))]
    PartlyReverted {
        /// One line a file.
        details: Vec<String>,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Our journal failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The system's error.
    #[error("{path} cannot be written: {source}; nothing was changed")]
    Io {
        /// Which.
        path: AbsPath,
        /// The cause.
        source: std::io::Error,
    },
}

impl CommitError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Moved { .. } => ErrorCode::StaleText,
            Self::WrongPermit => ErrorCode::Internal,
            Self::ReadOnly { .. } => ErrorCode::ReadOnly,
            Self::DiskFull { .. } => ErrorCode::DiskFull,
            Self::NotApplied { .. } => ErrorCode::NotApplied,
            Self::PartlyReverted { .. } => ErrorCode::PartlyReverted,
            Self::Read(error) => error.code(),
            Self::State(error) => error.code(),
            Self::Io { .. } => ErrorCode::IoError,
        }
    }
}

fn list(paths: &[AbsPath]) -> String {
    paths.iter().map(AbsPath::to_string).collect::<Vec<_>>().join(", ")
}
