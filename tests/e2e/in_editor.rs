//! An editor without a plugin, over the real pipes of `pilcrow lsp`.
//!
//! Covers commands, questions, `¶` lines, code actions, settings and workspace folders.

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox, Scripted, check_output, wait_for};

const A: &str = "def greet(): ...\n\ngreet()\n";
const B: &str = "from a import greet\ngreet()\n";

/// Installs a server that only renames `greet` in both files.
///
/// The positions are those of `A` and `B`.
fn renaming(sandbox: &mut Sandbox) -> Scripted {
    let edit = |line: usize, start: usize| {
        json!({"range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": start + 5}},
            "newText": "${params.newName}"})
    };
    let changes = json!({
        "${params.textDocument.uri}": [edit(0, 4), edit(2, 0)],
        "${root}/b.py": [edit(0, 14), edit(1, 0)],
    });
    let by_uri = json!({ uri(sandbox, "a.py"): changes["${params.textDocument.uri}"], uri(sandbox, "b.py"): changes["${root}/b.py"] });
    let script = json!({"methods": {
        "textDocument/rename": [[{"result": {"changes": by_uri}}]],
        "textDocument/references": [[{"result": []}]],
    }});
    Scripted::install(sandbox, &[script])
}

fn two_files() -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", A), ("b.py", B)]);
    let scripted = renaming(&mut sandbox);
    (sandbox, scripted)
}

/// Trusts the directory, as the user's own editor does.
fn trusted(params: &mut Value) {
    params["initializationOptions"] = json!({"pilcrow": {"trusted": true}});
}

fn rename(editor: &mut Editor, file: &str) -> String {
    let position = json!({"line": 0, "character": 6});
    editor.run(
        "pilcrow.refactor",
        json!({"kind": "rename", "uri": file, "position": position, "new_name": "welcome"}),
    )
}

