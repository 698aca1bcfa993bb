//! The requests that parameters and rarer actions of `debug` send to an adapter.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::built::scripted_debug_adapter;
use tests::{Batch, Sandbox, Terminal, check_output};

use crate::debug::{asked, follows, launch, stopped, stops, with_adapter};

const LONG: Duration = Duration::from_secs(60);

/// An adapter that accepts all arguments of `launch`, and attaches.
///
/// It follows this script besides that of `stops`.
fn able(can: &Value, commands: &Value) -> Sandbox {
    let sandbox = with_adapter(&json!({}));
    let file = sandbox.beside("script.json");
    let text = format!(
        "format = 1\nname = \"scripted\"\npatterns = [\"*.txt\"]\nverified = false\n\
         command.candidates = [{:?}]\ncommand.args = [{file:?}]\n\
         [launch]\nprogram = \"${{program}}\"\nmodule = \"${{module}}\"\nargs = \"${{args}}\"\ncwd = \"${{cwd}}\"\n\
         env = \"${{env}}\"\nstopOnEntry = \"${{stop_on_entry}}\"\n[attach]\nprocessId = \"${{pid}}\"\n\
         [install]\nhow = \"page\"\npage = \"x\"\n",
        scripted_debug_adapter()
    );
    std::fs::write(sandbox.home().join("config/adapters/debuggers/scripted.toml"), text)
        .expect("the definition");
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    let mut capabilities = json!({"supportsConfigurationDoneRequest": true});
    for (base, over) in [(&mut script["commands"], commands), (&mut capabilities, can)] {
        let members = base.as_object_mut().expect("an object");
        members.extend(over.as_object().expect("an object").clone());
    }
    follows(&sandbox, &capabilities, &script);
    sandbox
}

/// A project with a configuration that launches a.txt, one that attaches, and both.
fn configured(can: &Value, commands: &Value) -> Sandbox {
    let sandbox = able(can, commands);
    let directory = sandbox.project().join(".vscode");
    std::fs::create_dir(&directory).expect("a directory");
    let configs = json!({"configurations": [
            {"name": "one", "type": "scripted", "request": "launch", "program": "${workspaceFolder}/a.txt",
                "args": ["its"], "cwd": "${workspaceFolder}", "env": {"A": "1", "B": "1"}, "own": 1, "other": 1,
                "preLaunchTask": "build"},
            {"name": "two", "type": "scripted", "request": "attach", "processId": 1}],
        "compounds": [{"name": "both", "configurations": ["one", "two"]}]});
    std::fs::write(directory.join("launch.json"), configs.to_string()).expect("the file");
    sandbox
}

#[test]
fn call_arguments_override_a_configuration() {
    let sandbox = configured(&json!({}), &json!({}));
    let root = sandbox.project().canonicalize().expect("the project");
    std::fs::create_dir(root.join("sub")).expect("a directory");
    let mut batch = Batch::start(&sandbox);
    let mut start = json!({"action": "launch", "config": "one"});
    batch.call("debug", &start).ok();
    let first = asked(&sandbox, "launch").pop().expect("one");
    assert_eq!((&first["args"], &first["env"]), (&json!(["its"]), &json!({"A": "1", "B": "1"})), "{first}");
    for (name, value) in [
        ("args", json!(["given"])),
        ("cwd", json!("sub")),
        ("env", json!({"B": "2", "C": "3"})),
        ("arguments", json!("{\"own\": 2}")),
    ] {
        start[name] = value;
    }
    batch.call("debug", &start).ok();
    let second = asked(&sandbox, "launch").pop().expect("one");
    assert_eq!(second["args"], json!(["given"]));
    assert_eq!(second["cwd"], json!(root.join("sub")));
    assert_eq!(second["env"], json!({"A": "1", "B": "2", "C": "3"}));
    assert_eq!((&second["own"], &second["other"]), (&json!(2), &json!(1)));
    batch.end();
}

