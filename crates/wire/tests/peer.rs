//! The peer against raw bytes in a pair of pipes.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{CloseReason, Handler, IncomingRequest, Peer, PeerOptions, RequestError, RpcError};

const LONG: Duration = Duration::from_secs(20);

struct Recorder(mpsc::UnboundedSender<String>);

impl Handler for Recorder {
    fn notification(&self, _: &Peer, method: &str, _: Option<&RawValue>) {
        assert_ne!(method, "panic", "asked for");
        self.0.send(method.to_owned()).ok();
    }

    fn request(
        &self,
        _: &Peer,
        request: IncomingRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        self.0.send(request.method.clone()).ok();
        Box::pin(async move {
            match request.method.as_str() {
                "echo" => Ok(request.params.unwrap()),
                "never" => std::future::pending().await,
                "panic" => panic!("asked for"),
                other => Err(RpcError::method_not_found(other)),
            }
        })
    }
}

/// The other end of the stream, which the test scripts.
struct Far {
    reader: ReadHalf<DuplexStream>,
    writer: WriteHalf<DuplexStream>,
}

impl Far {
    async fn send(&mut self, message: Value) {
        let body = message.to_string();
        self.raw(&format!("Content-Length: {}\r\n\r\n{body}", body.len())).await;
    }

    async fn raw(&mut self, bytes: &str) {
        self.writer.write_all(bytes.as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let read = async {
            let mut header = String::new();
            while !header.ends_with("\r\n\r\n") {
                header.push(char::from(self.reader.read_u8().await.unwrap()));
            }
            let length: usize = header.trim().strip_prefix("Content-Length: ").unwrap().parse().unwrap();
            let mut body = vec![0; length];
            self.reader.read_exact(&mut body).await.unwrap();
            serde_json::from_slice(&body).unwrap()
        };
        tokio::time::timeout(LONG, read).await.expect("a message in time")
    }
}

struct Setup {
    peer: Peer,
    far: Far,
    heard: mpsc::UnboundedReceiver<String>,
    tracker: TaskTracker,
}

fn setup(change: impl FnOnce(&mut PeerOptions), pipe: usize) -> Setup {
    let (near, far) = tokio::io::duplex(pipe);
    let (reader, writer) = tokio::io::split(near);
    let (sender, heard) = mpsc::unbounded_channel();
    let tracker = TaskTracker::new();
    let mut options = PeerOptions::new("test");
    change(&mut options);
    let peer = Peer::spawn(reader, writer, Arc::new(Recorder(sender)), options, &tracker);
    let (reader, writer) = tokio::io::split(far);
    Setup { peer, far: Far { reader, writer }, heard, tracker }
}

fn ask(
    peer: &Peer,
    method: &'static str,
    deadline: Duration,
    cancel: &CancellationToken,
) -> tokio::task::JoinHandle<Result<Box<RawValue>, RequestError>> {
    let (peer, cancel) = (peer.clone(), cancel.clone());
    tokio::spawn(async move { peer.request(method, &json!({}), deadline, &cancel).await })
}

#[tokio::test]
async fn responses_match_requests_in_any_order() {
    let Setup { peer, mut far, .. } = setup(|_| (), 4096);
    let cancel = CancellationToken::new();
    let first = ask(&peer, "a", LONG, &cancel);
    let first_id = far.receive().await["id"].clone();
    let second = ask(&peer, "b", LONG, &cancel);
    let second_id = far.receive().await["id"].clone();
    far.send(json!({"id": 999, "result": 0})).await;
    far.send(json!({"id": "no", "result": 0})).await;
    far.raw("printed by accident\n").await;
    far.raw("Content-Length: 5\r\n\r\n{\"a\":").await;
    far.send(json!({"id": second_id, "result": "b"})).await;
    far.send(json!({"id": second_id, "result": "again"})).await;
    far.send(json!({"id": first_id, "error": {"code": -5, "message": "no"}})).await;
    assert_eq!(second.await.unwrap().unwrap().get(), "\"b\"");
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "a failed: no (-5)");
    assert_eq!(peer.pending(), 0);
}

#[tokio::test]
async fn cancel_deadline_and_drop_free_the_entry_and_notify() {
    let Setup { peer, mut far, .. } = setup(|_| (), 4096);
    let cancel = CancellationToken::new();

    let asked = ask(&peer, "slow", LONG, &cancel);
    let id = far.receive().await["id"].clone();
    let started = Instant::now();
    cancel.cancel();
    assert!(matches!(asked.await.unwrap(), Err(RequestError::Cancelled { method }) if method == "slow"));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(
        far.receive().await,
        json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}})
    );

    let asked = ask(&peer, "slow", Duration::from_millis(20), &CancellationToken::new());
    let id = far.receive().await["id"].clone();
    let error = asked.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "slow was not answered within 20ms");
    assert_eq!(far.receive().await["params"]["id"], id);

    let asked = ask(&peer, "slow", LONG, &CancellationToken::new());
    let id = far.receive().await["id"].clone();
    asked.abort();
    assert_eq!(far.receive().await["params"]["id"], id);
    assert_eq!(peer.pending(), 0);

    far.send(json!({"id": id, "result": "late"})).await;
    let asked = ask(&peer, "next", LONG, &CancellationToken::new());
    let id = far.receive().await["id"].clone();
    far.send(json!({"id": id, "result": 1})).await;
    assert_eq!(asked.await.unwrap().unwrap().get(), "1");
}

