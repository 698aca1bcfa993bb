//! Tool calls: continuing, failing, running concurrently or alone.

use expect_test::expect;
use futures_util::future::BoxFuture;
use llm::{Message, ToolCall};
use serde_json::json;

use super::*;
use crate::hooks::{CallDecision, TurnDecision, TurnReport};
use crate::{Hooks, Messages, TerminationReason};

#[tokio::test]
async fn the_content_decides_whether_the_loop_continues() {
    let mut first = calls(&[call("a", "t", json!({"n": 1}))]);
    first["stop_reason"] = json!("stop");
    let expecting =
        json!({"expect": {"last_role": "toolResult", "last_contains": ["{\"n\":1}"]}, "text": "ok"});
    let (outcome, _) = setup(&[first, expecting]).tool(echo("t")).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::NoToolCalls, 2));
}

#[tokio::test]
async fn a_failed_response_runs_no_tool_and_reads_no_queue() {
    let mut first = calls(&[call("a", "t", json!({}))]);
    first["error"] = json!("it broke");
    let running = setup(&[first, text("after")]).tool(echo("t")).start();
    running.session.follow_up(Message::user("later")).await;
    // The message arrives while the model answers.
    let steer = async {
        running.events.wait_for("start Assistant").await;
        running.session.steer(Message::user("change")).await;
    };
    let (outcome, ()) = tokio::join!(running.prompt("go"), steer);
    assert_eq!(outcome.reason, TerminationReason::Error);
    assert!(!running.shown().iter().any(|it| it.starts_with("tool_start")));
    assert_eq!(running.model.unused(), 1, "the queues wait for the next run");
    let queued: Vec<String> = running.session.queued().iter().map(Message::text).collect();
    assert_eq!(queued, ["change", "later"]);
}

#[tokio::test]
async fn a_response_cut_at_its_limit_runs_no_call() {
    for args in [
        json!({"id": "a", "name": "t", "arguments": {}}),
        json!({"id": "a", "name": "t", "arguments_text": "{\"n\": 1, \"te"}),
    ] {
        let first = json!({"tool_calls": [args], "stop_reason": "length"});
        let counting = tool("t", |_, _| panic!("must not run"));
        let (outcome, running) = setup(&[first, text("ok")]).tool(counting).run().await;
        let results = running.results(&outcome);
        assert!(results[0].1, "{results:?}");
        expect![[r#"
            The call was cut at the limit of output tokens and not executed. Make a smaller call, or several."#]]
        .assert_eq(&results[0].0);
        assert!(running.shown().contains(&"tool_end a error".to_owned()));
    }
    let (outcome, _) = setup(&[json!({"text": "cut", "stop_reason": "length"})]).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::NoToolCalls, 1));
}

#[tokio::test]
async fn a_cut_or_empty_answer_is_reported() {
    let cut = json!({"text": "half an ans", "stop_reason": "length"});
    let (worked, nothing) = (calls(&[call("a", "t", json!({}))]), json!({"text": " "}));
    let check = async |script: &[Value], expected: Option<&str>, notices: usize| {
        let (outcome, running) = setup(script).tool(echo("t")).run().await;
        assert_eq!(outcome.reason, TerminationReason::NoToolCalls);
        match (expected, &outcome.error) {
            (None, None) => {}
            (Some(words), Some(error)) if error.contains(words) => {}
            (_, error) => panic!("{error:?} is not {expected:?}"),
        }
        assert_eq!(running.shown().iter().filter(|it| *it == "notice").count(), notices, "{script:?}");
        outcome.final_text
    };
    assert_eq!(check(std::slice::from_ref(&cut), Some("limit of output tokens"), 0).await, "half an ans");
    check(&[worked.clone(), cut], Some("limit of output tokens"), 0).await;
    check(&[json!({"stop_reason": "length"})], Some("limit of output tokens"), 0).await;
    check(std::slice::from_ref(&nothing), Some(crate::NO_ANSWER), 0).await;
    // The request may have been fulfilled by the calls.
    check(&[worked.clone(), nothing], None, 1).await;
    check(&[worked, text("ok")], None, 0).await;
}

fn ending(name: &str) -> TestTool {
    tool(name, |_, _| Box::pin(async { ToolResult { terminate: true, ..ToolResult::text("end") } }))
}

#[tokio::test]
async fn a_batch_ends_the_run_only_if_every_result_agrees() {
    let both = calls(&[call("a", "end", json!({})), call("b", "end", json!({}))]);
    let (outcome, running) = setup(&[both]).tool(ending("end")).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::TerminatedByTools, 1));
    let stored = serde_json::to_string(&outcome.messages).unwrap();
    assert!(!stored.contains("terminate"), "b26");
    assert_eq!(running.results(&outcome).len(), 2);
    let one = calls(&[call("a", "end", json!({})), call("b", "t", json!({}))]);
    let (outcome, _) = setup(&[one, text("ok")]).tool(ending("end")).tool(echo("t")).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::NoToolCalls, 2));
}

