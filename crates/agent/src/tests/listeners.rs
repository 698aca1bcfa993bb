//! Sinks: their order, their deadline, and reconnecting.

use std::sync::atomic::AtomicBool;

use llm::{Message, StreamEvent};
use serde_json::json;

use super::*;
use crate::{SessionState, TerminationReason};

/// Records each event with its name, and waits for permission to continue.
struct Slow {
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
    gate: Arc<tokio::sync::Semaphore>,
}

impl EventSink for Slow {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let line = show(&envelope.event);
            self.log.lock().push(format!("{} hears {line}", self.name));
            self.gate.acquire().await.unwrap().forget();
            self.log.lock().push(format!("{} heard {line}", self.name));
        })
    }
}

#[tokio::test]
async fn listeners_are_awaited_in_order_and_a_slow_one_delays() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let gate = |permits| Arc::new(tokio::sync::Semaphore::new(permits));
    let (first, second) = (gate(0), gate(1_000));
    let sink = |name, gate: &Arc<tokio::sync::Semaphore>| {
        Arc::new(Slow { name, log: log.clone(), gate: gate.clone() })
    };
    let model = Arc::new(ScriptModel::parse("t", "{\"text\": \"ok\"}").unwrap());
    let session =
        Session::builder(model, Registry::default()).sink(sink("a", &first)).sink(sink("b", &second)).build();
    let prompting = tokio::spawn(async move { session.prompt("go").await });
    let wait = async {
        while log.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*log.lock(), ["a hears agent_start"], "no other sink and no other event before it is done");
    first.add_permits(1_000);
    assert_eq!(prompting.await.unwrap().reason, TerminationReason::NoToolCalls);
    let log = log.lock();
    assert_eq!(
        log[1..5],
        ["a heard agent_start", "b hears agent_start", "b heard agent_start", "a hears turn_start 1"]
    );
}

struct Stuck;

impl EventSink for Stuck {
    fn deliver<'a>(&'a self, _: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_never_returns_is_removed_with_a_notice() {
    let model = Arc::new(ScriptModel::parse("t", "{\"text\": \"ok\"}").unwrap());
    let events = Arc::new(Recorder::default());
    let session =
        Session::builder(model, Registry::default()).sink(Arc::new(Stuck)).sink(events.clone()).build();
    let before = tokio::time::Instant::now();
    assert_eq!(session.prompt("go").await.reason, TerminationReason::NoToolCalls);
    assert_eq!(before.elapsed().as_secs(), 5);
    assert_eq!(events.shown()[..2], ["agent_start", "notice"]);
}

#[tokio::test]
async fn the_whole_message_is_delivered_before_its_tools_start() {
    let (whole, early) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    struct Hears(Arc<AtomicBool>);
    impl EventSink for Hears {
        fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
            Box::pin(async move {
                if let Event::MessageEnd { message: Message::Assistant(_), .. } = &envelope.event {
                    for _ in 0..50 {
                        tokio::task::yield_now().await;
                    }
                    self.0.store(true, Ordering::SeqCst);
                }
            })
        }
    }
    let (heard, found) = (whole.clone(), early.clone());
    let looking = tool("t", move |_, _| {
        found.store(!heard.load(Ordering::SeqCst), Ordering::SeqCst);
        Box::pin(async { ToolResult::text("ok") })
    });
    let script = [calls(&[call("a", "t", json!({}))]), text("ok")].map(|it| format!("{it}\n")).concat();
    let tools = Registry::new([Arc::new(looking) as Arc<dyn Tool>]).unwrap();
    let session = Session::builder(Arc::new(ScriptModel::parse("t", &script).unwrap()), tools)
        .sink(Arc::new(Hears(whole.clone())))
        .build();
    session.prompt("go").await;
    assert!(whole.load(Ordering::SeqCst) && !early.load(Ordering::SeqCst));
}

#[tokio::test]
async fn updates_are_of_text_thinking_and_calls_only() {
    let first = json!({"thinking": "hm", "text": "so", "tool_calls": [call("a", "t", json!({"n": 1}))]});
    let (_, running) = setup(&[first, text("ok")]).tool(echo("t")).run().await;
    let kinds: std::collections::BTreeSet<String> = running
        .events
        .envelopes
        .lock()
        .iter()
        .filter_map(|it| match &it.event {
            Event::MessageUpdate { update, .. } => {
                Some(serde_json::to_value(update).unwrap()["type"].as_str().unwrap().to_owned())
            }
            _ => None,
        })
        .collect();
    let expected = ["text", "thinking", "toolcall"]
        .iter()
        .flat_map(|what| ["start", "delta", "end"].map(|step| format!("{what}_{step}")));
    assert_eq!(kinds, expected.collect());
}

#[tokio::test]
async fn the_state_has_partial_message_pending_calls_and_error() {
    let first = json!({"text": "half an answer", "chunk": 4, "wait_for_cancel": true});
    let running = setup(&[first, json!({"error": "it broke"}), text("ok")]).start();
    let mut state = running.session.state();
    let look = async {
        let whole = |it: &SessionState| it.partial().is_some_and(|(_, it)| it.text() == "half an answer");
        let seen = tokio::time::timeout(DEADLINE, state.wait_for(whole)).await.unwrap().unwrap().clone();
        assert_eq!(seen.messages.len(), 1, "the partial message is not in the transcript yet");
        running.session.abort();
    };
    tokio::join!(running.prompt("go"), look);
    let idle = running.session.state().borrow().clone();
    assert!(idle.partial().is_none() && idle.messages.len() == 2 && idle.error.is_none());
    running.prompt("again").await;
    let failed = running.session.state().borrow().clone();
    assert_eq!(failed.error.as_deref(), Some("it broke"));
    running.prompt("once more").await;
    assert_eq!(running.session.state().borrow().error, None);

    let running = setup(&[calls(&[call("a", "wait", json!({}))])]).tool(waiting("wait")).start();
    let look = async {
        running.events.wait_for("tool_update a: running").await;
        assert_eq!(running.session.state().borrow().pending_calls, ["a"]);
        running.session.abort();
    };
    tokio::join!(running.prompt("go"), look);
    assert!(running.session.state().borrow().pending_calls.is_empty());
}

