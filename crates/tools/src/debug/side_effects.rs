//! Detection of expressions without side effects.
//!
//! Pure and conservative: if in doubt, Pilcrow asks the user.

use adapters::DebuggerDefinition;

/// Words with side effects in some language or debugger.
const DOING: &[&str] = &[
    "await",
    "call",
    "del",
    "delete",
    "eval",
    "exec",
    "expr",
    "import",
    "lambda",
    "new",
    "print",
    "set",
    "shell",
    "throw",
    "yield",
    "import_module",
    "pipe",
    "source",
    "python",
    "script",
    "platform",
    "process",
    "process_launch",
];

/// Whether `adapter` evaluates `expression` without side effects.
pub(super) fn is_side_effect_free(expression: &str, adapter: &DebuggerDefinition) -> bool {
    !adapter.quirks.evaluates_shell && is_harmless(expression)
}

/// Whether a hit count is a number or a comparison with one.
///
/// Some adapters evaluate anything else.
pub(super) fn is_count(hit: &str) -> bool {
    let hit = hit.trim();
    let comparisons = [">=", "<=", "==", "!=", "=", ">", "<", "%"];
    let number = comparisons.iter().find_map(|it| hit.strip_prefix(it)).unwrap_or(hit).trim_start();
    !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
}

/// Lists the texts in the outermost braces of a log message.
///
/// An unclosed text extends to the end.
pub(super) fn expressions(log: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, c) in log.char_indices() {
        match c {
            '{' => {
                if depth == 0 {
                    from = at + 1;
                }
                depth += 1;
            }
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    found.push(&log[from..at]);
                }
            }
            // Unbalanced: an adapter may pair the braces differently.
            '}' if !found.is_empty() => found.push(log),
            _ => {}
        }
    }
    if depth > 0 {
        found.push(&log[from..]);
    }
    found
}

/// Whether `expression` has no calls, assignments or debugger commands.
///
/// It may have only names, members, indices, literals, comparisons and arithmetic.
fn is_harmless(expression: &str) -> bool {
    let text = without_strings(expression);
    let Some(text) = text else { return false };
    if text.contains(['(', '`', ';', '\n', '\\', '!', '?', '@', '$', '{', '}', ':']) && !only_negates(&text) {
        return false;
    }
    if text.contains("++") || text.contains("--") || assigns(&text) {
        return false;
    }
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    !text.trim().is_empty() && !words.any(|word| DOING.contains(&word))
}

/// Whether the only special characters are those of `a != b`.
fn only_negates(text: &str) -> bool {
    !text.replace("!=", "").contains(['(', '`', ';', '\n', '\\', '!', '?', '@', '$', '{', '}', ':'])
}

/// Whether some `=` is not a comparison.
fn assigns(text: &str) -> bool {
    let rest = ["==", "!=", "<=", ">="].iter().fold(text.to_owned(), |text, it| text.replace(it, " "));
    // `<<=` and `>>=` contain what looks like a comparison.
    text.contains("<<=") || text.contains(">>=") || rest.contains('=')
}

/// Replaces string literals by `""`.
///
/// Returns `None` for an unclosed literal, or one with a prefix (`f"{x()}"`).
fn without_strings(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '"' && c != '\'' {
            out.push(c);
            continue;
        }
        if out.ends_with(|before: char| before.is_alphanumeric()) {
            return None;
        }
        loop {
            match chars.next()? {
                '\\' => drop(chars.next()?),
                end if end == c => break,
                _ => {}
            }
        }
        out.push_str("\"\"");
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_count_is_a_number_or_a_comparison_with_one() {
        for hit in ["3", ">=3", ">= 3", "%2", "==5", " 10 ", "<4"] {
            assert!(is_count(hit), "{hit}");
        }
        for hit in ["", ">", "open('F', 'w')", "3; f()", ">3 | touch F", "n", "%2 or f()"] {
            assert!(!is_count(hit), "{hit}");
        }
    }

    #[test]
    fn braces_in_a_log_message_may_hold_braces() {
        assert_eq!(expressions("a {n} b {m.x}"), ["n", "m.x"]);
        assert_eq!(expressions("{[{1}, open('F','w')]}"), ["[{1}, open('F','w')]"]);
        // The text after a brace in a literal, or after an unclosed brace, does not count as plain.
        assert_eq!(expressions("{'}', f()}")[..1], ["'"]);
        assert_eq!(expressions("{'{', f()}"), ["'{', f()}"]);
        assert_eq!(expressions("{f()"), ["f()"]);
        assert!(expressions("plain }").is_empty());
        for log in ["{[{1}, open('F','w')]}", "{'}', f()}", "{'{', f()}", "{f()", "{a /* } */ + f()}"] {
            assert!(!expressions(log).into_iter().all(is_harmless), "{log}");
        }
    }

    #[test]
    fn only_expressions_without_side_effects_pass() {
        for expression in [
            "n",
            "self.items[0].name",
            "a == 3",
            "a != b",
            "x <= 2",
            "node->next",
            "*p",
            "a + b * 2",
            "d['k']",
            "flags & 3",
            "not done",
            "-1",
            "std_vec[i]",
            "x and y",
            "\"f(x)\" == name",
        ] {
            assert!(is_harmless(expression), "{expression}");
        }
        for expression in [
            "f()",
            "a = 3",
            "a += 1",
            "i++",
            "--i",
            "(x := 3)",
            "os.system('rm')",
            "del a",
            "shell ls",
            "await x",
            "`x`",
            "$_exitcode",
            "a; b",
            "import os",
            "f\"{g()}\"",
            "x <<= 2",
            "print x",
            "!ls",
            "?",
            "",
            "'open",
            "-exec call f",
            "platform shell ls",
            "a ? b : c",
        ] {
            assert!(!is_harmless(expression), "{expression}");
        }
    }
}
