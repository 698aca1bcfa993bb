//! Value types of the journal: runs, commits, recovery notes.

use paths::AbsPath;
use serde::{Deserialize, Serialize};
use text::TextEdit;

use super::as_uri;
use crate::documents::document::Version;
use crate::plan::ChangeKind;

/// The id of a run; undo reverts a run's changes together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl RunId {
    /// A new id; later ones sort after earlier ones.
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }
}

impl Default for RunId {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a commit in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitId(pub String);

#[derive(Debug, Clone)]
pub struct Commit {
    /// Id in the journal, for undo.
    pub id: CommitId,
    /// The run it belongs to.
    pub run: RunId,
    /// One line that names the commit for the user.
    pub label: String,
    /// Every file, in order of path.
    pub files: Vec<CommittedFile>,
    /// Notes for the user, such as that a file was written in place.
    pub notes: Vec<String>,
}

/// One file of a commit.
#[derive(Debug, Clone)]
pub struct CommittedFile {
    /// Its current path.
    pub path: AbsPath,
    pub kind: ChangeKind,
    /// Edits from the text before to the text after.
    pub edits: Vec<TextEdit>,
    /// The version read back after writing; `None` if it was deleted.
    pub version: Option<Version>,
}

/// A commit as a line of the history.
#[derive(Debug, Clone)]
pub struct CommitRecord {
    pub id: CommitId,
    /// The run it belongs to.
    pub run: RunId,
    /// One line that names the commit for the user.
    pub label: String,
    /// Unix time in milliseconds.
    pub at_ms: i64,
    pub files: Vec<AbsPath>,
    /// The commit that reverted it, if any.
    pub undone_by: Option<CommitId>,
}

/// A finding of recovery, reported when a workspace is opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecoveryNote {
    pub commit: CommitId,
    #[serde(with = "as_uri")]
    pub path: AbsPath,
    /// The action taken, and the path of the stored text.
    pub detail: String,
}
