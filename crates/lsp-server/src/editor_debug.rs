//! Debug sessions that the person started in the editor, told by its plugin: the agent looks into them
//! (`dap_client::ExternalSession`). `docs/protocols/language-server.md` says what the plugin tells and is asked.
//!
//! What must stay true: what is told takes effect in the order in which it came, and holds nothing else up.

use std::collections::HashMap;
use std::sync::Arc;

use editor_sync::buffers;
use futures_util::future::BoxFuture;
use host::debug_sessions::{Ask, ExternalStart, Session};
use parking_lot::Mutex;
use paths::AbsPath;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use wire::{Peer, RequestError};

use super::Connection;
use super::debug::ANY;

/// Sessions of one editor that are followed at once.
const SESSIONS: usize = 64;
/// Messages that may wait; output finds room only below half of it.
const WAITING: usize = 8192;

/// The sessions of one connection.
#[derive(Default)]
pub struct TheirSessions {
    followed: Mutex<HashMap<String, Followed>>,
}

struct Followed {
    heard: mpsc::Sender<Box<RawValue>>,
    /// Once the project is open.
    session: watch::Sender<Option<Arc<Session>>>,
}

/// `pilcrow/debug/event` of a plugin.
#[derive(Deserialize)]
struct Told {
    /// The editor's own name for it.
    session: String,
    #[serde(default)]
    started: Option<Beginning>,
    #[serde(default)]
    message: Option<Box<RawValue>>,
    #[serde(default)]
    ended: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Beginning {
    name: String,
    r#type: String,
    /// The folder it belongs to.
    uri: Option<String>,
    /// The editor's name for the session whose adapter asked for it.
    parent: Option<String>,
}

/// Takes what a plugin tells. Does not wait.
pub fn told(connection: &Arc<Connection>, params: Option<&RawValue>) {
    let Some(Ok(told)) = params.map(|it| serde_json::from_str::<Told>(it.get())) else {
        return tracing::debug!("a debug event that is none");
    };
    let Told { session, started, message, ended } = told;
    let mut followed = connection.theirs.lock();
    if let Some(beginning) = started {
        if followed.len() >= SESSIONS && !followed.contains_key(&session) {
            return tracing::warn!("{SESSIONS} debug sessions are followed already");
        }
        let (heard, hears) = mpsc::channel(WAITING);
        let parent =
            beginning.parent.as_ref().and_then(|it| followed.get(it)).map(|it| it.session.subscribe());
        // One that begins anew under its name ends the one before.
        followed.insert(session.clone(), Followed { heard: heard.clone(), session: watch::channel(None).0 });
        connection.tracker.spawn(follow(Arc::clone(connection), session, beginning, parent, heard, hears));
    } else if let Some((message, it)) = message.zip(followed.get(&session)) {
        let is_output = || message.get().contains("\"output\"");
        if it.heard.capacity() < WAITING / 2 && is_output() {
            return tracing::trace!("output of a debug session was left out");
        }
        if it.heard.try_send(message).is_err() {
            tracing::warn!(session, "a debug session is not followed any more: too much came at once");
            followed.remove(&session);
        }
    } else if ended {
        followed.remove(&session);
    }
}

/// Gives control back to the agent; the names of the sessions.
pub async fn hand_back(connection: &Connection, wanted: Option<&str>) -> Vec<String> {
    let sessions: Vec<_> =
        connection.theirs.lock().values().filter_map(|it| it.session.borrow().clone()).collect();
    let mut handed = Vec::new();
    for session in sessions.into_iter().filter(|it| wanted.is_none_or(|wanted| it.id == wanted)) {
        session.hand_back().await;
        handed.push(session.id.clone());
    }
    handed
}

/// Looks into one session until it is over, or the editor says so or goes.
async fn follow(
    connection: Arc<Connection>,
    name: String,
    beginning: Beginning,
    parent: Option<watch::Receiver<Option<Arc<Session>>>>,
    own: mpsc::Sender<Box<RawValue>>,
    mut hears: mpsc::Receiver<Box<RawValue>>,
) {
    let folder: Option<AbsPath> = beginning.uri.as_deref().and_then(buffers::canonical_path);
    let looks = async {
        let root = connection.projects.root_for(folder.as_ref())?;
        let project = connection.projects.open(&root).await?;
        let title = if beginning.name.is_empty() { name.clone() } else { beginning.name };
        let started = ExternalStart { title, kind: beginning.r#type, root };
        let editor =
            Asked { peer: connection.peer.clone(), session: name.clone(), ending: connection.ending.clone() };
        let parent = match parent {
            // Err: the parent was over before it was looked into.
            Some(mut parent) => parent.wait_for(Option::is_some).await.ok().and_then(|it| it.clone()),
            None => None,
        };
        let debug = &project.project.context.debug;
        // Another folder has sessions of its own.
        let parent = parent.filter(|parent| debug.list().iter().any(|it| Arc::ptr_eq(it, parent)));
        anyhow::Ok(debug.look_into(&started, parent.as_deref(), Arc::new(editor)).await)
    };
    let looks = looks.await;
    let is_own = |it: &Followed| it.heard.same_channel(&own);
    let theirs = match looks {
        Ok(theirs) => theirs,
        Err(error) => {
            tracing::warn!("the debug session {name} cannot be looked into: {error:#}");
            let mut followed = connection.theirs.lock();
            if followed.get(&name).is_some_and(is_own) {
                followed.remove(&name);
            }
            return;
        }
    };
    if let Some(it) = connection.theirs.lock().get_mut(&name).filter(|it| is_own(it)) {
        it.session.send_replace(Some(Arc::clone(theirs.session())));
    }
    // From here on the end of the one in the list is the end of all.
    let weak = own.downgrade();
    drop(own);
    loop {
        let message = tokio::select! {
            // What is dropped concerns a session that is over for us.
            () = connection.ending.cancelled() => break,
            () = theirs.session().over() => break,
            message = hears.recv() => message,
        };
        let Some(message) = message else { break };
        theirs.heard(&message).await;
    }
    if let Some(own) = weak.upgrade() {
        let mut followed = connection.theirs.lock();
        if followed.get(&name).is_some_and(|it| it.heard.same_channel(&own)) {
            followed.remove(&name);
        }
    }
}

impl TheirSessions {
    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<String, Followed>> {
        // Entries are put in and taken out whole.
        self.followed.lock()
    }
}

/// Has the plugin send requests to the adapter.
struct Asked {
    peer: Peer,
    session: String,
    ending: CancellationToken,
}

impl Ask for Asked {
    fn ask(&self, command: &str, arguments: Value) -> BoxFuture<'static, Result<Value, String>> {
        let params = json!({ "session": self.session, "command": command, "arguments": arguments });
        let (peer, ending) = (self.peer.clone(), self.ending.clone());
        Box::pin(async move {
            let answer = peer.request("pilcrow/debug/request", &params, ANY, &ending).await;
            match answer {
                Ok(body) => serde_json::from_str(body.get()).map_err(|error| error.to_string()),
                Err(RequestError::Rpc { error, .. }) => Err(error.message),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
