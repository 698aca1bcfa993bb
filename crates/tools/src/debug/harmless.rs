//! Whether an expression can only look. Pure, and on the safe side: what is not surely harmless is asked
//! about.

/// Words that do something in some language.
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

/// Whether evaluating `expression` neither calls, assigns, nor is a command of a debugger: names, members,
/// indices, literals, comparisons and arithmetic.
pub(super) fn is_harmless(expression: &str) -> bool {
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

/// `a != b` is the one use of `!` that is let pass.
fn only_negates(text: &str) -> bool {
    !text.replace("!=", "").contains(['(', '`', ';', '\n', '\\', '!', '?', '@', '$', '{', '}', ':'])
}

/// Whether some `=` is no comparison.
fn assigns(text: &str) -> bool {
    let rest = ["==", "!=", "<=", ">="].iter().fold(text.to_owned(), |text, it| text.replace(it, " "));
    // `<<=` and `>>=` leave an angle before what was taken for a comparison.
    text.contains("<<=") || text.contains(">>=") || rest.contains('=')
}

/// The text with its string literals as `""`; `None` where one is not closed. A literal before which a
/// letter stands (`f"{x()}"`) may hold code.
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
    fn what_only_looks_is_let_pass_and_nothing_else() {
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
