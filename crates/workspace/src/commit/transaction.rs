//! The disk's part of a commit: staging, replacing, and rolling back.
//!
//! `begin` stages everything, `finish` makes it visible, and `roll_back` leaves no trace. The order makes a
//! crash harmless: contents and entry are durable before anything appears next to the user's files, and every
//! new content before any replaces a file. Everything blocks and runs under the workspace's commit lock.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use paths::{AbsPath, StateLock};

use super::Order;
use crate::documents::anchor::anchor;
use crate::documents::content::{Content, Image};
use crate::documents::disk::{self, Found};
use crate::documents::failpoints;
use crate::documents::foreign_locks;
use crate::documents::write;
use crate::journal::LOCK;
use crate::journal::recovery;
use crate::journal::{Entry, Journal, Pack, StoredDirectory, StoredStep};
use crate::plan::Step;
use crate::state::WorkspaceState;
use crate::{ChangeKind, Commit, CommitError, CommittedFile, FileChange, Plan, ProtectedFiles, Version};

/// Time for which a commit waits for another one to end.
const LOCK_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum number of times that a starting commit is rebased on typing.
const MAX_REBASES: usize = 8;

/// A commit with staged contents.
pub(crate) struct Transaction {
    inner: Arc<WorkspaceState>,
    journal: Journal,
    entry: Entry,
    plan: Plan,
    methods: Vec<WriteMethod>,
    notes: Vec<String>,
    _lock: StateLock,
}

/// The method to write a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMethod {
    /// A change by the editor.
    Editor,
    Remove,
    /// Replacement by a file next to the path.
    Replace,
    /// Overwriting in place, for this reason.
    InPlace(&'static str),
}

impl Transaction {
    /// Checks that the planned state still holds, and prepares the new contents.
    ///
    /// # Errors
    /// [`CommitError`]; every file is as before then.
    pub fn begin(inner: Arc<WorkspaceState>, order: Order) -> Result<Self, CommitError> {
        let lock = inner.state.lock(LOCK, LOCK_DEADLINE)?;
        failpoints::point("after-lock", None);
        let journal = Journal::new(&inner.state)?;
        let notes = recovery::recover(&journal)?.iter().map(recovery::note_line).collect();
        let Order { mut plan, run, undoes, redo, accepted } = order;
        if accepted {
            // Its lines may be in the text now: an insertion would be made twice.
            check_unchanged(&inner, &plan)?;
        } else {
            rebase_if_typed(&inner, &mut plan)?;
        }
        let targets: BTreeMap<&AbsPath, &Step> =
            plan.steps.iter().filter_map(|step| Some((step.moved_from.as_ref()?, step))).collect();
        let methods = plan.steps.iter().map(|step| write_method(step, targets.get(&step.path).copied()));
        let methods = methods.collect::<Result<Vec<_>, _>>()?;
        check_distinct_files(&plan, &methods)?;

        inner.describe()?;
        let mut entry = Entry::new(journal.next_id()?, run, plan.label.clone());
        (entry.undoes, entry.redo, entry.accepted) = (undoes, redo, accepted);
        let mut pack = Pack::default();
        entry.steps = plan
            .steps
            .iter()
            .zip(&methods)
            .map(|(step, method)| StoredStep {
                path: step.path.clone(),
                before: step.before.as_ref().map(|image| pack.add(image)),
                after: step.after.as_ref().map(|image| pack.add(image)),
                moved_from: step.moved_from.clone(),
                open: step.open,
                in_place: matches!(method, WriteMethod::InPlace(_)),
                adopted: step.adopted,
            })
            .collect();
        entry.made = directories_to_make(&plan)?;
        entry.removed = directories_to_remove(&plan);
        let stored = journal.store(&entry.id, &pack).and_then(|()| {
            failpoints::point("after-blobs", None);
            journal.write_pending(&entry)
        });
        let mut transaction = Self { inner, journal, entry, plan, methods, notes, _lock: lock };
        if let Err(error) = stored {
            return Err(transaction.abandon(error.into()));
        }
        failpoints::point("after-journal", None);
        match transaction.stage() {
            Ok(()) => Ok(transaction),
            Err(error) => Err(transaction.fail(error)),
        }
    }

    /// Returns the changes for the editor to make.
    pub(crate) fn open_changes(&self) -> Vec<FileChange> {
        let is_open = |change: &&FileChange| {
            self.plan.steps.iter().any(|step| step.open && step.path == change.path)
                || matches!(&change.kind, ChangeKind::Renamed { from }
                    if self.plan.steps.iter().any(|step| step.open && step.path == *from))
        };
        if self.methods.contains(&WriteMethod::Editor) {
            self.plan.changes.iter().filter(is_open).cloned().collect()
        } else {
            Vec::new()
        }
    }

