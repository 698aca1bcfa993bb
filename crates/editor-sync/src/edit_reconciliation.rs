//! What an editor did with an edit, found out from the changes it reported. Pure: changes go in one
//! by one, a verdict comes out; no clock, no connection.
//!
//! An editor makes our edit at one moment, so in the stream of changes it is one unbroken piece, with
//! the person's changes before and after it. Where it begins is not known. Hence every change is
//! taken both ways: as the person's, through which our edits are mapped, and as the beginning of
//! ours (an [`Attempt`]). An attempt that brings exactly the expected text to exactly the expected
//! places has landed, in however many pieces the editor reports it. Two more are watched for: our
//! positions taken literally in a text that was changed before (misplaced), and a part only.
//!
//! What must stay true: whole documents are never compared with what we expect, `applied: true` makes
//! nothing land, and line ends are the editor's business.

use std::borrow::Cow;
use std::ops::Range;

use text::{LineEnds, LineIndex, PositionEncoding, TextEdit, map_range};

use crate::buffers::Step;
use crate::rebase::Placed;

/// Attempts watched at one time; more are only needed by typing at our very places.
const MAX_ATTEMPTS: usize = 64;
/// How far an insertion among equal characters is looked for.
const MAX_SLIDE: usize = 4096;

/// What the editor answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// `applied: true`.
    Applied,
    /// `applied: false`, or an error.
    Refused,
    None,
}

/// What became of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Exactly our edits at their places.
    Landed {
        /// Takes them back, in the text as folded so far.
        inverse: Vec<TextEdit>,
    },
    /// At another place, over other text, or in part.
    Elsewhere {
        /// Which of these, for people.
        detail: String,
        /// Takes it back, in the text as folded so far; `None` when the person changed it since.
        inverse: Option<Vec<TextEdit>>,
    },
    Absent,
    /// Not at all, and what it was to replace was typed over.
    Conflict,
    Unknown,
}

/// One document while an edit of it is in flight.
pub struct Settling {
    text: String,
    encoding: PositionEncoding,
    ends: LineEnds,
    sent: Vec<Placed>,
    /// The edits not yet made, in the text as it is; `None` once they were typed over.
    ours: Option<Vec<Region>>,
    attempts: Vec<Attempt>,
    /// What was taken for the person's.
    seen: Vec<Seen>,
    /// Something was changed since the edit was made for the text.
    moved: bool,
    ambiguous: bool,
    landed: Option<Vec<TextEdit>>,
}

/// A piece of text that is to become another.
#[derive(Debug, Clone)]
struct Region {
    range: Range<usize>,
    old: String,
    target: String,
}

/// The guess that ours began with a certain change.
#[derive(Debug, Clone)]
struct Attempt {
    misplaced: bool,
    /// Ours ended: somebody changed another place.
    closed: bool,
    /// The person changed what it made.
    spoiled: bool,
    complete: bool,
    regions: Vec<Region>,
}

#[derive(Debug, Clone)]
struct Seen {
    range: Option<Range<usize>>,
    old: String,
    new: String,
}

impl Settling {
    /// `sent`, made for `text`, is on its way.
    pub fn new(text: &str, ends: LineEnds, encoding: PositionEncoding, sent: Vec<Placed>) -> Self {
        let region = |placed: &Placed| Region::new(text, &placed.edit);
        Self {
            text: text.to_owned(),
            encoding,
            ends,
            ours: Some(sent.iter().map(region).collect()),
            sent,
            attempts: Vec::new(),
            seen: Vec::new(),
            moved: false,
            ambiguous: false,
            landed: None,
        }
    }

    /// The text after everything folded so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Takes the next change. Once it is known that ours has landed nothing more may be folded, since
    /// the verdict speaks of that moment.
    pub fn fold(&mut self, step: &Step) {
        if step.whole {
            self.fold_whole(&step.edits);
        } else {
            // From the end, so that those before stay where they are said to be.
            for edit in step.edits.iter().rev() {
                self.fold_edit(edit);
            }
        }
    }

