//! The open documents of one server, and the messages that keep them current.
//!
//! Reads no file. Invariants: after [`OpenDocuments::sync`] the server's text equals the given text; versions
//! only grow; messages are sent in the order of the table's changes, because both happen under the caller's
//! lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use paths::AbsPath;
use serde_json::{Value, json};
use text::{PositionEncoding, TextEdit};
use tokio::sync::watch;
use wire::{Closed, Room};
use workspace::Document;

use crate::server::view::View;
use adapters::RecheckRule;

/// Maximum number of open documents in one server.
///
/// The least recently used is closed first, except those with unsaved text or of pending requests.
const LIMIT: usize = 48;
/// Maximum number of documents kept open for their packages, beyond the others.
const KEPT: usize = 64;
const REMEMBERED: usize = 4096;
/// Maximum size in bytes of a difference that is sent as one change.
const ONE_PLACE: usize = 1024;
/// Numbers of bytes compared at once: many, and few near a difference.
const BLOCKS: [usize; 2] = [4096, 256];

#[derive(Default)]
pub(crate) struct OpenDocuments {
    open: HashMap<AbsPath, Open>,
    clock: u64,
    /// Documents opened for one request beyond the limit, and closed after it.
    extra: usize,
    /// A document of each package that stays open, so that the package stays loaded.
    kept: HashMap<AbsPath, AbsPath>,
    /// The number of pending requests about each document.
    held: HashMap<AbsPath, usize>,
    /// The highest version of a closed document, from which versions continue.
    ///
    /// Otherwise late diagnostics of the old text would count for the new one.
    floor: i32,
    /// Times at which documents were closed.
    closed: HashMap<AbsPath, Instant>,
    /// Notifies of each closed document.
    closings: watch::Sender<()>,
    /// The rule by which the server reads included files again.
    recheck: Option<RecheckRule>,
    changes: Changes,
}

/// Counts changes of files that others may include.
#[derive(Default)]
struct Changes {
    count: u64,
    /// The file of the last change.
    last: Option<AbsPath>,
    /// Number of changes when another file changed last.
    before: u64,
}

struct Open {
    state: Synced,
    used: u64,
    /// Whether the document has unsaved text, which the server would lose on close.
    unsaved: bool,
    /// Whether a request was about it.
    asked: bool,
    /// The number of changes when the server last read its included files.
    reread_at: u64,
    /// Whether it has its original text again after another one.
    ///
    /// A server that did not check the other text publishes nothing.
    reverted: bool,
}

/// The state of a document at the server.
#[derive(Debug, Clone)]
pub(crate) struct Synced {
    pub uri: String,
    /// The version in the protocol.
    pub number: i32,
    /// The version at `didOpen`.
    pub opened: i32,
    /// The version of the workspace's document.
    pub version: workspace::Version,
    pub view: Arc<View>,
    /// Time at which the text was sent; later diagnostics may be about it.
    pub sent: Sent,
    /// Time of the close before it was opened again.
    pub closed: Option<Instant>,
}

impl Synced {
    /// A document as it is on disk.
    pub fn on_disk(document: &Document) -> Self {
        Self {
            uri: document.uri.clone(),
            number: 0,
            opened: 0,
            version: document.version,
            view: Arc::new(View::new(Arc::clone(&document.text))),
            sent: Sent::default(),
            closed: None,
        }
    }
}

/// A point in the exchange with a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sent {
    /// The number of published diagnostics.
    pub pushes: u64,
    /// The number of reported changes on the disk.
    pub disk_changes: u64,
}

/// The form in which a server receives changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyncRule {
    pub open: bool,
    pub incremental: bool,
    pub encoding: PositionEncoding,
}

impl OpenDocuments {
    pub fn new(recheck: Option<RecheckRule>) -> Self {
        Self { recheck, ..Self::default() }
    }

    /// Whether [`OpenDocuments::send_again`] makes the server reread included files.
    pub(crate) fn rereads_includes(&self) -> bool {
        self.recheck.is_some()
    }

    /// Records a changed text: diagnostics of files that include it may be outdated.
    pub fn changed(&mut self, path: &AbsPath) {
        let Some(rule) = &self.recheck else { return };
        if rule.unaffected_extensions.iter().any(|end| path.file_name().ends_with(end.as_str())) {
            return;
        }
        let changes = &mut self.changes;
        if changes.last.as_ref() != Some(path) {
            (changes.last, changes.before) = (Some(path.clone()), changes.count);
        }
        changes.count += 1;
    }

