//! What other owners hold, asked before each commit: of every workspace, since one may lie inside
//! another.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use paths::{AbsPath, Homes, StateDir};
use policy::Unattended;
use workspace::{Hold, Holds, Peers};

use super::client::{Client, Unreachable};
use super::process_of;
use super::protocol::Hello;

/// The owners on this machine, but for this process.
pub struct IpcPeers {
    run: StateDir,
    standalone: bool,
}

impl IpcPeers {
    /// Files with unsaved text elsewhere are held; with `standalone` every file that is open elsewhere.
    pub fn new(homes: &Homes, standalone: bool) -> Self {
        Self { run: homes.run.clone(), standalone }
    }

    /// The sockets that are announced. Blocks.
    fn announced(&self) -> Vec<AbsPath> {
        let list = |folder: &StateDir| {
            folder.list().unwrap_or_else(|error| {
                tracing::warn!(%error, "other editors cannot be looked for");
                Vec::new()
            })
        };
        let folders = list(&self.run).into_iter().filter_map(|id| self.run.child(&id).ok());
        let sockets = folders.filter(|folder| folder.path().as_path().is_dir()).flat_map(|folder| {
            let others = |name: &String| process_of(name).is_some_and(|pid| pid != std::process::id());
            let names = list(&folder).into_iter().filter(others).collect::<Vec<_>>();
            names.into_iter().map(move |name| folder.path().join(name))
        });
        sockets.collect()
    }

    async fn ask(&self, socket: &AbsPath, paths: &BTreeSet<&Path>) -> Result<Vec<Hold>, Unreachable> {
        let client =
            Client::connect(socket.as_path(), &Hello::new(false, false, false), Arc::new(Unattended)).await?;
        let documents = client.documents().await;
        let who = client.who().clone();
        client.close().await;
        let held = documents?.into_iter().filter_map(|document| {
            let reason = if document.dirty {
                format!("it has unsaved text, which {who} holds; save it there, or make this change there")
            } else if self.standalone {
                format!("{who} has it open; close it there, or leave out --standalone")
            } else {
                return None;
            };
            let path = AbsPath::new(&document.path).filter(|path| paths.contains(path.as_path()))?;
            Some(Hold { path, reason })
        });
        Ok(held.collect())
    }
}

impl Peers for IpcPeers {
    fn holds<'a>(&'a self, paths: &'a [AbsPath]) -> BoxFuture<'a, Holds> {
        Box::pin(async move {
            let sockets = self.announced();
            let paths: BTreeSet<&Path> = paths.iter().map(AbsPath::as_path).collect();
            let mut holds = Holds::default();
            for answer in join_all(sockets.iter().map(|socket| self.ask(socket, &paths))).await {
                match answer {
                    Ok(held) => holds.held.extend(held),
                    Err(Unreachable::Gone(_)) => {}
                    Err(error) => {
                        holds.notes.push(format!("{error}: whether it has a file open is not known"));
                    }
                }
            }
            holds
        })
    }
}
