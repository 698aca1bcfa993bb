//! Debug sessions for plugins: which there are, and one joined over this connection instead of a pipe.
//!
//! A channel is one client of a session's hub: what is asked over it is a request of the Debug Adapter
//! Protocol, and what the session tells comes as notifications. Ends with the connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use host::debug_sessions;
use host::debug_sessions::{Client, Found, Handler, RequestError};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::{Peer, RpcError, codes};

use super::{Connection, editor_debug};

/// A request may take as long as the program does; closing the channel ends it.
pub(super) const ANY: Duration = Duration::from_secs(24 * 60 * 60);
/// Channels that one client may have open.
const CHANNELS: usize = 64;

/// The channels of one connection.
#[derive(Default)]
pub struct Channels {
    open: Mutex<BTreeMap<u64, Client>>,
    next: AtomicU64,
    tracker: TaskTracker,
}

/// Whether `method` is for [`request`].
pub fn is_for_us(method: &str) -> bool {
    method.starts_with("pilcrow/debug/")
}

/// Carries a request of a plugin out.
///
/// # Errors
/// `InvalidParams` for what is not there, `RequestFailed` with the session's own words.
pub async fn request(connection: &Arc<Connection>, method: &str, params: Value) -> Result<Value, RpcError> {
    match method {
        "pilcrow/debug/sessions" => {
            let sessions = sessions(connection).await;
            let sessions = sessions.iter().filter(|it| !it.leads_on());
            let sessions: Vec<Value> = sessions.map(Found::about).collect();
            Ok(json!({ "sessions": sessions }))
        }
        "pilcrow/debug/open" => open(connection, &params).await,
        "pilcrow/debug/request" => {
            let client = connection.channels.find(&params)?;
            let command = params["command"].as_str().ok_or_else(|| invalid("`command` is missing"))?;
            let answer = client.request(command, params["arguments"].clone(), ANY, &connection.ending).await;
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

/// Gives control of the session, or of all, back to the agent; the names of those that took it.
pub async fn hand_back(connection: &Connection, session: Option<&str>) -> Value {
    let mut handed = Vec::new();
    for it in sessions(connection).await {
        if session.is_none() && it.leads_on() {
            continue;
        }
        if session.is_none_or(|wanted| it.announced.session == wanted || it.id() == wanted) {
            match debug_sessions::hand_back(&it.announced).await {
                Ok(()) => handed.push(it.id()),
                Err(why) => tracing::debug!(session = it.id(), "not handed back: {why}"),
            }
        }
    }
    let process = std::process::id();
    let own = session.and_then(|it| it.strip_suffix(&format!("@{process}"))).or(session);
    let theirs = editor_debug::hand_back(connection, own).await;
    handed.extend(theirs.into_iter().map(|id| format!("{id}@{process}")));
    json!({ "handedBack": handed })
}

/// The sessions of every folder that the editor has open.
async fn sessions(connection: &Connection) -> Vec<Found> {
    let mut all = Vec::new();
    for folder in connection.projects.folders() {
        match debug_sessions::find(&connection.homes, &folder).await {
            Ok(found) => all.extend(found),
            Err(error) => tracing::warn!("debug sessions in {folder} cannot be looked for: {error:#}"),
        }
    }
    all
}

async fn open(connection: &Arc<Connection>, params: &Value) -> Result<Value, RpcError> {
    let wanted = params["session"].as_str().ok_or_else(|| invalid("`session` is missing"))?;
    let found = sessions(connection).await;
    let announced = debug_sessions::choose(&found, wanted).map_err(invalid)?;
    let channels = &connection.channels;
    if channels.lock().len() >= CHANNELS {
        return Err(invalid(format!("{CHANNELS} sessions are open already; close one")));
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
            // Both are states that stay.
            why = client.closed() => why,
            () = ending.cancelled() => "the server ends".to_owned(),
        };
        client.close(&why);
        owner.channels.lock().remove(&channel);
        let params = json!({ "channel": channel, "why": why });
        if let Err(closed) = owner.peer.notify("pilcrow/debug/closed", &params).await {
            tracing::trace!(%closed, "nobody is there to be told");
        }
    });
    let program = std::env::current_exe().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
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
        found.ok_or_else(|| invalid(format!("channel {channel} is not open; `pilcrow/debug/open` gives one")))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, BTreeMap<u64, Client>> {
        // Entries are put in and taken out whole.
        self.open.lock()
    }
}

/// Passes on what a session tells and asks.
struct Forward {
    peer: Peer,
    channel: u64,
    ending: CancellationToken,
}

impl Handler for Forward {
    fn event(&self, event: &str, body: Option<&RawValue>) {
        let params = json!({ "channel": self.channel, "event": event, "body": body.map(read) });
        // Without room the editor is behind already; the session's hub counts what it leaves out itself.
        if let Err(error) = self.peer.try_notify("pilcrow/debug/event", &params) {
            tracing::debug!(%error, event, "an event was not told");
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
            let answer = peer.request("pilcrow/debug/request", &params, ANY, &ending).await;
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
