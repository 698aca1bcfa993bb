//! Every document the editor has open, as its notifications tell it.
//!
//! Applies notifications in wire order, synchronously, and knows for each document its text, its
//! version, what was saved last, and every change since. What must stay true: one file is one
//! document under whatever name it was opened; answers use the client's own spelling of its URI; a
//! text that cannot be known exactly is never edited.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use paths::AbsPath;
use serde::Deserialize;
use serde_json::value::RawValue;
use text::{LineIndex, Position, PositionEncoding, TextEdit};
use tokio::sync::watch;
use workspace::{ContentHash, DiskCopy, Document, Owner, UNTITLED, Version, plain_hash};

use crate::editors::ClientFacts;
use adapters::EditorDefinition;

/// At most this many changes of one document are remembered …
const MAX_STEPS: usize = 10_000;
/// … and this many bytes of text in them.
const MAX_STEP_BYTES: usize = 4 << 20;
/// Whole texts up to this size are compared line by line, larger ones at their ends only.
const MAX_DIFF: usize = 512 << 10;
/// Texts that were handed out and can be rebased from.
const MAX_MARKS: usize = 256;

/// The byte order mark, which most editors keep out of the text they tell.
pub const BOM: &str = "\u{feff}";

/// `text` without a byte order mark at its start.
pub fn without_bom(text: &str) -> &str {
    text.strip_prefix(BOM).unwrap_or(text)
}

/// The open documents of one connection.
pub struct OpenDocuments {
    encoding: PositionEncoding,
    editor: Arc<EditorDefinition>,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

/// One open document at one moment.
#[derive(Debug, Clone)]
pub struct Open {
    /// As the client spells it.
    pub uri: String,
    /// Canonical path; of an `untitled:` document the name that people and models use, below the first
    /// folder, where no file is. `None` for other schemes.
    pub path: Option<AbsPath>,
    /// As the client names it.
    pub language_id: String,
    /// The client's number for this text.
    pub version: i32,
    /// The text as the client has it.
    pub text: Arc<str>,
    /// Lines of `text`, as this client counts them.
    pub lines: Arc<LineIndex>,
    /// Counts changes of this document; rises by at least one with each notification.
    pub sequence: u64,
    /// Another one each time the document is opened.
    pub incarnation: u64,
}

/// Names one text of one open document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// As the client spells it.
    pub uri: String,
    pub incarnation: u64,
    /// After how many changes.
    pub sequence: u64,
}

impl Open {
    /// The moment at which it was taken.
    pub fn moment(&self) -> Moment {
        Moment { uri: self.uri.clone(), incarnation: self.incarnation, sequence: self.sequence }
    }
}

/// One change, as edits of the text before it.
#[derive(Debug, Clone)]
pub struct Step {
    /// Of the text before the step, in order of place, not overlapping.
    pub edits: Vec<TextEdit>,
    /// The client sent the whole text; the edits are our guess.
    pub whole: bool,
}

/// What happened to a document since a moment.
#[derive(Debug, Clone)]
pub enum Since {
    /// These changes, oldest first.
    Steps(Vec<Arc<Step>>),
    /// It was opened anew and is another document.
    Reopened(Open),
    Closed,
    /// Too much to remember.
    Forgotten,
}

#[derive(Default)]
struct State {
    by_uri: BTreeMap<String, Buffer>,
    by_path: HashMap<AbsPath, Vec<String>>,
    /// Where documents without a file are named.
    folder: Option<AbsPath>,
    /// Counts openings and changes of all documents.
    clock: u64,
    /// Changes are not forgotten while somebody follows them.
    followers: usize,
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
    /// The last `steps.len()` changes.
    steps: VecDeque<Arc<Step>>,
    step_bytes: usize,
    /// Made when asked for, once for each text.
    taken: Option<Taken>,
    marks: VecDeque<(ContentHash, u64)>,
    disk: Option<DiskCopy>,
    saved: Saved,
    /// Why its text is not known exactly.
    lost: Option<String>,
}

#[derive(Clone)]
struct Taken {
    text: Arc<str>,
    lines: Arc<LineIndex>,
    hash: Option<ContentHash>,
}

