//! The tool `debug` over a scripted adapter: rarer breakpoints, requests, limits.

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, check_output};

use crate::debug::{asked, follows, launch, peculiar, stopped, stops, with_adapter};

/// A sandbox whose program stops, with further capabilities and commands.
fn stopping_with(can: &Value, commands: Value) -> Sandbox {
    let sandbox = with_adapter(&json!({}));
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    let placed = json!([[{"body": {"breakpoints": [{"id": 31, "verified": true}]}}]]);
    script["commands"]["setDataBreakpoints"] = placed.clone();
    script["commands"]["setInstructionBreakpoints"] = placed;
    script["commands"]["readMemory"] = json!([[{"body": {"address": "0x10", "data": "Kg=="}}]]);
    script["commands"]["disassemble"] = json!([[{"body": {"instructions": []}}]]);
    for (name, turns) in commands.as_object().expect("commands") {
        script["commands"][name] = turns.clone();
    }
    let mut all = json!({"supportsConfigurationDoneRequest": true});
    all.as_object_mut().expect("members").extend(can.as_object().cloned().expect("capabilities"));
    follows(&sandbox, &all, &script);
    sandbox
}

fn data_info(id: &str) -> Value {
    json!([[{"body": {"dataId": id, "description": "n", "accessTypes": ["read", "write"]}}]])
}

#[test]
fn memory_expressions_need_permission() {
    let can = json!({"supportsInstructionBreakpoints": true, "supportsDataBreakpoints": true,
        "supportsReadMemoryRequest": true, "supportsWriteMemoryRequest": true,
        "supportsDisassembleRequest": true});
    let sandbox = stopping_with(&can, json!({"dataBreakpointInfo": data_info("n/8")}));
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let config = sandbox.home().join("config/config.toml");
    std::fs::create_dir_all(config.parent().expect("a directory")).expect("the config directory");
    let rules = "[policy]\nrules = [\"allow exec\", \"deny debug\"]\n";
    std::fs::write(config, rules).expect("the rules");
    let call = "((int(*)(const char*))system)(\"touch P1\")";
    let calls = [
        (launch(), "ok"),
        (json!({"action": "breakpoints", "memory_reference": call}), "denied"),
        (json!({"action": "breakpoints", "name": call}), "denied"),
        (json!({"action": "read_memory", "memory_reference": call}), "denied"),
        (json!({"action": "write_memory", "memory_reference": call, "value": "00"}), "denied"),
        (json!({"action": "disassemble", "memory_reference": call}), "denied"),
        (json!({"action": "breakpoints", "memory_reference": "0x1000"}), "ok"),
        (json!({"action": "breakpoints", "memory_reference": "4096"}), "ok"),
        (json!({"action": "breakpoints", "name": "n"}), "ok"),
        (json!({"action": "read_memory", "memory_reference": "0x10fF"}), "ok"),
        (json!({"action": "disassemble", "memory_reference": "0x1000"}), "ok"),
    ];
    let lines: String =
        calls.iter().map(|(it, _)| format!("{}\n", json!({"name": "debug", "arguments": it}))).collect();
    let ran = sandbox.run_with_input(&["tool", "--batch", "--json"], &lines);
    let answers = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    let codes: Vec<String> =
        answers.map(|it: Value| it["error"]["code"].as_str().unwrap_or("ok").to_owned()).collect();
    assert_eq!(codes, calls.iter().map(|(_, it)| *it).collect::<Vec<_>>(), "{}", ran.all());
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    assert!(!record.contains("system"), "{record}");
}

