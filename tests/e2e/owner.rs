//! Shell commands while an editor has the project open.
//!
//! They go through the editor, and no unsaved text is saved or overwritten.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use expect_test::expect;
use serde_json::json;
use tests::batch::View;
use tests::editor::uri;
use tests::{Editor, Sandbox, Scripted, check_output, line_with, sandbox, wait_for};

const PATIENCE: Duration = Duration::from_secs(20);
const SAVED: &str = "one\ntwo\n";

/// A sandbox, and an editor that has `a.txt` open with an unsaved line.
fn open() -> (Sandbox, Editor, String) {
    let sandbox = Sandbox::with(&[("a.txt", SAVED), ("b.txt", "other\n")]);
    let mut editor = Editor::start(&sandbox);
    editor.wait("the question for settings", |editor| !editor.all("workspace/configuration").is_empty());
    let file = uri(&sandbox, "a.txt");
    editor.open(&file, "plaintext", SAVED);
    editor.replace(&file, 4..7, "typed");
    // The editor answers after the earlier messages.
    editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    (sandbox, editor, file)
}

fn start(sandbox: &Sandbox, args: &[&str], input: &str) -> Child {
    let mut child = sandbox.command(args).stdin(Stdio::piped()).spawn().expect("pilcrow starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    child
}

#[test]
fn read_edit_and_undo_in_a_shell_go_through_the_editor() {
    let (sandbox, mut editor, file) = open();
    let view = View::parse(&sandbox.run(&["read", "a.txt"]).expect(0).stdout);
    let edits = |editor: &Editor| editor.all("workspace/applyEdit").len();

    let child = start(&sandbox, &["edit"], &view.put("typed", "edited"));
    editor.wait("the edit", |editor| edits(editor) == 1);
    sandbox::finish(child, sandbox::DEADLINE).expect(0);
    assert_eq!(editor.text(&file), "one\nedited\n");

    // The user types above.
    editor.replace(&file, 0..0, "zero\n");
    editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    let child = start(&sandbox, &["undo"], "");
    editor.wait("the undo", |editor| edits(editor) == 2);
    sandbox::finish(child, sandbox::DEADLINE).expect(0);
    assert_eq!(editor.text(&file), "zero\none\ntyped\n");
    assert_eq!(sandbox.read("a.txt"), SAVED, "an unsaved text was saved");

    // Once the editor is closed, commands write files themselves.
    editor.shut_down();
    let shown = sandbox.run(&["read", "a.txt"]).expect(0).stdout;
    assert!(shown.contains("\ttwo"), "{shown}");
}

#[test]
fn a_shell_command_is_warned_of_unsaved_text() {
    let (sandbox, mut editor, file) = open();
    let script = sandbox.beside("script.jsonl");
    let call = json!({"path": "a.txt", "content": "all\n", "overwrite": true});
    let lines = [
        json!({"tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}),
        json!({"tool_calls": [{"name": "write", "arguments": call}]}),
        json!({"text": "Done."}),
    ];
    std::fs::write(&script, lines.map(|line| format!("{line}\n")).concat()).unwrap();
    let model = format!("script:{}", script.display());
    let view = View::parse(&sandbox.run(&["read", "a.txt"]).expect(0).stdout);
    let edit = view.put("typed", "edited");
    let run = ["run", "go", "--yes", "--model", &model];
    let commands: [(&[&str], &str); 3] = [(&["edit"], &edit), (&["undo"], ""), (&run, "")];
    let mut warnings = Vec::new();
    for (number, (args, input)) in commands.into_iter().enumerate() {
        let child = start(&sandbox, args, input);
        editor.wait("the edit", |editor| editor.all("workspace/applyEdit").len() == number + 1);
        let ran = sandbox::finish(child, sandbox::DEADLINE).expect(0);
        warnings.push(line_with(&ran.all(), "not saved").to_owned());
    }
    check_output(
        &warnings.join("\n"),
        &expect![[r#"
        changed and not saved: a.txt
        changed and not saved: a.txt
        pilcrow: changed and not saved: a.txt"#]],
    );
    assert_eq!((editor.text(&file), sandbox.read("a.txt").as_str()), ("all\n", SAVED));
    editor.shut_down();
}

#[test]
fn a_debugger_launch_is_warned_of_unsaved_text() {
    let (sandbox, editor, _) = open();
    let said = sandbox.run(&["tool", "debug", r#"{"action": "sessions"}"#]).expect(0).stdout;
    check_output(
        &said,
        &expect![[r#"
        not saved: a.txt
        no debug sessions; `launch` a program
    "#]],
    );
    editor.shut_down();
    let said = sandbox.run(&["tool", "debug", r#"{"action": "sessions"}"#]).expect(0).stdout;
    check_output(
        &said,
        &expect![[r#"
        no debug sessions; `launch` a program
    "#]],
    );
}

#[test]
fn standalone_reads_the_disk_and_refuses_open_files() {
    let (sandbox, editor, _) = open();
    let view = View::parse(&sandbox.run(&["read", "a.txt", "--standalone"]).expect(0).stdout);
    let ran = sandbox.run_with_input(&["edit", "--standalone"], &view.put("two", "due")).expect(1);
    assert!(ran.stderr.contains("a.txt") && ran.stderr.contains("a test"), "{ran:?}");
    assert!(ran.stderr.contains(&format!("process {}", editor.id())), "{ran:?}");
    assert_eq!(sandbox.read("a.txt"), SAVED);
    let view = View::parse(&sandbox.run(&["read", "b.txt", "--standalone"]).expect(0).stdout);
    sandbox.run_with_input(&["edit", "--standalone"], &view.put("other", "changed")).expect(0);
    assert_eq!(sandbox.read("b.txt"), "changed\n");
    editor.shut_down();
}

#[test]
fn a_command_in_an_untrusted_project_does_not_ask_the_editor() {
    let (sandbox, editor, _) = open();
    let call = json!({"path": "new.txt", "content": "new\n"}).to_string();
    sandbox.run(&["tool", "write", &call]).expect(3);
    sandbox.run(&["tool", "write", &call, "--yes"]).expect(0);
    assert_eq!(sandbox.read("new.txt"), "new\n");
    assert!(editor.all("window/showMessageRequest").is_empty());
    editor.shut_down();
}

/// Requests references twice in a shell.
///
/// Returns how often a server started and ended.
#[track_caller]
fn servers(trusted: bool, started: usize, ended: usize) {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let methods = json!({"textDocument/references": [[{"result": []}]]});
    let scripted = Scripted::install(&mut sandbox, &[json!({"methods": methods})]);
    if trusted {
        let project = sandbox.project().display().to_string();
        sandbox.run_anywhere(&["trust", &project]).expect(0);
    }
    let mut editor = Editor::start(&sandbox);
    editor.wait("the question for settings", |editor| !editor.all("workspace/configuration").is_empty());
    let call = json!({"action": "references", "file": "a.py", "line": 1, "symbol": "greet"}).to_string();
    for _ in 0..2 {
        sandbox.run(&["tool", "lsp", &call, "--yes"]).expect(0);
    }
    assert_eq!((scripted.got("textDocument/references"), scripted.got("initialize")), (2, started));
    assert!(wait_for(PATIENCE, || scripted.got("exit") == ended), "{}", scripted.got("exit"));
    assert!(editor.all("window/showMessageRequest").is_empty());
    editor.shut_down();
    sandbox.mark().none_left(PATIENCE);
}

#[test]
fn a_shell_uses_the_editors_warm_servers() {
    servers(true, 1, 0);
}

#[test]
fn consent_in_a_shell_starts_no_server_for_the_editor() {
    servers(false, 2, 2);
}

/// Covers basedpyright, which did not rename in other files after unsaved text.
///
/// This happened if it did not find the text on the disk.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_real_server_renames_in_unsaved_text() {
    let core = "class Widget:\n    def spin(self) -> int:\n        return 1\n";
    let used = "from core import Widget\n\nWidget().spin()\n";
    let project = "[project]\nname = \"x\"\nversion = \"0\"\n";
    let sandbox = Sandbox::with(&[("pyproject.toml", project), ("core.py", core), ("use.py", used)]);
    let mut editor = Editor::start(&sandbox);
    editor.wait("the question for settings", |editor| !editor.all("workspace/configuration").is_empty());
    let file = uri(&sandbox, "core.py");
    editor.open(&file, "python", core);
    editor.open(&uri(&sandbox, "use.py"), "python", used);
    let ask = json!({"action": "diagnostics", "file": "use.py", "timeout": 120});
    sandbox.tool("lsp", &ask).ok();
    editor.replace(&file, 0..0, "# typed\n");
    editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    let rename = json!({
        "action": "rename", "file": "core.py", "symbol": "Widget.spin", "new_name": "twirl", "apply": false, "timeout": 120,
    });
    let said = sandbox.tool("lsp", &rename);
    let said = said.ok();
    let added: Vec<&str> = said.lines().filter(|line| line.starts_with('+')).collect();
    check_output(
        &added.join("\n"),
        &expect![[r#"
        +++ b/core.py
        +    def twirl(self) -> int:
        +++ b/use.py
        +Widget().twirl()"#]],
    );
    // Unsaved typing breaks the callers of the symbol.
    let from = editor.text(&file).find("spin").expect("it is there");
    editor.replace(&file, from..from + 4, "turn");
    editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    let said = sandbox.tool("lsp", &ask);
    assert!(said.ok().contains("use.py:3: error") && said.ok().contains("spin"), "{}", said.ok());
    editor.shut_down();
}