#[test]
fn a_rename_command_edits_through_the_editor_and_is_undone() {
    let (sandbox, _scripted) = two_files();
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", A);
    editor.replace(&file, A.len()..A.len(), "# typed\n");
    editor.answers.push_back(Some("Always"));
    let session = rename(&mut editor, &file);
    assert_eq!(editor.ended(&session), "done");
    // The only question is that of trust: the user's own command named the change.
    let asked = editor.all("window/showMessageRequest");
    let root = sandbox.project().canonicalize().unwrap();
    let title = asked[0]["message"].as_str().unwrap().lines().next().unwrap();
    assert_eq!(title, format!("Trust {} and start basedpyright?", root.display()));
    let titles: Vec<_> =
        asked[0]["actions"].as_array().unwrap().iter().map(|action| &action["title"]).collect();
    assert_eq!(titles, ["Allow", "Always", "Deny"]);
    let renamed = |text: &str| text.replace("greet", "welcome");
    assert_eq!(editor.text(&file), renamed(A) + "# typed\n");
    assert_eq!((sandbox.read("a.py").as_str(), sandbox.read("b.py")), (A, renamed(B)));
    editor.wait_for_message("changed and not saved: a.py");
    assert_eq!((editor.progress(&session, "begin").len(), editor.progress(&session, "end").len()), (1, 1));
    assert_eq!(editor.all("window/workDoneProgress/create").len(), 1);

    // The file with the focus may be the run's transcript, outside of the project.
    let transcript = editor.command("pilcrow.transcript", json!({}))["uri"].clone();
    let undo = editor.run("pilcrow.undo", json!({"uri": transcript}));
    assert_eq!(editor.ended(&undo), "done");
    assert_eq!((editor.text(&file), sandbox.read("b.py").as_str()), (format!("{A}# typed\n").as_str(), B));
    let redo = editor.run("pilcrow.redo", json!({}));
    assert_eq!(editor.ended(&redo), "done");
    assert_eq!((editor.text(&file), sandbox.read("b.py")), ((renamed(A) + "# typed\n").as_str(), renamed(B)));
    // The transcript is a file that can be opened.
    let transcript = editor.command("pilcrow.transcript", json!({"session": session}))["uri"].clone();
    editor.wait("the transcript", |editor| {
        editor.all("window/showDocument").iter().any(|shown| shown["uri"] == transcript)
    });
    let path = transcript.as_str().unwrap().strip_prefix("file://").unwrap().replace("%20", " ");
    let text = std::fs::read_to_string(path).unwrap();
    check_output(
        &text,
        &expect![[r#"
            > rename greet to welcome in a.py

            **Language server** `lsp {"action":"rename","new_name":"welcome","file":"<sandbox>/the project/a.py","line":1,"column":5,"symbol":"greet","as_of":"FF90"}`

                rename greet to welcome: 4 places in 2 files (basedpyright)
                  a.py: 2
                  b.py: 2
                note: more methods named `greet` may be related: basedpyright: textDocument/documentSymbol: no script for textDocument/documentSymbol
                not checked by basedpyright: a.py, b.py (basedpyright: textDocument/diagnostic: no script for textDocument/diagnostic)

            rename greet to welcome: 4 places in 2 files (basedpyright)
              a.py: 2
              b.py: 2
            note: more methods named `greet` may be related: basedpyright: textDocument/documentSymbol: no script for textDocument/documentSymbol
            not checked by basedpyright: a.py, b.py (basedpyright: textDocument/diagnostic: no script for textDocument/diagnostic)

            *changed and not saved: a.py*

        "#]],
    );
    let asked = editor.all("window/showMessageRequest");
    let offers = |message: &Value| message["actions"][0]["title"] == "Open transcript";
    assert_eq!(asked.iter().filter(|message| !offers(message)).count(), 1, "{asked:#?}");
    editor.shut_down();
}

/// Lets a language server show only files of the project, where the editor can.
///
/// The server gets the true result.
#[test]
fn show_document_requests_are_limited_to_the_project() {
    let mut sandbox = Sandbox::with(&[("a.py", A), ("b.py", B)]);
    let inside = uri(&sandbox, "b.py");
    let range = json!({"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 5}});
    let wants = |id: &str, params: Value| json!({"request": {"id": id, "method": "window/showDocument", "params": params}});
    let script = json!({"methods": {"textDocument/references": [[
        wants("inside", json!({"uri": inside, "takeFocus": true, "selection": range})),
        wants("outside", json!({"uri": "file:///etc/hostname"})),
        wants("gone", json!({"uri": uri(&sandbox, "none.py")})),
        wants("browser", json!({"uri": inside, "external": true})),
        wants("web", json!({"uri": "https://example.org/"})),
        {"wait_for": {"method": "response", "count": 5}},
        {"result": [{"uri": inside, "range": range}]},
    ]]}});
    let _scripted = Scripted::install(&mut sandbox, &[script]);
    for can in [true, false] {
        let mut editor = Editor::start_with(&sandbox, |params| {
            trusted(params);
            params["capabilities"]["window"]["showDocument"]["support"] = json!(can);
        });
        let file = uri(&sandbox, "a.py");
        editor.open(&file, "python", A);
        let run = editor.run("pilcrow.prompt", json!({"text": "find references of greet in a.py:1"}));
        assert_eq!(editor.ended(&run), "done");
        let shown: Vec<Value> = editor.all("window/showDocument");
        let expected = json!({"uri": inside, "external": false, "takeFocus": false, "selection": range});
        assert_eq!(shown, if can { vec![expected] } else { Vec::new() });
        let record = std::fs::read_to_string(sandbox.beside("scripted tools/record.jsonl")).unwrap();
        let answers: Vec<Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let success = |id: &str| {
            let answer = answers.iter().rev().find(|it| it["id"] == id && it.get("method").is_none());
            answer.unwrap_or_else(|| panic!("{id} has no answer"))["result"]["success"].clone()
        };
        assert_eq!(success("inside"), can);
        for id in ["outside", "gone", "browser", "web"] {
            assert_eq!(success(id), false, "{id}");
        }
        editor.shut_down();
    }
}

#[test]
fn the_agent_shows_a_location_if_the_editor_can() {
    let call = json!([{"name": "show", "arguments": {"path": "a.py", "line": 2}}]);
    let outside = json!([{"name": "show", "arguments": {"path": "/etc/hostname"}}]);
    let lines = [
        json!({"tool_calls": call}),
        json!({"expect": {"last_contains": ["opened a.py"], "last_is_error": false}, "tool_calls": outside}),
        json!({"expect": {"last_is_error": true}, "text": "There."}),
        json!({"tool_calls": call}),
        json!({"expect": {"last_contains": ["Tool show not found"]}, "text": "Not there."}),
    ];
    let sandbox = with_script(&[("a.py", A)], &lines[..3]);
    for (can, rest) in [(true, &lines[..3]), (false, &lines[3..])] {
        let text: String = rest.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(sandbox.beside("script.jsonl"), text).unwrap();
        let mut editor = Editor::start_with(&sandbox, |params| {
            trusted(params);
            params["capabilities"]["window"]["showDocument"]["support"] = json!(can);
        });
        let run = editor.run("pilcrow.prompt", json!({"text": "where is greet?"}));
        assert_eq!(editor.ended(&run), "done");
        let start = json!({"line": 1, "character": 0});
        let selection = json!({"start": start, "end": start});
        let place = json!({"uri": uri(&sandbox, "a.py"), "external": false, "takeFocus": false, "selection": selection});
        assert_eq!(editor.all("window/showDocument"), if can { vec![place] } else { Vec::new() });
        editor.wait_for_message(if can { "There." } else { "Not there." });
        editor.shut_down();
    }
}

/// Shows the agent the text without the `¶` line, which the user has.
#[test]
fn shown_lines_count_the_request_line_of_the_buffer() {
    let text = "import os\n# ¶ where is greet?\n\ndef greet():\n    pass\n";
    let show = |line: u32| json!([{"name": "show", "arguments": {"path": "a.py", "line": line}}]);
    let lines = [
        json!({"tool_calls": show(1)}),
        json!({"tool_calls": show(3)}),
        json!({"expect": {"last_is_error": false}, "text": "There."}),
    ];
    let sandbox = with_script(&[("a.py", text)], &lines);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", text);
    let run = editor.run("pilcrow.request", json!({"uri": file, "line": 1}));
    assert_eq!(editor.ended(&run), "done");
    let shown: Vec<Value> = editor.all("window/showDocument");
    let shown: Vec<&Value> = shown.iter().map(|it| &it["selection"]["start"]["line"]).collect();
    assert_eq!(shown, [0, 3]);
    editor.shut_down();
}

#[test]
fn a_prompt_needs_the_users_permission_for_changes() {
    let (sandbox, _scripted) = two_files();
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", A);
    let prompt = json!({"text": "rename greet to welcome in a.py:1"});
    // The user dismissed the question: no for this time.
    editor.answers.push_back(None);
    let session = editor.run("pilcrow.prompt", prompt.clone());
    assert_eq!(editor.ended(&session), "stopped");
    editor.wait_for_message("Rename cancelled.");
    assert_eq!((editor.text(&file), sandbox.read("b.py").as_str()), (A, B));
    let asked = editor.all("window/showMessageRequest");
    let message = asked[0]["message"].as_str().unwrap();
    check_output(
        message,
        &expect![[r#"
        rename greet to welcome: 2 files, +4 −4
        a.py
        b.py"#]],
    );
    // The changes can be inspected before the answer.
    editor.answers.extend([Some("Diff"), Some("Allow")]);
    let session = editor.run("pilcrow.prompt", prompt);
    assert_eq!(editor.ended(&session), "done");
    assert_eq!(editor.all("window/showDocument").len(), 1);
    assert_eq!(editor.text(&file), A.replace("greet", "welcome"));
    editor.shut_down();
}

#[test]
fn an_open_question_blocks_only_its_run() {
    let (sandbox, scripted) = two_files();
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", A);
    let asking = editor.run("pilcrow.prompt", json!({"text": "rename greet to welcome in a.py:1"}));
    editor.wait("the question", |editor| editor.open_questions.len() == 1);
    // Two more runs start: one that asks, and one that does not.
    let other = editor.run("pilcrow.prompt", json!({"text": "rename greet to hello in a.py:1"}));
    editor.wait("its question", |editor| editor.open_questions.len() == 2);
    let looking = editor.run("pilcrow.prompt", json!({"text": "find references of greet in a.py:1"}));
    assert_eq!(editor.ended(&looking), "done");
    assert!(scripted.got("textDocument/references") > 0);
    let stopped = Instant::now();
    assert_eq!(editor.command("pilcrow.stop", json!({"session": asking})), json!({"stopped": 1}));
    assert_eq!(editor.ended(&asking), "stopped");
    assert!(stopped.elapsed() < Duration::from_secs(2));
    // The question was withdrawn; a crossing answer has no effect.
    let (question, _) = editor.open_questions.remove(0);
    assert!(editor.all("$/cancelRequest").iter().any(|params| params["id"] == question));
    editor.answer_question(&question, Some("Allow"));
    let (question, _) = editor.open_questions.remove(0);
    editor.answer_question(&question, Some("Deny"));
    assert_eq!(editor.ended(&other), "stopped");
    assert_eq!((editor.text(&file), sandbox.read("b.py").as_str()), (A, B));
    assert!(editor.all("workspace/applyEdit").is_empty());
    editor.shut_down();
}

/// Sends a whole text without its changes, as after a reload or a formatter.
#[test]
fn a_command_position_survives_a_full_text_change() {
    let text = "def f(value):\n    return value\ndef g(value):\n    return value\n";
    let mut sandbox = Sandbox::with(&[("a.py", text)]);
    let answers = json!([[{"result": null}]]);
    let scripted = Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/rename": answers}})]);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", text);
    let position = json!({"line": 2, "character": 6});
    let arguments = json!({"kind": "rename", "uri": file, "position": position, "new_name": "other"});
    let command = json!({"command": "pilcrow.refactor", "arguments": [arguments]});
    let id = editor.ask("workspace/executeCommand", command);
    editor.send_whole(&file, &format!("#\n#\n{text}"));
    let session = editor.answer(id)["result"]["session"].as_str().unwrap().to_owned();
    assert_eq!(editor.ended(&session), "failed", "the server renames nothing");
    // The position is the intended one, whichever text the server received.
    let asked = scripted.sent("textDocument/rename").pop().unwrap();
    let mut had = scripted.sent("textDocument/didOpen").pop().unwrap()["textDocument"]["text"].clone();
    if let Some(changed) = scripted.sent("textDocument/didChange").pop() {
        had = changed["contentChanges"][0]["text"].clone();
    }
    let line = asked["position"]["line"].as_u64().and_then(|line| usize::try_from(line).ok()).unwrap();
    assert_eq!(had.as_str().unwrap().lines().nth(line), Some("def g(value):"), "{asked} in {had}");
    editor.shut_down();
}

#[test]
fn the_editors_own_trust_is_accepted() {
    let (sandbox, scripted) = two_files();
    for (is_trusted, ends) in [(false, "failed"), (true, "done")] {
        let mut editor = Editor::start_with(&sandbox, |params| {
            params["initializationOptions"] = json!({"pilcrow": {"trusted": is_trusted}});
        });
        let file = uri(&sandbox, "a.py");
        editor.open(&file, "python", A);
        let session = rename(&mut editor, &file);
        assert_eq!(editor.ended(&session), ends);
        assert!(editor.all("window/showMessageRequest").is_empty());
        assert_eq!(scripted.got("textDocument/rename") > 0, is_trusted);
        editor.shut_down();
    }
}

#[test]
fn a_request_line_is_removed_by_the_first_edit() {
    let (sandbox, scripted) = two_files();
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    let text = format!("# ¶ rename greet to welcome\n{A}");
    editor.open(&file, "python", &text);
    let lenses =
        editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}))["result"].clone();
    assert_eq!(lenses.as_array().unwrap().len(), 1, "{lenses}");
    let command = lenses[0]["command"].clone();
    assert_eq!((&command["title"], &command["command"]), (&json!("Run ¶"), &json!("pilcrow.request")));
    let range = json!({"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 4}});
    let params = json!({"textDocument": {"uri": file}, "range": range, "context": {"diagnostics": []}});
    let actions = editor.request("textDocument/codeAction", params)["result"].clone();
    assert_eq!(actions[0]["title"], "Run ¶ rename greet to welcome", "{actions}");

    // The declaration is found by its name, which the script cannot do, so it is named by its line.
    editor.replace(&file, 0.."# ¶ rename greet to welcome".len(), "# ¶ rename greet to welcome in a.py:1");
    editor.answers.push_back(Some("Allow"));
    let session = editor.run("pilcrow.request", command["arguments"][0].clone());
    assert_eq!(editor.ended(&session), "done");
    assert_eq!(editor.text(&file), A.replace("greet", "welcome"));
    assert_eq!(sandbox.read("b.py"), B.replace("greet", "welcome"));
    // The run makes one edit of the document with the line in it, and the server never saw the
    // line.
    let edits = editor.all("workspace/applyEdit");
    assert_eq!(edits.len(), 1, "{edits:?}");
    let seen = std::fs::read_to_string(sandbox.beside("scripted tools/record.jsonl")).unwrap();
    assert!(!seen.contains('¶'), "{seen}");
    assert!(scripted.got("textDocument/didOpen") > 0);
    editor.shut_down();
}

/// A project whose model answers from a script.
fn with_script(files: &[(&str, &str)], lines: &[Value]) -> Sandbox {
    let mut sandbox = Sandbox::with(files);
    let script = sandbox.beside("script.jsonl");
    std::fs::write(&script, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .expect("the script");
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    sandbox
}

#[test]
fn requests_in_html_and_rust_comments_are_run() {
    for (name, language, request, rest, old, new) in [
        (
            "p.html",
            "html",
            "    <!-- ¶ say it in French -->\n",
            "<p>\n    Hello\n</p>\n",
            "    Hello",
            "    Bonjour",
        ),
        ("l.rs", "rust", "// ¶ make it two\r\n", "fn f() -> u8 {\r\n    1\r\n}\r\n", "    1", "    2"),
    ] {
        let at = rest.find(old).unwrap();
        let text = format!("{}{request}{}", &rest[..at], &rest[at..]);
        let line = rest[..at].lines().count() + 1;
        let header = format!("[{name}#");
        let sandbox = with_script(
            &[(name, text.as_str())],
            &[
                json!({"expect": {"last_contains": [request.trim().trim_matches(['<', '!', '-', '/', '>', ' ', '¶']), name]},
                    "tool_calls": [{"name": "read", "arguments": {"path": name}}]}),
                // The model is shown the text without the request.
                json!({"expect": {"last_lacks": ["¶"]},
                    "capture": {"tag": {"after": header, "before": "]"}, "check": {"after": format!("\n{line}"), "before": "\t"}},
                    "tool_calls": [{"name": "edit", "arguments": {"patch": format!("{header}{{{{tag}}}}]\nPUT {line}{{{{check}}}}:\n+{new}\n")}}]}),
                json!({"expect": {"last_is_error": false}, "text": "Done."}),
            ],
        );
        let mut editor = Editor::start(&sandbox);
        let file = uri(&sandbox, name);
        editor.open(&file, language, &text);
        editor.answers.push_back(Some("Allow"));
        let session = editor.run(
            "pilcrow.request",
            json!({"uri": file, "line": text[..text.find('¶').unwrap()].matches('\n').count()}),
        );
        assert_eq!(editor.ended(&session), "done", "{:#?}", editor.log);
        assert_eq!(editor.text(&file), rest.replace(old, new));
        assert_eq!(editor.all("workspace/applyEdit").len(), 1);
        // The user's undo belongs to the editor; Pilcrow's restores the text before the run.
        let undo = editor.run("pilcrow.undo", json!({}));
        assert_eq!(editor.ended(&undo), "done");
        assert!(editor.text(&file).contains(old));
        editor.shut_down();
    }
}

#[test]
fn a_question_in_a_comment_is_answered_in_place() {
    let cases = [
        ("It adds.\nTwo numbers.", false, "  # It adds.\n  # Two numbers.\n"),
        ("It adds.", true, ""),
        (&"line\n".repeat(11), false, "  # answered in the transcript (command pilcrow.transcript)\n"),
    ];
    for (answer, is_changed, expected) in cases {
        let text = "def f():\n  # pilcrow: what is this?\n  return 1 + 1\n";
        let sandbox = with_script(&[("a.py", text)], &[json!({"text": answer})]);
        let mut editor = Editor::start(&sandbox);
        let file = uri(&sandbox, "a.py");
        editor.open(&file, "python", text);
        let session = editor.run("pilcrow.request", json!({"uri": file, "line": 1}));
        if is_changed {
            // The run has to open the project first, so it cannot end before.
            editor.replace(&file, 31..31, "x");
        }
        assert_eq!(editor.ended(&session), "done");
        if is_changed {
            let typed = text.replace("is this", "is txhis");
            assert_eq!(editor.text(&file), typed, "typed text belongs to the user");
        } else {
            assert_eq!(editor.text(&file), format!("def f():\n{expected}  return 1 + 1\n"));
        }
        editor.shut_down();
    }
}

#[test]
fn truncated_answers_keep_the_request_and_hide_secrets() {
    const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let text = "# ¶ what is x?\nx = 1\n";
    for (turn, ended, message, expected) in [
        (json!({"text": "it is on", "stop_reason": "length"}), "failed", "the answer is cut off", text),
        (json!({}), "failed", "the model ended without an answer", text),
        (
            json!({"text": format!("It is {TOKEN}.")}),
            "done",
            "It is [redacted:github-token].",
            "# It is [redacted:github-token].\nx = 1\n",
        ),
    ] {
        let sandbox = with_script(&[("a.py", text)], &[turn]);
        let mut editor = Editor::start(&sandbox);
        let file = uri(&sandbox, "a.py");
        editor.open(&file, "python", text);
        let session = editor.run("pilcrow.request", json!({"uri": file, "line": 0}));
        assert_eq!(editor.ended(&session), ended);
        editor.wait_for_message(message);
        if expected.contains("[redacted:") {
            editor.wait_for_message("a secret was redacted from the answer in a.py");
        }
        assert_eq!(editor.text(&file), expected);
        editor.shut_down();
    }
}

#[test]
fn a_request_without_an_answer_stays() {
    let text = "# ¶ delete b.txt\nx = 1\n";
    let reads = json!([{"name": "read", "arguments": {"path": "b.txt"}}]);
    let turns = [json!({"tool_calls": reads}), json!({})];
    let sandbox = with_script(&[("a.py", text), ("b.txt", "b\n")], &turns);
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", text);
    let session = editor.run("pilcrow.request", json!({"uri": file, "line": 0}));
    assert_eq!(editor.ended(&session), "done");
    editor.wait_for_message("the model ended without an answer\nthe ¶ line stays");
    assert_eq!(editor.text(&file), text);
    editor.shut_down();
}

/// Runs the README's example, without a model.
#[test]
fn a_request_renames_the_declaration_below_as_this() {
    let text = "# pilcrow: rename this to read_config\ndef parse_config(path):\n    return path\n";
    let mut sandbox = Sandbox::with(&[("a.py", text)]);
    let file = uri(&sandbox, "a.py");
    // The positions are those without the comment.
    let range = |line: usize, start: usize, end_line: usize, end: usize| json!({"start": {"line": line, "character": start}, "end": {"line": end_line, "character": end}});
    let symbol = json!({"name": "parse_config", "kind": 12, "range": range(0, 0, 1, 15), "selectionRange": range(0, 4, 0, 16)});
    let edit = json!({"range": range(0, 4, 0, 16), "newText": "${params.newName}"});
    let changes = json!({ file.clone(): [edit] });
    let script = json!({"methods": {
        "textDocument/documentSymbol": [[{"result": [symbol]}]],
        "textDocument/rename": [[{"result": {"changes": changes}}]],
        "textDocument/references": [[{"result": []}]],
    }});
    let _scripted = Scripted::install(&mut sandbox, &[script]);
    let mut editor = Editor::start_with(&sandbox, trusted);
    editor.open(&file, "python", text);
    editor.answers.push_back(Some("Allow"));
    let session = editor.run("pilcrow.request", json!({"uri": file, "line": 0}));
    assert_eq!(editor.ended(&session), "done");
    assert_eq!(editor.text(&file), "def read_config(path):\n    return path\n");
    editor.shut_down();
}

#[test]
fn a_request_that_fails_stays() {
    let text = "# ¶ write me a poem\nx = 1\n";
    let sandbox = Sandbox::with(&[("a.py", text)]);
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", text);
    let session = editor.run("pilcrow.request", json!({"uri": file, "line": 0}));
    assert_eq!(editor.ended(&session), "failed");
    editor.wait_for_message("The built-in planner does not understand this");
    assert_eq!(editor.text(&file), text);
    editor.shut_down();
}

#[test]
fn code_actions_are_offered_at_once_during_a_run() {
    let text = "import os\n\n\ndef fetch_rows():\n    pass\n";
    let sandbox = with_script(&[("a.py", text)], &[json!({"wait_for_cancel": true})]);
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", text);
    let session = editor.run("pilcrow.prompt", json!({"text": "Wait."}));
    editor.wait("the run", |editor| !editor.all("window/workDoneProgress/create").is_empty());
    let range = json!({"start": {"line": 3, "character": 6}, "end": {"line": 3, "character": 6}});
    let ask = |context: Value| json!({"textDocument": {"uri": file}, "range": range, "context": context});
    let titles = |editor: &mut Editor, context: Value| {
        let actions = editor.request("textDocument/codeAction", ask(context))["result"].clone();
        actions
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["title"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let none = json!({"diagnostics": []});
    assert!(wait_for(Duration::from_secs(30), || titles(&mut editor, none.clone()).len() == 4));
    let all = ["Write a ¶ request here", "Explain this", "Write a test for this", "Organize imports"];
    assert_eq!(titles(&mut editor, none.clone()), all);
    // No action is offered when a file is saved, or where another kind was requested.
    for kind in ["source.organizeImports", "source.fixAll", "quickfix"] {
        assert_eq!(titles(&mut editor, json!({"diagnostics": [], "only": [kind]})), Vec::<String>::new());
    }
    assert_eq!(titles(&mut editor, json!({"diagnostics": [], "only": ["source"]})), ["Organize imports"]);
    let actions = editor.request("textDocument/codeAction", ask(none))["result"].clone();
    let tagged: Vec<bool> = actions.as_array().unwrap().iter().map(|it| it["tags"] == json!([1])).collect();
    assert_eq!(tagged, [false, true, true, false], "{actions:#}");
    let edit = &actions[0]["edit"]["documentChanges"][0];
    assert_eq!(edit["edits"][0]["newText"], "# ¶ rename fetch_rows to \n", "{edit}");
    assert_eq!(edit["edits"][0]["range"]["start"], json!({"line": 3, "character": 0}));

    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            let started = Instant::now();
            editor.request("textDocument/codeAction", ask(json!({"diagnostics": []})));
            started.elapsed()
        })
        .collect();
    times.sort();
    assert!(times[25] < Duration::from_millis(20), "{times:?}");
    editor.command("pilcrow.stop", json!({}));
    assert_eq!(editor.ended(&session), "stopped");
    editor.shut_down();
}

#[test]
fn actions_that_need_a_model_are_hidden_without_one() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n"), ("a.py", "x\n")]);
    let mut editor = Editor::start(&sandbox);
    for (name, language, expected) in [
        ("a.txt", "plaintext", vec![]),
        ("a.py", "python", vec!["Write a ¶ request here", "Organize imports"]),
    ] {
        let file = uri(&sandbox, name);
        editor.open(&file, language, "one\n");
        let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}});
        let params = json!({"textDocument": {"uri": file}, "range": range, "context": {"diagnostics": []}});
        let actions = editor.request("textDocument/codeAction", params)["result"].clone();
        let titles: Vec<_> = actions.as_array().unwrap().iter().map(|it| it["title"].clone()).collect();
        assert_eq!(titles, expected, "{name}");
    }
    editor.shut_down();
}

#[test]
fn settings_come_from_the_editor_and_can_change() {
    let sandbox = Sandbox::with(&[("a.py", "")]);
    let mut editor = Editor::start_with(&sandbox, |params| {
        params["settings"] = json!({"editor": {"request_markers": ["TODO(me)"]}, "no_such_key": 1});
    });
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", "# ¶ one\n# TODO(me) two\n# now: three\n");
    editor.wait_for_message("there is no key `no_such_key`");
    let lines = |editor: &mut Editor| {
        let lenses =
            editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}))["result"].clone();
        lenses
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["range"]["start"]["line"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&mut editor), [1]);
    // Settings arrive with the notification, as some editors send them, or on request, as others
    // do.
    editor.notify(
        "workspace/didChangeConfiguration",
        json!({"settings": {"pilcrow": {"editor": {"request_markers": ["now:"]}}}}),
    );
    assert!(wait_for(Duration::from_secs(30), || lines(&mut editor) == [2]));
    editor.settings = json!({"editor": {"request_markers": ["¶", "now:"]}});
    editor.notify("workspace/didChangeConfiguration", json!({"settings": null}));
    assert!(wait_for(Duration::from_secs(30), || lines(&mut editor) == [0, 2]));
    editor.shut_down();
}

