//! An editor without the `¶` lines of running requests, as runs see it.
//!
//! The lines stay in the editor until the first edit of their document, which also removes them.
//!
//! Invariants: the filter hides a line only while it is unchanged; the text and hash of a document are
//! those without the line; edits for the editor are those of the text with the line.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use paths::AbsPath;
use text::{ChangeLog, LineIndex, TextEdit};
use workspace::{ApplyOutcome, ChangeKind, ContentHash, Document, Editor, FileChange, RunId};

/// An editor that hides request lines.
pub struct RequestLineFilter {
    editor: Arc<dyn Editor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    hidden: Vec<Hidden>,
    /// Changes as sent to the editor, for reverts.
    sent: BTreeMap<AbsPath, (FileChange, Hidden)>,
}

#[derive(Debug, Clone)]
struct Hidden {
    id: u64,
    path: AbsPath,
    /// Whole lines without the last line end.
    text: String,
    /// Byte offset of the lines when hidden; identifies one of several equal lines.
    near: usize,
    /// Filtered texts, newest last: hash, whole text, range of the line.
    filtered: VecDeque<(ContentHash, Arc<str>, Range<usize>)>,
}

/// Maximum number of filtered texts that plans can be based on.
const MAX_FILTERED: usize = 32;

impl RequestLineFilter {
    pub fn new(editor: Arc<dyn Editor>) -> Self {
        Self { editor, state: Mutex::default() }
    }

    /// Hides the whole lines `text` near byte `near` of the document.
    ///
    /// Returns the key for [`Self::unhide`].
    pub fn hide(&self, path: &AbsPath, text: &str, near: usize) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        state.hidden.push(Hidden {
            id,
            path: path.clone(),
            text: text.to_owned(),
            near,
            filtered: VecDeque::new(),
        });
        id
    }

    /// Shows the line again.
    ///
    /// Returns whether it was still hidden, so that no edit removed it.
    pub fn unhide(&self, id: u64) -> bool {
        let mut state = self.lock();
        let before = state.hidden.len();
        state.hidden.retain(|hidden| hidden.id != id);
        state.sent.retain(|_, (_, hidden)| hidden.id != id);
        state.hidden.len() < before
    }

    /// Maps byte `offset` of the editor's text to the filtered text.
    pub fn filtered_offset(&self, path: &AbsPath, text: &str, offset: usize) -> usize {
        match self.hidden(path).and_then(|hidden| locate(text, &hidden)) {
            Some(range) if offset >= range.end => offset - range.len(),
            Some(range) if offset > range.start => range.start,
            _ => offset,
        }
    }

    /// Maps a line of the filtered text, from 0, to the editor's text.
    pub fn editor_line(&self, path: &AbsPath, line: usize) -> usize {
        let hidden_lines = || {
            let text = self.editor.document(path)?.text;
            let range = locate(&text, &self.hidden(path)?)?;
            let lines = LineIndex::new(&text);
            Some(lines.line_of(range.start)..lines.line_of(range.end))
        };
        hidden_lines().map_or(line, |hidden| if line >= hidden.start { line + hidden.len() } else { line })
    }

    /// `text` without the hidden line.
    pub fn filtered_text(&self, path: &AbsPath, text: &str) -> String {
        let mut filtered = text.to_owned();
        if let Some(range) = self.hidden(path).and_then(|hidden| locate(text, &hidden)) {
            filtered.replace_range(range, "");
        }
        filtered
    }

    /// The hidden line of a document.
    ///
    /// There is at most one; a second waits for the first.
    fn hidden(&self, path: &AbsPath) -> Option<Hidden> {
        self.lock().hidden.iter().find(|hidden| hidden.path == *path).cloned()
    }

    fn hide_line(&self, mut document: Document) -> Document {
        let mut state = self.lock();
        let hidden = state.hidden.iter_mut().find(|hidden| hidden.path == document.path);
        let Some(hidden) = hidden else { return document };
        let Some(range) = locate(&document.text, hidden) else { return document };
        let mut text = document.text.to_string();
        text.replace_range(range.clone(), "");
        let hash = ContentHash::of(text.as_bytes());
        if hidden.filtered.back().is_none_or(|(last, ..)| *last != hash) {
            hidden.filtered.push_back((hash, Arc::clone(&document.text), range));
            if hidden.filtered.len() > MAX_FILTERED {
                hidden.filtered.pop_front();
            }
        }
        document.version.hash =
            if document.bom { ContentHash::of(&[b"\xef\xbb\xbf", text.as_bytes()].concat()) } else { hash };
        document.text = text.into();
        document
    }

    /// The change for the editor's text, which also removes the hidden line.
    fn with_removal(&self, change: &FileChange) -> Option<(FileChange, Hidden)> {
        let path = if let ChangeKind::Renamed { from } = &change.kind { from } else { &change.path };
        let hidden = self.hidden(path)?;
        let whole = self.editor.document(path)?;
        let range = locate(&whole.text, &hidden)?;
        let mut filtered = whole.text.to_string();
        filtered.replace_range(range.clone(), "");
        // Otherwise the plan is stale, and the editor refuses it.
        if change.before.as_deref() != Some(filtered.as_str()) {
            return None;
        }
        let edits = match change.kind {
            ChangeKind::Created | ChangeKind::Deleted => change.edits.clone(),
            ChangeKind::Modified | ChangeKind::Renamed { .. } => add_removal(&change.edits, &range),
        };
        Some((FileChange { before: Some(whole.text), edits, ..change.clone() }, hidden))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        // Every change is a single push, insert or retain.
        self.state.lock()
    }
}

