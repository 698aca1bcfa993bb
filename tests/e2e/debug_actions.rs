//! Every action of `debug` with every tested pair of adapter and language.
//!
//! An action either works or is refused as `unsupported`; any other answer fails the test. Both are
//! recorded for the table of actions in `docs/reference/debuggers.md`.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tests::{Batch, Sandbox};

use crate::debug_programs::{BASH, GO, JAVASCRIPT, PYTHON};
use crate::debug_real::{build, leave, native};

/// An adapter with a program that calls a function several times.
struct Pair {
    adapter: &'static str,
    with: Option<&'static str>,
    program: &'static str,
    /// A statement of the function.
    stop: (&'static str, u64),
    /// The name of a number there, and its value at the first stop.
    local: (&'static str, &'static str),
    /// A program that runs until it is ended.
    endless: &'static str,
    /// A file or program with a test that fails, and the test's name.
    test: (&'static str, Option<&'static str>),
    /// Whether the program ends with an exception.
    throws: bool,
}

/// The program in C, without its adapter.
const C: Pair = Pair {
    adapter: "",
    with: Some("C, C++"),
    program: "c",
    stop: ("c.c", 5),
    local: ("sum", "0"),
    endless: "endless",
    test: ("c", None),
    throws: false,
};

/// The program in Rust, without its adapter.
const RUST: Pair =
    Pair { with: Some("Rust"), program: "r", stop: ("r.rs", 2), local: ("a", "0"), test: ("p", None), ..C };

const PAIRS: [Pair; 10] = [
    Pair {
        adapter: "debugpy",
        with: None,
        program: "a.py",
        stop: ("a.py", 4),
        local: ("total", "0"),
        endless: "e.py",
        test: ("test_a.py", Some("test_fails")),
        throws: true,
    },
    Pair {
        adapter: "js-debug",
        with: None,
        program: "a.js",
        stop: ("a.js", 3),
        local: ("sum", "0"),
        endless: "e.js",
        test: ("a.test.js", Some("fails")),
        throws: true,
    },
    Pair {
        adapter: "delve",
        with: None,
        program: "main.go",
        stop: ("main.go", 7),
        local: ("sum", "0"),
        endless: "e/main.go",
        test: ("e/main_test.go", Some("TestFails")),
        throws: true,
    },
    Pair {
        adapter: "bash-dap",
        with: None,
        program: "a.sh",
        stop: ("a.sh", 4),
        local: ("sum", "0"),
        endless: "e.sh",
        test: ("a.sh", None),
        throws: false,
    },
    Pair { adapter: "gdb", ..C },
    Pair { adapter: "gdb", ..RUST },
    Pair { adapter: "lldb-dap", ..C },
    Pair { adapter: "lldb-dap", ..RUST },
    Pair { adapter: "codelldb", ..C },
    Pair { adapter: "codelldb", ..RUST },
];

/// The calls of one pair, with the actions that worked or were refused.
struct Calls<'a> {
    pair: &'a Pair,
    batch: Batch,
    found: BTreeMap<String, bool>,
}

