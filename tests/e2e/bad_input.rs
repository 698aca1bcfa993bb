//! Bad input: each case gives an error with its code and writes no file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, built, check_output, sandbox};

fn project() -> Sandbox {
    let sandbox =
        Sandbox::with(&[("a.txt", "one\ntwo\n"), ("a.py", "def greet(): ...\n"), ("folder/b.txt", "b\n")]);
    sandbox.write("latin.txt", b"caf\xe9\n");
    fs::write(sandbox.beside("outside.txt"), "outside\n").expect("a file outside");
    symlink(sandbox.beside("outside.txt"), sandbox.project().join("link.txt")).expect("a link");
    symlink(sandbox.beside("user"), sandbox.project().join("link folder")).expect("a link");
    sandbox
}

/// Asserts that the call fails with this code and exit 1, and mentions `says`.
///
/// Also asserts that it changes no file.
#[track_caller]
fn check(name: &str, arguments: Value, code: &str, says: &str) {
    let sandbox = project();
    let start = sandbox.tree();
    let answer = sandbox.tool(name, &arguments);
    let said = answer.fails(code);
    assert_eq!(answer.exit, Some(1), "{said}");
    assert!(said.contains(says), "{says} is missing in: {said}");
    assert_eq!(sandbox.tree(), start, "{arguments} wrote something");
    assert_eq!(fs::read_to_string(sandbox.beside("outside.txt")).expect("still there"), "outside\n");
    assert!(
        fs::read_dir(sandbox.beside("user")).expect("still there").next().is_none(),
        "{arguments} wrote outside"
    );
}

#[test]
fn an_unknown_tag_shows_the_current_lines() {
    check("edit", json!({"patch": "[a.txt#0F0F]\nPUT 1zz:\n+x\n"}), "unknown_tag", "one");
}

#[test]
fn an_unreadable_patch_is_refused() {
    check("edit", json!({"patch": "please change the first line"}), "invalid_patch", "");
    check("edit", json!({"patch": ""}), "invalid_patch", "");
}

#[test]
fn a_path_outside_the_workspace_is_denied() {
    check("read", json!({"path": "../outside.txt"}), "denied", "outside");
    check("write", json!({"path": "../new.txt", "content": "x"}), "denied", "outside");
    check("write", json!({"path": "/etc/pilcrow-test", "content": "x"}), "denied", "outside");
}

#[test]
fn a_path_that_leaves_through_a_link_is_denied() {
    check("read", json!({"path": "link.txt"}), "denied", "outside");
    check("write", json!({"path": "link.txt", "content": "x", "overwrite": true}), "denied", "outside");
    check("write", json!({"path": "link folder/new.txt", "content": "x"}), "denied", "outside");
    check("write", json!({"path": "link folder/../outside.txt", "content": "x"}), "denied", "outside");
}

#[test]
fn a_missing_file_is_reported() {
    check("read", json!({"path": "no such.txt"}), "not_found", "no such.txt");
}

#[test]
fn a_directory_in_place_of_a_file_is_refused() {
    check("write", json!({"path": "folder", "content": "x", "overwrite": true}), "not_a_file", "folder");
    check("lsp", json!({"action": "hover", "file": "folder", "line": 1}), "not_a_file", "folder");
}

#[test]
fn a_file_that_is_not_utf8_is_refused() {
    check("read", json!({"path": "latin.txt"}), "not_utf8", "latin.txt");
}

#[test]
fn invalid_arguments_are_refused() {
    check("read", json!({}), "invalid_arguments", "path");
    check("read", json!({"path": {"of": "a"}}), "invalid_arguments", "path");
    check("lsp", json!({"action": "no such action"}), "invalid_arguments", "action");
}

#[test]
fn a_missing_server_is_named_with_its_install_command() {
    let mut sandbox = project();
    let nowhere = sandbox.beside("no tools").display().to_string();
    sandbox.variables.insert("PILCROW_TOOLS".to_owned(), nowhere);
    sandbox.variables.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let answer =
        sandbox.tool("lsp", &json!({"action": "hover", "file": "a.py", "line": 1, "symbol": "greet"}));
    let said = answer.fails("missing_tool");
    assert_eq!(answer.exit, Some(1));
    check_output(
        &said,
        &expect!["basedpyright is not installed; install it: pilcrow adapters install basedpyright"],
    );
}

#[test]
fn malformed_json_is_a_usage_error() {
    let sandbox = project();
    let ran = sandbox.run(&["tool", "read", "{\"path\":", "--yes", "--json"]).expect(2);
    assert!(ran.all().contains("JSON"), "{ran:?}");
    let ran = sandbox.run(&["tool", "no_such_tool", "{}", "--yes", "--json"]).expect(2);
    assert!(ran.all().contains("no_such_tool"), "{ran:?}");
}

