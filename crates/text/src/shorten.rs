//! Shortening texts for display.

use std::borrow::Cow;

/// Returns `text`, or its first `max_chars` characters followed by `…`.
pub fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns the first line of `text`, [shortened](shorten); `…` follows it if more text does.
pub fn shorten_line(text: &str, max_chars: usize) -> Cow<'_, str> {
    let text = text.trim_end();
    let line = text.lines().next().unwrap_or_default();
    match shorten(line, max_chars) {
        Cow::Borrowed(whole) if whole.len() < text.len() => format!("{whole}…").into(),
        shortened => shortened,
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

    #[test]
    fn marks_cut_lines_with_one_ellipsis() {
        assert_eq!(shorten_line("one\n", 3), "one");
        assert_eq!(shorten_line("one\ntwo", 3), "one…");
        assert_eq!(shorten_line("one\ntwo", 2), "on…");
        assert_eq!(shorten_line("ab日\ntwo", 2), "ab…");
    }
}
