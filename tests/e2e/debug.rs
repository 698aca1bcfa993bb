//! The tool `debug` over a scripted adapter: what is asked, what is shown, what is left.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde_json::{Value, json};
use tests::built::scripted_debug_adapter;
use tests::{Batch, Sandbox};

const SOURCE: &str = "one\ntwo\nthree\nfour\n";

/// A person's adapter for `*.txt` that follows this script.
pub fn with_adapter(script: &Value) -> Sandbox {
    let sandbox = Sandbox::with(&[("a.txt", SOURCE)]);
    let file = sandbox.beside("script.json");
    let mut script = script.clone();
    script["record"] = json!(sandbox.beside("record.jsonl"));
    script["capabilities"] = json!({"supportsConfigurationDoneRequest": true, "supportsSetVariable": true});
    std::fs::write(&file, script.to_string()).expect("the script");
    let folder = sandbox.home().join("config/adapters/debuggers");
    std::fs::create_dir_all(&folder).expect("the person's folder");
    std::fs::write(folder.join("scripted.toml"), definition(&file, "")).expect("the definition");
    sandbox
}

/// The definition of an adapter that follows a script, with what is peculiar to it.
fn definition(script: &std::path::Path, quirks: &str) -> String {
    format!(
        "format = 1\nname = \"scripted\"\npatterns = [\"*.txt\"]\nverified = false\n\
         command.candidates = [{:?}]\ncommand.args = [{script:?}]\n[launch]\nprogram = \"${{program}}\"\n\
         [quirks]\n{quirks}\n[install]\nhow = \"page\"\npage = \"x\"\n",
        scripted_debug_adapter()
    )
}

