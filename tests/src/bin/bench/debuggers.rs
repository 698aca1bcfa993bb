//! Real debug adapters: a raw client beside Pilcrow, in turns.
//!
//! Both start the adapter, launch a program with a breakpoint, and step. After each stop both read
//! the stack, the scopes of the top frame, and the variables of its local scopes.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Batch, Sandbox, wait_for};

use crate::{Times, row};

const LAUNCHES: usize = 6;
const STEPS: usize = 15;
/// Lines of each program's file.
const LINES: usize = 3000;
/// Scopes that Pilcrow's snapshot omits.
const OMITTED: [&str; 5] = ["Registers", "Globals", "Global", "Static", "registers"];

const C: &str = "int main(void) {\n  int total = 0;\n  for (int i = 0; i < 1000; i++) {\n    total += i;\n    \
    total ^= 3;\n  }\n  return total & 1;\n}\n";
const PYTHON: &str = "def run():\n    total = 0\n    for i in range(1000):\n        total += i\n        total ^= 3\n\n\nrun()\n";
const JAVASCRIPT: &str = "function run() {\n  let total = 0;\n  for (let i = 0; i < 1000; i++) {\n    total += i;\n    \
    total ^= 3;\n  }\n}\nrun();\n";
const GO: &str = "package main\n\nfunc main() {\n\ttotal := 0\n\tfor i := 0; i < 1000; i++ {\n\t\ttotal += i\n\t\ttotal ^= 3\n\t}\n}\n";
const BASH: &str = "#!/bin/bash\ntotal=0\nfor i in {1..1000}; do\n  total=$(( total + i ))\n  total=$(( total ^ 3 ))\ndone\n";

/// The adapters, with their programs.
///
/// Name, transport, program, file, line of the breakpoint, command, and further launch arguments.
///
/// `PORT` and `SOCKET` in the command stand for where it listens, or for where the client does.
const ADAPTERS: &str = r#"
debugpy|stdio|a.py|a.py|2|debugpy-adapter|{"type": "python", "console": "internalConsole", "redirectOutput": true, "python": "python3"}
js-debug|socket|a.js|a.js|2|node vsDebugServer.cjs SOCKET|{"type": "pwa-node", "console": "internalConsole", "outputCapture": "std"}
delve|listen|a.go|a.go|4|dlv dap --client-addr=127.0.0.1:PORT|{"mode": "debug"}
gdb|stdio|c|c.c|2|gdb -nx -q -i dap|{}
lldb-dap|stdio|c|c.c|2|lldb-dap-19|{}
codelldb|connect|c|c.c|2|codelldb --port PORT|{"type": "lldb", "terminal": "console"}
bash-dap|stdio|a.sh|a.sh|2|bash-dap|{"console": "internalConsole"}
"#;

/// A line of [`ADAPTERS`].
struct Adapter {
    name: &'static str,
    transport: &'static str,
    program: &'static str,
    file: &'static str,
    line: u64,
    command: &'static str,
    launch: Value,
}

impl Adapter {
    fn read(line: &'static str) -> Adapter {
        let parts: Vec<&str> = line.split('|').collect();
        let [name, transport, program, file, line, command, launch] = parts[..] else { panic!("{line}") };
        let (line, launch) = (line.parse().unwrap(), serde_json::from_str(launch).unwrap());
        Adapter { name, transport, program, file, line, command, launch }
    }
}

pub(crate) fn debuggers() {
    let sandbox = Sandbox::new();
    for (file, text, comment) in [
        ("c.c", C, "//"),
        ("a.py", PYTHON, "#"),
        ("a.js", JAVASCRIPT, "//"),
        ("a.go", GO, "//"),
        ("a.sh", BASH, "#"),
    ] {
        let rest = format!("{comment} some words of a line as there are many in a file of this size\n");
        sandbox.write(file, text.to_owned() + &rest.repeat(LINES));
    }
    let mut compile = Command::new("gcc");
    let built = compile.current_dir(sandbox.project()).args(["-g", "-O0", "-o", "c", "c.c"]).status();
    assert!(built.expect("gcc starts").success());
    let only = std::env::args().nth(2);
    for adapter in ADAPTERS.trim().lines().map(Adapter::read) {
        if only.as_deref().is_some_and(|only| only != adapter.name) {
            continue;
        }
        adapter.measure(&sandbox);
    }
}

