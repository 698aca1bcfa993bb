//! Our own folders. A [`StateDir`] can name no path outside itself.

use std::time::Duration;

use crate::{AbsPath, ErrorCode};

/// Where our own things are.
#[derive(Debug, Clone)]
pub struct Homes {
    /// What the person wrote: configuration.
    pub config: AbsPath,
    /// What must last: workspaces, sessions, journals, trust, logs.
    pub state: StateDir,
    /// What was installed: adapters.
    pub data: StateDir,
    /// What can be made again.
    pub cache: StateDir,
    /// Sockets.
    pub run: StateDir,
}

/// A folder of our own.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: AbsPath,
}

/// A held lock; released when dropped.
#[derive(Debug)]
pub struct StateLock {
    _file: std::fs::File,
}

/// Our own files failed us.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// No home folder is known.
    #[error("neither PILCROW_HOME nor HOME is set to an absolute path; set one of them")]
    NoHome,
    /// A name that would leave the folder.
    #[error("{name:?} is not a name inside our own folder")]
    BadName {
        /// The name.
        name: String,
    },
    /// Another process holds the lock.
    #[error("{path} is locked by another process; waited {waited:?}")]
    Locked {
        /// The lock file.
        path: AbsPath,
        /// For how long.
        waited: Duration,
    },
    /// A file of a newer program.
    #[error("{path} has format {found}, this program knows up to {known}; use a newer Pilcrow")]
    NewerFormat {
        /// The file.
        path: AbsPath,
        /// Its format.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// A file that is not what it should be.
    #[error("{path} is damaged: {detail}")]
    Damaged {
        /// The file.
        path: AbsPath,
        /// How.
        detail: String,
    },
    /// The system's error.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: AbsPath,
        /// The cause.
        source: std::io::Error,
    },
}

impl StateError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Locked { .. } => ErrorCode::Conflict,
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                ErrorCode::DiskFull
            }
            Self::Io { .. } | Self::NoHome | Self::Damaged { .. } => ErrorCode::IoError,
            Self::BadName { .. } => ErrorCode::InvalidArguments,
            Self::NewerFormat { .. } => ErrorCode::Unsupported,
        }
    }
}

impl Homes {
    /// From `PILCROW_HOME`, else the XDG variables, else their defaults under `HOME`.
    ///
    /// # Errors
    /// [`StateError::NoHome`].
    pub fn from_env() -> Result<Self, StateError> {
        unimplemented!()
    }
}

impl StateDir {
    /// A folder of our own at `path`; made (0700) on first use.
    pub fn new(path: AbsPath) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        &self.path
    }

    /// A folder inside; `name` may hold `/` but no `..`.
    ///
    /// # Errors
    /// [`StateError::BadName`].
    pub fn child(&self, name: &str) -> Result<Self, StateError> {
        let _ = name;
        unimplemented!()
    }

    /// Appends `bytes` to a file (0600), in one write; `sync` flushes it to the disk.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn append(&self, name: &str, bytes: &[u8], sync: bool) -> Result<(), StateError> {
        let _ = (name, bytes, sync);
        unimplemented!()
    }

    /// Replaces a file whole, durably: a crash leaves the old or the new one.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn write_atomic(&self, name: &str, bytes: &[u8]) -> Result<(), StateError> {
        let _ = (name, bytes);
        unimplemented!()
    }

    /// A file's bytes; `None` when it is not there.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StateError> {
        let _ = name;
        unimplemented!()
    }

    /// Names of its entries, sorted; empty when the folder is not there.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn list(&self) -> Result<Vec<String>, StateError> {
        unimplemented!()
    }

    /// Removes a file; says whether it was there.
    ///
    /// # Errors
    /// [`StateError::Io`].
    pub fn remove(&self, name: &str) -> Result<bool, StateError> {
        let _ = name;
        unimplemented!()
    }

    /// Locks the file `name` against every other process; blocks at most `deadline`.
    ///
    /// # Errors
    /// [`StateError::Locked`], [`StateError::Io`].
    pub fn lock(&self, name: &str, deadline: Duration) -> Result<StateLock, StateError> {
        let _ = (name, deadline);
        unimplemented!()
    }
}
