//! Files that changed behind our backs, so that a server hears of what it has read but not open.
//!
//! To hear of it is not enough: a server may answer before it has read the file again (rust-analyzer
//! 1.96, ty 0.0.105), or watch files by itself and in its own time. So the files that changed last are kept
//! until they were shown: opened with their texts.
//!
//! Reads names, sizes and times only. Looks at the files that the server's definition is about, at most
//! [`LIMIT`] of them, and as many besides that globs name which the server registered; not more than once in
//! [`PAUSE`] unless the question is one of problems: a checkout or a formatter run between two questions is seen,
//! one during a question by the next. What must stay true: no file that is there is called deleted, and none new
//! that may have been there.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use workspace::{AbsPath, EntryKind, Workspace};

use crate::definition::ServerDefinition;
use crate::discovery;
use crate::watchers::Watchers;

/// Files looked at for one server.
const LIMIT: usize = 4096;
/// Changed files that are shown, the newest; of more, as after a checkout, the server only hears.
const SHOWN: usize = 16;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// By how much the time of a file may lag behind the clock: it goes on with the kernel's ticks.
const TICK: Duration = Duration::from_millis(20);

/// When to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Before the server reads anything: nothing is told.
    First,
    IfDue,
    Now,
}

/// `FileChangeType` of LSP.
pub(crate) const CREATED: u8 = 1;
pub(crate) const CHANGED: u8 = 2;
pub(crate) const DELETED: u8 = 3;

type Stamp = (u64, Option<SystemTime>);

#[derive(Clone)]
struct Known {
    stamp: Stamp,
    /// Only a glob of the server's names it, not its definition.
    registered: bool,
}

/// Files as they are.
#[derive(Default)]
pub(crate) struct Seen {
    files: HashMap<AbsPath, Known>,
    /// What the server had registered.
    watchers: Arc<Watchers>,
    /// There are more than are looked at.
    cut: bool,
    at: Option<SystemTime>,
    /// When it was looked first: the server has read nothing that is older.
    first: Option<SystemTime>,
}

pub(crate) struct Sweep {
    /// One permit: who holds it looks. Who waits for it may find that it was looked meanwhile.
    pub looking: Semaphore,
    /// When the last look began that has ended.
    looked: Mutex<Option<Instant>>,
    /// How often something happened for which a server's projects are to be read anew, and after how many of
    /// these they were.
    happened: AtomicU64,
    reread: AtomicU64,
    /// Changed, and not shown since; the newest last.
    unshown: Mutex<Vec<AbsPath>>,
    /// Closed so that the server sees that they came, and to be opened again before it is asked.
    again: Mutex<Vec<AbsPath>>,
    /// The last reading that was begun.
    pub reading: Mutex<Option<Reading>>,
    state: Mutex<(Option<Instant>, Seen)>,
}

/// A server that reads its projects anew.
#[derive(Clone)]
pub(crate) struct Reading {
    /// After how many of what happened it began.
    pub happened: u64,
    /// Fires when it has ended.
    pub ended: CancellationToken,
    /// Until then it is waited for.
    pub until: Instant,
}

impl Reading {
    /// Whether nothing is to be begun beside it for what `happened`: it is waited for, or what goes on beyond its
    /// time is about that already.
    pub fn is_enough(&self, happened: u64) -> bool {
        !self.ended.is_cancelled() && (self.happened == happened || Instant::now() < self.until)
    }

    /// Waits for its end; whether it came. Cancel-safe.
    pub async fn wait(&self) -> bool {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => true,
            () = tokio::time::sleep_until(self.until.into()) => false,
        }
    }
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            looking: Semaphore::new(1),
            looked: Mutex::default(),
            happened: AtomicU64::new(0),
            reread: AtomicU64::new(0),
            unshown: Mutex::default(),
            again: Mutex::default(),
            reading: Mutex::default(),
            state: Mutex::default(),
        }
    }
}

