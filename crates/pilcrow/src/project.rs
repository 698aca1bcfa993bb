//! One project with everything that works on it, composed from settings: the only place where the
//! parts meet.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::store::SessionStore;
use agent::{Filter, LayerTrace, Pipeline, Registry, Stamps};
use anyhow::Context;
use futures_util::future::BoxFuture;
use hashline::{Limits, SnapshotStore};
use lsp_client::{
    DefinitionError, Definitions, Host, MessageType, PoolLimits, PoolOptions, Reread, SearchPath, ServerPool,
    ShowDocument,
};
use tools::{KeptSnapshots, Kit};
use workspace::{
    AbsPath, Approver, Editor, Homes, Policy, PolicyOptions, Processes, RecoveryNote, StateDir, TrustStore,
    Workspace,
};

use crate::config::{Config, ConfigErrors, distance};
use crate::{cli, dap_front, logging, output, terminal};

/// How long servers get to end by themselves.
const SHUTDOWN: Duration = Duration::from_secs(3);
/// How long after Stop: the whole run ends within two seconds of it.
const STOPPED: Duration = Duration::from_millis(600);

/// Who may do what in this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    /// Every question is answered with yes.
    pub yes: bool,
    /// Snapshots outlive the process.
    pub keep: bool,
    /// The person trusts the project as long as this process runs: their editor asked.
    pub trusted: bool,
}

/// What a project is worked on through.
pub struct Surface {
    /// The editor that has files open.
    pub editor: Option<Arc<dyn Editor>>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// The editor's settings.
    pub settings: Option<serde_json::Value>,
    /// Tells the person what is odd.
    pub tell: fn(&str),
    /// Whether the log begins with the project; else it was begun before.
    pub begins_log: bool,
    /// Shows a file to the person, with a range of it (LSP's; null for none) selected.
    pub show: Option<Show>,
}

pub use tools::Show;

impl Surface {
    /// The terminal that a command was typed at.
    pub fn terminal() -> Self {
        let tell = |text: &str| output::note(&format!("pilcrow: {text}"));
        Self {
            editor: None,
            approver: terminal::approver(),
            settings: None,
            tell,
            begins_log: true,
            show: None,
        }
    }
}

/// An opened project.
pub struct Project {
    /// Settings in force.
    pub config: Arc<Config>,
    /// Its files.
    pub workspace: Workspace,
    /// What may be done.
    pub policy: Arc<Policy>,
    /// Who is asked.
    pub approver: Arc<dyn Approver>,
    /// Every child process.
    pub processes: Arc<Processes>,
    /// Language servers.
    pub servers: Arc<ServerPool>,
    /// What the tools share.
    pub kit: Arc<Kit>,
    /// The tools.
    pub registry: Registry,
    /// Our folders.
    pub homes: Homes,
    /// Whether the project was trusted when it was opened.
    pub trusted: bool,
    /// The editor's settings.
    settings: Option<serde_json::Value>,
    /// Of the files of settings, when they were read.
    config_stamps: Mutex<Stamps>,
}

/// What one request that came from elsewhere is carried out with: the project's files and, where
/// nothing speaks against it, its language servers; permission and memory are the request's own.
pub struct Guest {
    /// What this request may do.
    pub policy: Arc<Policy>,
    /// What its tools share.
    pub kit: Arc<Kit>,
    /// The tools.
    pub registry: Registry,
    /// Language servers of this request alone, to be shut down with it.
    pub servers: Option<Arc<ServerPool>>,
}

impl Project {
    /// Makes room for a request that came from elsewhere. Its servers are the project's own where
    /// starting one asks nobody; otherwise they are started for the request and by its permission, so
    /// that its `--yes` serves nobody else. Blocks on the file system.
    pub fn guest(
        &self,
        homes: &Homes,
        yes: bool,
        keep: bool,
        approver: &Arc<dyn Approver>,
    ) -> anyhow::Result<Guest> {
        let policy = Arc::new(self.policy.for_request(yes));
        let trusted = self.policy.is_trusted();
        if trusted {
            policy.trust_for_now();
        }
        let quiet = |problem: &str| tracing::warn!("{problem}");
        let definitions = definitions(homes, self.workspace.root(), trusted || yes, quiet);
        let shares = trusted && !definitions.any_from_project();
        let servers = if shares {
            None
        } else {
            let options = PoolOptions {
                workspace: self.workspace.clone(),
                processes: Arc::clone(&self.processes),
                policy: Arc::clone(&policy),
                approver: Arc::clone(approver),
                definitions: Arc::new(definitions),
                reread: Some(reread(homes, self.workspace.root(), trusted || yes)),
                host: Arc::new(SurfaceHost { root: self.workspace.root().clone(), show: None }),
            };
            Some(pool(homes, &self.config, options))
        };
        // Debug sessions and jobs are the project's, so that a later command finds them.
        let servers_in_use = servers.as_ref().unwrap_or(&self.servers);
        let kept = if keep { Some(KeptSnapshots::new(self.workspace.state())?) } else { None };
        // Who asks sits elsewhere than at this editor.
        let kit = Arc::new(Kit {
            kept,
            ..kit(&self.workspace, servers_in_use, &self.kit.debug, &self.kit.shell, &self.config)
        });
        let registry = registry(&kit, &self.config)?;
        Ok(Guest { policy, kit, registry, servers })
    }

