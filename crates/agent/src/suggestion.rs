//! "Did you mean": the known name closest to an unknown one.

/// The closest known name.
///
/// A name that contains all letters of `name` in order (`refs` in `references`) wins; then the one with the
/// fewest insertions, deletions and replacements.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.min_by_key(|known| (!is_short_for(name, known), strsim::levenshtein(known, name)))
}

fn is_short_for(name: &str, known: &str) -> bool {
    let mut letters = known.chars();
    !name.is_empty() && name.chars().all(|letter| letters.any(|it| it.eq_ignore_ascii_case(&letter)))
}
