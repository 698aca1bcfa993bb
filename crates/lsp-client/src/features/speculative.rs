//! Speculative edits, which Pilcrow shows to servers only.
//!
//! A server receives an edit that is not made, reports diagnostics, and receives the true texts again.
//!
//! Runs in a task of its own, so that the texts are restored even if the caller's future is
//! dropped.
//!
//! Invariants: afterwards, however the edit ends, the server has the texts that it had before.
//! Meanwhile no other request is answered from its texts, nothing is saved, and no file is created
//! or deleted.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::ServerDefinition;
use paths::AbsPath;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Closed, RequestError, codes};
use workspace::{Document, ReadError};

use super::check::{Extra, Unknown};
use super::diagnostics::{CleanCheck, METHOD, check_clean, pulled, question, read, whole_publication};
use crate::answer::{Diagnostic, RawJson};
use crate::diagnostics::Reader;
use crate::error::ServerError;
use crate::note::Note;
use crate::server::documents::Synced;
use crate::server::protocol::Report;
use crate::server::{Clock, Server};

/// Maximum time that other requests wait, from the request for exclusive access.
const LIMIT: Duration = Duration::from_secs(5);
/// Pause before a request that the server cancelled for a changed text; it doubles.
const PAUSE: Duration = Duration::from_millis(20);

/// A file as an edit would leave it.
#[derive(Debug, Clone)]
pub struct SpeculativeFile {
    /// The current document, or an empty one for a file that the edit would create.
    pub document: Document,
    /// Its text after the edit.
    pub text: Arc<str>,
    /// Whether the edit creates it.
    pub created: bool,
}

/// Reason why an edit was not shown to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum SpeculativeError {
    /// A text changed meanwhile, so the result would belong to another text.
    Moved,
    /// The caller cancelled.
    Cancelled,
    /// The server's answers may be incomplete.
    Noted(Note),
    /// Other requests to the server did not end in time.
    Busy,
    /// The server is running a command, and waits for its edits.
    RunningCommand,
    /// The server does not read its input.
    NotReading,
    Ended,
    /// The server cannot check files that do not exist yet.
    NewFilesUnsupported,
    /// The server only reads files from disk.
    ReadsOnlyDisk,
    /// The server reads a file from disk that the edit changes too.
    ReadsFromDisk(AbsPath),
    /// New files that the server searches on disk, so their users were not checked.
    UsersOmitted(Vec<AbsPath>),
    /// The server has not loaded its project, in its own words.
    Reported(String),
    Failed(ServerError),
}

/// The diagnostics of each file, or the reason why they are not known.
pub(crate) type Findings = Vec<(AbsPath, Result<Vec<Diagnostic>, Unknown>)>;

/// A speculative edit for one server.
pub(crate) struct SpeculativeEdit {
    pub server: Arc<Server>,
    /// Edited files to show to servers of this definition; created files come first.
    pub files: Vec<SpeculativeFile>,
    /// The files to request diagnostics of.
    pub asked: BTreeSet<AbsPath>,
    /// Unchanged files that may be affected, of which diagnostics are requested too.
    pub dependents: Vec<Document>,
}

/// A document that was shown for the edit.
struct Shown {
    document: Document,
    was_open: bool,
    /// Whether the edit opened or reopened it; otherwise the edit changed its text.
    opened: bool,
    /// Whether it does not exist on disk.
    created: bool,
    synced: Synced,
}

/// Runs a speculative edit to its end.
///
/// If the future is dropped, the texts are restored nevertheless.
pub(crate) async fn run(
    edit: SpeculativeEdit,
    clock: Clock<'_>,
    tracker: &TaskTracker,
) -> Result<Findings, SpeculativeError> {
    let (reply, findings) = oneshot::channel();
    let (limit, cancel) = (LIMIT.min(clock.left()), clock.cancel.clone());
    tracker.spawn(async move { edit.act(reply, limit, cancel).await });
    findings.await.unwrap_or(Err(SpeculativeError::Cancelled))
}

