//! Documents that the server has open, kept as the workspace has them.
//!
//! Invariants: nothing is sent between the texts of the documents and the request that they are for.

use std::collections::HashMap;

use paths::AbsPath;
use serde_json::{Value, json};
use wire::Room;
use workspace::Document;

use crate::diagnostics::Reader;
use crate::error::{Result, ServerError};
use crate::files::file_poll::wanted;
use crate::server::documents::Synced;
use crate::server::gate::Entered;
use crate::server::{Clock, Server};

/// Documents opened for one request.
#[must_use = "they stay open until close_all"]
pub(crate) struct Opened(Vec<AbsPath>);

impl Server {
    /// Sends the current text of `document`, and of all open documents.
    pub async fn open(&self, document: &Document, clock: Clock<'_>) -> Result<Synced> {
        let entered = self.enter("textDocument/didOpen", clock).await?;
        self.open_entered(&entered, document, clock).await
    }

    /// Waits for a speculative edit to end.
    pub async fn enter(&self, method: &str, clock: Clock<'_>) -> Result<Entered> {
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            entered = tokio::time::timeout(clock.left(), self.gate.enter()) => {
                entered.map_err(|_| self.timeout(method, clock.total))
            }
        }
    }

    /// Opens a document like [`Server::open`], for a caller inside the gate.
    pub(crate) async fn open_entered(
        &self,
        _: &Entered,
        document: &Document,
        clock: Clock<'_>,
    ) -> Result<Synced> {
        let fresh = self.read_open(Some(&document.path));
        let room = self.room("textDocument/didOpen", clock).await?;
        match self.sync(&room, &fresh, Some(document)) {
            Ok(Some(synced)) => Ok(synced),
            Ok(None) | Err(_) => Err(self.crashed("textDocument/didOpen").await),
        }
    }

    /// Reopens `document`, so that its diagnostics reflect all earlier messages.
    pub async fn reopen(&self, _: &Entered, document: &Document, clock: Clock<'_>) -> Result<Synced> {
        let fresh = self.read_open(Some(&document.path));
        let room = self.room("textDocument/didOpen", clock).await?;
        let sent = {
            let rule = self.core.sync_rule();
            let mut documents = self.core.documents();
            documents
                .close(&room, rule, &document.path)
                .and_then(|()| self.sync_locked(&mut documents, rule, &room, &fresh, Some(document)))
        };
        match sent {
            Ok(Some(synced)) => Ok(synced),
            Ok(None) | Err(_) => Err(self.crashed("textDocument/didOpen").await),
        }
    }

    /// Makes the server recheck an open document after all earlier messages.
    pub async fn recheck(&self, entered: &Entered, document: &Document, clock: Clock<'_>) -> Result<Synced> {
        let by_change = self.core.definition.diagnostics.recheck.is_some();
        if self.core.diagnostics.is_versioned() && !by_change {
            return self.reopen(entered, document, clock).await;
        }
        // The server would publish an empty list for a closed document, which without versions
        // could be about any text. Files that include it would briefly see the text on the disk.
        let open = self.open_entered(entered, document, clock).await?;
        let room = self.room("textDocument/didChange", clock).await?;
        let rule = self.core.sync_rule();
        let now = self.core.diagnostics.now();
        match self.core.documents().send_again(&room, rule, &document.path, now) {
            Ok(again) => return Ok(again.unwrap_or(open)),
            Err(closed) => tracing::debug!(server = self.name(), %closed, "a document was not sent again"),
        }
        drop(room);
        Err(self.crashed("textDocument/didChange").await)
    }

    /// Sends the current texts of `documents` and of all open ones.
    ///
    /// Returns the versions before, by path.
    pub async fn show_all(
        &self,
        documents: &[&Document],
        clock: Clock<'_>,
    ) -> Result<HashMap<AbsPath, Option<i32>>> {
        let _entered = self.enter("textDocument/didOpen", clock).await?;
        let mut fresh = self.read_open(None);
        fresh.retain(|(path, _)| documents.iter().all(|document| document.path != *path));
        fresh.extend(documents.iter().map(|document| (document.path.clone(), Some((*document).clone()))));
        let room = self.room("textDocument/didOpen", clock).await?;
        let (before, sent) = {
            let rule = self.core.sync_rule();
            let mut open = self.core.documents();
            let number = |document: &&Document| (document.path.clone(), open.number(&document.path));
            let before = documents.iter().map(number).collect();
            (before, self.sync_locked(&mut open, rule, &room, &fresh, None))
        };
        match sent {
            Ok(_) => Ok(before),
            Err(_) => Err(self.crashed("textDocument/didOpen").await),
        }
    }

    /// Opens `documents` for one request.
    ///
    /// The caller calls [`Server::close_all`] with the result.
    pub(crate) async fn open_all(&self, documents: &[Document], clock: Clock<'_>) -> Result<Opened> {
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

    /// Waits until the server has published diagnostics for each of `documents`.
    ///
    /// The server has read them by then. Waits at most three quarters of the time.
    pub(crate) async fn wait_until_read(&self, documents: &[Document], clock: Clock<'_>) {
        let synced = self.core.documents().snapshot();
        let until = clock.at(75);
        for document in documents {
            let Some(synced) = synced.get(&document.path) else { continue };
            // The diagnostics do not matter here; without any the request is sent too.
            let said = self.core.diagnostics.wait(&document.path, synced, until, Reader::Any);
            tokio::select! {
                said = said => tracing::trace!(known = said.is_some(), "{}", document.path),
                () = clock.cancel.cancelled() => return,
                _ = self.peer.closed() => return,
            }
        }
    }

    /// Closes one document, unless it has unsaved text.
    pub async fn close(&self, path: &AbsPath) {
        let _entered = self.gate.enter().await;
        let Ok(room) = self.peer.room().await else { return };
        let rule = self.core.sync_rule();
        let mut open = self.core.documents();
        if open.is_unsaved(path) {
            return;
        }
        if let Err(closed) = open.close(&room, rule, path) {
            tracing::debug!(server = self.name(), %closed, "a document was not closed");
        }
    }

    /// Closes the documents of one request, except those with unsaved text.
    pub async fn close_all(&self, opened: Opened) {
        self.close_all_but(opened, None).await;
    }

    /// Closes all but `kept`, which a request is about.
    pub(crate) async fn close_all_but(&self, opened: Opened, kept: Option<&AbsPath>) {
        let _entered = self.gate.enter().await;
        let room = self.peer.room().await;
        let rule = self.core.sync_rule();
        let mut open = self.core.documents();
        open.take_room(opened.0.len());
        let closes = |path: &&AbsPath| Some(*path) != kept && !open.is_unsaved(path) && !open.is_kept(path);
        let saved: Vec<&AbsPath> = opened.0.iter().filter(closes).collect();
        if let Ok(room) = room
            && let Err(closed) = saved.into_iter().try_for_each(|path| open.close(&room, rule, path))
        {
            tracing::debug!(server = self.name(), %closed, "documents were not closed");
        }
    }

    /// The current texts of open documents and of files to be opened.
    ///
    /// These are the server's own files with unsaved text or recent changes, except `except`. Reads files.
    pub(crate) fn read_open(&self, except: Option<&AbsPath>) -> Vec<(AbsPath, Option<Document>)> {
        let mut paths = self.core.documents().paths();
        let may_open = self.may_open();
        let is_its = |path: &AbsPath| may_open && self.core.definition.language_id(path.as_path()).is_some();
        let mut changed = self.core.file_poller.pending_resync();
        changed.retain(|path| is_its(path) && !paths.contains(path));
        paths.extend(changed);
        let unsaved =
            self.core.workspace.open_documents().into_iter().filter(|it| may_open && self.hides(it));
        let new: Vec<AbsPath> = unsaved.map(|it| it.path).filter(|path| !paths.contains(path)).collect();
        paths.extend(new);
        let others = paths.into_iter().filter(|path| Some(path) != except);
        others
            .filter_map(|path| match self.core.read.document(&self.core.workspace, &path) {
                Ok(document) => Some((path, Some(document))),
                Err(workspace::ReadError::NotFound { .. }) => Some((path, None)),
                Err(error) => {
                    tracing::debug!(server = self.name(), %error, "an open document cannot be read");
                    None
                }
            })
            .collect()
    }

    /// Whether documents may be opened now.
    pub(crate) fn may_open(&self) -> bool {
        !self.core.definition.ready.delay_open || self.core.loading.is_ready()
    }

    /// Waits until documents may be opened, for at most three quarters of the time.
    ///
    /// # Errors
    /// [`ServerError::Starting`] where they may not by then.
    pub(crate) async fn openable(&self, clock: Clock<'_>) -> Result<()> {
        if self.may_open() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            _ = self.peer.closed() => Err(self.crashed("loading").await),
            ready = self.core.loading.wait(clock.at(75)) => match ready {
                true => Ok(()),
                false => Err(self.loading()),
            },
        }
    }

    /// Whether the server reads this document from disk, without its unsaved text.
    pub fn hides(&self, document: &Document) -> bool {
        document.is_unsaved()
            && self.core.definition.language_id(document.path.as_path()).is_some()
            && self.is_below(&document.path)
    }

    /// Whether a path is in a directory of the server.
    pub fn is_below(&self, path: &AbsPath) -> bool {
        path.starts_with(&self.core.root) || self.core.folders().iter().any(|it| path.starts_with(it))
    }

    /// Whether a file has a language of the server and is in one of its directories.
    pub fn is_source(&self, path: &AbsPath) -> bool {
        self.core.definition.language_id(path.as_path()).is_some() && self.is_below(path)
    }

    /// Whether the server's project depends on a file.
    ///
    /// Watched files count if the server names them (`Cargo.lock`); others that match by extension may not
    /// belong to it (rust-analyzer 1.96 watches `*.md`).
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

    pub(crate) fn sync_locked(
        &self,
        documents: &mut crate::server::documents::OpenDocuments,
        rule: crate::server::documents::SyncRule,
        room: &Room,
        fresh: &[(AbsPath, Option<Document>)],
        document: Option<&Document>,
    ) -> Result<Option<Synced>, wire::Closed> {
        let now = self.core.diagnostics.now();
        let mut sync = |document: &Document| {
            let language = self.core.definition.language_id(document.path.as_path()).unwrap_or("plaintext");
            // The server knows the disk text of a document that is opened.
            let unsaved = document.is_unsaved();
            let before = documents.number(&document.path);
            if before.is_none()
                && unsaved
                && self.core.definition.open_saved_text
                && let Ok(saved) = self.core.workspace.saved(&document.path)
            {
                documents.sync(room, rule, &saved, language, now)?;
            }
            let synced = documents.sync(room, rule, document, language, now)?;
            if before.map_or(unsaved, |before| before != synced.number) {
                self.core.diagnostics.record_change(&document.path, now.pushes);
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
        self.core.file_poller.resynced(fresh.iter().map(|(path, _)| path).chain(document.map(|it| &it.path)));
        for path in gone {
            self.core.diagnostics.record_change(path, now.pushes);
            documents.close(room, rule, path)?;
        }
        Ok(target)
    }

    /// Updates the server after a commit.
    ///
    /// Closes `closed`, notifies the server of changed files, syncs all open documents, and sends
    /// `messages`, in this order: a server may not check whether a file is new that is open already
    /// (tsserver 5.9).
    pub async fn refresh(
        &self,
        events: &[(AbsPath, u8)],
        closed: &[AbsPath],
        watched: &[Value],
        messages: &[(&str, Value)],
    ) {
        let _entered = self.gate.enter_to_change().await;
        let fresh = self.read_open(None);
        let sent = async {
            let room = self.peer.room().await?;
            let rule = self.core.sync_rule();
            {
                let mut documents = self.core.documents();
                for path in closed {
                    documents.close(&room, rule, path)?;
                }
            }
            self.core.diagnostics.record_disk_changes(events.iter().map(|(path, _)| path));
            if !watched.is_empty() {
                room.notify("workspace/didChangeWatchedFiles", &json!({"changes": watched}))?;
            }
            let fresh: Vec<_> = fresh.into_iter().filter(|(path, _)| !closed.contains(path)).collect();
            self.sync(&room, &fresh, None)?;
            messages.iter().try_for_each(|(method, params)| room.notify(method, params))
        };
        if let Err(closed) = sent.await {
            tracing::debug!(server = self.name(), %closed, "a commit was not sent");
        }
    }
}
