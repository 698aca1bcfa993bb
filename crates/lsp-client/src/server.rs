//! One running server: starting it, asking it, ending it.
//!
//! Does not choose servers and does not start processes; the pool does. What must stay true: before a
//! request is sent the server has the texts as they are now, and nothing is sent between those and the
//! request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use text::PositionEncoding;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Peer, PeerOptions, RequestError, Room, codes};
use workspace::{AbsPath, Document, ErrorCode, Owner, Process};

use crate::capabilities;
use crate::core::Core;
use crate::definition::{expand, merge};
use crate::diagnostics::Told;
use crate::documents::Synced;
use crate::error::ServerError;
use crate::gate::{Entered, Gate};
use crate::handler::ServerHandler;
use crate::life::{self, Ending, Head, Seen};
use crate::sweep::{Look, wanted};
use crate::unanswered::Unanswered;
use crate::usage::Usage;
use crate::view::Views;

/// The pause before a question is asked again, for the first time; it doubles each time …
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// … up to this.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long the process of a closed stream may take to end before its last words are read.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);

/// When an answer must be there, and who may no longer want it.
#[derive(Clone, Copy)]
pub(crate) struct Clock<'a> {
    /// When it was set, or shortened.
    pub began: Instant,
    pub until: Instant,
    /// What the call was given, of which questions take a part and which is told when it is over.
    pub total: Duration,
    pub cancel: &'a CancellationToken,
}

impl<'a> Clock<'a> {
    pub fn new(total: Duration, cancel: &'a CancellationToken) -> Self {
        let began = Instant::now();
        Self { began, until: began + total, total, cancel }
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The same with `part` percent of what is left.
    pub fn part(self, part: u32) -> Self {
        self.within(self.left() * part / 100)
    }

    /// The same with no more than `most` from now on.
    pub fn within(self, most: Duration) -> Self {
        let began = Instant::now();
        Self { began, until: self.until.min(began + most), ..self }
    }

    /// The point at which `part` percent of the time from when it was set are gone.
    pub fn at(&self, part: u32) -> Instant {
        self.began + self.until.saturating_duration_since(self.began) * part / 100
    }
}

pub(crate) struct Server {
    pub core: Arc<Core>,
    pub peer: Peer,
    pub process: Process,
    pub started: Instant,
    pub usage: Usage,
    pub unanswered: Unanswered,
    pub gate: Gate,
    /// What goes on for it when nobody waits for it any more.
    pub tracker: TaskTracker,
    /// Its log on the disk.
    pub life: String,
    pub ending: Arc<Ending>,
}

/// An answer with what is needed to read it.
pub(crate) struct Asked {
    pub method: String,
    pub raw: Box<RawValue>,
    pub snapshot: HashMap<AbsPath, Synced>,
    pub encoding: PositionEncoding,
    /// Why the answer may be incomplete, from the moment of the question.
    pub note: Option<String>,
    /// Files that the answer names and the server was not sent.
    pub views: Views,
}

/// Documents opened for one question.
#[must_use = "they stay open until close_all"]
pub(crate) struct Opened(Vec<AbsPath>);

impl Server {
    /// Speaks with a process that was just started: `initialize`, `initialized`, settings.
    pub async fn start(
        core: Core,
        mut process: Process,
        variables: &[(&str, String)],
        deadline: Duration,
        tracker: &TaskTracker,
    ) -> Result<Arc<Self>, ServerError> {
        let core = Arc::new(core);
        let name = core.definition.name.clone();
        let (Some(stdin), Some(stdout)) = (process.take_stdin(), process.take_stdout()) else {
            return Err(ServerError::Start { server: name, reason: "it has no pipes".to_owned() });
        };
        let mut options = PeerOptions::new(name.clone());
        options.observer = Some(Arc::<crate::traffic::Traffic>::clone(&core.traffic));
        let handler = Arc::new(ServerHandler(Arc::clone(&core)));
        let peer = Peer::spawn(stdout, stdin, handler, options, tracker);
        let head = Head::new(&name, &core.root);
        let (life, ending) = (head.id(), Arc::<Ending>::default());
        let seen = Seen {
            id: life.clone(),
            head,
            peer: peer.clone(),
            process: process.view(),
            traffic: Arc::clone(&core.traffic),
            ending: Arc::clone(&ending),
        };
        tracker.spawn(life::keep(core.workspace.state().clone(), seen));
        let server = Arc::new(Self {
            peer,
            process,
            started: Instant::now(),
            usage: Usage::default(),
            unanswered: Unanswered::default(),
            gate: Gate::default(),
            tracker: tracker.clone(),
            life,
            ending,
            core,
        });
        match server.initialize(variables, deadline).await {
            Ok(()) => Ok(server),
            Err(error) => {
                server.give_up("it did not start");
                server.process.end(Duration::from_millis(200)).await;
                Err(error)
            }
        }
    }

