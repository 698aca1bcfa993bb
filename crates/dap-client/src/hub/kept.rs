//! The output that a late client is still shown: the newest, as it came, bounded.
//!
//! Pure.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::message::Envelope;

/// Bytes kept, and pieces.
const BYTES: usize = 256 * 1024;
const PIECES: usize = 4096;
/// A longer text is cut.
const TEXT: usize = 16 * 1024;

/// The newest output.
#[derive(Debug, Default)]
pub struct Kept {
    pieces: VecDeque<(usize, Value)>,
    bytes: usize,
    dropped: u64,
}

impl Kept {
    /// Takes the body of an event `output` in. Telemetry is for nobody.
    pub fn push(&mut self, mut body: Value) {
        if body["category"] == "telemetry" {
            return;
        }
        if let Some(text) = body["output"].as_str().filter(|text| text.len() > TEXT) {
            let cut = format!("{}… ({} bytes)\n", &text[..text.floor_char_boundary(TEXT)], text.len());
            body["output"] = json!(cut);
        }
        // Structured output refers to variables of a stop that is over by then.
        if let Some(members) = body.as_object_mut() {
            members.remove("variablesReference");
            members.remove("data");
        }
        let size = body.to_string().len();
        self.bytes += size;
        self.pieces.push_back((size, body));
        while self.bytes > BYTES || self.pieces.len() > PIECES {
            let Some((size, _)) = self.pieces.pop_front() else { break };
            self.bytes -= size;
            self.dropped += 1;
        }
    }

    /// What a late client is told, each marked with `pilcrowReplay`.
    pub fn replay(&self) -> impl Iterator<Item = Envelope> + '_ {
        let note = (self.dropped > 0).then(|| {
            let text = format!("{} earlier pieces of output are not kept\n", self.dropped);
            json!({ "category": "console", "output": text })
        });
        note.into_iter().chain(self.pieces.iter().map(|(_, body)| body.clone())).map(|mut body| {
            body["pilcrowReplay"] = json!(true);
            Envelope::event("output", body)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_lines_are_bounded_and_the_loss_is_told() {
        let mut kept = Kept::default();
        for number in 0..100_000 {
            kept.push(json!({"category": "stdout", "output": format!("line {number}\n")}));
        }
        kept.push(json!({"category": "telemetry", "output": "secret"}));
        let replay: Vec<Value> = kept.replay().map(|it| it.content()).collect();
        assert!(replay.len() <= PIECES + 1 && kept.bytes <= BYTES);
        let told = format!("{} earlier pieces of output are not kept\n", 100_000 - (replay.len() - 1));
        assert_eq!(replay[0]["output"], told);
        assert_eq!(replay.last().unwrap()["output"], "line 99999\n");
        assert!(replay.iter().all(|body| body["pilcrowReplay"] == true));
    }
}
