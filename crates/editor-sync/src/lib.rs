//! Edits in open documents of an editor.
//!
//! Holds its buffers, maps edits onto later typing, and applies them by `workspace/applyEdit`
//! with proof that each edit was applied.
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
