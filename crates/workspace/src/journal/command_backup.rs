//! Backups of files on the disk during a command.
//!
//! If the process is killed during the command, undo still finds the overwritten contents. A backup has only
//! contents stored nowhere else. The process writes each content once and keeps it; later commands refer to
//! it again. Invariants: undo reverts the command's changes and no other changes. Recovery leaves files
//! changed when the command had ended, or may have ended, and stores their old contents for the user. The
//! format is in `docs/formats/journal.md`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use paths::{AbsPath, StateDir, StateError, StateLock};
use process::Processes;
use process::stamp;
use serde::{Deserialize, Serialize};

use crate::documents::content::Image;
use crate::documents::disk::{self, Found};
use crate::journal::LOCK;
use crate::journal::{Contents, Entry, Journal, Pack, Stored, StoredStep, as_uri};
use crate::{CommitId, ContentHash, RecoveryNote, RunId};

/// Maximum size of the contents stored for one command, before and after it each.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// Maximum number of changed files of one command that undo reverts.
pub(crate) const MOST_FILES: usize = 5_000;
const DIRECTORY: &str = "commands";
const HELD: &str = "held.lock";
const FORMAT: u64 = 1;
/// Name of the file that the guard locks while the process and its commands live.
///
/// The guard writes to it when they have ended.
const ENDED: &str = "ended";
/// Ending of a record whose command has ended and is not in the journal.
const LEFT: &str = ".left.json";
const LOCK_DEADLINE: Duration = Duration::from_secs(5);
/// Time limit for a killed process's guard to end its commands.
const GUARD_DEADLINE: Duration = Duration::from_secs(2);
/// Minimum size at which contents that no command refers to are removed.
///
/// They must also exceed twice the contents that a command refers to.
const MOST_IDLE: u64 = 4 << 20;

/// The backups of one process, in a directory that is removed with it.
#[derive(Debug)]
pub(crate) struct CommandBackup {
    /// Directory with the backups of all processes of the workspace.
    all: StateDir,
    name: String,
    own: StateDir,
    backups: Mutex<BackupState>,
    _held: StateLock,
}

#[derive(Debug, Default)]
struct BackupState {
    next: u64,
    open: usize,
    /// Whether a record remains after the end of the process.
    left: bool,
    places: HashMap<(ContentHash, bool), (String, Stored)>,
    packs: Vec<String>,
    bytes: u64,
}

/// The record of one command.
///
/// Its drop removes it if the command never ran; else it stays for the next start, unless the journal has
/// the changes.
#[derive(Debug)]
pub(crate) struct BackupRecord {
    of: Arc<CommandBackup>,
    name: String,
    has_run: bool,
}

/// The stored form of a command's record.
#[derive(Debug, Serialize, Deserialize)]
struct StoredRecord {
    format: u64,
    run: RunId,
    label: String,
    files: Vec<StoredFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredFile {
    #[serde(with = "as_uri")]
    path: AbsPath,
    pack: String,
    #[serde(flatten)]
    content: Stored,
}

impl CommandBackup {
    /// Creates the backups of this process in a workspace's state.
    ///
    /// `processes` runs the commands.
    pub fn new(state: &StateDir, processes: &Processes) -> Result<Arc<Self>, StateError> {
        let all = state.child(DIRECTORY)?;
        let name = uuid::Uuid::new_v4().simple().to_string();
        let own = all.child(&name)?;
        // Recovery locks it: a directory that is not yet locked would look abandoned.
        let _clearing = state.lock(LOCK, LOCK_DEADLINE)?;
        let held = own.lock(HELD, LOCK_DEADLINE)?;
        processes.sign_end(&own.path().join(ENDED));
        Ok(Arc::new(Self { all, name, own, backups: Mutex::default(), _held: held }))
    }

    /// Backs up what a command may overwrite, before it runs. Blocks.
    pub(crate) fn back_up(
        self: &Arc<Self>,
        root: &AbsPath,
        images: &HashMap<PathBuf, Image>,
        run: &RunId,
        label: &str,
    ) -> Result<BackupRecord, StateError> {
        let mut backups = self.backups.lock();
        let needed: u64 = images.values().map(|image| image.content.bytes().len() as u64).sum();
        if backups.open == 0 && backups.bytes > needed.saturating_mul(2).max(MOST_IDLE) {
            for name in std::mem::take(&mut backups.packs) {
                self.own.remove(&name)?;
            }
            backups.places.clear();
            backups.bytes = 0;
        }
        backups.next += 1;
        let (pack_name, name) =
            (format!("{:08}.contents", backups.next), format!("{:08}.json", backups.next));
        let (mut pack, mut new) = (Pack::default(), HashMap::new());
        let mut files = Vec::with_capacity(images.len());
        for (path, image) in images {
            let key = (image.hash, image.content.is_link());
            let (pack, content) = match backups.places.get(&key) {
                Some(place) => place.clone(),
                None => {
                    let place = (pack_name.clone(), pack.add(image));
                    new.insert(key, place.clone());
                    place
                }
            };
            let content = Stored { mode: image.mode, ..content };
            files.push(StoredFile { path: root.join(path), pack, content });
        }
        if !new.is_empty() {
            self.own.write_new(&pack_name, &[pack.bytes()])?;
            backups.bytes += pack.bytes().len() as u64;
            backups.packs.push(pack_name);
            backups.places.extend(new);
        }
        let record = StoredRecord { format: FORMAT, run: run.clone(), label: label.to_owned(), files };
        let json = serde_json::to_vec(&record).map_err(|error| StateError::Damaged {
            path: self.own.path().clone(),
            detail: error.to_string(),
        })?;
        // A truncated record belongs to a command that never ran.
        self.own.write_new(&name, &[&json])?;
        self.own.sync()?;
        backups.open += 1;
        Ok(BackupRecord { of: Arc::clone(self), name, has_run: false })
    }

