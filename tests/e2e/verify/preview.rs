//! Previews of an edit before it is made.

use super::*;

/// Previews `x = 1` becoming `x = 2`, in which the server finds a new error.
fn tried_with(policy: &str) -> (Sandbox, Scripted, Batch) {
    let (sandbox, scripted, mut batch) = cold_with(policy, 1);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    (sandbox, scripted, batch)
}

/// Does the same before a server runs, with this many requests about the old text.
fn cold_with(policy: &str, before: usize) -> (Sandbox, Scripted, Batch) {
    cold_loading(policy, before, None)
}

/// Does the same with the server's reaction to `initialized`.
///
/// Without a reaction, the server has loaded at once.
fn cold_loading(policy: &str, before: usize, loads: Option<Value>) -> (Sandbox, Scripted, Batch) {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n")]);
    let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let broken = json!({"range": place, "severity": 1, "message": "x is bad", "code": "E1"});
    let full = |items: Value| json!([{"result": {"kind": "full", "items": items}}]);
    let mut turns = vec![full(json!([])); before];
    turns.push(full(json!([broken])));
    let mut script = script(json!(turns));
    if let Some(loads) = loads {
        script["methods"]["initialized"] = loads;
    }
    let scripted = Scripted::install(&mut sandbox, &[script]);
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), policy.to_owned());
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "use".to_owned());
    let batch = match policy {
        "ask" => {
            std::fs::create_dir_all(sandbox.home().join("config")).expect("the configuration's folder");
            let rules = "[policy]\nrules = [\"allow write\"]\n";
            std::fs::write(sandbox.home().join("config/config.toml"), rules).expect("the configuration");
            sandbox.run_anywhere(&["trust", &sandbox.project().display().to_string()]).expect(0);
            Batch::start_without_yes(&sandbox)
        }
        _ => Batch::start(&sandbox),
    };
    (sandbox, scripted, batch)
}

