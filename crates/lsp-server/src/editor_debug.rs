//! Debug sessions that the user starts in the editor, as reported by its plugin.
//!
//! The agent inspects them (`dap_client::ExternalSession`). `docs/protocols/language-server.md` documents
//! the messages.
//!
//! Invariants: messages take effect in order, and delay nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use editor_sync::buffers;
use futures_util::future::BoxFuture;
use host::debug_sessions::{ExternalAdapter, ExternalStart, Session};
use parking_lot::Mutex;
use paths::AbsPath;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use wire::{Peer, RequestError};

use super::Connection;

/// Deadline of debug requests, which may take as long as the program runs.
pub(super) const REQUEST_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of followed sessions of one editor.
const MAX_SESSIONS: usize = 64;
/// Maximum number of queued messages. Output may use only half of it.
const MAX_QUEUED: usize = 8192;

/// The sessions of one connection.
#[derive(Default)]
pub struct EditorSessions {
    followed: Mutex<HashMap<String, Followed>>,
}

struct Followed {
    sender: mpsc::Sender<Box<RawValue>>,
    /// The debug session; `None` until the project is open.
    session: watch::Sender<Option<Arc<Session>>>,
}

/// Parameters of a plugin's `pilcrow/debug/event`.
#[derive(Deserialize)]
struct DebugEventParams {
    /// The editor's name of the session.
    session: String,
    started: Option<StartedSession>,
    message: Option<Box<RawValue>>,
    #[serde(default)]
    ended: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StartedSession {
    name: String,
    r#type: String,
    /// URI of the workspace folder that the session belongs to.
    uri: Option<String>,
    /// The editor's name of the session whose adapter requested this one.
    parent: Option<String>,
}

/// Handles `pilcrow/debug/event`. Does not wait.
pub(crate) fn handle_event(connection: &Arc<Connection>, params: Option<&RawValue>) {
    let Some(Ok(params)) = params.map(|raw| serde_json::from_str::<DebugEventParams>(raw.get())) else {
        return tracing::debug!("malformed debug event");
    };
    let DebugEventParams { session, started, message, ended } = params;
    let mut followed = connection.editor_sessions.lock();
    if let Some(started) = started {
        if followed.len() >= MAX_SESSIONS && !followed.contains_key(&session) {
            return tracing::warn!("{MAX_SESSIONS} debug sessions are followed already");
        }
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let parent = started
            .parent
            .as_ref()
            .and_then(|name| followed.get(name))
            .map(|parent| parent.session.subscribe());
        // A new session ends an older one of the same name.
        followed
            .insert(session.clone(), Followed { sender: sender.clone(), session: watch::channel(None).0 });
        connection.tracker.spawn(follow(Arc::clone(connection), session, started, parent, sender, receiver));
    } else if let Some((message, target)) = message.zip(followed.get(&session)) {
        let is_output = || message.get().contains("\"output\"");
        if target.sender.capacity() < MAX_QUEUED / 2 && is_output() {
            return tracing::trace!("dropped output of a debug session");
        }
        if target.sender.try_send(message).is_err() {
            tracing::warn!(session, "stopped following a debug session: too many messages at once");
            followed.remove(&session);
        }
    } else if ended {
        followed.remove(&session);
    }
}

/// Returns control of sessions to the agent; returns their names.
pub async fn hand_back(connection: &Connection, requested: Option<&str>) -> Vec<String> {
    let sessions: Vec<_> = connection
        .editor_sessions
        .lock()
        .values()
        .filter_map(|followed| followed.session.borrow().clone())
        .collect();
    let mut handed = Vec::new();
    for session in
        sessions.into_iter().filter(|session| requested.is_none_or(|requested| session.id == requested))
    {
        session.return_control().await;
        handed.push(session.id.clone());
    }
    handed
}

/// Follows one session until it ends or the editor disconnects.
async fn follow(
    connection: Arc<Connection>,
    name: String,
    started: StartedSession,
    parent: Option<watch::Receiver<Option<Arc<Session>>>>,
    own: mpsc::Sender<Box<RawValue>>,
    mut receiver: mpsc::Receiver<Box<RawValue>>,
) {
    let folder: Option<AbsPath> = started.uri.as_deref().and_then(buffers::canonical_path);
    let attach = async {
        let root = connection.projects.root_for(folder.as_ref())?;
        let project = connection.projects.open(&root).await?;
        let title = if started.name.is_empty() { name.clone() } else { started.name };
        let started = ExternalStart { title, kind: started.r#type, root };
        let editor = PluginAdapter {
            peer: connection.peer.clone(),
            session: name.clone(),
            ending: connection.ending.clone(),
        };
        let parent = match parent {
            // `Err` if the parent ended before it was attached.
            Some(mut parent) => parent.wait_for(Option::is_some).await.ok().and_then(|parent| parent.clone()),
            None => None,
        };
        let debug = &project.project.context.debug;
        // A parent in another folder belongs to another project.
        let parent = parent.filter(|parent| debug.list().iter().any(|session| Arc::ptr_eq(session, parent)));
        anyhow::Ok(debug.open_external(&started, parent.as_deref(), Arc::new(editor)).await)
    };
    let is_own = |followed: &Followed| followed.sender.same_channel(&own);
    let external = match attach.await {
        Ok(external) => external,
        Err(error) => {
            tracing::warn!("cannot attach to the debug session {name}: {error:#}");
            let mut followed = connection.editor_sessions.lock();
            if followed.get(&name).is_some_and(is_own) {
                followed.remove(&name);
            }
            return;
        }
    };
    if let Some(followed) =
        connection.editor_sessions.lock().get_mut(&name).filter(|followed| is_own(followed))
    {
        followed.session.send_replace(Some(Arc::clone(external.session())));
    }
    // Only the sender in the table keeps the channel open.
    let weak = own.downgrade();
    drop(own);
    loop {
        let message = tokio::select! {
            // Messages of an ended session are dropped.
            () = connection.ending.cancelled() => break,
            () = external.session().ended() => break,
            message = receiver.recv() => message,
        };
        let Some(message) = message else { break };
        external.handle_message(&message).await;
    }
    if let Some(own) = weak.upgrade() {
        let mut followed = connection.editor_sessions.lock();
        if followed.get(&name).is_some_and(|followed| followed.sender.same_channel(&own)) {
            followed.remove(&name);
        }
    }
}

impl EditorSessions {
    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<String, Followed>> {
        self.followed.lock()
    }
}

/// Sends requests to the adapter through the plugin.
struct PluginAdapter {
    peer: Peer,
    session: String,
    ending: CancellationToken,
}

impl ExternalAdapter for PluginAdapter {
    fn request(&self, command: &str, arguments: Value) -> BoxFuture<'static, Result<Value, String>> {
        let params = json!({ "session": self.session, "command": command, "arguments": arguments });
        let (peer, ending) = (self.peer.clone(), self.ending.clone());
        Box::pin(async move {
            let answer = peer.request("pilcrow/debug/request", &params, REQUEST_DEADLINE, &ending).await;
            match answer {
                Ok(body) => serde_json::from_str(body.get()).map_err(|error| error.to_string()),
                Err(RequestError::Rpc { error, .. }) => Err(error.message),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
