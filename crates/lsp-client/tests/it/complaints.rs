//! Complaints of users about other agents' language-server tools, as tests.
//!
//! Each test is named after the project and the number of the issue. Complaints about messages of the tool and
//! about processes of the executable are covered by end-to-end tests.

use adapters::{Feature, ServerDefinitions};
use std::time::{Duration, Instant};

use policy::ErrorCode;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::{ChangeKind, Commit, CommitId, CommittedFile, RunId};

use crate::bench::{LONG, alive, bench, build, cx, range, until};

const SHORT: Duration = Duration::from_millis(600);

fn hovers() -> Script {
    Script::new(json!({"hoverProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
}

fn hovers_with(text: &str) -> Script {
    Script::new(json!({"hoverProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": text}))])
}

#[tokio::test]
async fn omp_1648_servers_are_found_from_the_file_upward() {
    let files = [("deep/er/package/mark", ""), ("deep/er/package/src/a.txt", "a"), ("b.txt", "b")];
    let more = "[root]\nmarkers = [\"mark\"]\n";
    let bench = build(&files, vec![("scripted", hovers(), more)], |_| ());
    bench.pool.hover(&bench.doc("deep/er/package/src/a.txt"), 0, &cx(LONG)).await.unwrap();
    bench.pool.hover(&bench.doc("b.txt"), 0, &cx(LONG)).await.unwrap();
    let roots: Vec<Value> =
        bench.got("scripted", "initialize").iter().map(|params| params["rootUri"].clone()).collect();
    let whole = paths::path_to_uri(bench.workspace.root().as_path());
    assert_eq!(roots, [json!(bench.uri("deep/er/package")), json!(whole)]);
}

#[tokio::test]
async fn omp_3001_a_lazy_start_that_hangs_ends_with_the_deadline() {
    let bench = bench(&[("a.txt", "a")], hovers().on("initialize", [Step::Never]));
    let started = Instant::now();
    let error = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(SHORT)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerStarting);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn omp_9624_diagnostics_are_pulled_if_announced() {
    let items = json!([{"range": range(0, 0, 1), "message": "wrong", "severity": 1}]);
    let script = Script::new(json!({"textDocumentSync": 2}))
        .on(
            "initialized",
            [Step::request("r", "client/registerCapability", json!({"registrations": [
                {"id": "d", "method": "textDocument/diagnostic", "registerOptions": {"identifier": "late"}}
            ]}))],
        )
        .on("textDocument/didOpen", [Step::wait_for("response", 1)])
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": items}))]);
    let bench = bench(&[("a.txt", "a")], script);
    // A server that registers late receives the request right after it registers.
    let started = Instant::now();
    loop {
        match bench.pool.diagnostics(&bench.doc("a.txt"), &cx(SHORT)).await {
            Ok(answer) if answer.value.items.len() == 1 => break,
            Ok(answer) => assert!(!answer.value.pending.is_empty(), "an unknown file was reported as clean"),
            Err(error) => assert_eq!(error.code(), ErrorCode::ServerStarting, "{error}"),
        }
        assert!(started.elapsed() < LONG);
    }
}

#[tokio::test]
async fn omp_11416_outside_changes_are_sent_before_the_next_answer() {
    let bench = bench(&[("a.txt", "before")], hovers());
    let hover = async || bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap().value.unwrap();
    assert_eq!(hover().await, "before");
    bench.write("a.txt", "changed by git");
    assert_eq!(hover().await, "changed by git");
}

#[tokio::test]
async fn omp_8382_a_restarted_server_has_the_documents_again() {
    let bench = bench(&[("a.txt", "text")], hovers());
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    bench.pool.reload(None, None, &cx(LONG)).await.unwrap();
    assert_eq!(bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap().value.unwrap(), "text");
    assert_eq!(bench.got("scripted", "textDocument/didOpen").len(), 2);
}

#[tokio::test]
async fn omp_8382_a_stopped_server_gets_its_documents_back() {
    let script =
        Script::new(json!({"hoverProvider": true, "definitionProvider": true, "textDocumentSync": 2}))
            .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
            .on("textDocument/definition", [Step::Crash(1)]);
    let bench = bench(&[("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")], script);
    let [a, b, c] = ["a.txt", "b.txt", "c.txt"].map(|name| bench.doc(name));
    let opened = |from: usize| {
        let opened = bench.got("scripted", "textDocument/didOpen");
        let uris = opened[from..].iter().map(|it| it["textDocument"]["uri"].as_str().unwrap().to_owned());
        uris.collect::<std::collections::BTreeSet<_>>()
    };
    let all = std::collections::BTreeSet::from(["a.txt", "b.txt", "c.txt"].map(|name| bench.uri(name)));
    for doc in [&a, &b, &c] {
        bench.pool.hover(doc, 0, &cx(LONG)).await.unwrap();
    }
    bench.pool.reload(None, None, &cx(LONG)).await.unwrap();
    bench.pool.hover(&a, 0, &cx(LONG)).await.unwrap();
    assert_eq!(opened(3), all);
    for doc in [&b, &c] {
        bench.pool.hover(doc, 0, &cx(LONG)).await.unwrap();
    }
    bench.pool.definition(&b, 0, &cx(LONG)).await.unwrap_err();
    bench.pool.hover(&a, 0, &cx(LONG)).await.unwrap();
    assert_eq!(opened(6), all);
    // A reopened document without a request since is not reopened again.
    bench.pool.definition(&a, 0, &cx(LONG)).await.unwrap_err();
    bench.pool.hover(&a, 0, &cx(LONG)).await.unwrap();
    assert_eq!(opened(9).len(), 1);
    assert_eq!(bench.got("scripted", "textDocument/didOpen").len(), 10);
}

#[tokio::test]
async fn omp_8571_a_reload_restarts_instead_of_notifying() {
    let script = hovers()
        .on("workspace/didChangeConfiguration", [])
        .on("workspace/didChangeConfiguration", [])
        .on("workspace/didChangeConfiguration", [Step::Crash(1)]);
    let bench = bench(&[("a.txt", "text")], script);
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(bench.pool.reload(None, None, &cx(LONG)).await.unwrap(), ["scripted"]);
    }
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    // The pool sends it once per process, after `initialized`.
    assert_eq!(bench.got("scripted", "workspace/didChangeConfiguration").len(), 4);
}

