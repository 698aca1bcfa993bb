//! What others do to files, as a server is told of it.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Peer, RequestError, Room};
use workspace::{AbsPath, Owner, ReadError};

use crate::core::Core;
use crate::error::ServerError;
use crate::server::{Clock, Server};
use crate::sweep::{CHANGED, CREATED, DELETED, Look, Reading, wanted};

/// How long a server may take to read its projects anew before it is asked all the same …
const REREAD: Duration = Duration::from_secs(20);
/// … and before it is taken to have forgotten it.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// How long a server waits for the answer to what it registers.
const FIRST_LOOK: Duration = Duration::from_secs(2);

impl Server {
    /// Tells it what others did to files, if it is time to look, at most until three quarters of the time are
    /// gone: one that reads its projects anew is asked what it knows by then. A word about it where the look
    /// is given up.
    pub async fn hear_news(&self, clock: Clock<'_>) -> Result<Option<String>, ServerError> {
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            () = self.sweep(Look::IfDue) => Ok(None),
            () = tokio::time::sleep_until(clock.at(75).into()) => {
                let said = "it was not found out in time what other programs changed on the disk, so this may be about older files";
                Ok(Some(format!("{}: {said}", self.name())))
            }
        }
    }

    /// Tells the server which files changed on disk since the last look. Many that want to know at once share
    /// one look that began after all of them asked. Cancel-safe: what was found is told, or found again.
    pub async fn sweep(&self, how: Look) {
        let core = &self.core;
        if !core.sweep.is_due() && how == Look::IfDue {
            return self.reread().await;
        }
        let asked = Instant::now();
        let Ok(_turn) = core.sweep.looking.acquire().await else { return };
        if how != Look::First && core.sweep.looked_since(asked) {
            return;
        }
        let began = Instant::now();
        let shared = Arc::clone(core);
        let watchers = core.watchers();
        let look = move || crate::sweep::look(&shared.workspace, &shared.root, &shared.definition, watchers);
        let Ok(seen) = tokio::task::spawn_blocking(look).await else { return };
        if how == Look::First {
            core.sweep.changes(seen, true);
            return;
        }
        let entered = self.gate.enter().await;
        // Nothing waits from here on: what counts as seen is told.
        let Ok(room) = self.peer.room().await else { return };
        let events = core.sweep.changes(seen, false);
        core.diagnostics.hears(events.iter().map(|(path, _)| path));
        // A server that did not ask to hear of it may watch files itself.
        // What it has open it is shown as it is, and that counts when it is; but what is on the disk now may be
        // found by others.
        let open: HashSet<AbsPath> = core.documents().paths().into_iter().collect();
        let is_news = |(path, kind): &&(AbsPath, u8)| *kind != CHANGED || !open.contains(path);
        let news: Vec<&AbsPath> = events.iter().filter(is_news).map(|(path, _)| path).collect();
        self.moves(news.iter().copied());
        core.sweep.changed(news.into_iter().filter(|path| self.is_source(path)));
        let own = events.iter().filter(|(path, _)| wanted(&core.definition, path));
        core.sweep.happened(&core.definition, &own.cloned().collect::<Vec<_>>());
        self.went(events.iter().filter(|(_, kind)| *kind == DELETED).map(|(path, _)| path));
        // Of one that it has open already a server may not look whether it is new (tsserver 5.9, ty 0.0.105): it
        // is opened again when it is needed.
        let came = || events.iter().filter(|(path, kind)| *kind == CREATED && open.contains(path));
        // One that went is closed before the server hears of it: what is open is there (basedpyright 1.40.2).
        let went = events.iter().filter(|(path, kind)| {
            let is_gone = || matches!(core.workspace.document(path), Err(ReadError::NotFound { .. }));
            *kind == DELETED && open.contains(path) && is_gone()
        });
        let told = {
            let rule = core.sync_rule();
            let closes: Vec<&AbsPath> = came().chain(went).map(|(path, _)| path).collect();
            let mut documents = core.documents();
            closes.into_iter().try_for_each(|path| documents.close(&room, rule, path))
        };
        core.sweep.closed(came().map(|(path, _)| path));
        let mut all = events.clone();
        if core.definition.watch.by_marker {
            all.extend(came().filter_map(|(path, _)| self.marker(path)));
            all.dedup();
        }
        let watched = crate::commit::watched(self, &all);
        let told = told.and_then(|()| match watched.is_empty() {
            true => Ok(()),
            false => room.notify("workspace/didChangeWatchedFiles", &json!({"changes": watched})),
        });
        let told = told.and_then(|()| self.tell_saved(&room, &events, &open));
        if let Err(closed) = told {
            tracing::debug!(server = self.name(), %closed, "not told of changed files");
        }
        drop(room);
        drop(entered);
        self.reread().await;
        core.sweep.looked(began);
    }

    /// A marker of the package of a file of the server, as if it had changed: one that is there, else as not there.
    pub fn marker(&self, path: &AbsPath) -> Option<(AbsPath, u8)> {
        if self.core.definition.language_id(path.as_path()).is_none() || !self.is_below(path) {
            return None;
        }
        let depth = |it: &&AbsPath| it.as_path().components().count();
        let folder = self.core.folders().iter().filter(|it| path.starts_with(it)).max_by_key(depth).cloned();
        let folder = folder.unwrap_or_else(|| self.core.root.clone());
        let named = self.core.definition.root.markers.iter().filter(|it| !it.contains('*'));
        let mut markers = named.map(|marker| folder.join(marker));
        let first = markers.clone().next()?;
        let found = markers.find(|it| it.as_path().is_file());
        Some(found.map_or((first, DELETED), |found| (found, CHANGED)))
    }

    /// Tells of files that it has `open` and that somebody saved, as they are now: some look at a file only then.
    fn tell_saved(
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
            let Some(params) = crate::commit::did_save(self, &document) else { continue };
            if document.owner != (Owner::Editor { dirty: true }) {
                self.sync(room, &[(path.clone(), Some(document))], None)?;
                room.notify("textDocument/didSave", &params)?;
            }
        }
        Ok(())
    }

    /// Has a server that is not told of files that came or went read its projects anew, where its definition
    /// names a command for that, and waits until it has, up to [`REREAD`]. Cancel-safe: it goes on, and who comes
    /// later waits for the same; for no second one that is about nothing more.
    async fn reread(&self) {
        let Some(command) = &self.core.definition.watch.command else { return };
        // One that is on may have begun before the last of what happened.
        let on = self.core.sweep.reading.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (Some(_), Some(on)) = (self.core.sweep.unread(), on) {
            on.wait().await;
        }
        let on = {
            let mut reading = self.core.sweep.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(happened) = self.core.sweep.unread() else { return };
            match reading.as_ref().filter(|on| on.is_enough(happened)) {
                Some(on) => on.clone(),
                None => {
                    let ended = CancellationToken::new();
                    let on = Reading { happened, ended: ended.clone(), until: Instant::now() + REREAD };
                    *reading = Some(on.clone());
                    let (core, peer) = (Arc::clone(&self.core), self.peer.clone());
                    let read = read_anew(core, peer, command.clone(), happened, ended.drop_guard());
                    self.tracker.spawn(read);
                    on
                }
            }
        };
        on.wait().await;
    }
}

