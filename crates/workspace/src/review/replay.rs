//! The replay of the journal for a review.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use paths::{AbsPath, StateError};
use serde::{Deserialize, Serialize};

use super::rejections::{Rejections, Saved};
use super::tracked::{Author, TextHunk, TrackedText};
use super::{DIRECTORY, HunkKind, ReviewError};
use crate::documents::content::{Content, Image};
use crate::journal::{Contents, Entry, Journal, Stored, StoredStep, as_uri};
use crate::plan::simulate::{Lookup, Source};
use crate::state::WorkspaceState;
use crate::{CommitId, RunId};

const FORMAT: u64 = 1;

/// Files with changes of some runs, as they are now.
pub(super) struct Replay {
    pub files: BTreeMap<AbsPath, TrackedFile>,
    /// Directories that the runs made.
    pub made: BTreeSet<AbsPath>,
    /// The last commit of the journal.
    last: Option<CommitId>,
}

/// A file with the changes that are not kept.
#[derive(Debug, Clone)]
pub(super) struct TrackedFile {
    /// The path without the changes.
    pub from: AbsPath,
    /// The content without the changes; `None` for no file. For texts see `text`.
    pub base: Option<Image>,
    pub now: Option<Image>,
    /// The two texts, if both contents are texts.
    pub text: Option<TrackedText>,
    pub runs: Vec<RunId>,
    /// Whether the user changed a content that is not a text beside a text.
    pub is_edited: bool,
    /// The texts before the content became another one, and `is_edited`.
    last_text: Option<(TrackedText, bool)>,
}

/// The decisions of a review, as stored.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Decisions {
    format: u64,
    files: Vec<KeptFile>,
}

/// A file after some of its changes were kept.
#[derive(Debug, Serialize, Deserialize)]
struct KeptFile {
    #[serde(with = "as_uri")]
    path: AbsPath,
    /// The last commit before the decision.
    after: Option<CommitId>,
    /// The rest to review; `None` if nothing is left.
    left: Option<LeftText>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LeftText {
    #[serde(with = "as_uri")]
    from: AbsPath,
    text: TrackedText,
    runs: Vec<RunId>,
    bom: bool,
    mode: Option<u32>,
    #[serde(default)]
    is_edited: bool,
}

impl TrackedFile {
    fn new(from: AbsPath, base: Option<Image>) -> Self {
        let text = base.as_ref().and_then(|base| tracked(base, base));
        Self { from, now: base.clone(), base, text, runs: Vec::new(), is_edited: false, last_text: None }
    }

    /// Makes `after` the current content, as `author` changed it.
    pub(super) fn change(&mut self, after: Option<Image>, author: &Author) {
        if same(&self.now, &after) {
            return;
        }
        match author {
            Author::Agent(run) if !self.runs.contains(run) => self.runs.push(run.clone()),
            Author::Agent(_) => {}
            // Without the agent's changes, nothing of them is edited.
            Author::User if same(&self.base, &after) => self.is_edited = false,
            Author::User => self.is_edited |= self.text.is_none(),
        }
        let was_edited = self.is_edited;
        let text = after.as_ref().and_then(|after| after.content.as_text());
        self.text = match (self.text.take(), text, &self.base, &after) {
            (Some(mut tracked), Some(text), ..) => {
                tracked.change(text, author);
                Some(tracked)
            }
            (None, Some(text), Some(base), Some(after)) => match self.last_text.take() {
                Some((tracked, is_edited)) if tracked.now() == &**text => {
                    self.is_edited = is_edited;
                    Some(tracked)
                }
                _ => tracked(base, after),
            },
            (Some(tracked), None, Some(base), _) => {
                // The text without the changes is what a rejection restores.
                let bom = matches!(base.content, Content::Text { bom: true, .. });
                self.base = Some(Image::new(Content::text(tracked.base(), bom), base.mode));
                self.is_edited |=
                    *author == Author::User || tracked.hunks().iter().any(|hunk| hunk.is_edited);
                self.last_text = Some((tracked, was_edited));
                None
            }
            _ => None,
        };
        self.now = after;
    }

