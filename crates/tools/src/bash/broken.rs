//! What a command's changes broke or mended, as far as servers that run know.
//!
//! It is over when it is looked at, so servers are shown the texts before it, as they are when a server's
//! own command ran. No server is started for it: a checkout may touch every language there is.

use agent::ToolCx;
use workspace::{ChangeKind, FileChange, Owner, Undo, Wrote};

use crate::Kit;
use crate::verify::{Baseline, Verdict};

/// The difference that `wrote` made; nothing where no server was concerned.
pub(super) async fn by(kit: &Kit, wrote: &Wrote, cx: &ToolCx) -> Verdict {
    let (Some(commit), true) = (&wrote.commit, wrote.files.iter().any(|path| kit.servers.is_warm(path)))
    else {
        return Verdict::nothing();
    };
    // What takes it back knows both texts of every file.
    let undo = match kit.workspace.plan_undo(&Undo::Commit(commit.clone())) {
        Ok(undo) => undo,
        Err(error) => {
            tracing::debug!(%error, "what a command changed is not known");
            return Verdict::nothing();
        }
    };
    let changes: Vec<FileChange> = undo.plan.changes().iter().filter_map(|it| forward(kit, it)).collect();
    let changes: Vec<&FileChange> = changes.iter().collect();
    Baseline::of_changes(kit, &changes, cx).await.compare(kit, cx).await
}

/// The change that `back` takes back. Of a file that the editor has open its text counts, which the
/// command did not change.
fn forward(kit: &Kit, back: &FileChange) -> Option<FileChange> {
    let open = |document: workspace::Document| matches!(document.owner, Owner::Editor { .. });
    if kit.workspace.document(&back.path).is_ok_and(open) {
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