#[tokio::test]
async fn omp_a_reload_helps_a_server_that_exited_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let fixed = directory.path().join("fixed");
    let more = format!(
        "[command]\ncandidates = [\"/bin/sh\"]\nargs = [\"-c\", \"test -e {} && exec {} $SCRIPT\"]\n",
        fixed.display(),
        testing::language_server::executable().display(),
    );
    let bench = build(&[("a.txt", "a")], vec![("scripted", hovers(), more.as_str())], |_| ());
    let doc = bench.doc("a.txt");
    for _ in 0..4 {
        bench.pool.hover(&doc, 0, &cx(SHORT)).await.unwrap_err();
    }
    // The next start is now four seconds away.
    for _ in 0..2 {
        bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap_err();
    }
    std::fs::write(&fixed, "").unwrap();
    // A reload has no back-off: its caller has probably fixed the cause.
    bench.pool.reload(Some(&bench.path("a.txt")), None, &cx(Duration::from_secs(3))).await.unwrap();
    bench.pool.hover(&doc, 0, &cx(SHORT)).await.unwrap();
}

#[tokio::test]
async fn omp_8390_a_server_with_a_pending_request_is_not_idle() {
    let push = json!({"uri": "${params.textDocument.uri}", "diagnostics": []});
    let sync = json!({"openClose": true, "change": 2, "save": true});
    let slow = Script::new(json!({"textDocumentSync": sync})).on(
        "textDocument/didOpen",
        [Step::wait_for("textDocument/didSave", 1), Step::notify("textDocument/publishDiagnostics", push)],
    );
    let servers = vec![
        ("other", hovers(), "[features]\nhover = 50\n"),
        ("slow", slow, "[features]\ndiagnostics = 50\n"),
    ];
    let bench = build(&[("a.txt", "a")], servers, |limits| limits.idle = Duration::from_millis(100));
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let asking = bench.pool.diagnostics(&doc, &cx);
    let idling = async {
        let record = bench.beside("slow.record");
        let asked = move || std::fs::read_to_string(&record).is_ok_and(|it| it.contains("didOpen"));
        until(asked, "the question").await;
        // A server that was used later is found idle and stopped, so the request is older.
        bench.pool.hover(&doc, 0, &cx).await.unwrap();
        let stopped = bench.beside("other.record");
        let stopped = move || std::fs::read_to_string(&stopped).is_ok_and(|it| it.contains("\"exit\""));
        until(stopped, "the end of the idle server").await;
        let file = CommittedFile {
            path: bench.path("a.txt"),
            kind: ChangeKind::Modified,
            edits: Vec::new(),
            version: None,
        };
        let commit = Commit {
            id: CommitId(String::new()),
            run: RunId::new(),
            label: String::new(),
            files: vec![file],
            notes: Vec::new(),
        };
        bench.pool.did_commit(&commit).await;
    };
    let (answer, ()) = tokio::join!(asking, idling);
    let answer = answer.unwrap().value;
    assert_eq!((answer.pending, answer.failed), (Vec::new(), Vec::new()));
    assert_eq!(bench.got("slow", "initialize").len(), 1);
}

