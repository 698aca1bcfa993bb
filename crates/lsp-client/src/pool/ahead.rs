//! Servers that start before the first request, to check the first edit.
//!
//! No request waits for them, and the user is not asked.
//!
//! Invariants: a server that failed is not started in advance again before a reload, and no more
//! servers start at once than may run.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use paths::AbsPath;

use super::{RequestCx, ServerPool};
use crate::error::ServerError;
use adapters::{Feature, ServerDefinition};

/// Servers that are starting or failed to start, by definition and package root.
#[derive(Default)]
pub(super) struct Ahead(Mutex<BTreeMap<(String, AbsPath), State>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Failed,
}

impl Ahead {
    fn states(&self) -> parking_lot::MutexGuard<'_, BTreeMap<(String, AbsPath), State>> {
        self.0.lock()
    }

    /// Allows another start of failed servers.
    pub(crate) fn clear_failures(&self) {
        self.states().retain(|_, state| *state == State::Starting);
    }
}

impl ServerPool {
    /// Starts the servers that report diagnostics for a file.
    ///
    /// Starts only those that are installed and may run without a prompt, one of each group.
    /// Returns whether one runs or starts now. Called within a tokio runtime.
    pub fn begin(self: &Arc<Self>, path: &AbsPath) -> bool {
        let (mut groups, mut any) = (HashSet::new(), false);
        for definition in self.applying(path, Feature::Diagnostics) {
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            let root = self.root_of(&definition, path);
            let mut starts = false;
            if !self.runs(&definition, &root) {
                if !self.policy.spawns_unasked(&root, definition.from_project)
                    || !self.is_in(&definition, &root)
                {
                    continue;
                }
                let key = (definition.name.clone(), root.clone());
                let mut states = self.ahead.states();
                let starting = states.values().filter(|state| **state == State::Starting).count();
                match states.get(&key) {
                    Some(State::Failed) => continue,
                    Some(State::Starting) => {}
                    None if starting >= self.limits.warm.max(1) => continue,
                    None => {
                        states.insert(key, State::Starting);
                        starts = true;
                    }
                }
            }
            groups.extend(definition.group.clone());
            any = true;
            if starts {
                let (this, path) = (Arc::clone(self), path.clone());
                self.tracker.spawn(async move {
                    let request = RequestCx::new(this.limits.start, &this.stop);
                    let clock = request.clock();
                    let started = this.get(&definition, &path, clock).await;
                    // Some servers load a project only with its first file.
                    if let (Ok(server), Ok(document)) = (&started, this.workspace.document(&path))
                        && let Err(error) = server.open(&document, clock).await
                    {
                        tracing::debug!(%error, "{path} was not opened in advance");
                    }
                    let mut states = this.ahead.states();
                    let state = states.remove(&(definition.name.clone(), root.clone()));
                    if let (Err(error), Some(_)) = (&started, state)
                        && !matches!(error, ServerError::Cancelled)
                    {
                        tracing::info!(%error, "not started in advance");
                        states.insert((definition.name.clone(), root), State::Failed);
                    }
                });
            }
        }
        any
    }

    /// Whether [`ServerPool::begin`] is starting a server of a file.
    pub fn is_starting(&self, path: &AbsPath) -> bool {
        let states = self.ahead.states().clone();
        !states.is_empty()
            && self.definitions().for_path(path.as_path()).iter().any(|definition| {
                let key = (definition.name.clone(), self.root_of(definition, path));
                states.get(&key) == Some(&State::Starting)
            })
    }

    /// The package root of a file whose servers do not run yet.
    ///
    /// Returns it only if that server also covers the language of one of `beside`.
    pub fn cold_root(&self, path: &AbsPath, beside: &[AbsPath]) -> Option<AbsPath> {
        if self.is_warm(path) {
            return None;
        }
        let found = self.applying(path, Feature::Diagnostics).into_iter().find(|definition| {
            beside.iter().any(|other| definition.language_id(other.as_path()).is_some())
                && self.is_in(definition, &self.root_of(definition, path))
        });
        found.map(|definition| self.root_of(&definition, path))
    }

    fn is_in(&self, definition: &ServerDefinition, root: &AbsPath) -> bool {
        !self.limits.search.find(definition, root, self.workspace.root()).is_empty()
    }
}
