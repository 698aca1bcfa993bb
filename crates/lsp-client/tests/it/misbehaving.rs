//! Servers that violate the protocol.
//!
//! Every request ends with the right answer or an error, no process remains, and no other request
//! is delayed.

use expect_test::expect;
use std::time::{Duration, Instant};

use lsp_client::ServerError;
use policy::ErrorCode;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{Bench, LONG, alive, bench, build, cx, range, until};

const SHORT: Duration = Duration::from_millis(700);

fn hovers() -> Script {
    Script::new(json!({"hoverProvider": true, "definitionProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))])
}

/// Checks that no request waits for an answer and that no process remains.
async fn nothing_is_left(bench: &Bench) {
    let status = bench.pool.status().await;
    let pids: Vec<String> = status.iter().filter_map(|server| Some(server.pid?.to_string())).collect();
    assert!(status.iter().all(|server| server.pending == 0), "{status:?}");
    bench.pool.shutdown(Duration::from_secs(5)).await;
    assert!(!pids.iter().any(|pid| alive(pid)), "{pids:?}");
}

async fn hover(bench: &Bench) -> Result<String, ServerError> {
    let answer = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await?;
    Ok(answer.value.unwrap_or_default())
}

#[tokio::test]
async fn requests_end_when_the_server_never_answers() {
    let bench = bench(&[("a.txt", "abc")], hovers().on("textDocument/definition", [Step::Never]));
    hover(&bench).await.unwrap();
    let doc = bench.doc("a.txt");
    let short = cx(SHORT);
    // Another request meanwhile receives its answer at once.
    let (stuck, other) = tokio::join!(bench.pool.definition(&doc, 0, &short), hover(&bench));
    assert_eq!(stuck.unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(other.unwrap(), "fine");
    // The server reads earlier messages before this request.
    hover(&bench).await.unwrap();
    assert_eq!(bench.got("scripted", "$/cancelRequest").len(), 1, "it receives a cancellation");
    nothing_is_left(&bench).await;
}

/// Covers a server that fails from a cancellation on, as its definition says.
#[tokio::test]
async fn uncancellable_requests_are_not_cancelled() {
    let more = "uncancellable_requests = [\"textDocument/definition\"]\n";
    let script = hovers().on("textDocument/definition", [Step::Never]);
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| ());
    let error = bench.pool.definition(&bench.doc("a.txt"), 0, &cx(SHORT)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    hover(&bench).await.unwrap();
    assert!(bench.got("scripted", "$/cancelRequest").is_empty());
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn an_error_that_never_ends_restarts_the_server() {
    let more = "restart_errors = [\"is not a function\"]\n";
    let broken = json!({"code": -32603, "message": "cancel is not a function"});
    let script = hovers().on("textDocument/definition", [Step::Error(broken)]);
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| ());
    hover(&bench).await.unwrap();
    let pid = async || bench.pool.status().await[0].pid;
    let before = pid().await;
    let error = bench.pool.definition(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerCrashed);
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    assert_ne!(pid().await, before);
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn requests_end_without_an_answer_to_initialize() {
    let bench = bench(&[("a.txt", "abc")], hovers().on("initialize", [Step::Never]));
    let started = Instant::now();
    let error = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(SHORT)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerStarting);
    assert!(started.elapsed() < Duration::from_secs(10));
    expect![
        "scripted is still starting: its process has not answered `initialize` yet; try again, or wait longer"
    ]
    .assert_eq(&error.to_string());
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn a_crash_on_initialize_is_reported() {
    let script = hovers().on("initialize", [Step::Stderr("bad configuration\n".into()), Step::Crash(4)]);
    let bench = bench(&[("a.txt", "abc")], script);
    let error = hover(&bench).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerCrashed);
    expect![[r#"
        scripted crashed during initialize; the next call restarts it
        bad configuration"#]]
    .assert_eq(&error.to_string());
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn a_crash_in_a_request_is_reported() {
    let bench = bench(&[("a.txt", "abc")], hovers().on("textDocument/definition", [Step::Crash(1)]));
    let doc = bench.doc("a.txt");
    let error = bench.pool.definition(&doc, 0, &cx(LONG)).await.unwrap_err();
    expect!["scripted crashed during textDocument/definition; the next call restarts it"]
        .assert_eq(&error.to_string());
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn a_crash_on_shutdown_leaves_no_process() {
    let bench = bench(&[("a.txt", "abc")], hovers().on("shutdown", [Step::Crash(9)]));
    hover(&bench).await.unwrap();
    let pid = bench.pool.status().await[0].pid.unwrap().to_string();
    bench.pool.shutdown(Duration::from_secs(5)).await;
    assert!(!alive(&pid));
}

#[tokio::test]
async fn repeated_and_unknown_response_ids_are_ignored() {
    let script = hovers().on(
        "textDocument/definition",
        [
            Step::AnswerId { id: json!(123_456), result: Value::Null },
            Step::AnswerId { id: Value::Null, result: Value::Null },
            Step::wait_for("textDocument/hover", 1),
            Step::Result(json!([])),
            Step::Result(json!([{"uri": "file:///wrong", "range": range(0, 0, 1)}])),
            Step::Error(json!({"code": 1, "message": "and an error"})),
        ],
    );
    let bench = bench(&[("a.txt", "abc")], script);
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let (first, second) = tokio::join!(bench.pool.definition(&doc, 0, &cx), hover(&bench));
    assert!(first.unwrap().value.is_empty(), "the first answer counts");
    assert_eq!(second.unwrap(), "fine");
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn garbage_before_a_header_is_skipped() {
    let noise = "Listening…\r\n\r\nwarning: Content-Length is a word\n".repeat(200);
    let script = hovers()
        .at_start(Step::Stdout(noise))
        .on("textDocument/definition", [Step::Stdout("half a line".into()), Step::Result(json!([]))]);
    let bench = bench(&[("a.txt", "abc")], script);
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    assert!(bench.pool.definition(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap().value.is_empty());
    let skipped =
        bench.pool.logs(None)[0].traffic.iter().filter(|entry| entry.to_string().contains('✗')).count();
    assert!(skipped >= 2, "the log contains the skipped bytes");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn a_message_of_50_megabytes_is_read() {
    const SIZE: usize = 50 << 20;
    let script = Script::new(json!({"hoverProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Big(SIZE)])
        .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))]);
    let bench = bench(&[("a.txt", "abc")], script);
    assert_eq!(hover(&bench).await.unwrap().len(), SIZE);
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    let kept: usize = bench.pool.logs(None)[0].traffic.iter().map(|entry| entry.body.len()).sum();
    assert!(kept < 3 << 20, "{kept} bytes of traffic are kept");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn a_flood_of_progress_and_logs_delays_no_request() {
    let report =
        json!({"token": "t", "value": {"kind": "report", "percentage": 5, "message": "x".repeat(200)}});
    let flood = vec![
        Step::notify("$/progress", report),
        Step::notify("window/logMessage", json!({"type": 4, "message": "y".repeat(200)})),
    ];
    let begin = json!({"token": "t", "value": {"kind": "begin", "title": "w"}});
    let script = hovers().on(
        "textDocument/definition",
        [
            Step::notify("$/progress", begin),
            Step::Repeat { count: 20_000, steps: flood },
            Step::Result(json!([])),
        ],
    );
    let bench = bench(&[("a.txt", "abc")], script);
    let doc = bench.doc("a.txt");
    // Forty thousand messages take a few seconds on a busy machine.
    bench.pool.definition(&doc, 0, &cx(6 * LONG)).await.unwrap();
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    let kept: usize = bench.pool.logs(None)[0].traffic.iter().map(|entry| entry.body.len()).sum();
    assert!(kept < 3 << 20, "{kept} bytes of traffic are kept");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn false_capabilities_do_not_mislead_the_client() {
    // The server offers rename and rejects it; it does not offer definition and is not asked.
    let script = Script::new(json!({"renameProvider": true, "hoverProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": 5}))])
        .on("textDocument/definition", [Step::Result(json!([]))]);
    let bench = bench(&[("a.txt", "abc")], script);
    let doc = bench.doc("a.txt");
    let error = bench.rename(&doc, 0, "x", &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported, "{error}");
    let error = bench.pool.definition(&doc, 0, &cx(LONG)).await.unwrap_err();
    assert_eq!(error.to_string(), "scripted does not offer definition");
    assert!(bench.got("scripted", "textDocument/definition").is_empty());
    assert_eq!(hover(&bench).await.unwrap(), "", "non-text contents are ignored");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn unparsable_answers_are_reported() {
    let script = hovers().on("textDocument/definition", [Step::Result(json!({"somewhere": 1}))]);
    let bench = bench(&[("a.txt", "abc")], script);
    let error = bench.pool.definition(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    assert!(matches!(error, ServerError::Protocol { .. }), "{error}");
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn requests_before_initialize_are_answered() {
    let ask = |id: &str, method: &str| Step::request(id, method, json!({"items": [{"section": "x"}]}));
    let script =
        hovers().at_start(ask("a", "workspace/configuration")).at_start(ask("b", "workspace/applyEdit")).on(
            "initialize",
            [
                ask("c", "window/workDoneProgress/create"),
                Step::wait_for("response", 3),
                Step::Result(json!({"capabilities": {"hoverProvider": true, "textDocumentSync": 2}})),
            ],
        );
    let bench = bench(&[("a.txt", "abc")], script);
    assert_eq!(hover(&bench).await.unwrap(), "fine");
    let record = bench.record("scripted");
    let answer = |id: &str| record.iter().find(|it| it.get("method").is_none() && it["id"] == id).unwrap();
    assert_eq!(answer("a")["result"], json!([null]));
    assert_eq!(answer("b")["result"]["applied"], false);
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn stale_diagnostics_are_ignored() {
    let publish = |version: i64, message: &str| {
        Step::notify(
            "textDocument/publishDiagnostics",
            json!({
                "uri": "${params.textDocument.uri}", "version": version,
                "diagnostics": [{"range": range(0, 0, 1), "message": message}],
            }),
        )
    };
    let script = Script::new(json!({"textDocumentSync": 2}))
        .on("textDocument/didOpen", [publish(1, "old")])
        .on("textDocument/didChange", [publish(1, "old again"), publish(7, "from the future")]);
    let bench = bench(&[("a.txt", "abc")], script);
    let ask = async |deadline| {
        let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(deadline)).await.unwrap().value;
        (answer.items.len(), answer.pending.len())
    };
    assert_eq!(ask(LONG).await, (1, 0));
    bench.write("a.txt", "abd");
    assert_eq!(ask(SHORT).await, (0, 1), "unknown, not clean and not old");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn an_edit_during_a_rename_is_refused() {
    let edit = |new: &str| json!({"changes": {"${root}/a.txt": [{"range": range(0, 0, 3), "newText": new}]}});
    let script = Script::new(json!({"renameProvider": true, "textDocumentSync": 2})).on(
        "textDocument/rename",
        [
            Step::request("sly", "workspace/applyEdit", json!({"edit": edit("sly")})),
            Step::wait_for("response", 1),
            Step::Result(edit("new")),
        ],
    );
    let bench = bench(&[("a.txt", "abc")], script);
    let answer = bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    assert_eq!(bench.outcome(answer.value), ["a.txt: new"]);
    let record = bench.record("scripted");
    let reported = record.iter().find(|it| it.get("method").is_none() && it["id"] == "sly").unwrap();
    assert_eq!(reported["result"]["applied"], false, "no request caused it");
    nothing_is_left(&bench).await;
}

#[tokio::test]
async fn child_processes_of_a_server_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let child = directory.path().join("pid");
    let script = hovers()
        .at_start(Step::Grandchild { own_group: true, pid_file: child.clone() })
        .on("textDocument/definition", [Step::Crash(1)]);
    let bench = bench(&[("a.txt", "abc")], script);
    hover(&bench).await.unwrap();
    let pid = std::fs::read_to_string(&child).unwrap();
    assert!(alive(&pid));
    bench.pool.shutdown(Duration::from_secs(2)).await;
    until(move || !alive(&pid), "the end of the child").await;
}