    /// Opens the project that the command line names. Blocks on the file system.
    pub fn open(args: &cli::Project, access: Access) -> anyhow::Result<Self> {
        let homes = Homes::from_env()?;
        Self::open_with(&homes, &root(args.dir.as_deref())?, access, Surface::terminal())
    }

    /// Opens the project at `root`; several may be open in one process. Blocks on the file system.
    pub fn open_with(homes: &Homes, root: &Path, access: Access, surface: Surface) -> anyhow::Result<Self> {
        let Surface { editor, approver, settings, tell, begins_log, show } = surface;
        let (workspace, notes) = Workspace::open(root, &homes.state, editor)?;
        for note in notes {
            let RecoveryNote { path, detail, .. } = note;
            tell(&format!("an interrupted change of {path}: {detail}"));
        }
        let trust = TrustStore::new(homes.state.clone());
        let trusted = access.yes || access.trusted || trust.is_trusted(workspace.root());
        let config_stamps = config_stamps(homes, workspace.root());
        let config = Config::load(&homes.config, settings.as_ref(), Some(workspace.root()), trusted, &[])?;
        if begins_log {
            logging::start(&homes.state, config.log_filter(), None)?;
        }
        config.warnings.iter().for_each(|warning| tell(warning));
        let policy = Policy::new(PolicyOptions {
            mode: config.mode(),
            yes: access.yes,
            rules: config.rules(),
            exec: config.exec(),
            trust,
            root: workspace.root().clone(),
            state: Some(workspace.state().clone()),
        });
        let policy = Arc::new(policy.beside_reading(&[tools::Shell::outputs(&workspace)]));
        if access.trusted {
            policy.trust_for_now();
        }
        let processes = Processes::new(std::env::current_exe().ok());
        let servers = pool(
            homes,
            &config,
            PoolOptions {
                workspace: workspace.clone(),
                processes: Arc::clone(&processes),
                policy: Arc::clone(&policy),
                approver: Arc::clone(&approver),
                definitions: Arc::new(definitions(homes, workspace.root(), trusted, tell)),
                reread: Some(reread(homes, workspace.root(), trusted)),
                host: Arc::new(SurfaceHost { root: workspace.root().clone(), show: show.clone() }),
            },
        );
        let debug = sessions(homes, &workspace, trusted, &processes, tell);
        let shell = tools::Shell::new(Arc::clone(&processes), &workspace)?;
        let kept = if access.keep { Some(KeptSnapshots::new(workspace.state())?) } else { None };
        let kit = Arc::new(Kit { kept, show, ..kit(&workspace, &servers, &debug, &shell, &config) });
        let registry = registry(&kit, &config)?;
        Ok(Self {
            config: Arc::new(config),
            workspace,
            policy,
            approver,
            processes,
            servers,
            kit,
            registry,
            homes: homes.clone(),
            trusted,
            settings,
            config_stamps: Mutex::new(config_stamps),
        })
    }

    /// The settings as their files say now. Blocks for two small files.
    ///
    /// # Errors
    /// Everything that does not fit.
    pub fn load_config(&self, trusted: bool) -> Result<Config, ConfigErrors> {
        let root = Some(self.workspace.root());
        Config::load(&self.homes.config, self.settings.as_ref(), root, trusted, &[])
    }

    /// Whether the files of settings say something else by now than what is in force. What cannot be read changes nothing and is in
    /// the log. Blocks for two small files.
    pub fn has_other_settings(&self) -> bool {
        let mut stamps = self.config_stamps.lock().unwrap_or_else(PoisonError::into_inner);
        if stamps.hold() {
            return false;
        }
        *stamps = config_stamps(&self.homes, self.workspace.root());
        match self.load_config(self.trusted || self.policy.is_trusted()) {
            Ok(config) => !self.config.differences(&config).is_empty(),
            Err(errors) => {
                tracing::warn!("{errors}\nthe settings stay as they were");
                false
            }
        }
    }

