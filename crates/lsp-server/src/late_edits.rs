//! Late edits: the user is notified, and undo can revert those that stay.

use std::sync::Arc;

use editor_sync::apply_edit::LateEdit;

use super::messages::Kind;
use super::{Connection, messages};

/// Reports late edits of the connection's editor.
pub fn subscribe(connection: &Arc<Connection>) {
    let weak = Arc::downgrade(connection);
    connection.port.on_late(move |late| {
        if let Some(connection) = weak.upgrade() {
            connection.tracker.clone().spawn(async move { report(&connection, late).await });
        }
    });
}

async fn report(connection: &Connection, late: LateEdit) {
    let file = connection.display_path(&late.path);
    let text = match &late.not_reverted {
        None => format!("the editor applied the edit of {file} late, so it was reverted"),
        Some(reason) => {
            let undo = match record(connection, &late).await {
                Ok(()) => "undo reverts it".to_owned(),
                Err(error) => format!("undo cannot revert it: {error:#}"),
            };
            format!("the editor applied the edit of {file} late, and it stays: {reason}; {undo}")
        }
    };
    messages::show(&connection.peer, &connection.client.message_form(), Kind::Warning, &text).await;
}

async fn record(connection: &Connection, late: &LateEdit) -> anyhow::Result<()> {
    let root = connection.projects.root_for(Some(&late.path))?;
    let lease = connection.projects.open(&root).await?;
    let (workspace, late) = (lease.project.workspace.clone(), late.clone());
    let write = move || workspace.record(&late.run, "a late edit", &late.path, &late.before, &late.after);
    tokio::task::spawn_blocking(write).await??;
    Ok(())
}
