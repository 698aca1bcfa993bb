//! File operations of a commit after its text edits, and reverts of commits.

use std::sync::Arc;
use std::time::Duration;

use paths::AbsPath;
use process::deadlines;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use workspace::{ApplyOutcome, ChangeKind, ContentHash, FileChange, RunId};

use super::in_flight::{BaseText, Reply, RequestedEdits, not_applied_reason};
use super::{EditorPort, REVERT_LABEL, not_sent, stopped};
use crate::buffers::EditorBuffers;
use crate::edit_reconciliation::ReplyKind;

/// Interval at which the disk is checked for the result of a file operation.
const DISK_POLL: Duration = Duration::from_millis(50);

impl EditorPort {
    /// Sends one file operation to the editor and checks its result on the disk.
    async fn apply_operation(
        &self,
        label: &str,
        operation: &Operation<'_>,
        stop: &CancellationToken,
    ) -> ApplyOutcome {
        let (kind, edit) = operation.to_json(&self.documents);
        if !self.client.resource_operations.iter().any(|known| known == kind) {
            let reason = format!("the editor cannot {kind} files; close the file in the editor first");
            return ApplyOutcome::NotApplied { reason: Some(reason) };
        }
        if stop.is_cancelled() {
            return stopped();
        }
        let params = self.request(label, &[edit]);
        let never = CancellationToken::new();
        let editor = &self.client.editor;
        let result = self.peer.request("workspace/applyEdit", &params, editor.reply(), &never).await;
        let reply = Reply::read(result);
        let mut ends = Instant::now() + editor.after_reply(reply.kind == ReplyKind::Applied);
        if stop.is_cancelled() {
            ends = ends.min(Instant::now() + deadlines::EDIT_IN_FLIGHT);
        }
        let mut changes = self.documents.changes();
        loop {
            changes.borrow_and_update();
            if operation.is_done(&self.documents) {
                return ApplyOutcome::Applied;
            }
            tokio::select! {
                result = changes.changed() => if result.is_err() { break },
                // Changes of a closed file come without a notification.
                () = sleep(DISK_POLL) => {}
            }
            if Instant::now() >= ends {
                break;
            }
        }
        match reply.kind {
            ReplyKind::None => ApplyOutcome::Unknown,
            _ => ApplyOutcome::NotApplied { reason: Some(not_applied_reason(&reply)) },
        }
    }

    pub(super) async fn apply_changes(
        &self,
        run: &RunId,
        changes: &[FileChange],
        stop: &CancellationToken,
    ) -> Vec<ApplyOutcome> {
        let requested: Vec<(usize, RequestedEdits)> = changes
            .iter()
            .enumerate()
            .filter(|(_, change)| !change.edits.is_empty())
            .filter_map(|(index, change)| {
                let path = match &change.kind {
                    ChangeKind::Renamed { from } => from.clone(),
                    ChangeKind::Modified => change.path.clone(),
                    ChangeKind::Created | ChangeKind::Deleted => return None,
                };
                let base_text = BaseText::Text(change.before.clone()?);
                Some((index, RequestedEdits { path, edits: change.edits.clone(), base_text }))
            })
            .collect();
        let (indexes, requested): (Vec<usize>, Vec<RequestedEdits>) = requested.into_iter().unzip();
        // The edits of this commit cannot be distinguished from late ones.
        requested.iter().for_each(|requested| self.late.end(&requested.path));
        let texts = self.apply_edits(run, &requested, stop).await;
        let mut outcomes: Vec<Option<ApplyOutcome>> = vec![None; changes.len()];
        for (index, text) in indexes.into_iter().zip(texts) {
            outcomes[index] = Some(text);
        }
        // Deletions come last, because they are the hardest to revert.
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by_key(|index| changes[*index].kind == ChangeKind::Deleted);
        for index in order {
            let change = &changes[index];
            let operation = match &change.kind {
                ChangeKind::Modified => {
                    // A change without text edits is done.
                    outcomes[index].get_or_insert(ApplyOutcome::Applied);
                    continue;
                }
                ChangeKind::Created => Operation::Create { path: &change.path },
                ChangeKind::Deleted => Operation::Delete { path: &change.path },
                ChangeKind::Renamed { from } => Operation::Rename { from, to: &change.path },
            };
            if outcomes.iter().flatten().any(|outcome| *outcome != ApplyOutcome::Applied) {
                let text_applied = outcomes[index] == Some(ApplyOutcome::Applied);
                if text_applied && let ChangeKind::Renamed { from } = &change.kind {
                    outcomes[index] = Some(self.revert_text_of_failed_move(from, change).await);
                }
                outcomes[index].get_or_insert_with(not_sent);
                continue;
            }
            let has_text = outcomes[index].is_some();
            let mut outcome = self.apply_operation("pilcrow", &operation, stop).await;
            if has_text
                && matches!(outcome, ApplyOutcome::NotApplied { .. })
                && let ChangeKind::Renamed { from } = &change.kind
                && let ApplyOutcome::Misplaced { detail, .. } =
                    self.revert_text_of_failed_move(from, change).await
            {
                outcome = ApplyOutcome::Misplaced { detail, reverted: false };
            }
            outcomes[index] = Some(outcome);
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(ApplyOutcome::Unknown)).collect()
    }

    /// Reverts the text edits of a file whose move failed, even if the run is stopped.
    async fn revert_text_of_failed_move(&self, path: &AbsPath, change: &FileChange) -> ApplyOutcome {
        match self.revert_text(path, change, &CancellationToken::new()).await {
            ApplyOutcome::Applied => not_sent(),
            _ => ApplyOutcome::Misplaced {
                detail: "its text was changed, but the move failed, and the text could not be reverted"
                    .to_owned(),
                reverted: false,
            },
        }
    }

