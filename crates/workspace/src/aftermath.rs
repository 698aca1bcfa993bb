//! What a command changed in the workspace, so that it can be taken back.
//!
//! Before the command: size, times and inode of every file that no ignore file of the project names, and the
//! contents of those that git does not have. After it: what differs becomes an entry of the journal,
//! as if it had been committed. Files are told apart by those marks alone; only changed ones are read.

mod from_git;
mod look;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

pub(crate) use look::file_clock;

use self::from_git::{ask_git, filtered, from_blob, kept_by_git, on_disk, private};
use self::look::{Seen, Stamp, changed, look, settle};
use crate::beforehand::{Beforehand, Noted};
use crate::content::Image;
use crate::disk::{self, Found};
use crate::git_index::Index;
use crate::journal::{Entry, Journal, Pack, StoredFolder, StoredStep};
use crate::process::lock;
use crate::shell::{self, Written};
use crate::transaction::LOCK;
use crate::{AbsPath, CommitId, Processes, RunId, StateError, Workspace};

/// Contents that are kept for one command, before and after it each.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// The same of files that only the person's own ignore files name.
const MOST_PRIVATE: u64 = 8 << 20;
/// More places that a command line names are not looked at.
const MOST_TOLD: usize = 200;
/// More changed files are not taken back.
pub(crate) const MOST_FILES: usize = 5_000;
/// What version control keeps for itself.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];
const LOCK_DEADLINE: Duration = Duration::from_secs(30);

/// Looks at a workspace before and after commands. Keeps contents that it read, so that a file is
/// read again only when it changed.
#[derive(Debug)]
pub struct Aftermath {
    workspace: Workspace,
    read: Mutex<HashMap<PathBuf, (Stamp, Image)>>,
    beforehand: Mutex<Option<Arc<Beforehand>>>,
}

/// What was there before a command.
#[derive(Debug)]
pub struct Before {
    files: BTreeMap<PathBuf, Stamp>,
    folders: BTreeMap<PathBuf, u32>,
    /// The folders' inodes, which they keep when they are moved.
    known_folders: HashSet<u64>,
    /// Pipes, sockets and devices, by inode.
    special: BTreeMap<PathBuf, u64>,
    /// Contents that nobody else has.
    images: HashMap<PathBuf, Image>,
    /// What git has, and as which blob.
    clean: HashMap<PathBuf, [u8; 20]>,
    git: Option<PathBuf>,
    /// What the command says that it writes, wherever that is.
    told: Vec<(AbsPath, Option<Mark>)>,
    /// What git keeps for itself, but for its index and its objects.
    kept_by_git: Vec<(PathBuf, Stamp)>,
    /// When the look began, by the clock that stamps files.
    began: SystemTime,
    /// The images on the disk, until what changed is in the journal.
    noted: Option<Noted>,
}

impl Before {
    /// The command runs: what it changes is not lost from now on, even where nobody looks after it.
    pub fn runs(&mut self) {
        self.noted.iter_mut().for_each(Noted::runs);
    }
}

/// What a command changed.
#[derive(Debug, Clone, Default)]
pub struct Wrote {
    /// In the journal, if something can be taken back.
    pub commit: Option<CommitId>,
    /// What can be taken back, in order of path.
    pub files: Vec<AbsPath>,
    /// What cannot, and why.
    pub lost: Vec<(AbsPath, String)>,
}

/// Whether something is there, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Folder,
    Other(Stamp),
}

impl Mark {
    fn of(path: &AbsPath) -> Option<Self> {
        let meta = std::fs::symlink_metadata(path.as_path()).ok()?;
        Some(if meta.is_dir() { Self::Folder } else { Self::Other(Stamp::of(&meta)) })
    }
}

#[cfg(test)]
impl Before {
    /// Whether a file would come back from git.
    pub(crate) fn is_from_git(&self, path: &str) -> bool {
        self.clean.contains_key(Path::new(path))
    }
}

