//! The arrow and json dialects: forms, errors, printing, and whole sessions.

use hashline::{
    Dialect, FileOp, Op, ParseErrorKind, Parser, Patch, Reason, Section, Span, Strategy, Target, Unsayable,
    View,
};

use crate::session::{Session, numbered};

/// Parses `input`, which must equal the `canonical` patch, without a note.
#[track_caller]
fn reads(input: &str, canonical: &str) {
    let (patch, notes) = Patch::parse(input).unwrap_or_else(|error| panic!("{error}\n{input}"));
    assert_eq!(notes, []);
    assert_eq!(patch.to_string(), canonical);
}

#[track_caller]
fn fails(input: &str, message: &str) {
    let error = Patch::parse(input).expect_err(input).to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn parses_every_form_of_arrow() {
    reads(
        "¶src/a b.rs#3f2a
1..3:
+x
+
++y
4:
+x
5:  inline: text 
6KQ..7mz:x
8↑
+x
9↓
+x
10kq↑x
11↓ x
1↑
+head
12!
13..14!
¶#c#d#0123ABCD
1kq↑
+x
",
        "[src/a b.rs#3F2A]
PUT 1..=3:
+x
+
++y
PUT 4:
+x
PUT 5:
+  inline: text 
PUT 6kq..=7mz:
+x
PUT <8:
+x
PUT >9:
+x
PUT <10kq:
+x
PUT >11:
+ x
PUT <1:
+head
CUT 12
CUT 13..=14
[#c#d#0123ABCD]
PUT <1kq:
+x
",
    );
}

#[test]
fn parses_every_form_of_json() {
    reads(
        r#"{"path": "src/a b.rs", "tag": "3f2a", "edits": [
            {"op": "replace", "pos": "1#KQ", "end": "3#mz", "lines": ["x", "", " y"]},
            {"op": "replace", "pos": "4", "lines": "one\ntwo"},
            {"op": "replace", "pos": 5, "lines": [""]},
            {"op": "replace", "pos": "6kq", "lines": null},
            {"op": "prepend", "pos": "8#KQ", "lines": ["x"]},
            {"lines": ["x"], "pos": "9#KQ", "op": "append"},
            {"op": "prepend", "lines": ["head"]},
            {"op": "append", "end": null, "pos": null, "lines": ["+end", "x"]}]}"#,
        "[src/a b.rs#3F2A]
PUT 1kq..=3mz:
+x
+
+ y
PUT 4:
+one
+two
PUT 5:
+
CUT 6kq
PUT <8kq:
+x
PUT >9kq:
+x
PUT <1:
+head
PUT >$:
++end
+x
",
    );
    let edit = r#"{"op": "append", "lines": ["x"]}"#;
    let files = format!(
        "[\n{{\"path\": \"a\", \"tag\": \"3F2A\", \"edits\": [{edit}]}},\n{{\"path\": \"b\", \"tag\": \"00003F2A\", \"edits\": [{edit}]}}]"
    );
    reads(&files, "[a#3F2A]\nPUT >$:\n+x\n[b#00003F2A]\nPUT >$:\n+x\n");
}

