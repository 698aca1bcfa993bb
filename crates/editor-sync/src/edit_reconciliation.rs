//! Finds out whether an editor applied an edit, from the changes it reports.
//!
//! Pure: no clock, no connection.
//!
//! An editor applies our edit at one moment, so the edit is one unbroken run in the stream of changes,
//! with the user's changes before and after it. Its start is not known. The reconciler therefore reads
//! every change both ways: as the user's, through which it maps our edits, and as the start of ours
//! (an [`Attempt`]). An attempt that produces exactly the expected text at exactly the expected places
//! is applied, in however many pieces the editor reports it. The reconciler also recognizes an edit at
//! our literal positions in a text that changed before (misplaced), and an edit made only in part.
//!
//! Invariants: whole documents are never compared with the expected text; the reply `applied: true`
//! proves nothing; line ends are up to the editor.

use std::borrow::Cow;
use std::ops::Range;

use text::{LineEnds, LineIndex, PositionEncoding, TextEdit, map_range};

use crate::buffers::Step;
use crate::rebase::PositionedEdit;

/// Maximum number of attempts to follow at one time.
///
/// Only typing at the places of our edits needs more.
const MAX_ATTEMPTS: usize = 64;
/// Maximum distance at which an insertion among equal characters is recognized.
const MAX_SLIDE: usize = 4096;

/// The editor's reply to `workspace/applyEdit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyKind {
    /// `applied: true`.
    Applied,
    /// `applied: false`, or an error.
    Refused,
    /// The editor has not replied.
    None,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditOutcome {
    /// The text has exactly our edits at their places.
    Applied {
        /// Edits that revert it, in the text as observed so far.
        inverse: Vec<TextEdit>,
    },
    /// The editor applied the edit at another place, over other text, or in part.
    Misplaced {
        /// Description of the wrong place or missing part, for the user.
        detail: String,
        /// Edits that revert it, in the text as observed so far.
        ///
        /// `None` if the user changed it since.
        inverse: Option<Vec<TextEdit>>,
    },
    NotApplied,
    /// The edit is not applied, and the user changed the text that it replaces.
    Conflict,
    Unknown,
}

/// Follows one document while an edit of it is in flight.
pub struct EditReconciler {
    text: String,
    encoding: PositionEncoding,
    ends: LineEnds,
    sent: Vec<PositionedEdit>,
    /// The edits not yet applied, in the current text.
    ///
    /// `None` once the user typed over them.
    pending: Option<Vec<Region>>,
    attempts: Vec<Attempt>,
    user_changes: Vec<UserChange>,
    /// Whether the text changed since the edit was made for it.
    text_changed: bool,
    ambiguous: bool,
    /// The inverse of the edit, once it is applied.
    applied: Option<Vec<TextEdit>>,
}

/// A range of the text with its old and its target content.
#[derive(Debug, Clone)]
struct Region {
    range: Range<usize>,
    old: String,
    target: String,
}

/// A hypothesis: our edit began with a certain change.
#[derive(Debug, Clone)]
struct Attempt {
    misplaced: bool,
    /// Whether a change touched another place, which ends the edit.
    ended: bool,
    /// Whether the user changed the text that the edit made.
    overtyped: bool,
    complete: bool,
    regions: Vec<Region>,
}

#[derive(Debug, Clone)]
struct UserChange {
    range: Option<Range<usize>>,
    old: String,
    new: String,
}

impl EditReconciler {
    /// Creates a reconciler of the edits `sent`, which were made for `text`.
    pub fn new(text: &str, ends: LineEnds, encoding: PositionEncoding, sent: Vec<PositionedEdit>) -> Self {
        let region = |positioned: &PositionedEdit| Region::new(text, &positioned.edit);
        Self {
            text: text.to_owned(),
            encoding,
            ends,
            pending: Some(sent.iter().map(region).collect()),
            sent,
            attempts: Vec::new(),
            user_changes: Vec::new(),
            text_changed: false,
            ambiguous: false,
            applied: None,
        }
    }

