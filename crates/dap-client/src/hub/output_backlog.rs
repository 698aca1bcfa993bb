//! Output that the hub replays to clients that join late: the newest, unchanged and bounded.
//!
//! Pure.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::envelope::Envelope;

/// Maximum number of stored bytes.
const BYTES: usize = 256 * 1024;
const PIECES: usize = 4096;
/// Maximum length of a text, in bytes; longer ones are cut.
const TEXT: usize = 16 * 1024;

/// The newest output.
///
/// Bodies stay raw until a client joins, because most are never replayed.
#[derive(Debug, Default)]
pub struct OutputBacklog {
    pieces: VecDeque<Box<RawValue>>,
    bytes: usize,
    dropped: u64,
}

impl OutputBacklog {
    /// Adds the body of an `output` event.
    pub fn push(&mut self, mut body: Box<RawValue>) {
        if body.get().len() > TEXT {
            let mut read = read(&body);
            let text = read["output"].as_str().unwrap_or_default();
            if text.len() > TEXT {
                let cut = format!("{}… ({} bytes)\n", &text[..text.floor_char_boundary(TEXT)], text.len());
                read = json!({ "category": read["category"], "output": cut });
            } else {
                read = json!({ "category": read["category"], "output": text });
            }
            body = serde_json::value::to_raw_value(&read).unwrap_or(body);
        }
        self.bytes += body.get().len();
        self.pieces.push_back(body);
        while self.bytes > BYTES || self.pieces.len() > PIECES {
            let Some(oldest) = self.pieces.pop_front() else { break };
            self.bytes -= oldest.get().len();
            self.dropped += 1;
        }
    }

    /// The replayed events, each marked with `pilcrowReplay`. Omits telemetry.
    pub fn replay(&self) -> impl Iterator<Item = Envelope> + '_ {
        let note = (self.dropped > 0).then(|| {
            let text = format!("{} earlier pieces of output were dropped\n", self.dropped);
            json!({ "category": "console", "output": text })
        });
        let pieces = self.pieces.iter().map(|body| read(body)).filter(|body| body["category"] != "telemetry");
        note.into_iter().chain(pieces).map(|mut body| {
            // Structured output refers to variables of a stop that has ended by then.
            if let Some(members) = body.as_object_mut() {
                members.remove("variablesReference");
                members.remove("data");
                members.retain(|_, value| !value.is_null());
                members.insert("pilcrowReplay".to_owned(), json!(true));
            }
            Envelope::event("output", body)
        })
    }
}

fn read(body: &RawValue) -> Value {
    serde_json::from_str(body.get()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(backlog: &mut OutputBacklog, body: Value) {
        backlog.push(serde_json::value::to_raw_value(&body).unwrap());
    }

    #[test]
    fn one_endless_line_is_cut() {
        let mut backlog = OutputBacklog::default();
        push(&mut backlog, json!({"category": "stderr", "output": "é".repeat(100_000)}));
        let replay: Vec<Value> = backlog.replay().map(|it| it.content()).collect();
        assert!(replay[0]["output"].as_str().unwrap().ends_with("… (200000 bytes)\n"));
        assert!(backlog.bytes < 2 * TEXT);
    }

    #[test]
    fn many_lines_are_bounded_and_the_loss_is_reported() {
        let mut backlog = OutputBacklog::default();
        for number in 0..100_000 {
            push(&mut backlog, json!({"category": "stdout", "output": format!("line {number}\n")}));
        }
        push(&mut backlog, json!({"category": "telemetry", "output": "secret"}));
        let replay: Vec<Value> = backlog.replay().map(|it| it.content()).collect();
        assert!(replay.len() <= PIECES + 1 && backlog.bytes <= BYTES);
        let loss = format!("{} earlier pieces of output were dropped\n", 100_000 - (replay.len() - 1));
        assert!(!replay.iter().any(|body| body["output"] == "secret"));
        assert_eq!(replay[0]["output"], loss);
        assert_eq!(replay.last().unwrap()["output"], "line 99999\n");
        assert!(replay.iter().all(|body| body["pilcrowReplay"] == true));
    }
}
