//! What is done with conversations and runs of before: put into fewer words, listed, taken back.

use std::sync::Arc;
use std::time::Duration;

use agent::store::LoadedSession;
use agent::{Session, Standalone, ToolCx, Toolset};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::{AbsPath, RunId, Undo};

use super::super::Connection;
use super::super::messages::Kind;
use super::super::projects::{Lease, NoProject};
use super::{TakeBack, Told, with_unsaved};
use crate::models::{self, Chosen};
use crate::unsaved::Unsaved;
use crate::worker::limits;

/// How long a run that is stopped for a compaction may take to end; each does within two seconds.
const STOPPED: Duration = Duration::from_secs(10);

/// Puts a conversation of the project into fewer words; a run of it in this editor is stopped first.
pub async fn compact(
    connection: &Connection,
    lease: &Lease,
    which: Option<String>,
    wishes: &str,
    cancel: &CancellationToken,
) -> anyhow::Result<Told> {
    let project = &lease.project;
    let store = project.sessions()?;
    let going = connection.runs.conversation(which.as_deref(), project.workspace.root());
    if let Some(going) = &going
        && !connection.runs.stop_and_wait(going, &connection.port, STOPPED).await
    {
        anyhow::bail!("the conversation still runs though it was stopped; try again in a moment");
    }
    let which = going.or(which);
    let find = {
        let store = store.clone();
        move || -> anyhow::Result<LoadedSession> {
            let id = match which {
                Some(id) => Some(id),
                None => store.list()?.into_iter().next().map(|newest| newest.id),
            };
            let id =
                id.ok_or_else(|| anyhow::anyhow!("there is no conversation yet to put into fewer words"))?;
            Ok(store.load_to_write(&id)?)
        }
    };
    let loaded = tokio::task::spawn_blocking(find).await??;
    let person_file = connection.homes.config.join("config.toml").to_string();
    let found = models::find_local(&project.config, &person_file).await;
    let asking = models::Asking {
        project,
        config: &project.config,
        folder: project.workspace.root().as_path(),
        found: found.as_deref(),
        files: &[],
    };
    let Chosen { model, summarizer, notes, .. } = asking.go_on(models::had(&loaded).as_deref())?;
    let talk = Session::builder(model, project.registry.clone())
        .summarizer(summarizer)
        .cwd(project.workspace.root().to_string())
        .store(store)
        .limits(limits(&project.config))
        .cancel(cancel.clone())
        .resume(loaded)
        .build();
    let compacted = talk.compact(wishes).await;
    talk.close(Duration::from_millis(200)).await;
    let done = match compacted? {
        true => "the conversation was put into fewer words; its file keeps everything",
        false => "nothing was put into fewer words: the conversation is short as it is",
    };
    let text = notes.iter().map(String::as_str).chain([done]).collect::<Vec<_>>().join("\n");
    Ok(Told { kind: Kind::Info, text, run: None })
}

/// So many conversations are listed.
const LISTED: usize = 100;

/// The project whose conversations are meant by who is at `near`: the folder that holds it, else the one that was worked in last, else
/// its own.
pub fn root(connection: &Connection, near: Option<&AbsPath>) -> Result<AbsPath, NoProject> {
    let Connection { projects, documents, .. } = connection;
    let elsewhere = near.is_none_or(|near| !projects.holds(near));
    let touched = elsewhere.then(|| projects.folder_near(&documents.last_touched())).flatten();
    touched.map_or_else(|| projects.root_for(near), |(folder, _)| Ok(folder))
}

/// The conversations of the project that `near` is in, the last active first.
///
/// # Errors
/// When there is no project, or our own folders fail.
pub async fn conversations(connection: &Arc<Connection>, near: Option<AbsPath>) -> anyhow::Result<Value> {
    let lease = connection.projects.open(&root(connection, near.as_ref())?).await?;
    let store = lease.project.sessions()?;
    let all = tokio::task::spawn_blocking(move || store.list()).await??;
    let told = all.into_iter().take(LISTED).map(|it| {
        json!({ "session": it.id, "title": it.title, "messages": it.messages, "lastActive": it.last_active })
    });
    Ok(json!({ "sessions": told.collect::<Vec<_>>() }))
}

/// Undo and redo, as the person's own command.
pub async fn take_back(
    connection: &Connection,
    id: &str,
    lease: &Lease,
    which: Option<&TakeBack>,
    cancel: &CancellationToken,
) -> anyhow::Result<Told> {
    let project = &lease.project;
    let which = match which {
        None => None,
        Some(TakeBack::Journal(undo)) => Some(undo.clone()),
        Some(TakeBack::Session(session)) => {
            let run = connection.runs.run_of(session);
            let run =
                run.ok_or_else(|| anyhow::anyhow!("the session {session} is not known, or still runs"))?;
            Some(Undo::Run(run))
        }
    };
    let cx = ToolCx::standalone(Standalone {
        call_id: "command".to_owned(),
        run: RunId::new(),
        starter: RunId::new(),
        cancel: cancel.clone(),
        policy: Arc::clone(&project.policy),
        approver: Arc::clone(&project.approver),
        tools: Arc::new(Toolset::whole(Arc::new(project.registry.clone()))),
        invoked: true,
        on_update: Box::new(|_| {}),
    });
    connection.runs.commits_as(id, &cx.run, &connection.port);
    let mut unsaved = Unsaved::watch(&project.workspace);
    let result = tools::take_back(&project.kit, &cx, which.as_ref()).await.unwrap_or_else(Into::into);
    let unsaved = unsaved.files(&cx.run);
    let text = with_unsaved(&result.joined_text(), &unsaved, &connection.client.message_form());
    let kind = if result.is_error { Kind::Error } else { Kind::Info };
    Ok(Told { kind, text, run: None })
}
