//! Message framing: `Content-Length` headers (LSP 3.17 §Base Protocol), or lines.
//!
//! Does not parse bodies. Invariants: bytes outside messages are skipped and reported, never an
//! error; memory is bounded by [`Limits`]; the frames do not depend on the chunks of the stream.

use std::io;

use tokio_util::bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// The separation of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Headers `Content-Length: N`, an empty line, then N bytes: LSP and DAP.
    ContentLength,
    /// One message per line: ACP, MCP, Pilcrow's `rpc`.
    Line,
}

/// Limits of the bytes held while searching for the end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of one header section, and of a run of them without a line end.
    pub header: usize,
    /// Maximum bytes of one body. A longer one is skipped and reported.
    pub body: usize,
}

impl Default for Limits {
    /// Allows 16 KiB of header and 256 MiB of body.
    fn default() -> Self {
        Self { header: 16 * 1024, body: 256 * 1024 * 1024 }
    }
}

/// One item of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The body of one message.
    Body(Bytes),
    /// Bytes outside messages; the stream continues after them.
    Skipped(Skipped),
}

/// Bytes of a stream that belong to no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// Output other than a header, usually of a program that prints to standard output.
    #[error("{bytes} bytes that are not a header: {start:?}")]
    Garbage {
        /// Number of skipped bytes.
        bytes: usize,
        /// Their beginning, for display.
        start: String,
    },
    /// A body above [`Limits::body`]; it is dropped.
    #[error("a message of {bytes} bytes is above the limit of {limit}")]
    TooLarge {
        /// The announced length; for line framing, the bytes read up to the limit.
        bytes: u64,
        /// The limit in force.
        limit: usize,
    },
    /// A header section that announces no length, or is above [`Limits::header`].
    #[error("a header of {bytes} bytes without a usable length")]
    BadHeader {
        /// Length of the section.
        bytes: usize,
    },
    /// The stream ended inside a message.
    #[error("the stream ended inside a message, {bytes} bytes into it")]
    Truncated {
        /// Number of its bytes received.
        bytes: usize,
    },
}

/// Encoder and decoder of frames for `tokio_util::codec`.
#[derive(Debug, Clone)]
pub struct MessageCodec {
    framing: Framing,
    limits: Limits,
    state: DecoderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecoderState {
    /// Position before the first header line of a message.
    Idle,
    /// Position inside a header section of which `seen` bytes were read.
    Header { length: Option<u64>, seen: usize },
    /// Position inside a body of which this many bytes remain.
    Body(usize),
    /// Position inside an oversized body of which this many bytes remain to drop.
    Discard(u64),
    /// Position inside an oversized line, which is dropped up to its end.
    DiscardLine,
}

/// Bytes stored of an overlong line's end, in which a header may begin.
const TAIL: usize = 64;
const LENGTH: &[u8] = b"content-length:";

impl MessageCodec {
    /// Creates a codec for the beginning of a stream.
    pub fn new(framing: Framing, limits: Limits) -> Self {
        let limits = Limits { header: limits.header.max(4 * TAIL), body: limits.body };
        Self { framing, limits, state: DecoderState::Idle }
    }

    fn decode_headers(&mut self, buffer: &mut BytesMut) -> Option<Frame> {
        loop {
            if self.state == DecoderState::Idle && self.usual_header(buffer) {
                continue;
            }
            match self.state {
                DecoderState::Body(length) => {
                    if buffer.len() < length {
                        // Reserve only a part at once: the length may be wrong.
                        buffer.reserve((length - buffer.len()).min(1024 * 1024));
                        return None;
                    }
                    self.state = DecoderState::Idle;
                    return Some(Frame::Body(buffer.split_to(length).freeze()));
                }
                DecoderState::Discard(left) => {
                    let now = left.min(buffer.len() as u64) as usize;
                    // The length was wrong if another message begins before it is reached.
                    if let Some(at) = find_header(&buffer[..now]) {
                        buffer.advance(at);
                        self.state = DecoderState::Idle;
                        continue;
                    }
                    let all = now as u64 == left;
                    let gone = if all { now } else { now.saturating_sub(TAIL) };
                    buffer.advance(gone);
                    if !all {
                        self.state = DecoderState::Discard(left - gone as u64);
                        return None;
                    }
                    self.state = DecoderState::Idle;
                }
                _ => {
                    let line = match self.line(buffer) {
                        Line::Partial => return None,
                        Line::TooLong(line) => {
                            self.state = DecoderState::Idle;
                            return Some(garbage(&line));
                        }
                        Line::Whole(line) => line,
                    };
                    if let Some(frame) = self.header_line(&line) {
                        return Some(frame);
                    }
                }
            }
        }
    }

