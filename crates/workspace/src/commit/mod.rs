//! Making a plan real, all of it or nothing: what that comes to, and the order of things between
//! the disk and the editor. The disk's part is `transaction`.

mod transaction;

use std::sync::Arc;
use std::time::Duration;

use paths::{AbsPath, StateError};
use policy::ErrorCode;

use crate::commit::transaction::Transaction;
use crate::documents::ReadError;
use crate::journal::{Commit, CommitId, RunId};
use crate::plan::{FileChange, Plan};
use crate::ports::{Editor, Hold, Holds, Settled};
use crate::state::WorkspaceState;

/// The editor settles each change by itself; this only bounds a port that never answers.
const EDITOR_DEADLINE: Duration = Duration::from_secs(60);

/// Why a commit did not happen. Unless it says otherwise, every file is as before.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A file changed after the plan was made; plan again.
    #[error("{} changed since the plan was made; plan again", list(paths))]
    Moved { paths: Vec<AbsPath> },
    /// The permit was given for another plan.
    #[error("the permit is for another plan")]
    WrongPermit,
    /// A file or directory may not be written.
    #[error("{path} is read-only; change its permissions and try again")]
    ReadOnly { path: AbsPath },
    #[error("no space left for {path}; nothing was changed")]
    DiskFull { path: AbsPath },
    /// Pilcrow ended before the commit did; the next start takes it back.
    #[error("pilcrow ended in the middle of the commit; the next start takes it back")]
    Stopped,
    /// Another editor holds a file.
    #[error("{path} cannot be written: {reason}")]
    Held {
        path: AbsPath,
        /// The holder, the reason, and the remedy.
        reason: String,
    },
    /// The editor did not take an edit; every file is as before.
    #[error("the editor did not apply the edit of {path}; nothing stays changed: {detail}")]
    NotApplied {
        path: AbsPath,
        /// The state of each file: unchanged or reverted, and why.
        detail: String,
    },
    /// Part of the commit could not be reverted.
    #[error("not everything could be reverted: {}", details.join("; "))]
    PartlyReverted {
        /// One line a file.
        details: Vec<String>,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("{path} cannot be written: {source}; nothing was changed")]
    Io { path: AbsPath, source: std::io::Error },
}

impl CommitError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Moved { .. } => ErrorCode::StaleText,
            Self::WrongPermit => ErrorCode::Internal,
            Self::ReadOnly { .. } => ErrorCode::ReadOnly,
            Self::DiskFull { .. } => ErrorCode::DiskFull,
            Self::Held { .. } => ErrorCode::Conflict,
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

/// A plan to commit, with its purpose.
pub(crate) struct Order {
    pub plan: Plan,
    pub run: RunId,
    /// The commits that it reverts.
    pub undoes: Vec<CommitId>,
    pub redo: bool,
}

/// Carries out a permitted plan. Must not be dropped halfway: the caller owns it as a task.
pub(crate) async fn carry_out(inner: Arc<WorkspaceState>, order: Order) -> Result<Arc<Commit>, CommitError> {
    let notes = ask_peers(&inner, &order.plan).await?;
    let (begin, run) = (Arc::clone(&inner), order.run.clone());
    let transaction = blocking(move || Transaction::begin(begin, order)).await?;
    let changes = transaction.open_changes();
    let editor = inner.editor.clone().filter(|_| !changes.is_empty());
    if let Some(editor) = &editor {
        let settled = settle(editor.as_ref(), &run, &changes).await;
        if settled.iter().any(|settled| *settled != Settled::Landed) {
            let untouched = transaction.closed_paths();
            let lost = blocking(move || Ok(transaction.roll_back())).await?;
            let mut fates = revert(editor.as_ref(), &run, &changes, &settled).await;
            if lost.is_empty() {
                fates.extend(untouched.into_iter().map(|path| Fate { path, what: What::Unchanged(None) }));
            }
            return Err(not_landed(&changes, &settled, fates, lost));
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
                let settled = vec![Settled::Landed; changes.len()];
                let fates = revert(editor.as_ref(), &run, &changes, &settled).await;
                lost.extend(fates.iter().filter(|fate| fate.is_lost()).map(Fate::to_string));
            }
            return Err(error.with_lost(lost));
        }
    };
    if !commit.files.is_empty() && inner.commits.send(Arc::clone(&commit)).is_err() {
        tracing::trace!("no subscriber for commits");
    }
    Ok(commit)
}

