//! Misbehaviour of adapters, observed or worse, with one test for each kind.

use std::time::{Duration, Instant};

use dap_client::{Category, DapError, End, Need, State};
use serde_json::{Value, json};
use testing::debug_adapter::{Script, Step};

use crate::bench::{Bench, clock, stopped_or_ended, within};

fn terminated(session: &dap_client::Session) -> End {
    match session.state() {
        State::Terminated(end) => end,
        other => panic!("{other:?}"),
    }
}

/// Runs a session to a stop, steps, inspects, and ends it.
async fn works(script: Script) -> Bench {
    let bench =
        Bench::new(script.on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")]));
    let session = bench.start().await;
    assert_eq!(stopped_or_ended(&session).await.name(), "stopped");
    session.run("next", None, &clock()).await.unwrap();
    assert_eq!(stopped_or_ended(&session).await.name(), "stopped");
    assert_eq!(session.stack(None, 0, 5, &clock()).await.unwrap().0[0].name, "main");
    session.terminate(&clock()).await;
    assert_eq!(terminated(&session).failure, None);
    assert!(!bench.adapter_lives());
    bench
}

#[tokio::test]
async fn late_duplicate_and_unknown_answers_are_ignored() {
    let body = json!({"threads": []});
    works(Script::new().on(
        "next",
        [
            Step::Body(json!({})),
            Step::Body(json!({"again": true})),
            Step::AnswerTo { request_seq: json!(1), body: body.clone() },
            Step::AnswerTo { request_seq: json!(9999), body: body.clone() },
            Step::AnswerTo { request_seq: json!("nonsense"), body },
            Step::stopped("step"),
        ],
    ))
    .await;
}

#[tokio::test]
async fn unknown_events_are_ignored() {
    works(
        Script::new()
            .on(
                "launch",
                [
                    Step::event("debugpySockets", json!({"sockets": [{"port": 1}]})),
                    Step::event("module", json!({"module": {"id": 7}})),
                    Step::event("output", json!({})),
                    Step::event("stopped", json!([])),
                    Step::event("thread", Value::Null),
                    Step::Body(json!({})),
                ],
            )
            .on("next", [Step::event("x-new", json!("text")), Step::Body(json!({})), Step::stopped("step")]),
    )
    .await;
}

#[tokio::test]
async fn initialized_before_the_launch_is_accepted() {
    let capabilities = Script::new().capabilities;
    works(Script::new().on("initialize", [Step::event("initialized", json!({})), Step::Body(capabilities)]))
        .await;
}

#[tokio::test]
async fn initialized_long_after_the_launch_is_accepted() {
    let script = Script::new()
        .on("initialize", [Step::Body(Script::new().capabilities)])
        .on("launch", [Step::Body(json!({})), Step::DelayMs(300), Step::event("initialized", json!({}))]);
    works(script).await;
}

#[tokio::test]
async fn a_launch_answer_after_the_configuration_is_accepted() {
    works(Script::new().on("launch", [Step::wait_for("configurationDone", 1), Step::Body(json!({}))])).await;
}

#[tokio::test]
async fn numbers_sent_as_strings_are_accepted() {
    let mut script = Script::new();
    script.string_ids = true;
    let ask = |seq| Step::Request { seq, command: "runInTerminal".into(), arguments: json!({"args": []}) };
    let script = script.on(
        "launch",
        [
            ask(json!("q-1")),
            Step::wait_for("response", 1),
            ask(json!(77)),
            Step::wait_for("response", 2),
            Step::Body(json!({})),
        ],
    );
    let bench = works(script).await;
    let answers: Vec<Value> = bench.record().into_iter().filter(|it| it["type"] == "response").collect();
    let ids: Vec<&Value> = answers.iter().map(|it| &it["request_seq"]).collect();
    assert_eq!(ids, [&json!("q-1"), &json!(77)], "each id returns unchanged");
    assert!(answers.iter().all(|it| it["success"] == false && it["message"].is_string()));
}

#[tokio::test]
async fn bytes_outside_messages_are_skipped() {
    let noise = [
        "Debugger attached.\n",
        "Content-Length: many\r\n\r\n{}",
        "Content-Length: 5\r\n\r\nhello",
        "Content-Length: 13\r\n\r\n{\"seq\":\"half\"",
    ];
    let noise = noise.map(|text| Step::Raw(text.into()));
    let [a, b, c, d] = noise;
    works(Script::new().on("next", [a, Step::Body(json!({})), b, c, d, Step::stopped("step")])).await;
}

#[tokio::test]
async fn an_end_without_exited_is_accepted() {
    let bench = Bench::new(Script::new().on(
        "configurationDone",
        [Step::Body(json!({})), Step::output("done"), Step::event("terminated", Value::Null)],
    ));
    let session = bench.start().await;
    assert_eq!(stopped_or_ended(&session).await, State::Terminated(End::default()));
    assert_eq!(session.output(0).pieces[0].text, "done\n");
}

#[tokio::test]
async fn output_after_the_last_answer_is_kept() {
    let script = Script::new()
        .on(
            "configurationDone",
            [
                Step::Body(json!({})),
                Step::event("exited", json!({"exitCode": 0})),
                Step::event("terminated", Value::Null),
            ],
        )
        .on("disconnect", [Step::Body(json!({})), Step::DelayMs(50), Step::output("last words")]);
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    assert_eq!(session.output(0).pieces[0].text, "last words\n");
}

/// gdb reads its program's output line by line in its own thread.
#[tokio::test]
async fn late_output_of_an_adapter_thread_is_kept() {
    let late = |line: &str| {
        let output = format!("{line}${{arguments.expression}}\n");
        [
            Step::Body(json!({"result": "", "variablesReference": 0})),
            Step::DelayMs(50),
            Step::event("output", json!({"category": "stdout", "output": output})),
        ]
    };
    let script = Script::new()
        .on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
        .on("evaluate", late("before the stop"))
        .on("evaluate", late("the end"))
        .on(
            "continue",
            [
                Step::Body(json!({})),
                Step::event("exited", json!({"exitCode": 0})),
                Step::event("terminated", Value::Null),
            ],
        );
    let bench = Bench::with(script, "quirks.output_fence = \"${mark}\"", &[]);
    let session = bench.start().await;
    bench.sessions.wait_for_stop(&session, &clock()).await.unwrap();
    let text = |session: &dap_client::Session| {
        session.output(0).pieces.into_iter().map(|it| it.text).collect::<String>()
    };
    assert_eq!(text(&session), "before the stop");
    let user = crate::hub::UserClient::joined(&session).await;
    session.run("continue", None, &clock()).await.unwrap();
    bench.sessions.wait_for_stop(&session, &clock()).await.unwrap();
    assert_eq!(text(&session), "before the stopthe end");
    assert_eq!(user.wrote().await, ["before the stop", "the end"]);
}

#[tokio::test]
async fn exited_after_the_end_is_still_handled() {
    let bench = Bench::new(
        Script::new()
            .on("configurationDone", [Step::Body(json!({})), Step::event("terminated", Value::Null)])
            .on("disconnect", [Step::event("exited", json!({"exitCode": 4})), Step::Body(json!({}))]),
    );
    let session = bench.start().await;
    assert_eq!(
        stopped_or_ended(&session).await,
        State::Terminated(End { exit_code: Some(4), ..End::default() })
    );
}

#[tokio::test]
async fn death_at_each_stage_is_reported_with_the_last_output() {
    let dies = |text: &str| vec![Step::Stderr(format!("oh no: {text}\n")), Step::Crash(3)];
    let mut reports = Vec::new();
    for command in ["initialize", "launch", "setBreakpoints", "configurationDone"] {
        let bench = Bench::new(Script::new().on(command, dies(command)));
        reports.push(bench.refused().await);
        assert!(!bench.adapter_lives());
    }
    expect_test::expect![[r#"
        scripted: it ended unexpectedly (exit status: 3); its last output:
          oh no: initialize
        scripted: it ended unexpectedly (exit status: 3); its last output:
          oh no: launch
        scripted: it ended unexpectedly (exit status: 3); its last output:
          oh no: setBreakpoints
        scripted: it ended unexpectedly (exit status: 3); its last output:
          oh no: configurationDone"#]]
    .assert_eq(&reports.join("\n"));
    let mut script = Script::new();
    script.start = dies("at the start");
    let said = Bench::new(script).refused().await;
    assert!(said.lines().any(|line| line.trim() == "oh no: at the start"), "{said}");

    // During a request, all waiting requests end at once, with the reason.
    let script = Script::new()
        .on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
        .on("stackTrace", dies("stackTrace"));
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let begin = Instant::now();
    let said = session.stack(None, 0, 20, &clock()).await.unwrap_err().to_string();
    let is_last_output = |said: &str| said.lines().any(|line| line.trim() == "oh no: stackTrace");
    assert!(is_last_output(&said), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert!(terminated(&session).failure.is_some_and(|why| is_last_output(&why)));
}

#[tokio::test]
async fn an_adapter_that_never_gets_ready_is_ended_at_the_deadline() {
    let bench = Bench::new(Script::new().on("initialize", [Step::Body(json!({}))]));
    let start = bench.start_plan(&bench.plan(|_| ()), &within(Duration::from_millis(500))).await;
    let error = start.map(|_| ()).unwrap_err();
    let said = "scripted: it did not report in time that it is initialized; Pilcrow ended it; start it again";
    assert_eq!((error.to_string().as_str(), error.code()), (said, policy::ErrorCode::Timeout));
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn an_adapter_that_never_answers_is_reported_as_ended() {
    let bench = Bench::new(Script::new().on("initialize", [Step::wait_for("never", 1)]));
    let start = bench.start_plan(&bench.plan(|_| ()), &within(Duration::from_millis(500))).await;
    let error = start.map(|_| ()).unwrap_err();
    let said = "scripted: it did not answer `initialize` in time; Pilcrow ended it; start it again";
    assert_eq!((error.to_string().as_str(), error.code()), (said, policy::ErrorCode::Timeout));
}

#[tokio::test]
async fn ending_the_program_is_answered_by_a_silent_adapter_too() {
    let mut script = Script::new()
        .on("terminate", [Step::wait_for("never", 1)])
        .on("disconnect", [Step::wait_for("never", 1)]);
    script.capabilities["supportsTerminateRequest"] = json!(true);
    let bench = Bench::new(script);
    let session = bench.start().await;
    let mut user = crate::hub::UserClient::joined(&session).await;
    assert!(user.ask("terminate", json!({})).await.success());
    tokio::time::timeout(crate::bench::LONG, session.ended()).await.unwrap();
    assert_eq!(terminated(&session).failure, None);
    let record = bench.record();
    let sent = record.iter().find(|it| it["command"] == "disconnect").unwrap();
    assert_eq!(sent["arguments"]["terminateDebuggee"], true);
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_refused_launch_is_reported_in_the_adapters_words() {
    let bench = Bench::new(Script::new().on("launch", [Step::Fail("no such program".into())]));
    assert_eq!(bench.refused().await, "scripted refused `launch`: no such program");
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_hundred_thousand_lines_of_output_stay_bounded() {
    let bench = Bench::new(Script::new().on(
        "configurationDone",
        [
            Step::Body(json!({})),
            Step::Repeat { count: 100_000, steps: vec![Step::output("a line of output")] },
            Step::event("output", json!({"category": "telemetry", "output": "secret"})),
            Step::event("output", json!({"category": "stderr", "output": "the last\n"})),
            Step::stopped("breakpoint"),
        ],
    ));
    let session = bench.start().await;
    // A busy machine needs this much time.
    let state = session.wait_for_stop(&within(Duration::from_secs(150))).await.unwrap();
    assert_eq!(state.name(), "stopped");
    let output = session.output(0);
    let stored: usize = output.pieces.iter().map(|piece| piece.text.len()).sum();
    assert!(stored <= 256 * 1024, "{stored}");
    assert_eq!(output.dropped + stored as u64, 100_000 * 17 + 9);
    let last = output.pieces.last().unwrap();
    assert_eq!((last.category, last.text.as_str()), (Category::Stderr, "the last\n"));
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn an_adapter_that_ignores_disconnect_is_ended() {
    let script = Script::new().on("disconnect", [Step::wait_for("never", 1)]);
    let bench = Bench::new(script);
    let session = bench.start().await;
    session.terminate(&clock()).await;
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_start_that_is_dropped_leaves_nothing() {
    let bench = Bench::new(Script::new().on("initialize", [Step::wait_for("never", 1)]));
    let plan = bench.plan(|_| ());
    let clock = clock();
    {
        let mut start = std::pin::pin!(bench.start_plan(&plan, &clock));
        while bench.record().is_empty() {
            tokio::select! {
                _ = &mut start => panic!("a dropped start does not continue"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let session = bench.sessions.get(None, &workspace::RunId::new()).unwrap();
    tokio::time::timeout(crate::bench::LONG, session.ended()).await.unwrap();
    assert!(!bench.adapter_lives());
}

#[tokio::test]
async fn a_request_without_its_capability_is_not_sent() {
    let script = Script::new().on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")]);
    let never = || [Step::wait_for("never", 1)];
    let script = script.on("stepBack", never()).on("readMemory", never());
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    for command in ["stepBack", "readMemory", "cancel"] {
        let answer = session.ask(command, json!({}), Need::NotTerminated, &clock()).await;
        let error = answer.unwrap_err();
        assert_eq!(error.code(), policy::ErrorCode::Unsupported, "{error}");
    }
    let error = session.run_raw("stepBack", json!({"threadId": 1}), &clock()).await.unwrap_err();
    assert_eq!((error.code(), session.state().name()), (policy::ErrorCode::Unsupported, "stopped"));
    let mut user = crate::hub::UserClient::joined(&session).await;
    for command in ["stepBack", "readMemory"] {
        let refused = user.ask(command, json!({"threadId": 1})).await;
        assert_eq!(
            (refused.success(), refused.value("message")),
            (false, json!("notSupported")),
            "{command}"
        );
    }
    assert!(session.in_control("continue").is_ok(), "a refused request takes no control");
    session.terminate(&clock()).await;
}

#[tokio::test]
async fn an_adapter_that_answers_nothing_is_reported() {
    let never = || [Step::wait_for("never", 1)];
    let script = Script::new()
        .on("configurationDone", [Step::Body(json!({})), Step::stopped("breakpoint")])
        .on("evaluate", never())
        .on("threads", never());
    let bench = Bench::new(script);
    let session = bench.start().await;
    stopped_or_ended(&session).await;
    let asked = session.evaluate("n", None, "watch", &within(Duration::from_millis(100))).await;
    assert!(matches!(asked, Err(DapError::Unresponsive { .. })), "{asked:?}");
    assert!(session.is_unresponsive());
    // Another request fails without its own deadline, and names the first one.
    let asked = session.ask("scopes", json!({}), Need::NotTerminated, &clock()).await;
    assert!(
        matches!(&asked, Err(DapError::Unresponsive { command, .. }) if command == "evaluate"),
        "{asked:?}"
    );
    session.terminate(&clock()).await;
    assert!(!bench.adapter_lives());
}
