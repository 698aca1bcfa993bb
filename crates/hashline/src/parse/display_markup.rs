//! Markup that a read adds to lines, and that must never become file content.
//!
//! It consists of rows with numbers, elision rows, headers, and operation lines. A file may
//! legitimately contain such lines (a test of this crate does). So a body row that looks like
//! markup is refused only if the file itself has no line of that form.

use crate::format::view::ROW_SEPARATOR;
use crate::lines::Lines;
use crate::lines::line_edits::HunkPlace;
use crate::parse::error::excerpt;
use crate::parse::{arrow, operation};
use crate::{LineCheck, Tag};

/// A row as a read renders it: `12kq⇥text` or `12⇥text`.
///
/// A colon instead of the tab is accepted, and so is `12#KQ`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub line: usize,
    pub check: Option<LineCheck>,
    pub text: String,
}

/// Parses a row as a read renders it.
pub(crate) fn numbered(row: &str) -> Option<Numbered> {
    let digits = row.len() - row.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let line = row[..digits].parse().ok().filter(|line| *line > 0 && *line < usize::MAX)?;
    let (word, text) = row[digits..].split_once([ROW_SEPARATOR, ':'])?;
    let check = match word {
        "" => None,
        word => Some(word.strip_prefix('#').unwrap_or(word).parse().ok()?),
    };
    Some(Numbered { line, check, text: text.to_owned() })
}

/// The number of a row as other tools render it.
///
/// `12|text`, `12 | text`, `12→text`, and with blanks before the number also `12` and a tab.
fn numbered_elsewhere(row: &str) -> Option<usize> {
    let number = row.trim_start_matches(' ');
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
    let line = number[..number.len() - rest.len()].parse().ok().filter(|line| *line > 0)?;
    let padded = number.len() < row.len();
    let word = rest.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let check = &rest[..rest.len() - word.len()];
    let bar = word.trim_start_matches(' ').starts_with(['|', '│', '→']) || padded && word.starts_with('\t');
    (bar && (check.is_empty() || check.parse::<LineCheck>().is_ok())).then_some(line)
}

/// The row that stands for omitted lines.
pub(crate) fn elision(first: usize, last: usize) -> String {
    if first == last { format!("… {first} not shown") } else { format!("… {first}..={last} not shown") }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Elision,
    Header,
    Operation,
}

fn kind(row: &str) -> Option<Kind> {
    let row = row.trim();
    if elided(row).is_some() {
        return Some(Kind::Elision);
    }
    let bracketed = row.strip_prefix('[').and_then(|row| row.strip_suffix(']'));
    let header = bracketed.or(row.strip_prefix('¶')).and_then(|row| row.rsplit_once('#'));
    if header.is_some_and(|(path, tag)| !path.is_empty() && tag.parse::<Tag>().is_ok()) {
        return Some(Kind::Header);
    }
    let upper = row.starts_with("PUT ") || row.starts_with("CUT ");
    let operation = upper && matches!(operation::parse(row), Some(Ok(parsed)) if parsed.repairs.is_empty());
    (operation || is_arrow(row)).then_some(Kind::Operation)
}

/// Whether a row is only an operation of the arrow dialect: `12..14:`, `12↓`.
fn is_arrow(row: &str) -> bool {
    let distinct = row.ends_with(['↑', '↓']) || row.contains("..") && row.ends_with([':', '!']);
    distinct
        && matches!(arrow::parse(row), Some(Ok(parsed)) if parsed.repairs.is_empty() && parsed.inline.is_none())
}

/// The first and the last line that an elision stands for: `… 3..=9 not shown`.
///
/// Other tools write `3-9: …` or `3..9: ...`.
fn elided(row: &str) -> Option<(usize, usize)> {
    let number = |word: &str| {
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| word.parse().unwrap_or(usize::MAX))
    };
    let range = |word: &str| {
        let word = word.trim();
        let (first, last) =
            ["..=", "..", "-"].iter().find_map(|by| word.split_once(by)).unwrap_or((word, word));
        Some((number(first.trim())?, number(last.trim())?))
    };
    if let Some(rest) = row.strip_prefix('…') {
        return rest.strip_suffix(" not shown").and_then(range);
    }
    let (word, rest) = row.split_once(':')?;
    let stands = word.contains(['-', '.']) && (rest.trim().ends_with('…') || rest.trim().ends_with("..."));
    range(word).filter(|_| stands)
}

