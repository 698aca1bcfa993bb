//! Hunks beside changed lines: a three-way merge.
//!
//! It merges the text the hunks were written for, that text with them, and the current text. It is looser
//! than remap in one point only: lines that have twins may have changes on one side, if enough lines on the
//! other stayed. A hunk has a place here if two independent comparisons of the texts (every shortest script,
//! and a histogram diff) put its lines at the same place and none of its lines changed. Changes that meet on
//! a line are a conflict, not a merge.

use similar::{Algorithm, DiffOp};

use crate::lines::align::Fate;
use crate::lines::line_edits::HunkPlace;
use crate::lines::remap::Remap;

/// Number of unchanged lines required next to the hunk, on one side.
const CONTEXT: usize = 3;
/// Maximum number of lines of both texts; larger texts are not merged.
const MOST: usize = 400_000;

/// A merge of two texts, computed for the first hunk that needs it.
#[derive(Default)]
pub(crate) struct Merge {
    /// The place of each 0-based old line in the new text, by a histogram diff.
    places: Option<Vec<Option<u32>>>,
}

impl Merge {
    /// The place of a hunk that remap could not place.
    pub(crate) fn find(&mut self, remap: &mut Remap<'_>, place: HunkPlace) -> Option<HunkPlace> {
        let found = match place {
            HunkPlace::Lines { first, last } => lines(remap, first, last),
            HunkPlace::Before(line) => point(remap, line - 1, false).map(HunkPlace::Before),
            HunkPlace::After(line) => point(remap, line, true).map(HunkPlace::After),
            HunkPlace::Head | HunkPlace::End => None,
        }?;
        let (old, new) = (place.lines()?, found.lines()?);
        let places = self.places.get_or_insert_with(|| histogram(remap));
        let same = (old.0..=old.1).zip(new.0..=new.1).all(|(old, new)| {
            places.get(old - 1).is_some_and(|place| *place == Some(new as u32))
                && remap.old.content(old) == remap.new.content(new)
        });
        (same && remap.stays_in_its_block(place, found)).then_some(found)
    }
}

fn lines(remap: &mut Remap<'_>, first: usize, last: usize) -> Option<HunkPlace> {
    let near = (first, last);
    let (Fate::At(start), Fate::At(end)) = (remap.fate(near, first), remap.fate(near, last)) else {
        return None;
    };
    if end.checked_sub(start)? != last - first {
        return None;
    }
    let above = (1..=CONTEXT).all(|by| stays(remap, near, first, start, by, true));
    let below = (1..=CONTEXT).all(|by| stays(remap, near, last, end, by, false));
    let proven = (above || below)
        && !remap.run_has_twin(first, last, start)
        && !remap.is_elsewhere(first, last, start);
    proven.then_some(HunkPlace::Lines { first: start, last: end })
}

/// The current place of a gap's named line, if the lines beyond the gap stayed.
fn point(remap: &mut Remap<'_>, gap: usize, upper: bool) -> Option<usize> {
    let near = (gap.max(1), (gap + 1).min(remap.old.count()));
    let (named, other) = if upper { (gap, gap + 1) } else { (gap + 1, gap) };
    let Fate::At(at) = remap.fate(near, named) else { return None };
    let proven = remap.fate(near, other) != Fate::Unsure
        && (1..=CONTEXT).all(|by| stays(remap, near, named, at, by, upper))
        && !remap.run_has_twin(named, named, at)
        && !remap.is_elsewhere(named, named, at);
    proven.then_some(at)
}

/// Whether the line `by` lines above or below `line` moved by the same distance.
fn stays(
    remap: &mut Remap<'_>,
    near: (usize, usize),
    line: usize,
    now: usize,
    by: usize,
    above: bool,
) -> bool {
    let (line, now) = if above {
        (line.checked_sub(by), now.checked_sub(by))
    } else {
        (line.checked_add(by), now.checked_add(by))
    };
    let (Some(line), Some(now)) = (line, now) else { return false };
    (1..=remap.old.count()).contains(&line) && remap.fate(near, line) == Fate::At(now)
}

fn histogram(remap: &Remap<'_>) -> Vec<Option<u32>> {
    let (old, new) = remap.alignment.lines();
    let mut places = vec![None; old.len()];
    if old.len() + new.len() > MOST {
        return places;
    }
    for op in similar::capture_diff_slices(Algorithm::Histogram, old, new) {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            for by in 0..len {
                places[old_index + by] = Some((new_index + by + 1) as u32);
            }
        }
    }
    places
}
