//! Installation with Cargo, and its progress at a terminal.
//!
//! Scripts replace package managers; one slow test uses Cargo itself.

use std::fs;
use std::process::Command;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Sandbox, Terminal, built, check_output, wait_for};

use crate::adapters::{PATIENCE, PUTS, found, managed, manager, ran, servers, with_managers};

/// A user's definition of a server that Cargo installs.
fn defined(sandbox: &Sandbox, packages: &[&str]) {
    let text = format!(
        "name = \"tiny\"\n[[languages]]\nid = \"tiny\"\npatterns = [\"*.tiny\"]\n\
         [command]\ncandidates = [\"tiny-server\"]\n[install]\nhow = \"cargo\"\npackages = {packages:?}\n"
    );
    let directory = sandbox.home().join("config/adapters/servers");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("tiny.toml"), text).expect("a file");
}

/// A fake Cargo that creates a program with the content `word`.
///
/// It fails when called otherwise.
fn cargo(word: &str) -> String {
    format!(
        r#"fail() {{ echo "called otherwise: $1" >&2; exit 101; }}
[ "$#" = 5 ] || fail "$# words"
[ "$1 $2 $3" = "install --locked --root" ] || fail "$1 $2 $3"
[ "$PWD" = "$4" ] || fail "in $PWD"
[ "$CARGO_TARGET_DIR" = "$4/build" ] || fail "building in $CARGO_TARGET_DIR"
name=${{5%@*}}
mkdir -p "$CARGO_TARGET_DIR/release" "$4/bin"
printf '#!/bin/sh\n# {word} %s\n' "$5" > "$CARGO_TARGET_DIR/release/$name"
chmod +x "$CARGO_TARGET_DIR/release/$name"
cp "$CARGO_TARGET_DIR/release/$name" "$4/bin/$name""#
    )
}

const INSTALL: [&str; 4] = ["adapters", "install", "tiny", "--yes"];

