//! The order and content of events.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use llm::{AssistantMessage, Content, Message, MessageStream, Model, ModelInfo, Request, StreamEvent};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::TerminationReason;

#[tokio::test]
async fn a_plain_prompt_makes_one_request_in_event_order() {
    let (outcome, running) = setup(&[text("Hello there, this is more than one delta.")]).run().await;
    assert_eq!(
        running.shown(),
        [
            "agent_start",
            "turn_start 1",
            "start User",
            "end user: go",
            "start Assistant",
            "update",
            "end assistant: Hello there, this is more than one delta.",
            "turn_end 1 results=0 continue=false",
            "agent_end NoToolCalls",
        ]
    );
    assert_eq!(outcome.reason, TerminationReason::NoToolCalls);
    assert_eq!(outcome.final_text, "Hello there, this is more than one delta.");
}

#[tokio::test]
async fn several_prompts_come_in_order() {
    let running = setup(&[text("ok")]).start();
    let messages = vec![Message::user("one"), Message::user("two")];
    running.session.prompt_messages(messages, CancellationToken::new()).await;
    let shown = running.shown();
    assert_eq!(shown[2..6], ["start User", "end user: one", "start User", "end user: two"]);
}

#[tokio::test]
async fn a_turn_with_a_tool_has_its_events_in_order() {
    let updating = tool("t", |_, cx| {
        Box::pin(async move {
            for content in ["10", "90"] {
                let update_type = crate::events::UpdateKind::Progress;
                cx.update(crate::events::Update {
                    update_type,
                    content: content.into(),
                    progress_percent: None,
                })
                .await;
            }
            ToolResult::text("done")
        })
    });
    let script = [calls(&[call("a", "t", json!({}))]), text("ok")];
    let (outcome, running) = setup(&script).tool(updating).run().await;
    assert_eq!(
        running.shown(),
        [
            "agent_start",
            "turn_start 1",
            "start User",
            "end user: go",
            "start Assistant",
            "update",
            "end assistant: ",
            "tool_start a",
            "tool_update a: 10",
            "tool_update a: 90",
            "tool_end a",
            "start ToolResult",
            "end toolResult: done",
            "turn_end 1 results=1 continue=true",
            "turn_start 2",
            "start Assistant",
            "update",
            "end assistant: ok",
            "turn_end 2 results=0 continue=false",
            "agent_end NoToolCalls",
        ]
    );
    let roles: Vec<&str> = outcome.messages.iter().map(Message::role).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"]);
    assert_eq!((outcome.turns, running.model.requests().len()), (2, 2));
    let envelopes = running.events.envelopes.lock();
    let ids: Vec<&String> = envelopes
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::MessageEnd { message_id, message: Message::ToolResult(_) } => Some(message_id),
            _ => None,
        })
        .collect();
    let reported = envelopes.iter().find_map(|envelope| match &envelope.event {
        Event::TurnEnd { turn_index: 1, tool_results, .. } => Some(tool_results),
        _ => None,
    });
    assert_eq!(reported.unwrap().iter().collect::<Vec<_>>(), ids, "b07");
}

#[tokio::test]
async fn an_error_ends_with_one_agent_end() {
    let (outcome, running) = setup(&[json!({"text": "half", "error": "it broke"})]).run().await;
    let shown = running.shown();
    assert_eq!(shown.first().unwrap(), "agent_start");
    assert_eq!(shown[shown.len() - 2..], ["turn_end 1 results=0 continue=false", "agent_end Error"]);
    assert_eq!(shown.iter().filter(|it| it.starts_with("agent_end")).count(), 1);
    assert_eq!((outcome.error.as_deref(), outcome.final_text.as_str()), (Some("it broke"), "half"));
}

/// Plays the same events for each request.
struct Fixed(ModelInfo, Vec<StreamEvent>);

impl Model for Fixed {
    fn info(&self) -> &ModelInfo {
        &self.0
    }
    fn stream(&self, _: Request, cancel: CancellationToken) -> MessageStream {
        let events = self.1.clone();
        MessageStream::spawn(AssistantMessage::empty("a", "p", "m"), cancel, |writer| async move {
            events.into_iter().for_each(|event| writer.push(event));
        })
    }
}

fn fixed(events: Vec<StreamEvent>) -> Fixed {
    let info = ModelInfo {
        provider: "p".to_owned(),
        id: "m".to_owned(),
        api: "a".to_owned(),
        images: false,
        context_window: None,
    };
    Fixed(info, events)
}

