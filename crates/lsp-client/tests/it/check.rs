//! Diagnostics to compare with those before an edit.
//!
//! They are never older than the texts that were sent, and servers that are not ready never delay them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lsp_client::{CheckRole, Checked, Note, SpeculativeError, SpeculativeFile, Unknown};
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::{ChangeKind, Commit, CommitId, CommittedFile, RunId};

use crate::bench::{Bench, LONG, bench, build, cx, range, until};

fn publish(version: &str) -> Step {
    let item =
        |message: &str, source: &str| json!({"range": range(0, 0, 1), "source": source, "message": message});
    Step::notify(
        "textDocument/publishDiagnostics",
        json!({
            "uri": "${params.textDocument.uri}",
            "version": version,
            "diagnostics": [item("at ${version}", "s"), item("saved", "slow")],
        }),
    )
}

/// `server: message, …` of each server, or the reason for none.
async fn check(bench: &Bench, name: &str, look: CheckRole, deadline: Duration) -> Vec<String> {
    let answers = bench.pool.check(&bench.doc(name), look, &cx(deadline)).await;
    let reported = |known: &Result<Vec<lsp_client::Diagnostic>, Unknown>| match known {
        Ok(items) => items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join(", "),
        Err(why) => format!("({why:?})"),
    };
    answers.iter().map(|it| format!("{}: {}", it.server, reported(&it.known))).collect()
}

#[tokio::test]
async fn a_dependent_is_reopened_and_on_save_sources_are_omitted() {
    let script =
        Script::new(json!({"textDocumentSync": 2})).on("textDocument/didOpen", [publish("${version}")]);
    let more = "[diagnostics]\non_save = [\"slow\"]\n";
    let bench = build(&[("a.txt", "a"), ("b.txt", "b")], vec![("scripted", script, more)], |_| ());
    assert_eq!(check(&bench, "a.txt", CheckRole::Changed, LONG).await, ["scripted: at 1"]);
    assert_eq!(check(&bench, "b.txt", CheckRole::Dependent, LONG).await, ["scripted: at 1"]);
    // The document was closed and reopened: earlier diagnostics do not count now.
    assert_eq!(check(&bench, "b.txt", CheckRole::Dependent, LONG).await, ["scripted: at 2"]);
    // An open document is reopened, and stays open.
    assert_eq!(check(&bench, "a.txt", CheckRole::Dependent, LONG).await, ["scripted: at 3"]);
    let closed = bench.got("scripted", "textDocument/didClose");
    assert_eq!(
        closed,
        ["b.txt", "b.txt", "a.txt"].map(|name| json!({"textDocument": {"uri": bench.uri(name)}}))
    );
    assert_eq!(bench.pool.status().await[0].open_documents, 1);
}

/// Covers basedpyright 1.40.2, which drops a closed document from its project.
#[tokio::test]
async fn a_rechecking_server_gets_no_close() {
    let script = Script::new(json!({"textDocumentSync": 2}))
        .on("textDocument/didOpen", [publish("${version}")])
        .on("textDocument/didOpen", [])
        .on("textDocument/didChange", [publish("${version}")]);
    let more = "[diagnostics]\nrecheck = true\non_save = [\"slow\"]\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(check(&bench, "a.txt", CheckRole::Changed, LONG).await, ["scripted: at 1"]);
    assert_eq!(check(&bench, "a.txt", CheckRole::Dependent, LONG).await, ["scripted: at 2"]);
    assert_eq!(bench.got("scripted", "textDocument/didClose"), Vec::<Value>::new());
    let change = &bench.got("scripted", "textDocument/didChange")[0];
    assert_eq!(change["contentChanges"], json!([{"text": "a"}]));
}

#[tokio::test]
async fn delayed_opening_waits_for_readiness() {
    let listed = Step::notify("window/logMessage", json!({"type": 3, "message": "Found 2 source files"}));
    let script = |ready: Vec<Step>| {
        Script::new(json!({"textDocumentSync": 2}))
            .on("initialized", ready)
            .on("textDocument/didOpen", [publish("${version}")])
    };
    let more = "[ready]\nlog_messages = [\"source file\"]\nbefore_opening = true\n[diagnostics]\non_save = [\"slow\"]\n";
    let texts = [("a.txt", "a"), ("b.txt", "b")];
    let bench = build(&texts, vec![("scripted", script(vec![]), more)], |_| ());
    let short = cx(Duration::from_millis(400));
    let unknown = bench.pool.diagnostics(&bench.doc("a.txt"), &short).await.unwrap_err();
    assert!(matches!(unknown, lsp_client::ServerError::Starting { .. }), "{unknown}");
    // The same holds for a change meanwhile.
    bench.write("b.txt", "other");
    let (kind, edits, version) = (ChangeKind::Modified, Vec::new(), None);
    let files = vec![CommittedFile { path: bench.path("b.txt"), kind, edits, version }];
    let (id, run, label) = (CommitId("1".into()), RunId::new(), "test".into());
    bench.pool.did_commit(&Commit { id, run, label, files, notes: Vec::new() }).await;
    assert!(bench.pool.check(&bench.doc("a.txt"), CheckRole::Changed, &short).await[0].pending);
    assert_eq!(bench.got("scripted", "textDocument/didOpen"), Vec::<Value>::new());

    let ready = vec![Step::DelayMs(200), listed];
    let bench = build(&texts, vec![("scripted", script(ready), more)], |_| ());
    let found = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap();
    assert_eq!((found.value.items[0].message.as_str(), found.notes), ("at 1", Vec::new()));
}

