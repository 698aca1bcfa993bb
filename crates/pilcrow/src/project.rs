//! One project with everything that works on it, composed from settings: the only place where the
//! parts meet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::{Registry, SessionStore};
use anyhow::Context;
use lsp_client::{Definitions, PoolOptions, ServerPool};
use tools::{Kit, KeptSnapshots};
use workspace::{Approver, Homes, Policy, PolicyOptions, Processes, TrustStore, Workspace};

use crate::config::Config;
use crate::{cli, logging, output, terminal};

/// How long servers get to end by themselves.
const SHUTDOWN: Duration = Duration::from_secs(3);
/// How long after Stop: the whole run ends within two seconds of it.
const STOPPED: Duration = Duration::from_millis(600);

/// Who may do what in this process.
pub struct Access {
    /// Every question is answered with yes.
    pub yes: bool,
    /// Snapshots outlive the process.
    pub keep: bool,
}

/// An opened project.
pub struct Project {
    /// Our own folders.
    pub homes: Homes,
    /// Settings in force.
    pub config: Config,
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

impl Project {
    /// Opens the project that the command line names. Blocks on the file system.
    pub fn open(args: &cli::Project, access: Access) -> anyhow::Result<Self> {
        let homes = Homes::from_env()?;
        let root = root(args.dir.as_deref())?;
        let trust = TrustStore::new(homes.state.clone());
        let (workspace, notes) = Workspace::open(&root, &homes.state, None)?;
        let trusted = trust.is_trusted(workspace.root());
        let config = Config::load(&homes, trusted.then(|| workspace.root()))?;
        logging::start(&homes, &config)?;
        for warning in config.warnings() {
            output::note(&format!("pilcrow: {warning}"));
        }
        for note in notes {
            output::note(&format!("pilcrow: an interrupted change of {} was looked after: {}", note.path, note.detail));
        }
        let policy = Arc::new(Policy::new(PolicyOptions {
            mode: config.mode(),
            yes: access.yes,
            rules: config.rules(),
            trust,
            root: workspace.root().clone(),
            state: Some(workspace.state().clone()),
        }));
        let approver = terminal::approver();
        let processes = Processes::new(std::env::current_exe().ok());
        let trusted = policy.is_trusted();
        let project_files = trusted.then(|| workspace.root().join(".pilcrow/adapters/servers"));
        let person_files = homes.config.join("adapters/servers");
        let definitions = Arc::new(Definitions::load(Some(person_files.as_path()), project_files.as_ref().map(|path| path.as_path()))?);
        let servers = ServerPool::new(PoolOptions {
            workspace: workspace.clone(),
            processes: processes.clone(),
            policy: policy.clone(),
            approver: approver.clone(),
            definitions,
            managed: homes.data.path().join("adapters"),
            idle_stop: config.duration("lsp.idle_stop"),
        });
        let kept = if access.keep { Some(KeptSnapshots::new(workspace.state())?) } else { None };
        let kit = Arc::new(Kit {
            workspace: workspace.clone(),
            servers: servers.clone(),
            snapshots: std::sync::Mutex::new(hashline::SnapshotStore::new(config.snapshot_limits())),
            kept,
            settings: tools::Settings {
                line_checks: config.flag("hashline.line_checks"),
                diagnostics_wait: config.duration("edit.diagnostics_wait"),
                request_timeout: config.duration("lsp.timeout"),
            },
        });
        let registry = Registry::new(tools::builtin(&kit))?;
        Ok(Self { homes, config, workspace, policy, approver, processes, servers, kit, registry })
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
            output::note(&format!("pilcrow: these processes could not be ended: {left:?}"));
        }
    }
}

/// `-C DIR`, else the nearest parent with `.git`, else the current folder.
pub fn root(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(dir) = dir {
        return std::path::absolute(dir).with_context(|| format!("{} is no usable path", dir.display()));
    }
    #[expect(clippy::disallowed_methods, reason = "the command line looks at it, once, here")]
    let current = std::env::current_dir().context("the current folder is not there; name one with -C DIR")?;
    Ok(current.ancestors().find(|parent| parent.join(".git").exists()).map_or(current.clone(), Path::to_owned))
}