/// What the editor last read or wrote.
#[derive(Debug, Clone, Copy, Default)]
struct Saved {
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
    text_document: Item,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
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
    #[serde(default)]
    version: Option<i32>,
}

/// One entry of `contentChanges`; without a range the whole text.
#[derive(Debug, Clone, Deserialize)]
pub struct ContentChange {
    #[serde(default)]
    pub range: Option<WireRange>,
    pub text: String,
}

/// A range as LSP writes it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct WireRange {
    pub start: WirePosition,
    /// The position behind it.
    pub end: WirePosition,
}

/// A position as LSP writes it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct WirePosition {
    /// Zero-based line.
    pub line: u32,
    /// Zero-based character, in the connection's encoding.
    pub character: u32,
}

impl From<WirePosition> for Position {
    fn from(it: WirePosition) -> Self {
        Self { line: it.line, character: it.character }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfDocument {
    text_document: Identifier,
}

impl OpenDocuments {
    /// None open yet, for a client that said at `initialize` who it is.
    pub fn new(client: &ClientFacts) -> Self {
        Self {
            encoding: client.position_encoding,
            editor: Arc::clone(&client.editor),
            state: Mutex::default(),
            changed: watch::channel(0).0,
        }
    }

    /// Where documents without a file are from now on, as far as people and models name them.
    pub fn set_folder(&self, folder: Option<AbsPath>) {
        self.state().folder = folder;
    }

    /// Takes `textDocument/didOpen`, `didChange`, `didSave` and `didClose`, to be called in wire
    /// order before anything later is looked at. `false`: it is another notification. What cannot
    /// be understood is logged and changes nothing. Looks at the disk on opening and saving.
    pub fn notification(&self, method: &str, params: Option<&RawValue>) -> bool {
        let params = params.map_or("null", RawValue::get);
        let parsed =
            match method {
                "textDocument/didOpen" => serde_json::from_str(params).map(|params: DidOpen| {
                    let Item { uri, language_id, version, text } = params.text_document;
                    self.open(&uri, &language_id, version, text);
                }),
                "textDocument/didChange" => serde_json::from_str(params).map(|params: DidChange| {
                    let VersionedIdentifier { uri, version } = params.text_document;
                    self.change(&uri, version, &params.content_changes);
                }),
                "textDocument/didSave" => serde_json::from_str(params)
                    .map(|params: OfDocument| self.save(&params.text_document.uri)),
                "textDocument/didClose" => serde_json::from_str(params)
                    .map(|params: OfDocument| self.close(&params.text_document.uri)),
                _ => return false,
            };
        if let Err(error) = parsed {
            tracing::warn!(method, %error, "a notification cannot be understood");
        }
        true
    }

    /// A document is open from now on, with this text.
    pub fn open(&self, uri: &str, language_id: &str, version: i32, text: String) {
        let path = canonical_path(uri).or_else(|| self.state().untitled(uri));
        let disk = path.as_ref().and_then(|path| DiskCopy::look(path, None));
        {
            let mut state = self.state();
            state.remove(uri);
            state.clock += 1;
            let clock = state.clock;
            if let Some(path) = &path {
                state.by_path.entry(path.clone()).or_default().push(uri.to_owned());
            }
            // What differs from the disk was typed before we came.
            let found = disk.as_ref().and_then(|disk| disk.plain);
            let same = found == Some(plain_hash("")) && self.editor.is_empty_file(&text);
            let saved = Saved {
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
                taken: None,
                marks: VecDeque::new(),
                disk,
                saved,
                lost: None,
            };
            state.by_uri.insert(uri.to_owned(), buffer);
        }
        self.tell();
    }

    /// Changes of an open document, made one after the other. Versions need not be consecutive.
    pub fn change(&self, uri: &str, version: Option<i32>, changes: &[ContentChange]) {
        {
            let mut state = self.state();
            let Some(uri) = state.spelling(uri) else {
                tracing::warn!(uri, "a change of a document that is not open");
                return;
            };
            state.clock += 1;
            let (clock, followed) = (state.clock, state.followers > 0);
            let Some(buffer) = state.by_uri.get_mut(&uri) else { return };
            buffer.touched = clock;
            for change in changes {
                buffer.take(change, self.encoding, &self.editor);
            }
            if let Some(version) = version {
                if version < buffer.version {
                    tracing::debug!(uri, version, known = buffer.version, "a version that went back");
                }
                buffer.version = version;
            }
            if !followed {
                buffer.trim();
            }
        }
        self.tell();
    }

    /// A document was saved. Looks at the disk.
    pub fn save(&self, uri: &str) {
        let found = self.get(uri).and_then(|open| Some((open.uri, open.path?)));
        if let Some((uri, path)) = found {
            let disk = DiskCopy::look(&path, None);
            if let Some(buffer) = self.state().by_uri.get_mut(&uri) {
                let plain = buffer.plain();
                let ours = disk.as_ref().is_none_or(|disk| {
                    disk.plain.is_none_or(|found| {
                        // Editors add a missing last line end.
                        found == plain
                            || found == plain_hash(&format!("{}\n", without_bom(&buffer.text)))
                            || found == plain_hash("") && self.editor.is_empty_file(&buffer.text)
                    })
                });
                // Otherwise another program was faster, and the copy is not what was saved.
                let written = || ContentHash::of(buffer.text.as_bytes());
                let hash = disk.as_ref().map(|disk| if ours { disk.hash } else { written() });
                buffer.saved = Saved { disk: hash, plain: Some(plain) };
                buffer.disk = disk;
            }
        }
        self.tell();
    }

    /// A document is no longer open; the disk is the truth again.
    pub fn close(&self, uri: &str) {
        {
            let mut state = self.state();
            let Some(uri) = state.spelling(uri) else { return };
            state.clock += 1;
            state.remove(&uri);
        }
        self.tell();
    }

    /// The document as it is now, without waiting for an edit in flight; by any spelling of its URI.
    pub fn get(&self, uri: &str) -> Option<Open> {
        let mut state = self.state();
        let uri = state.spelling(uri)?;
        state.by_uri.get_mut(&uri).map(|buffer| buffer.snapshot(&uri))
    }

    /// The same by canonical path.
    pub fn at(&self, path: &AbsPath) -> Option<Open> {
        let mut state = self.state();
        let uri = state.primary(path)?;
        state.by_uri.get_mut(&uri).map(|buffer| buffer.snapshot(&uri))
    }

    /// Every open document, in order of URI.
    #[cfg(test)]
    pub fn all(&self) -> Vec<Open> {
        self.state().by_uri.iter_mut().map(|(uri, buffer)| buffer.snapshot(uri)).collect()
    }

    /// The canonical paths of open files, each once.
    pub fn paths(&self) -> Vec<AbsPath> {
        let mut paths: Vec<AbsPath> = self.state().by_path.keys().cloned().collect();
        paths.sort();
        paths
    }

    /// The client's spelling for a path: its own for an open document, else ours.
    pub fn uri_of(&self, path: &AbsPath) -> String {
        self.state().primary(path).unwrap_or_else(|| paths::path_to_uri(path.as_path()))
    }

    /// Open files whose text is not saved. Looks at the disk.
    #[cfg(test)]
    pub fn unsaved(&self) -> Vec<AbsPath> {
        let is_dirty =
            |path: &AbsPath| self.document(path).is_some_and(|it| it.owner == Owner::Editor { dirty: true });
        self.paths().into_iter().filter(is_dirty).collect()
    }

    /// The document for the agent: with saved state and diverged copies looked at. Does not wait
    /// for an edit in flight. Looks at the disk.
    pub fn document(&self, path: &AbsPath) -> Option<Document> {
        let known = {
            let state = self.state();
            let uri = state.primary(path)?;
            state.by_uri.get(&uri)?.disk.clone()
        };
        let disk = DiskCopy::look(path, known.as_ref());
        let mut state = self.state();
        let uri = state.primary(path)?;
        let other_text = state.differing(path, &uri);
        let buffer = state.by_uri.get_mut(&uri)?;
        buffer.disk = disk;
        let (dirty, held) = buffer.judge();
        Some(buffer.document(&uri, path, dirty, held.or(other_text)))
    }

    /// What happened to a document since a moment of it.
    pub fn since(&self, moment: &Moment) -> Since {
        let mut state = self.state();
        let Some(buffer) = state.by_uri.get_mut(&moment.uri) else { return Since::Closed };
        if buffer.incarnation != moment.incarnation {
            return Since::Reopened(buffer.snapshot(&moment.uri));
        }
        buffer.steps_since(moment.sequence).map_or(Since::Forgotten, Since::Steps)
    }

    /// The document as it is now, and the changes that led to it from the newest text with this hash
    /// that was handed out for the path.
    pub fn way_from(&self, path: &AbsPath, hash: ContentHash) -> Option<(Vec<Arc<Step>>, Open)> {
        let mut state = self.state();
        let uri = state.primary(path)?;
        let buffer = state.by_uri.get_mut(&uri)?;
        let (_, sequence) = *buffer.marks.iter().rev().find(|(marked, _)| *marked == hash)?;
        Some((buffer.steps_since(sequence)?, buffer.snapshot(&uri)))
    }

    /// The same from a moment, if it is still the same document.
    pub fn way_since(&self, moment: &Moment) -> Option<(Vec<Arc<Step>>, Open)> {
        let mut state = self.state();
        let buffer = state.by_uri.get_mut(&moment.uri)?;
        if buffer.incarnation != moment.incarnation {
            return None;
        }
        Some((buffer.steps_since(moment.sequence)?, buffer.snapshot(&moment.uri)))
    }

    /// The text of an open file as it is now can be named later (`way_from`).
    pub fn mark(&self, path: &AbsPath) {
        let mut state = self.state();
        let Some(uri) = state.primary(path) else { return };
        if let Some(buffer) = state.by_uri.get_mut(&uri) {
            buffer.mark(ContentHash::of(without_bom(&buffer.text).as_bytes()));
        }
    }

    /// The files that are open, the one that was opened or changed last first.
    pub fn last_touched(&self) -> Vec<AbsPath> {
        let state = self.state();
        let mut files: Vec<_> = state.by_uri.values().filter(|buffer| buffer.path.is_some()).collect();
        files.sort_by_key(|buffer| std::cmp::Reverse(buffer.touched));
        files.into_iter().filter_map(|buffer| buffer.path.clone()).collect()
    }

    /// While the guard lives no change is forgotten.
    pub fn follow(self: &Arc<Self>) -> Following {
        self.state().followers += 1;
        Following { documents: Arc::clone(self) }
    }

    /// Told of every change of any document, with the number of changes so far.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// In which unit this client counts characters.
    pub fn encoding(&self) -> PositionEncoding {
        self.encoding
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic inside would leave one buffer behind the editor's; it is found by its version.
        self.state.lock()
    }
}

/// From [`OpenDocuments::follow`].
pub struct Following {
    documents: Arc<OpenDocuments>,
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut state = self.documents.state();
        state.followers -= 1;
        if state.followers == 0 {
            state.by_uri.values_mut().for_each(Buffer::trim);
        }
    }
}

impl State {
    /// The name of a document that has no file yet.
    fn untitled(&self, uri: &str) -> Option<AbsPath> {
        let name = uri.strip_prefix(UNTITLED)?;
        if name.starts_with('/') {
            // It is known where it will be saved.
            return canonical_path(&format!("file://{name}"));
        }
        self.folder.as_ref().filter(|_| !name.contains('/')).map(|folder| folder.join(uri))
    }

