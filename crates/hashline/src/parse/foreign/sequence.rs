//! The comparison of two readings of several changes of a text.
//!
//! Each change may name the text that was shown, or the text after the changes before it.

use crate::Lines;
use crate::parse::foreign::change::{Change, occurrences};

/// The lines after the changes so far.
pub(super) struct Sequence {
    lines: Vec<String>,
    /// For each change, the shown line below it and the number of lines that it adds.
    shifts: Vec<(usize, isize)>,
}

impl Sequence {
    pub(super) fn new(lines: &Lines) -> Self {
        let lines = (1..=lines.count()).map(|line| lines.content(line).to_owned()).collect();
        Self { lines, shifts: Vec::new() }
    }

    /// Applies a change whose old text is not at another place by now.
    pub(super) fn add(&mut self, path: &str, change: &Change) -> Result<(), String> {
        let found = if self.shifts.is_empty() { Vec::new() } else { self.places(change) };
        if found.iter().any(|line| *line != self.now(change.first)) {
            return Err(format!(
                "the old text at line {} of {path} also occurs elsewhere after the earlier edits; send each edit in its own call\n",
                change.first
            ));
        }
        let (head, tail) = change.equal_rows();
        let (first, removed) = (change.first + head, change.old.len() - head - tail);
        let body = &change.new[head..change.new.len() - tail];
        let at = (self.now(first) - 1).min(self.lines.len());
        self.lines.splice(at..(at + removed).min(self.lines.len()), body.iter().cloned());
        self.shifts.push((first + removed, body.len() as isize - removed as isize));
        Ok(())
    }

    /// The number that a shown line has now.
    fn now(&self, line: usize) -> usize {
        let above = self.shifts.iter().filter(|(end, _)| *end <= line);
        line.saturating_add_signed(above.map(|(_, more)| more).sum()).max(1)
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
