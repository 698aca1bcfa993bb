//! Edges of an edit that do not fit their surroundings, by lines and indentation.
//!
//! Such an edge is usually a mistake and sometimes intended: the edit is made as written, and a note names the
//! line. The check needs no grammar and counts no brackets, since only a grammar distinguishes a bracket from a
//! lifetime or a string. If a grammar accepts the text, `parses` silences the remarks it disproves.

use crate::lines::line_edits::{Hunk, HunkPlace};
use crate::lines::only_closes;
use crate::{Lines, Note, NoteKind};

/// Notes on the edges of one hunk, in lines of the text before the edit.
pub(crate) fn notes(hunk: &Hunk, lines: &Lines, parses: bool) -> Vec<Note> {
    let mut notes = echoes(hunk, lines, parses);
    notes.extend(swallowed(hunk, lines));
    notes.extend(outside(hunk, lines));
    notes
}

/// Notes on body rows that repeat the line just outside the place.
fn echoes(hunk: &Hunk, lines: &Lines, parses: bool) -> Vec<Note> {
    let (Some(first_row), Some(last_row)) = (hunk.rows.first(), hunk.rows.last()) else {
        return Vec::new();
    };
    let (above, below) = hunk.place.beside(lines.count());
    // The lines at the place's own edges.
    let own = match hunk.place {
        HunkPlace::Lines { first, last } => Some((first, last)),
        _ => None,
    };
    let repeats = |row: &str, line: usize, own: Option<usize>| {
        (1..=lines.count()).contains(&line)
            && !row.trim().is_empty()
            && lines.content(line) == row
            && own.is_none_or(|own| lines.content(own) != row)
            // A surplus closing bracket would not parse.
            && !(parses && only_closes(row))
    };
    let echo = |row: &str, line: usize, which: &str, side: &str| {
        let message = format!(
            "the body's {which} row repeats line {line} `{}` {side} it; the line now occurs twice",
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

/// A note on a removed line that opened a block whose body is still indented.
fn swallowed(hunk: &Hunk, lines: &Lines) -> Option<Note> {
    let HunkPlace::Lines { first, .. } = hunk.place else { return None };
    let opener = lines.content(first);
    let deeper = !hunk.rows.iter().all(|row| row.trim().is_empty())
        && hunk.rows.iter().filter(|row| !row.trim().is_empty()).all(|row| indent(row) > indent(opener));
    (deeper && opens(opener)).then(|| {
        let message = format!(
            "line {first} `{}` opened a block and was removed; restore it if the body rows belong to the block",
            opener.trim()
        );
        Note::new(NoteKind::SwallowedOpener, message)
    })
}

/// A note on rows indented for a block that the line above closes.
fn outside(hunk: &Hunk, lines: &Lines) -> Option<Note> {
    if matches!(hunk.place, HunkPlace::Lines { .. }) {
        return None;
    }
    let (above, below) = hunk.place.beside(lines.count());
    let closer = (above > 0).then(|| lines.content(above)).filter(|line| only_closes(line))?;
    let row = hunk.rows.iter().find(|row| !row.trim().is_empty())?;
    let next = (below..=lines.count()).map(|line| lines.content(line)).find(|line| !line.trim().is_empty());
    let is_outside = indent(row) > indent(closer)
        && next.is_none_or(|next| indent(next) <= indent(closer))
        // A line that continues an expression may be indented.
        && row.trim_start().starts_with(|c: char| c.is_alphanumeric() || "_@#$\"'/<*({[".contains(c));
    is_outside.then(|| {
        let message = format!(
            "the rows follow line {above} `{}` but are indented for the block it closes; to be in it, insert before line {above}",
            closer.trim()
        );
        Note::new(NoteKind::OutsideBlock, message)
    })
}

fn opens(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with(['{', '(', '[', ':']) || line.ends_with(" do") || line.ends_with(" then")
}

/// The number of leading blanks; a tab counts as one, since a file uses one kind.
pub(crate) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}
