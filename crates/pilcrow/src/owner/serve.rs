//! The owner's side: announces a project and takes connections.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::{Listener, LocalError};
use workspace::{AbsPath, Document, Homes, OpenError, StateError, Workspace};

use super::connection::{self, Host};
use super::place;
use crate::project::Project;

/// Commands served at once; one more is hung up on.
const CONNECTIONS: usize = 64;
/// After the system refused a connection, for want of handles for example.
const PAUSE: Duration = Duration::from_millis(100);

/// What an owner serves: the editor's documents at any time, and its project when it is needed.
pub trait Served: Send + Sync + 'static {
    /// What the editor has open, in this project or not. Answers at once.
    fn documents(&self) -> Vec<Document>;

    /// The project, opened if it is not.
    fn project(&self) -> BoxFuture<'_, anyhow::Result<Lent>>;
}

/// A project for as long as a command needs it.
pub struct Lent {
    /// The project. Its commits must heed [`super::Neighbours`].
    pub project: Arc<Project>,
    /// What keeps it open.
    pub keeps: Box<dyn Any + Send + Sync>,
}

/// An announced project. Dropped, it is announced no longer and what was asked for is cancelled.
pub struct OwnerGuard {
    listener: Arc<Listener>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// Why a project is not announced. Commands then work past this process, which they cannot see.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Our folder for sockets failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no such folder.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The socket failed.
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// Announces the project at `root`, and from now on carries out what commands ask for, until the guard
/// is dropped or `cancel` fires. `editor` is how the editor calls itself, for people; it may be empty.
/// Needs a runtime; blocks on the file system, shortly.
///
/// # Errors
/// [`ServeError`].
pub fn serve(
    homes: &Homes,
    root: &AbsPath,
    served: Arc<dyn Served>,
    editor: &str,
    cancel: &CancellationToken,
) -> Result<OwnerGuard, ServeError> {
    let (_, id) = Workspace::identify(root.as_path())?;
    let folder = place(homes, &id)?;
    let name = format!("{}.sock", std::process::id());
    let listener = Arc::new(Listener::bind(folder.make()?.join(&name).as_path())?);
    let stop = cancel.child_token();
    let tracker = TaskTracker::new();
    let host = Arc::new(Host { served, homes: homes.clone(), editor: editor.to_owned() });
    tracker.spawn(accept_all(Arc::clone(&listener), host, stop.clone(), tracker.clone()));
    Ok(OwnerGuard { listener, stop, tracker })
}

impl OwnerGuard {
    /// Announced no longer; cancels what commands asked for and waits, at most `deadline`, until they
    /// have heard of it.
    pub async fn close(self, deadline: Duration) {
        self.listener.withdraw();
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(deadline, self.tracker.wait()).await.is_err() {
            tracing::warn!("requests of other processes did not end in time; they are left behind");
        }
    }
}

impl Drop for OwnerGuard {
    fn drop(&mut self) {
        // At once: the task that listens may never run again.
        self.listener.withdraw();
        self.stop.cancel();
    }
}

async fn accept_all(listener: Arc<Listener>, host: Arc<Host>, stop: CancellationToken, tracker: TaskTracker) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            // Dropping `accept` loses no connection: it is taken only when it returns.
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(_) if connections.len() >= CONNECTIONS => {
                tracing::warn!("a command was hung up on, {CONNECTIONS} are served already");
            }
            Ok(stream) => {
                let work = connection::serve(Arc::clone(&host), stream, stop.child_token());
                tracker.spawn(connections.track_future(work));
            }
            Err(error) => {
                tracing::warn!(%error, "a command could not connect");
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}
