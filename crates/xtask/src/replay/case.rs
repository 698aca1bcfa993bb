//! Three versions of a file as one edit, with the expected result.
//!
//! The change from v1 to v2 is written against v0 and applied to v1. Both changes, v0 → v1 and v1 → v2, are
//! taken as runs of whole lines. A hunk of the second and a run of the first *overlap* if they share a line
//! of v1, or one lies between two lines of the other; they are *adjacent* if they do not overlap and no line
//! is between them; else they are apart. Hunks and runs that overlap are one component, which is written as
//! the replacement of all its lines in v0 by all its lines in v2.
//!
//! A case is `clean` if all of its hunks are apart from every run, `adjacent` if none overlaps, and
//! `overlapping` otherwise. A clean case for which another history has the same texts and patch but another
//! outcome is one of `twins`: the expected result is what happened, but it is undecidable (`twins`). Some
//! changes cannot be written against v0 at all, since they concern lines that only v1 has: components whose
//! lines in v0 are all unchanged and together in v1. The same holds for an insertion of rows that v0 → v1
//! inserted at the same place: it looks like the edit that was made already. Such changes are left out, and
//! the expected result is v1 with the other hunks; without any hunk there is no patch.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::twins::{Hunk, Side, are_undecidable};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Clean,
    Twins,
    Adjacent,
    Overlapping,
}

impl Class {
    pub(crate) const ALL: [Class; 4] = [Class::Clean, Class::Twins, Class::Adjacent, Class::Overlapping];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Class::Clean => "clean",
            Class::Twins => "twins",
            Class::Adjacent => "adjacent",
            Class::Overlapping => "overlapping",
        }
    }
}

/// One row for an engine.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) class: Class,
    pub(crate) base: String,
    pub(crate) current: String,
    pub(crate) expected: String,
    /// Number of omitted components, which change lines that only v1 has.
    pub(crate) left_out: usize,
    /// `None` if no part of the change can be written against the base.
    pub(crate) patch: Option<String>,
}

/// A text as lines without their ends, which are all equal.
struct Text<'a> {
    lines: Vec<&'a str>,
    end: &'static str,
    closed: bool,
}

impl<'a> Text<'a> {
    /// Splits a text into lines.
    ///
    /// Returns `None` if its line ends are mixed, or of another kind.
    fn new(text: &'a str) -> Option<Self> {
        let end = if text.contains('\r') { "\r\n" } else { "\n" };
        let closed = text.ends_with(end);
        let body = text.strip_suffix(end).unwrap_or(text);
        let lines: Vec<&str> = if text.is_empty() { Vec::new() } else { body.split(end).collect() };
        (!lines.iter().any(|line| line.contains(['\r', '\n']))).then_some(Self { lines, end, closed })
    }

    fn join(&self, lines: &[&str]) -> String {
        let mut text = lines.join(self.end);
        if self.closed && !lines.is_empty() {
            text.push_str(self.end);
        }
        text
    }
}

/// Lines of the older text and their replacement in the newer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    old: Range<usize>,
    new: Range<usize>,
}

impl Run {
    fn growth(&self) -> isize {
        self.new.len() as isize - self.old.len() as isize
    }
}

fn runs(old: &[&str], new: &[&str]) -> Vec<Run> {
    let ops = capture_diff_slices(Algorithm::Patience, old, new).into_iter();
    let changes = ops.filter(|op| !matches!(op, DiffOp::Equal { .. }));
    let mut runs: Vec<Run> = Vec::new();
    for op in changes {
        let (old, new) = (op.old_range(), op.new_range());
        match runs.last_mut() {
            Some(last) if last.old.end == old.start && last.new.end == new.start => {
                last.old.end = old.end;
                last.new.end = new.end;
            }
            _ => runs.push(Run { old, new }),
        }
    }
    runs
}

/// Whether they share a line, or one is a point inside the other.
fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    let inside = |point: &Range<usize>, range: &Range<usize>| {
        point.is_empty() && range.start < point.start && point.end < range.end
    };
    (!a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end) || inside(a, b) || inside(b, a)
}

fn touch(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.end == b.start || b.end == a.start
}

