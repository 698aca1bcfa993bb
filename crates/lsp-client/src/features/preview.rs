//! Preview of an edit: a speculative edit on every server of its files at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use paths::AbsPath;
use workspace::Document;

use super::check::{Checked, Unknown};
use super::speculative::{self, SpeculativeEdit, SpeculativeError, SpeculativeFile};
use crate::error::ServerError;
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::Server;
use adapters::Feature;

/// Time to wait for a server that does not run.
const START: Duration = Duration::from_millis(500);

/// The result of a preview.
#[derive(Debug, Default)]
pub struct Tried {
    /// Diagnostics of each server for each file after the edit; ranges are in that text.
    pub files: BTreeMap<AbsPath, Vec<Checked>>,
    /// Servers without a preview, and why.
    pub not_tried: Vec<(String, SpeculativeError)>,
}

impl ServerPool {
    /// Shows the edited texts to every server of the files, and requests diagnostics of them and of
    /// `dependents`.
    ///
    /// Nothing is written. Afterwards each server has its texts as before, also if the future is dropped. Takes
    /// at most 5 s, during which other requests to these servers wait. `edited` are all files that the edit
    /// changes: a server that reads one of them without being shown it gives no answer.
    pub async fn try_edit(
        self: &Arc<Self>,
        files: &[SpeculativeFile],
        edited: &[AbsPath],
        dependents: &[Document],
        cx: &RequestCx,
    ) -> Tried {
        let mut out = Tried::default();
        let mut trials: Vec<SpeculativeEdit> = Vec::new();
        let mut in_use = Vec::new();
        for file in files {
            let servers = self.servers_for(&file.document.path, &cx.within(START), &mut out).await;
            for server in servers {
                at(&mut trials, Arc::clone(&server)).asked.insert(file.document.path.clone());
                // Not stopped to make room during the preview.
                in_use.push(server);
            }
        }
        for document in dependents {
            // A server that is not shown the edit reports nothing new about them.
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
            let hindrance = speculative::hindrance(&trial, &edited);
            let (server, left_out) = (Arc::clone(&trial.server), trial.narrow());
            async move {
                let found = match (hindrance, left_out) {
                    (Some(reason), _) => (Err(reason), None),
                    (None, Some(reason)) if trial.asked.is_empty() => (Err(reason), None),
                    (None, left_out) => (speculative::run(trial, cx.clock(), self.tracker()).await, left_out),
                };
                (server, found)
            }
        });
        let mut not_tried = |name: &str, reason: SpeculativeError| {
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
                        out.files
                            .entry(path)
                            .or_default()
                            .push(Checked::of(&server, known.map_err(Unknown::Reason)));
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
            let reason = SpeculativeError::Because(problem.to_string());
            if !out.not_tried.iter().any(|(name, _)| name == server) {
                out.not_tried.push((server.clone(), reason));
            }
        }
        servers
    }
}

/// Gives each server all files of its definition: a server of another package would read them from disk.
fn show_all(trials: &mut [SpeculativeEdit], files: &[SpeculativeFile]) {
    let mut shown: BTreeMap<String, BTreeSet<AbsPath>> = BTreeMap::new();
    for trial in &*trials {
        shown.entry(trial.server.name().to_owned()).or_default().extend(trial.asked.iter().cloned());
    }
    for trial in trials {
        let is_shown = |file: &&SpeculativeFile| shown[trial.server.name()].contains(&file.document.path);
        trial.files = files.iter().filter(is_shown).cloned().collect();
        trial.files.sort_by_key(|file| !file.created);
    }
}

fn at(trials: &mut Vec<SpeculativeEdit>, server: Arc<Server>) -> &mut SpeculativeEdit {
    let known = trials.iter().position(|trial| Arc::ptr_eq(&trial.server, &server));
    let at = known.unwrap_or_else(|| {
        let (files, asked, dependents) = Default::default();
        trials.push(SpeculativeEdit { server, files, asked, dependents });
        trials.len() - 1
    });
    &mut trials[at]
}
