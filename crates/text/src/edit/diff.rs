//! The difference of two texts, as edits and as a unified diff.

use std::time::{Duration, Instant};

use crate::TextEdit;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};

/// Maximum time to find common lines; the rest then counts as different.
///
/// A diff takes quadratic time where most lines differ, as after a file was formatted.
const BUDGET: Duration = Duration::from_millis(500);

/// Edits that turn `old` into `new`, in order of position.
///
/// A histogram diff finds whole lines, and each edit is narrowed to the bytes that differ. Empty if
/// the texts are equal. Where most of many lines differ, one edit may cover equal lines too.
pub fn diff_edits(old: &str, new: &str) -> Vec<TextEdit> {
    if old == new {
        return Vec::new();
    }
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let offsets = |lines: &[&str]| -> Vec<usize> {
        let mut at = 0;
        let mut starts: Vec<usize> = lines
            .iter()
            .map(|line| {
                let start = at;
                at += line.len();
                start
            })
            .collect();
        starts.push(at);
        starts
    };
    let (old_starts, new_starts) = (offsets(&old_lines), offsets(&new_lines));
    let deadline = Some(Instant::now() + BUDGET);
    similar::capture_diff_slices_deadline(Algorithm::Histogram, &old_lines, &new_lines, deadline)
        .into_iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }))
        .map(|op| {
            let (a, b) = (op.old_range(), op.new_range());
            let (start, end) = (old_starts[a.start], old_starts[a.end]);
            narrow(old, start..end, &new[new_starts[b.start]..new_starts[b.end]])
        })
        .collect()
}

fn narrow(old: &str, range: std::ops::Range<usize>, new_text: &str) -> TextEdit {
    let was = &old[range.clone()];
    let prefix: usize =
        was.chars().zip(new_text.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (was_rest, new_rest) = (&was[prefix..], &new_text[prefix..]);
    let suffix: usize = was_rest
        .chars()
        .rev()
        .zip(new_rest.chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    TextEdit::replace(range.start + prefix..range.end - suffix, &new_rest[..new_rest.len() - suffix])
}

/// A unified diff of `old` and `new` with three lines of context.
///
/// Empty if they are equal. A missing text (a created or deleted file) is `None` and named `/dev/null`.
pub fn unified_diff(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    if old == new {
        return String::new();
    }
    let name = |text: Option<&str>, side: &str| match text {
        Some(_) => format!("{side}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let (old_text, new_text) = (old.unwrap_or_default(), new.unwrap_or_default());
    let diff = TextDiff::configure().timeout(BUDGET).diff_lines(old_text, new_text);
    let mut out = diff.unified_diff().context_radius(3).header(&name(old, "a"), &name(new, "b")).to_string();
    if out.is_empty() {
        out = format!("--- {}\n+++ {}\n", name(old, "a"), name(new, "b"));
    }
    out
}

/// Numbers of lines added and removed between two texts.
pub fn line_counts(old: &str, new: &str) -> (usize, usize) {
    let diff = TextDiff::configure().timeout(BUDGET).diff_lines(old, new);
    diff.iter_all_changes().fold((0, 0), |(added, removed), change| match change.tag() {
        ChangeTag::Insert => (added + 1, removed),
        ChangeTag::Delete => (added, removed + 1),
        ChangeTag::Equal => (added, removed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edits_are_narrowed_at_both_ends() {
        let edits = diff_edits("one\ntwo\nthree\n", "one\ntwa\nthree\n");
        assert_eq!(edits, [TextEdit::replace(6..7, "a")]);
    }

    /// Compares texts that would take minutes without the budget.
    #[test]
    fn large_texts_without_common_lines_end() {
        let lines = |indent: &str| -> String { (0..60_000).map(|n| format!("{indent}x{n}\n")).collect() };
        let (old, new) = (lines(""), lines("  "));
        assert_eq!(crate::apply(&old, &diff_edits(&old, &new)).unwrap(), new);
        assert_eq!(line_counts(&old, &new), (60_000, 60_000));
        assert!(unified_diff("a", Some(&old), Some(&new)).len() > old.len() + new.len());
    }

    proptest! {
        #[test]
        fn edits_produce_the_new_text(old in "[ab\n\ré]{0,40}", new in "[ab\n\ré]{0,40}") {
            prop_assert_eq!(crate::apply(&old, &diff_edits(&old, &new)).unwrap(), new);
        }
    }
}