    /// Lists the files that the commit changes on the disk.
    pub(crate) fn closed_paths(&self) -> Vec<AbsPath> {
        let steps = self.plan.steps.iter().zip(&self.methods);
        steps
            .filter(|(_, method)| **method != WriteMethod::Editor)
            .map(|(step, _)| step.path.clone())
            .collect()
    }

    /// Makes the new contents visible and marks the commit done.
    ///
    /// # Errors
    /// [`CommitError`]; the disk is as before then, or the error says what is not.
    pub fn finish(mut self) -> Result<Commit, CommitError> {
        failpoints::point("after-editor", None);
        if let Err(error) = self.install() {
            return Err(self.fail(error));
        }
        let files = self.read_back();
        for step in &self.plan.steps {
            ProtectedFiles::accept(&step.path, step.after.as_ref().map(|it| it.content.bytes()).as_deref());
        }
        failpoints::point("before-done", None);
        if let Err(error) = self.journal.finish(&self.entry.id) {
            return Err(self.fail(error.into()));
        }
        failpoints::point("after-done", None);
        if let Err(error) = self.journal.prune(SystemTime::now()) {
            tracing::warn!(%error, "the journal could not be pruned");
        }
        let Entry { id, run, label, .. } = self.entry;
        Ok(Commit { id, run, label, files, notes: self.notes })
    }

    /// Reverts everything; returns the files that it could not revert.
    pub(crate) fn roll_back(self) -> Vec<String> {
        match recovery::revert_commit(&self.journal, &self.entry, false) {
            Ok(outcomes) => recovery::unreverted(outcomes),
            Err(error) => vec![format!("{error}; the next start tries again")],
        }
    }

    fn fail(self, error: CommitError) -> CommitError {
        let lost = self.roll_back();
        error.with_lost(lost)
    }

    /// Removes the staged contents.
    ///
    /// Before the entry is written there is nothing else to remove.
    fn abandon(self, error: CommitError) -> CommitError {
        if let Err(error) = self.journal.abandon(&self.entry.id) {
            tracing::warn!(%error, "cannot remove the contents of a commit that did not begin");
        }
        error
    }

    /// Creates directories, and stages the new contents next to their places.
    fn stage(&mut self) -> Result<(), CommitError> {
        for directory in &self.entry.made {
            let passable = StoredDirectory { mode: None, ..directory.clone() };
            recovery::make_directory(&passable).map_err(|error| io(&directory.path, error))?;
        }
        let mut n = 0;
        for index in 0..self.plan.steps.len() {
            if self.methods[index] != WriteMethod::Replace {
                continue;
            }
            let temp = self.entry.temp(index);
            let step = &self.plan.steps[index];
            match anchor(&temp).and_then(|temp| self.stage_step(step, &temp)) {
                Ok(true) => {}
                Ok(false) => self.notes.push(format!("{}: its owner could not be kept", step.path)),
                Err(error) if allows_overwrite(&error) && can_overwrite(step) => {
                    write::remove(&temp).map_err(|error| io(&temp, error))?;
                    self.overwrite_in_place(index, "no file can be created in its directory")?;
                    continue;
                }
                Err(error) => return Err(io(&step.path, error)),
            }
            n += 1;
            failpoints::point("after-temp", Some(n));
        }
        Ok(())
    }

    fn stage_step(&self, step: &Step, temp: &AbsPath) -> std::io::Result<bool> {
        let Some(after) = &step.after else { return Ok(true) };
        let source = step.moved_from.as_ref().and_then(|from| self.step(from));
        let origin = source.and_then(|step| step.before.as_ref());
        if let (Some(from), Some(origin)) = (&step.moved_from, origin)
            && origin.same_content(after)
            && origin.mode == after.mode
            && std::fs::hard_link(from, temp).is_ok()
        {
            // The file itself moves, with its times, links and attributes.
            return Ok(true);
        }
        let like = step.moved_from.as_ref().or(step.before.as_ref().map(|_| &step.path));
        let mut after = after.clone();
        if source.is_none() && step.before.as_ref().is_some_and(|before| before.mode == after.mode) {
            // The step keeps the current permissions, which may have changed since the plan.
            after.mode = None;
        }
        write::stage(temp, &after, like)
    }

    /// Changes this path to overwriting in place, recorded before it happens.
    fn overwrite_in_place(&mut self, index: usize, reason: &'static str) -> Result<(), CommitError> {
        self.methods[index] = WriteMethod::InPlace(reason);
        self.entry.steps[index].in_place = true;
        Ok(self.journal.write_pending(&self.entry)?)
    }

