//! Stamps of files by `stat`, which detect changes without reading.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A second change within this time may leave the timestamps unchanged.
const TICK: Duration = Duration::from_millis(50);

/// Device and inode, size, mtime and ctime in nanoseconds; all zero if missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: (u64, u64),
    size: u64,
    times: (i128, i128),
    /// Whether the file changed so recently that the next change may not show.
    fresh: bool,
}

impl Stamp {
    /// Stamps a path; follows links. Takes about a microsecond.
    pub(crate) fn of(path: &Path) -> Self {
        let Ok(meta) = std::fs::metadata(path) else { return Self::default() };
        let time = |secs: i64, nanos: i64| i128::from(secs) * 1_000_000_000 + i128::from(nanos);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let changed = time(meta.ctime(), meta.ctime_nsec());
        let age = i128::try_from(now.as_nanos()).unwrap_or(i128::MAX) - changed;
        Self {
            inode: (meta.dev(), meta.ino()),
            size: meta.len(),
            times: (time(meta.mtime(), meta.mtime_nsec()), changed),
            fresh: age.unsigned_abs() < TICK.as_nanos(),
        }
    }

    /// Whether the file is unchanged; false right after a change, when that is unknown.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.is_same(&Self::of(path))
    }

    /// Whether a later stamp of the file shows no change; false if that is unknown.
    pub(crate) fn is_same(&self, now: &Self) -> bool {
        !self.fresh && self == now
    }
}
