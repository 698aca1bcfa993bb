//! An edit of a text that is not there any more: refused with the current lines under a fresh tag,
//! nothing written, and the edit that uses them goes through.

use serde_json::json;
use tests::batch::View;
use tests::{Batch, Sandbox};

#[test]
fn a_stale_edit_is_refused_with_what_is_needed_to_try_again() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n"), ("b.txt", "other\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("a.txt");
    let other = batch.view("b.txt");
    assert_eq!(
        shown.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(),
        ["one", "two", "three"]
    );

    // The very line that the edit means has changed: no way of carrying it over is right.
    sandbox.write("a.txt", "one\nTWO by someone else\nthree\n");
    let start = sandbox.tree();
    let patch = format!("{}{}", other.put("other", "OTHER"), shown.put("two", "zwei"));
    let refusal = batch.edit(&patch).fails("stale_text");
    assert_eq!(sandbox.tree(), start, "a refused edit wrote something");
    assert!(refusal.contains("TWO by someone else"), "the current line is not shown: {refusal}");

    let fresh = View::parse(&refusal);
    assert_ne!(fresh.header, shown.header, "the tag is not a fresh one: {refusal}");
    batch.edit(&fresh.put("TWO by someone else", "zwei")).ok();
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");
    assert_eq!(sandbox.read("b.txt"), "other\n");
    assert!(batch.end().0.success());
}

#[test]
fn the_tag_in_an_edits_answer_is_good_for_the_next_edit() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("a.txt");
    let said = batch.edit(&shown.put("two", "zwei")).ok();
    let next = View::parse(&said);
    batch.edit(&next.put("zwei", "deux")).ok();
    assert_eq!(sandbox.read("a.txt"), "one\ndeux\nthree\n");
}

#[test]
fn bytes_around_an_edit_stay_as_they_are() {
    let sandbox = Sandbox::new();
    sandbox.write("crlf.txt", "\u{feff}one\r\ntwo\r\nthree \u{1f600}");
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("crlf.txt");
    batch.edit(&shown.put("two", "zwei")).ok();
    assert_eq!(sandbox.read("crlf.txt"), "\u{feff}one\r\nzwei\r\nthree \u{1f600}");
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_replaced_whole() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let mut batch = Batch::start(&sandbox);
    batch.view("a.txt");
    sandbox.write("a.txt", "someone else\n");
    let refused = batch.call("write", &json!({"path": "a.txt", "content": "mine\n", "overwrite": true}));
    refused.fails("stale_text");
    assert_eq!(sandbox.read("a.txt"), "someone else\n");
}

#[test]
fn what_one_process_showed_the_next_one_can_edit() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let patch = View::parse(&sandbox.run(&["read", "a.txt"]).expect(0).stdout).put("two", "zwei");
    sandbox.run_with_input(&["edit"], &patch).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");
    // Sent twice it is no mistake, and does nothing twice.
    sandbox.run_with_input(&["edit"], &patch).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");

    sandbox.write("a.txt", "one\nsomeone else\nthree\n");
    let refused = sandbox.run_with_input(&["edit"], &patch).expect(1);
    assert!(refused.all().contains("someone else"), "the current line is not shown: {refused:?}");
    // The lines of a refusal are good for the next process too.
    let fresh = View::parse(&refused.all()).put("someone else", "zwei");
    sandbox.run_with_input(&["edit"], &fresh).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");
}

#[test]
fn a_refusal_is_the_details_of_the_call() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\nthree\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("a.txt");
    // Nobody changed the file: the edit does not fit it, and the file is not said to be stale.
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
fn a_file_is_not_deleted_unread_nor_through_a_link() {
    let long: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n"), ("long.txt", &long)]);
    std::os::unix::fs::symlink("a.txt", sandbox.project().join("link.txt")).expect("a link");
    let mut batch = Batch::start(&sandbox);
    let start = sandbox.tree();
    let some = batch.call("read", &json!({"path": "long.txt", "limit": 3})).ok();
    let header = some.lines().next().expect("a header");
    let said = batch.edit(&format!("{header}\nREM\n")).fails("unseen_lines");
    assert!(said.contains("read them first"), "{said}");
    let shown = batch.view("link.txt");
    let through = shown.header.replace("a.txt", "link.txt");
    for operation in ["REM", "MV b.txt"] {
        let said = batch.edit(&format!("[{through}]\n{operation}\n")).fails("ambiguous");
        assert!(said.contains("a link to `a.txt`"), "{said}");
    }
    assert_eq!(sandbox.tree(), start);
    batch.edit(&format!("[{}]\nREM\n", shown.header)).ok();
    assert!(!sandbox.project().join("a.txt").exists());
}

#[test]
fn a_path_has_one_spelling_in_every_command() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n")]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("x/../a.txt");
    assert!(shown.header.starts_with("a.txt#"), "{}", shown.header);
    let other = shown.put("two", "zwei").replace("[a.txt#", "[./x/../a.txt#");
    batch.edit(&other).ok();
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\n");
}
