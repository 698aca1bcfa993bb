//! The versions of one path: texts, lines shown, edits between them, issued tags.
//!
//! A version that the model may still refer to is worth more than one it never saw. Beyond the limit, the
//! version with the fewest shown lines is dropped (among equals the least recently used), while recently used
//! versions stay. A dropped version stays for a while as edits of another (a ghost): nothing is planned on
//! it, but a number that may refer to it is not trusted. Edits that led over a version that is gone for good
//! are joined, so that the path between the remaining ones is as exact as before.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use text::TextEdit;
use xxhash_rust::xxh3::xxh3_64;

use crate::Tag;
use crate::lines::{Lines, align, identity, short_hash};
use crate::snapshot::chain::{self, Chain};
use crate::snapshot::{SeenLines, Snapshot};

/// Number of tags stored of a path's dropped versions, to avoid reusing one.
const ISSUED: usize = 256;
/// Size from which a text is stored as edits, if these are smaller: 4 MiB.
const LARGE: usize = 4 << 20;
/// Maximum number of ghosts of a path.
const GHOSTS: usize = 64;
const GHOST_BYTES: usize = 64 << 10;
/// Maximum bytes of both texts that are compared to make a ghost.
const GHOST_TEXT: usize = 2 << 20;
/// Maximum bytes of joined edits, 1 MiB; larger ones are dropped.
const MOST_LINK: usize = 1 << 20;

/// The versions of one path.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Versions in the order recorded, the newest last.
    pub(crate) versions: Vec<Version>,
    /// Dropped versions, as edits of others.
    ///
    /// They only show that a number may refer to one of them.
    pub(crate) ghosts: Vec<Version>,
    links: Vec<Link>,
    issued: VecDeque<Issued>,
    next_id: u64,
    /// Number of uses, to order versions by their last use.
    clock: u64,
    /// Lines shown of versions that are no longer stored.
    forgotten: SeenLines,
}

/// One version: the stored part of its text, and the lines the model saw.
///
/// It records no time, since nothing depends on it.
#[derive(Debug)]
pub(crate) struct Version {
    id: u64,
    /// The identity of the text that the tag names: a 64-bit xxh3, LF, without BOM.
    identity: u64,
    /// Hash of all bytes, and the number of bytes.
    exact: (u64, usize),
    /// Number of lines.
    count: usize,
    tag: Tag,
    kept: StoredText,
    /// Lines the model knows, including those carried over from other versions.
    pub(crate) seen: SeenLines,
    /// Lines shown of this version itself.
    shown: SeenLines,
    /// Lines that a refusal showed under its tag.
    pub(crate) refusal_lines: SeenLines,
    used: u64,
    /// The use in which it was last recorded.
    pub(crate) recorded: u64,
}

/// The form in which a text is stored.
#[derive(Debug)]
enum StoredText {
    Full(Arc<Snapshot>),
    /// The text is stored as edits that turn the version `of` into it.
    Edits {
        of: u64,
        edits: Vec<TextEdit>,
    },
    /// Only the lines that were shown are stored, by number.
    Lines(Vec<(usize, String)>),
}

/// The session's own edits from one version to another.
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

impl StoredText {
    fn bytes(&self) -> usize {
        match self {
            Self::Full(snapshot) => snapshot.text().len(),
            Self::Edits { edits, .. } => edits.iter().map(|edit| edit.new_text.len() + 32).sum(),
            Self::Lines(_) => 0,
        }
    }
}

impl Version {
    /// Its name in links.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Number of its lines.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether its text is this one, every byte of it.
    pub(crate) fn is_text(&self, text: &str) -> bool {
        match &self.kept {
            StoredText::Full(snapshot) => **snapshot.text() == *text,
            // 64 bits of a hash of all bytes identify a text.
            _ => self.exact == exact(text),
        }
    }

    /// Bytes of lines stored after the text was dropped.
    fn sparse_bytes(&self) -> usize {
        match &self.kept {
            StoredText::Lines(lines) => lines.iter().map(|(_, line)| line.len() + 16).sum(),
            _ => 0,
        }
    }

