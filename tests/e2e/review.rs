//! Review of a session's changes, as a plugin requests it.

use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox};

const TEXT: &str = "one = 1\r\ntwo = 2\r\nthree = 3\r\nfour = 4\r\n";

fn replaced(old: &str, new: &str) -> Value {
    let arguments = json!({ "path": "a.py", "old_string": old, "new_string": new });
    json!({ "name": "edit", "arguments": arguments })
}

fn scripted() -> Sandbox {
    let mut sandbox = Sandbox::with(&[("a.py", TEXT), ("old.txt", "old\n")]);
    let lines = [
        json!({ "tool_calls": [{ "name": "read", "arguments": { "path": "a.py" } }] }),
        json!({ "tool_calls": [replaced("two = 2", "two = 22"), replaced("four = 4", "four = 44")] }),
        json!({ "tool_calls": [{ "name": "bash", "arguments": { "command": "echo new > made.txt; rm old.txt" } }] }),
        json!({ "text": "Done." }),
    ];
    let script = sandbox.beside("script.jsonl");
    std::fs::write(&script, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .expect("the script");
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    sandbox
}

fn files(listed: &Value) -> &[Value] {
    listed["files"].as_array().unwrap_or_else(|| panic!("{listed:#}"))
}

/// The last part of a file's path.
fn name(file: &Value) -> &str {
    file["path"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default()
}

fn path(sandbox: &Sandbox, name: &str) -> String {
    sandbox.project().canonicalize().expect("the project").join(name).display().to_string()
}

/// The hunks of the review: file, kind, lines and whether the user changed it.
fn hunks(listed: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for file in files(listed) {
        for hunk in file["hunks"].as_array().into_iter().flatten() {
            let edited = if hunk["edited"] == true { " edited" } else { "" };
            out.push(format!(
                "{} {} {}{edited}",
                name(file),
                hunk["kind"].as_str().unwrap_or_default(),
                hunk["now"]
            ));
        }
    }
    out
}

/// The id of the hunk `nth` of a file.
fn id(listed: &Value, of: &str, nth: usize) -> Value {
    let file = files(listed).iter().find(|file| name(file) == of);
    file.map(|file| file["hunks"][nth]["id"].clone()).unwrap_or_default()
}

#[test]
fn hunks_are_kept_and_rejected_in_the_editor() {
    let sandbox = scripted();
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", TEXT);
    editor.replace(&file, 0..0, "# typed\r\n");
    editor.answers.extend([Some("Session"); 4]);
    let session = editor.run("pilcrow.prompt", json!({ "text": "change it" }));
    assert_eq!(editor.ended(&session), "done", "{:#?}", editor.log);
    let review = |editor: &mut Editor, method: &str, more: Value| {
        let mut params = json!({ "session": session });
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        editor.request(&format!("pilcrow/review/{method}"), params)
    };
    let listed = review(&mut editor, "list", json!({}))["result"].clone();
    let all = ["a.py lines [2,3]", "a.py lines [4,5]", "made.txt created null", "old.txt deleted null"];
    assert_eq!(hunks(&listed), all);
    assert_eq!(listed["files"][0]["hunks"][0]["removed"], "two = 2\r\n");
    let before = review(&mut editor, "before", json!({ "path": path(&sandbox, "a.py") }));
    assert_eq!(before["result"]["text"], format!("# typed\r\n{TEXT}"));

    // The user's line stays; the rejected one leaves the buffer, and the disk was never changed.
    let kept = id(&listed, "a.py", 0);
    assert_eq!(review(&mut editor, "keep", json!({ "hunks": [kept] }))["result"], json!({ "conflicts": [] }));
    assert_eq!(hunks(&review(&mut editor, "list", json!({}))["result"]), all[1..]);
    let rejected = review(&mut editor, "reject", json!({ "path": path(&sandbox, "a.py") }));
    assert_eq!(rejected["result"], json!({ "rejected": 1, "conflicts": [] }));
    assert_eq!(editor.text(&file), format!("# typed\r\n{}", TEXT.replace("two = 2", "two = 22")));
    assert_eq!(sandbox.read("a.py"), TEXT);
    let undo = editor.run("pilcrow.undo", json!({}));
    assert_eq!(editor.ended(&undo), "done");
    assert_eq!(hunks(&review(&mut editor, "list", json!({}))["result"]), all[1..]);

    // A restart keeps the rest of the review, but not the text of a buffer that was not saved.
    editor.shut_down();
    let mut editor = Editor::start(&sandbox);
    assert_eq!(hunks(&review(&mut editor, "list", json!({}))["result"]), all[2..]);
    std::fs::write(sandbox.project().join("made.txt"), "new\nmine\n").unwrap();
    let rejected = review(&mut editor, "reject", json!({}));
    let conflict = &rejected["result"]["conflicts"][0];
    assert_eq!(conflict, &json!({ "path": path(&sandbox, "made.txt"), "reason": "you changed it since" }));
    assert_eq!(
        (sandbox.read("made.txt").as_str(), sandbox.read("old.txt").as_str()),
        ("new\nmine\n", "old\n")
    );

    let codes = [
        review(&mut editor, "reject", json!({ "hunks": ["none"] })),
        review(&mut editor, "list", json!({ "session": "none" })),
        review(&mut editor, "keep", json!({ "path": "a.py" })),
    ];
    let codes: Vec<_> = codes.iter().map(|answer| &answer["error"]["data"]["code"]).collect();
    assert_eq!(codes, ["not_found", "not_found", "invalid_arguments"]);
    editor.shut_down();
}

#[test]
fn a_live_session_gets_the_reason_of_a_rejection() {
    let sandbox = scripted();
    let mut editor = Editor::start(&sandbox);
    let new = editor.request("pilcrow/session/new", json!({}))["result"].clone();
    let session = &new["session"];
    editor.answers.extend([Some("Session"); 4]);
    editor.request("pilcrow/prompt", json!({ "session": session, "text": "change it" }));
    editor.wait("the end of the run", |editor| {
        editor.all("pilcrow/event").iter().any(|it| it["event"]["type"] == "agent_settled")
    });
    let path = path(&sandbox, "a.py");
    let params = json!({ "session": session, "path": path, "reason": "keep the old numbers" });
    let rejected = editor.request("pilcrow/review/reject", params);
    assert_eq!(rejected["result"]["rejected"], 2, "{rejected}");
    assert_eq!(sandbox.read("a.py"), TEXT);
    let state =
        editor.request("pilcrow/session/open", json!({ "session": session }))["result"]["state"].clone();
    let expected =
        "I rejected 2 of your changes in a.py; the lines are as before. Reason: keep the old numbers";
    assert_eq!(state["queue"][0]["text"], expected, "{:#}", state["queue"]);
    editor.shut_down();
}

/// The lenses of a document: line and title.
fn lenses(editor: &mut Editor, file: &str) -> (Vec<String>, Vec<Value>) {
    let answer = editor.request("textDocument/codeLens", json!({ "textDocument": { "uri": file } }));
    let lenses = answer["result"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    let shown = |lens: &Value| {
        format!("{} {}", lens["range"]["start"]["line"], lens["command"]["title"].as_str().expect("a title"))
    };
    (lenses.iter().map(shown).collect(), lenses)
}

/// Executes the command of a lens or an action, as an editor does.
#[track_caller]
fn execute(editor: &mut Editor, command: &Value) {
    let params = json!({ "command": command["command"], "arguments": command["arguments"] });
    let answer = editor.request("workspace/executeCommand", params);
    assert_eq!(answer["result"], json!({}), "{answer}");
}

#[test]
fn lenses_and_actions_review_without_a_plugin() {
    let sandbox = scripted();
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", TEXT);
    assert_eq!(lenses(&mut editor, &file).0, [""; 0]);
    editor.answers.extend([Some("Session"); 4]);
    let session = editor.run("pilcrow.prompt", json!({ "text": "change it" }));
    assert_eq!(editor.ended(&session), "done", "{:#?}", editor.log);
    let both = [
        "1 Keep change",
        "1 Reject",
        "1 Next",
        "3 Keep change",
        "3 Reject",
        "3 Next",
        "0 Keep all 2",
        "0 Reject all",
    ];
    let (shown, found) = lenses(&mut editor, &file);
    assert_eq!(shown, both);

    execute(&mut editor, &found[2]["command"]);
    let next = editor.all("window/showDocument").pop().unwrap_or_default();
    assert_eq!((&next["uri"], &next["selection"]["start"]["line"]), (&json!(file), &json!(3)), "{next}");

    // A line above moves them; a changed line can only be kept.
    editor.replace(&file, 0..0, "# typed\r\n");
    assert_eq!(lenses(&mut editor, &file).0[3], "4 Keep change");
    let actions = |editor: &mut Editor, line: usize| {
        let at = json!({ "line": line, "character": 0 });
        let context = json!({ "diagnostics": [], "only": ["refactor.pilcrow.review"] });
        let range = json!({ "start": at, "end": at });
        let params =
            json!({ "textDocument": { "uri": uri(&sandbox, "a.py") }, "range": range, "context": context });
        editor.request("textDocument/codeAction", params)["result"].as_array().cloned().unwrap_or_default()
    };
    assert_eq!(actions(&mut editor, 1), Vec::<Value>::new());
    let offered = actions(&mut editor, 4);
    let titles: Vec<_> = offered.iter().map(|action| action["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Keep this change", "Reject this change"]);
    execute(&mut editor, &offered[1]["command"]);
    assert_eq!(editor.text(&file), format!("# typed\r\n{}", TEXT.replace("two = 2", "two = 22")));
    assert_eq!(lenses(&mut editor, &file).0, ["2 Keep change", "2 Reject"]);
    editor.shut_down();

    // After a restart, files with changes on disk are listed again.
    let mut editor = Editor::start(&sandbox);
    let made = uri(&sandbox, "made.txt");
    editor.open(&made, "plaintext", &sandbox.read("made.txt"));
    let (shown, found) = lenses(&mut editor, &made);
    assert_eq!(shown, ["0 Keep new file", "0 Reject"]);
    execute(&mut editor, &found[0]["command"]);
    assert_eq!(lenses(&mut editor, &made).0, [""; 0]);
    editor.shut_down();
}
