//! Measures the built `pilcrow`: start, size, requests, commits, and searches.
//!
//! Real servers in monorepos and texts of many sizes are measured only if the caller names them.
//!
//! The requests are `references` over a scripted server, and other programs search beside it.
//! Started by `cargo xtask bench`, which builds the program and names it in `PILCROW_BIN`. Prints
//! figures with their meaning and aim, and asserts none of them.

#![expect(clippy::disallowed_methods, reason = "a benchmark starts the programs that it measures")]
#![expect(clippy::print_stdout, reason = "its result is a table on standard output")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should end with its location")]

mod debuggers;
mod projects;
mod raw_client;
mod review;
mod search;
mod sizes;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use raw_client::{RawClient, file_uri};
use serde_json::json;
use tests::editor::{parameters, uri};
use tests::{Batch, Editor, Sandbox, Scripted, built, wait_for};

const STARTS: usize = 200;
const REQUESTS: usize = 300;
const SERVER_DELAY_MS: u64 = 20;
const COMMITS: usize = 12;
const CHANGES: usize = 2000;
const ACTIONS: usize = 500;

fn main() {
    let area = std::env::args().nth(1);
    let wanted = |name: &str| area.as_deref().is_none_or(|area| area == name);
    println!("{:<38} {:>12}  {:<14} meaning", "figure", "value", "aim");
    if wanted("startup") {
        startup();
    }
    if wanted("size") {
        size();
    }
    if wanted("sandbox") {
        sandbox();
    }
    if wanted("references") {
        references();
    }
    if wanted("commit") {
        commits();
    }
    if wanted("editor") {
        editor();
        review::measure();
    }
    if wanted("search") {
        search::search();
    }
    // These take minutes and need installed servers.
    match area.as_deref() {
        Some("dap") => debuggers::debuggers(),
        Some("projects") => projects::projects(),
        Some("sizes") => sizes::sizes(),
        _ => {}
    }
}

fn row(figure: &str, value: String, aim: &str, meaning: &str) {
    println!("{figure:<38} {value:>12}  {aim:<14} {meaning}");
}

/// Sorted times, for percentiles.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn of(count: usize, mut once: impl FnMut() -> Duration) -> Times {
        let mut times = Times::default();
        (0..count).for_each(|_| times.add(once()));
        times
    }

    fn add(&mut self, time: Duration) {
        let at = self.0.partition_point(|&known| known <= time);
        self.0.insert(at, time);
    }

    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.0.len() * percent / 100).min(self.0.len() - 1);
        self.0[at].as_secs_f64() * 1000.0
    }
}

/// Time of one request to a process, on the clock and on its threads.
#[derive(Default)]
struct Cost {
    wall: Times,
    processor: Times,
}

impl Cost {
    fn of(&mut self, pid: u32, ask: impl FnOnce()) {
        let (began, started) = (processor(pid), Instant::now());
        ask();
        self.wall.add(started.elapsed());
        self.processor.add(processor(pid).saturating_sub(began));
    }
}

fn startup() {
    let version = || {
        let mut command = Command::new(built::pilcrow());
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let times = Times::of(STARTS, || {
        let started = Instant::now();
        assert!(version().status().expect("pilcrow starts").success());
        started.elapsed()
    });
    let meaning = format!("wall time of pilcrow --version, from spawn to reaped, {STARTS} runs");
    row("start-up, median", format!("{:.2} ms", times.percentile(50)), "3 ms", &meaning);
    row("start-up, p95", format!("{:.2} ms", times.percentile(95)), "", "");
    let peaks: Vec<u64> = (0..5).map(|_| peak_memory(version())).collect();
    let peak = peaks.iter().max().unwrap();
    row(
        "start-up, peak memory",
        format!("{:.1} MiB", *peak as f64 / 1024.0),
        "10 MiB",
        "most resident memory (VmHWM) when it writes its answer, of 5 runs",
    );
}

/// Peak resident memory in KiB of a program that prints one line and ends.
///
/// Its output goes to a full pipe, so that it blocks in the write and can be measured.
fn peak_memory(mut command: Command) -> u64 {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    // The output is more than a pipe holds, so the writing thread also blocks until the pipe is
    // read.
    let fill = std::thread::spawn(move || filler.write_all(&vec![b'.'; 1 << 20]));
    let mut child = command.stdout(writer).spawn().expect("pilcrow starts");
    drop(command);
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let mut quiet = 0;
    assert!(wait_for(Duration::from_secs(30), || {
        let text = fs::read_to_string(&status).unwrap();
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim().to_owned()
        };
        let now = field("VmHWM:").trim_end_matches(" kB").parse().unwrap_or(0);
        // The process sleeps with the same peak in ten samples in a row: it waits for the pipe.
        quiet = if now > 0 && now == peak && field("State:").starts_with('S') { quiet + 1 } else { 0 };
        peak = now;
        quiet >= 10
    }));
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    fill.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    peak
}

fn size() {
    let bytes = built::pilcrow().metadata().expect("pilcrow is built").len();
    let meaning = format!("{}", built::pilcrow().display());
    row("binary", format!("{:.2} MiB", bytes as f64 / 1048576.0), "20 MiB", &meaning);
}

