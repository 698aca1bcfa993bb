//! The state of one running server, shared by requests and the handler of messages.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use paths::AbsPath;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use workspace::{ReadCache, Workspace};

use crate::diagnostics::PushedDiagnostics;
use crate::diagnostics::check_on_save::CheckOnSave;
use crate::diagnostics::result_ids::ResultIds;
use crate::files::deleted_files::DeletedFiles;
use crate::files::file_poll::FilePoller;
use crate::files::watchers::Watchers;
use crate::server::capabilities::Capabilities;
use crate::server::documents::{OpenDocuments, SyncRule};
use crate::server::edit_inbox::EditInbox;
use crate::server::host::{Host, MessageType};
use crate::server::language_version::LanguageVersion;
use crate::server::loading::Loading;
use crate::server::request_table::RequestTable;
use crate::server::traffic::Traffic;
use adapters::SearchPath;
use adapters::{ServerDefinition, names_venv, with_venv};

/// Maximum number of messages of a server, and of characters in each.
const MAX_MESSAGES: usize = 5;
const MAX_MESSAGE_CHARS: usize = 500;

pub(crate) struct Core {
    pub definition: Arc<ServerDefinition>,
    pub root: AbsPath,
    /// The package roots of the server; `root` itself unless one server serves several.
    folders: Mutex<Vec<AbsPath>>,
    pub workspace: Workspace,
    pub host: Arc<dyn Host>,
    /// The requests that may be sent.
    pub requests: RequestTable,
    search: SearchPath,
    /// The definition's settings, with variables replaced.
    ///
    /// The variable of the virtual environment is replaced later.
    settings: Value,
    /// Messages for the user, the newest last.
    messages: Mutex<VecDeque<String>>,
    pub loading: Loading,
    pub language_version: LanguageVersion,
    pub diagnostics: PushedDiagnostics,
    /// State of the checks of saved files that Pilcrow requests.
    pub check_on_save: CheckOnSave,
    pub traffic: Arc<Traffic>,
    pub file_poller: FilePoller,
    pub deleted_files: DeletedFiles,
    /// Open documents as last read from the disk.
    pub read: ReadCache,
    /// Holds one permit; its owner may cause edits by the server.
    pub commanding: Semaphore,
    /// Permit to check a text: checks run in sequence, so that some finish in time.
    pub clean_check: Semaphore,
    capabilities: Mutex<Capabilities>,
    documents: Mutex<OpenDocuments>,
    result_ids: Mutex<ResultIds>,
    edits: Mutex<Option<EditInbox>>,
}

impl Core {
    pub fn new(
        definition: Arc<ServerDefinition>,
        root: AbsPath,
        workspace: Workspace,
        host: Arc<dyn Host>,
        search: SearchPath,
        settings: Value,
        requests: RequestTable,
    ) -> Self {
        Self {
            loading: Loading::new(definition.ready.clone()),
            language_version: LanguageVersion::new(definition.language_version.clone()),
            diagnostics: PushedDiagnostics::new(definition.diagnostics.clone(), definition.longest_silence()),
            check_on_save: CheckOnSave::new(definition.diagnostics.check.clone()),
            traffic: Arc::new(Traffic::new()),
            file_poller: FilePoller::default(),
            deleted_files: DeletedFiles::default(),
            read: ReadCache::default(),
            commanding: Semaphore::new(1),
            clean_check: Semaphore::new(1),
            edits: Mutex::default(),
            capabilities: Mutex::new(Capabilities::new(requests)),
            requests,
            documents: Mutex::new(OpenDocuments::new(
                definition.diagnostics.recheck.clone().filter(|rule| !rule.params.is_empty()),
            )),
            result_ids: Mutex::default(),
            definition,
            root,
            folders: Mutex::default(),
            workspace,
            host,
            search,
            settings,
            messages: Mutex::default(),
        }
    }

    /// The settings for a file or directory; for the first package root without one.
    pub(crate) fn settings_for(&self, scope: Option<&AbsPath>) -> Cow<'_, Value> {
        if !names_venv(&self.settings) {
            return Cow::Borrowed(&self.settings);
        }
        let first = self.folders().first().cloned();
        let scope = scope.or(first.as_ref()).unwrap_or(&self.root);
        let venv = self.search.environment(scope.as_path(), self.workspace.root().as_path());
        Cow::Owned(with_venv(&self.settings, venv.as_deref()))
    }

    /// Handles `window/showMessage`.
    pub fn add_message(&self, kind: MessageType, text: &str) {
        let text: String = text.trim().chars().take(MAX_MESSAGE_CHARS).collect();
        if text.is_empty() || !matches!(kind, MessageType::Error | MessageType::Warning) {
            return;
        }
        let mut messages = self.messages.lock();
        messages.retain(|it| *it != text);
        messages.push_back(text);
        if messages.len() > MAX_MESSAGES {
            messages.pop_front();
        }
    }

    /// The last errors and warnings that the server showed.
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().iter().cloned().collect()
    }

    /// Locks the capabilities, before the documents if both are needed.
    ///
    /// Neither lock is held across an `.await`.
    pub fn capabilities(&self) -> MutexGuard<'_, Capabilities> {
        self.capabilities.lock()
    }

    /// The files that the server registered to watch.
    pub fn watchers(&self) -> Arc<Watchers> {
        self.capabilities().watchers(&self.root)
    }

    pub fn documents(&self) -> MutexGuard<'_, OpenDocuments> {
        self.documents.lock()
    }

    /// Keeps a document open while the returned value lives.
    pub fn hold(&self, path: &AbsPath) -> Held<'_> {
        self.documents().hold(path);
        Held(self, path.clone())
    }

    /// The reports of pull diagnostics. Locked alone.
    pub(crate) fn result_ids(&self) -> MutexGuard<'_, ResultIds> {
        self.result_ids.lock()
    }

    /// The receiver of edits while a request is pending that may cause some.
    pub fn edits(&self) -> MutexGuard<'_, Option<EditInbox>> {
        self.edits.lock()
    }

    pub(crate) fn sync_rule(&self) -> SyncRule {
        let capabilities = self.capabilities();
        let (open, incremental) = capabilities.sync();
        SyncRule { open, incremental, encoding: capabilities.encoding() }
    }

    pub fn workspace_folders(&self) -> Value {
        self.folders().iter().map(workspace_folder).collect()
    }

    pub fn folders(&self) -> MutexGuard<'_, Vec<AbsPath>> {
        self.folders.lock()
    }
}

/// A document that a pending request needs.
#[must_use = "dropping it ends the hold"]
pub(crate) struct Held<'a>(&'a Core, AbsPath);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.documents().release(&self.1);
    }
}

/// An LSP `WorkspaceFolder`.
pub(crate) fn workspace_folder(path: &AbsPath) -> Value {
    json!({"uri": paths::path_to_uri(path.as_path()), "name": path.file_name()})
}
