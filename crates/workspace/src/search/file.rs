//! Count of the matching lines of one file.
//!
//! The search reads a file whole if it may be edited, and streams a larger one. A zero byte makes it binary;
//! text that is not UTF-8 is searched as bytes, and cannot be edited.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use grep_matcher::LineTerminator;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};

use super::query::{Query, normal_ends};
use super::{LookOnly, Stop};
use crate::documents::content::BOM;
use crate::documents::disk::MAX_BYTES;

/// Number of bytes read to detect text, and between two checks whether to stop.
const FIRST: usize = 64 << 10;
const PIECE: usize = 4 << 20;
/// Maximum size of a buffer that is reused.
const KEPT: usize = 8 << 20;
/// Number of sample lines of a file that cannot be edited, and bytes of each.
const SAMPLES: usize = 20;
const SAMPLE_BYTES: usize = 300;
/// Maximum length of a line in a file that is too large to be read whole.
const MAX_LINE: usize = 64 << 20;

/// The result for one file.
#[derive(Debug)]
pub(super) enum FileMatches {
    /// The file is not text.
    Binary,
    /// The file is gone, or no longer a regular file.
    Gone,
    /// The search stopped before the file's end.
    Stopped,
    /// Text, with the number of matching lines.
    Text(u64),
    /// The hits of a file that cannot be edited, with its first lines.
    Only(u64, LookOnly, Vec<(u64, String)>),
}

/// Searches files one after another with one buffer.
pub(super) struct FileSearch<'a> {
    query: &'a Query,
    matcher: grep_regex::RegexMatcher,
    searcher: Searcher,
    stop: &'a Stop,
    buffer: Vec<u8>,
}

impl<'a> FileSearch<'a> {
    pub fn new(query: &'a Query, stop: &'a Stop) -> Self {
        // Each thread has its own matcher memory, so that threads do not wait for each other.
        let matcher = query.matcher.clone();
        Self { query, matcher, searcher: query.searcher(), stop, buffer: Vec::new() }
    }

    /// Counts the matching lines of a text.
    pub fn text(&mut self, text: &str) -> FileMatches {
        let bytes = normal_ends(text.as_bytes());
        self.count(&bytes).map_or(FileMatches::Stopped, FileMatches::Text)
    }