#[tokio::test]
async fn closing_fails_all_requests_and_ends_the_tasks() {
    let Setup { peer, mut far, tracker, .. } = setup(|_| (), 4096);
    let cancel = CancellationToken::new();
    let first = ask(&peer, "a", LONG, &cancel);
    let second = ask(&peer, "b", LONG, &cancel);
    far.receive().await;
    far.receive().await;
    drop(far);
    for asked in [first, second] {
        let error = asked.await.unwrap().unwrap_err();
        assert!(error.to_string().ends_with("has no answer: the stream is closed: the other side ended it"));
    }
    assert_eq!(peer.closed().await.reason, CloseReason::EndOfStream);
    assert!(matches!(
        peer.request("c", &(), LONG, &cancel).await,
        Err(RequestError::Closed { method, .. }) if method == "c"
    ));
    peer.notify("d", &()).await.unwrap_err();
    tracker.close();
    tokio::time::timeout(LONG, tracker.wait()).await.expect("all tasks end");
}

#[tokio::test]
async fn incoming_requests_are_answered() {
    let Setup { far: mut it, .. } = setup(|_| (), 4096);
    it.send(json!({"id": "s-1", "method": "echo", "params": {"a": "é"}})).await;
    assert_eq!(it.receive().await, json!({"jsonrpc": "2.0", "id": "s-1", "result": {"a": "é"}}));
    it.send(json!({"id": 1, "method": "what"})).await;
    assert_eq!(it.receive().await["error"]["code"], -32601);
    it.send(json!({"id": 2, "method": "panic"})).await;
    assert_eq!(it.receive().await["error"]["code"], -32603);
    it.send(json!({"method": "panic"})).await;
    it.send(json!({"id": 3, "method": "never"})).await;
    it.send(json!({"method": "$/cancelRequest", "params": {"id": 3}})).await;
    let answer = it.receive().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32800)));
}

#[tokio::test]
async fn too_many_concurrent_requests_are_refused() {
    let Setup { mut far, .. } = setup(|options| options.incoming = 2, 4096);
    for id in 0..3 {
        far.send(json!({"id": id, "method": "never"})).await;
    }
    let answer = far.receive().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32803)));
}

#[tokio::test]
async fn messages_are_handled_in_wire_order() {
    let Setup { mut far, mut heard, .. } = setup(|_| (), 64);
    for number in 0..200 {
        let method = format!("n{number}");
        if number % 7 == 0 {
            far.send(json!({"id": number, "method": method})).await;
            far.receive().await;
        } else {
            far.send(json!({"method": method})).await;
        }
    }
    for number in 0..200 {
        assert_eq!(heard.recv().await.unwrap(), format!("n{number}"));
    }
}

#[tokio::test]
async fn a_stalled_reader_blocks_no_caller_forever() {
    let Setup { peer, far: _far, .. } = setup(|options| options.queue = 4, 64);
    let cancel = CancellationToken::new();
    let big = json!({"text": "x".repeat(1000)});
    while peer.try_notify("n", &big).unwrap() {
        tokio::task::yield_now().await;
    }
    // The queue is full: a request still ends by its deadline, and a notification waits.
    let error = peer.request("r", &big, Duration::from_millis(20), &cancel).await.unwrap_err();
    assert!(matches!(error, RequestError::Deadline { .. }));
    let waiting = peer.clone();
    let waiting = tokio::spawn(async move { waiting.notify("n", &json!({})).await });
    peer.close("enough");
    let closed = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(closed.to_string(), "the stream is closed: enough");
}

#[tokio::test]
async fn the_observer_sees_all_traffic() {
    struct All(Mutex<Vec<String>>);
    impl wire::Observer for All {
        fn message(&self, direction: wire::Direction, body: &[u8]) {
            let body = String::from_utf8_lossy(body);
            self.0.lock().push(format!("{direction:?} {body}"));
        }
        fn skipped(&self, what: &str) {
            self.0.lock().push(format!("Skipped {what}"));
        }
    }
    let all = Arc::new(All(Mutex::default()));
    let observer = Arc::clone(&all);
    let Setup { peer, mut far, mut heard, .. } = setup(|options| options.observer = Some(observer), 4096);
    peer.notify("out", &()).await.unwrap();
    far.receive().await;
    far.raw("oops\n").await;
    far.send(json!({"method": "in"})).await;
    heard.recv().await.unwrap();
    assert_eq!(
        *all.0.lock(),
        [
            "Sent {\"jsonrpc\":\"2.0\",\"method\":\"out\"}",
            "Skipped 5 bytes that are not a header: \"oops\"",
            "Received {\"method\":\"in\"}",
        ]
    );
}

/// Measures the peer's own cost with a far end that responds at once.
///
/// The bound is loose, for busy machines: it catches a wait that should not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_trip_costs_little() {
    let Setup { peer, mut far, .. } = setup(|_| (), 64 * 1024);
    let answering = tokio::spawn(async move {
        for _ in 0..500 {
            let id = far.receive().await["id"].clone();
            far.send(json!({"id": id, "result": null})).await;
        }
    });
    let cancel = CancellationToken::new();
    let mut times = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        peer.request("r", &json!({}), LONG, &cancel).await.unwrap();
        times.push(started.elapsed());
    }
    answering.await.unwrap();
    times.sort_unstable();
    let median = times[times.len() / 2];
    assert!(median < Duration::from_millis(2), "median {median:?}, p99 {:?}", times[times.len() * 99 / 100]);
}
