//! Outline of a text: its declarations, each with its place in the others, and its documentation.
//!
//! The search uses the fields that grammars assign to names and bodies, so a grammar without such fields yields
//! none. In Markdown, each section is a declaration.

use std::collections::HashSet;
use std::ops::Range;

use tree_sitter::Node;

use crate::language::kinds::{self, is_comment};
use crate::{Language, Tree};

/// A function, a type, a constant or another declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// Its name, with the type of a method outside of it (`Type.method`).
    pub name: String,
    /// Index of the declaration around it.
    pub parent: Option<usize>,
    pub kind: DeclarationKind,
    /// All of its bytes, without decorators and comments above it.
    pub range: Range<usize>,
    /// Its bytes between annotations and the body, or its first line.
    pub head: Range<usize>,
    /// First line of its doc comment, without the comment's signs.
    pub doc: Option<String>,
}

/// The kind of a declaration, as an outline distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclarationKind {
    /// It has parameters, or only local declarations.
    Function,
    /// A type, a module, a section.
    Type,
    /// A constant or a global variable.
    Value,
    /// Only groups other declarations, such as a C++ namespace.
    Namespace,
    /// Declares members of a type that is declared elsewhere.
    Members,
}

impl Tree {
    /// Lists the declarations, in order of their beginning.
    ///
    /// `text` must be the tree's text.
    pub fn outline(&self, text: &str) -> Vec<Declaration> {
        let mut found: Vec<Declaration> = Vec::new();
        let mut left = vec![(self.tree.root_node(), None)];
        while let Some((node, mut parent)) = left.pop() {
            let declared = match self.language {
                Language::Markdown => section(node, parent, text),
                language => declaration(language, node, parent, text),
            };
            if let Some(declaration) = declared {
                parent = Some(found.len());
                found.push(declaration);
            }
            // The type within has the same members.
            if node.kind() == "type_definition" {
                continue;
            }
            let children: Vec<Node<'_>> = node.named_children(&mut node.walk()).collect();
            left.extend(children.into_iter().rev().map(|child| (child, parent)));
        }
        found
    }

    /// Returns the first line of the documentation of the whole text.
    ///
    /// `text` must be the tree's text.
    pub fn doc(&self, text: &str) -> Option<String> {
        let root = self.tree.root_node();
        let children: Vec<Node<'_>> = root.named_children(&mut root.walk()).take(MAX_LEADING).collect();
        if self.language == Language::Python {
            let first = children.into_iter().find(|child| !is_comment(child.kind()))?;
            return first_line(text, docstring(first)?);
        }
        let of = |node: &Node<'_>| text.get(node.byte_range()).unwrap_or_default();
        if self.language == Language::Rust {
            let is_inner = |it: &&Node<'_>| of(it).starts_with("//!") || of(it).starts_with("/*!");
            return children.iter().find(is_inner).and_then(|it| first_line(text, *it));
        }
        // Comments without an empty line between them are one.
        let mut rest = children.into_iter().skip_while(|it| of(it).starts_with("#!")).peekable();
        while let Some(first) = rest.next_if(|it| is_comment(it.kind())) {
            let mut last = first;
            while let Some(next) = rest.next_if(|it| is_comment(it.kind()) && is_adjacent(text, last, *it)) {
                last = next;
            }
            let comment = text.get(first.start_byte()..last.end_byte())?.to_lowercase();
            let is_licence =
                ["copyright", "license", "licence", "<reference"].iter().any(|word| comment.contains(word));
            let documents_next = rest
                .peek()
                .is_some_and(|next| is_adjacent(text, last, *next) && !kinds::is_file_header(next.kind()));
            if !is_licence && !documents_next {
                return first_line(text, first);
            }
        }
        None
    }
}

/// Maximum number of first nodes that are searched for a file's documentation.
const MAX_LEADING: usize = 100;

