//! Shared context and settings of the built-in tools.

pub(crate) mod display;
mod failure;
pub(crate) mod notes;
mod saved_snapshots;
mod syntax_trees;
pub(crate) mod unsaved;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hashline::{ParseRegression, SnapshotStore, View};
use lsp_client::{RequestCx, ServerPool};
use parking_lot::{Mutex, RwLock};
use paths::AbsPath;
use policy::ErrorCode;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use workspace::{Document, Owner, Workspace};

use crate::{Pending, Shell, Verify, VerifyPolicy};

pub(crate) use failure::CommitRefusal;
pub use failure::{Failure, action_name, cancellation};
pub use saved_snapshots::SavedSnapshots;
pub use syntax_trees::{Grammars, Trees};

/// Files that are searched for the name of a missing one.
const MAX_SEARCHED: usize = 20_000;
/// Files that are named instead of a missing one.
const MAX_NAMESAKES: usize = 3;

/// The workspace, its servers and the snapshots, shared by all tools of a session.
pub struct ToolContext {
    pub workspace: Workspace,
    /// Language servers, started on first use.
    pub servers: Arc<ServerPool>,
    /// Debug sessions, which outlive a call.
    pub debug: Arc<dap_client::Sessions>,
    /// Texts that the model has been shown, by tag.
    pub snapshots: Mutex<SnapshotStore>,
    /// Syntax trees of those texts.
    pub trees: Trees,
    /// Snapshots on disk, for callers that read in one process and edit in another.
    pub saved_snapshots: Option<SavedSnapshots>,
    /// The pending check of an edit, and what is known from earlier ones.
    pub pending: Pending,
    pub shell: Arc<Shell>,
    /// Shows places in the user's editor, if there is one.
    pub show: Option<Show>,
    /// The current settings; [`ToolContext::set_settings`] replaces them.
    pub settings: RwLock<ToolSettings>,
}

/// Opens a file in the editor, at an LSP range if one is given.
///
/// Returns whether the editor opened the file.
pub type Show = Arc<dyn Fn(AbsPath, Value) -> BoxFuture<'static, bool> + Send + Sync>;

/// The settings that the built-in tools read.
#[derive(Debug, Clone)]
pub struct ToolSettings {
    /// Form of displayed lines, and the dialect that `edit` teaches.
    ///
    /// These are `hashline.dialect` and `hashline.line_checks`.
    pub view: View,
    /// Handling of an edit that adds syntax errors (`edit.parse_regression`).
    pub parse_regression: ParseRegression,
    /// Time that an edit waits for its diagnostics after it is made (`edit.wait`).
    pub edit_wait: Duration,
    /// Time that an edit waits for the diagnostics before it.
    ///
    /// Zero except for one-shot commands ([`ToolSettings::one_shot`]).
    pub baseline_wait: Duration,
    /// Whether servers check an edit before or after it is applied (`edit.verify`).
    pub verify: Verify,
    /// The time for a check before an edit (`edit.verify_wait`).
    pub verify_wait: Duration,
    /// Handling of an edit that adds errors (`edit.verify_policy`).
    pub verify_policy: VerifyPolicy,
    /// Timeout of a request to a server (`lsp.timeout`).
    pub request_timeout: Duration,
    /// The event that starts the servers of a file (`lsp.start`).
    pub start: ServerStart,
    /// Whether Pilcrow asks before a command runs while open files are unsaved
    /// (`run.on_unsaved`).
    pub asks_on_unsaved: bool,
}

/// The event that starts the language servers of a file; earlier is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ServerStart {
    /// The first request to the servers.
    Use,
    /// A change of the file by a tool.
    #[default]
    Edit,
    /// A read of the file by a tool.
    Read,
}

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            view: View::default(),
            parse_regression: ParseRegression::Warn,
            edit_wait: Duration::from_millis(300),
            baseline_wait: Duration::ZERO,
            verify: Verify::After,
            verify_wait: Duration::from_secs(10),
            verify_policy: VerifyPolicy::Report,
            request_timeout: Duration::from_secs(60),
            start: ServerStart::default(),
            asks_on_unsaved: false,
        }
    }
}

