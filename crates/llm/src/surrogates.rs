//! Joins surrogate pairs that are split between two events.
//!
//! Servers that cut text by UTF-16 units send the halves in two JSON strings; a Rust string holds neither.
//! Until they meet, a half at the edge of a string is represented by a placeholder: a noncharacter, which no
//! interchanged text has, and a character that encodes the half.

use std::borrow::Cow;

/// Character that marks the next one as an encoded surrogate.
const MARKER: char = '\u{fdd0}';
/// Encodes the first surrogate, U+D800.
const FIRST: u32 = 0xf_0000;

/// The placeholder of a surrogate; U+FFFD for any other unit.
pub(crate) fn placeholder(unit: u16) -> String {
    let shown = u32::from(unit).checked_sub(0xd800).filter(|it| *it < 0x800);
    match shown.and_then(|it| char::from_u32(FIRST + it)) {
        Some(shown) => [MARKER, shown].iter().collect(),
        None => char::REPLACEMENT_CHARACTER.to_string(),
    }
}

fn unit(shown: char) -> Option<u16> {
    let unit = u32::from(shown).checked_sub(FIRST).filter(|it| *it < 0x800)? + 0xd800;
    u16::try_from(unit).ok()
}

/// Replaces the placeholders in `text` by U+FFFD.
pub(crate) fn replace_placeholders(text: &str) -> Cow<'_, str> {
    if !text.contains(MARKER) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == MARKER && characters.next_if(|next| unit(*next).is_some()).is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// State of a text stream that may end with a high surrogate.
#[derive(Debug, Default)]
pub(crate) struct SurrogateJoiner(Option<u16>);

impl SurrogateJoiner {
    /// Returns the next piece, without a high surrogate at its end.
    pub fn join<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if (self.0.is_none() && !piece.contains(MARKER)) || piece.is_empty() {
            return Cow::Borrowed(piece);
        }
        let mut out = String::with_capacity(piece.len() + 4);
        let mut rest = piece;
        if let Some(first) = self.0.take() {
            let mut characters = piece.chars();
            let second =
                (characters.next() == Some(MARKER)).then(|| characters.next().and_then(unit)).flatten();
            match second.map(|second| char::decode_utf16([first, second]).next()) {
                Some(Some(Ok(whole))) => {
                    out.push(whole);
                    rest = characters.as_str();
                }
                _ => out.push(char::REPLACEMENT_CHARACTER),
            }
        }
        let mut back = rest.chars();
        if let (Some(first), Some(MARKER)) = (back.next_back().and_then(unit), back.next_back())
            && (0xd800..0xdc00).contains(&first)
        {
            self.0 = Some(first);
            rest = back.as_str();
        }
        out.push_str(&replace_placeholders(rest));
        Cow::Owned(out)
    }

    /// Returns U+FFFD if a surrogate is still held back.
    pub fn rest(&mut self) -> &'static str {
        if self.0.take().is_some() { "\u{fffd}" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &str) {
        let mut halves = SurrogateJoiner::default();
        let mut out: String = pieces.iter().map(|piece| halves.join(piece).into_owned()).collect();
        out.push_str(halves.rest());
        assert_eq!(out, expected, "{pieces:?}");
    }

    #[test]
    fn split_surrogates_are_joined_or_replaced() {
        let (first, second) = (placeholder(0xd83d), placeholder(0xde00));
        check(&["plain", "", "text"], "plaintext");
        check(&[&format!("a {first}"), &format!("{second} b")], "a 😀 b");
        check(&[&first, "", &second], "😀");
        check(&[&format!("{first}{second}")], "\u{fffd}\u{fffd}");
        check(&[&first, &first, &second], "\u{fffd}😀");
        check(&[&first], "\u{fffd}");
        check(&[&second], "\u{fffd}");
        check(&[&first, "b"], "\u{fffd}b");
        check(&["\u{fdd0}", "\u{f0000}x\u{fdd0}x"], "\u{fdd0}\u{f0000}x\u{fdd0}x");
        assert_eq!(placeholder(0x41), "\u{fffd}");
    }
}