fn declaration(language: Language, node: Node<'_>, parent: Option<usize>, text: &str) -> Option<Declaration> {
    let field = |name: &str| node.child_by_field_name(name);
    // `const f = () => {}`: the value has the parameters and the body.
    let code = field("value").or_else(|| kinds::assigned(language, node)).unwrap_or(node);
    let is_long = code.start_position().row < code.end_position().row;
    let object = Some(code).filter(|it| is_long && kinds::is_object(language, it.kind()));
    let body = code.child_by_field_name("body").or(object);
    if body.is_none() && !kinds::declares_without_body(node) {
        return None;
    }
    let class = kinds::class_with_macro(node);
    let name = class.or_else(|| field("name")).or_else(|| field("declarator")).or_else(|| field("left"));
    let name = name.or_else(|| field("key")).or_else(|| kinds::default_export(node));
    let mut name = name.or_else(|| field("type").filter(|_| node.kind() == "impl_item"))?;
    let mut is_function = [code, node].iter().any(|it| it.child_by_field_name("parameters").is_some());
    let mut scope = match field("receiver") {
        Some(receiver) => type_name(text.get(receiver.byte_range())?),
        None => String::new(),
    };
    loop {
        is_function |= name.child_by_field_name("parameters").is_some();
        if let Some(outer) =
            name.child_by_field_name("scope").filter(|_| node.kind() == "function_definition")
        {
            scope = type_name(text.get(outer.byte_range())?);
        }
        let inner = name.child_by_field_name("declarator").or_else(|| name.child_by_field_name("name"));
        let inner =
            inner.or_else(|| name.named_child(0).filter(|_| name.kind() == "parenthesized_declarator"));
        let Some(inner) = inner else { break };
        name = inner;
    }
    // A prototype; other declarations of this kind are variables.
    if matches!(node.kind(), "declaration" | "field_declaration") && !is_function {
        return None;
    }
    let mut name = text.get(name.byte_range())?.trim_matches(['"', '\'']).to_owned();
    if node.kind() == "impl_item" {
        // `impl a::S<T>` declares members of `S`.
        name = type_name(&name);
    }
    if !scope.is_empty() {
        name = format!("{scope}.{name}");
    }
    let whole = outer(node, kinds::is_declaration_list);
    let start = below_annotations(whole, text);
    let end = match body {
        Some(body) => {
            let mut end = body;
            while let Some(comment) = end.prev_named_sibling().filter(|it| is_comment(it.kind())) {
                end = comment;
            }
            end.start_byte()
        }
        None if is_function => field("value").map_or(node.end_byte(), |value| value.start_byte()),
        None => start + text.get(start..node.end_byte())?.lines().next().unwrap_or_default().len(),
    };
    Some(Declaration {
        name,
        parent,
        kind: match class.or(object) {
            Some(_) => DeclarationKind::Type,
            None => kinds::declaration_kind(node.kind(), is_function),
        },
        range: whole.byte_range(),
        head: start..end,
        doc: doc(whole, body, text),
    })
}

/// A section of a Markdown text, named by its heading.
fn section(node: Node<'_>, parent: Option<usize>, text: &str) -> Option<Declaration> {
    let (heading, parent, end) = match node.kind() {
        "section" => {
            let first = node.named_child(0).filter(|first| first.kind() == "atx_heading")?;
            (first, parent, node.end_byte())
        }
        // The grammar gives an underlined heading no section.
        "setext_heading" => {
            let mut next = node.next_named_sibling();
            while let Some(it) = next.filter(|it| !matches!(it.kind(), "section" | "setext_heading")) {
                next = it.next_named_sibling();
            }
            let end =
                next.map_or_else(|| node.parent().map(|it| it.end_byte()), |it| Some(it.start_byte()))?;
            (node, None, end)
        }
        _ => return None,
    };
    let start = heading.start_byte();
    let line = text.get(start..heading.end_byte())?.lines().next()?;
    Some(Declaration {
        name: line.trim_matches(['#', ' ', '\t']).to_owned(),
        parent,
        kind: DeclarationKind::Type,
        range: start..end,
        head: start..start + line.len(),
        doc: None,
    })
}

/// Returns the name of a type: `S` of `a::S<T>`, of `(s *S[T])` and of `&S`.
fn type_name(text: &str) -> String {
    let plain = text.split(['<', '[']).next().unwrap_or_default().trim_end_matches([')', ' ']);
    plain.rsplit(|sign: char| !text::is_word(sign)).next().unwrap_or_default().to_owned()
}

