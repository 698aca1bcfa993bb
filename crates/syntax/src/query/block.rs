//! The one construct that begins on a line: a statement, an item, a member, a pair.
//!
//! It begins at the first character of the line and is more than a list of such constructs.
//! Attributes, decorators and doc comments belong to the construct below: a line that names the
//! first of them means both. The answer is a list of candidates if the lines would include other
//! text, if several answers are right, or if the place does not parse.

use std::ops::RangeInclusive;

use text::LineIndex;
use tree_sitter::Node;

use crate::language::kinds::{
    Leading, closes, is_comment, is_transparent, leading, lists, lists_openly, wraps,
};
use crate::{Language, SyntaxError, Tree};

/// A construct, by its lines from 1, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Construct {
    /// The lines from the requested one to the construct's last.
    pub lines: RangeInclusive<usize>,
    /// First line of attributes, decorators and doc comments above the requested line.
    pub leading: Option<usize>,
    /// The lines of the construct that it ends.
    ///
    /// Set if that construct would take the following text in its place. Examples are the value of
    /// an assignment and the one statement of an `if` without brackets.
    pub part_of: Option<RangeInclusive<usize>>,
    /// The grammar's name for it.
    pub kind: String,
}

/// Error when no single construct begins on the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unclear {
    pub message: String,
    /// The candidates, innermost first: lines, and the grammar's name.
    pub candidates: Vec<(RangeInclusive<usize>, String)>,
}

impl Tree {
    /// The construct that begins on a line (from 1) of `text`, the tree's own.
    ///
    /// # Errors
    /// [`Unclear`] if none or several begin there, or it does not parse.
    pub fn block(&self, text: &str, line: usize) -> Result<Construct, Unclear> {
        let root = self.tree.root_node();
        // Errors that the readers of such a text accept do not count.
        let lenient = (self.language == Language::JsonC).then(|| self.errors(text));
        Finder { language: self.language, text, index: LineIndex::new(text), root, lenient }.find(line)
    }
}