impl Calls<'_> {
    /// Calls an action, which must work with these texts or be refused.
    #[track_caller]
    fn call(&mut self, action: &str, more: Value, parts: &[&str]) -> Value {
        let mut arguments = json!({"action": action, "timeout": 120});
        more.as_object().expect("arguments").iter().for_each(|(name, it)| arguments[name] = it.clone());
        let answer = self.batch.call("debug", &arguments);
        let name = format!("{} ({:?})", self.pair.adapter, self.pair.with);
        let works = answer.error() != Some("unsupported");
        if works {
            let said = answer.ok();
            for part in parts {
                assert!(
                    said.contains(part),
                    "{name}: {part} is missing in the answer to {arguments}:\n{said}"
                );
            }
        } else {
            let refused = answer.fails("unsupported");
            assert!(refused.contains("; "), "{name}: {arguments} names no alternative: {refused}");
        }
        let before = self.found.insert(action.to_owned(), works);
        assert!(before.is_none_or(|it| it == works), "{name}: {action} works only sometimes");
        answer.value["details"].clone()
    }

    /// The arguments of a start of `program`.
    fn start(&self, program: &str, more: Value) -> Value {
        let mut start = json!({"program": program, "adapter": self.pair.adapter});
        more.as_object().expect("arguments").iter().for_each(|(name, it)| start[name] = it.clone());
        start
    }

    fn all(&mut self, sandbox: &Sandbox) {
        let pair = self.pair;
        let ((file, line), (local, value)) = (pair.stop, pair.local);
        let at = format!("{file}:{line}");
        let expression = if pair.adapter == "bash-dap" { format!("${local}") } else { local.to_owned() };
        let points = json!([{"file": file, "line": line}]);
        let first = self.call(
            "launch",
            self.start(pair.program, json!({"breakpoints": points})),
            &["stopped: breakpoint", &at],
        );
        self.call("snapshot", json!({}), &["stopped: breakpoint", &at]);
        self.call("threads", json!({}), &["thread "]);
        let stack = self.call("stack", json!({}), &[&at]);
        let scopes =
            self.call("scopes", json!({"frame": first["frames"][0]["frame"]}), &["variables_reference"]);
        let reference = &scopes["scopes"][0]["variables_reference"];
        self.call("variables", json!({"variables_reference": reference}), &[" = "]);
        self.call("evaluate", json!({"expression": expression}), &[&format!("= {value}")]);
        self.call("completions", json!({"expression": &local[..local.len().min(2)]}), &[local]);
        self.call("modules", json!({}), &[pair.program]);
        self.call("loaded_sources", json!({}), &[file]);
        self.call("disassemble", json!({"count": 3}), &["0x"]);
        // js-debug supports memory, but no expression that is an address there.
        if pair.adapter != "js-debug" {
            let memory = json!({"memory_reference": format!("&{local}"), "value": "2a000000", "count": 4});
            self.call("write_memory", memory.clone(), &["wrote 4 bytes"]);
            self.call("read_memory", memory, &["2a 00 00 00"]);
        }
        self.call("set_expression", json!({"expression": local, "value": "7"}), &["= 7"]);
        self.call("set_variable", json!({"name": local, "value": "8"}), &["= 8"]);
        self.call("breakpoints", json!({}), &[&at]);
        self.call("output", json!({}), &[]);
        self.call("request", json!({"command": "threads"}), &["\"threads\""]);
        self.call("sessions", json!({}), &[pair.program, "stopped"]);
        self.call("configs", json!({}), &["only"]);
        // Other frames have a file: `read` shows it.
        let internal = stack["frames"].as_array().into_iter().flatten().find(|it| it["file"].is_null());
        if let Some(frame) = internal.filter(|_| pair.adapter == "js-debug") {
            self.call("source", json!({"frame": frame["frame"]}), &["function"]);
        }
        self.call("step_back", json!({}), &["stopped: "]);
        self.call("reverse_continue", json!({}), &["stopped: "]);
        self.call("trace", json!({"expression": expression, "count": 1}), &[]);
        self.call("restart", json!({}), &[&at]);
        self.call("goto", json!({"file": file, "line": line}), &[&at]);
        self.call("continue", json!({}), &["stopped: ", &at]);
        self.call("run_to", json!({"file": file, "line": line}), &["stopped: ", &at]);
        for step in ["step_out", "step_over", "step_in"] {
            self.call(step, json!({}), &["stopped: ", file]);
        }
        if pair.throws {
            self.batch.call("debug", &json!({"action": "breakpoints", "remove": true})).ok();
            self.call("continue", json!({}), &["stopped: exception"]);
            self.call("exception_info", json!({}), &["no more"]);
        }
        self.call("terminate", json!({}), &["ended"]);

        let endless = json!({"timeout": 2});
        let launched = self.call("launch", self.start(pair.endless, endless), &[]);
        assert_eq!(launched["state"], "running", "{}: {launched}", pair.adapter);
        self.call("pause", json!({}), &["stopped: "]);
        if !pair.throws {
            self.call("exception_info", json!({}), &[]);
        }
        self.call("disconnect", json!({}), &["ended"]);

        let points = json!([{"file": file, "line": line, "expressions": [expression]}]);
        self.call("probe", self.start(pair.program, json!({"points": points})), &[&at]);
        let (program, name) = pair.test;
        let test = match name {
            Some(name) => json!({"file": program, "name": name}),
            None => self.start(program, json!({"env": {"FAIL": "1"}})),
        };
        self.call("test", test, &["fail"]);
        let mut program = self.running(sandbox);
        let mut attach = json!({"adapter": pair.adapter});
        match pair.adapter {
            "js-debug" => attach["port"] = json!(port(&mut program)),
            _ => attach["pid"] = json!(program.id()),
        }
        let attached = self.call("attach", attach, &[]);
        if self.found["attach"] {
            assert_ne!(attached["state"], "terminated", "{}", pair.adapter);
            self.call("disconnect", json!({}), &["ended"]);
        }
        drop(program.kill());
        drop(program.wait());
    }

    /// The endless program, started without a debugger.
    fn running(&self, sandbox: &Sandbox) -> Child {
        let words: &[&str] = match self.pair.adapter {
            "debugpy" => &["python3", "e.py"],
            "js-debug" => &["node", "--inspect=127.0.0.1:0", "e.js"],
            "delve" => &["./endless-go"],
            "bash-dap" => &["bash", "e.sh"],
            _ => &["./endless"],
        };
        let mut command = Command::new(words[0]);
        sandbox.prepare(&mut command);
        command.args(&words[1..]).current_dir(sandbox.project()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    }
}

