//! Cancellation by Ctrl-C during an unanswered request, and `kill -9` of Pilcrow.
//!
//! No started process may stay.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tests::processes::kill;
use tests::{Sandbox, Scripted, sandbox, wait_for};

/// A long limit for a busy machine; another check measures the promised limit.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that never answers and starts one process, in its group or outside.
fn silent(own_group: bool) -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let pid_file = sandbox.beside("grandchild");
    let script = json!({
        "start": [{"grandchild": {"own_group": own_group, "pid_file": pid_file}}],
        "methods": {"textDocument/references": [["never"]]},
    });
    let scripted = Scripted::install(&mut sandbox, &[script]);
    (sandbox, scripted)
}

#[test]
fn ctrl_c_ends_a_run_in_two_seconds_and_leaves_no_process() {
    let (sandbox, scripted) = silent(true);
    let prompt = "find references of greet in a.py:1";
    let child =
        sandbox.command(&["run", prompt, "--yes", "--model", "planner"]).spawn().expect("pilcrow starts");
    let pid = child.id();
    assert!(wait_for(PATIENCE, || scripted.got("textDocument/references") > 0), "the request was never sent");
    let living = sandbox.mark().living();
    assert!(living.iter().any(|found| found.command.contains("sleep")), "no grandchild: {living:?}");

    let asked = Instant::now();
    kill(pid, Signal::INT);
    let ran = sandbox::finish(child, PATIENCE);
    let took = asked.elapsed();
    assert!(!ran.status.success(), "a cancelled run says that it went well: {ran:?}");
    assert!(ran.signal().is_none(), "it was ended, it did not end: {ran:?}");
    assert!(took <= Duration::from_secs(2), "it took {took:?}: {ran:?}");
    // The end of the run itself must leave no process, not a later cleanup.
    sandbox.mark().none_left(Duration::from_millis(500));
}

#[test]
fn killing_pilcrow_ends_its_servers() {
    let (sandbox, scripted) = silent(false);
    let prompt = "find references of greet in a.py:1";
    let child =
        sandbox.command(&["run", prompt, "--yes", "--model", "planner"]).spawn().expect("pilcrow starts");
    assert!(wait_for(PATIENCE, || scripted.got("textDocument/references") > 0), "the request was never sent");
    assert!(sandbox.mark().living().len() >= 3, "{:?}", sandbox.mark().living());
    kill(child.id(), Signal::KILL);
    let ran = sandbox::finish(child, PATIENCE);
    assert_eq!(ran.signal(), Some(9));
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
fn a_run_that_ends_well_leaves_no_process() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let pid_file = sandbox.beside("grandchild");
    let script = json!({
        "start": [{"grandchild": {"own_group": true, "pid_file": pid_file}}],
        "methods": {"textDocument/references": [[{"result": []}]]},
    });
    let scripted = Scripted::install(&mut sandbox, &[script]);
    sandbox.run(&["run", "find references of greet in a.py:1", "--yes", "--model", "planner"]);
    assert_eq!(scripted.got("textDocument/references"), 1);
    assert_eq!(scripted.got("exit"), 1, "the server was not asked to end");
    sandbox.mark().none_left(Duration::from_millis(500));
}

#[test]
fn a_deadline_cancels_the_request() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"methods": {"textDocument/definition": [["never"]]}});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let arguments =
        json!({"action": "definition", "file": "a.py", "line": 1, "symbol": "greet", "timeout": 1});
    sandbox.tool("lsp", &arguments).fails("timeout");
    assert!(scripted.got("$/cancelRequest") > 0, "the request was not cancelled");
}

/// Uses a server that withholds the diagnostics of the edited text.
#[test]
fn a_signal_ends_a_command_after_its_edit_is_written() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
        let at = |character: u32| json!({"line": 0, "character": character});
        let edit = json!({"range": {"start": at(4), "end": at(9)}, "newText": "hello"});
        let document = json!({"uri": "${root}/a.py", "version": null});
        let changes = json!({"documentChanges": [{"textDocument": document, "edits": [edit]}]});
        let script = json!({"methods": {
            "textDocument/rename": [[{"result": changes}]],
            "textDocument/diagnostic": [["never"]],
            "shutdown": [["never"]],
        }});
        Scripted::install(&mut sandbox, &[script]);
        let prompt = ["run", "rename greet to hello in a.py:1", "--yes", "--model", "planner"];
        let child = sandbox.command(&prompt).spawn().expect("pilcrow starts");
        let is_written = wait_for(PATIENCE, || sandbox.read("a.py") == "def hello(): ...\n");
        assert!(is_written, "{:?}", sandbox::finish(child, PATIENCE));
        let asked = Instant::now();
        kill(child.id(), signal);
        let ran = sandbox::finish(child, PATIENCE);
        assert!(asked.elapsed() <= Duration::from_secs(2), "it took {:?}: {ran:?}", asked.elapsed());
        assert_eq!(ran.signal(), None, "{ran:?}");
    }
}
