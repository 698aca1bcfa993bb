//! Mapping of places of an earlier text (`as_of`) to the current text.
//!
//! The mapping is exact or refused: a place whose text was edited is gone. If the changes between the texts
//! are not known (the editor sent the whole text), the lines around a place must identify it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use hashline::{Lines, Tag};
use policy::ErrorCode;
use text::{ChangeLog, LineIndex, PositionEncoding, word_at};
use workspace::Document;

use super::target::{self, Place};
use crate::{Failure, ToolContext};

/// Maximum number of attempts to follow changes that arrive meanwhile.
const MAX_FOLLOWS: usize = 8;

/// Finds the document that `file` names, and the place in its current text.
pub(crate) fn document<'a>(
    context: &ToolContext,
    file: &str,
    place: &'a Place,
) -> Result<(Document, Cow<'a, Place>), Failure> {
    let document = context.document(file)?;
    let tag = place.as_of.as_ref().and_then(|tag| tag.parse::<Tag>().ok());
    let named_in = tag.and_then(|tag| {
        context.with_snapshots(|store| store.get(&context.display_path(&document.path), tag))
    });
    let Some(named_in) = named_in else { return Ok((document, Cow::Borrowed(place))) };
    let mut now = document;
    for _ in 0..MAX_FOLLOWS {
        if **named_in.text() == *now.text {
            return Ok((now, Cow::Borrowed(place)));
        }
        let log = context.workspace.changes(&now.path, named_in.text());
        let after = context.workspace.document(&now.path)?;
        if after.version != now.version {
            // Changed at this moment; the log may be newer than the text.
            now = after;
            continue;
        }
        let before = Document { text: Arc::clone(named_in.text()), ..now.clone() };
        let log = log.filter(ChangeLog::is_complete);
        let place = moved(context, place, &before, &now, |range| match &log {
            Some(log) => log.map_range(range),
            None => identified(&before.text, &now.text, range),
        })?;
        return Ok((now, Cow::Owned(place)));
    }
    let file = context.display_path(&now.path);
    Err(Failure::new(ErrorCode::StaleText, format!("{file} keeps changing; try again")))
}

/// Finds a byte range of one text in another, if the lines around it identify it.
fn identified(before: &Arc<str>, now: &Arc<str>, range: Range<usize>) -> Option<Range<usize>> {
    let (before, now) = (Lines::new(Arc::clone(before)), Lines::new(Arc::clone(now)));
    let (first, last) = (before.line_of(range.start), before.line_of(range.end));
    // The line after a selection of whole lines is not part of it.
    let behind = usize::from(last > first && range.end == before.start(last));
    let held = hashline::lines_now(&before, &now, first..=last - behind)?;
    let start = now.start(*held.start()) + (range.start - before.start(first));
    Some(start..now.start(held.end() + behind) + (range.end - before.start(last)))
}

fn moved(
    context: &ToolContext,
    place: &Place,
    before: &Document,
    now: &Document,
    find: impl Fn(Range<usize>) -> Option<Range<usize>>,
) -> Result<Place, Failure> {
    let index = LineIndex::new(&now.text);
    let position = |offset: usize| {
        let at = index.position(&now.text, offset, PositionEncoding::Utf32);
        (u64::from(at.line) + 1, u64::from(at.character) + 1)
    };
    let map = |range: Range<usize>| {
        find(range.clone()).ok_or_else(|| {
            let what = before.text[range].lines().next().unwrap_or_default();
            let file = context.display_path(&now.path);
            Failure::new(ErrorCode::StaleText, format!("`{what}` was edited in {file} meanwhile; try again"))
        })
    };
    let mut moved = place.clone();
    if let Some(range) = target::range(context, before, place)? {
        let range = map(range)?;
        let ((first, from), (last, to)) = (position(range.start), position(range.end));
        moved.range = Some(format!("{first}:{from}-{last}:{to}"));
    }
    if let Some(line) = place.line {
        let word = word_at(&before.text, target::offset(before, line, place.column)?);
        let (line, column) = position(map(word)?.start);
        moved.line = Some(line);
        moved.column = place.column.map(|_| column);
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_identified_by_its_lines_or_refused() {
        let text = "def f(value):\n    return value\ndef g(value):\n    return value\n";
        let found = |now: &str, part: &str| {
            let start = text.rfind(part).unwrap();
            let found = identified(&text.into(), &now.into(), start..start + part.len())?;
            Some((found.start, now[found].to_owned()))
        };
        let longer = format!("#\n#\n{text}");
        assert_eq!(found(&longer, "value):"), Some((longer.rfind("value):").unwrap(), "value):".to_owned())));
        let lines = "def g(value):\n    return value\n";
        assert_eq!(found(&longer, lines), Some((longer.rfind(lines).unwrap(), lines.to_owned())));
        // The line was edited; only an equal line is left; there are several equal lines now.
        assert_eq!(found(&text.replace("g(value", "g(value, more"), "value):\n"), None);
        assert_eq!(found("def f(value):\n    return value\n", "    return value\n"), None);
        assert_eq!(found(&text.repeat(2), "g(value"), None);
    }
}
