//! Which servers a question is for, by the definitions, the place of the file and what each offers.

use std::collections::HashSet;
use std::sync::Arc;

use workspace::AbsPath;

use super::ServerPool;
use super::slot::InUse;
use crate::definition::{Feature, ServerDefinition};
use crate::discovery;
use crate::error::ServerError;
use crate::server::Clock;

impl ServerPool {
    /// Whether any definition speaks the language of `path`.
    ///
    /// One that was never tried counts only if its program is there.
    pub fn serves(&self, path: &AbsPath) -> bool {
        let top = self.workspace.root();
        self.definitions().for_path(path.as_path()).iter().any(|definition| {
            discovery::find_root(&definition.root, path, top).is_some()
                && (definition.verified.is_some() || self.is_there(definition))
        })
    }

    /// The definitions whose servers could say what is wrong with a file, by their names, where the program
    /// of none is there.
    pub fn lacking(&self, path: &AbsPath) -> Vec<String> {
        let found = self.applying(path, Feature::Diagnostics);
        match found.iter().any(|definition| self.is_there(definition)) {
            true => Vec::new(),
            false => found.iter().map(|definition| definition.name.clone()).collect(),
        }
    }

    /// Whether some program for a definition is there.
    pub(crate) fn is_there(&self, definition: &ServerDefinition) -> bool {
        let top = self.workspace.root();
        !self.limits.search.find(definition, top, top).is_empty()
    }

    pub(crate) fn is_verified(&self, name: &str) -> bool {
        self.definitions().get(name).is_some_and(|definition| definition.verified.is_some())
    }

    /// The definitions to be asked for `feature` of a file, best first, without those whose root marker
    /// is required and not there, or that need another program for it which is not there.
    pub(crate) fn applying(&self, path: &AbsPath, feature: Feature) -> Vec<Arc<ServerDefinition>> {
        let mut found = self.definitions().for_feature(path.as_path(), feature);
        found.retain(|definition| {
            let rooted = !definition.root.required
                || discovery::find_root(&definition.root, path, self.workspace.root()).is_some();
            let needs = definition.needs.get(&feature);
            rooted
                && needs
                    .is_none_or(|programs| programs.iter().any(|it| self.limits.search.helper(it).is_some()))
        });
        found
    }

    /// The best server for `feature` of the file, started.
    pub(crate) async fn pick(
        self: &Arc<Self>,
        path: &AbsPath,
        feature: Feature,
        clock: Clock<'_>,
    ) -> Result<InUse, ServerError> {
        let mut first: Option<ServerError> = None;
        let mut names = Vec::new();
        let mut groups = HashSet::new();
        for definition in self.applying(path, feature) {
            // Another of its group would offer no more.
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            names.push(definition.name.clone());
            match self.get(&definition, path, clock).await {
                Ok(server) if server.core.capabilities().offers(feature) => return Ok(server),
                Ok(_) => groups.extend(definition.group.clone()),
                Err(error @ ServerError::Missing { .. }) => first = first.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = first {
            return Err(error);
        }
        if names.is_empty() {
            let mut others = self.definitions().for_path(path.as_path());
            let top = self.workspace.root();
            others.retain(|it| discovery::find_root(&it.root, path, top).is_some());
            names.extend(others.iter().map(|it| it.name.clone()));
        }
        if names.is_empty() {
            return Err(self.no_server(self.workspace.relative(path)));
        }
        Err(ServerError::Unsupported { server: names.join(", "), feature })
    }

    /// No definition is for it, or none that could be used.
    pub(crate) fn no_server(&self, path: String) -> ServerError {
        ServerError::NoServer { path, refused: self.definitions().refused() }
    }

    /// Every server for `feature` of the file, one of each group, with what kept the others away.
    pub(crate) async fn pick_all(
        self: &Arc<Self>,
        path: &AbsPath,
        feature: Feature,
        clock: Clock<'_>,
    ) -> Result<(Vec<InUse>, Vec<ServerError>), ServerError> {
        let mut servers = Vec::new();
        let mut problems = Vec::new();
        let mut groups = HashSet::new();
        for definition in self.applying(path, feature) {
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            match self.get(&definition, path, clock).await {
                Err(error @ ServerError::Cancelled) => return Err(error),
                Err(error) => {
                    // It will answer for its group; a second one beside it would say all twice.
                    if matches!(error, ServerError::Starting { .. }) {
                        groups.extend(definition.group.clone());
                    }
                    problems.push(error);
                }
                Ok(server) => {
                    groups.extend(definition.group.clone());
                    if server.core.capabilities().offers(feature) {
                        servers.push(server);
                    }
                }
            }
        }
        if servers.is_empty() {
            if problems.is_empty() {
                // Says whether no server is defined or none can.
                return self.pick(path, feature, clock).await.map(|server| (vec![server], Vec::new()));
            }
            return Err(problems.swap_remove(0));
        }
        // One that is not installed is no news while others answer.
        problems.retain(|problem| !matches!(problem, ServerError::Missing { .. }));
        Ok((servers, problems))
    }

    /// Every server that speaks the language of a file, one of each group, started; of `name` alone if
    /// one is given.
    pub(crate) async fn all_of(
        self: &Arc<Self>,
        path: &AbsPath,
        name: Option<&str>,
        clock: Clock<'_>,
    ) -> Result<Vec<InUse>, ServerError> {
        let mut definitions = self.definitions().for_path(path.as_path());
        let top = self.workspace.root();
        definitions.retain(|it| discovery::find_root(&it.root, path, top).is_some());
        if definitions.is_empty() {
            return Err(self.no_server(self.workspace.relative(path)));
        }
        definitions.retain(|definition| name.is_none_or(|name| name == definition.name));
        definitions.sort_by_key(|definition| definition.rank);
        let (mut servers, mut groups, mut first) = (Vec::new(), HashSet::new(), None);
        for definition in definitions {
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            match self.get(&definition, path, clock).await {
                Ok(server) => {
                    groups.extend(definition.group.clone());
                    servers.push(server);
                }
                Err(ServerError::Cancelled) => return Err(ServerError::Cancelled),
                Err(error) => {
                    if matches!(error, ServerError::Starting { .. }) {
                        groups.extend(definition.group.clone());
                    }
                    first = first.or(Some(error));
                }
            }
        }
        match first {
            Some(error) if servers.is_empty() => Err(error),
            _ => Ok(servers),
        }
    }
}
