//! Decisions about proposed edits: acceptance is a commit, and a rejection only drops them.

use std::collections::BTreeMap;
use std::sync::Arc;

use paths::{AbsPath, StateError, StateLock};
use policy::Permit;
use text::{LineIndex, TextEdit};

use super::merge::{Change, edits_of};
use super::{Accepting, Editing, FILE, Merged, Proposal, directory, read};
use crate::commit::{Order, blocking};
use crate::plan::simulate::Files;
use crate::review::tracked::TrackedText;
use crate::review::{self, line_range, place};
use crate::state::WorkspaceState;
use crate::workspace::finished;
use crate::{
    Commit, CommitError, Hunk, HunkId, HunkKind, Operation, Plan, ReviewError, ReviewFile, RunId, Selection,
    Skipped, Workspace,
};

/// Lock file for decisions about proposed edits.
///
/// It is held from the plan to the end of the commit.
const LOCK: &str = "acceptance.lock";

/// The plan to make proposed edits.
///
/// Other decisions wait until it is dropped or committed.
#[derive(Debug)]
pub struct Acceptance {
    pub plan: Plan,
    /// The run that proposed them.
    pub run: RunId,
    /// Selected changes that stay proposals, because the user changed their lines.
    pub skipped: Vec<Skipped>,
    accepted: BTreeMap<AbsPath, Accepted>,
    lock: StateLock,
}

/// The accepted changes of a file.
#[derive(Debug)]
struct Accepted {
    /// The proposal that the plan is of.
    planned: TrackedText,
    /// The user's text before it; empty if there is no file.
    before: Arc<str>,
    /// The user's text after it.
    after: String,
    /// The base of the rest of the proposal; `None` if nothing is left.
    base: Option<String>,
}

/// A proposed change for a decision; without lines for a whole file.
struct Proposed {
    hunk: Hunk,
    lines: Option<Change>,
}

impl Merged {
    /// The changes to decide on, in order of position.
    fn hunks(&self, proposal: &Proposal) -> Vec<Proposed> {
        let Proposal { path, text, runs, .. } = proposal;
        let mut seen = BTreeMap::new();
        let mut hunk = |kind: HunkKind, removed: &str, new: &str, runs: Vec<RunId>, fits: bool| {
            let path = path.to_string();
            let parts = [path.as_bytes(), b"proposed", &[u8::from(fits)], removed.as_bytes(), new.as_bytes()];
            let hash = xxhash_rust::xxh3::xxh3_64(&parts.join(&0));
            let nth: &mut usize = seen.entry(hash).or_default();
            *nth += 1;
            let id = HunkId(format!("{hash:016x}-{nth}"));
            Hunk { id, kind, runs, is_edited: !fits, proposed: Some(new.to_owned()) }
        };
        let Some(current) = &self.current else {
            let hunk = hunk(HunkKind::Created, "", text.now(), runs.clone(), !self.is_lost);
            return vec![Proposed { hunk, lines: None }];
        };
        let index = LineIndex::new(&current.text);
        let proposed = |change: &Change| {
            let at = line_range(&current.text, &index, &change.current);
            let removed = &current.text[change.current.clone()];
            let kind = HunkKind::Lines { before: at.clone(), now: at, removed: removed.to_owned() };
            let mut of = text.runs_of(&change.proposed);
            if of.is_empty() {
                of.clone_from(runs);
            }
            let hunk = hunk(kind, removed, &text.now()[change.proposed.clone()], of, change.fits);
            Proposed { hunk, lines: Some(change.clone()) }
        };
        self.changes.iter().map(proposed).collect()
    }
}

/// Applies the edits of changes to a text that they are for.
///
/// # Errors
/// [`StateError::Damaged`]; a part of the changes must not be decided on.
fn apply(inner: &WorkspaceState, of: &str, edits: &[TextEdit]) -> Result<String, StateError> {
    text::apply(of, edits).or_else(|error| {
        let path = directory(inner)?.path().join(FILE);
        Err(StateError::Damaged { path, detail: format!("changes do not fit: {error}") })
    })
}

impl WorkspaceState {
    /// The last run with proposed edits. Blocks.
    pub(crate) fn last_proposing_run(&self) -> Option<RunId> {
        let hunks = |proposal: &Proposal| proposal.merged(self).hunks(proposal);
        let proposals = self.proposals();
        let runs = proposals.values().flat_map(hunks).flat_map(|it| it.hunk.runs);
        runs.max_by(|a, b| a.0.cmp(&b.0))
    }

    /// Number of proposed changes of a run. Blocks.
    pub(crate) fn count_proposed(&self, run: &RunId) -> usize {
        let hunks = |proposal: &Proposal| proposal.merged(self).hunks(proposal);
        let proposals = self.proposals();
        proposals.values().flat_map(hunks).filter(|it| it.hunk.is_of(std::slice::from_ref(run))).count()
    }
}

