//! The state of the pool's servers, and their logs.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use paths::AbsPath;

use super::ServerPool;
use super::slot::LAST_LINES;
use crate::server::server_log::{self, ServerEnd, StoredLog};
use crate::server::traffic::TrafficEntry;
use crate::server::{Server, last_lines};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// The server was stopped, or not needed yet.
    Stopped,
    Starting,
    /// The server answers requests.
    Running {
        /// Progress of loading such as `indexing 43%`; `None` if none is reported.
        loading: Option<String>,
    },
    /// The server ended by itself.
    Crashed {
        /// The end of its standard error.
        stderr_tail: String,
    },
}

/// The state of one server of the pool.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    pub name: String,
    pub root: AbsPath,
    /// State; two entries with the same `pid` are one server with both roots.
    pub state: ServerState,
    /// Process id; `None` while the server is not running.
    pub pid: Option<u32>,
    /// Time since the server started.
    pub uptime: Option<Duration>,
    pub open_documents: usize,
    /// Requests without an answer yet.
    pub pending: usize,
    /// Crashes in a row.
    pub failures: u32,
    /// Whether it has more files than are watched for external changes.
    pub is_scan_cut: bool,
    /// The last errors and warnings that it showed.
    pub messages: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct ServerLog {
    pub name: String,
    pub root: AbsPath,
    pub life: ServerLogState,
    /// The last part of its standard error.
    pub stderr_tail: String,
    /// The last messages: at most 2 MiB of a server that runs here, 512 KiB of others.
    pub traffic: Vec<TrafficEntry>,
    /// The directory; empty if it could not be written.
    pub directory: AbsPath,
}

/// The state of the server that a log belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerLogState {
    /// The server runs in this pool.
    Runs,
    /// The server runs, or is ending, in another process of Pilcrow.
    RunsElsewhere {
        pid: u32,
    },
    Ended(ServerEnd),
    /// Pilcrow was killed while it ran.
    Lost {
        /// Time of the last write, Unix time in milliseconds.
        last_write_ms: u64,
    },
}

impl ServerPool {
    /// All servers that were needed so far.
    pub async fn status(&self) -> Vec<ServerStatus> {
        let mut out = Vec::new();
        for slot in self.slots() {
            let starting = slot.starting.available_permits() == 0;
            let state = slot.state();
            let mut status = ServerStatus {
                name: slot.name.clone(),
                root: slot.root.clone(),
                state: ServerState::Stopped,
                pid: None,
                uptime: None,
                open_documents: 0,
                pending: 0,
                failures: state.failures,
                messages: state.server.as_ref().map(|server| server.core.messages()).unwrap_or_default(),
                is_scan_cut: state.server.as_ref().is_some_and(|server| server.core.file_poller.is_cut()),
            };
            match &state.server {
                Some(server) if server.is_running() => {
                    let loading = (!server.core.loading.is_ready()).then(|| server.activity());
                    status.state = ServerState::Running { loading };
                    status.pid = server.process.worker();
                    status.uptime = Some(server.started.elapsed());
                    status.pending = server.peer.pending();
                    status.open_documents = server.core.documents().paths().len();
                }
                Some(server) => {
                    let stderr_tail = last_lines(&server.process.stderr_tail(), LAST_LINES);
                    status.state = ServerState::Crashed { stderr_tail };
                }
                None if starting => status.state = ServerState::Starting,
                None if state.failures > 0 => {
                    status.state = ServerState::Crashed { stderr_tail: state.stderr_tail.clone() };
                }
                None => {}
            }
            // One entry for each package root, also of one process.
            let folders = state.folders.iter().filter(|_| !matches!(status.state, ServerState::Stopped));
            match folders.clone().next() {
                Some(_) => {
                    out.extend(folders.map(|root| ServerStatus { root: root.clone(), ..status.clone() }))
                }
                None => out.push(status),
            }
        }
        out
    }

    /// Names of the servers that requests wait for now, with their progress.
    ///
    /// Includes servers that are starting or in use.
    pub fn awaited_servers(&self) -> Vec<String> {
        let mut names = Vec::new();
        for slot in self.slots() {
            let starting = slot.starting.available_permits() == 0;
            match &slot.state().server {
                Some(server) if !server.usage.is_used() => {}
                Some(server) if server.core.loading.is_ready() => {
                    let check = server.core.check_on_save.activity().map(|activity| format!(" ({activity})"));
                    names.push(format!("{}{}", slot.name, check.unwrap_or_default()));
                }
                Some(server) => names.push(format!("{} ({})", slot.name, server.activity())),
                None if starting => names.push(format!("{} (starting)", slot.name)),
                None => {}
            }
        }
        names.dedup();
        names
    }

    /// The last log of each root and the last crash, newest first.
    ///
    /// Covers one definition or all, and servers of other processes. Blocks for files of some MiB.
    pub fn logs(&self, name: Option<&str>) -> Vec<ServerLog> {
        let is_wanted = |server: &str| name.is_none_or(|name| name == server);
        let mut out = Vec::new();
        // Maps definition and root to whether a crash is among the listed logs.
        let mut known: BTreeMap<(String, String), bool> = BTreeMap::new();
        let mut here = HashSet::new();
        for slot in self.slots().into_iter().filter(|slot| is_wanted(&slot.name)) {
            let Some(server) = slot.state().server.clone() else { continue };
            let log = self.log_of(&server);
            let crashed = matches!(&log.life, ServerLogState::Ended(end) if end.crashed);
            known.insert((log.name.clone(), log.root.to_string()), crashed);
            here.insert(server.log_id.clone());
            out.push(log);
        }
        for stored in StoredLog::all(self.workspace.state()) {
            if here.contains(&stored.id) || !is_wanted(&stored.head.server) {
                continue;
            }
            let crashed = stored.end.as_ref().is_some_and(|end| end.crashed);
            match known.entry((stored.head.server.clone(), stored.head.root.clone())) {
                Entry::Vacant(entry) => drop(entry.insert(crashed)),
                Entry::Occupied(mut crash) if crashed && !*crash.get() => drop(crash.insert(true)),
                Entry::Occupied(_) => continue,
            }
            out.extend(stored_log(stored));
        }
        out
    }

    fn log_of(&self, server: &Server) -> ServerLog {
        let life = match server.is_running() {
            true => ServerLogState::Runs,
            false => ServerLogState::Ended(server.ending.end()),
        };
        ServerLog {
            name: server.name().to_owned(),
            root: server.core.root.clone(),
            life,
            stderr_tail: server.process.stderr_tail(),
            traffic: server.core.traffic.entries(),
            directory: server_log::directory(self.workspace.state(), &server.log_id),
        }
    }
}

fn stored_log(stored: StoredLog) -> Option<ServerLog> {
    let root = AbsPath::new(&stored.head.root)?;
    let (stderr_tail, traffic) = stored.contents();
    let directory = stored.directory.path().clone();
    let state = match stored.end.clone() {
        Some(end) => ServerLogState::Ended(end),
        None if stored.is_over() => ServerLogState::Lost { last_write_ms: stored.last_write_ms() },
        None => ServerLogState::RunsElsewhere { pid: stored.head.pid },
    };
    Some(ServerLog { name: stored.head.server, root, life: state, stderr_tail, traffic, directory })
}
