//! One end of a JSON-RPC stream: requests, notifications, and a handler.
//!
//! Requests have deadlines and cancellation. Knows no method name except the configured one for
//! cancellation.
//!
//! Invariants: notifications and requests reach the handler in the order received; a late, second
//! or unknown response is logged and has no other effect; when the stream closes, all waits end
//! with the reason; every task is spawned on the caller's tracker and ends after [`Peer::close`].

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::StreamExt;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_util::codec::FramedRead;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::envelope::{self, Envelope, Id, Incoming, RpcError, codes};
use crate::framing::{Frame, Framing, Limits, MessageCodec, Skipped};
use crate::outbox::{Outbox, OutboxClosed, QueuePlace};
use crate::pending::{CloseReason, Closed, Pending};

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The peer sent the message.
    Received,
    /// This side sent the message.
    Sent,
}

/// Observer of all traffic.
///
/// The reading and writing tasks call it: it must not block.
pub trait Observer: Send + Sync + 'static {
    /// Receives one body.
    fn message(&self, direction: Direction, body: &[u8]);
    /// Receives bytes outside messages, or a body that is not JSON-RPC.
    fn skipped(&self, what: &str);
}

/// Options of a [`Peer`].
#[derive(Clone)]
pub struct PeerOptions {
    /// Name of the peer in logs.
    pub name: String,
    /// The separation of messages.
    pub framing: Framing,
    /// Limits of the bytes held per message.
    pub limits: Limits,
    /// The cancellation method, sent with `{"id": …}` and obeyed when received.
    pub cancel_method: Option<String>,
    /// Methods whose requests this side never cancels at the peer.
    pub uncancellable: Vec<String>,
    /// Maximum number of ordinary messages that may wait to be written.
    pub queue: usize,
    /// Maximum number of concurrent incoming requests; more are refused.
    pub incoming: usize,
    /// Observer of all traffic.
    pub observer: Option<Arc<dyn Observer>>,
}

impl PeerOptions {
    /// Applies the conventions of LSP: `Content-Length` and `$/cancelRequest`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            framing: Framing::ContentLength,
            limits: Limits::default(),
            cancel_method: Some("$/cancelRequest".to_owned()),
            uncancellable: Vec::new(),
            queue: 256,
            incoming: 256,
            observer: None,
        }
    }
}

/// A request from the peer.
#[derive(Debug)]
pub struct IncomingRequest {
    /// Id of the request.
    pub id: Id,
    /// The requested method.
    pub method: String,
    /// The unparsed parameters.
    pub params: Option<Box<RawValue>>,
}

/// Handler of the peer's messages.
pub trait Handler: Send + Sync + 'static {
    /// Handles a notification, in wire order.
    ///
    /// Runs in the reading task: it must not block.
    fn notification(&self, peer: &Peer, method: &str, params: Option<&RawValue>) {
        let _ = (peer, method, params);
    }

    /// Handles a request.
    ///
    /// The reading task makes the call in wire order, so it must not block. The future runs in a
    /// task of its own, and is dropped when the peer cancels or the stream closes.
    fn request(
        &self,
        peer: &Peer,
        request: IncomingRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let _ = peer;
        let error = RpcError::method_not_found(&request.method);
        Box::pin(std::future::ready(Err(error)))
    }
}

/// Reason why a request has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    /// The peer responded with an error.
    #[error("{method} failed: {error}")]
    Rpc {
        /// The requested method.
        method: String,
        /// The peer's error.
        error: Box<RpcError>,
    },
    /// The peer did not respond in time; the request was cancelled.
    #[error("{method} was not answered within {after:?}")]
    Deadline {
        /// The requested method.
        method: String,
        /// The deadline.
        after: Duration,
    },
    /// The caller cancelled the request; the peer was notified.
    #[error("{method} was cancelled")]
    Cancelled {
        /// The requested method.
        method: String,
    },
    /// The stream closed before the response.
    #[error("{method} has no answer: {closed}")]
    Closed {
        /// The requested method.
        method: String,
        /// The reason.
        closed: Closed,
    },
    /// The parameters cannot be serialized.
    #[error("the parameters of {method} cannot be written: {reason}")]
    Encode {
        /// The requested method.
        method: String,
        /// The error of `serde_json`.
        reason: String,
    },
}

