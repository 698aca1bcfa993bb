//! The command's side of one connection.
//!
//! Sends requests, forwards questions to the user, and detects a dead owner.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::deadlines;
use futures_util::future::BoxFuture;
use host::{
    CompactReport, CompactRequest, PromptRequest, Reply, RunReport, Stop, ToolCallRequest, UndoRequest,
};
use policy::Approver;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::{LocalError, Stream};
use wire::{Framing, Handler, IncomingRequest, Peer, PeerOptions, RequestError, RpcError, codes, raw};

use super::process_of;
use super::protocol::{
    AnswerMessage, Cancel, ChoiceMessage, ChosenMessage, Documents, Hello, OpenDocument, PROTOCOL,
    QuestionMessage, ResultMessage, Welcome, methods,
};

/// Time limit for the greeting and for the list of open documents.
pub const GREETING: Duration = Duration::from_secs(3);
/// Interval and time limit of pings to a working owner.
const PING: Duration = Duration::from_secs(3);
/// Time limit of a request; in practice pings and Ctrl-C end it.
const REQUEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A connection to an owner, after the greeting.
pub struct Client {
    peer: Peer,
    owner: OwnerName,
    events: mpsc::UnboundedReceiver<Box<RawValue>>,
    tracker: TaskTracker,
}

/// Names the owner in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerName {
    editor: String,
    process: Option<u32>,
}

impl std::fmt::Display for OwnerName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.editor.as_str() {
            "" => f.write_str("the Pilcrow of an editor")?,
            editor => write!(f, "the Pilcrow of {editor}")?,
        }
        match self.process {
            Some(process) => write!(f, " (process {process})"),
            None => Ok(()),
        }
    }
}

/// The reason why a command cannot use an owner.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("{0} has ended")]
    Gone(OwnerName),
    #[error("{0} does not answer (waited {GREETING:?})")]
    Hung(OwnerName),
    #[error("{owner} is incompatible with this Pilcrow {}: {reason}", env!("CARGO_PKG_VERSION"))]
    Incompatible { owner: OwnerName, reason: String },
    /// The socket belongs to another user, or the system failed.
    #[error(transparent)]
    Local(LocalError),
}

/// The reason why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The owner ended or disconnected.
    #[error("{0} ended before it answered; check its result, then repeat the command")]
    Gone(OwnerName),
    #[error("{0} stopped answering; it may still execute the request, so check before you repeat it")]
    Silent(OwnerName),
    #[error("{0} did not confirm the cancellation; it may still execute the request, so check its result")]
    NotStopped(OwnerName),
    #[error("{owner}: {message}")]
    Refused { owner: OwnerName, message: String },
}

