//! Check on save: diagnostics of exactly the requested saved files, or none.

use std::time::Duration;

use lsp_client::{SaveCheckError, SavedProblems, ServerError};
use serde_json::json;
use testing::language_server::{Script, Step};
use workspace::Editor;

use crate::bench::{Bench, LONG, bench, build, build_beside, build_in, cx, range};
use crate::real_servers::{DEADLINE, real_beside};
use crate::speculative::Typing;

const RULE: &str = "[diagnostics]\non_save = [\"cargo\"]\n\
    check = { method = \"x/check\", progress = \"x/check\", debounce_ms = 100 }\n";

fn work(kind: &str) -> Step {
    Step::notify("$/progress", json!({"token": "x/check/0", "value": {"kind": kind, "title": "check"}}))
}

fn found(message: &str) -> Step {
    let item = |source: &str| json!({"range": range(0, 0, 1), "source": source, "message": message});
    let diagnostics = json!([item("cargo"), item("own")]);
    Step::notify(
        "textDocument/publishDiagnostics",
        json!({"uri": "${root}/a.txt", "diagnostics": diagnostics}),
    )
}

fn script() -> Script {
    Script::new(json!({"textDocumentSync": 2, "hoverProvider": true}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "fine"}))])
}

async fn ask(bench: &Bench, deadline: Duration) -> Result<Vec<String>, SaveCheckError> {
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    let mut all = bench.pool.check_saved(&[&doc], &cx(deadline)).await.unwrap();
    assert_eq!(all.len(), 1);
    let found = all.remove(0).found?.files;
    Ok(found.into_values().flatten().map(|item| item.message).collect())
}

#[tokio::test]
async fn save_checks_end_with_their_work_or_shortly_after() {
    let script = script()
        .on("x/check", [work("begin"), found("part"), Step::DelayMs(300), work("end"), found("moved")])
        .on(
            "x/check",
            [
                work("begin"),
                Step::notify(
                    "textDocument/publishDiagnostics",
                    json!({
            "uri": "${root}/a.txt", "diagnostics": []}),
                ),
                work("end"),
            ],
        )
        .on(
            "x/check",
            [work("begin"), Step::DelayMs(300), work("end"), work("begin"), found("late"), work("end")],
        )
        .on("x/check", [work("begin")])
        .on("x/check", []);
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, RULE)], |_| ());
    assert_eq!(ask(&bench, LONG).await, Ok(vec!["moved".to_owned()]));
    assert_eq!(ask(&bench, LONG).await, Ok(Vec::new()));
    // A check that is replaced by another has no result.
    assert_eq!(ask(&bench, LONG).await, Ok(vec!["late".to_owned()]));
    let enough = Duration::from_secs(3);
    let unfinished = SaveCheckError::Unfinished { progress: Some("check".to_owned()) };
    assert_eq!(ask(&bench, enough).await, Err(unfinished));
    // The check of the same files is running, so it is not requested again.
    let short = Duration::from_millis(500);
    assert!(ask(&bench, short).await.is_err());
    assert_eq!(bench.got("scripted", "x/check").len(), 4);
    bench.write("a.txt", "b");
    assert!(ask(&bench, short).await.is_err());
    assert_eq!(bench.got("scripted", "x/check").len(), 5);
}

/// Covers Cargo, which does not check dependents of a failing crate.
#[tokio::test]
async fn failing_files_of_a_save_check_are_named() {
    let item = |severity: u8, source: &str| {
        let item = json!({"range": range(0, 0, 1), "severity": severity, "source": source, "message": "no"});
        json!([item])
    };
    let push = |name: &str, items: serde_json::Value| {
        Step::notify(
            "textDocument/publishDiagnostics",
            json!({"uri": format!("${{root}}/{name}"), "diagnostics": items}),
        )
    };
    let steps = [
        work("begin"),
        push("b.txt", item(1, "cargo")),
        push("c.txt", item(2, "cargo")),
        push("d.txt", item(1, "own")),
        work("end"),
    ];
    let bench = build(&[("a.txt", "a")], vec![("scripted", script().on("x/check", steps), RULE)], |_| ());
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    let found = bench.pool.check_saved(&[&doc], &cx(LONG)).await.unwrap().remove(0);
    assert!(found.asked.iter().eq([&doc.path]), "{:?}", found.asked);
    let SavedProblems { files, with_errors } = found.found.unwrap();
    assert!(files[&doc.path].is_empty(), "{files:?}");
    assert!(with_errors.iter().eq([&bench.path("b.txt")]), "{with_errors:?}");
}

