//! The edit format as values: patches, tags, and the view in which lines are shown.

pub(crate) mod note;
pub(crate) mod patch;
pub(crate) mod tag;
pub(crate) mod view;
