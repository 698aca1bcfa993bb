//! Speculative edits: no other request sees their texts, and the true ones return.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use lsp_client::{CommandEdits, EditPreview, RequestCx, SpeculativeError, SpeculativeFile};
use parking_lot::Mutex;
use paths::AbsPath;
use serde_json::{Value, json};
use testing::language_server::{Documents, Script, Step};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use workspace::{
    ApplyOutcome, ContentHash, Document, Editor, FileChange, Owner, RunId, Version, WorkspaceEdit,
};

use crate::bench::{Bench, LONG, build_beside, cx, range, until};

const NOTE: &str = "textDocument/publishDiagnostics";
const ASK: &str = "textDocument/diagnostic";

/// A user who types.
pub struct Typing {
    documents: Mutex<HashMap<AbsPath, Document>>,
    moved: watch::Sender<u64>,
}

impl Typing {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { documents: Mutex::default(), moved: watch::channel(0).0 })
    }

    pub fn types(&self, path: &AbsPath, text: &str) {
        let version = Version { hash: ContentHash::of(text.as_bytes()), editor: Some(1) };
        let document = Document {
            path: path.clone(),
            uri: paths::path_to_uri(path.as_path()),
            text: text.into(),
            bom: false,
            version,
            owner: Owner::Editor { dirty: true },
            blocked: None,
        };
        self.documents.lock().insert(path.clone(), document);
        self.moved.send_modify(|count| *count += 1);
    }
}

impl Typing {
    /// Saves a document.
    pub fn saves(&self, path: &AbsPath) {
        if let Some(document) = self.documents.lock().get_mut(path) {
            document.owner = Owner::Editor { dirty: false };
        }
        self.moved.send_modify(|count| *count += 1);
    }

    /// Closes a document without saving it.
    pub fn closes(&self, path: &AbsPath) {
        self.documents.lock().remove(path);
        self.moved.send_modify(|count| *count += 1);
    }
}

impl Editor for Typing {
    fn documents(&self) -> Vec<Document> {
        self.documents.lock().values().cloned().collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        self.documents.lock().get(path).cloned()
    }

    fn change_counter(&self) -> Option<watch::Receiver<u64>> {
        Some(self.moved.subscribe())
    }

    fn apply<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async { vec![ApplyOutcome::Unknown; changes.len()] })
    }

    fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<ApplyOutcome>> {
        Box::pin(async { vec![ApplyOutcome::Unknown; changes.len()] })
    }
}

struct NoEdits;

impl CommandEdits for NoEdits {
    fn apply<'a>(&'a self, _: &'a str, _: WorkspaceEdit) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("no answer is expected".to_owned()) })
    }
}

fn item(message: &str) -> Value {
    json!([{"range": range(0, 0, 1), "message": message}])
}

