//! Proof that an edited text still parses, from the constructs around each edit.
//!
//! A grammar lists functions, methods and statements one after another, in any number. A parser
//! reaches the next one with no state from those before it except that they parsed. The whole text
//! parses if the constructs around an edit parse with the edit applied, and the unchanged ones at
//! both ends of them have the same nodes as before. The omitted text before and after them is then
//! parsed as before.
//!
//! This takes time in proportion to those few constructs, while following the edits through the
//! tree of a large text takes time for every construct in it.
//!
//! The proof shows only that a text parses; in any doubt it shows nothing.

use std::ops::Range;

use text::TextEdit;
use tree_sitter::{Node, TreeCursor};

use crate::language::kinds;
use crate::window::cuts::{line_end, line_start};
use crate::{Language, Stop, Stopped, Tree};

/// Minimum size in bytes; a shorter text is parsed again as fast.
const LEAST: usize = 8 << 10;
/// Maximum time of a full parse relative to following edits, per byte.
const FASTER: usize = 24;
/// Maximum number of distant edits that are checked one by one.
const PLACES: usize = 6;
/// Minimum distance in bytes between edits of different places.
const APART: usize = 2_000;
/// Number of unchanged constructs to parse at each end.
const UNCHANGED: usize = 2;
/// Maximum number of neighbours to inspect for them.
const NEIGHBOURS: usize = 12;

