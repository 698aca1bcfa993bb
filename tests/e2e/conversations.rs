//! Conversations: resumed, branched, forked, and re-read.

use std::path::{Path, PathBuf};

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Sandbox, check_output, line_with};

fn script(sandbox: &Sandbox, name: &str, lines: &[Value]) -> String {
    let path = sandbox.beside(name);
    std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .expect("the script");
    format!("script:{}", path.display())
}

/// The newest conversation's id.
fn newest(sandbox: &Sandbox) -> String {
    let listed = sandbox.run(&["sessions", "list", "--json"]).expect(0).stdout;
    let first = listed.lines().next().expect("a conversation");
    let first: Value = serde_json::from_str(first).expect("JSON");
    first["id"].as_str().expect("an id").to_owned()
}

fn entries(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let tree = sandbox.run(&["sessions", "tree", id, "--json"]).expect(0).stdout;
    tree.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The id of the entry whose line has this text.
fn entry(sandbox: &Sandbox, id: &str, text: &str) -> String {
    let all = entries(sandbox, id);
    let found = all.iter().find(|it| it["text"].as_str().unwrap_or_default().contains(text));
    let found = found.unwrap_or_else(|| panic!("{text:?} is not in {all:#?}"));
    found["id"].as_str().expect("an id").to_owned()
}

fn read(path: &str) -> Value {
    json!([{"name": "read", "arguments": {"path": path, "offset": 4000, "limit": 3}}])
}

fn grep(path: &str) -> Value {
    json!([{"name": "grep", "arguments": {"path": path, "pattern": "^row 4001 "}}])
}

#[test]
fn a_truncated_result_names_the_place_of_the_rest() {
    let mut sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    sandbox.variables.insert("PILCROW_MODEL_CONTEXT_WINDOW".to_owned(), "40000".to_owned());
    let rows: String = (1..=5_000).map(|at| format!("row {at} has some words\n")).collect();
    sandbox.write("rows.txt", rows);
    let all = json!([{"name": "bash", "arguments": {"command": "cat rows.txt"}}]);
    let file = json!({"file": {"after": "full output in ", "before": "\n"}});
    let found = json!({"last_is_error": false, "last_contains": ["row 4001 has"]});
    let lines = [
        json!({"tool_calls": all}),
        json!({"capture": file, "tool_calls": read("{{file}}")}),
        json!({"expect": found, "tool_calls": grep("{{file}}")}),
        json!({"expect": found, "text": "Done."}),
    ];
    sandbox.run(&["run", "go", "--yes", "--model", &script(&sandbox, "bash.jsonl", &lines)]).expect(0);
    // The same holds for text that the agent itself truncates, also without a prompt, and in a fork
    // whose parent is deleted.
    let many = json!([{"name": "read", "arguments": {"path": "rows.txt", "offset": 1, "limit": 2000}}]);
    let whole = json!({"file": {"after": "the full output is in ", "before": " …]"}});
    let part = |path: &str| json!([{"name": "grep", "arguments": {"path": path, "pattern": "row"}}]);
    let lines = [
        json!({"tool_calls": many}),
        json!({"capture": whole, "tool_calls": part("{{file}}")}),
        json!({"expect": {"last_is_error": false, "last_contains": ["has some words"]}, "text": "Done."}),
    ];
    sandbox.run(&["run", "go", "--model", &script(&sandbox, "read.jsonl", &lines)]).expect(0);
    let parent = newest(&sandbox);
    let fork = sandbox.run(&["sessions", "fork", &parent]).expect(0).stdout.trim().to_owned();
    sandbox.run(&["sessions", "delete", &parent]).expect(0);
    let again = script(&sandbox, "again.jsonl", &lines[1..]);
    sandbox.run(&["sessions", "resume", &fork, "look again", "--model", &again]).expect(0);
    // No other file exists there.
    let secret = sandbox.beside("secret.txt");
    std::fs::write(&secret, "row of secrets\n").unwrap();
    let lines = [
        json!({"tool_calls": part(&secret.display().to_string())}),
        json!({"expect": {"last_is_error": true, "last_contains": ["outside the workspace"]}, "text": "Done."}),
    ];
    sandbox.run(&["run", "go", "--yes", "--model", &script(&sandbox, "out.jsonl", &lines)]).expect(0);
}

/// The lines are those of a read before an edit, and of the edit's result.
#[test]
fn a_resumed_conversation_edits_what_it_read() {
    let sandbox = Sandbox::with(&[("a.txt", "one\ntwo\n\nfour\n"), ("b.txt", "one\ntwo\nthree\n")]);
    let tag = |path: &str| json!({"after": format!("[{path}#"), "before": "]"});
    let check = |row: &str, text: &str| json!({"after": format!("\n{row}"), "before": format!("\t{text}\n")});
    let edit = |patch: &str| json!([{"name": "edit", "arguments": {"patch": patch}}]);
    let read = |path: &str| json!([{"name": "read", "arguments": {"path": path}}]);
    let part = json!([{"name": "read", "arguments": {"path": "b.txt", "offset": 2, "limit": 2}}]);
    let done = json!({"last_is_error": false});
    let lines = [
        json!({"tool_calls": part}),
        json!({"tool_calls": read("a.txt")}),
        json!({
            "capture": {"tag": tag("a.txt"), "two": check("2", "two")},
            "tool_calls": edit("[a.txt#{{tag}}]\nPUT 2{{two}}:\n+TWO\n+more\n")
        }),
        json!({"expect": done, "text": "Done."}),
    ];
    sandbox.run(&["run", "go", "--yes", "--model", &script(&sandbox, "first.jsonl", &lines)]).expect(0);
    let before = sandbox.read("a.txt");
    let id = newest(&sandbox);
    let old = json!({"after": "[a.txt#", "before": "]\n1"});
    let lines = [
        json!({
            "capture": {"tag": old, "four": check("4", "four")},
            "tool_calls": edit("[a.txt#{{tag}}]\nPUT 3..=4{{four}}:\n+FOUR\n")
        }),
        json!({
            "expect": done,
            "capture": {"tag": tag("b.txt"), "two": {"after": "]\n2", "before": "\ttwo"}},
            "tool_calls": edit("[b.txt#{{tag}}]\nPUT 2{{two}}:\n+TWO\n")
        }),
        json!({
            "expect": done,
            "capture": {"tag": tag("b.txt")},
            "tool_calls": edit("[b.txt#{{tag}}]\nCUT 1\n")
        }),
        json!({"expect": {"last_is_error": true}, "text": "Done."}),
    ];
    sandbox
        .run(&["sessions", "resume", &id, "on", "--yes", "--model", &script(&sandbox, "on.jsonl", &lines)])
        .expect(0);
    assert_eq!((&*before, &*sandbox.read("a.txt")), ("one\nTWO\nmore\n\nfour\n", "one\nTWO\nmore\nFOUR\n"));
    assert_eq!(sandbox.read("b.txt"), "one\nTWO\nthree\n", "line 1 was not shown");
}

#[test]
fn a_resumed_conversation_keeps_its_model() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let model = script(&sandbox, "one.jsonl", &[json!({"text": "By the script."})]);
    sandbox.run(&["run", "hello", "--model", &model]).expect(0);
    let id = newest(&sandbox);
    let ran = sandbox.run(&["sessions", "resume", &id, "again"]).expect(0);
    check_output(
        &ran.stdout,
        &expect![[r#"
        By the script.
    "#]],
    );
    let changes = |id: &str| entries(&sandbox, id).iter().filter(|it| it["type"] == "model_change").count();
    assert_eq!(changes(&id), 1, "before the first request");
    let other = script(&sandbox, "two.jsonl", &[json!({"text": "By another."})]);
    sandbox.run(&["sessions", "resume", &id, "and now", "--model", &other]).expect(0);
    assert_eq!(changes(&id), 2);
    let ran = sandbox.run(&["sessions", "resume", &id, "again"]).expect(0);
    check_output(
        &ran.stdout,
        &expect![[r#"
        By another.
    "#]],
    );
    // A missing model is reported.
    std::fs::remove_file(Path::new(other.strip_prefix("script:").unwrap())).unwrap();
    let output = sandbox.run(&["sessions", "resume", &id, "undo"]).all();
    check_output(
        &output,
        &expect![[r#"
            · cannot use script:<sandbox>/two.jsonl: cannot read the script <sandbox>/two.jsonl: No such file or directory (os error 2)
            the session continues with pilcrow/planner
            · undo 
            pilcrow: there is nothing to undo
        "#]],
    );
}

#[test]
fn an_imported_session_continues() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let recorded = include_str!("../../crates/agent/tests/imports/codex.jsonl");
    let file = sandbox.project().join("rollout.jsonl").display().to_string();
    std::fs::write(&file, recorded).unwrap();
    let ran = sandbox.run(&["sessions", "import", &file]).expect(0);
    check_output(
        &ran.all(),
        &expect![[r#"
        <id>  codex  9 messages
        pilcrow: <sandbox>/the project/rollout.jsonl: skipped line 13: expected ident at line 1 column 2
        · session <id> comes from /project; its paths may not exist here
    "#]],
    );
    let again = sandbox.run(&["sessions", "import", &file]).expect(1);
    check_output(
        &again.all(),
        &expect![[r#"
        pilcrow: the session <id> exists already; delete it to import it again
    "#]],
    );
    let expected = json!({"expect": {"messages": 4, "last_contains": ["and now"]}, "text": "Continued."});
    let model = script(&sandbox, "one.jsonl", &[expected]);
    let ran = sandbox.run(&["sessions", "continue", "and now", "--model", &model]).expect(0);
    check_output(
        &ran.stdout,
        &expect![[r#"
        Continued.
    "#]],
    );
}

#[test]
fn a_branch_reports_the_other_model_that_answered() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let model = script(&sandbox, "one.jsonl", &[json!({"text": "root answer"})]);
    sandbox.run(&["run", "hello", "--model", &model]).expect(0);
    let id = newest(&sandbox);
    sandbox.run(&["sessions", "resume", &id, "and more"]).expect(0);
    let root = entry(&sandbox, &id, "root answer");
    std::fs::remove_file(Path::new(model.strip_prefix("script:").unwrap())).unwrap();
    let output = sandbox.run(&["sessions", "branch", &id, &root]).expect(0).stderr;
    check_output(
        &output,
        &expect![[r#"
            · cannot use script:<sandbox>/one.jsonl: cannot read the script <sandbox>/one.jsonl: No such file or directory (os error 2)
            the session continues with pilcrow/planner
        "#]],
    );
}

#[test]
fn a_branch_is_summarized_only_by_the_named_model() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let talk = script(&sandbox, "talk.jsonl", &[json!({"text": "root answer"})]);
    sandbox.run(&["run", "hello", "--model", &talk]).expect(0);
    let id = newest(&sandbox);
    sandbox.run(&["sessions", "resume", &id, "and more", "--model", &talk]).expect(0);
    let root = entry(&sandbox, &id, "root answer");
    let end = entries(&sandbox, &id).last().expect("an entry")["id"].as_str().expect("an id").to_owned();
    let smol = script(&sandbox, "smol.jsonl", &[json!({"text": "by the small one"})]);
    let named = script(&sandbox, "named.jsonl", &[json!({"text": "by the named one"})]);
    let config = sandbox.home().join("config");
    std::fs::create_dir_all(&config).expect("the directory of the configuration");
    std::fs::write(config.join("config.toml"), format!("[roles.smol]\nmodel = '{smol}'\n")).expect("it");
    let summary = |model: &[&str]| {
        sandbox.run(&[&["sessions", "branch", &id, &root], model].concat()).expect(0);
        let shown = sandbox.run(&["sessions", "show", &id]).expect(0).stdout;
        sandbox.run(&["sessions", "branch", &id, &end]).expect(0);
        shown
    };
    let shown = summary(&["--model", &named]);
    check_output(
        &shown,
        &expect![[r#"
        Session <id> in <sandbox>/the project (<date>)

        [user]
        hello

        [<sandbox>/talk.jsonl]
        root answer

        [from another branch]
        by the named one
    "#]],
    );
    let shown = summary(&[]);
    check_output(
        &shown,
        &expect![[r#"
        Session <id> in <sandbox>/the project (<date>)

        [user]
        hello

        [<sandbox>/talk.jsonl]
        root answer

        [from another branch]
        by the small one
    "#]],
    );
}

#[test]
fn a_conversation_is_branched_named_forked_and_shown() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let say = |words: &[&str], prompt: &str, answer: &str| {
        let model = script(&sandbox, "say.jsonl", &[json!({"text": answer})]);
        sandbox.run(&[words, &[prompt, "--model", &model]].concat()).expect(0);
    };
    say(&["run"], "root question", "root answer");
    let id = newest(&sandbox);
    say(&["sessions", "resume", &id], "first way", "first end");
    let root = entry(&sandbox, &id, "root answer");
    let first = entry(&sandbox, &id, "first end");
    sandbox.run(&["sessions", "label", &id, &first, "the first"]).expect(0);
    // The session's own model summarizes, with the user's request; an extract is used if it returns
    // none.
    let expect = json!({"last_contains": ["first way", "keep the names"]});
    let lines = [json!({"expect": expect, "text": "## Goal\nby the model"})];
    let model = script(&sandbox, "summary.jsonl", &lines);
    let branch = |entry: &str, model: &str| {
        let words = ["sessions", "branch", &id, entry, "keep the names", "--model", model];
        sandbox.run(&words).expect(0)
    };
    branch(&root, &model);
    let shown = sandbox.run(&["sessions", "show", &id]).expect(0).stdout;
    assert!(shown.lines().any(|line| line.ends_with("by the model")), "{shown}");
    assert!(!shown.contains("first way"), "{shown}");
    // The abandoned branch has no entry, so the switch needs no summary.
    branch(&first, &model);
    let shown = sandbox.run(&["sessions", "show", &id]).expect(0).stdout;
    assert!(shown.contains("first end") && !shown.contains("by the model"), "{shown}");
    let silent = script(&sandbox, "silent.jsonl", &[]);
    check_output(
        line_with(&branch(&root, &silent).stderr, "extract"),
        &expect![
            "· the model could not summarize the abandoned branch (the script has no answer left (it has 0)); using an extract"
        ],
    );
    say(&["sessions", "resume", &id], "second way", "second end");
    let last_message = |id: &str| {
        let shown = sandbox.run(&["sessions", "show", id, "--json"]).expect(0).stdout;
        let last = shown.lines().last().expect("a message").to_owned();
        assert!(last.contains("branch"), "{last}");
        last
    };
    // A switch to another branch summarizes the abandoned part, not the common one.
    branch(&first, "planner");
    let last = last_message(&id);
    assert!(last.contains("second way") && !last.contains("root question"), "{last}");
    assert!(!last.contains("first way"), "{last}");
    let shown = sandbox.run(&["sessions", "show", &id]).expect(0).stdout;
    assert!(shown.contains("first end") && shown.contains("root question"), "{shown}");
    assert!(sandbox.run(&["sessions", "tree", &id]).expect(0).stdout.contains("<the first>"));
    // A fork has the entries up to its own, and each export format shows its origin.
    let fork = sandbox.run(&["sessions", "fork", &id, &root]).expect(0).stdout.trim().to_owned();
    let export = |form: &str| sandbox.run(&["sessions", "export", &fork, "--format", form]).expect(0).stdout;
    for form in ["markdown", "html", "jsonl"] {
        let text = export(form);
        assert!(text.contains("root answer") && !text.contains("first way"), "{form}: {text}");
    }
}

#[test]
fn a_lost_terminal_disconnects_the_run_but_keeps_the_session() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let model = script(&sandbox, "waits.jsonl", &[json!({"text": "half", "wait_for_cancel": true})]);
    let child = sandbox.command(&["run", "begin", "--json", "--model", &model]).spawn().expect("it starts");
    let begun = || sandbox.run(&["sessions", "list"]).stdout.contains("begin");
    assert!(tests::wait_for(std::time::Duration::from_secs(60), begun), "the run never began");
    tests::processes::kill(child.id(), rustix::process::Signal::HUP);
    let ran = tests::sandbox::finish(child, std::time::Duration::from_secs(60));
    let end = ran.stdout.lines().find(|line| line.contains("\"agent_end\"")).expect("the run ended");
    assert!(end.contains("\"reason\":\"disconnected\""), "{end}");
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let model =
        script(&sandbox, "goes_on.jsonl", &[json!({"expect": {"last_contains": ["on"]}, "text": "whole"})]);
    let id = newest(&sandbox);
    let gone_on = sandbox.run(&["sessions", "resume", &id, "on", "--model", &model]).expect(0).stdout;
    assert!(gone_on.contains("whole"), "{gone_on}");
}

/// Configures a path that is not a file, so that flushing fails.
#[test]
fn session_entries_are_flushed_when_configured() {
    for (fsync, resumes) in [(None, false), (Some("off"), true), (Some("on"), false), (Some("on"), true)] {
        let mut sandbox = Sandbox::with(&[("a.txt", "one\n")]);
        sandbox.variables.extend(fsync.map(|it| ("PILCROW_SESSIONS_FSYNC".to_owned(), it.to_owned())));
        let mut args = vec!["run".to_owned(), "begin".to_owned()];
        if resumes {
            let model = script(&sandbox, "one.jsonl", &[json!({"text": "an answer"})]);
            sandbox.run(&["run", "begin", "--model", &model]).expect(0);
            args = ["sessions", "resume", &newest(&sandbox), "go on"].map(str::to_owned).to_vec();
        }
        let waits = "touch began; while [ ! -e go ]; do sleep 0.05; done";
        let call = json!({"tool_calls": [{"name": "bash", "arguments": {"command": waits}}]});
        let model = script(&sandbox, "waits.jsonl", &[call, json!({"text": "whole"})]);
        args.extend(["--json", "--yes", "--model", &model].map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let child = sandbox.command(&args).spawn().expect("it starts");
        let long = std::time::Duration::from_secs(60);
        assert!(tests::wait_for(long, || sandbox.project().join("began").exists()), "the run never began");
        let file = the_file(&sandbox.home()).expect("the conversation's file");
        std::fs::remove_file(&file).expect("it goes");
        std::os::unix::fs::symlink("/dev/null", &file).expect("a link");
        sandbox.write("go", "");
        let ran = tests::sandbox::finish(child, long);
        let fails = fsync == Some("on");
        assert_eq!(ran.all().contains("Invalid argument"), fails, "{fsync:?}: {ran:?}");
        assert_eq!(ran.code(), i32::from(fails), "{fsync:?}: {ran:?}");
    }
}

/// The file of the only conversation below a directory.
fn the_file(directory: &Path) -> Option<PathBuf> {
    let entries =
        || std::fs::read_dir(directory).expect("a directory").map(|it| it.expect("an entry").path());
    let is_it =
        |path: &PathBuf| directory.ends_with("sessions") && path.extension().is_some_and(|it| it == "jsonl");
    let below = || entries().filter(|path| path.is_dir()).find_map(|path| the_file(&path));
    entries().find(is_it).or_else(below)
}

#[test]
fn a_session_truncated_by_a_crash_is_reported_on_open() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let one = script(&sandbox, "one.jsonl", &[json!({"text": "first answer"})]);
    sandbox.run(&["run", "begin", "--model", &one]).expect(0);
    let id = newest(&sandbox);
    let root = entry(&sandbox, &id, "begin");
    let cut = "skipped the last line, which a crash cut";
    // Each command repairs the file or leaves it unchanged.
    let tear = || {
        let directories = std::fs::read_dir(sandbox.home().join("state/workspaces")).expect("the state");
        let mut files: Vec<_> = directories
            .flat_map(|directory| {
                std::fs::read_dir(directory.expect("a directory").path().join("sessions")).expect("sessions")
            })
            .map(|file| file.expect("a file").path())
            .filter(|path| path.to_string_lossy().contains(&id))
            .collect();
        let path = files.pop().expect("the session's file");
        let whole = std::fs::read_to_string(&path).expect("its text");
        let whole = whole.lines().filter(|line| line.ends_with('}')).map(|line| format!("{line}\n"));
        std::fs::write(&path, whole.collect::<String>() + "{\"type\":\"mess").expect("a torn file");
    };
    for args in [
        ["sessions", "resume", &id, "on", "--model", &one].as_slice(),
        &["sessions", "resume", &id, "on", "--model", &one, "--json"],
        &["sessions", "label", &id, &root, "good"],
        &["sessions", "branch", &id, &root],
        &["sessions", "fork", &id],
        &["sessions", "fork", &id, "--json"],
        &["sessions", "show", &id],
        &["sessions", "compact", &id],
    ] {
        tear();
        let ran = sandbox.run(args).expect(0);
        assert_eq!(ran.all().matches(cut).count(), 1, "{args:?}: {ran:?}");
        let in_json = args.contains(&"--json");
        assert_eq!(ran.stdout.contains(cut), in_json, "{args:?}: {ran:?}");
    }
}

#[test]
fn an_entry_label_is_one_line_and_empty_removes_it() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let one = script(&sandbox, "one.jsonl", &[json!({"text": "first answer"})]);
    sandbox.run(&["run", "begin", "--model", &one]).expect(0);
    let id = newest(&sandbox);
    let root = entry(&sandbox, &id, "begin");
    let label = |label: &str| sandbox.run(&["sessions", "label", &id, &root, label]);
    let shown = || sandbox.run(&["sessions", "tree", &id]).expect(0).stdout;
    label("good").expect(0);
    assert!(shown().contains("<good>"));
    label("two\nlines").expect(2);
    label(" ").expect(0);
    assert!(!shown().contains('<'), "{}", shown());
    // No labels are requested, so none can be shown.
    sandbox.run(&["sessions", "search", "--limit", "0", "begin"]).expect(2);
}
