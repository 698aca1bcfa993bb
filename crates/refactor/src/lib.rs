//! Refactorings of language servers, completed across the workspace.
//!
//! A rename also covers stub files and reports overrides that keep their name; a move also updates `#include`
//! lines and reports paths that still name the old place; callers include those of other packages. This crate
//! writes no files: its result is a [`workspace::WorkspaceEdit`] with typed [`Note`]s.

mod call_syntax;
mod callers;
mod dropped_references;
mod error;
mod file_move;
mod includes;
mod notes;
mod overrides;
mod rename;
mod shorthand;
mod stale_paths;
mod stub_files;

pub use callers::{Callers, callers};
pub use error::{RefactorError, StubConflict};
pub use file_move::{FileMove, move_file};
pub use notes::{Line, Note, Redirected};
pub use overrides::{Cut, Method, OverrideSet, Reason, Unresolved};
pub use rename::{Declaration, Mentions, MentionsLeft, Rename, RenameRequest, rename};

use paths::AbsPath;
use workspace::{Operation, WorkspaceEdit};

/// The files that an edit changes, with their text edits.
fn edited(edit: &WorkspaceEdit) -> impl Iterator<Item = (&AbsPath, &Vec<text::TextEdit>)> {
    edit.operations.iter().filter_map(|operation| match operation {
        Operation::Edit { path, edits, .. } => Some((path, edits)),
        _ => None,
    })
}

fn edits(edit: &WorkspaceEdit, path: &AbsPath) -> bool {
    edited(edit).any(|(edited, _)| edited == path)
}