    /// Whether an open document's diagnostics may be outdated without a publish.
    ///
    /// Another file changed since the server read the document's included files, or the server may not
    /// publish by itself.
    pub(crate) fn may_be_outdated(&self, path: &AbsPath) -> bool {
        let changes = &self.changes;
        let others = if changes.last.as_ref() == Some(path) { changes.before } else { changes.count };
        self.recheck.is_some()
            && self.open.get(path).is_some_and(|open| open.reverted || others > open.reread_at)
    }

    /// Records that a document has its text again after a speculative edit.
    pub(crate) fn record_revert(&mut self, path: &AbsPath) {
        if let Some(open) = self.open.get_mut(path) {
            open.reverted = true;
        }
    }

    /// All open documents, the least recently used first.
    pub fn paths(&self) -> Vec<AbsPath> {
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_by_key(|(_, open)| open.used);
        open.into_iter().map(|(path, _)| path.clone()).collect()
    }

    /// Records a request about an open document.
    pub fn ask(&mut self, path: &AbsPath) {
        if let Some(open) = self.open.get_mut(path) {
            open.asked = true;
        }
    }

    /// Keeps an open document of each package, the first one given.
    ///
    /// Beyond [`KEPT`], the least recently used is an ordinary document again.
    pub(crate) fn keep<'a>(&mut self, documents: impl Iterator<Item = (&'a AbsPath, &'a AbsPath)>) {
        for (package, path) in documents {
            let path = self.kept.entry(package.clone()).or_insert_with(|| path.clone());
            if let Some(open) = self.open.get_mut(path) {
                self.clock += 1;
                open.used = self.clock;
            }
        }
        while self.kept.len() > KEPT {
            let used = |path: &AbsPath| self.open.get(path).map(|open| open.used);
            let oldest =
                self.kept.iter().min_by_key(|(_, path)| used(path)).map(|(package, _)| package.clone());
            oldest.map(|package| self.kept.remove(&package));
        }
    }

    /// Whether a document stays open for its package.
    pub(crate) fn is_kept(&self, path: &AbsPath) -> bool {
        self.kept.values().any(|kept| kept == path)
    }

    /// Keeps a document, open or not, until [`OpenDocuments::release`].
    pub fn hold(&mut self, path: &AbsPath) {
        *self.held.entry(path.clone()).or_default() += 1;
    }

    /// Ends [`Self::hold`].
    ///
    /// Documents beyond the limit are closed when another is opened.
    pub fn release(&mut self, path: &AbsPath) {
        if let Some(count) = self.held.get_mut(path) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(path);
            }
        }
    }

    /// The open documents that requests were about, for the next server.
    pub fn asked(&self) -> Vec<AbsPath> {
        let mut paths = self.paths();
        paths.retain(|path| self.open.get(path).is_some_and(|open| open.asked));
        paths
    }

    /// Whether a document is open.
    pub fn holds(&self, path: &AbsPath) -> bool {
        self.open.contains_key(path)
    }

    /// Whether a document is open with unsaved text.
    pub fn is_unsaved(&self, path: &AbsPath) -> bool {
        self.open.get(path).is_some_and(|open| open.unsaved)
    }

    /// The next version of a document, higher than that of any closed document.
    pub fn next_number(&self, path: &AbsPath) -> i32 {
        self.open.get(path).map_or(self.floor, |open| open.state.number) + 1
    }

    /// Reserves `count` documents beyond the limit until [`OpenDocuments::take_room`].
    pub(crate) fn make_room(&mut self, count: usize) {
        self.extra += count;
    }

    /// Ends the reservation.
    pub(crate) fn take_room(&mut self, count: usize) {
        self.extra = self.extra.saturating_sub(count);
    }

    /// The texts of the server, to read its answers by.
    pub fn snapshot(&self) -> HashMap<AbsPath, Synced> {
        self.open.iter().map(|(path, open)| (path.clone(), open.state.clone())).collect()
    }

    /// Sends a document's text, opening it if necessary.
    pub fn sync(
        &mut self,
        room: &Room,
        rule: SyncRule,
        document: &Document,
        language: &str,
        sent: Sent,
    ) -> Result<Synced, Closed> {
        self.clock += 1;
        let used = self.clock;
        let unsaved = document.is_unsaved();
        if let Some(open) = self.open.get_mut(&document.path) {
            (open.used, open.unsaved) = (used, unsaved);
            let found = match Arc::ptr_eq(&open.state.view.text, &document.text) {
                true => Difference::None,
                false => differ(&open.state.view.text, &document.text),
            };
            let differs = found != Difference::None;
            if differs {
                let edit = found.at_one_place();
                let edits = match &edit {
                    Some(edit) => std::slice::from_ref(edit),
                    None => &text::diff_edits(&open.state.view.text, &document.text),
                };
                let changes = changes(rule, &open.state.view, &document.text, edits);
                open.state.number += 1;
                update_view(&mut open.state.view, &document.text, edit.as_ref());
                open.state.sent = sent;
                let params = json!({
                    "textDocument": {"uri": open.state.uri, "version": open.state.number},
                    "contentChanges": changes,
                });
                if rule.open {
                    room.notify("textDocument/didChange", &params)?;
                }
            }
            open.state.version = document.version;
            let state = open.state.clone();
            if differs {
                self.changed(&document.path);
            }
            return Ok(state);
        }
        let state = Synced {
            // The editor's URI is not used: a server with links answers by real paths.
            uri: paths::path_to_uri(document.path.as_path()),
            number: self.floor + 1,
            opened: self.floor + 1,
            version: document.version,
            view: Arc::new(View::new(Arc::clone(&document.text))),
            sent,
            closed: self.closed.remove(&document.path),
        };
        let reread_at = self.changes.count;
        self.open.insert(
            document.path.clone(),
            Open { state: state.clone(), used, unsaved, asked: false, reread_at, reverted: false },
        );
        if unsaved {
            self.changed(&document.path);
        }
        if rule.open {
            let params = json!({"textDocument": {
                "uri": state.uri, "languageId": language, "version": state.number, "text": &*document.text,
            }});
            room.notify("textDocument/didOpen", &params)?;
        }
        while self.open.len() > LIMIT + self.extra + self.kept.len() {
            let free = self.open.iter().filter(|(path, open)| {
                !open.unsaved
                    && **path != document.path
                    && !self.held.contains_key(*path)
                    && !self.is_kept(path)
            });
            let oldest = free.min_by_key(|(_, open)| open.used).map(|(path, _)| path.clone());
            let Some(oldest) = oldest else { break };
            self.close(room, rule, &oldest)?;
        }
        Ok(state)
    }

    /// Sends an open document again under a new version, so that it is rechecked.
    ///
    /// Includes its included files if the server supports that; `None` if it is not open.
    pub(crate) fn send_again(
        &mut self,
        room: &Room,
        rule: SyncRule,
        path: &AbsPath,
        sent: Sent,
    ) -> Result<Option<Synced>, Closed> {
        let Some(Open { state, reread_at, reverted, .. }) = self.open.get_mut(path) else { return Ok(None) };
        state.number += 1;
        state.sent = sent;
        (*reread_at, *reverted) = (self.changes.count, false);
        if rule.open {
            let mut params = json!({
                "textDocument": {"uri": state.uri, "version": state.number},
                "contentChanges": [{"text": &*state.view.text}],
            });
            for (field, value) in self.recheck.iter().flat_map(|rule| &rule.params) {
                params[field] = value.clone();
            }
            room.notify("textDocument/didChange", &params)?;
        }
        Ok(Some(state.clone()))
    }

    /// An open document as the server has it.
    pub fn shown(&self, path: &AbsPath) -> Option<Synced> {
        self.open.get(path).map(|open| open.state.clone())
    }

    /// The last version of an open document.
    pub fn number(&self, path: &AbsPath) -> Option<i32> {
        self.open.get(path).map(|open| open.state.number)
    }

    /// A receiver that is notified whenever a document is closed.
    pub(crate) fn closings(&self) -> watch::Receiver<()> {
        self.closings.subscribe()
    }

    /// Closes a document in the server.
    pub fn close(&mut self, room: &Room, rule: SyncRule, path: &AbsPath) -> Result<(), Closed> {
        let Some(open) = self.open.remove(path) else { return Ok(()) };
        if open.unsaved {
            self.changed(path);
        }
        self.floor = self.floor.max(open.state.number);
        self.kept.retain(|_, kept| kept != path);
        if self.closed.len() >= REMEMBERED {
            self.closed.clear();
        }
        self.closed.insert(path.clone(), Instant::now());
        self.closings.send_replace(());
        if !rule.open {
            return Ok(());
        }
        room.notify("textDocument/didClose", &json!({"textDocument": {"uri": open.state.uri}}))
    }
}

