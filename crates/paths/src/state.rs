//! Pilcrow's own directories.
//!
//! A [`StateDir`] can name no path outside itself. Directories are 0700, files 0600; every call
//! blocks on the file system.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path};
use std::sync::mpsc;
use std::time::Duration;

use crate::AbsPath;

#[derive(Debug, Clone)]
pub struct Homes {
    /// Configuration, written by the user.
    pub config: AbsPath,
    /// Lasting state: workspaces, sessions, journals, trust, logs.
    pub state: StateDir,
    /// Installed language servers and debug adapters.
    pub data: StateDir,
    /// Files that Pilcrow can create again.
    pub cache: StateDir,
    pub run: StateDir,
}

/// A directory of Pilcrow's own.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: AbsPath,
}

/// A held lock; released when dropped.
#[derive(Debug)]
pub struct StateLock {
    file: std::fs::File,
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is starting has a copy of the file, and with it the
        // lock, until it executes its program.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "closing the file releases the lock");
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// No home directory is known.
    #[error("neither PILCROW_HOME nor HOME is set to an absolute path; set one of them")]
    NoHome,
    /// A name that points outside the directory.
    #[error("{name:?} is not the name of a file in Pilcrow's directory")]
    BadName { name: String },
    /// Another process holds the lock.
    #[error("{path} is locked by another process (waited {waited:?}); try again when that ends")]
    Locked { path: AbsPath, waited: Duration },
    /// A file in the format of a newer program.
    #[error("{path} has format {found}; this version reads up to {known}; use a newer Pilcrow")]
    NewerFormat { path: AbsPath, found: u64, known: u64 },
    /// A malformed file.
    #[error("{path} is damaged; repair or remove it: {detail}")]
    Damaged { path: AbsPath, detail: String },
    #[error("{path}: {source}")]
    Io { path: AbsPath, source: std::io::Error },
}

impl Homes {
    /// Finds the directories in the environment.
    ///
    /// Uses `PILCROW_HOME`, else the XDG variables, else their defaults under `HOME`.
    ///
    /// # Errors
    ///
    /// [`StateError::NoHome`].
    pub fn from_env() -> Result<Self, StateError> {
        Self::from(|name| std::env::var_os(name))
    }

    /// The directories of this Pilcrow, as spelled and with links resolved.
    pub fn own_directories(&self) -> Vec<AbsPath> {
        let Self { config, state, data, cache, run } = self;
        let kept = [state, data, cache, run].map(|directory| directory.path().clone());
        let spelled = std::iter::once(config.clone()).chain(kept);
        spelled.flat_map(|directory| [crate::canonical_existing(&directory), directory]).collect()
    }

    fn from(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, StateError> {
        let absolute = |name: &str| variable(name).filter(|value| !value.is_empty()).and_then(AbsPath::new);
        if variable("PILCROW_HOME").is_some_and(|value| !value.is_empty()) {
            let home = absolute("PILCROW_HOME").ok_or(StateError::NoHome)?;
            let dir = |name| StateDir::new(home.join(name));
            return Ok(Self {
                config: home.join("config"),
                state: dir("state"),
                data: dir("data"),
                cache: dir("cache"),
                run: dir("run"),
            });
        }
        let home = absolute("HOME");
        let place = |name: &str, default: &str| {
            absolute(name)
                .or_else(|| home.as_ref().map(|home| home.join(default)))
                .map(|base| base.join("pilcrow"))
                .ok_or(StateError::NoHome)
        };
        let state = place("XDG_STATE_HOME", ".local/state")?;
        let run = absolute("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |run| run.join("pilcrow"));
        Ok(Self {
            config: place("XDG_CONFIG_HOME", ".config")?,
            data: StateDir::new(place("XDG_DATA_HOME", ".local/share")?),
            cache: StateDir::new(place("XDG_CACHE_HOME", ".cache")?),
            run: StateDir::new(run),
            state: StateDir::new(state),
        })
    }
}

impl StateDir {
    /// A directory at `path`, created (0700) on first use.
    pub fn new(path: AbsPath) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &AbsPath {
        &self.path
    }

    /// Creates the directory (0700) if it does not exist, and returns its path.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn make(&self) -> Result<&AbsPath, StateError> {
        make_directory(&self.path)?;
        Ok(&self.path)
    }

    /// A directory inside; `name` may contain `/` but no `..`.
    ///
    /// # Errors
    /// [`StateError::BadName`].
    pub fn child(&self, name: &str) -> Result<Self, StateError> {
        self.entry(name).map(Self::new)
    }

    /// Appends `bytes` to a file (0600), in one write; `sync` flushes it to the disk.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn append(&self, name: &str, bytes: &[u8], sync: bool) -> Result<(), StateError> {
        let path = self.prepare(name)?;
        let append = || {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            file.write_all(bytes)?;
            if sync { file.sync_data() } else { Ok(()) }
        };
        append().map_err(|source| StateError::Io { path: path.clone(), source })
    }

