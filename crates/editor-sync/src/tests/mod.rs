//! Tests of the editor port with a workspace, its commits, and a scripted editor.
#![expect(clippy::disallowed_methods, reason = "tests make and change the files of a project")]

mod commits;
mod documents;
mod interleavings;
mod late;
mod traps;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use paths::{AbsPath, StateDir};
use policy::{Policy, PolicyOptions, TrustStore};
use serde_json::value::RawValue;
use testing::editor::{Editor, Personality};
use text::TextEdit;
use tokio_util::task::TaskTracker;
use wire::{Handler, Peer, PeerOptions};
use workspace::{
    Commit, CommitError, Document, Operation, Plan, PlanError, RunId, Undo, Workspace, WorkspaceEdit,
};

use crate::apply_edit::EditorPort;
use crate::buffers::EditorBuffers;
use crate::editors::ClientFacts;

/// A workspace with a scripted editor.
struct Rig {
    workspace: Workspace,
    documents: Arc<EditorBuffers>,
    port: Arc<EditorPort>,
    editor: Editor,
    policy: Policy,
    _temp: tempfile::TempDir,
}

#[derive(Default)]
struct BufferUpdater {
    documents: OnceLock<Arc<EditorBuffers>>,
}

impl Handler for BufferUpdater {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        if let Some(documents) = self.documents.get() {
            documents.notification(method, params);
        }
    }
}

const TIMEOUT: Duration = Duration::from_secs(20);

impl Rig {
    fn new(personality: Personality, files: &[(&str, &str)]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        std::fs::create_dir(&root).unwrap();
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let (server_end, client_end) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(client_end);
        let editor = Editor::connect(reader, writer, personality);
        let mut client = ClientFacts::from_initialize(&editor.initialize_params(&[&root]));
        client.editor = client.editor.impatient();
        editor.agree(client.encoding_name());
        let documents = Arc::new(EditorBuffers::new(&client));
        let handler = Arc::new(BufferUpdater::default());
        assert!(handler.documents.set(Arc::clone(&documents)).is_ok());
        let (reader, writer) = tokio::io::split(server_end);
        let peer = Peer::spawn(reader, writer, handler, PeerOptions::new("front"), &TaskTracker::new());
        let port = EditorPort::new(peer, Arc::clone(&documents), client, &TaskTracker::new());
        let state = StateDir::new(AbsPath::new(temp.path().join("state")).unwrap());
        let as_editor: Arc<dyn workspace::Editor> = port.clone();
        let (workspace, _) = Workspace::open(&root, &state, Some(as_editor)).unwrap();
        let policy = Policy::new(PolicyOptions::new(TrustStore::new(state), workspace.root().clone()));
        Self { workspace, documents, port, editor, policy, _temp: temp }
    }

    fn path(&self, path: &str) -> AbsPath {
        self.workspace.root().join(path)
    }

    fn uri(&self, path: &str) -> String {
        paths::path_to_uri(self.path(path).as_path())
    }

    /// Opens a file in the editor and waits for the notification.
    async fn open(&self, path: &str) -> String {
        let uri = self.editor.open_file(self.path(path).as_path(), "text").await;
        self.synced(&uri).await;
        uri
    }

    /// Waits until the buffer has the editor's text.
    async fn synced(&self, uri: &str) {
        let mut changes = self.documents.changes();
        let same = || {
            let truth = self.editor.text(uri);
            self.documents.get(uri).is_some_and(|open| *open.text == *truth)
        };
        let wait = async {
            while {
                changes.borrow_and_update();
                !same()
            } {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.expect("the buffer gets the editor's text");
    }

    fn document(&self, path: &str) -> Document {
        self.workspace.document(&self.path(path)).unwrap()
    }

    /// An operation that replaces every `old` by `new`.
    fn replace(&self, path: &str, old: &str, new: &str) -> Operation {
        let document = self.document(path);
        let edits: Vec<TextEdit> = document
            .text
            .match_indices(old)
            .map(|(at, _)| TextEdit::replace(at..at + old.len(), new))
            .collect();
        assert!(!edits.is_empty(), "{old:?} is in {path}");
        Operation::Edit { path: document.path, expected: document.version, edits }
    }

    fn plan(&self, operations: Vec<Operation>) -> Result<Plan, PlanError> {
        self.workspace.plan(WorkspaceEdit {
            label: "a change".to_owned(),
            operations,
            ..WorkspaceEdit::default()
        })
    }

    async fn commit_plan(&self, plan: Plan) -> Result<Arc<Commit>, CommitError> {
        self.commit_plan_of(&RunId::new(), plan).await
    }

    async fn commit_plan_of(&self, run: &RunId, plan: Plan) -> Result<Arc<Commit>, CommitError> {
        let permit = self.policy.permit_invoked(&plan).unwrap();
        self.workspace.commit(plan, permit, run).await
    }

    async fn commit(&self, operations: Vec<Operation>) -> Result<Arc<Commit>, CommitError> {
        self.commit_plan(self.plan(operations).unwrap()).await
    }

    async fn undo(&self) -> Result<Arc<Commit>, CommitError> {
        let undo = self.workspace.plan_undo(&Undo::LastRun).unwrap();
        let permit = self.policy.permit_invoked(&undo.plan).unwrap();
        self.workspace.commit_undo(undo, permit, &RunId::new()).await
    }

    fn on_disk(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(path), text).unwrap();
    }

    fn disk(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut todo = vec![self.workspace.root().as_path().to_owned()];
        while let Some(directory) = todo.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    todo.push(path);
                } else {
                    let name = path.strip_prefix(self.workspace.root()).unwrap().display().to_string();
                    files.insert(name, std::fs::read(path).unwrap());
                }
            }
        }
        files
    }

    fn edits_sent(&self) -> usize {
        self.editor.got_of("workspace/applyEdit").len()
    }
}

fn all_personalities() -> Vec<Personality> {
    vec![Personality::neovim(), Personality::vscode(), Personality::careless(), Personality::whole()]
}

fn exists(path: &AbsPath) -> bool {
    Path::exists(path.as_path())
}
