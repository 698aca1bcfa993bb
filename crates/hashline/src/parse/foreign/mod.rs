//! Edits in other formats: patches of other agents, unified diffs, search and replace.
//!
//! They name lines by their text. Such an edit becomes a canonical patch if every row of it has one meaning and
//! its old lines occur once in the text that the model was shown, but for line numbers copied from a read and
//! trailing blanks; the engine then plans it like any other. Nothing else is matched approximately. A doubtful
//! edit is refused with the canonical form of the same edit.

mod blocks;
mod change;
mod diff;
mod doubt;
mod sequence;

use std::collections::HashMap;
use std::sync::Arc;

use crate::format::patch::normal_path;
use crate::parse::foreign::change::{Change, locate, locate_part};
use crate::parse::foreign::sequence::Sequence;
use crate::{Snapshot, View};

/// An edit of one place, or of a whole file, as written.
#[derive(Debug, Default)]
struct Edit {
    path: String,
    old: Vec<String>,
    new: Vec<String>,
    /// Indexes of old rows and of new rows that are the same line.
    ///
    /// `None` if the format does not state them.
    kept: Option<Vec<(usize, usize)>>,
    /// Indexes of empty old rows without a sign, which may be new rows.
    blanks: Vec<usize>,
    /// The operation on the whole file instead: `REM`, or `MV` with the new path.
    file_op: Option<String>,
    /// The first line that a hunk states, if it has more rows than stated.
    stated_line: Option<usize>,
    /// Lines above the place, from the outer to the inner one.
    below: Vec<String>,
    /// Whether the old rows end the file.
    at_end: bool,
    /// Reason why the rows may be incomplete or have another meaning.
    doubt: Option<String>,
}

impl Edit {
    fn of_file(path: &str, operation: String) -> Self {
        Self { path: path.to_owned(), file_op: Some(operation), ..Self::default() }
    }
}

/// The row that ends the commands of a shell's here-document.
const HEREDOC_END: &str = "EOF";
const BEGIN_PATCH: &str = "*** Begin Patch";
const END_PATCH: &str = "*** End Patch";

/// Translates an edit in another format to a canonical patch.
///
/// `exists` states whether a path names a file, and `shown` gives the newest text of it that the model was shown.
/// `None` if the text has no such format.
///
/// # Errors
/// The reason why the edit cannot be translated, with the form in which it can be sent.
pub fn translate(
    text: &str,
    exists: impl Fn(&str) -> bool,
    mut shown: impl FnMut(&str) -> Option<Arc<Snapshot>>,
) -> Option<Result<String, String>> {
    let edits = match parse(text, &exists)? {
        Ok(edits) => edits,
        Err(message) => return Some(Err(message)),
    };
    let mut translation = Translation::default();
    let added = edits.iter().try_for_each(|edit| {
        let shown = shown(&edit.path);
        let Some(shown) = shown.as_deref() else { return Err(not_shown(edit)) };
        translation.add(&edit.path, shown, |shown| locate(edit, shown))
    });
    Some(added.map(|()| translation.patch))
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
    let Some(shown) = shown else { return Err(format!("{path} was not shown; read it first")) };
    let mut translation = Translation::default();
    for (old, new) in replacements {
        translation.add(path, shown, |shown| locate_part(path, old, new, shown))?;
    }
    Ok(translation.patch)
}

/// An edit with its place.
enum Located {
    Lines(Change),
    File(String),
}

/// A canonical patch under construction.
#[derive(Default)]
struct Translation {
    patch: String,
    /// The header of the last section.
    header: String,
    sequences: HashMap<String, Sequence>,
}

