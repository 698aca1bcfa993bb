//! The changes of an agent in one text, apart from the user's.
//!
//! A tracked text has two sides: the current text, and the same text without the agent's changes that are
//! not kept. A change of the user enters both sides, unless it touches a change of the agent. The hunks are
//! the differences of the sides, in whole lines. Every line is in a hunk, on both sides, or the user's.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use text::TextEdit;

use crate::RunId;

/// A text with the changes that are not kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TrackedText {
    /// The text without the changes.
    base: String,
    now: String,
    /// Ranges of `now`, each with the author of its last change.
    marks: Vec<(Range<usize>, Author)>,
}

/// The author of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Author {
    User,
    Agent(RunId),
}

/// Lines that differ between the sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextHunk {
    /// Byte range in the text without the changes.
    pub base: Range<usize>,
    /// Byte range in the current text.
    pub now: Range<usize>,
    /// The runs that changed it, oldest first.
    pub runs: Vec<RunId>,
    /// Whether the user changed it too.
    pub is_edited: bool,
}

impl TrackedText {
    pub fn new(base: &str, now: &str) -> Self {
        Self { base: base.to_owned(), now: now.to_owned(), marks: Vec::new() }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn now(&self) -> &str {
        &self.now
    }

    /// Makes `after` the current text, as `author` changed it.
    pub fn change(&mut self, after: &str, author: &Author) {
        let edits = text::diff_edits(&self.now, after);
        if *author == Author::User {
            self.rebase(after);
        }
        self.mark(&edits, author);
        after.clone_into(&mut self.now);
        if self.base == self.now {
            self.marks.clear();
        }
    }

    /// The changes on another text of the user, as a merge placed them.
    pub(crate) fn rebased(&self, base: &str, now: &str) -> Self {
        let marks = map_marks(self.marks.clone(), &text::diff_edits(&self.now, now));
        Self { base: base.to_owned(), now: now.to_owned(), marks }
    }

    /// The hunks, in order.
    pub fn hunks(&self) -> Vec<TextHunk> {
        let hunk = |(base, now): (Range<usize>, Range<usize>)| {
            let mut marks = self.marks.iter().filter(|(range, _)| meet(range, &now));
            let is_edited = marks.any(|(_, author)| *author == Author::User);
            TextHunk { base, runs: self.runs_of(&now), now, is_edited }
        };
        text::diff_lines(&self.base, &self.now).into_iter().map(hunk).collect()
    }

    /// The runs that changed these lines of the current text, oldest first.
    pub(crate) fn runs_of(&self, lines: &Range<usize>) -> Vec<RunId> {
        let mut runs = Vec::new();
        for (_, author) in self.marks.iter().filter(|(range, _)| meet(range, lines)) {
            match author {
                Author::Agent(run) if !runs.contains(run) => runs.push(run.clone()),
                Author::Agent(_) | Author::User => {}
            }
        }
        runs
    }

    /// Keeps a hunk: both sides have its current lines.
    pub fn keep(&mut self, hunk: &TextHunk) {
        self.base.replace_range(hunk.base.clone(), &self.now[hunk.now.clone()]);
        self.marks.retain(|(range, _)| !meet(range, &hunk.now));
    }

    /// The current text without these hunks, and those of them that have to stay.
    ///
    /// A hunk stays if it has the only copy of a line that another hunk removed: the line was moved.
    pub fn reject<'a>(&self, hunks: &[&'a TextHunk]) -> (String, Vec<&'a TextHunk>) {
        let (mut rejected, mut stay) = (hunks.to_vec(), Vec::new());
        loop {
            let edits: Vec<_> = rejected
                .iter()
                .map(|hunk| TextEdit::replace(hunk.now.clone(), &self.base[hunk.base.clone()]))
                .collect();
            let after = text::apply(&self.now, &edits).unwrap_or_else(|_| self.now.clone());
            let (base, now, rest) = (count_lines(&self.base), count_lines(&self.now), count_lines(&after));
            let is_only = |line: &str| base.get(line) == Some(&1) && now.get(line) == Some(&1);
            let (keep, moved): (Vec<_>, Vec<_>) = rejected.iter().partition(|hunk| {
                let mut lines = self.now[hunk.now.clone()].split_inclusive('\n');
                lines.all(|line| rest.contains_key(line) || !is_only(line))
            });
            if moved.is_empty() {
                return (after, stay);
            }
            stay.extend(moved);
            rejected = keep;
        }
    }

    /// Applies those changes of the user to the base that touch no hunk.
    fn rebase(&mut self, after: &str) {
        let hunks = text::diff_lines(&self.base, &self.now);
        let is_open = |text: &str| !text.is_empty() && !text.ends_with('\n');
        let mut own = Vec::new();
        for (range, with) in text::diff_lines(&self.now, after) {
            let wide = slide(&self.now, after, &range, &with);
            // Removed lines that come back are not new.
            let restores = |base: &Range<usize>| {
                let removed = &self.base[base.clone()];
                after[with.clone()]
                    .split_inclusive('\n')
                    .any(|line| removed.split_inclusive('\n').any(|it| it == line))
            };
            let touches = |(base, now): &(Range<usize>, Range<usize>)| {
                let is_place =
                    now.is_empty() && range.is_empty() && wide.start <= now.start && now.end <= wide.end;
                // A line without a newline must not join the next one.
                let joins = now.end == range.start && base.end == self.base.len() && is_open(&self.base)
                    || range.end == now.start && !base.is_empty() && is_open(&after[with.clone()]);
                wide.start < now.end && now.start < wide.end || is_place && restores(base) || joins
            };
            if hunks.iter().any(touches) {
                continue;
            }
            let before = hunks.iter().take_while(|(_, now)| now.end <= range.start);
            let (base, now) =
                before.fold((0, 0), |(base, now), hunk| (base + hunk.0.len(), now + hunk.1.len()));
            let map = |offset: usize| offset + base - now;
            own.push(TextEdit::replace(map(range.start)..map(range.end), &after[with]));
        }
        match text::apply(&self.base, &own) {
            Ok(base) => self.base = base,
            Err(error) => tracing::debug!(%error, "the user's changes stay in the hunks"),
        }
    }

    /// Maps the marks over the edits and adds the edits' own.
    fn mark(&mut self, edits: &[TextEdit], author: &Author) {
        let mut marks = map_marks(std::mem::take(&mut self.marks), edits);
        let mut shift: isize = 0;
        for edit in edits {
            let start = edit.range.start.saturating_add_signed(shift);
            marks.push((start..start + edit.new_text.len(), author.clone()));
            shift += edit.growth();
        }
        self.marks = marks;
    }
}

