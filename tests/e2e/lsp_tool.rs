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

/// A prototype and its definition: clangd's `definition` leads from each to the other.
#[test]
fn declarations_that_lead_to_each_other_are_one_thing_which_is_changed_whole_or_not() {
    let place = |file: &str| json!([{"uri": format!("${{root}}/{file}"), "range": range(0, 4, 9)}]);
    let leads = |to: [&str; 2]| json!([[{"result": place(to[0])}], [{"result": place(to[1])}]]);
    let run = |leads: Value, edits: &[&str], arguments: Value| {
        let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n"), ("b.py", "def greet(): ...\n")]);
        let documents: Vec<Value> = edits.iter().map(|file| edit(file, &[(0, 4, 9, "welcome")])).collect();
        let mut script = rename_script(json!(documents));
        script["methods"]["textDocument/definition"] = leads;
        script["methods"]["textDocument/references"] =
            json!([[{"result": place("a.py")}], [{"result": [place("a.py")[0], place("b.py")[0]]}]]);
        Scripted::install(&mut sandbox, &[script]);
        let start = sandbox.tree();
        let answer = sandbox.tool("lsp", &arguments);
        (answer, sandbox.tree() == start)
    };
    let references = json!({"action": "references", "symbol": "greet"});
    let (answer, _) = run(leads(["b.py", "a.py"]), &[], references.clone());
    assert!(answer.ok().contains("2 places"), "{}", answer.ok());
    // Each is its own.
    let (answer, _) = run(leads(["a.py", "b.py"]), &[], references.clone());
    assert!(answer.fails("ambiguous").contains("means 2 things"));
    // One leads to the other, but not back.
    let (answer, _) = run(leads(["b.py", "b.py"]), &[], references);
    assert!(answer.fails("ambiguous").contains("means 2 things"));

    let rename = json!({"action": "rename", "symbol": "greet", "new_name": "welcome"});
    let both = || json!([[{"result": [place("a.py")[0], place("b.py")[0]]}]]);
    let (answer, _) = run(both(), &["a.py", "b.py"], rename.clone());
    assert!(answer.ok().contains("2 places in 2 files"), "{}", answer.ok());
    let (answer, unchanged) = run(both(), &["a.py"], rename);
    assert!(answer.fails("ambiguous").contains("b.py:1") && unchanged);
}

#[test]
fn a_name_that_nothing_declares_is_not_found() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"methods": {"textDocument/documentSymbol": [[{"result": []}]]}});
    Scripted::install(&mut sandbox, &[script]);
    let ask =
        |name: &str| sandbox.tool("lsp", &json!({"action": "references", "symbol": name})).fails("not_found");
    assert!(ask("greet").contains("occurs in 1 file"), "{}", ask("greet"));
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
    assert!(said.contains("remains at 1 place") && said.contains("notes.md:1"), "{said}");
    assert_eq!(sandbox.read("a.py"), "def welcome(): ...\nwelcome()\n");
    assert_eq!(sandbox.read("b.py"), "from a import welcome\n");
    assert_eq!(sandbox.read("notes.md"), "call greet\n");
}

