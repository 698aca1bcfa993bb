//! What every built-in tool works with.

pub(crate) mod display;
mod failure;
mod saved_snapshots;
mod syntax_trees;
pub(crate) mod unsaved;

use std::sync::Arc;
use std::time::Duration;

use hashline::{ParseRegression, SnapshotStore, View};
use lsp_client::{RequestCx, ServerPool};
use parking_lot::{Mutex, RwLock};
use paths::AbsPath;
use tokio_util::sync::CancellationToken;
use workspace::{Document, Owner, Workspace};

use crate::{Pending, Shell, Show, Verify, VerifyPolicy};

pub use failure::Failure;
pub use saved_snapshots::SavedSnapshots;
pub use syntax_trees::{Grammars, Trees};

/// The workspace, its language servers, and what the model was shown. Shared by all tools of a
/// session.
pub struct ToolContext {
    pub workspace: Workspace,
    /// Language servers, started when first needed.
    pub servers: Arc<ServerPool>,
    /// Debug sessions, which live from call to call.
    pub debug: Arc<dap_client::Sessions>,
    /// Texts the model was shown, by tag.
    pub snapshots: Mutex<SnapshotStore>,
    /// Syntax trees of those texts.
    pub trees: Trees,
    /// Snapshots that outlive the process, for callers that read and edit in two calls.
    pub kept: Option<SavedSnapshots>,
    /// What language servers have not said yet of edits that were told.
    pub pending: Pending,
    pub shell: Arc<Shell>,
    /// The person's editor, for places that they are to see.
    pub show: Option<Show>,
    /// ToolSettings of the tools; see [`ToolContext::take_settings`].
    pub settings: RwLock<ToolSettings>,
}

/// What the person may choose about the tools.
#[derive(Debug, Clone)]
pub struct ToolSettings {
    /// How lines are shown, and which dialect `edit` teaches (`hashline.dialect`,
    /// `hashline.line_checks`).
    pub view: View,
    /// What becomes of an edit that breaks what parsed (`edit.parse_regression`).
    pub parse_regression: ParseRegression,
    /// How long an edit waits for fresh diagnostics (`edit.diagnostics_wait`).
    pub diagnostics_wait: Duration,
    /// Whether an edit is tried on the servers before it is made (`edit.verify`) …
    pub verify: Verify,
    /// … and what becomes of one that brings new errors (`edit.verify_policy`).
    pub verify_policy: VerifyPolicy,
    /// How long a server may take for a request (`lsp.timeout`).
    pub request_timeout: Duration,
    /// From when on the servers of a file are started (`lsp.start`).
    pub start: ServerStart,
    /// Whether the person is asked before a command runs while open files are not saved
    /// (`run.on_unsaved`).
    pub asks_on_unsaved: bool,
}

/// When the language servers of a file are started, the earlier the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ServerStart {
    /// When they are asked.
    Use,
    /// When a tool changes it.
    #[default]
    Edit,
    /// When a tool reads it.
    Read,
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            view: View::default(),
            parse_regression: ParseRegression::Warn,
            diagnostics_wait: Duration::from_secs(3),
            verify: Verify::After,
            verify_policy: VerifyPolicy::Report,
            request_timeout: Duration::from_secs(60),
            start: ServerStart::default(),
            asks_on_unsaved: false,
        }
    }
}

impl ToolContext {
    /// The settings in force.
    pub fn settings(&self) -> ToolSettings {
        self.settings.read().clone()
    }

    /// Other settings, for every call that begins from now on. How lines are shown stays: the model knows them so.
    pub fn take_settings(&self, settings: ToolSettings) {
        let mut current = self.settings.write();
        *current = ToolSettings { view: current.view, ..settings };
    }

    /// Has the language servers of a file that a tool reads or changes start, where the person wants that
    /// so early. For one call they are not: it ends before they could say anything.
    pub(crate) fn begin_servers(&self, path: &AbsPath, now: ServerStart) {
        if self.kept.is_none() && self.settings().start >= now && !self.servers.begin(path) {
            tracing::debug!("no server of {path} is started");
        }
    }

    /// The document that `path` names, as the model or the person wrote it.
    pub(crate) fn document(&self, path: &str) -> Result<Document, Failure> {
        Ok(self.workspace.document(&self.workspace.resolve(path)?)?)
    }

    /// `path` as the model is shown it.
    pub(crate) fn shown(&self, path: &AbsPath) -> String {
        self.workspace.relative(path)
    }

    /// Keeps a text of a file as the person saw it. The answer is what the argument `as_of` of the tool
    /// `lsp` takes beside a place in that text.
    pub fn remember(&self, path: &AbsPath, text: Arc<str>) -> String {
        self.with_snapshots(|store| store.record(&self.shown(path), text)).to_string()
    }

    /// Open documents that are not saved: what runs reads the disk. Blocks. Their texts are not
    /// compared, since one may be given without a line that is a request.
    pub(crate) fn not_saved(&self) -> Vec<String> {
        let open = self.workspace.open_documents().into_iter();
        let unsaved = open.filter(|it| it.owner == Owner::Editor { dirty: true });
        unsaved.map(|it| self.shown(&it.path)).collect()
    }

    /// Runs `work` on the snapshots. Nothing in it may wait.
    pub(crate) fn with_snapshots<T>(&self, work: impl FnOnce(&mut SnapshotStore) -> T) -> T {
        work(&mut self.snapshots.lock())
    }

    /// The bounds of one request to a server.
    pub(crate) fn request(&self, cancel: &CancellationToken, timeout: Option<u64>) -> RequestCx {
        let deadline = timeout
            .map_or(self.settings().request_timeout, |seconds| Duration::from_secs(seconds.clamp(1, 300)));
        RequestCx::new(deadline, cancel)
    }
}
