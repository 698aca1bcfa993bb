//! A trial: a server is shown an edit that was not made, asked what it says of it, and shown the true
//! texts again.
//!
//! Runs in a task of its own, so that the texts are taken back whoever leaves meanwhile. What must stay
//! true: after a trial, however it ends, the server has the texts that it had before; while it is on
//! nobody else is answered by its texts; nothing is saved, and no file is made or removed.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Closed, RequestError, codes};
use workspace::{AbsPath, Document, ErrorCode, ReadError};

use crate::answer::{Diagnostic, RawJson};
use crate::diagnostics::Told;
use crate::documents::Synced;
use crate::features::{Extra, Looked, METHOD, look, pulled, question, read, told_whole};
use crate::protocol::Report;
use crate::server::{Clock, Server};

/// The longest that others wait for a trial, from when it asks to be alone.
const LIMIT: Duration = Duration::from_secs(5);
/// The pause before a question is asked again because the server says that the text changed; it doubles.
const PAUSE: Duration = Duration::from_millis(20);

/// A file as an edit would leave it.
#[derive(Debug, Clone)]
pub struct TrialFile {
    /// As it is; of a file that would be made, with an empty text.
    pub document: Document,
    /// Its text after the edit.
    pub text: Arc<str>,
    /// Whether the edit makes it.
    pub created: bool,
}

/// Why an edit was not tried on a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTried {
    /// A text changed meanwhile: what was tried would be made of another.
    #[error("text moved")]
    Moved,
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// For this reason.
    #[error("{0}")]
    Because(String),
}

/// What a server says of each file, or why that is not known.
pub(crate) type Findings = Vec<(AbsPath, Result<Vec<Diagnostic>, String>)>;

/// What is shown to one server.
pub(crate) struct Trial {
    pub server: Arc<Server>,
    /// What the edit makes of all that servers of this definition are shown; the new ones first, so that
    /// what is shown then finds them.
    pub files: Vec<TrialFile>,
    /// Those of them that it is asked about.
    pub asked: BTreeSet<AbsPath>,
    /// Not changed, but maybe concerned; it is asked about them.
    pub dependents: Vec<Document>,
}

/// A document that the trial has in its hands.
struct Shown {
    /// The truth.
    document: Document,
    was_open: bool,
    /// Opened, or opened anew, by the trial; else changed.
    opened: bool,
    /// It is not on the disk.
    created: bool,
    synced: Synced,
}

/// Runs a trial to its end. Dropping the future gives it up; what it showed is taken back all the same.
pub(crate) async fn run(trial: Trial, clock: Clock<'_>, tracker: &TaskTracker) -> Result<Findings, NotTried> {
    let (reply, findings) = oneshot::channel();
    let (limit, cancel) = (LIMIT.min(clock.left()), clock.cancel.clone());
    tracker.spawn(async move { trial.act(reply, limit, cancel).await });
    findings.await.unwrap_or(Err(NotTried::Cancelled))
}

impl Trial {
    async fn act(
        self,
        mut reply: oneshot::Sender<Result<Findings, NotTried>>,
        limit: Duration,
        cancel: CancellationToken,
    ) {
        let until = Instant::now() + limit;
        let server = &self.server;
        let announced = server.gate.announce();
        let moved = announced.moved.clone();
        let ends = |reason: NotTried| Err(reason);
        let late = || Err(NotTried::Because(format!("{} is busy with other questions", server.name())));
        let outcome = {
            // Each branch may be dropped: what a trial shows is taken back below, whatever came first.
            tokio::select! {
                biased;
                () = reply.closed() => ends(NotTried::Cancelled),
                () = cancel.cancelled() => ends(NotTried::Cancelled),
                () = moved.cancelled() => ends(NotTried::Moved),
                _ = server.peer.closed() => Err(NotTried::Because(format!("{} ended", server.name()))),
                alone = tokio::time::timeout_at(until.into(), server.gate.alone()) => match alone {
                    Ok(alone) => Ok(alone),
                    Err(_) => late(),
                },
            }
        };
        let outcome = match outcome {
            Err(reason) => Err(reason),
            Ok(alone) => {
                let mut shown = Vec::new();
                let tried = tokio::select! {
                    biased;
                    () = reply.closed() => Err(NotTried::Cancelled),
                    () = cancel.cancelled() => Err(NotTried::Cancelled),
                    () = moved.cancelled() => Err(NotTried::Moved),
                    tried = self.tried(&mut shown, until, limit) => tried,
                };
                self.take_back(&shown, &tried).await;
                drop(alone);
                tried
            }
        };
        drop(announced);
        if reply.send(outcome).is_err() {
            tracing::debug!(server = server.name(), "a trial ended, but nobody waits for it");
        }
    }