#[test]
fn json_without_a_tag_prints_only_as_json() {
    let (patch, _) =
        Patch::parse(r#"{"path": "a", "edits": [{"op": "append", "pos": "2#KQ", "lines": ["x"]}]}"#).unwrap();
    assert_eq!(patch.sections[0].tag, None);
    assert_eq!(Patch::parse(&patch.print(Dialect::Json).unwrap()), Ok((patch.clone(), vec![])));
    for dialect in [Dialect::Put, Dialect::Arrow] {
        assert_eq!(patch.print(dialect).unwrap_err().instead, Dialect::Json);
    }
}

#[test]
fn a_json_path_copied_with_its_tag_gives_the_tag() {
    let (separate, _) =
        Patch::parse(r#"{"path": "a", "tag": "3f2a", "edits": [{"op": "append", "lines": "x"}]}"#).unwrap();
    let (copied, _) =
        Patch::parse(r#"{"path": "a#3f2a", "edits": [{"op": "append", "lines": "x"}]}"#).unwrap();
    assert_eq!(copied, separate);
    let (named, _) =
        Patch::parse(r#"{"path": "a#3f2a", "tag": "94c1", "edits": [{"op": "append", "lines": "x"}]}"#)
            .unwrap();
    assert_eq!(named.sections[0].path, "a#3f2a");
    assert_eq!(Patch::parse(&named.to_string()).unwrap().0, named);
}

#[test]
fn the_first_line_decides_the_dialect() {
    let dialect = |input: &str| {
        let mut parser = Parser::new();
        parser.push(input);
        parser.push("\n");
        parser.dialect()
    };
    for (input, expected) in [
        ("[a#3F2A]", Some(Dialect::Put)),
        ("\n  [{a}#3F2A]", Some(Dialect::Put)),
        ("¶a#3f2a", Some(Dialect::Arrow)),
        ("```\n¶a#3f2a", Some(Dialect::Arrow)),
        ("Â¶a#3f2a", Some(Dialect::Arrow)),
        ("{", Some(Dialect::Json)),
        ("```json\n{\"path\"", Some(Dialect::Json)),
        ("[", Some(Dialect::Json)),
        ("[ {\"path\": \"a#3F2A\"}]", Some(Dialect::Json)),
        ("*** Begin Patch\n\n", None),
        ("Here is the edit:", Some(Dialect::Put)),
    ] {
        assert_eq!(dialect(input), expected, "{input}");
    }
}

#[test]
fn arrow_errors_name_the_line_and_an_alternative() {
    fails("¶a#3f2a\n2!\n3*:\n+x\n", "line 3 of the patch: the arrow dialect has no `3*:`");
    fails("¶a#3f2a\n3*:\n+x\n", "`PUT A*:`");
    fails("¶a#3f2a\nCUT 2 @r\n", "`[PATH#TAG]` with PUT, CUT, REM and MV");
    fails("¶a#3f2a\nMV b\n", "`[PATH#TAG]`");
    fails("¶a#3f2a\nCUT 2\n", "`A..B!`");
    fails("¶a#3f2a\nPUT 2:\n+x\n", "`A..B:`");
    fails("¶a#3f2a\n$↓\n+x\n", "`PUT >$:`");
    fails("¶a#3f2a\nx = 1\n", "`A..B:`");
    fails("¶a#3f2a\n2!\n[b#3F2A]\nCUT 2\n", "line 3 of the patch: `[b#3F2A]` belongs to another dialect");
    fails("¶a#3f2a\n2..4:\n3!\n", "line 2 of the patch: the operation has no body");
}

#[test]
fn json_errors_name_line_column_and_fix() {
    let error = Patch::parse("\n{\"path\": \"a\", \"tag\": \"3F2A\",\n \"edits\": [{]}\n").unwrap_err();
    assert_eq!(error.line, 3);
    assert!(matches!(error.kind, ParseErrorKind::Json { column: 13, .. }), "{error:?}");
    assert!(error.to_string().contains("write {\"path\": …, \"tag\": …, \"edits\": […]}"), "{error}");
    fails(
        "```json\n{\"path\": \"a\", \"edits\": [\n",
        "the patch ends before it is complete; send all of it",
    );
    let edit = |edit: &str| format!("{{\"path\": \"a\", \"tag\": \"3F2A\", \"edits\": [\n{edit}]}}");
    for (input, message) in [
        (r#"{"op": "delete", "pos": "2#KQ"}"#, "`\"lines\": null` to delete"),
        (r#"{"op": "rename", "to": "b"}"#, "REM and MV"),
        (r#"{"op": "replace", "pos": "2*", "lines": []}"#, "\"2*\" names a block; for registers, blocks"),
        (r#"{"op": "replace", "pos": "2#KQ:x", "lines": ["x"]}"#, "such as \"12kq\""),
        (r#"{"op": "replace", "pos": "2#KQ", "lines": []}"#, "[\"\"] is an empty line"),
        (r#"{"op": "replace", "pos": "2#KQ"}"#, "null to delete"),
        (r#"{"op": "append", "pos": "2#KQ", "to": "r", "lines": ["x"]}"#, "unknown field `to`"),
        (r#"{"op": "append", "lines": ["x"], "lines": ["x"]}"#, "duplicate field `lines`"),
        (r#"{"op": "append", "lines": ["+x"]}"#, "begins with `+`"),
        (r#"{"op": "append", "lines": 7}"#, "expected an array of rows, a string, or null to delete"),
        (r#""append""#, "expected an edit {"),
    ] {
        fails(&edit(input), message);
        fails(&edit(input), "line 2 of the patch: column ");
    }
    fails(r#"{"path": "a", "edits": [{"op": "append", "pos": "2", "lines": "x"}]}"#, "\"2\" has no check");
    fails(r#"{"path": "a", "edits": [{"op": "append", "lines": "x"}]}"#, "add the `tag`");
}

#[test]
fn inexpressible_patches_are_not_printed() {
    let said = |canonical: &str, dialect| Patch::parse(canonical).unwrap().0.print(dialect);
    for (operation, arrow, json) in [
        ("PUT 2*:\n+x\n", false, false),
        ("PUT >2*:\n+x\n", false, false),
        ("CUT 2*\n", false, false),
        ("CUT 2 @r\n", false, false),
        ("CUT 2\nPUT >3\n", false, false),
        ("CUT 2\nMV b\n", false, false),
        ("REM\n", false, false),
        ("PUT >$:\n+x\n", false, true),
        ("PUT 2:\n-y\n+x\n", true, false),
        ("PUT 2:\n++x\n", true, false),
        ("PUT <1:\n+x\nPUT 2..=3:\n+y\n+\nCUT 5\nPUT <7kq:\n+z\nPUT >7:\n+z\n", true, true),
    ] {
        let canonical = format!("[a#3F2A]\n{operation}");
        for (dialect, can) in [(Dialect::Put, true), (Dialect::Arrow, arrow), (Dialect::Json, json)] {
            match said(&canonical, dialect) {
                Ok(printed) => {
                    assert!(can, "{printed}");
                    assert_eq!(Patch::parse(&printed).unwrap().0, Patch::parse(&canonical).unwrap().0);
                }
                Err(Unsayable { instead, what, .. }) => {
                    assert!(!can && instead == Dialect::Put && !what.is_empty(), "{dialect} {canonical}");
                }
            }
        }
    }
}

#[test]
fn renders_lines_in_each_dialect() {
    let mut session = Session::new(&[("src/greet.py", "def f():\n    pass\n")]);
    let check = session.anchor("src/greet.py", 1)[1..].to_owned();
    let tag = session.read("src/greet.py");
    let mut shown = |view| session.store.show("src/greet.py", tag, &[1..=1], view).unwrap();
    let lower = tag.to_string().to_lowercase();
    assert_eq!(shown(View::default()), format!("[src/greet.py#{tag}]\n1{check}\tdef f():\n"));
    assert_eq!(shown(View::PLAIN), format!("[src/greet.py#{tag}]\n1\tdef f():\n"));
    for checks in [true, false] {
        let arrow = View { dialect: Dialect::Arrow, checks };
        assert_eq!(shown(arrow), format!("¶src/greet.py#{lower}\n1\tdef f():\n"));
        let json = View { dialect: Dialect::Json, checks };
        assert_eq!(shown(json), format!("[src/greet.py#{tag}]\n1{check}\tdef f():\n"));
    }
}

/// Reads, edits, edits from the result, is refused, and edits from the refusal.
#[test]
fn a_session_works_in_the_arrow_dialect() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    session.options.view = View::of(Dialect::Arrow);
    let tag = session.read("f").to_string().to_lowercase();
    let (strategy, outcome) = session.edited(&format!("¶f#{tag}\n2..3:\n+two\n5↓after five\n9!\n"));
    assert_eq!(strategy, Strategy::Exact);
    assert_eq!(session.text("f"), "line 1\ntwo\nline 4\nline 5\nafter five\nline 6\nline 7\nline 8\n");
    let tag = outcome.tag.unwrap().to_string().to_lowercase();
    assert!(outcome.text.starts_with(&format!("¶f#{tag}\n2\ttwo\n")), "{}", outcome.text);
    session.edited(&format!("¶f#{tag}\n2:2\n"));
    session.write("f", "other\n");
    let refusal = session.refused_for(&format!("¶f#{tag}\n5!\n"), Reason::Stale);
    let tag = refusal.sections[0].actual.unwrap().to_string().to_lowercase();
    assert!(refusal.render().ends_with(&format!("\n¶f#{tag}\n1\tother\n")), "{}", refusal.render());
    session.edited(&format!("¶f#{tag}\n1↑head\n"));
    assert_eq!(session.text("f"), "head\nother\n");
}

#[test]
fn a_session_works_in_the_json_dialect() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    session.options.view = View::of(Dialect::Json);
    let json = |session: &Session, line: usize| session.anchor("f", line);
    let patch = |pos: &str, more: &str| {
        format!(r#"{{"path": "f"{more}, "edits": [{{"op": "replace", "pos": "{pos}", "lines": ["new"]}}]}}"#)
    };
    let three = json(&session, 3);
    // No line of the file was shown.
    let refusal = session.refused_for(&patch(&three, ""), Reason::UnknownTag);
    assert_eq!(refusal.sections[0].expected, None);
    assert_eq!(serde_json::to_value(&refusal).unwrap()["sections"][0]["expected"], serde_json::Value::Null);
    assert!(refusal.render().contains(&format!("\n{three}\tline 3\n")), "{}", refusal.render());
    // Without a tag, the patch refers to the version that the refusal showed.
    let (_, outcome) = session.edited(&patch(&three, ""));
    assert_eq!(session.text("f"), numbered(9).replace("line 3", "new"));
    assert!(outcome.text.contains(&format!("\n{}\tnew\n", json(&session, 3))), "{}", outcome.text);
    // The check of the older number matches no line of the newest version, and no earlier version
    // maps it.
    session.refused_for(&patch("3#ZZ", ""), Reason::CheckMismatch);
    // A tag needs no checks.
    let tag = outcome.tag.unwrap();
    let five = format!(r#", "tag": "{tag}""#);
    session.edited(&patch("5", &five));
    assert!(session.text("f").contains("line 4\nnew\nline 6\n"));
}

#[test]
fn stale_numbers_without_a_tag_are_mapped() {
    let mut session = Session::new(&[("f", &numbered(30))]);
    session.options.view = View::of(Dialect::Json);
    let tag = session.read("f");
    let old = session.anchor("f", 20).to_uppercase();
    session.edited(&format!("[f#{tag}]\nCUT 2..=4\n"));
    let old = format!("20#{}", &old[2..]);
    let (strategy, _) = session.edited(&format!(
        r#"{{"path": "f", "edits": [{{"op": "replace", "pos": "{old}", "lines": ["twenty"]}}]}}"#
    ));
    assert_eq!(strategy, Strategy::Chain);
    assert!(session.text("f").contains("line 19\ntwenty\nline 21\n"));
}

#[test]
fn an_untagged_patch_needs_checks() {
    let mut session = Session::new(&[("f", "a\nb\n")]);
    session.read("f");
    let line = |line| hashline::Anchor { line, check: None };
    let put = |target| Op::Put { target, body: vec!["x".into()], old: vec![] };
    let ops = [
        put(Target::Head),
        put(Target::End),
        put(Target::After(line(1))),
        Op::Cut { span: Span::Lines { first: line(1), last: line(2) }, register: None },
    ];
    for (op, file_op) in ops.into_iter().map(|op| (vec![op], FileOp::Keep)).chain([(vec![], FileOp::Remove)])
    {
        let section = Section { path: "f".into(), tag: None, ops: op, file_op };
        let patch = Patch { sections: vec![section] };
        let refusal =
            hashline::plan(&patch, &mut session.store, &session.files, session.options).unwrap_err();
        assert_eq!(refusal.reason, Reason::InvalidPatch);
    }
}

#[test]
fn every_dialect_parses_in_every_view() {
    for dialect in Dialect::ALL {
        let mut session = Session::new(&[("f", "a\nb\nc\n")]);
        session.options.view = View::of(dialect);
        let tag = session.read("f");
        let two = session.anchor("f", 2);
        session.edited(&format!("[f#{tag}]\nPUT {two}:\n+x\n"));
        let tag = session.read("f");
        let two = session.anchor("f", 2);
        session.edited(&format!("¶f#{tag}\n{two}:y\n"));
        let tag = session.read("f");
        let edits = r##"[{"op": "append", "pos": "3", "lines": ["z"]}]"##;
        let three = session.anchor("f", 3)[1..].to_owned();
        let edits = edits.replace("\"3\"", &format!("\"3#{three}\""));
        session.edited(&format!(r#"{{"path": "f", "tag": "{tag}", "edits": {edits}}}"#));
        assert_eq!(session.text("f"), "a\ny\nc\nz\n");
    }
}

/// One canonical operation line with its rows, in each dialect that can express it.
fn in_each(canonical: &str) -> Vec<(Dialect, String)> {
    let (patch, _) = Patch::parse(canonical).unwrap_or_else(|error| panic!("{error}\n{canonical}"));
    Dialect::ALL.into_iter().filter_map(|dialect| Some((dialect, patch.print(dialect).ok()?))).collect()
}

#[test]
fn a_refusal_uses_the_dialect_of_the_view() {
    for (dialect, overlapping, line, text) in [
        (
            Dialect::Put,
            "`PUT 2..=4:` and `PUT 3:` claim",
            "`2zz` is not a line of this text, whose line 2 is `2",
            "\n2",
        ),
        (
            Dialect::Arrow,
            "`2..4:` and `3:` claim",
            "`2zz` is not a line of this text, whose line 2 is `2",
            "\n2\tline 2\n",
        ),
        (
            Dialect::Json,
            r##"`{"op":"replace","pos":"2","end":"4"}` and `{"op":"replace","pos":"3"}` claim"##,
            "`2zz` is not a line of this text, whose line 2 is `2",
            "\n2",
        ),
    ] {
        let mut session = Session::new(&[("f", &numbered(9))]);
        session.options.view = View::of(dialect);
        let tag = session.read("f");
        let refusal =
            session.refused_for(&format!("[f#{tag}]\nPUT 2..=4:\n+x\nPUT 3:\n+y\n"), Reason::Overlap);
        assert!(refusal.render().contains(overlapping), "{}", refusal.render());
        let refusal = session.refused_for(&format!("[f#{tag}]\nPUT 2zz:\n+x\n"), Reason::CheckMismatch);
        let rendered = refusal.render();
        assert!(rendered.contains(line) && rendered.contains(text), "{rendered}");
        assert_eq!(refusal.sections[0].anchors[0].anchor, "2zz");
    }
}

#[test]
fn every_dialect_refuses_wrong_content() {
    for rows in [
        // Rows of a read: with the true check, numbers alone, other tools' numbers.
        "+3CHECK:new\n",
        "+3#CHECK:new\n",
        "+3:new\n+4:text\n",
        "+3|new\n+4|text\n",
        "+   3\tnew\n+   4\ttext\n",
        // Elisions, headers and operations.
        "+x\n+… 3..=4 not shown\n+y\n",
        "+3-4: …\n",
        "+[src/a.rs#3F2A]\n",
        "+¶src/a.rs#3f2a\n",
        "+PUT 3kq:\n",
        "+3..4!\n",
        "+3↓\n",
    ] {
        let mut session = Session::new(&[("f", &numbered(9))]);
        let tag = session.read("f");
        let check = session.anchor("f", 3)[1..].to_owned();
        let rows = rows.replace("#CHECK", &format!("#{}", check.to_uppercase())).replace("CHECK", &check);
        let patches = in_each(&format!("[f#{tag}]\nPUT 3..=4:\n{rows}"));
        assert_eq!(patches.len(), 3);
        for (_, patch) in patches {
            session.refused_for(&patch, Reason::InvalidPatch);
        }
    }
}

#[test]
fn every_dialect_refuses_overlaps() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f");
    for operations in ["PUT 3:\n+x\nPUT 3:\n+y\n", "PUT 3:\n+x\nPUT 3:\n+x\n", "PUT 2..=4:\n+x\nCUT 4..=5\n"]
    {
        let patches = in_each(&format!("[f#{tag}]\n{operations}"));
        assert_eq!(patches.len(), 3);
        for (_, patch) in patches {
            session.refused_for(&patch, Reason::Overlap);
        }
    }
}

#[test]
fn a_wrong_sign_never_extends_the_previous_section() {
    // The second header is not recognized, so no part of the patch is read, in particular not as
    // operations on the first file.
    for header in ["b#3f2a", "Pb#3f2a", "?b#3f2a", "b", "# b", "¶b", "[b#3F2A]", "[¶b#3f2a]"] {
        assert!(Patch::parse(&format!("¶a#3f2a\n1!\n{header}\n2!\n")).is_err(), "{header}");
    }
    for header in ["¶b#3f2a", " ¶ b#3F2A", "Â¶b#3f2a", "§b#3f2a"] {
        let (patch, _) = Patch::parse(&format!("¶a#3f2a\n1!\n{header}\n2!\n")).unwrap();
        assert_eq!(patch.sections.len(), 2, "{header}");
    }
}
