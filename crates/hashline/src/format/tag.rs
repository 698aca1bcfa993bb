//! The short name of a text version, as a header shows it.
//!
//! A tag is an index into the store, never a proof: the engine always compares texts.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Four or eight hexadecimal digits that name one version of one path.
///
/// The version is in a [`SnapshotStore`](crate::SnapshotStore).
///
/// The digits are the low 16 bits, or all 32, of the text's xxHash32. They are printed in upper
/// case, read in either case, and serialized as the string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    value: u32,
    long: bool,
}

impl Tag {
    pub(crate) fn new(hash: u32, long: bool) -> Self {
        Self { value: if long { hash } else { hash & 0xffff }, long }
    }

    /// Creates the eight-digit tag of a text.
    ///
    /// A caller shows it when the tag must mean the same text in another store, which finds it
    /// again after [`SnapshotStore::record`](crate::SnapshotStore::record).
    pub fn long(text: &str) -> Self {
        Self::new(crate::lines::short_hash(text, 0), true)
    }

    /// Whether these are the digits of a text.
    pub fn names(self, text: &str) -> bool {
        self == Self::new(Self::long(text).value, self.long)
    }

    /// Whether it has eight digits.
    pub fn is_long(self) -> bool {
        self.long
    }

    pub(crate) fn value(self) -> u32 {
        self.value
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.long { write!(f, "{:08X}", self.value) } else { write!(f, "{:04X}", self.value) }
    }
}

/// Error for a word that is not a tag: it must be four or eight hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tag: a tag is the four or eight hexadecimal digits after `#` in what was read")]
pub struct NotATag(
    /// The rejected word.
    pub String,
);

impl FromStr for Tag {
    type Err = NotATag;

    fn from_str(word: &str) -> Result<Self, NotATag> {
        let fits = matches!(word.len(), 4 | 8) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u32::from_str_radix(word, 16) {
            Ok(value) if fits => Ok(Self { value, long: word.len() == 8 }),
            _ => Err(NotATag(word.to_owned())),
        }
    }
}

impl Serialize for Tag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_parse_in_either_case_and_print_in_upper() {
        assert_eq!("3f2a".parse::<Tag>().unwrap().to_string(), "3F2A");
        assert_eq!("0000abCD".parse::<Tag>().unwrap().to_string(), "0000ABCD");
        for word in ["", "3F2", "3F2A1", "3G2A", "+F2A", "éé", "123456789"] {
            assert!(word.parse::<Tag>().is_err(), "{word}");
        }
    }
}