    /// Past and present conversations of this project.
    pub fn sessions(&self) -> anyhow::Result<SessionStore> {
        let folder = self.workspace.state().child("sessions")?;
        Ok(SessionStore::new(folder).sync(self.config.syncs_sessions()))
    }

    /// How the tools came to be those that are there, layer by layer.
    pub fn tool_layers(&self, config: &Config) -> anyhow::Result<Vec<LayerTrace>> {
        Ok(layers(&self.kit, config).build()?.1)
    }

    /// Ends everything that was started. `stopped` when the person waits for it.
    pub async fn close(&self, stopped: bool) {
        let ends = if stopped { STOPPED } else { SHUTDOWN };
        self.kit.trees.close().await;
        // Beside each other: all wait for programs to say goodbye.
        tokio::join!(
            self.servers.shutdown(ends / 2),
            self.kit.debug.shutdown(ends / 2),
            self.kit.shell.close(ends / 2),
        );
        let left = self.processes.end_all(ends / 2).await;
        if !left.is_empty() {
            tracing::warn!("these processes could not be ended: {left:?}");
        }
    }
}

/// The files of settings as they are now.
pub fn config_stamps(homes: &Homes, root: &AbsPath) -> Stamps {
    let mut stamps = Stamps::default();
    stamps.add(&homes.config.join("config.toml"));
    stamps.add(&root.join(".pilcrow/config.toml"));
    stamps
}

/// The tools, with the one that finds the others where a model is told of few.
pub fn registry(kit: &Arc<Kit>, config: &Config) -> anyhow::Result<Registry> {
    Ok(layers(kit, config).build()?.0)
}

/// What is said of names in `tools.enable` and `tools.disable` that no tool has: what was to be off is on.
pub fn unknown_tools(kit: &Arc<Kit>, config: &Config) -> Vec<String> {
    // Those of other surfaces and settings.
    const ELSEWHERE: [&str; 2] = ["show", "search_tools"];
    let there = tools::builtin(kit).into_iter().chain(tools::surface(kit));
    let mut known: Vec<String> = there.map(|tool| tool.definition().name.clone()).collect();
    known.extend(ELSEWHERE.map(str::to_owned));
    let is_source =
        |name: &str| matches!(name, "builtin" | "mcp" | "extension" | "custom") || name.starts_with("mcp:");
    let mut told = Vec::new();
    for (key, names) in [("enable", config.enabled_tools()), ("disable", config.disabled_tools())] {
        for name in names.iter().filter(|name| !known.contains(name) && !is_source(name)) {
            let lower = name.to_lowercase();
            let nearest = known.iter().min_by_key(|known| distance(known, &lower));
            let nearest = nearest.map(|it| format!("; the nearest is `{it}`")).unwrap_or_default();
            told.push(format!("`tools.{key}` names `{name}`, and there is no such tool{nearest}"));
        }
    }
    told
}

/// The layers they come through. The sixth is empty here: a session's model may change between turns, so each request's protocol writes the
/// schemas as its provider takes them.
fn layers(kit: &Arc<Kit>, config: &Config) -> Pipeline {
    let (enable, disable) = (config.enabled_tools(), config.disabled_tools());
    let filter = Filter { enable, disable, ..Filter::default() };
    Pipeline::base(tools::builtin(kit))
        .session(config.searches_tools().then(tools::search_tools))
        .surface(tools::surface(kit))
        .filter(filter)
}

/// What tools work with: nothing shown to anybody yet.
fn kit(
    workspace: &Workspace,
    servers: &Arc<ServerPool>,
    debug: &Arc<dap_client::Sessions>,
    shell: &Arc<tools::Shell>,
    config: &Config,
) -> Kit {
    let limits = Limits {
        paths: config.snapshot_paths(),
        versions: config.snapshot_versions(),
        bytes: config.snapshot_bytes(),
    };
    Kit {
        workspace: workspace.clone(),
        servers: Arc::clone(servers),
        debug: Arc::clone(debug),
        snapshots: Mutex::new(SnapshotStore::new(limits)),
        trees: tools::Trees::default(),
        kept: None,
        pending: tools::Pending::default(),
        shell: Arc::clone(shell),
        show: None,
        settings: tool_settings(config).into(),
    }
}

