//! Names that a file declares at its top level, each with its declaration.
//!
//! The search uses the fields that grammars assign to names, so a grammar without such fields
//! yields none. It skips declarations within a declaration (members, local names).

use std::ops::Range;

use tree_sitter::Node;

use crate::Tree;

/// Maximum depth of wrappers around a name.
///
/// An example is `export` → `const` → the declarator.
const DEEPEST: usize = 5;
/// Maximum depth of nested conditions.
const DEEPEST_GUARD: usize = 12;

impl Tree {
    /// Names declared at the top level, with the bytes of each declaration, in order.
    ///
    /// `text` must be the tree's text.
    pub fn names(&self, text: &str) -> Vec<(String, Range<usize>)> {
        let mut top = Vec::new();
        top_level(self.tree.root_node(), DEEPEST_GUARD, &mut top);
        let mut found = Vec::new();
        for child in top {
            let mut names = Vec::new();
            declared(child, DEEPEST, &mut names);
            for name in names {
                let name = text.get(name.byte_range()).unwrap_or_default();
                // `impl a::b::C<T>` declares more of `C`.
                let name = name.split(['<', '(']).next().unwrap_or_default();
                let name = name.rsplit(|sign: char| !text::is_word(sign)).next().unwrap_or_default();
                if !name.is_empty() {
                    found.push((name.to_owned(), child.byte_range()));
                }
            }
        }
        found
    }
}

/// Collects the top level, including the contents of `#if` and `extern "C"`.
fn top_level<'a>(node: Node<'a>, depth: usize, out: &mut Vec<Node<'a>>) {
    let condition = node.child_by_field_name("name").or_else(|| node.child_by_field_name("condition"));
    for child in node.named_children(&mut node.walk()).filter(|child| Some(*child) != condition) {
        let linked = child.kind() == "linkage_specification" || node.kind() == "linkage_specification";
        let conditional =
            ["preproc_if", "preproc_el"].iter().any(|conditional| child.kind().starts_with(conditional));
        let is_list = linked && matches!(child.kind(), "linkage_specification" | "declaration_list");
        match depth.checked_sub(1) {
            Some(depth) if is_list || conditional => top_level(child, depth, out),
            _ => out.push(child),
        }
    }
}

/// Collects the nodes that name the declaration of `node`.
fn declared<'a>(node: Node<'a>, depth: usize, out: &mut Vec<Node<'a>>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    // An import belongs to another file.
    if ["import", "use_"].iter().any(|word| node.kind().starts_with(word)) {
        return;
    }
    let field = |name: &str| node.child_by_field_name(name);
    if let Some(name) = field("name") {
        out.push(name);
    } else if let Some(inner) =
        field("declarator").or_else(|| field("definition")).or_else(|| field("declaration"))
    {
        declared(inner, depth, out);
    } else if node.kind() == "impl_item" {
        out.extend(field("type"));
    } else if let Some(left) = field("left").filter(|_| node.kind().starts_with("assignment")) {
        out.push(left);
    } else if matches!(node.kind(), "identifier" | "type_identifier" | "field_identifier") {
        out.push(node);
    } else if node.kind().ends_with("_statement") || node.kind().ends_with("_declaration") {
        for child in node.named_children(&mut node.walk()) {
            // A lone identifier is a use.
            if child.child_count() > 0 {
                declared(child, depth, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Language, Stop, Tree};

    #[track_caller]
    fn check(path: &str, text: &str, names: &[&str]) {
        let language = Language::of(path, text).unwrap();
        let tree = Tree::parse(language, text, Stop::NEVER).unwrap();
        let found: Vec<String> = tree.names(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, names, "{path}");
    }

    #[test]
    fn finds_top_level_names_of_each_language() {
        let python =
            "import os\nLIMIT = 3\n@cached\ndef f(a): b = 1\nclass C:\n    def m(self): ...\nprint(f)\n";
        check("a.py", python, &["LIMIT", "f", "C"]);
        check(
            "a.rs",
            "use x::Y;\npub fn f(a: u8) {}\nstruct S<T>(T);\nimpl<T> p::S<T> { fn m() {} }\nconst N: u8 = 1;\n",
            &["f", "S", "S", "N"],
        );
        check(
            "a.ts",
            "export function f() {}\nexport const a = 1, b = 2;\nexport default class C {}\ninterface I {}\n",
            &["f", "a", "b", "C", "I"],
        );
        check("a.js", "const x = () => 1;\nf(x);\n", &["x"]);
        check(
            "a.go",
            "package p\nfunc F() {}\nfunc (s *S) M() {}\ntype S struct{}\nvar X = 1\nconst Y = 2\n",
            &["F", "M", "S", "X", "Y"],
        );
        check("a.c", "int g;\nstatic char *f(int a) { return 0; }\nstruct s { int m; };\n", &["g", "f", "s"]);
        let header = "#ifndef H\n#define H\n#include <x.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\
            typedef struct { int m; } Length;\nint f(int a);\n#if A > 1\nint g;\n#elif B\nint h;\n#else\nint i;\n#endif\n\
            #ifdef __cplusplus\n}\n#endif\n#endif\n";
        check("a.h", header, &["H", "Length", "f", "g", "h", "i"]);
        check("a.cpp", "extern \"C\" {\nint f(int a);\n}\nextern \"C\" int g();\n", &["f", "g"]);
        check("a.java", "package p;\npublic class C { int m; }\n", &["C"]);
        check("a.lua", "local function f() end\nfunction g() end\n", &["f", "g"]);
    }

    #[test]
    fn a_declaration_includes_all_its_parts() {
        let text = "x = 1\n\ndef f(a):\n    return a\n";
        let tree = Tree::parse(Language::Python, text, Stop::NEVER).unwrap();
        let (name, range) = tree.names(text).pop().unwrap();
        assert_eq!((name.as_str(), &text[range]), ("f", "def f(a):\n    return a"));
    }
}
