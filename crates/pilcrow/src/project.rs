//! One project with everything that works on it, composed from settings: the only place where the
//! parts meet.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::Registry;
use agent::store::SessionStore;
use anyhow::Context;
use hashline::{Limits, SnapshotStore};
use lsp_client::{Definitions, Host, MessageType, PoolLimits, PoolOptions, SearchPath, ServerPool};
use tools::{KeptSnapshots, Kit};
use workspace::{
    AbsPath, Approver, Editor, Homes, Policy, PolicyOptions, Processes, RecoveryNote, TrustStore, Workspace,
};

use crate::config::Config;
use crate::{cli, logging, output, terminal};

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
}

impl Surface {
    /// The terminal that a command was typed at.
    pub fn terminal() -> Self {
        let tell = |text: &str| output::note(&format!("pilcrow: {text}"));
        Self { editor: None, approver: terminal::approver(), settings: None, tell, begins_log: true }
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
        let shares = trusted && !definitions.list().any(|definition| definition.from_project);
        let servers = if shares {
            None
        } else {
            let options = PoolOptions {
                workspace: self.workspace.clone(),
                processes: Arc::clone(&self.processes),
                policy: Arc::clone(&policy),
                approver: Arc::clone(approver),
                definitions: Arc::new(definitions),
                host: Arc::new(LoggingHost),
            };
            Some(pool(homes, &self.config, options))
        };
        let kit = kit(&self.workspace, servers.as_ref().unwrap_or(&self.servers), &self.config, keep)?;
        let registry = Registry::new(tools::builtin(&kit))?;
        Ok(Guest { policy, kit, registry, servers })
    }

    /// Opens the project that the command line names. Blocks on the file system.
    pub fn open(args: &cli::Project, access: Access) -> anyhow::Result<Self> {
        let homes = Homes::from_env()?;
        Self::open_with(&homes, &root(args.dir.as_deref())?, access, Surface::terminal())
    }

    /// Opens the project at `root`; several may be open in one process. Blocks on the file system.
    pub fn open_with(homes: &Homes, root: &Path, access: Access, surface: Surface) -> anyhow::Result<Self> {
        let Surface { editor, approver, settings, tell, begins_log } = surface;
        let (workspace, notes) = Workspace::open(root, &homes.state, editor)?;
        for note in notes {
            let RecoveryNote { path, detail, .. } = note;
            tell(&format!("an interrupted change of {path}: {detail}"));
        }
        let trust = TrustStore::new(homes.state.clone());
        let trusted = access.yes || access.trusted || trust.is_trusted(workspace.root());
        let config = Config::load(&homes.config, settings.as_ref(), Some(workspace.root()), trusted, &[])?;
        if begins_log {
            logging::start(&homes.state, config.log_filter(), None)?;
        }
        config.warnings.iter().for_each(|warning| tell(warning));
        let policy = Arc::new(Policy::new(PolicyOptions {
            mode: config.mode(),
            yes: access.yes,
            rules: config.rules(),
            trust,
            root: workspace.root().clone(),
            state: Some(workspace.state().clone()),
        }));
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
                host: Arc::new(LoggingHost),
            },
        );
        let kit = kit(&workspace, &servers, &config, access.keep)?;
        let registry = Registry::new(tools::builtin(&kit))?;
        Ok(Self { config: Arc::new(config), workspace, policy, approver, processes, servers, kit, registry })
    }

    /// Past and present conversations of this project.
    pub fn sessions(&self) -> anyhow::Result<SessionStore> {
        Ok(SessionStore::new(self.workspace.state().child("sessions")?))
    }

    /// Ends everything that was started. `stopped` when the person waits for it.
    pub async fn close(&self, stopped: bool) {
        let ends = if stopped { STOPPED } else { SHUTDOWN };
        self.servers.shutdown(ends / 2).await;
        let left = self.processes.end_all(ends / 2).await;
        if !left.is_empty() {
            tracing::warn!("these processes could not be ended: {left:?}");
        }
    }
}

/// What tools work with: nothing shown to anybody yet.
fn kit(
    workspace: &Workspace,
    servers: &Arc<ServerPool>,
    config: &Config,
    keep: bool,
) -> anyhow::Result<Arc<Kit>> {
    let limits = Limits {
        paths: config.snapshot_paths(),
        versions: config.snapshot_versions(),
        bytes: config.snapshot_bytes(),
    };
    Ok(Arc::new(Kit {
        workspace: workspace.clone(),
        servers: Arc::clone(servers),
        snapshots: Mutex::new(SnapshotStore::new(limits)),
        kept: if keep { Some(KeptSnapshots::new(workspace.state())?) } else { None },
        settings: tools::Settings {
            view: config.view(),
            diagnostics_wait: config.diagnostics_wait(),
            ..tools::Settings::default()
        },
    }))
}

fn pool(homes: &Homes, config: &Config, options: PoolOptions) -> Arc<ServerPool> {
    let (search, idle, warm) = (search_path(homes), config.idle_stop(), config.max_warm());
    ServerPool::with_limits(options, PoolLimits { search, idle, warm, ..PoolLimits::default() })
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

/// Every definition there is: ours, the person's, and a trusted project's.
pub fn definitions(homes: &Homes, root: &AbsPath, trusted: bool, tell: fn(&str)) -> Definitions {
    let person = homes.config.join("adapters/servers");
    let project = trusted.then(|| root.join(".pilcrow/adapters/servers"));
    let (definitions, problems) =
        Definitions::load(Some(person.as_path()), project.as_ref().map(AbsPath::as_path));
    for problem in problems {
        tell(&problem.to_string());
    }
    definitions
}

/// Where servers are looked for.
pub fn search_path(homes: &Homes) -> SearchPath {
    let managed = homes.data.path().join("adapters");
    SearchPath { managed: Some(managed.into()), ..SearchPath::from_env() }
}

/// Servers' messages go to the log; nothing else is granted to them.
struct LoggingHost;

impl Host for LoggingHost {
    fn message(&self, server: &str, kind: MessageType, text: &str) {
        match kind {
            MessageType::Error => tracing::info!(server, "error: {text}"),
            MessageType::Warning => tracing::info!(server, "warning: {text}"),
            _ => tracing::debug!(server, "{text}"),
        }
    }
}
