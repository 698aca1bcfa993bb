//! Golden streams: the bytes of a response, its events and its final message.
//!
//! Each directory of `tests/golden/PROTOCOL` has a case with an `input.sse`, or an `input.frames`
//! for binary event streams ([`frames`]). `UPDATE_EXPECT=1` writes the expectation, to be reviewed
//! before the commit.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use llm::protocol::pilcrow_proxy::{self, ProxyEncoder};
use llm::protocol::{Protocol, Protocols};
use llm::{AssistantMessage, Endpoint, MessageBuilder, StreamEvent};

fn decode(protocol: &dyn Protocol, input: &[u8], cuts: impl Fn(usize) -> usize) -> Vec<StreamEvent> {
    let mut empty = AssistantMessage::empty(protocol.name(), "golden", "test-model");
    empty.timestamp = 0;
    let mut decoder = protocol.decoder(&Endpoint::new("golden", "http://127.0.0.1:1", "test-model"), empty);
    let mut events = Vec::new();
    let (mut at, mut piece) = (0, 0);
    while at < input.len() {
        let end = (at + cuts(piece).max(1)).min(input.len());
        events.extend(decoder.feed(&input[at..end]));
        (at, piece) = (end, piece + 1);
    }
    events.extend(decoder.finish(None));
    assert!(decoder.ended());
    assert!(decoder.feed(b"data: {}\n\n").is_empty() && decoder.finish(None).is_empty(), "it ends once");
    for event in &mut events {
        if let StreamEvent::Done { message } | StreamEvent::Error { message } = event {
            std::sync::Arc::make_mut(message).duration_ms = None;
        }
    }
    events
}

fn render(events: &[StreamEvent]) -> String {
    let mut out = String::new();
    for event in events {
        match event {
            StreamEvent::Done { message } | StreamEvent::Error { message } => {
                let message = serde_json::to_string_pretty(message.as_ref()).unwrap();
                writeln!(out, "final {message}").unwrap();
            }
            event => writeln!(out, "{}", serde_json::to_string(event).unwrap()).unwrap(),
        }
    }
    out
}

struct Case {
    protocol: Arc<dyn Protocol>,
    directory: PathBuf,
    name: String,
    input: Vec<u8>,
}

fn input(directory: &Path) -> Vec<u8> {
    match std::fs::read_to_string(directory.join("input.frames")) {
        Ok(text) => frames(&text),
        Err(_) => std::fs::read(directory.join("input.sse")).unwrap(),
    }
}

/// The bytes of a binary event stream.
///
/// Each line is a frame: `event` or `exception`, its name and body, or `error`, its code and message. `!flip
/// N` flips a bit of byte `N` of the previous frame, `!cut N` removes its last `N` bytes, and `!raw` is bytes
/// in hexadecimal.
fn frames(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = 0;
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        match (word(), word(), word()) {
            ("!flip", at, _) => bytes[last + at.parse::<usize>().unwrap()] ^= 1,
            ("!cut", count, _) => bytes.truncate(bytes.len() - count.parse::<usize>().unwrap()),
            ("!raw", hex, _) => {
                let digits = (0..hex.len()).step_by(2);
                bytes.extend(digits.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()));
            }
            (kind, name, body) => {
                last = bytes.len();
                let (name_header, body_header) = match kind {
                    "error" => (":error-code", Some(":error-message")),
                    "exception" => (":exception-type", None),
                    _ => (":event-type", None),
                };
                let header = |name: &str, value: &str| {
                    Header::new(name.to_owned(), HeaderValue::String(value.to_owned().into()))
                };
                let mut headers = vec![header(":message-type", kind), header(name_header, name)];
                headers.extend(body_header.map(|name| header(name, body)));
                let payload = if body_header.is_some() { "" } else { body };
                let frame = Frame::new_from_parts(headers, payload.to_owned());
                write_message_to(&frame, &mut bytes).unwrap();
            }
        }
    }
    bytes
}

/// All cases of all protocols, at least twenty of each.
fn cases() -> Vec<Case> {
    let protocols = Protocols::default();
    let mut cases = Vec::new();
    for name in protocols.names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name.replace('-', "_"));
        let mut directories: Vec<PathBuf> =
            std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
        directories.sort();
        assert!(directories.len() >= 20, "only {} cases of {name} were found", directories.len());
        cases.extend(directories.into_iter().map(|directory| Case {
            protocol: protocols.get(name).unwrap(),
            name: format!("{name} {}", directory.file_name().unwrap().to_string_lossy()),
            input: input(&directory),
            directory,
        }));
    }
    cases
}

