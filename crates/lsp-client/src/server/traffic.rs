//! The last messages of one server, to diagnose why it is slow or wrong.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use wire::{Direction, Observer};

/// Maximum number of bytes stored for one server.
const LIMIT: usize = 2 * 1024 * 1024;
/// Maximum number of bytes stored of one message.
const MESSAGE: usize = 64 * 1024;

/// A message, or skipped bytes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TrafficEntry {
    /// Milliseconds since the start of the server.
    pub(crate) at_ms: u64,
    pub(crate) way: Way,
    /// The body, cut after 64 KiB.
    pub body: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    Sent,
    Received,
    Skipped,
}

impl std::fmt::Display for TrafficEntry {
    /// Formats one line: time, direction, and the beginning of the body.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = match self.way {
            Way::Sent => "→",
            Way::Received => "←",
            Way::Skipped => "✗",
        };
        write!(f, "{:>9.3} s {way} {}", self.at_ms as f64 / 1_000.0, text::shorten(&self.body, 400))
    }
}

pub(crate) struct Traffic {
    started: Instant,
    ring: Mutex<Ring>,
    pub news: Notify,
}

#[derive(Default)]
struct Ring {
    entries: VecDeque<TrafficEntry>,
    bytes: usize,
    /// Number of messages so far, including dropped ones.
    all: usize,
}

impl Traffic {
    pub fn new() -> Self {
        Self { started: Instant::now(), ring: Mutex::default(), news: Notify::new() }
    }

    pub fn entries(&self) -> Vec<TrafficEntry> {
        self.since(0).0
    }

    /// The stored messages after the first `known`, and the total number.
    pub fn since(&self, known: usize) -> (Vec<TrafficEntry>, usize) {
        let ring = self.ring.lock();
        let skipped = ring.entries.len().saturating_sub(ring.all.saturating_sub(known));
        (ring.entries.iter().skip(skipped).cloned().collect(), ring.all)
    }

    fn push(&self, way: Way, body: &[u8]) {
        let mut text = String::from_utf8_lossy(&body[..body.len().min(MESSAGE)]).into_owned();
        if body.len() > MESSAGE {
            text.push_str(&format!("… ({} bytes)", body.len()));
        }
        let at_ms = self.started.elapsed().as_millis() as u64;
        let entry = TrafficEntry { at_ms, way, body: text };
        let mut ring = self.ring.lock();
        ring.bytes += entry.body.len();
        ring.all += 1;
        ring.entries.push_back(entry);
        while ring.bytes > LIMIT {
            let Some(oldest) = ring.entries.pop_front() else { break };
            ring.bytes -= oldest.body.len();
        }
        drop(ring);
        self.news.notify_one();
    }
}

impl Observer for Traffic {
    fn message(&self, direction: Direction, body: &[u8]) {
        self.push(if direction == Direction::Sent { Way::Sent } else { Way::Received }, body);
    }

    fn skipped(&self, what: &str) {
        self.push(Way::Skipped, what.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded() {
        let traffic = Traffic::new();
        for number in 0..100 {
            traffic.message(Direction::Sent, number.to_string().repeat(100_000).as_bytes());
        }
        let entries = traffic.entries();
        assert!(entries.iter().map(|entry| entry.body.len()).sum::<usize>() <= LIMIT);
        assert!(entries.len() > 20);
        assert!(entries[0].body.ends_with("… (200000 bytes)"));
        assert_eq!(traffic.since(0).1, 100);
        assert_eq!(traffic.since(99).0.len(), 1);
        assert!(traffic.since(100).0.is_empty());
    }
}
