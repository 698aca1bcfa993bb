//! Files that a command must leave as they are, for what the sandbox cannot deny.
//!
//! Other programs execute them later: git's hooks, an editor's tasks. A change is reverted after the command.
//!
//! Commands overlap: while one runs, later ones share the state from before it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use paths::AbsPath;
use paths::canonical_existing as canonical;
use policy::{Checkout, GitChanges, SpawnGrant};
use process::{Processes, SandboxLevel};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, ResolveFlags};
use shell::{harmless_part, is_harmless_change, unsafe_settings};

use super::git_objects::read_objects;
use super::nested_files::NestedFiles;

/// Limits: number of files, bytes of one, and bytes of all.
///
/// They hold for the project itself, and again for its subdirectories.
/// Beyond them a change is reported and not reverted.
const MAX_FILES: usize = 2_000;
const MAX_FILE: u64 = 256 << 10;
const MAX_BYTES: u64 = 4 << 20;

/// Maximum number of files in the scan after a program, which may create many.
const MAX_SCANNED: usize = 100_000;

/// Programs that run now in this process.
static RUNNING: Mutex<Running> = Mutex::new(Running::new());

/// The protected files of a running program.
#[derive(Debug)]
pub struct ProtectedFiles {
    tops: Vec<AbsPath>,
    root: Option<AbsPath>,
    unprotected: Vec<String>,
    /// Changes that git may make.
    git: GitChanges,
    /// Those of `tops` that it may change.
    changing: BTreeSet<AbsPath>,
    /// The commit of the newest stash.
    stash: Option<String>,
    processes: Option<Arc<Processes>>,
}

impl Drop for ProtectedFiles {
    fn drop(&mut self) {
        RUNNING.lock().release(self);
    }
}

/// Contents of changed files in git, that of the commit first.
type Versions = BTreeMap<PathBuf, Vec<Option<Vec<u8>>>>;

/// Reason why a change stays.
const CHECKED_OUT: &str = "git checked it out";

/// Names of protected files that git reads itself.
const SETTINGS: [&str; 2] = ["config", "config.worktree"];
const WORKTREE: [&str; 4] = [".git", "commondir", "config.worktree", "gitdir"];

/// The state from before the first of the running programs.
#[derive(Debug)]
struct Running {
    tops: BTreeMap<AbsPath, Top>,
    roots: BTreeMap<AbsPath, Root>,
    /// The last search in each root.
    searches: BTreeMap<AbsPath, NestedFiles>,
}

/// A protected path with the files at and below it.
#[derive(Debug)]
struct Top {
    users: usize,
    /// Those among them that run git, which may change it.
    git_users: usize,
    before: BTreeMap<PathBuf, State>,
    /// Whether `before` has all files.
    is_whole: bool,
    /// The file itself, if it is a mount that the program cannot change.
    mount: Option<OpenFile>,
    /// The directory around it, which a program may move away.
    around: Option<OpenFile>,
    /// The git directory in a subdirectory to which it belongs.
    repository: Option<OpenFile>,
}

/// The protected paths of the programs that run in one project.
#[derive(Debug)]
struct Root {
    users: usize,
    tops: Vec<AbsPath>,
    nested: Vec<AbsPath>,
    unprotected: Vec<String>,
}

/// A file that can be found after a move, and whose number is not used again.
#[derive(Debug)]
struct OpenFile {
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
    /// How it was reverted, or why the change is still there.
    pub outcome: Result<String, String>,
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
    /// Reads the protected files of `grant`, before its program starts.
    pub async fn before(grant: &SpawnGrant, processes: &Arc<Processes>) -> Option<Self> {
        let (paths, root) = (grant.sandbox()?.protected.clone(), grant.sandbox()?.nested.clone());
        let git = grant.sandbox()?.git.clone();
        let has_mounts = match processes.sandbox().await.level {
            SandboxLevel::Bwrap => true,
            SandboxLevel::Landlock => false,
            SandboxLevel::None => return None,
        };
        let processes = Arc::clone(processes);
        let work = move || {
            let stash = git.checkout.as_ref().map(|it| it.shared.join("refs/stash"));
            let stash = stash.and_then(|path| std::fs::read_to_string(path.as_path()).ok());
            let mut running = RUNNING.lock();
            let mut protected = running.start(paths, git, has_mounts, root);
            protected.stash = stash.map(|text| text.trim().to_owned());
            protected.processes = Some(processes);
            protected
        };
        tokio::task::spawn_blocking(work).await.ok()
    }

    /// Reverts all changes after the program's end, and returns them.
    pub async fn after(this: Option<Self>) -> Vec<ProtectedChange> {
        let Some(protected) = this else { return Vec::new() };
        let work = move || {
            let changed = RUNNING.lock().changed_by_checkout(&protected);
            (changed, protected)
        };
        let Ok((changed, protected)) = tokio::task::spawn_blocking(work).await else { return Vec::new() };
        let versions = protected.read_versions(changed).await;
        let work = move || {
            let changes = RUNNING.lock().revert(&protected, &versions);
            // Takes the lock again.
            drop(protected);
            changes
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_default()
    }

    /// The contents of files in the present commit and the stash from before.
    async fn read_versions(&self, paths: Vec<PathBuf>) -> Versions {
        let (Some(Checkout { top, own, .. }), Some(processes)) = (&self.git.checkout, &self.processes) else {
            return Versions::new();
        };
        let stash = self.stash.iter().flat_map(|stash| [stash.clone(), format!("{stash}^3")]);
        let sources: Vec<String> = std::iter::once("HEAD".to_owned()).chain(stash).collect();
        let tracked = paths.into_iter().filter_map(|path| {
            let relative = path.strip_prefix(top.as_path()).ok()?.to_str()?.to_owned();
            (!relative.contains('\n')).then_some((path, relative))
        });
        let (tracked, names): (Vec<PathBuf>, Vec<String>) = tracked.unzip();
        if tracked.is_empty() {
            return Versions::new();
        }
        let names = names.iter().flat_map(|name| sources.iter().map(move |it| format!("{it}:{name}")));
        let contents = read_objects(top, own.as_path(), &names.collect::<Vec<_>>(), processes).await;
        tracked.into_iter().zip(contents.chunks_exact(sources.len()).map(<[_]>::to_vec)).collect()
    }

    /// Whether git may have made this change of its own files.
    fn may_configure(&self, top: &AbsPath, before: Option<&State>, now: Option<&Stamp>) -> bool {
        let name = top.file_name();
        let is_of_worktree = self.git.worktrees && WORKTREE.contains(&name.as_str());
        self.changing.contains(top)
            && (is_of_worktree && (now.is_none() || name == "gitdir")
                || is_harmless(top.as_path(), before, now, true))
    }

    /// Files that the limits left out, as noun phrases.
    pub fn unprotected(this: Option<&Self>) -> Vec<String> {
        this.map(|it| it.unprotected.clone()).unwrap_or_default()
    }

    /// Makes `content` the state to restore. Blocks.
    ///
    /// The user or a permitted edit wrote it.
    /// `None` if the file was removed. Has no effect unless the file has this content.
    pub fn accept(path: &AbsPath, content: Option<&[u8]>) {
        RUNNING.lock().accept(path, content);
    }
}

impl Running {
    const fn new() -> Self {
        Self { tops: BTreeMap::new(), roots: BTreeMap::new(), searches: BTreeMap::new() }
    }

