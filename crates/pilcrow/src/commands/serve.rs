//! `pilcrow serve`: keeps the project and its language servers open for other commands.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use host::project::Access;
use host::{Announcer as _, Outcome, Project, ProjectHandle, ServedProject};
use paths::Homes;
use process::deadlines;
use rpc_server::IpcAnnouncer;
use tokio::sync::watch;
use workspace::Document;

use crate::{cli, open, output, stop};

/// Serves the project until a signal, or until no command used it for `idle`.
pub async fn serve(args: &cli::Project, idle: Duration) -> anyhow::Result<Outcome> {
    let cancel = stop::on_signal()?;
    let project = open::open(args, Access::default())?;
    let announcer = IpcAnnouncer { homes: Homes::from_env()? };
    project.workspace.set_peers(announcer.peers());
    let (users, mut changed) = watch::channel(0_usize);
    let served = Arc::new(Served { project: Arc::clone(&project), users: Arc::new(users) });
    let announced = announcer.announce(project.workspace.root(), served, "`pilcrow serve`")?;
    output::note(&format!("pilcrow: serving {}; Ctrl-C stops", project.workspace.root()));
    let unused = async {
        loop {
            let is_idle = *changed.borrow_and_update() == 0;
            tokio::select! {
                // Cancel safety: both only observe.
                () = tokio::time::sleep(idle), if is_idle => return,
                closed = changed.changed() => if closed.is_err() { return },
            }
        }
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = unused => output::note("pilcrow: stopped serving, because no command used the project"),
    }
    announced.close(deadlines::REQUEST).await;
    project.close(cancel.is_cancelled()).await;
    Ok(Outcome::Done)
}

/// The project of this process, without an editor.
struct Served {
    project: Arc<Project>,
    /// Number of commands that use the project.
    users: Arc<watch::Sender<usize>>,
}

/// A command that uses the project.
struct User(Arc<watch::Sender<usize>>);

impl ServedProject for Served {
    fn documents(&self) -> Vec<Document> {
        Vec::new()
    }

    fn project(&self) -> BoxFuture<'_, anyhow::Result<ProjectHandle>> {
        self.users.send_modify(|users| *users += 1);
        let keep_open = Box::new(User(Arc::clone(&self.users)));
        Box::pin(ready(Ok(ProjectHandle { project: Arc::clone(&self.project), keep_open })))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.send_modify(|users| *users -= 1);
    }
}
