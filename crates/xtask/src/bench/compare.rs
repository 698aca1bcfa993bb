//! Comparison of the output of two benchmark runs, matching lines that differ in numbers only.

use std::collections::VecDeque;
use std::fmt::Write;

/// A table of the figures that differ, with the change in percent.
///
/// Also counts lines without a counterpart.
pub(super) fn table(before: &str, now: &str) -> String {
    let mut earlier: VecDeque<Line> = before.lines().map(Line::parse).collect();
    let mut out = String::new();
    let mut unmatched = 0;
    for line in now.lines().map(Line::parse).filter(|line| !line.figures.is_empty()) {
        let Some(old) = earlier.iter().position(|old| old.key == line.key).and_then(|at| earlier.remove(at))
        else {
            unmatched += 1;
            continue;
        };
        for (old, new) in old.figures.iter().zip(&line.figures).filter(|(old, new)| old.text != new.text) {
            let change = if old.value == 0.0 {
                "new".to_owned()
            } else {
                format!("{:+.1} %", (new.value / old.value - 1.0) * 100.0)
            };
            writeln!(out, "{:<44} {:>12} -> {:<12} {change}", shorten(&line.key), old.text, new.text).ok();
        }
    }
    if unmatched > 0 {
        writeln!(out, "{unmatched} lines have no counterpart").ok();
    }
    if out.is_empty() { "no figure differs\n".to_owned() } else { out }
}

/// A line of output.
struct Line {
    /// The text with `#` for every figure and single spaces.
    key: String,
    figures: Vec<Figure>,
}

struct Figure {
    text: String,
    /// Times in seconds; other figures unchanged.
    value: f64,
}

impl Line {
    fn parse(line: &str) -> Line {
        let mut key = String::new();
        let mut figures = Vec::new();
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let starts = c.is_ascii_digit() && !key.ends_with(|c: char| c.is_alphanumeric());
            if starts {
                let end =
                    rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(rest.len());
                let number = rest[..end].trim_end_matches(['.', ',']);
                let behind = &rest[number.len()..];
                let unit = ["ns", "µs", "ms", "s"].into_iter().find(|unit| {
                    behind.strip_prefix(unit).is_some_and(|it| !it.starts_with(|c: char| c.is_alphanumeric()))
                });
                let factor = match unit {
                    Some("ns") => 1e-9,
                    Some("µs") => 1e-6,
                    Some("ms") => 1e-3,
                    _ => 1.0,
                };
                let text = format!("{number}{}", unit.unwrap_or_default());
                let value: f64 = number.replace(',', "").parse().unwrap_or(0.0);
                rest = &behind[unit.map_or(0, str::len)..];
                figures.push(Figure { text, value: value * factor });
                key.push('#');
            } else {
                if !(c.is_whitespace() && key.ends_with(' ')) {
                    key.push(if c.is_whitespace() { ' ' } else { c });
                }
                rest = &rest[c.len_utf8()..];
            }
        }
        Line { key: key.trim().to_owned(), figures }
    }
}

/// The beginning of a key, as much as a row shows.
fn shorten(key: &str) -> String {
    key.chars().take(44).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn figures_are_paired_by_the_text_around_them() {
        let before = "start-up   3.4 ms  5 ms  until ready\nfirst event: 980µs over it\nsize 46.2 MiB\n";
        let now =
            "start-up   1.7 ms  5 ms  until ready\nfirst event: 1.1ms over it\nnew row 3\nsize 46.2 MiB\n";
        expect![[r"
            start-up # ms # ms until ready                        3.4 -> 1.7          -50.0 %
            first event: # over it                              980µs -> 1.1ms        +12.2 %
            1 lines have no counterpart
        "]]
        .assert_eq(&table(before, now));
    }
}
