//! Whether the texts alone decide how to carry over a change.
//!
//! If lines have twins, one pair of texts has several histories: a block copied right below itself may as
//! well have been copied right above. A patch against the older text then means this line or that one, and in
//! both cases the engine gets the very same input. This module examines all shortest histories, which remove
//! and add the fewest lines: if one of them puts the lines of a hunk elsewhere than the actual history, or
//! removes them, and the patch would give another text there, then that pair of histories proves that the
//! case is undecidable.
//!
//! It uses its own table of costs, which shares nothing with any engine. Longer histories prove nothing here.

use std::ops::Range;

/// Maximum number of table entries.
///
/// Larger texts that differ more count as decidable.
const MOST: usize = 30_000_000;

/// A hunk of a patch against the older text, and its place in the newer, from 0.
#[derive(Debug, Clone)]
pub(crate) struct Hunk<'a> {
    /// The named lines, in the older text.
    pub(crate) old: Range<usize>,
    /// The first of them in the newer text.
    pub(crate) at: usize,
    pub(crate) side: Side,
    pub(crate) rows: &'a [&'a str],
}

/// The place of the rows relative to the named lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Instead,
    Above,
    Below,
}

/// Whether another shortest history gives another result, or no place for a hunk.
pub(crate) fn are_undecidable(old: &[&str], new: &[&str], hunks: &[Hunk<'_>]) -> bool {
    let Some(costs) = Costs::new(old, new) else { return false };
    hunks.iter().any(|hunk| {
        let expected = made(new, hunk, hunk.at);
        hunk.old.clone().enumerate().any(|(by, line)| {
            let elsewhere = |column: usize| {
                let at = column.checked_sub(by);
                column != hunk.at + by
                    && at.is_none_or(|at| !stand(old, new, hunk, at) || made(new, hunk, at) != expected)
            };
            costs.may_go(line) || costs.may_stay_as(old, new, line).any(elsewhere)
        })
    })
}

fn stand(old: &[&str], new: &[&str], hunk: &Hunk<'_>, at: usize) -> bool {
    new.get(at..at + hunk.old.len()) == Some(&old[hunk.old.clone()])
}

/// The newer text with the hunk applied at `at`.
fn made<'a>(new: &[&'a str], hunk: &Hunk<'a>, at: usize) -> Vec<&'a str> {
    let end = at + hunk.old.len();
    let (from, to) = match hunk.side {
        Side::Instead => (at, end),
        Side::Above => (at, at),
        Side::Below => (end, end),
    };
    [&new[..from], hunk.rows, &new[to..]].concat()
}

/// Minimal costs from the start to each pair of positions, and on to the end.
///
/// Only for places that a shortest history can reach.
struct Costs {
    least: u32,
    forward: Band,
    backward: Band,
    counts: (usize, usize),
}

/// Costs near the diagonal of the table.
struct Band {
    width: usize,
    rows: Vec<u32>,
}

const FAR: u32 = u32::MAX / 4;

impl Costs {
    fn new<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Self> {
        let mut width = 16.max(old.len().abs_diff(new.len()));
        loop {
            let forward = Band::new(old, new, width)?;
            let least = forward.at(old.len(), new.len());
            if least as usize <= width {
                let back = |lines: &[&'a str]| -> Vec<&'a str> { lines.iter().rev().copied().collect() };
                let backward = Band::new(&back(old), &back(new), width)?;
                return Some(Self { least, forward, backward, counts: (old.len(), new.len()) });
            }
            width *= 2;
        }
    }

    fn rest(&self, row: usize, column: usize) -> u32 {
        self.backward.at(self.counts.0 - row, self.counts.1 - column)
    }

    fn columns(&self, row: usize) -> Range<usize> {
        row.saturating_sub(self.forward.width)..(row + self.forward.width + 1).min(self.counts.1 + 1)
    }

    /// Whether a shortest history may remove the line.
    fn may_go(&self, line: usize) -> bool {
        self.columns(line)
            .any(|column| self.forward.at(line, column) + 1 + self.rest(line + 1, column) == self.least)
    }

    /// The lines as which shortest histories keep the line.
    fn may_stay_as<'a>(
        &'a self,
        old: &'a [&str],
        new: &'a [&str],
        line: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        self.columns(line).filter(move |column| {
            new.get(*column) == Some(&old[line])
                && self.forward.at(line, *column) + self.rest(line + 1, column + 1) == self.least
        })
    }
}

