//! A debug session with two clients: a user's debugger joins while the agent works.
//!
//! It joins by `pilcrow dap` or over the language server. Slow with real adapters and the real
//! `DebugClient`.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use expect_test::expect;
use serde_json::{Value, json};
use tests::{Batch, Editor, Sandbox, check_output};

use crate::debug::{follows, launch, stopped, stopping, stops};

const PYTHON: &str = "\
def compute(items):
    total = 0
    for item in items:
        total += item
    return total


result = compute([1, 2, 3])
print('result', result)
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

fn tools() -> PathBuf {
    PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("`eval \"$(cargo xtask env)\"` first"))
}

/// `DebugClient` in Node, connected to `pilcrow dap`.
struct JoinedClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    record: PathBuf,
}

impl JoinedClient {
    fn start(sandbox: &Sandbox, session: &str) -> Self {
        let record = sandbox.beside(&format!("messages-{session}.jsonl"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("debuggers/joined.cjs");
        let mut command = Command::new("node");
        sandbox.prepare(&mut command);
        command.arg(script).arg(tools().join("lib/debugadapter-testsupport")).arg(&record);
        command.arg(tests::built::pilcrow()).args(["dap", "--session", session, "-C"]).arg(sandbox.project());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node starts");
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, stdin, lines, record }
    }

    fn act(&mut self, what: &Value) -> Value {
        let stdin = self.stdin.as_mut().expect("it was not ended");
        writeln!(stdin, "{what}").expect("node reads");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("node answers");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{what} is answered by {line:?}"))
    }

    #[track_caller]
    fn ok(&mut self, what: &Value) -> Value {
        let answer = self.act(what);
        assert!(answer["error"].is_null(), "{what}: {answer}");
        answer["ok"].clone()
    }

    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        self.ok(&json!({ "ask": command, "arguments": arguments }))
    }

    fn join(&mut self) {
        self.ok(&json!({"join": {"adapterID": "pilcrow", "linesStartAt1": true, "columnsStartAt1": true,
            "pathFormat": "path", "supportsRunInTerminalRequest": true, "supportsStartDebuggingRequest": true}}));
    }

    fn event(&mut self, name: &str) -> Value {
        self.ok(&json!({ "event": name }))
    }

    fn end(mut self) -> Vec<Value> {
        drop(self.stdin.take());
        self.child.wait().expect("node ends");
        let text = std::fs::read_to_string(&self.record).expect("its record");
        text.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
    }
}

