//! Pilcrow as a language server: `pilcrow lsp`, on standard input and output.
//!
//! Stands on `wire`, which is ordered by construction: what the editor tells takes effect before any
//! later message is looked at, requests are answered from memory or by tasks of their own, and
//! nothing that hangs holds up a change or a cancellation. What must stay true: the editor's text is
//! the truth for an open file, and an edit is proven to have landed before anything says so; a panic
//! ends the request it happened in; when the editor goes, all that was started goes within 5 s.

mod actions;
mod approver;

mod commands;
mod comments;
mod debug;
mod editor_debug;
mod frontend;
mod initialize;
mod late_edits;
mod messages;
mod progress;
mod projects;
mod request_line;
mod runs;
mod sink;
mod stdio;

mod transcript;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::deadlines;
use approver::EditorApprover;
use commands::Executed;
use comments::Comments;
use editor_sync::apply_edit::EditorPort;
use editor_sync::buffers::{Open, OpenDocuments};
use editor_sync::editors::ClientFacts;
use editor_sync::filtered_editor::Veil;
use futures_util::future::{BoxFuture, ready};
use host::project::BuiltInServers;
use host::{Announcer, Outcome};
use initialize::Client;
use messages::Kind;
use paths::{AbsPath, Homes};
use policy::Approver;
use projects::{Approvers, Projects, ProjectsOptions};
use runs::Runs;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Handler, IncomingRequest, Peer, PeerOptions, RpcError, codes};
use workspace::Editor;

pub use messages::ClientLog;

/// How long the client has for small requests of ours.
const SMALL: Duration = Duration::from_secs(5);
/// Requests that wait beside each other; more are refused.
const MAX_WAITING: usize = 256;

/// `InvalidRequest` of JSON-RPC 2.0 §5.1.
const INVALID_REQUEST: i64 = -32600;

/// Everything about one connected editor.
pub struct Connection {
    peer: Peer,
    client: Arc<Client>,
    documents: Arc<OpenDocuments>,
    port: Arc<EditorPort>,
    veil: Arc<Veil>,
    projects: Arc<Projects>,
    runs: Runs,
    comments: Comments,
    channels: debug::Channels,
    theirs: editor_debug::TheirSessions,
    homes: Homes,
    /// One of the person's agents that works here.
    agent: Option<String>,
    /// The languages that have servers, without projects' own definitions.
    servers: BuiltInServers,
    /// Fires when the server ends.
    ending: CancellationToken,
    tracker: TaskTracker,
}

/// What a language server is started with.
pub struct Options {
    pub homes: Homes,
    /// Shows lines of the log in the editor, once it is connected.
    pub log: Arc<ClientLog>,
    /// The agent whose profile sessions use, by name.
    pub agent: Option<String>,
    /// Makes the editor's projects reachable for commands in other processes.
    pub announcer: Arc<dyn Announcer>,
}

/// Serves the client on standard input and output until it exits, or `stopped` fires.
///
/// # Errors
/// When our own folders or threads cannot be had.
pub async fn serve(options: Options, stopped: CancellationToken) -> anyhow::Result<Outcome> {
    let Options { homes, log, agent, announcer } = options;
    let (input, output, written) = stdio::open()?;
    let tracker = TaskTracker::new();
    let front = Arc::new(Front {
        homes,
        agent,
        announcer,
        log,
        connection: OnceLock::new(),
        shut_down: AtomicBool::new(false),
        exit: CancellationToken::new(),
        ending: CancellationToken::new(),
        tracker: tracker.clone(),
    });
    let options = PeerOptions { incoming: MAX_WAITING, ..PeerOptions::new("editor") };
    let peer = Peer::spawn(input, output, Arc::<Front>::clone(&front), options, &tracker);
    tokio::select! {
        // Each says only that it is over; nothing is lost with the others.
        closed = peer.closed() => tracing::debug!(%closed, "the editor is gone"),
        () = front.exit.cancelled() => {}
        () = stopped.cancelled() => tracing::debug!("ended by a signal"),
    }
    let asked = front.exit.is_cancelled() && front.shut_down.load(Ordering::Acquire);
    end_in_time()?;
    front.end().await;
    peer.flush().await;
    peer.close("the server ends");
    tokio::task::spawn_blocking(move || written.wait(deadlines::OUTPUT)).await?;
    // LSP 3.17 §exit: 0 only when `shutdown` came before.
    Ok(if asked { Outcome::Done } else { Outcome::Failed })
}

