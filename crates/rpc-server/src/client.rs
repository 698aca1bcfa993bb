//! The command's side of one connection: greets, asks, passes questions on, and waits no longer than
//! the owner lives.

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

/// How long an owner may take to greet, or to say what it has open.
pub const GREETING: Duration = Duration::from_secs(3);
/// How often an owner that works is asked whether it is there, and how long it may take to say so.
const PING: Duration = Duration::from_secs(3);
/// A request may take as long as a person lets it; pings and Ctrl-C end it.
const ANY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A connection to an owner that greeted us.
pub struct Client {
    peer: Peer,
    who: Who,
    events: mpsc::UnboundedReceiver<Box<RawValue>>,
    tracker: TaskTracker,
}

/// An owner, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    editor: String,
    process: Option<u32>,
}

impl std::fmt::Display for Who {
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

/// Why an owner cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// It is gone, and its name with it.
    #[error("{0} is gone")]
    Gone(Who),
    /// It does not greet.
    #[error("{0} does not answer (waited {GREETING:?})")]
    Hung(Who),
    /// It speaks another protocol, or refuses ours.
    #[error("{who} cannot work with this Pilcrow {}: {reason}", env!("CARGO_PKG_VERSION"))]
    Stranger { who: Who, reason: String },
    /// It is another user's, or the system failed.
    #[error(transparent)]
    Local(LocalError),
}

/// Why a request that was begun has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The owner's process ended, or hung up.
    #[error("{0} ended before it answered")]
    Gone(Who),
    /// It was alive and is silent now.
    #[error("{0} stopped answering; what it was asked for it may still do when it goes on")]
    Silent(Who),
    /// It was told to stop and did not say that it has.
    #[error("{0} was told to stop and has not said that it did")]
    NotStopped(Who),
    /// It says that it cannot.
    #[error("{who}: {message}")]
    Refused { who: Who, message: String },
}

