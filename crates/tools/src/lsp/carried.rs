//! Places that were named in a text which was typed in since (`as_of`), in the text as it is now.
//!
//! Exact or refused, as everywhere: what was typed over has no place any more. Where the way from the
//! one text to the other is not known (the editor sent its whole text), the lines around a place prove
//! where it is.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use hashline::{Lines, Tag};
use text::{ChangeLog, LineIndex, PositionEncoding, word_at};
use workspace::{Document, ErrorCode};

use super::{Arguments, target};
use crate::{Failure, Kit};

/// How often typing that comes meanwhile is followed.
const MAX_FOLLOWS: usize = 8;

/// The document that `file` names, and the arguments with their places in its text.
pub(super) fn along<'a>(
    kit: &Kit,
    file: &str,
    args: &'a Arguments,
) -> Result<(Document, Cow<'a, Arguments>), Failure> {
    let document = kit.document(file)?;
    let tag = args.as_of.as_ref().and_then(|tag| tag.parse::<Tag>().ok());
    let named_in = tag.and_then(|tag| kit.with_snapshots(|store| store.get(&kit.shown(&document.path), tag)));
    let Some(named_in) = named_in else { return Ok((document, Cow::Borrowed(args))) };
    let mut now = document;
    for _ in 0..MAX_FOLLOWS {
        if **named_in.text() == *now.text {
            return Ok((now, Cow::Borrowed(args)));
        }
        let log = kit.workspace.changes(&now.path, named_in.text());
        let after = kit.workspace.document(&now.path)?;
        if after.version != now.version {
            // Typed in this very moment; the changes may lead further than the text.
            now = after;
            continue;
        }
        let before = Document { text: Arc::clone(named_in.text()), ..now.clone() };
        let log = log.filter(ChangeLog::is_complete);
        let args = moved(kit, args, &before, &now, |range| match &log {
            Some(log) => log.map_range(range),
            None => proven(&before.text, &now.text, range),
        })?;
        return Ok((now, Cow::Owned(args)));
    }
    let file = kit.shown(&now.path);
    Err(Failure::new(ErrorCode::StaleText, format!("{file} changes all the time; say it again")))
}

/// Where a range of bytes of one text is in the other, if the lines around it leave no doubt.
fn proven(before: &Arc<str>, now: &Arc<str>, range: Range<usize>) -> Option<Range<usize>> {
    let (before, now) = (Lines::new(Arc::clone(before)), Lines::new(Arc::clone(now)));
    let (first, last) = (before.line_of(range.start), before.line_of(range.end));
    // The line behind a selection of whole lines is none of it.
    let behind = usize::from(last > first && range.end == before.start(last));
    let held = hashline::lines_now(&before, &now, first..=last - behind)?;
    let start = now.start(*held.start()) + (range.start - before.start(first));
    Some(start..now.start(held.end() + behind) + (range.end - before.start(last)))
}

fn moved(
    kit: &Kit,
    args: &Arguments,
    before: &Document,
    now: &Document,
    find: impl Fn(Range<usize>) -> Option<Range<usize>>,
) -> Result<Arguments, Failure> {
    let index = LineIndex::new(&now.text);
    let place = |offset: usize| {
        let at = index.position(&now.text, offset, PositionEncoding::Utf32);
        (u64::from(at.line) + 1, u64::from(at.character) + 1)
    };
    let map = |range: Range<usize>| {
        find(range.clone()).ok_or_else(|| {
            let what = before.text[range].lines().next().unwrap_or_default();
            let file = kit.shown(&now.path);
            Failure::new(
                ErrorCode::StaleText,
                format!("`{what}` was typed over in {file} meanwhile; say it again"),
            )
        })
    };
    let mut args = args.clone();
    if let Some(range) = target::range(kit, before, &args)? {
        let range = map(range)?;
        let ((first, from), (last, to)) = (place(range.start), place(range.end));
        args.range = Some(format!("{first}:{from}-{last}:{to}"));
    }
    if let Some(line) = args.line {
        let word = word_at(&before.text, target::offset(before, line, args.column)?);
        let (line, column) = place(map(word)?.start);
        args.line = Some(line);
        args.column = args.column.map(|_| column);
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_whole_text_is_proven_or_refused() {
        let text = "def f(value):\n    return value\ndef g(value):\n    return value\n";
        let found = |now: &str, part: &str| {
            let start = text.rfind(part).unwrap();
            let found = proven(&text.into(), &now.into(), start..start + part.len())?;
            Some((found.start, now[found].to_owned()))
        };
        let longer = format!("#\n#\n{text}");
        assert_eq!(found(&longer, "value):"), Some((longer.rfind("value):").unwrap(), "value):".to_owned())));
        let lines = "def g(value):\n    return value\n";
        assert_eq!(found(&longer, lines), Some((longer.rfind(lines).unwrap(), lines.to_owned())));
        // The line was typed over; its twin alone is left; it has twins now.
        assert_eq!(found(&text.replace("g(value", "g(value, more"), "value):\n"), None);
        assert_eq!(found("def f(value):\n    return value\n", "    return value\n"), None);
        assert_eq!(found(&text.repeat(2), "g(value"), None);
    }
}