impl Band {
    fn new(old: &[&str], new: &[&str], width: usize) -> Option<Self> {
        let across = 2 * width + 1;
        if across.saturating_mul(old.len() + 1) > MOST {
            return None;
        }
        let mut band = Self { width, rows: vec![FAR; across * (old.len() + 1)] };
        for row in 0..=old.len() {
            for column in row.saturating_sub(width)..=(row + width).min(new.len()) {
                let mut cost = if row + column == 0 { 0 } else { FAR };
                if column > 0 {
                    cost = cost.min(band.at(row, column - 1) + 1);
                }
                if row > 0 {
                    cost = cost.min(band.at(row - 1, column) + 1);
                }
                if row > 0 && column > 0 && old[row - 1] == new[column - 1] {
                    cost = cost.min(band.at(row - 1, column - 1));
                }
                band.rows[row * across + column + width - row] = cost;
            }
        }
        Some(band)
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        match (column + self.width).checked_sub(row) {
            Some(at) if at <= 2 * self.width => self.rows[row * (2 * self.width + 1) + at],
            _ => FAR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// All histories, each as pairs of kept lines in the older and the newer text.
    fn histories(old: &[&str], new: &[&str]) -> Vec<Vec<(usize, usize)>> {
        let mut all = vec![Vec::new()];
        for (line, content) in old.iter().enumerate() {
            let mut more = Vec::new();
            for history in &all {
                let from = history.last().map_or(0, |(_, column)| column + 1);
                let stays = (from..new.len()).filter(|column| new[*column] == *content);
                more.extend(stays.map(|column| [history.as_slice(), &[(line, column)]].concat()));
            }
            all.extend(more);
        }
        let longest = all.iter().map(Vec::len).max().unwrap_or(0);
        all.retain(|history| history.len() == longest);
        all
    }

    /// The result of a hunk in a history; `None` if its lines are not kept together.
    fn outcome<'a>(history: &[(usize, usize)], new: &[&'a str], hunk: &Hunk<'a>) -> Option<Vec<&'a str>> {
        let place = |line: usize| history.iter().find(|(old, _)| *old == line).map(|(_, column)| *column);
        let at = place(hunk.old.start)?;
        hunk.old
            .clone()
            .enumerate()
            .all(|(by, line)| place(line) == Some(at + by))
            .then(|| made(new, hunk, at))
    }

    /// Checks the full proof: two histories of the same texts need different results.
    #[test]
    fn undecidable_cases_have_two_histories() {
        let mut random = Random(5);
        let mut counts = [0; 2];
        for _ in 0..4_000 {
            let letters = ["a", "b", "c"];
            let mut text = |most: usize| -> Vec<&str> {
                (0..1 + random.below(most)).map(|_| letters[random.below(3)]).collect()
            };
            let (old, new) = (text(6), text(7));
            let all = histories(&old, &new);
            let written = &all[random.below(all.len())];
            let Some((line, column)) = written.get(random.below(written.len())).copied() else { continue };
            let side = [Side::Instead, Side::Above, Side::Below][random.below(3)];
            let rows = [&["x"][..], &["a"], &[]][random.below(3)];
            let hunk = Hunk { old: line..line + 1, at: column, side, rows };
            let expected = outcome(written, &new, &hunk);
            let another = all.iter().any(|history| outcome(history, &new, &hunk) != expected);
            assert_eq!(
                are_undecidable(&old, &new, std::slice::from_ref(&hunk)),
                another,
                "{old:?} {new:?} {hunk:?}"
            );
            counts[usize::from(another)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 500), "{counts:?}");
    }

    #[test]
    fn a_copy_below_equals_a_copy_above() {
        let hunk = |old: Range<usize>, at| Hunk { old, at, side: Side::Instead, rows: &["x"] };
        let (old, new) = (["1", "a", "b", "2"], ["1", "a", "b", "a", "b", "2"]);
        for at in [1, 3] {
            assert!(are_undecidable(&old, &new, &[hunk(1..3, at)]));
        }
        assert!(!are_undecidable(&old, &new, &[hunk(0..1, 0), hunk(3..4, 5)]));
        // Either of two equal lines may be removed, with the same result.
        let cut = Hunk { old: 1..2, at: 1, side: Side::Instead, rows: &[] };
        assert!(!are_undecidable(&["1", "a", "2"], &["1", "a", "a", "2"], &[cut]));
    }

    #[test]
    fn a_shorter_history_outweighs_the_recorded_one() {
        // The head moved down over two of the lines, or two of them moved up over it.
        let (old, new) = (["h", "a", "a", "a", "t"], ["a", "a", "h", "a", "t"]);
        let hunk = Hunk { old: 1..2, at: 3, side: Side::Instead, rows: &["x"] };
        assert!(are_undecidable(&old, &new, &[hunk]));
    }
}
