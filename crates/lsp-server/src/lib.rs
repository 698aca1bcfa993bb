//! Pilcrow as a language server: `pilcrow lsp`, on standard input and output.
//!
//! `wire` delivers messages in order: a notification takes effect before the server handles a later
//! message. Requests are answered from memory or by their own tasks, so that a request that hangs does
//! not delay a change or a cancellation.
//!
//! Invariants: the editor's text is the truth for an open file; the server reports an edit as applied
//! only with proof; a panic ends only its request; when the editor disconnects, everything that the
//! server started ends within 5 s.

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
mod result_list;
mod review;
mod runs;
mod sessions;
mod sink;
mod stdio;
mod transcript;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::deadlines;
use approver::EditorApprover;
use comments::Comments;
use editor_sync::apply_edit::EditorPort;
use editor_sync::buffers::{EditorBuffers, OpenBuffer};
use editor_sync::editors::ClientFacts;
use editor_sync::filtered_editor::RequestLineFilter;
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

/// Deadline of small requests to the client.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum number of concurrent requests; more are refused.
const MAX_WAITING: usize = 256;

/// `InvalidRequest` of JSON-RPC 2.0 §5.1.
const INVALID_REQUEST: i64 = -32600;

/// The state of one connected editor.
pub struct Connection {
    peer: Peer,
    client: Arc<Client>,
    documents: Arc<EditorBuffers>,
    port: Arc<EditorPort>,
    filter: Arc<RequestLineFilter>,
    projects: Arc<Projects>,
    runs: Runs,
    sessions: sessions::Sessions,
    comments: Comments,
    channels: debug::Channels,
    review: Arc<review::EditorReview>,
    editor_sessions: editor_debug::EditorSessions,
    homes: Homes,
    /// The agent whose profile sessions use, by name.
    agent: Option<String>,
    /// The built-in language servers, without definitions of projects.
    servers: BuiltInServers,
    /// Fires when the server ends.
    ending: CancellationToken,
    tracker: TaskTracker,
}

/// Parts of the process that the language server uses.
pub struct Options {
    pub homes: Homes,
    /// Sends log lines to the editor once it is connected.
    pub log: Arc<ClientLog>,
    /// The agent whose profile sessions use, by name.
    pub agent: Option<String>,
    /// Announces the editor's projects to commands in other processes.
    pub announcer: Arc<dyn Announcer>,
}

