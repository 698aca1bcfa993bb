//! A trial shows a server an edit that was not made. Whatever happens meanwhile, nobody else hears of
//! it, and afterwards the server has the true texts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use lsp_client::{CommandEdits, NotTried, RequestCx, TrialFile, Tried};
use serde_json::{Value, json};
use testing::language_server::{Documents, Script, Step};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use workspace::{
    AbsPath, ContentHash, Document, Editor, FileChange, Owner, RunId, Settled, Version, WorkspaceEdit,
};

use crate::bench::{Bench, LONG, build_beside, cx, range, until};

const NOTE: &str = "textDocument/publishDiagnostics";
const ASK: &str = "textDocument/diagnostic";

/// A person who types.
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
            uri: workspace::path_to_uri(path.as_path()),
            text: text.into(),
            bom: false,
            version,
            owner: Owner::Editor { dirty: true },
            held: None,
        };
        self.documents.lock().unwrap().insert(path.clone(), document);
        self.moved.send_modify(|count| *count += 1);
    }
}

impl Typing {
    /// It is on the disk by now.
    pub fn saves(&self, path: &AbsPath) {
        if let Some(document) = self.documents.lock().unwrap().get_mut(path) {
            document.owner = Owner::Editor { dirty: false };
        }
        self.moved.send_modify(|count| *count += 1);
    }

    /// Closes a document without saving it.
    pub fn closes(&self, path: &AbsPath) {
        self.documents.lock().unwrap().remove(path);
        self.moved.send_modify(|count| *count += 1);
    }
}

impl Editor for Typing {
    fn documents(&self) -> Vec<Document> {
        self.documents.lock().unwrap().values().cloned().collect()
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        self.documents.lock().unwrap().get(path).cloned()
    }

    fn moves(&self) -> Option<watch::Receiver<u64>> {
        Some(self.moved.subscribe())
    }

    fn apply<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async { vec![Settled::Unknown; changes.len()] })
    }

    fn revert<'a>(&'a self, _: &'a RunId, changes: &'a [FileChange]) -> BoxFuture<'a, Vec<Settled>> {
        Box::pin(async { vec![Settled::Unknown; changes.len()] })
    }
}

struct NoEdits;

impl CommandEdits for NoEdits {
    fn apply<'a>(&'a self, _: &'a str, _: WorkspaceEdit) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("none is expected".to_owned()) })
    }
}

fn item(message: &str) -> Value {
    json!([{"range": range(0, 0, 1), "message": message}])
}

