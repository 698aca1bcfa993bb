//! Edits in other formats: exactly what is meant, or a refusal.

use hashline::Patch;

use crate::foreign_forms::{Case, Damage};
use crate::session::Session;
use crate::simulation::random::Random;

/// A session in which the files were read whole.
fn session(files: &[(&str, &str)]) -> Session {
    let mut session = Session::new(files);
    for (path, _) in files {
        session.read(path);
    }
    session
}

/// Applies a patch; the reason of a refusal as an error.
fn apply(session: &mut Session, patch: &str) -> Result<(), String> {
    let exists = |path: &str| session.files.texts.contains_key(path);
    let translated = hashline::translate(patch, exists, |path| session.store.newest(path));
    apply_translated(session, translated.ok_or("not another format")?)
}

/// Applies replacements of parts of a file.
fn replace(session: &mut Session, path: &str, edits: &[(&str, &str)]) -> Result<(), String> {
    let shown = session.store.newest(path);
    let edits: Vec<_> = edits.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
    apply_translated(session, hashline::translate_replacements(path, &edits, shown.as_deref()))
}

fn apply_translated(session: &mut Session, translated: Result<String, String>) -> Result<(), String> {
    let (patch, _) = Patch::parse(&translated?).map_err(|error| error.to_string())?;
    let plan = session.plan_parsed(&patch).map_err(|refusal| refusal.render())?;
    session.write_plan(&plan, None).map(drop)
}

const PYTHON: &str = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    y = 1\n    return y\n";

