//! What files held before a command, on the disk while the command runs, so that a process that is killed in the middle of it
//! leaves what the command overwrote where undo finds it.
//!
//! Only what nobody else has is kept. Contents are written once and stay while the process lives; commands that follow name them again.
//! The format is in `docs/formats/journal.md`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::content::Image;
use crate::disk::{self, Found};
use crate::journal::{Contents, Entry, Journal, Pack, Stored, StoredStep, as_uri};
use crate::process::lock;
use crate::transaction::LOCK;
use crate::{AbsPath, ContentHash, RecoveryNote, RunId, StateDir, StateError, StateLock};

const FOLDER: &str = "commands";
const HELD: &str = "held.lock";
const FORMAT: u64 = 1;
const LOCK_DEADLINE: Duration = Duration::from_secs(5);
/// Contents that no command names any more go when they are more than those that one does, and than this.
const MOST_IDLE: u64 = 4 << 20;

/// What one process keeps. Its folder goes with it.
#[derive(Debug)]
pub(crate) struct Beforehand {
    /// The folder of all processes of the workspace.
    all: StateDir,
    name: String,
    own: StateDir,
    kept: Mutex<Kept>,
    _held: StateLock,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    open: usize,
    places: HashMap<(ContentHash, bool), (String, Stored)>,
    packs: Vec<String>,
    bytes: u64,
}

/// The note of one command. Dropped, the command has ended and what it changed is in the journal, or it never ran.
#[derive(Debug)]
pub(crate) struct Noted {
    of: Arc<Beforehand>,
    name: String,
}

/// A command as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
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

impl Beforehand {
    /// A folder of this process's in a workspace's state.
    pub fn new(state: &StateDir) -> Result<Arc<Self>, StateError> {
        let all = state.child(FOLDER)?;
        let name = uuid::Uuid::new_v4().simple().to_string();
        let own = all.child(&name)?;
        // Whoever clears away holds it: what is not yet held would look left behind.
        let _clearing = state.lock(LOCK, LOCK_DEADLINE)?;
        let held = own.lock(HELD, LOCK_DEADLINE)?;
        Ok(Arc::new(Self { all, name, own, kept: Mutex::default(), _held: held }))
    }