    fn install(&mut self) -> Result<(), CommitError> {
        let mut directories: BTreeSet<AbsPath> =
            self.entry.made.iter().filter_map(|directory| directory.path.parent()).collect();
        let (mut n, mut in_place) = (0, 0);
        // Removals come first: on a case-insensitive disk the old name is the new one.
        for removing in [true, false] {
            for index in 0..self.plan.steps.len() {
                if self.methods[index] == WriteMethod::Editor
                    || (self.methods[index] == WriteMethod::Remove) != removing
                {
                    continue;
                }
                let path = self.plan.steps[index].path.clone();
                directories.extend(path.parent());
                let anchored = anchor(&path).map_err(|error| io(&path, error))?;
                if !is_as_planned(&self.plan, &self.plan.steps[index])? {
                    // Nothing was done to it, and the file now at the path is not ours to revert.
                    self.entry.steps[index].open = true;
                    return Err(CommitError::Moved { paths: vec![path] });
                }
                if self.methods[index] == WriteMethod::Remove {
                    std::fs::remove_file(&*anchored).map_err(|error| io(&path, error))?;
                }
                if self.methods[index] == WriteMethod::Replace {
                    let temp = self.entry.temp(index);
                    let temp = anchor(&temp).map_err(|error| io(&path, error))?;
                    match std::fs::rename(&*temp, &*anchored) {
                        // Both names are of one file, and the system keeps both.
                        Ok(()) => write::remove(&temp).map_err(|error| io(&temp, error))?,
                        Err(error) if allows_overwrite(&error) && can_overwrite(&self.plan.steps[index]) => {
                            write::remove(&temp).map_err(|error| io(&temp, error))?;
                            self.overwrite_in_place(index, "it cannot be replaced")?;
                        }
                        Err(error) => return Err(io(&path, error)),
                    }
                }
                if let (WriteMethod::InPlace(reason), Some(after)) =
                    (self.methods[index], &self.plan.steps[index].after)
                {
                    in_place += 1;
                    let bytes = after.content.bytes();
                    write::in_place(&anchored, &bytes, Some(in_place)).map_err(|error| io(&path, error))?;
                    self.notes.push(format!("{path}: written in place, since {reason}"));
                }
                n += 1;
                failpoints::point("after-rename", Some(n));
            }
        }
        for directory in self.entry.made.iter().rev() {
            recovery::set_mode(directory).map_err(|error| io(&directory.path, error))?;
        }
        directories
            .extend(recovery::remove_empty(self.entry.removed.iter().map(|directory| &directory.path)));
        for directory in &directories {
            match disk::sync_directory(directory) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(directory, error)),
                _ => {}
            }
        }
        failpoints::point("after-directories", None);
        Ok(())
    }

    /// Reads the written files back.
    fn read_back(&mut self) -> Vec<CommittedFile> {
        let mut files = Vec::with_capacity(self.plan.changes.len());
        for change in &self.plan.changes {
            let version = match self.inner.open_document(&change.path) {
                _ if change.kind == ChangeKind::Deleted => None,
                Some(document) => Some(document.version),
                None => match disk::inspect(&change.path) {
                    Ok(Found::File(image)) => Some(Version { hash: image.hash, editor: None }),
                    _ => None,
                },
            };
            let planned =
                self.step(&change.path).and_then(|step| step.after.as_ref()).map(|image| image.hash);
            // The editor owns the changes that it applied; the user may have typed since.
            let open = self.step(&change.path).is_some_and(|step| step.open);
            if !open && version.map(|version| version.hash) != planned {
                self.notes
                    .push(format!("{}: changed by another program while it was committed", change.path));
            }
            let (path, kind, edits) = (change.path.clone(), change.kind.clone(), change.edits.clone());
            files.push(CommittedFile { path, kind, edits, version });
        }
        files
    }

    fn step(&self, path: &AbsPath) -> Option<&Step> {
        find(&self.plan, path)
    }
}

/// Finds the step of a path by binary search: steps are in order of path.
fn find<'a>(plan: &'a Plan, path: &AbsPath) -> Option<&'a Step> {
    plan.steps.binary_search_by(|step| step.path.cmp(path)).ok().map(|index| &plan.steps[index])
}

/// Checks the planned state, or rebases the plan on the user's typing since.
///
/// If the user's changes do not touch the planned edits, they apply to the current text.
fn rebase_if_typed(inner: &WorkspaceState, plan: &mut Plan) -> Result<(), CommitError> {
    for _ in 0..MAX_REBASES {
        let is_current = rebase(inner, plan);
        match check_unchanged(inner, plan) {
            // The user typed at this moment.
            Err(CommitError::Moved { paths })
                if is_current && paths.iter().all(|path| is_open(plan, path)) => {}
            result => return result,
        }
    }
    check_unchanged(inner, plan)
}