#[test]
fn workspace_folders_change_and_outside_files_are_refused() {
    let (sandbox, _scripted) = two_files();
    let beside = sandbox.beside("beside");
    std::fs::create_dir_all(&beside).unwrap();
    std::fs::write(beside.join("c.py"), "x = 1\n").unwrap();
    let mut editor = Editor::start_with(&sandbox, |params| params["workspaceFolders"] = Value::Null);
    let prompt = json!({"text": "find references of greet in a.py:1"});
    let session = editor.run("pilcrow.prompt", prompt.clone());
    assert_eq!(editor.ended(&session), "failed");
    editor.wait_for_message("no folder is open");
    let folder = json!({"uri": uri(&sandbox, ""), "name": "the project"});
    editor
        .notify("workspace/didChangeWorkspaceFolders", json!({"event": {"added": [folder], "removed": []}}));
    editor.answers.push_back(Some("Allow"));
    let session = editor.run("pilcrow.prompt", prompt.clone());
    assert_eq!(editor.ended(&session), "done");
    // Outside all workspace folders only the named file is read, in its own directory.
    let outside =
        format!("file://{}", beside.canonicalize().unwrap().join("c.py").display()).replace(' ', "%20");
    let session = editor.run("pilcrow.prompt", json!({"text": "move c.py to d.py", "uri": outside}));
    editor.wait("the question of trust", |editor| !editor.open_questions.is_empty());
    let (question, params) = editor.open_questions.remove(0);
    assert!(params["message"].as_str().unwrap().contains("beside"), "{params}");
    editor.answer_question(&question, Some("Deny"));
    editor.ended(&session);
    for (uri, part) in [("git:/a.py?x", "git: documents"), ("untitled:Untitled-1", "save it first")] {
        let arguments = json!([{"kind": "format", "uri": uri}]);
        let answer = editor.request(
            "workspace/executeCommand",
            json!({"command": "pilcrow.refactor", "arguments": arguments}),
        );
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(part), "{answer}");
    }
    editor
        .notify("workspace/didChangeWorkspaceFolders", json!({"event": {"added": [], "removed": [folder]}}));
    let session = editor.run("pilcrow.prompt", prompt);
    assert_eq!(editor.ended(&session), "failed");
    editor.shut_down();
}

