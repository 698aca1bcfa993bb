//! Execution of commands in the process that serves the project's editor.
//!
//! Without such a process, this one executes them. The output is the same either way.

use std::sync::Arc;

use agent::events::{Update, UpdateKind};
use agent::{Envelope, EventSink, ToolResult};
use futures_util::future::BoxFuture;
use host::{
    Access, CompactReport, CompactRequest, PromptRequest, Reply, RequestScope, RunReport, Stop,
    ToolCallRequest, UndoRequest,
};
use paths::{AbsPath, Homes};
use rpc_server::{Client, Failed, Hello, IpcPeers};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

use crate::{cli, open, output, stop, terminal};

/// Executes the requests of a command.
pub struct Executor {
    homes: Homes,
    place: ExecutionPlace,
    /// Whether the progress of a call is shown at the terminal.
    pub shows_progress: bool,
}

enum ExecutionPlace {
    Local(Box<RequestScope>),
    /// The process that serves the editor of the project with this root.
    Remote(Client, AbsPath),
}

/// A receiver of the events of a run.
pub trait Listener: Send + Sync {
    fn event(&self, envelope: &Envelope);
    /// Handles an event from another process.
    ///
    /// That process may be newer and send unknown kinds.
    fn raw_event(&self, envelope: &RawValue);
}

impl Executor {
    /// Finds the process that serves the project's editor, unless `args` excludes it.
    ///
    /// Without one, opens the project.
    ///
    /// # Errors
    /// When that process does not answer, or the project does not open.
    async fn find(args: &cli::CallArgs, access: Access) -> anyhow::Result<Self> {
        let cli::CallArgs { target: cli::CommandTarget { project, .. }, execution } = args;
        let homes = Homes::from_env()?;
        if !execution.standalone {
            let (root, id) = Workspace::identify(&open::root(project.dir.as_deref())?)?;
            let hello = Hello::new(access.yes, terminal::is_interactive(), access.keep);
            if let Some(client) = rpc_server::find(&homes, &id, &hello, &terminal::approver()).await? {
                return Ok(Self {
                    homes,
                    place: ExecutionPlace::Remote(client, root),
                    shows_progress: false,
                });
            }
        }
        let project = open::open(project, access)?;
        stop::watch_commits(project.workspace.subscribe());
        project.workspace.set_peers(Arc::new(IpcPeers::new(&homes, execution.standalone)));
        let place = ExecutionPlace::Local(Box::new(project.scope()));
        Ok(Self { homes, place, shows_progress: false })
    }

    /// Does `work` with an executor, and closes it.
    ///
    /// # Errors
    /// Like [`Self::find`], and those of `work`.
    pub async fn with<T>(
        args: &cli::CallArgs,
        access: Access,
        work: impl AsyncFnOnce(&mut Self, &CancellationToken) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let cancel = stop::on_signal()?;
        let mut executor = Self::find(args, access).await?;
        let done = work(&mut executor, &cancel).await;
        executor.close(&cancel).await;
        done
    }

