//! Deleted files that servers answer about until they have read the disk.

use std::time::Duration;

use lsp_client::Note;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{Bench, LONG, build, cx, range};

const SEEN: &str = "textDocument/documentSymbol";
const ASK: &str = "textDocument/diagnostic";

/// A server that answers `times` times as if a deleted file existed.
fn blind(times: usize) -> Script {
    let item = json!({"range": range(0, 0, 1), "message": "wrong"});
    let mut script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .on(ASK, [Step::Result(json!({"kind": "full", "items": [item]}))]);
    let there = vec![Step::Result(json!([]))];
    let gone = vec![Step::Error(json!({"code": -32603, "message": "file not found"}))];
    let mut turns = vec![there; times];
    turns.push(gone);
    script.methods.insert(SEEN.to_owned(), turns);
    script
}

fn with(script: Script) -> Bench {
    let more = format!("[watch]\ndeletion_probe = \"{SEEN}\"\n");
    build(&[("a.txt", "a"), ("b.txt", "b")], vec![("scripted", script, &more)], |_| ())
}

/// The number of problems, `None` if unknown, and the notes.
async fn ask(bench: &Bench, name: &str, deadline: Duration) -> (Option<usize>, Vec<Note>) {
    let answer = bench.pool.diagnostics(&bench.doc(name), &cx(deadline)).await.unwrap();
    let reported = answer.value;
    (reported.pending.is_empty().then_some(reported.items.len()), answer.notes)
}

fn unseen(bench: &Bench) -> Note {
    Note::DeletionUnnoticed { server: "scripted".to_owned(), path: bench.path("b.txt") }
}

fn methods(bench: &Bench) -> Vec<String> {
    let name = |message: Value| message["method"].as_str().unwrap_or_default().to_owned();
    let all = bench.record("scripted").into_iter().map(name);
    all.filter(|it| it.starts_with("textDocument/"))
        .map(|it| it["textDocument/".len()..].to_owned())
        .collect()
}

#[tokio::test]
async fn a_request_waits_until_a_deletion_is_noticed() {
    for was_open in [false, true] {
        let bench = with(blind(2));
        if was_open {
            assert_eq!(ask(&bench, "b.txt", LONG).await, (Some(1), Vec::new()));
        }
        assert_eq!(ask(&bench, "a.txt", LONG).await, (Some(1), Vec::new()));
        let before = methods(&bench).len();
        std::fs::remove_file(bench.path("b.txt").as_path()).unwrap();
        assert_eq!(ask(&bench, "a.txt", LONG).await, (Some(1), Vec::new()));
        let closed = if was_open { vec!["didClose"] } else { Vec::new() };
        let asked = ["documentSymbol", "documentSymbol", "documentSymbol", "diagnostic"];
        assert_eq!(methods(&bench)[before..], [closed, asked.to_vec()].concat());
        // The server has noticed the deletion.
        assert_eq!(ask(&bench, "a.txt", LONG).await, (Some(1), Vec::new()));
        assert_eq!(bench.got("scripted", SEEN).len(), 3);
    }
}

#[tokio::test]
async fn a_deleted_document_is_closed_before_the_event() {
    const WATCHED: &str = "workspace/didChangeWatchedFiles";
    let watchers = json!({"watchers": [{"globPattern": "**/*.txt"}]});
    let registrations = json!([{"id": "w", "method": WATCHED, "registerOptions": watchers}]);
    let registers = Step::Request {
        id: json!(1),
        method: "client/registerCapability".to_owned(),
        params: json!({"registrations": registrations}),
    };
    let bench = with(blind(0).on("initialized", [registers]));
    ask(&bench, "b.txt", LONG).await;
    ask(&bench, "a.txt", LONG).await;
    std::fs::remove_file(bench.path("b.txt").as_path()).unwrap();
    ask(&bench, "a.txt", LONG).await;
    let record = bench.record("scripted").into_iter();
    let reported: Vec<Value> = record.map(|it| it["method"].clone()).collect();
    let at = |method: &str| reported.iter().position(|it| it == method).unwrap();
    assert!(at("textDocument/didClose") < at(WATCHED), "{reported:?}");
}

#[tokio::test]
async fn unnoticed_deletions_leave_answers_unknown() {
    let bench = with(blind(1000));
    assert_eq!(ask(&bench, "a.txt", LONG).await, (Some(1), Vec::new()));
    std::fs::remove_file(bench.path("b.txt").as_path()).unwrap();
    let (known, notes) = ask(&bench, "a.txt", Duration::from_millis(300)).await;
    assert_eq!(known, None);
    assert_eq!(notes, [unseen(&bench)]);
    // The file exists again.
    bench.write("b.txt", "b");
    assert_eq!(ask(&bench, "a.txt", LONG).await, (Some(1), Vec::new()));
}

/// Covers a request about one position, which has a third of the four seconds.
#[tokio::test]
async fn a_silent_deletion_probe_ends_in_time() {
    let script = Script::new(json!({"textDocumentSync": 2, "hoverProvider": true}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))])
        .on(SEEN, [Step::Never]);
    let bench = with(script);
    let hover = async || bench.pool.hover(&bench.doc("a.txt"), 0, &cx(Duration::from_secs(4))).await;
    hover().await.unwrap();
    std::fs::remove_file(bench.path("b.txt").as_path()).unwrap();
    let answer = loop {
        // At most one scan runs in a tenth of a second.
        let answer = hover().await;
        if !bench.got("scripted", SEEN).is_empty() {
            break answer.unwrap();
        }
    };
    assert_eq!(answer.value.as_deref(), Some("fine"));
    assert_eq!(answer.notes, [unseen(&bench)]);
}
