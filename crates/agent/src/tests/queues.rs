//! Queued messages, continuing without a prompt, and hooks around turns.

use futures_util::future::BoxFuture;
use llm::{AssistantMessage, Message};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::hooks::{NextTurn, TurnDecision, TurnReport};
use crate::{Drain, Hooks, Prompt, Queue, SessionError, Steering, TerminationReason};

fn said(outcome: &RunOutcome) -> Vec<String> {
    outcome.messages.iter().map(Message::text).collect()
}

fn turns(script: &[&str]) -> Vec<Value> {
    script.iter().map(|it| text(it)).collect()
}

#[tokio::test]
async fn messages_queued_while_idle_come_with_the_next_prompt() {
    let running = setup(&turns(&["one", "two"])).start();
    running.prompt("go").await;
    running.session.steer(Message::user("later")).await;
    let outcome = running.prompt("again").await;
    assert_eq!(said(&outcome), ["again", "later", "two"]);
    assert_eq!(outcome.turns, 1, "in the first turn");
}

/// Builds a tool that steers its session.
fn steering_tool(session: &Arc<Mutex<Option<Session>>>) -> TestTool {
    let session = session.clone();
    tool("steer", move |_, _| {
        let session = session.lock().clone();
        Box::pin(async move {
            session.unwrap().steer(Message::user("change")).await;
            ToolResult::text("done")
        })
    })
}

async fn steered(limits: Limits, mode: Steering) -> (RunOutcome, Vec<String>) {
    let handle = Arc::new(Mutex::new(None));
    let alone = TestTool { writes: Writes::Unknown, ..echo("alone") };
    let first = calls(&[
        call("a", "steer", json!({})),
        call("b", "alone", json!({"n": 1})),
        call("c", "alone", json!({"n": 2})),
    ]);
    let expecting = json!({"expect": {"last_role": "user", "last_contains": ["change"]}, "text": "ok"});
    let running = setup(&[first, expecting]).tool(steering_tool(&handle)).tool(alone).limits(limits).start();
    running.session.set_steering(mode);
    *handle.lock() = Some(running.session.clone());
    let outcome = running.prompt("go").await;
    *handle.lock() = None;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::NoToolCalls, 2));
    let shown = running.shown();
    for id in ["a", "b", "c"] {
        let of = |what: &str| shown.iter().filter(|it| it.starts_with(&format!("{what} {id}"))).count();
        assert_eq!((of("tool_start"), of("tool_end")), (1, 1), "{id}: {shown:?}");
    }
    let results = running.results(&outcome).into_iter().map(|(text, _)| text).collect();
    (outcome, results)
}

#[tokio::test]
async fn steering_skips_nothing_unless_it_interrupts() {
    for sequential_tools in [false, true] {
        let limits = Limits { sequential_tools, ..Limits::default() };
        let (outcome, results) = steered(limits, Steering::AfterTurn).await;
        assert_eq!(results, ["done", "{\"n\":1}", "{\"n\":2}"]);
        assert_eq!(said(&outcome)[5..], ["change", "ok"], "after the results, before the next answer");
        let (outcome, results) = steered(limits, Steering::Interrupt).await;
        let skipped = "Skipped due to queued user message.";
        assert_eq!(results, ["done", skipped, skipped]);
        assert_eq!(said(&outcome)[5..], ["change", "ok"]);
    }
}

#[tokio::test]
async fn the_queues_are_drained_peeked_and_cleared() {
    let running = setup(&turns(&["one", "two", "three"])).start();
    let session = &running.session;
    for text in ["s1", "s2", "s3"] {
        session.steer(Message::user(text)).await;
    }
    for text in ["f1", "f2"] {
        session.follow_up(Message::user(text)).await;
    }
    let peeked = || session.peek_queues().iter().map(Message::text).collect::<Vec<_>>();
    assert_eq!(peeked(), ["s1"], "steering first, one at a time");
    session.set_drain(Queue::Steering, Drain::All);
    assert_eq!(peeked(), ["s1", "s2", "s3"]);
    assert_eq!(peeked().len(), 3, "looking takes nothing");
    session.set_drain(Queue::FollowUp, Drain::All);
    let outcome = running.prompt("go").await;
    assert_eq!(said(&outcome), ["go", "s1", "s2", "s3", "one", "f1", "f2", "two"]);
    session.steer(Message::user("a")).await;
    session.follow_up(Message::user("b")).await;
    session.clear_queue(Queue::Steering).await;
    assert_eq!(peeked(), ["b"]);
    session.clear_queues().await;
    assert!(peeked().is_empty());
    assert_eq!(said(&running.prompt("on").await), ["on", "three"]);
}