/// From now on the process has a few seconds left, whatever else hangs.
fn end_in_time() -> std::io::Result<()> {
    let (never, waits) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        let _never = never;
        if waits.recv_timeout(deadlines::PROCESS).is_err() {
            std::process::exit(1);
        }
    })?;
    Ok(())
}

/// Takes what the editor sends.
struct Front {
    homes: Homes,
    agent: Option<String>,
    announcer: Arc<dyn Announcer>,
    log: Arc<ClientLog>,
    /// From `initialize` on.
    connection: OnceLock<Arc<Connection>>,
    shut_down: AtomicBool,
    /// The server is to end.
    exit: CancellationToken,
    ending: CancellationToken,
    tracker: TaskTracker,
}

impl Handler for Front {
    fn notification(&self, peer: &Peer, method: &str, params: Option<&RawValue>) {
        if method == "exit" {
            return self.exit.cancel();
        }
        let Some(connection) = self.connection.get() else {
            return tracing::debug!(method, "before initialize");
        };
        // First of all: nothing may be looked at before the text is as the editor has it.
        if connection.documents.notification(method, params) {
            return;
        }
        if method == "pilcrow/debug/event" {
            return editor_debug::told(connection, params);
        }
        let params =
            || params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok()).unwrap_or_default();
        match method {
            "initialized" => {
                self.log.begin(peer);
                connection.tracker.spawn(begin(Arc::clone(connection)));
            }
            "workspace/didChangeConfiguration" => {
                let settings = params()["settings"]["pilcrow"].take();
                connection.tracker.spawn(configure(Arc::clone(connection), Some(settings)));
            }
            "workspace/didChangeWorkspaceFolders" => {
                let event = params()["event"].take();
                let (added, removed) =
                    (initialize::named(&event["added"]), initialize::named(&event["removed"]));
                connection.projects.change_folders(&added, &removed);
                connection.documents.set_folder(connection.projects.first_folder());
            }
            "window/workDoneProgress/cancel" => {
                if let Some(token) = params()["token"].as_str() {
                    connection.runs.stop_by(token, &connection.port);
                }
            }
            // What else there is concerns nobody here, and unknown ones are to be ignored.
            _ => tracing::trace!(method, "ignored"),
        }
    }

    fn request(
        &self,
        peer: &Peer,
        request: IncomingRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let IncomingRequest { method, params, .. } = request;
        if method == "initialize" {
            return answer(self.initialize(peer, params.as_deref()));
        }
        let Some(connection) = self.connection.get() else {
            return answer(Err(RpcError::new(codes::SERVER_NOT_INITIALIZED, "initialize comes first")));
        };
        if self.shut_down.load(Ordering::Acquire) {
            return answer(Err(RpcError::new(INVALID_REQUEST, "the server was shut down")));
        }
        let read = || {
            params
                .as_ref()
                .and_then(|params| serde_json::from_str::<Value>(params.get()).ok())
                .unwrap_or_default()
        };
        match method.as_str() {
            "shutdown" => {
                self.shut_down.store(true, Ordering::Release);
                let connection = Arc::clone(connection);
                Box::pin(async move {
                    connection.runs.close(&connection.port);
                    raw(&Value::Null)
                })
            }
            "workspace/executeCommand" => match commands::execute(connection, params.as_deref()) {
                Ok(Executed::Done(value)) => answer(Ok(value)),
                Ok(Executed::HandBack(session)) => {
                    let connection = Arc::clone(connection);
                    Box::pin(async move { raw(&debug::hand_back(&connection, session.as_deref()).await) })
                }
                Ok(Executed::Sessions(near)) => {
                    let connection = Arc::clone(connection);
                    Box::pin(async move {
                        let listed = runs::conversations(&connection, near).await;
                        raw(&listed
                            .map_err(|error| RpcError::new(codes::REQUEST_FAILED, format!("{error:#}")))?)
                    })
                }
                Ok(Executed::Request(asked)) => {
                    let connection = Arc::clone(connection);
                    Box::pin(async move { raw(&commands::start_request(&connection, asked).await?) })
                }
                Err(error) => answer(Err(error)),
            },
            // The text is the one of this moment, whatever comes while the answer is made.
            "textDocument/codeAction" => {
                let (connection, params) = (Arc::clone(connection), read());
                let Some(open) = of_document(&connection, &params) else { return answer(Ok(json!([]))) };
                Box::pin(async move { raw(&actions::code_actions(&connection, &open, &params).await) })
            }
            "textDocument/codeLens" => {
                let connection = Arc::clone(connection);
                let Some(open) = of_document(&connection, &read()) else { return answer(Ok(json!([]))) };
                Box::pin(async move { raw(&actions::code_lenses(&connection, &open).await) })
            }
            method if debug::is_for_us(method) => {
                let (connection, method, params) = (Arc::clone(connection), method.to_owned(), read());
                Box::pin(async move { raw(&debug::request(&connection, &method, params).await?) })
            }
            #[cfg(debug_assertions)]
            "pilcrow/test/hang" => Box::pin(std::future::pending()),
            #[cfg(debug_assertions)]
            "pilcrow/test/panic" if read()["later"] == true => {
                Box::pin(async { panic!("as the test asked") })
            }
            #[cfg(debug_assertions)]
            "pilcrow/test/panic" => panic!("as the test asked"),
            #[cfg(debug_assertions)]
            "pilcrow/test/text" => {
                let open = read()["uri"].as_str().and_then(|uri| connection.documents.get(uri));
                answer(Ok(
                    open.map_or(Value::Null, |open| json!({ "text": &*open.text, "version": open.version }))
                ))
            }
            _ => answer(Err(RpcError::method_not_found(&method))),
        }
    }
}

