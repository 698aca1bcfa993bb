//! What the servers of a pool are doing, and what is kept of their lives for people.

use std::time::Duration;

use workspace::AbsPath;

use super::ServerPool;
use crate::server::{Server, last_lines};
use crate::traffic::TrafficEntry;

/// What a server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// It was stopped, or has not been needed yet.
    Stopped,
    /// Its process starts.
    Starting,
    /// It answers; what it still loads, if anything.
    Running {
        /// `indexing 43%`.
        loading: Option<String>,
    },
    /// It ended by itself.
    Crashed {
        /// The end of its error stream.
        stderr_tail: String,
    },
}

/// One server of the pool.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// The definition's name.
    pub name: String,
    /// The folder it works on.
    pub root: AbsPath,
    /// What it is doing. Two of one `pid` are one server that works on both roots.
    pub state: ServerState,
    /// Its process, while it runs.
    pub pid: Option<u32>,
    /// Since when it runs.
    pub uptime: Option<Duration>,
    /// Documents open in it.
    pub open_documents: usize,
    /// Questions that it has not answered.
    pub unanswered: usize,
    /// Crashes in a row.
    pub failures: u32,
    /// It has more files than are looked at for changes by other programs.
    pub overlooks: bool,
    /// The last errors and warnings that it had shown to a person.
    pub said: Vec<String>,
}

/// What is kept of a server's life for people.
#[derive(Debug, Clone)]
pub struct ServerLog {
    /// The definition's name.
    pub name: String,
    /// The folder it works on.
    pub root: AbsPath,
    /// The end of its error stream.
    pub stderr_tail: String,
    /// The last messages, at most 2 MiB.
    pub traffic: Vec<TrafficEntry>,
}

pub(super) fn log_of(server: &Server) -> ServerLog {
    ServerLog {
        name: server.name().to_owned(),
        root: server.core.root.clone(),
        stderr_tail: server.process.stderr_tail(),
        traffic: server.core.traffic.entries(),
    }
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
                unanswered: 0,
                failures: state.failures,
                said: state.server.as_ref().map(|server| server.core.said()).unwrap_or_default(),
                overlooks: state.server.as_ref().is_some_and(|server| server.core.sweep.is_cut()),
            };
            match &state.server {
                Some(server) if server.is_running() => {
                    let loading = (!server.core.loading.is_ready()).then(|| server.doing());
                    status.state = ServerState::Running { loading };
                    status.pid = server.process.worker();
                    status.uptime = Some(server.started.elapsed());
                    status.unanswered = server.peer.pending();
                    status.open_documents = server.core.documents().paths().len();
                }
                Some(server) => {
                    let stderr_tail = last_lines(&server.process.stderr_tail(), 20);
                    status.state = ServerState::Crashed { stderr_tail };
                }
                None if starting => status.state = ServerState::Starting,
                None if state.failures > 0 => {
                    let tail = state.last_log.as_ref().map(|log| last_lines(&log.stderr_tail, 20));
                    status.state = ServerState::Crashed { stderr_tail: tail.unwrap_or_default() };
                }
                None => {}
            }
            // One line for each package root, also where one process has several.
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

    /// Who is being waited for at this moment, in order of name: servers that start, and
    /// those that questions use, with what they load.
    pub fn waited_for(&self) -> Vec<String> {
        let mut names = Vec::new();
        for slot in self.slots() {
            let starting = slot.starting.available_permits() == 0;
            match &slot.state().server {
                Some(server) if !server.usage.is_used() => {}
                Some(server) if server.core.loading.is_ready() => {
                    let looking = server.core.saved.doing().map(|doing| format!(" ({doing})"));
                    names.push(format!("{}{}", slot.name, looking.unwrap_or_default()));
                }
                Some(server) => names.push(format!("{} ({})", slot.name, server.doing())),
                None if starting => names.push(format!("{} (starting)", slot.name)),
                None => {}
            }
        }
        names.dedup();
        names
    }

    /// What is kept of each server's life, for one definition or all; of one that crashed, its last.
    pub fn logs(&self, name: Option<&str>) -> Vec<ServerLog> {
        let slots = self.slots().into_iter().filter(|slot| name.is_none_or(|name| name == slot.name));
        slots
            .filter_map(|slot| {
                let state = slot.state();
                state.server.as_deref().map(log_of).or_else(|| state.last_log.clone())
            })
            .collect()
    }
}
