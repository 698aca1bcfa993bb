//! The choice of a server's slot: one for each package root, or one for all.
//!
//! A server that supports workspace folders has one slot for all roots.
//!
//! Invariants: at most one server per definition and root, and a request about a file goes to a server of the
//! file's root.

use std::sync::Arc;

use paths::AbsPath;

use super::ServerPool;
use super::slot::{InUse, Place, Slot};
use crate::error::Result;
use crate::server::Clock;
use adapters::ServerDefinition;

impl ServerPool {
    /// Whether a server for `path` runs and covers, or would accept, its root.
    ///
    /// Then a request starts nothing.
    pub fn is_warm(&self, path: &AbsPath) -> bool {
        let definitions = self.definitions().for_path(path.as_path());
        definitions.iter().any(|definition| self.runs(definition, &self.root_of(definition, path)))
    }

    /// Whether the server of a definition runs for a package root, or would accept it.
    pub(super) fn runs(&self, definition: &ServerDefinition, root: &AbsPath) -> bool {
        let shared = || {
            let slot = self.slot(definition, &Place::Shared).filter(|_| definition.root.workspace_folders)?;
            let server = slot.running().filter(|_| !slot.refuses(root))?;
            let takes = slot.works_on(root) || server.core.capabilities().takes_folders();
            takes.then_some(server)
        };
        let own = self.slot(definition, &Place::Own(root.clone())).and_then(|slot| slot.running());
        own.or_else(shared).is_some()
    }

    /// The package of a file; one server may serve several packages.
    pub(crate) fn package_of(&self, definition: &ServerDefinition, path: &AbsPath) -> AbsPath {
        adapters::find_package(&definition.root, path, self.workspace.root())
    }

    /// The root of a file for a server, or the workspace's.
    pub(crate) fn root_of(&self, definition: &ServerDefinition, path: &AbsPath) -> AbsPath {
        let top = self.workspace.root();
        adapters::find_root(&definition.root, path, top).unwrap_or_else(|| top.clone())
    }

    /// The server of a definition for a file, started if necessary and initialized.
    pub(super) async fn get(
        self: &Arc<Self>,
        definition: &Arc<ServerDefinition>,
        path: &AbsPath,
        clock: Clock<'_>,
    ) -> Result<InUse> {
        let server = self.started(definition, path, clock).await?;
        server.openable(clock).await?;
        Ok(server)
    }

    async fn started(
        self: &Arc<Self>,
        definition: &Arc<ServerDefinition>,
        path: &AbsPath,
        clock: Clock<'_>,
    ) -> Result<InUse> {
        let root = self.root_of(definition, path);
        if definition.root.workspace_folders {
            // One server for all package roots, unless it accepts no more of them.
            let slot = self.slot_for(definition, Place::Shared, &root);
            if !slot.refuses(&root) {
                let server = self.start_in(&slot, clock).await?;
                let takes = server.include(&root).await;
                let mut state = slot.state();
                if takes {
                    // A restart begins with all package roots.
                    if !state.folders.contains(&root) {
                        state.folders.push(root);
                    }
                    return Ok(server);
                }
                state.refuses_folders = true;
            }
        }
        let slot = self.slot_for(definition, Place::Own(root.clone()), &root);
        self.start_in(&slot, clock).await
    }

    fn slot(&self, definition: &ServerDefinition, place: &Place) -> Option<Arc<Slot>> {
        let slots = self.slots.lock();
        slots.get(&(definition.name.clone(), place.clone())).cloned()
    }

    /// The slot, with `folder` as its first package root if it is new.
    fn slot_for(&self, definition: &Arc<ServerDefinition>, place: Place, folder: &AbsPath) -> Arc<Slot> {
        let root = match &place {
            Place::Shared => self.workspace.root().clone(),
            Place::Own(root) => root.clone(),
        };
        let mut slots = self.slots.lock();
        let slot = slots
            .entry((definition.name.clone(), place))
            .or_insert_with(|| Slot::new(definition, &root, folder));
        Arc::clone(slot)
    }
}
