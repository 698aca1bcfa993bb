//! Latencies of a plugin: from a prompt to its first event, and of the review.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use tests::editor::uri;
use tests::{Editor, Sandbox};

use super::{Times, row};

const PROMPTS: usize = 100;
/// Number of changes that are kept, and rejected, one by one.
const HUNKS: [usize; 2] = [20, 200];
const FILES: usize = 1000;

/// A sandbox whose model answers with these lines.
fn scripted(files: &[(&str, &str)], lines: &[Value]) -> Sandbox {
    let mut sandbox = Sandbox::with(files);
    let script = sandbox.beside("script.jsonl");
    fs::write(&script, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    sandbox
}

fn result(editor: &mut Editor, method: &str, params: Value) -> Value {
    let answer = editor.request(method, params);
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

pub(super) fn measure() {
    prompts();
    HUNKS.into_iter().for_each(hunks);
    files();
}

fn prompts() {
    let sandbox = scripted(&[], &vec![json!({ "text": "Done." }); PROMPTS + 1]);
    let mut editor = Editor::start(&sandbox);
    let session = result(&mut editor, "pilcrow/session/new", json!({}))["session"].clone();
    let of = |editor: &Editor, kind: &str| {
        let all = editor.all("pilcrow/event");
        all.iter().filter(|it| it["event"]["type"] == kind).count()
    };
    let times = Times::of(PROMPTS, || {
        editor.log.clear();
        let started = Instant::now();
        editor.ask("pilcrow/prompt", json!({ "session": session, "text": "go" }));
        editor.wait("the first event", |editor| of(editor, "agent_start") > 0);
        let time = started.elapsed();
        editor.wait("the end", |editor| of(editor, "agent_settled") > 0);
        time
    });
    let meaning = format!("from a prompt in a live session to its first event, {PROMPTS} prompts");
    row("prompt to event, median", format!("{:.2} ms", times.percentile(50)), "", &meaning);
    row("prompt to event, p99", format!("{:.2} ms", times.percentile(99)), "50 ms", "");
}

/// Runs the script's one prompt; returns its session.
fn run(editor: &mut Editor) -> String {
    editor.answers.extend([Some("Session"); 4]);
    let session = editor.run("pilcrow.prompt", json!({ "text": "go" }));
    assert_eq!(editor.ended(&session), "done");
    session
}

fn hunks(count: usize) {
    let before: String = (0..count * 20).map(|at| format!("value_{at} = {at}\n")).collect();
    let numbers = (0..count * 20).filter(|at| at % 10 == 5);
    let row_of = |at: usize| format!("@@\n-value_{at} = {at}\n+value_{at} = {}\n", at + 1);
    let patch = format!("--- a/a.py\n+++ b/a.py\n{}", numbers.map(row_of).collect::<String>());
    let edit = json!({ "name": "edit", "arguments": { "patch": patch } });
    let page = |at: usize| json!({ "name": "read", "arguments": { "path": "a.py", "offset": at * 1000 + 1, "limit": 1000 } });
    let reads: Vec<Value> = (0..(count * 20).div_ceil(1000)).map(page).collect();
    let sandbox = scripted(
        &[("a.py", &before)],
        &[json!({ "tool_calls": reads }), json!({ "tool_calls": [edit] }), json!({ "text": "Done." })],
    );
    let mut editor = Editor::start(&sandbox);
    editor.open(&uri(&sandbox, "a.py"), "python", &before);
    let session = run(&mut editor);
    let listed = result(&mut editor, "pilcrow/review/list", json!({ "session": session }));
    let ids: Vec<Value> =
        listed["files"][0]["hunks"].as_array().unwrap().iter().map(|hunk| hunk["id"].clone()).collect();
    assert_eq!(ids.len(), count * 2);
    for (name, method, ids) in
        [("keep", "pilcrow/review/keep", &ids[..count]), ("reject", "pilcrow/review/reject", &ids[count..])]
    {
        let mut ids = ids.iter();
        let times = Times::of(count, || {
            let started = Instant::now();
            result(&mut editor, method, json!({ "session": session, "hunks": [ids.next()] }));
            started.elapsed()
        });
        let meaning = format!("in an open file of {} lines, {count} times", 20 * count);
        row(
            &format!("{name} one of {} changes, median", 2 * count),
            format!("{:.2} ms", times.percentile(50)),
            "",
            &meaning,
        );
        row(
            &format!("{name} one of {} changes, p99", 2 * count),
            format!("{:.2} ms", times.percentile(99)),
            "50 ms",
            "",
        );
    }
}

fn files() {
    let line = format!("for i in $(seq {FILES}); do echo new >>file_$i.txt; done");
    let call = json!({ "name": "bash", "arguments": { "command": line } });
    let sandbox = scripted(&[], &[json!({ "tool_calls": [call] }), json!({ "text": "Done." })]);
    for number in 1..=FILES {
        sandbox.write(&format!("file_{number}.txt"), "one\ntwo\n");
    }
    let mut editor = Editor::start(&sandbox);
    let session = run(&mut editor);
    let mut found = 0;
    let times = Times::of(10, || {
        let started = Instant::now();
        let listed = result(&mut editor, "pilcrow/review/list", json!({ "session": session }));
        found = listed["files"].as_array().unwrap().len();
        started.elapsed()
    });
    let meaning = format!("pilcrow/review/list with {found} files that a command changed, 10 times");
    row("review of many files, median", format!("{:.2} ms", times.percentile(50)), "", &meaning);
    row("review of many files, maximum", format!("{:.2} ms", times.percentile(100)), "1000 ms", "");
}
