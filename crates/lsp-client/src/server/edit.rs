//! Conversion of a server's `WorkspaceEdit` to operations that can be planned.
//!
//! The operations have byte ranges, expected versions, and confirmations.
//!
//! Writes nothing. The converter applies the operations in their order to simulated files, so that
//! it reads each list of edits by the text that it refers to. The result has the edits of a file
//! first, under its original name, and then the file operations.
//!
//! Invariants: the converter refuses an answer about a text that the server does not have, and one
//! that names a file outside the workspace.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use paths::AbsPath;
use text::{PositionEncoding, TextEdit};
use workspace::{Operation, Version, Workspace, WorkspaceEdit};

use crate::error::EditProblem;
use crate::server::documents::Synced;
use crate::server::protocol::{
    Annotation, DocumentChange, Edit, FileKind, FileOperation, Options, RawWorkspaceEdit,
};
use crate::server::view::View;

/// Converter of the edits of one answer.
pub(crate) struct Converter<'a> {
    pub workspace: &'a Workspace,
    pub snapshot: &'a HashMap<AbsPath, Synced>,
    pub encoding: PositionEncoding,
    /// The start of the request.
    ///
    /// An empty file that is newer was created by the server for this edit.
    pub since: Option<SystemTime>,
}

/// The files after the operations so far.
#[derive(Default)]
struct State {
    files: Vec<File>,
    /// The file at a path; `None`: it was deleted or moved.
    at: BTreeMap<AbsPath, Option<usize>>,
    /// Moved or deleted directories, in order.
    ///
    /// Files below the first are below the second.
    directories: Vec<(AbsPath, Option<AbsPath>)>,
    steps: Vec<Step>,
}

struct File {
    /// The original path; `None`: this edit creates the file.
    origin: Option<(AbsPath, Version)>,
    before: Arc<View>,
    edits: Vec<TextEdit>,
    /// The text after the edits so far.
    after: Arc<View>,
    /// Whether the file is deleted, so that its edits have no effect.
    gone: bool,
    /// Whether the server created the file for this edit.
    adopted: bool,
}

/// An operation whose texts are known only after all edits.
enum Step {
    Create { file: usize, path: AbsPath, replaces: Option<Version> },
    Rename { file: Option<usize>, from: AbsPath, to: AbsPath, replaces: Option<Version> },
    Delete { file: usize, path: AbsPath },
    DeleteDirectory { path: AbsPath, recursive: bool },
}

/// A file or directory at a path.
enum Entry {
    Nothing,
    Directory,
    File(usize),
}

