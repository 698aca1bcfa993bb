//! Complaints of users about other agents' tools, tested at the command line.
//!
//! Each test is named after the project and the number of the issue.

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, Scripted, check_output};

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}

fn wrong() -> Value {
    json!({"kind": "full", "items": [{"range": range(0, 0, 3), "severity": 1, "message": "wrong"}]})
}

const FILES: [(&str, &str); 3] = [("a.py", "one\n"), ("b.py", "two\n"), ("deep/c.py", "three\n")];

#[test]
fn omp_2247_errors_are_never_called_ok() {
    let mut sandbox = Sandbox::with(&FILES);
    Scripted::install(
        &mut sandbox,
        &[json!({"methods": {"textDocument/diagnostic": [[{"result": wrong()}]]}})],
    );
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "a.py"})).ok();
    check_output(
        &said,
        &expect![[r#"
            1 error, 0 warnings, 0 hints in 1 file (basedpyright)
            a.py:1: error: wrong (basedpyright)
            [a.py#5AF7B686]
            1kd	one
        "#]],
    );
}

#[test]
fn omp_10701_a_glob_waits_for_each_file_or_reports_pending() {
    let mut sandbox = Sandbox::with(&FILES);
    let slow = json!([{"delay_ms": 900}, {"result": wrong()}]);
    Scripted::install(
        &mut sandbox,
        &[json!({"methods": {"textDocument/diagnostic": [slow, slow, ["never"]]}})],
    );
    let answer = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "**/*.py", "timeout": 4}));
    let said = answer.ok();
    check_output(
        said.lines().next().unwrap_or_default(),
        &expect![
            "2 errors, 0 warnings, 0 hints in 2 files; no server has checked 1 more (basedpyright; basedpyright pending)"
        ],
    );
    // The files are requested concurrently, so the server chooses the one without an answer.
    let unknown = |list: &str| answer.value["details"][list].as_array().expect("a list").len();
    assert_eq!(unknown("pending") + unknown("failed"), 1, "{said}");
}

