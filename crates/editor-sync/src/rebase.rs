//! Maps edits onto a text that changed since they were made. Pure.
//!
//! An edit is mapped exactly or refused: typing over its place, inside it or into its word is a conflict.

use std::sync::Arc;

use text::{LineIndex, Position, PositionEncoding, TextEdit, map_range};

use crate::buffers::Step;

/// The refusal of an edit whose replaced text the user changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// Index of the edit.
    pub edit: usize,
}

/// Maps `edits` of the text `old` to the text after `steps`.
///
/// A revert is not `strict`: typing right next to it is not a conflict.
///
/// # Errors
/// [`Conflict`] with the first edit that cannot be mapped.
pub fn rebase(
    old: &str,
    edits: &[TextEdit],
    steps: &[Arc<Step>],
    strict: bool,
) -> Result<Vec<TextEdit>, Conflict> {
    let mut out = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let replaced = old.get(edit.range.clone()).unwrap_or_default();
        let mut range = edit.range.clone();
        for step in steps {
            let joined = strict && step.edits.iter().any(|typed| extends_word(replaced, &range, typed));
            let mapped = map_range(range, &step.edits).filter(|_| !joined);
            range = mapped.ok_or(Conflict { edit: index })?;
        }
        out.push(TextEdit::replace(range, edit.new_text.clone()));
    }
    Ok(out)
}

/// Whether `typed` extends the replaced word at its start or end.
///
/// A replacement for `foo` is not one for `food`.
fn extends_word(replaced: &str, range: &std::ops::Range<usize>, typed: &TextEdit) -> bool {
    let word = |character: Option<char>| character.is_some_and(text::is_word);
    let after = typed.range.start == range.end && word(typed.new_text.chars().next());
    let before = typed.range.end == range.start && word(typed.new_text.chars().next_back());
    (after && word(replaced.chars().next_back())) || (before && word(replaced.chars().next()))
}

/// The reason why edits are not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidEdit {
    /// The edits do not fit the text.
    #[error(transparent)]
    Text(#[from] text::ApplyError),
    /// An edit starts or ends between the two characters of a line end.
    #[error("offset {0} is inside a line end")]
    InsideLineEnd(usize),
    /// An offset has no position in the client's encoding.
    #[error("offset {0} has no position that the editor knows")]
    NoPosition(usize),
}

/// An edit with its range in positions of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PositionedEdit {
    /// The edit with ranges in bytes.
    pub edit: TextEdit,
    pub start: Position,
    pub end: Position,
}

/// Returns the edits in order, each with its positions.
///
/// Refuses edits that do not fit exactly.
///
/// # Errors
/// [`InvalidEdit`]; then the caller must send nothing.
pub(crate) fn position_edits(
    text: &str,
    lines: &LineIndex,
    encoding: PositionEncoding,
    edits: &[TextEdit],
) -> Result<Vec<PositionedEdit>, InvalidEdit> {
    let edits = edits.iter().map(|edit| cover_line_ends(text, edit)).collect::<Vec<_>>();
    let position = |offset: usize| {
        if inside_line_end(text, offset) {
            return Err(InvalidEdit::InsideLineEnd(offset));
        }
        let position = lines.position(text, offset, encoding);
        // Without a round trip the editor would resolve it to another place.
        match lines.offset(text, position, encoding) {
            Some(back) if back == offset => Ok(position),
            _ => Err(InvalidEdit::NoPosition(offset)),
        }
    };
    let place = |edit: TextEdit| {
        Ok(PositionedEdit { start: position(edit.range.start)?, end: position(edit.range.end)?, edit })
    };
    text::normalize(text, &edits)?.into_iter().map(place).collect()
}

fn inside_line_end(text: &str, offset: usize) -> bool {
    let bytes = text.as_bytes();
    offset > 0 && bytes.get(offset - 1) == Some(&b'\r') && bytes.get(offset) == Some(&b'\n')
}