/// A server whose publishes and reports contain the text that they are about.
fn pulled() -> Script {
    Script::new(json!({"textDocumentSync": {"openClose": true, "change": 2, "save": true}, "diagnosticProvider": {}, "hoverProvider": true}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
}

fn full() -> Step {
    Step::Result(json!({"kind": "full", "items": item("about ${text}")}))
}

fn push(version: Value, message: &str) -> Step {
    let mut params = json!({"uri": "${params.textDocument.uri}", "diagnostics": item(message)});
    if !version.is_null() {
        params["version"] = version;
    }
    Step::notify(NOTE, params)
}

pub fn pushed() -> Script {
    let reported = || [push(json!("${version}"), "about ${text}")];
    let capabilities = json!({"textDocumentSync": 2, "hoverProvider": true});
    Script::new(capabilities)
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
        .on("textDocument/didOpen", reported())
        .on("textDocument/didChange", reported())
}

pub fn with(script: Script, more: &str) -> (Arc<Bench>, Arc<Typing>) {
    let typing = Typing::new();
    let files = [("a.txt", "a"), ("b.txt", "b"), ("c.txt", "c")];
    let editor: Arc<dyn Editor> = Arc::<Typing>::clone(&typing);
    (Arc::new(build_beside(&files, vec![("scripted", script, more)], Some(editor), |_| ())), typing)
}

impl Bench {
    pub async fn hover(&self, name: &str) -> String {
        self.pool.hover(&self.doc(name), 0, &cx(LONG)).await.unwrap().value.unwrap_or_default()
    }

    /// Previews `text` in `a.txt`, with `b.txt` as a dependent.
    async fn try_in(&self, request: &RequestCx, text: &str) -> EditPreview {
        let file = SpeculativeFile { document: self.doc("a.txt"), text: text.into(), created: false };
        self.pool.preview_edit(&[file], &[], &[self.doc("b.txt")], request).await
    }

    /// The server's open documents: `name version: text`.
    pub async fn server_has(&self) -> Vec<String> {
        let cx = cx(LONG);
        let request = self.pool.request("test/documents", json!({}), None, None, &NoEdits, &cx);
        let answer = request.await.unwrap().value.outcome.unwrap();
        let documents: BTreeMap<String, Value> = serde_json::from_value(answer).unwrap();
        let row = |(uri, it): (String, Value)| {
            let name = uri.rsplit('/').next().unwrap_or_default().to_owned();
            format!("{name} {}: {}", it["version"], it["text"].as_str().unwrap())
        };
        documents.into_iter().map(row).collect()
    }

    /// Speculative texts that remain, and those that a request or save used.
    ///
    /// Derived from the messages to the server.
    fn tried_texts(&self) -> (Vec<String>, Vec<String>) {
        let mut documents = Documents::default();
        let mut met = Vec::new();
        let tried = |documents: &Documents| -> Vec<String> {
            let texts = documents.open.values().map(|it| it.text.clone());
            texts.filter(|text| text.contains("PREVIEW")).collect()
        };
        for message in self.record("scripted") {
            let method = message["method"].as_str().unwrap_or_default();
            if method == "initialize" {
                documents = Documents::default();
            }
            documents.take(method, &message["params"]);
            if matches!(method, "textDocument/hover" | "textDocument/didSave") {
                met.extend(tried(&documents));
            }
        }
        (tried(&documents), met)
    }

    /// Names and texts of the server's open documents, from the messages to it.
    fn server_open(&self) -> Vec<(String, String)> {
        let mut documents = Documents::default();
        for message in self.record("scripted") {
            documents.take(message["method"].as_str().unwrap_or_default(), &message["params"]);
        }
        let name = |uri: &str| uri.rsplit('/').next().unwrap_or_default().to_owned();
        documents.open.into_iter().map(|(uri, it)| (name(&uri), it.text)).collect()
    }

    /// Methods about documents, in the order received.
    fn methods(&self) -> Vec<String> {
        let record = self.record("scripted").into_iter();
        let methods = record.filter_map(|message| message["method"].as_str().map(str::to_owned));
        methods
            .filter(|it| it.starts_with("textDocument/"))
            .map(|it| it["textDocument/".len()..].to_owned())
            .collect()
    }
}

/// `name: message` of each file, then the skipped servers.
fn reported(bench: &Bench, tried: &EditPreview) -> Vec<String> {
    let mut out = Vec::new();
    for (path, checked) in &tried.files {
        for it in checked {
            let known = match &it.known {
                Ok(items) => items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join(", "),
                Err(why) => format!("({why:?})"),
            };
            out.push(format!("{}: {known}", bench.workspace.relative(path)));
        }
    }
    out.extend(tried.skipped.iter().map(|(server, why)| format!("not tried on {server}: {why:?}")));
    out
}

#[tokio::test]
async fn a_speculative_edit_returns_diagnostics_and_reverts() {
    let (bench, _) = with(pulled().on(ASK, [full()]), "");
    assert_eq!(bench.hover("a.txt").await, "a");
    let tried = bench.try_in(&cx(LONG), "tried").await;
    assert_eq!(reported(&bench, &tried), ["a.txt: about tried", "b.txt: about b"]);
    // The preview changes and reverts the text with the next versions, and closes what it opened.
    assert_eq!(bench.server_has().await, ["a.txt 3: a"]);
    let methods = bench.methods().join(" ");
    assert_eq!(methods, "didOpen hover didChange didOpen diagnostic diagnostic didChange didClose");
}

/// Covers rust-analyzer 1.96, which uses the last text of a closed file for a time.
#[tokio::test]
async fn speculatively_opened_files_are_restored_before_close() {
    let (bench, _) = with(pulled().on(ASK, [full()]), "");
    assert_eq!(bench.hover("c.txt").await, "c");
    let tried = bench.try_in(&cx(LONG), "tried").await;
    assert_eq!(reported(&bench, &tried), ["a.txt: about tried", "b.txt: about b"]);
    assert_eq!(bench.server_has().await, ["c.txt 1: c"]);
    let methods = bench.methods().join(" ");
    assert_eq!(methods, "didOpen hover didOpen didOpen diagnostic diagnostic didChange didClose didClose");
}

#[tokio::test]
async fn speculative_diagnostics_stay_with_the_edit() {
    let (bench, _) = with(pushed(), "");
    let about = async |name: &str| {
        let answer = bench.pool.diagnostics(&bench.doc(name), &cx(LONG)).await.unwrap().value;
        answer.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(about("a.txt").await + &about("b.txt").await, "about aabout b");
    let tried = bench.try_in(&cx(LONG), "tried").await;
    assert_eq!(reported(&bench, &tried), ["a.txt: about tried", "b.txt: about b"]);
    assert_eq!(about("a.txt").await + &about("b.txt").await, "about aabout b");
    // Both are open as before; `b.txt` was reopened for the edit and again after it.
    assert_eq!(bench.server_has().await, ["a.txt 3: a", "b.txt 3: b"]);
}

#[tokio::test]
async fn readers_see_the_true_text_during_speculation() {
    let slow = [Step::DelayMs(300), Step::Result(json!({"contents": "${text}"}))];
    let mut script = pulled().on(ASK, [Step::DelayMs(300), full()]);
    script.methods.insert("textDocument/hover".to_owned(), vec![slow.to_vec(), vec![slow[1].clone()]]);
    let (bench, _) = with(script, "");
    let first = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.hover("a.txt").await })
    };
    let asked = Arc::clone(&bench);
    until(move || !asked.got("scripted", "textDocument/hover").is_empty(), "the first reader's question")
        .await;
    let preview = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.try_in(&cx(LONG), "tried").await })
    };
    let shown = Arc::clone(&bench);
    until(move || !shown.got("scripted", ASK).is_empty(), "the preview").await;
    assert_eq!(bench.hover("a.txt").await, "a", "the second reader");
    assert_eq!(first.await.unwrap(), "a");
    assert_eq!(reported(&bench, &preview.await.unwrap())[0], "a.txt: about tried");
    let methods = bench.methods().join(" ");
    assert_eq!(methods, "didOpen hover didChange didOpen diagnostic diagnostic didChange didClose hover");
}

