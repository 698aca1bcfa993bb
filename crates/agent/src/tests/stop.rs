//! Cancelling, the clocks, and the one reason a run ends with.

use llm::Message;
use serde_json::json;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::TerminationReason;

#[tokio::test]
async fn b53_cancel_while_the_model_streams_keeps_what_came() {
    let mut first = calls(&[call("a", "t", json!({}))]);
    first["text"] = json!("half");
    first["wait_for_cancel"] = json!(true);
    let running = setup(&[first]).tool(echo("t")).start();
    let prompt = running.prompt("go");
    let abort = async {
        running.events.wait_for("update").await;
        running.session.abort();
    };
    let (outcome, ()) = tokio::join!(prompt, abort);
    assert_eq!((outcome.reason, outcome.final_text.as_str()), (TerminationReason::Aborted, "half"));
    let shown = running.shown();
    assert_eq!(shown[shown.len() - 2..], ["turn_end 1 results=0 continue=false", "agent_end Aborted"]);
    assert!(!shown.iter().any(|it| it.starts_with("tool_start")));
    running.events.wait_for("settled aborted=true").await;
}

#[tokio::test]
async fn b54_b55_cancel_reaches_the_running_tool_and_spares_the_model() {
    let alone = TestTool { writes: Writes::Unknown, ..echo("alone") };
    let first = calls(&[call("a", "wait", json!({})), call("b", "alone", json!({}))]);
    let running = setup(&[first, text("must not be asked")]).tool(waiting("wait")).tool(alone).start();
    let cancel = CancellationToken::new();
    let prompt = running.session.prompt_messages(vec![Message::user("go")], cancel.clone());
    let abort = async {
        running.events.wait_for("tool_update a: running").await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(prompt, abort);
    assert_eq!(outcome.reason, TerminationReason::Aborted);
    let expected = [("stopped", false), ("Operation aborted", true)];
    assert_eq!(running.results(&outcome), expected.map(|(text, error)| (text.to_owned(), error)));
    assert_eq!(running.model.unused(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_ignores_cancel_is_dropped_after_the_grace() {
    let dropped = Arc::new(AtomicUsize::new(0));
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let counter = dropped.clone();
    let deaf = tool("deaf", move |_, cx| {
        let on_drop = OnDrop(counter.clone());
        Box::pin(async move {
            let _on_drop = on_drop;
            say_running(cx).await;
            std::future::pending().await
        })
    });
    let limits = Limits { cancel_grace: Duration::from_millis(200), ..Limits::default() };
    let running = setup(&[calls(&[call("a", "deaf", json!({}))])]).tool(deaf).limits(limits).start();
    let prompt = running.prompt("go");
    let abort = async {
        running.events.wait_for("tool_update a: running").await;
        running.session.abort();
        Instant::now()
    };
    let (outcome, cancelled) = tokio::join!(prompt, abort);
    let took = cancelled.elapsed();
    assert!(took >= limits.cancel_grace && took < Duration::from_secs(2), "{took:?}");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert_eq!(outcome.reason, TerminationReason::Aborted);
    assert!(running.results(&outcome)[0].0.starts_with("Operation aborted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_is_named_and_left_behind() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let running_now = Arc::new(tokio::sync::Semaphore::new(0));
    let started = running_now.clone();
    let blocking = tool("blocking", move |_, _| {
        started.add_permits(1);
        blocked.lock().unwrap().recv_timeout(DEADLINE).ok();
        Box::pin(async { ToolResult::text("late") })
    });
    let limits = Limits { cancel_grace: Duration::from_millis(100), ..Limits::default() };
    let running = setup(&[calls(&[call("a", "blocking", json!({}))])]).tool(blocking).limits(limits).start();
    let prompt = running.prompt("go");
    let abort = async {
        running_now.acquire().await.unwrap().forget();
        running.session.abort();
        Instant::now()
    };
    let (outcome, cancelled) = tokio::join!(prompt, abort);
    assert!(cancelled.elapsed() < Duration::from_secs(2), "{:?}", cancelled.elapsed());
    assert_eq!(outcome.reason, TerminationReason::Aborted);
    assert!(running.shown().contains(&"notice".to_owned()));
    release.send(()).unwrap();
}

struct Stuck(&'static str);

impl crate::Hooks for Stuck {
    fn before_tool_call<'a>(
        &'a self,
        _: &'a llm::ToolCall,
        _: &'a Value,
        _: &'a crate::Messages,
    ) -> BoxFuture<'a, Result<crate::Before, String>> {
        Box::pin(async {
            if self.0 == "before" { std::future::pending().await } else { Ok(crate::Before::Proceed) }
        })
    }
    fn after_tool_call<'a>(
        &'a self,
        _: &'a llm::ToolCall,
        _: &'a Value,
        result: ToolResult,
    ) -> BoxFuture<'a, Result<ToolResult, String>> {
        Box::pin(async { if self.0 == "after" { std::future::pending().await } else { Ok(result) } })
    }
    fn transform_context<'a>(&'a self, messages: Vec<Message>) -> BoxFuture<'a, Vec<Message>> {
        Box::pin(async { if self.0 == "transform" { std::future::pending().await } else { messages } })
    }
    fn finish_turn<'a>(&'a self, _: crate::TurnReport<'a>) -> BoxFuture<'a, crate::Finish> {
        Box::pin(async {
            if self.0 == "finish" { std::future::pending().await } else { crate::Finish::Leave }
        })
    }
}

#[tokio::test]
async fn a_hook_that_never_returns_does_not_hold_up_a_cancel() {
    for (hook, when) in [
        ("before", "tool_start a"),
        ("after", "tool_start a"),
        ("transform", "end user: go"),
        ("finish", "end toolResult: {}"),
    ] {
        let script = [calls(&[call("a", "t", json!({}))]), text("not asked")];
        let running = setup(&script).tool(echo("t")).hooks(Stuck(hook)).start();
        let abort = async {
            running.events.wait_for(when).await;
            running.session.abort();
            Instant::now()
        };
        let (outcome, cancelled) = tokio::join!(running.prompt("go"), abort);
        assert_eq!(outcome.reason, TerminationReason::Aborted, "{hook}");
        assert!(running.model.unused() >= 1, "{hook}: the model is not asked again");
        assert!(cancelled.elapsed() < Duration::from_secs(2), "{hook}: {:?}", cancelled.elapsed());
    }
}

#[test]
fn the_cancel_clock_ends_a_run_within_two_seconds() {
    // Tools: the grace, then the wait for an aborted task, for the hook, and for stragglers.
    let tools = Limits::default().cancel_grace + Duration::from_millis(200 + 100 + 50);
    assert!(Limits::default().cancel_grace == Duration::from_millis(1500) && tools < Duration::from_secs(2));
}

#[tokio::test]
async fn a_run_that_takes_too_long_ends_by_its_total_clock() {
    let waiting = json!({"text": "…", "wait_for_cancel": true});
    let limits = Limits { total: Duration::from_millis(50), ..Limits::default() };
    let (outcome, _) = setup(&[waiting]).limits(limits).run().await;
    assert_eq!(outcome.reason, TerminationReason::TimeoutTotal);
    assert!(outcome.error.unwrap().contains("0.05 s"));
}

#[tokio::test]
async fn r2_one_reason_and_the_first_in_order_when_several_are_true() {
    let waiting = json!({"wait_for_cancel": true});
    let running = setup(&[waiting.clone(), waiting.clone()]).start();
    let both = async {
        running.events.wait_for("start Assistant").await;
        running.session.disconnect();
        running.session.abort();
    };
    let (outcome, ()) = tokio::join!(running.prompt("go"), both);
    assert_eq!(outcome.reason, TerminationReason::Aborted, "aborted comes before disconnected");
    let outcome = running.prompt("again").await;
    assert_eq!(outcome.reason, TerminationReason::Disconnected);
    use TerminationReason::*;
    let order =
        [Aborted, Disconnected, Error, TimeoutTotal, TimeoutIdle, TurnLimit, TerminatedByTools, NoToolCalls];
    assert!(order.is_sorted());
}

#[tokio::test]
async fn b52_abort_while_idle_does_nothing() {
    let running = setup(&[text("ok")]).start();
    running.session.abort();
    assert_eq!(running.prompt("go").await.final_text, "ok");
}

#[tokio::test]
async fn b56_calls_without_result_are_answered_in_the_next_request() {
    // Sequential: the cancel comes while the first runs, so the second gets no result.
    let first = calls(&[call("a", "wait", json!({})), call("b", "wait", json!({}))]);
    let second = json!({"expect": {"messages": 5, "last_contains": ["on"]}, "text": "ok"});
    let limits = Limits { sequential_tools: true, ..Limits::default() };
    let running = setup(&[first, second]).tool(waiting("wait")).limits(limits).start();
    let abort = async {
        running.events.wait_for("tool_update a: running").await;
        running.session.abort();
    };
    let (outcome, ()) = tokio::join!(running.prompt("go"), abort);
    assert_eq!(running.results(&outcome).len(), 1, "b55");
    assert_eq!(running.prompt("on").await.final_text, "ok");
    let request = &running.model.requests()[1];
    assert_eq!(request.messages[3].text(), "No result provided");
}
