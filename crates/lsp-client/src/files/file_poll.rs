//! Polling for files that other programs changed.
//!
//! It notifies a server of changes to files that the server has read but that are not open.
//!
//! A notification is not enough: a server may answer before it has read the file again
//! (rust-analyzer 1.96, ty 0.0.105), or watch files by itself with a delay. So the server opens the
//! last changed files before the next request.
//!
//! Reads names, sizes and times only. Scans the files that the server's definition names, at most
//! [`LIMIT`], and as many that globs of the server's registrations name. Their directories are
//! watched, so that a scan is repeated only after a change, and at most once in [`PAUSE`], except
//! for diagnostics. The second of two requests finds a change between them; the next request finds
//! a change during a request.
//!
//! Invariants: no existing file is reported as deleted, and none as created that may have existed.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use paths::AbsPath;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use workspace::{DirectoryWatch, EntryKind, Workspace};

use crate::files::watchers::Watchers;
use adapters::{Prefer, ServerDefinition};

/// Maximum number of files for one server.
const LIMIT: usize = 4096;
/// Maximum number of changed files to open, the newest.
///
/// The server is only notified of more changes, as after a checkout.
const MAX_OPENED: usize = 16;
const PAUSE: Duration = Duration::from_millis(100);

/// Maximum lag of file times behind the clock, one tick of the kernel.
const TICK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollMode {
    /// The scan before the server reads anything, which reports nothing.
    First,
    IfDue,
    Now,
}

/// The values of `FileChangeType` in LSP.
pub(crate) const CREATED: u8 = 1;
pub(crate) const CHANGED: u8 = 2;
pub(crate) const DELETED: u8 = 3;

type Stamp = (u64, Option<SystemTime>);

#[derive(Clone)]
struct Known {
    stamp: Stamp,
    /// Whether only a glob of the server's registrations names the file.
    registered: bool,
}

/// The files of one scan.
#[derive(Default)]
pub(crate) struct FileSnapshot {
    files: HashMap<AbsPath, Known>,
    /// The registrations of the server.
    watchers: Arc<Watchers>,
    /// Whether there are more files than the limit.
    cut: bool,
    at: Option<SystemTime>,
    /// Time of the first scan; the server has read no older text.
    first: Option<SystemTime>,
    /// The round in which the directories were watched.
    ///
    /// `None` if a change since they were read may go unnoticed.
    round: Option<u64>,
}

pub(crate) struct FilePoller {
    /// Permit to scan; a waiting caller may find that a scan has finished meanwhile.
    pub scan_permit: Semaphore,
    /// Start of the last finished scan.
    last_scan: Mutex<Option<Instant>>,
    /// Number of events that require a reload.
    happened: AtomicU64,
    /// Number of these events that a reload has covered.
    reloads: AtomicU64,
    /// Changed files that were not opened since; the newest last.
    pending_resync: Mutex<Vec<AbsPath>>,
    /// Files that were closed so that the server notices their creation.
    ///
    /// The next request opens them again.
    reopen: Mutex<Vec<AbsPath>>,
    /// The last reload.
    pub reload: Mutex<Option<ProjectReload>>,
    state: Mutex<(Option<Instant>, FileSnapshot)>,
    /// The directories of the last scan whose changes were reported.
    watch: Mutex<DirectoryWatch>,
}

/// A reload of the server's projects.
#[derive(Clone)]
pub(crate) struct ProjectReload {
    /// The number of events that it covers.
    pub happened: u64,
    /// Fires at the end of the reload.
    pub ended: CancellationToken,
    /// The time until which callers wait.
    pub until: Instant,
}

impl ProjectReload {
    /// Whether this reload covers the events `happened`, and has ended or is awaited.
    pub fn covers(&self, happened: u64) -> bool {
        !self.ended.is_cancelled() && (self.happened == happened || Instant::now() < self.until)
    }

    /// Waits for the end of the reload.
    ///
    /// Returns whether it ended. Cancel-safe.
    pub async fn wait(&self) -> bool {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => true,
            () = tokio::time::sleep_until(self.until.into()) => false,
        }
    }
}

