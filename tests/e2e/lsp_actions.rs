//! The tool `lsp` over a scripted server: several places in a call, code actions and the edits of
//! commands, questions in the server's own words.

use serde_json::{Value, json};
use tests::{Batch, Sandbox, Scripted};

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}

fn symbol(name: &str, line: u32, start: u32) -> Value {
    let end = start + u32::try_from(name.len()).expect("a short name");
    json!({"name": name, "kind": 12, "range": range(line, 0, 80), "selectionRange": range(line, start, end)})
}

const FILE: &str = "def greet(): ...\ndef shout(): greet()\n";

/// A project with one Python file and this server.
fn project(capabilities: Value, methods: Value) -> (Sandbox, Scripted) {
    let mut sandbox = Sandbox::with(&[("a.py", FILE), ("notes.md", "greet\n")]);
    let mut methods = methods;
    let symbols = json!([[{"result": [symbol("greet", 0, 4), symbol("shout", 1, 4)]}]]);
    methods["textDocument/documentSymbol"] = symbols;
    if methods["textDocument/diagnostic"].is_null() {
        methods["textDocument/diagnostic"] = json!([[{"result": {"kind": "full", "items": []}}]]);
    }
    let scripted =
        Scripted::install(&mut sandbox, &[json!({"capabilities": capabilities, "methods": methods})]);
    (sandbox, scripted)
}

fn here(line: u32, start: u32, end: u32) -> Value {
    json!([{"uri": "${params.textDocument.uri}", "range": range(line, start, end)}])
}

#[test]
fn several_symbols_are_asked_in_one_call_and_one_failure_spoils_nothing() {
    let (sandbox, _) = project(
        json!({"implementationProvider": true}),
        json!({"textDocument/implementation": [[{"result": here(0, 4, 9)}], [{"result": []}]]}),
    );
    let ask = json!({"action": "implementation", "symbols": ["greet", "nowhere", "shout"]});
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.ok();
    assert!(
        said.contains("implementations of `greet`: 1 place") && said.contains("def greet(): ..."),
        "{said}"
    );
    assert!(said.contains("implementations of `shout`: none found"), "{said}");
    assert!(said.contains("`nowhere`: no file") && said.contains("(not_found)"), "{said}");
    assert_eq!(answer.value["details"]["answers"].as_array().map(Vec::len), Some(3));
    let all = json!({"action": "implementation", "symbols": ["nowhere", "nothing"]});
    sandbox.tool("lsp", &all).fails("not_found");
    let said = sandbox.tool("lsp", &json!({"action": "rename", "symbols": ["a", "b"], "new_name": "c"}));
    said.fails("invalid_arguments");
}

#[test]
fn callers_are_told_with_the_lines_that_call() {
    let function = |name: &str, line: u32| {
        json!({"name": name, "kind": 12, "uri": "${root}/a.py", "range": range(line, 0, 20),
            "selectionRange": range(line, 4, 9)})
    };
    let (sandbox, _) = project(
        json!({"callHierarchyProvider": true}),
        json!({
            "textDocument/prepareCallHierarchy": [[{"result": [function("greet", 0)]}]],
            "callHierarchy/incomingCalls":
                [[{"result": [{"from": function("shout", 1), "fromRanges": [range(1, 13, 18)]}]}]],
        }),
    );
    let said = sandbox.tool("lsp", &json!({"action": "callers", "symbol": "greet"})).ok();
    assert!(said.starts_with("callers of `greet`: 1 function with 1 call (basedpyright)\n"), "{said}");
    assert!(said.contains("a.py:2: function shout") && said.contains(":def shout(): greet()"), "{said}");
    // The same in plain words.
    let said = sandbox.run(&["run", "who calls greet", "--yes"]).expect(0).stdout;
    assert!(said.contains("callers of `greet`: 1 function with 1 call"), "{said}");
    let said = sandbox.tool("lsp", &json!({"action": "subtypes", "symbol": "greet"})).fails("unsupported");
    assert!(said.contains("basedpyright does not offer type hierarchy"), "{said}");
}

