//! Lines as the model sees them: numbered, with their checks, under a header with the tag.
//!
//! Everything that names lines goes through here, so that whatever was shown can be edited.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use text::TextEdit;

use crate::refuse::LONGEST;
use crate::{FileOp, Lines, SectionPlan, Snapshot, SnapshotStore, Tag, View, furniture};

/// Lines of a snapshot under its header, as `view` has it. What lies between, before and after the
/// ranges is named in rows of its own (`… 3..=9 not shown`). Ranges may come in any order and may
/// overlap.
///
/// This only renders; [`SnapshotStore::show`] also marks the lines as seen.
pub fn render(path: &str, snapshot: &Snapshot, ranges: &[RangeInclusive<usize>], view: View) -> String {
    let mut out = format!("{}\n", view.header(path, snapshot.tag()));
    rows(&mut out, snapshot.lines(), ranges, view);
    out
}

pub(crate) fn rows(out: &mut String, lines: &Lines, ranges: &[RangeInclusive<usize>], view: View) {
    let count = lines.count();
    let mut sorted: Vec<&RangeInclusive<usize>> = ranges.iter().collect();
    sorted.sort_by_key(|range| *range.start());
    let mut next = 1;
    for range in sorted {
        let first = (*range.start()).max(next);
        let last = (*range.end()).min(count);
        if first > last {
            continue;
        }
        gap(out, next, first - 1);
        for line in first..=last {
            out.push_str(&view.row(lines, line));
            out.push('\n');
        }
        next = last + 1;
    }
    gap(out, next, count);
}

fn gap(out: &mut String, first: usize, last: usize) {
    if first <= last {
        out.push_str(&furniture::elision(first, last));
        out.push('\n');
    }
}

/// What is told of an edit that was made.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The tag of the new text; `None` when the file was deleted.
    pub tag: Option<Tag>,
    /// Header, changed lines with their new numbers and checks, and notes: what the model sees.
    pub text: String,
}

/// Lines of context around a change.
const CONTEXT: usize = 2;
/// Changed lines shown at most; the rest is named.
const MOST: usize = 120;
/// Bytes of rows shown at most, as many as a read shows; the rest is named.
pub const MOST_BYTES: usize = 50 << 10;
/// Notes told at most of one section.
const MOST_NOTES: usize = 20;

/// Records a committed section with the text that was read back, and says what it came to: `-`
/// rows for lines that went, `+` rows for new ones and context rows, numbered as they are now. The
/// lines shown count as seen.
pub fn outcome(
    store: &mut SnapshotStore,
    section: &SectionPlan,
    read_back: impl Into<Arc<str>>,
    view: View,
) -> Outcome {
    outcome_within(store, section, read_back, view, MOST_BYTES)
}

/// As [`outcome`], with at most so many bytes of rows, where several sections share what is shown.
pub fn outcome_within(
    store: &mut SnapshotStore,
    section: &SectionPlan,
    read_back: impl Into<Arc<str>>,
    view: View,
    bytes: usize,
) -> Outcome {
    let read_back = read_back.into();
    let tag = store.committed(section, read_back.clone());
    let mut text = String::new();
    match (&section.file_op, tag) {
        (FileOp::Remove, _) | (_, None) => {
            push_line(&mut text, format!("deleted {}", section.path));
        }
        (FileOp::Rename { to }, Some(tag)) => {
            push_line(&mut text, format!("renamed {} to {to}", section.path));
            changes(store, &mut text, section, (to, tag), read_back, view, bytes);
        }
        (FileOp::Keep, Some(tag)) => {
            changes(store, &mut text, section, (&section.path, tag), read_back, view, bytes);
        }
    }
    for note in section.notes.iter().take(MOST_NOTES) {
        push_line(&mut text, format!("note: {}", note.message));
    }
    if section.notes.len() > MOST_NOTES {
        push_line(&mut text, format!("note: {} more notes are left out", section.notes.len() - MOST_NOTES));
    }
    Outcome { tag, text }
}

fn changes(
    store: &mut SnapshotStore,
    text: &mut String,
    section: &SectionPlan,
    (path, tag): (&str, Tag),
    read_back: Arc<str>,
    view: View,
    bytes: usize,
) {
    push_line(text, view.header(path, tag));
    let as_planned = read_back == section.new_text;
    let (old, new) = (Lines::new(section.before.clone()), Lines::new(read_back));
    let mut edits = section.edits.clone();
    if !as_planned {
        edits = text::diff_edits(&section.before, new.text());
        text.push_str(
            "the file was changed further as it was written; the lines below are what it holds now\n",
        );
    }
    let mut rows = Rows::new(text, &new, view, bytes);
    diff(&mut rows, &old, &edits);
    for line in rows.shown {
        store.see(path, tag, line..=line);
    }
}

