//! The owner's side: announces a project and accepts connections.

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
use super::{connection, socket_directory};

/// Maximum number of simultaneous connections.
const CONNECTIONS: usize = 64;
/// Pause after `accept` failed, for example because no handles are left.
const PAUSE: Duration = Duration::from_millis(100);

/// An announced project.
///
/// Dropping it withdraws the announcement and cancels all requests.
pub struct OwnerGuard {
    listener: Arc<Listener>,
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// The reason why a project is not announced.
///
/// Commands then execute in their own process.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// Announces the project at `root` and executes requests.
///
/// Ends when the guard is dropped or `cancel` fires. `editor` is the editor's name for messages; it may be
/// empty. Needs a runtime; blocks briefly on the file system.
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
    let directory = socket_directory(homes, &id)?;
    let name = format!("{}.sock", std::process::id());
    let listener = Arc::new(Listener::bind(directory.make()?.join(&name).as_path())?);
    let stop = cancel.child_token();
    let tracker = TaskTracker::new();
    let host = Arc::new(Host { served, editor: editor.to_owned() });
    tracker.spawn(accept_all(Arc::clone(&listener), host, stop.clone(), tracker.clone()));
    Ok(OwnerGuard { listener, stop, tracker })
}

impl OwnerGuard {
    /// Withdraws the announcement and cancels all requests.
    ///
    /// Waits at most `deadline` for their end.
    pub async fn close(self, deadline: Duration) {
        self.listener.withdraw();
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(deadline, self.tracker.wait()).await.is_err() {
            tracing::warn!("requests of other processes did not end in time");
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
        // The listening task may never run again, so this cannot wait for it.
        self.listener.withdraw();
        self.stop.cancel();
    }
}

async fn accept_all(listener: Arc<Listener>, host: Arc<Host>, stop: CancellationToken, tracker: TaskTracker) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            // Cancel safety: `accept` takes a connection only when it returns.
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(_) if connections.len() >= CONNECTIONS => {
                tracing::warn!("refused a connection: {CONNECTIONS} are open");
            }
            Ok(stream) => {
                let work = connection::serve(Arc::clone(&host), stream, stop.child_token());
                tracker.spawn(connections.track_future(work));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}
