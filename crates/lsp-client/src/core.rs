//! What the two sides of one running server share: those who ask, and the handler of its messages.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use workspace::{AbsPath, Workspace};

use crate::capabilities::Capabilities;
use crate::definition::{ServerDefinition, names_venv, with_venv};
use crate::diagnostics::PushedDiagnostics;
use crate::discovery::SearchPath;
use crate::documents::{OpenDocuments, SyncRule};
use crate::features::Inbox;
use crate::gone::Gone;
use crate::host::{Host, MessageType};
use crate::loading::Loading;
use crate::reports::Reports;
use crate::saved::Saved;
use crate::sweep::Sweep;
use crate::traffic::Traffic;
use crate::watchers::Watchers;

/// Messages kept of a server, each with at most so many characters.
const KEPT: usize = 5;
const MOST_SAID: usize = 500;

pub(crate) struct Core {
    pub definition: Arc<ServerDefinition>,
    pub root: AbsPath,
    /// The package roots it works on; `root` itself unless one server takes several.
    folders: Mutex<Vec<AbsPath>>,
    pub workspace: Workspace,
    pub host: Arc<dyn Host>,
    search: SearchPath,
    /// The definition's settings with their variables replaced, but for the virtual environment.
    settings: Value,
    /// What it had shown to a person, the newest last.
    said: Mutex<VecDeque<String>>,
    pub loading: Loading,
    pub diagnostics: PushedDiagnostics,
    /// What it finds in saved files, when it is asked.
    pub saved: Saved,
    pub traffic: Arc<Traffic>,
    pub sweep: Sweep,
    pub gone: Gone,
    /// One permit: who holds it may cause edits by the server.
    pub commanding: Semaphore,
    /// One permit: who holds it looks at a text. One after the other, so that some are known in time.
    pub looking: Semaphore,
    capabilities: Mutex<Capabilities>,
    documents: Mutex<OpenDocuments>,
    reports: Mutex<Reports>,
    edits: Mutex<Option<Inbox>>,
}

impl Core {
    pub fn new(
        definition: Arc<ServerDefinition>,
        root: AbsPath,
        folders: Vec<AbsPath>,
        workspace: Workspace,
        host: Arc<dyn Host>,
        search: SearchPath,
        settings: Value,
    ) -> Self {
        Self {
            loading: Loading::new(definition.ready.clone()),
            diagnostics: PushedDiagnostics::new(definition.diagnostics.clone(), definition.longest_silence()),
            saved: Saved::new(definition.diagnostics.check.clone()),
            traffic: Arc::new(Traffic::new()),
            sweep: Sweep::default(),
            gone: Gone::default(),
            commanding: Semaphore::new(1),
            looking: Semaphore::new(1),
            edits: Mutex::default(),
            capabilities: Mutex::default(),
            documents: Mutex::new(OpenDocuments::new(definition.diagnostics.anew.clone())),
            reports: Mutex::default(),
            definition,
            root,
            folders: Mutex::new(folders),
            workspace,
            host,
            search,
            settings,
            said: Mutex::default(),
        }
    }

    /// The settings for a file or folder; for the first package root without one.
    pub fn settings_for(&self, scope: Option<&AbsPath>) -> Cow<'_, Value> {
        if !names_venv(&self.settings) {
            return Cow::Borrowed(&self.settings);
        }
        let first = self.folders().first().cloned();
        let scope = scope.or(first.as_ref()).unwrap_or(&self.root);
        let venv = self.search.environment(scope.as_path(), self.workspace.root().as_path());
        Cow::Owned(with_venv(&self.settings, venv.as_deref()))
    }

    /// `window/showMessage`.
    pub fn says(&self, kind: MessageType, text: &str) {
        let text: String = text.trim().chars().take(MOST_SAID).collect();
        if text.is_empty() || !matches!(kind, MessageType::Error | MessageType::Warning) {
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.retain(|it| *it != text);
        said.push_back(text);
        if said.len() > KEPT {
            said.pop_front();
        }
    }

    /// The last errors and warnings that it had shown to a person.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Neither lock is held across an `.await`; where both are, capabilities come first.
    pub fn capabilities(&self) -> MutexGuard<'_, Capabilities> {
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files that the server asked to hear of.
    pub fn watchers(&self) -> Arc<Watchers> {
        self.capabilities().watchers(&self.root)
    }

    pub fn documents(&self) -> MutexGuard<'_, OpenDocuments> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a document from being closed to make room, as long as the answer lives.
    pub fn hold(&self, path: &AbsPath) -> Held<'_> {
        self.documents().hold(path);
        Held(self, path.clone())
    }

    /// What it answered when it was asked for diagnostics. Taken alone.
    pub fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where edits of the server go while a question is open that may cause some.
    pub fn edits(&self) -> MutexGuard<'_, Option<Inbox>> {
        self.edits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn sync_rule(&self) -> SyncRule {
        let capabilities = self.capabilities();
        let (open, incremental) = capabilities.sync();
        SyncRule { open, incremental, encoding: capabilities.encoding() }
    }

    pub fn workspace_folders(&self) -> Value {
        self.folders().iter().map(folder).collect()
    }

    pub fn folders(&self) -> MutexGuard<'_, Vec<AbsPath>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is under way about a document.
#[must_use = "it holds as long as it lives"]
pub(crate) struct Held<'a>(&'a Core, AbsPath);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.documents().release(&self.1);
    }
}

/// `WorkspaceFolder` of LSP.
pub(crate) fn folder(path: &AbsPath) -> Value {
    json!({"uri": workspace::path_to_uri(path.as_path()), "name": path.file_name()})
}
