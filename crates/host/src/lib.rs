//! The product without a surface.
//!
//! It opens projects and sessions, calls tools, undoes, and chooses models. A surface implements
//! [`Frontend`], opens a [`Project`] with [`Host::open_project`] and a session with
//! [`Project::open_session`]. `examples/headless.rs` is a complete surface.

mod announce;
pub mod config;
pub mod debug_sessions;
pub mod doctor;
pub mod edit_batch;
pub mod escaping;
mod frontend;
pub mod models;
pub mod project;
pub mod redaction;
mod request;
mod result_places;
mod scope;
pub mod service;
pub mod session;

use std::path::Path;
use std::sync::Arc;

use paths::Homes;

pub use announce::{Announcement, Announcer, ProjectHandle, ServedProject};
pub use frontend::{Frontend, HeadlessFrontend};
pub use project::{Access, Project, open_proposals};
pub use request::{
    BranchReport, BranchRequest, CompactReport, CompactRequest, Outcome, PromptRequest, Reply, RequestError,
    RunReport, Stop, ToolCallRequest, UndoRequest, parse_compact,
};
pub use result_places::{ResultPlace, result_diagnostics, result_places};
pub use scope::RequestScope;
pub use session::unsaved::describe_unsaved;
pub use session::{HostedSession, Input, SessionRequest};
pub use tools::{action_name, cancellation};

/// The directories that all projects of a process share.
#[derive(Debug, Clone)]
pub struct Host {
    pub homes: Homes,
}

impl Host {
    /// Creates the host with the directories that the environment names.
    ///
    /// # Errors
    /// When the environment names none.
    pub fn from_env() -> anyhow::Result<Self> {
        Ok(Self { homes: Homes::from_env()? })
    }

    /// Opens the project at `root`. Needs a tokio runtime; blocks on the file system.
    ///
    /// # Errors
    /// When its settings are wrong, or a directory cannot be used.
    pub fn open_project(
        &self,
        root: &Path,
        access: Access,
        frontend: Arc<dyn Frontend>,
    ) -> anyhow::Result<Arc<Project>> {
        Ok(Arc::new(Project::open(&self.homes, root, access, frontend)?))
    }
}

#[cfg(test)]
mod tests;
