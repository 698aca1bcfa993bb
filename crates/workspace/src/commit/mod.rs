//! Commits of plans: all of a plan or nothing.
//!
//! This module computes the outcome of a commit and orders the writes of disk and editor. `transaction` makes
//! the writes on the disk.

mod transaction;

use std::sync::Arc;
use std::time::Duration;

use paths::{AbsPath, StateError};
use policy::ErrorCode;

use crate::commit::transaction::Transaction;
use crate::documents::ReadError;
use crate::journal::{Commit, CommitId, RunId};
use crate::plan::{FileChange, Plan};
use crate::ports::{ApplyOutcome, Editor, Hold, Holds};
use crate::state::WorkspaceState;

/// Deadline for an editor port; the port reconciles each change by itself.
const EDITOR_DEADLINE: Duration = Duration::from_secs(60);

/// The reason why a commit did not happen.
///
/// Unless it says otherwise, every file is as before.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A file changed after the plan was made; plan again.
    #[error("{} changed since the plan was made; plan again", list(paths))]
    Moved { paths: Vec<AbsPath> },
    /// The permit allows another plan.
    #[error("the permit is for another plan; request one for this plan")]
    WrongPermit,
    /// A file or directory may not be written.
    #[error("{path} is read-only; change its permissions and try again")]
    ReadOnly { path: AbsPath },
    #[error("no space left for {path} (nothing was changed); free some and try again")]
    DiskFull { path: AbsPath },
    /// Pilcrow ended before the commit did; the next start reverts it.
    #[error("pilcrow ended in the middle of the commit; the next start reverts it")]
    Stopped,
    /// Another editor holds a file.
    #[error("{path} cannot be written: {reason}")]
    Held {
        path: AbsPath,
        /// The holder, the reason, and the remedy.
        reason: String,
    },
    /// The editor did not take an edit; every file is as before.
    #[error("the editor did not apply the edit of {path}; all changes were reverted: {detail}")]
    NotApplied {
        path: AbsPath,
        /// The state of each file: unchanged or reverted, with the reason.
        detail: String,
    },
    /// Part of the commit could not be reverted.
    #[error("not everything could be reverted; check these files: {}", details.join("; "))]
    PartlyReverted {
        /// The state of each file, with the reason; one was not reverted.
        details: Vec<String>,
    },
    /// The change cannot be a proposal.
    #[error(
        "{path}: {what} cannot be proposed; leave it to the user, \
         or continue after the user sets `edit.mode` to `apply`"
    )]
    NotProposed { path: AbsPath, what: &'static str },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("{path} cannot be written: {source}; nothing was changed")]
    Io { path: AbsPath, source: std::io::Error },
}

impl CommitError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Moved { .. } => ErrorCode::StaleText,
            Self::WrongPermit => ErrorCode::Internal,
            Self::ReadOnly { .. } => ErrorCode::ReadOnly,
            Self::DiskFull { .. } => ErrorCode::DiskFull,
            Self::Held { .. } => ErrorCode::Conflict,
            Self::NotProposed { .. } => ErrorCode::WrongState,
            Self::Stopped => ErrorCode::Cancelled,
            Self::NotApplied { .. } => ErrorCode::NotApplied,
            Self::PartlyReverted { .. } => ErrorCode::PartlyReverted,
            Self::Read(error) => error.code(),
            Self::State(error) => ErrorCode::from(error),
            Self::Io { .. } => ErrorCode::IoError,
        }
    }
}

fn list(paths: &[AbsPath]) -> String {
    paths.iter().map(AbsPath::to_string).collect::<Vec<_>>().join(", ")
}

/// A plan to commit, with its purpose and run.
pub(crate) struct Order {
    pub plan: Plan,
    pub run: RunId,
    /// The commits that it reverts.
    pub undoes: Vec<CommitId>,
    pub redo: bool,
    /// Whether it makes edits that the user accepted.
    pub accepted: bool,
}

