//! Every kind of failure at every stage of a stream, of every protocol.
//!
//! Each ends in one final message with the output received so far, leaves no connection open, and
//! never shows the key.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use llm::protocol::pilcrow_proxy;
use llm::protocol::{Protocol, Protocols};
use llm::{
    ApiKey, AssistantMessage, Content, Endpoint, ErrorKind, Message, Model as _, RemoteModel, Request,
    RetryPolicy, StopReason, StreamEvent, Timeouts,
};
use parking_lot::Mutex;
use serde_json::json;
use testing::model::protocols::{self, ModelOutput, PROTOCOLS};
use testing::model::{ModelServer, Reply, Step};
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-very-secret-1234";
const LONG: Duration = Duration::from_secs(120);
/// The timeout that is expected to expire.
const SHORT: Duration = Duration::from_millis(1500);

/// All log output, at every level.
fn log() -> &'static Arc<Mutex<Vec<u8>>> {
    #[derive(Clone)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);
    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let writer = LogBuffer(kept.clone());
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        subscriber.with_writer(move || writer.clone()).init();
        tracing::info!("log-is-kept");
        kept
    })
}

#[track_caller]
fn without_key(what: &str, text: &str) {
    // Parts of the key must not leak either.
    assert!(!text.contains(&KEY[..12]), "{what}: the key occurs in {text}");
}

fn protocol(name: &str) -> Arc<dyn Protocol> {
    Protocols::default().get(name).unwrap_or_else(|| Arc::new(pilcrow_proxy::PROTOCOL))
}

/// A server that gives this reply to every request, and a model that uses it.
async fn served(name: &str, reply: Reply, timeouts: Timeouts) -> (ModelServer, RemoteModel) {
    let server = ModelServer::answering(move |_| reply.clone()).await.unwrap();
    let endpoint = Endpoint {
        api_key: ApiKey::new(KEY),
        timeouts: Some(timeouts),
        retry: RetryPolicy { max_retries: 0, ..RetryPolicy::default() },
        ..Endpoint::new("scripted", &server.base_url(), "anthropic.claude-x")
    };
    (server, RemoteModel::new(protocol(name), endpoint))
}

const PATIENT: Timeouts = Timeouts { connect: LONG, first_byte: LONG, idle: LONG };

