//! Requests to other owners for their open documents.
//!
//! Each commit asks the owners of all workspaces, since one workspace may contain another.

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

/// The owners on this machine, without this process.
pub struct IpcPeers {
    run: StateDir,
    standalone: bool,
}

impl IpcPeers {
    /// Creates peers that lock files with unsaved text elsewhere.
    ///
    /// `standalone` locks every file that is open elsewhere.
    pub fn new(homes: &Homes, standalone: bool) -> Self {
        Self { run: homes.run.clone(), standalone }
    }

    /// Lists the sockets of all owners. Blocks.
    fn announced(&self) -> Vec<AbsPath> {
        let list = |directory: &StateDir| {
            directory.list().unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot list other editors");
                Vec::new()
            })
        };
        let directories = list(&self.run).into_iter().filter_map(|id| self.run.child(&id).ok());
        let directories = directories.filter(|directory| directory.path().as_path().is_dir());
        let sockets = directories.flat_map(|directory| {
            let others = |name: &String| process_of(name).is_some_and(|pid| pid != std::process::id());
            let names = list(&directory).into_iter().filter(others).collect::<Vec<_>>();
            names.into_iter().map(move |name| directory.path().join(name))
        });
        sockets.collect()
    }

    async fn ask(&self, socket: &AbsPath, paths: &BTreeSet<&Path>) -> Result<Vec<Hold>, Unreachable> {
        let client =
            Client::connect(socket.as_path(), &Hello::new(false, false, false), Arc::new(Unattended)).await?;
        let documents = client.documents().await;
        let owner = client.owner().clone();
        client.close().await;
        let holds = documents?.into_iter().filter_map(|document| {
            let reason = if document.dirty {
                format!("it has unsaved text in {owner}; save it there, or make this change there")
            } else if self.standalone {
                format!("it is open in {owner}; close it there, or omit --standalone")
            } else {
                return None;
            };
            let path = AbsPath::new(&document.path).filter(|path| paths.contains(path.as_path()))?;
            Some(Hold { path, reason })
        });
        Ok(holds.collect())
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
                        holds.notes.push(format!("{error}: its open files are not known"));
                    }
                }
            }
            holds
        })
    }
}