/// Covers Cargo, which writes a missing `Cargo.lock`.
#[tokio::test]
async fn a_save_check_that_changes_files_is_repeated_once() {
    let directory = tempfile::tempdir().unwrap();
    let project = directory.path().canonicalize().unwrap().join("project");
    let writes = |name: &str| Step::EnsureFile(project.join(name));
    let script = script()
        .on("x/check", [work("begin"), writes("1.txt"), work("end")])
        .on("x/check", [work("begin"), found("now"), work("end")])
        .on("x/check", [work("begin"), writes("2.txt"), work("end")])
        .on("x/check", [work("begin"), writes("3.txt"), work("end")])
        .on("x/check", [work("begin"), writes("4.txt"), work("end")]);
    let bench = build_in(directory, &[("a.txt", "a")], vec![("scripted", script, RULE)], |_| ());
    assert_eq!(ask(&bench, LONG).await, Ok(vec!["now".to_owned()]));
    assert_eq!(bench.got("scripted", "x/check").len(), 2);
    assert_eq!(ask(&bench, LONG).await, Err(SaveCheckError::FilesChanged));
    assert_eq!(bench.got("scripted", "x/check").len(), 5);
}

/// Covers a reload that ends the running check without results (rust-analyzer).
#[tokio::test]
async fn a_save_check_ended_by_a_reload_does_not_count() {
    let rule = format!("{RULE}[ready]\nstatus_method = \"x/status\"\nstatus_field = \"quiet\"\n");
    let quiet = |quiet: bool| Step::notify("x/status", json!({"quiet": quiet}));
    let script = script()
        .on("initialized", [quiet(true)])
        .on("x/check", [work("begin"), quiet(false), work("end"), Step::DelayMs(500), quiet(true)])
        .on("x/check", [quiet(false), quiet(true), work("begin"), work("end")])
        .on("x/check", [work("begin"), found("now"), work("end")])
        .on("x/check", [quiet(false), quiet(true), work("begin"), work("end")]);
    let bench = build(&[("a.txt", "a")], vec![("scripted", script, &rule)], |_| ());
    assert_eq!(ask(&bench, LONG).await, Ok(vec!["now".to_owned()]));
    assert_eq!(bench.got("scripted", "x/check").len(), 3);
    assert_eq!(ask(&bench, LONG).await, Err(SaveCheckError::Reloaded));
}

#[tokio::test]
async fn save_checks_need_saved_files_and_follow_changes() {
    let script = script()
        .on("x/check", [work("begin"), found("old"), Step::wait_for("textDocument/hover", 2), work("end")]);
    let typing = Typing::new();
    let editor: std::sync::Arc<dyn Editor> = std::sync::Arc::<Typing>::clone(&typing);
    let files = [("a.txt", "a"), ("b.txt", "b")];
    let bench = build_beside(&files, vec![("scripted", script, RULE)], Some(editor), |_| ());
    let change = async {
        let record = bench.beside("scripted.record");
        let asked = move || std::fs::read_to_string(&record).unwrap_or_default().contains("x/check");
        crate::bench::until(asked, "the look").await;
        bench.write("b.txt", "bb");
        bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&bench, LONG), change);
    assert_eq!(answer, Ok(vec!["old".to_owned()]));
    assert_eq!(bench.got("scripted", "x/check").len(), 2);
    typing.types(&bench.path("b.txt"), "typed");
    assert_eq!(ask(&bench, LONG).await, Err(SaveCheckError::Unsaved(bench.path("b.txt"))));
    assert_eq!(bench.got("scripted", "x/check").len(), 2);
}

