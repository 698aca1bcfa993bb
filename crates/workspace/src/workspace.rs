//! One workspace: a root, its documents, its journal.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use paths::{AbsPath, StateDir, StateError};
use policy::{ErrorCode, Permit};
use text::ChangeLog;
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use crate::commit::{self, Order};
use crate::documents::disk;
use crate::journal::Journal;
use crate::journal::LOCK;
use crate::journal::command_backup;
use crate::journal::recovery;
use crate::plan::simulate::Files;
use crate::proposals::Proposals;
use crate::search::file_index::FileIndex;
use crate::state::WorkspaceState;
use crate::{
    Commit, CommitError, CommitRecord, Document, Editor, Operation, Peers, Plan, PlanError, ReadError,
    RecoveryNote, RunId, Undo, UndoError, UndoPlan, WorkspaceEdit, plan, undo,
};

/// The user's files below one root. Cheap to clone.
#[derive(Clone)]
pub struct Workspace {
    pub(crate) inner: Arc<WorkspaceState>,
    /// Whether it is without the proposed edits.
    pub(crate) is_applied: bool,
}

/// Reverts unfinished commits of dead processes, and recovers command backups.
///
/// The backups go to the journal. A process that holds the lock is alive, and reverts its own commits.
fn finish_what_crashed(state: &StateDir) -> Result<Vec<RecoveryNote>, StateError> {
    let journal = Journal::new(state)?;
    let is_clean = journal.pending()?.is_empty() && !command_backup::is_any(state)?;
    if is_clean && state.stat(REVERTED).is_none() {
        return Ok(Vec::new());
    }
    let Some(_lock) = state.try_lock(LOCK)? else { return Ok(Vec::new()) };
    let reverted = state.read(REVERTED)?.unwrap_or_default();
    let mut notes: Vec<RecoveryNote> =
        reverted.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    // Revert our own unfinished writes first, then recover whole files.
    notes.extend(recovery::recover(&journal)?);
    notes.extend(command_backup::recover(state, &journal)?);
    state.remove(REVERTED)?;
    Ok(notes)
}

/// The file with the notes of [`revert_unfinished`], one line each.
const REVERTED: &str = "reverted.jsonl";

/// Maximum time in which a process that was killed releases the lock.
const LOCK_DEADLINE: Duration = Duration::from_secs(5);

/// Reverts the unfinished commits of dead processes in a workspace's state.
///
/// Blocks, up to 5 s for a running commit.
/// The guard of a killed process calls it; [`Workspace::open`] returns the notes.
///
/// # Errors
/// Our own files could not be read or written; the next start tries again.
pub fn revert_unfinished(state: &StateDir) -> Result<(), StateError> {
    let journal = Journal::new(state)?;
    if journal.pending()?.is_empty() {
        return Ok(());
    }
    // The process that ends may close the lock's file last.
    let _lock = state.lock(LOCK, LOCK_DEADLINE)?;
    for note in recovery::recover(&journal)? {
        let mut line = serde_json::to_vec(&note).expect("a struct of strings is valid JSON");
        line.push(b'\n');
        state.append(REVERTED, &line, true)?;
    }
    Ok(())
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: EntryKind,
    /// Size in bytes of a file; 0 for other entries.
    pub size: u64,
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    File,
    Directory,
    Link,
    Other,
}

impl EntryKind {
    pub(crate) fn of(kind: std::fs::FileType) -> Self {
        match kind {
            kind if kind.is_file() => Self::File,
            kind if kind.is_dir() => Self::Directory,
            kind if kind.is_symlink() => Self::Link,
            _ => Self::Other,
        }
    }
}

/// The reason why a workspace cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The root is not a readable directory.
    #[error("{path} cannot be opened as a directory: {source}")]
    Root { path: std::path::PathBuf, source: std::io::Error },
    /// A directory of Pilcrow's state failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// The prefix, below the root, of documents that only an editor has.
pub const UNTITLED: &str = "untitled:";

/// The reason why a path does not belong to the workspace.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The path leads outside, as spelled or through a link.
    #[error("{path} leads outside the workspace, to {target}; name a path inside it")]
    Outside { path: String, target: AbsPath },
    /// The path names a document without a file that no editor has open.
    #[error("no document {path} is open in the editor; if it was saved, use its new name")]
    NotOpen { path: String },
    /// The text is not a path, or the path has a broken link.
    #[error("{path:?} is not a usable path: {reason}")]
    Invalid { path: String, reason: String },
}

impl PathError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Outside { .. } => ErrorCode::Denied,
            Self::NotOpen { .. } => ErrorCode::NotFound,
            Self::Invalid { .. } => ErrorCode::InvalidArguments,
        }
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Workspace").field(&self.inner.root).finish()
    }
}

