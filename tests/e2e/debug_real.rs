//! Whole sessions with real adapters: a breakpoint with a condition before the start, a step, an
//! expression, a changed variable, an exception, the end. Slow: real debuggers.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tests::{Batch, Sandbox, slow};

const PYTHON: &str = "\
def compute(items):
    total = 0
    for item in items:
        total += item
    return total


result = compute([1, 2, 3])
print('result', result)
raise ValueError('no more')
";

const C: &str = "\
#include <stdio.h>
int add(int a, int b) {
  int sum = a + b;
  return sum;
}
int main(void) {
  int total = 0;
  for (int i = 0; i < 4; i++)
    total = add(total, i);
  printf(\"total %d\\n\", total);
  return 3;
}
";

#[track_caller]
fn says(batch: &mut Batch, arguments: &Value, parts: &[&str]) -> Value {
    let mut arguments = arguments.clone();
    arguments["timeout"] = json!(120);
    let answer = batch.call("debug", &arguments);
    let said = answer.ok();
    for part in parts {
        assert!(said.contains(part), "{part} is missing in the answer to {arguments}:\n{said}");
    }
    answer.value["details"].clone()
}

fn action(name: &str) -> Value {
    json!({ "action": name })
}

#[test]
fn debugpy() {
    if !slow("debugpy") {
        return;
    }
    let sandbox = Sandbox::with(&[("a.py", PYTHON)]);
    let start = sandbox.tree();
    let mut batch = Batch::start(&sandbox);
    let point = json!({"file": "a.py", "line": 4, "condition": "item == 2"});
    let launch = json!({"action": "launch", "program": "a.py", "breakpoints": [point]});
    let first =
        says(&mut batch, &launch, &["stopped: breakpoint", "in compute at a.py:4", "item = 2", "total = 1"]);
    says(&mut batch, &action("threads"), &["MainThread"]);
    says(&mut batch, &action("step_over"), &["stopped: step", "a.py:3", "total = 3 : int  (was 1)"]);
    let frame = &first["frames"][0]["frame"];
    batch
        .call("debug", &json!({"action": "evaluate", "expression": "item", "frame": frame}))
        .fails("stale_text");
    says(&mut batch, &json!({"action": "evaluate", "expression": "items[0] + total"}), &["= 4 : int"]);
    says(&mut batch, &json!({"action": "set_variable", "name": "total", "value": "100"}), &["total = 100"]);
    // Not caught: the adapter stops there by default.
    says(&mut batch, &action("continue"), &["stopped: exception", "ValueError", "no more", "result 103"]);
    let end = says(&mut batch, &action("continue"), &["ended with exit code 1"]);
    assert_eq!(end["exit_code"], 1);
    assert!(batch.end().0.success());
    assert_eq!(sandbox.tree(), start, "debugging left something in the project");
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
fn debugpy_is_ended_in_the_middle() {
    if !slow("debugpy_is_ended_in_the_middle") {
        return;
    }
    let sandbox = Sandbox::with(&[("a.py", "n = 0\nwhile True:\n    n += 1\n")]);
    let mut batch = Batch::start(&sandbox);
    let launch = json!({"action": "launch", "program": "a.py", "breakpoints": [{"file": "a.py", "line": 1}]});
    says(&mut batch, &launch, &["stopped: breakpoint"]);
    let answer = batch.call("debug", &json!({"action": "continue", "timeout": 1})).ok();
    assert!(answer.contains("is running; `pause` it"), "{answer}");
    says(&mut batch, &action("pause"), &["stopped: pause", "in <module> at a.py:"]);
    says(&mut batch, &action("terminate"), &["ended"]);
    // One that nobody ends goes with the process.
    says(&mut batch, &launch, &["stopped: breakpoint"]);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
fn gdb() {
    if !slow("gdb") {
        return;
    }
    let sandbox = Sandbox::with(&[("c.c", C)]);
    let built =
        Command::new("gcc").current_dir(sandbox.project()).args(["-g", "-O0", "-o", "c", "c.c"]).status();
    assert!(built.expect("gcc starts").success());
    let mut batch = Batch::start(&sandbox);
    let point = json!({"file": "c.c", "line": 3, "condition": "b == 2"});
    let launch = json!({"action": "launch", "program": "c", "breakpoints": [point]});
    says(&mut batch, &launch, &["stopped: breakpoint", "in add at c.c:3", "a = 1 : int", "b = 2 : int"]);
    says(&mut batch, &action("step_over"), &["stopped: step", "c.c:4", "sum = 3 : int"]);
    says(&mut batch, &json!({"action": "evaluate", "expression": "sum + a"}), &["= 4"]);
    says(&mut batch, &json!({"action": "set_variable", "name": "sum", "value": "40"}), &["sum = 40"]);
    says(&mut batch, &action("step_out"), &["stopped: step", "in main at c.c:9"]);
    says(&mut batch, &json!({"action": "breakpoints", "remove": true}), &["removed 1", "no breakpoints"]);
    let end = says(&mut batch, &action("continue"), &["ended with exit code 3", "total 43"]);
    assert_eq!(end["exit_code"], 3);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(10));
}
