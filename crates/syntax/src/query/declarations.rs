//! Checks whether a text can declare a name; files that only use it are skipped.
//!
//! The name's place in the tree decides. For grammars not covered here, and wherever a macro may
//! reinterpret the name, the answer is yes.

use std::ops::Range;

use tree_sitter::Node;

use crate::language::kinds::is_comment;
use crate::{Language, Tree};

/// The meaning of a name's place.
enum Meaning {
    Declared,
    Used,
    /// The surrounding node decides.
    Around,
}

impl Tree {
    /// Whether some occurrence of the word `name` in `text` may be its declaration.
    ///
    /// A false answer is certain. `text` must be the tree's own.
    pub fn may_declare(&self, text: &str, name: &str) -> bool {
        use Language::*;
        if !matches!(self.language, C | Cpp | Go | Java | JavaScript | Lua | Python | Rust | Tsx | TypeScript)
        {
            return true;
        }
        let root = self.tree.root_node();
        text::occurrences(text, name).any(|at| {
            let node = root.descendant_for_byte_range(at.start, at.end);
            node.is_none_or(|node| is_declared(self.language, node))
        })
    }
}

impl Tree {
    /// Finds the definitions of the macro `name` in a C or C++ text.
    ///
    /// Each is the bytes of the name.
    pub fn macros(&self, text: &str, name: &str) -> Vec<Range<usize>> {
        let root = self.tree.root_node();
        let is_defined = |at: &Range<usize>| {
            let node = root.descendant_for_byte_range(at.start, at.end);
            node.and_then(|node| Some((node.parent()?, node))).is_some_and(|(parent, node)| {
                matches!(parent.kind(), "preproc_def" | "preproc_function_def")
                    && field_of(parent, node) == "name"
            })
        };
        text::occurrences(text, name).filter(is_defined).collect()
    }
}

fn is_declared(language: Language, leaf: Node<'_>) -> bool {
    if is_text(leaf) {
        return false;
    }
    let mut node = leaf;
    loop {
        let Some(parent) = node.parent().filter(|parent| !parent.is_error()) else { return true };
        match meaning(language, node, parent, field_of(parent, node)) {
            Meaning::Declared => return true,
            Meaning::Used => return is_anything(language, leaf, parent),
            Meaning::Around => node = parent,
        }
    }
}

/// Whether a macro may reinterpret the node.
///
/// C's grammar misreads some text outside of functions, which macros may turn into any construct.
/// The type of a parameter or a field is an exception.
fn is_anything(language: Language, leaf: Node<'_>, parent: Node<'_>) -> bool {
    let is_type = leaf.kind() == "type_identifier"
        && (matches!(parent.kind(), "parameter_declaration" | "field_declaration" | "type_descriptor")
            || parent.kind().ends_with("_specifier"));
    matches!(language, Language::C | Language::Cpp) && !is_type && !is_within(leaf, "compound_statement")
}

/// Whether a node is a comment or a string, in which words declare nothing.
fn is_text(node: Node<'_>) -> bool {
    let kind = node.kind();
    is_comment(kind)
        || ["string", "char_literal", "regex"].iter().any(|it| kind.contains(it))
        || matches!(kind, "jsx_text" | "text_block" | "system_lib_string" | "escape_sequence")
}

fn field_of<'a>(parent: Node<'a>, node: Node<'a>) -> &'a str {
    let mut cursor = parent.walk();
    if !cursor.goto_first_child() {
        return "";
    }
    while cursor.node().id() != node.id() {
        if !cursor.goto_next_sibling() {
            return "";
        }
    }
    cursor.field_name().unwrap_or_default()
}