/// Maps marks over the edits; those of replaced texts are dropped.
fn map_marks(marks: Vec<(Range<usize>, Author)>, edits: &[TextEdit]) -> Vec<(Range<usize>, Author)> {
    marks.into_iter().filter_map(|(range, by)| Some((surviving(&range, edits)?, by))).collect()
}

fn count_lines(text: &str) -> HashMap<&str, usize> {
    text.split_inclusive('\n').fold(HashMap::new(), |mut counts, line| {
        *counts.entry(line).or_default() += 1;
        counts
    })
}

/// Whether a mark belongs to a hunk's lines.
fn meet(mark: &Range<usize>, lines: &Range<usize>) -> bool {
    if mark.is_empty() || lines.is_empty() {
        mark.start <= lines.end && lines.start <= mark.end
    } else {
        mark.start < lines.end && lines.start < mark.end
    }
}

/// The smallest range with the rest of `range` after the edits.
///
/// `None` if the edits replace all of it.
fn surviving(range: &Range<usize>, edits: &[TextEdit]) -> Option<Range<usize>> {
    let map = |offset: usize, is_start: bool| {
        let mut shift: isize = 0;
        for edit in edits {
            let Range { start, end } = edit.range;
            if start > offset || (start == offset && !(is_start && end == start)) {
                break;
            }
            if offset < end {
                let new_start = start.saturating_add_signed(shift);
                return if is_start { new_start } else { new_start + edit.new_text.len() };
            }
            shift += edit.growth();
        }
        offset.saturating_add_signed(shift)
    };
    let is_replaced = |edit: &TextEdit| {
        !edit.range.is_empty() && edit.range.start <= range.start && range.end <= edit.range.end
    };
    if edits.iter().any(is_replaced) {
        return None;
    }
    let (start, end) = (map(range.start, true), map(range.end, false));
    Some(start..end.max(start))
}

