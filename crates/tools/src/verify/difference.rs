//! Difference between two texts of one file: diagnostics that are new, and those that are gone.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use lsp_client::Diagnostic;
use text::{EditMap, LineIndex, TextEdit};

/// Maximum number of candidates tried for a problem.
///
/// A line may hold a whole file.
const MAX_TRIED: usize = 1_000;
/// Bytes of the longest line that is compared without its blanks.
const MAX_LINE: usize = 4 << 10;

/// How a diagnostic on an edited line is identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Same<'a> {
    Message,
    /// Message, in which the edit replaced one word by another.
    Renamed {
        from: &'a str,
        to: &'a str,
    },
    /// Rule, since the message may quote the edited text.
    Rule,
}

/// Diagnostics that are new, and those that are gone.
///
/// Equal messages whose ranges map onto each other are the same. A diagnostic whose range was edited is the
/// same as one on the mapped line, by `same`, or on a line that differs only in blanks. Only diagnostics of one
/// server and source are compared.
pub(crate) fn difference<'a>(
    old_text: &str,
    edits: &[TextEdit],
    old: &'a [Diagnostic],
    new_text: &str,
    new: Vec<Diagnostic>,
    same: Same<'_>,
) -> (Vec<Diagnostic>, Vec<&'a Diagnostic>) {
    let map = EditMap::new(edits);
    let (old_lines, new_lines) = (LineIndex::new(old_text), LineIndex::new(new_text));
    let mut left: Vec<&Diagnostic> = old.iter().collect();
    let new = remove_known(
        &mut left,
        new,
        |before| map.range(before.range.clone()),
        |item| Some(item.range.clone()),
        |before, item| same.words(before, item),
    );
    let counted = Cell::new(None);
    let line_now = |before: &Diagnostic| {
        let line = old_lines.line_of(before.range.start);
        let start = old_lines.line_with_end(line).unwrap_or_default().start;
        if let Some(range) = map.range(start..start) {
            return Some(new_lines.line_of(range.start));
        }
        // Inside an edit of several lines: known if it leaves as many.
        let (edit, new_start) = map.around(start)?;
        let breaks = |text: &str| text.matches('\n').count();
        // The edit may be the whole text, and hold all problems.
        let count = || breaks(&old_text[edit.range.clone()]) == breaks(&edit.new_text);
        let as_many = match counted.get() {
            Some((start, as_many)) if start == edit.range.start => as_many,
            _ => count(),
        };
        counted.set(Some((edit.range.start, as_many)));
        as_many.then(|| new_lines.line_of(new_start) + line - old_lines.line_of(edit.range.start))
    };
    let new = remove_known(
        &mut left,
        new,
        line_now,
        |item| Some(new_lines.line_of(item.range.start)),
        |before, item| before.severity == item.severity && (same == Same::Rule || same.words(before, item)),
    );
    // A formatter turns several lines into one edit, inside which no place is known.
    let without_blanks = |text: &str, index: &LineIndex, item: &Diagnostic| -> Option<String> {
        let line = index.line(text, index.line_of(item.range.start)).unwrap_or_default();
        (line.len() <= MAX_LINE).then(|| text[line].split_whitespace().collect())
    };
    let introduced = remove_known(
        &mut left,
        new,
        |before| without_blanks(old_text, &old_lines, before),
        |item| without_blanks(new_text, &new_lines, item),
        |before, item| before.severity == item.severity && same.words(before, item),
    );
    (introduced, left)
}

/// Removes pairs with equal keys that are the same.
///
/// Returns the new ones without a partner.
fn remove_known<K: Hash + Eq>(
    left: &mut Vec<&Diagnostic>,
    new: Vec<Diagnostic>,
    old_key: impl Fn(&Diagnostic) -> Option<K>,
    new_key: impl Fn(&Diagnostic) -> Option<K>,
    is_same: impl Fn(&Diagnostic, &Diagnostic) -> bool,
) -> Vec<Diagnostic> {
    if new.is_empty() {
        return new;
    }
    let mut by_key: HashMap<K, Vec<&Diagnostic>> = HashMap::new();
    // The first is the last of its list, so that it is found and removed first.
    for &before in left.iter().rev() {
        if let Some(key) = old_key(before) {
            by_key.entry(key).or_default().push(before);
        }
    }
    let mut known: HashSet<*const Diagnostic> = HashSet::new();
    let rest = new
        .into_iter()
        .filter(|item| {
            let Some(candidates) = new_key(item).and_then(|key| by_key.get_mut(&key)) else { return true };
            let is_pair = |before: &&Diagnostic| alike(before, item) && is_same(before, item);
            let behind = candidates.iter().rev().take(MAX_TRIED).position(is_pair);
            let known_at = behind.map(|behind| candidates.len() - 1 - behind);
            known_at.is_none_or(|at| !known.insert(std::ptr::from_ref(candidates.remove(at))))
        })
        .collect();
    left.retain(|before| !known.contains(&std::ptr::from_ref(*before)));
    rest
}

impl Same<'_> {
    /// Whether two diagnostics report the same problem.
    fn words(self, before: &Diagnostic, item: &Diagnostic) -> bool {
        match self {
            Self::Renamed { from, to } if before.message != item.message => {
                let mut message = String::new();
                let mut rest = 0;
                for word in text::occurrences(&before.message, from) {
                    message.push_str(&before.message[rest..word.start]);
                    message.push_str(to);
                    rest = word.end;
                }
                message.push_str(&before.message[rest..]);
                message == item.message
            }
            _ => before.message == item.message,
        }
    }
}

