//! The editor port: makes a commit's changes in open documents, and believes nothing but the change
//! notifications that follow.
//!
//! What must stay true: one edit is in flight per connection; while it is, its documents are held;
//! every edit ends as landed, elsewhere, absent, moved or unknown; what landed elsewhere is taken
//! back at once; only what is absent is sent again, once, made for the text as it is then; what
//! nobody knows the end of is looked out for (`late`).

mod file_operations;
mod in_flight;
mod late;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use in_flight::{MadeFor, Wanted};
use parking_lot::{Condvar, Mutex};
use paths::AbsPath;
use text::{ChangeLog, TextEdit};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{ChangeKind, ContentHash, Document, Editor, FileChange, RunId, Settled};

use crate::buffers::{BOM, Moment, OpenDocuments};
use crate::editors::ClientFacts;
pub use late::Late;
use late::Outlook;

/// How long a read of a held document waits.
const HOLD: Duration = Duration::from_secs(15);
/// How long an edit in flight gets after Stop.
const HASTE: Duration = Duration::from_secs(1);
/// How long the answer of an edit that is seen to have landed is waited for.
const LATE_ANSWER: Duration = Duration::from_secs(1);
/// Stopped runs that are remembered.
const MAX_STOPPED: usize = 64;

/// At most so many bytes are gone through to tell changes in whole lines.
const MAX_ALIGNED: usize = 64 << 20;

/// The way into one connected editor.
pub struct EditorPort {
    peer: wire::Peer,
    documents: Arc<OpenDocuments>,
    client: ClientFacts,
    /// One edit in flight.
    turn: tokio::sync::Mutex<()>,
    held: Mutex<HashSet<AbsPath>>,
    released: Condvar,
    haste: Mutex<Haste>,
    /// By path and the text that the edits were planned on.
    landed: Mutex<HashMap<(AbsPath, ContentHash), Landed>>,
    outlook: Outlook,
    tracker: TaskTracker,
    this: Weak<Self>,
}

/// Who was told to hurry.
#[derive(Default)]
struct Haste {
    /// Runs with something to be made in the editor, with how many such things.
    going: HashMap<RunId, (CancellationToken, usize)>,
    /// Runs that were stopped, newest last: what comes of them later is not sent.
    stopped: VecDeque<RunId>,
    all: bool,
}

/// An edit that was seen to land.
struct Landed {
    at: Instant,
    moment: Moment,
    text: Arc<str>,
    inverse: Vec<TextEdit>,
}

impl EditorPort {
    /// The editor at the other end of `peer`, whose documents are `documents`.
    /// What goes on by itself is a task of `tracker`.
    pub fn new(
        peer: wire::Peer,
        documents: Arc<OpenDocuments>,
        client: ClientFacts,
        tracker: &TaskTracker,
    ) -> Arc<Self> {
        let ClientFacts { name, version, document_changes, editor, .. } = &client;
        let version = version.as_deref().unwrap_or_default();
        // Neovim takes versioned edits and does not say so, hence this is only noted.
        tracing::info!(name, version, document_changes, spoken_to_as = editor.name, "{}", editor.about);
        Arc::new_cyclic(|this| Self {
            peer,
            documents,
            client,
            turn: tokio::sync::Mutex::default(),
            held: Mutex::default(),
            released: Condvar::new(),
            haste: Mutex::default(),
            landed: Mutex::default(),
            outlook: Outlook::default(),
            tracker: tracker.clone(),
            this: Weak::clone(this),
        })
    }

    /// Stop was asked for: what this run has not yet sent is not sent, and what it has in flight is
    /// settled within a second by what is known then. Other runs feel nothing of it.
    pub fn hasten(&self, run: &RunId) {
        let mut haste = self.haste.lock();
        if let Some((token, _)) = haste.going.get(run) {
            token.cancel();
        }
        haste.stopped.push_back(run.clone());
        if haste.stopped.len() > MAX_STOPPED {
            haste.stopped.pop_front();
        }
    }

    /// The same for every run, for the end of the server.
    pub fn hasten_all(&self) {
        let mut haste = self.haste.lock();
        haste.all = true;
        haste.going.values().for_each(|(token, _)| token.cancel());
    }