fn sandbox() {
    let sandbox = Sandbox::with(&[(".git/config", "")]);
    let home = std::env::home_dir().unwrap_or_default();
    let profile = sandbox.profile(&[home.join(".ssh"), home.join(".bashrc")], "proxy");
    let run = |level: &str| {
        Times::of(STARTS, || {
            let started = Instant::now();
            let mut child = sandbox.confined(level, &profile, &["true"], "");
            assert!(child.wait().expect("the helper ends").success(), "{level} works");
            started.elapsed()
        })
    };
    let plain = Times::of(STARTS, || {
        let mut command = Command::new("true");
        sandbox.prepare(&mut command);
        let started = Instant::now();
        assert!(command.status().expect("true starts").success());
        started.elapsed()
    });
    for (level, aim) in [("bwrap", "15 ms"), ("landlock", "5 ms")] {
        let cost = run(level).percentile(50) - plain.percentile(50);
        let meaning = format!("median time of `true` above one without the helper, {STARTS} runs");
        row(&format!("sandbox {level}, per command"), format!("{cost:.2} ms"), aim, &meaning);
    }
}

fn references() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n\ngreet()\n")]);
    let place = json!({
        "uri": "${params.textDocument.uri}",
        "range": {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 5}},
    });
    let script = json!({"methods": {"textDocument/references": [[{"delay_ms": SERVER_DELAY_MS}, {"result": [place]}]]}});
    Scripted::install(&mut sandbox, &[script]);

    let program = Path::new(&sandbox.variables["PILCROW_TOOLS"]).join("bin/basedpyright-langserver");
    let mut raw =
        RawClient::start(&sandbox, Command::new(program), &sandbox.project(), &json!({}), json!({}));
    raw.open("a.py", "python");
    let params = json!({
        "textDocument": {"uri": file_uri(&sandbox.project().join("a.py"))},
        "position": {"line": 0, "character": 4},
        "context": {"includeDeclaration": true},
    });
    let mut ask = || {
        let started = Instant::now();
        raw.request("textDocument/references", &params).expect("an answer");
        started.elapsed()
    };
    ask();
    let server = Times::of(REQUESTS, ask);
    drop(raw);

    let arguments = json!({"action": "references", "file": "a.py", "line": 1, "symbol": "greet"});
    let mut batch = Batch::start(&sandbox);
    // The first call starts the server.
    batch.call("lsp", &arguments).ok();
    let ours = Times::of(REQUESTS, || {
        let started = Instant::now();
        batch.call("lsp", &arguments).ok();
        started.elapsed()
    });
    let meaning = format!(
        "a references call in a running process, {REQUESTS} calls, server delay {SERVER_DELAY_MS} ms"
    );
    row("references, median", format!("{:.2} ms", ours.percentile(50)), "", &meaning);
    row("references, p99", format!("{:.2} ms", ours.percentile(99)), "", "");
    row(
        "references, server alone, median",
        format!("{:.2} ms", server.percentile(50)),
        "",
        "the same server asked directly over its streams",
    );
    row("references, server alone, p99", format!("{:.2} ms", server.percentile(99)), "", "");
    row(
        "references, over the server, median",
        format!("{:.2} ms", ours.percentile(50) - server.percentile(50)),
        "",
        "what Pilcrow adds, by percentiles",
    );
    row(
        "references, over the server, p99",
        format!("{:.2} ms", ours.percentile(99) - server.percentile(99)),
        "2 ms",
        "",
    );
}

