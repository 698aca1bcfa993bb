//! One command at the owner's side: its greeting, what it asks for, and its end.
//!
//! A connection is one command. Its permission holds for it alone; when it goes, what it asked for is
//! cancelled. Work is done in tasks that nobody drops: a command that goes away in the middle leaves
//! nothing half done.

use std::any::Any;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::{Envelope, EventSink};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::Stream;
use wire::{Framing, Handler, IncomingRequest, Peer, PeerOptions, RpcError, codes, raw};
use workspace::{Answer, Approver, Choice, Chosen, ErrorCode, Homes, Nobody, Owner, Question};

use super::protocol::{
    Answered, Asked, Call, Cancel, Choosing, ChosenThere, Documents, Hello, OpenDocument, Outcome, PROTOCOL,
    Reply, Request, TakeBack, Welcome, methods,
};
use super::serve::{Lent, Served};
use crate::worker::{Stop, Worker};

/// How long a person may think.
const THINK: Duration = Duration::from_secs(24 * 60 * 60);
/// How long what was cancelled may take to end, and its answer to be fetched.
const END: Duration = Duration::from_secs(2);

/// What every connection of an owner shares.
pub struct Host {
    /// What it serves.
    pub served: Arc<dyn Served>,
    /// Our folders.
    pub homes: Homes,
    /// The editor, as it calls itself.
    pub editor: String,
}

/// Serves one command until it goes, or until `stop`.
pub async fn serve(host: Arc<Host>, stream: Stream, stop: CancellationToken) {
    let process = stream.process();
    let (tasks, jobs) = (TaskTracker::new(), TaskTracker::new());
    // Cancelled by `stop`, by the command, and by its end.
    let (cancel, gone) = (stop.child_token(), CancellationToken::new());
    let connection = Arc::new(Connection {
        host,
        cancel: cancel.clone(),
        gone: gone.clone(),
        jobs: jobs.clone(),
        hello: OnceLock::new(),
        worker: OnceCell::new(),
    });
    let options = PeerOptions { framing: Framing::Line, ..PeerOptions::new(format!("command {process:?}")) };
    let (reader, writer) = stream.split();
    let peer = Peer::spawn(reader, writer, Arc::new(Incoming(Arc::clone(&connection))), options, &tasks);
    tokio::select! {
        // Neither is lost: both are states that stay.
        _ = peer.closed() => {}
        () = stop.cancelled() => {}
    }
    if !cancel.is_cancelled() {
        gone.cancel();
    }
    cancel.cancel();
    jobs.close();
    if tokio::time::timeout(END, jobs.wait()).await.is_err() {
        tracing::warn!(process, "what a command asked for does not end; it is left behind");
    }
    // It hangs up when it has its answer.
    tokio::time::timeout(END, peer.closed()).await.ok();
    peer.close("the editor's Pilcrow ends");
    if let Some(guest) = connection.worker.get() {
        guest.worker.leave().await;
    }
    tasks.close();
    tasks.wait().await;
}

struct Connection {
    host: Arc<Host>,
    cancel: CancellationToken,
    /// Before that, when the command went away with nothing said, or says that its terminal did.
    gone: CancellationToken,
    jobs: TaskTracker,
    hello: OnceLock<Hello>,
    worker: OnceCell<Guest>,
}

/// The command's worker, and what keeps its project open.
struct Guest {
    worker: Worker,
    _keeps: Box<dyn Any + Send + Sync>,
}

struct Incoming(Arc<Connection>);

impl Handler for Incoming {
    fn notification(&self, _: &Peer, method: &str, params: Option<&RawValue>) {
        if method == methods::CANCEL {
            if decode::<Cancel>(params).is_ok_and(|how| how.gone) && !self.0.cancel.is_cancelled() {
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
                let call: Call = decode(params)?;
                encode(&outcome(self.worker(peer).await?.call(call, &self.cancel).await))
            }
            methods::TAKE_BACK => {
                let what: TakeBack = decode(params)?;
                encode(&outcome(self.worker(peer).await?.take_back(what, &self.cancel).await))
            }
            methods::RUN => self.run(peer, decode(params)?).await,
            _ => Err(RpcError::method_not_found(&method)),
        }
    }