impl SpeculativeEdit {
    async fn act(
        self,
        mut reply: oneshot::Sender<Result<Findings, SpeculativeError>>,
        limit: Duration,
        cancel: CancellationToken,
    ) {
        let until = Instant::now() + limit;
        let server = &self.server;
        let announced = server.gate.announce();
        let moved = announced.moved.clone();
        let ends = |reason: SpeculativeError| Err(reason);
        let outcome = {
            // Each branch may be dropped: the texts are restored below in any case.
            tokio::select! {
                biased;
                () = reply.closed() => ends(SpeculativeError::Cancelled),
                () = cancel.cancelled() => ends(SpeculativeError::Cancelled),
                () = moved.cancelled() => ends(SpeculativeError::Moved),
                _ = server.peer.closed() => Err(SpeculativeError::Ended),
                alone = tokio::time::timeout_at(until.into(), server.gate.alone()) => match alone {
                    Ok(alone) => Ok(alone),
                    Err(_) => Err(SpeculativeError::Busy),
                },
            }
        };
        let outcome = match outcome {
            Err(reason) => Err(reason),
            Ok(alone) => {
                let mut shown = Vec::new();
                let findings = tokio::select! {
                    biased;
                    () = reply.closed() => Err(SpeculativeError::Cancelled),
                    () = cancel.cancelled() => Err(SpeculativeError::Cancelled),
                    () = moved.cancelled() => Err(SpeculativeError::Moved),
                    findings = self.findings(&mut shown, until, limit) => findings,
                };
                self.restore(&shown, &findings).await;
                drop(alone);
                findings
            }
        };
        drop(announced);
        if reply.send(outcome).is_err() {
            tracing::debug!(server = server.name(), "a speculative edit ended after its caller was dropped");
        }
    }

    async fn findings(
        &self,
        shown: &mut Vec<Shown>,
        until: Instant,
        limit: Duration,
    ) -> Result<Findings, SpeculativeError> {
        let server = &self.server;
        let workspace = &server.core.workspace;
        // Subscribe before reading the texts, so that no change is missed.
        let mut moves = workspace.editor_moves();
        if let Some(moves) = &mut moves {
            moves.mark_unchanged();
        }
        // A caller that cancels drops this.
        let cancel = CancellationToken::new();
        let clock = Clock { until, ..Clock::new(LIMIT, &cancel) };
        server.await_deletions(METHOD, clock).await.map_err(SpeculativeError::Failed)?;
        if server.core.deleted_files.is_awaited() {
            return Err(server.note().map_or(SpeculativeError::Moved, SpeculativeError::Noted));
        }
        let room = match tokio::time::timeout_at(until.into(), server.peer.room()).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(SpeculativeError::Ended),
            Err(_) => return Err(SpeculativeError::NotReading),
        };
        let fresh = server.read_open(None);
        let base: Vec<(AbsPath, Option<Arc<str>>)> = {
            let others =
                fresh.iter().map(|(path, open)| (path.clone(), open.as_ref().map(|it| it.text.clone())));
            let own = self.files.iter().map(|file| {
                (file.document.path.clone(), (!file.created).then(|| file.document.text.clone()))
            });
            let dependents = self.dependents.iter().map(|it| (it.path.clone(), Some(it.text.clone())));
            others.chain(own).chain(dependents).collect()
        };
        if !self.is_unchanged(&base) {
            return Err(SpeculativeError::Moved);
        }
        // From here to the end of the block nothing awaits: either all texts are shown, or the
        // stream is closed.
        let _room = Extra::new(&server.core, self.files.len() + self.dependents.len());
        self.show(&room, &fresh, shown).map_err(|_| SpeculativeError::Ended)?;
        drop(room);
        let is_asked = |it: &&Shown| {
            let path = &it.document.path;
            self.asked.contains(path) || self.dependents.iter().any(|dependent| dependent.path == *path)
        };
        let asks = shown.iter().filter(is_asked).map(|it| self.ask(it, until, limit));
        let asking = futures_util::future::join_all(asks);
        tokio::pin!(asking);
        let found = loop {
            let changed = async {
                // A disconnected editor changes nothing more.
                let has_moved = match &mut moves {
                    Some(moves) => moves.changed().await.is_ok(),
                    None => false,
                };
                if !has_moved {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = changed => if !self.is_unchanged(&base) { return Err(SpeculativeError::Moved) },
                _ = server.peer.closed() => {
                    return Err(SpeculativeError::Ended);
                }
                found = &mut asking => break found,
            }
        };
        // Programs other than the editor change files too.
        if !self.is_unchanged(&base) {
            return Err(SpeculativeError::Moved);
        }
        Ok(found)
    }

    /// Whether the texts are still those of the edit. Reads files.
    fn is_unchanged(&self, base: &[(AbsPath, Option<Arc<str>>)]) -> bool {
        base.iter().all(|(path, text)| match (self.server.core.workspace.document(path), text) {
            (Ok(now), Some(text)) => now.text == *text,
            (Err(ReadError::NotFound { .. }), None) => true,
            _ => false,
        })
    }

