//! Ports by which a long-lived surface shares its projects with other processes.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use paths::AbsPath;
use workspace::{Document, Peers};

use crate::project::Project;

/// A project that other processes can use, and the documents its editor has open.
pub trait ServedProject: Send + Sync + 'static {
    /// Lists the documents that the editor has open, in this project or not.
    ///
    /// Answers at once.
    fn documents(&self) -> Vec<Document>;

    /// Returns the project, opened on first use.
    fn project(&self) -> BoxFuture<'_, anyhow::Result<ProjectHandle>>;
}

/// A project that stays open as long as the handle exists.
pub struct ProjectHandle {
    pub project: Arc<Project>,
    pub keep_open: Box<dyn Any + Send + Sync>,
}

/// Makes projects reachable for other processes.
///
/// Also asks those processes for their open documents.
pub trait Announcer: Send + Sync + 'static {
    /// Announces the project at `root` for the editor named `editor`.
    ///
    /// The name may be empty.
    ///
    /// # Errors
    /// When no listener can be opened; commands then work without this process.
    fn announce(
        &self,
        root: &AbsPath,
        served: Arc<dyn ServedProject>,
        editor: &str,
    ) -> anyhow::Result<Box<dyn Announcement>>;

    /// Returns the port to documents that other processes have open.
    fn peers(&self) -> Arc<dyn Peers>;
}

/// An announced project.
///
/// Dropping it withdraws the announcement and cancels its requests.
pub trait Announcement: Send {
    /// Withdraws the announcement and cancels its requests.
    ///
    /// Waits until they end, at most `deadline`.
    fn close(self: Box<Self>, deadline: Duration) -> BoxFuture<'static, ()>;
}