type Answer = Result<Box<RawValue>, RpcError>;

/// One end of a stream. Cheap to clone; all clones are the same end.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    pending: Pending<Answer, Closed>,
    outbox: Outbox,
    cancel_method: Option<String>,
    uncancellable: Vec<String>,
    observer: Option<Arc<dyn Observer>>,
    closed: CancellationToken,
    incoming: Mutex<HashMap<Id, CancellationToken>>,
    incoming_limit: usize,
    tracker: TaskTracker,
}

impl Peer {
    /// Starts reading and writing on tasks of `tracker`.
    ///
    /// They end on [`Peer::close`] or at the end of the stream.
    pub fn spawn(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        handler: Arc<dyn Handler>,
        options: PeerOptions,
        tracker: &TaskTracker,
    ) -> Self {
        let (outbox, writing) = Outbox::new(options.queue);
        let codec = MessageCodec::new(options.framing, options.limits);
        let peer = Self {
            shared: Arc::new(Shared {
                name: options.name,
                pending: Pending::default(),
                outbox,
                cancel_method: options.cancel_method,
                uncancellable: options.uncancellable,
                observer: options.observer,
                closed: CancellationToken::new(),
                incoming: Mutex::default(),
                incoming_limit: options.incoming,
                tracker: tracker.clone(),
            }),
        };
        let this = peer.clone();
        let write_codec = codec.clone();
        tracker.spawn(async move {
            let observer = this.shared.observer.clone();
            let run = writing.run(writer, write_codec, move |body| {
                if let Some(observer) = &observer {
                    observer.message(Direction::Sent, body);
                }
            });
            tokio::select! {
                // Dropping the writer may cut a message; the stream is closed then anyway.
                () = this.shared.closed.cancelled() => {}
                result = run => if let Err(error) = result {
                    this.close_with(CloseReason::Write(format!("writing failed: {error}")));
                }
            }
        });
        let this = peer.clone();
        tracker.spawn(async move {
            let mut frames = FramedRead::with_capacity(reader, codec, 64 * 1024);
            let closed = this.shared.closed.clone().cancelled_owned();
            tokio::pin!(closed);
            let reason = loop {
                // Buffered frames come first, without waiting; but a flood must not hide the end.
                if this.shared.closed.is_cancelled() {
                    return;
                }
                let frame = tokio::select! {
                    biased;
                    // Dropping `next` loses nothing: bytes read stay in `frames`.
                    frame = frames.next() => frame,
                    () = &mut closed => return,
                };
                match frame {
                    None => break CloseReason::EndOfStream,
                    Some(Err(error)) => break CloseReason::Read(format!("reading failed: {error}")),
                    // The end of the stream is reported by itself.
                    Some(Ok(Frame::Skipped(Skipped::Truncated { bytes }))) => {
                        tracing::debug!(peer = this.shared.name, bytes, "the stream ended inside a message");
                    }
                    Some(Ok(Frame::Skipped(skipped))) => this.skipped(&skipped),
                    Some(Ok(Frame::Body(body))) => this.receive(&body, handler.as_ref()),
                }
            };
            this.close_with(reason);
        });
        peer
    }

