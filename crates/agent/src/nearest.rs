//! Which of the names that there are was meant by one that is not there.

/// The nearest: one that has all of its letters in their order (`refs` in `references`) before any other, then the one
/// that has the fewest between what both begin and end with.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|known| (!is_short_for(name, known), distance(known, name)))
}

fn is_short_for(name: &str, known: &str) -> bool {
    let mut letters = known.chars();
    !name.is_empty() && name.chars().all(|letter| letters.any(|it| it.eq_ignore_ascii_case(&letter)))
}

/// How many letters stand between what both begin with and what both end with.
fn distance(a: &str, b: &str) -> usize {
    let head = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let tail = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    a.len().max(b.len()).saturating_sub(head + tail)
}