#[tokio::test]
async fn typing_reverts_a_speculative_edit() {
    let (bench, typing) = with(pulled().on(ASK, [Step::Never]), "");
    typing.types(&bench.path("c.txt"), "c typed");
    assert_eq!(bench.hover("c.txt").await, "c typed");
    let preview = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.try_in(&cx(LONG), "tried").await })
    };
    let shown = Arc::clone(&bench);
    until(move || !shown.got("scripted", ASK).is_empty(), "the preview").await;
    // The user types in another document of the same server.
    typing.types(&bench.path("c.txt"), "c typed more");
    assert_eq!(reported(&bench, &preview.await.unwrap()), ["not tried on scripted: Moved"]);
    assert_eq!(bench.hover("c.txt").await, "c typed more");
    assert_eq!(bench.server_has().await, ["c.txt 2: c typed more"]);
    let cancelled = Arc::clone(&bench);
    until(move || !cancelled.got("scripted", "$/cancelRequest").is_empty(), "the server is notified").await;
}

#[tokio::test]
async fn a_commit_reverts_a_speculative_edit() {
    let (bench, _) = with(pulled().on(ASK, [Step::Never]), "");
    bench.hover("c.txt").await;
    let preview = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.try_in(&cx(LONG), "tried").await })
    };
    let shown = Arc::clone(&bench);
    until(move || !shown.got("scripted", ASK).is_empty(), "the preview").await;
    bench.write("c.txt", "c committed");
    let commit = workspace::Commit {
        id: workspace::CommitId("x".to_owned()),
        run: RunId::new(),
        label: String::new(),
        files: Vec::new(),
        notes: Vec::new(),
    };
    let started = Instant::now();
    bench.pool.did_commit(&commit).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(reported(&bench, &preview.await.unwrap()), ["not tried on scripted: Moved"]);
    assert_eq!(bench.server_has().await, ["c.txt 2: c committed"]);
}

