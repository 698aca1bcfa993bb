//! Halves of a character outside the basic plane. JSON can hold one half of a surrogate pair, and servers that cut text by
//! UTF-16 units send the two in two events; a Rust string holds neither. Until they meet again, the half at an edge of a
//! string stands as a mark: a noncharacter, which no text that is interchanged has, and one character that tells which.

use std::borrow::Cow;

/// What the character after it stands for is half a character.
const MARK: char = '\u{fdd0}';
/// The character that stands for the first half there is.
const FIRST: u32 = 0xf_0000;

/// The mark of this half, `0xd800..=0xdfff`; U+FFFD for any other unit.
pub(crate) fn mark(unit: u16) -> String {
    let shown = u32::from(unit).checked_sub(0xd800).filter(|it| *it < 0x800);
    match shown.and_then(|it| char::from_u32(FIRST + it)) {
        Some(shown) => [MARK, shown].iter().collect(),
        None => char::REPLACEMENT_CHARACTER.to_string(),
    }
}

fn unit(shown: char) -> Option<u16> {
    let unit = u32::from(shown).checked_sub(FIRST).filter(|it| *it < 0x800)? + 0xd800;
    u16::try_from(unit).ok()
}

/// `text` with every mark replaced by U+FFFD.
pub(crate) fn settled(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == MARK && characters.next_if(|next| unit(*next).is_some()).is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// The first half of a character that one stream of text waits for the second of.
#[derive(Debug, Default)]
pub(crate) struct Halves(Option<u16>);

impl Halves {
    /// The next piece, whole characters only: a first half at its end waits for the next piece.
    pub fn join<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if (self.0.is_none() && !piece.contains(MARK)) || piece.is_empty() {
            return Cow::Borrowed(piece);
        }
        let mut out = String::with_capacity(piece.len() + 4);
        let mut rest = piece;
        if let Some(first) = self.0.take() {
            let mut characters = piece.chars();
            let second =
                (characters.next() == Some(MARK)).then(|| characters.next().and_then(unit)).flatten();
            match second.map(|second| char::decode_utf16([first, second]).next()) {
                Some(Some(Ok(whole))) => {
                    out.push(whole);
                    rest = characters.as_str();
                }
                _ => out.push(char::REPLACEMENT_CHARACTER),
            }
        }
        let mut back = rest.chars();
        if let (Some(first), Some(MARK)) = (back.next_back().and_then(unit), back.next_back())
            && (0xd800..0xdc00).contains(&first)
        {
            self.0 = Some(first);
            rest = back.as_str();
        }
        out.push_str(&settled(rest));
        Cow::Owned(out)
    }

    /// What still waits, as the character that stands for what cannot be read.
    pub fn rest(&mut self) -> &'static str {
        if self.0.take().is_some() { "\u{fffd}" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &str) {
        let mut halves = Halves::default();
        let mut out: String = pieces.iter().map(|piece| halves.join(piece).into_owned()).collect();
        out.push_str(halves.rest());
        assert_eq!(out, expected, "{pieces:?}");
    }

    #[test]
    fn halves_meet_again_or_are_told_as_unreadable() {
        let (first, second) = (mark(0xd83d), mark(0xde00));
        check(&["plain", "", "text"], "plaintext");
        check(&[&format!("a {first}"), &format!("{second} b")], "a 😀 b");
        check(&[&first, "", &second], "😀");
        check(&[&format!("{first}{second}")], "\u{fffd}\u{fffd}");
        check(&[&first, &first, &second], "\u{fffd}😀");
        check(&[&first], "\u{fffd}");
        check(&[&second], "\u{fffd}");
        check(&[&first, "b"], "\u{fffd}b");
        check(&["\u{fdd0}", "\u{f0000}x\u{fdd0}x"], "\u{fdd0}\u{f0000}x\u{fdd0}x");
        assert_eq!(mark(0x41), "\u{fffd}");
    }
}
