//! Every tool on texts of many sizes and shapes.
//!
//! Each call ends within its deadline or is refused at once. Each is a process of its own, whose peak memory is
//! measured. A call past the deadline gets SIGINT, and the row says whether it ended within two seconds.

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::batch::View;
use tests::processes::kill;
use tests::{Sandbox, give, wait_for};

use super::{memory, row};

const DEADLINE: Duration = Duration::from_secs(30);
/// Seconds that a language server may take.
///
/// Less than the deadline, so that Pilcrow's own time fits into it.
const SERVER: u64 = 15;
const FILE: &str = "big.py";
const MB: [usize; 4] = [1, 8, 30, 200];
/// The text of the line of a number.
type Line = fn(usize) -> String;
/// The shapes of texts: the name, and the text of each line.
const SHAPES: [(&str, Line); 5] = [
    ("one line", |number| if number == 0 { "x = [0".to_owned() } else { ",  1".to_owned() }),
    ("equal lines", |_| "value = call( 1,2 )\n".to_owned()),
    ("short lines", |_| "x=1\n".to_owned()),
    ("different lines", |number| format!("value{number} = call( {number},2 )\n")),
    ("scattered changes", |number| format!("value{number} = call( 1,2 )\nend = 0\n")),
];

pub(crate) fn sizes() {
    for megabytes in MB {
        for (shape, line) in SHAPES {
            let mut sandbox = Sandbox::new();
            give(&mut sandbox, &["ruff"]);
            let mut typed = Sandbox::new();
            give(&mut typed, &["basedpyright-langserver"]);
            let text = text(megabytes << 20, line);
            for (tool, call) in (Lab { sandbox, typed, text }).calls() {
                let took = format!("{:.2} s", call.took.as_secs_f64());
                let meaning = format!("peak {:.0} MiB; {}", call.peak, call.end);
                row(&format!("{megabytes} MB, {shape}, {tool}"), took, "30 s", &meaning);
            }
        }
    }
}

fn text(size: usize, line: Line) -> String {
    let mut text = String::with_capacity(size + 100);
    (0..)
        .take_while(|number| {
            text.push_str(&line(*number));
            text.len() < size
        })
        .for_each(drop);
    text.push_str(if text.starts_with("x = [") { "]\n" } else { "" });
    text
}

struct Lab {
    sandbox: Sandbox,
    /// The same file, for a server that is too slow for the other calls.
    typed: Sandbox,
    text: String,
}

/// The end of a call.
struct Call {
    took: Duration,
    /// MiB.
    peak: f64,
    end: String,
    /// The text of the answer.
    said: String,
}

impl Lab {
    fn calls(&self) -> Vec<(&'static str, Call)> {
        let lsp = |action: &str, more: Value| {
            let mut arguments = json!({"action": action, "file": FILE, "timeout": SERVER});
            more.as_object().into_iter().flatten().for_each(|(name, value)| arguments[name] = value.clone());
            arguments
        };
        self.reset();
        let read = self.tool("read", &json!({"path": FILE, "limit": 3}));
        let patch = match read.said.contains('#') {
            true => {
                let view = View::parse(&read.said);
                let line = view.lines.first().map(|line| line.anchor.clone()).unwrap_or_default();
                format!("[{}]\nPUT {line}:\n+y = 2\n", view.header)
            }
            false => format!("[{FILE}#0000]\nPUT 1:\n+y = 2\n"),
        };
        let mut calls = vec![("read", read)];
        calls.push(("grep", self.tool("grep", &json!({"pattern": "va.ue[0-9]*7 "}))));
        calls.push(("bash", self.tool("bash", &json!({"command": format!("cat {FILE}")}))));
        calls.push((
            "symbols",
            run(&self.typed, &["tool", "lsp", &lsp("symbols", json!({})).to_string(), "--yes", "--json"]),
        ));
        calls.push(("code_actions", self.tool("lsp", &lsp("code_actions", json!({"line": 1})))));
        calls.push(("format, diff", self.tool("lsp", &lsp("format", json!({"apply": false})))));
        calls.push(("edit", self.tool("edit", &json!({"patch": patch}))));
        calls.push(("undo of edit", self.undo()));
        self.reset();
        calls.push(("format", self.tool("lsp", &lsp("format", json!({})))));
        calls.push(("undo of format", self.undo()));
        self.reset();
        let rewrite = format!("sed -i 's/[12]/  &/' {FILE}");
        calls.push(("bash, rewrite", self.tool("bash", &json!({"command": rewrite}))));
        // Every tenth line changes afterwards, so that the undo has to map its edits.
        let changed: String = fs::read_to_string(self.sandbox.project().join(FILE))
            .unwrap()
            .split_inclusive('\n')
            .enumerate()
            .map(|(number, line)| if number % 10 == 5 { "z = 3\n" } else { line })
            .collect();
        self.sandbox.write(FILE, changed);
        calls.push(("undo of rewrite", self.undo()));
        calls
    }

    fn reset(&self) {
        self.sandbox.write(FILE, &self.text);
        self.typed.write(FILE, &self.text);
    }

    fn tool(&self, name: &str, arguments: &Value) -> Call {
        run(&self.sandbox, &["tool", name, &arguments.to_string(), "--yes", "--json"])
    }

    fn undo(&self) -> Call {
        run(&self.sandbox, &["undo", "--json"])
    }
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Call {
    let started = Instant::now();
    let mut child = sandbox.command(args).spawn().expect("pilcrow starts");
    let mut stdout = child.stdout.take().unwrap();
    let answer = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned())
    });
    let mut stderr = child.stderr.take().unwrap();
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let pid = child.id();
    let status = format!("/proc/{pid}/status");
    let mut peak = 0.0_f64;
    let mut ended = |deadline: Duration| {
        wait_for(deadline, || {
            peak = peak.max(memory(&fs::read_to_string(&status).unwrap_or_default(), "VmHWM:"));
            child.try_wait().expect("it can be waited for").is_some()
        })
    };
    let in_time = ended(DEADLINE);
    let took = started.elapsed();
    let mut end = String::new();
    if !in_time {
        let asked = Instant::now();
        kill(pid, Signal::INT);
        end = match ended(Duration::from_secs(2)) {
            true => format!("NOT ENDED, SIGINT ended it in {:.1} s", asked.elapsed().as_secs_f64()),
            false => "NOT ENDED, AND IGNORES SIGINT".to_owned(),
        };
        sandbox.mark().kill_all();
    }
    let answer = answer.join().unwrap().unwrap_or_default();
    let value: Value =
        answer.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let said = value["content"][0]["text"].as_str().unwrap_or(&answer).to_owned();
    if in_time {
        let first: String = said.lines().next().unwrap_or_default().chars().take(90).collect();
        end = match value["error"]["code"].as_str() {
            Some(code) => format!("refused, {code}: {first}"),
            None => first,
        };
    }
    Call { took, peak, end, said }
}
