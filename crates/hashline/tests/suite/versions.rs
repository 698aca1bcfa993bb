//! Tags, checks, seen lines, and numbers from other versions.

use expect_test::expect;
use hashline::{Limits, NoteKind, Reason, SnapshotStore, Strategy, Tag, View};
use text::TextEdit;

use crate::session::{Session, numbered};

#[test]
fn an_unknown_tag_shows_the_lines_under_a_valid_one() {
    let mut session = Session::new(&[("f", &numbered(30))]);
    let refusal = session.refused_for("[f#BEEF]\nPUT 20:\n+x\n", Reason::UnknownTag);
    let section = &refusal.sections[0];
    let shown: Vec<usize> = section.anchors[0].lines.iter().map(|line| line.line).collect();
    assert_eq!(shown, [17, 18, 19, 20, 21, 22, 23]);
    let tag = section.actual.unwrap();
    assert_eq!(section.expected.unwrap().to_string(), "BEEF");
    session.edited(&format!("[f#{tag}]\nPUT 20:\n+x\n"));
    session.read_lines("f", 1..=1);
}

#[test]
fn a_stale_edit_is_refused_with_current_lines() {
    let mut session = Session::new(&[("f", &numbered(30))]);
    let tag = session.read("f");
    let anchor = session.anchor("f", 20);
    // The lines now occur twice.
    session.write("f", &format!("{}{}{}", "new\n".repeat(50), numbered(30), numbered(30)));
    let refusal = session.refused_for(&format!("[f#{tag}]\nPUT {anchor}:\n+x\n"), Reason::Stale);
    let section = &refusal.sections[0];
    assert_eq!(section.anchors[0].anchor, anchor);
    assert!(section.anchors[0].lines.iter().any(|line| line.line == 70 && line.text == "line 20"));
    let (tag, anchor) = (section.actual.unwrap(), session.anchor("f", 70));
    assert!(refusal.render().contains(&format!("\n{anchor}\tline 20\n")), "{}", refusal.render());
    session.edited(&format!("[f#{tag}]\nPUT {anchor}:\n+x\n"));
}

#[test]
fn a_wrong_check_is_refused() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f");
    let check = session.anchor("f", 7)[1..].to_owned();
    let refusal = session.refused_for(&format!("[f#{tag}]\nCUT 3{check}\n"), Reason::CheckMismatch);
    assert!(refusal.sections[0].message.contains(&format!("`{check}` is at line 7")));
    assert_eq!(refusal.sections[0].actual, Some(tag));
}

#[test]
fn checks_are_read_in_either_case() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f").to_string().to_lowercase();
    let anchor = session.anchor("f", 7).to_uppercase();
    session.edited(&format!("[f#{tag}]\nCUT {anchor}\n"));
}

