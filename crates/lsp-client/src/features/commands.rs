//! Commands of a server, whose edits arrive as requests while the command runs.
//!
//! Invariants: an edit is accepted only while a request is open that may cause one. It takes the
//! same path as every other edit, and the server is notified whether it was applied.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use workspace::{Document, WorkspaceEdit};

use crate::answer::Answer;
use crate::error::{Refusal, Result, ServerError};
use crate::pool::{RequestCx, ServerPool};
use crate::server::core::Core;
use crate::server::edit_inbox::{EditInbox, PendingEdit};
use crate::server::{Clock, Server};

/// Time for an edit after the response, if the command has changed nothing yet.
const LATE: Duration = Duration::from_millis(300);

/// Granularity of file times, which have the precision of the system's tick.
const FILE_CLOCK: Duration = Duration::from_millis(10);

/// Applies the edits that a server sends while it works.
pub trait CommandEdits: Send + Sync {
    /// Applies one edit. `Err` is the reason that the server receives.
    fn apply<'a>(&'a self, server: &'a str, edit: WorkspaceEdit) -> BoxFuture<'a, Result<(), String>>;
}

/// A command that a server offers.
#[derive(Clone)]
pub struct ServerCommand {
    pub name: String,
    /// Arguments of the command; a JSON list.
    pub arguments: Value,
    owner: Arc<Server>,
}

/// The outcome of a request that was sent.
#[derive(Debug)]
pub struct Ran {
    /// Edits of the server that were applied meanwhile.
    pub applied: usize,
    /// Reason why other edits were refused.
    pub refused: Vec<String>,
    pub outcome: Result<Value>,
}

impl std::fmt::Debug for ServerCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerCommand").field("name", &self.name).field("arguments", &self.arguments).finish()
    }
}

impl ServerCommand {
    pub(super) fn owner(&self) -> &Server {
        &self.owner
    }

    pub(super) fn new(owner: &Arc<Server>, name: &str, arguments: Value) -> Self {
        Self { name: name.to_owned(), arguments, owner: Arc::clone(owner) }
    }
}

impl ServerPool {
    /// Runs a command; edits that arrive before it ends go to `edits`.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it was not sent: `Refused` as `unsupported` if the server leaves the
    /// command to an editor. Later failures are in [`Ran`], since files may have changed by then.
    pub async fn run_command(
        self: &Arc<Self>,
        command: &ServerCommand,
        edits: &dyn CommandEdits,
        cx: &RequestCx,
    ) -> Result<Answer<Ran>> {
        let server = &command.owner;
        if !server.is_running() {
            return Err(server.crashed("workspace/executeCommand").await);
        }
        if !commands(&server.core).contains(&command.name) {
            return Err(server.refused(Refusal::EditorCommand(command.name.clone())));
        }
        let arguments = match &command.arguments {
            Value::Array(arguments) => arguments.clone(),
            _ => Vec::new(),
        };
        let params = json!({"command": command.name, "arguments": arguments});
        asked_with_edits(server, None, "workspace/executeCommand", &params, edits, cx.clock()).await
    }
}

/// The commands that a server runs.
pub(super) fn commands(core: &Core) -> Vec<String> {
    let capabilities = core.capabilities();
    let fixed = capabilities.server("executeCommandProvider").into_iter();
    let all = fixed.chain(capabilities.registrations("workspace/executeCommand"));
    let names = all.flat_map(|options| options["commands"].as_array().into_iter().flatten());
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Sends a request, and forwards the server's edits until the response arrives.
pub(super) async fn asked_with_edits(
    server: &Server,
    document: Option<&Document>,
    method: &str,
    params: &Value,
    edits: &dyn CommandEdits,
    clock: Clock<'_>,
) -> Result<Answer<Ran>> {
    // Run one command at a time: an edit does not name the request that caused it.
    let turn = tokio::select! {
        () = clock.cancel.cancelled() => return Err(ServerError::Cancelled),
        turn = tokio::time::timeout(clock.left(), server.core.commanding.acquire()) => turn,
    };
    let Ok(Ok(_turn)) = turn else { return Err(server.timeout(method, clock.total)) };
    let (sender, mut arrived) = mpsc::channel(8);
    let _open = OpenInbox::new(&server.core, sender);
    let name = server.name();
    let mut ran = Ran { applied: 0, refused: Vec::new(), outcome: Ok(Value::Null) };
    let mut note = None;
    let asking = server.ask(document, method, clock, |_, _| params.clone());
    tokio::pin!(asking);
    let mut ends: Option<Instant> = None;
    loop {
        let end = ends.unwrap_or_else(|| Instant::now() + clock.left());
        // The request is pinned outside; receiving is cancel-safe, and so is sleeping.
        tokio::select! {
            biased;
            Some(PendingEdit { edit, done }) = arrived.recv() => {
                let made = edits.apply(name, edit).await;
                match &made {
                    Ok(()) => ran.applied += 1,
                    Err(reason) => ran.refused.push(reason.clone()),
                }
                if done.send(made).is_err() {
                    tracing::debug!(server = name, "the server did not wait for its edit");
                }
            }
            asked = &mut asking, if ends.is_none() => {
                match asked {
                    Ok(asked) => {
                        ran.outcome = server.read(method, &asked.raw);
                        note = asked.note;
                    }
                    Err(error) => ran.outcome = Err(error),
                }
                let late = if ran.applied == 0 && ran.outcome.is_ok() { LATE } else { Duration::ZERO };
                ends = Some(Instant::now() + late.min(clock.left()));
            }
            () = tokio::time::sleep_until(end), if ends.is_some() => break,
        }
        if ends.is_some() && ran.applied > 0 {
            break;
        }
    }
    let notes = note.or_else(|| server.note()).into_iter().collect();
    Ok(Answer { value: ran, server: name.to_owned(), notes })
}

/// Accepts edits while it lives.
struct OpenInbox<'a>(&'a Core);

impl<'a> OpenInbox<'a> {
    fn new(core: &'a Core, sender: mpsc::Sender<PendingEdit>) -> Self {
        *core.edits() = Some(EditInbox { sender, since: SystemTime::now() - FILE_CLOCK });
        Self(core)
    }
}

impl Drop for OpenInbox<'_> {
    fn drop(&mut self) {
        *self.0.edits() = None;
    }
}
