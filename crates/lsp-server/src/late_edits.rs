//! What becomes of edits that showed up after their run: the person is told, and what stays is put
//! into the journal, so that undo takes it back.

use std::sync::Arc;

use editor_sync::apply_edit::Late;

use super::messages::Kind;
use super::{Connection, messages};

pub fn heed(connection: &Arc<Connection>) {
    let connection_of = Arc::downgrade(connection);
    connection.port.on_late(move |late| {
        if let Some(connection) = connection_of.upgrade() {
            connection.tracker.clone().spawn(async move { tell(&connection, late).await });
        }
    });
}

async fn tell(connection: &Connection, late: Late) {
    let file = connection.named(&late.path);
    let text = match &late.stays {
        None => format!("the edit of {file} landed late after all, and was taken back"),
        Some(why) => {
            let undo = match record(connection, &late).await {
                Ok(()) => "undo takes it back".to_owned(),
                Err(error) => format!("undo does not know it: {error:#}"),
            };
            format!("the edit of {file} landed late after all, and stays: {why}; {undo}")
        }
    };
    messages::show(&connection.peer, &connection.client.message_form(), Kind::Warning, &text).await;
}

async fn record(connection: &Connection, late: &Late) -> anyhow::Result<()> {
    let root = connection.projects.root_for(Some(&late.path))?;
    let lease = connection.projects.open(&root).await?;
    let (workspace, late) = (lease.project.workspace.clone(), late.clone());
    let write = move || workspace.record(&late.run, "a late edit", &late.path, &late.before, &late.after);
    tokio::task::spawn_blocking(write).await??;
    Ok(())
}
