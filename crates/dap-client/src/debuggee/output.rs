//! The output of a program and its adapter: classified, bounded, and readable from
//! any position.
//!
//! Pure. Invariants: memory does not grow with the output; a reader learns how many bytes were dropped before
//! it read them.

use std::collections::VecDeque;

/// Maximum number of stored bytes.
const LIMIT: usize = 256 * 1024;
const PIECES: usize = 8192;
/// Maximum number of stored bytes of one piece.
const PIECE: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// The program's standard output.
    Stdout,
    /// The program's standard error.
    Stderr,
    /// Messages of the adapter.
    Console,
    /// Important messages of the adapter.
    Important,
}

impl Category {
    /// Parses an event's category; `None` for telemetry.
    ///
    /// An unknown category counts as the adapter's.
    pub fn parse(name: Option<&str>) -> Option<Self> {
        match name {
            Some("stdout") => Some(Self::Stdout),
            Some("stderr") => Some(Self::Stderr),
            Some("important") => Some(Self::Important),
            Some("telemetry") => None,
            _ => Some(Self::Console),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Console => "console",
            Self::Important => "important",
        }
    }
}

/// A run of consecutive output of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub category: Category,
    /// The text, cut after 16 KiB.
    pub text: String,
}

#[derive(Debug, Default)]
pub struct Output {
    pieces: VecDeque<(u64, Piece)>,
    bytes: usize,
    total: u64,
}

/// Output since a position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Since {
    pub pieces: Vec<Piece>,
    /// The position of each piece, in bytes of all output.
    pub at: Vec<u64>,
    /// Bytes since the position that are no longer stored.
    pub dropped: u64,
    /// The position to continue from.
    pub next: u64,
}

impl Output {
    /// Adds one piece.
    pub fn push(&mut self, category: Category, text: &str) {
        if text.is_empty() {
            return;
        }
        let at = self.total;
        self.total += text.len() as u64;
        let stored = if text.len() > PIECE {
            format!("{}… ({} bytes)\n", &text[..text.floor_char_boundary(PIECE)], text.len())
        } else {
            text.to_owned()
        };
        self.bytes += stored.len();
        match self.pieces.back_mut() {
            // Adapters send single lines or parts of them.
            Some((_, last)) if last.category == category && last.text.len() + stored.len() <= PIECE => {
                last.text.push_str(&stored);
            }
            _ => self.pieces.push_back((at, Piece { category, text: stored })),
        }
        while self.bytes > LIMIT || self.pieces.len() > PIECES {
            let Some((_, oldest)) = self.pieces.pop_front() else { break };
            self.bytes -= oldest.text.len();
        }
    }

    /// Bytes received in total.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The output from position `from` on.
    pub fn since(&self, from: u64) -> Since {
        let first = self.pieces.front().map_or(self.total, |(at, _)| *at);
        let (mut pieces, mut begins) = (Vec::new(), Vec::new());
        for (at, piece) in &self.pieces {
            let skip = usize::try_from(from.saturating_sub(*at)).unwrap_or(usize::MAX);
            if skip >= piece.text.len() {
                continue;
            }
            let skip = piece.text.ceil_char_boundary(skip);
            begins.push(at + skip as u64);
            pieces.push(Piece { category: piece.category, text: piece.text[skip..].to_owned() });
        }
        Since { pieces, at: begins, dropped: first.saturating_sub(from), next: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_read_from_a_position() {
        let mut output = Output::default();
        output.push(Category::Stdout, "a\n");
        output.push(Category::Stdout, "b\n");
        output.push(Category::Stderr, "c\n");
        let all = output.since(0);
        let piece = |category, text: &str| Piece { category, text: text.to_owned() };
        assert_eq!(all.pieces, [piece(Category::Stdout, "a\nb\n"), piece(Category::Stderr, "c\n")]);
        assert_eq!(output.since(2).pieces, [piece(Category::Stdout, "b\n"), piece(Category::Stderr, "c\n")]);
        assert_eq!(output.since(2).at, [2, 4]);
        assert_eq!((output.since(all.next).pieces.len(), all.dropped), (0, 0));
    }

    #[test]
    fn a_hundred_thousand_lines_are_bounded_and_drops_counted() {
        let mut output = Output::default();
        let mut sent = 0;
        for number in 0..100_000 {
            let line = format!("line {number}\n");
            sent += line.len() as u64;
            output.push(Category::Stdout, &line);
        }
        let since = output.since(0);
        let stored: usize = since.pieces.iter().map(|piece| piece.text.len()).sum();
        assert!(stored <= LIMIT && stored > LIMIT / 2, "{stored}");
        assert_eq!(since.dropped + stored as u64, sent);
        assert!(since.pieces.last().unwrap().text.ends_with("line 99999\n"));
    }

    #[test]
    fn one_endless_line_is_cut() {
        let mut output = Output::default();
        output.push(Category::Stderr, &"é".repeat(1_000_000));
        assert!(output.since(0).pieces[0].text.ends_with("… (2000000 bytes)\n"));
        assert!(output.bytes < 2 * PIECE);
    }
}
