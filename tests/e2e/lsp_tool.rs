//! The tool `lsp` over a scripted server: how places are named, what is refused, what is told.

use serde_json::{Value, json};
use tests::{Sandbox, Scripted};

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({"start": {"line": line, "character": start}, "end": {"line": line, "character": end}})
}

/// A function's symbol on a line, its name at these characters.
fn symbol(name: &str, line: u32, start: u32) -> Value {
    let end = start + u32::try_from(name.len()).expect("a short name");
    json!({"name": name, "kind": 12, "range": range(line, 0, 80), "selectionRange": range(line, start, end)})
}

fn edit(file: &str, edits: &[(u32, u32, u32, &str)]) -> Value {
    let edits: Vec<Value> = edits
        .iter()
        .map(|(line, start, end, text)| json!({"range": range(*line, *start, *end), "newText": text}))
        .collect();
    json!({"textDocument": {"uri": format!("${{root}}/{file}"), "version": null}, "edits": edits})
}

fn rename_script(documents: Value) -> Value {
    json!({"methods": {
        "textDocument/documentSymbol": [[{"result": [symbol("greet", 0, 4)]}]],
        "textDocument/rename": [[{"result": {"documentChanges": documents}}]],
    }})
}

#[test]
fn a_name_that_means_two_things_is_refused_with_both() {
    let mut sandbox = Sandbox::with(&[
        ("a.py", "def greet(): ...\n"),
        ("b.py", "def greet(): ...\n"),
        ("c.txt", "greet\n"),
    ]);
    let script = json!({"methods": {"textDocument/documentSymbol": [[{"result": [symbol("greet", 0, 4)]}]]}});
    Scripted::install(&mut sandbox, &[script]);
    let start = sandbox.tree();
    let answer = sandbox.tool("lsp", &json!({"action": "rename", "symbol": "greet", "new_name": "welcome"}));
    let said = answer.fails("ambiguous");
    assert!(said.contains("a.py:1") && said.contains("b.py:1") && !said.contains("c.txt"), "{said}");
    assert_eq!(answer.value["error"]["data"]["candidates"].as_array().map(Vec::len), Some(2));
    assert_eq!(sandbox.tree(), start);
}

#[test]
fn a_name_that_nothing_declares_is_not_found() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"methods": {"textDocument/documentSymbol": [[{"result": []}]]}});
    Scripted::install(&mut sandbox, &[script]);
    let ask =
        |name: &str| sandbox.tool("lsp", &json!({"action": "references", "symbol": name})).fails("not_found");
    assert!(ask("greet").contains("stands in 1 file"), "{}", ask("greet"));
    assert!(ask("nowhere_at_all").contains("no file"), "{}", ask("nowhere_at_all"));
}

#[test]
fn a_rename_tells_what_it_did_and_where_the_old_name_still_stands() {
    let mut sandbox = Sandbox::with(&[
        ("a.py", "def greet(): ...\ngreet()\n"),
        ("b.py", "from a import greet\n"),
        ("notes.md", "call greet\n"),
    ]);
    let documents = json!([
        edit("a.py", &[(0, 4, 9, "welcome"), (1, 0, 5, "welcome")]),
        edit("b.py", &[(0, 14, 19, "welcome")]),
    ]);
    Scripted::install(&mut sandbox, &[rename_script(documents)]);
    let arguments = json!({"action": "rename", "file": "a.py", "symbol": "greet", "new_name": "welcome"});

    let mut shown_only = arguments.clone();
    shown_only["apply"] = json!(false);
    let start = sandbox.tree();
    let said = sandbox.tool("lsp", &shown_only).ok();
    assert!(said.contains("+def welcome(): ...") && said.contains("not applied"), "{said}");
    assert_eq!(sandbox.tree(), start, "what was only to be shown was made");

    let said = sandbox.tool("lsp", &arguments).ok();
    assert!(said.contains("3 places in 2 files"), "{said}");
    assert!(said.contains("still stands at 1 place") && said.contains("notes.md:1"), "{said}");
    assert_eq!(sandbox.read("a.py"), "def welcome(): ...\nwelcome()\n");
    assert_eq!(sandbox.read("b.py"), "from a import welcome\n");
    assert_eq!(sandbox.read("notes.md"), "call greet\n");
}

