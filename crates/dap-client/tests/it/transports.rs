//! Transports to an adapter, and adapters that are slow or never ready.

use std::time::Duration;

use paths::StateDir;
use testing::debug_adapter::{Script, Step};

use crate::bench::{Bench, clock, stopped_or_ended, within};

async fn reached(bench: &Bench) {
    let session = bench.start().await;
    session.threads(&clock()).await.unwrap();
    session.terminate(&clock()).await;
    assert_eq!(stopped_or_ended(&session).await.name(), "terminated");
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_port_that_opens_late_is_retried() {
    let script = Script::new().at_start(Step::DelayMs(300));
    reached(&Bench::with(script, "transport.kind = \"connect\"", &["--port", "${port}"])).await;
}

#[tokio::test]
async fn a_port_printed_late_among_other_words_is_found() {
    let script =
        Script::new().at_start(Step::Raw("Starting up on 2 cores\n".into())).at_start(Step::DelayMs(300));
    let more = "transport = { kind = \"connect\", announces = \"listening at\" }";
    reached(&Bench::with(script, more, &["--announce"])).await;
}

#[tokio::test]
async fn an_adapter_that_connects_to_pilcrow_is_accepted() {
    reached(&Bench::with(Script::new(), "transport.kind = \"listen\"", &["--connect", "${port}"])).await;
}

#[tokio::test]
async fn a_late_socket_is_used_and_removed() {
    let script = Script::new().at_start(Step::DelayMs(300));
    let bench = Bench::with(script, "transport.kind = \"socket\"", &["--socket", "${socket}"]);
    let directory = StateDir::new(bench.root.join("run"));
    bench.sessions.announce(directory.clone());
    let session = bench.start().await;
    let there = |session: &str| {
        let names = directory.list().unwrap();
        names.iter().filter(|it| it.ends_with(session)).count()
    };
    assert_eq!(there(".adapter"), 1);
    session.threads(&clock()).await.unwrap();
    session.terminate(&clock()).await;
    assert_eq!(stopped_or_ended(&session).await.name(), "terminated");
    assert!(!bench.adapter_lives());
    drop((session, bench));
    assert_eq!(there(".adapter"), 0);
}

#[tokio::test]
async fn an_exit_before_the_socket_is_open_is_reported() {
    let script = Script::new().at_start(Step::Stderr("no licence\n".into())).at_start(Step::Crash(5));
    let bench = Bench::with(script, "transport.kind = \"socket\"", &["--socket", "${socket}"]);
    let said = bench.refused().await;
    expect_test::expect![[r#"
        scripted: it ended before it could be reached (exit status: 5); its last output:
          no licence"#]]
    .assert_eq(&said);
}

#[tokio::test]
async fn an_exit_before_the_port_is_open_is_reported() {
    let script = Script::new().at_start(Step::Stderr("no licence\n".into())).at_start(Step::Crash(5));
    let bench = Bench::with(script, "transport.kind = \"connect\"", &["--port", "${port}"]);
    let said = bench.refused().await;
    expect_test::expect![[r#"
        scripted: it ended before it could be reached (exit status: 5); its last output:
          no licence"#]]
    .assert_eq(&said);
}

#[tokio::test]
async fn an_adapter_that_opens_no_port_is_ended_at_the_deadline() {
    let script = Script::new().at_start(Step::DelayMs(60_000));
    let bench = Bench::with(script, "transport.kind = \"listen\"", &["--connect", "${port}"]);
    let start = bench.start_plan(&bench.plan(|_| ()), &within(Duration::from_millis(500))).await;
    let error = start.map(|_| ()).unwrap_err();
    expect_test::expect!["scripted: it did not connect in time; Pilcrow ended it; start it again"]
        .assert_eq(&error.to_string());
    assert_eq!(error.code(), policy::ErrorCode::Timeout);
    assert!(!bench.adapter_lives());
}
