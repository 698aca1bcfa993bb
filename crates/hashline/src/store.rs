//! The versions a session has shown: found by tag, with the lines seen and the edits between them.
//!
//! Bounded three ways; what falls out is refused as unknown later, never guessed. Keeps no file
//! and no clock: a version is as old as its place in the order of recording.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;

use lru::LruCache;
use text::TextEdit;

use crate::chain::Chain;
use crate::lines::{Lines, identity, short_hash};
use crate::patch::normal_path;
use crate::snapshot::{Seen, Snapshot};
use crate::{SectionPlan, Tag, View, render};

/// How much a [`SnapshotStore`] keeps. Settings `hashline.snapshots.paths`, `.versions`, `.bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Paths, least recently used out; at least 1.
    pub paths: usize,
    /// Versions of a path, oldest out; at least 1.
    pub versions: usize,
    /// Bytes of text in all versions together; the newest version of the path last used stays.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { paths: 256, versions: 8, bytes: 64 << 20 }
    }
}

/// Tags remembered of a path beyond the versions kept, so that none comes to mean another text.
const ISSUED: usize = 256;
/// Refused patches remembered, to notice repetition.
const REFUSALS: usize = 64;

/// What a session's model was shown: per path the last versions, their seen lines, and our own
/// edits between them. One per agent session.
#[derive(Debug)]
pub struct SnapshotStore {
    limits: Limits,
    paths: LruCache<String, History>,
    bytes: usize,
    refusals: LruCache<u64, usize>,
}

/// The versions of one path.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Oldest first.
    pub(crate) versions: Vec<Version>,
    links: Vec<Link>,
    issued: VecDeque<Issued>,
    next_id: u64,
}

#[derive(Debug)]
pub(crate) struct Version {
    id: u64,
    identity: u64,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) seen: Seen,
}

/// Our own edits from one version to another.
#[derive(Debug)]
struct Link {
    from: u64,
    to: u64,
    edits: Vec<TextEdit>,
}

#[derive(Debug, Clone, Copy)]
struct Issued {
    hash: u32,
    long: bool,
    identity: u64,
}

impl Default for SnapshotStore {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl SnapshotStore {
    /// An empty store; a limit of 0 counts as 1.
    pub fn new(limits: Limits) -> Self {
        let size = |size: usize| NonZeroUsize::new(size).unwrap_or(NonZeroUsize::MIN);
        Self {
            limits: Limits { versions: limits.versions.max(1), ..limits },
            paths: LruCache::new(size(limits.paths)),
            bytes: 0,
            refusals: LruCache::new(size(REFUSALS)),
        }
    }

    /// Records `text` as the newest version of `path`, none of its lines seen yet. A text that is
    /// already kept becomes the newest again and keeps its tag and its seen lines.
    pub fn record(&mut self, path: &str, text: impl Into<Arc<str>>) -> Tag {
        let text = text.into();
        let path = normal_path(path);
        if !self.paths.contains(&path)
            && let Some((_, evicted)) = self.paths.push(path.clone(), History::default())
        {
            self.bytes -= evicted.bytes();
        }
        let versions = self.limits.versions;
        let history = self.paths.get_or_insert_mut(path.clone(), History::default);
        let before = history.bytes();
        let tag = history.record(text);
        while history.versions.len() > versions {
            history.forget_oldest();
        }
        self.bytes = self.bytes - before + history.bytes();
        self.shrink(&path);
        tag
    }

    /// Marks lines of a version as shown to the model. Returns whether the version is kept.
    pub fn see(&mut self, path: &str, tag: Tag, lines: RangeInclusive<usize>) -> bool {
        let Some(version) = self.version_mut(path, tag) else { return false };
        let last = version.snapshot.lines().count().min(*lines.end());
        version.seen.show(*lines.start()..=last);
        true
    }

