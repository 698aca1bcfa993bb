//! Bodies that repeat a line standing just outside their place: usually a mistake, sometimes
//! meant. The edit is made as written, and the line is named.

use crate::surgery::{Hunk, Place};
use crate::{Lines, Note, NoteKind};

/// Remarks on the edges of one hunk, in lines of the text before the edit.
pub(crate) fn notes(hunk: &Hunk, lines: &Lines) -> Vec<Note> {
    let (Some(first_row), Some(last_row)) = (hunk.rows.first(), hunk.rows.last()) else {
        return Vec::new();
    };
    let count = lines.count();
    // The lines above and below the place, and what stood at the place's own edges.
    let (above, below, own) = match hunk.place {
        Place::Lines { first, last } => (first - 1, last + 1, Some((first, last))),
        Place::Before(line) => (line - 1, line, None),
        Place::After(line) => (line, line + 1, None),
        Place::Head => (0, 1, None),
        Place::End => (count, count + 1, None),
    };
    let repeats = |row: &str, line: usize, own: Option<usize>| {
        (1..=count).contains(&line)
            && !row.trim().is_empty()
            && lines.content(line) == row
            && own.is_none_or(|own| lines.content(own) != row)
    };
    let echo = |row: &str, line: usize, which: &str, side: &str| {
        let message = format!(
            "the body's {which} row repeats line {line} `{}`, which stands just {side} the place and was kept: it is there twice now",
            row.trim()
        );
        Note::new(NoteKind::EchoedLine, message)
    };
    let mut notes = Vec::new();
    if repeats(first_row, above, own.map(|own| own.0)) {
        notes.push(echo(first_row, above, "first", "above"));
    }
    if repeats(last_row, below, own.map(|own| own.1)) {
        notes.push(echo(last_row, below, "last", "below"));
    }
    notes
}