    /// Searches the regular file at `path`.
    ///
    /// `may_be_binary`: the file was named itself, so that a zero byte in UTF-8 does not exclude it.
    pub fn file(&mut self, path: &Path, may_be_binary: bool) -> io::Result<FileMatches> {
        let (mut file, meta) = match paths::open_file(path, false) {
            Err(error) if is_gone(&error) => return Ok(FileMatches::Gone),
            opened => opened?,
        };
        self.buffer.clear();
        file.by_ref().take(FIRST as u64).read_to_end(&mut self.buffer)?;
        let is_binary = |bytes: &[u8]| {
            memchr::memchr(0, bytes).is_some() && !(may_be_binary && std::str::from_utf8(bytes).is_ok())
        };
        if meta.len() > MAX_BYTES {
            return if memchr::memchr(0, &self.buffer).is_some() {
                Ok(FileMatches::Binary)
            } else {
                self.large(file)
            };
        }
        // The first part may end within a character; its end decides whether it is UTF-8.
        if self.buffer.len() == FIRST {
            if !may_be_binary && is_binary(&self.buffer) {
                return Ok(FileMatches::Binary);
            }
            file.take(MAX_BYTES).read_to_end(&mut self.buffer)?;
        }
        if is_binary(&self.buffer) {
            return Ok(FileMatches::Binary);
        }
        let buffer = std::mem::take(&mut self.buffer);
        let bytes = buffer.strip_prefix(BOM.as_bytes()).unwrap_or(&buffer);
        let matches = self.bytes(bytes);
        if buffer.capacity() <= KEPT {
            self.buffer = buffer;
        }
        matches
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<FileMatches> {
        let normal = normal_ends(bytes);
        let count = match self.count(&normal) {
            None => return Ok(FileMatches::Stopped),
            Some(count) => count,
        };
        // Most files have no match, and their encoding does not matter.
        if count == 0 || std::str::from_utf8(bytes).is_ok() {
            return Ok(FileMatches::Text(count));
        }
        let mut sink = Sampled::default();
        let mut searcher = numbering(self.query).build();
        searcher.search_slice(&self.matcher, &normal, &mut sink)?;
        Ok(FileMatches::Only(count, LookOnly::NotUtf8, sink.samples))
    }

    /// Counts matching lines; `None` if the search stopped.
    fn count(&mut self, mut bytes: &[u8]) -> Option<u64> {
        let mut count = Count(0);
        let in_pieces = !self.query.goes_across_lines();
        while !bytes.is_empty() {
            if self.stop.now() {
                return None;
            }
            let mut piece = bytes.len();
            if in_pieces && piece > PIECE {
                piece = memchr::memchr(b'\n', &bytes[PIECE..]).map_or(piece, |end| PIECE + end + 1);
            }
            let (first, rest) = bytes.split_at(piece);
            if let Err(error) = self.searcher.search_slice(&self.matcher, first, &mut count) {
                tracing::warn!("a file cannot be searched: {error}");
            }
            bytes = rest;
        }
        Some(count.0)
    }

    /// Streams a file that is too large to be edited.
    fn large(&mut self, file: File) -> io::Result<FileMatches> {
        if self.query.goes_across_lines() {
            let reason = "too large to be searched across lines";
            return Err(io::Error::new(ErrorKind::FileTooLarge, reason));
        }
        let start = io::Cursor::new(std::mem::take(&mut self.buffer));
        let mut sink = Sampled::default();
        let mut searcher = numbering(self.query)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE))
            .bom_sniffing(true)
            .build();
        let reader = Stopping { inner: start.chain(file), stop: self.stop };
        match searcher.search_reader(&self.matcher, reader, &mut sink) {
            Err(_) if !self.stop.never() => Ok(FileMatches::Stopped),
            Err(error) => Err(error),
            Ok(()) if sink.is_binary => Ok(FileMatches::Binary),
            Ok(()) if sink.count == 0 => Ok(FileMatches::Text(0)),
            Ok(()) => Ok(FileMatches::Only(sink.count, LookOnly::TooLarge, sink.samples)),
        }
    }
}

fn numbering(query: &Query) -> SearcherBuilder {
    let mut builder = SearcherBuilder::new();
    builder
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .multi_line(query.goes_across_lines())
        .binary_detection(BinaryDetection::none())
        .bom_sniffing(false);
    builder
}

/// Whether the file vanished, or a link, pipe or directory replaced it.
fn is_gone(error: &io::Error) -> bool {
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    is_link
        || matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput)
}

struct Count(u64);

impl Sink for &mut Count {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.0 += found.lines().count() as u64;
        Ok(true)
    }
}

/// Counts matching lines, and samples the beginnings of the first.
#[derive(Default)]
struct Sampled {
    count: u64,
    samples: Vec<(u64, String)>,
    is_binary: bool,
}

impl Sink for &mut Sampled {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let first = found.line_number().unwrap_or_default();
        for (number, line) in (first..).zip(found.lines()) {
            self.count += 1;
            if self.samples.len() < SAMPLES {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let text = String::from_utf8_lossy(&line[..line.len().min(SAMPLE_BYTES)]);
                let more = if line.len() > SAMPLE_BYTES { "…" } else { "" };
                self.samples.push((number, format!("{text}{more}")));
            }
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.is_binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// A reader that fails when the search should stop.
struct Stopping<'a, R> {
    inner: R,
    stop: &'a Stop,
}

impl<R: Read> Read for Stopping<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.now() {
            return Err(io::Error::new(ErrorKind::TimedOut, "stopped"));
        }
        self.inner.read(buffer)
    }
}
