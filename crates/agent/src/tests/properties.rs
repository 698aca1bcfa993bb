//! Properties of sessions under concurrent and random operations.

use std::collections::HashSet;

use llm::Message;
use paths::{AbsPath, StateDir};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::store::SessionStore;
use crate::{Drain, Queue, SessionState, Steering, TerminationReason};

#[derive(Debug, Clone, Copy)]
enum Do {
    Prompt,
    Steer,
    FollowUp,
    Abort,
    Clear,
    Continue,
    Interrupts(bool),
    Drains(bool),
    Custom,
    Thinks(bool),
    Yield(u8),
    Disconnect,
}

fn something() -> impl Strategy<Value = Do> {
    prop_oneof![
        6 => Just(Do::Prompt),
        6 => Just(Do::Steer),
        4 => Just(Do::FollowUp),
        3 => Just(Do::Abort),
        1 => Just(Do::Clear),
        2 => Just(Do::Continue),
        1 => any::<bool>().prop_map(Do::Interrupts),
        1 => any::<bool>().prop_map(Do::Drains),
        1 => Just(Do::Custom),
        1 => any::<bool>().prop_map(Do::Thinks),
        8 => (0_u8..40).prop_map(Do::Yield),
        1 => Just(Do::Disconnect),
    ]
}

/// An answer of one kind.
fn answer(at: usize, kind: u8) -> Value {
    let id = |n: usize| format!("{at}-{n}");
    match kind % 8 {
        0 | 1 => json!({ "text": format!("answer {at}") }),
        2 | 3 => calls(&[call(&id(0), "t", json!({"n": 1})), call(&id(1), "alone", json!({"n": 2}))]),
        4 => json!({"tool_calls": [call(&id(0), "t", json!({}))], "stop_reason": "length"}),
        5 => calls(&[call(&id(0), "nosuch", json!({})), call(&id(1), "yields", json!({}))]),
        6 => json!({"text": "half", "error": "it broke"}),
        _ => {
            json!({"text": "half", "tool_calls": [call(&id(0), "t", json!({}))], "wait_for_cancel": at.is_multiple_of(3)})
        }
    }
}

/// Checks the rules of every provider.
///
/// Each call is answered once, right after the message that made it; the user begins, and no answer follows
/// an answer.
fn check_transcript(messages: &[Message]) {
    let mut open: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    assert!(matches!(messages.first(), None | Some(Message::User(_))), "the user begins: {messages:#?}");
    for pair in messages.windows(2) {
        let both = pair.iter().all(|it| matches!(it, Message::Assistant(_)));
        assert!(!both, "an answer follows an answer: {messages:#?}");
    }
    for message in messages {
        match message {
            Message::ToolResult(result) => {
                let at = open.iter().position(|id| *id == result.tool_call_id);
                open.remove(at.unwrap_or_else(|| panic!("a result of no call: {messages:#?}")));
            }
            other => {
                assert!(open.is_empty(), "calls are not answered: {open:?} in {messages:#?}");
                if let Message::Assistant(message) = other {
                    assert!(!message.failed(), "a failed response is sent again");
                    open = message.tool_calls().map(|it| it.id.clone()).collect();
                    assert!(open.iter().all(|id| seen.insert(id.clone())));
                }
            }
        }
    }
    assert!(open.is_empty(), "calls are not answered: {open:?}");
}

/// Checks that runs, turns and calls start and end once, and in order.
fn check_events(envelopes: &[Envelope]) {
    let (mut run, mut turn, mut calls) = (false, None, HashSet::new());
    for (at, envelope) in envelopes.iter().enumerate() {
        assert_eq!(envelope.seq, at as u64 + 1);
        match &envelope.event {
            Event::AgentStart { .. } => assert!(!std::mem::replace(&mut run, true)),
            Event::AgentEnd { .. } => {
                assert!(std::mem::replace(&mut run, false) && turn.is_none() && calls.is_empty());
            }
            Event::TurnStart { turn_index } => assert_eq!((run, turn.replace(*turn_index)), (true, None)),
            Event::TurnEnd { turn_index, .. } => assert_eq!(turn.take(), Some(*turn_index)),
            Event::ToolExecutionStart { tool_call_id, .. } => assert!(calls.insert(tool_call_id.clone())),
            Event::ToolExecutionEnd { tool_call_id, .. } => assert!(calls.remove(tool_call_id)),
            _ => {}
        }
    }
    assert!(!run && turn.is_none() && calls.is_empty());
}