/// The lines over which a change can move without another outcome.
///
/// A line that is inserted or removed beside an equal one has several places. `range` is of `before`, `with`
/// of `after`.
fn slide(before: &str, after: &str, range: &Range<usize>, with: &Range<usize>) -> Range<usize> {
    let (text, block) = match (range.is_empty(), with.is_empty()) {
        (true, false) => (after, with),
        (false, true) => (before, range),
        _ => return range.clone(),
    };
    let above = text[..block.start].split_inclusive('\n').rev();
    let up: usize = above
        .zip(text[..block.end].split_inclusive('\n').rev())
        .take_while(|(a, b)| a == b)
        .map(|(line, _)| line.len())
        .sum();
    let below = text[block.end..].split_inclusive('\n');
    let down: usize = below
        .zip(text[block.start..].split_inclusive('\n'))
        .take_while(|(a, b)| a == b)
        .map(|(line, _)| line.len())
        .sum();
    range.start - up.min(range.start)..(range.end + down).min(before.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agent() -> Author {
        Author::Agent(RunId("run".to_owned()))
    }

    #[test]
    fn the_users_lines_are_in_no_hunk() {
        let mut text = TrackedText::new("a\nb\nc\n", "a\nb\nc\n");
        text.change("a\nB\nc\n", &agent());
        text.change("x\na\nB\nc\ny\n", &Author::User);
        assert_eq!(text.base(), "x\na\nb\nc\ny\n");
        let hunk = TextHunk { base: 4..6, now: 4..6, runs: vec![RunId("run".into())], is_edited: false };
        assert_eq!(text.hunks(), [hunk]);
    }

    #[test]
    fn a_change_inside_a_hunk_marks_it() {
        let mut text = TrackedText::new("a\nb\n", "a\nb\n");
        text.change("a\none\ntwo\nb\n", &agent());
        text.change("a\none\nmine\ntwo\nb\n", &Author::User);
        assert_eq!(text.base(), "a\nb\n");
        assert!(text.hunks()[0].is_edited);
        // The user's own removal of the hunk leaves nothing to review.
        text.change("a\nb\n", &Author::User);
        assert_eq!(text.hunks(), []);
    }

    #[test]
    fn an_equal_line_beside_a_hunk_stays_in_the_hunk() {
        let mut text = TrackedText::new("f {\n}\n", "f {\n}\n");
        text.change("f {\n}\n}\n", &agent());
        text.change("f {\n}\n", &Author::User);
        assert_eq!((text.base(), text.hunks().len()), ("f {\n}\n", 0));
    }

    #[test]
    fn a_line_after_a_missing_final_newline_stays_a_line() {
        let mut text = TrackedText::new("one", "one");
        text.change("one\ntwo\n", &agent());
        text.change("one\ntwo\nmine\n", &Author::User);
        assert_eq!((text.base(), text.hunks()[0].is_edited), ("one", true));
        // The user's own text has no final newline.
        let mut text = TrackedText::new("one\ntwo\n", "one\ntwo\n");
        text.change("one\n", &agent());
        text.change("mine", &Author::User);
        assert_eq!((text.base(), text.hunks()[0].is_edited), ("one\ntwo\n", true));
    }

    /// A line of the model, with its sides.
    ///
    /// `is_users`: the user wrote it into a hunk.
    #[derive(Debug, Clone)]
    struct Line {
        text: String,
        in_base: bool,
        in_now: bool,
        is_users: bool,
    }

    impl Line {
        fn is_settled(&self) -> bool {
            self.in_base && self.in_now
        }
    }

    /// The lines of both sides, and the number of the last new one.
    #[derive(Debug, Default)]
    struct Model(Vec<Line>, usize);

    impl Model {
        fn side(&self, has: impl Fn(&Line) -> bool) -> String {
            self.0.iter().filter(|line| has(line)).map(|line| line.text.as_str()).collect()
        }

        fn new_line(&mut self, in_base: bool, is_users: bool) -> Line {
            self.1 += 1;
            Line { text: format!("line {}\n", self.1), in_base, in_now: true, is_users }
        }

        /// Element ranges of the hunks.
        fn hunks(&self) -> Vec<Range<usize>> {
            let mut hunks: Vec<Range<usize>> = Vec::new();
            for (at, _) in self.0.iter().enumerate().filter(|(_, line)| !line.is_settled()) {
                match hunks.last_mut().filter(|last| last.end == at) {
                    Some(last) => last.end += 1,
                    None => hunks.push(at..at + 1),
                }
            }
            hunks
        }

        /// Element of the current line `nth`.
        fn element(&self, nth: usize) -> Option<usize> {
            let current = self.0.iter().enumerate().filter(|(_, line)| line.in_now);
            current.map(|(at, _)| at).nth(nth)
        }

        fn insert(&mut self, nth: usize, by_user: bool) {
            let next = self.element(nth);
            let before = nth.checked_sub(1).and_then(|nth| self.element(nth));
            let is_open = |at: Option<usize>| at.is_some_and(|at| !self.0[at].is_settled());
            let at = before.map_or(0, |at| at + 1);
            let inside =
                is_open(before) && is_open(next) && (at..next.unwrap_or(at)).all(|it| is_open(Some(it)));
            // After the removed lines, but before a hunk with current lines.
            let gap_end = next.unwrap_or(self.0.len());
            let outside = if is_open(next) && !is_open(before) { at } else { gap_end };
            let line = self.new_line(by_user && !inside, by_user && inside);
            self.0.insert(if by_user && !inside { outside } else { gap_end }, line);
        }

        fn remove(&mut self, nth: usize, by_user: bool) {
            let Some(at) = self.element(nth) else { return };
            if by_user || !self.0[at].in_base {
                self.0.remove(at);
            } else {
                self.0[at].in_now = false;
            }
        }

        fn replace(&mut self, nth: usize, by_user: bool) {
            let Some(at) = self.element(nth) else { return };
            let was_in_base = self.0[at].in_base;
            let line = self.new_line(by_user && was_in_base, by_user && !was_in_base);
            if by_user || !was_in_base {
                self.0[at] = line;
            } else {
                self.0[at].in_now = false;
                self.0.insert(at + 1, line);
            }
        }

        fn decide(&mut self, hunk: Range<usize>, keep: bool) {
            let mut at = hunk.start;
            for _ in hunk {
                let line = &mut self.0[at];
                if line.is_settled() || (if keep { line.in_now } else { line.in_base }) {
                    *line = Line { in_base: true, in_now: true, is_users: false, text: line.text.clone() };
                    at += 1;
                } else {
                    self.0.remove(at);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn interleaved_changes_equal_the_model(
            steps in prop::collection::vec((0..8_u8, any::<bool>(), 0..12_usize), 1..40)
        ) {
            let mut model = Model::default();
            (0..6).for_each(|_| { let line = model.new_line(true, false); model.0.push(line); });
            let text = model.side(|_| true);
            let mut tracked = TrackedText::new(&text, &text);
            for (kind, by_user, nth) in steps {
                let lines = model.0.iter().filter(|line| line.in_now).count();
                match kind {
                    0..=2 => model.insert(nth.min(lines), by_user),
                    3 | 4 => model.replace(nth, by_user),
                    5 => model.remove(nth, by_user),
                    _ => {
                        let hunks = tracked.hunks();
                        let Some(hunk) = hunks.get(nth) else { continue };
                        if kind == 6 {
                            tracked.keep(hunk);
                        } else if hunk.is_edited {
                            continue;
                        } else {
                            let (after, stay) = tracked.reject(&[hunk]);
                            prop_assert!(stay.is_empty());
                            tracked.change(&after, &Author::User);
                        }
                        let elements = model.hunks()[nth].clone();
                        model.decide(elements, kind == 6);
                    }
                }
                let author = if by_user { Author::User } else { agent() };
                tracked.change(&model.side(|line| line.in_now), &author);
                prop_assert_eq!(tracked.base(), model.side(|line| line.in_base), "{:?}", model);
                let (hunks, expected) = (tracked.hunks(), model.hunks());
                prop_assert_eq!(hunks.len(), expected.len(), "{:?}", model);
                for (hunk, elements) in hunks.iter().zip(expected) {
                    let has_users = model.0[elements].iter().any(|line| line.is_users && line.in_now);
                    prop_assert!(hunk.is_edited || !has_users, "{:?} {:?}", hunk, model);
                }
            }
        }
    }

    proptest! {
        /// Lines are often equal, so a change can have several places.
        #[test]
        fn rejection_loses_no_line_of_the_user(
            start in "[ab}\n]{0,12}",
            steps in prop::collection::vec((any::<bool>(), 0..12_usize, 0..4_usize, "([ab}]?\n){0,3}[ab}]?"), 1..12)
        ) {
            let mut tracked = TrackedText::new(&start, &start);
            let mut typed = Vec::new();
            for (at, (by_user, line, removed, text)) in steps.into_iter().enumerate() {
                let mut lines: Vec<String> = tracked.now().split_inclusive('\n').map(str::to_owned).collect();
                let first = line.min(lines.len());
                let last = (first + removed).min(lines.len());
                let gone = lines.splice(first..last, text.split_inclusive('\n').map(str::to_owned));
                let gone: Vec<String> = gone.collect();
                typed.retain(|line| !gone.contains(line));
                if by_user {
                    let line = format!("typed {at}\n");
                    lines.insert(first, line.clone());
                    typed.push(line);
                }
                let has_end = |line: &String| line.ends_with('\n');
                let last = lines.len().saturating_sub(1);
                let joined: String = lines.iter().enumerate().map(|(nth, line)| {
                    if has_end(line) || nth == last { line.clone() } else { format!("{line}\n") }
                }).collect();
                tracked.change(&joined, &if by_user { Author::User } else { agent() });
            }
            let hunks = tracked.hunks();
            prop_assert_eq!(tracked.reject(&hunks.iter().collect::<Vec<_>>()).0, tracked.base());
            let some: Vec<_> = hunks.iter().filter(|hunk| !hunk.is_edited).collect();
            let (after, _) = tracked.reject(&some);
            for line in &typed {
                let is_left = after.split_inclusive('\n').any(|it| it == line);
                prop_assert!(is_left, "{line:?} is not in {after:?}: {tracked:?}");
            }
        }
    }
}
