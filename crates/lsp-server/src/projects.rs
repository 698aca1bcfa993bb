//! The projects that the editor works on: one for each workspace folder, opened when something first
//! needs it, and one for a file outside of all folders that the person named.
//!
//! What must stay true: opening blocks nobody but who needs the project; a project whose settings or
//! folder changed is closed when the last run in it has ended, and opened anew for the next.

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

/// How long the editor has to tell its settings.
const SETTINGS: Duration = Duration::from_secs(10);

/// All projects of one connection.
pub struct Projects {
    options: ProjectsOptions,
    state: Mutex<State>,
    /// Fires when the editor's settings are known.
    settled: CancellationToken,
}

/// The connection, as far as its projects use it.
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
    /// The client, if it takes events.
    pub events: Option<Peer>,
}

/// Who is asked about what is in the editor's folders, and about what is not.
pub struct Approvers {
    pub inside: Arc<dyn Approver>,
    pub outside: Arc<dyn Approver>,
}

#[derive(Default)]
struct State {
    folders: Vec<AbsPath>,
    opened: BTreeMap<AbsPath, Arc<Opened>>,
    /// Folders that commands find us by, opened or not.
    announced: BTreeMap<AbsPath, Box<dyn Announcement>>,
    /// `initializationOptions.pilcrow`, and what the client told later.
    settings: [Value; 2],
    /// What holds where no project says otherwise.
    base: Option<Arc<Config>>,
}

#[derive(Default)]
struct Opened {
    project: OnceCell<Arc<Project>>,
    users: TaskTracker,
}

/// A project in use: it is not closed before this is dropped.
pub struct Lease {
    pub project: Arc<Project>,
    _user: TaskTrackerToken,
}

/// Which project a run is for cannot be told.
#[derive(Debug, thiserror::Error)]
#[error("no folder is open; open one, or name a file by `uri`")]
pub struct NoProject;

impl Projects {
    /// No project is open at first.
    pub fn new(options: ProjectsOptions) -> Self {
        Self { options, state: Mutex::default(), settled: CancellationToken::new() }
    }

    /// Adds and removes folders; the projects of removed ones are closed. From now on commands in the
    /// added ones are carried out here. Blocks on the file system, shortly.
    pub fn change_folders(self: &Arc<Self>, added: &[PathBuf], removed: &[PathBuf]) {
        let canonical =
            |folders: &[PathBuf]| -> Vec<AbsPath> { folders.iter().map(|it| canonical(it)).collect() };
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

    /// The folders that are open.
    pub fn folders(&self) -> Vec<AbsPath> {
        self.lock().folders.clone()
    }

    /// The folder that was opened first of those that are open.
    pub fn first_folder(&self) -> Option<AbsPath> {
        self.lock().folders.first().cloned()
    }

    /// The folder that work without a file is for: that of the first of `near`, files that the person had to do
    /// with, that is in one; else the first. Whether there are others.
    pub fn folder_near(&self, near: &[AbsPath]) -> Option<(AbsPath, bool)> {
        let state = self.lock();
        let near = near.iter().find_map(|near| state.folder_of(near));
        Some((near.or(state.folders.first())?.clone(), state.folders.len() > 1))
    }

    fn announce(self: &Arc<Self>, root: &AbsPath) -> Option<Box<dyn Announcement>> {
        let served = Arc::new(Folder { projects: Arc::clone(self), root: root.clone() });
        let announced = self.options.announcer.announce(root, served, &self.options.name);
        announced.inspect_err(|error| tracing::warn!("commands in {root} go past this editor: {error}")).ok()
    }

    /// `initializationOptions.pilcrow`.
    pub fn set_initial_settings(&self, settings: Value) {
        self.lock().settings[0] = settings;
    }

    /// The section `pilcrow` as the client tells it now. Projects are opened anew where that changes
    /// anything. Blocks for a small file. Gives what is odd about the settings.
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
        self.settled.cancel();
        warnings
    }

    /// The settings that hold for a file, as far as they are known without waiting.
    pub fn config(&self, path: Option<&AbsPath>) -> Option<Arc<Config>> {
        let state = self.lock();
        let root = path.and_then(|path| state.folder_of(path));
        let project = root.and_then(|root| state.opened.get(root)).and_then(|opened| opened.project.get());
        project.map(|project| Arc::clone(&project.config)).or_else(|| state.base.clone())
    }

    /// The folder that a run about `path` works in: the innermost that holds it; for a file outside of
    /// all its own repository or folder, which makes that one writable; without a path the first.
    ///
    /// # Errors
    /// [`NoProject`] when nothing is open and nothing is named.
    pub fn root_for(&self, path: Option<&AbsPath>) -> Result<AbsPath, NoProject> {
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
    pub fn holds(&self, path: &AbsPath) -> bool {
        self.lock().folder_of(path).is_some()
    }

    /// The project at `root`, opened if it is not. Waits until the editor's settings are known.
    ///
    /// # Errors
    /// When it cannot be opened; the next call tries again.
    pub async fn open(self: &Arc<Self>, root: &AbsPath) -> anyhow::Result<Lease> {
        // A client that never says `initialized` has no more settings to tell.
        if tokio::time::timeout(SETTINGS, self.settled.cancelled()).await.is_err() {
            tracing::debug!("the editor's settings did not come");
        }
        let known = self.lock().opened.get(root).and_then(|opened| opened.project.get().cloned());
        if let Some(project) = known
            && tokio::task::spawn_blocking(move || project.has_other_settings()).await.unwrap_or(false)
        {
            // Runs that go on keep the project that they began with.
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

    /// Is found by no command any more; what commands asked for is stopped.
    pub async fn withdraw(&self, deadline: Duration) {
        let announced = std::mem::take(&mut self.lock().announced);
        join_all(announced.into_values().map(|guard| guard.close(deadline))).await;
    }

    /// Closes every project, without waiting for runs. `stopped` when the person waits for it.
    pub async fn close(&self) {
        let opened = std::mem::take(&mut self.lock().opened);
        let closing = opened.into_values().filter_map(|opened| opened.project.get().cloned());
        join_all(closing.map(|project| async move { project.close(false).await })).await;
    }

    /// Closes a project when nobody uses it any more.
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
        // Fields are put in and taken out whole.
        self.state.lock()
    }
}

/// One folder, as commands are served in it.
struct Folder {
    projects: Arc<Projects>,
    root: AbsPath,
}

impl ServedProject for Folder {
    fn documents(&self) -> Vec<Document> {
        self.projects.options.editor.documents()
    }

    fn project(&self) -> BoxFuture<'_, anyhow::Result<ProjectHandle>> {
        Box::pin(async {
            let Lease { project, _user } = self.projects.open(&self.root).await?;
            Ok(ProjectHandle { project, keep_open: Box::new(_user) })
        })
    }
}

impl State {
    fn folder_of(&self, path: &AbsPath) -> Option<&AbsPath> {
        let holding = self.folders.iter().filter(|folder| path.starts_with(folder));
        holding.max_by_key(|folder| folder.as_path().as_os_str().len())
    }

    /// What was told later wins.
    fn merged(&self) -> Value {
        let mut merged = self.settings[0].as_object().cloned().unwrap_or_default();
        let later = self.settings[1].as_object().into_iter().flatten();
        merged.extend(
            later.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone())),
        );
        Value::Object(merged)
    }
}

/// Where a folder really is; as it is spelled when that cannot be found out.
fn canonical(folder: &Path) -> AbsPath {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    AbsPath::new(&real).unwrap_or_else(|| AbsPath::new("/").expect("the root is absolute"))
}
