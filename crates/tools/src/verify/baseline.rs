//! The texts before an edit, shown to servers that gave no diagnostics before it.
//!
//! The texts are shown as a speculative edit that reverts the made one.
//!
//! Invariants: only edits that changed nothing but texts are reverted so; if files were created, moved or
//! deleted, the old state cannot be shown and nothing is reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::ToolCx;
use lsp_client::{Checked, RequestCx, SpeculativeFile};
use paths::AbsPath;
use workspace::{ChangeKind, Document, FileChange};

use crate::ToolContext;
use crate::notes::render_not_tried;

/// Delay of another tool's result for the old diagnostics of an earlier edit.
pub(super) const LATER: Duration = Duration::from_secs(1);
/// Files of an edit that can be shown.
const MAX_FILES: usize = 20;

/// The texts before an edit.
#[derive(Debug, Clone)]
pub(super) struct OldTexts {
    /// Time at which the files had these texts.
    at: Instant,
    texts: BTreeMap<AbsPath, Arc<str>>,
    /// The old paths of moved files.
    moved: BTreeMap<AbsPath, AbsPath>,
    /// Files that did not exist.
    made: Vec<AbsPath>,
    /// Whether files were created, moved or deleted, or are too many.
    hidden: bool,
}

impl OldTexts {
    /// The texts before the first of some changes.
    pub fn of(changes: &[&FileChange]) -> Self {
        let (texts, moved) = (BTreeMap::new(), BTreeMap::new());
        let mut out = Self { at: Instant::now(), texts, moved, made: Vec::new(), hidden: false };
        for change in changes {
            let known = out.texts.contains_key(&change.path) || out.made.contains(&change.path);
            match (&change.kind, &change.before) {
                _ if known => {}
                (ChangeKind::Modified, Some(text)) => {
                    out.texts.insert(change.path.clone(), Arc::clone(text));
                }
                (ChangeKind::Created, _) => {
                    out.made.push(change.path.clone());
                    out.hidden = true;
                }
                (ChangeKind::Renamed { from }, _) => {
                    out.moved.insert(change.path.clone(), from.clone());
                    out.hidden = true;
                }
                _ => out.hidden = true,
            }
        }
        out.hidden |= out.texts.len() > MAX_FILES;
        out
    }

    /// The texts before this edit and a later one.
    pub fn and(&self, later: &Self) -> Self {
        let mut out = Self { at: self.at, ..later.clone() };
        out.texts.extend(self.texts.iter().map(|(path, text)| (path.clone(), Arc::clone(text))));
        out.hidden |= self.hidden || out.texts.len() > MAX_FILES;
        out
    }

    /// The order of several edits.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Whether a file did not exist.
    pub fn made(&self, path: &AbsPath) -> bool {
        self.made.contains(path)
    }

    /// The old path of a file.
    pub fn place<'a>(&'a self, path: &'a AbsPath) -> &'a AbsPath {
        self.moved.get(path).unwrap_or(path)
    }

    /// Whether the texts can be shown.
    pub(super) fn can_be_shown(&self) -> bool {
        !self.hidden
    }

    /// The old text of a document.
    pub fn text(&self, now: &Document) -> Arc<str> {
        Arc::clone(self.texts.get(&now.path).unwrap_or(&now.text))
    }

    /// Requests diagnostics of the old texts of changed files and of `others`.
    ///
    /// Waits at most `wait`. Returns the diagnostics of each server, and the reason for servers that gave none.
    pub async fn ask(
        &self,
        context: &ToolContext,
        others: Vec<Document>,
        wait: Duration,
        cx: &ToolCx,
    ) -> (BTreeMap<AbsPath, Vec<Checked>>, BTreeMap<String, String>) {
        let mut files = Vec::new();
        for (path, text) in &self.texts {
            // A deleted file is not shown, nor are its dependents.
            let Ok(document) = context.workspace.document(path) else { return Default::default() };
            files.push(SpeculativeFile { document, text: Arc::clone(text), created: false });
        }
        let others: Vec<Document> =
            others.into_iter().filter(|other| !self.texts.contains_key(&other.path)).collect();
        let request = RequestCx::new(wait, &cx.cancel);
        let tried = context.servers.preview_edit(&files, &[], &others, &request).await;
        let why = tried.skipped.into_iter().map(|(server, why)| (server, render_not_tried(context, &why)));
        (tried.files, why.collect())
    }
}
