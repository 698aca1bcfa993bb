//! What the servers of a pool are doing, and what is kept of their lives for people.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use workspace::AbsPath;

use super::ServerPool;
use super::slot::LAST_LINES;
use crate::life::{self, Kept, ServerEnd};
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
    /// Whether it goes on.
    pub life: ServerLife,
    /// The end of its error stream.
    pub stderr_tail: String,
    /// The last messages: at most 2 MiB of one that runs here, 512 KiB of others.
    pub traffic: Vec<TrafficEntry>,
    /// Where it is kept; nothing is there where it could not be written.
    pub folder: AbsPath,
}

/// Whether a server goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerLife {
    /// It runs, in this pool.
    Runs,
    /// It runs, or is ending, in another: that of this process of Pilcrow.
    RunsElsewhere {
        /// The process.
        pid: u32,
    },
    /// It ended.
    Ended(ServerEnd),
    /// Pilcrow was killed while it ran.
    Lost {
        /// Unix time in milliseconds of what was written of it last.
        heard_ms: u64,
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
                    let stderr_tail = last_lines(&server.process.stderr_tail(), LAST_LINES);
                    status.state = ServerState::Crashed { stderr_tail };
                }
                None if starting => status.state = ServerState::Starting,
                None if state.failures > 0 => {
                    status.state = ServerState::Crashed { stderr_tail: state.last_words.clone() };
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

    /// What is kept of servers, of one definition or all: of each and its root the last life, the newest first,
    /// and the last that ended in a crash. Also of those that other processes started. Blocks for files of at
    /// most some MiB.
    pub fn logs(&self, name: Option<&str>) -> Vec<ServerLog> {
        let is_wanted = |server: &str| name.is_none_or(|name| name == server);
        let mut out = Vec::new();
        // By definition and root, whether a crash is among them.
        let mut known: BTreeMap<(String, String), bool> = BTreeMap::new();
        let mut here = HashSet::new();
        for slot in self.slots().into_iter().filter(|slot| is_wanted(&slot.name)) {
            let Some(server) = slot.state().server.clone() else { continue };
            let log = self.log_of(&server);
            let crashed = matches!(&log.life, ServerLife::Ended(end) if end.crashed);
            known.insert((log.name.clone(), log.root.to_string()), crashed);
            here.insert(server.life.clone());
            out.push(log);
        }
        for life in Kept::all(self.workspace.state()) {
            if here.contains(&life.id) || !is_wanted(&life.head.server) {
                continue;
            }
            let crashed = life.end.as_ref().is_some_and(|end| end.crashed);
            match known.entry((life.head.server.clone(), life.head.root.clone())) {
                Entry::Vacant(entry) => drop(entry.insert(crashed)),
                Entry::Occupied(mut crash) if crashed && !*crash.get() => drop(crash.insert(true)),
                Entry::Occupied(_) => continue,
            }
            out.extend(kept(life));
        }
        out
    }

    fn log_of(&self, server: &Server) -> ServerLog {
        let life = match server.is_running() {
            true => ServerLife::Runs,
            false => ServerLife::Ended(server.ending.end()),
        };
        ServerLog {
            name: server.name().to_owned(),
            root: server.core.root.clone(),
            life,
            stderr_tail: server.process.stderr_tail(),
            traffic: server.core.traffic.entries(),
            folder: life::folder(self.workspace.state(), &server.life),
        }
    }
}

fn kept(life: Kept) -> Option<ServerLog> {
    let root = AbsPath::new(&life.head.root)?;
    let (stderr_tail, traffic) = life.contents();
    let folder = life.folder.path().clone();
    let told = match life.end.clone() {
        Some(end) => ServerLife::Ended(end),
        None if life.is_over() => ServerLife::Lost { heard_ms: life.heard_ms() },
        None => ServerLife::RunsElsewhere { pid: life.head.pid },
    };
    Some(ServerLog { name: life.head.server, root, life: told, stderr_tail, traffic, folder })
}