#[tokio::test]
async fn an_empty_transcript_cannot_be_continued() {
    let running = setup(&turns(&["one"])).start();
    running.session.follow_up(Message::user("later")).await;
    assert!(matches!(running.session.continue_run().await, Err(SessionError::Empty)));
    assert_eq!(running.session.peek_queues().len(), 1);
    assert!(running.shown().iter().all(|it| it.starts_with("queue")), "no run began");
}

#[tokio::test]
async fn continuing_after_a_user_message_needs_no_prompt() {
    let running = setup(&turns(&["one"])).start();
    running.session.append(Message::user("said before")).await.unwrap();
    let outcome = running.session.continue_run().await.unwrap();
    assert_eq!(said(&outcome), ["one"]);
    assert_eq!(running.shown()[2..4], ["agent_start", "turn_start 1"]);
    assert!(running.shown()[4].starts_with("start Assistant"));
}

#[tokio::test]
async fn continuing_after_an_answer_needs_a_queued_message() {
    let running = setup(&turns(&["one", "two", "three", "four"])).start();
    running.prompt("go").await;
    assert!(matches!(running.session.continue_run().await, Err(SessionError::Answered)));
    running.session.steer(Message::user("s1")).await;
    running.session.steer(Message::user("s2")).await;
    let outcome = running.session.continue_run().await.unwrap();
    assert_eq!(said(&outcome), ["s1", "two", "s2", "three"], "one a turn");
    running.session.follow_up(Message::user("f")).await;
    assert_eq!(said(&running.session.continue_run().await.unwrap()), ["f", "four"]);
}

#[tokio::test]
async fn a_prompt_is_text_pictures_or_messages() {
    let running = setup(&turns(&["1", "2", "3", "4"])).start();
    running.prompt("text").await;
    let pictured = Prompt::with_images("look", [("AAAA".to_owned(), "image/png".to_owned())]);
    let outcome = running.session.prompt(pictured).await;
    assert_eq!(outcome.messages[0].content().len(), 2);
    assert_eq!(said(&running.session.prompt(Message::user("one")).await), ["one", "3"]);
    let several = vec![Message::user("a"), Message::user("b")];
    assert_eq!(said(&running.session.prompt(several).await), ["a", "b", "4"]);
}

/// Answers each hook as configured, and records the calls.
#[derive(Default)]
struct Turning {
    finish: Mutex<Vec<TurnDecision>>,
    next: Mutex<Vec<NextTurn>>,
    session: Mutex<Option<Session>>,
    asked: Mutex<Vec<String>>,
}

impl Hooks for Arc<Turning> {
    fn finish_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, TurnDecision> {
        Box::pin(async move {
            let TurnReport { turn_index, message, results } = report;
            let stop = message.stop_reason;
            self.asked.lock().push(format!("finish {turn_index} {stop:?} {}", results.len()));
            let mut finish = self.finish.lock();
            if finish.is_empty() { TurnDecision::LoopDecides } else { finish.remove(0) }
        })
    }

    fn prepare_next_turn<'a>(&'a self, report: TurnReport<'a>) -> BoxFuture<'a, NextTurn> {
        Box::pin(async move {
            self.asked.lock().push(format!("next {}", report.turn_index));
            let session = self.session.lock().take();
            if let Some(session) = session {
                session.steer(Message::user("meanwhile")).await;
            }
            let mut next = self.next.lock();
            if next.is_empty() { NextTurn::default() } else { next.remove(0) }
        })
    }
}

