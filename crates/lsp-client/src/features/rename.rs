//! Rename of a thing, and of a file with all that refers to it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use workspace::{AbsPath, Document, ErrorCode, Operation, WorkspaceEdit};

use super::family::{Family, Wanted};
use super::holders::Where;
use super::new_place::{self, Lost};
use super::{at, holders, includes, old_place};
use crate::answer::Answer;
use crate::definition::Feature;
use crate::error::ServerError;
use crate::file_filter::follows;
use crate::pool::{RequestCx, ServerPool};
use crate::protocol::RawWorkspaceEdit;
use crate::server::{Clock, Server};

impl ServerPool {
    /// The edit that renames the thing at byte `offset`, in all files. Never empty.
    ///
    /// # Errors
    /// [`ServerError`]: `Refused` when nothing can be renamed there or nothing would change, `Starting`
    /// when the server has not loaded the project in time: half a rename is worse than none.
    pub async fn rename(
        self: &Arc<Self>,
        doc: &Document,
        offset: usize,
        new_name: &str,
        cx: &RequestCx,
    ) -> Result<Answer<WorkspaceEdit>, ServerError> {
        let clock = cx.clock();
        let server = self.pick(&doc.path, Feature::Rename, clock).await?;
        ready(&server, Some(doc), clock).await?;
        let prepares = {
            let capabilities = server.core.capabilities();
            let provider = capabilities.provider("renameProvider", "textDocument/rename");
            provider.is_some_and(|options| options["prepareProvider"] == true)
        };
        let mut old_name = doc.text[text::word_at(&doc.text, offset)].to_owned();
        if prepares {
            old_name = prepare(&server, doc, offset, clock).await?.unwrap_or(old_name);
        }
        if old_name == new_name {
            return Err(
                server.refused(ErrorCode::InvalidArguments, format!("it is called {new_name} already"))
            );
        }
        let mut holders = self.open_holders(&server, &old_name, Where::All, clock).await?;
        let first = renamed(&server, doc, offset, &old_name, new_name, clock).await;
        // Edits are believed for texts that the server was given. The others are opened, and it is
        // asked again.
        let unseen = first.as_ref().map(|edit| self.not_open(&server, edit)).unwrap_or_default();
        let (again, opened_again) = if unseen.is_empty() || unseen.len() > holders::MOST {
            (first, None)
        } else {
            let documents: Vec<Document> =
                unseen.iter().filter_map(|path| self.workspace.document(path).ok()).collect();
            let opened = server.open_all(&documents, clock).await?;
            (renamed(&server, doc, offset, &old_name, new_name, clock).await, Some(opened))
        };
        let closed = again.as_ref().map(|edit| self.not_open(&server, edit)).unwrap_or_default();
        // What it did not have open is looked at by `fits` below; a module's other file is given to it.
        let edit = match again {
            Ok(edit) => self.with_twins(&server, edit, (&old_name, new_name), &holders.paths, cx).await,
            Err(error) => Err(error),
        };
        let family = match &edit {
            Ok(edit) => {
                let renamed = places(edit);
                let is_renamed =
                    |path: &AbsPath, at: usize| renamed.get(path).is_some_and(|it| it.contains(&at));
                self.family(&server, (doc, offset), &holders.paths, Wanted::All, &is_renamed, clock).await
            }
            Err(_) => Ok(Family::default()),
        };
        for opened in holders.opened.take().into_iter().chain(opened_again) {
            server.close_all(opened).await;
        }
        let (edit, family) = (edit?, family?);
        if let Some(path) = closed.iter().find(|path| !self.fits(&edit, path, &old_name, new_name)) {
            let reason = format!("its places in {path} do not hold {old_name}");
            return Err(server.protocol("textDocument/rename", reason));
        }
        if edit.operations.is_empty() {
            let message = format!(
                "it changes nothing for renaming {old_name:?} to {new_name:?}; is {new_name:?} a name that this language takes?"
            );
            return Err(server.refused(ErrorCode::InvalidArguments, message));
        }
        let incomplete = server.note();
        let left = holders.left(&server, &old_name, &edited(&edit).map(|(path, _)| path).collect::<Vec<_>>());
        let related = family.not_renamed(&server, &old_name);
        let answer = Answer { value: edit, server: server.name().to_owned(), note: related };
        let answer = super::noted(super::noted(answer, incomplete), holders.note);
        Ok(super::noted(answer, left))
    }

    /// Files that `edit` changes and the server has not been given the text of.
    fn not_open(&self, server: &Server, edit: &WorkspaceEdit) -> Vec<AbsPath> {
        let open = server.core.documents().paths();
        let mut paths: Vec<AbsPath> = edited(edit).map(|(path, _)| path.clone()).collect();
        paths.retain(|path| !open.contains(path));
        paths
    }

    /// Whether every place of `path` that gets the new name holds the old one.
    fn fits(&self, edit: &WorkspaceEdit, path: &AbsPath, old_name: &str, new_name: &str) -> bool {
        let Ok(document) = self.workspace.document(path) else { return false };
        edited(edit)
            .filter(|(edited, _)| *edited == path)
            .flat_map(|(_, edits)| edits)
            .filter(|place| place.new_text == new_name)
            .all(|place| document.text.get(place.range.clone()) == Some(old_name))
    }

