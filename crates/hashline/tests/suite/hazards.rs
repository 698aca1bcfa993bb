//! Known failures of edits by line number, with one test for each.

use hashline::{NoteKind, Patch, Plan, Reason, SnapshotStore, Strategy};
use text::TextEdit;

use crate::session::{Session, check, check_refused, numbered};

#[track_caller]
fn warns(plan: &Plan, line: usize) {
    let found = plan.sections[0].notes.iter().any(|note| {
        note.kind == NoteKind::EchoedLine && note.message.contains(&format!("repeats line {line} "))
    });
    assert!(found, "{:?}", plan.sections[0].notes);
}

#[test]
fn colliding_short_tags_never_select_another_version() {
    // A tag finds its own text or nothing, among thousands of versions of one path.
    let mut store = SnapshotStore::default();
    let tags: Vec<_> = (0..3_000).map(|number| store.record("f", format!("{number}\n"))).collect();
    for (number, tag) in tags.iter().enumerate() {
        if let Some(snapshot) = store.get("f", *tag) {
            assert_eq!(**snapshot.text(), *format!("{number}\n"));
        }
    }
    assert!(store.get("f", tags[2_999]).is_some());
}

#[test]
fn replay_does_not_overwrite_newer_edits() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f");
    let (three, four, five) = (session.anchor("f", 3), session.anchor("f", 4), session.anchor("f", 5));
    session.edited(&format!("[f#{tag}]\nPUT {three}:\n+ours\n"));
    let text = session.text("f").replace("line 4", "foreign");
    session.write("f", &text);
    session.refused_for(&format!("[f#{tag}]\nPUT {four}:\n+ours\n"), Reason::Stale);
    session.refused_for(&format!("[f#{tag}]\nPUT {three}..={five}:\n+ours\n"), Reason::Stale);
}

#[test]
fn stale_lines_are_not_relocated_onto_duplicates() {
    let block = "case\n  same\n  end\n";
    let mut session = Session::new(&[("f", &block.repeat(4))]);
    let tag = session.read("f");
    session.write("f", &block.repeat(5));
    session.refused_for(&format!("[f#{tag}]\nPUT 5:\n+  other\n"), Reason::Stale);
}

#[test]
fn elided_regions_are_not_edited_blind() {
    let mut session = Session::new(&[("f", &numbered(2_000))]);
    let tag = session.read_lines("f", 1..=50);
    session.store.see("f", tag, 1_900..=2_000);
    session.refused_for(&format!("[f#{tag}]\nPUT 700..=710:\n+x\n"), Reason::UnseenLines);
    session.refused_for(&format!("[f#{tag}]\nPUT 40..=1950:\n+x\n"), Reason::UnseenLines);
}

#[test]
fn numbers_from_before_the_last_edit_are_mapped() {
    let mut session = Session::new(&[("f", &numbered(30))]);
    let tag = session.read("f");
    let old = session.anchor("f", 20);
    let tag = session.edited(&format!("[f#{tag}]\nCUT 2..=4\n")).1.tag.unwrap();
    let (strategy, _) = session.edited(&format!("[f#{tag}]\nPUT {old}:\n+twenty\n"));
    assert_eq!(strategy, Strategy::Chain);
    assert!(session.text("f").contains("line 19\ntwenty\nline 21\n"));
}

#[test]
fn a_duplicated_closer_gets_a_note() {
    let text = "fn f() {\n    a();\n}\nfn g() {}\n";
    warns(&check(text, "PUT 1..=2:\n+fn f() {\n+    b();\n+}\n", "fn f() {\n    b();\n}\n}\nfn g() {}\n"), 3);
}

#[test]
fn no_row_of_a_body_is_dropped() {
    let body = "+a\n+a\n+}\n+}\n+\n+\n";
    check("x\n}\ny\n", &format!("PUT 1:\n{body}"), "a\na\n}\n}\n\n\n}\ny\n");
}

#[test]
fn an_insertion_that_repeats_its_anchor_gets_a_note() {
    warns(&check("a\nb\n", "PUT >1:\n+a\n+x\n", "a\na\nx\nb\n"), 1);
    warns(&check("a\nb\n", "PUT >1:\n+x\n+b\n", "a\nx\nb\nb\n"), 2);
}

#[test]
fn an_insertion_before_a_line_it_repeats_gets_a_note() {
    warns(&check("a\nb\n", "PUT <2:\n+x\n+b\n", "a\nx\nb\nb\n"), 2);
    warns(&check("a\nb\n", "PUT <1:\n+x\n+a\n", "x\na\na\nb\n"), 1);
}

#[test]
fn a_body_that_repeats_the_next_line_gets_a_note() {
    let text = "def f():\n    x = 1\n    return 1\n";
    let plan = check(
        text,
        "PUT 2:\n+    x = 2\n+    return 1\n",
        "def f():\n    x = 2\n    return 1\n    return 1\n",
    );
    warns(&plan, 3);
}