/// Aborts the first run before its second turn, after the queue was drained for it.
#[derive(Default)]
struct Aborts {
    session: Mutex<Option<Session>>,
    run: Mutex<CancellationToken>,
}

impl Hooks for Arc<Aborts> {
    fn run_begins(&self, cancel: &CancellationToken) {
        *self.run.lock() = cancel.clone();
    }

    fn prepare_next_turn<'a>(&'a self, _: TurnReport<'a>) -> BoxFuture<'a, NextTurn> {
        Box::pin(async {
            let session = self.session.lock().take();
            if let Some(session) = session {
                session.abort();
                let run = self.run.lock().clone();
                run.cancelled().await;
            }
            NextTurn::default()
        })
    }
}

#[tokio::test]
async fn messages_of_a_cancelled_turn_are_queued_again() {
    for queue in [Queue::Steering, Queue::FollowUp] {
        let hooks = Arc::new(Aborts::default());
        let running = setup(&turns(&["one", "two", "three"])).hooks(hooks.clone()).start();
        let session = &running.session;
        // The first steering is delivered with the prompt.
        session.steer(Message::user("with it")).await;
        session.queue(queue, Message::user("not yet").into()).await;
        session.queue(queue, Message::user("and then").into()).await;
        *hooks.session.lock() = Some(session.clone());
        let outcome = running.prompt("go").await;
        assert_eq!((outcome.reason, outcome.turns), (TerminationReason::Aborted, 1));
        let waiting: Vec<String> = session.queued().iter().map(Message::text).collect();
        assert_eq!(waiting, ["not yet", "and then"]);
        let (steering, follow_up) = if queue == Queue::Steering { (2, 0) } else { (0, 2) };
        let shown = running.shown();
        let last = shown.iter().rfind(|it| it.starts_with("queue"));
        assert_eq!(last, Some(&format!("queue {steering} {follow_up}")));
        let outcome = running.prompt("again").await;
        assert!(said(&outcome).contains(&"not yet".to_owned()), "{:?}", said(&outcome));
    }
}

#[tokio::test]
async fn finish_turn_sees_failed_turns_without_deciding_them() {
    let hooks = Arc::new(Turning::default());
    *hooks.finish.lock() = vec![TurnDecision::Continue, TurnDecision::Continue];
    let broken = json!({"error": "it broke", "tool_calls": [call("a", "t", json!({}))]});
    let (outcome, running) = setup(&[broken]).tool(echo("t")).hooks(hooks.clone()).run().await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::Error, 1));
    assert_eq!(*hooks.asked.lock(), ["finish 1 Error 0"]);
    let shown = running.shown();
    assert_eq!(shown[shown.len() - 2..], ["turn_end 1 results=0 continue=false", "agent_end Error"]);
}

#[tokio::test]
async fn finish_turn_may_request_one_more_turn() {
    let hooks = Arc::new(Turning::default());
    *hooks.finish.lock() = vec![TurnDecision::Continue];
    let (outcome, running) = setup(&turns(&["one", "two"])).hooks(hooks.clone()).run().await;
    assert_eq!((outcome.turns, said(&outcome).len()), (2, 3), "the context is unchanged");
    let requests = running.model.requests();
    assert!(matches!(requests[1].messages.last(), Some(Message::Assistant(_))));
    for steered in [true, false] {
        let hooks = Arc::new(Turning::default());
        *hooks.finish.lock() = vec![TurnDecision::Continue];
        let running = setup(&turns(&["one", "two", "three"])).hooks(hooks).start();
        let message = Message::user("queued");
        running.session.set_drain(Queue::Steering, Drain::One);
        if steered {
            running.session.steer(Message::user("first")).await;
            running.session.steer(message).await;
        } else {
            running.session.follow_up(message).await;
        }
        assert_eq!(running.prompt("go").await.turns, 2, "no second request for it");
    }
}

