//! Rename of a symbol, as one server answers it.

use std::sync::Arc;

use paths::AbsPath;
use policy::ErrorCode;
use serde_json::Value;
use workspace::{Document, Operation, WorkspaceEdit};

use super::at;
use super::candidate_files::{Candidates, Kinds, MAX_OPENED};
use super::server_handle::ServerHandle;
use crate::error::{Refusal, Result, ServerError};
use crate::note::Note;
use crate::pool::{RequestCx, ServerPool};
use crate::server::protocol::RawWorkspaceEdit;
use crate::server::request_table::Request;
use crate::server::{Clock, Opened, Server};
use adapters::Feature;

const RENAME: &str = "textDocument/rename";

pub(super) const REQUESTS: &[Request] = &[
    Request::new(RENAME).of(Feature::Rename, "renameProvider"),
    Request::new("textDocument/prepareRename").quick(),
];

/// A server's answer to a rename.
///
/// The candidates stay open in the server until [`Renamed::close`].
pub struct Renamed {
    pub server: ServerHandle,
    /// The name that is replaced.
    pub old_name: String,
    /// The edit, which is never empty.
    pub edit: WorkspaceEdit,
    /// The files that contain the old name.
    pub candidates: Candidates,
    opened: Vec<Opened>,
    /// Whether the server needs the candidates open.
    shows_candidates: bool,
}

impl Renamed {
    /// Closes the candidates.
    ///
    /// Returns the reasons why the answer may be incomplete.
    pub async fn close(&mut self) -> Vec<Note> {
        let server = self.server.server();
        for opened in self.opened.drain(..) {
            server.close_all(opened).await;
        }
        let mut notes: Vec<Note> = server.note().into_iter().collect();
        if self.shows_candidates {
            let edited: Vec<&AbsPath> = edited(&self.edit).map(|(path, _)| path).collect();
            notes.extend(self.candidates.note());
            notes.extend(self.candidates.missed(server, &self.old_name, &edited));
        }
        notes
    }
}

impl ServerPool {
    /// Requests the edit in all files that renames the symbol at byte `offset`.
    ///
    /// # Errors
    ///
    /// [`ServerError`]: `Refused` when nothing can be renamed there or nothing would change,
    /// `Starting` when the server has not loaded the project in time. Half a rename is worse than
    /// none.
    pub async fn rename(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        new_name: &str,
        cx: &RequestCx,
    ) -> Result<Renamed> {
        let clock = cx.clock();
        let server = self.server_for(&doc.path, Feature::Rename, cx).await?;
        server.require_loaded(Some(doc), clock).await?;
        let old_name = server.old_name(doc, offset, clock).await?;
        if old_name == new_name {
            return Err(server.server().refused(Refusal::SameName(old_name)));
        }
        let candidates = self.find_candidates(server.server(), &old_name, Kinds::All, clock).await?;
        let shown = self.open_found(server.server(), &candidates, &candidates.documents, clock).await?;
        let shows_candidates = shown.is_some();
        let mut opened: Vec<Opened> = shown.into_iter().collect();
        let names = (old_name.as_str(), new_name);
        match self.rename_open(&server, doc, offset, names, &mut opened, clock).await {
            Ok(edit) => Ok(Renamed { server, old_name, edit, candidates, opened, shows_candidates }),
            Err(error) => {
                for opened in opened {
                    server.server().close_all(opened).await;
                }
                Err(error)
            }
        }
    }

    /// Requests the edit, and again with the files open that it changes.
    async fn rename_open(
        &self,
        server: &ServerHandle,
        doc: &Document,
        offset: usize,
        (old_name, new_name): (&str, &str),
        opened: &mut Vec<Opened>,
        clock: Clock<'_>,
    ) -> Result<WorkspaceEdit> {
        let mut edit = server.rename(doc, offset, (old_name, new_name), clock).await?;
        // An edit is valid only for texts that were sent to the server.
        let closed = not_open(server.server(), &edit);
        if !closed.is_empty() && closed.len() <= MAX_OPENED {
            let documents: Vec<Document> =
                closed.iter().filter_map(|path| self.workspace.document(path).ok()).collect();
            opened.push(server.server().open_all(&documents, clock).await?);
            edit = server.rename(doc, offset, (old_name, new_name), clock).await?;
        }
        let closed = not_open(server.server(), &edit);
        if let Some(path) = closed.iter().find(|path| !self.fits(&edit, path, old_name, new_name)) {
            let reason = format!("its places in {path} do not contain {old_name}");
            return Err(server.server().protocol(RENAME, reason));
        }
        if edit.operations.is_empty() {
            let (old, new) = (old_name.to_owned(), new_name.to_owned());
            return Err(server.server().refused(Refusal::NothingRenamed { old, new }));
        }
        Ok(edit)
    }