#[test]
fn a_repetition_within_the_range_gets_no_note() {
    let plan = check("}\n}\nx\n", "PUT 1:\n+}\n+y\n+}\n", "}\ny\n}\n}\nx\n");
    assert_eq!(plan.sections[0].notes, []);
}

#[test]
fn line_number_prefixes_are_not_written() {
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f");
    let anchor = session.anchor("f", 3);
    session.refused_for(&format!("[f#{tag}]\nPUT 3:\n+{anchor}:new text\n"), Reason::InvalidPatch);
    session.refused_for(&format!("[f#{tag}]\nPUT 3..=4:\n+3:new\n+4:text\n"), Reason::InvalidPatch);
    session.refused_for(&format!("[f#{tag}]\nPUT >3:\n+4: new\n"), Reason::InvalidPatch);
    session.refused_for(&format!("[f#{tag}]\nPUT 3:\n+{anchor}\tnew text\n"), Reason::InvalidPatch);
    session.refused_for(&format!("[f#{tag}]\nPUT 3..=4:\n+3\tnew\n+4\ttext\n"), Reason::InvalidPatch);
    // A read shows an empty line without its number.
    session.refused_for(&format!("[f#{tag}]\nPUT 3..=5:\n+3\tnew\n+\n+5\ttext\n"), Reason::InvalidPatch);
    for [one, two] in
        [["3|new", "4|text"], ["3 | new", "4 | text"], ["   3\tnew", "   4\ttext"], ["3→new", "4→text"]]
    {
        session.refused_for(&format!("[f#{tag}]\nPUT 3..=4:\n+{one}\n+{two}\n"), Reason::InvalidPatch);
    }
}

#[test]
fn numbers_that_belong_to_the_file_are_written() {
    check("a: b\n1: x\n2: y\n", "PUT 2..=3:\n+1: z\n+2: w\n", "a: b\n1: z\n2: w\n");
    check("a\nb\n", "PUT 2:\n+80: http\n", "a\n80: http\n");
    check("a\nb\nc\n", "PUT 3:\n+2:keep\n", "a\nb\n2:keep\n");
    check("a\n", "PUT >1:\n+2:keep\n", "a\n2:keep\n");
    check("a\n1|x\n2|y\n", "PUT 2..=3:\n+2|x\n+3|y\n", "a\n2|x\n3|y\n");
    check("id\tname\n1\tx\n2\ty\n", "PUT 2..=3:\n+2\tx\n+3\ty\n", "id\tname\n2\tx\n3\ty\n");
    check("d = {\n}\n", "PUT >1:\n+    2: 3,\n", "d = {\n    2: 3,\n}\n");
}

#[test]
fn elision_rows_are_refused_as_body() {
    for row in ["… 3..=4 not shown", "3-4: …", "3..4: def f(): ..."] {
        check_refused(&numbered(9), &format!("PUT 2..=5:\n+x\n+{row}\n+y\n"), Reason::InvalidPatch);
    }
    check("… 3..=4 not shown\n", "PUT 1:\n+… 3..=9 not shown\n", "… 3..=9 not shown\n");
}

#[test]
fn headers_and_operations_are_refused_as_body_rows() {
    for row in ["[src/a.rs#3F2A]", "PUT 3kq:", "CUT 3..=4", "¶src/a.rs#3f2a", "3..4:", "3↓"] {
        check_refused(&numbered(9), &format!("PUT 2:\n+{row}\n"), Reason::InvalidPatch);
    }
    check("[table]\n#[derive(A)]\n", "PUT 2:\n+#[derive(B)]\n+[other]\n", "[table]\n#[derive(B)]\n[other]\n");
}

#[test]
fn quoted_headers_and_elisions_are_written() {
    let quoted = "    [a.py#AE3F]\n    1fh:def f(x):\n    … 6..=10 not shown\n";
    let rows: String = quoted.lines().map(|row| format!("+{row}\n")).collect();
    check("a\n", &format!("PUT >1:\n{rows}"), &format!("a\n{quoted}"));
    check("a\nb\n", &format!("PUT 2:\n{rows}"), &format!("a\n{quoted}"));
    // An elision of replaced lines, and an operation, are refused however they are indented.
    for row in ["    … 3..=4 not shown", "    PUT 3kq:"] {
        check_refused(&numbered(9), &format!("PUT 2..=5:\n+{row}\n"), Reason::InvalidPatch);
    }
}

#[test]
fn byte_order_mark_survives() {
    check("\u{feff}a\nb\n", "PUT 1:\n+x\n", "\u{feff}x\nb\n");
    check("\u{feff}a\nb\n", "PUT <1:\n+x\n", "\u{feff}x\na\nb\n");
    check("\u{feff}a\nb\n", "CUT 1\n", "\u{feff}b\n");
}