    /// Adds a program with these resolved protected paths. Blocks.
    ///
    /// With `has_mounts`, the program cannot change those that exist and are no links.
    fn start(
        &mut self,
        paths: Vec<AbsPath>,
        git: GitChanges,
        has_mounts: bool,
        root: Option<AbsPath>,
    ) -> ProtectedFiles {
        // An earlier program may have changed what paths and searches lead to.
        if let Some(known) = root.as_ref().and_then(|root| self.roots.get_mut(root)) {
            known.users += 1;
            let (tops, unprotected) = (known.tops.clone(), known.unprotected.clone());
            return self.add_user(tops, git, root, unprotected);
        }
        let (mut tops, mut unprotected) = (BTreeSet::new(), Vec::new());
        let (mut files, mut bytes) = (MAX_FILES, MAX_BYTES);
        for path in paths.iter().chain(&git.paths) {
            tops.insert(self.add(path, &mut files, &mut bytes, |top| {
                let is_mount = has_mounts && !path.as_path().is_symlink();
                top.mount = Some(path).filter(|_| is_mount).and_then(OpenFile::open);
                let parent = path.parent().filter(|_| !has_mounts && exists(path));
                top.around = parent.as_ref().and_then(OpenFile::open);
            }));
        }
        let found = root.as_ref().map(|root| self.search(root)).unwrap_or_default();
        (files, bytes) = (MAX_FILES, MAX_BYTES);
        for path in &found {
            let is_git = path.file_name() == ".git";
            let (paths, owner) = match is_git && is_directory(path.as_path()) {
                true => (
                    ["hooks", "config", "commondir"].map(|name| path.join(name)).to_vec(),
                    Some(path.clone()),
                ),
                // Such a file names a directory elsewhere.
                false => (vec![path.clone()], path.parent().filter(|_| is_git)),
            };
            for path in paths {
                tops.insert(self.add(&path, &mut files, &mut bytes, |top| {
                    top.repository = owner.as_ref().and_then(OpenFile::open);
                }));
            }
        }
        let tops: Vec<AbsPath> = tops.into_iter().collect();
        let partly = tops.iter().filter(|path| self.tops.get(*path).is_some_and(|top| !top.is_protected()));
        unprotected.extend(partly.map(|path| format!("all of {path}")));
        if let Some(root) = &root {
            if self.searches.get(root).is_some_and(|it| !it.is_complete()) {
                unprotected.push("all subdirectories".to_owned());
            }
            let (tops, unprotected) = (tops.clone(), unprotected.clone());
            self.roots.insert(root.clone(), Root { users: 1, tops, nested: found, unprotected });
        }
        self.add_user(tops, git, root, unprotected)
    }

    fn add_user(
        &mut self,
        tops: Vec<AbsPath>,
        git: GitChanges,
        root: Option<AbsPath>,
        unprotected: Vec<String>,
    ) -> ProtectedFiles {
        let nested = root.as_ref().and_then(|root| self.roots.get(root)).map(|it| it.nested.as_slice());
        let nested = nested.filter(|_| git.checkout.is_some()).unwrap_or_default();
        let is_changing =
            |top: &&AbsPath| git.paths.contains(top) || nested.contains(top) && top.file_name() != ".git";
        let changing: BTreeSet<AbsPath> = tops.iter().filter(is_changing).cloned().collect();
        for path in &tops {
            if let Some(top) = self.tops.get_mut(path) {
                top.users += 1;
                if changing.contains(path) {
                    top.git_users += 1;
                    // For this program, it is no mount.
                    top.mount = None;
                }
            }
        }
        ProtectedFiles { tops, root, unprotected, git, changing, stash: None, processes: None }
    }

    /// Reads `path` unless it is known; returns the known path around it.
    fn add(
        &mut self,
        path: &AbsPath,
        files: &mut usize,
        bytes: &mut u64,
        complete: impl FnOnce(&mut Top),
    ) -> AbsPath {
        let mut around = std::iter::successors(Some(path.clone()), AbsPath::parent);
        if let Some(known) = around.find(|it| self.tops.contains_key(it)) {
            return known;
        }
        let (found, is_whole) = scan([path], files);
        let states = found.into_iter().map(|(path, stamp)| {
            let content = read(&path, stamp, bytes);
            (path, State { stamp, content })
        });
        let mut top = Top {
            users: 0,
            git_users: 0,
            before: states.collect(),
            is_whole,
            mount: None,
            around: None,
            repository: None,
        };
        complete(&mut top);
        self.tops.insert(path.clone(), top);
        path.clone()
    }

    fn release(&mut self, program: &ProtectedFiles) {
        for path in &program.tops {
            if let Some(top) = self.tops.get_mut(path) {
                top.users -= 1;
                top.git_users -= usize::from(program.changing.contains(path));
            }
        }
        self.tops.retain(|_, top| top.users > 0);
        if let Some(known) = program.root.as_ref().and_then(|root| self.roots.get_mut(root)) {
            known.users -= 1;
        }
        self.roots.retain(|_, root| root.users > 0);
    }

    /// The protected files in subdirectories of `root`.
    fn search(&mut self, root: &AbsPath) -> Vec<AbsPath> {
        let last = self.searches.remove(root).filter(NestedFiles::is_current);
        let found = last.unwrap_or_else(|| NestedFiles::find(root));
        let paths = found.paths().to_vec();
        self.searches.insert(root.clone(), found);
        paths
    }

    /// The protected files of a program that no other program of git changes.
    ///
    /// The others are judged when that one ends.
    fn tops_of<'a>(&'a self, program: &'a ProtectedFiles) -> impl Iterator<Item = (&'a AbsPath, &'a Top)> {
        let known = program.tops.iter().filter_map(|path| Some((path, self.tops.get(path)?)));
        known.filter(|(path, top)| top.git_users == usize::from(program.changing.contains(*path)))
    }

