//! Files that changed behind our backs, so that a server hears of what it has read but not open.
//!
//! To hear of it is not enough: a server may answer before it has read the file again (rust-analyzer
//! 1.96, ty 0.0.105), or watch files by itself and in its own time. So the files that changed last are kept
//! until they were shown: opened with their texts.
//!
//! Reads names, sizes and times only. Looks at the files that the server's definition is about, at most
//! [`LIMIT`] of them, and not more than once in [`PAUSE`] unless the question is one of problems: a
//! checkout or a formatter run between two questions is seen, one during a question by the next.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use workspace::{AbsPath, Workspace};

use crate::definition::ServerDefinition;

/// Files looked at for one server.
const LIMIT: usize = 4096;
/// Changed files that are shown, the newest; of more, as after a checkout, the server only hears.
const SHOWN: usize = 16;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

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

pub(crate) type Seen = HashMap<AbsPath, (u64, Option<SystemTime>)>;

#[derive(Default)]
pub(crate) struct Sweep {
    /// Changed, and not shown since; the newest last.
    unshown: Mutex<Vec<AbsPath>>,
    state: Mutex<(Option<Instant>, Seen)>,
}

impl Sweep {
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

    /// What changed and was not shown since; the newest last.
    pub fn unshown(&self) -> Vec<AbsPath> {
        self.unshown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These were shown.
    pub fn showed<'a>(&self, paths: impl Iterator<Item = &'a AbsPath>) {
        let mut unshown = self.unshown.lock().unwrap_or_else(PoisonError::into_inner);
        if !unshown.is_empty() {
            paths.for_each(|path| unshown.retain(|it| it != path));
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
    pub fn knows<'a>(&self, definition: &ServerDefinition, paths: impl Iterator<Item = &'a AbsPath>) {
        for path in paths.filter(|path| wanted(definition, path)) {
            let now = stamp(path);
            let mut state = self.state();
            match now {
                Some(now) => state.1.insert(path.clone(), now),
                None => state.1.remove(path),
            };
        }
    }

    /// What changed since the last look; nothing at the first.
    pub fn changes(&self, now: Seen, first: bool) -> Vec<(AbsPath, u8)> {
        let before = std::mem::replace(&mut self.state().1, now.clone());
        if first {
            return Vec::new();
        }
        let mut changes: Vec<(AbsPath, u8)> = before
            .keys()
            .filter(|path| !now.contains_key(path))
            .map(|path| (path.clone(), DELETED))
            .collect();
        changes.extend(now.into_iter().filter_map(|(path, stamp)| match before.get(&path) {
            None => Some((path, CREATED)),
            Some(known) if *known != stamp => Some((path, CHANGED)),
            Some(_) => None,
        }));
        changes.sort();
        changes
    }
}

/// Whether a file is of a server's language or marks a root of it.
fn wanted(definition: &ServerDefinition, path: &AbsPath) -> bool {
    definition.language_id(path.as_path()).is_some() || definition.root.markers.contains(&path.file_name())
}

fn stamp(path: &AbsPath) -> Option<(u64, Option<SystemTime>)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

/// The files of a server's language and its root markers, as they are. Blocking.
pub(crate) fn look(workspace: &Workspace, root: &AbsPath, definition: &ServerDefinition) -> Seen {
    let files = workspace.files(root).filter(|path| wanted(definition, path)).take(LIMIT);
    files.filter_map(|path| stamp(&path).map(|stamp| (path, stamp))).collect()
}