/// Opens the changed file before its change is found.
#[tokio::test]
async fn changes_during_a_save_check_count_too() {
    let script =
        script().on("x/check", [work("begin"), Step::wait_for("textDocument/didOpen", 2), work("end")]);
    let bench = build(&[("a.txt", "a"), ("b.txt", "b")], vec![("scripted", script, RULE)], |_| ());
    let change = async {
        let record = bench.beside("scripted.record");
        let asked = move || std::fs::read_to_string(&record).unwrap_or_default().contains("x/check");
        crate::bench::until(asked, "the look").await;
        bench.write("b.txt", "bb");
        bench.pool.load(&bench.path("b.txt"), Some(&bench.doc("b.txt")), &cx(LONG)).await.unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&bench, LONG), change);
    assert_eq!(answer, Ok(Vec::new()));
    assert_eq!(bench.got("scripted", "x/check").len(), 2);
}

#[tokio::test]
async fn servers_without_save_checks_are_skipped() {
    let without = bench(&[("a.txt", "a")], script());
    let doc = without.doc("a.txt");
    without.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    assert!(without.pool.check_saved(&[&doc], &cx(LONG)).await.unwrap().is_empty());
    let bench = build(&[("a.txt", "a")], vec![("scripted", script().on("x/check", []), RULE)], |_| ());
    // A check without time to start does not count as one that did not start.
    let said = ask(&bench, Duration::from_millis(300)).await.unwrap_err();
    assert_eq!(said, SaveCheckError::Unfinished { progress: None });
    assert_eq!(ask(&bench, LONG).await, Err(SaveCheckError::NotStarted));
    let request = cx(LONG);
    let (doc, cancel) = (bench.doc("a.txt"), request.cancel.clone());
    let docs = [&doc];
    let (answer, ()) = tokio::join!(bench.pool.check_saved(&docs, &request), async { cancel.cancel() });
    assert!(matches!(answer, Err(ServerError::Cancelled)), "{answer:?}");
    // A check that did not start is awaited for a shorter time.
    let started = std::time::Instant::now();
    assert_eq!(ask(&bench, LONG).await, Err(SaveCheckError::NotStarted));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}

#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn rust_analyzer_runs_cargo_check() {
    let (good, bad) = ("    drop(text);\n", "    drop(text);\n    drop(text);\n");
    let text = |body: &str| format!("pub fn twice(text: String) {{\n{body}}}\n");
    let files = [
        ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.0.0\"\nedition = \"2021\"\n"),
        ("src/lib.rs", &text(bad)),
        ("src/main.rs", "fn main() {\n    x::twice(String::new());\n}\n"),
    ];
    let bench = real_beside(&["rust-analyzer"], &files, None);
    let own = bench.pool.diagnostics(&bench.doc("src/lib.rs"), &cx(DEADLINE)).await.unwrap().value;
    assert!(own.items.is_empty() && own.pending.is_empty(), "{own:?}");
    for turn in 0..4 {
        let is_bad = turn % 2 == 0;
        bench.write("src/lib.rs", &text(if is_bad { bad } else { good }));
        let (lib, main) = (bench.doc("src/lib.rs"), bench.doc("src/main.rs"));
        let started = std::time::Instant::now();
        let mut all = bench.pool.check_saved(&[&lib, &main], &cx(DEADLINE)).await.unwrap();
        println!("rust-analyzer, turn {turn}: Cargo was asked for {:?}", started.elapsed());
        let SavedProblems { files: found, with_errors } = all.remove(0).found.unwrap();
        assert_eq!(with_errors.contains(&lib.path), is_bad, "turn {turn}: {with_errors:?}");
        let codes: Vec<&str> = found[&lib.path].iter().filter_map(|item| item.code.as_deref()).collect();
        assert_eq!(codes.contains(&"E0382"), is_bad, "turn {turn}: {found:?}");
        assert!(found[&main.path].is_empty(), "turn {turn}: {found:?}");
    }
    // Without a Cargo result the file does not count as clean.
    bench.write(
        "Cargo.toml",
        "[package]\nname = \"x\"\nversion = \"0.0.0\"\n[dependencies]\ny = { path = \"../y\" }\n",
    );
    let lib = bench.doc("src/lib.rs");
    let all = bench.pool.check_saved(&[&lib], &cx(DEADLINE)).await.unwrap();
    println!("rust-analyzer: {all:?}");
    assert!(all[0].found.is_err(), "{all:?}");
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