/// Names the slow server to a user who waits.
#[test]
fn a_hanging_server_is_named_during_the_wait() {
    let mut sandbox = Sandbox::with(&[("a.py", A)]);
    let script = json!({"methods": {"textDocument/rename": [["never"]], "textDocument/references": [[{"result": []}]]}});
    let _scripted = Scripted::install(&mut sandbox, &[script]);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", A);
    let session = rename(&mut editor, &file);
    editor.wait("the server's name", |editor| {
        let reports = editor.progress(&session, "report");
        reports
            .iter()
            .any(|it| it["message"].as_str().is_some_and(|it| it.starts_with("waiting for basedpyright")))
    });
    let token = editor.tokens(&session).remove(0);
    editor.notify("window/workDoneProgress/cancel", json!({"token": token}));
    assert_eq!(editor.ended(&session), "stopped");
    assert_eq!(editor.text(&file), A);
    editor.shut_down();
}

/// Sends servers the files' real paths, with which they answer.
#[test]
fn a_rename_works_in_a_project_opened_through_a_symlink() {
    let mut sandbox = Sandbox::with(&[("a.py", A)]);
    let edit = |line: usize, start: usize| {
        json!({"range": {"start": {"line": line, "character": start}, "end": {"line": line, "character": start + 5}},
            "newText": "${params.newName}"})
    };
    let changes = json!({"documentChanges": [
        {"textDocument": {"uri": "${params.textDocument.uri}", "version": null}, "edits": [edit(0, 4), edit(2, 0)]},
    ]});
    let script = json!({"methods": {
        "textDocument/rename": [[{"result": changes}]],
        "textDocument/references": [[{"result": []}]],
    }});
    let _scripted = Scripted::install(&mut sandbox, &[script]);
    let link = sandbox.beside("the link");
    std::os::unix::fs::symlink(sandbox.project(), &link).unwrap();
    let linked = |name: &str| format!("file://{}", link.join(name).display()).replace(' ', "%20");
    let root = linked("");
    let mut editor = Editor::start_with(&sandbox, |params| {
        trusted(params);
        params["rootUri"] = json!(root);
        params["workspaceFolders"] = json!([{"uri": root, "name": "linked"}]);
    });
    let file = linked("a.py");
    editor.open(&file, "python", A);
    let session = rename(&mut editor, &file);
    assert_eq!(editor.ended(&session), "done", "{:#?}", editor.log);
    assert_eq!(editor.text(&file), A.replace("greet", "welcome"));
    editor.shut_down();
}

