//! Proposed edits (`edit.mode = "propose"`), as a plugin and a command line see them.

use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox};

const TEXT: &str = "one = 1\ntwo = 2\nthree = 3\nfour = 4\n";

fn edit(old: &str, new: &str) -> Value {
    let arguments = json!({ "path": "a.py", "old_string": old, "new_string": new });
    json!({ "name": "edit", "arguments": arguments })
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "tool_calls": [{ "name": tool, "arguments": arguments }] })
}

fn sandbox(lines: &[Value]) -> Sandbox {
    let mut sandbox = Sandbox::with(&[("a.py", TEXT), ("b.txt", "b\n")]);
    let script = sandbox.beside("script.jsonl");
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&script, lines).expect("the script");
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    sandbox.variables.insert("PILCROW_EDIT_MODE".to_owned(), "propose".to_owned());
    sandbox
}

/// Two edits and a new file, then what the tools see of them.
fn edits() -> Vec<Value> {
    vec![
        call("read", json!({ "path": "a.py" })),
        json!({ "tool_calls": [edit("two = 2", "two = 22"), edit("four = 4", "four = 44")] }),
        call("write", json!({ "path": "new.py", "content": "five = 5\n" })),
        call("grep", json!({ "pattern": "= (22|5)$" })),
        json!({
            "expect": { "last_contains": ["a.py", "two = 22", "new.py", "five = 5", "proposed"] },
            "tool_calls": [{ "name": "bash", "arguments": { "command": "cat a.py; ls" } }]
        }),
        json!({
            "expect": { "last_contains": ["two = 2\n", "not on disk: your proposed edits of 2 files (a.py, new.py)"] },
            "text": "Done."
        }),
        json!({ "expect": { "last_contains": ["I rejected one of your changes", "no fours"] }, "text": "Seen." }),
    ]
}

fn start(editor: &mut Editor) -> String {
    let session = editor.request("pilcrow/session/new", json!({}))["result"]["session"].clone();
    editor.answers.push_back(Some("Session"));
    editor.request("pilcrow/prompt", json!({ "session": session, "text": "change it" }));
    wait_settled(editor, 1);
    session.as_str().expect("a session").to_owned()
}

fn wait_settled(editor: &mut Editor, count: usize) {
    editor.wait("the end of the run", |editor| {
        let events = editor.all("pilcrow/event");
        events.iter().filter(|it| it["event"]["type"] == "agent_settled").count() >= count
    });
}

/// Sends a request about the review of a session.
fn review(editor: &mut Editor, session: &str, method: &str, more: Value) -> Value {
    let mut params = json!({ "session": session });
    let fields = more.as_object().cloned().expect("an object");
    params.as_object_mut().expect("an object").extend(fields);
    editor.request(&format!("pilcrow/review/{method}"), params)["result"].clone()
}

