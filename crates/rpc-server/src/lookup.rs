//! Selection of the owner that executes a command.

use std::sync::Arc;

use anyhow::bail;
use futures_util::future::join_all;
use paths::Homes;
use policy::Approver;

use super::client::{Client, Unreachable};
use super::protocol::Hello;
use super::{process_of, socket_directory};

/// Connects to an owner of the workspace with this id; `None` if there is none.
///
/// Prefers the one with most unsaved documents, then most open ones (an editor), then the newest.
///
/// # Errors
/// If owners exist, but none is reachable.
pub async fn find(
    homes: &Homes,
    id: &str,
    hello: &Hello,
    approver: &Arc<dyn Approver>,
) -> anyhow::Result<Option<Client>> {
    let directory = socket_directory(homes, id)?;
    let mut names = directory.list()?;
    names.retain(|name| process_of(name).is_some_and(|process| process != std::process::id()));
    let connect = names.iter().map(|name| {
        let path = directory.path().join(name);
        async move { Client::connect(path.as_path(), hello, Arc::clone(approver)).await }
    });
    let mut clients = Vec::new();
    let mut problem = None;
    for (name, connected) in names.iter().zip(join_all(connect).await) {
        match connected {
            Ok(client) => clients.push((directory.stat(name).map(|(at, _)| at), client)),
            // A stale socket, or the owner has just ended.
            Err(Unreachable::Gone(_)) => {}
            Err(error) => problem = Some(error),
        }
    }
    if let (true, Some(problem)) = (clients.is_empty(), problem) {
        let help = match &problem {
            Unreachable::Incompatible { .. } => {
                "use the same version of Pilcrow in both places, or repeat with --standalone"
            }
            Unreachable::Hung(_) => {
                "it has this project open: close that editor or stop the process, or repeat with --standalone"
            }
            _ => "repeat with --standalone to bypass it",
        };
        bail!("{problem}; nothing was done: {help}");
    }
    if clients.len() > 1 {
        clients = sort_by_documents(clients).await;
    }
    Ok(clients.into_iter().next().map(|(_, client)| client))
}

type AnnouncedClient = (Option<u64>, Client);

/// Sorts clients by their numbers of unsaved and of open documents, largest first.
async fn sort_by_documents(clients: Vec<AnnouncedClient>) -> Vec<AnnouncedClient> {
    let counts = join_all(clients.iter().map(|(_, client)| async {
        let documents = client.documents().await.unwrap_or_default();
        (documents.iter().filter(|document| document.dirty).count(), documents.len())
    }));
    let counts = counts.await;
    let mut all: Vec<((usize, usize), AnnouncedClient)> = counts.into_iter().zip(clients).collect();
    all.sort_by_key(|(counts, (at, _))| std::cmp::Reverse((*counts, *at)));
    all.into_iter().map(|(_, client)| client).collect()
}
