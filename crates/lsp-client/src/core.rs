//! What the two sides of one running server share: those who ask, and the handler of its messages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use workspace::{AbsPath, Workspace};

use crate::capabilities::Capabilities;
use crate::definition::ServerDefinition;
use crate::diagnostics::PushedDiagnostics;
use crate::documents::{OpenDocuments, SyncRule};
use crate::features::Inbox;
use crate::host::Host;
use crate::loading::Loading;
use crate::reports::Reports;
use crate::sweep::Sweep;
use crate::traffic::Traffic;

pub(crate) struct Core {
    pub definition: Arc<ServerDefinition>,
    pub root: AbsPath,
    /// The package roots it works on; `root` itself unless one server takes several.
    folders: Mutex<Vec<AbsPath>>,
    pub workspace: Workspace,
    pub host: Arc<dyn Host>,
    /// The definition's settings with their variables replaced.
    pub settings: Value,
    pub loading: Loading,
    pub diagnostics: PushedDiagnostics,
    pub traffic: Arc<Traffic>,
    pub sweep: Sweep,
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
        settings: Value,
    ) -> Self {
        Self {
            loading: Loading::new(definition.ready.clone()),
            diagnostics: PushedDiagnostics::new(definition.diagnostics.clone()),
            traffic: Arc::new(Traffic::new()),
            sweep: Sweep::default(),
            commanding: Semaphore::new(1),
            looking: Semaphore::new(1),
            edits: Mutex::default(),
            capabilities: Mutex::default(),
            documents: Mutex::default(),
            reports: Mutex::default(),
            definition,
            root,
            folders: Mutex::new(folders),
            workspace,
            host,
            settings,
        }
    }

    /// Neither lock is held across an `.await`; where both are, capabilities come first.
    pub fn capabilities(&self) -> MutexGuard<'_, Capabilities> {
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn documents(&self) -> MutexGuard<'_, OpenDocuments> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
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

/// `WorkspaceFolder` of LSP.
pub(crate) fn folder(path: &AbsPath) -> Value {
    json!({"uri": workspace::path_to_uri(path.as_path()), "name": path.file_name()})
}
