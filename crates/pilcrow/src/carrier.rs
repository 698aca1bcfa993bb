//! Who carries a command out: the owner of the project, where an editor has it open, else this process.
//! Callers cannot tell the difference.

use std::sync::Arc;
use std::time::Duration;

use agent::{Envelope, EventSink, ToolResult};
use dap_client::Clock;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use workspace::{AbsPath, Homes, Workspace};

use crate::owner::{self, Call, Client, Failed, Hello, Neighbours, Ran, Reply, Request, TakeBack};
use crate::project::{self, Access, Project};
use crate::worker::{Stop, Worker};
use crate::{cli, output, stop, terminal};

/// How long a session may take to forget the agent.
const LEAVE: Duration = Duration::from_secs(2);

/// Who carries a command out.
pub struct Carrier {
    homes: Homes,
    way: Way,
}

enum Way {
    /// This process.
    Own(Worker),
    /// Another one, in this project.
    Owner(Client, AbsPath),
}

/// Hears what happens in a run.
pub trait Listener: Send + Sync {
    /// One event, here.
    fn hear(&self, envelope: &Envelope);
    /// One event as another process wrote it; it may be of a kind that this program does not know.
    fn hear_raw(&self, envelope: &RawValue);
}

impl Carrier {
    /// The owner, unless `carried` wants none or there is none; else opens the project here.
    ///
    /// # Errors
    /// When an owner is there that cannot be asked, or the project cannot be opened.
    pub async fn find(
        project: &cli::Project,
        carried: &cli::Carried,
        access: Access,
    ) -> anyhow::Result<Self> {
        let homes = Homes::from_env()?;
        if !carried.standalone {
            let (root, id) = Workspace::identify(&project::root(project.dir.as_deref())?)?;
            let hello = Hello::new(access.yes, terminal::is_there(), access.keep);
            if let Some(client) = owner::find(&homes, &id, &hello, &terminal::approver()).await? {
                return Ok(Self { homes, way: Way::Owner(client, root) });
            }
        }
        let project = Project::open(project, access)?;
        project.workspace.heed(Arc::new(Neighbours::new(&homes, carried.standalone)));
        Ok(Self { homes, way: Way::Own(Worker::own(Arc::new(project))) })
    }

    /// Calls one tool.
    ///
    /// # Errors
    /// When the owner has no answer.
    pub async fn call(
        &mut self,
        call: Call,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<ToolResult>> {
        match &mut self.way {
            Way::Own(worker) => Ok(worker.call(call, cancel).await),
            Way::Owner(client, root) => {
                let reply = client.call(&call, cancel).await;
                reply.map_err(|failed| lost(failed, &self.homes, root))
            }
        }
    }

    /// Takes back the last run, one commit, or the last undo.
    ///
    /// # Errors
    /// When the owner has no answer.
    pub async fn take_back(
        &mut self,
        what: TakeBack,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<ToolResult>> {
        match &mut self.way {
            Way::Own(worker) => Ok(worker.take_back(what, cancel).await),
            Way::Owner(client, root) => {
                let reply = client.take_back(&what, cancel).await;
                reply.map_err(|failed| lost(failed, &self.homes, root))
            }
        }
    }

    /// Works out a prompt and tells `listener` what happens.
    ///
    /// # Errors
    /// When the owner has no answer, or our own folders fail.
    pub async fn run(
        &mut self,
        request: Request,
        listener: Arc<dyn Listener>,
        cancel: &CancellationToken,
    ) -> anyhow::Result<Reply<Ran>> {
        match &mut self.way {
            Way::Own(worker) => {
                let person_file = self.homes.config.join("config.toml").to_string();
                let stop = Stop { cancel, gone: stop::gone() };
                worker.run(request, &person_file, Arc::new(Heard(listener)), stop).await
            }
            Way::Owner(client, root) => {
                let reply = client.run(&request, cancel, |event| listener.hear_raw(event)).await;
                reply.map_err(|failed| lost(failed, &self.homes, root))
            }
        }
    }

    /// Ends what was started here, but for a debug session that a person has joined: after its end, or after
    /// the Ctrl-C that stopped the work, it is theirs until they leave it or the next Ctrl-C.
    pub async fn close(self, cancel: &CancellationToken) {
        match self.way {
            Way::Own(worker) => {
                let was_stopped = cancel.is_cancelled();
                for session in worker.project().kit.debug.joined() {
                    let id = &session.id;
                    if was_stopped && stop::interrupted() {
                        output::note(&format!(
                            "pilcrow: {id} is yours until you leave it; Ctrl-C again ends it"
                        ));
                        // Without the agent's breakpoints.
                        session.stop(&Clock::new(LEAVE, &CancellationToken::new())).await;
                        // The next signal ends the process.
                        session.left().await;
                    } else if !cancel.is_cancelled() {
                        output::note(&format!("pilcrow: {id} is yours until you leave it; Ctrl-C ends it"));
                        tokio::select! {
                            // Neither is lost: both are states that stay.
                            () = session.left() => {}
                            () = cancel.cancelled() => {}
                        }
                    }
                }
                worker.project().close(cancel.is_cancelled()).await;
            }
            Way::Owner(client, _) => client.close().await,
        }
    }
}

/// An owner's end is not the end of what it began: what it was writing is taken back here, and told.
fn lost(failed: Failed, homes: &Homes, root: &AbsPath) -> anyhow::Error {
    if let Failed::Gone(_) = &failed {
        match Workspace::open(root.as_path(), &homes.state, None) {
            Ok((_, notes)) => {
                for note in notes {
                    output::note(&format!(
                        "pilcrow: an interrupted change of {}: {}",
                        note.path, note.detail
                    ));
                }
            }
            Err(error) => output::note(&format!("pilcrow: {error}")),
        }
        let rest = "no file is half written; `pilcrow undo --list` shows what was done before";
        return anyhow::anyhow!("{failed}: {rest}");
    }
    failed.into()
}

struct Heard(Arc<dyn Listener>);

impl EventSink for Heard {
    fn deliver<'a>(&'a self, envelope: &'a Envelope) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.0.hear(envelope) })
    }
}
