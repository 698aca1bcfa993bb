//! Several processes with the same files.
//!
//! None of them writes a file with unsaved text in another.

use serde_json::json;

use super::*;

fn write(path: &str) -> String {
    json!({"path": path, "content": "new\n"}).to_string()
}

#[test]
fn standalone_does_not_write_open_files_of_the_owner() {
    let place = Place::with(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let mut owner = place.owner("Ed 1.0", &[("a.txt", "open, saved\n", false)]);
    // The disk's text, not the editor's.
    let shown = place.run(&["read", "a.txt", "--standalone"]).expect(0).says(&["\tone"]);
    let both = patch(&shown.stdout, "one", "uno")
        + &patch(&place.run(&["read", "b.txt", "--standalone"]).stdout, "two", "due");
    let ran = place.run_with_input(&["edit", "--standalone", "--json"], &both).expect(1);
    assert_eq!(ran.json()[0]["error"]["code"], "conflict");
    ran.says(&["a.txt", "Ed 1.0", &format!("process {}", owner.pid()), "--standalone"]);
    assert_eq!([place.text("a.txt"), place.text("b.txt")], ["one\n", "two\n"]);
    assert_eq!(owner.text("a.txt"), "open, saved\n");
    place.run(&["tool", "write", &write("c.txt"), "--yes", "--standalone"]).expect(0);
    assert_eq!(place.text("c.txt"), "new\n");
    place.run(&["undo", "--standalone"]).expect(0);
    assert!(!place.root().join("c.txt").exists());
    owner.end();
}

#[test]
fn owners_do_not_write_unsaved_files_of_another() {
    let place = Place::with(&[("a.txt", "one\n"), ("b.txt", "two\n"), ("c.txt", "three\n")]);
    let mut first = place.owner("First", &[("a.txt", "typed\n", true), ("c.txt", "typed\n", true)]);
    let mut second = place.owner("Second", &[("b.txt", "typed\n", true), ("a.txt", "one\n", false)]);
    // The owner with more unsaved text executes the command.
    let shown = place.run(&["read", "b.txt"]).expect(0).says(&["\ttwo"]);
    let ran = place.run_with_input(&["edit", "--json"], &patch(&shown.stdout, "two", "due")).expect(1);
    assert_eq!(ran.json()[0]["error"]["code"], "conflict");
    ran.says(&["b.txt", "unsaved", "Second", &format!("process {}", second.pid())]);
    assert_eq!((place.text("b.txt"), second.text("b.txt")), ("two\n".to_owned(), "typed\n".to_owned()));
    // A file that is open and saved in another owner can be written.
    let shown = place.run(&["read", "a.txt"]).expect(0).says(&["\ttyped"]);
    place.run_with_input(&["edit"], &patch(&shown.stdout, "typed", "changed")).expect(0);
    assert_eq!((first.text("a.txt"), second.text("a.txt")), ("changed\n".to_owned(), "one\n".to_owned()));
    first.end();
    second.end();
}

#[test]
fn owners_of_nested_workspaces_count_too() {
    let place = Place::with(&[("inner/a.txt", "one\n"), ("inner/b.txt", "two\n")]);
    let owner = place.owner_of(
        &place.root().join("inner"),
        "Ed",
        &[("a.txt", "typed\n", true), ("b.txt", "two\n", false)],
    );
    place.run(&["read", "inner/a.txt"]).expect(0).says(&["\tone"]);
    let patches = ["a", "b"].map(|name| {
        let shown = place.run(&["read", &format!("inner/{name}.txt")]).expect(0).stdout;
        patch(&shown, if name == "a" { "one" } else { "two" }, "changed")
    });
    place.run_with_input(&["edit"], &patches[0]).expect(1).says(&["inner/a.txt", "unsaved", "Ed"]);
    place.run_with_input(&["edit"], &patches[1]).expect(0);
    assert_eq!([place.text("inner/a.txt"), place.text("inner/b.txt")], ["one\n", "changed\n"]);
    owner.end();
}

#[test]
fn parallel_commands_lose_no_change() {
    let place = Place::with(&[("a.txt", "one\n")]);
    let owners = [place.owner("First", &[]), place.owner("Second", &[])];
    let names: Vec<String> = (0..12).map(|n| format!("{n}.txt")).collect();
    let start = |(n, name): (usize, &String)| {
        let arguments = write(name);
        let args = ["tool", "write", &arguments, "--yes", "--standalone"];
        place.start(if n % 3 == 0 { &args } else { &args[..4] })
    };
    let running: Vec<Child> = names.iter().enumerate().map(start).collect();
    for child in running {
        finish(child).expect(0);
    }
    assert!(names.iter().all(|name| place.text(name) == "new\n"));
    let history = place.run(&["undo", "--list", "--json"]).expect(0).json();
    assert_eq!(history.len(), names.len());
    for owner in owners {
        owner.end();
    }
}
