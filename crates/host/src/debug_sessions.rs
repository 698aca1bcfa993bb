//! The debug sessions of a project that can be joined, whichever process of the person's holds them.
//!
//! Each is a socket beside those of owners (`docs/protocols/owner.md`) that speaks the Debug Adapter
//! Protocol. What must stay true: one that does not answer holds nobody up for long.

use std::sync::Arc;
use std::time::Duration;

use crate::Project;
use agent::deadlines;
use dap_client::Clock;
use dap_client::hub::{AnnouncedSession, sockets};
pub use dap_client::{Ask, Client, ExternalStart, Handler, RequestError, Session};
use futures_util::future::{BoxFuture, join_all};
use paths::{AbsPath, Homes, StateDir};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::local::{LocalError, Stream};
use workspace::Workspace;

/// How long a session may take to say what it is.
const ANSWER: Duration = Duration::from_secs(5);

/// A session that can be joined.
#[derive(Debug, Clone)]
pub struct Found {
    pub announced: AnnouncedSession,
    /// What it says of itself: `session`, `title`, `adapter`, `state`, `controller`, `persons`; or why it
    /// says nothing.
    said: Result<Value, String>,
}

impl Found {
    /// Its name among all processes.
    pub fn id(&self) -> String {
        format!("{}@{}", self.announced.session, self.announced.process)
    }

    /// Whether it is the name of a session that was launched again, and leads to that one.
    pub fn leads_on(&self) -> bool {
        self.said.as_ref().is_ok_and(|said| {
            said["session"].as_str().is_some_and(|session| session != self.announced.session)
        })
    }

    pub fn about(&self) -> Value {
        let mut about = match &self.said {
            Ok(said) => said.clone(),
            Err(why) => json!({ "error": why }),
        };
        about["session"] = json!(self.id());
        about["pipe"] = json!(self.announced.path.to_string());
        about
    }

    /// One line for people.
    pub fn shown(&self) -> String {
        match &self.said {
            Ok(said) => {
                let text = |name: &str| said[name].as_str().unwrap_or("?").to_owned();
                let control = if said["controller"] == "person" { ", the person has control" } else { "" };
                format!("{}: {} ({}), {}{control}", self.id(), text("title"), text("adapter"), text("state"))
            }
            Err(why) => format!("{}: {why}", self.id()),
        }
    }
}

/// Where sessions of the project at `root` announce themselves.
///
/// # Errors
/// When there is no such folder.
pub(crate) fn directory(homes: &Homes, root: &AbsPath) -> anyhow::Result<StateDir> {
    let (_, id) = Workspace::identify(root.as_path())?;
    Ok(homes.run.child(&id)?)
}

/// The sessions of the project at `root`, with the names that lead on to others; what ended without a word
/// is removed.
///
/// # Errors
/// When the folder cannot be read.
pub async fn find(homes: &Homes, root: &AbsPath) -> anyhow::Result<Vec<Found>> {
    let all = sockets(&directory(homes, root)?)?;
    let ask = all.into_iter().map(|announced| async move {
        match ask(&announced, "pilcrow/session").await {
            Ok(said) => Some(Found { announced, said: Ok(said) }),
            Err(Unasked::Dead) => None,
            Err(Unasked::Other(why)) => Some(Found { announced, said: Err(why) }),
        }
    });
    let mut found: Vec<Found> = join_all(ask).await.into_iter().flatten().collect();
    found.sort_by_key(|it| (it.announced.process, it.announced.session.clone()));
    Ok(found)
}

/// The one that `wanted` names.
///
/// # Errors
/// What there is, for people.
pub fn choose(found: &[Found], wanted: &str) -> Result<AnnouncedSession, String> {
    let named: Vec<&Found> =
        found.iter().filter(|it| it.announced.session == wanted || it.id() == wanted).collect();
    let list = |of: Vec<&Found>| {
        of.iter().filter(|it| !it.leads_on()).map(|it| it.shown()).collect::<Vec<_>>().join("; ")
    };
    match named.as_slice() {
        [one] => Ok(one.announced.clone()),
        [] if found.is_empty() => {
            Err(format!("there is no debug session {wanted}, and no other in this project"))
        }
        [] => Err(format!("there is no debug session {wanted}; there are: {}", list(found.iter().collect()))),
        many => Err(format!("{wanted} is several; name one: {}", list(many.to_vec()))),
    }
}

/// Gives control of a session back to the agent.
///
/// # Errors
/// Why not, for people.
pub async fn hand_back(announced: &AnnouncedSession) -> Result<(), String> {
    match ask(announced, "pilcrow/handBack").await {
        Ok(_) => Ok(()),
        Err(Unasked::Dead) => Err("the session is over".to_owned()),
        Err(Unasked::Other(why)) => Err(why),
    }
}

/// Joins a session as a client of its protocol.
///
/// # Errors
/// [`LocalError`].
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

    /// Removes the agent's breakpoints and lets the program go on.
    pub async fn release(&self) {
        self.0.stop(&Clock::new(deadlines::DEBUGGER_RELEASE, &CancellationToken::new())).await;
    }

    /// Waits until the user leaves.
    pub async fn left(&self) {
        self.0.left().await;
    }
}

impl Project {
    /// The debug sessions of this process that the user has joined.
    pub fn joined_debug_sessions(&self) -> Vec<JoinedSession> {
        self.context.debug.joined().into_iter().map(JoinedSession).collect()
    }
}

enum Unasked {
    Dead,
    Other(String),
}

async fn ask(announced: &AnnouncedSession, command: &str) -> Result<Value, Unasked> {
    let tracker = TaskTracker::new();
    let client = match connect(announced, Arc::new(Deaf), &tracker).await {
        Ok(client) => client,
        Err(LocalError::Dead { .. }) => return Err(Unasked::Dead),
        Err(error) => return Err(Unasked::Other(error.to_string())),
    };
    let answer = client.request(command, json!({}), ANSWER, &CancellationToken::new()).await;
    client.close("it was asked");
    tracker.close();
    tracker.wait().await;
    match answer {
        Ok(body) => serde_json::from_str(body.get()).map_err(|error| Unasked::Other(error.to_string())),
        // It ended just now.
        Err(RequestError::Closed { .. }) => Err(Unasked::Dead),
        Err(error) => Err(Unasked::Other(error.to_string())),
    }
}

/// Asks one thing and hears nothing else.
struct Deaf;

impl Handler for Deaf {
    fn event(&self, _: &str, _: Option<&RawValue>) {}

    fn request(&self, command: &str, _: Option<&RawValue>) -> BoxFuture<'static, Result<Value, String>> {
        let refusal = format!("this client does not support {command}");
        Box::pin(std::future::ready(Err(refusal)))
    }
}