    /// Sends a request and waits for the raw result.
    ///
    /// Dropping the future, `cancel` and the deadline free the entry and cancel the request at the peer.
    ///
    /// # Errors
    /// [`RequestError`]; each names the method.
    pub async fn request(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        deadline: Duration,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, RequestError> {
        let owned = || method.to_owned();
        let ask = async {
            let room =
                self.room().await.map_err(|closed| RequestError::Closed { method: owned(), closed })?;
            let flight = room.request(method, params)?;
            // The place is freed while waiting.
            drop(room);
            flight.answer().await
        };
        within(method, deadline, cancel, ask).await
    }

    /// Waits for a place in the queue.
    ///
    /// Messages sent with it are sent in order and without waiting, so several can be sent as one step under
    /// a lock.
    ///
    /// # Errors
    /// [`Closed`] if the stream is closed.
    pub async fn room(&self) -> Result<Room, Closed> {
        let place = self.shared.outbox.place().await.map_err(|OutboxClosed| self.why_closed())?;
        Ok(Room { peer: self.clone(), place })
    }

    /// Sends a notification; waits for a place in the queue.
    ///
    /// The order of notifications and requests from one task is kept. Cancel-safe: if dropped while it waits,
    /// nothing is sent.
    ///
    /// # Errors
    /// [`Closed`] if the stream is closed; parameters that cannot be serialized are logged and not sent.
    pub async fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<(), Closed> {
        self.room().await?.notify(method, params)
    }

    /// Notifies without waiting; returns `Ok(false)` if the queue is full.
    ///
    /// # Errors
    /// Like [`Peer::notify`].
    pub fn try_notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<bool, Closed> {
        match self.shared.outbox.try_place().map_err(|OutboxClosed| self.why_closed())? {
            Some(place) => Room { peer: self.clone(), place }.notify(method, params).map(|()| true),
            None => Ok(false),
        }
    }

    fn notification(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Closed> {
        if let Some(closed) = self.shared.pending.closed() {
            return Err(closed);
        }
        let params = envelope::raw(params).map_err(|error| {
            tracing::error!(peer = self.shared.name, method, %error, "parameters cannot be written");
            Closed {
                reason: CloseReason::Local(format!("parameters of {method} cannot be written: {error}")),
            }
        })?;
        Ok(Envelope::Notification { method: method.to_owned(), params: some_params(params) }.to_bytes())
    }

    /// Waits until all sent messages are handed to the system or the stream is closed.
    pub async fn flush(&self) {
        tokio::select! {
            () = self.shared.closed.cancelled() => {}
            result = self.shared.outbox.flush() => if let Err(OutboxClosed) = result {
                tracing::debug!(peer = self.shared.name, "nothing is left to flush: the writer has ended");
            }
        }
    }

    /// Waits until the stream is closed; returns the reason. Cancel-safe.
    pub async fn closed(&self) -> Closed {
        self.shared.closed.cancelled().await;
        self.why_closed()
    }

    /// The reason if the stream is closed.
    pub fn is_closed(&self) -> Option<Closed> {
        self.shared.pending.closed()
    }

    /// Closes the stream: both tasks end, all waits fail with `why`.
    pub fn close(&self, why: &str) {
        self.close_with(CloseReason::Local(why.to_owned()));
    }

    /// Number of requests without a response.
    pub fn pending(&self) -> usize {
        self.shared.pending.count()
    }

    fn close_with(&self, reason: CloseReason) {
        if self.shared.pending.close(Closed { reason }) {
            self.shared.outbox.close();
            self.shared.closed.cancel();
        }
    }

    fn why_closed(&self) -> Closed {
        self.shared
            .pending
            .closed()
            .unwrap_or(Closed { reason: CloseReason::Local("the peer was dropped".to_owned()) })
    }

    fn skipped(&self, skipped: &dyn std::fmt::Display) {
        tracing::warn!(peer = self.shared.name, "skipped {skipped}");
        if let Some(observer) = &self.shared.observer {
            observer.skipped(&skipped.to_string());
        }
    }

    fn receive(&self, body: &[u8], handler: &dyn Handler) {
        if let Some(observer) = &self.shared.observer {
            observer.message(Direction::Received, body);
        }
        match envelope::read(body) {
            Err(malformed) => self.skipped(&malformed),
            Ok(Incoming::Notification { method, params }) => {
                if Some(&*method) == self.shared.cancel_method.as_deref() {
                    self.cancel_incoming(params);
                    return;
                }
                let call = AssertUnwindSafe(|| handler.notification(self, &method, params));
                if std::panic::catch_unwind(call).is_err() {
                    tracing::error!(
                        peer = self.shared.name,
                        %method,
                        "the handler of a notification panicked"
                    );
                }
            }
            Ok(Incoming::Response { id, outcome }) => self.take_answer(id, outcome),
            Ok(Incoming::Request { id, method, params }) => {
                self.take_request(IncomingRequest { id, method, params }, handler);
            }
        }
    }

    fn take_answer(&self, id: Option<Id>, outcome: Result<Box<RawValue>, RpcError>) {
        let name = &self.shared.name;
        match id {
            Some(Id::Number(id)) => match self.shared.pending.answer(id, outcome) {
                Ok(()) => {}
                Err(true) => tracing::debug!(peer = name, id, "ignored a late or repeated response"),
                Err(false) => tracing::warn!(peer = name, id, "response to an unknown request"),
            },
            Some(id) => tracing::warn!(peer = name, %id, "response to an unknown request"),
            None => tracing::warn!(peer = name, ?outcome, "response without an id"),
        }
    }

    fn cancel_incoming(&self, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct Cancel {
            id: Id,
        }
        let Some(Ok(Cancel { id })) = params.map(|params| serde_json::from_str(params.get())) else {
            return;
        };
        if let Some(token) = self.incoming().get(&id) {
            token.cancel();
        }
    }

    fn take_request(&self, request: IncomingRequest, handler: &dyn Handler) {
        let id = request.id.clone();
        let method = request.method.clone();
        let token = self.shared.closed.child_token();
        {
            let mut incoming = self.incoming();
            let refused = if incoming.contains_key(&id) {
                Some(format!("{method} refused: another request with the id {id} is pending"))
            } else if incoming.len() >= self.shared.incoming_limit {
                Some(format!("{method} refused: too many pending requests; try again later"))
            } else {
                None
            };
            if let Some(refused) = refused {
                drop(incoming);
                return self.answer(id, Err(RpcError::new(codes::REQUEST_FAILED, refused)));
            }
            incoming.insert(id.clone(), token.clone());
        }
        let call = AssertUnwindSafe(|| handler.request(self, request));
        let future = match std::panic::catch_unwind(call) {
            Ok(future) => future,
            Err(_) => Box::pin(std::future::ready(Err(panicked(&method)))),
        };
        let this = self.clone();
        self.shared.tracker.spawn(async move {
            let work = AssertUnwindSafe(future).catch_unwind();
            let outcome = tokio::select! {
                // Dropping the handler's future cancels it.
                () = token.cancelled() => Err(RpcError::new(codes::REQUEST_CANCELLED, "cancelled")),
                outcome = work => outcome.unwrap_or_else(|_| Err(panicked(&method))),
            };
            this.incoming().remove(&id);
            this.answer(id, outcome);
        });
    }

    fn answer(&self, id: Id, outcome: Result<Box<RawValue>, RpcError>) {
        let message = Envelope::Response { id: Some(id), outcome };
        if self.shared.outbox.put_control(message.to_bytes()).is_err() {
            tracing::debug!(peer = self.shared.name, "a response was not sent: the stream is closed");
        }
    }

    fn incoming(&self) -> parking_lot::MutexGuard<'_, HashMap<Id, CancellationToken>> {
        // Entries are inserted and removed whole, so a panic elsewhere has no effect on them.
        self.shared.incoming.lock()
    }
}

fn panicked(method: &str) -> RpcError {
    RpcError::new(codes::INTERNAL_ERROR, format!("the handler of {method} panicked"))
}

/// Removes `null` parameters, since JSON-RPC allows only objects and arrays.
fn some_params(params: Box<RawValue>) -> Option<Box<RawValue>> {
    (params.get() != "null").then_some(params)
}

/// A place in the queue of a [`Peer`], from [`Peer::room`].
pub struct Room {
    peer: Peer,
    place: QueuePlace,
}

impl Room {
    /// Sends a notification. Does not wait.
    ///
    /// # Errors
    /// [`Closed`] if the stream is closed.
    pub fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<(), Closed> {
        let message = self.peer.notification(method, params)?;
        self.peer.shared.outbox.put(message, &self.place).map_err(|OutboxClosed| self.peer.why_closed())
    }

