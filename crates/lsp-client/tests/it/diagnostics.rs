//! Diagnostics of exactly the requested text, or none.

use std::sync::Arc;
use std::time::Duration;

use lsp_client::{CheckRole, Related};
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::Editor;

use crate::bench::{Bench, LONG, bench, build, build_beside, cx, range};
use crate::speculative::Typing;

const SHORT: Duration = Duration::from_millis(400);

fn publish(version: Value, message: &str) -> Step {
    let mut params = json!({
        "uri": "${params.textDocument.uri}",
        "diagnostics": [{"range": range(0, 0, 1), "severity": 2, "code": "E1", "source": "s", "message": message}],
    });
    if !version.is_null() {
        params["version"] = version;
    }
    Step::notify("textDocument/publishDiagnostics", params)
}

fn script() -> Script {
    Script::new(json!({"textDocumentSync": 2}))
}

/// `message, …` and `(pending server, …)`.
async fn ask(bench: &Bench, deadline: Duration) -> String {
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(deadline)).await.unwrap().value;
    assert_eq!(answer.version, bench.doc("a.txt").version);
    let mut parts: Vec<String> = answer.items.iter().map(|item| item.message.clone()).collect();
    parts.extend(answer.pending.iter().map(|server| format!("(pending {server})")));
    parts.join(", ")
}

#[tokio::test]
async fn a_silent_server_does_not_use_up_the_deadline() {
    let work =
        |kind: &str| Step::notify("$/progress", json!({"token": 1, "value": {"kind": kind, "title": ""}}));
    let slow = script().on(
        "textDocument/didOpen",
        [work("begin"), Step::DelayMs(1500), publish(json!(1), "late"), work("end")],
    );
    let asked = Step::Result(json!({"kind": "full", "items": []}));
    let pulls = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .on("textDocument/diagnostic", [Step::DelayMs(1500), asked]);
    for (script, pending, items) in [(script(), 1, 0), (slow, 0, 1), (pulls, 0, 0)] {
        let bench = bench(&[("a.txt", "a")], script);
        let (document, request) = (bench.doc("a.txt"), cx(LONG));
        let asking = bench.pool.diagnostics_unless_silent(&document, SHORT, &request);
        let answer = tokio::time::timeout(LONG / 2, asking).await.unwrap().unwrap().value;
        assert_eq!((answer.pending.len(), answer.items.len()), (pending, items));
    }
}

#[tokio::test]
async fn diagnostics_of_an_older_version_are_dropped() {
    let script = script()
        .on("textDocument/didOpen", [publish(json!(1), "one")])
        .on("textDocument/didChange", [publish(json!(1), "one again")])
        .on(
            "textDocument/didChange",
            [publish(json!(2), "two"), publish(json!(3), "three"), publish(json!(2), "two again")],
        );
    let bench = bench(&[("a.txt", "a")], script);
    assert_eq!(ask(&bench, LONG).await, "one");
    // The diagnostics are known already, so nothing is awaited.
    assert_eq!(ask(&bench, Duration::from_millis(50)).await, "one");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("a.txt", "c");
    assert_eq!(ask(&bench, LONG).await, "three");
    // Late publishes do not replace known diagnostics either.
    for _ in 0..20 {
        assert_eq!(ask(&bench, Duration::from_millis(50)).await, "three");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Covers a server that publishes an empty first part, then the rest (Volar 2.4).
///
/// All publishes have the text's version. The server answers pull requests without announcing them.
#[tokio::test]
async fn a_partially_publishing_server_is_pulled() {
    let empty = Step::notify(
        "textDocument/publishDiagnostics",
        json!({"uri": "${params.textDocument.uri}", "version": "${version}", "diagnostics": []}),
    );
    let item = json!({"range": range(0, 0, 1), "severity": 1, "message": "wrong"});
    let script = script()
        .on("textDocument/didOpen", [empty])
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": [item]}))]);
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, "[diagnostics]\npull = true")], |_| {});
    assert_eq!(ask(&bench, LONG).await, "wrong");
}

