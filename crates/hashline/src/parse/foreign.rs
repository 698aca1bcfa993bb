//! Edits in other formats: patches of other agents, unified diffs, search and replace.
//!
//! They name lines by their text. Such an edit becomes a canonical patch if its old lines occur once in the text
//! that the model was shown, but for line numbers copied from a read and trailing blanks; the engine then plans it
//! like any other. Nothing else is matched approximately.

use std::sync::Arc;

use crate::format::view::ROW_SEPARATOR;
use crate::{Anchor, Lines, Snapshot, View};

/// A replacement of lines, or of a part of the text, by its old content.
#[derive(Default)]
struct Replacement {
    path: String,
    old: Vec<String>,
    new: Vec<String>,
    /// The operation on the whole file instead: `REM`, or `MV` with the new path.
    file_op: Option<String>,
}

/// The row that ends the commands of a shell's here-document.
const HEREDOC_END: &str = "EOF";

/// Translates an edit in another format to a canonical patch.
///
/// `shown` gives the newest text of a path that the model was shown. `None` if the text has no such format.
///
/// # Errors
/// The reason why the edit cannot be translated, with the form in which it can be sent.
pub fn translate(
    text: &str,
    mut shown: impl FnMut(&str) -> Option<Arc<Snapshot>>,
) -> Option<Result<String, String>> {
    let replacements = match parse(text)? {
        Ok(replacements) => replacements,
        Err(message) => return Some(Err(message)),
    };
    let mut out = String::new();
    for replacement in &replacements {
        match resolve(replacement, shown(&replacement.path).as_deref()) {
            Ok(section) => append(&mut out, &section),
            Err(message) => return Some(Err(message)),
        }
    }
    (!replacements.is_empty()).then_some(Ok(out))
}

/// Translates replacements of parts of a file, each of which occurs once in it.
///
/// # Errors
/// As [`translate`].
pub fn translate_replacements(
    path: &str,
    replacements: &[(String, String)],
    shown: Option<&Snapshot>,
) -> Result<String, String> {
    let mut out = String::new();
    for (old, new) in replacements {
        append(&mut out, &translate_replacement(path, old, new, shown)?);
    }
    Ok(out)
}

/// Translates the replacement of a part of a file, which occurs once in it.
fn translate_replacement(
    path: &str,
    old: &str,
    new: &str,
    shown: Option<&Snapshot>,
) -> Result<String, String> {
    let Some(shown) = shown else {
        return Err(format!("{path} was not shown; read it first"));
    };
    let text = shown.text().replace("\r\n", "\n");
    let (old, new) = (old.replace("\r\n", "\n"), new.replace("\r\n", "\n"));
    // Places may overlap.
    let step = old.chars().next().map_or(0, char::len_utf8);
    let next = |from: usize| text.get(from..)?.find(&old).filter(|_| step > 0).map(|at| from + at);
    let found: Vec<usize> = std::iter::successors(next(0), |at| next(at + step)).collect();
    let Some(&at) = found.first() else {
        if old.is_empty() {
            return Err(format!("the old text is empty; replace all of {path} with `write`"));
        }
        let lines = Replacement { path: path.to_owned(), old: rows(&old), new: rows(&new), file_op: None };
        return resolve(&lines, Some(shown)).map_err(|message| match old.contains("\\n") {
            true => format!("{message}Write real line breaks in the old text, not `\\n`\n"),
            false => message,
        });
    };
    // The whole lines around the part.
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = at + old.len();
    let mut after = format!("{}{new}", &text[start..at]);
    // A replacement without the old line break joins the next line.
    let is_whole = text[..end].ends_with('\n') && (after.is_empty() || after.ends_with('\n'));
    let rest = text[end..].find('\n').map_or(text.len() - end, |it| it + 1);
    let end = if is_whole { end } else { end + rest };
    after.push_str(&text[at + old.len()..end]);
    let replacement =
        Replacement { path: path.to_owned(), old: rows(&text[start..end]), new: rows(&after), file_op: None };
    let first = text[..start].matches('\n').count() + 1;
    let section = section(&replacement, shown, first);
    match found.len() {
        1 => Ok(section),
        count => {
            Err(format!("the old text occurs {count} times in {path}; to change the first, send\n{section}"))
        }
    }
}

