//! A text split into numbered lines.
//!
//! Lines end with `\n`, `\r\n` or `\r`, as LSP 3.17 §Text Documents says, so every number here is a language
//! server's number plus one. Unlike in LSP, a final line end opens no empty last line, and an empty text has
//! no lines. A byte order mark at the start belongs to no line.

pub(crate) mod align;
pub(crate) mod check;
pub(crate) mod line_edits;
pub(crate) mod remap;

use std::ops::Range;
use std::sync::Arc;

use text::LineIndex;
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh32::Xxh32;

use crate::LineCheck;

const BOM: &str = "\u{feff}";

/// A text and the positions of its lines.
///
/// Line numbers begin with 1; a line that does not exist is empty and is at the end of the text.
#[derive(Debug, Clone)]
pub struct Lines {
    text: Arc<str>,
    index: LineIndex,
    count: usize,
    bom: usize,
}

impl Lines {
    /// Splits `text` in one pass; shares the text instead of copying it.
    pub fn new(text: Arc<str>) -> Self {
        let index = LineIndex::new(&text);
        let bom = if text.starts_with(BOM) { BOM.len() } else { 0 };
        let last = index.line_count() - 1;
        let last_is_empty = index.line_with_end(last).is_none_or(|range| range.end == range.start.max(bom));
        let count = if last_is_empty { last } else { last + 1 };
        Self { text, index, count, bom }
    }

    /// The whole text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Number of lines.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of a line with its line end.
    pub fn range(&self, line: usize) -> Range<usize> {
        if line == 0 || line > self.count {
            return self.text.len()..self.text.len();
        }
        match self.index.line_with_end(line - 1) {
            Some(range) if line == 1 => range.start.max(self.bom)..range.end,
            Some(range) => range,
            None => self.text.len()..self.text.len(),
        }
    }

    /// Bytes of a line without its line end.
    pub fn content_range(&self, line: usize) -> Range<usize> {
        let range = self.range(line);
        let content = self.text[range.clone()].trim_end_matches(['\n', '\r']);
        range.start..range.start + content.len()
    }

    /// A line without its line end.
    pub fn content(&self, line: usize) -> &str {
        &self.text[self.content_range(line)]
    }

    /// A line without trailing blanks and line end.
    pub(crate) fn bytes_without_blanks(&self, line: usize) -> &[u8] {
        let bytes = &self.text.as_bytes()[self.range(line)];
        let blank = |byte: &u8| matches!(byte, b'\n' | b'\r' | b' ' | b'\t');
        let len = bytes.iter().rposition(|byte| !blank(byte)).map_or(0, |at| at + 1);
        &bytes[..len]
    }

    /// The line end of a line; empty for an unterminated last line.
    pub fn ending(&self, line: usize) -> &str {
        &self.text[self.content_range(line).end..self.range(line).end]
    }

    /// The byte at which a line begins; past the last line, the end of the text.
    pub fn start(&self, line: usize) -> usize {
        if line == 1 { self.bom.min(self.text.len()) } else { self.range(line).start }
    }

    /// Number of the line that contains byte `offset`.
    pub fn line_of(&self, offset: usize) -> usize {
        self.index.line_of(offset) + 1
    }

    /// Whether the last line is unterminated; an empty text has none.
    pub fn lacks_final_ending(&self) -> bool {
        self.count > 0 && self.ending(self.count).is_empty()
    }

    /// The check of a line, which a read shows after its number.
    pub fn check(&self, line: usize) -> LineCheck {
        let neighbour = |line: usize| if line == 0 { "" } else { self.content(line) };
        LineCheck::of(neighbour(line - 1), self.content(line), neighbour(line + 1))
    }

    /// Whether both texts have the same lines, ignoring line ends and byte order mark.
    pub fn same_lines(&self, other: &Lines) -> bool {
        self.count == other.count
            && (1..=self.count).all(|line| self.content(line) == other.content(line))
            && self.lacks_final_ending() == other.lacks_final_ending()
    }
}

/// xxHash32 of the text with line ends as LF and without byte order mark.
pub(crate) fn short_hash(text: &str, seed: u32) -> u32 {
    let mut hash = Xxh32::new(seed);
    for_each_normal_part(text, |part| hash.update(part));
    hash.digest()
}

/// The identity that a tag names: a 64-bit xxh3 with LF line ends and without BOM.
pub(crate) fn identity(text: &str) -> u64 {
    let mut hash = Xxh3::new();
    for_each_normal_part(text, |part| hash.update(part));
    hash.digest()
}

fn for_each_normal_part(text: &str, mut take: impl FnMut(&[u8])) {
    let mut rest = text.strip_prefix(BOM).unwrap_or(text);
    while let Some(at) = rest.find('\r') {
        take(&rest.as_bytes()[..at]);
        take(b"\n");
        rest = &rest[at + 1..];
        rest = rest.strip_prefix('\n').unwrap_or(rest);
    }
    take(rest.as_bytes());
}

/// Whether a line only closes a block.
pub(crate) fn only_closes(line: &str) -> bool {
    let line = line.trim();
    let only = |rest: &str| rest.chars().all(|c| "})];,".contains(c));
    let tags = line.trim_end_matches([')', '}', ']', ';', ',']);
    matches!(line, "fi" | "done" | "esac")
        || line.strip_prefix("end").is_some_and(only)
        || (line.starts_with(['}', ')', ']']) && only(line))
        // `do { … } while (…);`
        || (line.starts_with("} while (") && line.ends_with(");"))
        || line.strip_prefix("/>").is_some_and(only)
        || (tags.starts_with("</")
            && tags.ends_with('>')
            && tags.split_inclusive('>').all(|tag| tag.trim_start().starts_with("</")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> Vec<String> {
        let lines = Lines::new(text.into());
        (1..=lines.count()).map(|line| lines.content(line).to_owned()).collect()
    }

    #[test]
    fn a_final_line_end_opens_no_line() {
        assert_eq!(contents(""), [""; 0]);
        assert_eq!(contents("\u{feff}"), [""; 0]);
        assert_eq!(contents("\n"), [""]);
        assert_eq!(contents("a"), ["a"]);
        assert_eq!(contents("a\n"), ["a"]);
        assert_eq!(contents("\u{feff}a\r\nb\rc\n\nd"), ["a", "b", "c", "", "d"]);
    }

    #[test]
    fn hashes_ignore_line_ends_and_byte_order_mark() {
        for other in ["\u{feff}a\nb\n", "a\r\nb\r\n", "a\rb\r", "a\r\nb\n"] {
            assert_eq!(short_hash(other, 0), short_hash("a\nb\n", 0));
            assert_eq!(identity(other), identity("a\nb\n"));
        }
        assert_ne!(identity("a\nb\n"), identity("a\nb"));
        assert_ne!(identity("a \nb\n"), identity("a\nb\n"));
    }
}
