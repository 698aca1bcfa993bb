//! Snippets as plain text without placeholders (LSP 3.17 §Snippet Syntax).
//!
//! Invariants: no snippet syntax reaches a file, and no text of a snippet is lost.

use std::iter::Peekable;
use std::str::Chars;

/// The plain text of a snippet.
///
/// Tab stops vanish, `${1:name}` becomes `name`, a choice its first value, a variable its default or nothing.
pub(crate) fn plain(snippet: &str) -> String {
    let mut out = String::new();
    text(&mut snippet.chars().peekable(), None, &mut out);
    out
}

/// Parses until `end`, or to the end.
fn text(chars: &mut Peekable<Chars<'_>>, end: Option<char>, out: &mut String) {
    while let Some(char) = chars.next() {
        match char {
            _ if Some(char) == end => return,
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | '$' | '}')) => out.push(escaped),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            '$' => placeholder(chars, out),
            other => out.push(other),
        }
    }
}

/// Parses what follows a `$`.
fn placeholder(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut name = String::new();
    let braced = chars.next_if_eq(&'{').is_some();
    let digits = chars.peek().is_some_and(char::is_ascii_digit);
    let part =
        |char: &char| if digits { char.is_ascii_digit() } else { char.is_alphanumeric() || *char == '_' };
    while let Some(char) = chars.next_if(part) {
        name.push(char);
    }
    if name.is_empty() {
        out.push('$');
        if braced {
            out.push('{');
        }
        return;
    }
    if !braced {
        out.push_str(unset(&name));
        return;
    }
    match chars.next() {
        Some(':') => text(chars, Some('}'), out),
        Some('|') => choice(chars, out),
        // The transform of an empty value is empty.
        Some('/') => text(chars, Some('}'), &mut String::new()),
        _ => out.push_str(unset(&name)),
    }
}

/// The first value of `one,two|}`.
fn choice(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut first = true;
    while let Some(char) = chars.next() {
        match char {
            '\\' => {
                if let Some(escaped) = chars.next().filter(|_| first) {
                    out.push(escaped);
                }
            }
            ',' => first = false,
            '|' => {
                chars.next_if_eq(&'}');
                return;
            }
            other if first => out.push(other),
            _ => {}
        }
    }
}

/// The text of a tab stop or a variable without a default.
///
/// A variable that no editor knows gives its name.
fn unset(name: &str) -> &str {
    const KNOWN: [&str; 7] = ["TM_", "CLIPBOARD", "CURRENT_", "WORKSPACE_", "RELATIVE_", "RANDOM", "CURSOR_"];
    let known = name.starts_with(|first: char| first.is_ascii_digit())
        || KNOWN.iter().any(|prefix| name.starts_with(prefix));
    if known { "" } else { name }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn snippets_become_plain_text() {
        for (snippet, text) in [
            ("a$0b", "ab"),
            ("f(${1:x}, ${2:y})$0", "f(x, y)"),
            ("${1|one,two|}!", "one!"),
            ("${1|a\\,b,c|}", "a,b"),
            ("\\$1 {x} \\} \\\\ \\n", "$1 {x} } \\ \\n"),
            ("${1:a${2:b}c}", "abc"),
            ("if ${1:true} {\n    ${0:todo!()}\n}", "if true {\n    todo!()\n}"),
            ("$TM_FILENAME${TM_SELECTED_TEXT:none}$name", "nonename"),
            ("${1/(.*)/${1:/upcase}/}x", "x"),
            ("cost: $ 5 ${", "cost: $ 5 ${"),
            ("${1}${2}", ""),
        ] {
            assert_eq!(plain(snippet), text, "{snippet}");
        }
    }
}
