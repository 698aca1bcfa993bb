//! Reload: the pool ends servers and restarts them with the current definitions.
//!
//! Invariants: a server of a changed or deleted definition does not stay, and one that does not
//! shut down in time is killed.

use std::sync::Arc;
use std::time::Duration;

use paths::AbsPath;
use process::deadlines;

use super::ServerPool;
use super::slot::{Slot, SlotState};
use crate::error::{Result, ServerError};
use crate::server::{Clock, Server};
use adapters::ServerDefinitions;

/// The reason for ending a server whose definition changed.
pub(super) const CHANGED: &str = "its definition was changed";

impl ServerPool {
    /// Restarts the servers of a file, or all that run; returns their names.
    ///
    /// Only `name` if one is given.
    pub(crate) async fn restart(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        name: Option<&str>,
        clock: Clock<'_>,
    ) -> Result<Vec<String>> {
        let mut slots = self.slots();
        slots.retain(|slot| {
            let definition = slot.definition();
            let here = path.is_none_or(|path| {
                definition.language_id(path.as_path()).is_some()
                    && slot.works_on(&self.root_of(&definition, path))
            });
            let known = slot.state().server.is_some() || slot.state().failures > 0;
            here && known && name.is_none_or(|name| name == slot.name)
        });
        self.ahead.clear_failures();
        let gone = self.reread(clock).await?;
        slots.retain(|slot| !gone.iter().any(|gone| Arc::ptr_eq(gone, slot)));
        let mut names = Vec::new();
        for slot in &slots {
            {
                let mut state = slot.state();
                // The caller has probably fixed the cause of earlier failures.
                (state.failures, state.not_before) = (0, None);
            }
            self.end(slot, "it was restarted", clock).await?;
            self.start_in(slot, clock).await?;
            names.push(slot.name.clone());
        }
        if let (Some(path), true) = (path, slots.is_empty()) {
            let started = self.all_of(path, name, clock).await?;
            names.extend(started.iter().map(|server| server.name().to_owned()));
        }
        Ok(names)
    }

    /// Reloads the definitions, and ends the servers of those that changed.
    ///
    /// Returns the slots without a definition.
    async fn reread(self: &Arc<Self>, clock: Clock<'_>) -> Result<Vec<Arc<Slot>>> {
        let Some(reread) = self.reread.clone() else { return Ok(Vec::new()) };
        let fresh = tokio::select! {
            biased;
            () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
            fresh = tokio::task::spawn_blocking(move || reread()) => fresh,
        };
        // Definitions that could not be loaded at all (a panic) change nothing.
        let Ok(fresh) = fresh else { return Ok(Vec::new()) };
        self.take(fresh, clock).await
    }

    /// Replaces the definitions and returns the servers of changed ones.
    ///
    /// These servers are ended in the background. Called within a tokio runtime.
    pub fn take_definitions(self: &Arc<Self>, fresh: ServerDefinitions) -> Vec<String> {
        let names = self.definitions().differences(&fresh);
        if names.is_empty() {
            // The definitions of refused files may have changed too.
            let fresh = self.definitions().with(fresh, &names);
            *self.definitions.lock() = Arc::new(fresh);
            return names;
        }
        let fresh = self.definitions().with(fresh, &names);
        let this = Arc::clone(self);
        self.tracker.spawn(async move {
            let clock = Clock::new(deadlines::SERVER_RESTART * 2, &this.stop);
            if let Err(error) = this.take(fresh, clock).await {
                tracing::debug!(%error, "servers of changed definitions were killed");
            }
        });
        names
    }

    async fn take(self: &Arc<Self>, fresh: ServerDefinitions, clock: Clock<'_>) -> Result<Vec<Arc<Slot>>> {
        let fresh = Arc::new(fresh);
        *self.definitions.lock() = Arc::clone(&fresh);
        let mut gone = Vec::new();
        for slot in self.slots() {
            let definition = fresh.get(&slot.name);
            if definition.is_some_and(|it| Arc::ptr_eq(it, &slot.definition())) {
                continue;
            }
            // No request starts the old server meanwhile. The pool drops a server whose start takes
            // too long.
            let starting = Arc::clone(&slot.starting).acquire_owned();
            let _alone = tokio::select! {
                biased;
                () = clock.cancel.cancelled() => None,
                permit = tokio::time::timeout(clock.left(), starting) => permit.ok().and_then(Result::ok),
            };
            match definition {
                Some(definition) => {
                    let ended = self.end(&slot, CHANGED, clock).await;
                    {
                        let mut state = slot.state();
                        let open = std::mem::take(&mut state.open);
                        *state = SlotState { open, ..SlotState::new(definition, state.folders.clone()) };
                    }
                    ended?;
                }
                None => {
                    self.slots.lock().retain(|_, known| !Arc::ptr_eq(known, &slot));
                    self.end(&slot, "its definition was deleted", clock).await?;
                    gone.push(slot);
                }
            }
        }
        Ok(gone)
    }

    /// Ends the server of a slot. If cancelled, kills it.
    async fn end(self: &Arc<Self>, slot: &Slot, why: &'static str, clock: Clock<'_>) -> Result<()> {
        let server = {
            let mut state = slot.state();
            let Some(server) = state.server.take() else { return Ok(()) };
            state.open = server.core.documents().asked();
            server
        };
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => {}
            () = server.shutdown(deadlines::SERVER_RESTART.min(clock.left()), why) => return Ok(()),
        }
        self.end_now(server, why);
        Err(ServerError::Cancelled)
    }

    /// Ends the server in a task of the pool.
    pub(super) fn end_now(&self, server: Arc<Server>, why: &'static str) {
        server.give_up(why);
        self.tracker.spawn(async move { server.process.end(Duration::ZERO).await });
    }
}