/// Told with the text that it is about.
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
    let told = || [push(json!("${version}"), "about ${text}")];
    let capabilities = json!({"textDocumentSync": 2, "hoverProvider": true});
    Script::new(capabilities)
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
        .on("textDocument/didOpen", told())
        .on("textDocument/didChange", told())
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

    /// Tries `text` in `a.txt`, with `b.txt` depending on it.
    async fn try_in(&self, request: &RequestCx, text: &str) -> Tried {
        let file = TrialFile { document: self.doc("a.txt"), text: text.into(), created: false };
        self.pool.try_edit(&[file], &[], &[self.doc("b.txt")], request).await
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

    /// By what the server was sent: the trial texts that it has still, and those that it had when it was
    /// asked something or told of a save.
    fn tried_texts(&self) -> (Vec<String>, Vec<String>) {
        let mut documents = Documents::default();
        let mut met = Vec::new();
        let tried = |documents: &Documents| -> Vec<String> {
            let texts = documents.open.values().map(|it| it.text.clone());
            texts.filter(|text| text.contains("TRIAL")).collect()
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

    /// Methods about documents, in the order in which they came.
    fn methods(&self) -> Vec<String> {
        let record = self.record("scripted").into_iter();
        let methods = record.filter_map(|message| message["method"].as_str().map(str::to_owned));
        methods
            .filter(|it| it.starts_with("textDocument/"))
            .map(|it| it["textDocument/".len()..].to_owned())
            .collect()
    }
}

/// `name: message` of each file, then the servers on which it was not tried.
fn told(bench: &Bench, tried: &Tried) -> Vec<String> {
    let mut out = Vec::new();
    for (path, checked) in &tried.files {
        for it in checked {
            let known = match &it.known {
                Ok(items) => items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join(", "),
                Err(why) => format!("({why})"),
            };
            out.push(format!("{}: {known}", bench.workspace.relative(path)));
        }
    }
    out.extend(tried.not_tried.iter().map(|(server, why)| format!("not tried on {server}: {why}")));
    out
}

#[tokio::test]
async fn what_a_server_would_say_is_known_and_it_has_its_texts_as_before() {
    let (bench, _) = with(pulled().on(ASK, [full()]), "");
    assert_eq!(bench.hover("a.txt").await, "a");
    let tried = bench.try_in(&cx(LONG), "tried").await;
    assert_eq!(told(&bench, &tried), ["a.txt: about tried", "b.txt: about b"]);
    // Changed, and changed back with the next version; what only the trial opened is closed.
    assert_eq!(bench.server_has().await, ["a.txt 3: a"]);
    let methods = bench.methods().join(" ");
    assert_eq!(methods, "didOpen hover didChange didOpen diagnostic diagnostic didChange didClose");
}

/// rust-analyzer 1.96 reads a file that was closed again in its own time, and answers meanwhile by its last text.
#[tokio::test]
async fn what_only_the_trial_opened_has_its_true_text_before_it_is_closed() {
    let (bench, _) = with(pulled().on(ASK, [full()]), "");
    assert_eq!(bench.hover("c.txt").await, "c");
    let tried = bench.try_in(&cx(LONG), "tried").await;
    assert_eq!(told(&bench, &tried), ["a.txt: about tried", "b.txt: about b"]);
    assert_eq!(bench.server_has().await, ["c.txt 1: c"]);
    let methods = bench.methods().join(" ");
    assert_eq!(methods, "didOpen hover didOpen didOpen diagnostic diagnostic didChange didClose didClose");
}

#[tokio::test]
async fn what_is_pushed_in_a_trial_is_for_the_trial_alone() {
    let (bench, _) = with(pushed(), "");
    let about = async |name: &str| {
        let answer = bench.pool.diagnostics(&bench.doc(name), &cx(LONG)).await.unwrap().value;
        answer.items.iter().map(|item| item.message.clone()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(about("a.txt").await + &about("b.txt").await, "about aabout b");
    let tried = bench.try_in(&cx(LONG), "tried").await;
    assert_eq!(told(&bench, &tried), ["a.txt: about tried", "b.txt: about b"]);
    assert_eq!(about("a.txt").await + &about("b.txt").await, "about aabout b");
    // Both were open, and are again; `b.txt` was opened anew for the trial and again after it.
    assert_eq!(bench.server_has().await, ["a.txt 3: a", "b.txt 3: b"]);
}

#[tokio::test]
async fn readers_before_and_during_a_trial_see_the_true_text() {
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
    let trial = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.try_in(&cx(LONG), "tried").await })
    };
    let shown = Arc::clone(&bench);
    until(move || !shown.got("scripted", ASK).is_empty(), "the trial").await;
    assert_eq!(bench.hover("a.txt").await, "a", "the second reader");
    assert_eq!(first.await.unwrap(), "a");
    assert_eq!(told(&bench, &trial.await.unwrap())[0], "a.txt: about tried");
    let methods = bench.methods().join(" ");
    assert_eq!(methods, "didOpen hover didChange didOpen diagnostic diagnostic didChange didClose hover");
}

#[tokio::test]
async fn typing_takes_a_trial_back_and_the_next_question_sees_what_was_typed() {
    let (bench, typing) = with(pulled().on(ASK, [Step::Never]), "");
    typing.types(&bench.path("c.txt"), "c typed");
    assert_eq!(bench.hover("c.txt").await, "c typed");
    let trial = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.try_in(&cx(LONG), "tried").await })
    };
    let shown = Arc::clone(&bench);
    until(move || !shown.got("scripted", ASK).is_empty(), "the trial").await;
    // Another document of the same server.
    typing.types(&bench.path("c.txt"), "c typed more");
    assert_eq!(told(&bench, &trial.await.unwrap()), ["not tried on scripted: text moved"]);
    assert_eq!(bench.hover("c.txt").await, "c typed more");
    assert_eq!(bench.server_has().await, ["c.txt 2: c typed more"]);
    let cancelled = Arc::clone(&bench);
    until(move || !cancelled.got("scripted", "$/cancelRequest").is_empty(), "the server is told").await;
}

