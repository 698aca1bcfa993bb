//! Extraction of expressions without calls from a source line.
//!
//! These are names, members and indices. Pure, for any language.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum number of expressions of a statement.
const MAX_EXPRESSIONS: usize = 10;
/// Maximum number of lines of a statement.
const LINES: usize = 8;

/// Keywords of some language, which have no value.
const WORDS: &[&str] = &[
    "and",
    "as",
    "assert",
    "async",
    "await",
    "break",
    "case",
    "const",
    "continue",
    "def",
    "defer",
    "elif",
    "else",
    "except",
    "expect",
    "False",
    "false",
    "final",
    "fn",
    "for",
    "from",
    "func",
    "function",
    "go",
    "if",
    "import",
    "in",
    "is",
    "lambda",
    "let",
    "local",
    "match",
    "mut",
    "new",
    "nil",
    "None",
    "not",
    "null",
    "or",
    "pass",
    "raise",
    "ref",
    "return",
    "self",
    "static",
    "switch",
    "this",
    "throw",
    "True",
    "true",
    "try",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
    "int",
    "float",
    "double",
    "char",
    "unsigned",
    "bool",
];

/// Extracts the statement that begins at `line`, from 1.
///
/// Includes the lines after it until its brackets close.
pub(super) fn statement(text: &str, line: u64) -> String {
    let first = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
    let mut out = String::new();
    let mut open = 0i64;
    for line in text.lines().skip(first).take(LINES) {
        out.push_str(line);
        out.push('\n');
        open +=
            line.chars().map(|c| i64::from("([{".contains(c)) - i64::from(")]}".contains(c))).sum::<i64>();
        if open <= 0 {
            break;
        }
    }
    out
}

/// Extracts the distinct expressions of a statement.
pub(super) fn expressions(statement: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in TOKEN.captures_iter(statement).filter_map(|token| token.name("name")) {
        let (before, rest) = (&statement[..name.start()], &statement[name.end()..]);
        // Calls, macros, paths and names of keyword arguments have no value.
        let next = rest.trim_start();
        let called = next.starts_with('(') || (next.starts_with('!') && !next.starts_with("!="));
        let path = rest.starts_with("::") || before.ends_with(':');
        let text = name.as_str();
        let text = if called { text.rsplit_once('.').map_or("", |(of, _)| of) } else { text };
        if !text.is_empty() && !path && !WORDS.contains(&text) && !found.iter().any(|it| it == text) {
            found.push(text.to_owned());
        }
    }
    found.truncate(MAX_EXPRESSIONS);
    found
}

/// A token that is not a name, or a name with its members and plain indices.
static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
    let token = r#"(?x)
        "(?:\\.|[^"\\])*"? | `(?:\\.|[^`\\])*`? | '(?:\\.|[^'\\\n])*' | '\w* | (?:\#|//)[^\n]* | \d[\w.]*
        | (?<name> (?:[^\W\d]|\$)[\w$]* (?: (?:\.|->)[^\W\d][\w$]* | \[[\w$]+\] )* )"#;
    Regex::new(token).expect("the pattern is valid")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(statement: &str, expected: &[&str]) {
        assert_eq!(expressions(statement), expected, "{statement}");
    }

    #[test]
    fn names_members_and_indices_are_found_but_no_calls() {
        check("    assert total == expected, 'a b'", &["total", "expected"]);
        check("assert_eq!(total(&items), want.count);", &["items", "want.count"]);
        check("  assert.strictEqual(add(a, b), user.ages[0]); // not this", &["a", "b", "user.ages[0]"]);
        check("if got != want {", &["got", "want"]);
        check("self.assertEqual(self.cart.total(), 7)  # nor this", &["self.cart"]);
        check("assert(node->next == head);", &["node->next", "head"]);
        check("let x: &'a str = std::mem::take(&mut y);", &["x", "str", "y"]);
        check("t.Errorf(\"got %d\", got)", &["t", "got"]);
        check("", &[]);
    }

    #[test]
    fn a_statement_ends_where_its_brackets_close() {
        let text = "a\nassert_eq!(\n    total,\n    7,\n);\nnext\n";
        assert_eq!(statement(text, 2), "assert_eq!(\n    total,\n    7,\n);\n");
        assert_eq!(statement(text, 1), "a\n");
        assert_eq!(statement(text, 99), "");
    }
}
