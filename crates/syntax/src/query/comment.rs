//! Checks whether a place is in a comment.

use crate::Tree;

impl Tree {
    /// Whether the character at byte `offset` of `text` is in a comment.
    ///
    /// Returns `None` if the text around it does not parse. `text` must be the text of this tree.
    pub fn is_comment(&self, text: &str, offset: usize) -> Option<bool> {
        let mut node = self.tree.root_node().descendant_for_byte_range(offset, offset + 1);
        while let Some(at) = node {
            // Every grammar's comment kind ends with this word: `line_comment`, `html_comment`.
            if at.kind().contains("comment") {
                return Some(true);
            }
            // Markdown's grammar leaves HTML to others.
            if at.kind().starts_with("html_") && text[at.byte_range()].trim_start().starts_with("<!--") {
                return Some(true);
            }
            if at.is_error() || at.is_missing() {
                return None;
            }
            node = at.parent();
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Language, Stop, Tree};

    #[track_caller]
    fn check(language: Language, text: &str, expected: Option<bool>) {
        let tree = Tree::parse(language, text, Stop::NEVER).unwrap();
        let found = tree.is_comment(text, text.find('¶').unwrap());
        assert_eq!(found, expected, "{language:?}: {text}");
    }

    #[test]
    fn comments_are_distinguished_from_strings() {
        use Language::*;
        let comment = Some(true);
        check(Python, "# ¶ x\na = 1\n", comment);
        check(Python, "a = \"\"\"\n# ¶ x\n\"\"\"\n", Some(false));
        check(Rust, "/// ¶ x\nfn f() {}\n", comment);
        check(Rust, "/*\n * ¶ x\n */\nfn f() {}\n", comment);
        check(Rust, "fn f() { g(r#\"\n// ¶ x\n\"#) }\n", Some(false));
        check(JavaScript, "const a = `\n// ¶ x\n`;\n", Some(false));
        check(Tsx, "const a = <b>\n  {/* ¶ x */}\n</b>;\n", comment);
        check(Tsx, "const a = <b>\n  // ¶ x\n</b>;\n", Some(false));
        check(Html, "<p>\n<!-- ¶ x -->\n</p>\n", comment);
        check(Markdown, "one\n\n<!-- ¶ x -->\n\ntwo\n", comment);
        check(JsonC, "{\n// ¶ x\n\"a\": 1}\n", comment);
        check(Toml, "# ¶ x\na = 1\n", comment);
        check(Yaml, "# ¶ x\na: 1\n", comment);
        check(Yaml, "a: |\n  # ¶ x\n", Some(false));
        check(Bash, "cat <<END\n# ¶ x\nEND\n", Some(false));
        check(Lua, "--[[ ¶ x ]]\n", comment);
        check(Css, "/* ¶ x */\na {}\n", comment);
        check(C, "/*\n * ¶ x\n */\nint a;\n", comment);
        check(Java, "// ¶ x\nclass A {}\n", comment);
        check(Go, "package a\n\nvar b = `\n// ¶ x\n`\n", Some(false));
    }
}
