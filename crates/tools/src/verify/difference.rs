//! Which diagnostics are new and which are gone, between two texts of one file.

use std::ops::Range;

use lsp_client::Diagnostic;
use text::{LineIndex, TextEdit, map_range};

/// What makes a diagnostic on an edited line the same as one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Same {
    /// Its words.
    Message,
    /// Its rule: words may name what the edit changed.
    Rule,
}

/// Diagnostics that are new, and those that are gone. Equal messages whose ranges map onto each other
/// are the same; one whose range was edited is the same as one on the mapped line, by `same`. Only what
/// one server says of one source is compared with each other.
pub(crate) fn difference<'a>(
    old_text: &str,
    edits: &[TextEdit],
    old: &'a [Diagnostic],
    new_text: &str,
    new: Vec<Diagnostic>,
    same: Same,
) -> (Vec<Diagnostic>, Vec<&'a Diagnostic>) {
    let mut left: Vec<&Diagnostic> = old.iter().collect();
    let mut rest = Vec::new();
    for item in new {
        let known = left.iter().position(|before| {
            alike(before, &item)
                && before.message == item.message
                && moved(&before.range, edits) == Some(item.range.clone())
        });
        match known {
            Some(at) => {
                left.swap_remove(at);
            }
            None => rest.push(item),
        }
    }
    let (old_lines, new_lines) = (LineIndex::new(old_text), LineIndex::new(new_text));
    let line_now = |range: &Range<usize>| {
        let start = old_lines.line_with_end(old_lines.line_of(range.start)).unwrap_or_default().start;
        moved(&(start..start), edits).map(|range| new_lines.line_of(range.start))
    };
    let mut introduced = Vec::new();
    for item in rest {
        let line = new_lines.line_of(item.range.start);
        let known = left.iter().position(|before| {
            alike(before, &item)
                && before.severity == item.severity
                && (same == Same::Rule || before.message == item.message)
                && line_now(&before.range) == Some(line)
        });
        match known {
            Some(at) => {
                left.swap_remove(at);
            }
            None => introduced.push(item),
        }
    }
    (introduced, left)
}

fn alike(a: &Diagnostic, b: &Diagnostic) -> bool {
    (&a.server, &a.source, &a.code) == (&b.server, &b.source, &b.code)
}

fn moved(range: &Range<usize>, edits: &[TextEdit]) -> Option<Range<usize>> {
    map_range(range.clone(), edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lsp_client::Severity;

    fn item(range: Range<usize>, message: &str) -> Diagnostic {
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
        let list =
            |items: Vec<&Diagnostic>| items.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(format!("{} | {}", list(new.iter().collect()), list(gone)), expected);
    }

    #[test]
    fn what_only_moved_is_unchanged() {
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
