//! The choice of servers for a request, by definition, root and capabilities.

use std::collections::HashSet;
use std::sync::Arc;

use paths::AbsPath;

use super::ServerPool;
use super::slot::InUse;
use crate::error::{Result, ServerError};
use crate::server::Clock;
use crate::server::capabilities::Capabilities;
use crate::server::request_table::Request;
use adapters::{Feature, ServerDefinition, ServerDefinitions};

impl ServerPool {
    /// Whether any definition covers the language of `path`.
    ///
    /// An unverified server counts only if it is installed.
    pub fn serves(&self, path: &AbsPath) -> bool {
        let top = self.workspace.root();
        self.definitions().for_path(path.as_path()).iter().any(|definition| {
            adapters::find_root(&definition.root, path, top).is_some()
                && (definition.verified.is_some() || self.is_there(definition))
        })
    }

    /// Names of the servers for diagnostics of a file, if none is installed.
    pub fn missing_servers(&self, path: &AbsPath) -> Vec<String> {
        let found = self.applying(path, Feature::Diagnostics);
        match found.iter().any(|definition| self.is_there(definition)) {
            true => Vec::new(),
            false => found.iter().map(|definition| definition.name.clone()).collect(),
        }
    }

    /// Whether a program for a definition is installed.
    pub(crate) fn is_there(&self, definition: &ServerDefinition) -> bool {
        let top = self.workspace.root();
        !self.limits.search.find(definition, top, top).is_empty()
    }

    pub(crate) fn is_verified(&self, name: &str) -> bool {
        self.definitions().get(name).is_some_and(|definition| definition.verified.is_some())
    }

    /// The definitions for `feature` of the file, best first.
    ///
    /// Omits those that lack a required root marker or another program.
    pub(crate) fn applying(&self, path: &AbsPath, feature: Feature) -> Vec<Arc<ServerDefinition>> {
        let mut found = self.definitions().for_feature(path.as_path(), feature);
        found.retain(|definition| {
            let rooted = !definition.root.required
                || adapters::find_root(&definition.root, path, self.workspace.root()).is_some();
            let needs = definition.requires.get(&feature);
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
    ) -> Result<InUse> {
        self.pick_offering(path, feature, |capabilities| capabilities.offers(feature), clock).await
    }

    /// The best server for a request about the file, started.
    pub(crate) async fn pick_for(
        self: &Arc<Self>,
        path: &AbsPath,
        request: &Request,
        clock: Clock<'_>,
    ) -> Result<InUse> {
        let feature = request.feature.unwrap_or(Feature::Hover);
        self.pick_offering(path, feature, |capabilities| capabilities.offers_request(request), clock).await
    }

    /// The server of the highest priority for a feature that `offers` accepts.
    async fn pick_offering(
        self: &Arc<Self>,
        path: &AbsPath,
        feature: Feature,
        offers: impl Fn(&Capabilities) -> bool,
        clock: Clock<'_>,
    ) -> Result<InUse> {
        let mut first: Option<ServerError> = None;
        let mut names = Vec::new();
        let mut groups = HashSet::new();
        for definition in self.applying(path, feature) {
            // Another server of the group offers no more than this one.
            if definition.group.as_ref().is_some_and(|group| groups.contains(group)) {
                continue;
            }
            names.push(definition.name.clone());
            match self.get(&definition, path, clock).await {
                Ok(server) if offers(&server.core.capabilities()) => return Ok(server),
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
            others.retain(|it| adapters::find_root(&it.root, path, top).is_some());
            names.extend(others.iter().map(|it| it.name.clone()));
        }
        if names.is_empty() {
            return Err(self.no_server(self.workspace.relative(path)));
        }
        Err(ServerError::Unsupported { server: names.join(", "), feature })
    }

    /// The error of a file that no usable definition covers.
    pub(crate) fn no_server(&self, path: String) -> ServerError {
        ServerError::NoServer { path, refused: refused(&self.definitions()) }
    }

    /// One server of each group for `feature` of the file, and the errors of others.
    pub(crate) async fn pick_all(
        self: &Arc<Self>,
        path: &AbsPath,
        feature: Feature,
        clock: Clock<'_>,
    ) -> Result<(Vec<InUse>, Vec<ServerError>)> {
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
                    // The server will answer for its group; a second one would repeat its answers.
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
                // Distinguishes a missing definition from a missing feature.
                return self.pick(path, feature, clock).await.map(|server| (vec![server], Vec::new()));
            }
            return Err(problems.swap_remove(0));
        }
        // A server that is not installed is not reported while others answer.
        problems.retain(|problem| !matches!(problem, ServerError::Missing { .. }));
        Ok((servers, problems))
    }

    /// Starts every server of a file's language, one of each group, or only `name`.
    pub(crate) async fn all_of(
        self: &Arc<Self>,
        path: &AbsPath,
        name: Option<&str>,
        clock: Clock<'_>,
    ) -> Result<Vec<InUse>> {
        let mut definitions = self.definitions().for_path(path.as_path());
        let top = self.workspace.root();
        definitions.retain(|it| adapters::find_root(&it.root, path, top).is_some());
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

/// A clause that names refused definition files, any of which may be relevant.
fn refused(definitions: &ServerDefinitions) -> String {
    let each: Vec<String> = definitions.refused().iter().map(ToString::to_string).collect();
    match each.is_empty() {
        true => String::new(),
        false => format!("; refused definitions: {}", each.join("; ")),
    }
}
