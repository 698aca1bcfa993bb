//! All servers of a workspace: chosen, started when first needed, started again after a crash, stopped
//! when idle.
//!
//! Decides nothing about permission: [`workspace::Policy`] does, and its grant is kept per definition and
//! root, so that a restart needs nobody present. What must stay true: at most one server per definition
//! and root; every task is on the pool's tracker.

mod ahead;
mod budget;
mod choice;
mod place;
mod reload;
mod slot;
mod start;
mod status;

pub(crate) use slot::InUse;
pub use status::{ServerLife, ServerLog, ServerState, ServerStatus};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Approver, Policy, Processes, Workspace};

use crate::definitions::Definitions;
use crate::discovery::SearchPath;
use crate::host::Host;
use crate::server::{Clock, Server};
use slot::{Place, Slot};

/// What a pool works with.
pub struct PoolOptions {
    /// Whose documents are asked about.
    pub workspace: Workspace,
    /// Starts and ends the servers' processes.
    pub processes: Arc<Processes>,
    /// Says what may be started.
    pub policy: Arc<Policy>,
    /// The person, for the policy's questions.
    pub approver: Arc<dyn Approver>,
    /// The servers there are.
    pub definitions: Arc<Definitions>,
    /// Reads them anew, for a reload; `None`: they stay as they are. Blocks.
    pub reread: Option<Reread>,
    /// Hears what servers ask for.
    pub host: Arc<dyn Host>,
}

/// Reads all definitions that apply.
pub type Reread = Arc<dyn Fn() -> Definitions + Send + Sync>;

/// Times and numbers of a pool.
#[derive(Debug, Clone)]
pub struct PoolLimits {
    /// Where programs are looked for.
    pub search: SearchPath,
    /// A server not asked for this long is stopped.
    pub idle: Duration,
    /// Servers that run at once; the least recently used is stopped for a new one. Those that questions
    /// are using are not, so there are more for as long as they are needed at once.
    pub warm: usize,
    /// Bytes of memory that all servers may hold together, each with what it started; beyond that the
    /// least recently used are stopped, but not those that questions are using, nor the last one.
    pub memory: u64,
    /// How long a server may take to answer `initialize`.
    pub start: Duration,
}

impl Default for PoolLimits {
    /// Programs as the environment says, 10 minutes, 4 servers, 2 GiB, 60 seconds.
    fn default() -> Self {
        Self {
            search: SearchPath::from_env(),
            idle: Duration::from_secs(600),
            warm: 4,
            memory: 2 << 30,
            start: Duration::from_secs(60),
        }
    }
}

/// How long a question may take, and what cancels it.
#[derive(Debug, Clone)]
pub struct RequestCx {
    /// For everything that one call asks, one after the other: starting, loading, the answers.
    pub deadline: Duration,
    /// When the call began.
    pub began: Instant,
    /// Cancels at once; the server is told.
    pub cancel: CancellationToken,
}

impl RequestCx {
    /// A call that begins now.
    pub fn new(deadline: Duration, cancel: &CancellationToken) -> Self {
        Self { deadline, began: Instant::now(), cancel: cancel.clone() }
    }

    /// The same from now on: for what comes after a person was asked.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self::new(self.deadline, &self.cancel)
    }

    /// How much of its time is left.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_sub(self.began.elapsed())
    }

    /// A part of it: no more than `most` from now on.
    #[must_use]
    pub fn within(&self, most: Duration) -> Self {
        Self::new(self.left().min(most), &self.cancel)
    }

    pub(crate) fn clock(&self) -> Clock<'_> {
        let now = Instant::now();
        Clock { began: now, until: now + self.left(), total: self.deadline, cancel: &self.cancel }
    }
}

/// The servers of one workspace.
pub struct ServerPool {
    pub(crate) workspace: Workspace,
    processes: Arc<Processes>,
    policy: Arc<Policy>,
    approver: Arc<dyn Approver>,
    definitions: Mutex<Arc<Definitions>>,
    reread: Option<Reread>,
    host: Arc<dyn Host>,
    limits: PoolLimits,
    slots: Mutex<BTreeMap<(String, Place), Arc<Slot>>>,
    ahead: ahead::Ahead,
    tracker: TaskTracker,
    stop: CancellationToken,
    janitor: std::sync::Once,
}

impl ServerPool {
    /// A pool with the usual limits. Starts nothing.
    pub fn new(options: PoolOptions) -> Arc<Self> {
        Self::with_limits(options, PoolLimits::default())
    }

    /// A pool with limits of its own. Starts nothing.
    pub fn with_limits(options: PoolOptions, limits: PoolLimits) -> Arc<Self> {
        let PoolOptions { workspace, processes, policy, approver, definitions, reread, host } = options;
        Arc::new(Self {
            workspace,
            processes,
            policy,
            approver,
            definitions: Mutex::new(definitions),
            reread,
            host,
            limits,
            slots: Mutex::default(),
            ahead: ahead::Ahead::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            janitor: std::sync::Once::new(),
        })
    }

    /// The servers there are, by now.
    pub(crate) fn definitions(&self) -> Arc<Definitions> {
        Arc::clone(&self.definitions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Ends all servers within `deadline`: politely at first, then their process groups. The pool
    /// starts none afterwards.
    pub async fn shutdown(&self, deadline: Duration) {
        self.stop.cancel();
        let ending = self.slots().into_iter().filter_map(|slot| slot.state().server.take());
        let grace = deadline.mul_f32(0.6);
        let ends = ending.map(|server| async move { server.shutdown(grace, "Pilcrow ended").await });
        futures_util::future::join_all(ends).await;
        self.tracker.close();
        if tokio::time::timeout(deadline, self.tracker.wait()).await.is_err() {
            tracing::warn!("tasks of language servers are still running");
        }
    }

    pub(crate) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// The running servers, to be told of what concerns all.
    pub(crate) fn running(&self) -> Vec<Arc<Server>> {
        self.slots().iter().filter_map(|slot| slot.running()).collect()
    }

    /// The running servers, for a question to all.
    pub(crate) fn use_running(&self) -> Vec<InUse> {
        self.slots().iter().filter_map(|slot| slot.take_use()).collect()
    }
}

impl Drop for ServerPool {
    /// Processes end with their owners; this ends the tasks.
    fn drop(&mut self) {
        self.stop.cancel();
        self.tracker.close();
    }
}
