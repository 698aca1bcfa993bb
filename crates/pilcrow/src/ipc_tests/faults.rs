//! Owners that hang, die or go in the middle: the command ends, says so, and no file is half written.

use serde_json::json;

use super::*;

fn write(path: &str) -> String {
    json!({"path": path, "content": "new\n"}).to_string()
}

#[test]
fn what_a_killed_owner_left_is_removed() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    assert_eq!(place.announced(), [format!("{}.sock", owner.pid())]);
    drop(owner);
    assert_eq!(place.announced().len(), 1, "a killed process cannot clean up");
    place.run(&["read", "a.txt"]).expect(0);
    assert_eq!(place.announced(), [""; 0]);
    // One that ends by itself leaves nothing.
    let owner = place.owner("Ed", &[]);
    owner.end();
    assert_eq!(place.announced(), [""; 0]);
}

#[test]
fn an_owner_that_hangs_is_named_and_can_be_gone_past() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[("a.txt", "one\n", false)]);
    owner.signal(Signal::STOP);
    let asked = Instant::now();
    let ran = place.run(&["tool", "write", &write("b.txt"), "--yes"]).expect(1);
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    ran.says(&[&format!("process {}", owner.pid()), "does not answer", "--standalone"]);
    assert!(!place.root().join("b.txt").exists());
    let ran = place.run(&["tool", "write", &write("b.txt"), "--yes", "--standalone"]).expect(0);
    ran.says(&[&format!("process {}", owner.pid()), "does not answer", "is not known"]);
    assert_eq!(place.text("b.txt"), "new\n");
    owner.signal(Signal::CONT);
    place.run(&["read", "a.txt"]).expect(0);
}

#[test]
fn an_owner_killed_in_the_middle_of_a_run_is_told() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let script = place.beside(
        "script.jsonl",
        "{\"tool_calls\": [{\"name\": \"write\", \"arguments\": {\"path\": \"b.txt\", \"content\": \"b\\n\"}}]}\n{\"text\": \"Written.\", \"wait_for_cancel\": true}\n",
    );
    let mut child = place.start(&["run", "x", "--yes", "--model", &format!("script:{script}")]);
    until(child.stdout.as_mut().unwrap(), "Written.");
    owner.signal(Signal::KILL);
    let ran = finish(child).expect(1);
    ran.says(&["the Pilcrow of Ed", &format!("process {}", owner.pid()), "ended", "pilcrow undo --list"]);
    // What was committed is whole and can be taken back.
    place.run(&["undo"]).expect(0);
    assert!(!place.root().join("b.txt").exists());
}

#[test]
fn an_owner_killed_in_the_middle_of_a_commit_leaves_nothing_half_done() {
    let mut place = Place::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let [a, b] = ["a.txt", "b.txt"].map(|path| place.run(&["read", path]).expect(0).stdout);
    let patch = patch(&a, "one", "uno") + &patch(&b, "two", "due");
    place.variables.push(("PILCROW_FAULT", "commit:after-rename:1".to_owned()));
    let mut owner = place.owner("Ed", &[]);
    place.variables.clear();
    let ran = place.run_with_input(&["edit"], &patch).expect(1);
    assert!(!owner.child.wait().unwrap().success());
    ran.says(&["ended before it answered", "a.txt", "half written"]);
    assert_eq!([place.text("a.txt"), place.text("b.txt")], ["one\n", "two\n"]);
    place.run_with_input(&["edit"], &patch).expect(0);
    assert_eq!([place.text("a.txt"), place.text("b.txt")], ["uno\n", "due\n"]);
}

#[test]
fn an_editor_that_is_closed_in_the_middle_stops_what_was_asked_for() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let script = place.beside("script.jsonl", "{\"text\": \"Thinking.\", \"wait_for_cancel\": true}\n");
    let mut child = place.start(&["run", "x", "--model", &format!("script:{script}")]);
    until(child.stdout.as_mut().unwrap(), "Thinking.");
    owner.end();
    finish(child).expect(1).says(&["stopped"]);
}

/// A run that only a cancel ends, and the owner that stops in the middle of it.
fn stopped_in_the_middle(place: &Place, owner: &OwnerProcess) -> Child {
    let script = place.beside("script.jsonl", "{\"text\": \"Thinking.\", \"wait_for_cancel\": true}\n");
    let mut child = place.start(&["run", "x", "--model", &format!("script:{script}")]);
    until(child.stdout.as_mut().unwrap(), "Thinking.");
    owner.signal(Signal::STOP);
    child
}

#[test]
fn ctrl_c_ends_the_command_though_the_owner_hangs() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let child = stopped_in_the_middle(&place, &owner);
    send(&child, Signal::INT);
    finish(child).expect(1).says(&["the Pilcrow of Ed", "told to stop"]);
}

#[test]
#[ignore = "slow: waits for deadlines; cargo xtask test runs it"]
fn an_owner_that_falls_silent_is_not_waited_for() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let child = stopped_in_the_middle(&place, &owner);
    finish(child).expect(1).says(&["the Pilcrow of Ed", "stopped answering"]);
}