    /// The text without the changes.
    pub(crate) fn before_text(&self) -> Option<Arc<str>> {
        match &self.text {
            Some(text) => Some(text.base().into()),
            None => self.base.as_ref()?.content.as_text().cloned(),
        }
    }

    /// Keeps one change.
    pub fn keep(&mut self, path: &AbsPath, kind: &HunkKind, lines: Option<&TextHunk>) {
        match (kind, lines, &mut self.text) {
            (HunkKind::Lines { .. }, Some(lines), Some(text)) => text.keep(lines),
            (HunkKind::Moved, ..) => self.from = path.clone(),
            _ => *self = Self::new(path.clone(), self.now.clone()),
        }
    }

    fn has_edits(&self) -> bool {
        self.is_edited || self.text.iter().flat_map(TrackedText::hunks).any(|hunk| hunk.is_edited)
    }

    fn has_changes(&self, path: &AbsPath) -> bool {
        let differs = match (&self.text, &self.base, &self.now) {
            (Some(text), ..) => text.base() != text.now(),
            (None, Some(base), Some(now)) => !base.same_content(now),
            (None, base, now) => base.is_some() != now.is_some(),
        };
        differs || (self.from != *path && self.now.is_some())
    }
}

/// Whether both contents are the same.
pub(super) fn same(one: &Option<Image>, other: &Option<Image>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.same_content(other),
        (None, None) => true,
        _ => false,
    }
}

/// Finds the deletion by which a command moved the file that `step` creates.
///
/// The journal has such a move as two steps. `None` if several files have the content.
fn moved_by_command<'a>(
    entry: &Entry,
    gone: impl Iterator<Item = &'a StoredStep>,
    step: &StoredStep,
) -> Option<&'a StoredStep> {
    let content = step.after.as_ref()?;
    let is_same = |other: &Option<Stored>| other.as_ref().is_some_and(|it| it.has_content_of(content));
    let mut gone = gone.filter(|it| is_same(&it.before));
    let mut created = entry.steps.iter().filter(|it| it.before.is_none() && is_same(&it.after));
    match (gone.next(), gone.next(), created.nth(1)) {
        (Some(origin), None, None) => Some(origin),
        _ => None,
    }
}

/// Tracks the texts of two contents, if both are texts.
fn tracked(base: &Image, now: &Image) -> Option<TrackedText> {
    Some(TrackedText::new(base.content.as_text()?, now.content.as_text()?))
}