    /// The text, if `current` with the shown lines laid over it is that text.
    fn laid_over(&self, current: &Lines) -> Option<Arc<Snapshot>> {
        let StoredText::Lines(lines) = &self.kept else { return None };
        let edits = lines.iter().map(|(line, content)| {
            (*line <= current.count())
                .then(|| TextEdit::replace(current.content_range(*line), content.clone()))
        });
        let text = text::apply(current.text(), &edits.collect::<Option<Vec<_>>>()?).ok()?;
        (identity(&text) == self.identity).then(|| Arc::new(Snapshot::new(Lines::new(text.into()), self.tag)))
    }
}

fn exact(text: &str) -> (u64, usize) {
    (xxh3_64(text.as_bytes()), text.len())
}

impl History {
    pub(crate) fn bytes(&self) -> usize {
        self.versions.iter().map(|version| version.kept.bytes()).sum()
    }

    pub(crate) fn sparse_bytes(&self) -> usize {
        self.versions.iter().map(Version::sparse_bytes).sum()
    }

    /// Records a text as the newest version, even if it was recorded before.
    pub(crate) fn record(&mut self, text: Arc<str>) -> Tag {
        self.clock += 1;
        if let Some(at) = self.ghosts.iter().position(|ghost| ghost.is_text(&text)) {
            // The text occurs again, and the lines seen in it count again.
            let ghost = self.ghosts.remove(at);
            self.versions.push(ghost);
        }
        if let Some(at) = self.versions.iter().position(|version| version.is_text(&text)) {
            let mut version = self.versions.remove(at);
            (version.used, version.recorded) = (self.clock, self.clock);
            if !matches!(version.kept, StoredText::Full(_)) {
                version.kept = StoredText::Full(Arc::new(Snapshot::new(Lines::new(text), version.tag)));
            }
            let tag = version.tag;
            self.versions.push(version);
            return tag;
        }
        let identity = identity(&text);
        let tag = self.issue(&text, identity);
        let id = self.next_id;
        self.next_id += 1;
        let exact = exact(&text);
        let lines = Lines::new(text);
        let count = lines.count();
        let kept = StoredText::Full(Arc::new(Snapshot::new(lines, tag)));
        let (seen, shown, refusal_lines) = (SeenLines::default(), SeenLines::default(), SeenLines::default());
        self.versions.push(Version {
            id,
            identity,
            exact,
            count,
            tag,
            kept,
            seen,
            shown,
            refusal_lines,
            used: self.clock,
            recorded: self.clock,
        });
        tag
    }

    /// The version's text; `None` if it was dropped.
    pub(crate) fn snapshot(&self, at: usize) -> Option<Arc<Snapshot>> {
        self.text_of(self.versions.get(at)?)
    }

    /// The text of a version or ghost.
    pub(crate) fn text_of(&self, version: &Version) -> Option<Arc<Snapshot>> {
        match &version.kept {
            StoredText::Full(snapshot) => Some(snapshot.clone()),
            StoredText::Lines(_) => None,
            StoredText::Edits { of, edits } => {
                let of = self.text_of(self.by_id(*of)?)?;
                let text = text::apply(of.text(), edits).ok()?;
                (exact(&text) == version.exact)
                    .then(|| Arc::new(Snapshot::new(Lines::new(text.into()), version.tag)))
            }
        }
    }

    /// The version's text, also if the current text supplies all but the shown lines.
    pub(crate) fn snapshot_over(&self, at: usize, current: &Lines) -> Option<Arc<Snapshot>> {
        self.snapshot(at).or_else(|| self.versions.get(at)?.laid_over(current))
    }

    /// Whether a line with this number was shown of a version whose text is gone.
    pub(crate) fn was_forgotten(&self, line: usize) -> bool {
        let mut all = self.versions.iter().chain(&self.ghosts);
        self.forgotten.contains(line)
            || all.any(|version| version.seen.contains(line) && self.is_lost(version))
    }

    fn is_lost(&self, version: &Version) -> bool {
        match &version.kept {
            StoredText::Full(_) => false,
            StoredText::Edits { of, .. } => self.by_id(*of).is_none_or(|of| self.is_lost(of)),
            StoredText::Lines(_) => true,
        }
    }

    fn by_id(&self, id: u64) -> Option<&Version> {
        self.versions.iter().chain(&self.ghosts).find(|version| version.id == id)
    }

    /// Records that the model refers to a version.
    pub(crate) fn touch(&mut self, at: usize) {
        self.clock += 1;
        if let Some(version) = self.versions.get_mut(at) {
            version.used = self.clock;
        }
    }

