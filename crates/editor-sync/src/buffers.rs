//! Documents that the editor has open, from its notifications.
//!
//! Applies notifications synchronously in wire order. For each document it holds the text, the
//! version, the last saved text, and the recent changes.
//!
//! Invariants: one file is one document under whatever name it was opened; answers use the client's
//! own spelling of its URI; a text that is not known exactly is never edited.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use paths::AbsPath;
use serde::Deserialize;
use serde_json::value::RawValue;
use text::{LineIndex, Position, PositionEncoding, TextEdit};
use tokio::sync::watch;
use workspace::{ContentHash, DiskCopy, Document, Owner, ProtectedFiles, UNTITLED, Version, plain_hash};

use crate::editors::ClientFacts;
use adapters::EditorDefinition;

/// Maximum number of remembered changes of one document.
const MAX_STEPS: usize = 10_000;
/// Maximum number of bytes in the remembered changes of one document.
const MAX_STEP_BYTES: usize = 4 << 20;
/// Maximum size of whole texts to compare line by line.
///
/// Larger ones are compared at both ends.
const MAX_DIFF: usize = 512 << 10;
/// Maximum number of returned texts from which edits can be mapped.
const MAX_MARKS: usize = 256;

/// The byte order mark, which most editors leave out of the text they send.
pub const BOM: &str = "\u{feff}";

/// Returns `text` without a byte order mark at its start.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// The open documents of one connection.
pub struct EditorBuffers {
    encoding: PositionEncoding,
    editor: Arc<EditorDefinition>,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

/// One open document at one revision.
#[derive(Debug, Clone)]
pub struct OpenBuffer {
    /// URI in the client's spelling.
    pub uri: String,
    /// Canonical path.
    ///
    /// An `untitled:` document gets a path below the first folder, where no file exists. `None` for
    /// other schemes.
    pub path: Option<AbsPath>,
    pub language_id: String,
    pub version: i32,
    pub text: Arc<str>,
    /// Lines of `text`, with the line ends that this client counts.
    pub lines: Arc<LineIndex>,
    /// Number of changes of this document; rises with each notification.
    pub sequence: u64,
    /// Differs each time the document is opened.
    pub incarnation: u64,
}

/// Identifies one text of one open document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// URI in the client's spelling.
    pub uri: String,
    pub incarnation: u64,
    /// Number of changes before it.
    pub sequence: u64,
}

impl OpenBuffer {
    /// The revision of this text.
    pub fn revision(&self) -> Revision {
        Revision { uri: self.uri.clone(), incarnation: self.incarnation, sequence: self.sequence }
    }
}

/// One change, as edits of the text before it.
#[derive(Debug, Clone)]
pub struct Step {
    /// Sorted edits of the text before the step, which do not overlap.
    pub edits: Vec<TextEdit>,
    /// Whether the client sent the whole text, so that the edits are a guess.
    pub whole: bool,
}

/// The changes of a document since a revision.
#[derive(Debug, Clone)]
pub enum ChangesSince {
    /// Steps, oldest first.
    Steps(Vec<Arc<Step>>),
    /// The client closed and opened it again.
    Reopened(OpenBuffer),
    Closed,
    /// The changes exceed the history.
    Forgotten,
}

#[derive(Default)]
struct State {
    by_uri: BTreeMap<String, Buffer>,
    by_path: HashMap<AbsPath, Vec<String>>,
    /// Directory of the paths of documents without a file.
    folder: Option<AbsPath>,
    /// Number of openings and changes of all documents.
    clock: u64,
    /// Number of [`HistoryGuard`]s; no change is dropped while there is one.
    history_guards: usize,
}

struct Buffer {
    path: Option<AbsPath>,
    language_id: String,
    version: i32,
    text: String,
    lines: LineIndex,
    incarnation: u64,
    touched: u64,
    sequence: u64,
    steps: VecDeque<Arc<Step>>,
    step_bytes: usize,
    cached: Option<CachedText>,
    marks: VecDeque<(ContentHash, u64)>,
    disk: Option<DiskCopy>,
    saved: SavedState,
    /// Reason why the text is not known exactly.
    lost: Option<String>,
}

#[derive(Clone)]
struct CachedText {
    text: Arc<str>,
    lines: Arc<LineIndex>,
    hash: Option<ContentHash>,
}

