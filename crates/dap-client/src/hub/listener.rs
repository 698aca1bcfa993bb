//! Unix socket at which clients join a session: `<pid>.<session>.sock`.
//!
//! Only the user can access it. It speaks DAP from the first byte. `docs/protocols/owner.md`
//! documents its directory. The socket file is removed with the session.

use std::sync::Arc;

use paths::{AbsPath, StateDir, StateError};
use tokio_util::task::TaskTracker;
use wire::local::{Listener, LocalError};

use super::HubHandle;

/// A socket that accepts clients. Dropping it removes the socket file.
pub struct SessionListener {
    listener: Arc<Listener>,
}

/// Failure to create a session's socket.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The directory of sockets failed.
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// A session that other processes can join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedSession {
    /// The process that owns it.
    pub process: u32,
    pub session: String,
    /// Path of the session's socket.
    pub path: AbsPath,
}

impl SessionListener {
    /// Lets clients join `hub` at a socket in `directory` until the session ends.
    ///
    /// Blocks briefly on the file system; needs a runtime.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn open(
        directory: &StateDir,
        session: &str,
        hub: &HubHandle,
        tracker: &TaskTracker,
    ) -> Result<Self, ListenError> {
        let name = format!("{}.{session}.sock", std::process::id());
        let listener = Arc::new(Listener::bind(directory.make()?.join(&name).as_path())?);
        let (accepting, hub, tracker_guard) = (Arc::clone(&listener), hub.clone(), tracker.clone());
        tracker.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    // Dropping `accept` loses no connection: it takes one only when it returns.
                    () = hub.closed() => break,
                    accepted = accepting.accept() => accepted,
                };
                match accepted {
                    Ok(stream) => {
                        // A client evaluates expressions in the user's name.
                        let client = stream.process();
                        let of_run = move || client.is_none_or(process::descends_from_run);
                        if tokio::task::spawn_blocking(of_run).await.unwrap_or(true) {
                            tracing::warn!(client, "refused a client that a run of the agent started");
                            continue;
                        }
                        let (reader, writer) = stream.split();
                        hub.join(reader, writer).await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no client can join a debug session any more");
                        break;
                    }
                }
            }
            accepting.withdraw();
            drop(tracker_guard);
        });
        Ok(Self { listener })
    }

    pub fn path(&self) -> Option<AbsPath> {
        AbsPath::new(self.listener.path())
    }
}

impl Drop for SessionListener {
    fn drop(&mut self) {
        self.listener.withdraw();
    }
}

/// The sockets in `directory`, including those of dead processes. Blocks.
///
/// # Errors
/// When the directory cannot be read.
pub fn sockets(directory: &StateDir) -> Result<Vec<AnnouncedSession>, StateError> {
    let announced = directory.list()?.into_iter().filter_map(|name| {
        let (process, session) = name.strip_suffix(".sock")?.split_once('.')?;
        let (process, session) = (process.parse().ok()?, session.to_owned());
        Some(AnnouncedSession { process, session, path: directory.path().join(&name) })
    });
    Ok(announced.collect())
}
