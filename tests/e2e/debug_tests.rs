//! `test`, `probe`, `trace` and launch configurations with real adapters. Slow.
//!
//! Also attaches to running programs.

use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, check_output};

const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn says(batch: &mut Batch, arguments: &Value, parts: &[&str]) -> Value {
    let mut arguments = arguments.clone();
    arguments["timeout"] = json!(200);
    let answer = batch.call("debug", &arguments);
    let said = answer.ok();
    for part in parts {
        assert!(said.contains(part), "{part} is missing in the answer to {arguments}:\n{said}");
    }
    answer.value["details"].clone()
}

/// Asserts that the test fails at this place with these values, and another passes.
#[track_caller]
fn fails(sandbox: &Sandbox, test: &Value, place: &str, values: &[&str], passes: &Value) {
    let mut batch = Batch::start(sandbox);
    let mut test = test.clone();
    test["action"] = json!("test");
    let at = format!("at {place}");
    let parts: Vec<&str> =
        ["fails here", at.as_str(), "values in this statement:"].iter().chain(values).copied().collect();
    let details = says(&mut batch, &test, &parts);
    assert!(details["values"].as_array().is_some_and(|it| !it.is_empty()));
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    if !passes.is_null() {
        let mut test = passes.clone();
        test["action"] = json!("test");
        let said = batch.call("debug", &test).ok();
        let status = said.lines().next().unwrap_or_default();
        assert!(status.ends_with(" passed: there was no failure to stop at"), "{said}");
    }
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}

const PYTEST: &str = "\
class Cart:
    def __init__(self, items):
        self.items = items

    def total(self):
        return sum(self.items)


def test_total():
    cart = Cart([1, 2])
    expected = 4
    assert cart.total() == expected


def test_empty():
    assert Cart([]).total() == 0
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_failing_pytest_test_stops_where_it_fails() {
    let sandbox = Sandbox::with(&[("test_cart.py", PYTEST)]);
    let tools = PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env"));
    let lib = tools.join("lib/python-tests/lib");
    let version =
        std::fs::read_dir(&lib).expect("pytest is set up").flatten().next().expect("a version").path();
    let env = json!({"PYTHONPATH": version.join("site-packages")});
    fails(
        &sandbox,
        &json!({"name": "test_total", "env": env}),
        "test_cart.py:12",
        &["expected = 4 : int"],
        &json!({"file": "test_cart.py", "line": 16, "env": env}),
    );
}

const UNITTEST: &str = "\
import unittest


