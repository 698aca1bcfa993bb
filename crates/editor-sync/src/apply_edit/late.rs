//! Edits without a reply in time.
//!
//! The editor may still apply them long after the run ended.
//!
//! Invariants: the port reverts a late edit that the editor confirms. An edit without a reply may be
//! the user's own, so it stays, and the port reports it with what undo needs. The watch on a document
//! ends when another edit of it begins, because the two cannot be distinguished.

use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use paths::AbsPath;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::InFlight;
use workspace::RunId;

use super::in_flight::{InFlightEdit, Reply};
use super::{DocumentLocks, EditorPort, LATE_REPLY};
use crate::edit_reconciliation::{EditOutcome, ReplyKind};

/// Maximum time to watch for a late edit.
const LATE_WATCH: Duration = Duration::from_secs(300);
/// Maximum number of remembered edits without a known outcome.
const MAX_UNRESOLVED: usize = 64;

/// An edit that appeared after its run ended with the outcome unknown.
#[derive(Debug, Clone)]
pub struct LateEdit {
    pub run: RunId,
    pub path: AbsPath,
    /// The editor's text right before the edit.
    pub before: String,
    /// The editor's text right after the edit.
    pub after: String,
    /// The reason why it was not reverted.
    pub not_reverted: Option<String>,
}

type OnLateEdit = dyn Fn(LateEdit) + Send + Sync;

/// The edits without a known outcome.
#[derive(Default)]
pub(super) struct LateEdits {
    watches: Mutex<HashMap<AbsPath, CancellationToken>>,
    unresolved: Mutex<VecDeque<(RunId, AbsPath)>>,
    callback: OnceLock<Box<OnLateEdit>>,
}

impl LateEdits {
    /// Ends the watch for late edits of a document.
    pub fn end(&self, path: &AbsPath) {
        if let Some(watch) = self.watches.lock().remove(path) {
            watch.cancel();
        }
    }

    fn begin(&self, run: &RunId, path: &AbsPath) -> CancellationToken {
        let mut unresolved = self.unresolved.lock();
        unresolved.push_back((run.clone(), path.clone()));
        if unresolved.len() > MAX_UNRESOLVED {
            unresolved.pop_front();
        }
        let token = CancellationToken::new();
        if let Some(older) = self.watches.lock().insert(path.clone(), token.clone()) {
            older.cancel();
        }
        token
    }
}

struct WatchedEdit {
    flight: InFlightEdit,
    /// Fires when the watch ends.
    ended: CancellationToken,
}

impl InFlightEdit {
    /// Whether the editor may have applied it, or may apply it later.
    pub(super) fn may_be_late(&self, reply: ReplyKind) -> bool {
        reply == ReplyKind::None
            && self.outcome.is_none()
            && self.reconciler.decide(ReplyKind::None) == EditOutcome::Unknown
    }
}

impl EditorPort {
    /// Sets the callback for late edits. Only the first call has an effect.
    pub fn on_late(&self, callback: impl Fn(LateEdit) + Send + Sync + 'static) {
        if self.late.callback.set(Box::new(callback)).is_err() {
            tracing::debug!("a callback for late edits is set already");
        }
    }

    /// The documents of a run with edits of unknown outcome. Returns each only once.
    pub fn take_unresolved(&self, run: &RunId) -> Vec<AbsPath> {
        let mut all = self.late.unresolved.lock();
        let (own, others): (VecDeque<_>, _) =
            std::mem::take(&mut *all).into_iter().partition(|(owner, _)| owner == run);
        *all = others;
        own.into_iter().map(|(_, path)| path).collect()
    }

    /// Watches for edits that the editor may still apply.
    pub(super) fn watch_late(&self, run: &RunId, flights: Vec<InFlightEdit>, mut request: InFlight) {
        request.give_up();
        let watch = |flight: InFlightEdit| WatchedEdit { ended: self.late.begin(run, &flight.path), flight };
        let watched: Vec<WatchedEdit> = flights.into_iter().map(watch).collect();
        let Some(this) = self.this.upgrade() else { return };
        let run = run.clone();
        self.tracker.spawn(async move { this.watch(&run, watched, request).await });
    }

    async fn watch(&self, run: &RunId, mut watched: Vec<WatchedEdit>, mut request: InFlight) {
        let mut changes = self.documents.changes();
        let mut reply_kind = None;
        let mut ends = Instant::now() + LATE_WATCH;
        loop {
            changes.borrow_and_update();
            watched.retain(|edit| !edit.ended.is_cancelled());
            for edit in &mut watched {
                self.observe_changes(&mut edit.flight, reply_kind.unwrap_or(ReplyKind::None));
            }
            let decided = watched.iter().filter(|edit| edit.flight.outcome.is_some()).count();
            if decided == watched.len() && (decided == 0 || reply_kind.is_some()) {
                break;
            }
            if decided > 0 {
                ends = ends.min(Instant::now() + LATE_REPLY);
            }
            tokio::select! {
                // All branches are cancel safe.
                result = request.answered(), if reply_kind.is_none() => {
                    let reply = Reply::read(result);
                    let wait = self.client.editor.after_reply(reply.kind == ReplyKind::Applied);
                    ends = ends.min(Instant::now() + wait);
                    reply_kind = Some(reply.kind);
                }
                result = changes.changed() => if result.is_err() { return },
                () = sleep_until(ends) => break,
                _ = self.peer.closed() => return,
            }
        }
        for edit in watched {
            self.conclude_late(run, edit, reply_kind.unwrap_or(ReplyKind::None)).await;
        }
    }

    async fn conclude_late(&self, run: &RunId, watched: WatchedEdit, reply: ReplyKind) {
        let WatchedEdit { flight, ended } = watched;
        let _queue = self.queue.lock().await;
        if ended.is_cancelled() {
            return;
        }
        self.late.end(&flight.path);
        // Without a confirmation only an unambiguous outcome counts.
        let outcome = match reply {
            ReplyKind::Applied => flight.outcome.clone().or_else(|| Some(flight.reconciler.decide(reply))),
            ReplyKind::Refused | ReplyKind::None => flight.outcome.clone(),
        };
        let path = flight.path.clone();
        tracing::debug!(%path, ?reply, ?outcome, "a late edit ended");
        let inverse = match outcome {
            Some(
                EditOutcome::Applied { inverse } | EditOutcome::Misplaced { inverse: Some(inverse), .. },
            ) => inverse,
            _ => return,
        };
        let after = flight.reconciler.text().to_owned();
        let Ok(before) = text::apply(&after, &inverse) else { return };
        let not_reverted = if reply == ReplyKind::Applied {
            self.locked.lock().insert(path.clone());
            let _held = DocumentLocks { port: self, paths: vec![path.clone()] };
            self.revert_misplaced(&flight, inverse, &CancellationToken::new()).await.err()
        } else {
            Some("the editor did not confirm it, so it may be the user's own".to_owned())
        };
        if let Some(callback) = self.late.callback.get() {
            callback(LateEdit { run: run.clone(), path, before, after, not_reverted });
        }
    }
}
