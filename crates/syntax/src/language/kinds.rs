//! The meaning of the grammars' node kinds, all named in this file.

use tree_sitter::Node;

use crate::Language;
use crate::query::outline::DeclarationKind;

/// The relation of a node to the construct after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leading {
    /// The node is a construct of its own.
    No,
    /// The node is an attribute or decorator.
    Attribute,
    /// The node is a doc comment.
    Doc,
    /// The node is a comment that may document the construct.
    Comment,
}

/// Whether a node only lists constructs.
///
/// The first construct then begins where the node begins.
pub(crate) fn is_transparent(language: Language, node: Node<'_>) -> bool {
    let kind = node.kind();
    match language {
        Language::Python | Language::Lua => kind == "block",
        Language::Go => kind == "statement_list",
        Language::Yaml => matches!(kind, "document" | "block_node" | "block_mapping" | "block_sequence"),
        Language::Markdown => match kind {
            "list" => true,
            "section" => node.child(0).is_none_or(|child| !child.kind().ends_with("heading")),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a node lists any number of constructs on lines of their own.
///
/// Each is a valid member in any position, beside any neighbour.
pub(crate) fn lists(language: Language, node: Node<'_>) -> bool {
    use Language::*;
    let kind = node.kind();
    match language {
        Rust => matches!(kind, "source_file" | "declaration_list" | "block"),
        Python => matches!(kind, "module" | "block"),
        TypeScript | Tsx | JavaScript => matches!(kind, "program" | "class_body" | "statement_block"),
        Java => matches!(kind, "program" | "class_body" | "interface_body" | "block"),
        C | Cpp => matches!(
            kind,
            "translation_unit" | "declaration_list" | "field_declaration_list" | "compound_statement"
        ),
        Go => kind == "source_file",
        _ => false,
    }
}

/// The relation of a node with this kind and text to the construct after it.
pub(crate) fn leading(language: Language, kind: &str, text: &str) -> Leading {
    use Language::*;
    if matches!(kind, "attribute_item" | "decorator") {
        return Leading::Attribute;
    }
    if !is_comment(kind) {
        return Leading::No;
    }
    let starts = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    let documents = match language {
        // The documentation tools of these languages treat such comments as documentation of
        // declarations.
        Go => true,
        Rust => (starts(&["///"]) && !starts(&["////"])) || (starts(&["/**"]) && !starts(&["/***", "/**/"])),
        C | Cpp => starts(&["///", "/*!"]) || (starts(&["/**"]) && !starts(&["/**/"])),
        Java | JavaScript | TypeScript | Tsx => starts(&["/**"]) && !starts(&["/**/"]),
        Lua => starts(&["---"]),
        _ => false,
    };
    let inner = language == Rust && starts(&["//!", "/*!"]);
    match documents {
        true => Leading::Doc,
        false if inner => Leading::No,
        false => Leading::Comment,
    }
}

/// Whether a node of this kind ends a construct that began elsewhere.
pub(crate) fn closes(kind: &str) -> bool {
    matches!(kind, "end_tag" | "jsx_closing_element" | "erroneous_end_tag")
}

/// Whether `node` only wraps `last`, for example as an `export` or a template.
pub(crate) fn wraps(language: Language, node: Node<'_>, last: Node<'_>) -> bool {
    match node.kind() {
        "template_declaration" | "export_statement" => true,
        // In C the node names a position; in Go, a statement that can be left by its name.
        "labeled_statement" => match language {
            Language::C | Language::Cpp => false,
            Language::Go => matches!(
                last.kind(),
                "for_statement"
                    | "select_statement"
                    | "expression_switch_statement"
                    | "type_switch_statement"
            ),
            _ => true,
        },
        _ => false,
    }
}

/// Lists of constructs without a closing token.
const OPEN_LISTS: &[&str] = &[
    "switch_case",
    "switch_default",
    "case_statement",
    "switch_block_statement_group",
    "expression_case",
    "default_case",
    "type_case",
    "communication_case",
    "where_clause",
    "concatenated_string",
    "preproc_else",
    "preproc_elif",
    "preproc_elifdef",
];

/// Whether nodes of this kind list constructs without a closing token.
///
/// The number of constructs is arbitrary.
pub(crate) fn lists_openly(language: Language, kind: &str) -> bool {
    use Language::*;
    match kind {
        _ if OPEN_LISTS.contains(&kind) => true,
        "else_clause" | "elif_clause" | "case_item" => language == Bash,
        "labeled_statement" => matches!(language, C | Cpp | Go),
        _ => false,
    }
}

pub(crate) fn is_comment(kind: &str) -> bool {
    [
        "comment",
        "line_comment",
        "block_comment",
        "js_comment",
        "html_comment",
        "doc_comment",
        "outer_doc_comment_marker",
    ]
    .contains(&kind)
}

/// Declarations in outlines that have no field `body`.
///
/// A `declaration` or a `field_declaration` is shown if it is a prototype.
const WITHOUT_BODY: &[&str] = &[
    "abstract_method_signature",
    "alias_declaration",
    "associated_type",
    "concept_definition",
    "const_item",
    "const_spec",
    "declaration",
    "field_declaration",
    "function_signature",
    "function_signature_item",
    "macro_definition",
    "method_declaration",
    "method_elem",
    "method_signature",
    "preproc_function_def",
    "property_signature",
    "public_field_definition",
    "static_item",
    "struct_item",
    "type_alias",
    "type_alias_declaration",
    "type_alias_statement",
    "type_definition",
    "type_item",
    "type_spec",
    "var_spec",
];

pub(crate) fn declares_without_body(node: Node<'_>) -> bool {
    WITHOUT_BODY.contains(&node.kind()) || is_exported_variable(node)
}

/// Whether a node is a variable that a module of JavaScript exports.
fn is_exported_variable(node: Node<'_>) -> bool {
    let around = || std::iter::successors(node.parent(), Node::parent);
    node.kind() == "variable_declarator"
        && node.child_by_field_name("name").is_some_and(|name| name.kind() == "identifier")
        && around().nth(1).is_some_and(|it| matches!(it.kind(), "export_statement" | "ambient_declaration"))
}

fn is_script(language: Language) -> bool {
    matches!(language, Language::JavaScript | Language::TypeScript | Language::Tsx)
}

/// The value that an assignment declares, as in `C.prototype.f = function () {}`.
pub(crate) fn assigned(language: Language, node: Node<'_>) -> Option<Node<'_>> {
    let value = node.child_by_field_name("right")?;
    let is_named = value.child_by_field_name("name").is_some();
    (is_script(language) && node.kind() == "assignment_expression" && !is_named).then_some(value)
}

/// Whether a value has members that an outline shows.
pub(crate) fn is_object(language: Language, kind: &str) -> bool {
    is_script(language) && kind == "object"
}

/// The word that names a default export.
pub(crate) fn default_export(node: Node<'_>) -> Option<Node<'_>> {
    let is_default = |it: &Node<'_>| it.kind() == "default";
    node.children(&mut node.walk()).find(is_default).filter(|_| node.kind() == "export_statement")
}

/// The name of a C++ class after a macro (`class EXPORT Name : Base {`).
///
/// The grammar parses it as a function.
pub(crate) fn class_with_macro(node: Node<'_>) -> Option<Node<'_>> {
    let class = node.child_by_field_name("type").filter(|_| node.kind() == "function_definition")?;
    let is_class = matches!(class.kind(), "class_specifier" | "struct_specifier" | "enum_specifier");
    let declarator = node.child_by_field_name("declarator")?;
    if !is_class || class.child_by_field_name("body").is_some() || declarator.kind() != "identifier" {
        return None;
    }
    let error = class.next_named_sibling().filter(|it| it.kind() == "ERROR");
    error.and_then(|it| it.named_child(0)).or(Some(declarator))
}

pub(crate) fn declaration_kind(kind: &str, has_parameters: bool) -> DeclarationKind {
    match kind {
        "namespace_definition" | "internal_module" | "module" => DeclarationKind::Namespace,
        "impl_item" => DeclarationKind::Members,
        "const_item" | "const_spec" | "enum_variant" | "static_item" | "var_spec" => DeclarationKind::Value,
        "property_signature" | "public_field_definition" | "variable_declarator" if !has_parameters => {
            DeclarationKind::Value
        }
        "type_definition" | "record_declaration" => DeclarationKind::Type,
        // A function of a shell has no parameters.
        "function_definition" | "macro_definition" | "preproc_function_def" => DeclarationKind::Function,
        _ if has_parameters => DeclarationKind::Function,
        _ => DeclarationKind::Type,
    }
}

/// Whether nodes of this kind are a keyword and the declarations that follow it.
pub(crate) fn is_declaration_list(kind: &str) -> bool {
    matches!(
        kind,
        "type_declaration"
            | "const_declaration"
            | "var_declaration"
            | "lexical_declaration"
            | "variable_declaration"
    )
}

/// Whether nodes of this kind only add to a declaration.
///
/// Its documentation is above them.
pub(crate) fn wraps_declaration(kind: &str) -> bool {
    is_declaration_list(kind)
        || matches!(
            kind,
            "export_statement" | "ambient_declaration" | "decorated_definition" | "template_declaration"
        )
}

/// Whether nodes of this kind list data.
pub(crate) fn is_data(kind: &str) -> bool {
    matches!(
        kind,
        "array"
            | "array_expression"
            | "initializer_list"
            | "list"
            | "literal_value"
            | "string"
            | "template_string"
    )
}

/// Whether a node can be shown by its first line.
pub(crate) fn is_landmark(node: Node<'_>) -> bool {
    let kind = node.kind();
    let is_string =
        node.named_child(0).is_some_and(|it| it.kind() == "string" && node.named_child_count() == 1);
    if is_string || matches!(kind, "template_declaration" | "decorated_definition") {
        return false;
    }
    [
        "statement",
        "declaration",
        "expression",
        "item",
        "definition",
        "specifier",
        "pair",
        "case",
        "variant",
        "assignment",
    ]
    .iter()
    .any(|word| kind.ends_with(word))
        && !kind.starts_with("import")
        && !kind.starts_with("use_")
        || matches!(kind, "enumerator" | "call" | "command" | "switch_default")
}

pub(crate) fn is_annotation(kind: &str) -> bool {
    matches!(kind, "annotation" | "decorator" | "marker_annotation")
}

/// Whether a node of this kind follows the documentation of the whole text.
pub(crate) fn is_file_header(kind: &str) -> bool {
    ["package", "import", "preproc"].iter().any(|word| kind.starts_with(word))
}

/// The treatment of a body in an outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// The node holds members that an outline shows.
    Members,
    Whole,
}

/// Bodies that hold members, and other bodies.
const MEMBERS: &[&str] = &[
    "class_body",
    "declaration_list",
    "interface_body",
    "enum_body",
    "enum_body_declarations",
    "annotation_type_body",
    "preproc_if",
    "preproc_ifdef",
    "linkage_specification",
];
const WHOLE: &[&str] = &[
    "block",
    "statement_block",
    "compound_statement",
    "constructor_body",
    "field_declaration_list",
    "enum_variant_list",
    "enumerator_list",
    "object",
    "object_type",
    "array",
    "array_expression",
    "initializer_list",
    "dictionary",
    "list",
    "switch_body",
    "match_block",
    "token_tree",
    "composite_literal",
    "literal_value",
    "table_constructor",
    "const_spec_list",
    "import_spec_list",
    "use_list",
    "do_group",
];

/// The treatment of a node that is a body.
///
/// `parent` is the kind of the node above it, `depth` the number of member bodies around it.
pub(crate) fn body(language: Language, node: Node<'_>, parent: &str, depth: usize) -> Option<Body> {
    let kind = node.kind();
    let data = |members: bool| Some(if members { Body::Members } else { Body::Whole });
    match language {
        Language::Json | Language::JsonC => match kind {
            "object" | "array" => data(depth == 0),
            _ => None,
        },
        Language::Yaml => match kind {
            "block_mapping" | "block_sequence" if parent == "block_node" => data(depth == 0),
            _ => None,
        },
        Language::Markdown => (kind == "section").then_some(Body::Members),
        Language::Toml => matches!(kind, "array" | "inline_table").then_some(Body::Whole),
        Language::Html => match kind {
            "element" => data(depth < 3),
            "script_element" | "style_element" => Some(Body::Whole),
            _ => None,
        },
        _ => match kind {
            _ if MEMBERS.contains(&kind) => Some(Body::Members),
            "field_declaration_list" if language == Language::Cpp => Some(Body::Members),
            "block" if language == Language::Python && parent == "class_definition" => Some(Body::Members),
            "block" if language == Language::Python => {
                (parent == "function_definition").then_some(Body::Whole)
            }
            _ if WHOLE.contains(&kind) => Some(Body::Whole),
            _ => None,
        },
    }
}