impl Workspace {
    /// The proposed changes of `scope`, by file. Blocks.
    pub(crate) fn proposed_changes(&self, scope: &[RunId]) -> Vec<ReviewFile> {
        let proposals = self.inner.proposals();
        let files = proposals.values().filter_map(|proposal| {
            let merged = proposal.merged(&self.inner);
            let hunks = merged.hunks(proposal).into_iter().map(|it| it.hunk).filter(|it| it.is_of(scope));
            let hunks: Vec<Hunk> = hunks.collect();
            let before = merged.current.map(|document| document.text);
            let path = proposal.path.clone();
            (!hunks.is_empty()).then_some(ReviewFile { path, moved_from: None, before, hunks })
        });
        files.collect()
    }

    /// The files with proposed changes of `scope`. Blocks.
    pub fn proposed_files_of(&self, scope: &[RunId]) -> Vec<AbsPath> {
        self.proposed_changes(scope).into_iter().map(|file| file.path).collect()
    }

    /// Plans to make the selected proposed changes of `scope`.
    ///
    /// Only those of their oldest run. Blocks, at most 30 s for another decision.
    ///
    /// # Errors
    /// [`ReviewError`]; [`ReviewError::Nothing`] if none is left.
    pub fn plan_acceptance(
        &self,
        scope: &[RunId],
        selection: Selection<'_>,
    ) -> Result<Acceptance, ReviewError> {
        if self.inner.proposals().is_empty() {
            return Err(ReviewError::Nothing);
        }
        let lock = self.inner.state.lock(LOCK, review::LOCK_DEADLINE)?;
        // Another process may have stored the last decision.
        let proposals = read(&directory(&self.inner)?)?;
        let mut skipped = Vec::new();
        let mut found = Vec::new();
        for proposal in proposals.values() {
            let merged = proposal.merged(&self.inner);
            let mut hunks = merged.hunks(proposal);
            hunks.retain(|it| it.hunk.is_of(scope) && selection.has(&proposal.path, &it.hunk.id));
            let (edited, fitting): (Vec<_>, Vec<_>) = hunks.into_iter().partition(|it| it.hunk.is_edited);
            skipped.extend(edited.iter().map(|it| Skipped {
                path: proposal.path.clone(),
                reason: format!("{}you changed it since", place(&it.hunk.kind)),
            }));
            found.push((proposal, merged, fitting));
        }
        let of = |it: &Proposed| it.hunk.runs.last().cloned();
        let Some(run) =
            found.iter().flat_map(|(_, _, hunks)| hunks).filter_map(of).min_by(|a, b| a.0.cmp(&b.0))
        else {
            return Err(match skipped.is_empty() {
                true => ReviewError::Nothing,
                false => ReviewError::Conflict { skipped },
            });
        };
        let mut files = Files::new(&*self.inner);
        let mut accepted = BTreeMap::new();
        let mut count = 0;
        for (proposal, merged, mut hunks) in found {
            hunks.retain(|it| of(it).as_ref() == Some(&run));
            if hunks.is_empty() {
                continue;
            }
            count += hunks.len();
            let path = proposal.path.clone();
            let Some(document) = &merged.current else {
                let (text, planned) = (merged.text.now().to_owned(), proposal.text.clone());
                let of_file = Accepted { planned, before: "".into(), after: text.clone(), base: None };
                accepted.insert(path.clone(), of_file);
                files.make(Operation::Create { path, text, replaces: None })?;
                continue;
            };
            let changes = || hunks.iter().filter_map(|it| it.lines.as_ref());
            let (proposed, is_left) = (&proposal.text, merged.changes.len() > hunks.len());
            let edits = edits_of(changes(), proposed.now(), |it| (&it.base, &it.proposed));
            let base = apply(&self.inner, &merged.base, &edits)?;
            let edits = edits_of(changes(), proposed.now(), |it| (&it.current, &it.proposed));
            let after = apply(&self.inner, &document.text, &edits)?;
            let planned = proposed.rebased(&merged.base, proposed.now());
            let before = Arc::clone(&document.text);
            let of_file = Accepted { planned, before, after, base: is_left.then_some(base) };
            accepted.insert(path.clone(), of_file);
            files.make(Operation::Edit { path, expected: document.version, edits })?;
        }
        let label = match count {
            1 => "keep a proposed change".to_owned(),
            count => format!("keep {count} proposed changes"),
        };
        let plan = files.into_plan(label)?;
        Ok(Acceptance { plan, run, skipped, accepted, lock })
    }

    /// Makes accepted changes in the editor or on the disk.
    ///
    /// Not cancellable: it finishes even when this future is dropped.
    ///
    /// # Errors
    /// [`CommitError`]; the changes stay proposals then.
    pub async fn commit_acceptance(
        &self,
        acceptance: Acceptance,
        permit: Permit,
    ) -> Result<Arc<Commit>, CommitError> {
        let workspace = self.clone();
        let work = async move { workspace.commit_accepted(acceptance, permit).await };
        finished(self.inner.tasks.spawn(work).await)
    }