    /// Parses a header of the usual form in one step; leaves any other unchanged.
    fn usual_header(&mut self, buffer: &mut BytesMut) -> bool {
        let Some(rest) = buffer.strip_prefix(b"Content-Length: ") else { return false };
        // Nine digits cannot overflow.
        let digits = rest.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || !rest[digits..].starts_with(b"\r\n\r\n") {
            return false;
        }
        let length = rest[..digits].iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
        if length > self.limits.body {
            return false;
        }
        buffer.advance(16 + digits + 4);
        self.state = DecoderState::Body(length);
        true
    }

    fn line(&self, buffer: &mut BytesMut) -> Line {
        let window = buffer.len().min(self.limits.header);
        match buffer[..window].iter().position(|&byte| byte == b'\n') {
            Some(at) => Line::Whole(buffer.split_to(at + 1).freeze()),
            None if buffer.len() >= self.limits.header => {
                Line::TooLong(buffer.split_to(self.limits.header - TAIL).freeze())
            }
            None => Line::Partial,
        }
    }

    /// Parses one header line; returns a frame to report, if any.
    fn header_line(&mut self, line: &Bytes) -> Option<Frame> {
        let text = line.trim_ascii();
        let (length, seen) = match self.state {
            DecoderState::Header { length, seen } => (length, seen + line.len()),
            _ => (None, line.len()),
        };
        let started = matches!(self.state, DecoderState::Header { .. });
        if text.is_empty() {
            if !started {
                return None;
            }
            self.state = DecoderState::Idle;
            let Some(length) = length else {
                return Some(Frame::Skipped(Skipped::BadHeader { bytes: seen }));
            };
            if length > self.limits.body as u64 {
                self.state = DecoderState::Discard(length);
                return Some(Frame::Skipped(Skipped::TooLarge { bytes: length, limit: self.limits.body }));
            }
            self.state = DecoderState::Body(length as usize);
            return None;
        }
        if seen > self.limits.header {
            self.state = DecoderState::Idle;
            return Some(Frame::Skipped(Skipped::BadHeader { bytes: seen }));
        }
        // A program may print without a line end just before the header.
        if let Some((at, value)) = find_length(text) {
            self.state = DecoderState::Header { length: Some(value), seen };
            return (at > 0).then(|| garbage(&line.slice_ref(&text[..at])));
        }
        if is_known_header(text) || (started && is_header(text)) {
            self.state = DecoderState::Header { length, seen };
            return None;
        }
        // Keep the length found so far: the line may have been printed in between.
        Some(garbage(line))
    }

    fn decode_line(&mut self, buffer: &mut BytesMut) -> Option<Frame> {
        loop {
            let window = buffer.len().min(self.limits.body.saturating_add(1));
            let end = buffer[..window].iter().position(|&byte| byte == b'\n');
            match (self.state, end) {
                (DecoderState::DiscardLine, Some(at)) => {
                    buffer.advance(at + 1);
                    self.state = DecoderState::Idle;
                }
                (DecoderState::DiscardLine, None) => {
                    buffer.advance(window);
                    if buffer.is_empty() {
                        return None;
                    }
                }
                (_, Some(at)) => {
                    let line = buffer.split_to(at + 1).freeze();
                    let body = line.trim_ascii();
                    if !body.is_empty() {
                        return Some(Frame::Body(line.slice_ref(body)));
                    }
                }
                (_, None) if buffer.len() > self.limits.body => {
                    buffer.advance(window);
                    self.state = DecoderState::DiscardLine;
                    let limit = self.limits.body;
                    return Some(Frame::Skipped(Skipped::TooLarge { bytes: window as u64, limit }));
                }
                (_, None) => return None,
            }
        }
    }
}

enum Line {
    Whole(Bytes),
    TooLong(Bytes),
    Partial,
}

fn garbage(bytes: &[u8]) -> Frame {
    let shown = &bytes[..bytes.len().min(120)];
    let start = String::from_utf8_lossy(shown).trim_end().to_owned();
    Frame::Skipped(Skipped::Garbage { bytes: bytes.len(), start })
}

/// The position of a `Content-Length` with a number in a line, and that number.
fn find_length(line: &[u8]) -> Option<(usize, u64)> {
    let at = line.windows(LENGTH.len()).rposition(|window| window.eq_ignore_ascii_case(LENGTH))?;
    let value = std::str::from_utf8(line[at + LENGTH.len()..].trim_ascii()).ok()?;
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| value.parse().ok()).flatten().map(|value| (at, value))
}