#[tokio::test]
async fn a_cancelled_speculative_edit_leaves_nothing_behind() {
    for drops in [false, true] {
        let (bench, _) = with(pulled().on(ASK, [Step::Never]), "");
        bench.hover("a.txt").await;
        let cancel = CancellationToken::new();
        let request = RequestCx::new(LONG, &cancel);
        let preview = {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.try_in(&request, "tried").await })
        };
        let shown = Arc::clone(&bench);
        until(move || !shown.got("scripted", ASK).is_empty(), "the preview").await;
        if drops {
            preview.abort();
        } else {
            cancel.cancel();
            assert_eq!(reported(&bench, &preview.await.unwrap()), ["not tried on scripted: Cancelled"]);
        }
        assert_eq!(bench.hover("a.txt").await, "a");
        assert_eq!(bench.server_has().await, ["a.txt 3: a"]);
    }
}

#[tokio::test]
async fn a_silent_server_delays_no_other_request() {
    let (bench, _) = with(pulled().on(ASK, [Step::Never]), "");
    bench.hover("a.txt").await;
    let started = Instant::now();
    let request = cx(LONG);
    let (tried, seen) = tokio::join!(bench.try_in(&request, "tried"), async {
        let shown = Arc::clone(&bench);
        until(move || !shown.got("scripted", ASK).is_empty(), "the preview").await;
        bench.hover("a.txt").await
    });
    assert_eq!(seen, "a");
    let took = started.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(9)).contains(&took), "{took:?}");
    assert_eq!(reported(&bench, &tried), ["a.txt: (Late { after: 5s })", "b.txt: (Late { after: 5s })"]);
    assert_eq!(bench.server_has().await, ["a.txt 3: a"]);
}

#[tokio::test]
async fn a_busy_server_gets_no_speculative_edit() {
    let mut script = pulled().on(ASK, [full()]);
    script.methods.insert("textDocument/hover".to_owned(), vec![vec![Step::Never]]);
    let (bench, _) = with(script, "");
    let reader = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move {
            let document = bench.doc("a.txt");
            bench.pool.hover(&document, 0, &cx(Duration::from_secs(8))).await.is_err()
        })
    };
    let asked = Arc::clone(&bench);
    until(move || !asked.got("scripted", "textDocument/hover").is_empty(), "a question").await;
    let tried = bench.try_in(&cx(Duration::from_millis(400)), "tried").await;
    assert_eq!(reported(&bench, &tried), ["not tried on scripted: Busy"]);
    assert!(reader.await.unwrap());
    assert_eq!(bench.methods().join(" "), "didOpen hover");
}

