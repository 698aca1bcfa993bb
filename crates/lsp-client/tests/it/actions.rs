//! Code actions, commands and the edits that arrive with them, and raw requests.

use std::time::Duration;

use adapters::Feature;
use futures_util::future::BoxFuture;
use lsp_client::{ActionQuery, CodeAction, CommandEdits};
use parking_lot::Mutex;
use policy::ErrorCode;
use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::{Operation, WorkspaceEdit};

use crate::bench::{Bench, LONG, bench, build, build_in, cx, range, until};

/// Accepts every edit, or refuses all with a reason; records their labels.
#[derive(Default)]
struct Taking {
    refuse: Option<&'static str>,
    got: Mutex<Vec<WorkspaceEdit>>,
}

impl CommandEdits for Taking {
    fn apply<'a>(&'a self, _: &'a str, edit: WorkspaceEdit) -> BoxFuture<'a, Result<(), String>> {
        self.got.lock().push(edit);
        Box::pin(async move { self.refuse.map_or(Ok(()), |reason| Err(reason.to_owned())) })
    }
}

fn edit(new: &str) -> Value {
    json!({"changes": {"${root}/a.txt": [{"range": range(0, 0, 3), "newText": new}]}})
}

fn offers(actions: Value) -> Script {
    Script::new(json!({
        "textDocumentSync": 2,
        "codeActionProvider": {"resolveProvider": true},
        "executeCommandProvider": {"commands": ["do.it"]},
    }))
    .on("textDocument/codeAction", [Step::Result(actions)])
}

async fn asked(bench: &Bench, only: &[&str]) -> Vec<CodeAction> {
    let doc = bench.doc("a.txt");
    // Time for a publish, repeated while the server's process is starting.
    let diagnostics = loop {
        match bench.pool.diagnostics(&doc, &cx(Duration::from_millis(300))).await {
            Ok(answer) => break answer.value.items,
            Err(error) => assert_eq!(error.code(), ErrorCode::ServerStarting, "{error}"),
        }
    };
    let query = ActionQuery { range: 0..3, only, diagnostics: &diagnostics };
    bench.pool.code_actions(&doc, &query, &cx(LONG)).await.unwrap().value
}

#[tokio::test]
async fn code_action_requests_carry_the_servers_diagnostics() {
    let wrong = json!({"range": range(0, 0, 3), "message": "bad", "code": "E1", "data": {"fix": 7}});
    let push = json!({"uri": "${params.textDocument.uri}", "version": "${version}", "diagnostics": [wrong]});
    let script = offers(json!([
        {"title": "fix", "kind": "quickfix", "isPreferred": true, "diagnostics": [wrong], "edit": edit("xyz")},
        {"title": "extract", "kind": "refactor.extract.function", "disabled": {"reason": "nothing selected"}},
        {"title": "bare", "command": "do.it", "arguments": [1]},
        {"title": "other", "kind": "source.other"},
    ]))
    .on("textDocument/didOpen", [Step::notify("textDocument/publishDiagnostics", push)]);
    let bench = bench(&[("a.txt", "abc")], script);
    let all = asked(&bench, &[]).await;
    let shown: Vec<_> = all.iter().map(|it| (it.title.as_str(), it.kind.as_str(), it.is_command)).collect();
    assert_eq!(
        shown,
        [
            ("fix", "quickfix", false),
            ("extract", "refactor.extract.function", false),
            ("bare", "", true),
            ("other", "source.other", false)
        ]
    );
    let context = &bench.got("scripted", "textDocument/codeAction")[0]["context"];
    assert_eq!(context["diagnostics"], json!([wrong]), "unchanged, including `data`");
    assert_eq!(context.get("only"), None);
    let doc = bench.doc("a.txt");
    let known = bench.pool.diagnostics(&doc, &cx(LONG)).await.unwrap().value.items;
    assert_eq!((all[0].fixes(&known[0]), all[2].fixes(&known[0])), (Some(true), None));
    assert!(all[0].preferred && all[1].disabled.as_deref() == Some("nothing selected"));
    // The client filters the answer of a server that ignores `only`.
    let some = asked(&bench, &["refactor"]).await;
    assert_eq!(some.iter().map(|it| it.title.as_str()).collect::<Vec<_>>(), ["extract"]);
    let error = bench.pool.resolve_action(&doc, &all[1], &cx(LONG)).await.unwrap_err();
    expect_test::expect![[
        r#"scripted: "extract" cannot be applied here (nothing selected); choose another action"#
    ]]
    .assert_eq(&error.to_string());
}

