//! The port to an editor that has files open. Implemented above, by the surface that talks to it.

use futures_util::future::BoxFuture;
use paths::AbsPath;
use text::{ChangeLog, TextEdit};
use tokio::sync::watch;

use crate::{Document, FileChange, RunId};

/// The editor's outcome of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Exactly our edit, where it was meant.
    Landed,
    /// At another place, over other text, or only a part of it.
    Elsewhere {
        /// Details; if it could not be reverted, why.
        detail: String,
        /// The editor port took it back.
        reverted: bool,
    },
    Absent {
        /// The editor's reason, if it gave one.
        reason: Option<String>,
    },
    /// Not sent, since what it would replace changed after it was planned: plan it again.
    Moved,
    Unknown,
}

/// An editor with open documents: the truth for each of them.
pub trait Editor: Send + Sync {
    /// Every open document that is a file.
    fn documents(&self) -> Vec<Document>;

    /// The open document at a canonical path. While an edit of it is in flight this waits until that
    /// is settled, at most some seconds: it blocks.
    fn document(&self, path: &AbsPath) -> Option<Document>;

    /// The edits of `change`, made for an earlier text of its document, as edits of the text as it is
    /// now; `None` when what was changed since touches them, or the way from there is not known.
    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let _ = change;
        None
    }

    /// The edits that led from `since`, a text that the open document at `path` was seen to have, to
    /// its text now; `None` when they are not all known.
    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let _ = (path, since);
        None
    }

    /// A counter that changes with every edit of an open document; `None` where
    /// the editor has none.
    fn moves(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Makes the changes of a run in open documents and says for each, in the same order, what became
    /// of it.
    /// An open document that moves or goes is the editor's to move or remove, its file included: the
    /// commit does not touch it. Has 60 s to answer.
    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>>;

    /// Takes changes back that had landed; the same form of answer, `Landed` when it is as before.
    fn revert<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>>;
}
