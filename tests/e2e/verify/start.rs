//! Servers that the first edit starts.

use super::*;

#[test]
fn a_package_without_a_server_hides_no_dependents() {
    let (sandbox, _) = two_packages();
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "lib/a.py"})).ok();
    let said = replace(&mut batch, "lib/a.py", "def greet():\n    return 2\n");
    // The other package's file also contains the name, but no server was asked about it.
    check_output(
        &said,
        &expect![[r#"
            [lib/a.py#F316]
            write lib/a.py: +1 -1 lines in 1 file
              lib/a.py: changed
            2 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before
              lib/a.py:1: error: about def greet():
                return 2 [E1] (basedpyright)
              lib/user.py:1: error: about greet [E1] (basedpyright)
            Not checked: 1 of 3 files (no language server of app runs).
        "#]],
    );
}

#[test]
fn changed_files_without_a_running_server_are_counted() {
    let (sandbox, _) = two_packages();
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "lib/a.py"})).ok();
    let (lib, app) = (batch.view("lib/a.py"), batch.view("app/other.py"));
    let patch = format!(
        "[{}]\nPUT {}:\n+    return 2\n[{}]\nPUT {}:\n+others\n",
        lib.header, lib.lines[1].anchor, app.header, app.lines[0].anchor
    );
    let answer = batch.edit(&patch);
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
            [lib/a.py#F316]
            2jy	    return 2
            [app/other.py#C0C1]
            1xe	others
            2 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before
              lib/a.py:1: error: about def greet():
                return 2 [E1] (basedpyright)
              lib/user.py:1: error: about greet [E1] (basedpyright)
            Not checked: 2 of 4 files (no language server of app runs).
        "#]],
    );
}

/// A project whose server starts once the returned file exists.
fn starts_when_let() -> (Sandbox, Scripted, std::path::PathBuf) {
    let mut sandbox = Sandbox::with(&[("a.py", "x = 1\n"), ("b.py", "x\n")]);
    let scripted = Scripted::install(&mut sandbox, &[about()]);
    sandbox.variables.insert("PILCROW_EDIT_WAIT".to_owned(), "1s".to_owned());
    let tools = sandbox.beside("scripted tools");
    let program = tools.join("bin/basedpyright-langserver");
    let launcher = std::fs::read_to_string(&program).expect("the launcher");
    let waits = launcher.replace("exec ", "while [ ! -e go ]; do sleep 0.05; done\nexec ");
    assert_ne!(launcher, waits);
    std::fs::write(&program, waits).expect("the launcher");
    (sandbox, scripted, tools.join("go"))
}

#[test]
fn the_first_edit_starts_the_server_and_reports_later() {
    let (sandbox, scripted, go) = starts_when_let();
    let mut batch = Batch::start(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    let edit = json!({"path": "a.py", "content": "x = 2\n", "overwrite": true});
    let answer = batch.call("write", &edit);
    let said = answer.ok();
    assert_eq!(answer.value["details"]["diagnostics"]["pending"], 2, "{said}");
    assert!(said.contains("basedpyright") && said.contains("starting"), "{said}");
    assert!(!said.contains("o new problems"), "{said}");
    let said = batch.call("read", &json!({"path": "a.py"})).ok().to_owned();
    assert!(!said.contains("later, of"), "{said}");
    assert_eq!(scripted.got("initialize"), 0);
    std::fs::write(go, "").expect("it may start");
    let mut said = String::new();
    tests::wait_for(Duration::from_secs(60), || {
        said.push_str(&batch.call("read", &json!({"path": "b.py"})).ok());
        said.lines().any(|line| line.trim().starts_with("a.py:1: error: about x = 2"))
    });
    check_output(
        after(&said, "later, of write a.py:"),
        &expect![
            "2 errors, 0 warnings now; not known which are new: basedpyright had not checked the text before"
        ],
    );
}

#[test]
fn servers_start_only_as_configured_and_in_a_batch() {
    let (mut sandbox, scripted, go) = starts_when_let();
    std::fs::write(go, "").expect("it may start");
    let edit = |text: &str| json!({"path": "a.py", "content": text, "overwrite": true});
    // The process makes one call and ends.
    sandbox.tool("read", &json!({"path": "a.py"})).ok();
    sandbox.tool("write", &edit("x = 2\n")).ok();
    let started = |batch: &mut Batch| {
        let status = batch.call("lsp", &json!({"action": "status"}));
        status.value["details"]["servers"].as_array().is_some_and(|servers| !servers.is_empty())
    };
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "use".to_owned());
    let mut batch = Batch::start(&sandbox);
    let said = replace(&mut batch, "a.py", "x = 3\n");
    assert!(!said.contains("diagnostics") && !started(&mut batch), "{said}");
    sandbox.variables.remove("PILCROW_LSP_START");
    let mut batch = Batch::start(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    assert!(!started(&mut batch), "reading starts none");
    // The project is not trusted, and no user is asked.
    sandbox.variables.insert("PILCROW_LSP_START".to_owned(), "read".to_owned());
    let mut batch = Batch::start_without_yes(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    assert!(!started(&mut batch), "the project is not trusted");
    assert_eq!(scripted.got("initialize"), 0);
    let mut batch = Batch::start(&sandbox);
    batch.call("read", &json!({"path": "a.py"})).ok();
    // The read does not wait for the start.
    let starts = || started(&mut batch);
    assert!(tests::wait_for(Duration::from_secs(20), starts), "reading starts it when configured");
}

#[test]
fn undo_and_shell_commands_report_new_errors() {
    let mut sandbox = Sandbox::with(&[("a.py", "def f():\n    return 1\n"), ("user.py", "f\n")]);
    Scripted::install(&mut sandbox, &[about()]);
    let mut batch = Batch::start(&sandbox);
    batch.call("lsp", &json!({"action": "symbols", "file": "a.py"})).ok();
    replace(&mut batch, "a.py", "def f():\n    return 2\n");
    let reports = |answer: &tests::Answer, now: u8, then: u8| {
        let said = answer.text();
        assert!(
            said.contains(&format!("return {now}")) && said.contains(&format!("return {then}")),
            "{said}"
        );
        assert_eq!(answer.value["details"]["diagnostics"]["fixed"], 1, "{:#}", answer.value);
        line_with(&said, "introduced: ").to_owned()
    };
    let introduced = reports(&batch.call("undo", &json!({})), 1, 2);
    check_output(&introduced, &expect!["introduced: 1 error, 0 warnings"]);
    let answer = batch.call("bash", &json!({"command": "sed -i 's/return 1/return 3/' a.py"}));
    check_output(
        &answer.ok(),
        &expect![[r#"
            · exit status 0
            changed: a.py
            introduced: 1 error, 0 warnings
              a.py:1: error: about def f():
                return 3 [E1] (basedpyright)
            fixed: 1
              a.py:1: error: about def f():
                return 1 [E1] (basedpyright)"#]],
    );
    reports(&answer, 3, 1);
    let answer = batch.call("bash", &json!({"command": "true"}));
    assert!(!answer.ok().contains("introduced"), "{}", answer.ok());
}
