//! The two letters after a line's number.
//!
//! They prove that a number names the intended line, which a tag cannot prove: a fresh tag with
//! numbers from before the last edit is the commonest mistake.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use xxhash_rust::xxh32::Xxh32;

/// The lower-case letters without `i` and `l`, which look like `1`.
pub(crate) const ALPHABET: &[u8; 24] = b"abcdefghjkmnopqrstuvwxyz";

/// Two letters computed from a line and both its neighbours.
///
/// It is the xxHash32 of the three joined by `\n`, modulo 576; a missing neighbour is empty. It is parsed in
/// either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineCheck(u16);

impl LineCheck {
    /// The check of `line` between its neighbours `before` and `after`.
    pub fn of(before: &str, line: &str, after: &str) -> Self {
        let mut hash = Xxh32::new(0);
        hash.update(before.as_bytes());
        hash.update(b"\n");
        hash.update(line.as_bytes());
        hash.update(b"\n");
        hash.update(after.as_bytes());
        let values = (ALPHABET.len() * ALPHABET.len()) as u32;
        Self((hash.digest() % values) as u16)
    }
}

impl fmt::Display for LineCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |at: usize| char::from(ALPHABET[at % ALPHABET.len()]);
        let value = usize::from(self.0);
        write!(f, "{}{}", letter(value / ALPHABET.len()), letter(value))
    }
}

/// Error for a word that is not a line check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a line check: copy the two letters after the line's number")]
pub struct NotACheck(
    /// The rejected word.
    pub String,
);

impl FromStr for LineCheck {
    type Err = NotACheck;

    fn from_str(word: &str) -> Result<Self, NotACheck> {
        let index = |byte: &u8| ALPHABET.iter().position(|letter| *letter == byte.to_ascii_lowercase());
        match word.as_bytes() {
            [first, second] => index(first).zip(index(second)),
            _ => None,
        }
        .map(|(first, second)| Self((first * ALPHABET.len() + second) as u16))
        .ok_or_else(|| NotACheck(word.to_owned()))
    }
}

impl Serialize for LineCheck {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_round_trip_in_either_case() {
        for value in 0..576 {
            let check = LineCheck(value);
            let word = check.to_string();
            assert!(!word.contains(['i', 'l']), "{word}");
            assert_eq!(word.parse(), Ok(check));
            assert_eq!(word.to_uppercase().parse(), Ok(check));
        }
        for word in ["", "k", "kqq", "il", "k1", "é"] {
            assert!(word.parse::<LineCheck>().is_err(), "{word}");
        }
    }

    #[test]
    fn check_depends_on_both_neighbours() {
        let check = LineCheck::of("a", "b", "c");
        assert_ne!(check, LineCheck::of("x", "b", "c"));
        assert_ne!(check, LineCheck::of("a", "b", "x"));
        assert_ne!(check, LineCheck::of("a", "x", "c"));
    }
}