impl Editor for RequestLineFilter {
    fn documents(&self) -> Vec<Document> {
        self.editor.documents().into_iter().map(|document| self.hide_line(document)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        Some(self.hide_line(self.editor.document(path)?))
    }

    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let Some(hidden) = self.hidden(&change.path) else { return self.editor.rebase(change) };
        let before = ContentHash::of(change.before.as_deref()?.as_bytes());
        let Some((_, whole, range)) = hidden.filtered.iter().rev().find(|(filtered, ..)| *filtered == before)
        else {
            // The change was planned before the line was hidden, so the line may stay.
            return self.editor.rebase(change);
        };
        let edits = add_removal(&change.edits, range);
        let change = FileChange { before: Some(Arc::clone(whole)), edits, ..change.clone() };
        let edits = self.editor.rebase(&change)?;
        let now = self.editor.document(&change.path)?;
        Some(drop_removal(&edits, &locate(&now.text, &hidden)?))
    }

    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let (hidden, removed) = {
            let state = self.lock();
            let hidden = state.hidden.iter().find(|hidden| hidden.path == *path).cloned();
            // An edit removed the line; earlier texts were filtered.
            (hidden, state.sent.get(path).map(|(_, hidden)| hidden.clone()))
        };
        let hash = ContentHash::of(since.as_bytes());
        let filtered = [&hidden, &removed].into_iter().flatten().flat_map(|hidden| &hidden.filtered);
        let filtered = filtered.rev().find(|(filtered, ..)| *filtered == hash);
        let mut log = ChangeLog::new();
        let since = match filtered {
            Some((_, whole, range)) => {
                log.push(vec![TextEdit::insert(range.start, &whole[range.clone()])]);
                whole
            }
            None => since,
        };
        let known = self.editor.changes(path, since)?;
        known.steps().iter().for_each(|step| log.push(step.clone()));
        if let Some(hidden) = hidden
            && let Some(range) = locate(&self.editor.document(path)?.text, &hidden)
        {
            log.push(vec![TextEdit::replace(range, "")]);
        }
        (known.is_complete() && log.is_complete()).then_some(log)
    }

    fn change_counter(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.editor.change_counter()
    }

    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async move {
            let removals: Vec<Option<(FileChange, Hidden)>> =
                changes.iter().map(|change| self.with_removal(change)).collect();
            let to_send = |(change, removal): (&FileChange, &Option<(FileChange, Hidden)>)| {
                removal.as_ref().map_or_else(|| change.clone(), |(change, _)| change.clone())
            };
            let whole: Vec<FileChange> = changes.iter().zip(&removals).map(to_send).collect();
            let outcomes = self.editor.apply(run, &whole).await;
            let mut state = self.lock();
            for (removal, outcome) in removals.into_iter().zip(&outcomes) {
                if let (Some((change, hidden)), ApplyOutcome::Applied) = (removal, outcome) {
                    state.hidden.retain(|other| other.id != hidden.id);
                    state.sent.insert(change.path.clone(), (change, hidden));
                }
            }
            outcomes
        })
    }

    fn revert<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async move {
            let removed: Vec<Option<(FileChange, Hidden)>> = {
                let mut state = self.lock();
                changes.iter().map(|change| state.sent.remove(&change.path)).collect()
            };
            let to_send = |(change, removed): (&FileChange, &Option<(FileChange, Hidden)>)| match removed {
                Some((sent, _)) if sent.after == change.after => sent.clone(),
                _ => change.clone(),
            };
            let whole: Vec<FileChange> = changes.iter().zip(&removed).map(to_send).collect();
            let outcomes = self.editor.revert(run, &whole).await;
            let reverted = removed.into_iter().zip(&outcomes);
            let reverted = reverted.filter(|(_, outcome)| **outcome == ApplyOutcome::Applied);
            self.lock().hidden.extend(reverted.filter_map(|(removal, _)| removal.map(|(_, hidden)| hidden)));
            outcomes
        })
    }
}