/// Hunks of the second change with the overlapping runs of the first, by index.
///
/// `hull` is their extent in v1.
struct Component {
    hunks: Range<usize>,
    runs: Range<usize>,
    hull: Range<usize>,
}

/// Returns `None` for texts that changed only once or differ in line endings.
pub(crate) fn of(name: String, path: &str, texts: [&str; 3]) -> Option<Case> {
    let [v0, v1, v2] = [Text::new(texts[0])?, Text::new(texts[1])?, Text::new(texts[2])?];
    let alike = |a: &Text<'_>, b: &Text<'_>| a.end == b.end && a.closed == b.closed;
    if !alike(&v0, &v1) || !alike(&v1, &v2) || v0.lines.is_empty() || v1.lines.is_empty() {
        return None;
    }
    let first = runs(&v0.lines, &v1.lines);
    let second = runs(&v1.lines, &v2.lines);
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let mut class = Class::Clean;
    let mut operations = String::new();
    let mut expected: Vec<&str> = Vec::new();
    let mut hunks_written: Vec<Hunk<'_>> = Vec::new();
    let (mut done, mut left_out) = (0, 0);
    for component in components(&first, &second, v1.lines.len()) {
        let Component { hunks, runs, hull } = &component;
        // The hull's lines in v0 and in v2, by the growth above it.
        let above_first: isize =
            first[..runs.start].iter().filter(|run| run.new.end <= hull.start).map(Run::growth).sum();
        let inside_first: isize = first[runs.clone()].iter().map(Run::growth).sum();
        let above_second: isize = second[..hunks.start].iter().map(Run::growth).sum();
        let inside_second: isize = second[hunks.clone()].iter().map(Run::growth).sum();
        let start0 = hull.start.checked_add_signed(-above_first)?;
        let old = start0..(start0 + hull.len()).checked_add_signed(-inside_first)?;
        let start2 = hull.start.checked_add_signed(above_second)?;
        let rows = &v2.lines[start2..(start2 + hull.len()).checked_add_signed(inside_second)?];
        let mut hunk = Hunk { old: old.clone(), at: hull.start, side: Side::Instead, rows };
        let operation = if hull.is_empty() && came_already(&first, hull.start, rows, &v1) {
            None
        } else if hull.is_empty() {
            let (side, line) = insertion(&first, hull.start, &v1)?;
            let at = if side == Side::Below { hull.start - 1 } else { hull.start };
            hunk = Hunk { old: line..line + 1, at, side, rows };
            let sign = if side == Side::Below { '>' } else { '<' };
            Some(format!("PUT {sign}{}:\n", line + 1))
        } else if !runs.is_empty() && stands_together(&first[runs.clone()], &old) {
            None
        } else if rows.is_empty() {
            Some(format!("CUT {}\n", span(&old)))
        } else {
            Some(format!("PUT {}:\n", span(&old)))
        };
        let Some(operation) = operation else {
            left_out += 1;
            continue;
        };
        hunks_written.push(hunk);
        class = class.max(if !runs.is_empty() {
            Class::Overlapping
        } else if first.iter().any(|run| touch(&run.new, hull)) {
            Class::Adjacent
        } else {
            Class::Clean
        });
        operations.push_str(&operation);
        rows.iter().for_each(|row| operations.push_str(&format!("+{row}\n")));
        expected.extend(&v1.lines[done..hull.start]);
        expected.extend(rows);
        done = hull.end;
    }
    expected.extend(&v1.lines[done..]);
    if class == Class::Clean && are_undecidable(&v0.lines, &v1.lines, &hunks_written) {
        class = Class::Twins;
    }
    Some(Case {
        name,
        path: path.to_owned(),
        class,
        base: texts[0].to_owned(),
        current: texts[1].to_owned(),
        expected: v1.join(&expected),
        left_out,
        patch: (!operations.is_empty()).then(|| format!("[{path}#TAG]\n{operations}")),
    })
}

/// Renders lines `a..b`, from 0, in the form of an operation.
fn span(lines: &Range<usize>) -> String {
    if lines.len() == 1 { lines.end.to_string() } else { format!("{}..={}", lines.start + 1, lines.end) }
}

