//! Results of tools for people: places with their source lines, and diffs.
//!
//! A pipe gets `path:line:column: text` lines. A terminal also gets colours, highlights, and diffs. Pure.

use std::ops::Range;
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use host::escaping::{escape_controls, escape_invisible_line};
use host::{ResultPlace, result_places};
use serde_json::Value;

use crate::output;

/// Form of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a user at a terminal, plain lines otherwise
    #[default]
    Auto,
    /// Plain `path:line:column: text` lines
    Plain,
    /// The text that a model gets
    Model,
}

/// A terminal.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    pub color: bool,
}

/// A result to print.
#[derive(Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Lines about the result, for standard error.
    pub notes: String,
    /// The result, for standard output.
    pub lines: String,
}

const PATH: Style = AnsiColor::Magenta.on_default();
const NUMBER: Style = AnsiColor::Green.on_default();
const NAME: Style = AnsiColor::Red.on_default().bold();
const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const HUNK: Style = AnsiColor::Cyan.on_default();

impl Screen {
    /// The terminal of standard output; `None` if it is not one.
    pub fn of_stdout() -> Option<Self> {
        Self::of(&std::io::stdout())
    }

    /// The terminal of standard error; `None` if it is not one.
    pub fn of_stderr() -> Option<Self> {
        Self::of(&std::io::stderr())
    }

    fn of(stream: &(impl AsFd + anstream::stream::RawStream)) -> Option<Self> {
        stream.is_terminal().then(|| Self {
            width: output::columns(stream),
            color: anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never,
        })
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.color && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Renders a result with this text and these details; a `screen` is a terminal.
pub fn render(text: &str, details: &Value, screen: Option<Screen>) -> Rendered {
    // The text of an incomplete list of symbols says what is missing.
    if let Some(rows) = result_places(details).filter(|_| details["partial"] != true) {
        let heading = |(at, line): &(usize, &str)| *at == 0 || line.starts_with("note: ");
        let notes: Vec<&str> = text.lines().enumerate().take_while(heading).map(|(_, line)| line).collect();
        let plain = Screen { width: usize::MAX, color: false };
        let lines = rows.iter().map(|place| row(place, screen.unwrap_or(plain))).collect();
        return Rendered { notes: notes.join("\n"), lines };
    }
    let mut lines = escape_controls(text).trim_end().to_owned();
    if let (Some(diff), Some(screen)) = (details["diff"].as_str(), screen)
        && !diff.is_empty()
    {
        lines.push_str("\n\n");
        let (diff, added, removed) = colored_diff(diff, screen);
        lines.push_str(&format!("{diff}{} added, {} removed", counted(added), counted(removed)));
    }
    Rendered { notes: String::new(), lines }
}

/// Renders a place as one line.
fn row(place: &ResultPlace, screen: Screen) -> String {
    let column = place.column.map(|column| format!(":{column}")).unwrap_or_default();
    let prefix = format!("{}:{}{column}: ", place.path, place.line).chars().count();
    let indent = place.text.chars().take_while(|character| character.is_whitespace()).count();
    let room = screen.width.saturating_sub(prefix).max(20);
    let count = place.text.chars().count();
    // A line that does not fit begins where its name is visible.
    let start = if count - indent <= room || place.name.end - indent.min(place.name.end) <= room {
        indent
    } else {
        (place.name.end - room).min(place.name.start)
    };
    let shown = |range: Range<usize>| -> String {
        let range = range.start.max(start)..range.end.min(start.saturating_add(room));
        let part: String = place.text.chars().skip(range.start).take(range.len()).collect();
        escape_invisible_line(&part).into_owned()
    };
    format!(
        "{}:{}{}: {}{}{}\n",
        screen.paint(PATH, &escape_invisible_line(&place.path)),
        screen.paint(NUMBER, &place.line.to_string()),
        screen.paint(NUMBER, &column),
        shown(0..place.name.start),
        screen.paint(NAME, &shown(place.name.clone())),
        shown(place.name.end..usize::MAX).trim_end(),
    )
}

/// A unified diff with changed words highlighted.
///
/// Also the numbers of added and of removed lines.
pub fn colored_diff(diff: &str, screen: Screen) -> (String, usize, usize) {
    let diff = escape_controls(diff);
    let lines: Vec<&str> = diff.lines().collect();
    let (mut out, mut at) = (String::new(), 0);
    let (mut added, mut removed) = (0, 0);
    let mut push = |style: Style, text: &str| {
        out.push_str(&screen.paint(style, text));
        out.push('\n');
    };
    while at < lines.len() {
        let line = lines[at];
        let run = |from: usize, sign: char| {
            lines[from..].iter().take_while(|line| line.starts_with(sign) && !is_header(line)).count()
        };
        let (minus, plus) = (run(at, '-'), run(at + run(at, '-'), '+'));
        if minus + plus == 0 {
            let style = if is_header(&line) || line.starts_with("@@") { HUNK } else { Style::new() };
            push(style, line);
            at += 1;
            continue;
        }
        removed += minus;
        added += plus;
        let (old, new) = (&lines[at..at + minus], &lines[at + minus..at + minus + plus]);
        // Lines of a replacement correspond by position.
        for (side, other, style) in [(old, new, REMOVED), (new, old, ADDED)] {
            for (number, line) in side.iter().enumerate() {
                let changed = match other.get(number) {
                    Some(other) if screen.color && minus == plus => changed_part(line, other),
                    _ => 0..0,
                };
                push(style, &emphasized(line, changed, style));
            }
        }
        at += minus + plus;
    }
    (out, added, removed)
}

fn counted(lines: usize) -> String {
    format!("{lines} {}", if lines == 1 { "line" } else { "lines" })
}

fn is_header(line: &&str) -> bool {
    line.starts_with("--- ") || line.starts_with("+++ ")
}

/// The bytes of `line` between the words that it shares with `other` at both ends.
fn changed_part(line: &str, other: &str) -> Range<usize> {
    let (line, other) = (&line[1..], &other[1..]);
    let shared = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(one, two)| one == two).map(|(one, _)| one.len_utf8()).sum()
    };
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let before = shared(&mut line.chars().zip(other.chars()));
    let start = line[..before].trim_end_matches(is_word).len();
    let (rest, other) = (&line[start..], &other[start..]);
    let after = shared(&mut rest.chars().rev().zip(other.chars().rev()));
    let tail = &rest[rest.len() - after..];
    let end = line.len() - tail.trim_start_matches(is_word).len();
    start + 1..end.max(start) + 1
}

