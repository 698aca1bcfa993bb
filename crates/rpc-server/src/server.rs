//! The owner's side: announces a project and takes connections.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use host::{Announcement, Announcer, ServedProject};
use paths::{AbsPath, Homes, StateError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::{Listener, LocalError};
use workspace::{OpenError, Peers, Workspace};

use super::connection::Host;
use super::peers::IpcPeers;
use super::{connection, place};

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
    /// There is no such folder.
    #[error(transparent)]
    Open(#[from] OpenError),
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
    served: Arc<dyn ServedProject>,
    editor: &str,
    cancel: &CancellationToken,
) -> Result<OwnerGuard, ServeError> {
    let (_, id) = Workspace::identify(root.as_path())?;
    let folder = place(homes, &id)?;
    let name = format!("{}.sock", std::process::id());
    let listener = Arc::new(Listener::bind(folder.make()?.join(&name).as_path())?);
    let stop = cancel.child_token();
    let tracker = TaskTracker::new();
    let host = Arc::new(Host { served, editor: editor.to_owned() });
    tracker.spawn(accept_all(Arc::clone(&listener), host, stop.clone(), tracker.clone()));
    Ok(OwnerGuard { listener, stop, tracker })
}

impl OwnerGuard {
    /// AnnouncedSession no longer; cancels what commands asked for and waits, at most `deadline`, until they
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

/// Announces projects by sockets in the run directory.
pub struct IpcAnnouncer {
    pub homes: Homes,
}

impl Announcer for IpcAnnouncer {
    fn announce(
        &self,
        root: &AbsPath,
        served: Arc<dyn ServedProject>,
        editor: &str,
    ) -> anyhow::Result<Box<dyn Announcement>> {
        Ok(Box::new(serve(&self.homes, root, served, editor, &CancellationToken::new())?))
    }

    fn peers(&self) -> Arc<dyn Peers> {
        Arc::new(IpcPeers::new(&self.homes, false))
    }
}

impl Announcement for OwnerGuard {
    fn close(self: Box<Self>, deadline: Duration) -> BoxFuture<'static, ()> {
        Box::pin((*self).close(deadline))
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
