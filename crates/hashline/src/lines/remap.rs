//! The current place of a hunk's lines, proven by unchanged lines.
//!
//! A hunk has a place only if its lines are unchanged in one run, with enough unchanged lines around them to
//! distinguish them from their twins. Nothing is matched by similarity, and no place is picked among several.

use std::ops::RangeInclusive;

use crate::Lines;
use crate::lines::align::{Alignment, Fate};
use crate::lines::line_edits::HunkPlace;
use crate::lines::only_closes;

/// The result of the search for a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Located {
    /// The hunk has this place in the new text.
    At(HunkPlace),
    /// The hunk's lines exist, but their trailing blanks changed.
    Blanks,
    /// No evidence proves a place.
    Nowhere,
}

/// Maps lines of one text (from 1, both ends included) to another.
///
/// Returns `None` if they changed, or if no unchanged lines around them distinguish them from their twins. Takes
/// time proportional to both texts.
pub fn lines_now(old: &Lines, new: &Lines, lines: RangeInclusive<usize>) -> Option<RangeInclusive<usize>> {
    let (first, last) = lines.into_inner();
    if first == 0 || first > last || last > old.count() {
        return None;
    }
    match Remap::new(old, new).find(HunkPlace::Lines { first, last }) {
        Located::At(HunkPlace::Lines { first, last }) => Some(first..=last),
        _ => None,
    }
}

/// Two texts and the fates of the old text's lines.
pub(crate) struct Remap<'a> {
    pub old: &'a Lines,
    pub new: &'a Lines,
    pub alignment: Alignment,
    /// Alignment of the lines without indentation, computed on first use.
    unindented: Option<Alignment>,
    /// Number of line comparisons left, which bounds the work by the texts' length.
    pub work: usize,
}

/// Number of line comparisons allowed per line of both texts.
const WORK: usize = 16;
/// Number of additional line comparisons allowed for each hunk.
const HUNK_WORK: usize = 10_000;

impl<'a> Remap<'a> {
    pub(crate) fn new(old: &'a Lines, new: &'a Lines) -> Self {
        let alignment = Alignment::new(old, new);
        Self { old, new, alignment, unindented: None, work: WORK * (old.count() + new.count()) }
    }

    /// Locates a hunk in the new text.
    pub(crate) fn find(&mut self, place: HunkPlace) -> Located {
        self.work += HUNK_WORK;
        match self.proven(place) {
            Located::At(found) if !self.stays_in_its_block(place, found) => Located::Nowhere,
            found => found,
        }
    }

    fn proven(&mut self, place: HunkPlace) -> Located {
        match place {
            HunkPlace::Lines { first, last } => self.lines(first, last),
            HunkPlace::Before(line) => self.point(line - 1, false, place),
            HunkPlace::After(line) => self.point(line, true, place),
            HunkPlace::Head => self.point(0, true, place),
            HunkPlace::End => self.point(self.old.count(), false, place),
        }
    }

    /// The fate of a line. Lines 0 and `count + 1` stay at the ends.
    pub(crate) fn fate(&mut self, near: (usize, usize), line: usize) -> Fate {
        if line == 0 {
            return Fate::At(0);
        }
        if line == self.old.count() + 1 {
            return Fate::At(self.new.count() + 1);
        }
        self.alignment.fate(near, line)
    }

