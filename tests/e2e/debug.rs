//! The tool `debug` over a scripted adapter: permissions, output, and cleanup.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::built::scripted_debug_adapter;
use tests::{Batch, Sandbox, check_output};

const SOURCE: &str = "one\ntwo\nthree\nfour\n";

/// Creates a user's adapter for `*.txt` that follows this script.
pub fn with_adapter(script: &Value) -> Sandbox {
    let sandbox = Sandbox::with(&[("a.txt", SOURCE)]);
    let file = sandbox.beside("script.json");
    let mut script = script.clone();
    script["record"] = json!(sandbox.beside("record.jsonl"));
    script["capabilities"] = json!({"supportsConfigurationDoneRequest": true, "supportsSetVariable": true});
    std::fs::write(&file, script.to_string()).expect("the script");
    let directory = sandbox.home().join("config/adapters/debuggers");
    std::fs::create_dir_all(&directory).expect("the directory");
    std::fs::write(directory.join("scripted.toml"), definition(&file, "")).expect("the definition");
    sandbox
}

/// The definition of an adapter that follows a script, with these quirks.
fn definition(script: &std::path::Path, quirks: &str) -> String {
    format!(
        "format = 1\nname = \"scripted\"\npatterns = [\"*.txt\"]\nverified = false\n\
         command.candidates = [{:?}]\ncommand.args = [{script:?}]\n[launch]\nprogram = \"${{program}}\"\n\
         [quirks]\n{quirks}\n[install]\nhow = \"page\"\npage = \"x\"\n",
        scripted_debug_adapter()
    )
}

/// Creates the sandbox of `with_adapter`, with these quirks.
pub fn peculiar(quirks: &str) -> Sandbox {
    let sandbox = with_adapter(&json!({}));
    let text = definition(&sandbox.beside("script.json"), quirks);
    let file = sandbox.home().join("config/adapters/debuggers/scripted.toml");
    std::fs::write(file, text).expect("the definition");
    sandbox
}

pub fn stopped() -> Value {
    json!({"event": {"event": "stopped", "body": {"reason": "breakpoint", "threadId": 1, "allThreadsStopped": true}}})
}

pub fn stops(sandbox_path: &str) -> Value {
    json!({"commands": {
        "configurationDone": [[{"body": {}}, stopped()]],
        "stackTrace": [[{"body": {"totalFrames": 2, "stackFrames": [
            {"id": 1, "name": "inner", "line": 2, "column": 1, "source": {"path": sandbox_path}},
            {"id": 2, "name": "boot", "line": 9, "column": 1, "source": {"path": "/usr/lib/boot.txt"}}]}}]],
        "variables": [
            [{"body": {"variables": [{"name": "n", "value": "3", "variablesReference": 0},
                {"name": "m", "value": "1", "variablesReference": 0}]}}],
            [{"body": {"variables": [{"name": "n", "value": "4", "variablesReference": 0},
                {"name": "m", "value": "1", "variablesReference": 0}]}}]],
        "evaluate": [[{"body": {"result": "7", "variablesReference": 0}}]],
        "setVariable": [[{"body": {"value": "${arguments.value}"}}]],
        "continue": [[{"body": {}}, {"event": {"event": "output", "body": {"category": "stdout", "output": "bye\n"}}},
            {"event": {"event": "exited", "body": {"exitCode": 2}}}, {"event": {"event": "terminated"}}]],
    }})
}

pub fn stopping() -> Sandbox {
    // The file's path is known only once the sandbox exists, so the script is written after it.
    let sandbox = with_adapter(&json!({}));
    let path = sandbox.project().join("a.txt");
    let path = path.canonicalize().expect("the file");
    let mut script = stops(&path.to_string_lossy());
    script["record"] = json!(sandbox.beside("record.jsonl"));
    script["capabilities"] = json!({"supportsConfigurationDoneRequest": true, "supportsSetVariable": true});
    std::fs::write(sandbox.beside("script.json"), script.to_string()).expect("the script");
    sandbox
}

pub fn launch() -> Value {
    json!({"action": "launch", "program": "a.txt", "breakpoints": [{"file": "a.txt", "line": 2}]})
}

