//! The fate of a hunk according to recorded edits.
//!
//! Only recorded edits distinguish twins, so they take precedence over any similarity of the texts.

use crate::Lines;
use crate::lines::line_edits::{self, Hunk, HunkPlace};
use crate::snapshot::chain::Chain;

/// The fate of a hunk according to the recorded edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HunkFate {
    /// The hunk's lines are untouched at this place.
    At(HunkPlace),
    /// Only the hunk's rows are between its neighbours, and no changed line is left.
    Done,
    /// The hunk's rows were inserted at its place with others: it may have been made.
    Repeated,
    /// None of the lines that the hunk changes is left.
    Gone,
    /// Some lines that the hunk changes are left, but not all unchanged.
    Left,
    /// No edits are recorded, or they rewrote the text as a whole.
    Nothing,
}

impl HunkFate {
    /// Whether the texts may still show that the hunk was made.
    pub(crate) fn may_be_done(self) -> bool {
        matches!(self, Self::Gone | Self::Repeated | Self::Nothing)
    }
}

pub(crate) fn hunk_fate(chain: &Chain, hunk: &Hunk, old: &Lines, new: &Lines) -> HunkFate {
    // The rows are minimal, since a body may repeat the lines around its new rows.
    let change = line_edits::region(old, hunk);
    let came = between(chain, change.after, change.to, old, new);
    let has_rows_at =
        |first: usize| change.rows.iter().zip(first..).all(|((row, _), line)| new.content(line) == *row);
    let count = change.rows.len();
    let is_present = came.is_some_and(|(first, last)| last + 1 - first == count && has_rows_at(first));
    // Rows repeated around an insertion are untouched, whether it was made or not.
    let repeats = change.after == change.to
        && count > 0
        && came.is_some_and(|(first, last)| (first..(last + 2).saturating_sub(count)).any(has_rows_at));
    match follow(chain, hunk.place, old, new) {
        _ if repeats && is_present => return HunkFate::Done,
        _ if repeats => return HunkFate::Repeated,
        Some(place) => return HunkFate::At(place),
        None => {}
    }
    if chain.is_rewritten(old, new, hunk.place) {
        return HunkFate::Nothing;
    }
    if (change.after + 1..=change.to).any(|line| chain.line(old, new, line, line).is_some()) {
        HunkFate::Left
    } else if is_present {
        HunkFate::Done
    } else {
        HunkFate::Gone
    }
}

/// The first and last line now between the lines after `after` and up to `to`.
///
/// `None` unless both of those are untouched. The last is before the first if there are none.
fn between(chain: &Chain, after: usize, to: usize, old: &Lines, new: &Lines) -> Option<(usize, usize)> {
    let line = |line: usize| chain.line(old, new, line, line);
    let upper = if after == 0 { 0 } else { line(after)? };
    let lower = if to == old.count() { new.count() + 1 } else { line(to + 1)? };
    Some((upper + 1, lower.checked_sub(1)?))
}

/// The current place of a point whose neighbours were separated or removed.
///
/// According to the recorded edits, it is next to the line that it names.
pub(crate) fn beside(chain: &Chain, place: HunkPlace, old: &Lines, new: &Lines) -> Option<HunkPlace> {
    match place {
        HunkPlace::Before(line) => chain.line(old, new, line, line).map(HunkPlace::Before),
        HunkPlace::After(line) => chain.line(old, new, line, line).map(HunkPlace::After),
        _ => None,
    }
}

/// The current place of a hunk with untouched lines.
///
/// For an insertion, the lines on both its sides must still be adjacent: lines now between them may be this
/// very edit.
fn follow(chain: &Chain, place: HunkPlace, old: &Lines, new: &Lines) -> Option<HunkPlace> {
    let line = |line: usize| chain.line(old, new, line, line);
    // The lines around a point, by the line above it: both must exist, or be the file's ends.
    let between = |above: usize| -> Option<usize> {
        let upper = if above == 0 { 0 } else { line(above)? };
        let lower = if above == old.count() { new.count() + 1 } else { line(above + 1)? };
        (upper + 1 == lower).then_some(upper)
    };
    match place {
        HunkPlace::Lines { first, last } => {
            let start = chain.line(old, new, first, last)?;
            Some(HunkPlace::Lines { first: start, last: start + (last - first) })
        }
        HunkPlace::Before(at) => between(at - 1).map(|upper| HunkPlace::Before(upper + 1)),
        HunkPlace::After(at) => between(at).map(HunkPlace::After),
        HunkPlace::Head => between(0).map(|_| HunkPlace::Head),
        HunkPlace::End => between(old.count()).map(|_| HunkPlace::End),
    }
}
