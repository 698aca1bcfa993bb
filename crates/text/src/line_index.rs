//! Lines of a text, and conversion between byte offsets and protocol positions.
//!
//! Lines end with `\n`, `\r\n` or `\r`, as LSP 3.17 §Text Documents says, unless the peer is known
//! to use other line ends ([`LineEnds`]). The last line may be empty: a text always has one more
//! line than line ends.

use std::ops::Range;

/// The unit of a [`Position`]'s character offset (LSP 3.17 §Position Encodings).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PositionEncoding {
    /// Counts bytes.
    Utf8,
    /// Counts UTF-16 code units; the protocol's default.
    Utf16,
    /// Counts Unicode scalar values.
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

/// The sequences that end a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LineEnds {
    /// Ends lines at `\n`, `\r\n` and `\r`, as LSP requires.
    #[default]
    Any,
    /// `\n` alone; a `\r` before it is the line's last character.
    Lf,
    /// `\n` and `\r\n`; any other `\r` is a character of its line.
    CrLf,
}

/// Line starts of one text. Valid for that text only.
#[derive(Debug, Clone)]
pub struct LineIndex {
    starts: Vec<usize>,
    len: usize,
    ends: LineEnds,
    /// Whether the text is known to be ASCII, so that positions need no scan.
    ascii: bool,
}

impl PartialEq for LineIndex {
    // After an edit the text may be ASCII without being known as such.
    fn eq(&self, other: &Self) -> bool {
        (&self.starts, self.len, self.ends) == (&other.starts, other.len, other.ends)
    }
}

impl LineIndex {
    /// Indexes `text` in one pass.
    pub fn new(text: &str) -> Self {
        Self::with_ends(text, LineEnds::Any)
    }

    /// Indexes `text` with these line ends.
    pub fn with_ends(text: &str, ends: LineEnds) -> Self {
        let mut starts = vec![0];
        push_starts(text, 0..text.len(), ends, &mut starts);
        Self { starts, len: text.len(), ends, ascii: text.is_ascii() }
    }

    /// Applies one edit that replaced `range` by `new_len` bytes and gave `after`.
    ///
    /// Costs little for a small edit, whatever the size of the text.
    pub fn edit(&mut self, after: &str, range: Range<usize>, new_len: usize) {
        let moved = |offset: usize| offset - range.len() + new_len;
        // The window has one more line on either side: an edit may join or split `\r` and `\n`.
        let first = self.line_of(range.start).saturating_sub(1);
        let next = self.line_of(range.end) + 2;
        let window_end = self.starts.get(next).copied().map_or(after.len(), moved);
        let mut middle = Vec::new();
        push_starts(after, self.starts[first]..window_end, self.ends, &mut middle);
        if next < self.starts.len() {
            // The window's end is the start that opens the tail.
            middle.pop();
            self.starts[next..].iter_mut().for_each(|start| *start = moved(*start));
        }
        let tail = next.min(self.starts.len());
        self.starts.splice(first + 1..tail, middle);
        self.len = after.len();
        self.ascii &= after.as_bytes()[range.start..range.start + new_len].is_ascii();
    }

    /// The line ends in use.
    pub fn ends(&self) -> LineEnds {
        self.ends
    }

    /// Number of lines, at least one; a final line end opens an empty last line.
    pub fn line_count(&self) -> usize {
        self.starts.len()
    }