#[tokio::test]
async fn omp_6369_a_cancelled_reload_leaves_no_process() {
    let bench = bench(&[("a.txt", "text")], hovers().on("shutdown", [Step::Never]));
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    let before = bench.pool.status().await[0].pid.unwrap().to_string();
    let cancelled = cx(LONG);
    let reload = bench.pool.reload(None, None, &cancelled);
    let cancel = async {
        let record = bench.beside("scripted.record");
        let asked = move || std::fs::read_to_string(&record).is_ok_and(|it| it.contains("shutdown"));
        until(asked, "the end of the old server").await;
        cancelled.cancel.cancel();
        Instant::now()
    };
    let (reloaded, at) = tokio::join!(reload, cancel);
    assert!(matches!(reloaded, Err(lsp_client::ServerError::Cancelled)), "{reloaded:?}");
    assert!(at.elapsed() < Duration::from_secs(3), "a server that does not end delays no caller");
    until(move || !alive(&before), "the end of the old server").await;
    assert_eq!(bench.got("scripted", "initialize").len(), 1, "no new server is started");
    assert_eq!(bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap().value.unwrap(), "text");
}

#[tokio::test]
async fn omp_3546_a_reload_rereads_the_definitions() {
    let bench = build(&[("a.txt", "a")], vec![("scripted", hovers_with("old"), "")], |_| ());
    let doc = bench.doc("a.txt");
    let hover = async || bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap().value.unwrap();
    assert_eq!(hover().await, "old");
    // The same program with other arguments is another definition.
    bench.define(vec![("scripted", hovers_with("new"), "")]);
    assert_eq!(hover().await, "old");
    bench.pool.reload(None, None, &cx(LONG)).await.unwrap();
    assert_eq!(hover().await, "new");
    // One definition is new and one is deleted.
    bench.define(vec![("another", hovers_with("another"), "")]);
    bench.pool.reload(None, None, &cx(LONG)).await.unwrap();
    assert_eq!(hover().await, "another");
    let running = bench.pool.status().await.into_iter().filter(|status| status.pid.is_some());
    assert_eq!(running.map(|status| status.name).collect::<Vec<_>>(), ["another"]);
}

