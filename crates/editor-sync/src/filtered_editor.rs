//! The editor without the `¶` lines that are being carried out: what a run sees and plans on, while
//! the lines still stand in the editor. With the first change of such a document the line goes out,
//! in the same edit.
//!
//! What must stay true: a line is hidden only as long as it stands there exactly as it was; all that
//! is said about a document (text, hash) is about the text without it; what goes to the editor is
//! about the text with it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use paths::AbsPath;
use text::{ChangeLog, LineIndex, TextEdit};
use workspace::{ChangeKind, ContentHash, Document, Editor, FileChange, RunId, Settled};

/// An editor seen through the veil.
pub struct Veil {
    editor: Arc<dyn Editor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    hidden: Vec<Hidden>,
    /// Changes as they went to the editor, for the way back.
    sent: BTreeMap<AbsPath, (FileChange, Hidden)>,
}

#[derive(Debug, Clone)]
struct Hidden {
    id: u64,
    path: AbsPath,
    /// Whole lines without the last line end.
    text: String,
    /// Where it was; of several that are equal the nearest is meant.
    near: usize,
    /// Texts that were shown without it, newest last: the whole, and where it was there.
    shown: VecDeque<(ContentHash, Arc<str>, Range<usize>)>,
}

/// So many texts that were shown can still be planned on.
const MAX_SHOWN: usize = 32;

impl Veil {
    /// `editor`, with nothing hidden yet.
    pub fn new(editor: Arc<dyn Editor>) -> Self {
        Self { editor, state: Mutex::default() }
    }

    /// Hides the whole lines `text`, which stand at byte `near` of the document. The answer takes the
    /// veil away again.
    pub fn hide(&self, path: &AbsPath, text: &str, near: usize) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let id = state.next;
        state.hidden.push(Hidden {
            id,
            path: path.clone(),
            text: text.to_owned(),
            near,
            shown: VecDeque::new(),
        });
        id
    }

    /// Shows the line again. Whether it was still hidden: no edit took it out.
    pub fn lift(&self, id: u64) -> bool {
        let mut state = self.lock();
        let before = state.hidden.len();
        state.hidden.retain(|hidden| hidden.id != id);
        state.sent.retain(|_, (_, hidden)| hidden.id != id);
        state.hidden.len() < before
    }

    /// Where byte `offset` of the editor's text is in the text that runs see.
    pub fn seen(&self, path: &AbsPath, text: &str, offset: usize) -> usize {
        match self.hidden(path).and_then(|hidden| locate(text, &hidden)) {
            Some(range) if offset >= range.end => offset - range.len(),
            Some(range) if offset > range.start => range.start,
            _ => offset,
        }
    }

    /// Where a line of the text that runs see, from 0, is in the editor's text.
    pub fn line_in_editor(&self, path: &AbsPath, line: usize) -> usize {
        let standing = || {
            let text = self.editor.document(path)?.text;
            let range = locate(&text, &self.hidden(path)?)?;
            let lines = LineIndex::new(&text);
            Some(lines.line_of(range.start)..lines.line_of(range.end))
        };
        standing().map_or(line, |hidden| if line >= hidden.start { line + hidden.len() } else { line })
    }

    /// The text that runs see where the editor's is `text`.
    pub fn seen_text(&self, path: &AbsPath, text: &str) -> String {
        let mut seen = text.to_owned();
        if let Some(range) = self.hidden(path).and_then(|hidden| locate(text, &hidden)) {
            seen.replace_range(range, "");
        }
        seen
    }

    /// One line at a time is hidden in a document; a second waits for the first.
    fn hidden(&self, path: &AbsPath) -> Option<Hidden> {
        self.lock().hidden.iter().find(|hidden| hidden.path == *path).cloned()
    }

    fn without(&self, mut document: Document) -> Document {
        let mut state = self.lock();
        let hidden = state.hidden.iter_mut().find(|hidden| hidden.path == document.path);
        let Some(hidden) = hidden else { return document };
        let Some(range) = locate(&document.text, hidden) else { return document };
        let mut text = document.text.to_string();
        text.replace_range(range.clone(), "");
        let shown = ContentHash::of(text.as_bytes());
        if hidden.shown.back().is_none_or(|(last, ..)| *last != shown) {
            hidden.shown.push_back((shown, Arc::clone(&document.text), range));
            if hidden.shown.len() > MAX_SHOWN {
                hidden.shown.pop_front();
            }
        }
        document.version.hash =
            if document.bom { ContentHash::of(&[b"\xef\xbb\xbf", text.as_bytes()].concat()) } else { shown };
        document.text = text.into();
        document
    }

    /// The change as the editor needs it, and the line that goes out with it.
    fn with(&self, change: &FileChange) -> Option<(FileChange, Hidden)> {
        let path = if let ChangeKind::Renamed { from } = &change.kind { from } else { &change.path };
        let hidden = self.hidden(path)?;
        let whole = self.editor.document(path)?;
        let range = locate(&whole.text, &hidden)?;
        let mut seen = whole.text.to_string();
        seen.replace_range(range.clone(), "");
        // Something else than was planned on: the editor's own check says so.
        if change.before.as_deref() != Some(seen.as_str()) {
            return None;
        }
        let edits = match change.kind {
            ChangeKind::Created | ChangeKind::Deleted => change.edits.clone(),
            ChangeKind::Modified | ChangeKind::Renamed { .. } => merged(&change.edits, &range),
        };
        Some((FileChange { before: Some(whole.text), edits, ..change.clone() }, hidden))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        // Every change is a single push, insert or retain.
        self.state.lock()
    }
}