#[tokio::test]
async fn a_commit_takes_a_trial_back_and_waits_for_no_trial() {
    let (bench, _) = with(pulled().on(ASK, [Step::Never]), "");
    bench.hover("c.txt").await;
    let trial = {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move { bench.try_in(&cx(LONG), "tried").await })
    };
    let shown = Arc::clone(&bench);
    until(move || !shown.got("scripted", ASK).is_empty(), "the trial").await;
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
    assert_eq!(told(&bench, &trial.await.unwrap()), ["not tried on scripted: text moved"]);
    assert_eq!(bench.server_has().await, ["c.txt 2: c committed"]);
}

#[tokio::test]
async fn a_cancel_and_a_run_that_is_gone_leave_nothing_behind() {
    for drops in [false, true] {
        let (bench, _) = with(pulled().on(ASK, [Step::Never]), "");
        bench.hover("a.txt").await;
        let cancel = CancellationToken::new();
        let request = RequestCx::new(LONG, cancel.clone());
        let trial = {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.try_in(&request, "tried").await })
        };
        let shown = Arc::clone(&bench);
        until(move || !shown.got("scripted", ASK).is_empty(), "the trial").await;
        if drops {
            trial.abort();
        } else {
            cancel.cancel();
            assert_eq!(told(&bench, &trial.await.unwrap()), ["not tried on scripted: cancelled"]);
        }
        assert_eq!(bench.hover("a.txt").await, "a");
        assert_eq!(bench.server_has().await, ["a.txt 3: a"]);
    }
}

#[tokio::test]
async fn a_server_that_never_answers_holds_nobody_up_for_long() {
    let (bench, _) = with(pulled().on(ASK, [Step::Never]), "");
    bench.hover("a.txt").await;
    let started = Instant::now();
    let request = cx(LONG);
    let (tried, seen) = tokio::join!(bench.try_in(&request, "tried"), async {
        let shown = Arc::clone(&bench);
        until(move || !shown.got("scripted", ASK).is_empty(), "the trial").await;
        bench.hover("a.txt").await
    });
    assert_eq!(seen, "a");
    let took = started.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(9)).contains(&took), "{took:?}");
    assert_eq!(
        told(&bench, &tried),
        ["a.txt: (it did not answer in time)", "b.txt: (it did not answer in time)"]
    );
    assert_eq!(bench.server_has().await, ["a.txt 3: a"]);
}

#[tokio::test]
async fn a_server_that_is_busy_is_shown_nothing() {
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
    assert_eq!(told(&bench, &tried), ["not tried on scripted: scripted is busy with other questions"]);
    assert!(reader.await.unwrap());
    assert_eq!(bench.methods().join(" "), "didOpen hover");
}

#[tokio::test]
async fn what_a_trial_caused_is_not_believed_when_it_comes_late_and_without_a_version() {
    let late =
        [Step::wait_for("textDocument/didChange", 2), Step::DelayMs(60), push(Value::Null, "of the trial")];
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
    let file = TrialFile { document: bench.doc("a.txt"), text: "tried".into(), created: false };
    let tried = bench.pool.try_edit(&[file], &[], &[], &cx(Duration::from_millis(300))).await;
    assert_eq!(told(&bench, &tried), ["a.txt: (it did not answer in time)"]);
    assert_eq!(about().await, "true again");
}

