//! Scan of the files and directories of a workspace with their marks.
//!
//! Reads no contents.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ignore::{DirEntry, WalkBuilder, WalkState};
use parking_lot::Mutex;
use paths::AbsPath;

use super::CommandSnapshot;
use crate::command_snapshot::git_index::{FileStat, Index};
use crate::documents::disk;
use crate::search::{Omitted, is_version_control, limit};

const MOST_THREADS: usize = 8;

/// Metadata of a file, which differs after a change of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub size: u64,
    pub mtime: (i64, i64),
    pub ctime: (i64, i64),
    pub inode: u64,
    pub mode: u32,
    pub is_link: bool,
}

impl Stamp {
    pub fn of(meta: &std::fs::Metadata) -> Self {
        Self {
            size: meta.len(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
            mode: disk::mode(meta),
            is_link: meta.is_symlink(),
        }
    }

    pub fn stat(&self) -> FileStat {
        FileStat { size: self.size, ctime: self.ctime, mtime: self.mtime, inode: self.inode }
    }
}

/// Entries of a walk, by path below the root.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub files: BTreeMap<PathBuf, Stamp>,
    pub directories: BTreeMap<PathBuf, u32>,
    pub known_directories: HashSet<u64>,
    /// Pipes, sockets and devices, by inode.
    pub special: BTreeMap<PathBuf, u64>,
}

/// Finds every unignored file, link and directory below `root`.
///
/// Includes files and links that git tracks, but nothing in `without`. Only the project's ignore files count.
pub(super) fn scan(root: &AbsPath, without: Option<AbsPath>, index: Option<&Index>) -> Scan {
    let mut scan = walk(root, without);
    let tracked = index.into_iter().flat_map(|index| index.files.keys());
    for path in tracked.filter(|path| {
        // Skips paths outside the directory.
        path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
    }) {
        if scan.files.contains_key(path) {
            continue;
        }
        let directories = path.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty());
        let is_linked = directories.into_iter().any(|directory| root.join(directory).as_path().is_symlink());
        if let Ok(meta) = std::fs::symlink_metadata(root.join(path).as_path())
            && (meta.is_file() || meta.is_symlink())
            && !is_linked
        {
            scan.files.insert(path.clone(), Stamp::of(&meta));
        }
    }
    scan
}

fn walk(root: &AbsPath, without: Option<AbsPath>) -> Scan {
    let is_included = move |entry: &DirEntry| {
        !is_version_control(entry.file_name())
            && without.as_ref().is_none_or(|without| without.as_path() != entry.path())
    };
    let (walk, omitted) = walk_builder(root, is_included.clone());
    let scan = Mutex::new(Scan::default());
    run(walk, root, &scan);
    // Without readable rules, everything in a directory counts.
    for directory in omitted.lock().iter() {
        let mut walk = WalkBuilder::new(directory);
        walk.standard_filters(false).filter_entry(is_included.clone());
        run(walk, root, &scan);
    }
    scan.into_inner()
}

/// Adds the entries of a walk to a scan of `root`.
fn run(mut walk: WalkBuilder, root: &AbsPath, shared: &Mutex<Scan>) {
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS));
    walk.threads(threads).build_parallel().run(|| {
        // Each thread hands over its entries when it is done.
        let mut thread = ThreadScan { scan: Scan::default(), shared };
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            let (Ok(relative), Ok(meta)) = (entry.path().strip_prefix(root), entry.metadata()) else {
                return WalkState::Continue;
            };
            if meta.is_dir() {
                if !relative.as_os_str().is_empty() {
                    thread.scan.directories.insert(relative.to_owned(), disk::mode(&meta));
                    thread.scan.known_directories.insert(meta.ino());
                }
            } else if meta.is_file() || meta.is_symlink() {
                thread.scan.files.insert(relative.to_owned(), Stamp::of(&meta));
            } else {
                thread.scan.special.insert(relative.to_owned(), meta.ino());
            }
            WalkState::Continue
        })
    });
}

