//! Git's index, read as a value: the tracked files with their last known metadata.
//!
//! Reads versions 2 to 4 of `gitformat-index`, with SHA-1. Any other format has no entries, and its files
//! count as changed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum size of an index, in bytes; a million files need about 100 MiB.
const MAX_INDEX: u64 = 256 << 20;

/// A file's metadata as git last recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tracked {
    pub blob: [u8; 20],
    ctime: (u32, u32),
    mtime: (u32, u32),
    inode: u32,
    size: u32,
}

/// Current metadata of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileStat {
    pub size: u64,
    /// Time of the last inode change, in seconds and nanoseconds.
    pub ctime: (i64, i64),
    /// Time of the last content change.
    pub mtime: (i64, i64),
    pub inode: u64,
}

/// The index of the repository that a directory is in.
#[derive(Debug)]
pub(crate) struct Index {
    /// The repository's own directory.
    pub git: PathBuf,
    /// Tracked files by path from the directory for which the index was read.
    pub files: HashMap<PathBuf, Tracked>,
    written: Option<SystemTime>,
}

impl Tracked {
    /// Whether a file of this size, times and inode is certainly unchanged.
    ///
    /// `written` is the time when git wrote the index: a file may change in that moment after git saw it. The
    /// time of its last change of any kind counts too, because a program can set the modification time back.
    fn is_unchanged(&self, stat: FileStat, written: Option<SystemTime>) -> bool {
        let FileStat { size, ctime, mtime, inode } = stat;
        // The index stores 32 bits.
        let cut = |n: u64| u32::try_from(n & 0xffff_ffff).unwrap_or_default();
        let same = |(seconds, nanos): (i64, i64), kept: (u32, u32)| {
            u32::try_from(seconds).ok() == Some(kept.0)
                && (kept.1 == 0 || u32::try_from(nanos).ok() == Some(kept.1))
        };
        let (seconds, nanos) = mtime;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
        let changed = changed.map(|(seconds, nanos)| UNIX_EPOCH + Duration::new(seconds, nanos));
        cut(size) == self.size
            && same(mtime, self.mtime)
            && same(ctime, self.ctime)
            && (self.inode == 0 || cut(inode) == self.inode)
            && changed.zip(written).is_some_and(|(changed, written)| changed < written)
    }
}

impl Index {
    /// Reads the index of the repository that `root` is in. Blocks on the file system.
    pub fn of(root: &Path) -> Option<Self> {
        let top = root.ancestors().find(|directory| directory.join(".git").exists())?;
        let dot_git = top.join(".git");
        let git = if dot_git.is_dir() {
            dot_git
        } else {
            let text = paths::read_settings(&dot_git).ok()?;
            top.join(text.trim().strip_prefix("gitdir:")?.trim())
        };
        let file = git.join("index");
        let bytes = paths::read_file(&file, MAX_INDEX).ok()?;
        let written = std::fs::metadata(&file).and_then(|meta| meta.modified()).ok();
        let below = root.strip_prefix(top).ok()?;
        let mut files = HashMap::new();
        for (path, tracked) in parse(&bytes)? {
            if let Ok(path) = path.strip_prefix(below) {
                files.insert(path.to_owned(), tracked);
            }
        }
        Some(Self { git, files, written })
    }

    /// Returns the blob of a file that is certainly unchanged in git.
    pub fn clean(&self, path: &Path, stat: FileStat) -> Option<[u8; 20]> {
        let tracked = self.files.get(path)?;
        tracked.is_unchanged(stat, self.written).then_some(tracked.blob)
    }
}