#[tokio::test]
async fn a_new_file_is_tried_only_where_the_definition_says_so() {
    for (more, expected) in [
        ("", vec!["not tried on scripted: scripted is not shown files that are not there yet"]),
        ("tries_new_files = true", vec!["new.txt: about fresh"]),
    ] {
        let (bench, _) = with(pulled().on(ASK, [full()]), more);
        bench.hover("a.txt").await;
        let path = bench.path("new.txt");
        let document = Document {
            uri: workspace::path_to_uri(path.as_path()),
            path,
            text: "".into(),
            ..bench.doc("a.txt")
        };
        let file = TrialFile { document, text: "fresh".into(), created: true };
        let tried = bench.pool.try_edit(&[file], &[], &[], &cx(LONG)).await;
        assert_eq!(told(&bench, &tried), expected);
        assert_eq!(bench.server_has().await, ["a.txt 1: a"]);
    }
}

#[tokio::test]
async fn a_file_that_is_another_by_now_is_not_tried() {
    let (bench, _) = with(pulled().on(ASK, [full()]), "");
    bench.hover("a.txt").await;
    let file = TrialFile { document: bench.doc("a.txt"), text: "tried".into(), created: false };
    bench.write("a.txt", "other");
    let tried = bench.pool.try_edit(&[file], &[], &[], &cx(LONG)).await;
    assert_eq!(tried.not_tried, [("scripted".to_owned(), NotTried::Moved)]);
    assert_eq!(bench.server_has().await, ["a.txt 2: other"]);
}

/// The same numbers in every run of a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Readers, writers, trials that end, are cancelled, run out of time, or are dropped: in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_at_once_nobody_reads_a_trial_and_the_server_has_the_truth_at_the_end() {
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
                let request = RequestCx::new(deadline, cancel.clone());
                let text = format!("TRIAL {step}");
                let trial = bench.try_in(&request, &text);
                match kind {
                    0 | 1 => {
                        let seen = bench.hover(name).await;
                        assert!(!seen.contains("TRIAL"), "{seen}");
                    }
                    2 if name == "a.txt" => bench.write(name, &format!("written {step}")),
                    2 => typing.types(&bench.path(name), &format!("typed {step}")),
                    3 => drop(trial.await),
                    4 => {
                        let cancelling = async {
                            tokio::time::sleep(wait).await;
                            cancel.cancel();
                        };
                        tokio::join!(async { drop(trial.await) }, cancelling);
                    }
                    _ => drop(tokio::time::timeout(wait, trial).await),
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        // The last word is a trial's, and no question follows that would show the server the truth.
        let (a, b) = (cx(LONG), cx(LONG));
        let left =
            tokio::time::timeout(Duration::from_millis(numbers.below(8)), bench.try_in(&a, "TRIAL left"));
        tokio::join!(async { drop(left.await) }, async { drop(bench.try_in(&b, "TRIAL last").await) });
        let seen = Arc::clone(&bench);
        until(move || seen.tried_texts().0.is_empty(), "the end of all trials in the server").await;
        assert_eq!(
            bench.tried_texts().1,
            Vec::<String>::new(),
            "a question or a save met a trial, seed {seed}"
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
        // Only what another program wrote to the disk was saved: no trial is, nor what was typed.
        for saved in bench.got("scripted", "textDocument/didSave") {
            let uri = saved["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
            assert!(uri.ends_with("/a.txt"), "{uri}, seed {seed}");
        }
        bench.pool.shutdown(Duration::from_secs(5)).await;
    }
}

/// A server without versions would say of a document that is closed for a moment that nothing is wrong with
/// it, and of a text that it has not looked at nothing at all.
#[tokio::test]
async fn without_versions_nothing_is_closed_for_a_trial_and_a_part_is_not_its_answer() {
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
    let tried = bench.try_in(&cx(LONG), "a TRIAL").await;
    assert_eq!(told(&bench, &tried), ["a.txt: about a TRIAL", "b.txt: about b"]);
    assert!(!bench.methods().contains(&"didClose".to_owned()));
    // The same server, of which it is known what it must publish.
    let (bench, _) = with(script, &format!("{more}code = \"code\"\n"));
    bench.hover("b.txt").await;
    let tried = bench.try_in(&cx(Duration::from_millis(700)), "a TRIAL").await;
    let late = "(it did not answer in time)";
    assert_eq!(told(&bench, &tried), [format!("a.txt: {late}"), format!("b.txt: {late}")]);
}