#[tokio::test]
async fn a_queued_message_continues_after_a_terminating_batch() {
    let running = setup(&[calls(&[call("a", "end", json!({}))]), text("ok")]).tool(ending("end")).start();
    running.session.follow_up(Message::user("more")).await;
    assert_eq!(running.prompt("go").await.final_text, "ok");
}

#[tokio::test]
async fn invalid_calls_are_error_results() {
    let first = json!({"tool_calls": [
        call("a", "nosuch", json!({})),
        call("b", "t", json!({"n": "many"})),
        {"id": "c", "name": "t", "arguments_text": "{\"n\": }"},
        call("d", "t", json!({"n": "7"})),
    ]});
    let (outcome, running) = setup(&[first, text("ok")]).tool(echo("t")).run().await;
    let results = running.results(&outcome);
    assert_eq!(results[0], ("Tool nosuch not found; available: t".to_owned(), true));
    assert!(results[1].1 && results[2].1, "{results:?}");
    expect![[r#"
        Validation failed for tool "t":
          - n: "many" is not of type "integer"

        Received arguments: {"n":"many"}

        Validation failed for tool "t":
          - arguments: the arguments are not valid JSON: expected value at line 1 column 7

        Received arguments: {}"#]]
    .assert_eq(&format!("{}\n\n{}", results[1].0, results[2].0));
    assert_eq!(results[3], ("{\"n\":7}".to_owned(), false));
    // Only calls that ran have a duration, and a refused call ends before the next begins.
    let envelopes = running.events.envelopes.lock();
    let durations: Vec<(String, bool)> = envelopes
        .iter()
        .filter_map(|it| match &it.event {
            Event::ToolExecutionEnd { tool_call_id, duration_ms, .. } => {
                Some((tool_call_id.clone(), duration_ms.is_some()))
            }
            _ => None,
        })
        .collect();
    let expected = [("a", false), ("b", false), ("c", false), ("d", true)];
    assert_eq!(durations, expected.map(|(id, ran)| (id.to_owned(), ran)));
    drop(envelopes);
    let shown = running.shown();
    let at = |line: &str| shown.iter().position(|it| it == line).unwrap();
    assert!(at("tool_end a error") < at("tool_start b") && at("tool_end b error") < at("tool_start c"));
}

#[tokio::test]
async fn a_tool_that_panics_or_fails_never_ends_the_run() {
    let early = tool("early", |_, _| panic!("at once"));
    let late = tool("late", |_, _| {
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("in the future")
        })
    });
    let failing = tool("failing", |_, _| {
        Box::pin(async {
            ToolResult::error(policy::ErrorCode::StaleText, "read it again")
                .with_details(json!({"path": "a"}))
        })
    });
    let first = calls(&[
        call("a", "early", json!({})),
        call("b", "late", json!({})),
        call("c", "failing", json!({})),
    ]);
    let (outcome, running) = setup(&[first, text("ok")]).tool(early).tool(late).tool(failing).run().await;
    let results = running.results(&outcome);
    assert_eq!(results[0].0, "tool early failed because of a defect: at once");
    assert_eq!(results[1].0, "tool late failed because of a defect: in the future");
    assert_eq!(results[2], ("read it again".to_owned(), true));
    let Message::ToolResult(failed) = &outcome.messages[4] else { panic!("a result") };
    assert_eq!(failed.details, json!({"path": "a", "error": {"code": "stale_text"}}));
    assert_eq!(outcome.final_text, "ok");
}

#[tokio::test]
async fn calls_run_concurrently_and_are_answered_in_order() {
    // `slow` ends after `quick`, though it was called first.
    let done = Arc::new(tokio::sync::Semaphore::new(0));
    let released = done.clone();
    let slow = tool("slow", move |_, _| {
        let done = done.clone();
        Box::pin(async move {
            done.acquire().await.unwrap().forget();
            ToolResult::text("slow")
        })
    });
    let quick = tool("quick", move |_, _| {
        let released = released.clone();
        Box::pin(async move {
            released.add_permits(1);
            ToolResult::text("quick")
        })
    });
    let first = calls(&[call("a", "slow", json!({})), call("b", "quick", json!({}))]);
    let (outcome, running) = setup(&[first, text("ok")]).tool(slow).tool(quick).run().await;
    let shown = running.shown();
    let tools: Vec<&String> = shown.iter().filter(|it| it.starts_with("tool_")).collect();
    assert_eq!(tools[..2], ["tool_start a", "tool_start b"], "all are prepared first");
    let results: Vec<String> = running.results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert_eq!(results, ["slow", "quick"]);
}

