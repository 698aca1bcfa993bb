//! All debug sessions of one process: which adapter is taken for a program, starting it, finding a session,
//! ending all.
//!
//! Asks nobody: [`Sessions::plan`] says what would run, whoever calls gets the grant, and
//! [`Sessions::start`] is given it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{AbsPath, CommandLine, Processes, RunId, SpawnGrant, StateDir};

use crate::breakpoints::Breakpoints;
use crate::definition::{AdapterDefinition, fill, merge};
use crate::definitions::Definitions;
use crate::error::DapError;
use crate::session::{Clock, Session};
use crate::state::State;
use crate::transport;

/// Sessions that are over, kept for a look at what they wrote.
const KEPT: usize = 16;

/// Finds programs. Implemented above: where tools are kept is not known here.
pub trait Programs: Send + Sync {
    /// The first of `names` that is there for the definition `owner` in a project. Blocking.
    fn find(&self, owner: &str, names: &[String], root: &AbsPath) -> Option<PathBuf>;
}

/// Finds nothing but absolute paths.
pub struct NoPrograms;

impl Programs for NoPrograms {
    fn find(&self, _: &str, names: &[String], _: &AbsPath) -> Option<PathBuf> {
        names.iter().map(PathBuf::from).find(|path| path.is_absolute() && path.is_file())
    }
}

