//! Preview of an edit: a speculative edit on every server of its files at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use paths::AbsPath;
use workspace::Document;

use super::check::Checked;
use super::speculative::{self, SpeculativeEdit, SpeculativeError, SpeculativeFile};
use crate::error::ServerError;
use crate::pool::{InUse, RequestCx, ServerPool};
use crate::server::Server;
use adapters::Feature;

/// Time to wait for a server that is not running.
const START: Duration = Duration::from_millis(500);

/// The result of a preview.
#[derive(Debug, Default)]
pub struct EditPreview {
    /// Diagnostics of each server for each file; ranges are in the edited text.
    pub files: BTreeMap<AbsPath, Vec<Checked>>,
    /// Servers without a preview, with the reason.
    pub skipped: Vec<(String, SpeculativeError)>,
}

impl ServerPool {
    /// Requests diagnostics of edited texts and of `dependents` without writing them.
    ///
    /// Shows the texts to every server of the files. Afterwards each server has its texts as
    /// before, also if the future is dropped. Takes at most 5 s, during which other requests to
    /// these servers wait. `edited` are all files that the edit changes. A server that reads one of
    /// them without being shown it gives no answer.
    pub async fn preview_edit(
        self: &Arc<Self>,
        files: &[SpeculativeFile],
        edited: &[AbsPath],
        dependents: &[Document],
        cx: &RequestCx,
    ) -> EditPreview {
        let mut out = EditPreview::default();
        let mut edits: Vec<SpeculativeEdit> = Vec::new();
        let mut in_use = Vec::new();
        for file in files {
            let servers = self.servers_for(&file.document.path, &cx.within(START), &mut out).await;
            for server in servers {
                at(&mut edits, Arc::clone(&server)).asked.insert(file.document.path.clone());
                // The pool does not stop it to make room during the preview.
                in_use.push(server);
            }
        }
        for document in dependents {
            // A server that is not shown the edit reports nothing new about dependents.
            for server in
                self.servers_for(&document.path, &cx.within(START), &mut EditPreview::default()).await
            {
                if edits.iter().any(|it| it.server.name() == server.name()) {
                    at(&mut edits, Arc::clone(&server)).dependents.push(document.clone());
                    in_use.push(server);
                }
            }
        }
        show_all(&mut edits, files);
        let edited: BTreeSet<&AbsPath> =
            edited.iter().chain(files.iter().map(|file| &file.document.path)).collect();
        let runs = edits.into_iter().map(|mut edit| {
            let obstacle = speculative::obstacle(&edit, &edited);
            let (server, left_out) = (Arc::clone(&edit.server), edit.remove_uncheckable());
            async move {
                let found = match (obstacle, left_out) {
                    (Some(reason), _) => (Err(reason), None),
                    (None, Some(reason)) if edit.asked.is_empty() => (Err(reason), None),
                    (None, left_out) => (speculative::run(edit, cx.clock(), self.tracker()).await, left_out),
                };
                (server, found)
            }
        });
        let mut skip = |name: &str, reason: SpeculativeError| {
            let row = (name.to_owned(), reason);
            if !out.skipped.contains(&row) {
                out.skipped.push(row);
            }
        };
        for (server, (found, left_out)) in futures_util::future::join_all(runs).await {
            match found {
                Err(reason) => skip(server.name(), reason),
                Ok(found) => {
                    left_out.into_iter().for_each(|reason| skip(server.name(), reason));
                    for (path, known) in found {
                        out.files.entry(path).or_default().push(Checked::of(&server, known));
                    }
                }
            }
        }
        drop(in_use);
        out
    }

    async fn servers_for(
        self: &Arc<Self>,
        path: &AbsPath,
        cx: &RequestCx,
        out: &mut EditPreview,
    ) -> Vec<InUse> {
        let (servers, problems) = match self.pick_all(path, Feature::Diagnostics, cx.clock()).await {
            Ok(picked) => picked,
            Err(error) => (Vec::new(), vec![error]),
        };
        for problem in problems {
            let ServerError::Starting { server, .. } = &problem else { continue };
            let reason = SpeculativeError::Failed(problem.clone());
            if !out.skipped.iter().any(|(name, _)| name == server) {
                out.skipped.push((server.clone(), reason));
            }
        }
        servers
    }
}

/// Gives each server all files of its definition.
///
/// A server of another package would read them from disk.
fn show_all(edits: &mut [SpeculativeEdit], files: &[SpeculativeFile]) {
    let mut shown: BTreeMap<String, BTreeSet<AbsPath>> = BTreeMap::new();
    for edit in &*edits {
        shown.entry(edit.server.name().to_owned()).or_default().extend(edit.asked.iter().cloned());
    }
    for edit in edits {
        let is_shown = |file: &&SpeculativeFile| shown[edit.server.name()].contains(&file.document.path);
        edit.files = files.iter().filter(is_shown).cloned().collect();
        edit.files.sort_by_key(|file| !file.created);
    }
}

fn at(edits: &mut Vec<SpeculativeEdit>, server: Arc<Server>) -> &mut SpeculativeEdit {
    let known = edits.iter().position(|edit| Arc::ptr_eq(&edit.server, &server));
    let at = known.unwrap_or_else(|| {
        let (files, asked, dependents) = Default::default();
        edits.push(SpeculativeEdit { server, files, asked, dependents });
        edits.len() - 1
    });
    &mut edits[at]
}
