//! The command line: exit status, permission without a user to ask, trust, output.

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Sandbox, Scripted, check_output};

#[test]
fn help_and_version_succeed_and_misuse_exits_with_2() {
    let sandbox = Sandbox::new();
    let version = sandbox.run_anywhere(&["--version"]).expect(0);
    check_output(
        &version.stdout,
        &expect![[r#"
        pilcrow 0.1.0
    "#]],
    );
    let help = sandbox.run_anywhere(&["--help"]).expect(0);
    for command in [
        "run", "tool", "read", "edit", "undo", "redo", "trust", "sessions", "adapters", "doctor", "logs",
        "config",
    ] {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{command} is missing in {}", help.stdout);
    }
    sandbox.run_anywhere(&[]).expect(2);
    sandbox.run(&["no-such-command"]).expect(2);
    sandbox.run(&["run", "x", "--no-such-flag"]).expect(2);
}

#[test]
fn without_terminal_and_yes_a_question_exits_with_3() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let scripted = Scripted::install(&mut sandbox, &[json!({"methods": {}})]);
    let start = sandbox.tree();
    let ran = sandbox.run(&["run", "rename greet to welcome in a.py:1", "--model", "planner"]).expect(3);
    assert!(
        ran.all().contains("--yes") || ran.all().contains("pilcrow trust"),
        "what to do is missing: {ran:?}"
    );
    assert_eq!(sandbox.tree(), start);
    assert_eq!(scripted.got("initialize"), 0, "a server was started in an untrusted project");
    sandbox.mark().none_left(std::time::Duration::from_secs(2));
}

#[test]
fn trust_is_granted_listed_and_revoked() {
    let sandbox = Sandbox::with(&[("a.txt", "x\n")]);
    let project = sandbox.project().display().to_string();
    assert!(!sandbox.run_anywhere(&["trust", "--list"]).expect(0).stdout.contains(&project));
    sandbox.run_anywhere(&["trust", &project]).expect(0);
    assert!(sandbox.run_anywhere(&["trust", "--list"]).expect(0).stdout.contains(&project));
    sandbox.run_anywhere(&["trust", "--remove", &project]).expect(0);
    assert!(!sandbox.run_anywhere(&["trust", "--list"]).expect(0).stdout.contains(&project));
}

#[test]
fn json_output_is_json_lines() {
    let sandbox = Sandbox::with(&[("a.txt", "x\n")]);
    let ran = sandbox.run(&["run", "undo", "--yes", "--json", "--model", "planner"]);
    assert!(!ran.stdout.is_empty(), "{ran:?}");
    for line in ran.stdout.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[test]
fn edits_in_batch_need_no_project_and_no_trust() {
    let sandbox = Sandbox::with(&[("a.txt", "on disk\n")]);
    let start = sandbox.tree();
    let row = json!({
        "id": 1, "path": "a.txt", "base": "a\nb\n", "current": "a\nb\n", "patch": "[a.txt#TAG]\nPUT 2:\n+B\n",
    });
    let ran = sandbox.run_with_input(&["edit", "--batch"], &format!("{row}\nno row\n{row}\n")).expect(0);
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<&str> = answers.iter().filter_map(|answer| answer["status"].as_str()).collect();
    assert_eq!(said, ["applied", "error", "applied"]);
    assert_eq!((&answers[0]["text"], &answers[1]["line"]), (&json!("a\nB\n"), &json!(2)));
    assert_eq!(sandbox.tree(), start);
}

#[test]
fn the_schema_is_a_schema_and_settings_have_origins() {
    let sandbox = Sandbox::with(&[("a.txt", "x\n")]);
    let schema: Value =
        serde_json::from_str(&sandbox.run(&["config", "schema"]).expect(0).stdout).expect("JSON");
    assert_eq!(schema["type"], json!("object"));
    let shown = sandbox.run(&["config", "show"]).expect(0);
    assert!(shown.stdout.contains("default"), "no origin in {}", shown.stdout);
}

#[test]
fn a_decision_of_the_policy_is_explained() {
    let sandbox = Sandbox::with(&[("a.txt", "x\n")]);
    std::fs::create_dir_all(sandbox.home().join("config")).unwrap();
    std::fs::write(sandbox.home().join("config/config.toml"), "policy.rules = ['allow exec git']\n").unwrap();
    let explained = sandbox.run(&["config", "why", "exec", "git push", "--json"]).expect(0);
    let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
    assert_eq!(explained["decision"], "ask");
    let levels: Vec<_> = explained["levels"].as_array().unwrap().iter().map(|it| &it["level"]).collect();
    assert_eq!(levels, ["default", "rule", "trust"]);
    sandbox.run(&["config", "why", "paint"]).expect(1);
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    let reasons = ["gopls", "debugpy", "bash"].map(|program| {
        let words = ["config", "why", "http", "pypi.org", "--by", program];
        sandbox.run(&words).expect(0).stdout.lines().next().unwrap_or_default().to_owned()
    });
    let asked = "ask: http: no rule matches, so the user is asked";
    assert_eq!(reasons, ["allow: http: a package registry", asked, asked]);
    let unknown = sandbox.run(&["config", "why", "http", "pypi.org", "--by", "gopl"]).expect(1);
    let first = "pilcrow: no program \"gopl\"; `--by` takes `bash` or one of";
    assert_eq!(unknown.stderr.lines().next(), Some(first));
}

#[test]
fn a_session_can_be_shown() {
    let sandbox = Sandbox::with(&[("a.txt", "x\n")]);
    sandbox.run(&["run", "say something that the planner cannot do", "--yes", "--model", "planner"]);
    let shown = sandbox.run(&["sessions", "show"]).expect(0);
    check_output(
        &shown.stdout,
        &expect![[r#"
            Session <id> in <sandbox>/the project (<date>)

            [user]
            say something that the planner cannot do

            [planner]
            The built-in planner does not understand this; it can rename, move, find, describe, check, fix, format, debug and test.
            `pilcrow run --help-planner` lists all sentences. For other requests set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) or model.default, or start a local server.
            (the built-in planner did not understand the request)
        "#]],
    );
    sandbox.run(&["sessions", "list"]).expect(0);
}

#[test]
fn reading_leaves_the_project_unchanged() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let start = sandbox.tree();
    let shown = sandbox.run(&["read", "a.txt"]).expect(0);
    assert!(shown.stdout.starts_with("[a.txt#"), "{shown:?}");
    assert_eq!(sandbox.tree(), start, "Pilcrow wrote a file into the project");
}

#[test]
fn a_file_is_named_relative_to_the_current_directory() {
    let sandbox = Sandbox::with(&[
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("a.txt", "root\n"),
        ("sub/a.txt", "below\n"),
    ]);
    for (file, header, text) in [
        ("a.txt", "[sub/a.txt#", "below"),
        ("./a.txt", "[sub/a.txt#", "below"),
        ("../a.txt", "[a.txt#", "root"),
    ] {
        let mut command = sandbox.command_anywhere(&["read", file]);
        let output = command.current_dir(sandbox.project().join("sub")).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.starts_with(header) && shown.contains(text), "{file}: {shown}");
    }
}

#[test]
fn an_untrusted_project_configuration_is_ignored() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n"), (".pilcrow/config.toml", "no_such_key = 1\n")]);
    sandbox.run(&["read", "a.txt"]).expect(0);
}

#[test]
fn a_run_without_a_session_settles_in_json() {
    let sandbox = Sandbox::new();
    for args in [&["run", "--json", "--model", "none/such", "hello"][..], &["run", "--json", " "]] {
        let ran = sandbox.run(args);
        assert!(!ran.status.success(), "{args:?}");
        let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [notice, last] = &lines[..] else { panic!("{args:?}: {lines:#?}") };
        assert_eq!(
            (&notice["event"]["type"], &notice["event"]["level"]),
            (&json!("notice"), &json!("error"))
        );
        assert!(ran.stderr.contains(notice["event"]["text"].as_str().unwrap()), "{}", ran.stderr);
        assert_eq!(last["event"]["type"], "agent_settled");
    }
}