/// Whether a row quotes markup, as the expected output in a test does.
///
/// It is indented, which no read shows, and stands for no line of the edited place.
fn is_quoted(row: &str, kind: Kind, place: HunkPlace) -> bool {
    row.starts_with([' ', '\t'])
        && match (kind, elided(row.trim()), place) {
            (Kind::Operation, ..) => false,
            (_, Some((from, to)), HunkPlace::Lines { first, last }) => to < first || last < from,
            _ => true,
        }
}

/// Reason why the body must not be written to the file, if any.
///
/// `place` is where the body goes.
pub(crate) fn refuse(body: &[String], place: HunkPlace, lines: &Lines) -> Option<String> {
    let marked = |row: &String| kind(row).filter(|kind| !is_quoted(row, *kind, place));
    if let Some((row, kind)) = body.iter().find_map(|row| Some((row, marked(row)?))) {
        let known = (1..=lines.count()).any(|line| self::kind(lines.content(line)) == Some(kind));
        if !known {
            let what = match kind {
                Kind::Elision => {
                    "stands for lines that were not shown; write those lines out, or leave them out of the range"
                }
                Kind::Header => "is a header, not text of a file; a section begins without `+`",
                Kind::Operation => "is an operation, not text of a file; it is written without `+`",
            };
            return Some(format!("the body row `{}` {what}", row.trim()));
        }
    }
    numbered_rows(body, place, lines).then(|| {
        "the body rows begin with line numbers, as a read shows them; write the text alone".to_owned()
    })
}

/// Reason why the rows must not replace the lines `first..=last`, if any.
///
/// A row that is not among those lines may represent omitted text, which would be lost.
pub(crate) fn shortened(
    path: &str,
    body: &[String],
    first: usize,
    last: usize,
    lines: &Lines,
) -> Option<String> {
    let shorter = body.len() < last + 1 - first;
    let held = |row: &str| (first..=last).any(|line| lines.content(line).trim() == row);
    let stands = |row: &str| match Rest::of(row) {
        Rest::No => false,
        // The row is probably an example in prose, or a statement of Python.
        Rest::Dots => shorter,
        Rest::DotsAlone | Rest::Comment => shorter || !is_prose(path),
        Rest::Words => first < last && !is_prose(path),
        Rest::Short => shorter && !is_prose(path),
    };
    let row = body.iter().map(|row| row.trim()).find(|row| stands(row) && !held(row))?;
    Some(format!(
        "the body row `{}` is a placeholder for omitted text; write all rows out, or replace fewer lines",
        excerpt(row)
    ))
}

/// Reason why the rows must not be inserted, if any.
///
/// A row of a kind that does not occur in the file may represent other text. No text would be lost,
/// but the placeholder would stay in the file.
pub(crate) fn placeholder(path: &str, body: &[String], lines: &Lines) -> Option<String> {
    if is_prose(path) {
        return None;
    }
    let says_so = |row: &str| match Rest::of(row) {
        Rest::Comment => true,
        // A single row may be a comment on the line below.
        Rest::Words => body.len() > 1,
        Rest::No | Rest::Dots | Rest::DotsAlone | Rest::Short => false,
    };
    let row = body.iter().map(|row| row.trim()).find(|row| says_so(row))?;
    let held = (1..=lines.count()).any(|line| lines.content(line).trim() == row);
    (!held).then(|| {
        format!(
            "the body row `{}` is a placeholder for omitted text; write the rows that it stands for, or remove it",
            excerpt(row)
        )
    })
}

/// Whether a file is prose, in which a comment-like row may be an example.
pub(crate) fn is_prose(path: &str) -> bool {
    let end = path.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    matches!(end.as_str(), "md" | "markdown" | "mdx" | "rst" | "txt" | "adoc" | "tex" | "org")
}

