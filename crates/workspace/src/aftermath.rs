//! What a command changed in the workspace, so that it can be taken back.
//!
//! Before the command: size, times and inode of every file that no ignore file of the project names, and the
//! contents of those that git does not have. After it: what differs becomes an entry of the journal,
//! as if it had been committed. Files are told apart by those marks alone; only changed ones are read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use ignore::{WalkBuilder, WalkState};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::beforehand::{Beforehand, Noted};
use crate::content::{Content, Image};
use crate::disk::{self, Found};
use crate::git_index::{Index, Look};
use crate::journal::{Entry, Journal, Pack, StoredFolder, StoredStep};
use crate::process::lock;
use crate::shell::{self, Written};
use crate::transaction::LOCK;
use crate::{AbsPath, CommandLine, CommitId, Processes, RunId, SpawnGrant, StateError, Workspace};

/// Contents that are kept for one command, before and after it each.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// The same of files that only the person's own ignore files name.
const MOST_PRIVATE: u64 = 8 << 20;
/// More places that a command line names, and files that git keeps, are not looked at.
const MOST_TOLD: usize = 200;
const MOST_KEPT_BY_GIT: usize = 2_000;
/// More changed files are not taken back.
pub(crate) const MOST_FILES: usize = 5_000;
/// What version control keeps for itself.
const VERSION_CONTROL: [&str; 4] = [".git", ".hg", ".svn", ".jj"];
const MOST_THREADS: usize = 8;
const LOCK_DEADLINE: Duration = Duration::from_secs(30);
/// How long git may take to say what files held.
const GIT_DEADLINE: Duration = Duration::from_secs(30);

/// Looks at a workspace before and after commands. Keeps contents that it read, so that a file is
/// read again only when it changed.
#[derive(Debug)]
pub struct Aftermath {
    workspace: Workspace,
    read: Mutex<HashMap<PathBuf, (Stamp, Image)>>,
    beforehand: Mutex<Option<Arc<Beforehand>>>,
}

/// By what a change of a file is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
    inode: u64,
    mode: u32,
    is_link: bool,
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

impl Stamp {
    fn of(meta: &std::fs::Metadata) -> Self {
        Self {
            size: meta.len(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
            mode: disk::mode(meta),
            is_link: meta.is_symlink(),
        }
    }

    fn look(&self) -> Look {
        Look { size: self.size, ctime: self.ctime, mtime: self.mtime, inode: self.inode }
    }
}

#[cfg(test)]
impl Before {
    /// Whether a file would come back from git.
    pub(crate) fn is_from_git(&self, path: &str) -> bool {
        self.clean.contains_key(Path::new(path))
    }
}

/// What a walk met, by path below the root.
#[derive(Debug, Default)]
struct Seen {
    files: BTreeMap<PathBuf, Stamp>,
    folders: BTreeMap<PathBuf, u32>,
    known_folders: HashSet<u64>,
    /// Pipes, sockets and devices, by inode.
    special: BTreeMap<PathBuf, u64>,
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
            Some(git) if !blobs.is_empty() => self.ask_git(git, blobs, processes).await,
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