fn editor() {
    let mut sandbox = Sandbox::with(&[("a.py", "def greet(): ...\n")]);
    let script = sandbox.beside("script.jsonl");
    fs::write(&script, "{\"wait_for_cancel\": true}\n").unwrap();
    sandbox.variables.insert("PILCROW_MODEL".to_owned(), format!("script:{}", script.display()));

    let times = Times::of(50, || {
        let mut editor = Editor::spawn(&sandbox);
        let started = Instant::now();
        editor.request("initialize", parameters(&sandbox));
        started.elapsed()
    });
    let meaning = "from writing initialize to a process just spawned to its answer, 50 processes";
    row("initialize, median", format!("{:.2} ms", times.percentile(50)), "10 ms", meaning);
    row("initialize, p95", format!("{:.2} ms", times.percentile(95)), "", "");

    let mut editor = Editor::start(&sandbox);
    let file = uri(&sandbox, "a.py");
    editor.open(&file, "python", "def greet(): ...\n");
    editor.request("textDocument/codeLens", json!({"textDocument": {"uri": file}}));
    let status = format!("/proc/{}/status", editor.id());
    let memory = |kind: &str| memory(&fs::read_to_string(&status).unwrap(), kind);
    let resident = || memory("VmRSS:");
    let (mut last, mut quiet) = (0.0, 0);
    assert!(wait_for(Duration::from_secs(30), || {
        let now = resident();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
        quiet >= 20
    }));
    row(
        "editor, idle memory",
        format!("{last:.1} MiB"),
        "12 MiB",
        "resident (VmRSS) with one small document open",
    );
    row(
        "editor, idle memory, no file's",
        format!("{:.1} MiB", memory("RssAnon:")),
        "",
        "of it what is not the executable and libraries as they are on the disk (RssAnon)",
    );

    let line = "value = compute(first, second)  # a line as there are many\n";
    let big = uri(&sandbox, "big.py");
    editor.open(&big, "python", &line.repeat((1 << 20) / line.len()));
    // The request is refused in wire order: the answer comes after the change has taken effect.
    let sync = |editor: &mut Editor| drop(editor.request("pilcrow/nothing", json!({})));
    sync(&mut editor);
    let pid = editor.id();
    let middle = editor.text(&big).len() / 2;
    // The changes alternate: between two messages an editor lets the processors sleep, and waking
    // them takes as long for a message that changes nothing.
    let (mut alone, mut changed) = (Cost::default(), Cost::default());
    for typed in 0..CHANGES {
        let at = middle + typed;
        let (range, new_text) = if typed % 60 == 59 { (at..at, "\n") } else { (at..at, "x") };
        let change = editor.change(&big, range, new_text);
        alone.of(pid, || sync(&mut editor));
        changed.of(pid, || {
            editor.send(&change);
            sync(&mut editor);
        });
    }
    let over = |cost: &Times, base: &Times, percent| {
        format!("{:.3} ms", cost.percentile(percent) - base.percentile(50))
    };
    let meaning = format!(
        "one character typed into 1 MiB and a request answered after it, {CHANGES} times, less the median of that request alone ({:.3} ms)",
        alone.wall.percentile(50)
    );
    row("change to overlay, median", over(&changed.wall, &alone.wall, 50), "", &meaning);
    row("change to overlay, p99", over(&changed.wall, &alone.wall, 99), "0.15 ms", "");
    let meaning = format!(
        "the request alone: {:.3} ms; what the machine and its other work add to every figure of this kind",
        alone.wall.percentile(99) - alone.wall.percentile(50)
    );
    row("  of it not ours, p99", over(&alone.wall, &alone.wall, 99), "", &meaning);
    let meaning =
        "time that the server's threads computed for one such change, less the request's own median";
    row("change to overlay, processor, median", over(&changed.processor, &alone.processor, 50), "", meaning);
    row("change to overlay, processor, p99", over(&changed.processor, &alone.processor, 99), "0.15 ms", "");

    editor.run("pilcrow.prompt", json!({"text": "Wait."}));
    editor.wait("the run", |editor| !editor.all("window/workDoneProgress/create").is_empty());
    let range = json!({"start": {"line": 9, "character": 2}, "end": {"line": 9, "character": 2}});
    let params = json!({"textDocument": {"uri": big}, "range": range, "context": {"diagnostics": []}});
    let times = Times::of(ACTIONS, || {
        let started = Instant::now();
        editor.request("textDocument/codeAction", params.clone());
        started.elapsed()
    });
    let meaning = format!("code actions in the document of 1 MiB while a run is active, {ACTIONS} requests");
    row("code action, median", format!("{:.2} ms", times.percentile(50)), "", &meaning);
    row("code action, p99", format!("{:.2} ms", times.percentile(99)), "20 ms", "");
}

/// A field of `/proc/PID/status` in MiB.
fn memory(status: &str, kind: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(kind)).unwrap_or("").trim();
    line.trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

/// Processor time of a process's threads.
fn processor(pid: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0)
    };
    Duration::from_nanos(threads.map(of).sum())
}

fn commits() {
    let line = |round: usize| format!("line of round {round}");
    let rest: String = (0..40).map(|number| format!("something else on line {number}\n")).collect();
    let mut per_file = Vec::new();
    for files in [1usize, 10, 100] {
        let sandbox = Sandbox::new();
        let names: Vec<String> = (0..files).map(|number| format!("sub/file_{number}.txt")).collect();
        for name in &names {
            sandbox.write(name, format!("{}\n{rest}", line(0)));
        }
        let mut batch = Batch::start(&sandbox);
        let mut round = 0;
        let times = Times::of(COMMITS, || {
            let patch: String =
                names.iter().map(|name| batch.view(name).put(&line(round), &line(round + 1))).collect();
            round += 1;
            let started = Instant::now();
            batch.edit(&patch).ok();
            started.elapsed()
        });
        let meaning = format!(
            "one edit call that commits {files} files of 1.3 KB, journal and flush included, {COMMITS} times"
        );
        row(&format!("commit of {files}, median"), format!("{:.2} ms", times.percentile(50)), "", &meaning);
        row(&format!("commit of {files}, p95"), format!("{:.2} ms", times.percentile(95)), "", "");
        per_file.push(times.percentile(50) / files as f64);
    }
    let shown: Vec<String> = per_file.iter().map(|it| format!("{it:.2}")).collect();
    row(
        "commit, ms per file",
        shown.join(" "),
        "not rising",
        "median divided by 1, 10, 100 files: no worse than linear",
    );
}
