//! The port to other processes of ours, whose editors may have files open that we are to write.
//! Implemented above, by what talks to them.

use futures_util::future::BoxFuture;
use paths::AbsPath;

/// A file that another process holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub path: AbsPath,
    /// The holder and the remedy, as the end of "PATH cannot be written: ".
    pub reason: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds {
    /// Files that must not be written, in any order.
    pub held: Vec<Hold>,
    /// Peers that did not answer, as notes of the commit.
    pub notes: Vec<String>,
}

/// Other processes that hold open documents.
pub trait Peers: Send + Sync {
    /// Which of `paths` others hold. Answers within some seconds, whatever the others do.
    fn holds<'a>(&'a self, paths: &'a [AbsPath]) -> BoxFuture<'a, Holds>;
}
