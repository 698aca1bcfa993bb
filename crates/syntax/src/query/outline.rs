//! Outline of a file: the lines to hide, so that the rest is an overview.
//!
//! The first and last lines of bodies stay visible, so each fold is between two lines that are
//! shown.

use std::ops::RangeInclusive;

use text::LineIndex;
use tree_sitter::Node;

use crate::Tree;
use crate::language::kinds::{Body, body};

/// Minimum number of lines of a fold.
const LEAST: usize = 3;

impl Tree {
    /// The lines to hide, from 1, in order, not adjacent.
    ///
    /// Whole bodies are folded, except those with members down to `depth`; 0 shows only the top
    /// level. `text` must be the tree's text.
    pub fn folds(&self, text: &str, depth: usize) -> Vec<RangeInclusive<usize>> {
        let index = LineIndex::new(text);
        let mut folds: Vec<RangeInclusive<usize>> = Vec::new();
        let mut cursor = self.tree.walk();
        // The kind of each ancestor of the cursor's node, and whether it is a body with members.
        let mut above: Vec<(&str, bool)> = Vec::new();
        'all: loop {
            let node = cursor.node();
            let inside = above.iter().filter(|(_, members)| *members).count();
            let parent = above.last().map_or("", |(kind, _)| *kind);
            let found = body(self.language, node, parent, inside);
            let lines = lines(text, &index, node);
            let mut descend = lines.start() < lines.end();
            if let Some(found) = found
                && descend
                && (found == Body::Whole || inside >= depth)
                && let Some(hidden) = hidden(text, node, &lines)
            {
                descend = false;
                if hidden.clone().count() >= LEAST
                    && folds.last().is_none_or(|last| last.end() < hidden.start())
                {
                    folds.push(hidden);
                }
            }
            if descend && cursor.goto_first_child() {
                above.push((node.kind(), found == Some(Body::Members)));
                continue;
            }
            while !cursor.goto_next_sibling() {
                above.pop();
                if !cursor.goto_parent() {
                    break 'all;
                }
            }
        }
        folds
    }
}

fn lines(text: &str, index: &LineIndex, node: Node<'_>) -> RangeInclusive<usize> {
    let piece = text.get(node.byte_range()).unwrap_or_default();
    let end = (node.start_byte() + piece.trim_end().len()).saturating_sub(1).max(node.start_byte());
    index.line_of(node.start_byte()) + 1..=index.line_of(end) + 1
}

/// The lines of a body to hide.
fn hidden(text: &str, node: Node<'_>, lines: &RangeInclusive<usize>) -> Option<RangeInclusive<usize>> {
    let (first, last) = (*lines.start(), *lines.end());
    let before = &text[..node.start_byte()];
    let own_line = before[before.rfind(['\n', '\r']).map_or(0, |at| at + 1)..].trim().is_empty();
    let opens = text[node.start_byte()..].starts_with(['{', '[', '(', '#', '<']);
    // A body without an opener of its own begins below its first line.
    let start = if own_line && !opens { first } else { first + 1 };
    // A fold is between two lines, so that it can be named by them.
    (1 < start && start < last).then(|| start..=last - 1)
}