impl Converter<'_> {
    /// The path of a URI inside the workspace.
    fn inside(&self, uri: &str) -> Result<AbsPath, EditProblem> {
        let path = paths::uri_to_path(uri).and_then(AbsPath::new);
        let path = path.ok_or_else(|| EditProblem::NotAFile(uri.to_owned()))?;
        if !path.starts_with(self.workspace.root()) {
            return Err(EditProblem::Outside(path.to_string()));
        }
        Ok(path)
    }

    /// The server's text of a file: the text sent, else the text on disk.
    fn text(&self, path: &AbsPath) -> Result<(Version, Arc<View>), workspace::ReadError> {
        if let Some(synced) = self.snapshot.get(path) {
            return Ok((synced.version, Arc::clone(&synced.view)));
        }
        let document = self.workspace.document(path)?;
        Ok((document.version, Arc::new(View::new(document.text))))
    }

    /// Whether a file was created while the server prepared its edit.
    ///
    /// `false` if that is unknown.
    fn is_created_since(&self, path: &AbsPath) -> bool {
        let born = std::fs::metadata(path).and_then(|metadata| metadata.created());
        self.since.is_some_and(|since| born.is_ok_and(|born| born >= since))
    }

    pub fn convert(&self, raw: RawWorkspaceEdit, label: String) -> Result<WorkspaceEdit, EditProblem> {
        let mut state = State::default();
        let mut confirm =
            Confirm { annotations: raw.change_annotations.unwrap_or_default(), found: BTreeMap::new() };
        // A client that understands `documentChanges` takes them alone (LSP 3.17 §WorkspaceEdit).
        match raw.document_changes {
            Some(changes) => {
                for change in changes {
                    match change {
                        DocumentChange::Edit { text_document, edits } => {
                            edits.iter().for_each(|edit| confirm.count(edit.annotation_id.as_deref()));
                            self.edits(&mut state, &text_document.uri, text_document.version, &edits)?;
                        }
                        DocumentChange::Operation(operation) => {
                            confirm.count(operation.annotation_id.as_deref());
                            self.operation(&mut state, operation)?;
                        }
                    }
                }
            }
            None => {
                for (uri, edits) in raw.changes.unwrap_or_default() {
                    edits.iter().for_each(|edit| confirm.count(edit.annotation_id.as_deref()));
                    self.edits(&mut state, &uri, None, &edits)?;
                }
            }
        }
        Ok(WorkspaceEdit { label, operations: state.finish(), confirm: confirm.lines() })
    }

    /// The entry at `path` after the operations so far, loaded if it is a file.
    fn entry(&self, state: &mut State, path: &AbsPath) -> Result<Entry, EditProblem> {
        if let Some(known) = state.at.get(path) {
            return Ok(known.map_or(Entry::Nothing, Entry::File));
        }
        let mut origin = path.clone();
        for (from, to) in state.directories.iter().rev() {
            match to.as_ref().and_then(|to| origin.strip_prefix(to).map(|rest| below(from, rest))) {
                Some(before) => origin = before,
                None if origin.starts_with(from) => return Ok(Entry::Nothing),
                None => {}
            }
        }
        // The original file was moved.
        if state.files.iter().any(|file| file.origin.as_ref().is_some_and(|(known, _)| *known == origin)) {
            return Ok(Entry::Nothing);
        }
        if origin.as_path().is_dir() {
            return Ok(Entry::Directory);
        }
        match self.text(&origin) {
            Ok((version, view)) => {
                let adopted = view.text.is_empty() && self.is_created_since(&origin);
                state.files.push(File {
                    origin: Some((origin, version)),
                    before: Arc::clone(&view),
                    edits: Vec::new(),
                    after: view,
                    gone: false,
                    adopted,
                });
                let file = state.files.len() - 1;
                state.at.insert(path.clone(), Some(file));
                Ok(Entry::File(file))
            }
            Err(workspace::ReadError::NotFound { .. }) => Ok(Entry::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    fn edits(
        &self,
        state: &mut State,
        uri: &str,
        version: Option<i32>,
        edits: &[Edit],
    ) -> Result<(), EditProblem> {
        let path = self.inside(uri)?;
        let file = match self.entry(state, &path)? {
            Entry::File(file) => &mut state.files[file],
            Entry::Directory => return Err(EditProblem::NotAFile(path.to_string())),
            Entry::Nothing if state.at.contains_key(&path) => return Err(EditProblem::Gone(path)),
            Entry::Nothing => return Err(workspace::ReadError::NotFound { path }.into()),
        };
        if let (Some(answered), Some((origin, _))) = (version, &file.origin) {
            let requested = self.snapshot.get(origin).map(|synced| synced.number);
            if requested != Some(answered) {
                let requested = requested.map_or_else(|| "not open".to_owned(), |number| number.to_string());
                return Err(EditProblem::Version { path, answered, requested });
            }
        }
        let edits = self.bytes(&path, &file.after, edits)?;
        let after = text::apply(&file.after.text, &edits)
            .map_err(|error| EditProblem::DoesNotFit { path, reason: error.to_string() })?;
        // A second list refers to the text after the first; both become one difference.
        file.edits = if file.edits.is_empty() { edits } else { text::diff_edits(&file.before.text, &after) };
        file.after = Arc::new(View::new(after.into()));
        Ok(())
    }

    /// Converts edits to bytes, in order of position.
    ///
    /// Drops duplicates and edits that change nothing.
    pub fn bytes(&self, path: &AbsPath, view: &View, edits: &[Edit]) -> Result<Vec<TextEdit>, EditProblem> {
        let bad = |reason: String| EditProblem::DoesNotFit { path: path.clone(), reason };
        let crlf = view.text.contains("\r\n") && !view.text.replace("\r\n", "").contains('\n');
        let mut out: Vec<TextEdit> = Vec::new();
        for edit in edits {
            let start = edit.range.start;
            // Servers often use an end past the text, and the line after the last as a start.
            let behind = start.line as usize > view.index.line_count();
            let range = view.range(edit.range, self.encoding).filter(|_| !behind).ok_or_else(|| {
                bad(format!("there is no position {}:{}", start.line + 1, start.character + 1))
            })?;
            let mut new_text = edit.text();
            if crlf && new_text.contains('\n') {
                new_text = new_text.replace("\r\n", "\n").replace('\n', "\r\n");
            }
            let edit = TextEdit::replace(range, new_text);
            let same = view.text.get(edit.range.clone()) == Some(&edit.new_text);
            if !same {
                out.push(edit);
            }
        }
        out.sort_by_key(|edit| (edit.range.start, edit.range.end));
        out.dedup_by(|edit, before| edit == before && !edit.range.is_empty());
        text::normalize(&view.text, &out).map_err(|error| bad(error.to_string()))
    }

    fn operation(&self, state: &mut State, operation: FileOperation) -> Result<(), EditProblem> {
        let options = operation.options.unwrap_or_default();
        match operation.what {
            FileKind::Create { uri } => {
                let path = self.inside(&uri)?;
                let Some(there) = self.check_target(state, &path, &options)? else { return Ok(()) };
                let replaces = there.and_then(|there| state.delete_file(there));
                let empty = Arc::new(View::new("".into()));
                state.files.push(File {
                    origin: None,
                    before: Arc::clone(&empty),
                    edits: Vec::new(),
                    after: empty,
                    gone: false,
                    adopted: false,
                });
                let file = state.files.len() - 1;
                state.at.insert(path.clone(), Some(file));
                state.steps.push(Step::Create { file, path, replaces });
            }
            FileKind::Rename { old_uri, new_uri } => {
                let (from, to) = (self.inside(&old_uri)?, self.inside(&new_uri)?);
                if from == to {
                    return Ok(());
                }
                match self.entry(state, &from)? {
                    Entry::Nothing => return Err(workspace::ReadError::NotFound { path: from }.into()),
                    Entry::Directory => {
                        match self.entry(state, &to)? {
                            Entry::Nothing => {}
                            // A parent directory is not replaced: its contents would be lost.
                            Entry::Directory if options.overwrite == Some(true) && !from.starts_with(&to) => {
                                state.delete_directory(&to, true);
                                // Paths below it now mean the contents of the other directory.
                                state.at.retain(|at, _| !at.starts_with(&to));
                            }
                            _ if options.ignore_if_exists == Some(true) => return Ok(()),
                            _ => return Err(EditProblem::Exists(to)),
                        }
                        state.move_below(&from, &to);
                        state.directories.push((from.clone(), Some(to.clone())));
                        state.steps.push(Step::Rename { file: None, from, to, replaces: None });
                    }
                    Entry::File(file) => {
                        let Some(there) = self.check_target(state, &to, &options)? else { return Ok(()) };
                        let replaces = there.and_then(|there| state.delete_file(there));
                        state.at.insert(from.clone(), None);
                        state.at.insert(to.clone(), Some(file));
                        state.steps.push(Step::Rename { file: Some(file), from, to, replaces });
                    }
                }
            }
            FileKind::Delete { uri } => {
                let path = self.inside(&uri)?;
                match self.entry(state, &path)? {
                    Entry::File(file) => {
                        state.delete_file(file);
                        state.at.insert(path.clone(), None);
                        state.steps.push(Step::Delete { file, path });
                    }
                    Entry::Directory => state.delete_directory(&path, options.recursive == Some(true)),
                    Entry::Nothing if options.ignore_if_not_exists == Some(true) => {}
                    Entry::Nothing => return Err(workspace::ReadError::NotFound { path }.into()),
                }
            }
        }
        Ok(())
    }

    /// Checks whether an entry can be created at `path`.
    ///
    /// Returns the file that it replaces; `None` to skip the operation. Overwriting takes precedence over
    /// ignoring (LSP 3.17 §CreateFile).
    fn check_target(
        &self,
        state: &mut State,
        path: &AbsPath,
        options: &Options,
    ) -> Result<Option<Option<usize>>, EditProblem> {
        Ok(match self.entry(state, path)? {
            Entry::Nothing => Some(None),
            Entry::File(file) if options.overwrite == Some(true) => Some(Some(file)),
            Entry::File(_) | Entry::Directory if options.ignore_if_exists == Some(true) => None,
            _ => return Err(EditProblem::Exists(path.clone())),
        })
    }
}

impl State {
    /// Deletes a file and its edits.
    ///
    /// Returns its version if this edit did not create it.
    fn delete_file(&mut self, file: usize) -> Option<Version> {
        let file = &mut self.files[file];
        file.gone = true;
        file.edits.clear();
        match &file.origin {
            Some((_, version)) => Some(*version),
            None => Some(version_of(&file.after.text)),
        }
    }

    /// Deletes a directory, with its contents if `recursive`.
    fn delete_directory(&mut self, path: &AbsPath, recursive: bool) {
        let below: Vec<AbsPath> = self.at.keys().filter(|at| at.starts_with(path)).cloned().collect();
        for at in below {
            if let Some(file) = self.at.insert(at, None).flatten() {
                self.delete_file(file);
            }
        }
        self.directories.push((path.clone(), None));
        self.steps.push(Step::DeleteDirectory { path: path.clone(), recursive });
    }

    fn move_below(&mut self, from: &AbsPath, to: &AbsPath) {
        let moving: Vec<AbsPath> = self.at.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moving {
            let file = self.at.remove(&path).flatten();
            if let (Some(file), Some(rest)) = (file, path.strip_prefix(from)) {
                self.at.insert(below(to, rest), Some(file));
            }
        }
    }

    /// Drops the edits of a link if its target gets the same.
    ///
    /// A server may read a file once by each of its paths.
    fn drop_links(&mut self) {
        let mut real: HashMap<PathBuf, Vec<TextEdit>> = HashMap::new();
        let mut links = Vec::new();
        for (number, file) in self.files.iter().enumerate().filter(|(_, file)| !file.edits.is_empty()) {
            let Some((path, _)) = &file.origin else { continue };
            match std::fs::canonicalize(path) {
                Ok(target) if target == path.as_path() => drop(real.insert(target, file.edits.clone())),
                Ok(target) => links.push((number, target)),
                Err(_) => {}
            }
        }
        for (number, target) in links {
            match real.get(&target) {
                Some(edits) if *edits == self.files[number].edits => self.files[number].edits.clear(),
                Some(_) => {}
                None => drop(real.insert(target, self.files[number].edits.clone())),
            }
        }
    }

    fn finish(mut self) -> Vec<Operation> {
        self.drop_links();
        let Self { files, steps, .. } = self;
        let mut operations: Vec<Operation> = files
            .iter()
            .filter(|file| !file.edits.is_empty())
            .filter_map(|file| {
                let (path, expected) = file.origin.clone()?;
                if file.adopted {
                    let text = file.after.text.to_string();
                    return Some(Operation::Adopt { path, text, found: expected });
                }
                Some(Operation::Edit { path, expected, edits: file.edits.clone() })
            })
            .collect();
        operations.extend(steps.into_iter().map(|step| match step {
            Step::Create { file, path, replaces } => {
                // A directory that is created and deleted was empty or not; the result is the same.
                Operation::Create { path, text: files[file].after.text.to_string(), replaces }
            }
            Step::Rename { file, from, to, replaces } => {
                // The version is that of the text before this edit, unless edits come first.
                let unedited = file.map(|file| &files[file]).filter(|file| file.edits.is_empty());
                let expected = unedited.and_then(|file| file.origin.as_ref()).map(|(_, version)| *version);
                Operation::Rename { from, to, expected, replaces }
            }
            Step::Delete { file, path } => {
                let file = &files[file];
                let expected = file.origin.as_ref().map(|(_, version)| *version);
                Operation::Delete { path, expected: expected.unwrap_or_else(|| version_of(&file.after.text)) }
            }
            Step::DeleteDirectory { path, recursive } => Operation::DeleteDirectory { path, recursive },
        }));
        operations
    }
}

/// The version of a file that this edit creates.
fn version_of(text: &str) -> Version {
    Version { hash: workspace::ContentHash::of(text.as_bytes()), editor: None }
}

fn below(directory: &AbsPath, rest: &std::path::Path) -> AbsPath {
    if rest.as_os_str().is_empty() { directory.clone() } else { directory.join(rest) }
}

/// A confirmation that the server requests, with the server's label.
struct Confirm {
    annotations: BTreeMap<String, Annotation>,
    found: BTreeMap<String, usize>,
}

impl Confirm {
    fn count(&mut self, id: Option<&str>) {
        if let Some(id) = id.filter(|id| self.annotations.get(*id).is_some_and(|it| it.needs_confirmation)) {
            *self.found.entry(id.to_owned()).or_default() += 1;
        }
    }

    fn lines(self) -> Vec<String> {
        let line = |(id, count): (String, usize)| {
            let annotation = self.annotations.get(&id)?;
            let description =
                annotation.description.as_ref().map(|text| format!(", {text}")).unwrap_or_default();
            let times = if count > 1 { format!(" ({count} places)") } else { String::new() };
            Some(format!("{}{description}{times}", annotation.label))
        };
        self.found.clone().into_iter().filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use paths::StateDir;
    use serde_json::json;

    use super::*;

    /// Covers a formatter that sends an edit for each line.
    ///
    /// Compared pair by pair, these take minutes.
    #[test]
    fn many_edits_of_one_file_take_linear_time() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(directory.path().join("state")).unwrap());
        let (workspace, _) = Workspace::open(directory.path(), &state, None).unwrap();
        let (snapshot, encoding) = (HashMap::new(), PositionEncoding::Utf16);
        let converter = Converter { workspace: &workspace, snapshot: &snapshot, encoding, since: None };
        let count = 200_000;
        let view = View::new("x(  1)\n".repeat(count).into());
        let edit = |number: usize| -> Edit {
            let at = |character: usize| json!({"line": number % count, "character": character});
            serde_json::from_value(json!({"range": {"start": at(2), "end": at(4)}, "newText": ""})).unwrap()
        };
        let edits: Vec<Edit> = (0..2 * count).map(edit).collect();
        let started = Instant::now();
        let bytes = converter.bytes(&workspace.root().join("a"), &view, &edits).unwrap();
        assert_eq!(bytes.len(), count);
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
