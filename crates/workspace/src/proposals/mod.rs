//! Proposed edits, as a layer above the texts of the editor and the disk.
//!
//! A proposal is a text with the user's text that it was made for. A read merges it onto the user's current
//! text, so that it changes neither a file nor a buffer. The proposals are in the workspace's state, for all
//! processes and after a restart.
//!
//! Invariants: a merged text has every line that the user changed; the stored proposals change only under
//! the lock of the review.

mod decisions;
mod merge;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use paths::{AbsPath, StateDir, StateError, StateLock, path_to_uri};
use serde::{Deserialize, Serialize};

use crate::documents::content::{BOM, Content};
use crate::documents::disk;
use crate::documents::stamp::Stamp;
use crate::journal::as_uri;
use crate::plan::simulate::{Lookup, Source};
use crate::plan::{Plan, Step};
use crate::review::tracked::{Author, TrackedText};
use crate::state::WorkspaceState;
use crate::{
    Commit, CommitError, CommitId, CommittedFile, ContentHash, Document, Owner, PlanError, ReadError, RunId,
    Version, Workspace, review,
};
pub use decisions::Acceptance;
use merge::{Change, Merge, merge};

const FILE: &str = "proposals.json";
const FORMAT: u64 = 1;
/// Prefix of the ids of proposed commits, which are not in the journal.
const COMMIT: &str = "proposal-";
/// Time for which the stored proposals are not read again.
const FRESH: Duration = Duration::from_millis(10);

/// The proposals of a workspace as last read.
#[derive(Debug, Default)]
pub(crate) struct Proposals(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    stamp: Option<Stamp>,
    at: Option<Instant>,
    files: Arc<BTreeMap<AbsPath, Proposal>>,
}

/// The stored proposals.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    format: u64,
    files: Vec<Proposal>,
}

/// The proposed text of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Proposal {
    #[serde(with = "as_uri")]
    path: AbsPath,
    /// The user's text and the proposed one, with the runs of each change.
    text: TrackedText,
    /// Whether the file does not exist.
    is_new: bool,
    bom: bool,
    /// The runs that proposed something.
    runs: Vec<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accepting: Option<Accepting>,
}

/// An acceptance that is not known to be committed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Accepting {
    /// The user's text once it is committed.
    after: String,
    /// The base of the rest of the proposal then.
    base: String,
}

/// A proposal on the user's current text.
#[derive(Debug)]
struct Merged {
    /// The user's document; `None` if the file does not exist.
    current: Option<Document>,
    /// The user's text and the merged one.
    text: TrackedText,
    /// The text of which `changes` have ranges.
    base: String,
    changes: Vec<Change>,
    bom: bool,
    /// Whether the file does not exist yet.
    is_created: bool,
    /// Whether the file is gone that the proposal is for.
    is_lost: bool,
}

impl Proposal {
    /// Merges the proposal onto the user's text. Blocks.
    fn merged(&self, inner: &WorkspaceState) -> Merged {
        let current = match inner.applied_document(&self.path) {
            Ok(document) => document,
            Err(error) => {
                let is_lost = !(self.is_new && matches!(error, ReadError::NotFound { .. }));
                let text = if is_lost { TrackedText::new("", "") } else { self.text.clone() };
                let (base, changes) = (self.text.base().to_owned(), Vec::new());
                let (bom, is_created) = (self.bom, !is_lost);
                return Merged { current: None, text, base, changes, bom, is_created, is_lost };
            }
        };
        let accepted = self.accepting.as_ref().filter(|it| *it.after == *current.text);
        let base = accepted.map_or(self.text.base(), |it| &it.base);
        let Merge { text, changes } = merge(base, self.text.now(), &current.text);
        let text = self.text.rebased(&current.text, &text);
        let (base, bom) = (base.to_owned(), current.bom);
        Merged { current: Some(current), text, base, changes, bom, is_created: false, is_lost: false }
    }
}

