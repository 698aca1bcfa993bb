//! Where a session can be joined: a Unix socket of our own user, `<pid>.<session>.sock`, that speaks the
//! protocol from its first byte.
//!
//! `docs/protocols/owner.md` says where the folder is. The name goes with the session.

use std::sync::Arc;

use paths::{AbsPath, StateDir, StateError};
use tokio_util::task::TaskTracker;
use wire::local::{Listener, LocalError};

use super::HubHandle;

/// An open door. Dropped, its name goes.
pub struct SessionListener {
    listener: Arc<Listener>,
}

/// Why a session cannot be joined from other processes.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Our folder for sockets failed.
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// A session that announces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnouncedSession {
    /// The process that holds it.
    pub process: u32,
    pub session: String,
    /// Where it can be joined.
    pub path: AbsPath,
}

impl SessionListener {
    /// Lets clients join `edge` at a socket in `folder`, until the session is over. Blocks on the file
    /// system, shortly; needs a runtime.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn open(
        folder: &StateDir,
        session: &str,
        edge: &HubHandle,
        tracker: &TaskTracker,
    ) -> Result<Self, ListenError> {
        let name = format!("{}.{session}.sock", std::process::id());
        let listener = Arc::new(Listener::bind(folder.make()?.join(&name).as_path())?);
        let (door, edge, joined) = (Arc::clone(&listener), edge.clone(), tracker.clone());
        tracker.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    // Dropping `accept` loses no connection: it is taken only when it returns.
                    () = edge.closed() => break,
                    accepted = door.accept() => accepted,
                };
                match accepted {
                    Ok(stream) => {
                        let (reader, writer) = stream.split();
                        edge.join(reader, writer).await;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "nobody can join a debug session any more");
                        break;
                    }
                }
            }
            door.withdraw();
            drop(joined);
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

/// The sessions that announce themselves in `folder`, dead ones too. Blocks.
///
/// # Errors
/// When the folder cannot be read.
pub fn sockets(folder: &StateDir) -> Result<Vec<AnnouncedSession>, StateError> {
    let announced = folder.list()?.into_iter().filter_map(|name| {
        let (process, session) = name.strip_suffix(".sock")?.split_once('.')?;
        let (process, session) = (process.parse().ok()?, session.to_owned());
        Some(AnnouncedSession { process, session, path: folder.path().join(&name) })
    });
    Ok(announced.collect())
}