    /// The changed files that git may have checked out. Blocks.
    fn changed_by_checkout(&self, program: &ProtectedFiles) -> Vec<PathBuf> {
        let is_checked_out = |path: &AbsPath| {
            let name = path.file_name();
            program.changing.contains(path)
                && !SETTINGS.contains(&name.as_str())
                && !WORKTREE.contains(&name.as_str())
        };
        let tops = || {
            let all = self.tops_of(program).filter(|(path, _)| is_checked_out(path));
            all.filter(|_| program.git.checkout.is_some())
        };
        let (after, _) = scan(tops().map(|(path, _)| path), &mut MAX_SCANNED.clone());
        let before: BTreeMap<&PathBuf, &State> = tops().flat_map(|(_, top)| &top.before).collect();
        let removed = before
            .iter()
            .filter(|(path, state)| !after.contains_key(**path) && state.content != Content::Directory);
        let changed = after.iter().filter(|(path, stamp)| {
            !is_directory_mode(stamp.2) && before.get(path).is_none_or(|state| state.stamp != **stamp)
        });
        let all = removed.map(|(path, _)| *path).chain(changed.map(|(path, _)| path));
        all.take(MAX_FILES).cloned().collect()
    }

    /// Reverts all changes after the end of `program`, and returns them. Blocks.
    fn revert(&mut self, program: &ProtectedFiles, versions: &Versions) -> Vec<ProtectedChange> {
        let (mut changes, root) = (Changes::default(), program.root.as_ref());
        let known = || self.tops_of(program);
        for (_, top) in known().filter(|(path, _)| !program.changing.contains(*path)) {
            if let Some(around) = &top.around
                && inode(&around.path) != Some(around.inode)
                && let Some(outcome) = around.restore(&mut changes.kept).transpose()
            {
                changes.push(around.path.as_path(), outcome.map(|()| "moved back".to_owned()));
            }
        }
        // Without its rights, a directory cannot be read.
        for (top, (path, state)) in known().flat_map(|(_, top)| top.before.iter().map(move |it| (top, it))) {
            if state.content == Content::Directory
                && !top.is_intact(path)
                && restore_mode(path, state.stamp.2)
            {
                changes.push(path, Ok("protected; its mode is restored".to_owned()));
            }
        }
        // Not the repository that was there before: nothing of the old one belongs in it.
        let mut repositories = BTreeSet::new();
        let mut is_other = |path: &AbsPath, top: &Top| {
            let of = match &top.repository {
                Some(owner) => {
                    (inode(&owner.path) != Some(owner.inode)).then(|| match path.file_name() == ".git" {
                        true => path.clone(),
                        false => owner.path.clone(),
                    })
                }
                None => Some(path.clone()).filter(|_| path.file_name() == ".git" && top.before.is_empty()),
            };
            of.map(|of| repositories.insert(of)).is_some()
        };
        let tops: Vec<&AbsPath> =
            known().filter(|(path, top)| !is_other(path, top)).map(|(path, _)| path).collect();

        let (after, _) = scan(tops.iter().copied(), &mut MAX_SCANNED.clone());
        let tops = || tops.iter().filter_map(|path| Some((*path, self.tops.get(*path)?)));
        let before: BTreeMap<&PathBuf, (&State, &AbsPath, &Top)> = tops()
            .flat_map(|(name, top)| top.before.iter().map(move |(path, state)| (path, (state, name, top))))
            .collect();
        let is_checked_out = |path: &Path| {
            let path = path.to_owned();
            let was = before.range::<PathBuf, _>(&path..).take_while(|(it, _)| it.starts_with(&path));
            let was = was.filter(|(_, (state, ..))| state.content != Content::Directory);
            let is = after.range(path.clone()..).take_while(|(it, _)| it.starts_with(&path));
            let is = is.filter(|(_, stamp)| !is_directory_mode(stamp.2));
            let mut files = was.map(|(path, _)| *path).chain(is.map(|(path, _)| path)).peekable();
            files.peek().is_some() && files.all(|file| is_version(file, versions.get(file)))
        };
        let mut accepted = Vec::new();
        let is_new = |path: &Path| after.contains_key(path) && !before.contains_key(&path.to_owned());
        for (path, now) in after.iter().filter(|(path, _)| is_new(path)) {
            let Some((name, top)) = tops().find(|(name, _)| path.starts_with(name.as_path())) else {
                continue;
            };
            // A removed directory takes its entries with it.
            if path.parent().is_some_and(is_new) || !top.is_whole {
                continue;
            }
            let is_setting = path == name.as_path() && program.may_configure(name, None, Some(now));
            if is_setting || top.is_intact(path) {
                accepted.push(path.clone());
            } else if is_checked_out(path) {
                changes.push(path, Err(CHECKED_OUT.to_owned()));
                accepted.push(path.clone());
            } else {
                changes.revert(path, None, Some(now));
            }
        }
        for (path, (state, name, top)) in &before {
            let now = after.get(*path);
            let is_same = match state.content {
                Content::Directory => is_directory(path),
                _ if now == Some(&state.stamp) => true,
                Content::Unknown => false,
                _ => now.is_some_and(|now| {
                    now.2 == state.stamp.2 && read(path, *now, &mut MAX_FILE.clone()) == state.content
                }),
            };
            if is_same {
                continue;
            }
            let has_harmless_settings = || {
                let is_known = top.mount.is_some() || top.repository.is_some();
                is_known && is_harmless(path, Some(state), now, false)
            };
            let is_setting = path.as_path() == name.as_path()
                && (program.may_configure(name, Some(state), now) || has_harmless_settings());
            if is_setting || top.is_intact(path) {
                accepted.push((*path).clone());
            } else if is_checked_out(path) {
                if now.is_some() {
                    changes.push(path, Err(CHECKED_OUT.to_owned()));
                }
                accepted.push((*path).clone());
            } else if path.ancestors().skip(2).take(1).all(Path::exists) {
                // A removed directory is reported once.
                changes.revert(path, Some(state), now);
            }
        }
        if let Some(root) = root {
            let known: BTreeSet<AbsPath> =
                self.roots.get(root).into_iter().flat_map(|root| root.nested.iter().cloned()).collect();
            let found = self.search(root).into_iter();
            repositories.extend(found.filter(|path| path.file_name() == ".git" && !known.contains(path)));
        }
        repositories.iter().for_each(|path| self.inspect(path, root, &mut changes));
        for path in accepted.iter().chain(&changes.kept) {
            self.update(path);
        }
        changes.all
    }

