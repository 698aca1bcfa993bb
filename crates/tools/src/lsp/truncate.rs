//! Limits of an answer: line lengths and total size that a model can use.
//!
//! Invariants: a truncated line does not count as displayed, so that no edit is based on hidden text.

use agent::ToolResult;
use llm::Content;
use syntax::Declaration;
use workspace::Document;

use crate::files::outline;
use crate::{ToolContext, display};

/// Maximum length of a line that is shown whole, in bytes.
const LINE: usize = 2000;
/// Number of bytes shown of a longer line.
const START: usize = 200;
/// Maximum size of one answer, in bytes.
const ALL: usize = 64 * 1024;

/// Renders lines of a document in the form that `edit` takes.
///
/// A row before them names the one of `declarations` that is around them. Shows only the beginning of very long lines.
pub(super) fn lines(
    context: &ToolContext,
    document: &Document,
    lines: &[usize],
    declarations: &[Declaration],
) -> String {
    let mut recorded = display::record(context, std::iter::once(document));
    let Some(file) = recorded.first_mut() else { return String::new() };
    let mut out = file.header(context);
    let mut inside = None;
    let count = file.lines().count();
    for &line in lines.iter().filter(|line| (1..=count).contains(*line)) {
        let text = file.lines().content(line);
        // A line that begins a declaration shows its name.
        // The body of a Python function begins after the indentation.
        let indentation = text.len() - text.trim_start().len();
        let offset = file.lines().content_range(line).start + indentation;
        let around = outline::enclosing(declarations, offset);
        if around != inside {
            out.push_str(&format!("in {}:\n", around.as_deref().unwrap_or("the file")));
            inside = around;
        }
        if text.len() > LINE {
            out.push_str(&format!("{line}: {}\n", cut(text)));
            continue;
        }
        out.push_str(&(file.row(context, line) + "\n"));
        file.mark_shown(line);
    }
    display::mark_shown(context, &recorded);
    out
}

/// Limits the texts of an answer.
pub(super) fn truncated(mut result: ToolResult) -> ToolResult {
    for content in &mut result.content {
        let Content::Text { text, .. } = content else { continue };
        if text.len() > ALL || text.split('\n').any(|line| line.len() > 2 * LINE) {
            *text = within(text);
        }
    }
    result
}

fn within(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        if out.len() + line.len().min(2 * LINE) > ALL {
            let left = text.len() - out.len().min(text.len());
            out.push_str(&format!(
                "… the rest is omitted, about {} KiB; ask for less at a time\n",
                left / 1024
            ));
            return out;
        }
        match line.len() > 2 * LINE {
            true => out.push_str(&(cut(line.trim_end()) + "\n")),
            false => out.push_str(line),
        }
    }
    out
}

fn cut(line: &str) -> String {
    let end = line.floor_char_boundary(START.min(line.len()));
    format!("{}… (a line of {} bytes, not shown whole)", &line[..end], line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_and_answers_are_truncated_with_a_note() {
        let long = format!("a\n{}\nb\n", "é".repeat(2_000_000));
        let short = within(&long);
        assert!(short.starts_with("a\né") && short.ends_with("\nb\n"), "{short}");
        expect_test::expect!["… (a line of 4000000 bytes, not shown whole)"]
            .assert_eq(short.lines().nth(1).unwrap_or_default().trim_start_matches('é'));
        let many = within(&"a line of some words\n".repeat(100_000));
        assert!(many.len() < ALL + 100);
        expect_test::expect!["… the rest is omitted, about 1986 KiB; ask for less at a time"]
            .assert_eq(many.lines().last().unwrap_or_default());
        assert_eq!(within("as it is\n"), "as it is\n");
    }
}