#[test]
fn an_empty_answer_of_a_loading_server_says_so_and_one_that_may_be_shown_nothing_yet_is_not_asked() {
    let begin = json!({"token": "t", "value": {"kind": "begin", "title": "indexing", "percentage": 43}});
    let methods = json!({
        "initialized": [[{"notify": {"method": "$/progress", "params": begin}}]],
        "textDocument/references": [[{"result": []}]],
    });
    let ask = json!({"action": "references", "file": "a.py", "line": 1, "symbol": "greet", "timeout": 2});
    let (sandbox, scripted) = project(json!({}), methods.clone());
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.fails("server_starting");
    assert!(said.contains("indexing 43%"), "{said}");
    assert_eq!(scripted.got("textDocument/didOpen"), 0);
    // One that may be shown files before it has loaded answers of what it has.
    let (sandbox, _) = project(json!({}), methods);
    let definition = include_str!("../../adapters/servers/basedpyright.toml");
    let folder = sandbox.home().join("config/adapters/servers");
    std::fs::create_dir_all(&folder).expect("a folder");
    let with = definition.replacen("delay_open = true\n", "", 1);
    assert_ne!(definition, with);
    std::fs::write(folder.join("basedpyright.toml"), with).expect("a definition");
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.ok();
    assert!(said.contains("none found") && said.contains("still loading: indexing 43%"), "{said}");
    assert!(answer.value["details"]["note"].as_str().is_some_and(|note| note.contains("still loading")));
}

#[test]
fn a_column_behind_the_end_of_its_line_is_an_error_that_names_the_length() {
    let (sandbox, scripted) =
        project(json!({"hoverProvider": true}), json!({"textDocument/hover": [[{"result": null}]]}));
    let at = |column: u64| {
        sandbox.tool("lsp", &json!({"action": "hover", "file": "a.py", "line": 1, "column": column}))
    };
    // Behind the last character is a place; what stands nowhere has no name.
    let said = at(17).ok();
    assert!(said.contains("basedpyright has no hover text for the position a.py:1"), "{said}");
    for column in [18, u64::from(u32::MAX) + 5] {
        let said = at(column).fails("invalid_arguments");
        assert!(said.contains(&format!("column {column} does not exist: line 1 of")), "{said}");
        assert!(said.contains("has 16 characters, counted from 1"), "{said}");
    }
    assert_eq!(scripted.got("textDocument/hover"), 1);
}

#[test]
fn completions_that_are_none_or_not_all_are_told_as_such() {
    let said = |labels: &[&str], whole: bool, query: Value| {
        let items: Vec<Value> = labels.iter().map(|label| json!({"label": label})).collect();
        let turn = json!([{"result": {"isIncomplete": !whole, "items": items}}]);
        let (sandbox, _) =
            project(json!({"completionProvider": {}}), json!({"textDocument/completion": [turn]}));
        let ask = json!({"action": "completion", "file": "a.py", "line": 2, "column": 14, "query": query});
        sandbox.tool("lsp", &ask).ok().lines().next().unwrap_or_default().to_owned()
    };
    let more = "; basedpyright may offer others after the first letters of a name, so ask there";
    assert_eq!(said(&[], false, Value::Null), format!("no completion at a.py:2 (basedpyright){more}"));
    assert_eq!(said(&[], true, Value::Null), "no completion at a.py:2 (basedpyright)");
    let two = ["one", "two"];
    assert_eq!(
        said(&two, false, json!("x")),
        format!("none of 2 completions contains `x` at a.py:2 (basedpyright){more}")
    );
    assert_eq!(said(&two, true, json!("tw")), "1 completion at a.py:2 (basedpyright)");
}

#[test]
fn code_actions_are_listed_and_one_is_carried_out() {
    let edit = json!({"changes": {"${root}/a.py": [{"range": range(0, 4, 9), "newText": "hello"}]}});
    let (sandbox, scripted) = project(
        json!({"codeActionProvider": {"resolveProvider": true}}),
        json!({
            "textDocument/codeAction": [[{"result": [
                {"title": "Say hello", "kind": "refactor.rewrite", "data": 1},
                {"title": "Say hello twice", "kind": "refactor.rewrite"},
                {"title": "Sort", "kind": "source.sort"},
            ]}]],
            "codeAction/resolve": [[{"result": {"title": "Say hello", "kind": "refactor.rewrite", "edit": edit}}]],
        }),
    );
    let start = sandbox.tree();
    let at = |more: Value| {
        let mut ask = json!({"action": "code_actions", "file": "a.py", "range": "1:5-1:10"});
        more.as_object().expect("an object").iter().for_each(|(key, value)| ask[key] = value.clone());
        sandbox.tool("lsp", &ask)
    };
    let said = at(json!({})).ok();
    assert!(
        said.contains("code actions in a.py: 3") && said.contains("refactor.rewrite: Say hello\n"),
        "{said}"
    );
    assert_eq!(scripted.sent("textDocument/codeAction")[0]["range"], range(0, 4, 9));
    let answer = at(json!({"kind": "refactor", "apply": true}));
    assert!(answer.fails("ambiguous").contains("Say hello twice"), "{:#}", answer.value);
    at(json!({"title": "nothing like it", "apply": true})).fails("not_found");
    at(json!({"apply": true})).fails("invalid_arguments");
    assert_eq!(sandbox.tree(), start);
    let said = at(json!({"title": "Say hello", "apply": true})).ok();
    assert!(said.contains("Say hello: +1 -1 lines in 1 file"), "{said}");
    assert_eq!(sandbox.read("a.py"), FILE.replacen("greet", "hello", 1));
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.tree(), start);
}