/// What is debugged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file that runs.
    Program(AbsPath),
    /// A module, by its name in its language.
    Module(String),
    /// A process that runs already.
    Process(i64),
    /// A port at which a program or its adapter waits.
    Port {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Target {
    /// For people.
    fn title(&self, root: &AbsPath) -> String {
        match self {
            Self::Program(path) => match path.strip_prefix(root) {
                Some(relative) => relative.display().to_string(),
                None => path.to_string(),
            },
            Self::Module(name) => format!("module {name}"),
            Self::Process(pid) => format!("process {pid}"),
            Self::Port { host, port } => format!("{host}:{port}"),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// What is debugged.
    pub target: Target,
    /// The adapter's name, else it is chosen by the target.
    pub adapter: Option<String>,
    /// The project.
    pub root: AbsPath,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: AbsPath,
    /// Variables set beside those inherited.
    pub env: Vec<(String, String)>,
    /// Whether it stops at its entry.
    pub stop_on_entry: bool,
    /// In place before it runs.
    pub breakpoints: Breakpoints,
    /// Laid over the arguments that the adapter's definition gives.
    pub arguments: Option<Value>,
}

/// What would be started.
#[derive(Debug, Clone)]
pub struct LaunchPlan {
    /// The adapter.
    pub adapter: Arc<AdapterDefinition>,
    /// The adapter's command; a port in it is chosen at the start.
    pub command: CommandLine,
    /// The project.
    pub root: AbsPath,
    /// `launch` or `attach`.
    pub request: &'static str,
    /// Its arguments.
    pub arguments: Value,
    /// What is debugged, for people.
    pub title: String,
    /// The program with its arguments as a command, where one is started.
    pub program: Option<CommandLine>,
    /// In place before it runs.
    pub breakpoints: Breakpoints,
}

/// All sessions.
pub struct Sessions {
    definitions: Definitions,
    programs: Arc<dyn Programs>,
    processes: Arc<Processes>,
    tracker: TaskTracker,
    next: AtomicU64,
    list: Mutex<Vec<Arc<Session>>>,
    /// Where sessions can be joined from other processes.
    doors: OnceLock<StateDir>,
}

impl Sessions {
    /// None yet.
    pub fn new(
        definitions: Definitions,
        programs: Arc<dyn Programs>,
        processes: Arc<Processes>,
    ) -> Arc<Self> {
        let (tracker, next, list) = (TaskTracker::new(), AtomicU64::new(1), Mutex::default());
        Arc::new(Self { definitions, programs, processes, tracker, next, list, doors: OnceLock::new() })
    }

    /// From now on each session can be joined at a socket in `folder`. The first folder stays.
    pub fn announce(&self, folder: StateDir) {
        drop(self.doors.set(folder));
    }

    /// The adapters that are known.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// What would be started for `spec`. Blocking.
    ///
    /// # Errors
    /// [`DapError::NoAdapter`], [`DapError::Missing`], [`DapError::Unsupported`].
    pub fn plan(&self, spec: &LaunchSpec) -> Result<LaunchPlan, DapError> {
        let fitting = self.fitting(spec)?;
        let found = fitting.iter().find_map(|adapter| {
            let program = self.programs.find(&adapter.name, &adapter.command.candidates, &spec.root)?;
            Some((Arc::clone(adapter), program))
        });
        let (adapter, program) = found.ok_or_else(|| DapError::Missing {
            adapter: fitting.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" or "),
            hint: fitting.iter().map(|it| it.install.hint()).collect::<Vec<_>>().join("` or `"),
        })?;
        let attaches = matches!(spec.target, Target::Process(_) | Target::Port { .. });
        let template = if attaches { adapter.attach.as_ref() } else { Some(&adapter.launch) };
        let template = template.ok_or_else(|| DapError::Unsupported {
            adapter: adapter.name.clone(),
            what: "attach to what runs already".to_owned(),
            nearest: Some("`launch` the program".to_owned()),
        })?;
        let variables = self.variables(&adapter, spec);
        let mut arguments = fill(template, &variables).unwrap_or_else(|| json!({}));
        if let Some(over) = &spec.arguments {
            merge(&mut arguments, over.clone());
        }
        let env = adapter.command.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let command =
            CommandLine { program, args: adapter.command.args.clone(), env, cwd: spec.root.clone() };
        let program = match &spec.target {
            Target::Program(path) => Some((path.as_path().to_owned(), spec.args.clone())),
            Target::Module(name) => {
                let runs = variables.values().filter_map(Value::as_str).find(|it| it.contains("/bin/"));
                let args = ["-m".to_owned(), name.clone()].into_iter().chain(spec.args.clone()).collect();
                Some((PathBuf::from(runs.unwrap_or("python")), args))
            }
            Target::Process(_) | Target::Port { .. } => None,
        };
        let program = program.map(|(program, args)| CommandLine {
            program,
            args,
            env: spec.env.clone(),
            cwd: spec.cwd.clone(),
        });
        Ok(LaunchPlan {
            title: spec.target.title(&spec.root),
            request: if attaches { "attach" } else { "launch" },
            root: spec.root.clone(),
            breakpoints: spec.breakpoints.clone(),
            adapter,
            command,
            arguments,
            program,
        })
    }

    /// The adapters that would do, best first; at least one.
    fn fitting(&self, spec: &LaunchSpec) -> Result<Vec<Arc<AdapterDefinition>>, DapError> {
        let known = || self.definitions.list().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        let none = |what: String| DapError::NoAdapter { what, known: known() };
        if let Some(name) = &spec.adapter {
            let adapter = self.definitions.get(name).cloned();
            return adapter.map(|it| vec![it]).ok_or_else(|| none(format!("the name `{name}`")));
        }
        let fitting = match &spec.target {
            Target::Program(path) => self.definitions.for_program(path.as_path()),
            Target::Module(_) => self.definitions.ranked(|it| it.launches("module")),
            Target::Process(_) | Target::Port { .. } => Vec::new(),
        };
        if fitting.is_empty() { Err(none(spec.target.title(&spec.root))) } else { Ok(fitting) }
    }

    fn variables(&self, adapter: &AdapterDefinition, spec: &LaunchSpec) -> Map<String, Value> {
        let mut variables = Map::new();
        let mut set = |name: &str, value: Value| drop(variables.insert(name.to_owned(), value));
        set("workspace", json!(spec.root.to_string()));
        set("args", json!(spec.args));
        set("cwd", json!(spec.cwd.to_string()));
        set("stop_on_entry", json!(spec.stop_on_entry));
        if !spec.env.is_empty() {
            set("env", spec.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
        }
        match &spec.target {
            Target::Program(path) => set("program", json!(path.to_string())),
            Target::Module(name) => set("module", json!(name)),
            Target::Process(pid) => set("pid", json!(pid)),
            Target::Port { host, port } => {
                set("host", json!(host));
                set("port", json!(port));
            }
        }
        for (name, candidates) in &adapter.variables {
            if let Some(path) = self.programs.find(&adapter.name, candidates, &spec.root) {
                set(name, json!(path.to_string_lossy()));
            }
        }
        variables
    }

    /// Starts what was planned, up to where the program runs. Dropping the future ends what was started.
    ///
    /// # Errors
    /// [`DapError`]; nothing is left running then.
    pub async fn start(
        &self,
        plan: &LaunchPlan,
        grant: &SpawnGrant,
        clock: &Clock,
    ) -> Result<Arc<Session>, DapError> {
        let connect = transport::open(&self.processes, plan, grant, clock.until, &self.tracker);
        let connection = tokio::select! {
            biased;
            // What was started so far is owned by `connect` and killed with it.
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            connection = connect => connection?,
        };
        let id = format!("debug-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let session = Session::new(id, plan, connection, &self.tracker);
        self.add(Arc::clone(&session));
        let unfinished = GiveUp(Some(Arc::clone(&session)));
        match session.handshake(plan, clock).await {
            Ok(()) => {
                unfinished.defuse();
                if let Some(folder) = self.doors.get() {
                    session.open_door(folder, &self.tracker);
                }
                Ok(session)
            }
            Err(error) => {
                session.give_up(&error.to_string());
                session.over().await;
                let needs = plan.adapter.quirks.needs.as_ref();
                Err(match (error, needs) {
                    (DapError::Crashed { adapter, why }, Some(needs)) => {
                        DapError::Crashed { adapter, why: format!("{why}\nit needs {needs}") }
                    }
                    (error, _) => error,
                })
            }
        }
    }

    fn add(&self, session: Arc<Session>) {
        let mut list = self.lock();
        list.push(session);
        let is_over = |it: &Arc<Session>| matches!(it.state(), State::Terminated(_));
        let mut excess = list.iter().filter(|it| is_over(it)).count().saturating_sub(KEPT);
        list.retain(|it| {
            let drop_it = excess > 0 && is_over(it);
            excess -= usize::from(drop_it);
            !drop_it
        });
    }

    /// All sessions, oldest first, with the last that are over.
    pub fn list(&self) -> Vec<Arc<Session>> {
        self.lock().clone()
    }

    /// The session of that name; without a name the only live one, else the last that is over.
    ///
    /// # Errors
    /// [`DapError::NoSession`], [`DapError::Ambiguous`].
    pub fn get(&self, id: Option<&str>) -> Result<Arc<Session>, DapError> {
        let list = self.lock();
        let names = |of: &[&Arc<Session>]| {
            of.iter()
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
            return list.iter().find(|it| it.id == id).cloned().ok_or_else(none);
        }
        let live: Vec<_> = list.iter().filter(|it| !matches!(it.state(), State::Terminated(_))).collect();
        match (live.as_slice(), list.last()) {
            ([one], _) => Ok(Arc::clone(one)),
            ([], Some(last)) => Ok(Arc::clone(last)),
            ([], None) => {
                Err(DapError::NoSession("there is no debug session; `launch` a program".to_owned()))
            }
            (many, _) => Err(DapError::Ambiguous(names(many))),
        }
    }

    /// The person gives control of all sessions back to the agent.
    pub async fn hand_back(&self) {
        let sessions = self.list();
        futures_util::future::join_all(sessions.iter().map(|session| session.hub().hand_back())).await;
    }

    /// The sessions that a person has joined and that are not over.
    pub fn joined(&self) -> Vec<Arc<Session>> {
        let joined =
            |it: &Arc<Session>| it.shared().persons > 0 && !matches!(it.state(), State::Terminated(_));
        self.list().into_iter().filter(joined).collect()
    }

    /// A run was stopped: what it started ends, but for sessions that a person has joined.
    pub async fn stop(&self, run: &RunId, deadline: Duration) {
        let clock = Clock::new(deadline, &CancellationToken::new());
        let started: Vec<_> = self.list().into_iter().filter(|it| it.run_id() == Some(run)).collect();
        futures_util::future::join_all(started.iter().map(|session| session.stop(&clock))).await;
    }

    /// Ends all sessions with what they launched, within `deadline`.
    pub async fn shutdown(&self, deadline: Duration) {
        let clock = Clock::new(deadline, &CancellationToken::new());
        let live: Vec<_> =
            self.list().into_iter().filter(|it| !matches!(it.state(), State::Terminated(_))).collect();
        let ends = futures_util::future::join_all(live.iter().map(|session| session.terminate(&clock)));
        let ended = tokio::time::timeout(deadline, ends).await;
        self.tracker.close();
        let rest = tokio::time::timeout(deadline, self.tracker.wait()).await;
        if ended.is_err() || rest.is_err() {
            tracing::warn!("debug sessions are still ending; their processes are killed");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        // The list is always whole, so a panic elsewhere does no harm to it.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a session whose start was dropped in the middle.
struct GiveUp(Option<Arc<Session>>);

impl GiveUp {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.give_up("its start was given up");
        }
    }
}
