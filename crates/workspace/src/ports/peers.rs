//! The port to other Pilcrow processes, whose editors may have files open.
//!
//! A commit must not write such files. An upper layer implements the port.

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

/// Access to other processes that hold open documents.
pub trait Peers: Send + Sync {
    /// Finds out which of `paths` others hold; answers within some seconds in any case.
    fn holds<'a>(&'a self, paths: &'a [AbsPath]) -> BoxFuture<'a, Holds>;
}