/// The position of a complete header line.
///
/// JSON cannot contain one: line ends in strings are escaped, and no such word occurs outside of
/// strings.
fn find_header(bytes: &[u8]) -> Option<usize> {
    let begins = |at: usize| {
        let value = &bytes[at + LENGTH.len()..bytes.len().min(at + TAIL)];
        let end =
            value.iter().position(|byte| *byte == b'\r').filter(|end| value.get(end + 1) == Some(&b'\n'));
        let number = end.map(|end| value[..end].trim_ascii());
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let mut windows = bytes.windows(LENGTH.len()).enumerate();
    windows.find(|(at, window)| window.eq_ignore_ascii_case(LENGTH) && begins(*at)).map(|(at, _)| at)
}

fn is_known_header(line: &[u8]) -> bool {
    line.get(..13).is_some_and(|start| start.eq_ignore_ascii_case(b"content-type:"))
}

/// Whether a line is `Name: value` with a name of header characters.
fn is_header(line: &[u8]) -> bool {
    line.iter().position(|&byte| byte == b':').is_some_and(|colon| {
        colon > 0 && line[..colon].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    })
}

impl Decoder for MessageCodec {
    type Item = Frame;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
        Ok(match self.framing {
            Framing::ContentLength => self.decode_headers(buffer),
            Framing::Line => self.decode_line(buffer),
        })
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
        if let Some(frame) = self.decode(buffer)? {
            return Ok(Some(frame));
        }
        let rest = buffer.split();
        let state = std::mem::replace(&mut self.state, DecoderState::Idle);
        if self.framing == Framing::Line && state == DecoderState::Idle && !rest.trim_ascii().is_empty() {
            // The last line may lack its end.
            let rest = rest.freeze();
            return Ok(Some(Frame::Body(rest.slice_ref(rest.trim_ascii()))));
        }
        let seen = match state {
            DecoderState::Header { seen, .. } => seen,
            DecoderState::Body(_) | DecoderState::Discard(_) => rest.len().max(1),
            DecoderState::Idle | DecoderState::DiscardLine => 0,
        };
        let bytes = seen.max(rest.len());
        Ok((bytes > 0).then_some(Frame::Skipped(Skipped::Truncated { bytes })))
    }
}

impl Encoder<&[u8]> for MessageCodec {
    type Error = io::Error;