    /// Whether every range of `path` that gets the new name contains the old one.
    fn fits(&self, edit: &WorkspaceEdit, path: &AbsPath, old_name: &str, new_name: &str) -> bool {
        let Ok(document) = self.workspace.document(path) else { return false };
        edited(edit)
            .filter(|(edited, _)| *edited == path)
            .flat_map(|(_, edits)| edits)
            .filter(|edit| edit.new_text == new_name)
            .all(|edit| document.text.get(edit.range.clone()) == Some(old_name))
    }
}

impl ServerHandle {
    /// The edit that renames the symbol at byte `offset`, as the server gives it.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn rename(
        &self,
        doc: &Document,
        offset: usize,
        (old_name, new_name): (&str, &str),
        clock: Clock<'_>,
    ) -> Result<WorkspaceEdit> {
        let server = self.server();
        let ask = server.ask(Some(doc), RENAME, clock, |synced, encoding| {
            let mut params = at(synced, offset, encoding);
            params["newName"] = new_name.into();
            params
        });
        let asked = ask.await.map_err(about_arguments)?;
        let raw: Option<RawWorkspaceEdit> = server.read(&asked.method, &asked.raw)?;
        asked.workspace_edit(server, raw.unwrap_or_default(), format!("rename {old_name} to {new_name}"))
    }

    /// The current name at byte `offset`: the server's, if it prepares renames.
    async fn old_name(&self, doc: &Document, offset: usize, clock: Clock<'_>) -> Result<String> {
        let prepares = {
            let capabilities = self.0.core.capabilities();
            let provider = capabilities.provider("renameProvider", RENAME);
            provider.is_some_and(|options| options["prepareProvider"] == true)
        };
        let prepared = if prepares { prepare(self.server(), doc, offset, clock).await? } else { None };
        Ok(prepared.unwrap_or_else(|| doc.text[text::word_at(&doc.text, offset)].to_owned()))
    }
}

/// Files that `edit` changes and the server does not have open.
fn not_open(server: &Server, edit: &WorkspaceEdit) -> Vec<AbsPath> {
    let open = server.core.documents().paths();
    let mut paths: Vec<AbsPath> = edited(edit).map(|(path, _)| path.clone()).collect();
    paths.retain(|path| !open.contains(path));
    paths
}

fn edited(edit: &WorkspaceEdit) -> impl Iterator<Item = (&AbsPath, &Vec<text::TextEdit>)> {
    edit.operations.iter().filter_map(|operation| match operation {
        Operation::Edit { path, edits, .. } => Some((path, edits)),
        _ => None,
    })
}

/// Maps a refused rename to an error about the position or the name.
fn about_arguments(mut error: ServerError) -> ServerError {
    if let ServerError::Refused { refusal: Refusal::Response { code, .. }, .. } = &mut error
        && *code == ErrorCode::NotApplied
    {
        *code = ErrorCode::InvalidArguments;
    }
    error
}

/// `prepareRename`: the name that would be replaced, where the server gives it.
async fn prepare(server: &Server, doc: &Document, offset: usize, clock: Clock<'_>) -> Result<Option<String>> {
    let method = "textDocument/prepareRename";
    let ask = server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding));
    let asked = ask.await.map_err(about_arguments)?;
    let prepared: Value = server.read(method, &asked.raw)?;
    if prepared.is_null() {
        let name = &doc.text[text::word_at(&doc.text, offset)];
        return Err(server.refused(Refusal::NoSymbol(name.to_owned())));
    }
    if let Some(placeholder) = prepared["placeholder"].as_str() {
        return Ok(Some(placeholder.to_owned()));
    }
    let range = prepared.get("range").unwrap_or(&prepared);
    let Ok(range) = serde_json::from_value(range.clone()) else { return Ok(None) };
    let view = asked.snapshot.get(&doc.path).map(|synced| Arc::clone(&synced.view));
    Ok(view.and_then(|view| {
        let range = view.range(range, asked.encoding)?;
        view.text.get(range).map(str::to_owned)
    }))
}
