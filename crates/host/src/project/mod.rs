//! A project with its workspace, servers, tools and sessions.

mod adapters;
mod tool_setup;

use std::sync::Arc;

use agent::context::Stamps;
use agent::store::SessionStore;
use agent::tool::pipeline::LayerTrace;
use agent::{Registry, deadlines};
use lsp_client::{PoolOptions, ServerPool};
use parking_lot::Mutex;
use paths::{AbsPath, Homes};
use policy::{Approver, Policy, PolicyOptions, TrustStore};
use process::Processes;
use tools::{SavedSnapshots, ToolContext};
use workspace::{Acceptance, Plan, RecoveryNote, RunId, UndoPlan, Workspace, WorkspaceEdit};

use crate::config::{Config, ConfigErrors};
use crate::frontend::Frontend;
use crate::request::{RequestError, Stop};
use crate::scope::RequestScope;
use crate::session::{HostedSession, SessionRequest};

pub use adapters::{BuiltInServers, load_definitions, managed_directory, search_path};
pub(crate) use tool_setup::{registry, tool_settings, unknown_tools};
pub use tools::Show;

/// The rights of this process or request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access {
    /// Whether Pilcrow answers every question with yes.
    pub yes: bool,
    /// Whether later commands know what this one reads.
    pub keep: bool,
    /// Whether the user trusts the project while this process runs.
    ///
    /// The user's editor asks the question.
    pub trusted: bool,
}

pub struct Project {
    pub config: Arc<Config>,
    pub workspace: Workspace,
    pub policy: Arc<Policy>,
    pub frontend: Arc<dyn Frontend>,
    pub processes: Arc<Processes>,
    pub(crate) servers: Arc<ServerPool>,
    pub context: Arc<ToolContext>,
    pub registry: Registry,
    pub homes: Homes,
    /// Whether the project was trusted when it was opened.
    pub trusted: bool,
    /// Stamps of the configuration files, as they were read.
    config_stamps: Mutex<Stamps>,
}

impl Project {
    /// Opens the project at `root`; several may be open in one process.
    ///
    /// Blocks on the file system.
    pub(crate) fn open(
        homes: &Homes,
        root: &std::path::Path,
        access: Access,
        frontend: Arc<dyn Frontend>,
    ) -> anyhow::Result<Self> {
        let (workspace, notes) = Workspace::open(root, &homes.state, frontend.editor())?;
        for note in notes {
            let RecoveryNote { path, detail, .. } = note;
            frontend.notify(&format!("interrupted change of {path}: {detail}"));
        }
        let trust = TrustStore::new(homes.state.clone());
        let trusted = access.yes || access.trusted || trust.is_trusted(workspace.root());
        let config_stamps = config_stamps(homes, workspace.root());
        let settings = frontend.settings();
        let config = Config::load(&homes.config, settings.as_ref(), Some(workspace.root()), trusted, &[])?;
        frontend.config_loaded(&config)?;
        config.warnings.iter().for_each(|warning| frontend.notify(warning));
        let policy = Policy::new(PolicyOptions {
            mode: config.values.policy.mode.0,
            yes: access.yes,
            rules: config.rules(),
            exec: config.values.exec.options(),
            trust,
            root: workspace.root().clone(),
            own: homes.own_directories(),
            state: Some(workspace.state().clone()),
            shown: Vec::new(),
            proposes: false,
        });
        // Installed servers run in the sandbox, which hides other data of Pilcrow.
        let installed = homes.data.path().join("adapters");
        let policy = Arc::new(policy.allowing_reads(&[tools::Shell::outputs(&workspace), installed]));
        if access.trusted {
            policy.trust_for_now();
        }
        let processes = Processes::new(std::env::current_exe().ok());
        let show = frontend.show_document();
        let notify = |text: &str| frontend.notify(text);
        let options = PoolOptions {
            workspace: workspace.clone(),
            processes: Arc::clone(&processes),
            policy: Arc::clone(&policy),
            approver: Arc::clone(&frontend) as Arc<dyn Approver>,
            definitions: Arc::new(adapters::definitions(homes, workspace.root(), trusted, notify)),
            reread: Some(adapters::reread(homes, workspace.root(), trusted)),
            host: Arc::new(adapters::ServerHost { root: workspace.root().clone(), show: show.clone() }),
        };
        let servers = adapters::pool(homes, &config, options);
        let debug = adapters::debug_sessions(homes, &workspace, trusted, &processes, notify);
        let shell = tools::Shell::new(Arc::clone(&processes), &workspace)?;
        let saved = if access.keep { Some(SavedSnapshots::new(workspace.state())?) } else { None };
        let context = tool_setup::context(&workspace, &servers, &debug, &shell, &config);
        let context = Arc::new(ToolContext { saved_snapshots: saved, show, ..context });
        let registry = registry(&context, &config)?;
        Ok(Self {
            config: Arc::new(config),
            workspace,
            policy,
            frontend,
            processes,
            servers,
            context,
            registry,
            homes: homes.clone(),
            trusted,
            config_stamps: Mutex::new(config_stamps),
        })
    }