#[test]
fn an_edit_of_a_file_outside_the_project_is_refused_whole() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let outside = sandbox.beside("outside.py");
    std::fs::write(&outside, "greet\n").expect("a file beside the project");
    let documents = json!([
        edit("a.py", &[(0, 4, 9, "welcome")]),
        {"textDocument": {"uri": "${root}/../outside.py", "version": null},
         "edits": [{"range": range(0, 0, 5), "newText": "welcome"}]},
    ]);
    Scripted::install(&mut sandbox, &[rename_script(documents)]);
    let start = sandbox.tree();
    let arguments = json!({"action": "rename", "file": "a.py", "symbol": "greet", "new_name": "welcome"});
    let said = sandbox.tool("lsp", &arguments).fails("denied");
    assert!(said.contains("outside.py"), "{said}");
    assert_eq!(sandbox.tree(), start);
    assert_eq!(std::fs::read_to_string(outside).expect("still there"), "greet\n");
}

#[test]
fn what_an_edit_broke_is_told_with_it() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\ngreet()\n")]);
    let broken =
        json!({"range": range(1, 0, 5), "severity": 1, "message": "greet is not defined", "code": "E1"});
    let mut script = rename_script(json!([edit("a.py", &[(0, 4, 9, "welcome")])]));
    script["methods"]["textDocument/diagnostic"] = json!([
        [{"result": {"kind": "full", "items": []}}],
        [{"result": {"kind": "full", "items": [broken]}}],
    ]);
    Scripted::install(&mut sandbox, &[script]);
    let arguments = json!({"action": "rename", "file": "a.py", "symbol": "greet", "new_name": "welcome"});
    let answer = sandbox.tool("lsp", &arguments);
    let said = answer.ok();
    assert!(
        said.contains("introduced: 1 error") && said.contains("a.py:2: error: greet is not defined"),
        "{said}"
    );
    assert_eq!(answer.value["details"]["diagnostics"]["introduced"].as_array().map(Vec::len), Some(1));
}

#[test]
fn diagnostics_that_are_not_known_are_pending_and_not_clean() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"methods": {"textDocument/diagnostic": [["never"]]}});
    Scripted::install(&mut sandbox, &[script]);
    let answer = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "a.py", "timeout": 1}));
    let said = answer.text();
    assert!(said.contains("pending") || answer.error() == Some("timeout"), "{said}");
    assert!(!said.contains("0 errors") || said.contains("pending"), "unknown was called clean: {said}");
}

#[test]
fn a_timeout_is_of_the_whole_call_and_the_silent_are_not_credited() {
    let names: Vec<String> = (0..12).map(|number| format!("f{number}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
    let mut sandbox = Sandbox::with(&files);
    let script = json!({"methods": {
        "textDocument/diagnostic": [[{"result": {"kind": "full", "items": []}}], ["never"]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    let first = json!({"action": "diagnostics", "file": "f0.py", "timeout": 60});
    assert!(
        batch.call("lsp", &first).ok().starts_with("0 errors, 0 warnings, 0 hints in 1 file (basedpyright)")
    );
    let started = std::time::Instant::now();
    let answer = batch.call("lsp", &json!({"action": "diagnostics", "file": "f*.py", "timeout": 2}));
    let said = answer.text();
    assert!(started.elapsed().as_secs() < 10, "two seconds for each of twelve files: {said}");
    assert!(said.starts_with("nothing is known of 8 files (basedpyright pending)"), "{said}");
    assert!(
        said.contains("not checked: 4 more files: the 2 s of this call were over (f6.py, f7.py"),
        "{said}"
    );
}

/// A file about which its server is silent keeps no other waiting, and one for which no server is here is named.
#[test]
fn all_files_of_a_glob_are_asked_about_the_silent_twice_and_the_passed_over_are_named() {
    let names: Vec<String> = (0..70).map(|number| format!("f{number:02}.py")).collect();
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
    files.push(("a.elm", "module A\n"));
    let mut sandbox = Sandbox::with(&files);
    let bad = json!([{"range": range(0, 0, 1), "severity": 1, "message": "x is bad"}]);
    let clean = json!([{"result": {"kind": "full", "items": []}}]);
    let script = json!({"methods": {
        "textDocument/diagnostic": [clean, ["never"], [{"result": {"kind": "full", "items": bad}}]],
    }});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "timeout": 60})).ok().to_owned();
    assert!(said.starts_with("69 errors, 0 warnings, 0 hints in 70 files (basedpyright)"), "{said}");
    assert!(!said.contains("pending") && !said.contains("not checked"), "{said}");
    assert_eq!(scripted.got("textDocument/diagnostic"), 71, "the silent one is asked about once more");
    assert!(
        said.contains("passed over: 1 file, for which elm-language-server is not here (a.elm)"),
        "{said}"
    );
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "*.elm"}));
    assert!(said.fails("not_found").contains("elm-language-server is not here (a.elm)"), "{}", said.text());
}