    /// The verdict, as soon as no later change can alter it.
    pub fn known(&self, answer: Answer) -> Option<Verdict> {
        if let Some(inverse) = &self.landed {
            return Some(Verdict::Landed { inverse: inverse.clone() });
        }
        let misplaced = self.attempts.iter().find(|attempt| attempt.misplaced && attempt.complete);
        misplaced.filter(|_| answer != Answer::None).map(|attempt| self.elsewhere(attempt))
    }

    /// The verdict when nothing more is waited for.
    pub fn decide(&self, answer: Answer) -> Verdict {
        if let Some(verdict) = self.known(answer) {
            return verdict;
        }
        let whole = self.attempts.iter().find(|attempt| attempt.complete);
        let partial = self.attempts.iter().find(|attempt| {
            attempt.is_partial(&self.text) && (!attempt.misplaced || answer == Answer::Applied)
        });
        match (whole, partial) {
            (Some(attempt), _) => return self.elsewhere(attempt),
            (None, Some(attempt)) if attempt.is_telling(&self.text) => return self.elsewhere(attempt),
            // A single character may as well be the person's.
            (None, Some(_)) => return Verdict::Unknown,
            (None, None) => {}
        }
        if self.ambiguous && answer != Answer::Refused {
            return Verdict::Unknown;
        }
        if answer == Answer::Applied
            && let Some(verdict) = self.alike()
        {
            return verdict;
        }
        match (answer, &self.ours) {
            (Answer::None, _) => Verdict::Unknown,
            (_, None) => Verdict::Conflict,
            (_, Some(_)) => Verdict::Absent,
        }
    }