    /// The text after all observed changes.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Processes the next change.
    ///
    /// Ignores changes after the edit is applied, because the outcome describes the text at that
    /// moment.
    pub fn observe(&mut self, step: &Step) {
        if step.whole {
            self.observe_whole_text(&step.edits);
        } else {
            // The loop starts from the end, so that the ranges of earlier edits stay valid.
            for edit in step.edits.iter().rev() {
                self.observe_edit(edit);
            }
        }
    }

    /// Returns the outcome, as soon as no later change can alter it.
    pub(crate) fn final_outcome(&self, answer: ReplyKind) -> Option<EditOutcome> {
        if let Some(inverse) = &self.applied {
            return Some(EditOutcome::Applied { inverse: inverse.clone() });
        }
        let misplaced = self.attempts.iter().find(|attempt| attempt.misplaced && attempt.complete);
        misplaced.filter(|_| answer != ReplyKind::None).map(|attempt| self.misplaced(attempt))
    }

    /// Returns the outcome when no more changes are expected.
    pub fn decide(&self, answer: ReplyKind) -> EditOutcome {
        if let Some(outcome) = self.final_outcome(answer) {
            return outcome;
        }
        let whole = self.attempts.iter().find(|attempt| attempt.complete);
        let partial = self.attempts.iter().find(|attempt| {
            attempt.is_partial(&self.text) && (!attempt.misplaced || answer == ReplyKind::Applied)
        });
        match (whole, partial) {
            (Some(attempt), _) => return self.misplaced(attempt),
            (None, Some(attempt)) if attempt.is_significant(&self.text) => return self.misplaced(attempt),
            // The user may have typed a single character.
            (None, Some(_)) => return EditOutcome::Unknown,
            (None, None) => {}
        }
        if self.ambiguous && answer != ReplyKind::Refused {
            return EditOutcome::Unknown;
        }
        if answer == ReplyKind::Applied
            && let Some(outcome) = self.unexplained_match()
        {
            return outcome;
        }
        match (answer, &self.pending) {
            (ReplyKind::None, _) => EditOutcome::Unknown,
            (_, None) => EditOutcome::Conflict,
            (_, Some(_)) => EditOutcome::NotApplied,
        }
    }

    fn observe_edit(&mut self, change: &TextEdit) {
        if self.applied.is_some() || self.text[change.range.clone()] == change.new_text {
            return;
        }
        let mut begun = Vec::new();
        if let Some(pending) = &self.pending {
            begun.push(Attempt::new(false, with_slack(&self.text, pending)));
        }
        if self.text_changed
            && let Some(literal) = self.literal()
        {
            begun.push(Attempt::new(true, literal));
        }
        begun.retain(|attempt| attempt.regions.iter().any(|region| region.touches(&change.range)));
        self.attempts.extend(begun);
        self.attempts.truncate(MAX_ATTEMPTS);

        for attempt in &mut self.attempts {
            attempt.advance(&self.text, change);
        }
        let old = self.text[change.range.clone()].to_owned();
        self.text.replace_range(change.range.clone(), &change.new_text);
        for attempt in &mut self.attempts {
            let done = |region: &Region| region.has_content(&self.text, &region.target);
            attempt.complete |= !attempt.ended && attempt.regions.iter().all(done);
            attempt.ended |= attempt.complete;
        }
        if let Some(attempt) = self.attempts.iter().find(|attempt| attempt.complete && !attempt.misplaced) {
            self.applied = Some(attempt.inverse(&self.text));
            return;
        }
        let text = &self.text;
        self.attempts.retain(|attempt| !attempt.ended || attempt.complete || attempt.is_partial(text));
        self.record_user_change(change, old);
    }

    fn record_user_change(&mut self, change: &TextEdit, old: String) {
        let step = std::slice::from_ref(change);
        self.pending = self.pending.take().and_then(|pending| {
            pending
                .into_iter()
                .map(|region| Some(Region { range: map_range(region.range, step)?, ..region }))
                .collect()
        });
        for user in &mut self.user_changes {
            user.range = user.range.take().and_then(|range| map_range(range, step));
        }
        let start = change.range.start;
        let range = Some(start..start + change.new_text.len());
        self.user_changes.push(UserChange { range, old, new: change.new_text.clone() });
        self.text_changed = true;
    }

