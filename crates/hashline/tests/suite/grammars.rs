//! Source code checked by real grammars, and edits of it.

use expect_test::expect;
use std::sync::Arc;

use hashline::{
    Block, Broken, Judgement, Lines, NoBlock, NoteKind, Options, ParseRegression, Plan, Reason, Refusal,
    Syntax,
};
use syntax::{Comparison, Language, Stop, Tree};
use text::TextEdit;

use crate::session::Session;

/// The whole text, parsed again for every call.
#[derive(Debug)]
pub struct Grammars;

impl Syntax for Grammars {
    fn judge(&self, path: &str, new_path: &str, before: &Arc<str>, edits: &[TextEdit]) -> Option<Judgement> {
        let language = Language::of(path, before)?;
        let after = text::apply(before, edits).ok()?;
        if Language::of(new_path, &after) != Some(language) {
            return None;
        }
        let tree = Tree::parse(language, before, Stop::NEVER).ok()?;
        let (_, comparison) = Comparison::of(&tree, before, edits, &after, Stop::NEVER).ok()?;
        let lines = Lines::new(after.as_str().into());
        let broken = comparison
            .new_errors
            .iter()
            .map(|error| Broken { line: lines.line_of(error.range.start), message: error.message(&after) })
            .collect();
        Some(Judgement { was_broken: comparison.was_broken, broken, nearby: false })
    }

    fn block(&self, path: &str, text: &Arc<str>, line: usize) -> Result<Block, NoBlock> {
        let language = Language::of(path, text).ok_or(NoBlock::Unknown)?;
        let tree = Tree::parse(language, text, Stop::NEVER).map_err(|_| NoBlock::Unknown)?;
        match tree.block(text, line) {
            Ok(block) => Ok(Block { lines: block.lines, leading: block.leading, part_of: block.part_of }),
            Err(unclear) => {
                Err(NoBlock::Unclear { message: unclear.message, candidates: unclear.candidates })
            }
        }
    }
}

fn run(path: &str, text: &str, operations: &str, parse_regression: ParseRegression) -> Result<Plan, Refusal> {
    let mut session = Session::new(&[(path, text)]);
    session.options = Options { syntax: Some(&Grammars), parse_regression, ..Options::default() };
    let tag = session.read(path);
    // `12` in an operation is replaced with its check.
    session.plan(&format!("[{path}#{tag}]\n{operations}"))
}

/// Applies operations to a file and compares the syntax notes.
#[track_caller]
fn check(path: &str, text: &str, operations: &str, expected: &str, notes: &[NoteKind]) -> Plan {
    let plan = run(path, text, operations, ParseRegression::Warn)
        .unwrap_or_else(|refusal| panic!("{operations}\n{}", refusal.render()));
    assert_eq!(&*plan.sections[0].new_text, expected);
    let kinds: Vec<NoteKind> = plan.sections[0].notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, notes, "{:?}", plan.sections[0].notes);
    plan
}

