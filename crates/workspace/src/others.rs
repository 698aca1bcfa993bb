//! The port to other processes of ours, whose editors may have files open that we are to write.
//! Implemented above, by what talks to them.

use futures_util::future::BoxFuture;

use crate::AbsPath;

/// A file that somebody else holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Canonical.
    pub path: AbsPath,
    /// Who holds it and what to do, as the end of "PATH cannot be written: ".
    pub reason: String,
}

/// What others said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holds {
    /// What must not be written, in any order.
    pub held: Vec<Hold>,
    /// What could not be found out; told with the commit.
    pub notes: Vec<String>,
}

/// Other processes that hold open documents.
pub trait Others: Send + Sync {
    /// Which of `paths` others hold. Answers within some seconds, whatever the others do.
    fn holds<'a>(&'a self, paths: &'a [AbsPath]) -> BoxFuture<'a, Holds>;
}