/// A compact diff of two texts, of which `edits` (in order of place) made the second: lines gone
/// with `-`, new lines with `+` and their numbers, two lines of context with a blank.
pub fn compact_diff(old: &Lines, new: &Lines, edits: &[TextEdit], view: View) -> String {
    let mut out = String::new();
    diff(&mut Rows::new(&mut out, new, view, MOST_BYTES), old, edits);
    out
}

/// Lines replaced and the lines that stand for them, each as first line and count.
struct Change {
    old: (usize, usize),
    new: (usize, usize),
}

/// The rows of a diff, which come to so many bytes at most.
struct Rows<'a> {
    out: &'a mut String,
    new: &'a Lines,
    view: View,
    bytes: usize,
    /// Lines of the new text that were shown.
    shown: Vec<usize>,
}

impl<'a> Rows<'a> {
    fn new(out: &'a mut String, new: &'a Lines, view: View, bytes: usize) -> Self {
        Self { out, new, view, bytes, shown: Vec::new() }
    }

    fn push(&mut self, row: &str) {
        self.bytes = self.bytes.saturating_sub(row.len() + 1);
        push_line(self.out, row);
    }

    /// Lines of the new text. A long one is named only, whole: the beginning of a line could be
    /// taken for the line.
    fn show(&mut self, sign: char, lines: RangeInclusive<usize>) {
        for line in lines {
            match self.new.content(line).len() > LONGEST {
                true => self.push(&furniture::elision(line, line)),
                false => {
                    self.push(&format!("{sign}{}", self.view.row(self.new, line)));
                    self.shown.push(line);
                }
            }
        }
    }

    fn gone(&mut self, line: &str) {
        match line.len() > LONGEST {
            true => self.push(&format!("… a line of {} bytes went", line.len())),
            false => self.push(&format!("-{line}")),
        }
    }
}

fn diff(rows: &mut Rows<'_>, old: &Lines, edits: &[TextEdit]) {
    let new = rows.new;
    let changes = line_changes(old, new, edits);
    let mut next = 1;
    let mut budget = MOST;
    for (at, change) in changes.iter().enumerate() {
        let (first, count) = change.new;
        if rows.bytes == 0 {
            rows.push(&furniture::elision(first.min(new.count()).max(1), new.count().max(1)));
            return;
        }
        let from = first.saturating_sub(CONTEXT).max(next);
        if from > next && next > 1 {
            rows.push("…");
        }
        rows.show(' ', from..=first - 1);
        let (old_first, old_count) = change.old;
        let mut removed = 0;
        while removed < old_count.min(budget) && rows.bytes > 0 {
            rows.gone(old.content(old_first + removed));
            removed += 1;
        }
        budget -= removed;
        if removed < old_count {
            rows.push(&format!("… {} more lines went", old_count - removed));
        }
        let mut added = 0;
        while added < count.min(budget) && rows.bytes > 0 {
            rows.show('+', first + added..=first + added);
            added += 1;
        }
        budget -= added;
        if added < count {
            rows.push(&furniture::elision(first + added, first + count - 1));
        }
        next = first + count;
        let until = changes.get(at + 1).map_or(usize::MAX, |change| change.new.0);
        let to = (next + CONTEXT).min(until).min(new.count() + 1);
        rows.show(' ', next..=to - 1);
        next = next.max(to);
    }
}

/// The edits as changes of whole lines, joined where they touch, narrowed to lines that differ.
fn line_changes(old: &Lines, new: &Lines, edits: &[TextEdit]) -> Vec<Change> {
    // Byte ranges of whole lines in the old text, with what the text grew by before and after.
    let mut regions: Vec<(Range<usize>, isize, isize)> = Vec::new();
    let mut grown = 0isize;
    for edit in edits {
        let start = old.start(old.line_of(edit.range.start)).min(edit.range.start);
        let before = grown;
        grown += edit.growth();
        // An edit that ends where a line begins, before and after it, leaves that line alone.
        let now = edit.range.end.saturating_add_signed(grown);
        let begins = |lines: &Lines, at: usize| lines.start(lines.line_of(at)) == at;
        let end = match begins(old, edit.range.end) && begins(new, now) {
            true => edit.range.end,
            false => old.range(old.line_of(edit.range.end)).end.max(edit.range.end),
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

/// First line and number of lines of a range of bytes that begins with a line.
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

pub(crate) fn push_line(out: &mut String, line: impl AsRef<str>) {
    out.push_str(line.as_ref());
    out.push('\n');
}