impl Translation {
    fn add(
        &mut self,
        path: &str,
        shown: &Snapshot,
        locate: impl FnOnce(&Snapshot) -> Result<Located, String>,
    ) -> Result<(), String> {
        let operation = match locate(shown)? {
            Located::File(operation) => format!("{operation}\n"),
            Located::Lines(change) => {
                let sequence = self.sequences.entry(normal_path(path));
                sequence.or_insert_with(|| Sequence::new(shown.lines())).add(path, &change)?;
                change.explicit_operation(shown.lines())
            }
        };
        // Operations of one file go into one section.
        let header = View::default().header(path, shown.tag());
        if header != self.header {
            self.patch.push_str(&format!("{header}\n"));
            self.header = header;
        }
        self.patch.push_str(&operation);
        Ok(())
    }
}

fn not_shown(Edit { path, new, .. }: &Edit) -> String {
    let body: String = new.iter().map(|row| format!("+{row}\n")).collect();
    format!("{path} was not shown; read it, then send\n[{path}#TAG]\nPUT A..=B:\n{body}")
}

/// Parses the formats; `None` for another text.
fn parse(text: &str, exists: &dyn Fn(&str) -> bool) -> Option<Result<Vec<Edit>, String>> {
    let lines: Vec<&str> = text.strip_prefix('\u{feff}').unwrap_or(text).lines().collect();
    let (opened, content) = Envelopes::open(&lines);
    let first = content.first()?;
    if first.starts_with(['[', '{', '¶']) {
        return None;
    }
    let is_patch = first.starts_with("*** ");
    let is_diff = content.windows(2).any(|pair| pair[0].starts_with("--- ") && pair[1].starts_with("+++ "))
        || first.starts_with("diff --git ");
    let has_blocks = content.iter().any(|line| blocks::beginning(line).is_some());
    if !is_patch && !is_diff && !has_blocks {
        return None;
    }
    let edits = opened.close(content, is_patch).and_then(|content| match is_patch || is_diff {
        true => diff::parse(content, exists),
        false => blocks::parse(content, exists),
    });
    Some(edits)
}

/// The rows around a patch.
#[derive(Default)]
struct Envelopes {
    ends: Vec<&'static str>,
}

impl Envelopes {
    /// The open envelopes, and the rows below their first rows.
    fn open<'a, 'b>(mut lines: &'a [&'b str]) -> (Self, &'a [&'b str]) {
        let mut opened = Self::default();
        while let [first, rest @ ..] = lines {
            let end = match first.trim_end() {
                "" => None,
                BEGIN_PATCH => Some(END_PATCH),
                line if line.starts_with("```") => Some("```"),
                line if line.starts_with("~~~") => Some("~~~"),
                line if line.starts_with("apply_patch") && line.contains("<<") => Some(HEREDOC_END),
                _ => break,
            };
            opened.ends.extend(end);
            lines = rest;
        }
        (opened, lines)
    }

    /// The rows without the envelopes' last rows.
    fn close<'a, 'b>(mut self, mut lines: &'a [&'b str], is_patch: bool) -> Result<&'a [&'b str], String> {
        // A patch without its first row has its last one.
        if is_patch && !self.ends.contains(&END_PATCH) {
            self.ends.push(END_PATCH);
        }
        for end in self.ends {
            let filled = lines.iter().rposition(|line| !line.trim().is_empty());
            match filled {
                Some(at) if lines[at].trim_end() == end => lines = &lines[..at],
                _ => {
                    return Err(format!(
                        "the patch has no `{end}` at its end; it seems cut off, write all of it"
                    ));
                }
            }
        }
        Ok(lines)
    }
}