#[tokio::test]
async fn a_silent_server_gets_the_text_again() {
    let script = script()
        .on("textDocument/didOpen", [publish(json!("${version}"), "about ${text}")])
        .on("textDocument/didChange", []);
    let bench = bench(&[("a.txt", "a")], script);
    assert_eq!(ask(&bench, LONG).await, "about a");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    assert_eq!(ask(&bench, LONG).await, "about b");
}

/// Covers Pyright 1.1.414, whose first diagnostics after a new file are outdated.
#[tokio::test]
async fn diagnostics_before_a_new_file_are_outdated() {
    let script = Script::new(json!({"textDocumentSync": 2, "hoverProvider": true}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))])
        .on(
            "textDocument/didOpen",
            [Step::wait_for("textDocument/hover", 1), publish(json!(1), "b.txt is not there")],
        )
        .on("textDocument/didOpen", [publish(json!("${version}"), "new")]);
    let bench = bench(&[("a.txt", "a")], script);
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("b.txt", "b");
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    assert_eq!(ask(&bench, LONG).await, "new");
    // The diagnostics are known after one publish.
    assert_eq!(ask(&bench, Duration::from_millis(50)).await, "new");
}

#[tokio::test]
async fn unversioned_publishes_of_a_versioned_server_are_ignored() {
    let script = script()
        .on("textDocument/didOpen", [publish(json!(1), "one")])
        .on("textDocument/didChange", [publish(Value::Null, "cleared")])
        .on("textDocument/didChange", [publish(Value::Null, "cleared"), publish(json!(3), "three")]);
    let bench = bench(&[("a.txt", "a")], script);
    assert_eq!(ask(&bench, LONG).await, "one");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("a.txt", "c");
    assert_eq!(ask(&bench, LONG).await, "three");
}

#[tokio::test]
async fn without_versions_only_later_publishes_count() {
    let script = script()
        .on("textDocument/didOpen", [publish(Value::Null, "one")])
        .on("textDocument/didChange", [])
        .on("textDocument/didChange", [publish(Value::Null, "part"), publish(Value::Null, "whole")]);
    let more = "[diagnostics]\nsettle_ms = 150\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, LONG).await, "one");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("a.txt", "c");
    assert_eq!(ask(&bench, LONG).await, "whole");
}

#[tokio::test]
async fn diagnostics_during_work_are_partial() {
    let work =
        |kind: &str| Step::notify("$/progress", json!({"token": "t", "value": {"kind": kind, "title": "w"}}));
    let script = script()
        .on("textDocument/didOpen", [publish(json!(1), "part"), work("begin"), publish(json!(1), "more")])
        .on("textDocument/didChange", [work("end"), publish(json!(2), "whole")]);
    let more = "[diagnostics]\nprogress = true\nsettle_ms = 50\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, LONG).await, "whole");
}

/// Covers an unverified server that publishes an empty list before it checks.
#[tokio::test]
async fn an_unverified_server_is_not_clean_at_once() {
    let empty = || {
        let params = json!({"uri": "${params.textDocument.uri}", "version": 1, "diagnostics": []});
        Step::notify("textDocument/publishDiagnostics", params)
    };
    let work =
        |kind: &str| Step::notify("$/progress", json!({"token": "t", "value": {"kind": kind, "title": "w"}}));
    let found = || publish(json!(1), "found");
    for turn in [
        vec![empty(), Step::DelayMs(500), found()],
        vec![work("begin"), empty(), Step::DelayMs(2500), work("end"), found()],
    ] {
        let script = script().on("textDocument/didOpen", turn);
        let bench = build(&[("a.txt", "a")], vec![("scripted", script, "verified = false\n")], |_| ());
        assert_eq!(ask(&bench, LONG).await, "found");
    }
    // A server that never finds anything is accepted in the end, with a note.
    let script = script().on("textDocument/didOpen", [empty()]);
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, "verified = false\n")], |_| ());
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap();
    assert!(answer.value.items.is_empty() && answer.value.pending.is_empty(), "{answer:?}");
    assert!(matches!(answer.notes[..], [lsp_client::Note::Unverified { .. }]), "{answer:?}");
}