struct Finder<'a> {
    language: Language,
    text: &'a str,
    index: LineIndex,
    root: Node<'a>,
    lenient: Option<Vec<SyntaxError>>,
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
        if path.iter().any(|node| node.is_error() && self.is_broken(*node)) {
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
        if self.is_broken(target) || self.is_broken(*first) {
            return Err(self.unclear("it does not parse", Vec::new()));
        }
        let end = self.end(target, start);
        let last = self.line_of(end.saturating_sub(1).max(start));
        self.ends_its_line(end, &path, target, line)?;
        let above: Vec<Node<'a>> = path.iter().take_while(|node| *node != first).copied().collect();
        Ok(Construct {
            lines: line..=last,
            leading: self.led_in_from(*first, &above),
            part_of: self.part_of(target, start, end, &above),
            kind: target.kind().to_owned(),
        })
    }

    /// The nodes around the byte, outermost first.
    fn path(&self, at: usize) -> Vec<Node<'a>> {
        let mut path = vec![self.root];
        let mut cursor = self.root.walk();
        while cursor.goto_first_child_for_byte(at).is_some() && cursor.node().start_byte() <= at {
            path.push(cursor.node());
        }
        path
    }

    /// The construct that the first node introduces, or the node itself.
    fn target(&self, first: Node<'a>, line: usize) -> Result<Node<'a>, Unclear> {
        let kind = self.leading(first);
        if kind == Leading::No {
            return Ok(first);
        }
        let mut node = first;
        let mut comment = kind == Leading::Comment;
        let binds = self.binds(kind);
        while let Some(mut next) = node.next_sibling() {
            // A comment may come before the list of its subject.
            while self.is_transparent(next)
                && let Some(inner) = next.child(0)
            {
                next = inner;
            }
            let adjacent = self.line_of(next.start_byte()) <= self.last_line(node) + 1;
            let attached = adjacent || binds || self.leading(node) == Leading::Attribute;
            if !attached || !next.is_named() {
                break;
            }
            match self.leading(next) {
                Leading::No if comment && !binds => {
                    let last = self.line_of(self.end(next, first.start_byte()).saturating_sub(1));
                    let candidates = vec![
                        (line..=self.last_line(node), first.kind().to_owned()),
                        (line..=last, format!("{} with its comment", next.kind())),
                    ];
                    return Err(self.unclear("a comment and the construct after it begin there", candidates));
                }
                Leading::No => return Ok(next),
                Leading::Comment if binds => {}
                Leading::Comment if !comment && kind == Leading::Doc => break,
                Leading::Comment => comment = true,
                Leading::Attribute | Leading::Doc => {}
            }
            node = next;
        }
        match kind {
            Leading::Attribute => {
                let candidates = vec![(line..=self.last_line(node), node.kind().to_owned())];
                Err(self.unclear("it belongs to no construct", candidates))
            }
            _ if node == first => Ok(first),
            _ => {
                let candidates = vec![
                    (line..=self.last_line(first), first.kind().to_owned()),
                    (line..=self.last_line(node), "all comment lines".to_owned()),
                ];
                Err(self.unclear("several comments begin there", candidates))
            }
        }
    }

    /// First line of the attributes and comments above the node that belong to it.
    ///
    /// `above` are the nodes around it, outermost first.
    fn led_in_from(&self, first: Node<'a>, above: &[Node<'a>]) -> Option<usize> {
        let (mut node, mut leading) = (first, None);
        let begins =
            |list: &&Node<'a>| self.is_transparent(**list) && list.start_byte() == first.start_byte();
        if let Some(list) = above.iter().rev().take_while(begins).last() {
            node = *list;
        }
        let wrapper = above.last().copied().filter(|parent| wraps(self.language, *parent, first));
        if let Some(wrapper) = wrapper.filter(|wrapper| self.ends_with(*wrapper, first.end_byte())) {
            node = wrapper;
            leading = Some(self.line_of(wrapper.start_byte()));
        }
        // Whether only line ends separate the nodes visited so far.
        let mut adjacent = true;
        while let Some(previous) = node.prev_sibling() {
            adjacent &= self.last_line(previous) + 1 >= self.line_of(node.start_byte());
            // A comment at the end of another line does not belong to this construct, unless it
            // must.
            let alone = self.begins_its_line(previous);
            match self.leading(previous) {
                Leading::Comment => {}
                kind if self.binds(kind) && (alone || kind == Leading::Attribute) => {
                    leading = Some(self.line_of(previous.start_byte()));
                }
                Leading::Doc if adjacent && alone => leading = Some(self.line_of(previous.start_byte())),
                _ => break,
            }
            node = previous;
        }
        leading
    }

    /// Whether the node belongs to the next construct regardless of the text between.
    fn binds(&self, kind: Leading) -> bool {
        kind == Leading::Attribute || kind == Leading::Doc && self.language == Language::Rust
    }

    /// Whether only a separator remains of the node from `end` on.
    fn ends_with(&self, node: Node<'a>, end: usize) -> bool {
        let rest = self.text.get(end..node.end_byte()).unwrap_or_default();
        rest.trim_matches([' ', '\t', '\r', '\n', ';', ',']).is_empty()
    }

    /// Whether each member of a node is valid without the others.
    fn is_list(&self, node: Node<'a>) -> bool {
        self.is_transparent(node) || lists(self.language, node) || lists_openly(self.language, node.kind())
    }

    /// The lines of a construct that begins above `start` and ends with the target.
    ///
    /// `above` are the nodes around it, outermost first.
    fn part_of(
        &self,
        target: Node<'a>,
        start: usize,
        end: usize,
        above: &[Node<'a>],
    ) -> Option<RangeInclusive<usize>> {
        // An `else` or a `catch` is optional.
        if target.kind().ends_with("_clause") {
            return None;
        }
        // If indentation and line ends delimit constructs, no text takes another's place.
        if matches!(self.language, Language::Yaml | Language::Markdown | Language::Html | Language::Toml) {
            return None;
        }
        let around =
            above.iter().rev().take_while(|node| !self.is_list(**node) && self.ends_with(**node, end));
        let whole = around.filter(|node| node.start_byte() < start).last()?;
        Some(self.line_of(whole.start_byte())..=self.last_line(*whole))
    }

    /// Refuses a construct whose last line holds other text.
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
        if let Some(owner) = self.owner_of_end(end, rest, path, target) {
            let whole = self.line_of(owner.start_byte())..=self.last_line(owner);
            return Err(self.unclear(
                "the `;` at its end ends an enclosing construct",
                vec![(whole, owner.kind().to_owned())],
            ));
        }
        let trimmed = rest.trim_start_matches([' ', '\t', ';', ',']);
        if trimmed.trim().is_empty() {
            return Ok(());
        }
        let at = line_end - trimmed.len();
        let beside = self.root.descendant_for_byte_range(at, at);
        // A grammar may give the opening characters of a comment a node of their own.
        let around = beside.and_then(|node| node.parent());
        if [beside, around].into_iter().flatten().any(|node| is_comment(node.kind())) {
            return Ok(());
        }
        let short: String = trimmed.chars().take(40).collect();
        let mut candidates = vec![(line..=last + 1, target.kind().to_owned())];
        candidates.extend(self.enclosing(path).into_iter().filter(|(lines, _)| *lines != (line..=last + 1)));
        candidates.truncate(3);
        Err(self.unclear(&format!("its last line also holds `{}`", short.trim()), candidates))
    }

    /// The node ended by the `;` after the target, if it began on a line above.
    fn owner_of_end(&self, end: usize, rest: &str, path: &[Node<'a>], target: Node<'a>) -> Option<Node<'a>> {
        let at = end + rest.find(|c| !matches!(c, ' ' | '\t')).filter(|at| rest[*at..].starts_with(';'))?;
        let holds = |node: &&Node<'a>| node.start_byte() < target.start_byte() && node.end_byte() > at;
        let owner = path.iter().rev().find(holds)?;
        let ends = self.ends_with(*owner, at);
        (ends && !self.is_list(*owner) && !wraps(self.language, *owner, target)).then_some(*owner)
    }

    /// The end of the node, including blanks and comments after it that are not deeper.
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

    /// A construct of several lines that begins within the line, not at its start.
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

    fn is_broken(&self, node: Node<'_>) -> bool {
        let inside = |error: &SyntaxError| {
            node.start_byte() <= error.range.start && error.range.end <= node.end_byte()
        };
        node.has_error() && self.lenient.as_ref().is_none_or(|errors| errors.iter().any(inside))
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

    /// The last line with text of the node.
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
