//! The setting `hashline.dialect`: output uses it, and every dialect is parsed.

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, check_output};

const TEXT: &str = "one\ntwo\nthree\n";

fn sandbox(dialect: &str) -> Sandbox {
    let mut sandbox = Sandbox::with(&[("a.txt", TEXT), ("empty.txt", "")]);
    sandbox.variables.insert("PILCROW_HASHLINE_DIALECT".to_owned(), dialect.to_owned());
    sandbox
}

/// The anchor before the tab of the row with this text.
#[track_caller]
fn anchor<'a>(shown: &'a str, text: &str) -> &'a str {
    let row = shown.lines().find_map(|row| row.strip_suffix(text)?.strip_suffix('\t'));
    row.unwrap_or_else(|| panic!("no row {text:?} in {shown}")).trim_start_matches(['+', ' '])
}

#[test]
fn the_arrow_dialect_is_shown_and_read() {
    let sandbox = sandbox("arrow");
    let mut batch = Batch::start(&sandbox);
    let shown = batch.call("read", &json!({"path": "a.txt"})).ok();
    let (header, rows) = shown.split_once('\n').expect("a header");
    assert!(header.starts_with("¶a.txt#") && header == header.to_lowercase(), "{shown}");
    assert_eq!(rows, "1\tone\n2\ttwo\n3\tthree\n");
    let said = batch.edit(&format!("{header}\n2:zwei\n3↓\n+four\n")).ok();
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\nfour\n");
    let (header, rows) = said.split_once('\n').expect("a header");
    assert!(header.starts_with("¶a.txt#") && rows.starts_with("2\tzwei\n"), "{said}");

    sandbox.write("a.txt", "another user\n");
    let refused = batch.edit(&format!("{header}\n2!\n")).fails("stale_text");
    check_output(
        &refused,
        &expect![[r#"
        Not applied, nothing was changed.
        a.txt: the file changed since tag 62CB and the lines cannot be located; write the edit for the lines below
        ¶a.txt#2823
        1	another user
    "#]],
    );
    let refused = batch.edit(&format!("{header}\nCUT 2 @r\n")).fails("invalid_patch");
    assert!(refused.contains("[PATH#TAG]"), "{refused}");
    let empty = batch.call("read", &json!({"path": "empty.txt"})).ok();
    assert!(empty.contains("`1↑`"), "{empty}");
    batch.edit(&format!("{}\n1↑first\n", empty.lines().next().expect("a header"))).ok();
    assert_eq!(sandbox.read("empty.txt"), "first\n");
}

#[test]
fn the_json_dialect_takes_the_patch_as_arguments() {
    let sandbox = sandbox("json");
    let mut batch = Batch::start(&sandbox);
    let shown = batch.call("read", &json!({"path": "a.txt"})).ok();
    assert!(shown.starts_with("[a.txt#"), "{shown}");
    let two = anchor(&shown, "two");
    assert!(two.len() == 3 && two.starts_with('2'), "{shown}");

    // The first edit has no tag, and the second uses the rows of the result.
    let edits = json!([{"op": "replace", "pos": two, "lines": ["zwei", ""]}, {"op": "append", "pos": anchor(&shown, "three"), "lines": "four"}]);
    let said = batch.call("edit", &json!({"path": "a.txt", "edits": edits})).ok();
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\n\nthree\nfour\n");
    let edit = |pos: &str, lines: Value| json!({"path": "a.txt", "edits": [{"op": "replace", "pos": pos, "lines": lines}]});
    batch.call("edit", &edit(anchor(&said, "zwei"), Value::Null)).ok();
    assert_eq!(sandbox.read("a.txt"), "one\n\nthree\nfour\n");

    let refused = batch.call("edit", &edit("3", json!(["x"]))).fails("invalid_patch");
    assert!(refused.contains("\"3\" has no check"), "{refused}");
    let refused = batch.call("edit", &edit("2#ZZ", json!(["x"]))).fails("invalid_patch");
    batch.call("edit", &edit(anchor(&refused, "three"), json!("[\"not an array\"]"))).ok();
    assert_eq!(sandbox.read("a.txt"), "one\n\n[\"not an array\"]\nfour\n");
}

#[test]
fn every_dialect_is_parsed_whichever_is_shown() {
    for dialect in ["put", "arrow", "json"] {
        let sandbox = sandbox(dialect);
        let tag = |shown: String| {
            let header = shown.lines().next().expect("a header");
            header.rsplit_once('#').expect("a tag").1.trim_end_matches(']').to_owned()
        };
        let mut batch = Batch::start(&sandbox);
        let read = |batch: &mut Batch| tag(batch.call("read", &json!({"path": "a.txt"})).ok());
        let now = read(&mut batch);
        batch.edit(&format!("[a.txt#{now}]\nPUT <1:\n+zero\n")).ok();
        let now = read(&mut batch);
        batch.edit(&format!("¶a.txt#{now}\n1↑null\n")).ok();
        let now = read(&mut batch);
        let patch = json!({"path": "a.txt", "tag": now, "edits": [{"op": "append", "lines": ["end"]}]});
        batch.edit(&patch.to_string()).ok();
        assert_eq!(sandbox.read("a.txt"), "null\nzero\none\ntwo\nthree\nend\n", "{dialect}");
    }
}

#[test]
fn dialects_mix_across_processes() {
    let sandbox = sandbox("arrow");
    let shown = sandbox.run(&["read", "a.txt"]).expect(0).stdout;
    let header = shown.lines().next().expect("a header").to_owned();
    sandbox.run_with_input(&["edit"], &format!("{header}\n2:zwei\n")).expect(0);
    assert_eq!(sandbox.read("a.txt"), "one\nzwei\nthree\n");
    let refused = sandbox.run_with_input(&["edit"], "{\"path\": \"a.txt\",\n \"edits\": [{]}\n").expect(1);
    check_output(
        &refused.all(),
        &expect![[r#"
            not applied: line 2 of the patch: column 13: invalid JSON: key must be a string; write {"path": …, "tag": …, "edits": […]}, or an array of these
        "#]],
    );
}