    /// What blobs hold, as git says it. Those that it does not say are left out.
    async fn ask_git(
        &self,
        git: &Path,
        blobs: BTreeSet<[u8; 20]>,
        processes: &Arc<Processes>,
    ) -> HashMap<[u8; 20], Vec<u8>> {
        let args = ["--git-dir", &git.to_string_lossy(), "cat-file", "--batch"].map(str::to_owned).to_vec();
        let command = CommandLine { program: "git".into(), args, env: Vec::new(), cwd: self.root().clone() };
        // It reads objects and runs nothing of the repository's: neither filters nor hooks.
        let grant = SpawnGrant {
            definition: "git".to_owned(),
            root: command.cwd.clone(),
            program: command.program.clone(),
            args: Some(command.args.clone()),
        };
        let mut found = HashMap::new();
        let mut process = match processes.spawn(&command, &grant).await {
            Ok(process) => process,
            Err(error) => {
                tracing::warn!(%error, "what a command changed cannot be compared with git");
                return found;
            }
        };
        let (Some(mut stdin), Some(stdout)) = (process.take_stdin(), process.take_stdout()) else {
            return found;
        };
        let names: String = blobs.iter().map(|blob| hex(blob) + "\n").collect();
        let writes = async move {
            // It may end before it has read all: what it answered counts.
            if let Err(error) = stdin.write_all(names.as_bytes()).await {
                tracing::debug!(%error, "git was not told all names");
            }
        };
        let reads = read_blobs(stdout, &blobs, &mut found);
        if tokio::time::timeout(GIT_DEADLINE, futures_util::future::join(writes, reads)).await.is_err() {
            tracing::warn!("git took too long to say what files held");
        }
        process.end(Duration::from_millis(100)).await;
        found
    }
}

/// The answers of `git cat-file --batch`, which come in the order of the names: `NAME blob SIZE`, the
/// content, an end of line.
async fn read_blobs(
    stdout: tokio::process::ChildStdout,
    blobs: &BTreeSet<[u8; 20]>,
    found: &mut HashMap<[u8; 20], Vec<u8>>,
) {
    use tokio::io::AsyncBufReadExt;
    let mut reader = tokio::io::BufReader::new(stdout);
    let mut left = MOST_BYTES;
    for blob in blobs {
        let mut line = String::new();
        if !matches!(reader.read_line(&mut line).await, Ok(1..)) {
            return;
        }
        let mut words = line.split_whitespace().skip(1);
        let (kind, size) = (words.next(), words.next().and_then(|size| size.parse::<u64>().ok()));
        let (Some("blob"), Some(size)) = (kind, size) else { continue };
        if size > left {
            return;
        }
        left -= size;
        let mut content = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        let read = reader.read_exact(&mut content).await.is_ok() && reader.read_u8().await.is_ok();
        if !read {
            return;
        }
        found.insert(*blob, content);
    }
}

fn hex(blob: &[u8; 20]) -> String {
    blob.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What git makes of a blob on the disk, if by its size that is the blob itself, or the blob with the line
/// ends of Windows.
fn on_disk(blob: &[u8], stamp: Stamp) -> Option<std::borrow::Cow<'_, [u8]>> {
    if blob.len() as u64 == stamp.size {
        return Some(blob.into());
    }
    let ends = blob.iter().filter(|byte| **byte == b'\n').count();
    if stamp.is_link || blob.contains(&b'\r') || (blob.len() + ends) as u64 != stamp.size {
        return None;
    }
    let mut content = Vec::with_capacity(blob.len() + ends);
    for byte in blob {
        if *byte == b'\n' {
            content.push(b'\r');
        }
        content.push(*byte);
    }
    Some(content.into())
}

fn from_blob(content: &[u8], stamp: Stamp) -> Image {
    if stamp.is_link {
        let target = std::ffi::OsString::from_vec(content.to_vec());
        return Image::new(Content::Link(target.into()), None);
    }
    Image::new(Content::of(content.to_vec()), Some(stamp.mode))
}

/// What a file or a link holds, if it can be kept.
fn image(path: &AbsPath) -> Option<Image> {
    match disk::inspect(path) {
        Ok(Found::File(image)) => Some(image),
        Ok(Found::Nothing | Found::Folder) | Err(_) => None,
    }
}

fn changed(before: &BTreeMap<PathBuf, Stamp>, after: &BTreeMap<PathBuf, Stamp>) -> Vec<PathBuf> {
    let differs = before.iter().filter(|(path, stamp)| after.get(*path) != Some(*stamp));
    let new = after.keys().filter(|path| !before.contains_key(*path));
    differs.map(|(path, _)| path).chain(new).cloned().collect()
}

/// Puts right what was met only before or only after because an ignore file changed between: a file that
/// is still there is not gone, and one that was there is not new. Gives those of which it is not known
/// what they held. Blocks.
fn settle(root: &AbsPath, before: &Before, after: &mut Seen) -> Vec<PathBuf> {
    let there = |path: &Path| std::fs::symlink_metadata(root.join(path).as_path()).ok();
    for path in before.files.keys() {
        if !after.files.contains_key(path)
            && let Some(meta) = there(path)
            && (meta.is_file() || meta.is_symlink())
        {
            after.files.insert(path.clone(), Stamp::of(&meta));
        }
    }
    for (path, mode) in &before.folders {
        if !after.folders.contains_key(path) && there(path).is_some_and(|meta| meta.is_dir()) {
            after.folders.insert(path.clone(), *mode);
        }
    }
    let is_older = |time: std::io::Result<SystemTime>| time.is_ok_and(|time| time < before.began);
    after.folders.retain(|path, _| {
        // One that was moved is as old as it was, and new at its place.
        let stood =
            |meta: std::fs::Metadata| is_older(meta.created()) && !before.known_folders.contains(&meta.ino());
        before.folders.contains_key(path) || !there(path).is_some_and(stood)
    });
    let known: HashSet<u64> = before.files.values().map(|stamp| stamp.inode).collect();
    let mut unsure = Vec::new();
    after.files.retain(|path, stamp| {
        // What was moved keeps its inode, and its content is kept under the old name.
        if before.files.contains_key(path) || known.contains(&stamp.inode) {
            return true;
        }
        let nanos = u64::try_from(stamp.ctime.1).unwrap_or_default();
        let seconds = u64::try_from(stamp.ctime.0).unwrap_or_default();
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        if changed < before.began {
            return false;
        }
        let was_there = there(path).is_some_and(|meta| is_older(meta.created()));
        if was_there {
            unsure.push(path.clone());
        }
        !was_there
    });
    unsure
}

/// The time that a file made now would have.
#[cfg(target_os = "linux")]
pub(crate) fn file_clock() -> SystemTime {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    let since =
        Duration::from_secs(seconds.unwrap_or_default()) + Duration::from_nanos(nanos.unwrap_or_default());
    SystemTime::UNIX_EPOCH + since
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn file_clock() -> SystemTime {
    SystemTime::now()
}

/// The files whose content on the disk git turns into another for itself, which it may do without
/// changing the size. `None`: it cannot be told which.
fn filtered(root: &AbsPath, index: Option<&Index>, files: &BTreeMap<PathBuf, Stamp>) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    let own = index.map(|index| (String::new(), index.git.join("info/attributes")));
    let named = files.keys().filter(|path| path.file_name().is_some_and(|name| name == ".gitattributes"));
    let named = named.map(|path| {
        let folder = path.parent().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        (folder, root.join(path).as_path().to_owned())
    });
    for (folder, path) in own.into_iter().chain(named) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let pattern = words.next().unwrap_or_default();
            let turns = |word: &str| {
                word.starts_with("filter=")
                    || word.starts_with("working-tree-encoding=")
                    || matches!(word, "ident" | "crlf" | "eol=crlf")
            };
            if !words.any(turns) {
                continue;
            }
            if pattern.starts_with(['"', '[']) {
                return None;
            }
            let below = match pattern.trim_end_matches('/').contains('/') {
                true => format!("/{folder}/{}", pattern.trim_start_matches('/')),
                false => format!("/{folder}/**/{pattern}"),
            };
            builder.add_line(None, &below.replace("//", "/")).ok()?;
        }
    }
    builder.build().ok()
}

