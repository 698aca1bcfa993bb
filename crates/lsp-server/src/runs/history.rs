//! Compaction, listing and undo of earlier conversations and runs.

use std::sync::Arc;

use agent::{EventSink, deadlines};
use host::{CompactReport, CompactRequest, Reply};
use paths::AbsPath;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use workspace::{RunId, Undo};

use super::{RunSummary, UndoTarget, with_unsaved};
use crate::Connection;
use crate::messages::Kind;
use crate::projects::{Lease, NoProject};

/// Compacts a conversation of the project. Stops its run in this editor first.
pub async fn compact(
    connection: &Connection,
    lease: &Lease,
    which: Option<String>,
    instructions: &str,
    cancel: &CancellationToken,
) -> anyhow::Result<RunSummary> {
    let project = &lease.project;
    let running = connection.runs.running_conversation(which.as_deref(), project.workspace.root());
    if let Some(running) = &running
        && !connection.runs.stop_and_wait(running, &connection.port, deadlines::RUN_BEFORE_COMPACTION).await
    {
        anyhow::bail!("the conversation did not stop in time; try again");
    }
    let which = running.or(which);
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
    Ok(RunSummary { kind: Kind::Info, text, run: None, stopped: false })
}

/// Maximum number of listed conversations.
const MAX_LISTED: usize = 100;

/// Finds the root of the project whose conversations belong to `near`.
///
/// It is the folder that contains `near`, else the last used folder, else the directory of `near`.
pub fn root(connection: &Connection, near: Option<&AbsPath>) -> Result<AbsPath, NoProject> {
    let Connection { projects, documents, .. } = connection;
    let is_outside = near.is_none_or(|near| !projects.contains(near));
    let touched = is_outside.then(|| projects.folder_near(&documents.last_touched())).flatten();
    touched.map_or_else(|| projects.root_for(near), |(folder, _)| Ok(folder))
}

/// Lists the conversations of the project of `near`, most recently active first.
///
/// # Errors
/// When there is no project, or its sessions cannot be read.
pub async fn conversations(connection: &Arc<Connection>, near: Option<AbsPath>) -> anyhow::Result<Value> {
    let lease = connection.projects.open(&root(connection, near.as_ref())?).await?;
    let store = lease.project.sessions()?;
    let all = tokio::task::spawn_blocking(move || store.list()).await??;
    let listed = all.into_iter().take(MAX_LISTED).map(|entry| {
        json!({
            "session": entry.id,
            "title": entry.title,
            "messages": entry.messages,
            "lastActive": entry.last_active,
        })
    });
    Ok(json!({ "sessions": listed.collect::<Vec<_>>() }))
}

/// Executes the user's command `undo` or `redo`.
pub async fn undo(
    connection: &Connection,
    id: &str,
    lease: &Lease,
    which: Option<&UndoTarget>,
    cancel: &CancellationToken,
) -> anyhow::Result<RunSummary> {
    let project = &lease.project;
    let which = match which {
        None => None,
        Some(UndoTarget::Journal(undo)) => Some(undo.clone()),
        Some(UndoTarget::Session(session)) => {
            let run = connection.runs.last_run(session).or_else(|| connection.sessions.last_run(session));
            let run = run.ok_or_else(|| anyhow::anyhow!("the session {session} is unknown or still runs"))?;
            Some(Undo::Run(run))
        }
    };
    let run = RunId::new();
    connection.runs.set_run(id, &run, &connection.port);
    let (result, unsaved) = project.scope().undo(which.as_ref(), run, cancel).await;
    connection.review.changed(None).await;
    let text = with_unsaved(&result.joined_text(), &unsaved, &connection.client.message_form());
    let kind = if result.is_error { Kind::Error } else { Kind::Info };
    Ok(RunSummary { kind, text, run: None, stopped: false })
}