/// What the person chose about the tools.
pub fn tool_settings(config: &Config) -> tools::Settings {
    tools::Settings {
        view: config.view(),
        parse_regression: config.parse_regression(),
        diagnostics_wait: config.diagnostics_wait(),
        verify: config.verify(),
        verify_policy: config.verify_policy(),
        request_timeout: config.request_timeout(),
        start: config.server_start(),
        asks_on_unsaved: config.asks_on_unsaved(),
    }
}

fn pool(homes: &Homes, config: &Config, options: PoolOptions) -> Arc<ServerPool> {
    let (search, idle, warm) = (search_path(homes), config.idle_stop(), config.max_warm());
    let memory = config.max_memory();
    ServerPool::with_limits(options, PoolLimits { search, idle, warm, memory, ..PoolLimits::default() })
}

/// Debug sessions with every adapter there is: ours, the person's, and a trusted project's.
fn sessions(
    homes: &Homes,
    workspace: &Workspace,
    trusted: bool,
    processes: &Arc<Processes>,
    tell: fn(&str),
) -> Arc<dap_client::Sessions> {
    let (definitions, problems) = load_debuggers(homes, workspace.root(), trusted);
    problems.iter().for_each(|problem| tell(&problem.to_string()));
    let search = Search { path: search_path(homes), workspace: workspace.root().clone() };
    let sessions = dap_client::Sessions::new(definitions, Arc::new(search), Arc::clone(processes));
    match dap_front::place(homes, workspace.root()) {
        Ok(folder) => sessions.announce(folder),
        Err(error) => tracing::warn!("debug sessions of this process cannot be joined: {error:#}"),
    }
    sessions
}

/// Finds adapters where servers are found, and what they name in the project.
struct Search {
    path: SearchPath,
    workspace: AbsPath,
}

impl dap_client::Programs for Search {
    fn find(&self, owner: &str, names: &[String], root: &AbsPath) -> Option<PathBuf> {
        names.iter().find_map(|name| {
            let script = [".js", ".cjs", ".mjs"].iter().any(|it| name.ends_with(it));
            if script {
                // A program runs it: it need not be one itself.
                return self.path.find_script(owner, name, root, &self.workspace);
            }
            if name.contains('/') && !name.starts_with("../") {
                return Some(root.join(name).as_path().to_owned()).filter(|path| path.is_file());
            }
            self.path.find_named(owner, std::slice::from_ref(name), root, &self.workspace).into_iter().next()
        })
    }

    fn environment(&self, folder: &AbsPath) -> Option<PathBuf> {
        // What runs elsewhere is the project's all the same.
        let scope = if folder.starts_with(&self.workspace) { folder } else { &self.workspace };
        self.path.environment(scope.as_path(), self.workspace.as_path())
    }
}

/// `-C DIR`, else the nearest parent with `.git`, else the current folder.
pub fn root(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(dir) = dir {
        return std::path::absolute(dir).with_context(|| format!("{} is no usable path", dir.display()));
    }
    #[expect(clippy::disallowed_methods, reason = "the command line looks at it, once, here")]
    let current = std::env::current_dir().context("the current folder is not there; name one with -C DIR")?;
    Ok(current
        .ancestors()
        .find(|parent| parent.join(".git").exists())
        .map_or(current.clone(), Path::to_owned))
}

/// Settings in force; what is odd about them is said.
pub fn settings(homes: &Homes, root: &AbsPath, trusted: bool) -> anyhow::Result<Config> {
    let config = Config::load(&homes.config, None, Some(root), trusted, &[])?;
    for warning in &config.warnings {
        output::note(&format!("pilcrow: {warning}"));
    }
    Ok(config)
}

/// Every definition there is: ours, the person's, and a trusted project's. What cannot be used is told.
pub fn definitions(homes: &Homes, root: &AbsPath, trusted: bool, tell: fn(&str)) -> Definitions {
    let (definitions, problems) = load_definitions(homes, root, trusted);
    problems.iter().for_each(|problem| tell(&problem.to_string()));
    definitions
}

/// The same, for a reload; with the trust of the beginning.
fn reread(homes: &Homes, root: &AbsPath, trusted: bool) -> Reread {
    let (homes, root) = (homes.clone(), root.clone());
    Arc::new(move || definitions(&homes, &root, trusted, |problem| tracing::warn!("{problem}")))
}