#[tokio::test]
async fn an_action_is_resolved_to_its_edit_and_its_command() {
    let script = offers(json!([{"title": "late", "kind": "quickfix", "data": 1}])).on(
        "codeAction/resolve",
        [Step::Result(json!({"title": "late", "kind": "quickfix", "edit": edit("new"),
            "command": {"title": "then", "command": "do.it", "arguments": ["x"]}}))],
    );
    let bench = bench(&[("a.txt", "abc")], script);
    let actions = asked(&bench, &[]).await;
    let doc = bench.doc("a.txt");
    let resolved = bench.pool.resolve_action(&doc, &actions[0], &cx(LONG)).await.unwrap();
    assert_eq!(bench.outcome(resolved.edit.unwrap()), ["a.txt: new"]);
    assert_eq!(resolved.command.unwrap().name, "do.it");
    assert_eq!(bench.got("scripted", "codeAction/resolve")[0]["data"], 1);
}

#[tokio::test]
async fn an_action_reports_that_it_needs_confirmation() {
    let place = json!({"range": range(0, 0, 3), "newText": "new", "annotationId": "a"});
    let edit = json!({
        "documentChanges": [{"textDocument": {"uri": "${root}/a.txt", "version": null}, "edits": [place]}],
        "changeAnnotations": {"a": {"label": "guessed", "needsConfirmation": true}},
    });
    let script = offers(json!([{"title": "fix", "kind": "quickfix", "edit": edit}]));
    let bench = bench(&[("a.txt", "abc")], script);
    let actions = asked(&bench, &[]).await;
    let resolved = bench.pool.resolve_action(&bench.doc("a.txt"), &actions[0], &cx(LONG)).await.unwrap();
    assert_eq!(resolved.edit.unwrap().confirm, ["guessed"]);
}

#[tokio::test]
async fn edits_during_a_command_are_forwarded_and_answered() {
    let apply = |id: &str, new: &str| {
        Step::request(id, "workspace/applyEdit", json!({"label": "by command", "edit": edit(new)}))
    };
    let script = offers(json!([{"title": "bare", "command": "do.it", "arguments": [1]}]))
        .on(
            "workspace/executeCommand",
            [apply("one", "new"), Step::wait_for("response", 1), Step::Result(json!("done"))],
        )
        .on("workspace/executeCommand", [apply("two", "no"), Step::Result(Value::Null)])
        // The edit arrives after the response.
        .on("workspace/executeCommand", [Step::Result(Value::Null), apply("three", "late")])
        .on("workspace/executeCommand", [Step::Error(json!({"code": -32603, "message": "it broke"}))]);
    let bench = bench(&[("a.txt", "abc")], script);
    let actions = asked(&bench, &[]).await;
    let doc = bench.doc("a.txt");
    let command = bench.pool.resolve_action(&doc, &actions[0], &cx(LONG)).await.unwrap().command.unwrap();
    let answer_to = |id: &str| {
        let record = bench.record("scripted");
        let found = record.iter().find(|it| it.get("method").is_none() && it["id"] == id);
        found.map(|it| it["result"].clone())
    };

    let taking = Taking::default();
    let ran = bench.pool.run_command(&command, &taking, &cx(LONG)).await.unwrap().value;
    assert_eq!((ran.applied, ran.outcome.unwrap()), (1, json!("done")));
    let got = taking.got.lock().remove(0);
    assert_eq!(got.label, "by command");
    assert_eq!(bench.outcome(got), ["a.txt: new"]);
    assert_eq!(answer_to("one"), Some(json!({"applied": true})));
    let sent = &bench.got("scripted", "workspace/executeCommand")[0];
    assert_eq!(*sent, json!({"command": "do.it", "arguments": [1]}));

    let refusing = Taking { refuse: Some("the user denied it"), ..Taking::default() };
    let ran = bench.pool.run_command(&command, &refusing, &cx(LONG)).await.unwrap().value;
    assert_eq!((ran.applied, ran.refused), (0, vec!["the user denied it".to_owned()]));

    let late = Taking::default();
    let ran = bench.pool.run_command(&command, &late, &cx(LONG)).await.unwrap().value;
    assert_eq!(ran.applied, 1, "an edit right after the answer belongs to the command");

    let ran = bench.pool.run_command(&command, &Taking::default(), &cx(LONG)).await.unwrap().value;
    assert!(ran.outcome.unwrap_err().to_string().contains("it broke"));
    assert_eq!(
        answer_to("two"),
        Some(json!({"applied": false, "failureReason": "the user denied it"})),
        "the response says so"
    );
}