impl Drop for JoinedClient {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Asserts that every message conforms to the published schema.
fn conforms(messages: &[Value]) {
    valid(messages);
    assert!(messages.len() > 10, "{} messages", messages.len());
}

/// Asserts the same for a short conversation.
fn valid(messages: &[Value]) {
    let schema = testing::dap_schema::Schema::of(&tools()).expect("debugpy, which has the schema");
    messages.iter().for_each(|message| schema.check(message).expect("the violations of the schema"));
    // The messages are the answers to `initialize`, `attach` and `configurationDone`, `initialized`
    // and a stop.
    assert!(messages.len() > 5, "{messages:?}");
}

fn says(batch: &mut Batch, arguments: &Value, part: &str) -> Value {
    let mut arguments = arguments.clone();
    arguments["timeout"] = json!(120);
    let answer = batch.call("debug", &arguments);
    let said = answer.ok();
    assert!(said.contains(part), "{part} is missing in the answer to {arguments}:\n{said}");
    answer.value["details"].clone()
}

/// Behaviour common to every adapter: the agent stops at `line`.
///
/// `free` is a line reached later.
fn shared(sandbox: &Sandbox, file: &str, launch: &Value, line: u64, free: u64) {
    let mut batch = Batch::start(sandbox);
    says(&mut batch, launch, "stopped: breakpoint");
    let mut client = JoinedClient::start(sandbox, "debug-1");
    let capabilities = client.ok(&json!({"join": {"adapterID": "pilcrow", "linesStartAt1": false,
        "columnsStartAt1": true, "pathFormat": "path", "supportsInvalidatedEvent": true}}));
    assert_eq!(capabilities["supportsConfigurationDoneRequest"], true);
    let stopped = client.event("stopped");
    let thread = stopped["threadId"].clone();
    let top = |client: &mut JoinedClient| {
        let stack = client.ask("stackTrace", json!({"threadId": thread, "startFrame": 0, "levels": 1}));
        stack["stackFrames"][0].clone()
    };
    let frame = top(&mut client);
    assert_eq!(frame["line"], line - 1, "D4, counted from 0: {frame}");
    let scopes = client.ask("scopes", json!({"frameId": frame["id"]}));
    assert!(!scopes["scopes"].as_array().expect("scopes").is_empty());

    // A step of the agent moves both clients.
    let step = says(&mut batch, &json!({"action": "step_over"}), "stopped: step");
    client.event("continued");
    client.event("stopped");
    assert_eq!(top(&mut client)["line"], step["place"]["line"].as_u64().expect("a line") - 1);

    // The breakpoints of both clients stay.
    let path = sandbox.project().join(file).canonicalize().expect("the file");
    let set =
        client.ask("setBreakpoints", json!({"source": {"path": path}, "breakpoints": [{"line": free - 1}]}));
    assert_eq!(set["breakpoints"].as_array().map(Vec::len), Some(1), "{set}");
    assert_eq!(set["breakpoints"][0]["line"], free - 1, "{set}");
    says(&mut batch, &json!({"action": "breakpoints", "remove": true}), "removed 1");

    // The user continues; the agent may inspect, not run.
    client.ask("continue", json!({"threadId": thread}));
    client.event("stopped");
    let looked = says(&mut batch, &json!({"action": "snapshot"}), "control_taken_by_user");
    assert_eq!(looked["controller"], "person");
    assert_eq!(looked["place"]["line"], free, "the user's breakpoint: {looked}");
    let refused = batch.call("debug", &json!({"action": "step_over"})).fails("wrong_state");
    assert!(refused.contains("control_taken_by_user"), "{refused}");

    // The user hands control back and leaves; the session lives.
    client.ask("pilcrow/handBack", json!({}));
    let listed = says(&mut batch, &json!({"action": "sessions"}), "the user is watching");
    assert_eq!(listed["sessions"][0]["persons"], 1);
    let ended = client.ok(&json!({"end": true}));
    assert_eq!(ended["code"], 0);
    let mut messages = client.end();
    // gdb 18.1 sends `"startMethod": "process"`, which the schema does not know; it is forwarded unchanged.
    messages.retain(|it| it["event"] != "process" || it["body"]["startMethod"] != "process");
    conforms(&messages);
    says(&mut batch, &json!({"action": "terminate"}), "ended");
    assert!(batch.end().0.success());
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_debugpy_session_is_shared_with_a_client() {
    let sandbox = Sandbox::with(&[("a.py", PYTHON)]);
    let launch = json!({"action": "launch", "program": "a.py", "breakpoints": [{"file": "a.py", "line": 4}]});
    shared(&sandbox, "a.py", &launch, 4, 5);
}

#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_gdb_session_is_shared_with_a_client() {
    let sandbox = Sandbox::with(&[("c.c", C)]);
    let built =
        Command::new("gcc").current_dir(sandbox.project()).args(["-g", "-O0", "-o", "c", "c.c"]).status();
    assert!(built.expect("gcc starts").success());
    let launch = json!({"action": "launch", "program": "c", "breakpoints": [{"file": "c.c", "line": 3}]});
    shared(&sandbox, "c.c", &launch, 3, 10);
}

/// A scripted adapter that stops and follows these steps at `command`.
///
/// A user's `DebugClient` has joined.
fn client_at(command: &str, steps: Value) -> (Sandbox, Batch, JoinedClient) {
    client_in(stopping(), command, steps)
}

fn client_in(sandbox: Sandbox, command: &str, steps: Value) -> (Sandbox, Batch, JoinedClient) {
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    script["commands"][command] = json!([steps]);
    script["commands"]["x/slow"] = json!([[]]);
    script["commands"]["threads"] = json!([[{"body": {"threads": [{"id": 1, "name": "main"}]}}]]);
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let mut client = JoinedClient::start(&sandbox, "debug-1");
    client.join();
    client.event("stopped");
    (sandbox, batch, client)
}

/// Crashes the adapter: both clients are notified, and no request waits.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_client_learns_of_a_crash_at_once() {
    let dies = json!([{"body": {}}, {"stderr": "oh no\n"}, {"crash": 3}]);
    let (_sandbox, mut batch, mut client) = client_at("next", dies);
    client.ok(&json!({"begin": "x/slow"}));
    let begun = std::time::Instant::now();
    let said = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(said.contains("ended") && said.contains("oh no"), "{said}");
    client.event("terminated");
    let settled = client.ok(&json!({"settle": true}));
    assert!(settled.as_str().is_some_and(|it| it.starts_with("failed: ")), "{settled}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    valid(&client.end());
    assert!(batch.end().0.success());
}

/// Sends malformed messages on either side, which harm no client.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_client_survives_malformed_messages() {
    let odd = json!([{"answer_to": {"request_seq": 9999, "body": {}}}, {"raw": "Content-Length: many\r\n\r\n{}"},
        {"event": {"event": "x/unknown", "body": {"big": 12_345_678}}}, {"body": {}}, {"body": {}}, stopped()]);
    let (_sandbox, mut batch, mut client) = client_at("next", odd);
    let said = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(said.contains("stopped: "), "{said}");
    assert_eq!(client.event("x/unknown"), json!({"big": 12_345_678}));
    client.event("stopped");
    client.ok(&json!({"raw": "Content-Length: nonsense\r\n\r\n"}));
    let refused =
        client.act(&json!({"ask": "setBreakpoints", "arguments": {"source": {}, "breakpoints": []}}));
    assert!(refused["error"].as_str().is_some_and(|it| it.contains("invalidArguments")), "{refused}");
    assert_eq!(client.ask("threads", json!({}))["threads"][0]["id"], 1);
    assert!(batch.call("debug", &json!({"action": "threads"})).ok().contains("main"));
    batch.call("debug", &json!({"action": "terminate"})).ok();
    assert!(batch.end().0.success());
}

