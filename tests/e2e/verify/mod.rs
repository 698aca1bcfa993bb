//! Errors that an edit introduces or fixes in other files.
//!
//! These files use the changed names and are not open.

mod one_shot;
mod preview;
mod real;
mod start;

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

/// Returns the line after the one that ends so.
#[track_caller]
fn after<'a>(text: &'a str, header: &str) -> &'a str {
    let mut lines = text.lines().skip_while(|line| !line.ends_with(header));
    lines.nth(1).unwrap_or_else(|| panic!("no line follows `{header}`: {text}"))
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
        1nx	x = 3

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
