//! Move of a file or directory, with all references to it.
//!
//! The plan has the edits of all servers that follow file names, then the move itself. One scan of the workspace
//! updates `#include` lines and finds the lines that still name the old place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use adapters::Feature;
use lsp_client::{Clock, RequestCx, ServerHandle, ServerPool};
use paths::AbsPath;
use workspace::{Budget, Document, Operation, ReadError, Workspace, WorkspaceEdit};

use crate::includes::{self, Moves};
use crate::stale_paths::OldPlaces;
use crate::{Line, Note, Redirected, RefactorError, dropped_references, edited, edits, stub_files};

/// Maximum size of a file in which the scan searches old places, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Time limit of the scan.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The planned edit of a move, with notes on what it leaves.
#[derive(Debug)]
pub struct FileMove {
    pub edit: WorkspaceEdit,
    /// Names of the definitions, joined by `, `.
    ///
    /// Empty when no server follows the file's name.
    pub server: String,
    pub notes: Vec<Note>,
}

/// Plans the move of a file or directory.
///
/// # Errors
/// [`RefactorError`].
pub async fn move_file(
    workspace: &Workspace,
    pool: &Arc<ServerPool>,
    from: &AbsPath,
    to: &AbsPath,
    cx: &RequestCx,
) -> Result<FileMove, RefactorError> {
    let clock = cx.clock();
    let is_directory = from.as_path().is_dir();
    // A directory has no language; its first file that has one decides.
    let file = match is_directory {
        true => workspace.files(from).find(|path| pool.has_definition(path, Feature::RenameFile)),
        false => Some(from.clone()),
    };
    let (servers, notes) = match &file {
        Some(file) => pool.servers_for_move(from, file, cx).await?,
        None => Default::default(),
    };
    let label = format!("move {} to {}", workspace.relative(from), workspace.relative(to));
    let mut plan = MovePlan {
        workspace,
        from,
        to,
        is_directory,
        edit: WorkspaceEdit { label, ..WorkspaceEdit::default() },
        notes: crate::notes::of_server(notes),
    };
    plan.check_directory(&servers)?;
    let document = file.as_ref().and_then(|path| workspace.document(path).ok());
    for server in &servers {
        plan.ask(pool, server, document.as_ref(), clock).await?;
    }
    if !is_directory {
        plan.move_stubs(pool);
    }
    plan.push_move();
    let scan = scan(workspace, &plan.edit, clock).await;
    Ok(plan.finish(&servers, scan))
}

/// The state of a move during its planning.
struct MovePlan<'a> {
    workspace: &'a Workspace,
    from: &'a AbsPath,
    to: &'a AbsPath,
    is_directory: bool,
    edit: WorkspaceEdit,
    notes: Vec<Note>,
}

