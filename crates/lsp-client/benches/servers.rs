//! Time and memory that the client adds to a language server's own.
//!
//! Started by `cargo xtask bench lsp`. Prints figures, each with its meaning and aim; none fails. The servers
//! are scripted, so that their own time is small and constant.

#![expect(clippy::print_stdout, reason = "its answer is a table on standard output")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should end with its location")]
#![expect(clippy::disallowed_methods, reason = "a benchmark writes its own files and starts its own servers")]

use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use adapters::{Parse, SearchPath, ServerDefinition, ServerDefinitions};
use lsp_client::{CheckRole, NoHost, PoolLimits, PoolOptions, RequestCx, ServerPool};
use parking_lot::Mutex;
use paths::{AbsPath, StateDir};
use policy::{Policy, PolicyOptions, TrustStore, Unattended};
use process::Processes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use testing::language_server::{Script, Step, executable};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Handler, Peer, PeerOptions};
use workspace::{ApplyOutcome, ContentHash, Document, Editor, FileChange, Owner, RunId, Version, Workspace};

const REQUESTS: usize = 1000;
const CHANGES: usize = 300;
const FILES: usize = 1000;
const PACKAGES: usize = 100;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:<42} {:>12}  {:<12} meaning", "figure", "value", "aim");
    runtime.block_on(async {
        // Memory is measured first, while no freed memory can be reused.
        memory().await;
        throughput(220, 64 << 20, "300 MB/s").await;
        throughput(1 << 20, 256 << 20, "500 MB/s").await;
        overhead().await;
        change().await;
        opening().await;
        monorepo().await;
        diagnostics().await;
    });
}

fn row(figure: &str, value: String, aim: &str, meaning: &str) {
    println!("{figure:<42} {value:>12}  {aim:<12} {meaning}");
}

/// An editor with documents that a user types in.
#[derive(Default)]
struct Open(Mutex<HashMap<AbsPath, Document>>);

impl Open {
    fn put(&self, path: &AbsPath, text: &str, version: i32) {
        let document = Document {
            path: path.clone(),
            uri: paths::path_to_uri(path.as_path()),
            text: text.into(),
            bom: false,
            version: Version { hash: ContentHash::of(text.as_bytes()), editor: Some(version) },
            owner: Owner::Editor { dirty: true },
            blocked: None,
        };
        self.0.lock().insert(path.clone(), document);
    }
}

impl Editor for Open {
    fn documents(&self) -> Vec<Document> {
        self.0.lock().values().cloned().collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        self.0.lock().get(path).cloned()
    }

    fn apply<'a>(
        &'a self,
        _: &'a RunId,
        changes: &'a [FileChange],
    ) -> futures_util::future::BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async { vec![ApplyOutcome::Unknown; changes.len()] })
    }

    fn revert<'a>(
        &'a self,
        run: &'a RunId,
        changes: &'a [FileChange],
    ) -> futures_util::future::BoxFuture<'a, Vec<ApplyOutcome>> {
        self.apply(run, changes)
    }
}

struct Rig {
    directory: tempfile::TempDir,
    workspace: Workspace,
    pool: Arc<ServerPool>,
    editor: Arc<Open>,
}

impl Rig {
    /// Servers `0..count`; the n-th handles `*.tn`.
    fn new(count: usize, script: &Script) -> Self {
        Self::with(count, script, "")
    }