impl Client {
    /// Connects to the owner with the socket `path` and greets it.
    ///
    /// `approver` answers its questions. Takes at most [`GREETING`].
    ///
    /// # Errors
    /// [`Unreachable`].
    pub async fn connect(
        path: &Path,
        hello: &Hello,
        approver: Arc<dyn Approver>,
    ) -> Result<Self, Unreachable> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut owner = OwnerName { editor: String::new(), process: process_of(&name) };
        let stream = match Stream::connect(path).await {
            Ok(stream) => stream,
            Err(LocalError::Dead { .. }) => return Err(Unreachable::Gone(owner)),
            Err(LocalError::Busy { .. }) => return Err(Unreachable::Hung(owner)),
            Err(error) => return Err(Unreachable::Local(error)),
        };
        let (sender, events) = mpsc::unbounded_channel();
        let tracker = TaskTracker::new();
        let options = PeerOptions { framing: Framing::Line, ..PeerOptions::new(format!("owner {name}")) };
        let (reader, writer) = stream.split();
        let incoming = Arc::new(Incoming { approver, events: sender });
        let peer = Peer::spawn(reader, writer, incoming, options, &tracker);
        let mut client = Self { peer, owner: owner.clone(), events, tracker };
        let incompatible = |owner: OwnerName, reason: String| Unreachable::Incompatible { owner, reason };
        let welcome: Welcome = match client.request_quickly(methods::HELLO, hello).await {
            Ok(welcome) => serde_json::from_str(welcome.get())
                .map_err(|error| incompatible(owner.clone(), format!("its greeting is invalid: {error}")))?,
            Err(RequestError::Rpc { error, .. }) => return Err(incompatible(owner, error.message)),
            Err(RequestError::Closed { .. }) => return Err(Unreachable::Gone(owner)),
            Err(_) => return Err(Unreachable::Hung(owner)),
        };
        owner.editor = welcome.name;
        if welcome.protocol != PROTOCOL {
            let Welcome { protocol, version, .. } = welcome;
            let reason = format!("it is Pilcrow {version} with protocol {protocol}, not protocol {PROTOCOL}");
            return Err(incompatible(owner, reason));
        }
        client.owner = owner;
        Ok(client)
    }

    pub fn owner(&self) -> &OwnerName {
        &self.owner
    }

    /// Requests the open documents of the owner's editor.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub async fn documents(&self) -> Result<Vec<OpenDocument>, Unreachable> {
        let answer =
            self.request_quickly(methods::DOCUMENTS, &json!({})).await.map_err(|error| match error {
                RequestError::Closed { .. } => Unreachable::Gone(self.owner.clone()),
                RequestError::Rpc { error, .. } => {
                    Unreachable::Incompatible { owner: self.owner.clone(), reason: error.message }
                }
                _ => Unreachable::Hung(self.owner.clone()),
            })?;
        let documents: Documents =
            serde_json::from_str(answer.get()).map_err(|error| Unreachable::Incompatible {
                owner: self.owner.clone(),
                reason: format!("its response is invalid: {error}"),
            })?;
        Ok(documents.documents)
    }

    /// Calls a tool in the owner.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn call(
        &mut self,
        call: &ToolCallRequest,
        stop: Stop<'_>,
    ) -> Result<Reply<agent::ToolResult>, Failed> {
        Ok(result(self.request(methods::TOOL, call, stop, |_| {}).await?))
    }

    /// Undoes or redoes in the owner.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn undo(
        &mut self,
        request: &UndoRequest,
        stop: Stop<'_>,
    ) -> Result<Reply<agent::ToolResult>, Failed> {
        Ok(result(self.request(methods::UNDO, request, stop, |_| {}).await?))
    }

    /// Runs a prompt in the owner.
    ///
    /// `on_event` receives the envelope of each event, in order.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn run(
        &mut self,
        request: &PromptRequest,
        stop: Stop<'_>,
        on_event: impl FnMut(&RawValue),
    ) -> Result<Reply<RunReport>, Failed> {
        self.request(methods::RUN, request, stop, on_event).await
    }

    /// Compacts a session in the owner; `on_event` receives its events.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn compact(
        &mut self,
        request: &CompactRequest,
        stop: Stop<'_>,
        on_event: impl FnMut(&RawValue),
    ) -> Result<Reply<CompactReport>, Failed> {
        self.request(methods::COMPACT, request, stop, on_event).await
    }

    /// Disconnects and waits for the tasks of the connection.
    pub async fn close(self) {
        self.peer.close("the command is done");
        self.tracker.close();
        self.tracker.wait().await;
    }

    async fn request_quickly(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Box<RawValue>, RequestError> {
        self.peer.request(method, params, GREETING, &CancellationToken::new()).await
    }

    /// Sends a request and waits.
    ///
    /// On `cancel`, notifies the owner once and waits a while for its response.
    async fn request<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        stop: Stop<'_>,
        mut on_event: impl FnMut(&RawValue),
    ) -> Result<T, Failed> {
        let Self { peer, owner, events, .. } = self;
        let never = CancellationToken::new();
        let answer = peer.request(method, params, REQUEST, &never);
        let mut answer = std::pin::pin!(answer);
        let silent = silence(peer);
        let mut silent = std::pin::pin!(silent);
        let stopped = async {
            stop.cancel.cancelled().await;
            let cancel = Cancel { gone: stop.gone.is_cancelled() };
            if peer.notify(methods::CANCEL, &cancel).await.is_ok() {
                tokio::time::sleep(deadlines::REQUEST_ABANDONED).await;
            }
        };
        let mut stopped = std::pin::pin!(stopped);
        let answer = loop {
            // Cancel safety: all are pinned outside; `recv` takes an event only when it returns one.
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                Some(event) = events.recv() => on_event(&event),
                () = &mut stopped => return Err(Failed::NotStopped(owner.clone())),
                () = &mut silent => return Err(Failed::Silent(owner.clone())),
            }
        };
        // Events that arrived before the response are already queued.
        while let Ok(event) = events.try_recv() {
            on_event(&event);
        }
        let refused = |message: String| Failed::Refused { owner: owner.clone(), message };
        match answer {
            Ok(answer) => serde_json::from_str(answer.get())
                .map_err(|error| refused(format!("its response is invalid: {error}"))),
            Err(RequestError::Rpc { error, .. }) => Err(refused(error.message)),
            Err(RequestError::Closed { .. }) => Err(Failed::Gone(owner.clone())),
            Err(error) => Err(refused(error.to_string())),
        }
    }
}

/// Returns when the owner no longer answers pings.
///
/// One missed ping proves nothing: this process may have been suspended.
async fn silence(peer: &Peer) {
    let mut missed = 0;
    while missed < 2 {
        tokio::time::sleep(PING).await;
        let ping = peer.request(methods::PING, &json!({}), PING, &CancellationToken::new()).await;
        missed = if matches!(ping, Err(RequestError::Deadline { .. })) { missed + 1 } else { 0 };
    }
}

fn result(reply: Reply<ResultMessage>) -> Reply<agent::ToolResult> {
    match reply {
        Reply::Done(message) => Reply::Done(message.into()),
        Reply::InvalidRequest(text) => Reply::InvalidRequest(text),
    }
}

/// Handles the requests and notifications of the owner.
struct Incoming {
    approver: Arc<dyn Approver>,
    /// Channel bounded by the events of one run: slow printing must not block reading.
    events: mpsc::UnboundedSender<Box<RawValue>>,
}

impl Handler for Incoming {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        if let (methods::EVENT, Some(event)) = (method, params) {
            // An error means that the request has ended.
            self.events.send(event.to_owned()).ok();
        }
    }

    fn request(
        &self,
        _: &Peer,
        request: IncomingRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let approver = Arc::clone(&self.approver);
        Box::pin(async move {
            let params = request.params.as_deref().map_or("{}", RawValue::get);
            let invalid = |error: serde_json::Error| RpcError::new(codes::INVALID_PARAMS, error.to_string());
            // If the owner withdraws the question, this future is dropped and the question with it.
            let cancel = CancellationToken::new();
            let answer = match request.method.as_str() {
                methods::ASK => {
                    let question: QuestionMessage = serde_json::from_str(params).map_err(invalid)?;
                    raw(&AnswerMessage::from(approver.ask(question.into(), &cancel).await))
                }
                methods::CHOOSE => {
                    let ChoiceMessage(choice) = serde_json::from_str(params).map_err(invalid)?;
                    raw(&ChosenMessage(approver.choose(choice, &cancel).await))
                }
                method => return Err(RpcError::method_not_found(method)),
            };
            answer.map_err(|error| RpcError::new(codes::INTERNAL_ERROR, error.to_string()))
        })
    }
}
