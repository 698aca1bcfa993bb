//! Language servers and debug adapters of a project: programs and rights.

use std::sync::Arc;

use adapters::{Definition, Definitions, Feature, ProjectPrograms, SearchPath, ServerDefinitions};
use futures_util::future::BoxFuture;
use lsp_client::{Host, MessageType, PoolLimits, PoolOptions, Reread, ServerPool, ShowDocument};
use paths::{AbsPath, Homes, StateDir};
use process::Processes;
use tools::Show;
use workspace::Workspace;

use crate::config::Config;

pub(super) fn pool(homes: &Homes, config: &Config, options: PoolOptions) -> Arc<ServerPool> {
    let lsp = &config.values.lsp;
    let limits = PoolLimits {
        search: search_path(homes),
        idle: lsp.idle_stop.0,
        warm: lsp.max_warm.0,
        memory: (lsp.max_memory.0 as u64) << 20,
        ..PoolLimits::default()
    };
    ServerPool::with_limits(options, limits)
}

/// Creates the debug sessions, with the definitions that the project may use.
pub(super) fn debug_sessions(
    homes: &Homes,
    workspace: &Workspace,
    trusted: bool,
    processes: &Arc<Processes>,
    notify: impl Fn(&str),
) -> Arc<dap_client::Sessions> {
    let definitions = load_definitions(homes, workspace.root(), trusted);
    definitions.refused().iter().for_each(|error| notify(&error.to_string()));
    let programs = ProjectPrograms { search: search_path(homes), workspace: workspace.root().clone() };
    let sessions = dap_client::Sessions::new(definitions, programs, Arc::clone(processes));
    match crate::debug_sessions::directory(homes, workspace.root()) {
        Ok(directory) => sessions.announce(directory),
        Err(error) => tracing::warn!("debug sessions of this process cannot be joined: {error:#}"),
    }
    sessions
}

/// Loads the language servers in force.
///
/// They are built in, or defined by the user or a trusted project. `notify` receives a message about each
/// unusable file.
pub(super) fn definitions(
    homes: &Homes,
    root: &AbsPath,
    trusted: bool,
    notify: impl Fn(&str),
) -> ServerDefinitions {
    let definitions: ServerDefinitions = load_definitions(homes, root, trusted);
    definitions.refused().iter().for_each(|error| notify(&error.to_string()));
    definitions
}

/// Reads the definitions again, with the trust of the start.
pub(super) fn reread(homes: &Homes, root: &AbsPath, trusted: bool) -> Reread {
    let (homes, root) = (homes.clone(), root.clone());
    Arc::new(move || definitions(&homes, &root, trusted, |problem| tracing::warn!("{problem}")))
}

/// Loads the definitions in force, of language servers or debug adapters.
pub fn load_definitions<D: Definition>(homes: &Homes, root: &AbsPath, trusted: bool) -> Definitions<D> {
    Definitions::load(homes.config.as_path(), trusted.then(|| root.as_path()))
}

/// Returns the directory of the adapters that Pilcrow installed.
pub fn managed_directory(homes: &Homes) -> anyhow::Result<StateDir> {
    Ok(homes.data.child("adapters")?)
}

/// Returns the search path for programs of adapters.
pub fn search_path(homes: &Homes) -> SearchPath {
    let managed = homes.data.path().join("adapters");
    SearchPath { managed: Some(managed.into()), ..SearchPath::from_env() }
}

/// The definitions of servers that come with the product.
///
/// Questions that need no project use them.
pub struct BuiltInServers(ServerDefinitions);

impl BuiltInServers {
    pub fn load() -> Self {
        Self(ServerDefinitions::built_in())
    }

    /// Whether a server organizes the imports of a file.
    pub fn organize_imports(&self, path: &AbsPath) -> bool {
        !self.0.for_feature(path.as_path(), Feature::OrganizeImports).is_empty()
    }

    /// Whether a server fixes diagnostics of a file.
    pub fn fix_all(&self, path: &AbsPath) -> bool {
        !self.0.for_feature(path.as_path(), Feature::FixAll).is_empty()
    }
}

/// Handles requests of language servers.
///
/// Logs messages and shows files of the project.
pub(super) struct ServerHost {
    pub root: AbsPath,
    pub show: Option<Show>,
}

impl Host for ServerHost {
    fn show_document<'a>(&'a self, server: &'a str, request: ShowDocument) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(show) = &self.show else { return false };
            let path = paths::uri_to_path(&request.uri).and_then(|path| path.canonicalize().ok());
            let path = path.and_then(AbsPath::new).filter(|path| path.starts_with(&self.root));
            match path.filter(|_| !request.external) {
                Some(path) => show(path, request.selection).await,
                None => {
                    tracing::info!(
                        server,
                        uri = request.uri,
                        "not shown: the file is outside of the project"
                    );
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

    /// Checks that a Python program gets the environment that language servers get.
    #[test]
    fn a_program_runs_with_the_environment_nearest_to_it() {
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
            let programs = ProjectPrograms { search, workspace: workspace.clone() };
            let definitions = adapters::DebuggerDefinitions::built_in();
            let sessions = Sessions::new(definitions, programs, Processes::new(None));
            let spec = LaunchSpec {
                target: Target::Program(root.join("w/p/a.py")),
                adapter: Some("debugpy".to_owned()),
                root: workspace,
                args: Vec::new(),
                cwd: root.join(cwd),
                env: Vec::new(),
                stop_on_entry: false,
                stdin: None,
                breakpoints: Breakpoints::default(),
                arguments: None,
                test: None,
                more: serde_json::Map::new(),
            };
            let plan = sessions.plan(&spec).unwrap();
            let python = std::path::PathBuf::from(plan.arguments["python"].as_str().unwrap());
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
