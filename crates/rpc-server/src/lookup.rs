//! Which owner, of those that announce themselves for a workspace, carries a command out.

use std::sync::Arc;

use anyhow::bail;
use futures_util::future::join_all;
use paths::Homes;
use policy::Approver;

use super::client::{Client, Unreachable};
use super::protocol::Hello;
use super::{place, process_of};

/// The owner of the workspace with this id that is to carry a command out; `None` when there is none.
/// Of several: the one with most unsaved text, then the one that came last.
///
/// # Errors
/// When there is one that cannot be asked, and none that can: its message says which and what to do.
pub async fn find(
    homes: &Homes,
    id: &str,
    hello: &Hello,
    approver: &Arc<dyn Approver>,
) -> anyhow::Result<Option<Client>> {
    let folder = place(homes, id)?;
    let mut names = folder.list()?;
    names.retain(|name| process_of(name).is_some_and(|process| process != std::process::id()));
    let connect = names.iter().map(|name| {
        let path = folder.path().join(name);
        async move { Client::connect(path.as_path(), hello, Arc::clone(approver)).await }
    });
    let mut clients = Vec::new();
    let mut problem = None;
    for (name, connected) in names.iter().zip(join_all(connect).await) {
        match connected {
            Ok(client) => clients.push((folder.stat(name).map(|(at, _)| at), client)),
            // It left its name behind, or ended just now.
            Err(Unreachable::Gone(_)) => {}
            Err(error) => problem = Some(error),
        }
    }
    if let (true, Some(problem)) = (clients.is_empty(), problem) {
        let help = match &problem {
            Unreachable::Stranger { .. } => {
                "use the same Pilcrow in both places, or repeat with --standalone"
            }
            Unreachable::Hung(_) => {
                "it has this project open: close that editor or end the process, or repeat with --standalone"
            }
            _ => "repeat with --standalone to go past it",
        };
        bail!("{problem}, so nothing was done; {help}");
    }
    if clients.len() > 1 {
        clients = by_merit(clients).await;
    }
    Ok(clients.into_iter().next().map(|(_, client)| client))
}

type AnnouncedSession = (Option<u64>, Client);

/// The best one first.
async fn by_merit(clients: Vec<AnnouncedSession>) -> Vec<AnnouncedSession> {
    let unsaved = join_all(clients.iter().map(|(_, client)| async {
        let documents = client.documents().await.unwrap_or_default();
        documents.iter().filter(|document| document.dirty).count()
    }));
    let unsaved = unsaved.await;
    let mut all: Vec<(usize, AnnouncedSession)> = unsaved.into_iter().zip(clients).collect();
    all.sort_by_key(|(unsaved, (at, _))| std::cmp::Reverse((*unsaved, *at)));
    all.into_iter().map(|(_, client)| client).collect()
}
