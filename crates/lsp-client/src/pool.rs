//! All servers of a workspace: chosen, started when first needed, started again after a crash, stopped
//! when idle.
//!
//! Decides nothing about permission: [`workspace::Policy`] does, and its grant is kept per definition and
//! root, so that a restart needs nobody present. What must stay true: at most one server per definition
//! and root; every task is on the pool's tracker.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{
    AbsPath, Approver, CommandLine, Policy, Process, Processes, SpawnError, SpawnRequest, Workspace,
};

use crate::core::Core;
use crate::definition::{Feature, ServerDefinition, expand, expand_text};
use crate::definitions::Definitions;
use crate::discovery::{self, SearchPath};
use crate::error::ServerError;
use crate::host::Host;
use crate::server::{Clock, Server, last_lines};
use crate::traffic::TrafficEntry;

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
    /// Hears what servers ask for.
    pub host: Arc<dyn Host>,
}

/// Times and numbers of a pool.
#[derive(Debug, Clone)]
pub struct PoolLimits {
    /// Where programs are looked for.
    pub search: SearchPath,
    /// A server not asked for this long is stopped.
    pub idle: Duration,
    /// Servers that run at once; the least recently used is stopped for a new one.
    pub warm: usize,
    /// How long a server may take to answer `initialize`.
    pub start: Duration,
}

impl Default for PoolLimits {
    /// Programs as the environment says, 10 minutes, 4 servers, 60 seconds.
    fn default() -> Self {
        Self {
            search: SearchPath::from_env(),
            idle: Duration::from_secs(600),
            warm: 4,
            start: Duration::from_secs(60),
        }
    }
}

/// How long a question may take, and what cancels it.
#[derive(Debug, Clone)]
pub struct RequestCx {
    /// For everything: starting, loading, the answer.
    pub deadline: Duration,
    /// Cancels at once; the server is told.
    pub cancel: CancellationToken,
}

impl RequestCx {
    pub(crate) fn clock(&self) -> Clock<'_> {
        Clock { until: Instant::now() + self.deadline, total: self.deadline, cancel: &self.cancel }
    }
}

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
    /// Crashes in a row.
    pub failures: u32,
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

/// The servers of one workspace.
pub struct ServerPool {
    pub(crate) workspace: Workspace,
    processes: Arc<Processes>,
    policy: Arc<Policy>,
    approver: Arc<dyn Approver>,
    pub(crate) definitions: Arc<Definitions>,
    host: Arc<dyn Host>,
    limits: PoolLimits,
    slots: Mutex<BTreeMap<(String, AbsPath), Arc<Slot>>>,
    tracker: TaskTracker,
    stop: CancellationToken,
    janitor: std::sync::Once,
}

/// The place of one server: a definition and a root.
struct Slot {
    definition: Arc<ServerDefinition>,
    root: AbsPath,
    /// One permit: who holds it starts the server.
    starting: Arc<Semaphore>,
    state: Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    server: Option<Arc<Server>>,
    failures: u32,
    not_before: Option<Instant>,
    last_log: Option<ServerLog>,
    /// The package roots it works on, so that a restart begins with all of them.
    folders: Vec<AbsPath>,
}

impl Slot {
    fn state(&self) -> std::sync::MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a package root is its own, or one of those it was given besides.
    fn works_on(&self, root: &AbsPath) -> bool {
        self.root == *root || self.state().folders.contains(root)
    }

    fn running(&self) -> Option<Arc<Server>> {
        self.state().server.clone().filter(|server| server.is_running())
    }

    /// Takes a server that has ended by itself out of the slot.
    fn bury(&self) -> Option<Arc<Server>> {
        let mut state = self.state();
        let dead = state.server.take_if(|server| !server.is_running())?;
        state.failed(dead.started.elapsed());
        state.last_log = Some(log_of(&dead));
        Some(dead)
    }
}

impl SlotState {
    /// The first crash costs nothing, the next ones ever more, to 30 s.
    fn failed(&mut self, lived: Duration) {
        self.failures = if lived > Duration::from_secs(30) { 1 } else { self.failures + 1 };
        let wait = match self.failures {
            0 | 1 => return,
            more => Duration::from_millis(500) * 2u32.pow(more.min(8) - 2),
        };
        self.not_before = Some(Instant::now() + wait.min(Duration::from_secs(30)));
    }
}

