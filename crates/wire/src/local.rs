//! Streams between processes of one user on one machine: named Unix sockets.
//!
//! A name appears, with mode 0600, when its listener is ready, and is removed with the listener.
//! The process that finds the name of a dead process removes it. Both ends check the uid of the
//! other and accept only their own. Paths longer than the system's limit for sockets are reached
//! through their directory on Linux and refused elsewhere. Systems without Unix sockets are not
//! supported yet; named pipes would fit behind the same functions.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};

/// Reason why two processes do not connect.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The listener has ended. Its stale name is removed.
    #[error("no process listens at {}", path.display())]
    Dead {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The process belongs to another user, or its user is unknown.
    #[error("{} belongs to another user{}, not to {own}", path.display(), match found {
        Some(uid) => format!(" ({uid})"),
        None => String::new(),
    })]
    Foreign {
        /// Path of the socket.
        path: PathBuf,
        /// The uid at the other end.
        found: Option<u32>,
        /// Uid of this process.
        own: u32,
    },
    /// The listener's queue is full: it does not respond.
    #[error("the listener at {} accepts no more connections; try again", path.display())]
    Busy {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The path is too long for a socket on this system.
    #[error("{} is too long for a socket; choose a shorter directory", path.display())]
    TooLong {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The system's error.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A listener with a name, which is removed when the listener is dropped.
#[derive(Debug)]
pub struct Listener {
    inner: UnixListener,
    path: PathBuf,
    node: Option<Node>,
}

/// One connection to a process of the same user.
#[derive(Debug)]
pub struct Stream(UnixStream);

/// A name at which another process will listen. Dropping it removes the name.
#[derive(Debug)]
pub struct Reserved {
    path: PathBuf,
}

/// An entry of a file system; another one may have the same name later.
type Node = (u64, u64);

impl Listener {
    /// Listens at `path`, in an existing directory, replacing an earlier entry.
    ///
    /// Needs a runtime; blocks on the file system only.
    ///
    /// # Errors
    /// [`LocalError::TooLong`], [`LocalError::Io`].
    pub fn bind(path: &Path) -> Result<Self, LocalError> {
        let failed = |source| LocalError::Io { path: path.to_owned(), source };
        let name = path.file_name().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
        // The listener has a temporary name first: the real name appears with listener and mode.
        let raw = path.with_file_name(format!(".{}.new", name.to_string_lossy()));
        remove(&raw).map_err(failed)?;
        let bound = match StdListener::bind(&raw) {
            Err(error) if is_too_long(&error) => {
                let (address, _directory) = through_directory(&raw)?;
                StdListener::bind(address)
            }
            bound => bound,
        };
        let inner = bound.map_err(failed)?;
        let announce = || {
            rustix::fs::chmod(&raw, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
            inner.set_nonblocking(true)?;
            rustix::fs::rename(&raw, path)?;
            UnixListener::from_std(inner)
        };
        match announce() {
            Ok(inner) => Ok(Self { inner, path: path.to_owned(), node: node(path) }),
            Err(error) => {
                remove(&raw).map_err(failed)?;
                Err(failed(error))
            }
        }
    }

    /// Path of the listener.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the name unless a successor has it; existing connections stay.
    pub fn withdraw(&self) {
        if self.node.is_some()
            && node(&self.path) == self.node
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a socket");
        }
    }

    /// Accepts the next connection of a process of the same user. Cancel-safe.
    ///
    /// Other connections are closed and logged.
    ///
    /// # Errors
    /// The system's; listening may continue.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            let (stream, _) = self.inner.accept().await?;
            match checked(stream, &self.path) {
                Ok(stream) => return Ok(stream),
                Err(error) => tracing::warn!("a connection was refused: {error}"),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Reserved {
    /// A name at `path`, in an existing directory.
    ///
    /// Removes a dead process's socket there.
    ///
    /// # Errors
    /// [`LocalError::TooLong`] if the other process could not use it, [`LocalError::Io`].
    pub fn new(path: PathBuf) -> Result<Self, LocalError> {
        // The smallest limit of a system is 104 bytes.
        if path.as_os_str().len() > 100 {
            return Err(LocalError::TooLong { path });
        }
        if node(&path).is_some() {
            remove(&path).map_err(|source| LocalError::Io { path: path.clone(), source })?;
        }
        Ok(Self { path })
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Connects to the listener at the name, if it exists by now.
    ///
    /// A name without a listener stays, since the listener may be about to start.
    ///
    /// # Errors
    ///
    /// [`LocalError::Io`] without a listener, [`LocalError::Foreign`].
    pub async fn connect(&self) -> Result<Stream, LocalError> {
        let failed = |source| LocalError::Io { path: self.path.clone(), source };
        checked(UnixStream::connect(&self.path).await.map_err(failed)?, &self.path)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if node(&self.path).is_some()
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a socket");
        }
    }
}

impl Stream {
    /// Connects to the listener at `path`, immediately even if that process is stopped.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn connect(path: &Path) -> Result<Self, LocalError> {
        let before = node(path);
        let connected = match UnixStream::connect(path).await {
            Err(error) if is_too_long(&error) => {
                let (address, _directory) = through_directory(path)?;
                UnixStream::connect(address).await
            }
            connected => connected,
        };
        match connected {
            Ok(stream) => checked(stream, path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(LocalError::Dead { path: path.to_owned() })
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                // Remove only the entry checked before: a new listener may have this name by now.
                if before.is_some() && node(path) == before {
                    remove(path).map_err(|source| LocalError::Io { path: path.to_owned(), source })?;
                }
                Err(LocalError::Dead { path: path.to_owned() })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(LocalError::Busy { path: path.to_owned() })
            }
            Err(source) => Err(LocalError::Io { path: path.to_owned(), source }),
        }
    }

    /// The process at the other end, if the system reports it.
    pub fn process(&self) -> Option<u32> {
        self.0.peer_cred().ok()?.pid().and_then(|pid| u32::try_from(pid).ok())
    }

    /// Splits the stream into its two directions, for [`crate::Peer::spawn`].
    pub fn split(
        self,
    ) -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
        self.0.into_split()
    }
}

/// Checks that the other end belongs to the same user.
fn checked(stream: UnixStream, path: &Path) -> Result<Stream, LocalError> {
    let own = rustix::process::geteuid().as_raw();
    let found = stream.peer_cred().map(|other| other.uid()).ok();
    if found == Some(own) {
        return Ok(Stream(stream));
    }
    Err(LocalError::Foreign { path: path.to_owned(), found, own })
}

/// Removes a directory's unused sockets whose names begin with `prefix`.
///
/// Blocks. Leaves other files. A socket is used while a process of this user has it open; on Linux only.
pub fn remove_sockets(directory: &Path, prefix: &str) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|it| it.file_name().to_string_lossy().starts_with(prefix));
    let sockets: Vec<PathBuf> = named.map(|it| it.path()).filter(|it| node(it).is_some()).collect();
    let used = if sockets.is_empty() { HashSet::new() } else { used_sockets() };
    for path in sockets.iter().filter(|path| !used.contains(*path)) {
        if let Err(error) = remove(path) {
            tracing::debug!(path = %path.display(), %error, "cannot remove a socket");
        }
    }
}

