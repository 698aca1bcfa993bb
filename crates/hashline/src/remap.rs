//! Where a hunk's lines are now, proven by the lines that did not change.
//!
//! A hunk has a place only if the lines it touches stand unchanged in one run, with enough
//! unchanged lines around them to tell them from their twins. Nothing is looked for by likeness,
//! and no place is chosen among several.

use crate::Lines;
use crate::align::{Alignment, Fate};
use crate::surgery::Place;

/// What was found out about a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Its place in the new text.
    At(Place),
    /// Its lines are there, but the blanks at their ends changed.
    Blanks,
    /// Nothing that proves a place.
    Nowhere,
}

/// Both texts and what became of the old one's lines.
pub(crate) struct Remap<'a> {
    pub old: &'a Lines,
    pub new: &'a Lines,
    pub alignment: Alignment,
    /// Of the lines without their indentation; made when needed.
    unindented: Option<Alignment>,
    /// Comparisons of lines still allowed, so that no text takes more than its length deserves.
    pub work: usize,
}

/// Comparisons of lines allowed per line of both texts.
const WORK: usize = 16;

impl<'a> Remap<'a> {
    pub(crate) fn new(old: &'a Lines, new: &'a Lines) -> Self {
        let alignment = Alignment::new(old, new);
        Self { old, new, alignment, unindented: None, work: 10_000 + WORK * (old.count() + new.count()) }
    }

    /// The place of a hunk now.
    pub(crate) fn find(&mut self, place: Place) -> Found {
        match self.proven(place) {
            Found::At(found) if !self.stays_in_its_block(place, found) => Found::Nowhere,
            found => found,
        }
    }

    fn proven(&mut self, place: Place) -> Found {
        match place {
            Place::Lines { first, last } => self.lines(first, last),
            Place::Before(line) => self.point(line - 1, false, place),
            Place::After(line) => self.point(line, true, place),
            Place::Head => self.point(0, true, place),
            Place::End => self.point(self.old.count(), false, place),
        }
    }

    /// Where a line is now. The line before the first stands before the first, and so at the end.
    pub(crate) fn fate(&mut self, near: (usize, usize), line: usize) -> Fate {
        if line == 0 {
            return Fate::At(0);
        }
        if line == self.old.count() + 1 {
            return Fate::At(self.new.count() + 1);
        }
        self.alignment.fate(near, line)
    }

    /// Whether lines are still those of their block. Where a block was wrapped and indented, its own
    /// brace is not what it was, and the brace of what wraps it may stand where its own stood; so
    /// may a `return;`. So if the nearest telling line on either side vanished, the texts without
    /// indentation must say the same of lines that tell nothing by themselves, or have a twin there.
    /// A blank line closes nothing: what is inserted beside one has its place by the telling line on
    /// its other side.
    pub(crate) fn stays_in_its_block(&mut self, place: Place, found: Place) -> bool {
        let (Some((first, last)), Some((start, end))) = (place.lines(), found.lines()) else { return true };
        let near = (first, last);
        let old = self.old;
        let telling = |line: &usize| is_telling(old.content(*line));
        let tells = (first..=last).any(|line| telling(&line));
        if let Some((other, beside)) = across(place, found)
            && old.content(first).trim().is_empty()
            && (1..=old.count()).contains(&other)
            && telling(&other)
            && self.fate(near, other) == Fate::At(beside)
        {
            return true;
        }
        let above = (1..first).rev().find(telling).map(|line| (line, (start + line).checked_sub(first)));
        let below = (last + 1..=old.count()).find(telling).map(|line| (line, Some(end + (line - last))));
        let around = above.into_iter().chain(below);
        let vanished: Vec<_> =
            around.filter(|(line, _)| !matches!(self.fate(near, *line), Fate::At(_))).collect();
        if vanished.is_empty() {
            return true;
        }
        let new = self.new;
        let unindented = self.unindented.get_or_insert_with(|| Alignment::unindented(old, new));
        if tells && !is_twice(unindented, first, last, start, &mut self.work) {
            return true;
        }
        unindented.fate(near, first) == Fate::At(start)
            && unindented.fate(near, last) == Fate::At(end)
            && vanished.iter().all(|(line, beside)| match unindented.fate(near, *line) {
                Fate::At(at) => Some(at) == *beside,
                Fate::Gone => true,
                Fate::Unsure => false,
            })
    }

    fn lines(&mut self, first: usize, last: usize) -> Found {
        let near = (first, last);
        let (Fate::At(start), Fate::At(end)) = (self.fate(near, first), self.fate(near, last)) else {
            return Found::Nowhere;
        };
        if end.wrapping_sub(start) != last - first || !self.alike(first..=last, start) {
            return Found::Nowhere;
        }
        let above = self.fate(near, first - 1) == Fate::At(start - 1);
        let below = self.fate(near, last + 1) == Fate::At(end + 1);
        let enough = match (above, below) {
            (true, true) => true,
            (false, false) => false,
            _ => !self.has_twin(first, last, start),
        };
        if !enough || self.run_has_twin(first, last, start) {
            return Found::Nowhere;
        }
        if (first..=last).any(|line| self.old.content(line) != self.new.content(line - first + start)) {
            return Found::Blanks;
        }
        Found::At(Place::Lines { first: start, last: end })
    }

