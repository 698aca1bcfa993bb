//! An edit tried on every server of its files at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use workspace::{AbsPath, Document};

use super::check::Checked;
use crate::definition::Feature;
use crate::error::ServerError;
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::Server;
use crate::trial::{self, NotTried, Trial, TrialFile};

/// How long is waited for a server that does not run.
const START: Duration = Duration::from_millis(500);

/// What came of trying an edit.
#[derive(Debug, Default)]
pub struct Tried {
    /// What each server says of each file as the edit would leave it; ranges are of that text.
    pub files: BTreeMap<AbsPath, Vec<Checked>>,
    /// Servers on which it was not tried, and why.
    pub not_tried: Vec<(String, NotTried)>,
}

impl ServerPool {
    /// Shows every server of the files what an edit would make of them, and asks what it says of them
    /// and of `dependents`. Nothing is written; afterwards each server has its texts as before, also
    /// when the future is dropped. Takes 5 s at most, and so does whoever else asks those servers.
    /// `edited` is all that the edit changes: a server that reads one of those without being shown it has
    /// nothing to say.
    pub async fn try_edit(
        self: &Arc<Self>,
        files: &[TrialFile],
        edited: &[AbsPath],
        dependents: &[Document],
        cx: &RequestCx,
    ) -> Tried {
        let mut out = Tried::default();
        let mut trials: Vec<Trial> = Vec::new();
        let mut in_use = Vec::new();
        for file in files {
            let servers = self.servers_for(&file.document.path, &cx.within(START), &mut out).await;
            for server in servers {
                at(&mut trials, Arc::clone(&server)).asked.insert(file.document.path.clone());
                // Not stopped to make room before the end.
                in_use.push(server);
            }
        }
        for document in dependents {
            // One that is not to be shown the edit would say nothing new of them.
            for server in self.servers_for(&document.path, &cx.within(START), &mut Tried::default()).await {
                if trials.iter().any(|it| it.server.name() == server.name()) {
                    at(&mut trials, Arc::clone(&server)).dependents.push(document.clone());
                    in_use.push(server);
                }
            }
        }
        show_all(&mut trials, files);
        let edited: BTreeSet<&AbsPath> =
            edited.iter().chain(files.iter().map(|file| &file.document.path)).collect();
        let runs = trials.into_iter().map(|mut trial| {
            let hindrance = trial::hindrance(&trial, &edited);
            let (server, left_out) = (Arc::clone(&trial.server), trial.narrow());
            async move {
                let found = match (hindrance, left_out) {
                    (Some(reason), _) => (Err(reason), None),
                    (None, Some(reason)) if trial.asked.is_empty() => (Err(reason), None),
                    (None, left_out) => (trial::run(trial, cx.clock(), self.tracker()).await, left_out),
                };
                (server, found)
            }
        });
        let mut not_tried = |name: &str, reason: NotTried| {
            let row = (name.to_owned(), reason);
            if !out.not_tried.contains(&row) {
                out.not_tried.push(row);
            }
        };
        for (server, (found, left_out)) in futures_util::future::join_all(runs).await {
            match found {
                Err(reason) => not_tried(server.name(), reason),
                Ok(found) => {
                    left_out.into_iter().for_each(|reason| not_tried(server.name(), reason));
                    for (path, known) in found {
                        out.files.entry(path).or_default().push(Checked::of(&server, known));
                    }
                }
            }
        }
        drop(in_use);
        out
    }

    async fn servers_for(self: &Arc<Self>, path: &AbsPath, cx: &RequestCx, out: &mut Tried) -> Vec<InUse> {
        let (servers, problems) = match self.pick_all(path, Feature::Diagnostics, cx.clock()).await {
            Ok(picked) => picked,
            Err(error) => (Vec::new(), vec![error]),
        };
        for problem in problems {
            let ServerError::Starting { server, .. } = &problem else { continue };
            let reason = NotTried::Because(problem.to_string());
            if !out.not_tried.iter().any(|(name, _)| name == server) {
                out.not_tried.push((server.clone(), reason));
            }
        }
        servers
    }
}

/// Gives each server what all of its definition are asked about: that of another package would read it from
/// the disk.
fn show_all(trials: &mut [Trial], files: &[TrialFile]) {
    let mut shown: BTreeMap<String, BTreeSet<AbsPath>> = BTreeMap::new();
    for trial in &*trials {
        shown.entry(trial.server.name().to_owned()).or_default().extend(trial.asked.iter().cloned());
    }
    for trial in trials {
        let is_shown = |file: &&TrialFile| shown[trial.server.name()].contains(&file.document.path);
        trial.files = files.iter().filter(is_shown).cloned().collect();
        trial.files.sort_by_key(|file| !file.created);
    }
}

fn at(trials: &mut Vec<Trial>, server: Arc<Server>) -> &mut Trial {
    let known = trials.iter().position(|trial| Arc::ptr_eq(&trial.server, &server));
    let at = known.unwrap_or_else(|| {
        let (files, asked, dependents) = Default::default();
        trials.push(Trial { server, files, asked, dependents });
        trials.len() - 1
    });
    &mut trials[at]
}