/// Reads, searches and edits a document without a file in the editor only.
#[test]
fn an_untitled_document_is_edited_in_the_editor() {
    let (name, before) = ("untitled:Untitled-1", "one\n# ¶ make it two\n");
    let call = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let sandbox = with_script(
        &[("a.py", A)],
        &[
            call("grep", json!({"pattern": "one"})),
            call("read", json!({"path": name})),
            call("write", json!({"path": name, "content": "two\n", "overwrite": true})),
            call("write", json!({"path": "untitled:Untitled-2", "content": "two\n"})),
            json!({"text": "done"}),
        ],
    );
    let mut editor = Editor::start_with(&sandbox, trusted);
    editor.open(name, "python", before);
    editor.answers.push_back(Some("Session"));
    let session = editor.run("pilcrow.request", json!({"uri": name, "line": 1}));
    assert_eq!(editor.ended(&session), "done");
    assert_eq!(editor.text(name), "two\n", "{:#?}", editor.log);
    editor.wait_for_message("changed and not saved: untitled:Untitled-1");
    let made = || {
        let entries = std::fs::read_dir(sandbox.project()).unwrap().flatten();
        entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|it| it.contains("ntitled"))
            .count()
    };
    assert_eq!(made(), 0, "no file is created");
    let undo = editor.run("pilcrow.undo", json!({"session": session}));
    assert_eq!(editor.ended(&undo), "done");
    assert_eq!(editor.text(name), "one\n");
    // After the close no change is left to undo.
    let redo = editor.run("pilcrow.redo", json!({}));
    assert_eq!(editor.ended(&redo), "done");
    editor.notify("textDocument/didClose", json!({"textDocument": {"uri": name}}));
    let undo = editor.run("pilcrow.undo", json!({"session": session}));
    assert_eq!(editor.ended(&undo), "failed");
    assert_eq!(made(), 0, "no file is created");
    editor.shut_down();
}