/// As `with_adapter`, and the adapter has these peculiarities.
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
    // The path of the file is known once the sandbox is there; the script names it after that.
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
fn each_running_action_answers_with_one_snapshot() {
    let sandbox = stopping();
    let mut batch = Batch::start(&sandbox);
    let first = batch.call("debug", &launch());
    let said = first.ok();
    for part in
        ["stopped: breakpoint", "in inner at a.txt:2", ":two", "next: line 2", "n = 3", "1 frame more"]
    {
        assert!(said.contains(part), "{part} is missing in: {said}");
    }
    assert!(!said.contains("boot at"), "a frame that is not the person's: {said}");
    assert_eq!(first.value["details"]["place"]["line"], 2);

    let said = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(
        said.contains("n = 4  (was 3)") && said.contains("1 unchanged") && !said.contains("m = 1"),
        "{said}"
    );
    let frame = first.value["details"]["frames"][0]["frame"].clone();
    let stale = batch.call("debug", &json!({"action": "scopes", "frame": frame})).fails("stale_text");
    assert!(stale.contains("was `inner at a.txt:2` at an earlier stop"), "{stale}");
    assert!(batch.call("debug", &json!({"action": "evaluate", "expression": "n + 3"})).ok().contains("= 7"));

    let end = batch.call("debug", &json!({"action": "continue"}));
    let said = end.ok();
    assert!(said.contains("ended with exit code 2") && said.contains("  bye"), "{said}");
    assert_eq!(end.value["details"]["exit_code"], 2);
    let refused = batch.call("debug", &json!({"action": "step_over"})).fails("wrong_state");
    assert!(refused.contains("the session is terminated"), "{refused}");
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
fn nothing_runs_that_was_not_permitted() {
    let sandbox = stopping();
    // Not trusted: not even the adapter.
    let ran = sandbox.run(&["tool", "debug", &launch().to_string()]).expect(3);
    assert!(ran.all().contains("is not trusted"), "{}", ran.all());
    // Trusted, and the program was not agreed to.
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let ran = sandbox.run(&["tool", "debug", &launch().to_string()]).expect(3);
    assert!(ran.all().contains("exec: every command is asked about"), "{}", ran.all());
    assert!(!sandbox.beside("record.jsonl").exists(), "the adapter was started");
}

#[test]
fn what_changes_the_program_is_asked_about_and_what_only_looks_is_not() {
    let sandbox = stopping();
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let config = sandbox.home().join("config/config.toml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("the config folder");
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
fn a_compound_starts_all_that_it_names() {
    let sandbox = stopping();
    let one = |name: &str| {
        json!({"name": name, "type": "scripted", "request": "launch", "program": "${workspaceFolder}/a.txt",
            "preLaunchTask": "build"})
    };
    let launch = json!({"configurations": [one("front"), one("back"), one("other")],
        "compounds": [{"name": "both", "configurations": ["front", "back"]}]});
    let folder = sandbox.project().join(".vscode");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("launch.json"), launch.to_string()).expect("launch.json");
    let mut batch = Batch::start(&sandbox);
    let listed = batch.call("debug", &json!({"action": "configs"})).ok();
    assert!(listed.contains("both") && listed.contains("needs the task `build`"), "{listed}");
    assert!(
        listed.contains("netcoredbg") && listed.contains("never tried with the adapter itself"),
        "{listed}"
    );
    let started = batch.call("debug", &json!({"action": "launch", "config": "both"})).ok();
    assert!(started.contains("front has the preLaunchTask `build`, which was not run"), "{started}");
    let sessions = batch.call("debug", &json!({"action": "sessions"})).value["details"]["sessions"].clone();
    let titles: Vec<&str> =
        sessions.as_array().expect("a list").iter().filter_map(|it| it["title"].as_str()).collect();
    assert_eq!(titles.len(), 2, "{sessions}");
    let stepped = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(
        started.contains("debug-2: back stopped") && stepped.starts_with("debug-2: "),
        "{started}{stepped}"
    );
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
    assert!(went.contains("stopped: breakpoint"), "{went}");
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
    assert!(refused.contains("n is in several scopes") && refused.contains("Block ("), "{refused}");
    assert!(batch.end().0.success());
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    assert!(!record.contains("\"setVariable\""), "{record}");
}

#[test]
fn a_test_of_a_file_that_is_not_there_is_not_looked_for_in_others() {
    let sandbox = Sandbox::with(&[("tests/test_b.py", "def test_total():\n    assert False\n")]);
    let mut batch = Batch::start(&sandbox);
    for name in ["tests/test_a.py::test_total", "test/test_b.py::test_total"] {
        let said = batch.call("debug", &json!({"action": "test", "name": name})).fails("not_found");
        assert!(said.contains(&format!("no test was found by the text {name}")), "{said}");
    }
}

/// One of two programs goes on while the other is held.
#[test]
fn where_another_session_is_stopped_what_goes_on_is_not_waited_for() {
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
    assert!(said.contains("debug-1 still runs; `snapshot` with `session: debug-1` waits for it"), "{said}");
    assert!(said.contains("debug-2, which stopped meanwhile:\ndebug-2: child stopped"), "{said}");
    let said = batch.call("debug", &json!({"action": "snapshot", "session": "debug-1", "timeout": 1})).ok();
    assert!(said.contains("debug-2, which was stopped before:"), "{said}");
    let said = batch.call("debug", &json!({"action": "continue", "session": "debug-2"})).ok();
    assert!(
        said.contains("debug-2: child ended") && said.contains("debug-1 (a.txt) is still running"),
        "{said}"
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
    assert!(refused.contains("a.txt has 4 lines; there is no line 40"), "{refused}");
    assert!(!sandbox.beside("record.jsonl").exists(), "the adapter was started");
}

#[test]
fn what_is_missing_is_named_with_the_way_to_get_it() {
    let sandbox = Sandbox::with(&[("a.weird", "x"), ("a.py", "x = 1\n")]);
    let said = sandbox.tool("debug", &json!({"action": "launch", "program": "a.weird"})).fails("unsupported");
    assert!(said.contains("a.weird") && said.contains("debugpy"), "{said}");
    sandbox.tool("debug", &json!({"action": "step_over"})).fails("not_found");
    sandbox.tool("debug", &json!({"action": "launch", "program": "no.py"})).fails("not_found");
    sandbox.tool("debug", &json!({"action": "launch"})).fails("invalid_arguments");
}

/// As `with_adapter`, with more that the adapter can and where the script may name files of the project.
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
fn a_stop_in_code_of_others_is_told_where_it_is() {
    for (reason, place, others, frame) in [
        ("breakpoint", "in deep at venv/lib.txt:2", "the nearest of the person's own: mine at a.txt:3", 1),
        ("exception", "in mine at a.txt:3", "stopped in deep at venv/lib.txt:2", 2),
    ] {
        let sandbox = with_adapter(&json!({}));
        let root = sandbox.project().canonicalize().expect("the project");
        std::fs::create_dir(root.join("venv")).expect("a folder");
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
        // What is asked without a frame is asked where the locals shown are.
        batch.call("debug", &json!({"action": "evaluate", "expression": "n"})).ok();
        assert_eq!(asked(&sandbox, "evaluate").last().expect("one")["frameId"], frame, "{reason}");
        assert_eq!(asked(&sandbox, "scopes").last().expect("one")["frameId"], frame, "{reason}");
        batch.end();
    }
}

#[test]
fn a_breakpoint_that_is_not_in_place_is_told_at_first_and_at_the_end() {
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
    assert!(said.contains("breakpoint a.txt:2 is not in place yet: no such code"), "{said}");
    assert!(said.contains("breakpoint a.txt:3 is at line 4"), "{said}");
    let said = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(!said.contains("not in place"), "once is enough: {said}");
    let said = batch.call("debug", &json!({"action": "continue"})).ok();
    assert!(said.contains("breakpoint a.txt:2 was never put in place: no such code"), "{said}");
    assert!(!said.contains("a.txt:3 was never"), "{said}");
    batch.end();
}

#[test]
fn what_needs_a_stopped_program_is_refused_by_its_own_name() {
    let sandbox = with_adapter(&json!({"commands": {"configurationDone": [[{"body": {}}, stopped()]]}}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    // It runs from the moment when it is sent, whenever it is answered.
    batch.call("debug", &json!({"action": "continue", "timeout": 1}));
    let said = batch.call("debug", &json!({"action": "evaluate", "expression": "n"})).fails("wrong_state");
    assert!(said.contains("`evaluate` does not fit: the session is running"), "{said}");
    let said = batch.call("debug", &json!({"action": "terminate"})).ok();
    assert!(said.contains("ended: it was terminated"), "{said}");
    batch.end();
}

#[test]
fn a_probe_reads_its_own_marks_only_and_says_why_nothing_passed() {
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
    assert!(said.contains("a.txt:2: 1 pass\n"), "{said}");
    assert!(said.contains("a.txt:3: 0 passes: it was never put in place: no code here"), "{said}");
    assert!(said.contains("| 1 | a.txt:2 | n = {n}, m = {m} |"), "{said}");
    assert!(said.contains("own @@p0@@9@@."), "what the program writes is no row: {said}");
    let missing = json!({"action": "probe", "program": "a.txt",
        "points": [{"file": "b.txt", "line": 1, "expressions": ["n"]}]});
    let said = batch.call("debug", &missing).fails("not_found");
    assert!(said.contains("there is no file b.txt"), "{said}");
    batch.end();
}

#[test]
fn a_trace_ends_with_the_call_that_it_began_in() {
    let sandbox = with_adapter(&json!({}));
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let frames = |count: u64| {
        let one = |id: u64| json!({"id": id, "name": "f", "line": 2, "column": 1, "source": {"path": path}});
        json!([{"body": {"totalFrames": count, "stackFrames": (1..=count).map(one).collect::<Vec<_>>()}}])
    };
    let n = |value: &str| json!([{"body": {"result": value, "variablesReference": 0}}]);
    // The snapshot of the launch, and a look at the beginning; then the call has returned to its own kind.
    let script = json!({"commands": {
        "configurationDone": [[{"body": {}}, stopped()]],
        "stackTrace": [frames(2), frames(2), frames(1)],
        "evaluate": [n("1"), n("2")]}});
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let said = batch.call("debug", &json!({"action": "trace", "expression": "n"})).ok();
    assert!(said.contains("this call of f returned (1 step)") && !said.contains("1 -> 2"), "{said}");
    batch.end();
}

#[test]
fn a_configuration_that_cannot_start_says_why() {
    let sandbox = with_adapter(&json!({}));
    let folder = sandbox.project().join(".vscode");
    std::fs::create_dir(&folder).expect("a folder");
    let one = |name: &str, kind: &str, program: &str| json!({"name": name, "type": kind, "request": "launch", "program": program});
    let configs = json!({"configurations": [one("good", "scripted", "a.txt"),
        one("not built", "scripted", "${workspaceFolder}/out/a"), one("other", "cobol", "a.txt")]});
    std::fs::write(folder.join("launch.json"), configs.to_string()).expect("the file");
    let mut batch = Batch::start(&sandbox);
    let answer = batch.call("debug", &json!({"action": "configs"}));
    let said = answer.ok();
    let line = |name: &str| said.lines().find(|it| it.starts_with(name)).expect("its line").to_owned();
    assert_eq!(line("good:"), "good: launch scripted (scripted)");
    assert!(line("not built:").contains("its program ") && line("not built:").contains("out/a is not there"));
    assert!(line("other:").contains("no debug adapter is known for the type `cobol`"), "{said}");
    let lacks = &answer.value["details"]["configs"];
    assert!(lacks[0]["lacks"].is_null() && lacks[1]["lacks"].is_string(), "{lacks}");
    batch.end();
}

#[test]
fn a_compound_with_a_configuration_that_is_not_there_starts_nothing() {
    let sandbox = with_adapter(&json!({}));
    let folder = sandbox.project().join(".vscode");
    std::fs::create_dir(&folder).expect("a folder");
    let configs = json!({"configurations": [
            {"name": "one", "type": "scripted", "request": "launch", "program": "a.txt"}],
        "compounds": [{"name": "both", "configurations": ["one", "two"]}]});
    std::fs::write(folder.join("launch.json"), configs.to_string()).expect("the file");
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &json!({"action": "launch", "config": "both"})).fails("not_found");
    assert!(said.contains("there is no configuration `two`"), "{said}");
    assert!(!sandbox.beside("record.jsonl").exists(), "one was started");
    batch.end();
}

/// The answers of a program that a signal stops, and that then ends well.
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
fn a_signal_after_which_a_program_goes_on_is_no_failure_of_its_test() {
    let nobody = 0;
    for (text, pid, said) in [
        ("SIGUSR1", nobody, "test a.txt (executable) passed"),
        ("SIGSEGV", nobody, "stopped here; `continue` tells whether it fails by this"),
        // The number of this test's own process, which does not handle it.
        ("SIGABRT", std::process::id(), "fails here"),
        // Asked for by the adapter's command.
        ("", nobody, "test a.txt (executable) passed"),
    ] {
        if pid != nobody && !cfg!(target_os = "linux") {
            continue;
        }
        let sandbox = peculiar("signal_command = \"info program\"\n[tests.executable]");
        follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &signalled(text, pid));
        let mut batch = Batch::start(&sandbox);
        let test = json!({"action": "test", "program": "a.txt", "adapter": "scripted"});
        let answer = batch.call("debug", &test).ok();
        assert!(answer.contains(said), "{text}: {answer}");
        let passed = answer.contains("1 stop that something waits for passed over");
        assert_eq!(passed, said.contains("passed"), "{text}: {answer}");
        batch.end();
    }
}

#[test]
fn a_signal_that_the_stop_does_not_name_is_asked_for() {
    let sandbox = peculiar("signal_command = \"info program\"");
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &signalled("", 0));
    let mut batch = Batch::start(&sandbox);
    let answer = batch.call("debug", &launch());
    assert!(answer.ok().contains("stopped: signal, SIGUSR2 (thread 1)"), "{}", answer.ok());
    assert_eq!(answer.value["details"]["signal"], "SIGUSR2");
    batch.end();
}

#[test]
fn what_cannot_be_read_of_a_stop_leaves_the_rest() {
    let stack = |path: &std::path::Path| {
        json!([[{"body": {"stackFrames": [{"id": 1, "name": "inner", "line": 2,
        "column": 1, "source": {"path": path}}]}}]])
    };
    let fails = json!([[{"fail": "Cannot access memory"}]]);
    for what in ["variables", "scopes", "stackTrace"] {
        let sandbox = with_adapter(&json!({}));
        let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
        let mut script = json!({"commands": {"configurationDone": [[{"body": {}}, stopped()]],
            "stackTrace": stack(&path)}});
        script["commands"][what] = fails.clone();
        follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
        let mut batch = Batch::start(&sandbox);
        let said = batch.call("debug", &launch()).ok();
        assert!(said.contains("stopped: breakpoint (thread 1)"), "{what}: {said}");
        assert!(said.contains("Cannot access memory"), "{what}: {said}");
        assert_eq!(said.contains("in inner at a.txt:2"), what != "stackTrace", "{said}");
        batch.end();
    }
}

#[test]
fn locals_of_another_call_are_not_told_as_changed() {
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
        assert!(batch.call("debug", &launch()).ok().contains("n = 3"));
        let said = batch.call("debug", &json!({"action": "continue"})).ok();
        assert!(said.contains("n = 4") && said.contains("m = 1") && !said.contains("was 3"), "{said}");
        batch.end();
    }
}

#[test]
fn a_trace_stays_in_its_thread_and_tells_a_return_of_its_own_call_only() {
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
fn the_filter_for_panics_is_taken_away_as_it_was_set() {
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
    assert!(set.contains("function rust_panic"), "{set}");
    panics["remove"] = json!(true);
    assert_eq!(batch.call("debug", &panics).ok(), "removed 2\na.txt:2\n");
    assert_eq!(asked(&sandbox, "setFunctionBreakpoints").pop(), Some(json!({"breakpoints": []})));
    assert!(batch.end().0.success());
}

#[test]
fn a_probe_writes_nothing_to_a_programs_own_output() {
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
    assert!(said.contains("a.txt:2: 2 passes\n") && said.contains("| 2 | a.txt:2 | n = 7 |"), "{said}");
    assert!(said.contains("it was held at each pass"), "{said}");
    assert!(asked(&sandbox, "setBreakpoints").iter().all(|it| it["breakpoints"][0]["logMessage"].is_null()));
    batch.end();
}

#[test]
fn every_change_of_a_debugged_program_is_told_in_order() {
    let sandbox = stopping();
    // It stops when it is told to, so that it is seen running before.
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
    let told = BufReader::new(child.stdout.take().expect("its output"));
    let mut states = Vec::new();
    for line in told.lines() {
        let line = line.expect("a line");
        let event = serde_json::from_str::<Value>(&line).expect("JSON")["event"].clone();
        if event["type"] != "debug_state" {
            continue;
        }
        assert_eq!(event["session"], "debug-1", "{event}");
        let word = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        states.push((word("state"), word("detail")));
        if event["state"] == "terminated" {
            // The run goes on until it was told.
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
    // How it is when it is first looked at is the first that is told.
    assert!(states.len() >= 4 && expected.ends_with(&states), "{states:?}");
}
