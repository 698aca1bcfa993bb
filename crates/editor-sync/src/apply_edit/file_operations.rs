//! File operations on their way, after the texts that go with them, and how all of a commit is taken back.

use std::sync::Arc;
use std::time::Duration;

use paths::AbsPath;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use workspace::{ChangeKind, ContentHash, FileChange, RunId, Settled};

use super::in_flight::{MadeFor, Reply, Wanted, absence};
use super::{BACK, EditorPort, HASTE, not_sent, stopped};
use crate::buffers::OpenDocuments;
use crate::edit_reconciliation::Answer;

/// How often the disk is looked at for a file operation.
const LOOK: Duration = Duration::from_millis(50);

impl EditorPort {
    /// File operations go one by one, after the text edits.
    async fn operate(&self, label: &str, operation: &Operation<'_>, haste: &CancellationToken) -> Settled {
        let (kind, edit) = operation.to_json(&self.documents);
        if !self.client.resource_operations.iter().any(|known| known == kind) {
            let reason = format!("this editor cannot {kind} files; close the file there first");
            return Settled::Absent { reason: Some(reason) };
        }
        if haste.is_cancelled() {
            return stopped();
        }
        let params = self.request(label, &[edit]);
        let never = CancellationToken::new();
        let editor = &self.client.editor;
        let result = self.peer.request("workspace/applyEdit", &params, editor.reply(), &never).await;
        let reply = Reply::read(result);
        let mut ends = Instant::now() + editor.after_reply(reply.answer == Answer::Applied);
        if haste.is_cancelled() {
            ends = ends.min(Instant::now() + HASTE);
        }
        let mut changes = self.documents.changes();
        loop {
            changes.borrow_and_update();
            if operation.is_done(&self.documents) {
                return Settled::Landed;
            }
            tokio::select! {
                result = changes.changed() => if result.is_err() { break },
                // A file that nobody has open any more comes and goes without a notification.
                () = sleep(LOOK) => {}
            }
            if Instant::now() >= ends {
                break;
            }
        }
        match reply.answer {
            Answer::None => Settled::Unknown,
            _ => Settled::Absent { reason: Some(absence(&reply)) },
        }
    }

    pub(super) async fn carry_out(
        &self,
        run: &RunId,
        changes: &[FileChange],
        haste: &CancellationToken,
    ) -> Vec<Settled> {
        let wanted: Vec<(usize, Wanted)> = changes
            .iter()
            .enumerate()
            .filter(|(_, change)| !change.edits.is_empty())
            .filter_map(|(index, change)| {
                let path = match &change.kind {
                    ChangeKind::Renamed { from } => from.clone(),
                    ChangeKind::Modified => change.path.clone(),
                    ChangeKind::Created | ChangeKind::Deleted => return None,
                };
                let made_for = MadeFor::Text(change.before.clone()?);
                Some((index, Wanted { path, edits: change.edits.clone(), made_for }))
            })
            .collect();
        let (indexes, wanted): (Vec<usize>, Vec<Wanted>) = wanted.into_iter().unzip();
        // What comes now cannot be told from what was looked out for.
        wanted.iter().for_each(|wanted| self.outlook.end(&wanted.path));
        let texts = self.make(run, &wanted, haste).await;
        let mut settled: Vec<Option<Settled>> = vec![None; changes.len()];
        for (index, text) in indexes.into_iter().zip(texts) {
            settled[index] = Some(text);
        }
        // What cannot be brought back comes last.
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by_key(|index| changes[*index].kind == ChangeKind::Deleted);
        for index in order {
            let change = &changes[index];
            let operation = match &change.kind {
                ChangeKind::Modified => {
                    // Nothing to change in the text: as it should be.
                    settled[index].get_or_insert(Settled::Landed);
                    continue;
                }
                ChangeKind::Created => Operation::Create { path: &change.path },
                ChangeKind::Deleted => Operation::Delete { path: &change.path },
                ChangeKind::Renamed { from } => Operation::Rename { from, to: &change.path },
            };
            if settled.iter().flatten().any(|settled| *settled != Settled::Landed) {
                let text_landed = settled[index] == Some(Settled::Landed);
                if text_landed && let ChangeKind::Renamed { from } = &change.kind {
                    settled[index] = Some(self.unmake(from, change).await);
                }
                settled[index].get_or_insert_with(not_sent);
                continue;
            }
            let text_made = settled[index].is_some();
            let mut outcome = self.operate("pilcrow", &operation, haste).await;
            if text_made
                && matches!(outcome, Settled::Absent { .. })
                && let ChangeKind::Renamed { from } = &change.kind
                && let Settled::Elsewhere { detail, .. } = self.unmake(from, change).await
            {
                outcome = Settled::Elsewhere { detail, reverted: false };
            }
            settled[index] = Some(outcome);
        }
        settled.into_iter().map(|settled| settled.unwrap_or(Settled::Unknown)).collect()
    }

    /// Takes the text edits of a file back whose move did not come about, stopped or not.
    async fn unmake(&self, path: &AbsPath, change: &FileChange) -> Settled {
        match self.revert_text(path, change, &CancellationToken::new()).await {
            Settled::Landed => not_sent(),
            _ => Settled::Elsewhere {
                detail: "its text was changed, but it was not moved, and the text could not be taken back"
                    .to_owned(),
                reverted: false,
            },
        }
    }