impl Aftermath {
    /// For the files of `workspace`.
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, read: Mutex::default(), beforehand: Mutex::default() }
    }

    fn root(&self) -> &AbsPath {
        self.workspace.root()
    }

    /// Notes what is there before the command line `line` of `processes` runs, for `run` and under the label that [`Self::after`] is
    /// given. What nobody else has is on the disk then. Blocks: some 100 ms for 50,000 files.
    pub fn before(&self, line: &str, run: &RunId, label: &str, processes: &Processes) -> Before {
        let began = file_clock();
        let index = Index::of(self.root().as_path());
        let Seen { files, folders, known_folders, special } = look(self.root(), index.as_ref());
        let filtered = filtered(self.root(), index.as_ref(), &files);
        let (mut images, mut clean, mut left) = (HashMap::new(), HashMap::new(), MOST_BYTES);
        let mut read = std::mem::take(&mut *lock(&self.read));
        let private = private(self.root(), index.as_ref());
        let (last, first): (Vec<_>, Vec<_>) =
            files.iter().partition(|(path, _)| private.matched_path_or_any_parents(path, false).is_ignore());
        // What only the person's own ignore files name has room of its own, so that it takes none from the rest.
        let mut of_private = MOST_PRIVATE;
        let all = first.into_iter().map(|it| (it, false)).chain(last.into_iter().map(|it| (it, true)));
        for ((path, stamp), is_private) in all {
            let left = if is_private { &mut of_private } else { &mut left };
            let is_filtered =
                filtered.as_ref().is_none_or(|it| it.matched_path_or_any_parents(path, false).is_ignore());
            let blob = index.as_ref().filter(|_| !is_filtered).and_then(|it| it.clean(path, stamp.look()));
            if let Some(blob) = blob {
                clean.insert(path.clone(), blob);
                continue;
            }
            let Some(rest) = left.checked_sub(stamp.size) else { continue };
            let known = read.remove(path).filter(|(known, _)| known == stamp);
            let image = known.map(|(_, image)| image).or_else(|| image(&self.root().join(path)));
            if let Some(image) = image {
                *left = rest;
                images.insert(path.clone(), image);
            }
        }
        let kept = images.iter().map(|(path, image)| (path.clone(), (files[path], image.clone())));
        *lock(&self.read) = kept.collect();
        let noted = self.note(&images, run, label, processes).unwrap_or_else(|error| {
            tracing::warn!(%error, "what a command overwrites is lost if this process is killed");
            None
        });
        Before {
            files,
            folders,
            known_folders,
            special,
            images,
            clean,
            git: index.map(|index| index.git),
            told: self.told(line),
            kept_by_git: kept_by_git(self.root()),
            began,
            noted,
        }
    }

    fn note(
        &self,
        images: &HashMap<PathBuf, Image>,
        run: &RunId,
        label: &str,
        processes: &Processes,
    ) -> Result<Option<Noted>, StateError> {
        if images.is_empty() {
            return Ok(None);
        }
        let inner = &self.workspace.inner;
        let mut beforehand = lock(&self.beforehand);
        let beforehand = match beforehand.take().filter(|it| !it.has_left()) {
            Some(known) => beforehand.insert(known),
            None => {
                inner.describe()?;
                beforehand.insert(Beforehand::new(&inner.state, processes)?)
            }
        };
        beforehand.note(self.root(), images, run, label).map(Some)
    }

    /// What the line says that it writes, as it is now.
    fn told(&self, line: &str) -> Vec<(AbsPath, Option<Mark>)> {
        let home = std::env::var("HOME").ok().filter(|it| !it.is_empty());
        let mut told = Vec::new();
        for Written { path, names } in shell::written(line, &self.root().to_string(), home.as_deref()) {
            let Some(path) = AbsPath::new(path) else { continue };
            let mark = Mark::of(&path);
            if path.as_path().is_dir() {
                let inside = names.iter().map(|name| path.join(name));
                told.extend(inside.map(|path| (path.clone(), Mark::of(&path))));
            }
            told.push((path, mark));
            if told.len() >= MOST_TOLD {
                break;
            }
        }
        told
    }

    /// What the line said that it writes and did, and neither step nor look has: why it cannot be taken back.
    fn uncovered(&self, before: &Before, after: &Seen, told: &mut Vec<(AbsPath, String)>) {
        for (path, was) in &before.told {
            let (relative, is) = (path.strip_prefix(self.root()), Mark::of(path));
            let is_seen = relative.is_some_and(|path| {
                path.as_os_str().is_empty()
                    || before.files.contains_key(path)
                    || after.files.contains_key(path)
                    || before.folders.contains_key(path)
                    || after.folders.contains_key(path)
                    || before.special.contains_key(path)
                    || after.special.contains_key(path)
            });
            let is_known = told.iter().any(|(known, _)| known == path);
            if *was == is || is_seen || is_known || is == Some(Mark::Folder) && was.is_none() {
                continue;
            }
            let is_own = |path: &Path| {
                path.iter().any(|name| VERSION_CONTROL.iter().any(|own| name.as_bytes() == own.as_bytes()))
            };
            let why = match relative {
                None => "it is outside the workspace",
                Some(path) if is_own(path) => "version control keeps it for itself",
                Some(_) => "an ignore file names it",
            };
            told.push((path.clone(), why.to_owned()));
        }
        if kept_by_git(self.root()) != before.kept_by_git {
            let path = self.root().join(".git");
            if !told.iter().any(|(known, _)| known.as_path().starts_with(path.as_path())) {
                told.push((path, "what git recorded; git itself takes it back".to_owned()));
            }
        }
    }

    /// Finds what changed since, and puts it into the journal for `run`. Not to be dropped halfway.
    ///
    /// # Errors
    /// [`StateError`] when the journal cannot be written; nothing can be taken back then, and the next start finds what nobody else has.
    pub async fn after(
        self: &Arc<Self>,
        mut before: Before,
        run: &RunId,
        label: &str,
        processes: &Arc<Processes>,
    ) -> Result<Wrote, StateError> {
        before.runs();
        let this = Arc::clone(self);
        let work = move || {
            let mut after = look(this.root(), Index::of(this.root().as_path()).as_ref());
            let unsure = settle(this.root(), &before, &mut after);
            (before, after, unsure)
        };
        let Ok((mut before, after, unsure)) = tokio::task::spawn_blocking(work).await else {
            return Ok(Wrote::default());
        };
        let changed: BTreeSet<PathBuf> = changed(&before.files, &after.files).into_iter().collect();
        let blobs: BTreeSet<[u8; 20]> =
            changed.iter().filter_map(|path| before.clean.get(path)).copied().collect();
        let contents = match &before.git {
            Some(git) if !blobs.is_empty() => ask_git(self.root(), git, blobs, processes).await,
            _ => HashMap::new(),
        };
        for path in &changed {
            let (Some(blob), Some(stamp)) = (before.clean.get(path), before.files.get(path)) else {
                continue;
            };
            // A filter between git and the disk (line ends, large files) makes them differ.
            if let Some(content) = contents.get(blob).and_then(|content| on_disk(content, *stamp)) {
                before.images.insert(path.clone(), from_blob(&content, *stamp));
            }
        }
        let (this, run, label) = (Arc::clone(self), run.clone(), label.to_owned());
        let work = move || {
            let mut wrote = this.record(&before, &after, changed, run, label)?;
            let why = "it was there, or came from where nobody looked";
            wrote.lost.extend(unsure.into_iter().map(|path| (this.root().join(path), why.to_owned())));
            this.uncovered(&before, &after, &mut wrote.lost);
            before.noted.take().into_iter().for_each(Noted::recorded);
            Ok(wrote)
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Ok(Wrote::default()))
    }

    /// Writes the journal. Blocks.
    fn record(
        &self,
        before: &Before,
        after: &Seen,
        changed: BTreeSet<PathBuf>,
        run: RunId,
        label: String,
    ) -> Result<Wrote, StateError> {
        let mut wrote = Wrote::default();
        let (mut pack, mut steps, mut left) = (Pack::default(), Vec::new(), MOST_BYTES);
        for relative in changed {
            let path = self.root().join(&relative);
            let (was, is) = (before.files.get(&relative), after.files.get(&relative));
            let old = before.images.get(&relative);
            if was.is_some() && old.is_none() {
                let why = match before.clean.contains_key(&relative) {
                    true => "git does not say what it held",
                    false => "too much to keep beside the others",
                };
                wrote.lost.push((path, why.to_owned()));
                continue;
            }
            let size = is.map_or(0, |stamp| stamp.size);
            if steps.len() >= MOST_FILES || size > left {
                wrote.lost.push((path, "too much to keep beside the others".to_owned()));
                continue;
            }
            let new = is.and_then(|_| image(&path));
            if is.is_some() && new.is_none() {
                wrote.lost.push((path, "it cannot be read".to_owned()));
                continue;
            }
            if let (Some(old), Some(new)) = (old, &new)
                && old.same_content(new)
            {
                if was.map(|stamp| stamp.mode) != is.map(|stamp| stamp.mode) {
                    wrote.lost.push((path, "only its permissions changed".to_owned()));
                }
                continue;
            }
            if was.zip(is).is_some_and(|(was, is)| was.mode != is.mode && was.is_link == is.is_link) {
                wrote
                    .lost
                    .push((path.clone(), "its permissions changed too; its content comes back".to_owned()));
            }
            left -= size;
            let (old, new) = (old.map(|image| pack.add(image)), new.as_ref().map(|image| pack.add(image)));
            wrote.files.push(path.clone());
            steps.push(StoredStep {
                path,
                before: old,
                after: new,
                moved_from: None,
                open: false,
                in_place: false,
                adopted: false,
            });
        }
        // What no step can hold.
        let other_mode = before
            .folders
            .iter()
            .filter(|(path, mode)| after.folders.get(*path).is_some_and(|it| it != *mode));
        for (path, _) in other_mode {
            wrote.lost.push((self.root().join(path), "a folder's permissions changed".to_owned()));
        }
        let gone = before.special.keys().filter(|path| !after.special.contains_key(*path));
        wrote
            .lost
            .extend(gone.map(|path| (self.root().join(path), "a pipe, socket or device is gone".to_owned())));
        let new = after.special.iter().filter(|(path, inode)| before.special.get(*path) != Some(*inode));
        wrote.lost.extend(
            new.map(|(path, _)| (self.root().join(path), "a pipe, socket or device was made".to_owned())),
        );
        let only = |these: &BTreeMap<PathBuf, u32>, those: &BTreeMap<PathBuf, u32>| -> Vec<StoredFolder> {
            let gone = these.iter().filter(|(path, _)| !those.contains_key(*path));
            gone.map(|(path, mode)| StoredFolder { path: self.root().join(path), mode: Some(*mode) })
                .collect()
        };
        let (made, removed) = (only(&after.folders, &before.folders), only(&before.folders, &after.folders));
        if steps.is_empty() && made.is_empty() && removed.is_empty() {
            return Ok(wrote);
        }
        let inner = &self.workspace.inner;
        let _lock = inner.state.lock(LOCK, LOCK_DEADLINE)?;
        let journal = Journal::new(&inner.state)?;
        inner.describe()?;
        let entry = Entry { steps, made, removed, ..Entry::new(journal.next_id()?, run, label) };
        journal.store(&entry.id, &pack)?;
        journal.write_pending(&entry)?;
        journal.finish(&entry.id)?;
        wrote.commit = Some(entry.id);
        Ok(wrote)
    }
}

/// What a file or a link holds, if it can be kept.
fn image(path: &AbsPath) -> Option<Image> {
    match disk::inspect(path) {
        Ok(Found::File(image)) => Some(image),
        Ok(Found::Nothing | Found::Folder) | Err(_) => None,
    }
}