    /// Records that lines of a version are shown.
    pub(crate) fn show(&mut self, at: usize, lines: RangeInclusive<usize>) {
        self.touch(at);
        if let Some(version) = self.versions.get_mut(at) {
            let lines = *lines.start()..=version.count.min(*lines.end());
            version.seen.show(lines.clone());
            version.shown.show(lines);
        }
    }

    /// Stores large texts as edits of the newest version, where these are smaller.
    pub(crate) fn compact(&mut self) {
        let Some(newest) = self.versions.last() else { return };
        let StoredText::Full(base) = &newest.kept else { return };
        let (base, id) = (base.clone(), newest.id);
        for at in 0..self.versions.len() - 1 {
            let StoredText::Full(snapshot) = &self.versions[at].kept else { continue };
            if snapshot.text().len() <= LARGE {
                continue;
            }
            let edits = align::edits(base.lines(), snapshot.lines());
            let smaller = edits.iter().map(|edit| edit.new_text.len() + 32).sum::<usize>();
            if smaller < snapshot.text().len() / 2 {
                self.versions[at].kept = StoredText::Edits { of: id, edits };
            }
        }
    }

    /// Drops versions until `most` are left.
    pub(crate) fn limit(&mut self, most: usize) {
        while self.versions.len() > most {
            let mut recent: Vec<u64> = self.versions.iter().map(|version| version.used).collect();
            recent.sort_unstable_by(|a, b| b.cmp(a));
            // Half of the capacity is for recently used versions.
            let recent = recent[(most / 2).max(1) - 1];
            let newest = self.versions.len() - 1;
            let worth = |(at, version): &(usize, &Version)| {
                (*at == newest, version.used >= recent, version.shown.count(), version.used)
            };
            let Some((at, _)) = self.versions.iter().enumerate().min_by_key(worth) else { return };
            self.forget(at);
        }
    }

    /// Drops the bytes of the least valuable version.
    ///
    /// If they are gone already, drops the version; the newest stays if `keep_newest`. Returns `false` if
    /// nothing was left to drop.
    pub(crate) fn shrink(&mut self, keep_newest: bool) -> bool {
        let end = self.versions.len() - usize::from(keep_newest && !self.versions.is_empty());
        let with_bytes = |(_, version): &(usize, &Version)| version.kept.bytes() > 0;
        let worth = |(_, version): &(usize, &Version)| (version.shown.count(), version.used);
        let candidates = self.versions[..end].iter().enumerate();
        let Some((at, version)) = candidates.filter(with_bytes).min_by_key(worth) else { return false };
        let id = version.id;
        // Ghosts stored as edits of this version are lost with it.
        self.keep_ghosts(|ghost| !matches!(&ghost.kept, StoredText::Edits { of, .. } if *of == id));
        let mut lost = vec![at];
        for (other, version) in self.versions.iter().enumerate() {
            if matches!(&version.kept, StoredText::Edits { of, .. } if *of == id) {
                lost.push(other);
            }
        }
        let snapshots: Vec<_> = lost.iter().map(|at| (*at, self.snapshot(*at))).collect();
        for (at, snapshot) in snapshots {
            let version = &mut self.versions[at];
            let lines = snapshot.map_or_else(Vec::new, |snapshot| {
                let shown = version.shown.shown().iter().cloned().flatten();
                shown.map(|line| (line, snapshot.lines().content(line).to_owned())).collect()
            });
            version.kept = StoredText::Lines(lines);
        }
        true
    }

    /// Drops a version of which only lines are left; `false` if there is none.
    pub(crate) fn forget_sparse(&mut self) -> bool {
        let sparse = self.versions.iter().position(|version| matches!(version.kept, StoredText::Lines(_)));
        sparse.map(|at| self.forget(at)).is_some()
    }

    fn forget(&mut self, at: usize) {
        let edits = self.as_edits(at);
        let mut version = self.versions.remove(at);
        match edits {
            Some(kept) => {
                // Versions stored as edits of this one still need it.
                version.kept = kept;
                self.ghosts.push(version);
            }
            None => self.drop_version(&version),
        }
        let bytes = |ghosts: &[Version]| ghosts.iter().map(|ghost| ghost.kept.bytes()).sum::<usize>();
        while self.ghosts.len() > GHOSTS || bytes(&self.ghosts) > GHOST_BYTES {
            let ghost = self.ghosts.remove(0);
            self.drop_version(&ghost);
        }
    }

