//! `pilcrow refs`, `rename` and the like at a shell, and `pilcrow serve`.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::editor::uri;
use tests::processes::{kill, wait_for};
use tests::{Sandbox, Scripted, check_output};

const A: &str = "def greet(): ...\n\ngreet()\n";
const B: &str = "from a import greet\ngreet()\n";

/// A server that knows `greet` in both files.
fn greeting() -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", A), ("b.py", B)]);
    let range = |line: usize, start: usize| json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": start + 5}});
    let edit = |line, start| json!({"range": range(line, start), "newText": "${params.newName}"});
    let place = |file: &str, line, start| json!({"uri": uri(&sandbox, file), "range": range(line, start)});
    let changes = json!({
        uri(&sandbox, "a.py"): [edit(0, 4), edit(2, 0)], uri(&sandbox, "b.py"): [edit(0, 14), edit(1, 0)]
    });
    let places =
        [place("a.py", 0, 4), place("a.py", 2, 0), place("b.py", 0, 14), place("b.py", 1, 0)].to_vec();
    let symbol = json!({"name": "greet", "kind": 12, "range": range(0, 0), "selectionRange": range(0, 4)});
    let script = json!({"methods": {
        "textDocument/rename": [[{"result": {"changes": changes}}]],
        "textDocument/references": [[{"result": places}]],
        "textDocument/documentSymbol": [[{"result": [symbol]}]],
    }});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let project = sandbox.project().display().to_string();
    sandbox.run_anywhere(&["trust", &project]).expect(0);
    (sandbox, scripted)
}

#[test]
fn references_are_lines_for_other_programs() {
    let (sandbox, _scripted) = greeting();
    let expected = expect![[r#"
        a.py:1:5: def greet(): ...
        a.py:3:1: greet()
        b.py:1:15: from a import greet
        b.py:2:1: greet()
    "#]];
    for arguments in [&["refs", "a.py:1:5"][..], &["run", "find references of greet in a.py:1"]] {
        let ran = sandbox.run(arguments).expect(0);
        check_output(&ran.stdout, &expected);
    }
    // A path is relative to the directory of the shell.
    std::fs::create_dir_all(sandbox.project().join(".git")).unwrap();
    std::fs::create_dir(sandbox.project().join("sub")).unwrap();
    let mut command = sandbox.command_anywhere(&["refs", "../a.py:1:5"]);
    command.current_dir(sandbox.project().join("sub"));
    let ran = command.output().unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap().lines().count(), 4);
    let json: Value =
        serde_json::from_str(&sandbox.run(&["refs", "a.py:1:5", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(json["details"]["locations"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_rename_at_a_shell_asks_nothing_and_is_undone() {
    let (sandbox, _scripted) = greeting();
    let start = sandbox.tree();
    let ran = sandbox.run(&["rename", "greet", "welcome", "--in", "a.py"]).expect(0);
    check_output(
        &ran.stdout,
        &expect![[r#"
            rename greet to welcome: 4 places in 2 files (basedpyright)
              a.py: 2
              b.py: 2
            note: more methods named `greet` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
            not checked by basedpyright: a.py, b.py (basedpyright: textDocument/diagnostic: no script for textDocument/diagnostic)
        "#]],
    );
    assert_eq!(
        (sandbox.read("a.py"), sandbox.read("b.py")),
        (A.replace("greet", "welcome"), B.replace("greet", "welcome"))
    );
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.tree(), start);
}

#[test]
fn a_failure_of_the_planner_is_printed_once() {
    let (sandbox, _scripted) = greeting();
    let ran = sandbox.run(&["run", "find references of nothing", "--model", "planner"]).expect(1);
    check_output(
        &ran.all(),
        &expect![[r#"
        · lsp action=references symbol=nothing
        pilcrow: no file of <sandbox>/the project contains the word `nothing`
    "#]],
    );
}

#[test]
fn serve_keeps_the_servers_for_later_commands() {
    let (sandbox, scripted) = greeting();
    let mut serve = sandbox.command(&["serve", "--idle", "1h"]).spawn().unwrap();
    let served = || {
        let report = sandbox.run(&["doctor", "--json"]).stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        !report["served_by"].is_null()
    };
    assert!(wait_for(Duration::from_secs(20), served));
    for _ in 0..2 {
        sandbox.run(&["refs", "a.py:1:5"]).expect(0);
    }
    assert_eq!(scripted.got("initialize"), 1);
    kill(serve.id(), rustix::process::Signal::TERM);
    assert!(serve.wait().unwrap().success());
    assert!(!served());
    // Without a command it stops by itself.
    let mut serve = sandbox.command(&["serve", "--idle", "1s"]).spawn().unwrap();
    assert!(serve.wait().unwrap().success());
    sandbox.mark().none_left(Duration::from_secs(5));
}

#[test]
fn a_resumed_prompt_needs_no_id() {
    let (sandbox, _scripted) = greeting();
    sandbox.run(&["sessions", "resume", "and now?", "--model", "planner"]).expect(2);
    sandbox.run(&["run", "find references of greet in a.py:1", "--model", "planner"]).expect(0);
    let ran =
        sandbox.run(&["sessions", "resume", "find references of greet in a.py:3", "--model", "planner"]);
    assert_eq!(ran.expect(0).stdout.lines().count(), 4);
    let listed = sandbox.run(&["sessions", "list"]).expect(0).stdout;
    assert_eq!(listed.lines().count(), 1, "{listed}");
}
