//! One operation line of the canonical dialect, such as `PUT 2kq..=4mz:`.

use crate::format::patch::{Anchor, Span, Target, normal_path};
use crate::parse::error::{ParseErrorKind as Kind, excerpt};
use crate::{LineCheck, NoteKind};

/// Separators of a range, tried in this order; all are inclusive.
///
/// All but a dialect's own (the first, in the canonical one) leave a note.
const SEPARATORS: &[&str] = &["..=", "..", ".=", "-", "to "];

/// A parsed operation line, with the repairs it needed.
#[derive(Debug)]
pub(crate) struct Operation {
    pub verb: Verb,
    pub repairs: Vec<NoteKind>,
}

#[derive(Debug)]
pub(crate) enum Verb {
    /// An operation with a colon; a body must follow.
    Put(Target),
    /// An operation without colon or register.
    ///
    /// It pastes the unnamed register, or its colon is missing.
    PutBare(Target),
    Paste(Target, String),
    Cut(Span, Option<String>),
    Remove,
    Rename(String),
}

/// The normal form of a path without outer blanks; the dialect cannot express them.
fn destination(path: &str) -> String {
    let mut path = path.to_owned();
    loop {
        let normal = normal_path(path.trim());
        if normal == path {
            return path;
        }
        path = normal;
    }
}

/// Parses a line that is neither a header nor a row.
///
/// `None` if its first word is not a verb.
pub(crate) fn parse(line: &str) -> Option<Result<Operation, Kind>> {
    let line = line.trim();
    let word = line.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
    let upper = word.to_ascii_uppercase();
    let rest = line[word.len()..].trim();
    let mut repairs = Vec::new();
    let verb = match upper.as_str() {
        "PUT" => put(rest, &mut repairs),
        "CUT" => cut(rest, &mut repairs),
        "REM" if rest.is_empty() => Ok(Verb::Remove),
        "REM" => Err(Kind::Trailing(excerpt(rest))),
        "MV" => match destination(rest) {
            to if to.is_empty() => Err(Kind::NoDestination),
            to => Ok(Verb::Rename(to)),
        },
        _ => return None,
    };
    if word != upper {
        repairs.push(NoteKind::VerbCase);
    }
    Some(verb.map(|verb| Operation { verb, repairs }))
}

fn put(rest: &str, repairs: &mut Vec<NoteKind>) -> Result<Verb, Kind> {
    let (target, rest) = target(rest, repairs)?;
    match rest.trim_start() {
        "" => Ok(Verb::PutBare(target)),
        ":" => Ok(Verb::Put(target)),
        rest => match rest.strip_prefix('@') {
            Some(name) => Ok(Verb::Paste(target, register(name)?)),
            None if rest.starts_with(':') => Err(Kind::InlineBody),
            None => Err(Kind::Trailing(excerpt(rest))),
        },
    }
}

fn cut(rest: &str, repairs: &mut Vec<NoteKind>) -> Result<Verb, Kind> {
    if rest.starts_with(['<', '>']) {
        return Err(Kind::CutPoint);
    }
    let (span, rest) = span(rest, SEPARATORS[0], repairs)?;
    let mut rest = rest.trim();
    if let Some(before) = rest.strip_suffix(':') {
        repairs.push(NoteKind::ExtraColon);
        rest = before.trim_end();
    }
    match rest.strip_prefix('@') {
        Some(name) => Ok(Verb::Cut(span, Some(register(name)?))),
        None if rest.is_empty() => Ok(Verb::Cut(span, None)),
        None => Err(Kind::Trailing(excerpt(rest))),
    }
}

fn register(name: &str) -> Result<String, Kind> {
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if fits { Ok(name.to_owned()) } else { Err(Kind::BadRegister(excerpt(name))) }
}

fn target<'a>(rest: &'a str, repairs: &mut Vec<NoteKind>) -> Result<(Target, &'a str), Kind> {
    if let Some(rest) = rest.strip_prefix('<') {
        let (anchor, rest) = anchor(rest.trim_start())?;
        if rest.starts_with('*') {
            return Err(Kind::BeforeBlock);
        }
        let head = anchor.line == 1 && anchor.check.is_none();
        return Ok((if head { Target::Head } else { Target::Before(anchor) }, rest));
    }
    if let Some(rest) = rest.strip_prefix('>') {
        let rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix('$') {
            return Ok((Target::End, rest));
        }
        let (anchor, rest) = anchor(rest)?;
        return Ok(match rest.strip_prefix('*') {
            Some(rest) => (Target::AfterBlock(anchor), rest),
            None => (Target::After(anchor), rest),
        });
    }
    let (span, rest) = span(rest, SEPARATORS[0], repairs)?;
    Ok((Target::Replace(span), rest))
}

/// Parses the lines at the beginning of `rest`; returns them and the remainder.
///
/// `between` is the dialect's own range separator; others are repairs.
pub(crate) fn span<'a>(
    rest: &'a str,
    between: &str,
    repairs: &mut Vec<NoteKind>,
) -> Result<(Span, &'a str), Kind> {
    let (first, rest) = anchor(rest)?;
    if let Some(rest) = rest.strip_prefix('*') {
        return Ok((Span::Block(first), rest));
    }
    let after = rest.trim_start();
    let found = SEPARATORS.iter().find_map(|word| Some((*word, after.strip_prefix(word)?)));
    let Some((word, after)) = found else {
        return Ok((Span::Lines { first, last: first }, rest));
    };
    if word != between {
        repairs.push(NoteKind::Separator);
    }
    let (last, rest) = anchor(after.trim_start())?;
    if rest.starts_with('*') {
        return Err(Kind::BlockInRange);
    }
    if last.line < first.line {
        return Err(Kind::Reversed { first: first.line, last: last.line });
    }
    if last.line == first.line && last.check != first.check {
        // The line has two checks, of which at least one is wrong.
        return Err(Kind::TwoChecks { line: first.line });
    }
    Ok((Span::Lines { first, last }, rest))
}

/// Parses a line's name at the beginning of `rest`; returns it and the remainder.
pub(crate) fn anchor(rest: &str) -> Result<(Anchor, &str), Kind> {
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    if number.is_empty() {
        return Err(Kind::NoNumber(excerpt(rest)));
    }
    let line: usize = number.parse().map_err(|_| Kind::BadNumber(excerpt(number)))?;
    // The limit leaves room for the neighbours' numbers, so that no sum overflows.
    if line == 0 || line > usize::MAX / 4 {
        return Err(Kind::BadNumber(excerpt(number)));
    }
    let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (word, rest) = rest.split_at(letters);
    let check = match word {
        "" => None,
        word => Some(word.parse::<LineCheck>().map_err(|_| Kind::BadCheck(excerpt(word)))?),
    };
    Ok((Anchor { line, check }, rest))
}
