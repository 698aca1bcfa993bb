//! All debug sessions of one process: choice of the adapter, start, lookup and shutdown.
//!
//! Asks for no permission: [`Sessions::plan`] returns the command to run, the caller obtains a
//! grant and passes it to [`Sessions::start`].

mod external_session;
mod program_run;
mod relaunch;
pub(crate) mod reverse;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use adapters::{DebuggerDefinition, DebuggerDefinitions, Definition, ProjectPrograms, fill, merge};
use parking_lot::{Mutex, MutexGuard};
use paths::{AbsPath, StateDir};
use policy::SpawnGrant;
use process::{Processes, deadlines};
use reverse::{DenySpawns, ReverseRequests, SpawnApprover};
use serde_json::{Map, Value, json};
use shell::CommandLine;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::RunId;

use crate::debuggee::State;
use crate::error::{DapError, Result};
use crate::launch::{LaunchPlan, LaunchSpec, Target};
use crate::session::{Clock, Identity, Session};
use crate::transport::{self, Connection};

pub use external_session::{ExternalAdapter, ExternalSession, ExternalStart};
pub use program_run::ProgramOutput;

/// Maximum number of ended sessions that stay listed for their output.
const MAX_ENDED_SESSIONS: usize = 16;

pub struct Sessions {
    me: Weak<Self>,
    change_signal: watch::Sender<u64>,
    definitions: Mutex<Arc<DebuggerDefinitions>>,
    programs: ProjectPrograms,
    processes: Arc<Processes>,
    tracker: TaskTracker,
    next: AtomicU64,
    list: Mutex<Vec<Arc<Session>>>,
    /// Runs that were shown a session, the most recent last.
    shown: Mutex<Vec<(RunId, String)>>,
    /// Directory of the sockets at which other processes join.
    socket_dir: OnceLock<StateDir>,
}

