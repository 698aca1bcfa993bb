//! Whether files are as they were when they were read: by what the system says of them, without reading them again.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use workspace::AbsPath;

/// A change that comes as soon after the last one as this may leave the times as they are.
const TICK: Duration = Duration::from_millis(50);

/// What a set of paths was like when it was looked at, those that were not there included. A file that is looked at by `stat` alone
/// costs a microsecond, so that this can be asked before every turn; watching folders by the system's means would miss what editors
/// do by renaming, and files that are on a network.
#[derive(Debug, Clone, Default)]
pub struct Stamps(BTreeMap<PathBuf, Stamp>);

/// Inode, size, and the times of the last change of text and of the file itself, in nanoseconds; all zero for what is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    times: (i128, i128),
    /// It had changed only just: what changes it again may not show.
    fresh: bool,
}

impl Stamps {
    /// Looks at one path more, before it is read.
    pub fn add(&mut self, path: &AbsPath) {
        self.0.entry(path.as_path().to_owned()).or_insert_with_key(|path| stamp(path));
    }

    /// Whether all are as they were. False also where that cannot be told, as right after a change.
    pub fn hold(&self) -> bool {
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