fn is_open(plan: &Plan, path: &AbsPath) -> bool {
    find(plan, path).is_some_and(|step| step.open)
}

/// Whether every open document is planned on its current text.
fn rebase(inner: &WorkspaceState, plan: &mut Plan) -> bool {
    let Some(editor) = &inner.editor else { return false };
    let mut is_current = true;
    for step in plan.steps.iter_mut().filter(|step| step.open) {
        let (Some(document), Some(before)) = (editor.document(&step.path), step.before.as_ref()) else {
            is_current = false;
            continue;
        };
        if before.hash == document.version.hash {
            continue;
        }
        let change = plan.changes.iter_mut().find(|change| change.path == step.path);
        let change = change.filter(|change| change.kind == ChangeKind::Modified);
        let edits = change.as_ref().and_then(|change| editor.rebase(change));
        if editor.document(&step.path).is_none_or(|now| now.version != document.version) {
            // The edits may be for another text.
            continue;
        }
        let after = edits.as_ref().and_then(|edits| text::apply(&document.text, edits).ok());
        let (Some(change), Some(edits), Some(after)) = (change, edits, after) else {
            is_current = false;
            continue;
        };
        let bom = document.bom;
        let now = Content::Text { text: Arc::clone(&document.text), bom };
        step.before = Some(Image::new(now, before.mode));
        let after = Content::text(&after, bom);
        change.before = Some(document.text);
        change.after = after.as_text().cloned();
        change.edits = edits;
        step.after = Some(Image::new(after, step.after.as_ref().and_then(|after| after.mode)));
    }
    is_current
}

/// Checks that every path has its planned target and text, and no other holder.
fn check_unchanged(inner: &WorkspaceState, plan: &Plan) -> Result<(), CommitError> {
    let mut moved = Vec::new();
    for step in &plan.steps {
        let document = inner.open_document(&step.path);
        // A moved link is itself the file, not its target.
        let is_link =
            step.before.as_ref().or(step.after.as_ref()).is_some_and(|image| image.content.is_link());
        let place = if is_link { step.path.parent() } else { Some(step.path.clone()) };
        let same_place = place.is_some_and(|place| {
            place == inner.root || inner.canonical(&place).is_ok_and(|path| path == place)
        });
        let same_content = match (&document, step.open) {
            (Some(document), true) => {
                step.before.as_ref().is_some_and(|before| before.hash == document.version.hash)
            }
            (None, true) => step.before.is_none(),
            (Some(_), false) => false,
            (None, false) => is_as_planned(plan, step)?,
        };
        if !(same_place && same_content) {
            moved.push(step.path.clone());
            continue;
        }
        let reason = match document {
            Some(document) => document.blocked,
            None => foreign_locks::holder(&step.path),
        };
        if let Some(reason) = reason {
            return Err(CommitError::Held { path: step.path.clone(), reason });
        }
    }
    if moved.is_empty() { Ok(()) } else { Err(CommitError::Moved { paths: moved }) }
}

/// Whether the disk still has a step's planned content.
fn is_as_planned(plan: &Plan, step: &Step) -> Result<bool, CommitError> {
    Ok(match (disk::inspect(&step.path)?, &step.before) {
        (Found::Nothing, None) => true,
        (Found::File(image), Some(before)) => before.same_content(&image),
        (Found::File(_), None) => is_case_rename(plan, step),
        _ => false,
    })
}

/// Refuses two names of one file: writing one would lose what the other wrote.
fn check_distinct_files(plan: &Plan, methods: &[WriteMethod]) -> Result<(), CommitError> {
    let mut known: BTreeMap<(u64, u64), &AbsPath> = BTreeMap::new();
    for (step, _) in
        plan.steps.iter().zip(methods).filter(|(_, method)| matches!(method, WriteMethod::InPlace(_)))
    {
        let Some(meta) = disk::stat(&step.path).map_err(|error| io(&step.path, error))? else { continue };
        if let Some(other) = known.insert((meta.dev(), meta.ino()), &step.path) {
            let reason =
                format!("it is the same file as {other} (a hard link); change it by one of its names");
            return Err(CommitError::Held { path: step.path.clone(), reason });
        }
    }
    Ok(())
}

