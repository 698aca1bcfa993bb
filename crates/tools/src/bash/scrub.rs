//! Output as it comes, line by line, with secrets taken out of it. A secret may come in two pieces and over several lines, so what
//! may be the beginning of one waits for the rest.

use policy::{Pieces, Redactor};

/// A line longer than this is told before it ends.
const MOST_HELD: usize = 64 << 10;

/// Takes bytes, gives text.
pub(super) struct Scrubber {
    redactor: Redactor,
    pieces: Pieces,
    /// The line that has not ended.
    held: Vec<u8>,
}

impl Scrubber {
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, pieces: Pieces::default(), held: Vec::new() }
    }

    /// The text that is ready now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut ready = self.held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if self.held.len() - ready > MOST_HELD {
            // No character is parted: bytes that go on with one begin with the bits 10.
            let last = self.held.iter().rposition(|byte| byte & 0xc0 != 0x80);
            ready = last.filter(|at| *at > ready).unwrap_or(self.held.len());
        }
        let text = self.take(ready);
        self.pieces.push(&self.redactor, &text).into_owned()
    }

    /// What is left at the end.
    pub fn rest(&mut self) -> String {
        let text = self.take(self.held.len());
        let mut ready = self.pieces.push(&self.redactor, &text).into_owned();
        ready.push_str(&self.pieces.finish(&self.redactor));
        ready
    }

    fn take(&mut self, ready: usize) -> String {
        let bytes: Vec<u8> = self.held.drain(..ready).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_pieces_is_one() {
        let secrets = [("MY_TOKEN", "hunter2-hunter2"), ("LINES_SECRET", "one two\nthree four")];
        let redactor = Redactor::new(secrets.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let mut scrubber = Scrubber::new(redactor);
        let text = "a\none two\nthree four\nhunter2-hunter2 b\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nc é";
        let mut out = String::new();
        for byte in text.bytes() {
            out.push_str(&scrubber.push(&[byte]));
        }
        assert_eq!(out, "a\n[redacted:LINES_SECRET]\n[redacted:MY_TOKEN] b\n[redacted:private-key]\n");
        assert_eq!(scrubber.rest(), "c é");
        let long = "x".repeat(MOST_HELD + 1);
        let out = scrubber.push(long.as_bytes()).len();
        assert!(out + 8 >= long.len(), "nothing is held for ever");
        scrubber.rest();
        let mut out = scrubber.push(format!("{long} hunter2-").as_bytes());
        out.push_str(&scrubber.push(b"hunter2 and on\n"));
        assert!(out.ends_with("x [redacted:MY_TOKEN] and on\n"), "{}", &out[out.len() - 60..]);
    }
}
