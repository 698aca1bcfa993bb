//! Whole sessions with every real adapter, each asked the same: a breakpoint with a condition before the
//! start, a log point, a step, an expression, a changed variable, threads, an exception, a restart, the end.
//! Slow: real debuggers.
//!
//! What each passed is written where `PILCROW_DEBUGGER_RESULTS` says, for the table in
//! `docs/guide/debuggers.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;
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
#include <stdlib.h>
int add(int a, int b) {
  int sum = a + b;
  return sum;
}
int main(void) {
  int total = 0;
  for (int i = 0; i < 4; i++)
    total = add(total, i);
  printf(\"total %d\\n\", total);
  if (getenv(\"FAIL\")) abort();
  return 3;
}
";

const JAVASCRIPT: &str = "\
function add(a, b) {
  const sum = a + b;
  return sum;
}
let total = 0;
for (let i = 0; i < 4; i++) {
  total = add(total, i);
}
console.log('total', total);
throw new Error('no more');
";

const GO: &str = "\
package main

import \"fmt\"

func add(a, b int) int {
	sum := a + b
	return sum
}

func main() {
	total := 0
	for i := 0; i < 4; i++ {
		total = add(total, i)
	}
	fmt.Println(\"total\", total)
	panic(\"no more\")
}
";

const RUST: &str = "\
fn add(a: i32, b: i32) -> i32 {
    let sum = a + b;
    sum
}

fn main() {
    let mut total = 0;
    for i in 0..4 {
        total = add(total, i);
    }
    println!(\"total {total}\");
    std::process::exit(3);
}
";

const BASH: &str = "\
#!/bin/bash
add() {
  local sum=$(( $1 + $2 ))
  echo \"$sum\" > /dev/null
  total=$sum
}
total=0
for i in 0 1 2 3; do
  add \"$total\" \"$i\"
done
echo \"total $total\"
exit 3
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

/// One adapter with its program: where it stops, and what it says there.
struct Flow {
    adapter: &'static str,
    program: &'static str,
    file: &'static str,
    /// The line with the condition.
    stop: (u64, &'static str),
    /// What the first stop shows.
    shows: &'static [&'static str],
    /// The line of a log point and its message, where it has them, and what it writes.
    log: Option<(u64, &'static str, &'static str)>,
    /// What is evaluated after a step, and what it is.
    evaluate: (&'static str, &'static str),
    /// What is set after the step, or the code with which that is refused.
    set: Result<&'static str, &'static str>,
    /// What an exception's stop shows, where the program has one.
    exception: &'static [&'static str],
    /// What the end shows.
    end: &'static [&'static str],
    /// The adapter restarts by itself.
    restarts: bool,
}

impl Flow {
    #[track_caller]
    fn run(&self, sandbox: &Sandbox) {
        let mut passed: BTreeMap<&str, bool> = BTreeMap::new();
        let mut batch = Batch::start(sandbox);
        let (line, condition) = self.stop;
        let mut points = vec![json!({"file": self.file, "line": line, "condition": condition})];
        points.extend(self.log.map(|(line, log, _)| json!({"file": self.file, "line": line, "log": log})));
        let launch = json!({"action": "launch", "program": self.program, "adapter": self.adapter,
            "args": ["x"], "env": {"PILCROW_TESTED": "1"}, "breakpoints": points});
        let at = format!("{}:{line}", self.file);
        let first: Vec<&str> =
            ["stopped: breakpoint", at.as_str()].iter().chain(self.shows).copied().collect();
        let first = says(&mut batch, &launch, &first);
        passed.insert("breakpoint before the start", true);
        passed.insert("condition", true);
        says(&mut batch, &action("threads"), &["thread "]);
        passed.insert("threads", true);
        says(&mut batch, &action("step_over"), &["stopped: step"]);
        passed.insert("step", true);
        let stale = &first["frames"][0]["frame"];
        batch.call("debug", &json!({"action": "scopes", "frame": stale})).fails("stale_text");
        let (expression, value) = self.evaluate;
        says(&mut batch, &json!({"action": "evaluate", "expression": expression}), &[value]);
        passed.insert("evaluate", true);
        let name = self.set.unwrap_or("sum");
        let set = json!({"action": "set_variable", "name": name, "value": "40"});
        match self.set {
            Ok(_) => drop(says(&mut batch, &set, &[&format!("{name} = 40")])),
            Err(code) => drop(batch.call("debug", &set).fails(code)),
        }
        passed.insert("set variable", self.set.is_ok());

        // From the beginning, to the same stop.
        let again = if self.restarts {
            vec!["stopped: breakpoint", at.as_str()]
        } else {
            vec!["launched again", at.as_str()]
        };
        says(&mut batch, &action("restart"), &again);
        passed.insert("restart", self.restarts);
        let remove = json!({"action": "breakpoints", "remove": true, "file": self.file, "line": line});
        says(&mut batch, &remove, &["removed 1"]);
        let mut wrote = String::new();
        let mut go = |batch: &mut Batch, parts: &[&str]| {
            let details = says(batch, &action("continue"), parts);
            wrote.push_str(details["output"].as_str().unwrap_or_default());
        };
        if !self.exception.is_empty() {
            let parts: Vec<&str> = ["stopped: exception"].iter().chain(self.exception).copied().collect();
            go(&mut batch, &parts);
        }
        passed.insert("exception stop", !self.exception.is_empty());
        go(&mut batch, self.end);
        passed.insert("end", true);
        if let Some((_, _, written)) = self.log {
            assert!(wrote.contains(written), "the log point wrote nothing: {wrote}");
        }
        passed.insert("log point", self.log.is_some());
        assert!(batch.end().0.success());
        sandbox.mark().none_left(Duration::from_secs(20));
        leave(self.adapter, &passed);
    }
}

/// Writes what an adapter passed, where the results are wanted.
fn leave(adapter: &str, passed: &BTreeMap<&str, bool>) {
    let Some(folder) = std::env::var_os("PILCROW_DEBUGGER_RESULTS").map(PathBuf::from) else { return };
    let result = json!({ "server": adapter, "version": version(adapter), "passed": passed });
    std::fs::write(folder.join(format!("{adapter}.json")), result.to_string()).expect("the results");
}

/// What the tested adapter says of itself, else what is installed for the tests.
fn version(adapter: &str) -> String {
    let said = |program: &str, args: &[&str]| {
        let ran = Command::new(program).args(args).output().expect("it starts");
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    };
    let text = match adapter {
        "gdb" => said("gdb", &["--version"]),
        "delve" => said("dlv", &["version"]),
        "lldb-dap" => said("lldb-19", &["--version"]),
        "debugpy" => said("debugpy-adapter", &["--help"]) + &installed("debugpy-"),
        "bash-dap" => installed("bash-dap-"),
        // Both come in one package of another project.
        _ => "0.17.0".to_owned(),
    };
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let words = text.split(|c: char| c.is_whitespace() || "(),-".contains(c));
    words.filter(|it| !it.is_empty()).find(is_version).unwrap_or("unknown").to_owned()
}

/// The folder of what the tests' tools hold: `debugpy-1.8.22-…`.
fn installed(name: &str) -> String {
    let tools = std::env::var_os("PILCROW_TOOLS").map(PathBuf::from).unwrap_or_default();
    let entries = std::fs::read_dir(tools.join("items")).into_iter().flatten().flatten();
    let mut names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
    names.find(|it| it.starts_with(name)).unwrap_or_default()
}

fn build(sandbox: &Sandbox, program: &str, args: &[&str]) {
    let built = Command::new(program).current_dir(sandbox.project()).args(args).status();
    assert!(built.expect("it starts").success());
}

fn c() -> Sandbox {
    let sandbox = Sandbox::with(&[("c.c", C)]);
    build(&sandbox, "gcc", &["-g", "-O0", "-o", "c", "c.c"]);
    sandbox
}

const NATIVE: Flow = Flow {
    adapter: "",
    program: "c",
    file: "c.c",
    stop: (4, "b == 2"),
    shows: &["a = 1 : int", "b = 2 : int"],
    log: Some((11, "it is {total} now", "it is 6 now")),
    evaluate: ("sum + a", "= 4"),
    set: Ok("sum"),
    exception: &[],
    end: &["ended with exit code 3", "total 6"],
    restarts: true,
};

#[test]
fn debugpy() {
    if !slow("debugpy") {
        return;
    }
    let sandbox = Sandbox::with(&[("a.py", PYTHON)]);
    let start = sandbox.tree();
    let flow = Flow {
        adapter: "debugpy",
        program: "a.py",
        file: "a.py",
        stop: (4, "item == 2"),
        shows: &["in compute", "item = 2", "total = 1"],
        log: Some((9, "it is {result} now", "it is 6 now")),
        evaluate: ("items[0] + total", "= 4 : int"),
        set: Ok("total"),
        exception: &["ValueError", "no more"],
        end: &["ended with exit code 1"],
        restarts: false,
    };
    flow.run(&sandbox);
    assert_eq!(sandbox.tree(), start, "debugging left something in the project");
}

#[test]
fn gdb() {
    if slow("gdb") {
        Flow { adapter: "gdb", ..NATIVE }.run(&c());
    }
}

#[test]
fn lldb_dap() {
    if slow("lldb_dap") {
        Flow { adapter: "lldb-dap", ..NATIVE }.run(&c());
    }
}

#[test]
fn codelldb() {
    if !slow("codelldb") {
        return;
    }
    let sandbox = Sandbox::with(&[("r.rs", RUST)]);
    build(&sandbox, "rustc", &["-g", "-o", "r", "r.rs"]);
    let flow = Flow {
        adapter: "codelldb",
        program: "r",
        file: "r.rs",
        stop: (2, "b == 2"),
        shows: &["a = 1", "b = 2"],
        log: Some((11, "it is {total} now", "it is 6 now")),
        // `sum` is also a name of the standard library's, which the debugger takes first.
        evaluate: ("a + b", "= 3"),
        // It cannot set a number of Rust's.
        set: Err("not_applied"),
        ..NATIVE
    };
    flow.run(&sandbox);
}

#[test]
fn js_debug() {
    if !slow("js_debug") {
        return;
    }
    let flow = Flow {
        adapter: "js-debug",
        program: "a.js",
        file: "a.js",
        stop: (2, "b === 2"),
        shows: &["a = 1 : number", "b = 2 : number"],
        log: Some((9, "it is {total} now", "it is 6 now")),
        evaluate: ("sum + a", "= 4 : number"),
        set: Ok("b"),
        exception: &["no more"],
        end: &["ended with exit code 1"],
        restarts: false,
    };
    flow.run(&Sandbox::with(&[("a.js", JAVASCRIPT)]));
}

#[test]
fn delve() {
    if !slow("delve") {
        return;
    }
    let sandbox = Sandbox::with(&[("main.go", GO), ("go.mod", "module example.org/tested\n\ngo 1.19\n")]);
    let start = sandbox.tree();
    let flow = Flow {
        adapter: "delve",
        program: "main.go",
        file: "main.go",
        stop: (6, "b == 2"),
        shows: &["in main.add", "a = 1 : int", "b = 2 : int"],
        log: Some((15, "it is {total} now", "it is 6 now")),
        evaluate: ("sum + a", "= 4"),
        set: Ok("b"),
        exception: &["no more"],
        end: &["ended with exit code 2"],
        restarts: false,
    };
    flow.run(&sandbox);
    assert_eq!(sandbox.tree(), start, "debugging left something in the project");
}

#[test]
fn bash_dap() {
    if !slow("bash_dap") {
        return;
    }
    let flow = Flow {
        adapter: "bash-dap",
        program: "s.sh",
        file: "s.sh",
        stop: (4, "(( sum == 3 ))"),
        shows: &["in add", "sum = 3"],
        log: None,
        evaluate: ("$sum", "= 3"),
        set: Err("unsupported"),
        exception: &[],
        end: &["ended with exit code 3", "total 6"],
        restarts: false,
    };
    flow.run(&Sandbox::with(&[("s.sh", BASH)]));
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
fn a_child_process_of_python_is_a_child_session() {
    if !slow("a_child_process_of_python_is_a_child_session") {
        return;
    }
    let parent = "import subprocess, sys\n\
        code = subprocess.run([sys.executable, 'child.py']).returncode\n\
        print('the child ended with', code)\n";
    let sandbox = Sandbox::with(&[("a.py", parent), ("child.py", "n = 41\nn += 1\nprint('n', n)\n")]);
    let mut batch = Batch::start(&sandbox);
    let launch =
        json!({"action": "launch", "program": "a.py", "breakpoints": [{"file": "child.py", "line": 3}]});
    let stop = says(&mut batch, &launch, &["stopped: breakpoint", "in <module> at child.py:3", "n = 42"]);
    assert_eq!(stop["parent"], "debug-1");
    says(
        &mut batch,
        &action("sessions"),
        &["debug-1: a.py (debugpy), running", "(debugpy, of debug-1), stopped"],
    );
    says(&mut batch, &action("continue"), &["ended"]);
    says(
        &mut batch,
        &json!({"action": "snapshot", "session": "debug-1"}),
        &["ended with exit code 0", "the child ended with 0"],
    );
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}