fn guarded(name: &str, running: &Arc<AtomicUsize>) -> TestTool {
    let running = running.clone();
    tool(name, move |_, _| {
        let running = running.clone();
        Box::pin(async move {
            let before = running.fetch_add(1, Ordering::SeqCst);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            ToolResult::text(if before == 0 { "alone" } else { "together" })
        })
    })
}

#[tokio::test]
async fn unknown_writes_run_alone_and_reads_together() {
    let count = Arc::new(AtomicUsize::new(0));
    let alone = TestTool { writes: Writes::Unknown, ..guarded("alone", &count) };
    let first = calls(&[
        call("r1", "meet", json!({})),
        call("r2", "meet", json!({})),
        call("w1", "alone", json!({})),
        call("w2", "alone", json!({})),
        call("r3", "read", json!({})),
    ]);
    let (outcome, running) = setup(&[first, text("ok")])
        .tool(meeting("meet", 2))
        .tool(alone)
        .tool(guarded("read", &count))
        .run()
        .await;
    let results: Vec<String> = running.results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert_eq!(results, ["met", "met", "alone", "alone", "alone"]);
}

#[tokio::test]
async fn a_command_runs_alone_whatever_it_writes() {
    let count = Arc::new(AtomicUsize::new(0));
    let executing = TestTool { executes: true, ..guarded("executing", &count) };
    let first = calls(&[
        call("r1", "read", json!({})),
        call("x1", "executing", json!({})),
        call("x2", "executing", json!({})),
        call("r2", "read", json!({})),
    ]);
    let setup = setup(&[first, text("ok")]).tool(executing).tool(guarded("read", &count));
    let (outcome, running) = setup.run().await;
    let results: Vec<String> = running.results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert_eq!(results, ["alone"; 4]);
}

#[tokio::test]
async fn conflicting_calls_keep_their_order() {
    let count = Arc::new(AtomicUsize::new(0));
    let place = |path: &str| Writes::Paths(vec![paths::AbsPath::new(path).unwrap()]);
    let writes = |name: &str, path: &str| TestTool { writes: place(path), ..guarded(name, &count) };
    let first = calls(&[
        call("w1", "directory", json!({})),
        call("w2", "file", json!({})),
        call("r", "read", json!({})),
        call("w3", "file", json!({})),
        call("a", "meet_a", json!({})),
        call("b", "meet_b", json!({})),
    ]);
    let (a, b) = (meeting("meet_a", 1), meeting("meet_b", 1));
    let (outcome, running) = setup(&[first, text("ok")])
        .tool(writes("directory", "/p/d"))
        .tool(writes("file", "/p/d/x"))
        .tool(guarded("read", &count))
        .tool(TestTool { writes: place("/p/a"), ..a })
        .tool(TestTool { writes: place("/p/b"), ..b })
        .run()
        .await;
    let results: Vec<String> = running.results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert_eq!(results, ["alone", "alone", "alone", "alone", "met", "met"]);
}

#[tokio::test]
async fn one_sequential_tool_makes_the_batch_sequential() {
    let count = Arc::new(AtomicUsize::new(0));
    let sequential = TestTool { mode: ExecutionMode::Sequential, ..guarded("s", &count) };
    let first = calls(&[call("a", "p", json!({})), call("b", "s", json!({})), call("c", "p", json!({}))]);
    let (_, running) = setup(&[first, text("ok")]).tool(sequential).tool(guarded("p", &count)).run().await;
    let shown = running.shown();
    let start = shown.iter().position(|it| it == "tool_start a").unwrap();
    let one = |id: &str| {
        [
            format!("tool_start {id}"),
            format!("tool_end {id}"),
            "start ToolResult".into(),
            "end toolResult: alone".into(),
        ]
    };
    assert_eq!(shown[start..start + 12], [one("a"), one("b"), one("c")].concat());
}

struct TestHooks;

impl Hooks for TestHooks {
    fn before_tool_call<'a>(
        &'a self,
        call: &'a ToolCall,
        args: &'a Value,
        messages: &'a Messages,
    ) -> BoxFuture<'a, Result<CallDecision, String>> {
        Box::pin(async move {
            assert!(matches!(messages.last(), Some(Message::Assistant(_))), "b72");
            match args["text"].as_str() {
                Some("block") => Ok(CallDecision::Block { reason: String::new(), terminate: false }),
                Some("fail") => Err("the hook failed".to_owned()),
                Some("panic") => panic!("a defect of {}", call.name),
                _ => Ok(CallDecision::Proceed),
            }
        })
    }

    fn after_tool_call<'a>(
        &'a self,
        _: &'a ToolCall,
        args: &'a Value,
        result: ToolResult,
    ) -> BoxFuture<'a, Result<ToolResult, String>> {
        Box::pin(async move {
            match args["text"].as_str() {
                Some("replace") => Ok(ToolResult { terminate: false, ..ToolResult::text("replaced") }),
                Some("after fails") => Err("the second hook failed".to_owned()),
                _ => Ok(result),
            }
        })
    }
}

