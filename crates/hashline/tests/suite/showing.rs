//! Output for the model, compared word for word.

use hashline::{Lines, Reason, SnapshotStore, View, compact_diff, render};

use crate::session::{Session, numbered};

#[test]
fn lines_are_rendered_with_and_without_checks() {
    let mut store = SnapshotStore::default();
    let tag = store.record("f", "a\r\n\u{e9}\n\nend");
    let snapshot = store.get("f", tag).unwrap();
    let plain = render("f", &snapshot, &[1..=9], View::PLAIN);
    assert_eq!(plain, format!("[f#{tag}]\n1\ta\n2\t\u{e9}\n\n4\tend\n"));
    let checked = render("f", &snapshot, &[1..=9], View::default());
    let check = snapshot.lines().check(2);
    assert!(checked.contains(&format!("\n2{check}\t\u{e9}\n")));
}

#[test]
fn omitted_lines_have_no_marker() {
    let mut store = SnapshotStore::default();
    let tag = store.record("f", numbered(20));
    let shown = store.show("f", tag, &[9..=10, 3..=4, 4..=5], View::PLAIN).unwrap();
    let expected = format!("[f#{tag}]\n3\tline 3\n4\tline 4\n5\tline 5\n9\tline 9\n10\tline 10\n");
    assert_eq!(shown, expected);
    assert!(!store.has_seen_all("f", tag));
    store.see("f", tag, 1..=20);
    assert!(store.has_seen_all("f", tag));
}

#[test]
fn an_edit_shows_its_lines_with_new_numbers() {
    let mut session = Session::new(&[("f", &numbered(20))]);
    session.options.view = View::PLAIN;
    let tag = session.read("f");
    let (_, outcome) =
        session.edited(&format!("[f#{tag}]\nPUT <1:\n+zero\nPUT 9..=10:\n+nine\nCUT 15\nPUT >20:\n+end\n"));
    let expected = ["1\tzero", "10\tnine", "… 1 line removed before 15", "20\tend"];
    assert_eq!(outcome.text, format!("[f#{}]\n{}\n", outcome.tag.unwrap(), expected.join("\n")));
}

#[test]
fn long_changes_are_shortened() {
    let mut session = Session::new(&[("f", &numbered(500))]);
    let tag = session.read("f");
    let (_, outcome) = session.edited(&format!("[f#{tag}]\nCUT 1..=400\n"));
    let cuts = |text: &str| text.lines().filter(|line| line.contains('…')).collect::<Vec<_>>().join("\n");
    assert!(outcome.text.lines().count() < 130);
    expect_test::expect!["… 400 lines removed before 1"].assert_eq(&cuts(&outcome.text));
    let body: String = (0..300).map(|row| format!("+row {row}\n")).collect();
    let (_, outcome) = session.edited(&format!("[f#{}]\nPUT <1:\n{body}", outcome.tag.unwrap()));
    assert!(outcome.text.contains("\n1"), "{}", outcome.text);
    expect_test::expect!["… 121..=300 not shown"].assert_eq(&cuts(&outcome.text));
}

#[test]
fn a_diff_shows_whole_lines_for_edits_within_them() {
    let lines = |text: &str| hashline::Lines::new(text.into());
    let edits = [text::TextEdit::replace(0..1, "A"), text::TextEdit::replace(2..3, "C")];
    let diff = compact_diff(&lines("abc\nd\n"), &lines("AbC\nd\n"), &edits, View::PLAIN);
    assert_eq!(diff, "1\tAbC\n");
}

#[test]
fn a_refusal_serializes_and_renders() {
    let mut session = Session::new(&[("f", "a\nb\n")]);
    let tag = session.read("f");
    session.write("f", "a\nc\n");
    let refusal = session.refused_for(&format!("[f#{tag}]\nPUT 2:\n+x\n"), Reason::Stale);
    let section = &refusal.sections[0];
    let actual = section.actual.unwrap();
    let (one, two) = (session.anchor("f", 1), session.anchor("f", 2));
    let json = serde_json::to_value(&refusal).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "reason": "stale",
            "times": 1,
            "sections": [{
                "path": "f",
                "reason": "stale",
                "message": section.message,
                "expected": tag.to_string(),
                "actual": actual.to_string(),
                "line_count": 2,
                "anchors": [{
                    "anchor": "2",
                    "lines": [
                        { "line": 1, "check": &one[1..], "text": "a" },
                        { "line": 2, "check": &two[1..], "text": "c" },
                    ],
                }],
            }],
        })
    );
    let words = format!(
        "Not applied, nothing was changed.\nf: {}\n[f#{actual}]\n{one}\ta\n{two}\tc\n",
        section.message
    );
    assert_eq!(refusal.render(), words);
    assert_eq!(refusal.to_string(), format!("not applied: f: {}", section.message));
}

#[test]
fn reasons_are_serialized_as_they_are_named() {
    use Reason::*;
    for reason in [
        UnknownTag,
        Stale,
        UnseenLines,
        CheckMismatch,
        Ambiguous,
        Overlap,
        Boundary,
        ParseRegression,
        InvalidPatch,
        NotUtf8,
        TooLarge,
        Unsupported,
        NotFound,
        Exists,
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
}

#[test]
fn the_format_page_is_correct() {
    let page = include_str!("../../../../docs/formats/hashline.md");
    let text = "def greet(name):\n    msg = \"Hello, \" + name\n    print(msg)\n";
    let mut session = Session::new(&[("src/greet.py", text)]);
    let tag = session.read("src/greet.py");
    let shown = session.store.show("src/greet.py", tag, &[1..=3], View::default()).unwrap();
    assert!(page.contains(&shown), "{shown}");
    let patch = "[src/greet.py#8894]\nPUT 2yf:\n+    msg = f\"Hello, {name}\"\nPUT <1:\n+import sys\n";
    assert!(page.contains(patch));
    let (_, outcome) = session.edited(patch);
    assert!(page.contains(&outcome.text), "{}", outcome.text);
}

#[test]
fn the_outcome_of_an_edit_is_bounded() {
    // A line next to the edit that is too long to show is named, and does not count as shown.
    let mut session = Session::new(&[("f", &format!("a\n{}\nz\n", "x".repeat(3_000_000)))]);
    let tag = session.read_lines("f", 1..=1);
    let (_, outcome) = session.edited(&format!("[f#{tag}]\nPUT {}:\n+b\n", session.anchor("f", 1)));
    assert!(outcome.text.len() < 500, "{:.500}", outcome.text);
    expect_test::expect![[r#"
        [f#C739]
        1aj	b
    "#]]
    .assert_eq(&outcome.text);
    let cut = format!("[f#{}]\nCUT {}\n", outcome.tag.unwrap(), session.anchor("f", 2));
    session.refused_for(&cut, Reason::UnseenLines);
    // The edit makes many small changes.
    let text: String = (1..=20_000).map(|line| format!("{line:060}\n")).collect();
    let mut session = Session::new(&[("f", &text)]);
    let tag = session.read("f");
    let lines = Lines::new(text.as_str().into());
    let cuts: String = (1..=10_000).map(|at| format!("CUT {}{}\n", 2 * at, lines.check(2 * at))).collect();
    let (_, outcome) = session.edited(&format!("[f#{tag}]\n{cuts}"));
    assert!(outcome.text.len() < 52 << 10, "{}", outcome.text.len());
    assert!(outcome.text.lines().last().unwrap().ends_with("..=10000 not shown"), "{:.200}", outcome.text);
}