impl Tree {
    /// Whether the text after `edits` parses for certain; `false` proves nothing.
    ///
    /// The edits are of `before`, which is this tree's own text, in order of place, not overlapping.
    ///
    /// # Errors
    /// [`Stopped`] if `stop` returned true.
    pub fn surely_parses(&self, before: &str, edits: &[TextEdit], stop: Stop<'_>) -> Result<bool, Stopped> {
        let root = self.tree.root_node();
        if edits.is_empty()
            || before.len() < LEAST
            || self.is_broken(before)
            || !kinds::lists(self.language, root)
        {
            return Ok(false);
        }
        let mut places: Vec<&[TextEdit]> =
            edits.chunk_by(|a, b| b.range.start - a.range.end <= APART).collect();
        if places.len() > PLACES {
            return Ok(false);
        }
        // Overlapping parts are joined, so that all agree on what is unchanged.
        let parts = loop {
            let parts: Option<Vec<Part<'_>>> =
                places.iter().map(|place| Part::around(self, before, place)).collect();
            let Some(parts) = parts else { return Ok(false) };
            let Some(at) = parts.windows(2).position(|two| two[0].end() > two[1].start()) else {
                break parts;
            };
            let first = edits.iter().position(|edit| std::ptr::eq(edit, &places[at][0])).unwrap_or_default();
            let both = &edits[first..first + places[at].len() + places[at + 1].len()];
            places.splice(at..at + 2, [both]);
        };
        if parts.iter().map(Part::len).sum::<usize>() * FASTER > before.len() {
            return Ok(false);
        }
        for part in parts {
            if !part.parses(self.language, before, stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Kinds by which to find a node again.
///
/// The node's own kind is last, preceded by those of its ancestors except the root.
struct Mark {
    kinds: Vec<u16>,
    range: Range<usize>,
}

/// An edit with the constructs around it, and their enclosing nodes.
struct Part<'a> {
    edits: &'a [TextEdit],
    /// The bytes of the text before to parse, in order.
    pieces: Vec<Range<usize>>,
    /// Nodes that the new tree must contain unchanged.
    marks: Vec<Mark>,
}

impl<'a> Part<'a> {
    /// The smallest sufficient list of constructs around the edits.
    fn around(tree: &Tree, before: &str, edits: &'a [TextEdit]) -> Option<Self> {
        let touched =
            line_start(before, edits.first()?.range.start)..line_end(before, edits.last()?.range.end);
        let most = before.len() / FASTER;
        let mut cursor = tree.tree.walk();
        let mut path: Vec<u16> = Vec::new();
        // The text above the constructs of the enclosing lists, and below them.
        let (mut above, mut below): (Vec<Range<usize>>, Vec<Range<usize>>) = (Vec::new(), Vec::new());
        let mut construct: Option<Range<usize>> = None;
        let mut part = None;
        loop {
            // The cursor is at a list.
            let list = cursor.node();
            let Some(body) = body(&mut cursor, before, path.is_empty()) else { return part };
            if touched.start < body.start || body.end < touched.end {
                return part;
            }
            if let Some(construct) = construct {
                let Some(first) = own_line(before, construct.start) else { return part };
                let lines = first..line_end(before, construct.end);
                if !matches!(before[construct.end..lines.end].trim(), "" | ";") {
                    return part;
                }
                above.push(lines.start..body.start);
                below.push(body.end..lines.end.max(body.end));
            }
            let Some((mut marks, lines)) = around(&mut cursor, before, &touched, &body, &path) else {
                return part;
            };
            if !path.is_empty() {
                marks.push(Mark { kinds: path.clone(), range: list.byte_range() });
            }
            let mut pieces = above.clone();
            pieces.push(lines);
            pieces.extend(below.iter().rev().cloned());
            let found = Self { edits, pieces, marks };
            let enough = found.len() <= most.min(LEAST);
            part = Some(found);
            if enough {
                return part;
            }
            // Descend to the list in the construct that holds the edit, if there is one.
            construct = descend(tree.language, &mut cursor, &touched, &mut path);
            if construct.is_none() {
                return part;
            }
        }
    }

    fn start(&self) -> usize {
        self.pieces.first().map_or(0, |piece| piece.start)
    }

    fn end(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(Range::len).sum()
    }

    fn parses(&self, language: Language, before: &str, stop: Stop<'_>) -> Result<bool, Stopped> {
        let text: String = self.pieces.iter().map(|piece| &before[piece.clone()]).collect();
        let edits: Option<Vec<TextEdit>> = self
            .edits
            .iter()
            .map(|edit| Some(TextEdit::replace(self.place(&edit.range)?, edit.new_text.clone())))
            .collect();
        let Some(edits) = edits else { return Ok(false) };
        let Ok(after) = text::apply(&text, &edits) else { return Ok(false) };
        let tree = Tree::parse(language, &after, stop)?;
        let moved = |at: usize| {
            let grown: isize = edits.iter().filter(|edit| edit.range.end <= at).map(TextEdit::growth).sum();
            at.saturating_add_signed(grown)
        };
        Ok(!tree.tree.root_node().has_error()
            && tree.layout.is_empty()
            && self.marks.iter().all(|mark| {
                let place = self.place(&mark.range).map(|range| moved(range.start)..moved(range.end));
                place.is_some_and(|place| is_at(&tree, &mark.kinds, &place))
            }))
    }

    /// Maps a range of the text before to the pieces.
    fn place(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let place = |at: usize, is_end: bool| {
            let mut start = 0;
            for piece in &self.pieces {
                let inside = if is_end { at <= piece.end } else { at < piece.end };
                if piece.start <= at && inside {
                    return Some(start + at - piece.start);
                }
                start += piece.len();
            }
            // The range is the end of the last piece.
            self.pieces.last().filter(|piece| piece.end == at).map(|_| start)
        };
        let start = place(range.start, false)?;
        let end = if range.is_empty() { start } else { place(range.end, true)? };
        (start <= end).then_some(start..end)
    }
}

/// Whether a node with these ancestor kinds is exactly there.
fn is_at(tree: &Tree, kinds: &[u16], range: &Range<usize>) -> bool {
    let mut cursor = tree.tree.walk();
    let found = kinds.iter().all(|kind| {
        cursor.goto_first_child_for_byte(range.start).is_some() && cursor.node().kind_id() == *kind
    });
    found && cursor.node().byte_range() == *range
}

/// Descends from a list to the nearest list below it that holds the lines.
///
/// Returns the construct of the first list that leads there.
fn descend(
    language: Language,
    cursor: &mut TreeCursor<'_>,
    lines: &Range<usize>,
    path: &mut Vec<u16>,
) -> Option<Range<usize>> {
    let mut construct: Option<Range<usize>> = None;
    loop {
        cursor.goto_first_child_for_byte(lines.start)?;
        let node = cursor.node();
        if lines.start < node.start_byte() || node.end_byte() < lines.end {
            return None;
        }
        path.push(node.kind_id());
        let construct = construct.get_or_insert_with(|| node.byte_range());
        if kinds::lists(language, node) {
            return Some(construct.clone());
        }
    }
}

/// The lines between a list's opener and its closer.
fn body(cursor: &mut TreeCursor<'_>, before: &str, is_root: bool) -> Option<Range<usize>> {
    if is_root {
        return Some(0..before.len());
    }
    let list = cursor.node();
    let (first, last) = (list.child(0)?, list.child(list.child_count().checked_sub(1)?)?);
    let start = match first.kind() {
        "{" => line_end(before, first.end_byte()),
        _ => own_line(before, first.start_byte())?,
    };
    let end = match last.kind() {
        "}" => own_line(before, last.start_byte())?,
        _ => line_end(before, last.end_byte()),
    };
    cursor.goto_first_child();
    let opens =
        cursor.node().kind() != "{" || (cursor.goto_next_sibling() && cursor.node().start_byte() >= start);
    cursor.goto_parent();
    (opens && start <= end).then_some(start..end)
}

/// The start of a line, if `at` is the first in it that is not blank.
fn own_line(text: &str, at: usize) -> Option<usize> {
    let start = line_start(text, at);
    text[start..at].trim().is_empty().then_some(start)
}

/// Whether a construct is separate from its neighbours.
fn is_whole(node: Node<'_>, before: &str) -> bool {
    node.is_named() && !node.is_extra() && own_line(before, node.start_byte()).is_some()
}

/// Lines around `touched`, between unchanged constructs of the cursor's list.
///
/// They include those constructs and the adjacent ones, or extend to the list's own ends.
fn around(
    cursor: &mut TreeCursor<'_>,
    before: &str,
    touched: &Range<usize>,
    body: &Range<usize>,
    path: &[u16],
) -> Option<(Vec<Mark>, Range<usize>)> {
    let mut marks = Vec::new();
    let mark = |node: Node<'_>| {
        let kinds = path.iter().copied().chain([node.kind_id()]).collect();
        Mark { kinds, range: node.byte_range() }
    };
    let start = {
        let mut more = cursor.goto_first_child_for_byte(touched.start).is_some() || cursor.goto_last_child();
        if !more {
            return None;
        }
        let mut start = None;
        for _ in 0..NEIGHBOURS {
            let node = cursor.node();
            if !more || node.start_byte() < body.start {
                start = Some(body.start);
                break;
            }
            if node.end_byte() <= touched.start && is_whole(node, before) {
                start = Some(line_start(before, node.start_byte()));
                marks.push(mark(node));
            }
            if marks.len() == UNCHANGED {
                break;
            }
            more = cursor.goto_previous_sibling();
        }
        cursor.goto_parent();
        start?
    };
    let found = marks.len();
    let mut more = cursor.goto_first_child_for_byte(touched.end).is_some();
    if !more {
        return Some((marks, start..body.end));
    }
    let mut end = None;
    for _ in 0..NEIGHBOURS {
        let node = cursor.node();
        if !more || node.start_byte() >= body.end {
            end = Some(body.end);
            break;
        }
        more = cursor.goto_next_sibling();
        if node.start_byte() < touched.end || !is_whole(node, before) {
            continue;
        }
        let mut lines_end = line_end(before, node.end_byte());
        let mut alone = true;
        // The lines include the separator after it, and a comment after that.
        while alone && more && cursor.node().start_byte() < lines_end.min(body.end) {
            alone = !cursor.node().is_named() || cursor.node().is_extra();
            lines_end = lines_end.max(line_end(before, cursor.node().end_byte()));
            more = cursor.goto_next_sibling();
        }
        if !alone || lines_end > body.end {
            continue;
        }
        end = Some(lines_end);
        marks.push(mark(node));
        if marks.len() == found + UNCHANGED {
            break;
        }
    }
    cursor.goto_parent();
    Some((marks, start..end?))
}
