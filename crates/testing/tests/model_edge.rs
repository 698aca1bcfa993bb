//! HTTP behaviour of models with the scripted server: timeouts, retries, faults.
//!
//! Every fault at every stage of a response ends in exactly one final message, with the output
//! received so far.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail by panicking")]

use std::time::{Duration, Instant};

use std::sync::Arc;

use llm::protocol::openai_completions;
use llm::protocol::{Decoder, EncodeError, HttpRequest, Protocol, Protocols};
use llm::{
    ApiKey, AssistantMessage, Auth, Endpoint, ErrorKind, Message, Model, RemoteModel, Request, StopReason,
    StreamEvent, Timeouts,
};
use serde_json::json;
use testing::model::{ModelServer, Reply, Step};
use tokio_util::sync::CancellationToken;

const KEY: &str = "sk-very-secret-1234";

fn endpoint(base_url: &str) -> Endpoint {
    Endpoint { api_key: ApiKey::new(KEY), ..Endpoint::new("scripted", base_url, "m") }
}

fn half() -> Vec<u8> {
    let chunk = json!({"id": "r", "choices": [{"index": 0, "delta": {"content": "half"}}]});
    format!("data: {chunk}\n\n").into_bytes()
}

struct Outcome {
    message: AssistantMessage,
    retries: Vec<u64>,
}

async fn ask(model: &RemoteModel, cancel: CancellationToken) -> Outcome {
    let request = Request { messages: vec![Message::user("hi")].into(), ..Request::default() };
    let mut stream = model.stream(request, cancel);
    let mut retries = Vec::new();
    let message = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            match stream.next().await.expect("a final event comes first") {
                StreamEvent::Retrying { delay_ms, error, .. } => {
                    assert!(!error.contains(KEY), "{error}");
                    retries.push(delay_ms);
                }
                StreamEvent::Done { message } | StreamEvent::Error { message } => break message,
                _ => {}
            }
        }
    });
    let message = AssistantMessage::clone(&message.await.expect("it ends"));
    assert_eq!(stream.next().await, None);
    let error = message.error_message.clone().unwrap_or_default();
    assert!(!error.contains(KEY), "{error}");
    Outcome { message, retries }
}

async fn answer(replies: Vec<Reply>, change: impl Fn(&mut Endpoint)) -> (Outcome, ModelServer) {
    let server = ModelServer::start(replies).await.unwrap();
    let mut endpoint = endpoint(&server.base_url());
    change(&mut endpoint);
    let outcome =
        ask(&RemoteModel::new(Arc::new(openai_completions::PROTOCOL), endpoint), CancellationToken::new())
            .await;
    (outcome, server)
}

/// The kind and text of the error for this reply, without retries.
async fn failing(reply: Reply) -> (ErrorKind, String, String) {
    let (outcome, _) = answer(vec![reply], |endpoint| endpoint.retry.max_retries = 0).await;
    let message = outcome.message;
    assert_eq!(message.stop_reason, StopReason::Error);
    let text = message.text();
    (message.error_kind.unwrap(), message.error_message.unwrap(), text)
}

#[tokio::test]
async fn a_stream_is_decoded_and_its_request_has_key_and_address() {
    for piece in [1, 7, usize::MAX] {
        let bytes = [half(), b"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n".to_vec()]
            .concat();
        let (outcome, server) = answer(vec![Reply::stream(bytes, piece)], |_| ()).await;
        assert_eq!(
            (outcome.message.text().as_str(), outcome.message.stop_reason),
            ("half", StopReason::Stop)
        );
        let received = &server.received()[0];
        assert_eq!(received.target, "POST /v1/chat/completions");
        assert_eq!(received.body["messages"], json!([{"role": "user", "content": "hi"}]));
        assert!(received.headers.contains(&("authorization".into(), format!("Bearer {KEY}"))));
        assert_eq!(server.unused(), 0);
    }
    let (_, server) = answer(vec![Reply::text("ok")], |endpoint| endpoint.api_key = None).await;
    assert!(!server.received()[0].headers.iter().any(|(name, _)| name == "authorization"));
}

