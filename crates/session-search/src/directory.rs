//! Directory of tantivy over a state directory.
//!
//! It writes nothing elsewhere, and reads each file completely, since tantivy opens files only
//! for a search.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paths::{StateDir, StateError};
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, DirectoryLock, FileHandle, Lock, OwnedBytes, TerminatingWrite, WatchCallback, WatchHandle,
    WritePtr,
};

/// Minimum size of a segment file; tantivy 0.27 panics on a shorter one.
const SHORTEST: usize = 8;

#[derive(Clone)]
pub(crate) struct Files(pub StateDir);

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({})", self.0.path())
    }
}

impl Files {
    fn read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        let failed = |error| OpenReadError::wrap_io_error(error, path.to_path_buf());
        let bytes = self.0.read(name(path).map_err(failed)?).map_err(|error| failed(io_error(error)))?;
        bytes.ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_path_buf()))
    }
}

impl tantivy::Directory for Files {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let bytes = self.read(path)?;
        if bytes.len() < SHORTEST {
            let error = io::Error::new(io::ErrorKind::InvalidData, "the file is truncated");
            return Err(OpenReadError::wrap_io_error(error, path.to_path_buf()));
        }
        Ok(Arc::new(OwnedBytes::new(bytes)))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        let failed = |error| DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_path_buf() };
        match self.0.remove(name(path).map_err(failed)?) {
            Ok(true) => Ok(()),
            Ok(false) => Err(DeleteError::FileDoesNotExist(path.to_path_buf())),
            Err(error) => Err(failed(io_error(error))),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        let name = name(path).map_err(|error| OpenReadError::wrap_io_error(error, path.to_path_buf()))?;
        Ok(self.0.stat(name).is_some())
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let failed = |error| OpenWriteError::wrap_io_error(error, path.to_path_buf());
        if self.0.stat(name(path).map_err(failed)?).is_some() {
            return Err(OpenWriteError::FileAlreadyExists(path.to_path_buf()));
        }
        let file = Growing { dir: self.0.clone(), path: path.to_path_buf(), bytes: Vec::new() };
        Ok(BufWriter::new(Box::new(file)))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.0.write_atomic(name(path)?, data).map_err(io_error)
    }

    // Each file is flushed with its directory when it is written.
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    // The caller holds a state lock, which ends with its process; a lock file of tantivy would remain after a
    // crash.
    fn acquire_lock(&self, _: &Lock) -> Result<DirectoryLock, LockError> {
        Ok(DirectoryLock::from(Box::new(())))
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}

/// A file that becomes visible when it is complete.
struct Growing {
    dir: StateDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for Growing {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.dir.write_atomic(name(&self.path)?, &self.bytes).map_err(io_error)
    }
}

fn name(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a file name that is not UTF-8"))
}

fn io_error(error: StateError) -> io::Error {
    match error {
        StateError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}