#[test]
fn each_execution_action_returns_one_snapshot() {
    let sandbox = stopping();
    let mut batch = Batch::start(&sandbox);
    let first = batch.call("debug", &launch());
    let said = first.ok();
    for part in
        ["stopped: breakpoint", "in inner at a.txt:2", "\ttwo", "next: line 2", "n = 3", "1 frame more"]
    {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    assert!(!said.contains("boot at"), "a frame outside the project: {said}");
    assert_eq!(first.value["details"]["place"]["line"], 2);

    let said = batch.call("debug", &json!({"action": "step_over"})).ok();
    check_output(
        &said,
        &expect![[r#"
            debug-1: a.txt stopped: step (thread 1)
            in inner at a.txt:2
            [a.txt#2FA7]
            1cc	one
            2uc	two
            3pw	three
            4hn	four
            next: line 2
            frames:
              frame 3: inner at a.txt:2
              1 frame more, outside the project or deeper; see `stack`
            locals that changed:
              n = 4  (was 3)
              1 unchanged; see `scopes` and `variables`
        "#]],
    );
    let frame = first.value["details"]["frames"][0]["frame"].clone();
    let stale = batch.call("debug", &json!({"action": "scopes", "frame": frame})).fails("stale_text");
    check_output(&stale, &expect!["frame 1 was `inner at a.txt:2` at an earlier stop; use `stack` again"]);
    check_output(
        &batch.call("debug", &json!({"action": "evaluate", "expression": "n + 3"})).ok(),
        &expect![[r#"
            n + 3 = 7
        "#]],
    );

    let end = batch.call("debug", &json!({"action": "continue"}));
    let said = end.ok();
    check_output(
        &said,
        &expect![[r#"
        debug-1: a.txt ended with exit code 2
        output:
          bye
    "#]],
    );
    assert_eq!(end.value["details"]["exit_code"], 2);
    let refused = batch.call("debug", &json!({"action": "step_over"})).fails("wrong_state");
    check_output(&refused, &expect!["`next` does not fit: the session is terminated; `launch` again"]);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
fn nothing_runs_without_permission() {
    let sandbox = stopping();
    // Without trust even the adapter does not start.
    let ran = sandbox.run(&["tool", "debug", &launch().to_string()]).expect(3);
    check_output(
        &ran.all(),
        &expect![[r#"
        <sandbox>/the project is not trusted, and there is no user to ask: run `pilcrow trust '<sandbox>/the project'`, or repeat with --yes
    "#]],
    );
    // The project is trusted, but the user did not consent to the program.
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let ran = sandbox.run(&["tool", "debug", &launch().to_string()]).expect(3);
    check_output(
        &ran.all(),
        &expect![[r#"
        exec: every command needs approval, and there is no user to ask: repeat with --yes, or name it in a rule `allow exec …`
    "#]],
    );
    assert!(!sandbox.beside("record.jsonl").exists(), "the adapter was started");
}

#[test]
fn only_actions_that_change_the_program_need_permission() {
    let sandbox = stopping();
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let config = sandbox.home().join("config/config.toml");
    std::fs::create_dir_all(config.parent().expect("a directory")).expect("the config directory");
    let rules = "[policy]\nrules = [\"allow exec\", \"deny debug\"]\n";
    std::fs::write(config, rules).expect("the rules");
    let calls = [
        launch(),
        json!({"action": "evaluate", "expression": "n == 3"}),
        json!({"action": "evaluate", "expression": "n.clear()"}),
        json!({"action": "set_variable", "name": "n", "value": "5"}),
    ];
    let lines: String =
        calls.iter().map(|it| format!("{}\n", json!({"name": "debug", "arguments": it}))).collect();
    let ran = sandbox.run_with_input(&["tool", "--batch", "--json"], &lines);
    let answers: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let failed: Vec<bool> = answers.iter().map(|it| it["is_error"] == true).collect();
    assert_eq!(failed, [false, false, true, true], "{}", ran.all());
    assert_eq!(answers[3]["error"]["code"], "denied");
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    assert!(!record.contains("setVariable") && !record.contains("clear"), "{record}");
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
fn a_compound_starts_all_its_configurations() {
    let sandbox = stopping();
    let one = |name: &str| {
        json!({"name": name, "type": "scripted", "request": "launch", "program": "${workspaceFolder}/a.txt",
            "preLaunchTask": "build"})
    };
    let launch = json!({"configurations": [one("front"), one("back"), one("other")],
        "compounds": [{"name": "both", "configurations": ["front", "back"]}]});
    let directory = sandbox.project().join(".vscode");
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("launch.json"), launch.to_string()).expect("launch.json");
    let mut batch = Batch::start(&sandbox);
    let listed = batch.call("debug", &json!({"action": "configs"})).ok();
    check_output(
        &listed,
        &expect![[r#"
            front: launch scripted (scripted); run the task `build` first
            back: launch scripted (scripted); run the task `build` first
            other: launch scripted (scripted); run the task `build` first
            both: together front, back
            adapters:
              bash-dap: bash scripts
              codelldb: Rust, C, C++ and other native programs, with CodeLLDB
              dart-debug: Dart (untested)
              debugpy: Python
              delve: Go: a package's directory or file
              elixir-debug: Elixir: a task of mix (untested)
              gdb: C, C++, Rust and other native programs
              java: Java: attach to the port that jdtls gives for `vscode.java.startDebugSession` (untested)
              js-debug: JavaScript with Node
              kotlin: Kotlin on the JVM; `arguments` name its `mainClass` (untested)
              lldb-dap: C, C++, Rust and other native programs, with LLDB
              netcoredbg: C# and other .NET programs (untested)
              php-debug: PHP with Xdebug 3 (untested)
              ruby-debug: Ruby with the gem debug: attach to `rdbg --open --port PORT -- FILE` (untested)
              scripted:  (untested)
        "#]],
    );
    let started = batch.call("debug", &json!({"action": "launch", "config": "both"})).ok();
    // The first one may not have stopped yet when the second is launched.
    let started = started
        .replace("front is running", "front is stopped")
        .replace("front is launching", "front is stopped");
    check_output(
        &started,
        &expect![[r#"
        front has the preLaunchTask `build`, which was not run
        debug-1: front is stopped
        back has the preLaunchTask `build`, which was not run
        debug-2: back stopped: breakpoint (thread 1)
        in inner at a.txt:2
        [a.txt#2FA7]
        1cc	one
        2uc	two
        3pw	three
        4hn	four
        next: line 2
        frames:
          frame 1: inner at a.txt:2
          1 frame more, outside the project or deeper; see `stack`
        locals:
          n = 3
          m = 1
    "#]],
    );
    let sessions = batch.call("debug", &json!({"action": "sessions"})).value["details"]["sessions"].clone();
    let titles: Vec<&str> =
        sessions.as_array().expect("a list").iter().filter_map(|it| it["title"].as_str()).collect();
    assert_eq!(titles.len(), 2, "{sessions}");
    let stepped = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(stepped.starts_with("debug-2: "), "{started}{stepped}");
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}

#[test]
fn run_to_stops_there_and_leaves_no_breakpoint() {
    let sandbox = stopping();
    let path = sandbox.project().join("a.txt").canonicalize().expect("the file");
    let mut script = stops(&path.to_string_lossy());
    script["record"] = json!(sandbox.beside("record.jsonl"));
    script["capabilities"] = json!({"supportsConfigurationDoneRequest": true});
    script["commands"]["continue"] = json!([[{"body": {}}, stopped()]]);
    std::fs::write(sandbox.beside("script.json"), script.to_string()).expect("the script");
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let went = batch.call("debug", &json!({"action": "run_to", "file": "a.txt", "line": 4})).ok();
    check_output(
        &went,
        &expect![[r#"
            debug-1: a.txt stopped: breakpoint (thread 1)
            in inner at a.txt:2
            [a.txt#2FA7]
            1cc	one
            2uc	two
            3pw	three
            4hn	four
            next: line 2
            frames:
              frame 3: inner at a.txt:2
              1 frame more, outside the project or deeper; see `stack`
            locals that changed:
              n = 4  (was 3)
              1 unchanged; see `scopes` and `variables`
        "#]],
    );
    let listed = batch.call("debug", &json!({"action": "breakpoints"})).ok();
    assert!(listed.contains("a.txt:2") && !listed.contains("a.txt:4"), "{listed}");
    assert!(batch.end().0.success());
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    let sets: Vec<String> = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|it| it["command"] == "setBreakpoints")
        .map(|it| {
            let lines = it["arguments"]["breakpoints"].as_array().expect("a list").iter();
            lines.map(|it| it["line"].to_string()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(sets, ["2", "2 4", "2"]);
}

#[test]
fn a_name_in_several_scopes_is_not_set_by_guess() {
    let sandbox = stopping();
    let path = sandbox.project().join("a.txt").canonicalize().expect("the file");
    let mut script = stops(&path.to_string_lossy());
    script["record"] = json!(sandbox.beside("record.jsonl"));
    script["capabilities"] = json!({"supportsConfigurationDoneRequest": true, "supportsSetVariable": true});
    script["commands"]["scopes"] = json!([[{"body": {"scopes": [
        {"name": "Block", "variablesReference": 7, "expensive": false},
        {"name": "Local", "variablesReference": 8, "expensive": false}]}}]]);
    std::fs::write(sandbox.beside("script.json"), script.to_string()).expect("the script");
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let set = json!({"action": "set_variable", "name": "n", "value": "5"});
    let refused = batch.call("debug", &set).fails("ambiguous");
    check_output(
        &refused,
        &expect!["n is in several scopes; give `variables_reference`: Block (1), Local (2)"],
    );
    assert!(batch.end().0.success());
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    assert!(!record.contains("\"setVariable\""), "{record}");
}

#[test]
fn a_test_in_a_missing_file_is_not_searched_elsewhere() {
    let sandbox = Sandbox::with(&[("tests/test_b.py", "def test_total():\n    assert False\n")]);
    let mut batch = Batch::start(&sandbox);
    for name in ["tests/test_a.py::test_total", "test/test_b.py::test_total"] {
        batch.call("debug", &json!({"action": "test", "name": name})).fails("not_found");
    }
}

/// Runs one of two programs while the other is stopped.
#[test]
fn a_stop_in_another_session_ends_the_wait() {
    let sandbox = with_adapter(&json!({}));
    let file = sandbox.beside("script.json");
    let text = definition(&file, "")
        .replace("]\n[launch]", ", \"--port\", \"${port}\"]\n[launch]")
        .replace("[quirks]", "[transport]\nkind = \"connect\"\n[quirks]");
    let path = sandbox.home().join("config/adapters/debuggers/scripted.toml");
    std::fs::write(path, text).expect("the definition");
    let can = json!({"supportsConfigurationDoneRequest": true});
    let ends = json!([{"body": {}}, {"event": {"event": "terminated"}}]);
    let start = json!({"request": {"seq": 50, "command": "startDebugging", "arguments":
        {"request": "launch", "configuration": {"name": "child"}}}});
    let child = json!({"capabilities": can, "commands": {
        "configurationDone": [[{"body": {}}, stopped()]], "continue": [ends]}});
    let script = json!({"capabilities": can, "child": child, "commands": {
        "configurationDone": [[{"body": {}}, stopped()]], "next": [[{"body": {}}, start]],
        "continue": [[{"body": {}}]]}});
    std::fs::write(&file, script.to_string()).expect("the script");
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    // The step starts the child, which stops.
    let said = batch.call("debug", &json!({"action": "step_over"})).ok();
    check_output(
        &said,
        &expect![[r#"
        debug-1 still runs; `snapshot` with `session: debug-1` waits for it. debug-2, which stopped meanwhile:
        debug-2: child stopped: breakpoint (thread 1)
        in main
        frames:
          frame 1: main
        locals:
          n = 3 : int
    "#]],
    );
    let said = batch.call("debug", &json!({"action": "snapshot", "session": "debug-1", "timeout": 1})).ok();
    check_output(
        &said,
        &expect![[r#"
            debug-1 still runs; `snapshot` with `session: debug-1` waits for it. debug-2, which was stopped before:
            debug-2: child stopped: breakpoint (thread 1)
            in main
            frames:
              frame 1: main
            locals that changed: none
              1 unchanged; see `scopes` and `variables`
        "#]],
    );
    let said = batch.call("debug", &json!({"action": "continue", "session": "debug-2"})).ok();
    check_output(
        &said,
        &expect![[r#"
            debug-2: child ended; exit code unknown
            debug-1 (a.txt) is still running
        "#]],
    );
    batch.call("debug", &json!({"action": "terminate", "session": "debug-1"})).ok();
    assert!(batch.end().0.success());
}

#[test]
fn a_probe_beyond_the_end_of_a_file_is_refused() {
    let sandbox = stopping();
    let points = json!([{"file": "a.txt", "line": 40, "expressions": ["n"]}]);
    let probe = json!({"action": "probe", "program": "a.txt", "points": points});
    let refused = sandbox.tool("debug", &probe).fails("invalid_arguments");
    check_output(&refused, &expect!["a.txt has 4 lines; there is no line 40"]);
    assert!(!sandbox.beside("record.jsonl").exists(), "the adapter was started");
}

#[test]
fn a_missing_adapter_or_program_is_named() {
    let sandbox = Sandbox::with(&[("a.weird", "x"), ("a.py", "x = 1\n")]);
    let said = sandbox.tool("debug", &json!({"action": "launch", "program": "a.weird"})).fails("unsupported");
    assert!(said.contains("a.weird") && said.contains("debugpy"), "{said}");
    sandbox.tool("debug", &json!({"action": "step_over"})).fails("not_found");
    sandbox.tool("debug", &json!({"action": "launch", "program": "no.py"})).fails("not_found");
    sandbox.tool("debug", &json!({"action": "launch"})).fails("invalid_arguments");
}

/// Creates the sandbox of `with_adapter`, with further capabilities.
///
/// The script can name files of the project.
pub fn follows(sandbox: &Sandbox, can: &Value, script: &Value) {
    let mut script = script.clone();
    script["record"] = json!(sandbox.beside("record.jsonl"));
    script["capabilities"] = can.clone();
    std::fs::write(sandbox.beside("script.json"), script.to_string()).expect("the script");
}

pub fn asked(sandbox: &Sandbox, command: &str) -> Vec<Value> {
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    let all = record.lines().map(|line| serde_json::from_str::<Value>(line).expect("a message"));
    all.filter(|it| it["command"] == command).map(|it| it["arguments"].clone()).collect()
}

#[test]
fn a_stop_in_library_code_names_the_users_frame() {
    for (reason, place, others, frame) in [
        ("breakpoint", "in deep at venv/lib.txt:2", "nearest frame in the project: mine at a.txt:3", 1),
        ("exception", "in mine at a.txt:3", "stopped in deep at venv/lib.txt:2", 2),
    ] {
        let sandbox = with_adapter(&json!({}));
        let root = sandbox.project().canonicalize().expect("the project");
        std::fs::create_dir(root.join("venv")).expect("a directory");
        std::fs::write(root.join("venv/lib.txt"), SOURCE).expect("the library");
        let frame_at = |id: u64, name: &str, line: u64, file: &str| json!({"id": id, "name": name, "line": line, "column": 1, "source": {"path": root.join(file)}});
        let frames = [frame_at(1, "deep", 2, "venv/lib.txt"), frame_at(2, "mine", 3, "a.txt")];
        let mut stop = stopped();
        stop["event"]["body"]["reason"] = json!(reason);
        let script = json!({"commands": {
            "configurationDone": [[{"body": {}}, stop]],
            "stackTrace": [[{"body": {"totalFrames": 2, "stackFrames": frames}}]],
            "evaluate": [[{"body": {"result": "7", "variablesReference": 0}}]]}});
        follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
        let mut batch = Batch::start(&sandbox);
        let launch = json!({"action": "launch", "program": "a.txt",
            "breakpoints": [{"file": "venv/lib.txt", "line": 2}]});
        let said = batch.call("debug", &launch).ok();
        assert!(said.contains(&format!("\n{place}\n")) && said.contains(others), "{said}");
        // Requests without a frame use the frame of the shown locals.
        batch.call("debug", &json!({"action": "evaluate", "expression": "n"})).ok();
        assert_eq!(asked(&sandbox, "evaluate").last().expect("one")["frameId"], frame, "{reason}");
        assert_eq!(asked(&sandbox, "scopes").last().expect("one")["frameId"], frame, "{reason}");
        batch.end();
    }
}

#[test]
fn an_unverified_breakpoint_is_reported_twice() {
    let sandbox = stopping();
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    script["commands"]["setBreakpoints"] = json!([[{"body": {"breakpoints": [
        {"id": 1, "verified": false, "message": "no such code"}, {"id": 2, "verified": true, "line": 4}]}}]]);
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    let launch = json!({"action": "launch", "program": "a.txt",
        "breakpoints": [{"file": "a.txt", "line": 2}, {"file": "a.txt", "line": 3}]});
    let said = batch.call("debug", &launch).ok();
    check_output(
        &said,
        &expect![[r#"
            debug-1: a.txt stopped: breakpoint (thread 1)
            in inner at a.txt:2
            [a.txt#2FA7]
            1cc	one
            2uc	two
            3pw	three
            4hn	four
            next: line 2
            frames:
              frame 1: inner at a.txt:2
              1 frame more, outside the project or deeper; see `stack`
            locals:
              n = 3
              m = 1
            breakpoint a.txt:2 is not set yet: no such code
            breakpoint a.txt:3 is at line 4
        "#]],
    );
    let said = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(!said.contains("not set"), "once is enough: {said}");
    let said = batch.call("debug", &json!({"action": "continue"})).ok();
    check_output(
        &said,
        &expect![[r#"
            debug-1: a.txt ended with exit code 2
            breakpoint a.txt:2 was never set: no such code
            output:
              bye
        "#]],
    );
    batch.end();
}

#[test]
fn actions_that_need_a_stop_are_refused_by_name() {
    let sandbox = with_adapter(&json!({"commands": {"configurationDone": [[{"body": {}}, stopped()]]}}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    // The program counts as running once the request is sent, whenever the answer arrives.
    batch.call("debug", &json!({"action": "continue", "timeout": 1}));
    let said = batch.call("debug", &json!({"action": "evaluate", "expression": "n"})).fails("wrong_state");
    check_output(
        &said,
        &expect![[
            r#"`evaluate` does not fit: the session is running; `pause` it, or wait for a breakpoint with `snapshot`"#
        ]],
    );
    let said = batch.call("debug", &json!({"action": "terminate"})).ok();
    check_output(
        &said,
        &expect![[r#"
        debug-1: a.txt ended: it was terminated
    "#]],
    );
    batch.end();
}

#[test]
fn a_probe_reads_its_marks_and_explains_missing_passes() {
    let sandbox = with_adapter(&json!({}));
    let output =
        |text: &str| json!({"event": {"event": "output", "body": {"category": "stdout", "output": text}}});
    let script = json!({"commands": {
        "setBreakpoints": [[{"body": {"breakpoints": [{"id": 1, "verified": true, "line": 2},
                {"id": 2, "verified": false, "message": "no code here"}]}},
            output("${arguments.breakpoints.0.logMessage}"), output("own @@p0@@9@@.\n")]],
        "configurationDone": [[{"body": {}}, {"event": {"event": "exited", "body": {"exitCode": 0}}},
            {"event": {"event": "terminated"}}]]}});
    let can = json!({"supportsConfigurationDoneRequest": true, "supportsLogPoints": true});
    follows(&sandbox, &can, &script);
    let point = |line: u64| json!({"file": "a.txt", "line": line, "expressions": ["n", "m"]});
    let mut batch = Batch::start(&sandbox);
    let probe = json!({"action": "probe", "program": "a.txt", "points": [point(2), point(3)]});
    let said = batch.call("debug", &probe).ok();
    check_output(
        &said,
        &expect![[r#"
            a.txt: ended with exit code 0
            a.txt:2: 1 pass
            a.txt:3: 0 passes: it was never set: no code here

            | pass | at | values |
            |---|---|---|
            | 1 | a.txt:2 | n = {n}, m = {m} |

            output:
            own @@p0@@9@@.

            measured by log points, without stopping the program
        "#]],
    );
    let missing = json!({"action": "probe", "program": "a.txt",
        "points": [{"file": "b.txt", "line": 1, "expressions": ["n"]}]});
    let said = batch.call("debug", &missing).fails("not_found");
    check_output(&said, &expect!["there is no file b.txt"]);
    batch.end();
}

#[test]
fn a_trace_ends_when_its_call_returns() {
    let sandbox = with_adapter(&json!({}));
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let frames = |count: u64| {
        let one = |id: u64| json!({"id": id, "name": "f", "line": 2, "column": 1, "source": {"path": path}});
        json!([{"body": {"totalFrames": count, "stackFrames": (1..=count).map(one).collect::<Vec<_>>()}}])
    };
    let n = |value: &str| json!([{"body": {"result": value, "variablesReference": 0}}]);
    // The script has the stacks of the launch and of the trace's start. Then the call has returned
    // to another of the same name.
    let script = json!({"commands": {
        "configurationDone": [[{"body": {}}, stopped()]],
        "stackTrace": [frames(2), frames(2), frames(1)],
        "evaluate": [n("1"), n("2")]}});
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let said = batch.call("debug", &json!({"action": "trace", "expression": "n"})).ok();
    check_output(
        &said,
        &expect![[r#"
        f at a.txt:2: n = 1
        this call of f returned (1 step)
        debug-1: a.txt stopped: step (thread 1)
        in f at a.txt:2
        [a.txt#2FA7]
        1cc	one
        2uc	two
        3pw	three
        4hn	four
        next: line 2
        frames:
          frame 3: f at a.txt:2
        locals:
          n = 3 : int
    "#]],
    );
    batch.end();
}

#[test]
fn a_configuration_that_cannot_start_reports_the_reason() {
    let sandbox = with_adapter(&json!({}));
    let directory = sandbox.project().join(".vscode");
    std::fs::create_dir(&directory).expect("a directory");
    let one = |name: &str, kind: &str, program: &str| json!({"name": name, "type": kind, "request": "launch", "program": program});
    let configs = json!({"configurations": [one("good", "scripted", "a.txt"),
        one("not built", "scripted", "${workspaceFolder}/out/a"), one("other", "cobol", "a.txt")]});
    std::fs::write(directory.join("launch.json"), configs.to_string()).expect("the file");
    let mut batch = Batch::start(&sandbox);
    let answer = batch.call("debug", &json!({"action": "configs"}));
    let said = answer.ok();
    let line = |name: &str| said.lines().find(|it| it.starts_with(name)).expect("its line").to_owned();
    assert_eq!(line("good:"), "good: launch scripted (scripted)");
    check_output(
        &line("not built:"),
        &expect![
            "not built: launch scripted (scripted); its program <sandbox>/the project/out/a does not exist"
        ],
    );
    check_output(
        &line("other:"),
        &expect![
            "other: launch cobol (no adapter); no debug adapter is known for the type `cobol`; name one by `adapter`"
        ],
    );
    let lacks = &answer.value["details"]["configs"];
    assert!(lacks[0]["lacks"].is_null() && lacks[1]["lacks"].is_string(), "{lacks}");
    batch.end();
}

#[test]
fn a_compound_with_a_missing_configuration_starts_nothing() {
    let sandbox = with_adapter(&json!({}));
    let directory = sandbox.project().join(".vscode");
    std::fs::create_dir(&directory).expect("a directory");
    let configs = json!({"configurations": [
            {"name": "one", "type": "scripted", "request": "launch", "program": "a.txt"}],
        "compounds": [{"name": "both", "configurations": ["one", "two"]}]});
    std::fs::write(directory.join("launch.json"), configs.to_string()).expect("the file");
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &json!({"action": "launch", "config": "both"})).fails("not_found");
    check_output(&said, &expect!["there is no configuration `two` in .vscode/launch.json; it has: one"]);
    assert!(!sandbox.beside("record.jsonl").exists(), "a session was started");
    batch.end();
}

/// The answers for a program that stops with a signal and then exits with 0.
fn signalled(text: &str, pid: u32) -> Value {
    let stop =
        json!({"event": {"event": "stopped", "body": {"reason": "signal", "threadId": 1, "text": text}}});
    json!({"commands": {
        "configurationDone": [[{"body": {}},
            {"event": {"event": "process", "body": {"name": "a", "systemProcessId": pid}}}, stop]],
        "evaluate": [[{"body": {"result": "It stopped with signal SIGUSR2, User defined signal 2.\n", "variablesReference": 0}}]],
        "continue": [[{"body": {}}, {"event": {"event": "exited", "body": {"exitCode": 0}}},
            {"event": {"event": "terminated"}}]]}})
}

#[test]
fn a_handled_signal_does_not_fail_a_test() {
    let no_process = 0;
    for (text, pid, continues, first_line) in [
        (
            "SIGUSR1",
            no_process,
            1,
            expect!["test a.txt (executable) passed: there was no failure to stop at"],
        ),
        (
            "SIGSEGV",
            no_process,
            0,
            expect![[
                r#"test a.txt (executable) stopped here, which may be handled; `continue` shows whether it fails"#
            ]],
        ),
        // The adapter's own id in the sandbox; it does not handle the signal.
        ("SIGABRT", 2, 0, expect!["test a.txt (executable) fails here"]),
        // The adapter's command reports the signal.
        ("", no_process, 1, expect!["test a.txt (executable) passed: there was no failure to stop at"]),
    ] {
        if pid != no_process && !cfg!(target_os = "linux") {
            continue;
        }
        let sandbox = peculiar("signal_command = \"info program\"\n[tests.executable]");
        follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &signalled(text, pid));
        let mut batch = Batch::start(&sandbox);
        let test = json!({"action": "test", "program": "a.txt", "adapter": "scripted"});
        let answer = batch.call("debug", &test).ok();
        check_output(answer.lines().next().unwrap_or_default(), &first_line);
        assert_eq!(asked(&sandbox, "continue").len(), continues, "{text}: {answer}");
        batch.end();
    }
}

#[test]
fn an_unnamed_signal_is_queried_by_command() {
    let sandbox = peculiar("signal_command = \"info program\"");
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &signalled("", 0));
    let mut batch = Batch::start(&sandbox);
    let answer = batch.call("debug", &launch());
    check_output(
        &answer.ok(),
        &expect![[r#"
        debug-1: a.txt stopped: signal, SIGUSR2 (thread 1)
        in main
        frames:
          frame 1: main
        locals:
          n = 3 : int
    "#]],
    );
    assert_eq!(answer.value["details"]["signal"], "SIGUSR2");
    batch.end();
}

#[test]
fn a_failed_request_leaves_the_rest_of_a_stop() {
    let stack = |path: &std::path::Path| {
        json!([[{"body": {"stackFrames": [{"id": 1, "name": "inner", "line": 2,
        "column": 1, "source": {"path": path}}]}}]])
    };
    let fails = json!([[{"fail": "Cannot access memory"}]]);
    let mut shown = Vec::new();
    for what in ["variables", "scopes", "stackTrace"] {
        let sandbox = with_adapter(&json!({}));
        let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
        let mut script = json!({"commands": {"configurationDone": [[{"body": {}}, stopped()]],
            "stackTrace": stack(&path)}});
        script["commands"][what] = fails.clone();
        follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
        let mut batch = Batch::start(&sandbox);
        let said = batch.call("debug", &launch()).ok();
        shown.push(format!("{what}:\n{said}"));
        batch.end();
    }
    check_output(
        &shown.join("\n"),
        &expect![[r#"
        variables:
        debug-1: a.txt stopped: breakpoint (thread 1)
        in inner at a.txt:2
        [a.txt#2FA7]
        1cc	one
        2uc	two
        3pw	three
        4hn	four
        next: line 2
        frames:
          frame 1: inner at a.txt:2
        locals:
          some could not be read: scripted refused `variables`: Cannot access memory

        scopes:
        debug-1: a.txt stopped: breakpoint (thread 1)
        in inner at a.txt:2
        [a.txt#2FA7]
        1cc	one
        2uc	two
        3pw	three
        4hn	four
        next: line 2
        frames:
          frame 1: inner at a.txt:2
        locals:
          some could not be read: scripted refused `scopes`: Cannot access memory

        stackTrace:
        debug-1: a.txt stopped: breakpoint (thread 1)
        its stack could not be read: scripted refused `stackTrace`: Cannot access memory
    "#]],
    );
}

#[test]
fn locals_of_another_call_are_not_compared() {
    for (thread, depth) in [(2, 1), (1, 2)] {
        let sandbox = with_adapter(&json!({}));
        let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
        let frame =
            |id: u64| json!({"id": id, "name": "f", "line": 2, "column": 1, "source": {"path": path}});
        let stack =
            |count: u64| json!([{"body": {"stackFrames": (1..=count).map(frame).collect::<Vec<_>>()}}]);
        let locals = |n: &str| {
            json!([{"body": {"variables": [{"name": "n", "value": n, "variablesReference": 0},
            {"name": "m", "value": "1", "variablesReference": 0}]}}])
        };
        let mut other = stopped();
        other["event"]["body"]["threadId"] = json!(thread);
        let script = json!({"commands": {
            "configurationDone": [[{"body": {}}, stopped()]],
            "continue": [[{"body": {}}, other]],
            "stackTrace": [stack(1), stack(depth)],
            "variables": [locals("3"), locals("4")]}});
        follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
        let mut batch = Batch::start(&sandbox);
        let locals = |said: &str| said.lines().filter(|line| line.contains(" = ")).collect::<String>();
        assert_eq!(locals(&batch.call("debug", &launch()).ok()), "  n = 3  m = 1");
        let said = batch.call("debug", &json!({"action": "continue"})).ok();
        assert_eq!(locals(&said), "  n = 4  m = 1", "without the earlier value: {said}");
        batch.end();
    }
}

#[test]
fn a_trace_follows_only_its_thread_and_call() {
    for (thread, names, ended) in [
        (2, &["f", "main"][..], "thread 2 stopped: breakpoint"),
        (1, &["g", "f", "main"], "the program stopped in g, which f called"),
        (1, &["main"], "f returned"),
    ] {
        let sandbox = with_adapter(&json!({}));
        let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
        let stack = |names: &[&str]| {
            let one = |(id, name): (usize, &&str)| {
                json!({"id": id + 1, "name": name, "line": 2, "column": 1,
                "source": {"path": path}})
            };
            json!([{"body": {"stackFrames": names.iter().enumerate().map(one).collect::<Vec<_>>()}}])
        };
        let n = |value: &str| json!([{"body": {"result": value, "variablesReference": 0}}]);
        let mut next = stopped();
        next["event"]["body"]["threadId"] = json!(thread);
        let begin = || stack(&["f", "main"]);
        let script = json!({"commands": {
            "configurationDone": [[{"body": {}}, stopped()]],
            "next": [[{"body": {}}, next]],
            "stackTrace": [begin(), begin(), stack(names)],
            "evaluate": [n("1"), n("2")]}});
        follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
        let mut batch = Batch::start(&sandbox);
        batch.call("debug", &launch()).ok();
        let said = batch.call("debug", &json!({"action": "trace", "expression": "n"})).ok();
        assert!(said.contains(ended) && !said.contains("1 -> 2"), "{said}");
        batch.end();
    }
}

#[test]
fn the_panic_filter_is_removed_as_it_was_set() {
    let sandbox = peculiar("panic_functions = [\"rust_panic\", \"__rustc::rust_panic\"]");
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let can = json!({"supportsConfigurationDoneRequest": true, "supportsFunctionBreakpoints": true});
    let mut script = stops(&path.to_string_lossy());
    let placed = json!({"breakpoints": [{"id": 5, "verified": true}, {"id": 6, "verified": false}]});
    script["commands"]["setFunctionBreakpoints"] = json!([[{"body": placed}]]);
    follows(&sandbox, &can, &script);
    let mut batch = Batch::start(&sandbox);
    let mut start = launch();
    start["exceptions"] = json!(["panic"]);
    let said = batch.call("debug", &start).ok();
    assert!(!said.contains("breakpoint on "), "one of its names is there: {said}");
    let mut panics = json!({"action": "breakpoints", "exceptions": ["panic"]});
    let set = batch.call("debug", &panics).ok();
    check_output(
        &set,
        &expect![[r#"
            a.txt:2
            function rust_panic
            function __rustc::rust_panic (not set)
        "#]],
    );
    panics["remove"] = json!(true);
    assert_eq!(batch.call("debug", &panics).ok(), "removed 2\na.txt:2\n");
    assert_eq!(asked(&sandbox, "setFunctionBreakpoints").pop(), Some(json!({"breakpoints": []})));
    assert!(batch.end().0.success());
}

#[test]
fn a_probe_writes_nothing_to_the_programs_output() {
    let sandbox = peculiar("logpoints_write_to_program = true");
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let script = json!({"commands": {
        "configurationDone": [[{"body": {}}, stopped()]],
        "stackTrace": [[{"body": {"stackFrames": [{"id": 1, "name": "f", "line": 2, "column": 1,
            "source": {"path": path}}]}}]],
        "evaluate": [[{"body": {"result": "7", "variablesReference": 0}}]],
        "continue": [[{"body": {}}, stopped()],
            [{"body": {}}, {"event": {"event": "exited", "body": {"exitCode": 0}}}, {"event": {"event": "terminated"}}]]}});
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true, "supportsLogPoints": true}), &script);
    let mut batch = Batch::start(&sandbox);
    let probe = json!({"action": "probe", "program": "a.txt",
        "points": [{"file": "a.txt", "line": 2, "expressions": ["n"]}]});
    let said = batch.call("debug", &probe).ok();
    check_output(
        &said,
        &expect![[r#"
            a.txt: ended with exit code 0
            a.txt:2: 2 passes

            | pass | at | values |
            |---|---|---|
            | 1 | a.txt:2 | n = 7 |
            | 2 | a.txt:2 | n = 7 |

            measured by stops at each pass
        "#]],
    );
    assert!(asked(&sandbox, "setBreakpoints").iter().all(|it| it["breakpoints"][0]["logMessage"].is_null()));
    batch.end();
}

#[test]
fn debug_state_events_come_in_order() {
    let sandbox = stopping();
    // The program stops only on `pause`, so that its running state is observed before.
    let mut commands = stops("a.txt")["commands"].take();
    commands["configurationDone"] = json!([[{"body": {}}]]);
    commands["pause"] = json!([[{"body": {}}, stopped()]]);
    let can = json!({"supportsConfigurationDoneRequest": true});
    follows(&sandbox, &can, &json!({ "commands": commands }));
    let call =
        |name: &str, arguments: &Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let lines = [
        call("debug", &json!({"action": "launch", "program": "a.txt", "timeout": 1})),
        call("debug", &json!({"action": "pause"})),
        call("debug", &json!({"action": "continue"})),
        call("bash", &json!({"command": "while [ ! -e go ]; do sleep 0.05; done"})),
        json!({"text": "Done."}),
    ];
    let script = sandbox.beside("model.jsonl");
    std::fs::write(&script, lines.map(|line| format!("{line}\n")).concat()).expect("the model");
    let model = format!("script:{}", script.display());
    let mut child =
        sandbox.command(&["run", "go", "--yes", "--json", "--model", &model]).spawn().expect("it starts");
    let stdout = BufReader::new(child.stdout.take().expect("its output"));
    let mut states = Vec::new();
    for line in stdout.lines() {
        let line = line.expect("a line");
        let event = serde_json::from_str::<Value>(&line).expect("JSON")["event"].clone();
        if event["type"] != "debug_state" {
            continue;
        }
        assert_eq!(event["session"], "debug-1", "{event}");
        let word = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        states.push((word("state"), word("detail")));
        if event["state"] == "terminated" {
            // The run continues until the event arrived.
            sandbox.write("go", "");
        }
    }
    assert!(child.wait().expect("it ends").success());
    let expected = [
        ("launching", ""),
        ("configuring", ""),
        ("running", ""),
        ("stopped", "breakpoint"),
        ("running", ""),
        ("terminated", "exit code 2"),
    ];
    let expected = expected.map(|(state, detail)| (state.to_owned(), detail.to_owned()));
    // The first event is the state at the first poll.
    assert!(states.len() >= 4 && expected.ends_with(&states), "{states:?}");
}

/// debugpy resumes other threads while a value is slow to show, and stops again.
#[test]
fn a_stop_repeated_during_a_read_keeps_its_locals() {
    let sandbox = stopping();
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    let resumed =
        json!({"event": {"event": "continued", "body": {"threadId": 1, "allThreadsContinued": true}}});
    let body = json!({"body": {"variables": [{"name": "n", "value": "3", "variablesReference": 0}]}});
    script["commands"]["variables"] = json!([[resumed, stopped(), body]]);
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    let stop = batch.call("debug", &launch());
    stop.ok();
    assert_eq!(stop.value["details"]["locals"][0]["name"], "n");
    assert_eq!(asked(&sandbox, "variables").len(), 1, "the snapshot was made again");
    batch.end();
}

#[test]
fn stacks_of_a_program_that_does_not_stop_are_shown() {
    let sandbox = stopping();
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    script["commands"]["configurationDone"] = json!([[{"body": {}}]]);
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    let mut start = launch();
    start["timeout"] = json!(1);
    batch.call("debug", &start).ok();
    let said = batch.call("debug", &json!({"action": "pause"})).ok();
    check_output(
        &said,
        &expect![[r#"
            debug-1: a.txt still runs: each thread waits in a call and stops after it
            thread 1: main
              inner at a.txt:2
              boot at /usr/lib/boot.txt:9
        "#]],
    );
    batch.end();
}