#[test]
fn numbers_from_before_own_edits_are_mapped() {
    let mut session = Session::new(&[("f", &numbered(40))]);
    let tag = session.read("f");
    let (ten, twenty, thirty) = (session.anchor("f", 10), session.anchor("f", 20), session.anchor("f", 30));
    let tag = session.edited(&format!("[f#{tag}]\nPUT >5:\n+x\n+y\n")).1.tag.unwrap();
    let tag = session.edited(&format!("[f#{tag}]\nCUT 1\n")).1.tag.unwrap();
    // The numbers are from before two edits, and mean the same line in both earlier versions.
    let (strategy, outcome) = session.edited(&format!("[f#{tag}]\nPUT {ten}..={twenty}:\n+z\n"));
    assert_eq!(strategy, Strategy::Chain);
    expect![[r#"
        [f#5B6E]
        11zx	z
        note: the numbers belong to tag 921A, from before an edit; they were mapped to the lines they meant: lines 10..=20 were found at 11..=21
    "#]].assert_eq(&outcome.text);
    let (_, outcome) = session.edited(&format!("[f#{}]\nCUT {thirty}\n", outcome.tag.unwrap()));
    expect![[r#"
        [f#8C3D]
        … 1 line removed before 21
        note: the numbers belong to tag 921A, from before an edit; they were mapped to the lines they meant: line 30 was found at 21
    "#]].assert_eq(&outcome.text);
    assert!(session.text("f").contains("line 9\nz\nline 21\n"));
}

#[test]
fn numbers_with_two_meanings_are_refused() {
    // All lines are equal, so every number has the same check except at the ends.
    let mut session = Session::new(&[("f", &"same\n".repeat(20))]);
    let tag = session.read("f");
    let anchor = session.anchor("f", 10);
    let tag = session.edited(&format!("[f#{tag}]\nPUT 3:\n+x\n+y\n")).1.tag.unwrap();
    assert_eq!(session.anchor("f", 10), anchor, "twins");
    let refusal = session.refused_for(&format!("[f#{tag}]\nCUT {anchor}\n"), Reason::Ambiguous);
    expect!["`10ry` means different lines in two versions (tags 12ED and A19A); name each line by number and check"].assert_eq(&refusal.sections[0].message);
    // Above the edit the number means the same line in both.
    session.edited(&format!("[f#{tag}]\nPUT 1:\n+first\n"));
}

#[test]
fn unchecked_numbers_must_have_one_meaning() {
    let edit_twice = |checks: bool| {
        let mut session = Session::new(&[("f", &numbered(20))]);
        session.options.view.checks = checks;
        let tag = session.read("f");
        let tag = session.edited(&format!("[f#{tag}]\nPUT >5:\n+x\n")).1.tag.unwrap();
        session.edit(&format!("[f#{tag}]\nCUT 3\n")).unwrap();
        let tag = session.store.newest("f").unwrap().tag();
        session.edit(&format!("[f#{tag}]\nCUT 10\n")).map_err(|refusal| refusal.reason).map(|_| ())
    };
    assert_eq!(edit_twice(true), Err(Reason::Ambiguous));
    assert_eq!(edit_twice(false), Ok(()), "where no checks are shown the tag decides");
}

#[test]
fn a_number_shown_in_no_other_version_is_not_ambiguous() {
    let mut session = Session::new(&[("f", &"same\n".repeat(20))]);
    session.read_lines("f", 1..=5);
    session.write("f", &format!("x\n{}", "same\n".repeat(20)));
    let tag = session.read("f");
    let anchor = session.anchor("f", 10);
    session.edited(&format!("[f#{tag}]\nCUT {anchor}\n"));
}

#[test]
fn own_edits_map_an_old_tag_to_the_current_text() {
    let mut session = Session::new(&[("f", &numbered(20))]);
    let tag = session.read("f");
    let (three, ten) = (session.anchor("f", 3), session.anchor("f", 10));
    let patch = |anchor: &str, row: &str| format!("[f#{tag}]\nPUT {anchor}:\n+{row}\n");
    session.edited(&patch(&three, "x\n+y"));
    let (strategy, _) = session.edited(&patch(&ten, "z"));
    assert_eq!(strategy, Strategy::Chain);
    let expected = numbered(20).replace("line 3\n", "x\ny\n").replace("line 10\n", "z\n");
    assert_eq!(session.text("f"), expected);
    // A line touched by an edit has no place any more.
    session.refused_for(&patch(&three, "w"), Reason::Stale);
    // A number alone might belong to the newer text.
    session.refused_for(&patch("15", "w"), Reason::Ambiguous);
}

#[test]
fn editor_changes_map_an_old_tag_to_the_current_text() {
    let mut session = Session::new(&[("f", &numbered(20))]);
    let tag = session.read("f");
    session.type_in("f", TextEdit::insert(0, "typed\n"));
    session.type_in("f", TextEdit::insert(3, "!"));
    let (strategy, outcome) = session.edited(&format!("[f#{tag}]\nPUT 10..=11:\n+z\nPUT >20:\n+end\n"));
    assert_eq!(strategy, Strategy::Chain);
    expect![[r#"
        [f#B425]
        11pf	z
        21nw	end
        note: the file changed since it was read; the edit was applied where its lines are now: lines 10..=11 were found at 11..=12, line 20 was found at 21
    "#]].assert_eq(&outcome.text);
    let expected = format!("typ!ed\n{}end\n", numbered(20).replace("line 10\nline 11\n", "z\n"));
    assert_eq!(session.text("f"), expected);
}

#[test]
fn a_log_of_another_text_is_ignored() {
    let mut session = Session::new(&[("f", &numbered(20))]);
    let tag = session.read("f");
    session.type_in("f", TextEdit::insert(0, "typed\n"));
    let text = session.text("f").replace("line 19", "line XX");
    session.write("f", &text);
    // Unchanged lines are found without the log.
    let (strategy, _) = session.edited(&format!("[f#{tag}]\nPUT 10:\n+z\n"));
    assert_eq!(strategy, Strategy::Remap);
    session.refused_for(&format!("[f#{tag}]\nPUT 19:\n+z\n"), Reason::Stale);
}

#[test]
fn an_insertion_stays_beside_the_line_it_names() {
    for (offset, what) in [(7, "x\n"), (6, "\nx")] {
        let typed = || {
            let mut session = Session::new(&[("f", &numbered(9))]);
            let tag = session.read("f");
            let (one, two) = (session.anchor("f", 1), session.anchor("f", 2));
            session.type_in("f", TextEdit::insert(offset, what));
            (session, tag, one, two)
        };
        let (mut session, tag, one, _) = typed();
        session.edited(&format!("[f#{tag}]\nPUT >{one}:\n+new\n"));
        assert!(session.text("f").starts_with("line 1\nnew\nx\nline 2\n"));
        let (mut session, tag, _, two) = typed();
        session.edited(&format!("[f#{tag}]\nPUT <{two}:\n+new\n"));
        assert!(session.text("f").starts_with("line 1\nx\nnew\nline 2\n"));
        // The change may be this very edit; whole or in part it is not repeated.
        let (mut session, tag, one, _) = typed();
        let (strategy, _) = session.edited(&format!("[f#{tag}]\nPUT >{one}:\n+x\n"));
        assert_eq!(strategy, Strategy::AlreadyApplied);
        session.type_in("f", TextEdit::insert(7, "y\n"));
        session.refused_for(&format!("[f#{tag}]\nPUT >{one}:\n+x\n"), Reason::Stale);
    }
}

#[test]
fn an_insertion_beside_a_changed_line_is_mapped() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f");
    let (one, two) = (session.anchor("f", 1), session.anchor("f", 2));
    session.type_in("f", TextEdit::insert(7, "changed "));
    session.refused_for(&format!("[f#{tag}]\nPUT <{two}:\n+new\n"), Reason::Stale);
    let (strategy, _) = session.edited(&format!("[f#{tag}]\nPUT >{one}:\n+new\n"));
    assert_eq!(strategy, Strategy::Chain);
    assert!(session.text("f").starts_with("line 1\nnew\nchanged line 2\n"));
}

/// Rewrites too much of the text to compare it as a whole.
#[test]
fn a_head_is_found_above_a_rewritten_file() {
    let head = "/*\n\tlicense\n\tauthor\n*/\n\nuse strict\n";
    let mut session = Session::new(&[("f", &format!("{head}{}", numbered(500)))]);
    let tag = session.read("f");
    let patch = format!("[f#{tag}]\nPUT {}:\n+\tother\n", session.anchor("f", 2));
    session.write("f", &format!("{head}new\n"));
    session.edited(&patch);
    assert_eq!(session.text("f"), format!("{}new\n", head.replace("license", "other")));
}

#[test]
fn changed_line_ends_are_accepted() {
    let mut session = Session::new(&[("f", "a\nb\nc\n")]);
    let tag = session.read("f");
    session.write("f", "a\r\nb\r\nc\r\n");
    let plan = session.plan(&format!("[f#{tag}]\nPUT 2:\n+x\n+y\n")).unwrap();
    assert_eq!(&*plan.sections[0].new_text, "a\r\nx\r\ny\r\nc\r\n");
    assert_eq!(plan.sections[0].notes[0].kind, NoteKind::LineEnds);
}

#[test]
fn unseen_lines_are_shown_and_then_accepted() {
    let mut session = Session::new(&[("f", &numbered(200))]);
    let tag = session.read_lines("f", 1..=10);
    let patch = format!("[f#{tag}]\nPUT 5..=20:\n+x\n");
    let refusal = session.refused_for(&patch, Reason::UnseenLines);
    let lines: Vec<usize> = refusal.sections[0].anchors[0].lines.iter().map(|line| line.line).collect();
    assert_eq!(lines, (11..=20).collect::<Vec<_>>());
    session.edited(&patch);
    session.refused_for(&format!("[f#{tag}]\nPUT >100:\n+x\n"), Reason::UnseenLines);
}

#[test]
fn many_unseen_lines_must_be_read() {
    let mut session = Session::new(&[("f", &numbered(200))]);
    let tag = session.read_lines("f", 1..=10);
    let patch = format!("[f#{tag}]\nCUT 5..=51\n");
    let refusal = session.refused_for(&patch, Reason::UnseenLines);
    expect!["the edit touches 41 of lines 11 to 51 that were not shown; read them first"]
        .assert_eq(&refusal.sections[0].message);
    session.refused_for(&patch, Reason::UnseenLines);
    session.read("f");
    session.edited(&patch);
}

#[test]
fn unseen_lines_of_an_old_tag_are_accepted_once_shown() {
    let mut session = Session::new(&[("f", &numbered(50))]);
    let tag = session.read_lines("f", 1..=10);
    let thirty = session.anchor("f", 30);
    session.edited(&format!("[f#{tag}]\nPUT 3:\n+x\n+y\n"));
    let patch = format!("[f#{tag}]\nPUT {thirty}:\n+z\n");
    session.refused_for(&patch, Reason::UnseenLines);
    session.edited(&patch);
    assert!(session.text("f").contains("line 29\nz\nline 31\n"));
}

#[test]
fn a_long_unseen_line_must_be_read() {
    let mut session = Session::new(&[("f", &format!("a\n{}\n", "x".repeat(5_000)))]);
    let tag = session.read_lines("f", 1..=1);
    let patch = format!("[f#{tag}]\nCUT 2\n");
    assert!(session.refused_for(&patch, Reason::UnseenLines).render().len() < 1_000);
    session.refused_for(&patch, Reason::UnseenLines);
}

#[test]
fn seen_lines_stay_seen_after_the_sessions_edit() {
    let mut session = Session::new(&[("f", &numbered(100))]);
    let tag = session.read_lines("f", 1..=20);
    let tag = session.edited(&format!("[f#{tag}]\nPUT 3:\n+x\n+y\n")).1.tag.unwrap();
    let (known, unknown) = (session.anchor("f", 21), session.anchor("f", 22));
    session.refused_for(&format!("[f#{tag}]\nCUT {unknown}\n"), Reason::UnseenLines);
    session.edited(&format!("[f#{tag}]\nCUT {known}\n"));
}

#[test]
fn a_returning_text_keeps_its_tag() {
    let mut store = SnapshotStore::default();
    let first = store.record("f", "a\n");
    let other = store.record("f", "b\n");
    assert_ne!(first, other);
    assert_eq!(store.record("./f", "a\n"), first);
    assert_eq!(**store.newest("f").unwrap().text(), *"a\n");
    assert_eq!(**store.get("f", other).unwrap().text(), *"b\n");
}

#[test]
fn a_long_tag_finds_the_text_in_another_store() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f");
    let long = session.store.long_tag("f", tag).unwrap();
    assert!(long.is_long() && long.to_string().ends_with(&tag.to_string()));
    session.store = SnapshotStore::default();
    session.read("f");
    session.edited(&format!("[f#{long}]\nCUT 3\n"));
}

/// Two texts whose hashes agree in their low 16 bits.
fn colliding() -> (String, String) {
    let mut seen = std::collections::HashMap::new();
    for number in 0.. {
        let text = format!("text {number}\n");
        let digits = SnapshotStore::default().record("f", text.clone()).to_string();
        if let Some(first) = seen.insert(digits, text.clone()) {
            return (first, text);
        }
    }
    unreachable!()
}

#[test]
fn a_colliding_text_gets_eight_digits() {
    let (first, second) = colliding();
    let mut store = SnapshotStore::new(Limits { versions: 1, ..Limits::default() });
    let short = store.record("f", first);
    let long = store.record("f", second.clone());
    assert!(!short.is_long() && long.is_long());
    assert!(long.to_string().ends_with(&short.to_string()));
    assert_eq!(**store.get("f", long).unwrap().text(), *second);
    // The first text is no longer stored; its tag never means the second.
    assert!(store.get("f", short).is_none());
    let eight: Tag = long.to_string().to_lowercase().parse().unwrap();
    assert_eq!(eight, long);
}

#[test]
fn limits_hold_and_dropped_versions_are_refused() {
    let mut session = Session::new(&[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    session.store = SnapshotStore::new(Limits { paths: 2, versions: 2, bytes: 1_000 });
    let a = session.read("a");
    session.read("b");
    session.read("c");
    session.refused_for(&format!("[a#{a}]\nCUT 1\n"), Reason::UnknownTag);

    let first = session.read("b");
    for number in 0..2 {
        session.write("b", &format!("{number}0\n"));
        session.read("b");
    }
    let refusal = session.refused_for(&format!("[b#{first}]\nCUT 1\n"), Reason::UnknownTag);
    expect!["the text with tag F577 is no longer kept; use the lines and the tag below"]
        .assert_eq(&refusal.sections[0].message);

    session.write("c", &"x".repeat(990));
    session.read("c");
    assert!(session.store.bytes() <= 1_000);
    session.write("b", &"y".repeat(2_000));
    session.read("b");
    assert_eq!(session.store.bytes(), 2_000, "the newest version stays whatever its size");
}

#[test]
fn shown_lines_prove_a_dropped_text() {
    let taken = || {
        let mut session = Session::new(&[("f", &numbered(9))]);
        session.store = SnapshotStore::new(Limits { bytes: 100, ..Limits::default() });
        let tag = session.read_lines("f", 2..=4);
        session.write("f", &numbered(12).replace("line 3", "changed"));
        session.read_lines("f", 1..=1);
        assert!(session.store.get("f", tag).is_none(), "the text is dropped");
        (session, tag)
    };
    // The changed lines were shown; laid over the current text they restore the old one.
    let (mut session, tag) = taken();
    session.write("f", &numbered(9).replace("line 3", "changed"));
    let (strategy, _) = session.edited(&format!("[f#{tag}]\nPUT 4:\n+x\n"));
    assert_eq!(strategy, Strategy::Remap);
    // Otherwise the version stays unknown.
    let (mut session, tag) = taken();
    let refusal = session.refused_for(&format!("[f#{tag}]\nPUT 4:\n+x\n"), Reason::UnknownTag);
    expect!["the text with tag 97CD is no longer kept; use the lines and the tag below"]
        .assert_eq(&refusal.sections[0].message);
}

#[test]
fn shown_versions_are_kept_longer_than_unshown_ones() {
    let mut session = Session::new(&[("f", &numbered(60))]);
    session.store = SnapshotStore::new(Limits { versions: 4, ..Limits::default() });
    let tag = session.read("f");
    let anchors: Vec<String> = (1..=60).map(|line| session.anchor("f", line)).collect();
    // The session edits again and again on one read, while another program types at the top. Every
    // edit is a version.
    for line in (10..=50).step_by(4) {
        let patch = format!("[f#{tag}]\nPUT {}:\n+new {line}\n+more\n", anchors[line - 1]);
        session.edited(&patch);
        session.type_in("f", TextEdit::insert(0, "t\n"));
        session.files.log = None;
    }
    assert!(session.text("f").contains("line 49\nnew 50\nmore\nline 51\n"));
}

#[test]
fn own_edits_map_across_dropped_versions() {
    let mut session = Session::new(&[("f", &"same\n".repeat(40))]);
    session.store = SnapshotStore::new(Limits { versions: 3, ..Limits::default() });
    let tag = session.read("f");
    for _ in 0..6 {
        let newest = session.store.record("f", session.files.texts["f"].clone());
        session.edited(&format!("[f#{newest}]\nPUT <1:\n+top\n"));
    }
    // Twins are everywhere: only the recorded edits distinguish the lines.
    session.options.view.checks = false;
    let (strategy, _) = session.edited(&format!("[f#{tag}]\nPUT 20:\n+twentieth\n"));
    assert_eq!(strategy, Strategy::Chain);
    let expected = format!("{}{}twentieth\n{}", "top\n".repeat(6), "same\n".repeat(19), "same\n".repeat(20));
    assert_eq!(session.text("f"), expected);
}

#[test]
fn large_versions_kept_as_edits_end_at_a_text() {
    let limits = Limits { versions: 3, ..Limits::default() };
    let mut store = SnapshotStore::new(limits);
    let rest = format!("{}\n", "all the same ".repeat(1_200)).repeat(300);
    assert!(rest.len() > 4 << 20);
    let text = |first: &str| format!("{first}\n{rest}");
    let edit = |from: &str, to: &str| [TextEdit::replace(0..from.len(), to)];
    store.record("f", text("c"));
    // The own edits form a cycle.
    for (from, to) in [("c", "a"), ("a", "d"), ("d", "c")] {
        let tag = store.record_edit("f", &text(from), &edit(from, to), text(to));
        if to != "c" {
            store.see("f", tag, 1..=9);
        }
    }
    let tags = ["a", "d"].map(|first| (first, Tag::long(&text(first))));
    store.record("f", "another program rewrote it\n");
    for (first, tag) in tags {
        assert!(**store.get("f", tag).unwrap().text() == *text(first), "{first}");
    }
}

#[test]
fn large_versions_are_kept_as_edits() {
    let long = "a long line ".repeat(240);
    let text =
        |changed: usize| -> String {
            (0..1_600)
                .map(|line| {
                    if line % 400 == changed {
                        format!("changed {line}\n")
                    } else {
                        format!("{long}{line}\n")
                    }
                })
                .collect()
        };
    let mut store = SnapshotStore::default();
    let texts: Vec<String> = (1..5).map(text).collect();
    assert!(texts[0].len() > 4 << 20);
    let tags: Vec<Tag> = texts.iter().map(|text| store.record("f", text.as_str())).collect();
    assert!(store.bytes() < texts[0].len() * 11 / 10, "{} bytes", store.bytes());
    for (tag, text) in tags.iter().zip(&texts) {
        assert!(**store.get("f", *tag).unwrap().text() == **text);
    }
    // Versions stored as edits of a dropped one stay usable. The second is dropped, because none of
    // its lines was shown.
    let mut store = SnapshotStore::new(Limits { versions: 3, ..Limits::default() });
    let tags: Vec<Tag> = (0..4)
        .map(|at| {
            let tag = store.record("f", texts[at].as_str());
            store.see("f", tag, 1..=[90, 1, 50, 70][at]);
            tag
        })
        .collect();
    let mut kept =
        |at: usize| store.get("f", tags[at]).is_some_and(|snapshot| **snapshot.text() == *texts[at]);
    assert_eq!([0, 1, 2, 3].map(&mut kept), [true, false, true, true]);
}

/// A session with the fresh tag of a text whose first line is new.
///
/// The store has no text from before, and the anchors are from before.
fn gone(text: &str) -> (Session, Tag, Vec<String>) {
    let mut session = Session::new(&[("f", text)]);
    session.store = SnapshotStore::new(Limits { versions: 1, ..Limits::default() });
    let tag = session.read("f");
    let anchors = (1..=text.lines().count()).map(|line| session.anchor("f", line)).collect();
    let tag = session.edited(&format!("[f#{tag}]\nPUT <1:\n+zero\n")).1.tag.unwrap();
    (session, tag, anchors)
}

#[test]
fn a_nearby_check_needs_a_second_anchor_or_an_echo() {
    let (mut session, tag, anchors) = gone(&numbered(20));
    let (a, b) = (&anchors[9], &anchors[11]);
    let plan = session.plan(&format!("[f#{tag}]\nPUT {a}..={b}:\n+x\n")).unwrap();
    assert!(plan.sections[0].new_text.contains("line 9\nx\nline 13\n"));
    assert_eq!(plan.sections[0].notes[0].kind, NoteKind::EarlierVersion);
    let plan = session.plan(&format!("[f#{tag}]\nPUT {a}:\n+x\n+line 10\n")).unwrap();
    assert!(plan.sections[0].new_text.contains("line 9\nx\nline 10\nline 11\n"));
    // One check proves nothing, and neither do two at different distances.
    let refusal = session.refused_for(&format!("[f#{tag}]\nPUT {a}:\n+x\n"), Reason::CheckMismatch);
    expect!["`10wf` is not a line of this text, whose line 10 is `10ak` (`wf` is at line 11); use the numbers and checks below"].assert_eq(&refusal.sections[0].message);
    let off = format!("{}{}", 14, b.trim_start_matches(char::is_numeric));
    session.refused_for(&format!("[f#{tag}]\nPUT {a}..={off}:\n+x\n"), Reason::CheckMismatch);
    // A body that repeats a line without letters or digits proves nothing.
    let (mut session, tag, anchors) = gone("a1\na2\n}\nb1\nb2\n");
    session.refused_for(&format!("[f#{tag}]\nPUT {}:\n+x\n+}}\n", anchors[2]), Reason::CheckMismatch);
}

#[test]
fn a_returning_path_keeps_the_meaning_of_tags() {
    let (first, second) = colliding();
    let mut store = SnapshotStore::new(Limits { paths: 1, ..Limits::default() });
    let short = store.record("f", first.clone());
    store.record("g", "other\n");
    let long = store.record("f", second);
    assert!(long.is_long());
    assert!(store.get("f", short).is_none());
    assert_eq!(store.record("f", first), short);
}

#[test]
fn the_formatters_result_is_recorded() {
    let mut session = Session::new(&[("f", "a\nb\nc\n")]);
    let tag = session.read("f");
    let plan = session.plan(&format!("[f#{tag}]\nPUT 2:\n+x=1\n")).unwrap();
    let outcome = hashline::outcome(&mut session.store, &plan.sections[0], "a\nx = 1\nc\n", View::default());
    session.write("f", "a\nx = 1\nc\n");
    expect![[r#"
        [f#4879]
        the file changed again while it was written; its current lines are below
        2ck	x = 1
    "#]]
    .assert_eq(&outcome.text);
    let anchor = session.anchor("f", 2);
    session.edited(&format!("[f#{}]\nPUT {anchor}:\n+y\n", outcome.tag.unwrap()));
    assert_eq!(session.text("f"), "a\ny\nc\n");
}

#[test]
fn forgotten_lines_are_unseen_in_every_version() {
    let mut session = Session::new(&[("f", &numbered(200))]);
    let first = session.read("f");
    let patch = format!("[f#{first}]\nPUT 1:\n+new\n");
    session.edited(&patch);
    session.store.forget("f");
    session.refused_for(&format!("[f#{first}]\nPUT 30..=90:\n+x\n"), Reason::UnseenLines);
    let second = session.read("f");
    session.edited(&format!("[f#{second}]\nPUT 30..=90:\n+x\n"));
}
