//! Tests of the crate at its boundary: a workspace in a temporary directory.

mod candidates;
mod command_snapshots;
mod commits;
mod crashes;
mod editors;
mod file_index;
mod places;
mod plans;
mod proposals;
mod reviews;
mod searching;
mod undos;

use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paths::{AbsPath, StateDir};
use policy::{Permit, Policy, PolicyOptions, Rule, TrustStore};
use text::TextEdit;

use crate::{
    Commit, CommitError, Operation, Plan, PlanError, RunId, Undo, UndoError, UndoPlan, Version, Workspace,
    WorkspaceEdit,
};

/// A workspace with its state in a temporary directory.
pub(super) struct Fixture {
    /// The temporary directory: the workspace in `root`, its state in `state`.
    pub directory: PathBuf,
    pub workspace: Workspace,
    _temp: Option<tempfile::TempDir>,
}

impl Fixture {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("root")).unwrap();
        for (path, text) in files {
            write(&temp.path().join("root").join(path), text);
        }
        let workspace = open(temp.path());
        Self { directory: temp.path().to_owned(), workspace, _temp: Some(temp) }
    }

    /// A fixture that another process created and removes.
    pub fn existing(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), workspace: open(directory), _temp: None }
    }

    pub fn path(&self, path: &str) -> AbsPath {
        self.workspace.root().join(path)
    }

    /// Renders the text with paths relative to the workspace.
    pub fn relative(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.workspace.root()), "")
    }

    pub fn version(&self, path: &str) -> Version {
        self.workspace.document(&self.path(path)).unwrap().version
    }

    /// Replaces the first `old` by `new`.
    pub fn replace(&self, path: &str, old: &str, new: &str) -> Operation {
        let document = self.workspace.document(&self.path(path)).unwrap();
        let at = document.text.find(old).unwrap();
        let edits = vec![TextEdit::replace(at..at + old.len(), new)];
        Operation::Edit { path: document.path, expected: document.version, edits }
    }

    pub fn create(&self, path: &str, text: &str) -> Operation {
        Operation::Create { path: self.path(path), text: text.to_owned(), replaces: None }
    }

    pub fn rename(&self, from: &str, to: &str) -> Operation {
        Operation::Rename { from: self.path(from), to: self.path(to), expected: None, replaces: None }
    }

    pub fn delete(&self, path: &str) -> Operation {
        Operation::Delete { path: self.path(path), expected: self.version(path) }
    }

    pub fn plan(&self, operations: Vec<Operation>) -> Result<Plan, PlanError> {
        self.workspace.plan(WorkspaceEdit {
            label: "a change".to_owned(),
            operations,
            ..WorkspaceEdit::default()
        })
    }

    pub fn commit_as(&self, run: &RunId, operations: Vec<Operation>) -> Result<Arc<Commit>, CommitError> {
        self.commit_plan(run, self.plan(operations).unwrap())
    }

    pub fn commit(&self, operations: Vec<Operation>) -> Result<Arc<Commit>, CommitError> {
        self.commit_as(&RunId::new(), operations)
    }

    pub fn commit_plan(&self, run: &RunId, plan: Plan) -> Result<Arc<Commit>, CommitError> {
        let permit = permit(&plan);
        block_on(self.workspace.commit(plan, permit, run))
    }

    pub fn apply_undo(&self, plan: Result<UndoPlan, UndoError>) -> Arc<Commit> {
        let plan = plan.unwrap();
        let permit = permit(&plan.plan);
        block_on(self.workspace.commit_undo(plan, permit, &RunId::new())).unwrap()
    }

    pub fn undo(&self) -> Arc<Commit> {
        self.apply_undo(self.workspace.plan_undo(&Undo::LastRun))
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        write(self.path(path).as_path(), text);
    }

    pub fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        files(self.workspace.root().as_path())
    }
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Opens the workspace below `temp` (`root`, state in `state`).
pub(super) fn open(temp: &Path) -> Workspace {
    Workspace::open(&temp.join("root"), &state(temp), None).unwrap().0
}

pub(super) fn state(temp: &Path) -> StateDir {
    StateDir::new(AbsPath::new(temp.join("state")).unwrap())
}

pub(super) fn permit(plan: &Plan) -> Permit {
    let root = AbsPath::new("/").unwrap();
    let trust = TrustStore::new(StateDir::new(root.join("nowhere")));
    let rules = vec![Rule::parse("allow write /**", "the test").unwrap()];
    let policy = Policy::new(PolicyOptions { rules, ..PolicyOptions::new(trust, root) });
    policy.permit_invoked(plan).unwrap()
}

pub(super) fn write(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(super) fn mode(path: impl AsRef<Path>) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(super) fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Reads every file below `root`, each link's target, and empty directories.
///
/// The names of empty directories end in `/`.
pub(super) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(directory) = todo.pop() {
        let mut empty = true;
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            empty = false;
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                todo.push(path);
            } else if meta.is_symlink() {
                out.insert(name, std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
            } else if meta.is_file() {
                out.insert(name, std::fs::read(&path).unwrap());
            }
        }
        if empty && directory != root {
            out.insert(format!("{}/", directory.strip_prefix(root).unwrap().display()), Vec::new());
        }
    }
    out
}