impl Default for FilePoller {
    fn default() -> Self {
        Self {
            scan_permit: Semaphore::new(1),
            last_scan: Mutex::default(),
            happened: AtomicU64::new(0),
            reloads: AtomicU64::new(0),
            pending_resync: Mutex::default(),
            reopen: Mutex::default(),
            reload: Mutex::default(),
            state: Mutex::default(),
            watch: Mutex::default(),
        }
    }
}

impl FilePoller {
    /// Whether a scan began and finished after `asked`.
    pub(crate) fn scanned_since(&self, asked: Instant) -> bool {
        self.last_scan.lock().is_some_and(|began| began >= asked)
    }

    /// Begins a scan; the number is for [`FilePoller::record_scan`].
    pub(crate) fn begin_scan(&self) -> u64 {
        self.watch.lock().begin()
    }

    /// Records a finished scan whose changes were reported.
    pub(crate) fn record_scan(&self, began: Instant, number: u64) {
        let round = self.state().1.round.take();
        self.watch.lock().end(number, round);
        *self.last_scan.lock() = Some(began);
    }

    /// Watches the directories of a scan that began at `at`, and of known files.
    fn watch(&self, read: Vec<PathBuf>, files: &[(AbsPath, bool)], at: SystemTime) -> Option<u64> {
        let mut directories: HashSet<PathBuf> = read.into_iter().collect();
        {
            let state = self.state();
            let known = files.iter().map(|(path, _)| path).chain(state.1.files.keys());
            for directory in known.filter_map(|path| path.as_path().parent()) {
                if !directories.contains(directory) {
                    directories.insert(directory.to_owned());
                }
            }
        }
        let before = at.checked_sub(TICK);
        let is_changed = |directory: &Path| {
            let changed = std::fs::metadata(directory).ok().and_then(|it| {
                let since = Duration::new(it.ctime().try_into().ok()?, it.ctime_nsec().try_into().ok()?);
                SystemTime::UNIX_EPOCH.checked_add(since)
            });
            changed.is_none_or(|changed| before.is_none_or(|before| changed >= before))
        };
        self.watch.lock().watch(directories, is_changed)
    }

    /// Whether nothing changed since the last scan.
    pub(crate) fn is_current(&self) -> bool {
        self.current_scan().is_some()
    }

    /// The number of the last scan, if nothing changed since.
    pub(crate) fn current_scan(&self) -> Option<u64> {
        self.watch.lock().current()
    }

    /// Records changes that a server does not notice by itself.
    ///
    /// These are created or deleted files, files that are not sources, and more changed files than
    /// are opened.
    pub(crate) fn record_events(&self, definition: &ServerDefinition, events: &[(AbsPath, u8)]) {
        let is_seen = |(path, kind): &(AbsPath, u8)| {
            *kind == CHANGED && definition.language_id(path.as_path()).is_some()
        };
        let is_read = definition.watch.reload_command.is_some();
        if is_read && (events.len() > MAX_OPENED || !events.iter().all(is_seen)) {
            self.happened.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The number of events that a reload has to cover; `None`: none.
    pub(crate) fn pending_reload(&self) -> Option<u64> {
        let happened = self.happened.load(Ordering::SeqCst);
        (happened != self.reloads.load(Ordering::SeqCst)).then_some(happened)
    }

    /// Records a reload that covered these events.
    pub fn reloaded(&self, happened: u64) {
        self.reloads.fetch_max(happened, Ordering::SeqCst);
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, (Option<Instant>, FileSnapshot)> {
        self.state.lock()
    }

    /// Records files to open in the server, which may not read them at once.
    pub fn changed<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let there = paths.filter_map(|path| Some((stamp(path)?.1, path.clone())));
        let mut there: Vec<(Option<SystemTime>, AbsPath)> = there.collect();
        there.sort();
        let mut pending_resync = self.pending_resync.lock();
        for (_, path) in there {
            pending_resync.retain(|it| *it != path);
            pending_resync.push(path);
        }
        let more = pending_resync.len().saturating_sub(MAX_OPENED);
        pending_resync.drain(..more);
    }

    /// The changed files, and those closed for reopening, the newest last.
    pub(crate) fn pending_resync(&self) -> Vec<AbsPath> {
        let pending_resync = self.pending_resync.lock();
        let mut paths = self.reopen.lock().clone();
        paths.retain(|path| !pending_resync.contains(path));
        paths.extend(pending_resync.iter().cloned());
        paths
    }

    /// Records closed files that have to be reopened for a pending request.
    pub(crate) fn reopen_later<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut reopen = self.reopen.lock();
        for path in paths {
            if !reopen.contains(path) {
                reopen.push(path.clone());
            }
        }
    }

    pub(crate) fn resynced<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut pending_resync = self.pending_resync.lock();
        let mut reopen = self.reopen.lock();
        if pending_resync.is_empty() && reopen.is_empty() {
            return;
        }
        for path in paths {
            pending_resync.retain(|it| it != path);
            reopen.retain(|it| it != path);
        }
    }