impl MovePlan<'_> {
    fn leaves_directory(&self) -> bool {
        self.from.as_path().parent() != self.to.as_path().parent()
    }

    /// Refuses a move to another directory if a server supports only moves within one.
    fn check_directory(&self, servers: &[ServerHandle]) -> Result<(), RefactorError> {
        let limited = servers.iter().find(|server| server.definition().moves_within_directory);
        match limited.filter(|_| self.leaves_directory()) {
            Some(server) => Err(RefactorError::LeavesDirectory {
                server: server.name().to_owned(),
                file: self.workspace.relative(self.from),
            }),
            None => Ok(()),
        }
    }

    /// Adds a server's edit, except in files that a preferred server has edited.
    async fn ask(
        &mut self,
        pool: &Arc<ServerPool>,
        server: &ServerHandle,
        document: Option<&Document>,
        clock: Clock<'_>,
    ) -> Result<(), RefactorError> {
        let places = (self.from, self.to);
        server.require_loaded(document, clock).await?;
        // Files outside its project, or of another package, may import it: the server searches what is open.
        let stem = self.from.as_path().file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let candidates = server.open_candidates(pool, stem, clock).await?;
        let note = candidates.note();
        let edit = server.will_rename(document, places, &self.edit.label, clock).await;
        server.close(candidates).await;
        let edit = edit?;
        self.notes.extend(note.map(Note::Server));
        if let Some(dropped) = dropped_references::find(self.workspace, &edit, places, self.is_directory) {
            return Err(RefactorError::DropsReference {
                server: server.name().to_owned(),
                file: self.workspace.relative(&dropped.path),
                line: dropped.line,
                old: dropped.old,
                new: dropped.new,
            });
        }
        self.edit.confirm.extend(edit.confirm);
        for operation in edit.operations {
            match &operation {
                Operation::Rename { from, .. } if from == self.from => {}
                Operation::Edit { path, .. } if edits(&self.edit, path) => {}
                _ => self.edit.operations.push(operation),
            }
        }
        Ok(())
    }

    /// Moves the stubs of a file with it, because servers find a stub by its name.
    fn move_stubs(&mut self, pool: &ServerPool) {
        for Document { path: stub, version, .. } in stub_files::stubs(self.workspace, pool, self.from) {
            let moves =
                |operation: &Operation| matches!(operation, Operation::Rename { from, .. } if *from == stub);
            if self.edit.operations.iter().any(moves) {
                continue;
            }
            let file = self.from.clone();
            if self.from.as_path().extension() != self.to.as_path().extension() {
                self.notes.push(Note::StubKept { file, stub });
                continue;
            }
            let extension = stub.as_path().extension().unwrap_or_default();
            let Some(to) = AbsPath::new(self.to.as_path().with_extension(extension)) else { continue };
            let leaves_directory = self.leaves_directory();
            self.notes.push(Note::StubMoved { file, stub: stub.clone(), to: to.clone(), leaves_directory });
            let expected = (!edits(&self.edit, &stub)).then_some(version);
            self.edit.operations.push(Operation::Rename { from: stub, to, expected, replaces: None });
        }
    }

    /// Adds the move itself.
    fn push_move(&mut self) {
        // Edits of the file itself come first, so they check the version that they are for.
        let expected = match self.is_directory || edits(&self.edit, self.from) {
            true => None,
            false => self.workspace.document(self.from).ok().map(|document| document.version),
        };
        let (from, to) = (self.from.clone(), self.to.clone());
        self.edit.operations.push(Operation::Rename { from, to, expected, replaces: None });
    }

    /// Adds the results of the scan.
    fn finish(mut self, servers: &[ServerHandle], scan: Scan) -> FileMove {
        let files = scan.includes.len();
        if servers.is_empty() {
            self.notes.push(Note::NoServerForMove { updates_includes: files > 0 });
        }
        if files > 0 {
            self.notes.push(Note::IncludesUpdated { lines: scan.include_lines, files });
        }
        if !scan.redirected.is_empty() {
            self.notes.push(Note::IncludesRedirected(scan.redirected));
        }
        if !scan.unread.is_empty() {
            self.notes.push(Note::IncludesUnread(scan.unread));
        }
        // Edits check the version of a file that moves too.
        for operation in &mut self.edit.operations {
            let Operation::Rename { from, expected, .. } = operation else { continue };
            let edits =
                |operation: &Operation| matches!(operation, Operation::Edit { path, .. } if path == from);
            if scan.includes.iter().any(edits) {
                *expected = None;
            }
        }
        self.edit.operations.splice(0..0, scan.includes);
        self.notes.extend(servers.iter().filter_map(ServerHandle::note).map(Note::Server));
        if !scan.stale.is_empty() {
            self.notes.push(Note::StalePaths(scan.stale));
        }
        if !scan.ambiguous.is_empty() {
            self.notes.push(Note::AmbiguousIncludes(scan.ambiguous));
        }
        if scan.is_cut {
            self.notes.push(Note::SearchCut);
        }
        let server = servers.iter().map(ServerHandle::name).collect::<Vec<_>>().join(", ");
        FileMove { edit: self.edit, server, notes: self.notes }
    }
}

/// The result of a scan of the workspace for a move.
#[derive(Default)]
struct Scan {
    /// Edits of `#include` lines.
    includes: Vec<Operation>,
    include_lines: usize,
    redirected: Vec<Redirected>,
    unread: Vec<AbsPath>,
    stale: Vec<Line>,
    ambiguous: Vec<Line>,
    is_cut: bool,
}