    /// The point after line `gap`; `upper`: it is the line above that the hunk names.
    fn point(&mut self, gap: usize, upper: bool, place: Place) -> Found {
        let near = (gap.max(1), (gap + 1).min(self.old.count()));
        let (named, other) = if upper { (gap, gap + 1) } else { (gap + 1, gap) };
        let Fate::At(at) = self.fate(near, named) else { return Found::Nowhere };
        let beside = if upper { at + 1 } else { at.wrapping_sub(1) };
        let is_line = (1..=self.old.count()).contains(&named);
        let other = self.fate(near, other);
        let enough = match other {
            Fate::At(other) if other == beside => true,
            // It goes beside the line that it names, whatever came between, if there is no doubt
            // which line that is. The ends of the file are no lines.
            Fate::At(_) | Fate::Unsure => is_line && !self.has_twin(named, named, at),
            Fate::Gone => !is_line || !self.has_twin(named, named, at),
        };
        // An end of the file has no twin.
        let at_an_end = (gap == 0 || gap == self.old.count()) && other == Fate::At(beside);
        if !enough || (is_line && !at_an_end && self.run_has_twin(named, named, at)) {
            return Found::Nowhere;
        }
        if is_line && self.old.content(named) != self.new.content(at) {
            return Found::Blanks;
        }
        Found::At(match place {
            Place::Before(_) => Place::Before(at),
            Place::After(_) => Place::After(at),
            place => place,
        })
    }

    /// Whether old lines and as many new ones from `start` are alike, blanks at their ends aside.
    fn alike(&mut self, old: std::ops::RangeInclusive<usize>, start: usize) -> bool {
        let count = old.end() + 1 - old.start();
        let (old_lines, new_lines) = self.alignment.lines();
        let old = old_lines.get(old.start() - 1..*old.end());
        let new = new_lines.get(start - 1..start - 1 + count);
        old.is_some() && old == new
    }

    /// Whether the lines occur a second time in either text.
    pub(crate) fn has_twin(&mut self, first: usize, last: usize, start: usize) -> bool {
        is_twice(&self.alignment, first, last, start, &mut self.work)
    }

    /// Whether the whole unchanged run around the lines occurs a second time in the new text: then
    /// no context, however wide, tells the one from the other.
    pub(crate) fn run_has_twin(&mut self, first: usize, last: usize, start: usize) -> bool {
        let (old, new) = self.alignment.lines();
        let (from, to) = run(old, new, first - 1, last, start - 1, &mut self.work);
        let place = start - 1 - (first - 1 - from);
        occurs_elsewhere(new, &old[from..to], place, &mut self.work)
    }
}

/// The line across the gap from the one that an insertion names, and where it stands now if nothing
/// came between; `None` for what is no insertion.
pub(crate) fn across(place: Place, found: Place) -> Option<(usize, usize)> {
    match (place, found) {
        (Place::After(was), Place::After(now)) => Some((was + 1, now + 1)),
        (Place::Before(was), Place::Before(now)) => Some((was - 1, now - 1)),
        _ => None,
    }
}

/// Whether a line holds more than punctuation and the words that close or part blocks.
fn is_telling(line: &str) -> bool {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    words.any(|word| !CLOSING.contains(&word))
}

/// Words that stand between blocks or at their ends, in any language.
const CLOSING: [&str; 14] = [
    "begin", "catch", "do", "done", "else", "end", "endif", "ensure", "esac", "fi", "finally", "od", "then",
    "try",
];

/// How far the lines `from..to` (0-based) and those around them are the same as from `start` on.
fn run(old: &[u64], new: &[u64], from: usize, to: usize, start: usize, work: &mut usize) -> (usize, usize) {
    let above = old[..from].iter().rev().zip(new[..start].iter().rev());
    let above = above.take_while(|(a, b)| a == b).take(MOST_CONTEXT).count();
    let end = start + (to - from);
    let below = old[to..].iter().zip(&new[end..]).take_while(|(a, b)| a == b).take(MOST_CONTEXT).count();
    *work = work.saturating_sub(above + below);
    (from - above, to + below)
}

/// Lines of context looked at on each side of a hunk.
const MOST_CONTEXT: usize = 256;

/// Whether lines occur a second time in either of the texts that were compared.
fn is_twice(alignment: &Alignment, first: usize, last: usize, start: usize, work: &mut usize) -> bool {
    let (old, new) = alignment.lines();
    let lines = &old[first - 1..last];
    occurs_elsewhere(old, lines, first - 1, work) || occurs_elsewhere(new, lines, start - 1, work)
}

/// Whether `lines` occur in `text` at another place than `here`; yes if it takes too long to say.
fn occurs_elsewhere(text: &[u64], lines: &[u64], here: usize, work: &mut usize) -> bool {
    let Some(first) = lines.first() else { return true };
    if lines.len() > text.len() {
        return false;
    }
    for at in 0..=text.len() - lines.len() {
        if text[at] != *first || at == here {
            continue;
        }
        let same = text[at..].iter().zip(lines).take_while(|(a, b)| a == b).count();
        if same == lines.len() {
            return true;
        }
        *work = work.saturating_sub(same);
        if *work == 0 {
            return true;
        }
    }
    false
}
