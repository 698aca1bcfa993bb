//! Paths that keep their directory while it is used.

use std::io::ErrorKind;
use std::ops::Deref;

use paths::AbsPath;
use rustix::fd::OwnedFd;

/// A path of a file, below an open directory.
///
/// A directory on the way that is replaced by a link leads neither a later operation elsewhere nor
/// this one: the system resolves the path without links, once.
pub(crate) struct Anchored {
    path: AbsPath,
    _directory: Option<OwnedFd>,
}

impl Deref for Anchored {
    type Target = AbsPath;

    fn deref(&self) -> &AbsPath {
        &self.path
    }
}

/// Opens the directory of `path`, which is canonical.
///
/// # Errors
/// When the directory is missing, or a directory on the way has become a link.
#[cfg(target_os = "linux")]
pub(crate) fn anchor(path: &AbsPath) -> std::io::Result<Anchored> {
    use rustix::fd::AsRawFd;
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    let unanchored = || Ok(Anchored { path: path.clone(), _directory: None });
    let Some((directory, name)) = path.parent().zip(path.as_path().file_name()) else { return unanchored() };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, directory.as_path(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(open) => {
            let path = AbsPath::new(format!("/proc/self/fd/{}", open.as_raw_fd()));
            let path = path.ok_or(ErrorKind::InvalidInput)?.join(name);
            Ok(Anchored { path, _directory: Some(open) })
        }
        // Before Linux 5.6, or under a filter of system calls.
        Err(Errno::NOSYS | Errno::PERM) => unanchored(),
        Err(error) => Err(error.into()),
    }
}

/// Returns `path` as it is: other systems cannot resolve it without links.
#[cfg(not(target_os = "linux"))]
pub(crate) fn anchor(path: &AbsPath) -> std::io::Result<Anchored> {
    Ok(Anchored { path: path.clone(), _directory: None })
}
