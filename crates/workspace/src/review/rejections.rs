//! The files before each rejection, for its undo.

use std::collections::BTreeMap;

use paths::AbsPath;

use super::REJECTION;
use super::replay::TrackedFile;
use super::tracked::Author;
use crate::journal::{Contents, Entry, StoredStep};
use crate::{CommitId, RunId};

/// The files of a replay before rejections.
#[derive(Default)]
pub(super) struct Rejections {
    saved: BTreeMap<CommitId, Saved>,
    /// Undos of rejections, with these.
    undos: BTreeMap<CommitId, CommitId>,
}

/// The files before a rejection, by path; `None` for a path without a tracked file.
#[derive(Default)]
pub(super) struct Saved {
    pub files: BTreeMap<AbsPath, Option<TrackedFile>>,
    /// The run of a file that the agent changed since.
    outdated: Option<RunId>,
}

impl Saved {
    pub(super) fn new(entry: &Entry, contents: &Contents, files: &BTreeMap<AbsPath, TrackedFile>) -> Self {
        let file = |step: &StoredStep| {
            let mut file = files.get(&step.path).cloned();
            if let Some(file) = &mut file {
                // The user may have changed it since the last entry.
                file.change(step.before.as_ref().and_then(|before| contents.get(before)), &Author::User);
            }
            (step.path.clone(), file)
        };
        Self { files: entry.steps.iter().map(file).collect(), outdated: None }
    }

    /// The author of the undo in other files than those saved.
    pub(super) fn author(&self) -> Author {
        self.outdated.clone().map_or(Author::User, Author::Agent)
    }

    fn remove(&mut self, path: &AbsPath) {
        if let Some(run) = self.files.remove(path).flatten().and_then(|file| file.runs.last().cloned()) {
            self.outdated = Some(run);
        }
    }
}

impl Rejections {
    /// Returns the rejection that `entry` is or redoes.
    pub(super) fn find(&self, entry: &Entry) -> Option<CommitId> {
        if entry.redo {
            return entry.undoes.iter().find_map(|id| self.undos.get(id).cloned());
        }
        entry.run.0.starts_with(REJECTION).then(|| entry.id.clone())
    }

    /// Stores the files before a rejection, given those after it.
    pub(super) fn save(&mut self, id: CommitId, mut saved: Saved, after: &BTreeMap<AbsPath, TrackedFile>) {
        // A rejection of another session's changes is in both sides.
        saved.files.retain(|path, file| match (file, after.get(path)) {
            (Some(file), Some(after)) => file.before_text() == after.before_text(),
            _ => true,
        });
        self.saved.insert(id, saved);
    }

    /// Returns the files before the rejection that `entry` undoes.
    pub(super) fn take_undone(&mut self, entry: &Entry) -> Option<Saved> {
        let id = entry.undoes.iter().find(|id| !entry.redo && self.saved.contains_key(*id))?.clone();
        self.undos.insert(entry.id.clone(), id.clone());
        let saved = self.saved.remove(&id);
        // The files before later rejections lack the changes that come back.
        for (_, later) in self.saved.range_mut(id..) {
            entry.steps.iter().for_each(|step| later.remove(&step.path));
        }
        saved
    }

    /// Removes the file at `path`, which has other changes to review since.
    pub(super) fn remove(&mut self, path: &AbsPath) {
        self.saved.values_mut().for_each(|saved| saved.remove(path));
    }
}
