//! Extraction of expressions without calls from a source line.
//!
//! These are names, members and indices. Pure, for any language.

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
    let chars: Vec<char> = statement.chars().collect();
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    while at < chars.len() && found.len() < MAX_EXPRESSIONS {
        let c = chars[at];
        if c == '"' || c == '\'' || c == '`' {
            at = after_literal(&chars, at);
        } else if c == '#' || (c == '/' && chars.get(at + 1) == Some(&'/')) {
            at = chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |end| at + end);
        } else if c.is_alphabetic() || c == '_' || c == '$' {
            let end = chain(&chars, at);
            let text: String = chars[at..end].iter().collect();
            let blank = chars[end..].iter().take_while(|c| c.is_whitespace()).count();
            let rest = &chars[end + blank..];
            // Calls, macros, paths and names of keyword arguments have no value.
            let called =
                rest.starts_with(&['(']) || (rest.starts_with(&['!']) && !rest.starts_with(&['!', '=']));
            let path = chars[end..].starts_with(&[':', ':']) || (at > 0 && chars[at - 1] == ':');
            let text = if called { text.rsplit_once('.').map_or("", |(of, _)| of).to_owned() } else { text };
            if !text.is_empty() && !path && !WORDS.contains(&text.as_str()) && !found.contains(&text) {
                found.push(text);
            }
            at = end;
        } else if c.is_ascii_digit() {
            while at < chars.len() && (chars[at].is_alphanumeric() || chars[at] == '_' || chars[at] == '.') {
                at += 1;
            }
        } else {
            at += 1;
        }
    }
    found
}

/// Returns the end of a name with its members and plain indices.
fn chain(chars: &[char], from: usize) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut at = from;
    while at < chars.len() {
        let follows = chars.get(at + 1).is_some_and(|c| c.is_alphabetic() || *c == '_');
        if is_word(chars[at]) || (chars[at] == '.' && follows) {
            at += 1;
        } else if chars[at..].starts_with(&['-', '>']) && chars.get(at + 2).is_some_and(|c| c.is_alphabetic())
        {
            at += 2;
        } else if chars[at] == '[' {
            let end = chars[at..].iter().position(|c| *c == ']');
            let inner = end.map(|end| &chars[at + 1..at + end]);
            match (end, inner) {
                (Some(end), Some(inner)) if !inner.is_empty() && inner.iter().all(|c| is_word(*c)) => {
                    at += end + 1
                }
                _ => break,
            }
        } else {
            break;
        }
    }
    at
}

fn after_literal(chars: &[char], from: usize) -> usize {
    let quote = chars[from];
    // A lifetime of Rust opens no literal.
    if quote == '\'' && chars.get(from + 2) != Some(&'\'') && chars.get(from + 1) != Some(&'\\') {
        let close = chars[from + 1..].iter().take_while(|c| **c != '\n').position(|c| *c == '\'');
        let word = chars[from + 1..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count();
        return close.map_or(from + 1 + word, |close| from + close + 2);
    }
    let mut at = from + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(statement: &str, expected: &[&str]) {
        assert_eq!(expressions(statement), expected, "{statement}");
    }

    #[test]
    fn names_members_and_indices_and_no_calls() {
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
