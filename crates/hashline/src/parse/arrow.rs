//! The arrow dialect: `¶PATH#3f2a`, `12..14:`, `12↑`, `12↓`, `12..14!`.
//!
//! It cannot express registers, blocks, and deleted or renamed files. The parser refuses an attempt and
//! names the canonical form that can.

use crate::format::patch::{Op, Span, Target};
use crate::parse::draft::OpenKind;
use crate::parse::error::{ParseErrorKind as Kind, excerpt};
use crate::parse::operation;
use crate::{Dialect, NoteKind, Tag};

/// The separator between the ends of a range.
pub(crate) const BETWEEN: &str = "..";

/// The sign before a header's path.
const SIGN: char = '¶';
/// Miscopied signs: read through Latin-1, lost in decoding, or a lookalike.
const MISCOPIED: &[&str] = &["Â¶", "\u{fffd}", "§", "❡", "⁋", "❧"];

/// Text of a header after its sign, and whether the sign is exact.
///
/// `None` for other lines.
pub(crate) fn header_text(line: &str) -> Option<(&str, bool)> {
    if let Some(rest) = line.strip_prefix(SIGN) {
        return Some((rest, true));
    }
    let rest = MISCOPIED.iter().find_map(|sign| line.strip_prefix(sign))?;
    // Other lines may begin with such a sign, but only a header ends with a tag.
    header(rest).is_ok().then_some((rest, false))
}

/// Parses path and tag of a header.
pub(crate) fn header(text: &str) -> Result<(&str, Tag), Kind> {
    let (path, tag) = text.trim_end().rsplit_once('#').ok_or(Kind::NoTag)?;
    Ok((path, tag.trim().parse()?))
}

/// A parsed operation line, with the repairs it needed.
#[derive(Debug)]
pub(crate) struct Operation {
    pub kind: OpenKind,
    /// Rest of the line, if it is the body.
    pub inline: Option<String>,
    pub repairs: Vec<NoteKind>,
}

/// Parses a line that begins with a digit or names the file's end.
///
/// `None` for other lines.
pub(crate) fn parse(line: &str) -> Option<Result<Operation, Kind>> {
    let not_here = |what: &str, instead| {
        Some(Err(Kind::NotInDialect { dialect: Dialect::Arrow, what: excerpt(what), instead }))
    };
    let word = line.split_whitespace().next().unwrap_or_default();
    match word {
        "PUT" => return not_here(line, "write `A..B:` to replace, `A↑` and `A↓` to insert"),
        "CUT" if !line.contains(['@', '*']) => return not_here(line, "write `A..B!` to delete"),
        "CUT" | "REM" | "MV" => {
            return not_here(line, "write the whole patch as `[PATH#TAG]` with PUT, CUT, REM and MV");
        }
        _ => {}
    }
    if line.starts_with("$") {
        return not_here(line, "insert after the last line, `A↓`, or write `PUT >$:` under `[PATH#TAG]`");
    }
    line.starts_with(|c: char| c.is_ascii_digit()).then(|| operation(line))
}

fn operation(line: &str) -> Result<Operation, Kind> {
    let mut repairs = Vec::new();
    let (span, rest) = operation::span(line, BETWEEN, &mut repairs)?;
    let Span::Lines { first, last } = &span else {
        return Err(Kind::NotInDialect {
            dialect: Dialect::Arrow,
            what: excerpt(line),
            instead: "name the block's first and last line, or write `PUT A*:` under `[PATH#TAG]`",
        });
    };
    let (first, single) = (*first, first == last);
    let rest = rest.trim_start_matches(' ');
    let put = |target, inline: &str| {
        let inline = (!inline.trim().is_empty()).then(|| inline.to_owned());
        (OpenKind::Put(target), inline)
    };
    let mut chars = rest.chars();
    let sign = chars.next();
    let after = chars.as_str();
    let (kind, inline) = match sign {
        Some(':') => put(Target::Replace(span), after),
        Some('!') if after.trim().is_empty() => (OpenKind::Closed(Op::Cut { span, register: None }), None),
        Some('↑' | '↓') if !single || after.starts_with(':') => {
            return Err(Kind::Trailing(excerpt(rest)));
        }
        // Line 1 without a check is the head of the file, which exists even in an empty file.
        Some('↑') if first.line == 1 && first.check.is_none() => put(Target::Head, after),
        Some('↑') => put(Target::Before(first), after),
        Some('↓') => put(Target::After(first), after),
        Some(_) => return Err(Kind::Trailing(excerpt(rest))),
        None => return Err(Kind::UnknownArrow(excerpt(line))),
    };
    if inline.as_deref().is_some_and(|inline| inline.contains('\r')) {
        return Err(Kind::CarriageReturn);
    }
    // The match is either a body row on the operation's line, or text that begins like one.
    if let Some(inline) = inline.as_deref().filter(|inline| inline.starts_with('+')) {
        return Err(Kind::InlinePlus(excerpt(inline)));
    }
    Ok(Operation { kind, inline, repairs })
}
