//! A key that cannot be printed accidentally.
//!
//! It has no `Display`, an empty `Debug` and no serialization. Only the HTTP transport reads it.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters written as `%XX` (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key without surrounding white space; `None` if nothing is left.
    ///
    /// An empty environment variable therefore counts as no key.
    pub fn new(key: &str) -> Option<ApiKey> {
        let key = key.trim();
        (!key.is_empty()).then(|| ApiKey(key.to_owned()))
    }

    /// Compares in constant time.
    pub fn is(&self, given: &str) -> bool {
        let differing = given.bytes().zip(self.0.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
        given.len() == self.0.len() && differing == 0
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the key replaced.
    pub(crate) fn redact(&self, text: &str) -> String {
        const REDACTED: &str = "[redacted:api-key]";
        let text = text.replace(&self.0, REDACTED);
        // The key may also appear encoded in a URL.
        let upper: String = utf8_percent_encode(&self.0, RESERVED).collect();
        if upper == self.0 {
            return text;
        }
        let lower: String = utf8_percent_encode(&self.0, RESERVED)
            .map(|piece| if piece.starts_with('%') { piece.to_ascii_lowercase() } else { piece.to_owned() })
            .collect();
        text.replace(&upper, REDACTED).replace(&lower, REDACTED)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDACTED: &str = "[redacted:api-key]";

    #[test]
    fn a_key_does_not_print() {
        let key = ApiKey::new(" sk-123 \n").unwrap();
        assert_eq!(format!("{key:?} {:?}", Some(&key)), "ApiKey(..) Some(ApiKey(..))");
        assert_eq!(key.reveal(), "sk-123");
        assert_eq!(
            ["sk-123", "sk-124", "sk-12", "sk-1234", ""].map(|it| key.is(it)),
            [true, false, false, false, false]
        );
        assert_eq!(key.redact("bad key sk-123"), "bad key [redacted:api-key]");
        let key = ApiKey::new("a+b/C=").unwrap();
        assert_eq!(key.redact("a%2Bb%2FC%3D a%2bb%2fC%3d a+b/C="), [REDACTED; 3].join(" "));
        assert_eq!(ApiKey::new(" "), None);
    }
}
