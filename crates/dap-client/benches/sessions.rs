//! How a session's time and memory grow with output and variables, and what the hub adds to a message.
//!
//! Started by `cargo xtask bench hub`. Prints figures with meaning and aim, and never fails. The
//! adapter is scripted, so that its own time is small and constant.

#![expect(clippy::print_stdout, reason = "its answer is a table on standard output")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should end with its location")]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark writes its own files and starts its own adapters"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::{DebuggerDefinition, DebuggerDefinitions, Parse, ProjectPrograms, SearchPath};
use dap_client::hub::{Envelope, HubHandle, HubOptions};
use dap_client::{Breakpoints, Client, Clock, Handler, LaunchSpec, Page, Session, Sessions, Target};
use futures_util::future::BoxFuture;
use paths::{AbsPath, StateDir};
use policy::{Policy, PolicyOptions, TrustStore};
use process::Processes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use testing::debug_adapter::{Script, Step, executable};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Frame, Framing, Limits, MessageCodec};

const VARIABLES: usize = 10_000;
const LINES: usize = 100_000;
const MESSAGES: usize = 2000;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:<42} {:>12}  {:<12} meaning", "figure", "value", "aim");
    runtime.block_on(async {
        output().await;
        variables().await;
        hub().await;
    });
}

fn row(figure: &str, value: String, aim: &str, meaning: &str) {
    println!("{figure:<42} {value:>12}  {aim:<12} {meaning}");
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn clock() -> Clock {
    Clock::new(Duration::from_secs(300), &CancellationToken::new())
}

/// A directory with a scripted adapter that debugs `a.txt`.
struct Bench {
    directory: tempfile::TempDir,
    sessions: Arc<Sessions>,
    root: AbsPath,
}

impl Bench {
    fn new(script: &Script) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = AbsPath::new(directory.path().canonicalize().unwrap()).unwrap();
        let file = directory.path().join("script.json");
        std::fs::write(&file, serde_json::to_string(script).unwrap()).unwrap();
        std::fs::write(directory.path().join("a.txt"), "one\ntwo\n").unwrap();
        let text = format!(
            "format = 1\nname = \"scripted\"\npatterns = [\"*.txt\"]\nverified = false\n\
             command.candidates = [{:?}]\ncommand.args = [{file:?}]\n[launch]\nprogram = \"${{program}}\"\n\
             [install]\nhow = \"page\"\npage = \"x\"\n",
            executable()
        );
        let mut definitions = DebuggerDefinitions::default();
        definitions.insert(DebuggerDefinition::parse(&text, "scripted", false).unwrap());
        let programs = ProjectPrograms { search: SearchPath::default(), workspace: root.clone() };
        let sessions = Sessions::new(definitions, programs, Processes::new(None));
        Self { directory, sessions, root }
    }

    async fn start(&self) -> Arc<Session> {
        let spec = LaunchSpec {
            target: Target::Program(self.root.join("a.txt")),
            adapter: None,
            root: self.root.clone(),
            args: Vec::new(),
            cwd: self.root.clone(),
            env: Vec::new(),
            stop_on_entry: false,
            stdin: None,
            breakpoints: Breakpoints::default(),
            arguments: None,
            test: None,
            more: serde_json::Map::new(),
        };
        let plan = self.sessions.plan(&spec).unwrap();
        let trust = TrustStore::new(StateDir::new(self.root.join("state")));
        let policy = Policy::new(PolicyOptions::new(trust, self.root.clone()));
        let grant = policy.grant_invoked(&plan.adapter.name, &plan.command).unwrap();
        self.sessions.start(&plan, &grant, &clock()).await.unwrap()
    }
}

fn stops() -> Script {
    Script::new().on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
}

