//! What a model is told of a request: its words, and the place that it is about. The planner hears it in words that it knows.

use std::ops::Range;

use tools::planner::grammar;

use super::runs::{What, Work};
use crate::models::{self, Chosen};

/// More of a selection is left to the model to read.
const MAX_SELECTION: usize = 4 << 10;

/// The model, and the prompt with what it is about.
/// `had` is the model of a conversation that is gone on with.
pub fn prompted(
    asking: models::Asking<'_>,
    text: &str,
    work: &Work,
    had: Option<&str>,
) -> anyhow::Result<(Chosen, String)> {
    let (chosen, project) = (asking.go_on(had)?, asking.project);
    let place = work.place.as_ref();
    let named = place.map(|place| match &place.path {
        Some(path) => project.workspace.relative(path),
        None => place.uri.clone(),
    });
    let is_planner = chosen.model.info().api == "planner";
    let prompt = match named {
        None => text.to_owned(),
        Some(file) if is_planner => in_the_planners_words(text, &file),
        Some(file) => with_place(text, &file, place.and_then(|place| place.selection.as_ref()), &work.what),
    };
    Ok((chosen, prompt))
}

/// The request with the file that it is about, in the form that the planner understands, if there is
/// one.
fn in_the_planners_words(text: &str, file: &str) -> String {
    let quote = if file.contains('`') { '"' } else { '`' };
    let text = text.trim().trim_end_matches(['.', '!', '?']);
    let with_file =
        [format!("{text} in {quote}{file}{quote}"), text.to_owned(), format!("{text} {quote}{file}{quote}")];
    with_file.into_iter().find(|text| grammar::parse(text).is_some()).unwrap_or_else(|| text.to_owned())
}

fn with_place(text: &str, file: &str, selection: Option<&(Range<usize>, String)>, what: &What) -> String {
    let mut prompt = text.to_owned();
    match (what, selection) {
        (What::Request(request), _) => {
            // The line itself is hidden, so what followed it has its number now.
            prompt.push_str(&format!(
                "\n\n(This stood in a comment of {file}, above line {} of the file as it is without that comment. \
                 It is about the code there.)",
                request.line + 1
            ));
        }
        (_, Some((lines, selected))) => {
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
        (_, None) => prompt.push_str(&format!("\n\n(This is about {file}.)")),
    }
    prompt
}

/// How many backticks stand together at most.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planner_hears_of_the_file_where_that_makes_sense() {
        let check =
            |text: &str, expected: &str| assert_eq!(in_the_planners_words(text, "src/a b.py"), expected);
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
    fn a_model_hears_what_is_selected() {
        let prompt = What::Prompt { text: String::new(), resume: None };
        let selection = (3..5, "a ``` b".to_owned());
        assert_eq!(
            with_place("Why?", "a.py", Some(&selection), &prompt),
            "Why?\n\n(This is about lines 3 to 4 of a.py:)\n````\na ``` b\n````"
        );
        assert_eq!(with_place("Why?", "a.py", None, &prompt), "Why?\n\n(This is about a.py.)");
    }
}