    /// Shows the server the true texts of all documents, then the edited ones.
    fn show(
        &self,
        room: &wire::Room,
        fresh: &[(AbsPath, Option<Document>)],
        shown: &mut Vec<Shown>,
    ) -> Result<(), Closed> {
        let server = &self.server;
        let rule = server.core.sync_rule();
        let pushes = pulled(server).is_none();
        let versioned = server.core.diagnostics.is_versioned();
        let mut documents = server.core.documents();
        server.sync_locked(&mut documents, rule, room, fresh, None)?;
        server.core.diagnostics.begin_speculation();
        let now = server.core.diagnostics.now();
        let language = |path: &AbsPath| {
            server.core.definition.language_id(path.as_path()).unwrap_or("plaintext").to_owned()
        };
        for file in &self.files {
            let edited = Document { text: Arc::clone(&file.text), ..file.document.clone() };
            let was_open = documents.holds(&edited.path);
            let synced = documents.sync(room, rule, &edited, &language(&edited.path), now)?;
            documents.changed(&edited.path);
            let (document, created) = (file.document.clone(), file.created);
            shown.push(Shown { document, was_open, opened: !was_open, created, synced });
        }
        let rereads = documents.rereads_includes();
        for document in &self.dependents {
            let was_open = documents.holds(&document.path);
            let reopens = was_open && pushes && !rereads;
            // Reopen the document, so that publications from now on differ from later ones. Without versions a server
            // would publish an empty list for a closed document.
            if reopens && versioned {
                documents.close(room, rule, &document.path)?;
            }
            let mut synced = documents.sync(room, rule, document, &language(&document.path), now)?;
            if reopens && !versioned {
                synced = documents.send_again(room, rule, &document.path, now)?.unwrap_or(synced);
            }
            let opened = !was_open || reopens && versioned;
            shown.push(Shown { document: document.clone(), was_open, opened, created: false, synced });
        }
        // Dependents are shown after all files exist that they may include.
        for it in shown.iter_mut().filter(|_| rereads && pushes) {
            if documents.may_be_outdated(&it.document.path) {
                let again = documents.send_again(room, rule, &it.document.path, now)?;
                it.synced = again.unwrap_or_else(|| it.synced.clone());
            }
        }
        Ok(())
    }

    /// Requests the diagnostics of one file; `limit` is the time of the whole edit.
    async fn ask(
        &self,
        shown: &Shown,
        until: Instant,
        limit: Duration,
    ) -> (AbsPath, Result<Vec<Diagnostic>, Unknown>) {
        let server = &self.server;
        let path = shown.document.path.clone();
        // Some of the time passes before the request is sent.
        let after = Duration::from_secs_f64((limit.as_secs_f64() * 10.0).round() / 10.0);
        let late = || Err(Unknown::Late { after });
        let items = match pulled(server) {
            Some(options) => {
                // The request has no result id: its answer is not for later requests.
                let params = question(Some(&shown.synced), &options, None);
                let cancel = CancellationToken::new();
                let mut pause = PAUSE;
                loop {
                    let left = until.saturating_duration_since(Instant::now());
                    match server.peer.request(METHOD, &params, left, &cancel).await {
                        Ok(raw) => match server.read_borrowed::<Option<Report<'_>>>(METHOD, &raw) {
                            Ok(Some(Report { items: Some(items), .. })) => break RawJson::new(items),
                            Ok(_) => return (path, Err(Unknown::NoReport)),
                            Err(error) => return (path, Err(Unknown::Failed(error))),
                        },
                        Err(RequestError::Rpc { error, .. })
                            if Instant::now() + pause < until
                                && matches!(
                                    error.code,
                                    codes::CONTENT_MODIFIED | codes::SERVER_CANCELLED
                                ) =>
                        {
                            tokio::time::sleep(pause).await;
                            pause *= 2;
                        }
                        Err(RequestError::Deadline { .. }) => return (path, late()),
                        Err(error) => return (path, Err(Unknown::Reason(error.to_string()))),
                    }
                }
            }
            None => {
                let clean_check =
                    check_clean(server, &shown.document, until, &CancellationToken::new()).await;
                let whole = |items: &RawJson| clean_check.is_whole(items);
                match clean_check == CleanCheck::Clean {
                    true => RawJson::empty_list(),
                    false => {
                        let (wait, cancel) = ((until, Reader::Speculative), CancellationToken::new());
                        match whole_publication(server, &path, &shown.synced, wait, &whole, &cancel).await {
                            Some(items) => items,
                            None => return (path, late()),
                        }
                    }
                }
            }
        };
        let found = read(server, &shown.synced, &items).map_err(Unknown::Failed);
        (path, found)
    }

    /// Restores the server's texts. Waits only while the server does not read.
    async fn restore(&self, shown: &[Shown], findings: &Result<Findings, SpeculativeError>) {
        if shown.is_empty() {
            return;
        }
        let server = &self.server;
        let room = server.peer.room().await;
        let rule = server.core.sync_rule();
        let mut documents = server.core.documents();
        let mut versions = HashMap::new();
        let shown_again = room.and_then(|room| {
            // Restore edited files first: a reopened dependent is checked with the true texts.
            shown.iter().try_for_each(|it| {
                let document = &it.document;
                let language =
                    server.core.definition.language_id(document.path.as_path()).unwrap_or("plaintext");
                // Publications from now on are not about the edit, whatever their version.
                versions.insert(document.path.clone(), documents.next_number(&document.path));
                if it.opened {
                    // A server may keep the last text of a closed file until it has read the file again
                    // (rust-analyzer 1.96).
                    if !it.created {
                        let now = server.core.diagnostics.now();
                        documents.sync(&room, rule, document, language, now)?;
                    }
                    documents.close(&room, rule, &document.path)?;
                    documents.changed(&document.path);
                    versions.insert(document.path.clone(), documents.next_number(&document.path));
                }
                if it.was_open {
                    let now = server.core.diagnostics.now();
                    documents.sync(&room, rule, document, language, now)?;
                    documents.record_revert(&document.path);
                }
                Ok::<(), Closed>(())
            })
        });
        let answered = findings
            .as_ref()
            .is_ok_and(|found| found.len() == shown.len() && found.iter().all(|(_, known)| known.is_ok()));
        server.core.diagnostics.end_speculation(versions, answered);
        if let Err(closed) = shown_again {
            tracing::debug!(server = server.name(), %closed, "cannot restore the texts");
        }
    }
}