class TestSum(unittest.TestCase):
    def test_sum(self):
        got = sum([1, 2])
        want = 4
        self.assertEqual(got, want)

    def test_nothing(self):
        self.assertEqual(sum([]), 0)

    def test_nothing_more(self):
        self.assertEqual(sum([]), 1)
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn the_planner_debugs_the_failing_test_of_a_file() {
    let expected = "import pytest\n\n\n@pytest.mark.xfail\ndef test_later():\n    assert False\n\n\n";
    let fine = "def test_fine():\n    with pytest.raises(KeyError):\n        {}['a']\n";
    let mut sandbox = Sandbox::with(&[
        ("test_cart.py", &format!("{expected}{fine}\n\n{PYTEST}")),
        ("test_fine.py", &format!("{expected}{fine}")),
    ]);
    let tools = PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env"));
    let lib = tools.join("lib/python-tests/lib");
    let version =
        std::fs::read_dir(&lib).expect("pytest is set up").flatten().next().expect("a version").path();
    let packages = version.join("site-packages").display().to_string();
    sandbox.variables.insert("PYTHONPATH".to_owned(), packages);
    let debug = |file: &str| {
        let prompt = format!("debug the failing test in {file}");
        let ran = sandbox.run(&["run", "--yes", "--model", "planner", &prompt]).expect(0);
        ran.stdout.lines().take(2).map(|line| format!("{line}\n")).collect::<String>()
    };
    check_output(
        &debug("test_cart.py"),
        &expect![[r#"
        test file test_cart.py (pytest) fails here
        debug-2: file test_cart.py stopped: exception, assert 3 == 4
    "#]],
    );
    check_output(
        &debug("test_fine.py"),
        &expect![[r#"
        test file test_fine.py (pytest) passed: there was no failure to stop at
        debug-1: file test_fine.py ended with exit code 0
    "#]],
    );
    sandbox.mark().none_left(Duration::from_secs(20));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_failing_unittest_test_stops_where_it_fails() {
    let sandbox = Sandbox::with(&[("test_sum.py", UNITTEST)]);
    let passes = json!({"name": "TestSum.test_nothing"});
    let values = ["got = 3 : int", "want = 4 : int"];
    fails(&sandbox, &json!({"file": "test_sum.py", "line": 8}), "test_sum.py:8", &values, &passes);
}

const RUST: &str = "\
pub fn total(items: &[i32]) -> i32 {
    items.iter().sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        let got = super::total(&[1, 2]);
        let want = 4;
        assert_eq!(got, want);
    }

    #[test]
    fn nothing() {
        assert_eq!(super::total(&[]), 0);
    }
}
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_failing_cargo_test_stops_where_it_fails() {
    let manifest = "[package]\nname = \"tested\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
    for adapter in ["codelldb", "lldb-dap", "gdb"] {
        let sandbox = Sandbox::with(&[("Cargo.toml", manifest), ("src/lib.rs", RUST)]);
        let passes = if adapter == "codelldb" { json!({"name": "nothing"}) } else { Value::Null };
        let test = json!({"file": "src/lib.rs", "line": 11, "adapter": adapter});
        fails(&sandbox, &test, "src/lib.rs:11", &["got = 3", "want = 4"], &passes);
    }
}

const GO: &str = "\
package tested

import \"testing\"

func add(a, b int) int { return a + b }

func TestAdd(t *testing.T) {
	got := add(2, 2)
	want := 5
	if got != want {
		t.Errorf(\"got %d, want %d\", got, want)
	}
}

func TestNothing(t *testing.T) {
}
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_failing_go_test_stops_where_it_fails() {
    let sandbox = Sandbox::with(&[("go.mod", "module example.org/tested\n\ngo 1.19\n"), ("add_test.go", GO)]);
    let passes = json!({"file": "add_test.go", "name": "TestNothing"});
    let values = ["got = 4", "want = 5"];
    fails(&sandbox, &json!({"name": "TestAdd"}), "add_test.go:11", &values, &passes);
}

const NODE: &str = "\
import test from 'node:test';
import assert from 'node:assert';

test('adds up', () => {
  const got = 1 + 2;
  const want = 4;
  assert.strictEqual(got, want);
});

test('nothing', () => {});
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_failing_node_test_stops_where_it_fails() {
    let sandbox = Sandbox::with(&[("add.test.mjs", NODE)]);
    let values = ["got = 3 : number", "want = 4 : number"];
    fails(&sandbox, &json!({"name": "adds up"}), "add.test.mjs:7", &values, &json!({"name": "nothing"}));
}

/// A project with the modules of the tools directory's `lib/LIB`.
fn with_modules(files: &[(&str, &str)], lib: &str) -> Sandbox {
    let sandbox = Sandbox::with(files);
    let tools = PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env"));
    let modules = tools.join("lib").join(lib).canonicalize().expect("the modules are set up");
    std::os::unix::fs::symlink(modules, sandbox.project().join("node_modules")).expect("a link");
    sandbox
}

const VITEST: &str = "\
import { expect, test } from 'vitest';

test('adds up', () => {
  const got: number = 1 + 2;
  const want: number = 4;
  expect(got).toBe(want);
});

test('nothing', () => {});

test('nothing more', () => expect(1).toBe(2));
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_failing_vitest_test_stops_where_it_fails() {
    let package = "{\"type\": \"module\"}";
    let sandbox = with_modules(&[("add.test.ts", VITEST), ("package.json", package)], "zod");
    let values = ["got = 3 : number", "want = 4 : number"];
    fails(&sandbox, &json!({"name": "adds up"}), "add.test.ts:6", &values, &json!({"name": "nothing"}));
}

const JEST: &str = "\
const add = (a, b) => a + b;

test('adds up', () => {
  const got = add(1, 2);
  const want = 4;
  expect(got).toBe(want);
});

test('nothing', () => {});

test('nothing more', () => expect(1).toBe(2));
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_failing_jest_test_stops_where_it_fails() {
    let sandbox = with_modules(&[("add.test.js", JEST), ("package.json", "{}")], "jest");
    let values = ["got = 3 : number", "want = 4 : number"];
    fails(&sandbox, &json!({"name": "adds up"}), "add.test.js:6", &values, &json!({"name": "nothing"}));
}

const C: &str = "\
#include <assert.h>
int add(int a, int b) { return a + b; }
int main(int count, char **words) {
  int want = 4;
  int got = add(1, count);
  assert(got == want);
  return 0;
}
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn test_executables_and_ctest_stop_where_they_fail() {
    let cmake = "cmake_minimum_required(VERSION 3.20)\nproject(tested C)\nset(CMAKE_BUILD_TYPE Debug)\n\
        enable_testing()\nadd_executable(t t.c)\nadd_test(NAME fails COMMAND t)\nadd_test(NAME passes COMMAND t x y)\n";
    let sandbox = Sandbox::with(&[("t.c", C), ("CMakeLists.txt", cmake)]);
    for words in [&["-S", ".", "-B", "build"][..], &["--build", "build"]] {
        let built =
            Command::new("cmake").current_dir(sandbox.project()).args(words).stdout(Stdio::null()).status();
        assert!(built.expect("cmake starts").success());
    }
    let values = ["got = 2", "want = 4"];
    fails(&sandbox, &json!({"program": "build/t"}), "t.c:6", &values, &json!({"name": "passes"}));
    fails(&sandbox, &json!({"name": "fails", "adapter": "lldb-dap"}), "t.c:6", &values, &Value::Null);
}

const PROGRAM: &str = "\
import sys


def compute(items):
    total = 0
    for item in items:
        total += item
    return total


print('result', compute([1, 2, 3]), *sys.argv[1:])
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_probe_is_passive_and_a_trace_shows_changes() {
    let sandbox = Sandbox::with(&[("a.py", PROGRAM)]);
    let plain =
        Command::new("python3").current_dir(sandbox.project()).args(["a.py", "x"]).output().expect("python");
    let mut batch = Batch::start(&sandbox);
    let points = json!([{"file": "a.py", "line": 7, "expressions": ["item", "total"]}]);
    let probe = json!({"action": "probe", "program": "a.py", "args": ["x"], "points": points});
    let details = says(
        &mut batch,
        &probe,
        &[
            "a.py:7: 3 passes",
            "| 2 | a.py:7 | item = 2, total = 1 |",
            "result 6 x",
            "without stopping the program",
        ],
    );
    assert_eq!(details["rows"][2]["values"], json!({"item": "3", "total": "3"}));
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "result 6 x\n");

    let launch = json!({"action": "launch", "program": "a.py", "breakpoints": [{"file": "a.py", "line": 6}]});
    says(&mut batch, &launch, &["stopped: breakpoint"]);
    let trace = json!({"action": "trace", "expression": "total", "until": "a.py:8"});
    let details = says(&mut batch, &trace, &["compute at a.py:7: 1 -> 3", "a.py:8 is reached"]);
    let changes: Vec<&Value> =
        details["changes"].as_array().expect("changes").iter().map(|it| &it["to"]).collect();
    assert_eq!(changes, ["1", "3", "6"]);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}

/// Stops with `exceptions: ["panic"]`, and lists alternatives to an unknown name.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_rust_panic_stops_the_program() {
    let program = "fn half(n: i32) -> i32 {\n    if n % 2 == 1 {\n        panic!(\"{} is odd\", n);\n    }\n    n / 2\n}\n\nfn main() {\n    half(3);\n}\n";
    for adapter in ["codelldb", "lldb-dap", "gdb"] {
        let sandbox = Sandbox::with(&[("r.rs", program)]);
        let mut rustc = Command::new("rustc");
        rustc.current_dir(sandbox.project()).args(["-g", "r.rs"]);
        assert!(rustc.status().expect("rustc starts").success());
        let mut batch = Batch::start(&sandbox);
        let launch = json!({"action": "launch", "program": "r", "adapter": adapter, "exceptions": ["panic"]});
        let stopped = says(&mut batch, &launch, &["stopped: ", " at r.rs:3\n", "n = 3"]);
        let ended = says(&mut batch, &json!({"action": "continue"}), &["ended"]);
        // Rust prints a panic before the stop in it.
        let wrote = [&stopped, &ended].map(|it| it["output"].as_str().unwrap_or_default()).concat();
        assert!(wrote.lines().any(|line| line.ends_with("3 is odd")), "{wrote}");
        let unknown =
            json!({"action": "launch", "program": "r", "adapter": adapter, "exceptions": ["nonsense"]});
        let refused = batch.call("debug", &unknown).fails("unsupported");
        assert!(refused.contains("panic"), "{refused}");
        assert!(batch.end().0.success());
        sandbox.mark().none_left(Duration::from_secs(20));
    }
}

/// Uses a class name as an exception breakpoint, also for caught exceptions.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_python_exception_is_caught_by_name() {
    let program = "def get(d, k):\n    return d[k]\n\ntry:\n    int('x')\nexcept ValueError:\n    pass\ntry:\n    \
        get({}, 'a')\nexcept KeyError:\n    pass\nget([], 3)\n";
    let sandbox = Sandbox::with(&[("a.py", program)]);
    let mut batch = Batch::start(&sandbox);
    let launch = |names: Value| json!({"action": "launch", "program": "a.py", "exceptions": names});
    says(
        &mut batch,
        &launch(json!(["KeyError", "uncaught"])),
        &["stopped: exception", "KeyError", "k = 'a'"],
    );
    // debugpy stops in each function that the exception leaves.
    says(&mut batch, &json!({"action": "continue"}), &["stopped: exception", "KeyError", "a.py:9"]);
    says(&mut batch, &json!({"action": "continue"}), &["stopped: exception", "IndexError", "k = 3 : int"]);
    says(&mut batch, &json!({"action": "continue"}), &["ended with exit code 1"]);
    says(&mut batch, &launch(json!(["KeyError mode unhandled"])), &["ended with exit code 1"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_launch_configuration_is_run_by_name() {
    let launch = "{\n  // For people.\n  \"configurations\": [\n    {\"name\": \"this file\", \"type\": \"debugpy\", \
        \"request\": \"launch\", \"program\": \"${file}\", \"args\": [\"${workspaceFolderBasename}\",], \
        \"preLaunchTask\": \"build\"},\n  ],\n}\n";
    let sandbox = Sandbox::with(&[("a.py", PROGRAM), (".vscode/launch.json", launch)]);
    let mut batch = Batch::start(&sandbox);
    says(
        &mut batch,
        &json!({"action": "configs"}),
        &["this file: launch debugpy (debugpy)", "run the task `build` first"],
    );
    let start = json!({"action": "launch", "config": "this file", "file": "a.py",
        "breakpoints": [{"file": "a.py", "line": 8}]});
    says(&mut batch, &start, &["preLaunchTask `build`, which was not run", "total = 6"]);
    let name = sandbox.project().file_name().expect("a name").to_string_lossy().into_owned();
    says(
        &mut batch,
        &json!({"action": "continue"}),
        &["ended with exit code 0", &format!("result 6 {name}")],
    );
    let missing = json!({"action": "launch", "config": "that"});
    check_output(
        &batch.call("debug", &missing).fails("not_found"),
        &expect!["there is no configuration `that` in .vscode/launch.json; it has: this file"],
    );
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}

const WAITS: &str = "\
import os, sys, time
n = 0
print('ready', flush=True)
while not os.path.exists(sys.argv[1]):
    n += 1
    time.sleep(0.02)
print('over')
";

/// Runs Go's own configuration of VS Code, with arguments written as a line.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn an_editors_go_configuration_is_run() {
    let main = "package main\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc main() {\n\tfmt.Println(len(os.Args), os.Args[1])\n}\n";
    let test =
        "package main\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tn := 41\n\tt.Log(n)\n}\n";
    let config = json!({"configurations": [{"name": "Launch Package", "type": "go", "request": "launch",
        "mode": "auto", "program": "${file}", "args": "'a b' c"},
        {"name": "tests", "type": "go", "request": "launch", "mode": "auto", "program": "${file}"},
        {"name": "folder", "type": "go", "request": "launch", "mode": "auto", "program": "${fileDirname}"}]});
    let sandbox = Sandbox::with(&[
        ("go.mod", "module example.org/a\n\ngo 1.19\n"),
        ("main.go", main),
        ("main_test.go", test),
        (".vscode/launch.json", &config.to_string()),
    ]);
    let mut batch = Batch::start(&sandbox);
    let launch = |name: &str, file: &str| json!({"action": "launch", "config": name, "file": file});
    says(&mut batch, &launch("Launch Package", "main.go"), &["ended with exit code 0", "3 a b"]);
    for name in ["tests", "folder"] {
        let mut tests = launch(name, "main_test.go");
        tests["breakpoints"] = json!([{"file": "main_test.go", "line": 7}]);
        says(&mut batch, &tests, &["stopped: breakpoint", "main_test.go:7", "n = 41"]);
    }
    assert!(batch.end().0.success());
}

/// A free port of the loopback interface.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn python_is_attached_by_port_and_by_process() {
    let tools = PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env"));
    let adapter = tools.join("bin/debugpy-adapter").canonicalize().expect("debugpy is set up");
    let lib = adapter.parent().and_then(|it| it.parent()).expect("its directory").join("lib");
    let lib = std::fs::read_dir(lib).expect("a directory").flatten().next().expect("a version").path();
    for by_port in [true, false] {
        let sandbox = Sandbox::with(&[("w.py", WAITS)]);
        let (port, stop) = (free_port(), sandbox.beside("stop"));
        let listen = format!("127.0.0.1:{port}");
        let words: &[&str] = if by_port { &["-m", "debugpy", "--listen", &listen] } else { &[] };
        let mut program = Command::new("python3")
            .current_dir(sandbox.project())
            .env("PYTHONPATH", lib.join("site-packages"))
            .args(words)
            .arg(sandbox.project().join("w.py"))
            .arg(&stop)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        // A debugger must not enter it before its imports are complete.
        let mut ready = String::new();
        std::io::BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        let mut batch = Batch::start(&sandbox);
        let mut attach = json!({"action": "attach", "adapter": "debugpy",
            "breakpoints": [{"file": "w.py", "line": 5}]});
        match by_port {
            true => attach["port"] = json!(port),
            false => attach["pid"] = json!(program.id()),
        }
        let stopped = says(&mut batch, &attach, &["in <module> at w.py:5"]);
        let locals = stopped["locals"].as_array().expect("a list");
        assert!(locals.iter().all(|it| it["name"] != "setup"), "debugpy adds it: {locals:?}");
        says(&mut batch, &json!({"action": "evaluate", "expression": "n >= 0"}), &["= True"]);
        says(&mut batch, &json!({"action": "breakpoints", "remove": true}), &["removed 1"]);
        // The attached program continues without the debugger.
        says(&mut batch, &json!({"action": "disconnect"}), &["ended"]);
        assert!(batch.end().0.success());
        assert!(
            program.try_wait().expect("the process can be awaited").is_none(),
            "it was ended with the session"
        );
        std::fs::write(&stop, "").expect("a file");
        let ended =
            tests::wait_for(PATIENCE, || program.try_wait().expect("the process can be awaited").is_some());
        if !ended {
            program.kill().expect("the process can be killed");
        }
        assert!(ended, "it does not go on (by port: {by_port})");
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_native_process_is_attached() {
    let text = "#include <unistd.h>\nint main(void) {\n  volatile int n = 7;\n  for (;;) {\n    usleep(1000);\n    n++;\n  }\n}\n";
    for adapter in ["gdb", "lldb-dap", "codelldb"] {
        let sandbox = Sandbox::with(&[("w.c", text)]);
        let built =
            Command::new("gcc").current_dir(sandbox.project()).args(["-g", "-O0", "-o", "w", "w.c"]).status();
        assert!(built.expect("gcc starts").success());
        let mut program = Command::new(sandbox.project().join("w")).spawn().expect("it starts");
        let mut batch = Batch::start(&sandbox);
        let attach = json!({"action": "attach", "adapter": adapter, "pid": program.id(),
            "breakpoints": [{"file": "w.c", "line": 6}]});
        let first = says(&mut batch, &attach, &["stopped"]);
        if first["place"]["line"] != 6 {
            // The debugger attaches while the process is inside a system call.
            says(&mut batch, &json!({"action": "continue"}), &["in main at w.c:6"]);
        }
        says(&mut batch, &json!({"action": "evaluate", "expression": "n"}), &["n = "]);
        says(&mut batch, &json!({"action": "disconnect"}), &["ended"]);
        assert!(batch.end().0.success());
        assert!(program.try_wait().expect("the process can be awaited").is_none(), "{adapter} ended it");
        program.kill().expect("the process can be killed");
        program.wait().expect("it ends");
    }
}

/// Attaching is answered at once, and the executable decides the adapter.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_pid_alone_attaches_to_a_running_program() {
    let text = "#include <unistd.h>\nint main(void) {\n  for (;;) usleep(1000);\n}\n";
    let sandbox = Sandbox::with(&[("w.c", text), ("w.py", "import time\nwhile True: time.sleep(0.01)\n")]);
    let built = Command::new("gcc").current_dir(sandbox.project()).args(["-g", "-o", "w", "w.c"]).status();
    assert!(built.expect("gcc starts").success());
    let native = sandbox.project().join("w");
    // `python3` may be a script that starts the interpreter.
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = String::from_utf8(python.expect("python starts").stdout).expect("a path");
    for (adapter, command) in [
        ("gdb", vec![native.to_str().expect("a path")]),
        ("lldb-dap", vec![native.to_str().expect("a path")]),
        ("codelldb", vec![native.to_str().expect("a path")]),
        ("debugpy", vec![python.trim(), "w.py"]),
    ] {
        let mut program = Command::new(command[0])
            .args(&command[1..])
            .current_dir(sandbox.project())
            .spawn()
            .expect("it starts");
        let mut batch = Batch::start(&sandbox);
        let mut attach = json!({"action": "attach", "pid": program.id()});
        if ["lldb-dap", "codelldb"].contains(&adapter) {
            attach["adapter"] = json!(adapter);
        }
        let since = Instant::now();
        let attached = says(&mut batch, &attach, &[]);
        assert!(since.elapsed() < Duration::from_secs(60), "{adapter} waited for a stop");
        // gdb leaves the process stopped.
        let state = if adapter == "gdb" { "stopped" } else { "running" };
        assert_eq!((&attached["adapter"], &attached["state"]), (&json!(adapter), &json!(state)));
        if state == "running" {
            says(&mut batch, &json!({"action": "pause"}), &["stopped: "]);
        }
        says(&mut batch, &json!({"action": "disconnect"}), &["ended"]);
        assert!(batch.end().0.success());
        program.kill().expect("the process can be killed");
        program.wait().expect("it ends");
    }
}