    /// Marks lines of a version as folded: left out between two lines that were shown. An
    /// operation that names the whole of them, with those two lines, needs no further read.
    /// Returns whether the version is kept.
    pub fn fold(&mut self, path: &str, tag: Tag, lines: RangeInclusive<usize>) -> bool {
        self.version_mut(path, tag).map(|version| version.seen.fold(lines)).is_some()
    }

    /// Renders lines of a version as [`render`](crate::render::render()) does and marks them as
    /// seen; `None` when the version is not kept.
    pub fn show(
        &mut self,
        path: &str,
        tag: Tag,
        ranges: &[RangeInclusive<usize>],
        view: View,
    ) -> Option<String> {
        let snapshot = self.get(path, tag)?;
        for range in ranges {
            self.see(path, tag, range.clone());
        }
        Some(render::render(path, &snapshot, ranges, view))
    }

    /// The version that `tag` names; `None` when it is not kept, or never was.
    pub fn get(&mut self, path: &str, tag: Tag) -> Option<Arc<Snapshot>> {
        self.version_mut(path, tag).map(|version| version.snapshot.clone())
    }

    /// All eight digits of a tag, which find the same version here and in any other store that
    /// records the text; `None` when it is not kept.
    pub fn long_tag(&mut self, path: &str, tag: Tag) -> Option<Tag> {
        self.version_mut(path, tag)?;
        let history = self.paths.get(&normal_path(path))?;
        let identity = history.identity(tag)?;
        let issued = history.issued.iter().find(|issued| issued.identity == identity)?;
        Some(Tag::new(issued.hash, true))
    }

    /// The version recorded last.
    pub fn newest(&mut self, path: &str) -> Option<Arc<Snapshot>> {
        Some(self.paths.get(&normal_path(path))?.versions.last()?.snapshot.clone())
    }

    /// The lines of a version that were shown, from 1, in order, not touching each other; empty for
    /// a tag that is not known. For keeping a version beyond the life of this store.
    pub fn seen(&mut self, path: &str, tag: Tag) -> Vec<RangeInclusive<usize>> {
        self.version_mut(path, tag).map(|version| version.seen.shown().to_vec()).unwrap_or_default()
    }

    /// Whether the model has seen every line of the version (a whole replacement needs that).
    pub fn has_seen_all(&mut self, path: &str, tag: Tag) -> bool {
        self.version_mut(path, tag)
            .is_some_and(|version| version.seen.missing(1..=version.snapshot.lines().count()).is_empty())
    }