/// Serves the client on standard input and output.
///
/// Returns when the client exits or `stopped` fires.
///
/// # Errors
/// When standard input and output or a thread cannot be opened.
pub async fn serve(options: Options, stopped: CancellationToken) -> anyhow::Result<Outcome> {
    let Options { homes, log, agent, announcer } = options;
    let (input, output, written) = stdio::open()?;
    let tracker = TaskTracker::new();
    let server = Arc::new(Server {
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
    let peer = Peer::spawn(input, output, Arc::<Server>::clone(&server), options, &tracker);
    tokio::select! {
        // All futures are cancel safe.
        closed = peer.closed() => tracing::debug!(%closed, "the editor disconnected"),
        () = server.exit.cancelled() => {}
        () = stopped.cancelled() => tracing::debug!("a signal ended the server"),
    }
    let clean = server.exit.is_cancelled() && server.shut_down.load(Ordering::Acquire);
    exit_after_deadline()?;
    server.end().await;
    peer.flush().await;
    peer.close("the server ends");
    tokio::task::spawn_blocking(move || written.wait(deadlines::OUTPUT)).await?;
    // The exit code is 0 only if `shutdown` came before (LSP 3.17 §exit).
    Ok(if clean { Outcome::Done } else { Outcome::Failed })
}

/// Starts a thread that exits the process after a deadline.
///
/// It works even if a task hangs.
fn exit_after_deadline() -> std::io::Result<()> {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    std::thread::Builder::new().name("end".to_owned()).spawn(move || {
        let _sender = sender;
        if receiver.recv_timeout(deadlines::PROCESS).is_err() {
            std::process::exit(1);
        }
    })?;
    Ok(())
}

/// Handles the editor's messages.
struct Server {
    homes: Homes,
    agent: Option<String>,
    announcer: Arc<dyn Announcer>,
    log: Arc<ClientLog>,
    /// The connected editor; empty until `initialize`.
    connection: OnceLock<Arc<Connection>>,
    shut_down: AtomicBool,
    /// Fires on `exit`.
    exit: CancellationToken,
    ending: CancellationToken,
    tracker: TaskTracker,
}

impl Handler for Server {
    fn notification(&self, peer: &Peer, method: &str, params: Option<&RawValue>) {
        if method == "exit" {
            return self.exit.cancel();
        }
        let Some(connection) = self.connection.get() else {
            return tracing::debug!(method, "ignored before `initialize`");
        };
        // Documents come first, because everything else reads the editor's text.
        if connection.documents.notification(method, params) {
            if method == "textDocument/didOpen" && connection.client.reviews {
                review::document_opened(connection, params);
            }
            return;
        }
        if method == "pilcrow/debug/event" {
            return editor_debug::handle_event(connection, params);
        }
        let params =
            || params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok()).unwrap_or_default();
        match method {
            "initialized" => {
                self.log.begin(peer);
                connection.tracker.spawn(begin(Arc::clone(connection)));
            }
            "workspace/didChangeConfiguration" => {
                let settings = params()["settings"]["pilcrow"].clone();
                connection.tracker.spawn(configure(Arc::clone(connection), Some(settings)));
            }
            "workspace/didChangeWorkspaceFolders" => {
                let event = params()["event"].clone();
                let (added, removed) =
                    (initialize::folder_paths(&event["added"]), initialize::folder_paths(&event["removed"]));
                connection.projects.change_folders(&added, &removed);
                connection.documents.set_folder(connection.projects.first_folder());
            }
            "window/workDoneProgress/cancel" => {
                if let Some(token) = params()["token"].as_str() {
                    connection.runs.stop_by_token(token, &connection.port);
                }
            }
            // LSP 3.17: servers ignore unknown notifications.
            _ => tracing::trace!(method, "ignored"),
        }
    }

    fn request(&self, peer: &Peer, request: IncomingRequest) -> Reply {
        let IncomingRequest { method, params, .. } = request;
        if method == "initialize" {
            return answer(self.initialize(peer, params.as_deref()));
        }
        let Some(connection) = self.connection.get() else {
            return answer(Err(RpcError::new(codes::SERVER_NOT_INITIALIZED, "send `initialize` first")));
        };
        if self.shut_down.load(Ordering::Acquire) {
            return answer(Err(RpcError::new(INVALID_REQUEST, "the server was shut down; send only `exit`")));
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
            "workspace/executeCommand" => {
                commands::execute(connection, params.as_deref()).unwrap_or_else(|error| answer(Err(error)))
            }
            "textDocument/codeAction" => {
                let (connection, params) = (Arc::clone(connection), read());
                let Some(open) = document_of(&connection, &params) else { return answer(Ok(json!([]))) };
                Box::pin(async move { raw(&actions::code_actions(&connection, &open, &params).await) })
            }
            "textDocument/codeLens" => {
                let connection = Arc::clone(connection);
                let Some(open) = document_of(&connection, &read()) else { return answer(Ok(json!([]))) };
                Box::pin(async move {
                    let mut lenses = actions::code_lenses(&connection, &open).await;
                    lenses.extend(review::lenses(&connection, &open).await);
                    raw(&Value::Array(lenses))
                })
            }
            method if debug::is_debug_method(method) => {
                let (connection, method, params) = (Arc::clone(connection), method.to_owned(), read());
                Box::pin(async move { raw(&debug::request(&connection, &method, params).await?) })
            }
            #[cfg(debug_assertions)]
            "pilcrow/test/hang" => Box::pin(std::future::pending()),
            #[cfg(debug_assertions)]
            "pilcrow/test/panic" if read()["later"] == true => {
                Box::pin(async { panic!("requested by the test") })
            }
            #[cfg(debug_assertions)]
            "pilcrow/test/panic" => panic!("requested by the test"),
            #[cfg(debug_assertions)]
            "pilcrow/test/text" => {
                let open = read()["uri"].as_str().and_then(|uri| connection.documents.get(uri));
                answer(Ok(
                    open.map_or(Value::Null, |open| json!({ "text": &*open.text, "version": open.version }))
                ))
            }
            method => sessions::request(connection, method, params.as_deref())
                .unwrap_or_else(|| answer(Err(RpcError::method_not_found(method)))),
        }
    }
}

/// The open document of a request.
fn document_of(connection: &Connection, params: &Value) -> Option<OpenBuffer> {
    params["textDocument"]["uri"].as_str().and_then(|uri| connection.documents.get(uri))
}

impl Server {
    fn initialize(&self, peer: &Peer, params: Option<&RawValue>) -> Result<Value, RpcError> {
        let params: Value = params
            .and_then(|params| serde_json::from_str(params.get()).ok())
            .ok_or_else(|| RpcError::new(codes::INVALID_PARAMS, "`initialize` needs parameters"))?;
        let client = Arc::new(Client::read(&params));
        let documents = Arc::new(EditorBuffers::new(&client.facts));
        let port = EditorPort::new(peer.clone(), Arc::clone(&documents), client.facts.clone(), &self.tracker);
        let filter = Arc::new(RequestLineFilter::new(Arc::<EditorPort>::clone(&port) as Arc<dyn Editor>));
        // The editor's trust covers its own folders only.
        let approver = |trusted| -> Arc<dyn Approver> {
            Arc::new(EditorApprover::new(peer, &client, trusted, self.homes.state.clone()))
        };
        let by_event = client.questions.then(|| -> Arc<dyn Approver> {
            let mut approver = EditorApprover::new(peer, &client, client.trusted, self.homes.state.clone());
            approver.by_event = true;
            Arc::new(approver)
        });
        let projects = Arc::new(Projects::new(ProjectsOptions {
            homes: self.homes.clone(),
            editor: Arc::<RequestLineFilter>::clone(&filter) as Arc<dyn Editor>,
            approvers: Approvers { inside: approver(client.trusted), outside: approver(None) },
            trusted: client.trusted == Some(true),
            name: client.facts.name.clone(),
            announcer: Arc::clone(&self.announcer),
            tracker: self.tracker.clone(),
            show: client.show_document.then(|| transcript::document_viewer(peer, &filter)),
            events: client.events.then(|| peer.clone()),
        }));
        projects.change_folders(&client.folders, &[]);
        documents.set_folder(projects.first_folder());
        projects.set_initial_settings(client.settings.clone());
        let review = Arc::new(review::EditorReview::new(client.reviews.then(|| peer.clone())));
        let connection = Arc::new(Connection {
            peer: peer.clone(),
            client: Arc::clone(&client),
            documents,
            port,
            filter,
            projects,
            runs: Runs::default(),
            sessions: sessions::Sessions::new(peer, self.agent.clone(), by_event, Arc::clone(&review)),
            comments: Comments::default(),
            channels: debug::Channels::default(),
            review,
            editor_sessions: editor_debug::EditorSessions::default(),
            homes: self.homes.clone(),
            agent: self.agent.clone(),
            servers: BuiltInServers::load(),
            ending: self.ending.clone(),
            tracker: self.tracker.clone(),
        });
        late_edits::subscribe(&connection);
        if self.connection.set(connection).is_err() {
            return Err(RpcError::new(INVALID_REQUEST, "`initialize` was already sent; send it once"));
        }
        if let Some(id) = client.process_id {
            let (exit, ending) = (self.exit.clone(), self.ending.clone());
            self.tracker.spawn(async move {
                tokio::select! {
                    // Both futures are cancel safe.
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

    /// Stops runs and closes projects.
    async fn end(&self) {
        if let Some(connection) = self.connection.get() {
            connection.runs.close(&connection.port);
            let ended = tokio::time::timeout(deadlines::RUN, connection.runs.all_ended());
            let (ended, (), ()) = tokio::join!(
                ended,
                connection.projects.withdraw(deadlines::RUN),
                connection.sessions.service.shut_down(deadlines::RUN)
            );
            if ended.is_err() {
                tracing::warn!("a run did not end in time");
            }
            connection.projects.close().await;
        }
        self.ending.cancel();
    }
}

impl Connection {
    /// Returns the markers at the start of request comments.
    fn markers(&self, path: Option<&AbsPath>) -> Vec<String> {
        let config = self.projects.config(path);
        config.map_or_else(
            || vec!["¶".to_owned(), "pilcrow:".to_owned()],
            |config| config.values.editor.request_markers.iter().map(|marker| marker.0.clone()).collect(),
        )
    }

    /// Returns the path of a file relative to its project, for messages.
    fn display_path(&self, path: &AbsPath) -> String {
        let root = self.projects.root_for(Some(path)).ok();
        let below = root.as_ref().and_then(|root| path.strip_prefix(root));
        below.map_or_else(|| path.to_string(), |below| below.display().to_string())
    }

    /// Whether a model is configured, rather than only the planner.
    fn has_model(&self, path: Option<&AbsPath>) -> bool {
        let config = self.projects.config(path);
        config.is_some_and(|config| {
            host::models::is_set(&config, &self.homes.config.join("config.toml").to_string())
        })
    }

    /// Asks the client to refresh code lenses.
    async fn refresh_lenses(&self) {
        let result = self
            .peer
            .request("workspace/codeLens/refresh", &Value::Null, REQUEST_DEADLINE, &self.ending)
            .await;
        if let Err(error) = result {
            tracing::debug!(%error, "code lenses are not refreshed");
        }
    }
}

/// Registers for settings and reads them, after `initialized`.
async fn begin(connection: Arc<Connection>) {
    if connection.client.registers_configuration {
        let registration = json!({
            "id": "pilcrow-configuration",
            "method": "workspace/didChangeConfiguration",
            "registerOptions": { "section": "pilcrow" },
        });
        let params = json!({ "registrations": [registration] });
        let result = connection
            .peer
            .request("client/registerCapability", &params, REQUEST_DEADLINE, &connection.ending)
            .await;
        if let Err(error) = result {
            tracing::debug!(%error, "cannot register for changes of settings");
        }
    }
    configure(connection, None).await;
}

/// Applies the editor's settings: those it sent, else those it returns on request.
async fn configure(connection: Arc<Connection>, sent: Option<Value>) {
    let mut settings = sent.unwrap_or_default();
    if !settings.is_object() && connection.client.configuration {
        let params = json!({ "items": [{ "section": "pilcrow" }] });
        let result = connection
            .peer
            .request("workspace/configuration", &params, REQUEST_DEADLINE, &connection.ending)
            .await;
        settings = match result.map(|answer| serde_json::from_str::<Value>(answer.get())) {
            Ok(Ok(mut answer)) => answer[0].take(),
            Ok(Err(_)) => Value::Null,
            Err(error) => {
                tracing::debug!(%error, "the editor did not send its settings");
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

/// The answer to a request, as the peer awaits it.
type Reply = BoxFuture<'static, Result<Box<RawValue>, RpcError>>;

fn answer(result: Result<Value, RpcError>) -> Reply {
    Box::pin(ready(result.and_then(|value| raw(&value))))
}

fn raw(value: &Value) -> Result<Box<RawValue>, RpcError> {
    wire::raw(value).map_err(|error| RpcError::new(codes::INTERNAL_ERROR, error.to_string()))
}