    /// Whether a scan is due. The caller that gets `true` scans.
    pub(crate) fn is_due(&self) -> bool {
        let mut state = self.state();
        let due = state.0.is_none_or(|at| at.elapsed() >= PAUSE);
        if due {
            state.0 = Some(Instant::now());
        }
        due
    }

    /// Records the state of files whose changes were reported otherwise.
    pub(crate) fn record_state<'a>(
        &self,
        definition: &ServerDefinition,
        watchers: &Watchers,
        paths: impl Iterator<Item = &'a AbsPath>,
    ) {
        for path in paths {
            let registered = !wanted(definition, path);
            if registered && !watchers.names(path) {
                continue;
            }
            let now = stamp(path);
            let mut state = self.state();
            match now {
                Some(stamp) => state.1.files.insert(path.clone(), Known { stamp, registered }),
                None => state.1.files.remove(path),
            };
        }
    }

    /// Whether there are more files than the limit.
    pub fn is_cut(&self) -> bool {
        self.state().1.cut
    }

    /// Whether a scan has covered what `watchers` name.
    pub(crate) fn has_scanned(&self, watchers: &Watchers) -> bool {
        self.state().1.watchers.are_same(watchers)
    }

    /// Adds files that the server has registered since the last scan.
    ///
    /// A file written since the first scan may have been read before: the next scan reports it.
    ///
    /// `number`: the scan that was current when this one began; it stays so if nothing else has to be reported.
    pub(crate) fn add_registered(&self, snapshot: FileSnapshot, number: Option<u64>) {
        let mut state = self.state();
        let first = state.1.first;
        // A file may have changed while it was not registered.
        let is_same = |(path, known): (&AbsPath, &Known)| {
            let found = || snapshot.files.get(path).is_some_and(|it| it.stamp == known.stamp);
            !known.registered || !snapshot.watchers.names(path) || found()
        };
        let mut is_reported = state.1.files.iter().all(is_same);
        for (path, mut known) in snapshot.files {
            if !known.registered || state.1.files.contains_key(&path) {
                continue;
            }
            if known.may_follow(first) {
                known.stamp = (u64::MAX, None);
                is_reported = false;
            }
            state.1.files.insert(path, known);
        }
        state.1.watchers = snapshot.watchers;
        drop(state);
        let mut watch = self.watch.lock();
        if let Some(number) = number.filter(|_| is_reported) {
            watch.end(number, snapshot.round);
        }
        if number.is_none() || !is_reported || !watch.is_current() {
            watch.expire();
        }
    }

    /// Returns the changes since the last scan; none at the first.
    ///
    /// Checks missing files once more.
    pub fn changes(&self, mut now: FileSnapshot, first: bool) -> Vec<(AbsPath, u8)> {
        let mut state = self.state();
        let before = std::mem::take(&mut state.1);
        if first {
            now.first = now.at;
            state.1 = now;
            return Vec::new();
        }
        now.first = before.first;
        let is_new_glob = !now.watchers.are_same(&before.watchers);
        let is_reported =
            |path: &AbsPath, known: &Known, kind| !known.registered || now.watchers.reports(path, kind);
        let mut changes = Vec::new();
        let mut found = |path: &AbsPath, known: &Known, kind| {
            if is_reported(path, known, kind) {
                changes.push((path.clone(), kind));
            }
        };
        for (path, known) in &now.files {
            match before.files.get(path) {
                Some(before) if before.stamp != known.stamp => found(path, known, CHANGED),
                Some(_) => {}
                // A file beyond the limit is new only if it was written since.
                None if before.cut && known.is_older(before.at) => {}
                // A file that is scanned for the first time may have existed, and been read before
                // it was written.
                None if known.registered && is_new_glob => {
                    if known.may_follow(before.first) {
                        found(path, known, CHANGED);
                    }
                }
                None => found(path, known, CREATED),
            }
        }
        let mut kept = Vec::new();
        for (path, known) in before.files {
            if now.files.contains_key(&path) {
                continue;
            }
            // A file that is no longer registered is reported after its next registration.
            if known.registered && !now.watchers.names(&path) {
                kept.push((path, known));
                continue;
            }
            match stamp(&path) {
                None => found(&path, &known, DELETED),
                // The file is ignored now, or beyond the limit.
                Some(stamp) => {
                    if stamp != known.stamp {
                        found(&path, &known, CHANGED);
                    }
                    kept.push((path, Known { stamp, ..known }));
                }
            }
        }
        now.files.extend(kept);
        state.1 = now;
        changes.sort();
        changes
    }
}

