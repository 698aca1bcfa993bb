//! State shared by all parts of one workspace.

use std::sync::{Arc, OnceLock};

use paths::{AbsPath, StateDir, StateError, path_to_uri};
use tokio::sync::broadcast;
use tokio_util::task::TaskTracker;

use crate::ReadError;
use crate::documents::content::{Content, Image};
use crate::documents::disk::{self, Found, Tree};
use crate::documents::{Document, foreign_locks};
use crate::journal::Commit;
use crate::plan::simulate::{Lookup, Source};
use crate::plan::{Plan, PlanError};
use crate::ports::{Editor, Peers};
use crate::proposals::Proposals;
use crate::search::file_index::FileIndex;

/// A workspace's root, the holders of its documents, and its tasks.
pub(crate) struct WorkspaceState {
    pub root: AbsPath,
    pub id: String,
    pub state: StateDir,
    pub editor: Option<Arc<dyn Editor>>,
    pub peers: OnceLock<Arc<dyn Peers>>,
    pub commits: broadcast::Sender<Arc<Commit>>,
    /// Running commits, which finish even if no caller waits.
    pub tasks: TaskTracker,
    pub index: FileIndex,
    pub proposals: Proposals,
}

impl WorkspaceState {
    pub(crate) fn open_document(&self, path: &AbsPath) -> Option<Document> {
        self.editor.as_ref().and_then(|editor| editor.document(path))
    }

    /// The editor's document at a path, else the disk's. Blocks.
    pub(crate) fn applied_document(&self, path: &AbsPath) -> Result<Document, ReadError> {
        self.open_document(path).map_or_else(|| disk::document(path), Ok)
    }

    /// Records in our own directory which workspace it belongs to.
    pub(crate) fn describe(&self) -> Result<(), StateError> {
        const NAME: &str = "workspace.json";
        if self.state.read(NAME)?.is_some() {
            return Ok(());
        }
        let description = serde_json::json!({ "format": 1, "root": path_to_uri(self.root.as_path()) });
        self.state.write_atomic(NAME, description.to_string().as_bytes())
    }

    /// Returns the canonical path of `path`, which must be inside.
    pub(crate) fn canonical(&self, path: &AbsPath) -> Result<AbsPath, PlanError> {
        let impossible = |reason| PlanError::Impossible { path: path.clone(), reason };
        let target = ::paths::resolve(&self.root, path.as_path()).map_err(impossible)?;
        if target.starts_with(&self.root) && target != self.root {
            Ok(target)
        } else {
            Err(PlanError::Outside { path: path.clone() })
        }
    }

    /// Refuses files that an unconnected editor seems to have open.
    ///
    /// Also refuses open files whose text on the disk differs from what the editor knows.
    pub(crate) fn check_holders(&self, plan: &Plan) -> Result<(), PlanError> {
        // A proposal writes no file.
        let steps = plan.steps.iter().filter(|step| !self.is_proposed(&step.path));
        let blocked = steps.into_iter().find_map(|step| {
            let reason = if step.open {
                self.open_document(&step.path)?.blocked?
            } else {
                foreign_locks::holder(&step.path)?
            };
            Some(PlanError::Held { path: step.path.clone(), reason })
        });
        blocked.map_or(Ok(()), Err)
    }
}

impl Source for WorkspaceState {
    fn lookup(&self, path: &AbsPath) -> Result<Lookup, PlanError> {
        if let Some(document) = self.open_document(path) {
            let content = Content::Text { text: document.text, bom: document.bom };
            let mode = disk::stat(path).ok().flatten().map(|meta| disk::mode(&meta));
            return Ok(Lookup::File { image: Image::new(content, mode), open: true });
        }
        Ok(match disk::inspect(path)? {
            Found::Nothing => Lookup::Nothing,
            Found::Directory => Lookup::Directory,
            Found::File(image) => Lookup::File { image, open: false },
        })
    }

    fn tree(&self, directory: &AbsPath) -> Result<Tree, PlanError> {
        Ok(disk::tree(directory)?)
    }

    fn same_file(&self, a: &AbsPath, b: &AbsPath) -> bool {
        disk::same_file(a, b)
    }
}
