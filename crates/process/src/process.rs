//! Child processes: each in a group of its own, each with one owner that ends it.
//!
//! A [`Process`] is the owner; dropping it kills the child. `reaper` ends children and grandchildren that
//! left their group; the guard ends them if Pilcrow itself is killed. The [`SpawnGrant`] proves that a
//! program may run.

use std::collections::{HashMap, VecDeque};
use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use paths::AbsPath;
use policy::{CommandLock, ErrorCode, Network, SandboxProfile, SpawnGrant};
use shell::CommandLine;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Notify, OnceCell, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::confine::{self, HelperSocket, SandboxLevel, SandboxSockets, SandboxStatus, Spec};
use crate::deadlines;
use crate::guard::Guard;
use crate::process_table::{Entry, MARK, Table};
use crate::proxy::{self, HostGate};
use crate::reaper;

/// Interval of polling for the memory of a child with a limit.
const MEMORY_POLL: Duration = Duration::from_millis(250);

/// Maximum number of stored bytes of a child's standard error.
const STDERR_TAIL: usize = 64 * 1024;

#[derive(Clone, Copy)]
enum Place {
    /// The child has a group of its own.
    Group,
    /// The child has a session of its own, without a terminal.
    Session,
}

/// The targets of a child's streams and connections.
#[derive(Default)]
struct Streams<'a> {
    /// The pipe of both kinds of output, in order, for a child without input.
    merged: Option<&'a PipeWriter>,
    /// The use of a confined child's network.
    network: NetworkUse,
}

/// The use of the sockets in the network of a confined child.
#[derive(Default)]
enum NetworkUse {
    #[default]
    None,
    /// They serve the child's proxy.
    Proxy(Arc<dyn HostGate>),
    /// They are returned.
    Sockets(oneshot::Sender<SandboxSockets>),
}

/// Table of all children, which starts and ends them.
#[derive(Debug)]
pub struct Processes {
    shared: Arc<Shared>,
}

/// A running child with pipes for stdin, stdout and stderr.
///
/// Dropping it kills its group, and in the background the descendants that left the group.
#[derive(Debug)]
pub struct Process {
    shared: Arc<Shared>,
    child: Arc<Child>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    /// Held until the process is dropped.
    _lock: Option<Arc<CommandLock>>,
}

/// View of another owner's child: standard error and exit status.
///
/// Does not keep the child alive.
#[derive(Debug, Clone)]
pub struct ProcessView {
    child: Arc<Child>,
}

/// Reason why a child did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("{program} was not found; install it or correct its path")]
    MissingProgram {
        /// The missing program.
        program: String,
    },
    /// The grant is for another command, which is an error in Pilcrow.
    #[error("the permission for {definition} does not cover {program} in {cwd}; please report this")]
    Grant {
        /// The granted definition.
        definition: String,
        /// The program that did not start.
        program: String,
        cwd: AbsPath,
    },
    /// No sandbox works here, and the user's settings require one.
    #[error("{program} is not started without a sandbox (exec.sandbox = \"required\"): {reason}")]
    Unconfined { program: String, reason: String },
    #[error("{program} cannot be started: {source}")]
    Io {
        /// The program that did not start.
        program: String,
        source: std::io::Error,
    },
}

impl SpawnError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::MissingProgram { .. } => ErrorCode::MissingTool,
            Self::Grant { .. } => ErrorCode::Internal,
            Self::Unconfined { .. } => ErrorCode::Denied,
            Self::Io { .. } => ErrorCode::IoError,
        }
    }
}

/// State shared by the owners of children and the reaper.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Mark in the children's environment, unique to this Pilcrow.
    pub(crate) id: String,
    pub(crate) guard: Option<Guard>,
    pub(crate) children: Mutex<HashMap<u32, Arc<Child>>>,
    /// Notifies that a child of this process changed, whether started or adopted.
    pub(crate) changed: Notify,
    /// Owns the tasks that wait for children and end them.
    pub(crate) tasks: TaskTracker,
    stop: CancellationToken,
    next: AtomicU64,
    reaper: std::sync::Once,
    sandbox: OnceCell<SandboxStatus>,
    /// The namespaces of confined commands: network, and users.
    ///
    /// Root needs none of users.
    namespaces: Mutex<Vec<OwnedFd>>,
}