/// Extends the edit over line ends that it splits.
///
/// Editors have no position inside a line end.
fn cover_line_ends(text: &str, edit: &TextEdit) -> TextEdit {
    let mut edit = edit.clone();
    if !edit.range.is_empty() && inside_line_end(text, edit.range.start) {
        edit.range.start -= 1;
        edit.new_text.insert(0, '\r');
    }
    if !edit.range.is_empty() && inside_line_end(text, edit.range.end) {
        edit.range.end += 1;
        edit.new_text.push('\n');
    }
    edit
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::LineEnds;

    fn typed(edits: &[TextEdit]) -> Arc<Step> {
        Arc::new(Step { edits: edits.to_vec(), whole: false })
    }

    #[track_caller]
    fn check(old: &str, edit: TextEdit, steps: &[TextEdit], expected: Option<&str>) {
        let mut text = old.to_owned();
        for step in steps {
            text = text::apply(&text, std::slice::from_ref(step)).unwrap();
        }
        let steps: Vec<_> = steps.iter().map(|step| typed(std::slice::from_ref(step))).collect();
        let result = rebase(old, &[edit], &steps, true).ok();
        let after = result.map(|edits| text::apply(&text, &edits).unwrap());
        assert_eq!(after.as_deref(), expected);
    }

    #[test]
    fn typing_elsewhere_moves_the_edit() {
        let rename = || TextEdit::replace(4..7, "bar");
        check("one foo two", rename(), &[TextEdit::insert(0, "# ")], Some("# one bar two"));
        check(
            "one foo two",
            rename(),
            &[TextEdit::insert(0, "a"), TextEdit::replace(0..5, "")],
            Some("bar two"),
        );
        check("one foo two", rename(), &[TextEdit::insert(7, ",")], Some("one bar, two"));
        check(
            "one foo two",
            TextEdit::insert(4, "x "),
            &[TextEdit::insert(4, "y ")],
            Some("one y x foo two"),
        );
    }

    #[test]
    fn typing_in_the_edit_is_a_conflict() {
        let rename = || TextEdit::replace(4..7, "bar");
        check("one foo two", rename(), &[TextEdit::insert(5, "x")], None);
        check("one foo two", rename(), &[TextEdit::replace(6..9, "")], None);
        check("one foo two", rename(), &[TextEdit::insert(7, "d")], None);
        check("one foo two", rename(), &[TextEdit::insert(4, "d")], None);
        check("one foo two", TextEdit::insert(5, "x"), &[TextEdit::replace(4..7, "")], None);
        // A conflict stays one after the user reverts it.
        check("one foo two", rename(), &[TextEdit::insert(5, "x"), TextEdit::replace(5..6, "")], None);
    }

    #[test]
    fn only_exact_edits_get_positions() {
        let text = "a😀é\u{301}𝒳\tß\r\nx";
        let lines = LineIndex::with_ends(text, LineEnds::Any);
        let crlf = text.find('\r').unwrap();
        let encodings = [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Utf32];
        for encoding in encodings {
            let place = |edits: &[TextEdit]| position_edits(text, &lines, encoding, edits);
            assert_eq!(place(&[TextEdit::insert(crlf + 1, "x")]), Err(InvalidEdit::InsideLineEnd(crlf + 1)));
            assert!(
                matches!(place(&[TextEdit::insert(2, "x")]), Err(InvalidEdit::Text(_))),
                "in a character"
            );
            assert!(matches!(place(&[TextEdit::insert(99, "x")]), Err(InvalidEdit::Text(_))), "out of range");
            #[expect(clippy::reversed_empty_ranges, reason = "a reversed range is what is refused")]
            let reversed = TextEdit::replace(5..1, "x");
            assert!(matches!(place(&[reversed]), Err(InvalidEdit::Text(_))));
            let overlapping = [TextEdit::replace(0..5, ""), TextEdit::replace(1..crlf, "")];
            assert!(matches!(place(&overlapping), Err(InvalidEdit::Text(_))));
            let half = place(&[TextEdit::replace(crlf - 2..crlf + 1, "s")]).unwrap();
            assert_eq!(half[0].edit, TextEdit::replace(crlf - 2..crlf + 2, "s\n"));
            for (offset, _) in text.char_indices().filter(|(offset, _)| *offset != crlf + 1) {
                place(&[TextEdit::insert(offset, "x")]).unwrap();
            }
        }
        let column = |encoding| {
            position_edits(text, &lines, encoding, &[TextEdit::insert(crlf, "x")]).unwrap()[0].start.character
        };
        assert_eq!(encodings.map(column), [16, 9, 7]);
    }

    #[test]
    fn text_after_a_lone_carriage_return_is_editable() {
        let text = "a\rb\n";
        let lines = LineIndex::with_ends(text, LineEnds::Lf);
        let positioned =
            position_edits(text, &lines, PositionEncoding::Utf8, &[TextEdit::insert(2, "x")]).unwrap();
        assert_eq!(positioned[0].start, Position { line: 0, character: 2 });
    }
}
