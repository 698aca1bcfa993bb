//! The port to a connected editor.
//!
//! It applies the changes of a commit to open documents and verifies them by the change
//! notifications that follow.
//!
//! Invariants: one edit is in flight per connection, and its documents are locked meanwhile; every edit
//! has an [`ApplyOutcome`]; the port reverts a misplaced edit at once; it sends an edit that was not
//! applied once more, mapped to the current text; it watches for edits without a known outcome (`late`).

mod file_operations;
mod in_flight;
mod late;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use in_flight::{BaseText, RequestedEdits};
use parking_lot::{Condvar, Mutex};
use paths::AbsPath;
use text::{ChangeLog, TextEdit};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{ApplyOutcome, ChangeKind, ContentHash, Document, Editor, FileChange, RunId};

use crate::buffers::{BOM, EditorBuffers, Revision};
use crate::editors::ClientFacts;
pub use late::LateEdit;
use late::LateEdits;

/// Maximum wait of a read for a locked document.
const LOCK_WAIT: Duration = Duration::from_secs(15);
/// Maximum wait for the reply to an edit that is already applied.
const LATE_REPLY: Duration = Duration::from_secs(1);
/// Maximum number of remembered stopped runs.
const MAX_STOPPED: usize = 64;

/// Maximum number of bytes to process when changes are aligned to lines.
const MAX_ALIGNED: usize = 64 << 20;

/// The port to one connected editor.
pub struct EditorPort {
    peer: wire::Peer,
    documents: Arc<EditorBuffers>,
    client: ClientFacts,
    /// Lock of the edit that is in flight.
    queue: tokio::sync::Mutex<()>,
    locked: Mutex<HashSet<AbsPath>>,
    released: Condvar,
    stop_requests: Mutex<StopRequests>,
    /// Applied edits, by path and by the text that they were planned on.
    applied: Mutex<HashMap<(AbsPath, ContentHash), AppliedEdit>>,
    late: LateEdits,
    tracker: TaskTracker,
    this: Weak<Self>,
}

/// The runs to stop.
#[derive(Default)]
struct StopRequests {
    /// Runs with edits in the editor, with the number of these.
    active: HashMap<RunId, (CancellationToken, usize)>,
    /// Stopped runs, newest last. The port sends no more edits of them.
    stopped: VecDeque<RunId>,
    all: bool,
}

/// An edit that the editor applied.
struct AppliedEdit {
    at: Instant,
    revision: Revision,
    text: Arc<str>,
    inverse: Vec<TextEdit>,
}

impl EditorPort {
    /// Creates a port to the client of `peer`. `tracker` owns its tasks.
    pub fn new(
        peer: wire::Peer,
        documents: Arc<EditorBuffers>,
        client: ClientFacts,
        tracker: &TaskTracker,
    ) -> Arc<Self> {
        let ClientFacts { name, version, document_changes, editor, .. } = &client;
        let version = version.as_deref().unwrap_or_default();
        // Neovim supports versioned edits without announcing it, so this is only logged.
        tracing::info!(name, version, document_changes, spoken_to_as = editor.name, "{}", editor.about);
        Arc::new_cyclic(|this| Self {
            peer,
            documents,
            client,
            queue: tokio::sync::Mutex::default(),
            locked: Mutex::default(),
            released: Condvar::new(),
            stop_requests: Mutex::default(),
            applied: Mutex::default(),
            late: LateEdits::default(),
            tracker: tracker.clone(),
            this: Weak::clone(this),
        })
    }

    /// Stops the edits of a run.
    ///
    /// The port sends no more edits of it, and decides those in flight within a second.
    ///
    /// Other runs are not affected.
    pub fn stop_run(&self, run: &RunId) {
        let mut stop = self.stop_requests.lock();
        if let Some((token, _)) = stop.active.get(run) {
            token.cancel();
        }
        stop.stopped.push_back(run.clone());
        if stop.stopped.len() > MAX_STOPPED {
            stop.stopped.pop_front();
        }
    }

    /// Stops the edits of every run, when the server ends.
    pub fn stop_all(&self) {
        let mut stop = self.stop_requests.lock();
        stop.all = true;
        stop.active.values().for_each(|(token, _)| token.cancel());
    }