fn log_of(server: &Server) -> ServerLog {
    ServerLog {
        name: server.name().to_owned(),
        root: server.core.root.clone(),
        stderr_tail: server.process.stderr_tail(),
        traffic: server.core.traffic.entries(),
    }
}

impl ServerPool {
    /// A pool with the usual limits. Starts nothing.
    pub fn new(options: PoolOptions) -> Arc<Self> {
        Self::with_limits(options, PoolLimits::default())
    }

    /// A pool with limits of its own. Starts nothing.
    pub fn with_limits(options: PoolOptions, limits: PoolLimits) -> Arc<Self> {
        let PoolOptions { workspace, processes, policy, approver, definitions, host } = options;
        Arc::new(Self {
            workspace,
            processes,
            policy,
            approver,
            definitions,
            host,
            limits,
            slots: Mutex::default(),
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            janitor: std::sync::Once::new(),
        })
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// All servers that were needed so far.
    pub async fn status(&self) -> Vec<ServerStatus> {
        let mut out = Vec::new();
        for slot in self.slots() {
            let starting = slot.starting.available_permits() == 0;
            let state = slot.state();
            let mut status = ServerStatus {
                name: slot.definition.name.clone(),
                root: slot.root.clone(),
                state: ServerState::Stopped,
                pid: None,
                uptime: None,
                open_documents: 0,
                failures: state.failures,
            };
            match &state.server {
                Some(server) if server.is_running() => {
                    let loading = (!server.core.loading.is_ready()).then(|| server.doing());
                    status.state = ServerState::Running { loading };
                    status.pid = Some(server.process.id());
                    status.uptime = Some(server.started.elapsed());
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

    /// Whether any definition speaks the language of `path`.
    ///
    /// One that was never tried counts only if its program is there.
    pub fn serves(&self, path: &AbsPath) -> bool {
        let top = self.workspace.root();
        self.definitions.for_path(path.as_path()).iter().any(|definition| {
            discovery::find_root(&definition.root, path, top).is_some()
                && (definition.verified.is_some() || self.is_there(definition))
        })
    }

    /// Whether some program for a definition is there.
    pub(crate) fn is_there(&self, definition: &ServerDefinition) -> bool {
        let top = self.workspace.root();
        !self.limits.search.find(definition, top, top).is_empty()
    }

    pub(crate) fn is_verified(&self, name: &str) -> bool {
        self.definitions.get(name).is_some_and(|definition| definition.verified.is_some())
    }

    /// Whether a server that speaks the language of `path` is running, so that a question about it
    /// starts nothing.
    pub fn is_warm(&self, path: &AbsPath) -> bool {
        let names: Vec<String> = self
            .definitions
            .for_path(path.as_path())
            .iter()
            .map(|definition| definition.name.clone())
            .collect();
        self.slots().iter().any(|slot| names.contains(&slot.definition.name) && slot.running().is_some())
    }

    /// What is kept of each server's life, for one definition or all; of one that crashed, its last.
    pub fn logs(&self, name: Option<&str>) -> Vec<ServerLog> {
        let slots =
            self.slots().into_iter().filter(|slot| name.is_none_or(|name| name == slot.definition.name));
        slots
            .filter_map(|slot| {
                let state = slot.state();
                state.server.as_deref().map(log_of).or_else(|| state.last_log.clone())
            })
            .collect()
    }

    /// Ends all servers within `deadline`: politely at first, then their process groups. The pool
    /// starts none afterwards.
    pub async fn shutdown(&self, deadline: Duration) {
        self.stop.cancel();
        let ending = self.slots().into_iter().filter_map(|slot| slot.state().server.take());
        let grace = deadline.mul_f32(0.6);
        let ends = ending.map(|server| async move { server.shutdown(grace).await });
        futures_util::future::join_all(ends).await;
        self.tracker.close();
        if tokio::time::timeout(deadline, self.tracker.wait()).await.is_err() {
            tracing::warn!("tasks of language servers are still running");
        }
    }

    /// The running servers, for what concerns all.
    pub(crate) fn running(&self) -> Vec<Arc<Server>> {
        self.slots().iter().filter_map(|slot| slot.running()).collect()
    }

    /// The definitions to be asked for `feature` of a file, best first, without those whose root marker
    /// is required and not there, or that need another program for it which is not there.
    pub(crate) fn applying(&self, path: &AbsPath, feature: Feature) -> Vec<Arc<ServerDefinition>> {
        let mut found = self.definitions.for_feature(path.as_path(), feature);
        found.retain(|definition| {
            let rooted = !definition.root.required
                || discovery::find_root(&definition.root, path, self.workspace.root()).is_some();
            let needs = definition.needs.get(&feature);
            rooted
                && needs
                    .is_none_or(|programs| programs.iter().any(|it| self.limits.search.helper(it).is_some()))
        });
        found
    }

    /// The best server for `feature` of the file, started.
    pub(crate) async fn pick(
        self: &Arc<Self>,
        path: &AbsPath,
        feature: Feature,
        clock: Clock<'_>,
    ) -> Result<Arc<Server>, ServerError> {
        let mut first: Option<ServerError> = None;
        let mut names = Vec::new();
        let mut groups = HashSet::new();
        for definition in self.applying(path, feature) {
            // Another of its group would offer no more.
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            names.push(definition.name.clone());
            match self.get(&definition, path, clock).await {
                Ok(server) if server.core.capabilities().offers(feature) => return Ok(server),
                Ok(_) => groups.extend(definition.group.clone()),
                Err(error @ ServerError::Missing { .. }) => first = first.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = first {
            return Err(error);
        }
        if names.is_empty() {
            let mut others = self.definitions.for_path(path.as_path());
            let top = self.workspace.root();
            others.retain(|it| discovery::find_root(&it.root, path, top).is_some());
            names.extend(others.iter().map(|it| it.name.clone()));
        }
        if names.is_empty() {
            return Err(ServerError::NoServer { path: self.workspace.relative(path) });
        }
        Err(ServerError::Unsupported { server: names.join(", "), feature })
    }

    /// Every server for `feature` of the file, one of each group, with what kept the others away.
    pub(crate) async fn pick_all(
        self: &Arc<Self>,
        path: &AbsPath,
        feature: Feature,
        clock: Clock<'_>,
    ) -> Result<(Vec<Arc<Server>>, Vec<ServerError>), ServerError> {
        let mut servers = Vec::new();
        let mut problems = Vec::new();
        let mut groups = HashSet::new();
        for definition in self.applying(path, feature) {
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            match self.get(&definition, path, clock).await {
                Err(error @ ServerError::Cancelled) => return Err(error),
                Err(error) => problems.push(error),
                Ok(server) => {
                    groups.extend(definition.group.clone());
                    if server.core.capabilities().offers(feature) {
                        servers.push(server);
                    }
                }
            }
        }
        if servers.is_empty() {
            if problems.is_empty() {
                // Says whether no server is defined or none can.
                return self.pick(path, feature, clock).await.map(|server| (vec![server], Vec::new()));
            }
            return Err(problems.swap_remove(0));
        }
        // One that is not installed is no news while others answer.
        problems.retain(|problem| !matches!(problem, ServerError::Missing { .. }));
        Ok((servers, problems))
    }

    /// Every server that speaks the language of a file, one of each group, started; of `name` alone if
    /// one is given.
    pub(crate) async fn all_of(
        self: &Arc<Self>,
        path: &AbsPath,
        name: Option<&str>,
        clock: Clock<'_>,
    ) -> Result<Vec<Arc<Server>>, ServerError> {
        let mut definitions = self.definitions.for_path(path.as_path());
        let top = self.workspace.root();
        definitions.retain(|it| discovery::find_root(&it.root, path, top).is_some());
        if definitions.is_empty() {
            return Err(ServerError::NoServer { path: self.workspace.relative(path) });
        }
        definitions.retain(|definition| name.is_none_or(|name| name == definition.name));
        definitions.sort_by_key(|definition| definition.rank);
        let (mut servers, mut groups, mut first) = (Vec::new(), HashSet::new(), None);
        for definition in definitions {
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            match self.get(&definition, path, clock).await {
                Ok(server) => {
                    groups.extend(definition.group.clone());
                    servers.push(server);
                }
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => first = first.or(Some(error)),
            }
        }
        match first {
            Some(error) if servers.is_empty() => Err(error),
            _ => Ok(servers),
        }
    }

    /// The package root of a file for a server, or the workspace's.
    fn root_of(&self, definition: &ServerDefinition, path: &AbsPath) -> AbsPath {
        let top = self.workspace.root();
        discovery::find_root(&definition.root, path, top).unwrap_or_else(|| top.clone())
    }

    /// Ends servers and starts them anew: those of a file, or all that run; of `name` alone if one is
    /// given. Gives their names.
    pub(crate) async fn restart(
        self: &Arc<Self>,
        path: Option<&AbsPath>,
        name: Option<&str>,
        grace: Duration,
        clock: Clock<'_>,
    ) -> Result<Vec<String>, ServerError> {
        let mut slots = self.slots();
        slots.retain(|slot| {
            let here = path.is_none_or(|path| {
                slot.definition.language_id(path.as_path()).is_some()
                    && slot.works_on(&self.root_of(&slot.definition, path))
            });
            let known = slot.state().server.is_some() || slot.state().failures > 0;
            here && known && name.is_none_or(|name| name == slot.definition.name)
        });
        let mut names = Vec::new();
        for slot in &slots {
            let server = {
                let mut state = slot.state();
                // Whoever asks for it has done something about what made it fail.
                (state.failures, state.not_before) = (0, None);
                state.server.take()
            };
            if let Some(server) = server {
                server.shutdown(grace.min(clock.left())).await;
            }
            self.start_in(slot, clock).await?;
            names.push(slot.definition.name.clone());
        }
        if let (Some(path), true) = (path, slots.is_empty()) {
            let started = self.all_of(path, name, clock).await?;
            names.extend(started.iter().map(|server| server.name().to_owned()));
        }
        Ok(names)
    }

    /// The server of a definition for a file, started if need be.
    async fn get(
        self: &Arc<Self>,
        definition: &Arc<ServerDefinition>,
        path: &AbsPath,
        clock: Clock<'_>,
    ) -> Result<Arc<Server>, ServerError> {
        let top = self.workspace.root();
        let root = self.root_of(definition, path);
        if definition.root.folders {
            // One for all package roots, unless it turns out that it takes no more of them.
            let server = self.get_at(definition, top, &root, clock).await?;
            if server.include(&root).await {
                self.remember(definition, &root);
                return Ok(server);
            }
        }
        self.get_at(definition, &root, &root, clock).await
    }

    /// A restart begins with all package roots.
    fn remember(&self, definition: &ServerDefinition, folder: &AbsPath) {
        let key = (definition.name.clone(), self.workspace.root().clone());
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(slot) = slot {
            let folders = &mut slot.state().folders;
            if !folders.contains(folder) {
                folders.push(folder.clone());
            }
        }
    }

    /// The server of a definition at a place, started if need be, with `folder` as its first.
    async fn get_at(
        self: &Arc<Self>,
        definition: &Arc<ServerDefinition>,
        place: &AbsPath,
        folder: &AbsPath,
        clock: Clock<'_>,
    ) -> Result<Arc<Server>, ServerError> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = slots.entry((definition.name.clone(), place.clone())).or_insert_with(|| {
                Arc::new(Slot {
                    definition: Arc::clone(definition),
                    root: place.clone(),
                    starting: Arc::new(Semaphore::new(1)),
                    state: Mutex::new(SlotState { folders: vec![folder.clone()], ..SlotState::default() }),
                })
            });
            Arc::clone(slot)
        };
        self.start_in(&slot, clock).await
    }

    /// The server of a place, started if it does not run.
    async fn start_in(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        clock: Clock<'_>,
    ) -> Result<Arc<Server>, ServerError> {
        if let Some(server) = slot.running() {
            return Ok(server);
        }
        let name = &slot.definition.name;
        let late = |detail: String| ServerError::Starting { server: name.clone(), detail };
        let start = async {
            let permit = Arc::clone(&slot.starting).acquire_owned().await;
            let permit = permit.map_err(|_| late("the pool is shut down".to_owned()))?;
            if let Some(server) = slot.running() {
                return Ok(server);
            }
            if let Some(dead) = slot.bury() {
                self.keep_log(&dead);
                dead.process.end(Duration::from_millis(100)).await;
            }
            let not_before = slot.state().not_before.take();
            if let Some(not_before) = not_before.filter(|at| *at > Instant::now()) {
                if not_before > clock.until {
                    slot.state().not_before = Some(not_before);
                    let (failures, log) = {
                        let state = slot.state();
                        (state.failures, state.last_log.clone())
                    };
                    let tail = log.map(|log| last_lines(&log.stderr_tail, 5)).unwrap_or_default();
                    let wait = not_before.saturating_duration_since(Instant::now());
                    return Err(late(format!(
                        "it crashed {failures} times, next start in {wait:.0?}\n{tail}"
                    )));
                }
                tokio::time::sleep_until(not_before.into()).await;
            }
            let commands = self.commands(slot).await?;
            self.launch(slot, commands, permit, clock).await
        };
        tokio::select! {
            biased;
            () = clock.cancel.cancelled() => Err(ServerError::Cancelled),
            () = self.stop.cancelled() => Err(late("Pilcrow is shutting down".to_owned())),
            server = tokio::time::timeout(clock.left(), start) => {
                server.unwrap_or_else(|_| Err(late("its process has not answered initialize yet".to_owned())))
            }
        }
    }

    /// Every command that could start the server, best first.
    async fn commands(&self, slot: &Slot) -> Result<Vec<CommandLine>, ServerError> {
        let definition = &slot.definition;
        let programs = self.limits.search.find(definition, &slot.root, self.workspace.root());
        if programs.is_empty() {
            return Err(self.missing(definition, String::new()));
        }
        let variables = self.variables(slot);
        let mut env: Vec<(String, String)> = definition
            .command
            .env
            .iter()
            .map(|(name, value)| (name.clone(), expand_text(value, &variables)))
            .collect();
        for (name, pattern) in &definition.command.env_glob {
            if std::env::var_os(name).is_none()
                && let Some(found) = discovery::matches(pattern).last()
            {
                env.push((name.clone(), found.display().to_string()));
            }
        }
        if let Some(path) = self.limits.search.path_variable() {
            env.push(("PATH".to_owned(), path.to_string_lossy().into_owned()));
        }
        let args: Vec<String> =
            definition.command.args.iter().map(|arg| expand_text(arg, &variables)).collect();
        let command =
            |program| CommandLine { program, args: args.clone(), env: env.clone(), cwd: slot.root.clone() };
        Ok(programs.into_iter().map(command).collect())
    }

    fn missing(&self, definition: &ServerDefinition, detail: String) -> ServerError {
        ServerError::Missing {
            server: definition.name.clone(),
            install: definition.install.hint(&definition.name),
            detail,
        }
    }

    fn variables(&self, slot: &Slot) -> Vec<(&'static str, String)> {
        vec![
            ("root", slot.root.to_string()),
            ("workspace", self.workspace.root().to_string()),
            ("state", self.workspace.state().path().to_string()),
        ]
    }

    /// Starts the process and speaks with it, in a task of the pool: who waits may leave, others wait on.
    async fn launch(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        commands: Vec<CommandLine>,
        permit: OwnedSemaphorePermit,
        clock: Clock<'_>,
    ) -> Result<Arc<Server>, ServerError> {
        let definition = &slot.definition;
        let mut granted = Vec::new();
        for command in commands {
            let request = SpawnRequest {
                definition: definition.name.clone(),
                from_project: definition.from_project,
                root: slot.root.clone(),
                command: command.clone(),
            };
            let grant = self.policy.grant_spawn(&request, &*self.approver, clock.cancel).await;
            let grant =
                grant.map_err(|denied| ServerError::Denied { server: definition.name.clone(), denied })?;
            granted.push((command, grant));
            // Only a definition that probes its candidates needs more than one.
            if definition.command.probe.is_none() {
                break;
            }
        }
        self.start_janitor();
        self.make_room(slot).await;
        let (sender, receiver) = oneshot::channel();
        let (this, slot) = (Arc::clone(self), Arc::clone(slot));
        self.tracker.spawn(async move {
            let result = tokio::select! {
                // Dropping the start drops the process, which ends its group.
                () = this.stop.cancelled() => Err(ServerError::Cancelled),
                result = this.start(&slot, granted) => result,
            };
            {
                let mut state = slot.state();
                match &result {
                    Ok(server) => state.server = Some(Arc::clone(server)),
                    Err(ServerError::Missing { .. } | ServerError::Cancelled) => {}
                    Err(_) => state.failed(Duration::ZERO),
                }
            }
            drop(permit);
            if sender.send(result).is_err() {
                tracing::debug!(server = slot.definition.name, "started, but nobody waits any more");
            }
        });
        receiver.await.unwrap_or(Err(ServerError::Cancelled))
    }

    async fn start(
        &self,
        slot: &Slot,
        granted: Vec<(CommandLine, workspace::SpawnGrant)>,
    ) -> Result<Arc<Server>, ServerError> {
        let definition = &slot.definition;
        let mut failures = Vec::new();
        for (command, grant) in &granted {
            if let Some(probe) = &definition.command.probe {
                let probe = CommandLine { args: probe.clone(), ..command.clone() };
                if let Err(reason) = self.probe(&probe, grant).await {
                    failures.push(format!("{} does not work: {reason}", command.program.display()));
                    continue;
                }
            }
            let process = self.spawn(definition, command, grant).await?;
            let variables = self.variables(slot);
            let core = Core::new(
                Arc::clone(definition),
                slot.root.clone(),
                slot.state().folders.clone(),
                self.workspace.clone(),
                Arc::clone(&self.host),
                expand(&definition.settings, &variables),
            );
            return Server::start(core, process, &variables, self.limits.start, &self.tracker).await;
        }
        Err(self.missing(definition, failures.join("; ")))
    }

    async fn spawn(
        &self,
        definition: &ServerDefinition,
        command: &CommandLine,
        grant: &workspace::SpawnGrant,
    ) -> Result<Process, ServerError> {
        self.processes.spawn(command, grant).await.map_err(|error| match error {
            SpawnError::MissingProgram { program } => {
                self.missing(definition, format!("{program} is not there"))
            }
            error => ServerError::Start { server: definition.name.clone(), reason: error.to_string() },
        })
    }

    async fn probe(&self, command: &CommandLine, grant: &workspace::SpawnGrant) -> Result<(), String> {
        let mut process = self.processes.spawn(command, grant).await.map_err(|error| error.to_string())?;
        // Nothing is read from it; a closed pipe must not fail it, so the output is only dropped after.
        let _output = process.take_stdout();
        match tokio::time::timeout(Duration::from_secs(15), process.exited()).await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let tail = last_lines(&process.stderr_tail(), 1);
                Err(if tail.is_empty() { status.to_string() } else { tail })
            }
            Err(_) => {
                process.end(Duration::from_millis(200)).await;
                Err("it did not end".to_owned())
            }
        }
    }

    fn keep_log(&self, dead: &Server) {
        let log = log_of(dead);
        let mut text = format!("stderr:\n{}\n", log.stderr_tail);
        for entry in &log.traffic {
            text.push_str(&format!("{:?} {:?} {}\n", entry.at, entry.direction, entry.body));
        }
        let name = format!("crash-{}.log", log.name);
        let written = self
            .workspace
            .state()
            .child("servers")
            .and_then(|folder| folder.write_atomic(&name, text.as_bytes()));
        match written {
            Ok(()) => {
                tracing::warn!(server = log.name, "it crashed; its last messages are in servers/{name}")
            }
            Err(error) => tracing::warn!(server = log.name, %error, "it crashed; its log cannot be kept"),
        }
    }

    /// Stops the least recently used servers until one more may run.
    async fn make_room(&self, wanted: &Slot) {
        let mut warm: Vec<Arc<Slot>> = self.slots();
        warm.retain(|slot| !std::ptr::eq(&**slot, wanted) && slot.running().is_some());
        while warm.len() >= self.limits.warm.max(1) {
            let oldest =
                (0..warm.len()).min_by_key(|&at| warm[at].running().map(|server| server.last_used()));
            let Some(oldest) = oldest else { return };
            let slot = warm.swap_remove(oldest);
            let server = slot.state().server.take();
            if let Some(server) = server {
                tracing::info!(server = server.name(), "stopped to make room for another");
                server.shutdown(Duration::from_secs(2)).await;
            }
        }
    }

    /// One task that stops idle servers; begins with the first server.
    fn start_janitor(self: &Arc<Self>) {
        self.janitor.call_once(|| {
            let this = Arc::downgrade(self);
            let stop = self.stop.clone();
            let pause = (self.limits.idle / 10).clamp(Duration::from_millis(10), Duration::from_secs(30));
            self.tracker.spawn(async move {
                loop {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(pause) => {}
                    }
                    let Some(this) = this.upgrade() else { return };
                    for slot in this.slots() {
                        let idle = slot.state().server.take_if(|server| {
                            server.is_running() && server.last_used().elapsed() > this.limits.idle
                        });
                        if let Some(server) = idle {
                            tracing::info!(server = server.name(), "stopped, it was idle");
                            server.shutdown(Duration::from_secs(5)).await;
                        }
                    }
                }
            });
        });
    }
}

impl Drop for ServerPool {
    /// Processes end with their owners; this ends the tasks.
    fn drop(&mut self) {
        self.stop.cancel();
        self.tracker.close();
    }
}
