//! The one construct that begins on a line: a statement, an item, a member, a pair.
//!
//! What begins at the first sign of the line, and is not merely a list of such things, is meant.
//! Attributes, decorators and doc comments lead a construct in: who names the first of them means
//! them and the construct. Where the lines would take along something else, or more than one
//! answer is right, or the place does not parse, there is no answer but what may be meant.

use std::ops::RangeInclusive;

use text::LineIndex;
use tree_sitter::Node;

use crate::kinds::{Leading, closes, is_comment, is_transparent, leading, wraps};
use crate::{Language, Tree};

/// A construct, by its lines from 1, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Construct {
    /// From the line asked for to its last.
    pub lines: RangeInclusive<usize>,
    /// The first line of attributes, decorators and doc comments that stand above the line asked
    /// for and belong to it.
    pub leading: Option<usize>,
    /// The grammar's word for it.
    pub kind: String,
}

/// There is no one construct that begins on the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unclear {
    /// Why, in a few words.
    pub message: String,
    /// What may be meant, innermost first: its lines, and the grammar's word for it.
    pub candidates: Vec<(RangeInclusive<usize>, String)>,
}

impl Tree {
    /// The construct that begins on a line, from 1, of `text`, which must be the tree's own.
    ///
    /// # Errors
    /// [`Unclear`] when none begins there, or more than one, or it does not parse.
    pub fn block(&self, text: &str, line: usize) -> Result<Construct, Unclear> {
        Finder { language: self.language, text, index: LineIndex::new(text), root: self.tree.root_node() }
            .find(line)
    }
}

struct Finder<'a> {
    language: Language,
    text: &'a str,
    index: LineIndex,
    root: Node<'a>,
}