    fn hold(&self, changes: &[FileChange]) -> Held<'_> {
        let mut paths: Vec<AbsPath> = changes.iter().map(|change| change.path.clone()).collect();
        paths.extend(changes.iter().filter_map(|change| match &change.kind {
            ChangeKind::Renamed { from } => Some(from.clone()),
            _ => None,
        }));
        self.held.lock().extend(paths.iter().cloned());
        Held { port: self, paths }
    }

    /// Blocks while an edit of the document is in flight.
    fn wait_released(&self, path: &AbsPath) {
        if !self.held.lock().contains(path) {
            return;
        }
        let wait = || {
            let mut held = self.held.lock();
            if self.released.wait_while_for(&mut held, |held| held.contains(path), HOLD).timed_out() {
                tracing::warn!(%path, "an edit in flight is not settled; its text is read all the same");
            }
        };
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
            // Nothing would be settled while its only thread waits.
            Ok(_) => {}
            Err(_) => wait(),
        }
    }

    /// The haste of a run while it has something to be made.
    fn start<'a>(&'a self, run: &'a RunId) -> Going<'a> {
        let mut haste = self.haste.lock();
        let is_stopped = haste.all || haste.stopped.contains(run);
        let (token, count) = haste.going.entry(run.clone()).or_default();
        *count += 1;
        let token = token.clone();
        if is_stopped {
            token.cancel();
        }
        Going { port: self, run, token }
    }
}

/// For how long a commit may ask for what landed to be taken back.
const REVERTIBLE: Duration = Duration::from_secs(300);
const BACK: &str = "pilcrow: taken back";

impl Editor for EditorPort {
    fn documents(&self) -> Vec<Document> {
        self.documents.paths().iter().filter_map(|path| self.document(path)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        self.wait_released(path);
        self.documents.document(path)
    }

    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let made_for = MadeFor::Text(change.before.clone()?);
        let wanted = Wanted { path: change.path.clone(), edits: change.edits.clone(), made_for };
        let (open, edits) = self.now(&wanted).ok()??;
        if !open.text.starts_with(BOM) {
            return Some(edits);
        }
        let by = |edit: &TextEdit| {
            let start = edit.range.start.checked_sub(BOM.len())?;
            Some(TextEdit::replace(start..edit.range.end - BOM.len(), &edit.new_text))
        };
        edits.iter().map(by).collect()
    }

    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let (steps, open) = self.documents.way_from(path, ContentHash::of(since.as_bytes()))?;
        // Where the mark is part of the text, or the client did not say what it changed, nothing is
        // known exactly.
        if open.text.starts_with(BOM) || steps.iter().any(|step| step.whole) {
            return None;
        }
        let mut log = ChangeLog::new();
        // A way that is this long takes too long to be walked.
        if steps.len().saturating_mul(since.len()) > MAX_ALIGNED {
            steps.iter().for_each(|step| log.push(step.edits.clone()));
            return Some(log);
        }
        let mut text = since.to_owned();
        for step in &steps {
            // Further edits of a step would have to be moved together with this one.
            let edits = match step.edits.as_slice() {
                [edit] => vec![text::align_to_lines(&text, edit)],
                edits => edits.to_vec(),
            };
            text = text::apply(&text, &edits).ok()?;
            log.push(edits);
        }
        Some(log)
    }

    fn moves(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        Some(self.documents.changes())
    }

    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async move {
            if !self.client.apply_edit {
                let reason = "this editor takes no edits from a language server; close the file there";
                let refused = Settled::Absent { reason: Some(reason.to_owned()) };
                return vec![refused; changes.len()];
            }
            let haste = self.start(run);
            let _turn = tokio::select! {
                turn = self.turn.lock() => turn,
                // Its place in the queue is lost, and it needs none.
                () = haste.token.cancelled() => return vec![stopped(); changes.len()],
            };
            let _held = self.hold(changes);
            self.landed.lock().retain(|_, landed| landed.at.elapsed() < REVERTIBLE);
            self.carry_out(run, changes, &haste.token).await
        })
    }

    fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            // What is half done has to be undone, stopped or not.
            let never = CancellationToken::new();
            let _held = self.hold(changes);
            self.take_all_back(changes, &never).await
        })
    }
}

/// A run that has something to be made.
struct Going<'a> {
    port: &'a EditorPort,
    run: &'a RunId,
    token: CancellationToken,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let mut haste = self.port.haste.lock();
        if let Some((_, count)) = haste.going.get_mut(self.run) {
            *count -= 1;
            if *count == 0 {
                haste.going.remove(self.run);
            }
        }
    }
}

struct Held<'a> {
    port: &'a EditorPort,
    paths: Vec<AbsPath>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.port.held.lock();
        for path in &self.paths {
            held.remove(path);
        }
        drop(held);
        self.port.released.notify_all();
    }
}

fn not_sent() -> Settled {
    Settled::Absent { reason: Some("not sent, since another file's edit did not land".to_owned()) }
}

fn stopped() -> Settled {
    Settled::Absent { reason: Some("stopped before it was sent".to_owned()) }
}
