//! Workspace diagnostics: only the files that servers report are known.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{Bench, LONG, bench, cx, range};

fn report(name: &str, version: Value, messages: &[&str]) -> Value {
    let items: Vec<Value> =
        messages.iter().map(|message| json!({"range": range(0, 0, 1), "message": message})).collect();
    json!({"uri": format!("${{root}}/{name}"), "version": version, "kind": "full", "items": items})
}

fn script(pull: Value) -> Script {
    Script::new(json!({"textDocumentSync": 2, "hoverProvider": true, "diagnosticProvider": pull}))
}

/// `name: message, …` of each file that is known.
async fn reported(bench: &Bench, names: &[&str]) -> Vec<String> {
    let paths: BTreeSet<_> = names.iter().map(|name| bench.path(name)).collect();
    let known = bench.pool.reported(&paths, &cx(LONG)).await.unwrap();
    let row = |(path, reported): (&paths::AbsPath, &lsp_client::Reported)| {
        let messages: Vec<&str> = reported.items.iter().map(|item| item.message.as_str()).collect();
        format!("{}: {}", path.file_name(), messages.join(", "))
    };
    known.iter().map(row).collect()
}

const FILES: [(&str, &str); 5] =
    [("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c"), ("d.txt", "d"), ("e.txt", "e")];

#[tokio::test]
async fn only_reported_files_are_known() {
    let pull = json!({"workspaceDiagnostics": true, "identifier": "all"});
    let items = [
        report("a.txt", Value::Null, &["wrong", "worse"]),
        report("b.txt", Value::Null, &[]),
        // A report about a text that was never sent.
        report("c.txt", json!(7), &["stale"]),
        json!({"uri": "${root}/d.txt", "version": null, "kind": "unchanged", "resultId": "1"}),
        // The request does not name this file.
        report("other.txt", Value::Null, &["other"]),
    ];
    let script = script(pull)
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": []}))])
        .on("workspace/diagnostic", [Step::Result(json!({"items": items}))]);
    let bench = bench(&FILES, script);
    assert_eq!(reported(&bench, &["a.txt"]).await, [""; 0], "no server is started for it");
    bench.pool.diagnostics(&bench.doc("e.txt"), &cx(LONG)).await.unwrap();
    let known = reported(&bench, &["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"]).await;
    assert_eq!(known, ["a.txt: wrong, worse", "b.txt: "]);
    let asked = bench.got("scripted", "workspace/diagnostic");
    assert_eq!(asked, [json!({"previousResultIds": [], "identifier": "all"})]);
}

#[tokio::test]
async fn file_only_servers_get_no_workspace_request() {
    let script = script(json!({"interFileDependencies": true, "workspaceDiagnostics": false}))
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": []}))]);
    let bench = bench(&FILES, script);
    bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap();
    assert_eq!(reported(&bench, &["b.txt"]).await, [""; 0]);
    assert_eq!(bench.got("scripted", "workspace/diagnostic"), [Value::Null; 0]);
}

#[tokio::test]
async fn a_missing_report_leaves_files_unknown() {
    let script = script(json!({"workspaceDiagnostics": true}))
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": []}))])
        .on("workspace/diagnostic", [Step::Never]);
    let bench = bench(&FILES, script);
    bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap();
    let paths = BTreeSet::from([bench.path("b.txt")]);
    let known = bench.pool.reported(&paths, &cx(std::time::Duration::from_millis(200))).await.unwrap();
    assert!(known.is_empty(), "{known:?}");
}
