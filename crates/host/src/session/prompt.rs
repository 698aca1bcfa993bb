//! The prompt that the model gets: the user's text and its subject.
//!
//! For the planner it follows the planner's grammar.

use std::ops::Range;

use paths::AbsPath;
use tools::planner::grammar;
use workspace::Workspace;

/// Renders the planner's grammar, for users.
pub fn planner_help() -> String {
    grammar::help()
}

/// Maximum size of a quoted selection, in bytes; the model can read the rest.
const MAX_SELECTION: usize = 4 << 10;

/// The document that a prompt is about.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The document, as the client spells it.
    pub uri: String,
    /// File of the document; `None` for a document without one.
    pub path: Option<AbsPath>,
    pub focus: Focus,
}

/// The part of a document that a prompt is about.
#[derive(Debug, Clone)]
pub enum Focus {
    Document,
    Selection {
        /// Line numbers, from 1.
        lines: Range<usize>,
        text: String,
    },
    /// A comment that is hidden while the prompt runs.
    Comment {
        /// Its line, from 0.
        line: usize,
    },
}

/// Renders the prompt with its subject.
pub(super) fn render(
    text: &str,
    subject: Option<&Subject>,
    is_planner: bool,
    workspace: &Workspace,
) -> String {
    let Some(Subject { uri, path, focus }) = subject else { return text.to_owned() };
    let file = path.as_ref().map_or_else(|| uri.clone(), |path| workspace.relative(path));
    let line = match focus {
        Focus::Document => None,
        Focus::Selection { lines, .. } => Some(lines.start),
        // The comment is hidden, so the line after it has its number.
        Focus::Comment { line } => Some(line + 1),
    };
    if is_planner { for_planner(text, &file, line) } else { with_subject(text, &file, focus) }
}

/// Whether the planner reads `text` as an undo.
pub fn is_undo(text: &str) -> bool {
    matches!(grammar::parse(text), Some(grammar::Job::Undo))
}

/// Renders the text with its file in a form that the planner's grammar accepts.
///
/// Leaves it unchanged if there is no such form. `this` becomes the declaration on the line.
fn for_planner(text: &str, file: &str, line: Option<usize>) -> String {
    let quote = if file.contains('`') { '"' } else { '`' };
    let text = text.trim().trim_end_matches(['.', '!', '?']);
    let file = format!("{quote}{file}{quote}");
    let has_this = text.split_whitespace().any(|word| word.eq_ignore_ascii_case("this"));
    let at_line = line.filter(|_| has_this).map(|line| format!("{text} in {file}:{line}"));
    let with_file = [format!("{text} in {file}"), text.to_owned(), format!("{text} {file}")];
    at_line
        .into_iter()
        .chain(with_file)
        .find(|text| grammar::parse(text).is_some())
        .unwrap_or_else(|| text.to_owned())
}

fn with_subject(text: &str, file: &str, focus: &Focus) -> String {
    let mut prompt = text.to_owned();
    match focus {
        Focus::Comment { line } => {
            // The comment is hidden, so the line after it has its number.
            prompt.push_str(&format!(
                "\n\n(This was in a comment of {file}, above line {} of the file as it is without that comment. \
                 It is about the code there.)",
                line + 1
            ));
        }
        Focus::Selection { lines, text: selected } => {
            let (first, last) = (lines.start, lines.end.saturating_sub(1).max(lines.start));
            let lines =
                if first == last { format!("line {first}") } else { format!("lines {first} to {last}") };
            prompt.push_str(&format!("\n\n(This is about {lines} of {file}"));
            if selected.trim().is_empty() {
                prompt.push_str(".)");
            } else {
                let cut: String = selected.chars().take(MAX_SELECTION).collect();
                let fence = "`".repeat(longest_run(&cut).max(2) + 1);
                let rest = if cut.len() < selected.len() { ", the beginning of which is" } else { "" };
                prompt.push_str(&format!("{rest}:)\n{fence}\n{cut}\n{fence}"));
            }
        }
        Focus::Document => prompt.push_str(&format!("\n\n(This is about {file}.)")),
    }
    prompt
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planner_prompts_name_the_file_where_the_grammar_allows() {
        let check =
            |text: &str, expected: &str| assert_eq!(for_planner(text, "src/a b.py", Some(3)), expected);
        check("rename this to b", "rename this to b in `src/a b.py`:3");
        check("rename a to b", "rename a to b in `src/a b.py`");
        check("rename a to b.", "rename a to b in `src/a b.py`");
        check("rename a to b in c.py", "rename a to b in c.py");
        check("organize imports", "organize imports in `src/a b.py`");
        check("format", "format `src/a b.py`");
        check("undo", "undo");
        check("explain the diagnostics", "explain the diagnostics in `src/a b.py`");
        check("make it faster", "make it faster");
    }

    #[test]
    fn prompts_quote_the_selection() {
        let selection = Focus::Selection { lines: 3..5, text: "a ``` b".to_owned() };
        assert_eq!(
            with_subject("Why?", "a.py", &selection),
            "Why?\n\n(This is about lines 3 to 4 of a.py:)\n````\na ``` b\n````"
        );
        assert_eq!(with_subject("Why?", "a.py", &Focus::Document), "Why?\n\n(This is about a.py.)");
    }
}
