//! A server's `WorkspaceEdit` as ours: byte ranges, expected versions, operations that can be planned.
//!
//! Writes nothing. What must stay true: an answer about a text that the server does not have is refused,
//! as is one that names a file outside the workspace; edits of files that the same answer moves or makes
//! land in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use text::{PositionEncoding, TextEdit};
use workspace::{AbsPath, ErrorCode, Operation, Version, Workspace, WorkspaceEdit};

use crate::documents::Synced;
use crate::protocol::{DocumentChange, Edit, FileOperation, RawWorkspaceEdit};
use crate::view::View;

/// What is needed to read an answer.
pub(crate) struct Converter<'a> {
    pub workspace: &'a Workspace,
    pub snapshot: &'a HashMap<AbsPath, Synced>,
    pub encoding: PositionEncoding,
}

/// Why an edit cannot be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditProblem {
    #[error("it wants to change {0}, which is outside the workspace")]
    Outside(String),
    #[error("it wants to change {0}, which is not a file")]
    NotAFile(String),
    #[error("its edit is for version {theirs} of {path}, the text it was asked about is version {ours}")]
    Version { path: AbsPath, theirs: i32, ours: String },
    #[error("its edits of {path} do not fit the text: {reason}")]
    DoesNotFit { path: AbsPath, reason: String },
    #[error("it wants to delete the folder {0}, which is not supported")]
    Folder(AbsPath),
    #[error(transparent)]
    Read(#[from] workspace::ReadError),
}

impl EditProblem {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Outside(_) => ErrorCode::Denied,
            Self::NotAFile(_) | Self::Folder(_) => ErrorCode::Unsupported,
            Self::Version { .. } => ErrorCode::StaleText,
            Self::DoesNotFit { .. } => ErrorCode::StaleText,
            Self::Read(error) => error.code(),
        }
    }
}

#[derive(Default)]
struct State {
    /// Files by where they were before; in the order in which they were first named.
    files: Vec<(AbsPath, File)>,
    operations: Vec<Operation>,
    /// Where what is now at a path came from.
    moved: BTreeMap<AbsPath, AbsPath>,
    /// Files that this edit makes, by path: place in `operations`.
    created: BTreeMap<AbsPath, usize>,
}

struct File {
    version: Version,
    before: Arc<View>,
    edits: Vec<TextEdit>,
    /// The text after the edits so far, once there were any.
    after: Option<Arc<View>>,
}