/// The paths of open sockets in all network namespaces of this user's processes.
fn used_sockets() -> HashSet<PathBuf> {
    let (mut namespaces, mut used) = (HashSet::new(), HashSet::new());
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|it| it.path()) {
        let Ok(namespace) = std::fs::read_link(process.join("ns/net")) else { continue };
        if namespaces.insert(namespace) {
            let table = std::fs::read_to_string(process.join("net/unix")).unwrap_or_default();
            let paths = table.lines().filter_map(|line| line.split_once(" /"));
            used.extend(paths.map(|(_, path)| PathBuf::from(format!("/{path}"))));
        }
    }
    used
}

/// The socket at `path`; `None` if there is none.
fn node(path: &Path) -> Option<Node> {
    let stat = rustix::fs::lstat(path).ok()?;
    let is_socket = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_socket();
    #[expect(clippy::allow_attributes, reason = "whether the next one is needed depends on the system")]
    #[allow(clippy::unnecessary_cast, reason = "their widths differ between systems")]
    is_socket.then_some((stat.st_dev as u64, stat.st_ino as u64))
}

fn remove(path: &Path) -> io::Result<()> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The standard library's error for a path that does not fit into `sun_path`.
fn is_too_long(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}

/// A short address for a long path, valid while the directory is held.
#[cfg(target_os = "linux")]
fn through_directory(path: &Path) -> Result<(PathBuf, rustix::fd::OwnedFd), LocalError> {
    use rustix::fd::AsRawFd;
    use rustix::fs::{Mode, OFlags};

    let too_long = || LocalError::TooLong { path: path.to_owned() };
    let (directory, name) = path.parent().zip(path.file_name()).ok_or_else(too_long)?;
    let directory =
        rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| LocalError::Io { path: path.to_owned(), source: error.into() })?;
    let address = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    if address.as_os_str().len() > 100 {
        return Err(too_long());
    }
    Ok((address, directory))
}

/// Fails, because this system does not support it.
#[cfg(not(target_os = "linux"))]
fn through_directory(path: &Path) -> Result<(PathBuf, ()), LocalError> {
    Err(LocalError::TooLong { path: path.to_owned() })
}