#[tokio::test]
async fn late_unversioned_speculative_diagnostics_are_ignored() {
    let late =
        [Step::wait_for("textDocument/didChange", 2), Step::DelayMs(60), push(Value::Null, "of the preview")];
    let script = Script::new(json!({"textDocumentSync": 2}))
        .on("textDocument/didOpen", [push(Value::Null, "true")])
        .on("textDocument/didChange", late)
        .on("textDocument/didChange", [Step::DelayMs(200), push(Value::Null, "true again")]);
    let (bench, _) = with(script, "");
    let about = async || {
        let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
        answer.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(about().await, "true");
    let file = SpeculativeFile { document: bench.doc("a.txt"), text: "tried".into(), created: false };
    let tried = bench.pool.preview_edit(&[file], &[], &[], &cx(Duration::from_millis(300))).await;
    assert_eq!(reported(&bench, &tried), ["a.txt: (Late { after: 300ms })"]);
    assert_eq!(about().await, "true again");
}

#[tokio::test]
async fn new_files_are_checked_only_where_supported() {
    for (more, expected) in [
        ("", vec!["not tried on scripted: NewFilesUnsupported"]),
        ("checks_new_files = true", vec!["new.txt: about fresh"]),
    ] {
        let (bench, _) = with(pulled().on(ASK, [full()]), more);
        bench.hover("a.txt").await;
        let path = bench.path("new.txt");
        let document =
            Document { uri: paths::path_to_uri(path.as_path()), path, text: "".into(), ..bench.doc("a.txt") };
        let file = SpeculativeFile { document, text: "fresh".into(), created: true };
        let tried = bench.pool.preview_edit(&[file], &[], &[], &cx(LONG)).await;
        assert_eq!(reported(&bench, &tried), expected);
        assert_eq!(bench.server_has().await, ["a.txt 1: a"]);
    }
}

#[tokio::test]
async fn a_changed_file_is_not_checked_speculatively() {
    let (bench, _) = with(pulled().on(ASK, [full()]), "");
    bench.hover("a.txt").await;
    let file = SpeculativeFile { document: bench.doc("a.txt"), text: "tried".into(), created: false };
    bench.write("a.txt", "other");
    let tried = bench.pool.preview_edit(&[file], &[], &[], &cx(LONG)).await;
    assert_eq!(tried.skipped, [("scripted".to_owned(), SpeculativeError::Moved)]);
    assert_eq!(bench.server_has().await, ["a.txt 2: other"]);
}

/// Two readers, a typing user and a cancelled call during one speculative edit.
///
/// The test runs them in every order.
#[tokio::test]
async fn concurrent_typing_and_cancel_revert_everything() {
    for order in
        ["typed, cancelled", "cancelled, typed", "cancelled, notified, typed", "typed, notified, cancelled"]
    {
        let (bench, typing) = with(pulled().on(ASK, [Step::Never]), "");
        let (a, c) = (bench.path("a.txt"), bench.path("c.txt"));
        typing.types(&a, "a typed");
        typing.types(&c, "c typed");
        assert_eq!(bench.hover("b.txt").await, "b");
        let cancel = CancellationToken::new();
        let request = RequestCx { cancel: cancel.clone(), ..cx(LONG) };
        let preview = {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.try_in(&request, "a PREVIEW").await })
        };
        let shown = Arc::clone(&bench);
        until(move || shown.got("scripted", ASK).len() == 2, "the preview").await;
        let open = bench.server_open();
        assert!(open.contains(&("a.txt".to_owned(), "a PREVIEW".to_owned())), "{order}: {open:?}");
        // Each request waits from here on, since the server has the speculative text.
        let (first, second) = (bench.hover("a.txt"), bench.hover("b.txt"));
        tokio::pin!(first, second);
        for _ in 0..50 {
            assert!(futures_util::poll!(&mut first).is_pending(), "{order}");
            assert!(futures_util::poll!(&mut second).is_pending(), "{order}");
            tokio::task::yield_now().await;
        }
        assert_eq!(bench.got("scripted", "textDocument/hover").len(), 1, "a request saw the preview");
        let reported = |tried: &EditPreview| reported(&bench, tried).join(" ");
        let tried = match order {
            "typed, cancelled" => {
                typing.types(&a, "a typed more");
                cancel.cancel();
                reported(&preview.await.unwrap())
            }
            "cancelled, typed" => {
                cancel.cancel();
                typing.types(&a, "a typed more");
                reported(&preview.await.unwrap())
            }
            "cancelled, notified, typed" => {
                cancel.cancel();
                let tried = reported(&preview.await.unwrap());
                typing.types(&a, "a typed more");
                tried
            }
            _ => {
                typing.types(&a, "a typed more");
                let tried = reported(&preview.await.unwrap());
                cancel.cancel();
                tried
            }
        };
        let why = if order == "typed, notified, cancelled" { "Moved" } else { "Cancelled" };
        assert_eq!(tried, format!("not tried on scripted: {why}"), "{order}");
        // The check runs before a request could sync the texts.
        let seen = Arc::clone(&bench);
        until(move || seen.tried_texts().0.is_empty(), "the end of the preview in the server").await;
        let (first, second) = tokio::join!(first, second);
        // The first request may be about the text before the last input.
        assert!(["a typed", "a typed more"].contains(&first.as_str()), "{order}: {first}");
        assert_eq!(second, "b", "{order}");
        assert_eq!(bench.tried_texts().1, Vec::<String>::new(), "{order}: a request saw the preview");
        assert_eq!(bench.hover("a.txt").await, "a typed more", "{order}");
        assert_eq!(bench.hover("b.txt").await, "b", "{order}");
        let truth =
            ["a.txt", "b.txt", "c.txt"].map(|name| (name.to_owned(), bench.doc(name).text.to_string()));
        assert_eq!(bench.server_open(), truth, "{order}");
        assert_eq!(truth.map(|(_, text)| text), ["a typed more", "b", "c typed"], "{order}");
        let disk = |name: &str| std::fs::read_to_string(bench.path(name).as_path()).unwrap();
        assert_eq!(["a.txt", "b.txt", "c.txt"].map(disk), ["a", "b", "c"], "{order}: something was written");
        assert_eq!(bench.got("scripted", "textDocument/didSave").len(), 0, "{order}");
    }
}

