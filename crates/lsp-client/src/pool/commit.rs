//! Notification of servers after a commit.

use paths::{AbsPath, path_to_uri};
use serde_json::{Value, json};
use workspace::{ChangeKind, Commit, Owner};

use crate::files::external_changes::{did_save, watched};
use crate::files::file_filter::wanted;
use crate::files::file_poll::{CHANGED, CREATED, DELETED};
use crate::pool::ServerPool;
use crate::server::Server;

impl ServerPool {
    /// Sends a commit to every running server.
    ///
    /// Sends new texts of open documents, deleted documents and watched files. Returns when all
    /// messages are in the servers' queues.
    pub async fn did_commit(&self, commit: &Commit) {
        let mut events: Vec<(AbsPath, u8)> = Vec::new();
        let mut closed: Vec<AbsPath> = Vec::new();
        let mut operations = FileOperations::default();
        // No file changed; servers get the texts as those of open documents.
        let files = if commit.is_proposal() { &[] } else { &*commit.files };
        for file in files {
            match &file.kind {
                ChangeKind::Modified => events.push((file.path.clone(), CHANGED)),
                ChangeKind::Created => {
                    events.push((file.path.clone(), CREATED));
                    operations.created.push(file.path.clone());
                }
                ChangeKind::Deleted => {
                    operations.deleted.push(file.path.clone());
                    events.push((file.path.clone(), DELETED));
                    closed.push(file.path.clone());
                }
                ChangeKind::Renamed { from } => {
                    events.push((from.clone(), DELETED));
                    events.push((file.path.clone(), CREATED));
                    closed.push(from.clone());
                    operations.renamed.0.push(from.clone());
                    operations.renamed.1.push(file.path.clone());
                }
            }
        }
        for server in self.running() {
            notify(&server, &events, &closed, &operations).await;
        }
    }
}

/// File operations in the lists that the protocol requires.
#[derive(Default)]
struct FileOperations {
    created: Vec<AbsPath>,
    deleted: Vec<AbsPath>,
    /// Old and new path.
    renamed: (Vec<AbsPath>, Vec<AbsPath>),
}

async fn notify(server: &Server, events: &[(AbsPath, u8)], closed: &[AbsPath], operations: &FileOperations) {
    let mut messages = Vec::new();
    server.record_changes(events.iter().map(|(path, _)| path));
    server.core.diagnostics.record_disk_changes(events.iter().map(|(path, _)| path));
    let (definition, watchers) = (&server.core.definition, server.core.watchers());
    server.core.file_poller.record_state(definition, &watchers, events.iter().map(|(path, _)| path));
    server
        .core
        .file_poller
        .changed(events.iter().map(|(path, _)| path).filter(|path| server.is_source(path)));
    server.core.file_poller.record_events(definition, events);
    server.record_deletions(events.iter().filter(|(_, kind)| *kind == DELETED).map(|(path, _)| path));
    let mut all = events.to_vec();
    if server.core.definition.watch.touch_marker {
        // An editor or a speculative edit may have opened the file before it existed.
        let came = events.iter().filter(|(_, kind)| *kind == CREATED);
        all.extend(came.filter_map(|(path, _)| server.marker(path)));
        all.dedup();
    }
    let watched = watched(server, &all);
    let (from, to) = &operations.renamed;
    for (operation, method, files) in [
        ("didCreate", "workspace/didCreateFiles", &operations.created),
        ("didDelete", "workspace/didDeleteFiles", &operations.deleted),
        ("didRename", "workspace/didRenameFiles", from),
    ] {
        let uri = |path: &AbsPath| path_to_uri(path.as_path());
        let files: Vec<Value> = wanted(server, operation, method, files)
            .into_iter()
            .map(|path| match from.iter().position(|it| it == path).and_then(|at| to.get(at)) {
                Some(to) if operation == "didRename" => json!({"oldUri": uri(path), "newUri": uri(to)}),
                _ => json!({"uri": uri(path)}),
            })
            .collect();
        if !files.is_empty() {
            messages.push((method, json!({"files": files})));
        }
    }
    for (path, kind) in events {
        if matches!(*kind, CHANGED | CREATED) {
            messages.extend(saved(server, path).map(|params| ("textDocument/didSave", params)));
        }
    }
    server.refresh(events, closed, &watched, &messages).await;
}

/// The `didSave` notification for an open file that the commit wrote.
///
/// `None` for a file that an editor has open, since the commit does not save it.
fn saved(server: &Server, path: &AbsPath) -> Option<Value> {
    if !server.core.documents().holds(path) {
        return None;
    }
    let document = server.core.workspace.document(path).ok().filter(|it| it.owner == Owner::Disk)?;
    did_save(server, &document)
}