#[test]
fn memory_can_be_named_by_an_expression() {
    let can = json!({"supportsReadMemoryRequest": true, "supportsWriteMemoryRequest": true});
    let pointer = json!([[{"body": {"result": "(int *) 0x7ffe10", "variablesReference": 0}}]]);
    let read = json!([[{"body": {"address": "0x7ffe10", "data": "Kg=="}}]]);
    let answers = json!({"evaluate": pointer, "writeMemory": [[{"body": {}}]], "readMemory": read});
    let sandbox = stopping_with(&can, answers);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let read = json!({"action": "read_memory", "memory_reference": "&n", "count": 1});
    batch.call("debug", &read).ok();
    assert_eq!(asked(&sandbox, "readMemory")[0]["memoryReference"], "0x7ffe10");
    let write = json!({"action": "write_memory", "memory_reference": "&n", "value": "2a"});
    batch.call("debug", &write).ok();
    assert_eq!(asked(&sandbox, "writeMemory")[0]["memoryReference"], "0x7ffe10");
    // The adapter reports success, and the memory holds another byte.
    let lost = json!({"action": "write_memory", "memory_reference": "&n", "value": "2b"});
    batch.call("debug", &lost).fails("not_applied");
    // A number is used unchanged.
    batch.call("debug", &json!({"action": "read_memory", "memory_reference": "0x10"})).ok();
    assert_eq!(asked(&sandbox, "readMemory")[3]["memoryReference"], "0x10");
    assert_eq!(asked(&sandbox, "evaluate").len(), 3);
    assert!(batch.end().0.success());
}

#[test]
fn an_unknown_data_id_is_not_watched() {
    let can = json!({"supportsDataBreakpoints": true});
    let sandbox = stopping_with(&can, json!({"dataBreakpointInfo": data_info("n/8")}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let watch = |id: &str| json!({"action": "breakpoints", "data_id": id});
    let refused = batch.call("debug", &watch("nonsense")).fails("invalid_arguments");
    assert!(refused.contains("nonsense") && refused.contains("`name`"), "{refused}");
    let info =
        json!({"action": "request", "command": "dataBreakpointInfo", "arguments": "{\"name\": \"n\"}"});
    batch.call("debug", &info).ok();
    batch.call("debug", &watch("n/8")).ok();
    let sent = asked(&sandbox, "setDataBreakpoints");
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0]["breakpoints"][0]["dataId"], "n/8");
    assert!(batch.end().0.success());
}

