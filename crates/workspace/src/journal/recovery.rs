//! Reverts of unfinished commits.
//!
//! The process that began a commit reverts it, or after a crash the next one that gets the lock. It reverts
//! only our own writes. A file that is neither as before nor as we left it belongs to another program: it
//! stays, and recovery stores its old content outside the journal.

use std::collections::BTreeSet;

use paths::{AbsPath, StateError};

use crate::documents::anchor::anchor;
use crate::documents::content::Image;
use crate::documents::disk::{self, Found};
use crate::documents::write;
use crate::journal::{Contents, Entry, Journal, StoredDirectory, StoredStep};
use crate::{CommitId, RecoveryNote};

/// The outcome of recovery for one file.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub path: AbsPath,
    pub kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Restored,
    /// Pilcrow may not revert it, with the reason.
    Left(String),
    /// Pilcrow cannot revert it, with the reason.
    Failed(String),
}

/// Reverts every unfinished commit. The caller holds the lock.
///
/// # Errors
/// Our own files could not be read or written.
pub(crate) fn recover(journal: &Journal) -> Result<Vec<RecoveryNote>, StateError> {
    let mut notes = Vec::new();
    for id in journal.pending()? {
        let entry = match journal.read_pending(&id) {
            Ok(entry) => entry,
            Err(StateError::Damaged { detail, .. }) => {
                let path = journal.set_aside(&id)?;
                notes.push(RecoveryNote {
                    commit: id,
                    path,
                    detail: format!("the entry is damaged: {detail}"),
                });
                continue;
            }
            Err(error) => return Err(error),
        };
        for outcome in revert_commit(journal, &entry, true)? {
            let detail = match outcome.kind {
                Kind::Restored => "restored to its state before an unfinished commit".to_owned(),
                Kind::Left(detail) => detail,
                Kind::Failed(detail) => {
                    format!("could not be restored: {detail}; the next start tries again")
                }
            };
            notes.push(RecoveryNote { commit: id.clone(), path: outcome.path, detail });
        }
    }
    Ok(notes)
}

/// Reverts one commit, and forgets it unless something failed.
///
/// The answer omits untouched files. After a crash the editor's state is unknown, so the answer names its
/// files.
///
/// # Errors
/// Our own files could not be read or written.
pub(crate) fn revert_commit(
    journal: &Journal,
    entry: &Entry,
    crashed: bool,
) -> Result<Vec<Outcome>, StateError> {
    let contents = journal.contents(&entry.id)?;
    let mut outcomes = Vec::new();
    let mut directories = BTreeSet::new();
    for index in 0..entry.steps.len() {
        let temp = entry.temp(index);
        if let Err(error) = write::remove(&temp) {
            outcomes.push(Outcome { path: temp, kind: Kind::Failed(error.to_string()) });
        }
    }
    // Their permissions come last, since they may forbid creating their entries.
    let mut made_again = Vec::new();
    for directory in &entry.removed {
        match make_directory(&StoredDirectory { mode: None, ..directory.clone() }) {
            Ok(true) => made_again.push(directory),
            Ok(false) => {}
            Err(error) => {
                outcomes
                    .push(Outcome { path: directory.path.clone(), kind: Kind::Failed(error.to_string()) });
            }
        }
    }
    // Removals come first: on a case-insensitive disk a new name hides the old one.
    for removing in [true, false] {
        for (index, step) in entry.steps.iter().enumerate() {
            if step.open || step.before.is_none() != removing {
                continue;
            }
            directories.extend(step.path.parent());
            if let Some(kind) = revert_step(journal, entry, index, &contents) {
                outcomes.push(Outcome { path: step.path.clone(), kind });
            }
        }
    }
    for (index, step) in entry.steps.iter().enumerate().filter(|(_, step)| crashed && step.open) {
        let place = store_old_content(journal, entry, index, &contents)?;
        let detail = format!("the editor had it open; check its content{place}");
        outcomes.push(Outcome { path: step.path.clone(), kind: Kind::Left(detail) });
    }
    for directory in made_again.into_iter().rev() {
        if let Err(error) = set_mode(directory) {
            outcomes.push(Outcome { path: directory.path.clone(), kind: Kind::Failed(error.to_string()) });
        }
    }
    remove_empty(entry.made.iter().map(|directory| &directory.path));
    for directory in directories {
        if let Err(error) = disk::sync_directory(&directory) {
            tracing::debug!(%directory, %error, "not flushed");
        }
    }
    if !outcomes.iter().any(|outcome| matches!(outcome.kind, Kind::Failed(_))) {
        journal.abandon(&entry.id)?;
    }
    Ok(outcomes)
}