/// An insertion in v1, by an adjacent line that v0 has too, and its number there.
fn insertion(first: &[Run], at: usize, v1: &Text<'_>) -> Option<(Side, usize)> {
    // Finds the unchanged line of v0 for a line of v1.
    let old = |line: usize| {
        let above: isize = first.iter().filter(|run| run.new.end <= line).map(Run::growth).sum();
        let changed = first.iter().any(|run| run.new.contains(&line));
        (!changed && line < v1.lines.len()).then(|| line.checked_add_signed(-above)).flatten()
    };
    if let Some(above) = at.checked_sub(1).and_then(old) {
        return Some((Side::Below, above));
    }
    old(at).map(|below| (Side::Above, below))
}

/// Whether the first change inserted the same rows at the same place.
///
/// An edit that does so again cannot be distinguished from the first.
fn came_already(first: &[Run], at: usize, rows: &[&str], v1: &Text<'_>) -> bool {
    first.iter().any(|run| {
        let came = &v1.lines[run.new.clone()];
        (run.new.end == at && came.ends_with(rows)) || (run.new.start == at && came.starts_with(rows))
    })
}

/// Whether the lines of v0 are unchanged and adjacent in v1.
///
/// Then the runs are insertions at their edges.
fn stands_together(runs: &[Run], old: &Range<usize>) -> bool {
    runs.iter().all(|run| run.old.is_empty() && (run.old.start == old.start || run.old.start == old.end))
}