    /// Observes a whole-text change, from which `edits` are guessed.
    ///
    /// Reads it both ways, with our edit and without.
    fn observe_whole_text(&mut self, edits: &[TextEdit]) {
        if self.applied.is_some() {
            return;
        }
        let Ok(whole) = text::apply(&self.text, edits) else { return };
        self.attempts.clear();
        if equal_text(&whole, &self.text) {
            // Nothing happened, or the user reverted our edit.
            self.ambiguous = true;
            self.text = whole;
            return;
        }
        let Some(pending) = self.pending.take() else {
            self.text = whole;
            return;
        };
        let making: Vec<TextEdit> =
            pending.iter().map(|region| TextEdit::replace(region.range.clone(), &region.target)).collect();
        let made = text::apply(&self.text, &making).unwrap_or_default();
        let back = text::invert(&self.text, &making).unwrap_or_default();
        let since = text::diff_edits(&made, &whole);
        let places: Vec<Range<usize>> = back.iter().map(|edit| edit.range.clone()).collect();
        let is_applied = equal_text(&made, &whole) || !places.iter().any(|place| is_disturbed(place, &since));
        let is_absent = !pending.iter().any(|region| is_disturbed(&region.range, edits));
        if is_applied && (!is_absent || equal_text(&made, &whole)) {
            let moved = back
                .into_iter()
                .map(|edit| Some(TextEdit::replace(map_range(edit.range, &since)?, edit.new_text)));
            self.applied = Some(moved.collect::<Option<Vec<_>>>().unwrap_or_default());
            self.text = whole;
        } else if is_absent && !is_applied {
            self.pending = Some(pending);
            let (mut shift, old) = (0isize, self.text.clone());
            for edit in edits {
                let start = edit.range.start.saturating_add_signed(shift);
                let now = TextEdit::replace(start..start + edit.range.len(), &edit.new_text);
                shift += edit.growth();
                self.text.replace_range(now.range.clone(), &now.new_text);
                self.record_user_change(&now, old[edit.range.clone()].to_owned());
            }
        } else {
            self.ambiguous = true;
            self.text = whole;
        }
    }

    /// Our positions as sent, in the current text.
    ///
    /// An editor that ignores versions applies the edit there.
    ///
    /// `None` if they are the right places.
    fn literal(&self) -> Option<Vec<Region>> {
        let lines = LineIndex::with_ends(&self.text, self.ends);
        let place = |position: text::Position| {
            if position.line as usize >= lines.line_count() {
                return Some(self.text.len());
            }
            // A position inside a character counts as before it.
            let before = |back: u32| {
                let character = position.character.saturating_sub(back);
                lines.offset(&self.text, text::Position { character, ..position }, self.encoding)
            };
            (0..4).find_map(before)
        };
        let mut regions = Vec::with_capacity(self.sent.len());
        for positioned in &self.sent {
            let (start, end) = (place(positioned.start)?, place(positioned.end)?);
            let end = end.max(start);
            regions.push(Region::new(&self.text, &TextEdit::replace(start..end, &positioned.edit.new_text)));
        }
        let right = self.pending.as_ref().is_some_and(|pending| {
            pending.len() == regions.len() && pending.iter().zip(&regions).all(|(a, b)| a.range == b.range)
        });
        (!right).then_some(regions)
    }

    /// Our new text in a user change, which nothing else explains.
    fn unexplained_match(&self) -> Option<EditOutcome> {
        let is_significant = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count() >= 2;
        let mut back = Vec::new();
        let mut free: Vec<&UserChange> = self.user_changes.iter().collect();
        for positioned in &self.sent {
            let new = &positioned.edit.new_text;
            let Some(at) = free.iter().position(|user| is_significant(new) && equal_text(&user.new, new))
            else {
                continue;
            };
            back.push(free.remove(at));
        }
        if !back.is_empty() {
            let mut inverse: Option<Vec<TextEdit>> =
                back.iter().map(|user| Some(TextEdit::replace(user.range.clone()?, &user.old))).collect();
            if let Some(inverse) = &mut inverse {
                inverse.sort_by_key(|edit| edit.range.start);
            }
            return Some(EditOutcome::Misplaced {
                detail: "the editor applied it at another place".to_owned(),
                inverse,
            });
        }
        // Our edit or the user may have removed a line at another place.
        let lines = |text: &str| text.matches('\n').count();
        let gone = |positioned: &PositionedEdit| {
            let old = positioned.edit.range.len();
            positioned.edit.new_text.is_empty()
                && self.user_changes.iter().any(|user| {
                    user.new.is_empty()
                        && user.old.len() > 1
                        && (user.old.len() == old || lines(&user.old) > 0)
                })
        };
        self.sent.iter().any(gone).then_some(EditOutcome::Unknown)
    }