#[test]
fn a_method_that_is_named_after_its_receiver_has_a_plain_path() {
    let mut sandbox = Sandbox::with(&[("a.py", "Area Area\n")]);
    let script = json!({"capabilities": {"hoverProvider": true}, "methods": {
        "textDocument/documentSymbol": [[{"result": [symbol("(Sq).Area", 0, 0), symbol("(*Box[T]).Area", 0, 5)]}]],
        "textDocument/hover": [[{"result": {"contents": "at ${params.position.character}"}}]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    for (name, at) in [("Sq.Area", "at 0"), ("Box.Area", "at 5"), ("(*Box[T]).Area", "at 5")] {
        let answer = sandbox.tool("lsp", &json!({"action": "hover", "file": "a.py", "symbol": name}));
        assert!(answer.ok().contains(at), "{name}: {}", answer.text());
    }
}

#[test]
fn of_files_that_are_not_reached_in_time_the_servers_report_on_all_is_told() {
    let names: Vec<String> = (0..60).map(|number| format!("f{number:02}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
    let mut sandbox = Sandbox::with(&files);
    let bad = json!([{"range": range(0, 0, 1), "severity": 1, "message": "x is bad"}]);
    let report = |name: &str, items: Value| json!({"uri": format!("${{root}}/{name}"), "version": null, "kind": "full", "items": items});
    let items = json!([report("f55.py", bad), report("f56.py", json!([])), report("none.py", json!([]))]);
    let script = json!({
        "capabilities": {"diagnosticProvider": {"interFileDependencies": true, "workspaceDiagnostics": true}},
        "methods": {
            "textDocument/diagnostic": [["never"]],
            "workspace/diagnostic": [[{"result": {"items": items}}]],
        },
    });
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let call = json!({"action": "diagnostics", "timeout": 8});
    let said = sandbox.run(&["tool", "lsp", &call.to_string(), "--yes"]).expect(0).stdout;
    assert!(
        said.starts_with("1 error, 0 warnings, 0 hints in 2 files; nothing is known of 8 more"),
        "{said}"
    );
    assert!(said.contains("f55.py:1: error: x is bad"), "{said}");
    assert!(said.contains("of 2 files only what basedpyright reports on the whole project"), "{said}");
    assert!(said.contains("not checked: 50 more files: the 8 s of this call were over"), "{said}");
    assert_eq!(scripted.got("workspace/diagnostic"), 1);
}

/// The paths that a message of this kind was about, without the root.
fn shown(scripted: &Scripted, method: &str) -> Vec<String> {
    let uri = |params: &Value| params["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
    let name = |uri: String| uri.rsplit('/').next().unwrap_or_default().to_owned();
    scripted.sent(method).iter().map(|params| name(uri(params))).collect()
}

#[test]
fn files_that_only_use_a_name_are_not_shown_to_its_server_and_those_that_were_in_vain_are_closed() {
    let mut sandbox = Sandbox::with(&[
        ("a.py", "class A:\n    def __init__(self): self.greet = 1\n"),
        ("b.py", "def greet(): ...\n"),
        ("c.py", "import b\n# greet\nb.greet('greet')\n"),
    ]);
    let found = json!([{"result": [symbol("greet", 0, 4)]}]);
    let place = json!([{"uri": "${root}/b.py", "range": range(0, 4, 9)}]);
    let script = json!({"methods": {
        "textDocument/documentSymbol": [[{"result": []}], found],
        "textDocument/definition": [[{"result": place}]],
    }});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    let answer = batch.call("lsp", &json!({"action": "definition", "symbol": "greet"}));
    assert!(answer.ok().contains("def greet(): ..."), "{}", answer.text());
    assert_eq!(shown(&scripted, "textDocument/didOpen"), ["a.py", "b.py"]);
    assert_eq!(shown(&scripted, "textDocument/didClose"), ["a.py"]);
    let answer = batch.call("lsp", &json!({"action": "definition", "symbol": "b"}));
    assert!(answer.fails("not_found").contains("the word `b` stands in 1 file"), "{}", answer.text());
    assert_eq!(scripted.got("textDocument/documentSymbol"), 2, "no file declares it");
}

#[test]
fn the_time_of_a_call_is_for_all_that_it_asks() {
    let mut sandbox = Sandbox::with(&[("a.py", "print(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x)\n")]);
    let script = json!({"methods": {
        "textDocument/documentSymbol": [[{"result": []}]],
        "textDocument/definition": [[{"delay_ms": 500}, {"result": []}]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let started = std::time::Instant::now();
    let answer = batch.call("lsp", &json!({"action": "hover", "file": "a.py", "symbol": "x", "timeout": 2}));
    let said = answer.fails("timeout");
    assert!(started.elapsed().as_millis() < 5000, "two seconds for each of sixteen questions: {said}");
}

#[test]
fn what_was_given_up_and_may_go_on_is_told_with_what_fails_after_it() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"capabilities": {"hoverProvider": true}, "methods": {
        "textDocument/references": [["never"]],
        "textDocument/hover": [["never"], [{"result": {"contents": "a greeting"}}], ["never"]],
    }});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    let mut call = |action: &str| {
        let place = json!({"action": action, "file": "a.py", "line": 1, "symbol": "greet", "timeout": 3});
        batch.call("lsp", &place)
    };
    let said = call("references").fails("timeout");
    assert!(!said.contains("reload"), "{said}");
    let said = call("hover").fails("timeout");
    assert!(said.contains("nothing is answered since textDocument/references of a.py was asked "), "{said}");
    assert!(said.contains("`reload` starts it anew"), "{said}");
    assert_eq!(scripted.got("$/cancelRequest"), 2, "the server is told of each");
    // What answers has ended that.
    assert!(call("hover").ok().contains("a greeting"));
    assert!(!call("hover").fails("timeout").contains("reload"));
}

#[test]
fn of_several_files_one_that_cannot_be_read_leaves_the_others() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n"), ("b.py", "y = 1\n")]);
    sandbox.write("bin.py", b"\xff\xfe\x00");
    let bad = json!([{"range": range(0, 0, 1), "severity": 1, "message": "x is bad"}]);
    let report = json!([{"result": {"kind": "full", "items": bad}}]);
    Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/diagnostic": [report]}})]);
    let ask = |files: Value| sandbox.tool("lsp", &json!({"action": "diagnostics", "files": files}));
    let answer = ask(json!(["a.py", "none.py", "b.py", "bin.py"]));
    let said = answer.ok();
    assert!(said.starts_with("2 errors, 0 warnings, 0 hints in 2 files (basedpyright)"), "{said}");
    assert!(said.contains("\nnone.py: ") && said.contains("(not_found)\nbin.py: "), "{said}");
    assert_eq!(answer.value["details"]["unreadable"].as_array().map(Vec::len), Some(2), "{}", answer.value);
    assert!(ask(json!(["a.py", "none.py"])).ok().starts_with("1 error, "));
    let said = ask(json!(["none.py", "bin.py"])).fails("not_found");
    assert!(said.contains("none.py") && said.contains("bin.py"), "{said}");
}
