//! Errors that an edit introduces or fixes in other files.
//!
//! These files use the changed names and are not open.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, Scripted, check_output, line_with};

fn lsp(action: &str, file: &str, symbol: &str) -> Value {
    json!({"action": action, "file": file, "symbol": symbol, "timeout": 120})
}

/// Replaces a whole file after a read; returns the result's text.
#[track_caller]
fn replace(batch: &mut Batch, file: &str, text: &str) -> String {
    batch.call("read", &json!({"path": file})).ok();
    let args = json!({"path": file, "content": text, "overwrite": true});
    batch.call("write", &args).ok().to_owned()
}

fn script(diagnostics: Value) -> Value {
    json!({"methods": {
        "textDocument/documentSymbol": [[{"result": []}]],
        "textDocument/diagnostic": diagnostics,
    }})
}

/// The answer to a rename: the name at each file, line and columns below `root`.
fn renamed(root: &str, name: &str, places: &[(&str, u32, Range<u32>)]) -> Value {
    let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (file, line, columns) in places {
        let [start, end] = [columns.start, columns.end].map(|it| json!({"line": line, "character": it}));
        let edit = json!({"range": {"start": start, "end": end}, "newText": name});
        changes.entry(format!("{root}/{file}")).or_default().push(edit);
    }
    json!([[{"result": {"changes": changes}}]])
}