    /// The edit that moves a file or folder and mends what refers to it: all servers that follow file
    /// names are asked, the rename itself comes last. Without such a server it is the rename alone, and
    /// a note says so.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn rename_file(
        self: &Arc<Self>,
        from: &AbsPath,
        to: &AbsPath,
        cx: &RequestCx,
    ) -> Result<Answer<WorkspaceEdit>, ServerError> {
        let clock = cx.clock();
        let label = format!("move {} to {}", self.workspace.relative(from), self.workspace.relative(to));
        let folder = from.as_path().is_dir();
        // A folder has no language; its first file that has one speaks for it.
        let speaker = match folder {
            true => self
                .workspace
                .files(from)
                .find(|path| !self.definitions().for_feature(path.as_path(), Feature::RenameFile).is_empty()),
            false => Some(from.clone()),
        };
        let mut notes = Vec::new();
        let servers = match &speaker {
            None => Vec::new(),
            Some(path) => match self.pick_all(path, Feature::RenameFile, clock).await {
                Ok((mut servers, problems)) => {
                    notes.extend(problems.iter().map(ServerError::to_string));
                    servers.retain(|server| follows(server, from, folder));
                    servers
                }
                Err(ServerError::NoServer { .. } | ServerError::Unsupported { .. }) => Vec::new(),
                // Of one that was never tried nobody knows whether it would mend anything.
                Err(ServerError::Missing { server, .. }) if !self.is_verified(&server) => Vec::new(),
                Err(error) => return Err(error),
            },
        };
        let same_folder = from.as_path().parent() == to.as_path().parent();
        if let Some(server) =
            servers.iter().find(|server| !same_folder && server.core.definition.moves_within_folder)
        {
            let name = self.workspace.relative(from);
            let message = format!(
                "it mends imports only when a file keeps its folder, and {name} would leave it; `MV` of an edit moves it alone, and its imports have to be mended by edits"
            );
            return Err(server.refused(ErrorCode::Unsupported, message));
        }
        let mut edit = WorkspaceEdit { label: label.clone(), ..WorkspaceEdit::default() };
        let uri = |path: &AbsPath| workspace::path_to_uri(path.as_path());
        let files = json!({"files": [{"oldUri": uri(from), "newUri": uri(to)}]});
        for server in &servers {
            let document = speaker.as_ref().and_then(|path| self.workspace.document(path).ok());
            ready(server, document.as_ref(), clock).await?;
            // Files outside its project, or of another package, may import it: it looks at what it is shown.
            let stem = from.as_path().file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let holders = self.open_holders(server, stem, Where::All, clock).await?;
            let ask = server.ask(document.as_ref(), "workspace/willRenameFiles", clock, |_, _| files.clone());
            let asked = ask.await;
            if let Some(opened) = holders.opened {
                server.close_all(opened).await;
            }
            let asked = asked?;
            notes.extend(holders.note);
            let raw: Option<RawWorkspaceEdit> = server.read(&asked.method, &asked.raw)?;
            let theirs = asked.workspace_edit(server, raw.unwrap_or_default(), label.clone())?;
            if let Some(lost) = new_place::lost(&self.workspace, &theirs, (from, to), folder) {
                let (place, Lost { line, old, new, .. }) = (self.workspace.relative(&lost.path), &lost);
                let message = format!(
                    "its answer takes {old:?} out of {place}:{line} and does not put {new:?} there, so nothing is moved; `reload` it and try again, or move it alone by `MV` of an edit and mend what refers to it by edits"
                );
                return Err(server.refused(ErrorCode::NotApplied, message));
            }
            edit.confirm.extend(theirs.confirm);
            for operation in theirs.operations {
                match &operation {
                    // The move is ours; a file that a better server has mended already stays so.
                    Operation::Rename { from: old, .. } if old == from => {}
                    Operation::Edit { path, .. } if edits(&edit, path) => {}
                    _ => edit.operations.push(operation),
                }
            }
        }
        // The other file of a module has its name, and is found by it.
        let twins = if folder { Vec::new() } else { self.twins(from) };
        for twin in twins {
            let path = &twin.path;
            let is = |it: &Operation| matches!(it, Operation::Rename { from, .. } if from == path);
            if edit.operations.iter().any(is) {
                continue;
            }
            let (name, other) = (self.workspace.relative(from), self.workspace.relative(path));
            if from.as_path().extension() != to.as_path().extension() {
                notes.push(format!("{other}, which stands beside {name}, keeps its name"));
                continue;
            }
            let extension = path.as_path().extension().unwrap_or_default();
            let Some(moved) = AbsPath::new(to.as_path().with_extension(extension)) else { continue };
            let mut note = format!(
                "{other} belongs to {name} and moves with it, to {}",
                self.workspace.relative(&moved)
            );
            if !same_folder {
                note.push_str("; look whether its own imports still hold");
            }
            notes.push(note);
            let expected = (!edits(&edit, path)).then_some(twin.version);
            edit.operations.push(Operation::Rename { from: twin.path, to: moved, expected, replaces: None });
        }
        // Edits of the file itself come first, so the version that they are for is checked by them.
        let expected = match folder || edits(&edit, from) {
            true => None,
            false => self.workspace.document(from).ok().map(|document| document.version),
        };
        edit.operations.push(Operation::Rename {
            from: from.clone(),
            to: to.clone(),
            expected,
            replaces: None,
        });
        let mended = includes::mend(&self.workspace, &edit, clock).await;
        notes.extend(match (servers.is_empty(), mended.amount()) {
            (true, Some(lines)) => {
                Some(format!("no language server follows this file's name: {lines} mended, nothing else"))
            }
            (true, None) => Some(
                "no language server follows this file's name: what refers to it was not mended".to_owned(),
            ),
            (false, Some(lines)) => Some(format!("{lines} mended besides")),
            (false, None) => None,
        });
        notes.extend(mended.elsewhere);
        notes.extend(mended.note);
        // As above, of what moves and is mended too.
        for operation in &mut edit.operations {
            let Operation::Rename { from, expected, .. } = operation else { continue };
            let is = |it: &Operation| matches!(it, Operation::Edit { path, .. } if path == from);
            if mended.operations.iter().any(is) {
                *expected = None;
            }
        }
        edit.operations.splice(0..0, mended.operations);
        let names: Vec<&str> = servers.iter().map(|server| server.name()).collect();
        notes.extend(servers.iter().filter_map(|server| server.note()));
        notes.extend(old_place::still_named(&self.workspace, &edit, clock).await);
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        Ok(Answer { value: edit, server: names.join(", "), note })
    }
}