impl Adapter {
    fn measure(&self, sandbox: &Sandbox) {
        let (mut raw, mut ours) = (<[Times; 2]>::default(), <[Times; 2]>::default());
        let mut batch = Batch::start(sandbox);
        for _ in 0..LAUNCHES {
            let started = Instant::now();
            let mut client = Raw::launch(self, sandbox);
            client.snapshot();
            raw[0].add(started.elapsed());
            let started = Instant::now();
            let launch = json!({"action": "launch", "program": self.program, "adapter": self.name,
                "breakpoints": [{"file": self.file, "line": self.line}], "timeout": 60});
            stopped(&mut batch, &launch);
            ours[0].add(started.elapsed());
            for _ in 0..STEPS {
                let started = Instant::now();
                client.step();
                client.snapshot();
                raw[1].add(started.elapsed());
                let started = Instant::now();
                stopped(&mut batch, &json!({"action": "step_over"}));
                ours[1].add(started.elapsed());
            }
            drop(client);
            batch.call("debug", &json!({"action": "terminate"})).ok();
        }
        batch.end();
        for ((what, factor), (raw, ours)) in
            [("launch", 1.1), ("step", 1.2)].into_iter().zip(raw.iter().zip(&ours))
        {
            let (base, own) = (raw.percentile(50), ours.percentile(50));
            let meaning = format!(
                "{:.2} times the raw client's {base:.1} ms; p95 {:.1} and {:.1} ms",
                own / base,
                raw.percentile(95),
                ours.percentile(95)
            );
            let aim = format!("{:.1} ms", base * factor);
            row(&format!("{}, {what}", self.name), format!("{own:.1} ms"), &aim, &meaning);
        }
    }
}

fn stopped(batch: &mut Batch, arguments: &Value) {
    let answer = batch.call("debug", arguments);
    let said = answer.ok();
    assert!(answer.value["details"]["state"] == "stopped", "{said}");
}

/// A client that sends the fewest requests for a stop that it can show.
struct Raw {
    adapter: Child,
    stream: Stream,
    /// Streams of sessions that only launched others.
    parents: Vec<Stream>,
    address: Option<PathBuf>,
    thread: Value,
}

impl Raw {
    /// Starts the adapter and the program, up to the first stop.
    fn launch(adapter: &Adapter, sandbox: &Sandbox) -> Raw {
        let root = sandbox.project();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let listener = (adapter.transport == "listen").then_some(listener);
        let socket = sandbox.beside("raw.sock");
        drop(fs::remove_file(&socket));
        let tools =
            PathBuf::from(std::env::var_os("PILCROW_TOOLS").expect("set by cargo xtask bench")).join("bin");
        let words = adapter.command.split(' ').map(|word| match word {
            "vsDebugServer.cjs" => tools.join(word).display().to_string(),
            "SOCKET" => socket.display().to_string(),
            word => word.replace("PORT", &port.to_string()),
        });
        // Pilcrow's adapters have their own session too, which the scheduler treats as a group.
        let mut command = Command::new("setsid");
        sandbox.prepare(&mut command);
        command.args(words).current_dir(&root);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the adapter starts");
        let stream = match adapter.transport {
            "stdio" => Stream::new(child.stdout.take().unwrap(), child.stdin.take().unwrap()),
            "listen" => Stream::tcp(listener.unwrap().accept().unwrap().0),
            "connect" => Stream::tcp(retry(|| TcpStream::connect(("127.0.0.1", port)))),
            _ => Stream::unix(&socket),
        };
        let address = (adapter.transport == "socket").then_some(socket);
        let mut client = Raw { adapter: child, stream, parents: Vec::new(), address, thread: Value::Null };
        let mut launch = adapter.launch.clone();
        let program = root.join(adapter.program);
        launch["request"] = json!("launch");
        launch["program"] = json!(program);
        launch["cwd"] = json!(root);
        launch["args"] = json!([]);
        if launch["mode"] == "debug" {
            // delve removes its default output late, also that of the next session.
            launch["output"] = json!(sandbox.beside(&format!("raw-{port}")));
        }
        client.configure(adapter, &root, launch);
        client
    }

