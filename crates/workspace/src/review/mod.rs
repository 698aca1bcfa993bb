//! Review of an agent's changes, per hunk.
//!
//! The journal has the contents before and after each commit. A review replays the commits of some runs, with
//! everything else as the user's, and compares the outcome with the files as they are now. Kept hunks are
//! stored; a rejection is a commit.
//!
//! Invariants: a hunk has no line that only the user changed; a rejection removes no text of the user; what
//! is neither kept nor rejected stays in the review, also after a restart.

mod rejections;
mod replay;
pub(crate) mod tracked;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use paths::{AbsPath, StateError};
use policy::ErrorCode;
use text::LineIndex;

use crate::documents::content::Content;
use crate::plan::simulate::Files;
use crate::workspace::Workspace;
use crate::{Plan, PlanError, RunId, Skipped};
use replay::{Replay, TrackedFile, same};

/// Prefix of the runs of rejections.
const REJECTION: &str = "rejection-";
/// Number of plans of a rejection, if files change meanwhile.
const ATTEMPTS: usize = 3;
/// Directory of the decisions and the proposed edits.
pub(crate) const DIRECTORY: &str = "review";
/// Lock file for decisions and proposed edits.
pub(crate) const LOCK: &str = "review.lock";
pub(crate) const LOCK_DEADLINE: Duration = Duration::from_secs(30);

/// The changes of some runs that are neither kept nor rejected.
#[derive(Debug, Default)]
pub struct Review {
    /// In order of path.
    pub files: Vec<ReviewFile>,
}

/// A file with changes to review.
#[derive(Debug)]
pub struct ReviewFile {
    /// The current path, or the last one of a deleted file.
    pub path: AbsPath,
    /// The path before the agent moved the file.
    pub moved_from: Option<AbsPath>,
    /// The current text without the changes; `None` if there was no file or no text.
    pub before: Option<Arc<str>>,
    /// In order of position.
    pub hunks: Vec<Hunk>,
}

/// A change that can be kept or rejected by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The same as long as its lines are the same.
    pub id: HunkId,
    pub kind: HunkKind,
    /// The runs that made it, oldest first.
    pub runs: Vec<RunId>,
    /// Whether the user changed it since; it cannot be rejected.
    ///
    /// A proposed change cannot be kept then.
    pub is_edited: bool,
    /// The lines that a proposed change inserts; no file has them yet.
    ///
    /// `now` are the lines that it replaces.
    pub proposed: Option<String>,
}

/// The id of a hunk, within one review.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct HunkId(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkKind {
    /// Lines, from 0, of the text before and of the current text.
    Lines {
        before: Range<usize>,
        now: Range<usize>,
        /// The lines of the text before.
        removed: String,
    },
    Created,
    Deleted,
    Moved,
    /// The whole content, which is not text.
    Content,
}

/// The hunks that a decision concerns.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    All,
    File(&'a AbsPath),
    Hunks(&'a [HunkId]),
}

/// The plan of a rejection.
#[derive(Debug)]
pub struct Rejection {
    pub plan: Plan,
    /// The run to commit it as.
    ///
    /// The undo of such a run brings the changes back to the review.
    pub run: RunId,
    pub rejected: Vec<(AbsPath, Hunk)>,
    /// Selected hunks that stay, because the user changed them.
    pub skipped: Vec<Skipped>,
}

/// The reason why a review is not possible.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The selection has no hunk of the review.
    #[error("there is no such change to review; list the changes again")]
    Nothing,
    /// No selected hunk can be rejected.
    #[error("no change was made: {}", skipped.iter().map(|it| format!("{}: {}", it.path, it.reason)).collect::<Vec<_>>().join("; "))]
    Conflict {
        /// The hunks that stay, with the reasons.
        skipped: Vec<Skipped>,
    },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    State(#[from] StateError),
}

impl ReviewError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Nothing => ErrorCode::NotFound,
            Self::Conflict { .. } => ErrorCode::Conflict,
            Self::Plan(error) => error.code(),
            Self::State(error) => ErrorCode::from(error),
        }
    }
}

impl Selection<'_> {
    pub(crate) fn has(&self, path: &AbsPath, hunk: &HunkId) -> bool {
        match self {
            Self::All => true,
            Self::File(file) => *file == path,
            Self::Hunks(hunks) => hunks.contains(hunk),
        }
    }
}