/// The port that Node prints.
fn port(program: &mut Child) -> u16 {
    use std::io::BufRead;
    let mut stderr = std::io::BufReader::new(program.stderr.as_mut().expect("piped"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    let port = line.split("127.0.0.1:").nth(1).and_then(|it| it.split('/').next());
    port.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("no port in {line}"))
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn every_action_works_or_names_an_alternative() {
    let sandbox = native();
    let endless_go = "package main\n\nimport \"time\"\n\nfunc main() {\n\tfor {\n\t\ttime.Sleep(time.Millisecond)\n\t}\n}\n";
    let configuration = "{\"configurations\": [{\"name\": \"only\", \"type\": \"lldb\", \"request\": \"launch\", \"program\": \"c\"}]}";
    for (file, text) in [
        ("a.py", PYTHON),
        ("e.py", "import time\nwhile True:\n    time.sleep(0.01)\n"),
        (
            "test_a.py",
            "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_fails(self):\n        self.assertEqual(1, 2)\n",
        ),
        ("a.js", JAVASCRIPT),
        ("e.js", "let n = 0;\nwhile (true) {\n  n += 1;\n}\n"),
        (
            "a.test.js",
            "const test = require('node:test');\ntest('fails', () => {\n  throw new Error('no more');\n});\n",
        ),
        ("go.mod", "module example.org/tested\n\ngo 1.19\n"),
        ("main.go", GO),
        ("e/main.go", endless_go),
        (
            "e/main_test.go",
            "package main\n\nimport \"testing\"\n\nfunc TestFails(t *testing.T) {\n\tt.Error(\"no more\")\n}\n",
        ),
        ("a.sh", BASH),
        ("e.sh", "while true; do\n  sleep 0.01\ndone\n"),
        ("e.c", "#include <unistd.h>\nint main(void) {\n  for (;;) usleep(1000);\n}\n"),
        (".vscode/launch.json", configuration),
    ] {
        sandbox.write(file, text);
    }
    build(&sandbox, "gcc", &["-g", "-o", "endless", "e.c"]);
    build(&sandbox, "go", &["build", "-gcflags=all=-N -l", "-o", "endless-go", "./e"]);
    for pair in &PAIRS {
        let mut calls = Calls { pair, batch: Batch::start(&sandbox), found: BTreeMap::new() };
        calls.all(&sandbox);
        assert!(calls.batch.end().0.success());
        leave(pair.adapter, pair.with, "actions", &json!(calls.found));
    }
}
