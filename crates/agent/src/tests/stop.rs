//! Cancelling, timeouts, and the reason a run ends with.

use llm::Message;
use serde_json::json;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::TerminationReason;

#[tokio::test]
async fn a_cancel_while_streaming_keeps_the_received_text() {
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
async fn a_cancel_reaches_the_running_tool_and_ends_the_run() {
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

/// Cancels its run when the second call is prepared.
struct CancelsAtSecond {
    cancel: CancellationToken,
    of_run: Mutex<CancellationToken>,
}

impl crate::Hooks for CancelsAtSecond {
    fn run_begins(&self, cancel: &CancellationToken) {
        *self.of_run.lock() = cancel.clone();
    }
    fn before_tool_call<'a>(
        &'a self,
        call: &'a llm::ToolCall,
        _: &'a Value,
        _: &'a crate::Messages,
    ) -> BoxFuture<'a, Result<crate::hooks::CallDecision, String>> {
        let of_run = self.of_run.lock().clone();
        Box::pin(async move {
            if call.id == "b" {
                self.cancel.cancel();
                of_run.cancelled().await;
            }
            Ok(crate::hooks::CallDecision::Proceed)
        })
    }
}

#[tokio::test]
async fn an_unprepared_call_has_no_event_and_no_result() {
    let first = calls(&["a", "b", "c"].map(|id| call(id, "t", json!({}))));
    let cancel = CancellationToken::new();
    let hooks = CancelsAtSecond { cancel: cancel.clone(), of_run: Mutex::default() };
    let never = tool("t", |_, _| panic!("must not run"));
    let running = setup(&[first, text("must not be asked")]).tool(never).hooks(hooks).start();
    let prompt = running.session.prompt_messages(vec![Message::user("go")], cancel);
    let outcome = tokio::time::timeout(DEADLINE, prompt).await.unwrap();
    assert_eq!((outcome.reason, running.model.unused()), (TerminationReason::Aborted, 1));
    let aborted = ("Operation aborted".to_owned(), true);
    assert_eq!(running.results(&outcome), [aborted.clone(), aborted], "of those that were prepared");
    let shown = running.shown();
    let starts: Vec<&String> = shown.iter().filter(|it| it.starts_with("tool_start")).collect();
    assert_eq!(starts, ["tool_start a", "tool_start b"]);
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
async fn a_tool_that_blocks_its_thread_is_reported() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let running_now = Arc::new(tokio::sync::Semaphore::new(0));
    let started = running_now.clone();
    let blocking = tool("blocking", move |_, _| {
        started.add_permits(1);
        blocked.lock().recv_timeout(DEADLINE).ok();
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
    ) -> BoxFuture<'a, Result<crate::hooks::CallDecision, String>> {
        Box::pin(async {
            if self.0 == "before" {
                std::future::pending().await
            } else {
                Ok(crate::hooks::CallDecision::Proceed)
            }
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
    fn finish_turn<'a>(
        &'a self,
        _: crate::hooks::TurnReport<'a>,
    ) -> BoxFuture<'a, crate::hooks::TurnDecision> {
        Box::pin(async {
            if self.0 == "finish" {
                std::future::pending().await
            } else {
                crate::hooks::TurnDecision::LoopDecides
            }
        })
    }
}

#[tokio::test]
async fn a_hook_that_never_returns_does_not_delay_a_cancel() {
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
fn a_cancel_ends_a_run_within_two_seconds() {
    // Tools take the grace period, then the waits for an aborted task, for the hook, and for stragglers.
    let tools = Limits::default().cancel_grace + Duration::from_millis(200 + 100 + 50);
    assert!(Limits::default().cancel_grace == Duration::from_millis(1200) && tools < Duration::from_secs(2));
}

#[tokio::test]
async fn a_run_that_takes_too_long_ends_by_its_timeout() {
    let waiting = json!({"text": "…", "wait_for_cancel": true});
    let limits = Limits { total: Duration::from_millis(50), ..Limits::default() };
    let (outcome, _) = setup(&[waiting]).limits(limits).run().await;
    assert_eq!(outcome.reason, TerminationReason::TimeoutTotal);
    assert!(outcome.error.unwrap().contains("0.05 s"));
}

#[tokio::test]
async fn the_first_of_several_reasons_counts() {
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
}

/// Makes several reasons true with the answer: aborts, disconnects, times out.
struct AtOnce {
    session: Mutex<Option<Session>>,
    causes: [bool; 3],
}

impl crate::Hooks for AtOnce {
    fn finish_turn<'a>(
        &'a self,
        _: crate::hooks::TurnReport<'a>,
    ) -> BoxFuture<'a, crate::hooks::TurnDecision> {
        Box::pin(async {
            let [aborts, disconnects, takes_long] = self.causes;
            if takes_long {
                tokio::time::sleep(TOTAL).await;
            }
            let session = self.session.lock();
            let session = session.as_ref().unwrap();
            if aborts {
                session.abort();
            }
            if disconnects {
                session.disconnect();
            }
            crate::hooks::TurnDecision::LoopDecides
        })
    }
}

impl crate::Hooks for Arc<AtOnce> {
    fn finish_turn<'a>(
        &'a self,
        report: crate::hooks::TurnReport<'a>,
    ) -> BoxFuture<'a, crate::hooks::TurnDecision> {
        self.as_ref().finish_turn(report)
    }
}

