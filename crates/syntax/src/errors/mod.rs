//! The broken places of a tree, as narrow as possible.
//!
//! A parser wraps everything that it cannot place in one node, which may be the whole file. The
//! errors are the unplaced pieces in it, line by line: they name the relevant line, and can be
//! found again after an edit elsewhere.

pub(crate) mod comparison;
pub(crate) mod depth;
pub(crate) mod layout;

use std::ops::Range;

use tree_sitter::{Node, TreeCursor};

use crate::{Language, Tree};

/// Maximum number of reported errors.
///
/// A text with more is not checked by its errors.
pub(crate) const MOST: usize = 2_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The bytes, within one line; empty for a missing token.
    pub range: Range<usize>,
    pub kind: ErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// The grammar does not allow the text here.
    Unexpected,
    /// A token is missing, with the grammar's name for it.
    Missing(String),
    /// The grammar accepts the text, but the language does not; with a short reason.
    Misplaced(String),
}

impl SyntaxError {
    /// A short description; `text` is the text of the error.
    pub fn message(&self, text: &str) -> String {
        match &self.kind {
            ErrorKind::Missing(token) => format!("missing `{token}`"),
            ErrorKind::Unexpected | ErrorKind::Misplaced(_) => {
                let piece = text.get(self.range.clone()).unwrap_or_default().trim();
                let short = text::shorten(piece, 40);
                match &self.kind {
                    ErrorKind::Misplaced(why) => format!("`{short}`: {why}"),
                    _ => format!("unexpected `{short}`"),
                }
            }
        }
    }
}

impl Tree {
    /// Whether any place is broken.
    pub fn is_broken(&self, text: &str) -> bool {
        // A grammar without trailing commas reports them; the file's reader may accept them.
        !self.layout.is_empty() || self.tree.root_node().has_error() && !self.errors(text).is_empty()
    }

    /// The broken places, in order; at most 2,000. `text` must be the tree's own.
    pub fn errors(&self, text: &str) -> Vec<SyntaxError> {
        let mut found = self.parse_errors(text);
        if !self.layout.is_empty() {
            found.extend(self.layout.iter().cloned());
            found.sort_by_key(|error| error.range.start);
            found.truncate(MOST);
        }
        found
    }

    /// The errors reported by the grammar.
    pub(crate) fn parse_errors(&self, text: &str) -> Vec<SyntaxError> {
        let mut found = Vec::new();
        let mut cursor = self.tree.walk();
        // Whether the node at the cursor is a direct child of an error.
        let mut in_error = vec![false];
        loop {
            let node = cursor.node();
            let stray = in_error.last().copied().unwrap_or_default();
            let descend = visit(node, stray, text, &mut found);
            if found.len() >= MOST {
                break;
            }
            if descend && cursor.goto_first_child() {
                in_error.push(node.is_error());
                continue;
            }
            if !next(&mut cursor, &mut in_error) {
                break;
            }
        }
        if found.is_empty() && self.tree.root_node().has_error() {
            found.push(hidden(self.tree.root_node()));
        }
        if self.language == Language::JsonC {
            found.retain(|error| !is_final_comma(text, error));
        }
        found
    }
}

/// Whether an error is a trailing comma, or the element expected after it.
fn is_final_comma(text: &str, error: &SyntaxError) -> bool {
    let comma = match error.kind {
        ErrorKind::Misplaced(_) => false,
        ErrorKind::Unexpected => text.get(error.range.clone()).is_some_and(|piece| piece.trim() == ","),
        ErrorKind::Missing(_) => {
            text.get(..error.range.start).is_some_and(|before| before.trim_end().ends_with(','))
        }
    };
    comma && text.get(error.range.end..).is_some_and(|after| after.trim_start().starts_with(['}', ']']))
}

/// The error of a tree that contains no error node.
///
/// A token without a node of its own is missing.
fn hidden(root: Node<'_>) -> SyntaxError {
    let mut node = root;
    loop {
        let mut cursor = node.walk();
        let inner = node.children(&mut cursor).find(|child| child.has_error());
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    let at = node.start_byte();
    SyntaxError { range: at..at, kind: ErrorKind::Missing("end of a block".to_owned()) }
}

fn next(cursor: &mut TreeCursor<'_>, in_error: &mut Vec<bool>) -> bool {
    while !cursor.goto_next_sibling() {
        in_error.pop();
        if !cursor.goto_parent() {
            return false;
        }
    }
    true
}

/// Records the node if it is broken; returns whether to visit its children.
fn visit(node: Node<'_>, stray: bool, text: &str, found: &mut Vec<SyntaxError>) -> bool {
    let leaf = node.child_count() == 0;
    if node.is_missing() {
        let at = node.start_byte();
        found.push(SyntaxError { range: at..at, kind: ErrorKind::Missing(node.kind().to_owned()) });
        return false;
    }
    if leaf && (node.is_error() || (stray && !node.is_extra())) {
        unexpected(node.byte_range(), text, found);
        return false;
    }
    if node.is_error() && !has_own_trouble(node) {
        unexpected(node.byte_range(), text, found);
        return false;
    }
    node.has_error()
}

/// Whether an error's children are more specific than the error itself.
fn has_own_trouble(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor)
        .any(|child| child.has_error() || (child.child_count() == 0 && !child.is_extra()))
}

/// Records the first line of the piece, joined to an error on the same line.
fn unexpected(range: Range<usize>, text: &str, found: &mut Vec<SyntaxError>) {
    let piece = text.get(range.clone()).unwrap_or_default();
    let skipped = piece.len() - piece.trim_start().len();
    let start = range.start + skipped;
    let line = piece.trim_start().lines().next().unwrap_or_default().trim_end();
    let range = start..start + line.len();
    if let Some(last) = found.last_mut()
        && last.kind == ErrorKind::Unexpected
        && text.get(last.range.end..range.start).is_some_and(|between| !between.contains('\n'))
    {
        last.range.end = last.range.end.max(range.end);
        return;
    }
    found.push(SyntaxError { range, kind: ErrorKind::Unexpected });
}
