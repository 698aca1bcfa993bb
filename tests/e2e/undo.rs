//! Taking back and taking back the taking back, with what the person did in between.

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
fn undo_gives_every_byte_back_and_redo_takes_it_again() {
    let sandbox = edited();
    let after = sandbox.tree();
    sandbox.run(&["undo"]).expect(0);
    assert_eq!((sandbox.read("a.txt").as_str(), sandbox.read("sub/b.txt").as_str()), (A, B));
    sandbox.run(&["redo"]).expect(0);
    assert_eq!(sandbox.tree(), after);
}

#[test]
fn undo_keeps_the_lines_that_the_person_edited_since() {
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
fn what_cannot_be_taken_back_is_listed_and_left() {
    let sandbox = edited();
    let mine = sandbox.read("a.txt").replace("new a", "mine now");
    sandbox.write("a.txt", &mine);
    let ran = sandbox.run(&["undo"]);
    assert_eq!(sandbox.read("a.txt"), mine, "a line of the person's was overwritten");
    assert_eq!(sandbox.read("sub/b.txt"), B);
    assert!(ran.all().contains("a.txt"), "nothing was said of a.txt: {ran:?}");
}

#[test]
fn a_created_file_goes_only_if_it_is_as_it_was_made() {
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
fn with_nothing_to_undo_it_says_so() {
    let sandbox = Sandbox::with(&[("a.txt", A)]);
    let ran = sandbox.run(&["undo"]).expect(1);
    assert!(!ran.all().trim().is_empty());
    assert_eq!(sandbox.read("a.txt"), A);
}