/// Adds a section; operations of one file go into one section.
fn append(out: &mut String, section: &str) {
    let Some((header, operations)) = section.split_once('\n') else { return };
    // The header of the last section.
    let last = out.lines().rfind(|row| row.starts_with('[')).map(str::to_owned);
    if last.as_deref() != Some(header) {
        out.push_str(header);
        out.push('\n');
    }
    out.push_str(operations);
}

fn rows(text: &str) -> Vec<String> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() {
        Vec::new()
    } else {
        text.split('\n').map(|row| row.trim_end_matches('\r').to_owned()).collect()
    }
}

/// The rows without the line numbers of a read.
///
/// `None` if an old row has text but no number.
fn without_numbers(Replacement { path, old, new, .. }: &Replacement) -> Option<Replacement> {
    let text = |row: &str| {
        // A read shows an empty line as an empty row.
        if row.is_empty() {
            return Some(String::new());
        }
        let rest = row.trim_start().trim_start_matches(|it: char| it.is_ascii_digit());
        if rest.len() == row.trim_start().len() {
            return None;
        }
        let rest = rest.strip_prefix('#').unwrap_or(rest);
        let (check, text) = rest.split_once([ROW_SEPARATOR, ':'])?;
        (check.len() <= 2 && check.chars().all(|it| it.is_ascii_alphabetic())).then(|| text.to_owned())
    };
    let old = old.iter().map(|row| text(row)).collect::<Option<_>>()?;
    let new = new.iter().map(|row| text(row).unwrap_or_else(|| row.clone())).collect();
    Some(Replacement { path: path.clone(), old, new, file_op: None })
}

/// The first lines of the places that `old` matches.
fn places(old: &[String], lines: &Lines, alike: fn(&str, &str) -> bool) -> Vec<usize> {
    let matches =
        |first: &usize| old.iter().enumerate().all(|(at, row)| alike(lines.content(first + at), row));
    let count = (lines.count() + 1).saturating_sub(old.len());
    if old.is_empty() { Vec::new() } else { (1..=count).filter(matches).collect() }
}

/// Finds rows that differ from the text in line numbers or trailing blanks only.
fn repaired(replacement: &Replacement, lines: &Lines) -> Option<(Replacement, usize)> {
    let stripped = without_numbers(replacement);
    let Replacement { path, old, new, .. } = stripped.as_ref().unwrap_or(replacement);
    let found = places(old, lines, |a, b| a.trim_end() == b.trim_end());
    let [first] = found[..] else { return None };
    let shown: Vec<String> = (first..first + old.len()).map(|line| lines.content(line).to_owned()).collect();
    // Rows that stay keep their blanks.
    let new = new.iter().map(|row| {
        let stays = old.iter().position(|it| it == row);
        stays.map_or_else(|| row.clone(), |at| shown[at].clone())
    });
    let (new, path) = (new.collect(), path.clone());
    Some((Replacement { path, old: shown, new, file_op: None }, first))
}

