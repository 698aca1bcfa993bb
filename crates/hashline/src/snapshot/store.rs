//! The versions that a session has shown, by tag, with the edits between them.
//!
//! The store has three limits; it refuses a dropped version as unknown, and never guesses. If it
//! drops the bytes of a text, it keeps the lines shown. Together with the current text they may
//! prove the old text. The store accesses no file and no clock.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;

use lru::LruCache;
use text::TextEdit;

use crate::Tag;
use crate::format::patch::normal_path;
use crate::snapshot::chain::Chain;
use crate::snapshot::history::{DroppedPath, History, carry_seen, written_lines};
use crate::snapshot::{SeenLines, Snapshot};

/// Limits of a [`SnapshotStore`].
///
/// The settings `hashline.snapshots.paths`, `.versions` and `.bytes` set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of paths, at least 1; the least recently used is dropped.
    pub paths: usize,
    /// Maximum number of versions of a path, at least 1.
    ///
    /// The version of which the model saw least is dropped.
    pub versions: usize,
    /// Maximum bytes of text in all versions together.
    ///
    /// The newest version of the path last used stays whatever its size. Lines that were shown stay
    /// beyond the limit, up to a quarter of it (or 64 KiB).
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { paths: 256, versions: 8, bytes: 64 << 20 }
    }
}

/// Maximum number of dropped paths whose tags are stored.
const GONE: usize = 4_096;
/// Maximum bytes of shown lines stored of dropped texts, whatever the limit.
const SPARSE: usize = 64 << 10;
/// Maximum number of refused patches stored, to notice repetition.
const REFUSALS: usize = 64;

/// The texts that a session's model was shown.
///
/// It has, for each path, the last versions, their seen lines, and the session's own edits between them. Each
/// agent session has a store.
#[derive(Debug)]
pub struct SnapshotStore {
    limits: Limits,
    paths: LruCache<String, History>,
    bytes: usize,
    /// Tags of dropped paths: none is reused for another text.
    gone: LruCache<String, DroppedPath>,
    refusals: LruCache<u64, usize>,
}

impl Default for SnapshotStore {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl SnapshotStore {
    /// Creates an empty store; a limit of 0 counts as 1.
    pub fn new(limits: Limits) -> Self {
        let size = |size: usize| NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN);
        Self {
            limits: Limits { versions: limits.versions.max(1), ..limits },
            paths: LruCache::new(size(limits.paths)),
            bytes: 0,
            gone: LruCache::new(size(GONE)),
            refusals: LruCache::new(size(REFUSALS)),
        }
    }

    /// Records `text` as the newest version of `path`, with no line seen yet.
    ///
    /// A text that is already stored becomes the newest again and keeps its tag and its seen lines.
    pub fn record(&mut self, path: &str, text: impl Into<Arc<str>>) -> Tag {
        let text = text.into();
        let path = normal_path(path);
        if !self.paths.contains(&path) {
            let history = self.gone.pop(&path).map_or_else(History::default, History::again);
            if let Some((path, evicted)) = self.paths.push(path.clone(), history) {
                self.drop_path(path, evicted);
            }
        }
        let versions = self.limits.versions;
        let tag = self.changed(&path, |history| {
            let tag = history.record(text);
            history.compact();
            history.limit(versions);
            tag
        });
        self.shrink(&path);
        tag
    }

    /// Marks lines of a version as shown to the model; returns whether it is stored.
    pub fn see(&mut self, path: &str, tag: Tag, lines: RangeInclusive<usize>) -> bool {
        let Some((history, at)) = self.find(path, tag) else { return false };
        history.show(at, lines);
        true
    }

    /// Marks all lines of all versions as unseen: the model no longer has them.
    pub fn forget(&mut self, path: &str) {
        if let Some(history) = self.paths.peek_mut(&normal_path(path)) {
            history.versions.iter_mut().for_each(|version| version.seen = SeenLines::default());
        }
    }

    /// Marks a line as shown in a refusal.
    ///
    /// From then on its number under this tag means this line.
    pub(crate) fn show_in_refusal(&mut self, path: &str, tag: Tag, line: usize) {
        if let Some((history, at)) = self.find(path, tag) {
            history.show(at, line..=line);
            history.versions[at].refusal_lines.show(line..=line);
        }
    }

    /// The version that `tag` names; `None` if its text is not stored, or never was.
    pub fn get(&mut self, path: &str, tag: Tag) -> Option<Arc<Snapshot>> {
        let (history, at) = self.find(path, tag)?;
        history.snapshot(at)
    }

    /// All eight digits of a tag; `None` if its version is not stored.
    ///
    /// They identify the same version here and in any other store that records the text.
    pub fn long_tag(&mut self, path: &str, tag: Tag) -> Option<Tag> {
        let (history, _) = self.find(path, tag)?;
        history.long_tag(tag)
    }

    /// The version recorded last.
    pub fn newest(&mut self, path: &str) -> Option<Arc<Snapshot>> {
        let history = self.paths.get(&normal_path(path))?;
        history.snapshot(history.versions.len().checked_sub(1)?)
    }

    /// The lines of a version that were shown, from 1, in order, not adjacent.
    ///
    /// The result is empty for an unknown tag. With it, a caller can keep a version longer than this store.
    pub fn shown_lines(&mut self, path: &str, tag: Tag) -> Vec<RangeInclusive<usize>> {
        self.find(path, tag)
            .map(|(history, at)| history.versions[at].seen.shown().to_vec())
            .unwrap_or_default()
    }