#[tokio::test]
async fn new_definitions_end_only_changed_servers() {
    let servers = |text: &str| vec![("scripted", hovers_with(text), "")];
    let bench = build(&[("a.txt", "a")], servers("old"), |_| ());
    let doc = bench.doc("a.txt");
    let hover = async || bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap().value.unwrap();
    assert_eq!(hover().await, "old");
    assert_eq!(bench.pool.take_definitions(bench.defined()), Vec::<String>::new());
    assert_eq!((hover().await, bench.got("scripted", "initialize").len()), ("old".to_owned(), 1));
    bench.define(servers("new"));
    assert_eq!(bench.pool.take_definitions(bench.defined()), ["scripted"]);
    // The old one ends meanwhile.
    let started = Instant::now();
    while bench.pool.hover(&doc, 0, &cx(LONG)).await.ok().and_then(|it| it.value).as_deref() != Some("new") {
        assert!(started.elapsed() < Duration::from_secs(30));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn omp_2329_formatting_uses_the_files_indentation() {
    let script = Script::new(json!({"textDocumentSync": 2, "documentFormattingProvider": true}))
        .on("textDocument/formatting", [Step::Result(Value::Null)]);
    let bench = bench(&[("a.txt", "a\n   b\n   c\n"), ("t.txt", "a\n\tb\n")], script);
    bench.pool.format(&bench.doc("a.txt"), None, &cx(LONG)).await.unwrap();
    bench.pool.format(&bench.doc("t.txt"), None, &cx(LONG)).await.unwrap();
    let options: Vec<Value> =
        bench.got("scripted", "textDocument/formatting").iter().map(|it| it["options"].clone()).collect();
    assert_eq!(options[0], json!({"tabSize": 3, "insertSpaces": true}));
    assert_eq!(options[1]["insertSpaces"], false);
}

#[tokio::test]
async fn omp_1976_definitions_choose_the_server_of_each_feature() {
    let script = |kind: &str| {
        Script::new(json!({"textDocumentSync": 2, "hoverProvider": true}))
            .on("textDocument/hover", [Step::Result(json!({"contents": kind}))])
    };
    let servers =
        vec![("aaa", script("linter"), "[features]\ndiagnostics = 50\n"), ("zzz", script("types"), "")];
    let bench = build(&[("a.txt", "a")], servers, |_| ());
    let hover = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    assert_eq!((hover.server.as_str(), hover.value.as_deref()), ("zzz", Some("types")));
    let built_in = ServerDefinitions::built_in();
    let best = built_in.for_feature(std::path::Path::new("/a.py"), Feature::CallHierarchy);
    assert_eq!(best[0].name, "basedpyright", "an unlisted request goes to the server of a similar feature");
}

#[tokio::test]
async fn opencode_17287_eleven_requests_share_one_server() {
    let bench = bench(&[("a.txt", "a")], hovers());
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let asks = (0..11).map(|_| bench.pool.hover(&doc, 0, &cx));
    for answer in futures_util::future::join_all(asks).await {
        answer.unwrap();
    }
    assert_eq!(bench.got("scripted", "initialize").len(), 1);
    let pid = bench.pool.status().await[0].pid.unwrap().to_string();
    bench.pool.shutdown(Duration::from_secs(5)).await;
    assert_eq!(bench.got("scripted", "shutdown").len(), 1);
    until(move || !alive(&pid), "the end of the server").await;
}

#[tokio::test]
async fn serena_725_a_rename_that_changes_nothing_is_no_success() {
    let script = Script::new(json!({"textDocumentSync": 2, "renameProvider": true}))
        .on("textDocument/rename", [Step::Result(json!({"changes": {}}))]);
    let bench = bench(&[("a.txt", "abc")], script);
    let error = bench.rename(&bench.doc("a.txt"), 0, "x", &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArguments);
}

#[tokio::test]
async fn serena_927_a_document_is_open_before_it_is_renamed_in() {
    let edit = json!({"changes": {"${root}/a.txt": [{"range": range(0, 0, 3), "newText": "new"}]}});
    let script = Script::new(json!({"textDocumentSync": 2, "renameProvider": true}))
        .on("textDocument/rename", [Step::Result(edit)]);
    let bench = bench(&[("a.txt", "abc")], script);
    bench.rename(&bench.doc("a.txt"), 0, "new", &cx(LONG)).await.unwrap();
    let record = bench.record("scripted");
    let at = |method: &str| record.iter().position(|it| it["method"] == method).unwrap();
    assert!(at("textDocument/didOpen") < at("textDocument/rename"));
}

#[tokio::test]
async fn serena_1833_an_edit_during_a_request_delays_neither() {
    let script = hovers().on(
        "textDocument/hover",
        [Step::wait_for("textDocument/didChange", 1), Step::Result(json!({"contents": "late"}))],
    );
    let mut script = script;
    script.methods.get_mut("textDocument/hover").unwrap().reverse();
    let bench = bench(&[("a.txt", "abc")], script);
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let record = bench.beside("scripted.record");
    let edit = async {
        let is_it = |message: &Value| message["method"] == "textDocument/hover";
        let asked = move || testing::recorded(&record).iter().any(is_it);
        until(asked, "the question").await;
        bench.write("a.txt", "abd");
        bench.pool.hover(&bench.doc("a.txt"), 0, &cx).await.unwrap()
    };
    let (first, _) = tokio::join!(bench.pool.hover(&doc, 0, &cx), edit);
    assert_eq!(first.unwrap().value.unwrap(), "late");
}

#[tokio::test]
async fn codeboarding_459_a_timeout_names_method_progress_and_log() {
    let begin = json!({"token": "t", "value": {"kind": "begin", "title": "indexing", "percentage": 43}});
    let script = hovers()
        .on("initialized", [Step::notify("$/progress", begin), Step::Stderr("reading the project\n".into())])
        .on("textDocument/definition", [Step::Never]);
    let mut script = script;
    script.capabilities["definitionProvider"] = json!(true);
    let bench = bench(&[("a.txt", "abc")], script);
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let error = bench.pool.definition(&bench.doc("a.txt"), 0, &cx(SHORT)).await.unwrap_err().to_string();
    assert!(error.contains("textDocument/definition") && error.contains("indexing 43%"), "{error}");
    let pool = std::sync::Arc::clone(&bench.pool);
    until(move || pool.logs(None)[0].stderr_tail.trim() == "reading the project", "its words").await;
}

#[tokio::test]
async fn tsls_1064_cleared_diagnostics_do_not_count_as_clean() {
    let publish = |items: Value| {
        Step::notify(
            "textDocument/publishDiagnostics",
            json!({"uri": "${params.textDocument.uri}", "diagnostics": items}),
        )
    };
    let wrong = json!([{"range": range(0, 0, 1), "message": "wrong"}]);
    let script = Script::new(json!({"textDocumentSync": 2}))
        .on("textDocument/didOpen", [publish(wrong.clone())])
        .on("textDocument/didChange", [publish(json!([])), publish(wrong)]);
    let more = "[diagnostics]\nsettle_ms = 300\n";
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| ());
    for text in ["abc", "abd"] {
        bench.write("a.txt", text);
        let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
        assert_eq!(answer.items.len(), 1, "an empty publish right before the real one is not the answer");
    }
}

#[tokio::test]
async fn opencode_workspace_symbol_sends_the_query() {
    let script = Script::new(json!({"textDocumentSync": 2, "workspaceSymbolProvider": true}))
        .on("workspace/symbol", [Step::Result(json!([]))]);
    let bench = bench(&[("a.txt", "abc")], script);
    bench.pool.workspace_symbols("needle", None, &cx(LONG)).await.unwrap();
    assert_eq!(bench.got("scripted", "workspace/symbol")[0]["query"], "needle");
}
