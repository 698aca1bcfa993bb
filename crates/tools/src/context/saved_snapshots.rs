//! Snapshots that outlive a process, for a person or a script that reads in one command and edits
//! in the next.
//!
//! One file a version in our own state folder, at most 64 MiB and seven days of them. They are a
//! convenience: a lost one makes an edit refused as unknown, never wrong.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paths::{StateDir, StateError};
use serde::{Deserialize, Serialize};
use workspace::ContentHash;

use crate::ToolContext;

/// The newest format that this program reads and the one it writes.
const FORMAT: u64 = 1;
/// Kept for at most this long.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// At most this many bytes of text.
const MAX_BYTES: u64 = 64 << 20;

/// Snapshots in our state folder.
#[derive(Debug)]
pub struct SavedSnapshots {
    state: StateDir,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    format: u64,
    path: String,
    at_ms: u64,
    seen: Vec<(usize, usize)>,
    #[serde(default)]
    folds: Vec<(usize, usize)>,
    text: String,
}

impl SavedSnapshots {
    /// Snapshots below `state`, the workspace's own state folder.
    ///
    /// # Errors
    /// When its name is refused, which it is not.
    pub fn new(state: &StateDir) -> Result<Self, StateError> {
        Ok(Self { state: state.child("snapshots")? })
    }

    /// Keeps the newest version of `path` that the store holds, with the lines shown of it.
    pub(crate) fn keep(&self, context: &ToolContext, path: &str) {
        self.keep_all(context, [path].into_iter());
    }

    /// The same for several paths.
    pub(crate) fn keep_all<'a>(&self, context: &ToolContext, paths: impl Iterator<Item = &'a str>) {
        paths.for_each(|path| self.keep_one(context, path));
        self.prune();
    }

    fn keep_one(&self, context: &ToolContext, path: &str) {
        let newest = context.with_snapshots(|store| {
            let snapshot = store.newest(path)?;
            let (seen, folds) = (store.seen(path, snapshot.tag()), store.folds(path, snapshot.tag()));
            Some((snapshot, pairs(&seen), pairs(&folds)))
        });
        let Some((snapshot, seen, folds)) = newest else { return };
        let text = snapshot.text();
        let kept = Kept {
            format: FORMAT,
            path: path.to_owned(),
            at_ms: now_ms(),
            seen,
            folds,
            text: text.to_string(),
        };
        let written = serde_json::to_vec(&kept).map_err(|error| error.to_string()).and_then(|bytes| {
            self.state.write_atomic(&name(path, text), &bytes).map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            tracing::warn!(
                "the snapshot of {path} is not kept, an edit in another process will be refused: {error}"
            );
        }
    }

    /// Puts every kept version of `path` into the store, oldest first.
    pub(crate) fn restore(&self, context: &ToolContext, path: &str) {
        self.restore_all(context, [path].into_iter());
    }

    /// The same for several paths.
    pub(crate) fn restore_all<'a>(&self, context: &ToolContext, paths: impl Iterator<Item = &'a str>) {
        let names = self.state.list().unwrap_or_default();
        paths.for_each(|path| self.restore_one(context, path, &names));
    }

    fn restore_one(&self, context: &ToolContext, path: &str, names: &[String]) {
        let prefix = prefix(path);
        let mut versions: Vec<Kept> = names
            .iter()
            .filter(|name| name.starts_with(&prefix))
            .filter_map(|name| self.load(name))
            .collect();
        versions.retain(|kept| kept.path == path);
        versions.sort_by_key(|kept| kept.at_ms);
        context.with_snapshots(|store| {
            for kept in versions {
                let tag = store.record(path, kept.text);
                for (first, last) in kept.seen {
                    store.see(path, tag, first..=last);
                }
                for (first, last) in kept.folds {
                    store.fold(path, tag, first..=last);
                }
            }
        });
    }

    fn load(&self, name: &str) -> Option<Kept> {
        let bytes = self.state.read(name).ok().flatten()?;
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        (kept.format <= FORMAT).then_some(kept)
    }

    /// Forgets what is too old, then the oldest until the rest fits.
    fn prune(&self) {
        let now = now_ms();
        let mut files: Vec<(u64, u64, String)> = self
            .state
            .list()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|name| {
                let (at_ms, bytes) = self.state.stat(&name)?;
                Some((at_ms, bytes, name))
            })
            .collect();
        files.sort_by(|a, b| b.cmp(a));
        let mut total = 0;
        for (at_ms, bytes, name) in files {
            total += bytes;
            let too_old = now.saturating_sub(at_ms) > MAX_AGE.as_millis() as u64;
            if (too_old || total > MAX_BYTES)
                && let Err(error) = self.state.remove(&name)
            {
                tracing::warn!("an old snapshot cannot be removed: {error}");
            }
        }
    }
}

fn pairs(ranges: &[RangeInclusive<usize>]) -> Vec<(usize, usize)> {
    ranges.iter().map(|range| (*range.start(), *range.end())).collect()
}

fn prefix(path: &str) -> String {
    format!("{:.16}-", ContentHash::of(path.as_bytes()).to_string())
}

fn name(path: &str, text: &str) -> String {
    format!("{}{:.16}.json", prefix(path), ContentHash::of(text.as_bytes()).to_string())
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