#[tokio::test]
async fn a_response_without_streaming_is_decoded() {
    let whole = json!({"id": "r", "choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]});
    let reply =
        Reply::status(200).header("content-type", "application/json; charset=utf-8").body(whole.to_string());
    let (outcome, _) = answer(vec![reply], |_| ()).await;
    assert_eq!((outcome.message.text().as_str(), outcome.message.stop_reason), ("whole", StopReason::Stop));
    let broken = Reply::status(200).header("content-type", "application/json").body("{\"choices\": [");
    assert_eq!(failing(broken).await.0, ErrorKind::Protocol);
}

/// Sends other content types than the responses have, as servers and gateways do.
#[tokio::test]
async fn the_first_bytes_decide_the_kind_of_a_response() {
    let typed =
        |content_type: &str, body: &str| Reply::status(200).header("content-type", content_type).body(body);
    let stream =
        "\n: ping\ndata: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":\"stop\"}]}\n\n";
    let whole = "{\"choices\": [{\"message\": {\"content\": \"half\"}, \"finish_reason\": \"stop\"}]}";
    for (content_type, body) in [
        ("application/json", stream),
        ("text/html; charset=utf-8", stream),
        ("text/event-stream", whole),
        ("text/plain", whole),
    ] {
        let (outcome, _) = answer(vec![typed(content_type, body)], |_| ()).await;
        let message = outcome.message;
        assert_eq!(
            (message.text().as_str(), message.stop_reason),
            ("half", StopReason::Stop),
            "{content_type}"
        );
    }
    for (content_type, body, expected) in [
        (
            "text/event-stream",
            "{\"error\": {\"message\": \"it sleeps\"}}",
            expect_test::expect!["the provider reported an error: it sleeps"],
        ),
        (
            "application/json",
            "{\"message\": \"it sleeps\"}",
            expect_test::expect!["the provider sent no answer: it sleeps"],
        ),
        ("application/json", "it sleeps", expect_test::expect!["scripted sent no event stream: it sleeps"]),
        (
            "text/event-stream",
            "event: error\ndata: it sleeps\n\n",
            expect_test::expect!["the provider reported an error: it sleeps"],
        ),
        (
            "text/plain",
            "[ERROR] it sleeps",
            expect_test::expect![
                "scripted sent JSON that cannot be read (expected value at line 1 column 2): [ERROR] it sleeps"
            ],
        ),
    ] {
        let (_, error, _) = failing(typed(content_type, body)).await;
        expected.assert_eq(&error);
    }
    let packed = typed("text/event-stream", "\u{1f}").header("content-encoding", "gzip");
    expect_test::expect![
        "scripted answered in the encoding gzip, which Pilcrow did not request; check the proxy"
    ]
    .assert_eq(&failing(packed).await.1);
    let (outcome, _) =
        answer(vec![typed("text/event-stream", stream).header("content-encoding", "none")], |_| ()).await;
    assert_eq!(outcome.message.text(), "half");
}

#[tokio::test]
async fn broken_connections_keep_the_output_so_far() {
    for step in [Step::Cut, Step::Reset] {
        let reply = Reply::stream(half(), usize::MAX).steps([Step::Wait(Duration::from_millis(50)), step]);
        let (kind, error, text) = failing(reply).await;
        assert_eq!((kind, text.as_str()), (ErrorKind::Network, "half"));
        assert!(error.starts_with("the connection to scripted broke"), "{error}");
    }
    let (kind, error, text) = failing(Reply::stream(half(), usize::MAX)).await;
    assert_eq!((kind, text.as_str()), (ErrorKind::Protocol, "half"));
    assert_eq!(error, "the stream ended without finish_reason");
}

#[tokio::test]
async fn errors_name_status_message_request_id_and_next_step() {
    let reply = Reply::status(401)
        .header("x-request-id", "req_7")
        .body(json!({"error": {"message": format!("bad key {KEY}")}}).to_string());
    let (kind, error, _) = failing(reply).await;
    assert_eq!(kind, ErrorKind::Authentication);
    assert_eq!(
        error,
        "scripted answered 401 Unauthorized: bad key [redacted:api-key] (request id req_7); check the API key"
    );
    for (status, body, expected) in [
        (
            400,
            json!({"error": {"message": "no", "type": "invalid_request_error", "code": "model_not_found"}}),
            "400 Bad Request: model_not_found, invalid_request_error: no",
        ),
        (
            429,
            json!({"error": {"message": "Resource exhausted", "code": 429, "status": "RESOURCE_EXHAUSTED"}}),
            "429 Too Many Requests: RESOURCE_EXHAUSTED: Resource exhausted",
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}, "request_id": "req_9"}),
            "400 Bad Request: invalid_request_error: no (request id req_9)",
        ),
        (
            422,
            json!({"object": "error", "message": "no", "type": "invalid_request_error", "code": 1300}),
            "422 Unprocessable Entity: 1300, invalid_request_error: no",
        ),
        (
            502,
            json!({"error": {"message": "Provider returned error", "code": 502, "metadata": {"raw": "it sleeps"}}}),
            "502 Bad Gateway: Provider returned error: it sleeps",
        ),
    ] {
        let (_, error, _) = failing(Reply::status(status).body(body.to_string())).await;
        assert_eq!(error, format!("scripted answered {expected}"));
    }
    let inside = json!({"error": {"message": "it sleeps", "type": "server_error"}});
    let stream = [half(), format!("data: {inside}\n\n").into_bytes()].concat();
    for (reply, expected) in [
        (
            Reply::stream(stream, usize::MAX),
            "the provider reported an error: server_error: it sleeps (request id req_8)",
        ),
        (Reply::stream(half(), usize::MAX), "the stream ended without finish_reason (request id req_8)"),
    ] {
        let (_, error, text) = failing(reply.header("x-request-id", "req_8")).await;
        assert_eq!((error.as_str(), text.as_str()), (expected, "half"));
    }
    let page = "<html><head><title>502 Bad Gateway</title></head><body>proxy</body></html>";
    let (kind, error, _) = failing(Reply::status(502).header("content-type", "text/html").body(page)).await;
    assert_eq!(
        (kind, error.as_str()),
        (ErrorKind::Unavailable, "scripted answered 502 Bad Gateway: 502 Bad Gateway proxy")
    );
    let (kind, error, _) = failing(Reply::status(200).header("content-type", "text/html").body(page)).await;
    assert_eq!(kind, ErrorKind::Provider);
    expect_test::expect!["scripted answered 200 OK with a web page instead of an event stream; check the base URL and the proxy: 502 Bad Gateway proxy"].assert_eq(&error);
    let (_, error, _) = failing(Reply::status(302).header("location", "http://127.0.0.1:1/")).await;
    expect_test::expect![
        "scripted answered 302 Found; redirects are not followed, give the final address as base URL"
    ]
    .assert_eq(&error);
    let (_, error, _) = failing(Reply::status(404).body("{\"error\":\"no model m\"}")).await;
    expect_test::expect![
        "scripted answered 404 Not Found: no model m; check the base URL and the model's name"
    ]
    .assert_eq(&error);
}