/// Refuses what others hold; answers what could not be found out about it.
async fn ask_peers(inner: &WorkspaceState, plan: &Plan) -> Result<Vec<String>, CommitError> {
    let Some(others) = inner.peers.get() else { return Ok(Vec::new()) };
    let paths: Vec<AbsPath> = plan.steps.iter().map(|step| step.path.clone()).collect();
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let Holds { mut held, notes } = others.holds(&paths).await;
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
struct Fate {
    path: AbsPath,
    what: What,
}

enum What {
    /// As before, with what the editor said.
    Unchanged(Option<String>),
    Reverted,
    NotReverted(String),
}

impl Fate {
    fn is_lost(&self) -> bool {
        matches!(self.what, What::NotReverted(_))
    }
}

impl std::fmt::Display for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.path;
        match &self.what {
            What::Unchanged(None) => write!(f, "{path}: unchanged"),
            What::Unchanged(Some(why)) => write!(f, "{path}: unchanged ({why})"),
            What::Reverted => write!(f, "{path}: reverted"),
            What::NotReverted(why) => write!(f, "{path}: could not be reverted, because {why}"),
        }
    }
}

impl CommitError {
    /// This error, or [`Self::PartlyReverted`] if something could not be reverted.
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

async fn settle(editor: &dyn Editor, run: &RunId, changes: &[FileChange]) -> Vec<Settled> {
    let answer = tokio::time::timeout(EDITOR_DEADLINE, editor.apply(run, changes)).await;
    let mut settled = answer.unwrap_or_default();
    settled.resize(changes.len(), Settled::Unknown);
    settled
}

/// Reverts the changes that landed; returns the state of each.
async fn revert(editor: &dyn Editor, run: &RunId, changes: &[FileChange], settled: &[Settled]) -> Vec<Fate> {
    let landed: Vec<FileChange> = changes
        .iter()
        .zip(settled)
        .filter(|(_, settled)| **settled == Settled::Landed)
        .map(|(change, _)| change.clone())
        .collect();
    let mut back = Vec::new();
    if !landed.is_empty() {
        let answer = tokio::time::timeout(EDITOR_DEADLINE, editor.revert(run, &landed)).await;
        back = answer.unwrap_or_default();
        back.resize(landed.len(), Settled::Unknown);
    }
    let mut back = back.into_iter();
    let fate = |(change, settled): (&FileChange, &Settled)| {
        let what = match settled {
            Settled::Landed => match back.next() {
                Some(Settled::Landed) => What::Reverted,
                other => What::NotReverted(say(&other.unwrap_or(Settled::Unknown))),
            },
            Settled::Absent { .. } | Settled::Moved => What::Unchanged(Some(say(settled))),
            Settled::Elsewhere { reverted: true, detail } => {
                What::Unchanged(Some(format!("it landed elsewhere and was reverted: {detail}")))
            }
            Settled::Elsewhere { .. } | Settled::Unknown => What::NotReverted(say(settled)),
        };
        Fate { path: change.path.clone(), what }
    };
    changes.iter().zip(settled).map(fate).collect()
}

fn not_landed(
    changes: &[FileChange],
    settled: &[Settled],
    fates: Vec<Fate>,
    lost: Vec<String>,
) -> CommitError {
    if !lost.is_empty() || fates.iter().any(Fate::is_lost) {
        let mut details: Vec<String> = fates.iter().map(Fate::to_string).collect();
        details.extend(lost);
        return CommitError::PartlyReverted { details };
    }
    let of = |wanted: fn(&Settled) -> bool| {
        let found = changes.iter().zip(settled).filter(move |(_, settled)| wanted(settled));
        found.map(|(change, _)| change.path.clone())
    };
    let moved: Vec<AbsPath> = of(|settled| *settled == Settled::Moved).collect();
    if !moved.is_empty() && of(|settled| matches!(settled, Settled::Elsewhere { .. })).next().is_none() {
        return CommitError::Moved { paths: moved };
    }
    let failed = of(|settled| !matches!(settled, Settled::Landed)).next();
    let path = failed.unwrap_or_else(|| changes[0].path.clone());
    let detail = fates.iter().map(Fate::to_string).collect::<Vec<_>>().join("; ");
    CommitError::NotApplied { path, detail }
}

fn say(settled: &Settled) -> String {
    match settled {
        Settled::Landed => "it landed".to_owned(),
        Settled::Elsewhere { detail, .. } => format!("it landed elsewhere: {detail}"),
        Settled::Absent { reason: Some(reason) } => format!("refused: {reason}"),
        Settled::Absent { reason: None } => "refused without a reason".to_owned(),
        Settled::Moved => "it changed meanwhile".to_owned(),
        Settled::Unknown => "it is not known whether it landed; check the file".to_owned(),
    }
}

/// Runs `work`, which blocks, where that is allowed.
async fn blocking<T: Send + 'static>(
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