/// Reads the files of the workspace as `edit` leaves them.
async fn scan(workspace: &Workspace, edit: &WorkspaceEdit, clock: Clock<'_>) -> Scan {
    let budget = Budget::new(clock.within(MAX_TIME).at(90), clock.cancel.clone());
    let edit = edit.clone();
    let scan = workspace.scan(budget, move |workspace, budget| {
        let workspace = &workspace;
        let mut old_places = OldPlaces::of(workspace, &edit, &budget);
        old_places.find_hidden(workspace, |document| after(&edit, document));
        let (moves, edited) = (Moves::of(&edit), edited(&edit).map(|(path, _)| path.clone()).collect());
        let scanner = Scanner { workspace, edit: &edit, edited, moves, old_places };
        let mut scan = Scan::default();
        let mut paths = workspace.candidates(workspace.files(workspace.root()), budget);
        while let Some(path) = paths.next() {
            scanner.read(path, &mut scan, &|| paths.is_spent());
        }
        scan.is_cut |= !paths.is_complete();
        scan
    });
    scan.await.unwrap_or_else(|_| Scan { is_cut: true, ..Scan::default() })
}

struct Scanner<'a> {
    workspace: &'a Workspace,
    edit: &'a WorkspaceEdit,
    edited: BTreeSet<AbsPath>,
    moves: Moves,
    old_places: OldPlaces,
}

impl Scanner<'_> {
    fn read(&self, path: AbsPath, scan: &mut Scan, is_over: &dyn Fn() -> bool) {
        let has_includes = includes::is_source(&path) && !self.edited.contains(&path);
        let document = match self.workspace.document(&path) {
            Ok(document) => document,
            Err(ReadError::NotUtf8 { .. }) if has_includes => {
                scan.unread.push(path);
                return;
            }
            // A file that is not text names nothing.
            Err(_) => return,
        };
        let names_old_place = self.old_places.may_be_in(&document.text);
        let mut text = None;
        if has_includes {
            text = self.update_includes(&document, scan);
        }
        if !names_old_place {
            return;
        }
        if document.text.len() > MAX_BYTES {
            scan.is_cut = true;
            return;
        }
        let text = text.unwrap_or_else(|| after(self.edit, &document));
        self.find_stale(&document.path, &text, scan, is_over);
    }

    /// Updates the `#include` lines of a file; returns its new text if any changed.
    fn update_includes(&self, document: &Document, scan: &mut Scan) -> Option<String> {
        let (edits, redirected) = self.moves.broken(&document.path, &document.text);
        let moved = self.moves.after(&document.path);
        scan.redirected.extend(redirected.into_iter().map(|(at, target)| {
            let line = document.text[..at].matches('\n').count() + 1;
            Redirected { at: Line { path: moved.clone(), line }, target }
        }));
        if edits.is_empty() {
            return None;
        }
        scan.include_lines += edits.len();
        let text = text::apply(&document.text, &edits).ok();
        let (path, expected) = (document.path.clone(), document.version);
        scan.includes.push(Operation::Edit { path, expected, edits });
        text
    }

    /// Finds the lines of a file that name an old place.
    fn find_stale(&self, path: &AbsPath, text: &str, scan: &mut Scan, is_over: &dyn Fn() -> bool) {
        let old = self.workspace.relative(path);
        let name = self.old_places.new_name(&old).unwrap_or(old);
        let exists = |name: &str| {
            self.old_places.is_new(name)
                || (self.old_places.new_name(name).is_none()
                    && self.workspace.root().join(name).as_path().exists())
        };
        let (stale, all_stale) = self.old_places.lines(&name, text, &exists, is_over);
        let (ambiguous, all_ambiguous) = self.old_places.ambiguous_includes(&name, text, &exists, is_over);
        let path = self.workspace.root().join(&name);
        let line = |line: &usize| Line { path: path.clone(), line: line + 1 };
        scan.stale.extend(stale.iter().map(line));
        scan.ambiguous.extend(ambiguous.difference(&stale).map(line));
        scan.is_cut |= !all_stale || !all_ambiguous;
    }
}

/// Returns the text of a document after `edit`.
fn after(edit: &WorkspaceEdit, document: &Document) -> String {
    let mut text = document.text.to_string();
    for (_, edits) in edited(edit).filter(|(path, _)| **path == document.path) {
        text = text::apply(&text, edits).unwrap_or(text);
    }
    text
}
