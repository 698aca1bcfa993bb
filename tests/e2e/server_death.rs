//! A language server that ends during a request, and the next call to it.

use std::time::Duration;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::check_output;
use tests::processes::kill;
use tests::{Batch, Sandbox, Scripted, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

fn references() -> Value {
    json!({"action": "references", "file": "a.py", "line": 1, "symbol": "greet"})
}

fn one_place() -> Value {
    json!({"result": [{
        "uri": "${params.textDocument.uri}",
        "range": {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 5}},
    }]})
}

#[test]
fn a_killed_server_is_an_error_and_the_next_call_succeeds() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n\ngreet()\n")]);
    let scripts = [
        json!({"methods": {"textDocument/references": [["never"]]}}),
        json!({"methods": {"textDocument/references": [[one_place()]]}}),
    ];
    let scripted = Scripted::install(&mut sandbox, &scripts);
    let mut batch = Batch::start(&sandbox);
    assert!(batch.send(&json!({"name": "lsp", "arguments": references()}).to_string()));
    assert!(wait_for(PATIENCE, || scripted.got("textDocument/references") > 0), "the request was never sent");
    let living = sandbox.mark().living();
    let server = living.iter().find(|found| found.command.contains("scripted-language-server"));
    kill(server.unwrap_or_else(|| panic!("no server in {living:?}")).pid, Signal::KILL);

    let answer = batch.answer(PATIENCE).expect("the batch continues");
    answer.fails("server_crashed");
    let said = batch.call("lsp", &references()).ok();
    assert!(said.contains("a.py") && said.contains("greet()"), "{said}");
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(2));
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let dying = json!({"start": [{"stderr": "no licence found\n"}, {"crash": 3}]});
    Scripted::install(&mut sandbox, &[dying]);
    let said = sandbox.tool("lsp", &references()).fails("server_crashed");
    check_output(
        &said,
        &expect![[r#"
        basedpyright crashed during initialize; the next call restarts it
        no licence found"#]],
    );
}

fn logs(sandbox: &Sandbox) -> String {
    sandbox.tool("lsp", &json!({"action": "logs"})).ok()
}

#[test]
fn a_server_log_is_readable_by_the_next_process() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n\ngreet()\n")]);
    let said = json!({"start": [{"stderr": "reading the world\n"}],
        "methods": {"textDocument/references": [[one_place()]]}});
    let dying =
        json!({"methods": {"textDocument/references": [[{"stderr": "out of luck\n"}, {"crash": 3}]]}});
    Scripted::install(&mut sandbox, &[said, dying]);
    let none = sandbox.tool("lsp", &json!({"action": "logs"})).fails("not_found");
    check_output(&none, &expect!["no language server has run in this project; use one first"]);

    sandbox.tool("lsp", &references()).ok();
    let log = logs(&sandbox);
    for part in
        ["basedpyright for .: ended ", "(Pilcrow ended)", "reading the world", "textDocument/references"]
    {
        assert!(log.contains(part), "{part} is missing: {log}");
    }

    sandbox.tool("lsp", &references()).fails("server_crashed");
    let answer = sandbox.tool("lsp", &json!({"action": "logs"}));
    let log = answer.ok();
    let servers = answer.value["details"]["servers"].as_array().expect("the servers");
    let is_the_crash = |it: &Value| it["state"] == "crashed" && it["why"] == "exit status: 3";
    assert!(servers.iter().any(is_the_crash), "{:#}", answer.value);
    assert!(log.lines().any(|line| line.trim() == "out of luck"), "{log}");
    assert!(!log.contains("reading the world"), "only the last start counts: {log}");
}

#[test]
fn a_server_log_survives_a_killed_pilcrow() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n\ngreet()\n")]);
    Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/references": [["never"]]}})]);
    let mut child = sandbox.command(&["tool", "lsp", &references().to_string(), "--yes"]).spawn().unwrap();
    let written = || {
        let workspaces = sandbox.home().join("state/workspaces");
        let files = std::fs::read_dir(workspaces).into_iter().flatten().flatten();
        let lives = files.flat_map(|it| std::fs::read_dir(it.path().join("servers")).into_iter().flatten());
        lives.flatten().any(|it| {
            std::fs::read_to_string(it.path().join("messages"))
                .is_ok_and(|text| text.contains("textDocument/references"))
        })
    };
    assert!(wait_for(PATIENCE, written), "the question is not in the log while the server runs");
    let log = logs(&sandbox);
    check_output(
        log.lines().next().unwrap_or_default(),
        &expect!["basedpyright for .: running for another Pilcrow process (<pid>)"],
    );
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let answer = sandbox.tool("lsp", &json!({"action": "logs"}));
    assert_eq!(answer.value["details"]["servers"][0]["state"], "lost", "{:#}", answer.value);
    assert!(answer.ok().contains("textDocument/references"), "{}", answer.ok());
}