    async fn revert_text(
        &self,
        path: &AbsPath,
        change: &FileChange,
        stop: &CancellationToken,
    ) -> ApplyOutcome {
        let planned_on = change.before.as_ref().map(|text| ContentHash::of(text.as_bytes()));
        let applied = planned_on.and_then(|hash| self.applied.lock().remove(&(path.clone(), hash)));
        let Some(applied) = applied else {
            return ApplyOutcome::NotApplied { reason: Some("no applied edit of it is known".to_owned()) };
        };
        let base_text = BaseText::Revision(applied.revision, applied.text);
        let requested = RequestedEdits { path: path.clone(), edits: applied.inverse, base_text };
        let outcomes = self.apply_in_one_request(None, std::slice::from_ref(&requested), stop).await;
        match outcomes.into_iter().next() {
            Some(ApplyOutcome::Stale) => {
                ApplyOutcome::NotApplied { reason: Some("the user changed it since".to_owned()) }
            }
            other => other.unwrap_or(ApplyOutcome::Unknown),
        }
    }

    pub(super) async fn revert_changes(
        &self,
        changes: &[FileChange],
        stop: &CancellationToken,
    ) -> Vec<ApplyOutcome> {
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(match &change.kind {
                ChangeKind::Modified if change.edits.is_empty() => ApplyOutcome::Applied,
                ChangeKind::Modified => self.revert_text(&change.path, change, stop).await,
                ChangeKind::Created => {
                    self.apply_operation(REVERT_LABEL, &Operation::Delete { path: &change.path }, stop).await
                }
                ChangeKind::Renamed { from } => {
                    let back = Operation::Rename { from: &change.path, to: from };
                    match self.apply_operation(REVERT_LABEL, &back, stop).await {
                        ApplyOutcome::Applied => self.restore_moved_text(from, change, stop).await,
                        other => other,
                    }
                }
                ChangeKind::Deleted => {
                    let back = Operation::Create { path: &change.path };
                    match self.apply_operation(REVERT_LABEL, &back, stop).await {
                        ApplyOutcome::Applied => self.restore_deleted_text(change, stop).await,
                        other => other,
                    }
                }
            });
        }
        outcomes
    }

    /// Restores the text of a file that was moved back.
    async fn restore_moved_text(
        &self,
        path: &AbsPath,
        change: &FileChange,
        stop: &CancellationToken,
    ) -> ApplyOutcome {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return ApplyOutcome::Applied;
        };
        if change.edits.is_empty() || before == after {
            return ApplyOutcome::Applied;
        }
        let edits = text::invert(before, &change.edits).unwrap_or_default();
        let base_text = BaseText::Text(Arc::clone(after));
        let requested = RequestedEdits { path: path.clone(), edits, base_text };
        let outcomes = self.apply_in_one_request(None, std::slice::from_ref(&requested), stop).await;
        outcomes.into_iter().next().unwrap_or(ApplyOutcome::Unknown)
    }

    /// Restores the text of a deleted file that was created again; the editor opens it.
    async fn restore_deleted_text(&self, change: &FileChange, stop: &CancellationToken) -> ApplyOutcome {
        let before = change.before.as_deref().unwrap_or_default();
        let start = json!({ "line": 0, "character": 0 });
        let edit = json!({
            "textDocument": { "uri": self.documents.uri_of(&change.path), "version": null },
            "edits": [{ "range": { "start": start, "end": start }, "newText": before }],
        });
        let params = self.request(REVERT_LABEL, &[edit]);
        let never = CancellationToken::new();
        let editor = &self.client.editor;
        let mut changes = self.documents.changes();
        let reply = self.peer.request("workspace/applyEdit", &params, editor.reply(), &never).await;
        let reply = Reply::read(reply);
        let ends = Instant::now() + editor.after_reply(reply.kind == ReplyKind::Applied);
        loop {
            changes.borrow_and_update();
            if self.documents.by_path(&change.path).is_some_and(|open| *open.text == *before) {
                return ApplyOutcome::Applied;
            }
            tokio::select! {
                result = changes.changed() => if result.is_err() { return ApplyOutcome::Unknown },
                () = sleep_until(ends) => return ApplyOutcome::NotApplied { reason: Some(not_applied_reason(&reply)) },
                () = stop.cancelled() => return ApplyOutcome::Unknown,
            }
        }
    }
}

enum Operation<'a> {
    Create { path: &'a AbsPath },
    Rename { from: &'a AbsPath, to: &'a AbsPath },
    Delete { path: &'a AbsPath },
}

impl Operation<'_> {
    fn to_json(&self, documents: &EditorBuffers) -> (&'static str, Value) {
        match self {
            Self::Create { path } => ("create", json!({ "kind": "create", "uri": documents.uri_of(path) })),
            Self::Rename { from, to } => {
                let uris = (documents.uri_of(from), documents.uri_of(to));
                ("rename", json!({ "kind": "rename", "oldUri": uris.0, "newUri": uris.1 }))
            }
            Self::Delete { path } => ("delete", json!({ "kind": "delete", "uri": documents.uri_of(path) })),
        }
    }

    fn is_done(&self, documents: &EditorBuffers) -> bool {
        let exists = |path: &AbsPath| path.as_path().symlink_metadata().is_ok();
        match self {
            Self::Create { path } => exists(path) || documents.by_path(path).is_some(),
            Self::Delete { path } => !exists(path) && documents.by_path(path).is_none(),
            Self::Rename { from, to } => {
                let arrived = exists(to) || documents.by_path(to).is_some();
                arrived && !exists(from) && documents.by_path(from).is_none()
            }
        }
    }
}
