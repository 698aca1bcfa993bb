//! Whether what a server wants changed for a move names the place that the file moves to.
//!
//! A server that has lost sight of its project may take the old name out of what refers to the file and put
//! nothing there (basedpyright 1.40.2: `from .signals import x` becomes `from . import x`). Judges only where
//! the old name is taken out of a line that stays; says nothing of what a server leaves as it is.

use std::ops::Range;

use text::TextEdit;
use workspace::{AbsPath, Workspace, WorkspaceEdit};

use super::rename::edited;

/// These stand for their folder, which may be all that is named.
const HEADS: [&str; 5] = ["index", "__init__", "mod", "lib", "main"];

/// A place from which the old name is taken and that does not get the new one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub path: AbsPath,
    /// From 1.
    pub line: usize,
    pub old: String,
    pub new: String,
}

/// The first of them in other files than those that move.
pub(super) fn lost(
    workspace: &Workspace,
    edit: &WorkspaceEdit,
    (from, to): (&AbsPath, &AbsPath),
    folder: bool,
) -> Option<Lost> {
    let (old, new) = (name(from, folder)?, name(to, folder)?);
    if HEADS.contains(&new.as_str()) {
        return None;
    }
    let old = match HEADS.contains(&old.as_str()) && !folder {
        true => from.parent()?.file_name().to_owned(),
        false => old,
    };
    edited(edit).filter(|(path, _)| !path.starts_with(from)).find_map(|(path, edits)| {
        // One that cannot be read any more is refused when the edit is planned.
        let text = workspace.document(path).ok()?.text;
        let at = taken(&text, edits, &old, &new)?;
        let line = text[..at].matches('\n').count() + 1;
        Some(Lost { path: path.clone(), line, old: old.clone(), new: new.clone() })
    })
}

/// What the files that refer to a file or folder call it.
fn name(path: &AbsPath, folder: bool) -> Option<String> {
    let name = if folder { path.as_path().file_name() } else { path.as_path().file_stem() };
    name?.to_str().map(str::to_owned)
}

/// Where `edits` take the word `old` from a line that stays, and bring no `new`.
fn taken(text: &str, edits: &[TextEdit], old: &str, new: &str) -> Option<usize> {
    text::occurrences(text, old).map(|word| word.start).find(|&start| {
        let word = start..start + old.len();
        let touches = |it: &&TextEdit| it.range.start < word.end && word.start < it.range.end;
        let touching: Vec<&TextEdit> = edits.iter().filter(touches).collect();
        let starts = touching.iter().map(|it| it.range.start);
        let (Some(first), Some(last)) = (starts.min(), touching.iter().map(|it| it.range.end).max()) else {
            return false;
        };
        let (first, last) = (first.min(word.start), last.max(word.end));
        let line_of = |from: usize, to: usize| {
            let start = text[..from].rfind('\n').map_or(0, |at| at + 1);
            start..text[to..].find('\n').map_or(text.len(), |at| to + at)
        };
        let (whole, line) = (line_of(first, last), line_of(word.start, word.end));
        let without = [&text[whole.start..line.start], &text[line.end..whole.end]].concat();
        let is_gone = after(text, edits, &whole).is_some_and(|it| lines(&it).eq(lines(&without)));
        !is_gone && after(text, edits, &(first..last)).is_some_and(|it| !it.contains(new))
    })
}

/// A part of `text` as the edits in it leave it.
fn after(text: &str, edits: &[TextEdit], part: &Range<usize>) -> Option<String> {
    let inside = edits.iter().filter(|it| part.start <= it.range.start && it.range.end <= part.end);
    let moved: Vec<TextEdit> = inside
        .map(|it| TextEdit::replace(it.range.start - part.start..it.range.end - part.start, &*it.new_text))
        .collect();
    text::apply(&text[part.clone()], &moved).ok()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, edits: &[(&str, &str)], is_taken: bool) {
        let edits: Vec<TextEdit> = edits
            .iter()
            .map(|(old, new)| {
                let at = text.find(old).unwrap();
                TextEdit::replace(at..at + old.len(), *new)
            })
            .collect();
        assert_eq!(taken(text, &edits, "signals", "sigs").is_some(), is_taken, "{text:?} {edits:?}");
    }

    #[test]
    fn a_name_that_is_taken_must_be_replaced_by_the_new_one() {
        check("from .signals import a\n", &[("signals", "")], true);
        check("from .signals import a\n", &[(".signals", ".")], true);
        check("from .signals import a\n", &[("signals", "other")], true);
        check("from .signals import a\n", &[("from .signals", "from .")], true);
        check("import x\nfrom .signals import a", &[("x\nfrom .signals import a", "x")], false);
        check("from .signals import a\n", &[("signals", "sigs")], false);
        check("import './signals.js'\n", &[("'./signals.js'", "'../b/sigs.js'")], false);
        // In parts.
        check("from .signals import a\n", &[("nal", "")], false);
        check("from .signals import a\n", &[("sig", "s"), ("nals", "igs")], false);
        // What is not touched stays, and what goes as a whole is not half of anything.
        check("from .signals import a\n", &[("import a", "import b")], false);
        check("import signals\nx = 1\n", &[("import signals\n", "")], false);
        check("  import signals;\nx = 1\n", &[("import signals;", "")], false);
        check("x = 1\nfrom .signals import a\n", &[("1\nfrom .signals", "1\nfrom .")], true);
        check("from .mysignals import a\n", &[("mysignals", "")], false);
    }
}
