//! Review of a session's changes, as requests and replies for surfaces.

use std::sync::Arc;

use paths::AbsPath;
use serde::{Deserialize, Serialize};
use workspace::{Hunk, HunkId, HunkKind, Review, ReviewError, RunId, Selection};

use crate::project::Project;
use crate::request::RequestError;

/// The changes that a request concerns.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewScope {
    /// The id of the session, or a unique part of it.
    pub session: String,
    /// The entry of a message: only the run that it started, and later ones.
    pub since: Option<String>,
    /// Only this run.
    pub run: Option<String>,
}

/// A decision about changes: all of the scope, or some.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewSelection {
    /// Ids of hunks.
    pub hunks: Option<Vec<String>>,
    /// The path of a file.
    #[serde(skip)]
    pub file: Option<AbsPath>,
}

/// The changes to review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReviewReport {
    pub files: Vec<ReviewedFile>,
}

/// A file with changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewedFile {
    /// The absolute path; of a deleted file, the last one.
    pub path: AbsPath,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<AbsPath>,
    pub hunks: Vec<ReviewedHunk>,
    /// The text without the changes; for [`Project::text_before`].
    #[serde(skip)]
    before: Option<Arc<str>>,
}

/// A change that can be kept or rejected by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewedHunk {
    pub id: HunkId,
    /// `lines`, `created`, `deleted`, `moved` or `content`.
    pub kind: &'static str,
    /// Lines of the text before, from 0, the end exclusive; of `lines` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<[usize; 2]>,
    /// Lines of the current text, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<[usize; 2]>,
    /// The removed lines; of `lines` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<String>,
    /// Runs that made it, oldest first.
    pub runs: Vec<RunId>,
    /// Whether the user changed it since, so that it cannot be rejected.
    pub edited: bool,
}

/// The outcome of a rejection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectionReport {
    /// Number of rejected hunks.
    pub rejected: usize,
    /// Hunks that stay, with the reasons.
    pub conflicts: Vec<Conflict>,
}

/// A hunk that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    pub path: AbsPath,
    pub reason: String,
}

/// The name of a session's review and the runs of a request.
struct Reviewed {
    name: String,
    runs: Vec<RunId>,
}

impl Project {
    /// Lists the changes of a session that the user neither kept nor rejected.
    ///
    /// # Errors
    /// When there is no such session, or its files cannot be read.
    pub async fn review(self: &Arc<Self>, scope: ReviewScope) -> Result<ReviewReport, RequestError> {
        self.blocking(move |project| {
            let Reviewed { name, runs } = project.reviewed(&scope)?;
            Ok(report(project.workspace.review(&name, &runs)?))
        })
        .await
    }

    /// Returns the current text of a file without the session's changes.
    ///
    /// `None` if the review has no such file, or its content before was not a text.
    ///
    /// # Errors
    /// As [`Project::review`].
    pub async fn text_before(
        self: &Arc<Self>,
        scope: ReviewScope,
        file: &AbsPath,
    ) -> Result<Option<Arc<str>>, RequestError> {
        let report = self.review(scope).await?;
        Ok(report.files.into_iter().find(|it| it.path == *file).and_then(|file| file.before))
    }

    /// Keeps changes: they leave the review. Returns the rest.
    ///
    /// # Errors
    /// As [`Project::review`], and when the selection has no change.
    pub async fn keep_changes(
        self: &Arc<Self>,
        scope: ReviewScope,
        selection: ReviewSelection,
    ) -> Result<ReviewReport, RequestError> {
        self.blocking(move |project| {
            let Reviewed { name, runs } = project.reviewed(&scope)?;
            selection.with(|selection| project.workspace.keep(&name, &runs, selection))?;
            Ok(report(project.workspace.review(&name, &runs)?))
        })
        .await
    }

    /// Removes changes from the current files, as a commit.
    ///
    /// # Errors
    /// As [`Project::review`], when the selection has no change, when the user changed all of them, or when the
    /// commit fails.
    pub async fn reject_changes(
        self: &Arc<Self>,
        scope: ReviewScope,
        selection: ReviewSelection,
    ) -> Result<RejectionReport, RequestError> {
        let planned = self.blocking(move |project| {
            let Reviewed { name, runs } = project.reviewed(&scope)?;
            let plan = |selection: Selection<'_>| project.workspace.plan_rejection(&name, &runs, selection);
            Ok(selection.with(plan)?)
        });
        let rejection = planned.await?;
        let failed = |error: &dyn std::fmt::Display| RequestError::Invalid(error.to_string());
        let permit = self.policy.permit_invoked(&rejection.plan).map_err(|error| failed(&error))?;
        let commit = self.workspace.commit(rejection.plan, permit, &rejection.run).await;
        let commit = commit.map_err(|error| failed(&error))?;
        self.servers.did_commit(&commit).await;
        let conflict = |it: workspace::Skipped| Conflict { path: it.path, reason: it.reason };
        Ok(RejectionReport {
            rejected: rejection.rejected.len(),
            conflicts: rejection.skipped.into_iter().map(conflict).collect(),
        })
    }

    /// Finds the session and its runs. Blocks.
    fn reviewed(&self, scope: &ReviewScope) -> Result<Reviewed, RequestError> {
        let loaded = self.sessions()?.load(&scope.session)?;
        let mut runs = loaded.runs(scope.since.as_deref());
        runs.retain(|run| scope.run.as_ref().is_none_or(|only| run.0 == *only));
        Ok(Reviewed { name: loaded.header.id, runs })
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, RequestError> + Send + 'static,
    ) -> Result<T, RequestError> {
        let project = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&project)).await?
    }
}

impl ReviewSelection {
    fn with<T>(&self, then: impl FnOnce(Selection<'_>) -> T) -> T {
        match (&self.hunks, &self.file) {
            (Some(hunks), _) => {
                let hunks: Vec<HunkId> = hunks.iter().cloned().map(HunkId).collect();
                then(Selection::Hunks(&hunks))
            }
            (None, Some(file)) => then(Selection::File(file)),
            (None, None) => then(Selection::All),
        }
    }
}

impl From<ReviewError> for RequestError {
    fn from(error: ReviewError) -> Self {
        match error {
            ReviewError::State(error) => Self::Failed(error.into()),
            error => Self::Invalid(error.to_string()),
        }
    }
}

fn report(review: Review) -> ReviewReport {
    let files = review.files.into_iter().map(|file| {
        let hunks = file.hunks.into_iter().map(reviewed_hunk).collect();
        ReviewedFile { path: file.path, moved_from: file.moved_from, hunks, before: file.before }
    });
    ReviewReport { files: files.collect() }
}

fn reviewed_hunk(hunk: Hunk) -> ReviewedHunk {
    let Hunk { id, kind, runs, is_edited } = hunk;
    let mut reviewed =
        ReviewedHunk { id, kind: "lines", before: None, now: None, removed: None, runs, edited: is_edited };
    match kind {
        HunkKind::Lines { before, now, removed } => {
            reviewed.removed = Some(removed);
            reviewed.before = Some([before.start, before.end]);
            reviewed.now = Some([now.start, now.end]);
        }
        HunkKind::Created => reviewed.kind = "created",
        HunkKind::Deleted => reviewed.kind = "deleted",
        HunkKind::Moved => reviewed.kind = "moved",
        HunkKind::Content => reviewed.kind = "content",
    }
    reviewed
}
