//! The debug sessions of a project that a user can join, in any process.
//!
//! Each is a socket next to those of owners (`docs/protocols/owner.md`) with the Debug Adapter Protocol.
//!
//! Invariants: an unresponsive session delays others only briefly.

use std::sync::Arc;
use std::time::Duration;

use crate::Project;
use agent::deadlines;
use dap_client::Clock;
use dap_client::hub::{AnnouncedSession, sockets};
pub use dap_client::{Client, ExternalAdapter, ExternalStart, Handler, RequestError, Session};
use futures_util::future::{BoxFuture, join_all};
use paths::{AbsPath, Homes, StateDir};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::{LocalError, Stream};
use workspace::Workspace;

/// Time limit for a response of a session.
const ANSWER: Duration = Duration::from_secs(5);

/// A session that can be joined.
#[derive(Debug, Clone)]
pub struct Found {
    pub announced: AnnouncedSession,
    /// Description of the session, or the error.
    /// It has `session`, `title`, `adapter`, `state`, `controller` and `persons`.
    description: Result<Value, String>,
}

impl Found {
    /// Returns the name that is unique among all processes.
    pub fn id(&self) -> String {
        format!("{}@{}", self.announced.session, self.announced.process)
    }

    /// Whether it is an old name of a restarted session.
    pub fn is_alias(&self) -> bool {
        self.description.as_ref().is_ok_and(|description| {
            description["session"].as_str().is_some_and(|session| session != self.announced.session)
        })
    }

    pub fn about(&self) -> Value {
        let mut about = match &self.description {
            Ok(description) => description.clone(),
            Err(reason) => json!({ "error": reason }),
        };
        about["session"] = json!(self.id());
        about["pipe"] = json!(self.announced.path.to_string());
        about
    }

    /// Renders one line for the user.
    pub fn describe(&self) -> String {
        match &self.description {
            Ok(description) => {
                let text = |name: &str| description[name].as_str().unwrap_or("?").to_owned();
                let control =
                    if description["controller"] == "person" { ", the user has control" } else { "" };
                format!("{}: {} ({}), {}{control}", self.id(), text("title"), text("adapter"), text("state"))
            }
            Err(reason) => format!("{}: {reason}", self.id()),
        }
    }
}

/// Returns the directory with the sockets of the project's debug sessions.
///
/// # Errors
/// When the project does not exist.
pub(crate) fn directory(homes: &Homes, root: &AbsPath) -> anyhow::Result<StateDir> {
    let (_, id) = Workspace::identify(root.as_path())?;
    Ok(homes.run.child(&id)?)
}

/// Lists the sessions of the project at `root`, including aliases.
///
/// Removes sockets of ended sessions.
///
/// # Errors
/// When the directory cannot be read.
pub async fn find(homes: &Homes, root: &AbsPath) -> anyhow::Result<Vec<Found>> {
    let all = sockets(&directory(homes, root)?)?;
    let ask = all.into_iter().map(|announced| async move {
        match ask(&announced, "pilcrow/session").await {
            Ok(description) => Some(Found { announced, description: Ok(description) }),
            Err(RequestFailure::Dead) => None,
            Err(RequestFailure::Other(reason)) => Some(Found { announced, description: Err(reason) }),
        }
    });
    let mut found: Vec<Found> = join_all(ask).await.into_iter().flatten().collect();
    found.sort_by_key(|found| (found.announced.process, found.announced.session.clone()));
    Ok(found)
}

/// Selects the session that `name` identifies.
///
/// # Errors
/// A message with the sessions that exist.
pub fn choose(found: &[Found], name: &str) -> Result<AnnouncedSession, String> {
    let named: Vec<&Found> =
        found.iter().filter(|found| found.announced.session == name || found.id() == name).collect();
    let list = |found: Vec<&Found>| {
        found
            .iter()
            .filter(|found| !found.is_alias())
            .map(|found| found.describe())
            .collect::<Vec<_>>()
            .join("; ")
    };
    match named.as_slice() {
        [one] => Ok(one.announced.clone()),
        [] if found.is_empty() => {
            Err(format!("there is no debug session {name}, and no other in this project; start one first"))
        }
        [] => Err(format!("there is no debug session {name}; there are: {}", list(found.iter().collect()))),
        many => Err(format!("{name} is ambiguous; name one: {}", list(many.to_vec()))),
    }
}

/// Returns control of a session to the agent.
///
/// # Errors
/// The reason, as a message.
pub async fn hand_back(announced: &AnnouncedSession) -> Result<(), String> {
    match ask(announced, "pilcrow/handBack").await {
        Ok(_) => Ok(()),
        Err(RequestFailure::Dead) => Err("the session has ended; list the sessions again".to_owned()),
        Err(RequestFailure::Other(reason)) => Err(reason),
    }
}

/// Joins a session as a client of its protocol.
///
/// # Errors
/// [`LocalError`] if the socket cannot be opened.
pub async fn connect(
    announced: &AnnouncedSession,
    handler: Arc<dyn Handler>,
    tracker: &TaskTracker,
) -> Result<Client, LocalError> {
    let (reader, writer) = Stream::connect(announced.path.as_path()).await?.split();
    Ok(Client::spawn(
        format!("{}@{}", announced.session, announced.process),
        reader,
        writer,
        handler,
        tracker,
    ))
}

/// A debug session of this process that the user has joined.
pub struct JoinedSession(Arc<Session>);

impl JoinedSession {
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Removes the agent's breakpoints and continues the program.
    pub async fn release(&self) {
        self.0.stop(&Clock::new(deadlines::DEBUGGER_RELEASE, &CancellationToken::new())).await;
    }

    /// Waits until the user leaves.
    pub async fn left(&self) {
        self.0.joined_clients_left().await;
    }
}

impl Project {
    /// The debug sessions of this process that the user has joined.
    pub fn joined_debug_sessions(&self) -> Vec<JoinedSession> {
        self.context.debug.joined().into_iter().map(JoinedSession).collect()
    }
}

enum RequestFailure {
    Dead,
    Other(String),
}

async fn ask(announced: &AnnouncedSession, command: &str) -> Result<Value, RequestFailure> {
    let tracker = TaskTracker::new();
    let client = match connect(announced, Arc::new(IgnoringHandler), &tracker).await {
        Ok(client) => client,
        Err(LocalError::Dead { .. }) => return Err(RequestFailure::Dead),
        Err(error) => return Err(RequestFailure::Other(error.to_string())),
    };
    let answer = client.request(command, json!({}), ANSWER, &CancellationToken::new()).await;
    client.close("the request is done");
    tracker.close();
    tracker.wait().await;
    match answer {
        Ok(body) => {
            serde_json::from_str(body.get()).map_err(|error| RequestFailure::Other(error.to_string()))
        }
        // The session has just ended.
        Err(RequestError::Closed { .. }) => Err(RequestFailure::Dead),
        Err(error) => Err(RequestFailure::Other(error.to_string())),
    }
}

/// Ignores events and refuses requests.
struct IgnoringHandler;

impl Handler for IgnoringHandler {
    fn event(&self, _: &str, _: Option<&RawValue>) {}

    fn request(&self, command: &str, _: Option<&RawValue>) -> BoxFuture<'static, Result<Value, String>> {
        let refusal = format!("this client does not support {command}");
        Box::pin(std::future::ready(Err(refusal)))
    }
}