    async fn tried(
        &self,
        shown: &mut Vec<Shown>,
        until: Instant,
        limit: Duration,
    ) -> Result<Findings, NotTried> {
        let server = &self.server;
        let workspace = &server.core.workspace;
        // Listened to from before the texts are looked at, so that no change is missed.
        let mut moves = workspace.editor_moves();
        if let Some(moves) = &mut moves {
            moves.mark_unchanged();
        }
        // Whoever cancels drops this.
        let cancel = CancellationToken::new();
        let clock = Clock { until, ..Clock::new(LIMIT, &cancel) };
        server.see_gone(METHOD, clock).await.map_err(|error| NotTried::Because(error.to_string()))?;
        if server.core.gone.is_awaited() {
            return Err(NotTried::Because(server.note().unwrap_or_default()));
        }
        let room = match tokio::time::timeout_at(until.into(), server.peer.room()).await {
            Ok(Ok(room)) => room,
            Ok(Err(closed)) => return Err(NotTried::Because(closed.to_string())),
            Err(_) => return Err(NotTried::Because(format!("{} does not read", server.name()))),
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
        if !self.stands(&base) {
            return Err(NotTried::Moved);
        }
        // From here to the end of the block nothing waits: all of it is shown, or the stream is closed.
        let _room = Extra::new(&server.core, self.files.len() + self.dependents.len());
        self.show(&room, &fresh, shown).map_err(|closed| NotTried::Because(closed.to_string()))?;
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
                // An editor that is gone changes nothing more.
                let told = match &mut moves {
                    Some(moves) => moves.changed().await.is_ok(),
                    None => false,
                };
                if !told {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = changed => if !self.stands(&base) { return Err(NotTried::Moved) },
                _ = server.peer.closed() => {
                    return Err(NotTried::Because(format!("{} ended during it", server.name())));
                }
                found = &mut asking => break found,
            }
        };
        // Others than the editor change files too.
        if !self.stands(&base) {
            return Err(NotTried::Moved);
        }
        Ok(found)
    }

    /// Whether the texts are still those that the trial is about. Reads files.
    fn stands(&self, base: &[(AbsPath, Option<Arc<str>>)]) -> bool {
        base.iter().all(|(path, text)| match (self.server.core.workspace.document(path), text) {
            (Ok(now), Some(text)) => now.text == *text,
            (Err(ReadError::NotFound { .. }), None) => true,
            _ => false,
        })
    }

