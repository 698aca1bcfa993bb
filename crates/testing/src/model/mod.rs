//! A scripted model server on loopback, with faults, that records its requests.
//!
//! It responds to each request with given bytes, in given pieces and with given faults. It
//! implements the part of HTTP/1.1 that a client of `POST /v1/chat/completions` needs. The n-th
//! request gets the n-th reply; further requests get status 500. Alternatively a function of the
//! test replies to each.

pub mod protocols;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The reply to one request.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    before_headers: Vec<Step>,
    steps: Vec<Step>,
}

/// One step of a reply.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends these bytes of the body at once.
    Send(Vec<u8>),
    Wait(Duration),
    /// Does nothing until the client disconnects.
    Hang,
    /// Closes the connection in the middle of the body.
    Cut,
    Reset,
}

/// A received request.
#[derive(Debug, Clone)]
pub struct Received {
    /// Method and path, as in `POST /v1/chat/completions`.
    pub target: String,
    /// Names in lower case, with values.
    pub headers: Vec<(String, String)>,
    /// The body, null if it is not JSON.
    pub body: Value,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    replies: Vec<Reply>,
    next: usize,
    mind: Option<Mind>,
    received: Vec<Received>,
    /// Number of open connections.
    open: usize,
}

type Mind = Box<dyn FnMut(&Received) -> Reply + Send>;

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("replies", &self.replies)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Reply {
    /// Creates an event stream of these bytes, sent in pieces of `piece` bytes.
    pub fn stream(bytes: impl AsRef<[u8]>, piece: usize) -> Reply {
        let pieces = bytes.as_ref().chunks(piece.max(1)).map(|piece| Step::Send(piece.to_vec()));
        Reply::status(200).header("content-type", "text/event-stream").steps(pieces)
    }

    /// Creates a chat completion with this text.
    pub fn text(text: &str) -> Reply {
        let chunk = |delta: Value, reason: Value| {
            let chunk =
                json!({"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
            format!("data: {chunk}\n\n")
        };
        let start = chunk(json!({"role": "assistant", "content": text}), Value::Null);
        let end = chunk(json!({}), json!("stop"));
        Reply::stream(format!("{start}{end}data: [DONE]\n\n"), usize::MAX)
    }

    /// Creates a chat completion that calls one tool.
    pub fn call(id: &str, name: &str, arguments: &Value) -> Reply {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"index": 0, "id": id, "type": "function", "function": function});
        let chunk = |delta: Value, reason: Value| {
            let chunk =
                json!({"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
            format!("data: {chunk}\n\n")
        };
        let start = chunk(json!({"role": "assistant", "tool_calls": [call]}), Value::Null);
        let end = chunk(json!({}), json!("tool_calls"));
        Reply::stream(format!("{start}{end}data: [DONE]\n\n"), usize::MAX)
    }

    /// Creates a reply with this status and no body yet.
    pub fn status(status: u16) -> Reply {
        Reply { status, ..Reply::default() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Reply {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Appends a part of the body.
    pub fn body(self, bytes: impl AsRef<[u8]>) -> Reply {
        self.steps([Step::Send(bytes.as_ref().to_vec())])
    }

    /// Appends steps.
    pub fn steps(mut self, steps: impl IntoIterator<Item = Step>) -> Reply {
        self.steps.extend(steps);
        self
    }

    /// Adds steps before the headers.
    pub fn before_headers(mut self, steps: impl IntoIterator<Item = Step>) -> Reply {
        self.before_headers.extend(steps);
        self
    }
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1.
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> io::Result<ModelServer> {
        Self::with(Shared { replies: replies.into_iter().collect(), ..Shared::default() }).await
    }

    /// Starts a server where `mind` replies to each request, one at a time.
    pub async fn answering(mind: impl FnMut(&Received) -> Reply + Send + 'static) -> io::Result<ModelServer> {
        Self::with(Shared { mind: Some(Box::new(mind)), ..Shared::default() }).await
    }

    async fn with(shared: Shared) -> io::Result<ModelServer> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Mutex::new(shared));
        let task = tokio::spawn(accept(listener, shared.clone()));
        Ok(ModelServer { address, shared, task })
    }

    /// The base URL, with `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The port it listens at.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far, oldest first.
    pub fn received(&self) -> Vec<Received> {
        lock(&self.shared).received.clone()
    }

    /// Number of open connections.
    ///
    /// A client that has received its response leaves none.
    pub fn open(&self) -> usize {
        lock(&self.shared).open
    }

    /// Number of unused replies; a test asserts that none is left.
    pub fn unused(&self) -> usize {
        let shared = lock(&self.shared);
        shared.replies.len().saturating_sub(shared.next)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(shared: &Mutex<Shared>) -> parking_lot::MutexGuard<'_, Shared> {
    shared.lock()
}

async fn accept(listener: TcpListener, shared: Arc<Mutex<Shared>>) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(async move {
            lock(&shared).open += 1;
            // A client may disconnect early.
            serve(stream, &shared).await.ok();
            lock(&shared).open -= 1;
        });
    }
}

async fn serve(mut stream: TcpStream, shared: &Mutex<Shared>) -> io::Result<()> {
    let received = read_request(&mut stream).await?;
    let reply = {
        let mut shared = lock(shared);
        let thought = shared.mind.as_mut().map(|mind| mind(&received));
        shared.received.push(received);
        shared.next += 1;
        let at = shared.next - 1;
        let planned = || shared.replies.get(at).cloned();
        thought.or_else(planned).unwrap_or_else(|| Reply::status(500).body("no reply is left"))
    };
    for step in &reply.before_headers {
        if !carry_out(step, &mut stream, false).await? {
            return Ok(());
        }
    }
    let mut head =
        format!("HTTP/1.1 {} Scripted\r\nconnection: close\r\ntransfer-encoding: chunked\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    for step in &reply.steps {
        if !carry_out(step, &mut stream, true).await? {
            return Ok(());
        }
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.shutdown().await
}

/// Carries out a step.
///
/// Returns false when the connection is over.
async fn carry_out(step: &Step, stream: &mut TcpStream, in_body: bool) -> io::Result<bool> {
    match step {
        Step::Send(bytes) if in_body => {
            stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
            stream.write_all(bytes).await?;
            stream.write_all(b"\r\n").await?;
            stream.flush().await?;
        }
        Step::Send(bytes) => stream.write_all(bytes).await?,
        Step::Wait(duration) => tokio::time::sleep(*duration).await,
        Step::Hang => {
            let mut rest = [0; 64];
            while stream.read(&mut rest).await? > 0 {}
            return Ok(false);
        }
        Step::Cut => {
            stream.shutdown().await?;
            return Ok(false);
        }
        Step::Reset => {
            stream.set_zero_linger()?;
            return Ok(false);
        }
    }
    Ok(true)
}

async fn read_request(stream: &mut TcpStream) -> io::Result<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let target = first.rsplit_once(' ').map_or(first, |(target, _)| target).to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Received { target, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}