impl ToolSettings {
    /// Makes each edit wait for all its diagnostics, before and after it.
    ///
    /// For a command that ends after its edit, so that no later result can have them. Half of the time is
    /// before the edit, since only a baseline shows which problems are new.
    #[must_use]
    pub fn one_shot(self, wait: Duration) -> Self {
        Self { edit_wait: wait / 2, baseline_wait: wait / 2, ..self }
    }

    /// Whether an edit starts the servers of its files and requests their checks.
    pub(crate) fn is_one_shot(&self) -> bool {
        !self.baseline_wait.is_zero()
    }
}

impl ToolContext {
    /// Returns the current settings.
    pub fn settings(&self) -> ToolSettings {
        self.settings.read().clone()
    }

    /// Replaces the settings for all later calls.
    ///
    /// The view stays, since the model has learned it.
    pub fn set_settings(&self, settings: ToolSettings) {
        let mut current = self.settings.write();
        *current = ToolSettings { view: current.view, ..settings };
    }

    /// Starts the language servers of a file if `lsp.start` says to do so now.
    ///
    /// A process that serves one call does not: it ends before they could answer.
    pub(crate) fn start_servers(&self, path: &AbsPath, now: ServerStart) {
        if self.saved_snapshots.is_none() && self.settings().start >= now && !self.servers.begin(path) {
            tracing::debug!("no server of {path} is started");
        }
    }

    /// Reads the document at `path`, which may be relative to the workspace.
    pub(crate) fn document(&self, path: &str) -> Result<Document, Failure> {
        let path = self.workspace.resolve(path)?;
        self.workspace.document(&path).map_err(|error| self.with_namesakes(&path, error.into()))
    }

    /// Names the files with the name of a file that does not exist.
    fn with_namesakes(&self, path: &AbsPath, failure: Failure) -> Failure {
        if failure.code != ErrorCode::NotFound {
            return failure;
        }
        let files = self.workspace.files(self.workspace.root()).take(MAX_SEARCHED);
        let namesakes = files.filter(|file| file.file_name() == path.file_name()).take(MAX_NAMESAKES);
        let namesakes: Vec<String> = namesakes.map(|file| self.display_path(&file)).collect();
        match namesakes.is_empty() {
            true => failure,
            false => {
                let message = format!("{}; did you mean {}?", failure.message, namesakes.join(" or "));
                Failure { message, ..failure }
            }
        }
    }

    /// Renders `path` relative to the workspace.
    pub(crate) fn display_path(&self, path: &AbsPath) -> String {
        self.workspace.relative(path)
    }

    /// Records a text of a file and returns its tag.
    ///
    /// The tool `lsp` takes the tag as its argument `as_of`.
    pub fn record_snapshot(&self, path: &AbsPath, text: Arc<str>) -> String {
        self.with_snapshots(|store| store.record(&self.display_path(path), text)).to_string()
    }

    /// Lists open documents with unsaved changes; programs read the disk. Blocks.
    ///
    /// Texts are not compared: an editor's text may come without its request line.
    pub(crate) fn unsaved_files(&self) -> Vec<String> {
        let open = self.workspace.applied().open_documents().into_iter();
        let unsaved = open.filter(|document| document.owner == Owner::Editor { dirty: true });
        unsaved.map(|document| self.display_path(&document.path)).collect()
    }

    /// Renders a note about proposed edits, which programs do not see. Blocks.
    pub(crate) fn proposed_note(&self) -> Option<String> {
        let files = self.workspace.proposed_files();
        let count = crate::counted(files.len(), "file");
        let names: Vec<String> = files.iter().map(|path| self.display_path(path)).collect();
        (!files.is_empty()).then(|| {
            let names = names.join(", ");
            format!("not on disk: your proposed edits of {count} ({names}); the user has to keep them first")
        })
    }

    /// Runs `work` on the snapshots. `work` must not block.
    pub(crate) fn with_snapshots<T>(&self, work: impl FnOnce(&mut SnapshotStore) -> T) -> T {
        work(&mut self.snapshots.lock())
    }

    /// Creates the deadline and cancellation of one request to a server.
    pub(crate) fn request(&self, cancel: &CancellationToken, timeout: Option<u64>) -> RequestCx {
        let deadline = timeout
            .map_or(self.settings().request_timeout, |seconds| Duration::from_secs(seconds.clamp(1, 300)));
        RequestCx::new(deadline, cancel)
    }
}