    /// Sends a request. Does not wait; the returned value waits for the response.
    ///
    /// # Errors
    /// [`RequestError::Encode`] and [`RequestError::Closed`].
    pub fn request(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<InFlight, RequestError> {
        let owned = || method.to_owned();
        let closed = |closed| RequestError::Closed { method: owned(), closed };
        let params = envelope::raw(params)
            .map_err(|error| RequestError::Encode { method: owned(), reason: error.to_string() })?;
        let shared = &self.peer.shared;
        let (id, answer) = shared.pending.add().map_err(closed)?;
        let message = Envelope::Request { id: Id::Number(id), method: owned(), params: some_params(params) };
        if shared.outbox.put(message.to_bytes(), &self.place).is_err() {
            shared.pending.forget(id);
            return Err(closed(self.peer.why_closed()));
        }
        let is_cancellable = !shared.uncancellable.iter().any(|it| it == method);
        let guard = PendingGuard { peer: self.peer.clone(), id, is_cancellable };
        Ok(InFlight { guard, method: owned(), answer })
    }
}

/// A request in flight. Dropping it frees the entry and cancels it at the peer.
pub struct InFlight {
    guard: PendingGuard,
    method: String,
    answer: oneshot::Receiver<Result<Answer, Closed>>,
}

impl InFlight {
    /// Waits for the raw result.
    ///
    /// # Errors
    /// [`RequestError`]; each names the method.
    pub async fn wait(
        self,
        deadline: Duration,
        cancel: &CancellationToken,
    ) -> Result<Box<RawValue>, RequestError> {
        let method = self.method.clone();
        within(&method, deadline, cancel, self.answer()).await
    }