impl Editor for Veil {
    fn documents(&self) -> Vec<Document> {
        self.editor.documents().into_iter().map(|document| self.without(document)).collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        Some(self.without(self.editor.document(path)?))
    }

    fn rebase(&self, change: &FileChange) -> Option<Vec<TextEdit>> {
        let Some(hidden) = self.hidden(&change.path) else { return self.editor.rebase(change) };
        let before = ContentHash::of(change.before.as_deref()?.as_bytes());
        let Some((_, whole, range)) = hidden.shown.iter().rev().find(|(shown, ..)| *shown == before) else {
            // Planned before it was hidden; it may stand.
            return self.editor.rebase(change);
        };
        let edits = merged(&change.edits, range);
        let change = FileChange { before: Some(Arc::clone(whole)), edits, ..change.clone() };
        let edits = self.editor.rebase(&change)?;
        let now = self.editor.document(&change.path)?;
        Some(apart(&edits, &locate(&now.text, &hidden)?))
    }

    fn changes(&self, path: &AbsPath, since: &str) -> Option<ChangeLog> {
        let (hidden, gone) = {
            let state = self.lock();
            let hidden = state.hidden.iter().find(|hidden| hidden.path == *path).cloned();
            // It went out with an edit; what was shown before was shown without it.
            (hidden, state.sent.get(path).map(|(_, hidden)| hidden.clone()))
        };
        let shown_as = ContentHash::of(since.as_bytes());
        let shown = [&hidden, &gone].into_iter().flatten().flat_map(|hidden| &hidden.shown);
        let shown = shown.rev().find(|(shown, ..)| *shown == shown_as);
        let mut log = ChangeLog::new();
        let since = match shown {
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

    fn moves(&self) -> Option<tokio::sync::watch::Receiver<u64>> {
        self.editor.moves()
    }

    fn apply<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async move {
            let with: Vec<Option<(FileChange, Hidden)>> =
                changes.iter().map(|change| self.with(change)).collect();
            let sent = |(change, with): (&FileChange, &Option<(FileChange, Hidden)>)| {
                with.as_ref().map_or_else(|| change.clone(), |(change, _)| change.clone())
            };
            let whole: Vec<FileChange> = changes.iter().zip(&with).map(sent).collect();
            let settled = self.editor.apply(run, &whole).await;
            let mut state = self.lock();
            for ((change, hidden), settled) in
                with.into_iter().zip(&settled).filter_map(|(it, s)| Some((it?, s)))
            {
                if *settled == Settled::Landed {
                    state.hidden.retain(|other| other.id != hidden.id);
                    state.sent.insert(change.path.clone(), (change, hidden));
                }
            }
            settled
        })
    }

