//! Commands of a shell: an edit or a rename that starts its servers.

use super::*;

#[test]
fn a_one_shot_edit_with_new_errors_exits_with_1() {
    let mut sandbox = Sandbox::with(&[("a.py", "one = 1\n")]);
    let mut script = script(json!([[full(&[])], [{"delay_ms": 1000}, full(&["two is bad"])]]));
    script["methods"]["textDocument/rename"] = renamed("${root}", "two", &[("a.py", 0, 0..3)]);
    Scripted::install(&mut sandbox, &[script]);
    let ask = json!({"action": "rename", "file": "a.py", "line": 1, "symbol": "one", "new_name": "two"});
    let ran = sandbox.run(&["tool", "--yes", "lsp", &ask.to_string()]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    check_output(
        &ran.stdout,
        &expect![[r#"
        rename one to two: 1 place in 1 file (basedpyright)
          a.py: 1
        note: more methods named `one` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
        introduced: 1 error, 0 warnings
          a.py:1: error: two is bad [E1] (basedpyright)
    "#]],
    );
    check_output(
        &ran.stderr,
        &expect![[r#"
        pilcrow: the edit introduced errors; `pilcrow undo` reverts it
    "#]],
    );
    assert_eq!(sandbox.read("a.py"), "two = 1\n", "the edit is made");
}

#[test]
fn a_one_shot_edit_without_a_server_is_not_checked() {
    let mut sandbox = Sandbox::with(&[("a.py", "one = 1\n"), ("b.txt", "one\n")]);
    let scripted = Scripted::install(&mut sandbox, &[about()]);
    let edit = |path: &str| {
        let edit = json!({"path": path, "old_string": "one", "new_string": "two"});
        sandbox.run(&["tool", "read", &json!({"path": path}).to_string()]).expect(0);
        sandbox.run(&["tool", "--yes", "edit", &edit.to_string()]).expect(0).stdout
    };
    let said = edit("a.py") + &edit("b.txt");
    check_output(
        &said,
        &expect![[r#"
        [a.py#100C]
        1yo	two = 1
        not checked (no language server of the project's root runs)
        [b.txt#959C]
        1eg	two
    "#]],
    );
    assert_eq!(scripted.got("initialize"), 0, "the call ends sooner");
}

/// The rename also changes a file of a package whose server does not run.
#[test]
fn a_one_shot_rename_starts_the_servers_of_its_files() {
    let (mut sandbox, scripted) = two_packages();
    let project = format!("file://{}", sandbox.project().display());
    let mut script = about();
    let places = [("app/main.py", 0, 0..5), ("lib/a.py", 0, 4..9), ("lib/user.py", 0, 0..5)];
    script["methods"]["textDocument/rename"] = renamed(&project, "hail", &places);
    drop(scripted);
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let run = |args: &[&str]| {
        let ran = sandbox.run(args);
        format!("exit status {:?}\n{}{}", ran.status.code(), ran.stdout, ran.stderr)
    };
    let said = run(&["rename", "greet", "hail", "--in", "lib/a.py:1", "--yes", "--wait", "60s"]);
    check_output(
        &said,
        &expect![[r#"
        exit status Some(0)
        rename greet to hail: 3 places in 3 files (basedpyright)
          app/main.py: 1
          lib/a.py: 1
          lib/user.py: 1
        note: more methods named `greet` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
        1 other occurrence of `greet` left unchanged (comments, strings, other symbols).
          in 1 unchanged file: app/notes.md
        No new problems (3 changed files checked).
    "#]],
    );
    assert_eq!(scripted.got("initialize"), 2);
    // An undo restores an earlier text, and starts no server.
    check_output(
        &run(&["undo"]),
        &expect![[r#"
        exit status Some(0)
        undo: rename greet to hail
          app/main.py
          lib/a.py
          lib/user.py
    "#]],
    );
    check_output(
        &run(&["redo"]),
        &expect![[r#"
        exit status Some(0)
        redo: rename greet to hail
          app/main.py
          lib/a.py
          lib/user.py
    "#]],
    );
    check_output(
        &run(&["run", "--yes", "undo"]),
        &expect![[r#"
        exit status Some(0)
        undo: rename greet to hail
          app/main.py
          lib/a.py
          lib/user.py
        · undo 
    "#]],
    );
    assert_eq!(scripted.got("initialize"), 2);
    // A request in words waits too.
    check_output(
        &run(&["run", "--yes", "--wait", "60s", "rename greet to hail in lib/a.py:1"]),
        &expect![[r#"
            exit status Some(0)
            rename greet to hail: 3 places in 3 files (basedpyright)
              app/main.py: 1
              lib/a.py: 1
              lib/user.py: 1
            note: more methods named `greet` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
            1 other occurrence of `greet` left unchanged (comments, strings, other symbols).
              in 1 unchanged file: app/notes.md
            No new problems (3 changed files checked).
            · lsp action=rename symbol=greet new_name=hail file=lib/a.py line=1
        "#]],
    );
}

/// A command that changes `a.py` and `b.py` in two edits, which affect a third
/// file.
fn command() -> (Sandbox, Scripted) {
    let place =
        |line: u32| json!({"start": {"line": line, "character": 0}, "end": {"line": line, "character": 1}});
    let edit = |file: &str, text: &str| {
        let edits = json!([{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}, "newText": text}]);
        json!({"changes": {format!("${{root}}/{file}"): edits}})
    };
    let asks = |id: &str, edit: Value, count: u32| {
        json!([
            {"request": {"id": id, "method": "workspace/applyEdit", "params": {"edit": edit}}},
            {"wait_for": {"method": "response", "count": count}},
        ])
    };
    let mut steps = Vec::new();
    for part in
        [asks("1", edit("a.py", "def hello():\n"), 1), asks("2", edit("b.py", "from a import hello\n"), 2)]
    {
        steps.extend(part.as_array().expect("steps").clone());
    }
    steps.push(json!({"result": null}));
    // Each text gets a diagnostic with its own content.
    let items = json!([{"range": place(0), "severity": 1, "message": "about ${text}", "code": "E1"}]);
    let mut sandbox = Sandbox::with(&[
        ("a.py", "def greet():\n    return 1\n"),
        ("b.py", "from a import greet\n"),
        ("c.py", "import a\na.greet()\n"),
    ]);
    let scripted = Scripted::install(
        &mut sandbox,
        &[json!({
            "capabilities": {"codeActionProvider": true, "executeCommandProvider": {"commands": ["x.go"]}},
            "methods": {
                "textDocument/documentSymbol": [[{"result": []}]],
                "textDocument/codeAction": [[{"result": [{"title": "Go", "command": "x.go", "arguments": []}]}]],
                "textDocument/diagnostic": [[{"result": {"kind": "full", "items": items}}]],
                "workspace/executeCommand": [steps],
            },
        })],
    );
    (sandbox, scripted)
}

#[test]
fn command_edits_report_errors_in_all_affected_files() {
    let (sandbox, _) = command();
    let mut batch = Batch::start(&sandbox);
    let ask = json!({"action": "code_actions", "file": "a.py", "title": "Go", "apply": true});
    let answer = batch.call("lsp", &ask);
    let said = answer.ok();
    assert_eq!(sandbox.read("b.py"), "from a import hello\n");
    check_output(
        &said,
        &expect![[r#"
            Go: +1 -1 lines in 1 file
              a.py
            Go: +1 -1 lines in 1 file
              b.py
            3 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before
              a.py:1: error: about def hello():
                return 1 [E1] (basedpyright)
              b.py:1: error: about from a import hello [E1] (basedpyright)
              c.py:1: error: about import a
                a.greet() [E1] (basedpyright)
        "#]],
    );
}

#[test]
fn command_edits_report_servers_without_a_preview() {
    let (mut sandbox, _) = command();
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    let mut batch = Batch::start(&sandbox);
    let ask = json!({"action": "code_actions", "file": "a.py", "title": "Go", "apply": true});
    let answer = batch.call("lsp", &ask);
    let said = answer.ok();
    let why = "not tried on basedpyright: it is running a command";
    assert_eq!(said.matches(why).count(), 2, "{said}");
    let tried = &answer.value["details"]["commits"][0]["diagnostics"]["tried"]["not_tried"][0]["server"];
    assert_eq!(tried, "basedpyright", "{:#}", answer.value);
}
