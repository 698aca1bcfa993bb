//! Output and exit codes are the same with and without an owner.

use serde_json::json;

use super::*;

#[test]
fn read_edit_undo_and_redo_go_through_the_editor() {
    let place = Place::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "other\n")]);
    let mut owner = place.owner("Ed 1.0", &[("a.txt", "one\nunsaved\n", true)]);
    let shown = place.run(&["read", "a.txt"]).expect(0).says(&["unsaved"]);
    let patch = patch(&shown.stdout, "unsaved", "edited");
    place.run_with_input(&["edit"], &patch).expect(0);
    assert_eq!(owner.text("a.txt"), "one\nedited\n");
    place.run(&["undo"]).expect(0).says(&["a.txt"]);
    assert_eq!(owner.text("a.txt"), "one\nunsaved\n");
    place.run(&["redo"]).expect(0);
    assert_eq!(owner.text("a.txt"), "one\nedited\n");
    place.run(&["read", "a.txt"]).expect(0).says(&["edited"]);
    assert_eq!(place.text("a.txt"), "one\ntwo\n", "unsaved text was saved");
    // A file that is not open in the editor is read from disk.
    let shown = place.run(&["read", "b.txt"]).expect(0);
    place.run_with_input(&["edit"], &super::patch(&shown.stdout, "other", "changed")).expect(0);
    assert_eq!(place.text("b.txt"), "changed\n");
    owner.end();
}

/// Replaces ids and times.
fn masked(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                let ids = ["session_id", "run_id", "run", "message_id", "commit_id", "commit"];
                let varies = ["at", "timestamp", "duration_ms", "tool_results"];
                if ids.contains(&name.as_str()) || varies.contains(&name.as_str()) {
                    assert!(!member.is_null());
                    *member = json!("…");
                } else {
                    *member = masked(member.take());
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = masked(item.take())),
        _ => {}
    }
    value
}

#[test]
fn output_and_exit_codes_do_not_depend_on_the_owner() {
    let place = Place::with(&[("a.txt", "one\ntwo\n")]);
    let write = json!({"path": "new.txt", "content": "new\n"}).to_string();
    let call = json!({"tool_calls": [{"name": "write", "arguments": {"path": "b", "content": "b"}}]});
    place.beside("write.jsonl", &format!("{call}\n{{\"text\": \"No.\"}}\n"));
    let calls: &[(&[&str], i32)] = &[
        (&["read", "a.txt"], 0),
        (&["read", "a.txt", "--json", "--offset", "2"], 0),
        (&["read", "none.txt"], 1),
        (&["read", "none.txt", "--json"], 1),
        (&["undo"], 1),
        (&["redo", "--json"], 1),
        (&["undo", "--commit", "none"], 1),
        (&["tool", "nonesuch"], 2),
        (&["tool", "read", "not JSON"], 2),
        (&["tool", "read", "{\"no\": 1}", "--json"], 1),
        (&["tool", "write", &write], 3),
        (&["tool", "write", &write, "--json"], 3),
        (&["run", "undo", "--model", "planner"], 1),
        (&["run", "write", "--model", "script:write.jsonl"], 3),
        (&["run", "write", "--model", "script:nonesuch"], 2),
        (&["run", "x", "--model", "nonesuch"], 2),
    ];
    let alone: Vec<Ran> = calls.iter().map(|(args, code)| place.run(args).expect(*code)).collect();
    let owner = place.owner("Ed", &[]);
    for ((args, _), alone) in calls.iter().zip(&alone) {
        assert_eq!(place.run(args), *alone, "{args:?}");
    }
    owner.end();
}

#[test]
fn changes_are_reported_the_same_with_an_owner() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let write = json!({"path": "new.txt", "content": "new\n"}).to_string();
    let both = || {
        let made = place.run(&["tool", "write", &write, "--yes", "--json"]).expect(0);
        assert_eq!(place.text("new.txt"), "new\n");
        let undone = place.run(&["undo", "--json"]).expect(0);
        assert!(!place.root().join("new.txt").exists());
        let mut undone = masked(undone.json().remove(0));
        undone["details"]["undoes"].take();
        [masked(made.json().remove(0)), undone]
    };
    let alone = both();
    let owner = place.owner("Ed", &[]);
    assert_eq!(both(), alone);
    owner.end();
}

