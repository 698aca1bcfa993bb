//! What a [`WorkspaceEdit`] comes to, file by file, before anything is written. Pure: the
//! operations are simulated in order over the documents as they are now.

use std::sync::Arc;

use text::TextEdit;

use crate::{AbsPath, Effects, ErrorCode, ReadError};

/// A checked edit with its outcome. What is permitted and committed.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) label: String,
    pub(crate) changes: Vec<FileChange>,
}

/// What happens to one path.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// The file; of a moved one, its new place.
    pub path: AbsPath,
    /// In which way.
    pub kind: ChangeKind,
    /// Text before, without a byte order mark; `None` when the file did not exist.
    pub before: Option<Arc<str>>,
    /// Text after; `None` when the file is gone.
    pub after: Option<Arc<str>>,
    /// The edits that turn `before` into `after`, in order of place; empty for created and deleted.
    pub edits: Vec<TextEdit>,
}

/// In which way a file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// Its text.
    Modified,
    /// It comes to be.
    Created,
    /// It goes.
    Deleted,
    /// It moves, and its text may change with it.
    Renamed {
        /// Where it was.
        from: AbsPath,
    },
}

/// Why an edit cannot be planned; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file is not the version that the edit was made for.
    #[error("{path} changed since it was read; read it again")]
    Stale {
        /// The file.
        path: AbsPath,
    },
    /// Something is where a file should come to be.
    #[error("{path} exists already")]
    Exists {
        /// The file.
        path: AbsPath,
    },
    /// An edit does not fit its text.
    #[error("the edits for {path} do not fit: {source}")]
    Invalid {
        /// The file.
        path: AbsPath,
        /// How.
        source: text::ApplyError,
    },
    /// A file outside the workspace.
    #[error("{path} is outside the workspace")]
    Outside {
        /// The file.
        path: AbsPath,
    },
    /// The editor or another program holds the file in a way that forbids writing.
    #[error("{path} cannot be written: {reason}")]
    Held {
        /// The file.
        path: AbsPath,
        /// Who and why, and what to do.
        reason: String,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl PlanError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stale { .. } => ErrorCode::StaleText,
            Self::Exists { .. } | Self::Held { .. } => ErrorCode::Conflict,
            Self::Invalid { .. } => ErrorCode::InvalidArguments,
            Self::Outside { .. } => ErrorCode::Denied,
            Self::Read(error) => error.code(),
        }
    }
}

impl Plan {
    /// One line for people.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What happens to each path, in order of path.
    pub fn changes(&self) -> &[FileChange] {
        &self.changes
    }

    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// All changes as one unified diff, paths relative to `root`.
    pub fn diff(&self, root: &AbsPath) -> String {
        let _ = root;
        unimplemented!()
    }

    /// Files, lines added, lines removed.
    pub fn counts(&self) -> (usize, usize, usize) {
        unimplemented!()
    }

    /// The paths written, as the policy judges them.
    pub fn effects(&self) -> Effects {
        unimplemented!()
    }

    /// Names this plan's outcome; a permit is bound to it.
    pub fn digest(&self) -> u128 {
        unimplemented!()
    }
}
