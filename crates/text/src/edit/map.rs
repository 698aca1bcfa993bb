//! Mapping of places through edits.
//!
//! Mapping is exact or refused: a range that an edit touches has no place in the new text.

use std::ops::Range;

use crate::TextEdit;

/// The side to which a place sticks when text is inserted exactly there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gravity {
    /// The place stays before the insertion.
    Left,
    /// The place moves after it.
    Right,
}

/// The position of `offset` after `edits`; `None` if inside a replaced range.
///
/// The edits must be in order of position and must not overlap.
pub(crate) fn map_offset(offset: usize, edits: &[TextEdit], gravity: Gravity) -> Option<usize> {
    let mut shift = 0isize;
    for edit in edits {
        let Range { start, end } = edit.range;
        if start > offset || (start == offset && gravity == Gravity::Left) {
            break;
        }
        if start < offset && offset < end {
            return None;
        }
        if start == offset && end > start {
            // The text after the place was replaced: the place stays before it.
            break;
        }
        shift += edit.growth();
    }
    Some(offset.saturating_add_signed(shift))
}

/// The range after `edits`; `None` if an edit changed it or inserted inside.
///
/// An insertion at either end stays outside. An empty range is a position with gravity to the right.
pub fn map_range(range: Range<usize>, edits: &[TextEdit]) -> Option<Range<usize>> {
    let touched = edits.iter().any(|edit| {
        let Range { start, end } = edit.range;
        if start == end {
            range.start < start && start < range.end
        } else {
            start < range.end && range.start < end
        }
    });
    if touched {
        return None;
    }
    let start = map_offset(range.start, edits, Gravity::Right)?;
    Some(start..start + range.len())
}

/// Edits prepared for mapping many ranges, each in logarithmic time.
#[derive(Debug)]
pub struct EditMap<'a> {
    edits: &'a [TextEdit],
    /// The growth by all edits before each, and by all.
    shifts: Vec<isize>,
}

impl<'a> EditMap<'a> {
    /// Prepares `edits`, which must be in order of position and must not overlap.
    pub fn new(edits: &'a [TextEdit]) -> Self {
        let growths = edits.iter().scan(0, |shift, edit| {
            *shift += edit.growth();
            Some(*shift)
        });
        Self { edits, shifts: std::iter::once(0).chain(growths).collect() }
    }

    /// Maps a range like [`map_range`].
    pub fn range(&self, range: Range<usize>) -> Option<Range<usize>> {
        let first = self.edits.partition_point(|edit| edit.range.end < range.start);
        let end = self.edits.partition_point(|edit| edit.range.start <= range.end).max(first);
        let mapped = map_range(range, &self.edits[first..end])?;
        let shift = |offset: usize| offset.saturating_add_signed(self.shifts[first]);
        Some(shift(mapped.start)..shift(mapped.end))
    }

    /// The edit that replaces the text around `offset`, and where its new text starts.
    pub fn around(&self, offset: usize) -> Option<(&'a TextEdit, usize)> {
        let at = self.edits.partition_point(|edit| edit.range.end <= offset);
        let edit = self.edits.get(at).filter(|edit| edit.range.start < offset)?;
        Some((edit, edit.range.start.saturating_add_signed(self.shifts[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prepared_edits_map_as_the_list_does(
            cuts in prop::collection::vec((0usize..9, 0usize..4, "[xy]{0,3}"), 0..6),
            from in 0usize..40,
            len in 0usize..6,
        ) {
            let mut at = 0;
            let edits: Vec<TextEdit> = cuts
                .into_iter()
                .map(|(gap, len, text)| {
                    let start = at + gap;
                    at = start + len;
                    TextEdit::replace(start..at, text)
                })
                .collect();
            prop_assert_eq!(EditMap::new(&edits).range(from..from + len), map_range(from..from + len, &edits));
        }
    }

    #[test]
    fn gravity_decides_at_an_insertion() {
        let edits = [TextEdit::insert(2, "xy")];
        assert_eq!(map_offset(2, &edits, Gravity::Left), Some(2));
        assert_eq!(map_offset(2, &edits, Gravity::Right), Some(4));
        assert_eq!(map_offset(3, &edits, Gravity::Left), Some(5));
    }

    #[test]
    fn a_touched_range_has_no_place() {
        assert_eq!(map_range(2..5, &[TextEdit::replace(4..6, "")]), None);
        assert_eq!(map_range(2..5, &[TextEdit::insert(3, "x")]), None);
        assert_eq!(map_range(2..5, &[TextEdit::insert(2, "x")]), Some(3..6));
        assert_eq!(map_range(2..5, &[TextEdit::insert(5, "x")]), Some(2..5));
        assert_eq!(map_range(2..5, &[TextEdit::replace(0..2, "")]), Some(0..3));
    }
}