/// Commits a permitted plan.
///
/// The caller owns it as a task, because it must run to its end.
pub(crate) async fn commit_plan(
    inner: Arc<WorkspaceState>,
    order: Order,
) -> Result<Arc<Commit>, CommitError> {
    let notes = ask_peers(&inner, &order.plan).await?;
    let (begin, run) = (Arc::clone(&inner), order.run.clone());
    let transaction = blocking(move || Transaction::begin(begin, order)).await?;
    let changes = transaction.open_changes();
    let editor = inner.editor.clone().filter(|_| !changes.is_empty());
    if let Some(editor) = &editor {
        let outcomes = apply_in_editor(editor.as_ref(), &run, &changes).await;
        if outcomes.iter().any(|outcome| *outcome != ApplyOutcome::Applied) {
            let untouched = transaction.closed_paths();
            let lost = blocking(move || Ok(transaction.roll_back())).await?;
            let mut files = revert(editor.as_ref(), &run, &changes, &outcomes).await;
            if lost.is_empty() {
                files.extend(
                    untouched.into_iter().map(|path| FileState { path, state: RevertState::Unchanged(None) }),
                );
            }
            return Err(not_applied(&changes, &outcomes, files, lost));
        }
    }
    let commit = match blocking(move || transaction.finish()).await {
        Ok(mut commit) => {
            commit.notes.extend(notes);
            Arc::new(commit)
        }
        Err(error) => {
            let mut lost = Vec::new();
            if let Some(editor) = &editor {
                let outcomes = vec![ApplyOutcome::Applied; changes.len()];
                let files = revert(editor.as_ref(), &run, &changes, &outcomes).await;
                lost.extend(files.iter().filter(|file| file.is_lost()).map(FileState::to_string));
            }
            return Err(error.with_lost(lost));
        }
    };
    if !commit.files.is_empty() && inner.commits.send(Arc::clone(&commit)).is_err() {
        tracing::trace!("no subscriber for commits");
    }
    Ok(commit)
}

/// Refuses files that peers hold; returns notes on peers that did not answer.
async fn ask_peers(inner: &WorkspaceState, plan: &Plan) -> Result<Vec<String>, CommitError> {
    let Some(peers) = inner.peers.get() else { return Ok(Vec::new()) };
    let paths: Vec<AbsPath> = plan.steps.iter().map(|step| step.path.clone()).collect();
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let Holds { mut held, notes } = peers.holds(&paths).await;
    held.sort_by(|a, b| a.path.cmp(&b.path));
    held.dedup_by(|a, b| a.path == b.path);
    let mut held = held.into_iter();
    let Some(Hold { path, mut reason }) = held.next() else { return Ok(notes) };
    for other in held {
        reason.push_str(&format!("; nor can {}: {}", other.path, other.reason));
    }
    Err(CommitError::Held { path, reason })
}

/// The state of one file after a failed commit.
struct FileState {
    path: AbsPath,
    state: RevertState,
}

enum RevertState {
    /// The file is unchanged, with the editor's reason.
    Unchanged(Option<String>),
    Reverted,
    NotReverted(String),
}

impl FileState {
    fn is_lost(&self) -> bool {
        matches!(self.state, RevertState::NotReverted(_))
    }
}

impl std::fmt::Display for FileState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.path;
        match &self.state {
            RevertState::Unchanged(None) => write!(f, "{path}: unchanged"),
            RevertState::Unchanged(Some(why)) => write!(f, "{path}: unchanged ({why})"),
            RevertState::Reverted => write!(f, "{path}: reverted"),
            RevertState::NotReverted(why) => write!(f, "{path}: could not be reverted, because {why}"),
        }
    }
}

impl CommitError {
    /// Returns this error, or [`Self::PartlyReverted`] if `lost` is not empty.
    pub(crate) fn with_lost(self, mut lost: Vec<String>) -> Self {
        if lost.is_empty() {
            return self;
        }
        match self {
            Self::PartlyReverted { details } => lost.extend(details),
            other => lost.insert(0, other.to_string()),
        }
        Self::PartlyReverted { details: lost }
    }
}