/// Asks once.
pub(super) async fn renamed(
    server: &Server,
    doc: &Document,
    offset: usize,
    old_name: &str,
    new_name: &str,
    clock: Clock<'_>,
) -> Result<WorkspaceEdit, ServerError> {
    let ask = server.ask(Some(doc), "textDocument/rename", clock, |synced, encoding| {
        let mut params = at(synced, offset, encoding);
        params["newName"] = new_name.into();
        params
    });
    let asked = ask.await.map_err(about_arguments)?;
    let raw: Option<RawWorkspaceEdit> = server.read(&asked.method, &asked.raw)?;
    asked.workspace_edit(server, raw.unwrap_or_default(), format!("rename {old_name} to {new_name}"))
}

/// A server that refuses to rename speaks of the place or the name that it was given.
fn about_arguments(error: ServerError) -> ServerError {
    match error {
        ServerError::Refused { server, message, code: ErrorCode::NotApplied } => {
            ServerError::Refused { server, message, code: ErrorCode::InvalidArguments }
        }
        other => other,
    }
}

pub(super) fn edited(edit: &WorkspaceEdit) -> impl Iterator<Item = (&AbsPath, &Vec<text::TextEdit>)> {
    edit.operations.iter().filter_map(|operation| match operation {
        Operation::Edit { path, edits, .. } => Some((path, edits)),
        _ => None,
    })
}

/// Where `edit` changes files.
fn places(edit: &WorkspaceEdit) -> HashMap<&AbsPath, HashSet<usize>> {
    let mut places: HashMap<&AbsPath, HashSet<usize>> = HashMap::new();
    for (path, edits) in edited(edit) {
        places.entry(path).or_default().extend(edits.iter().map(|it| it.range.start));
    }
    places
}

fn edits(edit: &WorkspaceEdit, wanted: &AbsPath) -> bool {
    let is = |operation: &Operation| matches!(operation, Operation::Edit { path, .. } if path == wanted);
    edit.operations.iter().any(is)
}

async fn ready(server: &Server, document: Option<&Document>, clock: Clock<'_>) -> Result<(), ServerError> {
    if server.wait_ready(document, clock).await? {
        // Half a rename is worse than none.
        return match server.core.loading.failure() {
            Some(why) => Err(server.refused(
                ErrorCode::WrongState,
                format!("the project is not loaded ({why}), so nothing is renamed; mend that first"),
            )),
            None => Ok(()),
        };
    }
    Err(ServerError::Starting { server: server.name().to_owned(), detail: server.doing() })
}

/// `prepareRename`: the name that would be replaced, where the server says it.
async fn prepare(
    server: &Server,
    doc: &Document,
    offset: usize,
    clock: Clock<'_>,
) -> Result<Option<String>, ServerError> {
    let method = "textDocument/prepareRename";
    let ask = server.ask(Some(doc), method, clock, |synced, encoding| at(synced, offset, encoding));
    let asked = ask.await.map_err(about_arguments)?;
    let prepared: Value = server.read(method, &asked.raw)?;
    if prepared.is_null() {
        let name = &doc.text[text::word_at(&doc.text, offset)];
        let message = format!("{name:?} cannot be renamed: nothing of the project's own is there");
        return Err(server.refused(ErrorCode::InvalidArguments, message));
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
