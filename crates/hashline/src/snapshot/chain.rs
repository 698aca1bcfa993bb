//! Exact mapping from one text to a later one through the edits between them.
//!
//! Edits are always verified: their result must be the later text, byte for byte, or there is no
//! chain. A place that an edit touched has no place in the later text; nothing is matched by
//! similarity.

use std::ops::Range;

use text::TextEdit;

use crate::Lines;
use crate::lines::line_edits::HunkPlace;

/// Number of additional replaced lines at which an edit proves nothing.
const WHOLE: usize = 8;

/// The later text as pieces of the old one and new text between them.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Pieces in order of the later text, with their positions in both texts.
    kept: Vec<KeptRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeptRange {
    old: usize,
    new: usize,
    len: usize,
}

#[derive(Debug, Clone)]
enum Piece<'a> {
    Old(Range<usize>),
    New(&'a str),
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Old(range) => range.len(),
            Self::New(text) => text.len(),
        }
    }

    fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Old(old) => Self::Old(old.start + range.start..old.start + range.end),
            Self::New(text) => Self::New(&text[range]),
        }
    }
}

impl Chain {
    /// The chain along `steps`, each a list of edits of the text before it.
    ///
    /// Returns `None` if they do not lead from `old` to `new`.
    pub(crate) fn new<'a>(
        old: &str,
        new: &str,
        steps: impl IntoIterator<Item = &'a [TextEdit]>,
    ) -> Option<Chain> {
        let mut pieces = vec![Piece::Old(0..old.len())];
        let mut len = old.len();
        for step in steps {
            pieces = apply(&pieces, step, &mut len, |offset| old.is_char_boundary(offset))?;
        }
        if len != new.len() {
            return None;
        }
        let mut kept: Vec<KeptRange> = Vec::new();
        let mut at = 0;
        for piece in &pieces {
            let is = &new.as_bytes()[at..at + piece.len()];
            match piece {
                Piece::New(text) if text.as_bytes() != is => return None,
                Piece::Old(range) if old.as_bytes()[range.clone()] != *is => return None,
                Piece::Old(range) => match kept.last_mut() {
                    Some(last) if last.old + last.len == range.start && last.new + last.len == at => {
                        last.len += range.len();
                    }
                    _ => kept.push(KeptRange { old: range.start, new: at, len: range.len() }),
                },
                Piece::New(_) => {}
            }
            at += piece.len();
        }
        Some(Chain { kept })
    }

    /// The current place of bytes that no edit touched or split.
    fn range(&self, range: Range<usize>) -> Option<Range<usize>> {
        // Edits keep the order of unchanged text, so the pieces are in order of the old text too.
        let at = self.kept.partition_point(|kept| kept.old + kept.len < range.end);
        let kept = self.kept.get(at).filter(|kept| kept.old <= range.start)?;
        let start = kept.new + (range.start - kept.old);
        Some(start..start + range.len())
    }

    /// Whether the edits rewrote a large part around a place as one piece.
    ///
    /// Such edits prove nothing about its lines: an editor may replace the whole text to change one
    /// word.
    pub(crate) fn is_rewritten(&self, old: &Lines, new: &Lines, place: HunkPlace) -> bool {
        let (first, last) = place.lines().unwrap_or(match place {
            HunkPlace::End => (old.count(), old.count()),
            _ => (1, 1),
        });
        let at = self.kept.partition_point(|kept| kept.old + kept.len <= old.start(first));
        let above = at.checked_sub(1).map(|at| self.kept[at]);
        let from = above.map_or((0, 0), |kept| (kept.old + kept.len, kept.new + kept.len));
        let to = self.kept.get(at).map_or((old.text().len(), new.text().len()), |kept| (kept.old, kept.new));
        let old_count = old.line_of(to.0) - old.line_of(from.0);
        let new_count = new.line_of(to.1) - new.line_of(from.1);
        let named = last + 1 - first;
        to.0 >= old.content_range(last).end && old_count >= named + WHOLE && 2 * new_count >= old_count
    }

    /// The first of the lines in `new` that are the untouched `first..=last` of `old`.
    pub(crate) fn line(&self, old: &Lines, new: &Lines, first: usize, last: usize) -> Option<usize> {
        if first == 0 || last < first || last > old.count() {
            return None;
        }
        let start = old.start(first);
        // A line end typed at the end of a line comes before the line's own, which then ends another line. So
        // a line's own end is not part of it, unless the line is empty.
        let with_end = old.content_range(last).is_empty();
        let end = if with_end { old.range(last).end } else { old.content_range(last).end };
        let place = self.range(start..end)?;
        if place.is_empty() {
            return None;
        }
        let line = new.line_of(place.start);
        let last_line = line + (last - first);
        let ends = if with_end { new.range(last_line).end } else { new.content_range(last_line).end };
        let whole = last_line <= new.count() && new.start(line) == place.start && ends == place.end;
        // The bytes may be equal and the lines not: a line end may have been split or joined.
        let same = || (0..=last - first).all(|by| old.content(first + by) == new.content(line + by));
        (whole && same()).then_some(line)
    }
}

