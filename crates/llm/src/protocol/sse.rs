//! Server-sent events (HTML Living Standard, 9.2.6) from bytes in any pieces.
//!
//! Lines end in `\n`, `\r\n` or a lone `\r`. Comments, `id` and `retry` are dropped, a byte order mark is
//! skipped, and invalid UTF-8 becomes U+FFFD. An event cut by the end of the input is dropped, as the
//! standard says. The time is linear in the bytes, unlike that of the crate `eventsource-stream`, which
//! copies unread bytes for each line.

use serde_json::Value;

use crate::message::{ErrorKind, ModelError};
use crate::protocol::Decoder;
use crate::protocol::blocks::Blocks;
use crate::stream::StreamEvent;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` name, or empty.
    pub event: String,
    /// The `data:` lines joined by `\n`.
    pub data: String,
}

/// An event larger than the decoder's limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Converts to an error without retry: the same event would come again.
impl From<TooLarge> for ModelError {
    fn from(error: TooLarge) -> Self {
        ModelError::new(ErrorKind::Provider, error.to_string())
    }
}

/// The reader of the events of one protocol.
pub(super) trait Events: Send {
    fn blocks(&mut self) -> &mut Blocks;

    /// Reads an event; not called after the end.
    fn event(&mut self, event: &SseEvent);

    /// Reads a complete answer.
    fn whole(&mut self, answer: &Value);

    /// Ends the message, by `failure` if there is one.
    fn end(&mut self, failure: Option<ModelError>);

    /// Ends the message after the last byte; `cut` is the failure that ended the bytes.
    fn finish(&mut self, cut: Option<ModelError>);
}

/// A decoder of server-sent events.
pub(super) struct SseStream<E> {
    sse: SseDecoder,
    events: E,
    ended: bool,
}

impl<E: Events> SseStream<E> {
    pub fn new(events: E) -> SseStream<E> {
        SseStream { sse: SseDecoder::default(), events, ended: false }
    }

    /// Reads unless the message has ended.
    fn read(&mut self, read: impl FnOnce(&mut E)) -> Vec<StreamEvent> {
        if !self.ended {
            read(&mut self.events);
        }
        self.ended = self.events.blocks().ended();
        self.events.blocks().take()
    }
}

impl<E: Events> Decoder for SseStream<E> {
    fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        if self.ended {
            return Vec::new();
        }
        let parsed = self.sse.feed(bytes);
        self.read(|events| match parsed {
            Ok(parsed) => {
                for event in &parsed {
                    if !events.blocks().ended() {
                        events.event(event);
                    }
                }
            }
            Err(error) => events.end(Some(error.into())),
        })
    }

    fn feed_whole(&mut self, answer: &Value) -> Vec<StreamEvent> {
        self.read(|events| events.whole(answer))
    }

    fn finish(&mut self, cut: Option<ModelError>) -> Vec<StreamEvent> {
        self.read(|events| events.finish(cut))
    }

    fn ended(&self) -> bool {
        self.ended
    }
}

/// Maximum size of an event.
const LIMIT: usize = 64 * 1024 * 1024;

/// The state between two pieces.
#[derive(Debug)]
pub struct SseDecoder {
    line: Vec<u8>,
    event: String,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    at_start: bool,
    limit: usize,
}

impl Default for SseDecoder {
    fn default() -> SseDecoder {
        SseDecoder {
            line: Vec::new(),
            event: String::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            limit: LIMIT,
        }
    }
}

impl SseDecoder {
    /// Adds bytes and returns the completed events.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, TooLarge> {
        let mut events = Vec::new();
        if self.after_cr && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
            self.after_cr = false;
        } else if !bytes.is_empty() {
            self.after_cr = false;
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend(&bytes[..end])?;
            let next = bytes.get(end + 1);
            let skip = match (bytes[end], next) {
                (b'\r', Some(b'\n')) => 2,
                (b'\r', None) => {
                    self.after_cr = true;
                    1
                }
                _ => 1,
            };
            bytes = &bytes[end + skip..];
            events.extend(self.end_line());
        }
        self.extend(bytes)?;
        Ok(events)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > self.limit {
            return Err(TooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let data = std::mem::take(&mut self.data);
            return std::mem::take(&mut self.has_data)
                .then(|| SseEvent { event, data: String::from_utf8_lossy(&data).into_owned() });
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &[u8], expected: &[(&str, &str)]) {
        for size in [1, 2, 3, 7, input.len().max(1)] {
            let mut decoder = SseDecoder::default();
            let mut events = Vec::new();
            for piece in input.chunks(size) {
                events.extend(decoder.feed(piece).unwrap());
            }
            let events: Vec<(&str, &str)> =
                events.iter().map(|it| (it.event.as_str(), it.data.as_str())).collect();
            assert_eq!(events, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn events_are_independent_of_chunking() {
        check(b"data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check(b"data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
        check(b"data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check(b"\xef\xbb\xbfdata: a\n\n", &[("", "a")]);
        check(b": ping\n\nevent: x\ndata:1\ndata: 2\nid: 7\nretry: 9\n\n", &[("x", "1\n2")]);
        check("data: \u{1f600}\n\n".as_bytes(), &[("", "\u{1f600}")]);
        check(b"data: \xff\n\n", &[("", "\u{fffd}")]);
        check(b"event: x\n\ndata\n\n", &[("", "")]);
        check(b"data: cut", &[]);
    }

    #[test]
    fn an_endless_event_is_rejected() {
        let mut decoder = SseDecoder { limit: 1000, ..SseDecoder::default() };
        assert!(decoder.feed(&[b'x'; 999]).is_ok());
        assert_eq!(decoder.feed(b"xy"), Err(TooLarge { limit: 1000 }));
        assert_eq!(
            ModelError::from(TooLarge { limit: 1000 }).kind,
            ErrorKind::Provider,
            "which is not asked again"
        );
    }
}
