//! The journal: commits with everything needed to revert them.
//!
//! `docs/formats/journal.md` has the format: one file per commit, `pending` until the commit is done, and one
//! file with its contents. Every writer holds the commit lock.

pub(crate) mod command_backup;
mod records;
pub(crate) mod recovery;

pub use records::{Commit, CommitId, CommitRecord, CommittedFile, RecoveryNote, RunId};

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paths::{AbsPath, StateDir, StateError};
use serde::{Deserialize, Serialize};

use crate::documents::ContentHash;
use crate::documents::content::{Content, Image};

/// Lock file for writing the journal and for recovery.
pub(crate) const LOCK: &str = "commit.lock";

/// Format of the entries that this program writes.
const FORMAT: u64 = 1;
/// Maximum size of all contents, in bytes; the oldest are removed first.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum age of a commit.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Number of newest runs to keep whatever their size and age.
const KEPT_RUNS: usize = 50;

const PENDING: &str = ".pending.json";
const DONE: &str = ".json";

/// The stored form of a commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub format: u64,
    pub id: CommitId,
    pub run: RunId,
    pub label: String,
    pub at_ms: i64,
    /// Commits that this one reverts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<CommitId>,
    #[serde(default)]
    pub redo: bool,
    /// Whether the user accepted proposed edits, so that the review omits them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// The name of this point; the entry changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    pub steps: Vec<StoredStep>,
    #[serde(default)]
    pub made: Vec<StoredDirectory>,
    /// Directories that the commit removed because they were empty.
    #[serde(default)]
    pub removed: Vec<StoredDirectory>,
}

/// The content of one path before and after.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredStep {
    #[serde(with = "as_uri")]
    pub path: AbsPath,
    pub before: Option<Stored>,
    pub after: Option<Stored>,
    #[serde(default, with = "as_optional_uri", skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<AbsPath>,
    /// Whether the editor made the change.
    #[serde(default)]
    pub open: bool,
    /// Whether it is overwritten in place; a crash can leave a mix of both contents.
    ///
    /// The mix has the beginning of one and the end of the other.
    #[serde(default)]
    pub in_place: bool,
    /// Whether the file was created empty for the commit, so that undo removes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

/// A content in the commit's file of contents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub hash: ContentHash,
    pub at: u64,
    pub len: u64,
    #[serde(default)]
    pub link: bool,
    pub mode: Option<u32>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredDirectory {
    #[serde(with = "as_uri")]
    pub path: AbsPath,
    pub mode: Option<u32>,
}

/// Contents for one file, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct Pack {
    bytes: Vec<u8>,
    places: BTreeMap<ContentHash, (u64, u64)>,
}

impl Pack {
    pub fn add(&mut self, image: &Image) -> Stored {
        let content = image.content.bytes();
        let (at, len) = *self.places.entry(image.hash).or_insert_with(|| {
            let at = self.bytes.len() as u64;
            self.bytes.extend_from_slice(&content);
            (at, content.len() as u64)
        });
        Stored { hash: image.hash, at, len, link: image.content.is_link(), mode: image.mode }
    }

    /// Returns all contents, concatenated.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Stored {
    /// Whether both contents are the same.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        self.hash == other.hash && self.link == other.link
    }

    /// Whether `image` is this content.
    pub fn is(&self, image: &Image) -> bool {
        self.hash == image.hash && self.link == image.content.is_link()
    }
}

/// The contents of one commit, read from its file.
pub(crate) struct Contents(Vec<u8>);

impl Contents {
    /// Parses the contents in the bytes of a [`Pack`].
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the content at a position; `None` if it is damaged or was pruned.
    pub fn get(&self, stored: &Stored) -> Option<Image> {
        let start = usize::try_from(stored.at).ok()?;
        let end = start.checked_add(usize::try_from(stored.len).ok()?)?;
        let bytes = self.0.get(start..end)?.to_vec();
        if ContentHash::of(&bytes) != stored.hash {
            return None;
        }
        let content = if stored.link {
            use std::os::unix::ffi::OsStringExt;
            Content::Link(std::ffi::OsString::from_vec(bytes).into())
        } else {
            Content::of(bytes)
        };
        Some(Image { content, hash: stored.hash, mode: stored.mode })
    }
}

/// The journal of one workspace.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    entries: StateDir,
    blobs: StateDir,
    kept: StateDir,
}