    /// Shows the server the true texts of all, then the trial's.
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
        server.core.diagnostics.begin_trial();
        let now = server.core.diagnostics.now();
        let language = |path: &AbsPath| {
            server.core.definition.language_id(path.as_path()).unwrap_or("plaintext").to_owned()
        };
        for file in &self.files {
            let tried = Document { text: Arc::clone(&file.text), ..file.document.clone() };
            let was_open = documents.holds(&tried.path);
            let synced = documents.sync(room, rule, &tried, &language(&tried.path), now)?;
            documents.changed(&tried.path);
            let (document, created) = (file.document.clone(), file.created);
            shown.push(Shown { document, was_open, opened: !was_open, created, synced });
        }
        let reads_anew = documents.reads_anew();
        for document in &self.dependents {
            let was_open = documents.holds(&document.path);
            let anew = was_open && pushes && !reads_anew;
            // Anew, so that what is told of it now is told apart from what is told later. Where no versions
            // tell that apart, a server would say of one that is closed that nothing is wrong with it.
            if anew && versioned {
                documents.close(room, rule, &document.path)?;
            }
            let mut synced = documents.sync(room, rule, document, &language(&document.path), now)?;
            if anew && !versioned {
                synced = documents.send_again(room, rule, &document.path, now)?.unwrap_or(synced);
            }
            let opened = !was_open || anew && versioned;
            shown.push(Shown { document: document.clone(), was_open, opened, created: false, synced });
        }
        // When all that they may include is there.
        for it in shown.iter_mut().filter(|_| reads_anew && pushes) {
            if documents.is_behind(&it.document.path) {
                let again = documents.send_again(room, rule, &it.document.path, now)?;
                it.synced = again.unwrap_or_else(|| it.synced.clone());
            }
        }
        Ok(())
    }

    /// What the server says of one file until then; `limit` is how long the whole trial takes at most.
    async fn ask(
        &self,
        shown: &Shown,
        until: Instant,
        limit: Duration,
    ) -> (AbsPath, Result<Vec<Diagnostic>, String>) {
        let server = &self.server;
        let path = shown.document.path.clone();
        let tenths = (limit.as_secs_f64() * 10.0).round() / 10.0;
        let late = || Err(format!("it did not answer within {tenths} s"));
        let items = match pulled(server) {
            Some(options) => {
                // Under no name: what is answered here is nobody else's.
                let params = question(Some(&shown.synced), &options, None);
                let cancel = CancellationToken::new();
                let mut pause = PAUSE;
                loop {
                    let left = until.saturating_duration_since(Instant::now());
                    match server.peer.request(METHOD, &params, left, &cancel).await {
                        Ok(raw) => match server.read_borrowed::<Option<Report<'_>>>(METHOD, &raw) {
                            Ok(Some(Report { items: Some(items), .. })) => break RawJson::new(items),
                            Ok(_) => return (path, Err("it gave no report".to_owned())),
                            Err(error) => return (path, Err(error.to_string())),
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
                        Err(error) => return (path, Err(error.to_string())),
                    }
                }
            }
            None => {
                let looked = look(server, &shown.document, until, &CancellationToken::new()).await;
                let whole = |items: &RawJson| looked.is_whole(items);
                match looked == Looked::Clean {
                    true => RawJson::empty_list(),
                    false => {
                        let (wait, cancel) = ((until, Told::Trial), CancellationToken::new());
                        match told_whole(server, &path, &shown.synced, wait, &whole, &cancel).await {
                            Some(items) => items,
                            None => return (path, late()),
                        }
                    }
                }
            }
        };
        let found = read(server, &shown.synced, &items).map_err(|error| error.to_string());
        (path, found)
    }

    /// Shows the server the texts that it had. Waits only while the server does not read.
    async fn take_back(&self, shown: &[Shown], tried: &Result<Findings, NotTried>) {
        if shown.is_empty() {
            return;
        }
        let server = &self.server;
        let room = server.peer.room().await;
        let rule = server.core.sync_rule();
        let mut documents = server.core.documents();
        let mut versions = HashMap::new();
        let told = room.and_then(|room| {
            // What was edited first: a dependent that is opened again is looked at with the true texts.
            shown.iter().try_for_each(|it| {
                let document = &it.document;
                let language =
                    server.core.definition.language_id(document.path.as_path()).unwrap_or("plaintext");
                // What is told of it from now on, under whatever number, is not about the trial.
                versions.insert(document.path.clone(), documents.next_number(&document.path));
                if it.opened {
                    // Of one that is closed a server may know the last text until it has read the file again
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
                    documents.is_back(&document.path);
                }
                Ok::<(), Closed>(())
            })
        });
        let answered = tried
            .as_ref()
            .is_ok_and(|found| found.len() == shown.len() && found.iter().all(|(_, known)| known.is_ok()));
        server.core.diagnostics.end_trial(versions, answered);
        if let Err(closed) = told {
            tracing::debug!(server = server.name(), %closed, "nothing to take back");
        }
    }
}