impl Known {
    /// Whether the file was written before `at`.
    fn is_older(&self, at: Option<SystemTime>) -> bool {
        at.is_none_or(|at| self.stamp.1.is_none_or(|it| it < at))
    }

    /// Whether the file may have been written after `at`.
    fn may_follow(&self, at: Option<SystemTime>) -> bool {
        !self.is_older(at.and_then(|at| at.checked_sub(TICK)))
    }
}

/// Whether a file is a source of the server, marks a root, or is watched by name.
pub(crate) fn wanted(definition: &ServerDefinition, path: &AbsPath) -> bool {
    definition.language_id(path.as_path()).is_some() || is_named(definition, path)
}

fn is_named(definition: &ServerDefinition, path: &AbsPath) -> bool {
    let root = &definition.root;
    root.markers.iter().chain(&root.fallback_markers).any(|marker| *marker == path.file_name())
        || definition.watch.names(path)
}

fn stamp(path: &AbsPath) -> Option<(u64, Option<SystemTime>)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

/// Scans the files that matter to the server. Blocking.
///
/// These are the sources of its language, its root markers, further files of its definition and registered
/// names.
pub(crate) fn scan(
    workspace: &Workspace,
    root: &AbsPath,
    definition: &ServerDefinition,
    watchers: Arc<Watchers>,
    poller: &FilePoller,
) -> FileSnapshot {
    let at = SystemTime::now();
    let mut found = ScanResult::default();
    found.registered = placed(workspace, root, &watchers, &mut found.directories);
    // The server's own root comes first: a large workspace exceeds the limit.
    let mut walked = vec![root.clone()];
    let is_whole = definition.watch.workspace && workspace.root() != root;
    walked.extend(is_whole.then(|| workspace.root().clone()));
    for directory in 0..walked.len() {
        let entries = workspace.files_and_hidden(&walked[directory], &walked[..directory]);
        found.take(definition, &watchers, true, entries);
    }
    // Other directories contain registered files only.
    for top in &watchers.tops {
        let top = if workspace.root().starts_with(top) { workspace.root() } else { top };
        if top.starts_with(workspace.root()) && !walked.iter().any(|it| is_met(it, top)) {
            let entries = workspace.files_and_hidden(top, &walked);
            found.take(definition, &watchers, false, entries);
            walked.push(top.clone());
        }
    }
    let mut ignored = ignored(workspace, root, definition, &mut found);
    let cut = found.cut || ignored.len() > LIMIT;
    ignored.truncate(LIMIT);
    let own = found.own.into_iter().chain(ignored).map(|path| (path, false));
    // The definition takes a file that both name.
    let all: Vec<_> = found.registered.into_iter().map(|path| (path, true)).chain(own).collect();
    let round = poller.watch(found.directories, &all, at);
    let stamped = all
        .into_iter()
        .filter_map(|(path, registered)| Some((Known { stamp: stamp(&path)?, registered }, path)));
    FileSnapshot {
        files: stamped.map(|(known, path)| (path, known)).collect(),
        watchers,
        cut,
        at: Some(at),
        first: None,
        round,
    }
}

