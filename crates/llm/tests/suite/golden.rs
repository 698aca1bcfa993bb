//! Golden streams: each folder of `tests/golden/openai_completions` holds the bytes of a response and
//! the events and final message they come to. A new case is a new folder with an `input.sse`; with `PILCROW_BLESS=1`
//! the expectation is written, to be read before it is kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use llm::protocol::Decoder as _;
use llm::protocol::openai_completions::{Compat, CompletionsDecoder};
use llm::{AssistantMessage, MessageFold, StreamEvent};

fn decode(input: &[u8], cuts: impl Fn(usize) -> usize) -> Vec<StreamEvent> {
    let mut empty = AssistantMessage::empty("openai-completions", "golden", "test-model");
    empty.timestamp = 0;
    let mut decoder = CompletionsDecoder::new(empty, &Compat::default());
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

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/openai_completions");
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

#[test]
fn streams_come_to_their_events_in_any_chunking() {
    let cases = cases();
    assert!(cases.len() >= 22, "only {} cases were found", cases.len());
    for case in cases {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let input = std::fs::read(case.join("input.sse")).unwrap();
        let events = decode(&input, |_| usize::MAX / 2);
        let expected = case.join("expected.txt");
        if std::env::var_os("PILCROW_BLESS").is_some() {
            std::fs::write(&expected, render(&events)).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(render(&events), expected, "{name}");
        for size in 1..=5 {
            assert_eq!(decode(&input, |_| size), events, "{name} in pieces of {size}");
        }
        for seed in 1..=50_u64 {
            let random = |piece: usize| {
                let mut state = (seed << 32) | (piece as u64 + 1);
                for _ in 0..3 {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                }
                (state % 40) as usize
            };
            assert_eq!(decode(&input, random), events, "{name} with seed {seed}");
        }
    }
}

#[test]
fn the_events_before_the_end_add_up_to_the_final_content() {
    for case in cases() {
        let input = std::fs::read(case.join("input.sse")).unwrap();
        let events = decode(&input, |_| 11);
        let (last, before) = events.split_last().unwrap();
        let mut fold = MessageFold::new(AssistantMessage::empty("a", "p", "m"));
        before.iter().for_each(|event| fold.apply(event));
        match last {
            StreamEvent::Done { message } => assert_eq!(fold.snapshot().content, message.content, "{case:?}"),
            StreamEvent::Error { message } => {
                assert_eq!(fold.ended(None).content, message.content, "{case:?}");
            }
            other => panic!("{case:?} ended with {other:?}"),
        }
    }
}