/// Sends a request and checks the guarantees of every failure.
///
/// `cancel_at` cancels after that many blocks.
async fn failed(
    what: &str,
    server: &ModelServer,
    model: &RemoteModel,
    cancel_at: Option<usize>,
) -> AssistantMessage {
    let cancel = CancellationToken::new();
    let request = Request { messages: vec![Message::user("hi")].into(), ..Request::default() };
    let mut stream = model.stream(request, cancel.clone());
    let mut finals = stream.final_message();
    let events = tokio::time::timeout(LONG, async {
        let mut events = Vec::new();
        loop {
            let begun = events.iter().filter(|event| is_delta(event)).count();
            let accepted = events.iter().any(|event| matches!(event, StreamEvent::Start));
            if cancel_at.is_some_and(|at| accepted && begun >= at) {
                cancel.cancel();
            }
            match stream.next().await {
                Some(event) => events.push(event),
                None => break events,
            }
        }
    });
    let events = events.await.unwrap_or_else(|_| panic!("{what}: it hangs"));
    assert_eq!(stream.next().await, None, "{what}");
    let is_final =
        |event: &&StreamEvent| matches!(event, StreamEvent::Done { .. } | StreamEvent::Error { .. });
    assert_eq!(events.iter().filter(is_final).count(), 1, "{what}: {events:?}");
    let Some(StreamEvent::Error { message }) = events.last() else {
        panic!("{what}: it did not fail: {events:?}");
    };
    assert_eq!(*message, finals.get().await, "{what}");
    without_key(what, &format!("{events:?} {}", serde_json::to_string(message.as_ref()).unwrap()));
    let closed = async {
        while server.open() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let closed = tokio::time::timeout(LONG, closed).await;
    assert!(closed.is_ok(), "{what}: a connection is left open");
    AssistantMessage::clone(message)
}

fn is_delta(event: &StreamEvent) -> bool {
    use StreamEvent::{TextDelta, ThinkingDelta, ToolCallDelta};
    matches!(event, TextDelta { .. } | ThinkingDelta { .. } | ToolCallDelta { .. })
}

fn said() -> Vec<ModelOutput> {
    vec![
        ModelOutput::Thinking("hm".to_owned()),
        ModelOutput::text("half"),
        ModelOutput::call("c1", "read", json!({"path": "src/main.rs", "line": 12})),
    ]
}

/// The stages of a stream: the pieces so far, and their number of deltas.
fn stages(name: &str) -> Vec<(Vec<Vec<u8>>, usize)> {
    let pieces = protocols::pieces(name, &said());
    (0..pieces.len()).map(|count| (pieces[..count].to_vec(), count.saturating_sub(1))).collect()
}

/// Checks that the message has all deltas, and that an incomplete call is marked.
#[track_caller]
fn keeps(what: &str, name: &str, message: &AssistantMessage, deltas: usize) {
    let thinking = message.content.iter().find_map(|content| match content {
        Content::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    assert_eq!(thinking, (deltas > 0).then_some("hm"), "{what}");
    assert_eq!(message.text(), if deltas > 1 { "half" } else { "" }, "{what}");
    let call = message.tool_calls().next();
    assert_eq!(call.map(|it| it.name.as_str()), (deltas > 2).then_some("read"), "{what}");
    if let Some(call) = call {
        // Gemini sends calls whole.
        let is_whole = name.starts_with("google");
        assert_eq!(call.arguments_error.is_none(), is_whole, "{what}: {call:?}");
        assert!(is_whole || deltas > 3 || !call.arguments.contains_key("line"), "{what}: {call:?}");
    }
    assert_eq!(message.content.len(), deltas.min(3), "{what}: {:?}", message.content);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Reset,
    Cut,
    Over,
    Torn,
    TornAndCut,
    Damaged,
    Reported,
    Silent,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_stream_ends_once_with_its_output_so_far() {
    use Fault::{Cut, Damaged, Over, Reported, Reset, Silent, Torn, TornAndCut};
    let log = log();
    let mut all = tokio::task::JoinSet::new();
    for name in PROTOCOLS {
        all.spawn(async move {
            for fault in [Reset, Cut, Over, Torn, TornAndCut, Damaged, Reported, Silent] {
                let whole = protocols::pieces(name, &said());
                for (at, (pieces, deltas)) in stages(name).into_iter().enumerate() {
                    let what = format!("{name} {fault:?} after {at} pieces");
                    // The pieces must arrive before the connection is reset.
                    let pause = Step::Wait(Duration::from_millis(40));
                    let torn = whole[at][..20].to_vec();
                    let damage = match name {
                        "bedrock-converse-stream" => vec![0; 64],
                        _ => b"data: {\"broken\n\n".to_vec(),
                    };
                    let reply = protocols::begun(name, &pieces);
                    let (reply, kind) = match fault {
                        Reset => (reply.steps([pause, Step::Reset]), ErrorKind::Network),
                        Cut => (reply.steps([pause, Step::Cut]), ErrorKind::Network),
                        Over => (reply, ErrorKind::Protocol),
                        Torn => (reply.body(torn), ErrorKind::Protocol),
                        TornAndCut => (reply.body(torn).steps([pause, Step::Cut]), ErrorKind::Network),
                        Damaged => (reply.body(damage), ErrorKind::Protocol),
                        Reported => (
                            reply.body(protocols::failure(name, &format!("request limit of {KEY} reached"))),
                            ErrorKind::Unavailable,
                        ),
                        Silent => (reply.steps([Step::Hang]), ErrorKind::Timeout),
                    };
                    // A proxy reports a failure in a message of its own.
                    if fault == Reported && name == "pilcrow-proxy" {
                        continue;
                    }
                    let timeouts = match fault {
                        Silent => Timeouts { first_byte: SHORT * 2, idle: SHORT, ..PATIENT },
                        _ => PATIENT,
                    };
                    let (server, model) = served(name, reply, timeouts).await;
                    let message = failed(&what, &server, &model, None).await;
                    assert_eq!(
                        (message.stop_reason, message.error_kind),
                        (StopReason::Error, Some(kind)),
                        "{what}: {:?}",
                        message.error_message
                    );
                    keeps(&what, name, &message, deltas);
                }
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    let logged = String::from_utf8_lossy(&log.lock()).into_owned();
    assert!(logged.contains("log-is-kept"));
    without_key("the log", &logged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_stream_ends_once_with_its_output_so_far() {
    for name in PROTOCOLS {
        // The first piece of a proxy says that the request was accepted.
        let first = usize::from(name == "pilcrow-proxy");
        for (at, (pieces, deltas)) in stages(name).into_iter().enumerate().skip(first) {
            let what = format!("{name} cancelled after {at} pieces");
            let (server, model) =
                served(name, protocols::begun(name, &pieces).steps([Step::Hang]), PATIENT).await;
            let message = failed(&what, &server, &model, Some(deltas)).await;
            assert_eq!((message.stop_reason, message.error_kind), (StopReason::Aborted, None), "{what}");
            keeps(&what, name, &message, deltas);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_stream_ends_once_with_a_reason() {
    let log = log();
    let page = format!("<html><body>bad gateway, your key {KEY}</body></html>");
    let body = json!({"error": {"message": format!("no, {KEY}"), "type": "odd"}}).to_string();
    let html = |status| Reply::status(status).header("content-type", "text/html").body(&page);
    let answer = |status| Reply::status(status).header("content-type", "application/json").body(&body);
    let all = |status: u16| Reply::status(status).header("content-type", "text/event-stream");
    let cases = [
        ("reset before headers", Reply::status(200).before_headers([Step::Reset]), ErrorKind::Network),
        ("cut before headers", Reply::status(200).before_headers([Step::Cut]), ErrorKind::Network),
        (
            "no HTTP",
            Reply::status(200).before_headers([Step::Send(b"SSH-2.0-x\r\n".to_vec()), Step::Cut]),
            ErrorKind::Network,
        ),
        ("silent before headers", Reply::status(200).before_headers([Step::Hang]), ErrorKind::Timeout),
        (
            "silent in an error",
            Reply::status(500).header("content-type", "text/plain").steps([Step::Cut]),
            ErrorKind::Unavailable,
        ),
        ("a page", html(200), ErrorKind::Provider),
        ("a page of a proxy", html(502), ErrorKind::Unavailable),
        ("no content", Reply::status(204), ErrorKind::Protocol),
        ("nothing", all(200), ErrorKind::Protocol),
        (
            "words",
            Reply::status(200).header("content-type", "text/plain").body("hello\n"),
            ErrorKind::Provider,
        ),
        (
            "broken JSON",
            Reply::status(200).header("content-type", "application/json").body("{\"a\": "),
            ErrorKind::Protocol,
        ),
        ("a redirect", Reply::status(307).header("location", "http://127.0.0.1:1/"), ErrorKind::Provider),
        ("400", answer(400), ErrorKind::Provider),
        ("401", answer(401), ErrorKind::Authentication),
        ("402", answer(402), ErrorKind::RateLimit),
        ("403", answer(403), ErrorKind::Authentication),
        ("404", answer(404), ErrorKind::Provider),
        ("413", answer(413), ErrorKind::ContextOverflow),
        ("429", answer(429), ErrorKind::RateLimit),
        ("500", answer(500), ErrorKind::Unavailable),
        ("503", answer(503), ErrorKind::Unavailable),
        ("529", answer(529), ErrorKind::Unavailable),
    ];
    for name in PROTOCOLS {
        for (fault, reply, kind) in &cases {
            let what = format!("{name}: {fault}");
            let timeouts = match kind {
                ErrorKind::Timeout => Timeouts { first_byte: Duration::from_millis(300), ..PATIENT },
                _ => PATIENT,
            };
            let (server, model) = served(name, reply.clone(), timeouts).await;
            let message = failed(&what, &server, &model, None).await;
            let error = message.error_message.clone().unwrap_or_default();
            assert_eq!((message.error_kind, message.content.len()), (Some(*kind), 0), "{what}: {error}");
            assert!(!error.is_empty() && server.received().len() == 1, "{what}");
        }
    }
    let logged = String::from_utf8_lossy(&log.lock()).into_owned();
    assert!(logged.contains("log-is-kept"));
    without_key("the log", &logged);
}

/// Checks that the scripted streams of all protocols decode to the same message.
#[tokio::test]
async fn scripted_streams_are_decoded() {
    for name in PROTOCOLS {
        let (server, model) = served(name, protocols::reply(name, &said()), PATIENT).await;
        let request = Request { messages: vec![Message::user("hi")].into(), ..Request::default() };
        let message = model.stream(request, CancellationToken::new()).final_message().get().await;
        assert_eq!(message.stop_reason, StopReason::ToolUse, "{name}: {message:?}");
        assert_eq!((message.text().as_str(), message.content.len()), ("half", 3), "{name}");
        let call = message.tool_calls().next().unwrap();
        assert_eq!(json!(call.arguments), json!({"path": "src/main.rs", "line": 12}), "{name}");
        let headers = &server.received()[0].headers;
        assert!(headers.iter().any(|(_, value)| value.contains(KEY)), "{name}: the key is sent");
    }
}