#[test]
fn a_preview_without_a_server_is_skipped_or_starts_it() {
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let (sandbox, _, mut batch) = cold_with("report", 1);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let said = batch.call("write", &edit).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
            [a.py#013C]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            not tried: no language server of a.py runs yet
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 2\n");
    let (sandbox, _, mut batch) = cold_with("no_new_errors", 2);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let said = batch.call("write", &edit).fails("not_applied").to_owned();
    check_output(
        &said,
        &expect![[r#"
            not applied, nothing was written: it would bring new errors
            previewed before the edit:
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)"#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 1\n");
    // A new file with errors is not created either.
    let (sandbox, _, mut batch) = cold_with("no_new_errors", 0);
    let made = json!({"path": "new.py", "content": "x = 2\n"});
    let said = batch.call("write", &made).fails("not_applied").to_owned();
    check_output(
        &said,
        &expect![[r#"
            not applied, nothing was written: it would bring new errors
            previewed before the edit:
            introduced: 1 error, 0 warnings
              new.py:1: error: x is bad [E1] (basedpyright)
            not tried on basedpyright: it searches new.py on disk, so files that may use them were not checked"#]],
    );
    assert!(!sandbox.project().join("new.py").exists());
}

#[test]
fn no_new_errors_waits_for_a_loading_server() {
    let loads = json!([[
        {"delay_ms": 3000},
        {"notify": {"method": "window/logMessage", "params": {"type": 3, "message": "Found 1 source file"}}},
    ]]);
    let (sandbox, _, mut batch) = cold_loading("no_new_errors", 1, Some(loads));
    let symbols = json!({"action": "symbols", "file": "a.py", "timeout": 1});
    batch.call("lsp", &symbols);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let said = batch.call("write", &edit).fails("not_applied").to_owned();
    check_output(
        &said,
        &expect![[r#"
            not applied, nothing was written: it would bring new errors
            previewed before the edit:
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)"#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 1\n");
}

#[test]
fn an_error_naming_a_renamed_symbol_is_unchanged() {
    let mut sandbox = Sandbox::with(&[("a.py", "def spin(): ...\nspin(1)\n")]);
    let range = |line: u32, from: u32, to: u32| json!({"start": {"line": line, "character": from}, "end": {"line": line, "character": to}});
    let item = |to: u32, name: &str| json!([{"range": range(1, 0, to), "severity": 1, "code": "E1", "message": format!("{name} takes no argument")}]);
    let full = |items: Value| json!([{"result": {"kind": "full", "items": items}}]);
    let places = [("a.py", 0, 4..8), ("a.py", 1, 0..4)];
    let place = range(0, 4, 8);
    let script = json!({"methods": {
        "textDocument/documentSymbol": [[{"result": [{"name": "spin", "kind": 12, "range": place, "selectionRange": place}]}]],
        "textDocument/rename": renamed("${root}", "twirl", &places),
        "textDocument/diagnostic": [full(item(7, "spin")), full(item(8, "twirl"))],
    }});
    Scripted::install(&mut sandbox, &[script]);
    let said = sandbox
        .tool("lsp", &json!({"action": "rename", "file": "a.py", "symbol": "spin", "new_name": "twirl"}));
    let said = said.ok();
    check_output(
        &said,
        &expect![[r#"
            rename spin to twirl: 2 places in 1 file (basedpyright)
              a.py: 2
            note: more methods named `spin` may be related: basedpyright: textDocument/definition: no script for textDocument/definition
            No new problems (1 changed file checked).
        "#]],
    );
}

#[test]
fn the_policy_reports_asks_about_or_refuses_errors() {
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let (sandbox, _, mut batch) = tried_with("report");
    let said = batch.call("write", &edit).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
            [a.py#013C]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            previewed before the edit:
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)
            introduced: 1 error, 0 warnings
              a.py:1: error: x is bad [E1] (basedpyright)
        "#]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 2\n");
    for (policy, code, expected) in [
        (
            "no_new_errors",
            "not_applied",
            expect![[r#"
                not applied, nothing was written: it would bring new errors
                previewed before the edit:
                introduced: 1 error, 0 warnings
                  a.py:1: error: x is bad [E1] (basedpyright)"#]],
        ),
        (
            "ask",
            "denied",
            expect![
                "write: to be confirmed: language servers find new errors: a.py:1: error: x is bad [E1] (basedpyright), and there is no user to ask: look at the change with apply: false, then repeat with --yes"
            ],
        ),
    ] {
        let (sandbox, scripted, mut batch) = tried_with(policy);
        let answer = batch.call("write", &edit);
        let said = answer.fails(code);
        check_output(&said, &expected);
        assert_eq!(sandbox.read("a.py"), "x = 1\n");
        // A notification reverts it; the answer does not wait for the server to read it.
        tests::wait_for(Duration::from_secs(20), || scripted.got("textDocument/didChange") >= 2);
        let texts: Vec<Value> = scripted.sent("textDocument/didChange");
        let texts: Vec<&Value> = texts.iter().map(|sent| &sent["contentChanges"][0]["text"]).collect();
        assert_eq!(texts, ["x = 2\n", "x = 1\n"], "shown and reverted");
        assert_eq!(scripted.got("textDocument/didSave"), 0);
    }
}

/// Shows the new errors in every question, whichever rule asks.
///
/// The user has to decide.
#[test]
fn a_denial_without_a_user_names_the_new_errors() {
    let (sandbox, _, mut batch) = tried_with("ask");
    let rules = sandbox.home().join("config/config.toml");
    std::fs::write(rules, "[policy]\nmode = \"prompt\"\n").expect("the configuration");
    drop(batch);
    batch = Batch::start_without_yes(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let said = batch.call("write", &edit).fails("denied").to_owned();
    check_output(
        &said,
        &expect![[
            r#"write: no rule matches, so the user is asked; to be confirmed: language servers find new errors: a.py:1: error: x is bad [E1] (basedpyright), and there is no user to ask: repeat with --yes, or allow it with a rule `allow write …`"#
        ]],
    );
    assert_eq!(sandbox.read("a.py"), "x = 1\n");
}

/// Edits `a.py` while `b.py` uses its name; a preview requests both.
fn tried_in_two(answers: Value) -> (Sandbox, Batch) {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet():\n    return 1\n"), ("b.py", "greet\n")]);
    Scripted::install(&mut sandbox, &[script(answers)]);
    sandbox.variables.insert("PILCROW_EDIT_VERIFY".to_owned(), "before".to_owned());
    sandbox.variables.insert("PILCROW_EDIT_VERIFY_POLICY".to_owned(), "no_new_errors".to_owned());
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    batch.call("read", &json!({"path": "a.py"})).ok();
    (sandbox, batch)
}

/// Turns in which the server answers this many requests and then no more.
///
/// Both files have a baseline.
fn silent_from(turn: usize) -> Value {
    let clean = json!([{"result": {"kind": "full", "items": []}}]);
    let mut turns = vec![clean; turn];
    turns.push(json!(["never"]));
    json!(turns)
}

#[test]
fn an_unanswered_preview_is_reported_as_skipped() {
    let (sandbox, mut batch) = tried_in_two(silent_from(2));
    let edit = json!({"path": "a.py", "content": "def greet():\n    return 2\n", "overwrite": true});
    let answer = batch.call("write", &edit);
    let said = answer.ok();
    check_output(
        line_with(&said, "not tried"),
        &expect!["not tried on basedpyright: it did not answer within 5 s"],
    );
    assert!(!said.contains("previewed before the edit") && !said.contains("not compared"), "{said}");
    let not_tried = &answer.value["details"]["diagnostics"]["tried"]["not_tried"][0];
    assert_eq!(
        *not_tried,
        json!({"server": "basedpyright", "why": "it did not answer within 5 s"}),
        "{:#}",
        answer.value
    );
    assert_eq!(sandbox.read("a.py"), "def greet():\n    return 2\n");
}

#[test]
fn a_partly_answered_preview_names_the_missing_file() {
    let (_sandbox, mut batch) = tried_in_two(silent_from(3));
    let edit = json!({"path": "a.py", "content": "def greet():\n    return 2\n", "overwrite": true});
    let said = batch.call("write", &edit).ok().to_owned();
    check_output(
        line_with(&said, "not tried"),
        &expect!["not tried on basedpyright: it did not answer within 5 s, about b.py"],
    );
    check_output(
        after(&said, "previewed before the edit:"),
        &expect!["No new problems (1 changed file checked)."],
    );
}

/// Leaves errors in other files to a tool that runs on save.
///
/// rust-analyzer does this.
#[test]
fn partial_checks_are_not_called_compiled() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet():\n    return 1\n"), ("b.py", "greet\n")]);
    let definition = include_str!("../../../adapters/servers/basedpyright.toml");
    let directory = sandbox.home().join("config/adapters/servers");
    std::fs::create_dir_all(&directory).expect("a directory");
    let with = definition.replacen("[diagnostics]\n", "[diagnostics]\non_save = [\"slow\"]\n", 1);
    assert_ne!(definition, with);
    std::fs::write(directory.join("basedpyright.toml"), with).expect("a definition");
    let clean = json!([[{"result": {"kind": "full", "items": []}}]]);
    Scripted::install(&mut sandbox, &[script(clean)]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    let said = replace(&mut batch, "a.py", "def greet():\n    return 2\n");
    check_output(
        &said,
        &expect![[r#"
            [a.py#F316]
            write a.py: +1 -1 lines in 1 file
              a.py: changed
            not compiled: basedpyright alone found no new problems (1 changed file, 1 dependent checked)
            omitted: slow, which basedpyright only runs when a file is saved
        "#]],
    );
}

#[test]
fn a_new_file_is_previewed_but_a_move_is_not() {
    let (sandbox, _, mut batch) = tried_with("no_new_errors");
    let said = batch.call("write", &json!({"path": "new.py", "content": "x\n"})).ok().to_owned();
    check_output(
        &said,
        &expect![[r#"
            [new.py#9396]
            write new.py: +1 -0 lines in 1 file
              new.py: created
            previewed before the edit:
            No new problems (1 changed file checked).
            introduced: 1 error, 0 warnings
              new.py:1: error: x is bad [E1] (basedpyright)
        "#]],
    );
    let moved = batch.call("lsp", &json!({"action": "rename_file", "file": "a.py", "to": "b.py"}));
    let said = moved.text();
    check_output(
        &said,
        &expect![[r#"
            move a.py to b.py: 1 file moved, none edited
              b.py: moved from a.py
            note: no language server follows this file's name: references to it were not updated
            not tried: files are moved or deleted, which cannot be previewed
            No new problems (1 changed file, 1 dependent checked).
        "#]],
    );
    assert_eq!((sandbox.read("new.py").as_str(), sandbox.read("b.py").as_str()), ("x\n", "x = 1\n"));
}
