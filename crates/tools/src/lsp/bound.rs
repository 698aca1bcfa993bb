//! How much of an answer is told: lines of a reasonable length, and not more of them than a model can use.
//!
//! What must stay true: a line that is cut does not count as shown, so that no edit stands on a text that
//! nobody saw.

use agent::ToolResult;
use llm::Content;
use workspace::Document;

use crate::{Kit, shown};

/// Bytes of a line that is told whole.
const LINE: usize = 2000;
/// Bytes told of a longer one.
const START: usize = 200;
/// Bytes of one answer's text.
const ALL: usize = 64 * 1024;

/// Lines of a document in the form that `edit` takes; the beginning of those that are too long for it.
pub(super) fn lines(kit: &Kit, document: &Document, lines: &[usize]) -> String {
    let all = hashline::Lines::new(document.text.clone());
    let is_long = |line: &&usize| (1..=all.count()).contains(*line) && all.content(**line).len() > LINE;
    let (long, short): (Vec<&usize>, Vec<&usize>) = lines.iter().partition(is_long);
    let short: Vec<usize> = short.into_iter().copied().collect();
    let mut out = match short.is_empty() {
        true => format!("{}:\n", kit.shown(&document.path)),
        false => shown::lines(kit, document, &short),
    };
    for line in long {
        out.push_str(&format!("{line}: {}\n", cut(all.content(*line))));
    }
    out
}

/// The answer with no text beyond the bounds.
pub(super) fn bounded(mut result: ToolResult) -> ToolResult {
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
                "… the rest is left out, about {} KiB; ask for less at a time\n",
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
    fn long_lines_and_long_answers_are_cut_and_say_so() {
        let long = format!("a\n{}\nb\n", "é".repeat(2_000_000));
        let told = within(&long);
        assert!(told.starts_with("a\né") && told.ends_with("\nb\n"), "{told}");
        assert!(told.len() < 400 && told.contains("a line of 4000000 bytes, not shown whole"), "{told}");
        let many = within(&"a line of some words\n".repeat(100_000));
        assert!(many.len() < ALL + 100 && many.ends_with("ask for less at a time\n"));
        assert_eq!(within("as it is\n"), "as it is\n");
    }
}