/// Renders the same answer in the form that each editor can show unobtrusively.
#[test]
fn a_long_answer_is_shortened_for_the_editor() {
    let long = (1..40).map(|line| format!("  line {line}\n\n")).collect::<String>();
    for (client, break_, limit, asks) in [
        (json!({"name": "Neovim"}), " · ", 66, false),
        (json!({"name": "Visual Studio Code"}), " …", 80, true),
        (json!({"name": "Eglot"}), "\n", 600, false),
        // This form is for eglot 1.9.
        (Value::Null, "\n", 600, false),
    ] {
        let sandbox = with_script(&[], &[json!({"text": long})]);
        let mut editor = Editor::start_with(&sandbox, |params| params["clientInfo"] = client.clone());
        editor.answers.push_back(Some("Open transcript"));
        let session = editor.run("pilcrow.prompt", json!({"text": "Count."}));
        editor.ended(&session);
        let message = editor.wait_for_message("line 1");
        assert!(message.starts_with("Pilcrow: line 1") && message.contains('…'), "{client}: {message}");
        assert!(message.chars().count() <= limit, "{client}: {message}");
        assert_eq!(message.contains('\n'), break_ == "\n", "{client}: {message}");
        assert!(message.contains(&format!("line 1{break_}")), "{client}: {message}");
        assert_eq!(editor.all("window/showMessageRequest").len(), usize::from(asks), "{client}");
        assert_eq!(editor.all("window/showMessage").len(), usize::from(!asks), "{client}");
        if !asks {
            assert!(editor.all("window/showDocument").is_empty(), "{client}");
            editor.command("pilcrow.transcript", json!({}));
        }
        editor.wait("the transcript", |editor| editor.all("window/showDocument").len() == 1);
        editor.shut_down();
    }
    // The plugin shows answers of any length.
    let sandbox = with_script(&[], &[json!({"text": long})]);
    let mut editor = Editor::start_with(&sandbox, |params| {
        params["clientInfo"]["name"] = json!("Neovim");
        params["capabilities"]["experimental"] = json!({"pilcrow": {"answers": true}});
    });
    let session = editor.run("pilcrow.prompt", json!({"text": "Count."}));
    editor.ended(&session);
    assert_eq!(editor.wait_for_message("line 1"), format!("Pilcrow: {}", long.trim()));
    editor.shut_down();
}