#[test]
fn events_of_a_run_are_the_same_with_an_owner() {
    let place = Place::with(&[("a.txt", "one\n")]);
    // The script is relative to the command's directory, not the owner's.
    place.beside(
        "script.jsonl",
        "{\"text\": \"Looking, with “signs” \\u2713.\", \"tool_calls\": [{\"name\": \"read\", \"arguments\": {\"path\": \"a.txt\"}}, \
         {\"name\": \"write\", \"arguments\": {\"path\": \"b.txt\", \"content\": \"b\\n\"}}]}\n{\"text\": \"Done.\", \"usage\": {\"input\": 1, \"output\": 2}}\n",
    );
    let run = |args: &[&str]| {
        let args = [&["run", "do it", "--yes", "--model", "script:script.jsonl"], args].concat();
        let ran = place.run(&args).expect(0);
        std::fs::remove_file(place.root().join("b.txt")).unwrap();
        ran
    };
    let events = || run(&["--json"]).json().into_iter().map(masked).collect::<Vec<_>>();
    let (text, alone) = (run(&[]), events());
    assert!(alone.len() > 15 && alone.last().unwrap()["event"]["type"] == "agent_settled", "{alone:#?}");
    let owner = place.owner("Ed", &[]);
    assert_eq!(events(), alone);
    assert_eq!(run(&[]), text);
    owner.end();
}

#[test]
fn a_batch_remembers_what_it_read() {
    let place = Place::with(&[("a.txt", "one\ntwo\n")]);
    let mut owner = place.owner("Ed", &[("a.txt", "one\nunsaved\n", true)]);
    let mut batch = place.start(&["tool", "--batch", "--yes"]);
    let mut stdin = batch.stdin.take().unwrap();
    let mut stdout = BufReader::new(batch.stdout.take().unwrap());
    let mut call = |line: String| {
        writeln!(stdin, "{line}").unwrap();
        loop {
            let mut answer = String::new();
            assert_ne!(stdout.read_line(&mut answer).unwrap(), 0);
            if let Ok(answer @ Value::Object(_)) = serde_json::from_str(&answer) {
                return answer;
            }
        }
    };
    let shown = call(json!({"name": "read", "arguments": {"path": "a.txt"}}).to_string());
    let patch = patch(shown["content"][0]["text"].as_str().unwrap(), "unsaved", "edited");
    let edited = call(json!({"name": "edit", "arguments": {"patch": patch}}).to_string());
    assert_eq!(edited["is_error"], false, "{edited}");
    let unknown = call(json!({"name": "nonesuch"}).to_string());
    assert_eq!(unknown["error"]["code"], "not_found", "{unknown}");
    drop(stdin);
    assert!(batch.wait().unwrap().success());
    assert_eq!(owner.text("a.txt"), "one\nedited\n");
    owner.end();
}

#[test]
fn a_yes_is_valid_for_one_request() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let mut owner = place.owner("Ed", &[]);
    let write = |name: &str| json!({"path": name, "content": "new\n"}).to_string();
    place.run(&["tool", "write", &write("b.txt"), "--yes"]).expect(0);
    place.run(&["tool", "write", &write("c.txt")]).expect(3).says(&["--yes"]);
    assert_eq!(owner.ask("policy"), "Ask", "the yes of a command affected the owner");
    assert!(!place.root().join("c.txt").exists());
    owner.end();
}

#[test]
fn ctrl_c_stops_the_run_and_not_the_owner() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let script = place.beside("script.jsonl", "{\"text\": \"Thinking.\", \"wait_for_cancel\": true}\n");
    let mut child = place.start(&["run", "x", "--model", &format!("script:{script}")]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    until(&mut stdout, "Thinking.");
    send(&child, Signal::INT);
    let start = Instant::now();
    child.stdout = None;
    let stderr = {
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(stderr.contains("stopped"), "{stderr}");
    assert!(start.elapsed() < rpc_server::GREETING, "{:?}", start.elapsed());
    place.run(&["read", "a.txt"]).expect(0);
    owner.end();
}

#[test]
fn a_closed_terminal_disconnects_the_run() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let script = place.beside("script.jsonl", "{\"text\": \"Thinking.\", \"wait_for_cancel\": true}\n");
    let mut child = place.start(&["run", "x", "--json", "--model", &format!("script:{script}")]);
    until(child.stdout.as_mut().unwrap(), "Thinking.");
    send(&child, Signal::HUP);
    let ran = finish(child).expect(1);
    let end = ran.stdout.lines().find(|line| line.contains("\"agent_end\"")).expect("the run ended");
    assert!(end.contains("\"reason\":\"disconnected\""), "{end}");
    owner.end();
}

#[test]
fn killing_a_command_stops_its_run() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let script = place.beside("script.jsonl", "{\"text\": \"Thinking.\", \"wait_for_cancel\": true}\n");
    let mut child = place.start(&["run", "x", "--model", &format!("script:{script}")]);
    until(&mut BufReader::new(child.stdout.take().unwrap()), "Thinking.");
    child.kill().unwrap();
    child.wait().unwrap();
    let aborted = || place.run(&["sessions", "show", "--json"]).stdout.contains("aborted");
    assert!(wait(aborted), "the run continues");
    owner.end();
}