impl<'a> Finder<'a> {
    fn find(&self, line: usize) -> Result<Construct, Unclear> {
        let range = line
            .checked_sub(1)
            .and_then(|line| self.index.line(self.text, line))
            .ok_or_else(|| self.unclear("there is no such line", Vec::new()))?;
        let content = self.text[range.clone()].trim_start_matches('\u{feff}');
        let start = range.end - content.trim_start().len();
        let path = self.path(start);
        if content.trim().is_empty() {
            return Err(self.unclear("the line is blank", self.enclosing(&path)));
        }
        if path.iter().any(Node::is_error) {
            return Err(self.unclear("the text around it does not parse", Vec::new()));
        }
        let inside_text = |node: &Node<'_>| {
            node.start_byte() < start && (node.kind().contains("string") || node.kind().contains("heredoc"))
        };
        let begins = path.iter().find(|node| node.start_byte() == start && !self.is_transparent(**node));
        let Some(first) =
            begins.filter(|node| node.is_named() && !closes(node.kind()) && !path.iter().any(inside_text))
        else {
            let mut candidates = self.later_on(line, start);
            candidates.extend(self.enclosing(&path));
            return Err(self.unclear("no construct begins there", candidates));
        };
        let target = self.target(*first, line)?;
        if target.has_error() || first.has_error() {
            return Err(self.unclear("it does not parse", Vec::new()));
        }
        let end = self.end(target, start);
        let last = self.line_of(end.saturating_sub(1).max(start));
        self.ends_its_line(end, &path, target, line)?;
        Ok(Construct {
            lines: line..=last,
            leading: self.led_in_from(*first),
            kind: target.kind().to_owned(),
        })
    }

    /// The nodes that hold the byte, outermost first.
    fn path(&self, at: usize) -> Vec<Node<'a>> {
        let mut path = vec![self.root];
        let mut cursor = self.root.walk();
        while cursor.goto_first_child_for_byte(at).is_some() && cursor.node().start_byte() <= at {
            path.push(cursor.node());
        }
        path
    }

    /// What the first node leads in, or the node itself.
    fn target(&self, first: Node<'a>, line: usize) -> Result<Node<'a>, Unclear> {
        let kind = self.leading(first);
        if kind == Leading::No {
            return Ok(first);
        }
        let mut node = first;
        let mut comment = kind == Leading::Comment;
        while let Some(next) = node.next_sibling() {
            let adjacent = self.line_of(next.start_byte()) <= self.last_line(node) + 1;
            let attached = adjacent || self.leading(node) == Leading::Attribute;
            if !attached || !next.is_named() {
                break;
            }
            match self.leading(next) {
                Leading::No if comment => {
                    let last = self.line_of(self.end(next, first.start_byte()).saturating_sub(1));
                    let candidates = vec![
                        (line..=self.last_line(node), first.kind().to_owned()),
                        (line..=last, format!("{} with its comment", next.kind())),
                    ];
                    return Err(self.unclear("a comment and what follows it begin there", candidates));
                }
                Leading::No => return Ok(next),
                Leading::Comment if !comment && kind == Leading::Doc => break,
                Leading::Comment => comment = true,
                Leading::Attribute | Leading::Doc => {}
            }
            node = next;
        }
        match kind {
            Leading::Attribute => {
                let candidates = vec![(line..=self.last_line(node), node.kind().to_owned())];
                Err(self.unclear("what it belongs to was not found", candidates))
            }
            _ if node == first => Ok(first),
            _ => {
                let candidates = vec![
                    (line..=self.last_line(first), first.kind().to_owned()),
                    (line..=self.last_line(node), "all comment lines".to_owned()),
                ];
                Err(self.unclear("several comments follow each other there", candidates))
            }
        }
    }

    /// The first line of what leads the node in from above.
    fn led_in_from(&self, first: Node<'a>) -> Option<usize> {
        let (mut node, mut leading) = (first, None);
        if let Some(wrapper) = first.parent().filter(|parent| wraps(parent.kind()))
            && wrapper.end_byte() == first.end_byte()
        {
            node = wrapper;
            leading = Some(self.line_of(wrapper.start_byte()));
        }
        while let Some(previous) = node.prev_sibling() {
            let adjacent = self.last_line(previous) + 1 >= self.line_of(node.start_byte());
            match self.leading(previous) {
                Leading::Attribute => {}
                Leading::Doc if adjacent => {}
                _ => break,
            }
            // What stands at the end of another's line does not lead in.
            if !self.begins_its_line(previous) {
                break;
            }
            leading = Some(self.line_of(previous.start_byte()));
            node = previous;
        }
        leading
    }

    /// Refuses where the last line holds something besides.
    fn ends_its_line(
        &self,
        end: usize,
        path: &[Node<'a>],
        target: Node<'a>,
        line: usize,
    ) -> Result<(), Unclear> {
        let last = self.index.line_of(end.saturating_sub(1));
        let line_end = self.index.line(self.text, last).map_or(end, |range| range.end);
        let rest = self.text.get(end..line_end).unwrap_or_default();
        let trimmed = rest.trim_start_matches([' ', '\t', ';', ',']);
        if trimmed.trim().is_empty() {
            return Ok(());
        }
        let at = line_end - trimmed.len();
        let beside = self.root.descendant_for_byte_range(at, at);
        if beside.is_some_and(|node| is_comment(node.kind())) {
            return Ok(());
        }
        let short: String = trimmed.chars().take(40).collect();
        let mut candidates = vec![(line..=last + 1, target.kind().to_owned())];
        candidates.extend(self.enclosing(path).into_iter().filter(|(lines, _)| *lines != (line..=last + 1)));
        candidates.truncate(3);
        Err(self.unclear(&format!("its last line holds `{}` as well", short.trim()), candidates))
    }

    /// Where the node ends but for blanks, and comments after it that stand no deeper than it does.
    fn end(&self, node: Node<'a>, start: usize) -> usize {
        let mut end = node.end_byte();
        loop {
            let piece = self.text.get(start..end).unwrap_or_default();
            end = start + piece.trim_end().len();
            if end <= start + 1 {
                return end.max(start);
            }
            let Some(leaf) = node.descendant_for_byte_range(end - 1, end - 1) else { return end };
            let hangs = is_comment(leaf.kind())
                && leaf.start_byte() > start
                && self.begins_its_line(leaf)
                && self.column(leaf.start_byte()) <= self.column(start);
            if !hangs {
                return end;
            }
            end = leaf.start_byte();
        }
    }

    /// The constructs around a place, innermost first.
    fn enclosing(&self, path: &[Node<'a>]) -> Vec<(RangeInclusive<usize>, String)> {
        let mut out: Vec<(RangeInclusive<usize>, String)> = Vec::new();
        for node in path.iter().rev() {
            let is_one = node.is_named()
                && !node.is_error()
                && !self.is_transparent(*node)
                && self.begins_its_line(*node);
            let lines = self.line_of(node.start_byte())
                ..=self.line_of(self.end(*node, node.start_byte()).saturating_sub(1));
            if is_one && lines.start() < lines.end() && out.iter().all(|(other, _)| *other != lines) {
                out.push((lines, node.kind().to_owned()));
            }
            if out.len() == 2 {
                break;
            }
        }
        out
    }

    /// A construct of several lines that begins on the line, but not at its first sign.
    fn later_on(&self, line: usize, start: usize) -> Vec<(RangeInclusive<usize>, String)> {
        let Some(range) = self.index.line(self.text, line - 1) else { return Vec::new() };
        let words = self.text[start..range.end].char_indices().filter(|(_, c)| c.is_alphabetic());
        for (at, _) in words {
            let begins = |node: &&Node<'_>| node.start_byte() == start + at && node.is_named();
            let path = self.path(start + at);
            let Some(node) = path.iter().find(begins) else { continue };
            let last = self.line_of(self.end(*node, node.start_byte()).saturating_sub(1));
            if last > line && !node.has_error() {
                return vec![(line..=last, format!("{} that begins within the line", node.kind()))];
            }
        }
        Vec::new()
    }

    fn unclear(&self, message: &str, candidates: Vec<(RangeInclusive<usize>, String)>) -> Unclear {
        Unclear { message: message.to_owned(), candidates }
    }

    fn is_transparent(&self, node: Node<'_>) -> bool {
        node == self.root || is_transparent(self.language, node)
    }

    fn leading(&self, node: Node<'_>) -> Leading {
        leading(self.language, node.kind(), self.text.get(node.byte_range()).unwrap_or_default())
    }

    /// The line of a byte, from 1.
    fn line_of(&self, at: usize) -> usize {
        self.index.line_of(at) + 1
    }

    /// The last line that holds something of the node.
    fn last_line(&self, node: Node<'_>) -> usize {
        let piece = self.text.get(node.byte_range()).unwrap_or_default();
        self.line_of((node.start_byte() + piece.trim_end().len()).saturating_sub(1).max(node.start_byte()))
    }

    fn column(&self, at: usize) -> usize {
        at - self.index.line_with_end(self.index.line_of(at)).map_or(at, |range| range.start)
    }

    fn begins_its_line(&self, node: Node<'_>) -> bool {
        let at = node.start_byte();
        self.text
            .get(at - self.column(at)..at)
            .is_some_and(|before| before.trim_start_matches('\u{feff}').trim().is_empty())
    }
}