/// The changes from one text to another.
///
/// The last position comes first, so that earlier ones stay valid.
fn changes(rule: SyncRule, old: &View, new: &str, edits: &[TextEdit]) -> Vec<Value> {
    if !rule.incremental {
        return vec![json!({"text": new})];
    }
    edits
        .iter()
        .rev()
        .map(|edit| {
            // No position is between `\r` and `\n`; a change there replaces the whole line end.
            let (start, end, new_text) = whole_line_ends(&old.text, edit);
            let range = old.protocol_range(&(start..end), rule.encoding);
            json!({"range": range, "text": new_text})
        })
        .collect()
}

/// Updates a view to the text after a change.
///
/// One changed place costs little, whatever the size of the text; less if no request holds the view.
fn update_view(view: &mut Arc<View>, new: &Arc<str>, edit: Option<&TextEdit>) {
    let Some(edit) = edit else {
        *view = Arc::new(View::new(Arc::clone(new)));
        return;
    };
    let (range, length) = (edit.range.clone(), edit.new_text.len());
    match Arc::get_mut(view) {
        Some(view) => {
            view.text = Arc::clone(new);
            view.index.edit(new, range, length);
        }
        None => {
            let mut index = view.index.clone();
            index.edit(new, range, length);
            *view = Arc::new(View { text: Arc::clone(new), index });
        }
    }
}

