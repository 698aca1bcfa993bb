//! The versions of one path: their texts, the lines of them that were shown, our own edits between
//! them, and the tags given out.
//!
//! What the model may still refer to is worth more than what it never saw: of too many versions the
//! one goes of which the fewest lines were shown, the one used last longest ago first among equals,
//! while the versions used last stay. A version beyond the limit stays for a while as edits of another
//! (a ghost): nothing is planned on it, but a number that may be meant for it is not believed. Edits
//! that led over a version that is gone for good are joined, so that the way between those that
//! stay is as exact as it was.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use text::TextEdit;
use xxhash_rust::xxh3::xxh3_64;

use crate::chain::{self, Chain};
use crate::lines::{Lines, identity, short_hash};
use crate::snapshot::{Seen, Snapshot};
use crate::{Tag, align};

/// Tags remembered of a path beyond the versions kept, so that none comes to mean another text.
const ISSUED: usize = 256;
/// A text larger than this is kept as edits of the next one, where these are smaller: 4 MiB.
const LARGE: usize = 4 << 20;
/// Ghosts of a path, and bytes of their edits.
const GHOSTS: usize = 64;
const GHOST_BYTES: usize = 64 << 10;
/// Texts of more bytes together are not compared to make a ghost.
const GHOST_TEXT: usize = 2 << 20;
/// Joined edits of more bytes than this are forgotten: 1 MiB.
const MOST_LINK: usize = 1 << 20;

/// The versions of one path.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// In the order recorded, the newest last.
    pub(crate) versions: Vec<Version>,
    /// Versions beyond the limit, as edits of others: good for nothing but to notice that a number
    /// may be meant for one of them.
    pub(crate) ghosts: Vec<Version>,
    links: Vec<Link>,
    issued: VecDeque<Issued>,
    next_id: u64,
    /// Counts uses, to know the last.
    clock: u64,
    /// Lines shown of versions that went for good.
    forgotten: Seen,
}

/// One version: what is kept of its text, and what the model saw of it. It tells no time: a clock
/// would tell nothing that is asked.
#[derive(Debug)]
pub(crate) struct Version {
    id: u64,
    /// 64-bit xxh3 of the text with line ends as LF and without byte order mark: what the tag means.
    identity: u64,
    /// The same of all bytes, and their number.
    exact: (u64, usize),
    /// Number of lines.
    count: usize,
    tag: Tag,
    kept: Kept,
    /// Lines the model knows, carried over from other versions too.
    pub(crate) seen: Seen,
    /// Lines it was shown of this version itself.
    shown: Seen,
    /// Lines that a refusal showed under its tag.
    pub(crate) told: Seen,
    used: u64,
    /// When it was recorded last, in uses.
    pub(crate) recorded: u64,
}

