//! New rows that were probably escaped or fenced once too often.
//!
//! They may be meant as written, so the canonical form of the edit is accepted.

use crate::parse::display_markup::is_prose;
use crate::parse::error::excerpt;

/// Reason why new rows may not be meant as written, if any.
///
/// Rows with a mark that the old rows have too are meant as written.
pub(super) fn of(path: &str, old: &[String], new: &[String]) -> Option<String> {
    let added = || new.iter().filter(|row| !old.contains(row));
    let first = |is_marked: fn(&str) -> bool| {
        let row = added().find(|row| is_marked(row))?;
        (!old.iter().any(|row| is_marked(row))).then(|| excerpt(row.trim()))
    };
    if let Some(row) = first(has_escaped_break) {
        return Some(format!("the new row `{row}` has an escaped line break or tab outside quotes"));
    }
    if let Some(row) = first(has_entity) {
        return Some(format!("the new row `{row}` has an escaped character of HTML"));
    }
    let is_fence = |row: Option<&String>| row.is_some_and(|row| row.starts_with("```"));
    (is_fence(new.first()) && is_fence(new.last()) && !is_fence(old.first()) && !is_prose(path))
        .then(|| "the new rows are inside a code fence".to_owned())
}

fn has_entity(row: &str) -> bool {
    ["&lt;", "&gt;", "&amp;", "&quot;", "&apos;", "&#39;", "&#x27;"].iter().any(|entity| row.contains(entity))
}

/// Whether a row has `\n` outside quotes, or begins with `\t`.
fn has_escaped_break(row: &str) -> bool {
    if row.trim_start().starts_with("\\t") {
        return true;
    }
    let mut quote = None;
    let mut chars = row.char_indices();
    while let Some((at, it)) = chars.next() {
        match (it, quote) {
            ('\\', _) => {
                let escaped = chars.next().map(|(_, it)| it);
                let neighbours = (row[..at].chars().next_back(), chars.clone().next().map(|(_, it)| it));
                let is_quoted =
                    quote.is_some() || matches!(neighbours, (Some(a @ ('"' | '\'')), Some(b)) if a == b);
                if escaped == Some('n') && !is_quoted {
                    return true;
                }
            }
            (it, Some(open)) if it == open => quote = None,
            ('"' | '\'' | '`', None) if opens(row, at, it) => quote = Some(it),
            _ => {}
        }
    }
    false
}

/// Whether the quote at `at` opens a text on its row.
///
/// An apostrophe and a code fence do not.
fn opens(row: &str, at: usize, quote: char) -> bool {
    let (before, after) = (&row[..at], &row[at + 1..]);
    let word = &before[before.trim_end_matches(char::is_alphanumeric).len()..];
    let is_prefix =
        matches!(word.to_ascii_lowercase().as_str(), "" | "r" | "b" | "u" | "f" | "br" | "rb" | "fr" | "rf");
    let is_apostrophe = quote == '\'' && !is_prefix && after.starts_with(char::is_alphanumeric);
    let is_fence = quote == '`' && (before.ends_with('`') || after.starts_with('`'));
    after.contains(quote) && !is_apostrophe && !is_fence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unquoted_line_breaks_are_escaped() {
        for row in [
            "x = 1\\ny = 2",
            "x = \"a\"\\ny = \"b\"",
            "# don't\\n# can't",
            "\\tx",
            "it's\\nit's",
            "```\\n```",
            "\\n",
        ] {
            assert!(has_escaped_break(row), "{row}");
        }
        for row in [
            "x = \"a\\nb\"",
            "c == '\\n'",
            "fn f<'a>(x: &'a str, c: char) { c == '\\n' }",
            "x = rb'a\\n'",
            "`a\\n`",
            "\\\\n",
            "x\\",
            "é'\\n'",
        ] {
            assert!(!has_escaped_break(row), "{row}");
        }
    }
}
