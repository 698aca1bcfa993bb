//! What becomes of a place when the text around it is edited.
//!
//! Mapping is exact or refused: a range that an edit touches has no place in the new text.

use std::ops::Range;

use crate::{ApplyError, TextEdit, normalize};

/// To which side a place clings when text is inserted exactly there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gravity {
    /// Stays before the insertion.
    Left,
    /// Moves behind it.
    Right,
}

/// Where `offset` of the old text is after `edits` (in order of place, not overlapping); `None`
/// when it lay strictly inside a replaced range.
pub fn map_offset(offset: usize, edits: &[TextEdit], gravity: Gravity) -> Option<usize> {
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
            // The text after the place was replaced: the place itself stays before it.
            break;
        }
        shift += edit.growth();
    }
    Some(offset.saturating_add_signed(shift))
}

/// Where `range` is after `edits`; `None` when an edit changed any byte of it, or inserted inside.
/// An insertion at either end stays outside. An empty range is a place with gravity to the right.
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

/// The edits `edits`, made for the old text, as edits of the text that `over` made of it; the
/// index of the first that has no place there as the error.
///
/// # Errors
/// Outer: `over` does not fit `old` ([`ApplyError`]). Inner: an edit touches what `over` changed.
pub fn map_edits(
    old: &str,
    edits: &[TextEdit],
    over: &[TextEdit],
) -> Result<Result<Vec<TextEdit>, usize>, ApplyError> {
    let over = normalize(old, over)?;
    let mapped = edits.iter().enumerate().map(|(index, edit)| {
        let inside = |range: &Range<usize>| range.start < edit.range.start && edit.range.start < range.end;
        if edit.range.is_empty() && over.iter().any(|change| inside(&change.range)) {
            return Err(index);
        }
        let range = map_range(edit.range.clone(), &over).ok_or(index)?;
        Ok(TextEdit::replace(range, edit.new_text.clone()))
    });
    Ok(mapped.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