#[tokio::test]
async fn prepare_next_turn_runs_between_turns_and_may_change_settings() {
    let hooks = Arc::new(Turning::default());
    let other = Arc::new(ScriptModel::parse("other", "{\"text\": \"from the other\"}").unwrap());
    *hooks.next.lock() = vec![NextTurn {
        messages: vec![Message::user("prepared")],
        model: Some(other.clone()),
        thinking_level: Some(llm::ThinkingLevel::High),
        instructions: Some("Other words.".to_owned()),
    }];
    let running = setup(&[calls(&[call("a", "t", json!({}))])]).tool(echo("t")).hooks(hooks.clone()).start();
    running.session.steer(Message::user("s1")).await;
    running.session.steer(Message::user("s2")).await;
    let outcome = running.prompt("go").await;
    let expected = ["go", "s1", "", "{}", "prepared", "s2", "from the other"];
    assert_eq!(said(&outcome), expected);
    assert_eq!(*hooks.asked.lock(), ["finish 1 ToolUse 1", "next 1", "finish 2 Stop 0"]);
    let shown = running.shown();
    let at = |line: &str| shown.iter().position(|it| it == line).unwrap();
    assert!(at("turn_end 1 results=1 continue=true") < at("model other"));
    assert!(at("model other") < at("turn_start 2"));
    let request = &other.requests()[0];
    assert_eq!((request.system.as_str(), request.thinking), ("Other words.", Some(llm::ThinkingLevel::High)));
    let Some(Message::Assistant(last)) = outcome.messages.last() else { panic!("an answer") };
    assert_eq!(last.thinking_level, Some(llm::ThinkingLevel::High), "b68");
    let state = running.session.state().borrow().clone();
    assert_eq!((state.model.as_str(), state.instructions.as_str()), ("other", "Other words."));
}

#[tokio::test]
async fn steering_during_prepare_next_turn_joins_that_turn() {
    for queued in [false, true] {
        let hooks = Arc::new(Turning::default());
        let script = [calls(&[call("a", "t", json!({}))]), text("ok"), text("again")];
        let running = setup(&script).tool(echo("t")).hooks(hooks.clone()).start();
        *hooks.session.lock() = Some(running.session.clone());
        if queued {
            running.session.steer(Message::user("with the prompt")).await;
            running.session.steer(Message::user("before")).await;
        }
        let outcome = running.prompt("go").await;
        let after: Vec<String> = said(&outcome);
        let expected: &[&str] =
            if queued { &["{}", "before", "ok", "meanwhile", "again"] } else { &["{}", "meanwhile", "ok"] };
        assert_eq!(after[after.len() - expected.len()..], *expected);
    }
}

#[tokio::test]
async fn each_answer_has_its_thinking_level() {
    let running = setup(&turns(&["one", "two"])).start();
    let level = |outcome: &RunOutcome| match outcome.messages.last() {
        Some(Message::Assistant(AssistantMessage { thinking_level, .. })) => *thinking_level,
        _ => panic!("an answer"),
    };
    assert_eq!(level(&running.prompt("go").await), None);
    running.session.set_thinking_level(Some(llm::ThinkingLevel::Low));
    assert_eq!(level(&running.prompt("on").await), Some(llm::ThinkingLevel::Low));
    assert!(running.shown().contains(&"thinking Some(Low)".to_owned()));
}

#[tokio::test]
async fn the_drain_mode_is_a_setting_and_queued_messages_are_visible() {
    let model = Arc::new(ScriptModel::parse("t", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n").unwrap());
    let session = Session::builder(model.clone(), Registry::default())
        .queues(crate::Steering::Interrupt, crate::Drain::All)
        .build();
    // The message is queued when this returns, without awaiting the future.
    drop(session.follow_up(Message::user("later")));
    session.follow_up(Message::user("last")).await;
    drop(session.steer(Message::user("first")));
    let queued: Vec<String> = session.queued().iter().map(Message::text).collect();
    assert_eq!(queued, ["first", "later", "last"]);
    let outcome = session.prompt("go").await;
    let said: Vec<String> = outcome.messages.iter().map(Message::text).collect();
    assert_eq!(said, ["go", "first", "one", "later", "last", "two"], "both follow-ups in one turn");
    assert!(session.queued().is_empty());
}