#[tokio::test]
async fn a_run_is_over_only_when_its_listeners_know() {
    struct Late(Arc<AtomicBool>);
    impl EventSink for Late {
        fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
            Box::pin(async move {
                if let Event::AgentEnd { .. } = &envelope.event {
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    self.0.store(true, Ordering::SeqCst);
                }
            })
        }
    }
    let known = Arc::new(AtomicBool::new(false));
    let model = Arc::new(ScriptModel::parse("t", "{\"text\": \"ok\"}").unwrap());
    let session = Session::builder(model, Registry::default()).sink(Arc::new(Late(known.clone()))).build();
    session.prompt("go").await;
    assert!(known.load(Ordering::SeqCst));
}

#[tokio::test]
async fn updates_come_before_the_end_and_none_after() {
    let reporting = tool("t", |_, cx| {
        Box::pin(async move {
            say_running(cx).await;
            ToolResult::text("done")
        })
    });
    let (_, running) = setup(&[calls(&[call("a", "t", json!({}))]), text("ok")]).tool(reporting).run().await;
    let shown = running.shown();
    let at = |line: &str| shown.iter().position(|it| it == line).unwrap();
    assert!(at("tool_update a: running") < at("tool_end a"));
    // A finished call releases its context; one that was left behind still holds it.
    let events = Arc::new(Recorder::default());
    let tracker = tokio_util::task::TaskTracker::new();
    let emitter = crate::events::emitter::Emitter::start(
        "s".to_owned(),
        vec![events.clone()],
        SessionState::default(),
        0,
        &tracker,
    );
    let closed = super::sessions::cx(emitter.clone());
    say_running(&closed).await;
    emitter.emit(Event::AgentSettled { aborted: false }, &tokio_util::sync::CancellationToken::new()).await;
    assert_eq!(events.shown(), ["settled aborted=false"]);
}

#[tokio::test]
async fn a_listener_may_detach_and_reattach_without_loss() {
    let running = setup(&[text("one"), text("two"), text("three")]).start();
    let late = Arc::new(Recorder::default());
    running.prompt("go").await;
    let attached = running.session.attach(late.clone(), Some(0)).await.unwrap();
    assert!(attached.resync.is_none() && attached.seq == 0);
    running.prompt("on").await;
    running.events.wait_for("settled aborted=false").await;
    running.session.detach(attached.id).await;
    running.prompt("alone").await;
    let heard = late.envelopes.lock().len();
    let since = late.envelopes.lock().last().unwrap().seq;
    assert_eq!(since, heard as u64, "all from the first on");
    let again = running.session.attach(late.clone(), Some(since)).await.unwrap();
    assert_eq!(again.seq, since);
    running.session.clear_queues().await;
    late.wait_for("agent_end NoToolCalls").await;
    late.wait_for("queue 0 0").await;
    let whole = running.events.envelopes.lock().clone();
    let mine = late.envelopes.lock().clone();
    assert_eq!(mine, whole, "the same envelopes, in the same order, each once");
}

#[tokio::test]
async fn events_beyond_the_backlog_come_as_a_snapshot() {
    let running = setup(&[text("one"), text("two")]).start();
    running.prompt("go").await;
    for _ in 0..10_000 {
        running.session.clear_queues().await;
    }
    let late = Arc::new(Recorder::default());
    let attached = running.session.attach(late.clone(), Some(0)).await.unwrap();
    let mut state = attached.resync.expect("the first events are gone");
    assert_eq!((state.messages.len(), state.running), (2, false));
    running.prompt("on").await;
    late.wait_for("agent_end NoToolCalls").await;
    for envelope in late.envelopes.lock().iter() {
        assert!(envelope.seq > attached.seq);
        state.apply(&envelope.event);
    }
    assert_eq!(state.messages.to_vec(), running.session.messages().await.unwrap());
}

#[tokio::test]
async fn events_of_deltas_are_as_many_as_the_model_sent() {
    let (_, running) = setup(&[json!({"text": "abcdefgh", "chunk": 1})]).run().await;
    let deltas = running.events.envelopes.lock();
    let deltas = deltas
        .iter()
        .filter(|it| matches!(&it.event, Event::MessageUpdate { update: StreamEvent::TextDelta { .. }, .. }));
    assert_eq!(deltas.count(), 8);
}

/// Takes 300 ms for each event.
struct SlowSink(Arc<Recorder>);

impl EventSink for SlowSink {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            self.0.deliver(envelope).await;
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_has_delivered_settled_as_its_last_event() {
    let events = Arc::new(Recorder::default());
    let model = Arc::new(ScriptModel::parse("m", &text("ok").to_string()).unwrap());
    let session = Session::builder(model, Registry::default())
        .sink(Arc::new(SlowSink(events.clone())))
        .settles_on_close(true)
        .build();
    session.prompt("go").await;
    let (level, text) = ("info".to_owned(), "after the run".to_owned());
    session.report(Event::Notice { level, text }).await;
    assert!(session.close(DEADLINE).await);
    let shown = events.shown();
    assert_eq!(shown[shown.len() - 3..], ["agent_end NoToolCalls", "notice", "settled aborted=false"]);
}