#[tokio::test]
async fn requests_without_output_are_retried() {
    let replies = vec![
        Reply::status(429).header("retry-after-ms", "30").body("slow down"),
        Reply::status(200).before_headers([Step::Reset]),
        Reply::text("ok"),
    ];
    let (outcome, server) = answer(replies, |_| ()).await;
    assert_eq!((outcome.message.text().as_str(), server.unused()), ("ok", 0));
    assert_eq!(outcome.retries.len(), 2);
    assert_eq!(outcome.retries[0], 30);
    assert!((1500..=2000).contains(&outcome.retries[1]), "{:?}", outcome.retries);
}

#[tokio::test]
async fn retries_are_limited_to_transient_errors() {
    let busy = Reply::status(503).header("retry-after-ms", "1").body("busy");
    let (outcome, server) = answer(vec![busy; 7], |_| ()).await;
    assert_eq!((outcome.message.stop_reason, server.unused()), (StopReason::Error, 1), "five retries");
    for reply in [
        Reply::status(400).body("no"),
        Reply::status(429).body("{\"error\":{\"code\":\"insufficient_quota\"}}"),
        Reply::status(503).header("x-should-retry", "false"),
        Reply::status(429).header("retry-after", "3600"),
        Reply::stream(half(), 9).steps([Step::Reset]),
    ] {
        let (outcome, server) = answer(vec![reply, Reply::text("not asked")], |_| ()).await;
        assert_eq!((outcome.retries.len(), server.unused()), (0, 1));
        assert_eq!(outcome.message.stop_reason, StopReason::Error);
    }
    let first = Reply::status(503).header("retry-after", "6");
    let impatient = Request { patience: Some(Duration::from_secs(5)), ..Request::default() };
    let server = ModelServer::start([first, Reply::text("not asked")]).await.unwrap();
    let model = RemoteModel::new(Arc::new(openai_completions::PROTOCOL), endpoint(&server.base_url()));
    let message = model.stream(impatient, CancellationToken::new()).final_message().get().await;
    assert_eq!((message.error_kind, server.unused()), (Some(ErrorKind::Unavailable), 1));
    let (outcome, _) = answer(vec![Reply::status(429).header("retry-after", "3600")], |_| ()).await;
    let error = outcome.message.error_message.unwrap();
    expect_test::expect!["scripted answered 429 Too Many Requests; the server asked to wait 3600 s, more than the limit of 60 s"].assert_eq(&error);
}