    fn revert<'a>(&'a self, run: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async move {
            let taken: Vec<Option<(FileChange, Hidden)>> = {
                let mut state = self.lock();
                changes.iter().map(|change| state.sent.remove(&change.path)).collect()
            };
            let sent = |(change, taken): (&FileChange, &Option<(FileChange, Hidden)>)| match taken {
                Some((sent, _)) if sent.after == change.after => sent.clone(),
                _ => change.clone(),
            };
            let whole: Vec<FileChange> = changes.iter().zip(&taken).map(sent).collect();
            let settled = self.editor.revert(run, &whole).await;
            let back = taken.into_iter().zip(&settled).filter(|(_, settled)| **settled == Settled::Landed);
            self.lock().hidden.extend(back.filter_map(|(taken, _)| taken.map(|(_, hidden)| hidden)));
            settled
        })
    }
}

/// The bytes of the hidden lines with their line end.
fn locate(text: &str, hidden: &Hidden) -> Option<Range<usize>> {
    let range = standing(text, &hidden.text, hidden.near)?;
    let rest = &text[range.end..];
    let line_end = if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    Some(range.start..range.end + line_end)
}

/// Where the whole lines `lines` stand in `text`, without their line end; of several places the one
/// nearest to `near`.
pub fn standing(text: &str, lines: &str, near: usize) -> Option<Range<usize>> {
    let whole = text.match_indices(lines).map(|(start, found)| start..start + found.len()).filter(|range| {
        let rest = &text[range.end..];
        let ends = rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n");
        ends && (range.start == 0 || text[..range.start].ends_with('\n'))
    });
    whole.min_by_key(|range| range.start.abs_diff(near))
}