#[test]
fn omp_10702_a_glob_selects_exactly_its_files() {
    let mut sandbox = Sandbox::with(&FILES);
    let scripted = Scripted::install(
        &mut sandbox,
        &[json!({"methods": {"textDocument/diagnostic": [[{"result": wrong()}]]}})],
    );
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "*.py"})).ok();
    check_output(
        &said,
        &expect![[r#"
            2 errors, 0 warnings, 0 hints in 2 files (basedpyright)
            a.py:1: error: wrong (basedpyright)
                also at b.py:1
            [a.py#5AF7B686]
            1kd	one
            [b.py#357C959C]
            1eg	two
        "#]],
    );
    assert_eq!(scripted.got("textDocument/diagnostic"), 2);
    sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "*.nothing"})).fails("not_found");
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "files": ["a.py", "deep/c.py"]})).ok();
    check_output(
        &said,
        &expect![[r#"
            2 errors, 0 warnings, 0 hints in 2 files (basedpyright)
            a.py:1: error: wrong (basedpyright)
                also at deep/c.py:1
            [a.py#5AF7B686]
            1kd	one
            [deep/c.py#D0D13E2C]
            1md	three
        "#]],
    );
}

#[test]
fn omp_10703_all_project_files_are_checked_not_twenty() {
    let names: Vec<String> = (0..30).map(|number| format!("f{number}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x\n")).collect();
    let mut sandbox = Sandbox::with(&files);
    Scripted::install(
        &mut sandbox,
        &[json!({"methods": {"textDocument/diagnostic": [[{"result": wrong()}]]}})],
    );
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics"})).ok();
    check_output(
        said.lines().next().unwrap_or_default(),
        &expect!["30 errors, 0 warnings, 0 hints in 30 files (basedpyright)"],
    );
}

#[test]
fn omp_4910_an_edit_does_not_wait_forever_for_a_server() {
    let mut sandbox = Sandbox::with(&FILES);
    let methods = json!({
        "textDocument/diagnostic": [["never"]],
        "textDocument/documentSymbol": [[{"result": []}]],
    });
    Scripted::install(&mut sandbox, &[json!({"methods": methods})]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let view = batch.view("a.py");
    let started = Instant::now();
    let said = batch.edit(&view.put("one", "uno")).ok();
    assert!(started.elapsed() < Duration::from_secs(30), "{said}");
    check_output(
        &said,
        &expect![[r#"
            [a.py#9BC6]
            1vy	uno
            not checked yet by basedpyright: it has not reported on 1 file
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "uno\n");
    assert!(batch.end().0.success());
}

#[test]
fn omp_6800_no_started_process_is_left() {
    let mut sandbox = Sandbox::with(&FILES);
    let pid_file = sandbox.beside("grandchild");
    let script = json!({
        "stay": true,
        "start": [{"grandchild": {"own_group": true, "pid_file": pid_file}}],
        "methods": {"textDocument/documentSymbol": [[{"result": []}]], "shutdown": [["never"]]},
    });
    Scripted::install(&mut sandbox, &[script]);
    sandbox.tool("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    sandbox.mark().none_left(Duration::from_secs(5));
}

#[test]
fn omp_3029_a_missing_program_is_named_with_its_installer() {
    let mut sandbox = Sandbox::with(&FILES);
    sandbox.variables.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    sandbox.variables.insert("PILCROW_TOOLS".to_owned(), sandbox.beside("none").display().to_string());
    let said = sandbox.tool("lsp", &json!({"action": "symbols", "file": "a.py"})).fails("missing_tool");
    check_output(
        &said,
        &expect!["basedpyright is not installed; install it: pilcrow adapters install basedpyright"],
    );
}

#[test]
fn zed_45685_the_first_match_does_not_win() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = x + x\n")]);
    Scripted::install(&mut sandbox, &[json!({"methods": {}})]);
    let ask = |symbol: &str| json!({"action": "references", "file": "a.py", "line": 1, "symbol": symbol});
    let said = sandbox.tool("lsp", &ask("x")).fails("ambiguous");
    check_output(&said, &expect!["line 1 contains `x` 3 times; name one: `x#1` to `x#3`"]);
}

#[test]
fn zed_55744_a_rename_is_saved_and_counted_correctly() {
    let mut sandbox = Sandbox::with(&FILES);
    let edit = |file: &str, end: u32| {
        json!({"textDocument": {"uri": format!("${{root}}/{file}"), "version": null},
            "edits": [{"range": range(0, 0, end), "newText": "new"}]})
    };
    // One edit changes nothing and is sent twice.
    let mut nothing = edit("b.py", 3);
    nothing["edits"] =
        json!([{"range": range(0, 0, 3), "newText": "two"}, {"range": range(0, 0, 3), "newText": "two"}]);
    let changes = json!({"documentChanges": [edit("a.py", 3), nothing]});
    Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/rename": [[{"result": changes}]]}})]);
    let ask = json!({"action": "rename", "file": "a.py", "line": 1, "symbol": "one", "new_name": "new"});
    let said = sandbox.tool("lsp", &ask).ok();
    check_output(
        &said,
        &expect![[r#"
            rename one to new: 1 place in 1 file (basedpyright)
              a.py: 1
            note: more methods named `one` may be related: basedpyright: textDocument/documentSymbol: no script for textDocument/documentSymbol
            not checked by basedpyright: a.py (basedpyright: textDocument/diagnostic: no script for textDocument/diagnostic)
        "#]],
    );
    assert_eq!((sandbox.read("a.py").as_str(), sandbox.read("b.py").as_str()), ("new\n", "two\n"));
}

#[test]
fn zed_60117_diagnostics_of_the_project_end() {
    let mut sandbox = Sandbox::with(&FILES);
    Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/diagnostic": [["never"]]}})]);
    let started = Instant::now();
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "timeout": 1})).text();
    assert!(started.elapsed() < Duration::from_secs(30), "{said}");
    assert!(said.contains("pending") || said.contains("not asked"), "{said}");
}

#[test]
fn serena_653_output_before_the_first_message_is_skipped() {
    let mut sandbox = Sandbox::with(&FILES);
    let script = json!({
        "start": [{"repeat": {"count": 2000, "steps": [{"stdout": "Downloading…\n"}, {"stderr": "still here\n"}]}}],
        "methods": {"textDocument/documentSymbol": [[{"result": []}]]},
    });
    Scripted::install(&mut sandbox, &[script]);
    let said = sandbox.tool("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    check_output(
        &said,
        &expect![[r#"
        0 symbols in a.py (basedpyright)
    "#]],
    );
}

#[test]
fn omp_983_a_language_server_is_not_needed_to_read_and_edit() {
    let mut sandbox = Sandbox::with(&FILES);
    let scripted = Scripted::install(&mut sandbox, &[json!({"start": [{"crash": 1}]})]);
    let mut batch = Batch::start(&sandbox);
    let view = batch.view("a.py");
    batch.edit(&view.put("one", "uno")).ok();
    assert_eq!(scripted.got("initialize"), 0, "no server starts before it is needed");
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).fails("server_crashed");
    assert!(batch.end().0.success());
}
