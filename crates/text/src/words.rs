//! Identifiers as whole words in text.

use std::ops::Range;

/// Whether a character is part of an identifier in most languages.
pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// Occurrences of `name` as a whole word in `text`, as byte ranges in order.
pub fn occurrences<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let found = if name.is_empty() { None } else { Some(text.match_indices(name)) };
    found.into_iter().flatten().filter_map(move |(at, matched)| {
        let end = at + matched.len();
        let before = text[..at].chars().next_back();
        let after = text[end..].chars().next();
        let inner =
            |edge: Option<char>, outer: Option<char>| edge.is_some_and(is_word) && outer.is_some_and(is_word);
        let whole = !inner(matched.chars().next(), before) && !inner(matched.chars().next_back(), after);
        whole.then_some(at..end)
    })
}

/// The word around or adjacent to byte `offset`; empty if there is none.
pub fn word_at(text: &str, offset: usize) -> Range<usize> {
    let (Some(before), Some(after)) = (text.get(..offset), text.get(offset..)) else { return 0..0 };
    let start = before.trim_end_matches(is_word).len();
    let end = offset + after.find(|c| !is_word(c)).unwrap_or(after.len());
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_count() {
        let found: Vec<usize> = occurrences("a_b b éb b.b(b) b", "b").map(|at| at.start).collect();
        assert_eq!(found, [4, 10, 12, 14, 17]);
        assert_eq!(occurrences("x", "").count(), 0);
    }

    #[test]
    fn finds_a_word_from_any_offset_in_it() {
        for offset in 2..=5 {
            assert_eq!(word_at("a bcd e", offset), 2..5);
        }
        assert_eq!(word_at("é", 1), 0..0);
    }
}
