//! A session that a person has joined: who has control, who ended it, what is left when the agent stops.

use std::sync::atomic::Ordering;

use paths::{AbsPath, StateDir};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use workspace::RunId;

use super::{Clock, Controller, Session, SessionListener, Shared};
use crate::debuggee::State;
use crate::error::DapError;
use crate::hub::HubHandle;

impl Session {
    /// The hub that persons join.
    pub fn hub(&self) -> &HubHandle {
        &self.hub
    }

    /// Where it can be joined from other processes, once it runs.
    pub fn door(&self) -> Option<AbsPath> {
        self.door.get().and_then(SessionListener::path)
    }

    /// Lets other processes join. Nothing when they can already.
    pub(crate) fn open_door(&self, folder: &StateDir, tracker: &TaskTracker) {
        match SessionListener::open(folder, &self.id, &self.hub, tracker) {
            Ok(door) => drop(self.door.set(door)),
            Err(error) => tracing::warn!(session = self.id, "no other process can join it: {error}"),
        }
    }

    /// The names under which it was launched before, oldest first.
    fn names(&self) -> Vec<String> {
        let former = self.former.lock();
        former.iter().map(|(name, _)| name.clone()).chain([self.id.clone()]).collect()
    }

    /// It came after `before`: whoever asks for that one is led here.
    pub(crate) fn comes_after(&self, before: &Self, folder: Option<&StateDir>, tracker: &TaskTracker) {
        let lead = |name: &String| match folder
            .map(|folder| SessionListener::open(folder, name, &self.hub, tracker))
        {
            Some(Err(error)) => {
                tracing::warn!(session = self.id, "{name} does not lead to it: {error}");
                None
            }
            Some(Ok(door)) => Some(door),
            None => None,
        };
        let former = before.names().into_iter().map(|name| (name.clone(), lead(&name))).collect();
        *self.former.lock() = former;
    }

    /// What an editor is given to join it.
    pub(crate) fn configuration(&self) -> Value {
        json!({ "name": self.title, "type": "pilcrow", "request": "attach", "session": self.id,
            "pipe": self.door().map(|it| it.to_string()) })
    }

    /// Says which run started it, for [`crate::Sessions::stop`]. The first word stays.
    pub fn started_by(&self, run: RunId) {
        drop(self.run.set(run));
    }

    /// The run that started it.
    pub fn run_id(&self) -> Option<&RunId> {
        self.run.get()
    }

    /// The person gives control back to the agent.
    pub async fn hand_back(&self) {
        self.hub.hand_back().await;
    }

    /// Who has control, and how many look on.
    pub fn shared(&self) -> Shared {
        *self.hub.shared().borrow()
    }

    /// Ends when the last person left, or the session is over. Cancel-safe.
    pub async fn left(&self) {
        let mut shared = self.hub.shared();
        tokio::select! {
            // Both are states that stay.
            _ = shared.wait_for(|shared| shared.persons == 0) => {}
            () = self.over() => {}
        }
    }

    /// Whether a person took control since this side last ran the program on. Asked once, it is known.
    pub fn control_taken(&self) -> bool {
        let taken = self.shared().taken;
        self.seen.swap(taken, Ordering::Relaxed) < taken
    }

    /// Ends when a person takes control, or has since this side last ran on or looked. Cancel-safe.
    pub(crate) async fn taken(&self) {
        let (seen, mut shared) = (self.seen.load(Ordering::Relaxed), self.hub.shared());
        if shared.wait_for(|shared| shared.taken > seen).await.is_err() {
            // The hub is over, which the state tells.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the agent may run, change or end the program.
    ///
    /// # Errors
    /// [`DapError::Control`] while the person has control.
    pub fn in_control(&self, command: &str) -> Result<(), DapError> {
        match self.shared().controller {
            Controller::Agent => Ok(()),
            Controller::Person => Err(DapError::Control(command.to_owned())),
        }
    }

    /// The work that started it was stopped: a session that a person has joined goes on without the
    /// agent's breakpoints, any other ends. A program that was only attached to runs on.
    pub async fn stop(&self, clock: &Clock) {
        if matches!(self.state(), State::Terminated(_)) {
            return;
        }
        if self.shared().persons > 0 {
            self.inner.core().breakpoints = crate::Breakpoints::default();
            self.hub.forget_agent().await;
        } else {
            self.close(clock).await;
        }
    }
}

/// One spelling for a file, links resolved; what is not there stays as it is written.
pub(super) fn real_path(path: &str) -> String {
    std::path::Path::new(path)
        .canonicalize()
        .map_or_else(|_| path.to_owned(), |it| it.to_string_lossy().into_owned())
}