#[tokio::test]
async fn a_file_outside_the_project_is_reported_as_unchecked() {
    let item = json!({"range": range(0, 0, 1), "severity": 4, "code": "lone", "message": "No part of /p/a. Add it."});
    let answer = json!({"kind": "full", "items": [item]});
    let script = || {
        Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
            .on("textDocument/diagnostic", [Step::Result(answer.clone())])
    };
    for (more, reported, disowned) in [
        (
            "[diagnostics]\noutside_project_codes = [\"lone\"]\n",
            "scripted: (Reason(\"No part of\"))",
            Some("No part of"),
        ),
        ("", "scripted: No part of /p/a. Add it.", None),
    ] {
        let bench = build(&[("a.txt", "a")], vec![("scripted", script(), more)], |_| ());
        assert_eq!(check(&bench, "a.txt", CheckRole::Changed, LONG).await, [reported]);
        let answers = bench.pool.check(&bench.doc("a.txt"), CheckRole::Changed, &cx(LONG)).await;
        assert_eq!((answers[0].disowned.as_deref(), answers[0].pending), (disowned, false));
    }
}

#[tokio::test]
async fn late_diagnostics_of_a_closed_document_are_ignored() {
    let late = json!({"uri": "${params.textDocument.uri}", "version": 1, "diagnostics": []});
    let script = Script::new(json!({"textDocumentSync": 2}))
        .on("textDocument/didOpen", [publish("${version}")])
        .on("textDocument/didOpen", [Step::notify("textDocument/publishDiagnostics", late)]);
    let bench = bench(&[("a.txt", "a")], script);
    assert_eq!(check(&bench, "a.txt", CheckRole::Dependent, LONG).await, ["scripted: at 1, saved"]);
    let short = Duration::from_millis(400);
    assert_eq!(check(&bench, "a.txt", CheckRole::Dependent, short).await, ["scripted: (Unanswered)"]);
}

#[tokio::test]
async fn a_pulling_server_keeps_documents_open() {
    let answer = json!({"kind": "full", "items": [{"range": range(0, 0, 1), "message": "${text}"}]});
    let script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .on("textDocument/diagnostic", [Step::Result(answer)]);
    let bench = bench(&[("a.txt", "a")], script);
    assert_eq!(check(&bench, "a.txt", CheckRole::Changed, LONG).await, ["scripted: a"]);
    assert_eq!(check(&bench, "a.txt", CheckRole::Dependent, LONG).await, ["scripted: a"]);
    assert_eq!(bench.got("scripted", "textDocument/didClose"), Vec::<Value>::new());
    assert_eq!(bench.got("scripted", "textDocument/didOpen").len(), 1);
}