    /// Whether lines are still in their block.
    ///
    /// Where a block was wrapped and indented, its own brace changed, and the brace of the wrapper may be at
    /// the old place of the inner one; so may a `return;`. So if the nearest distinctive line on either side
    /// vanished, the texts without indentation must agree about lines that are not distinctive, or have a
    /// twin there. A blank line closes nothing: an insertion beside one is placed by the distinctive line on
    /// its other side.
    pub(crate) fn stays_in_its_block(&mut self, place: HunkPlace, found: HunkPlace) -> bool {
        let (Some((first, last)), Some((start, end))) = (place.lines(), found.lines()) else { return true };
        let near = (first, last);
        let old = self.old;
        let distinctive = |line: &usize| is_distinctive_line(old.content(*line));
        let is_distinctive = (first..=last).any(|line| distinctive(&line));
        if let Some((other, beside)) = across(place, found)
            && old.content(first).trim().is_empty()
            && (1..=old.count()).contains(&other)
            && distinctive(&other)
            && self.fate(near, other) == Fate::At(beside)
        {
            return true;
        }
        let above = (1..first).rev().find(distinctive).map(|line| (line, (start + line).checked_sub(first)));
        let below = (last + 1..=old.count()).find(distinctive).map(|line| (line, Some(end + (line - last))));
        let vanished = above.into_iter().chain(below).filter(|(line, beside)| match self.fate(near, *line) {
            Fate::At(_) => false,
            // The line has a twin; if it is at its own place, no indentation between changed.
            Fate::Unsure => !self.is_in_place_with((first, last), start, *line, *beside),
            Fate::Gone => true,
        });
        let vanished: Vec<_> = vanished.collect();
        if vanished.is_empty() {
            return true;
        }
        // A closing line belongs to the block above it, and is untouched if that is.
        let closes = is_distinctive
            || (first..=last)
                .map(|line| old.content(line))
                .all(|line| line.trim().is_empty() || only_closes(line));
        let held = closes
            && above.is_some_and(|(line, beside)| {
                matches!(self.fate(near, line), Fate::At(at) if Some(at) == beside)
                    && self.is_in_place_with((first, last), start, line, beside)
            });
        let new = self.new;
        let unindented = self.unindented.get_or_insert_with(|| Alignment::unindented(old, new));
        if is_distinctive && !is_twice(unindented, first, last, start, &mut self.work) {
            return true;
        }
        unindented.fate(near, first) == Fate::At(start)
            && unindented.fate(near, last) == Fate::At(end)
            && vanished.iter().all(|(line, beside)| match unindented.fate(near, *line) {
                Fate::At(at) => Some(at) == *beside || held && *line > last && Some(at) > *beside,
                Fate::Gone => true,
                Fate::Unsure => false,
            })
    }

    /// Whether all lines from the hunk's (now at `start`) to `line` are in place.
    ///
    /// If so, `line` is at `place`.
    fn is_in_place_with(
        &self,
        (first, last): (usize, usize),
        start: usize,
        line: usize,
        place: Option<usize>,
    ) -> bool {
        let (from, to, now) = match place {
            Some(place) if line < first => (line, last, place),
            Some(_) => (first, line, start),
            None => return false,
        };
        now > 0 && self.alike(from..=to, now)
    }

    fn lines(&mut self, first: usize, last: usize) -> Located {
        let near = (first, last);
        let (Fate::At(start), Fate::At(end)) = (self.fate(near, first), self.fate(near, last)) else {
            return Located::Nowhere;
        };
        if end.wrapping_sub(start) != last - first || !self.alike(first..=last, start) {
            return Located::Nowhere;
        }
        let above = self.fate(near, first - 1) == Fate::At(start - 1);
        let below = self.fate(near, last + 1) == Fate::At(end + 1);
        let enough = match (above, below) {
            (true, true) => true,
            (false, false) => false,
            _ => !self.has_twin(first, last, start),
        };
        if !enough
            || (self.run_has_twin(first, last, start)
                && !(above && below && self.is_alone(first - 1, last + 1, start)))
        {
            return Located::Nowhere;
        }
        if self.is_elsewhere(first, last, start) {
            return Located::Nowhere;
        }
        if (first..=last).any(|line| self.old.content(line) != self.new.content(line - first + start)) {
            return Located::Blanks;
        }
        Located::At(HunkPlace::Lines { first: start, last: end })
    }

