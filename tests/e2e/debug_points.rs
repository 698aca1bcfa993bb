//! The tool `debug` over a scripted adapter: breakpoints of the rarer kinds, raw requests, and how much is
//! shown.

use serde_json::{Value, json};
use tests::{Batch, Sandbox};

use crate::debug::{asked, follows, launch, peculiar, stopped, stops, with_adapter};

/// One that stops, with more that the adapter can, and commands of its own.
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
fn a_memory_reference_that_is_an_expression_is_asked_about() {
    let can = json!({"supportsInstructionBreakpoints": true, "supportsDataBreakpoints": true,
        "supportsReadMemoryRequest": true, "supportsWriteMemoryRequest": true,
        "supportsDisassembleRequest": true});
    let sandbox = stopping_with(&can, json!({"dataBreakpointInfo": data_info("n/8")}));
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let config = sandbox.home().join("config/config.toml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("the config folder");
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
    let told: Vec<String> =
        answers.map(|it: Value| it["error"]["code"].as_str().unwrap_or("ok").to_owned()).collect();
    assert_eq!(told, calls.iter().map(|(_, it)| *it).collect::<Vec<_>>(), "{}", ran.all());
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    assert!(!record.contains("system"), "{record}");
}

#[test]
fn memory_is_named_by_an_expression_too() {
    let can = json!({"supportsReadMemoryRequest": true, "supportsWriteMemoryRequest": true});
    let told = json!([[{"body": {"result": "(int *) 0x7ffe10", "variablesReference": 0}}]]);
    let sandbox = stopping_with(&can, json!({"evaluate": told, "writeMemory": [[{"body": {}}]]}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let read = json!({"action": "read_memory", "memory_reference": "&n", "count": 1});
    batch.call("debug", &read).ok();
    assert_eq!(asked(&sandbox, "readMemory")[0]["memoryReference"], "0x7ffe10");
    let write = json!({"action": "write_memory", "memory_reference": "&n", "value": "2a"});
    batch.call("debug", &write).ok();
    assert_eq!(asked(&sandbox, "writeMemory")[0]["memoryReference"], "0x7ffe10");
    // A number is as it is.
    batch.call("debug", &json!({"action": "read_memory", "memory_reference": "0x10"})).ok();
    assert_eq!(asked(&sandbox, "readMemory")[1]["memoryReference"], "0x10");
    assert_eq!(asked(&sandbox, "evaluate").len(), 2);
    assert!(batch.end().0.success());
}

#[test]
fn data_that_the_adapter_never_named_is_not_watched() {
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
fn a_raw_request_that_runs_the_program_is_a_run() {
    for command in ["continue", "next", "restartFrame"] {
        // An adapter that says of itself only that it stopped again.
        let sandbox = stopping_with(&json!({}), json!({(command): [[{"body": {}}, stopped()]]}));
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
    // One that says nothing: it runs from then on.
    let sandbox = stopping_with(&json!({}), json!({"continue": [[{"body": {}}]]}));
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    batch.call("debug", &json!({"action": "request", "command": "continue", "timeout": 1})).ok();
    let sessions = batch.call("debug", &json!({"action": "sessions"})).ok();
    assert!(sessions.contains(", running"), "{sessions}");
    assert!(batch.end().0.success());
}

#[test]
fn breakpoints_of_each_kind_are_listed_and_taken_away_alone() {
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
    assert_eq!(listed, "a.txt:2\nexceptions uncaught (on from the start)\n");
    call(json!({"functions": ["f", "g"]}));
    call(json!({"name": "n"}));
    call(json!({"memory_reference": "0x10", "offset": 4}));
    call(json!({"file": "a.txt", "line": 4}));
    let listed = call(json!({"exceptions": ["uncaught", "raised"]}));
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
    // Adapters take it, and never stop there.
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
    // Nothing named: all, and the filters stay.
    assert_eq!(call(json!({"remove": true})), "removed 2\nno breakpoints\nexceptions uncaught\n");
    assert_eq!(call(json!({"remove": true, "exceptions": ["uncaught"]})), "removed 1\nno breakpoints\n");
    let last = asked(&sandbox, "setExceptionBreakpoints").pop().expect("one");
    assert_eq!(last["filters"], json!([]));
    assert!(batch.end().0.success());
}

#[test]
fn breakpoints_of_each_kind_take_a_condition_and_a_hit_count() {
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
        "a.txt:4 if n == 2 hit 3\n",
        "function f if n == 2 hit 3\n",
        "data n (read) if n == 2 hit 3\n",
        "instruction 0x10 if n == 2 hit 3\n",
    ] {
        assert!(listed.contains(line), "{line} is missing in: {listed}");
    }
    let refused = call(json!({"name": "n", "access": "readWrite"})).fails("unsupported");
    assert!(refused.contains("`access` can be: read, write"), "{refused}");
    for command in ["setFunctionBreakpoints", "setDataBreakpoints", "setInstructionBreakpoints"] {
        let sent = asked(&sandbox, command).pop().expect("one")["breakpoints"][0].clone();
        assert_eq!((&sent["condition"], &sent["hitCondition"]), (&json!("n == 2"), &json!("3")), "{sent}");
        assert!(command != "setDataBreakpoints" || sent["accessType"] == "read", "{sent}");
    }
    assert!(batch.end().0.success());
}

#[test]
fn a_condition_of_any_kind_that_does_something_is_asked_about() {
    let can = json!({"supportsFunctionBreakpoints": true, "supportsDataBreakpoints": true,
        "supportsInstructionBreakpoints": true, "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true});
    let sandbox = stopping_with(&can, json!({"dataBreakpointInfo": data_info("n/8")}));
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let config = sandbox.home().join("config/config.toml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("the config folder");
    std::fs::write(config, "[policy]\nrules = [\"allow exec\", \"deny debug\"]\n").expect("the rules");
    let mut calls = vec![launch()];
    for what in [json!({"functions": ["f"]}), json!({"name": "n"}), json!({"memory_reference": "0x10"})] {
        for code in [json!({"condition": "remove()"}), json!({"hit": "remove()"})] {
            let mut call = json!({"action": "breakpoints"});
            for more in [&what, &code] {
                call.as_object_mut().expect("members").extend(more.as_object().cloned().expect("members"));
            }
            calls.push(call);
        }
    }
    let lines: String =
        calls.iter().map(|it| format!("{}\n", json!({"name": "debug", "arguments": it}))).collect();
    let ran = sandbox.run_with_input(&["tool", "--batch", "--json"], &lines);
    let answers = ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    let told: Vec<String> =
        answers.map(|it: Value| it["error"]["code"].as_str().unwrap_or("ok").to_owned()).collect();
    assert_eq!(told, [&["ok"][..], &["denied"; 6]].concat(), "{}", ran.all());
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    assert!(!record.contains("remove()"), "{record}");
}

#[test]
fn much_output_and_many_threads_are_shown_in_parts() {
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
    assert!(said.contains("bytes are left out; `start: 0` shows them"), "{said}");
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
    assert!(
        said.contains("thread 100: worker 100\n50 threads more") && !said.contains("worker 101"),
        "{said}"
    );
    assert!(batch.end().0.success());
}

/// What a trace of `n` says with these further turns of the adapter.
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
fn a_trace_tells_what_it_found_when_something_fails_on_the_way() {
    let step = |thread: u64| {
        json!([{"body": {}}, {"event": {"event": "stopped",
            "body": {"reason": "step", "threadId": thread, "allThreadsStopped": true}}}])
    };
    let failed = json!([{"fail": "no more"}]);
    let said = trace(json!({"next": [step(1), failed]}), None);
    assert!(said.contains("1 -> 2\n") && said.contains("no more") && said.contains("(1 step)"), "{said}");
    // The end of a script: a stop without a frame.
    let frame = json!([{"body": {"totalFrames": 1, "stackFrames": [{"id": 1, "name": "f", "line": 2, "column": 1}]}}]);
    let none = json!([{"body": {"totalFrames": 0, "stackFrames": []}}]);
    let stacks = json!([frame, frame, frame, none]);
    let said = trace(json!({"next": [step(1), step(1)], "stackTrace": stacks}), None);
    assert!(said.contains("1 -> 2\n") && said.contains("no frame is known"), "{said}");
    // What another thread has at the same place is no change.
    let said = trace(json!({"next": [step(1), step(7)]}), None);
    assert!(said.contains("1 -> 2\n") && !said.contains("2 -> 3"), "{said}");
    assert!(said.contains("thread 7 stopped: step (2 steps)"), "{said}");
}

#[test]
fn what_an_adapter_fails_at_does_not_hide_the_rest_of_a_snapshot() {
    let refused = json!([[{"fail": "Cannot access memory"}]]);
    let sandbox = stopping_with(&json!({}), json!({"variables": refused}));
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &launch()).ok();
    assert!(said.contains("stopped: breakpoint") && said.contains("in inner at a.txt:2"), "{said}");
    assert!(
        said.contains("not all could be read: scripted refused `variables`: Cannot access memory"),
        "{said}"
    );
    assert!(batch.end().0.success());
    let sandbox = stopping_with(&json!({}), json!({"stackTrace": refused}));
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &launch()).ok();
    assert!(said.contains("stopped: breakpoint (thread 1)"), "{said}");
    assert!(
        said.contains("its stack could not be read: scripted refused `stackTrace`: Cannot access memory"),
        "{said}"
    );
    assert!(batch.end().0.success());
}

/// An adapter that answers a set with the value as it was, as debugpy does where it could not set it.
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
fn a_variable_that_could_not_be_set_is_told_as_it_is() {
    let scopes = json!([{"name": "Locals", "variablesReference": 7, "expensive": false}]);
    let (sandbox, mut batch) = setting(&scopes, &json!({"fail": "NameError: name 'y' is not defined"}));
    let said = batch.call("debug", &set("n", "y")).fails("not_applied");
    assert!(said.contains("n was not changed: it is still 3; scripted says of `y`: NameError"), "{said}");
    assert!(batch.call("debug", &set("n", "3")).ok().contains("n = 3"));
    let said = batch.call("debug", &set("nosuch", "5")).fails("not_found");
    assert!(said.contains("there is no variable `nosuch` here; give `variables_reference`"), "{said}");
    assert!(said.contains("Locals ("), "{said}");
    assert_eq!(asked(&sandbox, "setVariable").len(), 2, "none is made");
    batch.end();

    let (_sandbox, mut batch) = setting(&scopes, &json!({"body": {"result": "4", "variablesReference": 0}}));
    let said = batch.call("debug", &set("n", "m + 1")).ok();
    assert!(said.contains("n was not changed: it is still 3"), "{said}");
    batch.end();
    let (_sandbox, mut batch) = setting(&scopes, &json!({"body": {"result": "3", "variablesReference": 0}}));
    let said = batch.call("debug", &set("n", "1 + 2")).ok();
    assert!(said.contains("n = 3") && !said.contains("not changed"), "{said}");
    batch.end();
}

#[test]
fn a_name_is_set_where_an_expression_finds_it() {
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
    assert!(batch.call("debug", &set("n", "5")).ok().contains("n = 5"));
    assert_eq!(asked(&sandbox, "setVariable")[0]["variablesReference"], 7);
    batch.end();
}

#[test]
fn a_message_beside_a_line_makes_a_log_point() {
    let sandbox = with_adapter(&json!({}));
    let script = json!({"commands": {"configurationDone": [[{"body": {}}, stopped()]]}});
    let can = json!({"supportsConfigurationDoneRequest": true, "supportsLogPoints": true});
    follows(&sandbox, &can, &script);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let point = json!({"action": "breakpoints", "file": "a.txt", "line": 3, "log": "n is {n}"});
    assert!(batch.call("debug", &point).ok().contains("a.txt:3 log n is {n}"));
    let sent = asked(&sandbox, "setBreakpoints");
    let last = &sent.last().expect("they were sent")["breakpoints"];
    assert_eq!(last[1], json!({"line": 3, "logMessage": "n is {n}"}), "{last}");
    let nowhere = json!({"action": "breakpoints", "log": "n is {n}"});
    let said = batch.call("debug", &nowhere).fails("invalid_arguments");
    assert!(said.contains("`breakpoints` needs `file` and `line` beside `log`"), "{said}");
    batch.end();
}

#[test]
fn an_env_file_that_may_not_be_read_names_the_rule_that_allows_it() {
    let sandbox = with_adapter(&json!({}));
    let folder = sandbox.project().join(".vscode");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(sandbox.project().join(".env"), "A=1\n").expect("the file");
    let configs = json!({"configurations": [{"name": "one", "type": "scripted", "request": "launch",
        "program": "a.txt", "envFile": "${workspaceFolder}/.env"}]});
    std::fs::write(folder.join("launch.json"), configs.to_string()).expect("the file");
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &json!({}));
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &json!({"action": "configs"})).ok();
    assert!(said.contains("like `allow read ./.env` in `policy.rules`"), "{said}");
    let run = json!({"action": "launch", "config": "one"});
    let said = batch.call("debug", &run).fails("denied");
    assert!(said.contains("like `allow read ./.env` in `policy.rules`"), "{said}");
    batch.end();
    let config = sandbox.home().join("config/config.toml");
    std::fs::write(config, "[policy]\nrules = [\"allow read ./.env\"]\n").expect("the rules");
    let mut batch = Batch::start(&sandbox);
    let said = batch.call("debug", &json!({"action": "configs"})).ok();
    assert!(said.contains("one: launch scripted (scripted)\n"), "{said}");
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
    assert!(said.contains("| 1 | a.txt:2 | n \\| m = {n \\| m} |"), "{said}");
    assert!(said.contains("a.txt:3: 0 passes: it was never put in place\n"), "{said}");
    let folder = batch.call("debug", &json!({"action": "launch", "program": "."})).fails("unsupported");
    assert!(folder.contains("no debug adapter is known for .;"), "{folder}");
    batch.end();
}