    /// Sets aside what runs programs in a repository that a program created.
    fn inspect(&self, path: &AbsPath, root: Option<&AbsPath>, changes: &mut Changes) {
        let mut git = path.clone();
        if !is_directory(path.as_path()) {
            let Some(named) = git_directory(path) else { return };
            let own = root.map(|root| root.join(".git"));
            if !own.is_some_and(|own| named.starts_with(&own) && named != own) {
                changes.set_aside(path.as_path(), &format!("it leads git to {named}"));
                return;
            }
            git = named;
        }
        let present = |path: &Path| {
            let stamp = stamp(path)?;
            let content = read(path, stamp, &mut MAX_FILE.clone());
            // Such a file was there before, in this repository or one that was moved or copied.
            let is_known = |(known, state): (&PathBuf, &State)| {
                known.file_name() == path.file_name()
                    && content != Content::Unknown
                    && state.content == content
            };
            let known = self.tops.values().flat_map(|top| &top.before).any(is_known);
            (!known).then_some(State { stamp, content })
        };
        for name in ["config", "config.worktree"] {
            let config = git.join(name);
            let Some(State { stamp, content }) = present(config.as_path()) else { continue };
            let (keys, rest) = match &content {
                Content::File(bytes) => (unsafe_settings(bytes).join(", "), harmless_part(bytes)),
                _ => ("it cannot be read".to_owned(), None),
            };
            if !keys.is_empty() {
                let rest = rest.map(|bytes| State { stamp, content: Content::File(bytes) });
                changes.add(
                    config.as_path(),
                    restore(config.as_path(), rest.as_ref()),
                    &format!("it may run programs: {keys}"),
                );
            }
        }
        let common = git.join("commondir");
        // A worktree has one.
        if git == *path && exists(&common) {
            changes.set_aside(common.as_path(), "it leads git elsewhere");
        }
        let hooks = git.join("hooks");
        if is_directory(hooks.as_path()) {
            let entries = std::fs::read_dir(hooks.as_path()).into_iter().flatten().flatten();
            // Names of hooks have no dot.
            let is_hook = |path: &PathBuf| path.extension().is_none() && present(path).is_some();
            let entries: BTreeSet<PathBuf> = entries.map(|entry| entry.path()).filter(is_hook).collect();
            entries.iter().for_each(|hook| changes.set_aside(hook, "git runs it"));
        } else if present(hooks.as_path()).is_some() {
            changes.set_aside(hooks.as_path(), "git runs its files");
        }
    }

    fn accept(&mut self, path: &AbsPath, content: Option<&[u8]>) {
        let top = self.tops.keys().find(|top| path.starts_with(top)).cloned();
        let Some(top) = top else { return };
        let now = stamp(path.as_path()).map(|stamp| read(path.as_path(), stamp, &mut MAX_FILE.clone()));
        if now == content.map(|content| Content::File(content.to_vec())) {
            let parents = path.as_path().ancestors().skip(1).take_while(|it| it.starts_with(top.as_path()));
            let new: Vec<&Path> = parents.filter(|it| !self.tops[&top].before.contains_key(*it)).collect();
            new.into_iter().chain([path.as_path()]).for_each(|path| self.update(path));
        }
    }

    /// Makes the present state of `path` and below the one to restore.
    fn update(&mut self, path: &Path) {
        let Some((_, top)) = self.tops.iter_mut().find(|(top, _)| path.starts_with(top.as_path())) else {
            return;
        };
        top.before.retain(|known, _| !known.starts_with(path));
        let Some(path) = AbsPath::new(path) else { return };
        for (path, stamp) in scan([&path], &mut MAX_FILES.clone()).0 {
            let content = read(&path, stamp, &mut MAX_BYTES.clone());
            top.before.insert(path, State { stamp, content });
        }
    }
}

impl Top {
    /// Whether each change can be reverted.
    fn is_protected(&self) -> bool {
        self.is_whole && self.before.values().all(|state| state.content != Content::Unknown)
    }

    /// Whether no confined program can have changed `path`.
    fn is_intact(&self, path: &Path) -> bool {
        // Another name of a file is not in the mount.
        let has_one_name = path.symlink_metadata().is_ok_and(|meta| meta.is_dir() || meta.nlink() == 1);
        let is_missing = path.symlink_metadata().is_err();
        self.mount.as_ref().is_some_and(|mount| inode(&mount.path) == Some(mount.inode))
            && (has_one_name || is_missing)
    }
}

/// The changes of protected files so far.
#[derive(Debug, Default)]
struct Changes {
    all: Vec<ProtectedChange>,
    /// New files with the changes.
    kept: Vec<PathBuf>,
}

impl Changes {
    fn push(&mut self, path: &Path, outcome: Result<String, String>) {
        let Some(path) = AbsPath::new(path) else { return };
        if self.all.iter().all(|change| change.path != path) {
            self.all.push(ProtectedChange { path, outcome });
        }
    }

    /// Restores what was at `path`; `None` removes it.
    fn revert(&mut self, path: &Path, state: Option<&State>, now: Option<&Stamp>) {
        let keys = new_unsafe_settings(path, state, now);
        let outcome = restore(path, state);
        match keys.is_empty() {
            true => self.add(path, outcome, "protected"),
            false => self.add(path, outcome, &format!("it may run programs: {}", keys.join(", "))),
        }
    }

    fn set_aside(&mut self, path: &Path, reason: &str) {
        let outcome = restore(path, None);
        self.add(path, outcome, reason);
    }

    fn add(&mut self, path: &Path, outcome: Result<Aside, String>, reason: &str) {
        let outcome = outcome.map(|aside| match aside {
            Aside::Nothing => reason.to_owned(),
            Aside::Kept(kept) => {
                let name = kept.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.kept.push(kept);
                format!("{reason}; the change is kept beside it as `{name}`")
            }
            Aside::Dropped(why) => {
                format!("{reason}; the change was removed, as it cannot be renamed: {why}")
            }
        });
        self.push(path, outcome);
    }
}

impl OpenFile {
    fn open(path: &AbsPath) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path.as_path(), flags, Mode::empty()).ok()?;
        let (inode, parent) = (inode(path)?, inode(&path.parent()?)?);
        Some(Self { path: path.clone(), handle, inode, parent })
    }

    /// Moves the directory back; `None` if it was removed.
    fn restore(&self, kept: &mut Vec<PathBuf>) -> Result<Option<()>, String> {
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let now = std::fs::read_link(link).ok().and_then(AbsPath::new);
        let Some(now) = now.filter(|now| inode(now) == Some(self.inode)) else { return Ok(None) };
        if self.path.parent().and_then(|parent| inode(&parent)) != Some(self.parent) {
            return Err(format!("it was moved to {now}, and its parent directory was moved too"));
        }
        if let Aside::Kept(path) = Parent::open(self.path.as_path())?.set_aside()? {
            kept.push(path);
        }
        std::fs::rename(now.as_path(), self.path.as_path()).map(Some).map_err(|error| error.to_string())
    }
}

