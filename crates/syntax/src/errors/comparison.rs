//! The errors that an edit introduced, which the text before it did not have.
//!
//! A file may have been broken before, by its author or because its grammar is outdated. So errors
//! are mapped through the edits, and only those without a counterpart count.

use std::ops::Range;

use text::TextEdit;

use crate::{Stop, Stopped, SyntaxError, Tree};

/// Maximum distance in bytes at which a place is near an edit: a plain line or two.
const NEAR: usize = 160;

/// A comparison of the errors before and after edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Whether the text before was broken anywhere.
    pub was_broken: bool,
    /// The new errors, in order, with places in the text after.
    pub new_errors: Vec<SyntaxError>,
}

impl Comparison {
    /// Parses `after`, which `edits` produced from `before`, and compares the errors.
    ///
    /// The edits are in order of position and do not overlap. Parsing starts from the tree of
    /// `before`. Also returns the tree of `after`.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if `stop` returned true.
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
            // In a broken text the parser may report the same fault at another place than before.
            // That does not count against an edit elsewhere.
            let near = places.iter().any(|place| {
                error.range.start <= place.end.saturating_add(NEAR) && place.start <= error.range.end + NEAR
            });
            !is_old && (old.is_empty() || grew || near)
        });
        Self { was_broken: !old.is_empty(), new_errors }
    }
}

/// Maps an old range to the new text; replaced text maps to its replacement.
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
