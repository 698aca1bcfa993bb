//! The tools that read and change files, and the pipeline that applies changes.

pub(crate) mod change;
mod checkpoint;
mod edit;
mod image;
pub(crate) mod outline;
mod read;
mod undo;
mod write;

pub(crate) use checkpoint::Checkpoint;
pub(crate) use edit::Edit;
pub use image::{images_in_prompt, pasted_image};
pub(crate) use read::Read;
pub(crate) use undo::UndoTool;
pub use undo::revert;
pub(crate) use write::Write;