    /// Cancels the request at the peer.
    ///
    /// Still accepts its response, which may come anyway.
    pub fn give_up(&mut self) {
        self.guard.cancel();
    }

    /// Waits for the raw result without a deadline. Cancel-safe.
    ///
    /// Must not be called again after it returned.
    ///
    /// # Errors
    /// [`RequestError`]; each names the method.
    pub async fn answered(&mut self) -> Result<Box<RawValue>, RequestError> {
        let outcome = (&mut self.answer).await.unwrap_or_else(|_| Err(self.guard.peer.why_closed()));
        let method = self.method.clone();
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(RequestError::Rpc { method, error: Box::new(error) }),
            Err(closed) => Err(RequestError::Closed { method, closed }),
        }
    }

    async fn answer(mut self) -> Result<Box<RawValue>, RequestError> {
        self.answered().await
    }
}

async fn within(
    method: &str,
    deadline: Duration,
    cancel: &CancellationToken,
    ask: impl Future<Output = Result<Box<RawValue>, RequestError>>,
) -> Result<Box<RawValue>, RequestError> {
    tokio::select! {
        biased;
        // Dropping `ask` runs its guard, which frees the entry and sends the cancellation.
        () = cancel.cancelled() => Err(RequestError::Cancelled { method: method.to_owned() }),
        outcome = tokio::time::timeout(deadline, ask) => outcome.unwrap_or_else(|_| {
            Err(RequestError::Deadline { method: method.to_owned(), after: deadline })
        }),
    }
}

/// Frees the entry of an abandoned request, and cancels it at the peer.
struct PendingGuard {
    peer: Peer,
    id: i64,
    /// Whether the peer may be notified, and has not been.
    is_cancellable: bool,
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        if self.peer.shared.pending.forget(self.id) {
            self.cancel();
        }
    }
}

impl PendingGuard {
    fn cancel(&mut self) {
        let shared = &self.peer.shared;
        if !std::mem::take(&mut self.is_cancellable) {
            return;
        }
        let Some(method) = shared.cancel_method.clone() else { return };
        let params = envelope::raw(&serde_json::json!({ "id": self.id })).ok();
        let message = Envelope::Notification { method, params };
        if shared.outbox.put_control(message.to_bytes()).is_err() {
            tracing::debug!(peer = shared.name, "a cancellation was not sent: the stream is closed");
        }
    }
}