    fn fold_edit(&mut self, change: &TextEdit) {
        if self.landed.is_some() || self.text[change.range.clone()] == change.new_text {
            return;
        }
        let mut begun = Vec::new();
        if let Some(ours) = &self.ours {
            begun.push(Attempt::new(false, loosened(&self.text, ours)));
        }
        if self.moved
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
            let done = |region: &Region| region.is(&self.text, &region.target);
            attempt.complete |= !attempt.closed && attempt.regions.iter().all(done);
            attempt.closed |= attempt.complete;
        }
        if let Some(attempt) = self.attempts.iter().find(|attempt| attempt.complete && !attempt.misplaced) {
            self.landed = Some(attempt.inverse(&self.text));
            return;
        }
        let text = &self.text;
        self.attempts.retain(|attempt| !attempt.closed || attempt.complete || attempt.is_partial(text));
        self.person_made(change, old);
    }

    fn person_made(&mut self, change: &TextEdit, old: String) {
        let step = std::slice::from_ref(change);
        self.ours = self.ours.take().and_then(|ours| {
            ours.into_iter()
                .map(|region| Some(Region { range: map_range(region.range, step)?, ..region }))
                .collect()
        });
        for seen in &mut self.seen {
            seen.range = seen.range.take().and_then(|range| map_range(range, step));
        }
        let start = change.range.start;
        let range = Some(start..start + change.new_text.len());
        self.seen.push(Seen { range, old, new: change.new_text.clone() });
        self.moved = true;
    }

    /// The client sent the whole text, from which `edits` are a guess: both readings are tried.
    fn fold_whole(&mut self, edits: &[TextEdit]) {
        if self.landed.is_some() {
            return;
        }
        let Ok(whole) = text::apply(&self.text, edits) else { return };
        self.attempts.clear();
        if same(&whole, &self.text) {
            // Nothing happened, or the person took back what we made.
            self.ambiguous = true;
            self.text = whole;
            return;
        }
        let Some(ours) = self.ours.take() else {
            self.text = whole;
            return;
        };
        let making: Vec<TextEdit> =
            ours.iter().map(|region| TextEdit::replace(region.range.clone(), &region.target)).collect();
        let made = text::apply(&self.text, &making).unwrap_or_default();
        let back = text::invert(&self.text, &making).unwrap_or_default();
        let since = text::diff_edits(&made, &whole);
        let places: Vec<Range<usize>> = back.iter().map(|edit| edit.range.clone()).collect();
        let landed = same(&made, &whole) || !places.iter().any(|place| disturbed(place, &since));
        let absent = !ours.iter().any(|region| disturbed(&region.range, edits));
        if landed && (!absent || same(&made, &whole)) {
            let moved = back
                .into_iter()
                .map(|edit| Some(TextEdit::replace(map_range(edit.range, &since)?, edit.new_text)));
            self.landed = Some(moved.collect::<Option<Vec<_>>>().unwrap_or_default());
            self.text = whole;
        } else if absent && !landed {
            self.ours = Some(ours);
            let (mut shift, old) = (0isize, self.text.clone());
            for edit in edits {
                let start = edit.range.start.saturating_add_signed(shift);
                let now = TextEdit::replace(start..start + edit.range.len(), &edit.new_text);
                shift += edit.growth();
                self.text.replace_range(now.range.clone(), &now.new_text);
                self.person_made(&now, old[edit.range.clone()].to_owned());
            }
        } else {
            self.ambiguous = true;
            self.text = whole;
        }
    }

    /// Our positions as they were sent, in the text as it is: where an editor puts them that does not
    /// look at versions. `None` where that is no other place.
    fn literal(&self) -> Option<Vec<Region>> {
        let lines = LineIndex::with_ends(&self.text, self.ends);
        let place = |position: text::Position| {
            if position.line as usize >= lines.line_count() {
                return Some(self.text.len());
            }
            // Inside a character it is put before it.
            let before = |back: u32| {
                let character = position.character.saturating_sub(back);
                lines.offset(&self.text, text::Position { character, ..position }, self.encoding)
            };
            (0..4).find_map(before)
        };
        let mut regions = Vec::with_capacity(self.sent.len());
        for placed in &self.sent {
            let (start, end) = (place(placed.start)?, place(placed.end)?);
            let end = end.max(start);
            regions.push(Region::new(&self.text, &TextEdit::replace(start..end, &placed.edit.new_text)));
        }
        let right = self.ours.as_ref().is_some_and(|ours| {
            ours.len() == regions.len() && ours.iter().zip(&regions).all(|(a, b)| a.range == b.range)
        });
        (!right).then_some(regions)
    }

    /// Our new text, in a change that nothing else explains.
    fn alike(&self) -> Option<Verdict> {
        let telling = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count() >= 2;
        let mut back = Vec::new();
        let mut free: Vec<&Seen> = self.seen.iter().collect();
        for placed in &self.sent {
            let new = &placed.edit.new_text;
            let Some(at) = free.iter().position(|seen| telling(new) && same(&seen.new, new)) else {
                continue;
            };
            back.push(free.remove(at));
        }
        if !back.is_empty() {
            let mut inverse: Option<Vec<TextEdit>> =
                back.iter().map(|seen| Some(TextEdit::replace(seen.range.clone()?, &seen.old))).collect();
            if let Some(inverse) = &mut inverse {
                inverse.sort_by_key(|edit| edit.range.start);
            }
            return Some(Verdict::Elsewhere { detail: "it was put at another place".to_owned(), inverse });
        }
        // A line gone from another place may be ours or the person's.
        let lines = |text: &str| text.matches('\n').count();
        let gone = |placed: &Placed| {
            let old = placed.edit.range.len();
            placed.edit.new_text.is_empty()
                && self.seen.iter().any(|seen| {
                    seen.new.is_empty()
                        && seen.old.len() > 1
                        && (seen.old.len() == old || lines(&seen.old) > 0)
                })
        };
        self.sent.iter().any(gone).then_some(Verdict::Unknown)
    }

    fn elsewhere(&self, attempt: &Attempt) -> Verdict {
        let what = match (attempt.misplaced, attempt.complete) {
            (false, _) => "only a part of it was made",
            (true, true) => "it was made at the line numbers of an older text",
            (true, false) => "a part of it was made at the line numbers of an older text",
        };
        let inverse = (!attempt.spoiled).then(|| attempt.inverse(&self.text));
        Verdict::Elsewhere { detail: what.to_owned(), inverse }
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

    fn is(&self, text: &str, what: &str) -> bool {
        text.get(self.range.clone()).is_some_and(|now| same(now, what))
    }

    /// Grows over the text around it, which is to stay.
    fn grow(&mut self, text: &str, to: Range<usize>) {
        let (before, after) = (&text[to.start..self.range.start], &text[self.range.end..to.end]);
        self.old = format!("{before}{}{after}", self.old);
        self.target = format!("{before}{}{after}", self.target);
        self.range = to;
    }

    /// Takes in the next region and what lies between.
    fn join(&mut self, text: &str, next: Self) {
        let between = &text[self.range.end..next.range.start];
        self.old = format!("{}{between}{}", self.old, next.old);
        self.target = format!("{}{between}{}", self.target, next.target);
        self.range.end = next.range.end;
    }
}

