//! Unsaved text takes precedence over the disk, also in files without a request.

use std::sync::Arc;

use serde_json::json;
use testing::language_server::{Script, Step};
use workspace::Editor;

use crate::bench::{LONG, build_beside, cx, range};
use crate::speculative::{Typing, pushed, with};

#[tokio::test]
async fn unsaved_files_are_opened_without_a_request() {
    let (bench, typing) = with(pushed(), "");
    typing.types(&bench.path("b.txt"), "typed");
    assert_eq!(bench.hover("a.txt").await, "a");
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 1: typed"]);
    typing.types(&bench.path("c.txt"), "typed too");
    typing.types(&bench.path("b.txt"), "typed more");
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 2: typed more", "c.txt 1: typed too"]);
    typing.closes(&bench.path("b.txt"));
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 3: b", "c.txt 1: typed too"]);
}

#[tokio::test]
async fn diagnostics_before_typing_elsewhere_are_outdated() {
    let (bench, typing) = with(pushed(), "");
    let opened = || bench.got("scripted", "textDocument/didOpen").len();
    for expected in [1, 1] {
        let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
        assert_eq!(answer.items[0].message, "about a");
        assert_eq!(opened(), expected);
    }
    typing.types(&bench.path("b.txt"), "typed");
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
    assert_eq!(answer.items[0].message, "about a");
    assert_eq!(opened(), 3, "the file typed in, and then the other one again");
}

#[tokio::test]
async fn unsaved_documents_stay_open_beyond_the_limit() {
    let (bench, typing) = with(pushed(), "");
    let names: Vec<String> = (10..70).map(|number| format!("d{number}.txt")).collect();
    names.iter().for_each(|name| typing.types(&bench.path(name), "typed"));
    assert_eq!(bench.hover("a.txt").await, "a");
    assert_eq!(bench.hover("b.txt").await, "b");
    let has = bench.server_has().await;
    assert!(names.iter().all(|name| has.contains(&format!("{name} 1: typed"))), "{has:?}");
    assert_eq!(has.last().map(String::as_str), Some("d69.txt 1: typed"));
    assert!(bench.got("scripted", "textDocument/didOpen").len() <= 62, "nothing is opened twice");
}

#[tokio::test]
async fn open_saved_text_opens_the_disk_text_first() {
    let (bench, typing) = with(pushed(), "open_saved_text = true\n");
    assert_eq!(bench.hover("a.txt").await, "a");
    typing.types(&bench.path("b.txt"), "typed");
    typing.types(&bench.path("new.txt"), "not on the disk");
    assert_eq!(bench.server_has().await, ["a.txt 1: a", "b.txt 2: typed", "new.txt 1: not on the disk"]);
    let opened = bench.got("scripted", "textDocument/didOpen");
    let opened = opened.iter().find(|it| it["textDocument"]["uri"] == bench.uri("b.txt")).unwrap();
    assert_eq!(opened["textDocument"]["text"], "b");
}

#[tokio::test]
async fn a_first_save_is_reported_to_other_servers() {
    let found = |version: i64, message: &str| {
        let item = json!({"range": range(0, 0, 1), "message": message});
        let params = json!({"uri": "${root}/a.txt", "version": version, "diagnostics": [item]});
        Step::notify("textDocument/publishDiagnostics", params)
    };
    let watch = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/*"}]}}]});
    let script = Script::new(json!({"textDocumentSync": 2}))
        .on("initialized", [Step::request("w", "client/registerCapability", watch)])
        .on("textDocument/didOpen", [found(1, "no b")])
        .on("textDocument/didOpen", [found(1, "no b")])
        .on("textDocument/didOpen", [])
        .on("workspace/didChangeWatchedFiles", [found(1, "b")]);
    let typing = Typing::new();
    let editor: Arc<dyn Editor> = Arc::<Typing>::clone(&typing);
    let bench = build_beside(&[("a.txt", "a")], vec![("scripted", script, "")], Some(editor), |_| ());
    let reported = async || {
        let reported = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
        reported.items.into_iter().map(|item| item.message).collect::<Vec<_>>()
    };
    assert_eq!(reported().await, ["no b"]);
    typing.types(&bench.path("b.txt"), "b");
    assert_eq!(reported().await, ["no b"]);
    bench.write("b.txt", "b");
    typing.saves(&bench.path("b.txt"));
    assert_eq!(reported().await, ["b"]);
    // The file was closed before the notification of its creation.
    let record = bench.record("scripted");
    let at = |method: &str| record.iter().position(|it| it["method"] == method).unwrap();
    assert!(at("textDocument/didClose") < at("workspace/didChangeWatchedFiles"), "{record:?}");
}
