//! The limit of a server's open documents.
//!
//! The pool closes the least recently requested ones, and reopens them with their current text.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testing::language_server::{Documents, Script, Step};
use tokio::task::JoinSet;

use crate::bench::{Bench, LONG, cx, range, until};
use crate::speculative::with;

/// Maximum number of open documents.
const LIMIT: usize = 48;
const HOVER: &str = "textDocument/hover";

fn answering() -> Script {
    Script::new(json!({"textDocumentSync": {"openClose": true, "change": 2}, "hoverProvider": true}))
        .on(HOVER, [Step::Result(json!({"contents": "${text}"}))])
}

/// Files of the workspace, `d10.txt` and so on, that contain their own names.
fn many(bench: &Bench, count: usize) -> Vec<String> {
    let names: Vec<String> = (10..10 + count).map(|number| format!("d{number}.txt")).collect();
    names.iter().for_each(|name| bench.write(name, name));
    names
}

/// Maximum number of open documents so far, and those open now.
fn open(bench: &Bench) -> (usize, Vec<String>) {
    let (mut documents, mut most) = (Documents::default(), 0);
    for message in bench.record("scripted") {
        documents.take(message["method"].as_str().unwrap_or_default(), &message["params"]);
        most = most.max(documents.open.len());
    }
    let name = |uri: &String| uri.rsplit('/').next().unwrap_or_default().to_owned();
    (most, documents.open.keys().map(name).collect())
}

fn closed(bench: &Bench) -> Vec<String> {
    let name = |params: Value| {
        let uri = params["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
        uri.rsplit('/').next().unwrap_or_default().to_owned()
    };
    bench.got("scripted", "textDocument/didClose").into_iter().map(name).collect()
}

#[tokio::test]
async fn the_least_recently_used_document_is_closed() {
    let (bench, _) = with(answering(), "");
    let names = many(&bench, 120);
    for name in &names {
        assert_eq!(bench.hover(name).await, *name);
        // Always request the second newest.
        assert_eq!(bench.hover("a.txt").await, "a");
    }
    // The maximum is one more than the limit while one is opened and another not yet closed.
    let (most, now) = open(&bench);
    assert_eq!((most, now.len()), (LIMIT + 1, LIMIT));
    let gone = names.len() + 1 - LIMIT;
    assert_eq!(closed(&bench), names[..gone], "the oldest first");
    assert!(names[gone..].iter().all(|name| now.contains(name)) && now.contains(&"a.txt".to_owned()));
    bench.write(&names[0], "a newer text");
    assert_eq!(bench.hover(&names[0]).await, "a newer text");
    assert!(bench.server_has().await.iter().any(|row| row.ends_with(": a newer text")));
    let opened = bench.got("scripted", "textDocument/didOpen");
    let numbers: Vec<Option<i64>> = opened
        .iter()
        .filter(|it| it["textDocument"]["uri"] == bench.uri(&names[0]))
        .map(|it| it["textDocument"]["version"].as_i64())
        .collect();
    assert!(numbers.len() == 2 && numbers[0] < numbers[1], "each number is used once: {numbers:?}");
}

#[tokio::test]
async fn unsaved_documents_are_closed_after_saving() {
    let (bench, typing) = with(answering(), "");
    let names = many(&bench, 120);
    typing.types(&bench.path("b.txt"), "b typed");
    for name in &names[..60] {
        bench.hover(name).await;
    }
    assert!(open(&bench).1.contains(&"b.txt".to_owned()) && !closed(&bench).contains(&"b.txt".to_owned()));
    bench.write("b.txt", "b typed");
    typing.saves(&bench.path("b.txt"));
    for name in &names[60..] {
        bench.hover(name).await;
    }
    assert_eq!(open(&bench).1.len(), LIMIT);
    assert_eq!(bench.hover("b.txt").await, "b typed");
}

/// Tests that a server, which may forget closed documents, keeps them open.
#[tokio::test]
async fn documents_of_pending_requests_stay_open() {
    let count = 2 * LIMIT;
    let waits = [Step::wait_for(HOVER, count + 1), Step::Result(json!({"contents": "${text}"}))];
    let mut script = answering();
    script.methods.insert(HOVER.to_owned(), vec![waits.to_vec(), vec![waits[1].clone()]]);
    let (bench, _) = with(script, "");
    let names = many(&bench, count + 1);
    let first = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.hover("a.txt").await })
    };
    let asked = Arc::clone(&bench);
    until(move || !asked.got("scripted", HOVER).is_empty(), "the first request").await;
    for name in &names[..count] {
        assert_eq!(bench.hover(name).await, *name);
    }
    assert_eq!(first.await.unwrap(), "a");
    assert!(!closed(&bench).contains(&"a.txt".to_owned()), "it was closed during the request");
    assert_eq!(open(&bench).1.len(), LIMIT);
    // No pending request needs it any more.
    bench.hover(&names[count]).await;
    assert_eq!(closed(&bench).last().map(String::as_str), Some("a.txt"));
}

#[tokio::test]
async fn concurrent_requests_close_their_documents_afterwards() {
    let count = LIMIT + 20;
    let script = {
        let mut script = answering();
        let answer = Step::Result(json!({"contents": "${text}"}));
        script.methods.insert(HOVER.to_owned(), vec![vec![Step::wait_for(HOVER, count), answer]]);
        script
    };
    let (bench, _) = with(script, "");
    let names = many(&bench, count);
    let mut questions = JoinSet::new();
    for name in names {
        let bench = Arc::clone(&bench);
        questions.spawn(async move { (bench.hover(&name).await, name) });
    }
    while let Some(answer) = questions.join_next().await {
        let (text, name) = answer.unwrap();
        assert_eq!(text, name);
    }
    // No request is answered before the last one is sent.
    let (mut documents, mut asked) = (Documents::default(), 0);
    for message in bench.record("scripted") {
        documents.take(message["method"].as_str().unwrap_or_default(), &message["params"]);
        asked += usize::from(message["method"] == HOVER);
        if asked == count {
            break;
        }
    }
    assert_eq!(
        (asked, documents.open.len()),
        (count, count),
        "some documents were closed during their requests"
    );
    assert_eq!(bench.hover("a.txt").await, "a");
    assert_eq!(open(&bench).1.len(), LIMIT);
}

/// Tests that no empty list is published for a document with awaited diagnostics.
#[tokio::test]
async fn documents_with_awaited_diagnostics_stay_open() {
    let reported = |more: Vec<Step>| {
        let item = json!([{"range": range(0, 0, 1), "message": "about ${text}"}]);
        let params =
            json!({"uri": "${params.textDocument.uri}", "version": "${version}", "diagnostics": item});
        [more, vec![Step::notify("textDocument/publishDiagnostics", params)]].concat()
    };
    let count = 2 * LIMIT;
    let script = answering()
        .on("textDocument/didOpen", reported(vec![Step::wait_for(HOVER, count)]))
        .on("textDocument/didOpen", reported(Vec::new()));
    let (bench, _) = with(script, "");
    let names = many(&bench, count);
    let first = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move {
            let reported = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
            reported.items.into_iter().map(|item| item.message).collect::<Vec<_>>()
        })
    };
    let asked = Arc::clone(&bench);
    until(move || !asked.got("scripted", "textDocument/didOpen").is_empty(), "the question").await;
    for name in &names {
        bench.hover(name).await;
    }
    assert_eq!(tokio::time::timeout(Duration::from_secs(20), first).await.unwrap().unwrap(), ["about a"]);
    assert!(!closed(&bench).contains(&"a.txt".to_owned()), "it was closed during the request");
}