/// The differing range of two texts.
#[derive(PartialEq)]
enum Difference {
    None,
    /// The single edit from the first text to the second, if it is small.
    One(TextEdit),
    Many,
}

impl Difference {
    fn at_one_place(self) -> Option<TextEdit> {
        match self {
            Self::One(edit) => Some(edit),
            Self::None | Self::Many => None,
        }
    }
}

/// Compares two texts, each byte once.
fn differ(old: &str, new: &str) -> Difference {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let mut prefix = common(a, b);
    if prefix == a.len() && prefix == b.len() {
        return Difference::None;
    }
    while !old.is_char_boundary(prefix) || !new.is_char_boundary(prefix) {
        prefix -= 1;
    }
    let mut suffix = common_end(&a[prefix..], &b[prefix..]);
    while !old.is_char_boundary(a.len() - suffix) || !new.is_char_boundary(b.len() - suffix) {
        suffix -= 1;
    }
    let (range, new_text) = (prefix..a.len() - suffix, &new[prefix..b.len() - suffix]);
    match range.len().max(new_text.len()) <= ONE_PLACE {
        true => Difference::One(TextEdit::replace(range, new_text)),
        false => Difference::Many,
    }
}

/// The number of equal bytes at the start: whole blocks first.
fn common(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    for block in BLOCKS {
        let (a, b) = (a[at..].chunks_exact(block), b[at..].chunks_exact(block));
        at += block * a.zip(b).take_while(|(a, b)| a == b).count();
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
}

fn common_end(a: &[u8], b: &[u8]) -> usize {
    let (mut a, mut b, mut same) = (a, b, 0);
    for block in BLOCKS {
        let blocks = a.rchunks_exact(block).zip(b.rchunks_exact(block)).take_while(|(a, b)| a == b).count();
        (a, b) = (&a[..a.len() - blocks * block], &b[..b.len() - blocks * block]);
        same += blocks * block;
    }
    same + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

fn whole_line_ends(text: &str, edit: &TextEdit) -> (usize, usize, String) {
    let between = |offset: usize| text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
    let (mut start, mut end, mut new_text) = (edit.range.start, edit.range.end, edit.new_text.clone());
    if between(start) {
        start -= 1;
        new_text.insert(0, '\r');
    }
    if between(end) {
        end += 1;
        new_text.push('\n');
    }
    (start, end, new_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::LineIndex;

    #[test]
    fn the_single_changed_range_is_found() {
        let pieces = ["é", "è", "a", "\r\n", "\n", "\r", "😀", "", "aa"];
        let around = ["", "x", "é\r", "\né\n", &"long line\n".repeat(300)];
        for (before, after) in
            around.iter().flat_map(|before| around.iter().map(move |after| (before, after)))
        {
            for (from, to) in pieces.iter().flat_map(|from| pieces.iter().map(move |to| (from, to))) {
                let old: Arc<str> = format!("{before}{from}{after}").into();
                let new: Arc<str> = format!("{before}{to}{after}").into();
                if old == new {
                    assert!(differ(&old, &new) == Difference::None);
                    continue;
                }
                let edit = differ(&old, &new).at_one_place().unwrap();
                assert_eq!(text::apply(&old, std::slice::from_ref(&edit)).unwrap(), *new, "{old:?} {new:?}");
                let mut view = Arc::new(View::new(Arc::clone(&old)));
                let held = Arc::clone(&view);
                update_view(&mut view, &new, Some(&edit));
                assert_eq!((&view.index, &*view.text), (&LineIndex::new(&new), &*new), "{old:?} {new:?}");
                assert_eq!((&held.index, &*held.text), (&LineIndex::new(&old), &*old), "{old:?} {new:?}");
                let mut alone = Arc::new(View::new(Arc::clone(&old)));
                update_view(&mut alone, &new, Some(&edit));
                assert_eq!((&alone.index, &*alone.text), (&LineIndex::new(&new), &*new), "{old:?} {new:?}");
            }
        }
    }
}