fn components(first: &[Run], second: &[Run], count: usize) -> Vec<Component> {
    let mut components: Vec<Component> = Vec::new();
    for (at, hunk) in second.iter().enumerate() {
        let mut hull = hunk.old.clone();
        // A point with no unchanged line on either side belongs to the run it touches.
        let lost = hunk.old.is_empty()
            && (hunk.old.start == 0
                || first.iter().any(|run| run.new.end == hunk.old.start && !run.new.is_empty()))
            && (hunk.old.end == count
                || first.iter().any(|run| run.new.start == hunk.old.end && !run.new.is_empty()));
        let belongs =
            |run: &Run, hull: &Range<usize>| overlap(&run.new, hull) || (lost && touch(&run.new, hull));
        let mut runs: Option<Range<usize>> = None;
        for (index, run) in first.iter().enumerate() {
            if belongs(run, &hunk.old) {
                let start = runs.as_ref().map_or(index, |runs| runs.start);
                runs = Some(start..index + 1);
                hull = hull.start.min(run.new.start)..hull.end.max(run.new.end);
            }
        }
        let none = first
            .partition_point(|run| run.new.end <= hull.start && !(run.new.is_empty() && hull.is_empty()));
        let runs = runs.unwrap_or(none..none);
        match components.last_mut() {
            Some(last) if !runs.is_empty() && last.runs.end > runs.start => {
                last.hunks.end = at + 1;
                last.runs.end = last.runs.end.max(runs.end);
                last.hull.end = last.hull.end.max(hull.end);
            }
            // The hull of the previous component extends over this hunk.
            Some(last) if hull.start < last.hull.end => {
                last.hunks.end = at + 1;
                last.runs.end = last.runs.end.max(runs.end);
                last.hull.end = last.hull.end.max(hull.end);
            }
            _ => components.push(Component { hunks: at..at + 1, runs, hull }),
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: [&str; 3], class: Class, patch: &str, expected: &str) {
        let lines = |text: &str| text.chars().map(|line| format!("{line}\n")).collect::<String>();
        let texts = texts.map(lines);
        let case = of("case".into(), "f", [&texts[0], &texts[1], &texts[2]]).expect("a case");
        assert_eq!(case.patch.as_deref().unwrap_or_default(), patch.replace('|', "\n"));
        assert_eq!((case.class, case.expected), (class, lines(expected)));
    }

    #[test]
    fn separate_hunks_are_clean() {
        check(["abcde", "xabcde", "xabcDe"], Class::Clean, "[f#TAG]|PUT 4:|+D|", "xabcDe");
        check(["abcde", "Abcde", "Abce"], Class::Clean, "[f#TAG]|CUT 4|", "Abce");
        check(["abcde", "acde", "acdxe"], Class::Clean, "[f#TAG]|PUT >4:|+x|", "acdxe");
        check(["abcde", "abcdE", "xabcdE"], Class::Clean, "[f#TAG]|PUT <1:|+x|", "xabcdE");
        check(
            ["abcdefg", "abcDefg", "XbcDefGH"],
            Class::Clean,
            "[f#TAG]|PUT 1:|+X|PUT 7:|+G|+H|",
            "XbcDefGH",
        );
    }

    #[test]
    fn neighbouring_hunks_are_adjacent() {
        check(["abcde", "aBcde", "aBCde"], Class::Adjacent, "[f#TAG]|PUT 3:|+C|", "aBCde");
        check(["abcde", "axbcde", "axBcde"], Class::Adjacent, "[f#TAG]|PUT 2:|+B|", "axBcde");
        check(["abcde", "abde", "abDe"], Class::Adjacent, "[f#TAG]|PUT 4:|+D|", "abDe");
        check(["abcde", "abde", "aBde"], Class::Adjacent, "[f#TAG]|PUT 2:|+B|", "aBde");
        // An insertion is named by the neighbour that did not change.
        check(["ab", "axb", "axyb"], Class::Adjacent, "[f#TAG]|PUT <2:|+y|", "axyb");
        check(["ab", "axb", "ayxb"], Class::Adjacent, "[f#TAG]|PUT >1:|+y|", "ayxb");
        check(["axb", "ab", "ayb"], Class::Adjacent, "[f#TAG]|PUT >1:|+y|", "ayb");
        check(["ab", "aB", "aByb".split_at(3).0], Class::Overlapping, "[f#TAG]|PUT 2:|+B|+y|", "aBy");
    }

    #[test]
    fn hunks_on_changed_lines_overlap() {
        check(["abcde", "aBcde", "aXcde"], Class::Overlapping, "[f#TAG]|PUT 2:|+X|", "aXcde");
        check(["abcde", "aBcde", "aXCde"], Class::Overlapping, "[f#TAG]|PUT 2..=3:|+X|+C|", "aXCde");
        check(["abcde", "abxcde", "aXe"], Class::Overlapping, "[f#TAG]|PUT 2..=4:|+X|", "aXe");
        check(["abcde", "aBCde", "aBXCde"], Class::Overlapping, "[f#TAG]|PUT 2..=3:|+B|+X|+C|", "aBXCde");
        check(["abcdef", "aBCDef", "aXCYef"], Class::Overlapping, "[f#TAG]|PUT 2..=4:|+X|+C|+Y|", "aXCYef");
    }

    #[test]
    fn changes_of_newer_lines_are_left_out() {
        check(["ab", "axb", "ayb"], Class::Clean, "", "axb");
        check(["ab", "axyb", "ab"], Class::Clean, "", "axyb");
        check(["abcd", "abxcd", "aBycd"], Class::Clean, "", "abxcd");
        check(["ab", "axb", "axxb"], Class::Clean, "", "axb");
        check(["abcdef", "axbcdef", "aybcdEf"], Class::Clean, "[f#TAG]|PUT 5:|+E|", "axbcdEf");
    }

    #[test]
    fn the_newest_text_is_expected_unless_hunks_are_left_out() {
        let mut random = super::super::random::Random(3);
        let mut text = |count: usize| -> Vec<String> {
            (0..1 + random.below(count)).map(|_| format!("{}\n", random.below(7))).collect()
        };
        let mut counts = [0; 4];
        for _ in 0..5_000 {
            let [v0, v1, v2] = [text(9), text(9), text(9)].map(|lines| lines.concat());
            let Some(case) = of("x".into(), "f", [&v0, &v1, &v2]) else { continue };
            counts[case.class as usize] += 1;
            if case.left_out == 0 {
                assert_eq!(case.expected, v2, "{v0:?} {v1:?} {:?}", case.patch);
            }
        }
        assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    }

    #[test]
    fn mixed_line_ends_make_no_case() {
        assert!(of("x".into(), "f", ["a\n", "a\r\n", "b\r\n"]).is_none());
        assert!(of("x".into(), "f", ["a\r\n", "x\r\na\r\n", "x\r\nb\r\n"]).is_some());
        assert!(of("x".into(), "f", ["a\nb", "A\nb", "A\nb\n"]).is_none());
        assert!(of("x".into(), "f", ["a\rb\n", "A\n", "B\n"]).is_none());
    }
}