impl Sweep {
    /// Whether it was looked, from the start to the end, since then.
    pub fn looked_since(&self, asked: Instant) -> bool {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|began| began >= asked)
    }

    /// A look that began then has ended, and what it found was told.
    pub fn looked(&self, began: Instant) {
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
    }

    /// What happened to files: some that came or went, what is no source, or more than are shown, is not seen
    /// by a server that is not told.
    pub fn happened(&self, definition: &ServerDefinition, events: &[(AbsPath, u8)]) {
        let is_seen = |(path, kind): &(AbsPath, u8)| {
            *kind == CHANGED && definition.language_id(path.as_path()).is_some()
        };
        let is_read = definition.watch.command.is_some();
        if is_read && (events.len() > SHOWN || !events.iter().all(is_seen)) {
            self.happened.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// What is to be answered for by reading the projects anew; `None`: nothing.
    pub fn unread(&self) -> Option<u64> {
        let happened = self.happened.load(Ordering::SeqCst);
        (happened != self.reread.load(Ordering::SeqCst)).then_some(happened)
    }

    /// The projects were read after that had happened.
    pub fn read(&self, happened: u64) {
        self.reread.fetch_max(happened, Ordering::SeqCst);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, (Option<Instant>, Seen)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that the server has to be shown, since it may not read them at once.
    pub fn changed<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let there = paths.filter_map(|path| Some((stamp(path)?.1, path.clone())));
        let mut there: Vec<(Option<SystemTime>, AbsPath)> = there.collect();
        there.sort();
        let mut unshown = self.unshown.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, path) in there {
            unshown.retain(|it| *it != path);
            unshown.push(path);
        }
        let more = unshown.len().saturating_sub(SHOWN);
        unshown.drain(..more);
    }

    /// What changed and was not shown since, the newest last; and what was closed to be opened again.
    pub fn unshown(&self) -> Vec<AbsPath> {
        let unshown = self.unshown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut paths = self.again.lock().unwrap_or_else(PoisonError::into_inner).clone();
        paths.retain(|path| !unshown.contains(path));
        paths.extend(unshown.iter().cloned());
        paths
    }

    /// These were open and are closed: a question may be about to be asked that they were opened for.
    pub fn closed<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            if !again.contains(path) {
                again.push(path.clone());
            }
        }
    }

    /// These were shown.
    pub fn showed<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut unshown = self.unshown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        if unshown.is_empty() && again.is_empty() {
            return;
        }
        for path in paths {
            unshown.retain(|it| it != path);
            again.retain(|it| it != path);
        }
    }

    /// Whether to look again; who is told so looks.
    pub fn is_due(&self) -> bool {
        let mut state = self.state();
        let due = state.0.is_none_or(|at| at.elapsed() >= PAUSE);
        if due {
            state.0 = Some(Instant::now());
        }
        due
    }

    /// Files as they are now, of which the server is told by other means.
    pub fn knows<'a>(
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

    /// Whether there are more files than are looked at.
    pub fn is_cut(&self) -> bool {
        self.state().1.cut
    }

    /// Whether a look has found what `watchers` name.
    pub fn knows_of(&self, watchers: &Watchers) -> bool {
        self.state().1.watchers.are_same(watchers)
    }

    /// What a server has registered since the last look, as it is. What was written since the first look it may
    /// have read before: it hears of that by the next.
    pub fn begins(&self, seen: Seen) {
        let mut state = self.state();
        let first = state.1.first;
        for (path, mut known) in seen.files {
            if !known.registered || state.1.files.contains_key(&path) {
                continue;
            }
            if known.may_follow(first) {
                known.stamp = (u64::MAX, None);
            }
            state.1.files.insert(path, known);
        }
        state.1.watchers = seen.watchers;
    }

    /// What changed since the last look; nothing at the first. Looks once more at what was not found.
    pub fn changes(&self, mut now: Seen, first: bool) -> Vec<(AbsPath, u8)> {
        let mut state = self.state();
        let before = std::mem::take(&mut state.1);
        if first {
            now.first = now.at;
            state.1 = now;
            return Vec::new();
        }
        now.first = before.first;
        let is_new_glob = !now.watchers.are_same(&before.watchers);
        let is_told =
            |path: &AbsPath, known: &Known, kind| !known.registered || now.watchers.tells(path, kind);
        let mut changes = Vec::new();
        let mut found = |path: &AbsPath, known: &Known, kind| {
            if is_told(path, known, kind) {
                changes.push((path.clone(), kind));
            }
        };
        for (path, known) in &now.files {
            match before.files.get(path) {
                Some(before) if before.stamp != known.stamp => found(path, known, CHANGED),
                Some(_) => {}
                // One that was beyond those looked at is new only if it was written since.
                None if before.cut && known.is_older(before.at) => {}
                // Nobody looked at it before. It may have been there, and read before it was written.
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
            // Of what is registered no more it hears when it registers it again.
            if known.registered && !now.watchers.names(&path) {
                kept.push((path, known));
                continue;
            }
            match stamp(&path) {
                None => found(&path, &known, DELETED),
                // Ignored by now, or beyond those looked at.
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
    /// Whether it was written before that.
    fn is_older(&self, at: Option<SystemTime>) -> bool {
        at.is_none_or(|at| self.stamp.1.is_none_or(|it| it < at))
    }

    /// Whether it may have been written after that.
    fn may_follow(&self, at: Option<SystemTime>) -> bool {
        !self.is_older(at.and_then(|at| at.checked_sub(TICK)))
    }
}

/// Whether a file is of a server's language, marks a root of it, or is looked at by its name.
pub(crate) fn wanted(definition: &ServerDefinition, path: &AbsPath) -> bool {
    definition.language_id(path.as_path()).is_some() || is_named(definition, path)
}

fn is_named(definition: &ServerDefinition, path: &AbsPath) -> bool {
    let root = &definition.root;
    root.markers.iter().chain(&root.lone_markers).any(|marker| *marker == path.file_name())
        || definition.watch.names(path)
}

fn stamp(path: &AbsPath) -> Option<(u64, Option<SystemTime>)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

/// The files of a server's language, its root markers, what else its definition names, and what the server
/// registered by name, as they are. Blocking.
pub(crate) fn look(
    workspace: &Workspace,
    root: &AbsPath,
    definition: &ServerDefinition,
    watchers: Arc<Watchers>,
) -> Seen {
    let at = Some(SystemTime::now());
    let mut found = Found { own: Vec::new(), registered: placed(workspace, root, &watchers), cut: false };
    // Its own root first: a large workspace holds more than are looked at.
    let mut walked = vec![root.clone()];
    let is_whole = definition.watch.workspace && workspace.root() != root;
    walked.extend(is_whole.then(|| workspace.root().clone()));
    for folder in 0..walked.len() {
        let entries = workspace.files_and_hidden(&walked[folder], &walked[..folder]);
        found.take(definition, &watchers, true, entries);
    }
    // What lies beside these is only what was registered.
    for top in &watchers.tops {
        let top = if workspace.root().starts_with(top) { workspace.root() } else { top };
        if top.starts_with(workspace.root()) && !walked.iter().any(|it| is_met(it, top)) {
            let entries = workspace.files_and_hidden(top, &walked);
            found.take(definition, &watchers, false, entries);
            walked.push(top.clone());
        }
    }
    let mut ignored = ignored(workspace, root, definition);
    let cut = found.cut || ignored.len() > LIMIT;
    ignored.truncate(LIMIT);
    let own = found.own.into_iter().chain(ignored).map(|path| (path, false));
    // Who is in both is its definition's.
    let all = found.registered.into_iter().map(|path| (path, true)).chain(own);
    let stamped =
        all.filter_map(|(path, registered)| Some((Known { stamp: stamp(&path)?, registered }, path)));
    Seen { files: stamped.map(|(known, path)| (path, known)).collect(), watchers, cut, at, first: None }
}

/// Whether a walk of a folder comes to another one, ignore files aside.
fn is_met(walked: &AbsPath, folder: &AbsPath) -> bool {
    let below = folder.strip_prefix(walked);
    below.is_some_and(|it| it.iter().all(|part| !part.as_encoded_bytes().starts_with(b".")))
}

/// Files of a look, up to [`LIMIT`] of each kind.
struct Found {
    /// As the definition says.
    own: Vec<AbsPath>,
    registered: Vec<AbsPath>,
    /// There are more.
    cut: bool,
}

impl Found {
    /// What a walk meets, until more of its own are met than are looked at.
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
            if kind == EntryKind::Folder {
                let name = path.file_name();
                let named = watchers.hidden.iter().filter(|(folder, _)| *folder == name);
                let inside = named.flat_map(|(_, it)| discovery::matches_below(path.as_path(), it));
                self.registered.extend(files(inside, watchers));
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

/// Whether a file that a walk meets is wanted. Of hidden ones those that are named: no server reads others as source.
fn is_own(definition: &ServerDefinition, path: &AbsPath) -> bool {
    match path.file_name().starts_with('.') {
        true => is_named(definition, path),
        false => wanted(definition, path),
    }
}

/// What the server registered in single folders, and by name in its root and the folders above it in the workspace,
/// though it be ignored or hidden.
fn placed(workspace: &Workspace, root: &AbsPath, watchers: &Watchers) -> Vec<AbsPath> {
    let folders = root.as_path().ancestors().take_while(|folder| folder.starts_with(workspace.root()));
    let ends = folders.flat_map(|folder| watchers.ends.iter().map(|end| folder.join(end)));
    let places = watchers.places.iter().take(LIMIT);
    let inside = places.flat_map(|(folder, glob)| discovery::matches_below(folder.as_path(), glob));
    files(ends.chain(inside), watchers).take(LIMIT).collect()
}

/// Those of them that are files and named.
fn files(paths: impl Iterator<Item = PathBuf>, watchers: &Watchers) -> impl Iterator<Item = AbsPath> {
    let paths = paths.filter_map(AbsPath::new).filter(|path| watchers.names(path));
    paths.filter(|path| path.as_path().is_file())
}

/// What is looked at though it may be ignored, for the root and for each folder above it in the workspace.
fn ignored(workspace: &Workspace, root: &AbsPath, definition: &ServerDefinition) -> Vec<AbsPath> {
    let folders = root.as_path().ancestors().take_while(|folder| folder.starts_with(workspace.root()));
    let patterns = &definition.watch.ignored;
    let found = folders.flat_map(|folder| patterns.iter().map(move |it| (folder, it)));
    found.flat_map(|(folder, it)| discovery::matches_below(folder, it)).filter_map(AbsPath::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_look_that_began_after_the_question_counts_for_it() {
        let (sweep, began) = (Sweep::default(), Instant::now());
        assert!(!sweep.looked_since(began));
        let asked = Instant::now().max(began + Duration::from_nanos(1));
        sweep.looked(began);
        assert!(sweep.looked_since(began) && !sweep.looked_since(asked));
    }

    #[tokio::test]
    async fn a_reading_that_takes_too_long_is_begun_again_only_for_more() {
        let ended = CancellationToken::new();
        let late = Reading { happened: 1, ended: ended.clone(), until: Instant::now() };
        assert!(!late.wait().await && late.is_enough(1) && !late.is_enough(2));
        let early = Reading { until: Instant::now() + Duration::from_secs(60), ..late.clone() };
        assert!(early.is_enough(2));
        ended.cancel();
        assert!(early.wait().await && !early.is_enough(1));
        // It may end after one that began later.
        let sweep = Sweep::default();
        sweep.happened.store(2, Ordering::SeqCst);
        sweep.read(2);
        sweep.read(1);
        assert_eq!(sweep.unread(), None);
    }

    #[test]
    fn a_file_that_is_there_is_never_called_deleted_nor_an_old_one_new() {
        let here = AbsPath::new(file!()).or_else(|| AbsPath::new(std::env::current_exe().ok()?)).unwrap();
        let old = Some(SystemTime::UNIX_EPOCH);
        let seen = |paths: &[&AbsPath], cut| {
            let known = Known { stamp: (1, old), registered: false };
            let files = paths.iter().map(|path| ((*path).clone(), known.clone())).collect();
            Seen { files, cut, at: Some(SystemTime::now()), ..Seen::default() }
        };
        let gone = AbsPath::new("/no/such/file.py").unwrap();
        let sweep = Sweep::default();
        assert!(sweep.changes(seen(&[&here, &gone], true), true).is_empty() && sweep.is_cut());
        let changes = sweep.changes(seen(&[], true), false);
        assert_eq!(changes, {
            let mut expected = vec![(here.clone(), CHANGED), (gone.clone(), DELETED)];
            expected.sort();
            expected
        });
        let beyond = AbsPath::new("/beyond/the/limit.py").unwrap();
        assert!(sweep.changes(seen(&[&beyond], true), false).is_empty(), "it may have been there");
        let sweep = Sweep::default();
        sweep.changes(seen(&[], false), true);
        assert_eq!(sweep.changes(seen(&[&beyond], false), false), [(beyond, CREATED)]);
    }
}
