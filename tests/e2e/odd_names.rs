//! What is asked for by an odd name, or by a word that nobody knows, is told from a slip.

use serde_json::json;
use tests::{Batch, Sandbox};

#[test]
fn blanks_at_the_ends_of_a_name_are_part_of_it() {
    let sandbox = Sandbox::with(&[("tw", "bare\n"), ("tw ", "blank\n")]);
    let mut batch = Batch::start(&sandbox);
    batch.view("tw");
    let blank = batch.view("tw ");
    batch.edit(&blank.put("blank", "changed")).ok();
    assert_eq!((sandbox.read("tw"), sandbox.read("tw ")), ("bare\n".into(), "changed\n".into()));
    // Without such a file they are a slip.
    let bare = batch.view("tw");
    batch.edit(&bare.put("bare", "found").replacen("[tw#", "[ tw#", 1)).ok();
    assert_eq!(sandbox.read("tw"), "found\n");
}

#[test]
fn a_folder_and_a_name_of_two_lines_are_refused_in_words() {
    let sandbox = Sandbox::with(&[("sub/a", "a\n"), ("two\nlines", "x\n")]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.edit("[sub#1234]\nCUT 1\n").fails("not_a_file");
    assert!(said.contains("`sub` is a folder"), "{said}");
    let said = batch.call("read", &json!({"path": "two\nlines"})).fails("unsupported");
    assert!(said.contains("line end"), "{said}");
}

#[test]
fn two_names_of_one_file_are_one_file() {
    let sandbox = Sandbox::with(&[("one", "a\nb\nc\n")]);
    std::fs::hard_link(sandbox.project().join("one"), sandbox.project().join("two")).expect("a hard link");
    let mut batch = Batch::start(&sandbox);
    let (one, two) = (batch.view("one"), batch.view("two"));
    let said = batch.edit(&format!("{}{}", one.put("a", "A"), two.put("c", "C"))).fails("invalid_patch");
    assert!(said.contains("one and two"), "{said}");
    assert_eq!(sandbox.read("one"), "a\nb\nc\n");
}

#[test]
fn an_argument_that_no_tool_knows_is_named() {
    let sandbox = Sandbox::with(&[("a", "a\n")]);
    let said = sandbox.tool("read", &json!({"path": "a", "foo": 1})).ok();
    assert!(said.contains(":a\n") && said.contains("`foo`"), "{said}");
}

#[test]
fn a_line_too_long_to_show_is_refused_with_a_way_on() {
    let text = "var a=[1,2,{b:function(c){return c+1}}];".repeat(4_000);
    let sandbox = Sandbox::with(&[("min.js", &text)]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("read", &json!({"path": "min.js"})).fails("too_large");
    assert!(said.contains("cannot be edited") && !said.contains("offset"), "{said}");
}

#[test]
fn an_edit_tells_no_more_than_a_read_would() {
    let long = "x".repeat(3_000_000);
    let sandbox = Sandbox::with(&[("wide.txt", &format!("a\n{long}\n"))]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.call("read", &json!({"path": "wide.txt", "offset": 1, "limit": 1})).ok();
    let (header, row) = (shown.lines().next().unwrap(), shown.lines().nth(1).unwrap());
    let anchor = row.split_once(':').unwrap().0;
    let said = batch.edit(&format!("{header}\nPUT {anchor}:\n+b\n")).ok();
    assert!(said.len() < 1000, "{}", said.len());
    assert_eq!(sandbox.read("wide.txt"), format!("b\n{long}\n"));
}
