//! An edit tried on every server of its files at once.

use std::collections::BTreeMap;
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
    pub async fn try_edit(
        self: &Arc<Self>,
        files: &[TrialFile],
        dependents: &[Document],
        cx: &RequestCx,
    ) -> Tried {
        let mut out = Tried::default();
        let mut trials: Vec<Trial> = Vec::new();
        let mut in_use = Vec::new();
        let short = RequestCx { deadline: cx.deadline.min(START), cancel: cx.cancel.clone() };
        for file in files {
            let servers = self.servers_for(&file.document.path, &short, &mut out).await;
            for server in servers {
                at(&mut trials, Arc::clone(&server)).files.push(file.clone());
                // Not stopped to make room before the end.
                in_use.push(server);
            }
        }
        let own: Vec<Arc<Server>> = trials.iter().map(|trial| Arc::clone(&trial.server)).collect();
        for document in dependents {
            // One that is not to be shown the edit would say nothing new of them.
            for server in self.servers_for(&document.path, &short, &mut Tried::default()).await {
                if !trials.iter().any(|it| Arc::ptr_eq(&it.server, &server)) {
                    // Another package's, which reads the files that are edited from the disk.
                    let known = trials.iter().find(|it| it.server.name() == server.name());
                    let Some(files) = known.map(|it| it.files.clone()) else { continue };
                    at(&mut trials, Arc::clone(&server)).files = files;
                }
                at(&mut trials, Arc::clone(&server)).dependents.push(document.clone());
                in_use.push(server);
            }
        }
        let runs = trials.into_iter().map(|trial| async {
            let server = Arc::clone(&trial.server);
            let found = match trial::hindrance(&server, &trial.files) {
                Some(reason) => Err(reason),
                None => trial::run(trial, cx.clock(), self.tracker()).await,
            };
            (server, found)
        });
        for (server, found) in futures_util::future::join_all(runs).await {
            let name = server.name().to_owned();
            let on_save = &server.core.definition.diagnostics.on_save;
            match found {
                Err(reason) => out.not_tried.push((name, reason)),
                Ok(mut found) => {
                    // Of the edited files the servers that they belong to speak.
                    if !own.iter().any(|it| Arc::ptr_eq(it, &server)) {
                        found.retain(|(path, _)| files.iter().all(|file| file.document.path != *path));
                    }
                    for (path, mut known) in found {
                        if let Ok(items) = &mut known {
                            items.retain(|it| it.source.as_ref().is_none_or(|it| !on_save.contains(it)));
                        }
                        let (server, on_save) = (name.clone(), on_save.clone());
                        let checked = Checked { server, known, pending: false, on_save };
                        out.files.entry(path).or_default().push(checked);
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

fn at(trials: &mut Vec<Trial>, server: Arc<Server>) -> &mut Trial {
    let known = trials.iter().position(|trial| Arc::ptr_eq(&trial.server, &server));
    let at = known.unwrap_or_else(|| {
        trials.push(Trial { server, files: Vec::new(), dependents: Vec::new() });
        trials.len() - 1
    });
    &mut trials[at]
}
