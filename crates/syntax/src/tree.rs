//! Tree of a text, and the tree of the text after edits.
//!
//! A tree belongs to one exact text, which it does not store: the caller passes the same text
//! again.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use text::TextEdit;
use tree_sitter::{InputEdit, ParseOptions, ParseState, Parser, Point};

use crate::errors::{depth, layout};
use crate::{Language, SyntaxError};

/// A condition polled during a parse; `true` ends it.
///
/// It may check a clock or a flag.
#[derive(Clone, Copy)]
pub struct Stop<'a>(pub &'a dyn Fn() -> bool);

impl Stop<'_> {
    /// Never ends a parse.
    pub const NEVER: Stop<'static> = Stop(&|| false);
}

/// Error when a parse ended early.
///
/// Either its [`Stop`] ended it, or the text nests deeper than its grammar can follow (a few
/// hundred levels of Python or YAML).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("parsing was stopped")]
pub struct Stopped;

/// The result of a grammar for a text, including errors. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(crate) language: Language,
    pub(crate) tree: tree_sitter::Tree,
    /// Errors that the grammar accepts.
    pub(crate) layout: Arc<[SyntaxError]>,
}

impl Tree {
    /// Parses a whole text.
    ///
    /// # Errors
    /// [`Stopped`] if `stop` returned true, or the text nests too deep.
    pub fn parse(language: Language, text: &str, stop: Stop<'_>) -> Result<Self, Stopped> {
        Ok(Self::new(language, parse(language, text, None, stop)?, text))
    }

    /// Follows `edits` and parses the parts that they changed.
    ///
    /// The edits refer to `before`, are in order of position, do not overlap, and produced `after`.
    /// `before` must be the text of this tree.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if `stop` returned true, or the text nests too deep.
    pub fn reparse(
        &self,
        before: &str,
        edits: &[TextEdit],
        after: &str,
        stop: Stop<'_>,
    ) -> Result<Self, Stopped> {
        let mut tree = self.tree.clone();
        // The loop starts with the last edit, so that earlier positions stay valid.
        for edit in input_edits(before, edits).iter().rev() {
            tree.edit(edit);
        }
        Ok(Self::new(self.language, parse(self.language, after, Some(&tree), stop)?, after))
    }

    fn new(language: Language, tree: tree_sitter::Tree, text: &str) -> Self {
        let layout = layout::errors(language, &tree, text).into();
        Self { language, tree, layout }
    }

    pub fn language(&self) -> Language {
        self.language
    }

    /// Length in bytes of the text it belongs to.
    pub fn text_len(&self) -> usize {
        self.tree.root_node().end_byte()
    }
}

fn parse(
    language: Language,
    text: &str,
    old: Option<&tree_sitter::Tree>,
    stop: Stop<'_>,
) -> Result<tree_sitter::Tree, Stopped> {
    if depth::is_too_deep(language, text) {
        return Err(Stopped);
    }
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).map_err(|_| Stopped)?;
    let mut progress = |_: &ParseState| match (stop.0)() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = &*readable(language, text);
    let mut read = |at: usize, _: Point| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut read, old, Some(options)).ok_or(Stopped)
}

/// The bytes for the grammar, each at its position.
///
/// Bash's grammar (0.25.1) calls C's `isdigit` with any character after `{`, `{1` and `{1..2`; for
/// non-ASCII characters that reads past a table. This function replaces such a character by one with as little
/// meaning there.
fn readable(language: Language, text: &str) -> Cow<'_, [u8]> {
    let is_asked = |before: u8| matches!(before, b'{' | b'.' | b'0'..=b'9');
    let bytes = text.as_bytes();
    let bad = |at: usize| !bytes[at].is_ascii() && bytes[..at].last().is_some_and(|it| is_asked(*it));
    if language != Language::Bash || !(0..bytes.len()).any(bad) {
        return Cow::Borrowed(bytes);
    }
    let mut out = bytes.to_vec();
    for at in (0..bytes.len()).filter(|at| bad(*at)) {
        let sign = bytes[at..].iter().take(4).take_while(|byte| !byte.is_ascii());
        let len = 1 + sign.skip(1).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
        out[at..at + len].fill(b'_');
    }
    Cow::Owned(out)
}

/// The edits with rows and columns, all relative to the text before any of them.
fn input_edits(before: &str, edits: &[TextEdit]) -> Vec<InputEdit> {
    let mut at = 0;
    let mut point = Point { row: 0, column: 0 };
    let mut go = |to: usize| {
        point = advanced(point, &before.as_bytes()[at..to]);
        at = to;
        point
    };
    edits
        .iter()
        .map(|edit| {
            let start_position = go(edit.range.start);
            let old_end_position = go(edit.range.end);
            InputEdit {
                start_byte: edit.range.start,
                old_end_byte: edit.range.end,
                new_end_byte: edit.range.start + edit.new_text.len(),
                start_position,
                old_end_position,
                new_end_position: advanced(start_position, edit.new_text.as_bytes()),
            }
        })
        .collect()
}

fn advanced(from: Point, over: &[u8]) -> Point {
    let rows = over.iter().filter(|byte| **byte == b'\n').count();
    match over.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => Point { row: from.row + rows, column: over.len() - last - 1 },
        None => Point { row: from.row, column: from.column + over.len() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_gets_no_character_beyond_its_tables() {
        let text = "a{é..3} {1..2😀} {é é .\u{10ffff}";
        let given = readable(Language::Bash, text);
        assert_eq!(&*given, "a{__..3} {1..2____} {__ é .____".as_bytes());
        assert_eq!(given.len(), text.len());
        assert_eq!(&*readable(Language::Python, text), text.as_bytes());
        for sign in ['é', '\u{3000}', '😀', '\u{10ffff}'] {
            for text in [format!("echo {{{sign}"), format!("echo {{1..2{sign}}}\n"), format!("a() {{{sign}")]
            {
                let tree = Tree::parse(Language::Bash, &text, Stop::NEVER).unwrap();
                assert_eq!(tree.text_len(), text.len(), "{text:?}");
            }
        }
    }
}
