//! Review in VS Code: the gutter's peek view, the list of files, the native diff.

use serde_json::json;
use tests::editors::{Model, PATIENCE, VsCode, alone};
use tests::{Sandbox, wait_for};

const TEXT: &str = "one = 1\ntwo = 2\nthree = 3\nfour = 4\nfive = 5\n";

#[track_caller]
fn wait_list(code: &mut VsCode<'_>, what: &str, wanted: impl Fn(&str) -> bool) {
    let mut shown = String::new();
    let came = wait_for(PATIENCE, || {
        shown = code.look(".scm-view");
        wanted(&shown)
    });
    if !came {
        code.screenshot("failed");
        panic!("{what}: never so: {shown}\n{}", code.logs());
    }
}

/// Whether a file is listed; the title of a session may name it too.
fn lists(shown: &str, file: &str) -> bool {
    shown.lines().any(|line| line.trim() == file)
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_reviews_changes_per_hunk_file_and_session() {
    let _alone = alone();
    let files = [("a.py", TEXT), ("b.py", "b = 1\n"), ("c.py", "c = 1\n"), ("old.txt", "was = 1\n")];
    let sandbox = Sandbox::with(&files);
    sandbox.make_repository();
    let model = Model::install(&sandbox);
    let call = |path: &str, old: &str, new: &str| json!({"name": "edit", "arguments": {"path": path, "old_string": old, "new_string": new}});
    let read = |path: &str| json!({"name": "read", "arguments": {"path": path}});
    model.says(&[
        json!({"tool_calls": [read("a.py"), read("b.py"), read("c.py")]}),
        json!({"tool_calls": [call("a.py", "two = 2", "two = 22"), call("a.py", "five = 5", "five = 55\nsix = 6")]}),
        json!({"tool_calls": [call("b.py", "b = 1", "b = 2"), call("c.py", "c = 1", "c = 2")]}),
        json!({"tool_calls": [{"name": "write", "arguments": {"path": "made.txt", "content": "made\n"}}]}),
        json!({"tool_calls": [{"name": "lsp", "arguments": {"action": "rename_file", "file": "old.txt", "to": "new.txt"}}]}),
        json!({"tool_calls": [read("new.txt")]}),
        json!({"tool_calls": [call("new.txt", "was = 1", "was = 2")]}),
        json!({"text": "changed all"}),
    ]);
    let mut code = VsCode::start(&sandbox, "vscode-review");
    code.open("a.py");
    code.command("Pilcrow: Prompt…");
    code.answer("change it");
    code.shows("changed all", Some(".notifications-toasts"));
    code.command("Notifications: Clear All Notifications");
    code.press("Control+Shift+G");
    wait_list(&mut code, "the list", |shown| {
        shown.contains("change it")
            && ["a.py", "b.py", "c.py", "made.txt", "new.txt"].iter().all(|it| lists(shown, it))
    });
    code.open("a.py");
    code.screenshot("1-list");

    // The peek view of the gutter rejects its change alone.
    code.goto(1, 1);
    code.command("Show Next Change");
    code.shows("1 of 2 changes", Some(".peekview-widget"));
    code.screenshot("2-peek");
    code.click_button("Reject Change", ".peekview-widget .head");
    let rejected = TEXT.replace("five = 5", "five = 55\nsix = 6");
    code.wait_document("a.py", "the rejection", |it| it.text == rejected);
    code.press("Escape");

    // The other change is the next one; kept, the file leaves the list.
    code.goto(1, 1);
    code.command("Pilcrow: Next Change to Review");
    assert!(wait_for(PATIENCE, || code.active()["line"] == 4), "{}", code.active());
    code.command("Pilcrow: Keep Change");
    wait_list(&mut code, "the file is decided", |shown| !lists(shown, "a.py") && lists(shown, "b.py"));
    assert_eq!(code.document("a.py").map(|it| it.text), Some(rejected));

    // A rejected line leaves its file where the agent moved it.
    code.open("new.txt");
    code.goto(1, 1);
    code.command("Pilcrow: Reject Change");
    code.wait_document("new.txt", "the rejection", |it| it.text == "was = 1\n");
    wait_list(&mut code, "the move", |shown| lists(shown, "new.txt"));

    // A file of the list, then the native diff of all, then all that is left.
    code.click_button("Reject Changes of File", ".scm-view .monaco-list-row:has-text('b.py')");
    wait_list(&mut code, "the file is rejected", |shown| !lists(shown, "b.py") && lists(shown, "c.py"));
    assert_eq!(sandbox.read("b.py"), "b = 1\n");
    code.command("Pilcrow: Review All Changes");
    code.shows("c = 2", Some(".editor-group-container.active"));
    code.screenshot("3-diff");
    code.command("Pilcrow: Keep All Changes");
    wait_list(&mut code, "nothing is left", |shown| !lists(shown, "c.py") && !lists(shown, "made.txt"));
    assert_eq!((sandbox.read("c.py").as_str(), sandbox.read("made.txt").as_str()), ("c = 2\n", "made\n"));
    assert!(!sandbox.project().join("old.txt").exists());
}