async fn carry_out(session: Session, plan: Vec<Do>, task: usize) {
    let mut prompts = tokio::task::JoinSet::new();
    for (at, what) in plan.into_iter().enumerate() {
        let message = Message::user(format!("{task}-{at}"));
        match what {
            Do::Prompt => {
                let session = session.clone();
                prompts.spawn(async move { drop(session.prompt(message).await) });
            }
            Do::Continue => {
                let session = session.clone();
                prompts.spawn(async move { drop(session.continue_run().await) });
            }
            Do::Steer => session.steer(message).await,
            Do::FollowUp => session.follow_up(message).await,
            Do::Abort => session.abort(),
            Do::Clear => session.clear_queue(Queue::Steering).await,
            Do::Interrupts(interrupts) => {
                session.set_steering(if interrupts { Steering::Interrupt } else { Steering::AfterTurn });
            }
            Do::Drains(all) => {
                session.set_drain(Queue::FollowUp, if all { Drain::All } else { Drain::One });
            }
            Do::Custom => {
                // It waits behind runs that wait to be cancelled.
                let session = session.clone();
                prompts
                    .spawn(async move { session.append_custom("kind", json!({ "at": at })).await.unwrap() });
            }
            Do::Thinks(thinks) => {
                session.set_thinking_level(thinks.then_some(llm::ThinkingLevel::Low));
            }
            Do::Yield(times) => {
                for _ in 0..times {
                    tokio::task::yield_now().await;
                }
            }
            Do::Disconnect => session.disconnect(),
        }
    }
    // A response that waits to be cancelled would wait forever.
    while !prompts.is_empty() {
        session.abort();
        tokio::task::yield_now().await;
        while prompts.try_join_next().is_some() {}
    }
}

