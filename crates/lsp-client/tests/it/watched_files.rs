//! Changes by other programs to files that only a server's own registrations name.

use std::time::Duration;

use serde_json::{Value, json};
use testing::language_server::{Script, Step};
use workspace::{ChangeKind, Commit, CommitId, CommittedFile, RunId};

use crate::bench::{Bench, LONG, bench, build_in, cx, until};

const WATCHED: &str = "workspace/didChangeWatchedFiles";
const ASK: &str = "textDocument/diagnostic";

fn registers(watchers: &Value) -> Vec<Step> {
    let registrations = json!([{"id": "w", "method": WATCHED, "registerOptions": {"watchers": watchers}}]);
    let step = Step::request("r", "client/registerCapability", json!({"registrations": registrations}));
    vec![step, Step::wait_for("response", 1)]
}

fn unregisters() -> Step {
    let all = json!({"unregisterations": [{"id": "w", "method": WATCHED}]});
    Step::request("u", "client/unregisterCapability", all)
}

fn clean() -> Step {
    Step::Result(json!({"kind": "full", "items": []}))
}

/// A server that registers `watchers` at its first request.
fn script(watchers: &Value) -> Script {
    let mut script =
        Script::new(json!({"textDocumentSync": 2, "diagnosticProvider": {}, "hoverProvider": true}));
    let first = [registers(watchers), vec![clean()]].concat();
    script.methods.insert(ASK.to_owned(), vec![first, vec![clean()]]);
    script
}

/// Requests diagnostics, which notifies the server of all changes first.
async fn ask(bench: &Bench) {
    let answer = bench.pool.diagnostics(&bench.doc("a.txt"), &cx(LONG)).await.unwrap().value;
    assert!(answer.pending.is_empty() && answer.failed.is_empty(), "{answer:?}");
}

/// Waits until the test's files are older than the first scan, also by file times.
async fn grown_old() {
    let made = std::time::Instant::now();
    until(move || made.elapsed() > Duration::from_millis(40), "time passes").await;
}

/// All events since the start, by the last parts of the paths.
fn reported(bench: &Bench) -> Vec<(String, u64)> {
    let lists = bench.got("scripted", WATCHED);
    let events = lists.iter().flat_map(|params| params["changes"].as_array().unwrap().clone());
    let top = format!("{}/", bench.uri(""));
    let top = top.replace("//", "/").replace("file:/", "file://");
    let name = |uri: &str| uri.strip_prefix(&top).unwrap_or(uri.rsplit('/').next().unwrap()).to_owned();
    events.map(|it| (name(it["uri"].as_str().unwrap()), it["type"].as_u64().unwrap())).collect()
}

fn named(events: &[(&str, u64)]) -> Vec<(String, u64)> {
    events.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect()
}

#[tokio::test]
async fn registered_files_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().canonicalize().unwrap().join("outside");
    std::fs::create_dir_all(outside.join("deep")).unwrap();
    let base = paths::path_to_uri(&outside);
    let watchers = json!([
        {"globPattern": "**"},
        {"globPattern": "**/*.{lock,sum}"},
        {"globPattern": "**/go.work"},
        {"globPattern": "**/.tool/config.toml"},
        {"globPattern": "**/.rc"},
        {"globPattern": {"baseUri": base, "pattern": "*.conf"}},
        {"globPattern": {"baseUri": {"uri": base, "name": "x"}, "pattern": "**/*.so"}},
    ]);
    let files = [
        ("a.txt", "a"),
        (".gitignore", "go.work\nbuilt\n"),
        ("go.work", "1"),
        ("built/x.lock", "1"),
        ("deep/changed.lock", "1"),
        ("deep/gone.sum", "1"),
        ("deep/still.lock", "1"),
        ("deep/.tool/config.toml", "1"),
        (".tool/config.toml", "1"),
        (".rc", "1"),
        ("other.bin", "1"),
    ];
    let bench = build_in(directory, &files, vec![("scripted", script(&watchers), "")], |_| ());
    for name in ["x.conf", "x.other", "deep/x.so"] {
        std::fs::write(outside.join(name), "1").unwrap();
    }
    grown_old().await;
    ask(&bench).await;
    ask(&bench).await;
    assert_eq!(reported(&bench), [], "all files existed before");
    for name in
        files.map(|it| it.0).iter().filter(|it| !["a.txt", ".gitignore", "deep/still.lock"].contains(it))
    {
        bench.write(name, "other");
    }
    std::fs::remove_file(bench.path("deep/gone.sum")).unwrap();
    bench.write("new.lock", "1");
    for name in ["x.conf", "x.other", "deep/x.so"] {
        std::fs::write(outside.join(name), "other").unwrap();
    }
    ask(&bench).await;
    let expected = [
        ("x.conf", 2),
        (".rc", 2),
        (".tool/config.toml", 2),
        ("deep/.tool/config.toml", 2),
        ("deep/changed.lock", 2),
        ("deep/gone.sum", 3),
        ("go.work", 2),
        ("new.lock", 1),
    ];
    let mut got = reported(&bench);
    got.sort();
    let mut expected = named(&expected);
    expected.sort();
    assert_eq!(got, expected);
    ask(&bench).await;
    assert_eq!(reported(&bench).len(), expected.len(), "once");
}

