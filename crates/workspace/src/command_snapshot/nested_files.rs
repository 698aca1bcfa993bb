//! The search for protected files in subdirectories of a project.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use paths::AbsPath;
use policy::{EXECUTED, ProjectRoots};

use super::scan::{file_clock, walk_builder};

/// Limits of the search.
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 5_000;

/// Files that programs run in subdirectories and other repositories.
///
/// Bounded: neither in ignored directories, nor deeper than [`MAX_DEPTH`], nor beyond [`MAX_ENTRIES`].
#[derive(Debug)]
pub(super) struct NestedFiles {
    /// The searched directories, with the times of their last changes.
    directories: Vec<(PathBuf, Time)>,
    paths: Vec<AbsPath>,
    is_complete: bool,
    /// Start of the search, by the clock that stamps files.
    began: Time,
}

/// Seconds and nanoseconds.
type Time = (i64, i64);

impl NestedFiles {
    /// Searches below the workspace, and in the rest of its repository. Blocks.
    pub(super) fn find(roots: &ProjectRoots) -> Self {
        let since = file_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()));
        let mut all = Self { directories: Vec::new(), paths: Vec::new(), is_complete: true, began };
        let ProjectRoots { workspace, top } = roots;
        all.add(workspace, None);
        if workspace != top {
            all.add(top, Some(workspace.clone()));
        }
        all
    }

    /// Searches below `root`, but not in `without`.
    fn add(&mut self, root: &AbsPath, without: Option<AbsPath>) {
        let mut left = MAX_ENTRIES;
        let is_included = move |entry: &ignore::DirEntry| {
            entry.path().parent().and_then(Path::file_name) != Some(".git".as_ref())
                && without.as_ref().is_none_or(|it| it.as_path() != entry.path())
        };
        let (mut walk, _) = walk_builder(root, is_included);
        let mut entries = walk.max_depth(Some(MAX_DEPTH)).build().flatten();
        for entry in entries.by_ref() {
            let is_directory = entry.file_type().is_some_and(|it| it.is_dir());
            if is_directory && entry.depth() < MAX_DEPTH && entry.file_name() != ".git" {
                self.directories.extend(changed(entry.path()).map(|time| (entry.path().to_owned(), time)));
            }
            let is_found = |path: &AbsPath| {
                path.file_name() == ".git" || EXECUTED.iter().any(|name| path.as_path().ends_with(name))
            };
            self.paths.extend(AbsPath::new(entry.path()).filter(|it| entry.depth() > 1 && is_found(it)));
            left -= 1;
            if left == 0 {
                break;
            }
        }
        self.is_complete &= entries.next().is_none();
    }

    /// Whether another search would find the same. Ignore files may have changed.
    pub(super) fn is_current(&self) -> bool {
        // A change at the time of the search may have been missed.
        self.directories.iter().all(|(path, time)| *time < self.began && changed(path) == Some(*time))
    }

    pub(super) fn paths(&self) -> &[AbsPath] {
        &self.paths
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }
}

/// The time of the last change, which no program can set.
fn changed(path: &Path) -> Option<Time> {
    path.symlink_metadata().ok().map(|meta| (meta.ctime(), meta.ctime_nsec()))
}
