//! What every built-in tool works with.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hashline::{SnapshotStore, View};
use lsp_client::{RequestCx, ServerPool};
use tokio_util::sync::CancellationToken;
use workspace::{AbsPath, Document, Workspace};

use crate::Failure;
use crate::kept::KeptSnapshots;

/// The workspace, its language servers, and what the model was shown. Shared by all tools of a
/// session.
pub struct Kit {
    /// The person's files.
    pub workspace: Workspace,
    /// Language servers, started when first needed.
    pub servers: Arc<ServerPool>,
    /// Texts the model was shown, by tag.
    pub snapshots: Mutex<SnapshotStore>,
    /// Snapshots that outlive the process, for callers that read and edit in two calls.
    pub kept: Option<KeptSnapshots>,
    /// Settings of the tools.
    pub settings: Settings,
}

/// What the person may choose about the tools.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How lines are shown, and which dialect `edit` teaches (`hashline.dialect`,
    /// `hashline.line_checks`).
    pub view: View,
    /// How long an edit waits for fresh diagnostics (`edit.diagnostics_wait`).
    pub diagnostics_wait: Duration,
    /// How long a server may take for a request (`lsp.timeout`).
    pub request_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            view: View::default(),
            diagnostics_wait: Duration::from_secs(3),
            request_timeout: Duration::from_secs(60),
        }
    }
}

impl Kit {
    /// The document that `path` names, as the model or the person wrote it.
    pub(crate) fn document(&self, path: &str) -> Result<Document, Failure> {
        Ok(self.workspace.document(&self.workspace.resolve(path)?)?)
    }

    /// `path` as the model is shown it.
    pub(crate) fn shown(&self, path: &AbsPath) -> String {
        self.workspace.relative(path)
    }

    /// Runs `work` on the snapshots. Nothing in it may wait.
    pub(crate) fn with_snapshots<T>(&self, work: impl FnOnce(&mut SnapshotStore) -> T) -> T {
        work(&mut self.snapshots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The bounds of one request to a server.
    pub(crate) fn request(&self, cancel: &CancellationToken, timeout: Option<u64>) -> RequestCx {
        let deadline = timeout
            .map_or(self.settings.request_timeout, |seconds| Duration::from_secs(seconds.clamp(1, 300)));
        RequestCx { deadline, cancel: cancel.clone() }
    }
}
