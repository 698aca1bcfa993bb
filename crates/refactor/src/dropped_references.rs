//! Dropped references: edits of a move that remove the old name without a new one.
//!
//! A server that has lost its project may do so (basedpyright 1.40.2: `from .signals import x` becomes `from
//! . import x`). The check covers only lines that remain, not references that the server leaves unchanged.

use std::ops::Range;

use paths::AbsPath;
use text::TextEdit;
use workspace::{Workspace, WorkspaceEdit};

use crate::edited;

/// Stems of files that represent their directory; an import may omit them.
const HEADS: [&str; 5] = ["index", "__init__", "mod", "lib", "main"];

/// A place that loses the old name and does not get the new one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DroppedReference {
    pub path: AbsPath,
    /// Line number, from 1.
    pub line: usize,
    pub old: String,
    pub new: String,
}

/// Finds the first dropped reference in files that do not move.
pub(crate) fn find(
    workspace: &Workspace,
    edit: &WorkspaceEdit,
    (from, to): (&AbsPath, &AbsPath),
    is_directory: bool,
) -> Option<DroppedReference> {
    let (old, new) = (name(from, is_directory)?, name(to, is_directory)?);
    if HEADS.contains(&new.as_str()) {
        return None;
    }
    let old = match HEADS.contains(&old.as_str()) && !is_directory {
        true => from.parent()?.file_name().to_owned(),
        false => old,
    };
    edited(edit).filter(|(path, _)| !path.starts_with(from)).find_map(|(path, edits)| {
        let text = workspace.document(path).ok()?.text;
        let at = dropped_at(&text, edits, &old, &new)?;
        let line = text[..at].matches('\n').count() + 1;
        Some(DroppedReference { path: path.clone(), line, old: old.clone(), new: new.clone() })
    })
}

/// The name by which other files refer to a file or directory.
fn name(path: &AbsPath, is_directory: bool) -> Option<String> {
    let name = if is_directory { path.as_path().file_name() } else { path.as_path().file_stem() };
    name?.to_str().map(str::to_owned)
}

/// Position where `edits` drop the word `old` from a line that remains.
///
/// The edits insert no `new` in that line.
fn dropped_at(text: &str, edits: &[TextEdit], old: &str, new: &str) -> Option<usize> {
    text::occurrences(text, old).map(|word| word.start).find(|&start| {
        let word = start..start + old.len();
        let touches = |edit: &&TextEdit| edit.range.start < word.end && word.start < edit.range.end;
        let touching: Vec<&TextEdit> = edits.iter().filter(touches).collect();
        let starts = touching.iter().map(|edit| edit.range.start);
        let (Some(first), Some(last)) = (starts.min(), touching.iter().map(|edit| edit.range.end).max())
        else {
            return false;
        };
        let (first, last) = (first.min(word.start), last.max(word.end));
        let line_of = |from: usize, to: usize| {
            let start = text[..from].rfind('\n').map_or(0, |at| at + 1);
            start..text[to..].find('\n').map_or(text.len(), |at| to + at)
        };
        let (whole, line) = (line_of(first, last), line_of(word.start, word.end));
        let without = [&text[whole.start..line.start], &text[line.end..whole.end]].concat();
        let is_gone = after(text, edits, &whole).is_some_and(|after| lines(&after).eq(lines(&without)));
        !is_gone && after(text, edits, &(first..last)).is_some_and(|after| !after.contains(new))
    })
}

/// A part of `text` after the edits inside it.
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
    fn check(text: &str, edits: &[(&str, &str)], is_dropped: bool) {
        let edits: Vec<TextEdit> = edits
            .iter()
            .map(|(old, new)| {
                let at = text.find(old).unwrap();
                TextEdit::replace(at..at + old.len(), *new)
            })
            .collect();
        assert_eq!(dropped_at(text, &edits, "signals", "sigs").is_some(), is_dropped, "{text:?} {edits:?}");
    }

    #[test]
    fn a_removed_name_must_be_replaced_by_the_new_one() {
        check("from .signals import a\n", &[("signals", "")], true);
        check("from .signals import a\n", &[(".signals", ".")], true);
        check("from .signals import a\n", &[("signals", "other")], true);
        check("from .signals import a\n", &[("from .signals", "from .")], true);
        check("import x\nfrom .signals import a", &[("x\nfrom .signals import a", "x")], false);
        check("from .signals import a\n", &[("signals", "sigs")], false);
        check("import './signals.js'\n", &[("'./signals.js'", "'../b/sigs.js'")], false);
        // The edits replace the name in parts.
        check("from .signals import a\n", &[("nal", "")], false);
        check("from .signals import a\n", &[("sig", "s"), ("nals", "igs")], false);
        // An untouched name stays, and an edit may remove a whole line.
        check("from .signals import a\n", &[("import a", "import b")], false);
        check("import signals\nx = 1\n", &[("import signals\n", "")], false);
        check("  import signals;\nx = 1\n", &[("import signals;", "")], false);
        check("x = 1\nfrom .signals import a\n", &[("1\nfrom .signals", "1\nfrom .")], true);
        check("from .mysignals import a\n", &[("mysignals", "")], false);
    }
}