/// A path as written if such a file exists, else without the marks around it.
fn plain<'a>(name: &'a str, marks: &[char], exists: &dyn Fn(&str) -> bool) -> &'a str {
    let name = name.trim();
    if exists(name) { name } else { name.trim_matches(marks) }
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
        let said = match translate(patch, |path| path == "a.py", |path| store.newest(path)) {
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
                -    x = 1
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
            "a.py\n```\n<<<<<<<<< ORIGINAL \n    y = 1\n=========\n    y = 2\n    z = 3\n>>>>>>>>> UPDATED\n```\n",
            expect![[r#"
                [a.py#1675]
                PUT 7yh..=7yh:
                -    y = 1
                +    y = 2
                +    z = 3
            "#]],
        );
    }

    #[test]
    fn successive_places_select_one_of_several() {
        let text = "class A:\n    def f(self):\n        x = 1\n\nclass B:\n    def f(self):\n        x = 1\n\n    def g(self):\n        x = 1\n";
        let mut store = SnapshotStore::default();
        store.record("a.py", text);
        let mut said = |places: &str| {
            let patch = format!(
                "*** Begin Patch\n*** Update File: a.py\n{places}\n-        x = 1\n+        x = 2\n*** End Patch\n"
            );
            let said = translate(&patch, |path| path == "a.py", |path| store.newest(path)).unwrap();
            said.map_err(|message| message.lines().next().unwrap_or_default().to_owned())
        };
        expect![[r#"
            Ok(
                "[a.py#8C58]\nPUT 7wm..=7wm:\n-        x = 1\n+        x = 2\n",
            )
        "#]]
        .assert_debug_eq(&said("@@ class B:\n@@     def f(self):"));
        expect![[r#"
            Ok(
                "[a.py#8C58]\nPUT 3wm..=3wm:\n-        x = 1\n+        x = 2\n",
            )
        "#]]
        .assert_debug_eq(&said("@@ class A:"));
        expect![[r#"
            Err(
                "the old lines occur 3 times in a.py, at these lines; name the lines by number:",
            )
        "#]]
        .assert_debug_eq(&said("@@ class B:"));
        expect![[r#"
            Err(
                "the old lines occur 3 times in a.py, at these lines; name the lines by number:",
            )
        "#]]
        .assert_debug_eq(&said("@@     def f(self):"));
        expect![[r#"
            Err(
                "the old lines occur 3 times in a.py, at these lines; name the lines by number:",
            )
        "#]]
        .assert_debug_eq(&said("@@ class A:\n@@ class B:"));
        expect![[r#"
            Err(
                "the hunk `@@` has no rows; the patch seems cut off",
            )
        "#]]
        .assert_debug_eq(&said("@@\n@@ class A:"));
    }

    #[test]
    fn ambiguous_and_unknown_content_is_refused() {
        check(
            "--- a.py\n+++ a.py\n@@ -4 +4 @@\n-\n+# c\n",
            expect![[r#"
                refused: the old lines occur 4 times in a.py, at these lines; name the lines by number:
                [a.py#1675]
                4wf	
                5mj	
                9dv	
                10yg	
                PUT A..=B:
                +# c
            "#]],
        );
        check(
            "a.py\n<<<<<<< SEARCH\nz = 1\n=======\nz = 2\n>>>>>>> REPLACE\n",
            expect![[r#"
                refused: a.py as you last read it has no such lines; name lines by number:
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
            translate_replacements("a.py", &[(old.to_owned(), new.to_owned())], shown.as_deref())
                .unwrap_or_else(|message| format!("refused: {message}"))
        };
        expect![[r#"
            [a.py#1675]
            PUT 2vj..=2vj:
            -    x = 1
            +    x = 2
        "#]]
        .assert_eq(&said("x = 1\n    return", "x = 2\n    return"));
        expect![[r#"
            refused: the old text occurs 2 times in a.py, at these lines; name the lines by number:
            [a.py#1675]
            2vj	    x = 1
            7yh	    y = 1
        "#]]
        .assert_eq(&said(" = 1", " = 2"));
        expect![[r#"
            refused: the old text occurs 4 times in a.py, at these lines; name the lines by number:
            [a.py#1675]
            3yk	    return x
            4wf	
            8uk	    return y
            9dv	
        "#]]
        .assert_eq(&said("\n\n", "\n"));
        expect![[r#"
            refused: the old text ends with a line break and the new text does not; to keep it, send
            [a.py#1675]
            PUT 2vj..=2vj:
            +    x = 2
        "#]]
        .assert_eq(&said("    x = 1\n", "    x = 2"));
    }
}