impl Hunk {
    pub(crate) fn is_of(&self, scope: &[RunId]) -> bool {
        self.runs.is_empty() || self.runs.iter().any(|run| scope.contains(run))
    }
}

impl Workspace {
    /// Returns the changes of `scope` that are neither kept nor rejected.
    ///
    /// `name` is that of the review, whose decisions are stored; `runs` are all that it concerns. Blocks.
    ///
    /// # Errors
    /// [`ReviewError::Plan`] and [`ReviewError::State`].
    pub fn review(&self, name: &str, runs: &[RunId], scope: &[RunId]) -> Result<Review, ReviewError> {
        let replay = self.replay(name, runs)?;
        let files = replay.files.into_iter().filter_map(|(path, mut file)| {
            let all = hunks(&path, &file);
            // The text before has the changes of other runs.
            for (hunk, lines) in all.iter().rev().filter(|(hunk, _)| !hunk.is_of(scope)) {
                file.keep(&path, &hunk.kind, lines.as_ref());
            }
            let hunks = in_scope(all, scope);
            let before = file.base.as_ref().and_then(|_| file.before_text());
            let moved_from = (file.from != path).then(|| file.from.clone());
            (!hunks.is_empty()).then_some(ReviewFile { path, moved_from, before, hunks })
        });
        let mut files: Vec<ReviewFile> = files.chain(self.proposed_changes(scope)).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Review { files })
    }

    /// Replays the changes of files without proposed edits.
    ///
    /// The user decides on proposed edits first.
    fn replay(&self, name: &str, runs: &[RunId]) -> Result<Replay, ReviewError> {
        let mut replay = Replay::run(&self.inner, Some(name), runs)?;
        let proposed = self.proposed_files();
        replay.files.retain(|path, _| !proposed.contains(path));
        Ok(replay)
    }

    /// Keeps the selected changes of `scope`: they leave the review. Blocks.
    ///
    /// # Errors
    /// [`ReviewError`] except [`ReviewError::Conflict`].
    pub fn keep(
        &self,
        name: &str,
        runs: &[RunId],
        scope: &[RunId],
        selection: Selection<'_>,
    ) -> Result<(), ReviewError> {
        let _lock = self.inner.state.lock(LOCK, LOCK_DEADLINE)?;
        let mut replay = self.replay(name, runs)?;
        let mut changed = Vec::new();
        for (path, file) in &mut replay.files {
            // Last first: the ranges of those before stay.
            for (hunk, lines) in hunks(path, file).into_iter().rev() {
                if hunk.is_of(scope) && selection.has(path, &hunk.id) {
                    file.keep(path, &hunk.kind, lines.as_ref());
                    changed.push(path.clone());
                }
            }
        }
        changed.dedup();
        if changed.is_empty() {
            return Err(ReviewError::Nothing);
        }
        replay.store(&self.inner, name, &changed)?;
        Ok(())
    }

    /// Plans to remove the selected changes of `scope` from the current files. Blocks.
    ///
    /// # Errors
    /// [`ReviewError`].
    pub fn plan_rejection(
        &self,
        name: &str,
        runs: &[RunId],
        scope: &[RunId],
        selection: Selection<'_>,
    ) -> Result<Rejection, ReviewError> {
        let mut rejection = self.plan_removal(|| self.replay(name, runs), scope, selection)?;
        rejection.plan.label = match rejection.rejected.len() {
            1 => "reject a change".to_owned(),
            count => format!("reject {count} changes"),
        };
        Ok(rejection)
    }

    /// Plans to remove all changes of `runs`, also those that the user kept. Blocks.
    ///
    /// # Errors
    /// [`ReviewError`]; [`ReviewError::Nothing`] if none of them is left.
    pub fn plan_restore(&self, runs: &[RunId]) -> Result<Rejection, ReviewError> {
        let replay = || Replay::run(&self.inner, None, runs);
        let mut rejection = self.plan_removal(replay, runs, Selection::All)?;
        rejection.plan.label = "restore a checkpoint".to_owned();
        Ok(rejection)
    }

    /// Plans again if a file changed after it was read.
    fn plan_removal(
        &self,
        replay: impl Fn() -> Result<Replay, ReviewError>,
        scope: &[RunId],
        selection: Selection<'_>,
    ) -> Result<Rejection, ReviewError> {
        let plan = || self.plan_removal_once(replay()?, scope, selection);
        for _ in 1..ATTEMPTS {
            match plan() {
                Err(ReviewError::Plan(PlanError::Stale { .. })) => {}
                planned => return planned,
            }
        }
        plan()
    }

    fn plan_removal_once(
        &self,
        replay: Replay,
        scope: &[RunId],
        selection: Selection<'_>,
    ) -> Result<Rejection, ReviewError> {
        let mut files = Files::new(&*self.inner);
        let mut selected = Vec::new();
        for (path, file) in &replay.files {
            let mut hunks = hunks(path, file);
            hunks.retain(|(hunk, _)| hunk.is_of(scope) && selection.has(path, &hunk.id));
            if hunks.is_empty() {
                continue;
            }
            let found = files.now(path)?.map(|node| node.image.clone());
            if !same(&found, &file.now) {
                return Err(PlanError::Stale { path: path.clone() }.into());
            }
            selected.push((path, file, hunks));
        }
        let (mut rejected, mut skipped) = (Vec::new(), Vec::new());
        for (path, file, hunks) in selected {
            let mut skip = |reason: String| skipped.push(Skipped { path: path.clone(), reason });
            let mut in_text = Vec::new();
            for (hunk, lines) in hunks {
                if hunk.is_edited {
                    skip(format!("{}you changed it since", place(&hunk.kind)));
                } else if let Some(lines) = lines {
                    in_text.push((hunk, lines));
                } else if let Some(reason) = reject_file(&mut files, path, file, &hunk.kind)? {
                    skip(reason);
                } else {
                    rejected.push((path.clone(), hunk));
                }
            }
            let Some(text) = file.text.as_ref().filter(|_| !in_text.is_empty()) else { continue };
            let lines: Vec<_> = in_text.iter().map(|(_, lines)| lines).collect();
            let (after, stay) = text.reject(&lines);
            for (hunk, lines) in &in_text {
                if stay.contains(&lines) {
                    let place = place(&hunk.kind);
                    skip(format!(
                        "{place}it contains a moved line; also reject the change that removed the line"
                    ));
                } else {
                    rejected.push((path.clone(), hunk.clone()));
                }
            }
            let to = if files.now(path)?.is_some() { path } else { &file.from };
            let bom =
                matches!(file.now.as_ref().map(|it| &it.content), Some(Content::Text { bom: true, .. }));
            files.set_content(to, Content::text(&after, bom))?;
        }
        match (rejected.is_empty(), skipped.is_empty()) {
            (true, true) => return Err(ReviewError::Nothing),
            (true, false) => return Err(ReviewError::Conflict { skipped }),
            (false, _) => {}
        }
        for directory in replay.made {
            if rejected
                .iter()
                .any(|(path, hunk)| hunk.kind == HunkKind::Created && path.starts_with(&directory))
            {
                files.remove_directory(directory);
            }
        }
        let plan = files.into_plan(String::new())?;
        self.inner.check_holders(&plan)?;
        let run = RunId(format!("{REJECTION}{}", RunId::new()));
        Ok(Rejection { plan, run, rejected, skipped })
    }
}