impl Converter<'_> {
    /// The path of a URI inside the workspace.
    fn inside(&self, uri: &str) -> Result<AbsPath, EditProblem> {
        let path = workspace::uri_to_path(uri).and_then(AbsPath::new);
        let path = path.ok_or_else(|| EditProblem::NotAFile(uri.to_owned()))?;
        if !path.starts_with(self.workspace.root()) {
            return Err(EditProblem::Outside(path.to_string()));
        }
        Ok(path)
    }

    /// The text of a file as the server knows it: what it was sent, else what is on disk.
    fn text(&self, path: &AbsPath) -> Result<(Version, Arc<View>), workspace::ReadError> {
        if let Some(synced) = self.snapshot.get(path) {
            return Ok((synced.version, Arc::clone(&synced.view)));
        }
        let document = self.workspace.document(path)?;
        Ok((document.version, Arc::new(View::new(document.text))))
    }

    /// The whole edit, edits of text first, then what happens to files, in the server's order.
    pub fn convert(&self, raw: RawWorkspaceEdit, label: String) -> Result<WorkspaceEdit, EditProblem> {
        let mut state = State::default();
        // A client that understands `documentChanges` takes them alone (LSP 3.17 §WorkspaceEdit).
        match raw.document_changes {
            Some(changes) => {
                for change in changes {
                    match change {
                        DocumentChange::Edit { text_document, edits } => {
                            self.edits(&mut state, &text_document.uri, text_document.version, &edits)?;
                        }
                        DocumentChange::Operation(operation) => self.operation(&mut state, operation)?,
                    }
                }
            }
            None => {
                for (uri, edits) in raw.changes.unwrap_or_default() {
                    self.edits(&mut state, &uri, None, &edits)?;
                }
            }
        }
        let edits = state.files.into_iter().filter(|(_, file)| !file.edits.is_empty());
        let mut operations: Vec<Operation> = edits
            .map(|(path, file)| Operation::Edit { path, expected: file.version, edits: file.edits })
            .collect();
        operations.extend(state.operations);
        Ok(WorkspaceEdit { label, operations })
    }

    fn edits(
        &self,
        state: &mut State,
        uri: &str,
        version: Option<i32>,
        edits: &[Edit],
    ) -> Result<(), EditProblem> {
        let path = self.inside(uri)?;
        if let Some(&at) = state.created.get(&path)
            && let Operation::Create { text, .. } = &mut state.operations[at]
        {
            let view = View::new(Arc::from(text.as_str()));
            let edits = self.bytes(&path, &view, edits)?;
            *text = text::apply(text, &edits)
                .map_err(|error| EditProblem::DoesNotFit { path, reason: error.to_string() })?;
            return Ok(());
        }
        let path = origin(&state.moved, &path);
        if let Some(theirs) = version {
            let ours = self.snapshot.get(&path).map(|synced| synced.number);
            if ours != Some(theirs) {
                let ours = ours.map_or_else(|| "not open".to_owned(), |ours| ours.to_string());
                return Err(EditProblem::Version { path, theirs, ours });
            }
        }
        let at = match state.files.iter().position(|(known, _)| *known == path) {
            Some(at) => at,
            None => {
                let (version, before) = self.text(&path)?;
                state.files.push((path.clone(), File { version, before, edits: Vec::new(), after: None }));
                state.files.len() - 1
            }
        };
        let file = &mut state.files[at].1;
        let view = file.after.as_ref().unwrap_or(&file.before);
        let edits = self.bytes(&path, view, edits)?;
        let after = text::apply(&view.text, &edits)
            .map_err(|error| EditProblem::DoesNotFit { path, reason: error.to_string() })?;
        // A second list speaks of the text that the first made; together they are one difference.
        file.edits = match file.after {
            None => edits,
            Some(_) => text::diff_edits(&file.before.text, &after),
        };
        file.after = Some(Arc::new(View::new(after.into())));
        Ok(())
    }

    /// Edits in bytes, in order of place, without those that change nothing, each only once.
    pub fn bytes(&self, path: &AbsPath, view: &View, edits: &[Edit]) -> Result<Vec<TextEdit>, EditProblem> {
        let bad = |reason: String| EditProblem::DoesNotFit { path: path.clone(), reason };
        let crlf = view.text.contains("\r\n") && !view.text.replace("\r\n", "").contains('\n');
        let mut out: Vec<TextEdit> = Vec::new();
        for edit in edits {
            let range = view.range(edit.range, self.encoding).ok_or_else(|| {
                let start = edit.range.start;
                bad(format!("there is no place {}:{}", start.line + 1, start.character + 1))
            })?;
            let mut new_text = edit.text();
            if crlf && new_text.contains('\n') {
                new_text = new_text.replace("\r\n", "\n").replace('\n', "\r\n");
            }
            let edit = TextEdit::replace(range, new_text);
            let same = view.text.get(edit.range.clone()) == Some(&edit.new_text);
            if !same && (edit.range.is_empty() || !out.contains(&edit)) {
                out.push(edit);
            }
        }
        text::normalize(&view.text, &out).map_err(|error| bad(error.to_string()))
    }

    fn operation(&self, state: &mut State, operation: FileOperation) -> Result<(), EditProblem> {
        match operation {
            FileOperation::Create { uri, options } => {
                let path = self.inside(&uri)?;
                let there = self.there(&path);
                if there.is_some()
                    && options.overwrite != Some(true)
                    && options.ignore_if_exists == Some(true)
                {
                    return Ok(());
                }
                let replaces = there.filter(|_| options.overwrite == Some(true));
                state.created.insert(path.clone(), state.operations.len());
                state.operations.push(Operation::Create { path, text: String::new(), replaces });
            }
            FileOperation::Rename { old_uri, new_uri, options } => {
                let (from, to) = (self.inside(&old_uri)?, self.inside(&new_uri)?);
                let there = self.there(&to);
                if there.is_some()
                    && options.overwrite != Some(true)
                    && options.ignore_if_exists == Some(true)
                {
                    return Ok(());
                }
                let replaces = there.filter(|_| options.overwrite == Some(true));
                let first = origin(&state.moved, &from);
                // The version is that of the text before any of this edit, unless edits come before it.
                let edited = state.files.iter().any(|(path, file)| *path == first && !file.edits.is_empty());
                let expected = if edited { None } else { self.there(&first) };
                state.moved.insert(to.clone(), first);
                state.operations.push(Operation::Rename { from, to, expected, replaces });
            }
            FileOperation::Delete { uri, options } => {
                let path = self.inside(&uri)?;
                if path.as_path().is_dir() {
                    return Err(EditProblem::Folder(path));
                }
                match self.text(&path) {
                    Ok((expected, _)) => state.operations.push(Operation::Delete { path, expected }),
                    Err(workspace::ReadError::NotFound { .. })
                        if options.ignore_if_not_exists == Some(true) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn there(&self, path: &AbsPath) -> Option<Version> {
        self.text(path).ok().map(|(version, _)| version)
    }
}

/// Where what is at `path` was before the moves; files of a moved folder included.
fn origin(moved: &BTreeMap<AbsPath, AbsPath>, path: &AbsPath) -> AbsPath {
    moved
        .iter()
        .filter_map(|(to, from)| path.strip_prefix(to).map(|rest| (to, from, rest)))
        .max_by_key(|(to, ..)| to.as_path().components().count())
        .map_or_else(
            || path.clone(),
            |(_, from, rest)| if rest.as_os_str().is_empty() { from.clone() } else { from.join(rest) },
        )
}