#[tokio::test]
async fn the_file_status_decides_when_diagnostics_count() {
    let state = |state: &str| {
        let params = json!({"uri": "${params.textDocument.uri}", "state": state});
        Step::notify("x/status", params)
    };
    let script = script()
        .on("textDocument/didOpen", [state("parsing"), publish(json!(1), "part")])
        .on(
            "textDocument/didChange",
            [state("parsing"), publish(json!(2), "part"), publish(json!(2), "whole"), state("idle")],
        )
        // A server that is silent about a text may or may not have finished it.
        .on("textDocument/didChange", [publish(json!(3), "silent")]);
    let more = "[diagnostics]\nsettle_ms = 3000\n\
        file_status = { method = \"x/status\", file = \"uri\", field = \"state\", idle = \"idle\" }\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("a.txt", "b");
    let started = std::time::Instant::now();
    assert_eq!(ask(&bench, LONG).await, "whole");
    assert!(started.elapsed() < Duration::from_millis(2900), "{:?}", started.elapsed());
    bench.write("a.txt", "c");
    assert_eq!(ask(&bench, Duration::from_secs(2)).await, "(pending scripted)");
    assert_eq!(ask(&bench, LONG).await, "silent");
}

/// Covers clangd 22.1.1, which reports idle after a check with the old headers.
#[tokio::test]
async fn changed_texts_wait_for_the_barrier_request() {
    let idle = || Step::notify("x/status", json!({"uri": "${params.textDocument.uri}", "state": "idle"}));
    let script = script()
        .on("textDocument/didOpen", [publish(json!(1), "opened"), idle()])
        .on("textDocument/didChange", [publish(json!("${version}"), "stale"), idle()]);
    let whole = Step::notify(
        "textDocument/publishDiagnostics",
        json!({"uri": "${root}/a.txt", "version": 2, "diagnostics": [{"range": range(0, 0, 1), "message": "whole"}]}),
    );
    let done = script.clone().on("x/done", [whole, Step::Result(Value::Null)]).on("x/done", [Step::Never]);
    let more = "[diagnostics]\nbarrier_request = \"x/done\"\n\
        file_status = { method = \"x/status\", file = \"uri\", field = \"state\", idle = \"idle\" }\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", done, more)], |_| ());
    assert_eq!(ask(&bench, LONG).await, "opened");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, LONG).await, "whole");
    bench.write("a.txt", "c");
    assert_eq!(ask(&bench, Duration::from_secs(2)).await, "(pending scripted)");
    assert_eq!(bench.got("scripted", "x/done").len(), 2);
    // The publish of a server without that request counts.
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, LONG).await, "opened");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, LONG).await, "stale");
}

/// Covers an empty list for a closed file that arrives after its reopening.
#[tokio::test]
async fn late_publishes_of_a_closed_file_are_ignored() {
    let empty = || {
        let params = json!({"uri": "${params.textDocument.uri}", "diagnostics": []});
        Step::notify("textDocument/publishDiagnostics", params)
    };
    let script = script()
        .on("textDocument/didOpen", [publish(Value::Null, "one")])
        .on("textDocument/didOpen", [empty(), Step::DelayMs(500), publish(Value::Null, "two")])
        .on("textDocument/didOpen", [empty()])
        .on("textDocument/didClose", [])
        .on("textDocument/didClose", [empty()]);
    let more = "[diagnostics]\nsettle_ms = 50\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    let look = async || {
        let answer = bench.pool.check(&bench.doc("a.txt"), CheckRole::Dependent, &cx(LONG)).await;
        let known = answer[0].known.clone().unwrap();
        known.into_iter().map(|it| it.message).collect::<Vec<_>>()
    };
    assert_eq!(look().await, ["one"]);
    assert_eq!(look().await, ["two"]);
    // The server reported it in time: later diagnostics are about the current text.
    assert_eq!(look().await, Vec::<String>::new());
}

#[tokio::test]
async fn discard_codes_void_a_publish() {
    let script = script()
        .on("textDocument/didOpen", [publish(json!(1), "torn")])
        .on("textDocument/didChange", [publish(json!(2), "torn"), publish(json!(2), "torn too")]);
    let more = "[diagnostics]\ndiscard_codes = [\"E1\"]\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script.clone(), more)], |_| ());
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    let more = "[diagnostics]\ndiscard_codes = [\"E\"]\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, LONG).await, "torn");
}

