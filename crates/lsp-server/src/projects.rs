//! The projects of the editor.
//!
//! There is one for each workspace folder, opened on first use, and one for each
//! file outside of all folders that the user names.
//!
//! Invariants: opening delays only runs that need the project; a project whose settings or folder
//! changed closes after its last run, and the next run opens it again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use host::config::Config;
use host::project::{Access, Project, Show};
use host::{Announcement, Announcer, Frontend, Host, ProjectHandle, ServedProject};
use parking_lot::Mutex;
use paths::{AbsPath, Homes};
use policy::Approver;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wire::Peer;
use workspace::{Document, Editor};

use crate::frontend::EditorFrontend;

/// Maximum wait for the editor's settings.
const SETTINGS: Duration = Duration::from_secs(10);

/// The open projects and workspace folders of one connection.
pub struct Projects {
    options: ProjectsOptions,
    state: Mutex<State>,
    /// Fires when the editor's settings are known.
    settings_known: CancellationToken,
}

/// The parts of a connection that its projects use.
pub struct ProjectsOptions {
    pub homes: Homes,
    pub editor: Arc<dyn Editor>,
    pub approvers: Approvers,
    /// Whether the user trusted the folders in the editor.
    pub trusted: bool,
    /// The client's name.
    pub name: String,
    pub announcer: Arc<dyn Announcer>,
    pub tracker: TaskTracker,
    pub show: Option<Show>,
    /// The client, if it supports events.
    pub events: Option<Peer>,
}

/// Approvers for projects inside and outside of the editor's folders.
pub struct Approvers {
    pub inside: Arc<dyn Approver>,
    pub outside: Arc<dyn Approver>,
}

#[derive(Default)]
struct State {
    folders: Vec<AbsPath>,
    opened: BTreeMap<AbsPath, Arc<Opened>>,
    /// Announcements of folders to commands; a folder's project may not be open.
    announced: BTreeMap<AbsPath, Box<dyn Announcement>>,
    /// `initializationOptions.pilcrow`, and the client's later settings.
    settings: [Value; 2],
    /// Settings that apply outside of opened projects.
    base: Option<Arc<Config>>,
}

#[derive(Default)]
struct Opened {
    project: OnceCell<Arc<Project>>,
    users: TaskTracker,
}

/// A project in use, which stays open until this is dropped.
pub struct Lease {
    pub project: Arc<Project>,
    _user: TaskTrackerToken,
}

impl Lease {
    pub(crate) fn into_handle(self) -> ProjectHandle {
        ProjectHandle { project: self.project, keep_open: Box::new(self._user) }
    }
}

/// The error of a run for which no project is known.
#[derive(Debug, thiserror::Error)]
#[error("no folder is open; open one, or name a file by `uri`")]
pub struct NoProject;

impl Projects {
    pub fn new(options: ProjectsOptions) -> Self {
        Self { options, state: Mutex::default(), settings_known: CancellationToken::new() }
    }

    /// Adds and removes folders.
    ///
    /// Announces the added ones, and closes the projects of removed ones.
    /// Blocks briefly on the file system.
    pub(crate) fn change_folders(self: &Arc<Self>, added: &[PathBuf], removed: &[PathBuf]) {
        let canonical = |folders: &[PathBuf]| -> Vec<AbsPath> {
            folders.iter().map(|folder| canonical(folder)).collect()
        };
        let (added, removed) = (canonical(added), canonical(removed));
        let mut state = self.lock();
        state.folders.retain(|folder| !removed.contains(folder));
        for folder in added {
            if !state.folders.contains(&folder) {
                if let Some(guard) = self.announce(&folder) {
                    state.announced.insert(folder.clone(), guard);
                }
                state.folders.push(folder);
            }
        }
        for folder in removed {
            state.announced.remove(&folder);
            if let Some(opened) = state.opened.remove(&folder) {
                self.retire(opened);
            }
        }
    }

    pub fn folders(&self) -> Vec<AbsPath> {
        self.lock().folders.clone()
    }

