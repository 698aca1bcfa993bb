//! A text with its lines, and positions of one server's encoding in it.

use std::ops::Range;
use std::sync::Arc;

use text::{LineIndex, PositionEncoding};

use crate::protocol;

/// An immutable text that can be asked for positions.
#[derive(Debug)]
pub(crate) struct View {
    pub text: Arc<str>,
    pub index: LineIndex,
}

impl View {
    pub fn new(text: Arc<str>) -> Self {
        let index = LineIndex::new(&text);
        Self { text, index }
    }

    pub fn position(&self, offset: usize, encoding: PositionEncoding) -> protocol::Position {
        let position = self.index.position(&self.text, offset, encoding);
        protocol::Position { line: position.line, character: position.character }
    }

    /// A line past the last is the end of the text: servers end whole-file ranges so.
    pub fn offset(&self, position: protocol::Position, encoding: PositionEncoding) -> Option<usize> {
        if position.line as usize >= self.index.line_count() {
            return Some(self.text.len());
        }
        let position = text::Position { line: position.line, character: position.character };
        self.index.offset(&self.text, position, encoding)
    }

    /// `None` for a range that ends before it starts or splits a character.
    pub fn range(&self, range: protocol::Range, encoding: PositionEncoding) -> Option<Range<usize>> {
        let start = self.offset(range.start, encoding)?;
        let end = self.offset(range.end, encoding)?;
        (start <= end).then_some(start..end)
    }

    pub fn protocol_range(&self, range: &Range<usize>, encoding: PositionEncoding) -> protocol::Range {
        protocol::Range {
            start: self.position(range.start, encoding),
            end: self.position(range.end, encoding),
        }
    }

    /// The one-based line of `offset` and its text without the line end.
    pub fn line(&self, offset: usize) -> (usize, String) {
        let line = self.index.line_of(offset);
        let text = self.index.line(&self.text, line).and_then(|range| self.text.get(range)).unwrap_or("");
        (line + 1, text.to_owned())
    }
}