/// The hunks of the review: file, kind, lines and the proposed text.
fn hunks(editor: &mut Editor, session: &str) -> Vec<String> {
    let listed = review(editor, session, "list", json!({}));
    let mut out = Vec::new();
    for file in listed["files"].as_array().unwrap_or_else(|| panic!("{listed}")) {
        let name = file["path"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        for hunk in file["hunks"].as_array().into_iter().flatten() {
            let edited = if hunk["edited"] == true { " edited" } else { "" };
            let kind = hunk["kind"].as_str().unwrap_or_default();
            out.push(format!("{name} {kind} {} {}{edited}", hunk["now"], hunk["proposed"]));
        }
    }
    out
}

fn id(editor: &mut Editor, session: &str, nth: usize) -> Value {
    review(editor, session, "list", json!({}))["files"][0]["hunks"][nth]["id"].clone()
}

#[test]
fn proposals_are_kept_and_rejected_in_the_editor() {
    let sandbox = sandbox(&edits());
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", TEXT);
    editor.replace(&file, 0..0, "# typed\n");
    let session = start(&mut editor);
    let typed = format!("# typed\n{TEXT}");
    assert_eq!((editor.text(&file), sandbox.read("a.py").as_str()), (typed.as_str(), TEXT));
    assert!(!sandbox.project().join("new.py").exists());
    let all = [
        "a.py lines [2,3] \"two = 22\\n\"",
        "a.py lines [4,5] \"four = 44\\n\"",
        "new.py created null \"five = 5\\n\"",
    ];
    assert_eq!(hunks(&mut editor, &session), all, "{:#?}", editor.log);
    let path = sandbox.project().canonicalize().expect("the project").join("a.py");
    let before = review(&mut editor, &session, "before", json!({ "path": path }));
    let proposed = typed.replace("two = 2", "two = 22").replace("four = 4", "four = 44");
    assert_eq!(before, json!({ "text": typed, "proposed": proposed }));

    // The proposals move with the user's text, which stays when one is applied to the buffer.
    editor.replace(&file, 0..0, "# more\n");
    let first = id(&mut editor, &session, 0);
    let kept = review(&mut editor, &session, "keep", json!({ "hunks": [first] }));
    assert_eq!(kept, json!({ "conflicts": [] }));
    let text = format!("# more\n{}", typed.replace("two = 2", "two = 22"));
    assert_eq!((editor.text(&file), sandbox.read("a.py").as_str()), (text.as_str(), TEXT));
    let left = ["a.py lines [5,6] \"four = 44\\n\"", all[2]];
    assert_eq!(hunks(&mut editor, &session), left);

    // Undo reverts the kept change, and drops the rest of the run; so reject first.
    let second = id(&mut editor, &session, 0);
    let reject = json!({ "hunks": [second], "reason": "no fours" });
    assert_eq!(review(&mut editor, &session, "reject", reject), json!({ "rejected": 1, "conflicts": [] }));
    assert_eq!(hunks(&mut editor, &session), [all[2]]);
    editor.request("pilcrow/prompt", json!({ "session": session, "text": "go on" }));
    wait_settled(&mut editor, 2);

    // A restart keeps the rest.
    editor.shut_down();
    let mut editor = Editor::start(&sandbox);
    assert_eq!(hunks(&mut editor, &session), [all[2]]);
    assert_eq!(review(&mut editor, &session, "keep", json!({})), json!({ "conflicts": [] }));
    assert_eq!(sandbox.read("new.py"), "five = 5\n");
    assert_eq!(hunks(&mut editor, &session), [""; 0]);
    editor.shut_down();
}

#[test]
fn the_users_lines_win_over_a_proposal() {
    let sandbox = sandbox(&edits());
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", TEXT);
    let session = start(&mut editor);
    let at = TEXT.find("two = 2").unwrap();
    editor.replace(&file, at..at + 7, "two = 'mine'");
    let conflict = "a.py lines [1,2] \"two = 22\\n\" edited";
    assert_eq!(hunks(&mut editor, &session)[0], conflict);
    let kept = review(&mut editor, &session, "keep", json!({}));
    assert_eq!(kept["conflicts"][0]["reason"], "line 2: you changed it since");
    let text = TEXT.replace("two = 2", "two = 'mine'").replace("four = 4", "four = 44");
    assert_eq!(editor.text(&file), text);
    assert_eq!(hunks(&mut editor, &session), [conflict]);
    // Without the session, no review would have it.
    let deleted = editor.request("pilcrow/session/delete", json!({ "session": session }));
    assert_eq!(deleted["error"]["data"]["code"], "wrong_state", "{deleted}");
    review(&mut editor, &session, "reject", json!({}));
    assert_eq!(hunks(&mut editor, &session), [""; 0]);
    assert_eq!(editor.text(&file), text);
    editor.shut_down();
}

#[test]
fn lenses_and_options_have_proposals() {
    let sandbox = sandbox(&edits());
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", TEXT);
    let session = start(&mut editor);
    let opened = editor.request("pilcrow/session/open", json!({ "session": session }))["result"].clone();
    let edits = opened["options"].as_array().into_iter().flatten().find(|it| it["id"] == "edits").cloned();
    assert_eq!(edits.unwrap_or_default()["currentValue"], "propose", "{opened}");
    let lenses = editor.request("textDocument/codeLens", json!({ "textDocument": { "uri": file } }));
    let lenses = lenses["result"].as_array().cloned().unwrap_or_default();
    let keep = lenses.iter().find(|lens| lens["command"]["title"] == "Keep proposed change");
    let keep = keep.unwrap_or_else(|| panic!("{lenses:#?}")).clone();
    assert_eq!(keep["range"]["start"]["line"], 1);
    let command = json!({ "command": "pilcrow.review", "arguments": keep["command"]["arguments"] });
    editor.request("workspace/executeCommand", command);
    assert_eq!(editor.text(&file), TEXT.replace("two = 2", "two = 22"));
    let undo = editor.run("pilcrow.undo", json!({}));
    assert_eq!(editor.ended(&undo), "done");
    assert_eq!(hunks(&mut editor, &session), [""; 0]);
    assert_eq!(editor.text(&file), TEXT);
    editor.shut_down();
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_real_server_checks_the_proposed_text() {
    let lines = [
        call("read", json!({ "path": "a.py" })),
        json!({ "tool_calls": [edit("two = 2", "two = undefined_name")] }),
        call("lsp", json!({ "action": "diagnostics", "file": "a.py", "timeout": 120 })),
        json!({ "expect": { "last_contains": ["undefined_name", "F821"] }, "text": "Done." }),
        call("lsp", json!({ "action": "diagnostics", "file": "a.py", "timeout": 120 })),
        json!({ "expect": { "last_lacks": ["undefined_name"] }, "text": "Clean." }),
    ];
    let sandbox = sandbox(&lines);
    sandbox.write("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n");
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", TEXT);
    editor.answers.extend([Some("Allow"); 4]);
    let session = start(&mut editor);
    assert_eq!(editor.text(&file), TEXT);
    let answers = |editor: &Editor| {
        let events = editor.all("pilcrow/event");
        let ends = events.iter().filter(|it| it["event"]["type"] == "message_end");
        let texts = ends.filter(|it| it["event"]["message"]["role"] == "assistant");
        texts
            .filter_map(|it| it["event"]["message"]["content"][0]["text"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(answers(&editor), ["Done."], "{:#?}", editor.log);
    review(&mut editor, &session, "reject", json!({}));
    editor.request("pilcrow/prompt", json!({ "session": session, "text": "go on" }));
    wait_settled(&mut editor, 2);
    assert_eq!(answers(&editor).last().map(String::as_str), Some("Clean."), "{:#?}", editor.log);
    editor.shut_down();
}

#[test]
fn a_run_without_an_editor_leaves_its_proposals() {
    let lines = [
        call("read", json!({ "path": "a.py" })),
        json!({ "tool_calls": [edit("two = 2", "two = 22")] }),
        call("bash", json!({ "command": "true" })),
        json!({ "text": "Done." }),
    ];
    let sandbox = sandbox(&lines);
    sandbox.run(&["run", "--yes", "change it"]).expect(0);
    assert_eq!(sandbox.read("a.py"), TEXT);
    let mut editor = Editor::start(&sandbox);
    let listed = editor.request("pilcrow/session/list", json!({}))["result"].clone();
    let session = listed["sessions"][0]["session"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    assert_eq!(hunks(&mut editor, &session), ["a.py lines [1,2] \"two = 22\\n\""]);
    review(&mut editor, &session, "keep", json!({}));
    assert_eq!(sandbox.read("a.py"), TEXT.replace("two = 2", "two = 22"));
    editor.shut_down();
}