    /// Notes what a command may overwrite, before it runs. Blocks.
    pub fn note(
        self: &Arc<Self>,
        root: &AbsPath,
        images: &HashMap<PathBuf, Image>,
        run: &RunId,
        label: &str,
    ) -> Result<Noted, StateError> {
        let mut kept = lock(&self.kept);
        let needed: u64 = images.values().map(|image| image.content.bytes().len() as u64).sum();
        if kept.open == 0 && kept.bytes > needed.saturating_mul(2).max(MOST_IDLE) {
            for name in std::mem::take(&mut kept.packs) {
                self.own.remove(&name)?;
            }
            kept.places.clear();
            kept.bytes = 0;
        }
        kept.next += 1;
        let (pack_name, name) = (format!("{:08}.contents", kept.next), format!("{:08}.json", kept.next));
        let (mut pack, mut new) = (Pack::default(), HashMap::new());
        let mut files = Vec::with_capacity(images.len());
        for (path, image) in images {
            let key = (image.hash, image.content.is_link());
            let (pack, content) = match kept.places.get(&key) {
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
            kept.bytes += pack.bytes().len() as u64;
            kept.packs.push(pack_name);
            kept.places.extend(new);
        }
        let note = Note { format: FORMAT, run: run.clone(), label: label.to_owned(), files };
        let json = serde_json::to_vec(&note).map_err(|error| StateError::Damaged {
            path: self.own.path().clone(),
            detail: error.to_string(),
        })?;
        // One that is cut short names a command that never ran.
        self.own.write_new(&name, &[&json])?;
        self.own.sync()?;
        kept.open += 1;
        Ok(Noted { of: Arc::clone(self), name })
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let mut kept = lock(&self.of.kept);
        kept.open = kept.open.saturating_sub(1);
        if let Err(error) = self.of.own.remove(&self.name) {
            tracing::warn!(%error, "the note of a command that has ended stays");
        }
    }
}

impl Drop for Beforehand {
    fn drop(&mut self) {
        if let Err(error) = self.all.remove_tree(&self.name) {
            tracing::debug!(%error, "the contents kept for commands stay until the next start");
        }
    }
}

/// Whether a process left something behind, or is at work.
pub(crate) fn is_any(state: &StateDir) -> Result<bool, StateError> {
    Ok(!state.child(FOLDER)?.list()?.is_empty())
}

/// Puts what commands of killed processes overwrote into the journal, as if they had come to their end. The caller holds the lock.
///
/// # Errors
/// Our own files could not be read or written.
pub(crate) fn recover(state: &StateDir, journal: &Journal) -> Result<Vec<RecoveryNote>, StateError> {
    let all = state.child(FOLDER)?;
    let mut notes = Vec::new();
    for name in all.list()? {
        let folder = all.child(&name)?;
        let Some(_held) = folder.try_lock(HELD)? else { continue };
        // A later note's contents may be an earlier command's work.
        let mut seen = Vec::new();
        for name in folder.list()?.into_iter().filter(|name| name.ends_with(".json")) {
            let bytes = folder.read(&name)?.unwrap_or_default();
            match serde_json::from_slice::<Note>(&bytes) {
                Ok(note) if note.format <= FORMAT => {
                    notes.extend(to_journal(&folder, note, journal, &mut seen)?);
                }
                Ok(note) => {
                    let path = folder.path().join(&name);
                    return Err(StateError::NewerFormat { path, found: note.format, known: FORMAT });
                }
                Err(error) => tracing::debug!(%error, name, "a command was noted in part, and never ran"),
            }
        }
        all.remove_tree(&name)?;
    }
    Ok(notes)
}

fn to_journal(
    folder: &StateDir,
    note: Note,
    journal: &Journal,
    seen: &mut Vec<AbsPath>,
) -> Result<Vec<RecoveryNote>, StateError> {
    let mut contents: HashMap<String, Contents> = HashMap::new();
    let (mut pack, mut steps) = (Pack::default(), BTreeMap::new());
    for StoredFile { path, pack: from, content } in note.files {
        let now = match disk::inspect(&path) {
            Ok(Found::File(image)) => Some(image),
            Ok(Found::Nothing) => None,
            // It cannot be taken back there.
            Ok(Found::Folder) | Err(_) => continue,
        };
        if now.as_ref().is_some_and(|now| content.is(now)) || seen.contains(&path) {
            continue;
        }
        let held = match contents.entry(from) {
            std::collections::hash_map::Entry::Occupied(held) => held.into_mut(),
            std::collections::hash_map::Entry::Vacant(none) => {
                let bytes = folder.read(none.key())?.unwrap_or_default();
                none.insert(Contents::new(bytes))
            }
        };
        let Some(before) = held.get(&content) else {
            tracing::warn!(%path, "what it held before a command is damaged");
            continue;
        };
        seen.push(path.clone());
        let step = StoredStep {
            path: path.clone(),
            before: Some(pack.add(&before)),
            after: now.as_ref().map(|now| pack.add(now)),
            moved_from: None,
            open: false,
            in_place: false,
            adopted: false,
        };
        steps.insert(path, step);
    }
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let label = format!("{} (cut off)", note.label);
    let entry =
        Entry { steps: steps.into_values().collect(), ..Entry::new(journal.next_id()?, note.run, label) };
    journal.store(&entry.id, &pack)?;
    journal.write_pending(&entry)?;
    journal.finish(&entry.id)?;
    let detail = "a command that changed it was cut off; `pilcrow undo` gives back what it held";
    let told = |step: &StoredStep| RecoveryNote {
        commit: entry.id.clone(),
        path: step.path.clone(),
        detail: detail.to_owned(),
    };
    Ok(entry.steps.iter().map(told).collect())
}
