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
    assert_eq!(review(&mut editor, "keep", json!({ "hunks": [kept] }))["result"], json!({}));
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
        "I rejected 2 changes of yours in a.py; the lines are as before. The reason: keep the old numbers";
    assert_eq!(state["queue"][0]["text"], expected, "{:#}", state["queue"]);
    editor.shut_down();
}