#[tokio::test]
async fn all_files_are_opened_before_any_is_awaited() {
    let answer = json!({"kind": "full", "items": [{"range": range(0, 0, 1), "message": "${text}"}]});
    let answers = |script: Script| script.on("textDocument/diagnostic", [Step::Result(answer.clone())]);
    let script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}));
    let script = answers(answers(script)).on("textDocument/diagnostic", [Step::Never]);
    let bench = bench(&[("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c"), ("d.txt", "d")], answers(script));
    assert_eq!(check(&bench, "a.txt", CheckRole::Changed, LONG).await, ["scripted: a"]);
    let questions = [
        (bench.doc("a.txt"), CheckRole::Changed),
        (bench.doc("b.txt"), CheckRole::Changed),
        (bench.doc("c.txt"), CheckRole::Dependent),
        (bench.doc("d.txt"), CheckRole::Dependent),
    ];
    let (known, request) = (Arc::new(AtomicUsize::new(0)), cx(20 * LONG));
    let reported = Mutex::new(BTreeSet::new());
    let report = |at: usize, answer: Checked| {
        reported.lock().unwrap().insert((at, answer.pending));
        known.fetch_add(usize::from(answer.known.is_ok()), Ordering::SeqCst);
    };
    let counted = Arc::clone(&known);
    let three = until(move || counted.load(Ordering::SeqCst) == 3, "three answers");
    tokio::join!(bench.pool.check_all(&questions, &request, &report), async {
        three.await;
        request.cancel.cancel();
    });
    let reported = reported.into_inner().unwrap();
    let pending = reported.iter().filter(|(_, pending)| *pending).count();
    assert_eq!((pending, reported.len()), (4, 7), "each is pending first: {reported:?}");
    let record = bench.record("scripted");
    let of = |wanted: &str| {
        let all = record.iter().enumerate().filter(|(_, message)| message["method"] == wanted);
        all.map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!((of("textDocument/didOpen").len(), of("textDocument/diagnostic").len()), (4, 5));
    assert!(of("textDocument/didOpen")[3] < of("textDocument/diagnostic")[1], "{record:?}");
    let record = bench.beside("scripted.record");
    let cancelled = move || testing::recorded(&record).iter().any(|it| it["method"] == "$/cancelRequest");
    until(cancelled, "the end of the unanswered request").await;
    assert_eq!(bench.pool.status().await[0].open_documents, 2);
}

#[tokio::test]
async fn a_loading_server_is_not_awaited() {
    let script = Script::new(json!({"textDocumentSync": 2}));
    let more = "[ready]\nlog_messages = [\"never said\"]\n";
    let bench = build(&[("a.txt", "a"), ("b.txt", "b")], vec![("scripted", script, more)], |_| ());
    let started = std::time::Instant::now();
    let reported = check(&bench, "a.txt", CheckRole::Changed, LONG).await;
    assert_eq!(reported, ["scripted: (Noted(Loading { server: \"scripted\", detail: None }))"]);
    assert!(started.elapsed() < Duration::from_secs(10));
    // No dependent is opened in a loading server.
    assert_eq!(check(&bench, "b.txt", CheckRole::Dependent, LONG).await, reported);
    assert_eq!(bench.pool.status().await[0].open_documents, 1);
}

/// Covers a server without its project, which reports no problems in any file.
#[tokio::test]
async fn a_server_without_its_project_does_not_report_clean() {
    const WHY: &str = "Failed to load workspaces.";
    let answer = json!({"kind": "full", "items": []});
    let status = json!({"quiescent": true, "health": "error", "message": WHY});
    let script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .at_start(Step::notify("x/status", status))
        .on("textDocument/diagnostic", [Step::Result(answer)]);
    let more = "[ready]\nstatus_method = \"x/status\"\nstatus_field = \"quiescent\"\n\
        status_health = \"health\"\nstatus_text = \"message\"\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    let document = bench.doc("a.txt");
    let said = bench.pool.diagnostics(&document, &cx(LONG)).await.unwrap();
    assert_eq!(
        said.value.failed,
        [Note::ProjectNotLoaded { server: "scripted".to_owned(), reason: WHY.to_owned() }]
    );
    assert_eq!((said.server.as_str(), said.value.pending.len()), ("", 0));
    let answers = bench.pool.check(&document, CheckRole::Changed, &cx(LONG)).await;
    let (server, message) = ("scripted".to_owned(), WHY.to_owned());
    let reported = Unknown::Noted(Note::Reported { server, message });
    assert_eq!(answers[0].known.as_ref().unwrap_err(), &reported);
    // The server may load its project later.
    assert!(answers[0].pending);
    let file = SpeculativeFile { document, text: "tried".into(), created: false };
    let tried = bench.pool.preview_edit(&[file], &[], &[], &cx(LONG)).await;
    assert_eq!(tried.skipped, [("scripted".to_owned(), SpeculativeError::Reported(WHY.to_owned()))]);
    assert!(tried.files.is_empty());
}

#[tokio::test]
async fn a_starting_server_blocks_others_of_its_group() {
    let capabilities = json!({"textDocumentSync": 2});
    let slow = Script::default()
        .on("initialize", [Step::DelayMs(1500), Step::Result(json!({"capabilities": capabilities}))]);
    let servers = vec![
        ("first", slow, "group = \"g\"\nrank = 1"),
        ("spare", Script::new(capabilities.clone()), "group = \"g\"\nrank = 2"),
    ];
    let bench = build(&[("a.txt", "a")], servers, |_| ());
    let said = check(&bench, "a.txt", CheckRole::Changed, Duration::from_secs(1)).await;
    assert!(said.len() == 1 && said[0].starts_with("first: "), "{said:?}");
    assert!(bench.record("spare").is_empty());
}
