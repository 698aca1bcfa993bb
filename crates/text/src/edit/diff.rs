//! The difference of two texts, as edits and as a unified diff.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::TextEdit;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff};

/// Maximum time to find common lines; the rest then counts as different.
///
/// A diff takes quadratic time where most lines differ, as after a file was formatted.
const BUDGET: Duration = Duration::from_millis(500);

/// Maximum size of two texts together whose lines are compared to show them.
const MAX_COMPARED: usize = 4 << 20;
/// Number of equal lines around a difference.
const CONTEXT: usize = 3;

/// Edits that turn `old` into `new`, in order of position.
///
/// A histogram diff finds whole lines, and each edit is narrowed to the bytes that differ. Empty if
/// the texts are equal. Where most of many lines differ, one edit may cover equal lines too.
pub fn diff_edits(old: &str, new: &str) -> Vec<TextEdit> {
    let narrowed = |(range, with): (Range<usize>, Range<usize>)| narrow(old, range, &new[with]);
    diff_lines(old, new).into_iter().map(narrowed).collect()
}

/// Byte ranges of different lines, each of `old` with one of `new`.
///
/// They are in order and are not adjacent. Empty if the texts are equal.
pub fn diff_lines(old: &str, new: &str) -> Vec<(Range<usize>, Range<usize>)> {
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
            (old_starts[a.start]..old_starts[a.end], new_starts[b.start]..new_starts[b.end])
        })
        .collect()
}

