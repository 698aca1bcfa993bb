//! States of files, found without following links.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use paths::AbsPath;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::MAX_FILE;

/// Device and number.
pub(super) type Inode = (u64, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) stamp: Stamp,
    pub(super) content: Content,
}

/// Inode, size, mode, and times of content and status in nanoseconds.
///
/// No program can set the last one.
pub(super) type Stamp = (u64, u64, u32, i128, i128);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Directory,
    Link(PathBuf),
    File(Vec<u8>),
    /// A large or special file, or one that cannot be read.
    Unknown,
}

pub(super) fn inode(path: &AbsPath) -> Option<Inode> {
    path.as_path().symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

pub(super) fn exists(path: &AbsPath) -> bool {
    path.as_path().symlink_metadata().is_ok()
}

pub(super) fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

pub(super) fn is_directory_mode(mode: u32) -> bool {
    rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Directory
}

pub(super) fn read(path: &Path, (_, size, mode, ..): Stamp, left: &mut u64) -> Content {
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

/// Reads a file of at most [`MAX_FILE`] bytes.
pub(super) fn read_whole(path: &Path, stamp: Stamp) -> Content {
    read(path, stamp, &mut MAX_FILE.clone())
}

/// Reads a file of this size, which another program may replace meanwhile.
pub(super) fn read_file(path: &Path, size: u64) -> Option<Vec<u8>> {
    let file = std::fs::File::from(open_resolved(path, OFlags::RDONLY | OFlags::NONBLOCK).ok()?);
    let mut bytes = Vec::new();
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let read = is_file.then(|| file.take(size + 1).read_to_end(&mut bytes).ok()).flatten()?;
    (read as u64 == size).then_some(bytes)
}

/// The stamps of the files at and below `tops`.
///
/// Also returns whether `left` was enough for all.
pub(super) fn scan<'a>(
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

pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    let meta = path.symlink_metadata().ok()?;
    let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (modified, status) = (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    Some((meta.ino(), meta.size(), meta.mode(), modified, status))
}

/// Opens a file unless a link leads to it.
pub(super) fn open_resolved(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