/// Whether a walk of one directory reaches another one, ignore files aside.
fn is_met(walked: &AbsPath, directory: &AbsPath) -> bool {
    let below = directory.strip_prefix(walked);
    below.is_some_and(|it| it.iter().all(|part| !part.as_encoded_bytes().starts_with(b".")))
}

/// The files of a scan, up to [`LIMIT`] of each kind.
#[derive(Default)]
struct ScanResult {
    /// Files that the definition names.
    own: Vec<AbsPath>,
    registered: Vec<AbsPath>,
    cut: bool,
    directories: Vec<PathBuf>,
}

impl ScanResult {
    /// Adds the files of a walk, until the server's own exceed the limit.
    fn take(
        &mut self,
        definition: &ServerDefinition,
        watchers: &Watchers,
        own: bool,
        entries: impl Iterator<Item = (AbsPath, EntryKind)>,
    ) {
        for (path, kind) in entries {
            if self.own.len() >= LIMIT && self.cut {
                return;
            }
            if kind == EntryKind::Directory {
                let name = path.file_name();
                let named = watchers.hidden.iter().filter(|(directory, _)| *directory == name);
                let directories = &mut self.directories;
                let inside = named.flat_map(|(_, it)| matches(path.as_path(), it, directories));
                self.registered.extend(files(inside, watchers));
                self.directories.push(path.into());
            } else if own && is_own(definition, &path) {
                match self.own.len() < LIMIT {
                    true => self.own.push(path),
                    false => self.cut = true,
                }
            } else if watchers.names(&path) {
                match self.registered.len() < LIMIT {
                    true => self.registered.push(path),
                    false => self.cut = true,
                }
            }
        }
    }
}

/// Whether a file of a walk counts.
///
/// Hidden files count only if they are named: no server reads others as sources.
fn is_own(definition: &ServerDefinition, path: &AbsPath) -> bool {
    match path.file_name().starts_with('.') {
        true => is_named(definition, path),
        false => wanted(definition, path),
    }
}

/// Registered files in single directories, and by name in the root and above it.
///
/// Stays in the workspace; includes ignored and hidden files.
fn placed(
    workspace: &Workspace,
    root: &AbsPath,
    watchers: &Watchers,
    read: &mut Vec<PathBuf>,
) -> Vec<AbsPath> {
    let directories =
        root.as_path().ancestors().take_while(|directory| directory.starts_with(workspace.root()));
    let mut ends = Vec::new();
    for (directory, end) in directories.flat_map(|it| watchers.ends.iter().map(move |end| (it, end))) {
        ends.extend(matches(directory, end, read));
    }
    let places = watchers.places.iter().take(LIMIT);
    let inside = places.flat_map(|(directory, glob)| matches(directory.as_path(), glob, read));
    let ends = ends.into_iter();
    files(ends.chain(inside), watchers).take(LIMIT).collect()
}

/// Filters `paths` to existing files that the watchers name.
fn files(paths: impl Iterator<Item = PathBuf>, watchers: &Watchers) -> impl Iterator<Item = AbsPath> {
    let paths = paths.filter_map(AbsPath::new).filter(|path| watchers.names(path));
    paths.filter(|path| path.as_path().is_file())
}

