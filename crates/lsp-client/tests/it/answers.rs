//! Requests: the messages before them, and the conversion of their answers.

use expect_test::expect;
use std::time::{Duration, Instant};

use lsp_client::{ServerError, StartCause};
use policy::ErrorCode;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};

use crate::bench::{LONG, bench, build, cx, range};

/// A server whose hover shows its view of the text.
fn mirror(encoding: &str, sync: u8) -> Script {
    Script::new(json!({"hoverProvider": true, "textDocumentSync": sync, "positionEncoding": encoding}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
}

#[tokio::test]
async fn incremental_changes_are_right_in_every_encoding() {
    let texts = [
        "one\r\ntwo 😀 three\r\nfour\r\n",
        "one\r\ntwo 😀 drei\r\nfour\r\n",
        "one\ntwo é😀😀 drei\nfour",
        "",
        "😀",
        "a\rb\r\nc",
        "a\nb\r\nc\r",
    ];
    for encoding in ["utf-8", "utf-16", "utf-32"] {
        for sync in [1, 2] {
            let bench = bench(&[("a.txt", texts[0])], mirror(encoding, sync));
            for text in texts {
                bench.write("a.txt", text);
                let hover = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
                assert_eq!(hover.value.unwrap_or_default(), text, "{encoding} {sync}");
            }
            let changes = bench.got("scripted", "textDocument/didChange");
            assert_eq!(changes.len(), texts.len() - 1);
            let ranged = changes[0]["contentChanges"][0].get("range").is_some();
            assert_eq!(ranged, sync == 2);
            let versions: Vec<&Value> = changes.iter().map(|it| &it["textDocument"]["version"]).collect();
            assert_eq!(versions[..2], [&json!(2), &json!(3)]);
        }
    }
}

#[tokio::test]
async fn other_open_documents_are_synced_too() {
    let script = Script::new(json!({"hoverProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "all: ${documents}"}))]);
    let bench = bench(&[("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")], script);
    let hover = async |name: &str| {
        let answer = bench.pool.hover(&bench.doc(name), 0, &cx(LONG)).await.unwrap().value.unwrap();
        let documents: serde_json::Map<String, Value> =
            serde_json::from_str(answer.strip_prefix("all: ").unwrap()).unwrap();
        let short = |(uri, document): (&String, &Value)| {
            format!("{}={}", uri.rsplit('/').next().unwrap(), document["text"].as_str().unwrap())
        };
        documents.iter().map(short).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(hover("a.txt").await, "a.txt=a");
    assert_eq!(hover("b.txt").await, "a.txt=a b.txt=b");
    bench.write("a.txt", "changed elsewhere");
    std::fs::remove_file(bench.path("b.txt")).unwrap();
    assert_eq!(hover("c.txt").await, "a.txt=changed elsewhere c.txt=c");
    assert_eq!(bench.got("scripted", "textDocument/didOpen")[0]["textDocument"]["languageId"], "words");
}

#[tokio::test]
async fn positions_are_bytes_in_every_encoding() {
    for (encoding, start, end) in [("utf-8", 9, 12), ("utf-16", 7, 9), ("utf-32", 6, 8)] {
        let places = json!([{"uri": "${root}/a.txt", "range": range(1, start, end)}]);
        let script = Script::new(
            json!({"referencesProvider": true, "textDocumentSync": 2, "positionEncoding": encoding}),
        )
        .on("textDocument/references", [Step::Result(places)]);
        let bench = bench(&[("a.txt", "first\r\nsay: 😀bé😀c\r\n")], script);
        let doc = bench.doc("a.txt");
        let at = doc.text.find("bé").unwrap();
        let found = bench.pool.references(&doc, at, true, &cx(LONG)).await.unwrap();
        let asked = bench.got("scripted", "textDocument/references");
        // The request is about `b`, after "say: " and one astral character.
        let before = match encoding {
            "utf-8" => 9,
            "utf-16" => 7,
            _ => 6,
        };
        assert_eq!(asked[0]["position"], json!({"line": 1, "character": before}), "{encoding}");
        assert_eq!(asked[0]["context"]["includeDeclaration"], true);
        let place = &found.value[0];
        assert_eq!(&doc.text[place.range.clone()], "bé", "{encoding}");
        assert_eq!((place.line, place.line_text.as_str()), (2, "say: 😀bé😀c"));
        assert_eq!((found.server.as_str(), found.notes), ("scripted", Vec::new()));
    }
}

#[tokio::test]
async fn unusual_responses_are_accepted_or_reported() {
    let script =
        Script::new(json!({"hoverProvider": true, "definitionProvider": true, "textDocumentSync": 1}))
            .at_start(Step::Stdout("Debugger attached.\n".into()))
            .on(
                "textDocument/hover",
                [
                    Step::AnswerId { id: json!(4711), result: Value::Null },
                    Step::AnswerId { id: json!("what"), result: Value::Null },
                    Step::wait_for("textDocument/definition", 1),
                    Step::Stdout("noise".into()),
                    Step::Result(json!({"contents": {"kind": "markdown", "value": "late"}})),
                    Step::Result(json!({"contents": "again"})),
                ],
            )
            .on(
                "textDocument/definition",
                [
                    Step::Result(json!({"uri": "${params.textDocument.uri}", "range": range(0, 0, 1)})),
                    Step::Result(Value::Null),
                ],
            );
    let bench = bench(&[("a.txt", "abc")], script);
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let (hover, definition) =
        tokio::join!(bench.pool.hover(&doc, 0, &cx), bench.pool.definition(&doc, 0, &cx));
    assert_eq!(hover.unwrap().value.unwrap(), "late");
    assert_eq!(definition.unwrap().value[0].range, 0..1);
    let hover = bench.pool.hover(&doc, 1, &cx).await.unwrap();
    assert_eq!(hover.value.unwrap(), "late");
    let log = &bench.pool.logs(None)[0];
    assert!(
        log.traffic.iter().any(|entry| entry.to_string().contains('✗') && entry.body.contains("Debugger"))
    );
}

#[tokio::test]
async fn a_silent_server_costs_at_most_the_deadline() {
    let script =
        Script::new(json!({"referencesProvider": true, "hoverProvider": true, "textDocumentSync": 1}))
            .on("textDocument/references", [Step::Never])
            .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))]);
    let bench = bench(&[("a.txt", "abc")], script);
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();

    let error = bench.pool.references(&doc, 0, true, &cx(Duration::from_millis(300))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    assert_eq!(error.to_string(), "scripted did not answer textDocument/references within 300ms");

    let cx_cancel = cx(LONG);
    let started = Instant::now();
    let asking = bench.pool.references(&doc, 0, true, &cx_cancel);
    let cancelling = async {
        let record = bench.beside("scripted.record");
        let is_it = |message: &Value| message["method"] == "textDocument/references";
        let asked = move || testing::recorded(&record).iter().filter(|message| is_it(message)).count() == 2;
        crate::bench::until(asked, "the second question").await;
        cx_cancel.cancel.cancel();
    };
    let (answer, ()) = tokio::join!(asking, cancelling);
    assert_eq!(answer.unwrap_err().code(), ErrorCode::Cancelled);
    assert!(started.elapsed() < Duration::from_secs(10));

    // The server was notified both times and continues to work.
    let hover = bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    assert_eq!(hover.value.unwrap(), "fine");
    assert_eq!(bench.got("scripted", "$/cancelRequest").len(), 2);
}

#[tokio::test]
async fn content_modified_repeats_the_request() {
    // Such a server is reloading its project.
    const TIMES: usize = 12;
    let modified = json!({"code": -32801, "message": "content modified"});
    let mut script = Script::new(json!({"hoverProvider": true, "textDocumentSync": 1}));
    for _ in 0..TIMES {
        script = script.on("textDocument/hover", [Step::Error(modified.clone())]);
    }
    let script = script.on(
        "textDocument/hover",
        [Step::Result(json!({"contents": ["a", {"language": "x", "value": "b"}]}))],
    );
    let bench = bench(&[("a.txt", "abc")], script);
    let hover = bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    assert_eq!(hover.value.unwrap(), "a\n\n```x\nb\n```");
    assert_eq!(bench.got("scripted", "textDocument/hover").len(), TIMES + 1);
}

#[tokio::test]
async fn every_request_of_a_server_is_answered() {
    let ask = |id: &str, method: &str, params: Value| Step::request(id, method, params);
    let asks = [
        ask(
            "conf",
            "workspace/configuration",
            json!({"items": [
                {"section": "tool.deep"}, {"section": "tool"}, {"section": "tool.none"}, {"section": "deep"}, {}
            ]}),
        ),
        ask("folders", "workspace/workspaceFolders", Value::Null),
        ask(
            "reg",
            "client/registerCapability",
            json!({"registrations": [
                {"id": "r", "method": "textDocument/definition"}
            ]}),
        ),
        ask("progress", "window/workDoneProgress/create", json!({"token": 1})),
        ask("message", "window/showMessageRequest", json!({"type": 3, "message": "?", "actions": []})),
        ask("show", "window/showDocument", json!({"uri": "file:///x"})),
        ask("refresh", "workspace/diagnostic/refresh", Value::Null),
        ask("tokens", "workspace/semanticTokens/refresh", Value::Null),
        ask("apply", "workspace/applyEdit", json!({"edit": {"changes": {}}})),
        ask("apply2", "workspace/applyEdit", json!({"edit": {"changes": {"file:///elsewhere/x": []}}})),
        ask("odd", "window/unheardOf", Value::Null),
        Step::Request { id: json!(17), method: "workspace/workspaceFolders".into(), params: Value::Null },
        Step::wait_for("response", 12),
        Step::Result(json!({"contents": "asked"})),
    ];
    let script = Script::new(json!({"hoverProvider": true, "textDocumentSync": 1}))
        // The server sends a request before it may.
        .at_start(ask("early", "workspace/workspaceFolders", Value::Null))
        .on("textDocument/hover", asks)
        .on("textDocument/definition", [Step::Result(json!([]))]);
    let more = "[settings]\n\"tool.deep.x\" = 1\n[settings.tool]\nroot = \"${root}\"\n";
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a.txt");
    assert_eq!(bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap().value.unwrap(), "asked");
    // The server registered this capability while it ran.
    bench.pool.definition(&doc, 0, &cx(LONG)).await.unwrap();

    let record = bench.record("scripted");
    let answer = |id: Value| {
        let found = record.iter().find(|message| message.get("method").is_none() && message["id"] == id);
        found.unwrap_or_else(|| panic!("{id} was not answered")).clone()
    };
    let result = |id: &str| answer(json!(id))["result"].clone();
    let root = bench.workspace.root();
    let tool = json!({"deep": {"x": 1}, "root": root});
    assert_eq!(result("conf"), json!([{"x": 1}, tool, null, null, {"tool": tool}]));
    let folders = json!([{"uri": paths::path_to_uri(root.as_path()), "name": "project"}]);
    assert_eq!(result("folders"), folders);
    assert_eq!(result("early"), folders);
    assert_eq!(answer(json!(17))["result"], folders);
    for id in ["reg", "progress", "message", "refresh", "tokens"] {
        assert_eq!(answer(json!(id)).get("result"), Some(&Value::Null), "{id}");
    }
    assert_eq!(result("show"), json!({"success": false}));
    assert_eq!(result("apply")["applied"], false);
    expect!["edits without a pending request are refused"]
        .assert_eq(result("apply")["failureReason"].as_str().unwrap());
    let reason = result("apply2")["failureReason"].as_str().unwrap().to_owned();
    expect!["its edit changes /elsewhere/x, which is outside the workspace; change that file by hand"]
        .assert_eq(&reason);
    assert_eq!(answer(json!("odd"))["error"]["code"], -32601);

    let initialize = &bench.got("scripted", "initialize")[0];
    assert_eq!(initialize["processId"], Value::Null);
    assert_eq!(initialize["clientInfo"]["name"], "pilcrow");
    assert_eq!(initialize["rootUri"], folders[0]["uri"]);
    assert_eq!(initialize["rootPath"], json!(root));
    assert_eq!(initialize["workspaceFolders"], folders);
    let methods: Vec<&str> = record.iter().filter_map(|message| message["method"].as_str()).collect();
    let expected = ["initialize", "initialized", "workspace/didChangeConfiguration", "textDocument/didOpen"];
    assert_eq!(methods[..4], expected);
    assert_eq!(bench.got("scripted", expected[2])[0]["settings"], json!({"tool": tool}));
}

#[tokio::test]
async fn both_forms_of_symbols_have_paths() {
    let class = json!([{
        "name": "Class", "kind": 5, "range": range(0, 0, 20), "selectionRange": range(0, 6, 11),
        "children": [{"name": "method", "kind": 6, "range": range(0, 12, 20), "selectionRange": range(0, 12, 18)}],
    }]);
    let flat = json!([{
        "name": "method", "kind": 12, "containerName": "Class",
        "location": {"uri": "${root}/a.txt", "range": range(0, 12, 18)},
    }]);
    let script = Script::new(
        json!({"documentSymbolProvider": true, "workspaceSymbolProvider": true, "textDocumentSync": 1}),
    )
    .on("textDocument/documentSymbol", [Step::Result(class)])
    .on("textDocument/documentSymbol", [Step::Result(flat.clone())])
    .on("workspace/symbol", [Step::Result(flat)]);
    let bench = bench(&[("a.txt", "class Class method();")], script);
    let doc = bench.doc("a.txt");
    let tree = bench.pool.symbols(&doc, &cx(LONG)).await.unwrap().value;
    let method = &tree[0].children[0];
    assert_eq!((tree[0].kind.as_str(), method.path.as_str()), ("class", "Class.method"));
    assert_eq!(&doc.text[method.selection.clone()], "method");
    let flat = bench.pool.symbols(&doc, &cx(LONG)).await.unwrap().value;
    assert_eq!((flat[0].kind.as_str(), flat[0].path.as_str()), ("function", "Class.method"));
    let found = bench.pool.workspace_symbols("meth", None, &cx(LONG)).await.unwrap().value.symbols;
    assert_eq!((found[0].line, &found[0].file), (1, &bench.path("a.txt")));
    assert_eq!(bench.got("scripted", "workspace/symbol")[0]["query"], "meth");
}

#[tokio::test]
async fn loading_is_reported_and_forbids_a_rename() {
    let begin = json!({"token": "t", "value": {"kind": "begin", "title": "indexing", "percentage": 43}});
    let end = json!({"token": "t", "value": {"kind": "end"}});
    let script =
        Script::new(json!({"referencesProvider": true, "renameProvider": true, "textDocumentSync": 1}))
            .on("initialized", [Step::notify("$/progress", begin)])
            .on("textDocument/references", [Step::Result(json!([]))])
            .on("$/cancelRequest", [Step::notify("$/progress", end.clone())])
            .on("workspace/didChangeWatchedFiles", [Step::notify("$/progress", end)]);
    let more = "[ready]\nprogress = true\ngrace_ms = 30000\n";
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| ());
    let doc = bench.doc("a.txt");
    let found = bench.pool.references(&doc, 0, true, &cx(Duration::from_secs(1))).await.unwrap();
    let (server, detail) = ("scripted".to_owned(), Some("indexing 43%".to_owned()));
    assert_eq!(found.notes, [lsp_client::Note::Loading { server, detail }]);
    let error = bench.rename(&doc, 0, "x", &cx(Duration::from_millis(300))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerStarting);
    assert!(
        matches!(error, ServerError::Starting { cause: StartCause::Loading(Some(progress)), .. } if progress == "indexing 43%")
    );
}
