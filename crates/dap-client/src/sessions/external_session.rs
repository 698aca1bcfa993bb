//! Sessions that the person's editor started and holds: the agent looks into them through the editor.
//!
//! There is no stream to the adapter. What passes between editor and adapter is told by the editor, in
//! order ([`ExternalSession::heard`]); what the agent asks goes through the editor ([`Ask`]). In between is the
//! hub, so that breakpoints have owners and control is the person's. What must stay true: nothing is
//! started, set or ended by looking on.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use paths::AbsPath;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shell::CommandLine;
use tokio::io::{AsyncRead, DuplexStream};
use tokio::sync::watch;
use tokio_util::codec::FramedRead;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wire::{Frame, Framing, Limits, MessageCodec};

use crate::debuggee::Breakpoints;
use crate::hub::{ClientId, Envelope, HubHandle, Input, Kind};
use crate::launch::LaunchPlan;
use crate::session::{Clock, Session};
use crate::sessions::Sessions;
use crate::sessions::reverse::NoRuns;
use crate::transport::Connection;
use adapters::DebuggerDefinition;

/// Between the hub and us.
const PIPE: usize = 64 * 1024;
/// How long an editor may take from the start of a session until its adapter takes breakpoints: it may
/// build the program first.
const BEGIN: std::time::Duration = std::time::Duration::from_secs(600);

/// How the editor is asked.
pub trait Ask: Send + Sync + 'static {
    /// Has the editor send a request to the adapter of its session; the answer's body, or why there is none.
    fn ask(&self, command: &str, arguments: Value) -> BoxFuture<'static, Result<Value, String>>;
}

/// What an editor says of a session that it started.
#[derive(Debug, Clone)]
pub struct ExternalStart {
    pub title: String,
    /// The `type` of its configuration, which names the adapter.
    pub kind: String,
    pub root: AbsPath,
}

/// A session of the editor's. Dropped, the agent looks on no more.
pub struct ExternalSession {
    session: Arc<Session>,
    edge: HubHandle,
    client: ClientId,
    capabilities: watch::Sender<Option<Value>>,
    _end: DropGuard,
}

impl Sessions {
    /// Looks into a session that the editor has just started, because the adapter of `parent` asked for it where one is
    /// given. Does not wait for its adapter.
    pub async fn look_into(
        &self,
        started: &ExternalStart,
        parent: Option<&Session>,
        editor: Arc<dyn Ask>,
    ) -> ExternalSession {
        let (ours, hubs) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(hubs);
        let connection = Connection {
            reader: Box::new(reader),
            writer: Box::new(writer),
            process: None,
            address: None,
            stdout: None,
        };
        let command = CommandLine {
            program: "the editor".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: started.root.clone(),
        };
        let known = self.definitions().of_type(&started.kind).cloned();
        let plan = LaunchPlan {
            adapter: known.unwrap_or_else(|| Arc::new(DebuggerDefinition::unknown(&started.kind))),
            command,
            root: started.root.clone(),
            request: "attach",
            arguments: json!({}),
            title: started.title.clone(),
            program: None,
            breakpoints: Breakpoints::default(),
            of_persons: Vec::new(),
            theirs: true,
            connect: None,
        };
        let session = self.enter(&plan, connection, None, Arc::new(NoRuns), parent);
        let edge = session.hub().clone();
        let client = edge.beside().await;
        let (capabilities, told) = watch::channel(None);
        let end = CancellationToken::new();
        let relay =
            Relay { edge: edge.clone(), editor, told, end: end.clone(), tracker: self.tracker().clone() };
        self.tracker().spawn(relay.run(ours));
        let (of, clock) = (Arc::clone(&session), Clock::new(BEGIN, &end));
        self.tracker().spawn(async move {
            if let Err(error) = of.handshake(&plan, &clock).await {
                tracing::debug!(session = of.id, %error, "a session of the editor's did not begin");
                of.not_begun(&error.to_string());
            }
        });
        ExternalSession { session, edge, client, capabilities, _end: end.drop_guard() }
    }
}

