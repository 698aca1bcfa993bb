//! The texts before an edit, shown to servers that had not said before it what they say of them.
//!
//! That is a trial of the way back: the texts are shown, asked about and taken away again, and nobody
//! else sees them. What must stay true: only an edit that changed texts alone is shown so; where files
//! came or went the old state cannot be shown, and nothing is said of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::ToolCx;
use lsp_client::{Checked, RequestCx, TrialFile};
use workspace::{AbsPath, ChangeKind, Document, FileChange};

use crate::Kit;

/// How long another tool's result is kept waiting for what was wrong before an earlier edit.
pub(super) const LATER: Duration = Duration::from_secs(1);
/// An edit of more files is not shown.
const MAX_FILES: usize = 20;

/// The texts before an edit.
#[derive(Debug, Clone)]
pub(super) struct Then {
    /// When these were the texts.
    at: Instant,
    texts: BTreeMap<AbsPath, Arc<str>>,
    /// Where a file that moved was.
    moved: BTreeMap<AbsPath, AbsPath>,
    /// Files that were not there.
    made: Vec<AbsPath>,
    /// Files came or went, or are too many.
    hidden: bool,
}

impl Then {
    /// Before the first of these changes.
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

    /// Before this one, of which `later` came after.
    pub fn and(&self, later: &Self) -> Self {
        let mut out = Self { at: self.at, ..later.clone() };
        out.texts.extend(self.texts.iter().map(|(path, text)| (path.clone(), Arc::clone(text))));
        out.hidden |= self.hidden || out.texts.len() > MAX_FILES;
        out
    }

    /// Orders those of several edits.
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Whether a file was not there.
    pub fn made(&self, path: &AbsPath) -> bool {
        self.made.contains(path)
    }

    /// Where a file was.
    pub fn place<'a>(&'a self, path: &'a AbsPath) -> &'a AbsPath {
        self.moved.get(path).unwrap_or(path)
    }

    /// Whether it can be shown.
    pub fn can_be_shown(&self) -> bool {
        !self.hidden
    }

    /// The text of a file that is `now` so.
    pub fn text(&self, now: &Document) -> Arc<str> {
        Arc::clone(self.texts.get(&now.path).unwrap_or(&now.text))
    }

    /// What each server says of the old texts, of the files that changed and of `others`, as far as it
    /// can be asked within `wait`; the second is why it is not known, of servers that did not say.
    pub async fn ask(
        &self,
        kit: &Kit,
        others: Vec<Document>,
        wait: Duration,
        cx: &ToolCx,
    ) -> (BTreeMap<AbsPath, Vec<Checked>>, BTreeMap<String, String>) {
        let mut files = Vec::new();
        for (path, text) in &self.texts {
            // One that is gone by now is not shown, nor is what depended on it.
            let Ok(document) = kit.workspace.document(path) else { return Default::default() };
            files.push(TrialFile { document, text: Arc::clone(text), created: false });
        }
        let others: Vec<Document> =
            others.into_iter().filter(|other| !self.texts.contains_key(&other.path)).collect();
        let request = RequestCx::new(wait, cx.cancel.clone());
        let tried = kit.servers.try_edit(&files, &[], &others, &request).await;
        let why = tried.not_tried.into_iter().map(|(server, why)| (server, why.to_string()));
        (tried.files, why.collect())
    }
}