fn inode(path: &AbsPath) -> Option<Inode> {
    path.as_path().symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

fn exists(path: &AbsPath) -> bool {
    path.as_path().symlink_metadata().is_ok()
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

/// The directory that the link or file `.git` names.
fn git_directory(path: &AbsPath) -> Option<AbsPath> {
    if path.as_path().is_symlink() {
        return Some(canonical(path));
    }
    let Content::File(bytes) = read(path.as_path(), stamp(path.as_path())?, &mut MAX_FILE.clone()) else {
        return None;
    };
    let named = String::from_utf8_lossy(&bytes).strip_prefix("gitdir:")?.trim().to_owned();
    Some(canonical(&path.parent()?.join(named)))
}

fn is_directory_mode(mode: u32) -> bool {
    rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Directory
}

/// The settings of git in a file before and now.
fn settings_of(path: &Path, before: Option<&State>, now: Option<&Stamp>) -> Option<(Vec<u8>, Vec<u8>)> {
    let is_config = path.file_name().is_some_and(|name| SETTINGS.iter().any(|it| name == *it));
    let before = match before.map(|state| &state.content) {
        None => Vec::new(),
        Some(Content::File(bytes)) => bytes.clone(),
        Some(_) => return None,
    };
    match now.filter(|_| is_config).map(|now| read(path, *now, &mut MAX_FILE.clone()))? {
        Content::File(now) => Some((before, now)),
        _ => None,
    }
}

/// Whether only settings of git changed that run no programs.
///
/// Addresses of remotes stay too, unless `may_change_addresses`.
fn is_harmless(path: &Path, before: Option<&State>, now: Option<&Stamp>, may_change_addresses: bool) -> bool {
    settings_of(path, before, now)
        .is_some_and(|(before, now)| is_harmless_change(&before, &now, may_change_addresses))
}

fn new_unsafe_settings(path: &Path, before: Option<&State>, now: Option<&Stamp>) -> Vec<String> {
    let Some((before, now)) = settings_of(path, before, now) else { return Vec::new() };
    let known = unsafe_settings(&before);
    unsafe_settings(&now).into_iter().filter(|key| !known.contains(key)).collect()
}

/// Whether a file is as in one of `versions`, or missing like in the first.
fn is_version(path: &Path, versions: Option<&Vec<Option<Vec<u8>>>>) -> bool {
    let Some(versions) = versions else { return false };
    let content = stamp(path).map(|stamp| read(path, stamp, &mut MAX_FILE.clone()));
    let now = match content {
        None => return versions.first().is_some_and(Option::is_none),
        Some(Content::File(bytes)) => bytes,
        Some(Content::Link(target)) => target.into_os_string().into_encoded_bytes(),
        Some(Content::Directory | Content::Unknown) => return false,
    };
    versions.iter().flatten().any(|it| *it == now || *it == with_unix_lines(&now))
}

fn with_unix_lines(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.iter().enumerate();
    let kept = lines.filter(|(at, byte)| !(**byte == b'\r' && bytes.get(at + 1) == Some(&b'\n')));
    kept.map(|(_, byte)| *byte).collect()
}

/// The end of the file that was at a path.
enum Aside {
    Nothing,
    Kept(PathBuf),
    /// It was removed, because it cannot be renamed.
    Dropped(String),
}

/// Restores what was at `path`; `None` removes it.
fn restore(path: &Path, state: Option<&State>) -> Result<Aside, String> {
    let failed = |error: rustix::io::Errno| error.to_string();
    if let Some(State { content: Content::Unknown, .. }) = state {
        return Err("it is too large or cannot be read".to_owned());
    }
    let parent = Parent::open(path)?;
    let aside = parent.set_aside()?;
    let (directory, name) = (&parent.handle, &parent.name);
    let Some(State { stamp: (_, _, mode, ..), content }) = state else { return Ok(aside) };
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match content {
        Content::Directory => rustix::fs::mkdirat(directory, name, mode).map_err(failed)?,
        Content::Link(target) => rustix::fs::symlinkat(target, directory, name).map_err(failed)?,
        Content::File(bytes) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            let mut file = std::fs::File::from(file);
            file.write_all(bytes).map_err(|error| error.to_string())?;
            rustix::fs::fchmod(&file, mode).map_err(failed)?;
        }
        Content::Unknown => {}
    }
    Ok(aside)
}

/// The directory of a path, which another program may move meanwhile.
struct Parent {
    handle: OwnedFd,
    path: PathBuf,
    name: PathBuf,
}

impl Parent {
    fn open(path: &Path) -> Result<Self, String> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err("it has no directory".to_owned());
        };
        let handle =
            open_resolved(parent, OFlags::PATH | OFlags::DIRECTORY).map_err(|error| match error {
                rustix::io::Errno::LOOP => "its directory is a link now".to_owned(),
                rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => {
                    "its directory was deleted".to_owned()
                }
                error => error.to_string(),
            })?;
        let parent = Self { handle, path: parent.to_owned(), name: name.into() };
        // A program may have taken the rights to change it.
        let here = parent.here();
        if let Some(mode) = here.metadata().ok().map(|meta| meta.mode()).filter(|mode| mode & 0o300 != 0o300)
        {
            set_mode(&here, mode | 0o300);
        }
        Ok(parent)
    }

    fn here(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd()).into()
    }

    /// Renames what is at the path: it may be the user's own, so it stays beside it.
    fn set_aside(&self) -> Result<Aside, String> {
        if rustix::fs::statat(&self.handle, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(Aside::Nothing);
        }
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let numbered = (1..10).map(|number| self.name.with_added_extension(format!("reverted-{number}")));
        // Programs may have created those names, or used all of the length.
        let others =
            [self.name.with_added_extension(format!("reverted-{time}")), format!("reverted-{time}").into()];
        let mut failure = String::new();
        for aside in numbered.chain(others) {
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.handle, &self.name, &self.handle, &aside, flags) {
                Ok(()) => return Ok(Aside::Kept(self.path.join(aside))),
                Err(error) => failure = error.to_string(),
            }
        }
        let path = self.here().join(&self.name);
        #[expect(clippy::disallowed_methods, reason = "a change that must not stay, without a place for it")]
        let removed = match is_directory(&path) {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        removed.map(|()| Aside::Dropped(failure)).map_err(|error| error.to_string())
    }
}

/// Opens a file unless a link leads to it.
fn open_resolved(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Restores the mode of a directory; returns whether it was another.
fn restore_mode(path: &Path, mode: u32) -> bool {
    let Ok(directory) = open_resolved(path, OFlags::PATH | OFlags::DIRECTORY) else { return false };
    let here = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    here.metadata().is_ok_and(|meta| meta.mode() != mode) && set_mode(&here, mode)
}

fn set_mode(path: &Path, mode: u32) -> bool {
    rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777)).is_ok()
}

