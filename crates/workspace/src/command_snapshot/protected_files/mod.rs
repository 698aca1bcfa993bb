//! Files that a command must leave as they are, for what the sandbox cannot deny.
//!
//! Other programs execute them later: git's hooks, an editor's tasks. A change is reverted after the command.
//!
//! Commands overlap: while one runs, later ones share the state from before it.

mod file_state;
mod git_settings;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use paths::{AbsPath, canonical_existing};
use policy::{Checkout, GitChanges, ProjectRoots, SpawnGrant};
use process::{Processes, SandboxLevel};
use shell::{harmless_part, unsafe_settings};

use self::file_state::{
    Content, Stamp, State, exists, inode, is_directory, is_directory_mode, read, read_whole, scan, stamp,
};
use self::git_settings::{SETTINGS, git_directory, is_harmless, is_version};
pub use self::restore::ProtectedChange;
use self::restore::{Changes, OpenFile, restore, restore_mode};
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
    root: Option<ProjectRoots>,
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

const WORKTREE: [&str; 4] = [".git", "commondir", "config.worktree", "gitdir"];

/// The state from before the first of the running programs.
#[derive(Debug)]
struct Running {
    tops: BTreeMap<AbsPath, Top>,
    roots: BTreeMap<ProjectRoots, Root>,
    /// The last search in each root.
    searches: BTreeMap<ProjectRoots, NestedFiles>,
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
            let stash = stash.and_then(|path| paths::read_settings(path).ok());
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
        root: Option<ProjectRoots>,
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
        root: Option<ProjectRoots>,
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
    fn search(&mut self, root: &ProjectRoots) -> Vec<AbsPath> {
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
                _ => now.is_some_and(|now| now.2 == state.stamp.2 && read_whole(path, *now) == state.content),
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
    fn inspect(&self, path: &AbsPath, root: Option<&ProjectRoots>, changes: &mut Changes) {
        let mut git = path.clone();
        if !is_directory(path.as_path()) {
            let Some(named) = git_directory(path) else { return };
            let own = root.map(|root| root.top.join(".git"));
            if !own.is_some_and(|own| named.starts_with(&own) && named != own) {
                changes.set_aside(path.as_path(), &format!("it leads git to {named}"));
                return;
            }
            git = named;
        }
        let present = |path: &Path| {
            let stamp = stamp(path)?;
            let content = read_whole(path, stamp);
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
        let leads_to = paths::read_settings(&common).unwrap_or_default();
        let leads_to = canonical_existing(&git.join(leads_to.trim()));
        // A worktree has one, which names the repository around it.
        let is_of_worktree = git != *path && root.is_some_and(|root| root.top.join(".git") == leads_to);
        if exists(&common) && !is_of_worktree {
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
        let now = stamp(path.as_path()).map(|stamp| read_whole(path.as_path(), stamp));
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

#[cfg(test)]
mod tests;