/// A child, shared by its owner, its views and the reaper.
#[derive(Debug)]
pub(crate) struct Child {
    /// Id of the child's process and of its process group.
    pub(crate) id: u32,
    /// Name in the mark that the child's descendants inherit.
    pub(crate) name: String,
    pub(crate) status: watch::Receiver<Option<ExitStatus>>,
    /// Whether the program is [`ID_INSIDE`] in a PID namespace of its own.
    has_pid_namespace: bool,
    /// Bytes of memory that it took when it was ended for that.
    over_memory: OnceLock<u64>,
    stderr: Mutex<Tail>,
}

/// The id of a program to itself under bubblewrap, which is process 1.
const ID_INSIDE: u32 = 2;

impl Child {
    /// Whether the child was reaped.
    pub(crate) fn has_exited(&self) -> bool {
        self.status.borrow().is_some()
    }

    /// Waits until the child has ended.
    pub(crate) async fn exited(&self) -> ExitStatus {
        let mut status = self.status.clone();
        // The channel has no sender and no status only if the runtime was shut down, which kills
        // the child.
        let status = status.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        status.unwrap_or_else(reaper::killed)
    }
}

/// The newest bytes of a stream.
#[derive(Debug, Default)]
struct Tail {
    bytes: VecDeque<u8>,
    /// Total number of bytes written.
    all: u64,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(STDERR_TAIL);
        self.bytes.drain(..excess);
        self.all += bytes.len() as u64;
    }

    /// The tail as text; if it is truncated, only whole lines.
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let cut = self.all > bytes.len() as u64;
        let start = if cut { bytes.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1) } else { 0 };
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }

    /// The bytes after the first `known`, as far as they are stored.
    fn since(&self, known: u64) -> Vec<u8> {
        let fresh = usize::try_from(self.all.saturating_sub(known)).unwrap_or(usize::MAX);
        self.bytes.iter().copied().skip(self.bytes.len().saturating_sub(fresh)).collect()
    }
}

