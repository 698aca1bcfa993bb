//! The port to an editor that has files open. The surface that talks to the editor implements it.

use futures_util::future::BoxFuture;
use paths::AbsPath;
use text::{ChangeLog, TextEdit};
use tokio::sync::watch;

use crate::{Document, FileChange, RunId};

/// The editor's outcome of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// Exactly our edit, at its position.
    Applied,
    /// At another position, over other text, or only a part of it.
    Misplaced {
        /// Details, and if it could not be reverted, the reason.
        detail: String,
        /// The editor port reverted it.
        reverted: bool,
    },
    NotApplied {
        /// The editor's reason, if it gave one.
        reason: Option<String>,
    },
    /// The edit was not sent, because the text to replace changed: plan again.
    Stale,
    Unknown,
}

/// An editor with open documents, which owns their texts.
pub trait Editor: Send + Sync {
    /// Every open document that is a file.
    fn documents(&self) -> Vec<Document>;

    /// The open document at a canonical path.
    ///
    /// While an edit of it is in flight this blocks until the edit is reconciled, at most some seconds.
    fn document(&self, path: &AbsPath) -> Option<Document>;

    /// Rebases the edits of `change` from an earlier text to the current one.
    ///
    /// `None` if later changes touch them, or the changes in between are not known.
    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let _ = change;
        None
    }

    /// The edits from `since`, an observed text of an open document, to its text now.
    ///
    /// `None` if not all are known.
    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let _ = (path, since);
        None
    }

    /// A counter of edits of open documents; `None` if the editor has none.
    fn change_counter(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Applies the changes of a run in open documents; one outcome each, in order.
    ///
    /// The editor also moves or removes an open document's file: the commit does not touch it. Has 60 s to
    /// answer.
    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>>;

    /// Reverts changes that had landed; `Landed` again means that it is as before.
    fn revert<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>>;
}