    /// Locates the point after line `gap`; `upper` if the hunk names the line above it.
    fn point(&mut self, gap: usize, upper: bool, place: HunkPlace) -> Located {
        let near = (gap.max(1), (gap + 1).min(self.old.count()));
        let (named, other) = if upper { (gap, gap + 1) } else { (gap + 1, gap) };
        let Fate::At(at) = self.fate(near, named) else { return Located::Nowhere };
        let beside = if upper { at + 1 } else { at.wrapping_sub(1) };
        let is_line = (1..=self.old.count()).contains(&named);
        let other = self.fate(near, other);
        let enough = match other {
            Fate::At(other) if other == beside => true,
            // The insertion stays next to the line it names, whatever was inserted between, if that
            // line is unambiguous. The ends of the file are not lines.
            Fate::At(_) | Fate::Unsure => is_line && !self.has_twin(named, named, at),
            // A line whose neighbours were rewritten on both sides proves no place beside it.
            Fate::Gone => {
                let far = if upper { gap.saturating_sub(1) } else { gap + 2 };
                !is_line || self.fate(near, far) != Fate::Gone && !self.has_twin(named, named, at)
            }
        };
        // An end of the file has no twin.
        let at_an_end = (gap == 0 || gap == self.old.count()) && other == Fate::At(beside);
        let beside_other = other == Fate::At(beside);
        if !enough
            || (is_line
                && !at_an_end
                && self.run_has_twin(named, named, at)
                && !(beside_other && self.is_alone(gap, gap + 1, if upper { at } else { beside })))
        {
            return Located::Nowhere;
        }
        if is_line && self.is_elsewhere(named, named, at) {
            return Located::Nowhere;
        }
        if is_line && self.old.content(named) != self.new.content(at) {
            return Located::Blanks;
        }
        Located::At(match place {
            HunkPlace::Before(_) => HunkPlace::Before(at),
            HunkPlace::After(_) => HunkPlace::After(at),
            place => place,
        })
    }

    /// Whether old lines equal as many new ones from `start`, ignoring trailing blanks.
    fn alike(&self, old: std::ops::RangeInclusive<usize>, start: usize) -> bool {
        let count = old.end() + 1 - old.start();
        let (old_lines, new_lines) = self.alignment.lines();
        let old = old_lines.get(old.start() - 1..*old.end());
        let new = new_lines.get(start - 1..start - 1 + count);
        old.is_some() && old == new
    }

    /// Whether the lines occur twice in either text.
    pub(crate) fn has_twin(&mut self, first: usize, last: usize, start: usize) -> bool {
        is_twice(&self.alignment, first, last, start, &mut self.work)
    }

    /// Whether the whole unchanged run around the lines occurs twice in the new text.
    ///
    /// Then no context, however wide, distinguishes the two.
    pub(crate) fn run_has_twin(&mut self, first: usize, last: usize, start: usize) -> bool {
        let (old, new) = self.alignment.lines();
        let (from, to) = run(old, new, first - 1, last, start - 1, &mut self.work);
        let place = start - 1 - (first - 1 - from);
        occurs_elsewhere(new, &old[from..to], place, &mut self.work)
    }

    /// Whether the lines may have moved relative to the nearest unique line.
    ///
    /// They may if the lines, with all lines up to the nearest line that occurs once in each text,
    /// also occur at another place in the new text. Then that line moved, or lines like these were
    /// added and removed. Only the history decides, however much cheaper one of both scripts is.
    pub(crate) fn is_elsewhere(&mut self, first: usize, last: usize, start: usize) -> bool {
        let (old, new) = self.alignment.lines();
        if !occurs_elsewhere(new, &old[first - 1..last], start - 1, &mut self.work) {
            return false;
        }
        let [above, below] = self.alignment.beside_once(first - 1, last);
        let (old, new) = self.alignment.lines();
        let stand = |from: usize, to: usize, at: usize| new.get(at..at + (to - from)) == Some(&old[from..to]);
        let is_other = |line: usize, at: usize| at + first != line + start;
        above.is_some_and(|(line, at)| is_other(line, at) && stand(line, last, at))
            || below.is_some_and(|(line, at)| {
                let from = at.checked_sub(line - (first - 1));
                is_other(line, at) && from.is_some_and(|from| stand(first - 1, line + 1, from))
            })
    }

