//! Changed lines of a text as a compact diff.

use std::ops::{Range, RangeInclusive};

use text::TextEdit;

use crate::parse::display_markup;
use crate::render::{LONGEST, push_line};
use crate::{Lines, View};

/// Maximum number of changed lines shown; the rest is summarized.
const MOST: usize = 120;
/// Maximum bytes of rows shown, as many as a read shows; the rest is summarized.
pub const MOST_BYTES: usize = 50 << 10;
/// The new rows of a text; ordered `edits` made it from `old`.
///
/// The model wrote the edit, so that removed lines are only counted.
pub fn compact_diff(old: &Lines, new: &Lines, edits: &[TextEdit], view: View) -> String {
    let mut out = String::new();
    diff(&mut Rows::new(&mut out, new, view, MOST_BYTES), old, edits);
    out
}

/// Replaced lines and their replacement, each as first line and count.
struct Change {
    old: (usize, usize),
    new: (usize, usize),
}

/// The rows of a diff, limited to `bytes` bytes.
pub(crate) struct Rows<'a> {
    out: &'a mut String,
    new: &'a Lines,
    view: View,
    bytes: usize,
    /// Lines of the new text that were shown.
    pub shown: Vec<usize>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(out: &'a mut String, new: &'a Lines, view: View, bytes: usize) -> Self {
        Self { out, new, view, bytes, shown: Vec::new() }
    }

    fn push(&mut self, row: &str) {
        self.bytes = self.bytes.saturating_sub(row.len() + 1);
        push_line(self.out, row);
    }

    /// Shows lines of the new text.
    ///
    /// A long line is only named, because its beginning could be mistaken for the whole line.
    fn show(&mut self, lines: RangeInclusive<usize>) {
        for line in lines {
            if self.new.content(line).len() > LONGEST {
                self.push(&display_markup::elision(line, line));
            } else {
                self.push(&self.view.row_after(self.shown.last().copied(), self.new, line));
                self.shown.push(line);
            }
        }
    }
}

pub(crate) fn diff(rows: &mut Rows<'_>, old: &Lines, edits: &[TextEdit]) {
    let mut budget = MOST;
    for change in line_changes(old, rows.new, edits) {
        let (first, count) = change.new;
        if rows.bytes == 0 {
            let last = rows.new.count().max(1);
            rows.push(&display_markup::elision(first.min(last).max(1), last));
            return;
        }
        let mut added = 0;
        while added < count.min(budget) && rows.bytes > 0 {
            rows.show(first + added..=first + added);
            added += 1;
        }
        budget -= added;
        if added < count {
            rows.push(&display_markup::elision(first + added, first + count - 1));
        }
        if count == 0 {
            let removed = change.old.1;
            let lines = if removed == 1 { "line" } else { "lines" };
            rows.push(&format!("… {removed} {lines} removed before {first}"));
        }
    }
}

/// The edits as changes of whole lines, joined if adjacent, without equal lines.
fn line_changes(old: &Lines, new: &Lines, edits: &[TextEdit]) -> Vec<Change> {
    // Byte ranges of whole lines in the old text, with the growth of the text before and after.
    let mut regions: Vec<(Range<usize>, isize, isize)> = Vec::new();
    let mut grown = 0isize;
    for edit in edits {
        let start = old.start(old.line_of(edit.range.start)).min(edit.range.start);
        let before = grown;
        grown += edit.growth();
        // An edit that ends where a line begins, before and after it, does not touch that line.
        let now = edit.range.end.saturating_add_signed(grown);
        let begins = |lines: &Lines, at: usize| lines.start(lines.line_of(at)) == at;
        let end = if begins(old, edit.range.end) && begins(new, now) {
            edit.range.end
        } else {
            old.range(old.line_of(edit.range.end)).end.max(edit.range.end)
        };
        match regions.last_mut() {
            Some((range, _, after)) if start < range.end => {
                range.end = range.end.max(end);
                *after = grown;
            }
            _ => regions.push((start..end, before, grown)),
        }
    }
    let mut changes: Vec<Change> = regions
        .into_iter()
        .map(|(range, before, after)| {
            let now = range.start.saturating_add_signed(before)..range.end.saturating_add_signed(after);
            Change { old: lines_of(old, range), new: lines_of(new, now) }
        })
        .collect();
    for change in &mut changes {
        narrow(old, new, change);
    }
    changes.retain(|change| change.old.1 + change.new.1 > 0);
    changes
}

/// The first line and the number of lines of a byte range that begins with a line.
fn lines_of(lines: &Lines, range: Range<usize>) -> (usize, usize) {
    let first = lines.line_of(range.start);
    let end = if range.is_empty() { first } else { lines.line_of(range.end - 1) + 1 };
    (first, end - first)
}

fn narrow(old: &Lines, new: &Lines, change: &mut Change) {
    while change.old.1 > 0 && change.new.1 > 0 && old.content(change.old.0) == new.content(change.new.0) {
        change.old = (change.old.0 + 1, change.old.1 - 1);
        change.new = (change.new.0 + 1, change.new.1 - 1);
    }
    let last = |(first, count): (usize, usize)| first + count - 1;
    while change.old.1 > 0
        && change.new.1 > 0
        && old.content(last(change.old)) == new.content(last(change.new))
    {
        change.old.1 -= 1;
        change.new.1 -= 1;
    }
}