    /// Zero-based line of byte `offset`; the last line for offsets past the text.
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
        let whole = text.get(range.clone())?;
        let content = match self.ends {
            // A line holds at most one line end, so trimming can only remove that.
            LineEnds::Any => whole.trim_end_matches(['\n', '\r']),
            LineEnds::Lf => whole.strip_suffix('\n').unwrap_or(whole),
            LineEnds::CrLf => {
                whole.strip_suffix("\r\n").or_else(|| whole.strip_suffix('\n')).unwrap_or(whole)
            }
        };
        Some(range.start..range.start + content.len())
    }

    /// Byte offset of `position`.
    ///
    /// A character past the line's end maps to the line's end, as LSP requires. `None` if the line
    /// does not exist or the position splits a character (half a surrogate).
    pub fn offset(&self, text: &str, position: Position, encoding: PositionEncoding) -> Option<usize> {
        let range = self.line(text, position.line as usize)?;
        let wanted = position.character as usize;
        if self.ascii {
            return Some(range.start + wanted.min(range.len()));
        }
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

    /// Position of byte `offset`, at most the text's length.
    ///
    /// An offset inside a character or a line end counts as its start.
    pub fn position(&self, text: &str, offset: usize, encoding: PositionEncoding) -> Position {
        let offset = offset.min(self.len);
        let line = self.line_of(offset);
        let start = self.starts[line];
        let end = self.line(text, line).map_or(offset, |range| offset.min(range.end));
        if self.ascii {
            return Position { line: line as u32, character: (end - start) as u32 };
        }
        let units: usize = text[start..]
            .char_indices()
            .take_while(|(at, character)| start + at + character.len_utf8() <= end)
            .map(|(_, character)| encoding.len(character))
            .sum();
        Position { line: line as u32, character: units as u32 }
    }
}

/// Appends the starts of the lines whose preceding line end is within `window`.
fn push_starts(text: &str, window: Range<usize>, ends: LineEnds, starts: &mut Vec<usize>) {
    let bytes = text.as_bytes();
    let inside = &bytes[window.clone()];
    if ends != LineEnds::Any || memchr::memchr(b'\r', inside).is_none() {
        starts.extend(memchr::memchr_iter(b'\n', inside).map(|at| window.start + at + 1));
        return;
    }
    let mut next = window.start;
    for at in memchr::memchr2_iter(b'\n', b'\r', inside).map(|at| window.start + at) {
        // Skip the `\n` of a `\r\n`.
        if at >= next {
            let is_pair = bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n');
            next = at + if is_pair { 2 } else { 1 };
            starts.push(next);
        }
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
    fn line_ends_depend_on_the_reader() {
        let text = "a\r\nb\rc\n";
        let lines = |ends| -> Vec<&str> {
            let index = LineIndex::with_ends(text, ends);
            (0..index.line_count()).map(|line| &text[index.line(text, line).unwrap()]).collect()
        };
        assert_eq!(lines(LineEnds::Lf), ["a\r", "b\rc", ""]);
        assert_eq!(lines(LineEnds::CrLf), ["a", "b\rc", ""]);
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

    /// Covers a line in which a scan from its start would take quadratic time.
    #[test]
    fn positions_in_one_long_line_take_linear_time() {
        let text = "x".repeat(1 << 20);
        let index = LineIndex::new(&text);
        let started = std::time::Instant::now();
        for offset in (0..text.len()).step_by(10) {
            let position = index.position(&text, offset, PositionEncoding::Utf16);
            assert_eq!(index.offset(&text, position, PositionEncoding::Utf16), Some(offset));
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    }

    proptest! {
        #[test]
        fn edited_index_equals_a_new_index(
            text in "[a\n\r]{0,12}",
            edits in prop::collection::vec((0usize..20, 0usize..6, "[b\n\r]{0,4}"), 1..6),
        ) {
            for ends in [LineEnds::Any, LineEnds::Lf, LineEnds::CrLf] {
                let mut text = text.clone();
                let mut index = LineIndex::with_ends(&text, ends);
                for (start, len, new) in &edits {
                    let start = (*start).min(text.len());
                    let end = (start + len).min(text.len());
                    text.replace_range(start..end, new);
                    index.edit(&text, start..end, new.len());
                    prop_assert_eq!(&index, &LineIndex::with_ends(&text, ends));
                }
            }
        }

        #[test]
        fn positions_round_trip(text in "[aé😀\n\r]{0,30}") {
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