#[tokio::test]
async fn a_definition_may_require_versions() {
    let script = script().on("textDocument/didOpen", [publish(Value::Null, "one")]);
    let more = "[diagnostics]\nrefuse_unversioned = true\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
}

#[tokio::test]
async fn pulled_diagnostics_are_about_the_sent_text() {
    let items = json!([{"range": range(0, 2, 3), "message": "pulled ${text}", "severity": 1}]);
    let retry = json!({"code": -32802, "message": "busy", "data": {"retriggerRequest": true}});
    let script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {"identifier": "me"}}))
        .on("textDocument/diagnostic", [Step::Error(retry)])
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": items}))]);
    let bench = bench(&[("a.txt", "😀b")], script);
    assert_eq!(ask(&bench, LONG).await, "pulled 😀b");
    assert_eq!(bench.got("scripted", "textDocument/diagnostic")[1]["identifier"], "me");
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
    assert_eq!(answer.items[0].range, 4..5);
}

#[tokio::test]
async fn all_servers_are_asked_and_silent_ones_named() {
    let servers = vec![
        ("loud", script().on("textDocument/didOpen", [publish(json!("${version}"), "loud")]), ""),
        ("silent", script(), ""),
        ("spare", script(), "group = \"g\"\nrank = 2"),
        (
            "first",
            script().on("textDocument/didOpen", [publish(json!("${version}"), "first")]),
            "group = \"g\"\nrank = 1",
        ),
        ("absent", script(), "[command]\ncandidates = [\"/no/such/server\"]"),
    ];
    let bench = build(&[("a.txt", "a")], servers, |limits| limits.warm = 9);
    assert_eq!(ask(&bench, Duration::from_secs(3)).await, "loud, first, (pending silent)");
    assert!(bench.record("spare").is_empty(), "only one server of a group is asked");
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(SHORT)).await.unwrap();
    assert_eq!(answer.server, "loud, first", "a silent server is not among those that answered");
    let answer = answer.value;
    let item = &answer.items[0];
    let shown = (item.line, item.severity.to_string(), item.code.as_deref(), item.source.as_deref());
    assert_eq!(shown, (1, "warning".to_owned(), Some("E1"), Some("s")));
}

/// Asks a silent server; only empty lists make a text clean.
#[tokio::test]
async fn a_clean_text_stays_clean_only_by_the_clean_rule() {
    let list = |items: Value| Step::Result(json!({"body": items}));
    let script = Script::new(json!({
        "textDocumentSync": 2, "executeCommandProvider": {"commands": ["look"]},
    }))
    .on("workspace/executeCommand", [list(json!([]))])
    .on("workspace/executeCommand", [list(json!([]))])
    .on("workspace/executeCommand", [list(json!([]))])
    .on("workspace/executeCommand", [list(json!([{"text": "wrong"}]))])
    .on("workspace/executeCommand", [Step::Error(json!({"code": 1, "message": "No Project."}))])
    .on("workspace/executeCommand", [Step::Result(Value::Null)]);
    let more = "[diagnostics.clean]\ncommand = \"look\"\narguments = [[\"one\", {file = \"${file}\"}], [2]]\nfield = \"body\"\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, LONG).await, "");
    let file = bench.path("a.txt").to_string();
    let asked: Vec<Value> =
        bench.got("scripted", "workspace/executeCommand").iter().map(|it| it["arguments"].clone()).collect();
    assert_eq!(asked, [json!(["one", {"file": file}]), json!([2])]);
    for unknown in ["a server has a non-empty list", "an error", "no list"] {
        bench.write("a.txt", unknown);
        assert_eq!(ask(&bench, SHORT).await, "(pending scripted)", "{unknown}");
    }
}

/// Covers a source that runs on save, whose diagnostics may be outdated.
#[tokio::test]
async fn on_save_sources_are_named_and_omitted() {
    let script = script().on("textDocument/didOpen", [publish(json!("${version}"), "of an earlier save")]);
    let more = "[diagnostics]\non_save = [\"s\"]\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
    assert!(answer.items.is_empty() && answer.pending.is_empty());
    assert_eq!(answer.on_save, [("s".to_owned(), "scripted".to_owned())]);
}