impl Attempt {
    fn new(misplaced: bool, regions: Vec<Region>) -> Self {
        Self { misplaced, closed: false, spoiled: false, complete: false, regions }
    }

    /// Follows a change of `text`, the text before it.
    fn advance(&mut self, text: &str, change: &TextEdit) {
        let touched = |region: &Region| region.touches(&change.range);
        let first = self.regions.iter().position(touched);
        let (Some(first), false) = (first, self.closed) else {
            self.closed = true;
            for region in &mut self.regions {
                match map_range(region.range.clone(), std::slice::from_ref(change)) {
                    Some(range) => region.range = range,
                    None => {
                        self.spoiled = true;
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

    /// Something is as it should be, and nothing is otherwise than before.
    fn is_partial(&self, text: &str) -> bool {
        let made = |region: &Region| region.is(text, &region.target) && !same(&region.old, &region.target);
        let left = |region: &Region| region.is(text, &region.old);
        !self.complete
            && self.regions.iter().any(made)
            && self.regions.iter().all(|region| made(region) || left(region))
    }

    /// More was made than one key would make.
    fn is_telling(&self, text: &str) -> bool {
        let made = self.inverse(text);
        made.iter().map(|edit| edit.range.len().max(edit.new_text.len())).sum::<usize>() > 1
    }

    /// Back to what was there before.
    fn inverse(&self, text: &str) -> Vec<TextEdit> {
        let back = |region: &Region| {
            let now = text.get(region.range.clone())?;
            (now != region.old).then(|| shortest(now, region))
        };
        self.regions.iter().filter_map(back).collect()
    }
}

/// The region's way back without what both texts share at the ends.
fn shortest(now: &str, region: &Region) -> TextEdit {
    let edits = text::diff_edits(now, &region.old);
    let (Some(first), Some(last)) = (edits.first(), edits.last()) else {
        return TextEdit::replace(region.range.clone(), &region.old);
    };
    let (start, end) = (first.range.start, last.range.end);
    let tail = now.len() - end;
    let new_text = &region.old[start..region.old.len() - tail];
    TextEdit::replace(region.range.start + start..region.range.start + end, new_text)
}

/// The regions with the places where an editor may report the same change: an `a` inserted among
/// others can be said to be any of them.
fn loosened(text: &str, ours: &[Region]) -> Vec<Region> {
    let mut out: Vec<Region> = Vec::with_capacity(ours.len());
    for (index, region) in ours.iter().enumerate() {
        let mut region = region.clone();
        let mut to = slide(text, &region);
        to.start = to.start.max(out.last().map_or(0, |last| last.range.end));
        to.end = to.end.min(ours.get(index + 1).map_or(text.len(), |next| next.range.start));
        region.grow(text, to);
        out.push(region);
    }
    out
}

/// How far the place of a pure insertion or deletion may be moved without a different result.
fn slide(text: &str, region: &Region) -> Range<usize> {
    let Range { start, end } = region.range;
    let moving = match (region.old.is_empty(), region.target.is_empty()) {
        (true, false) => &region.target,
        (false, true) => &region.old,
        _ => return start..end,
    };
    let ring: Vec<char> = moving.chars().collect();
    let count = ring.len();
    let mut lower = start;
    for (step, character) in text[..start].chars().rev().enumerate().take(MAX_SLIDE) {
        if character != ring[(count - 1) - step % count] {
            break;
        }
        lower -= character.len_utf8();
    }
    let mut upper = end;
    for (step, character) in text[end..].chars().enumerate().take(MAX_SLIDE) {
        if character != ring[step % count] {
            break;
        }
        upper += character.len_utf8();
    }
    lower..upper
}

/// Whether the guessed `edits` leave a place alone; at an empty one nothing may happen beside it.
fn disturbed(place: &Range<usize>, edits: &[TextEdit]) -> bool {
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

/// Equal but for line ends, which are the editor's.
fn same(a: &str, b: &str) -> bool {
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
        settling: Settling,
    }

    fn case(text: &str, edits: &[TextEdit]) -> Case {
        let lines = LineIndex::new(text);
        let placed = rebase::place(text, &lines, UTF8, edits).unwrap();
        Case { settling: Settling::new(text, LineEnds::Any, UTF8, placed) }
    }

    impl Case {
        fn change(mut self, range: Range<usize>, new_text: &str) -> Self {
            let edits = vec![TextEdit::replace(range, new_text)];
            self.settling.fold(&Step { edits, whole: false });
            self
        }

        fn whole(mut self, text: &str) -> Self {
            let edits = text::diff_edits(&self.settling.text, text);
            self.settling.fold(&Step { edits, whole: true });
            self
        }

        #[track_caller]
        fn landed(&self, back: &str) {
            match self.settling.known(Answer::None) {
                Some(Verdict::Landed { inverse }) => {
                    assert_eq!(text::apply(&self.settling.text, &inverse).unwrap(), back);
                }
                other => panic!("{other:?} in {:?}", self.settling.text),
            }
        }

        #[track_caller]
        fn elsewhere(&self, answer: Answer, what: &str, back: Option<&str>) {
            match self.settling.decide(answer) {
                Verdict::Elsewhere { detail, inverse } => {
                    assert!(detail.contains(what), "{detail}");
                    let text = inverse.map(|edits| text::apply(&self.settling.text, &edits).unwrap());
                    assert_eq!(text.as_deref(), back);
                }
                other => panic!("{other:?} in {:?}", self.settling.text),
            }
        }

        #[track_caller]
        fn is(&self, answer: Answer, verdict: &Verdict) {
            assert_eq!(self.settling.decide(answer), *verdict, "in {:?}", self.settling.text);
        }
    }

    const TEXT: &str = "one\nfoo two\nthree foo\n";

    fn rename() -> Vec<TextEdit> {
        vec![TextEdit::replace(4..7, "bar"), TextEdit::replace(18..21, "bar")]
    }

    #[test]
    fn it_lands_however_the_editor_reports_it() {
        let made = "one\nbar two\nthree bar\n";
        // From the end to the start, as VS Code and Neovim do it.
        case(TEXT, &rename()).change(18..21, "bar").change(4..7, "bar").landed(TEXT);
        // In pieces, whole lines, one change for all.
        case(TEXT, &rename())
            .change(18..19, "b")
            .change(19..21, "ar")
            .change(4..5, "b")
            .change(5..7, "ar")
            .landed(TEXT);
        case(TEXT, &rename()).change(12..22, "three bar\n").change(4..12, "bar two\n").landed(TEXT);
        case(TEXT, &rename()).change(4..21, "bar two\nthree bar").landed(TEXT);
        case(TEXT, &rename()).change(0..TEXT.len(), made).landed(TEXT);
        case(TEXT, &rename()).whole(made).landed(TEXT);
        // Without an answer or after a refusal it has landed all the same.
        let case = case(TEXT, &rename()).change(18..21, "bar").change(4..7, "bar");
        assert!(matches!(case.settling.decide(Answer::Refused), Verdict::Landed { .. }));
    }

    #[test]
    fn it_lands_between_what_the_person_types() {
        case(TEXT, &rename())
            .change(0..0, "# ")
            .change(23..23, "\n!")
            .change(20..23, "bar")
            .change(6..9, "bar")
            .landed("# one\nfoo two\nthree foo\n!\n");
        // What follows is no longer looked at.
        case(TEXT, &rename()).change(18..21, "bar").change(4..7, "bar").change(4..7, "").landed(TEXT);
        case(TEXT, &rename())
            .whole("zero\none\nbar two\nthree bar\n")
            .landed("zero\none\nfoo two\nthree foo\n");
    }

    #[test]
    fn an_insertion_among_equals_may_be_reported_at_any_of_them() {
        let insert = [TextEdit::insert(3, "a")];
        case("xaaay", &insert).change(1..1, "a").landed("xaaay");
        case("xaaay", &insert).change(4..4, "a").landed("xaaay");
        let lines = [TextEdit::insert(2, "b\n")];
        case("a\nb\nc\n", &lines).change(4..4, "b\n").landed("a\nb\nc\n");
        case("a\nb\nb\nc\n", &[TextEdit::replace(2..4, "")]).change(4..6, "").landed("a\nb\nb\nc\n");
    }

    #[test]
    fn line_ends_are_the_editors() {
        case("a\r\nb\r\n", &[TextEdit::insert(3, "x\ny\n")]).change(3..3, "x\r\ny\r\n").landed("a\r\nb\r\n");
        case("a\nb\n", &[TextEdit::insert(2, "x\r\n")]).change(2..2, "x\n").landed("a\nb\n");
    }

    #[test]
    fn nothing_happened() {
        case(TEXT, &rename()).is(Answer::Applied, &Verdict::Absent);
        case(TEXT, &rename()).is(Answer::Refused, &Verdict::Absent);
        case(TEXT, &rename()).is(Answer::None, &Verdict::Unknown);
        case(TEXT, &rename()).change(0..0, "x").change(9..9, "yes").is(Answer::Applied, &Verdict::Absent);
        case(TEXT, &rename()).change(5..5, "x").is(Answer::Applied, &Verdict::Conflict);
        case(TEXT, &rename()).whole("zero\none\nfoo two\nthree foo\n").is(Answer::Applied, &Verdict::Absent);
    }

    #[test]
    fn it_was_made_at_the_line_numbers_of_an_older_text() {
        // The person put a line above, and the edit came to where line 1 was.
        let edit = [TextEdit::replace(4..7, "bar")];
        let typed = "new\none\nfoo two\nthree foo\n";
        case(TEXT, &edit).change(0..0, "new\n").change(4..7, "bar").elsewhere(
            Answer::Applied,
            "older text",
            Some(typed),
        );
        // Past the end: put at the end.
        case("a\nb\nfoo\n", &[TextEdit::replace(4..7, "bar")])
            .change(0..4, "")
            .change(4..4, "bar")
            .elsewhere(Answer::Applied, "older text", Some("foo\n"));
        // Over other old text.
        case(TEXT, &edit).change(5..5, "X").change(4..7, "bar").elsewhere(
            Answer::Applied,
            "older text",
            Some("one\nfXoo two\nthree foo\n"),
        );
        // The person went on typing, first beside it and then in it.
        let moved = case(TEXT, &edit).change(0..0, "new\n").change(4..7, "bar").change(0..0, "1");
        moved.elsewhere(Answer::Applied, "older text", Some("1new\none\nfoo two\nthree foo\n"));
        let spoiled = case(TEXT, &edit).change(0..0, "new\n").change(4..7, "bar").change(5..6, "");
        spoiled.elsewhere(Answer::Applied, "older text", None);
    }

    #[test]
    fn it_was_put_at_a_place_that_nothing_explains() {
        case(TEXT, &[TextEdit::replace(4..7, "bar")]).change(12..15, "bar").elsewhere(
            Answer::Applied,
            "another place",
            Some(TEXT),
        );
        // Somebody refused it, so it is the person's.
        case(TEXT, &[TextEdit::replace(4..7, "bar")])
            .change(12..15, "bar")
            .is(Answer::Refused, &Verdict::Absent);
        // A line that went from another place is nobody's to say.
        case("a\nb\nc\nd\n", &[TextEdit::replace(2..4, "")])
            .change(4..6, "")
            .is(Answer::Applied, &Verdict::Unknown);
    }

    #[test]
    fn only_a_part_was_made() {
        for answer in [Answer::Applied, Answer::Refused, Answer::None] {
            case(TEXT, &rename()).change(4..7, "bar").elsewhere(answer, "part", Some(TEXT));
        }
        case(TEXT, &rename()).change(18..21, "bar").change(0..0, "typed ").elsewhere(
            Answer::Applied,
            "part",
            Some(&format!("typed {TEXT}")),
        );
    }

    #[test]
    fn a_whole_text_that_can_be_read_both_ways_is_unknown() {
        // Gone and typed again, or never gone.
        case("x\nfoo\nfoo\ny\n", &[TextEdit::replace(2..6, "")])
            .whole("x\nfoo\nfoo\ny\n")
            .is(Answer::Applied, &Verdict::Unknown);
        // Something else altogether.
        case(TEXT, &rename()).whole("qux\n").is(Answer::Applied, &Verdict::Unknown);
    }
}
