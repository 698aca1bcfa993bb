//! The plugins alone: they load, report missing parts, and match their manifests.

use std::path::Path;

use serde_json::json;
use tests::editors::neovim::{Setup, lua_string};
use tests::editors::{Model, Neovim, PATIENCE, VsCode, alone, plugin, vscode};
use tests::processes::wait_for;
use tests::{Sandbox, line_with};

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_neovim_plugin_loads_and_reports_its_health() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &[]);
    assert_eq!(neovim.eval("exists(':Pilcrow')"), 2);
    assert_eq!(neovim.eval("getcompletion('Pilcrow ', 'cmdline')[0]"), "stop");
    neovim.lua("vim.cmd('checkhealth pilcrow'); return true");
    let said = neovim.eval("join(getline(1, '$'), \"\\n\")");
    let said = said.as_str().unwrap();
    assert!(!line_with(said, env!("CARGO_PKG_VERSION")).is_empty(), "{said}");
    assert!(!said.contains("ERROR"), "{said}");

    // Neovim writes tags next to the help page, but this checkout must not change.
    let copy = sandbox.beside("plugin/doc");
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::copy(plugin("neovim/doc/pilcrow.txt"), copy.join("pilcrow.txt")).unwrap();
    let runtime = lua_string(&sandbox.beside("plugin").display().to_string());
    neovim.lua(&format!(
        "vim.opt.runtimepath:prepend({runtime}); vim.cmd.helptags({runtime} .. '/doc'); vim.cmd.help('pilcrow-undo'); return true"
    ));
    assert!(neovim.eval("getline('.')").as_str().unwrap().contains("*pilcrow-undo*"));
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_vscode_plugin_compiles_and_runs() {
    let _alone = alone();
    vscode::extension();
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let mut code = VsCode::start(&sandbox, "vscode-starts");
    code.open("a.txt");
    code.goto(1, 1);
    code.type_text("zero ");
    code.wait_document("a.txt", "the typing", |it| it.text == "zero one\n" && it.dirty);
    code.screenshot("typed");
    code.command("Pilcrow: Resume a Session…");
    code.shows("there is no session yet", None);
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn vscode_guides_the_user_and_shows_the_state() {
    let _alone = alone();
    let sandbox = Sandbox::new();
    sandbox.make_repository();
    let ask = json!({"name": "ask", "arguments": {"question": "Which one?", "options": ["Left", "Right"]}});
    Model::install(&sandbox)
        .says(&[json!({"tool_calls": [ask]}), json!({"text": "Thinking.", "wait_for_cancel": true})]);
    let mut code = VsCode::start(&sandbox, "vscode-walkthrough");
    let state = |code: &mut VsCode<'_>, state: &str| {
        code.shows("Pilcrow", Some(&format!(".statusbar [aria-label^='Pilcrow: {state}']")));
    };
    state(&mut code, "ready");
    code.press("Control+B");
    code.command("Welcome: Open Walkthrough...");
    code.answer("Get Started with Pilcrow");
    let page = Some(".editor-group-container.active");
    code.click("Ask in a session", page);
    code.screenshot("1-walkthrough");
    code.click("Start a Session", page);
    code.wait_view(".composer", "the session view", |shown| shown.contains("Send"));
    code.press("Control+B");
    code.click("Pilcrow", Some(".statusbar"));
    code.prompt("begin");
    state(&mut code, "1 question");
    code.screenshot("2-question");
    code.click_in_view("Left", ".questions");
    state(&mut code, "working");
    code.click_in_view("Stop", ".composer");
    state(&mut code, "ready");
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_vscode_plugin_survives_trust_new_paths_and_kills() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a.txt", "one\n")]);
    let mut code = VsCode::start_restricted(&sandbox, "vscode-restarts");
    code.open("a.txt");
    let mut last = None;
    // The server is a new process, and a command reaches it.
    let mut answers = |code: &mut VsCode<'_>, after: &str| {
        let mut found = None;
        let started = wait_for(PATIENCE, || {
            found = code.server_process();
            found.is_some() && found != last
        });
        assert!(started, "no new server after {after}\n{}", code.logs());
        last = found;
        code.command("Notifications: Clear All Notifications");
        code.command("Pilcrow: Resume a Session…");
        code.shows("there is no session yet", Some(".notifications-toasts"));
    };
    answers(&mut code, "the start");
    code.command("Workspaces: Manage Workspace Trust");
    code.click("Trust", Some(".workspace-trust-editor .monaco-button"));
    answers(&mut code, "trust");
    let program = tests::built::pilcrow();
    for round in ["first", "second"] {
        let path = sandbox.beside(&format!("{round}/pilcrow"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(program, &path).unwrap();
        code.set_path(&path);
        answers(&mut code, "a new path");
        let server = code.server_process().unwrap();
        tests::processes::kill(server, rustix::process::Signal::KILL);
        answers(&mut code, "a kill");
    }
    // Without a path, the program in the extension runs.
    let own = sandbox.beside("extensions/pilcrow.pilcrow-0.1.0/bin/pilcrow");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(program, &own).unwrap();
    code.set_path(Path::new(""));
    answers(&mut code, "no path");
    // Without a program, a command asks for no text.
    code.command("Notifications: Clear All Notifications");
    code.set_path(&sandbox.beside("missing/pilcrow"));
    code.shows("cannot start", Some(".notifications-toasts"));
    code.command("Notifications: Clear All Notifications");
    code.command("Pilcrow: Prompt…");
    code.shows("cannot start", Some(".notifications-toasts"));
    assert_eq!(code.look(".quick-input-widget .quick-input-title").trim(), "");
    code.screenshot("without-a-program");
}