#[tokio::test]
async fn related_information_is_parsed() {
    let wrong = json!({"range": range(0, 0, 1), "message": "twice", "tags": [1, 2, 9],
    "codeDescription": {"href": "https://example.org/E1"},
    "relatedInformation": [
        {"location": {"uri": "${root}/b.txt", "range": range(4, 0, 1)}, "message": "first here"},
        {"location": {"uri": "untitled:x", "range": range(0, 0, 1)}, "message": "nowhere"},
    ]});
    let push = json!({"uri": "${params.textDocument.uri}", "diagnostics": [wrong]});
    let script = script().on("textDocument/didOpen", [Step::notify("textDocument/publishDiagnostics", push)]);
    let bench = bench(&[("a.txt", "a")], script);
    let found = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value.items.remove(0);
    let related = Related { path: bench.path("b.txt"), line: 5, message: "first here".into() };
    assert_eq!(found.related(), [related]);
    assert_eq!(found.tags(), ["unnecessary", "deprecated"]);
    assert_eq!(found.page().as_deref(), Some("https://example.org/E1"));
}

/// Checks that diagnostics stay partial if they lack an error found on request.
#[tokio::test]
async fn silence_does_not_complete_partial_diagnostics() {
    let list =
        |code: &str, category: &str| Step::Result(json!({"body": [{"code": code, "category": category}]}));
    let empty = || {
        Step::notify(
            "textDocument/publishDiagnostics",
            json!({"uri": "${params.textDocument.uri}", "diagnostics": []}),
        )
    };
    let script = Script::new(json!({
        "textDocumentSync": 2, "executeCommandProvider": {"commands": ["look"]},
    }))
    .on("textDocument/didOpen", [empty()])
    .on("textDocument/didChange", [empty(), publish(Value::Null, "whole")])
    .on("textDocument/didChange", [empty()])
    .on("workspace/executeCommand", [list("E1", "error")])
    .on("workspace/executeCommand", [list("E1", "error")])
    .on("workspace/executeCommand", [list("H1", "suggestion")])
    .on("workspace/executeCommand", [Step::Never]);
    let more = "[diagnostics.clean]\ncommand = \"look\"\narguments = [[1]]\nfield = \"body\"\n\
                code = \"code\"\nerrors = { category = \"error\" }\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, LONG).await, "whole");
    // A hint need not be published.
    bench.write("a.txt", "c");
    assert_eq!(ask(&bench, LONG).await, "");
    // A publish without a required problem is partial.
    bench.write("a.txt", "d");
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
}

/// Tests a server that reports an error on request and then withdraws it.
#[tokio::test]
async fn unpublished_problems_are_checked_again() {
    let list = |items: Value| Step::Result(json!({"body": items}));
    let push = json!({"uri": "${params.textDocument.uri}", "diagnostics": []});
    let script = Script::new(json!({
        "textDocumentSync": 2, "executeCommandProvider": {"commands": ["look"]},
    }))
    .on("textDocument/didOpen", [Step::notify("textDocument/publishDiagnostics", push)])
    .on("workspace/executeCommand", [list(json!([{"code": "E1"}]))])
    .on("workspace/executeCommand", [list(json!([]))]);
    let more =
        "[diagnostics.clean]\ncommand = \"look\"\narguments = [[1]]\nfield = \"body\"\ncode = \"code\"\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, LONG).await, "");
}

