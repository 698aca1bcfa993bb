//! Role of a name in JavaScript or TypeScript: variable, property, or both.
//!
//! In `{ size }` it is both.

use std::ops::Range;

use crate::language::kinds::{Body, body};
use crate::{Language, Tree};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A variable, a function, a type: declared or used.
    Variable,
    /// The declaration of a property or method.
    Property,
    /// A name after a dot: a property, or an export of a module.
    Member,
    /// The key and the variable of `{ size }`, in an object or in a pattern.
    Shorthand,
    /// A parameter that is a property too: `constructor(public size)`.
    Both,
}

impl Tree {
    /// The role of the name that spans exactly `range`.
    ///
    /// Returns `None` if it is not a name, and for languages other than JavaScript and TypeScript.
    pub fn role(&self, range: Range<usize>) -> Option<Role> {
        if !matches!(self.language(), Language::JavaScript | Language::TypeScript | Language::Tsx) {
            return None;
        }
        let node = self.tree.root_node().descendant_for_byte_range(range.start, range.end)?;
        if node.byte_range() != range {
            return None;
        }
        match node.kind() {
            "shorthand_property_identifier" | "shorthand_property_identifier_pattern" => {
                Some(Role::Shorthand)
            }
            "identifier" | "type_identifier" => {
                let parent = node.parent()?;
                let is_property = parent.kind().ends_with("_parameter")
                    && parent.children(&mut parent.walk()).any(|part| {
                        matches!(part.kind(), "accessibility_modifier" | "override_modifier" | "readonly")
                    });
                Some(if is_property { Role::Both } else { Role::Variable })
            }
            "property_identifier" | "private_property_identifier" => match node.parent()?.kind() {
                "member_expression" | "pair_pattern" => Some(Role::Member),
                _ => Some(Role::Property),
            },
            _ => None,
        }
    }

    /// Whether the word in `range` is not a name outside of the function around it.
    ///
    /// `text` must be the tree's text.
    pub fn is_local(&self, text: &str, range: Range<usize>) -> bool {
        let root = self.tree.root_node();
        let Some(leaf) = root.descendant_for_byte_range(range.start, range.end) else { return true };
        let role = self.role(range.clone());
        if leaf.kind() != "identifier" || text[..range.start].ends_with('.') || role == Some(Role::Both) {
            return !leaf.kind().ends_with("identifier");
        }
        let mut node = leaf;
        while let Some(parent) = node.parent() {
            match body(self.language, node, parent.kind(), 0) {
                Some(Body::Whole) => return true,
                // A parameter of a method.
                Some(Body::Members) => return role == Some(Role::Variable),
                None => node = parent,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::Role::*;
    use super::*;
    use crate::Stop;

    #[track_caller]
    fn check(language: Language, text: &str, expected: Option<Role>) {
        let start = text.find('¶').unwrap();
        let end = text.rfind('¶').unwrap() - '¶'.len_utf8();
        let text = text.replace('¶', "");
        let tree = Tree::parse(language, &text, Stop::NEVER).unwrap();
        assert_eq!(tree.role(start..end), expected, "{text}");
    }

    #[test]
    fn names_within_a_function_are_local() {
        for (language, text, local) in [
            (Language::TypeScript, "class A { ¶run¶() {} }", false),
            (Language::TypeScript, "class A { run(¶a¶: number) {} }", true),
            (Language::TypeScript, "class A { constructor(private ¶a¶: number) {} }", false),
            (Language::TypeScript, "function f() { const ¶a¶ = 1; }", true),
            (Language::TypeScript, "function f() { return { ¶a¶: 1 }; }", false),
            (Language::TypeScript, "export const ¶a¶ = 1;", false),
            (Language::Python, "class A:\n    def ¶run¶(self): ...\n", false),
            (Language::Python, "class A:\n    def __init__(self):\n        self.¶a¶ = 1\n", false),
            (Language::Python, "def f():\n    ¶a¶ = 1\n", true),
            (Language::Python, "def f(¶a¶): ...\n", false),
            (Language::Python, "def f():\n    return ¶True¶\n", true),
            (Language::Rust, "impl A { fn ¶run¶(&self) {} }", false),
            (Language::Rust, "fn f() { let ¶a¶ = 1; }", true),
            (Language::Go, "type A struct {\n\t¶a¶ int\n}\n", false),
            (Language::C, "int f(void) { int ¶a¶ = 1; }", true),
        ] {
            let start = text.find('¶').unwrap();
            let end = text.rfind('¶').unwrap() - '¶'.len_utf8();
            let marked = text;
            let text = text.replace('¶', "");
            let tree = Tree::parse(language, &text, Stop::NEVER).unwrap();
            assert_eq!(tree.is_local(&text, start..end), local, "{marked}");
        }
    }

    #[test]
    fn names_have_a_role_by_their_place() {
        for language in [Language::JavaScript, Language::TypeScript, Language::Tsx] {
            for (text, role) in [
                ("export const ¶total¶ = 3;", Variable),
                ("f(¶total¶);", Variable),
                ("import { ¶total¶ } from './a';", Variable),
                ("export { ¶total¶ };", Variable),
                ("f({ ¶total¶ });", Shorthand),
                ("const { ¶total¶ } = f();", Shorthand),
                ("const { ¶total¶ = 2 } = f();", Shorthand),
                ("function f({ ¶total¶ }) {}", Shorthand),
                ("f({ ¶total¶: 1 });", Property),
                ("f({ total: ¶total¶ });", Variable),
                ("const { ¶total¶: sum } = f();", Member),
                ("f(a.¶total¶);", Member),
                ("class A { ¶total¶() {} }", Property),
            ] {
                check(language, text, Some(role));
            }
            check(language, "f('¶total¶');", None);
            check(language, "f(¶total, b¶);", None);
        }
        check(Language::TypeScript, "interface A { ¶total¶: number }", Some(Property));
        for modifier in ["public", "private readonly", "readonly", "override"] {
            let text = format!("class A {{ constructor({modifier} ¶total¶: number) {{}} }}");
            check(Language::TypeScript, &text, Some(Both));
        }
        check(Language::TypeScript, "function f(¶total¶?: number) {}", Some(Variable));
        check(Language::Rust, "let ¶total¶ = 1;", None);
    }
}