/// Checks like [`check`], with one note that contains all these words.
#[track_caller]
fn notes(path: &str, text: &str, operations: &str, expected: &str, kind: NoteKind, words: &[&str]) {
    let plan = check(path, text, operations, expected, &[kind]);
    let message = &plan.sections[0].notes[0].message;
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

#[track_caller]
fn refused(path: &str, text: &str, operations: &str, reason: Reason, words: &[&str]) {
    let refusal = run(path, text, operations, ParseRegression::Warn).expect_err("it is unclear");
    assert_eq!(refusal.reason, reason, "{}", refusal.render());
    let rendered = refusal.render();
    assert!(words.iter().all(|word| rendered.contains(word)), "{rendered}");
}

const PY: &str =
    "def f(x):\n    y = 1\n    if y:\n        return y\n    return 0\n\n\n@decorated\ndef g():\n    pass\n";

#[test]
fn a_block_on_the_first_line_of_a_body_is_one_statement() {
    check("a.py", PY, "PUT 2*:\n+    y = 2\n", &PY.replace("y = 1", "y = 2"), &[]);
    check("a.py", PY, "CUT 3*\n", &PY.replace("    if y:\n        return y\n", ""), &[]);
    check("a.py", PY, "PUT >3*:\n+    y += 1\n", &PY.replace("return y\n", "return y\n    y += 1\n"), &[]);
    check("a.py", PY, "PUT 8*:\n+g = f\n", &format!("{}g = f\n", &PY[..PY.find("@deco").unwrap()]), &[]);
    let go = "package a\n\nfunc F() int {\n\tx := 1\n\ty := x\n\treturn y\n}\n";
    check("a.go", go, "PUT 4*:\n+\tx := 2\n", &go.replace("x := 1", "x := 2"), &[]);
}

#[test]
fn a_rust_block_includes_its_attributes() {
    let text = "#[test]\n#[ignore]\nfn a() {\n    b();\n}\n\nfn c() {}\n";
    check("a.rs", text, "CUT 1*\n", "\nfn c() {}\n", &[]);
    check("a.rs", text, "PUT 1*:\n+fn a() {}\n", "fn a() {}\n\nfn c() {}\n", &[]);
    check("a.rs", text, "PUT 3*:\n+fn a() {}\n", "#[test]\n#[ignore]\nfn a() {}\n\nfn c() {}\n", &[]);
    refused("a.rs", text, "CUT 3*\n", Reason::Ambiguous, &["line 1 belongs", "`1*`", "1..=5", "3..=5"]);
    check(
        "a.rs",
        text,
        "CUT 1* @a\nPUT >$ @a\n",
        "\nfn c() {}\n#[test]\n#[ignore]\nfn a() {\n    b();\n}\n",
        &[],
    );
}

#[test]
fn an_unclear_block_is_refused_with_candidates() {
    let text = "function f(a) {\n  if (a) {\n    x();\n  } else {\n    y();\n  }\n}\n";
    refused("a.js", text, "CUT 4*\n", Reason::Ambiguous, &["4..=6", "2..=6", "1..=7", "if_statement"]);
    refused("a.js", "a(); b();\n", "CUT 1*\n", Reason::Ambiguous, &["b();"]);
    refused("a.txt", "a\n", "CUT 1*\n", Reason::Unsupported, &["first and last line"]);
    refused("a.js", "a();\n", "PUT >9*:\n+x\n", Reason::CheckMismatch, &["line 9"]);
}

#[test]
fn a_partly_seen_block_is_refused_and_shown() {
    let mut session = Session::new(&[("a.py", PY)]);
    session.options = Options { syntax: Some(&Grammars), ..Options::default() };
    let tag = session.read_lines("a.py", 1..=1);
    let (one, three) = (session.anchor("a.py", 1), session.anchor("a.py", 3));
    let refusal = session.refused_for(&format!("[a.py#{tag}]\nCUT {one}*\n"), Reason::UnseenLines);
    expect![[r#"
        Not applied, nothing was changed.
        a.py: the edit touches lines 2 to 5, which were not shown; check below, then send the edit again
        [a.py#AE3F]
        1fh	def f(x):
        2eb	    y = 1
        3cy	    if y:
        4qh	        return y
        5mk	    return 0
    "#]]
    .assert_eq(&refusal.render());
    session.store.see("a.py", tag, 3..=3);
    session.edited(&format!("[a.py#{tag}]\nCUT {three}*\n"));
    assert_eq!(session.text("a.py"), PY.replace("    if y:\n        return y\n", ""));
}

const RS: &str = "fn a() {\n    x();\n}\n\nfn b<'a>(s: &'a str) {\n    y(s);\n    z('{');\n}\n";

#[test]
fn duplicated_closers_are_dropped() {
    notes(
        "a.rs",
        RS,
        "PUT 5..=7:\n+fn b() {\n+    y2();\n+}\n",
        "fn a() {\n    x();\n}\n\nfn b() {\n    y2();\n}\n",
        NoteKind::Repaired,
        &["last row", "line 8 `}`"],
    );
    notes(
        "a.rs",
        RS,
        "PUT 2:\n+fn a() {\n+    x2();\n",
        &RS.replace("x()", "x2()"),
        NoteKind::Repaired,
        &["first row", "line 1"],
    );
    let go = "package a\n\nfunc F() {\n\tx()\n}\n";
    let operations = "PUT 4:\n+func F() {\n+\ty()\n+}\n";
    notes("a.go", go, operations, &go.replace("x()", "y()"), NoteKind::Repaired, &["first row", "last row"]);
    // The result parses, as one function within another, so it stays as written.
    let operations = "PUT 2:\n+fn a() {\n+    x2();\n+}\n";
    let nested = RS.replace("    x();\n", "fn a() {\n    x2();\n}\n");
    check("a.rs", RS, operations, &nested, &[NoteKind::EchoedLine]);
    let js = "f(function () {\n  g();\n});\n\nh();\n";
    notes(
        "a.js",
        js,
        "PUT 2:\n+  g2();\n+});\n",
        &js.replace("g()", "g2()"),
        NoteKind::Repaired,
        &["line 3 `});`"],
    );
}

#[test]
fn a_replaced_opener_of_a_block_is_kept() {
    let expected = "fn a() {\n    x();\n}\n\nfn b<'a>(s: &'a str) {\n    y2(s);\n    z('{');\n}\n";
    let plan = check("a.rs", RS, "PUT 5..=6:\n+    y2(s);\n", expected, &[NoteKind::Repaired]);
    expect!["as written the file would not have parsed (line 7: unexpected `}`), so line 5 `fn b<'a>(s: &'a str) {` was kept; nothing else was changed"].assert_eq(&plan.sections[0].notes[0].message);
    // Two repairs would be needed: none is made, and the note names the line.
    let operations = "PUT 5..=6:\n+    y2(s);\nPUT 1..=2:\n+    x2();\n";
    let plan = run("a.rs", RS, operations, ParseRegression::Warn).unwrap();
    assert!(plan.sections[0].new_text.starts_with("    x2();\n}\n\n    y2(s);\n"));
    assert_eq!(plan.sections[0].notes[0].kind, NoteKind::ParseRegression);
    expect!["the file parsed before this edit and does not now; it was applied as written. Look at line 1 (`x2();`): line 2: unexpected `}`; line 6: unexpected `}`"].assert_eq(&plan.sections[0].notes[0].message);
    // In Python the result may parse as a part of the function above; then only a note is added.
    let text = "def f():\n    a()\n\ndef g():\n    b()\n    c()\n";
    check(
        "a.py",
        text,
        "PUT 4..=5:\n+    b2()\n",
        "def f():\n    a()\n\n    b2()\n    c()\n",
        &[NoteKind::SwallowedOpener],
    );
}

#[test]
fn a_replaced_closer_of_a_block_is_kept() {
    let expected = RS.replace("x();", "x2();");
    let plan = check("a.rs", RS, "PUT 2..=3:\n+    x2();\n", &expected, &[NoteKind::Repaired]);
    expect!["as written the file would not have parsed (line 1: unexpected `fn a() {`), so line 3 `}` was kept; nothing else was changed"].assert_eq(&plan.sections[0].notes[0].message);
}

#[test]
fn lines_that_the_edit_writes_out_are_not_kept() {
    let operations = "PUT 2..=3:\n-    x();\n-}\n+    x2();\n";
    let expected = RS.replace("    x();\n}\n", "    x2();\n");
    let plan = run("a.rs", RS, operations, ParseRegression::Warn).unwrap();
    assert_eq!(*plan.sections[0].new_text, *expected);
    assert_eq!(plan.sections[0].notes[0].kind, NoteKind::ParseRegression);
}

#[test]
fn a_written_syntax_error_stays_and_gets_a_note() {
    let broken = RS.replace("x();", "x(;");
    notes("a.rs", RS, "PUT 2:\n+    x(;\n", &broken, NoteKind::ParseRegression, &["line 2", "x(;"]);
    let json = "{\n  \"a\": 1,\n  \"b\": 2\n}\n";
    let operations = "PUT 3:\n+  \"b\": 2,\n";
    notes("a.json", json, operations, &json.replace("2\n", "2,\n"), NoteKind::ParseRegression, &["line 3"]);
    check("tsconfig.json", json, operations, &json.replace("2\n", "2,\n"), &[]);
    let refusal = run("a.json", json, operations, ParseRegression::Refuse).unwrap_err();
    assert_eq!(refusal.reason, Reason::ParseRegression);
    assert!(refusal.render().contains("line 3") && refusal.render().contains("\"b\": 2\n"));
}

/// Reports lines away from the cause, as a parser may.
#[test]
fn the_warning_names_a_line_the_edit_wrote() {
    let json = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n";
    let operations = "PUT 3:\n+  \"b\": 2\n";
    let words = ["Look at line 3 (`\"b\": 2`)"];
    let expected = json.replace("2,", "2");
    notes("a.json", json, operations, &expected, NoteKind::ParseRegression, &words);
    let yaml = "a:\n  b: 1\n  c: 2\nd:\n  - x\n  - y\n";
    let expected = yaml.replace("  c: 2", " c: 2");
    let words = ["Look at line 3 (`c: 2`)"];
    notes("a.yaml", yaml, "PUT 3:\n+ c: 2\n", &expected, NoteKind::ParseRegression, &words);
}

#[test]
fn a_repairable_edit_is_not_refused() {
    let plan = run("a.rs", RS, "PUT 2:\n+    x2();\n+}\n", ParseRegression::Refuse).unwrap();
    assert_eq!(*plan.sections[0].new_text, *RS.replace("x()", "x2()"));
}

#[test]
fn a_recovered_edit_that_does_not_parse_is_refused() {
    let mut session = Session::new(&[("a.rs", RS)]);
    session.set_parse_regression(false);
    let tag = session.read("a.rs");
    let operations = format!("PUT {}:\n+    x(;\n", session.anchor("a.rs", 2));
    session.write("a.rs", &format!("{RS}\nfn c() {{}}\n"));
    session.refused_for(&format!("[a.rs#{tag}]\n{operations}"), Reason::ParseRegression);
    // An edit of the current text is made as written.
    let tag = session.read("a.rs");
    session.edited(&format!("[a.rs#{tag}]\n{operations}"));
}

#[test]
fn an_already_broken_file_blocks_no_edit() {
    let text = "fn a() {\n    let x = = 1;\n}\n\nfn b() {\n    c();\n}\n";
    let good = run("a.rs", text, "PUT 6:\n+    d();\n", ParseRegression::Refuse).unwrap();
    assert_eq!(good.sections[0].notes, []);
    let further = run("a.rs", text, "PUT 6:\n+    d(;\n", ParseRegression::Refuse).unwrap();
    assert_eq!(further.sections[0].notes[0].kind, NoteKind::ParseRegression);
    assert!(
        further.sections[0].notes[0].message.contains("further error")
            && further.sections[0].notes[0].message.contains("line 6")
    );
    let repaired = run("a.rs", text, "PUT 2:\n+    let x = 1;\n", ParseRegression::Refuse).unwrap();
    assert_eq!(repaired.sections[0].notes, []);
}

#[test]
fn payload_is_not_dropped_by_repair() {
    // Repeated rows that parse are written, with a note.
    let text = "def f():\n    x = 1\n    return 1\n";
    let expected = "def f():\n    x = 2\n    return 1\n    return 1\n";
    check("a.py", text, "PUT 2:\n+    x = 2\n+    return 1\n", expected, &[NoteKind::EchoedLine]);
    check(
        "a.rs",
        RS,
        "PUT >6:\n+    y(s);\n",
        &RS.replace("    y(s);\n", "    y(s);\n    y(s);\n"),
        &[NoteKind::EchoedLine],
    );
    // The rows stay also if dropping them does not help.
    let operations = "PUT 6:\n+    y(s;\n+    z('{');\n";
    let expected = RS.replace("    y(s);\n", "    y(s;\n    z('{');\n");
    check("a.rs", RS, operations, &expected, &[NoteKind::ParseRegression, NoteKind::EchoedLine]);
}

#[test]
fn an_insertion_that_repeats_its_anchor_gets_a_note() {
    let expected = RS.replace("    x();\n", "    x();\n    x();\n    w();\n");
    check("a.rs", RS, "PUT >2:\n+    x();\n+    w();\n", &expected, &[NoteKind::EchoedLine]);
    let expected = RS.replace("    x();\n", "    w();\n    x();\n    x();\n");
    check("a.rs", RS, "PUT <2:\n+    w();\n+    x();\n", &expected, &[NoteKind::EchoedLine]);
    // A closer that parses is not a repetition.
    let text = "mod m {\n    fn a() {}\n}\n";
    check("a.rs", text, "PUT >3:\n+mod n {\n+}\n", &format!("{text}mod n {{\n}}\n"), &[]);
    check("a.rs", text, "PUT <3:\n+}\n+\n+mod n {\n", "mod m {\n    fn a() {}\n}\n\nmod n {\n}\n", &[]);
}

#[test]
fn an_indented_insertion_after_a_closer_gets_a_note() {
    let expected = RS.replace("    x();\n}\n", "    x();\n}\n    w();\n");
    check("a.rs", RS, "PUT >3:\n+    w();\n", &expected, &[NoteKind::OutsideBlock]);
    let js = "if (a) {\n  b();\n}\nc();\n";
    notes(
        "a.js",
        js,
        "PUT >3:\n+  d();\n",
        "if (a) {\n  b();\n}\n  d();\nc();\n",
        NoteKind::OutsideBlock,
        &["line 3 `}`", "before line 3"],
    );
    check("a.js", js, "PUT >3:\n+d();\n", "if (a) {\n  b();\n}\nd();\nc();\n", &[]);
    check("a.js", "a = b(\n  c,\n)\nd\n", "PUT >3:\n+  .e()\n", "a = b(\n  c,\n)\n  .e()\nd\n", &[]);
}

#[test]
fn wrapper_removal_is_applied_as_written() {
    let text = "fn f() {\n    if a {\n        b();\n        c();\n    }\n    d();\n}\n";
    check(
        "a.rs",
        text,
        "PUT 2..=5:\n+    b();\n+    c();\n",
        "fn f() {\n    b();\n    c();\n    d();\n}\n",
        &[],
    );
    check("a.rs", text, "CUT 2\nCUT 5\n", "fn f() {\n        b();\n        c();\n    d();\n}\n", &[]);
    // The edit is the first half of a larger one, and is applied as written.
    let half = "fn f() {\n        b();\n        c();\n    }\n    d();\n}\n";
    check("a.rs", text, "CUT 2\n", half, &[NoteKind::ParseRegression]);
    let half = "fn f() {\n        c();\n    }\n    d();\n}\n";
    check("a.rs", text, "CUT 2..=3\n", half, &[NoteKind::ParseRegression]);
}

#[test]
fn lifetimes_strings_and_markup_are_not_brackets() {
    for (path, text, operations) in [
        ("a.rs", RS, "PUT 6:\n+    y::<'a, '_>(\"}\", b'(', r#\"{\"#);\n"),
        ("a.tsx", "const a = (\n  <p>\n    x\n  </p>\n);\n", "PUT 3:\n+    y {\"}\"} don't\n"),
        ("a.py", "def f():\n    a()\n", "PUT 2:\n+    a(\")\") # (\n"),
        ("a.sh", "f() {\n  a\n}\n", "PUT 2:\n+  echo \"}\" '{' ${x:-\\}}\n"),
    ] {
        let plan = run(path, text, operations, ParseRegression::Refuse).unwrap();
        assert_eq!(plan.sections[0].notes, [], "{path}");
    }
}

#[test]
fn two_possible_repairs_mean_no_repair() {
    // Either end may be the repetition.
    let text = "[\n  1,\n  2,\n  3\n]\n";
    let plan = run("a.json", text, "PUT 3:\n+  1,\n+  2\n+  3\n", ParseRegression::Warn).unwrap();
    assert!(plan.sections[0].notes.iter().any(|note| note.kind == NoteKind::ParseRegression));
    assert_eq!(&*plan.sections[0].new_text, "[\n  1,\n  1,\n  2\n  3\n  3\n]\n");
}