#[tokio::test]
async fn silence_ends_by_its_timeout() {
    let (short, long) = (Duration::from_millis(1500), Duration::from_secs(60));
    let cases = [
        (
            Reply::status(200).before_headers([Step::Hang]),
            short,
            long,
            "no answer from scripted for 1.5 s",
            "",
        ),
        (Reply::stream("", 1).steps([Step::Hang]), short, long, "nothing came from scripted for 1.5 s", ""),
        (
            Reply::stream(half(), usize::MAX).steps([Step::Hang]),
            long,
            short,
            "nothing came from scripted for 1.5 s",
            "half",
        ),
    ];
    for (reply, first_byte, idle, expected, text) in cases {
        let timeouts = Timeouts { connect: long, first_byte, idle };
        let (outcome, _) = answer(vec![reply], |endpoint| {
            endpoint.timeouts = Some(timeouts);
            endpoint.retry.max_retries = 0;
        })
        .await;
        let message = outcome.message;
        assert_eq!(message.error_kind, Some(ErrorKind::Timeout));
        assert_eq!((message.error_message.as_deref(), message.text().as_str()), (Some(expected), text));
    }
}

#[tokio::test]
async fn pings_keep_a_stream_alive() {
    let timeouts = Timeouts {
        connect: Duration::from_secs(30),
        first_byte: Duration::from_secs(30),
        idle: Duration::from_millis(2000),
    };
    let pings =
        (0..12).flat_map(|_| [Step::Wait(Duration::from_millis(200)), Step::Send(b": ping\n\n".to_vec())]);
    let reply = Reply::stream(half(), usize::MAX).steps(pings).body(b"data: [DONE]\n\n");
    let (outcome, _) = answer(vec![reply], |endpoint| {
        endpoint.timeouts = Some(timeouts);
        endpoint.compat.finish_reason = false;
    })
    .await;
    assert_eq!((outcome.message.text().as_str(), outcome.message.stop_reason), ("half", StopReason::Stop));
}

#[tokio::test]
async fn cancellation_ends_every_stage_at_once() {
    let long = Duration::from_secs(60);
    for reply in [
        Reply::status(200).before_headers([Step::Hang]),
        Reply::status(503).header("retry-after", "50"),
        Reply::stream(half(), usize::MAX).steps([Step::Wait(long)]),
    ] {
        let server = ModelServer::start([reply]).await.unwrap();
        let model = RemoteModel::new(Arc::new(openai_completions::PROTOCOL), endpoint(&server.base_url()));
        let cancel = CancellationToken::new();
        let when_asked = async {
            while server.received().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
            Instant::now()
        };
        let (outcome, cancelled) = tokio::join!(ask(&model, cancel.clone()), when_asked);
        assert_eq!(outcome.message.stop_reason, StopReason::Aborted);
        assert!(cancelled.elapsed() < Duration::from_secs(5), "{:?}", cancelled.elapsed());
    }
}

