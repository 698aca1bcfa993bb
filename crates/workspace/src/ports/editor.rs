//! The port to an editor that has files open.
//!
//! The surface that talks to the editor implements it.

use futures_util::future::BoxFuture;
use paths::AbsPath;
use text::{ChangeLog, TextEdit};
use tokio::sync::watch;

use crate::{Document, FileChange, RunId};

/// The outcome of one change in the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The editor applied exactly our edit, at its position.
    Applied,
    /// The editor applied another edit.
    ///
    /// It is at another position, over other text, or only a part of ours.
    Misplaced {
        /// Details, and if it could not be reverted, the reason.
        detail: String,
        /// Whether the editor port reverted it.
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
    /// Lists every open document that is a file.
    fn documents(&self) -> Vec<Document>;

    /// Returns the open document at a canonical path.
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

    /// Returns the edits from `since`, an observed text, to the document's text now.
    ///
    /// `None` if not all are known.
    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let _ = (path, since);
        None
    }

    /// Returns a counter of edits of open documents; `None` if the editor has none.
    fn change_counter(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Applies the changes of a run in open documents; one outcome each, in order.
    ///
    /// The editor also moves or removes an open document's file: the commit does not touch it. Has 60 s to
    /// answer.
    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>>;

    /// Reverts applied changes; `Applied` means that the document is as before.
    fn revert<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>>;
}
