//! Checkpoints of a session, as a plugin restores them.

use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox};

const TEXT: &str = "one = 1\ntwo = 2\nthree = 3\n\n\n\nlast = 9\n";

fn replaces(old: &str, new: &str) -> [Value; 3] {
    let edit = json!({ "path": "a.py", "old_string": old, "new_string": new });
    [
        json!({ "tool_calls": [{ "name": "read", "arguments": { "path": "a.py" } }] }),
        json!({ "tool_calls": [{ "name": "edit", "arguments": edit }] }),
        json!({ "text": "Done." }),
    ]
}

fn scripted() -> Sandbox {
    let mut sandbox = Sandbox::with(&[("a.py", TEXT)]);
    let made = json!({ "path": "made.py", "content": "made = 1\n" });
    let lines = replaces("one = 1", "one = 11").into_iter().chain(replaces("two = 2", "two = 22")).chain([
        json!({ "tool_calls": [{ "name": "write", "arguments": made }] }),
        json!({ "text": "Made." }),
    ]);
    let script = sandbox.beside("script.jsonl");
    std::fs::write(&script, lines.map(|line| format!("{line}\n")).collect::<String>()).expect("the script");
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    sandbox
}

#[track_caller]
fn ok(editor: &mut Editor, method: &str, params: Value) -> Value {
    let answer = editor.request(&format!("pilcrow/{method}"), params);
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

fn runs(editor: &mut Editor, session: &Value, texts: &[&str]) {
    for text in texts {
        let settled = |editor: &Editor| {
            editor.all("pilcrow/event").iter().filter(|it| it["event"]["type"] == "agent_settled").count()
        };
        let before = settled(editor);
        ok(editor, "prompt", json!({ "session": session, "text": text }));
        editor.wait("the end of the run", |editor| settled(editor) > before);
    }
}

/// Replaces the only `old` in the editor.
fn types(editor: &mut Editor, file: &str, old: &str, new: &str) {
    let start = editor.text(file).find(old).expect("the text");
    editor.replace(file, start..start + old.len(), new);
}

fn prompts(editor: &mut Editor, session: &Value) -> Vec<String> {
    let state = ok(editor, "session/open", json!({ "session": session }))["state"].clone();
    let users =
        state["messages"].as_array().into_iter().flatten().filter(|it| it["message"]["role"] == "user");
    users.map(|it| it["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_checkpoint_restores_files_conversation_or_both() {
    let sandbox = scripted();
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", TEXT);
    editor.answers.extend([Some("Session"); 4]);
    let session = ok(&mut editor, "session/new", json!({}))["session"].clone();
    runs(&mut editor, &session, &["first", "second", "third"]);
    let all = TEXT.replace("one = 1", "one = 11").replace("two = 2", "two = 22");
    assert_eq!(editor.text(&file), all, "{:#?}", editor.log);

    let listed = ok(&mut editor, "checkpoint/list", json!({ "session": session }));
    let points = listed["checkpoints"].as_array().unwrap().clone();
    let seen: Vec<_> = points.iter().map(|it| (it["text"].as_str().unwrap(), it["files"].as_u64())).collect();
    assert_eq!(seen, [("first", Some(1)), ("second", Some(1)), ("third", Some(1))]);
    let second = json!({ "session": session, "message_id": points[1]["message_id"] });

    // The user adds a line elsewhere, which stays.
    types(&mut editor, &file, "\n\nlast", "\n# typed\n\nlast");
    let preview = ok(&mut editor, "checkpoint/preview", second.clone());
    assert_eq!(preview["files"].as_array().unwrap().len(), 2, "{preview}");
    let removed = preview["diff"].as_str().unwrap().lines().filter(|line| line.starts_with('-'));
    assert_eq!(removed.collect::<Vec<_>>(), ["--- a/a.py", "-two = 22", "--- a/made.py", "-made = 1"]);

    let mut params = second.clone();
    params["restore"] = json!("both");
    let restored = ok(&mut editor, "checkpoint/restore", params.clone());
    assert_eq!((&restored["prompt"], &restored["conflicts"]), (&json!("second"), &json!([])), "{restored}");
    let with_line = |text: &str| text.replace("\n\n\n\n", "\n\n\n# typed\n\n");
    assert_eq!(editor.text(&file), with_line(&TEXT.replace("one = 1", "one = 11")));
    assert!(!sandbox.project().join("made.py").exists());
    assert_eq!(prompts(&mut editor, &session), ["first"]);

    ok(&mut editor, "checkpoint/undo", json!({ "session": session, "undo": restored["undo"] }));
    assert_eq!(editor.text(&file), with_line(&all));
    assert_eq!(sandbox.read("made.py"), "made = 1\n");
    assert_eq!(prompts(&mut editor, &session), ["first", "second", "third"]);

    // A line of the agent that the user edited stays, and is reported.
    types(&mut editor, &file, "two = 22\n", "two = 222\n");
    params["restore"] = json!("files");
    let restored = ok(&mut editor, "checkpoint/restore", params.clone());
    assert_eq!(restored["conflicts"][0]["reason"], "line 2: you changed it since", "{restored}");
    assert_eq!(editor.text(&file), with_line(&all.replace("two = 22", "two = 222")));
    assert!(!sandbox.project().join("made.py").exists());
    let again = editor.request("pilcrow/checkpoint/restore", params.clone());
    assert_eq!(again["error"]["data"]["code"], "conflict", "{again}");

    // A restored conversation stays so after a restart.
    params["restore"] = json!("conversation");
    ok(&mut editor, "checkpoint/restore", params);
    editor.shut_down();
    let mut editor = Editor::start(&sandbox);
    assert_eq!(prompts(&mut editor, &session), ["first"]);
    let listed = ok(&mut editor, "checkpoint/list", json!({ "session": session }));
    assert_eq!(listed["checkpoints"][0]["text"], "first", "{listed}");
    let gone = editor.request("pilcrow/checkpoint/preview", second);
    assert_eq!(gone["error"]["data"]["code"], "not_found", "{gone}");
    editor.shut_down();
}