impl Trial {
    /// Leaves out what the server cannot tell exactly, since it looks on the disk for files that are only
    /// tried; why, if anything is left out.
    pub fn narrow(&mut self) -> Option<NotTried> {
        if self.server.core.definition.finds_new_files {
            return None;
        }
        let new: Vec<&TrialFile> = self.files.iter().filter(|file| file.created).collect();
        let alone = match new[..] {
            [] => return None,
            // What it says of one new file holds, unless that is told by way of another that uses it.
            [one] => (!self.files.iter().any(|it| !it.created && name_each_other(one, it))).then_some(one),
            _ => None,
        };
        let names: Vec<String> =
            new.iter().map(|it| self.server.core.workspace.relative(&it.document.path)).collect();
        let alone = alone.map(|it| it.document.path.clone());
        let all = self.asked.len() + self.dependents.len();
        self.asked.retain(|path| Some(path) == alone.as_ref());
        self.dependents.clear();
        (self.asked.len() < all).then(|| {
            let (name, names) = (self.server.name(), names.join(", "));
            NotTried::Because(format!(
                "{name} looks for {names} on the disk, so it was not asked about what may use that"
            ))
        })
    }
}

/// Whether each of two files may use the other.
fn name_each_other(one: &TrialFile, other: &TrialFile) -> bool {
    names(&one.text, &other.document.path) && names(&other.text, &one.document.path)
}

/// Whether a text holds the name of a file as a word, without its ending; of a folder's own module
/// (`__init__.py`) the folder's.
fn names(text: &str, path: &AbsPath) -> bool {
    let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
    let own = name(path.as_path()).filter(|it| !it.starts_with("__"));
    let Some(name) = own.or_else(|| name(path.as_path().parent()?)) else { return true };
    let in_word = |it: char| it.is_alphanumeric() || it == '_';
    text.match_indices(&name)
        .any(|(at, found)| !text[..at].ends_with(in_word) && !text[at + found.len()..].starts_with(in_word))
}

/// What a server that cannot be tried on says to that; of `edited` it may not be shown all.
pub(crate) fn hindrance(trial: &Trial, edited: &BTreeSet<&AbsPath>) -> Option<NotTried> {
    let (server, files) = (&trial.server, &trial.files);
    let name = server.name();
    let because = |why: String| Some(NotTried::Because(why));
    if files.iter().any(|file| file.created) && !server.core.definition.tries_new_files {
        return because(format!("{name} is not shown files that are not there yet"));
    }
    let is_shown = |path: &AbsPath| files.iter().any(|file| file.document.path == *path);
    if let Some(path) = edited.iter().find(|path| !is_shown(path) && server.reads(path)) {
        let path = server.core.workspace.relative(path);
        return because(format!("{name} reads {path} from the disk, which is changed too"));
    }
    if !server.core.sync_rule().open {
        return because(format!("{name} reads files from the disk only"));
    }
    if !server.core.loading.is_ready() {
        return because(server.note().unwrap_or_else(|| format!("{name} is still loading")));
    }
    // It would find nothing wrong with whatever it is shown.
    if let Some(why) = server.core.loading.failure() {
        return because(why);
    }
    // It would wait for itself.
    if server.core.edits().is_some() {
        return because(format!("{name} is carrying out a command"));
    }
    None
}

impl NotTried {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Moved => ErrorCode::StaleText,
            Self::Cancelled => ErrorCode::Cancelled,
            Self::Because(_) => ErrorCode::NotApplied,
        }
    }
}
