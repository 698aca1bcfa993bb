//! Files that a command must leave as they are, for what the sandbox cannot deny.
//!
//! Other programs execute them later: git's hooks, an editor's tasks. A change is reverted after the command.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use paths::AbsPath;
use paths::canonical_existing as canonical;
use policy::{EXECUTED, SpawnGrant};
use process::{Processes, SandboxLevel};
use rustix::fs::{Mode, OFlags};

use super::scan::walk_builder;

/// Limits: number of files, bytes of one, and bytes of all.
///
/// Beyond them a change is reported and not reverted.
const MAX_FILES: usize = 1_000;
const MAX_FILE: u64 = 256 << 10;
const MAX_BYTES: u64 = 4 << 20;

/// Limits of the search for repositories in subdirectories.
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 5_000;

/// The protected files as they were before a command.
#[derive(Debug)]
pub struct ProtectedFiles {
    tops: Vec<AbsPath>,
    before: BTreeMap<PathBuf, State>,
    /// The directories around them, which a command may move away.
    directories: Vec<OpenDirectory>,
}

/// A directory that can be found after a move.
#[derive(Debug)]
struct OpenDirectory {
    path: AbsPath,
    handle: OwnedFd,
    inode: Inode,
    parent: Inode,
}

/// Device and number.
type Inode = (u64, u64);

/// A protected file that a program changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedChange {
    pub path: AbsPath,
    /// Why the change is still there; `None` if it was reverted.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    stamp: Stamp,
    content: Content,
}

/// Inode, size, mode, and times of content and status in nanoseconds.
///
/// No program can set the last one.
type Stamp = (u64, u64, u32, i128, i128);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Directory,
    Link(PathBuf),
    File(Vec<u8>),
    /// A large or special file, or one that cannot be read.
    Unknown,
}

impl ProtectedFiles {
    /// Reads what the sandbox of `grant` does not protect, before its program starts.
    pub async fn before(grant: &SpawnGrant, processes: &Processes) -> Option<Self> {
        let (paths, root) = (grant.sandbox()?.protected.clone(), grant.sandbox()?.nested.clone());
        let only_missing = match processes.sandbox().await.level {
            SandboxLevel::Bwrap => true,
            SandboxLevel::Landlock => false,
            SandboxLevel::None => return None,
        };
        let work = move || Self::read(&paths, only_missing, root.as_ref().map(nested).unwrap_or_default());
        tokio::task::spawn_blocking(work).await.ok()
    }

    /// Reverts all changes after the program's end, and returns them.
    pub async fn after(this: Option<Self>) -> Vec<ProtectedChange> {
        let Some(protected) = this else { return Vec::new() };
        tokio::task::spawn_blocking(move || protected.revert()).await.unwrap_or_default()
    }

    /// Reads the files at and below these resolved paths and `nested`. Blocks.
    ///
    /// With `only_missing`, those of the paths that are links or do not exist.
    fn read(paths: &[AbsPath], only_missing: bool, nested: Vec<AbsPath>) -> Self {
        let exists = |path: &AbsPath| path.as_path().symlink_metadata().is_ok();
        let is_link = |path: &AbsPath| path.as_path().is_symlink();
        let mut tops: Vec<AbsPath> =
            paths.iter().filter(|path| !only_missing || !exists(path) || is_link(path)).cloned().collect();
        let around = tops.iter().filter(|top| !only_missing && exists(top)).filter_map(AbsPath::parent);
        let around: BTreeSet<AbsPath> = around.collect();
        let directories = around.into_iter().filter_map(OpenDirectory::open).collect();
        tops.extend(nested);
        let mut left = MAX_BYTES;
        let mut before = BTreeMap::new();
        for (path, stamp) in scan(&tops) {
            let content = read(&path, stamp, &mut left);
            before.insert(path, State { stamp, content });
        }
        Self { tops, before, directories }
    }

