//! The session view of VS Code: prompts, questions, tool calls, the queue, checkpoints, forks, restarts.

use serde_json::{Value, json};
use tests::editors::{Model, PATIENCE, VsCode, alone};
use tests::{Sandbox, wait_for};

const TEXT: &str = "one = 1\ntwo = 2\nthree = 3\n";
const CHANGED: &str = "one = 1\ntwo = 22\nthree = 3\n";

fn reads() -> Value {
    json!({"name": "read", "arguments": {"path": "a.py"}})
}

fn edits() -> Value {
    let arguments = json!({"path": "a.py", "old_string": "two = 2", "new_string": "two = 22"});
    json!({"name": "edit", "arguments": arguments})
}

fn says(text: &str) -> Value {
    json!({ "text": text })
}

/// A response that streams until the run is stopped.
fn waits(text: &str) -> Value {
    json!({"text": text, "wait_for_cancel": true})
}

fn project() -> Sandbox {
    let sandbox = Sandbox::with(&[("a.py", TEXT)]);
    sandbox.make_repository();
    sandbox
}

/// VS Code with `a.py` and the session view.
fn start<'a>(sandbox: &'a Sandbox, name: &str) -> VsCode<'a> {
    let mut code = VsCode::start(sandbox, name);
    code.open("a.py");
    code.command("Pilcrow: Focus on Session View");
    code
}

