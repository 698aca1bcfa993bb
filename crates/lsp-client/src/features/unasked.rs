//! The files whose servers a question to the whole workspace did not reach.
//!
//! What must stay true: a file is told where a definition claims the feature for it, and no server that works on
//! its folder was asked. Starts nothing.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use workspace::AbsPath;

use crate::definition::Feature;
use crate::pool::ServerPool;
use crate::server::Server;

/// How long files are looked for.
pub(super) const LOOKING: Duration = Duration::from_secs(1);

/// Files that a question to the workspace was not about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unasked {
    /// The definitions of their servers, by their names, best first.
    pub servers: Vec<String>,
    /// What kept them from it.
    pub why: UnaskedWhy,
    /// In order of their paths.
    pub files: Vec<AbsPath>,
}

/// Why no server of a file was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnaskedWhy {
    /// Its program is there, and it does not run.
    Idle,
    /// It runs, and has no answer to that question.
    Unable,
    /// Its program is not there.
    Missing,
}

/// A server that runs, and where it works.
pub(super) struct Running {
    name: String,
    folders: Vec<AbsPath>,
}

impl Running {
    pub fn of(server: &Server) -> Self {
        Self { name: server.name().to_owned(), folders: server.core.folders().clone() }
    }
}

impl ServerPool {
    /// The files that `feature` was not asked about, where `asked` were and `unable` could not be; whether all
    /// files were looked at by then. Blocking.
    pub(super) fn unasked(
        &self,
        feature: Feature,
        asked: &[Running],
        unable: &[Running],
        until: Instant,
    ) -> (Vec<Unasked>, bool) {
        let mut found: BTreeMap<(UnaskedWhy, Vec<String>), Vec<AbsPath>> = BTreeMap::new();
        // Of one kind in one folder it is the same.
        let mut known = HashMap::new();
        for (count, path) in self.workspace.files(self.workspace.root()).enumerate() {
            if count % 64 == 0 && Instant::now() >= until {
                return (listed(found), false);
            }
            let file = path.as_path();
            let kind = file.extension().or(file.file_name()).map(ToOwned::to_owned);
            let why: &Option<(UnaskedWhy, Vec<String>)> = known
                .entry((file.parent().map(ToOwned::to_owned), kind))
                .or_insert_with(|| self.why_unasked(&path, feature, asked, unable));
            if let Some(why) = why {
                found.entry(why.clone()).or_default().push(path);
            }
        }
        (listed(found), true)
    }

    /// `None`: it was asked about, or nobody has an answer about such a file.
    fn why_unasked(
        &self,
        path: &AbsPath,
        feature: Feature,
        asked: &[Running],
        unable: &[Running],
    ) -> Option<(UnaskedWhy, Vec<String>)> {
        let definitions = self.applying(path, feature);
        let is_one_of = |servers: &[Running], name: &str| {
            servers
                .iter()
                .any(|it| it.name == name && it.folders.iter().any(|folder| path.starts_with(folder)))
        };
        if definitions.iter().any(|it| is_one_of(asked, &it.name)) {
            return None;
        }
        // The best one that could be asked.
        for definition in &definitions {
            let why = match is_one_of(unable, &definition.name) {
                true => UnaskedWhy::Unable,
                false if self.is_there(definition) => UnaskedWhy::Idle,
                false => continue,
            };
            return Some((why, vec![definition.name.clone()]));
        }
        // What was never tried here is not missed.
        let tried = definitions.iter().filter(|it| it.verified.is_some());
        let names: Vec<String> = tried.map(|it| it.name.clone()).collect();
        (!names.is_empty()).then_some((UnaskedWhy::Missing, names))
    }
}

fn listed(found: BTreeMap<(UnaskedWhy, Vec<String>), Vec<AbsPath>>) -> Vec<Unasked> {
    found.into_iter().map(|((why, servers), files)| Unasked { servers, why, files }).collect()
}
