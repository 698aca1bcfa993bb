//! The edit format as values: patches, tags, and the view that lines are shown in.

pub(crate) mod note;
pub(crate) mod patch;
pub(crate) mod tag;
pub(crate) mod view;
