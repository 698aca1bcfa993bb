//! The owner's side: announces a project and takes connections.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::{Listener, LocalError};
use workspace::{Homes, StateError};

use super::connection::{self, Host};
use super::{Neighbours, place};
use crate::project::Project;

/// Commands served at once; one more is hung up on.
const CONNECTIONS: usize = 64;
/// After the system refused a connection, for want of handles for example.
const PAUSE: Duration = Duration::from_millis(100);

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
    /// The socket failed.
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// Announces `project`, and from now on carries out what commands ask for, until the guard is dropped
/// or `cancel` fires. `editor` is how the editor calls itself, for people; it may be empty. From now on
/// the project's commits heed what other owners hold. Needs a runtime; blocks on the file system.
///
/// # Errors
/// [`ServeError`].
pub fn serve(
    homes: &Homes,
    project: Arc<Project>,
    editor: &str,
    cancel: &CancellationToken,
) -> Result<OwnerGuard, ServeError> {
    project.workspace.heed(Arc::new(Neighbours::new(homes, false)));
    let folder = place(homes, project.workspace.id())?;
    let name = format!("{}.sock", std::process::id());
    let listener = Arc::new(Listener::bind(folder.make()?.join(&name).as_path())?);
    let stop = cancel.child_token();
    let tracker = TaskTracker::new();
    let host = Arc::new(Host { project, homes: homes.clone(), editor: editor.to_owned() });
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