/// Asks an editor with a terminal to run a program in it, but none of a sandbox.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_client_is_asked_for_its_terminal() {
    let asks = json!([{"request": {"seq": 70, "command": "runInTerminal",
        "arguments": {"args": ["true"], "cwd": "/"}}},
        {"wait_for": {"command": "response", "count": 1}}, {"body": {}}]);
    let (sandbox, mut batch, mut client) = client_at("x/ask", asks);
    client.ask("x/ask", json!({}));
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    let answer = record.lines().map(|line| serde_json::from_str::<Value>(line).expect("a message"));
    let answer = answer.into_iter().find(|it| it["type"] == "response").expect("an answer");
    assert!(answer["success"] == true && answer["body"]["processId"] != 42, "{answer}");
    client.end();
    batch.call("debug", &json!({"action": "terminate"})).ok();
    assert!(batch.end().0.success());

    let asks = json!([{"request": {"seq": 70, "command": "runInTerminal",
        "arguments": {"args": ["x"], "cwd": "/"}}}, {"wait_for": {"command": "response", "count": 1}}, {"body": {}}]);
    let mut sandbox = stopping();
    sandbox.variables.insert("PILCROW_EXEC_SANDBOX".to_owned(), "off".to_owned());
    let (sandbox, mut batch, mut client) = client_in(sandbox, "x/ask", asks);
    client.ask("x/ask", json!({}));
    assert_eq!(client.event("request runInTerminal"), json!({"args": ["x"], "cwd": "/"}));
    let record = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    let answer = record.lines().map(|line| serde_json::from_str::<Value>(line).expect("a message"));
    let answer = answer.into_iter().find(|it| it["type"] == "response").expect("an answer");
    assert_eq!((&answer["request_seq"], &answer["body"]["processId"]), (&json!(70), &json!(42)), "{answer}");
    valid(&client.end());
    batch.call("debug", &json!({"action": "terminate"})).ok();
    assert!(batch.end().0.success());
}

/// Sends 100,000 lines of output before the client's stop.
///
/// The output is bounded for the agent and in memory.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_client_gets_its_stop_after_much_output() {
    let line =
        json!({"event": {"event": "output", "body": {"category": "stdout", "output": "a line of output\n"}}});
    let much = json!([{"body": {}}, {"repeat": {"count": 100_000, "steps": [line]}}, stopped()]);
    let (_sandbox, mut batch, mut client) = client_at("next", much);
    let memory = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let before = memory(batch.pid());
    let answer = batch.call("debug", &json!({"action": "step_over", "timeout": 300}));
    let said = answer.ok();
    assert!(said.contains("stopped: ") && said.len() < 10_000, "{} bytes", said.len());
    assert!(
        answer.value["details"]["output_left_out"].as_u64() > Some(1_000_000),
        "{}",
        answer.value["details"]
    );
    client.event("stopped");
    let after = memory(batch.pid());
    assert!(after < before + 64 * 1024, "{before} kB, then {after} kB");
    batch.call("debug", &json!({"action": "terminate"})).ok();
    assert!(batch.end().0.success());
}

