//! Sessions that the user's editor owns; the agent observes them through the editor.
//!
//! There is no stream to the adapter. The editor reports its messages in order
//! ([`ExternalSession::handle_message`]) and forwards the agent's requests ([`ExternalAdapter`]). A
//! hub in between merges breakpoints and gives the user control.
//!
//! Invariants: observing starts, sets and ends nothing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use paths::AbsPath;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use shell::CommandLine;
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wire::Frame;

use crate::client::frames;
use crate::debuggee::Breakpoints;
use crate::hub::{ClientId, Envelope, HubHandle, Input, Kind};
use crate::launch::LaunchPlan;
use crate::session::{Clock, Session};
use crate::sessions::Sessions;
use crate::sessions::reverse::DenySpawns;
use crate::transport::Connection;
use adapters::DebuggerDefinition;

/// Size of the pipe between the hub and the relay, in bytes.
const PIPE: usize = 64 * 1024;
/// Time from the start of a session until its adapter accepts breakpoints.
///
/// The editor may build the program first.
const BEGIN: std::time::Duration = std::time::Duration::from_secs(600);

/// Sends requests to the adapter of an external session, through the editor.
pub trait ExternalAdapter: Send + Sync + 'static {
    /// Returns the body of the adapter's answer, or the reason why there is none.
    fn request(&self, command: &str, arguments: Value) -> BoxFuture<'static, Result<Value, String>>;
}

/// A session that an editor started.
#[derive(Debug, Clone)]
pub struct ExternalStart {
    pub title: String,
    /// The `type` of its configuration, which names the adapter.
    pub kind: String,
    pub root: AbsPath,
}

/// A debug session that the user's editor owns.
///
/// Dropping it ends the observation.
pub struct ExternalSession {
    session: Arc<Session>,
    hub: HubHandle,
    client: ClientId,
    capabilities: watch::Sender<Option<Value>>,
    _end: DropGuard,
}

impl Sessions {
    /// Observes a session that the editor has just started.
    ///
    /// It is a child of `parent` if its adapter requested it. Does not wait for its adapter.
    pub async fn open_external(
        &self,
        started: &ExternalStart,
        parent: Option<&Session>,
        editor: Arc<dyn ExternalAdapter>,
    ) -> ExternalSession {
        let (ours, hubs) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(hubs);
        let connection = Connection {
            reader: Box::new(reader),
            writer: Box::new(writer),
            process: None,
            address: None,
            stdout: None,
            protected: None,
        };
        let command = CommandLine {
            program: "the editor".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: started.root.clone(),
        };
        let known = self.definitions().of_type(&started.kind).cloned();
        let plan = LaunchPlan {
            entry: None,
            adapter: known.unwrap_or_else(|| Arc::new(DebuggerDefinition::unknown(&started.kind))),
            command,
            root: started.root.clone(),
            request: "attach",
            arguments: json!({}),
            title: started.title.clone(),
            program: None,
            breakpoints: Breakpoints::default(),
            user_breakpoints: Vec::new(),
            external: true,
            connect: None,
        };
        let session = self.register(&plan, connection, None, Arc::new(DenySpawns), parent);
        let hub = session.hub().clone();
        let client = hub.join_external().await;
        let (capabilities, reported) = watch::channel(None);
        let end = CancellationToken::new();
        let relay = Relay {
            hub: hub.clone(),
            editor,
            capabilities: reported,
            end: end.clone(),
            tracker: self.tracker().clone(),
        };
        self.tracker().spawn(relay.run(ours));
        let (observed, clock) = (Arc::clone(&session), Clock::new(BEGIN, &end));
        self.tracker().spawn(async move {
            if let Err(error) = observed.handshake(&plan, &clock).await {
                tracing::debug!(session = observed.id, %error, "an external session did not start");
                observed.fail_start(&error.to_string());
            }
        });
        ExternalSession { session, hub, client, capabilities, _end: end.drop_guard() }
    }
}