    /// Reverts all changes since, and returns them. Blocks.
    fn revert(self) -> Vec<ProtectedChange> {
        let moved =
            self.directories.iter().filter(|directory| inode(&directory.path) != Some(directory.inode));
        let mut changes: Vec<_> =
            moved.filter_map(|it| Some(change(it.path.as_path(), it.restore().transpose()?))).collect();
        let after = scan(&self.tops);
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        // A removed directory takes its entries with it.
        let added = after.keys().filter(|path| !self.before.contains_key(*path));
        for path in added.filter(|path| !path.parent().is_some_and(|it| is_new(it, &after, &self.before))) {
            changes.push(change(path, revert(path, None)));
        }
        for (path, state) in &self.before {
            let is_same = match state.content {
                Content::Directory => is_directory(path),
                _ => after.get(path) == Some(&state.stamp),
            };
            // A removed directory is reported once.
            let is_reported = path.ancestors().skip(2).take(1).all(|around| !around.exists());
            if !is_same && !is_reported {
                changes.push(change(path, revert(path, Some(state))));
            }
        }
        changes.into_iter().flatten().collect()
    }
}

impl OpenDirectory {
    fn open(path: AbsPath) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path.as_path(), flags, Mode::empty()).ok()?;
        let (inode, parent) = (inode(&path)?, inode(&path.parent()?)?);
        Some(Self { path, handle, inode, parent })
    }

    /// Moves the directory back; `None` if it was removed.
    fn restore(&self) -> Result<Option<()>, String> {
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let now = std::fs::read_link(link).ok().and_then(AbsPath::new);
        let Some(now) = now.filter(|now| inode(now) == Some(self.inode)) else { return Ok(None) };
        if self.path.parent().and_then(|parent| inode(&parent)) != Some(self.parent) {
            return Err(format!("it was moved to {now}, and its parent directory was moved too"));
        }
        set_aside(self.path.as_path())?;
        std::fs::rename(now.as_path(), self.path.as_path()).map(Some).map_err(|error| error.to_string())
    }
}

fn inode(path: &AbsPath) -> Option<Inode> {
    path.as_path().symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

fn is_new(path: &Path, after: &BTreeMap<PathBuf, Stamp>, before: &BTreeMap<PathBuf, State>) -> bool {
    after.contains_key(path) && !before.contains_key(path)
}

fn change(path: &Path, reverted: Result<(), String>) -> Option<ProtectedChange> {
    Some(ProtectedChange { path: AbsPath::new(path)?, problem: reverted.err() })
}

/// Restores what was at `path`; `None` removes it.
fn revert(path: &Path, state: Option<&State>) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let parent = path.parent().and_then(AbsPath::new).ok_or("it has no directory")?;
    if canonical(&parent) != parent {
        return Err("its directory is a link now".to_owned());
    }
    if !parent.as_path().is_dir() {
        return Err("its directory was deleted".to_owned());
    }
    if let Some(State { content: Content::Unknown, .. }) = state {
        return Err("it is too large or cannot be read".to_owned());
    }
    // The writer below follows no link, since nothing is left at the path.
    set_aside(path)?;
    let Some(State { stamp: (_, _, mode, ..), content }) = state else { return Ok(()) };
    match content {
        Content::Directory => std::fs::create_dir(path).map_err(failed),
        Content::Link(target) => std::os::unix::fs::symlink(target, path).map_err(failed),
        Content::File(bytes) => {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
            file.write_all(bytes).map_err(failed)?;
            file.set_permissions(std::fs::Permissions::from_mode(mode & 0o7777)).map_err(failed)
        }
        Content::Unknown => Ok(()),
    }
}

/// Renames what is at `path`: it may be the user's own, so it stays beside it.
fn set_aside(path: &Path) -> Result<(), String> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let aside = (1..100).map(|number| path.with_added_extension(format!("reverted-{number}")));
    let mut free = aside.filter(|aside| aside.symlink_metadata().is_err());
    let aside = free.next().ok_or("too many reverted changes lie beside it")?;
    std::fs::rename(path, aside).map_err(|error| error.to_string())
}