#[test]
fn a_probe_runs_a_configuration() {
    let runs = json!([[{"body": {}}, {"event": {"event": "exited", "body": {"exitCode": 0}}},
        {"event": {"event": "terminated"}}]]);
    let sandbox = configured(&json!({"supportsLogPoints": true}), &json!({"configurationDone": runs}));
    let mut batch = Batch::start(&sandbox);
    let probe = |name: &str| {
        json!({"action": "probe", "config": name, "args": ["given"],
            "points": [{"file": "a.txt", "line": 2, "expressions": ["n"]}]})
    };
    let said = batch.call("debug", &probe("one")).ok();
    check_output(
        &said,
        &expect![[r#"
            one has the preLaunchTask `build`, which was not run
            one: ended with exit code 0
            a.txt:2: 0 passes: the line was not reached, or the expressions cannot be evaluated

            | pass | at | values |
            |---|---|---|

            measured by log points, without stopping the program
        "#]],
    );
    let sent = asked(&sandbox, "launch").pop().expect("one");
    assert_eq!((&sent["args"], &sent["own"]), (&json!(["given"]), &json!(1)), "{sent}");
    for (name, why) in
        [("two", "`two` attaches to one"), ("both", "`both` starts several; name one of one, two")]
    {
        let said = batch.call("debug", &probe(name)).fails("invalid_arguments");
        assert!(said.contains(why), "{said}");
    }
    batch.end();
}

#[test]
fn a_stack_of_unknown_depth_is_shown_as_partial() {
    let frames: Vec<Value> =
        (1..=51).map(|it| json!({"id": it, "name": "f", "line": 2, "column": 1})).collect();
    let some = |count: usize| json!([{"body": {"stackFrames": frames[..count]}}]);
    let sandbox = able(&json!({}), &json!({"stackTrace": [some(50), some(3), some(50)]}));
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &launch()).ok();
    check_output(
        &said,
        &expect![[r#"
        debug-1: a.txt stopped: breakpoint (thread 1)
        in f
        frames:
          frame 1: f
          frame 2: f
          frame 3: f
          frame 4: f
          frame 5: f
          frame 6: f
          frame 7: f
          frame 8: f
          at least 42 frames more, outside the project or deeper; see `stack`
        locals:
          n = 3
          m = 1
    "#]],
    );
    let said = batch.call("debug", &json!({"action": "stack", "count": 2})).ok();
    check_output(
        &said,
        &expect![[r#"
        frame 1: f
        frame 2: f
        more follow; continue with `start: 2`
    "#]],
    );
    let answer = batch.call("debug", &json!({"action": "stack"}));
    assert!(!answer.ok().contains("more") && answer.value["details"]["more"] == false, "{}", answer.ok());
    batch.end();
}

#[test]
fn arguments_for_a_stopped_program_are_refused_at_launch() {
    let sandbox = able(&json!({}), &json!({}));
    let mut batch = Batch::start(&sandbox);
    for name in ["memory_reference", "data_id", "name"] {
        let mut start = launch();
        start[name] = json!("x");
        let said = batch.call("debug", &start).fails("invalid_arguments");
        let does = format!("then use the action `breakpoints` with `{name}`");
        assert!(said.contains(&format!("`launch` takes no `{name}`")) && said.contains(&does), "{said}");
    }
    assert!(!sandbox.beside("record.jsonl").exists(), "the adapter was started");
    batch.end();
}

#[test]
fn an_attached_program_is_ended_if_the_adapter_can() {
    let attach = json!({"action": "attach", "adapter": "scripted", "pid": 1});
    for can in [true, false] {
        let sandbox = able(&json!({"supportTerminateDebuggee": can}), &json!({}));
        let mut batch = Batch::start(&sandbox);
        batch.call("debug", &attach).ok();
        let ends = batch.call("debug", &json!({"action": "terminate"}));
        if can {
            check_output(
                &ends.ok(),
                &expect![[r#"
                debug-1: process 1 ended: it was terminated
            "#]],
            );
        } else {
            let said = ends.fails("unsupported");
            check_output(
                &said,
                &expect![
                    "scripted cannot end a program that it did not launch; `disconnect` leaves it running"
                ],
            );
            batch.call("debug", &json!({"action": "disconnect"})).ok();
        }
        assert_eq!(asked(&sandbox, "disconnect")[0], json!({"terminateDebuggee": can}));
        batch.end();
    }
}

#[test]
fn attaching_is_refused_where_a_sandbox_is_required() {
    let mut sandbox = able(&json!({}), &json!({}));
    sandbox.variables.insert("PILCROW_EXEC_SANDBOX".to_owned(), "required".to_owned());
    let mut batch = Batch::start(&sandbox);
    let attach = json!({"action": "attach", "adapter": "scripted", "pid": 1});
    let refused = batch.call("debug", &attach).fails("denied");
    expect_test::expect![[
        r#"debug: attach to process 1 would run outside the sandbox, and `exec.sandbox` is "required""#
    ]]
    .assert_eq(&refused);
    batch.end();
}

/// Attaches to a program that existed before and belongs to the user.
#[test]
fn an_attached_program_survives_a_denied_termination() {
    let mut sandbox = able(&json!({"supportTerminateDebuggee": true}), &json!({}));
    let config = sandbox.home().join("config/config.toml");
    std::fs::write(config, "[policy]\nrules = [\"allow exec\"]\n").expect("the rules");
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let call = |arguments: Value| json!([{"name": "debug", "arguments": arguments}]);
    let lines = [
        json!({"tool_calls": call(json!({"action": "attach", "adapter": "scripted", "pid": 1}))}),
        json!({"expect": {"last_is_error": false}, "tool_calls": call(json!({"action": "terminate"}))}),
        json!({"expect": {"last_is_error": true, "last_contains": ["not yet"]},
            "tool_calls": call(json!({"action": "snapshot"}))}),
        json!({"expect": {"last_is_error": false, "last_contains": ["stopped: breakpoint"]}, "text": "Done."}),
    ];
    let script = sandbox.beside("model.jsonl");
    std::fs::write(&script, lines.map(|line| format!("{line}\n")).concat()).expect("the model");
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));
    let mut terminal = Terminal::start(&mut sandbox.command(&["run", "end it"]));
    terminal.waits_for("In the debugged program: attach to process 1, outside the sandbox?", LONG);
    terminal.types("y\n");
    terminal.waits_for("In the debugged program: end what it was attached to, ", LONG);
    // The session ends no program before the question.
    assert_eq!(asked(&sandbox, "disconnect"), [Value::Null; 0]);
    terminal.types("not yet\n");
    assert!(terminal.ends(LONG).success(), "{}", terminal.shown());
    // Pilcrow's exit does not end it either.
    assert_eq!(asked(&sandbox, "disconnect"), [json!({"terminateDebuggee": false})]);
    assert_eq!(asked(&sandbox, "terminate"), [Value::Null; 0]);
}

#[test]
fn an_adapters_own_restart_needs_permission_as_a_launch() {
    let can = json!({"supportsRestartRequest": true});
    let again = json!([[{"body": {}}, stopped()]]);
    let sandbox = able(&can, &json!({"restart": again}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    check_output(
        &batch.call("debug", &json!({"action": "restart"})).ok(),
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
    batch.end();
    assert_eq!(asked(&sandbox, "restart").len(), 1);
}

#[test]
fn step_granularity_and_target_are_sent() {
    let can = json!({"supportsSteppingGranularity": true, "supportsStepBack": true});
    let sandbox = able(&can, &json!({"reverseContinue": [[{"body": {}}, stopped()]]}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    for (action, command) in [("step_in", "stepIn"), ("step_out", "stepOut"), ("step_over", "next")] {
        let step = json!({"action": action, "granularity": "instruction"});
        assert!(batch.call("debug", &step).ok().contains("stopped: step"), "{action}");
        let sent = asked(&sandbox, command).pop().expect("one");
        assert_eq!(sent, json!({"threadId": 1, "granularity": "instruction"}), "{command}");
    }
    let said = batch.call("debug", &json!({"action": "reverse_continue"})).ok();
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
              frame 9: inner at a.txt:2
              1 frame more, outside the project or deeper; see `stack`
            locals that changed: none
              2 unchanged; see `scopes` and `variables`
        "#]],
    );
    assert_eq!(asked(&sandbox, "reverseContinue"), [json!({"threadId": 1})]);
    batch.end();
    let sandbox = able(&json!({}), &json!({}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let step = json!({"action": "step_in", "granularity": "instruction"});
    let said = batch.call("debug", &step).fails("unsupported");
    check_output(
        &said,
        &expect!["scripted cannot step by instruction; without `granularity` it steps by lines"],
    );
    batch.end();
}

#[test]
fn variables_are_paged_and_filtered_by_kind() {
    let all: Vec<Value> =
        (0..60).map(|it| json!({"name": format!("[{it}]"), "value": "0", "variablesReference": 0})).collect();
    let some = |from: usize, to: usize| json!([{"body": {"variables": all[from..to]}}]);
    let turns = json!([some(0, 41), some(50, 53), some(0, 1), some(0, 60)]);
    let sandbox = able(
        &json!({}),
        &json!({"variables": turns,
        "scopes": [[{"body": {"scopes": [{"name": "Locals", "variablesReference": 9, "expensive": false}]}}]]}),
    );
    let mut batch = Batch::start(&sandbox);
    let answer = batch.call("debug", &launch());
    let said = answer.ok();
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
              [0] = 0
              [1] = 0
              [2] = 0
              [3] = 0
              [4] = 0
              [5] = 0
              [6] = 0
              [7] = 0
              [8] = 0
              [9] = 0
              [10] = 0
              [11] = 0
              [12] = 0
              [13] = 0
              [14] = 0
              [15] = 0
              [16] = 0
              [17] = 0
              [18] = 0
              [19] = 0
              [20] = 0
              [21] = 0
              [22] = 0
              [23] = 0
              [24] = 0
              [25] = 0
              [26] = 0
              [27] = 0
              [28] = 0
              [29] = 0
              [30] = 0
              [31] = 0
              [32] = 0
              [33] = 0
              [34] = 0
              [35] = 0
              [36] = 0
              [37] = 0
              [38] = 0
              [39] = 0
              0 unchanged, and more were not read; see `scopes` and `variables`
        "#]],
    );
    let scopes = batch.call("debug", &json!({"action": "scopes"})).value["details"]["scopes"].clone();
    let reference = scopes[0]["variables_reference"].clone();
    let call = |more: Value| {
        let mut call = json!({"action": "variables", "variables_reference": reference});
        call.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        call
    };
    // With `filter` the adapter receives the start and pages itself.
    let answer = batch.call("debug", &call(json!({"start": 50, "count": 2, "filter": "indexed"})));
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
        [50] = 0
        [51] = 0
        more follow; continue with `start: 52`
    "#]],
    );
    let sent = asked(&sandbox, "variables").pop().expect("one");
    assert_eq!(sent, json!({"variablesReference": 9, "filter": "indexed", "start": 50, "count": 3}));
    let answer = batch.call("debug", &call(json!({"filter": "named"})));
    assert!(!answer.ok().contains("more") && answer.value["details"]["more"] == false, "{}", answer.ok());
    // An adapter without paging returns all.
    let said = batch.call("debug", &call(json!({"start": 58}))).ok();
    assert_eq!(said, "[58] = 0\n[59] = 0\n");
    batch.end();
}

#[test]
fn exception_details_are_shown() {
    let info = json!({"exceptionId": "ValueError", "description": "no number", "breakMode": "unhandled",
        "details": {"fullTypeName": "builtins.ValueError", "stackTrace": "at a.txt:2"}});
    let sandbox =
        able(&json!({"supportsExceptionInfoRequest": true}), &json!({"exceptionInfo": [[{"body": info}]]}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let answer = batch.call("debug", &json!({"action": "exception_info"}));
    assert_eq!(answer.ok(), "ValueError: no number\ntype: builtins.ValueError\nthrown at: at a.txt:2\n");
    assert_eq!(answer.value["details"]["mode"], "unhandled");
    batch.end();
    let sandbox = able(&json!({}), &json!({}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let said = batch.call("debug", &json!({"action": "exception_info"})).fails("unsupported");
    check_output(&said, &expect!["scripted cannot report exceptions; `snapshot` shows why it stopped"]);
    batch.end();
}

#[test]
fn launch_and_inspect_arguments_reach_the_adapter() {
    let sandbox = able(&json!({}), &json!({}));
    let mut batch = Batch::start(&sandbox);
    let start = json!({"action": "launch", "module": "tool.main", "adapter": "scripted", "stop_on_entry": true,
        "args": ["x"], "breakpoints": [{"file": "a.txt", "line": 2, "column": 3}]});
    batch.call("debug", &start).ok();
    let sent = asked(&sandbox, "launch").pop().expect("one");
    assert_eq!(
        (&sent["module"], &sent["stopOnEntry"], &sent["args"], &sent["program"]),
        (&json!("tool.main"), &json!(true), &json!(["x"]), &Value::Null)
    );
    assert_eq!(asked(&sandbox, "setBreakpoints")[0]["breakpoints"], json!([{"line": 2, "column": 3}]));
    for context in ["hover", "repl"] {
        batch.call("debug", &json!({"action": "evaluate", "expression": "n", "context": context})).ok();
        assert_eq!(asked(&sandbox, "evaluate").pop().expect("one")["context"], context);
    }
    batch.end();
}

/// A source has no adapter, nor a program whose definition cannot be read.
#[test]
fn a_program_without_an_adapter_is_explained() {
    let sandbox = able(&json!({}), &json!({}));
    let broken = sandbox.home().join("config/adapters/debuggers/broken.toml");
    std::fs::write(&broken, "name = \"broken\"\npatterns = [\"*.odd\"]\n").expect("the definition");
    for name in ["main.rs", "a.odd"] {
        std::fs::write(sandbox.project().join(name), "x").expect("a file");
    }
    let mut batch = Batch::start(&sandbox);
    let mut refused = |program: &str, code: &str| {
        batch.call("debug", &json!({"action": "launch", "program": program})).fails(code)
    };
    check_output(
        &refused("main.rs", "invalid_arguments"),
        &expect![[r#"
        main.rs is a source, not a program
        build it (`cargo build`) and `launch` the executable, or use `test` for a test in it"#]],
    );
    let said = refused("a.odd", "unsupported");
    let (known, refused) = said.split_once('\n').expect("two lines");
    assert!(known.contains("a.odd"), "{said}");
    check_output(
        refused,
        &expect!["not used: <sandbox>/home/config/adapters/debuggers/broken.toml:1: missing field `command`"],
    );
    batch.end();
}