/// Every definition there is, and the files that cannot be used.
pub fn load_definitions(homes: &Homes, root: &AbsPath, trusted: bool) -> (Definitions, Vec<DefinitionError>) {
    let person = homes.config.join("adapters/servers");
    let project = trusted.then(|| root.join(".pilcrow/adapters/servers"));
    Definitions::load(Some(person.as_path()), project.as_ref().map(AbsPath::as_path))
}

/// The same of debug adapters.
pub fn load_debuggers(
    homes: &Homes,
    root: &AbsPath,
    trusted: bool,
) -> (dap_client::Definitions, Vec<dap_client::DefinitionError>) {
    let person = homes.config.join("adapters/debuggers");
    let project = trusted.then(|| root.join(".pilcrow/adapters/debuggers"));
    dap_client::Definitions::load(Some(person.as_path()), project.as_ref().map(AbsPath::as_path))
}

/// The folder of what Pilcrow installed.
pub fn managed(homes: &Homes) -> anyhow::Result<StateDir> {
    Ok(homes.data.child("adapters")?)
}

/// Where servers are looked for.
pub fn search_path(homes: &Homes) -> SearchPath {
    let managed = homes.data.path().join("adapters");
    SearchPath { managed: Some(managed.into()), ..SearchPath::from_env() }
}

/// Servers' messages go to the log; a file of the project is shown to whoever can see it. Nothing else is
/// granted to them.
struct SurfaceHost {
    root: AbsPath,
    show: Option<Show>,
}

impl Host for SurfaceHost {
    fn show_document<'a>(&'a self, server: &'a str, wanted: ShowDocument) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(show) = &self.show else { return false };
            let path = workspace::uri_to_path(&wanted.uri).and_then(|path| path.canonicalize().ok());
            let path = path.and_then(AbsPath::new).filter(|path| path.starts_with(&self.root));
            match path.filter(|_| !wanted.external) {
                Some(path) => show(path, wanted.selection).await,
                None => {
                    tracing::info!(server, uri = wanted.uri, "not shown: it is no file of the project");
                    false
                }
            }
        })
    }

    fn message(&self, server: &str, kind: MessageType, text: &str) {
        match kind {
            MessageType::Error => tracing::info!(server, "error: {text}"),
            MessageType::Warning => tracing::info!(server, "warning: {text}"),
            _ => tracing::debug!(server, "{text}"),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write files of their own")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use dap_client::{Breakpoints, LaunchSpec, Sessions, Target};

    use super::*;

    /// A program of Python runs with the environment that language servers are told of.
    #[test]
    fn a_program_is_debugged_with_the_environment_nearest_to_where_it_runs() {
        let temp = tempfile::tempdir().unwrap();
        let root = AbsPath::new(temp.path().canonicalize().unwrap()).unwrap();
        let put = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        for venv in ["w/.venv", "w/p/env", "w/p/deep/venv", "active"] {
            put(&format!("{venv}/pyvenv.cfg"));
            put(&format!("{venv}/bin/python"));
        }
        for file in ["path/debugpy-adapter", "path/python3", "w/p/a.py", "other/a.py"] {
            put(file);
        }
        let python = |workspace: &str, cwd: &str, activated: &str| {
            let workspace = root.join(workspace);
            let search = SearchPath {
                activated: Some(root.join(activated).into()),
                path: vec![root.join("path").into()],
                ..SearchPath::default()
            };
            let search = Search { path: search, workspace: workspace.clone() };
            let definitions = dap_client::Definitions::built_in();
            let sessions = Sessions::new(definitions, Arc::new(search), Processes::new(None));
            let spec = LaunchSpec {
                target: Target::Program(root.join("w/p/a.py")),
                adapter: Some("debugpy".to_owned()),
                root: workspace,
                args: Vec::new(),
                cwd: root.join(cwd),
                env: Vec::new(),
                stop_on_entry: false,
                breakpoints: Breakpoints::default(),
                arguments: None,
                test: None,
                more: serde_json::Map::new(),
            };
            let plan = sessions.plan(&spec).unwrap();
            let python = PathBuf::from(plan.arguments["python"].as_str().unwrap());
            python.strip_prefix(&root).unwrap().display().to_string()
        };
        assert_eq!(python("w", "w/p/deep/er", "active"), "w/p/deep/venv/bin/python");
        assert_eq!(python("w", "w/p", "active"), "w/p/env/bin/python");
        assert_eq!(python("w", "w", "w/p/env"), "w/.venv/bin/python");
        assert_eq!(python("w", "other", "active"), "w/.venv/bin/python");
        assert_eq!(python("other", "other", "active"), "active/bin/python");
        assert_eq!(python("other", "other", "gone"), "path/python3");
    }
}
