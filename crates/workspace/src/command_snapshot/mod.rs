//! Snapshots around a shell command, so that undo can revert its changes.
//!
//! The first snapshot has size, times and inode of every file that no ignore file of the project names, and
//! the contents of those that git does not have. After the command, each difference becomes an entry of the
//! journal, as if it had been committed. The second scan reads only files whose stamps changed.

mod git_index;
mod git_objects;
mod nested_files;
mod protected_files;
mod scan;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

pub use protected_files::{ProtectedChange, ProtectedFiles};
pub(crate) use scan::file_clock;

use self::git_objects::{filtered, from_blob, git_files, on_disk, private, run_git};
use self::scan::{Scan, Stamp, changed, scan, undo_ignore_changes};
use crate::command_snapshot::git_index::Index;
use crate::documents::content::Image;
use crate::documents::disk::{self, Found};
use crate::journal::LOCK;
use crate::journal::command_backup::{BackupRecord, CommandBackup, MOST_BYTES, MOST_FILES};
use crate::journal::{Entry, Journal, Pack, StoredDirectory, StoredStep};
use crate::search::is_version_control;
use crate::{CommitId, RunId, Workspace};
use paths::{AbsPath, StateError};
use process::Processes;
use shell::Written;

/// Limit on the size of files that only the user's own ignore files name, in bytes.
const MOST_PRIVATE: u64 = 8 << 20;
/// Maximum number of targets of a command line that are checked.
const MAX_TARGETS: usize = 200;
const LOCK_DEADLINE: Duration = Duration::from_secs(30);

/// Scans a workspace before and after commands.
///
/// Caches contents, so that a file is read again only when it changed.
#[derive(Debug)]
pub struct CommandSnapshots {
    workspace: Workspace,
    read: Mutex<HashMap<PathBuf, (Stamp, Image)>>,
    backup: Mutex<Option<Arc<CommandBackup>>>,
}

/// The state of the files before a command.
#[derive(Debug)]
pub struct CommandSnapshot {
    files: BTreeMap<PathBuf, Stamp>,
    directories: BTreeMap<PathBuf, u32>,
    /// The inodes of directories, which survive a move.
    known_directories: HashSet<u64>,
    /// Pipes, sockets and devices, by inode.
    special: BTreeMap<PathBuf, u64>,
    /// Contents that neither git nor the journal has.
    images: HashMap<PathBuf, Image>,
    /// Files that git has, with their blobs.
    clean: HashMap<PathBuf, [u8; 20]>,
    git: Option<PathBuf>,
    /// Targets of the command line with their state, inside the workspace or not.
    targets: Vec<(AbsPath, Option<Mark>)>,
    /// Git's own files, except its index and objects.
    git_files: Vec<(PathBuf, Stamp)>,
    /// Start of the scan, by the clock that stamps files.
    began: SystemTime,
    /// The images on the disk, until the journal has the changes.
    backup_record: Option<BackupRecord>,
}

impl CommandSnapshot {
    /// Marks the command as running.
    ///
    /// From now on the backup survives a crash.
    pub fn mark_running(&mut self) {
        self.backup_record.iter_mut().for_each(BackupRecord::mark_running);
    }
}

/// Changes made by a command.
#[derive(Debug, Clone, Default)]
pub struct CommandChanges {
    /// The commit in the journal, if anything can be reverted.
    pub commit: Option<CommitId>,
    /// Changes that undo can revert, in order of path.
    pub files: Vec<AbsPath>,
    /// Changes that undo cannot revert, with the reason.
    pub lost: Vec<(AbsPath, String)>,
}

/// The identity of the file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Directory,
    Other(Stamp),
}

impl Mark {
    fn of(path: &AbsPath) -> Option<Self> {
        let meta = std::fs::symlink_metadata(path.as_path()).ok()?;
        Some(if meta.is_dir() { Self::Directory } else { Self::Other(Stamp::of(&meta)) })
    }
}

#[cfg(test)]
impl CommandSnapshot {
    /// Whether git can restore a file.
    pub(crate) fn is_from_git(&self, path: &str) -> bool {
        self.clean.contains_key(Path::new(path))
    }
}