impl Processes {
    /// Creates the table of this process's children, once for the process.
    ///
    /// `guard` is Pilcrow's own executable, started as `__guard` before the first child, and as
    /// `__confine` for confined ones; `None` starts neither (tests).
    ///
    /// On Linux this process becomes the reaper of its descendants: it adopts those that lose their
    /// parent.
    pub fn new(guard: Option<PathBuf>) -> Arc<Self> {
        reaper::adopt_orphans();
        let id = uuid::Uuid::new_v4().simple().to_string();
        Arc::new(Self {
            shared: Arc::new(Shared {
                guard: guard.map(|program| Guard::new(program, id.clone())),
                id,
                children: Mutex::default(),
                changed: Notify::new(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
                next: AtomicU64::new(1),
                reaper: std::sync::Once::new(),
                sandbox: OnceCell::new(),
                namespaces: Mutex::default(),
            }),
        })
    }

    /// Starts `command` under `grant`. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing runs then.
    pub async fn spawn(
        self: &Arc<Self>,
        command: &CommandLine,
        grant: &SpawnGrant,
    ) -> Result<Process, SpawnError> {
        self.spawn_with(command, grant, Place::Group, Streams::default(), &[]).await
    }

    /// Starts `command` like [`Self::spawn`], with a gate for its connections.
    ///
    /// The gate counts if the sandbox limits the network.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing runs then.
    pub async fn spawn_gated(
        self: &Arc<Self>,
        command: &CommandLine,
        grant: &SpawnGrant,
        gate: Arc<dyn HostGate>,
    ) -> Result<Process, SpawnError> {
        let streams = Streams { merged: None, network: NetworkUse::Proxy(gate) };
        self.spawn_with(command, grant, Place::Group, streams, &[]).await
    }

    /// Makes the guard lock the file, and write to it when this process has ended.
    ///
    /// The guard also waits for everything that the process had started.
    pub fn sign_end(&self, path: &AbsPath) {
        if let Some(guard) = &self.shared.guard {
            guard.sign(path);
        }
    }

    /// Makes the guard report a workspace's state when this process has ended.
    pub fn revert_at_end(&self, state: &AbsPath) {
        if let Some(guard) = &self.shared.guard {
            guard.revert(state);
        }
    }

    /// Starts a command of the user's shell under `grant`, with one output stream.
    ///
    /// It has a session of its own as in [`Self::spawn_apart`], and no input. `gate` permits its
    /// connections if the sandbox limits them.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing runs then.
    pub async fn spawn_merged(
        self: &Arc<Self>,
        command: &CommandLine,
        grant: &SpawnGrant,
        gate: Arc<dyn HostGate>,
    ) -> Result<(Process, pipe::Receiver), SpawnError> {
        let program = || command.program.display().to_string();
        let failed = |source| SpawnError::Io { program: program(), source };
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        let output = pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?;
        let streams = Streams { merged: Some(&writer), network: NetworkUse::Proxy(gate) };
        let process = self.spawn_with(command, grant, Place::Session, streams, &[]).await?;
        Ok((process, output))
    }

    /// Starts `command` like [`Self::spawn`], in its own session without a terminal.
    ///
    /// The grant is for `command` as it is; `later` replaces words of its arguments that become known
    /// only now, such as a port. `gate` permits its connections if the sandbox limits them.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; nothing runs then.
    pub async fn spawn_apart(
        self: &Arc<Self>,
        command: &CommandLine,
        grant: &SpawnGrant,
        later: &[(&str, String)],
        gate: Option<Arc<dyn HostGate>>,
    ) -> Result<Process, SpawnError> {
        let network = gate.map_or(NetworkUse::None, NetworkUse::Proxy);
        self.spawn_with(command, grant, Place::Session, Streams { merged: None, network }, later).await
    }

    /// Whether a command under `grant` has the network of confined programs.
    pub async fn has_sandbox_network(&self, grant: &SpawnGrant) -> bool {
        match grant.sandbox() {
            Some(profile) if profile.network == Network::Proxy => self.sandbox().await.has_network(),
            _ => false,
        }
    }

    /// Opens sockets in the network of confined programs.
    ///
    /// # Errors
    /// The system's error, or that there is no such network.
    pub async fn sandbox_sockets(&self) -> std::io::Result<SandboxSockets> {
        let SandboxStatus { level, .. } = self.sandbox().await;
        let cwd = AbsPath::new("/").expect("the path is absolute");
        let none = CommandLine { program: PathBuf::new(), args: Vec::new(), env: Vec::new(), cwd };
        let (_, spec) = confine::probe(level, Network::Proxy);
        let (sender, sockets) = oneshot::channel();
        let streams = Streams { merged: None, network: NetworkUse::Sockets(sender) };
        let mut helper = Shared::spawn(&self.shared, &none, None, Place::Session, streams, Some(&spec))?;
        drop(helper.take_stdin());
        let sockets = sockets.await;
        // It holds the listener open too.
        helper.exited().await;
        sockets.map_err(|_| std::io::Error::other(helper.stderr_tail()))
    }

    async fn spawn_with(
        self: &Arc<Self>,
        command: &CommandLine,
        grant: &SpawnGrant,
        place: Place,
        streams: Streams<'_>,
        later: &[(&str, String)],
    ) -> Result<Process, SpawnError> {
        let program = command.program.display().to_string();
        if !grant.covers(command) {
            let (definition, cwd) = (grant.definition().to_owned(), command.cwd.clone());
            return Err(SpawnError::Grant { definition, program, cwd });
        }
        self.shared.start_reaper();
        self.shared.start_guard();
        let mut command = command.clone();
        for word in &mut command.args {
            *word = later.iter().fold(std::mem::take(word), |word, (name, value)| word.replace(name, value));
        }
        let spec = match grant.sandbox() {
            Some(profile) => self.confine(profile, &command, &streams).await?,
            None => None,
        };
        Shared::spawn(&self.shared, &command, Some(grant), place, streams, spec.as_ref())
            .map_err(|source| spawn_error(&command, program, source))
    }

    /// The confinement of `command`; `None` if none works or is required.
    async fn confine(
        &self,
        profile: &SandboxProfile,
        command: &CommandLine,
        streams: &Streams<'_>,
    ) -> Result<Option<Spec>, SpawnError> {
        let status = self.sandbox().await;
        let (level, has_network) = (status.level, status.has_network());
        if level == SandboxLevel::None {
            let program = command.program.display().to_string();
            let refused = SpawnError::Unconfined { program, reason: status.detail };
            return if profile.required { Err(refused) } else { Ok(None) };
        }
        let mut profile = profile.clone();
        if profile.network == Network::Proxy
            && !(matches!(streams.network, NetworkUse::Proxy(_)) && has_network)
        {
            profile.network = Network::None;
        }
        Ok(Some(Spec { level, cwd: command.cwd.clone(), no_input: streams.merged.is_some(), profile }))
    }

    /// The sandbox of confined commands, found by a first try in each process.
    pub async fn sandbox(&self) -> SandboxStatus {
        if self.shared.guard.is_none() {
            return SandboxStatus::none("this program has no helper that confines commands");
        }
        self.shared.start_reaper();
        match self.shared.sandbox.get_or_try_init(|| self.shared.probe_sandbox()).await {
            Ok(status) => status.clone(),
            Err(error) => SandboxStatus::none(&format!("the helper cannot be started: {error}")),
        }
    }

    /// Ends every child with its group, and adopted orphans.
    ///
    /// Sends SIGTERM, then SIGKILL after a third of `deadline` (at most 500 ms), and reaps them.
    /// Then the guard ends too. Returns the processes that the system does not end within
    /// `deadline`.
    pub async fn end_all(&self, deadline: Duration) -> Vec<u32> {
        reaper::end_all(&self.shared, deadline).await
    }
}

/// Bytes of memory of each process with its descendants, in the order of `ids`.
///
/// 0 on systems other than Linux. Blocks for some milliseconds.
pub fn memory(ids: &[u32]) -> Vec<u64> {
    let table = Table::read();
    ids.iter().map(|id| table.resident(*id)).collect()
}

impl Process {
    /// The child's process id, which is also its group's.
    pub fn id(&self) -> u32 {
        self.child.id
    }