/// Covers requests during which Cargo writes or rewrites `Cargo.lock`.
#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn rust_analyzer_reports_cargo_errors_of_a_fresh_project() {
    let manifest = |more: &str| {
        format!("[package]\nname = \"x\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n{more}")
    };
    let files = [
        ("Cargo.toml", manifest("")),
        ("src/lib.rs", "pub fn two() -> u8 { nope::d() }\n".to_owned()),
        ("dep/Cargo.toml", "[package]\nname = \"dep\"\nversion = \"0.0.0\"\n".to_owned()),
        ("dep/src/lib.rs", String::new()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let bench = real_beside(&["rust-analyzer"], &files, None);
    let ask = async |turn: &str| {
        let (started, doc) = (std::time::Instant::now(), bench.doc("src/lib.rs"));
        bench.pool.diagnostics(&doc, &cx(DEADLINE)).await.unwrap();
        let own = started.elapsed();
        let mut all = bench.pool.check_saved(&[&doc], &cx(DEADLINE)).await.unwrap();
        println!("rust-analyzer, {turn}: {own:?}, with Cargo {:?}", started.elapsed());
        let found = all.remove(0).found.unwrap().files;
        assert!(found[&doc.path].iter().any(|it| it.code.as_deref() == Some("E0433")), "{turn}: {found:?}");
    };
    ask("fresh").await;
    ask("again").await;
    bench.write("Cargo.toml", &manifest("[dependencies]\ndep = { path = \"dep\" }\n"));
    ask("a dependency").await;
    ask("again").await;
    bench.pool.shutdown(Duration::from_secs(10)).await;
}

/// Covers Cargo, which skips dependents of a failing crate.
#[tokio::test]
#[ignore = "slow: needs real tools; cargo xtask test runs it"]
async fn rust_analyzer_names_files_that_stop_cargo() {
    let package = |name: &str, more: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2021\"\n{more}")
    };
    let bad = "pub fn twice(text: String) {\n    drop(text);\n    drop(text);\n}\n";
    let files = [
        ("Cargo.toml", "[workspace]\nmembers = [\"a\", \"b\"]\nresolver = \"2\"\n"),
        ("a/Cargo.toml", &package("a", "")),
        ("a/src/lib.rs", bad),
        ("b/Cargo.toml", &package("b", "[dependencies]\na = { path = \"../a\" }\n")),
        ("b/src/lib.rs", bad),
    ];
    let bench = real_beside(&["rust-analyzer"], &files, None);
    let doc = bench.doc("b/src/lib.rs");
    bench.pool.diagnostics(&doc, &cx(DEADLINE)).await.unwrap();
    let ask = async || bench.pool.check_saved(&[&doc], &cx(DEADLINE)).await.unwrap().remove(0).found.unwrap();
    let SavedProblems { files, with_errors } = ask().await;
    println!("rust-analyzer: {} of b, errors in {with_errors:?}", files[&doc.path].len());
    assert!(with_errors.contains(&bench.path("a/src/lib.rs")), "{with_errors:?}");
    bench.write("a/src/lib.rs", "");
    let SavedProblems { files, with_errors } = ask().await;
    assert!(with_errors.iter().eq([&doc.path]), "{with_errors:?}");
    assert!(files[&doc.path].iter().any(|item| item.code.as_deref() == Some("E0382")), "{files:?}");
    bench.pool.shutdown(Duration::from_secs(10)).await;
}
