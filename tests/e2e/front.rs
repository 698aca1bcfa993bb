//! `pilcrow lsp` as a server: lifecycle, order of messages, floods, hangs, panics.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::editor::{parameters, uri};
use tests::processes::kill;
use tests::{Editor, Sandbox, Scripted, wait_for};

/// The promised limit after the editor has ended.
const GONE: Duration = Duration::from_secs(5);

/// A project whose language server never answers, with a process of its own.
fn silent() -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let pid_file = sandbox.beside("grandchild");
    let script = json!({
        "start": [{"grandchild": {"own_group": true, "pid_file": pid_file}}],
        "methods": {"textDocument/rename": [["never"]]},
    });
    let scripted = Scripted::install(&mut sandbox, &[script]);
    (sandbox, scripted)
}

/// An editor with a run that waits for that server.
fn busy(sandbox: &Sandbox, scripted: &Scripted, change: impl FnOnce(&mut Value)) -> (Editor, String) {
    let mut editor = Editor::start_with(sandbox, change);
    editor.answers.push_back(Some("Allow"));
    let file = uri(sandbox, "a.py");
    editor.open(&file, "python", "def greet(): ...\n");
    let position = json!({"line": 0, "character": 5});
    let argument = json!({"kind": "rename", "uri": file, "position": position, "new_name": "welcome"});
    let session = editor.run("pilcrow.refactor", argument);
    editor.wait("the question of trust", |editor| !editor.all("window/showMessageRequest").is_empty());
    assert!(wait_for(Duration::from_secs(60), || scripted.got("textDocument/rename") > 0));
    (editor, session)
}

#[test]
fn the_lifecycle_follows_the_specification() {
    let sandbox = Sandbox::new();
    let mut editor = Editor::spawn(&sandbox);
    let early = editor.request("textDocument/codeAction", json!({}));
    assert_eq!(early["error"]["code"], -32002, "{early}");
    let answer = editor.request("initialize", parameters(&sandbox));
    let capabilities = &answer["result"]["capabilities"];
    assert_eq!(capabilities["textDocumentSync"]["change"], 2);
    assert_eq!(capabilities["experimental"]["pilcrow"]["protocol"], 2);
    assert_eq!(editor.request("initialize", parameters(&sandbox))["error"]["code"], -32600);
    editor.notify("initialized", json!({}));
    editor.notify("$/something", json!({}));
    assert_eq!(editor.request("textDocument/hover", json!({}))["error"]["code"], -32601);
    assert_eq!(editor.request("shutdown", Value::Null)["result"], Value::Null);
    assert_eq!(editor.request("textDocument/codeLens", json!({}))["error"]["code"], -32600);
    editor.notify("exit", Value::Null);
    assert_eq!(editor.exited(GONE).code(), Some(0));

    let mut editor = Editor::start(&sandbox);
    editor.notify("exit", Value::Null);
    assert_eq!(editor.exited(GONE).code(), Some(1), "exit without shutdown");
}

#[test]
fn changes_after_slow_requests_are_applied_in_order() {
    let sandbox = Sandbox::with(&[("a.py", "")]);
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", "");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    for change in 0..10_000 {
        if change % 500 == 0 {
            editor.ask("pilcrow/test/hang", json!({}));
        }
        let length = editor.text(&file).len();
        let start = random(length + 1);
        let end = (start + random(4)).min(length);
        let new_text = ["x", "yz\n", "", "0123\n4"][random(4)];
        editor.replace(&file, start..end, new_text);
    }
    let replayed = editor.request("pilcrow/test/text", json!({"uri": file}))["result"].clone();
    assert_eq!(replayed["version"], 10_001);
    assert!(replayed["text"] == editor.text(&file), "the text is not the replay");
}

#[test]
fn cancellation_and_changes_pass_hanging_requests() {
    let sandbox = Sandbox::with(&[("a.py", "")]);
    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", "one\n");
    let hanging: Vec<i64> = (0..50).map(|_| editor.ask("pilcrow/test/hang", json!({}))).collect();
    editor.replace(&file, 0..3, "two");
    assert_eq!(editor.request("pilcrow/test/text", json!({"uri": file}))["result"]["text"], "two\n");
    for id in &hanging {
        editor.notify("$/cancelRequest", json!({"id": id}));
    }
    for id in hanging {
        assert_eq!(editor.answer(id)["error"]["code"], -32800);
    }
    // Requests above a limit are refused, and no other request waits.
    let many: Vec<i64> = (0..300).map(|_| editor.ask("pilcrow/test/hang", json!({}))).collect();
    assert_eq!(editor.answer(many[299])["error"]["code"], -32803);
    editor.replace(&file, 0..3, "three");
    editor.notify("$/cancelRequest", json!({"id": many[0]}));
    assert_eq!(editor.answer(many[0])["error"]["code"], -32800);
    assert_eq!(editor.request("pilcrow/test/text", json!({"uri": file}))["result"]["text"], "three\n");
}