/// The open document that a request is about.
fn of_document(connection: &Connection, params: &Value) -> Option<Open> {
    params["textDocument"]["uri"].as_str().and_then(|uri| connection.documents.get(uri))
}

impl Front {
    fn initialize(&self, peer: &Peer, params: Option<&RawValue>) -> Result<Value, RpcError> {
        let params: Value = params
            .and_then(|params| serde_json::from_str(params.get()).ok())
            .ok_or_else(|| RpcError::new(codes::INVALID_PARAMS, "initialize needs parameters"))?;
        let client = Arc::new(Client::read(&params));
        let documents = Arc::new(OpenDocuments::new(&client.facts));
        let port = EditorPort::new(peer.clone(), Arc::clone(&documents), client.facts.clone(), &self.tracker);
        let veil = Arc::new(Veil::new(Arc::<EditorPort>::clone(&port) as Arc<dyn Editor>));
        // What the editor trusts are its own folders.
        let approver = |trusted| -> Arc<dyn Approver> {
            Arc::new(EditorApprover::new(peer, &client, trusted, self.homes.state.clone()))
        };
        let projects = Arc::new(Projects::new(ProjectsOptions {
            homes: self.homes.clone(),
            editor: Arc::<Veil>::clone(&veil) as Arc<dyn Editor>,
            approvers: Approvers { inside: approver(client.trusted), outside: approver(None) },
            trusted: client.trusted == Some(true),
            name: client.facts.name.clone(),
            announcer: Arc::clone(&self.announcer),
            tracker: self.tracker.clone(),
            show: client.show_document.then(|| transcript::shows(peer, &veil)),
            events: client.events.then(|| peer.clone()),
        }));
        projects.change_folders(&client.folders, &[]);
        documents.set_folder(projects.first_folder());
        projects.set_initial_settings(client.settings.clone());
        let connection = Arc::new(Connection {
            peer: peer.clone(),
            client: Arc::clone(&client),
            documents,
            port,
            veil,
            projects,
            runs: Runs::default(),
            comments: Comments::default(),
            channels: debug::Channels::default(),
            theirs: editor_debug::TheirSessions::default(),
            homes: self.homes.clone(),
            agent: self.agent.clone(),
            servers: BuiltInServers::load(),
            ending: self.ending.clone(),
            tracker: self.tracker.clone(),
        });
        late_edits::heed(&connection);
        if self.connection.set(connection).is_err() {
            return Err(RpcError::new(INVALID_REQUEST, "initialize comes once"));
        }
        if let Some(id) = client.process_id {
            let (exit, ending) = (self.exit.clone(), self.ending.clone());
            self.tracker.spawn(async move {
                tokio::select! {
                    // Nothing is lost with either.
                    () = process::process_ended(id) => exit.cancel(),
                    () = ending.cancelled() => {}
                }
            });
        }
        let ClientFacts { name, version, position_encoding, document_changes, editor, .. } = &client.facts;
        let version = version.as_deref().unwrap_or_default();
        let (definition, about) = (&editor.name, &editor.about);
        tracing::debug!(name, version, definition, about, document_changes, ?position_encoding, "initialize");
        Ok(client.answer())
    }

