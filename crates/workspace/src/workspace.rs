//! One workspace: a root, its documents, its journal.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::broadcast;

use crate::{
    AbsPath, Commit, CommitError, CommitRecord, Document, Editor, ErrorCode, Permit, Plan, PlanError,
    ReadError, RecoveryNote, RunId, StateDir, StateError, Undo, UndoError, UndoPlan, WorkspaceEdit,
};

/// The person's files below one root. Cheap to clone.
#[derive(Clone)]
pub struct Workspace {
    inner: Arc<Inner>,
}

struct Inner {
    root: AbsPath,
    id: String,
    state: StateDir,
    editor: Option<Arc<dyn Editor>>,
    commits: broadcast::Sender<Arc<Commit>>,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes, for a file.
    pub size: u64,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

/// Why a workspace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The root is not a folder that can be read.
    #[error("{path} is not a folder that can be opened: {source}")]
    Root {
        /// What was asked for.
        path: std::path::PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Our own folder failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// Why a path is not one of the workspace's.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It leads outside, as spelled or through a link.
    #[error("{path} leads outside the workspace, to {target}")]
    Outside {
        /// As it was spelled.
        path: String,
        /// Where it leads.
        target: AbsPath,
    },
    /// Not a path at all.
    #[error("{path:?} is not a usable path: {reason}")]
    Invalid {
        /// As it was spelled.
        path: String,
        /// Why.
        reason: String,
    },
}

impl PathError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Outside { .. } => ErrorCode::Denied,
            Self::Invalid { .. } => ErrorCode::InvalidArguments,
        }
    }
}

impl Workspace {
    /// Opens the workspace at `root`, whose own state lives below `state` (the state home), and
    /// first finishes what a crash left unfinished. Blocks on the file system.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        root: &Path,
        state: &StateDir,
        editor: Option<Arc<dyn Editor>>,
    ) -> Result<(Self, Vec<RecoveryNote>), OpenError> {
        let _ = (root, state, editor);
        unimplemented!()
    }

    /// The canonical root.
    pub fn root(&self) -> &AbsPath {
        &self.inner.root
    }

    /// 16 hexadecimal digits of the root's hash.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// This workspace's own state.
    pub fn state(&self) -> &StateDir {
        &self.inner.state
    }

    /// The canonical path of `path` (relative to the root, or absolute), links resolved; the file
    /// need not exist.
    ///
    /// # Errors
    /// [`PathError`] when it leads outside.
    pub fn resolve(&self, path: &str) -> Result<AbsPath, PathError> {
        let _ = path;
        unimplemented!()
    }

    /// `path` as people and models are shown it: relative to the root, with `/`.
    pub fn relative(&self, path: &AbsPath) -> String {
        let _ = path;
        unimplemented!()
    }

    /// The document at a canonical path: the editor's, else read from the disk now. Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn document(&self, path: &AbsPath) -> Result<Document, ReadError> {
        let _ = (path, &self.inner.editor);
        unimplemented!()
    }

    /// Entries of a folder, sorted by name. Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn list(&self, folder: &AbsPath) -> Result<Vec<Entry>, ReadError> {
        let _ = folder;
        unimplemented!()
    }

    /// Checks `edit` against the documents as they are and works out its outcome. Blocks.
    ///
    /// # Errors
    /// [`PlanError`]; nothing is written in any case.
    pub fn plan(&self, edit: WorkspaceEdit) -> Result<Plan, PlanError> {
        let _ = edit;
        unimplemented!()
    }

    /// Makes `plan` real, all or nothing, and tells subscribers. Not cancellable once it began.
    ///
    /// # Errors
    /// [`CommitError`].
    pub async fn commit(&self, plan: Plan, permit: Permit, run: &RunId) -> Result<Arc<Commit>, CommitError> {
        let _ = (plan, permit, run);
        unimplemented!()
    }

    /// Every commit made from now on through this value and its clones.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Commit>> {
        self.inner.commits.subscribe()
    }

    /// What taking back `which` would change, on the text as it is now. Blocks.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn plan_undo(&self, which: &Undo) -> Result<UndoPlan, UndoError> {
        let _ = which;
        unimplemented!()
    }

    /// What taking back the last undo would change. Blocks.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn plan_redo(&self) -> Result<UndoPlan, UndoError> {
        unimplemented!()
    }

    /// Carries out a planned undo or redo.
    ///
    /// # Errors
    /// [`CommitError`].
    pub async fn commit_undo(
        &self,
        undo: UndoPlan,
        permit: Permit,
        run: &RunId,
    ) -> Result<Arc<Commit>, CommitError> {
        let _ = (undo, permit, run);
        unimplemented!()
    }

    /// The journal's commits, newest first. Blocks.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn history(&self) -> Result<Vec<CommitRecord>, StateError> {
        unimplemented!()
    }
}