/// The range of the hidden lines with their line end.
fn locate(text: &str, hidden: &Hidden) -> Option<Range<usize>> {
    let range = find_whole_lines(text, &hidden.text, hidden.near)?;
    let rest = &text[range.end..];
    let line_end = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    Some(range.start..range.end + line_end)
}

/// Finds the whole lines `lines` in `text` nearest to `near`.
///
/// The range excludes the last line end.
pub fn find_whole_lines(text: &str, lines: &str, near: usize) -> Option<Range<usize>> {
    let whole = text.match_indices(lines).map(|(start, found)| start..start + found.len()).filter(|range| {
        let rest = &text[range.end..];
        let ends = rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n");
        ends && (range.start == 0 || text[..range.start].ends_with('\n'))
    });
    whole.min_by_key(|range| range.start.abs_diff(near))
}

/// Maps `edits` to the text with `range`, and adds its removal.
///
/// Edits that touch the place are joined with the removal, because they may belong on either side.
fn add_removal(edits: &[TextEdit], range: &Range<usize>) -> Vec<TextEdit> {
    let (at, length) = (range.start, range.len());
    let mut out: Vec<TextEdit> = Vec::with_capacity(edits.len() + 1);
    let mut removal = TextEdit { range: range.clone(), new_text: String::new() };
    let mut after = Vec::new();
    for edit in edits {
        if edit.range.end < at {
            out.push(edit.clone());
        } else if edit.range.start > at {
            let range = edit.range.start + length..edit.range.end + length;
            after.push(TextEdit { range, new_text: edit.new_text.clone() });
        } else {
            removal.range.start = removal.range.start.min(edit.range.start);
            removal.range.end = removal.range.end.max(edit.range.end + length);
            removal.new_text.push_str(&edit.new_text);
        }
    }
    out.push(removal);
    out.extend(after);
    out
}

