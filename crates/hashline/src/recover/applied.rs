//! Hunks whose result is in the text already, no matter who made it.
//!
//! This concerns hunks without a place. The text that the hunks would have made is compared with the current
//! text:
//! if a hunk's rows are there, between the same neighbours, and no shortest script keeps any of the lines to
//! replace, nothing is left to do. A line that merely moved is missing in the comparison but not in the text:
//! it is still to be changed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Lines;
use crate::lines::align::Fate;
use crate::lines::line_edits::{self, Hunk};
use crate::lines::remap::Remap;

/// Whether the result of each requested hunk is in `remap.new`.
pub(crate) fn applied(remap: &mut Remap<'_>, hunks: &[Hunk], wanted: &[bool]) -> Vec<bool> {
    let mut found = vec![false; hunks.len()];
    let candidates: Vec<usize> =
        (0..hunks.len()).filter(|at| wanted[*at] && is_replaced(remap, &hunks[*at])).collect();
    if candidates.is_empty() {
        return found;
    }
    let old = remap.old;
    let Ok(made) = text::apply(old.text(), &line_edits::edits(old, hunks)) else { return found };
    let made = Lines::new(Arc::from(made));
    let mut after = Remap::new(&made, remap.new);
    let mut grown = 0isize;
    for (at, hunk) in line_edits::sorted(hunks, old.count()) {
        let (gap, removed) = line_edits::extent(&hunk.place, old.count());
        let above = gap.saturating_add_signed(grown);
        grown += hunk.rows.len() as isize - removed as isize;
        if candidates.contains(&at) {
            found[at] = has_rows(&mut after, above, &hunk.rows);
        }
    }
    found
}

/// Whether no line that the hunk changes is left.
///
/// An insertion counts if no twin of the lines around it may have come instead.
pub(crate) fn is_replaced(remap: &mut Remap<'_>, hunk: &Hunk) -> bool {
    let change = line_edits::region(remap.old, hunk);
    let near = (change.after.max(1), (change.to + 1).min(remap.old.count()));
    if change.after == change.to {
        return [change.after, change.to + 1].iter().all(|line| remap.fate(near, *line) != Fate::Unsure);
    }
    (change.after + 1..=change.to).all(|line| remap.fate(near, line) == Fate::Gone)
}

/// Whether a line that each hunk removes moved elsewhere.
///
/// One did if the new text has the line more often than the hunks in `made` explain, whatever its
/// indentation. If a hunk removes lines with a word in them, others (closing brackets, for example)
/// are not counted.
pub(crate) fn leaves(hunks: &[Hunk], made: &[bool], old: &Lines, new: &Lines) -> Vec<bool> {
    let removed: Vec<Vec<&str>> = hunks.iter().map(|hunk| removed(old, hunk)).collect();
    let mut surplus: HashMap<&str, isize> = removed.iter().flatten().map(|line| (*line, 0)).collect();
    let mut count = |line: &str, by: isize| {
        if let Some(surplus) = surplus.get_mut(line.trim()) {
            *surplus += by;
        }
    };
    (1..=new.count()).for_each(|line| count(new.content(line), 1));
    (1..=old.count()).for_each(|line| count(old.content(line), -1));
    for (hunk, _) in hunks.iter().zip(made).filter(|(_, made)| **made) {
        let change = line_edits::region(old, hunk);
        (change.after + 1..=change.to).for_each(|line| count(old.content(line), 1));
        change.rows.iter().for_each(|(row, _)| count(row, -1));
    }
    let left = |line: &&str| surplus.get(line).is_some_and(|surplus| *surplus > 0);
    removed.iter().map(|lines| lines.iter().any(left)).collect()
}

/// The lines, without indentation, that a hunk removes on balance.
fn removed<'a>(old: &'a Lines, hunk: &Hunk) -> Vec<&'a str> {
    let change = line_edits::region(old, hunk);
    let mut kept: HashMap<&str, usize> = HashMap::new();
    for (row, _) in &change.rows {
        *kept.entry(row.trim()).or_default() += 1;
    }
    let lines = (change.after + 1..=change.to).map(|line| old.content(line).trim());
    let mut lines: Vec<&str> = lines
        .filter(|line| match kept.get_mut(line) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => !line.is_empty(),
        })
        .collect();
    let has_word = |line: &str| line.chars().any(char::is_alphanumeric);
    if lines.iter().any(|line| has_word(line)) {
        lines.retain(|line| has_word(line));
    }
    lines
}

/// Whether the new text has the rows after line `above`, and the lines around them.
fn has_rows(after: &mut Remap<'_>, above: usize, rows: &[String]) -> bool {
    let below = above + rows.len() + 1;
    let near = (above.max(1), below.min(after.old.count()));
    let Fate::At(at) = after.fate(near, above) else { return false };
    after.fate(near, below) == Fate::At(at + rows.len() + 1)
        && rows.iter().zip(at + 1..).all(|(row, line)| after.new.content(line) == row)
}
