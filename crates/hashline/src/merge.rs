//! Hunks beside lines that changed: a three-way merge of the text they were written for, that text
//! with them, and the text as it is now.
//!
//! Looser than remap in one thing only: unchanged context may stand a few lines off. A hunk has a
//! place here when two independent ways of comparing the texts (every cheapest way, and a histogram
//! diff) put its lines at the same place, none of its lines changed, and there is unchanged context
//! near. Changes that meet on a line, or at one point, are no merge but a conflict.

use similar::{Algorithm, DiffOp};

use crate::align::Fate;
use crate::remap::Remap;
use crate::surgery::Place;

/// How far from the hunk an unchanged line still counts as its context.
const NEAR: usize = 3;
/// Lines of both texts together beyond which no second comparison is made, and nothing is merged.
const MOST: usize = 400_000;

/// A merge of two texts, made when the first hunk asks for it.
#[derive(Default)]
pub(crate) struct Merge {
    /// By 0-based line of the old text: where a histogram diff puts it in the new one.
    places: Option<Vec<Option<u32>>>,
}

impl Merge {
    /// The place of a hunk for which remap found none.
    pub(crate) fn find(&mut self, remap: &mut Remap<'_>, place: Place) -> Option<Place> {
        let found = match place {
            Place::Lines { first, last } => lines(remap, first, last),
            Place::Before(line) => point(remap, line - 1, false).map(Place::Before),
            Place::After(line) => point(remap, line, true).map(Place::After),
            Place::Head | Place::End => None,
        }?;
        let (old, new) = (place.lines()?, found.lines()?);
        let places = self.places.get_or_insert_with(|| histogram(remap));
        let same = (old.0..=old.1).zip(new.0..=new.1).all(|(old, new)| {
            places.get(old - 1).is_some_and(|place| *place == Some(new as u32))
                && remap.old.content(old) == remap.new.content(new)
        });
        same.then_some(found)
    }
}

fn lines(remap: &mut Remap<'_>, first: usize, last: usize) -> Option<Place> {
    let near = (first, last);
    let (Fate::At(start), Fate::At(end)) = (remap.fate(near, first), remap.fate(near, last)) else {
        return None;
    };
    if end.checked_sub(start)? != last - first {
        return None;
    }
    let above = remap.fate(near, first - 1) == Fate::At(start - 1);
    let below = remap.fate(near, last + 1) == Fate::At(end + 1);
    let proven = if above || below {
        !remap.run_has_twin(first, last, start)
    } else {
        !remap.has_twin(first, last, start) && context(remap, near, first, last)
    };
    proven.then_some(Place::Lines { first: start, last: end })
}

/// The line now at which a named line of the gap stands, where its other neighbour is gone.
fn point(remap: &mut Remap<'_>, gap: usize, upper: bool) -> Option<usize> {
    let near = (gap.max(1), (gap + 1).min(remap.old.count()));
    let (named, other) = if upper { (gap, gap + 1) } else { (gap + 1, gap) };
    let Fate::At(at) = remap.fate(near, named) else { return None };
    let gone = remap.fate(near, other) == Fate::Gone;
    (gone && !remap.run_has_twin(named, named, at)).then_some(at)
}

/// Whether an unchanged line stands within a few lines of the hunk, on either side.
fn context(remap: &mut Remap<'_>, near: (usize, usize), first: usize, last: usize) -> bool {
    let above = first.saturating_sub(NEAR).max(1)..first;
    let below = last + 1..(last + 1 + NEAR).min(remap.old.count() + 1);
    above.chain(below).any(|line| matches!(remap.fate(near, line), Fate::At(_)))
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