    fn misplaced(&self, attempt: &Attempt) -> EditOutcome {
        let detail = match (attempt.misplaced, attempt.complete) {
            (false, _) => "the editor applied only a part of it",
            (true, true) => "the editor applied it at the line numbers of an older text",
            (true, false) => "the editor applied a part of it at the line numbers of an older text",
        };
        let inverse = (!attempt.overtyped).then(|| attempt.inverse(&self.text));
        EditOutcome::Misplaced { detail: detail.to_owned(), inverse }
    }
}

impl Region {
    fn new(text: &str, edit: &TextEdit) -> Self {
        let old = text[edit.range.clone()].to_owned();
        Self { range: edit.range.clone(), old, target: edit.new_text.clone() }
    }

    fn touches(&self, range: &Range<usize>) -> bool {
        range.start <= self.range.end && self.range.start <= range.end
    }

    fn has_content(&self, text: &str, content: &str) -> bool {
        text.get(self.range.clone()).is_some_and(|now| equal_text(now, content))
    }

    /// Extends the region over unchanged text around it.
    fn grow(&mut self, text: &str, to: Range<usize>) {
        let (before, after) = (&text[to.start..self.range.start], &text[self.range.end..to.end]);
        self.old = format!("{before}{}{after}", self.old);
        self.target = format!("{before}{}{after}", self.target);
        self.range = to;
    }

    /// Joins the next region and the text in between.
    fn join(&mut self, text: &str, next: Self) {
        let between = &text[self.range.end..next.range.start];
        self.old = format!("{}{between}{}", self.old, next.old);
        self.target = format!("{}{between}{}", self.target, next.target);
        self.range.end = next.range.end;
    }
}

impl Attempt {
    fn new(misplaced: bool, regions: Vec<Region>) -> Self {
        Self { misplaced, ended: false, overtyped: false, complete: false, regions }
    }

    /// Follows a change of `text`, which is the text before the change.
    fn advance(&mut self, text: &str, change: &TextEdit) {
        let touched = |region: &Region| region.touches(&change.range);
        let first = self.regions.iter().position(touched);
        let (Some(first), false) = (first, self.ended) else {
            self.ended = true;
            for region in &mut self.regions {
                match map_range(region.range.clone(), std::slice::from_ref(change)) {
                    Some(range) => region.range = range,
                    None => {
                        self.overtyped = true;
                        region.range.start = region.range.start.min(change.range.start);
                        let end = region.range.end.max(change.range.end);
                        region.range.end = end.saturating_add_signed(change.growth());
                    }
                }
            }
            return;
        };
        let last = self.regions.iter().rposition(touched).unwrap_or(first);
        let mut whole = self.regions[first].clone();
        for next in self.regions.drain(first + 1..=last) {
            whole.join(text, next);
        }
        let to = whole.range.start.min(change.range.start)..whole.range.end.max(change.range.end);
        whole.grow(text, to);
        whole.range.end = whole.range.end.saturating_add_signed(change.growth());
        self.regions[first] = whole;
        for region in &mut self.regions[first + 1..] {
            region.range.start = region.range.start.saturating_add_signed(change.growth());
            region.range.end = region.range.end.saturating_add_signed(change.growth());
        }
    }

    /// Whether some regions have their target content and all others their old one.
    fn is_partial(&self, text: &str) -> bool {
        let made = |region: &Region| {
            region.has_content(text, &region.target) && !equal_text(&region.old, &region.target)
        };
        let left = |region: &Region| region.has_content(text, &region.old);
        !self.complete
            && self.regions.iter().any(made)
            && self.regions.iter().all(|region| made(region) || left(region))
    }