impl Client {
    /// Connects to the owner at `path`, a name in the folder of its workspace, and greets it. Questions
    /// that it passes back go to `approver`. Takes no longer than [`GREETING`].
    ///
    /// # Errors
    /// [`Unreachable`].
    pub async fn connect(
        path: &Path,
        hello: &Hello,
        approver: Arc<dyn Approver>,
    ) -> Result<Self, Unreachable> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut who = Who { editor: String::new(), process: process_of(&name) };
        let stream = match Stream::connect(path).await {
            Ok(stream) => stream,
            Err(LocalError::Dead { .. }) => return Err(Unreachable::Gone(who)),
            Err(LocalError::Busy { .. }) => return Err(Unreachable::Hung(who)),
            Err(error) => return Err(Unreachable::Local(error)),
        };
        let (sender, events) = mpsc::unbounded_channel();
        let tracker = TaskTracker::new();
        let options = PeerOptions { framing: Framing::Line, ..PeerOptions::new(format!("owner {name}")) };
        let (reader, writer) = stream.split();
        let incoming = Arc::new(Incoming { approver, events: sender });
        let peer = Peer::spawn(reader, writer, incoming, options, &tracker);
        let mut client = Self { peer, who: who.clone(), events, tracker };
        let stranger = |who: Who, reason: String| Unreachable::Stranger { who, reason };
        let welcome: Welcome = match client.ask_at_once(methods::HELLO, hello).await {
            Ok(welcome) => serde_json::from_str(welcome.get())
                .map_err(|error| stranger(who.clone(), format!("its greeting cannot be read: {error}")))?,
            Err(RequestError::Rpc { error, .. }) => return Err(stranger(who, error.message)),
            Err(RequestError::Closed { .. }) => return Err(Unreachable::Gone(who)),
            Err(_) => return Err(Unreachable::Hung(who)),
        };
        who.editor = welcome.name;
        if welcome.protocol != PROTOCOL {
            let Welcome { protocol, version, .. } = welcome;
            let reason = format!("it is Pilcrow {version} and speaks protocol {protocol}, not {PROTOCOL}");
            return Err(stranger(who, reason));
        }
        client.who = who;
        Ok(client)
    }

    pub fn who(&self) -> &Who {
        &self.who
    }

    /// What its editor has open.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub async fn documents(&self) -> Result<Vec<OpenDocument>, Unreachable> {
        let answer = self.ask_at_once(methods::DOCUMENTS, &json!({})).await.map_err(|error| match error {
            RequestError::Closed { .. } => Unreachable::Gone(self.who.clone()),
            RequestError::Rpc { error, .. } => {
                Unreachable::Stranger { who: self.who.clone(), reason: error.message }
            }
            _ => Unreachable::Hung(self.who.clone()),
        })?;
        let documents: Documents =
            serde_json::from_str(answer.get()).map_err(|error| Unreachable::Stranger {
                who: self.who.clone(),
                reason: format!("its answer cannot be read: {error}"),
            })?;
        Ok(documents.documents)
    }

    /// Has it call one tool.
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

    /// Has it undo or redo.
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

    /// Has it work out a prompt; `on_event` gets each event's envelope as it came, in order.
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

    /// Has it compact a session; `on_event` gets each event as in [`Client::run`].
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

    /// Hangs up and waits for our own tasks.
    pub async fn close(self) {
        self.peer.close("the command is done");
        self.tracker.close();
        self.tracker.wait().await;
    }

    async fn ask_at_once(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> Result<Box<RawValue>, RequestError> {
        self.peer.request(method, params, GREETING, &CancellationToken::new()).await
    }

    /// Asks and waits. On `cancel` the owner is told, once, and its answer waited for a while.
    async fn request<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        stop: Stop<'_>,
        mut on_event: impl FnMut(&RawValue),
    ) -> Result<T, Failed> {
        let Self { peer, who, events, .. } = self;
        let never = CancellationToken::new();
        let answer = peer.request(method, params, ANY, &never);
        let mut answer = std::pin::pin!(answer);
        let silent = silence(peer);
        let mut silent = std::pin::pin!(silent);
        let stopped = async {
            stop.cancel.cancelled().await;
            let how = Cancel { gone: stop.gone.is_cancelled() };
            if peer.notify(methods::CANCEL, &how).await.is_ok() {
                tokio::time::sleep(deadlines::REQUEST_ABANDONED).await;
            }
        };
        let mut stopped = std::pin::pin!(stopped);
        let answer = loop {
            // All are pinned outside; `recv` takes an event only when it returns one.
            tokio::select! {
                biased;
                answer = &mut answer => break answer,
                Some(event) = events.recv() => on_event(&event),
                () = &mut stopped => return Err(Failed::NotStopped(who.clone())),
                () = &mut silent => return Err(Failed::Silent(who.clone())),
            }
        };
        // What came before the answer was put here before it.
        while let Ok(event) = events.try_recv() {
            on_event(&event);
        }
        let refused = |message: String| Failed::Refused { who: who.clone(), message };
        match answer {
            Ok(answer) => serde_json::from_str(answer.get())
                .map_err(|error| refused(format!("its answer cannot be read: {error}"))),
            Err(RequestError::Rpc { error, .. }) => Err(refused(error.message)),
            Err(RequestError::Closed { .. }) => Err(Failed::Gone(who.clone())),
            Err(error) => Err(refused(error.to_string())),
        }
    }
}

/// Ends when the other side does not answer any more. One late answer proves nothing: it may be we who
/// were stopped.
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

/// What the owner sends by itself.
struct Incoming {
    approver: Arc<dyn Approver>,
    /// Not bounded but by what one run tells: printing must not hold up reading.
    events: mpsc::UnboundedSender<Box<RawValue>>,
}

impl Handler for Incoming {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        if let (methods::EVENT, Some(event)) = (method, params) {
            // Err means that nobody waits any more.
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
            let wrong = |error: serde_json::Error| RpcError::new(codes::INVALID_PARAMS, error.to_string());
            // When the owner takes the question back, this future is dropped and the question with it.
            let cancel = CancellationToken::new();
            let answer = match request.method.as_str() {
                methods::ASK => {
                    let asked: QuestionMessage = serde_json::from_str(params).map_err(wrong)?;
                    raw(&AnswerMessage::from(approver.ask(asked.into(), &cancel).await))
                }
                methods::CHOOSE => {
                    let choosing: ChoiceMessage = serde_json::from_str(params).map_err(wrong)?;
                    raw(&ChosenMessage::from(approver.choose(choosing.into(), &cancel).await))
                }
                method => return Err(RpcError::method_not_found(method)),
            };
            answer.map_err(|error| RpcError::new(codes::INTERNAL_ERROR, error.to_string()))
        })
    }
}
