//! A text with its lines, and its positions in a server's encoding.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use paths::AbsPath;
use text::{LineIndex, PositionEncoding};

use crate::answer::Location;
use crate::server::protocol;

/// An immutable text with positions.
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

    /// Converts a position to a byte offset.
    ///
    /// A line past the last is the end of the text: servers end whole-file ranges with it.
    pub fn offset(&self, position: protocol::Position, encoding: PositionEncoding) -> Option<usize> {
        if position.line as usize >= self.index.line_count() {
            return Some(self.text.len());
        }
        let position = text::Position { line: position.line, character: position.character };
        self.index.offset(&self.text, position, encoding)
    }

    /// Converts a range to bytes.
    ///
    /// `None` if it ends before it starts or splits a character.
    pub fn range(&self, range: protocol::Range, encoding: PositionEncoding) -> Option<Range<usize>> {
        let start = self.offset(range.start, encoding)?;
        let end = self.offset(range.end, encoding)?;
        (start <= end).then_some(start..end)
    }

    pub(crate) fn protocol_range(&self, range: &Range<usize>, encoding: PositionEncoding) -> protocol::Range {
        protocol::Range {
            start: self.position(range.start, encoding),
            end: self.position(range.end, encoding),
        }
    }

    /// The one-based line of `offset`.
    pub fn line(&self, offset: usize) -> usize {
        self.index.line_of(offset) + 1
    }

    pub fn location(&self, path: AbsPath, range: Range<usize>) -> Location {
        Location::new(path, &self.text, &self.index, range)
    }
}

/// The files of one answer, at most [`MOST`] at a time.
///
/// Each file is read once, although the answer names thousands of positions.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<HashMap<AbsPath, Option<Arc<View>>>>);

/// Maximum number of files; servers list the positions of one file together.
const MOST: usize = 64;

impl Views {
    /// The text of a file, read on demand; `None` if it cannot be read.
    pub fn get(&self, path: &AbsPath, read: impl FnOnce() -> Option<Arc<View>>) -> Option<Arc<View>> {
        let mut known = self.0.lock();
        if let Some(view) = known.get(path) {
            return view.clone();
        }
        let view = read();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(path.clone(), view.clone());
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_for_all_its_positions() {
        let views = Views::default();
        let mut reads = 0;
        for file in 0..200 {
            for _ in 0..3 {
                let path = AbsPath::new(format!("/p/{file}")).unwrap();
                let view = views.get(&path, || {
                    reads += 1;
                    (file != 7).then(|| Arc::new(View::new(path.to_string().into())))
                });
                assert_eq!(view.map(|view| view.text.to_string()), (file != 7).then(|| path.to_string()));
            }
        }
        assert_eq!(reads, 200);
        assert!(views.0.lock().len() <= MOST);
    }
}
