//! Snapshots on disk, for callers that read in one process and edit in the next.
//!
//! The state directory has one file per version, at most 64 MiB, at most seven days old. Without its
//! snapshot an edit is refused as unknown; it is never applied wrongly.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paths::{StateDir, StateError};
use serde::{Deserialize, Serialize};
use workspace::ContentHash;

use crate::ToolContext;

/// The format this program writes, and the newest it reads.
const FORMAT: u64 = 1;
/// Maximum age of a snapshot.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Maximum size of all snapshot files.
const MAX_BYTES: u64 = 64 << 20;

/// Snapshots in the state directory.
#[derive(Debug)]
pub struct SavedSnapshots {
    state: StateDir,
}

#[derive(Debug, Serialize, Deserialize)]
struct SnapshotFile {
    format: u64,
    path: String,
    at_ms: u64,
    seen: Vec<(usize, usize)>,
    text: String,
}

impl SavedSnapshots {
    /// Opens the snapshots below `state`, the workspace's state directory.
    ///
    /// # Errors
    /// If the directory's name is invalid, which it is not.
    pub fn new(state: &StateDir) -> Result<Self, StateError> {
        Ok(Self { state: state.child("snapshots")? })
    }

    /// Saves the newest version of `path`, with the lines that were shown.
    pub(crate) fn save(&self, context: &ToolContext, path: &str) {
        self.save_all(context, [path].into_iter());
    }

    /// Saves the newest versions of several paths.
    pub(crate) fn save_all<'a>(&self, context: &ToolContext, paths: impl Iterator<Item = &'a str>) {
        paths.for_each(|path| self.save_one(context, path));
        self.prune();
    }

    fn save_one(&self, context: &ToolContext, path: &str) {
        let newest = context.with_snapshots(|store| {
            let snapshot = store.newest(path)?;
            let shown = store.shown_lines(path, snapshot.tag());
            Some((snapshot, pairs(&shown)))
        });
        let Some((snapshot, seen)) = newest else { return };
        let text = snapshot.text();
        let file = SnapshotFile {
            format: FORMAT,
            path: path.to_owned(),
            at_ms: now_ms(),
            seen,
            text: text.to_string(),
        };
        let written = serde_json::to_vec(&file).map_err(|error| error.to_string()).and_then(|bytes| {
            self.state.write_atomic(&name(path, text), &bytes).map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            tracing::warn!(
                "cannot save the snapshot of {path}: {error}; read the file again before an edit by another process"
            );
        }
    }

    /// Loads all saved versions of `path` into the store, oldest first.
    pub(crate) fn restore(&self, context: &ToolContext, path: &str) {
        self.restore_all(context, [path].into_iter());
    }

    /// Loads all saved versions of several paths into the store.
    pub(crate) fn restore_all<'a>(&self, context: &ToolContext, paths: impl Iterator<Item = &'a str>) {
        let names = self.state.list().unwrap_or_default();
        paths.for_each(|path| self.restore_one(context, path, &names));
    }

    fn restore_one(&self, context: &ToolContext, path: &str, names: &[String]) {
        let prefix = prefix(path);
        let mut versions: Vec<SnapshotFile> = names
            .iter()
            .filter(|name| name.starts_with(&prefix))
            .filter_map(|name| self.load(name))
            .collect();
        versions.retain(|file| file.path == path);
        versions.sort_by_key(|file| file.at_ms);
        context.with_snapshots(|store| {
            for file in versions {
                let tag = store.record(path, file.text);
                for (first, last) in file.seen {
                    store.see(path, tag, first..=last);
                }
            }
        });
    }

    fn load(&self, name: &str) -> Option<SnapshotFile> {
        let bytes = self.state.read(name).ok().flatten()?;
        let file: SnapshotFile = serde_json::from_slice(&bytes).ok()?;
        (file.format <= FORMAT).then_some(file)
    }

    /// Removes expired snapshots, then the oldest until the rest fits.
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
                tracing::warn!("cannot remove an old snapshot: {error}");
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