    /// Records what was read back after our own edit: `edits` made `after` of `before`.
    ///
    /// Lines that the model had seen and that stand untouched count as seen in the new version, and
    /// so does what it wrote. If `edits` do not lead from `before` to `after` (a formatter took
    /// part), the way between the two stays unknown, and only lines equal in a line diff are seen.
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
            let version =
                history.versions.iter().rev().find(|version| **version.snapshot.text() == *before)?;
            Some((version.id, version.snapshot.clone(), version.seen.clone()))
        });
        let tag = self.record(&path, after.clone());
        let Some((id, snapshot, seen)) = old else { return tag };
        let exact = text::normalize(before, edits).ok();
        let chain = exact.as_ref().and_then(|edits| Chain::new(before, &after, [edits.as_slice()]));
        let is_exact = chain.is_some();
        let chain =
            chain.or_else(|| Chain::new(before, &after, [text::diff_edits(before, &after).as_slice()]));
        let Some(history) = self.paths.get_mut(&path) else { return tag };
        let Some(new) = history.versions.last_mut() else { return tag };
        let new_id = new.id;
        if let Some(chain) = &chain {
            carry_seen(&seen, snapshot.lines(), chain, new);
        }
        let Some(edits) = exact.filter(|_| is_exact && new_id != id) else { return tag };
        for line in written_lines(&edits, new.snapshot.lines()) {
            new.seen.show(line);
        }
        history.links.retain(|link| (link.from, link.to) != (id, new_id));
        history.links.push(Link { from: id, to: new_id, edits });
        tag
    }

    /// Records a committed section: the text that was read back, and the path it now has.
    /// `None` when the file was deleted.
    pub fn committed(&mut self, section: &SectionPlan, read_back: impl Into<Arc<str>>) -> Option<Tag> {
        match &section.file_op {
            crate::FileOp::Remove => {
                self.removed(&section.path);
                None
            }
            crate::FileOp::Keep => {
                Some(self.record_edit(&section.path, &section.before, &section.edits, read_back))
            }
            crate::FileOp::Rename { to } => {
                self.renamed(&section.path, to);
                Some(self.record_edit(to, &section.before, &section.edits, read_back))
            }
        }
    }

    /// The file has another path now; its versions go with it, over any that path had.
    pub fn renamed(&mut self, from: &str, to: &str) {
        let (from, to) = (normal_path(from), normal_path(to));
        if from == to {
            return;
        }
        if let Some(history) = self.paths.pop(&from)
            && let Some((_, replaced)) = self.paths.push(to, history)
        {
            self.bytes -= replaced.bytes();
        }
    }

    /// The file is gone; its versions are forgotten.
    pub fn removed(&mut self, path: &str) {
        if let Some(history) = self.paths.pop(&normal_path(path)) {
            self.bytes -= history.bytes();
        }
    }

    /// Bytes of text kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn history(&mut self, path: &str) -> Option<&History> {
        self.paths.get(&normal_path(path))
    }

    /// Marks lines of the version at `at` of [`history`](Self::history).
    pub(crate) fn see_version(&mut self, path: &str, at: usize, lines: &[usize]) {
        if let Some(version) =
            self.paths.get_mut(&normal_path(path)).and_then(|history| history.versions.get_mut(at))
        {
            lines.iter().for_each(|line| version.seen.show(*line..=*line));
        }
    }

    /// Counts a refusal of a patch; how often it was refused by now.
    pub(crate) fn refused(&mut self, patch: u64) -> usize {
        let count = self.refusals.get_or_insert_mut(patch, || 0);
        *count += 1;
        *count
    }

    pub(crate) fn accepted(&mut self, patch: u64) {
        self.refusals.pop(&patch);
    }

    fn version_mut(&mut self, path: &str, tag: Tag) -> Option<&mut Version> {
        let history = self.paths.get_mut(&normal_path(path))?;
        let identity = history.identity(tag)?;
        history.versions.iter_mut().rev().find(|version| version.identity == identity)
    }

    /// Drops oldest versions of the least recently used paths until the bytes fit.
    fn shrink(&mut self, used: &str) {
        while self.bytes > self.limits.bytes {
            let victim = self
                .paths
                .iter()
                .rev()
                .find(|(path, history)| history.versions.len() > usize::from(*path == used))
                .map(|(path, _)| path.clone());
            let Some(history) = victim.and_then(|path| self.paths.peek_mut(&path)) else { return };
            self.bytes -= history.forget_oldest();
        }
    }
}

impl History {
    fn bytes(&self) -> usize {
        self.versions.iter().map(|version| version.snapshot.text().len()).sum()
    }

    fn record(&mut self, text: Arc<str>) -> Tag {
        if let Some(at) = self.versions.iter().position(|version| *version.snapshot.text() == text) {
            let version = self.versions.remove(at);
            let tag = version.snapshot.tag();
            self.versions.push(version);
            return tag;
        }
        let identity = identity(&text);
        let tag = self.issue(&text, identity);
        let id = self.next_id;
        self.next_id += 1;
        let snapshot = Arc::new(Snapshot::new(Lines::new(text), tag));
        self.versions.push(Version { id, identity, snapshot, seen: Seen::default() });
        tag
    }

