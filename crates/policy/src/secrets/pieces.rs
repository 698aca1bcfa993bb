//! Redaction of a text that comes in pieces.
//!
//! Only a possible beginning of a secret waits for the next piece. The output equals that of
//! [`Redactor::redact`] for the whole text, however it was split.

use std::borrow::Cow;

use super::{Piece, Redactor};

/// The held-back tail of one text.
#[derive(Debug, Default)]
pub struct Pieces {
    held: String,
    /// The byte before the held-back text.
    before: Option<u8>,
}

impl Pieces {
    /// Returns the redacted text that is final after this piece, perhaps empty.
    pub fn push<'a>(&mut self, redactor: &Redactor, piece: &'a str) -> Cow<'a, str> {
        let before = self.before;
        if self.held.is_empty() {
            let (ready, at) = redactor.scan(Piece { text: piece, before, more: true });
            self.held.push_str(&piece[at..]);
            self.before = piece.as_bytes()[..at].last().copied().or(before);
            return ready;
        }
        self.held.push_str(piece);
        let (ready, at) = redactor.scan(Piece { text: &self.held, before, more: true });
        let ready = ready.into_owned();
        self.before = self.held.as_bytes()[..at].last().copied().or(before);
        self.held.drain(..at);
        Cow::Owned(ready)
    }

    /// Returns the rest after the last piece; a later piece begins another text.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        let Pieces { held, before } = std::mem::take(self);
        redactor.scan(Piece { text: &held, before, more: false }).0.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let secrets = [
            ("MY_TOKEN", "hunter2-hunter2"),
            ("LONGER_TOKEN", "hunter2-hunter2-more"),
            ("LINES_SECRET", "one two\nthree four"),
            ("ACCENT_SECRET", "pässwörd-ü"),
        ];
        Redactor::new(secrets.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    const BODY: &str = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

    fn texts() -> Vec<String> {
        vec![
            "the token is hunter2-hunter2 here, hunter2-hunter2-mor and hunter2-hunter2-more".to_owned(),
            "hunter2-hunter hunter2-hunter2".to_owned(),
            "a\none two\nthree four\none two\nthree".to_owned(),
            "{\"a\": \"one two\\nthree four\"}".to_owned(),
            "«pässwörd-ü» pässwörd-".to_owned(),
            format!("key=ghp_{BODY}. xghp_{BODY} sk-ant-{BODY} ghp_ task-ghp_{BODY}"),
            format!("hf_{BODY}hunter2-hunter2 s: sk {BODY}"),
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P. AKIA"
                .to_owned(),
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\nabc\n-----END RSA PRIVATE KEY----- y --- -----BEGIN X"
                .to_owned(),
            "-----BEGIN PRIVATE KEY-----\\nMIIEabc\\n\"} and on".to_owned(),
            format!("-----BEGIN PRIVATE KEY-----\n{}! é", "MIIE\n".repeat(4_000)),
            "-----BEGIN PUBLIC KEY-----\nMIIE".to_owned(),
            "git clone https://me:s3cr3t@host/x a://b:c std::fs redis://:p@ss@h:6379 : :/ http://u:passwörd"
                .to_owned(),
            format!("http://{}/ http://u:s3cr3t@{}/", "x".repeat(5_000), "y".repeat(5_000)),
        ]
    }

    #[test]
    fn pieces_of_any_size_give_the_same_redaction() {
        let redactor = redactor();
        for text in texts() {
            let whole = redactor.redact(&text);
            // A long text in small pieces would only take longer.
            let least = text.len() / 1_000;
            for size in [1, 2, 3, 5, 8, 13, 100, 10_000].into_iter().filter(|size| *size >= least) {
                let characters: Vec<char> = text.chars().collect();
                let (mut pieces, mut out) = (Pieces::default(), String::new());
                for piece in characters.chunks(size) {
                    let piece: String = piece.iter().collect();
                    out.push_str(&pieces.push(&redactor, &piece));
                }
                out.push_str(&pieces.finish(&redactor));
                assert_eq!(out, whole, "in pieces of {size}");
            }
        }
    }

    #[test]
    fn only_a_possible_secret_is_held_back() {
        let redactor = redactor();
        for (text, ready) in [
            ("plain words, as they come", "plain words, as they come"),
            ("look: ", "look: "),
            ("it is hunter", "it is "),
            ("it is hunters", "it is hunters"),
            ("https://host/a", "https://host/a"),
            ("https://host", "https"),
            ("this", "this"),
            ("is sk-", "is "),
            ("a - b --", "a - b "),
        ] {
            assert_eq!(Pieces::default().push(&redactor, text), ready, "{text}");
        }
    }
}
