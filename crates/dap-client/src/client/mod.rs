//! Protocol client for a debug adapter.
//!
//! Sends requests with deadline and cancellation, delivers events in wire order, and answers the
//! adapter's requests. Knows no command but `cancel`.
//!
//! Invariants: a late, second or unknown answer has no effect; the client skips and counts
//! malformed messages; every request of the adapter is answered; when the stream closes, all
//! waiting requests end with the reason.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::StreamExt;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Encoder, FramedRead};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Frame, Framing, Id, Limits, MessageCodec};

pub(crate) mod envelope;

use envelope::{AdapterError, Message};

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

type Outcome = Result<Result<Box<RawValue>, AdapterError>, String>;

/// Protocol client. Clones share one stream.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    out: mpsc::Sender<Vec<u8>>,
    next: AtomicI64,
    pending: Mutex<Pending>,
    supports_cancel: AtomicBool,
    incoming: Arc<tokio::sync::Semaphore>,
    closed: CancellationToken,
    tracker: TaskTracker,
}

#[derive(Default)]
struct Pending {
    waiting: HashMap<i64, oneshot::Sender<Outcome>>,
    closed: Option<String>,
}

impl Client {
    /// Starts the tasks of `tracker` that read and write.
    ///
    /// They run until [`Client::close`] or the end of the stream.
    pub fn spawn(
        name: impl Into<String>,
        reader: impl AsyncRead + Send + Unpin + 'static,
        mut writer: impl AsyncWrite + Send + Unpin + 'static,
        handler: Arc<dyn Handler>,
        tracker: &TaskTracker,
    ) -> Self {
        let (out, mut outgoing) = mpsc::channel::<Vec<u8>>(QUEUE);
        let client = Self {
            shared: Arc::new(Shared {
                name: name.into(),
                out,
                next: AtomicI64::new(1),
                pending: Mutex::default(),
                supports_cancel: AtomicBool::new(false),
                incoming: Arc::new(tokio::sync::Semaphore::new(INCOMING)),
                closed: CancellationToken::new(),
                tracker: tracker.clone(),
            }),
        };
        let codec = MessageCodec::new(Framing::ContentLength, Limits::default());
        let (this, mut write_codec) = (client.clone(), codec.clone());
        tracker.spawn(async move {
            let write = async {
                let mut buffer = BytesMut::new();
                while let Some(message) = outgoing.recv().await {
                    write_codec.encode(&message, &mut buffer)?;
                    writer.write_all(&buffer).await?;
                    writer.flush().await?;
                    buffer.clear();
                }
                std::io::Result::Ok(())
            };
            tokio::select! {
                // Dropping the writer may cut a message, but the stream is abandoned then.
                () = this.shared.closed.cancelled() => {}
                result = write => if let Err(error) = result {
                    this.close(&format!("writing to it failed: {error}"));
                }
            }
        });
        let this = client.clone();
        tracker.spawn(async move {
            let mut frames = FramedRead::with_capacity(reader, codec, 64 * 1024);
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
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut pending = self.pending();
            if let Some(why) = &pending.closed {
                return Err(closed(why.clone()));
            }
            pending.waiting.insert(id, sender);
        }
        let flight =
            InFlight { guard: Guard { client: self.clone(), id }, command: command.to_owned(), answer };
        // If this future is dropped while waiting for room, the guard frees the entry and nothing
        // was sent.
        match self.shared.out.send(envelope::request(id, command, arguments)).await {
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
        let waiting = {
            let mut pending = self.pending();
            if pending.closed.is_some() {
                return;
            }
            pending.closed = Some(why.to_owned());
            std::mem::take(&mut pending.waiting)
        };
        for sender in waiting.into_values() {
            // A caller that stopped waiting needs no reason.
            drop(sender.send(Err(why.to_owned())));
        }
        self.shared.closed.cancel();
    }

    fn close_reason(&self) -> String {
        self.pending().closed.clone().unwrap_or_else(|| "the stream was abandoned".to_owned())
    }

    fn pending(&self) -> parking_lot::MutexGuard<'_, Pending> {
        // Every use leaves the table consistent, so a panic elsewhere has no effect on it.
        self.shared.pending.lock()
    }

    fn receive(&self, body: &[u8], handler: &dyn Handler) {
        let name = &self.shared.name;
        match envelope::parse(body) {
            Err(malformed) => tracing::warn!(adapter = name, "skipped {malformed}"),
            Ok(Message::Response { request_seq, command, outcome }) => {
                let entry = envelope::number(&request_seq).and_then(|id| self.pending().waiting.remove(&id));
                match entry {
                    // The caller may have stopped waiting just now; then the answer is late.
                    Some(sender) => drop(sender.send(Ok(outcome))),
                    None => {
                        tracing::debug!(adapter = name, id = %request_seq, ?command, "late or unknown answer")
                    }
                }
            }
            Ok(Message::Event { event, body }) => {
                let call = AssertUnwindSafe(|| handler.event(&event, body.as_deref()));
                if std::panic::catch_unwind(call).is_err() {
                    tracing::error!(adapter = name, event, "the handler of an event panicked");
                }
            }
            Ok(Message::Request { seq, command, arguments }) => {
                self.handle_request(seq, command, arguments.as_deref(), handler);
            }
        }
    }

    fn handle_request(&self, seq: Id, command: String, arguments: Option<&RawValue>, handler: &dyn Handler) {
        let Ok(place) = Arc::clone(&self.shared.incoming).try_acquire_owned() else {
            return self.answer(&seq, &command, Err("too many requests at once".to_owned()));
        };
        let call = AssertUnwindSafe(|| handler.request(&command, arguments));
        let panicked = || Err(format!("the handler of {command} panicked"));
        let future = match std::panic::catch_unwind(call) {
            Ok(future) => future,
            Err(_) => return self.answer(&seq, &command, panicked()),
        };
        let this = self.clone();
        self.shared.tracker.spawn(async move {
            let panicked = Err(format!("the handler of {command} panicked"));
            let outcome = tokio::select! {
                // The stream is closed, so an answer has no recipient.
                () = this.shared.closed.cancelled() => return,
                outcome = AssertUnwindSafe(future).catch_unwind() => outcome.unwrap_or(panicked),
            };
            this.answer(&seq, &command, outcome);
            drop(place);
        });
    }

    fn answer(&self, seq: &Id, command: &str, outcome: Result<Value, String>) {
        let own = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let message = envelope::response(own, seq, command, outcome);
        // The reading task must not wait for the writing one. An adapter that keeps sending requests without
        // reading answers is disconnected.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.shared.out.try_send(message) {
            self.close("it sends requests without reading the answers");
        }
    }
}

/// A sent request.
///
/// Dropping it frees the entry, and cancels the request if the adapter supports that.
pub struct InFlight {
    guard: Guard,
    command: String,
    answer: oneshot::Receiver<Outcome>,
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
        if self.client.pending().waiting.remove(&self.id).is_none() {
            return;
        }
        let shared = &self.client.shared;
        if shared.supports_cancel.load(Ordering::Relaxed) {
            let own = shared.next.fetch_add(1, Ordering::Relaxed);
            let message = envelope::request(own, "cancel", json!({ "requestId": self.id }));
            // Without room, the adapter continues with the request, and its answer will be late.
            drop(shared.out.try_send(message));
        }
    }
}
