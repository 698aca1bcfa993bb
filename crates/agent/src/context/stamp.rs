//! Detects changed files by `stat`, without reading them again.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use paths::AbsPath;

/// A second change within this time may leave the timestamps unchanged.
const TICK: Duration = Duration::from_millis(50);

/// The `stat` data of a set of paths, including missing ones.
///
/// A `stat` costs about a microsecond, so stamps can be checked before every turn. A file watcher would miss
/// renames by editors and files on a network.
#[derive(Debug, Clone, Default)]
pub struct Stamps(BTreeMap<PathBuf, Stamp>);

/// Device and inode, size, mtime and ctime in nanoseconds; all zero if missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    times: (i128, i128),
    /// Whether the file changed so recently that the next change may not show.
    fresh: bool,
}

impl Stamps {
    /// Adds a path, before it is read.
    pub fn add(&mut self, path: &AbsPath) {
        self.0.entry(path.as_path().to_owned()).or_insert_with_key(|path| stamp(path));
    }

    /// Whether all files are certainly unchanged; false right after a change.
    pub fn are_current(&self) -> bool {
        self.0.iter().all(|(path, then)| !then.fresh && stamp(path) == *then)
    }
}

fn stamp(path: &std::path::Path) -> Stamp {
    let Ok(meta) = std::fs::metadata(path) else { return Stamp::default() };
    let time = |secs: i64, nanos: i64| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let changed = time(meta.ctime(), meta.ctime_nsec());
    let age = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX) - changed;
    Stamp {
        inode: (meta.dev(), meta.ino()),
        size: meta.len(),
        times: (time(meta.mtime(), meta.mtime_nsec()), changed),
        fresh: age.unsigned_abs() < TICK.as_nanos(),
    }
}