    /// Writes one message.
    ///
    /// For [`Framing::Line`] the body must contain no line end, as with compact JSON from `serde_json`.
    fn encode(&mut self, body: &[u8], buffer: &mut BytesMut) -> io::Result<()> {
        match self.framing {
            Framing::ContentLength => {
                let header = format!("Content-Length: {}\r\n\r\n", body.len());
                buffer.reserve(header.len() + body.len());
                buffer.put_slice(header.as_bytes());
                buffer.put_slice(body);
            }
            Framing::Line => {
                buffer.reserve(body.len() + 1);
                buffer.put_slice(body);
                buffer.put_u8(b'\n');
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(framing: Framing, limits: Limits, chunks: &[&[u8]]) -> Vec<Frame> {
        let mut codec = MessageCodec::new(framing, limits);
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for chunk in chunks {
            buffer.put_slice(chunk);
            while let Some(frame) = codec.decode(&mut buffer).unwrap() {
                frames.push(frame);
            }
        }
        while let Some(frame) = codec.decode_eof(&mut buffer).unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        let frames = decode(Framing::ContentLength, Limits { header: 256, body: 64 }, &[stream.as_bytes()]);
        let shown: Vec<String> = frames
            .iter()
            .map(|frame| match frame {
                Frame::Body(body) => String::from_utf8(body.to_vec()).unwrap(),
                Frame::Skipped(skipped) => format!("! {skipped}"),
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn headers_parse_in_any_case_and_order() {
        check(
            "content-LENGTH:2\r\nContent-Type: x; charset=utf-8\r\n\r\n{}\
             Content-Type: x\r\nX-Other: 1\r\nContent-Length: 3\r\n\r\n[1]",
            &["{}", "[1]"],
        );
        check("Content-Length: 2\n\n{}", &["{}"]);
    }

    #[test]
    fn garbage_before_a_header_is_skipped_and_reported() {
        check(
            "Debugger attached.\nwarnContent-Length: 2\r\n\r\n{}Content-Length: 2\r\n\r\n[]",
            &[
                "! 19 bytes that are not a header: \"Debugger attached.\"",
                "! 4 bytes that are not a header: \"warn\"",
                "{}",
                "[]",
            ],
        );
    }

    #[test]
    fn an_invalid_length_loses_only_its_own_message() {
        check(
            "Content-Length: many\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n{}",
            &[
                "! 22 bytes that are not a header: \"Content-Length: many\"",
                "! 7 bytes that are not a header: \"{\\\"a\\\":1}\"",
                "{}",
            ],
        );
    }

    #[test]
    fn a_body_above_the_limit_is_skipped() {
        let long = "x".repeat(100);
        check(
            &format!("Content-Length: 100\r\n\r\n{long}Content-Length: 2\r\n\r\n{{}}"),
            &["! a message of 100 bytes is above the limit of 64", "{}"],
        );
    }

    #[test]
    fn a_wrong_length_loses_no_later_message() {
        check(
            "Content-Length: 2000000000\r\n\r\n{\"Content-Length: 2\\r\\n\\r\\n\":1}Content-Length: 2\r\n\r\n{}",
            &["! a message of 2000000000 bytes is above the limit of 64", "{}"],
        );
    }

    #[test]
    fn incomplete_headers_are_skipped() {
        check(
            "Content-Type: x\r\n\r\nContent-Length: 2\r\n\r\n{}",
            &["! a header of 19 bytes without a usable length", "{}"],
        );
        check("Content-Length: 9\r\n\r\n{}", &["! the stream ended inside a message, 2 bytes into it"]);
    }

    #[test]
    fn endless_bytes_without_a_line_are_bounded() {
        let noise = vec![b'x'; 10_000];
        let limits = Limits { header: 256, body: 64 };
        let mut codec = MessageCodec::new(Framing::ContentLength, limits);
        let mut buffer = BytesMut::from(&noise[..]);
        while codec.decode(&mut buffer).unwrap().is_some() {}
        assert!(buffer.len() < 256);
    }

    #[test]
    fn each_nonempty_line_is_one_frame() {
        let stream = b"{}\n\n  [1] \r\n0123456789\n{\"last\":1}";
        let frames = decode(Framing::Line, Limits { header: 0, body: 9 }, &[stream]);
        let body = |text: &'static str| Frame::Body(Bytes::from_static(text.as_bytes()));
        let skipped = Frame::Skipped(Skipped::TooLarge { bytes: 10, limit: 9 });
        assert_eq!(&frames[..3], &[body("{}"), body("[1]"), skipped]);
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let message = "[a-zé \\n]{0,80}"
            .prop_map(|body| format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes());
        let noise = prop_oneof![
            "[a-z:\\r\\n ]{0,40}".prop_map(String::into_bytes),
            "Content-Length: [0-9a-z]{0,3}\\r\\n".prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..600),
            "[a-z]{0,20}\\n".prop_map(String::into_bytes),
        ];
        proptest::collection::vec(prop_oneof![3 => message, 1 => noise], 0..6)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn any_chunking_decodes_the_same(
            stream in stream(),
            cuts in proptest::collection::vec(0usize..2000, 0..12),
            lines in any::<bool>(),
        ) {
            let framing = if lines { Framing::Line } else { Framing::ContentLength };
            let limits = Limits { header: 256, body: 70 };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            let whole = decode(framing, limits, &[&stream]);
            prop_assert_eq!(&decode(framing, limits, &chunks), &whole);
            prop_assert_eq!(&decode(framing, limits, &bytes), &whole);
        }
    }
}