/// The hunks of a file, with the byte ranges of lines.
fn hunks(path: &AbsPath, file: &TrackedFile) -> Vec<(Hunk, Option<tracked::TextHunk>)> {
    let mut seen = BTreeMap::new();
    let mut id = |parts: [&[u8]; 2], kind: &str| {
        let bytes = [path.to_string().as_bytes(), kind.as_bytes(), parts[0], parts[1]].join(&0);
        let hash = xxhash_rust::xxh3::xxh3_64(&bytes);
        let nth: &mut usize = seen.entry(hash).or_default();
        *nth += 1;
        HunkId(if *nth == 1 { format!("{hash:016x}") } else { format!("{hash:016x}-{nth}") })
    };
    let mut all = Vec::new();
    if let (true, Some(_), Some(_)) = (file.from != *path, &file.base, &file.now) {
        let id = id([file.from.to_string().as_bytes(), b""], "moved");
        all.push((
            Hunk { id, kind: HunkKind::Moved, runs: file.runs.clone(), is_edited: false, proposed: None },
            None,
        ));
    }
    if let Some(text) = &file.text {
        let (before, now) = (LineIndex::new(text.base()), LineIndex::new(text.now()));
        for hunk in text.hunks() {
            let lines = HunkKind::Lines {
                before: line_range(text.base(), &before, &hunk.base),
                now: line_range(text.now(), &now, &hunk.now),
                removed: text.base()[hunk.base.clone()].to_owned(),
            };
            let parts = [text.base()[hunk.base.clone()].as_bytes(), text.now()[hunk.now.clone()].as_bytes()];
            let runs = if hunk.runs.is_empty() { file.runs.clone() } else { hunk.runs.clone() };
            let is_edited = hunk.is_edited || file.is_edited;
            all.push((
                Hunk { id: id(parts, "lines"), kind: lines, runs, is_edited, proposed: None },
                Some(hunk),
            ));
        }
        return all;
    }
    let kind = match (&file.base, &file.now) {
        (None, None) => return all,
        (None, Some(_)) => HunkKind::Created,
        (Some(_), None) => HunkKind::Deleted,
        (Some(base), Some(now)) if base.same_content(now) => return all,
        (Some(_), Some(_)) => HunkKind::Content,
    };
    let hash = |image: &Option<crate::documents::content::Image>| {
        image.as_ref().map(|image| image.hash.to_string()).unwrap_or_default()
    };
    let id = id([hash(&file.base).as_bytes(), hash(&file.now).as_bytes()], "file");
    all.push((Hunk { id, kind, runs: file.runs.clone(), is_edited: file.is_edited, proposed: None }, None));
    all
}

