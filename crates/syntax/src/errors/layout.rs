//! Errors that a grammar accepts: wrong columns, empty bodies, unclosed tags.
//!
//! Checks statements and elements only, so that it costs little compared to parsing. A text that does not
//! parse is not checked (except HTML): its parse errors are reported, and its statements are guesses.

use tree_sitter::Node;

use crate::errors::MOST;
use crate::{ErrorKind, Language, SyntaxError};

/// The errors, in order of place.
pub(crate) fn errors(language: Language, tree: &tree_sitter::Tree, text: &str) -> Vec<SyntaxError> {
    let mut look = LayoutCheck { text, columns: Vec::new(), found: Vec::new() };
    let visit = match language {
        Language::Python => LayoutCheck::python,
        Language::Bash => LayoutCheck::bash,
        Language::Html => LayoutCheck::html,
        _ => return Vec::new(),
    };
    if language != Language::Html && tree.root_node().has_error() {
        return Vec::new();
    }
    let mut cursor = tree.walk();
    // The ancestors of the cursor's node.
    let mut above: Vec<Node<'_>> = Vec::new();
    loop {
        let node = cursor.node();
        look.columns.truncate(above.len());
        look.columns.push(None);
        if visit(&mut look, node, &above) && cursor.goto_first_child() {
            above.push(node);
            continue;
        }
        let more = loop {
            if cursor.goto_next_sibling() {
                break true;
            }
            above.pop();
            if !cursor.goto_parent() {
                break false;
            }
        };
        if !more || look.found.len() >= MOST {
            break;
        }
    }
    look.found.sort_by_key(|error| error.range.start);
    look.found
}

struct LayoutCheck<'a> {
    text: &'a str,
    /// Columns of the list or statement of each ancestor and of the current node.
    ///
    /// `None` where the column is unknown.
    columns: Vec<Option<Column>>,
    found: Vec<SyntaxError>,
}

/// Indentation of a line, with tabs to every eighth column and with tabs as one.
///
/// Two lines that agree in both agree for every width of a tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    wide: usize,
    narrow: usize,
}

impl Column {
    const START: Self = Self { wide: 0, narrow: 0 };

    /// The column of a node, if it begins a line that continues no other.
    fn of(node: Node<'_>, text: &str) -> Option<Self> {
        let start = node.start_byte();
        let (above, line) = text.split_at_checked(start - node.start_position().column.min(start))?;
        let line = line.get(..start - above.len())?.trim_start_matches('\u{feff}');
        if above.trim_end_matches(['\n', '\r']).ends_with('\\') {
            return None;
        }
        line.chars().try_fold(Self::START, |Self { wide, narrow }, c| match c {
            ' ' => Some(Self { wide: wide + 1, narrow: narrow + 1 }),
            '\t' => Some(Self { wide: (wide / 8 + 1) * 8, narrow: narrow + 1 }),
            '\x0c' => Some(Self::START),
            _ => None,
        })
    }

    fn is_deeper(self, than: Self) -> bool {
        self.wide > than.wide && self.narrow > than.narrow
    }
}

/// Whether a node has no children but comments.
fn is_empty(node: Node<'_>) -> bool {
    if node.named_child(0).is_some_and(|first| !first.is_extra()) {
        return false;
    }
    let mut cursor = node.walk();
    node.named_children(&mut cursor).all(|child| child.is_extra())
}

