//! Output as it comes, with secrets taken out of it. A secret may come in two pieces, so what may be
//! the beginning of one waits for the rest.

use workspace::Redactor;

/// A line longer than this is cut, and a key that is longer is none.
const MOST_HELD: usize = 64 << 10;
/// Held back of such a line: what may be the beginning of a secret.
const MOST_TAIL: usize = 4 << 10;

/// Takes bytes, gives text.
pub(super) struct Scrubber {
    redactor: Redactor,
    held: Vec<u8>,
}

impl Scrubber {
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, held: Vec::new() }
    }

    /// The text that is ready now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut ready = self.held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // A key over several lines is one secret.
        if let Some(at) = open_key(&self.held[..ready]) {
            ready = at;
        }
        if self.held.len() - ready > MOST_HELD {
            ready = self.before_last_word();
        }
        self.take(ready)
    }

    /// Where the last word begins; of a very long one, a part of its end.
    fn before_last_word(&self) -> usize {
        let from = self.held.len().saturating_sub(MOST_TAIL);
        let space = self.held[from..].iter().rposition(u8::is_ascii_whitespace);
        // No character is parted: bytes that go on with one begin with the bits 10.
        let starts = || (from..self.held.len()).find(|at| self.held[*at] & 0xc0 != 0x80);
        space.map_or_else(|| starts().unwrap_or(from), |at| from + at)
    }

    /// The line that is being written, as it stands: for who waits for more of it.
    pub fn rest(&mut self) -> String {
        self.take(self.held.len())
    }

    fn take(&mut self, ready: usize) -> String {
        let bytes: Vec<u8> = self.held.drain(..ready).collect();
        let text = String::from_utf8_lossy(&bytes);
        self.redactor.redact(&text).into_owned()
    }
}

/// Where a private key begins that has not ended.
fn open_key(bytes: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(bytes);
    // Lossy text has other places; only whether there is one matters, the place is looked for below.
    let begin = text.rfind("-----BEGIN ")?;
    let rest = &text[begin..];
    if !rest.lines().next()?.contains("PRIVATE KEY") || rest.contains("-----END ") {
        return None;
    }
    let needle = b"-----BEGIN ";
    bytes.windows(needle.len()).rposition(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_pieces_is_one() {
        let redactor = Redactor::new([("MY_TOKEN".to_owned(), "hunter2-hunter2".to_owned())]);
        let mut scrubber = Scrubber::new(redactor);
        let text = "a\nhunter2-hunter2 b\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nc é";
        let mut out = String::new();
        for byte in text.bytes() {
            out.push_str(&scrubber.push(&[byte]));
        }
        assert_eq!(out, "a\n[redacted:MY_TOKEN] b\n[redacted:private-key]\n");
        assert_eq!(scrubber.rest(), "c é");
        let long = "x".repeat(MOST_HELD + 1);
        let out = scrubber.push(long.as_bytes()).len();
        assert!(out >= long.len() - MOST_TAIL, "nothing is held for ever");
        scrubber.rest();
        let mut out = scrubber.push(format!("{long} hunter2-").as_bytes());
        out.push_str(&scrubber.push(b"hunter2 and on\n"));
        assert!(out.ends_with("x [redacted:MY_TOKEN] and on\n"), "{}", &out[out.len() - 60..]);
    }
}
