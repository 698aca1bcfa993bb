//! Walks over directories with ignore rules.

use ignore::{DirEntry, WalkBuilder};
use paths::AbsPath;

use super::{Scope, Stop};
use crate::{EntryKind, Workspace};

/// Directories of version control, which every walk omits.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];
/// Maximum number of threads; more would wait for each other.
const MOST_THREADS: usize = 8;

/// One step of a walk.
pub(super) enum WalkStep<'a> {
    /// An entry below the scope's directory, never the directory itself.
    Entry(&'a DirEntry),
    /// A message about an unreadable entry.
    Failed(String),
}

impl Workspace {
    /// Lists the regular files below `directory`, the editor's own documents first.
    ///
    /// The files on the disk follow in order of path, without hidden files, ignored files and targets of
    /// links. Walks lazily, and blocks.
    pub fn files(&self, directory: &AbsPath) -> impl Iterator<Item = AbsPath> + use<> {
        let scope = Scope::new(directory.clone());
        let walk = (scope.at != *self.root()).then(|| files_of(self.walker(&scope)));
        let listed = walk.is_none().then(|| self.listed(sorted(self.walker(&scope))));
        self.new_documents(&scope)
            .into_iter()
            .chain(listed.into_iter().flatten())
            .chain(walk.into_iter().flatten())
    }

    /// Lists entries on the disk below `directory`, in order of path.
    ///
    /// These are the regular files and directories that no ignore file names, hidden ones too. Hidden
    /// directories are not entered. Omits the directories `without` and those of version control. Walks
    /// lazily, and blocks.
    pub fn files_and_hidden(
        &self,
        directory: &AbsPath,
        without: &[AbsPath],
    ) -> impl Iterator<Item = (AbsPath, EntryKind)> + use<> {
        let scope = Scope { hidden: true, ..Scope::new(directory.clone()) };
        let without = without.to_vec();
        let is_included = move |entry: &DirEntry| {
            let inside = (entry.depth() > 1).then(|| entry.path().parent()?.file_name()).flatten();
            !inside.is_some_and(is_hidden)
                && !is_version_control(entry.file_name())
                && !without.iter().any(|excluded| excluded.as_path() == entry.path())
        };
        let mut walker = self.walker(&scope);
        walker.filter_entry(move |entry| entry.depth() == 0 || is_included(entry));
        walker.sort_by_file_path(|a, b| a.cmp(b)).build().filter_map(Result::ok).filter_map(|entry| {
            let kind = EntryKind::of(entry.file_type()?);
            let is_listed = matches!(kind, EntryKind::File | EntryKind::Directory);
            Some((AbsPath::new(entry.path()).filter(|_| is_listed)?, kind))
        })
    }

    /// A walk of the scope's directory, without its globs.
    pub(super) fn walker(&self, scope: &Scope) -> WalkBuilder {
        let mut walker = WalkBuilder::new(&scope.at);
        // Without a repository, `.gitignore` files still count; in one, they count up to its root.
        let in_repository = scope.at.as_path().ancestors().any(|directory| directory.join(".git").exists());
        // Outside a repository, ignore files above the workspace do not count.
        let has_parents = in_repository || scope.at != *self.root();
        walker
            .current_dir(self.root().as_path())
            .require_git(in_repository)
            .hidden(!scope.hidden)
            .parents(!scope.ignored && has_parents)
            .ignore(!scope.ignored)
            .git_ignore(!scope.ignored)
            .git_global(!scope.ignored)
            .git_exclude(!scope.ignored);
        walker
    }

    /// Walks the scope's directory on several threads, without excluded directories.
    ///
    /// `visitor` creates the callback of each thread.
    pub(super) fn walk<V: FnMut(WalkStep<'_>) + Send>(
        &self,
        scope: &Scope,
        stop: &Stop,
        visitor: impl Fn() -> V,
    ) {
        let globs = scope.globs.clone();
        let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS));
        let walk = self
            .walker(scope)
            .threads(threads)
            .filter_entry(move |entry| entry.depth() == 0 || is_entered(entry, &globs))
            .build_parallel();
        walk.run(|| {
            let mut visit = visitor();
            Box::new(move |entry| {
                if stop.now() {
                    return ignore::WalkState::Quit;
                }
                match entry {
                    Ok(entry) if entry.depth() > 0 => visit(WalkStep::Entry(&entry)),
                    Ok(_) => {}
                    Err(error) if is_gone(&error) => {}
                    Err(error) => visit(WalkStep::Failed(error.to_string())),
                }
                ignore::WalkState::Continue
            })
        });
    }
}

fn is_entered(entry: &DirEntry, globs: &super::Globs) -> bool {
    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
    let is_excluded = is_directory && globs.excludes(entry.path(), true);
    !is_excluded && !is_version_control(entry.file_name())
}

fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Whether a name is a directory of version control.
pub(crate) fn is_version_control(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| VERSION_CONTROL.contains(&name))
}

/// Whether an entry vanished during the walk, so that it does not exist.
fn is_gone(error: &ignore::Error) -> bool {
    error.io_error().is_some_and(|error| {
        matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
    })
}

/// Lists the regular files below `directory`, also outside a workspace.
///
/// Omits hidden files, ignored files and targets of links. Walks lazily, and blocks.
pub fn files_below(directory: &AbsPath) -> impl Iterator<Item = AbsPath> + use<> {
    let mut walker = WalkBuilder::new(directory);
    walker.require_git(false);
    files_of(walker)
}

/// The regular files that a walk meets, in order of path.
fn files_of(walker: WalkBuilder) -> impl Iterator<Item = AbsPath> + use<> {
    sorted(walker)
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| AbsPath::new(entry.path()))
}

/// A walk in order of path.
fn sorted(mut walker: WalkBuilder) -> ignore::Walk {
    walker.sort_by_file_path(|a, b| a.cmp(b)).build()
}
