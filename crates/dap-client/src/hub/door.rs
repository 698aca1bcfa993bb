//! Where a session can be joined: a Unix socket of our own user, `<pid>.<session>.sock`, that speaks the
//! protocol from its first byte.
//!
//! `docs/protocols/owner.md` says where the folder is. The name goes with the session.

use std::sync::Arc;

use tokio_util::task::TaskTracker;
use wire::local::{Listener, LocalError};
use workspace::{AbsPath, StateDir, StateError};

use super::Edge;

/// An open door. Dropped, its name goes.
pub struct Door {
    listener: Arc<Listener>,
}

/// Why a session cannot be joined from other processes.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Our folder for sockets failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The socket failed.
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// A session that announces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The process that holds it.
    pub process: u32,
    /// Its name there.
    pub session: String,
    /// Where it can be joined.
    pub path: AbsPath,
}

impl Door {
    /// Lets clients join `edge` at a socket in `folder`, until the session is over. Blocks on the file
    /// system, shortly; needs a runtime.
    ///
    /// # Errors
    /// [`DoorError`].
    pub fn open(
        folder: &StateDir,
        session: &str,
        edge: &Edge,
        tracker: &TaskTracker,
    ) -> Result<Self, DoorError> {
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

    /// Where it is.
    pub fn path(&self) -> Option<AbsPath> {
        AbsPath::new(self.listener.path())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.listener.withdraw();
    }
}

/// The sessions that announce themselves in `folder`, dead ones too. Blocks.
///
/// # Errors
/// When the folder cannot be read.
pub fn sockets(folder: &StateDir) -> Result<Vec<Announced>, StateError> {
    let announced = folder.list()?.into_iter().filter_map(|name| {
        let (process, session) = name.strip_suffix(".sock")?.split_once('.')?;
        let (process, session) = (process.parse().ok()?, session.to_owned());
        Some(Announced { process, session, path: folder.path().join(&name) })
    });
    Ok(announced.collect())
}