impl Journal {
    /// Opens the journal in a workspace's state.
    ///
    /// # Errors
    /// None in practice: the names are valid.
    pub fn new(state: &StateDir) -> Result<Self, StateError> {
        Ok(Self {
            entries: state.child("journal")?,
            blobs: state.child("blobs")?,
            kept: state.child("kept")?,
        })
    }

    /// Creates the name of the next commit; names sort in the order of creation.
    pub fn next_id(&self) -> Result<CommitId, StateError> {
        let number = |name: &String| name.split('-').next()?.parse::<u64>().ok();
        let last = self.entries.list()?.iter().filter_map(number).max().unwrap_or(0);
        let tail = uuid::Uuid::new_v4().simple().to_string();
        Ok(CommitId(format!("{:08}-{}", last + 1, &tail[..6])))
    }

    /// Writes the contents of a commit, durably.
    pub fn store(&self, id: &CommitId, pack: &Pack) -> Result<(), StateError> {
        self.blobs.write_new(&id.0, &[&pack.bytes])?;
        self.blobs.sync()
    }

    /// Writes an unfinished entry, durably.
    ///
    /// The commit writes it again when more is known.
    pub(crate) fn write_pending(&self, entry: &Entry) -> Result<(), StateError> {
        let json = serde_json::to_vec_pretty(entry).map_err(|error| StateError::Damaged {
            path: self.entries.path().clone(),
            detail: error.to_string(),
        })?;
        self.entries.write_atomic(&format!("{}{PENDING}", entry.id.0), &json)
    }

    /// Marks an entry done.
    pub fn finish(&self, id: &CommitId) -> Result<(), StateError> {
        self.entries.rename(&format!("{}{PENDING}", id.0), &format!("{}{DONE}", id.0))
    }

    /// Removes a commit that did not happen.
    pub(crate) fn abandon(&self, id: &CommitId) -> Result<(), StateError> {
        self.entries.remove(&format!("{}{PENDING}", id.0))?;
        self.blobs.remove(&id.0)?;
        Ok(())
    }

    /// Moves an unreadable entry aside; returns its new path.
    pub(crate) fn set_aside(&self, id: &CommitId) -> Result<AbsPath, StateError> {
        let name = format!("{}.damaged", id.0);
        self.entries.rename(&format!("{}{PENDING}", id.0), &name)?;
        Ok(self.entries.path().join(name))
    }

    /// Lists the names of unfinished commits, oldest first.
    pub fn pending(&self) -> Result<Vec<CommitId>, StateError> {
        let names = self.entries.list()?;
        Ok(names
            .iter()
            .filter_map(|name| name.strip_suffix(PENDING))
            .map(|id| CommitId(id.to_owned()))
            .collect())
    }

    /// Reads an unfinished entry.
    pub(crate) fn read_pending(&self, id: &CommitId) -> Result<Entry, StateError> {
        self.read(&format!("{}{PENDING}", id.0))
    }

    /// Lists the names of finished commits, oldest first.
    fn done(&self) -> Result<Vec<CommitId>, StateError> {
        let names = self.entries.list()?;
        let done = names.iter().filter(|name| !name.ends_with(PENDING));
        Ok(done.filter_map(|name| name.strip_suffix(DONE)).map(|id| CommitId(id.to_owned())).collect())
    }

