//! Exact application: results, refusals and messages.

use expect_test::expect;
use hashline::{FileOp, NoteKind, Op, Options, Patch, Reason, Section, Span, Strategy, Target};

use crate::session::{Session, check, check_refused, numbered};

#[test]
fn operations_refer_to_the_tagged_text_in_any_order() {
    let text = "a\nb\nc\nd\n";
    let expected = "0\nA\nA2\nb\nc2\nd\n9\n";
    let operations = ["PUT >$:\n+9\n", "PUT 1:\n+A\n+A2\n", "CUT 3\n", "PUT <4:\n+c2\n", "PUT <1:\n+0\n"];
    check(text, &operations.concat(), expected);
    check(text, &operations.iter().rev().copied().collect::<String>(), expected);
}

#[test]
fn registers_move_and_copy_lines() {
    check("a\nb\nc\nd\n", "CUT 1..=2\nPUT >4\n", "c\nd\na\nb\n");
    check("a\nb\nc\nd\n", "PUT >4 @x\nPUT <3 @x\nCUT 1 @x\n", "b\na\nc\nd\na\n");
    check("a\nb\nc\nd\n", "CUT 1 @x\nPUT 3..=4 @x\n", "b\na\n");
    check("a\nb\n", "CUT 1\nCUT 2\n", "");
    check_refused("a\nb\nc\n", "CUT 1\nCUT 2\nPUT >3\n", Reason::InvalidPatch);
    check_refused("a\nb\nc\n", "PUT >3 @x\n", Reason::InvalidPatch);
}

#[test]
fn registers_span_files() {
    let mut session = Session::new(&[("a", "1\n2\n3\n"), ("b", "x\r\ny\r\n")]);
    let (a, b) = (session.read("a"), session.read("b"));
    session.edit(&format!("[b#{b}]\nPUT >1 @r\n[a#{a}]\nCUT 2..=3 @r\n")).unwrap();
    assert_eq!((session.text("a"), session.text("b")), ("1\n", "x\r\n2\r\n3\r\ny\r\n"));
}

#[test]
fn files_are_removed_and_renamed() {
    let mut session = Session::new(&[("a", "1\n"), ("b", "x\n"), ("c", "z\n")]);
    let (a, b, c) = (session.read("a"), session.read("b"), session.read("c"));
    session.refused_for(&format!("[b#{b}]\nMV c\n"), Reason::Exists);
    session.refused_for(&format!("[b#{b}]\nMV d\n[c#{c}]\nMV ./d\n"), Reason::Exists);
    session.refused_for(&format!("[b#{b}]\nMV b\n"), Reason::Exists);
    let (plan, outcomes) = session.edit(&format!("[a#{a}]\nREM\n[b#{b}]\nPUT 1:\n+y\nMV sub/d\n")).unwrap();
    assert_eq!(plan.sections[1].file_op, FileOp::Rename { to: "sub/d".into() });
    assert_eq!(session.files.texts.keys().collect::<Vec<_>>(), ["c", "sub/d"]);
    assert_eq!(outcomes[0].text, "deleted a\n");
    let tag = outcomes[1].tag.unwrap();
    assert!(outcomes[1].text.starts_with(&format!("renamed b to sub/d\n[sub/d#{tag}]\n1")));
    // The new path keeps the lines shown under the old one.
    let line = session.anchor("sub/d", 1);
    session.edit(&format!("[sub/d#{tag}]\nPUT {line}:\n+w\n")).unwrap();
    assert_eq!(session.text("sub/d"), "w\n");
    session.refused_for(&format!("[b#{b}]\nPUT 1:\n+y\n"), Reason::NotFound);
}

#[test]
fn removal_needs_the_text_that_was_read() {
    let mut session = Session::new(&[("a", "1\n")]);
    let tag = session.read("a");
    session.write("a", "1\n2\n");
    session.refused_for(&format!("[a#{tag}]\nREM\n"), Reason::Stale);
}

#[test]
fn one_refused_section_refuses_the_call() {
    let mut session = Session::new(&[("a", "1\n"), ("b", "x\n")]);
    let (a, b) = (session.read("a"), session.read("b"));
    session.write("b", "other\n");
    let refusal = session.refused_for(&format!("[a#{a}]\nPUT 1:\n+2\n[b#{b}]\nPUT 1:\n+y\n"), Reason::Stale);
    assert_eq!(refusal.sections.len(), 1);
    assert_eq!(refusal.sections[0].path, "b");
}

#[test]
fn a_line_that_does_not_exist_is_refused() {
    check_refused("a\n", "CUT 2\n", Reason::CheckMismatch);
    check_refused("a\n", "CUT 1..=2\n", Reason::CheckMismatch);
    check_refused("", "CUT 1\n", Reason::CheckMismatch);
    check_refused("a\n", "PUT >9:\n+x\n", Reason::CheckMismatch);
}

#[test]
fn overlapping_operations_are_refused() {
    for operations in [
        "CUT 2..=3\nCUT 3..=4\n",
        "CUT 2..=4\nPUT >3:\n+x\n",
        "PUT 2:\n+x\nPUT 2:\n+x\n",
        "CUT 1..=4\nCUT 2\n",
    ] {
        check_refused(&numbered(5), operations, Reason::Overlap);
    }
}