/// The entries of an index; `None` for an unknown format.
fn parse(bytes: &[u8]) -> Option<Vec<(PathBuf, Tracked)>> {
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let version = word(4)?;
    if bytes.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let count = word(8)?;
    let mut at = 12;
    let mut previous: Vec<u8> = Vec::new();
    let mut entries = Vec::new();
    for _ in 0..count {
        let start = at;
        let tracked = Tracked {
            blob: bytes.get(start + 40..start + 60)?.try_into().ok()?,
            ctime: (word(start)?, word(start + 4)?),
            mtime: (word(start + 8)?, word(start + 12)?),
            inode: word(start + 20)?,
            size: word(start + 36)?,
        };
        let flags = half(start + 60)?;
        at = start + 62;
        if flags & 0x4000 != 0 {
            at += 2;
        }
        let name = if version == 4 {
            let (strip, after) = offset(bytes, at)?;
            let end = after + bytes.get(after..)?.iter().position(|byte| *byte == 0)?;
            let kept = previous.len().checked_sub(strip)?;
            at = end + 1;
            [&previous[..kept], &bytes[after..end]].concat()
        } else {
            let end = at + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
            let name = bytes[at..end].to_vec();
            // Git pads each entry to a multiple of eight, with at least one zero.
            at = start + ((end - start) / 8 + 1) * 8;
            name
        };
        // An entry in conflict has no content of its own.
        if flags & 0x3000 == 0 {
            entries.push((PathBuf::from(OsStr::from_bytes(&name)), tracked));
        }
        previous = name;
    }
    // Entries of a shared index are missing here, so nothing is known.
    let split = bytes.get(at..)?.windows(4).take(64).any(|window| window == b"link");
    (!split).then_some(entries)
}

/// Reads a number of git's variable width, and the position after it.
fn offset(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some((value, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Runs git in a directory, without the user's configuration.
    fn git(directory: &Path, args: &[&str]) {
        let mut command = std::process::Command::new("git");
        for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
            command.env_remove(name);
        }
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.fsmonitor=false"];
        let done = command
            .current_dir(directory)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .args(identity)
            .args(args)
            .output();
        let done = done.unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn every_version_of_the_index_is_read() {
        for version in ["2", "3", "4"] {
            let temp = tempfile::tempdir().unwrap();
            let root = temp.path();
            git(root, &["init", "-q"]);
            std::fs::create_dir_all(root.join("sub/deep")).unwrap();
            let long = format!("sub/{}", "x".repeat(200));
            let names = ["a", "ab.txt", "sub/a long name.txt", "sub/deep/é", long.as_str()];
            names.iter().for_each(|name| std::fs::write(root.join(name), name).unwrap());
            git(root, &["add", "."]);
            git(root, &["update-index", "--index-version", version]);
            let index = Index::of(root).unwrap();
            assert_eq!(index.files.len(), names.len());
            for name in names {
                let meta = std::fs::symlink_metadata(root.join(name)).unwrap();
                let tracked = index.files[Path::new(name)];
                let later = Some(SystemTime::now() + Duration::from_secs(5));
                let mtime = (meta.mtime(), meta.mtime_nsec());
                let ctime = (meta.ctime(), meta.ctime_nsec());
                let stat = FileStat { size: meta.len(), ctime, mtime, inode: meta.ino() };
                assert!(tracked.is_unchanged(stat, later), "{version} {name}");
                assert!(!tracked.is_unchanged(FileStat { size: meta.len() + 1, ..stat }, later));
                assert!(
                    !tracked.is_unchanged(FileStat { ctime: (ctime.0 + 1, ctime.1), ..stat }, later),
                    "set back"
                );
                assert!(!tracked.is_unchanged(stat, Some(UNIX_EPOCH)), "too close to be sure");
            }
            assert_eq!(Index::of(&root.join("sub")).unwrap().files.len(), 3);
        }
    }

    #[test]
    fn an_unknown_index_format_has_no_entries() {
        assert!(parse(b"").is_none() && parse(b"DIRC\0\0\0\x09\0\0\0\0").is_none());
        assert!(parse(b"DIRC\0\0\0\x02\xff\xff\xff\xffabc").is_none());
    }
}