/// Finds the only place of a replacement and renders it as a section.
fn resolve(replacement: &Replacement, shown: Option<&Snapshot>) -> Result<String, String> {
    let Replacement { path, old, new, file_op } = replacement;
    let Some(shown) = shown else {
        let body: String = new.iter().map(|row| format!("+{row}\n")).collect();
        return Err(format!("{path} was not shown; read it, then send\n[{path}#TAG]\nPUT A..=B:\n{body}"));
    };
    if let Some(operation) = file_op {
        return Ok(format!("{}\n{operation}\n", View::default().header(path, shown.tag())));
    }
    let lines = shown.lines();
    let found = places(old, lines, |a, b| a == b);
    match found[..] {
        [first] => Ok(section(replacement, shown, first)),
        [] => {
            if let Some((repaired, first)) = repaired(replacement, lines) {
                return Ok(section(&repaired, shown, first));
            }
            if let [first] = places(new, lines, |a, b| a == b)[..] {
                return Err(format!(
                    "{path} already has the new lines, from line {first}; nothing is left to do\n"
                ));
            }
            let body: String = new.iter().map(|row| format!("+{row}\n")).collect();
            let header = View::default().header(path, shown.tag());
            Err(format!(
                "{path} as you last read it has no such lines; name them by number:\n{header}\nPUT A..=B:\n{body}"
            ))
        }
        [first, ..] => {
            let places: Vec<String> = found.iter().take(10).map(ToString::to_string).collect();
            Err(format!(
                "the old lines occur {} times in {path}, at lines {}; to change the first, send\n{}",
                found.len(),
                places.join(", "),
                section(replacement, shown, first)
            ))
        }
    }
}

/// Renders a replacement of the lines from `first` on, without rows that stay.
fn section(Replacement { path, old, new, .. }: &Replacement, shown: &Snapshot, first: usize) -> String {
    let alike = |(a, b): &(&String, &String)| a == b;
    let head = old.iter().zip(new).take_while(alike).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(alike).count();
    let (body, last) = (&new[head..new.len() - tail], first + old.len() - 1 - tail);
    let first = first + head;
    let anchor = |line: usize| Anchor { line, check: Some(shown.lines().check(line)) };
    let operation = match (first <= last, body.is_empty()) {
        (true, true) => format!("CUT {}..={}", anchor(first), anchor(last)),
        (true, false) => format!("PUT {}..={}:", anchor(first), anchor(last)),
        // Only lines that stay are around an insertion.
        (false, _) if head > 0 => format!("PUT >{}:", anchor(first - 1)),
        (false, _) => format!("PUT <{}:", anchor(first)),
    };
    let rows: String = body.iter().map(|row| format!("+{row}\n")).collect();
    format!("{}\n{operation}\n{rows}", View::default().header(path, shown.tag()))
}

/// Parses the formats; `None` for another text.
///
/// `Err` if no edit can do what it asks for.
fn parse(text: &str) -> Option<Result<Vec<Replacement>, String>> {
    let mut lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
    // A command line with a here-document.
    if lines.first().is_some_and(|line| line.starts_with("apply_patch") && line.contains("<<"))
        && lines.last() == Some(&HEREDOC_END)
    {
        lines = lines[1..lines.len() - 1].to_vec();
    }
    let is_frame =
        |line: &&&str| line.trim().is_empty() || line.starts_with("```") || **line == "*** Begin Patch";
    let first = lines.iter().find(|line| !is_frame(line))?;
    if first.starts_with(['[', '{', '¶']) {
        return None;
    }
    if lines.contains(&"<<<<<<< SEARCH") {
        return search_blocks(&lines).map(Ok);
    }
    let is_diff = lines.windows(2).any(|pair| pair[0].starts_with("--- ") && pair[1].starts_with("+++ "));
    let is_patch = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
    (is_diff || is_patch.iter().any(|start| first.starts_with(start))).then(|| hunks(&lines)).flatten()
}