/// The hunks of `scope`, with the lines of a text that has the other changes.
fn in_scope(all: Vec<(Hunk, Option<tracked::TextHunk>)>, scope: &[RunId]) -> Vec<Hunk> {
    let (mut of_scope, mut added, mut removed) = (Vec::new(), 0, 0);
    for (mut hunk, _) in all {
        let is_of = hunk.is_of(scope);
        if let HunkKind::Lines { before, now, .. } = &mut hunk.kind {
            if is_of {
                *before = before.start + added - removed..before.end + added - removed;
            } else {
                (added, removed) = (added + now.len(), removed + before.len());
            }
        }
        if is_of {
            of_scope.push(hunk);
        }
    }
    of_scope
}

/// The lines of a byte range that consists of whole lines.
pub(crate) fn line_range(text: &str, index: &LineIndex, range: &Range<usize>) -> Range<usize> {
    let first = index.line_of(range.start);
    if range.is_empty() {
        return first..first;
    }
    let ends_line = text.as_bytes()[range.end - 1] == b'\n';
    first..index.line_of(range.end - 1) + if ends_line || range.end == text.len() { 1 } else { 0 }
}

/// Rejects a change of a whole file; returns the reason if that is not possible.
fn reject_file(
    files: &mut Files<'_>,
    path: &AbsPath,
    file: &TrackedFile,
    kind: &HunkKind,
) -> Result<Option<String>, PlanError> {
    match kind {
        HunkKind::Created => files.put(path, None)?,
        HunkKind::Deleted => {
            let is_taken = files.now(path)?.is_some() || files.is_directory(path)?;
            if is_taken || files.file_above(path)?.is_some() {
                return Ok(Some("something else is at its path now".to_owned()));
            }
            files.put(path, file.base.clone().map(Files::new_file))?;
        }
        HunkKind::Content => {
            if let Some(base) = &file.base {
                files.set_content(path, base.content.clone())?;
            }
        }
        HunkKind::Moved => {
            if files.now(&file.from)?.is_some() || files.is_directory(&file.from)? {
                return Ok(Some(format!("{} exists now, so it is not moved back", file.from)));
            }
            let node = files.take(path)?;
            files.put(&file.from, node)?;
        }
        HunkKind::Lines { .. } => {}
    }
    Ok(None)
}

/// Renders the lines of a hunk for a message.
pub(crate) fn place(kind: &HunkKind) -> String {
    match kind {
        HunkKind::Lines { now, .. } if now.len() < 2 => format!("line {}: ", now.start + 1),
        HunkKind::Lines { now, .. } => format!("lines {}-{}: ", now.start + 1, now.end),
        _ => String::new(),
    }
}