impl Replay {
    /// Replays the journal, with the decisions of the review `name` if given. Blocks.
    pub fn run(inner: &WorkspaceState, name: Option<&str>, runs: &[RunId]) -> Result<Self, ReviewError> {
        let journal = Journal::new(&inner.state)?;
        let entries = journal.entries()?;
        let mut decisions = name.map_or_else(|| Ok(Decisions::default()), |name| load(inner, name))?.files;
        decisions.sort_by(|a, b| a.after.cmp(&b.after));
        let mut decisions = decisions.into_iter().peekable();
        let last = entries.last().map(|entry| entry.id.clone());
        let mut replay = Self { files: BTreeMap::new(), made: BTreeSet::new(), last };
        let mut authors = Authors::new(runs, name.is_some());
        let mut rejections = Rejections::default();
        for entry in &entries {
            while let Some(kept) = decisions.next_if(|kept| kept.after.as_ref() < Some(&entry.id)) {
                rejections.remove(&kept.path);
                replay.restore(kept);
            }
            let rejection = rejections.find(entry);
            let undone = rejections.take_undone(entry);
            let author = undone.as_ref().map_or_else(|| authors.of(entry), Saved::author);
            let concerns = |path: &AbsPath| replay.files.contains_key(path);
            let is_agent = author != Author::User;
            if !is_agent
                && !entry
                    .steps
                    .iter()
                    .any(|it| concerns(&it.path) || it.moved_from.as_ref().is_some_and(concerns))
            {
                continue;
            }
            let contents = journal.contents(&entry.id)?;
            let saved = rejection.map(|id| (id, Saved::new(entry, &contents, &replay.files)));
            replay.entry(entry, &contents, &author);
            if let Some((id, saved)) = saved {
                rejections.save(id, saved, &replay.files);
            }
            if let Some(saved) = undone {
                replay.undo_rejection(entry, &contents, saved);
            } else if is_agent {
                entry.steps.iter().for_each(|step| rejections.remove(&step.path));
            }
            if is_agent {
                replay.made.extend(entry.made.iter().map(|directory| directory.path.clone()));
            }
        }
        decisions.for_each(|kept| replay.restore(kept));
        for (path, file) in &mut replay.files {
            let now = match inner.lookup(path) {
                Ok(Lookup::File { image, .. }) => Some(image),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(%error, "a file to review cannot be read");
                    None
                }
            };
            file.change(now, &Author::User);
        }
        replay.files.retain(|path, file| file.has_changes(path));
        Ok(replay)
    }

    fn entry(&mut self, entry: &Entry, contents: &Contents, author: &Author) {
        let image = |stored: &Option<Stored>| stored.as_ref().and_then(|stored| contents.get(stored));
        let is_agent = *author != Author::User;
        let mut left = BTreeSet::new();
        let mut edited = Vec::new();
        for step in entry.steps.iter().filter(|step| step.after.is_none()) {
            if let Some(file) = self.files.get_mut(&step.path) {
                file.change(image(&step.before), &Author::User);
                edited.extend(step.before.as_ref().filter(|_| is_agent && file.has_edits()));
            }
        }
        let is_source = |path| entry.steps.iter().any(|step| step.moved_from.as_ref() == Some(path));
        let gone = entry.steps.iter().filter(|step| step.after.is_none() && !is_source(&step.path));
        // A move onto another file replaces that file, and removes the moved one.
        for step in entry.steps.iter().filter(|step| step.before.is_none()) {
            let known = self.files.get(&step.path);
            let moved_back = gone
                .clone()
                .find(|origin| self.files.get(&origin.path).is_some_and(|file| file.from == step.path));
            let by_command = || {
                moved_by_command(entry, gone.clone(), step)
                    .filter(|_| known.is_none_or(|file| file.base.is_none()))
            };
            let inferred = || moved_back.or_else(by_command).map(|origin| &origin.path);
            let Some(from) = step.moved_from.as_ref().or_else(inferred).filter(|from| !left.contains(*from))
            else {
                continue;
            };
            let before = entry.step(from).and_then(|origin| image(&origin.before));
            let known = self.files.remove(from);
            let Some(mut file) =
                known.or_else(|| is_agent.then(|| TrackedFile::new(from.clone(), before.clone())))
            else {
                continue;
            };
            file.change(before, &Author::User);
            file.change(image(&step.after), author);
            if let Author::Agent(run) = author
                && !file.runs.contains(run)
            {
                file.runs.push(run.clone());
            }
            left.insert(from.clone());
            left.insert(step.path.clone());
            self.files.insert(step.path.clone(), file);
        }
        for step in entry.steps.iter().filter(|step| !left.contains(&step.path)) {
            let before = if step.adopted { None } else { image(&step.before) };
            if is_agent && !self.files.contains_key(&step.path) {
                self.files.insert(step.path.clone(), TrackedFile::new(step.path.clone(), before.clone()));
            }
            if let Some(file) = self.files.get_mut(&step.path) {
                file.change(before, &Author::User);
                file.change(image(&step.after), author);
                let after = step.after.as_ref();
                file.is_edited |= after.is_some_and(|after| edited.iter().any(|it| it.has_content_of(after)));
            }
        }
    }

    /// Continues files from before a rejection, with the contents after its undo.
    fn undo_rejection(&mut self, entry: &Entry, contents: &Contents, saved: Saved) {
        for step in &entry.steps {
            match saved.files.get(&step.path) {
                Some(Some(file)) => {
                    let mut file = file.clone();
                    let after = step.after.as_ref().and_then(|after| contents.get(after));
                    file.change(after, &Author::User);
                    self.files.insert(step.path.clone(), file);
                }
                Some(None) => drop(self.files.remove(&step.path)),
                None => {}
            }
        }
    }

    /// Continues a file from a decision.
    fn restore(&mut self, kept: KeptFile) {
        let KeptFile { path, left, .. } = kept;
        let Some(LeftText { from, text, runs, bom, mode, is_edited }) = left else {
            self.files.remove(&path);
            return;
        };
        let image = |text: &str| Some(Image::new(Content::text(text, bom), mode));
        let file = TrackedFile {
            from,
            base: image(text.base()),
            now: image(text.now()),
            text: Some(text),
            runs,
            is_edited,
            last_text: None,
        };
        self.files.insert(path, file);
    }

    /// Stores the state of the files at `paths` after a decision.
    pub fn store(&self, inner: &WorkspaceState, name: &str, paths: &[AbsPath]) -> Result<(), StateError> {
        let mut decisions = load(inner, name)?;
        decisions.format = FORMAT;
        decisions.files.retain(|kept| !paths.contains(&kept.path));
        for path in paths {
            let file = self.files.get(path).filter(|file| file.has_changes(path));
            let left = file.and_then(|file| {
                let image = file.now.as_ref()?;
                Some(LeftText {
                    from: file.from.clone(),
                    text: file.text.clone()?,
                    runs: file.runs.clone(),
                    bom: matches!(image.content, Content::Text { bom: true, .. }),
                    mode: image.mode,
                    is_edited: file.is_edited,
                })
            });
            decisions.files.push(KeptFile { path: path.clone(), after: self.last.clone(), left });
        }
        let directory = inner.state.child(DIRECTORY)?;
        let json = serde_json::to_vec(&decisions).map_err(|error| StateError::Damaged {
            path: directory.path().clone(),
            detail: error.to_string(),
        })?;
        directory.write_atomic(&file_name(name), &json)
    }
}