impl CommandSnapshots {
    /// Creates snapshots of the files of `workspace`.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, read: Mutex::default(), backup: Mutex::default() }
    }

    fn root(&self) -> &AbsPath {
        self.workspace.root()
    }

    /// Scans the workspace before `processes` runs the command line `line` for `run`.
    ///
    /// `label` is the one that [`Self::after`] gets. Contents stored nowhere else are backed up on the disk.
    /// Blocks: some 100 ms for 50,000 files.
    ///
    /// # Errors
    /// The backup cannot be written, so that undo could not restore anything.
    pub fn before(
        &self,
        line: &str,
        run: &RunId,
        label: &str,
        processes: &Processes,
    ) -> Result<CommandSnapshot, StateError> {
        let began = file_clock();
        let index = Index::of(self.root().as_path());
        let Scan { files, directories, known_directories, special } = self.scan(index.as_ref());
        let filtered = filtered(self.root(), index.as_ref(), &files);
        let (mut images, mut clean, mut left) = (HashMap::new(), HashMap::new(), MOST_BYTES);
        let mut read = std::mem::take(&mut *self.read.lock());
        let private = private(self.root(), index.as_ref());
        let (last, first): (Vec<_>, Vec<_>) =
            files.iter().partition(|(path, _)| private.matched_path_or_any_parents(path, false).is_ignore());
        // Files that only the user's own ignore files name have a limit of their own.
        let mut private_left = MOST_PRIVATE;
        let all =
            first.into_iter().map(|file| (file, false)).chain(last.into_iter().map(|file| (file, true)));
        for ((path, stamp), is_private) in all {
            let left = if is_private { &mut private_left } else { &mut left };
            let is_filtered = filtered
                .as_ref()
                .is_none_or(|globs| globs.matched_path_or_any_parents(path, false).is_ignore());
            let blob =
                index.as_ref().filter(|_| !is_filtered).and_then(|index| index.clean(path, stamp.stat()));
            if let Some(blob) = blob {
                clean.insert(path.clone(), blob);
                continue;
            }
            let Some(rest) = left.checked_sub(stamp.size) else { continue };
            let known = read.remove(path).filter(|(known, _)| known == stamp);
            let image = known.map(|(_, image)| image).or_else(|| image(&self.root().join(path)));
            if let Some(image) = image {
                *left = rest;
                images.insert(path.clone(), image);
            }
        }
        let read = images.iter().map(|(path, image)| (path.clone(), (files[path], image.clone())));
        *self.read.lock() = read.collect();
        let backup_record = self.back_up(&images, run, label, processes)?;
        Ok(CommandSnapshot {
            files,
            directories,
            known_directories,
            special,
            images,
            clean,
            git: index.map(|index| index.git),
            targets: self.targets(line),
            git_files: git_files(self.root()),
            began,
            backup_record,
        })
    }

    fn back_up(
        &self,
        images: &HashMap<PathBuf, Image>,
        run: &RunId,
        label: &str,
        processes: &Processes,
    ) -> Result<Option<BackupRecord>, StateError> {
        if images.is_empty() {
            return Ok(None);
        }
        let inner = &self.workspace.inner;
        let mut current = self.backup.lock();
        let backup = match current.take().filter(|backup| !backup.has_left()) {
            Some(known) => current.insert(known),
            None => {
                inner.describe()?;
                current.insert(CommandBackup::new(&inner.state, processes)?)
            }
        };
        backup.back_up(self.root(), images, run, label).map(Some)
    }

    /// Scans the workspace, without Pilcrow's state, which a home directory holds.
    fn scan(&self, index: Option<&Index>) -> Scan {
        let workspaces = self.workspace.state().path().parent();
        scan(self.root(), workspaces.and_then(|it| it.parent()), index)
    }

    /// Lists the targets of a command line, with their current state.
    fn targets(&self, line: &str) -> Vec<(AbsPath, Option<Mark>)> {
        let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
        let mut targets = Vec::new();
        for Written { path, names } in shell::written(line, &self.root().to_string(), home.as_deref()) {
            let Some(path) = AbsPath::new(path) else { continue };
            let mark = Mark::of(&path);
            if path.as_path().is_dir() {
                let inside = names.iter().map(|name| path.join(name));
                targets.extend(inside.map(|path| (path.clone(), Mark::of(&path))));
            }
            targets.push((path, mark));
            if targets.len() >= MAX_TARGETS {
                break;
            }
        }
        targets
    }

    /// Adds targets that changed without a step, with the reason not to revert them.
    fn uncovered(&self, before: &CommandSnapshot, after: &Scan, lost: &mut Vec<(AbsPath, String)>) {
        for (path, was) in &before.targets {
            let (relative, now) = (path.strip_prefix(self.root()), Mark::of(path));
            let is_scanned = relative.is_some_and(|path| {
                path.as_os_str().is_empty()
                    || before.files.contains_key(path)
                    || after.files.contains_key(path)
                    || before.directories.contains_key(path)
                    || after.directories.contains_key(path)
                    || before.special.contains_key(path)
                    || after.special.contains_key(path)
            });
            let is_known = lost.iter().any(|(known, _)| known == path);
            if *was == now || is_scanned || is_known || now == Some(Mark::Directory) && was.is_none() {
                continue;
            }
            let is_own = |path: &Path| path.iter().any(is_version_control);
            let reason = match relative {
                None => "it is outside the workspace",
                Some(path) if is_own(path) => "it belongs to version control",
                Some(_) => "an ignore file names it",
            };
            lost.push((path.clone(), reason.to_owned()));
        }
        if git_files(self.root()) != before.git_files {
            let path = self.root().join(".git");
            if !lost.iter().any(|(known, _)| known.as_path().starts_with(path.as_path())) {
                lost.push((path, "git's own record; revert it with git".to_owned()));
            }
        }
    }

    /// Finds the changes since the snapshot, and records them in the journal for `run`.
    ///
    /// The caller must not drop the future halfway.
    ///
    /// # Errors
    /// [`StateError`] when the journal cannot be written; undo cannot revert the command then, and the next
    /// start recovers the backup.
    pub async fn after(
        self: &Arc<Self>,
        mut before: CommandSnapshot,
        run: &RunId,
        label: &str,
        processes: &Arc<Processes>,
    ) -> Result<CommandChanges, StateError> {
        before.mark_running();
        let this = Arc::clone(self);
        let work = move || {
            let mut after = this.scan(Index::of(this.root().as_path()).as_ref());
            let unsure = undo_ignore_changes(this.root(), &before, &mut after);
            (before, after, unsure)
        };
        let Ok((mut before, after, unsure)) = tokio::task::spawn_blocking(work).await else {
            return Ok(CommandChanges::default());
        };
        let changed: BTreeSet<PathBuf> = changed(&before.files, &after.files).into_iter().collect();
        let blobs: BTreeSet<[u8; 20]> =
            changed.iter().filter_map(|path| before.clean.get(path)).copied().collect();
        let contents = match &before.git {
            Some(git) if !blobs.is_empty() => run_git(self.root(), git, blobs, processes).await,
            _ => HashMap::new(),
        };
        for path in &changed {
            let (Some(blob), Some(stamp)) = (before.clean.get(path), before.files.get(path)) else {
                continue;
            };
            // A filter between git and the disk (line ends, large files) makes them differ.
            if let Some(content) = contents.get(blob).and_then(|content| on_disk(content, *stamp)) {
                before.images.insert(path.clone(), from_blob(&content, *stamp));
            }
        }
        let (this, run, label) = (Arc::clone(self), run.clone(), label.to_owned());
        let work = move || {
            let mut wrote = this.record(&before, &after, changed, run, label)?;
            let reason = "it existed before, or came from outside the snapshot";
            wrote.lost.extend(unsure.into_iter().map(|path| (this.root().join(path), reason.to_owned())));
            this.uncovered(&before, &after, &mut wrote.lost);
            before.backup_record.take().into_iter().for_each(BackupRecord::discard);
            Ok(wrote)
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Ok(CommandChanges::default()))
    }

    /// Records the changes in the journal. Blocks.
    fn record(
        &self,
        before: &CommandSnapshot,
        after: &Scan,
        changed: BTreeSet<PathBuf>,
        run: RunId,
        label: String,
    ) -> Result<CommandChanges, StateError> {
        let mut wrote = CommandChanges::default();
        let (mut pack, mut steps, mut left) = (Pack::default(), Vec::new(), MOST_BYTES);
        for relative in changed {
            let path = self.root().join(&relative);
            let (was, now) = (before.files.get(&relative), after.files.get(&relative));
            let old = before.images.get(&relative);
            if was.is_some() && old.is_none() {
                let reason = if before.clean.contains_key(&relative) {
                    "git does not have its content"
                } else {
                    "too large to back up with the others"
                };
                wrote.lost.push((path, reason.to_owned()));
                continue;
            }
            let size = now.map_or(0, |stamp| stamp.size);
            if steps.len() >= MOST_FILES || size > left {
                wrote.lost.push((path, "too large to back up with the others".to_owned()));
                continue;
            }
            let new = now.and_then(|_| image(&path));
            if now.is_some() && new.is_none() {
                wrote.lost.push((path, "it cannot be read".to_owned()));
                continue;
            }
            if let (Some(old), Some(new)) = (old, &new)
                && old.same_content(new)
            {
                if was.map(|stamp| stamp.mode) != now.map(|stamp| stamp.mode) {
                    wrote.lost.push((path, "only its permissions changed".to_owned()));
                }
                continue;
            }
            if was.zip(now).is_some_and(|(was, now)| was.mode != now.mode && was.is_link == now.is_link) {
                wrote
                    .lost
                    .push((path.clone(), "its new permissions stay; undo restores its content".to_owned()));
            }
            left -= size;
            let (old, new) = (old.map(|image| pack.add(image)), new.as_ref().map(|image| pack.add(image)));
            wrote.files.push(path.clone());
            steps.push(StoredStep {
                path,
                before: old,
                after: new,
                moved_from: None,
                open: false,
                in_place: false,
                adopted: false,
            });
        }
        // The remaining changes cannot be represented by steps.
        let other_mode = before
            .directories
            .iter()
            .filter(|(path, mode)| after.directories.get(*path).is_some_and(|now| now != *mode));
        for (path, _) in other_mode {
            wrote.lost.push((self.root().join(path), "a directory's permissions changed".to_owned()));
        }
        let gone = before.special.keys().filter(|path| !after.special.contains_key(*path));
        wrote
            .lost
            .extend(gone.map(|path| (self.root().join(path), "a pipe, socket or device is gone".to_owned())));
        let new = after.special.iter().filter(|(path, inode)| before.special.get(*path) != Some(*inode));
        wrote.lost.extend(
            new.map(|(path, _)| (self.root().join(path), "a pipe, socket or device was created".to_owned())),
        );
        let only = |these: &BTreeMap<PathBuf, u32>, those: &BTreeMap<PathBuf, u32>| -> Vec<StoredDirectory> {
            let gone = these.iter().filter(|(path, _)| !those.contains_key(*path));
            gone.map(|(path, mode)| StoredDirectory { path: self.root().join(path), mode: Some(*mode) })
                .collect()
        };
        let (made, removed) =
            (only(&after.directories, &before.directories), only(&before.directories, &after.directories));
        if steps.is_empty() && made.is_empty() && removed.is_empty() {
            return Ok(wrote);
        }
        let inner = &self.workspace.inner;
        let _lock = inner.state.lock(LOCK, LOCK_DEADLINE)?;
        let journal = Journal::new(&inner.state)?;
        inner.describe()?;
        let entry = Entry { steps, made, removed, ..Entry::new(journal.next_id()?, run, label) };
        journal.store(&entry.id, &pack)?;
        journal.write_pending(&entry)?;
        journal.finish(&entry.id)?;
        wrote.commit = Some(entry.id);
        Ok(wrote)
    }
}

/// Reads the content of a file or a link, if it can be kept.
fn image(path: &AbsPath) -> Option<Image> {
    match disk::inspect(path) {
        Ok(Found::File(image)) => Some(image),
        Ok(Found::Nothing | Found::Directory) | Err(_) => None,
    }
}
