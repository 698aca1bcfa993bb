//! The overhead of the runtime: turns, deltas, tool calls, and large sessions.
//!
//! `cargo xtask bench agent` runs it. A scripted model answers at once. The output has the smallest and the
//! median wall-clock time of several rounds.

#![expect(clippy::print_stdout, reason = "its answer is a table on standard output")]
#![expect(clippy::unwrap_used, reason = "a failed measurement should panic at its place")]
#![expect(clippy::disallowed_methods, reason = "it makes a session's file of the size that is measured")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::discovery::{ToolDocument, ToolIndex, ToolSource};
use agent::store::{SessionStore, parse};
use agent::{Envelope, EventSink, Limits, Registry, Session, Tool, ToolCx, ToolResult};
use futures_util::future::BoxFuture;
use llm::{ScriptModel, ToolDefinition};
use paths::{AbsPath, StateDir};
use policy::Effects;
use serde_json::{Value, json};

struct Echo(ToolDefinition);

impl Tool for Echo {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }
    fn effects(&self, _: &Value) -> Effects {
        Effects { reads: true, ..Effects::default() }
    }
    fn execute<'a>(&'a self, args: Value, _: &'a ToolCx) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { ToolResult::text(args.to_string()) })
    }
}

fn tools() -> Registry {
    let definition = ToolDefinition {
        name: "t".to_owned(),
        label: "T".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    };
    Registry::new([Arc::new(Echo(definition)) as Arc<dyn Tool>]).unwrap()
}

struct Silent;

impl EventSink for Silent {
    fn deliver<'a>(&'a self, _: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

fn session(script: &str) -> Session {
    let limits = Limits { turns: u32::MAX, ..Limits::default() };
    let model = Arc::new(ScriptModel::parse("bench", script).unwrap().forgetful());
    Session::builder(model, tools()).sink(Arc::new(Silent)).limits(limits).build()
}

/// Returns the smallest and the median duration of the rounds.
fn rounds(count: usize, mut round: impl FnMut() -> Duration) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..count).map(|_| round()).collect();
    times.sort();
    (times[0], times[count / 2])
}

fn show(what: &str, times: (Duration, Duration), each: usize, unit: &str) {
    let per = |time: Duration| time.as_secs_f64() * 1e6 / each as f64;
    println!("{what:<58} {:>11.2} {:>11.2}  µs {unit}", per(times.0), per(times.1));
}

fn turns(runtime: &tokio::runtime::Runtime) {
    let call =
        |at: usize| json!({"tool_calls": [{"id": format!("c{at}"), "name": "t", "arguments": {"n": at}}]});
    for count in [10, 100, 1_000] {
        let script: String = (0..count).map(|at| format!("{}\n", call(at))).collect();
        let script = format!("{script}{{\"text\": \"done\"}}\n");
        let times = rounds(5, || {
            runtime.block_on(async {
                let session = session(&script);
                let started = Instant::now();
                let outcome = session.prompt("go").await;
                assert_eq!(outcome.turns as usize, count + 1);
                started.elapsed()
            })
        });
        show(&format!("a turn with one call, {count} of them in one run"), times, count + 1, "a turn");
    }
    let calls: Vec<Value> =
        (0..1_000).map(|at| json!({"id": format!("c{at}"), "name": "t", "arguments": {"n": at}})).collect();
    let script = format!("{}\n{{\"text\": \"done\"}}\n", json!({ "tool_calls": calls }));
    let times = rounds(5, || {
        runtime.block_on(async {
            let session = session(&script);
            let started = Instant::now();
            assert_eq!(session.prompt("go").await.turns, 2);
            started.elapsed()
        })
    });
    show("1,000 calls in one turn", times, 1_000, "a call");
}

fn deltas(runtime: &tokio::runtime::Runtime) {
    let mut whole = Vec::new();
    for count in [10_000, 100_000] {
        let script = json!({"text": "x".repeat(count * 4), "chunk": 4}).to_string();
        let times = rounds(5, || {
            runtime.block_on(async {
                let session = session(&script);
                let started = Instant::now();
                session.prompt("go").await;
                started.elapsed()
            })
        });
        whole.push(times.0.as_secs_f64());
        show(&format!("{count} deltas"), times, count, "a delta");
    }
    println!("{:<58} {:>11.2}      times 10,000", "100,000 deltas", whole[1] / whole[0]);
}

/// A session of `entries` entries of about 1 kB, with a summary after every 2,000.
fn large(entries: usize) -> String {
    let mut text = String::from(
        "{\"type\":\"session\",\"version\":3,\"id\":\"large\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"cwd\":\"/p\"}\n",
    );
    let words = "lorem ipsum ".repeat(75);
    let mut parent = "null".to_owned();
    for at in 0..entries {
        let (kind, body) = match at % 2_000 {
            1_999 => (
                "compaction",
                format!("\"summary\":\"short\",\"firstKeptEntryId\":\"{:08x}\",\"tokensBefore\":1", at - 20),
            ),
            even if even.is_multiple_of(2) => (
                "message",
                format!(
                    "\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"{words}\"}}],\"timestamp\":1}}"
                ),
            ),
            _ => (
                "message",
                format!(
                    "\"message\":{{\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"{words}\"}}],\"api\":\"a\",\"provider\":\"p\",\"model\":\"m\",\"usage\":{{\"input\":1,\"output\":1,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":2}},\"stopReason\":\"stop\",\"timestamp\":1}}"
                ),
            ),
        };
        writeln!(
            text,
            "{{\"type\":\"{kind}\",\"id\":\"{at:08x}\",\"parentId\":{parent},\"timestamp\":\"2026-01-01T00:00:00.000Z\",{body}}}"
        )
        .unwrap();
        parent = format!("\"{at:08x}\"");
    }
    text
}