/// Patches of `f.py`, whose meaning is not certain.
#[rustfmt::skip]
const DOUBTFUL: &[(&str, &str)] = &[
    ("an escaped line break in a row",
        "--- f.py\n+++ f.py\n@@ -2 +2,1 @@\n-    x = 1\n+    x = 2\\n    z = 3\n"),
    ("an escaped tab before a row",
        "--- f.py\n+++ f.py\n@@ -2 +2,1 @@\n-    x = 1\n+\\tx = 2\n"),
    ("an escaped character of HTML",
        "--- f.py\n+++ f.py\n@@ -2 +2,1 @@\n-    x = 1\n+    x = 1 &lt; 2\n"),
    ("two separators in a block",
        "f.py\n<<<<<<< SEARCH\n    x = 1\n=======\n    x = 2\n=======\n    x = 3\n>>>>>>> REPLACE\n"),
    ("a heading's underline as the only separator of a block",
        "f.py\n<<<<<<< SEARCH\n    x = 1\n=========\n    x = 2\n>>>>>>> REPLACE\n"),
    ("another word at the end of a block",
        "f.py\n<<<<<<< SEARCH\n    x = 1\n=======\n    x = 2\n>>>>>>> UPDATED\n"),
    ("a block within a block",
        "f.py\n<<<<<<< SEARCH\n    x = 1\n=======\n    x = 2\n<<<<<<< SEARCH\n    y = 1\n>>>>>>> REPLACE\n"),
    ("a second block without its first marker",
        "f.py\n<<<<<<< SEARCH\n    x = 1\n=======\n    x = 2\n>>>>>>> REPLACE\n<<<<<< SEARCH\n    y = 1\n=======\n    y = 2\n>>>>>>> REPLACE\n"),
    ("a renamed file of git",
        "diff --git a/f.py b/g.py\nsimilarity index 90%\nrename from f.py\nrename to g.py\n--- a/f.py\n+++ b/g.py\n@@ -2 +2 @@\n-    x = 1\n+    x = 2\n"),
    ("two names without a rename",
        "--- a/g.py\n+++ b/f.py\n@@ -2 +2 @@\n-    x = 1\n+    x = 2\n"),
    ("a new mode",
        "diff --git a/f.py b/f.py\nold mode 100644\nnew mode 100755\n--- a/f.py\n+++ b/f.py\n@@ -2 +2 @@\n-    x = 1\n+    x = 2\n"),
    ("an empty new file",
        "diff --git a/g.py b/g.py\nnew file mode 100644\ndiff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -2 +2 @@\n-    x = 1\n+    x = 2\n"),
    ("a deletion that names a part of the text",
        "--- a/f.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-def a():\n-    x = 1\n-    return x\n"),
    ("numbers of another line",
        "f.py\n<<<<<<< SEARCH\n7\t    x = 1\n=======\n7\t    x = 2\n>>>>>>> REPLACE\n"),
    ("numbers in a part of the new rows",
        "f.py\n<<<<<<< SEARCH\n2\t    x = 1\n3\t    return x\n=======\n2\t    x = 2\n    return x + 1\n>>>>>>> REPLACE\n"),
    ("no end of the patch",
        "*** Begin Patch\n*** Update File: f.py\n@@\n-    x = 1\n+    x = 2\n"),
    ("no end of the code fence",
        "```diff\n--- f.py\n+++ f.py\n@@\n-    x = 1\n+    x = 2\n"),
    ("a hunk shorter than its header says",
        "--- f.py\n+++ f.py\n@@ -2,2 +2,3 @@\n-    x = 1\n+    x = 2\n"),
    ("a file without a hunk",
        "--- f.py\n+++ f.py\n@@ -2 +2 @@\n-    x = 1\n+    x = 2\ndiff --git a/g.py b/g.py\n"),
    ("a row without a sign before the rows",
        "*** Begin Patch\n*** Update File: f.py\nimport os\n-    x = 1\n+    x = 2\n*** End Patch\n"),
    ("a row without a sign after the rows",
        "*** Begin Patch\n*** Update File: f.py\n@@\n-    x = 1\n+    x = 2\n# z\n*** End Patch\n"),
    ("an empty row without a sign among new rows",
        "*** Begin Patch\n*** Update File: f.py\n@@\n     return x\n+z = 1\n\n+z = 2\n*** End Patch\n"),
    ("an empty row without a sign in a hunk longer than its header says",
        "--- f.py\n+++ f.py\n@@ -3,3 +3,4 @@\n     return x\n\n+z = 1\n\n def b():\n"),
    ("a comment that stands for other lines",
        "f.py\n<<<<<<< SEARCH\ndef a():\n    x = 1\n    return x\n=======\ndef a():\n    # same\n>>>>>>> REPLACE\n"),
    ("dots that stand for other lines",
        "f.py\n<<<<<<< SEARCH\ndef a():\n    x = 1\n    return x\n=======\ndef a():\n    [... rest of file ...]\n>>>>>>> REPLACE\n"),
    ("a code fence within a hunk",
        "--- f.py\n+++ f.py\n@@\n-    x = 1\n```\n+    x = 2\n"),
    ("an unknown instruction",
        "*** Begin Patch\n*** Update File: f.py\n@@\n-    x = 1\n*** Insert below\n+    x = 2\n*** End Patch\n"),
    ("a place that is not above the lines",
        "*** Begin Patch\n*** Update File: f.py\n@@ def b():\n-    x = 1\n+    x = 2\n*** End Patch\n"),
    ("a place with another place in between",
        "*** Begin Patch\n*** Update File: f.py\n@@ def a():\n-    y = 1\n+    y = 2\n*** End Patch\n"),
    ("lines that an earlier hunk moves",
        "--- f.py\n+++ f.py\n@@\n-    x = 1\n@@\n     y = 1\n+    x = 1\n@@\n     x = 1\n+    z = 1\n"),
    ("a hunk written twice",
        "*** Begin Patch\n*** Update File: f.py\n@@\n def a():\n+    log()\n     x = 1\n@@\n def a():\n+    log()\n     x = 1\n*** End Patch\n"),
    ("a hunk of a diff written twice",
        "--- f.py\n+++ f.py\n@@ -2,2 +2,3 @@\n     x = 1\n+    log()\n     return x\n@@ -2,2 +2,3 @@\n     x = 1\n+    log()\n     return x\n"),
    ("a block written twice",
        "f.py\n<<<<<<< SEARCH\n    x = 1\n=======\n    x = 1\n    log()\n>>>>>>> REPLACE\n<<<<<<< SEARCH\n    x = 1\n=======\n    x = 1\n    log()\n>>>>>>> REPLACE\n"),
    ("a file's section written twice",
        "*** Begin Patch\n*** Update File: f.py\n@@\n     x = 1\n+    log()\n*** Update File: f.py\n@@\n     x = 1\n+    log()\n*** End Patch\n"),
    ("an insertion written with other context",
        "--- f.py\n+++ f.py\n@@\n     x = 1\n+    log()\n@@\n+    log()\n     return x\n"),
    ("context that an earlier hunk changes",
        "--- f.py\n+++ f.py\n@@\n     x = 1\n+    log()\n@@\n     x = 1\n-    return x\n+    return y\n"),
    ("another end of the last line",
        "--- f.py\n+++ f.py\n@@ -7,2 +7,2 @@\n-    return y\n+    return y + 1\n\\ No newline at end of file\n"),
    ("words before the patch",
        "Create g.py, and then:\n--- f.py\n+++ f.py\n@@ -2 +2 @@\n-    x = 1\n+    x = 2\n"),
    ("words after the patch",
        "--- f.py\n+++ f.py\n@@ -2 +2 @@\n-    x = 1\n+    x = 2\n\n+ x is 2 now\n"),
    ("a code fence in the new text",
        "f.py\n<<<<<<< SEARCH\n    x = 1\n=======\n```python\n    x = 2\n```\n>>>>>>> REPLACE\n"),
];

