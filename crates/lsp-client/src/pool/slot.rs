//! The place of one server in a pool, and the right to use it.
//!
//! What must stay true: a server is taken out of its place to be stopped, and given out to be used, under
//! the one lock of the place, so that nobody is given one that is being stopped.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use workspace::AbsPath;

use crate::definition::ServerDefinition;
use crate::server::{Server, last_lines};

/// Of the error stream of a server that crashed, so many lines are told with its state.
pub(super) const LAST_LINES: usize = 20;

/// Where a server works.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// On all package roots of the workspace that it was given.
    Shared,
    /// On one.
    Own(AbsPath),
}

/// The place of one server: a definition and where it works.
pub(super) struct Slot {
    /// The definition's name.
    pub name: String,
    /// Where its process starts.
    pub root: AbsPath,
    /// One permit: who holds it starts the server.
    pub starting: Arc<Semaphore>,
    state: Mutex<SlotState>,
}

pub(super) struct SlotState {
    pub definition: Arc<ServerDefinition>,
    pub server: Option<Arc<Server>>,
    pub failures: u32,
    pub not_before: Option<Instant>,
    /// The end of the error stream of one that crashed.
    pub last_words: String,
    /// What the last server had open and was asked about, for the next one; one that was opened again and not
    /// asked about is not, so that a document that a server cannot bear is not opened for ever.
    pub open: Vec<AbsPath>,
    /// The package roots it works on, so that a restart begins with all of them.
    pub folders: Vec<AbsPath>,
    /// It was seen to take no more folders than it began with: other roots have their own.
    pub apart: bool,
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
        // Each change leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn definition(&self) -> Arc<ServerDefinition> {
        Arc::clone(&self.state().definition)
    }

    pub fn works_on(&self, root: &AbsPath) -> bool {
        self.state().folders.contains(root)
    }

    /// Whether a server here is never given this root.
    pub fn refuses(&self, root: &AbsPath) -> bool {
        let state = self.state();
        state.apart && !state.folders.contains(root)
    }

    /// The server, for a look at it.
    pub fn running(&self) -> Option<Arc<Server>> {
        self.state().server.clone().filter(|server| server.is_running())
    }

    /// The server, for a question.
    pub fn take_use(&self) -> Option<InUse> {
        self.state().server.as_ref().filter(|server| server.is_running()).map(InUse::new)
    }

    /// Takes the server out, to be stopped, unless a question uses it or `keep` says so.
    pub fn evict(&self, keep: impl Fn(&Server) -> bool) -> Option<Arc<Server>> {
        self.state().server.take_if(|server| server.is_running() && !server.usage.is_used() && !keep(server))
    }

    /// Takes a server that has ended by itself out of the slot.
    pub fn bury(&self) -> Option<Arc<Server>> {
        let mut state = self.state();
        let dead = state.server.take_if(|server| !server.is_running())?;
        state.failed(dead.started.elapsed());
        state.last_words = last_lines(&dead.process.stderr_tail(), LAST_LINES);
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
            last_words: String::new(),
            open: Vec::new(),
            folders,
            apart: false,
        }
    }

    /// The first crash costs nothing, the next ones ever more, to 30 s.
    pub fn failed(&mut self, lived: Duration) {
        self.failures = if lived > Duration::from_secs(30) { 1 } else { self.failures + 1 };
        let wait = match self.failures {
            0 | 1 => return,
            more => Duration::from_millis(500) * 2u32.pow(more.min(8) - 2),
        };
        self.not_before = Some(Instant::now() + wait.min(Duration::from_secs(30)));
    }
}

/// A server that a question uses: while this lives, it is not stopped to make room or for idleness.
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