impl SpeculativeEdit {
    /// Removes files that the server cannot check exactly; returns the reason, if any.
    ///
    /// Such a server searches created files on disk.
    pub(crate) fn remove_uncheckable(&mut self) -> Option<SpeculativeError> {
        if self.server.core.definition.resolves_new_files {
            return None;
        }
        let new: Vec<&SpeculativeFile> = self.files.iter().filter(|file| file.created).collect();
        let alone = match new[..] {
            [] => return None,
            // The diagnostics of a single new file are exact, unless they depend on another file that uses it.
            [one] => (!self
                .files
                .iter()
                .any(|it| !it.created && name_each_other(&self.server.core.definition, one, it)))
            .then_some(one),
            _ => None,
        };
        let created: Vec<AbsPath> = new.iter().map(|file| file.document.path.clone()).collect();
        let alone = alone.map(|it| it.document.path.clone());
        let all = self.asked.len() + self.dependents.len();
        self.asked.retain(|path| Some(path) == alone.as_ref());
        self.dependents.clear();
        (self.asked.len() < all).then_some(SpeculativeError::UsersOmitted(created))
    }
}

/// Whether either of two files may use the other.
fn name_each_other(definition: &ServerDefinition, one: &SpeculativeFile, other: &SpeculativeFile) -> bool {
    let name =
        |one: &SpeculativeFile, other: &SpeculativeFile| names(definition, &one.text, &other.document.path);
    name(one, other) && name(other, one)
}

/// Whether a text contains the name of a module as a word, without extension.
///
/// A file that represents its directory has the name of the directory.
fn names(definition: &ServerDefinition, text: &str, path: &AbsPath) -> bool {
    let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    let own = name(path.as_path()).filter(|own| !definition.directory_modules.contains(own));
    let name = own.or_else(|| name(path.as_path().parent()?));
    name.is_none_or(|name| text::occurrences(text, &name).next().is_some())
}

/// The reason why an edit cannot be shown to a server.
///
/// The server may receive only a part of `edited`.
pub(crate) fn obstacle(edit: &SpeculativeEdit, edited: &BTreeSet<&AbsPath>) -> Option<SpeculativeError> {
    let (server, files) = (&edit.server, &edit.files);
    if files.iter().any(|file| file.created) && !server.core.definition.checks_new_files {
        return Some(SpeculativeError::NewFilesUnsupported);
    }
    let is_shown = |path: &AbsPath| files.iter().any(|file| file.document.path == *path);
    if let Some(path) = edited.iter().find(|path| !is_shown(path) && server.reads(path)) {
        return Some(SpeculativeError::ReadsFromDisk((*path).clone()));
    }
    if !server.core.sync_rule().open {
        return Some(SpeculativeError::ReadsOnlyDisk);
    }
    if !server.core.loading.is_ready() {
        return Some(server.note().map_or(SpeculativeError::Moved, SpeculativeError::Noted));
    }
    // Without a project the server reports no problems in any text.
    if let Some(why) = server.core.loading.failure() {
        return Some(SpeculativeError::Reported(why));
    }
    // The command would wait for its own edit.
    if server.core.edits().is_some() {
        return Some(SpeculativeError::RunningCommand);
    }
    None
}