fn alike(a: &Diagnostic, b: &Diagnostic) -> bool {
    (&a.server, &a.source, &a.code) == (&b.server, &b.source, &b.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsp_client::Severity;

    fn item(range: std::ops::Range<usize>, message: &str) -> Diagnostic {
        Diagnostic {
            range,
            line: 1,
            severity: Severity::Error,
            code: Some("E".into()),
            source: Some("s".into()),
            message: message.into(),
            server: "one".into(),
            raw: lsp_client::RawJson::new(serde_json::value::RawValue::NULL),
        }
    }

    /// `new | gone` after `from` became `to` in `text`.
    #[track_caller]
    fn check(
        text: &str,
        (from, to): (&str, &str),
        old: Vec<Diagnostic>,
        new: Vec<Diagnostic>,
        expected: &str,
    ) {
        let at = text.find(from).unwrap();
        let edits = [TextEdit::replace(at..at + from.len(), to)];
        let after = text::apply(text, &edits).unwrap();
        let (new, gone) = difference(text, &edits, &old, &after, new, Same::Message);
        assert_eq!(shown(&new, &gone), expected);
    }

    fn shown(new: &[Diagnostic], gone: &[&Diagnostic]) -> String {
        let list =
            |items: Vec<&Diagnostic>| items.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join(" ");
        format!("{} | {}", list(new.iter().collect()), list(gone.to_vec()))
    }

    #[test]
    fn a_problem_that_names_a_renamed_symbol_is_the_same() {
        let (old, new) = ("f.spin(1)\n", "f.twirl(1)\n");
        let edits = [TextEdit::replace(2..6, "twirl")];
        let (before, after) = (vec![item(2..9, "no spin for spinner")], item(2..10, "no twirl for spinner"));
        let check = |same, expected: &str| {
            let (new, gone) = difference(old, &edits, &before, new, vec![after.clone()], same);
            assert_eq!(shown(&new, &gone), expected);
        };
        check(Same::Renamed { from: "spin", to: "twirl" }, " | ");
        check(Same::Message, "no twirl for spinner | no spin for spinner");
    }

    #[test]
    fn adjacent_changed_lines_are_matched_in_order() {
        let (old, new) = ("spin()\nspin(1)\n", "twirl()\ntwirl(1)\n");
        let edits = text::diff_edits(old, new);
        assert_eq!(edits.len(), 1);
        let (before, after) = (vec![item(7..14, "no spin")], vec![item(8..16, "no twirl")]);
        let same = Same::Renamed { from: "spin", to: "twirl" };
        let (new, gone) = difference(old, &edits, &before, new, after, same);
        assert_eq!(shown(&new, &gone), " | ");
    }

    #[test]
    fn text_that_a_formatter_moved_is_the_same() {
        let (old, new) = ("def f():\n  return  x\ny", "def f():\n    return x\n\n\ny\n");
        let (before, after) = (
            vec![item(19..20, "no x"), item(21..22, "no y")],
            vec![item(20..21, "no x"), item(24..25, "no y")],
        );
        for edits in [text::diff_edits(old, new), vec![TextEdit::replace(0..old.len(), new)]] {
            let (new, gone) = difference(old, &edits, &before, new, after.clone(), Same::Message);
            assert_eq!(shown(&new, &gone), " | ", "{edits:?}");
        }
    }

    /// Pair by pair this takes minutes.
    #[test]
    fn many_problems_are_compared_in_linear_time() {
        let count = 100_000;
        let texts = ["x(  1)\n", "x(1)\n"].map(|line| line.repeat(count));
        let items = texts.each_ref().map(|text| {
            let line = text.len() / count;
            (0..count).map(|at| item(at * line..at * line + 1, "no x")).collect::<Vec<_>>()
        });
        let edits: Vec<TextEdit> =
            (0..count).map(|at| TextEdit::replace(at * 7 + 2..at * 7 + 4, "")).collect();
        let [old, new] = items;
        let started = std::time::Instant::now();
        let (new, gone) = difference(&texts[0], &edits, &old, &texts[1], new, Same::Message);
        assert_eq!((new.len(), gone.len()), (0, 0));
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn text_that_only_moved_is_unchanged() {
        check("a\nb\n", ("a", "xx\ny"), vec![item(2..3, "m")], vec![item(5..6, "m")], " | ");
    }

    #[test]
    fn other_words_at_the_same_place_are_another_problem() {
        check("a\n", ("a", "b"), vec![item(0..1, "no a")], vec![item(0..1, "no b")], "no b | no a");
        check("a\n", ("a", "b"), vec![item(0..1, "bad")], vec![item(0..1, "bad")], " | ");
    }

    #[test]
    fn each_server_and_source_is_compared_with_itself() {
        let mut other = item(2..3, "m");
        other.source = Some("t".into());
        check("a\nb\n", ("a", "c"), vec![item(2..3, "m")], vec![other.clone()], "m | m");
        other = item(2..3, "m");
        other.server = "two".into();
        check("a\nb\n", ("a", "c"), vec![item(2..3, "m")], vec![item(2..3, "m"), other], "m | ");
    }

    #[test]
    fn the_same_problem_twice_is_counted_twice() {
        let twice = vec![item(0..1, "m"), item(0..1, "m")];
        check("a\nb\n", ("b", "c"), vec![item(0..1, "m")], twice.clone(), "m | ");
        check("a\nb\n", ("b", "c"), twice, vec![item(0..1, "m")], " | m");
    }
}