    /// Reads every complete commit, oldest first.
    ///
    /// Omits an unreadable one, with a warning.
    ///
    /// # Errors
    /// [`StateError::NewerFormat`], [`StateError::Io`].
    pub fn entries(&self) -> Result<Vec<Entry>, StateError> {
        let mut entries = Vec::new();
        for id in self.done()? {
            match self.read(&format!("{}{DONE}", id.0)) {
                Ok(entry) => entries.push(entry),
                Err(error @ StateError::Damaged { .. }) => {
                    tracing::warn!(%error, "an unreadable commit is missing from the history");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// The contents of a commit; empty if they were pruned.
    pub fn contents(&self, id: &CommitId) -> Result<Contents, StateError> {
        Ok(Contents(self.blobs.read(&id.0)?.unwrap_or_default()))
    }

    /// Stores a content outside the journal, for the user; returns its path.
    pub fn keep(
        &self,
        id: &CommitId,
        index: usize,
        path: &AbsPath,
        image: &Image,
    ) -> Result<AbsPath, StateError> {
        let directory = self.kept.child(&id.0)?;
        // A name as long as the system allows must not grow.
        let tail: String = path.file_name().chars().rev().take(40).collect();
        let name = format!("{index}-{}", tail.chars().rev().collect::<String>());
        directory.write_atomic(&name, &image.content.bytes())?;
        Ok(directory.path().join(name))
    }

    fn read(&self, name: &str) -> Result<Entry, StateError> {
        #[derive(Deserialize)]
        struct Header {
            format: u64,
        }
        let path = self.entries.path().join(name);
        let damaged = |detail: String| StateError::Damaged { path: path.clone(), detail };
        let bytes = self.entries.read(name)?.ok_or_else(|| damaged("it is gone".to_owned()))?;
        let header: Header = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if header.format > FORMAT {
            return Err(StateError::NewerFormat { path, found: header.format, known: FORMAT });
        }
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
    }

    /// Removes excess and old commits, and contents that no entry refers to.
    ///
    /// Never touches an unfinished commit or the newest runs.
    pub fn prune(&self, now: SystemTime) -> Result<(), StateError> {
        self.prune_to(now, MAX_BYTES, MAX_AGE, KEPT_RUNS)
    }

    fn prune_to(
        &self,
        now: SystemTime,
        max_bytes: u64,
        max_age: Duration,
        kept: usize,
    ) -> Result<(), StateError> {
        self.entries.remove_temps()?;
        let done = self.done()?;
        let known: BTreeSet<CommitId> = done.iter().cloned().chain(self.pending()?).collect();
        let mut sizes = BTreeMap::new();
        for name in self.blobs.list()? {
            let id = CommitId(name);
            if known.contains(&id) {
                let meta = std::fs::metadata(self.blobs.path().join(&id.0));
                sizes.insert(id, meta.map(|meta| meta.len()).unwrap_or_default());
            } else {
                self.blobs.remove(&id.0)?;
            }
        }
        let mut total: u64 = sizes.values().sum();
        let file_age = |id: &CommitId| {
            let modified = std::fs::metadata(self.entries.path().join(format!("{}{DONE}", id.0)))
                .and_then(|meta| meta.modified());
            modified.ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default()
        };
        let oldest_age = done.first().map(file_age).unwrap_or_default();
        if done.len() <= kept || (total <= max_bytes && oldest_age <= max_age) {
            return Ok(());
        }
        let mut entries = self.entries()?;
        let mut runs: Vec<RunId> = Vec::new();
        for entry in entries.iter().rev() {
            if !runs.contains(&entry.run) {
                runs.push(entry.run.clone());
            }
            if runs.len() == kept {
                break;
            }
        }
        entries.retain(|entry| !runs.contains(&entry.run));
        for entry in entries {
            if total <= max_bytes && file_age(&entry.id) <= max_age {
                continue;
            }
            self.entries.remove(&format!("{}{DONE}", entry.id.0))?;
            self.blobs.remove(&entry.id.0)?;
            total = total.saturating_sub(sizes.get(&entry.id).copied().unwrap_or_default());
        }
        Ok(())
    }
}

impl Entry {
    /// Creates an entry dated now, without steps.
    pub fn new(id: CommitId, run: RunId, label: String) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Self {
            format: FORMAT,
            id,
            run,
            label,
            at_ms,
            undoes: Vec::new(),
            redo: false,
            accepted: false,
            checkpoint: None,
            steps: Vec::new(),
            made: Vec::new(),
            removed: Vec::new(),
        }
    }

    /// Finds the step of a path by binary search: steps are in order of path.
    pub fn step(&self, path: &AbsPath) -> Option<&StoredStep> {
        self.steps.binary_search_by(|step| step.path.cmp(path)).ok().map(|index| &self.steps[index])
    }

    /// Returns the file next to `path` that stages its new content.
    pub fn temp(&self, index: usize) -> AbsPath {
        let path = &self.steps[index].path;
        let directory = path.parent().unwrap_or_else(|| path.clone());
        directory.join(format!(".pilcrow-{}-{index}.tmp", self.id.0))
    }
}

/// (De)serializes paths as `file:` URIs, which keep bytes that are not UTF-8.
pub(crate) mod as_uri {
    use super::AbsPath;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(path: &AbsPath, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&paths::path_to_uri(path.as_path()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<AbsPath, D::Error> {
        let uri = String::deserialize(input)?;
        let path = paths::uri_to_path(&uri).and_then(AbsPath::new);
        path.ok_or_else(|| D::Error::custom(format!("{uri:?} is not the URI of a file")))
    }
}

mod as_optional_uri {
    use super::{AbsPath, as_uri};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Uri(#[serde(with = "as_uri")] AbsPath);

    pub fn serialize<S: Serializer>(path: &Option<AbsPath>, out: S) -> Result<S::Ok, S::Error> {
        path.clone().map(Uri).serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<AbsPath>, D::Error> {
        Ok(Option::<Uri>::deserialize(input)?.map(|uri| uri.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> (tempfile::TempDir, Journal) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(AbsPath::new(temp.path()).unwrap());
        (temp, Journal::new(&state).unwrap())
    }

    fn add(journal: &Journal, run: &str, content: &str, done: bool) -> CommitId {
        let id = journal.next_id().unwrap();
        let mut pack = Pack::default();
        let stored = pack.add(&Image::new(Content::text(content, false), None));
        journal.store(&id, &pack).unwrap();
        let mut entry = Entry::new(id.clone(), RunId(run.to_owned()), String::new());
        let path = AbsPath::new("/a b/\u{fc}").unwrap();
        entry.steps.push(StoredStep {
            path: path.clone(),
            before: None,
            after: Some(stored),
            moved_from: Some(path),
            open: false,
            in_place: false,
            adopted: false,
        });
        journal.write_pending(&entry).unwrap();
        if done {
            journal.finish(&id).unwrap();
        }
        id
    }

    #[test]
    fn pruning_keeps_the_newest_runs_and_pending_entries() {
        let (_temp, journal) = journal();
        let unfinished = add(&journal, "z", "0123456789", false);
        let old: Vec<_> = (0..4).map(|n| add(&journal, &format!("run{n}"), "0123456789", true)).collect();
        journal.store(&CommitId("orphan".into()), &Pack::default()).unwrap();
        let torn = journal.entries.path().join(".00000009-x.json.1.tmp");
        std::fs::write(&torn, b"{").unwrap();
        let now = SystemTime::now();
        let left = || journal.entries().unwrap().into_iter().map(|entry| entry.id).collect::<Vec<_>>();

        journal.prune_to(now, 1000, MAX_AGE, 2).unwrap();
        assert_eq!(left(), old, "neither too much nor too old");
        assert!(!journal.blobs.list().unwrap().contains(&"orphan".to_owned()));
        assert!(!torn.as_path().exists());
        journal.prune_to(now, 40, MAX_AGE, 2).unwrap();
        assert_eq!(left(), old[1..], "the oldest goes first, and no more than needed");
        journal.prune_to(now, 0, MAX_AGE, 2).unwrap();
        assert_eq!(left(), old[2..], "two runs stay whatever their size");
        journal.prune_to(now + MAX_AGE * 2, 1000, MAX_AGE, 1).unwrap();
        assert_eq!(left(), old[3..], "age counts too");
        assert_eq!(journal.pending().unwrap(), std::slice::from_ref(&unfinished));
        assert_eq!(journal.blobs.list().unwrap(), [unfinished.0, old[3].0.clone()]);
    }

    #[test]
    fn damaged_contents_and_newer_formats_are_refused() {
        let (_temp, journal) = journal();
        let id = add(&journal, "run", "content", true);
        let entry = journal.entries().unwrap().remove(0);
        let stored = entry.steps[0].after.clone().unwrap();
        let text = |image: Option<Image>| {
            image.and_then(|image| image.content.as_text().map(|text| text.to_string()))
        };
        assert_eq!(text(journal.contents(&id).unwrap().get(&stored)).as_deref(), Some("content"));
        journal.blobs.write_atomic(&id.0, b"CONTENT").unwrap();
        assert!(journal.contents(&id).unwrap().get(&stored).is_none());
        journal.entries.write_atomic("00000009-x.json", b"{").unwrap();
        assert_eq!(journal.entries().unwrap().len(), 1);
        journal.entries.write_atomic("00000009-x.json", br#"{"format":2}"#).unwrap();
        assert!(matches!(journal.entries(), Err(StateError::NewerFormat { found: 2, known: 1, .. })));
    }
}