#[tokio::test]
async fn a_command_for_an_editor_is_refused() {
    let script = offers(json!([{"title": "run", "command": "editor.show", "arguments": []}]));
    let bench = bench(&[("a.txt", "abc")], script);
    let actions = asked(&bench, &[]).await;
    let doc = bench.doc("a.txt");
    let command = bench.pool.resolve_action(&doc, &actions[0], &cx(LONG)).await.unwrap().command.unwrap();
    let error = bench.pool.run_command(&command, &Taking::default(), &cx(LONG)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert!(bench.got("scripted", "workspace/executeCommand").is_empty());
}

#[tokio::test]
async fn raw_requests_exclude_synchronization_methods() {
    let script = offers(json!([]))
        .on(
            "custom/method",
            [
                Step::request("e", "workspace/applyEdit", json!({"edit": edit("new")})),
                Step::wait_for("response", 1),
                Step::Result(json!({"at": "${params.position.line}", "given": "${params.given}"})),
            ],
        )
        .on("custom/bad", [Step::Error(json!({"code": -32602, "message": "no such thing"}))]);
    let bench = bench(&[("a.txt", "abc\nd😀ef")], script);
    let (doc, cx) = (bench.doc("a.txt"), cx(LONG));
    let taking = Taking::default();
    let ask = async |method: &str, params: Value, place| {
        bench.pool.request(method, params, place, None, &taking, &cx).await
    };
    let answer = ask("custom/method", json!({"given": 5}), Some((&doc, Some(9)))).await.unwrap();
    assert_eq!(answer.value.outcome.unwrap(), json!({"at": 1, "given": 5}));
    assert_eq!(answer.value.applied, 1);
    let sent = &bench.got("scripted", "custom/method")[0];
    assert_eq!(sent["textDocument"]["uri"], bench.uri("a.txt"));
    assert_eq!(sent["position"]["character"], 3, "in the server's own encoding");
    let refused = ask("custom/bad", json!({}), None).await.unwrap().value.outcome.unwrap_err();
    expect_test::expect!["scripted: custom/bad: no such thing"].assert_eq(&refused.to_string());
    for method in ["shutdown", "textDocument/didChange", "$/setTrace"] {
        assert_eq!(
            ask(method, json!({}), None).await.unwrap_err().code(),
            ErrorCode::Unsupported,
            "{method}"
        );
    }
    let error = bench.pool.request("x", json!({}), None, Some("unknown"), &taking, &cx).await.unwrap_err();
    assert_eq!(error.to_string(), "unknown: it is not running; name a `file` of its language");
}

#[tokio::test]
async fn several_servers_are_listed_and_restarted() {
    let plain = |feature: &str| {
        let mut capabilities = json!({"textDocumentSync": 1});
        capabilities[feature] = json!(true);
        Script::new(capabilities).on("x", [Step::Result(json!("y"))])
    };
    let servers = vec![("one", plain("hoverProvider"), ""), ("two", plain("renameProvider"), "")];
    let bench = build(&[("a.txt", "abc")], servers, |_| ());
    let (path, cx) = (bench.path("a.txt"), cx(LONG));
    let offered = bench.pool.offered(Some(&path), None, &cx).await.unwrap();
    let names: Vec<&str> = offered.iter().map(|it| it.server.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(offered[0].features.contains(&Feature::Hover) && offered[0].lacks.contains(&Feature::Rename));
    assert_eq!(offered[1].raw["renameProvider"], true);
    let error = bench.pool.request("x", json!({}), None, None, &Taking::default(), &cx).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Ambiguous);
    let answer = bench.pool.request("x", json!({}), None, Some("two"), &Taking::default(), &cx).await;
    assert_eq!(answer.unwrap().value.outcome.unwrap(), "y");

    // A raw request goes to the server that answers the feature.
    let doc = bench.doc("a.txt");
    let edits = Taking::default();
    let ask = |method, place| bench.pool.request(method, json!({}), place, None, &edits, &cx);
    let answer = ask("textDocument/rename", Some((&doc, Some(0)))).await.unwrap();
    assert_eq!(answer.server, "two");
    let error = ask("textDocument/codeAction", Some((&doc, None))).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().contains("one, two")),
        (ErrorCode::Ambiguous, true),
        "{error}"
    );

    let before: Vec<_> = bench.pool.status().await.iter().map(|it| it.pid).collect();
    assert_eq!(bench.pool.reload(None, Some("two"), &cx).await.unwrap(), ["two"]);
    let after: Vec<_> = bench.pool.status().await.iter().map(|it| it.pid).collect();
    assert_eq!(before[0], after[0]);
    assert!(after[1].is_some() && before[1] != after[1], "{before:?} {after:?}");
    let last: Vec<Value> = bench.record("two").iter().map(|it| it["method"].clone()).collect();
    assert!(last.contains(&json!("shutdown")) && last.contains(&json!("exit")), "it received `shutdown`");
    assert_eq!(bench.pool.reload(Some(&path), None, &cx).await.unwrap(), ["one", "two"]);
}

