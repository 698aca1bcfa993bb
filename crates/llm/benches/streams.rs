//! Benchmark of the overhead of streaming.
//!
//! It measures the time to the first event, an event of a long stream, the memory for large arguments, and a
//! hundred concurrent streams. `cargo xtask bench llm` runs it, with a server in the same process that answers
//! at once. The goals are 1 ms to the first event, 3 µs for each of a million events, memory in proportion to
//! the arguments, and no text in the wrong stream.

#![expect(clippy::print_stdout, reason = "its answer is a table on standard output")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should end with its location")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use llm::protocol::Protocols;
use llm::{AssistantMessage, Endpoint, Message, MessageStream, Model, RemoteModel, Request, StreamEvent};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
/// Size of one socket read, in bytes.
const PIECE: usize = 16 * 1024;

fn chunk(delta: &Value, reason: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    )
}

fn text(count: usize, word: &str) -> String {
    let one = chunk(&json!({"content": word}), Value::Null);
    let mut out = String::with_capacity(one.len() * count + 200);
    (0..count).for_each(|_| out.push_str(&one));
    out.push_str(&chunk(&json!({}), json!("stop")));
    out + "data: [DONE]\n\n"
}

/// A call with arguments of this many bytes, in pieces of 64.
fn call(bytes: usize) -> String {
    let function = |id: Value, arguments: &str| {
        let call = json!({"index": 0, "id": id, "function": {"name": "write", "arguments": arguments}});
        chunk(&json!({"tool_calls": [call]}), Value::Null)
    };
    let mut out = function(json!("c1"), "{\"content\": \"");
    let piece = function(Value::Null, &"x".repeat(64));
    (0..bytes / 64).for_each(|_| out.push_str(&piece));
    out.push_str(&function(Value::Null, "\"}"));
    out.push_str(&chunk(&json!({}), json!("tool_calls")));
    out + "data: [DONE]\n\n"
}

/// Answers each connection with `body` of the request's text.
async fn serve(body: impl Fn(&str) -> String + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = Arc::new(body);
    // The server lives as long as the runtime of the measurement.
    let _server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let body = body.clone();
            tokio::spawn(async move {
                let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
                while !request.ends_with(b"}") {
                    match stream.read(&mut buffer).await {
                        Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
                        _ => return,
                    }
                }
                let answer = HEAD.to_owned() + &body(&String::from_utf8_lossy(&request));
                stream.write_all(answer.as_bytes()).await.ok();
            });
        }
    });
    address
}

fn model(address: SocketAddr) -> RemoteModel {
    let protocol = Protocols::default().get("openai-completions").unwrap();
    RemoteModel::new(protocol, Endpoint::new("bench", &format!("http://{address}/v1"), "m"))
}

fn request(words: &str) -> Request {
    Request { messages: vec![Message::user(words)].into(), ..Request::default() }
}

/// The decoded stream of these bytes, without a network.
fn decoded(bytes: Arc<Vec<u8>>) -> MessageStream {
    let protocol = Protocols::default().get("openai-completions").unwrap();
    let empty = AssistantMessage::empty("a", "p", "m");
    let mut decoder = protocol.decoder(&Endpoint::new("p", "http://x", "m"), empty.clone());
    MessageStream::spawn(empty, CancellationToken::new(), move |writer| async move {
        for piece in bytes.chunks(PIECE) {
            decoder.feed(piece).into_iter().for_each(|event| writer.push(event));
            // The bytes arrive in pieces, as from a socket.
            tokio::task::yield_now().await;
        }
        decoder.finish(None).into_iter().for_each(|event| writer.push(event));
    })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn first_event() {
    const ROUNDS: usize = 200;
    let address = serve(|_| text(1, "a")).await;
    let model = model(address);
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let mut stream = model.stream(request("hi"), CancellationToken::new());
        while !matches!(stream.next().await, Some(StreamEvent::TextDelta { .. })) {}
        ours.push(begin.elapsed());
        let begin = Instant::now();
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"POST / HTTP/1.1\r\n\r\n{}").await.unwrap();
        let read = socket.read(&mut [0; 4096]).await.unwrap();
        assert!(read > 0);
        raw.push(begin.elapsed());
    }
    let (ours, raw) = (median(ours), median(raw));
    println!(
        "first event: {ours:.0?}, the server's own {raw:.0?}, over it {:.0?} (aim 1 ms)",
        ours.saturating_sub(raw)
    );
}

async fn long_streams() {
    for count in [10_000, 100_000, 1_000_000] {
        let bytes = Arc::new(text(count, "word ").into_bytes());
        let begin = Instant::now();
        let mut stream = decoded(bytes);
        let mut events = 0;
        while let Some(event) = stream.next().await {
            events += 1;
            if let StreamEvent::Done { message } = event {
                assert_eq!(message.text().len(), 5 * count);
            }
        }
        let each = begin.elapsed().as_secs_f64() * 1e6 / count as f64;
        println!("{count:>9} events: {each:.2} µs each (aim 3), {events} read");
    }
}

/// Peak memory of the process in MiB; 0 if unavailable.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0) / 1024
}

async fn large_arguments() {
    for megabytes in [1, 2, 5, 10] {
        let size = megabytes << 20;
        let bytes = Arc::new(call(size).into_bytes());
        let before = peak();
        let begin = Instant::now();
        let mut stream = decoded(bytes);
        let message = stream.final_message().get().await;
        while stream.next().await.is_some() {}
        let call = message.tool_calls().next().unwrap();
        assert_eq!(call.arguments["content"].as_str().map(str::len), Some(size / 64 * 64));
        println!(
            "{megabytes:>3} MB of arguments: {:.0?}, {} MiB more at most",
            begin.elapsed(),
            peak() - before
        );
    }
}

async fn many_at_once() {
    const STREAMS: usize = 100;
    const WORDS: usize = 2000;
    let address = serve(|request| {
        let word = request.split("stream-").nth(1).unwrap().split('-').next().unwrap().to_owned();
        text(WORDS, &format!("{word} "))
    })
    .await;
    let model = Arc::new(model(address));
    let begin = Instant::now();
    let streams = (0..STREAMS).map(|number| {
        let model = model.clone();
        tokio::spawn(async move {
            let stream = model.stream(request(&format!("stream-{number}-")), CancellationToken::new());
            let text = stream.final_message().get().await.text();
            assert_eq!(text, format!("{number} ").repeat(WORDS), "stream {number} has its own text");
        })
    });
    for stream in streams.collect::<Vec<_>>() {
        stream.await.unwrap();
    }
    let each = begin.elapsed().as_secs_f64() * 1e6 / (STREAMS * WORDS) as f64;
    println!(
        "{STREAMS} streams at once: {:.0?}, {each:.2} µs an event, server included; no cross-talk",
        begin.elapsed()
    );
}

fn main() {
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    alone.block_on(async {
        large_arguments().await;
        long_streams().await;
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        first_event().await;
        many_at_once().await;
    });
}
