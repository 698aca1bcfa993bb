//! Difference between two texts of one file: diagnostics that are new, and those that are gone.

use std::ops::Range;

use lsp_client::Diagnostic;
use text::{LineIndex, TextEdit, map_range};

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
    let mut left: Vec<&Diagnostic> = old.iter().collect();
    let mut rest = Vec::new();
    for item in new {
        let known = left.iter().position(|before| {
            alike(before, &item)
                && same.words(before, &item)
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
        let line = old_lines.line_of(range.start);
        let start = old_lines.line_with_end(line).unwrap_or_default().start;
        if let Some(range) = moved(&(start..start), edits) {
            return Some(new_lines.line_of(range.start));
        }
        // Inside an edit of several lines: known if it leaves as many.
        let at = edits.iter().position(|edit| edit.range.start < start && start < edit.range.end)?;
        let (edit, before) = (&edits[at], edits[..at].iter().map(TextEdit::growth).sum::<isize>());
        let breaks = |text: &str| text.matches('\n').count();
        let as_many = breaks(old_text.get(edit.range.clone())?) == breaks(&edit.new_text);
        let first = new_lines.line_of(edit.range.start.checked_add_signed(before)?);
        as_many.then(|| first + line - old_lines.line_of(edit.range.start))
    };
    let mut moved_lines = Vec::new();
    for item in rest {
        let line = new_lines.line_of(item.range.start);
        let known = left.iter().position(|before| {
            alike(before, &item)
                && before.severity == item.severity
                && (same == Same::Rule || same.words(before, &item))
                && line_now(&before.range) == Some(line)
        });
        match known {
            Some(at) => {
                left.swap_remove(at);
            }
            None => moved_lines.push(item),
        }
    }
    // A formatter turns several lines into one edit, inside which no place is known.
    let without_blanks = |text: &str, index: &LineIndex, item: &Diagnostic| -> String {
        let line = index.line(text, index.line_of(item.range.start)).unwrap_or_default();
        text[line].split_whitespace().collect()
    };
    let mut introduced = Vec::new();
    for item in moved_lines {
        let line = without_blanks(new_text, &new_lines, &item);
        let known = left.iter().position(|before| {
            alike(before, &item)
                && before.severity == item.severity
                && same.words(before, &item)
                && without_blanks(old_text, &old_lines, before) == line
        });
        match known {
            Some(at) => {
                left.remove(at);
            }
            None => introduced.push(item),
        }
    }
    (introduced, left)
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
        assert_eq!(shown(&new, &gone), expected);
    }

    fn shown(new: &[Diagnostic], gone: &[&Diagnostic]) -> String {
        let list =
            |items: Vec<&Diagnostic>| items.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join(" ");
        format!("{} | {}", list(new.iter().collect()), list(gone.to_vec()))
    }

    #[test]
    fn a_problem_that_names_what_was_renamed_is_the_same() {
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
    fn lines_below_each_other_that_change_stay_the_lines_they_are() {
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
