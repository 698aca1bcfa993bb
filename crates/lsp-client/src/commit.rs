//! Keeping servers in step with what was committed.

use serde_json::{Value, json};
use workspace::{AbsPath, ChangeKind, Commit, Document, Owner, path_to_uri};

use crate::file_filter::wanted;
use crate::pool::ServerPool;
use crate::server::Server;
use crate::sweep::{CHANGED, CREATED, DELETED};

impl ServerPool {
    /// Tells every running server what a commit changed: new texts of open documents, documents that
    /// are gone, and the files that it watches. Done when all is in the servers' queues.
    pub async fn did_commit(&self, commit: &Commit) {
        let mut events: Vec<(AbsPath, u8)> = Vec::new();
        let mut closed: Vec<AbsPath> = Vec::new();
        let mut told = Told::default();
        for file in &commit.files {
            match &file.kind {
                ChangeKind::Modified => events.push((file.path.clone(), CHANGED)),
                ChangeKind::Created => {
                    events.push((file.path.clone(), CREATED));
                    told.created.push(file.path.clone());
                }
                ChangeKind::Deleted => {
                    told.deleted.push(file.path.clone());
                    events.push((file.path.clone(), DELETED));
                    closed.push(file.path.clone());
                }
                ChangeKind::Renamed { from } => {
                    events.push((from.clone(), DELETED));
                    events.push((file.path.clone(), CREATED));
                    closed.push(from.clone());
                    told.renamed.0.push(from.clone());
                    told.renamed.1.push(file.path.clone());
                }
            }
        }
        for server in self.running() {
            tell(&server, &events, &closed, &told).await;
        }
    }
}

/// What happened to files as such, in the protocol's own lists.
#[derive(Default)]
struct Told {
    created: Vec<AbsPath>,
    deleted: Vec<AbsPath>,
    /// From where; to where.
    renamed: (Vec<AbsPath>, Vec<AbsPath>),
}

async fn tell(server: &Server, events: &[(AbsPath, u8)], closed: &[AbsPath], told: &Told) {
    let mut messages = Vec::new();
    server.moves(events.iter().map(|(path, _)| path));
    server.core.diagnostics.hears(events.iter().map(|(path, _)| path));
    let (definition, watchers) = (&server.core.definition, server.core.watchers());
    server.core.sweep.knows(definition, &watchers, events.iter().map(|(path, _)| path));
    server.core.sweep.changed(events.iter().map(|(path, _)| path).filter(|path| server.is_source(path)));
    server.core.sweep.happened(definition, events);
    server.went(events.iter().filter(|(_, kind)| *kind == DELETED).map(|(path, _)| path));
    let mut all = events.to_vec();
    if server.core.definition.watch.by_marker {
        // One may have been shown to it before it was there, by an editor or in a trial.
        let came = events.iter().filter(|(_, kind)| *kind == CREATED);
        all.extend(came.filter_map(|(path, _)| server.marker(path)));
        all.dedup();
    }
    let watched = watched(server, &all);
    let (from, to) = &told.renamed;
    for (operation, method, files) in [
        ("didCreate", "workspace/didCreateFiles", &told.created),
        ("didDelete", "workspace/didDeleteFiles", &told.deleted),
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

/// What a server that wants to hear of it is told of a file that it has open and that the commit wrote;
/// one that an editor has open is not saved by it.
fn saved(server: &Server, path: &AbsPath) -> Option<Value> {
    if !server.core.documents().holds(path) {
        return None;
    }
    let document = server.core.workspace.document(path).ok().filter(|it| it.owner == Owner::Disk)?;
    did_save(server, &document)
}

/// `DidSaveTextDocumentParams`; `None` to a server that does not want to hear of it.
pub(crate) fn did_save(server: &Server, document: &Document) -> Option<Value> {
    let options = server.core.capabilities().save()?;
    let mut params = json!({"textDocument": {"uri": path_to_uri(document.path.as_path())}});
    if options["includeText"] == true {
        params["text"] = json!(&*document.text);
    }
    Some(params)
}

/// The events that some watcher of the server asked for (LSP 3.17 §DidChangeWatchedFiles).
pub(crate) fn watched(server: &Server, events: &[(AbsPath, u8)]) -> Vec<Value> {
    let watchers = server.core.watchers();
    let wanted = events.iter().filter(|(path, kind)| watchers.tells(path, *kind));
    wanted.map(|(path, kind)| json!({"uri": path_to_uri(path.as_path()), "type": kind})).collect()
}
