//! Undo and redo, with the user's changes in between.

use serde_json::json;
use tests::{Batch, Sandbox};

const A: &str = "head\n1\n2\n3\nold a\n5\n6\n7\ntail\n";
const B: &str = "head\r\n1\r\n2\r\nold b\r\n4\r\n5\r\ntail";

fn edited() -> Sandbox {
    let sandbox = Sandbox::with(&[("a.txt", A), ("sub/b.txt", B)]);
    let mut batch = Batch::start(&sandbox);
    let patch = batch.view("a.txt").put("old a", "new a\n+and one more")
        + &batch.view("sub/b.txt").put("old b", "new b");
    batch.edit(&patch).ok();
    assert!(batch.end().0.success());
    assert_eq!(sandbox.read("a.txt"), A.replace("old a", "new a\nand one more"));
    assert_eq!(sandbox.read("sub/b.txt"), B.replace("old b", "new b"));
    sandbox
}

#[test]
fn undo_restores_every_byte_and_redo_reapplies() {
    let sandbox = edited();
    let after = sandbox.tree();
    sandbox.run(&["undo"]).expect(0);
    assert_eq!((sandbox.read("a.txt").as_str(), sandbox.read("sub/b.txt").as_str()), (A, B));
    sandbox.run(&["redo"]).expect(0);
    assert_eq!(sandbox.tree(), after);
}

#[test]
fn undo_keeps_lines_the_user_edited_since() {
    let sandbox = edited();
    let a = sandbox.read("a.txt").replace("head\n", "by me\nhead\n").replace("tail", "my tail");
    let b = sandbox.read("sub/b.txt").replace("\r\n5\r\n", "\r\n5\r\nmine\r\n");
    sandbox.write("a.txt", &a);
    sandbox.write("sub/b.txt", &b);
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.read("a.txt"), a.replace("new a\nand one more", "old a"));
    assert_eq!(sandbox.read("sub/b.txt"), b.replace("new b", "old b"));
}

#[test]
fn undo_lists_and_leaves_conflicting_changes() {
    let sandbox = edited();
    let mine = sandbox.read("a.txt").replace("new a", "mine now");
    sandbox.write("a.txt", &mine);
    let ran = sandbox.run(&["undo"]);
    assert_eq!(sandbox.read("a.txt"), mine, "a line of the user was overwritten");
    assert_eq!(sandbox.read("sub/b.txt"), B);
    assert!(ran.all().contains("a.txt"), "nothing was said of a.txt: {ran:?}");
}

#[test]
fn undo_deletes_a_created_file_only_if_unchanged() {
    for (changed, stays) in [(false, false), (true, true)] {
        let sandbox = Sandbox::with(&[("a.txt", A)]);
        sandbox.tool("write", &json!({"path": "made/here.txt", "content": "made\n"})).ok();
        if changed {
            sandbox.write("made/here.txt", "made, and mine\n");
        }
        sandbox.run(&["undo"]);
        assert_eq!(sandbox.tree().contains_key("made/here.txt"), stays);
        assert_eq!(sandbox.read("a.txt"), A);
    }
}

#[test]
fn undo_reports_when_there_is_nothing_to_undo() {
    let sandbox = Sandbox::with(&[("a.txt", A)]);
    let ran = sandbox.run(&["undo"]).expect(1);
    assert!(!ran.all().trim().is_empty());
    assert_eq!(sandbox.read("a.txt"), A);
}