#[test]
fn each_line_keeps_its_own_line_end() {
    check("a\r\nb\nc\r\n", "PUT 2:\n+x\n", "a\r\nx\nc\r\n");
    check("a\r\nb\nc\r\n", "PUT 1:\n+x\n", "x\r\nb\nc\r\n");
    check("a\r\nb\nc\r\n", "PUT >3:\n+x\n", "a\r\nb\nc\r\nx\r\n");
}

#[test]
fn a_file_with_cr_line_ends_keeps_them() {
    check("a\rb\rc\r", "PUT 2:\n+x\n+y\n", "a\rx\ry\rc\r");
}

#[test]
fn trailing_blanks_are_part_of_the_text() {
    check("a  \nb\t\n", "PUT 2:\n+x \n", "a  \nx \n");
    let mut session = Session::new(&[("f", "a\nb\n")]);
    let tag = session.read("f");
    session.write("f", "a \nb\n");
    session.refused_for(&format!("[f#{tag}]\nPUT 1:\n+x\n"), Reason::Stale);
    assert_ne!(session.read("f"), tag);
}

#[test]
fn the_editors_unsaved_text_is_the_text() {
    // The text from `current` is edited; the text on disk plays no part.
    let mut session = Session::new(&[("f", &numbered(9))]);
    let tag = session.read("f");
    session.type_in("f", TextEdit::insert(0, "unsaved\n"));
    session.edited(&format!("[f#{tag}]\nPUT 5:\n+x\n"));
    assert_eq!(session.text("f"), format!("unsaved\n{}", numbered(9).replace("line 5", "x")));
}

#[test]
fn reversed_ranges_and_counts_are_refused() {
    for range in ["9..=3", "9-3", "12..2"] {
        assert!(Patch::parse(&format!("[f#3F2A]\nCUT {range}\n")).is_err());
    }
}

#[test]
fn mistyped_register_deletes_nothing() {
    check_refused("a\nb\nc\n", "CUT 1 @foo\nPUT >3 @fo\n", Reason::InvalidPatch);
}

#[test]
fn call_of_several_files_is_all_or_nothing() {
    let mut session = Session::new(&[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    let (a, c) = (session.read("a"), session.read("c"));
    let refusal = session.refused(&format!("[a#{a}]\nCUT 1\n[b#BEEF]\nCUT 1\n[c#{c}]\nCUT 1..=2\n"));
    let paths: Vec<&str> = refusal.sections.iter().map(|section| section.path.as_str()).collect();
    assert_eq!(paths, ["b", "c"], "every refused section is reported, not only the first");
}

#[test]
fn one_file_in_two_spellings_is_one_file() {
    let mut session = Session::new(&[("f", "a\nb\n")]);
    let tag = session.read("f");
    session.edit(&format!("[./f#{tag}]\nPUT 1:\n+x\n[f#{tag}]\nPUT 2:\n+y\n")).unwrap();
    assert_eq!(session.text("f"), "x\ny\n");
    assert!(Patch::parse("[./f#3F2A]\nCUT 1\n[f#3F2B]\nCUT 1\n").is_err());
}

#[test]
fn put_without_a_body_is_refused() {
    assert!(Patch::parse("[f#3F2A]\nPUT 1..=2:\n").is_err());
}

#[test]
fn two_edits_of_one_line_are_refused() {
    check_refused("a\nb\n", "PUT 1:\n+x\nPUT 1:\n+y\n", Reason::Overlap);
}

#[test]
fn a_text_that_legitimately_returns_is_accepted() {
    let mut session = Session::new(&[("f", "a\nb\n")]);
    let tag = session.read("f");
    session.write("f", "z\n");
    session.read("f");
    session.write("f", "a\nb\n");
    assert_eq!(session.edited(&format!("[f#{tag}]\nPUT 2:\n+x\n")).0, Strategy::Exact);
}

#[test]
fn copied_row_numbers_never_become_text() {
    // In each body, at least one row has the number and the check of some read.
    for body in ["+9qq\tx\n", "+x\n+9qq\ty\n", "+9#QQ:x\n", "+ 9qq\tx\n+y\n", "++9qq\tx\n"] {
        for operation in ["PUT 2:", "PUT >3:", "PUT >$:"] {
            check_refused(&numbered(9), &format!("{operation}\n{body}"), Reason::InvalidPatch);
        }
    }
    // A file that has such rows may get more.
    check("1kq\ta\nb\n", "PUT 2:\n+9qq\tb\n", "1kq\ta\n9qq\tb\n");
    check("a\nb\n", "PUT 2:\n+10am: lunch\n+7\tc\n", "a\n10am: lunch\n7\tc\n");
}