#[tokio::test]
async fn errors_name_an_unreachable_server() {
    let gone = ModelServer::start([]).await.unwrap().base_url();
    let model = RemoteModel::new(Arc::new(openai_completions::PROTOCOL), endpoint(&gone));
    let Outcome { message, retries } = ask(&model, CancellationToken::new()).await;
    assert!(retries.is_empty(), "a local server that is down stays down");
    assert_eq!(message.error_kind, Some(ErrorKind::Network));
    let error = message.error_message.unwrap();
    assert!(error.starts_with(&format!("cannot reach scripted at {gone}/chat/completions")), "{error}");
    assert!(error.ends_with("is the server running?"), "{error}");
}

#[tokio::test]
async fn provider_settings_are_on_the_wire_and_in_errors() {
    let (_, server) = answer(vec![Reply::text("ok")], |endpoint| {
        endpoint.auth = Some(Auth { header: "X-Odd-Key".to_owned(), prefix: "Token ".to_owned() });
        endpoint.headers = vec![("X-Team".to_owned(), "tools".to_owned())];
    })
    .await;
    let headers = server.received()[0].headers.clone();
    let of = |name: &str| headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
    assert_eq!(of("x-odd-key"), Some(format!("Token {KEY}")));
    assert_eq!((of("x-team").as_deref(), of("authorization")), (Some("tools"), None));
    for (status, expected) in
        [(402, "402 Payment Required: out; buy more at example.com"), (400, "400 Bad Request: out")]
    {
        let reply = Reply::status(status).body("{\"error\": {\"message\": \"out\"}}");
        let text = (402, "buy more at example.com".to_owned());
        let (outcome, _) = answer(vec![reply], |endpoint| endpoint.texts = [text.clone()].into()).await;
        assert_eq!(outcome.message.error_message, Some(format!("scripted answered {expected}")));
    }
}

#[tokio::test]
async fn connecting_waits_for_its_timeout() {
    let listening = tokio::net::TcpSocket::new_v4().unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listening = listening.listen(1).unwrap();
    let address = listening.local_addr().unwrap();
    // Connections that are never accepted fill the queue; then the server stops responding.
    let mut waiting = Vec::new();
    while let Ok(connected) =
        tokio::time::timeout(Duration::from_millis(500), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(connected.unwrap());
        assert!(waiting.len() < 1000, "the queue is never full");
    }
    let long = Duration::from_secs(60);
    let mut endpoint = endpoint(&format!("http://{address}/v1"));
    endpoint.timeouts = Some(Timeouts { connect: Duration::from_millis(300), first_byte: long, idle: long });
    endpoint.retry.max_retries = 0;
    let before = Instant::now();
    let message =
        ask(&RemoteModel::new(Arc::new(openai_completions::PROTOCOL), endpoint), CancellationToken::new())
            .await
            .message;
    assert_eq!(message.error_kind, Some(ErrorKind::Network), "the server was not reached");
    assert!(message.error_message.unwrap().starts_with("cannot reach scripted"));
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
}

/// A protocol that an embedding program adds: another address with the same stream.
struct Foreign;

impl Protocol for Foreign {
    fn name(&self) -> &str {
        "foreign"
    }
    fn encode(&self, endpoint: &Endpoint, request: &Request) -> Result<HttpRequest, EncodeError> {
        let mut http = openai_completions::PROTOCOL.encode(endpoint, request)?;
        http.url = format!("{}/foreign", endpoint.base_url);
        http.body = json!({"said": request.messages.len()});
        Ok(http)
    }
    fn decoder(&self, endpoint: &Endpoint, empty: AssistantMessage) -> Box<dyn Decoder> {
        openai_completions::PROTOCOL.decoder(endpoint, empty)
    }
}

#[tokio::test]
async fn an_embedders_protocol_is_supported() {
    let mut protocols = Protocols::default();
    protocols.register(Arc::new(Foreign));
    assert!(protocols.names().any(|name| name == "foreign"));
    let server = ModelServer::start([Reply::text("from afar")]).await.unwrap();
    let model = RemoteModel::new(protocols.get("foreign").unwrap(), endpoint(&server.base_url()));
    let message = ask(&model, CancellationToken::new()).await.message;
    assert_eq!((message.text().as_str(), message.api.as_str()), ("from afar", "foreign"));
    let received = &server.received()[0];
    assert_eq!((received.target.as_str(), &received.body), ("POST /v1/foreign", &json!({"said": 1})));
}
