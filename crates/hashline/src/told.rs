//! What recorded edits tell of a hunk: where its lines are, that they are gone, or that it was made.
//!
//! They are the only thing that tells twins apart, so what they tell is believed before any
//! likeness of the texts.

use crate::Lines;
use crate::chain::Chain;
use crate::surgery::{self, Hunk, Place};

/// What the recorded edits tell of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Its lines are untouched, here.
    At(Place),
    /// Its rows, and nothing else, stand between the lines around it, and none of the lines that it
    /// changes is left.
    Done,
    /// It inserts what stands, with more, at its place since: it may have been made.
    Repeated,
    /// None of the lines that it changes is left.
    Gone,
    /// Lines that it changes are left, but not all as they were.
    Left,
    /// Nothing: no way is recorded, or it was written anew as a whole.
    Nothing,
}

impl Told {
    /// Whether the texts may still show that it was made.
    pub(crate) fn may_be_done(self) -> bool {
        matches!(self, Self::Gone | Self::Repeated | Self::Nothing)
    }
}

pub(crate) fn told(chain: &Chain, hunk: &Hunk, old: &Lines, new: &Lines) -> Told {
    // As few lines as change: a body may repeat what stands around what it brings.
    let change = surgery::region(old, hunk);
    let came = between(chain, change.after, change.to, old, new);
    let stand_at =
        |first: usize| change.rows.iter().zip(first..).all(|((row, _), line)| new.content(line) == *row);
    let count = change.rows.len();
    let stands = came.is_some_and(|(first, last)| last + 1 - first == count && stand_at(first));
    // What is repeated around an insertion is untouched, whether it was made or not.
    let repeats = change.after == change.to
        && count > 0
        && came.is_some_and(|(first, last)| (first..(last + 2).saturating_sub(count)).any(stand_at));
    match follow(chain, hunk.place, old, new) {
        _ if repeats && stands => return Told::Done,
        _ if repeats => return Told::Repeated,
        Some(place) => return Told::At(place),
        None => {}
    }
    if chain.is_rewritten(old, new, hunk.place) {
        return Told::Nothing;
    }
    match (change.after + 1..=change.to).any(|line| chain.line(old, new, line, line).is_some()) {
        true => Told::Left,
        false if stands => Told::Done,
        false => Told::Gone,
    }
}

/// First and last line that now stand between the lines around `after` (exclusive) to `to`
/// (inclusive), if both of those are untouched; the last is before the first where there are none.
fn between(chain: &Chain, after: usize, to: usize, old: &Lines, new: &Lines) -> Option<(usize, usize)> {
    let line = |line: usize| chain.line(old, new, line, line);
    let upper = if after == 0 { 0 } else { line(after)? };
    let lower = if to == old.count() { new.count() + 1 } else { line(to + 1)? };
    Some((upper + 1, lower.checked_sub(1)?))
}

/// Where a point is now, by the recorded edits, if other lines came between its neighbours or one
/// of them went: beside the line that it names.
pub(crate) fn beside(chain: &Chain, place: Place, old: &Lines, new: &Lines) -> Option<Place> {
    match place {
        Place::Before(line) => chain.line(old, new, line, line).map(Place::Before),
        Place::After(line) => chain.line(old, new, line, line).map(Place::After),
        _ => None,
    }
}

/// Where a place is now: its lines untouched, and for an insertion the lines on both its sides
/// still next to each other. (Something that now stands between may be this very edit.)
fn follow(chain: &Chain, place: Place, old: &Lines, new: &Lines) -> Option<Place> {
    let line = |line: usize| chain.line(old, new, line, line);
    // The lines around a point, by the line above it: both must be there, or be the file's ends.
    let between = |above: usize| -> Option<usize> {
        let upper = if above == 0 { 0 } else { line(above)? };
        let lower = if above == old.count() { new.count() + 1 } else { line(above + 1)? };
        (upper + 1 == lower).then_some(upper)
    };
    match place {
        Place::Lines { first, last } => {
            let start = chain.line(old, new, first, last)?;
            Some(Place::Lines { first: start, last: start + (last - first) })
        }
        Place::Before(at) => between(at - 1).map(|upper| Place::Before(upper + 1)),
        Place::After(at) => between(at).map(Place::After),
        Place::Head => between(0).map(|_| Place::Head),
        Place::End => between(old.count()).map(|_| Place::End),
    }
}