    /// The version as edits of another that stays: the newest or an edit's result.
    fn as_edits(&self, at: usize) -> Option<StoredText> {
        let version = &self.versions[at];
        if let StoredText::Edits { of, edits } = &version.kept {
            return Some(StoredText::Edits { of: *of, edits: edits.clone() });
        }
        let StoredText::Full(snapshot) = &version.kept else { return None };
        let stands_on_it = |other: &Version| self.depends_on(other, version.id);
        let own = self.links.iter().rev().find(|link| {
            link.from == version.id
                && self.versions.iter().any(|other| other.id == link.to && !stands_on_it(other))
        });
        if let Some(link) = own {
            return Some(StoredText::Edits {
                of: link.to,
                edits: text::invert(snapshot.text(), &link.edits).ok()?,
            });
        }
        let newest =
            self.versions.iter().rev().find(|other| other.id != version.id && !stands_on_it(other))?;
        let StoredText::Full(base) = &newest.kept else { return None };
        if base.text().len() + snapshot.text().len() > GHOST_TEXT {
            return None;
        }
        Some(StoredText::Edits { of: newest.id, edits: align::edits(base.lines(), snapshot.lines()) })
    }

    /// Whether a version depends on the one called `base`, directly or indirectly.
    ///
    /// A text must not come to depend on itself.
    fn depends_on(&self, version: &Version, base: u64) -> bool {
        match &version.kept {
            StoredText::Edits { of, .. } => {
                *of == base || self.by_id(*of).is_some_and(|next| self.depends_on(next, base))
            }
            _ => false,
        }
    }

    fn keep_ghosts(&mut self, keep: impl Fn(&Version) -> bool) {
        for ghost in self.ghosts.extract_if(.., |ghost| !keep(ghost)) {
            self.forgotten.show_all(&ghost.seen);
        }
    }

    /// Forgets a version that is in no list any more.
    fn drop_version(&mut self, version: &Version) {
        self.forgotten.show_all(&version.seen);
        // Versions stored as edits of it must become independent, or depend on its own base.
        let base_len = match &version.kept {
            StoredText::Edits { of, .. } => self.by_id(*of).map(|base| base.exact.1),
            _ => None,
        };
        for other in self.versions.iter_mut().chain(&mut self.ghosts) {
            let StoredText::Edits { of, edits } = &other.kept else { continue };
            if *of != version.id {
                continue;
            }
            let kept = match &version.kept {
                StoredText::Edits { of, edits: first } => base_len
                    .and_then(|len| chain::join(len, first, edits))
                    .map(|edits| StoredText::Edits { of: *of, edits }),
                StoredText::Full(snapshot) => text::apply(snapshot.text(), edits).ok().map(|text| {
                    StoredText::Full(Arc::new(Snapshot::new(Lines::new(text.into()), other.tag)))
                }),
                StoredText::Lines(_) => None,
            };
            other.kept = kept.unwrap_or(StoredText::Lines(Vec::new()));
        }
        // A ghost never stores a whole text.
        self.keep_ghosts(|ghost| matches!(ghost.kept, StoredText::Edits { .. }));
        let (from, rest): (Vec<Link>, Vec<Link>) = std::mem::take(&mut self.links)
            .into_iter()
            .partition(|link| link.from == version.id || link.to == version.id);
        self.links = rest;
        for into in from.iter().filter(|link| link.to == version.id) {
            for out in from.iter().filter(|link| link.from == version.id) {
                let known = |link: &Link| (link.from, link.to) == (into.from, out.to);
                let Some(len) = self.by_id(into.from).map(|version| version.exact.1) else { continue };
                if into.from == out.to || self.links.iter().any(known) {
                    continue;
                }
                let Some(edits) = chain::join(len, &into.edits, &out.edits) else { continue };
                if edits.iter().map(|edit| edit.new_text.len() + 32).sum::<usize>() <= MOST_LINK {
                    self.links.push(Link { from: into.from, to: out.to, edits });
                }
            }
        }
    }

    /// Records that the session's own edits lead from `before` to the version at `to`.
    pub(crate) fn link(&mut self, before: &str, to: usize, edits: Vec<TextEdit>) {
        let mut all = self.versions.iter().rev().chain(self.ghosts.iter().rev());
        let (Some(from), to) = (all.find(|version| version.is_text(before)), self.versions[to].id) else {
            return;
        };
        let from = from.id;
        if from != to {
            self.links.retain(|link| (link.from, link.to) != (from, to));
            self.links.push(Link { from, to, edits });
        }
    }

