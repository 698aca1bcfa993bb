//! Making a plan real, all of it or nothing: what that comes to, and the order of things between
//! the disk and the editor. The disk's part is `transaction`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use text::TextEdit;

use crate::transaction::Transaction;
use crate::workspace::Inner;
use crate::{
    AbsPath, ChangeKind, Editor, ErrorCode, FileChange, Hold, Holds, Plan, ReadError, RunId, Settled,
    StateError, Version,
};

/// The editor settles each change by itself; this only bounds a port that never answers.
const EDITOR_DEADLINE: Duration = Duration::from_secs(60);

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
    /// Pilcrow ended before the commit did; the next start takes it back.
    #[error("pilcrow ended in the middle of the commit; the next start takes it back")]
    Stopped,
    /// Another editor holds a file.
    #[error("{path} cannot be written: {reason}")]
    Held {
        /// Which.
        path: AbsPath,
        /// Who and why, and what to do.
        reason: String,
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
            Self::Held { .. } => ErrorCode::Conflict,
            Self::Stopped => ErrorCode::Cancelled,
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

/// What is committed, and for what.
pub(crate) struct Order {
    pub plan: Plan,
    pub run: RunId,
    /// The commits that it takes back.
    pub undoes: Vec<CommitId>,
    pub redo: bool,
}

/// Carries out a permitted plan. Must not be dropped halfway: the caller owns it as a task.
pub(crate) async fn carry_out(inner: Arc<Inner>, order: Order) -> Result<Arc<Commit>, CommitError> {
    let notes = heed_others(&inner, &order.plan).await?;
    let begin = Arc::clone(&inner);
    let transaction = blocking(move || Transaction::begin(begin, order)).await?;
    let changes = transaction.open_changes();
    let editor = inner.editor.clone().filter(|_| !changes.is_empty());
    if let Some(editor) = &editor {
        let settled = settle(editor.as_ref(), &changes).await;
        if settled.iter().any(|settled| *settled != Settled::Landed) {
            let mut lost = blocking(move || Ok(transaction.roll_back())).await?;
            let landed = changes.iter().zip(&settled).filter(|(_, settled)| **settled == Settled::Landed);
            let landed: Vec<FileChange> = landed.map(|(change, _)| change.clone()).collect();
            lost.extend(revert(editor.as_ref(), &landed).await);
            return Err(not_landed(&changes, &settled, lost));
        }
    }
    let commit = match blocking(move || transaction.finish()).await {
        Ok(mut commit) => {
            commit.notes.extend(notes);
            Arc::new(commit)
        }
        Err(error) => {
            let lost = match &editor {
                Some(editor) => revert(editor.as_ref(), &changes).await,
                None => Vec::new(),
            };
            return Err(error.with_lost(lost));
        }
    };
    if !commit.files.is_empty() && inner.commits.send(Arc::clone(&commit)).is_err() {
        tracing::trace!("nobody listens for commits");
    }
    Ok(commit)
}

/// Refuses what others hold; answers what could not be found out about it.
async fn heed_others(inner: &Inner, plan: &Plan) -> Result<Vec<String>, CommitError> {
    let Some(others) = inner.others.get() else { return Ok(Vec::new()) };
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

impl CommitError {
    /// This error, or that not everything could be taken back, if something could not.
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

async fn settle(editor: &dyn Editor, changes: &[FileChange]) -> Vec<Settled> {
    let answer = tokio::time::timeout(EDITOR_DEADLINE, editor.apply(changes)).await;
    let mut settled = answer.unwrap_or_default();
    settled.resize(changes.len(), Settled::Unknown);
    settled
}

/// One line for each change that could not be taken back.
async fn revert(editor: &dyn Editor, landed: &[FileChange]) -> Vec<String> {
    if landed.is_empty() {
        return Vec::new();
    }
    let answer = tokio::time::timeout(EDITOR_DEADLINE, editor.revert(landed)).await;
    let mut settled = answer.unwrap_or_default();
    settled.resize(landed.len(), Settled::Unknown);
    let failed = landed.iter().zip(&settled).filter(|(_, settled)| **settled != Settled::Landed);
    failed
        .map(|(change, settled)| {
            format!("{}: changed in the editor, and the way back: {}", change.path, say(settled))
        })
        .collect()
}

fn not_landed(changes: &[FileChange], settled: &[Settled], mut lost: Vec<String>) -> CommitError {
    let failed: Vec<_> =
        changes.iter().zip(settled).filter(|(_, settled)| **settled != Settled::Landed).collect();
    let line = |(change, settled): &(&FileChange, &Settled)| format!("{}: {}", change.path, say(settled));
    if lost.is_empty() && !failed.iter().any(|(_, settled)| **settled == Settled::Unknown) {
        let path = failed.first().map_or_else(|| changes[0].path.clone(), |(change, _)| change.path.clone());
        let detail = failed.iter().map(line).collect::<Vec<_>>().join("; ");
        return CommitError::NotApplied { path, detail };
    }
    lost.extend(failed.iter().map(line));
    CommitError::PartlyReverted { details: lost }
}

fn say(settled: &Settled) -> String {
    match settled {
        Settled::Landed => "it landed".to_owned(),
        Settled::Elsewhere { detail } => format!("it landed elsewhere: {detail}"),
        Settled::Absent { reason: Some(reason) } => format!("refused: {reason}"),
        Settled::Absent { reason: None } => "refused without a reason".to_owned(),
        Settled::Unknown => "it cannot be told whether it landed; look at the file".to_owned(),
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
