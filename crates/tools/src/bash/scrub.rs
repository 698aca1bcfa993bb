//! Redaction of secrets in streamed output.
//!
//! A secret may arrive in pieces or span lines, so text that may begin one is buffered.

use policy::{Pieces, Redactor};

/// Length from which a line is passed on before it ends, in bytes.
const MAX_BUFFERED: usize = 64 << 10;

/// Turns bytes into redacted text.
pub(super) struct Scrubber {
    redactor: Redactor,
    pieces: Pieces,
    /// The unfinished line of the input.
    buffer: Vec<u8>,
}

impl Scrubber {
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, pieces: Pieces::default(), buffer: Vec::new() }
    }

    /// Adds bytes and returns the text that is ready.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.buffer.extend_from_slice(bytes);
        let mut ready = self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if self.buffer.len() - ready > MAX_BUFFERED {
            // Do not split a character: continuation bytes begin with the bits 10.
            let last = self.buffer.iter().rposition(|byte| byte & 0xc0 != 0x80);
            ready = last.filter(|at| *at > ready).unwrap_or(self.buffer.len());
        }
        let text = self.take(ready);
        self.pieces.push(&self.redactor, &text).into_owned()
    }

    /// Returns the remaining text at the end.
    pub fn rest(&mut self) -> String {
        let text = self.take(self.buffer.len());
        let mut ready = self.pieces.push(&self.redactor, &text).into_owned();
        ready.push_str(&self.pieces.finish(&self.redactor));
        ready
    }

    fn take(&mut self, ready: usize) -> String {
        let bytes: Vec<u8> = self.buffer.drain(..ready).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_split_across_writes_is_redacted() {
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
        let long = "x".repeat(MAX_BUFFERED + 1);
        let out = scrubber.push(long.as_bytes()).len();
        assert!(out + 8 >= long.len(), "a long line is passed on");
        scrubber.rest();
        let mut out = scrubber.push(format!("{long} hunter2-").as_bytes());
        out.push_str(&scrubber.push(b"hunter2 and on\n"));
        assert!(out.ends_with("x [redacted:MY_TOKEN] and on\n"), "{}", &out[out.len() - 60..]);
    }
}