    /// Creates servers like `new`, with `more` appended to each definition.
    fn with(count: usize, script: &Script, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let root = base.join("project");
        std::fs::create_dir_all(&root).unwrap();
        write_script(&base.join("script.json"), script);
        let mut definitions = ServerDefinitions::default();
        for number in 0..count {
            let text = format!(
                "name = \"s{number}\"\n[ready]\n[diagnostics]\n[command]\ncandidates = [{:?}]\nargs = [{:?}]\n[install]\nhow = \"page\"\n\
                 command = \"x\"\n[[languages]]\nid = \"words\"\npatterns = [\"*.t{number}\"]\n{more}",
                executable(),
                base.join("script.json")
            );
            definitions.insert(ServerDefinition::parse(&text, "bench", false).unwrap());
        }
        let editor = Arc::new(Open::default());
        let state = StateDir::new(AbsPath::new(base.join("state")).unwrap());
        let port: Arc<dyn Editor> = Arc::<Open>::clone(&editor);
        let (workspace, _) = Workspace::open(&root, &state, Some(port)).unwrap();
        let mut options = PolicyOptions::new(TrustStore::new(state), workspace.root().clone());
        options.yes = true;
        let options = PoolOptions {
            workspace: workspace.clone(),
            processes: Processes::new(None),
            policy: Arc::new(Policy::new(options)),
            approver: Arc::new(Unattended),
            definitions: Arc::new(definitions),
            reread: None,
            host: Arc::new(NoHost),
        };
        let limits =
            PoolLimits { search: SearchPath::default(), warm: count.max(1), ..PoolLimits::default() };
        Self { directory, workspace, pool: ServerPool::with_limits(options, limits), editor }
    }

    fn path(&self, name: &str) -> AbsPath {
        self.workspace.root().join(name)
    }

    fn doc(&self, name: &str) -> Document {
        self.workspace.document(&self.path(name)).unwrap()
    }

    async fn hover(&self, name: &str) {
        self.pool.hover(&self.doc(name), 0, &cx()).await.unwrap();
    }

    async fn end(self) {
        self.pool.shutdown(Duration::from_secs(5)).await;
        drop(self.directory);
    }
}

fn write_script(path: &Path, script: &Script) {
    std::fs::write(path, serde_json::to_string(script).unwrap()).unwrap();
}

fn cx() -> RequestCx {
    RequestCx::new(Duration::from_secs(60), &CancellationToken::new())
}

fn script() -> Script {
    Script::new(json!({"textDocumentSync": 2, "hoverProvider": true}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "x"}))])
}

/// The 50th and 99th percentile in milliseconds.
fn percentiles(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    (at(50), at(99))
}

/// The processor time of this process since its start.
///
/// `/proc` counts a running thread only up to its last yield. The caller yields first, so that work
/// from before a measurement does not count in it.
fn processor() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

struct Counting(AtomicUsize);

impl Handler for Counting {
    fn notification(&self, _: &Peer, _: &str, params: Option<&RawValue>) {
        self.0.fetch_add(params.map_or(0, |params| params.get().len()), Ordering::Relaxed);
    }
}

async fn throughput(size: usize, total: usize, aim: &str) {
    let body = json!({"jsonrpc": "2.0", "method": "x/reported", "params": {"text": "x".repeat(size - 55)}})
        .to_string();
    let message = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let count = total / message.len();
    let stream = message.repeat(count);
    let bytes = stream.len();
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    let tracker = TaskTracker::new();
    let before = processor();
    let handler: Arc<dyn Handler> = Arc::<Counting>::clone(&counting);
    let peer =
        Peer::spawn(Cursor::new(stream), tokio::io::sink(), handler, PeerOptions::new("bench"), &tracker);
    peer.closed().await;
    let took = (processor() - before).as_secs_f64();
    assert!(counting.0.load(Ordering::Relaxed) > count * (size - 60));
    let meaning = format!(
        "our processor time for {count} notifications of {size} bytes from memory through framing and routing to a handler"
    );
    row(
        &format!("framing and routing, {size} bytes"),
        format!("{:.0} MB/s", bytes as f64 / 1e6 / took),
        aim,
        &meaning,
    );
}