/// Reverts a step; `None` if nothing had been done to it.
fn revert_step(journal: &Journal, entry: &Entry, index: usize, contents: &Contents) -> Option<Kind> {
    let step = &entry.steps[index];
    let failed = |detail: String| Some(Kind::Failed(detail));
    let found = match disk::inspect(&step.path) {
        Ok(Found::Nothing) => None,
        Ok(Found::File(image)) => Some(image),
        Ok(Found::Directory) => return leave(journal, entry, index, contents, "it is a directory now"),
        Err(error) => return leave(journal, entry, index, contents, &error.to_string()),
    };
    let matches_disk = |stored: &Option<crate::journal::Stored>| match (stored, &found) {
        (None, None) => true,
        (Some(stored), Some(image)) => stored.is(image),
        _ => false,
    };
    if matches_disk(&step.before) {
        return None;
    }
    let torn = || {
        let before = contents.get(step.before.as_ref()?)?;
        let after = contents.get(step.after.as_ref()?)?;
        let found = found.as_ref()?;
        Some(write::is_torn(&found.content.bytes(), &before.content.bytes(), &after.content.bytes()))
    };
    if !(matches_disk(&step.after) || (step.in_place && torn() == Some(true))) {
        return leave(journal, entry, index, contents, "another program changed it since");
    }
    let result = match &step.before {
        None => match move_back_target(entry, step) {
            Some(from) => std::fs::rename(&step.path, from),
            None => write::remove(&step.path),
        },
        Some(stored) => match contents.get(stored) {
            Some(before) => restore(&step.path, &entry.temp(index), &before),
            None => return failed("its content is missing in the journal".to_owned()),
        },
    };
    match result {
        Ok(()) => Some(Kind::Restored),
        Err(error) => failed(error.to_string()),
    }
}

fn leave(journal: &Journal, entry: &Entry, index: usize, contents: &Contents, reason: &str) -> Option<Kind> {
    match store_old_content(journal, entry, index, contents) {
        Ok(place) => Some(Kind::Left(format!("{reason}, so it was not reverted{place}"))),
        Err(error) => Some(Kind::Failed(error.to_string())),
    }
}

/// Stores the file's earlier content; returns the end of a sentence with its path.
fn store_old_content(
    journal: &Journal,
    entry: &Entry,
    index: usize,
    contents: &Contents,
) -> Result<String, StateError> {
    let step = &entry.steps[index];
    let Some(before) = step.before.as_ref().and_then(|stored| contents.get(stored)) else {
        return Ok(String::new());
    };
    let place = journal.keep(&entry.id, index, &step.path, &before)?;
    Ok(format!("; its earlier content is in {place}"))
}

fn restore(path: &AbsPath, temp: &AbsPath, image: &Image) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let directory = path.parent().unwrap_or_else(|| path.clone());
    std::fs::create_dir_all(&directory)?;
    let (temp, path) = (&*anchor(temp)?, &*anchor(path)?);
    let meta = disk::stat(path)?;
    let linked = meta.as_ref().is_some_and(|meta| meta.nlink() > 1);
    if meta.is_some() && !image.content.is_link() && (linked || !write::is_directory_writable(&directory)) {
        return write::in_place(path, &image.content.bytes(), None);
    }
    let like = meta.as_ref().filter(|meta| meta.is_file()).map(|_| path);
    let rename = write::stage(temp, image, like).and_then(|_| std::fs::rename(temp, path));
    match rename {
        Err(_) if meta.is_some() && !image.content.is_link() => {
            write::remove(temp)?;
            write::in_place(path, &image.content.bytes(), None)
        }
        Err(error) => {
            write::remove(temp)?;
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Returns the old path of a file that only moved, if it can move back as it is.
fn move_back_target<'a>(entry: &'a Entry, step: &'a StoredStep) -> Option<&'a AbsPath> {
    let from = step.moved_from.as_ref()?;
    let origin = entry.step(from)?;
    let unchanged = origin.before.as_ref()?.hash == step.after.as_ref()?.hash;
    let free = disk::stat(from).is_ok_and(|meta| meta.is_none());
    (unchanged && free && origin.after.is_none()).then_some(from)
}

/// Creates a missing directory; returns whether it was missing.
pub(crate) fn make_directory(directory: &StoredDirectory) -> std::io::Result<bool> {
    if disk::stat(&directory.path)?.is_some() {
        return Ok(false);
    }
    std::fs::create_dir_all(&directory.path)?;
    set_mode(directory).map(|()| true)
}

/// Sets a directory's permissions, if they are known.
pub(crate) fn set_mode(directory: &StoredDirectory) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    match directory.mode {
        Some(mode) => std::fs::set_permissions(&directory.path, std::fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// Removes empty directories, the deepest first; returns their parents.
pub(crate) fn remove_empty<'a>(directories: impl Iterator<Item = &'a AbsPath>) -> Vec<AbsPath> {
    let mut directories: Vec<&AbsPath> = directories.collect();
    directories.sort();
    let removed = directories.into_iter().rev().filter(|directory| std::fs::remove_dir(directory).is_ok());
    removed.filter_map(AbsPath::parent).collect()
}

/// Renders the files that could not be reverted, a line each, for a commit's error.
pub(crate) fn unreverted(outcomes: Vec<Outcome>) -> Vec<String> {
    let line = |outcome: Outcome| match outcome.kind {
        Kind::Restored => None,
        Kind::Left(detail) | Kind::Failed(detail) => Some(format!("{}: {detail}", outcome.path)),
    };
    outcomes.into_iter().filter_map(line).collect()
}

/// Renders a note about a commit that a later one reverted.
pub(crate) fn note_line(note: &RecoveryNote) -> String {
    let CommitId(id) = &note.commit;
    format!("{} (unfinished commit {id}): {}", note.path, note.detail)
}
