//! "Did you mean": the known name closest to an unknown one.

/// The closest known name.
///
/// A name that contains all letters of `name` in order (`refs` in `references`) wins; then the one with the
/// fewest characters between the common prefix and suffix.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|known| (!is_short_for(name, known), distance(known, name)))
}

fn is_short_for(name: &str, known: &str) -> bool {
    let mut letters = known.chars();
    !name.is_empty() && name.chars().all(|letter| letters.any(|it| it.eq_ignore_ascii_case(&letter)))
}

/// Number of characters outside the common prefix and suffix.
fn distance(a: &str, b: &str) -> usize {
    let head = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let tail = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    a.len().max(b.len()).saturating_sub(head + tail)
}