#[tokio::test]
async fn a_response_without_start_is_reported_whole() {
    let done =
        AssistantMessage { content: vec![Content::text("all")], ..AssistantMessage::empty("a", "p", "m") };
    let stray = [
        StreamEvent::TextStart { index: 0 },
        StreamEvent::TextDelta { index: 0, delta: "all".to_owned() },
        StreamEvent::end(done),
    ];
    let events = Arc::new(Recorder::default());
    let session =
        Session::builder(Arc::new(fixed(stray.to_vec())), Registry::default()).sink(events.clone()).build();
    session.prompt("go").await;
    let shown = events.shown();
    assert_eq!(shown[4..6], ["start Assistant", "end assistant: all"]);
}

#[tokio::test]
async fn a_model_that_panics_or_drops_its_stream_is_an_error() {
    struct Panics(ModelInfo);
    impl Model for Panics {
        fn info(&self) -> &ModelInfo {
            &self.0
        }
        fn stream(&self, _: Request, _: CancellationToken) -> MessageStream {
            panic!("a defect")
        }
    }
    let models: [Arc<dyn Model>; 2] =
        [Arc::new(Panics(fixed(vec![]).0)), Arc::new(fixed(vec![StreamEvent::Start]))];
    for model in models {
        let outcome = Session::builder(model, Registry::default()).build().prompt("go").await;
        assert_eq!(outcome.reason, TerminationReason::Error);
        assert!(outcome.error.is_some());
    }
}

/// Answers once, then panics.
struct Broken(Fixed, std::sync::atomic::AtomicBool);

impl Model for Broken {
    fn info(&self) -> &ModelInfo {
        assert!(!self.1.load(std::sync::atomic::Ordering::SeqCst), "a defect");
        self.0.info()
    }
    fn stream(&self, request: Request, cancel: CancellationToken) -> MessageStream {
        let stream = self.0.stream(request, cancel);
        self.1.store(true, std::sync::atomic::Ordering::SeqCst);
        stream
    }
}

#[tokio::test]
async fn a_panicking_run_ends_with_an_error() {
    let events = Arc::new(Recorder::default());
    let model = Broken(fixed(vec![StreamEvent::Start]), Default::default());
    let session = Session::builder(Arc::new(model), Registry::default()).sink(events.clone()).build();
    let outcome = session.prompt("go").await;
    assert_eq!((outcome.reason, outcome.turns), (TerminationReason::Error, 1));
    assert_eq!(outcome.error.as_deref(), Some(crate::run::DEFECT));
    let run = |wanted: &str| {
        let envelopes = events.envelopes.lock();
        let mut runs = envelopes.iter().filter_map(|it| match &it.event {
            Event::AgentStart { run_id, .. } if wanted == "start" => Some(run_id.clone()),
            Event::AgentEnd { run_id, .. } if wanted == "end" => Some(run_id.clone()),
            _ => None,
        });
        runs.next()
    };
    assert_eq!((run("start"), run("end")), (Some(outcome.run.clone()), Some(outcome.run)));
}

#[tokio::test]
async fn seq_and_state_version_increase_as_documented() {
    let (_, running) = setup(&[calls(&[call("a", "t", json!({}))]), text("ok")]).tool(echo("t")).run().await;
    running.prompt("again, with no answer left").await;
    let envelopes = running.events.envelopes.lock();
    let mut version = 0;
    for (at, envelope) in envelopes.iter().enumerate() {
        assert_eq!(envelope.seq, at as u64 + 1);
        version += u64::from(envelope.event.changes_state());
        assert_eq!(envelope.state_version, version);
        assert_eq!(envelope.session_id, running.session.id());
        let line = serde_json::to_string(envelope).unwrap();
        assert_eq!(&serde_json::from_str::<Envelope>(&line).unwrap(), envelope, "{line}");
    }
}

struct Bad;

impl EventSink for Bad {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        assert!(envelope.seq < 3, "a defect of a listener");
        Box::pin(async {})
    }
}

#[tokio::test]
async fn a_panicking_listener_is_removed_and_the_others_stay() {
    let script = Arc::new(ScriptModel::parse("t", r#"{"text": "ok"}"#).unwrap());
    let events = Arc::new(Recorder::default());
    let session =
        Session::builder(script, Registry::default()).sink(Arc::new(Bad)).sink(events.clone()).build();
    assert_eq!(session.prompt("go").await.reason, TerminationReason::NoToolCalls);
    assert!(events.shown().contains(&"agent_end NoToolCalls".to_owned()));
}

#[tokio::test]
async fn queued_messages_start_further_turns() {
    let running = setup(&[text("one"), text("two"), text("three"), text("four")]).start();
    running.session.follow_up(Message::user("last")).await;
    running.session.steer(Message::user("s1")).await;
    running.session.steer(Message::user("s2")).await;
    let outcome = running.prompt("go").await;
    let said: Vec<String> = outcome.messages.iter().map(Message::text).collect();
    assert_eq!(said, ["go", "s1", "one", "s2", "two", "last", "three"]);
    let starts = running.shown().iter().filter(|it| *it == "agent_start").count();
    assert_eq!((starts, running.model.unused()), (1, 1));
}
