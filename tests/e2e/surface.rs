//! The user of a run: questions at a terminal, stopping, and disconnecting.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::processes::kill;
use tests::{Sandbox, Terminal, check_output, line_with, sandbox};

/// A long limit for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time to stop a run on such a machine.
const STOP: Duration = Duration::from_secs(10);

/// A command that runs a script with these turns, not started yet.
fn run(sandbox: &Sandbox, turns: &[Value], more: &[&str]) -> std::process::Command {
    let script = sandbox.beside("script.jsonl");
    let lines: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
    std::fs::write(&script, lines).expect("the script");
    let model = format!("script:{}", script.display());
    sandbox.command(&[&["run", "go", "--model", model.as_str()], more].concat())
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"tool_calls": [{"name": name, "arguments": arguments}]})
}

#[test]
fn a_lost_reader_disconnects_the_run_and_reverts_it() {
    let sandbox = Sandbox::with(&[("a.txt", "unsaved work\n")]);
    let ticks = "echo over > a.txt; while true; do echo tick; sleep 0.05; done";
    let turns = [call("bash", &json!({"command": ticks})), json!({"text": "On."})];
    let mut child = run(&sandbox, &turns, &["--yes", "--json"]).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    while !line.contains("tool_execution_update") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).expect("a line"), 0, "it ended");
    }
    assert_eq!(sandbox.read("a.txt"), "over\n");
    drop(stdout);
    sandbox::finish(child, PATIENCE).expect(1);
    sandbox.mark().none_left(PATIENCE);
    let kept = sandbox.run(&["sessions", "show", "--json"]).expect(0).stdout;
    let last = kept.lines().last().expect("a message");
    assert!(last.contains("\"toolResult\"") && last.contains("changed: a.txt"), "{kept}");
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.read("a.txt"), "unsaved work\n");
}

#[test]
fn a_closed_stdout_counts_as_a_lost_surface() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let mut first = call("bash", &json!({"command": "until test -f ../goes_on; do sleep 0.05; done"}));
    first["text"] = json!("Now.\n");
    let turns = [first, json!({"text": "Then.\n", "wait_for_cancel": true})];
    let mut child = run(&sandbox, &turns, &["--yes"]).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert_eq!(line, "Now.\n");
    drop(stdout);
    std::fs::write(sandbox.beside("goes_on"), "").expect("a file");
    let ran = sandbox::finish(child, PATIENCE).expect(1);
    check_output(line_with(&ran.stderr, "disconnected"), &expect!["pilcrow: the surface disconnected"]);
    // A run that cannot be stopped ends without a message.
    let mut child = sandbox.command(&["sessions", "show"]).spawn().expect("it starts");
    drop(child.stdout.take());
    let ran = sandbox::finish(child, PATIENCE).expect(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_byte_order_mark_before_a_prompt_is_ignored() {
    let sandbox = Sandbox::new();
    let script = sandbox.beside("script.jsonl");
    std::fs::write(&script, json!({"text": "On."}).to_string()).expect("the script");
    let mut command = sandbox.command(&["run", "-", "--model", &format!("script:{}", script.display())]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("its input");
    std::io::Write::write_all(&mut stdin, "\u{feff}look around".as_bytes()).expect("all is taken");
    drop(stdin);
    sandbox::finish(child, PATIENCE).expect(0);
    let kept = sandbox.run(&["sessions", "export", "--format", "jsonl"]).expect(0).stdout;
    assert!(kept.contains("look around") && !kept.contains('\u{feff}'), "{kept}");
}

#[test]
fn a_batch_starts_no_call_after_its_reader_left() {
    // The order could be chance if both futures are ready.
    for _ in 0..2 {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command(&["tool", "--batch", "--yes", "--json"]);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let line = |name| json!({"name": "bash", "arguments": {"command": format!("echo x > {name}")}});
        let lines = format!(
            "{}
{}
",
            line("first"),
            line("second")
        );
        let mut stdin = child.stdin.take().expect("its input");
        std::io::Write::write_all(&mut stdin, lines.as_bytes()).expect("all is taken");
        sandbox::finish(child, PATIENCE);
        assert_eq!(sandbox.tree().keys().collect::<Vec<_>>(), ["first"]);
    }
}

#[test]
fn a_signal_ends_a_question_at_the_terminal() {
    let ask = json!({"question": "Which one?", "options": ["red", "blue"]});
    for (turn, asks) in [
        (call("bash", &json!({"command": "echo x > a.txt"})), "[n] deny"),
        (call("ask", &ask), "Number or text: "),
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let sandbox = Sandbox::with(&[("a.txt", "a\n")]);
            let mut terminal = Terminal::start(&mut run(&sandbox, std::slice::from_ref(&turn), &[]));
            terminal.waits_for(asks, PATIENCE);
            kill(terminal.child.id(), signal);
            assert_eq!(terminal.ends(STOP).code(), Some(1), "{}", terminal.shown());
            assert_eq!(sandbox.read("a.txt"), "a\n");
        }
    }
}

#[test]
fn events_are_shown_while_a_question_is_open() {
    let sandbox = Sandbox::with(&[("a.txt", "a\n")]);
    let calls = json!({"tool_calls": [
        {"name": "ask", "arguments": {"question": "Which one?", "options": ["red", "blue"]}},
        {"name": "read", "arguments": {"path": "nonesuch.txt"}},
    ]});
    let turns = [calls, json!({"text": "Done."})];
    let mut terminal = Terminal::start(&mut run(&sandbox, &turns, &[]));
    terminal.waits_for("Number or text: ", PATIENCE);
    terminal.waits_for("read failed", PATIENCE);
    terminal.types("2\n");
    assert!(terminal.ends(PATIENCE).success(), "{}", terminal.shown());
    let kept = sandbox.run(&["sessions", "show", "--json"]).expect(0).stdout;
    assert!(kept.contains("blue\"}") || kept.contains("\"blue\""), "{kept}");
}

#[test]
fn a_question_shows_control_characters_escaped() {
    let sandbox = Sandbox::with(&[("a.txt", "a\n")]);
    let line = "echo HIDDEN > hidden.txt #\u{1b}[1A\u{1b}[2K\rRun ls?\u{1b}[8m\u{202e}";
    let turns = [call("bash", &json!({"command": line})), json!({"text": "Done."})];
    let mut terminal = Terminal::start(&mut run(&sandbox, &turns, &[]));
    terminal.waits_for("[n] deny", PATIENCE);
    let shown = terminal.shown();
    check_output(
        line_with(&shown, "HIDDEN"),
        &expect![[r#"· bash command=echo HIDDEN > hidden.txt #␛[1A␛[2K␍Run ls?␛[8m\u{202e}"#]],
    );
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    terminal.types("n\n");
    terminal.ends(PATIENCE);
}