    /// Calls one tool.
    ///
    /// # Errors
    /// When the other process has no answer.
    pub async fn call_tool(
        &mut self,
        call: ToolCallRequest,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<ToolResult>> {
        match &mut self.place {
            ExecutionPlace::Local(scope) if self.shows_progress => {
                let reply = scope.call_tool_reporting(call, |update| show_progress(&update), cancel).await;
                output::clear();
                Ok(reply)
            }
            ExecutionPlace::Local(scope) => Ok(scope.call_tool(call, cancel).await),
            ExecutionPlace::Remote(client, root) => client
                .call(&call, stop(cancel))
                .await
                .map_err(|failed| connection_error(failed, &self.homes, root)),
        }
    }

    /// Undoes or redoes.
    ///
    /// # Errors
    /// When the other process has no answer.
    pub async fn undo(
        &mut self,
        request: UndoRequest,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<ToolResult>> {
        match &mut self.place {
            ExecutionPlace::Local(scope) => {
                // The note would name `undo`, which reverts an earlier change after this one.
                stop::ignore_commits();
                Ok(Reply::Done(scope.undo_call(request.target().as_ref(), cancel).await))
            }
            ExecutionPlace::Remote(client, root) => client
                .undo(&request, stop(cancel))
                .await
                .map_err(|failed| connection_error(failed, &self.homes, root)),
        }
    }

    /// Runs a prompt; `listener` gets its events.
    ///
    /// # Errors
    /// When the other process has no answer, or a directory of Pilcrow fails.
    pub async fn run(
        &mut self,
        request: PromptRequest,
        listener: Arc<dyn Listener>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<RunReport>> {
        match &mut self.place {
            ExecutionPlace::Local(scope) => {
                scope.run(request, Arc::new(ListenerSink(listener)), stop(cancel)).await
            }
            ExecutionPlace::Remote(client, root) => {
                let reply = client.run(&request, stop(cancel), |event| listener.raw_event(event)).await;
                reply.map_err(|failed| connection_error(failed, &self.homes, root))
            }
        }
    }

    /// Compacts a session; `listener` gets its events.
    ///
    /// # Errors
    /// When the other process has no answer, or a directory of Pilcrow fails.
    pub async fn compact(
        &mut self,
        request: CompactRequest,
        listener: Arc<dyn Listener>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<CompactReport>> {
        match &mut self.place {
            ExecutionPlace::Local(scope) => {
                scope.compact(request, Arc::new(ListenerSink(listener)), cancel).await
            }
            ExecutionPlace::Remote(client, root) => {
                let reply = client.compact(&request, stop(cancel), |event| listener.raw_event(event)).await;
                reply.map_err(|failed| connection_error(failed, &self.homes, root))
            }
        }
    }

    /// Closes the project, if it is open in this process.
    ///
    /// A debug session that the user joined continues until the user leaves it or presses Ctrl-C again.
    async fn close(self, cancel: &CancellationToken) {
        let scope = match self.place {
            ExecutionPlace::Local(scope) => scope,
            ExecutionPlace::Remote(client, _) => return client.close().await,
        };
        let was_stopped = cancel.is_cancelled();
        for session in scope.project().joined_debug_sessions() {
            let id = session.id();
            if was_stopped && stop::interrupted() {
                stop::wait_for_second();
                output::note(&format!("pilcrow: {id} continues until you leave it; Ctrl-C again ends it"));
                session.release().await;
                // The next signal ends the process.
                session.left().await;
            } else if !cancel.is_cancelled() {
                output::note(&format!("pilcrow: {id} continues until you leave it; Ctrl-C ends it"));
                tokio::select! {
                    // Cancel safety: both are permanent states.
                    () = session.left() => {}
                    () = cancel.cancelled() => {}
                }
            }
        }
        scope.project().close(cancel.is_cancelled()).await;
    }
}

/// Shows what a call waits for, until the next output.
pub fn show_progress(update: &Update) {
    if update.update_type == UpdateKind::Progress {
        output::transient(update.content.lines().next().unwrap_or_default());
    }
}

fn stop(cancel: &CancellationToken) -> Stop<'_> {
    Stop { cancel, gone: stop::gone() }
}

/// Creates the error for a failed request.
///
/// If the process ended, reverts and reports its interrupted commits.
fn connection_error(failed: Failed, homes: &Homes, root: &AbsPath) -> anyhow::Error {
    if let Failed::Gone(_) = &failed {
        match Workspace::open(root.as_path(), &homes.state, None) {
            Ok((_, notes)) => {
                for note in notes {
                    output::note(&format!("pilcrow: interrupted change of {}: {}", note.path, note.detail));
                }
            }
            Err(error) => output::note(&format!("pilcrow: {error}")),
        }
        let rest = "no file is half written; `pilcrow undo --list` shows its earlier changes";
        return anyhow::anyhow!("{failed}: {rest}");
    }
    failed.into()
}

struct ListenerSink(Arc<dyn Listener>);

impl EventSink for ListenerSink {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.0.event(envelope) })
    }
}
