//! Protocol client for a debug adapter.
//!
//! Sends requests with deadline and cancellation, delivers events in wire order, and answers the
//! adapter's requests. Knows no command but `cancel`.
//!
//! Invariants: a late, second or unknown answer has no effect; the client skips and counts
//! malformed messages; every request of the adapter is answered; when the stream closes, all
//! waiting requests end with the reason.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::StreamExt;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Encoder, FramedRead};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Frame, Framing, Limits, MessageCodec, Pending};

pub(crate) mod envelope;

use envelope::{AdapterError, Envelope, Kind, without_nulls};

/// Maximum number of messages that wait to be written.
const QUEUE: usize = 1024;
/// Maximum number of adapter requests in progress; the client refuses more.
const INCOMING: usize = 64;

/// Handles the adapter's events and requests.
pub trait Handler: Send + Sync + 'static {
    /// Handles an event in wire order.
    ///
    /// Runs in the reading task, so it must not block.
    fn event(&self, event: &str, body: Option<&RawValue>);

    /// Handles a request of the adapter.
    ///
    /// The future runs in its own task.
    fn request(
        &self,
        command: &str,
        arguments: Option<&RawValue>,
    ) -> BoxFuture<'static, Result<Value, String>>;
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    #[error("{command} failed: {error}")]
    Refused { command: String, error: AdapterError },
    /// The adapter did not answer in time.
    #[error("{command} was not answered within {after:?}")]
    Deadline { command: String, after: Duration },
    /// The caller's token was cancelled.
    #[error("{command} was cancelled")]
    Cancelled { command: String },
    /// The stream closed before the answer.
    #[error("{command} has no answer: {why}")]
    Closed { command: String, why: String },
}

type Answer = Result<Box<RawValue>, AdapterError>;

/// Protocol client. Clones share one stream.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    out: mpsc::Sender<Vec<u8>>,
    pending: Pending<Answer, String>,
    supports_cancel: AtomicBool,
    incoming: Arc<tokio::sync::Semaphore>,
    closed: CancellationToken,
    tracker: TaskTracker,
}

impl Client {
    /// Starts the tasks of `tracker` that read and write.
    ///
    /// They run until [`Client::close`] or the end of the stream.
    pub fn spawn(
        name: impl Into<String>,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        handler: Arc<dyn Handler>,
        tracker: &TaskTracker,
    ) -> Self {
        let (out, outgoing) = mpsc::channel(QUEUE);
        let client = Self {
            shared: Arc::new(Shared {
                name: name.into(),
                out,
                pending: Pending::default(),
                supports_cancel: AtomicBool::new(false),
                incoming: Arc::new(tokio::sync::Semaphore::new(INCOMING)),
                closed: CancellationToken::new(),
                tracker: tracker.clone(),
            }),
        };
        let this = client.clone();
        tracker.spawn(async move {
            tokio::select! {
                // Dropping the writer may cut a message, but the stream is abandoned then.
                () = this.shared.closed.cancelled() => {}
                result = write_messages(writer, outgoing) => if let Err(error) = result {
                    this.close(&format!("writing to it failed: {error}"));
                }
            }
        });
        let this = client.clone();
        tracker.spawn(async move {
            let mut frames = frames(reader);
            let reason = loop {
                let frame = tokio::select! {
                    // Dropping `next` loses nothing: read bytes stay in `frames`.
                    () = this.shared.closed.cancelled() => return,
                    frame = frames.next() => frame,
                };
                match frame {
                    None => break "it closed its stream".to_owned(),
                    Some(Err(error)) => break format!("reading from it failed: {error}"),
                    Some(Ok(Frame::Skipped(skipped))) => {
                        tracing::warn!(adapter = this.shared.name, "skipped {skipped}");
                    }
                    Some(Ok(Frame::Body(body))) => this.receive(&body, handler.as_ref()),
                }
            };
            this.close(&reason);
        });
        client
    }

    /// Enables `cancel` for abandoned requests.
    ///
    /// The session calls it once the adapter reported support.
    pub(crate) fn enable_cancel(&self) {
        self.shared.supports_cancel.store(true, Ordering::Relaxed);
    }

    /// Sends a request and waits for the raw body.
    ///
    /// Dropping the future, `cancel` and the deadline free the entry.
    ///
    /// # Errors
    /// [`RequestError`]; each names the command.
    pub async fn request(
        &self,
        command: &str,
        arguments: Value,
        deadline: Duration,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, RequestError> {
        let start = tokio::time::Instant::now();
        let send = tokio::time::timeout(deadline, self.send(command, arguments));
        let sent = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(RequestError::Cancelled { command: command.to_owned() }),
            sent = send => sent,
        };
        let late = || RequestError::Deadline { command: command.to_owned(), after: deadline };
        sent.map_err(|_| late())??
            .wait(deadline.saturating_sub(start.elapsed()), cancel)
            .await
            .map_err(|error| if matches!(error, RequestError::Deadline { .. }) { late() } else { error })
    }