async fn interleaved(plans: Vec<Vec<Do>>, answers: Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let path = AbsPath::new(directory.path().canonicalize().unwrap().join("s")).unwrap();
    let store = SessionStore::new(StateDir::new(path));
    let script: String =
        answers.iter().enumerate().map(|(at, kind)| format!("{}\n", answer(at, *kind))).collect();
    let model = Arc::new(ScriptModel::parse("t", &script).unwrap());
    let yields = tool("yields", |_, _| {
        Box::pin(async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            ToolResult::text("yielded")
        })
    });
    let alone = TestTool { writes: Writes::Unknown, ..echo("alone") };
    let tools = [echo("t"), alone, yields].map(|it| Arc::new(it) as Arc<dyn Tool>);
    let events = Arc::new(Recorder::default());
    let session = Session::builder(model.clone(), Registry::new(tools).unwrap())
        .store(store.clone())
        .sink(events.clone())
        .build();
    // No event reports the state before the first event.
    let mut fold: SessionState = session.state().borrow().clone();
    let mut tasks = tokio::task::JoinSet::new();
    for (task, plan) in plans.into_iter().enumerate() {
        tasks.spawn(carry_out(session.clone(), plan, task));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let messages = session.messages().await.unwrap();
    session.clear_queues().await;
    // When this event is delivered, all earlier ones are.
    session.append(Message::user("last")).await.unwrap();
    let envelopes = events.envelopes.lock().clone();
    check_events(&envelopes);
    for request in model.requests() {
        check_transcript(&request.messages);
        let last = request.messages.last();
        assert!(matches!(last, Some(Message::User(_) | Message::ToolResult(_))), "who is answered: {last:?}");
    }
    check_transcript(&llm::transcript::repair(&messages));
    envelopes.iter().for_each(|it| fold.apply(&it.event));
    let state = session.state().borrow().clone();
    let shown = |it: &SessionState| {
        let SessionState { running, streaming, turns, pending_calls, queued, error, version, .. } =
            it.clone();
        let SessionState { model, thinking_level, tools, plan, compacting, .. } = it.clone();
        let run = (running, streaming, turns, pending_calls, queued, error, version, it.partial().is_none());
        (run, (model, thinking_level, tools, plan, compacting))
    };
    assert_eq!(shown(&fold), shown(&state));
    assert!(!state.running && state.queued == (0, 0));
    let messages = session.messages().await.unwrap();
    assert_eq!(fold.messages.to_vec(), messages);
    assert_eq!(state.messages.to_vec(), messages);
    let loaded = store.load(session.id()).unwrap();
    assert_eq!((loaded.context(), loaded.warnings.len()), (messages, 0), "the file says the same");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn concurrent_tasks_leave_a_valid_transcript(
        plans in proptest::collection::vec(proptest::collection::vec(something(), 0..12), 4),
        answers in proptest::collection::vec(any::<u8>(), 150),
        threads in 1_usize..=2,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let case = tokio::time::timeout(DEADLINE * 4, interleaved(plans, answers));
            case.await.expect("every run ends");
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_operations_are_served_in_order() {
    let script: Vec<Value> = (0..500).map(|at| text(&format!("{at}"))).collect();
    let running = setup(&script).start();
    let mut asked: Vec<futures_util::future::BoxFuture<'_, Option<RunOutcome>>> = Vec::new();
    for at in 0..1000 {
        let session = &running.session;
        asked.push(if at % 2 == 0 {
            Box::pin(async move { Some(session.prompt(format!("p{at}")).await) })
        } else {
            Box::pin(async move {
                session.append(Message::user(format!("a{at}"))).await.unwrap();
                None
            })
        });
    }
    let outcomes = tokio::time::timeout(DEADLINE * 4, futures_util::future::join_all(asked)).await.unwrap();
    for (at, outcome) in outcomes.iter().enumerate() {
        if let Some(outcome) = outcome {
            assert_eq!(outcome.messages[0].text(), format!("p{at}"), "each caller gets its own answer");
            assert_eq!(outcome.final_text, (at / 2).to_string());
        }
    }
    let said = running.session.messages().await.unwrap();
    let said: Vec<String> =
        said.iter().filter(|it| matches!(it, Message::User(_))).map(Message::text).collect();
    let expected: Vec<String> =
        (0..1000).map(|at| if at % 2 == 0 { format!("p{at}") } else { format!("a{at}") }).collect();
    assert_eq!(said, expected);
}

#[tokio::test]
async fn operations_are_ordered_by_call_not_by_poll() {
    let running = setup(&[json!({"wait_for_cancel": true})]).start();
    let session = &running.session;
    let mut run = Box::pin(session.prompt("p"));
    assert!(futures_util::poll!(&mut run).is_pending());
    // These operations are more than any bounded queue holds.
    let mut asked: Vec<_> =
        (0..300).map(|at| Box::pin(session.append(Message::user(format!("{at}"))))).collect();
    for one in &mut asked {
        assert!(futures_util::poll!(one).is_pending());
    }
    running.events.wait_for("start Assistant").await;
    session.abort();
    tokio::time::timeout(DEADLINE, run).await.unwrap();
    // Earlier ones are served by now, and only this one is checked.
    tokio::time::timeout(DEADLINE, session.append(Message::user("last"))).await.unwrap().unwrap();
    for one in asked {
        tokio::time::timeout(DEADLINE, one).await.unwrap().unwrap();
    }
    let said: Vec<String> = session.messages().await.unwrap().iter().map(Message::text).collect();
    let numbers: Vec<String> = (0..300).map(|at| at.to_string()).chain(["last".to_owned()]).collect();
    assert!(said.ends_with(&numbers), "{said:?}");
}

#[tokio::test]
async fn sessions_never_wait_for_each_other() {
    let waiting_one = setup(&[json!({"wait_for_cancel": true})]).start();
    let other = setup(&(0..50).map(|at| text(&format!("{at}"))).collect::<Vec<_>>()).start();
    let both = async {
        waiting_one.events.wait_for("start Assistant").await;
        for _ in 0..50 {
            assert_eq!(other.prompt("go").await.reason, TerminationReason::NoToolCalls);
        }
        assert!(waiting_one.session.state().borrow().running, "the other one still waits");
        waiting_one.session.abort();
    };
    let (outcome, ()) = tokio::join!(waiting_one.prompt("go"), both);
    assert_eq!(outcome.reason, TerminationReason::Aborted);
}
