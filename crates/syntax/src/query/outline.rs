//! Outline of a text: declarations with bodies, each with its place in the others.
//!
//! The search uses the fields that grammars assign to names and bodies, so a grammar without such fields yields
//! none.

use std::ops::Range;

use tree_sitter::Node;

use crate::Tree;
use crate::language::kinds::is_comment;

/// A function, a type or another declaration with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    pub name: String,
    /// Index of the declaration around it.
    pub parent: Option<usize>,
    /// Whether it has parameters.
    pub is_function: bool,
    /// All of its bytes, without decorators and comments above it.
    pub range: Range<usize>,
    /// Its bytes above the body.
    pub head: Range<usize>,
    /// First line of its doc comment, without the comment's signs.
    pub doc: Option<String>,
}

impl Tree {
    /// Lists the declarations with bodies, in order of their beginning.
    ///
    /// `text` must be the tree's text.
    pub fn outline(&self, text: &str) -> Vec<Declaration> {
        let mut found: Vec<Declaration> = Vec::new();
        let mut left = vec![(self.tree.root_node(), None)];
        while let Some((node, mut parent)) = left.pop() {
            if let Some(declaration) = declaration(node, parent, text) {
                parent = Some(found.len());
                found.push(declaration);
            }
            let children: Vec<Node<'_>> = node.named_children(&mut node.walk()).collect();
            left.extend(children.into_iter().rev().map(|child| (child, parent)));
        }
        found
    }
}

fn declaration(node: Node<'_>, parent: Option<usize>, text: &str) -> Option<Declaration> {
    let field = |name: &str| node.child_by_field_name(name);
    // `const f = () => {}`: the value has the parameters and the body.
    let code = field("value").unwrap_or(node);
    let body = code.child_by_field_name("body")?;
    let parameters = code.child_by_field_name("parameters");
    let mut name = field("name").or_else(|| field("declarator"));
    name = name.or_else(|| field("type").filter(|_| node.kind() == "impl_item"));
    let mut name = name?;
    let mut is_function = parameters.is_some();
    while let Some(inner) =
        name.child_by_field_name("declarator").or_else(|| name.child_by_field_name("name"))
    {
        is_function |= name.child_by_field_name("parameters").is_some();
        name = inner;
    }
    let mut end = body;
    while let Some(comment) = end.prev_named_sibling().filter(|it| is_comment(it.kind())) {
        end = comment;
    }
    Some(Declaration {
        // `impl S<T>` declares members of `S`.
        name: text.get(name.byte_range())?.split('<').next()?.to_owned(),
        parent,
        is_function,
        range: node.byte_range(),
        head: node.start_byte()..end.start_byte(),
        doc: doc(node, body, text),
    })
}

/// Finds the first line of the documentation.
///
/// It is a string at the beginning of the body, or a comment above.
fn doc(node: Node<'_>, body: Node<'_>, text: &str) -> Option<String> {
    let first = body.named_child(0).filter(|first| first.kind() == "expression_statement");
    let string = first.and_then(|first| first.named_child(0)).filter(|it| it.kind() == "string");
    let mut comment = string;
    if comment.is_none() {
        let outer =
            node.parent().filter(|it| it.kind().starts_with("export") || it.kind().starts_with("decorated"));
        let mut below = outer.unwrap_or(node);
        while let Some(above) = below.prev_sibling() {
            let is_comment = is_comment(above.kind());
            let own_line = text[..above.start_byte()].trim_end_matches([' ', '\t']);
            let between = text.get(above.end_byte()..below.start_byte()).unwrap_or_default();
            if !(is_comment || above.kind() == "attribute_item")
                || !(own_line.is_empty() || own_line.ends_with('\n'))
                || between.matches('\n').count() > 1
            {
                break;
            }
            comment = if is_comment { Some(above) } else { comment };
            below = above;
        }
    }
    let lines = text.get(comment?.byte_range())?.lines();
    let signs = |c: char| "/*!#-;\"'".contains(c) || c.is_whitespace();
    let line =
        |line: &str| line.trim_start_matches(['r', 'b', 'u', 'f']).len() < line.len() && string.is_some();
    let mut lines = lines.map(|it| if line(it) { &it[1..] } else { it }).map(|it| it.trim_matches(signs));
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::{Language, Stop, Tree};

    #[track_caller]
    fn check(path: &str, text: &str, expected: Expect) {
        let tree = Tree::parse(Language::of(path, text).unwrap(), text, Stop::NEVER).unwrap();
        let found = tree.outline(text);
        let row = |it: &super::Declaration| {
            let parent = it.parent.map(|at| format!("{}.", found[at].name)).unwrap_or_default();
            let sign = if it.is_function { "()" } else { "" };
            format!("{parent}{}{sign}: {:?} {:?}\n", it.name, text[it.head.clone()].trim(), it.doc)
        };
        expected.assert_eq(&found.iter().map(row).collect::<String>());
    }

    #[test]
    fn declarations_have_heads_and_docs() {
        let python = "@cached\ndef f(a):\n    r\"\"\"Adds one.\n\n    More.\n    \"\"\"\n    def g(): ...\n\n\nclass C(B):\n    # Makes it.\n    def m(\n        self,\n    ) -> int:\n        return 1\n";
        check(
            "a.py",
            python,
            expect![[r#"
            f(): "def f(a):" Some("Adds one.")
            f.g(): "def g():" None
            C: "class C(B):" None
            C.m(): "def m(\n        self,\n    ) -> int:" None
        "#]],
        );
        let rust = "/// Adds.\n///\n/// More.\n#[inline]\npub fn f(a: u8) -> u8 { a }\nimpl<T> S<T> {\n    fn m() {}\n}\nstruct P { x: u8 }\n";
        check(
            "a.rs",
            rust,
            expect![[r#"
            f(): "pub fn f(a: u8) -> u8" Some("Adds.")
            S: "impl<T> S<T>" None
            S.m(): "fn m()" None
            P: "struct P" None
        "#]],
        );
        let typescript = "function g() {} // Not of f.\n/**\n * Greets.\n */\nexport function f() {}\nexport const a = (b: number) => { b; };\nclass C { m() {} }\n";
        check(
            "a.ts",
            typescript,
            expect![[r#"
                g(): "function g()" None
                f(): "function f()" Some("Greets.")
                a(): "a = (b: number) =>" None
                C: "class C" None
                C.m(): "m()" None
            "#]],
        );
        check(
            "a.c",
            "// Runs.\nstatic char *f(int a) {\n  return 0;\n}\n",
            expect![[r#"
            f(): "static char *f(int a)" Some("Runs.")
        "#]],
        );
        check(
            "a.go",
            "package p\n\n// M moves.\nfunc (s *S) M() {}\n",
            expect![[r#"
            M(): "func (s *S) M()" Some("M moves.")
        "#]],
        );
    }
}
