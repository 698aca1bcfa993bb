//! What a request changed in an editor and nobody saved: whoever runs the project's programs next has to
//! know, since those read the disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::broadcast;
use workspace::{AbsPath, Commit, Owner, RunId, Workspace};

/// Hears of commits from when it is made.
pub struct Unsaved {
    workspace: Workspace,
    commits: broadcast::Receiver<Arc<Commit>>,
}

impl Unsaved {
    /// To be made before the request is carried out.
    pub fn watch(workspace: &Workspace) -> Self {
        Self { workspace: workspace.clone(), commits: workspace.subscribe() }
    }

    /// The files that the run changed and that an editor has open with unsaved text, as people know them.
    /// Looks at the disk.
    pub fn files(&mut self, run: &RunId) -> Vec<String> {
        let mut changed: BTreeSet<AbsPath> = BTreeSet::new();
        loop {
            match self.commits.try_recv() {
                Ok(commit) if commit.run == *run => {
                    changed.extend(commit.files.iter().map(|file| file.path.clone()));
                }
                // Some were dropped since nobody looked; the rest is still named.
                Ok(_) | Err(broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => break,
            }
        }
        if changed.is_empty() {
            return Vec::new();
        }
        let open = self.workspace.open_documents().into_iter();
        let unsaved =
            open.filter(|it| it.owner == Owner::Editor { dirty: true } && changed.contains(&it.path));
        let mut files: Vec<String> = unsaved.map(|it| self.workspace.relative(&it.path)).collect();
        files.sort();
        files
    }
}

/// Names them; `None` when there is none.
pub fn words(files: &[String]) -> Option<String> {
    (!files.is_empty()).then(|| format!("changed and not saved: {}", files.join(", ")))
}