    /// The child's process id to itself, which differs in a sandbox.
    pub fn id_inside(&self) -> u32 {
        if self.child.has_pid_namespace { ID_INSIDE } else { self.child.id }
    }

    /// The id of the working process: this one, or the oldest that it started.
    ///
    /// A launcher ends before the process that it starts. `None` when none lives. Blocks for some
    /// milliseconds after the child's own process ended.
    pub fn worker(&self) -> Option<u32> {
        if self.child.has_exited() { reaper::oldest_left(&self.child) } else { Some(self.child.id) }
    }

    /// Takes the child's standard input; `None` the second time.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the child's standard output; `None` the second time.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// The newest lines of the child's standard error, at most 64 KiB.
    ///
    /// Complete when [`Self::exited`] has returned, unless a descendant still writes.
    pub fn stderr_tail(&self) -> String {
        self.child.stderr.lock().text()
    }

    /// A view of the child for observers that do not own it.
    pub fn view(&self) -> ProcessView {
        ProcessView { child: Arc::clone(&self.child) }
    }

    /// Gives the child two seconds to end when its streams close, if Pilcrow is killed.
    ///
    /// Used for a child that is attached to processes that Pilcrow did not start.
    pub fn end_gently(&self) {
        if let Some(guard) = &self.shared.guard {
            guard.gently(self.child.id);
        }
    }

    /// Waits until the child has ended.
    ///
    /// May be called again and from several tasks.
    pub async fn exited(&self) -> ExitStatus {
        self.child.exited().await
    }

    /// Bytes of memory that the child took when it was ended for exceeding a limit.
    pub fn over_memory(&self) -> Option<u64> {
        self.child.over_memory.get().copied()
    }

    /// Whether the child has ended and left members of its group behind.
    ///
    /// Blocks for some milliseconds, since it reads the system's process table.
    pub fn has_left(&self) -> bool {
        self.child.has_exited() && reaper::has_members(self.child.id)
    }

    /// Ends the child with its group, and then descendants outside it.
    ///
    /// Sends SIGTERM, and SIGKILL after `grace`. The child is reaped when this returns. A process that the
    /// system does not end delays this for at most 2 s over `grace`; the answer is then the status of
    /// SIGKILL, and [`Processes::end_all`] names the process.
    pub async fn end(&self, grace: Duration) -> ExitStatus {
        reaper::end(&self.shared, &self.child, grace).await
    }
}

impl ProcessView {
    /// Waits until the child has ended, also after its owner was dropped.
    pub async fn exited(&self) -> ExitStatus {
        self.child.exited().await
    }

    /// The child's standard error after the first `known` bytes, and the total number.
    ///
    /// Limited to the newest 64 KiB.
    pub fn stderr_since(&self, known: u64) -> (Vec<u8>, u64) {
        let tail = self.child.stderr.lock();
        (tail.since(known), tail.all)
    }

