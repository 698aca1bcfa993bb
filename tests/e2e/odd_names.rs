//! Unusual names and unknown words, as opposed to typing mistakes.

use expect_test::expect;
use serde_json::json;
use tests::{Batch, Sandbox, check_output};

#[test]
fn leading_and_trailing_blanks_belong_to_a_name() {
    let sandbox = Sandbox::with(&[("tw", "bare\n"), ("tw ", "blank\n")]);
    let mut batch = Batch::start(&sandbox);
    batch.view("tw");
    let blank = batch.view("tw ");
    batch.edit(&blank.put("blank", "changed")).ok();
    assert_eq!((sandbox.read("tw"), sandbox.read("tw ")), ("bare\n".into(), "changed\n".into()));
    // Without such a file the blanks are a mistake.
    let bare = batch.view("tw");
    batch.edit(&bare.put("bare", "found").replacen("[tw#", "[ tw#", 1)).ok();
    assert_eq!(sandbox.read("tw"), "found\n");
}

#[test]
fn a_directory_and_a_two_line_name_are_refused() {
    let sandbox = Sandbox::with(&[("sub/a", "a\n"), ("two\nlines", "x\n")]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.edit("[sub#1234]\nCUT 1\n").fails("not_a_file");
    check_output(&said, &expect!["not applied: `sub` is a directory; name a file in it"]);
    let said = batch.call("read", &json!({"path": "two\nlines"})).fails("unsupported");
    check_output(
        &said,
        &expect!["the file name contains a line break, which a header cannot show; rename the file"],
    );
}

#[test]
fn two_paths_to_one_file_are_one_file() {
    let sandbox = Sandbox::with(&[("one", "a\nb\nc\n")]);
    std::fs::hard_link(sandbox.project().join("one"), sandbox.project().join("two")).expect("a hard link");
    let mut batch = Batch::start(&sandbox);
    let (one, two) = (batch.view("one"), batch.view("two"));
    let said = batch.edit(&format!("{}{}", one.put("a", "A"), two.put("c", "C"))).fails("invalid_patch");
    check_output(
        &said,
        &expect!["two sections name the same file, one and two; put all operations into one section"],
    );
    assert_eq!(sandbox.read("one"), "a\nb\nc\n");
}

#[test]
fn an_unknown_argument_is_named() {
    let sandbox = Sandbox::with(&[("a", "a\n")]);
    let said = sandbox.tool("read", &json!({"path": "a", "foo": 1})).ok();
    assert!(said.contains("\ta\n") && said.contains("`foo`"), "{said}");
}

#[test]
fn an_overlong_line_is_refused_with_an_alternative() {
    let text = "var a=[1,2,{b:function(c){return c+1}}];".repeat(4_000);
    let sandbox = Sandbox::with(&[("min.js", &text)]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("read", &json!({"path": "min.js"})).fails("too_large");
    check_output(
        &said,
        &expect![[
            r#"line 1 has 160000 bytes, and 51200 can be shown; use a command, or `write` the whole file"#
        ]],
    );
}

#[test]
fn an_edit_shows_no_more_than_a_read() {
    let long = "x".repeat(3_000_000);
    let sandbox = Sandbox::with(&[("wide.txt", &format!("a\n{long}\n"))]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.call("read", &json!({"path": "wide.txt", "offset": 1, "limit": 1})).ok();
    let (header, row) = (shown.lines().next().unwrap(), shown.lines().nth(1).unwrap());
    let anchor = row.split_once('\t').unwrap().0;
    let said = batch.edit(&format!("{header}\nPUT {anchor}:\n+b\n")).ok();
    assert!(said.len() < 1000, "{}", said.len());
    assert_eq!(sandbox.read("wide.txt"), format!("b\n{long}\n"));
}
