//! Taking back a commit that did not come to its end: by the process that began it, or after a crash
//! by the next one that gets the lock.
//!
//! Reverts only our own writes. A file that is neither as before nor as we left it belongs to
//! another program by now: it stays, and its old content is kept outside the journal.

use std::collections::BTreeSet;

use paths::{AbsPath, StateError};

use crate::documents::content::Image;
use crate::documents::disk::{self, Found};
use crate::documents::write;
use crate::journal::{Contents, Entry, Journal, StoredDirectory, StoredStep};
use crate::{CommitId, RecoveryNote};

/// The outcome for one file.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub path: AbsPath,
    pub kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Restored,
    /// Not ours to revert, with the reason.
    Left(String),
    /// It should be reverted but cannot be, with the reason.
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
        for outcome in take_back(journal, &entry, true)? {
            let detail = match outcome.kind {
                Kind::Restored => "put back as it was before a commit that did not finish".to_owned(),
                Kind::Left(detail) => detail,
                Kind::Failed(detail) => {
                    format!("could not be put back: {detail}; the next start tries again")
                }
            };
            notes.push(RecoveryNote { commit: id.clone(), path: outcome.path, detail });
        }
    }
    Ok(notes)
}

/// Reverts one commit, and forgets it unless something failed. Files on which nothing had been
/// done are not in the answer. After a crash the editor's state is not known: its files are
/// named then.
///
/// # Errors
/// Our own files could not be read or written.
pub(crate) fn take_back(journal: &Journal, entry: &Entry, crashed: bool) -> Result<Vec<Outcome>, StateError> {
    let contents = journal.contents(&entry.id)?;
    let mut outcomes = Vec::new();
    let mut directories = BTreeSet::new();
    for index in 0..entry.steps.len() {
        let temp = entry.temp(index);
        if let Err(error) = write::remove(&temp) {
            outcomes.push(Outcome { path: temp, kind: Kind::Failed(error.to_string()) });
        }
    }
    // Their permissions come last, since they may forbid what is to be put into them.
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
    // Removals first: where case does not count, a new name hides the old one.
    for removing in [true, false] {
        for (index, step) in entry.steps.iter().enumerate() {
            if step.open || step.before.is_none() != removing {
                continue;
            }
            directories.extend(step.path.parent());
            if let Some(kind) = take_back_step(journal, entry, index, &contents) {
                outcomes.push(Outcome { path: step.path.clone(), kind });
            }
        }
    }
    for (index, step) in entry.steps.iter().enumerate().filter(|(_, step)| crashed && step.open) {
        let kept = keep(journal, entry, index, &contents)?;
        let detail = format!("the editor had it open, so look whether it is as you want it{kept}");
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

/// `None` when nothing had been done to it.
fn take_back_step(journal: &Journal, entry: &Entry, index: usize, contents: &Contents) -> Option<Kind> {
    let step = &entry.steps[index];
    let failed = |detail: String| Some(Kind::Failed(detail));
    let found = match disk::inspect(&step.path) {
        Ok(Found::Nothing) => None,
        Ok(Found::File(image)) => Some(image),
        Ok(Found::Directory) => return left(journal, entry, index, contents, "a directory is there now"),
        Err(error) => return left(journal, entry, index, contents, &error.to_string()),
    };
    let is = |stored: &Option<crate::journal::Stored>| match (stored, &found) {
        (None, None) => true,
        (Some(stored), Some(image)) => stored.is(image),
        _ => false,
    };
    if is(&step.before) {
        return None;
    }
    let torn = || {
        let before = contents.get(step.before.as_ref()?)?;
        let after = contents.get(step.after.as_ref()?)?;
        let found = found.as_ref()?;
        Some(write::is_torn(&found.content.bytes(), &before.content.bytes(), &after.content.bytes()))
    };
    if !(is(&step.after) || (step.in_place && torn() == Some(true))) {
        return left(journal, entry, index, contents, "another program changed it since");
    }
    let result = match &step.before {
        None => match returns_to(entry, step) {
            Some(from) => std::fs::rename(&step.path, from),
            None => write::remove(&step.path),
        },
        Some(stored) => match contents.get(stored) {
            Some(before) => put_back(&step.path, &entry.temp(index), &before),
            None => return failed("its content is missing in the journal".to_owned()),
        },
    };
    match result {
        Ok(()) => Some(Kind::Restored),
        Err(error) => failed(error.to_string()),
    }
}

fn left(journal: &Journal, entry: &Entry, index: usize, contents: &Contents, why: &str) -> Option<Kind> {
    match keep(journal, entry, index, contents) {
        Ok(kept) => Some(Kind::Left(format!("{why}, so it is left as it is{kept}"))),
        Err(error) => Some(Kind::Failed(error.to_string())),
    }
}

/// Keeps what the file held before; answers words that say where.
fn keep(journal: &Journal, entry: &Entry, index: usize, contents: &Contents) -> Result<String, StateError> {
    let step = &entry.steps[index];
    let Some(before) = step.before.as_ref().and_then(|stored| contents.get(stored)) else {
        return Ok(String::new());
    };
    let kept = journal.keep(&entry.id, index, &step.path, &before)?;
    Ok(format!("; what it held before is kept in {kept}"))
}

fn put_back(path: &AbsPath, temp: &AbsPath, image: &Image) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let directory = path.parent().unwrap_or_else(|| path.clone());
    std::fs::create_dir_all(&directory)?;
    let meta = disk::stat(path)?;
    let linked = meta.as_ref().is_some_and(|meta| meta.nlink() > 1);
    if meta.is_some() && !image.content.is_link() && (linked || !write::is_directory_writable(&directory)) {
        return write::in_place(path, &image.content.bytes(), None);
    }
    let like = meta.as_ref().filter(|meta| meta.is_file()).map(|_| path);
    let rename = write::make(temp, image, like).and_then(|_| std::fs::rename(temp, path));
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

/// Where a file that only moved can simply go back to, and be the same file.
fn returns_to<'a>(entry: &'a Entry, step: &'a StoredStep) -> Option<&'a AbsPath> {
    let from = step.moved_from.as_ref()?;
    let origin = entry.step(from)?;
    let unchanged = origin.before.as_ref()?.hash == step.after.as_ref()?.hash;
    let free = disk::stat(from).is_ok_and(|meta| meta.is_none());
    (unchanged && free && origin.after.is_none()).then_some(from)
}

/// Makes a directory that should be there; answers whether it was missing.
pub(crate) fn make_directory(directory: &StoredDirectory) -> std::io::Result<bool> {
    if disk::stat(&directory.path)?.is_some() {
        return Ok(false);
    }
    std::fs::create_dir_all(&directory.path)?;
    set_mode(directory).map(|()| true)
}

/// Gives a directory its permissions, where they are known.
pub(crate) fn set_mode(directory: &StoredDirectory) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    match directory.mode {
        Some(mode) => std::fs::set_permissions(&directory.path, std::fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// Removes those of the directories that are empty, the deepest first; answers their parents.
pub(crate) fn remove_empty<'a>(directories: impl Iterator<Item = &'a AbsPath>) -> Vec<AbsPath> {
    let mut directories: Vec<&AbsPath> = directories.collect();
    directories.sort();
    let removed = directories.into_iter().rev().filter(|directory| std::fs::remove_dir(directory).is_ok());
    removed.filter_map(AbsPath::parent).collect()
}

/// Files that could not be reverted, a line each, for a commit's error.
pub(crate) fn unreverted(outcomes: Vec<Outcome>) -> Vec<String> {
    let line = |outcome: Outcome| match outcome.kind {
        Kind::Restored => None,
        Kind::Left(detail) | Kind::Failed(detail) => Some(format!("{}: {detail}", outcome.path)),
    };
    outcomes.into_iter().filter_map(line).collect()
}

/// A note about a commit that a later one took back.
pub(crate) fn note_line(note: &RecoveryNote) -> String {
    let CommitId(id) = &note.commit;
    format!("{} (unfinished commit {id}): {}", note.path, note.detail)
}
