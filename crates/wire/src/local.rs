//! Streams between processes of one user on one machine: Unix sockets that have a name in a folder.
//!
//! A name appears when somebody already listens behind it, with mode 0600, and goes with its
//! listener; one that a dead process left is removed by whoever finds it. Both ends look at the uid
//! of the other and speak with their own alone. Paths longer than the system takes for a socket are
//! reached through their folder on Linux and refused elsewhere. There is nothing here yet for systems
//! without Unix sockets; named pipes would stand behind the same functions.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};

/// Why two processes do not come together.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// Nobody listens there any more. What was left of the name is removed.
    #[error("nobody listens at {}", path.display())]
    Dead {
        /// The name.
        path: PathBuf,
    },
    /// Somebody else's process, or nobody knows whose.
    #[error("{} belongs to another user{}, not to {own}", path.display(), match found {
        Some(uid) => format!(" ({uid})"),
        None => String::new(),
    })]
    Foreign {
        /// The name.
        path: PathBuf,
        /// The uid at the other end.
        found: Option<u32>,
        /// Ours.
        own: u32,
    },
    /// So many wait already that the system takes no more: the listener does not answer.
    #[error("whoever listens at {} takes no more connections", path.display())]
    Busy {
        /// The name.
        path: PathBuf,
    },
    /// The system takes no socket with so long a path.
    #[error("{} is too long for a socket; choose a shorter folder", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The system's error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The name.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Listens under a name until it is dropped, which removes the name.
#[derive(Debug)]
pub struct Listener {
    inner: UnixListener,
    path: PathBuf,
    node: Option<Node>,
}

/// One connection to a process of the same user.
#[derive(Debug)]
pub struct Stream(UnixStream);

/// A name that another process is to listen behind. Dropped, the name goes.
#[derive(Debug)]
pub struct Reserved {
    path: PathBuf,
}

/// Which entry of a file system; another one may stand under the same name later.
type Node = (u64, u64);

impl Listener {
    /// Listens at `path`, in a folder that is there. A name that stood there before is replaced. Needs
    /// a runtime; blocks on the file system only.
    ///
    /// # Errors
    /// [`LocalError::TooLong`], [`LocalError::Io`].
    pub fn bind(path: &Path) -> Result<Self, LocalError> {
        let failed = |source| LocalError::Io { path: path.to_owned(), source };
        let name = path.file_name().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
        // Under another name first: whoever finds the real one finds a listener and its mode.
        let raw = path.with_file_name(format!(".{}.new", name.to_string_lossy()));
        remove(&raw).map_err(failed)?;
        let bound = match StdListener::bind(&raw) {
            Err(error) if is_too_long(&error) => {
                let (address, _folder) = through_folder(&raw)?;
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

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the name now; connections that are there stay. Nothing when a successor has it.
    pub fn withdraw(&self) {
        if self.node.is_some()
            && node(&self.path) == self.node
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a socket stays behind");
        }
    }

    /// The next connection of a process of our own user; others are closed and logged. Cancel-safe.
    ///
    /// # Errors
    /// The system's; listening may go on.
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
    /// A name at `path`, in a folder that is there. A socket that a dead process left there is removed.
    ///
    /// # Errors
    /// [`LocalError::TooLong`] where the other process could not take it, [`LocalError::Io`].
    pub fn new(path: PathBuf) -> Result<Self, LocalError> {
        // The smallest that systems have is 104 bytes.
        if path.as_os_str().len() > 100 {
            return Err(LocalError::TooLong { path });
        }
        if node(&path).is_some() {
            remove(&path).map_err(|source| LocalError::Io { path: path.clone(), source })?;
        }
        Ok(Self { path })
    }

    /// The name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Connects to whoever listens there by now. The name stays when nobody does: they may be about to.
    ///
    /// # Errors
    /// [`LocalError::Io`] while nobody listens, [`LocalError::Foreign`].
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
            tracing::warn!(path = %self.path.display(), %error, "a socket stays behind");
        }
    }
}

impl Stream {
    /// Connects to whoever listens at `path`, which takes no time even if that process is stopped.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn connect(path: &Path) -> Result<Self, LocalError> {
        let before = node(path);
        let connected = match UnixStream::connect(path).await {
            Err(error) if is_too_long(&error) => {
                let (address, _folder) = through_folder(path)?;
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
                // Only what was asked: somebody may listen under this name by now.
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

    /// The process at the other end, where the system tells.
    pub fn process(&self) -> Option<u32> {
        self.0.peer_cred().ok()?.pid().and_then(|pid| u32::try_from(pid).ok())
    }

    /// Both directions, for [`crate::Peer::spawn`].
    pub fn split(
        self,
    ) -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
        self.0.into_split()
    }
}

/// The stream, if a process of our own user is at its other end (`SO_PEERCRED`, `getpeereid`).
fn checked(stream: UnixStream, path: &Path) -> Result<Stream, LocalError> {
    let own = rustix::process::geteuid().as_raw();
    let found = stream.peer_cred().map(|other| other.uid()).ok();
    if found == Some(own) {
        return Ok(Stream(stream));
    }
    Err(LocalError::Foreign { path: path.to_owned(), found, own })
}

/// The socket at `path`; `None` when there is nothing, or something else.
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

/// What the standard library says to a path that does not fit into `sun_path`.
fn is_too_long(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput
}

/// A short address for a long path, good as long as the folder is held.
#[cfg(target_os = "linux")]
fn through_folder(path: &Path) -> Result<(PathBuf, rustix::fd::OwnedFd), LocalError> {
    use rustix::fd::AsRawFd;
    use rustix::fs::{Mode, OFlags};

    let too_long = || LocalError::TooLong { path: path.to_owned() };
    let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(too_long)?;
    let folder = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| LocalError::Io { path: path.to_owned(), source: error.into() })?;
    let address = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    if address.as_os_str().len() > 100 {
        return Err(too_long());
    }
    Ok((address, folder))
}

/// There is no such way here.
#[cfg(not(target_os = "linux"))]
fn through_folder(path: &Path) -> Result<(PathBuf, ()), LocalError> {
    Err(LocalError::TooLong { path: path.to_owned() })
}
