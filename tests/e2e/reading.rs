//! The tool `read`: its output is bounded, numbered, and reports omissions.

use expect_test::expect;
use serde_json::json;
use tests::{Batch, Sandbox, check_output};

#[test]
fn a_truncated_file_names_the_call_that_continues() {
    let text: String = (1..=3000).map(|line| format!("line {line}\n")).collect();
    let sandbox = Sandbox::with(&[("long.txt", &text)]);
    let first = sandbox.tool("read", &json!({"path": "long.txt", "offset": 1})).ok();
    assert!(first.contains("\tline 2000\n") && !first.contains("\tline 2001\n"), "not cut at 2000 lines");
    assert!(first.contains("offset 2001"), "{}", &first[first.len() - 200..]);
    let rest = sandbox.tool("read", &json!({"path": "long.txt", "offset": 2001})).ok();
    assert!(rest.contains("\tline 3000\n") && !rest.contains("\tline 2000\n"));
    let part = sandbox.tool("read", &json!({"path": "long.txt", "offset": 10, "limit": 2})).ok();
    check_output(
        &part,
        &expect![[r#"
            [long.txt#AEDBE84F]
            10wf	line 10
            11ah	line 11
            (lines 10 to 11 of 3000)
        "#]],
    );
    sandbox.tool("read", &json!({"path": "long.txt", "offset": 3001})).fails("invalid_arguments");
    sandbox.tool("read", &json!({"path": "long.txt", "offset": 0})).fails("invalid_arguments");
}

#[test]
fn only_the_overlong_line_is_refused() {
    let text = format!("before\n{}\nafter\n", "x".repeat(60_000));
    let sandbox = Sandbox::with(&[("wide.txt", &text)]);
    let first = sandbox.tool("read", &json!({"path": "wide.txt"})).ok();
    check_output(
        &first,
        &expect![[r#"
            [wide.txt#544D9578]
            1xx	before
            (lines 1 to 1 of 3)
            (cut at 1 lines; read on with offset 2)
        "#]],
    );
    assert!(first.len() < 1000, "{first}");
    let said = sandbox.tool("read", &json!({"path": "wide.txt", "offset": 2})).fails("too_large");
    check_output(
        &said,
        &expect![[
            r#"line 2 has 60001 bytes, and 51200 can be shown; use a command, or `write` the whole file; read on with offset 3"#
        ]],
    );
    assert!(sandbox.tool("read", &json!({"path": "wide.txt", "offset": 3})).ok().contains("\tafter\n"));
}

#[test]
fn lines_not_shown_cannot_be_edited() {
    let text: String = (1..=3000).map(|line| format!("line {line}\n")).collect();
    let sandbox = Sandbox::with(&[("long.txt", &text)]);
    let mut batch = Batch::start(&sandbox);
    let shown = batch.view("long.txt");
    let refused = batch.edit(&format!("[{}]\nPUT 2500:\n+x\n", shown.header));
    let said = refused.fails("unseen_lines");
    check_output(
        &said,
        &expect![[r#"
            Not applied, nothing was changed.
            long.txt: the edit touches line 2500, which was not shown; check below, then send the edit again
            [long.txt#E84F]
            2497bx	line 2497
            2498zc	line 2498
            2499gs	line 2499
            2500vn	line 2500
            2501cv	line 2501
            2502hm	line 2502
            2503jt	line 2503
        "#]],
    );
    assert_eq!(sandbox.read("long.txt"), text);
}

#[test]
fn an_empty_file_and_a_directory_are_shown_as_such() {
    let sandbox = Sandbox::with(&[("empty.txt", ""), ("folder/a.txt", "a\n"), ("folder/b/c.txt", "c\n")]);
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("read", &json!({"path": "empty.txt"})).ok();
    let header = said.lines().next().expect("a header").to_owned();
    check_output(
        &said,
        &expect![[r#"
        [empty.txt#5D05]
        (empty file; insert with `PUT <1:`)
    "#]],
    );
    batch.edit(&format!("{header}\nPUT <1:\n+first\n")).ok();
    assert_eq!(sandbox.read("empty.txt").trim_end(), "first");
    let said = batch.call("read", &json!({"path": "folder"})).ok();
    check_output(
        &said,
        &expect![[r#"
        folder (2 entries)
        a.txt (2 bytes)
        b/
    "#]],
    );
}

#[test]
fn a_file_is_replaced_only_after_a_full_read() {
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
    check_output(
        &said,
        &expect![[r#"
        [new folder/n.txt#BB9E]
        write new folder/n.txt: +1 -0 lines in 1 file
          new folder/n.txt: created
    "#]],
    );
    assert_eq!(sandbox.read("new folder/n.txt"), "new\n");
}

#[test]
fn a_file_written_whole_keeps_its_line_endings() {
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
