//! One connection at the owner's side: its greeting, its requests, and its end.
//!
//! A connection belongs to one command. Its permission is valid for this connection only, and its end
//! cancels its requests. Requests run in tasks that are never dropped, so that a disconnecting command
//! leaves nothing half done.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::{Envelope, EventSink, deadlines};
use futures_util::future::BoxFuture;
use host::{
    Access, CompactRequest, ProjectHandle, PromptRequest, Reply, RequestScope, ServedProject, Stop,
    ToolCallRequest, UndoRequest,
};
use policy::{Answer, Approver, Choice, Chosen, ErrorCode, Question, Unattended};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::Stream;
use wire::{Framing, Handler, IncomingRequest, Peer, PeerOptions, RpcError, codes, raw};
use workspace::Owner;

use super::protocol::{
    AnswerMessage, Cancel, ChoiceMessage, ChosenMessage, Documents, Hello, OpenDocument, PROTOCOL,
    QuestionMessage, ResultMessage, Welcome, methods,
};

/// Time limit for an answer of the user.
const ANSWER: Duration = Duration::from_secs(24 * 60 * 60);

/// State shared by the connections of an owner.
pub struct Host {
    pub served: Arc<dyn ServedProject>,
    /// The editor's name for messages; may be empty.
    pub editor: String,
}

/// Serves one connection until it closes or `stop` fires.
pub async fn serve(host: Arc<Host>, stream: Stream, stop: CancellationToken) {
    let process = stream.process();
    let of_run = move || process.is_none_or(process::descends_from_run);
    let is_of_run = tokio::task::spawn_blocking(of_run).await.unwrap_or(true);
    let (tasks, jobs) = (TaskTracker::new(), TaskTracker::new());
    // `stop`, the command, and the end of the connection cancel the requests.
    let (cancel, gone) = (stop.child_token(), CancellationToken::new());
    let connection = Arc::new(Connection {
        host,
        cancel: cancel.clone(),
        is_of_run,
        gone: gone.clone(),
        jobs: jobs.clone(),
        hello: OnceLock::new(),
        scope: OnceCell::new(),
    });
    let options = PeerOptions { framing: Framing::Line, ..PeerOptions::new(format!("command {process:?}")) };
    let (reader, writer) = stream.split();
    let peer = Peer::spawn(reader, writer, Arc::new(Incoming(Arc::clone(&connection))), options, &tasks);
    tokio::select! {
        // Cancel safety: both are permanent states.
        _ = peer.closed() => {}
        () = stop.cancelled() => {}
    }
    if !cancel.is_cancelled() {
        gone.cancel();
    }
    cancel.cancel();
    jobs.close();
    if tokio::time::timeout(deadlines::REQUEST, jobs.wait()).await.is_err() {
        tracing::warn!(process, "the requests of a command did not end in time");
    }
    // The command closes the connection when it has its response.
    tokio::time::timeout(deadlines::REQUEST, peer.closed()).await.ok();
    peer.close("the editor's Pilcrow ends");
    if let Some(client) = connection.scope.get() {
        client.scope.close().await;
    }
    tasks.close();
    tasks.wait().await;
}

struct Connection {
    host: Arc<Host>,
    cancel: CancellationToken,
    /// Whether a run of the agent started the command, which then answers no questions.
    is_of_run: bool,
    /// Token that is cancelled before `cancel` if the command disappeared.
    ///
    /// It disconnected without a message, or lost its terminal.
    gone: CancellationToken,
    jobs: TaskTracker,
    hello: OnceLock<Hello>,
    scope: OnceCell<ClientScope>,
}

/// The scope of the command's requests, and the guard that keeps its project open.
struct ClientScope {
    scope: RequestScope,
    _keep_open: Box<dyn Any + Send + Sync>,
}

struct Incoming(Arc<Connection>);

