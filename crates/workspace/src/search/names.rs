//! Search in the names of files and directories.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use paths::AbsPath;

use super::ignored::Ignored;
use super::walk::WalkStep;
use super::{Bounds, Scope, SearchError, Stop};
use crate::documents::disk;
use crate::{EntryKind, ReadError, Workspace};

#[derive(Debug, Default)]
pub struct Names {
    /// The matching names, in order of path.
    pub names: Vec<Name>,
    /// Number of files and directories compared.
    pub looked: usize,
    /// Messages about unreadable directories, the first in order.
    pub failures: Vec<String>,
    /// Number of unreadable directories.
    pub failed: usize,
    /// Whether the search compared all names; if not, all numbers are minimums.
    pub complete: bool,
}

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub path: AbsPath,
    pub kind: EntryKind,
    /// Whether only an editor has it: it was never saved, or was deleted from the disk.
    pub unsaved: bool,
}

/// Maximum number of reported failures.
const MOST_FAILURES: usize = 20;

impl Workspace {
    /// Finds the files and directories below `scope.at` that `wants` accepts.
    ///
    /// Several threads call it with the relative path and whether it is a directory. Includes files that only
    /// an editor has. Cancel-safe: dropping it ends the search.
    ///
    /// # Errors
    /// [`SearchError`]; `scope.at` must exist.
    pub async fn names(
        &self,
        scope: Scope,
        wants: impl Fn(&Path, bool) -> bool + Send + Sync + 'static,
        bounds: &Bounds,
    ) -> Result<Names, SearchError> {
        let wants = Arc::new(wants);
        self.run_search(bounds, move |workspace, stop| workspace.names_now(&scope, &*wants, &stop)).await
    }

    fn names_now(
        &self,
        scope: &Scope,
        wants: &(impl Fn(&Path, bool) -> bool + Send + Sync),
        stop: &Stop,
    ) -> Result<Names, ReadError> {
        let io = |source| ReadError::Io { path: scope.at.clone(), source };
        let total = Mutex::new(Names::default());
        let is_wanted = |path: &AbsPath, is_directory: bool| {
            scope.globs.take(path.as_path(), is_directory)
                && path.strip_prefix(&scope.at).is_some_and(|relative| wants(relative, is_directory))
        };
        match disk::stat(&scope.at).map_err(io)? {
            None => return Err(ReadError::NotFound { path: scope.at.clone() }),
            Some(meta) if !meta.is_dir() => return Err(ReadError::NotAFile { path: scope.at.clone() }),
            Some(_) => {}
        }
        self.walk(scope, stop, || {
            let mut worker = Worker { found: Names::default(), total: &total };
            let is_wanted = &is_wanted;
            move |met| match met {
                WalkStep::Failed(reason) => worker.fail(reason),
                WalkStep::Entry(entry) => {
                    let (Some(path), Some(kind)) = (AbsPath::new(entry.path()), entry.file_type()) else {
                        return;
                    };
                    worker.found.looked += 1;
                    if is_wanted(&path, kind.is_dir()) {
                        worker.found.names.push(Name { path, kind: EntryKind::of(kind), unsaved: false });
                    }
                }
            }
        });
        let mut found = total.into_inner();
        let new = self.new_documents(scope);
        found.looked += new.len();
        let wanted = new.into_iter().filter(|path| is_wanted(path, false));
        found.names.extend(wanted.map(|path| Name { path, kind: EntryKind::File, unsaved: true }));
        found.names.sort();
        found.failures.sort();
        found.failures.truncate(MOST_FAILURES);
        found.complete = stop.never();
        Ok(found)
    }

    /// Lists unignored documents below the scope's directory that only an editor has.
    pub(super) fn new_documents(&self, scope: &Scope) -> BTreeSet<AbsPath> {
        let open = self.open_documents().into_iter().map(|document| document.path);
        let below = open.filter(|path| path.starts_with(&scope.at) && matches!(disk::stat(path), Ok(None)));
        let mut ignored = None;
        below
            .filter(|path| !ignored.get_or_insert_with(|| Ignored::new(self, scope)).leaves_out(path, false))
            .collect()
    }
}

/// Collects the entries of one thread.
struct Worker<'a> {
    found: Names,
    total: &'a Mutex<Names>,
}

impl Worker<'_> {
    fn fail(&mut self, reason: String) {
        self.found.failed += 1;
        if self.found.failures.len() < MOST_FAILURES {
            self.found.failures.push(reason);
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.found);
        let mut total = self.total.lock();
        total.names.extend(found.names);
        total.failures.extend(found.failures);
        total.looked += found.looked;
        total.failed += found.failed;
    }
}
