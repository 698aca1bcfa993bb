//! Edits of one text: applying and inverting them.
//!
//! All edits of a list refer to the text before any of them: offsets do not shift as the list is
//! applied. Two insertions at one point keep the order in which they are written.

pub(crate) mod align;
pub(crate) mod change_log;
pub(crate) mod diff;
pub(crate) mod map;

use std::ops::Range;

/// An edit that replaces the bytes of `range` by `new_text`.
///
/// An empty range inserts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextEdit {
    /// Byte range in the text before the edit.
    pub range: Range<usize>,
    /// The replacement.
    pub new_text: String,
}

impl TextEdit {
    /// Creates an edit that replaces `range` by `new_text`.
    pub fn replace(range: Range<usize>, new_text: impl Into<String>) -> Self {
        Self { range, new_text: new_text.into() }
    }

    /// Creates an edit that inserts `new_text` before the byte at `offset`.
    pub fn insert(offset: usize, new_text: impl Into<String>) -> Self {
        Self::replace(offset..offset, new_text)
    }

    /// Bytes by which the text grows; negative if it shrinks.
    pub fn growth(&self) -> isize {
        self.new_text.len() as isize - self.range.len() as isize
    }
}

/// A list of edits that does not fit a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// A range ends before it starts, or after the end of the text.
    #[error("edit range {start}..{end} does not lie in a text of {len} bytes")]
    OutOfRange {
        /// First byte of the range.
        start: usize,
        /// One past its last byte.
        end: usize,
        /// Length of the text.
        len: usize,
    },
    /// An end of a range is inside a character.
    #[error("offset {offset} is inside a character")]
    NotABoundary {
        /// The offset that is inside a character.
        offset: usize,
    },
    /// Two edits touch the same bytes.
    #[error("edits overlap at {first_end} and {second_start}")]
    Overlap {
        /// End of the edit that begins first.
        first_end: usize,
        /// Start of the one that overlaps it.
        second_start: usize,
    },
}

/// Sorts the edits by position and checks them against `text`.
///
/// Edits at one point stay in the order given, insertions before the replacement that begins there.
///
/// # Errors
///
/// [`ApplyError`] if a range is outside the text, splits a character, or overlaps another.
pub fn normalize(text: &str, edits: &[TextEdit]) -> Result<Vec<TextEdit>, ApplyError> {
    let mut sorted = edits.to_vec();
    sorted.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut last_end = 0;
    for edit in &sorted {
        let Range { start, end } = edit.range;
        if start > end || end > text.len() {
            return Err(ApplyError::OutOfRange { start, end, len: text.len() });
        }
        for offset in [start, end] {
            if !text.is_char_boundary(offset) {
                return Err(ApplyError::NotABoundary { offset });
            }
        }
        if start < last_end {
            return Err(ApplyError::Overlap { first_end: last_end, second_start: start });
        }
        last_end = end;
    }
    Ok(sorted)
}

/// Applies `edits` to `text`.
///
/// The order of the list does not matter, except between insertions at one point.
///
/// # Errors
/// Like [`normalize`]; nothing is applied then.
pub fn apply(text: &str, edits: &[TextEdit]) -> Result<String, ApplyError> {
    let edits = normalize(text, edits)?;
    let growth: isize = edits.iter().map(TextEdit::growth).sum();
    let mut out = String::with_capacity(text.len().saturating_add_signed(growth));
    let mut at = 0;
    for edit in &edits {
        out.push_str(&text[at..edit.range.start]);
        out.push_str(&edit.new_text);
        at = edit.range.end;
    }
    out.push_str(&text[at..]);
    Ok(out)
}

/// The edits that turn `apply(text, edits)` back into `text`, in order of place.
///
/// # Errors
/// Like [`normalize`].
pub fn invert(text: &str, edits: &[TextEdit]) -> Result<Vec<TextEdit>, ApplyError> {
    let mut shift = 0isize;
    let edits = normalize(text, edits)?;
    Ok(edits
        .iter()
        .map(|edit| {
            let start = edit.range.start.saturating_add_signed(shift);
            shift += edit.growth();
            TextEdit::replace(start..start + edit.new_text.len(), &text[edit.range.clone()])
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn insertions_at_one_point_keep_their_order() {
        let edits = [TextEdit::insert(1, "x"), TextEdit::insert(1, "y"), TextEdit::replace(1..2, "Z")];
        assert_eq!(apply("abc", &edits).unwrap(), "axyZc");
    }

    #[test]
    fn ill_fitting_edits_are_errors() {
        assert!(matches!(apply("a", &[TextEdit::insert(2, "")]), Err(ApplyError::OutOfRange { .. })));
        assert!(matches!(
            apply("é", &[TextEdit::insert(1, "")]),
            Err(ApplyError::NotABoundary { offset: 1 })
        ));
        let overlap = [TextEdit::replace(0..2, ""), TextEdit::replace(1..3, "")];
        assert!(matches!(apply("abc", &overlap), Err(ApplyError::Overlap { .. })));
    }

    proptest! {
        #[test]
        fn the_inverse_of_edits_restores_the_text(text in "[a-zé\n\r😀]{0,40}", cuts in prop::collection::vec((0usize..41, 0usize..4, "[xyß\n]{0,3}"), 0..5)) {
            let mut edits: Vec<TextEdit> = Vec::new();
            let mut at = 0;
            let mut cuts = cuts;
            cuts.sort();
            for (start, len, new_text) in cuts {
                let boundary = |offset: usize| (offset..=text.len()).find(|&o| text.is_char_boundary(o)).unwrap_or(text.len());
                let start = boundary(start.max(at));
                let end = boundary((start + len).min(text.len()));
                edits.push(TextEdit::replace(start..end, new_text));
                at = end;
            }
            let after = apply(&text, &edits).unwrap();
            let back = invert(&text, &edits).unwrap();
            prop_assert_eq!(apply(&after, &back).unwrap(), text);
        }
    }
}
