//! Review of the changes of a session, live or stored.

use std::path::Path;
use std::sync::Arc;

use agent::store::LoadedSession;
use agent::{Message, Queue};
use paths::AbsPath;
use policy::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workspace::{
    CommitError, Hunk, HunkId, HunkKind, PlanError, Rejection, Review, ReviewError, RunId, Selection,
};

use super::{ServiceError, SessionService};
use crate::announce::ProjectHandle;

/// Number of further plans of an acceptance, if the user types meanwhile.
const ATTEMPTS: usize = 3;

/// Parameters of `review/list`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ReviewParams {
    pub session: String,
    pub cwd: Option<String>,
    /// A message: only the run that it started, and later ones.
    pub since: Option<String>,
    /// Only this run.
    pub run: Option<String>,
}

/// Parameters of `review/before`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct TextBeforeParams {
    #[serde(flatten)]
    pub scope: ReviewParams,
    pub path: String,
}

/// Parameters of `review/keep`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct KeepChanges {
    #[serde(flatten)]
    pub scope: ReviewParams,
    /// Ids of hunks.
    pub hunks: Option<Vec<String>>,
    /// A file; without it and `hunks`, all changes.
    pub path: Option<String>,
}

/// Parameters of `review/reject`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct RejectChanges {
    #[serde(flatten)]
    pub scope: ReviewParams,
    /// Ids of hunks.
    pub hunks: Option<Vec<String>>,
    /// A file; without it and `hunks`, all changes.
    pub path: Option<String>,
    /// The reason, for the model.
    pub reason: Option<String>,
}

/// The changes that are neither kept nor rejected.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReviewView {
    /// In order of path.
    pub files: Vec<ReviewFileView>,
}

/// A file with changes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReviewFileView {
    /// The absolute path; of a deleted file, the last one.
    pub path: String,
    /// The path before the agent moved the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
    pub hunks: Vec<HunkView>,
}

/// A change that can be kept or rejected by itself.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HunkView {
    /// The same as long as the lines are the same.
    pub id: String,
    pub kind: HunkKindName,
    /// Lines of the text before, from 0, the end exclusive; of `lines` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<(usize, usize)>,
    /// Lines of the current text, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<(usize, usize)>,
    /// The lines of the text before; of `lines` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<String>,
    /// Runs that made it, oldest first.
    pub runs: Vec<String>,
    /// Whether the user changed it since, so that it cannot be rejected.
    ///
    /// If it is proposed, it cannot be kept.
    pub edited: bool,
    /// The lines that a proposed change inserts in place of `now`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HunkKindName {
    Lines,
    Created,
    Deleted,
    Moved,
    Content,
}

/// The text of a file without the changes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TextBefore {
    /// Absent if the review lacks the file, or if it was created or is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The text with the proposed changes, if there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed: Option<String>,
}

/// The outcome of keeping changes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KeptView {
    /// Proposed hunks that were not applied.
    pub conflicts: Vec<ConflictView>,
}

/// The outcome of a rejection.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RejectionView {
    /// Number of rejected hunks.
    pub rejected: usize,
    /// Hunks that stay.
    pub conflicts: Vec<ConflictView>,
}

/// A hunk that stays, with the reason.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConflictView {
    pub path: String,
    pub reason: String,
}

/// A session with the runs to review.
pub(super) struct Reviewed {
    pub project: Arc<ProjectHandle>,
    pub loaded: LoadedSession,
    /// All runs of the session.
    pub all_runs: Vec<RunId>,
    pub runs: Vec<RunId>,
}

impl Reviewed {
    /// The name of the session's review: its full id.
    fn name(&self) -> &str {
        &self.loaded.header.id
    }
}

impl SessionService {
    /// Lists the changes of a session that the user neither kept nor rejected.
    ///
    /// # Errors
    /// When there is no such session, or its files cannot be read.
    pub async fn review(
        &self,
        params: ReviewParams,
        project: ProjectHandle,
    ) -> Result<ReviewView, ServiceError> {
        let reviewed = self.reviewed(params, Arc::new(project)).await?;
        blocking(reviewed, |of| {
            Ok(view(of.project.project.workspace.review(of.name(), &of.all_runs, &of.runs)?))
        })
        .await
    }

    /// Returns the current text of a file without the session's changes.
    ///
    /// # Errors
    /// As [`SessionService::review`].
    pub async fn text_before(
        &self,
        params: TextBeforeParams,
        project: ProjectHandle,
    ) -> Result<TextBefore, ServiceError> {
        let TextBeforeParams { scope, path } = params;
        let reviewed = self.reviewed(scope, Arc::new(project)).await?;
        let path = absolute(&path)?;
        blocking(reviewed, move |of| {
            let review = of.project.project.workspace.review(of.name(), &of.all_runs, &of.runs)?;
            let Some(file) = review.files.into_iter().find(|file| file.path == path) else {
                return Ok(TextBefore { text: None, proposed: None });
            };
            let is_proposed = file.hunks.iter().any(|hunk| hunk.proposed.is_some());
            let document = of.project.project.workspace.document(&path).ok().filter(|_| is_proposed);
            Ok(TextBefore {
                text: file.before.map(|text| text.to_string()),
                proposed: document.map(|document| document.text.to_string()),
            })
        })
        .await
    }