/// Covers a file that the server may have read before it registered it.
#[tokio::test]
async fn files_older_than_a_registration_are_changed_not_new() {
    let watchers = json!([{"globPattern": "**/*.lock"}]);
    let mut script = script(&watchers);
    script.methods.get_mut(ASK).unwrap().insert(0, vec![clean()]);
    let bench = bench(&[("a.txt", "a"), ("old.lock", "1"), ("new.lock", "1")], script);
    grown_old().await;
    ask(&bench).await;
    bench.write("new.lock", "other");
    ask(&bench).await;
    ask(&bench).await;
    assert_eq!(reported(&bench), named(&[("new.lock", 2)]));
}

#[tokio::test]
async fn only_registered_kinds_are_sent() {
    let watchers = json!([
        {"globPattern": "**/*.one", "kind": 1},
        {"globPattern": "**/*.two", "kind": 2},
        {"globPattern": "**/*.three", "kind": 4},
    ]);
    let kinds = ["one", "two", "three"];
    let names = kinds.map(|it| [format!("changed.{it}"), format!("gone.{it}")]).concat();
    let files = names.iter().map(|it| (it.as_str(), "1")).chain([("a.txt", "a")]).collect::<Vec<_>>();
    let bench = bench(&files, script(&watchers));
    grown_old().await;
    ask(&bench).await;
    for kind in kinds {
        bench.write(&format!("changed.{kind}"), "other");
        bench.write(&format!("new.{kind}"), "1");
        std::fs::remove_file(bench.path(&format!("gone.{kind}"))).unwrap();
    }
    ask(&bench).await;
    assert_eq!(reported(&bench), named(&[("changed.two", 2), ("gone.three", 3), ("new.one", 1)]));
}

/// Unregisters files and registers them again, with changes in between.
#[tokio::test]
async fn unregistered_files_are_not_reported() {
    let watchers = json!([{"globPattern": "**/*.lock"}, {"globPattern": "**/*.sum"}]);
    let again = json!([{"globPattern": "**/*.lock"}]);
    let mut script = script(&watchers);
    let nothing = || Step::Result(Value::Null);
    let turns = vec![
        vec![unregisters(), Step::wait_for("response", 2), nothing()],
        [registers(&again), vec![Step::wait_for("response", 3), nothing()]].concat(),
    ];
    script.methods.insert("textDocument/hover".to_owned(), turns);
    let bench = bench(&[("a.txt", "a"), ("x.lock", "1"), ("gone.lock", "1"), ("x.sum", "1")], script);
    grown_old().await;
    let hover = async || drop(bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap());
    ask(&bench).await;
    hover().await;
    bench.write("x.lock", "other");
    bench.write("x.sum", "other");
    std::fs::remove_file(bench.path("gone.lock")).unwrap();
    ask(&bench).await;
    assert_eq!(reported(&bench), []);
    hover().await;
    ask(&bench).await;
    assert_eq!(reported(&bench), named(&[("gone.lock", 3), ("x.lock", 2)]));
}

/// Checks that a server gets one report of Pilcrow's own writes.
#[tokio::test]
async fn a_commit_to_a_registered_file_is_reported_once() {
    let bench = bench(&[("a.txt", "a"), ("x.lock", "1")], script(&json!([{"globPattern": "**/*.lock"}])));
    grown_old().await;
    ask(&bench).await;
    bench.write("x.lock", "other");
    bench.write("new.lock", "1");
    let file = |name: &str, kind| {
        let path = bench.path(name);
        CommittedFile { path, kind, edits: Vec::new(), version: None }
    };
    let files = vec![file("x.lock", ChangeKind::Modified), file("new.lock", ChangeKind::Created)];
    let (id, run, label) = (CommitId("1".into()), RunId::new(), "test".into());
    bench.pool.did_commit(&Commit { id, run, label, files, notes: Vec::new() }).await;
    ask(&bench).await;
    assert_eq!(reported(&bench), named(&[("x.lock", 2), ("new.lock", 1)]));
}
