//! The editor as a place where edits land: buffers that follow its changes, edits mapped onto what
//! was typed since, and `workspace/applyEdit` with proof that each edit landed.
//!
//! Invariants: the editor's text is the truth for an open file, and an edit counts as applied only
//! when the editor's own change notifications show it.

pub mod apply_edit;
pub mod buffers;
mod edit_reconciliation;
pub mod editors;
pub mod filtered_editor;
mod rebase;
#[cfg(test)]
mod tests;