async fn overhead() {
    let rig = Rig::new(1, &script());
    std::fs::write(rig.path("a.t0"), "word\n").unwrap();
    for _ in 0..50 {
        rig.hover("a.t0").await;
    }
    let mut pooled = Vec::new();
    let (mut process, peer) = alone(&rig).await;
    let mut direct = Vec::new();
    let params = json!({"textDocument": {"uri": "file:///a"}, "position": {"line": 0, "character": 0}});
    // The requests alternate: other load of the machine then affects both equally.
    for _ in 0..REQUESTS {
        let started = Instant::now();
        rig.hover("a.t0").await;
        pooled.push(started.elapsed());
        let started = Instant::now();
        let cancel = CancellationToken::new();
        peer.request("textDocument/hover", &params, Duration::from_secs(60), &cancel).await.unwrap();
        direct.push(started.elapsed());
    }
    peer.close("measured");
    process.kill().await.unwrap();
    let (pooled, direct) = (percentiles(pooled), percentiles(direct));
    let meaning = format!(
        "hover through the pool minus hover over the same server's pipes, {REQUESTS} of each in turn"
    );
    row("request over the server, p50", format!("{:.3} ms", pooled.0 - direct.0), "0.3 ms", &meaning);
    row("request over the server, p99", format!("{:.3} ms", pooled.1 - direct.1), "2 ms", "");
    let alone = format!("{:.3} {:.3}", direct.0, direct.1);
    row("  the server alone, p50 p99 (ms)", alone, "", "share of the machine and the server");
    rig.end().await;
}

struct Deaf;

impl Handler for Deaf {}

/// Connects the same server without a pool.
async fn alone(rig: &Rig) -> (tokio::process::Child, Peer) {
    let mut process = tokio::process::Command::new(executable())
        .arg(rig.directory.path().join("script.json"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
    let peer = Peer::spawn(stdout, stdin, Arc::new(Deaf), PeerOptions::new("alone"), &TaskTracker::new());
    let cancel = CancellationToken::new();
    let params = json!({"processId": null, "rootUri": null, "capabilities": {}});
    peer.request("initialize", &params, Duration::from_secs(60), &cancel).await.unwrap();
    (process, peer)
}

async fn change() {
    let rig = Rig::new(1, &script());
    let line = "value = compute(first, second)  # a line as there are many\n";
    let mut text = line.repeat((1 << 20) / line.len());
    let path = rig.path("big.t0");
    rig.editor.put(&path, &text, 0);
    rig.hover("big.t0").await;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let middle = text.len() / 2;
    for typed in 0..CHANGES {
        text.insert(middle + typed, if typed % 60 == 59 { '\n' } else { 'x' });
        // The same input in a document without requests: neither figure contains the editor's work or
        // its effect on the processor's caches.
        rig.editor.put(&rig.path("other.txt"), &text, typed as i32);
        let before = processor();
        rig.hover("big.t0").await;
        without.push(processor() - before);
        rig.editor.put(&path, &text, typed as i32 + 1);
        let before = processor();
        rig.hover("big.t0").await;
        with.push(processor() - before);
    }
    let (without, with) = (percentiles(without), percentiles(with));
    let meaning = format!(
        "our processor time for a character typed into 1 MiB and a request, minus a request after the same typing elsewhere ({:.3} ms), {CHANGES} times",
        without.0
    );
    row("incremental change in 1 MiB, p50", format!("{:.3} ms", with.0 - without.0), "0.1 ms", &meaning);
    row("incremental change in 1 MiB, p99", format!("{:.3} ms", with.1 - without.0), "", "");
    rig.end().await;
}

fn answering(items: usize) -> Script {
    let place = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 4}});
    let item = json!({"range": place, "severity": 2, "code": "E1", "source": "s", "message": "this is not as it should be"});
    let items: Vec<Value> = vec![item; items];
    Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}}))
        .on("textDocument/diagnostic", [Step::Result(json!({"kind": "full", "items": items}))])
}

async fn opening() {
    let rig = Rig::new(1, &answering(0));
    for number in 0..FILES {
        std::fs::write(rig.path(&format!("f{number}.t0")), "word\n".repeat(200)).unwrap();
    }
    let mut times = Vec::new();
    for number in 0..FILES {
        let document = rig.doc(&format!("f{number}.t0"));
        let started = Instant::now();
        rig.pool.check(&document, CheckRole::Changed, &cx()).await;
        times.push(started.elapsed());
    }
    let part = |range: std::ops::Range<usize>| percentiles(times[range].to_vec()).0;
    let total: Duration = times.iter().sum();
    let shown = format!("{:.0} ms", total.as_secs_f64() * 1e3);
    let meaning =
        format!("{FILES} files of 1 KB opened and checked one after the other; the last 48 stay open");
    row("files opened, all", shown, "", &meaning);
    let (first, last) = (part(FILES / 10..FILES / 5), part(FILES - FILES / 10..FILES));
    let shown = format!("{first:.2} {last:.2}");
    row(
        "files opened, of each (ms)",
        shown,
        "not rising",
        "median of those from 100 to 200, and of the last 100",
    );
    rig.end().await;
}