    fn welcome(&self, hello: Hello) -> Result<Welcome, RpcError> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        if hello.protocol < PROTOCOL {
            let text = format!(
                "this Pilcrow {version} does not speak protocol {} of Pilcrow {} any more",
                hello.protocol, hello.version
            );
            return Err(failed(ErrorCode::Unsupported, &text));
        }
        if self.hello.set(hello).is_err() {
            return Err(failed(ErrorCode::WrongState, "hello was said before"));
        }
        let name = self.host.editor.clone();
        // A newer command may still speak what we speak; it decides.
        Ok(Welcome { protocol: PROTOCOL, version, name, pid: std::process::id() })
    }

    fn greeted(&self) -> Result<&Hello, RpcError> {
        self.hello.get().ok_or_else(|| failed(ErrorCode::WrongState, "say hello first"))
    }

    fn documents(&self) -> Documents {
        let open = self.host.served.documents();
        let documents = open.into_iter().map(|document| OpenDocument {
            path: document.path.to_string(),
            dirty: document.owner == Owner::Editor { dirty: true },
        });
        Documents { documents: documents.collect() }
    }

    /// Made when it is first needed: most that ask what is open ask nothing else.
    async fn worker(&self, peer: &Peer) -> Result<&Worker, RpcError> {
        let hello = self.greeted()?;
        let make = || async {
            let approver: Arc<dyn Approver> =
                if hello.asks { Arc::new(Remote { peer: peer.clone() }) } else { Arc::new(Nobody) };
            let Host { served, homes, .. } = &*self.host;
            let Lent { project, keeps } = served.project().await?;
            let worker = Worker::guest(project, homes, hello.yes, hello.keep, approver)?;
            anyhow::Ok(Guest { worker, _keeps: keeps })
        };
        let guest = self.worker.get_or_try_init(make).await;
        guest.map(|guest| &guest.worker).map_err(|error| failed(ErrorCode::IoError, &format!("{error:#}")))
    }

    async fn run(&self, peer: &Peer, request: Request) -> Result<Box<RawValue>, RpcError> {
        let worker = self.worker(peer).await?;
        let person_file = self.host.homes.config.join("config.toml").to_string();
        // Not bounded but by what one run tells: a command that is slow to print must not lose events.
        let (sender, mut events) = mpsc::unbounded_channel();
        let to = peer.clone();
        let tell = self.jobs.spawn(async move {
            while let Some(event) = events.recv().await {
                if to.notify(methods::EVENT, &event).await.is_err() {
                    return;
                }
            }
        });
        let stop = Stop { cancel: &self.cancel, gone: &self.gone };
        let ran = worker.run(request, &person_file, Arc::new(Events(sender)), stop).await;
        // All events stand before the answer.
        if let Err(error) = tell.await {
            tracing::error!(%error, "events were not told to the end");
        }
        encode(&ran.map_err(|error| failed(ErrorCode::IoError, &format!("{error:#}")))?)
    }
}

/// Passes events on as they are.
struct Events(mpsc::UnboundedSender<Envelope>);

impl EventSink for Events {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        // Err means that the command is gone, and with it the run.
        self.0.send(envelope.clone()).ok();
        Box::pin(std::future::ready(()))
    }
}

/// Asks the person at the command's terminal.
struct Remote {
    peer: Peer,
}

impl Approver for Remote {
    fn ask<'a>(&'a self, question: Question, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let asked = Asked::from(question);
            let answer = match self.peer.request(methods::ASK, &asked, THINK, cancel).await {
                Ok(answer) => {
                    serde_json::from_str::<Answered>(answer.get()).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            answer.map_or_else(
                |error| {
                    tracing::debug!(error, "a question was not answered");
                    if cancel.is_cancelled() { Answer::No { text: String::new() } } else { Answer::Nobody }
                },
                Answer::from,
            )
        })
    }

    fn choose<'a>(&'a self, choice: Choice, cancel: &'a CancellationToken) -> BoxFuture<'a, Chosen> {
        Box::pin(async move {
            let asked = self.peer.request(methods::CHOOSE, &Choosing::from(choice), THINK, cancel).await;
            let chosen = asked.map_err(|error| error.to_string()).and_then(|answer| {
                serde_json::from_str::<ChosenThere>(answer.get()).map_err(|error| error.to_string())
            });
            chosen.map_or_else(
                |error| {
                    tracing::debug!(error, "a question was not answered");
                    if cancel.is_cancelled() { Chosen::Dismissed } else { Chosen::Nobody }
                },
                Chosen::from,
            )
        })
    }
}

fn outcome(reply: Reply<agent::ToolResult>) -> Reply<Outcome> {
    match reply {
        Reply::Done(result) => Reply::Done(result.into()),
        Reply::Usage(text) => Reply::Usage(text),
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