#[tokio::test]
async fn the_move_target_is_set_where_the_definition_says() {
    let command =
        json!({"title": "m", "command": "do.it", "arguments": [{"file": "a", "refactor": {"x": 1}}]});
    let script = offers(json!([
        {"title": "Move to a new file", "kind": "refactor.move.newFile", "command": command},
        {"title": "Move to file", "kind": "refactor.move.file", "command": command},
    ]))
    .on("workspace/executeCommand", [Step::Result(Value::Null)]);
    let more = "[move_symbol]\nkind = \"refactor.move.file\"\nargument = \"refactor.targetFile\"\n";
    let bench = build(&[("a.txt", "abc")], vec![("scripted", script, more)], |_| ());
    let actions = asked(&bench, &["refactor.move"]).await;
    assert_eq!(actions.iter().map(|it| bench.pool.takes_move_target(it)).collect::<Vec<_>>(), [false, true]);
    let resolved = bench.pool.resolve_action(&bench.doc("a.txt"), &actions[1], &cx(LONG)).await.unwrap();
    let mut command = resolved.command.unwrap();
    let to = bench.path("b.txt");
    bench.pool.set_move_target(&mut command, &to);
    bench.pool.run_command(&command, &Taking::default(), &cx(LONG)).await.unwrap();
    let sent = &bench.got("scripted", "workspace/executeCommand")[0]["arguments"][0];
    assert_eq!(*sent, json!({"file": "a", "refactor": {"x": 1, "targetFile": to}}));
}

#[tokio::test]
async fn an_empty_file_created_for_an_edit_is_part_of_it() {
    for (name, adopted) in [("made.txt", true), ("empty.txt", false)] {
        let there = tempfile::tempdir().unwrap();
        let file = there.path().join("project").join(name);
        let uri = paths::path_to_uri(&file);
        let text = json!({"changes": {uri: [{"range": range(0, 0, 0), "newText": "new"}]}});
        let script = offers(json!([{"title": "move", "command": "do.it", "arguments": []}])).on(
            "workspace/executeCommand",
            [
                Step::EnsureFile(file),
                Step::request("e", "workspace/applyEdit", json!({"edit": text})),
                Step::wait_for("response", 1),
                Step::Result(Value::Null),
            ],
        );
        let bench =
            build_in(there, &[("a.txt", "abc"), ("empty.txt", "")], vec![("scripted", script, "")], |_| ());
        // Files that existed before the request are not deleted.
        let made = std::time::SystemTime::now();
        until(move || made.elapsed().is_ok_and(|it| it > Duration::from_millis(30)), "time passes").await;
        let action = asked(&bench, &[]).await.remove(0);
        let resolved = bench.pool.resolve_action(&bench.doc("a.txt"), &action, &cx(LONG)).await.unwrap();
        let taking = Taking::default();
        bench.pool.run_command(&resolved.command.unwrap(), &taking, &cx(LONG)).await.unwrap();
        let edit = taking.got.lock().remove(0);
        let adopts =
            edit.operations.iter().all(|it| matches!(it, Operation::Adopt { text, .. } if text == "new"));
        assert_eq!((edit.operations.len(), adopts), (1, adopted), "{name}");
        assert_eq!(bench.outcome(edit), [format!("{name}: new")]);
    }
}