#[test]
fn a_raw_request_that_resumes_invalidates_frames() {
    for command in ["continue", "next", "restartFrame"] {
        // This adapter only reacts with another stop.
        let can = json!({"supportsRestartFrame": true});
        let sandbox = stopping_with(&can, json!({(command): [[{"body": {}}, stopped()]]}));
        let mut batch = Batch::start(&sandbox);
        let first = batch.call("debug", &launch());
        let frame = first.value["details"]["frames"][0]["frame"].clone();
        let raw = json!({"action": "request", "command": command, "arguments": "{\"threadId\": 1}"});
        let said = batch.call("debug", &raw).ok();
        assert!(said.contains("stopped: breakpoint"), "{command}: {said}");
        let stale = batch.call("debug", &json!({"action": "scopes", "frame": frame}));
        stale.fails("stale_text");
        assert!(batch.end().0.success());
    }
    // This adapter does not react: the program runs from then on.
    let sandbox = stopping_with(&json!({}), json!({"continue": [[{"body": {}}]]}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    batch.call("debug", &json!({"action": "request", "command": "continue", "timeout": 1})).ok();
    let sessions = batch.call("debug", &json!({"action": "sessions"})).ok();
    check_output(
        &sessions,
        &expect![[r#"
        debug-1: a.txt (scripted), running
    "#]],
    );
    assert!(batch.end().0.success());
}

#[test]
fn each_kind_of_breakpoint_is_listed_and_removed() {
    let can = json!({"supportsFunctionBreakpoints": true, "supportsDataBreakpoints": true,
        "supportsInstructionBreakpoints": true, "supportsExceptionInfoRequest": false,
        "exceptionBreakpointFilters": [{"filter": "uncaught", "label": "Uncaught", "default": true},
            {"filter": "raised", "label": "Raised"}]});
    let sandbox = stopping_with(&can, json!({"dataBreakpointInfo": data_info("n/8")}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let mut call = |more: Value| {
        let mut arguments = json!({"action": "breakpoints"});
        arguments.as_object_mut().expect("members").extend(more.as_object().cloned().expect("members"));
        batch.call("debug", &arguments).ok()
    };
    let listed = call(json!({}));
    assert_eq!(listed, "a.txt:2\nexceptions uncaught (default)\n");
    call(json!({"functions": ["f", "g"]}));
    call(json!({"name": "n"}));
    call(json!({"memory_reference": "0x10", "offset": 4}));
    call(json!({"file": "a.txt", "line": 4}));
    let listed = call(json!({"exceptions": ["raised"]}));
    let all =
        "a.txt:2\na.txt:4\nfunction f\nfunction g\ndata n\ninstruction 0x10+4\nexceptions uncaught, raised\n";
    assert_eq!(listed, all);
    let mut left = all.to_owned();
    for (gone, line) in [
        (json!({"functions": ["f"]}), "function f\n"),
        (json!({"name": "n"}), "data n\n"),
        (json!({"memory_reference": "0x10", "offset": 4}), "instruction 0x10+4\n"),
        (json!({"exceptions": ["raised"]}), ", raised"),
        (json!({"breakpoints": [{"file": "a.txt", "line": 4}]}), "a.txt:4\n"),
    ] {
        left = left.replace(line, "");
        let mut gone = gone;
        gone["remove"] = json!(true);
        let said = call(gone.clone());
        assert_eq!(said, format!("removed 1\n{left}"), "{gone}");
    }
    // Adapters accept such a breakpoint and never stop there.
    for at in [json!({"file": "a.txt", "line": 0}), json!({"breakpoints": [{"file": "a.txt", "line": 0}]})] {
        let mut at = at;
        at["action"] = json!("breakpoints");
        batch.call("debug", &at).fails("invalid_arguments");
    }
    let mut call = |more: Value| {
        let mut arguments = json!({"action": "breakpoints"});
        arguments.as_object_mut().expect("members").extend(more.as_object().cloned().expect("members"));
        batch.call("debug", &arguments).ok()
    };
    // Without a selection the call removes all, and the filters stay.
    assert_eq!(call(json!({"remove": true})), "removed 2\nno breakpoints\nexceptions uncaught\n");
    assert_eq!(call(json!({"remove": true, "exceptions": ["uncaught"]})), "removed 1\nno breakpoints\n");
    let last = asked(&sandbox, "setExceptionBreakpoints").pop().expect("one");
    assert_eq!(last["filters"], json!([]));
    assert!(batch.end().0.success());
}

#[test]
fn each_kind_of_breakpoint_takes_conditions() {
    let can = json!({"supportsFunctionBreakpoints": true, "supportsDataBreakpoints": true,
        "supportsInstructionBreakpoints": true, "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true});
    let sandbox = stopping_with(&can, json!({"dataBreakpointInfo": data_info("n/8")}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let mut call = |more: Value| {
        let mut arguments = json!({"action": "breakpoints", "condition": "n == 2", "hit": "3"});
        arguments.as_object_mut().expect("members").extend(more.as_object().cloned().expect("members"));
        batch.call("debug", &arguments)
    };
    call(json!({"functions": ["f"]})).ok();
    call(json!({"memory_reference": "0x10"})).ok();
    call(json!({"file": "a.txt", "line": 4})).ok();
    let listed = call(json!({"name": "n", "access": "read"})).ok();
    for line in [
        "a.txt:4 if n == 2 hit 3 (`n` is not in a.txt)\n",
        "function f if n == 2 hit 3\n",
        "data n (read) if n == 2 hit 3\n",
        "instruction 0x10 if n == 2 hit 3\n",
    ] {
        assert!(listed.contains(line), "{line} is missing in: {listed}");
    }
    let refused = call(json!({"name": "n", "access": "readWrite"})).fails("unsupported");
    check_output(
        &refused,
        &expect!["scripted cannot stop at a readWrite of it; `access` can be: read, write"],
    );
    for command in ["setFunctionBreakpoints", "setDataBreakpoints", "setInstructionBreakpoints"] {
        let sent = asked(&sandbox, command).pop().expect("one")["breakpoints"][0].clone();
        assert_eq!((&sent["condition"], &sent["hitCondition"]), (&json!("n == 2"), &json!("3")), "{sent}");
        assert!(command != "setDataBreakpoints" || sent["accessType"] == "read", "{sent}");
    }
    assert!(batch.end().0.success());
}

#[test]
fn conditions_with_side_effects_need_permission() {
    let can = json!({"supportsFunctionBreakpoints": true, "supportsDataBreakpoints": true,
        "supportsInstructionBreakpoints": true, "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true});
    let sandbox = stopping_with(&can, json!({"dataBreakpointInfo": data_info("n/8")}));
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let config = sandbox.home().join("config/config.toml");
    std::fs::create_dir_all(config.parent().expect("a directory")).expect("the config directory");
    std::fs::write(config, "[policy]\nrules = [\"allow exec\", \"deny debug\"]\n").expect("the rules");
    let mut calls = vec![launch()];
    for what in [json!({"functions": ["f"]}), json!({"name": "n"}), json!({"memory_reference": "0x10"})] {
        let mut call = json!({"action": "breakpoints", "condition": "remove()"});
        call.as_object_mut().expect("members").extend(what.as_object().cloned().expect("members"));
        calls.push(call);
    }
    let lines: String =
        calls.iter().map(|it| format!("{}\n", json!({"name": "debug", "arguments": it}))).collect();
    let ran = sandbox.run_with_input(&["tool", "--batch", "--json"], &lines);
    let answers = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    let codes: Vec<String> =
        answers.map(|it: Value| it["error"]["code"].as_str().unwrap_or("ok").to_owned()).collect();
    assert_eq!(codes, [&["ok"][..], &["denied"; 3]].concat(), "{}", ran.all());
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    assert!(!record.contains("remove()"), "{record}");
}

#[test]
fn long_output_and_many_threads_are_paged() {
    let line = json!({"event": {"event": "output",
        "body": {"category": "stdout", "output": format!("{}\n", "x".repeat(99))}}});
    let last = json!({"event": {"event": "output", "body": {"category": "stdout", "output": "the last\n"}}});
    let many = json!({"repeat": {"count": 1000, "steps": [line]}});
    let threads: Vec<Value> = (1..=150).map(|id| json!({"id": id, "name": format!("worker {id}")})).collect();
    let commands = json!({"configurationDone": [[{"body": {}}, many, last, stopped()]],
        "threads": [[{"body": {"threads": threads}}]]});
    let sandbox = stopping_with(&json!({}), commands);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let all = 1000 * 100 + 9;
    let answer = batch.call("debug", &json!({"action": "output"}));
    let said = answer.ok();
    assert!(said.len() < 20_000 && said.trim_end().ends_with("the last"), "{} bytes", said.len());
    assert!(answer.value["details"].to_string().len() < 20_000);
    assert!(said.contains("`start: 0`"), "{said}");
    let (mut read, mut at) = (0, 0);
    while at < all {
        let part = json!({"action": "output", "start": at, "count": 40_000});
        let part = batch.call("debug", &part).value["details"].clone();
        let pieces = part["output"].as_array().expect("pieces").iter();
        read += pieces.map(|it| it["text"].as_str().expect("text").len()).sum::<usize>();
        assert!(part["next"].as_u64().is_some_and(|next| next > at), "{part}");
        at = part["next"].as_u64().expect("a number");
    }
    assert_eq!(read as u64, all);
    let said = batch.call("debug", &json!({"action": "threads"})).ok();
    let end: Vec<&str> = said.lines().skip_while(|line| !line.contains("worker 100")).collect();
    check_output(
        &end.join("\n"),
        &expect![[r#"
        thread 100: worker 100
        50 threads more; the answer to `request` with `threads` names them"#]],
    );
    assert!(!said.contains("worker 101"), "{said}");
    assert!(batch.end().0.success());
}

/// Output of a trace of `n` with these further turns of the adapter.
fn trace(commands: Value, until: Option<&str>) -> String {
    let n = |value: &str| json!([{"body": {"result": value, "variablesReference": 0}}]);
    let sandbox = stopping_with(&json!({}), json!({}));
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    script["commands"]["evaluate"] = json!([n("1"), n("2"), n("3")]);
    for (name, turns) in commands.as_object().expect("commands") {
        script["commands"][name] = turns.clone();
    }
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let said = batch.call("debug", &json!({"action": "trace", "expression": "n", "until": until})).ok();
    batch.end();
    said
}

#[test]
fn a_failing_trace_reports_its_findings() {
    let step = |thread: u64| {
        json!([{"body": {}}, {"event": {"event": "stopped",
            "body": {"reason": "step", "threadId": thread, "allThreadsStopped": true}}}])
    };
    let failed = json!([{"fail": "no more"}]);
    let said = trace(json!({"next": [step(1), failed]}), None);
    check_output(
        &said,
        &expect![[r#"
            inner at a.txt:2: n = 1
            inner at a.txt:2: 1 -> 2
            scripted refused `next`: no more (1 step)
            debug-1: a.txt stopped: step (thread 1)
            in inner at a.txt:2
            [a.txt#2FA7]
            1cc	one
            2uc	two
            3pw	three
            4hn	four
            next: line 2
            frames:
              frame 4: inner at a.txt:2
              1 frame more, outside the project or deeper; see `stack`
            locals that changed:
              n = 4  (was 3)
              1 unchanged; see `scopes` and `variables`
        "#]],
    );
    // The name leaves its scope and enters it again.
    let one = step(1);
    let out = json!([{"fail": "n is not defined"}]);
    let n = |value: &str| json!([{"body": {"result": value, "variablesReference": 0}}]);
    let evaluated = json!([n("1"), out, out, n("1")]);
    let said = trace(json!({"next": [one, one, one, failed], "evaluate": evaluated}), None);
    let changes: Vec<&str> = said.lines().take(3).collect();
    check_output(
        &changes.join("\n"),
        &expect![[r#"
            inner at a.txt:2: n = 1
            inner at a.txt:2: 1 -> (out of scope)
            inner at a.txt:2: (out of scope) -> 1"#]],
    );
    // At the end of the script, the program stops without a frame.
    let frame = json!([{"body": {"totalFrames": 1, "stackFrames": [{"id": 1, "name": "f", "line": 2, "column": 1}]}}]);
    let none = json!([{"body": {"totalFrames": 0, "stackFrames": []}}]);
    let stacks = json!([frame, frame, frame, none]);
    let said = trace(json!({"next": [step(1), step(1)], "stackTrace": stacks}), None);
    check_output(
        &said,
        &expect![[r#"
            f: n = 1
            f: 1 -> 2
            the program stopped without a frame (2 steps)
            debug-1: a.txt stopped: step (thread 1)
            no frame is known
        "#]],
    );
    // The value in another thread at the same place is not a change.
    let said = trace(json!({"next": [step(1), step(7)]}), None);
    check_output(
        &said,
        &expect![[r#"
        inner at a.txt:2: n = 1
        inner at a.txt:2: 1 -> 2
        thread 7 stopped: step (2 steps)
        debug-1: a.txt stopped: step (thread 7)
        in inner at a.txt:2
        [a.txt#2FA7]
        1cc	one
        2uc	two
        3pw	three
        4hn	four
        next: line 2
        frames:
          frame 4: inner at a.txt:2
          1 frame more, outside the project or deeper; see `stack`
        locals:
          n = 4
          m = 1
    "#]],
    );
}

#[test]
fn failed_requests_do_not_hide_the_rest_of_a_snapshot() {
    let refused = json!([[{"fail": "Cannot access memory"}]]);
    let sandbox = stopping_with(&json!({}), json!({"variables": refused}));
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &launch()).ok();
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
              some could not be read: scripted refused `variables`: Cannot access memory
        "#]],
    );
    assert!(batch.end().0.success());
    let sandbox = stopping_with(&json!({}), json!({"stackTrace": refused}));
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &launch()).ok();
    check_output(
        &said,
        &expect![[r#"
        debug-1: a.txt stopped: breakpoint (thread 1)
        its stack could not be read: scripted refused `stackTrace`: Cannot access memory
    "#]],
    );
    assert!(batch.end().0.success());
}

/// An adapter that answers `setVariable` with the old value.
///
/// debugpy does this after a failure.
fn setting(scopes: &Value, evaluated: &Value) -> (Sandbox, Batch) {
    let sandbox = with_adapter(&json!({}));
    let variables = json!({"variables": [{"name": "n", "value": "3", "variablesReference": 0}]});
    let script = json!({"commands": {
        "configurationDone": [[{"body": {}}, stopped()]],
        "scopes": [[{"body": {"scopes": scopes}}]],
        "variables": [[{"body": variables}]],
        "evaluate": [[evaluated]],
        "setVariable": [[{"body": {"value": "3"}}]]}});
    follows(
        &sandbox,
        &json!({"supportsConfigurationDoneRequest": true, "supportsSetVariable": true}),
        &script,
    );
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    (sandbox, batch)
}

fn set(name: &str, value: &str) -> Value {
    json!({"action": "set_variable", "name": name, "value": value})
}

#[test]
fn a_variable_that_was_not_set_is_reported() {
    let scopes = json!([{"name": "Locals", "variablesReference": 7, "expensive": false}]);
    let (sandbox, mut batch) = setting(&scopes, &json!({"fail": "NameError: name 'y' is not defined"}));
    let said = batch.call("debug", &set("n", "y")).fails("not_applied");
    check_output(
        &said,
        &expect![
            "n was not changed: it is still 3; scripted reports for `y`: NameError: name 'y' is not defined"
        ],
    );
    check_output(
        &batch.call("debug", &set("n", "3")).ok(),
        &expect![[r#"
        n = 3
    "#]],
    );
    let said = batch.call("debug", &set("nosuch", "5")).fails("not_found");
    check_output(
        &said,
        &expect![[
            r#"there is no variable `nosuch` here; give the `variables_reference` of its container: Locals (1)"#
        ]],
    );
    assert_eq!(asked(&sandbox, "setVariable").len(), 2, "no further request is sent");
    batch.end();

    let (_sandbox, mut batch) = setting(&scopes, &json!({"body": {"result": "4", "variablesReference": 0}}));
    let said = batch.call("debug", &set("n", "m + 1")).ok();
    check_output(
        &said,
        &expect![[r#"
        n was not changed: it is still 3
    "#]],
    );
    batch.end();
    let (_sandbox, mut batch) = setting(&scopes, &json!({"body": {"result": "3", "variablesReference": 0}}));
    let said = batch.call("debug", &set("n", "1 + 2")).ok();
    check_output(
        &said,
        &expect![[r#"
        n = 3
    "#]],
    );
    batch.end();
}

#[test]
fn a_variable_is_set_in_the_scope_of_expressions() {
    let sandbox = peculiar("skip_scopes = [\"Globals\"]");
    let script = json!({"commands": {
        "configurationDone": [[{"body": {}}, stopped()]],
        "scopes": [[{"body": {"scopes": [
            {"name": "Globals", "variablesReference": 8, "expensive": false},
            {"name": "Locals", "variablesReference": 7, "expensive": false}]}}]],
        "variables": [[{"body": {"variables": [{"name": "n", "value": "3", "variablesReference": 0}]}}]],
        "setVariable": [[{"body": {"value": "${arguments.value}"}}]]}});
    follows(
        &sandbox,
        &json!({"supportsConfigurationDoneRequest": true, "supportsSetVariable": true}),
        &script,
    );
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    check_output(
        &batch.call("debug", &set("n", "5")).ok(),
        &expect![[r#"
        n = 5
    "#]],
    );
    assert_eq!(asked(&sandbox, "setVariable")[0]["variablesReference"], 7);
    batch.end();
}

#[test]
fn a_breakpoint_with_a_message_is_a_logpoint() {
    let sandbox = with_adapter(&json!({}));
    let script = json!({"commands": {"configurationDone": [[{"body": {}}, stopped()]]}});
    let can = json!({"supportsConfigurationDoneRequest": true, "supportsLogPoints": true});
    follows(&sandbox, &can, &script);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let point = json!({"action": "breakpoints", "file": "a.txt", "line": 3, "log": "n is {n}"});
    check_output(
        &batch.call("debug", &point).ok(),
        &expect![[r#"
        a.txt:2
        a.txt:3 log n is {n}
    "#]],
    );
    let sent = asked(&sandbox, "setBreakpoints");
    let last = &sent.last().expect("they were sent")["breakpoints"];
    assert_eq!(last[1], json!({"line": 3, "logMessage": "n is {n}"}), "{last}");
    let nowhere = json!({"action": "breakpoints", "log": "n is {n}"});
    let said = batch.call("debug", &nowhere).fails("invalid_arguments");
    check_output(&said, &expect!["`breakpoints` needs `file` and `line` beside `log`"]);
    batch.end();
}

#[test]
fn a_denied_env_file_names_the_rule_that_allows_it() {
    let sandbox = with_adapter(&json!({}));
    let directory = sandbox.project().join(".vscode");
    std::fs::create_dir(&directory).expect("a directory");
    std::fs::write(sandbox.project().join(".env"), "A=1\n").expect("the file");
    let configs = json!({"configurations": [{"name": "one", "type": "scripted", "request": "launch",
        "program": "a.txt", "envFile": "${workspaceFolder}/.env"}]});
    std::fs::write(directory.join("launch.json"), configs.to_string()).expect("the file");
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &json!({}));
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &json!({"action": "configs"})).ok();
    check_output(
        &said,
        &expect![[r#"
            one: launch scripted (scripted); the envFile <sandbox>/the project/.env may not be read: read: .env is protected (environment secrets); to permit it, add the rule `allow read ./.env` in `policy.rules`; give its variables by `env`
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
    let run = json!({"action": "launch", "config": "one"});
    let said = batch.call("debug", &run).fails("denied");
    check_output(
        &said,
        &expect![
            "the envFile <sandbox>/the project/.env may not be read: read: .env is protected (environment secrets); to permit it, add the rule `allow read ./.env` in `policy.rules`; give its variables by `env`"
        ],
    );
    batch.end();
    let config = sandbox.home().join("config/config.toml");
    std::fs::write(config, "[policy]\nrules = [\"allow read ./.env\"]\n").expect("the rules");
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &json!({"action": "configs"})).ok();
    check_output(
        &said,
        &expect![[r#"
            one: launch scripted (scripted)
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
    batch.end();
}

#[test]
fn a_table_of_values_keeps_its_columns() {
    let sandbox = with_adapter(&json!({}));
    let output = json!({"event": {"event": "output", "body": {"category": "stdout",
        "output": "${arguments.breakpoints.0.logMessage}"}}});
    let script = json!({"commands": {
        "setBreakpoints": [[{"body": {"breakpoints": [{"id": 1, "verified": true, "line": 2},
            {"id": 2, "verified": false, "message": "breakpoint.provisionalBreakpoint"}]}}, output]],
        "configurationDone": [[{"body": {}}, {"event": {"event": "exited", "body": {"exitCode": 0}}},
            {"event": {"event": "terminated"}}]]}});
    let can = json!({"supportsConfigurationDoneRequest": true, "supportsLogPoints": true});
    follows(&sandbox, &can, &script);
    let mut batch = Batch::start(&sandbox);
    let point = |line: u64| json!({"file": "a.txt", "line": line, "expressions": ["n | m"]});
    let probe = json!({"action": "probe", "program": "a.txt", "points": [point(2), point(3)]});
    let said = batch.call("debug", &probe).ok();
    check_output(
        &said,
        &expect![[r#"
            a.txt: ended with exit code 0
            a.txt:2: 1 pass
            a.txt:3: 0 passes: it was never set

            | pass | at | values |
            |---|---|---|
            | 1 | a.txt:2 | n \| m = {n \| m} |

            measured by log points, without stopping the program
        "#]],
    );
    let directory = batch.call("debug", &json!({"action": "launch", "program": "."})).fails("unsupported");
    check_output(
        &directory,
        &expect![[
            r#"no debug adapter is known for .; name one with `adapter`: bash-dap, codelldb, dart-debug, debugpy, delve, elixir-debug, gdb, java, js-debug, kotlin, lldb-dap, netcoredbg, php-debug, ruby-debug, scripted"#
        ]],
    );
    batch.end();
}

#[test]
fn breakpoints_that_cannot_work_are_reported() {
    let can = json!({"supportsConditionalBreakpoints": true, "supportsHitConditionalBreakpoints": true});
    let sandbox = stopping_with(&can, json!({}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let set = |more: Value| {
        let mut point = json!({"file": "a.txt", "line": 4});
        point.as_object_mut().expect("members").extend(more.as_object().cloned().expect("members"));
        json!({"action": "breakpoints", "breakpoints": [point]})
    };
    for more in [json!({"hit": "often"}), json!({"cond": "one"}), json!({"line": 40})] {
        batch.call("debug", &set(more)).fails("invalid_arguments");
    }
    let said = batch.call("debug", &set(json!({"condition": "one == 1 and len(fuor) > two"}))).ok();
    check_output(
        &said,
        &expect![[r#"
            a.txt:2
            a.txt:4 if one == 1 and len(fuor) > two (`fuor` is not in a.txt)
        "#]],
    );
    batch.end();
}