/// A walk of all that the project's own ignore files leave.
///
/// Returns also the directories that it omits because of their ignore files.
pub(super) fn walk_builder(
    root: &AbsPath,
    is_included: impl Fn(&DirEntry) -> bool + Send + Sync + 'static,
) -> (WalkBuilder, Omitted) {
    let in_repository = root.as_path().ancestors().any(|directory| directory.join(".git").exists());
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false)
        .ignore(false)
        .require_git(in_repository)
        // Files that only the user's own ignore files hide are included.
        .git_exclude(false)
        .git_global(false)
        .parents(in_repository);
    let omitted = limit(&mut walk, root.as_path(), true, is_included);
    (walk, omitted)
}

struct ThreadScan<'a> {
    scan: Scan,
    shared: &'a Mutex<Scan>,
}

impl Drop for ThreadScan<'_> {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        shared.files.append(&mut self.scan.files);
        shared.directories.append(&mut self.scan.directories);
        shared.known_directories.extend(self.scan.known_directories.drain());
        shared.special.append(&mut self.scan.special);
    }
}

pub(super) fn changed(before: &BTreeMap<PathBuf, Stamp>, after: &BTreeMap<PathBuf, Stamp>) -> Vec<PathBuf> {
    let differs = before.iter().filter(|(path, stamp)| after.get(*path) != Some(*stamp));
    let new = after.keys().filter(|path| !before.contains_key(*path));
    differs.map(|(path, _)| path).chain(new).cloned().collect()
}

/// Corrects differences that exist only because an ignore file changed in between.
///
/// A file that still exists is not deleted, and one that existed is not new. Returns the files whose earlier
/// content is unknown. Blocks.
pub(super) fn undo_ignore_changes(
    root: &AbsPath,
    before: &CommandSnapshot,
    after: &mut Scan,
) -> Vec<PathBuf> {
    let metadata = |path: &Path| std::fs::symlink_metadata(root.join(path).as_path()).ok();
    for path in before.files.keys() {
        if !after.files.contains_key(path)
            && let Some(meta) = metadata(path)
            && (meta.is_file() || meta.is_symlink())
        {
            after.files.insert(path.clone(), Stamp::of(&meta));
        }
    }
    for (path, mode) in &before.directories {
        if !after.directories.contains_key(path) && metadata(path).is_some_and(|meta| meta.is_dir()) {
            after.directories.insert(path.clone(), *mode);
        }
    }
    let is_older = |time: std::io::Result<SystemTime>| time.is_ok_and(|time| time < before.began);
    after.directories.retain(|path, _| {
        // A moved directory is as old as before, and new at its path.
        let is_old = |meta: std::fs::Metadata| {
            is_older(meta.created()) && !before.known_directories.contains(&meta.ino())
        };
        before.directories.contains_key(path) || !metadata(path).is_some_and(is_old)
    });
    let known: HashSet<u64> = before.files.values().map(|stamp| stamp.inode).collect();
    let mut unsure = Vec::new();
    after.files.retain(|path, stamp| {
        // A moved file keeps its inode, and its content is stored under the old name.
        if before.files.contains_key(path) || known.contains(&stamp.inode) {
            return true;
        }
        let nanos = u64::try_from(stamp.ctime.1).unwrap_or_default();
        let seconds = u64::try_from(stamp.ctime.0).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        if changed < before.began {
            return false;
        }
        let was_there = metadata(path).is_some_and(|meta| is_older(meta.created()));
        if was_there {
            unsure.push(path.clone());
        }
        !was_there
    });
    unsure
}

/// Returns the timestamp that a new file would get now.
#[cfg(target_os = "linux")]
pub(crate) fn file_clock() -> SystemTime {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    let since =
        Duration::from_secs(seconds.unwrap_or_default()) + Duration::from_nanos(nanos.unwrap_or_default());
    SystemTime::UNIX_EPOCH + since
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn file_clock() -> SystemTime {
    SystemTime::now()
}
