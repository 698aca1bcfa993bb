//! What a command's changes broke or mended, as far as servers that run know.
//!
//! It is over when it is looked at, so servers are shown the texts before it, as they are when a server's
//! own command ran. No server is started for it: a checkout may touch every language there is.

use agent::ToolCx;
use workspace::{ChangeKind, CommandChanges, FileChange, Owner, Undo};

use crate::ToolContext;
use crate::verify::{Baseline, Verdict};

/// The difference that `wrote` made; nothing where no server was concerned.
pub(super) async fn by(context: &ToolContext, wrote: &CommandChanges, cx: &ToolCx) -> Verdict {
    let (Some(commit), true) = (&wrote.commit, wrote.files.iter().any(|path| context.servers.is_warm(path)))
    else {
        return Verdict::nothing();
    };
    // What takes it back knows both texts of every file.
    let undo = match context.workspace.plan_undo(&Undo::Commit(commit.clone())) {
        Ok(undo) => undo,
        Err(error) => {
            tracing::debug!(%error, "what a command changed is not known");
            return Verdict::nothing();
        }
    };
    let changes: Vec<FileChange> = undo.plan.changes().iter().filter_map(|it| forward(context, it)).collect();
    let changes: Vec<&FileChange> = changes.iter().collect();
    Baseline::of_changes(context, &changes, cx).await.compare(context, cx).await
}

/// The change that `back` takes back. Of a file that the editor has open its text counts, which the
/// command did not change.
fn forward(context: &ToolContext, back: &FileChange) -> Option<FileChange> {
    let open = |document: workspace::Document| matches!(document.owner, Owner::Editor { .. });
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