/// Asks a joined client to start a session for a child of the program.
///
/// The client joins it too.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn a_client_joins_a_child_session() {
    let parent = "import subprocess, sys\n\
        code = subprocess.run([sys.executable, 'child.py']).returncode\n\
        print('the child ended with', code)\n";
    let python = [("a.py", parent), ("child.py", "n = 41\nn += 1\nprint('n', n)\n")];
    for (files, program, first, child) in [
        (&python[..], "a.py", Some(("a.py", 2)), ("child.py", 3)),
        // js-debug runs the program itself in a child session.
        (&[("a.js", NODE)][..], "a.js", None, ("a.js", 5)),
    ] {
        let sandbox = Sandbox::with(files);
        let mut batch = Batch::start(&sandbox);
        let point = |(file, line): (&str, u64)| json!({"file": file, "line": line});
        let points: Vec<Value> = first.into_iter().chain([child]).map(point).collect();
        let launch = json!({"action": "launch", "program": program, "breakpoints": points});
        says(&mut batch, &launch, "stopped: breakpoint");
        let mut client = JoinedClient::start(&sandbox, "debug-1");
        client.join();
        let stopped = match first {
            Some(_) => says(&mut batch, &json!({"action": "continue"}), "stopped: breakpoint"),
            None => says(&mut batch, &json!({"action": "snapshot"}), "stopped: breakpoint"),
        };
        let session = stopped["session"].as_str().expect("its session");
        assert_ne!(session, "debug-1");
        let asked = client.event("request startDebugging");
        let named = asked["configuration"]["session"].as_str().expect("a session").to_owned();
        assert!(named.starts_with(session), "{asked}");
        let mut second = JoinedClient::start(&sandbox, session);
        second.join();
        let thread = second.event("stopped")["threadId"].clone();
        let stack = second.ask("stackTrace", json!({"threadId": thread}));
        assert_eq!(stack["stackFrames"][0]["line"], child.1, "{stack}");
        let mut messages = second.end();
        // js-debug 1.105 sends `deemphasize` in frames, which the schema does not know. The hub
        // forwards it unchanged.
        messages.retain(|it| it["command"] != "stackTrace" || !it.to_string().contains("\"deemphasize\""));
        valid(&messages);
        says(&mut batch, &json!({"action": "terminate", "session": "debug-1"}), "ended");
        assert!(batch.end().0.success());
    }
}

/// A client over `pilcrow dap` that sends what nvim-dap sends, in its order.
struct Scripted {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    seq: i64,
    got: Vec<Value>,
    read: usize,
}