/// `edits` of the text without `range`, made for the text with it, and its removal. Edits that touch
/// the place become one with the removal, since it cannot be told on which side of it they are.
fn merged(edits: &[TextEdit], range: &Range<usize>) -> Vec<TextEdit> {
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

/// The way back from [`merged`]: `edits`, of which one removes `range`, for the text without it.
fn apart(edits: &[TextEdit], range: &Range<usize>) -> Vec<TextEdit> {
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

    /// An editor with one document, which does what it is told, or not.
    struct OneDocument {
        text: Mutex<String>,
        obeys: AtomicBool,
    }

    fn path() -> AbsPath {
        AbsPath::new("/w/a.py").unwrap()
    }

    impl OneDocument {
        fn set(&self, before: &str, edits: &[TextEdit]) -> Settled {
            let mut text = self.text.lock();
            if !self.obeys.load(Ordering::Relaxed) || *text != before {
                return Settled::Absent { reason: None };
            }
            *text = text::apply(before, edits).unwrap();
            Settled::Landed
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
                held: None,
            })
        }

        fn apply<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
            let set = |change: &FileChange| self.set(change.before.as_deref().unwrap(), &change.edits);
            Box::pin(async move { changes.iter().map(set).collect() })
        }

        fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
            let set = |change: &FileChange| {
                let before = change.before.as_deref().unwrap();
                let inverse = text::invert(before, &change.edits).unwrap();
                self.set(change.after.as_deref().unwrap(), &inverse)
            };
            Box::pin(async move { changes.iter().map(set).collect() })
        }
    }

    fn veil(text: &str, line: &str) -> (Arc<OneDocument>, Veil, u64) {
        let editor =
            Arc::new(OneDocument { text: Mutex::new(text.to_owned()), obeys: AtomicBool::new(true) });
        let veil = Veil::new(editor.clone());
        let id = veil.hide(&path(), line, text.find(line).unwrap());
        (editor, veil, id)
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
    async fn the_line_is_not_seen_and_goes_out_with_the_first_change() {
        let (editor, veil, id) = veil("one\n# ¶ go\ntwo\n", "# ¶ go");
        let seen = veil.document(&path()).unwrap();
        assert_eq!((&*seen.text, seen.version.hash), ("one\ntwo\n", ContentHash::of(b"one\ntwo\n")));
        // Before, at and after the place of the line.
        let change = change("one\ntwo\n", &[(0..3, "uno"), (4..4, "new\n"), (4..7, "dos")]);
        assert_eq!(veil.apply(&RunId::new(), std::slice::from_ref(&change)).await, [Settled::Landed]);
        assert_eq!(*editor.text.lock(), "uno\nnew\ndos\n");
        assert_eq!(&*veil.document(&path()).unwrap().text, "uno\nnew\ndos\n");
        // The way back brings the line, too, still hidden.
        assert_eq!(veil.revert(&RunId::new(), &[change]).await, [Settled::Landed]);
        assert_eq!(*editor.text.lock(), "one\n# ¶ go\ntwo\n");
        assert_eq!(&*veil.document(&path()).unwrap().text, "one\ntwo\n");
        assert!(veil.lift(id));
        assert_eq!(&*veil.document(&path()).unwrap().text, "one\n# ¶ go\ntwo\n");
    }

    #[tokio::test]
    async fn a_change_that_does_not_land_leaves_the_line() {
        let (editor, veil, id) = veil("# ¶ go\r\none\r\n", "# ¶ go");
        editor.obeys.store(false, Ordering::Relaxed);
        let settled = veil.apply(&RunId::new(), &[change("one\r\n", &[(0..3, "uno")])]).await;
        assert_eq!(settled, [Settled::Absent { reason: None }]);
        assert_eq!(&*veil.document(&path()).unwrap().text, "one\r\n");
        assert!(veil.lift(id));
    }

    #[tokio::test]
    async fn a_line_that_the_person_changed_is_theirs() {
        let (editor, veil, id) = veil("# ¶ go\none\n", "# ¶ go");
        *editor.text.lock() = "# ¶ go on\none\n".to_owned();
        assert_eq!(&*veil.document(&path()).unwrap().text, "# ¶ go on\none\n");
        assert_eq!(
            veil.apply(&RunId::new(), &[change("# ¶ go on\none\n", &[(11..14, "uno")])]).await,
            [Settled::Landed]
        );
        assert_eq!(*editor.text.lock(), "# ¶ go on\nuno\n");
        assert!(veil.lift(id));
        assert!(!veil.lift(id));
    }

    #[test]
    fn of_equal_lines_the_one_that_was_run_is_hidden() {
        let text = "# ¶ go\na\n# ¶ go\nb\n# ¶ go";
        let hidden =
            |near| Hidden { id: 1, path: path(), text: "# ¶ go".to_owned(), near, shown: VecDeque::new() };
        let starts = [0, 9, 21].map(|near| locate(text, &hidden(near)).unwrap());
        assert_eq!(starts, [0..8, 10..18, 20..27]);
        assert_eq!(locate("x # ¶ go\n# ¶ go!\n", &hidden(0)), None);
    }

    #[test]
    fn lines_are_found_where_the_person_has_them() {
        let (_, veil, id) = veil("one\n# ¶ go\n# on\ntwo\nthree\n", "# ¶ go\n# on");
        assert_eq!([0, 1, 2].map(|line| veil.line_in_editor(&path(), line)), [0, 3, 4]);
        assert!(veil.lift(id));
        assert_eq!(veil.line_in_editor(&path(), 1), 1);
        let (_, veil, _) = self::veil("one\n# ¶ go", "# ¶ go");
        assert_eq!(veil.line_in_editor(&path(), 0), 0);
    }

    #[test]
    fn edits_on_both_sides_keep_their_places() {
        for (edits, expected) in [
            (vec![(0..1, "A")], "A bXY"),
            (vec![(3..4, "Z")], "a bZY"),
            (vec![(2..4, "Z")], "a ZY"),
            (vec![(0..5, "")], ""),
            (vec![], "a bXY"),
        ] {
            let change = change("a bXY", &edits);
            // `---` stands between `b` and `X`.
            let whole = text::apply("a b---XY", &merged(&change.edits, &(3..6))).unwrap();
            assert_eq!(whole, expected);
            assert_eq!(whole, *change.after.unwrap());
            let back = apart(&merged(&change.edits, &(3..6)), &(3..6));
            assert_eq!(text::apply("a bXY", &back).unwrap(), expected);
        }
    }
}
