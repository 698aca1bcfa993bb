//! Rendering for the model: lines with numbers and checks, refusals, descriptions.
//!
//! All output that names lines comes from here, so that every line shown can be edited.

pub(crate) mod description;
pub(crate) mod diff;
pub(crate) mod print;
pub(crate) mod refusal;

use std::ops::RangeInclusive;

use crate::{Lines, Snapshot, SnapshotStore, Tag, View};

/// Maximum length of a line that a refusal shows, in bytes.
pub(crate) const LONGEST: usize = 2_000;

/// Lines of a snapshot under its header, in the form of `view`.
///
/// Lines between ranges have no marker, since every row has its number. Ranges may come in any order and may
/// overlap.
///
/// This only renders; [`SnapshotStore::show`] also marks the lines as seen.
pub fn render(path: &str, snapshot: &Snapshot, ranges: &[RangeInclusive<usize>], view: View) -> String {
    let mut out = format!("{}\n", view.header(path, snapshot.tag()));
    rows(&mut out, snapshot.lines(), ranges, view);
    out
}

impl SnapshotStore {
    /// Renders lines of a version like [`render`](render()) and marks them as seen.
    ///
    /// Returns `None` if the version's text is not stored.
    pub fn show(
        &mut self,
        path: &str,
        tag: Tag,
        ranges: &[RangeInclusive<usize>],
        view: View,
    ) -> Option<String> {
        let snapshot = self.get(path, tag)?;
        for range in ranges {
            self.see(path, tag, range.clone());
        }
        Some(render(path, &snapshot, ranges, view))
    }
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
        for line in first..=last {
            let before = (line > first || first == next).then(|| line - 1).filter(|before| *before > 0);
            push_line(out, view.row_after(before, lines, line));
        }
        next = last + 1;
    }
}

pub(crate) fn push_line(out: &mut String, line: impl AsRef<str>) {
    out.push_str(line.as_ref());
    out.push('\n');
}