/// A random generator with the same numbers in every run of a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Readers, writers, and completed, expired or dropped edits, in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_interleavings_end_with_the_true_texts() {
    for seed in 0..6 {
        let script = if seed % 2 == 0 { pulled().on(ASK, [Step::DelayMs(3), full()]) } else { pushed() };
        let (bench, typing) = with(script, "");
        let mut numbers = Numbers(seed);
        let mut tasks = Vec::new();
        for step in 0..40 {
            let name = ["a.txt", "b.txt", "c.txt"][numbers.below(3) as usize];
            let (kind, wait) = (numbers.below(6), Duration::from_millis(numbers.below(12)));
            let (bench, typing) = (Arc::clone(&bench), Arc::clone(&typing));
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(wait * 4).await;
                let cancel = CancellationToken::new();
                let deadline = if kind == 3 { wait } else { LONG };
                let request = RequestCx::new(deadline, &cancel);
                let text = format!("PREVIEW {step}");
                let preview = bench.try_in(&request, &text);
                match kind {
                    0 | 1 => {
                        let seen = bench.hover(name).await;
                        assert!(!seen.contains("PREVIEW"), "{seen}");
                    }
                    2 if name == "a.txt" => bench.write(name, &format!("written {step}")),
                    2 => typing.types(&bench.path(name), &format!("typed {step}")),
                    3 => drop(preview.await),
                    4 => {
                        let cancelling = async {
                            tokio::time::sleep(wait).await;
                            cancel.cancel();
                        };
                        tokio::join!(async { drop(preview.await) }, cancelling);
                    }
                    _ => drop(tokio::time::timeout(wait, preview).await),
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        // A preview runs last, and no request follows that would sync the texts.
        let (a, b) = (cx(LONG), cx(LONG));
        let left =
            tokio::time::timeout(Duration::from_millis(numbers.below(8)), bench.try_in(&a, "PREVIEW left"));
        tokio::join!(async { drop(left.await) }, async { drop(bench.try_in(&b, "PREVIEW last").await) });
        let seen = Arc::clone(&bench);
        until(move || seen.tried_texts().0.is_empty(), "the end of all previews in the server").await;
        assert_eq!(
            bench.tried_texts().1,
            Vec::<String>::new(),
            "a request or a save saw a preview, seed {seed}"
        );
        for name in ["a.txt", "b.txt", "c.txt"] {
            assert_eq!(bench.hover(name).await, &*bench.doc(name).text, "seed {seed}");
        }
        let texts: Vec<String> = bench
            .server_has()
            .await
            .into_iter()
            .map(|row| row.split_once(": ").map(|(_, text)| text.to_owned()).unwrap_or_default())
            .collect();
        let truth = ["a.txt", "b.txt", "c.txt"].map(|name| bench.doc(name).text.to_string());
        assert_eq!(texts, truth, "seed {seed}");
        // Only changes by another program were saved: no speculative text and no typed text.
        for saved in bench.got("scripted", "textDocument/didSave") {
            let uri = saved["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
            assert!(uri.ends_with("/a.txt"), "{uri}, seed {seed}");
        }
        bench.pool.shutdown(Duration::from_secs(5)).await;
    }
}

/// Covers a server without versions that publishes an empty list after a close.
///
/// It publishes nothing for a text that it has not checked.
#[tokio::test]
async fn without_versions_speculation_closes_nothing() {
    let pushes = || [push(Value::Null, "about ${text}")];
    let look = Step::Result(json!({"body": [{"code": "E9"}]}));
    let script = Script::new(json!({
        "textDocumentSync": 2, "hoverProvider": true, "executeCommandProvider": {"commands": ["look"]},
    }))
    .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
    .on("textDocument/didOpen", pushes())
    .on("textDocument/didChange", pushes())
    .on("workspace/executeCommand", [look]);
    let more = "[diagnostics.clean]\ncommand = \"look\"\narguments = [[1]]\nfield = \"body\"\n";
    let (bench, _) = with(script.clone(), more);
    bench.hover("a.txt").await;
    bench.hover("b.txt").await;
    let tried = bench.try_in(&cx(LONG), "a PREVIEW").await;
    assert_eq!(reported(&bench, &tried), ["a.txt: about a PREVIEW", "b.txt: about b"]);
    assert!(!bench.methods().contains(&"didClose".to_owned()));
    // The same server, with a definition of the diagnostics that it must publish.
    let (bench, _) = with(script, &format!("{more}code = \"code\"\n"));
    bench.hover("b.txt").await;
    let tried = bench.try_in(&cx(Duration::from_millis(700)), "a PREVIEW").await;
    let late = "(Late { after: 700ms })";
    assert_eq!(reported(&bench, &tried), [format!("a.txt: {late}"), format!("b.txt: {late}")]);
}

const RECHECK: &str =
    "[diagnostics.recheck]\nparams = { force = true }\nunaffected_extensions = [\"c.txt\"]\n";

/// `name version: text` of each change that a server received.
///
/// ` reread` follows where it had to reread.
fn changes(bench: &Bench) -> Vec<String> {
    let mut documents = Documents::default();
    let mut out = Vec::new();
    for message in bench.record("scripted") {
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        documents.take(method, params);
        if method != "textDocument/didChange" {
            continue;
        }
        let uri = params["textDocument"]["uri"].as_str().unwrap();
        let name = uri.rsplit('/').next().unwrap();
        let it = &documents.open[uri];
        let reread = if params["force"] == true { " reread" } else { "" };
        out.push(format!("{name} {}: {}{reread}", it.version, it.text));
    }
    out
}

/// Covers clangd 22.1.1, which detects a changed header by size and seconds.
#[tokio::test]
async fn includers_of_a_changed_file_are_rechecked() {
    let (bench, _) = with(pushed(), RECHECK);
    let about = async |name: &str| {
        let answer = bench.pool.diagnostics(&bench.doc(name), &cx(LONG)).await.unwrap().value;
        answer.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join(", ")
    };
    for name in ["a", "b", "c"] {
        assert_eq!(about(&format!("{name}.txt")).await, format!("about {name}"));
    }
    assert_eq!(changes(&bench), Vec::<String>::new());
    bench.write("a.txt", "A");
    assert_eq!(about("b.txt").await, "about b");
    assert_eq!(about("b.txt").await + &about("a.txt").await, "about babout A");
    assert_eq!(changes(&bench), ["a.txt 2: A", "b.txt 2: b reread"]);
    bench.write("c.txt", "C");
    assert_eq!(about("c.txt").await, "about C");
    assert_eq!(changes(&bench)[2..], ["c.txt 2: C", "c.txt 3: C reread"]);
    // No file includes that one.
    bench.write("b.txt", "B");
    assert_eq!(about("b.txt").await, "about B");
    assert_eq!(changes(&bench)[4..], ["b.txt 3: B"]);
}

#[tokio::test]
async fn speculation_sends_all_texts_before_rechecking() {
    let (bench, _) = with(pushed(), RECHECK);
    for name in ["a.txt", "b.txt", "c.txt"] {
        bench.pool.diagnostics(&bench.doc(name), &cx(LONG)).await.unwrap();
    }
    let file = |name: &str| {
        let text = format!("{name} tried");
        SpeculativeFile { document: bench.doc(name), text: text.into(), created: false }
    };
    let (files, dependents) = ([file("c.txt"), file("a.txt")], [bench.doc("b.txt")]);
    let tried = bench.pool.preview_edit(&files, &[], &dependents, &cx(LONG)).await;
    assert_eq!(
        reported(&bench, &tried),
        ["a.txt: about a.txt tried", "b.txt: about b", "c.txt: about c.txt tried"]
    );
    let tried =
        ["c.txt 2: c.txt tried", "a.txt 2: a.txt tried", "c.txt 3: c.txt tried reread", "b.txt 2: b reread"];
    // After this answer the server has read all messages.
    bench.server_has().await;
    assert_eq!(changes(&bench), [&tried[..], &["c.txt 4: c", "a.txt 3: a"]].concat());
    bench.pool.diagnostics(&bench.doc("b.txt"), &cx(LONG)).await.unwrap();
    assert_eq!(changes(&bench)[6..], ["b.txt 3: b reread"]);
}
