//! Queries about a tree: constructs, comments, declarations, outlines.

pub(crate) mod block;
mod comment;
mod declarations;
mod names;
mod outline;
pub(crate) mod pattern;
pub(crate) mod role;