    /// Sends a request; the returned value waits for its answer.
    ///
    /// Waits only for room to write.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub async fn send(&self, command: &str, arguments: Value) -> Result<InFlight, RequestError> {
        let closed = |why| RequestError::Closed { command: command.to_owned(), why };
        let (id, answer) = self.shared.pending.add().map_err(closed)?;
        let flight =
            InFlight { guard: Guard { client: self.clone(), id }, command: command.to_owned(), answer };
        // If dropped while waiting for room, the guard frees the entry and nothing was sent.
        match self.shared.out.send(request(id, command, arguments)).await {
            Ok(()) => Ok(flight),
            Err(_) => Err(closed(self.close_reason())),
        }
    }

    /// Waits until the stream is closed; returns the reason. Cancel-safe.
    pub async fn closed(&self) -> String {
        self.shared.closed.cancelled().await;
        self.close_reason()
    }

    /// Closes the stream: both tasks end, and all waiting requests fail with `why`.
    ///
    /// The first reason wins.
    pub fn close(&self, why: &str) {
        if self.shared.pending.close(why.to_owned()) {
            self.shared.closed.cancel();
        }
    }

    fn close_reason(&self) -> String {
        self.shared.pending.closed().unwrap_or_else(|| "the stream was abandoned".to_owned())
    }

    fn receive(&self, body: &[u8], handler: &dyn Handler) {
        let name = &self.shared.name;
        let message = match Envelope::parse(body) {
            Err(malformed) => return tracing::warn!(adapter = name, "skipped {malformed}"),
            Ok(message) => message,
        };
        match message.kind {
            Kind::Response => {
                let id = message.answers().unwrap_or_default();
                if self.shared.pending.answer(id, message.outcome()).is_err() {
                    tracing::debug!(adapter = name, id, message.name, "late or unknown answer");
                }
            }
            Kind::Event => {
                let call = AssertUnwindSafe(|| handler.event(&message.name, message.raw("body")));
                if std::panic::catch_unwind(call).is_err() {
                    tracing::error!(adapter = name, message.name, "the handler of an event panicked");
                }
            }
            Kind::Request => self.handle_request(message, handler),
        }
    }

    fn handle_request(&self, request: Envelope, handler: &dyn Handler) {
        let Ok(place) = Arc::clone(&self.shared.incoming).try_acquire_owned() else {
            return self.answer(&request, Err("too many requests at once".to_owned()));
        };
        let panicked = Err(format!("the handler of {} panicked", request.name));
        let call = AssertUnwindSafe(|| handler.request(&request.name, request.raw("arguments")));
        let Ok(future) = std::panic::catch_unwind(call) else { return self.answer(&request, panicked) };
        let this = self.clone();
        self.shared.tracker.spawn(async move {
            let outcome = tokio::select! {
                // The stream is closed, so an answer has no recipient.
                () = this.shared.closed.cancelled() => return,
                outcome = AssertUnwindSafe(future).catch_unwind() => outcome.unwrap_or(panicked),
            };
            this.answer(&request, outcome);
            drop(place);
        });
    }

    fn answer(&self, request: &Envelope, outcome: Result<Value, String>) {
        let mut message = match outcome {
            Ok(body) => Envelope::answer(&request.name, without_nulls(body)),
            Err(why) => Envelope::refusal(&request.name, &why, &why),
        };
        message.set("seq", &json!(self.shared.pending.take_number()));
        message.set("request_seq", &request.value("seq"));
        // The reading task must not wait for the writing one. An adapter that keeps sending requests without
        // reading answers is disconnected.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.shared.out.try_send(message.bytes()) {
            self.close("it sends requests without reading the answers");
        }
    }
}

/// The messages of a stream.
pub(crate) fn frames<R: AsyncRead>(reader: R) -> FramedRead<R, MessageCodec> {
    FramedRead::with_capacity(reader, codec(), 64 * 1024)
}

/// Writes messages until their senders are dropped.
pub(crate) async fn write_messages(
    mut writer: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    let (mut codec, mut buffer) = (codec(), BytesMut::new());
    while let Some(message) = messages.recv().await {
        codec.encode(&message, &mut buffer)?;
        writer.write_all(&buffer).await?;
        buffer.clear();
        if messages.is_empty() {
            writer.flush().await?;
        }
    }
    writer.shutdown().await
}

fn codec() -> MessageCodec {
    MessageCodec::new(Framing::ContentLength, Limits::default())
}

fn request(id: i64, command: &str, arguments: Value) -> Vec<u8> {
    let mut message = Envelope::request(command, without_nulls(arguments));
    message.set("seq", &json!(id));
    message.bytes()
}

/// A sent request.
///
/// Dropping it frees the entry, and cancels the request if the adapter supports that.
pub struct InFlight {
    guard: Guard,
    command: String,
    answer: oneshot::Receiver<Result<Answer, String>>,
}

impl InFlight {
    /// Waits for the raw body. Cancel-safe as long as it is not dropped.
    ///
    /// # Errors
    /// [`RequestError`]; each names the command.
    pub async fn wait(
        mut self,
        deadline: Duration,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, RequestError> {
        let command = self.command.clone();
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(RequestError::Cancelled { command }),
            outcome = tokio::time::timeout(deadline, &mut self.answer) => outcome,
        };
        match outcome {
            Err(_) => Err(RequestError::Deadline { command, after: deadline }),
            Ok(Ok(Ok(Ok(body)))) => Ok(body),
            Ok(Ok(Ok(Err(error)))) => Err(RequestError::Refused { command, error }),
            Ok(Ok(Err(why))) => Err(RequestError::Closed { command, why }),
            Ok(Err(_)) => Err(RequestError::Closed { command, why: self.guard.client.close_reason() }),
        }
    }
}

/// Frees the entry of an abandoned request.
struct Guard {
    client: Client,
    id: i64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let shared = &self.client.shared;
        if shared.pending.forget(self.id) && shared.supports_cancel.load(Ordering::Relaxed) {
            let message = request(shared.pending.take_number(), "cancel", json!({ "requestId": self.id }));
            // Without room the adapter continues; its answer is late then.
            drop(shared.out.try_send(message));
        }
    }
}
