//! Shortening texts for display.

use std::borrow::Cow;

/// Returns `text`, or its first `max_chars` characters followed by `…`.
pub fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_at_a_character_boundary() {
        assert_eq!(shorten("é😀x", 3), "é😀x");
        assert_eq!(shorten("é😀x", 2), "é😀…");
        assert_eq!(shorten("", 0), "");
    }
}
