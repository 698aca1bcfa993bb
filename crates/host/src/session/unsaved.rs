//! Files that a request changed in an editor and that are not saved.
//!
//! The user must save them before programs, which read the disk, see the change.

use std::collections::BTreeSet;
use std::sync::Arc;

use paths::AbsPath;
use tokio::sync::broadcast;
use workspace::{Commit, Owner, RunId, Workspace};

/// Collects the files of commits from its creation on.
pub(crate) struct UnsavedFiles {
    workspace: Workspace,
    commits: broadcast::Receiver<Arc<Commit>>,
}

impl UnsavedFiles {
    /// Starts to collect; call it before the request starts.
    pub fn watch(workspace: &Workspace) -> Self {
        Self { workspace: workspace.clone(), commits: workspace.subscribe() }
    }

    /// Lists the files that `run` changed and that an editor holds unsaved.
    ///
    /// They are relative to the root. Reads the disk.
    pub fn files(&mut self, run: &RunId) -> Vec<String> {
        let mut changed: BTreeSet<AbsPath> = BTreeSet::new();
        loop {
            match self.commits.try_recv() {
                Ok(commit) if commit.run == *run => {
                    changed.extend(commit.files.iter().map(|file| file.path.clone()));
                }
                // Older commits were dropped; the rest is still named.
                Ok(_) | Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => break,
            }
        }
        if changed.is_empty() {
            return Vec::new();
        }
        let open = self.workspace.applied().open_documents().into_iter();
        let unsaved = open.filter(|document| {
            document.owner == Owner::Editor { dirty: true } && changed.contains(&document.path)
        });
        let mut files: Vec<String> =
            unsaved.map(|document| self.workspace.relative(&document.path)).collect();
        files.sort();
        files
    }
}

/// Renders a line that names the files; `None` when there are none.
pub fn describe_unsaved(files: &[String]) -> Option<String> {
    (!files.is_empty()).then(|| format!("changed and not saved: {}", files.join(", ")))
}