/// Edits of a text of `len` bytes with the effect of `first` and then `second`.
///
/// It touches what they touch. Returns `None` if they do not fit together.
pub(crate) fn join(len: usize, first: &[TextEdit], second: &[TextEdit]) -> Option<Vec<TextEdit>> {
    let mut pieces = vec![Piece::Old(0..len)];
    let mut now = len;
    for step in [first, second] {
        // The edits were made for these texts, so they split no character.
        pieces = apply(&pieces, step, &mut now, |_| true)?;
    }
    let mut edits = Vec::new();
    let mut at = 0;
    let mut new_text = String::new();
    let end = Piece::Old(len..len);
    for piece in pieces.iter().chain([&end]) {
        match piece {
            Piece::New(text) => new_text.push_str(text),
            Piece::Old(range) => {
                if range.start > at || !new_text.is_empty() {
                    edits.push(TextEdit::replace(at..range.start, std::mem::take(&mut new_text)));
                }
                at = range.end;
            }
        }
    }
    Some(edits)
}

fn apply<'a>(
    pieces: &[Piece<'a>],
    step: &'a [TextEdit],
    len: &mut usize,
    is_boundary_of_old: impl Fn(usize) -> bool,
) -> Option<Vec<Piece<'a>>> {
    let mut out: Vec<Piece<'a>> = Vec::with_capacity(pieces.len() + 2 * step.len());
    let mut rest = pieces.iter().cloned();
    let mut current: Option<Piece<'a>> = rest.next();
    let mut at = 0;
    // The closure advances over the text up to `to`, and keeps it or not.
    let mut pass = |to: usize, keep: bool, out: &mut Vec<Piece<'a>>| -> Option<()> {
        while at < to {
            let piece = current.take()?;
            let take = piece.len().min(to - at);
            let is_boundary = match &piece {
                Piece::Old(range) => is_boundary_of_old(range.start + take),
                Piece::New(text) => text.is_char_boundary(take),
            };
            if !is_boundary {
                return None;
            }
            if keep && take > 0 {
                out.push(piece.part(0..take));
            }
            at += take;
            current = if take < piece.len() { Some(piece.part(take..piece.len())) } else { rest.next() };
        }
        Some(())
    };
    let mut last_end = 0;
    for edit in step {
        let Range { start, end } = edit.range;
        if start < last_end || end < start || end > *len {
            return None;
        }
        last_end = end;
        pass(start, true, &mut out)?;
        if !edit.new_text.is_empty() {
            out.push(Piece::New(&edit.new_text));
        }
        pass(end, false, &mut out)?;
    }
    pass(*len, true, &mut out)?;
    *len = out.iter().map(Piece::len).sum();
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(text: &str) -> Lines {
        Lines::new(text.into())
    }

    #[track_caller]
    fn check(old: &str, steps: &[Vec<TextEdit>], first: usize, last: usize, expected: Option<usize>) {
        let new = steps.iter().fold(old.to_owned(), |text, step| text::apply(&text, step).unwrap());
        let chain = Chain::new(old, &new, steps.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(chain.line(&lines(old), &lines(&new), first, last), expected, "{old:?} -> {new:?}");
    }

    #[test]
    fn lines_move_with_insertions_and_deletions_elsewhere() {
        check("a\nb\nc\n", &[vec![TextEdit::insert(0, "x\n")]], 2, 3, Some(3));
        check("a\nb\nc\n", &[vec![TextEdit::replace(0..2, "")]], 2, 3, Some(1));
        check(
            "a\nb\nc\n",
            &[vec![TextEdit::insert(2, "x\n")], vec![TextEdit::replace(0..2, "")]],
            2,
            2,
            Some(2),
        );
    }

    #[test]
    fn a_line_end_typed_after_a_line_keeps_the_line() {
        check("a\nb\n", &[vec![TextEdit::insert(1, "\nx")]], 1, 1, Some(1));
        check("a\nb\n", &[vec![TextEdit::insert(1, "\nx")]], 2, 2, Some(3));
    }

    #[test]
    fn touched_lines_have_no_place() {
        check("ab\nc\n", &[vec![TextEdit::insert(1, "x")]], 1, 1, None);
        check("ab\nc\n", &[vec![TextEdit::insert(2, " ")]], 1, 1, None);
        check("ab\nc\n", &[vec![TextEdit::insert(0, " ")]], 1, 1, None);
        check("ab\nc\n", &[vec![TextEdit::replace(0..2, "ab")]], 1, 1, None);
        check("a\nb\n", &[vec![TextEdit::insert(2, "x\n")]], 1, 2, None);
        check("a\nb\n", &[vec![TextEdit::replace(1..2, "")]], 1, 1, None);
        check("a\n\nb\n", &[vec![TextEdit::replace(2..3, "")]], 2, 2, None);
        check("a\n\n\nb\n", &[vec![TextEdit::replace(2..3, "")]], 2, 2, None);
        check("a\n\n\nb\n", &[vec![TextEdit::replace(2..3, "")]], 3, 3, Some(2));
    }

    #[test]
    fn steps_to_another_text_give_no_chain() {
        let steps = [vec![TextEdit::insert(0, "x\n")]];
        for (old, new) in [("a\n", "y\na\n"), ("a\n", "x\nb\n"), ("a\n", "x\na\nb\n"), ("a\n", "a\n")] {
            assert!(Chain::new(old, new, steps.iter().map(Vec::as_slice)).is_none());
        }
        for edit in [TextEdit::insert(9, "x"), TextEdit::insert(1, "x")] {
            assert!(Chain::new("é", "éx", [[edit].as_slice()]).is_none());
        }
    }

    proptest! {
        /// Checks that joined edits make the same text, and keep lines in the same places.
        #[test]
        fn joined_edits_have_the_effect_of_both(
            count in 1usize..8,
            steps in prop::collection::vec((0usize..60, 0usize..7, "[xyA\n]{0,4}"), 2..5),
        ) {
            let old: String = (0..count).map(|line| format!("{}\n", char::from(b'A' + line as u8))).collect();
            let mut text = old.clone();
            let mut log: Vec<Vec<TextEdit>> = Vec::new();
            for (start, len, new_text) in steps {
                let start = start.min(text.len());
                let edit = TextEdit::replace(start..(start + len).min(text.len()), new_text);
                text = text::apply(&text, std::slice::from_ref(&edit)).unwrap();
                log.push(vec![edit]);
            }
            let joined = log[1..].iter().fold(log[0].clone(), |done, step| join(old.len(), &done, step).unwrap());
            prop_assert_eq!(text::apply(&old, &joined).unwrap(), text.clone());
            let long = Chain::new(&old, &text, log.iter().map(Vec::as_slice)).unwrap();
            let short = Chain::new(&old, &text, [joined.as_slice()]).unwrap();
            let (old, new) = (lines(&old), lines(&text));
            for line in 1..=count {
                prop_assert_eq!(short.line(&old, &new, line, line), long.line(&old, &new, line, line));
            }
        }

        /// Compares with brute force: every line has a name that no edit can recreate.
        #[test]
        fn a_mapped_line_is_the_same_line(
            count in 1usize..8,
            steps in prop::collection::vec((0usize..60, 0usize..7, "[xy\n]{0,4}"), 0..6),
        ) {
            let old: String = (0..count).map(|line| format!("{}\n", char::from(b'A' + line as u8))).collect();
            let mut text = old.clone();
            let mut log = Vec::new();
            for (start, len, new_text) in steps {
                let start = start.min(text.len());
                let edit = TextEdit::replace(start..(start + len).min(text.len()), new_text);
                text = text::apply(&text, std::slice::from_ref(&edit)).unwrap();
                log.push(vec![edit]);
            }
            let chain = Chain::new(&old, &text, log.iter().map(Vec::as_slice)).unwrap();
            let (old, new) = (lines(&old), lines(&text));
            for line in 1..=count {
                let is: Vec<usize> = (1..=new.count()).filter(|at| new.content(*at) == old.content(line)).collect();
                // The names are unique, and an edit that touches a one-letter line removes it.
                prop_assert_eq!(chain.line(&old, &new, line, line), is.first().copied());
            }
        }
    }
}
