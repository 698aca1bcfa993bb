//! Owners that hang or die: the command ends and reports it.
//!
//! No file is half written.

use serde_json::json;

use super::*;

fn write(path: &str) -> String {
    json!({"path": path, "content": "new\n"}).to_string()
}

#[test]
fn sockets_of_killed_owners_are_removed() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    assert_eq!(place.announced(), [format!("{}.sock", owner.pid())]);
    drop(owner);
    assert_eq!(place.announced().len(), 1, "a killed process cannot clean up");
    place.run(&["read", "a.txt"]).expect(0);
    assert_eq!(place.announced(), [""; 0]);
    // A normal end removes the socket.
    let owner = place.owner("Ed", &[]);
    owner.end();
    assert_eq!(place.announced(), [""; 0]);
}

#[test]
fn standalone_bypasses_a_hanging_owner() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[("a.txt", "one\n", false)]);
    owner.signal(Signal::STOP);
    let start = Instant::now();
    let ran = place.run(&["tool", "write", &write("b.txt"), "--yes"]).expect(1);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    ran.says(&[&format!("process {}", owner.pid()), "does not answer", "--standalone"]);
    assert!(!place.root().join("b.txt").exists());
    let ran = place.run(&["tool", "write", &write("b.txt"), "--yes", "--standalone"]).expect(0);
    ran.says(&[&format!("process {}", owner.pid()), "does not answer", "are not known"]);
    assert_eq!(place.text("b.txt"), "new\n");
    owner.signal(Signal::CONT);
    place.run(&["read", "a.txt"]).expect(0);
}

#[test]
fn an_owner_killed_during_a_run_is_reported() {
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
    // The commit is complete and can be undone.
    place.run(&["undo"]).expect(0);
    assert!(!place.root().join("b.txt").exists());
}

#[test]
fn an_owner_killed_during_a_commit_leaves_no_partial_file() {
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
fn closing_the_editor_stops_requests() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let script = place.beside("script.jsonl", "{\"text\": \"Thinking.\", \"wait_for_cancel\": true}\n");
    let mut child = place.start(&["run", "x", "--model", &format!("script:{script}")]);
    until(child.stdout.as_mut().unwrap(), "Thinking.");
    owner.end();
    finish(child).expect(1).says(&["stopped"]);
}

/// Starts a run that only a cancellation ends, and suspends its owner.
fn run_with_suspended_owner(place: &Place, owner: &OwnerProcess) -> Child {
    let script = place.beside("script.jsonl", "{\"text\": \"Thinking.\", \"wait_for_cancel\": true}\n");
    let mut child = place.start(&["run", "x", "--model", &format!("script:{script}")]);
    until(child.stdout.as_mut().unwrap(), "Thinking.");
    owner.signal(Signal::STOP);
    child
}

#[test]
fn ctrl_c_ends_the_command_of_a_hanging_owner() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let child = run_with_suspended_owner(&place, &owner);
    send(&child, Signal::INT);
    finish(child).expect(1).says(&["the Pilcrow of Ed", "did not confirm the cancellation"]);
}

#[test]
#[ignore = "slow: waits for deadlines; cargo xtask test runs it"]
fn a_command_ends_when_its_owner_stops_answering() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owner = place.owner("Ed", &[]);
    let child = run_with_suspended_owner(&place, &owner);
    finish(child).expect(1).says(&["the Pilcrow of Ed", "stopped answering"]);
}
