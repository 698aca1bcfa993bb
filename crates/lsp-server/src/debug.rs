//! Debug sessions that plugins list, and join without a pipe.
//!
//! A channel is one client of a session's hub. It carries requests of the Debug Adapter Protocol, and
//! events as notifications. It ends with the connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use host::debug_sessions;
use host::debug_sessions::{Client, Found, Handler, RequestError};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Peer, RpcError, codes};

use super::editor_debug::REQUEST_DEADLINE;
use super::{Connection, editor_debug};

/// Maximum number of open channels of one client.
const MAX_CHANNELS: usize = 64;

/// The channels of one connection.
#[derive(Default)]
pub struct Channels {
    open: Mutex<BTreeMap<u64, Client>>,
    next: AtomicU64,
    tracker: TaskTracker,
}

/// Whether [`request`] handles `method`.
pub(crate) fn is_debug_method(method: &str) -> bool {
    method.starts_with("pilcrow/debug/")
}

/// Handles a request of a plugin.
///
/// # Errors
/// `InvalidParams` for missing parameters, `RequestFailed` with the session's message.
pub async fn request(connection: &Arc<Connection>, method: &str, params: Value) -> Result<Value, RpcError> {
    match method {
        "pilcrow/debug/sessions" => {
            let sessions = sessions(connection).await;
            let sessions = sessions.iter().filter(|session| !session.is_alias());
            let sessions: Vec<Value> = sessions.map(Found::about).collect();
            Ok(json!({ "sessions": sessions }))
        }
        "pilcrow/debug/open" => open(connection, &params).await,
        "pilcrow/debug/request" => {
            let client = connection.channels.find(&params)?;
            let command = params["command"].as_str().ok_or_else(|| invalid("`command` is missing"))?;
            let answer = client
                .request(command, params["arguments"].clone(), REQUEST_DEADLINE, &connection.ending)
                .await;
            match answer {
                Ok(body) => Ok(json!({ "body": read(&body) })),
                Err(RequestError::Refused { error, .. }) => {
                    Err(RpcError::new(codes::REQUEST_FAILED, error.message))
                }
                Err(error) => Err(RpcError::new(codes::REQUEST_FAILED, error.to_string())),
            }
        }
        "pilcrow/debug/close" => {
            connection.channels.find(&params)?.close("the plugin closed it");
            Ok(Value::Null)
        }
        _ => Err(RpcError::method_not_found(method)),
    }
}

/// Returns control of a session, or of all, to the agent.
///
/// Returns the names of those sessions.
pub async fn hand_back(connection: &Connection, session: Option<&str>) -> Value {
    let mut handed = Vec::new();
    for found in sessions(connection).await {
        if session.is_none() && found.is_alias() {
            continue;
        }
        if session.is_none_or(|id| found.announced.session == id || found.id() == id) {
            match debug_sessions::hand_back(&found.announced).await {
                Ok(()) => handed.push(found.id()),
                Err(error) => tracing::debug!(session = found.id(), "cannot return control: {error}"),
            }
        }
    }
    let process = std::process::id();
    let own = session.and_then(|id| id.strip_suffix(&format!("@{process}"))).or(session);
    let external = editor_debug::hand_back(connection, own).await;
    handed.extend(external.into_iter().map(|id| format!("{id}@{process}")));
    json!({ "handedBack": handed })
}

/// Lists the debug sessions of all open folders.
async fn sessions(connection: &Connection) -> Vec<Found> {
    let mut all = Vec::new();
    for folder in connection.projects.folders() {
        match debug_sessions::find(&connection.homes, &folder).await {
            Ok(found) => all.extend(found),
            Err(error) => tracing::warn!("cannot list debug sessions in {folder}: {error:#}"),
        }
    }
    all
}

async fn open(connection: &Arc<Connection>, params: &Value) -> Result<Value, RpcError> {
    let session = params["session"].as_str().ok_or_else(|| invalid("`session` is missing"))?;
    let found = sessions(connection).await;
    let announced = debug_sessions::choose(&found, session).map_err(invalid)?;
    let channels = &connection.channels;
    if channels.lock().len() >= MAX_CHANNELS {
        return Err(invalid(format!("{MAX_CHANNELS} sessions are open; close one first")));
    }
    let channel = channels.next.fetch_add(1, Ordering::Relaxed) + 1;
    let forward =
        Arc::new(Forward { peer: connection.peer.clone(), channel, ending: connection.ending.clone() });
    let client = debug_sessions::connect(&announced, forward, &channels.tracker).await;
    let client = client.map_err(|error| RpcError::new(codes::REQUEST_FAILED, error.to_string()))?;
    channels.lock().insert(channel, client.clone());
    let (owner, ending) = (Arc::clone(connection), connection.ending.clone());
    connection.tracker.spawn(async move {
        let why = tokio::select! {
            // Both futures are cancel safe.
            why = client.closed() => why,
            () = ending.cancelled() => "the server ends".to_owned(),
        };
        client.close(&why);
        owner.channels.lock().remove(&channel);
        let params = json!({ "channel": channel, "why": why });
        if let Err(closed) = owner.peer.notify("pilcrow/debug/closed", &params).await {
            tracing::trace!(%closed, "the client disconnected");
        }
    });
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let session = format!("{}@{}", announced.session, announced.process);
    Ok(json!({
        "session": session,
        "channel": channel,
        "pipe": announced.path.to_string(),
        "command": [program, "dap", "--session", session],
    }))
}

impl Channels {
    fn find(&self, params: &Value) -> Result<Client, RpcError> {
        let channel = params["channel"].as_u64().ok_or_else(|| invalid("`channel` is missing"))?;
        let found = self.lock().get(&channel).cloned();
        found.ok_or_else(|| {
            invalid(format!("channel {channel} is not open; open one with `pilcrow/debug/open`"))
        })
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, BTreeMap<u64, Client>> {
        self.open.lock()
    }
}

/// Forwards the events and requests of a session.
struct Forward {
    peer: Peer,
    channel: u64,
    ending: CancellationToken,
}

impl Handler for Forward {
    fn event(&self, event: &str, body: Option<&RawValue>) {
        let params = json!({ "channel": self.channel, "event": event, "body": body.map(read) });
        // A full queue drops the event; the session's hub counts its own dropped events.
        if let Err(error) = self.peer.try_notify("pilcrow/debug/event", &params) {
            tracing::debug!(%error, event, "an event was not sent");
        }
    }

    fn request(
        &self,
        command: &str,
        arguments: Option<&RawValue>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        let params = json!({ "channel": self.channel, "command": command, "arguments": arguments.map(read) });
        let (peer, ending) = (self.peer.clone(), self.ending.clone());
        Box::pin(async move {
            let answer = peer.request("pilcrow/debug/request", &params, REQUEST_DEADLINE, &ending).await;
            answer.map(|body| read(&body)).map_err(|error| error.to_string())
        })
    }
}

fn read(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, message)
}