    /// The spelling under which a document is open.
    fn spelling(&self, uri: &str) -> Option<String> {
        if self.by_uri.contains_key(uri) {
            return Some(uri.to_owned());
        }
        let path = canonical_path(uri)?;
        self.primary(&path)
    }

    /// Of the names under which a file is open, the one that was changed last.
    fn primary(&self, path: &AbsPath) -> Option<String> {
        let uris = self.by_path.get(path)?;
        uris.iter().max_by_key(|uri| self.by_uri.get(*uri).map(|buffer| buffer.touched)).cloned()
    }

    /// Why a file that is open under two names cannot be edited.
    fn differing(&self, path: &AbsPath, primary: &str) -> Option<String> {
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
    fn take(&mut self, change: &ContentChange, encoding: PositionEncoding, editor: &EditorDefinition) {
        let Some(range) = change.range else {
            let edits = if self.text.len() + change.text.len() <= MAX_DIFF {
                text::diff_edits(&self.text, &change.text)
            } else {
                ends_differ(&self.text, &change.text)
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
                let edits = told(&self.text[start..end], start, &change.text);
                self.text.replace_range(start..end, &change.text);
                self.lines.edit(&self.text, start..end, change.text.len());
                self.record(Step { edits, whole: false });
            }
            _ => {
                tracing::error!(?range, "a change at a place that is not in the text");
                let why = "the editor reported a change at a place that is not in its text; \
                           close it and open it again";
                self.lost = Some(why.to_owned());
                // Nothing can be said about the text before.
                self.steps.clear();
                self.step_bytes = 0;
                self.marks.clear();
                self.sequence += 1;
                self.taken = None;
            }
        }
    }

    fn record(&mut self, step: Step) {
        self.step_bytes += step.bytes();
        self.steps.push_back(Arc::new(step));
        self.sequence += 1;
        self.taken = None;
    }

    fn trim(&mut self) {
        while self.steps.len() > MAX_STEPS || self.step_bytes > MAX_STEP_BYTES {
            let Some(step) = self.steps.pop_front() else { break };
            self.step_bytes -= step.bytes();
        }
    }

    fn steps_since(&self, sequence: u64) -> Option<Vec<Arc<Step>>> {
        let wanted = usize::try_from(self.sequence.checked_sub(sequence)?).ok()?;
        let skip = self.steps.len().checked_sub(wanted)?;
        Some(self.steps.iter().skip(skip).cloned().collect())
    }

    fn taken(&mut self) -> &mut Taken {
        self.taken.get_or_insert_with(|| Taken {
            text: self.text.as_str().into(),
            lines: Arc::new(self.lines.clone()),
            hash: None,
        })
    }

    fn snapshot(&mut self, uri: &str) -> Open {
        let Taken { text, lines, .. } = self.taken().clone();
        Open {
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

    /// Whether it is unsaved, and why it must not be written. Takes note when the editor has come to
    /// agree with the disk.
    fn judge(&mut self) -> (bool, Option<String>) {
        let plain = self.plain();
        let held = |why: &str| Some(why.to_owned());
        let (dirty, diverged) = match &self.disk {
            None if self.saved.disk.is_some() => (
                true,
                held(
                    "its file was moved or deleted since the editor read it; \
                     close it in the editor, or save it there",
                ),
            ),
            None => (true, None),
            Some(disk) if disk.plain == Some(plain) => {
                self.saved = Saved { disk: Some(disk.hash), plain: Some(plain) };
                (false, None)
            }
            Some(disk) if self.saved.disk == Some(disk.hash) => (self.saved.plain != Some(plain), None),
            Some(_) => (
                self.saved.plain != Some(plain),
                held(
                    "another program changed its file since the editor read or saved it; \
                     reload it in the editor, or save it there to keep the editor's text",
                ),
            ),
        };
        (dirty, self.lost.clone().or(diverged))
    }

    fn document(&mut self, uri: &str, path: &AbsPath, dirty: bool, held: Option<String>) -> Document {
        let on_disk = self.disk.as_ref().is_some_and(|disk| disk.bom);
        let Taken { text, hash, .. } = self.taken();
        // The editors seen keep the mark out of the text; one that does not has it there.
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
            held,
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

/// What a change says: editors that read a file again replace many lines by mostly the same ones.
fn told(old: &str, start: usize, new: &str) -> Vec<TextEdit> {
    if !old.contains('\n') || !new.contains('\n') || old.len() + new.len() > MAX_DIFF {
        return vec![TextEdit::replace(start..start + old.len(), new)];
    }
    let mut edits = text::diff_edits(old, new);
    for edit in &mut edits {
        edit.range = start + edit.range.start..start + edit.range.end;
    }
    edits
}

/// One edit: what is left between the ends that both texts share.
fn ends_differ(old: &str, new: &str) -> Vec<TextEdit> {
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

/// Where a `file:` URI leads.
pub fn canonical_path(uri: &str) -> Option<AbsPath> {
    let path = paths::uri_to_path(uri)?;
    paths::canonical(&path)
        .inspect_err(|reason| tracing::warn!(uri, reason, "a document whose path cannot be followed"))
        .ok()
}