impl Handler for Incoming {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        if method == methods::CANCEL {
            if decode::<Cancel>(params).is_ok_and(|cancel| cancel.gone) && !self.0.cancel.is_cancelled() {
                self.0.gone.cancel();
            }
            self.0.cancel.cancel();
        }
    }

    fn request(
        &self,
        peer: &Peer,
        request: IncomingRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let (connection, peer) = (Arc::clone(&self.0), peer.clone());
        let work = self.0.jobs.spawn(async move { connection.answer(&peer, request).await });
        Box::pin(async move {
            work.await.unwrap_or_else(|error| Err(failed(ErrorCode::Internal, &error.to_string())))
        })
    }
}

impl Connection {
    async fn answer(&self, peer: &Peer, request: IncomingRequest) -> Result<Box<RawValue>, RpcError> {
        let IncomingRequest { method, params, .. } = request;
        let params = params.as_deref();
        match method.as_str() {
            methods::HELLO => encode(&self.welcome(decode(params)?)?),
            methods::PING => encode(&json!({})),
            methods::DOCUMENTS => {
                self.greeted()?;
                encode(&self.documents())
            }
            methods::TOOL => {
                let mut call: ToolCallRequest = decode(params)?;
                call.invoked &= !self.is_of_run;
                encode(&encode_reply(self.scope(peer).await?.call_tool(call, &self.cancel).await))
            }
            methods::UNDO => {
                let target = decode::<UndoRequest>(params)?.target();
                let result = self.scope(peer).await?.undo_call(target.as_ref(), &self.cancel).await;
                encode(&encode_reply(Reply::Done(result)))
            }
            methods::RUN => self.run(peer, decode(params)?).await,
            methods::COMPACT => self.compact(peer, decode(params)?).await,
            _ => Err(RpcError::method_not_found(&method)),
        }
    }

    fn welcome(&self, hello: Hello) -> Result<Welcome, RpcError> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        if hello.protocol < PROTOCOL {
            let text = format!(
                "this Pilcrow {version} no longer supports protocol {} of Pilcrow {}",
                hello.protocol, hello.version
            );
            return Err(failed(ErrorCode::Unsupported, &text));
        }
        let hello = Hello { asks: hello.asks && !self.is_of_run, ..hello };
        if hello.yes && self.is_of_run {
            return Err(failed(ErrorCode::Denied, process::NO_CONSENT));
        }
        if self.hello.set(hello).is_err() {
            return Err(failed(ErrorCode::WrongState, "`hello` was already sent; send it once"));
        }
        let name = self.host.editor.clone();
        // A newer command decides whether it still supports this protocol.
        Ok(Welcome { protocol: PROTOCOL, version, name, pid: std::process::id() })
    }

    fn greeted(&self) -> Result<&Hello, RpcError> {
        self.hello.get().ok_or_else(|| failed(ErrorCode::WrongState, "send `hello` first"))
    }

    fn documents(&self) -> Documents {
        let open = self.host.served.documents();
        let documents = open.into_iter().map(|document| OpenDocument {
            path: document.path.to_string(),
            dirty: document.owner == Owner::Editor { dirty: true },
        });
        Documents { documents: documents.collect() }
    }

    /// Returns the scope of this connection's requests.
    ///
    /// The first call opens it, because most commands only request documents.
    async fn scope(&self, peer: &Peer) -> Result<&RequestScope, RpcError> {
        let hello = self.greeted()?;
        let make = || async {
            let approver: Arc<dyn Approver> = if hello.asks {
                Arc::new(RemoteApprover { peer: peer.clone() })
            } else {
                Arc::new(Unattended)
            };
            let ProjectHandle { project, keep_open } = self.host.served.project().await?;
            let access = Access { yes: hello.yes, keep: hello.keep, trusted: false };
            let scope =
                tokio::task::spawn_blocking(move || project.isolated_scope(access, approver)).await??;
            anyhow::Ok(ClientScope { scope, _keep_open: keep_open })
        };
        let client = self.scope.get_or_try_init(make).await;
        client.map(|client| &client.scope).map_err(|error| failed(ErrorCode::IoError, &format!("{error:#}")))
    }

    async fn run(&self, peer: &Peer, request: PromptRequest) -> Result<Box<RawValue>, RpcError> {
        let scope = self.scope(peer).await?;
        let stop = Stop { cancel: &self.cancel, gone: &self.gone };
        let (sink, forwarder) = self.forward_events(peer);
        let report = scope.run(request, sink, stop).await;
        finish(forwarder, report).await
    }

    async fn compact(&self, peer: &Peer, request: CompactRequest) -> Result<Box<RawValue>, RpcError> {
        let scope = self.scope(peer).await?;
        let (sink, forwarder) = self.forward_events(peer);
        let report = scope.compact(request, sink, &self.cancel).await;
        finish(forwarder, report).await
    }

    /// A sink that sends events to the command, and its task.
    fn forward_events(&self, peer: &Peer) -> (Arc<dyn EventSink>, JoinHandle<()>) {
        // The events of one run bound the channel: a command that prints slowly must not lose events.
        let (sender, mut events) = mpsc::unbounded_channel();
        let to = peer.clone();
        let forwarder = self.jobs.spawn(async move {
            while let Some(event) = events.recv().await {
                if to.notify(methods::EVENT, &event).await.is_err() {
                    return;
                }
            }
        });
        (Arc::new(Events(sender)), forwarder)
    }
}

