//! Things that we show around lines, and that must never become content of a file: rows with
//! numbers, elision rows, headers, operation lines.
//!
//! A file may hold such lines of its own (a test of this crate does). So a body row that looks
//! like furniture is refused only where the file itself has no line of that form.

use crate::lines::Lines;
use crate::{LineCheck, Tag, operation};

/// A row as a read shows it: `12kq:text`, or `12:text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub line: usize,
    pub check: Option<LineCheck>,
    pub text: String,
}

/// Reads a row as a read shows it.
pub(crate) fn numbered(row: &str) -> Option<Numbered> {
    let digits = row.len() - row.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let line = row[..digits].parse().ok().filter(|line| *line > 0 && *line < usize::MAX)?;
    let (word, text) = row[digits..].split_once(':')?;
    let check = match word {
        "" => None,
        word => Some(word.parse().ok()?),
    };
    Some(Numbered { line, check, text: text.to_owned() })
}

/// The row that stands for lines left out.
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
    if is_elision(row) {
        return Some(Kind::Elision);
    }
    let header =
        row.strip_prefix('[').and_then(|row| row.strip_suffix(']')).and_then(|row| row.rsplit_once('#'));
    if header.is_some_and(|(path, tag)| !path.is_empty() && tag.parse::<Tag>().is_ok()) {
        return Some(Kind::Header);
    }
    let upper = row.starts_with("PUT ") || row.starts_with("CUT ");
    let operation = upper && matches!(operation::parse(row), Some(Ok(it)) if it.repairs.is_empty());
    operation.then_some(Kind::Operation)
}

/// `… 3..=9 not shown`, and what other tools show: `3-9: …`, `3..9: ...`.
fn is_elision(row: &str) -> bool {
    let range = |word: &str| {
        let word = word.trim();
        let split = ["..=", "..", "-"].iter().find_map(|by| word.split_once(by)).unwrap_or((word, "1"));
        let number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        number(split.0.trim()) && number(split.1.trim())
    };
    if let Some(rest) = row.strip_prefix('…') {
        return rest.strip_suffix(" not shown").is_some_and(range);
    }
    row.split_once(':').is_some_and(|(word, rest)| {
        let rest = rest.trim();
        word.contains(['-', '.']) && range(word) && (rest.ends_with('…') || rest.ends_with("..."))
    })
}

/// Why the body must not be written into the file; `None` when it may. `first` is the line at
/// which it goes in.
pub(crate) fn refuse(body: &[String], first: usize, lines: &Lines) -> Option<String> {
    if let Some((row, kind)) = body.iter().find_map(|row| Some((row, kind(row)?))) {
        let known = (1..=lines.count()).any(|line| self::kind(lines.content(line)) == Some(kind));
        if !known {
            let what = match kind {
                Kind::Elision => {
                    "stands for lines that were not shown; write those lines out, or leave them out of the range"
                }
                Kind::Header => "is a header; a new section begins without `+`",
                Kind::Operation => "is an operation; operations are written without `+`",
            };
            return Some(format!("the body row `{}` {what}", row.trim()));
        }
    }
    numbered_rows(body, first, lines).then(|| {
        "the body rows begin with line numbers, as a read shows them; write the text alone after the `+`"
            .to_owned()
    })
}

/// Rows that carry a line's true number and check, or all of them numbers in order from the place
/// edited, in a file whose lines have no such numbers.
fn numbered_rows(body: &[String], first: usize, lines: &Lines) -> bool {
    let rows: Vec<Option<Numbered>> = body.iter().map(|row| numbered(row)).collect();
    let is_numbered = |line: usize| numbered(lines.content(line)).is_some();
    let shown = |row: &Numbered| {
        row.line <= lines.count() && row.check == Some(lines.check(row.line)) && !is_numbered(row.line)
    };
    if rows.iter().flatten().any(shown) {
        return true;
    }
    // With the mark before it that the rows of a search and of an edit's answer carry.
    let marked = body.iter().filter_map(|row| numbered(row.strip_prefix([' ', '+', '-'])?));
    if marked.into_iter().any(|row| shown(&row)) {
        return true;
    }
    let Some(rows) = rows.into_iter().collect::<Option<Vec<Numbered>>>() else { return false };
    let Some(start) = rows.first() else { return false };
    let in_order = rows.windows(2).all(|pair| pair[0].line + 1 == pair[1].line);
    let here = start.line.abs_diff(first) <= 1;
    let around = first.saturating_sub(1).max(1)..=(first + 1).min(lines.count());
    in_order && here && !around.clone().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elision_rows_of_ours_and_of_others() {
        for row in [elision(3, 9).as_str(), &elision(4, 4), "3-4: …", "12..40: def f(): ...", "3..=9: …"]
        {
            assert!(is_elision(row), "{row}");
        }
        for row in ["…", "… and so on", "...", "x: ...", "3: x", "10:30 - 11:00: lunch", "a-b: …"] {
            assert!(!is_elision(row), "{row}");
        }
    }

    #[test]
    fn rows_of_a_read() {
        let row = numbered("12kq:a: b").unwrap();
        assert_eq!(
            (row.line, row.check.unwrap().to_string().as_str(), row.text.as_str()),
            (12, "kq", "a: b")
        );
        assert_eq!(numbered("3:").unwrap().text, "");
        for row in ["a", "12", "12px x: y", "12pxx: y", ":x", "0:x"] {
            assert_eq!(numbered(row), None, "{row}");
        }
    }
}