#[test]
fn the_edits_of_a_command_are_committed_and_can_be_taken_back() {
    let edit = json!({"documentChanges": [
        {"kind": "create", "uri": "${root}/b.py"},
        {"textDocument": {"uri": "${root}/b.py", "version": null},
            "edits": [{"range": range(0, 0, 0), "newText": "from a import greet\n"}]},
    ]});
    let methods = json!({
        "textDocument/codeAction": [[{"result": [{"title": "Split", "command": "x.split", "arguments": []}]}]],
        "workspace/executeCommand": [[
            {"request": {"id": "e", "method": "workspace/applyEdit", "params": {"edit": edit}}},
            {"wait_for": {"method": "response", "count": 1}},
            {"result": null},
        ]],
    });
    let (sandbox, _) = project(
        json!({"codeActionProvider": true, "executeCommandProvider": {"commands": ["x.split"]}}),
        methods,
    );
    let start = sandbox.tree();
    let ask = json!({"action": "code_actions", "file": "a.py", "title": "split", "apply": true});
    // Without anybody to ask nothing is made, and the server is told so.
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    let ran = sandbox.run(&["tool", "lsp", &ask.to_string(), "--json"]);
    assert_eq!(ran.code(), 3, "{ran:?}");
    assert_eq!(sandbox.tree(), start);
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.ok();
    assert!(said.contains("Split: +1 -0 lines in 1 file") && said.contains("b.py"), "{said}");
    assert!(said.contains("no new errors or warnings in 1 file (basedpyright)"), "{said}");
    assert_eq!(sandbox.read("b.py"), "from a import greet\n");
    assert!(answer.value["details"]["commits"][0]["commit"].is_string(), "{:#}", answer.value);
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.tree(), start);
}

#[test]
fn what_a_server_wants_confirmed_is_asked_though_a_rule_allows_the_change() {
    let edit = json!({
        "documentChanges": [{"textDocument": {"uri": "${root}/a.py", "version": null}, "edits": [
            {"range": range(0, 4, 9), "newText": "hello"},
            {"range": range(1, 13, 18), "newText": "hello", "annotationId": "doubt"},
        ]}],
        "changeAnnotations": {"doubt": {"label": "found by name", "needsConfirmation": true}},
    });
    let (sandbox, _) = project(json!({}), json!({"textDocument/rename": [[{"result": edit}]]}));
    std::fs::create_dir_all(sandbox.home().join("config")).expect("the configuration's folder");
    let rules = "[policy]\nrules = [\"allow write\"]\n";
    std::fs::write(sandbox.home().join("config/config.toml"), rules).expect("the configuration");
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    let ask = json!({"action": "rename", "symbol": "greet", "file": "a.py", "new_name": "hello"});
    let ran = sandbox.run(&["tool", "lsp", &ask.to_string()]);
    assert_eq!(ran.code(), 3, "{ran:?}");
    assert!(ran.all().contains("to be confirmed: found by name"), "{ran:?}");
    assert_eq!(sandbox.read("a.py"), FILE);
    sandbox.tool("lsp", &ask).ok();
    assert_eq!(sandbox.read("a.py"), FILE.replace("greet", "hello"));
}

#[test]
fn a_range_is_formatted_and_files_are_formatted_as_one_edit() {
    let (sandbox, scripted) = project(
        json!({"codeActionProvider": true}),
        json!({"textDocument/inlayHint": [[{"result": [{"position": {"line": 1, "character": 11}, "label": " -> None"}]}]]}),
    );
    // The formatter of Python is another server, which is not installed here.
    let said = sandbox.tool("lsp", &json!({"action": "format", "files": ["a.py"]})).fails("missing_tool");
    assert!(said.contains("ruff is not installed"), "{said}");
    sandbox
        .tool("lsp", &json!({"action": "format", "file": "a.py", "range": "9-1"}))
        .fails("invalid_arguments");
    assert_eq!(scripted.got("textDocument/formatting"), 0);
}

