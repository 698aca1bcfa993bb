//! A debug session that the person starts in the editor, looked into by the agent: VS Code with its own
//! debugger for JavaScript.

use std::time::Duration;

use serde_json::{Value, json};
use tests::editors::{VsCode, alone};
use tests::{Sandbox, in_editors, wait_for};

const SOURCE: &str = "\
let total = 0;
for (const item of [1, 2, 3]) {
  total += item;
  debugger;
}
console.log('total', total);
";

#[test]
fn in_vscode_what_the_person_started_is_looked_into() {
    if !in_editors("in_vscode_what_the_person_started_is_looked_into") {
        return;
    }
    let _alone = alone();
    let launch = json!({"version": "0.2.0", "configurations": [
        {"name": "this", "type": "node", "request": "launch", "program": "${workspaceFolder}/a.js",
            "internalConsoleOptions": "neverOpen"}]});
    let sandbox = Sandbox::with(&[("a.js", SOURCE), (".vscode/launch.json", &launch.to_string())]);
    let mut code = VsCode::start(&sandbox, "vscode-their-debug");
    code.open("a.js");
    code.command("Debug: Start Debugging");
    let debug = |arguments: Value| sandbox.tool("debug", &arguments);
    let sessions = || debug(json!({"action": "sessions"}));
    let stopped = || {
        let listed = sessions().value["details"]["sessions"].as_array().cloned().unwrap_or_default();
        listed.into_iter().find(|it| it["state"] == "stopped" && it["of_editor"] == true)
    };
    let seen = wait_for(Duration::from_secs(120), || stopped().is_some());
    assert!(seen, "{}\n{}", sessions().value, code.logs());
    let session = stopped().expect("it was just seen");
    assert_eq!(session["controller"], "person", "{session}");
    let id = session["session"].clone();
    let shown = debug(json!({"action": "snapshot", "session": id})).ok();
    assert!(shown.contains("a.js:4") && shown.contains("item = 1"), "{shown}");
    let refused = debug(json!({"action": "continue", "session": id})).fails("wrong_state");
    assert!(refused.contains("control_taken_by_user"), "{refused}");
    // The person goes on: the agent sees the next stop.
    code.press("F5");
    let next = wait_for(Duration::from_secs(60), || {
        debug(json!({"action": "snapshot", "session": id})).value.to_string().contains("item = 2")
    });
    assert!(next, "{}", sessions().value);
    code.press("Shift+F5");
    assert!(wait_for(Duration::from_secs(60), || stopped().is_none()), "{}", sessions().value);
}