fn sessions() {
    let directory = tempfile::tempdir().unwrap();
    let path = AbsPath::new(directory.path().canonicalize().unwrap().join("sessions")).unwrap();
    let store = SessionStore::new(StateDir::new(path.clone()));
    let text = large(100_000);
    println!("a session of 100,000 entries, {:.0} MB, a summary every 2,000:", text.len() as f64 / 1e6);
    std::fs::create_dir_all(path.as_path()).unwrap();
    std::fs::write(path.as_path().join("2026_large.jsonl"), &text).unwrap();
    show(
        "  load",
        rounds(5, || {
            let started = Instant::now();
            drop(store.load("large").unwrap());
            started.elapsed()
        }),
        1,
        "",
    );
    show(
        "  load and build the context",
        rounds(5, || {
            let started = Instant::now();
            let loaded = store.load("large").unwrap();
            assert!(loaded.context().len() > 10);
            started.elapsed()
        }),
        1,
        "",
    );
    let mut loaded = store.load("large").unwrap();
    show(
        "  build the context",
        rounds(5, || {
            let started = Instant::now();
            assert!(loaded.context().len() > 10);
            started.elapsed()
        }),
        1,
        "",
    );
    show(
        "  select an entry in the middle and build its context",
        rounds(5, || {
            let started = Instant::now();
            assert!(loaded.select("0000c350"));
            assert!(loaded.context().len() > 10);
            started.elapsed()
        }),
        1,
        "",
    );
    show(
        "  fork there",
        rounds(3, || {
            let started = Instant::now();
            let id = store.fork(&loaded, Some("0000c350"), "/p").unwrap();
            let time = started.elapsed();
            store.delete(&id).unwrap();
            time
        }),
        1,
        "",
    );
    drop(loaded);
    let without = text.lines().filter(|line| !line.starts_with("{\"type\":\"compaction\"")).count();
    let plain: String = text.replace("{\"type\":\"compaction\"", "{\"type\":\"usage\"");
    show(
        &format!("  the same without a summary, {without} messages: load and context"),
        rounds(3, || {
            let copy = plain.clone();
            let started = Instant::now();
            assert!(parse("f", copy).unwrap().context().len() > 90_000);
            started.elapsed()
        }),
        1,
        "",
    );
    let message = llm::Message::user("x".repeat(1_000));
    for sync in [false, true] {
        let store = store.clone().sync(sync);
        let mut file =
            store.create(agent::store::NewSession { id: format!("append{sync}"), ..Default::default() });
        let count = if sync { 200 } else { 20_000 };
        let mut times: Vec<Duration> = (0..count)
            .map(|_| {
                let id = file.new_id();
                let started = Instant::now();
                file.append_message(&id, &message).unwrap();
                started.elapsed()
            })
            .collect();
        times.sort();
        let what =
            if sync { "append of 1 kB with fsync: median, p99" } else { "append of 1 kB: median, p99" };
        show(what, (times[count / 2], times[count * 99 / 100]), 1, "an entry");
    }
}

fn index() {
    const WORDS: [&str; 16] = [
        "file", "search", "rename", "symbol", "branch", "commit", "issue", "table", "query", "mail", "event",
        "image", "deploy", "server", "log", "user",
    ];
    for count in [50, 500, 5_000] {
        let documents: Vec<ToolDocument> = (0..count)
            .map(|at| ToolDocument {
                name: format!("{}_{}_{at}", WORDS[at % 16], WORDS[at / 16 % 16]),
                label: format!("{} the {}", WORDS[at % 16], WORDS[at / 16 % 16]),
                summary: format!(
                    "Does what a {} needs with each {} of the {}. ",
                    WORDS[at % 13],
                    WORDS[at % 11],
                    WORDS[at % 7]
                )
                .repeat(3),
                source: ToolSource::Mcp,
                server_name: Some(format!("server{}", at % 20)),
                mcp_tool_name: Some(format!("{}{}", WORDS[at % 16], WORDS[at / 16 % 16])),
                schema_keys: vec!["path".to_owned(), "limit".to_owned(), WORDS[at % 5].to_owned()],
            })
            .collect();
        show(
            &format!("index of {count} tools: built"),
            rounds(9, || {
                let started = Instant::now();
                std::hint::black_box(ToolIndex::new(&documents));
                started.elapsed()
            }),
            1,
            "",
        );
        let index = ToolIndex::new(&documents);
        show(
            &format!("index of {count} tools: asked"),
            rounds(99, || {
                let started = Instant::now();
                assert!(!std::hint::black_box(index.search("rename a symbol in the file", 5)).is_empty());
                started.elapsed()
            }),
            1,
            "a query",
        );
    }
}

/// Peak memory of the process in MB, if available.
fn memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

fn main() {
    println!("{:<58} {:>11} {:>11}", "", "smallest", "median");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    turns(&runtime);
    deltas(&runtime);
    if let Some(memory) = memory() {
        println!("memory so far: {memory:.0} MB");
    }
    index();
    sessions();
    if let Some(memory) = memory() {
        println!("memory at most: {memory:.0} MB (the text of the large session is held twice)");
    }
}