    /// Whether it changed more than one keystroke does.
    fn is_significant(&self, text: &str) -> bool {
        let made = self.inverse(text);
        made.iter().map(|edit| edit.range.len().max(edit.new_text.len())).sum::<usize>() > 1
    }

    /// The edits that restore the old content.
    fn inverse(&self, text: &str) -> Vec<TextEdit> {
        let back = |region: &Region| {
            let now = text.get(region.range.clone())?;
            (now != region.old).then(|| minimal_edit(now, region))
        };
        self.regions.iter().filter_map(back).collect()
    }
}

/// The edit that restores a region, without the common prefix and suffix.
fn minimal_edit(now: &str, region: &Region) -> TextEdit {
    let edits = text::diff_edits(now, &region.old);
    let (Some(first), Some(last)) = (edits.first(), edits.last()) else {
        return TextEdit::replace(region.range.clone(), &region.old);
    };
    let (start, end) = (first.range.start, last.range.end);
    let tail = now.len() - end;
    let new_text = &region.old[start..region.old.len() - tail];
    TextEdit::replace(region.range.start + start..region.range.start + end, new_text)
}

/// The regions, extended over all places of an equivalent change.
///
/// An editor can report an `a` inserted among others at any of them.
fn with_slack(text: &str, pending: &[Region]) -> Vec<Region> {
    let mut out: Vec<Region> = Vec::with_capacity(pending.len());
    for (index, region) in pending.iter().enumerate() {
        let mut region = region.clone();
        let mut to = slide(text, &region);
        to.start = to.start.max(out.last().map_or(0, |last| last.range.end));
        to.end = to.end.min(pending.get(index + 1).map_or(text.len(), |next| next.range.start));
        region.grow(text, to);
        out.push(region);
    }
    out
}

/// The range in which a pure insertion or deletion gives the same result.
fn slide(text: &str, region: &Region) -> Range<usize> {
    let Range { start, end } = region.range;
    let moving = match (region.old.is_empty(), region.target.is_empty()) {
        (true, false) => &region.target,
        (false, true) => &region.old,
        _ => return start..end,
    };
    let cycle: Vec<char> = moving.chars().collect();
    let count = cycle.len();
    let mut lower = start;
    for (step, character) in text[..start].chars().rev().enumerate().take(MAX_SLIDE) {
        if character != cycle[(count - 1) - step % count] {
            break;
        }
        lower -= character.len_utf8();
    }
    let mut upper = end;
    for (step, character) in text[end..].chars().enumerate().take(MAX_SLIDE) {
        if character != cycle[step % count] {
            break;
        }
        upper += character.len_utf8();
    }
    lower..upper
}

/// Whether the guessed `edits` touch a place.
///
/// An edit next to an empty place counts too.
fn is_disturbed(place: &Range<usize>, edits: &[TextEdit]) -> bool {
    edits.iter().any(|edit| {
        let Range { start, end } = edit.range;
        if place.is_empty() {
            start <= place.end && place.start <= end
        } else if start == end {
            place.start < start && start < place.end
        } else {
            start < place.end && place.start < end
        }
    })
}