/// What a server's edit destroys is counted, named and in the diff, whether it is made or only shown.
#[test]
fn what_a_rename_overwrites_is_told_and_counted() {
    let uri = |file: &str| format!("${{root}}/{file}");
    let moves = json!({"kind": "rename", "oldUri": uri("a.py"), "newUri": uri("b.py"), "options": {"overwrite": true}});
    let makes = json!({"kind": "create", "uri": uri("b.py"), "options": {"overwrite": true}});
    let place = edit("a.py", &[(0, 4, 9, "welcome")]);
    for (documents, count, line, diff) in [
        (
            json!([place, moves]),
            "1 file moved, 1 file overwritten, 1 place edited in 1 file",
            "b.py: moved from a.py, 1; overwritten, 2 lines of what was there",
            "--- a/b.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-precious\n-lines\nrename from a.py\nrename to b.py\n",
        ),
        (
            json!([place, makes, edit("b.py", &[(0, 0, 0, "new\n")])]),
            "1 file overwritten, 1 place in 1 file",
            "b.py: overwritten, 2 lines of what was there",
            "-precious\n-lines\n+new\n",
        ),
    ] {
        let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n"), ("b.py", "precious\nlines\n")]);
        Scripted::install(&mut sandbox, &[rename_script(documents)]);
        let arguments = json!({"action": "rename", "file": "a.py", "symbol": "greet", "new_name": "welcome"});
        let mut shown_only = arguments.clone();
        shown_only["apply"] = json!(false);
        let said = sandbox.tool("lsp", &shown_only).ok();
        assert!(said.contains(count) && said.contains(line) && said.contains(diff), "{said}");
        let answer = sandbox.tool("lsp", &arguments);
        let said = answer.ok();
        assert!(said.contains(count) && said.contains(line), "{said}");
        let files = answer.value["details"]["files"].as_array().expect("the files").clone();
        let lost: Vec<&Value> = files.iter().filter(|it| it["overwritten"] == json!(true)).collect();
        assert_eq!((lost.len(), &lost[0]["path"]), (1, &json!("b.py")), "{files:?}");
        assert!(answer.value["details"]["diff"].as_str().is_some_and(|it| it.contains(diff)), "{answer:?}");
        sandbox.run(&["undo"]).expect(0);
        assert_eq!(sandbox.read("b.py"), "precious\nlines\n");
    }
}

#[test]
fn symbols_are_those_of_the_project_and_others_are_counted() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let library = sandbox.beside("library.py");
    std::fs::write(&library, "def greeting(): ...\n").expect("a file beside the project");
    let found = |uri: String, name: &str| json!({"name": name, "kind": 12, "location": {"uri": uri, "range": range(0, 4, 9)}});
    let outside = || found("${root}/../library.py".to_owned(), "greeting");
    for (list, expected) in [
        (
            json!([outside(), outside(), found("${root}/a.py".to_owned(), "greet")]),
            "1 symbol; 2 outside the project omitted (basedpyright)\na.py:1: function greet\n",
        ),
        (json!([outside()]), "none found; 1 outside the project omitted (basedpyright)\n"),
        (
            json!([found("${root}/a.py".to_owned(), "greet")]),
            "1 symbol (basedpyright)\na.py:1: function greet\n",
        ),
    ] {
        let script = json!({
            "capabilities": {"workspaceSymbolProvider": true},
            "methods": {"workspace/symbol": [[{"result": list}]]},
        });
        Scripted::install(&mut sandbox, &[script]);
        let answer = sandbox.tool("lsp", &json!({"action": "symbols", "query": "gre"}));
        let said = answer.ok();
        assert_eq!(said, format!("symbols like `gre`: {expected}"));
        let shown = answer.value["details"]["symbols"].as_array().map(Vec::len);
        assert_eq!(shown, Some(expected.lines().count() - 1));
    }
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

/// Of more than anybody reads the worst are told, also where they come last.
#[test]
fn of_very_many_problems_the_worst_are_in_the_details() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\ngreet(1)\n")]);
    let mut items = vec![json!({"range": range(0, 0, 3), "severity": 4, "message": "hint"}); 10_004];
    items.push(json!({"range": range(1, 0, 5), "severity": 1, "message": "wrong"}));
    let full = json!({"result": {"kind": "full", "items": items}});
    Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/diagnostic": [[full]]}})]);
    let answer = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "a.py"}));
    let said = answer.ok();
    let first = "1 error, 0 warnings, 10004 hints in 1 file (basedpyright)\na.py:2: error: wrong (basedpyright)\n    greet(1)\na.py:1: hint";
    assert!(said.starts_with(first) && said.contains("… and 9905 more"), "{said}");
    let details = &answer.value["details"];
    let told = details["diagnostics"].as_array().expect("diagnostics");
    assert_eq!((told.len(), &details["left_out"]), (10_000, &json!(5)));
    assert_eq!(told[9_999]["message"], "wrong");
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