#[track_caller]
fn wait_transcript(code: &mut VsCode<'_>, text: &str) {
    code.wait_view(".transcript", text, |shown| shown.contains(text));
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_shows_a_session_with_questions_calls_and_queue() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    let steps = json!([{"text": "read it", "status": "done"}, {"text": "change it", "status": "active"}]);
    let usage = json!({"input": 1200, "output": 300});
    model.says(&[
        json!({"text": "I read and **change** it.", "usage": usage, "tool_calls": [reads(), {"name": "plan", "arguments": {"steps": steps}}]}),
        json!({"usage": usage, "tool_calls": [edits()]}),
        waits("Thinking about it."),
        says("Stopped and continued."),
    ]);
    let mut code = start(&sandbox, "vscode-session");
    code.choose_in_view("Mode", "prompt");

    // A prompt with a completed file; the question shows the diff.
    code.focus_prompt();
    code.type_text("Change two in @a");
    code.wait_view(".completions", "the completion", |shown| shown.contains("a.py"));
    code.press("Enter");
    code.type_text("please");
    code.press("Enter");
    code.wait_view(".questions", "the question", |shown| shown.contains("+two = 22"));
    code.wait_view(".entry.user", "the completed name", |shown| shown.contains("Change two in @a.py please"));
    code.wait_view(".plan", "the plan", |shown| shown.contains("Plan: 1 of 2"));
    code.screenshot("1-question");
    code.click_in_view("Allow", ".questions");
    code.wait_document("a.py", "the edit", |it| it.text == CHANGED);
    wait_transcript(&mut code, "Thinking about it.");
    code.wait_view(".text strong", "rendered Markdown", |shown| shown == "change");
    code.wait_view(".status", "the tokens", |shown| shown.contains("2k") && shown.contains("sandbox"));
    code.wait_view(".review", "the changes to review", |shown| shown.contains("1 file to review"));

    // A call expands to its input, diff and output.
    code.expand_in_view(".call:has-text('edit')");
    code.wait_view(".call[open]", "the call's parts", |shown| {
        ["Input", "old_string: two = 2", "Diff", "-two = 2", "Output"].iter().all(|it| shown.contains(it))
    });
    code.screenshot("2-call");

    // Queued messages are edited, moved and removed.
    code.prompt("later");
    code.wait_view(".queue", "the first message", |shown| shown.contains("later"));
    code.prompt("second");
    code.wait_view(".queue", "the second message", |shown| shown.contains("second"));
    code.click_in_view("Move up", ".queued:has-text('second')");
    code.wait_view(".queue", "the order", |shown| shown.find("second") < shown.find("later"));
    code.click_in_view("Edit", ".queued:has-text('later')");
    code.press("End");
    code.press("Shift+Home");
    code.type_text("another text");
    code.press("Enter");
    code.wait_view(".queue", "the new text", |shown| {
        shown.contains("another text") && !shown.contains("later")
    });
    code.screenshot("3-queue");
    code.click_in_view("Remove", ".queued:has-text('another text')");
    code.wait_view(".queue", "the removal", |shown| {
        !shown.contains("another text") && shown.contains("second")
    });

    // A stop keeps the queue.
    code.click_in_view("Stop", ".composer");
    code.wait_view(".entry.notice", "the stop", |shown| shown.contains("Stopped."));
    code.click_in_view("Send now", ".queue");
    wait_transcript(&mut code, "Stopped and continued.");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_answers_questions_and_steers_by_keyboard() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    let other = sandbox.beside("other.jsonl");
    std::fs::write(&other, says("The other model answers.").to_string()).unwrap();
    let other_model = format!("script:{}", other.display());
    model.role("smol", &other_model);
    let ask = json!({"name": "ask", "arguments": {"question": "Which one?", "options": ["Left", "Right"]}});
    let after = |last: &str, mut response: Value| {
        response["expect"] = json!({"last_contains": [last]});
        response
    };
    model.says(&[
        json!({"tool_calls": [reads(), ask]}),
        after("mind the tests", json!({"tool_calls": [edits()]})),
        after("not that line", waits("Thinking about it.")),
        after("do the other", says("The other is done.")),
    ]);
    let mut code = start(&sandbox, "vscode-keyboard");
    code.choose_in_view("Mode", "prompt");
    code.goto(2, 1);
    code.press("Shift+ArrowDown");
    code.command("Pilcrow: Add Selection to Prompt");
    code.wait_prompt("the selected lines", |text| text == "@a.py:2-2 ");
    code.type_text("please");
    code.press("Enter");
    code.wait_view(".questions", "the question", |shown| shown.contains("Which one?"));
    code.choose_in_view("Delivery", "steer");
    code.prompt("mind the tests");
    code.wait_view(".queue", "the message", |shown| {
        shown.contains("After this turn") && shown.contains("mind the tests")
    });
    code.tab_in_view("Right");
    code.press("Enter");
    code.wait_view(".questions", "the change", |shown| shown.contains("+two = 22"));
    code.tab_in_view("Reason for a refusal");
    code.type_text("not that line");
    code.press("Enter");
    wait_transcript(&mut code, "Thinking about it.");
    assert_eq!(code.document("a.py").map(|it| it.text), Some(TEXT.to_owned()));
    code.choose_in_view("Delivery", "interrupt");
    code.prompt("do the other");
    wait_transcript(&mut code, "The other is done.");
    code.screenshot("1-steered");
    code.choose_in_view("Model", &other_model);
    code.prompt("once more");
    wait_transcript(&mut code, "The other model answers.");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_restores_forks_and_lists_sessions() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    let calls = |call: Value| json!({"tool_calls": [call]});
    model.says(&[calls(reads()), calls(edits()), says("first done"), says("second done")]);
    let mut code = start(&sandbox, "vscode-checkpoints");
    code.prompt("first");
    wait_transcript(&mut code, "first done");
    code.prompt("second");
    wait_transcript(&mut code, "second done");

    // A checkpoint is previewed and restored, and the restore is undone.
    code.click_in_view("Restore…", ".entry.user:has-text('first')");
    code.wait_view(".more .card", "the preview", |shown| shown.contains("-two = 22"));
    code.screenshot("1-preview");
    code.click_in_view("Both", ".more .card");
    code.wait_document("a.py", "the files", |it| it.text == TEXT);
    code.wait_view(".banner", "the report", |shown| shown.contains("Restored."));
    code.wait_view(".transcript", "the conversation", |shown| !shown.contains("first done"));
    code.wait_prompt("the message again", |text| text == "first");
    code.click_in_view("Undo", ".banner");
    wait_transcript(&mut code, "second done");
    code.wait_document("a.py", "the files", |it| it.text == CHANGED);

    // A fork has the messages up to one; the list opens a session again.
    code.click_in_view("Fork", ".entry.assistant:has-text('first done')");
    code.wait_view(".transcript", "the fork", |shown| {
        shown.contains("first done") && !shown.contains("second done")
    });
    code.command("Pilcrow: New Session");
    code.wait_view(".transcript", "the new session", |shown| !shown.contains("first done"));
    code.command("Pilcrow: Open Session…");
    code.shows("fork", Some(".quick-input-list"));
    code.click_button("Rename", ".quick-input-list .monaco-list-row:has-text('fork')");
    code.shows("rename the session", Some(".quick-input-widget"));
    code.answer("other way");
    code.shows("other way", Some(".quick-input-list"));
    code.screenshot("2-sessions");
    code.click_button("Delete", ".quick-input-list .monaco-list-row:has-text('other way')");
    code.click("Delete", Some(".monaco-dialog-box .monaco-button"));
    code.shows("first", Some(".quick-input-list"));
    assert!(!code.look(".quick-input-list").contains("other way"));
    code.press("Enter");
    wait_transcript(&mut code, "second done");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_continues_a_session_after_a_kill_and_a_reload() {
    let _alone = alone();
    let sandbox = project();
    let model = Model::install(&sandbox);
    model.says(&[json!({"tool_calls": [reads()]}), json!({"tool_calls": [edits()]}), says("first done")]);
    let mut code = start(&sandbox, "vscode-reloads");
    code.prompt("first");
    wait_transcript(&mut code, "first done");
    code.command("File: Save");
    assert!(wait_for(PATIENCE, || sandbox.read("a.py") == CHANGED));

    model.says(&[waits("second begins")]);
    let server = code.server_process().expect("a server");
    tests::processes::kill(server, rustix::process::Signal::KILL);
    let restarted = wait_for(PATIENCE, || code.server_process().is_some_and(|process| process != server));
    assert!(restarted, "no new server\n{}", code.logs());
    code.prompt("second");
    wait_transcript(&mut code, "second begins");

    // A view that is shown again is complete, also in the middle of a run; so is one of a new window.
    code.press("Control+Shift+E");
    code.command("Pilcrow: Focus on Session View");
    let all = ["first done", "second begins"];
    code.wait_view(".transcript", "all messages", |shown| all.iter().all(|it| shown.contains(it)));
    code.click_in_view("Stop", ".composer");
    code.wait_view(".entry.notice", "the stop", |shown| shown.contains("Stopped."));
    code.reload();
    code.command("Pilcrow: Focus on Session View");
    code.wait_view(".transcript", "all messages", |shown| all.iter().all(|it| shown.contains(it)));
    code.wait_view(".review", "the changes to review", |shown| shown.contains("1 file to review"));
}