    /// Ends all that was started.
    async fn end(&self) {
        if let Some(connection) = self.connection.get() {
            connection.runs.close(&connection.port);
            let ended = tokio::time::timeout(deadlines::RUN, connection.runs.all_ended());
            let (ended, ()) = tokio::join!(ended, connection.projects.withdraw(deadlines::RUN));
            if ended.is_err() {
                tracing::warn!("a run did not end in time");
            }
            connection.projects.close().await;
        }
        self.ending.cancel();
    }
}

impl Connection {
    /// What a comment begins with that is a request.
    fn markers(&self, path: Option<&AbsPath>) -> Vec<String> {
        let config = self.projects.config(path);
        config.map_or_else(
            || vec!["¶".to_owned(), "pilcrow:".to_owned()],
            |config| config.request_markers().to_vec(),
        )
    }

    /// A file as people know it.
    fn named(&self, path: &AbsPath) -> String {
        let root = self.projects.root_for(Some(path)).ok();
        let below = root.as_ref().and_then(|root| path.strip_prefix(root));
        below.map_or_else(|| path.to_string(), |below| below.display().to_string())
    }

    /// Whether something else than the planner answers.
    fn has_model(&self, path: Option<&AbsPath>) -> bool {
        let config = self.projects.config(path);
        config.is_some_and(|config| {
            host::models::is_set(&config, &self.homes.config.join("config.toml").to_string())
        })
    }

    /// Has the client ask for code lenses again.
    async fn refresh_lenses(&self) {
        let asked = self.peer.request("workspace/codeLens/refresh", &Value::Null, SMALL, &self.ending).await;
        if let Err(error) = asked {
            tracing::debug!(%error, "lenses stay as they are");
        }
    }
}

/// What comes after `initialized`.
async fn begin(connection: Arc<Connection>) {
    if connection.client.registers_configuration {
        let registration = json!({
            "id": "pilcrow-configuration",
            "method": "workspace/didChangeConfiguration",
            "registerOptions": { "section": "pilcrow" },
        });
        let params = json!({ "registrations": [registration] });
        let asked =
            connection.peer.request("client/registerCapability", &params, SMALL, &connection.ending).await;
        if let Err(error) = asked {
            tracing::debug!(%error, "changes of settings are not told");
        }
    }
    configure(connection, None).await;
}

/// Takes the editor's settings: as they were sent, else by asking.
async fn configure(connection: Arc<Connection>, sent: Option<Value>) {
    let mut settings = sent.unwrap_or_default();
    if !settings.is_object() && connection.client.configuration {
        let params = json!({ "items": [{ "section": "pilcrow" }] });
        let asked =
            connection.peer.request("workspace/configuration", &params, SMALL, &connection.ending).await;
        settings = match asked.map(|answer| serde_json::from_str::<Value>(answer.get())) {
            Ok(Ok(mut answer)) => answer[0].take(),
            Ok(Err(_)) => Value::Null,
            Err(error) => {
                tracing::debug!(%error, "the editor's settings are not known");
                Value::Null
            }
        };
    }
    let projects = Arc::clone(&connection.projects);
    let warnings =
        tokio::task::spawn_blocking(move || projects.set_settings(settings)).await.unwrap_or_default();
    for warning in warnings {
        tracing::debug!("{warning}");
        messages::show(&connection.peer, &connection.client.message_form(), Kind::Warning, &warning).await;
    }
    if connection.client.lens_refresh {
        connection.refresh_lenses().await;
    }
}

fn answer(result: Result<Value, RpcError>) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
    Box::pin(ready(result.and_then(|value| raw(&value))))
}

fn raw(value: &Value) -> Result<Box<RawValue>, RpcError> {
    wire::raw(value).map_err(|error| RpcError::new(codes::INTERNAL_ERROR, error.to_string()))
}