fn read(path: &Path, (_, size, mode, ..): Stamp, left: &mut u64) -> Content {
    let found = match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => Some(Content::Directory),
        rustix::fs::FileType::Symlink => std::fs::read_link(path).ok().map(Content::Link),
        rustix::fs::FileType::RegularFile if size <= MAX_FILE.min(*left) => {
            *left -= size;
            read_file(path, size).map(Content::File)
        }
        _ => None,
    };
    found.unwrap_or(Content::Unknown)
}

/// Reads a file of this size, which another program may replace meanwhile.
fn read_file(path: &Path, size: u64) -> Option<Vec<u8>> {
    let file = std::fs::File::from(open_resolved(path, OFlags::RDONLY | OFlags::NONBLOCK).ok()?);
    let mut bytes = Vec::new();
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let read = is_file.then(|| file.take(size + 1).read_to_end(&mut bytes).ok()).flatten()?;
    (read as u64 == size).then_some(bytes)
}

/// The stamps of the files at and below `tops`.
///
/// Also returns whether `left` was enough for all.
fn scan<'a>(
    tops: impl IntoIterator<Item = &'a AbsPath>,
    left: &mut usize,
) -> (BTreeMap<PathBuf, Stamp>, bool) {
    let (mut found, mut is_whole) = (BTreeMap::new(), true);
    let mut pending: Vec<PathBuf> = tops.into_iter().map(|top| top.as_path().to_owned()).collect();
    while let Some(path) = pending.pop() {
        let Some(stamp) = stamp(&path) else { continue };
        if *left == 0 {
            is_whole = false;
            break;
        }
        *left -= 1;
        if is_directory_mode(stamp.2) {
            pending.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|it| it.path()));
        }
        found.insert(path, stamp);
    }
    (found, is_whole)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = path.symlink_metadata().ok()?;
    let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (modified, status) = (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    Some((meta.ino(), meta.size(), meta.mode(), modified, status))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that runs alone.
    struct Alone(Running, ProtectedFiles);

    impl Alone {
        fn start(paths: &[AbsPath], has_mounts: bool, root: Option<&AbsPath>) -> Self {
            let mut running = Running::new();
            let protected = running.start(paths.to_vec(), GitChanges::default(), has_mounts, root.cloned());
            Self(running, protected)
        }

        fn revert(mut self) -> Vec<ProtectedChange> {
            self.0.revert(&self.1, &Versions::new())
        }
    }

    fn top() -> (tempfile::TempDir, AbsPath) {
        let temp = tempfile::tempdir().unwrap();
        let top = canonical(&AbsPath::new(temp.path()).unwrap());
        (temp, top)
    }

    /// The changed files with the problems.
    fn shown(changes: &[ProtectedChange], top: &AbsPath) -> Vec<String> {
        let problem = |it: &ProtectedChange| it.outcome.as_ref().err().cloned().unwrap_or_default();
        let name = |it: &ProtectedChange| it.path.strip_prefix(top).unwrap().display().to_string();
        changes.iter().map(|it| format!("{} {}", name(it), problem(it)).trim().to_owned()).collect()
    }

    fn at(top: &AbsPath, names: &[&str]) -> Vec<AbsPath> {
        names.iter().map(|name| top.join(name)).collect()
    }

    fn create(top: &AbsPath, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = top.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    fn text(top: &AbsPath, name: &str) -> String {
        std::fs::read_to_string(top.join(name)).unwrap()
    }

    #[test]
    fn changes_of_protected_files_are_reverted() {
        let (_temp, top) = top();
        create(
            &top,
            &[(".git/config", "a"), (".git/hooks/old", "a"), (".vscode/gone", "a"), ("elsewhere/x", "")],
        );
        let names = [".git/hooks", ".git/config", ".vscode/gone", ".vscode/tasks.json", ".husky"];
        assert_eq!(Alone::start(&at(&top, &names), false, None).revert(), []);

        let protected = Alone::start(&at(&top, &names), false, None);
        create(&top, &[(".git/config", "changed"), (".git/hooks/new", ""), (".vscode/tasks.json/x", "")]);
        std::fs::remove_file(top.join(".git/hooks/old")).unwrap();
        std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".husky")).unwrap();
        std::fs::remove_file(top.join(".vscode/gone")).unwrap();
        std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".vscode/gone")).unwrap();
        let changes = protected.revert();
        let expected = [
            ".git/hooks/new",
            ".husky",
            ".vscode/tasks.json",
            ".git/config",
            ".git/hooks/old",
            ".vscode/gone",
        ];
        assert_eq!(shown(&changes, &top), expected);
        let how = "protected; the change is kept beside it as `config.reverted-1`";
        assert_eq!(changes[3].outcome.as_deref(), Ok(how));
        assert_eq!(text(&top, ".git/config"), "a");
        // The change may be the user's own.
        assert_eq!(text(&top, ".git/config.reverted-1"), "changed");
        assert!(top.join(".vscode/tasks.json.reverted-1/x").as_path().exists());
        assert!(top.join(".git/hooks/old").as_path().exists() && !top.join(".husky").as_path().exists());
        assert_eq!(std::fs::read_dir(top.join("elsewhere")).unwrap().count(), 1);
    }

    #[test]
    fn a_change_is_reverted_whatever_lies_beside_it() {
        let (_temp, top) = top();
        create(&top, &[(".git/config", "a"), (".git/hooks/x", "a")]);
        let protected = Alone::start(&at(&top, &[".git/hooks", ".git/config"]), false, None);
        for number in 0..200 {
            create(&top, &[(&format!(".git/config.reverted-{number}"), "")]);
        }
        let long = format!(".git/hooks/{}", "x".repeat(255));
        create(&top, &[(".git/config", "changed"), (&long, "")]);
        for (name, mode) in [(".git/hooks", 0), (".git", 0o500)] {
            assert!(set_mode(top.join(name).as_path(), mode));
        }
        let changes = protected.revert();
        let hooks = [".git/hooks".to_owned(), long, ".git/config".to_owned()];
        assert_eq!(shown(&changes, &top), hooks);
        assert_eq!([text(&top, ".git/config"), text(&top, ".git/hooks/x")], ["a", "a"]);
        let others = std::fs::read_dir(top.join(".git")).unwrap().map(|it| it.unwrap().path());
        let kept = others.filter(|path| std::fs::read(path).is_ok_and(|it| it == b"changed"));
        assert_eq!(kept.count(), 1);
    }

    #[test]
    fn running_programs_share_one_baseline() {
        let (_temp, top) = top();
        let files = [(".git/config", "a"), (".vscode/tasks.json", "a"), ("sub/.envrc", "a")];
        create(&top, &files);
        let paths = at(&top, &[".git/config", ".vscode/tasks.json"]);
        let (mut running, none) = (Running::new(), GitChanges::default);
        let first = running.start(paths.clone(), none(), false, Some(top.clone()));
        create(&top, &files.map(|(name, _)| (name, "changed")));
        create(&top, &[("sub/r/.git/config", "[core]\nfsmonitor = x")]);
        std::fs::rename(top.join(".vscode"), top.join("moved")).unwrap();
        std::os::unix::fs::symlink(top.join("moved"), top.join(".vscode")).unwrap();
        let tasks = [top.join(".vscode"), top.join("moved/tasks.json")];
        let second = running.start([&paths[..1], &tasks].concat(), none(), false, Some(top.clone()));
        let git = running.start(paths[..1].to_vec(), none(), false, None);
        let end = |running: &mut Running, it: &ProtectedFiles| {
            let changes = running.revert(it, &Versions::new());
            running.release(it);
            shown(&changes, &top)
        };
        assert_eq!(end(&mut running, &git), [".git/config"]);
        let others = [".vscode", ".vscode/tasks.json", "sub/.envrc", "sub/r/.git/config"];
        assert_eq!(end(&mut running, &second), others);
        assert_eq!(end(&mut running, &first), Vec::<String>::new());
        assert_eq!(files.map(|(name, _)| text(&top, name)), ["a", "a", "a"]);
        assert!(running.tops.is_empty() && running.roots.is_empty());
        let third = running.start(paths, none(), false, Some(top.clone()));
        assert_eq!(end(&mut running, &third), Vec::<String>::new());
        [first, second, git, third].into_iter().for_each(std::mem::forget);
    }

    #[test]
    fn changes_of_git_are_checked_when_it_ends() {
        let (_temp, top) = top();
        create(&top, &[(".git/config", "[remote \"o\"]\nurl = a\n"), (".envrc", "a"), (".husky/old", "a")]);
        let paths = at(&top, &[".git/config", ".envrc", ".husky"]);
        let mut running = Running::new();
        let first = running.start(paths.clone(), GitChanges::default(), true, Some(top.clone()));
        let directory = top.join(".git");
        let checkout = Some(Checkout { top: top.clone(), own: directory.clone(), shared: directory });
        let git = GitChanges { paths: paths.clone(), worktrees: false, checkout };
        let second = running.start(Vec::new(), git, true, Some(top.clone()));

        create(&top, &[(".git/config", "[remote \"o\"]\nurl = b\n"), (".envrc", "b"), (".husky/new/x", "b")]);
        std::fs::remove_file(top.join(".husky/old")).unwrap();
        assert_eq!(running.revert(&first, &Versions::new()), []);
        let changed = running.changed_by_checkout(&second);
        assert_eq!(
            changed,
            [".husky/old", ".envrc", ".husky/new/x"].map(|name| top.join(name)).map(PathBuf::from)
        );
        let versions = [None, Some(b"b".to_vec()), Some(b"b".to_vec())].map(|it| vec![it]);
        let versions = changed.into_iter().zip(versions).collect();
        let changes = running.revert(&second, &versions);
        assert_eq!(
            shown(&changes, &top),
            [".husky/new", ".envrc"].map(|name| format!("{name} {CHECKED_OUT}"))
        );
        running.release(&second);

        // The change of git is the state to restore, and no mount shows whose the change is.
        create(&top, &[(".git/config", "[core]\nfsmonitor = x\n"), (".envrc", "c"), (".husky/old", "a")]);
        let changes = running.revert(&first, &versions);
        assert_eq!(shown(&changes, &top), [".husky/old", ".envrc", ".git/config"]);
        assert_eq!([text(&top, ".envrc"), text(&top, ".git/config")], ["b", "[remote \"o\"]\nurl = b\n"]);
        let how = "it may run programs: core.fsmonitor; the change is kept beside it as `config.reverted-1`";
        assert_eq!(changes[2].outcome.as_deref(), Ok(how));
        [first, second].into_iter().for_each(std::mem::forget);
    }

    #[test]
    fn a_mount_distinguishes_changes_of_the_user() {
        let (_temp, top) = top();
        create(
            &top,
            &[
                (".git/config", "[user]\nname = a"),
                (".envrc", "a"),
                (".mcp.json", "a"),
                (".git/hooks/x", "a"),
            ],
        );
        let paths = at(&top, &[".git/config", ".envrc", ".mcp.json", ".git/hooks"]);
        let replace = |name: &str, text: &str| {
            create(&top, &[("new", text)]);
            std::fs::rename(top.join("new"), top.join(name)).unwrap();
        };
        let protected = Alone::start(&paths, true, None);
        create(&top, &[(".envrc", "mine"), (".git/hooks/y", "mine")]);
        replace(".mcp.json", "other");
        replace(".git/config", "[user]\nname = b");
        assert_eq!(shown(&protected.revert(), &top), [".mcp.json"]);
        let protected = Alone::start(&paths, true, None);
        std::fs::hard_link(top.join(".envrc"), top.join("link")).unwrap();
        create(&top, &[("link", "other")]);
        replace(".git/config", "[core]\nfsmonitor = x");
        assert_eq!(shown(&protected.revert(), &top), [".envrc", ".git/config"]);
        assert_eq!(text(&top, ".git/config"), "[user]\nname = b");
    }

    #[test]
    fn an_accepted_change_stays() {
        let (_temp, top) = top();
        create(&top, &[(".envrc", "a"), (".mcp.json", "a")]);
        let mut running =
            Alone::start(&at(&top, &[".envrc", ".mcp.json", ".vscode/tasks.json", ".husky"]), false, None);
        create(
            &top,
            &[
                (".envrc", "mine"),
                (".mcp.json", "other"),
                (".vscode/tasks.json", "mine"),
                (".husky/x", "mine"),
            ],
        );
        for name in [".envrc", ".mcp.json", ".vscode/tasks.json", ".husky/x"] {
            running.0.accept(&top.join(name), Some(b"mine"));
        }
        assert_eq!(shown(&running.revert(), &top), [".mcp.json"]);
        let mut running = Alone::start(&at(&top, &[".envrc"]), false, None);
        std::fs::remove_file(top.join(".envrc")).unwrap();
        running.0.accept(&top.join(".envrc"), None);
        assert_eq!(running.revert(), []);
    }

    #[test]
    fn a_file_with_the_same_content_is_unchanged() {
        let (_temp, top) = top();
        create(&top, &[(".envrc", "a"), ("sub/.git/config", "[core]\n"), ("sub/.git/hooks/x", "a")]);
        let protected = Alone::start(&at(&top, &[".envrc"]), false, Some(&top));
        std::fs::remove_file(top.join(".envrc")).unwrap();
        create(&top, &[(".envrc", "a")]);
        // Another repository in the same place.
        std::fs::rename(top.join("sub"), top.join("old")).unwrap();
        create(
            &top,
            &[
                ("sub/.git/config", "[user]\nname = a\n"),
                ("sub/.git/hooks/y", ""),
                ("sub/.git/hooks/x.sample", ""),
            ],
        );
        assert_eq!(shown(&protected.revert(), &top), ["sub/.git/hooks/y"]);
        assert_eq!(text(&top, "sub/.git/config"), "[user]\nname = a\n");
        assert!(!top.join("sub/.git/hooks/x").as_path().exists());
    }

    #[test]
    fn a_new_repository_runs_no_program() {
        let (_temp, top) = top();
        let config = "[user]\nname = a\n[core]\nfsmonitor = x\n";
        let protected = Alone::start(&at(&top, &[".git"]), true, Some(&top));
        create(
            &top,
            &[
                (".git/config", config),
                (".git/hooks/pre-commit", ""),
                (".git/hooks/a.sample", ""),
                (".git/commondir", "/x"),
            ],
        );
        create(
            &top,
            &[
                ("sub/.git/config", config),
                ("linked/.git", "gitdir: ../sub/x"),
                ("module/.git", "gitdir: ../.git/modules/m"),
            ],
        );
        create(&top, &[(".git/modules/m/config", config)]);
        let changes = protected.revert();
        let names = [
            ".git/config",
            ".git/commondir",
            ".git/hooks/pre-commit",
            "linked/.git",
            ".git/modules/m/config",
            "sub/.git/config",
        ];
        assert_eq!(shown(&changes, &top), names);
        let how = "it may run programs: core.fsmonitor; the change is kept beside it as `config.reverted-1`";
        assert_eq!(changes[0].outcome.as_deref(), Ok(how));
        assert_eq!(text(&top, ".git/config"), "[user]\n\tname = \"a\"\n");
        for git in ["file", "link"] {
            let protected = Alone::start(&at(&top, &["p/.git"]), true, Some(&top.join("p")));
            create(&top, &[("p/x", "")]);
            match git {
                "file" => create(&top, &[("p/.git", "gitdir: ../sub/.git")]),
                _ => std::os::unix::fs::symlink(top.join("sub/.git"), top.join("p/.git")).unwrap(),
            }
            assert_eq!(shown(&protected.revert(), &top), ["p/.git"], "{git}");
        }
    }

    #[test]
    fn nested_repositories_and_settings_are_found_within_limits() {
        let (_temp, top) = top();
        for name in [
            "ignored/r/.git/config",
            "r/.git/config",
            "a/b/.vscode/tasks.json",
            "a/.envrc",
            "s/.git",
            ".envrc",
            "a/b/c/d/.envrc",
            ".git/HEAD",
        ] {
            create(&top, &[(name, "")]);
        }
        create(&top, &[(".gitignore", "ignored")]);
        let search = NestedFiles::find(&top);
        let relative = |path: &AbsPath| path.strip_prefix(&top).unwrap().display().to_string();
        let found: BTreeSet<String> = search.paths().iter().map(relative).collect();
        let expected = ["a/.envrc", "a/b/.vscode/tasks.json", "r/.git", "s/.git"].map(str::to_owned);
        assert_eq!(found, expected.into_iter().collect());
        create(&top, &[("a/new", "")]);
        assert!(search.is_complete() && !search.is_current());

        // A removed repository is not reported.
        let protected = Alone::start(&[], true, Some(&top));
        std::fs::remove_dir_all(top.join("r")).unwrap();
        create(&top, &[("a/.envrc", "changed")]);
        assert_eq!(shown(&protected.revert(), &top), ["a/.envrc"]);
    }

    #[test]
    fn the_limits_leave_the_files_of_the_project_itself() {
        let (_temp, top) = top();
        create(&top, &[(".envrc", "a"), ("sub/.husky/0", "a")]);
        for number in 1..=MAX_FILES {
            create(&top, &[(&format!("sub/.husky/{number}"), "")]);
        }
        let protected = Alone::start(&at(&top, &[".envrc"]), false, Some(&top));
        assert_eq!(protected.1.unprotected, [format!("all of {}", top.join("sub/.husky"))]);
        create(&top, &[(".envrc", "changed"), ("sub/.husky/new", "")]);
        assert_eq!(shown(&protected.revert(), &top), [".envrc"]);
        for number in 0..5_000 {
            create(&top, &[(&format!("many/{number}"), "")]);
        }
        let unprotected = Alone::start(&at(&top, &[".envrc"]), false, Some(&top)).1.unprotected.clone();
        assert_eq!(unprotected.last().map(String::as_str), Some("all subdirectories"));
    }

    #[test]
    fn a_moved_directory_is_moved_back() {
        let (_temp, top) = top();
        std::fs::create_dir_all(top.join(".git/hooks")).unwrap();
        create(&top, &[(".git/config", "a"), (".git/HEAD", "main")]);
        let tops = at(&top, &[".git/hooks", ".git/config"]);

        let protected = Alone::start(&tops, false, None);
        std::fs::rename(top.join(".git"), top.join("x")).unwrap();
        create(&top, &[("x/config", "changed")]);
        assert_eq!(shown(&protected.revert(), &top), [".git", ".git/config"]);
        assert_eq!([text(&top, ".git/config"), text(&top, ".git/HEAD")], ["a", "main"]);

        let protected = Alone::start(&tops, false, None);
        std::fs::rename(top.join(".git"), top.join("x")).unwrap();
        std::fs::create_dir_all(top.join(".git/hooks")).unwrap();
        assert_eq!(shown(&protected.revert(), &top), [".git"]);
        assert_eq!(text(&top, ".git/HEAD"), "main");
        assert!(top.join(".git.reverted-1/hooks").as_path().is_dir());

        let protected = Alone::start(&tops, false, None);
        std::fs::remove_dir_all(top.join(".git")).unwrap();
        let gone = "its directory was deleted";
        assert_eq!(
            shown(&protected.revert(), &top),
            [format!(".git/config {gone}"), format!(".git/hooks {gone}")]
        );
        assert!(!top.join(".git").as_path().exists());
    }

    #[test]
    fn a_protected_file_behind_a_new_link_is_only_reported() {
        let (_temp, top) = top();
        std::fs::create_dir_all(top.join("elsewhere")).unwrap();
        let protected = Alone::start(&at(&top, &[".vscode/tasks.json"]), true, None);
        create(&top, &[("elsewhere/tasks.json", "")]);
        std::os::unix::fs::symlink(top.join("elsewhere"), top.join(".vscode")).unwrap();
        let problem = ".vscode/tasks.json its directory is a link now";
        assert_eq!(shown(&protected.revert(), &top), [problem]);
        assert!(top.join("elsewhere/tasks.json").as_path().exists());
    }
}
