//! The tool `lsp` over a scripted server.
//!
//! Covers several locations in a call, code actions, edits of commands, and raw requests.

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, Scripted, check_output, line_with};

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
fn one_failing_symbol_leaves_the_others_of_a_call() {
    let (sandbox, _) = project(
        json!({"implementationProvider": true}),
        json!({"textDocument/implementation": [[{"result": here(0, 4, 9)}], [{"result": []}]]}),
    );
    let ask = json!({"action": "implementation", "symbols": ["greet", "nowhere", "shout"]});
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
            implementations of `greet`: 1 place (basedpyright)
            [a.py#68C7E7DC]
            1pk	def greet(): ...
            `nowhere`: no file of <sandbox>/the project contains the word `nowhere` (not_found)
            implementations of `shout`: none found (basedpyright)
        "#]],
    );
    assert_eq!(answer.value["details"]["answers"].as_array().map(Vec::len), Some(3));
    let all = json!({"action": "implementation", "symbols": ["nowhere", "nothing"]});
    sandbox.tool("lsp", &all).fails("not_found");
    let said = sandbox.tool("lsp", &json!({"action": "rename", "symbols": ["a", "b"], "new_name": "c"}));
    said.fails("invalid_arguments");
}

#[test]
fn callers_are_listed_with_their_call_lines() {
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
    check_output(
        &said,
        &expect![[r#"
            callers of `greet`: 1 function with 1 call (basedpyright)
            note: more methods named `greet` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
            [a.py#68C7E7DC]
            2ke	def shout(): greet()
        "#]],
    );
    // Plain text has the same content.
    let said = sandbox.run(&["run", "who calls greet", "--yes"]).expect(0).stdout;
    check_output(
        &said,
        &expect![[r#"
            a.py:2:14: def shout(): greet()
        "#]],
    );
    let said = sandbox.tool("lsp", &json!({"action": "subtypes", "symbol": "greet"})).fails("unsupported");
    check_output(&said, &expect!["basedpyright does not offer type hierarchy"]);
}

#[test]
fn a_loading_server_is_named_or_skipped() {
    let begin = json!({"token": "t", "value": {"kind": "begin", "title": "indexing", "percentage": 43}});
    let methods = json!({
        "initialized": [[{"notify": {"method": "$/progress", "params": begin}}]],
        "textDocument/references": [[{"result": []}]],
    });
    let ask = json!({"action": "references", "file": "a.py", "line": 1, "symbol": "greet", "timeout": 2});
    let (sandbox, scripted) = project(json!({}), methods.clone());
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.fails("server_starting");
    check_output(&said, &expect!["basedpyright is still starting: indexing 43%; try again, or wait longer"]);
    assert_eq!(scripted.got("textDocument/didOpen"), 0);
    // A server that accepts files before it has loaded answers from its current state.
    let (sandbox, _) = project(json!({}), methods);
    let definition = include_str!("../../adapters/servers/basedpyright.toml");
    let directory = sandbox.home().join("config/adapters/servers");
    std::fs::create_dir_all(&directory).expect("a directory");
    let with = definition.replacen("delay_open = true\n", "", 1);
    assert_ne!(definition, with);
    std::fs::write(directory.join("basedpyright.toml"), with).expect("a definition");
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
        references of `greet`: none found (basedpyright)
        note: basedpyright is still loading: indexing 43%; not every file was searched for the name; files outside the server's project were not searched
    "#]],
    );
    assert!(answer.value["details"]["note"].as_str().is_some_and(|note| note.contains("still loading")));
}

#[test]
fn a_column_past_the_line_end_names_the_length() {
    let (sandbox, scripted) =
        project(json!({"hoverProvider": true}), json!({"textDocument/hover": [[{"result": null}]]}));
    let at = |column: u64| {
        sandbox.tool("lsp", &json!({"action": "hover", "file": "a.py", "line": 1, "column": column}))
    };
    // The position after the last character is valid, but names no symbol.
    let said = at(17).ok();
    check_output(&said, &expect!["basedpyright has no hover text for the position a.py:1"]);
    let said = [18, u64::from(u32::MAX) + 5].map(|column| at(column).fails("invalid_arguments"));
    check_output(
        &said.join("\n"),
        &expect![[r#"
        column 18 does not exist: line 1 of <sandbox>/the project/a.py has 16 characters, counted from 1
        column 4294967300 does not exist: line 1 of <sandbox>/the project/a.py has 16 characters, counted from 1"#]],
    );
    assert_eq!(scripted.got("textDocument/hover"), 1);
}

#[test]
fn empty_and_incomplete_completions_are_reported() {
    let said = |labels: &[&str], whole: bool, query: Value| {
        let items: Vec<Value> = labels.iter().map(|label| json!({"label": label})).collect();
        let turn = json!([{"result": {"isIncomplete": !whole, "items": items}}]);
        let (sandbox, _) =
            project(json!({"completionProvider": {}}), json!({"textDocument/completion": [turn]}));
        let ask = json!({"action": "completion", "file": "a.py", "line": 2, "column": 14, "query": query});
        sandbox.tool("lsp", &ask).ok().lines().next().unwrap_or_default().to_owned()
    };
    let more = "; basedpyright may offer others once the name begins; ask again there";
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
fn code_actions_are_listed_and_one_is_applied() {
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
    check_output(
        &said,
        &expect![[r#"
        code actions in a.py: 3 (basedpyright)
          refactor.rewrite: Say hello
          refactor.rewrite: Say hello twice
          source.sort: Sort
    "#]],
    );
    assert_eq!(scripted.sent("textDocument/codeAction")[0]["range"], range(0, 4, 9));
    let answer = at(json!({"kind": "refactor", "apply": true}));
    check_output(
        &answer.fails("ambiguous"),
        &expect![[r#"
        several match; name one by its `title`. code actions in a.py: 2 (basedpyright)
          refactor.rewrite: Say hello
          refactor.rewrite: Say hello twice
    "#]],
    );
    at(json!({"title": "nothing like it", "apply": true})).fails("not_found");
    at(json!({"apply": true})).fails("invalid_arguments");
    assert_eq!(sandbox.tree(), start);
    let said = at(json!({"title": "Say hello", "apply": true})).ok();
    check_output(
        &said,
        &expect![[r#"
            Say hello: +1 -1 lines in 1 file (basedpyright)
              a.py: changed
            No new problems (1 changed file checked).
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), FILE.replacen("greet", "hello", 1));
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.tree(), start);
}

#[test]
fn edits_of_a_command_are_committed_and_undoable() {
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
    // Without a user to ask the edit is not applied, and the server receives `applied: false`.
    sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
    let ran = sandbox.run(&["tool", "lsp", &ask.to_string(), "--json"]);
    assert_eq!(ran.code(), 3, "{ran:?}");
    assert_eq!(sandbox.tree(), start);
    let answer = sandbox.tool("lsp", &ask);
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
            Split: +1 -0 lines in 1 file
              b.py
            No new problems (1 changed file checked).
        "#]],
    );
    assert_eq!(sandbox.read("b.py"), "from a import greet\n");
    assert!(answer.value["details"]["commits"][0]["commit"].is_string(), "{:#}", answer.value);
    sandbox.run(&["undo"]).expect(0);
    assert_eq!(sandbox.tree(), start);
}

#[test]
fn annotations_needing_confirmation_are_always_asked() {
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
    check_output(
        &ran.all(),
        &expect![[r#"
        write: to be confirmed: found by name, and there is no user to ask: look at the change with apply: false, then repeat with --yes
    "#]],
    );
    assert_eq!(sandbox.read("a.py"), FILE);
    sandbox.tool("lsp", &ask).ok();
    assert_eq!(sandbox.read("a.py"), FILE.replace("greet", "hello"));
}

#[test]
fn ranges_and_files_are_formatted_in_one_edit() {
    let (sandbox, scripted) = project(
        json!({"codeActionProvider": true}),
        json!({"textDocument/inlayHint": [[{"result": [{"position": {"line": 1, "character": 11}, "label": " -> None"}]}]]}),
    );
    // The formatter of Python is another server, which is not installed here.
    let said = sandbox.tool("lsp", &json!({"action": "format", "files": ["a.py"]})).fails("missing_tool");
    check_output(&said, &expect!["ruff is not installed; install it: pilcrow adapters install ruff"]);
    sandbox
        .tool("lsp", &json!({"action": "format", "file": "a.py", "range": "9-1"}))
        .fails("invalid_arguments");
    assert_eq!(scripted.got("textDocument/formatting"), 0);
}

#[test]
fn a_raw_request_that_may_run_programs_needs_exec() {
    let (mut sandbox, scripted) = project(
        json!({"executeCommandProvider": {"commands": ["x.run_tests"]}}),
        json!({"workspace/executeCommand": [[{"result": null}]], "textDocument/foldingRange": [[{"result": []}]]}),
    );
    let request = |method: &str, params: &Value| json!({"action": "request", "method": method, "params": params.to_string(), "file": "a.py"});
    let run = request("workspace/executeCommand", &json!({"command": "x.run_tests", "arguments": []}));
    let fold = request("textDocument/foldingRange", &json!({}));
    for (variable, value) in [("PILCROW_EXEC_ENABLED", "off"), ("PILCROW_POLICY_MODE", "strict")] {
        sandbox.variables.insert(variable.to_owned(), value.to_owned());
        sandbox.tool("lsp", &run).fails("denied");
        sandbox.tool("lsp", &request("x/unknown", &json!({}))).fails("denied");
        sandbox.tool("lsp", &fold).ok();
        sandbox.variables.remove(variable);
    }
    assert_eq!(scripted.got("workspace/executeCommand"), 0);
    sandbox.tool("lsp", &run).ok();
    assert_eq!(scripted.got("workspace/executeCommand"), 1);
    // A file in the parameters is judged as any other.
    let key = json!({"textDocument": {"uri": "file:///keys/.ssh/id_ed25519"}});
    sandbox.tool("lsp", &request("textDocument/foldingRange", &key)).fails("denied");
}

#[test]
fn raw_requests_status_and_restart_work() {
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
    check_output(
        line_with(&said, "offers: "),
        &expect!["  offers: definition, references, hover, symbols, rename, diagnostics"],
    );
    check_output(line_with(&said, "commands: "), &expect!["  commands: x.y"]);
    let said = batch.call("lsp", &json!({"action": "reload"})).ok();
    assert!(said.contains("restarted: basedpyright") && said.contains("running"), "{said}");
    assert_eq!(scripted.got("initialize"), 2);
    assert!(batch.end().0.success());
    let said = sandbox.tool("lsp", &json!({"action": "reload"})).fails("not_found");
    check_output(&said, &expect!["no such server is running; servers start when first asked"]);
}

#[test]
fn a_name_path_or_number_selects_among_homonyms() {
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
        let sent = scripted.sent("textDocument/implementation").pop().expect("a request was sent");
        let at = (sent["position"]["line"].as_u64(), sent["position"]["character"].as_u64());
        assert_eq!(at, (Some(expected.0), Some(expected.1)), "{symbol}");
    }
    ask("run#4", Some(2)).fails("ambiguous");
    ask("C.run", None).fails("not_found");
}

/// Commits the server's edits for a created file in the same commit.
#[test]
fn a_new_file_includes_the_servers_edits() {
    let filters = json!({"filters": [{"pattern": {"glob": "**/*.py"}}]});
    let listed = json!({"changes": {"${root}/a.py": [{"range": range(0, 0, 0), "newText": "import b\n"}]}});
    let (sandbox, scripted) = project(
        json!({"workspace": {"fileOperations": {"willCreate": filters}}}),
        json!({"workspace/willCreateFiles": [[{"result": listed}]]}),
    );
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let said = batch.call("write", &json!({"path": "b.py", "content": "b = 1\n"})).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
            [b.py#7286]
            write b.py: +1 -0 lines in 1 file
              b.py: created
            also changed for basedpyright: a.py
            No new problems (2 changed files checked).
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), format!("import b\n{FILE}"));
    let asked = scripted.sent("workspace/willCreateFiles");
    assert!(asked[0]["files"][0]["uri"].as_str().is_some_and(|uri| uri.ends_with("/b.py")), "{asked:?}");
    drop(batch);
    // The call makes one commit, which one undo reverts.
    sandbox.run(&["undo"]).expect(0);
    assert!(sandbox.read("a.py") == FILE && !sandbox.project().join("b.py").exists());
}
