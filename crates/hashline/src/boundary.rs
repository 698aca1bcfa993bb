//! Edges of an edit that do not fit their surroundings, as far as lines and indentation tell:
//! usually a mistake, sometimes meant. The edit is made as written, and the line is named.
//!
//! Needs no grammar and counts no brackets (what is a bracket, a lifetime or a string, only a
//! grammar knows). Where a grammar says that the text parses, `parses` silences what it disproves.

use crate::surgery::{Hunk, Place};
use crate::{Lines, Note, NoteKind};

/// Remarks on the edges of one hunk, in lines of the text before the edit.
pub(crate) fn notes(hunk: &Hunk, lines: &Lines, parses: bool) -> Vec<Note> {
    let mut notes = echoes(hunk, lines, parses);
    notes.extend(swallowed(hunk, lines));
    notes.extend(outside(hunk, lines));
    notes
}

/// The lines just above and just below a place; 0 and the count plus 1 are none.
pub(crate) fn beside(place: Place, count: usize) -> (usize, usize) {
    match place {
        Place::Lines { first, last } => (first - 1, last + 1),
        Place::Before(line) => (line - 1, line),
        Place::After(line) => (line, line + 1),
        Place::Head => (0, 1),
        Place::End => (count, count + 1),
    }
}

/// Body rows that repeat the line just outside the place.
fn echoes(hunk: &Hunk, lines: &Lines, parses: bool) -> Vec<Note> {
    let (Some(first_row), Some(last_row)) = (hunk.rows.first(), hunk.rows.last()) else {
        return Vec::new();
    };
    let (above, below) = beside(hunk.place, lines.count());
    // What stood at the place's own edges.
    let own = match hunk.place {
        Place::Lines { first, last } => Some((first, last)),
        _ => None,
    };
    let repeats = |row: &str, line: usize, own: Option<usize>| {
        (1..=lines.count()).contains(&line)
            && !row.trim().is_empty()
            && lines.content(line) == row
            && own.is_none_or(|own| lines.content(own) != row)
            // A closing bracket too many would not parse.
            && !(parses && only_closes(row))
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

/// A line that opened a block and went, though the body is indented as if it still stood there.
fn swallowed(hunk: &Hunk, lines: &Lines) -> Option<Note> {
    let Place::Lines { first, .. } = hunk.place else { return None };
    let opener = lines.content(first);
    let deeper = !hunk.rows.iter().all(|row| row.trim().is_empty())
        && hunk.rows.iter().filter(|row| !row.trim().is_empty()).all(|row| indent(row) > indent(opener));
    (deeper && opens(opener)).then(|| {
        let message = format!(
            "line {first} `{}` opened a block and went, but the rows are indented as if it still stood there; put it back if the range was meant to begin below it",
            opener.trim()
        );
        Note::new(NoteKind::SwallowedOpener, message)
    })
}

/// Rows indented for a block that was closed on the line above.
fn outside(hunk: &Hunk, lines: &Lines) -> Option<Note> {
    if matches!(hunk.place, Place::Lines { .. }) {
        return None;
    }
    let (above, below) = beside(hunk.place, lines.count());
    let closer = (above > 0).then(|| lines.content(above)).filter(|line| only_closes(line))?;
    let row = hunk.rows.iter().find(|row| !row.trim().is_empty())?;
    let next = (below..=lines.count()).map(|line| lines.content(line)).find(|line| !line.trim().is_empty());
    let is_outside = indent(row) > indent(closer)
        && next.is_none_or(|next| indent(next) <= indent(closer))
        // A line that goes on with an expression may well be indented.
        && row.trim_start().starts_with(|c: char| c.is_alphanumeric() || "_@#$\"'/<*({[".contains(c));
    is_outside.then(|| {
        let message = format!(
            "the rows are indented for the block that line {above} `{}` closes, but stand after it; insert before line {above} if they belong inside",
            closer.trim()
        );
        Note::new(NoteKind::OutsideBlock, message)
    })
}

/// Whether a line does nothing but close.
pub(crate) fn only_closes(line: &str) -> bool {
    let line = line.trim();
    let only = |rest: &str| rest.chars().all(|c| "})];,".contains(c));
    let tags = line.trim_end_matches([')', '}', ']', ';', ',']);
    matches!(line, "fi" | "done" | "esac")
        || line.strip_prefix("end").is_some_and(only)
        || (line.starts_with(['}', ')', ']']) && only(line))
        // `do { … } while (…);`
        || (line.starts_with("} while (") && line.ends_with(");"))
        || line.strip_prefix("/>").is_some_and(only)
        || (tags.starts_with("</")
            && tags.ends_with('>')
            && tags.split_inclusive('>').all(|tag| tag.trim_start().starts_with("</")))
}

fn opens(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with(['{', '(', '[', ':']) || line.ends_with(" do") || line.ends_with(" then")
}

/// The blanks that a line begins with; a tab counts as one, since a file has one kind of them.
pub(crate) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}
