//! Fixes: only preferred ones, each previewed before it is applied.
//!
//! Also the code actions that the editor gets from memory.

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox, Scripted, check_output};

const FILE: &str = "import os\nx = y\n";

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}

fn wrong(line: u32, message: &str) -> Value {
    json!({"range": range(line, 0, 5), "severity": 1, "code": "E1", "message": message})
}

fn report(items: &[Value]) -> Value {
    json!([{"result": {"kind": "full", "items": items}}])
}

fn fix(title: &str, preferred: bool, line: u32, length: u32, new: &str) -> Value {
    json!([{"result": [{"title": title, "kind": "quickfix", "isPreferred": preferred,
        "edit": {"changes": {"${root}/a.py": [{"range": range(line, 0, length), "newText": new}]}}}]}])
}

fn project(diagnostics: Value, actions: Value) -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", FILE)]);
    let script = json!({
        "capabilities": {"codeActionProvider": true},
        "methods": {"textDocument/diagnostic": diagnostics, "textDocument/codeAction": actions},
    });
    let scripted = Scripted::install(&mut sandbox, &[script]);
    (sandbox, scripted)
}

#[test]
fn a_fix_is_kept_only_if_it_solves_its_problem() {
    let (first, second, new) =
        (wrong(0, "unused"), wrong(1, "y is not defined"), wrong(1, "broken by the fix"));
    let diagnostics = json!([
        report(&[first.clone(), second.clone()]),
        // The previews are both fixes together, the first alone, the second alone: the second
        // breaks the file.
        report(std::slice::from_ref(&new)),
        report(&[
            json!({"range": range(0, 0, 5), "severity": 1, "code": "E1", "message": "y is not defined"})
        ]),
        report(std::slice::from_ref(&new)),
        // These are the requests before and after the edit that is made.
        report(&[first, second]),
        report(&[
            json!({"range": range(0, 0, 5), "severity": 1, "code": "E1", "message": "y is not defined"})
        ]),
    ]);
    let remove = || fix("Remove import", true, 0, 10, "");
    let define = |line| fix("Define y", true, line, 5, "y = x");
    let mut whole_line = remove();
    whole_line[0]["result"][0]["edit"]["changes"]["${root}/a.py"][0]["range"] =
        json!({"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}});
    let actions = json!([whole_line, define(1), whole_line, define(0)]);
    let (sandbox, scripted) = project(diagnostics, actions);
    let answer = sandbox.tool("lsp", &json!({"action": "fix_all", "file": "a.py", "kind": "E1"}));
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
            fix all of E1: fixed 1, left 1, reverted 1
            fix all of E1: +0 -1 lines in 1 file (basedpyright)
              a.py: changed
            No new problems (1 changed file checked).
            fixed: 1
              a.py:1: error: unused [E1] (basedpyright)
              left: a.py:1: error: y is not defined [E1] (basedpyright)
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = y\n", "one fix was made, the other was not");
    let shown: Vec<Value> = scripted
        .sent("textDocument/didChange")
        .iter()
        .map(|it| it["contentChanges"][0]["text"].clone())
        .collect();
    assert!(shown.contains(&json!("y = x\n")), "the bad fix was tried: {shown:?}");
    assert_eq!(shown.last(), Some(&json!("x = y\n")), "and the server has the current text");
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.read("a.py"), FILE);
}

#[test]
fn suppressions_and_unpreferred_fixes_are_skipped() {
    for (action, what) in [
        (fix("Add noqa", true, 0, 9, "import os  # noqa"), "writes a comment that silences"),
        (fix("Ignore this", true, 0, 9, "import os2"), "is called so"),
        (fix("Remove import", false, 0, 9, "x = 1"), "the server is not sure"),
        (
            json!([{"result": [{"title": "Run", "kind": "quickfix", "isPreferred": true, "command": {"title": "x", "command": "x"}}]}]),
            "is a command",
        ),
    ] {
        let (sandbox, _) = project(json!([report(&[wrong(0, "unused")])]), json!([action]));
        let said = sandbox.tool("lsp", &json!({"action": "fix_all", "file": "a.py", "kind": "E1"})).ok();
        assert!(said.starts_with("fix all of E1: fixed 0, left 1, reverted 0\n"), "{what}: {said}");
        assert_eq!(sandbox.read("a.py"), FILE, "{what}");
    }
    // The diagnostics never arrive: unknown is not clean, and no fix is applied.
    let (sandbox, scripted) = project(json!([["never"]]), json!([]));
    let said = sandbox.tool("lsp", &json!({"action": "fix_all", "file": "a.py", "timeout": 1})).ok();
    check_output(
        &said,
        &expect![[r#"
        fix all: fixed 0, left 0, reverted 0
        diagnostics unknown, so no fix was tried:
          a.py: diagnostics are pending from basedpyright
    "#]],
    );
    assert_eq!(scripted.got("textDocument/codeAction"), 0);
}

#[test]
fn source_fix_all_is_applied_and_planned_from_a_prompt() {
    let actions = json!([
        [{"result": [{"title": "Fix all", "kind": "source.fixAll.x",
            "edit": {"changes": {"${root}/a.py": [{"range": range(0, 0, 9), "newText": "y = 1"}]}}}]}],
        [{"result": []}],
    ]);
    let both = [wrong(0, "unused"), wrong(1, "y is not defined")];
    // The fix is tried first; then the command asks for the problems before and after its edit.
    let diagnostics = json!([report(&both), report(&[]), report(&both), report(&[])]);
    let (sandbox, scripted) = project(diagnostics, actions);
    let said = sandbox.run(&["run", "fix all diagnostics in a.py", "--yes"]).expect(0).stdout;
    check_output(
        &said,
        &expect![[r#"
            fix all: fixed 2, left 0, reverted 0
            fix all: +1 -1 lines in 1 file (basedpyright)
              a.py: changed
            No new problems (1 changed file checked).
            fixed: 2
              a.py:1: error: unused [E1] (basedpyright)
              a.py:2: error: y is not defined [E1] (basedpyright)
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "y = 1\nx = y\n");
    assert_eq!(scripted.sent("textDocument/codeAction")[0]["context"]["only"], json!(["source.fixAll"]));
}

#[test]
fn a_preview_of_fixes_changes_nothing() {
    let actions = json!([fix("Fix", true, 0, 9, "y = 1")]);
    let diagnostics = json!([report(&[wrong(0, "unused")]), report(&[])]);
    let (sandbox, _) = project(diagnostics, actions);
    let ask = json!({"action": "fix_all", "file": "a.py", "kind": "errors", "apply": false});
    let said = sandbox.tool("lsp", &ask).ok();
    check_output(
        &said,
        &expect![[r#"
        fix all of errors: fixed 1, left 0, reverted 0
        not applied: fix all of errors: +1 -1 lines in 1 file (basedpyright)
          a.py: changed
        --- a/a.py
        +++ b/a.py
        @@ -1,2 +1,2 @@
        -import os
        +y = 1
         x = y
    "#]],
    );
    assert_eq!(sandbox.read("a.py"), FILE);
}

#[test]
fn cached_fixes_are_offered_while_the_server_hangs() {
    let mut sandbox = Sandbox::with(&[("a.py", FILE)]);
    let scripted = Scripted::install(
        &mut sandbox,
        &[json!({"methods": {"initialize": [["never"]]}}), json!({"methods": {}})],
    );
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", FILE);
    let known = json!({"range": range(0, 7, 9), "code": "F401", "source": "ruff", "message": "`os` imported but unused"});
    let ask =
        json!({"textDocument": {"uri": file}, "range": range(0, 7, 7), "context": {"diagnostics": [known]}});
    let mut best = Duration::MAX;
    let mut actions = Value::Null;
    for _ in 0..20 {
        let started = Instant::now();
        actions = editor.request("textDocument/codeAction", ask.clone())["result"].clone();
        best = best.min(started.elapsed());
    }
    let found = |kind: &str| {
        let all = actions.as_array().expect("a list");
        all.iter().find(|it| it["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {actions:#}")).clone()
    };
    let fix = found("quickfix.pilcrow.fix");
    assert_eq!(fix["title"], "Fix this: `os` imported but unused");
    assert_eq!(
        fix["command"]["arguments"][0],
        json!({"kind": "fix", "uri": file, "range": range(0, 7, 9), "code": "F401"})
    );
    assert_eq!(found("quickfix.pilcrow.fixAll")["title"], "Fix all F401 in this file");
    assert_eq!(scripted.got("initialize"), 0, "no server was started for a list");
    assert!(best < Duration::from_millis(20), "a list from memory took {best:?} at best");
    // Pilcrow offers no action where no problem is known, and none as preferred: editors may run
    // preferred actions on save.
    let quiet =
        json!({"textDocument": {"uri": file}, "range": range(0, 7, 7), "context": {"diagnostics": []}});
    let actions = editor.request("textDocument/codeAction", quiet)["result"].clone();
    assert!(!actions.to_string().contains("quickfix.pilcrow"), "{actions:#}");
    assert!(fix.get("isPreferred").is_none());
}

#[test]
fn a_fix_chosen_in_the_editor_edits_its_buffer() {
    let diagnostics =
        json!([report(&[wrong(0, "unused")]), report(&[]), report(&[wrong(0, "unused")]), report(&[])]);
    let (sandbox, _) = project(diagnostics, json!([fix("Fix", true, 0, 9, "y = 1")]));
    let mut editor = Editor::start(&sandbox);
    editor.answers.push_back(Some("Allow"));
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", FILE);
    let argument = json!({"kind": "fix", "uri": file, "range": range(0, 0, 5), "code": "E1"});
    let session = editor.run("pilcrow.refactor", argument);
    let end = editor.ended(&session);
    assert_eq!(editor.text(&file), "y = 1\nx = y\n", "{end}");
    assert_eq!(sandbox.read("a.py"), FILE, "no file is saved");
}

#[test]
fn only_the_chosen_problem_of_a_line_is_fixed() {
    let other = json!({"range": range(0, 7, 9), "severity": 1, "code": "E1", "message": "another"});
    let both = [wrong(0, "unused"), other.clone()];
    let diagnostics =
        json!([report(&both), report(std::slice::from_ref(&other)), report(&both), report(&[other])]);
    let (sandbox, scripted) = project(diagnostics, json!([fix("Fix", true, 0, 6, "export")]));
    let mut editor = Editor::start(&sandbox);
    editor.answers.push_back(Some("Allow"));
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", FILE);
    let argument = json!({"kind": "fix", "uri": file, "range": range(0, 0, 5), "code": "E1"});
    let session = editor.run("pilcrow.refactor", argument);
    let end = editor.ended(&session);
    assert_eq!(editor.text(&file), "export os\nx = y\n", "{end}");
    let about: Vec<Value> = scripted.sent("textDocument/codeAction");
    let about: Vec<&Value> = about.iter().map(|asked| &asked["context"]["diagnostics"]).collect();
    assert!(about.iter().all(|it| it[0]["message"] == "unused"), "{about:#?}");
}