impl Scripted {
    fn start(sandbox: &Sandbox, session: &str) -> Self {
        let mut command = sandbox.command_anywhere(&["dap", "--session", session, "-C"]);
        command.arg(sandbox.project());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("pilcrow starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, stdin, stdout, seq: 0, got: Vec::new(), read: 0 }
    }

    fn send(&mut self, command: &str, arguments: Value) -> i64 {
        self.seq += 1;
        let message = json!({"seq": self.seq, "type": "request", "command": command, "arguments": arguments});
        let text = message.to_string();
        let stdin = self.stdin.as_mut().expect("it was not ended");
        write!(stdin, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("pilcrow reads");
        stdin.flush().expect("pilcrow reads");
        self.seq
    }

    /// The next message of this kind and name.
    fn wait(&mut self, kind: &str, name: &str) -> Value {
        loop {
            while self.read < self.got.len() {
                let it = self.got[self.read].clone();
                self.read += 1;
                if it["type"] == kind && (it["event"] == name || it["command"] == name) {
                    return it;
                }
            }
            let mut length = 0;
            loop {
                let mut line = String::new();
                assert!(self.stdout.read_line(&mut line).expect("a line") > 0, "no {name}: {:?}", self.got);
                match line.trim().strip_prefix("Content-Length: ") {
                    Some(number) => length = number.parse().expect("a number"),
                    None if line.trim().is_empty() => break,
                    None => panic!("{line:?}"),
                }
            }
            let mut body = vec![0; length];
            self.stdout.read_exact(&mut body).expect("the body");
            self.got.push(serde_json::from_slice(&body).expect("JSON"));
        }
    }

    fn ask(&mut self, command: &str, arguments: Value) -> Value {
        let seq = self.send(command, arguments);
        let answer = self.wait("response", command);
        assert_eq!(answer["request_seq"], seq, "{answer}");
        answer
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
#[ignore = "slow: needs debugpy's schema; cargo xtask test runs it"]
fn a_client_that_sends_nvim_dap_messages_is_served() {
    let sandbox = stopping();
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let listed = sandbox.run(&["dap"]).expect(0).all();
    let (_, described) = listed.split_once(' ').expect("the session's id");
    check_output(described.trim(), &expect!["a.txt (scripted), stopped"]);
    let unknown = sandbox.run(&["dap", "--session", "debug-9"]).expect(2).all();
    assert!(unknown.contains("debug-9") && unknown.contains("debug-1@"), "{unknown}");

    let mut neovim = Scripted::start(&sandbox, "debug-1");
    let about = json!({"clientID": "neovim", "clientName": "neovim", "adapterID": "nvim-dap", "pathFormat": "path",
        "linesStartAt1": true, "columnsStartAt1": true, "supportsRunInTerminalRequest": true, "locale": "C",
        "supportsVariableType": true, "supportsProgressReporting": true, "supportsStartDebuggingRequest": true});
    assert_eq!(neovim.ask("initialize", about)["success"], true);
    // The client does not wait for this answer, as nvim-dap does not.
    neovim.send("attach", json!({"type": "pilcrow", "request": "attach", "name": "the agent's session"}));
    neovim.wait("event", "initialized");
    let path = sandbox.project().join("a.txt").canonicalize().expect("the file");
    let source = json!({"path": path, "name": "a.txt"});
    let set = json!({"source": source, "breakpoints": [{"line": 3}], "lines": [3], "sourceModified": false});
    let placed = neovim.ask("setBreakpoints", set);
    assert_eq!(placed["body"]["breakpoints"].as_array().map(Vec::len), Some(1), "{placed}");
    assert_eq!(neovim.ask("setExceptionBreakpoints", json!({"filters": []}))["success"], true);
    assert_eq!(neovim.ask("configurationDone", json!({}))["success"], true);
    assert_eq!(neovim.wait("event", "stopped")["body"]["reason"], "breakpoint");
    assert_eq!(neovim.ask("threads", Value::Null)["body"]["threads"][0]["id"], 1);
    let stack = neovim.ask("stackTrace", json!({"threadId": 1, "startFrame": 0, "levels": 20}));
    assert_eq!(stack["body"]["stackFrames"][0]["line"], 2);
    assert_eq!(neovim.ask("scopes", json!({"frameId": 1}))["success"], true);
    assert_eq!(neovim.ask("next", json!({"threadId": 1, "granularity": "statement"}))["success"], true);
    neovim.wait("event", "stopped");
    let refused = batch.call("debug", &json!({"action": "step_over"})).fails("wrong_state");
    assert!(refused.contains("control_taken_by_user"), "{refused}");
    assert_eq!(
        neovim.ask("disconnect", json!({"restart": false, "terminateDebuggee": false}))["success"],
        true
    );
    drop(neovim.stdin.take());
    assert!(neovim.child.wait().expect("it ends").success());
    let stepped = batch.call("debug", &json!({"action": "step_over"})).ok();
    assert!(stepped.contains("stopped: step"), "{stepped}");
    assert!(batch.end().0.success());
    conforms(&neovim.got);
    // The adapter received these messages.
    let sent = std::fs::read_to_string(sandbox.beside("record.jsonl")).expect("the record");
    let sent: Vec<Value> = sent.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    conforms(&sent);
}

/// Takes control as the user while the agent waits, which ends the wait.
#[test]
fn the_agents_wait_ends_when_the_user_takes_control() {
    let sandbox = stopping();
    let path = sandbox.project().canonicalize().expect("the project").join("a.txt");
    let mut script = stops(&path.to_string_lossy());
    // The program continues and stops at no breakpoint.
    script["commands"]["continue"] = json!([[{"body": {}}]]);
    script["commands"]["pause"] = json!([[{"body": {}}]]);
    follows(&sandbox, &json!({"supportsConfigurationDoneRequest": true}), &script);
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let mut client = Scripted::start(&sandbox, "debug-1");
    assert_eq!(client.ask("initialize", json!({"adapterID": "x"}))["success"], true);
    client.ask("attach", json!({}));
    client.ask("configurationDone", json!({}));
    client.wait("event", "stopped");
    let begun = std::time::Instant::now();
    let waits = json!({"name": "debug", "arguments": {"action": "continue", "timeout": 120}});
    assert!(batch.send(&waits.to_string()));
    client.wait("event", "continued");
    assert_eq!(client.ask("pause", json!({"threadId": 1}))["success"], true);
    let answer = batch.answer(std::time::Duration::from_secs(100)).expect("an answer");
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
        debug-1: a.txt is running; wait longer with `snapshot`
        control_taken_by_user: the user controls this program; only inspect it until control is returned
    "#]],
    );
    assert_eq!(answer.value["details"]["controller"], "person");
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    // While the user debugs, the program is not ended.
    let leave = json!({"restart": false, "terminateDebuggee": false});
    assert_eq!(client.ask("disconnect", leave)["success"], true);
    drop(client.stdin.take());
    assert!(client.child.wait().expect("it ends").success());
    assert!(batch.end().0.success());
}

#[test]
fn the_agent_learns_that_the_user_ended_the_program() {
    let sandbox = stopping();
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let mut client = Scripted::start(&sandbox, "debug-1");
    assert_eq!(client.ask("initialize", json!({"adapterID": "x"}))["success"], true);
    client.ask("attach", json!({}));
    client.ask("configurationDone", json!({}));
    client.wait("event", "stopped");
    assert_eq!(client.ask("terminate", json!({}))["success"], true);
    client.wait("event", "terminated");
    let answer = batch.call("debug", &json!({"action": "snapshot"}));
    let said = answer.ok();
    check_output(
        &said,
        &expect![[r#"
        debug-1: a.txt ended: it was terminated
        terminated_by_user: the user ended it
    "#]],
    );
    assert_eq!(answer.value["details"]["ended_by"], "terminated_by_user");
    assert!(batch.end().0.success());
}

#[test]
fn ctrl_c_leaves_a_joined_session_to_the_user() {
    let sandbox = stopping();
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let mut client = Scripted::start(&sandbox, "debug-1");
    assert_eq!(client.ask("initialize", json!({"adapterID": "x"}))["success"], true);
    client.ask("attach", json!({}));
    client.ask("configurationDone", json!({}));
    client.wait("event", "stopped");
    let sent = Command::new("kill").args(["-INT", &batch.pid().to_string()]).status();
    assert!(sent.expect("kill starts").success());
    let given = tests::wait_for(std::time::Duration::from_secs(30), || {
        let listed = sandbox.run(&["dap", "--json"]).stdout;
        serde_json::from_str(&listed)
            .is_ok_and(|it: Value| it["state"] == "stopped" && it["controller"] == "person")
    });
    assert!(given, "{}", sandbox.run(&["dap"]).all());
    assert_eq!(client.ask("next", json!({"threadId": 1}))["success"], true);
    client.wait("event", "stopped");
    assert_eq!(client.ask("disconnect", json!({}))["success"], true);
    let said = batch.end().1;
    check_output(
        &said,
        &expect![[r#"
            pilcrow: debug-1 continues until you leave it; Ctrl-C again ends it
        "#]],
    );
}

#[test]
fn the_agent_inspects_a_session_of_the_user() {
    let sandbox = stopping();
    let mut editor = Editor::start(&sandbox);
    let path = sandbox.project().join("a.txt").canonicalize().expect("the file");
    let frame = json!({"id": 1000, "name": "inner", "line": 2, "column": 1, "source": {"path": path}});
    let scope = json!({"name": "Locals", "variablesReference": 5, "expensive": false});
    editor.debugged = [
        ("stackTrace", json!({"stackFrames": [frame], "totalFrames": 1})),
        ("scopes", json!({"scopes": [scope]})),
        ("variables", json!({"variables": [{"name": "n", "value": "3", "variablesReference": 0}]})),
        ("threads", json!({"threads": [{"id": 1, "name": "main"}]})),
        ("evaluate", json!({"result": "30", "variablesReference": 0})),
    ]
    .into_iter()
    .map(|(command, body)| (command.to_owned(), body))
    .collect();
    let send = |editor: &mut Editor, message: Value| {
        editor.notify("pilcrow/debug/event", json!({"session": "abc", "message": message}));
    };
    let started = json!({"name": "this file", "type": "scripted"});
    editor.notify("pilcrow/debug/event", json!({"session": "abc", "started": started}));
    let about = json!({"linesStartAt1": true, "columnsStartAt1": true, "pathFormat": "path"});
    for message in [
        json!({"seq": 1, "type": "request", "command": "initialize", "arguments": about}),
        json!({"seq": 1, "type": "response", "request_seq": 1, "success": true, "command": "initialize",
            "body": {"supportsSetVariable": true}}),
        json!({"seq": 2, "type": "event", "event": "initialized"}),
        json!({"seq": 3, "type": "event", "event": "stopped",
            "body": {"reason": "breakpoint", "threadId": 1, "allThreadsStopped": true}}),
    ] {
        send(&mut editor, message);
    }
    let mut batch = Batch::start(&sandbox);
    let mut call = |editor: &mut Editor, arguments: Value| {
        std::thread::scope(|scope| {
            let (done, wait) = std::sync::mpsc::channel();
            let batch = &mut batch;
            let call = scope.spawn(move || {
                let answer = batch.call("debug", &arguments);
                done.send(()).expect("the process can be awaited");
                answer
            });
            // The editor answers meanwhile.
            while wait.try_recv().is_err() {
                editor.pump(std::time::Duration::from_millis(20));
            }
            call.join().expect("an answer")
        })
    };
    let listed = call(&mut editor, json!({"action": "sessions"})).ok();
    check_output(
        &listed,
        &expect![[r#"
        debug-1: this file (scripted), stopped, started by the user, who has control
    "#]],
    );
    let shown = call(&mut editor, json!({"action": "snapshot"})).ok();
    check_output(
        &shown,
        &expect![[r#"
        debug-1: this file stopped: breakpoint (thread 1)
        in inner at a.txt:2
        [a.txt#2FA7]
        1cc	one
        2uc	two
        3pw	three
        4hn	four
        next: line 2
        frames:
          frame 1: inner at a.txt:2
        locals:
          n = 3
    "#]],
    );
    let value = call(&mut editor, json!({"action": "evaluate", "expression": "n"})).ok();
    check_output(
        &value,
        &expect![[r#"
        n = 30
    "#]],
    );
    let actions = [
        json!({"action": "step_over"}),
        json!({"action": "set_variable", "name": "n", "value": "4"}),
        json!({"action": "evaluate", "expression": "n = 4"}),
        json!({"action": "terminate"}),
    ];
    for action in actions {
        let refused = call(&mut editor, action.clone()).fails("wrong_state");
        assert!(refused.contains("control_taken_by_user"), "{action}: {refused}");
    }
    // After the hand-over the agent steps through the user's own editor.
    let id = format!("debug-1@{}", editor.id());
    let handed = editor.command("pilcrow.debug.handBack", json!({}));
    assert_eq!(handed["handedBack"], json!([id]));
    let stepped = call(&mut editor, json!({"action": "step_over", "timeout": 1})).ok();
    assert!(stepped.contains("running"), "{stepped}");
    let asked = editor.all("pilcrow/debug/request");
    let commands: Vec<&str> = asked.iter().filter_map(|it| it["command"].as_str()).collect();
    assert!(commands.contains(&"next") && !commands.contains(&"setVariable"), "{commands:?}");
    assert!(asked.iter().all(|it| it["session"] == "abc"), "{asked:?}");
    // The editor reports the end; it gets no further request.
    editor.notify("pilcrow/debug/event", json!({"session": "abc", "ended": true}));
    let ended = call(&mut editor, json!({"action": "snapshot"})).ok();
    assert!(ended.contains("ended") || ended.contains("closed"), "{ended}");
    assert!(!editor.all("pilcrow/debug/request").iter().any(|it| it["command"] == "disconnect"));
    assert!(batch.end().0.success());
    editor.shut_down();
}

#[test]
fn an_unsaved_program_asks_before_launch_when_configured() {
    let mut sandbox = stopping();
    sandbox.variables.insert("PILCROW_RUN_ON_UNSAVED".to_owned(), "ask".to_owned());
    let mut editor = Editor::start(&sandbox);
    let file = tests::editor::uri(&sandbox, "a.txt");
    editor.open(&file, "plaintext", "one\ntwo\nthree\nfour\n");
    editor.replace(&file, 0..3, "ONE");
    editor.answers.push_back(Some("Always"));
    editor.answers.push_back(Some("Deny"));
    let run = editor.run("pilcrow.prompt", json!({"text": "debug a.txt stopping at a.txt:2"}));
    editor.ended(&run);
    let asked = editor.wait_for_message("Run with 1 unsaved file?");
    check_output(
        &asked,
        &expect![[r#"
        Run with 1 unsaved file?
        debug launch a.txt
        not saved: a.txt"#]],
    );
    assert!(!sandbox.beside("record.jsonl").exists(), "its adapter was started anyway");
    editor.shut_down();
}

#[test]
fn a_plugin_joins_over_the_language_server() {
    let sandbox = stopping();
    let mut editor = Editor::start(&sandbox);
    // The editor's Pilcrow runs the command and owns the session.
    let mut batch = Batch::start(&sandbox);
    batch.call("debug", &launch()).ok();
    let listed = editor.request("pilcrow/debug/sessions", json!({}))["result"].clone();
    let session = &listed["sessions"][0];
    assert_eq!(session["session"], format!("debug-1@{}", editor.id()), "{listed}");
    assert_eq!((&session["state"], &session["controller"]), (&json!("stopped"), &json!("agent")), "{listed}");
    let opened = editor.request("pilcrow/debug/open", json!({"session": "debug-1"}))["result"].clone();
    assert_eq!(opened["pipe"], session["pipe"], "{opened}");
    let channel = opened["channel"].clone();
    let ask = |editor: &mut Editor, command: &str, arguments: Value| {
        let params = json!({"channel": channel, "command": command, "arguments": arguments});
        editor.request("pilcrow/debug/request", params)
    };
    for command in ["initialize", "attach", "configurationDone"] {
        let answer = ask(&mut editor, command, json!({"adapterID": "pilcrow"}));
        assert!(answer["error"].is_null(), "{command}: {answer}");
    }
    let event = |editor: &Editor, name: &str, count: usize| {
        let events = editor.all("pilcrow/debug/event");
        events.iter().filter(|it| it["event"] == name).count() >= count
    };
    editor.wait("the stop", |editor| event(editor, "stopped", 1));
    let stack = ask(&mut editor, "stackTrace", json!({"threadId": 1}));
    assert_eq!(stack["result"]["body"]["stackFrames"][0]["line"], 2, "{stack}");
    let refused = ask(&mut editor, "x/unknown", json!({}));
    assert_eq!(refused["error"]["message"], "no script for x/unknown", "{refused}");
    assert!(ask(&mut editor, "next", json!({"threadId": 1}))["error"].is_null());
    editor.wait("the next stop", |editor| event(editor, "stopped", 2));
    batch.call("debug", &json!({"action": "step_over"})).fails("wrong_state");
    let handed = editor.command("pilcrow.debug.handBack", json!({}));
    assert_eq!(handed["handedBack"][0], session["session"], "{handed}");
    batch.call("debug", &json!({"action": "step_over"})).ok();
    editor.wait("the agent's step", |editor| event(editor, "stopped", 3));
    assert!(editor.request("pilcrow/debug/close", json!({"channel": channel}))["error"].is_null());
    editor.wait("the end of the channel", |editor| !editor.all("pilcrow/debug/closed").is_empty());
    assert_eq!(ask(&mut editor, "threads", json!({}))["error"]["code"], -32602);
    batch.call("debug", &json!({"action": "terminate"})).ok();
    assert!(batch.end().0.success());
    editor.shut_down();
}

const GO: &str = "\
package main

import \"fmt\"

func main() {
	total := 0
	for i := 0; i < 4; i++ {
		total += i
	}
	fmt.Println(total)
}
";

const NODE: &str = "\
let total = 0;
for (let i = 0; i < 4; i++) {
  total += i;
}
console.log(total);
";

/// Stops the program if either of two conditions on one line holds.
#[test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
fn both_clients_set_conditions_on_one_line() {
    for (adapter, program, file, source, first, line) in [
        ("js-debug", "a.js", "a.js", NODE, 1, 3),
        ("delve", "main.go", "main.go", GO, 6, 8),
        ("lldb-dap", "c", "c.c", C, 7, 9),
        ("codelldb", "c", "c.c", C, 7, 9),
    ] {
        let sandbox = Sandbox::with(&[(file, source), ("go.mod", "module example.org/a\n\ngo 1.19\n")]);
        if program == "c" {
            let mut gcc = Command::new("gcc");
            gcc.current_dir(sandbox.project()).args(["-g", "-O0", "-o", "c", "c.c"]);
            assert!(gcc.status().expect("gcc starts").success());
        }
        let mut batch = Batch::start(&sandbox);
        let launch = json!({"action": "launch", "program": program, "adapter": adapter, "breakpoints": [
            {"file": file, "line": first}, {"file": file, "line": line, "condition": "i == 3"}]});
        let stopped = says(&mut batch, &launch, "stopped: ");
        let session = stopped["session"].as_str().expect("its session");

        let mut client = Scripted::start(&sandbox, session);
        let about = json!({"adapterID": "pilcrow", "pathFormat": "path", "linesStartAt1": true, "columnsStartAt1": true});
        assert_eq!(client.ask("initialize", about)["success"], true);
        client.send("attach", json!({}));
        client.wait("event", "initialized");
        let path = sandbox.project().join(file).canonicalize().expect("the file");
        let set = json!({"source": {"path": path}, "breakpoints": [{"line": line, "condition": "i == 1"}]});
        let placed = client.ask("setBreakpoints", set);
        assert_eq!(placed["body"]["breakpoints"][0]["verified"], true, "{adapter}: {placed}");
        assert_eq!(client.ask("configurationDone", json!({}))["success"], true);

        let more = |action: &str| json!({"action": action, "session": session, "expression": "i"});
        for i in ["i = 1", "i = 3"] {
            says(&mut batch, &more("continue"), "stopped: breakpoint");
            says(&mut batch, &more("evaluate"), i);
        }
        says(&mut batch, &more("terminate"), "ended");
        assert!(batch.end().0.success());
    }
}