    /// Whether the model has seen every line, as a whole replacement requires.
    pub fn has_seen_all(&mut self, path: &str, tag: Tag) -> bool {
        self.find(path, tag).is_some_and(|(history, at)| {
            let version = &history.versions[at];
            version.seen.is_all(version.count())
        })
    }

    /// Records the text read back after an edit: `edits` turned `before` into `after`.
    ///
    /// Lines that the model had seen and that are untouched count as seen in the new version, and so do the
    /// lines it wrote. If `edits` do not lead from `before` to `after` (a formatter took part), the mapping
    /// between the two stays unknown, and only lines equal in a line diff count as seen.
    pub fn record_edit(
        &mut self,
        path: &str,
        before: &str,
        edits: &[TextEdit],
        after: impl Into<Arc<str>>,
    ) -> Tag {
        let after = after.into();
        let path = normal_path(path);
        let old = self.paths.get(&path).and_then(|history| {
            let at = history.find_text(before)?;
            Some((history.snapshot(at)?, history.versions[at].seen.clone()))
        });
        let tag = self.record(&path, after.clone());
        let Some((snapshot, seen)) = old else { return tag };
        let exact = text::normalize(before, edits).ok();
        let chain = exact.as_ref().and_then(|edits| Chain::new(before, &after, [edits.as_slice()]));
        let is_exact = chain.is_some();
        let chain =
            chain.or_else(|| Chain::new(before, &after, [text::diff_edits(before, &after).as_slice()]));
        self.changed(&path, |history| {
            let Some(to) = history.versions.len().checked_sub(1) else { return };
            let Some(new) = history.snapshot(to) else { return };
            if let Some(chain) = &chain {
                carry_seen(&seen, snapshot.lines(), chain, new.lines(), &mut history.versions[to]);
            }
            let Some(edits) = exact.filter(|_| is_exact && *before != **new.text()) else { return };
            for line in written_lines(&edits, new.lines()) {
                history.versions[to].seen.show(line);
            }
            history.link(before, to, edits);
        });
        tag
    }

    /// Moves the versions of a renamed file, replacing any of the new path.
    pub fn renamed(&mut self, from: &str, to: &str) {
        let (from, to) = (normal_path(from), normal_path(to));
        if from == to {
            return;
        }
        if let Some(history) = self.paths.pop(&from)
            && let Some((to, replaced)) = self.paths.push(to, history)
        {
            self.drop_path(to, replaced);
        }
    }

    /// Forgets the versions of a removed file.
    pub fn removed(&mut self, path: &str) {
        let path = normal_path(path);
        if let Some(history) = self.paths.pop(&path) {
            self.drop_path(path, history);
        }
    }

    /// Bytes of stored text.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn history(&mut self, path: &str) -> Option<&History> {
        self.paths.get(&normal_path(path))
    }

    /// Records that the model refers to version `at` of [`history`](Self::history).
    pub(crate) fn touch(&mut self, path: &str, at: usize) {
        if let Some(history) = self.paths.get_mut(&normal_path(path)) {
            history.touch(at);
        }
    }

    /// Marks lines of the version at `at` of [`history`](Self::history).
    pub(crate) fn see_version(&mut self, path: &str, at: usize, lines: &[usize]) {
        if let Some(history) = self.paths.get_mut(&normal_path(path)) {
            lines.iter().for_each(|line| history.show(at, *line..=*line));
        }
    }

    /// Counts a refusal of a patch; returns how often it was refused so far.
    pub(crate) fn refused(&mut self, patch: u64) -> usize {
        let count = self.refusals.get_or_insert_mut(patch, || 0);
        *count += 1;
        *count
    }

    pub(crate) fn accepted(&mut self, patch: u64) {
        self.refusals.pop(&patch);
    }

    fn find(&mut self, path: &str, tag: Tag) -> Option<(&mut History, usize)> {
        let history = self.paths.get_mut(&normal_path(path))?;
        let at = history.find_tag(tag)?;
        Some((history, at))
    }

    /// Changes the versions of a path and updates the number of bytes.
    fn changed<T>(&mut self, path: &str, work: impl FnOnce(&mut History) -> T) -> T {
        let history = self.paths.get_or_insert_mut(path.to_owned(), History::default);
        let before = history.bytes();
        let result = work(history);
        self.bytes = self.bytes - before + history.bytes();
        result
    }

    fn drop_path(&mut self, path: String, history: History) {
        self.bytes -= history.bytes();
        self.gone.push(path, history.into_dropped());
    }

    /// Drops versions until the rest fits, least recently used paths first.
    ///
    /// The newest version of the path in use stays.
    fn shrink(&mut self, used: &str) {
        let mut paths: Vec<String> = Vec::new();
        if self.bytes > self.limits.bytes {
            paths = self.paths.iter().rev().map(|(path, _)| path.clone()).collect();
        }
        for path in &paths {
            let Some(history) = self.paths.peek_mut(path) else { continue };
            while self.bytes > self.limits.bytes {
                let before = history.bytes();
                if !history.shrink(path == used) {
                    break;
                }
                self.bytes = self.bytes - before + history.bytes();
            }
        }
        // The remaining lines are bounded too.
        let most = (self.limits.bytes / 4).max(SPARSE);
        if paths.is_empty() {
            return;
        }
        let mut sparse: usize = self.paths.iter().map(|(_, history)| history.sparse_bytes()).sum();
        for path in &paths {
            let Some(history) = self.paths.peek_mut(path) else { continue };
            while sparse > most && history.sparse_bytes() > 0 {
                let before = history.sparse_bytes();
                history.forget_sparse();
                sparse = sparse + history.sparse_bytes() - before;
            }
        }
    }
}