    /// A tag that means this text and no other of the path.
    fn issue(&mut self, text: &str, identity: u64) -> Tag {
        if let Some(issued) = self.issued.iter().find(|issued| issued.identity == identity) {
            return Tag::new(issued.hash, issued.long);
        }
        // Two texts with all 32 bits in common get apart by another seed.
        let mut seed = 0;
        let hash = loop {
            let hash = short_hash(text, seed);
            if !self.issued.iter().any(|issued| issued.hash == hash) {
                break hash;
            }
            seed += 1;
        };
        let long = seed > 0 || self.issued.iter().any(|issued| issued.hash as u16 == hash as u16);
        if self.issued.len() >= ISSUED {
            let kept =
                |issued: &Issued| self.versions.iter().any(|version| version.identity == issued.identity);
            if let Some(at) = self.issued.iter().position(|issued| !kept(issued)) {
                self.issued.remove(at);
            }
        }
        self.issued.push_back(Issued { hash, long, identity });
        Tag::new(hash, long)
    }

    /// What a tag stands for. Four digits name the version shown with four.
    fn identity(&self, tag: Tag) -> Option<u64> {
        let names = |issued: &&Issued| {
            if tag.is_long() {
                issued.hash == tag.value()
            } else {
                !issued.long && issued.hash & 0xffff == tag.value()
            }
        };
        self.issued.iter().find(names).map(|issued| issued.identity)
    }

    /// Whether the tag was given out for this path once, its version kept or not.
    pub(crate) fn was_issued(&self, tag: Tag) -> bool {
        self.identity(tag).is_some()
    }

    /// Index of the version that `tag` names: the one whose text is `current`, else the newest.
    /// (Versions of one tag differ in line ends at most.)
    pub(crate) fn find(&self, tag: Tag, current: &str) -> Option<usize> {
        let identity = self.identity(tag)?;
        let named = |version: &Version| version.identity == identity;
        self.versions
            .iter()
            .rposition(|version| named(version) && **version.snapshot.text() == *current)
            .or_else(|| self.versions.iter().rposition(named))
    }

    /// Our own edits from one version to another, a list per step; `None` when we did not make it.
    pub(crate) fn steps(&self, from: usize, to: usize) -> Option<Vec<&[TextEdit]>> {
        let (from, to) = (self.versions[from].id, self.versions[to].id);
        // Breadth first, newest links first: the shortest way, the latest of several.
        let mut ways: VecDeque<(u64, Vec<&Link>)> = VecDeque::from([(from, Vec::new())]);
        let mut visited = vec![from];
        while let Some((at, way)) = ways.pop_front() {
            if at == to {
                return Some(way.iter().map(|link| link.edits.as_slice()).collect());
            }
            for link in self.links.iter().rev().filter(|link| link.from == at) {
                if !visited.contains(&link.to) {
                    visited.push(link.to);
                    ways.push_back((link.to, way.iter().copied().chain([link]).collect()));
                }
            }
        }
        None
    }

    fn forget_oldest(&mut self) -> usize {
        if self.versions.is_empty() {
            return 0;
        }
        let version = self.versions.remove(0);
        self.links.retain(|link| link.from != version.id && link.to != version.id);
        version.snapshot.text().len()
    }
}

fn carry_seen(seen: &Seen, old: &Lines, chain: &Chain, new: &mut Version) {
    let lines = new.snapshot.lines().clone();
    for range in seen.shown() {
        for line in range.clone() {
            if let Some(at) = chain.line(old, &lines, line, line) {
                new.seen.show(at..=at);
            }
        }
    }
    for fold in seen.folds() {
        if let Some(at) = chain.line(old, &lines, *fold.start(), *fold.end()) {
            new.seen.fold(at..=at + (fold.end() - fold.start()));
        }
    }
}

/// Lines of the new text that the edits wrote whole.
fn written_lines(edits: &[TextEdit], new: &Lines) -> Vec<RangeInclusive<usize>> {
    let mut shift = 0isize;
    let mut written = Vec::new();
    for edit in edits {
        let start = edit.range.start.saturating_add_signed(shift);
        let end = start + edit.new_text.len();
        shift += edit.growth();
        let mut first = new.line_of(start);
        if new.start(first) < start {
            first += 1;
        }
        let mut last = new.line_of(end);
        if new.content_range(last).end > end || new.start(last) == end {
            last -= 1;
        }
        if first <= last {
            written.push(first..=last.min(new.count()));
        }
    }
    written
}