/// Finds each package's root from its file upward, with nothing open.
async fn monorepo() {
    let mut script = script();
    script.capabilities["workspace"] =
        json!({"workspaceFolders": {"supported": true, "changeNotifications": true}});
    let rig = Rig::with(1, &script, "[root]\nmarkers = [\"mark\", \"other.*\"]\nfolders = true\n");
    let package = |number: usize| format!("group{}/package{number}", number / 10);
    let file = |number: usize, name: &str| format!("{}/src/deep/{name}", package(number));
    for number in 0..PACKAGES {
        let mark = format!("{}/mark", package(number));
        for name in [mark, file(number, "a.t0"), file(number, "b.t0")] {
            let path = rig.path(&name);
            std::fs::create_dir_all(path.as_path().parent().unwrap()).unwrap();
            std::fs::write(path, "word\n").unwrap();
        }
    }
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for (times, name) in [(&mut first, "a.t0"), (&mut again, "b.t0")] {
        for number in 0..PACKAGES {
            let started = Instant::now();
            rig.hover(&file(number, name)).await;
            times.push(started.elapsed());
        }
    }
    let places = rig.pool.status().await;
    assert_eq!(places.len(), PACKAGES, "each package has a location");
    let pids: std::collections::BTreeSet<_> = places.iter().filter_map(|it| it.pid).collect();
    assert_eq!(pids.len(), 1, "one server handles all packages");
    // The first request starts the server.
    let shown = format!("{:.2} {:.2}", percentiles(first.split_off(1)).0, percentiles(again).0);
    let meaning = "median of the first request in each of 100 packages of one server, and of the next one, about a closed file";
    row("monorepo, a package's questions (ms)", shown, "", meaning);
    rig.end().await;
}

async fn diagnostics() {
    let mut each = Vec::new();
    for count in [1_000, 10_000, 100_000] {
        let rig = Rig::new(1, &answering(count));
        std::fs::write(rig.path("a.t0"), "word\n").unwrap();
        let document = rig.doc("a.t0");
        rig.pool.diagnostics(&document, &cx()).await.unwrap();
        let before = processor();
        let answer = rig.pool.diagnostics(&document, &cx()).await.unwrap();
        let took = processor() - before;
        assert_eq!(answer.value.items.len(), count);
        if count == 10_000 {
            let meaning = "our processor time from the request to 10,000 diagnostics in bytes of the text";
            row(
                "10,000 diagnostics delivered",
                format!("{:.1} ms", took.as_secs_f64() * 1e3),
                "linear",
                meaning,
            );
        }
        each.push(format!("{:.1}", took.as_secs_f64() * 1e6 / count as f64));
        rig.end().await;
    }
    row("diagnostics delivered, of each (µs)", each.join(" "), "not rising", "of 1,000, 10,000 and 100,000");
}

async fn memory() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("").trim().to_owned();
        line.trim_end_matches(" kB").trim().parse::<f64>().unwrap_or(0.0) / 1024.0
    };
    let before = resident();
    let rig = Rig::new(10, &script());
    for number in 0..FILES {
        let path = rig.path(&format!("f{number}.t{}", number % 10));
        rig.editor.put(&path, &format!("{number:9}\n").repeat(1024), 0);
    }
    for number in 0..FILES {
        rig.hover(&format!("f{number}.t{}", number % 10)).await;
    }
    let meaning = "growth of this process (VmRSS): 10 servers, 1,000 documents of 10 KB open in an editor, a request for each; a server keeps 48 open";
    row("memory, 10 servers, 1,000 documents", format!("{:.1} MiB", resident() - before), "60 MiB", meaning);
    rig.end().await;
}