impl LayoutCheck<'_> {
    fn report(&mut self, node: Node<'_>, what: impl Into<String>) {
        let piece = self.text.get(node.byte_range()).unwrap_or_default();
        let line = piece.lines().next().unwrap_or_default().trim_end();
        let range = node.start_byte()..node.start_byte() + line.len();
        self.found.push(SyntaxError { range, kind: ErrorKind::Misplaced(what.into()) });
    }

    /// Checks columns, empty blocks, and `try` without a handler.
    fn python(&mut self, node: Node<'_>, above: &[Node<'_>]) -> bool {
        let depth = above.len();
        if node.is_extra() || !node.is_named() {
            return false;
        }
        let kind = node.kind();
        let Some(parent) = above.last() else { return true };
        if kind == "block" {
            if is_empty(node) {
                self.report(*parent, "it has no body");
            }
            return true;
        }
        let column = Column::of(node, self.text);
        let is_list = matches!(parent.kind(), "module" | "block");
        if let Some(column) = column {
            let expected = self.columns[depth - 1];
            if is_list && expected.is_none() {
                let outer = depth.checked_sub(2).and_then(|at| self.columns[at]);
                let fits = match parent.kind() {
                    "module" => column == Column::START,
                    _ => outer.is_none_or(|outer| column.is_deeper(outer)),
                };
                if !fits {
                    self.report(node, "it has the wrong indentation");
                }
                let first = if parent.kind() == "module" { Column::START } else { column };
                self.columns[depth - 1] = Some(first);
            } else if (is_list || follows(kind, parent.kind()))
                && expected.is_some_and(|expected| expected != column)
            {
                self.report(node, "its indentation differs from that of its block");
            }
        }
        self.columns[depth] = column;
        if kind == "try_statement" {
            let mut cursor = node.walk();
            let caught = node
                .named_children(&mut cursor)
                .any(|child| child.kind().starts_with("except") || child.kind() == "finally_clause");
            if !caught {
                self.report(node, "`try` without `except` or `finally`");
            }
        }
        kind.ends_with("_clause") || kind.ends_with("_definition") || is_compound(kind)
    }

    /// Checks for empty bodies.
    fn bash(&mut self, node: Node<'_>, _: &[Node<'_>]) -> bool {
        let kind = node.kind();
        let is_bare = match kind {
            "if_statement" | "elif_clause" => {
                let mut cursor = node.walk();
                let mut children = node.children(&mut cursor).filter(|child| !child.is_extra());
                let body = children.find(|child| child.kind() == "then").and_then(|_| children.next());
                body.is_none_or(|next| matches!(next.kind(), "fi" | "elif_clause" | "else_clause"))
            }
            "else_clause" | "do_group" => is_empty(node),
            "compound_statement" => is_empty(node) && node.child(0).is_some_and(|open| open.kind() == "{"),
            _ => false,
        };
        if is_bare {
            self.report(node, "it has no body");
        }
        node.is_named() && !matches!(kind, "word" | "heredoc_body" | "comment" | "raw_string")
    }

    /// Checks for elements without a required end tag, and for unmatched end tags.
    fn html(&mut self, node: Node<'_>, _: &[Node<'_>]) -> bool {
        match node.kind() {
            "erroneous_end_tag" => {
                self.found.push(SyntaxError { range: node.byte_range(), kind: ErrorKind::Unexpected });
                false
            }
            "element" => {
                let start = node.child(0).filter(|start| start.kind() == "start_tag");
                let last = node.child(node.child_count().saturating_sub(1));
                let is_closed = last.is_some_and(|last| last.kind() == "end_tag");
                let name = start.and_then(|start| start.named_child(0));
                let name = name.and_then(|name| self.text.get(name.byte_range())).unwrap_or_default();
                if let Some(start) = start
                    && !is_closed
                    && !may_stay_open(&name.to_ascii_lowercase())
                {
                    let range = start.byte_range();
                    let kind = ErrorKind::Misplaced(format!("it is not closed by `</{name}>`"));
                    self.found.push(SyntaxError { range: range.start..range.start + name.len() + 1, kind });
                }
                true
            }
            "document" => true,
            _ => false,
        }
    }
}

/// Whether a node must be at the column of the statement that it continues.
fn follows(kind: &str, parent: &str) -> bool {
    parent == "decorated_definition"
        || matches!(
            kind,
            "elif_clause" | "else_clause" | "except_clause" | "except_group_clause" | "finally_clause"
        )
}

fn is_compound(kind: &str) -> bool {
    ["if_statement", "for_statement", "while_statement", "try_statement", "with_statement", "match_statement"]
        .contains(&kind)
}

/// Void elements, and those whose end tag is optional.
fn may_stay_open(name: &str) -> bool {
    const VOID: &[&str] = &[
        "area", "base", "basefont", "bgsound", "br", "col", "command", "embed", "frame", "hr", "image",
        "img", "input", "keygen", "link", "meta", "nextid", "param", "source", "track", "wbr",
    ];
    const OPTIONAL: &[&str] = &[
        "html", "head", "body", "li", "dt", "dd", "p", "rb", "rt", "rtc", "rp", "optgroup", "option",
        "colgroup", "caption", "thead", "tbody", "tfoot", "tr", "td", "th",
    ];
    VOID.contains(&name) || OPTIONAL.contains(&name)
}
