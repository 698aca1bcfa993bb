//! Watched directories, so that a scan of them is repeated only after a change.
//!
//! The kernel queues the report of a change before the call that makes it returns. So a scan is current if its
//! directories did not change between their reading and the watch, and nothing is queued since. File systems that
//! others write to over a network do not report all changes, and are never current; nor is anything on other systems
//! than Linux.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Maximum number of directories.
const LIMIT: usize = 16_384;
/// `f_type` of ext4, XFS, Btrfs, tmpfs, overlayfs, F2FS, ZFS and bcachefs.
const LOCAL: [u64; 8] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E];

/// The directories of a scan.
#[derive(Debug, Default)]
pub struct DirectoryWatch {
    inotify: Option<OwnedFd>,
    /// The kernel's number of each directory.
    watched: HashMap<PathBuf, i32>,
    /// Grows when changes are reported.
    changes: u64,
    /// The number of the last call of [`DirectoryWatch::watch`].
    round: u64,
    is_current: bool,
}

impl DirectoryWatch {
    /// Whether the last scan is current.
    pub fn is_current(&mut self) -> bool {
        self.take_reports();
        self.is_current
    }

    /// The number of the current scan; `None` if no scan is current.
    pub fn current(&mut self) -> Option<u64> {
        self.is_current().then_some(self.changes)
    }

    /// Whether changes in a directory are reported.
    pub(crate) fn covers(&self, directory: &Path) -> bool {
        self.watched.contains_key(directory)
    }

    /// Makes the next scan necessary.
    pub fn expire(&mut self) {
        self.changes += 1;
        self.is_current = false;
    }

    /// Begins a scan; [`DirectoryWatch::end`] takes the result.
    pub fn begin(&mut self) -> u64 {
        self.take_reports();
        self.changes
    }

    /// Watches the directories of a scan.
    ///
    /// After they were read, and before the files in them are examined. `is_changed`: whether a directory that
    /// was not watched before may have changed since it was read. `None` if one may, or cannot be watched.
    pub fn watch(
        &mut self,
        directories: impl IntoIterator<Item = PathBuf>,
        is_changed: impl Fn(&Path) -> bool,
    ) -> Option<u64> {
        let before = std::mem::take(&mut self.watched);
        let mut is_complete = true;
        self.round += 1;
        for directory in directories {
            if self.watched.contains_key(&directory) {
                continue;
            }
            if self.inotify.is_none() && is_local(&directory) {
                self.inotify = open();
            }
            let Some(inotify) = self.inotify.as_ref().filter(|_| self.watched.len() < LIMIT) else {
                is_complete = false;
                break;
            };
            match add(inotify, &directory) {
                Added::Watched(number) => {
                    is_complete &= before.get(&directory) == Some(&number) || !is_changed(&directory);
                    self.watched.insert(directory, number);
                }
                // Its creation is a change of the directory above.
                Added::NoDirectory => {}
                Added::Failed => {
                    is_complete = false;
                    break;
                }
            }
        }
        self.is_current &= is_complete;
        is_complete.then_some(self.round)
    }

    /// Ends the scan that began with `changes` and was watched in `round`.
    pub fn end(&mut self, changes: u64, round: Option<u64>) {
        self.is_current = round == Some(self.round) && self.changes == changes;
    }

    fn take_reports(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(inotify) = &self.inotify
            && rustix::io::read(inotify, &mut buffer).is_ok_and(|length| length > 0)
        {
            self.expire();
        }
    }
}

enum Added {
    Watched(i32),
    NoDirectory,
    Failed,
}

#[cfg(target_os = "linux")]
fn is_local(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|stat| LOCAL.contains(&(stat.f_type as u64)))
}

#[cfg(target_os = "linux")]
fn open() -> Option<OwnedFd> {
    use rustix::fs::inotify::{CreateFlags, init};
    init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()
}

#[cfg(target_os = "linux")]
fn add(inotify: &OwnedFd, directory: &Path) -> Added {
    use rustix::fs::inotify::{WatchFlags, add_watch};
    use rustix::io::Errno;
    let changes = WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    match add_watch(inotify, directory, changes | WatchFlags::ONLYDIR) {
        Ok(number) => Added::Watched(number),
        Err(Errno::NOENT | Errno::NOTDIR) => Added::NoDirectory,
        Err(_) => Added::Failed,
    }
}

#[cfg(not(target_os = "linux"))]
fn is_local(_: &Path) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn open() -> Option<OwnedFd> {
    None
}

#[cfg(not(target_os = "linux"))]
fn add(_: &OwnedFd, _: &Path) -> Added {
    Added::Failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_is_current_until_something_changes() {
        let top = tempfile::tempdir().unwrap();
        let (a, file) = (top.path().join("a"), top.path().join("a/file"));
        std::fs::create_dir(&a).unwrap();
        std::fs::write(&file, "1").unwrap();
        let mut watch = DirectoryWatch::default();
        let is_changed = std::cell::Cell::new(true);
        let scan = |watch: &mut DirectoryWatch| {
            let began = watch.begin();
            let directories = [top.path().to_owned(), a.clone(), a.join("none"), file.clone()];
            let round = watch.watch(directories, |_| is_changed.get());
            watch.end(began, round);
            watch.is_current()
        };
        assert!(!scan(&mut watch), "it may have changed before it was watched");
        assert!(scan(&mut watch));
        let changes: [&dyn Fn(); 5] = [
            &|| std::fs::write(&file, "2").unwrap(),
            &|| {
                std::fs::File::options()
                    .write(true)
                    .open(&file)
                    .unwrap()
                    .set_modified(std::time::UNIX_EPOCH)
                    .unwrap()
            },
            &|| std::fs::rename(&file, a.join("moved")).unwrap(),
            &|| std::fs::create_dir(a.join("none")).unwrap(),
            &|| std::fs::remove_dir(a.join("none")).unwrap(),
        ];
        for change in changes {
            change();
            assert!(!watch.is_current());
            scan(&mut watch);
            assert!(scan(&mut watch));
        }
        // A change during a scan is found by the next one.
        let began = watch.begin();
        std::fs::write(&file, "3").unwrap();
        assert!(!watch.is_current());
        let round = watch.watch([top.path().to_owned(), a.clone()], |_| true);
        watch.end(began, round);
        assert!(!watch.is_current());
        // Directories that did not change since they were read need no second scan.
        is_changed.set(false);
        assert!(scan(&mut DirectoryWatch::default()));
        // Another scan watched other directories meanwhile.
        let began = watch.begin();
        let round = watch.watch([top.path().to_owned()], |_| false);
        watch.watch([a.clone()], |_| false);
        watch.end(began, round);
        assert!(!watch.is_current());
    }
}