async fn apply_in_editor(editor: &dyn Editor, run: &RunId, changes: &[FileChange]) -> Vec<ApplyOutcome> {
    let reply = tokio::time::timeout(EDITOR_DEADLINE, editor.apply(run, changes)).await;
    let mut outcomes = reply.unwrap_or_default();
    outcomes.resize(changes.len(), ApplyOutcome::Unknown);
    outcomes
}

/// Reverts the applied changes; returns the state of each file.
async fn revert(
    editor: &dyn Editor,
    run: &RunId,
    changes: &[FileChange],
    outcomes: &[ApplyOutcome],
) -> Vec<FileState> {
    let applied: Vec<FileChange> = changes
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| **outcome == ApplyOutcome::Applied)
        .map(|(change, _)| change.clone())
        .collect();
    let mut reverted = Vec::new();
    if !applied.is_empty() {
        let reply = tokio::time::timeout(EDITOR_DEADLINE, editor.revert(run, &applied)).await;
        reverted = reply.unwrap_or_default();
        reverted.resize(applied.len(), ApplyOutcome::Unknown);
    }
    let mut reverted = reverted.into_iter();
    let file = |(change, outcome): (&FileChange, &ApplyOutcome)| {
        let state = match outcome {
            ApplyOutcome::Applied => match reverted.next() {
                Some(ApplyOutcome::Applied) => RevertState::Reverted,
                other => RevertState::NotReverted(describe(&other.unwrap_or(ApplyOutcome::Unknown))),
            },
            ApplyOutcome::NotApplied { .. } | ApplyOutcome::Stale => {
                RevertState::Unchanged(Some(describe(outcome)))
            }
            ApplyOutcome::Misplaced { reverted: true, detail } => RevertState::Unchanged(Some(format!(
                "the editor misplaced it, and it was reverted: {detail}"
            ))),
            ApplyOutcome::Misplaced { .. } | ApplyOutcome::Unknown => {
                RevertState::NotReverted(describe(outcome))
            }
        };
        FileState { path: change.path.clone(), state }
    };
    changes.iter().zip(outcomes).map(file).collect()
}

fn not_applied(
    changes: &[FileChange],
    outcomes: &[ApplyOutcome],
    files: Vec<FileState>,
    lost: Vec<String>,
) -> CommitError {
    if !lost.is_empty() || files.iter().any(FileState::is_lost) {
        let mut details: Vec<String> = files.iter().map(FileState::to_string).collect();
        details.extend(lost);
        return CommitError::PartlyReverted { details };
    }
    let paths_where = |matches: fn(&ApplyOutcome) -> bool| {
        let found = changes.iter().zip(outcomes).filter(move |(_, outcome)| matches(outcome));
        found.map(|(change, _)| change.path.clone())
    };
    let stale: Vec<AbsPath> = paths_where(|outcome| *outcome == ApplyOutcome::Stale).collect();
    if !stale.is_empty()
        && paths_where(|outcome| matches!(outcome, ApplyOutcome::Misplaced { .. })).next().is_none()
    {
        return CommitError::Moved { paths: stale };
    }
    let failed = paths_where(|outcome| !matches!(outcome, ApplyOutcome::Applied)).next();
    let path = failed.unwrap_or_else(|| changes[0].path.clone());
    let detail = files.iter().map(FileState::to_string).collect::<Vec<_>>().join("; ");
    CommitError::NotApplied { path, detail }
}

fn describe(outcome: &ApplyOutcome) -> String {
    match outcome {
        ApplyOutcome::Applied => "the editor applied it".to_owned(),
        ApplyOutcome::Misplaced { detail, .. } => format!("the editor misplaced it: {detail}"),
        ApplyOutcome::NotApplied { reason: Some(reason) } => format!("refused: {reason}"),
        ApplyOutcome::NotApplied { reason: None } => "refused without a reason".to_owned(),
        ApplyOutcome::Stale => "its text changed since it was planned".to_owned(),
        ApplyOutcome::Unknown => "the editor did not report whether it applied it; check the file".to_owned(),
    }
}

/// Runs blocking `work` on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CommitError> + Send + 'static,
) -> Result<T, CommitError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(CommitError::Stopped),
        },
    }
}
