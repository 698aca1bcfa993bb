//! Notification of servers about changes of other programs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use paths::{AbsPath, path_to_uri};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Peer, RequestError, Room};
use workspace::{Document, ReadError};

use crate::error::{Result, ServerError};
use crate::files::file_poll::{CHANGED, CREATED, DELETED, PollMode, ProjectReload, wanted};
use crate::note::Note;
use crate::server::core::Core;
use crate::server::{Clock, Server};

/// Maximum time for which requests wait for a server that reloads its projects.
const REREAD: Duration = Duration::from_secs(20);
/// Time after which a reload counts as lost.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Maximum time for which a server waits for the response to its registration.
const FIRST_SCAN: Duration = Duration::from_secs(2);

impl Server {
    /// Notifies the server of changes of other programs if a scan is due.
    ///
    /// Takes at most three quarters of the time: a server that reloads its projects answers by its state at
    /// that time. Returns a note if the scan did not finish.
    pub(crate) async fn report_external_changes(&self, clock: Clock<'_>) -> Result<Option<Note>> {
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            () = self.poll_files(PollMode::IfDue) => Ok(None),
            () = tokio::time::sleep_until(clock.at(75).into()) => {
                Ok(Some(Note::ScanUnfinished { server: self.name().to_owned() }))
            }
        }
    }

    /// Scans the disk and notifies the server of changes.
    ///
    /// Requests that need a current scan share one that began after all of them. Cancel-safe: changes that
    /// were found are reported, or found again.
    pub(crate) async fn poll_files(&self, how: PollMode) {
        let core = &self.core;
        if how != PollMode::First && core.file_poller.is_current() {
            return self.reload_projects().await;
        }
        if !core.file_poller.is_due() && how == PollMode::IfDue {
            return self.reload_projects().await;
        }
        let asked = Instant::now();
        let Ok(_turn) = core.file_poller.scan_permit.acquire().await else { return };
        if how != PollMode::First && core.file_poller.scanned_since(asked) {
            return;
        }
        let began = Instant::now();
        let number = core.file_poller.begin_scan();
        let shared = Arc::clone(core);
        let watchers = core.watchers();
        let scan = move || {
            let Core { workspace, root, definition, file_poller, .. } = &*shared;
            crate::files::file_poll::scan(workspace, root, definition, watchers, file_poller)
        };
        let Ok(snapshot) = tokio::task::spawn_blocking(scan).await else { return };
        if how == PollMode::First {
            core.file_poller.changes(snapshot, true);
            core.file_poller.record_scan(began, number);
            return;
        }
        let entered = self.gate.enter().await;
        // Nothing awaits from here on, so that recorded changes are reported.
        let Ok(room) = self.peer.room().await else { return };
        let events = core.file_poller.changes(snapshot, false);
        core.diagnostics.record_disk_changes(events.iter().map(|(path, _)| path));
        // A server that registered no watcher may watch files itself. It receives the texts of open
        // files; other files may use the text on the disk.
        let open: HashSet<AbsPath> = core.documents().paths().into_iter().collect();
        let is_unknown = |(path, kind): &&(AbsPath, u8)| *kind != CHANGED || !open.contains(path);
        let unknown: Vec<&AbsPath> = events.iter().filter(is_unknown).map(|(path, _)| path).collect();
        self.record_changes(unknown.iter().copied());
        core.file_poller.changed(unknown.into_iter().filter(|path| self.is_source(path)));
        let own = events.iter().filter(|(path, _)| wanted(&core.definition, path));
        core.file_poller.record_events(&core.definition, &own.cloned().collect::<Vec<_>>());
        self.record_deletions(events.iter().filter(|(_, kind)| *kind == DELETED).map(|(path, _)| path));
        // A server may not check whether an open file is new (tsserver 5.9, ty 0.0.105), so it is closed and
        // reopened when it is needed.
        let created = || events.iter().filter(|(path, kind)| *kind == CREATED && open.contains(path));
        // A deleted file is closed before the notification: an open file exists for the server (basedpyright
        // 1.40.2).
        let deleted = events.iter().filter(|(path, kind)| {
            let is_gone = || matches!(core.workspace.document(path), Err(ReadError::NotFound { .. }));
            *kind == DELETED && open.contains(path) && is_gone()
        });
        let sent = {
            let rule = core.sync_rule();
            let closes: Vec<&AbsPath> = created().chain(deleted).map(|(path, _)| path).collect();
            let mut documents = core.documents();
            closes.into_iter().try_for_each(|path| documents.close(&room, rule, path))
        };
        core.file_poller.reopen_later(created().map(|(path, _)| path));
        let mut all = events.clone();
        if core.definition.watch.touch_marker {
            all.extend(created().filter_map(|(path, _)| self.marker(path)));
            all.dedup();
        }
        let watched = watched(self, &all);
        let sent = sent.and_then(|()| match watched.is_empty() {
            true => Ok(()),
            false => room.notify("workspace/didChangeWatchedFiles", &json!({"changes": watched})),
        });
        let sent = sent.and_then(|()| self.notify_saved(&room, &events, &open));
        if let Err(closed) = sent {
            tracing::debug!(server = self.name(), %closed, "a notification of changed files was not sent");
        }
        drop(room);
        drop(entered);
        self.reload_projects().await;
        core.file_poller.record_scan(began, number);
    }

    /// The root marker to report as changed for a file.
    ///
    /// Returns an existing marker, else the first one as deleted.
    pub fn marker(&self, path: &AbsPath) -> Option<(AbsPath, u8)> {
        if self.core.definition.language_id(path.as_path()).is_none() || !self.is_below(path) {
            return None;
        }
        let depth = |it: &&AbsPath| it.as_path().components().count();
        let directory =
            self.core.folders().iter().filter(|it| path.starts_with(it)).max_by_key(depth).cloned();
        let directory = directory.unwrap_or_else(|| self.core.root.clone());
        let named = self.core.definition.root.markers.iter().filter(|it| !it.contains('*'));
        let mut markers = named.map(|marker| directory.join(marker));
        let first = markers.clone().next()?;
        let found = markers.find(|it| it.as_path().is_file());
        Some(found.map_or((first, DELETED), |found| (found, CHANGED)))
    }

    /// Sends `didSave` for open files that another program saved.
    ///
    /// Some servers check a file only then.
    fn notify_saved(
        &self,
        room: &Room,
        events: &[(AbsPath, u8)],
        open: &HashSet<AbsPath>,
    ) -> Result<(), wire::Closed> {
        if self.core.capabilities().save().is_none() {
            return Ok(());
        }
        for (path, _) in events.iter().filter(|(path, kind)| *kind == CHANGED && open.contains(path)) {
            let Ok(document) = self.core.workspace.document(path) else { continue };
            let Some(params) = did_save(self, &document) else { continue };
            if !document.is_unsaved() {
                self.sync(room, &[(path.clone(), Some(document))], None)?;
                room.notify("textDocument/didSave", &params)?;
            }
        }
        Ok(())
    }

    /// Makes a server reload its projects if files were created or deleted unnoticed.
    ///
    /// Sends the definition's command and waits for the end, up to [`REREAD`]. Cancel-safe: the reload
    /// continues, later callers wait for the same one, and no second one starts for the same changes.
    async fn reload_projects(&self) {
        let Some(command) = &self.core.definition.watch.reload_command else { return };
        // A running reload may have begun before the last change.
        let on = self.core.file_poller.reload.lock().clone();
        if let (Some(_), Some(on)) = (self.core.file_poller.pending_reload(), on) {
            on.wait().await;
        }
        let on = {
            let mut reading = self.core.file_poller.reload.lock();
            let Some(happened) = self.core.file_poller.pending_reload() else { return };
            match reading.as_ref().filter(|on| on.covers(happened)) {
                Some(on) => on.clone(),
                None => {
                    let ended = CancellationToken::new();
                    let on = ProjectReload { happened, ended: ended.clone(), until: Instant::now() + REREAD };
                    *reading = Some(on.clone());
                    let (core, peer) = (Arc::clone(&self.core), self.peer.clone());
                    let read = request_reload(core, peer, command.clone(), happened, ended.drop_guard());
                    self.tracker.spawn(read);
                    on
                }
            }
        };
        on.wait().await;
    }
}

