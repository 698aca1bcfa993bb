//! Concurrent work of the user: typing above a named position, rapid commands.
//!
//! The user also works in another workspace folder than the first.

use expect_test::expect;
use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox, Scripted, check_output};

const A: &str = "def greet(): ...\n\ngreet()\n";

/// A server that renames `greet` in `a.py`, below `above` typed lines.
fn renaming(above: usize) -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", A)]);
    let edit = |line: usize, start: usize| {
        let line = line + above;
        json!({"range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": start + 5}},
            "newText": "${params.newName}"})
    };
    let changes = json!({ uri(&sandbox, "a.py"): [edit(0, 4), edit(2, 0)] });
    let script = json!({"methods": {
        "textDocument/rename": [[{"result": {"changes": changes}}]],
        "textDocument/references": [[{"result": []}]],
    }});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    (sandbox, scripted)
}

fn trusted(params: &mut Value) {
    params["initializationOptions"] = json!({"pilcrow": {"trusted": true}});
}

fn rename(file: &str) -> Value {
    let position = json!({"line": 0, "character": 6});
    let argument = json!({"kind": "rename", "uri": file, "position": position, "new_name": "welcome"});
    json!({"command": "pilcrow.refactor", "arguments": [argument]})
}

#[test]
fn a_position_follows_text_typed_above_it() {
    let (sandbox, _scripted) = renaming(1);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", A);
    let asked = editor.ask("workspace/executeCommand", rename(&file));
    editor.replace(&file, 0..0, "# typed\n");
    let session = editor.answer(asked)["result"]["session"].as_str().unwrap().to_owned();
    assert_eq!(editor.ended(&session), "done", "{:?}", editor.all("window/showMessage"));
    assert_eq!(editor.text(&file), format!("# typed\n{}", A.replace("greet", "welcome")));
    editor.wait_for_message("2 places in 1 file");
    editor.shut_down();
}

#[test]
fn a_request_line_follows_text_typed_above_it() {
    let (sandbox, _scripted) = renaming(1);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    let text = format!("# ¶ find references of greet in a.py:2\n{A}");
    editor.open(&file, "python", &text);
    let params = json!({"command": "pilcrow.request", "arguments": [{"uri": file, "line": 0}]});
    let asked = editor.ask("workspace/executeCommand", params);
    editor.replace(&file, 0..0, "# é typed\n");
    let session = editor.answer(asked)["result"]["session"].as_str().unwrap().to_owned();
    editor.ended(&session);
    let now = editor.text(&file);
    // The request is answered at its current position.
    check_output(
        now,
        &expect![[r#"
        # é typed
        # references of `greet`: none found (basedpyright)
        def greet(): ...

        greet()
    "#]],
    );
    editor.shut_down();
}

#[test]
fn undo_and_redo_apply_in_the_order_received() {
    let (sandbox, _scripted) = renaming(0);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", A);
    let session = editor.request("workspace/executeCommand", rename(&file))["result"]["session"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(editor.ended(&session), "done");
    let commands = ["undo", "redo", "undo", "redo", "undo", "redo", "undo"];
    let asked: Vec<i64> = commands
        .iter()
        .map(|command| {
            let params = json!({"command": format!("pilcrow.{command}"), "arguments": [{}]});
            editor.ask("workspace/executeCommand", params)
        })
        .collect();
    for (id, command) in asked.into_iter().zip(commands) {
        let session = editor.answer(id)["result"]["session"].as_str().unwrap().to_owned();
        assert_eq!(editor.ended(&session), "done", "{command}: {:?}", editor.all("window/showMessage"));
    }
    assert_eq!(editor.text(&file), A);
    editor.shut_down();
}

#[test]
fn a_request_in_a_string_is_ignored() {
    let sandbox = Sandbox::with(&[("a.py", "")]);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    let text = "help = \"\"\"\n# ¶ rename a to b\n\"\"\"\n# ¶ rename c to d\nc = 1\n";
    editor.open(&file, "python", text);
    let lenses = editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    let lines: Vec<&Value> =
        lenses["result"].as_array().unwrap().iter().map(|lens| &lens["range"]["start"]["line"]).collect();
    assert_eq!(lines, [3], "{lenses}");
    let params = json!({"command": "pilcrow.request", "arguments": [{"uri": file, "line": 1}]});
    let refused = editor.request("workspace/executeCommand", params);
    check_output(
        refused["error"]["message"].as_str().unwrap(),
        &expect!["line 2 is not in a comment, so it is not a request; write it in one"],
    );
    let at = json!({"line": 1, "character": 3});
    let params = json!({"textDocument": {"uri": file}, "range": {"start": at, "end": at}, "context": {"diagnostics": []}});
    let actions = editor.request("textDocument/codeAction", params);
    assert!(!actions.to_string().contains("Run ¶"), "{actions}");
    editor.shut_down();
}

#[test]
fn bad_requests_are_reported() {
    let (sandbox, _scripted) = renaming(0);
    let mut editor = Editor::start_with(&sandbox, |params| {
        params["initializationOptions"] = json!({"pilcrow": {"trusted": false}});
    });
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", A);
    let session = editor.request("workspace/executeCommand", rename(&file))["result"]["session"]
        .as_str()
        .unwrap()
        .to_owned();
    editor.ended(&session);
    let message = editor.wait_for_message("restricted mode");
    assert!(!message.contains("said no"), "no user was asked: {message}");
    let params = json!({"command": "pilcrow.prompt", "arguments": [{"text": "format", "uri": "file://pkg/config.py"}]});
    let refused = editor.request("workspace/executeCommand", params);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("another host, \"pkg\""), "{message}");
    editor.shut_down();
}

#[test]
fn the_active_workspace_folder_is_used_and_named() {
    let sandbox = Sandbox::with(&[("one/a.py", "a = 1\n"), ("two/b.py", "b = 1\n")]);
    let mut editor = Editor::start_with(&sandbox, |params| {
        trusted(params);
        let folder = |name: &str| json!({"uri": uri(&sandbox, name), "name": name});
        params["workspaceFolders"] = json!([folder("one"), folder("two")]);
    });
    editor.open(&uri(&sandbox, "one/a.py"), "python", "a = 1\n");
    editor.open(&uri(&sandbox, "two/b.py"), "python", "b = 1\n");
    let session = editor.run("pilcrow.prompt", json!({"text": "hello"}));
    editor.ended(&session);
    let begun = editor.progress(&session, "begin");
    check_output(
        &begun[0].to_string(),
        &expect![[r#"{"kind":"begin","title":"Pilcrow: hello (in two)","cancellable":true}"#]],
    );
    editor.shut_down();
}
