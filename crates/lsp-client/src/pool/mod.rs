//! The pool of a workspace's servers.
//!
//! The pool chooses servers, starts each when it is first needed, restarts it after a crash, and stops it when
//! it is idle.
//!
//! Does not decide about permission: [`policy::Policy`] does. The pool stores its grant per
//! definition and root, so that a restart needs no prompt.
//!
//! Invariants: at most one server per definition and root; every task is on the pool's tracker.

mod ahead;
mod budget;
mod choice;
mod commit;
mod hosts;
mod place;
mod reload;
mod slot;
mod start;
mod status;

pub(crate) use slot::InUse;
pub use status::{ServerLog, ServerLogState, ServerState, ServerStatus};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::SearchPath;
use adapters::ServerDefinitions;
use parking_lot::Mutex;
use policy::{Approver, Policy};
use process::Processes;
use slot::{Place, Slot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::Workspace;

use crate::server::host::Host;
use crate::server::request_table::RequestTable;
use crate::server::{Clock, Server};

pub struct PoolOptions {
    pub workspace: Workspace,
    /// Starts and ends the servers' processes.
    pub processes: Arc<Processes>,
    /// Permits starting programs.
    pub policy: Arc<Policy>,
    /// Asks the user when the policy requires it.
    pub approver: Arc<dyn Approver>,
    pub definitions: Arc<ServerDefinitions>,
    /// Loads the definitions for a reload; `None`: they stay. Blocks.
    pub reread: Option<Reread>,
    /// Handles requests of servers.
    pub host: Arc<dyn Host>,
}

/// Loads all definitions that apply.
pub type Reread = Arc<dyn Fn() -> ServerDefinitions + Send + Sync>;

#[derive(Debug, Clone)]
pub struct PoolLimits {
    /// The directories that are searched for programs.
    pub search: SearchPath,
    /// Time after which the pool stops an unused server.
    pub idle: Duration,
    /// Maximum number of running servers.
    ///
    /// The least recently used is stopped for a new one. Servers in use are not stopped, so there may be
    /// more.
    pub warm: usize,
    /// Maximum memory of all servers in bytes, with their child processes.
    ///
    /// Beyond that none is started, and the least recently used are stopped, except those in use and the last
    /// one.
    pub memory: u64,
    /// Timeout of `initialize`.
    pub start: Duration,
}

impl Default for PoolLimits {
    /// Returns the limits of the default settings, and the environment's `PATH`.
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

/// The time of a call, and its cancellation.
#[derive(Debug, Clone)]
pub struct RequestCx {
    /// The time for all requests of one call: starting, loading and answering.
    pub deadline: Duration,
    /// Start of the call.
    pub began: Instant,
    /// Cancels at once; the server is notified.
    pub cancel: CancellationToken,
}

impl RequestCx {
    pub fn new(deadline: Duration, cancel: &CancellationToken) -> Self {
        Self { deadline, began: Instant::now(), cancel: cancel.clone() }
    }

    /// The clock with the same time from now on, after a prompt to the user.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self::new(self.deadline, &self.cancel)
    }

    /// The remaining time.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_sub(self.began.elapsed())
    }

    /// The clock limited to at most `most` from now on.
    #[must_use]
    pub fn within(&self, most: Duration) -> Self {
        Self::new(self.left().min(most), &self.cancel)
    }

    /// The deadline as a clock.
    pub fn clock(&self) -> Clock<'_> {
        let now = Instant::now();
        Clock { began: now, until: now + self.left(), total: self.deadline, cancel: &self.cancel }
    }
}

pub struct ServerPool {
    pub(crate) workspace: Workspace,
    processes: Arc<Processes>,
    policy: Arc<Policy>,
    approver: Arc<dyn Approver>,
    definitions: Mutex<Arc<ServerDefinitions>>,
    reread: Option<Reread>,
    host: Arc<dyn Host>,
    limits: PoolLimits,
    requests: RequestTable,
    slots: Mutex<BTreeMap<(String, Place), Arc<Slot>>>,
    ahead: ahead::Ahead,
    tracker: TaskTracker,
    stop: CancellationToken,
    janitor: std::sync::Once,
}

impl ServerPool {
    /// A pool that sends `requests`. Starts nothing.
    pub(crate) fn with_requests(
        options: PoolOptions,
        limits: PoolLimits,
        requests: RequestTable,
    ) -> Arc<Self> {
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
            requests,
            slots: Mutex::default(),
            ahead: ahead::Ahead::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            janitor: std::sync::Once::new(),
        })
    }

    pub(crate) fn definitions(&self) -> Arc<ServerDefinitions> {
        Arc::clone(&self.definitions.lock())
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().values().cloned().collect()
    }

    /// Ends all servers within `deadline`; the pool starts none afterwards.
    ///
    /// Sends `shutdown` first, then ends their process groups.
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

    /// The running servers, to notify all.
    pub(crate) fn running(&self) -> Vec<Arc<Server>> {
        self.slots().iter().filter_map(|slot| slot.running()).collect()
    }

    /// The running servers, to ask all.
    pub(crate) fn use_running(&self) -> Vec<InUse> {
        self.slots().iter().filter_map(|slot| slot.take_use()).collect()
    }
}

impl Drop for ServerPool {
    /// Processes end with their owners; this function ends the tasks.
    fn drop(&mut self) {
        self.stop.cancel();
        self.tracker.close();
    }
}
