//! The tool `lsp` over a scripted server: names of locations, refusals, reports.

use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::terminal::Terminal;
use tests::{Sandbox, Scripted, check_output, line_with};

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
fn an_ambiguous_name_is_refused_with_candidates() {
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
fn a_command_lists_or_asks_which_symbol_is_meant() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n"), ("é b.py", "def greet(): ...\n")]);
    let location = json!([{"uri": "${root}/a.py", "range": range(0, 4, 9)}]);
    let script = json!({"methods": {
        "textDocument/documentSymbol": [[{"result": [symbol("greet", 0, 4)]}]],
        "textDocument/references": [[{"result": location}]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let run = |args: &[&str]| {
        let ran = sandbox.run(args);
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        ran
    };
    run(&["callers", "greet", "--yes", "--json"]);
    let ran = [run(&["refs", "greet", "--yes"]), run(&["rename", "greet", "hail", "--yes"])];
    check_output(
        &ran.map(|ran| format!("{}{}", ran.stdout, ran.stderr)).concat(),
        &expect![[r#"
            a.py:1:5: def greet(): ...
            é b.py:1:5: def greet(): ...
            pilcrow: `greet` is ambiguous; select one with --in FILE:LINE, such as `--in a.py:1`
            a.py:1:5: def greet(): ...
            é b.py:1:5: def greet(): ...
            pilcrow: `greet` is ambiguous; select one with --in FILE:LINE, such as `--in a.py:1`
        "#]],
    );
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let patience = Duration::from_secs(60);
    let mut terminal = Terminal::start(&mut sandbox.command(&["refs", "greet"]));
    terminal.waits_for("Number or text: ", patience);
    terminal.types("1\n");
    assert!(terminal.ends(patience).success(), "{}", terminal.shown());
    check_output(
        &terminal.rows().join("\n"),
        &expect![[r#"
        Which `greet`?
          1. a.py:1: def greet(): ...
          2. é b.py:1: def greet(): ...
        Number or text: 1
        references of `greet`: 1 place (basedpyright)
        a.py:1:5: def greet(): ..."#]],
    );
}

#[test]
fn progress_is_erased_before_the_result() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"methods": {
        "textDocument/documentSymbol": [[{"delay_ms": 4000}, {"result": [symbol("greet", 0, 4)]}]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    sandbox.run_anywhere(&["trust", &sandbox.project().to_string_lossy()]).expect(0);
    let patience = Duration::from_secs(60);
    for (args, term) in [
        (&["symbols", "a.py"], "xterm"),
        (&["run", "list symbols in a.py"], "xterm"),
        (&["symbols", "a.py"], "dumb"),
    ] {
        let mut terminal = Terminal::start(sandbox.command(args).env("TERM", term).env("NO_COLOR", "1"));
        assert!(terminal.ends(patience).success(), "{}", terminal.shown());
        let shows = terminal.shown().contains("for basedpyright");
        assert_eq!(shows, term != "dumb", "{}", terminal.shown());
        assert_eq!(
            terminal.rows().last().map(String::as_str),
            Some("a.py:1: function greet"),
            "{:?}",
            terminal.rows()
        );
        assert!(terminal.rows().iter().all(|row| !row.contains("waiting")), "{:?}", terminal.rows());
    }
    // A pipe gets no progress.
    check_output(
        &sandbox.run(&["symbols", "a.py"]).stderr,
        &expect![[r#"
        1 symbol in a.py (basedpyright)
    "#]],
    );
}

/// Links a prototype and its definition, as clangd's `definition` does.
#[test]
fn linked_declarations_are_renamed_together_or_not_at_all() {
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
    check_output(
        &answer.ok(),
        &expect![[r#"
            references of `greet`: 2 places (basedpyright)
            [a.py#0E3AEEA7]
            1oc	def greet(): ...
            [b.py#0E3AEEA7]
            1oc	def greet(): ...
        "#]],
    );
    // Each declaration is a symbol of its own.
    let (answer, _) = run(leads(["a.py", "b.py"]), &[], references.clone());
    check_output(
        &answer.fails("ambiguous"),
        &expect![[r#"
        `greet` is ambiguous; add a location (`file` and `line`), e.g. `in a.py:1`:
          a.py:1: def greet(): ...
          b.py:1: def greet(): ..."#]],
    );
    // One declaration leads to the other, but not back.
    let (answer, _) = run(leads(["b.py", "b.py"]), &[], references);
    check_output(
        &answer.fails("ambiguous"),
        &expect![[r#"
        `greet` is ambiguous; add a location (`file` and `line`), e.g. `in a.py:1`:
          a.py:1: def greet(): ...
          b.py:1: def greet(): ..."#]],
    );

    let rename = json!({"action": "rename", "symbol": "greet", "new_name": "welcome"});
    let both = || json!([[{"result": [place("a.py")[0], place("b.py")[0]]}]]);
    let (answer, _) = run(both(), &["a.py", "b.py"], rename.clone());
    check_output(
        &answer.ok(),
        &expect![[r#"
            rename greet to welcome: 2 places in 2 files (basedpyright)
              a.py: 1
              b.py: 1
            not checked by basedpyright: a.py, b.py (basedpyright: textDocument/diagnostic: no script for textDocument/diagnostic)
        "#]],
    );
    let (answer, unchanged) = run(both(), &["a.py"], rename);
    assert!(answer.fails("ambiguous").contains("b.py:1") && unchanged);
}

#[test]
fn an_undeclared_name_is_not_found() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"methods": {"textDocument/documentSymbol": [[{"result": []}]]}});
    Scripted::install(&mut sandbox, &[script]);
    let ask =
        |name: &str| sandbox.tool("lsp", &json!({"action": "references", "symbol": name})).fails("not_found");
    check_output(
        &ask("greet"),
        &expect!["no declaration of `greet` was found; the word `greet` occurs in 1 file"],
    );
    check_output(
        &ask("nowhere_at_all"),
        &expect!["no file of <sandbox>/the project contains the word `nowhere_at_all`"],
    );
    // A file over the limit is named.
    sandbox.write("big.py", format!("def vast(): ...\n{}", "x = 1\n".repeat(400_000)));
    check_output(
        &ask("vast"),
        &expect![
            "no other file of <sandbox>/the project contains the word `vast`; big.py is too large for this search: name it as `file` if it declares the symbol"
        ],
    );
}

#[test]
fn a_rename_reports_edits_and_remaining_occurrences() {
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
    check_output(
        &said,
        &expect![[r#"
        not applied: rename greet to welcome: 3 places in 2 files (basedpyright)
          a.py: 2
          b.py: 1
        note: more methods named `greet` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
        --- a/a.py
        +++ b/a.py
        @@ -1,2 +1,2 @@
        -def greet(): ...
        -greet()
        +def welcome(): ...
        +welcome()
        --- a/b.py
        +++ b/b.py
        @@ -1 +1 @@
        -from a import greet
        +from a import welcome
    "#]],
    );
    assert_eq!(sandbox.tree(), start, "the preview was applied");

    let said = sandbox.tool("lsp", &arguments).ok();
    check_output(
        &said,
        &expect![[r#"
            rename greet to welcome: 3 places in 2 files (basedpyright)
              a.py: 2
              b.py: 1
            note: more methods named `greet` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
            1 other occurrence of `greet` left unchanged (comments, strings, other symbols).
              in 1 unchanged file: notes.md
            not checked by basedpyright: a.py, b.py (basedpyright: textDocument/diagnostic: no script for textDocument/diagnostic)
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "def welcome(): ...\nwelcome()\n");
    assert_eq!(sandbox.read("b.py"), "from a import welcome\n");
    assert_eq!(sandbox.read("notes.md"), "call greet\n");
}

/// A position on a keyword before a name renames that name.
#[test]
fn a_rename_at_a_keyword_names_the_symbol() {
    let mut sandbox = Sandbox::with(&[("a.py", "async def greet(): ...\n")]);
    let mut script = rename_script(json!([edit("a.py", &[(0, 10, 15, "welcome")])]));
    script["capabilities"] = json!({"renameProvider": {"prepareProvider": true}});
    let range = json!({"start": {"line": 0, "character": 10}, "end": {"line": 0, "character": 15}});
    let prepared = json!({"range": range, "placeholder": "greet"});
    script["methods"]["textDocument/prepareRename"] = json!([[{"result": prepared}]]);
    Scripted::install(&mut sandbox, &[script]);
    let arguments =
        json!({"action": "rename", "file": "a.py", "line": 1, "column": 1, "new_name": "welcome"});
    let said = sandbox.tool("lsp", &arguments).ok();
    check_output(
        said.split("note:").next().unwrap_or_default(),
        &expect![[r#"
            rename greet to welcome: 1 place in 1 file (basedpyright)
              a.py: 1
        "#]],
    );
    assert!(!said.contains("NOT renamed"), "{said}");
    assert_eq!(sandbox.read("a.py"), "async def welcome(): ...\n");
}

/// Counts and names files that a server's edit destroys, also in the diff.
///
/// This holds whether the edit is applied or not.
#[test]
fn files_overwritten_by_a_rename_are_counted() {
    let uri = |file: &str| format!("${{root}}/{file}");
    let moves = json!({"kind": "rename", "oldUri": uri("a.py"), "newUri": uri("b.py"), "options": {"overwrite": true}});
    let makes = json!({"kind": "create", "uri": uri("b.py"), "options": {"overwrite": true}});
    let place = edit("a.py", &[(0, 4, 9, "welcome")]);
    for (documents, count, line, diff) in [
        (
            json!([place, moves]),
            "1 file moved, 1 file overwritten, 1 place edited in 1 file",
            "b.py: moved from a.py, 1; overwritten, 2 lines lost",
            "--- a/b.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-precious\n-lines\nrename from a.py\nrename to b.py\n",
        ),
        (
            json!([place, makes, edit("b.py", &[(0, 0, 0, "new\n")])]),
            "1 file overwritten, 1 place in 1 file",
            "b.py: overwritten, 2 lines lost",
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
fn symbols_outside_the_project_are_only_counted() {
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
fn an_edit_outside_the_project_is_refused() {
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
fn an_edit_reports_the_errors_it_introduces() {
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
    check_output(
        &said,
        &expect![[r#"
            rename greet to welcome: 1 place in 1 file (basedpyright)
              a.py: 1
            note: more methods named `greet` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
            1 other occurrence of `greet` left unchanged (comments, strings, other symbols).
              in changed files: a.py:2
            introduced: 1 error, 0 warnings
              a.py:2: error: greet is not defined [E1] (basedpyright)
        "#]],
    );
    assert_eq!(answer.value["details"]["diagnostics"]["introduced"].as_array().map(Vec::len), Some(1));
}

/// Shows the most severe of many diagnostics, also when they come last.
#[test]
fn the_worst_of_many_diagnostics_are_in_the_details() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\ngreet(1)\n")]);
    let mut items = vec![json!({"range": range(0, 0, 3), "severity": 4, "message": "hint"}); 10_004];
    items.push(json!({"range": range(1, 0, 5), "severity": 1, "message": "wrong"}));
    let full = json!({"result": {"kind": "full", "items": items}});
    Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/diagnostic": [[full]]}})]);
    let answer = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "a.py"}));
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
            1 error, 0 warnings, 10004 hints in 1 file (basedpyright)
            a.py:2: error: wrong (basedpyright)
            a.py:1: hint: hint (basedpyright)
            [a.py#72145E52]
            2dm	greet(1)
        "#]],
    );
    let details = &answer.value["details"];
    let listed = details["diagnostics"].as_array().expect("diagnostics");
    assert_eq!((listed.len(), &details["left_out"]), (10_000, &json!(5)));
    assert_eq!(listed[9_999]["message"], "wrong");
}

#[test]
fn unknown_diagnostics_are_pending_not_clean() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"methods": {"textDocument/diagnostic": [["never"]]}});
    Scripted::install(&mut sandbox, &[script]);
    let answer = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "a.py", "timeout": 1}));
    let said = answer.text();
    assert!(said.contains("pending") || answer.error() == Some("timeout"), "{said}");
    assert!(!said.contains("0 errors") || said.contains("pending"), "unknown was called clean: {said}");
}

#[test]
fn a_diagnostics_timeout_covers_the_whole_call() {
    let names: Vec<String> = (0..12).map(|number| format!("f{number}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x = 1\n")).collect();
    let mut sandbox = Sandbox::with(&files);
    let script = json!({"methods": {
        "textDocument/diagnostic": [[{"result": {"kind": "full", "items": []}}], ["never"]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    let first = json!({"action": "diagnostics", "file": "f0.py", "timeout": 60});
    check_output(
        &batch.call("lsp", &first).ok(),
        &expect![[r#"
        0 errors, 0 warnings, 0 hints in 1 file (basedpyright)
    "#]],
    );
    let started = std::time::Instant::now();
    let answer = batch.call("lsp", &json!({"action": "diagnostics", "file": "f*.py", "timeout": 2}));
    let said = answer.text();
    assert!(started.elapsed().as_secs() < 10, "two seconds for each of twelve files: {said}");
    check_output(
        &said,
        &expect![[r#"
        no server has checked 8 files (basedpyright pending)
        pending, so not known yet:
          f0.py: basedpyright
          f1.py: basedpyright
          f10.py: basedpyright
          f11.py: basedpyright
          f2.py: basedpyright
          f3.py: basedpyright
          f4.py: basedpyright
          f5.py: basedpyright
        not checked: 4 more files: the 2 s of this call ran out (f6.py, f7.py, f8.py, f9.py); ask for fewer, or give a longer `timeout`
    "#]],
    );
}

/// Runs a program over saved files (Cargo) that does not end in time.
#[test]
fn an_unfinished_check_on_save_is_named() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
    let definition = include_str!("../../adapters/servers/basedpyright.toml");
    let directory = sandbox.home().join("config/adapters/servers");
    std::fs::create_dir_all(&directory).expect("a directory");
    let rule = "[diagnostics]\non_save = [\"slow\", \"late\"]\n\
        check = { method = \"x/check\", progress = \"x/check\", debounce_ms = 100 }\n";
    let with = definition.replacen("[diagnostics]\n", rule, 1);
    assert_ne!(definition, with);
    std::fs::write(directory.join("basedpyright.toml"), with).expect("a definition");
    let script = json!({"methods": {
        "textDocument/diagnostic": [[{"result": {"kind": "full", "items": []}}]], "x/check": [[]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    let ask = json!({"action": "diagnostics", "file": "a.py", "timeout": 5});
    let said = batch.call("lsp", &ask).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
        0 errors, 0 warnings, 0 hints in 1 file without late and slow (basedpyright)
        note: a.py: basedpyright was asked to check the files as they are saved: the check did not end in time; it continues, ask again
        omitted: late and slow, which basedpyright cannot give now
    "#]],
    );
}

#[test]
fn a_timeout_covers_all_requests_of_a_call() {
    let names: Vec<String> = (0..12).map(|number| format!("f{number}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "def greet(): ...\n")).collect();
    let mut sandbox = Sandbox::with(&files);
    let script = json!({"methods": {"textDocument/documentSymbol": [[{"delay_ms": 600}, {"result": []}]]}});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "f0.py"})).ok();
    // The call has seven seconds; each request alone would have three.
    for arguments in [json!({"action": "references"}), json!({"action": "rename", "new_name": "welcome"})] {
        let (mut arguments, before) = (arguments, scripted.got("textDocument/documentSymbol"));
        (arguments["symbol"], arguments["timeout"]) = (json!("greet"), json!(3));
        batch.call("lsp", &arguments).fails("timeout");
        let asked = scripted.got("textDocument/documentSymbol") - before;
        assert!((1..8).contains(&asked), "{asked} files were asked");
    }
    batch.end();
}

/// Requests a file without an answer, which delays no other.
///
/// A file without an installed server is named.
#[test]
fn a_glob_checks_every_file_and_names_the_skipped() {
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
    assert_eq!(scripted.got("textDocument/diagnostic"), 71, "the silent file is requested once more");
    check_output(
        line_with(&said, "skipped: "),
        &expect!["skipped: 1 file, for which elm-language-server is not installed (a.elm)"],
    );
    let said = sandbox.tool("lsp", &json!({"action": "diagnostics", "file": "*.elm"}));
    check_output(
        &said.fails("not_found"),
        &expect![
            "no matching file has a language server; skipped: 1 file, for which elm-language-server is not installed (a.elm)"
        ],
    );
}

/// Searches symbols in a project of several languages; uncovered files are named.
#[test]
fn symbol_search_names_the_uncovered_files() {
    let files = [("a.py", "Area\n"), ("sub/b.py", "Area\n"), ("x.go", "package x\n")];
    let mut sandbox = Sandbox::with(&files);
    let found =
        json!([{"name": "Area", "kind": 5, "location": {"uri": "${root}/a.py", "range": range(0, 0, 4)}}]);
    let script = json!({"capabilities": {"workspaceSymbolProvider": true}, "methods": {
        "workspace/symbol": [[{"result": found}]],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let said = sandbox.tool("lsp", &json!({"action": "symbols", "query": "Area"})).ok();
    let found = "symbols like `Area`: 1 symbol (basedpyright)\na.py:1: class Area\n";
    // The machine may or may not have that server.
    let gone = "skipped: 1 file, for which gopls is not installed (x.go)\n";
    let idle = "not searched: 1 file, because gopls does not run (x.go);\n`symbols` with one of them as `file` \
        starts it, then call this again in the same session\n";
    assert!([gone, idle].map(|uncovered| format!("{found}{uncovered}")).contains(&said), "{said}");
}

#[test]
fn a_method_with_a_receiver_has_a_plain_name_path() {
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
fn a_workspace_report_covers_files_not_reached_in_time() {
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
    check_output(
        &said,
        &expect![[r#"
            1 error, 0 warnings, 0 hints in 2 files; no server has checked 8 more (basedpyright; basedpyright pending)
            f55.py:1: error: x is bad (basedpyright)
            [f55.py#A8343DD9]
            1hg	x = 1
            pending, so not known yet:
              f00.py: basedpyright
              f01.py: basedpyright
              f02.py: basedpyright
              f03.py: basedpyright
              f04.py: basedpyright
              f05.py: basedpyright
              f06.py: basedpyright
              f07.py: basedpyright
            for 2 files only what basedpyright reports on the whole project; name a `file` for all
            not checked: 50 more files: the 8 s of this call ran out (f08.py, f09.py, f10.py, f11.py, f12.py, 45 more); ask for fewer, or give a longer `timeout`
        "#]],
    );
    assert_eq!(scripted.got("workspace/diagnostic"), 1);
}

/// The paths of the messages of this method, relative to the root.
fn shown(scripted: &Scripted, method: &str) -> Vec<String> {
    let uri = |params: &Value| params["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
    let name = |uri: String| uri.rsplit('/').next().unwrap_or_default().to_owned();
    scripted.sent(method).iter().map(|params| name(uri(params))).collect()
}

#[test]
fn unneeded_candidate_files_are_closed() {
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
    check_output(
        &answer.ok(),
        &expect![[r#"
            definition of `greet`: 1 place (basedpyright)
            [b.py#EEA7]
            1oc	def greet(): ...
        "#]],
    );
    assert_eq!(shown(&scripted, "textDocument/didOpen"), ["a.py", "b.py"]);
    assert_eq!(shown(&scripted, "textDocument/didClose"), ["a.py"]);
    let answer = batch.call("lsp", &json!({"action": "definition", "symbol": "b"}));
    check_output(
        &answer.fails("not_found"),
        &expect!["no declaration of `b` was found; the word `b` occurs in 1 file"],
    );
    assert_eq!(scripted.got("textDocument/documentSymbol"), 2, "no file declares it");
}

#[test]
fn a_deadline_covers_every_request_of_a_call() {
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
fn abandoned_requests_are_named_by_later_failures() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = json!({"capabilities": {"hoverProvider": true}, "methods": {
        "textDocument/definition": [["never"]],
        "textDocument/hover": [["never"], [{"result": {"contents": "a greeting"}}], ["never"]],
    }});
    let scripted = Scripted::install(&mut sandbox, &[script]);
    let mut batch = tests::Batch::start(&sandbox);
    let mut call = |action: &str| {
        let place = json!({"action": action, "file": "a.py", "line": 1, "symbol": "greet", "timeout": 3});
        batch.call("lsp", &place)
    };
    let said = call("definition").fails("timeout");
    assert!(!said.contains("reload"), "{said}");
    let said = call("hover").fails("timeout");
    check_output(
        &said.replace("2s ago", "3s ago"),
        &expect![
            "basedpyright did not answer textDocument/hover within 1s (no answer since textDocument/definition of a.py was sent 3s ago and cancelled; `reload` restarts the server)"
        ],
    );
    let cancelled = || scripted.got("$/cancelRequest") == 2;
    assert!(tests::wait_for(Duration::from_secs(10), cancelled), "each request is cancelled");
    // The next answer shows that the request has ended.
    check_output(
        &call("hover").ok(),
        &expect![[r#"
        `greet` at a.py:1 (basedpyright)
        a greeting"#]],
    );
    assert!(!call("hover").fails("timeout").contains("reload"));
}

#[test]
fn one_unreadable_file_leaves_the_others() {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n"), ("b.py", "y = 1\n")]);
    sandbox.write("bin.py", b"\xff\xfe\x00");
    let bad = json!([{"range": range(0, 0, 1), "severity": 1, "message": "x is bad"}]);
    let report = json!([{"result": {"kind": "full", "items": bad}}]);
    Scripted::install(&mut sandbox, &[json!({"methods": {"textDocument/diagnostic": [report]}})]);
    let ask = |files: Value| sandbox.tool("lsp", &json!({"action": "diagnostics", "files": files}));
    let answer = ask(json!(["a.py", "none.py", "b.py", "bin.py"]));
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
            2 errors, 0 warnings, 0 hints in 2 files (basedpyright)
            a.py:1: error: x is bad (basedpyright)
                also at b.py:1
            [a.py#A8343DD9]
            1hg	x = 1
            [b.py#2236652A]
            1nn	y = 1
            none.py: <sandbox>/the project/none.py does not exist (not_found)
            bin.py: <sandbox>/the project/bin.py is not UTF-8 text (first bad byte at 0); look at it with `bash` (file, iconv) (not_utf8)
        "#]],
    );
    assert_eq!(answer.value["details"]["unreadable"].as_array().map(Vec::len), Some(2), "{}", answer.value);
    check_output(
        &ask(json!(["a.py", "none.py"])).ok(),
        &expect![[r#"
            1 error, 0 warnings, 0 hints in 1 file (basedpyright)
            a.py:1: error: x is bad (basedpyright)
            [a.py#A8343DD9]
            1hg	x = 1
            none.py: <sandbox>/the project/none.py does not exist (not_found)
        "#]],
    );
    let said = ask(json!(["none.py", "bin.py"])).fails("not_found");
    assert!(said.contains("none.py") && said.contains("bin.py"), "{said}");
}