#[tokio::test]
async fn hooks_block_replace_and_fail() {
    let texts = ["block", "fail", "panic", "replace", "after fails", "plain"];
    let first: Vec<Value> = texts.iter().map(|it| call(it, "t", json!({"text": it}))).collect();
    let (outcome, running) = setup(&[calls(&first), text("ok")]).tool(echo("t")).hooks(TestHooks).run().await;
    let expected = [
        ("Tool execution was blocked", true),
        ("the hook failed", true),
        ("tool t failed because of a defect: a defect of t", true),
        ("replaced", false),
        ("the second hook failed", true),
        ("{\"text\":\"plain\"}", false),
    ];
    assert_eq!(running.results(&outcome), expected.map(|(text, error)| (text.to_owned(), error)));
}

struct Finishing(TurnDecision);

impl Hooks for Finishing {
    fn finish_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, TurnDecision> {
        assert_eq!(report.results.len(), report.message.tool_calls().count(), "b27");
        Box::pin(async { self.0 })
    }
}

#[tokio::test]
async fn finish_turn_can_end_a_run_and_leaves_the_queues() {
    let running = setup(&[calls(&[call("a", "t", json!({}))]), text("not asked")])
        .tool(echo("t"))
        .hooks(Finishing(TurnDecision::End))
        .start();
    running.session.follow_up(Message::user("later")).await;
    assert_eq!(running.prompt("go").await.turns, 1);
    assert_eq!(running.model.unused(), 1);
}

#[tokio::test]
async fn a_hook_that_always_continues_meets_the_turn_limit() {
    let script: Vec<Value> = (0..4).map(|_| text("again")).collect();
    let limits = Limits { turns: 4, ..Limits::default() };
    let (outcome, _) = setup(&script).hooks(Finishing(TurnDecision::Continue)).limits(limits).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::TurnLimit, 4));
}

#[tokio::test]
async fn the_turn_limit_ends_a_model_that_never_stops() {
    let script: Vec<Value> = (0..3).map(|at| calls(&[call(&format!("c{at}"), "t", json!({}))])).collect();
    let limits = Limits { turns: 3, ..Limits::default() };
    let (outcome, running) = setup(&script).tool(echo("t")).limits(limits).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::TurnLimit, 3));
    assert_eq!(running.results(&outcome).len(), 3, "every call is answered");
    assert_eq!(Limits::default().turns, 200);
}

#[tokio::test]
async fn tool_names_are_unique_and_definitions_serialize_identically() {
    let tools = || ["b", "a"].map(|name| Arc::new(echo(name)) as Arc<dyn Tool>);
    let registry = Registry::new(tools()).unwrap();
    assert_eq!(registry.names(), ["b", "a"]);
    let bytes = |registry: &Registry| serde_json::to_string(&registry.definitions()).unwrap();
    assert_eq!(bytes(&registry), bytes(&Registry::new(tools()).unwrap()));
    let twice = Registry::new(tools().into_iter().chain(tools())).err();
    assert_eq!(twice, Some(crate::RegistryError::Duplicate { name: "b".to_owned() }));
}

#[test]
fn a_tool_is_found_in_another_case_and_namespace() {
    let registry = Registry::new(["read", "Read_2", "MCP"].map(|name| Arc::new(echo(name)) as Arc<dyn Tool>));
    let registry = registry.unwrap();
    let found = |name: &str| registry.get(name).map(|tool| tool.definition().name.clone());
    for name in ["read", "Read", "functions.read", "default_api:READ", "tools/read "] {
        assert_eq!(found(name).as_deref(), Some("read"), "{name}");
    }
    assert_eq!(found("write"), None);
    assert_eq!(found("read.other"), None);
    let twins = Registry::new(["a", "A"].map(|name| Arc::new(echo(name)) as Arc<dyn Tool>)).unwrap();
    assert!(twins.get("a").is_some() && twins.get("x.a").is_none());
}

#[tokio::test]
async fn a_call_is_stored_with_the_name_of_its_tool() {
    let call = calls(&[call("1", "functions.Echo", json!({}))]);
    let running = setup(&[call, text("done")]).tool(echo("echo")).start();
    running.prompt("go").await;
    let sent = running.model.requests()[1].messages.to_vec();
    let stored = running.session.messages().await.unwrap();
    for messages in [sent, stored] {
        let names: Vec<String> = messages
            .iter()
            .filter_map(|message| match message {
                Message::Assistant(message) => message.tool_calls().next().map(|call| call.name.clone()),
                Message::ToolResult(result) => Some(result.tool_name.clone()),
                Message::User(_) => None,
            })
            .collect();
        assert_eq!(names, ["echo", "echo"]);
    }
}