/// What is kept of a text.
#[derive(Debug)]
enum Kept {
    Full(Arc<Snapshot>),
    /// Edits that make it of the version `of`.
    Edits {
        of: u64,
        edits: Vec<TextEdit>,
    },
    /// The lines that were shown, by number; its bytes were taken.
    Lines(Vec<(usize, String)>),
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

impl Kept {
    fn bytes(&self) -> usize {
        match self {
            Self::Full(snapshot) => snapshot.text().len(),
            Self::Edits { edits, .. } => edits.iter().map(|edit| edit.new_text.len() + 32).sum(),
            Self::Lines(_) => 0,
        }
    }
}

impl Version {
    /// What it is called in links.
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
            Kept::Full(snapshot) => **snapshot.text() == *text,
            // Both were told apart by 64 bits of all their bytes.
            _ => self.exact == exact(text),
        }
    }

    /// Bytes of lines that stay although the text was taken.
    fn sparse_bytes(&self) -> usize {
        match &self.kept {
            Kept::Lines(lines) => lines.iter().map(|(_, line)| line.len() + 16).sum(),
            _ => 0,
        }
    }

    /// The text, if `current` with the lines that were shown in the place of its own is the text.
    fn laid_over(&self, current: &Lines) -> Option<Arc<Snapshot>> {
        let Kept::Lines(lines) = &self.kept else { return None };
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

    /// Records a text as the newest version; one that is kept already becomes the newest again.
    pub(crate) fn record(&mut self, text: Arc<str>) -> Tag {
        self.clock += 1;
        if let Some(at) = self.ghosts.iter().position(|ghost| ghost.is_text(&text)) {
            // It is back, and with it what was seen of it.
            let ghost = self.ghosts.remove(at);
            self.versions.push(ghost);
        }
        if let Some(at) = self.versions.iter().position(|version| version.is_text(&text)) {
            let mut version = self.versions.remove(at);
            (version.used, version.recorded) = (self.clock, self.clock);
            if !matches!(version.kept, Kept::Full(_)) {
                version.kept = Kept::Full(Arc::new(Snapshot::new(Lines::new(text), version.tag)));
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
        let kept = Kept::Full(Arc::new(Snapshot::new(lines, tag)));
        let (seen, shown, told) = (Seen::default(), Seen::default(), Seen::default());
        self.versions.push(Version {
            id,
            identity,
            exact,
            count,
            tag,
            kept,
            seen,
            shown,
            told,
            used: self.clock,
            recorded: self.clock,
        });
        tag
    }

    /// The version's text; `None` when it was taken.
    pub(crate) fn snapshot(&self, at: usize) -> Option<Arc<Snapshot>> {
        self.text_of(self.versions.get(at)?)
    }

    /// The text of a version or ghost.
    pub(crate) fn text_of(&self, version: &Version) -> Option<Arc<Snapshot>> {
        match &version.kept {
            Kept::Full(snapshot) => Some(snapshot.clone()),
            Kept::Lines(_) => None,
            Kept::Edits { of, edits } => {
                let of = self.text_of(self.by_id(*of)?)?;
                let text = text::apply(of.text(), edits).ok()?;
                (exact(&text) == version.exact)
                    .then(|| Arc::new(Snapshot::new(Lines::new(text.into()), version.tag)))
            }
        }
    }

    /// The version's text, also where only lines of it stayed and the current text has the rest.
    pub(crate) fn snapshot_over(&self, at: usize, current: &Lines) -> Option<Arc<Snapshot>> {
        self.snapshot(at).or_else(|| self.versions.get(at)?.laid_over(current))
    }

    /// Whether the line of that number was shown of a version whose text is gone.
    pub(crate) fn was_forgotten(&self, line: usize) -> bool {
        let mut all = self.versions.iter().chain(&self.ghosts);
        self.forgotten.contains(line)
            || all.any(|version| version.seen.contains(line) && self.is_lost(version))
    }

    fn is_lost(&self, version: &Version) -> bool {
        match &version.kept {
            Kept::Full(_) => false,
            Kept::Edits { of, .. } => self.by_id(*of).is_none_or(|of| self.is_lost(of)),
            Kept::Lines(_) => true,
        }
    }

    fn by_id(&self, id: u64) -> Option<&Version> {
        self.versions.iter().chain(&self.ghosts).find(|version| version.id == id)
    }

    /// The model refers to a version.
    pub(crate) fn touch(&mut self, at: usize) {
        self.clock += 1;
        if let Some(version) = self.versions.get_mut(at) {
            version.used = self.clock;
        }
    }

    /// Lines of a version are shown.
    pub(crate) fn show(&mut self, at: usize, lines: RangeInclusive<usize>) {
        self.touch(at);
        if let Some(version) = self.versions.get_mut(at) {
            let lines = *lines.start()..=version.count.min(*lines.end());
            version.seen.show(lines.clone());
            version.shown.show(lines);
        }
    }

    /// Keeps large texts as edits of the newest version, where these are smaller.
    pub(crate) fn compact(&mut self) {
        let Some(newest) = self.versions.last() else { return };
        let Kept::Full(base) = &newest.kept else { return };
        let (base, id) = (base.clone(), newest.id);
        for at in 0..self.versions.len() - 1 {
            let Kept::Full(snapshot) = &self.versions[at].kept else { continue };
            if snapshot.text().len() <= LARGE {
                continue;
            }
            let edits = align::edits(base.lines(), snapshot.lines());
            let smaller = edits.iter().map(|edit| edit.new_text.len() + 32).sum::<usize>();
            if smaller < snapshot.text().len() / 2 {
                self.versions[at].kept = Kept::Edits { of: id, edits };
            }
        }
    }

    /// Lets versions go until `most` are left.
    pub(crate) fn limit(&mut self, most: usize) {
        while self.versions.len() > most {
            let mut recent: Vec<u64> = self.versions.iter().map(|version| version.used).collect();
            recent.sort_unstable_by(|a, b| b.cmp(a));
            // Half of the room is for what was used last.
            let recent = recent[(most / 2).max(1) - 1];
            let newest = self.versions.len() - 1;
            let worth = |(at, version): &(usize, &Version)| {
                (*at == newest, version.used >= recent, version.shown.count(), version.used)
            };
            let Some((at, _)) = self.versions.iter().enumerate().min_by_key(worth) else { return };
            self.forget(at);
        }
    }

    /// Takes the bytes of the version that is worth least, or lets it go whole if they are taken
    /// already; the newest stays if `keep_newest`. `false` when there is nothing to take.
    pub(crate) fn shrink(&mut self, keep_newest: bool) -> bool {
        let end = self.versions.len() - usize::from(keep_newest && !self.versions.is_empty());
        let with_bytes = |(_, version): &(usize, &Version)| version.kept.bytes() > 0;
        let worth = |(_, version): &(usize, &Version)| (version.shown.count(), version.used);
        let candidates = self.versions[..end].iter().enumerate();
        let Some((at, version)) = candidates.filter(with_bytes).min_by_key(worth) else { return false };
        let id = version.id;
        // What is kept as edits of it is lost with it.
        self.keep_ghosts(|ghost| !matches!(&ghost.kept, Kept::Edits { of, .. } if *of == id));
        let mut lost = vec![at];
        for (other, version) in self.versions.iter().enumerate() {
            if matches!(&version.kept, Kept::Edits { of, .. } if *of == id) {
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
            version.kept = Kept::Lines(lines);
        }
        true
    }

    /// Lets go one version of which only lines are left; `false` when there is none.
    pub(crate) fn forget_sparse(&mut self) -> bool {
        let sparse = self.versions.iter().position(|version| matches!(version.kept, Kept::Lines(_)));
        sparse.map(|at| self.forget(at)).is_some()
    }

    fn forget(&mut self, at: usize) {
        let edits = self.as_edits(at);
        let mut version = self.versions.remove(at);
        match edits {
            Some(kept) => {
                // What is kept as edits of it needs it no less than before.
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

    /// The version as edits of another that stays: of what our own edit made of it, or of the newest.
    fn as_edits(&self, at: usize) -> Option<Kept> {
        let version = &self.versions[at];
        if let Kept::Edits { of, edits } = &version.kept {
            return Some(Kept::Edits { of: *of, edits: edits.clone() });
        }
        let Kept::Full(snapshot) = &version.kept else { return None };
        let stands_on_it = |other: &Version| self.stands_on(other, version.id);
        let own = self.links.iter().rev().find(|link| {
            link.from == version.id
                && self.versions.iter().any(|other| other.id == link.to && !stands_on_it(other))
        });
        if let Some(link) = own {
            return Some(Kept::Edits {
                of: link.to,
                edits: text::invert(snapshot.text(), &link.edits).ok()?,
            });
        }
        let newest =
            self.versions.iter().rev().find(|other| other.id != version.id && !stands_on_it(other))?;
        let Kept::Full(base) = &newest.kept else { return None };
        if base.text().len() + snapshot.text().len() > GHOST_TEXT {
            return None;
        }
        Some(Kept::Edits { of: newest.id, edits: align::edits(base.lines(), snapshot.lines()) })
    }

    /// Whether a version is kept as edits of the one called `base`, or of one that is, and so on: its
    /// text must not come to need itself.
    fn stands_on(&self, version: &Version, base: u64) -> bool {
        match &version.kept {
            Kept::Edits { of, .. } => {
                *of == base || self.by_id(*of).is_some_and(|next| self.stands_on(next, base))
            }
            _ => false,
        }
    }

    fn keep_ghosts(&mut self, keep: impl Fn(&Version) -> bool) {
        for ghost in self.ghosts.extract_if(.., |ghost| !keep(ghost)) {
            self.forgotten.show_all(&ghost.seen);
        }
    }

    /// A version that is in no list any more goes for good.
    fn drop_version(&mut self, version: &Version) {
        self.forgotten.show_all(&version.seen);
        // What is kept as edits of it must stand by itself, or on what it stands on.
        let base_len = match &version.kept {
            Kept::Edits { of, .. } => self.by_id(*of).map(|base| base.exact.1),
            _ => None,
        };
        for other in self.versions.iter_mut().chain(&mut self.ghosts) {
            let Kept::Edits { of, edits } = &other.kept else { continue };
            if *of != version.id {
                continue;
            }
            let kept = match &version.kept {
                Kept::Edits { of, edits: first } => base_len
                    .and_then(|len| chain::join(len, first, edits))
                    .map(|edits| Kept::Edits { of: *of, edits }),
                Kept::Full(snapshot) => text::apply(snapshot.text(), edits)
                    .ok()
                    .map(|text| Kept::Full(Arc::new(Snapshot::new(Lines::new(text.into()), other.tag)))),
                Kept::Lines(_) => None,
            };
            other.kept = kept.unwrap_or(Kept::Lines(Vec::new()));
        }
        // A ghost takes no room for a whole text.
        self.keep_ghosts(|ghost| matches!(ghost.kept, Kept::Edits { .. }));
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

    /// Remembers that our own edits lead from the text `before` to the version at `to`.
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

    /// What is remembered when the path itself is let go.
    pub(crate) fn let_go(mut self) -> Gone {
        for version in self.versions.iter().chain(&self.ghosts) {
            self.forgotten.show_all(&version.seen);
        }
        Gone { issued: self.issued, forgotten: self.forgotten }
    }

    pub(crate) fn again(gone: Gone) -> Self {
        Self { issued: gone.issued, forgotten: gone.forgotten, ..Self::default() }
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
            .rposition(|version| named(version) && version.is_text(current))
            .or_else(|| self.versions.iter().rposition(named))
    }

    /// Our own edits from one version to another, a list per step; `None` when we did not make it.
    pub(crate) fn steps(&self, from: usize, to: usize) -> Option<Vec<&[TextEdit]>> {
        self.steps_between(self.versions[from].id, self.versions[to].id)
    }

    /// The same between versions or ghosts, by their ids.
    pub(crate) fn steps_between(&self, from: u64, to: u64) -> Option<Vec<&[TextEdit]>> {
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
}

/// What is remembered of a path that was let go: the tags that it gave out, and the numbers of lines
/// that were shown.
#[derive(Debug)]
pub(crate) struct Gone {
    issued: VecDeque<Issued>,
    forgotten: Seen,
}

pub(crate) fn carry_seen(seen: &Seen, old: &Lines, chain: &Chain, lines: &Lines, new: &mut Version) {
    for range in seen.shown() {
        for line in range.clone() {
            if let Some(at) = chain.line(old, lines, line, line) {
                new.seen.show(at..=at);
            }
        }
    }
    for fold in seen.folds() {
        if let Some(at) = chain.line(old, lines, *fold.start(), *fold.end()) {
            new.seen.fold(at..=at + (fold.end() - fold.start()));
        }
    }
}

/// Lines of the new text that the edits wrote whole.
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
