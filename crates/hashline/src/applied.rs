//! Hunks whose result stands in the text already, whoever made it.
//!
//! Asked only for hunks that have no place. The text that the hunks would have made is compared
//! with the text as it is: where a hunk's rows stand there, between the same neighbours, and no
//! cheapest way leaves any of the lines that they were to replace, there is nothing left to do.

use std::sync::Arc;

use crate::Lines;
use crate::align::Fate;
use crate::remap::Remap;
use crate::surgery::{self, Hunk, Place};

/// For each hunk whether its result stands in `remap.new`.
pub(crate) fn applied(remap: &mut Remap<'_>, hunks: &[Hunk], wanted: &[bool]) -> Vec<bool> {
    let mut found = vec![false; hunks.len()];
    let candidates: Vec<usize> =
        (0..hunks.len()).filter(|at| wanted[*at] && is_replaced(remap, &hunks[*at])).collect();
    if candidates.is_empty() {
        return found;
    }
    let old = remap.old;
    let Ok(made) = text::apply(old.text(), &surgery::edits(old, hunks)) else { return found };
    let made = Lines::new(Arc::from(made));
    let mut after = Remap::new(&made, remap.new);
    let mut grown = 0isize;
    for (at, hunk) in surgery::sorted(hunks, old.count()) {
        let (gap, removed) = surgery::extent(&hunk.place, old.count());
        let above = gap.saturating_add_signed(grown);
        grown += hunk.rows.len() as isize - removed as isize;
        if candidates.contains(&at) {
            found[at] = stands(&mut after, above, &hunk.rows);
        }
    }
    found
}

/// Whether no line that the hunk changes is left.
fn is_replaced(remap: &mut Remap<'_>, hunk: &Hunk) -> bool {
    let Place::Lines { first, last } = hunk.place else { return true };
    let (old, rows) = (remap.old, &hunk.rows);
    let most = (last + 1 - first).min(rows.len());
    let head = (0..most).take_while(|by| old.content(first + by) == rows[*by]).count();
    let tail = (0..most - head).take_while(|by| old.content(last - by) == rows[rows.len() - 1 - by]).count();
    (first + head..=last - tail).all(|line| remap.fate((first, last), line) == Fate::Gone)
}

/// Whether the rows after line `above`, and the lines around them, are in the new text.
fn stands(after: &mut Remap<'_>, above: usize, rows: &[String]) -> bool {
    let below = above + rows.len() + 1;
    let near = (above.max(1), below.min(after.old.count()));
    let Fate::At(at) = after.fate(near, above) else { return false };
    after.fate(near, below) == Fate::At(at + rows.len() + 1)
        && rows.iter().zip(at + 1..).all(|(row, line)| after.new.content(line) == row)
}