/// Parses a unified diff, or the patch format that begins with `*** Begin Patch`.
fn hunks(lines: &[&str]) -> Option<Result<Vec<Replacement>, String>> {
    let mut found: Vec<Replacement> = Vec::new();
    let (mut path, mut before) = (None, "");
    let mut is_open = false;
    let created = |path: &str| Some(Err(format!("`edit` does not create files; create {path} with `write`")));
    for (at, line) in lines.iter().enumerate() {
        let is_header = |line: &str| {
            lines.get(at + 1).is_some_and(|next| next.starts_with("+++ ")) && line.starts_with("--- ")
        };
        if let Some(name) = line.strip_prefix("*** Update File: ") {
            (path, is_open) = (Some(plain(name).to_owned()), false);
        } else if let Some(name) = line.strip_prefix("*** Add File: ") {
            return created(plain(name));
        } else if let Some(name) = line.strip_prefix("*** Delete File: ") {
            found.push(of_file(plain(name), "REM".to_owned()));
            (path, is_open) = (None, false);
        } else if let Some(name) = line.strip_prefix("*** Move to: ") {
            found.push(of_file(path.as_ref()?, format!("MV {}", plain(name))));
        } else if is_header(line) {
            (before, is_open) = (line.strip_prefix("--- ").unwrap_or_default(), false);
        } else if let Some(name) = line.strip_prefix("+++ ").filter(|_| !is_open) {
            match (diff_path(before), diff_path(name)) {
                (NO_FILE, name) => return created(name),
                (name, NO_FILE) => {
                    found.push(of_file(name, "REM".to_owned()));
                    path = None;
                }
                (_, name) => path = Some(name.to_owned()),
            }
        } else if path.is_none() && found.last().is_some_and(|last| last.file_op.is_some()) {
            // The lines of a deleted file.
        } else if line.starts_with("@@") {
            found.push(Replacement { path: path.clone()?, ..Replacement::default() });
            is_open = true;
        } else if line.starts_with("*** ") || line.starts_with("```") || line.starts_with("\\ ") {
            is_open &= !line.starts_with("*** End Patch");
        } else if let Some(path) = &path
            && (is_open || line.starts_with([' ', '-', '+']))
        {
            if !is_open {
                found.push(Replacement { path: path.clone(), ..Replacement::default() });
                is_open = true;
            }
            let hunk = found.last_mut()?;
            let row = line.get(1..).unwrap_or_default().to_owned();
            match line.chars().next() {
                Some('-') => hunk.old.push(row),
                Some('+') => hunk.new.push(row),
                Some(' ') | None => {
                    hunk.old.push(row.clone());
                    hunk.new.push(row);
                }
                Some(_) if ["diff ", "index ", "Index: ", "====="].iter().any(|it| line.starts_with(it)) => {
                    is_open = false;
                }
                // A row without its sign would be lost.
                Some(_) => return None,
            }
        }
    }
    Some(Ok(found))
}

/// The name of no file in a unified diff.
const NO_FILE: &str = "/dev/null";

/// A path without blanks and quotes.
fn plain(name: &str) -> &str {
    name.trim().trim_matches(['"', '\'', '`'])
}

/// The path in a header of a unified diff.
fn diff_path(name: &str) -> &str {
    let name = plain(name.split('\t').next().unwrap_or_default());
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name)
}

fn of_file(path: &str, operation: String) -> Replacement {
    Replacement { path: path.to_owned(), file_op: Some(operation), ..Replacement::default() }
}