impl Sessions {
    pub fn new(
        definitions: DebuggerDefinitions,
        programs: ProjectPrograms,
        processes: Arc<Processes>,
    ) -> Arc<Self> {
        let (tracker, next, list) = (TaskTracker::new(), AtomicU64::new(1), Mutex::default());
        let change_signal = watch::channel(0).0;
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            change_signal,
            definitions: Mutex::new(Arc::new(definitions)),
            programs,
            processes,
            tracker,
            next,
            list,
            shown: Mutex::default(),
            socket_dir: OnceLock::new(),
        })
    }

    pub(crate) fn processes(&self) -> &Arc<Processes> {
        &self.processes
    }

    pub(crate) fn socket_dir(&self) -> Option<&StateDir> {
        self.socket_dir.get()
    }

    pub(crate) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// Lets other processes join later sessions at sockets in `directory`.
    ///
    /// The first call wins.
    pub fn announce(&self, directory: StateDir) {
        drop(self.socket_dir.set(directory));
    }

    /// Counter of changes of all sessions' state, output and tree.
    ///
    /// Waiting for it is cancel-safe.
    pub fn change_signal(&self) -> &watch::Sender<u64> {
        &self.change_signal
    }

    /// The known adapters.
    pub fn definitions(&self) -> Arc<DebuggerDefinitions> {
        Arc::clone(&self.definitions.lock())
    }

    /// Replaces the definitions for later sessions.
    ///
    /// Returns the names of those that differ.
    pub fn take_definitions(&self, fresh: DebuggerDefinitions) -> Vec<String> {
        let mut definitions = self.definitions.lock();
        let names = definitions.differences(&fresh);
        *definitions = Arc::new(fresh);
        names
    }

    /// Plans the start for `spec`. Blocks.
    ///
    /// # Errors
    /// [`DapError::NoAdapter`], [`DapError::Missing`], [`DapError::Unsupported`].
    pub fn plan(&self, spec: &LaunchSpec) -> Result<LaunchPlan> {
        self.check_is_program(spec)?;
        let matching = self.matching_adapters(spec)?;
        let found = matching.iter().find_map(|adapter| {
            let program = self
                .programs
                .find(&adapter.name, &adapter.command.candidates, &spec.root)
                .into_iter()
                .next()?;
            Some((Arc::clone(adapter), program))
        });
        let (adapter, program) = found.ok_or_else(|| DapError::Missing {
            adapter: matching.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" or "),
            hint: matching.iter().map(|it| it.install.hint(&it.name)).collect::<Vec<_>>().join("` or `"),
        })?;
        let attaches = matches!(spec.target, Target::Process(_) | Target::Port { .. });
        let template = if attaches { adapter.attach.as_ref() } else { Some(&adapter.launch) };
        let test_template = spec.test.as_deref().and_then(|it| adapter.tests.get(it)?.launch.as_ref());
        let template = template.ok_or_else(|| DapError::Unsupported {
            adapter: adapter.name.clone(),
            what: "attach to a running program".to_owned(),
            nearest: Some("`launch` the program".to_owned()),
        })?;
        let by_pid = matches!(spec.target, Target::Process(_)) && spec.arguments.is_none();
        if by_pid && !adapter.attaches_by("pid") {
            return Err(DapError::Unsupported {
                adapter: adapter.name.clone(),
                what: "attach to a process by its pid".to_owned(),
                nearest: Some("start the program with a debug port, and `attach` with `port`".to_owned()),
            });
        }
        let variables = self.variables(&adapter, spec);
        let mut arguments = fill(template, &variables).unwrap_or_else(|| json!({}));
        let executable = match &spec.target {
            Target::Program(path) if !adapter.covers(path.as_path()) && path.as_path().is_file() => {
                adapter.launch_executable.as_ref()
            }
            _ => None,
        };
        for more in [executable, test_template].into_iter().flatten() {
            merge(&mut arguments, fill(more, &variables).unwrap_or_else(|| json!({})));
        }
        if spec.stdin.is_some() {
            let template = adapter.stdin.as_ref().filter(|_| !attaches);
            let template = template.ok_or_else(|| DapError::Unsupported {
                adapter: adapter.name.clone(),
                what: "give standard input".to_owned(),
                nearest: Some("let the program read a file, or launch it with another `adapter`".to_owned()),
            })?;
            merge(&mut arguments, fill(template, &variables).unwrap_or_else(|| json!({})));
        }
        if let Some(requested) = &spec.arguments {
            merge(&mut arguments, requested.clone());
        }
        if !attaches && adapter.interpreter(&arguments).is_empty() {
            check_interpreter(&adapter, &variables)?;
        }
        if let Some(wrap) = adapter.quirks.wrap.as_ref().filter(|_| !attaches) {
            wrap.apply(&mut arguments);
        }
        let env = adapter.command.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut args = Vec::new();
        for word in &adapter.command.args {
            let missing = || DapError::Missing {
                adapter: adapter.name.clone(),
                hint: adapter.install.hint(&adapter.name),
            };
            let own = word.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
            let own = own.filter(|it| adapter.variables.contains_key(*it) || adapter.texts.contains_key(*it));
            let value = fill(&json!(word), &variables).and_then(|it| it.as_str().map(str::to_owned));
            // The port is chosen at the start; what the definition names must exist.
            args.push(match own {
                Some(_) => value.ok_or_else(missing)?,
                None => word.clone(),
            });
        }
        let command = CommandLine { program, args, env, cwd: spec.root.clone() };
        let connect = match &spec.target {
            Target::Port { host, port } if adapter.quirks.attach_connects => Some((host.clone(), *port)),
            _ => None,
        };
        let program = match &spec.target {
            Target::Program(path) => Some((path.as_path().to_owned(), spec.args.clone())),
            Target::Module(name) => {
                let mut runs = adapter.interpreter(&arguments).into_iter();
                let program = PathBuf::from(runs.next().unwrap_or_else(|| "python".to_owned()));
                let args = runs.chain(["-m".to_owned(), name.clone()]).chain(spec.args.clone()).collect();
                Some((program, args))
            }
            Target::Process(_) | Target::Port { .. } => None,
        };
        let program = program.map(|(program, args)| CommandLine {
            program,
            args,
            env: spec.env.clone(),
            cwd: spec.cwd.clone(),
        });
        let mut breakpoints = spec.breakpoints.clone();
        breakpoints.stop_at_panics(&adapter.quirks.panic_functions);
        let quirks = &adapter.quirks;
        let misses_entry = spec.stop_on_entry && (quirks.entry_step || !quirks.entry_functions.is_empty());
        let is_new = |name: &&String| !breakpoints.functions().iter().any(|(it, _)| it.name == **name);
        let entry: Option<Vec<String>> =
            misses_entry.then(|| quirks.entry_functions.iter().filter(is_new).cloned().collect());
        entry.iter().flatten().for_each(|name| breakpoints.add_function(name));
        Ok(LaunchPlan {
            entry,
            title: spec.target.title(&spec.root),
            request: if attaches { "attach" } else { "launch" },
            root: spec.root.clone(),
            breakpoints,
            user_breakpoints: Vec::new(),
            adapter,
            command,
            arguments,
            program,
            external: false,
            connect,
        })
    }

    /// Refuses the source of a program that must be built first.
    fn check_is_program(&self, spec: &LaunchSpec) -> Result<()> {
        let (Target::Program(path), None) = (&spec.target, &spec.test) else { return Ok(()) };
        let definitions = self.definitions();
        let path = path.as_path();
        let build = match &spec.adapter {
            Some(name) => definitions.get(name).and_then(|it| it.builds(path)),
            None if definitions.for_program(path).is_empty() => {
                definitions.list().find_map(|it| it.builds(path))
            }
            None => None,
        };
        match build {
            Some(build) => Err(DapError::Invalid(format!(
                "{} is a source, not a program\nbuild it (`{build}`) and `launch` the executable, or use \
                 `test` for a test in it",
                spec.target.title(&spec.root)
            ))),
            None => Ok(()),
        }
    }

    /// The suitable adapters, best first; at least one.
    fn matching_adapters(&self, spec: &LaunchSpec) -> Result<Vec<Arc<DebuggerDefinition>>> {
        let definitions = self.definitions();
        let none = |what: String| {
            let known = definitions.list().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
            let refused = definitions.refused().iter().map(|it| format!("\nnot used: {it}"));
            DapError::NoAdapter { what, known: known + &refused.collect::<String>() }
        };
        if let Target::Process(pid) = spec.target
            && Path::new("/proc/self").exists()
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            return Err(DapError::Invalid(format!("there is no process {pid}; it may have ended")));
        }
        if let Some(name) = &spec.adapter {
            let adapter = definitions.get(name).cloned();
            if let (Some(adapter), Some(test)) = (&adapter, &spec.test)
                && !adapter.tests.contains_key(test)
            {
                return Err(none(format!("tests of {test} with {name}")));
            }
            return adapter.map(|it| vec![it]).ok_or_else(|| none(format!("the name `{name}`")));
        }
        let matching = match &spec.target {
            _ if spec.test.is_some() => {
                let test = spec.test.as_deref().unwrap_or_default();
                let mut matching = definitions.ranked(|it| it.tests.contains_key(test));
                matching.sort_by_key(|it| it.tests.get(test).and_then(|it| it.rank).unwrap_or(it.rank));
                matching
            }
            Target::Program(path) => definitions.for_program(path.as_path()),
            Target::Module(_) => definitions.ranked(|it| it.launches("module")),
            Target::Process(pid) => std::fs::read_link(format!("/proc/{pid}/exe"))
                .map(|it| definitions.for_process(&it))
                .unwrap_or_default(),
            Target::Port { .. } => Vec::new(),
        };
        if matching.is_empty() { Err(none(spec.target.title(&spec.root))) } else { Ok(matching) }
    }

    fn variables(&self, adapter: &DebuggerDefinition, spec: &LaunchSpec) -> Map<String, Value> {
        let mut variables = spec.more.clone();
        let mut set = |name: &str, value: Value| drop(variables.insert(name.to_owned(), value));
        set("workspace", json!(spec.root.to_string()));
        let number = self.next.load(Ordering::Relaxed);
        let scratch = format!("pilcrow-debug-{}-{number}", std::process::id());
        set("scratch", json!(std::env::temp_dir().join(scratch).to_string_lossy()));
        set("args", json!(spec.args));
        set("cwd", json!(spec.cwd.to_string()));
        set("stop_on_entry", json!(spec.stop_on_entry));
        if let Some(stdin) = &spec.stdin {
            set("stdin", json!(stdin.to_string()));
            let words: Vec<_> = spec.args.iter().map(|it| shell::quote(it)).collect();
            set("redirected", json!(format!("{} < {}", words.join(" "), shell::quote(&stdin.to_string()))));
        }
        if !spec.env.is_empty() {
            set("env_list", spec.env.iter().map(|(name, value)| json!(format!("{name}={value}"))).collect());
            set("env", spec.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
        }
        match &spec.target {
            Target::Program(path) => {
                let directory = if path.as_path().is_dir() { Some(path.clone()) } else { path.parent() };
                set("program", json!(path.to_string()));
                set("folder", json!(directory.map(|it| it.to_string())));
            }
            Target::Module(name) => set("module", json!(name)),
            Target::Process(pid) => set("pid", json!(pid)),
            Target::Port { host, port } => {
                set("host", json!(host));
                set("port", json!(port));
            }
        }
        adapter.texts.iter().for_each(|(name, text)| set(name, json!(text)));
        for (name, candidates) in &adapter.variables {
            let find = |it: &String| match adapter.runs_itself(name) || it.contains('/') {
                true => self.find_nearest_program(&adapter.name, it, spec),
                // An interpreter beside the adapter lacks what the program imports.
                false => self.programs.search.on_path(it),
            };
            if let Some(path) = candidates.iter().find_map(find) {
                set(name, json!(path.to_string_lossy()));
            }
        }
        variables
    }

    /// Finds a program of an adapter's variables.
    ///
    /// Searches from the program's working directory upwards, because a project may contain several.
    fn find_nearest_program(&self, owner: &str, candidate: &String, spec: &LaunchSpec) -> Option<PathBuf> {
        if let Some(name) = candidate.strip_prefix("${venv}/") {
            let program = self.programs.environment(&spec.cwd)?.join(name);
            return program.is_file().then_some(program);
        }
        let names = std::slice::from_ref(candidate);
        let ancestors = spec.cwd.as_path().ancestors().take_while(|it| it.starts_with(spec.root.as_path()));
        let within = ancestors.filter(|_| candidate.contains('/')).filter_map(AbsPath::new);
        let mut directories = within.chain([spec.root.clone()]);
        directories.find_map(|directory| self.programs.find(owner, names, &directory).into_iter().next())
    }

    /// Starts a planned session until its program runs.
    ///
    /// The adapter's `runInTerminal` requests are refused. Dropping the future ends what was started.
    ///
    /// # Errors
    /// [`DapError`]; nothing keeps running then.
    pub async fn start(&self, plan: &LaunchPlan, grant: &SpawnGrant, clock: &Clock) -> Result<Arc<Session>> {
        self.start_with(plan, grant, Arc::new(DenySpawns), clock).await
    }

    /// [`Self::start`] with an approver for the programs that the adapter asks to run.
    ///
    /// # Errors
    /// [`DapError`]; nothing keeps running then.
    pub async fn start_with(
        &self,
        plan: &LaunchPlan,
        grant: &SpawnGrant,
        approver: Arc<dyn SpawnApprover>,
        clock: &Clock,
    ) -> Result<Arc<Session>> {
        let connect = async {
            match &plan.connect {
                Some((host, port)) => {
                    let until = clock.until.min(Instant::now() + deadlines::DEBUG_PORT);
                    transport::connect_to(&plan.adapter.name, host, *port, until).await
                }
                None => {
                    let (gate, socket_dir) = (approver.hosts(), self.socket_dir());
                    let (until, tracker) = (clock.until, &self.tracker);
                    transport::open(&self.processes, plan, grant, gate, socket_dir, until, tracker).await
                }
            }
        };
        let connection = tokio::select! {
            biased;
            // `connect` owns what was started so far and kills it when dropped.
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            connection = connect => connection?,
        };
        let session = self.register(plan, connection, Some(grant.clone()), approver, None);
        let unfinished = StartGuard(Some(Arc::clone(&session)));
        match session.handshake(plan, clock).await {
            Ok(()) => {
                unfinished.defuse();
                if let Some(directory) = self.socket_dir.get() {
                    session.listen(directory, &self.tracker);
                }
                Ok(session)
            }
            Err(error) => {
                session.fail_start(&error.to_string());
                session.ended().await;
                let needs = plan.adapter.quirks.requires.as_ref();
                Err(match (error, needs) {
                    (DapError::Refused { adapter, command, reason }, _) => {
                        // Only the output reports a failed build.
                        let pieces = session.output(0).pieces;
                        let said: Vec<&str> = pieces.iter().flat_map(|it| it.text.lines()).collect();
                        let said = said[said.len().saturating_sub(20)..].join("\n");
                        let reason = if said.is_empty() { reason } else { format!("{reason}\n{said}") };
                        DapError::Refused { adapter, command, reason }
                    }
                    (DapError::Crashed { adapter, why }, Some(needs)) => {
                        DapError::Crashed { adapter, why: format!("{why}\nit needs {needs}") }
                    }
                    // The remaining time does not help the caller, and the session has ended.
                    (DapError::Timeout { adapter, command, .. }, _) => {
                        DapError::Late { adapter, why: format!("it did not answer `{command}` in time") }
                    }
                    (error, _) => error,
                })
            }
        }
    }

    /// Creates and lists a session over `connection`.
    pub(crate) fn register(
        &self,
        plan: &LaunchPlan,
        mut connection: Connection,
        grant: Option<SpawnGrant>,
        approver: Arc<dyn SpawnApprover>,
        parent: Option<&Session>,
    ) -> Arc<Session> {
        let id = format!("debug-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let reverse_handler = ReverseRequests::new(self.me.clone(), approver, connection.address.take());
        let identity = Identity { id, grant, reverse_handler };
        let session =
            Session::new(identity, plan, connection, self.change_signal.clone(), parent, &self.tracker);
        self.add(Arc::clone(&session));
        self.change_signal.send_modify(|count| *count = count.wrapping_add(1));
        session
    }

    fn add(&self, session: Arc<Session>) {
        let mut list = self.lock();
        list.push(session);
        let mut excess =
            list.iter().filter(|it| it.is_terminated()).count().saturating_sub(MAX_ENDED_SESSIONS);
        list.retain(|it| {
            let drop_it = excess > 0 && it.is_terminated();
            excess -= usize::from(drop_it);
            !drop_it
        });
    }

    /// All live sessions and the last that ended, oldest first.
    pub fn list(&self) -> Vec<Arc<Session>> {
        self.lock().clone()
    }

    /// Records that `run` was shown a session.
    ///
    /// A call without a name then means this one, if the run started it.
    pub fn show(&self, session: &Session, run: &RunId) {
        let list = self.list();
        let mut shown = self.shown.lock();
        let lives_on = |id: &String| list.iter().any(|it| it.id == *id);
        shown.retain(|(to, id)| !(to == run && *id == session.id) && lives_on(id));
        shown.push((run.clone(), session.id.clone()));
    }

    /// The last live session that `run` started and was shown.
    ///
    /// Returns it if it is stopped, else the focus of its tree. Sessions of other runs do not
    /// count, because those runs may be using them.
    fn shown_last(&self, list: &[Arc<Session>], run: &RunId) -> Option<Arc<Session>> {
        let shown = self.shown.lock().clone();
        let shown = shown.iter().rev().filter(|(to, _)| to == run);
        for session in shown.filter_map(|(_, id)| list.iter().find(|it| it.id == *id)) {
            let root = self.root_of(session);
            if root.run_id() != Some(run) {
                continue;
            }
            if session.is_stopped() {
                return Some(Arc::clone(session));
            }
            if self.tree(&root).iter().any(|it| !it.is_terminated()) {
                return Some(self.focus(&root));
            }
        }
        None
    }

    /// The stopped session of a tree that was shown last, to any run.
    fn shown_of(&self, root: &Session) -> Option<Arc<Session>> {
        let shown = self.shown.lock().clone();
        let tree = self.tree(root);
        let stopped = |id: &String| tree.iter().find(|it| it.id == *id && it.is_stopped()).cloned();
        shown.iter().rev().find_map(|(_, id)| stopped(id))
    }

    /// The session with the id, or the child that it launched.
    ///
    /// Without an id, it is the session that the run showed last if that is live, else that of the
    /// only live tree, else the last.
    ///
    /// # Errors
    ///
    /// [`DapError::NoSession`], [`DapError::Ambiguous`].
    pub fn get(&self, id: Option<&str>, run: &RunId) -> Result<Arc<Session>> {
        let list = self.list();
        let names = |sessions: &[&Arc<Session>]| {
            sessions
                .iter()
                .map(|it| format!("{} ({}, {})", it.id, it.title, it.state().name()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        if let Some(id) = id {
            let all: Vec<_> = list.iter().collect();
            let none = || {
                let there = if all.is_empty() { "none".to_owned() } else { names(&all) };
                DapError::NoSession(format!("there is no session `{id}`; there are: {there}"))
            };
            let found = list.iter().find(|it| it.id == id).ok_or_else(none)?;
            return Ok(if found.adapter_launches_only() { self.focus(found) } else { Arc::clone(found) });
        }
        if let Some(shown) = self.shown_last(&list, run) {
            return Ok(shown);
        }
        let roots: Vec<_> = list.iter().filter(|it| it.parent.is_none()).collect();
        let lives = |root: &&&Arc<Session>| self.tree(root).iter().any(|it| !it.is_terminated());
        let live: Vec<_> = roots.iter().filter(lives).copied().collect();
        match (live.as_slice(), roots.last()) {
            ([one], _) => Ok(self.shown_of(one).unwrap_or_else(|| self.focus(one))),
            ([], Some(last)) => Ok(self.focus(last)),
            ([], None) => {
                Err(DapError::NoSession("there is no debug session; `launch` a program".to_owned()))
            }
            (many, _) => {
                // Stopped sessions first.
                let meant: Vec<_> = many.iter().map(|root| self.focus(root)).collect();
                let running = meant.iter().filter(|it| !it.is_stopped());
                let all: Vec<_> = list.iter().filter(|it| it.is_stopped()).chain(running).collect();
                Err(DapError::Ambiguous(names(&all)))
            }
        }
    }

    /// Returns control of all sessions to the agent.
    pub async fn return_control(&self) {
        let sessions = self.list();
        futures_util::future::join_all(sessions.iter().map(|session| session.return_control())).await;
    }

    /// The live sessions of this process that a client has joined.
    pub fn joined(&self) -> Vec<Arc<Session>> {
        let joined = |it: &Arc<Session>| {
            it.hub_status().joined_clients > 0 && !it.is_external() && !it.is_terminated()
        };
        self.list().into_iter().filter(joined).collect()
    }

    /// Ends the sessions that a stopped run started.
    ///
    /// Sessions that a client has joined, or that the user started, only lose the agent's
    /// breakpoints.
    pub async fn stop(&self, run: &RunId, deadline: Duration) {
        let clock = Clock::new(deadline, &CancellationToken::new());
        let of_run = |it: &Arc<Session>| it.run_id() == Some(run) || it.is_external();
        let started: Vec<_> = self.list().into_iter().filter(of_run).collect();
        futures_util::future::join_all(started.iter().map(|session| session.stop(&clock))).await;
    }

    /// Ends all sessions and the programs they launched, within `deadline`.
    ///
    /// Attached programs keep running.
    pub async fn shutdown(&self, deadline: Duration) {
        let clock = Clock::new(deadline, &CancellationToken::new());
        let live: Vec<_> =
            self.list().into_iter().filter(|it| !matches!(it.state(), State::Terminated(_))).collect();
        let ends = futures_util::future::join_all(live.iter().map(|session| session.close(&clock)));
        // The adapter must detach from an attached process before it is killed.
        let patience = live.iter().map(|session| session.patience(deadline)).max().unwrap_or(deadline);
        let ended = tokio::time::timeout(patience, ends).await;
        self.tracker.close();
        let rest = tokio::time::timeout(deadline, self.tracker.wait()).await;
        if ended.is_err() || rest.is_err() {
            tracing::warn!("debug sessions are still ending; their processes are killed");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        // Every use leaves the list consistent, so a panic elsewhere has no effect on it.
        self.list.lock()
    }
}

/// Refuses a launch without the interpreter that it names.
///
/// The adapter would run the program with its own, which lacks what the program imports.
fn check_interpreter(adapter: &DebuggerDefinition, found: &Map<String, Value>) -> Result<()> {
    let is_missing = |name: &String| {
        adapter.launches(name) && !adapter.runs_itself(name) && !found.contains_key(name.as_str())
    };
    let Some((name, programs)) = adapter.variables.iter().find(|(name, _)| is_missing(name)) else {
        return Ok(());
    };
    let message = format!(
        "no {name} to run the program was found; put one of these on PATH: {}\nor name one with \
         `arguments`: {{\"{name}\": \"PATH\"}}",
        programs.iter().filter(|it| !it.contains('/')).cloned().collect::<Vec<_>>().join(", ")
    );
    Err(DapError::Invalid(message))
}

/// Ends a session whose start was dropped.
struct StartGuard(Option<Arc<Session>>);

impl StartGuard {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.fail_start("its start was abandoned");
        }
    }
}