#[test]
fn doubtful_patches_are_refused() {
    let mut applied = Vec::new();
    for (name, patch) in DOUBTFUL {
        let mut session = session(&[("f.py", PYTHON)]);
        if apply(&mut session, patch).is_ok() {
            applied.push(format!("{name}: {:?}", session.files.texts));
        }
    }
    assert!(applied.is_empty(), "{}", applied.join("\n"));
}

#[test]
fn doubtful_replacements_are_refused() {
    let text = "a = 1\nb = 2  \nc = 3";
    let doubtful: &[&[(&str, &str)]] = &[
        // The line break at the end of the file.
        &[("\nc = 3", "\nc = 4\n")],
        &[("c = 3", "")],
        // Escaped characters.
        &[("a = 1", "a = 1\\nd = 4")],
        &[("a = 1", "a = 1 &amp; d")],
        // The second text occurs before the first edit, and again after it.
        &[("a = 1", "c = 3"), ("c = 3", "c = 4")],
        // Blanks at the end decide whether the line is joined with the next.
        &[("b = 2\n", "b = 3")],
        // An insertion written twice, with another edit in between.
        &[("a = 1", "a = 1\nd"), ("c = 3", "c = 4"), ("a = 1", "a = 1\nd")],
        // The line break of the old text would be lost.
        &[("a = 1\n", "a = 2")],
        &[(" = 1\n", "")],
        // A code fence.
        &[("a = 1", "```python\na = 2\n```")],
    ];
    for edits in doubtful {
        let mut session = session(&[("f.py", text)]);
        let done = replace(&mut session, "f.py", edits);
        assert!(done.is_err(), "{edits:?}: {:?}", session.text("f.py"));
    }
}