/// Files that programs run in subdirectories and other repositories.
///
/// Bounded: neither in ignored directories, nor deeper than [`MAX_DEPTH`], nor beyond [`MAX_ENTRIES`].
fn nested(root: &AbsPath) -> Vec<AbsPath> {
    let mut found = Vec::new();
    let is_inside =
        |entry: &ignore::DirEntry| entry.path().parent().and_then(Path::file_name) == Some(".git".as_ref());
    let walk = walk_builder(root).max_depth(Some(MAX_DEPTH)).filter_entry(move |it| !is_inside(it)).build();
    for entry in walk.flatten().take(MAX_ENTRIES) {
        let (Some(path), true) = (AbsPath::new(entry.path()), entry.depth() > 1) else { continue };
        if path.file_name() == ".git" {
            found.extend(["hooks", "config", "commondir"].map(|name| path.join(name)));
            // A file names a directory elsewhere.
            found.extend(Some(path).filter(|path| path.as_path().is_file()));
        } else if EXECUTED.iter().any(|name| path.as_path().ends_with(name)) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path, (_, size, mode, ..): Stamp, left: &mut u64) -> Content {
    let kind = rustix::fs::FileType::from_raw_mode(mode);
    let found = match kind {
        rustix::fs::FileType::Directory => Some(Content::Directory),
        rustix::fs::FileType::Symlink => std::fs::read_link(path).ok().map(Content::Link),
        rustix::fs::FileType::RegularFile if size <= MAX_FILE.min(*left) => {
            *left -= size;
            std::fs::read(path).ok().map(Content::File)
        }
        _ => None,
    };
    found.unwrap_or(Content::Unknown)
}

/// The stamps of the files at and below `tops`.
fn scan(tops: &[AbsPath]) -> BTreeMap<PathBuf, Stamp> {
    let mut found = BTreeMap::new();
    let mut pending: Vec<PathBuf> = tops.iter().map(|top| top.as_path().to_owned()).collect();
    while let Some(path) = pending.pop() {
        let Ok(meta) = path.symlink_metadata() else { continue };
        if meta.is_dir() && found.len() < MAX_FILES {
            pending.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|it| it.path()));
        }
        let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let (modified, status) =
            (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
        found.insert(path, (meta.ino(), meta.size(), meta.mode(), modified, status));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(top: &AbsPath, names: &[&str]) -> Vec<AbsPath> {
        names.iter().map(|name| top.join(name)).collect()
    }

    #[test]
    fn changes_of_protected_files_are_reverted() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        for directory in [".git/hooks", ".vscode", "elsewhere"] {
            std::fs::create_dir_all(top.join(directory)).unwrap();
        }
        for (name, text) in [(".git/config", "a"), (".git/hooks/old", "a"), (".vscode/gone", "a")] {
            std::fs::write(top.join(name), text).unwrap();
        }
        let names = [".git/hooks", ".git/config", ".vscode/gone", ".vscode/tasks.json", ".husky"];
        let protected = ProtectedFiles::read(&at(&top, &names), false, Vec::new());
        assert_eq!(ProtectedFiles::read(&at(&top, &names), false, Vec::new()).revert(), []);

        std::fs::write(top.join(".git/config"), "changed").unwrap();
        std::fs::write(top.join(".git/hooks/new"), "").unwrap();
        std::fs::remove_file(top.join(".git/hooks/old")).unwrap();
        std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".husky")).unwrap();
        std::fs::create_dir(top.join(".vscode/tasks.json")).unwrap();
        std::fs::write(top.join(".vscode/tasks.json/x"), "").unwrap();
        std::fs::remove_file(top.join(".vscode/gone")).unwrap();
        std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".vscode/gone")).unwrap();
        let reverted = protected.revert();
        let names: Vec<String> = reverted
            .iter()
            .map(|it| format!("{} {:?}", it.path.strip_prefix(&top).unwrap().display(), it.problem))
            .collect();
        let expected = [
            ".git/hooks/new None",
            ".husky None",
            ".vscode/tasks.json None",
            ".git/config None",
            ".git/hooks/old None",
            ".vscode/gone None",
        ];
        assert_eq!(names, expected);
        assert_eq!(std::fs::read(top.join(".git/config")).unwrap(), b"a");
        // The change may be the user's own.
        assert_eq!(std::fs::read(top.join(".git/config.reverted-1")).unwrap(), b"changed");
        assert!(top.join(".vscode/tasks.json.reverted-1/x").as_path().exists());
        assert!(top.join(".git/hooks/old").as_path().exists() && !top.join(".husky").as_path().exists());
        assert_eq!(std::fs::read_dir(top.join("elsewhere")).unwrap().count(), 0);
    }

    #[test]
    fn nested_repositories_and_settings_are_found_within_limits() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        for name in [
            "ignored/r/.git/config",
            "r/.git/config",
            "a/b/.vscode/tasks.json",
            "a/.envrc",
            "s/.git",
            ".envrc",
            "a/b/c/d/.envrc",
        ] {
            let path = top.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::create_dir(top.join(".git")).unwrap();
        std::fs::write(top.join(".gitignore"), "ignored").unwrap();
        let relative = |path: &AbsPath| path.strip_prefix(&top).unwrap().display().to_string();
        let found: BTreeSet<String> = nested(&top).iter().map(relative).collect();
        let of =
            |directory: &str| ["commondir", "config", "hooks"].map(|name| format!("{directory}/.git/{name}"));
        let others = ["a/.envrc", "a/b/.vscode/tasks.json", "s/.git"].map(str::to_owned);
        assert_eq!(found, [of("r"), of("s"), others].into_iter().flatten().collect());

        // A removed repository is not reported.
        let protected = ProtectedFiles::read(&[], true, nested(&top));
        std::fs::remove_dir_all(top.join("r")).unwrap();
        std::fs::write(top.join("a/.envrc"), "changed").unwrap();
        assert_eq!(protected.revert(), [ProtectedChange { path: top.join("a/.envrc"), problem: None }]);
    }

    #[test]
    fn a_moved_directory_is_moved_back() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        std::fs::create_dir_all(top.join(".git/hooks")).unwrap();
        std::fs::write(top.join(".git/config"), "a").unwrap();
        std::fs::write(top.join(".git/HEAD"), "main").unwrap();
        let tops = at(&top, &[".git/hooks", ".git/config"]);
        let text = |name: &str| std::fs::read_to_string(top.join(name)).unwrap();
        let named = |change: &ProtectedChange| {
            (change.path.strip_prefix(&top).unwrap().display().to_string(), change.problem.clone())
        };
        let reverted =
            |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), None)).collect::<Vec<_>>();

        let protected = ProtectedFiles::read(&tops, false, Vec::new());
        std::fs::rename(top.join(".git"), top.join("x")).unwrap();
        std::fs::write(top.join("x/config"), "changed").unwrap();
        let changes: Vec<_> = protected.revert().iter().map(named).collect();
        assert_eq!(changes, reverted(&[".git", ".git/config"]));
        assert_eq!([text(".git/config"), text(".git/HEAD")], ["a", "main"]);

        let protected = ProtectedFiles::read(&tops, false, Vec::new());
        std::fs::rename(top.join(".git"), top.join("x")).unwrap();
        std::fs::create_dir_all(top.join(".git/hooks")).unwrap();
        let changes: Vec<_> = protected.revert().iter().map(named).collect();
        assert_eq!((changes, text(".git/HEAD")), (reverted(&[".git"]), "main".to_owned()));
        assert!(top.join(".git.reverted-1/hooks").as_path().is_dir());

        let protected = ProtectedFiles::read(&tops, false, Vec::new());
        std::fs::remove_dir_all(top.join(".git")).unwrap();
        let changes: Vec<_> = protected.revert().iter().map(named).collect();
        let gone = Some("its directory was deleted".to_owned());
        assert_eq!(changes, [(".git/config".to_owned(), gone.clone()), (".git/hooks".to_owned(), gone)]);
        assert!(!top.join(".git").as_path().exists());
    }

    #[test]
    fn a_protected_file_behind_a_new_link_is_only_reported() {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        std::fs::create_dir_all(top.join("elsewhere")).unwrap();
        let protected = ProtectedFiles::read(&at(&top, &[".vscode/tasks.json"]), true, Vec::new());
        std::fs::write(top.join("elsewhere/tasks.json"), "").unwrap();
        std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".vscode")).unwrap();
        let problem = Some("its directory is a link now".to_owned());
        let path = top.join(".vscode/tasks.json");
        assert_eq!(protected.revert(), [ProtectedChange { path, problem }]);
        assert!(top.join("elsewhere/tasks.json").as_path().exists());
    }
}