/// The adapter with its program running, and a minimal client.
async fn alone(bench: &Bench) -> (Child, Wire<ChildStdout, ChildStdin>) {
    let mut child = tokio::process::Command::new(executable())
        .arg(bench.directory.path().join("script.json"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (reader, writer) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let mut wire = Wire::new(reader, writer);
    wire.ask("initialize", json!({"adapterID": "x"})).await;
    wire.ask("launch", json!({})).await;
    wire.ask("setExceptionBreakpoints", json!({"filters": ["uncaught"]})).await;
    wire.ask("configurationDone", Value::Null).await;
    (child, wire)
}

async fn variables() {
    let page = 100;
    let body: Vec<Value> = (0..page)
        .map(|at| json!({"name": format!("[{at}]"), "value": "1", "type": "int", "variablesReference": 0}))
        .collect();
    let mut script = stops().on("variables", [Step::Body(json!({"variables": body}))]);
    script.capabilities["supportsVariablePaging"] = json!(true);
    let bench = Bench::new(&script);
    let session = bench.start().await;
    session.wait_for_stop(&clock()).await.unwrap();
    let (frames, _) = session.stack(None, 0, 1, &clock()).await.unwrap();
    let scopes = session.scopes(frames[0].id, &clock()).await.unwrap();
    let mut times = Vec::new();
    for all in [VARIABLES / 10, VARIABLES] {
        let begin = Instant::now();
        let mut got = 0;
        while got < all {
            let page = Page { start: got as u64, count: page as u64, ..Page::default() };
            got += session.variables(scopes[0].variables, &page, &clock()).await.unwrap().len();
        }
        times.push(begin.elapsed());
        row(&format!("{all} variables by pages of {page}"), milliseconds(begin.elapsed()), "", "all pages");
    }
    let growth = times[1].as_secs_f64() / times[0].as_secs_f64() / 10.0;
    let meaning = "ten times the variables, over ten times the time";
    row("10,000 variables by pages, growth", format!("{growth:.2}"), "1, linear", meaning);
    session.terminate(&clock()).await;
}

async fn output() {
    let (few, _) = output_of(LINES / 10).await;
    let (all, grown) = output_of(LINES).await;
    let growth = all.as_secs_f64() / few.as_secs_f64() / 10.0;
    let meaning = "ten times the lines, over ten times the time; with the adapter's own";
    row("100,000 lines of output, growth", format!("{growth:.2}"), "1, linear", meaning);
    row(
        "100,000 lines of output, memory",
        format!("{grown} KiB"),
        "bounded",
        "more of the process than before",
    );
}

/// The time until the stop after this many lines is known, and the memory they
/// took.
async fn output_of(lines: usize) -> (Duration, u64) {
    let line = Step::output("a line of output that is as long as lines are");
    let script = stops().on(
        "continue",
        [
            Step::Body(json!({})),
            Step::Repeat { count: lines, steps: vec![line] },
            Step::stopped("breakpoint"),
        ],
    );
    let bench = Bench::new(&script);
    let (mut child, mut wire) = alone(&bench).await;
    let begin = Instant::now();
    wire.ask("continue", json!({"threadId": 1})).await;
    while wire.next().await.is_some_and(|it| it.name != "stopped") {}
    let own = begin.elapsed();
    child.kill().await.unwrap();

    let session = bench.start().await;
    session.wait_for_stop(&clock()).await.unwrap();
    let before = resident();
    let begin = Instant::now();
    session.run("continue", None, &clock()).await.unwrap();
    session.wait_for_stop(&clock()).await.unwrap();
    let time = begin.elapsed();
    let grown = resident().saturating_sub(before);
    session.terminate(&clock()).await;
    row(
        &format!("{lines} lines of output, the adapter alone"),
        milliseconds(own),
        "",
        "until the stop after them",
    );
    row(&format!("{lines} lines of output"), milliseconds(time), "", "until the stop after them is known");
    (time, grown)
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One end of a stream, with plain reads and writes.
struct Wire<R, W> {
    reader: R,
    writer: W,
    codec: MessageCodec,
    buffer: BytesMut,
    seq: i64,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Wire<R, W> {
    fn new(reader: R, writer: W) -> Self {
        let codec = MessageCodec::new(Framing::ContentLength, Limits::default());
        Self { reader, writer, codec, buffer: BytesMut::new(), seq: 0 }
    }

    async fn send(&mut self, mut message: Envelope) {
        self.seq += 1;
        message.set("seq", &json!(self.seq));
        let mut bytes = BytesMut::new();
        self.codec.encode(&message.bytes(), &mut bytes).unwrap();
        self.writer.write_all(&bytes).await.unwrap();
        self.writer.flush().await.unwrap();
    }

    async fn next(&mut self) -> Option<Envelope> {
        loop {
            if let Some(Frame::Body(body)) = self.codec.decode(&mut self.buffer).unwrap() {
                return Some(Envelope::parse(&body).unwrap());
            }
            if self.reader.read_buf(&mut self.buffer).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    async fn ask(&mut self, command: &str, arguments: Value) {
        self.send(Envelope::request(command, arguments)).await;
        let seq = self.seq;
        while self.next().await.is_some_and(|it| it.answers() != Some(seq)) {}
    }
}

/// Answers every request; `x/notify` also with an event.
async fn answers(reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin) {
    let mut wire = Wire::new(reader, writer);
    while let Some(message) = wire.next().await {
        if message.name == "x/notify" {
            wire.send(Envelope::event("x/notified", json!({"text": "x".repeat(120)}))).await;
        }
        let mut answer = Envelope::answer(&message.name, json!({"threads": [{"id": 1, "name": "main"}]}));
        answer.set("request_seq", &message.value("seq"));
        wire.send(answer).await;
        if message.name == "initialize" {
            wire.send(Envelope::event("initialized", Value::Null)).await;
        }
    }
}

struct RefuseRequests;

impl Handler for RefuseRequests {
    fn event(&self, _: &str, _: Option<&RawValue>) {}

    fn request(&self, _: &str, _: Option<&RawValue>) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(std::future::ready(Err("no requests are expected".to_owned())))
    }
}

/// Measures the median round trip of a client.
async fn round(client: &Client, command: &str) -> Duration {
    let (never, minute) = (CancellationToken::new(), Duration::from_secs(60));
    let mut times = Vec::new();
    for _ in 0..MESSAGES {
        let begin = Instant::now();
        client.request(command, json!({"deep": [1, 2]}), minute, &never).await.unwrap();
        times.push(begin.elapsed());
    }
    median(times)
}

async fn hub() {
    let tracker = TaskTracker::new();
    let pair = || tokio::io::duplex(1 << 18);
    let (ours, external) = pair();
    let (reader, writer) = tokio::io::split(external);
    tracker.spawn(answers(reader, writer));
    let (reader, writer) = tokio::io::split(ours);
    let direct = Client::spawn("direct", reader, writer, Arc::new(RefuseRequests), &tracker);
    let without = (round(&direct, "threads").await, round(&direct, "x/notify").await);

    let (ours, external) = pair();
    let (reader, writer) = tokio::io::split(external);
    tracker.spawn(answers(reader, writer));
    let (reader, writer) = tokio::io::split(ours);
    let options = HubOptions {
        or_operator: None,
        exception_names: None,
        has_output_fence: false,
        wrap: None,
        canonical_path: Box::new(str::to_owned),
        session_info: json!({}),
        initial_breakpoints: Vec::new(),
        known_requests: Vec::new(),
        runs_in_terminal_itself: false,
        end_program: None,
    };
    let (hub, agent) = HubHandle::spawn("bench", options, reader, writer, &tracker);
    let (reader, writer) = tokio::io::split(agent);
    let agent = Client::spawn("agent", reader, writer, Arc::new(RefuseRequests), &tracker);
    let never = CancellationToken::new();
    let minute = Duration::from_secs(60);
    agent.request("initialize", json!({"adapterID": "x"}), minute, &never).await.unwrap();
    let mut users = Vec::new();
    for _ in 0..2 {
        let (ours, external) = pair();
        let (reader, writer) = tokio::io::split(external);
        hub.join(reader, writer).await;
        let (reader, writer) = tokio::io::split(ours);
        let user = Client::spawn("user", reader, writer, Arc::new(RefuseRequests), &tracker);
        for command in ["initialize", "attach", "configurationDone"] {
            user.request(command, json!({}), minute, &never).await.unwrap();
        }
        users.push(user);
    }
    let with = (round(&users[0], "threads").await, round(&users[0], "x/notify").await);
    // A round trip has two messages: a request and its answer.
    let added = |with: Duration, without: Duration, messages: u32| {
        milliseconds(with.saturating_sub(without) / messages)
    };
    let meaning = "median of 2,000 round trips, over the same without a hub";
    row("hub with 3 clients, added to a message", added(with.0, without.0, 2), "0.2 ms", meaning);
    let meaning = "the same with an event to all 3 in each";
    row("hub with 3 clients, added, events too", added(with.1, without.1, 3), "0.2 ms", meaning);
    hub.close("measured").await;
}