/// The response to a request, after its events.
async fn finish<T: serde::Serialize>(
    forwarder: JoinHandle<()>,
    report: anyhow::Result<Reply<T>>,
) -> Result<Box<RawValue>, RpcError> {
    if let Err(error) = forwarder.await {
        tracing::error!(%error, "some events of a run were not sent");
    }
    encode(&report.map_err(|error| failed(ErrorCode::IoError, &format!("{error:#}")))?)
}

/// Queues events for the command.
struct Events(mpsc::UnboundedSender<Envelope>);

impl EventSink for Events {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        // An error means that the command disconnected, which also ends the run.
        self.0.send(envelope.clone()).ok();
        Box::pin(std::future::ready(()))
    }
}

/// Asks the user at the command's terminal.
struct RemoteApprover {
    peer: Peer,
}

impl RemoteApprover {
    /// Asks the client; `None` without an answer.
    async fn request<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        cancel: &CancellationToken,
    ) -> Option<T> {
        let response = self.peer.request(method, params, ANSWER, cancel).await;
        let answer = response.map_err(|error| error.to_string());
        answer
            .and_then(|answer| serde_json::from_str(answer.get()).map_err(|error| error.to_string()))
            .inspect_err(|error| tracing::debug!(error, "a question was not answered"))
            .ok()
    }
}

impl Approver for RemoteApprover {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let question = QuestionMessage::from(question);
            match self.request::<AnswerMessage>(methods::ASK, &question, cancel).await {
                Some(answer) => answer.into(),
                None if cancel.is_cancelled() => Answer::No { text: String::new() },
                None => Answer::Unattended,
            }
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async move {
            match self.request(methods::CHOOSE, &ChoiceMessage(choice), cancel).await {
                Some(ChosenMessage(chosen)) => chosen,
                None if cancel.is_cancelled() => Chosen::Dismissed,
                None => Chosen::Unattended,
            }
        })
    }
}

fn encode_reply(reply: Reply<agent::ToolResult>) -> Reply<ResultMessage> {
    match reply {
        Reply::Done(result) => Reply::Done(result.into()),
        Reply::InvalidRequest(text) => Reply::InvalidRequest(text),
    }
}

fn decode<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, RpcError> {
    serde_json::from_str(params.map_or("{}", RawValue::get))
        .map_err(|error| RpcError::new(codes::INVALID_PARAMS, error.to_string()))
}

fn encode(value: &impl serde::Serialize) -> Result<Box<RawValue>, RpcError> {
    raw(value).map_err(|error| failed(ErrorCode::Internal, &error.to_string()))
}

fn failed(code: ErrorCode, message: &str) -> RpcError {
    let data: Value = json!({ "code": code });
    RpcError { data: Some(data), ..RpcError::new(codes::REQUEST_FAILED, message) }
}