#[test]
fn dependents_are_opened_closed_and_bounded() {
    let mut sandbox = Sandbox::with(&[
        ("a.py", "def greet():\n    return 1\n\n\ndef other():\n    return 2\n"),
        ("unconcerned.py", "other\n"),
    ]);
    for number in 0..25 {
        sandbox.write(&format!("user{number}.py"), "greet\n");
    }
    let clean = json!([[{"result": {"kind": "full", "items": []}}]]);
    let scripted = Scripted::install(&mut sandbox, &[script(clean)]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let text = "def greet():\n    return 3\n\n\ndef other():\n    return 2\n";
    let said = replace(&mut batch, "a.py", text);
    check_output(
        &said,
        &expect![[r#"
            [a.py#87A1]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            Not checked: 5 of 26 files. No problems in the 21 checked.
        "#]],
    );
    let uris = |method: &str| -> Vec<String> {
        let sent = scripted.sent(method).into_iter();
        sent.map(|params| params["textDocument"]["uri"].as_str().unwrap().to_owned()).collect()
    };
    let opened = uris("textDocument/didOpen");
    let users = opened.iter().filter(|uri| uri.contains("user")).count();
    assert_eq!((users, opened.len()), (20, 21), "{opened:?}");
    // Notifications may arrive later: the answer does not wait for the server to read them.
    tests::wait_for(Duration::from_secs(60), || scripted.got("textDocument/didClose") >= 20);
    let closed = uris("textDocument/didClose");
    assert!(closed.len() == 20 && closed.iter().all(|uri| uri.contains("user")), "{closed:?}");
}

/// An override is two imports away: it names neither the method nor its class.
#[test]
fn files_that_declare_the_new_name_are_checked() {
    let mut sandbox = Sandbox::with(&[
        ("base.py", "class Base:\n    def run(self): ...\n"),
        ("mid.py", "from base import Base\n\n\nclass Mid(Base): ...\n"),
        ("leaf.py", "from mid import Mid\n\n\nclass Leaf(Mid):\n    def go(self, a): ...\n"),
        ("other.py", "def f(x):\n    x.go()\n"),
    ]);
    let mut script = script(json!([[full(&[])]]));
    script["methods"]["textDocument/rename"] = renamed("${root}", "go", &[("base.py", 1, 8..11)]);
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let ran = sandbox.run(&["rename", "run", "go", "--in", "base.py:2", "--yes", "--wait", "60s"]);
    check_output(
        line_with(&ran.stdout, "No new problems"),
        &expect!["No new problems (1 changed file, 2 dependents checked)."],
    );
    let sent = scripted.sent("textDocument/diagnostic").into_iter();
    let asked: Vec<String> = sent
        .map(|params| params["textDocument"]["uri"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(asked.iter().filter(|file| *file == "leaf.py").count(), 2, "before and after: {asked:?}");
}

#[test]
fn files_without_an_answer_leave_no_verdict_on_the_rest() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet():\n    return 1\n")]);
    for number in 0..25 {
        sandbox.write(&format!("user{number}.py"), "greet\n");
    }
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "2s".to_owned());
    Scripted::install(&mut sandbox, &[script(json!([[full(&[])], [full(&[])], ["never"]]))]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    check_output(
        &replace(&mut batch, "a.py", "def greet():\n    return 3\n"),
        &expect![[r#"
        [a.py#E2D7]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        not checked yet by basedpyright: it has not reported on 19 files
        Not checked: 5 of 26 files.
    "#]],
    );
}

/// A session checks a part of them.
#[test]
fn a_command_checks_all_dependents_while_time_is_left() {
    let mut sandbox = Sandbox::with(&[("base.py", "class Base:\n    def run(self): ...\n")]);
    for number in 0..61 {
        sandbox.write(&format!("s{number:02}.py"), "from base import Base\n\n\nclass S(Base): ...\n");
    }
    let mut script = script(json!([[full(&[])]]));
    script["methods"]["textDocument/rename"] = renamed("${root}", "go", &[("base.py", 1, 8..11)]);
    Scripted::install(&mut sandbox, &[script]);
    let ran = sandbox.run(&["rename", "run", "go", "--in", "base.py:2", "--yes", "--wait", "60s"]);
    check_output(
        line_with(&ran.stdout, "No new problems"),
        &expect!["No new problems (1 changed file, 61 dependents checked)."],
    );
}

#[test]
fn importers_of_a_moved_file_are_checked() {
    let files = [("a.py", "def greet(): ...\n"), ("user.py", "import a\n"), ("other.py", "b = 'a'\n")];
    let mut sandbox = Sandbox::with(&files);
    let clean = json!([[{"result": {"kind": "full", "items": []}}]]);
    Scripted::install(&mut sandbox, &[script(clean)]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let moved = batch.call("lsp", &json!({"action": "rename_file", "file": "a.py", "to": "c.py"}));
    let said = moved.ok();
    check_output(
        line_with(&said, "No new problems"),
        &expect!["No new problems (1 changed file, 1 dependent checked)."],
    );
}

/// Uses a pushing server that reports nothing of one file and two of another.
#[test]
fn partial_results_are_reported_per_file() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet():\n    return 1\n")]);
    for number in 0..12 {
        sandbox.write(&format!("user{number:02}.py"), "greet\n");
    }
    let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let item = |message: &str| json!({"range": place, "severity": 1, "message": message});
    let publish = |items: Vec<Value>| {
        let params =
            json!({"uri": "${params.textDocument.uri}", "version": "${version}", "diagnostics": items});
        json!([{"notify": {"method": "textDocument/publishDiagnostics", "params": params}}])
    };
    // The server receives the file itself, then the others after the edit.
    let mut opened = vec![publish(vec![]), json!([]), publish(vec![item("it is bad"), item("it is worse")])];
    opened.extend((0..10).map(|_| publish(vec![])));
    let script = json!({
        "capabilities": {"diagnosticProvider": null},
        "methods": {
            "textDocument/documentSymbol": [[{"result": []}]],
            "textDocument/didOpen": opened,
            "textDocument/didChange": [publish(vec![])],
        },
    });
    Scripted::install(&mut sandbox, &[script]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "5s".to_owned());
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let said = replace(&mut batch, "a.py", "def greet():\n    return 3\n");
    check_output(
        &said,
        &expect![[r#"
            [a.py#E2D7]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            2 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before
              user01.py:1: error: it is bad (basedpyright)
              user01.py:1: error: it is worse (basedpyright)
            basedpyright has not reported on 1 file yet.
        "#]],
    );
}

/// Replies with these diagnostics, each with the code `E1`.
fn full(messages: &[&str]) -> Value {
    let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let item = |message: &&str| json!({"range": place, "severity": 1, "message": message, "code": "E1"});
    json!({"result": {"kind": "full", "items": messages.iter().map(item).collect::<Vec<_>>()}})
}

#[test]
fn late_diagnostics_come_with_the_next_result() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "300ms".to_owned());
    let script =
        script(json!([[{"delay_ms": 2000}, full(&["x is bad"])], [full(&["x is bad", "x is worse"])]]));
    Scripted::install(&mut sandbox, &[script]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let started = std::time::Instant::now();
    let said = replace(&mut batch, "a.py", "x = 3\n");
    assert!(started.elapsed() < Duration::from_secs(2), "an edit is not held up");
    check_output(
        &said,
        &expect![[r#"
        [a.py#C952]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        not checked yet by basedpyright: it has not reported on 1 file
    "#]],
    );
    let mut said = String::new();
    tests::wait_for(Duration::from_secs(60), || {
        said = batch.call("read", &json!({"path": "a.py"})).ok();
        said.contains("later, of")
    });
    check_output(
        &said,
        &expect![[r#"
        [a.py#C952]
        1nx:x = 3

        later, of write a.py:
        1 error, 0 warnings now; not known which are new: basedpyright had not checked the text before
          a.py:1: error: x is bad [E1] (basedpyright)
    "#]],
    );
    let said = batch.call("read", &json!({"path": "a.py"})).ok();
    assert!(!said.contains("later, of"), "it is reported once: {said}");
    // The late answer is the baseline of the next edit.
    let said = replace(&mut batch, "a.py", "x = 4\n");
    check_output(
        &said,
        &expect![[r#"
        [a.py#8776]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        introduced: 1 error, 0 warnings
          a.py:1: error: x is worse [E1] (basedpyright)
    "#]],
    );
}

#[test]
fn without_a_baseline_problems_are_only_counted() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
    let turns = json!([[full(&["x is bad"])], [full(&["x is worse"])]]);
    let scripted = Scripted::install(&mut sandbox, &[script(turns)]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let said = replace(&mut batch, "a.py", "x = 2\n");
    check_output(
        &said,
        &expect![[r#"
        [a.py#013C]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        1 error, 0 warnings now; not known which are new: basedpyright had not checked the text before
          a.py:1: error: x is bad [E1] (basedpyright)
    "#]],
    );
    assert_eq!(scripted.got("textDocument/diagnostic"), 1, "the text before is not asked about");
    let said = replace(&mut batch, "a.py", "x = 3\n");
    check_output(
        &said,
        &expect![[r#"
        [a.py#C952]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        introduced: 1 error, 0 warnings
          a.py:1: error: x is worse [E1] (basedpyright)
        fixed: 1
          a.py:1: error: x is bad [E1] (basedpyright)
    "#]],
    );
}

/// A compiler that stops at an error omits warnings.
#[test]
fn warnings_that_vanish_beside_a_new_error_are_not_fixed() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
    let mut before = full(&["x is odd"]);
    before["result"]["items"][0]["severity"] = json!(2);
    Scripted::install(&mut sandbox, &[script(json!([[before], [full(&["x is bad"])], [full(&[])]]))]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "diagnostics", "file": "a.py"})).ok();
    let said = replace(&mut batch, "a.py", "x = 2\n");
    check_output(
        &said,
        &expect![[r#"
        [a.py#013C]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        introduced: 1 error, 0 warnings
          a.py:1: error: x is bad [E1] (basedpyright)
    "#]],
    );
    let said = replace(&mut batch, "a.py", "x = 3\n");
    check_output(
        &said,
        &expect![[r#"
        [a.py#C952]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        No new problems (1 changed file checked).
        fixed: 1
          a.py:1: error: x is bad [E1] (basedpyright)
    "#]],
    );
}

#[test]
fn an_edit_takes_over_pending_diagnostics() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n"), ("b.py", "y = 1\n")]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "1s".to_owned());
    let turns = json!([["never"], [full(&[])], [full(&["x is bad"])]]);
    Scripted::install(&mut sandbox, &[script(turns)]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let said = replace(&mut batch, "a.py", "x = 2\n");
    check_output(
        &said,
        &expect![[r#"
        [a.py#013C]
        write a.py: +1 -1 lines in 1 file
          a.py: changed
        not checked yet by basedpyright: it has not reported on 1 file
    "#]],
    );
    let said = replace(&mut batch, "b.py", "y = 2\n");
    check_output(
        &said,
        &expect![[r#"
        [b.py#8A59]
        write b.py: +1 -1 lines in 1 file
          b.py: changed
        1 error, 0 warnings now; not known which are new: basedpyright had not checked the text before
          a.py:1: error: x is bad [E1] (basedpyright)
    "#]],
    );
}

/// Covers a silent or missing server of the language's types, next to a linter.
#[test]
fn a_linter_alone_gives_no_verdict() {
    for installed in [true, false] {
        let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n"), ("ruff.toml", "")]);
        sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "2s".to_owned());
        if installed {
            Scripted::install(&mut sandbox, &[script(json!([["never"]]))]);
        }
        Scripted::install_linter(&mut sandbox, &[script(json!([[full(&[])]]))]);
        let mut batch = Batch::start(&sandbox);
        batch.call("lsp", &json!({"action": "diagnostics", "file": "a.py", "timeout": 2}));
        let said = replace(&mut batch, "a.py", "x = 2\n");
        let expected = match installed {
            true => expect![[r#"
                [a.py#013C]
                write a.py: +1 -1 lines in 1 file
                  a.py: changed
                not checked yet by basedpyright: it has not reported on 1 file
            "#]],
            false => expect![[r#"
                [a.py#013C]
                write a.py: +1 -1 lines in 1 file
                  a.py: changed
                not checked by basedpyright: a.py (it is not installed)
            "#]],
        };
        check_output(&said, &expected);
    }
}

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

/// Previews `x = 1` becoming `x = 2`, in which the server finds a new error.
fn tried_with(policy: &str) -> (Sandbox, Scripted, Batch) {
    let (sandbox, scripted, mut batch) = cold_with(policy, 1);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    (sandbox, scripted, batch)
}

/// Does the same before a server runs, with this many requests about the old text.
fn cold_with(policy: &str, before: usize) -> (Sandbox, Scripted, Batch) {
    cold_loading(policy, before, None)
}

/// Does the same with the server's reaction to `initialized`.
///
/// Without a reaction, the server has loaded at once.
fn cold_loading(policy: &str, before: usize, loads: Option<Value>) -> (Sandbox, Scripted, Batch) {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
    let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let broken = json!({"range": place, "severity": 1, "message": "x is bad", "code": "E1"});
    let full = |items: Value| json!([{"result": {"kind": "full", "items": items}}]);
    let mut turns = vec![full(json!([])); before];
    turns.push(full(json!([broken])));
    let mut script = script(json!(turns));
    if let Some(loads) = loads {
        script["methods"]["initialized"] = loads;
    }
    let scripted = Scripted::install(&mut sandbox, &[script]);
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), policy.to_owned());
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "use".to_owned());
    let batch = match policy {
        "ask" => {
            std::fs::create_dir_all(sandbox.home().join("config")).expect("the configuration's folder");
            let rules = "[policy]\nrules = [\"allow write\"]\n";
            std::fs::write(sandbox.home().join("config/config.toml"), rules).expect("the configuration");
            sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
            Batch::start_without_yes(&sandbox)
        }
        _ => Batch::start(&sandbox),
    };
    (sandbox, scripted, batch)
}

#[test]
fn a_preview_without_a_server_is_skipped_or_starts_it() {
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let (sandbox, _, mut batch) = cold_with("report", 1);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let said = batch.call("write", &edit).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
            [a.py#013C]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            not tried: no language server of a.py runs yet
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 2\n");
    let (sandbox, _, mut batch) = cold_with("no_new_errors", 2);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let said = batch.call("write", &edit).fails("not_applied").to_owned();
    check_output(
        &said,
        &expect![[r#"
            not applied, nothing was written: it would bring new errors
            previewed before the edit:
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)"#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 1\n");
    // A new file with errors is not created either.
    let (sandbox, _, mut batch) = cold_with("no_new_errors", 0);
    let made = json!({"path": "new.py", "content": "x = 2\n"});
    let said = batch.call("write", &made).fails("not_applied").to_owned();
    check_output(
        &said,
        &expect![[r#"
            not applied, nothing was written: it would bring new errors
            previewed before the edit:
            introduced: 1 error, 0 warnings
              new.py:1: error: x is bad [E1] (basedpyright)
            not tried on basedpyright: it searches new.py on disk, so files that may use them were not checked"#]],
    );
    assert!(!sandbox.project().join("new.py").exists());
}

#[test]
fn no_new_errors_waits_for_a_loading_server() {
    let loads = json!([[
        {"delay_ms": 3000},
        {"notify": {"method": "window/logMessage", "params": {"type": 3, "message": "Found 1 source file"}}},
    ]]);
    let (sandbox, _, mut batch) = cold_loading("no_new_errors", 1, Some(loads));
    let symbols = json!({"action": "symbols", "file": "a.py", "timeout": 1});
    batch.call("lsp", &symbols);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let said = batch.call("write", &edit).fails("not_applied").to_owned();
    check_output(
        &said,
        &expect![[r#"
            not applied, nothing was written: it would bring new errors
            previewed before the edit:
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)"#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 1\n");
}

#[test]
fn an_error_naming_a_renamed_symbol_is_unchanged() {
    let mut sandbox = Sandbox::with(&[("a.py", "def spin(): ...\nspin(1)\n")]);
    let range = |line: u32, from: u32, to: u32| json!({"start": {"line": line, "character": from}, "end": {"line": line, "character": to}});
    let item = |to: u32, name: &str| json!([{"range": range(1, 0, to), "severity": 1, "code": "E1", "message": format!("{name} takes no argument")}]);
    let full = |items: Value| json!([{"result": {"kind": "full", "items": items}}]);
    let places = [("a.py", 0, 4..8), ("a.py", 1, 0..4)];
    let place = range(0, 4, 8);
    let script = json!({"methods": {
        "textDocument/documentSymbol": [[{"result": [{"name": "spin", "kind": 12, "range": place, "selectionRange": place}]}]],
        "textDocument/rename": renamed("${root}", "twirl", &places),
        "textDocument/diagnostic": [full(item(7, "spin")), full(item(8, "twirl"))],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let said = sandbox
        .tool("lsp", &json!({"action": "rename", "file": "a.py", "symbol": "spin", "new_name": "twirl"}));
    let said = said.ok();
    check_output(
        &said,
        &expect![[r#"
            rename spin to twirl: 2 places in 1 file (basedpyright)
              a.py: 2
            note: more methods named `spin` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
            No new problems (1 changed file checked).
        "#]],
    );
}

#[test]
fn the_policy_reports_asks_about_or_refuses_errors() {
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let (sandbox, _, mut batch) = tried_with("report");
    let said = batch.call("write", &edit).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
            [a.py#013C]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            previewed before the edit:
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 2\n");
    for (policy, code, expected) in [
        (
            "no_new_errors",
            "not_applied",
            expect![[r#"
                not applied, nothing was written: it would bring new errors
                previewed before the edit:
                introduced: 1 error, 0 warnings
                  a.py:1: error: x is bad [E1] (basedpyright)"#]],
        ),
        (
            "ask",
            "denied",
            expect![
                "write: to be confirmed: language servers find new errors: a.py:1: error: x is bad [E1] (basedpyright), and there is no user to ask: look at the change with apply: false, then repeat with --yes"
            ],
        ),
    ] {
        let (sandbox, scripted, mut batch) = tried_with(policy);
        let answer = batch.call("write", &edit);
        let said = answer.fails(code);
        check_output(&said, &expected);
        assert_eq!(sandbox.read("a.py"), "x = 1\n");
        // A notification reverts it; the answer does not wait for the server to read it.
        tests::wait_for(Duration::from_secs(20), || scripted.got("textDocument/didChange") >= 2);
        let texts: Vec<Value> = scripted.sent("textDocument/didChange");
        let texts: Vec<&Value> = texts.iter().map(|sent| &sent["contentChanges"][0]["text"]).collect();
        assert_eq!(texts, ["x = 2\n", "x = 1\n"], "shown and reverted");
        assert_eq!(scripted.got("textDocument/didSave"), 0);
    }
}

/// Shows the new errors in every question, whichever rule asks.
///
/// The user has to decide.
#[test]
fn a_denial_without_a_user_names_the_new_errors() {
    let (sandbox, _, mut batch) = tried_with("ask");
    let rules = sandbox.home().join("config/config.toml");
    std::fs::write(rules, "[policy]\nmode = \"prompt\"\n").expect("the configuration");
    drop(batch);
    batch = Batch::start_without_yes(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let said = batch.call("write", &edit).fails("denied").to_owned();
    check_output(
        &said,
        &expect![[
            r#"write: no rule matches, so the user is asked; to be confirmed: language servers find new errors: a.py:1: error: x is bad [E1] (basedpyright), and there is no user to ask: repeat with --yes, or allow it with a rule `allow write …`"#
        ]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 1\n");
}

/// Edits `a.py` while `b.py` uses its name; a preview requests both.
fn tried_in_two(answers: Value) -> (Sandbox, Batch) {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet():\n    return 1\n"), ("b.py", "greet\n")]);
    Scripted::install(&mut sandbox, &[script(answers)]);
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), "no_new_errors".to_owned());
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    (sandbox, batch)
}

/// Turns in which the server answers this many requests and then no more.
///
/// Both files have a baseline.
fn silent_from(turn: usize) -> Value {
    let clean = json!([{"result": {"kind": "full", "items": []}}]);
    let mut turns = vec![clean; turn];
    turns.push(json!(["never"]));
    json!(turns)
}

/// Returns the line after the one that ends so.
#[track_caller]
fn after<'a>(text: &'a str, header: &str) -> &'a str {
    let mut lines = text.lines().skip_while(|line| !line.ends_with(header));
    lines.nth(1).unwrap_or_else(|| panic!("no line follows `{header}`: {text}"))
}

#[test]
fn an_unanswered_preview_is_reported_as_skipped() {
    let (sandbox, mut batch) = tried_in_two(silent_from(2));
    let edit = json!({"path": "a.py", "content": "def greet():\n    return 2\n", "overwrite": true});
    let answer = batch.call("write", &edit);
    let said = answer.ok();
    check_output(
        line_with(&said, "not tried"),
        &expect!["not tried on basedpyright: it did not answer within 5 s"],
    );
    assert!(!said.contains("previewed before the edit") && !said.contains("not compared"), "{said}");
    let not_tried = &answer.value["details"]["diagnostics"]["tried"]["not_tried"][0];
    assert_eq!(
        *not_tried,
        json!({"server": "basedpyright", "why": "it did not answer within 5 s"}),
        "{:#}",
        answer.value
    );
    assert_eq!(sandbox.read("a.py"), "def greet():\n    return 2\n");
}

#[test]
fn a_partly_answered_preview_names_the_missing_file() {
    let (_sandbox, mut batch) = tried_in_two(silent_from(3));
    let edit = json!({"path": "a.py", "content": "def greet():\n    return 2\n", "overwrite": true});
    let said = batch.call("write", &edit).ok().to_owned();
    check_output(
        line_with(&said, "not tried"),
        &expect!["not tried on basedpyright: it did not answer within 5 s, about b.py"],
    );
    check_output(
        after(&said, "previewed before the edit:"),
        &expect!["No new problems (1 changed file checked)."],
    );
}

/// Leaves errors in other files to a tool that runs on save.
///
/// rust-analyzer does this.
#[test]
fn partial_checks_are_not_called_compiled() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet():\n    return 1\n"), ("b.py", "greet\n")]);
    let definition = include_str!("../../adapters/servers/basedpyright.toml");
    let directory = sandbox.home().join("config/adapters/servers");
    std::fs::create_dir_all(&directory).expect("a directory");
    let with = definition.replacen("[diagnostics]\n", "[diagnostics]\non_save = [\"slow\"]\n", 1);
    assert_ne!(definition, with);
    std::fs::write(directory.join("basedpyright.toml"), with).expect("a definition");
    let clean = json!([[{"result": {"kind": "full", "items": []}}]]);
    Scripted::install(&mut sandbox, &[script(clean)]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let said = replace(&mut batch, "a.py", "def greet():\n    return 2\n");
    check_output(
        &said,
        &expect![[r#"
            [a.py#F316]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            not compiled: basedpyright alone found no new problems (1 changed file, 1 dependent checked)
            omitted: slow, which basedpyright only runs when a file is saved
        "#]],
    );
}

#[test]
fn a_new_file_is_previewed_but_a_move_is_not() {
    let (sandbox, _, mut batch) = tried_with("no_new_errors");
    let said = batch.call("write", &json!({"path": "new.py", "content": "x\n"})).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
            [new.py#9396]
            write new.py: +1 -0 lines in 1 file
              new.py: created
            previewed before the edit:
            No new problems (1 changed file checked).
            introduced: 1 error, 0 warnings
              new.py:1: error: x is bad [E1] (basedpyright)
        "#]],
    );
    let moved = batch.call("lsp", &json!({"action": "rename_file", "file": "a.py", "to": "b.py"}));
    let said = moved.text();
    check_output(
        &said,
        &expect![[r#"
            move a.py to b.py: 1 file moved, none edited
              b.py: moved from a.py
            note: no language server follows this file's name: references to it were not updated
            not tried: files are moved or deleted, which cannot be previewed
            No new problems (1 changed file, 1 dependent checked).
        "#]],
    );
    assert_eq!((sandbox.read("new.py").as_str(), sandbox.read("b.py").as_str()), ("x\n", "x = 1\n"));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_real_server_previews_an_error_in_another_file() {
    let before = "def greet(name: str) -> str:\n    return name\n";
    let mut sandbox = Sandbox::with(&[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        ("a.py", before),
        ("b.py", "from a import greet\n\nprint(greet(\"x\"))\n"),
    ]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "60s".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), "no_new_errors".to_owned());
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &lsp("hover", "a.py", "greet")).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    let text = "def greet(name: str, loud: bool) -> str:\n    return name + str(loud)\n";
    let edit = json!({"path": "a.py", "content": text, "overwrite": true});
    check_output(
        &batch.call("write", &edit).fails("not_applied"),
        &expect![[r#"
        not applied, nothing was written: it would bring new errors
        previewed before the edit:
        introduced: 1 error, 0 warnings
          b.py:3: error: Argument missing for parameter "loud" [reportCallIssue] (basedpyright)"#]],
    );
    assert_eq!(sandbox.read("a.py"), before);
    let text = "def greet(name: str, loud: bool = False) -> str:\n    return name + str(loud)\n";
    let edit = json!({"path": "a.py", "content": text, "overwrite": true});
    let answer = batch.call("write", &edit);
    let said = answer.ok();
    assert_eq!(answer.value["details"]["diagnostics"]["tried"]["introduced"], json!([]), "{said}");
    assert_eq!(sandbox.read("a.py"), text);
    let clean = json!({"action": "diagnostics", "file": "b.py", "timeout": 60});
    let said = batch.call("lsp", &clean).ok().to_owned();
    assert!(said.starts_with("0 errors"), "{said}");
}

/// Makes renames that break code which the server does not change.
///
/// The code is an override in tests, an object literal in another package, and a use in a macro.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn renames_that_break_code_are_never_called_clean() {
    const PYTHON: &[(&str, &str)] = &[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        (
            "models.py",
            "from abc import ABC, abstractmethod\n\n\nclass Model(ABC):\n    @abstractmethod\n    def request(self) -> int: ...\n",
        ),
        (
            "tests/test_models.py",
            "from models import Model\n\n\nclass Fake(Model):\n    def request(self) -> int:\n        return 1\n\n\nFake()\n",
        ),
    ];
    const TYPESCRIPT: &[(&str, &str)] = &[
        ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true}}\n"),
        (
            "core/tool.ts",
            "export interface Tool { label: string }\nexport function add(tool: Tool) { return tool.label; }\n",
        ),
        (
            "app/tools.ts",
            "import { add } from '../core/tool';\nconst makers = [(label: string) => ({ label })];\nfor (const make of makers) add(make('x'));\n",
        ),
    ];
    const C: &[(&str, &str)] = &[
        ("compile_flags.txt", "-std=c11\n"),
        ("server.h", "struct object { int refcount; };\n#define retain(o) ((o)->refcount++)\n"),
        ("a.c", "#include \"server.h\"\nvoid use(struct object *o) { retain(o); o->refcount = 2; }\n"),
    ];
    for (files, file, symbol, broken) in [
        (PYTHON, "models.py", "Model.request", &["tests/test_models.py:4", "tests/test_models.py:9"][..]),
        (TYPESCRIPT, "core/tool.ts", "Tool.label", &["app/tools.ts:3"]),
        (C, "server.h", "refcount#1", &["a.c:2"]),
    ] {
        let sandbox = Sandbox::with(files);
        let mut ask = json!({"action": "rename", "file": file, "symbol": symbol, "new_name": "renamed", "timeout": 120});
        if file == "server.h" {
            ask["line"] = json!(1);
        }
        let ran = sandbox.run(&["tool", "--yes", "--json", "--wait", "100s", "lsp", &ask.to_string()]);
        let answer: Value = serde_json::from_str(&ran.stdout).expect("one answer");
        let introduced =
            answer["details"]["diagnostics"]["introduced"].as_array().cloned().unwrap_or_default();
        let errors = introduced.iter().filter(|it| it["severity"] == "error");
        let places: Vec<String> =
            errors.map(|it| format!("{}:{}", it["path"].as_str().unwrap_or_default(), it["line"])).collect();
        assert_eq!(places, broken, "{ran:?}");
        assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    }
}

/// rust-analyzer itself finds no error here; Cargo finds those of the first rename.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_one_shot_rename_in_rust_is_compiled() {
    let sandbox = Sandbox::with(&[
        ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"x\"\nversion = \"0.1.0\"\n"),
        (
            "src/lib.rs",
            "mod a;\n\npub trait Shape {\n    fn area(&self) -> u8;\n}\n\nmacro_rules! area {\n    ($it:expr) => {\n        $it.area()\n    };\n}\n\npub fn total(it: &dyn Shape) -> u8 {\n    area!(it) + a::three()\n}\n",
        ),
        ("src/a.rs", "pub fn three() -> u8 {\n    3\n}\n"),
    ]);
    let run = |args: &[&str]| {
        let ran = sandbox.run(args);
        format!("exit status {:?}\n{}{}", ran.status.code(), ran.stdout, ran.stderr)
    };
    let said = run(&["rename", "Shape.area", "surface", "--in", "src/lib.rs", "--yes", "--wait", "100s"]);
    check_output(
        &said,
        &expect![[r#"
        exit status Some(1)
        rename area to surface: 1 place in 1 file (rust-analyzer)
          src/lib.rs: 1
        note: rust-analyzer knows no definition for these, which may be uses of it: src/lib.rs:9
        3 other occurrences of `area` left unchanged (comments, strings, other symbols).
          in changed files: src/lib.rs:7, src/lib.rs:9, src/lib.rs:14
        introduced: 1 error, 0 warnings
          src/lib.rs:9: error: no method named `area` found for reference `&dyn Shape` in the current scope
            method not found in `&dyn Shape` [E0599] (rustc)
        pilcrow: the edit introduced errors; `pilcrow undo` reverts it
    "#]],
    );
    run(&["undo"]);
    let said = run(&["rename", "three", "tria", "--yes", "--wait", "100s"]);
    check_output(
        &said,
        &expect![[r#"
        exit status Some(0)
        rename three to tria: 2 places in 2 files (rust-analyzer)
          src/a.rs: 1
          src/lib.rs: 1
        No new problems (2 changed files checked).
    "#]],
    );
    // Without the time for it, the result says what is not known.
    let said = run(&["rename", "tria", "three", "--yes", "--wait", "10ms"]);
    check_output(
        &said,
        &expect![[r#"
        exit status Some(0)
        rename tria to three: 2 places in 2 files (rust-analyzer)
          src/a.rs: 1
          src/lib.rs: 1
        not checked yet by rust-analyzer: it has not reported on 2 files
        omitted: clippy and rustc, which rust-analyzer runs on request: `lsp diagnostics`
    "#]],
    );
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn new_and_fixed_errors_in_unopened_files_are_reported() {
    let before = "def greet(name: str) -> str:\n    return name\n";
    let after = "def greet(name: str, loud: bool) -> str:\n    return name\n";
    let mut sandbox = Sandbox::with(&[
        ("pyproject.toml", "[project]\nname = \"x\"\nversion = \"0\"\n"),
        ("a.py", before),
        ("b.py", "from a import greet\n\nprint(greet(\"x\"))\n"),
    ]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "60s".to_owned());
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "diagnostics", "timeout": 120})).ok();
    let said = replace(&mut batch, "a.py", after);
    assert!(said.contains("introduced: ") && said.contains("b.py:3: error:"), "{said}");
    assert_eq!(said.matches(": error:").count(), 1, "{said}");
    assert!(said.contains("basedpyright"), "{said}");
    let said = replace(&mut batch, "a.py", before);
    assert!(!said.contains("introduced: ") && !said.contains("pending"), "{said}");
    let is_fixed = said.lines().any(|line| line.trim_start().starts_with("b.py:3: error:"));
    assert!(is_fixed && said.contains("fixed: "), "{said}");
    drop(batch);
    sandbox.mark().none_left(Duration::from_secs(10));
}

/// Two packages, of which the server covers one at a time.
///
/// Each text gets a diagnostic with its content.
fn two_packages() -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[
        ("app/pyproject.toml", ""),
        ("app/main.py", "greet\n"),
        ("app/other.py", "other\n"),
        ("app/notes.md", "greet\n"),
        ("lib/pyproject.toml", ""),
        ("lib/a.py", "def greet():\n    return 1\n"),
        ("lib/user.py", "greet\n"),
    ]);
    let scripted = Scripted::install(&mut sandbox, &[about()]);
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "use".to_owned());
    (sandbox, scripted)
}

/// The script of a server that gives each text a diagnostic with its own content.
fn about() -> Value {
    let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let items = json!([{"range": place, "severity": 1, "message": "about ${text}", "code": "E1"}]);
    script(json!([[{"result": {"kind": "full", "items": items}}]]))
}

#[test]
fn a_package_without_a_server_hides_no_dependents() {
    let (sandbox, _) = two_packages();
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "lib/a.py"})).ok();
    let said = replace(&mut batch, "lib/a.py", "def greet():\n    return 2\n");
    // The other package's file also contains the name, but no server was asked about it.
    check_output(
        &said,
        &expect![[r#"
            [lib/a.py#F316]
            write lib/a.py: +1 -1 lines in 1 file
              lib/a.py: changed
            2 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before
              lib/a.py:1: error: about def greet():
                    return 2 [E1] (basedpyright)
              lib/user.py:1: error: about greet [E1] (basedpyright)
            Not checked: 1 of 3 files (no language server of app runs).
        "#]],
    );
}

#[test]
fn changed_files_without_a_running_server_are_counted() {
    let (sandbox, _) = two_packages();
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "lib/a.py"})).ok();
    let (lib, app) = (batch.view("lib/a.py"), batch.view("app/other.py"));
    let patch = format!(
        "[{}]\nPUT {}:\n+    return 2\n[{}]\nPUT {}:\n+others\n",
        lib.header, lib.lines[1].anchor, app.header, app.lines[0].anchor
    );
    let answer = batch.edit(&patch);
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
            [lib/a.py#F316]
             1ak:def greet():
            -    return 1
            +2jy:    return 2
            [app/other.py#C0C1]
            -other
            +1xe:others
            2 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before
              lib/a.py:1: error: about def greet():
                    return 2 [E1] (basedpyright)
              lib/user.py:1: error: about greet [E1] (basedpyright)
            Not checked: 2 of 4 files (no language server of app runs).
        "#]],
    );
}

/// A project whose server starts once the returned file exists.
fn starts_when_let() -> (Sandbox, Scripted, std::path::PathBuf) {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n"), ("b.py", "x\n")]);
    let scripted = Scripted::install(&mut sandbox, &[about()]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "1s".to_owned());
    let tools = sandbox.beside("scripted tools");
    let program = tools.join("bin/basedpyright-langserver");
    let launcher = std::fs::read_to_string(&program).expect("the launcher");
    let waits = launcher.replace("exec ", "while [ ! -e go ]; do sleep 0.05; done\nexec ");
    assert_ne!(launcher, waits);
    std::fs::write(&program, waits).expect("the launcher");
    (sandbox, scripted, tools.join("go"))
}

#[test]
fn the_first_edit_starts_the_server_and_reports_later() {
    let (sandbox, scripted, go) = starts_when_let();
    let mut batch = Batch::start(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let answer = batch.call("write", &edit);
    let said = answer.ok();
    assert_eq!(answer.value["details"]["diagnostics"]["pending"], 2, "{said}");
    assert!(said.contains("basedpyright") && said.contains("starting"), "{said}");
    assert!(!said.contains("o new problems"), "{said}");
    let said = batch.call("read", &json!({"path": "a.py"})).ok().to_owned();
    assert!(!said.contains("later, of"), "{said}");
    assert_eq!(scripted.got("initialize"), 0);
    std::fs::write(go, "").expect("it may start");
    let mut said = String::new();
    tests::wait_for(Duration::from_secs(60), || {
        said.push_str(&batch.call("read", &json!({"path": "b.py"})).ok());
        said.lines().any(|line| line.trim().starts_with("a.py:1: error: about x = 2"))
    });
    check_output(
        after(&said, "later, of write a.py:"),
        &expect![
            "2 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before"
        ],
    );
}

#[test]
fn servers_start_only_as_configured_and_in_a_batch() {
    let (mut sandbox, scripted, go) = starts_when_let();
    std::fs::write(go, "").expect("it may start");
    let edit = |text: &str| json!({"path": "a.py", "content": text, "overwrite": true});
    // The process makes one call and ends.
    sandbox.tool("read", &json!({"path": "a.py"})).ok();
    sandbox.tool("write", &edit("x = 2\n")).ok();
    let started = |batch: &mut Batch| {
        let status = batch.call("lsp", &json!({"action": "status"}));
        status.value["details"]["servers"].as_array().is_some_and(|servers| !servers.is_empty())
    };
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "use".to_owned());
    let mut batch = Batch::start(&sandbox);
    let said = replace(&mut batch, "a.py", "x = 3\n");
    assert!(!said.contains("diagnostics") && !started(&mut batch), "{said}");
    sandbox.variables.remove("PILCROW_LSP_START");
    let mut batch = Batch::start(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    assert!(!started(&mut batch), "reading starts none");
    // The project is not trusted, and no user is asked.
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "read".to_owned());
    let mut batch = Batch::start_without_yes(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    assert!(!started(&mut batch), "the project is not trusted");
    assert_eq!(scripted.got("initialize"), 0);
    let mut batch = Batch::start(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    // The read does not wait for the start.
    let starts = || started(&mut batch);
    assert!(tests::wait_for(Duration::from_secs(20), starts), "reading starts it when configured");
}

#[test]
fn undo_and_shell_commands_report_new_errors() {
    let mut sandbox = Sandbox::with(&[("a.py", "def f():\n    return 1\n"), ("user.py", "f\n")]);
    Scripted::install(&mut sandbox, &[about()]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    replace(&mut batch, "a.py", "def f():\n    return 2\n");
    let reports = |answer: &tests::Answer, now: u8, then: u8| {
        let said = answer.text();
        assert!(
            said.contains(&format!("return {now}")) && said.contains(&format!("return {then}")),
            "{said}"
        );
        assert_eq!(answer.value["details"]["diagnostics"]["fixed"], 1, "{:#}", answer.value);
        line_with(&said, "introduced: ").to_owned()
    };
    let introduced = reports(&batch.call("undo", &json!({})), 1, 2);
    check_output(&introduced, &expect!["introduced: 1 error, 0 warnings"]);
    let answer = batch.call("bash", &json!({"command": "sed -i 's/return 1/return 3/' a.py"}));
    check_output(
        &answer.ok(),
        &expect![[r#"
        exit status 0
        changed: a.py
        introduced: 1 error, 0 warnings
          a.py:1: error: about def f():
                return 3 [E1] (basedpyright)
        fixed: 1
          a.py:1: error: about def f():
                return 1 [E1] (basedpyright)"#]],
    );
    reports(&answer, 3, 1);
    let answer = batch.call("bash", &json!({"command": "true"}));
    assert!(!answer.ok().contains("introduced"), "{}", answer.ok());
}
