//! Uncovered files: those whose servers a request to the whole workspace omitted.
//!
//! Invariants: a file is listed if a definition claims the feature for it and no server of its directory was
//! asked. Starts nothing.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use paths::AbsPath;
use workspace::Budget;

use crate::pool::ServerPool;
use crate::server::Server;
use adapters::Feature;

/// Maximum time of the scan.
pub(super) const LOOKING: Duration = Duration::from_secs(1);

/// Files that a request to the workspace did not cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unasked {
    /// The definitions of their servers, best first.
    pub servers: Vec<String>,
    /// The reason why they were not covered.
    pub why: UnaskedWhy,
    /// Files in order of path.
    pub files: Vec<AbsPath>,
}

/// Reason why no server of a file was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnaskedWhy {
    /// A server is installed and not running.
    Idle,
    /// A server runs and did not answer that request.
    Unable,
    /// The server is not installed.
    Missing,
}

/// A running server and its directories.
pub(super) struct Running {
    name: String,
    roots: Vec<AbsPath>,
}

impl Running {
    pub fn of(server: &Server) -> Self {
        Self { name: server.name().to_owned(), roots: server.core.folders().clone() }
    }
}

impl ServerPool {
    /// The files not covered for `feature`, and whether all files were scanned.
    ///
    /// Takes the servers that were asked and those that could not be. Blocking.
    pub(super) fn unasked(
        &self,
        feature: Feature,
        asked: &[Running],
        unable: &[Running],
        budget: Budget,
    ) -> (Vec<Unasked>, bool) {
        let mut found: BTreeMap<(UnaskedWhy, Vec<String>), Vec<AbsPath>> = BTreeMap::new();
        // Files of one kind in one directory have the same servers.
        let mut known = HashMap::new();
        let mut paths = self.workspace.candidates(self.workspace.files(self.workspace.root()), budget);
        for path in paths.by_ref() {
            let file = path.as_path();
            let kind = file.extension().or(file.file_name()).map(ToOwned::to_owned);
            let why: &Option<(UnaskedWhy, Vec<String>)> = known
                .entry((file.parent().map(ToOwned::to_owned), kind))
                .or_insert_with(|| self.why_unasked(&path, feature, asked, unable));
            if let Some(why) = why {
                found.entry(why.clone()).or_default().push(path);
            }
        }
        (listed(found), paths.is_complete())
    }

    /// The reason why a file was not covered; `None` if it was, or no server answers.
    fn why_unasked(
        &self,
        path: &AbsPath,
        feature: Feature,
        asked: &[Running],
        unable: &[Running],
    ) -> Option<(UnaskedWhy, Vec<String>)> {
        let definitions = self.applying(path, feature);
        let is_one_of = |servers: &[Running], name: &str| {
            servers.iter().any(|it| it.name == name && it.roots.iter().any(|root| path.starts_with(root)))
        };
        if definitions.iter().any(|it| is_one_of(asked, &it.name)) {
            return None;
        }
        // The best server that could be asked.
        for definition in &definitions {
            let why = match is_one_of(unable, &definition.name) {
                true => UnaskedWhy::Unable,
                false if self.is_there(definition) => UnaskedWhy::Idle,
                false => continue,
            };
            return Some((why, vec![definition.name.clone()]));
        }
        // Unverified servers are not reported as missing.
        let tried = definitions.iter().filter(|it| it.verified.is_some());
        let names: Vec<String> = tried.map(|it| it.name.clone()).collect();
        (!names.is_empty()).then_some((UnaskedWhy::Missing, names))
    }
}

fn listed(found: BTreeMap<(UnaskedWhy, Vec<String>), Vec<AbsPath>>) -> Vec<Unasked> {
    found.into_iter().map(|((why, servers), files)| Unasked { servers, why, files }).collect()
}