    fn configure(&mut self, adapter: &Adapter, root: &Path, launch: Value) {
        let stream = &mut self.stream;
        let hello = json!({"clientID": "raw", "adapterID": adapter.name, "linesStartAt1": true, "columnsStartAt1": true,
            "pathFormat": "path", "supportsVariableType": true, "supportsStartDebuggingRequest": true});
        let capabilities = stream.request("initialize", hello);
        stream.send("launch", launch);
        stream.event("initialized");
        let points =
            json!({"source": {"path": root.join(adapter.file)}, "breakpoints": [{"line": adapter.line}]});
        stream.request("setBreakpoints", points);
        if capabilities["exceptionBreakpointFilters"].as_array().is_some_and(|it| !it.is_empty()) {
            stream.request("setExceptionBreakpoints", json!({"filters": []}));
        }
        stream.request("configurationDone", json!({}));
        let found = stream.wait(|it| {
            it["event"] == "stopped" || it["command"] == "startDebugging" && it["type"] == "request"
        });
        if found["event"] == "stopped" {
            self.thread = found["body"]["threadId"].clone();
            return;
        }
        let child = Stream::unix(self.address.as_ref().expect("only js-debug starts children"));
        let mut parent = std::mem::replace(&mut self.stream, child);
        parent.answer(&found);
        self.parents.push(parent);
        self.configure(adapter, root, found["arguments"]["configuration"].clone());
    }

    fn step(&mut self) {
        let thread = self.thread.clone();
        self.stream.request("next", json!({"threadId": thread}));
        let stop = self.stream.event("stopped");
        assert!(stop["body"]["reason"] == "step", "{stop}");
    }

    fn snapshot(&mut self) {
        let stack = json!({"threadId": self.thread, "startFrame": 0, "levels": 50});
        let stack = self.stream.request("stackTrace", stack);
        let scopes = self.stream.request("scopes", json!({"frameId": stack["stackFrames"][0]["id"]}));
        for scope in scopes["scopes"].as_array().unwrap() {
            let omitted = |it: &Value| OMITTED.iter().any(|omitted| it == omitted);
            if scope["expensive"] != true && !omitted(&scope["name"]) && !omitted(&scope["presentationHint"])
            {
                self.stream.request("variables", json!({"variablesReference": scope["variablesReference"]}));
            }
        }
    }
}

impl Drop for Raw {
    /// Ends the session as a client does, and the adapter if it stays.
    fn drop(&mut self) {
        for stream in std::iter::once(&mut self.stream).chain(&mut self.parents) {
            stream.send("disconnect", json!({"terminateDebuggee": true}));
        }
        if !wait_for(Duration::from_secs(2), || self.adapter.try_wait().is_ok_and(|it| it.is_some())) {
            drop(self.adapter.kill());
            drop(self.adapter.wait());
        }
    }
}

/// One connection to an adapter.
struct Stream {
    reader: BufReader<Box<dyn Read>>,
    writer: Box<dyn Write>,
    /// Messages that arrived before they were awaited.
    early: VecDeque<Value>,
    seq: u64,
}

impl Stream {
    fn new(reader: impl Read + 'static, writer: impl Write + 'static) -> Stream {
        Stream {
            reader: BufReader::new(Box::new(reader)),
            writer: Box::new(writer),
            early: VecDeque::new(),
            seq: 0,
        }
    }

    fn tcp(stream: TcpStream) -> Stream {
        stream.set_nodelay(true).unwrap();
        Stream::new(stream.try_clone().unwrap(), stream)
    }

    fn unix(path: &Path) -> Stream {
        let stream = retry(|| UnixStream::connect(path));
        Stream::new(stream.try_clone().unwrap(), stream)
    }

    fn send(&mut self, command: &str, arguments: Value) -> u64 {
        self.seq += 1;
        self.write(json!({"seq": self.seq, "type": "request", "command": command, "arguments": arguments}));
        self.seq
    }

    fn answer(&mut self, request: &Value) {
        self.seq += 1;
        self.write(json!({"seq": self.seq, "type": "response", "request_seq": request["seq"], "success": true, "command": request["command"]}));
    }

    fn write(&mut self, message: Value) {
        let text = message.to_string();
        let text = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        // The adapter may have ended, which the next read reports.
        drop(self.writer.write_all(text.as_bytes()).and_then(|()| self.writer.flush()));
    }

    fn request(&mut self, command: &str, arguments: Value) -> Value {
        let seq = self.send(command, arguments);
        let mut answer = self.wait(|it| it["request_seq"] == seq);
        assert!(answer["success"] == true, "{answer}");
        answer["body"].take()
    }

    fn event(&mut self, name: &str) -> Value {
        self.wait(|it| it["event"] == name)
    }

    fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&wanted) {
            return self.early.remove(at).unwrap();
        }
        loop {
            let message = self.receive();
            if wanted(&message) {
                return message;
            }
            assert!(message["success"] != false, "{message}");
            self.early.push_back(message);
        }
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).unwrap() > 0, "the adapter ended: {:?}", self.early);
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut bytes = vec![0; length];
        self.reader.read_exact(&mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// Connects as soon as the adapter listens.
fn retry<T>(connect: impl Fn() -> std::io::Result<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match connect() {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