    /// Returns the scope of requests of this process.
    pub fn scope(self: &Arc<Self>) -> RequestScope {
        RequestScope::own(self)
    }

    /// Creates the scope of a request of another process.
    ///
    /// Its servers are the project's own if starting one asks nothing; otherwise it gets servers of its own,
    /// so that its `--yes` counts for it alone. Blocks on the file system.
    ///
    /// # Errors
    /// When a directory of Pilcrow fails.
    pub fn isolated_scope(
        self: &Arc<Self>,
        access: Access,
        approver: Arc<dyn Approver>,
    ) -> anyhow::Result<RequestScope> {
        RequestScope::isolated(self, access, approver)
    }

    /// Opens a session with the permission of this process.
    ///
    /// # Errors
    /// When the request names what does not exist, or a directory of Pilcrow fails.
    pub async fn open_session(
        self: &Arc<Self>,
        request: SessionRequest,
        stop: Stop<'_>,
    ) -> Result<HostedSession, RequestError> {
        self.scope().open_session(request, stop).await
    }

    /// Creates language servers for an isolated scope.
    ///
    /// `None` where the project's own servers serve the scope.
    pub(crate) fn isolated_servers(
        &self,
        policy: &Arc<Policy>,
        approver: &Arc<dyn Approver>,
        access: Access,
    ) -> Option<Arc<ServerPool>> {
        let (homes, root) = (&self.homes, self.workspace.root());
        let trusted = self.policy.is_trusted();
        let log = |problem: &str| tracing::warn!("{problem}");
        let definitions = adapters::definitions(homes, root, trusted || access.yes, log);
        if trusted && !definitions.any_from_project() {
            return None;
        }
        let options = PoolOptions {
            workspace: self.workspace.clone(),
            processes: Arc::clone(&self.processes),
            policy: Arc::clone(policy),
            approver: Arc::clone(approver),
            definitions: Arc::new(definitions),
            reread: Some(adapters::reread(homes, root, trusted || access.yes)),
            host: Arc::new(adapters::ServerHost { root: root.clone(), show: None }),
        };
        Some(adapters::pool(homes, &self.config, options))
    }

    /// Creates the tools' context of an isolated scope.
    ///
    /// Debug sessions and jobs stay the project's, so that a later command finds them; the scope shows no
    /// files in this process's editor.
    pub(crate) fn isolated_context(
        &self,
        servers: Option<&Arc<ServerPool>>,
        access: Access,
    ) -> anyhow::Result<ToolContext> {
        let saved = if access.keep { Some(SavedSnapshots::new(self.workspace.state())?) } else { None };
        let ToolContext { debug, shell, .. } = &*self.context;
        let servers = servers.unwrap_or(&self.servers);
        Ok(ToolContext {
            saved_snapshots: saved,
            ..tool_setup::context(&self.workspace, servers, debug, shell, &self.config)
        })
    }

    /// Reads the settings again from their files. Blocks for two small files.
    ///
    /// # Errors
    /// All errors in the files.
    pub(crate) fn load_config(&self, trusted: bool) -> Result<Config, ConfigErrors> {
        let (root, settings) = (Some(self.workspace.root()), self.frontend.settings());
        Config::load(&self.homes.config, settings.as_ref(), root, trusted, &[])
    }

    /// Whether changed files have other settings than those in force.
    ///
    /// An invalid file is logged and ignored. Blocks for two small files.
    pub fn has_other_settings(&self) -> bool {
        let mut stamps = self.config_stamps.lock();
        if stamps.are_current() {
            return false;
        }
        *stamps = config_stamps(&self.homes, self.workspace.root());
        match self.load_config(self.trusted || self.policy.is_trusted()) {
            Ok(config) => !self.config.differences(&config).is_empty(),
            Err(errors) => {
                tracing::warn!("{errors}\nthe previous settings stay in force");
                false
            }
        }
    }