#[test]
fn any_method_can_be_asked_and_servers_are_listed_and_started_anew() {
    let (sandbox, scripted) = project(
        json!({"hoverProvider": true, "executeCommandProvider": {"commands": ["x.y"]}}),
        json!({"x/expand": [[{"result": {"line": "${params.position.line}", "deep": "${params.deep}"}}]]}),
    );
    let mut batch = Batch::start(&sandbox);
    let ask = json!({"action": "request", "method": "x/expand", "params": "{\"deep\": true}", "file": "a.py", "symbol": "shout"});
    let answer = batch.call("lsp", &ask);
    assert!(answer.ok().starts_with("x/expand (basedpyright)\n"), "{}", answer.text());
    assert_eq!(answer.value["details"]["result"], json!({"line": 1, "deep": true}));
    batch.call("lsp", &json!({"action": "request", "method": "shutdown"})).fails("unsupported");
    batch
        .call("lsp", &json!({"action": "request", "method": "x/expand", "params": "{"}))
        .fails("invalid_arguments");
    let said = batch.call("lsp", &json!({"action": "capabilities"})).ok();
    assert!(
        said.contains("offers: definition, references, hover") && said.contains("commands: x.y"),
        "{said}"
    );
    let said = batch.call("lsp", &json!({"action": "reload"})).ok();
    assert!(said.contains("restarted: basedpyright") && said.contains("running"), "{said}");
    assert_eq!(scripted.got("initialize"), 2);
    assert!(batch.end().0.success());
    let said = sandbox.tool("lsp", &json!({"action": "reload"})).fails("not_found");
    assert!(said.contains("no such server is running"), "{said}");
}

#[test]
fn a_name_path_and_a_number_choose_among_things_of_one_name() {
    let mut sandbox = Sandbox::with(&[(
        "a.py",
        "class A:\n    def run(self): self.run(); run()\nclass B:\n    def run(self): ...\n",
    )]);
    let class = |name: &str, line: u32| {
        let mut method = symbol("run", line + 1, 8);
        method["kind"] = json!(6);
        json!({"name": name, "kind": 5, "range": range(line, 0, 8), "selectionRange": range(line, 6, 7), "children": [method]})
    };
    let script = json!({
        "capabilities": {"implementationProvider": true},
        "methods": {
            "textDocument/documentSymbol": [[{"result": [class("A", 0), class("B", 2)]}]],
            "textDocument/implementation": [[{"result": []}]],
            "textDocument/references": [[{"result": here(1, 8, 11)}], [{"result": here(3, 8, 11)}]],
        },
    });
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let ask = |symbol: &str, line: Option<u32>| {
        let mut ask = json!({"action": "implementation", "file": "a.py", "symbol": symbol});
        if let Some(line) = line {
            ask["line"] = json!(line);
        }
        sandbox.tool("lsp", &ask)
    };
    let said = ask("run", None).fails("ambiguous");
    assert!(said.contains("a.py:2") && said.contains("a.py:4"), "{said}");
    for (symbol, line, expected) in [
        ("B.run", None, (3, 8)),
        ("run#1", None, (1, 8)),
        ("run#3", Some(2), (1, 31)),
        ("A::run", None, (1, 8)),
    ] {
        ask(symbol, line).ok();
        let sent = scripted.sent("textDocument/implementation").pop().expect("it was asked");
        let at = (sent["position"]["line"].as_u64(), sent["position"]["character"].as_u64());
        assert_eq!(at, (Some(expected.0), Some(expected.1)), "{symbol}");
    }
    ask("run#4", Some(2)).fails("ambiguous");
    ask("C.run", None).fails("not_found");
}

/// What a server wants changed with a file that is made is part of the same edit.
#[test]
fn a_new_file_is_made_with_what_a_server_wants_changed_for_it() {
    let filters = json!({"filters": [{"pattern": {"glob": "**/*.py"}}]});
    let listed = json!({"changes": {"${root}/a.py": [{"range": range(0, 0, 0), "newText": "import b\n"}]}});
    let (sandbox, scripted) = project(
        json!({"workspace": {"fileOperations": {"willCreate": filters}}}),
        json!({"workspace/willCreateFiles": [[{"result": listed}]]}),
    );
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let said = batch.call("write", &json!({"path": "b.py", "content": "b = 1\n"})).ok().to_owned();
    assert!(said.contains("changed with it, as basedpyright wants: a.py"), "{said}");
    assert_eq!(sandbox.read("a.py"), format!("import b\n{FILE}"));
    let asked = scripted.sent("workspace/willCreateFiles");
    assert!(asked[0]["files"][0]["uri"].as_str().is_some_and(|uri| uri.ends_with("/b.py")), "{asked:?}");
    drop(batch);
    // One edit, so one undo.
    sandbox.run(&["undo"]).expect(0);
    assert!(sandbox.read("a.py") == FILE && !sandbox.project().join("b.py").exists());
}