/// A program that a server runs over saved files (Cargo) did not end in time.
#[test]
fn what_a_server_could_not_look_at_as_it_is_saved_is_named_beside_the_count() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
    let definition = include_str!("../../adapters/servers/basedpyright.toml");
    let folder = sandbox.home().join("config/adapters/servers");
    std::fs::create_dir_all(&folder).expect("a folder");
    let rule = "[diagnostics]\non_save = [\"slow\", \"late\"]\n\
        check = { method = \"x/check\", progress = \"x/check\", debounce_ms = 100 }\n";
    let with = definition.replacen("[diagnostics]\n", rule, 1);
    assert_ne!(definition, with);
    std::fs::write(folder.join("basedpyright.toml"), with).expect("a definition");
    let script = json!({"methods": {
        "textDocument/diagnostic": [[{"result": {"kind": "full", "items": []}}]], "x/check": [[]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    let ask = json!({"action": "diagnostics", "file": "a.py", "timeout": 5});
    let said = batch.call("lsp", &ask).ok().to_owned();
    let count = "0 errors, 0 warnings, 0 hints in 1 file without late and slow (basedpyright)\n";
    assert!(said.starts_with(count) && said.contains("the check did not end in time"), "{said}");
}

#[test]
fn a_timeout_is_of_all_questions_of_a_call() {
    let names: Vec<String> = (0..12).map(|number| format!("f{number}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "def greet(): ...\n")).collect();
    let mut sandbox = Sandbox::with(&files);
    let script = json!({"methods": {"textDocument/documentSymbol": [[{"delay_ms": 600}, {"result": []}]]}});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "f0.py"})).ok();
    // Seven seconds, of which each question would have had three.
    for arguments in [json!({"action": "references"}), json!({"action": "rename", "new_name": "welcome"})] {
        let (mut arguments, before) = (arguments, scripted.got("textDocument/documentSymbol"));
        (arguments["symbol"], arguments["timeout"]) = (json!("greet"), json!(3));
        batch.call("lsp", &arguments).fails("timeout");
        let asked = scripted.got("textDocument/documentSymbol") - before;
        assert!((1..8).contains(&asked), "{asked} files were asked");
    }
    batch.end();
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
        said.contains("skipped: 1 file, for which elm-language-server is not installed (a.elm)"),
        "{said}"
    );
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "*.elm"}));
    assert!(
        said.fails("not_found").contains("elm-language-server is not installed (a.elm)"),
        "{}",
        said.text()
    );
}

/// Who looks for a symbol in a project of several languages is told which were not asked about.
#[test]
fn symbols_of_the_project_name_the_files_that_were_not_asked_about() {
    let files = [("a.py", "Area\n"), ("sub/b.py", "Area\n"), ("x.go", "package x\n")];
    let mut sandbox = Sandbox::with(&files);
    let found =
        json!([{"name": "Area", "kind": 5, "location": {"uri": "${root}/a.py", "range": range(0, 0, 4)}}]);
    let script = json!({"capabilities": {"workspaceSymbolProvider": true}, "methods": {
        "workspace/symbol": [[{"result": found}]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let said = sandbox.tool("lsp", &json!({"action": "symbols", "query": "Area"})).ok().to_owned();
    let (first, rest) = said.split_once('\n').unwrap();
    assert_eq!(first, "symbols like `Area`: 1 symbol (basedpyright)");
    // As the machine has one or not.
    let gone = rest.contains("skipped: 1 file, for which gopls is not installed (x.go)");
    let idle =
        rest.contains("not asked about: 1 file, for gopls does not run (x.go); `symbols` with one of them");
    assert!(rest.starts_with("a.py:1: class Area\n") && (gone || idle), "{said}");
    assert!(!rest.contains("b.py"), "{said}");
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
    assert!(said.contains("for 2 files only what basedpyright reports on the whole project"), "{said}");
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
    assert!(answer.fails("not_found").contains("the word `b` occurs in 1 file"), "{}", answer.text());
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
    assert!(said.contains("no answer since textDocument/references of a.py was sent "), "{said}");
    assert!(said.contains("`reload` restarts the server"), "{said}");
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