/// The first byte of a declaration below its annotations.
fn below_annotations(node: Node<'_>, text: &str) -> usize {
    let list = node.named_child(0).filter(|first| first.kind() == "modifiers").unwrap_or(node);
    let annotations =
        list.named_children(&mut list.walk()).filter(|it| kinds::is_annotation(it.kind())).last();
    let Some(last) = annotations else { return node.start_byte() };
    let rest = text.get(last.end_byte()..node.end_byte()).unwrap_or_default();
    node.end_byte() - rest.trim_start().len()
}

/// The outermost node of such kinds that begins with a node.
fn outer(node: Node<'_>, has_kind: fn(&str) -> bool) -> Node<'_> {
    let mut outer = node;
    while let Some(parent) = outer.parent().filter(|it| {
        let is_alone = it.start_position().row == outer.start_position().row;
        has_kind(it.kind()) && (is_alone || !kinds::is_declaration_list(it.kind()))
    }) {
        outer = parent;
    }
    outer
}

/// Whether no empty line is between two nodes.
fn is_adjacent(text: &str, above: Node<'_>, below: Node<'_>) -> bool {
    // The node of a line comment may include its line end.
    let end = above.start_byte() + text.get(above.byte_range()).map_or(0, |it| it.trim_end().len());
    text.get(end..below.start_byte()).unwrap_or_default().matches('\n').count() < 2
}

/// The string that is the whole statement.
fn docstring(statement: Node<'_>) -> Option<Node<'_>> {
    let string = statement.named_child(0).filter(|it| it.kind() == "string");
    string.filter(|_| statement.kind() == "expression_statement")
}

/// Finds the first line of the documentation.
///
/// It is a string at the beginning of the body, or a comment above.
fn doc(node: Node<'_>, body: Option<Node<'_>>, text: &str) -> Option<String> {
    let mut comment = body.and_then(|body| docstring(body.named_child(0)?));
    if comment.is_none() {
        let mut below = outer(node, kinds::wraps_declaration);
        while let Some(above) = below.prev_sibling() {
            let is_comment = is_comment(above.kind());
            let own_line = text[..above.start_byte()].trim_end_matches([' ', '\t']);
            if !(is_comment || above.kind() == "attribute_item")
                || !(own_line.is_empty() || own_line.ends_with('\n'))
                || !is_adjacent(text, above, below)
            {
                break;
            }
            comment = if is_comment { Some(above) } else { comment };
            below = above;
        }
    }
    first_line(text, comment?)
}

/// Returns the first line of a comment or a string that holds text, without signs.
fn first_line(text: &str, node: Node<'_>) -> Option<String> {
    let signs = |c: char| "/*!#-;\"'<>".contains(c) || c.is_whitespace();
    let mut text = text.get(node.byte_range())?;
    if node.kind() == "string" {
        text = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    }
    text.lines().map(|it| it.trim_matches(signs)).find(|line| !line.is_empty()).map(str::to_owned)
}

impl Tree {
    /// Lists the beginnings of statements that divide long code.
    ///
    /// `shown` are the declarations that a reader sees, in order. Code of more than `long` lines is divided, into
    /// statements that begin at least `stride` lines apart, or have as many lines.
    pub fn landmarks(&self, text: &str, shown: &[Range<usize>], long: usize, stride: usize) -> Vec<usize> {
        use Language::{Css, Html, Json, JsonC, Markdown, Toml, Yaml};
        if matches!(self.language, Css | Html | Json | JsonC | Markdown | Toml | Yaml) {
            return Vec::new();
        }
        let rows = |node: Node<'_>| node.end_position().row - node.start_position().row + 1;
        let known: HashSet<&Range<usize>> = shown.iter().collect();
        let (mut found, mut last, mut next) = (Vec::new(), None, shown.iter().peekable());
        let mut left = vec![self.tree.root_node()];
        while let Some(node) = left.pop() {
            let row = node.start_position().row;
            while next.next_if(|it| it.start <= node.start_byte()).is_some() {
                last = Some(row);
            }
            let is_known = known.contains(&node.byte_range());
            // An `export` begins the line of its declaration.
            let wraps_next = next.peek().is_some_and(|it| !text[node.start_byte()..it.start].contains('\n'));
            let begins_line = text[..node.start_byte()].trim_end_matches([' ', '\t']).ends_with('\n');
            let is_apart =
                last.is_none_or(|last| row > last && (row >= last + stride || rows(node) >= stride));
            if !is_known && !wraps_next && begins_line && is_apart && kinds::is_landmark(node) {
                found.push(node.start_byte());
                last = Some(row);
            }
            if node.parent().is_none() || rows(node) > long && !kinds::is_data(node.kind()) {
                let children: Vec<Node<'_>> = node.named_children(&mut node.walk()).collect();
                left.extend(children.into_iter().rev());
            }
        }
        found
    }
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
            let doc = it.doc.as_ref().map(|doc| format!(" // {doc}")).unwrap_or_default();
            format!("{:?} {parent}{}: {:?}{doc}\n", it.kind, it.name, text[it.head.clone()].trim())
        };
        let doc = tree.doc(text).map(|doc| format!("{doc}\n")).unwrap_or_default();
        expected.assert_eq(&(doc + &found.iter().map(row).collect::<String>()));
    }

    #[test]
    fn python_outline() {
        let text = "#!/usr/bin/env python\n# Copyright.\n\"\"\"Runs jobs.\n\nMore.\n\"\"\"\n@cached\ndef f(a):\n    r\"\"\"Adds one.\n\n    More.\n    \"\"\"\n    def g(): ...\n\n\nclass C(B):\n    # Makes it.\n    @property\n    async def m(\n        self,\n    ) -> int:\n        return 1\n\ntype A = int\n";
        check(
            "a.py",
            text,
            expect![[r#"
                Runs jobs.
                Function f: "def f(a):" // Adds one.
                Function f.g: "def g():"
                Type C: "class C(B):"
                Function C.m: "async def m(\n        self,\n    ) -> int:"
                Type A: "type A = int"
            "#]],
        );
    }

    #[test]
    fn rust_outline() {
        let text = "//! Adds numbers.\n//! More.\n\n/// Adds.\n///\n/// More.\n#[inline]\npub fn f(a: u8) -> u8 { const LOCAL: u8 = 1; a }\nimpl<'a, T> p::S<'a, T> {\n    /// A limit.\n    pub const N: u8 = 1;\n    fn m() {}\n}\nstruct P { x: u8 }\nstruct Unit;\nstruct Pair(u8, u8);\n/// Names.\npub type Names<T> = Vec<T>;\n/// Numbers.\nconst ALL: &[u8] = &[\n    1,\n];\nstatic S: u8 = 1;\n/// Adds more.\nmacro_rules! add {\n    ($a:expr) => { $a };\n}\ntrait T {\n    type Out;\n    /// Makes it.\n    fn make(&self) -> u8;\n}\n";
        check(
            "a.rs",
            text,
            expect![[r#"
                Adds numbers.
                Function f: "pub fn f(a: u8) -> u8" // Adds.
                Value f.LOCAL: "const LOCAL: u8 = 1;"
                Members S: "impl<'a, T> p::S<'a, T>"
                Value S.N: "pub const N: u8 = 1;" // A limit.
                Function S.m: "fn m()"
                Type P: "struct P"
                Type Unit: "struct Unit;"
                Type Pair: "struct Pair"
                Type Names: "pub type Names<T> = Vec<T>;" // Names.
                Value ALL: "const ALL: &[u8] = &[" // Numbers.
                Value S: "static S: u8 = 1;"
                Function add: "macro_rules! add {" // Adds more.
                Type T: "trait T"
                Type T.Out: "type Out;"
                Function T.make: "fn make(&self) -> u8;" // Makes it.
            "#]],
        );
    }

    #[test]
    fn typescript_outline() {
        let text = "// Copyright of all.\n\n/// <reference lib=\"a\" />\n\n/** Greets users. */\nimport a from 'a';\nfunction g() {} // Not of f.\n/**\n * Greets.\n */\nexport function f() {}\n/** Adds. */\nexport const a = (b: number) => { b; };\nexport const n = 1;\nabstract class C { m() {}\n  x = () => {};\n  abstract q(): void;\n}\n/** A name. */\nexport type Name = string | number;\nexport interface I<T> {\n  name: string;\n  /** Runs. */\n  run(a: T): void;\n}\nexport enum E { A, B }\ndeclare function h(\n  a: string,\n): void;\nnamespace N { export function k() {} }\n";
        check(
            "a.ts",
            text,
            expect![[r#"
                Greets users.
                Function g: "function g()"
                Function f: "function f()" // Greets.
                Function a: "const a = (b: number) =>" // Adds.
                Value n: "const n = 1"
                Type C: "abstract class C"
                Function C.m: "m()"
                Function C.x: "x = () =>"
                Function C.q: "abstract q(): void"
                Type Name: "type Name = string | number;" // A name.
                Type I: "interface I<T>"
                Value I.name: "name: string"
                Function I.run: "run(a: T): void" // Runs.
                Type E: "enum E"
                Function h: "function h(\n  a: string,\n): void;"
                Namespace N: "namespace N"
                Function N.k: "function k()"
            "#]],
        );
    }

    #[test]
    fn c_outline() {
        let text = "/* License. */\n/** Counts. */\n#include <a.h>\n// Runs.\nstatic char *f(int a) {\n  return 0;\n}\n/// A length.\ntypedef struct length {\n  int m;\n} Length;\ntypedef int (*callback)(int a);\nint g(int a);\nint h;\nstruct s { int m; };\n/* The larger one. */\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#define N 1\n";
        check(
            "a.c",
            text,
            expect![[r##"
                Function f: "static char *f(int a)" // Runs.
                Type Length: "typedef struct length {" // A length.
                Type callback: "typedef int (*callback)(int a);"
                Function g: "int g(int a);"
                Type s: "struct s"
                Function MAX: "#define MAX(a, b)" // The larger one.
            "##]],
        );
    }

    #[test]
    fn cpp_outline() {
        let text = "namespace a::b {\n/// A list.\ntemplate <class T>\nclass List : public Base {\npublic:\n  List() : x(1) {}\n  /// Its size.\n  int size() const;\n  int x;\n};\nusing Names = List<int>;\nvoid List<int>::push(int a) {}\n/// Adds.\ntemplate <typename T> T add(T a) { return a; }\nenum class E { A };\n}\n";
        check(
            "a.cpp",
            text,
            expect![[r#"
            Namespace a::b: "namespace a::b"
            Type a::b.List: "class List : public Base" // A list.
            Function List.List: "List() : x(1)"
            Function List.size: "int size() const;" // Its size.
            Type a::b.Names: "using Names = List<int>;"
            Function a::b.List.push: "void List<int>::push(int a)"
            Function a::b.add: "T add(T a)" // Adds.
            Type a::b.E: "enum class E"
        "#]],
        );
    }

    #[test]
    fn go_outline() {
        let text = "// Copyright\n\n// Package p moves.\npackage p\n\n// M moves.\nfunc (s *S[T]) M() { type local int }\n\n// S is one.\ntype S[T any] struct {\n\ta int\n}\n\ntype (\n\t// I runs.\n\tI interface {\n\t\tRun() error\n\t}\n\tA = int\n)\n\n// N counts.\nconst N = 1\n\nvar x, y = 1, 2\n";
        check(
            "a.go",
            text,
            expect![[r#"
            Package p moves.
            Function S.M: "func (s *S[T]) M()" // M moves.
            Type S.M.local: "type local int"
            Type S: "type S[T any] struct {" // S is one.
            Type I: "I interface {" // I runs.
            Function I.Run: "Run() error"
            Type A: "A = int"
            Value N: "const N = 1" // N counts.
            Value x: "var x, y = 1, 2"
        "#]],
        );
    }

    #[test]
    fn java_outline() {
        let text = "/* Licensed. */\npackage p;\n/**\n * A list.\n */\n@Deprecated\npublic abstract class C<T> extends B {\n  private int x;\n  C() {}\n  /** Runs. */\n  @Override\n  public void run(int a) { }\n  abstract int size();\n  enum E { A, B }\n}\ninterface I { void go(); }\nrecord R(int a) {}\n@interface N {}\n";
        check(
            "a.java",
            text,
            expect![[r#"
                Type C: "public abstract class C<T> extends B" // A list.
                Function C.C: "C()"
                Function C.run: "public void run(int a)" // Runs.
                Function C.size: "abstract int size();"
                Type C.E: "enum E"
                Type I: "interface I"
                Function I.go: "void go();"
                Type R: "record R(int a)"
                Type N: "@interface N"
            "#]],
        );
    }

    #[test]
    fn members_of_javascript_objects_are_declarations() {
        let text = "const x = {\n  a() {},\n  b: function (c) {},\n  'd': {\n    e: () => 1,\n  },\n};\nC.prototype.f = function (g) {};\nmodule.exports = class N {};\nexport default {\n  h() {},\n};\nexport default (i) => {};\nconst one = { j: 1 };\n";
        check(
            "a.js",
            text,
            expect![[r#"
            Type x: "const x ="
            Function x.a: "a()"
            Function x.b: "b: function (c)"
            Type x.d: "'d':"
            Function d.e: "e: () =>"
            Function C.prototype.f: "C.prototype.f = function (g)"
            Type N: "class N"
            Type default: "export default"
            Function default.h: "h()"
            Function default: "export default (i) =>"
        "#]],
        );
    }

    #[test]
    fn cpp_classes_behind_macros_are_types() {
        let text = "BEGIN(a)\nclass API Foo : public Bar {\npublic:\n  int size() const;\n  void run() {}\n};\ntemplate <class T>\nstruct API S { int go(); };\nstruct b f(int a) { return a; }\nEND(a)\n";
        check(
            "a.cpp",
            text,
            expect![[r#"
            Type Foo: "class API Foo : public Bar"
            Function Foo.size: "int size() const;"
            Function Foo.run: "void run()"
            Type S: "struct API S"
            Function S.go: "int go();"
            Function f: "struct b f(int a)"
        "#]],
        );
    }

    #[test]
    fn long_code_is_divided_into_statements() {
        let call = |at: usize| format!("  call({at});\n");
        let calls = |from: usize| (from..from + 10).map(call).collect::<String>();
        let text = format!(
            "'use strict';\nexport function f() {{\n{}  if (a) {{\n{}  }}\n  return [\n{}  ];\n}}\n",
            calls(0),
            calls(10),
            "    1,\n".repeat(9)
        );
        let tree = Tree::parse(Language::JavaScript, &text, Stop::NEVER).unwrap();
        let shown: Vec<_> = tree.outline(&text).into_iter().map(|it| it.range).collect();
        let rows = |long, stride| -> Vec<&str> {
            let found = tree.landmarks(&text, &shown, long, stride);
            found.into_iter().map(|at| text[at..].lines().next().unwrap()).collect()
        };
        assert_eq!(rows(100, 5), [""; 0]);
        assert_eq!(rows(20, 5), ["call(4);", "call(9);", "if (a) {", "return ["]);
        assert_eq!(rows(8, 6), ["call(5);", "if (a) {", "call(15);", "return ["]);
    }

    #[test]
    fn a_markdown_outline_has_the_headings() {
        let text = "---\na: 1\n---\n# Title\n\nText.\n\n## Use ##\n\n```\n# Not one\n```\n\n### Deep\n\nLast\n====\n\nEnd.\n";
        check(
            "a.md",
            text,
            expect![[r####"
                Type Title: "# Title"
                Type Title.Use: "## Use ##"
                Type Use.Deep: "### Deep"
                Type Last: "Last"
            "####]],
        );
    }

    #[test]
    fn shell_functions_are_declarations() {
        check(
            "a.sh",
            "#!/bin/sh\n# Builds.\n\n# Runs.\nrun() {\n  local a=1\n}\n",
            expect![[r#"
                Builds.
                Function run: "run()" // Runs.
            "#]],
        );
    }
}
