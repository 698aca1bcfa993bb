//! What `read` shows: bounded, numbered, and honest about what it leaves out.

use serde_json::json;
use tests::{Batch, Sandbox};

#[test]
fn a_long_file_is_cut_and_says_how_to_go_on() {
    let text: String = (1..=3000).map(|line| format!("line {line}\n")).collect();
    let sandbox = Sandbox::with(&[("long.txt", &text)]);
    let first = sandbox.tool("read", &json!({"path": "long.txt"})).ok();
    assert!(first.contains(":line 2000\n") && !first.contains(":line 2001\n"), "not cut at 2000 lines");
    assert!(first.contains("offset 2001"), "{}", &first[first.len() - 200..]);
    let rest = sandbox.tool("read", &json!({"path": "long.txt", "offset": 2001})).ok();
    assert!(rest.contains(":line 3000\n") && !rest.contains(":line 2000\n"));
    let part = sandbox.tool("read", &json!({"path": "long.txt", "offset": 10, "limit": 2})).ok();
    assert!(
        part.contains(":line 11\n")
            && !part.contains(":line 12\n")
            && part.contains("lines 10 to 11 of 3000"),
        "{part}"
    );
    sandbox.tool("read", &json!({"path": "long.txt", "offset": 3001})).fails("invalid_arguments");
    sandbox.tool("read", &json!({"path": "long.txt", "offset": 0})).fails("invalid_arguments");
}

#[test]
fn a_line_that_is_too_long_is_refused_and_the_lines_around_it_are_not() {
    let text = format!("before\n{}\nafter\n", "x".repeat(60_000));
    let sandbox = Sandbox::with(&[("wide.txt", &text)]);
    let first = sandbox.tool("read", &json!({"path": "wide.txt"})).ok();
    assert!(first.contains(":before\n") && first.len() < 1000 && first.contains("offset 2"), "{first}");
    let said = sandbox.tool("read", &json!({"path": "wide.txt", "offset": 2})).fails("too_large");
    assert!(said.contains("60001 bytes") && said.contains("offset 3"), "{said}");
    assert!(sandbox.tool("read", &json!({"path": "wide.txt", "offset": 3})).ok().contains(":after\n"));
}

#[test]
fn lines_that_were_not_shown_cannot_be_edited() {
    let text: String = (1..=3000).map(|line| format!("line {line}\n")).collect();
    let sandbox = Sandbox::with(&[("long.txt", &text)]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("long.txt");
    let refused = batch.edit(&format!("[{}]\nPUT 2500:\n+x\n", shown.header));
    let said = refused.fails("unseen_lines");
    assert!(said.contains("line 2500"), "{said}");
    assert_eq!(sandbox.read("long.txt"), text);
}

#[test]
fn an_empty_file_and_a_folder_are_shown_as_what_they_are() {
    let sandbox = Sandbox::with(&[("empty.txt", ""), ("folder/a.txt", "a\n"), ("folder/b/c.txt", "c\n")]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("read", &json!({"path": "empty.txt"})).ok();
    let header = said.lines().next().expect("a header").to_owned();
    assert!(said.contains("empty file"), "{said}");
    batch.edit(&format!("{header}\nPUT <1:\n+first\n")).ok();
    assert_eq!(sandbox.read("empty.txt").trim_end(), "first");
    let said = batch.call("read", &json!({"path": "folder"})).ok();
    assert!(said.contains("a.txt (2 bytes)") && said.contains("b/\n"), "{said}");
}

#[test]
fn a_whole_file_is_replaced_only_when_it_was_read_whole() {
    let text: String = (1..=3000).map(|line| format!("line {line}\n")).collect();
    let sandbox = Sandbox::with(&[("long.txt", &text), ("a.txt", "one\n")]);
    let mut batch = Batch::start(&sandbox);
    let write =
        |path: &str, overwrite: bool| json!({"path": path, "content": "new\n", "overwrite": overwrite});
    batch.call("write", &write("a.txt", false)).fails("conflict");
    batch.call("write", &write("a.txt", true)).fails("stale_text");
    batch.view("a.txt");
    batch.call("write", &write("a.txt", true)).ok();
    assert_eq!(sandbox.read("a.txt"), "new\n");
    batch.view("long.txt");
    batch.call("write", &write("long.txt", true)).fails("stale_text");
    assert_eq!(sandbox.read("long.txt"), text);
    let said = batch.call("write", &write("new folder/n.txt", false)).ok();
    assert!(said.starts_with("[new folder/n.txt#"), "{said}");
    assert_eq!(sandbox.read("new folder/n.txt"), "new\n");
}

#[test]
fn a_file_that_is_written_whole_keeps_its_line_ends() {
    let sandbox = Sandbox::with(&[("crlf.txt", "one\r\ntwo\r\n"), ("mixed.txt", "one\r\ntwo\n")]);
    let mut batch = Batch::start(&sandbox);
    for (file, expected) in [("crlf.txt", "a\r\nb\r\n"), ("mixed.txt", "a\nb\n")] {
        batch.call("read", &json!({"path": file})).ok();
        let args = json!({"path": file, "content": "a\nb\n", "overwrite": true});
        let said = batch.call("write", &args).ok();
        assert_eq!(sandbox.read(file), expected);
        assert_eq!(said.contains("CRLF"), file == "crlf.txt", "{said}");
    }
    batch.end();
}