/// File and name of each request to a server that names its reports.
fn named(bench: &Bench) -> Vec<(String, Value)> {
    let asked = bench.got("scripted", "textDocument/diagnostic").into_iter();
    asked
        .map(|params| {
            let uri = params["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
            (uri.rsplit('/').next().unwrap_or_default().to_owned(), params["previousResultId"].clone())
        })
        .collect()
}

#[tokio::test]
async fn unchanged_refers_to_the_named_report() {
    let full = |id: &str, message: &str| {
        Step::Result(
            json!({"kind": "full", "resultId": id, "items": [{"range": range(0, 0, 1), "message": message}]}),
        )
    };
    let unchanged = |id: &str| Step::Result(json!({"kind": "unchanged", "resultId": id}));
    let script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .on("textDocument/diagnostic", [unchanged("0")])
        .on("textDocument/diagnostic", [full("1", "one")])
        .on("textDocument/diagnostic", [unchanged("1")])
        .on("textDocument/diagnostic", [full("2", "two")])
        .on("textDocument/diagnostic", [Step::Result(Value::Null)])
        .on("textDocument/diagnostic", [unchanged("2")]);
    let bench = bench(&[("a.txt", "abc")], script);
    let mut reported = Vec::new();
    for _ in 0..6 {
        reported.push(ask(&bench, LONG).await);
    }
    // An `unchanged` without an earlier report, and an answer without a report, mean nothing: neither is
    // clean.
    let unknown = reported[0].clone();
    assert!(unknown.contains("scripted"), "{unknown}");
    assert_eq!(reported[4], unknown);
    assert!(
        reported[1].contains("one") && reported[1] == reported[2] && reported[3].contains("two"),
        "{reported:?}"
    );
    assert_eq!(reported[5], reported[3]);
    let names: Vec<Value> = named(&bench).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, [Value::Null, Value::Null, json!("1"), json!("1"), json!("2"), json!("2")]);
}

#[tokio::test]
async fn related_documents_have_their_own_reports() {
    let item = |message: &str| json!([{"range": range(0, 0, 1), "message": message}]);
    let related = json!({"${root}/b.txt": {"kind": "full", "resultId": "b1", "items": item("of b")}});
    let first = json!({"kind": "full", "items": item("of a"), "relatedDocuments": related});
    let script =
        Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {"interFileDependencies": true}}))
            .on("textDocument/diagnostic", [Step::Result(first)])
            .on("textDocument/diagnostic", [Step::Result(json!({"kind": "unchanged", "resultId": "b1"}))]);
    let bench = bench(&[("a.txt", "abc"), ("b.txt", "abc")], script);
    let of = async |name: &str| {
        let answer = bench.pool.diagnostics(&bench.doc(name), &cx(LONG)).await.unwrap().value;
        answer.items.into_iter().map(|item| item.message).collect::<Vec<_>>()
    };
    assert_eq!(of("a.txt").await, ["of a"]);
    assert_eq!(of("b.txt").await, ["of b"]);
    assert_eq!(named(&bench), [("a.txt".to_owned(), Value::Null), ("b.txt".to_owned(), json!("b1"))]);
}

/// Checks that diagnostics from before a change of another file do not count.
///
/// Later publishes count, and a silent server receives the file again.
#[tokio::test]
async fn diagnostics_before_another_change_are_outdated() {
    let watchers = json!({"registrations": [{"id": "w", "method": "workspace/didChangeWatchedFiles",
        "registerOptions": {"watchers": [{"globPattern": "**/*"}]}}]});
    for (version, again) in [(json!("${version}"), "didOpen"), (Value::Null, "didChange")] {
        let script = script()
            .on("initialized", [Step::request("w", "client/registerCapability", watchers.clone())])
            .on("textDocument/didOpen", [Step::wait_for("response", 1), publish(version.clone(), "no new")])
            .on(&format!("textDocument/{again}"), [publish(version.clone(), "found")]);
        let bench = bench(&[("a.txt", "a")], script);
        assert_eq!(ask(&bench, LONG).await, "no new");
        assert_eq!(ask(&bench, LONG).await, "no new");
        bench.write("new.txt", "n");
        assert_eq!(ask(&bench, LONG).await, "found", "{again}");
        assert_eq!(bench.got("scripted", "workspace/didChangeWatchedFiles").len(), 1);
        assert_eq!(
            ask(&bench, Duration::from_millis(100)).await,
            "found",
            "known, and nothing changed since"
        );
    }
}

