//! Logs of servers that have ended.

use std::time::{Duration, Instant};

use lsp_client::{ServerLog, ServerLogState};
use serde_json::json;
use testing::language_server::{Script, Step};

use crate::bench::{Bench, LONG, bench, build, cx};

const KEY: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

fn hovers() -> Script {
    Script::new(json!({"hoverProvider": true, "definitionProvider": true, "textDocumentSync": 2}))
        .on("textDocument/hover", [Step::Result(json!({"contents": "${text}"}))])
}

/// The stored logs, once `so` accepts them.
async fn kept(bench: &Bench, so: impl Fn(&[ServerLog]) -> bool) -> Vec<ServerLog> {
    let started = Instant::now();
    loop {
        let logs = bench.pool.logs(None);
        if so(&logs) {
            return logs;
        }
        assert!(started.elapsed() < LONG, "{logs:#?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn said(log: &ServerLog) -> String {
    log.traffic.iter().map(|entry| format!("{entry}\n")).collect()
}

#[tokio::test]
async fn a_server_that_has_ended_has_a_log() {
    let text = format!("the key is {KEY}.");
    let script = hovers().at_start(Step::Stderr(format!("reading the project with {KEY}\nhalf a li")));
    let bench = bench(&[("a.txt", &text)], script);
    assert!(bench.pool.logs(None).is_empty());
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let live = &bench.pool.logs(None)[0];
    assert_eq!(live.life, ServerLogState::Runs);
    bench.pool.shutdown(Duration::from_secs(10)).await;

    let logs = bench.pool.logs(Some("scripted"));
    let [log] = &logs[..] else { panic!("{logs:#?}") };
    let ServerLogState::Ended(end) = &log.life else { panic!("{log:#?}") };
    assert_eq!((end.crashed, end.why.as_str()), (false, "Pilcrow ended"));
    assert_eq!((log.name.as_str(), &log.root), ("scripted", bench.workspace.root()));
    assert_eq!(log.stderr_tail, "reading the project with [redacted:github-token]\nhalf a li");
    let messages = said(log);
    for method in ["\"initialize\"", "textDocument/didOpen", "textDocument/hover", "\"exit\""] {
        assert!(messages.contains(method), "{method}: {messages}");
    }
    assert!(messages.contains("[redacted:github-token]") && !messages.contains(KEY), "{messages}");
    assert_eq!(log.directory, live.directory);
    assert!(bench.pool.logs(Some("another")).is_empty());
}

#[tokio::test]
async fn the_last_crash_is_listed_besides_the_running_server() {
    let script = hovers()
        .on("textDocument/definition", [Step::Stderr("panic: out of memory\n".into()), Step::Crash(3)]);
    let bench = bench(&[("a.txt", "abc")], script);
    let doc = bench.doc("a.txt");
    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    bench.pool.definition(&doc, 0, &cx(LONG)).await.unwrap_err();
    // Pilcrow has sent no request since.
    let log = &bench.pool.logs(None)[0];
    assert!(matches!(&log.life, ServerLogState::Ended(end) if end.crashed), "{log:#?}");
    let burns = |tail: &str| tail.lines().any(|line| line == "panic: out of memory");
    assert!(burns(&log.stderr_tail) && said(log).contains("textDocument/definition"));

    bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
    let logs = kept(
        &bench,
        |logs| matches!(logs, [_, crash] if matches!(&crash.life, ServerLogState::Ended(end) if end.crashed)),
    );
    let [live, crash] = &logs.await[..] else { unreachable!() };
    assert_eq!(live.life, ServerLogState::Runs);
    let ServerLogState::Ended(end) = &crash.life else { unreachable!() };
    assert_eq!(end.why, "exit status: 3");
    assert!(burns(&crash.stderr_tail) && said(crash).contains("textDocument/definition"));
    assert!(!said(live).contains("textDocument/definition"));
    // The crash stays listed after the other server has ended too.
    for _ in 0..3 {
        bench.pool.hover(&doc, 0, &cx(LONG)).await.unwrap();
        bench.pool.reload(None, None, &cx(LONG)).await.unwrap();
    }
    bench.pool.shutdown(Duration::from_secs(10)).await;
    let logs = bench.pool.logs(None);
    let ends = logs.iter().map(|log| match &log.life {
        ServerLogState::Ended(end) => end.why.as_str(),
        _ => "none",
    });
    assert_eq!(ends.collect::<Vec<_>>(), ["Pilcrow ended", "exit status: 3"]);
    let kept = bench.workspace.state().child("servers").unwrap().list().unwrap();
    assert_eq!(kept.len(), 4, "the last two logs and the crash are stored");
}

#[tokio::test]
async fn a_server_that_never_started_has_a_log() {
    let script = hovers().on("initialize", [Step::Stderr("no licence".into()), Step::Crash(1)]);
    let bench = bench(&[("a.txt", "abc")], script);
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap_err();
    let ended = |log: &ServerLog| matches!(&log.life, ServerLogState::Ended(end) if end.crashed);
    let logs = kept(&bench, |logs| matches!(logs, [log] if ended(log))).await;
    assert!(logs[0].stderr_tail.contains("no licence") && said(&logs[0]).contains("initialize"));
}

#[tokio::test]
async fn the_reason_of_an_end_is_logged() {
    let bench = build(&[("a.txt", "abc")], vec![("scripted", hovers(), "")], |limits| {
        limits.idle = Duration::from_millis(50);
    });
    bench.pool.hover(&bench.doc("a.txt"), 0, &cx(LONG)).await.unwrap();
    let idle = |log: &ServerLog| matches!(&log.life, ServerLogState::Ended(end) if end.why == "it was idle");
    kept(&bench, |logs| matches!(logs, [log] if idle(log))).await;
}
