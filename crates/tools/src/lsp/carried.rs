//! Places that were named in a text which was typed in since (`as_of`), in the text as it is now.
//!
//! Exact or refused, as everywhere: what was typed over has no place any more. Where the way from the
//! one text to the other is not known the numbers count as they are.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use hashline::Tag;
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
            break;
        }
        let log = kit.workspace.changes(&now.path, named_in.text());
        let after = kit.workspace.document(&now.path)?;
        if after.version != now.version {
            // Typed in this very moment; the changes may lead further than the text.
            now = after;
            continue;
        }
        let Some(log) = log.filter(ChangeLog::is_complete) else { break };
        let before = Document { text: Arc::clone(named_in.text()), ..now.clone() };
        let args = moved(kit, args, &before, &now, &log)?;
        return Ok((now, Cow::Owned(args)));
    }
    Ok((now, Cow::Borrowed(args)))
}

fn moved(
    kit: &Kit,
    args: &Arguments,
    before: &Document,
    now: &Document,
    log: &ChangeLog,
) -> Result<Arguments, Failure> {
    let index = LineIndex::new(&now.text);
    let place = |offset: usize| {
        let at = index.position(&now.text, offset, PositionEncoding::Utf32);
        (u64::from(at.line) + 1, u64::from(at.character) + 1)
    };
    let map = |range: Range<usize>| {
        log.map_range(range.clone()).ok_or_else(|| {
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