/// Kinds of rows that may represent other rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    No,
    /// A row of dots alone, or of dots around words: `[... rest of file ...]`.
    Dots,
    /// A comment of dots alone.
    DotsAlone,
    /// A comment such as `# ... rest of the code ...`.
    Comment,
    /// A comment that only mentions other code: `// existing code`.
    Words,
    /// A comment that may mention other code: `// same`, `// keep the rest`.
    Short,
}

impl Rest {
    fn of(row: &str) -> Self {
        const OPENING: &[&str] = &["{/*", "<!--", "//", "/*", "#", "--", ";", "%", "*"];
        const CLOSING: &[&str] = &["*/}", "-->", "*/"];
        const WORDS: &[&str] =
            &["rest", "existing", "unchanged", "remain", "same", "omitted", "previous", "other", "code"];
        const BRACKETS: &[(char, char)] = &[('[', ']'), ('(', ')')];
        let is_dots = |text: &str| matches!(text, "..." | "…");
        let row = row.trim();
        let comment = OPENING.iter().find_map(|sign| row.strip_prefix(sign));
        let text = comment.unwrap_or(row);
        let text = CLOSING.iter().find_map(|sign| text.strip_suffix(sign)).unwrap_or(text);
        // `#[…]` is not a comment.
        let is_attribute = comment.is_some() && text.starts_with('[');
        let text = text.trim();
        let mut pairs = BRACKETS.iter().filter(|_| !is_attribute);
        let inner = pairs.find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
        let text = inner.unwrap_or(text).trim();
        let dots = |text: &str, at_end: bool| {
            if at_end {
                text.ends_with("...") || text.ends_with('…')
            } else {
                text.starts_with("...") || text.starts_with('…')
            }
        };
        let lower = text.to_lowercase();
        let worded = || WORDS.iter().any(|word| lower.contains(word));
        if comment.is_none() {
            let is_rest = is_dots(text) || dots(text, false) && dots(text, true) && worded();
            return if is_rest { Self::Dots } else { Self::No };
        }
        if is_dots(text) {
            return Self::DotsAlone;
        }
        if dots(text, false) && (dots(text, true) || inner.is_none() && worded()) {
            return Self::Comment;
        }
        match lower.starts_with(char::is_alphabetic) {
            true if says_only_rest(&lower) => Self::Words,
            true if may_say_rest(&lower) => Self::Short,
            _ => Self::No,
        }
    }
}

/// Words of a remark about omitted code that name the code.
const WHAT: &[&str] = &[
    "code",
    "function",
    "functions",
    "method",
    "methods",
    "class",
    "file",
    "implementation",
    "body",
    "logic",
    "lines",
    "module",
    "imports",
];
/// Further words of such a remark.
const ALSO: &[&str] = &[
    "the",
    "of",
    "here",
    "is",
    "are",
    "as",
    "as-is",
    "remains",
    "stays",
    "rest",
    "same",
    "existing",
    "unchanged",
    "remaining",
    "previous",
    "before",
    "omitted",
    "for",
    "brevity",
    "goes",
    "and",
    "this",
    "other",
];

fn words(lower: &str) -> Vec<&str> {
    let words = lower.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
    words.filter(|word| !word.is_empty()).collect()
}

/// Whether a lower-case comment only mentions omitted code.
///
/// Every word belongs to such a remark. One word names the omitted code, and another states the
/// omission.
fn says_only_rest(lower: &str) -> bool {
    const THAT: &[&[&str]] = &[
        &["rest", "of"],
        &["rest", "unchanged"],
        &["existing"],
        &["unchanged"],
        &["remaining"],
        &["previous"],
        &["same", "before"],
        &["omitted"],
    ];
    const WHOLE: &[&str] =
        &["rest unchanged", "same as before", "unchanged", "the rest is unchanged", "omitted for brevity"];
    let words = words(lower);
    let has = |word: &&str| words.contains(word);
    let closed = words.iter().all(|word| WHAT.contains(word) || ALSO.contains(word));
    let that = THAT.iter().any(|all| all.iter().all(has));
    closed && that && (WHAT.iter().any(has) || WHOLE.contains(&words.join(" ").as_str()))
}