#[test]
fn cargo_installs_the_exact_locked_version() {
    let sandbox = with_managers(&[("cargo", &cargo("first"))]);
    defined(&sandbox, &["tiny-server@1.2.3", "tiny-more@0.4.0-rc.1"]);
    let place = managed(&sandbox).canonicalize().unwrap_or_else(|_| managed(&sandbox)).join("tiny/1.2.3");
    // No program runs before consent, and the command is shown.
    let said = sandbox.run(&INSTALL[..3]).expect(3).all();
    check_output(
        &said,
        &expect![[r#"
        pilcrow: there is no terminal to ask the user; `--yes` permits these commands:
        '<sandbox>/managers/cargo' install --locked --root '<sandbox>/home/data/adapters/tiny/1.2.3' tiny-server@1.2.3
        '<sandbox>/managers/cargo' install --locked --root '<sandbox>/home/data/adapters/tiny/1.2.3' tiny-more@0.4.0-rc.1
        into <sandbox>/home/data/adapters/tiny/1.2.3; it is compiled here
    "#]],
    );
    check_output(
        &said,
        &expect![[r#"
        pilcrow: there is no terminal to ask the user; `--yes` permits these commands:
        '<sandbox>/managers/cargo' install --locked --root '<sandbox>/home/data/adapters/tiny/1.2.3' tiny-server@1.2.3
        '<sandbox>/managers/cargo' install --locked --root '<sandbox>/home/data/adapters/tiny/1.2.3' tiny-more@0.4.0-rc.1
        into <sandbox>/home/data/adapters/tiny/1.2.3; it is compiled here
    "#]],
    );
    assert!(ran(&sandbox).is_empty(), "{said}");
    let said = sandbox.run(&[&INSTALL[..], &["--json"]].concat()).expect(0).stdout;
    let said: Value = serde_json::from_str(&said).expect("one line of JSON");
    assert_eq!((&said["status"], &said["version"]), (&json!("installed"), &json!("1.2.3")), "{said}");
    let calls = ["tiny-server@1.2.3", "tiny-more@0.4.0-rc.1"]
        .map(|package| format!("cargo install --locked --root {} {package}\n", place.display()));
    assert_eq!(ran(&sandbox), calls.concat());
    assert_eq!(found(&sandbox, "tiny"), json!([place.join("bin/tiny-server")]));
    assert!(place.join("bin/tiny-more").is_file());
    assert!(!place.join("build").exists(), "compiled files stay on disk");
    let lock = fs::read(managed(&sandbox).join("lock.json")).expect("a lock file");
    let lock: Value = serde_json::from_slice(&lock).expect("JSON");
    let mut locked = lock["adapters"]["tiny"].clone();
    assert!(locked["installed_at"].take().as_u64() > Some(0));
    let packages = json!(["tiny-server@1.2.3", "tiny-more@0.4.0-rc.1"]);
    let expected = json!({"version": "1.2.3", "how": "cargo", "packages": packages, "installed_at": null});
    assert_eq!(locked, expected);
    // The program exists already.
    sandbox.run(&INSTALL[..3]).expect(0);
    assert_eq!(ran(&sandbox).lines().count(), 2);
}

#[test]
fn a_failed_cargo_install_keeps_the_previous_version() {
    let sandbox = with_managers(&[("cargo", &cargo("first"))]);
    defined(&sandbox, &["tiny-server@1.2.3"]);
    sandbox.run(&INSTALL).expect(0);
    let word = || {
        let program = found(&sandbox, "tiny")[0].as_str().expect("the program is found").to_owned();
        fs::read_to_string(program).expect("what was installed").replace("#!/bin/sh\n", "")
    };
    assert_eq!(word(), "# first tiny-server@1.2.3\n");
    let fails = format!("{}\necho 'error: could not compile `tiny-server`' >&2; exit 101", cargo("half"));
    manager(&sandbox, "cargo", &fails);
    let said = sandbox.run(&[&INSTALL[..], &["--update"]].concat()).expect(1).all();
    check_output(
        &said,
        &expect![[r#"
        tiny: '<sandbox>/managers/cargo' install --locked --root '<sandbox>/home/data/adapters/tiny/1.2.3' tiny-server@1.2.3
        pilcrow: tiny: '<sandbox>/managers/cargo' install --locked --root '<sandbox>/home/data/adapters/tiny/1.2.3' tiny-server@1.2.3 failed (exit status: 101); nothing was installed
        error: could not compile `tiny-server`
    "#]],
    );
    assert_eq!(word(), "# first tiny-server@1.2.3\n");
    // The older version also stays if a newer one does not build.
    defined(&sandbox, &["tiny-server@2.0.0"]);
    sandbox.run(&INSTALL).expect(1);
    assert_eq!(word(), "# first tiny-server@1.2.3\n");
    let left = fs::read_dir(managed(&sandbox).join("tiny")).expect("the program exists").count();
    assert_eq!(left, 1, "an incomplete installation stays on disk");
    // One missing package of several fails the installation.
    manager(&sandbox, "cargo", &cargo("second").replace("name=", "case $5 in none*) exit 1;; esac\nname="));
    defined(&sandbox, &["tiny-server@2.0.0", "none@1.0.0"]);
    sandbox.run(&INSTALL).expect(1);
    assert_eq!(word(), "# first tiny-server@1.2.3\n");
    defined(&sandbox, &["tiny-server@2.0.0"]);
    sandbox.run(&INSTALL).expect(0);
    assert_eq!(word(), "# second tiny-server@2.0.0\n");
    fs::remove_file(sandbox.beside("managers/cargo")).expect("it goes");
    let said = sandbox.run(&[&INSTALL[..], &["--update"]].concat()).expect(1).all();
    check_output(
        &said,
        &expect![[r#"
        pilcrow: tiny: cargo is missing and installs tiny; get it first: https://rustup.rs
    "#]],
    );
    assert_eq!(word(), "# second tiny-server@2.0.0\n");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn cargo_itself_installs_a_program_that_runs() {
    let sandbox = Sandbox::new();
    defined(&sandbox, &["kibi@0.2.2"]);
    let file = sandbox.home().join("config/adapters/servers/tiny.toml");
    let text = fs::read_to_string(&file).expect("the definition").replace("tiny-server", "kibi");
    fs::write(&file, text).expect("the definition");
    sandbox.run(&INSTALL).expect(0);
    let program = found(&sandbox, "tiny")[0].as_str().expect("the program is found").to_owned();
    let ran = Command::new(&program).arg("--version").output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(said.trim(), "kibi, v0.2.2");
    assert!(!managed(&sandbox).join("tiny/0.2.2/build").exists(), "compiled files stay on disk");
}

/// `pilcrow` at its own terminal, which sends it Ctrl-C.
fn at_a_terminal(sandbox: &Sandbox, args: &[&str], columns: u16) -> Terminal {
    let mut command = Command::new("setsid");
    sandbox.prepare(&mut command);
    command.args(["--ctty", "--wait"]).arg(built::pilcrow()).args(args).arg("-C").arg(sandbox.project());
    Terminal::start_wide(&mut command, columns)
}

/// A script line that waits until the file of this number exists.
fn waits(number: u32) -> String {
    format!("while [ ! -e ../../go{number} ]; do sleep 0.02; done")
}

const PYRIGHT: [&str; 4] = ["adapters", "install", "pyright", "--yes"];

#[test]
fn installer_progress_is_one_rewritten_row() {
    let long = "y".repeat(300);
    let script = format!(
        "{PUTS}; printf 'fetching \\033[31mthe first\\033[0m\\007 of many\\n' >&2; {}; \
         echo 'the second' >&2; {}; echo '{long}' >&2; {}; printf 'key \\342\\200\\256 1\\n' >&2; {}",
        waits(1),
        waits(2),
        waits(3),
        waits(4)
    );
    let sandbox = with_managers(&[("npm", &script)]);
    let mut terminal = at_a_terminal(&sandbox, &PYRIGHT, 60);
    let goes = |number: u32| {
        fs::write(managed(&sandbox).join(format!("go{number}")), "").expect("a file");
    };
    // The rows of progress, each without the time.
    let progress = |terminal: &Terminal| -> Vec<String> {
        let rows = terminal.rows();
        let rows = rows.iter().filter_map(|row| row.strip_prefix("pyright: ")?.split_once(" s  "));
        rows.map(|(_, said)| said.to_owned()).collect()
    };
    let shows = |terminal: &Terminal, part: &str| {
        let came = wait_for(PATIENCE, || progress(terminal).iter().any(|row| row.contains(part)));
        assert!(came, "{part}: {:#?}", terminal.rows());
    };
    shows(&terminal, "fetching");
    assert_eq!(progress(&terminal), ["fetching [31mthe first[0m of many"]);
    goes(1);
    shows(&terminal, "the second");
    assert_eq!(progress(&terminal), ["the second"], "no part of the longer row before is left");
    goes(2);
    shows(&terminal, "yyy");
    let rows = terminal.rows();
    assert!(progress(&terminal).len() == 1 && rows.last().is_some_and(|row| row.len() < 60), "{rows:#?}");
    goes(3);
    shows(&terminal, "key");
    assert_eq!(progress(&terminal), ["key \\u{202e} 1"]);
    goes(4);
    assert!(terminal.ends(PATIENCE).success(), "{}", terminal.shown());
    let rows = terminal.rows();
    assert_eq!(progress(&terminal), [""; 0], "{rows:#?}");
    assert!(rows.iter().any(|row| row.starts_with("pyright 1.1.414 is installed (")), "{rows:#?}");
    let plain = terminal.shown().replace("\r\u{1b}[K", "").replace("\r\n", "\n");
    assert!(!plain.contains(|c: char| c.is_control() && c != '\n'), "{plain:?}");
}

#[test]
fn without_a_terminal_progress_is_plain_lines() {
    let script = format!("{PUTS}; printf '\\033[31mfetching\\n' >&2; {}", waits(1));
    let sandbox = with_managers(&[("npm", &script)]);
    let child = sandbox.command(&PYRIGHT).spawn().expect("pilcrow starts");
    // The first report appears at the start.
    assert!(wait_for(PATIENCE, || !ran(&sandbox).is_empty()), "npm was never started");
    fs::write(managed(&sandbox).join("go1"), "").expect("a file");
    let said = tests::sandbox::finish(child, PATIENCE).expect(0);
    assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    check_output(
        &said.stderr,
        &expect![[r#"
        pyright: '<sandbox>/managers/npm' install --ignore-scripts --no-audit --no-fund --loglevel=http pyright@1.1.414
    "#]],
    );
    assert!(!said.all().contains(|c: char| c.is_control() && c != '\n'), "{:?}", said.all());
}

#[test]
fn ctrl_c_ends_the_installer_and_its_processes() {
    let script = format!(
        "{PUTS}; trap '' INT; sleep 601 & setsid sleep 602 & echo 'fetching a package with a long name' >&2; \
         echo ready >> ../../begun; sleep 600"
    );
    let sandbox = with_managers(&[("npm", &script)]);
    let mut terminal = at_a_terminal(&sandbox, &PYRIGHT, 80);
    let begun = managed(&sandbox).join("begun");
    assert!(wait_for(PATIENCE, || begun.exists()), "npm was never started: {}", terminal.shown());
    terminal.waits_for("fetching a package", PATIENCE);
    terminal.types("\u{3}");
    assert_eq!(terminal.ends(Duration::from_secs(20)).code(), Some(1), "{}", terminal.shown());
    sandbox.mark().none_left(Duration::from_secs(5));
    assert_eq!((servers(&sandbox), found(&sandbox, "pyright")), (vec![], json!([])));
    let rows = terminal.rows();
    let last = rows.last().map(String::as_str);
    assert_eq!(last, Some("pilcrow: pyright: cancelled; nothing was installed"), "{rows:#?}");
    assert!(!rows.iter().any(|row| row.contains("fetching")), "{rows:#?}");
}
