//! A debug session that the user starts in the editor, and that the agent inspects.

use expect_test::expect;
use serde_json::{Value, json};
use tests::editors::neovim::{Setup, lua_string};
use tests::editors::{Neovim, PATIENCE, VsCode, alone, helper, tool};
use tests::{Batch, Sandbox, check_output, wait_for};

const PROGRAM: &str = "\
function add(a, b) {
  const sum = a + b;
  return sum;
}
let total = 0;
for (const n of [1, 2, 3]) {
  total = add(total, n);
}
console.log('total', total);
";

/// Repeats the call until the answer contains all parts.
#[track_caller]
fn comes_to(batch: &mut Batch, arguments: &Value, parts: &[&str]) -> String {
    let mut said = String::new();
    let came = wait_for(PATIENCE, || {
        said = batch.call("debug", arguments).value["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        parts.iter().all(|part| said.contains(part))
    });
    assert!(came, "{parts:?} never came to {arguments}: {said}");
    said
}

/// Whether a session is stopped, and the user has control of it.
fn has_user_control(batch: &mut Batch) -> bool {
    let listed = batch.call("debug", &json!({"action": "sessions"}));
    let sessions = listed.value["details"]["sessions"].as_array().expect("the sessions");
    sessions.iter().any(|it| it["state"] == "stopped" && it["controller"] != "agent")
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_agent_inspects_a_session_of_the_user_in_vscode() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("app.js", PROGRAM)]);
    let launch = json!({"version": "0.2.0", "configurations": [{"type": "node", "request": "launch",
        "name": "the app", "program": "${workspaceFolder}/app.js", "runtimeExecutable": tool("bin/node24"),
        "console": "internalConsole"}]});
    std::fs::create_dir_all(sandbox.project().join(".vscode")).unwrap();
    std::fs::write(sandbox.project().join(".vscode/launch.json"), launch.to_string()).unwrap();
    sandbox.make_repository();
    let mut code = VsCode::start(&sandbox, "vscode-debugs");
    code.open("app.js");
    code.goto(2, 1);
    code.command("Debug: Toggle Breakpoint");
    code.command("Debug: Start Debugging");

    // js-debug starts a session for the program from the one that the user started.
    let mut batch = Batch::start(&sandbox);
    let snapshot = json!({"action": "snapshot"});
    comes_to(&mut batch, &snapshot, &["stopped: breakpoint", "in global.add at app.js:2", "b = 1"]);
    code.screenshot("stopped");
    assert!(has_user_control(&mut batch));
    let value = batch.call("debug", &json!({"action": "evaluate", "expression": "a + b"})).ok();
    check_output(
        &value,
        &expect![[r#"
        a + b = 1 : number
    "#]],
    );
    let refused = batch.call("debug", &json!({"action": "step_over"})).fails("wrong_state");
    assert!(refused.contains("control_taken_by_user"), "{refused}");

    // The user continues, which both observe.
    code.command("Debug: Continue");
    comes_to(&mut batch, &snapshot, &["in global.add at app.js:2", "b = 2"]);

    // A prompt gives control; the agent steps through the user's own debugger.
    code.command("Pilcrow: Prompt");
    code.answer("what is there to do?");
    comes_to(&mut batch, &json!({"action": "step_over"}), &["stopped: step", "app.js:3", "sum = 3"]);
    code.screenshot("stepped");

    code.command("Debug: Stop");
    comes_to(&mut batch, &json!({"action": "sessions"}), &["ended"]);
    assert!(batch.end().0.success());
}

/// Joins a session of the agent, also after its relaunch.
#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_user_joins_a_session_of_the_agent_in_vscode() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("app.py", "def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))\n")]);
    sandbox.make_repository();
    let mut batch = Batch::start(&sandbox);
    let launch =
        json!({"action": "launch", "program": "app.py", "breakpoints": [{"file": "app.py", "line": 2}]});
    comes_to(&mut batch, &launch, &["stopped: breakpoint", "app.py:2"]);
    let mut code = VsCode::start(&sandbox, "vscode-joins");
    code.command("Pilcrow: Join the Agent's Debug Session");
    let listed = json!({"action": "sessions"});
    comes_to(&mut batch, &listed, &["debug-1: app.py (debugpy), stopped, the user is watching"]);
    code.screenshot("joined");

    // debugpy cannot restart a program: it is launched again, under another name.
    comes_to(&mut batch, &json!({"action": "restart"}), &["stopped: breakpoint", "app.py:2"]);
    comes_to(&mut batch, &listed, &["debug-2: app.py (debugpy), stopped, the user is watching"]);
    code.screenshot("again");

    // The user continues, and the program ends for both.
    code.command("Debug: Continue");
    comes_to(&mut batch, &listed, &["debug-2: app.py (debugpy), ended"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "needs real editors; cargo xtask test runs it"]
fn the_agent_inspects_a_session_of_the_user_in_neovim() {
    let _alone = alone();
    let sandbox = Sandbox::with(&[("a.py", "def inner(n):\n    n += 1\n    return n\n")]);
    sandbox.make_repository();
    let neovim = Neovim::start(&sandbox, Setup::Plugin, &["a.py"]);
    let script = lua_string(&helper("scripted-dap.lua").display().to_string());
    let path = sandbox.project().join("a.py").canonicalize().unwrap();
    neovim.lua(&format!(
        "package.preload.dap = loadfile({script}); require('pilcrow.debug').follow(); local dap = require('dap'); \
         dap.path = {}; dap.run({{ type = 'python', request = 'launch', name = 'the app', cwd = vim.fn.getcwd() }}); \
         return true",
        lua_string(&path.display().to_string())
    ));
    let mut batch = Batch::start(&sandbox);
    comes_to(
        &mut batch,
        &json!({"action": "snapshot"}),
        &["the app", "stopped: breakpoint", "in inner at a.py:2", "n = 3"],
    );
    assert!(has_user_control(&mut batch));
    let step = json!({"action": "step_over"});
    batch.call("debug", &step).fails("wrong_state");
    let refused = batch.call("debug", &json!({"action": "evaluate", "expression": "m"})).fails("not_applied");
    check_output(&refused, &expect!["debugpy refused `evaluate`: no such name"]);

    // After the hand-over the agent steps through the user's own debugger. That does not count as
    // the user's step.
    neovim.lua("require('pilcrow').execute('pilcrow.debug.handBack', vim.empty_dict()); return true");
    comes_to(&mut batch, &step, &["stopped: step", "in inner at a.py:3"]);
    let asked = neovim.lua("return require('dap').asked");
    assert_eq!(asked.as_array().unwrap().iter().filter(|it| *it == "next").count(), 1, "{asked}");
    let again = batch.call("debug", &step);
    assert_eq!(again.value["details"]["state"], "stopped", "{}", again.ok());

    // The user's own step takes control.
    neovim.lua("require('dap').session:request('next', { threadId = 1 }); return true");
    let mut refused = String::new();
    let taken = wait_for(PATIENCE, || {
        refused = batch.call("debug", &json!({"action": "snapshot"})).ok();
        refused.contains("control_taken_by_user")
    });
    assert!(taken, "{refused}");
    batch.call("debug", &step).fails("wrong_state");
    neovim.lua("require('dap').close(); return true");
    comes_to(&mut batch, &json!({"action": "sessions"}), &["ended"]);
    assert!(batch.end().0.success());
}
