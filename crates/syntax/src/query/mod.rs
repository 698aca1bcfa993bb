//! Queries about a tree: constructs, comments, declarations, outlines.

pub(crate) mod block;
mod comment;
mod declarations;
mod names;
pub(crate) mod outline;
pub(crate) mod pattern;
pub(crate) mod role;
