//! Checks that a server runs on saved files (Cargo under rust-analyzer), before and after the edit of a one-shot
//! command.
//!
//! Invariants: their problems belong to a source of their own, so that they are new only if the same check was
//! complete before the edit; a file that a check may have omitted does not count as checked by it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lsp_client::{Checked, Diagnostic, RequestCx, SavedProblems, Severity};
use paths::AbsPath;
use workspace::Document;

use super::{FileBaseline, problems};
use crate::ToolContext;
use crate::lsp::is_same;

/// The complete checks, by server.
#[derive(Default, Clone)]
pub(super) struct SavedChecks(BTreeMap<String, SavedProblems>);

impl SavedChecks {
    /// Requests the checks of these files; none unless this is a one-shot command.
    pub async fn request(context: &ToolContext, documents: &[&Document], request: &RequestCx) -> Self {
        if !context.settings().is_one_shot() {
            return Self::default();
        }
        // A cancelled call shows no verdict.
        let checks = context.servers.check_saved(documents, request).await.unwrap_or_default();
        let complete = checks.into_iter().filter_map(|check| match check.found {
            Ok(found) => Some((check.server, found)),
            Err(why) => {
                tracing::debug!(server = check.server, ?why, "saved files were not checked");
                None
            }
        });
        Self(complete.collect())
    }

    /// Adds the problems of the file `path` to those that its servers found in it.
    pub(super) fn add_to(&self, path: &AbsPath, known: &mut BTreeMap<String, Vec<Diagnostic>>) {
        for (server, found) in &self.0 {
            if let Some(items) = found.files.get(path) {
                let without = known.get(server).map(Vec::as_slice).unwrap_or_default();
                known.insert(source(server), others(items, without));
            }
        }
    }

    /// Adds the problems of the file `path` to the answers of its servers.
    pub(super) fn add_to_answers(&self, path: &AbsPath, answers: &mut Vec<Checked>) {
        for (server, found) in &self.0 {
            let Some(items) = found.files.get(path) else { continue };
            let own = answers.iter_mut().find(|it| it.server == *server);
            let mut without = &[][..];
            let is_further = own.is_none();
            if let Some(own) = own {
                if found.with_errors.is_empty() || found.with_errors.contains(path) {
                    own.on_save.clear();
                }
                without = own.known.as_deref().unwrap_or_default();
            }
            let mut known = others(items, without);
            // Only the errors of a further file are known from before.
            known.retain(|item| !is_further || item.severity == Severity::Error);
            let (known, server) = (Ok(known), source(server));
            answers.push(Checked {
                server,
                types: false,
                known,
                pending: false,
                on_save: Vec::new(),
                disowned: None,
            });
        }
    }

    /// The files outside the edit in which a check found errors.
    ///
    /// Their baseline is the errors of the checks `before` the edit.
    pub(super) fn further_files(
        &self,
        before: &Self,
        context: &ToolContext,
        known: &[FileBaseline],
    ) -> Vec<FileBaseline> {
        let mut out: Vec<FileBaseline> = Vec::new();
        for path in self.0.values().flat_map(|found| &found.with_errors) {
            let is_known = known.iter().chain(&out).any(|file| file.path == *path);
            let Some(document) = context.workspace.document(path).ok().filter(|_| !is_known) else {
                continue;
            };
            let errors = before.0.iter().map(|(server, found)| {
                let mut items = found.files.get(path).cloned().unwrap_or_default();
                items.retain(|item| item.severity == Severity::Error);
                (source(server), items)
            });
            let (known, text) = (errors.collect(), Arc::clone(&document.text));
            out.push(FileBaseline { path: path.clone(), dependent: true, text, known, created: false });
        }
        out
    }
}

/// The source of the problems that the check of a server finds.
fn source(server: &str) -> String {
    format!("{server} (saved files)")
}

/// The problems that the server has not also found without a save.
fn others(items: &[Diagnostic], known: &[Diagnostic]) -> Vec<Diagnostic> {
    let new = items.iter().filter(|item| !known.iter().any(|known| is_same(known, item)));
    problems(new.cloned().collect())
}