    /// Index of the newest version with this text.
    pub(crate) fn find_text(&self, text: &str) -> Option<usize> {
        self.versions.iter().rposition(|version| version.is_text(text))
    }

    /// Index of the newest version that `tag` names.
    pub(crate) fn find_tag(&self, tag: Tag) -> Option<usize> {
        let identity = self.identity(tag)?;
        self.versions.iter().rposition(|version| version.identity == identity)
    }

    /// All eight digits of the tag of a version.
    pub(crate) fn long_tag(&self, tag: Tag) -> Option<Tag> {
        let identity = self.identity(tag)?;
        let issued = self.issued.iter().find(|issued| issued.identity == identity)?;
        Some(Tag::new(issued.hash, true))
    }

    /// The summary that is stored when the path itself is dropped.
    pub(crate) fn into_dropped(mut self) -> DroppedPath {
        for version in self.versions.iter().chain(&self.ghosts) {
            self.forgotten.show_all(&version.seen);
        }
        DroppedPath { issued: self.issued, forgotten: self.forgotten }
    }

    pub(crate) fn again(gone: DroppedPath) -> Self {
        Self { issued: gone.issued, forgotten: gone.forgotten, ..Self::default() }
    }

    /// Issues a tag that means this text and no other of the path.
    fn issue(&mut self, text: &str, identity: u64) -> Tag {
        if let Some(issued) = self.issued.iter().find(|issued| issued.identity == identity) {
            return Tag::new(issued.hash, issued.long);
        }
        // Another seed distinguishes texts that share all 32 bits.
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

    /// The text identity of a tag. Four digits name the version shown with four.
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

    /// Whether the tag was ever issued for this path.
    pub(crate) fn was_issued(&self, tag: Tag) -> bool {
        self.identity(tag).is_some()
    }

    /// Index of the version of `tag`: that of the text `current`, else the newest.
    ///
    /// Versions with one tag differ in line ends at most.
    pub(crate) fn find(&self, tag: Tag, current: &str) -> Option<usize> {
        let identity = self.identity(tag)?;
        let named = |version: &Version| version.identity == identity;
        self.versions
            .iter()
            .rposition(|version| named(version) && version.is_text(current))
            .or_else(|| self.versions.iter().rposition(named))
    }

    /// The session's own edits between two versions, a list per step.
    ///
    /// `None` if other changes intervened.
    pub(crate) fn steps(&self, from: usize, to: usize) -> Option<Vec<&[TextEdit]>> {
        self.steps_between(self.versions[from].id, self.versions[to].id)
    }

    /// Finds the [`steps`](Self::steps) between versions or ghosts by their ids.
    pub(crate) fn steps_between(&self, from: u64, to: u64) -> Option<Vec<&[TextEdit]>> {
        // The search is breadth first and takes the newest links first, so it finds the latest of the
        // shortest paths.
        let mut paths: VecDeque<(u64, Vec<&Link>)> = VecDeque::from([(from, Vec::new())]);
        let mut visited = vec![from];
        while let Some((at, path)) = paths.pop_front() {
            if at == to {
                return Some(path.iter().map(|link| link.edits.as_slice()).collect());
            }
            for link in self.links.iter().rev().filter(|link| link.from == at) {
                if !visited.contains(&link.to) {
                    visited.push(link.to);
                    paths.push_back((link.to, path.iter().copied().chain([link]).collect()));
                }
            }
        }
        None
    }
}

/// The summary of a dropped path: its issued tags, and the numbers of lines shown.
#[derive(Debug)]
pub(crate) struct DroppedPath {
    issued: VecDeque<Issued>,
    forgotten: SeenLines,
}

pub(crate) fn carry_seen(seen: &SeenLines, old: &Lines, chain: &Chain, lines: &Lines, new: &mut Version) {
    for range in seen.shown() {
        for line in range.clone() {
            if let Some(at) = chain.line(old, lines, line, line) {
                new.seen.show(at..=at);
            }
        }
    }
}

/// Lines of the new text that the edits wrote completely.
pub(crate) fn written_lines(edits: &[TextEdit], new: &Lines) -> Vec<RangeInclusive<usize>> {
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