    fn lock_documents(&self, changes: &[FileChange]) -> DocumentLocks<'_> {
        let mut paths: Vec<AbsPath> = changes.iter().map(|change| change.path.clone()).collect();
        paths.extend(changes.iter().filter_map(|change| match &change.kind {
            ChangeKind::Renamed { from } => Some(from.clone()),
            _ => None,
        }));
        self.locked.lock().extend(paths.iter().cloned());
        DocumentLocks { port: self, paths }
    }

    /// Blocks while an edit of the document is in flight.
    fn wait_released(&self, path: &AbsPath) {
        if !self.locked.lock().contains(path) {
            return;
        }
        let wait = || {
            let mut locked = self.locked.lock();
            if self
                .released
                .wait_while_for(&mut locked, |locked| locked.contains(path), LOCK_WAIT)
                .timed_out()
            {
                tracing::warn!(%path, "an edit is still in flight; read its document anyway");
            }
        };
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
            // Waiting would block the only thread, and with it the edit.
            Ok(_) => {}
            Err(_) => wait(),
        }
    }

    /// Registers an edit of a run, so that it can be stopped.
    fn register<'a>(&'a self, run: &'a RunId) -> ActiveRun<'a> {
        let mut stop = self.stop_requests.lock();
        let is_stopped = stop.all || stop.stopped.contains(run);
        let (token, count) = stop.active.entry(run.clone()).or_default();
        *count += 1;
        let token = token.clone();
        if is_stopped {
            token.cancel();
        }
        ActiveRun { port: self, run, token }
    }
}

/// Time in which a commit can revert an applied edit.
const REVERTIBLE: Duration = Duration::from_secs(300);
const REVERT_LABEL: &str = "pilcrow: revert";

impl Editor for EditorPort {
    fn documents(&self) -> Vec<Document> {
        self.documents.paths().iter().filter_map(|path| self.document(path)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        self.wait_released(path);
        self.documents.document(path)
    }

    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let base_text = BaseText::Text(change.before.clone()?);
        let requested = RequestedEdits { path: change.path.clone(), edits: change.edits.clone(), base_text };
        let (open, edits) = self.rebase_onto_current(&requested).ok()??;
        if !open.text.starts_with(BOM) {
            return Some(edits);
        }
        let without_bom = |edit: &TextEdit| {
            let start = edit.range.start.checked_sub(BOM.len())?;
            Some(TextEdit::replace(start..edit.range.end - BOM.len(), &edit.new_text))
        };
        edits.iter().map(without_bom).collect()
    }

    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let (steps, open) = self.documents.steps_from_text(path, ContentHash::of(since.as_bytes()))?;
        // Positions are not exact if the mark is part of the text or the client sent whole texts.
        if open.text.starts_with(BOM) || steps.iter().any(|step| step.whole) {
            return None;
        }
        let mut log = ChangeLog::new();
        // Aligning this many steps takes too long.
        if steps.len().saturating_mul(since.len()) > MAX_ALIGNED {
            steps.iter().for_each(|step| log.push(step.edits.clone()));
            return Some(log);
        }
        let mut text = since.to_owned();
        for step in &steps {
            // Several edits of a step cannot be aligned independently.
            let edits = match step.edits.as_slice() {
                [edit] => vec![text::align_to_lines(&text, edit)],
                edits => edits.to_vec(),
            };
            text = text::apply(&text, &edits).ok()?;
            log.push(edits);
        }
        Some(log)
    }

    fn change_counter(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        Some(self.documents.changes())
    }

    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async move {
            if !self.client.apply_edit {
                let reason = "the editor does not support workspace/applyEdit; close the file in the editor";
                let refused = ApplyOutcome::NotApplied { reason: Some(reason.to_owned()) };
                return vec![refused; changes.len()];
            }
            let stop = self.register(run);
            let _queue = tokio::select! {
                queue = self.queue.lock() => queue,
                // Locking is not cancel safe, but a stopped run needs no place in the queue.
                () = stop.token.cancelled() => return vec![stopped(); changes.len()],
            };
            let _held = self.lock_documents(changes);
            self.applied.lock().retain(|_, applied| applied.at.elapsed() < REVERTIBLE);
            self.apply_changes(run, changes, &stop.token).await
        })
    }

    fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async move {
            let _queue = self.queue.lock().await;
            // A revert is completed even if the run is stopped.
            let never = CancellationToken::new();
            let _held = self.lock_documents(changes);
            self.revert_changes(changes, &never).await
        })
    }
}

/// A registered edit of a run.
struct ActiveRun<'a> {
    port: &'a EditorPort,
    run: &'a RunId,
    token: CancellationToken,
}

impl Drop for ActiveRun<'_> {
    fn drop(&mut self) {
        let mut stop = self.port.stop_requests.lock();
        if let Some((_, count)) = stop.active.get_mut(self.run) {
            *count -= 1;
            if *count == 0 {
                stop.active.remove(self.run);
            }
        }
    }
}

struct DocumentLocks<'a> {
    port: &'a EditorPort,
    paths: Vec<AbsPath>,
}

impl Drop for DocumentLocks<'_> {
    fn drop(&mut self) {
        let mut locked = self.port.locked.lock();
        for path in &self.paths {
            locked.remove(path);
        }
        drop(locked);
        self.port.released.notify_all();
    }
}

fn not_sent() -> ApplyOutcome {
    ApplyOutcome::NotApplied {
        reason: Some("not sent, because the edit of another file was not applied".to_owned()),
    }
}

fn stopped() -> ApplyOutcome {
    ApplyOutcome::NotApplied { reason: Some("stopped before it was sent".to_owned()) }
}