fn narrow(old: &str, range: Range<usize>, new_text: &str) -> TextEdit {
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
/// Empty if they are equal. A missing text (a created or deleted file) is `None` and named `/dev/null`. Differences of
/// more than [`MAX_COMPARED`] are counted, not shown.
pub fn unified_diff(path: &str, old: Option<&str>, new: Option<&str>) -> String {
    if old == new {
        return String::new();
    }
    let name = |text: Option<&str>, side: &str| match text {
        Some(_) => format!("{side}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let mut out = format!("--- {}\n+++ {}\n", name(old, "a"), name(new, "b"));
    let (old_text, new_text) = (old.unwrap_or_default(), new.unwrap_or_default());
    let middle = Middle::of(old_text, new_text, CONTEXT);
    if middle.is_large() {
        let (added, removed) = line_counts(old_text, new_text);
        out.push_str(&format!(
            "The difference is too large to show (lines removed: {removed}, added: {added})\n"
        ));
        return out;
    }
    let diff = middle.compare();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        let (Some(first), Some(last)) = (hunk.ops().first(), hunk.ops().last()) else { continue };
        let old = middle.lines(first.old_range().start..last.old_range().end);
        let new = middle.lines(first.new_range().start..last.new_range().end);
        let text = hunk.to_string();
        let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
        out.push_str(&format!("@@ -{old} +{new} @@\n{rows}"));
    }
    out
}

/// Numbers of lines added and removed between two texts.
///
/// All lines of a difference of more than [`MAX_COMPARED`] count as different.
pub fn line_counts(old: &str, new: &str) -> (usize, usize) {
    Middle::of(old, new, 0).counts()
}

/// Two texts without the equal lines at both ends, but for some context.
struct Middle<'a> {
    above: &'a str,
    old: &'a str,
    new: &'a str,
}

impl<'a> Middle<'a> {
    /// The whole texts, unless they are too large to be compared.
    fn of(old: &'a str, new: &'a str, context: usize) -> Self {
        let whole = Self { above: "", old, new };
        if whole.is_large() { Self::trimmed(old, new, context) } else { whole }
    }

    fn trimmed(old: &'a str, new: &'a str, context: usize) -> Self {
        let (old_bytes, new_bytes) = (old.as_bytes(), new.as_bytes());
        let head = old_bytes.iter().zip(new_bytes).take_while(|(a, b)| a == b).count();
        let line_start =
            |at: usize| old_bytes[..at].iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let head = (0..context).fold(line_start(head), |at, _| line_start(at.saturating_sub(1)));
        let rests = old_bytes[head..].iter().rev().zip(new_bytes[head..].iter().rev());
        let tail = rests.take_while(|(a, b)| a == b).count();
        let ends_line = |text: &[u8]| text.len() == tail + head || text[text.len() - tail - 1] == b'\n';
        let whole = usize::from(!(ends_line(old_bytes) && ends_line(new_bytes)));
        let next_line = |at: usize| {
            let end = old_bytes[at..].iter().position(|it| *it == b'\n');
            end.map_or(old.len(), |it| at + it + 1)
        };
        let end = (0..context + whole).fold(old.len() - tail, |at, _| next_line(at));
        let tail = old.len() - end;
        Self { above: &old[..head], old: &old[head..end], new: &new[head..new.len() - tail] }
    }

    fn is_large(&self) -> bool {
        self.old.len() + self.new.len() > MAX_COMPARED
    }

    fn compare(&self) -> TextDiff<'a, 'a, str> {
        TextDiff::configure().timeout(BUDGET).diff_lines(self.old, self.new)
    }

    /// Numbers of lines added and removed.
    fn counts(&self) -> (usize, usize) {
        if self.is_large() {
            return (count(self.new), count(self.old));
        }
        self.compare().iter_all_changes().fold((0, 0), |(added, removed), change| match change.tag() {
            ChangeTag::Insert => (added + 1, removed),
            ChangeTag::Delete => (added, removed + 1),
            ChangeTag::Equal => (added, removed),
        })
    }

    /// The range of a hunk's header, for lines of the middle.
    fn lines(&self, lines: std::ops::Range<usize>) -> String {
        let first = count(self.above) + lines.start + usize::from(!lines.is_empty());
        if lines.len() == 1 { first.to_string() } else { format!("{first},{}", lines.len()) }
    }
}

/// Number of lines, which also end at a lone CR.
fn count(text: &str) -> usize {
    let bytes = text.as_bytes();
    let ends = |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    let ended = (0..bytes.len()).filter(ends).count();
    ended + usize::from(!bytes.is_empty() && !matches!(bytes[bytes.len() - 1], b'\n' | b'\r'))
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

    #[test]
    fn a_large_difference_is_counted() {
        let (old, new) = ("x".repeat(MAX_COMPARED), "x\n".repeat(MAX_COMPARED));
        assert_eq!(line_counts(&old, &new), (MAX_COMPARED, 1));
        expect_test::expect![[r#"
            --- a/a
            +++ b/a
            The difference is too large to show (lines removed: 1, added: 4194304)
        "#]]
        .assert_eq(&unified_diff("a", Some(&old), Some(&new)));
        // One changed line of a large text is shown.
        let text = "line\n".repeat(MAX_COMPARED / 4);
        let (old, new) = (format!("{text}{text}"), format!("{text}new\n{text}"));
        assert_eq!(line_counts(&old, &new), (1, 0));
        expect_test::expect![[r#"
            --- a/a
            +++ b/a
            @@ -1048574,6 +1048574,7 @@
             line
             line
             line
            +new
             line
             line
             line
        "#]]
        .assert_eq(&unified_diff("a", Some(&old), Some(&new)));
    }

    proptest! {
        #[test]
        fn the_middle_has_every_difference(
            old in "[ab\n\r]{0,40}", new in "[ab\n\r]{0,40}", ends in "[ab\n]{0,20}", context in 0..4_usize
        ) {
            let (old, new) = (format!("{ends}{old}{ends}"), format!("{ends}{new}{ends}"));
            let middle = Middle::trimmed(&old, &new, context);
            let below = &old[middle.above.len() + middle.old.len()..];
            prop_assert_eq!(format!("{}{}{below}", middle.above, middle.new), &*new);
            for text in [middle.above, middle.old, middle.new] {
                prop_assert!(text.is_empty() || text.ends_with('\n') || below.is_empty());
            }
        }

        #[test]
        fn edits_produce_the_new_text(old in "[ab\n\ré]{0,40}", new in "[ab\n\ré]{0,40}") {
            prop_assert_eq!(crate::apply(&old, &diff_edits(&old, &new)).unwrap(), new);
        }
    }
}
