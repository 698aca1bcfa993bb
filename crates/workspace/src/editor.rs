//! The port to an editor that has files open. Implemented above, by the surface that talks to it.

use futures_util::future::BoxFuture;

use crate::{AbsPath, Document, FileChange};

/// What an editor did with one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Exactly our edit, where it was meant.
    Landed,
    /// At another place or over other text; the editor port took it back or says that it could not.
    Elsewhere {
        /// What is known.
        detail: String,
    },
    /// Not at all.
    Absent {
        /// The editor's reason, if it gave one.
        reason: Option<String>,
    },
    /// Cannot be told.
    Unknown,
}

/// An editor with open documents: the truth for each of them.
pub trait Editor: Send + Sync {
    /// Every open document.
    fn documents(&self) -> Vec<Document>;

    /// The open document at a canonical path.
    fn document(&self, path: &AbsPath) -> Option<Document>;

    /// Makes the changes in open documents and says for each, in the same order, what became of it.
    /// An open document that moves or goes is the editor's to move or remove, its file included: the
    /// commit does not touch it. Has 60 s to answer.
    fn apply<'a>(&'a self, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>>;

    /// Takes changes back that had landed; the same form of answer, `Landed` when it is as before.
    fn revert<'a>(&'a self, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>>;
}