    /// Keeps changes: they leave the review, and those that are proposed are applied.
    ///
    /// # Errors
    /// As [`SessionService::review`], when the selection has no change, when the user changed all of the
    /// proposed ones, or when a commit fails.
    pub async fn keep(&self, params: KeepChanges, project: ProjectHandle) -> Result<KeptView, ServiceError> {
        let KeepChanges { scope, hunks, path } = params;
        let reviewed = self.reviewed(scope, Arc::new(project)).await?;
        let selected = Selected::read(hunks, path)?;
        let (project, runs) = (Arc::clone(&reviewed.project), reviewed.runs.clone());
        let selected = Arc::new(selected);
        let of_files = Arc::clone(&selected);
        let mut is_any = blocking(reviewed, move |of| {
            let workspace = &of.project.project.workspace;
            match workspace.keep(of.name(), &of.all_runs, &of.runs, of_files.as_selection()) {
                Ok(()) => Ok(true),
                Err(ReviewError::Nothing) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        let mut attempts = 0;
        // Each run's changes are one commit.
        loop {
            let (of, runs, selected) = (Arc::clone(&project), runs.clone(), Arc::clone(&selected));
            let plan = move || of.project.workspace.plan_acceptance(&runs, selected.as_selection());
            match tokio::task::spawn_blocking(plan).await? {
                Ok(acceptance) => match project.project.commit_accepted(acceptance).await {
                    // The user typed meanwhile.
                    Err(error) if attempts < ATTEMPTS && is_moved(&error) => {
                        attempts += 1;
                        continue;
                    }
                    committed => committed?,
                },
                Err(ReviewError::Plan(PlanError::Stale { .. })) if attempts < ATTEMPTS => {
                    attempts += 1;
                    continue;
                }
                Err(ReviewError::Nothing) if is_any => return Ok(KeptView { conflicts: Vec::new() }),
                Err(ReviewError::Conflict { skipped }) if is_any => {
                    return Ok(KeptView { conflicts: conflicts(skipped) });
                }
                Err(error) => return Err(error.into()),
            }
            is_any = true;
        }
    }

    /// Removes changes from the current files, as a commit.
    ///
    /// A live session reports them to its model with the next messages.
    ///
    /// # Errors
    /// As [`SessionService::review`], when the selection has no change, when the user changed all of them, or
    /// when the commit fails.
    pub async fn reject(
        &self,
        params: RejectChanges,
        project: ProjectHandle,
    ) -> Result<RejectionView, ServiceError> {
        let RejectChanges { scope, hunks, path, reason } = params;
        let reviewed = self.reviewed(scope, Arc::new(project)).await?;
        let selected = Selected::read(hunks, path)?;
        let (project, id) = (Arc::clone(&reviewed.project), reviewed.name().to_owned());
        let runs = reviewed.runs.clone();
        let selected = Arc::new(selected);
        let of_files = Arc::clone(&selected);
        let planned = blocking(reviewed, move |of| {
            let workspace = &of.project.project.workspace;
            Ok(workspace.plan_rejection(of.name(), &of.all_runs, &of.runs, of_files.as_selection()))
        });
        let planned = planned.await?;
        let (mut rejected, mut skipped) = (Vec::new(), Vec::new());
        let mut failure = None;
        match planned {
            Ok(Rejection { plan, run, rejected: of_files, skipped: left }) => {
                project.project.commit_plan_invoked(plan, &run).await?;
                (rejected, skipped) = (of_files, left);
            }
            Err(error @ (ReviewError::Nothing | ReviewError::Conflict { .. })) => failure = Some(error),
            Err(error) => return Err(error.into()),
        }
        let workspace = project.project.workspace.clone();
        let drop = move || workspace.reject_proposals(&runs, selected.as_selection());
        rejected.extend(tokio::task::spawn_blocking(drop).await??);
        match failure {
            Some(error) if rejected.is_empty() => return Err(error.into()),
            Some(ReviewError::Conflict { skipped: left }) => skipped = left,
            _ => {}
        }
        if let Some(live) = self.find(&id) {
            let mut paths: Vec<_> =
                rejected.iter().map(|(path, _)| project.project.workspace.relative(path)).collect();
            paths.dedup();
            let text = rejection_message(rejected.len(), &paths, reason.as_deref());
            live.session().queue(Queue::Steering, Message::user(text).into()).await;
        }
        Ok(RejectionView { rejected: rejected.len(), conflicts: conflicts(skipped) })
    }

    /// Finds the project of a session, and its runs.
    pub(super) async fn reviewed(
        &self,
        params: ReviewParams,
        project: Arc<ProjectHandle>,
    ) -> Result<Reviewed, ServiceError> {
        let live = self.find(&params.session);
        let project = live.as_ref().map_or(project, |live| Arc::clone(&live.project));
        let session = live.map_or(params.session, |live| live.id().to_owned());
        let store = project.project.sessions()?;
        let loaded = tokio::task::spawn_blocking(move || store.load(&session)).await??;
        let all_runs = loaded.runs(None);
        let mut runs = loaded.runs(params.since.as_deref());
        runs.retain(|run| params.run.as_ref().is_none_or(|only| run.0 == *only));
        Ok(Reviewed { project, loaded, all_runs, runs })
    }
}

/// The changes that a decision concerns.
enum Selected {
    All,
    File(AbsPath),
    Hunks(Vec<HunkId>),
}

impl Selected {
    fn read(hunks: Option<Vec<String>>, path: Option<String>) -> Result<Self, ServiceError> {
        Ok(match (hunks, path) {
            (Some(hunks), _) => Self::Hunks(hunks.into_iter().map(HunkId).collect()),
            (None, Some(path)) => Self::File(absolute(&path)?),
            (None, None) => Self::All,
        })
    }

    fn as_selection(&self) -> Selection<'_> {
        match self {
            Self::All => Selection::All,
            Self::File(path) => Selection::File(path),
            Self::Hunks(hunks) => Selection::Hunks(hunks),
        }
    }
}

impl From<ReviewError> for ServiceError {
    fn from(error: ReviewError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// Whether a file changed after the plan was made.
fn is_moved(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(CommitError::Moved { .. }))
}

fn absolute(path: &str) -> Result<AbsPath, ServiceError> {
    let invalid = || {
        ServiceError::new(ErrorCode::InvalidArguments, format!("{path:?} is not an absolute path; use one"))
    };
    // The files of a review are resolved.
    AbsPath::new(Path::new(path)).map(|path| paths::canonical_existing(&path)).ok_or_else(invalid)
}

pub(super) async fn blocking<T: Send + 'static>(
    of: Reviewed,
    work: impl FnOnce(&Reviewed) -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(move || work(&of)).await?
}

/// Renders the message to the model about rejected changes.
fn rejection_message(count: usize, paths: &[String], reason: Option<&str>) -> String {
    let changes =
        if count == 1 { "one of your changes".to_owned() } else { format!("{count} of your changes") };
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    let reason = reason.map_or_else(String::new, |reason| format!(" Reason: {reason}"));
    format!("I rejected {changes} in {}; the lines are as before.{reason}", paths.join(", "))
}

pub(super) fn conflicts(skipped: Vec<workspace::Skipped>) -> Vec<ConflictView> {
    let view = |it: workspace::Skipped| ConflictView { path: it.path.to_string(), reason: it.reason };
    skipped.into_iter().map(view).collect()
}

fn view(review: Review) -> ReviewView {
    let files = review.files.into_iter().map(|file| ReviewFileView {
        path: file.path.to_string(),
        moved_from: file.moved_from.map(|path| path.to_string()),
        hunks: file.hunks.into_iter().map(hunk_view).collect(),
    });
    ReviewView { files: files.collect() }
}

fn hunk_view(hunk: Hunk) -> HunkView {
    let Hunk { id, kind, runs, is_edited, proposed } = hunk;
    let (kind, lines) = match kind {
        HunkKind::Lines { before, now, removed } => (HunkKindName::Lines, Some((before, now, removed))),
        HunkKind::Created => (HunkKindName::Created, None),
        HunkKind::Deleted => (HunkKindName::Deleted, None),
        HunkKind::Moved => (HunkKindName::Moved, None),
        HunkKind::Content => (HunkKindName::Content, None),
    };
    let (before, now, removed) = match lines {
        Some((before, now, removed)) => {
            (Some((before.start, before.end)), Some((now.start, now.end)), Some(removed))
        }
        None => (None, None, None),
    };
    HunkView {
        id: id.0,
        kind,
        before,
        now,
        removed,
        runs: runs.into_iter().map(|run| run.0).collect(),
        edited: is_edited,
        proposed,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_rejection_names_files_and_reason() {
        let paths = ["a.py".to_owned(), "b.py".to_owned()];
        expect!["I rejected 3 of your changes in a.py, b.py; the lines are as before. Reason: too long"]
            .assert_eq(&rejection_message(3, &paths, Some(" too long ")));
    }
}
