//! Context of a model besides the prompt, and its changes during a run.
//!
//! The context is context files, skills, templates and agents.

use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Editor, Sandbox, check_output, line_with};

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

fn user_file(sandbox: &Sandbox, path: &str) -> PathBuf {
    sandbox.home().join("config").join(path)
}

fn script(sandbox: &Sandbox, lines: &[Value]) -> String {
    let path = sandbox.beside("script.jsonl");
    std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        .expect("the script");
    format!("script:{}", path.display())
}

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: For {name}.\n---\nThe body of {name}.\n")
}

#[test]
fn user_and_trusted_project_instructions_reach_the_model() {
    let sandbox =
        Sandbox::with(&[("AGENTS.md", "Use tabs here.\n"), (".pilcrow/APPEND_SYSTEM.md", "Be brief.\n")]);
    put(&user_file(&sandbox, "AGENTS.md"), "Speak plainly.\n");
    let run = |expected: Value, yes: bool| {
        let model = script(&sandbox, &[json!({"expect": expected, "text": "Done."})]);
        let mut args = vec!["run", "hello", "--model", &model];
        if yes {
            args.push("--yes");
        }
        sandbox.run(&args).expect(0)
    };
    let ran = run(json!({"system_contains": ["You are Pilcrow", "Speak plainly."]}), false);
    check_output(
        &ran.all(),
        &expect![[r#"
        Done.
        · ignored <sandbox>/the project/.pilcrow/APPEND_SYSTEM.md: the workspace is not trusted; run `pilcrow trust`
        · ignored <sandbox>/the project/AGENTS.md: the workspace is not trusted; run `pilcrow trust`
    "#]],
    );
    let expected =
        json!({"system_contains": ["You are Pilcrow", "Speak plainly.", "Use tabs here.", "Be brief."]});
    let ran = run(expected.clone(), true);
    assert!(!ran.all().contains("not followed"), "{ran:?}");
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    run(expected, false);
    let parts = sandbox.run(&["tools", "--budget"]).expect(0).stdout;
    assert!(parts.contains("AGENTS.md") && parts.contains("APPEND_SYSTEM.md"), "{parts}");
    // A run started in a subdirectory gets the same context.
    sandbox.write("sub/CLAUDE.md", "Only below.\n");
    let mut below = sandbox.command(&["tools", "--budget"]);
    let ran = tests::sandbox::finish(
        below.current_dir(sandbox.project().join("sub")).spawn().expect("it starts"),
        tests::sandbox::DEADLINE,
    );
    assert!(ran.stdout.contains("sub/CLAUDE.md"), "{ran:?}");
}

#[test]
fn skills_and_templates_are_called_by_name() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let file = user_file(&sandbox, "skills/care/SKILL.md");
    put(&file, &skill("care"));
    put(
        &user_file(&sandbox, "prompts/look.md"),
        "---\ndescription: Look\n---\nLook at $1 and ${2:-nothing else}.\n",
    );
    // The model reads the files it was given without a permission question.
    let model = script(
        &sandbox,
        &[
            json!({"expect": {"system_contains": ["- care: For care."], "last_contains": ["Look at a b and nothing else."]},
                "tool_calls": [{"name": "read", "arguments": {"path": file}}]}),
            json!({"expect": {"last_is_error": false, "last_contains": ["The body of care."]}, "text": "Done."}),
        ],
    );
    sandbox.run(&["run", "/look 'a b'", "--model", &model]).expect(0);
    let called =
        json!({"expect": {"last_contains": ["The body of care.", "</skill>\n\nwith care"]}, "text": "Done."});
    let model = script(&sandbox, &[called]);
    sandbox.run(&["run", "/skill:care with care", "--model", &model]).expect(0);
    let ran = sandbox.run(&["run", "/skill:car", "--model", &model]).expect(2);
    check_output(
        &ran.stderr,
        &expect![[r#"
        pilcrow: there is no skill "car"; the nearest is care
    "#]],
    );
    // An editor gets the same answer.
    let mut sandbox = sandbox;
    let model =
        script(&sandbox, &[json!({"expect": {"last_contains": ["Look at x and y."]}, "text": "Seen."})]);
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), model);
    let mut editor = Editor::start(&sandbox);
    let session = editor.run("pilcrow.prompt", json!({"text": "/look x y"}));
    assert_eq!(editor.ended(&session), "done");
    editor.wait_for_message("Seen.");
    editor.shut_down();
}

#[test]
fn an_agent_has_its_own_instructions_tools_and_files() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    put(&user_file(&sandbox, "agents/reviewer/SYSTEM.md"), "You review; see resources/rules.md.\n");
    put(&user_file(&sandbox, "agents/reviewer/resources/rules.md"), "No tabs.\n");
    put(
        &user_file(&sandbox, "agents/reviewer/tools.toml"),
        "disable = ['write', 'edit']\ndiscovery = 'off'\n",
    );
    let rules = user_file(&sandbox, "agents/reviewer/resources/rules.md");
    // The instructions name a file by a relative path; a note with its directory follows.
    let resources = rules.parent().expect("a directory").display().to_string();
    let note = format!("Paths above that begin with resources/ are in {resources}: read them there.");
    let model = script(
        &sandbox,
        &[
            json!({"expect": {"system_contains": ["You review;", note], "tools_include": ["read", "undo"], "tools_exclude": ["write", "edit", "search_tools"]},
                "tool_calls": [{"name": "read", "arguments": {"path": rules}}]}),
            json!({"expect": {"last_is_error": false, "last_contains": ["No tabs."]},
                "tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}),
            json!({"expect": {"last_is_error": false, "last_contains": ["one"]}, "text": "Done."}),
        ],
    );
    sandbox.run(&["run", "review", "--agent", "reviewer", "--model", &model]).expect(0);
    // The session resumes as this agent, and the system prompt states it once.
    let on = json!({"expect": {"system_contains": ["You review;"], "tools_exclude": ["write", "edit"]}, "text": "On."});
    let mut notes = Vec::new();
    for _ in 0..2 {
        let model = script(&sandbox, std::slice::from_ref(&on));
        let listed = sandbox.run(&["sessions", "list", "--json"]).expect(0).stdout;
        let listed: Value = serde_json::from_str(listed.trim()).expect("one session");
        let id = listed["id"].as_str().expect("an id");
        let ran = sandbox.run(&["sessions", "resume", id, "on", "--model", &model]).expect(0);
        notes.push(line_with(&ran.stderr, "`reviewer`").to_owned());
        let kept = sandbox.run(&["sessions", "export", id, "--format", "jsonl"]).expect(0).stdout;
        assert_eq!(kept.matches("\"customType\":\"agent\"").count(), 1, "{kept}");
    }
    check_output(
        &notes.join("\n"),
        &expect![[r#"
        · the session continues with the agent profile `reviewer`
        · the session continues with the agent profile `reviewer`"#]],
    );
    // `config show --agent` lists its parts, and an editor can select it.
    let shown = sandbox.run(&["config", "show", "--agent", "reviewer"]).expect(0).stdout;
    assert!(shown.contains("\"write\",  # ") && shown.contains("tools.toml:1"), "{shown}");
    assert!(!sandbox.run(&["config", "show"]).expect(0).stdout.contains("tools.toml"));
    let ran = sandbox.run(&["config", "show", "--agent", "reviwer"]).expect(1);
    check_output(
        &ran.stderr,
        &expect![[r#"
        pilcrow: there is no agent "reviwer" in <sandbox>/home/config/agents; there are reviewer
    "#]],
    );
    let mut sandbox = sandbox;
    let asked = script(
        &sandbox,
        &[
            json!({"expect": {"system_contains": ["You review;"], "tools_exclude": ["write", "edit"]}, "text": "Looked."}),
        ],
    );
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), asked);
    let mut editor = Editor::start_as(&sandbox, &["--agent", "reviewer"]);
    let session = editor.run("pilcrow.prompt", json!({"text": "review"}));
    assert_eq!(editor.ended(&session), "done");
    editor.wait_for_message("Looked.");
    editor.shut_down();
    // The session resumes as that agent in an editor without one and on the command line.
    let mut editor = Editor::start(&sandbox);
    editor.run("pilcrow.prompt", json!({"text": "go on", "resume": session}));
    assert_eq!(editor.ended(&session), "done");
    editor.wait_for_message("Looked.");
    editor.shut_down();
    let ran = sandbox.run(&["sessions", "resume", &session, "on"]).expect(0);
    check_output(
        &ran.stderr,
        &expect![[r#"
        · the session continues with the agent profile `reviewer`
    "#]],
    );
    let kept = sandbox.run(&["sessions", "export", &session, "--format", "jsonl"]).expect(0).stdout;
    assert_eq!(kept.matches("\"customType\":\"agent\"").count(), 1, "{kept}");
    sandbox.variables.remove("PILCROW_MODEL");
    for (name, part) in [("reviwer", "there are reviewer"), ("../agents/reviewer", "there is no agent")] {
        let ran = sandbox.run(&["run", "review", "--agent", name, "--model", &model]).expect(2);
        assert!(ran.stderr.contains(part), "{ran:?}");
    }
    // Unknown tool names are reported, and the origin of an empty list too.
    put(&user_file(&sandbox, "agents/reviewer/tools.toml"), "enable = []\ndisable = ['Bash', 'show']\n");
    let shown = sandbox.run(&["config", "show", "--agent", "reviewer"]).expect(0).stdout;
    assert!(
        shown.lines().any(|it| it.starts_with("tools.enable = []") && it.ends_with("tools.toml:1")),
        "{shown}"
    );
    let model = script(&sandbox, &[json!({"text": "Done."})]);
    let ran = sandbox.run(&["run", "review", "--agent", "reviewer", "--model", &model]).expect(0);
    let said = "`tools.disable` names `Bash`, and there is no such tool; the nearest is `bash`";
    assert!(ran.stderr.contains(said) && !ran.stderr.contains("`show`"), "{ran:?}");
    put(&user_file(&sandbox, "agents/reviewer/tools.toml"), "\ndisabel = ['write']\n");
    let ran = sandbox.run(&["run", "review", "--agent", "reviewer", "--model", &model]).expect(2);
    check_output(
        &ran.stderr,
        &expect![[r#"
        pilcrow: <sandbox>/home/config/agents/reviewer/tools.toml:2: there is no key `tools.disabel`; the nearest is `tools.disable`
    "#]],
    );
}

#[test]
fn a_changed_setting_applies_from_the_next_turn() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let write = |path: &str, text: &str| json!({"tool_calls": [{"name": "write", "arguments": {"path": path, "content": text, "overwrite": true}}]});
    let model = script(
        &sandbox,
        &[
            write("b.txt", "allowed\n"),
            write(
                ".pilcrow/config.toml",
                "policy.rules = ['deny write c.txt']\nrun.turn_limit = 4\nlsp.max_warm = 2\n[tools]\ndiscovery = 'off'\n",
            ),
            json!({"expect": {"tools_include": ["undo"]}, "tool_calls": [{"name": "write", "arguments": {"path": "c.txt", "content": "x"}}]}),
            json!({"expect": {"last_is_error": true, "last_contains": ["deny write c.txt"]}, "tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}),
            json!({"text": "never asked"}),
        ],
    );
    let ran = sandbox.run(&["run", "go", "--yes", "--json", "--model", &model]).expect(1);
    assert!(
        ran.stdout.contains("\"reason\":\"turn_limit\"") && !ran.stdout.contains("never asked"),
        "{ran:?}"
    );
    let events = ran.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let changed: Vec<String> =
        events.map(|it| it["event"]["changed"].to_string()).filter(|it| it != "null").collect();
    check_output(
        &changed.join("\n"),
        &expect![[
            r#"["lsp.max_warm (from the next run on)","policy.rules","run.turn_limit","tools.discovery"]"#
        ]],
    );
    assert!(!sandbox.project().join("c.txt").exists());
}

#[test]
fn changed_context_files_apply_from_the_next_turn() {
    let sandbox = Sandbox::with(&[("AGENTS.md", "Old words.\n"), (".pilcrow/prompts/t.md", "Template.\n")]);
    let write = |path: &str, text: &str| json!({"tool_calls": [{"name": "write", "arguments": {"path": path, "content": text, "overwrite": true}}]});
    let mut lines = vec![
        json!({"expect": {"system_contains": ["Old words."]}, "tool_calls": [{"name": "read", "arguments": {"path": "AGENTS.md"}}]}),
        json!({"tool_calls": [{"name": "read", "arguments": {"path": ".pilcrow/prompts/t.md"}}]}),
        write(".pilcrow/prompts/t.md", "---\nbroken: [\n---\n"),
        write(".pilcrow/skills/new/SKILL.md", &skill("new")),
        write(".pilcrow/config.toml", "run.turn_limt = 3\n"),
        write(".pilcrow/adapters/servers/mine.toml", "name = 3\n"),
        write("AGENTS.override.md", "New words.\n"),
    ];
    lines.push(json!({"expect": {"system_contains": ["New words.", "- new: For new."]}, "text": "Done."}));
    let model = script(&sandbox, &lines);
    let ran = sandbox.run(&["run", "go", "--yes", "--json", "--model", &model]).expect(0);
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reloaded = events.iter().map(|it| &it["event"]).filter(|event| event["type"] == "reloaded");
    let list = |name: &str| -> Vec<String> {
        let all = reloaded.clone().flat_map(|event| event[name].as_array().unwrap());
        all.map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let (changed, problems) = (list("changed").join("\n"), list("problems").join("\n"));
    for part in ["skill new", "AGENTS.override.md", "AGENTS.md was removed"] {
        assert!(changed.contains(part), "{part} is missing in {changed}\n{problems}");
    }
    for part in [
        "t.md:",
        "the previous version of the template is still used",
        "config.toml:1: there is no key `run.turn_limt`; the nearest is `run.turn_limit`",
        "the previous settings stay in force",
        "mine.toml",
    ] {
        assert!(problems.contains(part), "{part} is missing in {problems}\n{changed}");
    }
}

/// Changes the definitions of a server and an adapter of the user during the run.
#[test]
fn edited_adapter_definitions_apply_from_the_next_turn() {
    let sandbox = Sandbox::with(&[("a.words", "one\n")]);
    let put = |name: &str, text: &str| {
        let file = sandbox.home().join("config/adapters").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    // The output of both programs, and the files in which they record requests.
    let defines = |word: &str| {
        let (server, adapter) = (format!("{word}-server.json"), format!("{word}-adapter.json"));
        let answers = json!([[{"result": {"contents": format!("the {word} one")}}]]);
        let text = json!({"capabilities": {"textDocumentSync": 1, "hoverProvider": true},
            "record": sandbox.beside(&format!("{word}-server.record")), "methods": {"textDocument/hover": answers}});
        std::fs::write(sandbox.beside(&server), text.to_string()).unwrap();
        let runs = json!([[{"body": {}}, {"event": {"event": "exited", "body": {"exitCode": 0}}},
            {"event": {"event": "terminated"}}]]);
        let text = json!({"capabilities": {"supportsConfigurationDoneRequest": true},
            "record": sandbox.beside(&format!("{word}-adapter.record")), "commands": {"configurationDone": runs}});
        std::fs::write(sandbox.beside(&adapter), text.to_string()).unwrap();
        let ends = "[install]\nhow = \"page\"\npage = \"x\"\n";
        put(
            "servers/mine.toml",
            &format!(
                "name = \"mine\"\n[[languages]]\nid = \"words\"\npatterns = [\"*.words\"]\n\
                 [command]\ncandidates = [{:?}]\nargs = [{:?}]\n{ends}",
                tests::built::scripted_language_server(),
                sandbox.beside(&server),
            ),
        );
        put(
            "debuggers/own.toml",
            &format!(
                "format = 1\nname = \"own\"\npatterns = [\"*.words\"]\nverified = false\n\
                 command.candidates = [{:?}]\ncommand.args = [{:?}]\n[launch]\nprogram = \"${{program}}\"\n{ends}",
                tests::built::scripted_debug_adapter(),
                sandbox.beside(&adapter),
            ),
        );
    };
    defines("old");
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let hover = call("lsp", json!({"action": "hover", "file": "a.words", "line": 1, "symbol": "one"}));
    let debug = call("debug", json!({"action": "launch", "program": "a.words"}));
    let waits = call("bash", json!({"command": "touch began; while [ ! -e go ]; do sleep 0.05; done"}));
    let said = |word: &str| json!({"last_contains": [format!("the {word} one")]});
    let model = script(
        &sandbox,
        &[
            json!({"tool_calls": [debug]}),
            json!({"tool_calls": [hover]}),
            json!({"expect": said("old"), "tool_calls": [waits]}),
            json!({"tool_calls": [debug]}),
            json!({"tool_calls": [hover]}),
            json!({"expect": said("new"), "text": "Done."}),
        ],
    );
    let child = sandbox.command(&["run", "go", "--yes", "--json", "--model", &model]).spawn().unwrap();
    let began = || sandbox.project().join("began").exists();
    assert!(
        tests::wait_for(Duration::from_secs(60), began),
        "{:?}",
        tests::sandbox::finish(child, Duration::ZERO)
    );
    assert!(!sandbox.beside("new-server.record").exists());
    defines("new");
    sandbox.write("go", "");
    let ran = tests::sandbox::finish(child, Duration::from_secs(60)).expect(0);
    let events = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone());
    let reloaded: Vec<Value> = events.filter(|event| event["type"] == "reloaded").collect();
    let expected =
        json!({"type": "reloaded", "changed": ["language server mine", "debugger own"], "problems": []});
    assert_eq!(reloaded, [expected]);
    let got = |name: &str| testing::recorded(&sandbox.beside(name)).len();
    assert!(got("new-adapter.record") > 0 && got("new-server.record") > 0);
    let launches = |name: &str| {
        let all = testing::recorded(&sandbox.beside(name));
        all.iter().filter(|it| it["command"] == "launch").count()
    };
    assert_eq!((launches("old-adapter.record"), launches("new-adapter.record")), (1, 1));
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
fn search_covers_all_conversations_until_deleted() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let say = |prompt: &str, answer: &str| {
        let model = script(&sandbox, &[json!({"text": answer})]);
        sandbox.run(&["run", prompt, "--model", &model]).expect(0);
    };
    let none = sandbox.run(&["sessions", "search", "frobnicate"]).expect(0);
    assert!(none.stdout.is_empty() && none.stderr.contains("no entry"), "{none:?}");
    say("please frobnicate it", "Done with parseHeader.");
    say("and this too", "It was frobnicated before.");
    let found = |args: &[&str]| -> Vec<Value> {
        let args = [&["sessions", "search", "--json"], args].concat();
        let lines = sandbox.run(&args).expect(0).stdout;
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let one = found(&["frobnicate"]);
    assert_eq!((one.len(), &one[0]["text"]), (1, &json!("please frobnicate it")), "{one:?}");
    assert_eq!(found(&["header", "--limit", "1"])[0]["type"], "assistant");
    assert_eq!(found(&["header", "--all"])[0]["text"], "Done with parseHeader.");
    let place = sandbox.project().canonicalize().unwrap();
    assert_eq!(found(&["--all", "header"])[0]["cwd"], place.display().to_string());
    let shown = sandbox.run(&["sessions", "search", "was", "frobnicated"]).expect(0).stdout;
    assert!(shown.lines().any(|line| line.ends_with("It was frobnicated before.")), "{shown}");
    sandbox.run(&["sessions", "search", "\"\""]).expect(2);
    let id = one[0]["session"].as_str().unwrap();
    sandbox.run(&["sessions", "delete", id]).expect(0);
    assert_eq!(found(&["frobnicate"]), [Value::Null; 0]);
    assert_eq!(found(&["frobnicated"]).len(), 1);
}

#[test]
fn a_conversation_is_compacted_on_request() {
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    // The session has far more text than the part that is never compacted.
    let long = "many words ".repeat(12_000);
    let model = script(&sandbox, &[json!({"text": long})]);
    sandbox.run(&["run", "explain", "--model", &model]).expect(0);
    let listed = sandbox.run(&["sessions", "list", "--json"]).expect(0).stdout;
    let id = serde_json::from_str::<Value>(&listed).unwrap()["id"].as_str().unwrap().to_owned();
    let model = script(&sandbox, &[json!({"text": long})]);
    sandbox.run(&["sessions", "resume", &id, "and now", "--model", &model]).expect(0);
    let ran = sandbox.run(&["sessions", "compact", &id, "keep the names", "--model", "planner"]).expect(0);
    check_output(
        line_with(&ran.stderr, "compacted"),
        &expect!["· compacted the conversation (kept the last 2 messages)"],
    );
    let tree = sandbox.run(&["sessions", "tree", &id]).expect(0).stdout;
    assert_eq!(tree.matches("compacted:").count(), 1, "{tree}");
    assert!(!tree.contains("<summary>"), "{tree}");
    let ran = sandbox.run(&["sessions", "resume", &id, "/compact", "--model", "planner"]).expect(0);
    check_output(
        line_with(&ran.stderr, "compact"),
        &expect!["pilcrow: nothing to compact: the session is short"],
    );
    let ran = sandbox.run(&["run", "/compact"]).expect(2);
    assert!(ran.stderr.contains("sessions compact"), "{ran:?}");
    // An editor compacts its newest conversation.
    let mut editor = Editor::start(&sandbox);
    editor.run("pilcrow.compact", json!({}));
    editor.wait_for_message("nothing to compact");
    // The command also works as text, as in a shell.
    let compactions = |editor: &Editor| {
        editor
            .all("window/showMessage")
            .iter()
            .filter(|it| it["message"] == "Pilcrow: nothing to compact: the conversation is short")
            .count()
    };
    editor.run("pilcrow.prompt", json!({"text": "/compact keep the names", "resume": id}));
    editor.wait("the second answer", |editor| compactions(editor) == 2);
    editor.shut_down();
    // The model of the session summarizes, not the configured one.
    let lines = [json!({"text": long}), json!({"text": "## Goal\nby its own model"})];
    let model = script(&sandbox, &lines[..1]);
    sandbox.run(&["sessions", "resume", &id, "and on", "--model", &model]).expect(0);
    script(&sandbox, &lines[1..]);
    let mut editor = Editor::start(&sandbox);
    editor.run("pilcrow.compact", json!({}));
    editor.wait_for_message("compacted the conversation");
    editor.shut_down();
    let shown = sandbox.run(&["sessions", "show", &id]).expect(0).stdout;
    assert!(shown.lines().any(|line| line.ends_with("by its own model")), "{shown}");
    // The compaction stops an active run first.
    let mut sandbox = sandbox;
    let waits = json!({"text": long, "wait_for_cancel": true});
    let model = script(&sandbox, &[waits]);
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), model);
    let mut editor = Editor::start(&sandbox);
    let session = editor.run("pilcrow.prompt", json!({"text": "continue forever"}));
    let there = || sandbox.run(&["sessions", "list", "--json"]).expect(0).stdout.contains(&session);
    assert!(tests::wait_for(Duration::from_secs(30), there), "no file of the conversation");
    editor.run("pilcrow.compact", json!({ "session": session }));
    assert_eq!(editor.ended(&session), "stopped");
    editor.wait_for_message("nothing to compact");
    assert!(!editor.all("window/showMessage").iter().any(|it| it.to_string().contains("being written")));
    editor.shut_down();
    sandbox.mark().none_left(Duration::from_secs(20));
}