/// Maps `edits` to the text without `range`, and drops its removal.
fn drop_removal(edits: &[TextEdit], range: &Range<usize>) -> Vec<TextEdit> {
    let length = range.len();
    let without = |edit: &TextEdit| {
        let moved = if edit.range.start >= range.end {
            edit.range.start - length..edit.range.end - length
        } else if edit.range.end >= range.end {
            edit.range.start..edit.range.end - length
        } else {
            edit.range.clone()
        };
        TextEdit { range: moved, new_text: edit.new_text.clone() }
    };
    let edits = edits.iter().map(without);
    edits.filter(|edit| !edit.range.is_empty() || !edit.new_text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use workspace::{Owner, Version};

    use super::*;

    /// An editor with one document, which applies edits or refuses them.
    struct OneDocument {
        text: Mutex<String>,
        applies: AtomicBool,
    }

    fn path() -> AbsPath {
        AbsPath::new("/w/a.py").unwrap()
    }

    impl OneDocument {
        fn set(&self, before: &str, edits: &[TextEdit]) -> ApplyOutcome {
            let mut text = self.text.lock();
            if !self.applies.load(Ordering::Relaxed) || *text != before {
                return ApplyOutcome::NotApplied { reason: None };
            }
            *text = text::apply(before, edits).unwrap();
            ApplyOutcome::Applied
        }
    }

    impl Editor for OneDocument {
        fn documents(&self) -> Vec<Document> {
            self.document(&path()).into_iter().collect()
        }

        fn document(&self, at: &AbsPath) -> Option<Document> {
            let text: Arc<str> = self.text.lock().as_str().into();
            let version = Version { hash: ContentHash::of(text.as_bytes()), editor: Some(1) };
            let owner = Owner::Editor { dirty: true };
            (*at == path()).then(|| Document {
                path: path(),
                uri: String::new(),
                text,
                bom: false,
                version,
                owner,
                blocked: None,
            })
        }

        fn apply<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
            let set = |change: &FileChange| self.set(change.before.as_deref().unwrap(), &change.edits);
            Box::pin(async move { changes.iter().map(set).collect() })
        }

        fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
            let set = |change: &FileChange| {
                let before = change.before.as_deref().unwrap();
                let inverse = text::invert(before, &change.edits).unwrap();
                self.set(change.after.as_deref().unwrap(), &inverse)
            };
            Box::pin(async move { changes.iter().map(set).collect() })
        }
    }

    fn with_hidden(text: &str, line: &str) -> (Arc<OneDocument>, RequestLineFilter, u64) {
        let editor =
            Arc::new(OneDocument { text: Mutex::new(text.to_owned()), applies: AtomicBool::new(true) });
        let filter = RequestLineFilter::new(editor.clone());
        let id = filter.hide(&path(), line, text.find(line).unwrap());
        (editor, filter, id)
    }

    fn change(before: &str, edits: &[(Range<usize>, &str)]) -> FileChange {
        let edits: Vec<TextEdit> = edits
            .iter()
            .map(|(range, text)| TextEdit { range: range.clone(), new_text: (*text).to_owned() })
            .collect();
        let after = text::apply(before, &edits).unwrap();
        let (before, after) = (Some(before.into()), Some(after.into()));
        FileChange { path: path(), kind: ChangeKind::Modified, before, after, edits, overwritten: None }
    }

    #[tokio::test]
    async fn the_first_change_removes_the_hidden_line() {
        let (editor, filter, id) = with_hidden("one\n# ¶ go\ntwo\n", "# ¶ go");
        let document = filter.document(&path()).unwrap();
        assert_eq!((&*document.text, document.version.hash), ("one\ntwo\n", ContentHash::of(b"one\ntwo\n")));
        // The edits are before, at and after the place of the line.
        let change = change("one\ntwo\n", &[(0..3, "uno"), (4..4, "new\n"), (4..7, "dos")]);
        assert_eq!(filter.apply(&RunId::new(), std::slice::from_ref(&change)).await, [ApplyOutcome::Applied]);
        assert_eq!(*editor.text.lock(), "uno\nnew\ndos\n");
        assert_eq!(&*filter.document(&path()).unwrap().text, "uno\nnew\ndos\n");
        // A revert restores the line, still hidden.
        assert_eq!(filter.revert(&RunId::new(), &[change]).await, [ApplyOutcome::Applied]);
        assert_eq!(*editor.text.lock(), "one\n# ¶ go\ntwo\n");
        assert_eq!(&*filter.document(&path()).unwrap().text, "one\ntwo\n");
        assert!(filter.unhide(id));
        assert_eq!(&*filter.document(&path()).unwrap().text, "one\n# ¶ go\ntwo\n");
    }

    #[tokio::test]
    async fn a_failed_change_leaves_the_hidden_line() {
        let (editor, filter, id) = with_hidden("# ¶ go\r\none\r\n", "# ¶ go");
        editor.applies.store(false, Ordering::Relaxed);
        let outcomes = filter.apply(&RunId::new(), &[change("one\r\n", &[(0..3, "uno")])]).await;
        assert_eq!(outcomes, [ApplyOutcome::NotApplied { reason: None }]);
        assert_eq!(&*filter.document(&path()).unwrap().text, "one\r\n");
        assert!(filter.unhide(id));
    }

    #[tokio::test]
    async fn a_line_that_the_user_changed_is_shown() {
        let (editor, filter, id) = with_hidden("# ¶ go\none\n", "# ¶ go");
        *editor.text.lock() = "# ¶ go on\none\n".to_owned();
        assert_eq!(&*filter.document(&path()).unwrap().text, "# ¶ go on\none\n");
        assert_eq!(
            filter.apply(&RunId::new(), &[change("# ¶ go on\none\n", &[(11..14, "uno")])]).await,
            [ApplyOutcome::Applied]
        );
        assert_eq!(*editor.text.lock(), "# ¶ go on\nuno\n");
        assert!(filter.unhide(id));
        assert!(!filter.unhide(id));
    }

    #[test]
    fn the_nearest_of_equal_lines_is_hidden() {
        let text = "# ¶ go\na\n# ¶ go\nb\n# ¶ go";
        let hidden =
            |near| Hidden {
                id: 1, path: path(), text: "# ¶ go".to_owned(), near, filtered: VecDeque::new()
            };
        let starts = [0, 9, 21].map(|near| locate(text, &hidden(near)).unwrap());
        assert_eq!(starts, [0..8, 10..18, 20..27]);
        assert_eq!(locate("x # ¶ go\n# ¶ go!\n", &hidden(0)), None);
    }

    #[test]
    fn line_numbers_map_to_the_editor() {
        let (_, filter, id) = with_hidden("one\n# ¶ go\n# on\ntwo\nthree\n", "# ¶ go\n# on");
        assert_eq!([0, 1, 2].map(|line| filter.editor_line(&path(), line)), [0, 3, 4]);
        assert!(filter.unhide(id));
        assert_eq!(filter.editor_line(&path(), 1), 1);
        let (_, filter, _) = with_hidden("one\n# ¶ go", "# ¶ go");
        assert_eq!(filter.editor_line(&path(), 0), 0);
    }

    #[test]
    fn edits_around_the_hidden_line_keep_their_places() {
        for (edits, expected) in [
            (vec![(0..1, "A")], "A bXY"),
            (vec![(3..4, "Z")], "a bZY"),
            (vec![(2..4, "Z")], "a ZY"),
            (vec![(0..5, "")], ""),
            (vec![], "a bXY"),
        ] {
            let change = change("a bXY", &edits);
            // The hidden line `---` is between `b` and `X`.
            let whole = text::apply("a b---XY", &add_removal(&change.edits, &(3..6))).unwrap();
            assert_eq!(whole, expected);
            assert_eq!(whole, *change.after.unwrap());
            let back = drop_removal(&add_removal(&change.edits, &(3..6)), &(3..6));
            assert_eq!(text::apply("a bXY", &back).unwrap(), expected);
        }
    }
}