fn emphasized(line: &str, part: Range<usize>, style: Style) -> String {
    let strong = style.invert();
    match line.get(part.clone()) {
        Some(changed) if !changed.is_empty() => {
            format!("{}{strong}{changed}{strong:#}{style}{}", &line[..part.start], &line[part.end..])
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    /// Readable escape sequences.
    fn shown(text: &str) -> String {
        text.replace('\x1b', "^")
    }

    fn references() -> Value {
        let place = |path: &str, line: u64, column: u64, start: u64, text: &str| json!({ "path": path, "line": line, "column": column, "range": [start, start + 10], "text": text });
        json!({ "locations": [
            place("src/app.py", 12, 11, 200, "    print(fetch_rows(3))"),
            place("a b/éé.py", 3, 8, 9, "rows = fetch_rows(1)  # the first of all of the rows of the table that is asked for"),
            place("min.js", 1, 101, 100, &format!("{};fetch_rows();{}", "x".repeat(99), "y".repeat(99))),
        ] })
    }

    const TEXT: &str = "references of `fetch_rows`: 3 places (basedpyright)\nnote: one server\n[app.py#1]\n";

    #[test]
    fn a_pipe_gets_whole_lines() {
        let rendered = render(TEXT, &references(), None);
        expect![[r#"
            references of `fetch_rows`: 3 places (basedpyright)
            note: one server"#]]
        .assert_eq(&rendered.notes);
        expect![[r#"
            src/app.py:12:11: print(fetch_rows(3))
            a b/éé.py:3:8: rows = fetch_rows(1)  # the first of all of the rows of the table that is asked for
            min.js:1:101: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;fetch_rows();yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
        "#]].assert_eq(&rendered.lines);
    }

    #[test]
    fn a_terminal_gets_lines_of_its_width() {
        let mut out = String::new();
        for width in [60, 80, 120] {
            let rendered = render(TEXT, &references(), Some(Screen { width, color: false }));
            assert!(rendered.lines.lines().all(|line| line.chars().count() <= width));
            out.push_str(&format!("{width}\n{}", rendered.lines));
        }
        let rendered = render(TEXT, &references(), Some(Screen { width: 80, color: true }));
        out.push_str(&shown(&rendered.lines));
        expect![[r#"
            60
            src/app.py:12:11: print(fetch_rows(3))
            a b/éé.py:3:8: rows = fetch_rows(1)  # the first of all of t
            min.js:1:101: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;fetch_rows
            80
            src/app.py:12:11: print(fetch_rows(3))
            a b/éé.py:3:8: rows = fetch_rows(1)  # the first of all of the rows of the table
            min.js:1:101: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;fetch_rows
            120
            src/app.py:12:11: print(fetch_rows(3))
            a b/éé.py:3:8: rows = fetch_rows(1)  # the first of all of the rows of the table that is asked for
            min.js:1:101: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;fetch_rows
            ^[35msrc/app.py^[0m:^[32m12^[0m^[32m:11^[0m: print(^[1m^[31mfetch_rows^[0m(3))
            ^[35ma b/éé.py^[0m:^[32m3^[0m^[32m:8^[0m: rows = ^[1m^[31mfetch_rows^[0m(1)  # the first of all of the rows of the table
            ^[35mmin.js^[0m:^[32m1^[0m^[32m:101^[0m: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx;^[1m^[31mfetch_rows^[0m
        "#]].assert_eq(&out);
    }

    #[test]
    fn a_terminal_gets_the_diff_with_changed_words() {
        let diff = "--- a.py\n+++ a.py\n@@ -1,3 +1,4 @@\n-def fetch_rows(count):\n+def load_rows(count):\n     return 1\n+# ok\x1b[31m\n";
        let details = json!({ "diff": diff, "files": [] });
        let mut out = String::new();
        for color in [false, true] {
            let rendered = render("rename: 1 file\n", &details, Some(Screen { width: 80, color }));
            out.push_str(&shown(&rendered.lines));
            out.push('\n');
        }
        expect![[r#"
            rename: 1 file

            --- a.py
            +++ a.py
            @@ -1,3 +1,4 @@
            -def fetch_rows(count):
            +def load_rows(count):
                 return 1
            +# ok␛[31m
            2 lines added, 1 line removed
            rename: 1 file

            ^[36m--- a.py^[0m
            ^[36m+++ a.py^[0m
            ^[36m@@ -1,3 +1,4 @@^[0m
            ^[31m-def ^[7m^[31mfetch_rows^[0m^[31m(count):^[0m
            ^[32m+def ^[7m^[32mload_rows^[0m^[32m(count):^[0m
                 return 1
            ^[32m+# ok␛[31m^[0m
            2 lines added, 1 line removed
        "#]]
        .assert_eq(&out);
        assert_eq!(render("rename: 1 file\n", &details, None).lines, "rename: 1 file");
    }

    #[test]
    fn incomplete_results_and_diagnostics_are_shown_whole() {
        let text = "0 errors in 1 file (ruff)\npending, so not known yet:\n  a.py: basedpyright\n";
        assert_eq!(render(text, &json!({ "diagnostics": [] }), None).lines, text.trim_end());
        let text =
            "symbols like `a`: none found (ruff)\nnot searched: 1 file, because ty does not run (a.py)\n";
        assert_eq!(render(text, &json!({ "symbols": [], "partial": true }), None).lines, text.trim_end());
    }

    #[test]
    fn symbols_and_calls_are_places() {
        let details = [
            json!({ "symbols": [{ "path": "A.b", "kind": "method", "line": 3, "file": "a.py" }] }),
            json!({ "types": [{ "name": "A", "kind": "class", "line": 3, "path": "a.py" }] }),
            json!({ "functions": [{ "name": "f", "calls": [{ "path": "a.py", "line": 9, "column": 5, "range": [1, 2], "text": "    f()" }] }] }),
        ];
        let lines: String = details.iter().map(|it| render("x", it, None).lines).collect();
        expect![[r#"
            a.py:3: method A.b
            a.py:3: class A
            a.py:9:5: f()
        "#]]
        .assert_eq(&lines);
    }
}