    async fn initialize(&self, variables: &[(&str, String)], deadline: Duration) -> Result<(), ServerError> {
        let core = &self.core;
        // The first package where one server takes several: a root that is none would be searched whole.
        let first = core.folders().first().unwrap_or(&core.root).clone();
        let uri = workspace::path_to_uri(first.as_path());
        let mut params = json!({
            "processId": std::process::id(),
            "clientInfo": {"name": "pilcrow", "version": env!("CARGO_PKG_VERSION")},
            "locale": "en",
            "rootPath": first.to_string(),
            "rootUri": uri,
            "capabilities": capabilities::client(&core.definition.client_capabilities),
            "trace": "off",
            "workspaceFolders": core.workspace_folders(),
        });
        // Before it reads anything, so that no change is missed.
        self.sweep(Look::First).await;
        let mut options = core.definition.initialization_options.clone();
        if let Some(watching) = core.definition.watch.initialization_options.clone()
            && !core.sweep.is_cut()
        {
            merge(options.get_or_insert_with(|| json!({})), watching);
        }
        if let Some(options) = &options {
            params["initializationOptions"] = expand(options, variables);
        }
        let cancel = CancellationToken::new();
        let clock = Clock::new(deadline, &cancel);
        let result = self.peer.request("initialize", &params, deadline, &cancel).await;
        let raw = match result {
            Ok(raw) => raw,
            Err(error) => return Err(self.request_error(error, clock).await),
        };
        let result: Value = self.read("initialize", &raw)?;
        core.capabilities().initialized(result["capabilities"].clone());
        let told = async {
            let room = self.peer.room().await?;
            room.notify("initialized", &json!({}))?;
            let settings = core.settings_for(None);
            room.notify("workspace/didChangeConfiguration", &json!({"settings": settings}))
        };
        match told.await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.crashed("initialized").await),
        }
    }

    pub fn name(&self) -> &str {
        &self.core.definition.name
    }

    pub fn is_running(&self) -> bool {
        self.peer.is_closed().is_none() && !self.ending.has_begun()
    }

    /// Says why an answer may be incomplete; `None` once the server has loaded its project.
    pub fn note(&self) -> Option<String> {
        if self.core.loading.is_ready() {
            if self.core.sweep.unread().is_some() {
                let said = "files came or went, and it is still reading its projects anew";
                return Some(format!("{}: {said}", self.name()));
            }
            if let Some(path) = self.core.gone.unseen() {
                let path = self.core.workspace.relative(&path);
                return Some(format!("{}: it has not shown that it saw that {path} is gone", self.name()));
            }
            if self.core.diagnostics.is_stuck() {
                let said = "work that it began has not ended in time, so what it tells may not be all";
                return Some(format!("{}: {said}", self.name()));
            }
            let trouble = self.core.loading.trouble()?;
            return Some(format!("{} says: {}", self.name(), trouble.text));
        }
        Some(format!("{} is still loading: {}", self.name(), self.doing()))
    }

    /// What it is doing, for people.
    pub fn doing(&self) -> String {
        self.core
            .loading
            .describe()
            .unwrap_or_else(|| "it has not said that the project is loaded".to_owned())
    }

    /// Makes sure that it works on a package root; `false`: it takes no more folders than it has.
    pub async fn include(&self, root: &AbsPath) -> bool {
        if self.core.folders().contains(root) {
            return true;
        }
        // Capabilities are known once it runs; the room keeps the order with what is asked after this.
        if !self.core.capabilities().takes_folders() {
            return false;
        }
        let Ok(room) = self.peer.room().await else { return true };
        let mut folders = self.core.folders();
        if !folders.contains(root) {
            let event = json!({"added": [crate::core::folder(root)], "removed": []});
            let told = room.notify("workspace/didChangeWorkspaceFolders", &json!({"event": event}));
            if let Err(closed) = told {
                tracing::debug!(server = self.name(), %closed, "not told of a folder");
            }
            folders.push(root.clone());
            self.core.loading.restart();
        }
        true
    }

    /// Opens `document` and waits until the server has loaded its project, or three quarters of the
    /// time are gone; whether it has.
    pub async fn wait_ready(
        &self,
        document: Option<&Document>,
        clock: Clock<'_>,
    ) -> Result<bool, ServerError> {
        if let Some(document) = document {
            self.open(document, clock).await?;
        }
        self.core.loading.opened();
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            _ = self.peer.closed() => Err(self.crashed("loading").await),
            ready = self.core.loading.wait(clock.at(75)) => Ok(ready),
        }
    }

    /// Makes the server see `document` as it is, and all that it has open.
    pub async fn open(&self, document: &Document, clock: Clock<'_>) -> Result<Synced, ServerError> {
        let entered = self.enter("textDocument/didOpen", clock).await?;
        self.open_entered(&entered, document, clock).await
    }

    /// Waits while a trial is on.
    pub async fn enter(&self, method: &str, clock: Clock<'_>) -> Result<Entered, ServerError> {
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            entered = tokio::time::timeout(clock.left(), self.gate.enter()) => {
                entered.map_err(|_| self.timeout(method, clock.total))
            }
        }
    }

    /// [`Server::open`] for who has entered already.
    pub async fn open_entered(
        &self,
        _: &Entered,
        document: &Document,
        clock: Clock<'_>,
    ) -> Result<Synced, ServerError> {
        let fresh = self.read_open(Some(&document.path));
        let room = self.room("textDocument/didOpen", clock).await?;
        match self.sync(&room, &fresh, Some(document)) {
            Ok(Some(synced)) => Ok(synced),
            Ok(None) | Err(_) => Err(self.crashed("textDocument/didOpen").await),
        }
    }

    /// Makes the server see `document` as a text that it was never shown, so that what it tells of it is
    /// told after all that was sent before.
    pub async fn open_anew(
        &self,
        _: &Entered,
        document: &Document,
        clock: Clock<'_>,
    ) -> Result<Synced, ServerError> {
        let fresh = self.read_open(Some(&document.path));
        let room = self.room("textDocument/didOpen", clock).await?;
        let told = {
            let rule = self.core.sync_rule();
            let mut documents = self.core.documents();
            documents
                .close(&room, rule, &document.path)
                .and_then(|()| self.sync_locked(&mut documents, rule, &room, &fresh, Some(document)))
        };
        match told {
            Ok(Some(synced)) => Ok(synced),
            Ok(None) | Err(_) => Err(self.crashed("textDocument/didOpen").await),
        }
    }

    /// Makes the server look again at a document that it has: what it pushes of it from now on is about
    /// all that was sent before.
    pub async fn show_again(
        &self,
        entered: &Entered,
        document: &Document,
        clock: Clock<'_>,
    ) -> Result<Synced, ServerError> {
        let by_change =
            self.core.definition.diagnostics.again_by_change || self.core.documents().reads_anew();
        if self.core.diagnostics.is_versioned() && !by_change {
            return self.open_anew(entered, document, clock).await;
        }
        // Closed, it would be told to be without problems, and without versions nothing says of which text that is;
        // and what others include would for a moment be as it is on the disk.
        let open = self.open_entered(entered, document, clock).await?;
        let room = self.room("textDocument/didChange", clock).await?;
        let rule = self.core.sync_rule();
        let now = self.core.diagnostics.now();
        match self.core.documents().send_again(&room, rule, &document.path, now) {
            Ok(again) => return Ok(again.unwrap_or(open)),
            Err(closed) => tracing::debug!(server = self.name(), %closed, "not shown again"),
        }
        drop(room);
        Err(self.crashed("textDocument/didChange").await)
    }

    /// Makes the server see all of `documents` as they are, and all that it has open; the numbers that
    /// they had before, by their paths.
    pub async fn show_all(
        &self,
        documents: &[&Document],
        clock: Clock<'_>,
    ) -> Result<HashMap<AbsPath, Option<i32>>, ServerError> {
        let _entered = self.enter("textDocument/didOpen", clock).await?;
        let mut fresh = self.read_open(None);
        fresh.retain(|(path, _)| documents.iter().all(|document| document.path != *path));
        fresh.extend(documents.iter().map(|document| (document.path.clone(), Some((*document).clone()))));
        let room = self.room("textDocument/didOpen", clock).await?;
        let (before, told) = {
            let rule = self.core.sync_rule();
            let mut open = self.core.documents();
            let number = |document: &&Document| (document.path.clone(), open.number(&document.path));
            let before = documents.iter().map(number).collect();
            (before, self.sync_locked(&mut open, rule, &room, &fresh, None))
        };
        match told {
            Ok(_) => Ok(before),
            Err(_) => Err(self.crashed("textDocument/didOpen").await),
        }
    }

    /// Makes the server see all of `documents` as they are, for one question. Whoever calls it calls
    /// [`Server::close_all`] with what it gives.
    pub async fn open_all(&self, documents: &[Document], clock: Clock<'_>) -> Result<Opened, ServerError> {
        let _entered = self.enter("textDocument/didOpen", clock).await?;
        let room = self.room("textDocument/didOpen", clock).await?;
        let fresh: Vec<_> =
            documents.iter().map(|document| (document.path.clone(), Some(document.clone()))).collect();
        let opened = {
            let mut open = self.core.documents();
            let before = open.paths();
            let paths = documents.iter().map(|document| document.path.clone());
            let paths: Vec<AbsPath> = paths.filter(|path| !before.contains(path)).collect();
            open.make_room(paths.len());
            Opened(paths)
        };
        match self.sync(&room, &fresh, None) {
            Ok(_) => Ok(opened),
            Err(_) => Err(self.crashed("textDocument/didOpen").await),
        }
    }

    /// Waits until it has told diagnostics about each of `documents` as it has them, or three quarters
    /// of the time are gone: by then it has read them.
    pub async fn wait_until_read(&self, documents: &[Document], clock: Clock<'_>) {
        let synced = self.core.documents().snapshot();
        let until = clock.at(75);
        for document in documents {
            let Some(synced) = synced.get(&document.path) else { continue };
            // What it says does not matter here, and without a word the question is asked all the same.
            let said = self.core.diagnostics.wait(&document.path, synced, until, Told::All);
            tokio::select! {
                said = said => tracing::trace!(known = said.is_some(), "{}", document.path),
                () = clock.cancel.cancelled() => return,
                _ = self.peer.closed() => return,
            }
        }
    }

    /// Closes one document, unless it is one that an editor has not saved.
    pub async fn close(&self, path: &AbsPath) {
        let _entered = self.gate.enter().await;
        let Ok(room) = self.peer.room().await else { return };
        let rule = self.core.sync_rule();
        let mut open = self.core.documents();
        if open.is_unsaved(path) {
            return;
        }
        if let Err(closed) = open.close(&room, rule, path) {
            tracing::debug!(server = self.name(), %closed, "a document is not closed");
        }
    }

    /// Closes what was opened for one question, but for what an editor has not saved.
    pub async fn close_all(&self, opened: Opened) {
        self.close_all_but(opened, None).await;
    }

    /// The same, but `kept` stays open as what a question is about.
    pub async fn close_all_but(&self, opened: Opened, kept: Option<&AbsPath>) {
        let _entered = self.gate.enter().await;
        let room = self.peer.room().await;
        let rule = self.core.sync_rule();
        let mut open = self.core.documents();
        open.take_room(opened.0.len());
        let closes = |path: &&AbsPath| Some(*path) != kept && !open.is_unsaved(path);
        let saved: Vec<&AbsPath> = opened.0.iter().filter(closes).collect();
        if let Ok(room) = room
            && let Err(closed) = saved.into_iter().try_for_each(|path| open.close(&room, rule, path))
        {
            tracing::debug!(server = self.name(), %closed, "documents are not closed");
        }
    }

    /// Asks. `params` is given the document as the server has it.
    pub async fn ask(
        &self,
        document: Option<&Document>,
        method: &str,
        clock: Clock<'_>,
        params: impl Fn(Option<&Synced>, PositionEncoding) -> Value + Sync,
    ) -> Result<Asked, ServerError> {
        if clock.left().is_zero() {
            return Err(self.timeout(method, Duration::ZERO));
        }
        self.usage.begin();
        let _used = EndOfUse(&self.usage);
        let unheard = self.hear_news(clock).await?;
        // A question about one place is soon answered by a server that has loaded the project, or never.
        let total = if capabilities::QUICK.contains(&method) { clock.total / 3 } else { clock.total };
        // It may be one of several of a call, with less time than that: so much is told when it is over.
        let total = total.min(clock.left());
        let clock = Clock { total, ..clock.within(total) };
        let _entered = self.enter(method, clock).await?;
        self.openable(clock).await?;
        self.see_gone(method, clock).await?;
        let _held = document.map(|document| self.core.hold(&document.path));
        let encoding = self.core.capabilities().encoding();
        // One that finished loading while it answered may have answered before.
        let note = self.note().or(unheard);
        let mut pause = PAUSE;
        loop {
            let fresh = self.read_open(document.map(|document| &document.path));
            let room = self.room(method, clock).await?;
            let sent = {
                let rule = self.core.sync_rule();
                let mut documents = self.core.documents();
                self.sync_locked(&mut documents, rule, &room, &fresh, document)
                    .map_err(|closed| RequestError::Closed { method: method.to_owned(), closed })
                    .and_then(|target| {
                        let flight = room.request(method, &params(target.as_ref(), encoding))?;
                        Ok((flight, documents.snapshot()))
                    })
            };
            drop(room);
            let (flight, snapshot) = match sent {
                Ok(sent) => sent,
                Err(error) => return Err(self.request_error(error, clock).await),
            };
            let of = document.map(|document| format!(" of {}", self.core.workspace.relative(&document.path)));
            let waited = self.unanswered.ask(format!("{method}{}", of.unwrap_or_default()));
            let answer = flight.wait(clock.left(), clock.cancel).await;
            // What it was asked before is told with what became of this.
            let failed = match answer {
                Ok(raw) => {
                    waited.answered();
                    let (method, views) = (method.to_owned(), Views::default());
                    return Ok(Asked { method, raw, snapshot, encoding, note, views });
                }
                Err(error @ RequestError::Rpc { .. }) => {
                    waited.answered();
                    error
                }
                Err(error) => return Err(self.request_error(error, clock).await),
            };
            match failed {
                RequestError::Rpc { error, .. }
                    if capabilities::ASKED_AGAIN.contains(&method)
                        && matches!(error.code, codes::CONTENT_MODIFIED | codes::SERVER_CANCELLED)
                        && pause < clock.left() =>
                {
                    // A server that reads its project anew says so until it is done.
                    tokio::select! {
                        biased;
                        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
                error => return Err(self.request_error(error, clock).await),
            }
        }
    }

    /// An answer that came with an earlier one, read by the texts that the server has now.
    pub fn as_it_is(&self, method: &str) -> Asked {
        let encoding = self.core.capabilities().encoding();
        let snapshot = self.core.documents().snapshot();
        let raw = RawValue::NULL.to_owned();
        let views = Views::default();
        Asked { method: method.to_owned(), raw, snapshot, encoding, note: self.note(), views }
    }

    /// What is known of other files than these, which the server is about to hear of, may be wrong.
    pub fn moves<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let pushes = self.core.diagnostics.now().pushes;
        paths.for_each(|path| {
            self.core.diagnostics.moves(path, pushes);
            if self.reads(path) {
                self.core.documents().changed(path);
            }
        });
    }

    /// Tells, in order with everything else.
    pub async fn tell(&self, messages: &[(&str, Value)]) {
        let told = async {
            let room = self.peer.room().await?;
            messages.iter().try_for_each(|(method, params)| room.notify(method, params))
        };
        if let Err(closed) = told.await {
            tracing::debug!(server = self.name(), %closed, "not told");
        }
    }

    /// Reads an answer.
    pub fn read<T: DeserializeOwned>(&self, method: &str, raw: &RawValue) -> Result<T, ServerError> {
        serde_json::from_str(raw.get()).map_err(|error| self.protocol(method, error.to_string()))
    }

    /// Reads an answer of which parts stay as they came.
    pub fn read_borrowed<'a, T: serde::Deserialize<'a>>(
        &self,
        method: &str,
        raw: &'a RawValue,
    ) -> Result<T, ServerError> {
        serde_json::from_str(raw.get()).map_err(|error| self.protocol(method, error.to_string()))
    }

    pub fn protocol(&self, method: &str, reason: String) -> ServerError {
        ServerError::Protocol { server: self.name().to_owned(), method: method.to_owned(), reason }
    }

    pub fn refused(&self, code: ErrorCode, message: impl Into<String>) -> ServerError {
        ServerError::Refused { server: self.name().to_owned(), message: message.into(), code }
    }

    /// The documents that the server has open, and those of its own that an editor has not saved or that
    /// changed on the disk a moment ago, as they are now, but for `except`. Reads files.
    pub fn read_open(&self, except: Option<&AbsPath>) -> Vec<(AbsPath, Option<Document>)> {
        let mut paths = self.core.documents().paths();
        let may_open = self.may_open();
        let is_its = |path: &AbsPath| may_open && self.core.definition.language_id(path.as_path()).is_some();
        let mut changed = self.core.sweep.unshown();
        changed.retain(|path| is_its(path) && !paths.contains(path));
        paths.extend(changed);
        let unsaved =
            self.core.workspace.open_documents().into_iter().filter(|it| may_open && self.hides(it));
        let new: Vec<AbsPath> = unsaved.map(|it| it.path).filter(|path| !paths.contains(path)).collect();
        paths.extend(new);
        let others = paths.into_iter().filter(|path| Some(path) != except);
        others
            .filter_map(|path| match self.core.workspace.document(&path) {
                Ok(document) => Some((path, Some(document))),
                Err(workspace::ReadError::NotFound { .. }) => Some((path, None)),
                Err(error) => {
                    tracing::debug!(server = self.name(), %error, "an open document is left as it was");
                    None
                }
            })
            .collect()
    }

    /// Whether documents may be opened in it now.
    pub fn may_open(&self) -> bool {
        !self.core.definition.ready.before_opening || self.core.loading.is_ready()
    }

    /// Waits until documents may be opened in it, three quarters of the time at most.
    ///
    /// # Errors
    /// [`ServerError::Starting`] where they may not by then.
    pub async fn openable(&self, clock: Clock<'_>) -> Result<(), ServerError> {
        if self.may_open() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            _ = self.peer.closed() => Err(self.crashed("loading").await),
            ready = self.core.loading.wait(clock.at(75)) => match ready {
                true => Ok(()),
                false => Err(ServerError::Starting { server: self.name().to_owned(), detail: self.doing() }),
            },
        }
    }

    /// Whether the server, which reads files from the disk, cannot see what an editor has of this one.
    pub fn hides(&self, document: &Document) -> bool {
        document.owner == Owner::Editor { dirty: true }
            && self.core.definition.language_id(document.path.as_path()).is_some()
            && self.is_below(&document.path)
    }

    /// Whether a path lies in a folder that it works on.
    pub fn is_below(&self, path: &AbsPath) -> bool {
        path.starts_with(&self.core.root) || self.core.folders().iter().any(|it| path.starts_with(it))
    }

    /// Whether a file is of its languages, and there.
    pub fn is_source(&self, path: &AbsPath) -> bool {
        self.core.definition.language_id(path.as_path()).is_some() && self.is_below(path)
    }

    /// Whether what it says of its project depends on a file. Of what it watches that is what it knows by its
    /// name (`Cargo.lock`); what it knows by an ending alone may be in it or not (rust-analyzer 1.96 watches `*.md`).
    pub fn reads(&self, path: &AbsPath) -> bool {
        let definition = &self.core.definition;
        (definition.watch.workspace || self.is_below(path))
            && (wanted(definition, path) || self.core.watchers().names_whole(path))
    }

    pub fn sync(
        &self,
        room: &Room,
        fresh: &[(AbsPath, Option<Document>)],
        document: Option<&Document>,
    ) -> Result<Option<Synced>, wire::Closed> {
        let rule = self.core.sync_rule();
        let mut documents = self.core.documents();
        self.sync_locked(&mut documents, rule, room, fresh, document)
    }

    pub fn sync_locked(
        &self,
        documents: &mut crate::documents::OpenDocuments,
        rule: crate::documents::SyncRule,
        room: &Room,
        fresh: &[(AbsPath, Option<Document>)],
        document: Option<&Document>,
    ) -> Result<Option<Synced>, wire::Closed> {
        let now = self.core.diagnostics.now();
        let mut sync = |document: &Document| {
            let language = self.core.definition.language_id(document.path.as_path()).unwrap_or("plaintext");
            // One that is opened has the text on the disk, as far as the server knows.
            let unsaved = document.owner == Owner::Editor { dirty: true };
            let before = documents.number(&document.path);
            if before.is_none()
                && unsaved
                && self.core.definition.opens_saved
                && let Ok(saved) = self.core.workspace.saved(&document.path)
            {
                documents.sync(room, rule, &saved, language, now)?;
            }
            let synced = documents.sync(room, rule, document, language, now)?;
            if before.map_or(unsaved, |before| before != synced.number) {
                self.core.diagnostics.moves(&document.path, now.pushes);
            }
            Ok(synced)
        };
        let mut gone = Vec::new();
        for (path, document) in fresh {
            match document {
                Some(document) => {
                    sync(document)?;
                }
                None => gone.push(path),
            }
        }
        let target = document.map(&mut sync).transpose()?;
        if let Some(document) = document {
            documents.ask(&document.path);
        }
        self.core.sweep.showed(fresh.iter().map(|(path, _)| path).chain(document.map(|it| &it.path)));
        for path in gone {
            self.core.diagnostics.moves(path, now.pushes);
            documents.close(room, rule, path)?;
        }
        Ok(target)
    }

    /// Closes `closed`, tells of what happened to files, brings all open documents up to date, and tells
    /// the rest; for after a commit. In this order: of a file that is open already a server may not look
    /// whether it is new (tsserver 5.9).
    pub async fn refresh(
        &self,
        events: &[(AbsPath, u8)],
        closed: &[AbsPath],
        watched: &[Value],
        messages: &[(&str, Value)],
    ) {
        let _entered = self.gate.enter_to_change().await;
        let fresh = self.read_open(None);
        let told = async {
            let room = self.peer.room().await?;
            let rule = self.core.sync_rule();
            {
                let mut documents = self.core.documents();
                for path in closed {
                    documents.close(&room, rule, path)?;
                }
            }
            self.core.diagnostics.hears(events.iter().map(|(path, _)| path));
            if !watched.is_empty() {
                room.notify("workspace/didChangeWatchedFiles", &json!({"changes": watched}))?;
            }
            let fresh: Vec<_> = fresh.into_iter().filter(|(path, _)| !closed.contains(path)).collect();
            self.sync(&room, &fresh, None)?;
            messages.iter().try_for_each(|(method, params)| room.notify(method, params))
        };
        if let Err(closed) = told.await {
            tracing::debug!(server = self.name(), %closed, "not told of a commit");
        }
    }

    pub async fn room(&self, method: &str, clock: Clock<'_>) -> Result<Room, ServerError> {
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            room = tokio::time::timeout(clock.left(), self.peer.room()) => match room {
                Ok(Ok(room)) => Ok(room),
                Ok(Err(_)) => Err(self.crashed(method).await),
                Err(_) => Err(self.timeout(method, clock.total)),
            }
        }
    }

    pub fn timeout(&self, method: &str, after: Duration) -> ServerError {
        let details: Vec<String> =
            self.core.loading.describe().into_iter().chain(self.unanswered.describe()).collect();
        let detail = details.join("; ");
        // Of what was meant, a moment is gone before it is asked.
        let step = if after < Duration::from_secs(1) { 10 } else { 100 };
        let steps = (after + Duration::from_millis(step / 2)).as_millis() / u128::from(step);
        let after = Duration::from_millis(step.saturating_mul(u64::try_from(steps).unwrap_or(u64::MAX)));
        ServerError::Timeout { server: self.name().to_owned(), method: method.to_owned(), after, detail }
    }

    async fn request_error(&self, error: RequestError, clock: Clock<'_>) -> ServerError {
        match error {
            RequestError::Cancelled { .. } => ServerError::Cancelled,
            RequestError::Deadline { method, .. } => self.timeout(&method, clock.total),
            RequestError::Closed { method, .. } => self.crashed(&method).await,
            RequestError::Encode { method, reason } => self.protocol(&method, reason),
            RequestError::Rpc { method, error } => {
                let code = match error.code {
                    codes::METHOD_NOT_FOUND => ErrorCode::Unsupported,
                    codes::CONTENT_MODIFIED => ErrorCode::StaleText,
                    _ => ErrorCode::NotApplied,
                };
                self.refused(code, format!("{method}: {}", error.message))
            }
        }
    }

    /// What to say when the stream closed. Waits a little for the process, for its last words.
    pub async fn crashed(&self, during: &str) -> ServerError {
        if tokio::time::timeout(LAST_WORDS, self.process.exited()).await.is_err() {
            tracing::debug!(server = self.name(), "its stream is closed but its process lives");
        }
        let stderr_tail = last_lines(&self.process.stderr_tail(), 20);
        let server = self.name().to_owned();
        ServerError::Crashed { server, during: during.to_owned(), stderr_tail }
    }

    /// Closes its stream, for this.
    pub fn give_up(&self, why: &'static str) {
        self.begin_end(why);
        self.peer.close(why);
    }

    /// One that ended by itself before is not ended by us.
    fn begin_end(&self, why: &'static str) {
        if self.peer.is_closed().is_none() {
            self.ending.begin(why);
        }
    }

    /// `shutdown`, `exit`, then the end of the process and its group.
    pub async fn shutdown(&self, deadline: Duration, why: &'static str) {
        self.begin_end(why);
        let polite = async {
            let cancel = CancellationToken::new();
            if let Err(error) = self.peer.request("shutdown", &(), deadline, &cancel).await {
                tracing::debug!(server = self.name(), %error, "no answer to shutdown");
            }
            self.tell(&[("exit", Value::Null)]).await;
            self.peer.flush().await;
            self.process.exited().await
        };
        if tokio::time::timeout(deadline, polite).await.is_err() {
            tracing::debug!(server = self.name(), "it did not end by itself");
        }
        self.peer.close("it was shut down");
        self.process.end(Duration::from_millis(500)).await;
    }
}

impl Drop for Server {
    /// Its process ends with it.
    fn drop(&mut self) {
        self.begin_end("nobody needed it any more");
    }
}

struct EndOfUse<'a>(&'a Usage);

impl Drop for EndOfUse<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The last `count` lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_a_shortened_clock_are_of_what_it_has() {
        let cancel = CancellationToken::new();
        let clock = Clock::new(Duration::from_secs(60), &cancel);
        for (short, secs) in [(clock.within(Duration::from_secs(4)), 3.0), (clock.part(50), 22.5)] {
            let at = short.at(75).saturating_duration_since(short.began).as_secs_f64();
            assert!((at - secs).abs() < 0.5 && short.at(75) < short.until, "{at}");
            assert_eq!(short.total, clock.total);
        }
        assert!(clock.within(Duration::from_secs(90)).until <= clock.until);
    }
}