    /// Whether a record waits for the next start: later commands use another directory.
    pub fn has_left(&self) -> bool {
        self.backups.lock().left
    }

    /// Marks a record as one whose command has ended.
    fn leave(&self, name: &str) -> Result<(), StateError> {
        let path = self.own.path().join(name);
        let ended = || stamp(&mut OpenOptions::new().append(true).open(&path)?);
        ended().map_err(|source| StateError::Io { path: path.clone(), source })?;
        self.own.rename(name, &name.replace(".json", LEFT))
    }
}

impl BackupRecord {
    pub fn mark_running(&mut self) {
        self.has_run = true;
    }

    /// Removes the record, because the journal has the changes.
    pub(crate) fn discard(mut self) {
        self.has_run = false;
    }
}

impl Drop for BackupRecord {
    fn drop(&mut self) {
        let mut backups = self.of.backups.lock();
        if self.has_run {
            backups.left = true;
            if let Err(error) = self.of.leave(&self.name) {
                tracing::warn!(%error, "cannot record the time when a command ended");
            }
            return;
        }
        backups.open = backups.open.saturating_sub(1);
        if let Err(error) = self.of.own.remove(&self.name) {
            tracing::warn!(%error, "cannot remove the backup record of a command that has ended");
        }
    }
}

impl Drop for CommandBackup {
    fn drop(&mut self) {
        if self.has_left() {
            return;
        }
        if let Err(error) = self.all.remove_tree(&self.name) {
            tracing::debug!(%error, "cannot remove the backups for commands; the next start does");
        }
    }
}

/// Whether another process left backups behind, or is still running.
pub(crate) fn is_any(state: &StateDir) -> Result<bool, StateError> {
    Ok(!state.child(DIRECTORY)?.list()?.is_empty())
}

/// Moves the backups of killed processes' commands into the journal.
///
/// Treats them as if the commands had ended, and keeps the rest. The caller holds the lock.
///
/// # Errors
/// Our own files could not be read or written.
pub(crate) fn recover(state: &StateDir, journal: &Journal) -> Result<Vec<RecoveryNote>, StateError> {
    let all = state.child(DIRECTORY)?;
    let mut notes = Vec::new();
    for name in all.list()? {
        let directory = all.child(&name)?;
        let Some(_held) = directory.try_lock(HELD)? else { continue };
        // The contents of a later record may be an earlier command's work.
        let mut seen = HashSet::new();
        for name in directory.list()?.into_iter().filter(|name| name.ends_with(".json")) {
            let bytes = directory.read(&name)?.unwrap_or_default();
            match serde_json::from_slice::<StoredRecord>(&bytes) {
                Ok(record) if record.format <= FORMAT => {
                    let ended = ended(&directory, &name)?;
                    notes.extend(to_journal(&directory, record, ended, journal, &mut seen)?);
                }
                Ok(record) => {
                    let path = directory.path().join(&name);
                    return Err(StateError::NewerFormat { path, found: record.format, known: FORMAT });
                }
                Err(error) => tracing::debug!(%error, name, "truncated record of a command that never ran"),
            }
        }
        all.remove_tree(&name)?;
    }
    Ok(notes)
}

/// Reads when the command of a record ended, by the clock that stamps files.
fn ended(directory: &StateDir, note: &str) -> Result<Option<SystemTime>, StateError> {
    let modified =
        |name: &str| std::fs::metadata(directory.path().join(name)).and_then(|meta| meta.modified());
    if note.ends_with(LEFT) {
        return Ok(modified(note).ok());
    }
    // The guard may be about to end the process's children.
    let _signed = match directory.lock(ENDED, GUARD_DEADLINE) {
        Ok(lock) => lock,
        Err(StateError::Locked { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(directory.stat(ENDED).filter(|(_, size)| *size > 0).and_then(|_| modified(ENDED).ok()))
}

/// The state of a path that a command may have changed.
enum Now {
    Same,
    Gone,
    /// The content at the end of the command.
    Changed(Image),
    /// A change by an unknown program.
    Unsure,
}

impl Now {
    /// Determines the state of a path.
    ///
    /// `most` limits the size of a content; larger ones are not stored.
    fn of(path: &AbsPath, was: &Stored, ended: Option<SystemTime>, most: u64) -> Self {
        // The modification time does not count: programs reset it when they copy or move a file here.
        let is_old = |meta: &std::fs::Metadata| {
            let (seconds, nanos) = (u64::try_from(meta.ctime()), u64::try_from(meta.ctime_nsec()));
            let since = Duration::from_secs(seconds.unwrap_or(u64::MAX))
                .saturating_add(Duration::from_nanos(nanos.unwrap_or_default()));
            let changed = SystemTime::UNIX_EPOCH.checked_add(since);
            // With a coarse file clock the order of equal times is unknown.
            changed.zip(ended).is_some_and(|(changed, ended)| changed < ended)
        };
        let meta = match disk::stat(path) {
            Ok(Some(meta)) => meta,
            Ok(None) => return Self::Gone,
            Err(_) => return Self::Unsure,
        };
        if meta.len() != was.len && (!is_old(&meta) || meta.len() > most) {
            return Self::Unsure;
        }
        match disk::inspect(path) {
            Ok(Found::File(image)) if was.is(&image) => Self::Same,
            // The stamp is checked after reading, so the content is not newer.
            Ok(Found::File(image)) => match disk::stat(path) {
                Ok(Some(meta)) if is_old(&meta) => Self::Changed(image),
                _ => Self::Unsure,
            },
            Ok(Found::Nothing) => Self::Gone,
            Ok(Found::Directory) | Err(_) => Self::Unsure,
        }
    }
}

fn to_journal(
    directory: &StateDir,
    record: StoredRecord,
    ended: Option<SystemTime>,
    journal: &Journal,
    seen: &mut HashSet<AbsPath>,
) -> Result<Vec<RecoveryNote>, StateError> {
    let mut contents: HashMap<String, Contents> = HashMap::new();
    let (mut pack, mut steps) = (Pack::default(), BTreeMap::new());
    let (mut left, mut kept, mut lost) = (MOST_BYTES, 0, Vec::new());
    let (id, mut notes) = (journal.next_id()?, Vec::new());
    let note_of = |id: &CommitId, path: &AbsPath, detail: String| RecoveryNote {
        commit: id.clone(),
        path: path.clone(),
        detail,
    };
    for StoredFile { path, pack: from, content } in record.files {
        if seen.contains(&path) {
            continue;
        }
        let now = Now::of(&path, &content, ended, left);
        if matches!(now, Now::Same) {
            continue;
        }
        let backup = match contents.entry(from) {
            std::collections::hash_map::Entry::Occupied(backup) => backup.into_mut(),
            std::collections::hash_map::Entry::Vacant(none) => {
                let bytes = directory.read(none.key())?.unwrap_or_default();
                none.insert(Contents::new(bytes))
            }
        };
        let Some(before) = backup.get(&content) else {
            tracing::warn!(%path, "the backup of its content is damaged");
            continue;
        };
        seen.insert(path.clone());
        if steps.len() + kept >= MOST_FILES {
            lost.push(path);
            continue;
        }
        let after = match now {
            Now::Changed(image) => {
                left = left.saturating_sub(image.content.bytes().len() as u64);
                Some(pack.add(&image))
            }
            Now::Gone => None,
            Now::Same | Now::Unsure => {
                let place = journal.keep(&id, kept, &path, &before)?;
                kept += 1;
                let detail = format!(
                    "it changed after an interrupted command began and was not reverted; \
                     its earlier content is in {place}"
                );
                notes.push(note_of(&id, &path, detail));
                continue;
            }
        };
        let step = StoredStep {
            path: path.clone(),
            before: Some(pack.add(&before)),
            after,
            moved_from: None,
            open: false,
            in_place: false,
            adopted: false,
        };
        steps.insert(path, step);
    }
    if let Some(path) = lost.first() {
        let others = lost.len() - 1;
        let detail = format!(
            "it and {others} more changed after an interrupted command began; \
             too many to store their earlier content"
        );
        notes.push(note_of(&id, path, detail));
    }
    if steps.is_empty() {
        return Ok(notes);
    }
    let label = format!("{} (cut off)", record.label);
    let entry = Entry { steps: steps.into_values().collect(), ..Entry::new(id, record.run, label) };
    journal.store(&entry.id, &pack)?;
    journal.write_pending(&entry)?;
    journal.finish(&entry.id)?;
    for step in &entry.steps {
        let detail = match step.after {
            Some(_) => "a command that changed it was interrupted; `pilcrow undo` restores it",
            None => "a command that deleted it was interrupted; `pilcrow undo` restores it",
        };
        notes.push(note_of(&entry.id, &step.path, detail.to_owned()));
    }
    Ok(notes)
}