/// Scans newly registered files, so that later changes are known to be new.
///
/// If the time is too short, the next scan includes them.
pub(crate) async fn registered(core: &Arc<Core>) {
    let watchers = core.watchers();
    if core.file_poller.has_scanned(&watchers) {
        return;
    }
    let shared = Arc::clone(core);
    let number = core.file_poller.current_scan();
    let scan = move || {
        let Core { workspace, root, definition, file_poller, .. } = &*shared;
        crate::files::file_poll::scan(workspace, root, definition, watchers, file_poller)
    };
    match tokio::time::timeout(FIRST_SCAN, tokio::task::spawn_blocking(scan)).await {
        Ok(Ok(snapshot)) => core.file_poller.add_registered(snapshot, number),
        Ok(Err(_)) | Err(_) => {
            tracing::debug!(server = core.definition.name, "registered files were not scanned in time")
        }
    }
}

/// Requests the reload and waits for its response.
///
/// Runs as a task of the pool, which ends with the server's stream.
async fn request_reload(core: Arc<Core>, peer: Peer, command: String, happened: u64, ended: DropGuard) {
    let params = json!({"command": command, "arguments": []});
    let cancel = CancellationToken::new();
    match peer.request("workspace/executeCommand", &params, FORGOTTEN, &cancel).await {
        Err(error @ RequestError::Deadline { .. }) => {
            tracing::debug!(server = core.definition.name, %error, "no response to the reload of its projects");
        }
        Err(error) => {
            tracing::warn!(server = core.definition.name, %error, "the reload of its projects failed");
            core.file_poller.reloaded(happened);
        }
        Ok(_) => core.file_poller.reloaded(happened),
    }
    drop(ended);
}

/// Builds `DidSaveTextDocumentParams`; `None` if the server accepts no `didSave`.
pub(crate) fn did_save(server: &Server, document: &Document) -> Option<Value> {
    let options = server.core.capabilities().save()?;
    let mut params = json!({"textDocument": {"uri": path_to_uri(document.path.as_path())}});
    if options["includeText"] == true {
        params["text"] = json!(&*document.text);
    }
    Some(params)
}

/// The events that match a watcher of the server (LSP 3.17 §DidChangeWatchedFiles).
pub(crate) fn watched(server: &Server, events: &[(AbsPath, u8)]) -> Vec<Value> {
    let watchers = server.core.watchers();
    let wanted = events.iter().filter(|(path, kind)| watchers.reports(path, *kind));
    wanted.map(|(path, kind)| json!({"uri": path_to_uri(path.as_path()), "type": kind})).collect()
}