#[test]
fn the_plugin_gets_events_and_opens_a_long_answer() {
    let long = (1..40).map(|line| format!("line {line}\n")).collect::<String>();
    let sandbox = with_script(&[], &[json!({"text": long}), json!({"text": long})]);
    let mut editor = Editor::start(&sandbox);
    editor.answers.push_back(Some("Open transcript"));
    let session = editor.run("pilcrow.prompt", json!({"text": "Count."}));
    editor.ended(&session);
    let message = editor.wait_for_message("line 6");
    check_output(
        &message,
        &expect![[r#"
        Pilcrow: line 1
        line 2
        line 3
        line 4
        line 5
        line 6 …"#]],
    );
    editor.wait("the transcript", |editor| editor.all("window/showDocument").len() == 1);
    assert!(editor.all("pilcrow/event").is_empty());
    editor.shut_down();

    let mut editor = Editor::start_with(&sandbox, |params| {
        params["capabilities"]["experimental"] = json!({"pilcrow": {"events": true}});
    });
    let session = editor.run("pilcrow.prompt", json!({"text": "Count."}));
    editor.ended(&session);
    let events = editor.all("pilcrow/event");
    assert!(events.iter().all(|event| event["session_id"] == json!(session)));
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(events.iter().any(|event| event["event"]["type"] == "agent_end"));
    assert!(editor.all("window/showMessage").is_empty());
    editor.shut_down();
}

/// Sends clients with events no message with the answer.
///
/// Other messages still arrive.
#[test]
fn event_clients_also_get_messages_without_an_event() {
    let waits = json!({"text": "Thinking.", "wait_for_cancel": true});
    let sandbox = with_script(&[], &[waits]);
    let mut editor = Editor::start_with(&sandbox, |params| {
        params["capabilities"]["experimental"] = json!({"pilcrow": {"events": true}});
    });
    let has = |editor: &Editor, kind: &str, part: &str| {
        let mut events = editor.all("pilcrow/event").into_iter().map(|it| it["event"].clone());
        events.any(|event| event["type"] == kind && event.to_string().contains(part))
    };
    let session = editor.run("pilcrow.prompt", json!({"text": "go on"}));
    editor.wait("the answer's beginning", |editor| has(editor, "message_update", "Thinking"));
    editor.command("pilcrow.steer", json!({"text": "and mind the names"}));
    editor.command("pilcrow.stop", json!({}));
    assert_eq!(editor.ended(&session), "stopped");
    editor.wait("the undelivered message", |editor| has(editor, "notice", "and mind the names"));
    assert!(editor.all("window/showMessage").is_empty());
    // The run fails before a session exists.
    std::fs::remove_file(sandbox.beside("script.jsonl")).unwrap();
    let session = editor.run("pilcrow.prompt", json!({"text": "go on"}));
    assert_eq!(editor.ended(&session), "failed");
    editor.wait_for_message("cannot read the script");
    editor.shut_down();
}

/// Opens a file outside all workspace folders, which selects no conversation.
#[test]
fn conversations_belong_to_the_active_folder() {
    let sandbox = with_script(&[("one/a.py", A), ("two/b.py", B)], &[json!({"text": "Answered."})]);
    let outside = sandbox.beside("c.py");
    std::fs::write(&outside, "x = 1\n").unwrap();
    let outside = format!("file://{}", outside.canonicalize().unwrap().display()).replace(' ', "%20");
    let mut editor = Editor::start_with(&sandbox, |params| {
        trusted(params);
        let folder = |name: &str| json!({"uri": uri(&sandbox, name), "name": name});
        params["workspaceFolders"] = json!([folder("one"), folder("two")]);
    });
    let titles = |editor: &mut Editor, argument: Value| -> Vec<Value> {
        let listed = editor.command("pilcrow.sessions", argument);
        listed["sessions"].as_array().unwrap().iter().map(|it| it["title"].clone()).collect()
    };
    editor.open(&uri(&sandbox, "two/b.py"), "python", B);
    let session = editor.run("pilcrow.prompt", json!({"text": "in the second"}));
    assert_eq!(editor.ended(&session), "done");
    editor.open(&outside, "python", "x = 1\n");
    assert!(titles(&mut editor, json!({"uri": uri(&sandbox, "one/a.py")})).is_empty());
    for argument in [json!({"uri": uri(&sandbox, "two/b.py")}), json!({"uri": outside}), json!({})] {
        assert_eq!(titles(&mut editor, argument), ["in the second"]);
    }
    let argument = json!({"text": "and on", "uri": outside, "resume": session});
    assert_eq!(editor.run("pilcrow.prompt", argument), session);
    assert_eq!(editor.ended(&session), "done", "{:#?}", editor.all("window/showMessage"));
    editor.shut_down();
}

#[test]
fn an_earlier_conversation_is_continued() {
    let waits = json!({"text": "Thinking.", "wait_for_cancel": true});
    let lines = [json!({"text": "The first answer."}), waits];
    let sandbox = with_script(&[("a.py", A)], &lines);
    let mut editor = Editor::start(&sandbox);
    let session = editor.run("pilcrow.prompt", json!({"text": "the first question"}));
    editor.ended(&session);
    editor.shut_down();

    let again = json!({"expect": {"last_contains": ["and now"]}, "text": "The second answer."});
    std::fs::write(sandbox.beside("script.jsonl"), format!("{again}\n{}\n", lines[1])).unwrap();
    let mut editor = Editor::start(&sandbox);
    let listed = editor.command("pilcrow.sessions", json!({}));
    let known = &listed["sessions"][0];
    assert_eq!(
        (&known["session"], &known["title"]),
        (&json!(session), &json!("the first question")),
        "{listed}"
    );
    let resumed = editor.run("pilcrow.prompt", json!({"text": "and now", "resume": session}));
    assert_eq!(resumed, session);
    assert_eq!(editor.ended(&session), "done");
    editor.wait_for_message("The second answer.");
    let listed = editor.command("pilcrow.sessions", json!({}));
    assert_eq!(
        (listed["sessions"].as_array().unwrap().len(), &listed["sessions"][0]["messages"]),
        (1, &json!(4))
    );
    // One conversation continues at a time, and only an existing one.
    let refused = |editor: &mut Editor, resume: &str| {
        let argument = json!({"text": "x", "resume": resume});
        let params = json!({"command": "pilcrow.prompt", "arguments": [argument]});
        editor.request("workspace/executeCommand", params)["error"]["message"].to_string()
    };
    assert!(refused(&mut editor, "newest").contains("pilcrow.sessions"));
    let other =
        editor.run("pilcrow.prompt", json!({"text": "y", "resume": "0199aaaa-0000-7000-8000-000000000000"}));
    assert_eq!(editor.ended(&other), "failed");
    editor.wait_for_message("there is no session");
    // Each run reads the script from its beginning.
    std::fs::write(sandbox.beside("script.jsonl"), format!("{}\n", lines[1])).unwrap();
    editor.run("pilcrow.prompt", json!({"text": "and now", "resume": session}));
    assert!(refused(&mut editor, &session).contains("pilcrow.steer"));
    // The cancellation of an ended progress has no effect; that of its own progress stops the run.
    editor.wait("its progress", |editor| editor.progress(&session, "begin").len() == 2);
    let tokens = editor.tokens(&session);
    assert_ne!(tokens[0], tokens[1]);
    editor.notify("window/workDoneProgress/cancel", json!({"token": tokens[0]}));
    assert!(refused(&mut editor, &session).contains("pilcrow.steer"));
    assert_eq!(editor.progress(&session, "end").len(), 1);
    editor.notify("window/workDoneProgress/cancel", json!({"token": tokens[1]}));
    assert_eq!(editor.ended(&session), "stopped");
    editor.shut_down();
}

#[test]
fn an_active_run_accepts_steering() {
    let lines = [
        json!({"tool_calls": [{"name": "bash", "arguments": {"command": "true"}}]}),
        json!({"expect": {"last_role": "user", "last_contains": ["look at b.py too"]}, "text": "both"}),
        json!({"expect": {"last_role": "user", "last_contains": ["and say so"]}, "text": "said so"}),
    ];
    let sandbox = with_script(&[("a.py", A)], &lines);
    let mut editor = Editor::start_with(&sandbox, trusted);
    let refused = |editor: &mut Editor, argument: Value| {
        let params = json!({ "command": "pilcrow.steer", "arguments": [argument] });
        let answer = editor.request("workspace/executeCommand", params);
        answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    check_output(
        &refused(&mut editor, json!({"text": "too late"})),
        &expect!["no active run takes messages; send a prompt instead"],
    );
    let session = editor.run("pilcrow.prompt", json!({"text": "look at a.py"}));
    // While the question is open, the run is in its first turn.
    editor.wait("the question", |editor| editor.open_questions.len() == 1);
    check_output(
        &refused(&mut editor, json!({"text": "soon", "when": "soon"})),
        &expect!["`when` is turn or end, not soon"],
    );
    let steered = editor.command("pilcrow.steer", json!({"text": "and say so", "when": "end"}));
    assert_eq!(steered, json!({ "session": session }));
    editor.command("pilcrow.steer", json!({"text": "look at b.py too", "session": session}));
    let (question, _) = editor.open_questions.remove(0);
    editor.answer_question(&question, Some("Allow"));
    assert_eq!(editor.ended(&session), "done");
    editor.wait_for_message("said so");
    check_output(
        &refused(&mut editor, json!({"text": "too late"})),
        &expect!["no active run takes messages; send a prompt instead"],
    );
    editor.shut_down();
}