    async fn commit_accepted(
        &self,
        acceptance: Acceptance,
        permit: Permit,
    ) -> Result<Arc<Commit>, CommitError> {
        let Acceptance { plan, run, accepted, lock, .. } = acceptance;
        let accepted = Arc::new(accepted);
        let update = |end: Option<bool>| {
            let (inner, accepted) = (Arc::clone(&self.inner), Arc::clone(&accepted));
            blocking(move || {
                let mut editing = Editing::begin(&inner)?;
                for (path, Accepted { planned, before, after, base }) in &*accepted {
                    let proposal = editing.files.get_mut(path);
                    let is_planned = proposal.as_ref().is_some_and(|it| it.text.now() == planned.now());
                    match (end, proposal) {
                        (None, Some(proposal)) if is_planned => {
                            let base = base.clone().unwrap_or_else(|| planned.now().to_owned());
                            let accepting = Some(Accepting { after: after.clone(), base });
                            (proposal.text, proposal.accepting) = (planned.clone(), accepting);
                        }
                        (None, _) => return Err(CommitError::Moved { paths: vec![path.clone()] }),
                        (Some(false), Some(proposal)) => proposal.accepting = None,
                        (Some(true), Some(proposal)) if is_planned => {
                            let Some(base) = base else {
                                editing.files.remove(path);
                                continue;
                            };
                            (proposal.text, proposal.accepting) =
                                (planned.rebased(base, planned.now()), None);
                        }
                        // The agent proposed before the commit, for the user's text before it.
                        (Some(true), Some(proposal)) if proposal.text.base() == &**before => {
                            proposal.text = proposal.text.rebased(after, proposal.text.now());
                            proposal.is_new = false;
                        }
                        (Some(_), _) => {}
                    }
                }
                Ok(editing.store()?)
            })
        };
        update(None).await?;
        let order = Order { plan, run, undoes: Vec::new(), redo: false, accepted: true };
        let committed = self.spawn_commit(permit, order).await;
        if let Err(error) = update(Some(committed.is_ok())).await {
            // The next read of the proposal recognizes the text after the commit.
            tracing::warn!(%error, "the end of a decision on proposals is not stored");
        }
        drop(lock);
        committed
    }

    /// Drops the proposed edits of a run, as part of its undo.
    pub(crate) async fn drop_proposals(&self, run: &RunId) -> Result<(), CommitError> {
        let (workspace, scope) = (self.clone(), vec![run.clone()]);
        blocking(move || Ok(workspace.reject_proposals(&scope, Selection::All).map(drop)?)).await
    }

    /// Drops the selected proposed changes of `scope`; returns them.
    ///
    /// Blocks, at most 30 s for another decision.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn reject_proposals(
        &self,
        scope: &[RunId],
        selection: Selection<'_>,
    ) -> Result<Vec<(AbsPath, Hunk)>, StateError> {
        if self.inner.proposals().is_empty() {
            return Ok(Vec::new());
        }
        let _lock = self.inner.state.lock(LOCK, review::LOCK_DEADLINE)?;
        let mut editing = Editing::begin(&self.inner)?;
        let mut rejected = Vec::new();
        for (path, proposal) in editing.files.clone() {
            let merged = proposal.merged(&self.inner);
            let mut hunks = merged.hunks(&proposal);
            let count = hunks.len();
            hunks.retain(|it| it.hunk.is_of(scope) && selection.has(&path, &it.hunk.id));
            if hunks.is_empty() {
                continue;
            }
            if hunks.len() == count {
                editing.files.remove(&path);
            } else {
                let changes = hunks.iter().filter_map(|it| it.lines.as_ref());
                let edits = edits_of(changes, &merged.base, |it| (&it.proposed, &it.base));
                let now = apply(&self.inner, proposal.text.now(), &edits)?;
                let text = proposal.text.rebased(&merged.base, &now);
                editing.files.insert(path.clone(), Proposal { text, accepting: None, ..proposal });
            }
            rejected.extend(hunks.into_iter().map(|it| (path.clone(), it.hunk)));
        }
        if !rejected.is_empty() {
            editing.store()?;
        }
        Ok(rejected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Fixture;

    #[test]
    fn changes_that_do_not_fit_are_an_error() {
        let fixture = Fixture::new(&[]);
        let edits = [TextEdit::replace(0..2, "x"), TextEdit::replace(1..3, "y")];
        let damaged = apply(&fixture.workspace.inner, "1\n2\n", &edits);
        assert!(
            matches!(damaged, Err(StateError::Damaged { path, .. }) if path.as_path().ends_with("review/proposals.json"))
        );
    }
}