/// The meaning of `node` as the `field` of `parent`; no field is "".
fn meaning(language: Language, node: Node<'_>, parent: Node<'_>, field: &str) -> Meaning {
    use Meaning::{Around, Declared, Used};
    let declared_if = |yes: bool| if yes { Declared } else { Used };
    // A shorthand is a name and a value at once.
    if node.kind().starts_with("shorthand_") {
        return Declared;
    }
    match (parent.kind(), field) {
        // These are declarations of another file, and parts of a longer name in use.
        ("import_specifier" | "import_clause" | "import_spec" | "use_as_clause" | "aliased_import", _)
        | ("export_specifier" | "generic_type" | "nested_type_identifier" | "type_predicate", "name")
        | ("jsx_opening_element" | "jsx_closing_element" | "jsx_self_closing_element", "name")
        | ("keyword_argument" | "method_invocation" | "annotation" | "marker_annotation", "name")
        | ("import_statement" | "import_from_statement" | "function_call", "name")
        | ("element_value_pair", "key") => Used,
        // A qualified name, with its parts, is declared as a whole or not at all.
        ("scoped_identifier" | "scoped_type_identifier" | "qualified_identifier", "name")
        | ("template_function" | "template_type" | "template_method", "name")
        | ("nested_identifier" | "nested_namespace_specifier" | "dotted_name" | "destructor_name", _)
        | ("member_expression", "property")
        | ("attribute", "attribute")
        | ("dot_index_expression" | "method_index_expression", "field" | "method") => Around,
        ("generic_type", "type") if matches!(language, Language::Go | Language::Rust) => Around,
        ("qualified_type", "name") => Around,
        // The node is a declaration if a body follows, or nothing but the name.
        ("struct_specifier" | "class_specifier" | "union_specifier" | "enum_specifier", "name") => {
            let alone = || {
                parent.parent().is_some_and(|around| {
                    matches!(
                        around.kind(),
                        "translation_unit"
                            | "declaration_list"
                            | "field_declaration_list"
                            | "type_definition"
                    ) || around.kind().starts_with("preproc")
                        || around.kind().starts_with("template")
                })
            };
            declared_if(parent.child_by_field_name("body").is_some() || alone())
        }
        (_, "name" | "declarator" | "pattern" | "alias" | "parameter") => Declared,
        ("pair", "key") | ("pair_pattern", "value") | ("field_definition", "property") => Declared,
        ("impl_item", "type") => Declared,
        // An embedded field of Go has the name of its type.
        ("field_declaration", "type") => {
            declared_if(language == Language::Go && parent.child_by_field_name("name").is_none())
        }
        ("type_elem" | "constraint_elem", _) => Declared,
        (_, "left") => declared_if(is_assigned(language, node, parent)),
        ("expression_list" | "pattern_list" | "tuple_pattern" | "list_pattern" | "type", _) => Around,
        ("tuple" | "list", "") if language == Language::Python => Around,
        ("parameters" | "formal_parameters" | "lambda_parameters" | "typed_parameter", "") => Declared,
        (kind, "") if kind.ends_with("_pattern") || kind.ends_with("_pattern_target") => Declared,
        (
            "case_pattern"
            | "mut_pattern"
            | "closure_parameters"
            | "structured_binding_declarator"
            | "namespace_export"
            | "type_parameter"
            | "enum_body"
            | "variadic_parameter",
            _,
        ) => Declared,
        // A macro may turn it into a declaration.
        ("token_tree" | "macro_type_specifier" | "preproc_function_def" | "preproc_def", _) => Declared,
        _ => Used,
    }
}

/// Whether `parent` creates its left side.
///
/// In JavaScript, assignment creates a member but no variable.
fn is_assigned(language: Language, node: Node<'_>, parent: Node<'_>) -> bool {
    let is_script = matches!(language, Language::JavaScript | Language::Tsx | Language::TypeScript);
    match parent.kind() {
        "assignment_expression" if is_script => node.kind() == "member_expression",
        "assignment_expression" | "binary_expression" => false,
        _ => true,
    }
}