/// Whether the texts are equal except for line ends.
fn equal_text(a: &str, b: &str) -> bool {
    fn plain(text: &str) -> Cow<'_, str> {
        if text.contains('\r') {
            Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
        } else {
            Cow::Borrowed(text)
        }
    }
    a == b || plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebase;

    const UTF8: PositionEncoding = PositionEncoding::Utf8;

    struct Case {
        reconciler: EditReconciler,
    }

    fn case(text: &str, edits: &[TextEdit]) -> Case {
        let lines = LineIndex::new(text);
        let positioned = rebase::position_edits(text, &lines, UTF8, edits).unwrap();
        Case { reconciler: EditReconciler::new(text, LineEnds::Any, UTF8, positioned) }
    }

    impl Case {
        fn change(mut self, range: Range<usize>, new_text: &str) -> Self {
            let edits = vec![TextEdit::replace(range, new_text)];
            self.reconciler.observe(&Step { edits, whole: false });
            self
        }

        fn whole(mut self, text: &str) -> Self {
            let edits = text::diff_edits(&self.reconciler.text, text);
            self.reconciler.observe(&Step { edits, whole: true });
            self
        }

        #[track_caller]
        fn applied(&self, back: &str) {
            match self.reconciler.final_outcome(ReplyKind::None) {
                Some(EditOutcome::Applied { inverse }) => {
                    assert_eq!(text::apply(&self.reconciler.text, &inverse).unwrap(), back);
                }
                other => panic!("{other:?} in {:?}", self.reconciler.text),
            }
        }

        #[track_caller]
        fn misplaced(&self, answer: ReplyKind, expected: &str, back: Option<&str>) {
            match self.reconciler.decide(answer) {
                EditOutcome::Misplaced { detail, inverse } => {
                    assert!(detail.contains(expected), "{detail}");
                    let text = inverse.map(|edits| text::apply(&self.reconciler.text, &edits).unwrap());
                    assert_eq!(text.as_deref(), back);
                }
                other => panic!("{other:?} in {:?}", self.reconciler.text),
            }
        }

        #[track_caller]
        fn is(&self, answer: ReplyKind, outcome: &EditOutcome) {
            assert_eq!(self.reconciler.decide(answer), *outcome, "in {:?}", self.reconciler.text);
        }
    }

    const TEXT: &str = "one\nfoo two\nthree foo\n";

    fn rename() -> Vec<TextEdit> {
        vec![TextEdit::replace(4..7, "bar"), TextEdit::replace(18..21, "bar")]
    }

    #[test]
    fn an_edit_is_recognized_in_any_pieces() {
        let made = "one\nbar two\nthree bar\n";
        // VS Code and Neovim report the edits from the end to the start.
        case(TEXT, &rename()).change(18..21, "bar").change(4..7, "bar").applied(TEXT);
        // Others report pieces, whole lines, or one change for all edits.
        case(TEXT, &rename())
            .change(18..19, "b")
            .change(19..21, "ar")
            .change(4..5, "b")
            .change(5..7, "ar")
            .applied(TEXT);
        case(TEXT, &rename()).change(12..22, "three bar\n").change(4..12, "bar two\n").applied(TEXT);
        case(TEXT, &rename()).change(4..21, "bar two\nthree bar").applied(TEXT);
        case(TEXT, &rename()).change(0..TEXT.len(), made).applied(TEXT);
        case(TEXT, &rename()).whole(made).applied(TEXT);
        // The reply does not matter.
        let case = case(TEXT, &rename()).change(18..21, "bar").change(4..7, "bar");
        assert!(matches!(case.reconciler.decide(ReplyKind::Refused), EditOutcome::Applied { .. }));
    }

    #[test]
    fn an_edit_is_recognized_between_user_changes() {
        case(TEXT, &rename())
            .change(0..0, "# ")
            .change(23..23, "\n!")
            .change(20..23, "bar")
            .change(6..9, "bar")
            .applied("# one\nfoo two\nthree foo\n!\n");
        // Later changes are ignored.
        case(TEXT, &rename()).change(18..21, "bar").change(4..7, "bar").change(4..7, "").applied(TEXT);
        case(TEXT, &rename())
            .whole("zero\none\nbar two\nthree bar\n")
            .applied("zero\none\nfoo two\nthree foo\n");
    }

    #[test]
    fn an_insertion_among_equal_characters_is_recognized() {
        let insert = [TextEdit::insert(3, "a")];
        case("xaaay", &insert).change(1..1, "a").applied("xaaay");
        case("xaaay", &insert).change(4..4, "a").applied("xaaay");
        let lines = [TextEdit::insert(2, "b\n")];
        case("a\nb\nc\n", &lines).change(4..4, "b\n").applied("a\nb\nc\n");
        case("a\nb\nb\nc\n", &[TextEdit::replace(2..4, "")]).change(4..6, "").applied("a\nb\nb\nc\n");
    }

    #[test]
    fn line_ends_may_differ() {
        case("a\r\nb\r\n", &[TextEdit::insert(3, "x\ny\n")]).change(3..3, "x\r\ny\r\n").applied("a\r\nb\r\n");
        case("a\nb\n", &[TextEdit::insert(2, "x\r\n")]).change(2..2, "x\n").applied("a\nb\n");
    }

    #[test]
    fn an_edit_that_never_appears_is_not_applied() {
        case(TEXT, &rename()).is(ReplyKind::Applied, &EditOutcome::NotApplied);
        case(TEXT, &rename()).is(ReplyKind::Refused, &EditOutcome::NotApplied);
        case(TEXT, &rename()).is(ReplyKind::None, &EditOutcome::Unknown);
        case(TEXT, &rename())
            .change(0..0, "x")
            .change(9..9, "yes")
            .is(ReplyKind::Applied, &EditOutcome::NotApplied);
        case(TEXT, &rename()).change(5..5, "x").is(ReplyKind::Applied, &EditOutcome::Conflict);
        case(TEXT, &rename())
            .whole("zero\none\nfoo two\nthree foo\n")
            .is(ReplyKind::Applied, &EditOutcome::NotApplied);
    }

    #[test]
    fn an_edit_at_stale_line_numbers_is_misplaced() {
        // The user inserted a line above, and the editor applied the edit at the old line 1.
        let edit = [TextEdit::replace(4..7, "bar")];
        let typed = "new\none\nfoo two\nthree foo\n";
        case(TEXT, &edit).change(0..0, "new\n").change(4..7, "bar").misplaced(
            ReplyKind::Applied,
            "older text",
            Some(typed),
        );
        // The editor applies an edit past the end at the end.
        case("a\nb\nfoo\n", &[TextEdit::replace(4..7, "bar")])
            .change(0..4, "")
            .change(4..4, "bar")
            .misplaced(ReplyKind::Applied, "older text", Some("foo\n"));
        // The edit replaces other old text.
        case(TEXT, &edit).change(5..5, "X").change(4..7, "bar").misplaced(
            ReplyKind::Applied,
            "older text",
            Some("one\nfXoo two\nthree foo\n"),
        );
        // The user types next to the misplaced edit, then in it.
        let shifted = case(TEXT, &edit).change(0..0, "new\n").change(4..7, "bar").change(0..0, "1");
        shifted.misplaced(ReplyKind::Applied, "older text", Some("1new\none\nfoo two\nthree foo\n"));
        let overtyped = case(TEXT, &edit).change(0..0, "new\n").change(4..7, "bar").change(5..6, "");
        overtyped.misplaced(ReplyKind::Applied, "older text", None);
    }

    #[test]
    fn our_text_at_another_place_is_misplaced() {
        case(TEXT, &[TextEdit::replace(4..7, "bar")]).change(12..15, "bar").misplaced(
            ReplyKind::Applied,
            "another place",
            Some(TEXT),
        );
        // The editor refused it, so the user typed it.
        case(TEXT, &[TextEdit::replace(4..7, "bar")])
            .change(12..15, "bar")
            .is(ReplyKind::Refused, &EditOutcome::NotApplied);
        // Our edit or the user may have removed a line at another place.
        case("a\nb\nc\nd\n", &[TextEdit::replace(2..4, "")])
            .change(4..6, "")
            .is(ReplyKind::Applied, &EditOutcome::Unknown);
    }

    #[test]
    fn a_partial_edit_is_misplaced() {
        for answer in [ReplyKind::Applied, ReplyKind::Refused, ReplyKind::None] {
            case(TEXT, &rename()).change(4..7, "bar").misplaced(answer, "part", Some(TEXT));
        }
        case(TEXT, &rename()).change(18..21, "bar").change(0..0, "typed ").misplaced(
            ReplyKind::Applied,
            "part",
            Some(&format!("typed {TEXT}")),
        );
    }

    #[test]
    fn an_ambiguous_whole_text_is_unknown() {
        // The line was removed and typed again, or never removed.
        case("x\nfoo\nfoo\ny\n", &[TextEdit::replace(2..6, "")])
            .whole("x\nfoo\nfoo\ny\n")
            .is(ReplyKind::Applied, &EditOutcome::Unknown);
        // The new text is unrelated to the edit.
        case(TEXT, &rename()).whole("qux\n").is(ReplyKind::Applied, &EditOutcome::Unknown);
    }
}