impl Workspace {
    /// Opens the workspace at `root` after finishing what a crash left unfinished.
    ///
    /// Its state lives below `state` (the state home). Blocks on the file system.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        root: &Path,
        state: &StateDir,
        editor: Option<Arc<dyn Editor>>,
    ) -> Result<(Self, Vec<RecoveryNote>), OpenError> {
        let (root, id) = Self::identify(root)?;
        let state = state.child("workspaces")?.child(&id)?;
        let (commits, _) = broadcast::channel(64);
        let notes = finish_what_crashed(&state)?;
        let (peers, tasks) = (OnceLock::new(), TaskTracker::new());
        let (index, proposals) = (FileIndex::default(), Proposals::default());
        let inner = WorkspaceState { root, id, state, editor, peers, commits, tasks, index, proposals };
        Ok((Self { inner: Arc::new(inner), is_applied: false }, notes))
    }

    /// The canonical root and id of the workspace at `root`, unopened. Blocks.
    ///
    /// # Errors
    /// [`OpenError::Root`].
    pub fn identify(root: &Path) -> Result<(AbsPath, String), OpenError> {
        let unusable = |source| OpenError::Root { path: root.to_owned(), source };
        let canonical = std::fs::canonicalize(root).map_err(unusable)?;
        if !std::fs::metadata(&canonical).map_err(unusable)?.is_dir() {
            return Err(unusable(std::io::ErrorKind::NotADirectory.into()));
        }
        let id = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(canonical.as_os_str().as_bytes()));
        Ok((AbsPath::new(&canonical).expect("a canonical path is absolute"), id))
    }

    /// Sets the peers to ask before each commit whether they hold its files; once.
    pub fn set_peers(&self, peers: Arc<dyn Peers>) {
        if self.inner.peers.set(peers).is_err() {
            tracing::debug!("the peers of this workspace are already set");
        }
    }

    /// Returns the edits from `since`, a text that was read, to the current text.
    ///
    /// `None` unless an editor has the file open and knows all of them. Blocks like [`Workspace::document`].
    pub fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        if !self.is_applied && self.inner.is_proposed(path) {
            return None;
        }
        self.inner.editor.as_ref()?.changes(path, since)
    }

    /// Returns a counter of edits of open documents; `None` without an editor.
    pub fn editor_moves(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.inner.editor.as_ref()?.change_counter()
    }

    /// Lists the documents that the editor has open or that have proposed edits.
    ///
    /// Blocks.
    pub fn open_documents(&self) -> Vec<Document> {
        let open = self.inner.editor.as_ref().map(|editor| editor.documents()).unwrap_or_default();
        self.with_proposals(open)
    }

    pub fn root(&self) -> &AbsPath {
        &self.inner.root
    }

    /// Returns 16 hexadecimal digits of the root's hash.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Returns the state directory of this workspace.
    pub fn state(&self) -> &StateDir {
        &self.inner.state
    }

    /// Resolves `path`, relative to the root or absolute, to its canonical path.
    ///
    /// The file need not exist.
    ///
    /// # Errors
    /// [`PathError`] when it leads outside.
    pub fn resolve(&self, path: &str) -> Result<AbsPath, PathError> {
        let invalid = |reason: String| PathError::Invalid { path: path.to_owned(), reason };
        if path.is_empty() {
            return Err(invalid("it is empty".to_owned()));
        }
        if path.contains('\0') {
            return Err(invalid("it contains a NUL byte".to_owned()));
        }
        let target = ::paths::resolve(self.root(), Path::new(path)).map_err(invalid)?;
        if path.starts_with(UNTITLED) && self.inner.open_document(&target).is_none() {
            return Err(PathError::NotOpen { path: path.to_owned() });
        }
        if target.starts_with(self.root()) {
            Ok(target)
        } else {
            Err(PathError::Outside { path: path.to_owned(), target })
        }
    }

    /// `path` for display: relative to the root, with `/`.
    pub fn relative(&self, path: &AbsPath) -> String {
        plan::relative(self.root(), path)
    }

    /// The document at a canonical path, with proposed edits.
    ///
    /// The editor's, else from the disk. Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn document(&self, path: &AbsPath) -> Result<Document, ReadError> {
        self.held_document(path).map_or_else(|| self.saved(path), Ok)
    }

    /// The file at a canonical path on the disk, whatever an editor has. Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn saved(&self, path: &AbsPath) -> Result<Document, ReadError> {
        disk::document(path)
    }

    /// The bytes of the file at a canonical path on the disk. Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn bytes(&self, path: &AbsPath) -> Result<Vec<u8>, ReadError> {
        Ok(disk::read(path)?.0)
    }

    /// Entries of a directory, sorted by name. Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn list(&self, directory: &AbsPath) -> Result<Vec<Entry>, ReadError> {
        let list = || {
            let mut entries = Vec::new();
            for entry in std::fs::read_dir(directory)? {
                let entry = entry?;
                let kind = EntryKind::of(entry.file_type()?);
                let size = if kind == EntryKind::File { entry.metadata()?.len() } else { 0 };
                entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind, size });
            }
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        list().map_err(|source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => ReadError::NotFound { path: directory.clone() },
            _ => ReadError::Io { path: directory.clone(), source },
        })
    }

    /// Checks `edit` against the current documents and computes its outcome. Blocks.
    ///
    /// # Errors
    /// [`PlanError`]; nothing is written in any case.
    pub fn plan(&self, edit: WorkspaceEdit) -> Result<Plan, PlanError> {
        let WorkspaceEdit { label, operations, confirm } = edit;
        let inner = &*self.inner;
        let mut files = Files::new(self);
        for mut operation in operations {
            match &mut operation {
                Operation::Edit { path, .. }
                | Operation::Create { path, .. }
                | Operation::Adopt { path, .. }
                | Operation::Delete { path, .. }
                | Operation::DeleteDirectory { path, .. } => *path = inner.canonical(path)?,
                Operation::Rename { from, to, .. } => {
                    *from = inner.canonical(from)?;
                    *to = inner.canonical(to)?;
                }
            }
            files.make(operation)?;
        }
        let plan = Plan { confirm, ..files.into_plan(label)? };
        inner.check_holders(&plan)?;
        Ok(plan)
    }

    /// Commits `plan`, all or nothing, and notifies subscribers.
    ///
    /// Proposes it instead if the permit says so, or if a file of it has proposed edits.
    ///
    /// Not cancellable once it began: it finishes even when this future is dropped. Waits up to 30 s for
    /// other commits. Needs a runtime with a timer.
    ///
    /// # Errors
    /// [`CommitError`].
    pub async fn commit(&self, plan: Plan, permit: Permit, run: &RunId) -> Result<Arc<Commit>, CommitError> {
        let (is_proposal, run) = (permit.is_proposal(), run.clone());
        let inner = Arc::clone(&self.inner);
        if !self.is_applied && permit.covers(&plan) && (is_proposal || inner.changes_proposals(&plan)) {
            let commit = commit::blocking(move || inner.propose(&plan, &run)).await?;
            let commit = Arc::new(commit);
            self.notify(&commit);
            return Ok(commit);
        }
        self.spawn_commit(permit, Order { plan, run, undoes: Vec::new(), redo: false, accepted: false }).await
    }

    fn notify(&self, commit: &Arc<Commit>) {
        if self.inner.commits.send(Arc::clone(commit)).is_err() {
            tracing::trace!("no subscriber for commits");
        }
    }

    pub(crate) async fn spawn_commit(
        &self,
        permit: Permit,
        order: Order,
    ) -> Result<Arc<Commit>, CommitError> {
        // A permit for a proposal changes no file.
        if permit.is_proposal() || !permit.covers(&order.plan) {
            return Err(CommitError::WrongPermit);
        }
        finished(self.inner.tasks.spawn(commit::commit_plan(Arc::clone(&self.inner), order)).await)
    }

    /// Receives every later commit through this value and its clones.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Commit>> {
        self.inner.commits.subscribe()
    }

    /// Plans the undo of `which` on the current text. Blocks.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn plan_undo(&self, which: &Undo) -> Result<UndoPlan, UndoError> {
        undo::plan_undo(&self.inner, which)
    }

    /// Plans the redo, which reverts the last undo. Blocks.
    ///
    /// # Errors
    /// [`UndoError`].
    pub fn plan_redo(&self) -> Result<UndoPlan, UndoError> {
        undo::plan_redo(&self.inner)
    }

    /// Commits a planned undo or redo.
    ///
    /// # Errors
    /// [`CommitError`].
    pub async fn commit_undo(
        &self,
        undo: UndoPlan,
        permit: Permit,
        run: &RunId,
    ) -> Result<Arc<Commit>, CommitError> {
        let UndoPlan { plan, undoes, redo, drops, .. } = undo;
        if let Some(step) = plan.steps.first().filter(|_| permit.is_proposal()) {
            let what = "an undo of changes that are applied";
            return Err(CommitError::NotProposed { path: step.path.clone(), what });
        }
        if let Some(dropped) = drops.as_ref().filter(|_| plan.is_empty()) {
            self.drop_proposals(dropped).await?;
            let commit = Arc::new(Commit::proposed(run, plan.label, Vec::new(), Vec::new()));
            self.notify(&commit);
            return Ok(commit);
        }
        let order = Order { plan, run: run.clone(), undoes, redo, accepted: false };
        let commit = self.spawn_commit(permit, order).await?;
        if let Some(dropped) = &drops {
            self.drop_proposals(dropped).await?;
        }
        Ok(commit)
    }

    /// The journal's commits, newest first. Blocks.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn history(&self) -> Result<Vec<CommitRecord>, StateError> {
        undo::history(&self.inner)
    }
}

/// The result of a task of a commit; continues its panic.
pub(crate) fn finished(
    ended: Result<Result<Arc<Commit>, CommitError>, tokio::task::JoinError>,
) -> Result<Arc<Commit>, CommitError> {
    ended.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(CommitError::Stopped),
    })
}
