//! Lines of a text, and conversion between byte offsets and a protocol's positions.
//!
//! Lines end with `\n`, `\r\n` or `\r`, as LSP 3.17 §Text Documents says. The last line may be
//! empty: a text always has one more line than line ends.

use std::ops::Range;

/// The unit in which a [`Position`] counts characters (LSP 3.17 §Position Encodings).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PositionEncoding {
    /// Bytes.
    Utf8,
    /// UTF-16 code units; the protocol's default.
    Utf16,
    /// Unicode scalar values.
    Utf32,
}

impl PositionEncoding {
    fn len(self, character: char) -> usize {
        match self {
            Self::Utf8 => character.len_utf8(),
            Self::Utf16 => character.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

/// A zero-based line and a character in it, counted in a [`PositionEncoding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Zero-based line.
    pub line: u32,
    /// Zero-based character within the line.
    pub character: u32,
}

/// Where each line of one text begins. It must be used with that text only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineIndex {
    starts: Vec<usize>,
    len: usize,
}

impl LineIndex {
    /// Indexes `text` in one pass.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        let mut at = 0;
        while at < bytes.len() {
            let width = match bytes[at] {
                b'\r' if bytes.get(at + 1) == Some(&b'\n') => 2,
                b'\n' | b'\r' => 1,
                _ => {
                    at += 1;
                    continue;
                }
            };
            at += width;
            starts.push(at);
        }
        Self { starts, len: bytes.len() }
    }

    /// Number of lines, at least one; a final line end opens an empty last line.
    pub fn line_count(&self) -> usize {
        self.starts.len()
    }

    /// Zero-based line that holds byte `offset`; the last line for anything beyond the text.
    pub fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset) - 1
    }

    /// Bytes of a zero-based line with its line end; `None` past the last line.
    pub fn line_with_end(&self, line: usize) -> Option<Range<usize>> {
        let start = *self.starts.get(line)?;
        Some(start..self.starts.get(line + 1).copied().unwrap_or(self.len))
    }

    /// Bytes of a zero-based line without its line end; `None` past the last line.
    pub fn line(&self, text: &str, line: usize) -> Option<Range<usize>> {
        let range = self.line_with_end(line)?;
        let content = text.get(range.clone())?.trim_end_matches(['\n', '\r']);
        // A line holds at most one line end, so trimming can only remove that.
        Some(range.start..range.start + content.len())
    }

    /// Byte offset of `position`; a character past the line's end is the line's end, as LSP asks.
    /// `None` when the line does not exist or the character lies inside one (half a surrogate).
    pub fn offset(&self, text: &str, position: Position, encoding: PositionEncoding) -> Option<usize> {
        let range = self.line(text, position.line as usize)?;
        let wanted = position.character as usize;
        let mut units = 0;
        for (at, character) in text[range.clone()].char_indices() {
            if units == wanted {
                return Some(range.start + at);
            }
            if units > wanted {
                return None;
            }
            units += encoding.len(character);
        }
        (units <= wanted).then_some(range.end)
    }

    /// Position of byte `offset`, which must be at most the text's length; an offset inside a
    /// character or a line end counts as its start.
    pub fn position(&self, text: &str, offset: usize, encoding: PositionEncoding) -> Position {
        let offset = offset.min(self.len);
        let line = self.line_of(offset);
        let start = self.starts[line];
        let end = self.line(text, line).map_or(offset, |range| offset.min(range.end));
        let units: usize = text[start..]
            .char_indices()
            .take_while(|(at, character)| start + at + character.len_utf8() <= end)
            .map(|(_, character)| encoding.len(character))
            .sum();
        Position { line: line as u32, character: units as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENCODINGS: [PositionEncoding; 3] =
        [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Utf32];

    #[test]
    fn every_line_end_counts() {
        let text = "a\r\nb\rc\n";
        let index = LineIndex::new(text);
        let lines: Vec<&str> =
            (0..index.line_count()).map(|line| &text[index.line(text, line).unwrap()]).collect();
        assert_eq!(lines, ["a", "b", "c", ""]);
    }

    #[test]
    fn encodings_count_differently() {
        let text = "é😀x";
        let index = LineIndex::new(text);
        let at = |encoding| index.position(text, text.len() - 1, encoding).character;
        assert_eq!(ENCODINGS.map(at), [6, 3, 2]);
        let half = Position { line: 0, character: 2 };
        assert_eq!(index.offset(text, half, PositionEncoding::Utf16), None);
        let past = Position { line: 0, character: 99 };
        assert_eq!(index.offset(text, past, PositionEncoding::Utf16), Some(text.len()));
    }

    proptest! {
        #[test]
        fn positions_come_back(text in "[aé😀\n\r]{0,30}") {
            let index = LineIndex::new(&text);
            for (offset, _) in text.char_indices() {
                let inside_crlf = text[..offset].ends_with('\r') && text[offset..].starts_with('\n');
                for encoding in ENCODINGS {
                    let position = index.position(&text, offset, encoding);
                    if !inside_crlf {
                        prop_assert_eq!(index.offset(&text, position, encoding), Some(offset));
                    }
                }
            }
        }
    }
}