impl ExternalSession {
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Handles a message between editor and adapter.
    ///
    /// The message is an event, or a request of the editor or its answer, but no request of
    /// [`ExternalAdapter`]. Waits for room.
    pub async fn handle_message(&self, message: &RawValue) {
        let message = match Envelope::parse(message.get().as_bytes()) {
            Ok(message) => message,
            Err(malformed) => return tracing::debug!(session = self.session.id, "skipped {malformed}"),
        };
        let (kind, name) = (message.kind, message.name.as_str());
        match (kind, name) {
            (Kind::Event, _) => return self.hub.handle(Input::Adapter(message)).await,
            // The editor answers the adapter's requests.
            (_, "runInTerminal" | "startDebugging") => {}
            (Kind::Request, "initialize") => {
                let about = message.content();
                let differs = about["linesStartAt1"] == false
                    || about["columnsStartAt1"] == false
                    || about["pathFormat"].as_str().is_some_and(|it| it != "path");
                if differs {
                    self.session.fail("the editor uses other line, column or file conventions");
                }
            }
            (Kind::Response, "initialize") if message.success() => {
                let mut capabilities = message.content();
                // The editor numbers its requests differently.
                capabilities["supportsCancelRequest"] = json!(false);
                self.capabilities.send_replace(Some(capabilities));
            }
            _ => self.hub.handle(Input::ExternalMessage { client: self.client, message }).await,
        }
    }
}

/// Forwards the agent's requests to the editor.
struct Relay {
    hub: HubHandle,
    editor: Arc<dyn ExternalAdapter>,
    capabilities: watch::Receiver<Option<Value>>,
    end: CancellationToken,
    tracker: TaskTracker,
}

impl Relay {
    /// Forwards requests until the session ends or the editor reports the end.
    ///
    /// Its end closes the stream.
    async fn run(self, stream: DuplexStream) {
        let (reader, _writer) = tokio::io::split(stream);
        let mut frames = frames(reader);
        loop {
            let frame = tokio::select! {
                // The session has ended and needs no input.
                () = self.end.cancelled() => return,
                () = self.hub.closed() => return,
                frame = frames.next() => frame,
            };
            let Some(Ok(frame)) = frame else { return };
            let Frame::Body(body) = frame else { continue };
            match Envelope::parse(&body) {
                Ok(message) if message.kind == Kind::Request => self.answer(message),
                Ok(message) => tracing::trace!(message.name, "not forwarded to the editor"),
                Err(malformed) => tracing::warn!("the hub wrote {malformed}"),
            }
        }
    }

    fn answer(&self, message: Envelope) {
        let (hub, editor, mut reported) =
            (self.hub.clone(), Arc::clone(&self.editor), self.capabilities.clone());
        let end = self.end.clone();
        self.tracker.spawn(async move {
            let (command, arguments) = (message.name.clone(), message.content());
            let ask = async {
                match command.as_str() {
                    "initialize" => {
                        let capabilities = reported.wait_for(Option::is_some).await;
                        capabilities
                            .map(|it| it.clone().unwrap_or_default())
                            .map_err(|_| "the session has ended".to_owned())
                    }
                    "attach" | "configurationDone" | "cancel" => Ok(Value::Null),
                    // Leaving an external session ends nothing.
                    "disconnect" if arguments["terminateDebuggee"] != true => Ok(Value::Null),
                    _ => editor.request(&command, arguments).await,
                }
            };
            let outcome = tokio::select! {
                // The hub refuses all waiting requests.
                () = end.cancelled() => return,
                () = hub.closed() => return,
                outcome = ask => outcome,
            };
            let mut answer = match outcome {
                Ok(body) => Envelope::answer(&command, body),
                Err(why) => Envelope::refusal(&command, "refused", &why),
            };
            if let Some(seq) = message.raw("seq") {
                answer.set_raw("request_seq", seq.to_owned());
            }
            hub.handle(Input::Adapter(answer)).await;
        });
    }
}