/// Looks at what the server has just registered, so that what comes of it from now on is known to be new. Where
/// that takes too long it is left to the next look.
pub(crate) async fn registered(core: &Arc<Core>) {
    let watchers = core.watchers();
    if core.sweep.knows_of(&watchers) {
        return;
    }
    let shared = Arc::clone(core);
    let look = move || crate::sweep::look(&shared.workspace, &shared.root, &shared.definition, watchers);
    match tokio::time::timeout(FIRST_LOOK, tokio::task::spawn_blocking(look)).await {
        Ok(Ok(seen)) => core.sweep.begins(seen),
        Ok(Err(_)) | Err(_) => {
            tracing::debug!(server = core.definition.name, "not looked at what it watches")
        }
    }
}

/// A task of the pool; it ends with the server's stream.
async fn read_anew(core: Arc<Core>, peer: Peer, command: String, happened: u64, ended: DropGuard) {
    let params = json!({"command": command, "arguments": []});
    let cancel = CancellationToken::new();
    match peer.request("workspace/executeCommand", &params, FORGOTTEN, &cancel).await {
        Err(error @ RequestError::Deadline { .. }) => {
            tracing::debug!(server = core.definition.name, %error, "it did not say that it read its projects");
        }
        Err(error) => {
            tracing::warn!(server = core.definition.name, %error, "it does not read its projects anew");
            core.sweep.read(happened);
        }
        Ok(_) => core.sweep.read(happened),
    }
    drop(ended);
}
