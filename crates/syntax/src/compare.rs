//! The errors that an edit brought: those of the text after it that the text before had not.
//!
//! A file may have been broken before, by its author or for want of a newer grammar. So errors
//! are followed through the edits, and only what has no counterpart counts.

use std::ops::Range;

use text::TextEdit;

use crate::{Stop, Stopped, SyntaxError, Tree};

/// Lines beside an edit that count as near it, in bytes of a plain line or two.
const NEAR: usize = 160;

/// A text before and after edits, by what is broken in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Whether the text before was broken anywhere.
    pub was_broken: bool,
    /// What is broken in the text after and was not before, in order, in places of the text after.
    pub new_errors: Vec<SyntaxError>,
}

impl Comparison {
    /// Parses `after`, which `edits` (in order of place, not overlapping) made of `before`, from the
    /// tree of `before`, and compares. The tree of `after` comes with it.
    ///
    /// # Errors
    /// [`Stopped`] when `stop` said so.
    pub fn of(
        tree: &Tree,
        before: &str,
        edits: &[TextEdit],
        after: &str,
        stop: Stop<'_>,
    ) -> Result<(Tree, Self), Stopped> {
        let new = tree.reparse(before, edits, after, stop)?;
        let comparison = Self::of_errors(&tree.errors(before), edits, || new.errors(after));
        Ok((new, comparison))
    }

    pub(crate) fn of_errors(
        old: &[SyntaxError],
        edits: &[TextEdit],
        new: impl FnOnce() -> Vec<SyntaxError>,
    ) -> Self {
        let mut new_errors = new();
        let grew = new_errors.len() > old.len();
        let mapped: Vec<Range<usize>> = old.iter().map(|error| follow(&error.range, edits)).collect();
        let places = written(edits);
        new_errors.retain(|error| {
            let is_old =
                mapped.iter().any(|old| old.start <= error.range.end && error.range.start <= old.end);
            // In a broken text the parser may tell the same trouble in other places than before;
            // that is not held against an edit elsewhere.
            let near = places.iter().any(|place| {
                error.range.start <= place.end.saturating_add(NEAR) && place.start <= error.range.end + NEAR
            });
            !is_old && (old.is_empty() || grew || near)
        });
        Self { was_broken: !old.is_empty(), new_errors }
    }
}

/// Where a range of the old text is now; what an edit replaced counts as what it wrote there.
fn follow(range: &Range<usize>, edits: &[TextEdit]) -> Range<usize> {
    let mut shift = 0isize;
    let (mut start, mut end) = (None, None);
    for edit in edits {
        let now = edit.range.start.saturating_add_signed(shift);
        if start.is_none() && range.start <= edit.range.end {
            let inside = edit.range.start <= range.start;
            start = Some(if inside { now } else { range.start.saturating_add_signed(shift) });
        }
        if end.is_none() && range.end < edit.range.start {
            end = Some(range.end.saturating_add_signed(shift));
        }
        if end.is_none() && range.end <= edit.range.end {
            end = Some(now + edit.new_text.len());
        }
        shift += edit.growth();
    }
    let start = start.unwrap_or_else(|| range.start.saturating_add_signed(shift));
    let end = end.unwrap_or_else(|| range.end.saturating_add_signed(shift));
    start..end.max(start)
}

/// The ranges of the new text that the edits wrote.
fn written(edits: &[TextEdit]) -> Vec<Range<usize>> {
    let mut shift = 0isize;
    edits
        .iter()
        .map(|edit| {
            let start = edit.range.start.saturating_add_signed(shift);
            shift += edit.growth();
            start..start + edit.new_text.len()
        })
        .collect()
}