#[test]
fn a_batch_continues_after_an_unreadable_line() {
    let sandbox = project();
    let mut batch = Batch::start(&sandbox);
    for line in
        ["{\"name\":", "[]", "{\"name\": \"read\"}", "{\"name\": \"no_such_tool\", \"arguments\": {}}"]
    {
        assert!(batch.send(line));
        let answer = batch.answer(sandbox::DEADLINE).expect("it goes on");
        assert_eq!(answer.value["is_error"], json!(true), "{line}: {:#}", answer.value);
        assert!(answer.error().is_some(), "{line}: {:#}", answer.value);
    }
    assert!(batch.call("read", &json!({"path": "a.txt"})).ok().contains("one"));
}

#[test]
fn a_read_only_file_is_refused() {
    let mut sandbox = project();
    let file = sandbox.project().join("a.txt");
    sandbox.drop_root();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("mode");
    let start = sandbox.tree();
    let mut batch = Batch::start(&sandbox);
    let patch = batch.view("a.txt").put("one", "uno");
    let said = batch.edit(&patch).fails("read_only");
    assert!(said.contains("a.txt"), "{said}");
    assert_eq!(sandbox.tree(), start);
    assert_eq!(file.metadata().expect("meta").permissions().mode() & 0o777, 0o444);
}

#[test]
fn a_read_only_directory_refuses_only_new_files() {
    let mut sandbox = project();
    let directory = sandbox.project().join("folder");
    sandbox.drop_root();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o555)).expect("mode");
    let start = sandbox.tree();
    let said = sandbox.tool("write", &json!({"path": "folder/new.txt", "content": "x"})).fails("read_only");
    assert!(said.contains("folder"), "{said}");
    assert_eq!(sandbox.tree(), start);

    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().expect("meta"));
    let before = inode(&directory.join("b.txt"));
    let mut batch = Batch::start(&sandbox);
    let patch = batch.view("folder/b.txt").put("b", "B");
    batch.edit(&patch).ok();
    assert_eq!(sandbox.read("folder/b.txt"), "B\n");
    assert_eq!(inode(&directory.join("b.txt")), before, "it was replaced, not written in place");
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.tree(), start);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("mode");
}

#[test]
fn an_edited_file_keeps_its_mode() {
    let sandbox = project();
    let file = sandbox.project().join("a.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).expect("mode");
    let mut batch = Batch::start(&sandbox);
    let patch = batch.view("a.txt").put("one", "uno");
    batch.edit(&patch).ok();
    assert_eq!(file.metadata().expect("meta").permissions().mode() & 0o777, 0o751);
}

/// Writes 64 KiB while the project's or Pilcrow's own disk is a tiny full one.
///
/// The disk is mounted where only this process and its children see it.
fn on_a_full_disk(project_is_full: bool) {
    let mut unshare = vec!["unshare", "--mount"];
    if !rustix::process::geteuid().is_root() {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let sandbox = Sandbox::new();
    let script = r#"
        mount -t tmpfs -o size=256k tmpfs "$DISK" && printf 'here\n' > "$PROJECT/a.txt" || exit 9
        head -c 1000000 /dev/zero > "$DISK/fill" 2> "$NOTES"
        "$PILCROW" tool write "$ARGUMENTS" --yes --json -C "$PROJECT"
        echo "exit $?"
        ls -A "$PROJECT" | grep -vx fill
    "#;
    let full = if project_is_full { sandbox.project() } else { sandbox.home() };
    let mut command = Command::new(unshare[0]);
    sandbox.prepare(&mut command);
    command.args(&unshare[1..]).args(["sh", "-c", script]);
    command.env("PROJECT", sandbox.project()).env("DISK", full).env("NOTES", sandbox.beside("notes"));
    command.env("PILCROW", built::pilcrow());
    command.env("ARGUMENTS", json!({"path": "new.txt", "content": "x".repeat(65536)}).to_string());
    let ran = sandbox::finish(command.spawn().expect("unshare starts"), sandbox::DEADLINE);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.get(1..), Some(&["exit 1", "a.txt"][..]), "{ran:?}");
    let answer: Value = serde_json::from_str(lines[0]).expect("an answer");
    assert_eq!(answer["error"]["code"], json!("disk_full"), "{answer:#}");
}

#[test]
#[ignore = "needs the right to mount a tmpfs; cargo xtask test runs it"]
fn a_full_disk_is_reported_and_leaves_nothing() {
    on_a_full_disk(true);
}

#[test]
#[ignore = "needs the right to mount a tmpfs; cargo xtask test runs it"]
fn a_full_state_disk_leaves_the_project_alone() {
    on_a_full_disk(false);
}