impl Merged {
    /// The user's text, with nothing proposed.
    fn unchanged(inner: &WorkspaceState, path: &AbsPath) -> Result<Self, ReadError> {
        let current = match inner.applied_document(path) {
            Ok(document) => Some(document),
            Err(ReadError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let base = current.as_ref().map_or("", |document| &*document.text).to_owned();
        let (text, bom) = (TrackedText::new(&base, &base), current.as_ref().is_some_and(|it| it.bom));
        Ok(Self { current, text, base, changes: Vec::new(), bom, is_created: false, is_lost: false })
    }

    /// Whether the proposal differs from the user's text.
    fn differs(&self) -> bool {
        !self.is_lost && (self.text.base() != self.text.now() || self.is_created)
    }

    fn document(&self, path: &AbsPath) -> Option<Document> {
        if !self.differs() {
            return None;
        }
        let text: Arc<str> = self.text.now().into();
        let bytes = if self.bom { [BOM, &text].concat() } else { text.to_string() };
        Some(Document {
            path: path.clone(),
            uri: self.current.as_ref().map_or_else(|| path_to_uri(path.as_path()), |it| it.uri.clone()),
            version: Version { hash: ContentHash::of(bytes.as_bytes()), editor: None },
            text,
            bom: self.bom,
            owner: Owner::Proposed,
            blocked: None,
        })
    }
}

impl Commit {
    pub(crate) fn proposed(
        run: &RunId,
        label: String,
        files: Vec<CommittedFile>,
        notes: Vec<String>,
    ) -> Self {
        let id = CommitId(format!("{COMMIT}{}", RunId::new()));
        Self { id, run: run.clone(), label, files, notes }
    }

    /// Whether the commit only proposes its changes, so that no file changed.
    pub fn is_proposal(&self) -> bool {
        self.id.0.starts_with(COMMIT)
    }
}

/// The stored proposals, locked to change them.
struct Editing<'a> {
    inner: &'a WorkspaceState,
    files: BTreeMap<AbsPath, Proposal>,
    _lock: StateLock,
}

impl<'a> Editing<'a> {
    fn begin(inner: &'a WorkspaceState) -> Result<Self, StateError> {
        let lock = inner.state.lock(review::LOCK, review::LOCK_DEADLINE)?;
        Ok(Self { inner, files: read(&directory(inner)?)?, _lock: lock })
    }

    fn store(self) -> Result<(), StateError> {
        let directory = directory(self.inner)?;
        if self.files.is_empty() {
            directory.remove(FILE)?;
        } else {
            self.inner.describe()?;
            let stored = Stored { format: FORMAT, files: self.files.values().cloned().collect() };
            let json = serde_json::to_vec(&stored).map_err(|error| StateError::Damaged {
                path: directory.path().join(FILE),
                detail: error.to_string(),
            })?;
            directory.write_atomic(FILE, &json)?;
        }
        let stamp = Stamp::of(directory.path().join(FILE).as_path());
        let known = Known { stamp: Some(stamp), at: Some(Instant::now()), files: Arc::new(self.files) };
        *self.inner.proposals.0.lock() = known;
        Ok(())
    }
}

fn directory(inner: &WorkspaceState) -> Result<StateDir, StateError> {
    inner.state.child(review::DIRECTORY)
}

fn read(directory: &StateDir) -> Result<BTreeMap<AbsPath, Proposal>, StateError> {
    let Some(bytes) = directory.read(FILE)? else { return Ok(BTreeMap::new()) };
    let path = directory.path().join(FILE);
    match serde_json::from_slice::<Stored>(&bytes) {
        Ok(stored) if stored.format > FORMAT => {
            Err(StateError::NewerFormat { path, found: stored.format, known: FORMAT })
        }
        Ok(stored) => Ok(stored.files.into_iter().map(|it| (it.path.clone(), it)).collect()),
        Err(error) => Err(StateError::Damaged { path, detail: error.to_string() }),
    }
}

impl WorkspaceState {
    /// The stored proposals, by path.
    fn proposals(&self) -> Arc<BTreeMap<AbsPath, Proposal>> {
        let mut known = self.proposals.0.lock();
        if known.at.is_some_and(|at| at.elapsed() < FRESH) {
            return Arc::clone(&known.files);
        }
        let Ok(directory) = directory(self) else { return Arc::default() };
        // Stamp the file before reading it: a later change has another stamp.
        let stamp = Stamp::of(directory.path().join(FILE).as_path());
        if !known.stamp.is_some_and(|known| known.is_same(&stamp)) {
            match read(&directory) {
                Ok(files) => known.files = Arc::new(files),
                Err(error) => tracing::warn!(%error, "the proposed edits cannot be read"),
            }
            known.stamp = Some(stamp);
        }
        known.at = Some(Instant::now());
        Arc::clone(&known.files)
    }

    /// The document at `path` with its proposed edits, if there are some. Blocks.
    pub(crate) fn proposed_document(&self, path: &AbsPath) -> Option<Document> {
        self.proposals().get(path)?.merged(self).document(path)
    }

    /// All documents with proposed edits. Blocks.
    pub(crate) fn proposed_documents(&self) -> Vec<Document> {
        let proposals = self.proposals();
        proposals.iter().filter_map(|(path, it)| it.merged(self).document(path)).collect()
    }

    /// Whether the file at `path` has proposed edits. Blocks.
    pub(crate) fn is_proposed(&self, path: &AbsPath) -> bool {
        self.proposals().get(path).is_some_and(|proposal| proposal.merged(self).differs())
    }

    /// Whether the plan changes a file with proposed edits.
    pub(crate) fn changes_proposals(&self, plan: &Plan) -> bool {
        plan.steps.iter().any(|step| self.is_proposed(&step.path))
    }

