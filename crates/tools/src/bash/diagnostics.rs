//! Difference in diagnostics caused by a command, as running servers report it.
//!
//! The command has already changed the files, so servers get the previous texts first. The comparison starts
//! no server: a checkout may touch files of many languages.

use agent::ToolCx;
use workspace::{ChangeKind, CommandChanges, FileChange, Owner, Undo};

use crate::ToolContext;
use crate::verify::{Baseline, Verdict};

/// Compares the diagnostics before and after the changes in `wrote`.
pub(super) async fn compare(context: &ToolContext, wrote: &CommandChanges, cx: &ToolCx) -> Verdict {
    let (Some(commit), true) = (&wrote.commit, wrote.files.iter().any(|path| context.servers.is_warm(path)))
    else {
        return Verdict::nothing();
    };
    // The inverse plan has both texts of every file.
    let undo = match context.workspace.plan_undo(&Undo::Commit(commit.clone())) {
        Ok(undo) => undo,
        Err(error) => {
            tracing::debug!(%error, "the changes of a command are unknown");
            return Verdict::nothing();
        }
    };
    let changes = undo.plan.changes().iter().filter_map(|change| forward(context, change));
    let changes: Vec<FileChange> = changes.collect();
    Baseline::of_changes(context, "a command", &changes).compare(context, cx).await
}

/// Inverts the change `back`, which reverts the command's change.
///
/// `None` for a file open in the editor: the command did not change its buffer.
fn forward(context: &ToolContext, back: &FileChange) -> Option<FileChange> {
    let open = |document: workspace::Document| document.owner != Owner::Disk;
    if context.workspace.document(&back.path).is_ok_and(open) {
        return None;
    }
    let (path, before, after) = (back.path.clone(), back.after.clone(), back.before.clone());
    let (kind, edits) = match (&before, &after) {
        (Some(before), Some(after)) => (ChangeKind::Modified, text::diff_edits(before, after)),
        (None, Some(_)) => (ChangeKind::Created, Vec::new()),
        _ => (ChangeKind::Deleted, Vec::new()),
    };
    Some(FileChange { path, kind, before, after, edits, overwritten: None })
}