#[tokio::test]
async fn diagnostics_after_another_change_are_awaited() {
    let of = |name: &str, version: i32, items: Value| {
        let params = json!({"uri": format!("${{root}}/{name}"), "version": version, "diagnostics": items});
        Step::notify("textDocument/publishDiagnostics", params)
    };
    let broken = json!([{"range": range(0, 0, 1), "message": "broken"}]);
    let script = script()
        .on("textDocument/didOpen", [of("a.txt", 1, json!([]))])
        .on("textDocument/didOpen", [of("b.txt", 1, json!([]))])
        .on("textDocument/didChange", [of("a.txt", 1, broken)]);
    let bench = bench(&[("a.txt", "a"), ("b.txt", "b")], script);
    assert_eq!(ask(&bench, LONG).await, "");
    let b = bench.pool.diagnostics(&bench.doc("b.txt"), &cx(LONG)).await.unwrap().value;
    assert!(b.items.is_empty() && b.pending.is_empty());
    bench.write("b.txt", "changed");
    assert_eq!(ask(&bench, LONG).await, "broken");
}

/// The documents opened in a server, with their texts.
fn opened(bench: &Bench) -> Vec<String> {
    let opened =
        bench.got("scripted", "textDocument/didOpen").into_iter().map(|it| it["textDocument"].clone());
    let row =
        |it: Value| format!("{}: {}", it["uri"].as_str().unwrap().rsplit('/').next().unwrap(), it["text"]);
    opened.map(row).collect()
}

/// Changes texts in the editor and on the disk before a request.
///
/// A server might not read them as they are, or not at once, so Pilcrow sends them.
#[tokio::test]
async fn all_texts_are_current_before_a_request() {
    let script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": []}))]);
    let files: Vec<(String, &str)> = (0..60).map(|n| (format!("f{n}.txt"), "f")).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    files.extend([("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c"), ("other.md", "o")]);
    let typing = Typing::new();
    let editor: Arc<dyn Editor> = Arc::<Typing>::clone(&typing);
    let bench = build_beside(&files, vec![("scripted", script, "")], Some(editor), |_| ());
    assert_eq!(ask(&bench, LONG).await, "");
    assert_eq!(opened(&bench), ["a.txt: \"a\""]);
    typing.types(&bench.path("b.txt"), "typed");
    typing.types(&bench.path("other.md"), "of another language");
    bench.write("c.txt", "changed");
    assert_eq!(ask(&bench, LONG).await, "");
    let mut news = opened(&bench).split_off(1);
    news.sort();
    assert_eq!(news, ["b.txt: \"typed\"", "c.txt: \"changed\""]);
    let record = bench.record("scripted");
    let at = |method: &str| record.iter().rposition(|it| it["method"] == method).unwrap();
    assert!(at("textDocument/didOpen") < at("textDocument/diagnostic"));
    // The number does not matter: the server would read closed files from disk.
    (0..60).for_each(|n| typing.types(&bench.path(&format!("f{n}.txt")), "typed"));
    assert_eq!(ask(&bench, LONG).await, "");
    let closed = bench.got("scripted", "textDocument/didClose");
    let names = ["a.txt", "c.txt"].map(|name| bench.uri(name));
    assert!(closed.iter().all(|it| names.contains(&it["textDocument"]["uri"].as_str().unwrap().to_owned())));
    assert_eq!(opened(&bench).iter().filter(|it| it.ends_with("\"typed\"")).count(), 61);
}

#[tokio::test]
async fn the_newest_of_many_changed_files_are_opened() {
    let script = Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": []}))]);
    let names: Vec<String> = (0..40).map(|n| format!("f{n}.txt")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "f")).collect();
    files.push(("a.txt", "a"));
    let bench = bench(&files, script);
    assert_eq!(ask(&bench, LONG).await, "");
    let start = std::time::SystemTime::now();
    for (n, name) in names.iter().enumerate() {
        bench.write(name, "other");
        let file = std::fs::File::options().write(true).open(bench.path(name)).unwrap();
        file.set_modified(start + Duration::from_secs(n as u64)).unwrap();
    }
    assert_eq!(ask(&bench, LONG).await, "");
    let expected: Vec<String> = (24..40).map(|n| format!("f{n}.txt: \"other\"")).collect();
    assert_eq!(opened(&bench)[1..], expected);
}