/// The author of each entry.
///
/// Redone commits are the agent's again. For undos of rejections see [`Rejections`].
struct Authors<'a> {
    runs: &'a [RunId],
    /// Whether the user has the accepted changes already reviewed.
    skips_accepted: bool,
    /// Undos of the runs' commits, with the run.
    undos: BTreeMap<CommitId, RunId>,
    commits: BTreeMap<CommitId, RunId>,
}

impl<'a> Authors<'a> {
    fn new(runs: &'a [RunId], skips_accepted: bool) -> Self {
        Self { runs, skips_accepted, undos: BTreeMap::new(), commits: BTreeMap::new() }
    }

    fn of(&mut self, entry: &Entry) -> Author {
        let reverted =
            |of: &BTreeMap<CommitId, RunId>| entry.undoes.iter().find_map(|id| of.get(id).cloned());
        if entry.redo {
            return match reverted(&self.undos) {
                Some(run) => {
                    self.commits.insert(entry.id.clone(), run.clone());
                    Author::Agent(run)
                }
                None => Author::User,
            };
        }
        if let Some(run) = reverted(&self.commits) {
            self.undos.insert(entry.id.clone(), run);
            return Author::User;
        }
        if self.runs.contains(&entry.run) && !(entry.accepted && self.skips_accepted) {
            self.commits.insert(entry.id.clone(), entry.run.clone());
            return Author::Agent(entry.run.clone());
        }
        Author::User
    }
}

fn load(inner: &WorkspaceState, name: &str) -> Result<Decisions, StateError> {
    let directory = inner.state.child(DIRECTORY)?;
    let Some(bytes) = directory.read(&file_name(name))? else { return Ok(Decisions::default()) };
    let path = directory.path().join(file_name(name));
    match serde_json::from_slice::<Decisions>(&bytes) {
        Ok(decisions) if decisions.format > FORMAT => {
            Err(StateError::NewerFormat { path, found: decisions.format, known: FORMAT })
        }
        Ok(decisions) => Ok(decisions),
        Err(error) => Err(StateError::Damaged { path, detail: error.to_string() }),
    }
}

fn file_name(name: &str) -> String {
    format!("{name}.json")
}
