//! Restores files, and keeps what was in their place beside them.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use paths::AbsPath;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};

use super::file_state::{Content, Inode, Stamp, State, inode, is_directory, open_resolved};
use super::git_settings::new_unsafe_settings;

/// A protected file that a program changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedChange {
    pub path: AbsPath,
    /// How it was reverted, or why the change is still there.
    pub outcome: Result<String, String>,
}

/// The changes of protected files so far.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) all: Vec<ProtectedChange>,
    /// New files with the changes.
    pub(super) kept: Vec<PathBuf>,
}

impl Changes {
    pub(super) fn push(&mut self, path: &Path, outcome: Result<String, String>) {
        let Some(path) = AbsPath::new(path) else { return };
        if self.all.iter().all(|change| change.path != path) {
            self.all.push(ProtectedChange { path, outcome });
        }
    }

    /// Restores what was at `path`; `None` removes it.
    pub(super) fn revert(&mut self, path: &Path, state: Option<&State>, now: Option<&Stamp>) {
        let keys = new_unsafe_settings(path, state, now);
        let outcome = restore(path, state);
        match keys.is_empty() {
            true => self.add(path, outcome, "protected"),
            false => self.add(path, outcome, &format!("it may run programs: {}", keys.join(", "))),
        }
    }

    pub(super) fn set_aside(&mut self, path: &Path, reason: &str) {
        let outcome = restore(path, None);
        self.add(path, outcome, reason);
    }

    pub(super) fn add(&mut self, path: &Path, outcome: Result<Aside, String>, reason: &str) {
        let outcome = outcome.map(|aside| match aside {
            Aside::Nothing => reason.to_owned(),
            Aside::Kept(kept) => {
                let name = kept.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.kept.push(kept);
                format!("{reason}; the change is kept beside it as `{name}`")
            }
            Aside::Dropped(why) => {
                format!("{reason}; the change was removed, as it cannot be renamed: {why}")
            }
        });
        self.push(path, outcome);
    }
}

/// A file that can be found after a move, and whose number is not used again.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) path: AbsPath,
    handle: OwnedFd,
    pub(super) inode: Inode,
    parent: Inode,
}

impl OpenFile {
    pub(super) fn open(path: &AbsPath) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path.as_path(), flags, Mode::empty()).ok()?;
        let (inode, parent) = (inode(path)?, inode(&path.parent()?)?);
        Some(Self { path: path.clone(), handle, inode, parent })
    }

    /// Moves the directory back; `None` if it was removed.
    pub(super) fn restore(&self, kept: &mut Vec<PathBuf>) -> Result<Option<()>, String> {
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let now = std::fs::read_link(link).ok().and_then(AbsPath::new);
        let Some(now) = now.filter(|now| inode(now) == Some(self.inode)) else { return Ok(None) };
        if self.path.parent().and_then(|parent| inode(&parent)) != Some(self.parent) {
            return Err(format!("it was moved to {now}, and its parent directory was moved too"));
        }
        if let Aside::Kept(path) = Parent::open(self.path.as_path())?.set_aside()? {
            kept.push(path);
        }
        std::fs::rename(now.as_path(), self.path.as_path()).map(Some).map_err(|error| error.to_string())
    }
}

/// The end of the file that was at a path.
pub(super) enum Aside {
    Nothing,
    Kept(PathBuf),
    /// It was removed, because it cannot be renamed.
    Dropped(String),
}

/// Restores what was at `path`; `None` removes it.
pub(super) fn restore(path: &Path, state: Option<&State>) -> Result<Aside, String> {
    let failed = |error: rustix::io::Errno| error.to_string();
    if let Some(State { content: Content::Unknown, .. }) = state {
        return Err("it is too large or cannot be read".to_owned());
    }
    let is_link = |path: &Path| path.is_symlink();
    if let (None, Some(link)) = (state, path.parent().filter(|path| is_link(path))) {
        // The target may be the user's own.
        return Parent::open(link)?.set_aside();
    }
    let parent = Parent::open(path)?;
    let aside = parent.set_aside()?;
    let (directory, name) = (&parent.handle, &parent.name);
    let Some(State { stamp: (_, _, mode, ..), content }) = state else { return Ok(aside) };
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match content {
        Content::Directory => rustix::fs::mkdirat(directory, name, mode).map_err(failed)?,
        Content::Link(target) => rustix::fs::symlinkat(target, directory, name).map_err(failed)?,
        Content::File(bytes) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            let mut file = std::fs::File::from(file);
            file.write_all(bytes).map_err(|error| error.to_string())?;
            rustix::fs::fchmod(&file, mode).map_err(failed)?;
        }
        Content::Unknown => {}
    }
    Ok(aside)
}

/// The directory of a path, which another program may move meanwhile.
pub(super) struct Parent {
    handle: OwnedFd,
    pub(super) path: PathBuf,
    name: PathBuf,
}

impl Parent {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err("it has no directory".to_owned());
        };
        let handle =
            open_resolved(parent, OFlags::PATH | OFlags::DIRECTORY).map_err(|error| match error {
                rustix::io::Errno::LOOP => "its directory is a link now".to_owned(),
                rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => {
                    "its directory was deleted".to_owned()
                }
                error => error.to_string(),
            })?;
        let parent = Self { handle, path: parent.to_owned(), name: name.into() };
        // A program may have taken the rights to change it.
        let here = parent.proc_path();
        if let Some(mode) = here.metadata().ok().map(|meta| meta.mode()).filter(|mode| mode & 0o300 != 0o300)
        {
            set_mode(&here, mode | 0o300);
        }
        Ok(parent)
    }

    pub(super) fn proc_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd()).into()
    }

    /// Renames what is at the path: it may be the user's own, so it stays beside it.
    pub(super) fn set_aside(&self) -> Result<Aside, String> {
        if rustix::fs::statat(&self.handle, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(Aside::Nothing);
        }
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let numbered = (1..10).map(|number| self.name.with_added_extension(format!("reverted-{number}")));
        // Programs may have created those names, or used all of the length.
        let others =
            [self.name.with_added_extension(format!("reverted-{time}")), format!("reverted-{time}").into()];
        let mut failure = String::new();
        for aside in numbered.chain(others) {
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(&self.handle, &self.name, &self.handle, &aside, flags) {
                Ok(()) => return Ok(Aside::Kept(self.path.join(aside))),
                Err(error) => failure = error.to_string(),
            }
        }
        let path = self.proc_path().join(&self.name);
        #[expect(clippy::disallowed_methods, reason = "a change that must not stay, without a place for it")]
        let removed = match is_directory(&path) {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        removed.map(|()| Aside::Dropped(failure)).map_err(|error| error.to_string())
    }
}

/// Restores the mode of a directory; returns whether it was another.
pub(super) fn restore_mode(path: &Path, mode: u32) -> bool {
    let Ok(directory) = open_resolved(path, OFlags::PATH | OFlags::DIRECTORY) else { return false };
    let here = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    here.metadata().is_ok_and(|meta| meta.mode() != mode) && set_mode(&here, mode)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> bool {
    rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777)).is_ok()
}