#[test]
fn a_panic_fails_only_its_request() {
    let sandbox = Sandbox::new();
    let mut editor = Editor::start(&sandbox);
    for later in [false, true] {
        let answer = editor.request("pilcrow/test/panic", json!({"later": later}));
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
    }
    editor.send(&json!({"jsonrpc": "2.0", "id": [], "method": 3}));
    assert_eq!(editor.request("textDocument/codeLens", json!({}))["result"], json!([]));
    editor.shut_down();
}

#[test]
fn parameters_of_a_wrong_type_end_nothing() {
    let sandbox = Sandbox::with(&[("a.txt", "a\n")]);
    let mut editor = Editor::start(&sandbox);
    for method in ["workspace/didChangeConfiguration", "workspace/didChangeWorkspaceFolders", "x/unknown"] {
        for params in
            [json!([1]), json!({"settings": "x", "event": 3}), json!({"settings": {"pilcrow": [0]}})]
        {
            editor.notify(method, params);
        }
    }
    let file = uri(&sandbox, "a.txt");
    editor.open(&file, "plaintext", "a\n");
    editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    editor.shut_down();
}

#[test]
fn the_end_of_input_ends_every_process() {
    let (sandbox, scripted) = silent();
    let (mut editor, _) = busy(&sandbox, &scripted, |_| {});
    assert!(sandbox.mark().living().len() >= 3, "{:?}", sandbox.mark().living());
    let asked = Instant::now();
    editor.hang_up();
    editor.exited(GONE);
    sandbox.mark().none_left(GONE.saturating_sub(asked.elapsed()));
}

#[test]
fn the_death_of_the_editor_ends_every_process() {
    let (sandbox, scripted) = silent();
    // The child holds the pipes open, as a child of a killed editor may.
    let mut sleeper = std::process::Command::new("sleep").arg("3600").spawn().unwrap();
    let (mut editor, _) = busy(&sandbox, &scripted, |params| params["processId"] = json!(sleeper.id()));
    let asked = Instant::now();
    // The process is killed and not reaped, as by a busy parent.
    kill(sleeper.id(), Signal::KILL);
    editor.exited(GONE);
    sandbox.mark().none_left(GONE.saturating_sub(asked.elapsed()));
    sleeper.wait().unwrap();
}

#[test]
fn an_invisible_editor_process_is_not_dead() {
    let sandbox = Sandbox::new();
    // No such process exists here: the editor runs in another container.
    let mut editor = Editor::start_with(&sandbox, |params| params["processId"] = json!(4_000_000));
    std::thread::yield_now();
    assert_eq!(editor.request("textDocument/codeLens", json!({}))["result"], json!([]));
    editor.shut_down();
}

#[test]
fn a_run_is_stopped_by_its_progress_in_two_seconds() {
    let (sandbox, scripted) = silent();
    let (mut editor, session) = busy(&sandbox, &scripted, |_| {});
    editor.wait("the token", |editor| !editor.tokens(&session).is_empty());
    let token = editor.tokens(&session).remove(0);
    let asked = Instant::now();
    editor.notify("window/workDoneProgress/cancel", json!({"token": token}));
    assert_eq!(editor.ended(&session), "stopped");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    editor.wait_for_message("stopped");
    assert_eq!((editor.progress(&session, "begin").len(), editor.progress(&session, "end").len()), (1, 1));
    assert!(editor.all("workspace/applyEdit").is_empty());
    // Language servers stay for the next run.
    assert!(sandbox.mark().living().iter().any(|found| found.command.contains("scripted")));
    editor.shut_down();
    sandbox.mark().none_left(GONE);
}

#[test]
fn a_cancel_counts_before_progress_begins() {
    let (sandbox, scripted) = silent();
    let mut editor = Editor::start(&sandbox);
    editor.takes_progress = false;
    editor.answers.push_back(Some("Allow"));
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", "def greet(): ...\n");
    let argument = json!({"kind": "rename", "uri": file, "symbol": "greet", "new_name": "welcome"});
    let session = editor.run("pilcrow.refactor", argument);
    editor.wait("the token", |editor| !editor.tokens(&session).is_empty());
    let token = editor.tokens(&session).remove(0);
    editor.notify("window/workDoneProgress/cancel", json!({"token": token}));
    editor.wait_for_message("stopped");
    assert_eq!(editor.progress(&session, "begin").len() + editor.progress(&session, "end").len(), 0);
    // The editor accepts the token at last: the progress begins and ends once.
    let (create, _) = editor.open_questions.remove(0);
    editor.answer_question(&create, None);
    assert_eq!(editor.ended(&session), "stopped");
    assert_eq!((editor.progress(&session, "begin").len(), editor.progress(&session, "end").len()), (1, 1));
    assert_eq!(scripted.got("textDocument/rename"), 0);
    editor.shut_down();
}