/// Closes a new file for the server's file watcher while a request waits for it.
#[tokio::test]
async fn a_document_closed_during_a_request_is_reopened() {
    for version in [json!("${version}"), Value::Null] {
        let empty = Step::notify(
            "textDocument/publishDiagnostics",
            json!({"uri": "${params.textDocument.uri}", "diagnostics": []}),
        );
        let script = Script::new(json!({"textDocumentSync": 2, "hoverProvider": true}))
            .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))])
            .on("textDocument/didOpen", [publish(version.clone(), "at first")])
            .on("textDocument/didOpen", [])
            .on("textDocument/didOpen", [Step::DelayMs(300), publish(version.clone(), "wrong")])
            .on("textDocument/didClose", if version.is_null() { vec![empty] } else { vec![] });
        let typing = Typing::new();
        let editor: Arc<dyn Editor> = Arc::<Typing>::clone(&typing);
        let more = "[diagnostics]\nsettle_ms = 50\n";
        let bench = build_beside(&[("b.txt", "b")], vec![("scripted", script, more)], Some(editor), |_| ());
        bench.pool.hover(&bench.doc("b.txt"), 0, &cx(LONG)).await.unwrap();
        typing.types(&bench.path("a.txt"), "a");
        let comes = async {
            while bench.got("scripted", "textDocument/didOpen").len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            bench.write("a.txt", "a");
            while bench.got("scripted", "textDocument/didClose").is_empty() {
                bench.pool.hover(&bench.doc("b.txt"), 0, &cx(LONG)).await.unwrap();
            }
        };
        let (reported, ()) = tokio::join!(ask(&bench, Duration::from_secs(8)), comes);
        assert_eq!(reported, "wrong", "{version}");
    }
}

/// Covers a broken `go.mod`, which gopls shows as progress until it is fixed.
#[tokio::test]
async fn progress_that_reports_an_error_delays_nothing() {
    let value = json!({"kind": "begin", "title": "Error loading workspace", "message": "go.mod:6"});
    let published = json!({"uri": "${params.textDocument.uri}", "version": 1, "diagnostics": []});
    let script =
        Script::new(json!({"textDocumentSync": 2, "hoverProvider": true, "definitionProvider": true}))
            .on(
                "textDocument/definition",
                [Step::Error(json!({"code": 0, "message": "no package metadata"}))],
            )
            .on(
                "initialized",
                [
                    Step::request("p", "window/workDoneProgress/create", json!({"token": "t"})),
                    Step::notify("$/progress", json!({"token": "t", "value": value})),
                ],
            )
            .on("textDocument/didOpen", [Step::notify("textDocument/publishDiagnostics", published)])
            .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))]);
    let more = "[ready]\nprogress = true\ngrace_ms = 60000\nerror_progress = [\"Error loading\"]\n\
        [diagnostics]\nprogress = true\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    let began = std::time::Instant::now();
    let notes = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap().notes;
    let [lsp_client::Note::Reported { message, .. }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!(message, "Error loading workspace: go.mod:6");
    let reported = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
    assert!(reported.pending.is_empty(), "{reported:?}");
    // The server's own refusal does not name the file to fix.
    let refused = bench.pool.definition(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    let why =
        "scripted: the project is not loaded; fix this and try again\nError loading workspace: go.mod:6";
    assert_eq!(refused.to_string(), why);
    assert!(began.elapsed() < LONG / 2);
}

/// Covers progress that the definition ignores, which does not affect answers.
#[tokio::test]
async fn ignored_silent_work_causes_no_note() {
    for (besides, doubted) in [("check", false), ("other", true)] {
        let begin = json!({"token": "t", "value": {"kind": "begin", "title": "cargo check"}});
        let script = Script::new(json!({"textDocumentSync": 2, "hoverProvider": true}))
            .on("initialized", [Step::notify("$/progress", begin)])
            .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))]);
        let more = format!("[ready]\nprogress = true\ntimeout_s = 0\nignored_progress = [{besides:?}]\n");
        let bench = build(&[("a.txt", "a")], vec![("scripted", script, more.as_str())], |_| ());
        let hover = async || bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap().notes;
        hover().await;
        assert_eq!(!hover().await.is_empty(), doubted, "{besides}");
    }
}