    /// Whether the order of lines with twins identifies them.
    ///
    /// Their first line is now at `place`, between lines that occur once in each text and keep their order
    /// whatever moved. Between these neither text has twins of them, and their total number is unchanged.
    fn is_alone(&mut self, from: usize, to: usize, place: usize) -> bool {
        let (from, place) = (from.max(1), place.max(1));
        let to = to.min(self.old.count());
        let [above, below] = self.alignment.beside_cuts(from - 1, to);
        let (old, new) = self.alignment.lines();
        let lines = &old[from - 1..to];
        let (old_from, new_from) = above.map_or((0, 0), |(old, new)| (old + 1, new + 1));
        let (old_to, new_to) = below.unwrap_or((old.len(), new.len()));
        let inside = new_from < place && place - 1 + lines.len() <= new_to;
        let work = &mut self.work;
        inside
            && count(&old[old_from..old_to], lines, work) == Some(1)
            && count(&new[new_from..new_to], lines, work) == Some(1)
            && count(old, lines, work).is_some_and(|before| count(new, lines, work) == Some(before))
    }
}

/// The line on the other side of the gap from the one that an insertion names.
///
/// The result has its current place if no line was inserted between; `None` for other hunks.
pub(crate) fn across(place: HunkPlace, found: HunkPlace) -> Option<(usize, usize)> {
    match (place, found) {
        (HunkPlace::After(was), HunkPlace::After(now)) => Some((was + 1, now + 1)),
        (HunkPlace::Before(was), HunkPlace::Before(now)) => Some((was - 1, now - 1)),
        _ => None,
    }
}

/// Whether a line has more than punctuation and words that close blocks.
fn is_distinctive_line(line: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    words.any(|word| !CLOSING.contains(&word))
}

/// Words between blocks or at their ends, in any language.
const CLOSING: [&str; 14] = [
    "begin", "catch", "do", "done", "else", "end", "endif", "ensure", "esac", "fi", "finally", "od", "then",
    "try",
];

/// Number of lines around `from..to` (0-based) that equal those around `start`.
fn run(old: &[u64], new: &[u64], from: usize, to: usize, start: usize, work: &mut usize) -> (usize, usize) {
    let above = old[..from].iter().rev().zip(new[..start].iter().rev());
    let above = above.take_while(|(a, b)| a == b).take(MOST_CONTEXT).count();
    let end = start + (to - from);
    let below = old[to..].iter().zip(&new[end..]).take_while(|(a, b)| a == b).take(MOST_CONTEXT).count();
    *work = work.saturating_sub(above + below);
    (from - above, to + below)
}

/// Maximum number of lines of context compared on each side of a hunk.
const MOST_CONTEXT: usize = 256;

/// Whether lines occur twice in either of the compared texts.
fn is_twice(alignment: &Alignment, first: usize, last: usize, start: usize, work: &mut usize) -> bool {
    let (old, new) = alignment.lines();
    let lines = &old[first - 1..last];
    occurs_elsewhere(old, lines, first - 1, work) || occurs_elsewhere(new, lines, start - 1, work)
}

/// Whether `lines` occur in `text` elsewhere; true if the work runs out.
fn occurs_elsewhere(text: &[u64], lines: &[u64], here: usize, work: &mut usize) -> bool {
    Occurrences { text, lines, at: 0, work }.any(|place| place != Some(here))
}

/// Number of occurrences of `lines` in `text`; `None` if it is too much work.
fn count(text: &[u64], lines: &[u64], work: &mut usize) -> Option<usize> {
    Occurrences { text, lines, at: 0, work }.try_fold(0, |count, place| place.map(|_| count + 1))
}

/// The positions at which `lines` (not empty) occur in `text`.
struct Occurrences<'a> {
    text: &'a [u64],
    lines: &'a [u64],
    at: usize,
    work: &'a mut usize,
}

impl Iterator for Occurrences<'_> {
    /// `None` if the work exceeds its limit.
    type Item = Option<usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(first) = self.lines.first() else { return Some(None) };
        let end = (self.text.len() + 1).checked_sub(self.lines.len())?;
        while self.at < end {
            let at = self.at + self.text[self.at..end].iter().position(|line| line == first)?;
            self.at = at + 1;
            let same = self.text[at..].iter().zip(self.lines).take_while(|(a, b)| a == b).count();
            if same == self.lines.len() {
                return Some(Some(at));
            }
            *self.work = self.work.saturating_sub(same);
            if *self.work == 0 {
                return Some(None);
            }
        }
        None
    }
}