/// The ignored files that the definition names.
///
/// Searches the root, each directory above it, and each of its packages.
fn ignored(
    workspace: &Workspace,
    root: &AbsPath,
    definition: &ServerDefinition,
    scan: &mut ScanResult,
) -> Vec<AbsPath> {
    let patterns = &definition.watch.include_ignored;
    if patterns.is_empty() {
        return Vec::new();
    }
    let above = root.as_path().ancestors().take_while(|directory| directory.starts_with(workspace.root()));
    let mut directories: Vec<PathBuf> = above.map(PathBuf::from).collect();
    if definition.root.prefer == Prefer::Outermost {
        let marks =
            |path: &&AbsPath| definition.root.markers.iter().any(|marker| *marker == path.file_name());
        let packages = scan.own.iter().filter(marks);
        directories.extend(packages.filter_map(|path| Some(path.as_path().parent()?.to_owned())));
        directories
            .extend(directories.iter().filter_map(|it| Some(it.parent()?.to_owned())).collect::<Vec<_>>());
        directories.sort();
        directories.dedup();
        directories.retain(|directory| directory.starts_with(workspace.root()));
    }
    let found = directories.iter().flat_map(|directory| patterns.iter().map(move |it| (directory, it)));
    let mut files: Vec<AbsPath> = found
        .flat_map(|(directory, it)| matches(directory, it, &mut scan.directories))
        .filter_map(AbsPath::new)
        .collect();
    files.sort();
    files.dedup();
    files
}

/// The matches of a glob in `directory`; adds the directories to `read`.
fn matches(directory: &Path, pattern: &str, read: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    read.push(directory.to_owned());
    for (end, _) in pattern.match_indices('/') {
        read.extend(adapters::matches_below(directory, &pattern[..end]));
    }
    adapters::matches_below(directory, pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_later_scan_counts_for_a_request() {
        let (poller, began) = (FilePoller::default(), Instant::now());
        assert!(!poller.scanned_since(began));
        let asked = Instant::now().max(began + Duration::from_nanos(1));
        poller.record_scan(began, 0);
        assert!(poller.scanned_since(began) && !poller.scanned_since(asked));
    }

    #[tokio::test]
    async fn a_slow_reload_is_repeated_for_new_events_only() {
        let ended = CancellationToken::new();
        let late = ProjectReload { happened: 1, ended: ended.clone(), until: Instant::now() };
        assert!(!late.wait().await && late.covers(1) && !late.covers(2));
        let early = ProjectReload { until: Instant::now() + Duration::from_secs(60), ..late.clone() };
        assert!(early.covers(2));
        ended.cancel();
        assert!(early.wait().await && !early.covers(1));
        // It may end after a scan that began later.
        let poller = FilePoller::default();
        poller.happened.store(2, Ordering::SeqCst);
        poller.reloaded(2);
        poller.reloaded(1);
        assert_eq!(poller.pending_reload(), None);
    }

    #[test]
    fn existing_files_are_neither_deleted_nor_created() {
        let here = AbsPath::new(file!()).or_else(|| AbsPath::new(std::env::current_exe().ok()?)).unwrap();
        let old = Some(SystemTime::UNIX_EPOCH);
        let seen = |paths: &[&AbsPath], cut| {
            let known = Known { stamp: (1, old), registered: false };
            let files = paths.iter().map(|path| ((*path).clone(), known.clone())).collect();
            FileSnapshot { files, cut, at: Some(SystemTime::now()), ..FileSnapshot::default() }
        };
        let gone = AbsPath::new("/no/such/file.py").unwrap();
        let poller = FilePoller::default();
        assert!(poller.changes(seen(&[&here, &gone], true), true).is_empty() && poller.is_cut());
        let changes = poller.changes(seen(&[], true), false);
        assert_eq!(changes, {
            let mut expected = vec![(here.clone(), CHANGED), (gone.clone(), DELETED)];
            expected.sort();
            expected
        });
        let beyond = AbsPath::new("/beyond/the/limit.py").unwrap();
        assert!(poller.changes(seen(&[&beyond], true), false).is_empty(), "it may have existed");
        let poller = FilePoller::default();
        poller.changes(seen(&[], false), true);
        assert_eq!(poller.changes(seen(&[&beyond], false), false), [(beyond, CREATED)]);
    }
}