#[test]
fn replacements_are_exact() {
    let cases: &[(&str, &str, &str, &str)] = &[
        ("a\nb\n", "a\n", "\n", "\nb\n"),
        ("a\nb\n", "b", "\n", "a\n\n\n"),
        ("\u{feff}a\nb\n", "a", "c", "\u{feff}c\nb\n"),
        ("a\r\nb\r\n", "a\nb", "c\nd", "c\r\nd\r\n"),
        ("a\n\nb\n", "\n\n", "\n", "a\nb\n"),
        ("a\nb", "\nb", "", "a"),
        ("s = \"a\\nb\"\n", "a\\nb", "c\\nd", "s = \"c\\nd\"\n"),
        ("x = '\\n'\n", "x", "y = f'\\n'; x", "y = f'\\n'; x = '\\n'\n"),
    ];
    for (text, old, new, expected) in cases {
        let mut session = session(&[("f", text)]);
        replace(&mut session, "f", &[(old, new)]).unwrap_or_else(|error| panic!("{old:?}: {error}"));
        assert_eq!(session.text("f"), *expected, "{old:?}");
    }
}

#[test]
fn a_removal_is_not_undone() {
    let text = "fn f() {\n    if a {\n        h();\n    }\n}\n";
    let mut session = session(&[("f.rs", text)]);
    session.set_parse_regression(false);
    replace(&mut session, "f.rs", &[("        h();\n    }\n", "        h2();\n")]).unwrap();
    assert_eq!(session.text("f.rs"), "fn f() {\n    if a {\n        h2();\n}\n");
}

#[test]
fn a_prefix_of_git_is_not_a_directory() {
    let diff = |before: &str, after: &str| format!("--- {before}\n+++ {after}\n@@ -1 +1 @@\n-x\n+y\n");
    let cases = [
        (&["x.py"][..], "a/x.py", "b/x.py", Some("x.py")),
        (&["x.py", "a/x.py"], "a/x.py", "b/x.py", None),
        (&["x.py", "b/x.py"], "a/x.py", "b/x.py", None),
        (&["x.py", "a/x.py"], "a/x.py", "a/x.py", Some("a/x.py")),
        (&["x.py", "a/x.py"], "a/a/x.py", "b/a/x.py", Some("a/x.py")),
        (&["x.py", "a/x.py"], "a/x.py", "/dev/null", None),
        (&["x.py"], "b/x.py", "a/x.py", None),
        (&["my x.py"], "a/my x.py\t", "b/my x.py\t", Some("my x.py")),
        (&["\"x.py\"", "x.py"], "\"x.py\"", "\"x.py\"", Some("\"x.py\"")),
    ];
    for (files, before, after, changed) in cases {
        let files: Vec<_> = files.iter().map(|path| (*path, "x\n")).collect();
        let mut session = session(&files);
        let done = apply(&mut session, &diff(before, after));
        assert_eq!(done.is_ok(), changed.is_some(), "{before} {after}: {done:?}");
        for (path, _) in files {
            let expected = if changed == Some(path) { "y\n" } else { "x\n" };
            assert_eq!(session.files.texts.get(path).map(|text| &**text), Some(expected), "{before} {after}");
        }
    }
}

#[test]
fn random_edits_are_exact_or_refused() {
    let (mut intact, mut applied, mut wrong) = (0, 0, Vec::new());
    for seed in SEEDS {
        let case = Case::random(&mut Random(seed));
        let mut session = session(&[(case.path, &case.before)]);
        let done = match &case.replacements {
            Some(edits) => {
                let edits: Vec<_> = edits.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
                replace(&mut session, case.path, &edits)
            }
            None => apply(&mut session, &case.patch),
        };
        intact += usize::from(case.damage == Damage::None);
        let is_right = session.text(case.path) == case.after;
        match done {
            Ok(()) if is_right => applied += usize::from(case.damage == Damage::None),
            Ok(()) => wrong.push(format!("{seed}: {case:#?}\n{:?}", session.text(case.path))),
            Err(_) => assert_eq!(session.text(case.path), case.before),
        }
    }
    wrong.truncate(3);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(applied * 2 > intact, "only {applied} of {intact} edits without a slip are applied");
}

const SEEDS: std::ops::Range<u64> = 0..4_000;
