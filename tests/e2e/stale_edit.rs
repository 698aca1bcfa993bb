//! An edit of a stale text: refused with the current lines under a new tag.
//!
//! No file is written, and the edit that uses those lines succeeds.

use expect_test::expect;
use serde_json::json;
use tests::batch::View;
use tests::{Batch, Sandbox, check_output};

#[test]
fn a_stale_edit_is_refused_with_the_current_lines() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "other\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("a.txt");
    let other = batch.view("b.txt");
    assert_eq!(
        shown.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(),
        ["one", "two", "three"]
    );

    // The edited line itself has changed: no mapping is correct.
    sandbox.write("a.txt", "one\nTWO by another user\nthree\n");
    let start = sandbox.tree();
    let patch = format!("{}{}", other.put("other", "OTHER"), shown.put("two", "zwei"));
    let refusal = batch.edit(&patch).fails("stale_text");
    assert_eq!(sandbox.tree(), start, "a refused edit wrote a file");
    check_output(
        &refusal,
        &expect![[r#"
        Not applied, nothing was changed.
        a.txt: the file changed since tag 2543 and the lines cannot be located; write the edit for the lines below
        [a.txt#E06D]
        1kh	one
        2ns	TWO by another user
        3zg	three
    "#]],
    );

    let fresh = View::parse(&refusal);
    assert_ne!(fresh.header, shown.header, "the tag is not a fresh one: {refusal}");
    batch.edit(&fresh.put("TWO by another user", "zwei")).ok();
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");
    assert_eq!(sandbox.read("b.txt"), "other\n");
    assert!(batch.end().0.success());
}

#[test]
fn the_tag_in_an_edit_result_is_valid_for_the_next_edit() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("a.txt");
    let said = batch.edit(&shown.put("two", "zwei")).ok();
    let next = View::parse(&said);
    batch.edit(&next.put("zwei", "deux")).ok();
    assert_eq!(sandbox.read("a.txt"), "one\ndeux\nthree\n");
}

#[test]
fn bytes_around_an_edit_are_unchanged() {
    let sandbox = Sandbox::new();
    sandbox.write("crlf.txt", "\u{feff}one\r\ntwo\r\nthree \u{1f600}");
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("crlf.txt");
    batch.edit(&shown.put("two", "zwei")).ok();
    assert_eq!(sandbox.read("crlf.txt"), "\u{feff}one\r\nzwei\r\nthree \u{1f600}");
}

#[test]
fn a_file_changed_since_the_read_is_not_overwritten() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let mut batch = Batch::start(&sandbox);
    batch.view("a.txt");
    sandbox.write("a.txt", "another user\n");
    let refused = batch.call("write", &json!({"path": "a.txt", "content": "mine\n", "overwrite": true}));
    refused.fails("stale_text");
    assert_eq!(sandbox.read("a.txt"), "another user\n");
}

#[test]
fn snapshots_carry_over_to_the_next_process() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let patch = View::parse(&sandbox.run(&["read", "a.txt"]).expect(0).stdout).put("two", "zwei");
    sandbox.run_with_input(&["edit"], &patch).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");
    // A repeated call is not a mistake and changes no file.
    sandbox.run_with_input(&["edit"], &patch).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");

    sandbox.write("a.txt", "one\nanother user\nthree\n");
    let refused = sandbox.run_with_input(&["edit"], &patch).expect(1);
    check_output(
        &refused.all(),
        &expect![[r#"
        Not applied, nothing was changed.
        a.txt: the file changed since tag A3982543 and the lines cannot be located; write the edit for the lines below
        [a.txt#FDCE]
        1eb	one
        2kh	another user
        3wu	three
    "#]],
    );
    // The lines of a refusal are valid for the next process too.
    let fresh = View::parse(&refused.all()).put("another user", "zwei");
    sandbox.run_with_input(&["edit"], &fresh).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");
}

#[test]
fn a_refusal_has_the_details_of_the_call() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("a.txt");
    // The file did not change: the edit does not fit it, and the file is not called stale.
    let wrong = format!("[{}]\nPUT 2zz:\n+zwei\n", shown.header);
    let answer = batch.edit(&wrong);
    answer.fails("invalid_patch");
    let details = &answer.value["details"];
    assert_eq!(details["reason"], "check_mismatch", "{details}");
    assert_eq!(details["sections"][0]["path"], "a.txt", "{details}");
    assert_eq!(details["sections"][0]["anchors"][0]["anchor"], "2zz", "{details}");
    sandbox.write("a.txt", "one\nzwo\nthree\n");
    let answer = batch.edit(&wrong);
    answer.fails("stale_text");
    assert_eq!(answer.value["details"]["reason"], "check_mismatch");
}

#[test]
fn a_file_is_not_deleted_unread_or_through_a_link() {
    let long: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n"), ("long.txt", &long)]);
    std::os::unix::fs::symlink("a.txt", sandbox.project().join("link.txt")).expect("a link");
    let mut batch = Batch::start(&sandbox);
    let start = sandbox.tree();
    let some = batch.call("read", &json!({"path": "long.txt", "limit": 3})).ok();
    let header = some.lines().next().expect("a header");
    let said = batch.edit(&format!("{header}\nREM\n")).fails("unseen_lines");
    check_output(
        &said,
        &expect![[r#"
            Not applied, nothing was changed.
            long.txt: the edit deletes 97 of lines 4 to 100 that were not shown; read them first
            [long.txt#E715]
            1sg	line 1
            2ar	line 2
            3uf	line 3
            98aj	line 98
            99ng	line 99
            100yd	line 100
        "#]],
    );
    let shown = batch.view("link.txt");
    let through = shown.header.replace("a.txt", "link.txt");
    let refused = ["REM", "MV b.txt"]
        .map(|operation| batch.edit(&format!("[{through}]\n{operation}\n")).fails("ambiguous"));
    check_output(
        &refused.join("\n"),
        &expect![[r#"
        not applied: `link.txt` is a link to `a.txt`; name `a.txt` to move or remove it
        To change the link, use a command
        not applied: `link.txt` is a link to `a.txt`; name `a.txt` to move or remove it
        To change the link, use a command"#]],
    );
    assert_eq!(sandbox.tree(), start);
    batch.edit(&format!("[{}]\nREM\n", shown.header)).ok();
    assert!(!sandbox.project().join("a.txt").exists());
}

#[test]
fn every_command_spells_a_path_the_same() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("x/../a.txt");
    assert!(shown.header.starts_with("a.txt#"), "{}", shown.header);
    let other = shown.put("two", "zwei").replace("[a.txt#", "[./x/../a.txt#");
    batch.edit(&other).ok();
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\n");
}