    async fn revert_text(&self, path: &AbsPath, change: &FileChange, haste: &CancellationToken) -> Settled {
        let planned_on = change.before.as_ref().map(|text| ContentHash::of(text.as_bytes()));
        let landed = planned_on.and_then(|hash| self.landed.lock().remove(&(path.clone(), hash)));
        let Some(landed) = landed else {
            return Settled::Absent { reason: Some("nothing is known to have landed there".to_owned()) };
        };
        let made_for = MadeFor::Moment(landed.moment, landed.text);
        let wanted = Wanted { path: path.clone(), edits: landed.inverse, made_for };
        let back = self.make_together(None, std::slice::from_ref(&wanted), haste).await;
        match back.into_iter().next() {
            Some(Settled::Moved) => {
                Settled::Absent { reason: Some("it was changed there meanwhile".to_owned()) }
            }
            other => other.unwrap_or(Settled::Unknown),
        }
    }

    pub(super) async fn take_all_back(
        &self,
        changes: &[FileChange],
        haste: &CancellationToken,
    ) -> Vec<Settled> {
        let mut settled = Vec::with_capacity(changes.len());
        for change in changes {
            settled.push(match &change.kind {
                ChangeKind::Modified if change.edits.is_empty() => Settled::Landed,
                ChangeKind::Modified => self.revert_text(&change.path, change, haste).await,
                ChangeKind::Created => {
                    self.operate(BACK, &Operation::Delete { path: &change.path }, haste).await
                }
                ChangeKind::Renamed { from } => {
                    let back = Operation::Rename { from: &change.path, to: from };
                    match self.operate(BACK, &back, haste).await {
                        Settled::Landed => self.restore(from, change, haste).await,
                        other => other,
                    }
                }
                ChangeKind::Deleted => {
                    let back = Operation::Create { path: &change.path };
                    match self.operate(BACK, &back, haste).await {
                        Settled::Landed => self.refill(change, haste).await,
                        other => other,
                    }
                }
            });
        }
        settled
    }

    /// The text of a file that has moved back.
    async fn restore(&self, path: &AbsPath, change: &FileChange, haste: &CancellationToken) -> Settled {
        let (Some(before), Some(after)) = (&change.before, &change.after) else { return Settled::Landed };
        if change.edits.is_empty() || before == after {
            return Settled::Landed;
        }
        let edits = text::invert(before, &change.edits).unwrap_or_default();
        let made_for = MadeFor::Text(Arc::clone(after));
        let wanted = Wanted { path: path.clone(), edits, made_for };
        let back = self.make_together(None, std::slice::from_ref(&wanted), haste).await;
        back.into_iter().next().unwrap_or(Settled::Unknown)
    }

    /// The text of a file that was deleted, put into an empty one; the editor opens it for that.
    async fn refill(&self, change: &FileChange, haste: &CancellationToken) -> Settled {
        let before = change.before.as_deref().unwrap_or_default();
        let start = json!({ "line": 0, "character": 0 });
        let edit = json!({
            "textDocument": { "uri": self.documents.uri_of(&change.path), "version": null },
            "edits": [{ "range": { "start": start, "end": start }, "newText": before }],
        });
        let params = self.request(BACK, &[edit]);
        let never = CancellationToken::new();
        let editor = &self.client.editor;
        let mut changes = self.documents.changes();
        let reply = self.peer.request("workspace/applyEdit", &params, editor.reply(), &never).await;
        let reply = Reply::read(reply);
        let ends = Instant::now() + editor.after_reply(reply.answer == Answer::Applied);
        loop {
            changes.borrow_and_update();
            if self.documents.at(&change.path).is_some_and(|open| *open.text == *before) {
                return Settled::Landed;
            }
            tokio::select! {
                result = changes.changed() => if result.is_err() { return Settled::Unknown },
                () = sleep_until(ends) => return Settled::Absent { reason: Some(absence(&reply)) },
                () = haste.cancelled() => return Settled::Unknown,
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
    fn to_json(&self, documents: &OpenDocuments) -> (&'static str, Value) {
        match self {
            Self::Create { path } => ("create", json!({ "kind": "create", "uri": documents.uri_of(path) })),
            Self::Rename { from, to } => {
                let uris = (documents.uri_of(from), documents.uri_of(to));
                ("rename", json!({ "kind": "rename", "oldUri": uris.0, "newUri": uris.1 }))
            }
            Self::Delete { path } => ("delete", json!({ "kind": "delete", "uri": documents.uri_of(path) })),
        }
    }

    fn is_done(&self, documents: &OpenDocuments) -> bool {
        let is_there = |path: &AbsPath| path.as_path().symlink_metadata().is_ok();
        match self {
            Self::Create { path } => is_there(path) || documents.at(path).is_some(),
            Self::Delete { path } => !is_there(path) && documents.at(path).is_none(),
            Self::Rename { from, to } => {
                let came = is_there(to) || documents.at(to).is_some();
                came && !is_there(from) && documents.at(from).is_none()
            }
        }
    }
}
