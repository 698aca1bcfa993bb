//! Sessions shared with joined clients: control, the socket, and the agent's departure.

use std::sync::atomic::Ordering;

use paths::{AbsPath, StateDir};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use workspace::RunId;

use super::{Clock, Controller, HubStatus, Session, SessionListener};
use crate::debuggee::State;
use crate::error::{DapError, Result};
use crate::hub::{HubHandle, Input};

impl Session {
    /// The hub that clients join.
    pub fn hub(&self) -> &HubHandle {
        &self.hub
    }

    /// The socket at which other processes join, once the program runs.
    pub fn socket_path(&self) -> Option<AbsPath> {
        self.listener.get().and_then(SessionListener::path)
    }

    /// Lets other processes join.
    pub(crate) fn listen(&self, directory: &StateDir, tracker: &TaskTracker) {
        match SessionListener::open(directory, &self.id, &self.hub, tracker) {
            Ok(listener) => drop(self.listener.set(listener)),
            Err(error) => tracing::warn!(session = self.id, "no other process can join it: {error}"),
        }
    }

    /// The session's names, including those it replaced, oldest first.
    fn names(&self) -> Vec<String> {
        let previous = self.previous_names.lock();
        previous.iter().map(|(name, _)| name.clone()).chain([self.id.clone()]).collect()
    }

    /// Makes the names of `before` resolve to this session.
    pub(crate) fn replaces(&self, before: &Self, directory: Option<&StateDir>, tracker: &TaskTracker) {
        let listen = |name: &String| match directory
            .map(|directory| SessionListener::open(directory, name, &self.hub, tracker))
        {
            Some(Err(error)) => {
                tracing::warn!(session = self.id, "{name} does not resolve to it: {error}");
                None
            }
            Some(Ok(listener)) => Some(listener),
            None => None,
        };
        let names = before.names().into_iter().map(|name| (name.clone(), listen(&name))).collect();
        *self.previous_names.lock() = names;
    }

    /// The launch configuration with which a client joins.
    pub(crate) fn configuration(&self) -> Value {
        json!({ "name": self.title, "type": "pilcrow", "request": "attach", "session": self.id,
            "pipe": self.socket_path().map(|it| it.to_string()) })
    }

    /// Records the run that started the session, for [`crate::Sessions::stop`].
    ///
    /// The first call wins.
    pub fn started_by(&self, run: RunId) {
        drop(self.run.set(run));
    }

    pub fn run_id(&self) -> Option<&RunId> {
        self.run.get()
    }

    /// Returns control to the agent.
    pub async fn return_control(&self) {
        self.hub.handle(Input::ReturnControl).await;
    }

    pub fn hub_status(&self) -> HubStatus {
        *self.hub.status().borrow()
    }

    /// Waits until the last client left or the session ended. Cancel-safe.
    pub async fn joined_clients_left(&self) {
        let mut status = self.hub.status();
        tokio::select! {
            // Both are lasting states, so dropping the wait loses nothing.
            _ = status.wait_for(|status| status.joined_clients == 0) => {}
            () = self.ended() => {}
        }
    }

    /// Whether the user took control since the agent last ran the program.
    ///
    /// Resets on each call.
    pub fn control_taken(&self) -> bool {
        let taken = self.hub_status().takeovers;
        self.observed_takeovers.swap(taken, Ordering::Relaxed) < taken
    }

    /// Waits until the user takes control, counted like [`Self::control_taken`].
    ///
    /// Cancel-safe.
    pub(crate) async fn control_lost(&self) {
        let (observed, mut status) = (self.observed_takeovers.load(Ordering::Relaxed), self.hub.status());
        if status.wait_for(|status| status.takeovers > observed).await.is_err() {
            // The hub has ended, which the state reports.
            std::future::pending::<()>().await;
        }
    }

    /// Checks whether the agent may run, change or end the program.
    ///
    /// # Errors
    /// [`DapError::Control`] while the user has control.
    pub fn in_control(&self, command: &str) -> Result<()> {
        match self.hub_status().controller {
            Controller::Agent => Ok(()),
            Controller::User => Err(DapError::Control(command.to_owned())),
        }
    }

    /// Ends the session after the run that started it was stopped.
    ///
    /// A joined session continues without the agent's breakpoints, and an attached program keeps running.
    pub async fn stop(&self, clock: &Clock) {
        if matches!(self.state(), State::Terminated(_)) {
            return;
        }
        if self.hub_status().joined_clients > 0 {
            self.inner.core().breakpoints = crate::Breakpoints::default();
            self.hub.handle(Input::AgentStopped).await;
        } else {
            self.close(clock).await;
        }
    }
}

/// The canonical path of a file; a missing file keeps its spelling.
pub(super) fn real_path(path: &str) -> String {
    std::path::Path::new(path)
        .canonicalize()
        .map_or_else(|_| path.to_owned(), |it| it.to_string_lossy().into_owned())
}