#[test]
fn streams_give_their_events_in_any_chunking() {
    let mut splits = 0;
    for Case { protocol, directory, name, input } in cases() {
        let events = decode(&*protocol, &input, |_| usize::MAX / 2);
        let expected = directory.join("expected.txt");
        expect_test::expect_file![expected].assert_eq(&render(&events));
        for size in 1..=5 {
            assert_eq!(decode(&*protocol, &input, |_| size), events, "{name} in pieces of {size}");
        }
        for seed in 1..=100_u64 {
            let random = |piece: usize| {
                let mut state = (seed << 32) | (piece as u64 + 1);
                for _ in 0..3 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                }
                (state % 40) as usize
            };
            assert_eq!(decode(&*protocol, &input, random), events, "{name} with seed {seed}");
            splits += 1;
        }
    }
    assert!(splits >= 20_000, "{splits} splits");
}

#[test]
fn the_events_before_the_end_add_up_to_the_final_content() {
    for Case { protocol, name, input, .. } in cases() {
        let events = decode(&*protocol, &input, |_| 11);
        let (last, before) = events.split_last().unwrap();
        let mut builder = MessageBuilder::new(AssistantMessage::empty("a", "p", "m"));
        before.iter().for_each(|event| builder.apply(event));
        match last {
            StreamEvent::Done { message } => {
                assert_eq!(builder.snapshot().content, message.content, "{name}")
            }
            StreamEvent::Error { message } => {
                assert_eq!(builder.ended(None).content, message.content, "{name}");
            }
            other => panic!("{name} ended with {other:?}"),
        }
    }
}

/// Cuts a stream anywhere; one final message keeps the received parts.
#[test]
fn a_stream_cut_anywhere_ends_once_and_keeps_its_text() {
    for Case { protocol, name, input, .. } in cases() {
        for cut in (0..input.len()).step_by(7) {
            let events = decode(&*protocol, &input[..cut], |_| usize::MAX / 2);
            let (last, before) = events.split_last().unwrap();
            let text: String = before
                .iter()
                .filter_map(|event| match event {
                    StreamEvent::TextDelta { delta, .. } => Some(delta.as_str()),
                    _ => None,
                })
                .collect();
            let (StreamEvent::Done { message } | StreamEvent::Error { message }) = last else {
                panic!("{name} cut at {cut} ended with {last:?}");
            };
            let kept: String = message
                .content
                .iter()
                .filter_map(|it| match it {
                    llm::Content::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            // A completed item may have more text than its deltas.
            assert!(kept.len() >= text.len(), "{name} cut at {cut}: {kept}");
            let ends =
                events.iter().filter(|it| matches!(it, StreamEvent::Done { .. } | StreamEvent::Error { .. }));
            assert_eq!(ends.count(), 1, "{name} cut at {cut}");
        }
    }
}

/// Damages any byte, which must give an error and never a panic.
#[test]
fn a_damaged_frame_is_an_error() {
    let protocol = Protocols::default().get("bedrock-converse-stream").unwrap();
    let whole = frames(
        "event messageStart {\"role\":\"assistant\"}\nevent messageStop {\"stopReason\":\"end_turn\"}",
    );
    assert!(matches!(decode(&*protocol, &whole, |_| 9).last(), Some(StreamEvent::Done { .. })));
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let events = decode(&*protocol, &bytes, |_| 9);
            assert!(matches!(events.last(), Some(StreamEvent::Error { .. })), "bit {bit} of byte {at}");
        }
    }
}

/// Sends a stream through the proxy, which repeats no text.
#[test]
fn a_proxied_stream_is_equal_to_the_direct_one() {
    for Case { protocol, name, input, .. } in cases() {
        let direct = decode(&*protocol, &input, |_| usize::MAX / 2);
        let mut encoder = ProxyEncoder::default();
        let sent: String = direct.iter().map(|event| encoder.write(event)).collect();
        for size in [usize::MAX / 2, 1, 3, 17] {
            assert_eq!(
                decode(&pilcrow_proxy::PROTOCOL, sent.as_bytes(), |_| size),
                direct,
                "{name} in pieces of {size}"
            );
        }
        let deltas = direct.iter().filter_map(|event| match event {
            StreamEvent::TextDelta { delta, .. } | StreamEvent::ThinkingDelta { delta, .. } => Some(delta),
            _ => None,
        });
        // Long pieces cannot occur by chance.
        for delta in deltas.filter(|delta| delta.len() > 12) {
            let written = serde_json::to_string(delta).unwrap();
            let piece = written.trim_matches('"');
            let count = direct.iter().filter(|it| serde_json::to_string(it).unwrap().contains(piece)).count();
            assert!(
                sent.matches(piece).count() <= count.saturating_sub(2).max(1),
                "{name}: {delta} is repeated"
            );
        }
    }
}