    /// Stores a plan as proposed edits. Blocks.
    ///
    /// # Errors
    /// [`CommitError`]; nothing changes then.
    pub(crate) fn propose(&self, plan: &Plan, run: &RunId) -> Result<Commit, CommitError> {
        let mut editing = Editing::begin(self)?;
        if let Some(directory) = plan.made.first().map(|made| &made.path).or(plan.removed.first()) {
            return Err(not_proposed(directory, "moving or deleting a directory"));
        }
        if let Some(moved) = plan.steps.iter().find(|step| step.moved_from.is_some()) {
            return Err(not_proposed(&moved.path, "moving a file"));
        }
        let mut notes = Vec::new();
        for Step { path, before, after, .. } in &plan.steps {
            let known = editing.files.get(path).map(|known| (known.merged(self), known.runs.clone()));
            let (merged, mut runs) = match known {
                Some(known) => known,
                None => (Merged::unchanged(self, path)?, Vec::new()),
            };
            let document = merged.document(path);
            let found = document.as_ref().or(merged.current.as_ref()).map(|found| found.version.hash);
            if found != before.as_ref().map(|before| before.hash) {
                return Err(CommitError::Moved { paths: vec![path.clone()] });
            }
            let Merged { current, mut text, changes, bom, is_lost, .. } = merged;
            match after.as_ref().map(|after| &after.content) {
                Some(Content::Text { text: after, .. }) => text.change(after, &Author::Agent(run.clone())),
                Some(_) => return Err(not_proposed(path, "a content that is not text")),
                None if current.is_none() => {
                    editing.files.remove(path);
                    continue;
                }
                None => return Err(not_proposed(path, "deleting a file")),
            }
            if is_lost || changes.iter().any(|change| !change.fits) {
                let what = if is_lost { "deleted the file" } else { "changed these lines" };
                let path = crate::plan::relative(&self.root, path);
                notes.push(format!("{path}: dropped earlier proposed changes, because the user {what}"));
            }
            let is_new = current.is_none();
            if !is_new && text.base() == text.now() {
                editing.files.remove(path);
                continue;
            }
            runs.retain(|it| it != run);
            runs.push(run.clone());
            let proposal = Proposal { path: path.clone(), text, is_new, bom, runs, accepting: None };
            editing.files.insert(path.clone(), proposal);
        }
        editing.store()?;
        notes.push("proposed: no file and no buffer changes until the user keeps it".to_owned());
        let files = plan.changes.iter().map(|change| CommittedFile {
            path: change.path.clone(),
            kind: change.kind.clone(),
            edits: change.edits.clone(),
            version: self.proposed_document(&change.path).map(|document| document.version),
        });
        Ok(Commit::proposed(run, plan.label.clone(), files.collect(), notes))
    }
}

fn not_proposed(path: &AbsPath, what: &'static str) -> CommitError {
    CommitError::NotProposed { path: path.clone(), what }
}

impl Workspace {
    /// The same workspace without the proposed edits.
    #[must_use]
    pub fn applied(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), is_applied: true }
    }

    /// The files with proposed edits. Blocks.
    pub fn proposed_files(&self) -> Vec<AbsPath> {
        self.inner.proposed_documents().into_iter().map(|document| document.path).collect()
    }

    /// Adds the proposed edits to the documents of the editor.
    pub(crate) fn with_proposals(&self, mut open: Vec<Document>) -> Vec<Document> {
        if !self.is_applied {
            let proposed = self.inner.proposed_documents();
            let paths: BTreeSet<_> = proposed.iter().map(|document| document.path.clone()).collect();
            open.retain(|document| !paths.contains(&document.path));
            open.extend(proposed);
        }
        open
    }

    /// The document at a path that is proposed or open in the editor. Blocks.
    pub(crate) fn held_document(&self, path: &AbsPath) -> Option<Document> {
        let proposed = || self.inner.proposed_document(path);
        (!self.is_applied).then(proposed).flatten().or_else(|| self.inner.open_document(path))
    }
}

impl Source for Workspace {
    fn lookup(&self, path: &AbsPath) -> Result<Lookup, PlanError> {
        let Some(document) = (!self.is_applied).then(|| self.inner.proposed_document(path)).flatten() else {
            return self.inner.lookup(path);
        };
        let mode = disk::stat(path).ok().flatten().map(|meta| disk::mode(&meta));
        let content = Content::Text { text: document.text, bom: document.bom };
        Ok(Lookup::File { image: crate::documents::content::Image::new(content, mode), open: false })
    }

    fn tree(&self, directory: &AbsPath) -> Result<disk::Tree, PlanError> {
        self.inner.tree(directory)
    }

    fn same_file(&self, a: &AbsPath, b: &AbsPath) -> bool {
        disk::same_file(a, b)
    }
}