fn is_within(node: Node<'_>, kind: &str) -> bool {
    let mut around = Some(node);
    while let Some(it) = around {
        if it.kind() == kind {
            return true;
        }
        around = it.parent();
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::{Language, Stop, Tree};

    /// Checks the words between the marks, each of which occurs once.
    ///
    /// Those of `declared` are declared, those of `used` are only used.
    #[track_caller]
    fn check(path: &str, declared: &[(&str, &str)], used: &[(&str, &str)]) {
        for (list, expected) in [(declared, true), (used, false)] {
            for (name, text) in list {
                let language = Language::of(path, text).unwrap();
                let tree = Tree::parse(language, text, Stop::NEVER).unwrap();
                assert_eq!(tree.may_declare(text, name), expected, "{path}: {name} in {text}");
            }
        }
    }

    #[test]
    fn a_macro_is_found_where_it_is_defined() {
        let text = "#ifdef X\n#define INC(o) ((o)->n++)\n#else\n# define INC(o) INC2(o)\n#endif\n// #define INC 1\nint f(void) { INC(p); }\n";
        let language = Language::of("a.c", text).unwrap();
        let tree = Tree::parse(language, text, Stop::NEVER).unwrap();
        let found = tree.macros(text, "INC");
        assert_eq!(found.iter().map(|at| at.start).collect::<Vec<_>>(), [17, 50]);
        assert!(found.iter().all(|at| &text[at.clone()] == "INC"));
    }

    #[test]
    fn declarations_are_distinguished_from_uses() {
        check(
            "a.ts",
            &[
                ("x", "export interface x { a: 1 }"),
                ("x", "export const x: y<z> = f();"),
                ("x", "class A { private x = 1 }"),
                ("x", "class A { #x = 1 }"),
                ("x", "class A { constructor(readonly x: string) {} }"),
                ("x", "const { x } = f();"),
                ("x", "const { a: x } = f();"),
                ("x", "const [x] = f();"),
                ("x", "f({ x: 1 });"),
                ("x", "f({ x });"),
                ("x", "enum A { x, y }"),
                ("x", "enum A { x = 1 }"),
                ("x", "type x = 1;"),
                ("x", "namespace a.x { }"),
                ("x", "declare function x(): void;"),
                ("x", "interface A { x?: string; }"),
                ("x", "abstract class A { abstract x(): void }"),
                ("x", "class A { get x() { return 1 } }"),
                ("x", "export * as x from './a';"),
                ("x", "export { a as x };"),
                ("x", "const f = x => 1;"),
                ("x", "class A { static x }"),
            ],
            &[
                ("x", "import { x } from './x';"),
                ("x", "import x, * as a from 'x';"),
                ("x", "f(x.y, a.x); // x\nx();"),
                ("x", "let a: x = new x<x>('x', `x`);"),
                ("x", "type A = a.x | x; let b: a.x<b>;"),
                ("x", "class A extends x implements x, a.x<b> {}"),
                ("x", "export { x } from './x';"),
                ("x", "function f<T extends x>(a: T): a is x { return a instanceof x }"),
                ("x", "x = 1; a[x] = x; if (x == 1) {} return x;"),
                ("x", "let a: typeof x = x ? [x] : { a: x, ...x };"),
                ("x", "it('x', () => { expectTypeOf<a.x>().toEqualTypeOf<a.x[]>(); });"),
            ],
        );
        check("a.tsx", &[("x", "const x = () => <a/>;")], &[("x", "f(<x x={x}>x</x>, <x/>, <a.x/>);")]);
        check(
            "a.js",
            &[
                ("x", "exports.x = 1;"),
                ("x", "A.prototype.x = function () {};"),
                ("x", "class A { x = 1 }"),
                ("x", "function f(a, x) {}"),
                ("x", "function x() {}"),
            ],
            &[("x", "x.a = a.x;"), ("x", "const a = require('x'); x;")],
        );
        check(
            "a.py",
            &[
                ("x", "x = 1\n"),
                ("x", "a, x = 1, 2\n"),
                ("x", "self.x = 1\n"),
                ("x", "self.x: int = 1\n"),
                ("x", "x: int\n"),
                ("x", "def x(): ...\n"),
                ("x", "class x: ...\n"),
                ("x", "def f(x, *y): ...\n"),
                ("x", "def f(*x): ...\n"),
                ("x", "def f(x: int): ...\n"),
                ("x", "def f(x: int = 1): ...\n"),
                ("x", "for x in y: ...\n"),
                ("x", "with a as x: ...\n"),
                ("x", "with a as (y, x): ...\n"),
                ("x", "if (x := 1): ...\n"),
                ("x", "type x = int\n"),
                ("x", "try: ...\nexcept E as x: ...\n"),
                ("x", "match a:\n    case [x, 1]: ...\n"),
            ],
            &[
                ("x", "import x\nfrom x import y\nfrom a import x\n"),
                ("x", "f(x, x=x)\na.x(x.a)\n"),
                ("x", "class A(x): ...\n@x\ndef f(a: x) -> x: return x\n"),
                ("x", "a: x = x\n'x'\nb = f\"{x}\"\n# x\n"),
                ("x", "y = a.x\ny[x] = 1\ndel y.x\n"),
            ],
        );
        check(
            "a.rs",
            &[
                ("x", "fn x() {}"),
                ("x", "impl<T> a::x<T> { }"),
                ("x", "impl A for x { }"),
                ("x", "enum A { x(u8) }"),
                ("x", "struct A { x: u8 }"),
                ("x", "macro_rules! x { () => {} }"),
                ("x", "lazy! { static ref x: u8 = 1; }"),
                ("x", "fn f() { let x = 1; }"),
                ("x", "trait A { type x; fn y(); }"),
                ("x", "mod x;"),
            ],
            &[("x", "use a::x; fn f(a: x) -> a::x { x(a.x()); a::x::c(x::d) } impl x for A {}")],
        );
        check(
            "a.go",
            &[
                ("x", "package p\nfunc x() {}\n"),
                ("x", "package p\nfunc (s *S) x() {}\n"),
                ("x", "package p\ntype x struct{}\n"),
                ("x", "package p\ntype S struct{ x int }\n"),
                ("x", "package p\ntype S struct{ *x }\n"),
                ("x", "package p\ntype S struct{ a.x }\n"),
                ("x", "package p\ntype I interface{ x() int }\n"),
                ("x", "package p\ntype I interface{ x }\n"),
                ("x", "package p\nvar a, x = 1, 2\n"),
                ("x", "package p\nconst x = 1\n"),
                ("x", "package p\nfunc f() { a, x := 1, 2 }\n"),
            ],
            &[(
                "x",
                "package p\nimport x \"x\"\nfunc f(a x) *x { x(a.x); return p.x{x: x} }\ntype S struct { a x }\n",
            )],
        );
        check(
            "a.c",
            &[
                ("x", "void x(int a);"),
                ("x", "static char *x(int a) { return 0; }"),
                ("x", "int a, *x[3];"),
                ("x", "struct x { int a; };"),
                ("x", "struct x;"),
                ("x", "typedef struct { int a; } x;"),
                ("x", "enum a { x, y };"),
                ("x", "#define x 1\n"),
                ("x", "#define x(a) a\n"),
                ("x", "DEFINE(x);"),
                ("x", "#define a int x;\n"),
                ("x", "typedef struct x *y;"),
                ("x", "struct s { int x; };"),
            ],
            &[
                ("x", "void f(struct x *a) { x(a->x); struct x b; goto x; }"),
                ("x", "#include \"x.h\"\nvoid f(x *a);"),
            ],
        );
        check(
            "a.cpp",
            &[
                ("x", "void A::x() {}"),
                ("x", "template <class T> class x {};"),
                ("x", "namespace a::x {}"),
                ("x", "A::~x() {}"),
                ("x", "class A { void x() const; int y; };"),
                ("x", "using x = int;"),
            ],
            &[("x", "void f() { A::x(); a.x(); x<int> b; }")],
        );
        check(
            "a.java",
            &[
                ("x", "class x { }"),
                ("x", "class A { int a, x; }"),
                ("x", "class A { void x() {} }"),
                ("x", "enum A { x }"),
                ("x", "record A(int x) {}"),
            ],
            &[("x", "import a.x; class A extends x { @x(x = 1) x f(x<x> a) { x(a.x); return x::new; } }")],
        );
        check(
            "a.lua",
            &[
                ("x", "local x = 1"),
                ("x", "function a.x() end"),
                ("x", "function a:x() end"),
                ("x", "a.x = 1"),
                ("x", "return { x = 1 }"),
            ],
            &[("x", "local a = require 'x'\nx(a.x)\nreturn x")],
        );
        // Incomplete text may become any construct.
        check("a.ts", &[("x", "class { x")], &[]);
        check("a.yaml", &[("x", "a: x\n")], &[]);
    }
}
