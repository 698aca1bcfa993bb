//! Walks over directories with ignore rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::{DirEntry, WalkBuilder};
use parking_lot::Mutex;
use paths::{AbsPath, MAX_SETTINGS};

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
        let walk = (scope.at != *self.root()).then(|| files_of(self.walker(&scope, |_| true).0));
        let listed = walk.is_none().then(|| self.listed(sorted(self.walker(&scope, |_| true).0)));
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
        let (mut walker, _) = self.walker(&scope, is_included);
        walker.sort_by_file_path(|a, b| a.cmp(b)).build().filter_map(Result::ok).filter_map(|entry| {
            let kind = EntryKind::of(entry.file_type()?);
            let is_listed = matches!(kind, EntryKind::File | EntryKind::Directory);
            Some((AbsPath::new(entry.path()).filter(|_| is_listed)?, kind))
        })
    }

    /// A walk of the scope's directory, without its globs.
    ///
    /// Returns also the directories that it omits because of their ignore files.
    pub(super) fn walker(
        &self,
        scope: &Scope,
        is_included: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
    ) -> (WalkBuilder, Omitted) {
        let mut walker = WalkBuilder::new(&scope.at);
        // Without a repository, `.gitignore` files still count; in one, they count up to its root.
        let in_repository = scope.at.as_path().ancestors().any(|directory| directory.join(".git").exists());
        // Outside a repository, ignore files above the workspace do not count.
        let has_parents = in_repository || scope.at != *self.root();
        walker
            .current_dir(self.root().as_path())
            .require_git(in_repository)
            .hidden(!scope.hidden)
            .parents(has_parents);
        let omitted = limit(&mut walker, scope.at.as_path(), !scope.ignored, is_included);
        (walker, omitted)
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
        let (mut walk, omitted) = self.walker(scope, move |entry| is_entered(entry, &globs));
        walk.threads(threads).build_parallel().run(|| {
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
        let mut visit = visitor();
        for directory in omitted.lock().iter().filter(|_| !stop.now()) {
            let directory = directory.display();
            visit(WalkStep::Failed(format!("{directory}: its ignore file is no regular file, or too large")));
        }
    }
}

/// Directories that a walk omits because of their ignore files.
pub(crate) type Omitted = Arc<Mutex<Vec<PathBuf>>>;

/// Lets a walk below `top` wait for no pipe in the place of an ignore file.
///
/// The walk omits entries that are not included, and with `has_rules` directories with such a file. At `top` or
/// above, such a file disables all rules.
pub(crate) fn limit(
    walk: &mut WalkBuilder,
    top: &Path,
    has_rules: bool,
    is_included: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> Omitted {
    let real = top.canonicalize().unwrap_or_else(|_| top.to_owned());
    let has_rules = has_rules && real.ancestors().all(has_readable_rules);
    if !has_rules {
        walk.ignore(false).git_ignore(false).git_exclude(false).git_global(false).parents(false);
    }
    let omitted = Omitted::default();
    let found = Arc::clone(&omitted);
    walk.filter_entry(move |entry| {
        if entry.depth() == 0 || !is_included(entry) {
            return entry.depth() == 0;
        }
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_readable = !has_rules || !is_directory || has_readable_rules(entry.path());
        found.lock().extend((!is_readable).then(|| entry.path().to_owned()));
        is_readable
    });
    omitted
}

/// Whether the ignore files of a directory are small regular files, if they exist.
pub(super) fn has_readable_rules(directory: &Path) -> bool {
    let is_readable = |path: PathBuf| {
        // The error of a directory is harmless.
        std::fs::metadata(path).map_or(true, |it| it.is_dir() || it.is_file() && it.len() <= MAX_SETTINGS)
    };
    let git = directory.join(".git");
    let in_git = || match std::fs::metadata(&git) {
        Err(_) => true,
        Ok(meta) if meta.is_dir() => is_readable(git.join("info/exclude")),
        // The repository of a linked worktree has the file with rules.
        Ok(_) => paths::read_settings(&git).is_ok_and(|text| {
            let named = text.lines().next().and_then(|line| line.strip_prefix("gitdir: "));
            named.map(|named| Path::new(named).join("commondir")).is_none_or(|common| {
                let text = paths::read_settings(&common).unwrap_or_default();
                let shared = common.with_file_name(text.lines().next().unwrap_or_default());
                is_readable(common) && is_readable(shared.join("info/exclude"))
            })
        }),
    };
    [".gitignore", ".ignore"].iter().all(|name| is_readable(directory.join(name))) && in_git()
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
    limit(&mut walker, directory.as_path(), true, |_| true);
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