impl ExternalSession {
    /// The session, as the tools know it.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Takes a message that passed between editor and adapter, and not one of [`Ask`]: an event, a request
    /// of the editor, or the answer to one. Waits for room.
    pub async fn heard(&self, message: &RawValue) {
        let message = match Envelope::parse(message.get().as_bytes()) {
            Ok(message) => message,
            Err(malformed) => return tracing::debug!(session = self.session.id, "skipped {malformed}"),
        };
        let (kind, name) = (message.kind, message.name.as_str());
        match (kind, name) {
            (Kind::Event, _) => return self.edge.heard(Input::Adapter(message)).await,
            // What the adapter asks of the editor is the editor's.
            (_, "runInTerminal" | "startDebugging") => {}
            (Kind::Request, "initialize") => {
                let about = message.content();
                let differs = about["linesStartAt1"] == false
                    || about["columnsStartAt1"] == false
                    || about["pathFormat"].as_str().is_some_and(|it| it != "path");
                if differs {
                    self.session.give_up("the editor counts lines or columns, or names files, otherwise");
                }
            }
            (Kind::Response, "initialize") if message.success() => {
                let mut capabilities = message.content();
                // The numbers of its requests are not ours.
                capabilities["supportsCancelRequest"] = json!(false);
                self.capabilities.send_replace(Some(capabilities));
            }
            _ => self.edge.heard(Input::Overheard { client: self.client, message }).await,
        }
    }
}

/// Carries what the agent asks to the editor.
struct Relay {
    edge: HubHandle,
    editor: Arc<dyn Ask>,
    told: watch::Receiver<Option<Value>>,
    end: CancellationToken,
    tracker: TaskTracker,
}

impl Relay {
    /// Ends with the session or the editor's word, which closes the stream.
    async fn run(self, stream: DuplexStream) {
        let (reader, _writer) = tokio::io::split(stream);
        let mut frames = frames(reader);
        loop {
            let frame = tokio::select! {
                // Nothing is wanted of what would be read.
                () = self.end.cancelled() => return,
                () = self.edge.closed() => return,
                frame = frames.next() => frame,
            };
            let Some(Ok(frame)) = frame else { return };
            let Frame::Body(body) = frame else { continue };
            match Envelope::parse(&body) {
                Ok(message) if message.kind == Kind::Request => self.answer(message),
                Ok(message) => tracing::trace!(message.name, "not for the editor"),
                Err(malformed) => tracing::warn!("the hub wrote {malformed}"),
            }
        }
    }

    fn answer(&self, message: Envelope) {
        let (edge, editor, mut told) = (self.edge.clone(), Arc::clone(&self.editor), self.told.clone());
        let end = self.end.clone();
        self.tracker.spawn(async move {
            let (command, arguments) = (message.name.clone(), message.content());
            let ask = async {
                match command.as_str() {
                    "initialize" => {
                        let capabilities = told.wait_for(Option::is_some).await;
                        capabilities
                            .map(|it| it.clone().unwrap_or_default())
                            .map_err(|_| "it is over".to_owned())
                    }
                    "attach" | "configurationDone" | "cancel" => Ok(Value::Null),
                    // Leaving what is the editor's ends nothing.
                    "disconnect" if arguments["terminateDebuggee"] != true => Ok(Value::Null),
                    _ => editor.ask(&command, arguments).await,
                }
            };
            let outcome = tokio::select! {
                // The hub refuses all that wait.
                () = end.cancelled() => return,
                () = edge.closed() => return,
                outcome = ask => outcome,
            };
            let mut answer = match outcome {
                Ok(body) => Envelope::answer(&command, body),
                Err(why) => Envelope::refusal(&command, "refused", &why),
            };
            if let Some(seq) = message.raw("seq") {
                answer.set_raw("request_seq", seq.to_owned());
            }
            edge.heard(Input::Adapter(answer)).await;
        });
    }
}

fn frames<R: AsyncRead>(reader: R) -> FramedRead<R, MessageCodec> {
    FramedRead::with_capacity(reader, MessageCodec::new(Framing::ContentLength, Limits::default()), PIPE)
}