    /// The open folder that was opened first.
    pub(crate) fn first_folder(&self) -> Option<AbsPath> {
        self.lock().folders.first().cloned()
    }

    /// The folder for work without a file, and whether other folders are open.
    ///
    /// Takes the folder of the first file of `near` that is in one, else the first folder.
    pub(crate) fn folder_near(&self, near: &[AbsPath]) -> Option<(AbsPath, bool)> {
        let state = self.lock();
        let found = near.iter().find_map(|file| state.folder_of(file));
        Some((found.or(state.folders.first())?.clone(), state.folders.len() > 1))
    }

    fn announce(self: &Arc<Self>, root: &AbsPath) -> Option<Box<dyn Announcement>> {
        let served = Arc::new(ServedFolder { projects: Arc::clone(self), root: root.clone() });
        let announced = self.options.announcer.announce(root, served, &self.options.name);
        announced
            .inspect_err(|error| tracing::warn!("commands in {root} do not use this editor: {error}"))
            .ok()
    }

    /// Sets `initializationOptions.pilcrow`.
    pub(crate) fn set_initial_settings(&self, settings: Value) {
        self.lock().settings[0] = settings;
    }

    /// Sets the client's section `pilcrow`; returns warnings about it.
    ///
    /// Reads a small file.
    ///
    /// Closes all projects if it changed, so that the next runs open them again.
    pub fn set_settings(&self, settings: Value) -> Vec<String> {
        let merged = {
            let mut state = self.lock();
            if settings != state.settings[1] {
                state.settings[1] = settings;
                let opened = std::mem::take(&mut state.opened);
                opened.into_values().for_each(|opened| self.retire(opened));
            }
            state.merged()
        };
        let (base, warnings) = match Config::load(&self.options.homes.config, Some(&merged), None, false, &[])
        {
            Ok(config) => {
                let warnings = config.warnings.clone();
                (Some(Arc::new(config)), warnings)
            }
            Err(errors) => (None, errors.0.iter().map(ToString::to_string).collect()),
        };
        self.lock().base = base;
        self.settings_known.cancel();
        warnings
    }

    /// The settings for a file, as far as known without waiting.
    pub fn config(&self, path: Option<&AbsPath>) -> Option<Arc<Config>> {
        let state = self.lock();
        let root = path.and_then(|path| state.folder_of(path));
        let project = root.and_then(|root| state.opened.get(root)).and_then(|opened| opened.project.get());
        project.map(|project| Arc::clone(&project.config)).or_else(|| state.base.clone())
    }

    /// The root of a run about `path`: the innermost folder that contains it.
    ///
    /// For a file outside of all folders, the root is its repository or directory, which becomes
    /// writable. Without a path, the root is the first folder.
    ///
    /// # Errors
    /// [`NoProject`] without an open folder and without a path.
    pub(crate) fn root_for(&self, path: Option<&AbsPath>) -> Result<AbsPath, NoProject> {
        let state = self.lock();
        let Some(path) = path else { return state.folders.first().cloned().ok_or(NoProject) };
        if let Some(folder) = state.folder_of(path) {
            return Ok(folder.clone());
        }
        let mut parents = path.as_path().ancestors().skip(1);
        let repository = parents.clone().find(|parent| parent.join(".git").exists());
        repository.or_else(|| parents.next()).and_then(AbsPath::new).ok_or(NoProject)
    }

    /// Whether a file is in one of the editor's folders.
    pub fn contains(&self, path: &AbsPath) -> bool {
        self.lock().folder_of(path).is_some()
    }