/// Whether a file's new name is its old one on a case-insensitive disk.
fn is_case_rename(plan: &Plan, step: &Step) -> bool {
    let alike = |from: &&AbsPath| from.as_path().as_os_str().eq_ignore_ascii_case(step.path.as_path());
    step.moved_from.as_ref().filter(alike).is_some_and(|from| {
        find(plan, from).is_some_and(|step| step.after.is_none()) && disk::same_file(from, &step.path)
    })
}

/// Chooses how to write a step; `leaves` is the step that its file moves to.
///
/// # Errors
/// [`CommitError`] when the step cannot be written.
fn write_method(step: &Step, leaves: Option<&Step>) -> Result<WriteMethod, CommitError> {
    if step.open {
        return Ok(WriteMethod::Editor);
    }
    let read_only = |path: &AbsPath| Err(CommitError::ReadOnly { path: path.clone() });
    let meta = disk::stat(&step.path).map_err(|error| io(&step.path, error))?;
    let meta = meta.as_ref().filter(|_| step.before.is_some());
    let protected = meta.is_some_and(|meta| !meta.is_symlink() && write::is_read_only(&step.path, meta));
    let unchanged = |target: &Step| matches!((&step.before, &target.after), (Some(before), Some(after)) if before.same_content(after));
    // A protected file may move, but neither change nor be deleted.
    if protected && !leaves.is_some_and(unchanged) {
        return read_only(&step.path);
    }
    let directory = existing_directory(&step.path)?;
    let writable = write::is_directory_writable(&directory);
    match (&step.before, &step.after) {
        (_, None) if writable => Ok(WriteMethod::Remove),
        (None, Some(_)) if writable => Ok(WriteMethod::Replace),
        (Some(_), Some(_)) if can_overwrite(step) && leaves.is_none() => {
            let links = meta.map_or(1, MetadataExt::nlink);
            Ok(match (links > 1, writable) {
                (true, _) => WriteMethod::InPlace("it has several hard links"),
                (false, false) => WriteMethod::InPlace("its directory is read-only"),
                (false, true) => WriteMethod::Replace,
            })
        }
        (Some(_), Some(_)) if writable => Ok(WriteMethod::Replace),
        _ => read_only(&directory),
    }
}

/// Whether the file stays the same file, with another content.
fn can_overwrite(step: &Step) -> bool {
    let plain = |image: &Option<crate::documents::content::Image>| {
        image.as_ref().is_some_and(|image| !image.content.is_link())
    };
    plain(&step.before) && plain(&step.after) && step.moved_from.is_none()
}

/// Finds the nearest directory above `path` that exists.
fn existing_directory(path: &AbsPath) -> Result<AbsPath, CommitError> {
    let mut directory = path.parent().unwrap_or_else(|| path.clone());
    while disk::stat(&directory).map_err(|error| io(&directory, error))?.is_none() {
        let Some(above) = directory.parent() else { break };
        directory = above;
    }
    Ok(directory)
}

/// Lists missing directories of the plan and above its new files, parents first.
fn directories_to_make(plan: &Plan) -> Result<Vec<StoredDirectory>, CommitError> {
    let mut missing: BTreeMap<AbsPath, Option<u32>> = BTreeMap::new();
    let above = plan
        .steps
        .iter()
        .filter(|step| step.after.is_some() && !step.open)
        .filter_map(|step| step.path.parent());
    let named = plan.made.iter().map(|directory| (directory.path.clone(), directory.mode));
    for (directory, mode) in above.map(|directory| (directory, None)).chain(named) {
        let mut next = Some((directory, mode));
        while let Some((directory, mode)) = next.take() {
            if disk::stat(&directory).map_err(|error| io(&directory, error))?.is_none() {
                next = directory.parent().map(|above| (above, None));
                let known = missing.entry(directory).or_default();
                *known = mode.or(*known);
            }
        }
    }
    Ok(missing.into_iter().map(|(path, mode)| StoredDirectory { path, mode }).collect())
}

fn directories_to_remove(plan: &Plan) -> Vec<StoredDirectory> {
    let existing = |path: &AbsPath| {
        let meta = disk::stat(path).ok().flatten().filter(std::fs::Metadata::is_dir)?;
        Some(StoredDirectory { path: path.clone(), mode: Some(disk::mode(&meta)) })
    };
    plan.removed.iter().filter_map(existing).collect()
}

/// Whether overwriting in place may still work after this error.
fn allows_overwrite(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ResourceBusy | ErrorKind::CrossesDevices)
}

fn io(path: &AbsPath, source: std::io::Error) -> CommitError {
    let path = path.clone();
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => CommitError::DiskFull { path },
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => CommitError::ReadOnly { path },
        _ => CommitError::Io { path, source },
    }
}
