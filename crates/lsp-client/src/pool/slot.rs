//! The slot of one server in a pool, and the right to use the server.
//!
//! Invariants: the slot's one lock guards both taking a server out to stop it and handing it out
//! for use, so no caller gets a server that is being stopped.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use paths::AbsPath;
use tokio::sync::Semaphore;

use crate::server::{Server, last_lines};
use adapters::ServerDefinition;

/// Lines of standard error to report with the state of a crashed server.
pub(super) const LAST_LINES: usize = 20;

/// The root of a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// All package roots of the workspace that the server took.
    Shared,
    Own(AbsPath),
}

/// The slot of one server: a definition and a root.
pub(super) struct Slot {
    pub name: String,
    /// The working directory of its process.
    pub root: AbsPath,
    /// Holds one permit; its owner starts the server.
    pub starting: Arc<Semaphore>,
    state: Mutex<SlotState>,
}

pub(super) struct SlotState {
    pub definition: Arc<ServerDefinition>,
    pub server: Option<Arc<Server>>,
    pub failures: u32,
    pub not_before: Option<Instant>,
    /// The end of standard error of a crashed server.
    pub stderr_tail: String,
    /// Recently requested documents of the last server, for the next one.
    ///
    /// A document that was reopened without a request is dropped: otherwise one that crashes a
    /// server would be reopened after every crash.
    pub open: Vec<AbsPath>,
    /// The package roots, so that a restart begins with all of them.
    pub folders: Vec<AbsPath>,
    /// Whether the server accepts no more workspace folders.
    pub refuses_folders: bool,
}

impl Slot {
    pub fn new(definition: &Arc<ServerDefinition>, root: &AbsPath, folder: &AbsPath) -> Arc<Self> {
        Arc::new(Self {
            name: definition.name.clone(),
            root: root.clone(),
            starting: Arc::new(Semaphore::new(1)),
            state: Mutex::new(SlotState::new(definition, vec![folder.clone()])),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, SlotState> {
        // Each change leaves the state consistent.
        self.state.lock()
    }

    pub fn definition(&self) -> Arc<ServerDefinition> {
        Arc::clone(&self.state().definition)
    }

    pub(crate) fn works_on(&self, root: &AbsPath) -> bool {
        self.state().folders.contains(root)
    }

    /// Whether a server in this slot never accepts this root.
    pub fn refuses(&self, root: &AbsPath) -> bool {
        let state = self.state();
        state.refuses_folders && !state.folders.contains(root)
    }

    /// The server, to inspect it.
    pub fn running(&self) -> Option<Arc<Server>> {
        self.state().server.clone().filter(|server| server.is_running())
    }

    /// The server, for a request.
    pub(crate) fn take_use(&self) -> Option<InUse> {
        self.state().server.as_ref().filter(|server| server.is_running()).map(InUse::new)
    }

    /// Takes the server out to be stopped, unless a request uses it or `keep` is true.
    pub fn evict(&self, keep: impl Fn(&Server) -> bool) -> Option<Arc<Server>> {
        self.state().server.take_if(|server| server.is_running() && !server.usage.is_used() && !keep(server))
    }

    /// Removes a server, even one in use; returns whether the slot had it.
    pub fn take(&self, server: &Arc<Server>) -> bool {
        self.state().server.take_if(|now| Arc::ptr_eq(now, server)).is_some()
    }

    /// Takes out a server that has ended by itself.
    pub(crate) fn take_ended(&self) -> Option<Arc<Server>> {
        let mut state = self.state();
        let dead = state.server.take_if(|server| !server.is_running())?;
        state.failed(dead.started.elapsed());
        state.stderr_tail = last_lines(&dead.process.stderr_tail(), LAST_LINES);
        state.open = dead.core.documents().asked();
        Some(dead)
    }
}

impl SlotState {
    pub fn new(definition: &Arc<ServerDefinition>, folders: Vec<AbsPath>) -> Self {
        Self {
            definition: Arc::clone(definition),
            server: None,
            failures: 0,
            not_before: None,
            stderr_tail: String::new(),
            open: Vec::new(),
            folders,
            refuses_folders: false,
        }
    }

    /// Records a crash. The first has no delay; later ones have up to 30 s.
    pub fn failed(&mut self, lived: Duration) {
        self.failures = if lived > Duration::from_secs(30) { 1 } else { self.failures + 1 };
        let wait = match self.failures {
            0 | 1 => return,
            more => Duration::from_millis(500) * 2u32.pow(more.min(8) - 2),
        };
        self.not_before = Some(Instant::now() + wait.min(Duration::from_secs(30)));
    }
}

/// Marks a server as used: while this lives, the pool does not stop it.
pub(crate) struct InUse(Arc<Server>);

impl InUse {
    pub(super) fn new(server: &Arc<Server>) -> Self {
        server.usage.begin();
        Self(Arc::clone(server))
    }
}

impl Deref for InUse {
    type Target = Arc<Server>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.usage.end();
    }
}