/// Whether a lower-case comment may mention omitted code.
///
/// Every word belongs to such a remark, and one or two state the omission.
fn may_say_rest(lower: &str) -> bool {
    const MORE: &[&str] = &["todo", "keep", "original", "truncated", "etc", "continues", "no", "changes"];
    const THAT: &[&[&str]] = &[
        &["rest"],
        &["existing"],
        &["unchanged"],
        &["keep"],
        &["same"],
        &["original"],
        &["other"],
        &["omitted"],
        &["truncated"],
        &["etc"],
        &["no", "changes"],
        &["as", "before"],
    ];
    let words = words(lower);
    let known = |word: &&str| WHAT.contains(word) || ALSO.contains(word) || MORE.contains(word);
    words.iter().all(known) && THAT.iter().any(|all| all.iter().all(|word| words.contains(word)))
}

/// Whether a row has a number and a check as a read shows them.
///
/// The forms are `12kq⇥text` and `12#KQ:text`. Rows of a search and of an edit's result
/// have a mark before the number.
fn is_copied(row: &str) -> bool {
    let row = row.strip_prefix([' ', '+', '-']).unwrap_or(row);
    numbered(row).is_some_and(|it| {
        let name = &row[..row.len() - it.text.len()];
        it.check.is_some() && (name.ends_with(ROW_SEPARATOR) || name.contains('#'))
    })
}