    /// Maps a process id of the child's PID namespace to this one.
    ///
    /// Blocks for some milliseconds in a sandbox, since it reads the system's process table.
    pub fn id_outside(&self, inside: i64) -> Option<i64> {
        if !self.child.has_pid_namespace {
            return Some(inside);
        }
        let below = Table::read().descendants(self.child.id);
        below.iter().find(|it| it.id_inside() == Some(inside)).map(|it| it.pid.into())
    }

    /// Kills all processes below a running child's program; on Linux only.
    ///
    /// Blocks for some milliseconds, since it reads the system's process table.
    pub fn kill_descendants(&self) {
        if !self.child.has_exited() {
            // A process that notices the end of another may let a paused program continue, so all stop
            // before the first is killed.
            let table = Table::read();
            let mut program = self.child.id;
            if self.child.has_pid_namespace {
                let below = table.descendants(self.child.id);
                let found = below.iter().find(|it| it.id_inside() == Some(ID_INSIDE.into()));
                let Some(found) = found else { return };
                program = found.pid;
            }
            let below = table.descendants(program);
            below.iter().for_each(Entry::stop);
            below.iter().for_each(Entry::kill);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.shared.children.lock().contains_key(&self.child.id) {
            reaper::kill_now(&self.shared, &self.child);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
        reaper::forget_program(&self.id);
        if let Some(guard) = &self.guard {
            guard.close();
        }
    }
}

impl Shared {
    fn spawn(
        this: &Arc<Self>,
        command: &CommandLine,
        grant: Option<&SpawnGrant>,
        place: Place,
        streams: Streams<'_>,
        spec: Option<&Spec>,
    ) -> std::io::Result<Process> {
        let name = format!("{}.{}", this.id, this.next.fetch_add(1, Ordering::Relaxed));
        let mut prepared = match spec {
            None => tokio::process::Command::new(&command.program),
            Some(_) => confine::helper(&command.program),
        };
        match place {
            Place::Group if spec.is_none() => {
                prepared.process_group(0);
            }
            // The child's number is then also its group's. A confined child is without a terminal.
            _ => lead_session(&mut prepared)?,
        }
        prepared.args(&command.args).current_dir(&command.cwd);
        for (variable, value) in std::env::vars_os() {
            let (name, value) = (variable.to_string_lossy(), value.to_string_lossy());
            if !grant.map_or_else(|| !policy::is_secret(&name, &value), |it| it.passes(&name, &value)) {
                prepared.env_remove(&variable);
            }
        }
        prepared.envs(command.env.iter().map(|(name, value)| (name, value)));
        prepared.envs(grant.iter().flat_map(|it| it.environment()).map(|(name, value)| (name, value)));
        let mark = match std::env::var(MARK) {
            Ok(outer) if !outer.is_empty() => format!("{outer},{name}"),
            _ => name.clone(),
        };
        prepared.env(MARK, mark).kill_on_drop(true);
        let (socket, input) = match spec {
            Some(spec) => {
                let (socket, input) = HelperSocket::send(spec, &this.namespaces.lock())?;
                (Some(socket), input)
            }
            None if streams.merged.is_some() => (None, Stdio::null()),
            None => (None, Stdio::piped()),
        };
        prepared.stdin(input);
        match streams.merged {
            Some(pipe) => prepared.stdout(pipe.try_clone()?).stderr(pipe.try_clone()?),
            None => prepared.stdout(Stdio::piped()).stderr(Stdio::piped()),
        };

        let (mut running, id) = reaper::register(&this.id, || prepared.spawn())?;
        if let Some(guard) = &this.guard {
            guard.add(id);
        }
        let (send_status, status) = watch::channel(None);
        let (stdin, stdout, stderr) = (running.stdin.take(), running.stdout.take(), running.stderr.take());
        let stdin = match &socket {
            Some(socket) if streams.merged.is_none() => Some(socket.input()?),
            _ => stdin,
        };
        let has_pid_namespace = spec.is_some_and(|it| it.level == SandboxLevel::Bwrap);
        let child = Child {
            id,
            name,
            status,
            has_pid_namespace,
            over_memory: OnceLock::new(),
            stderr: Mutex::default(),
        };
        let child = Arc::new(child);
        this.children.lock().insert(id, Arc::clone(&child));
        let lock = grant.and_then(SpawnGrant::lock);
        let process =
            Process { shared: Arc::clone(this), child: Arc::clone(&child), stdin, stdout, _lock: lock };
        let shared = Arc::downgrade(this);
        if let Some(limit) = grant.and_then(SpawnGrant::max_memory) {
            this.tasks.spawn(limit_memory(Weak::clone(&shared), Arc::clone(&child), limit));
        }
        if let Some(socket) = socket.filter(|_| spec.is_some_and(|it| it.profile.network == Network::Proxy)) {
            this.tasks.spawn(serve_network(
                socket,
                streams.network,
                Weak::clone(&shared),
                Arc::clone(&child),
            ));
        }
        this.tasks.spawn(async move {
            let drained = CancellationToken::new();
            let reads = drain(stderr, Arc::clone(&child), drained.clone());
            let waits = async {
                let status = running.wait().await;
                // A descendant may keep stderr open, so do not wait longer for its output.
                tokio::time::timeout(deadlines::LAST_OUTPUT, drained.cancelled()).await.ok();
                reaper::unregister(id);
                let status = status.unwrap_or_else(|error| {
                    tracing::warn!(pid = id, %error, "the end of a child could not be observed");
                    reaper::killed()
                });
                send_status.send_replace(Some(status));
                if let Some(shared) = shared.upgrade() {
                    shared.changed.notify_waiters();
                }
            };
            tokio::join!(reads, waits);
        });
        Ok(process)
    }

    /// Finds the best sandbox that works here.
    async fn probe_sandbox(self: &Arc<Self>) -> std::io::Result<SandboxStatus> {
        let mut reasons = Vec::new();
        for level in SandboxLevel::BEST_FIRST {
            let reason = match confine::missing(level) {
                Some(reason) => reason.to_owned(),
                None => {
                    let offline = self.try_sandbox(level, Network::Proxy).await?;
                    // Usually one try is enough.
                    let problem = match offline {
                        None => None,
                        Some(_) => self.try_sandbox(level, Network::Allowed).await?,
                    };
                    match problem {
                        None => return Ok(SandboxStatus::new(level, offline, &reasons)),
                        Some(reason) => reason,
                    }
                }
            };
            reasons.push(reason);
        }
        Ok(SandboxStatus::none(&reasons.join("; ")))
    }

    /// Runs a command in the sandbox; returns why it does not work.
    async fn try_sandbox(
        self: &Arc<Self>,
        level: SandboxLevel,
        network: Network,
    ) -> std::io::Result<Option<String>> {
        let (command, spec) = confine::probe(level, network);
        let (reader, writer) = std::io::pipe()?;
        let mut output = pipe::Receiver::from_owned_fd(reader.into())?;
        let (sender, sockets) = oneshot::channel();
        let streams = Streams { merged: Some(&writer), network: NetworkUse::Sockets(sender) };
        let process = Self::spawn(self, &command, None, Place::Session, streams, Some(&spec))?;
        drop(writer);
        let mut text = Vec::new();
        let ended = async {
            output.read_to_end(&mut text).await?;
            Ok::<_, std::io::Error>(process.exited().await)
        };
        let status = match tokio::time::timeout(confine::PROBE_TIME, ended).await {
            Ok(status) => status?,
            Err(_) => return Ok(Some(format!("{} did not end", level.name()))),
        };
        let text = String::from_utf8_lossy(&text);
        // Later commands enter the namespaces that came with them.
        drop(sockets.await);
        // The loader and other libraries may print more.
        let answer = text.trim().lines().last();
        let works = status.success() && text.contains(confine::PROBE_ANSWER);
        let reason =
            || format!("{} does not work: {}", level.name(), answer.unwrap_or("its probe printed nothing"));
        Ok((!works).then(reason))
    }

    /// Starts the task that reaps orphans, from the first child on.
    fn start_reaper(self: &Arc<Self>) {
        self.reaper.call_once(|| {
            let shared = Arc::downgrade(self);
            self.tasks.spawn(reaper::reap_orphans(shared, self.stop.clone()));
        });
    }

    /// Starts the guard before the first child, and again if it was killed.
    ///
    /// A failure is only logged, since the guard matters only when Pilcrow is killed.
    fn start_guard(&self) {
        let Some(guard) = &self.guard else { return };
        match reaper::register_some(&self.id, || guard.ensure()) {
            Ok(Some((mut running, id))) => {
                self.tasks.spawn(async move {
                    if let Err(error) = running.wait().await {
                        tracing::warn!(%error, "the end of the guard process could not be observed");
                    }
                    reaper::unregister(id);
                });
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "no guard process: children outlive a Pilcrow that is killed");
            }
        }
    }
}

/// Passes on the sockets in a command's network, or serves its proxy.
///
/// The proxy ends with the command.
async fn serve_network(socket: HelperSocket, used: NetworkUse, shared: Weak<Shared>, child: Arc<Child>) {
    let (sockets, namespaces) = match socket.receive().await {
        Ok(Some(received)) => received,
        // The command's output has the helper's reason.
        Ok(None) => return,
        Err(error) => return tracing::warn!(%error, "a command has no proxy"),
    };
    if let Some(shared) = shared.upgrade() {
        let mut known = shared.namespaces.lock();
        if known.is_empty() {
            *known = namespaces;
        }
    }
    let gate = match used {
        NetworkUse::Proxy(gate) => gate,
        NetworkUse::Sockets(sender) => return drop(sender.send(sockets)),
        NetworkUse::None => return,
    };
    let end = CancellationToken::new();
    // Open connections end with the token.
    let _ends = end.clone().drop_guard();
    let Some(listener) = sockets.listener else { return };
    tokio::select! {
        () = proxy::serve(listener, gate, end) => {}
        _ = child.exited() => {}
    }
}

/// Ends the child when it takes more memory than `limit`, with what it started.
///
/// Does nothing on systems other than Linux.
async fn limit_memory(shared: Weak<Shared>, child: Arc<Child>, limit: u64) {
    loop {
        // The system reports no such event, so poll.
        if tokio::time::timeout(MEMORY_POLL, child.exited()).await.is_ok() {
            return;
        }
        let measured = Arc::clone(&child);
        let used = tokio::task::spawn_blocking(move || reaper::memory(&measured)).await.unwrap_or_default();
        let Some(shared) = shared.upgrade() else { return };
        if used > limit {
            let [used_mib, limit_mib] = [used, limit].map(|bytes| bytes >> 20);
            let reason = format!(
                "pilcrow: ended the program: it used {used_mib} MiB, more than `exec.max_memory` allows ({limit_mib} MiB)\n"
            );
            child.over_memory.set(used).ok();
            child.stderr.lock().push(reason.as_bytes());
            tracing::warn!(pid = child.id, used, limit, "ended: it exceeded the memory limit");
            reaper::end(&shared, &child, Duration::ZERO).await;
            return;
        }
    }
}

/// Stores the tail of `stderr` until its end, then cancels `drained`.
async fn drain(stderr: Option<ChildStderr>, child: Arc<Child>, drained: CancellationToken) {
    if let Some(mut stderr) = stderr {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            child.stderr.lock().push(&buffer[..count]);
        }
    }
    drained.cancel();
}

/// Makes the command begin a session of its own.
///
/// The crate for this wraps whole commands; Pilcrow uses only its step before the start.
fn lead_session(command: &mut tokio::process::Command) -> std::io::Result<()> {
    use process_wrap::tokio::{CommandWrap, CommandWrapper, ProcessSession};
    // The step reads nothing from this command.
    let unread = CommandWrap::with_new("", |_| ());
    ProcessSession.pre_spawn(command, &unread)
}

/// Distinguishes a missing program from a missing directory or a broken script.
fn spawn_error(command: &CommandLine, program: String, source: std::io::Error) -> SpawnError {
    let message = |text: String| std::io::Error::new(source.kind(), text);
    if !command.cwd.as_path().is_dir() {
        let source = message(format!("{} is not a directory", command.cwd));
        return SpawnError::Io { program, source };
    }
    if source.kind() != std::io::ErrorKind::NotFound {
        return SpawnError::Io { program, source };
    }
    let has_directory = command.program.parent().is_some_and(|parent| parent != Path::new(""));
    if has_directory && command.cwd.as_path().join(&command.program).exists() {
        let source = message("the file exists, but its interpreter is missing".to_owned());
        return SpawnError::Io { program, source };
    }
    SpawnError::MissingProgram { program }
}