    pub fn sessions(&self) -> anyhow::Result<SessionStore> {
        let directory = self.workspace.state().child("sessions")?;
        Ok(SessionStore::new(directory).sync(self.config.values.sessions.fsync.0))
    }

    /// The tools that each layer adds or removes.
    pub fn tool_layers(&self, config: &Config) -> anyhow::Result<Vec<LayerTrace>> {
        tool_setup::trace(&self.context, config)
    }

    /// Commits an edit that the user's own command names.
    ///
    /// Only a denying rule stops it.
    ///
    /// # Errors
    /// When the edit does not fit its documents, is denied, or is not applied.
    pub async fn commit_invoked(&self, edit: WorkspaceEdit, run: &RunId) -> anyhow::Result<()> {
        self.commit_plan_invoked(self.workspace.applied().plan(edit)?, run).await
    }

    /// Commits a plan that the user's own command names.
    ///
    /// # Errors
    /// As [`Project::commit_invoked`].
    pub(crate) async fn commit_plan_invoked(&self, plan: Plan, run: &RunId) -> anyhow::Result<()> {
        let permit = self.policy.permit_invoked(&plan)?;
        let commit = self.workspace.applied().commit(plan, permit, run).await?;
        self.servers.did_commit(&commit).await;
        Ok(())
    }

    /// Makes proposed edits that the user accepts.
    ///
    /// # Errors
    /// As [`Project::commit_invoked`].
    pub(crate) async fn commit_accepted(&self, acceptance: Acceptance) -> anyhow::Result<()> {
        let permit = self.policy.permit_invoked(&acceptance.plan)?;
        let commit = self.workspace.commit_acceptance(acceptance, permit).await?;
        self.servers.did_commit(&commit).await;
        Ok(())
    }

    /// Commits an undo that the user's own command names.
    ///
    /// # Errors
    /// As [`Project::commit_invoked`].
    pub(crate) async fn commit_undo_invoked(&self, undo: UndoPlan, run: &RunId) -> anyhow::Result<()> {
        let permit = self.policy.permit_invoked(&undo.plan)?;
        let commit = self.workspace.commit_undo(undo, permit, run).await?;
        self.servers.did_commit(&commit).await;
        Ok(())
    }

    /// Stops everything that the project started.
    ///
    /// `stopped` says whether the user waits for it.
    pub async fn close(&self, stopped: bool) {
        let deadline = if stopped { deadlines::PROJECT_STOPPED } else { deadlines::PROJECT };
        self.context.trees.close().await;
        // They stop in parallel, since each waits for programs to end.
        tokio::join!(
            self.servers.shutdown(deadline / 2),
            self.context.debug.shutdown(deadline / 2),
            self.context.shell.close(deadline / 2),
        );
        let left = self.processes.end_all(deadline / 2).await;
        if !left.is_empty() {
            tracing::warn!("cannot stop these processes: {left:?}");
        }
    }
}

/// Modification stamps of the configuration files of user and project.
pub(crate) fn config_stamps(homes: &Homes, root: &AbsPath) -> Stamps {
    let mut stamps = Stamps::default();
    stamps.add(&homes.config.join("config.toml"));
    stamps.add(&root.join(".pilcrow/config.toml"));
    stamps
}

/// Reads the settings of the project at `root`, without opening it.
///
/// Reports warnings by `notify`.
///
/// # Errors
/// When a configuration file is wrong.
pub fn settings(
    homes: &Homes,
    root: &AbsPath,
    trusted: bool,
    notify: impl Fn(&str),
) -> anyhow::Result<Config> {
    let config = Config::load(&homes.config, None, Some(root), trusted, &[])?;
    config.warnings.iter().for_each(|warning| notify(warning));
    Ok(config)
}

/// Why a session must not be deleted: it has proposed edits. Blocks.
///
/// No review would have them.
pub fn open_proposals(store: &SessionStore, workspace: &Workspace, session: &str) -> Option<String> {
    let runs = store.load(session).ok()?.runs(None);
    let files = workspace.proposed_files_of(&runs);
    let names: Vec<String> = files.iter().map(|path| workspace.relative(path)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the session has proposed edits of {}; keep or reject them in the review, or drop them with `pilcrow undo`",
            names.join(", ")
        )
    })
}
