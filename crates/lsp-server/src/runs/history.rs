//! What is done with conversations and runs of before: put into fewer words, listed, taken back.

use std::sync::Arc;

use agent::{EventSink, deadlines};
use host::{CompactReport, CompactRequest, Reply};
use paths::AbsPath;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::{RunId, Undo};

use super::{TakeBack, Told, with_unsaved};
use crate::Connection;
use crate::messages::Kind;
use crate::projects::{Lease, NoProject};

/// Puts a conversation of the project into fewer words; a run of it in this editor is stopped first.
pub async fn compact(
    connection: &Connection,
    lease: &Lease,
    which: Option<String>,
    instructions: &str,
    cancel: &CancellationToken,
) -> anyhow::Result<Told> {
    let project = &lease.project;
    let going = connection.runs.conversation(which.as_deref(), project.workspace.root());
    if let Some(going) = &going
        && !connection.runs.stop_and_wait(going, &connection.port, deadlines::RUN_BEFORE_COMPACTION).await
    {
        anyhow::bail!("the conversation still runs though it was stopped; try again in a moment");
    }
    let which = going.or(which);
    let request =
        CompactRequest { session: which, instructions: instructions.to_owned(), ..CompactRequest::default() };
    let sink = Arc::clone(&project.frontend) as Arc<dyn EventSink>;
    let report = match project.scope().compact(request, sink, cancel).await? {
        Reply::Done(report) => report,
        Reply::InvalidRequest(reason) => anyhow::bail!(reason),
    };
    let done = match report {
        CompactReport { error: Some(error), .. } => anyhow::bail!(error),
        CompactReport { compacted: true, .. } => "compacted the conversation; its file keeps everything",
        CompactReport { compacted: false, .. } => "nothing to compact: the conversation is short",
    };
    let text = report.notes.iter().map(String::as_str).chain([done]).collect::<Vec<_>>().join("\n");
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
pub async fn undo(
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
    let run = RunId::new();
    connection.runs.commits_as(id, &run, &connection.port);
    let (result, unsaved) = project.scope().undo(which.as_ref(), run, cancel).await;
    let text = with_unsaved(&result.joined_text(), &unsaved, &connection.client.message_form());
    let kind = if result.is_error { Kind::Error } else { Kind::Info };
    Ok(Told { kind, text, run: None })
}
