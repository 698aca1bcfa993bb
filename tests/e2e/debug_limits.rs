//! Real adapters with programs that are awkward to debug: values, output, deadlocks, ends, tests.
//!
//! Slow: real debuggers.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Batch, Sandbox};

#[track_caller]
fn says(batch: &mut Batch, arguments: &Value, parts: &[&str]) -> Value {
    let answer = batch.call("debug", arguments);
    let said = answer.ok();
    for part in parts {
        assert!(said.contains(part), "{part} is missing in the answer to {arguments}:\n{said}");
    }
    answer.value["details"].clone()
}

fn at(program: &str, line: u64) -> Value {
    let points = json!([{"file": program, "line": line}]);
    json!({"action": "launch", "program": program, "breakpoints": points, "timeout": 60})
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_node_program_ends_with_its_session() {
    let program = "const fs = require(\"fs\");\nconst n = 1;\nfs.writeFileSync(\"ran\", `${n}`);\n";
    let sandbox = Sandbox::with(&[("a.js", program)]);
    for end in ["terminate", "disconnect", "restart"] {
        let mut batch = Batch::start(&sandbox);
        says(&mut batch, &at("a.js", 2), &["stopped: breakpoint"]);
        says(&mut batch, &json!({"action": end, "timeout": 60}), &[]);
        assert!(batch.end().0.success());
        assert!(!sandbox.project().join("ran").exists(), "{end} let the program run on");
    }
    sandbox.mark().none_left(Duration::from_secs(20));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn debugpy_is_not_sent_unsupported_requests() {
    let sandbox = Sandbox::with(&[("a.py", "n = 1\nprint(n)\n")]);
    let mut batch = Batch::start(&sandbox);
    says(&mut batch, &at("a.py", 2), &["stopped: breakpoint"]);
    for command in ["dataBreakpointInfo", "stepBack", "readMemory", "restartFrame", "disassemble", "cancel"] {
        let request = json!({"action": "request", "command": command, "arguments": "{\"threadId\": 1}"});
        let begin = Instant::now();
        batch.call("debug", &request).fails("unsupported");
        assert!(begin.elapsed() < Duration::from_secs(5), "{command}: {:?}", begin.elapsed());
    }
    says(&mut batch, &json!({"action": "evaluate", "expression": "n"}), &["n = 1"]);
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

const SLOW: &str = "\
import threading, time
class Slow:
    def __repr__(self):
        time.sleep(3)
        return 'slow'
def idle():
    for _ in range(10000):
        time.sleep(0.01)
threading.Thread(target=idle, daemon=True).start()
def f():
    before = 1
    value, list = Slow(), [Slow(), Slow()]
    after = 2
    return before
f()
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn values_that_are_slow_to_show_are_named_beside_the_others() {
    let sandbox = Sandbox::with(&[("a.py", SLOW)]);
    let mut batch = Batch::start(&sandbox);
    let begin = Instant::now();
    let parts = ["before = 1", "value = <slow: not shown", "list = <slow: not shown", "after = 2"];
    says(&mut batch, &at("a.py", 14), &parts);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    says(&mut batch, &json!({"action": "evaluate", "expression": "value"}), &["value = slow"]);
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_python_traceback_has_the_programs_frames() {
    let sandbox = Sandbox::with(&[("a.py", "def f(x):\n    return 1 / x\nf(0)\n")]);
    let mut batch = Batch::start(&sandbox);
    let launch = json!({"action": "launch", "program": "a.py"});
    says(&mut batch, &launch, &["stopped: exception"]);
    let ended =
        says(&mut batch, &json!({"action": "continue"}), &["ended with exit code 1", "a.py\", line 3"]);
    let output = ended["output"].as_str().expect("a text");
    assert!(!output.contains("runpy") && !output.contains("debugpy"), "{output}");
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_javascript_exception_ends_at_its_text() {
    let sandbox = Sandbox::with(&[("a.js", "throw new Error('no more');\n")]);
    let mut batch = Batch::start(&sandbox);
    let launch = json!({"action": "launch", "program": "a.js"});
    says(&mut batch, &launch, &["\nexception: Error: no more\n"]);
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_running_program_is_run_to_a_line() {
    let program = "import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.01)\n";
    let sandbox = Sandbox::with(&[("a.py", program)]);
    let mut batch = Batch::start(&sandbox);
    let launch = json!({"action": "launch", "program": "a.py", "timeout": 10});
    assert_eq!(says(&mut batch, &launch, &[])["state"], "running");
    let to = json!({"action": "run_to", "file": "a.py", "line": 4, "timeout": 30});
    for _ in 0..2 {
        says(&mut batch, &to, &["stopped: breakpoint", "at a.py:4"]);
        assert_eq!(says(&mut batch, &json!({"action": "breakpoints"}), &[])["breakpoints"], json!([]));
    }
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

/// A wrong request is answered, and the program stays stopped.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn wrong_requests_do_not_end_an_adapter() {
    let go = "package main\n\nfunc main() {\n\tn := 1\n\tprintln(n)\n}\n";
    let c = "int main(void) {\n  int n = 1;\n  return n;\n}\n";
    let sandbox = Sandbox::with(&[("a.c", c), ("a.go", go)]);
    let mut gcc = Command::new("gcc");
    assert!(
        gcc.args(["-g", "-o", "a", "a.c"]).current_dir(sandbox.project()).status().expect("gcc").success()
    );
    for (program, adapter, file, line) in [("a", "lldb-dap", "a.c", 3), ("a.go", "delve", "a.go", 5)] {
        let mut batch = Batch::start(&sandbox);
        let points = json!([{"file": file, "line": line}]);
        let launch =
            json!({"action": "launch", "program": program, "adapter": adapter, "breakpoints": points});
        says(&mut batch, &launch, &["stopped: breakpoint"]);
        for (command, arguments) in [("nonsense", "{}"), ("scopes", "{\"frameId\": \"1\"}")] {
            let request = json!({"action": "request", "command": command, "arguments": arguments});
            batch.call("debug", &request).fails("not_applied");
        }
        says(&mut batch, &json!({"action": "evaluate", "expression": "n"}), &["n = 1"]);
        says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
        assert!(batch.end().0.success());
    }
}

/// Its own hook and handler are in place before the first stop.
const HOOKS: &str = "\
import os, signal, sys
class Slow:
    def __repr__(self):
        while True: pass
def handler(number, frame):
    print('handled', number)
def hook(kind, value, trace):
    print('hooked', kind.__name__)
signal.signal(signal.SIGINT, handler)
sys.excepthook = hook
slow = Slow()
n = 1
os.kill(os.getpid(), signal.SIGINT)
print(sys.excepthook is hook, signal.getsignal(signal.SIGINT) is handler)
raise KeyError(n)
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn hooks_of_a_python_program_are_its_own() {
    let default = "import sys\nn = 1\nprint(sys.excepthook is sys.__excepthook__)\n";
    let sandbox = Sandbox::with(&[("a.py", HOOKS), ("b.py", default)]);
    let mut batch = Batch::start(&sandbox);
    says(&mut batch, &at("a.py", 12), &["slow = <slow: not shown"]);
    let stopped = says(&mut batch, &json!({"action": "continue"}), &["stopped: exception, 1, KeyError"]);
    assert_eq!(stopped["output"], "  handled 2\n  True True\n");
    says(&mut batch, &json!({"action": "continue"}), &["ended with exit code 1", "hooked KeyError"]);
    says(&mut batch, &at("b.py", 2), &["stopped: breakpoint"]);
    says(&mut batch, &json!({"action": "continue"}), &["ended with exit code 0", "True"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn an_expression_that_fails_keeps_the_rows_of_a_probe() {
    let program =
        "import time\n\ndef f(items, most):\n    return items\n\nf([1, 'ü\"'], 1)\nf([], 2)\ntime.sleep(1)\n";
    let sandbox = Sandbox::with(&[("a.py", program)]);
    let mut batch = Batch::start(&sandbox);
    let expressions =
        json!(["len(items)", "nothing", "items[0] == 1", "[it for it in items if it != most]", "'it\"s'"]);
    let points = json!([{"file": "a.py", "line": 4, "expressions": expressions}]);
    let probed = says(&mut batch, &json!({"action": "probe", "program": "a.py", "points": points}), &[]);
    let name_error = "(NameError: name 'nothing' is not defined)";
    let rows: Vec<Vec<&str>> = (0..2)
        .map(|row| {
            let value =
                |it: &Value| probed["rows"][row]["values"][it.as_str().unwrap()].as_str().unwrap_or("");
            expressions.as_array().unwrap().iter().map(value).collect()
        })
        .collect();
    let out_of_range = "(IndexError: list index out of range)";
    assert_eq!(
        rows,
        [
            vec!["2", name_error, "True", "['ü\"']", "it\"s"],
            vec!["0", name_error, out_of_range, "[]", "it\"s"]
        ]
    );
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_stop_in_pytest_has_no_notes_of_the_adapter() {
    let sandbox = Sandbox::with(&[("test_a.py", "def test_bad():\n    n = 1\n    assert n == 2\n")]);
    let mut batch = Batch::start(&sandbox);
    let test = json!({"action": "test", "name": "test_bad", "env": pytest()});
    let stopped =
        says(&mut batch, &test, &["AssertionError (thread 1)", "  frame 1: test_bad at test_a.py:3\n"]);
    assert_eq!(stopped["text"], "AssertionError");
    // A raw answer is the adapter's own.
    for command in ["stackTrace", "exceptionInfo"] {
        let request = json!({"action": "request", "command": command, "arguments": "{\"threadId\": 1}"});
        says(&mut batch, &request, &["(Current frame)"]);
    }
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn codelldb_evaluates_c_and_shows_no_errors_of_its_own() {
    let program = "#include <cstdio>\n#include <string>\nstruct S { int a; };\nint main() {\n  S s = {7};\n  \
        S *p = &s;\n  std::string text = \"hello\";\n  printf(\"%d %s\\n\", p->a, text.c_str());\n}\n";
    let sandbox = Sandbox::with(&[("a.cpp", program)]);
    let built = Command::new("g++").current_dir(sandbox.project()).args(["-g", "-o", "a", "a.cpp"]).status();
    assert!(built.expect("g++ starts").success());
    let mut batch = Batch::start(&sandbox);
    let mut launch = at("a.cpp", 8);
    launch["program"] = json!("a");
    launch["adapter"] = json!("codelldb");
    says(&mut batch, &launch, &["stopped: breakpoint", "text = \"hello\""]);
    says(&mut batch, &json!({"action": "evaluate", "expression": "*p"}), &["{a:7}"]);
    says(&mut batch, &json!({"action": "evaluate", "expression": "p->a"}), &["p->a = 7"]);
    let ended = says(&mut batch, &json!({"action": "continue"}), &["ended with exit code 0"]);
    assert_eq!(ended["output"], "  7 hello\n");
    assert!(batch.end().0.success());
}

const DEADLOCK: &str = "\
import threading
a, b = threading.Lock(), threading.Lock()
both = threading.Barrier(2)
def take(one, other):
    with one:
        both.wait()
        with other:
            pass
threads = [threading.Thread(target=take, args=it) for it in ((a, b), (b, a))]
for it in threads: it.start()
for it in threads: it.join()
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_deadlocked_python_program_shows_its_stacks() {
    let sandbox = Sandbox::with(&[("a.py", DEADLOCK)]);
    let mut batch = Batch::start(&sandbox);
    says(&mut batch, &json!({"action": "launch", "program": "a.py", "timeout": 3}), &["running"]);
    // On a slow machine the program may not have reached the deadlock yet.
    let mut answer = batch.call("debug", &json!({"action": "pause"}));
    while answer.ok().contains("stopped: pause") {
        says(&mut batch, &json!({"action": "continue", "timeout": 3}), &["running"]);
        answer = batch.call("debug", &json!({"action": "pause"}));
    }
    for part in ["  <module> at a.py:11\n", "  take at a.py:7\n"] {
        assert!(answer.ok().contains(part), "{part} is missing in:\n{}", answer.ok());
    }
    let details = &answer.value["details"];
    assert_eq!(details["threads"].as_array().map(Vec::len), Some(3));
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn invalid_unicode_keeps_the_rest_of_a_message() {
    let python = "import sys\nsys.stdout.reconfigure(errors='surrogateescape')\n\
        print('one')\nprint('x\\udcffy')\nprint('two')\nn = 1\n";
    let script = "const s = 'a\\ud800b';\nconst n = s.length;\nconsole.log(n);\n";
    let sandbox = Sandbox::with(&[("a.py", python), ("a.js", script)]);
    let mut batch = Batch::start(&sandbox);
    says(&mut batch, &at("a.py", 6), &["one", "x\u{fffd}y", "two"]);
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    says(&mut batch, &at("a.js", 3), &["s = 'a\u{fffd}b'", "n = 3"]);
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn gdb_shows_output_after_invalid_bytes() {
    let program = "#include <stdio.h>\n#include <unistd.h>\nint main(void) {\n  write(1, \"x\\xff\\n\", 3);\n  \
        for (int i = 0; i < 3; i++) {\n    printf(\"%d\\n\", i);\n    fflush(stdout);\n  }\n  return 0;\n}\n";
    let sandbox = Sandbox::with(&[("a.c", program)]);
    let built = Command::new("gcc").current_dir(sandbox.project()).args(["-g", "-o", "a", "a.c"]).status();
    assert!(built.expect("gcc starts").success());
    let mut batch = Batch::start(&sandbox);
    let mut launch = at("a.c", 6);
    launch["program"] = json!("a");
    launch["adapter"] = json!("gdb");
    let begin = Instant::now();
    says(&mut batch, &launch, &["stopped: breakpoint", "output:\n  x\u{fffd}\n"]);
    says(&mut batch, &json!({"action": "continue"}), &["i = 1", "output:\n  0\n"]);
    says(&mut batch, &json!({"action": "continue"}), &["i = 2", "output:\n  1\n"]);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    assert!(batch.end().0.success());
}

const GUARDED: &str = "\
import pytest

def load():
    try:
        import a_module_that_is_missing
    except ImportError:
        return None

def parse(text):
    return int(text)

def test_passes():
    assert load() is None
    with pytest.raises(ValueError):
        parse('x')
    assert sorted(['1'], key=lambda it: parse(it)) == ['1']

def test_fails():
    try:
        sorted(['x'], key=lambda it: parse(it))
    except ValueError:
        pass
    total = parse('2')
    assert total == 3
";

/// The environment with pytest.
fn pytest() -> Value {
    let tools = PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("cargo xtask env"));
    let lib = tools.join("lib/python-tests/lib");
    let version =
        std::fs::read_dir(&lib).expect("pytest is set up").flatten().next().expect("a version").path();
    json!({"PYTHONPATH": version.join("site-packages")})
}

const CHILDREN: &str = "\
import subprocess, sys
from multiprocessing import get_context

def fails(n):
    raise ValueError(n)

def test_passes():
    assert subprocess.run([sys.executable, '-c', 'raise SystemExit(3)']).returncode == 3

def test_fails():
    subprocess.run([sys.executable, '-c', '1 / 0'])
    assert 1 == 2

def test_writes():
    child = subprocess.run([sys.executable, '-c', '0'], capture_output=True)
    assert child.stderr == b''

def test_pool():
    with get_context('fork').Pool(1) as pool:
        pool.map(fails, [1])
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_pytest_test_outlives_its_child_processes() {
    let sandbox = Sandbox::with(&[("test_a.py", CHILDREN)]);
    let mut batch = Batch::start(&sandbox);
    for (name, parts) in [
        ("test_passes", ["test test_passes (pytest) passed", "ended with exit code 0"]),
        ("test_writes", ["test test_writes (pytest) passed", "ended with exit code 0"]),
        ("test_fails", ["test test_fails (pytest) fails here", "in test_fails at test_a.py:12"]),
        ("test_pool", ["test test_pool (pytest)", "in test_pool at test_a.py:20"]),
    ] {
        let test = json!({"action": "test", "name": name, "env": pytest(), "timeout": 120});
        says(&mut batch, &test, &parts);
    }
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_pytest_test_passes_its_handled_exceptions() {
    let sandbox = Sandbox::with(&[("test_a.py", GUARDED)]);
    let mut batch = Batch::start(&sandbox);
    let test = |name: &str| json!({"action": "test", "name": name, "env": pytest()});
    says(&mut batch, &test("test_passes"), &["passed: there was no failure to stop at"]);
    says(&mut batch, &test("test_fails"), &["fails here", "at test_a.py:24"]);
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    let points = json!([{"file": "test_a.py", "line": 10, "expressions": ["text"]}]);
    let probe = json!({"action": "probe", "name": "test_fails", "env": pytest(), "points": points});
    says(&mut batch, &probe, &["test_fails: ended with exit code 1", "test_a.py:10: 2 passes", "text = 2"]);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}

const NODE_GUARDED: &str = "\
const test = require('node:test');
const assert = require('node:assert');
function parse(text) {
  return JSON.parse(text);
}
test('passes', () => {
  try { require('a-module-that-is-missing'); } catch { }
  assert.throws(() => parse('{'));
});
test('fails', () => {
  try { parse('['); } catch { }
  const total = parse('2');
  assert.strictEqual(total, 3);
});
";

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_node_test_passes_its_handled_exceptions() {
    let sandbox = Sandbox::with(&[("a.test.js", NODE_GUARDED)]);
    let mut batch = Batch::start(&sandbox);
    let test = |name: &str| json!({"action": "test", "file": "a.test.js", "name": name});
    says(&mut batch, &test("passes"), &["passed: there was no failure to stop at"]);
    says(&mut batch, &test("fails"), &["fails here", "at a.test.js:13", "total = 2"]);
    says(&mut batch, &json!({"action": "terminate"}), &["ended"]);
    let points = json!([{"file": "a.test.js", "line": 4, "expressions": ["text", "absent"]}]);
    let probe = json!({"action": "probe", "file": "a.test.js", "name": "fails", "points": points});
    says(&mut batch, &probe, &["a.test.js:4: 2 passes", "text = '2'", "absent = (the same error)"]);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(20));
}