    /// Appends to a file, which becomes `NAME.1` before it exceeds `limit` bytes.
    ///
    /// That replaces the earlier `NAME.1`. [`StateDir::read_rotated`] reads both.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn append_rotated(&self, name: &str, bytes: &[u8], limit: u64) -> Result<(), StateError> {
        let is_full =
            || self.stat(name).is_some_and(|(_, size)| size > 0 && size + bytes.len() as u64 > limit);
        if is_full()
            && let Some(_lock) = self.try_lock(&format!("{name}.lock"))?
            && is_full()
        {
            self.rename(name, &format!("{name}.1"))?;
        }
        self.append(name, bytes, false)
    }

    /// The bytes of a rotated file, oldest first; empty if it does not exist.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn read_rotated(&self, name: &str) -> Result<Vec<u8>, StateError> {
        let older = self.read(&format!("{name}.1"))?.unwrap_or_default();
        Ok([older, self.read(name)?.unwrap_or_default()].concat())
    }

    /// Replaces a file durably: a crash leaves the old or the new one.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn write_atomic(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        let path = self.prepare(name)?;
        let directory = path.parent().unwrap_or_else(|| self.path.clone());
        let temp = directory.join(format!(".{}.{}.tmp", path.file_name(), uuid::Uuid::new_v4().simple()));
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&temp, &path)?;
            File::open(&directory)?.sync_all()
        };
        write().map_err(|source| {
            if let Err(error) = std::fs::remove_file(&temp)
                && error.kind() != ErrorKind::NotFound
            {
                tracing::warn!(path = %temp, %error, "a temporary file stays behind");
            }
            StateError::Io { path: path.clone(), source }
        })
    }

    /// A file's bytes; `None` if it does not exist.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        let path = self.entry(name)?;
        absent_as_none(std::fs::read(&path)).map_err(|source| StateError::Io { path, source })
    }

    /// Names of its entries, sorted; empty if the directory does not exist.
    ///
    /// Omits temporary files.
    ///
    /// # Errors
    ///
    /// [`StateError::Io`].
    pub fn list(&self) -> Result<Vec<String>, StateError> {
        let list = || {
            let Some(entries) = absent_as_none(std::fs::read_dir(&self.path))? else {
                return Ok(Vec::new());
            };
            let mut names = Vec::new();
            for entry in entries {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if !(name.starts_with('.') && name.ends_with(".tmp")) {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        };
        list().map_err(|source| StateError::Io { path: self.path.clone(), source })
    }

    /// A file's modification time (milliseconds since the epoch) and size in bytes.
    ///
    /// `None` if it does not exist or cannot be inspected.
    pub fn stat(&self, name: &str) -> Option<(u64, u64)> {
        let path = self.entry(name).ok()?;
        let metadata = std::fs::metadata(path).ok()?;
        let since = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some((u64::try_from(since.as_millis()).unwrap_or(u64::MAX), metadata.len()))
    }

    /// Removes a file; returns whether it existed.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn remove(&self, name: &str) -> Result<bool, StateError> {
        let path = self.entry(name)?;
        let removed = absent_as_none(std::fs::remove_file(&path));
        removed.map(|found| found.is_some()).map_err(|source| StateError::Io { path, source })
    }

    /// Removes a file or directory with its contents, if it exists.
    ///
    /// A link is removed, not followed.
    ///
    /// # Errors
    /// [`StateError::BadName`], [`StateError::Io`].
    pub fn remove_tree(&self, name: &str) -> Result<(), StateError> {
        let path = self.entry(name)?;
        let remove = || {
            let Some(metadata) = absent_as_none(std::fs::symlink_metadata(&path))? else { return Ok(()) };
            if metadata.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }
        };
        remove().map_err(|source| StateError::Io { path: path.clone(), source })
    }

    /// Removes a directory if it is empty.
    ///
    /// # Errors
    /// [`StateError::BadName`], [`StateError::Io`].
    pub fn remove_if_empty(&self, name: &str) -> Result<(), StateError> {
        let path = self.entry(name)?;
        match absent_as_none(std::fs::remove_dir(&path)) {
            Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
                Err(StateError::Io { path, source: error })
            }
            _ => Ok(()),
        }
    }

    /// Locks the file `name` against other processes and this one.
    ///
    /// Blocks at most `deadline`.
    ///
    /// # Errors
    /// [`StateError::Locked`], [`StateError::Io`].
    pub fn lock(&self, name: &str, deadline: Duration) -> Result<StateLock, StateError> {
        let path = self.prepare(name)?;
        let io = |source| StateError::Io { path: path.clone(), source };
        let file = self.open_lock(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => return Ok(StateLock { file }),
            Err(TryLockError::Error(source)) => return Err(io(source)),
            Err(TryLockError::WouldBlock) => {}
        }
        // The system has no wait with a deadline, so a thread waits. Without a receiver, it
        // releases the lock as soon as it holds it.
        let (send, receive) = mpsc::sync_channel(1);
        let waiter = move || {
            let locked = file.lock().map(|()| file);
            if send.send(locked).is_err() {
                tracing::debug!("a lock was acquired after its deadline and released");
            }
        };
        std::thread::Builder::new().name("lock".into()).spawn(waiter).map_err(io)?;
        match receive.recv_timeout(deadline) {
            Ok(Ok(file)) => Ok(StateLock { file }),
            Ok(Err(source)) => Err(io(source)),
            Err(_) => Err(StateError::Locked { path, waited: deadline }),
        }
    }

    /// [`StateDir::lock`] without waiting: `None` while another holder has it.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn try_lock(&self, name: &str) -> Result<Option<StateLock>, StateError> {
        let path = self.prepare(name)?;
        let file = self.open_lock(&path).map_err(|source| StateError::Io { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => Ok(Some(StateLock { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(StateError::Io { path, source }),
        }
    }

    /// Blocks until no one holds the lock `name` or its file is gone.
    ///
    /// # Errors
    /// [`StateError::BadName`], [`StateError::Io`].
    pub fn wait_unlocked(&self, name: &str) -> Result<(), StateError> {
        let path = self.entry(name)?;
        let wait = || match absent_as_none(File::open(&path))? {
            Some(file) => file.lock_shared(),
            None => Ok(()),
        };
        wait().map_err(|source| StateError::Io { path: path.clone(), source })
    }

    /// Writes a new file durably, except for its entry in the directory.
    ///
    /// [`StateDir::sync`] flushes the entry.
    pub fn write_new(&self, name: &str, parts: &[&[u8]]) -> Result<(), StateError> {
        let path = self.prepare(name)?;
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
            for part in parts {
                file.write_all(part)?;
            }
            file.sync_all()
        };
        write().map_err(|source| StateError::Io { path: path.clone(), source })
    }

    /// Renames one of its files or directories, durably.
    ///
    /// Replaces an existing file of the new name.
    ///
    /// # Errors
    /// [`StateError::BadName`], [`StateError::Io`].
    pub fn rename(&self, from: &str, to: &str) -> Result<(), StateError> {
        let (from, to) = (self.entry(from)?, self.prepare(to)?);
        std::fs::rename(&from, &to).map_err(|source| StateError::Io { path: to, source })?;
        self.sync()
    }

    /// Removes the temporary files that a crash of [`StateDir::write_atomic`] left.
    ///
    /// Call it only under a lock that every writer of this directory holds.
    pub fn remove_temps(&self) -> Result<(), StateError> {
        let remove = || {
            let Some(entries) = absent_as_none(std::fs::read_dir(&self.path))? else { return Ok(()) };
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with('.') && name.ends_with(".tmp") {
                    std::fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        remove().map_err(|source| StateError::Io { path: self.path.clone(), source })
    }

    /// Flushes the directory's entries.
    pub fn sync(&self) -> Result<(), StateError> {
        let sync = || File::open(&self.path)?.sync_all();
        sync().map_err(|source| StateError::Io { path: self.path.clone(), source })
    }

    fn open_lock(&self, path: &AbsPath) -> std::io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
    }

    /// The path of `name`, checked.
    fn entry(&self, name: &str) -> Result<AbsPath, StateError> {
        let inside = !name.is_empty()
            && !name.contains('\0')
            && Path::new(name).components().all(|component| matches!(component, Component::Normal(_)));
        if inside { Ok(self.path.join(name)) } else { Err(StateError::BadName { name: name.to_owned() }) }
    }

    /// The path of `name`, after creating its directory.
    fn prepare(&self, name: &str) -> Result<AbsPath, StateError> {
        let path = self.entry(name)?;
        let directory = path.parent().unwrap_or_else(|| self.path.clone());
        make_directory(&directory)?;
        Ok(path)
    }
}

fn make_directory(directory: &AbsPath) -> Result<(), StateError> {
    if directory.as_path().is_dir() {
        return Ok(());
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| StateError::Io { path: directory.clone(), source })
}

fn absent_as_none<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn dir() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(AbsPath::new(temp.path().join("ours")).unwrap());
        (temp, dir)
    }

    #[test]
    fn a_lock_is_released_while_a_starting_child_holds_a_copy() {
        let (_temp, dir) = dir();
        let held = dir.try_lock("x").unwrap().unwrap();
        let copy = held.file.try_clone().unwrap();
        assert!(dir.try_lock("x").unwrap().is_none());
        drop(held);
        assert!(dir.try_lock("x").unwrap().is_some());
        drop(copy);
    }

    #[test]
    fn a_rotated_file_keeps_its_newest_two_parts() {
        let (_temp, dir) = dir();
        for number in 0..100 {
            dir.append_rotated("log", format!("{number:09}\n").as_bytes(), 100).unwrap();
        }
        dir.append_rotated("log", &[b'y'; 300], 100).unwrap();
        let bytes = dir.read_rotated("log").unwrap();
        assert!(bytes.len() <= 400 && bytes.ends_with(&[b"000000099\n".as_slice(), &[b'y'; 300]].concat()));
        assert_eq!(dir.list().unwrap(), ["log", "log.1", "log.lock"]);
    }

    #[test]
    fn no_name_leaves_the_directory() {
        let (_temp, dir) = dir();
        for name in ["", "..", "a/../../b", "/etc/passwd", "a/..", "a\0b", "."] {
            assert!(matches!(dir.child(name), Err(StateError::BadName { .. })), "{name:?}");
            assert!(matches!(dir.append(name, b"x", false), Err(StateError::BadName { .. })), "{name:?}");
            assert!(matches!(dir.read(name), Err(StateError::BadName { .. })), "{name:?}");
        }
        assert_eq!(dir.child("a/b").unwrap().path(), &dir.path().join("a/b"));
    }

    #[test]
    fn files_are_readable_by_the_user_only() {
        let (_temp, dir) = dir();
        dir.append("log/a", b"1", true).unwrap();
        dir.append("log/a", b"2", false).unwrap();
        dir.write_atomic("b", b"old").unwrap();
        dir.write_atomic("b", b"new").unwrap();
        assert_eq!(dir.read("log/a").unwrap().unwrap(), b"12");
        assert_eq!(dir.read("b").unwrap().unwrap(), b"new");
        assert_eq!(dir.read("c").unwrap(), None);
        assert_eq!(dir.list().unwrap(), ["b", "log"]);
        let mode =
            |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("log"), mode("log/a"), mode("b")], [0o700, 0o600, 0o600]);
        assert!(dir.remove("b").unwrap());
        assert!(!dir.remove("b").unwrap());
        assert_eq!(dir.child("missing").unwrap().list().unwrap(), [""; 0]);
    }

    #[test]
    fn trees_are_removed_and_links_are_not_followed() {
        let (temp, dir) = dir();
        let outside = temp.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "").unwrap();
        dir.append("a/b/c", b"1", false).unwrap();
        std::os::unix::fs::symlink(&outside, dir.path().join("a/link")).unwrap();
        std::os::unix::fs::symlink(&outside, dir.path().join("link")).unwrap();
        dir.remove_if_empty("a").unwrap();
        assert_eq!(dir.list().unwrap(), ["a", "link"]);
        for name in ["a", "link", "missing"] {
            dir.remove_tree(name).unwrap();
        }
        dir.child("empty").unwrap().make().unwrap();
        dir.remove_if_empty("empty").unwrap();
        assert_eq!(dir.list().unwrap(), [""; 0]);
        assert!(outside.join("kept").exists());
        assert!(matches!(dir.remove_tree("../outside"), Err(StateError::BadName { .. })));
    }

    #[test]
    fn lock_waits_until_the_deadline() {
        let (_temp, dir) = dir();
        let held = dir.lock("l", Duration::from_secs(5)).unwrap();
        assert!(dir.try_lock("l").unwrap().is_none());
        assert!(matches!(dir.lock("l", Duration::from_millis(20)), Err(StateError::Locked { .. })));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| dir.lock("l", Duration::from_secs(20)).is_ok());
            drop(held);
            assert!(waiting.join().unwrap());
        });
        let held = dir.lock("l", Duration::from_secs(5)).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| dir.wait_unlocked("l"));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
        dir.wait_unlocked("absent").unwrap();
        assert_eq!(dir.list().unwrap(), ["l"]);
    }

    #[test]
    fn environment_variables_select_the_directories() {
        let homes = |variables: &[(&str, &str)]| {
            let variables: Vec<(String, OsString)> =
                variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            Homes::from(move |name| {
                variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
            })
        };
        let under = |path: &AbsPath| path.to_string();
        let own = homes(&[("PILCROW_HOME", "/p"), ("HOME", "/h"), ("XDG_STATE_HOME", "/x")]).unwrap();
        assert_eq!([under(&own.config), under(own.state.path())], ["/p/config", "/p/state"]);
        let xdg = homes(&[("HOME", "/h"), ("XDG_STATE_HOME", "/x"), ("XDG_CACHE_HOME", "relative")]).unwrap();
        assert_eq!(under(xdg.state.path()), "/x/pilcrow");
        assert_eq!(under(xdg.cache.path()), "/h/.cache/pilcrow");
        assert_eq!(under(xdg.run.path()), "/x/pilcrow/run");
        assert!(matches!(homes(&[]), Err(StateError::NoHome)));
        assert!(matches!(homes(&[("PILCROW_HOME", "here"), ("HOME", "/h")]), Err(StateError::NoHome)));
    }
}
