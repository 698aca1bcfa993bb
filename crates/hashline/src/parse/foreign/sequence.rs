//! The comparison of two readings of several changes of a text.
//!
//! Each change may name the text that was shown, or the text after the changes before it.

use crate::Lines;
use crate::parse::foreign::change::{Change, occurrences};

/// The lines after the changes so far.
pub(super) struct Sequence {
    lines: Vec<String>,
    /// The changes so far, without rows that stay.
    changes: Vec<Applied>,
}

/// The first line of a change, the number of removed lines, and the new rows.
type Applied = (usize, usize, Vec<String>);

impl Sequence {
    pub(super) fn new(lines: &Lines) -> Self {
        let lines = (1..=lines.count()).map(|line| lines.content(line).to_owned()).collect();
        Self { lines, changes: Vec::new() }
    }

    /// Applies a change whose old text is still at its place, and not at another one.
    pub(super) fn add(&mut self, path: &str, change: &Change) -> Result<(), String> {
        let (head, tail) = change.equal_rows();
        let (first, removed) = (change.first + head, change.old.len() - head - tail);
        let applied = (first, removed, change.new[head..change.new.len() - tail].to_vec());
        let line = change.first;
        if self.changes.contains(&applied) {
            return Err(format!(
                "two edits make the same change at line {first} of {path}; write it once, or put rows that occur twice into one edit\n"
            ));
        }
        let found = if self.changes.is_empty() { vec![line] } else { self.places(change) };
        if found.iter().any(|place| *place != self.now(line)) {
            return Err(format!(
                "the old text at line {line} of {path} also occurs elsewhere after the earlier edits; send each edit in its own call\n"
            ));
        }
        if found.is_empty() {
            return Err(format!(
                "an earlier edit changes the old text at line {line} of {path}; write both as one edit\n"
            ));
        }
        let at = (self.now(first) - 1).min(self.lines.len());
        self.lines.splice(at..(at + removed).min(self.lines.len()), applied.2.iter().cloned());
        self.changes.push(applied);
        Ok(())
    }

    /// The number that a shown line has now.
    fn now(&self, line: usize) -> usize {
        let above = self.changes.iter().filter(|(first, removed, _)| first + removed <= line);
        let shifts = above.map(|(_, removed, body)| body.len() as isize - *removed as isize);
        line.saturating_add_signed(shifts.sum()).max(1)
    }

    /// The lines at which the old text of a change occurs.
    fn places(&self, change: &Change) -> Vec<usize> {
        let text = self.lines.join("\n") + "\n";
        if let Some(part) = &change.part {
            return occurrences(&text, part)
                .into_iter()
                .map(|at| text[..at].matches('\n').count() + 1)
                .collect();
        }
        let windows = self.lines.windows(change.old.len().max(1)).enumerate();
        windows.filter(|(_, rows)| *rows == change.old).map(|(at, _)| at + 1).collect()
    }
}