/// What only the person's own ignore files name: `.git/info/exclude`, and the one for all repositories.
fn private(root: &AbsPath, index: Option<&Index>) -> Gitignore {
    let git = index.map_or_else(|| root.join(".git").as_path().to_owned(), |index| index.git.clone());
    let mut builder = GitignoreBuilder::new("");
    for path in [Some(git.join("info/exclude")), gitconfig_excludes_path()].into_iter().flatten() {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for line in text.lines() {
            if let Err(error) = builder.add_line(None, line) {
                tracing::debug!(%error, "a line of an ignore file is no pattern");
            }
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// What `.git` holds of branches, settings and hooks: what is told when a command changes it.
fn kept_by_git(root: &AbsPath) -> Vec<(PathBuf, Stamp)> {
    let git = root.join(".git").as_path().to_owned();
    let mut all = Vec::new();
    let mut next: Vec<PathBuf> =
        ["HEAD", "config", "packed-refs", "hooks", "info", "refs"].map(|name| git.join(name)).to_vec();
    while let Some(path) = next.pop() {
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            next.extend(entries.map(|entry| entry.path()).take(MOST_KEPT_BY_GIT));
        } else {
            all.push((path, Stamp::of(&meta)));
        }
        if all.len() >= MOST_KEPT_BY_GIT {
            break;
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Every file, link and folder below `root` that no ignore file of the project's names, and every file and link
/// that git tracks.
fn look(root: &AbsPath, index: Option<&Index>) -> Seen {
    let mut seen = walk(root);
    let tracked = index.into_iter().flat_map(|index| index.files.keys());
    for path in tracked.filter(|path| {
        // One with another folder's path, or behind a link, is not there.
        path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
    }) {
        if seen.files.contains_key(path) {
            continue;
        }
        let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let is_linked = folders.into_iter().any(|folder| root.join(folder).as_path().is_symlink());
        if let Ok(meta) = std::fs::symlink_metadata(root.join(path).as_path())
            && (meta.is_file() || meta.is_symlink())
            && !is_linked
        {
            seen.files.insert(path.clone(), Stamp::of(&meta));
        }
    }
    seen
}

fn walk(root: &AbsPath) -> Seen {
    let in_repository = root.as_path().ancestors().any(|folder| folder.join(".git").exists());
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS));
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .ignore(false)
        .require_git(in_repository)
        // What the person alone does not want to see in git is theirs to keep all the same.
        .git_exclude(false)
        .git_global(false)
        .parents(in_repository)
        .threads(threads)
        .filter_entry(|entry| {
            !VERSION_CONTROL.iter().any(|name| entry.file_name().as_bytes() == name.as_bytes())
        })
        .build_parallel();
    let seen = Mutex::new(Seen::default());
    let shared = &seen;
    walk.run(|| {
        // Each thread hands over what it met when it is done.
        let mut mine = Mine { seen: Seen::default(), shared };
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            let (Ok(relative), Ok(meta)) = (entry.path().strip_prefix(root), entry.metadata()) else {
                return WalkState::Continue;
            };
            if meta.is_dir() {
                if !relative.as_os_str().is_empty() {
                    mine.seen.folders.insert(relative.to_owned(), disk::mode(&meta));
                    mine.seen.known_folders.insert(meta.ino());
                }
            } else if meta.is_file() || meta.is_symlink() {
                mine.seen.files.insert(relative.to_owned(), Stamp::of(&meta));
            } else {
                mine.seen.special.insert(relative.to_owned(), meta.ino());
            }
            WalkState::Continue
        })
    });
    seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Mine<'a> {
    seen: Seen,
    shared: &'a Mutex<Seen>,
}

impl Drop for Mine<'_> {
    fn drop(&mut self) {
        let mut shared = lock(self.shared);
        shared.files.append(&mut self.seen.files);
        shared.folders.append(&mut self.seen.folders);
        shared.known_folders.extend(self.seen.known_folders.drain());
        shared.special.append(&mut self.seen.special);
    }
}
