//! The output that a late client is still shown: the newest, as it came, bounded.
//!
//! Pure.

use std::collections::VecDeque;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::Envelope;

/// Bytes kept, and pieces.
const BYTES: usize = 256 * 1024;
const PIECES: usize = 4096;
/// A longer text is cut.
const TEXT: usize = 16 * 1024;

/// The newest output. Bodies stay raw until somebody wants them: most are never read.
#[derive(Debug, Default)]
pub struct OutputBacklog {
    pieces: VecDeque<Box<RawValue>>,
    bytes: usize,
    dropped: u64,
}

impl OutputBacklog {
    /// Takes the body of an event `output` in.
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

    /// What a late client is told, each marked with `pilcrowReplay`. Telemetry is for nobody.
    pub fn replay(&self) -> impl Iterator<Item = Envelope> + '_ {
        let note = (self.dropped > 0).then(|| {
            let text = format!("{} earlier pieces of output are not kept\n", self.dropped);
            json!({ "category": "console", "output": text })
        });
        let kept = self.pieces.iter().map(|body| read(body)).filter(|body| body["category"] != "telemetry");
        note.into_iter().chain(kept).map(|mut body| {
            // Structured output refers to variables of a stop that is over by then.
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

    fn push(kept: &mut OutputBacklog, body: Value) {
        kept.push(serde_json::value::to_raw_value(&body).unwrap());
    }

    #[test]
    fn one_endless_line_is_cut() {
        let mut kept = OutputBacklog::default();
        push(&mut kept, json!({"category": "stderr", "output": "é".repeat(100_000)}));
        let replay: Vec<Value> = kept.replay().map(|it| it.content()).collect();
        assert!(replay[0]["output"].as_str().unwrap().ends_with("… (200000 bytes)\n"));
        assert!(kept.bytes < 2 * TEXT);
    }

    #[test]
    fn a_hundred_thousand_lines_are_bounded_and_the_loss_is_told() {
        let mut kept = OutputBacklog::default();
        for number in 0..100_000 {
            push(&mut kept, json!({"category": "stdout", "output": format!("line {number}\n")}));
        }
        push(&mut kept, json!({"category": "telemetry", "output": "secret"}));
        let replay: Vec<Value> = kept.replay().map(|it| it.content()).collect();
        assert!(replay.len() <= PIECES + 1 && kept.bytes <= BYTES);
        let told = format!("{} earlier pieces of output are not kept\n", 100_000 - (replay.len() - 1));
        assert!(!replay.iter().any(|body| body["output"] == "secret"));
        assert_eq!(replay[0]["output"], told);
        assert_eq!(replay.last().unwrap()["output"], "line 99999\n");
        assert!(replay.iter().all(|body| body["pilcrowReplay"] == true));
    }
}