/// Parses blocks of search and replace, each below the path or the block before it.
fn search_blocks(lines: &[&str]) -> Option<Vec<Replacement>> {
    let mut found = Vec::new();
    let (mut path, mut before) = (None, "");
    let mut rest = lines;
    while let [line, after @ ..] = rest {
        rest = after;
        if *line != "<<<<<<< SEARCH" {
            if !line.trim().is_empty() && !line.starts_with("```") {
                before = line.trim();
            }
            continue;
        }
        if !before.is_empty() {
            path = Some(before.trim_matches(['`', '*', ':', '"', '\'', '#', ' ']).to_owned());
            before = "";
        }
        let middle = rest.iter().position(|line| *line == "=======")?;
        let end = rest.iter().position(|line| *line == ">>>>>>> REPLACE").filter(|end| *end > middle)?;
        let owned = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect();
        found.push(Replacement {
            path: path.clone()?,
            old: owned(&rest[..middle]),
            new: owned(&rest[middle + 1..end]),
            file_op: None,
        });
        rest = &rest[end + 1..];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::SnapshotStore;

    const TEXT: &str = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    y = 1\n    return y\n\n\n";

    #[track_caller]
    fn check(patch: &str, expected: Expect) {
        let mut store = SnapshotStore::default();
        store.record("a.py", TEXT);
        let said = match translate(patch, |path| store.newest(path)) {
            None => "no other format\n".to_owned(),
            Some(Ok(patch)) => patch,
            Some(Err(message)) => format!("refused: {message}"),
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn edits_by_content_become_patches() {
        check(
            "*** Begin Patch\n*** Update File: a.py\n@@ def a():\n-    x = 1\n+    x = 2\n     return x\n*** End Patch\n",
            expect![[r#"
                [a.py#1675]
                PUT 2vj..=2vj:
                +    x = 2
            "#]],
        );
        check(
            "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -2,2 +2,3 @@\n     x = 1\n+    x += 1\n     return x\n@@ -7,2 +8,1 @@\n-    y = 1\n     return y\n",
            expect![[r#"
                [a.py#1675]
                PUT >2vj:
                +    x += 1
                CUT 7yh..=7yh
            "#]],
        );
        check(
            "a.py\n```\n<<<<<<< SEARCH\n    y = 1\n=======\n    y = 2\n    z = 3\n>>>>>>> REPLACE\n```\n",
            expect![[r#"
                [a.py#1675]
                PUT 7yh..=7yh:
                +    y = 2
                +    z = 3
            "#]],
        );
    }

    #[test]
    fn ambiguous_and_unknown_content_is_refused() {
        check(
            "--- a.py\n+++ a.py\n@@ -4 +4 @@\n-\n+# c\n",
            expect![[r#"
            refused: the old lines occur 4 times in a.py, at lines 4, 5, 9, 10; to change the first, send
            [a.py#1675]
            PUT 4wf..=4wf:
            +# c
        "#]],
        );
        check(
            "a.py\n<<<<<<< SEARCH\nz = 1\n=======\nz = 2\n>>>>>>> REPLACE\n",
            expect![[r#"
            refused: a.py as you last read it has no such lines; name them by number:
            [a.py#1675]
            PUT A..=B:
            +z = 2
        "#]],
        );
        check(
            "b.py\n<<<<<<< SEARCH\nz = 1\n=======\nz = 2\n>>>>>>> REPLACE\n",
            expect![[r#"
            refused: b.py was not shown; read it, then send
            [b.py#TAG]
            PUT A..=B:
            +z = 2
        "#]],
        );
        check(
            "*** Begin Patch\n[a.py#3F2A]\nCUT 2\n*** End Patch\n",
            expect![[r#"
            no other format
        "#]],
        );
    }

    #[test]
    fn a_part_of_a_line_is_replaced() {
        let mut store = SnapshotStore::default();
        store.record("a.py", TEXT);
        let shown = store.newest("a.py");
        let said = |old: &str, new: &str| {
            translate_replacement("a.py", old, new, shown.as_deref())
                .unwrap_or_else(|message| format!("refused: {message}"))
        };
        expect![[r#"
            [a.py#1675]
            PUT 2vj..=2vj:
            +    x = 2
        "#]]
        .assert_eq(&said("x = 1\n    return", "x = 2\n    return"));
        expect![[r#"
            refused: the old text occurs 2 times in a.py; to change the first, send
            [a.py#1675]
            PUT 2vj..=2vj:
            +    x = 2
        "#]]
        .assert_eq(&said(" = 1", " = 2"));
        expect![[r#"
            refused: the old text occurs 4 times in a.py; to change the first, send
            [a.py#1675]
            CUT 4wf..=4wf
        "#]]
        .assert_eq(&said("\n\n", "\n"));
        expect![[r#"
            [a.py#1675]
            PUT 2vj..=3yk:
            +    x = 1;     return x
        "#]]
        .assert_eq(&said("    x = 1\n", "    x = 1; "));
    }
}
