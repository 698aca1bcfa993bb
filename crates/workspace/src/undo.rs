//! Taking back what was committed, mapped onto the text as it is now.

use crate::{AbsPath, CommitId, ErrorCode, Plan, PlanError, RunId, StateError};

/// What to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undo {
    /// The last run that changed something and is not taken back.
    LastRun,
    /// All commits of one run.
    Run(RunId),
    /// One commit.
    Commit(CommitId),
}

/// A planned undo or redo.
#[derive(Debug)]
pub struct UndoPlan {
    /// What will change.
    pub plan: Plan,
    /// The commits taken back.
    pub undoes: Vec<CommitId>,
    /// What cannot be mapped and is left.
    pub skipped: Vec<Skipped>,
    pub(crate) redo: bool,
}

/// Something that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub path: AbsPath,
    /// Why, with the lines concerned.
    pub reason: String,
}

/// Why nothing can be taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The history holds nothing of the kind.
    #[error("there is nothing to {what}")]
    Nothing {
        /// `undo` or `redo`.
        what: &'static str,
    },
    /// No such commit or run.
    #[error("{id} is not in the history; `pilcrow undo --list` shows it")]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// Already taken back.
    #[error("{id} is already undone; `pilcrow redo` takes that back")]
    AlreadyUndone {
        /// What was asked for.
        id: String,
    },
    /// It does not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The journal failed.
    #[error(transparent)]
    State(#[from] StateError),
}

impl UndoError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Nothing { .. } | Self::Unknown { .. } => ErrorCode::NotFound,
            Self::AlreadyUndone { .. } => ErrorCode::WrongState,
            Self::Plan(error) => error.code(),
            Self::State(error) => error.code(),
        }
    }
}

impl UndoPlan {
    /// Whether this is a redo.
    pub fn is_redo(&self) -> bool {
        self.redo
    }
}