/// Whether rows carry line numbers of the edited place.
///
/// They do if any was copied from a read, if they carry a line's true number and check, or if all carry ascending numbers from the edited
/// place in a file whose lines have no such numbers. Numbers without checks must include a line of that place.
fn numbered_rows(body: &[String], place: HunkPlace, lines: &Lines) -> bool {
    if body.iter().any(|row| is_copied(row))
        && !(1..=lines.count()).any(|line| is_copied(lines.content(line)))
    {
        return true;
    }
    let first = place.line(lines.count());
    let rows: Vec<Option<Numbered>> = body.iter().map(|row| numbered(row)).collect();
    let is_numbered = |line: usize| numbered(lines.content(line)).is_some();
    let shown = |row: &Numbered| {
        row.line <= lines.count() && row.check == Some(lines.check(row.line)) && !is_numbered(row.line)
    };
    if rows.iter().flatten().any(shown) {
        return true;
    }
    // Rows of a search and of an edit's result have a mark before the number.
    let marked = body.iter().filter_map(|row| numbered(row.strip_prefix([' ', '+', '-'])?));
    if marked.into_iter().any(|row| shown(&row)) {
        return true;
    }
    let around = first.saturating_sub(1).max(1)..=(first + 1).min(lines.count());
    let count_here = |number: &dyn Fn(&str) -> Option<usize>| {
        // A read shows empty lines without their numbers.
        let rows = body.iter().enumerate().filter(|(_, row)| !row.is_empty());
        let Some(rows) = rows.map(|(at, row)| Some((at, number(row)?))).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let in_order = rows.windows(2).all(|pair| pair[0].1 + (pair[1].0 - pair[0].0) == pair[1].1);
        let here = rows.first().is_some_and(|(_, start)| start.abs_diff(first) <= 1);
        in_order && here && !around.clone().any(|line| number(lines.content(line)).is_some())
    };
    let (from, to) = match place {
        HunkPlace::Lines { first, last } => (first, last),
        place => place.beside(lines.count()),
    };
    let is_checked = || rows.iter().flatten().any(|row| row.check.is_some());
    let names_place =
        || rows.iter().flatten().any(|row| row.line <= lines.count() && (from..=to).contains(&row.line));
    count_here(&|row| numbered(row).map(|row| row.line)) && (is_checked() || names_place())
        || count_here(&numbered_elsewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_elision_rows() {
        for row in [elision(3, 9).as_str(), &elision(4, 4), "3-4: …", "12..40: def f(): ...", "3..=9: …"]
        {
            assert!(elided(row).is_some(), "{row}");
        }
        for row in ["…", "… and so on", "...", "x: ...", "3: x", "10:30 - 11:00: lunch", "a-b: …"] {
            assert_eq!(elided(row), None, "{row}");
        }
    }

    #[test]
    fn recognizes_placeholder_rows() {
        for row in [
            "...",
            "…",
            "  # ...",
            "// …",
            "/* ... */",
            "# ... rest of the code unchanged ...",
            "// ... existing code ...",
            "<!-- ... same as before -->",
            "{/* ... */}",
            "-- ... remaining columns",
            "# [...]",
            "[... rest of file ...]",
            "… rest of code …",
            "// (... existing code ...)",
        ] {
            assert!(matches!(Rest::of(row), Rest::Dots | Rest::DotsAlone | Rest::Comment), "{row}");
        }
        for row in [
            "...rest,",
            "# and so on...",
            "// ...args are passed on",
            "x = ...",
            "#",
            "// x",
            "print(...)",
            "",
        ] {
            assert_eq!(Rest::of(row), Rest::No, "{row}");
        }
        for row in [
            "// existing code",
            "# rest of the function unchanged",
            "/* rest of the implementation remains unchanged */",
            "// unchanged",
            "# The rest of the file is unchanged.",
            "<!-- same as before -->",
            "// code omitted for brevity",
            "-- Rest of code here",
            "# (unchanged)",
        ] {
            assert_eq!(Rest::of(row), Rest::Words, "{row}");
        }
        for row in [
            "// keep existing code, as before",
            "// keep the rest",
            "// TODO: rest of implementation",
            "// original code here",
            "// (same)",
            "/* same */",
            "// continues as before",
            "/* other functions */",
            "// etc.",
            "# no changes",
            "# as before",
            "# truncated",
            "# The function is the same",
        ] {
            assert_eq!(Rest::of(row), Rest::Short, "{row}");
        }
        for row in [
            "# Keep existing keys, the rest is new.",
            "// existing users are kept",
            "# the rest of the arguments",
            "// the code",
            "# Remaining time",
            "// previous",
            "#[unchanged]",
            "#[...]",
            "// [...rest]",
            "[...rest, ...other]",
            "[other]",
            "(same)",
            "// other users",
            "# the implementation",
        ] {
            assert_eq!(Rest::of(row), Rest::No, "{row}");
        }
    }

    #[test]
    fn parses_rows_of_a_read() {
        let row = numbered("12kq:a: b").unwrap();
        assert_eq!(
            (row.line, row.check.unwrap().to_string().as_str(), row.text.as_str()),
            (12, "kq", "a: b")
        );
        assert_eq!(numbered("3:").unwrap().text, "");
        assert_eq!(numbered("12#KQ:a: b").as_ref(), Some(&row));
        assert_eq!(numbered("12kq\ta: b"), Some(row));
        for row in ["a", "12", "12px x: y", "12pxx: y", ":x", "0:x", "12#:x", "12##kq:x"] {
            assert_eq!(numbered(row), None, "{row}");
        }
    }

    #[test]
    fn parses_rows_of_other_tools() {
        for row in ["12|x", "12 | x", "12kq|x", "  12→x", "   12\tx", "12│x"] {
            assert_eq!(numbered_elsewhere(row), Some(12), "{row}");
        }
        for row in ["12\tx", "12 x", "|12|", "0|x", "12il|x", "12"] {
            assert_eq!(numbered_elsewhere(row), None, "{row}");
        }
    }

    #[test]
    fn recognizes_operations_of_line_based_dialects() {
        for row in ["PUT 3kq:", "CUT 3..=4", "3..4:", "3kq..4mz!", "12↓", "1↑"] {
            assert_eq!(kind(row), Some(Kind::Operation), "{row}");
        }
        for row in ["3:", "3!", "12: x", "1..2", "a..b:", "PUT", "x↓", "1..3: x"] {
            assert_eq!(kind(row), None, "{row}");
        }
        assert_eq!(kind("¶src/a.rs#3f2a"), Some(Kind::Header));
    }
}
