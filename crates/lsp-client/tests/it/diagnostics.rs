//! Diagnostics are of exactly the text that was asked about, or not known.

use std::time::Duration;

use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{Bench, LONG, bench, build, cx, range};

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
async fn a_push_for_an_older_version_is_never_shown() {
    let script = script()
        .on("textDocument/didOpen", [publish(json!(1), "one")])
        .on("textDocument/didChange", [publish(json!(1), "one again")])
        .on("textDocument/didChange", [publish(json!(2), "two"), publish(json!(3), "three")]);
    let bench = bench(&[("a.txt", "a")], script);
    assert_eq!(ask(&bench, LONG).await, "one");
    // Known already: nothing is waited for.
    assert_eq!(ask(&bench, Duration::from_millis(50)).await, "one");
    bench.write("a.txt", "b");
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
    bench.write("a.txt", "c");
    assert_eq!(ask(&bench, LONG).await, "three");
}

#[tokio::test]
async fn what_comes_without_a_version_from_a_server_that_sends_versions_is_about_no_open_text() {
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
async fn without_versions_only_what_came_after_our_change_counts() {
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
async fn what_is_pushed_while_the_server_works_is_a_part() {
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

#[tokio::test]
async fn a_definition_may_refuse_pushes_without_versions() {
    let script = script().on("textDocument/didOpen", [publish(Value::Null, "one")]);
    let more = "[diagnostics]\nrefuse_unversioned = true\n";
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, more)], |_| ());
    assert_eq!(ask(&bench, SHORT).await, "(pending scripted)");
}

#[tokio::test]
async fn a_server_that_is_asked_answers_for_the_text_it_has() {
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
async fn all_servers_of_a_file_are_heard_and_the_silent_are_named() {
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
    assert!(bench.record("spare").is_empty(), "one server of a group is enough");
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(SHORT)).await.unwrap().value;
    let item = &answer.items[0];
    let shown = (item.line, item.severity.to_string(), item.code.as_deref(), item.source.as_deref());
    assert_eq!(shown, (1, "warning".to_owned(), Some("E1"), Some("s")));
}

/// A server that says nothing when nothing changes is asked; only empty lists make a text clean.
#[tokio::test]
async fn what_was_clean_stays_clean_only_when_the_server_says_so() {
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
    for unknown in ["one list is not empty", "an error", "no list"] {
        bench.write("a.txt", unknown);
        assert_eq!(ask(&bench, SHORT).await, "(pending scripted)", "{unknown}");
    }
}