    /// Returns the project at `root`, and opens it if needed.
    ///
    /// Waits for the editor's settings.
    ///
    /// # Errors
    /// When opening fails; the next call tries again.
    pub async fn open(self: &Arc<Self>, root: &AbsPath) -> anyhow::Result<Lease> {
        // A client that never sends `initialized` sends no settings.
        if tokio::time::timeout(SETTINGS, self.settings_known.cancelled()).await.is_err() {
            tracing::debug!("the editor did not send its settings in time");
        }
        let known = self.lock().opened.get(root).and_then(|opened| opened.project.get().cloned());
        if let Some(project) = known
            && tokio::task::spawn_blocking(move || project.has_other_settings()).await.unwrap_or(false)
        {
            // Active runs keep the project that they started with.
            let retired = self.lock().opened.remove(root);
            retired.into_iter().for_each(|opened| self.retire(opened));
        }
        let (opened, user) = {
            let mut state = self.lock();
            let opened = Arc::clone(state.opened.entry(root.clone()).or_default());
            let user = opened.users.token();
            (opened, user)
        };
        let open = || async {
            let (this, root) = (Arc::clone(self), root.clone());
            tokio::task::spawn_blocking(move || this.open_now(&root)).await?
        };
        let project = Arc::clone(opened.project.get_or_try_init(open).await?);
        Ok(Lease { project, _user: user })
    }

    fn open_now(&self, root: &AbsPath) -> anyhow::Result<Arc<Project>> {
        let (inside, settings) = {
            let state = self.lock();
            (state.folder_of(root).is_some(), state.merged())
        };
        let approver = if inside { &self.options.approvers.inside } else { &self.options.approvers.outside };
        let frontend: Arc<dyn Frontend> = Arc::new(EditorFrontend {
            editor: Arc::clone(&self.options.editor),
            approver: Arc::clone(approver),
            settings,
            show: self.options.show.clone(),
            events: self.options.events.clone(),
        });
        let access = Access { yes: false, keep: false, trusted: self.options.trusted && inside };
        let host = Host { homes: self.options.homes.clone() };
        let project = host.open_project(root.as_path(), access, frontend)?;
        project.workspace.set_peers(self.options.announcer.peers());
        tracing::info!("opened {root}");
        Ok(project)
    }

    /// Withdraws the announcements and stops the work of commands.
    pub async fn withdraw(&self, deadline: Duration) {
        let announced = std::mem::take(&mut self.lock().announced);
        join_all(announced.into_values().map(|guard| guard.close(deadline))).await;
    }

    /// Closes every project, without waiting for runs.
    pub async fn close(&self) {
        let opened = std::mem::take(&mut self.lock().opened);
        let closing = opened.into_values().filter_map(|opened| opened.project.get().cloned());
        join_all(closing.map(|project| async move { project.close(false).await })).await;
    }

    /// Closes a project after its last use.
    fn retire(&self, opened: Arc<Opened>) {
        opened.users.close();
        self.options.tracker.spawn(async move {
            opened.users.wait().await;
            if let Some(project) = opened.project.get() {
                project.close(false).await;
            }
        });
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A folder in which the editor serves commands.
struct ServedFolder {
    projects: Arc<Projects>,
    root: AbsPath,
}

impl ServedProject for ServedFolder {
    fn documents(&self) -> Vec<Document> {
        self.projects.options.editor.documents()
    }

    fn project(&self) -> BoxFuture<'_, anyhow::Result<ProjectHandle>> {
        Box::pin(async { Ok(self.projects.open(&self.root).await?.into_handle()) })
    }
}

impl State {
    fn folder_of(&self, path: &AbsPath) -> Option<&AbsPath> {
        let containing = self.folders.iter().filter(|folder| path.starts_with(folder));
        containing.max_by_key(|folder| folder.as_path().as_os_str().len())
    }

    /// Merges the settings; later ones win.
    fn merged(&self) -> Value {
        let mut merged = self.settings[0].as_object().cloned().unwrap_or_default();
        let later = self.settings[1].as_object().into_iter().flatten();
        merged.extend(
            later.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone())),
        );
        Value::Object(merged)
    }
}

/// The canonical path of a folder, or the given one if that fails.
fn canonical(folder: &Path) -> AbsPath {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    AbsPath::new(&real).unwrap_or_else(|| AbsPath::new("/").expect("the root is absolute"))
}