const TOTAL: Duration = Duration::from_secs(48 * 60 * 60);

/// Lets two days pass at once on tokio's paused clock, so all reasons are due.
#[tokio::test(start_paused = true)]
async fn every_pair_of_reasons_has_its_precedence() {
    use TerminationReason::*;
    let own = [
        (Error, json!({"error": "it broke"})),
        (TimeoutIdle, json!({"error": "silent", "error_kind": "timeout"})),
        (TurnLimit, calls(&[call("a", "t", json!({}))])),
        (TerminatedByTools, calls(&[call("a", "end", json!({}))])),
        (NoToolCalls, text("ok")),
    ];
    let others = [Aborted, Disconnected, TimeoutTotal];
    // This is the order of the documentation, not of the type.
    let order =
        [Aborted, Disconnected, Error, TimeoutTotal, TimeoutIdle, TurnLimit, TerminatedByTools, NoToolCalls];
    for (by_itself, answer) in own {
        for bits in 0..8 {
            let causes = [0, 1, 2].map(|at| bits >> at & 1 == 1);
            let hooks = Arc::new(AtOnce { session: Mutex::default(), causes });
            let ending = tool("end", |_, _| {
                Box::pin(async { ToolResult { terminate: true, ..ToolResult::text("x") } })
            });
            let retries = crate::Retries { max: 0, ..crate::Retries::default() };
            let limits = Limits { turns: 1, total: TOTAL, retries, ..Limits::default() };
            let running = setup(std::slice::from_ref(&answer))
                .tool(echo("t"))
                .tool(ending)
                .limits(limits)
                .hooks(hooks.clone())
                .start();
            *hooks.session.lock() = Some(running.session.clone());
            let outcome = running.session.prompt("go").await;
            let held = |reason: &TerminationReason| {
                *reason == by_itself || others.iter().zip(causes).any(|(it, holds)| holds && it == reason)
            };
            let expected = order.iter().copied().find(held).unwrap();
            assert_eq!(outcome.reason, expected, "{by_itself:?} with {causes:?}");
            assert_eq!(running.shown().last().unwrap(), &format!("agent_end {expected:?}"));
            let says_why = matches!(expected, Error | TimeoutTotal | TimeoutIdle | TurnLimit);
            assert_eq!(
                outcome.error.is_some(),
                says_why,
                "{by_itself:?} with {causes:?}: {:?}",
                outcome.error
            );
            hooks.session.lock().take();
        }
    }
}

#[tokio::test]
async fn abort_while_idle_does_nothing() {
    let running = setup(&[text("ok")]).start();
    running.session.abort();
    assert_eq!(running.prompt("go").await.final_text, "ok");
}

/// A hook that keeps the token of its run, and panics if configured.
#[derive(Default)]
struct Given {
    tokens: Mutex<Vec<CancellationToken>>,
    panics: bool,
}

impl Given {
    fn take(&self, cancel: &CancellationToken) {
        assert!(!self.panics, "as configured");
        self.tokens.lock().push(cancel.clone());
    }
    fn cancelled(&self) -> Vec<bool> {
        self.tokens.lock().iter().map(CancellationToken::is_cancelled).collect()
    }
}

impl EventSink for Given {
    fn deliver<'a>(&'a self, _: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
    fn run_begins(&self, cancel: &CancellationToken) {
        self.take(cancel);
    }
}

struct GivenHooks(Arc<Given>);

impl crate::Hooks for GivenHooks {
    fn run_begins(&self, cancel: &CancellationToken) {
        self.0.take(cancel);
    }
}

#[tokio::test]
async fn hooks_and_listeners_have_the_token_of_the_run() {
    let (hooks, early, late, panics) =
        (Arc::<Given>::default(), Arc::<Given>::default(), Arc::<Given>::default(), true);
    let script = [calls(&[call("a", "wait", json!({}))]), text("ok")];
    let running = setup(&script).tool(waiting("wait")).hooks(GivenHooks(hooks.clone())).start();
    running.session.attach(early.clone(), None).await.unwrap();
    let broken = Arc::new(Given { panics, ..Given::default() });
    running.session.attach(broken, None).await.unwrap();
    let abort = async {
        running.events.wait_for("tool_update a: running").await;
        running.session.attach(late.clone(), None).await.unwrap();
        // Attaching replies before the signal is passed on, so another message is sent.
        running.session.clear_queues().await;
        running.events.wait_for("queue 0 0").await;
        for given in [&hooks, &early, &late] {
            assert_eq!(given.cancelled(), [false], "one each, and not yet");
        }
        running.session.abort();
    };
    let (outcome, ()) = tokio::join!(running.prompt("go"), abort);
    assert_eq!(outcome.reason, TerminationReason::Aborted);
    assert_eq!(
        running.events.shown()[0],
        "notice",
        "a panicking sink is removed, and the others are notified"
    );
    for given in [&hooks, &early, &late] {
        assert_eq!(given.cancelled(), [true]);
    }
    assert_eq!(running.prompt("again").await.final_text, "ok");
    for given in [&hooks, &early, &late] {
        assert_eq!(given.cancelled(), [true, false], "each run has its own");
    }
}

#[tokio::test]
async fn calls_without_result_are_answered_in_the_next_request() {
    // The calls are sequential: the cancel comes during the first call, so the second gets no result.
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