/// Hashes of the text that the editor last read or wrote.
#[derive(Debug, Clone, Copy, Default)]
struct SavedState {
    disk: Option<ContentHash>,
    plain: Option<ContentHash>,
}

#[derive(Deserialize)]
struct Identifier {
    uri: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidOpen {
    text_document: TextDocumentItem,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextDocumentItem {
    uri: String,
    #[serde(default)]
    language_id: String,
    #[serde(default)]
    version: i32,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    text_document: VersionedIdentifier,
    content_changes: Vec<ContentChange>,
}

#[derive(Deserialize)]
struct VersionedIdentifier {
    uri: String,
    version: Option<i32>,
}

/// One entry of `contentChanges`; without a range, it replaces the whole text.
#[derive(Debug, Clone, Deserialize)]
pub struct ContentChange {
    pub range: Option<WireRange>,
    pub text: String,
}

/// A range in the wire format of LSP.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct WireRange {
    pub start: WirePosition,
    pub end: WirePosition,
}

/// A position in the wire format of LSP.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct WirePosition {
    /// Zero-based line.
    pub line: u32,
    /// Zero-based character, in the connection's encoding.
    pub character: u32,
}

impl From<WirePosition> for Position {
    fn from(position: WirePosition) -> Self {
        Self { line: position.line, character: position.character }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentParams {
    text_document: Identifier,
}

impl EditorBuffers {
    /// Creates buffers without open documents.
    pub fn new(client: &ClientFacts) -> Self {
        Self {
            encoding: client.position_encoding,
            editor: Arc::clone(&client.editor),
            state: Mutex::default(),
            changed: watch::channel(0).0,
        }
    }

    /// Sets the directory for the paths of documents without a file.
    pub fn set_folder(&self, folder: Option<AbsPath>) {
        self.state().folder = folder;
    }

    /// Handles document notifications; returns `false` for others.
    ///
    /// These are `textDocument/didOpen`, `didChange`, `didSave` and `didClose`.
    ///
    /// The caller passes notifications in wire order, before it handles later messages. Logs and ignores
    /// malformed parameters. Reads the disk when a document is opened or saved.
    pub fn notification(&self, method: &str, params: Option<&RawValue>) -> bool {
        let params = params.map_or("null", RawValue::get);
        let parsed = match method {
            "textDocument/didOpen" => serde_json::from_str(params).map(|params: DidOpen| {
                let TextDocumentItem { uri, language_id, version, text } = params.text_document;
                self.open(&uri, &language_id, version, text);
            }),
            "textDocument/didChange" => serde_json::from_str(params).map(|params: DidChange| {
                let VersionedIdentifier { uri, version } = params.text_document;
                self.change(&uri, version, &params.content_changes);
            }),
            "textDocument/didSave" => serde_json::from_str(params)
                .map(|params: DocumentParams| self.save(&params.text_document.uri)),
            "textDocument/didClose" => serde_json::from_str(params)
                .map(|params: DocumentParams| self.close(&params.text_document.uri)),
            _ => return false,
        };
        if let Err(error) = parsed {
            tracing::warn!(method, %error, "malformed notification parameters");
        }
        true
    }

    /// Adds an open document.
    pub fn open(&self, uri: &str, language_id: &str, version: i32, text: String) {
        let path = canonical_path(uri).or_else(|| self.state().untitled(uri));
        let disk = path.as_ref().and_then(|path| DiskCopy::read(path, None));
        {
            let mut state = self.state();
            state.remove(uri);
            state.clock += 1;
            let clock = state.clock;
            if let Some(path) = &path {
                state.by_path.entry(path.clone()).or_default().push(uri.to_owned());
            }
            // A text that differs from the disk was typed before the server started.
            let found = disk.as_ref().and_then(|disk| disk.plain);
            let same = found == Some(plain_hash("")) && self.editor.is_empty_file(&text);
            let saved = SavedState {
                disk: disk.as_ref().map(|disk| disk.hash),
                plain: if same { Some(plain_hash(without_bom(&text))) } else { found },
            };
            let buffer = Buffer {
                path,
                language_id: language_id.to_owned(),
                version,
                lines: LineIndex::with_ends(&text, self.editor.line_ends(&text)),
                text,
                incarnation: clock,
                touched: clock,
                sequence: 0,
                steps: VecDeque::new(),
                step_bytes: 0,
                cached: None,
                marks: VecDeque::new(),
                disk,
                saved,
                lost: None,
            };
            state.by_uri.insert(uri.to_owned(), buffer);
        }
        self.notify_changed();
    }

    /// Applies changes of an open document in order. Versions need not be consecutive.
    pub fn change(&self, uri: &str, version: Option<i32>, changes: &[ContentChange]) {
        {
            let mut state = self.state();
            let Some(uri) = state.open_uri(uri) else {
                tracing::warn!(uri, "change of a document that is not open");
                return;
            };
            state.clock += 1;
            let (clock, keeps_history) = (state.clock, state.history_guards > 0);
            let Some(buffer) = state.by_uri.get_mut(&uri) else { return };
            buffer.touched = clock;
            for change in changes {
                buffer.apply_change(change, self.encoding, &self.editor);
            }
            if let Some(version) = version {
                if version < buffer.version {
                    tracing::debug!(uri, version, known = buffer.version, "the version decreased");
                }
                buffer.version = version;
            }
            if !keeps_history {
                buffer.trim();
            }
        }
        self.notify_changed();
    }

    /// Records that a document was saved. Reads the disk.
    pub fn save(&self, uri: &str) {
        let found = self.get(uri).and_then(|open| Some((open.uri, open.path?, open.text)));
        if let Some((uri, path, text)) = found {
            let disk = DiskCopy::read(&path, None);
            // Editors add a missing last line end.
            for end in ["", "\n"] {
                ProtectedFiles::accept(&path, Some(format!("{text}{end}").as_bytes()));
            }
            if let Some(buffer) = self.state().by_uri.get_mut(&uri) {
                let plain = buffer.plain();
                let is_ours = disk.as_ref().is_none_or(|disk| {
                    disk.plain.is_none_or(|found| {
                        // Editors add a missing last line end.
                        found == plain
                            || found == plain_hash(&format!("{}\n", without_bom(&buffer.text)))
                            || found == plain_hash("") && self.editor.is_empty_file(&buffer.text)
                    })
                });
                // Otherwise another program wrote the file after the editor saved it.
                let written = || ContentHash::of(buffer.text.as_bytes());
                let hash = disk.as_ref().map(|disk| if is_ours { disk.hash } else { written() });
                buffer.saved = SavedState { disk: hash, plain: Some(plain) };
                buffer.disk = disk;
            }
        }
        self.notify_changed();
    }

    /// Removes a closed document.
    pub fn close(&self, uri: &str) {
        {
            let mut state = self.state();
            let Some(uri) = state.open_uri(uri) else { return };
            state.clock += 1;
            state.remove(&uri);
        }
        self.notify_changed();
    }

    /// Returns the current document, by any spelling of its URI.
    ///
    /// Does not wait for an edit in flight.
    pub fn get(&self, uri: &str) -> Option<OpenBuffer> {
        let mut state = self.state();
        let uri = state.open_uri(uri)?;
        state.by_uri.get_mut(&uri).map(|buffer| buffer.snapshot(&uri))
    }

    /// Returns the current document, by canonical path.
    pub fn by_path(&self, path: &AbsPath) -> Option<OpenBuffer> {
        let mut state = self.state();
        let uri = state.primary_uri(path)?;
        state.by_uri.get_mut(&uri).map(|buffer| buffer.snapshot(&uri))
    }

    /// Lists every open document, in order of URI.
    #[cfg(test)]
    pub fn all(&self) -> Vec<OpenBuffer> {
        self.state().by_uri.iter_mut().map(|(uri, buffer)| buffer.snapshot(uri)).collect()
    }

    /// Lists the canonical paths of open files, each once.
    pub fn paths(&self) -> Vec<AbsPath> {
        let mut paths: Vec<AbsPath> = self.state().by_path.keys().cloned().collect();
        paths.sort();
        paths
    }

    /// The URI of a path, in the client's spelling if the document is open.
    pub(crate) fn uri_of(&self, path: &AbsPath) -> String {
        self.state().primary_uri(path).unwrap_or_else(|| paths::path_to_uri(path.as_path()))
    }

    /// Lists open files with unsaved text; reads the disk.
    #[cfg(test)]
    pub fn unsaved(&self) -> Vec<AbsPath> {
        let is_dirty = |path: &AbsPath| {
            self.document(path).is_some_and(|document| document.owner == Owner::Editor { dirty: true })
        };
        self.paths().into_iter().filter(is_dirty).collect()
    }

    /// The document for the agent, compared with the disk.
    ///
    /// Does not wait for an edit in flight.
    pub fn document(&self, path: &AbsPath) -> Option<Document> {
        let known = {
            let state = self.state();
            let uri = state.primary_uri(path)?;
            state.by_uri.get(&uri)?.disk.clone()
        };
        let disk = DiskCopy::read(path, known.as_ref());
        let mut state = self.state();
        let uri = state.primary_uri(path)?;
        let other_text = state.conflicting_copy(path, &uri);
        let buffer = state.by_uri.get_mut(&uri)?;
        buffer.disk = disk;
        let (dirty, blocked) = buffer.saved_state();
        Some(buffer.document(&uri, path, dirty, blocked.or(other_text)))
    }

    /// The changes of a document since one of its revisions.
    pub fn since(&self, revision: &Revision) -> ChangesSince {
        let mut state = self.state();
        let Some(buffer) = state.by_uri.get_mut(&revision.uri) else { return ChangesSince::Closed };
        if buffer.incarnation != revision.incarnation {
            return ChangesSince::Reopened(buffer.snapshot(&revision.uri));
        }
        buffer.steps_since(revision.sequence).map_or(ChangesSince::Forgotten, ChangesSince::Steps)
    }

    /// The current document, and the changes since a text that was returned before.
    pub(crate) fn steps_from_text(
        &self,
        path: &AbsPath,
        hash: ContentHash,
    ) -> Option<(Vec<Arc<Step>>, OpenBuffer)> {
        let mut state = self.state();
        let uri = state.primary_uri(path)?;
        let buffer = state.by_uri.get_mut(&uri)?;
        let (_, sequence) = *buffer.marks.iter().rev().find(|(marked, _)| *marked == hash)?;
        Some((buffer.steps_since(sequence)?, buffer.snapshot(&uri)))
    }

    /// The current document, and the changes since a revision.
    ///
    /// `None` if the client opened it again.
    pub fn steps_since_revision(&self, revision: &Revision) -> Option<(Vec<Arc<Step>>, OpenBuffer)> {
        let mut state = self.state();
        let buffer = state.by_uri.get_mut(&revision.uri)?;
        if buffer.incarnation != revision.incarnation {
            return None;
        }
        Some((buffer.steps_since(revision.sequence)?, buffer.snapshot(&revision.uri)))
    }

    /// Marks the current text of an open file as a start for [`Self::steps_from_text`].
    pub fn mark(&self, path: &AbsPath) {
        let mut state = self.state();
        let Some(uri) = state.primary_uri(path) else { return };
        if let Some(buffer) = state.by_uri.get_mut(&uri) {
            buffer.mark(ContentHash::of(without_bom(&buffer.text).as_bytes()));
        }
    }

    /// Lists the open files; the last opened or changed one is first.
    pub fn last_touched(&self) -> Vec<AbsPath> {
        let state = self.state();
        let mut files: Vec<_> = state.by_uri.values().filter(|buffer| buffer.path.is_some()).collect();
        files.sort_by_key(|buffer| std::cmp::Reverse(buffer.touched));
        files.into_iter().filter_map(|buffer| buffer.path.clone()).collect()
    }

    /// Keeps all changes until the guard is dropped.
    pub(crate) fn keep_history(self: &Arc<Self>) -> HistoryGuard {
        self.state().history_guards += 1;
        HistoryGuard { documents: Arc::clone(self) }
    }

    /// Subscribes to the number of changes of all documents.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub fn encoding(&self) -> PositionEncoding {
        self.encoding
    }

    fn notify_changed(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Keeps the history until its drop; see [`EditorBuffers::keep_history`].
pub(crate) struct HistoryGuard {
    documents: Arc<EditorBuffers>,
}

impl Drop for HistoryGuard {
    fn drop(&mut self) {
        let mut state = self.documents.state();
        state.history_guards -= 1;
        if state.history_guards == 0 {
            state.by_uri.values_mut().for_each(Buffer::trim);
        }
    }
}

impl State {
    /// The path of a document that has no file yet.
    fn untitled(&self, uri: &str) -> Option<AbsPath> {
        let name = uri.strip_prefix(UNTITLED)?;
        if name.starts_with('/') {
            // The client names the file that it will be saved to.
            return canonical_path(&format!("file://{name}"));
        }
        self.folder.as_ref().filter(|_| !name.contains('/')).map(|folder| folder.join(uri))
    }

    /// The URI under which a document is open.
    fn open_uri(&self, uri: &str) -> Option<String> {
        if self.by_uri.contains_key(uri) {
            return Some(uri.to_owned());
        }
        let path = canonical_path(uri)?;
        self.primary_uri(&path)
    }

    /// The URI under which an open file was changed last.
    fn primary_uri(&self, path: &AbsPath) -> Option<String> {
        let uris = self.by_path.get(path)?;
        uris.iter().max_by_key(|uri| self.by_uri.get(*uri).map(|buffer| buffer.touched)).cloned()
    }

    /// The reason why a file that is open under two names cannot be edited.
    fn conflicting_copy(&self, path: &AbsPath, primary: &str) -> Option<String> {
        let shown = self.by_uri.get(primary)?;
        let others = self.by_path.get(path)?.iter().filter(|uri| *uri != primary);
        let other = others.into_iter().find(|uri| {
            self.by_uri.get(*uri).is_some_and(|other| {
                let plain = other.plain();
                // An unsaved text under the other name would be lost or would win.
                Some(plain) != other.saved.plain && plain != shown.plain()
            })
        })?;
        Some(format!(
            "it is open under two names with different unsaved texts, also as {other}; close one of them"
        ))
    }

    fn remove(&mut self, uri: &str) {
        let Some(buffer) = self.by_uri.remove(uri) else { return };
        let Some(path) = buffer.path else { return };
        if let Some(uris) = self.by_path.get_mut(&path) {
            uris.retain(|known| known != uri);
            if uris.is_empty() {
                self.by_path.remove(&path);
            }
        }
    }
}

impl Buffer {
    fn apply_change(
        &mut self,
        change: &ContentChange,
        encoding: PositionEncoding,
        editor: &EditorDefinition,
    ) {
        let Some(range) = change.range else {
            let edits = if self.text.len() + change.text.len() <= MAX_DIFF {
                text::diff_edits(&self.text, &change.text)
            } else {
                middle_edit(&self.text, &change.text)
            };
            self.text.clone_from(&change.text);
            self.lines = LineIndex::with_ends(&self.text, editor.line_ends(&self.text));
            self.lost = None;
            self.record(Step { edits, whole: true });
            return;
        };
        let place = |position: WirePosition| {
            if position.line as usize >= self.lines.line_count() {
                return Some(self.text.len());
            }
            self.lines.offset(&self.text, position.into(), encoding)
        };
        match (place(range.start), place(range.end)) {
            (Some(start), Some(end)) if start <= end => {
                let edits = range_edits(&self.text[start..end], start, &change.text);
                self.text.replace_range(start..end, &change.text);
                self.lines.edit(&self.text, start..end, change.text.len());
                self.record(Step { edits, whole: false });
            }
            _ => {
                tracing::error!(?range, "change outside of the text");
                let reason = "the editor reported a change at a place that is not in its text; \
                           close it and open it again";
                self.lost = Some(reason.to_owned());
                // Edits cannot be mapped from earlier texts.
                self.steps.clear();
                self.step_bytes = 0;
                self.marks.clear();
                self.sequence += 1;
                self.cached = None;
            }
        }
    }

    fn record(&mut self, step: Step) {
        self.step_bytes += step.bytes();
        self.steps.push_back(Arc::new(step));
        self.sequence += 1;
        self.cached = None;
    }

    fn trim(&mut self) {
        while self.steps.len() > MAX_STEPS || self.step_bytes > MAX_STEP_BYTES {
            let Some(step) = self.steps.pop_front() else { break };
            self.step_bytes -= step.bytes();
        }
    }

    fn steps_since(&self, sequence: u64) -> Option<Vec<Arc<Step>>> {
        let count = usize::try_from(self.sequence.checked_sub(sequence)?).ok()?;
        let skip = self.steps.len().checked_sub(count)?;
        Some(self.steps.iter().skip(skip).cloned().collect())
    }

    fn cached(&mut self) -> &mut CachedText {
        self.cached.get_or_insert_with(|| CachedText {
            text: self.text.as_str().into(),
            lines: Arc::new(self.lines.clone()),
            hash: None,
        })
    }

    fn snapshot(&mut self, uri: &str) -> OpenBuffer {
        let CachedText { text, lines, .. } = self.cached().clone();
        OpenBuffer {
            uri: uri.to_owned(),
            path: self.path.clone(),
            language_id: self.language_id.clone(),
            version: self.version,
            text,
            lines,
            sequence: self.sequence,
            incarnation: self.incarnation,
        }
    }

    fn plain(&self) -> ContentHash {
        plain_hash(without_bom(&self.text))
    }

    /// Whether the text is unsaved, and the reason not to edit it.
    ///
    /// Records the text as saved if it equals the disk.
    fn saved_state(&mut self) -> (bool, Option<String>) {
        let plain = self.plain();
        let (dirty, diverged) = match &self.disk {
            None if self.saved.disk.is_some() => (
                true,
                Some(
                    "its file was moved or deleted since the editor read it; \
                     close it in the editor, or save it there",
                ),
            ),
            None => (true, None),
            Some(disk) if disk.plain == Some(plain) => {
                self.saved = SavedState { disk: Some(disk.hash), plain: Some(plain) };
                (false, None)
            }
            Some(disk) if self.saved.disk == Some(disk.hash) => (self.saved.plain != Some(plain), None),
            Some(_) => (
                self.saved.plain != Some(plain),
                Some(
                    "another program changed the file; reload it in the editor, or save it to keep the editor's text",
                ),
            ),
        };
        (dirty, self.lost.clone().or(diverged.map(str::to_owned)))
    }

    fn document(&mut self, uri: &str, path: &AbsPath, dirty: bool, blocked: Option<String>) -> Document {
        let on_disk = self.disk.as_ref().is_some_and(|disk| disk.bom);
        let CachedText { text, hash, .. } = self.cached();
        // Most editors keep the mark out of the text.
        let inside = text.starts_with(BOM);
        let bom = inside || on_disk;
        let hash = *hash.get_or_insert_with(|| {
            if on_disk && !inside {
                ContentHash::of(format!("{BOM}{text}").as_bytes())
            } else {
                ContentHash::of(text.as_bytes())
            }
        });
        let text: Arc<str> = if inside { text[BOM.len()..].into() } else { Arc::clone(text) };
        self.mark(ContentHash::of(text.as_bytes()));
        Document {
            path: path.clone(),
            uri: uri.to_owned(),
            text,
            bom,
            version: Version { hash, editor: Some(self.version) },
            owner: Owner::Editor { dirty },
            blocked,
        }
    }
}

impl Buffer {
    fn mark(&mut self, hash: ContentHash) {
        let mark = (hash, self.sequence);
        if self.marks.back() != Some(&mark) {
            self.marks.push_back(mark);
            if self.marks.len() > MAX_MARKS {
                self.marks.pop_front();
            }
        }
    }
}

impl Step {
    fn bytes(&self) -> usize {
        self.edits.iter().map(|edit| edit.new_text.len() + size_of::<TextEdit>()).sum()
    }
}

/// The edits of a ranged change, by line.
///
/// Editors that reload a file replace many lines by mostly the same ones.
fn range_edits(old: &str, start: usize, new: &str) -> Vec<TextEdit> {
    if !old.contains('\n') || !new.contains('\n') || old.len() + new.len() > MAX_DIFF {
        return vec![TextEdit::replace(start..start + old.len(), new)];
    }
    let mut edits = text::diff_edits(old, new);
    for edit in &mut edits {
        edit.range = start + edit.range.start..start + edit.range.end;
    }
    edits
}

/// One edit between the common prefix and suffix of both texts.
fn middle_edit(old: &str, new: &str) -> Vec<TextEdit> {
    let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let start = (0..=same).rev().find(|at| old.is_char_boundary(*at)).unwrap_or(0);
    let most = old.len().min(new.len()) - start;
    let same = old.bytes().rev().zip(new.bytes().rev()).take(most).take_while(|(a, b)| a == b).count();
    let end = (0..=same).rev().find(|back| old.is_char_boundary(old.len() - back)).unwrap_or(0);
    if start == old.len() && start == new.len() {
        return Vec::new();
    }
    vec![TextEdit::replace(start..old.len() - end, &new[start..new.len() - end])]
}

/// The canonical path of a `file:` URI.
pub fn canonical_path(uri: &str) -> Option<AbsPath> {
    let path = paths::uri_to_path(uri)?;
    paths::canonical(&path)
        .inspect_err(|reason| tracing::warn!(uri, reason, "the canonical path of a document is unknown"))
        .ok()
}