#[test]
fn block_operations_are_refused_as_unsupported() {
    let operations = ["PUT 1*:\n+x\n", "PUT >1*:\n+x\n", "CUT 1*\n", "CUT 2\nPUT 1* @x\n"];
    let messages = operations.map(|operations| {
        check_refused("a\nb\n", operations, Reason::Unsupported).sections.remove(0).message
    });
    expect![[r#"
        `1*`: there is no grammar for this file; name first and last line, `A..=B`
        `1*`: there is no grammar for this file; name first and last line, `A..=B`
        `1*`: there is no grammar for this file; name first and last line, `A..=B`
        `1*`: there is no grammar for this file; name first and last line, `A..=B`"#]]
    .assert_eq(&messages.join("\n"));
}

#[test]
fn text_that_is_already_there_changes_nothing() {
    let plan = check("a\nb\n", "PUT 2:\n+b\n", "a\nb\n");
    assert_eq!(plan.sections[0].strategy, Strategy::AlreadyApplied);
    assert_eq!(plan.sections[0].edits, []);
    assert_eq!(plan.sections[0].notes[0].kind, NoteKind::AlreadyApplied);
}

#[test]
fn the_same_patch_sent_again_changes_nothing() {
    let mut session = Session::new(&[("f", "a\nb\n")]);
    let tag = session.read("f");
    let patch = format!("[f#{tag}]\nPUT >1:\n+x\n");
    session.edited(&patch);
    let (strategy, outcome) = session.edited(&patch);
    assert_eq!(strategy, Strategy::AlreadyApplied);
    expect![[r#"
        [f#F791]
        note: the file already has this text; nothing was changed
    "#]]
    .assert_eq(&outcome.text);
    assert_eq!(session.text("f"), "a\nx\nb\n");
}

#[test]
fn old_rows_must_match() {
    check("a\nb\n", "PUT 2:\n-b\n+B\n", "a\nB\n");
    check_refused("a\nb\n", "PUT 2:\n-c\n+B\n", Reason::CheckMismatch);
    check_refused("a\nb\nc\n", "PUT 2..=3:\n-b\n+B\n", Reason::CheckMismatch);
}

#[test]
fn files_of_other_kinds_are_refused() {
    let (patch, _) = Patch::parse("[f#3F2A]\nCUT 1\n").unwrap();
    struct Other(hashline::Current);
    impl hashline::Documents for Other {
        fn current(&self, _: &str) -> hashline::Current {
            self.0.clone()
        }
    }
    let huge: std::sync::Arc<str> = "x".repeat(hashline::MAX_BYTES + 1).into();
    for (current, reason) in [
        (hashline::Current::NotUtf8, Reason::NotUtf8),
        (hashline::Current::TooLarge, Reason::TooLarge),
        (hashline::Current::Text(huge), Reason::TooLarge),
        (hashline::Current::Missing, Reason::NotFound),
    ] {
        let mut store = hashline::SnapshotStore::default();
        let refusal = hashline::plan(&patch, &mut store, &Other(current), Options::default()).unwrap_err();
        assert_eq!(refusal.reason, reason);
        assert_eq!(refusal.sections[0].actual, None);
    }
}

#[test]
fn patches_not_made_by_the_parser_are_checked_too() {
    let mut session = Session::new(&[("f", "a\nb\n")]);
    let tag = session.read("f");
    let at = |line| hashline::Anchor { line, check: None };
    let put = |first, last, rows: &[&str]| Op::Put {
        target: Target::Replace(Span::Lines { first: at(first), last: at(last) }),
        body: rows.iter().map(|row| (*row).to_owned()).collect(),
        old: vec![],
    };
    for op in
        [put(0, 1, &["x"]), put(2, 1, &["x"]), put(1, 1, &[]), put(1, 1, &["x\ny"]), put(1, 1, &["x\r"])]
    {
        let section = Section { path: "f".into(), tag: Some(tag), ops: vec![op], file_op: FileOp::Keep };
        let patch = Patch { sections: vec![section] };
        let refusal =
            hashline::plan(&patch, &mut session.store, &session.files, Options::default()).unwrap_err();
        assert_eq!(refusal.reason, Reason::InvalidPatch);
    }
}

#[test]
fn repeated_refusals_are_counted() {
    let mut session = Session::new(&[("f", "a\n")]);
    session.read("f");
    let mut shown = Vec::new();
    for times in 1..=4 {
        let refusal = session.refused("[f#0000]\nCUT 1\n");
        assert_eq!(refusal.times, times);
        shown.push(refusal.render());
    }
    expect![[r#"
        Not applied, nothing was changed.
        f: no text with tag 0000 was shown; use the lines and the tag below
        [f#9585]
        1us	a

        Not applied, nothing was changed.
        f: no text with tag 0000 was shown; use the lines and the tag below
        [f#9585]
        1us	a

        Not applied, nothing was changed.
        This patch was refused 3 times; sending it again will not help. Rewrite it as shown below.
        f: no text with tag 0000 was shown; use the lines and the tag below
        [f#9585]
        1us	a

        Not applied, nothing was changed.
        This patch was refused 4 times; sending it again will not help. Rewrite it as shown below.
        f: no text with tag 0000 was shown; use the lines and the tag below
        [f#9585]
        1us	a
    "#]]
    .assert_eq(&shown.join("\n"));
    assert_eq!(session.refused("[f#0001]\nCUT 1\n").times, 1);
}
