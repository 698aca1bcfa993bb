//! Alignment of the lines of two texts, as far as the texts prove it.
//!
//! A diff picks one of the shortest edit scripts that turn one text into the other. Where lines have twins
//! there are several such scripts, and they disagree. So none is picked: a line has a place only if *every*
//! shortest script keeps it, all at the same place. The scripts are found with the furthest-reaching paths of
//! Myers' algorithm from both ends (E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986).
//! Work is bounded by a multiple of the number of lines; texts too different for that are cut at lines that
//! occur once in each and keep their order in every longest common sequence of such lines. A line that cannot
//! be decided within the bound has no place.
//!
//! Lines are compared without trailing blanks; callers that need a line untouched compare it themselves.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use text::TextEdit;
use xxhash_rust::xxh3::xxh3_64;

use crate::Lines;

/// The fate of a line of the old text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Every shortest script keeps it, as this line of the new text.
    At(usize),
    /// No shortest script keeps it.
    Gone,
    /// The scripts disagree, or deciding would take too much work.
    Unsure,
}

/// Two texts as lines to compare.
#[derive(Debug)]
pub(crate) struct Alignment {
    old: Vec<u64>,
    new: Vec<u64>,
    whole: Option<Passes>,
    /// Unique lines, computed on first use.
    landmarks: Option<Landmarks>,
    /// The last piece between cuts that was aligned.
    piece: Option<Piece>,
    /// Fates computed so far.
    known: HashMap<usize, Fate>,
}

/// Lines that occur once in each text, as pairs of 0-based indexes in old order.
#[derive(Debug)]
struct Landmarks {
    all: Vec<(usize, usize)>,
    /// The pairs that cut the texts: every longest common sequence contains them.
    cuts: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Piece {
    /// The lines for which it was cut.
    near: (usize, usize),
    old: Range<usize>,
    new: Range<usize>,
    passes: Option<Passes>,
}

/// Maximum number of steps per line of both texts.
const STEPS: usize = 8;
/// Number of steps that are always allowed.
const FREE: usize = 30_000;
/// Minimum number of lines between a place and the nearest cut.
const MARGIN: usize = 3;

impl Alignment {
    pub(crate) fn new(old: &Lines, new: &Lines) -> Self {
        Self::of(hashes(old, false), hashes(new, false))
    }

    /// Aligns the lines without their indentation.
    pub(crate) fn unindented(old: &Lines, new: &Lines) -> Self {
        Self::of(hashes(old, true), hashes(new, true))
    }

    fn of(old: Vec<u64>, new: Vec<u64>) -> Self {
        let whole = Passes::new(&old, &new, budget(&old, &new));
        Self { old, new, whole, landmarks: None, piece: None, known: HashMap::new() }
    }

    /// The fate of one of several lines that are close to each other.
    ///
    /// It is valid for the lines `first - 1` to `last + 1` and all lines between the same cuts.
    pub(crate) fn fate(&mut self, near: (usize, usize), line: usize) -> Fate {
        if line == 0 || line > self.old.len() {
            return Fate::Unsure;
        }
        if let Some(passes) = &self.whole {
            return *self.known.entry(line).or_insert_with(|| passes.fate(&self.old, &self.new, line));
        }
        self.cut(near);
        let Some(Piece { old, new, passes: Some(passes), .. }) = &self.piece else { return Fate::Unsure };
        if !old.contains(&(line - 1)) {
            return Fate::Unsure;
        }
        let fate = passes.fate(&self.old[old.clone()], &self.new[new.clone()], line - old.start);
        match fate {
            Fate::At(at) => Fate::At(at + new.start),
            fate => fate,
        }
    }

    /// Hashes of the old and the new lines, in order.
    pub(crate) fn lines(&self) -> (&[u64], &[u64]) {
        (&self.old, &self.new)
    }

    /// The nearest lines around old lines `from..to` that occur once in each text.
    ///
    /// Lines are 0-based; each is paired with its place in the new text.
    pub(crate) fn beside_once(&mut self, from: usize, to: usize) -> [Option<(usize, usize)>; 2] {
        nearest(&self.landmarks().all, from, to)
    }

    /// Returns [`beside_once`](Self::beside_once) for lines that keep their order.
    ///
    /// They keep it whatever else moved.
    pub(crate) fn beside_cuts(&mut self, from: usize, to: usize) -> [Option<(usize, usize)>; 2] {
        nearest(&self.landmarks().cuts, from, to)
    }

    fn landmarks(&mut self) -> &Landmarks {
        self.landmarks.get_or_insert_with(|| landmarks(&self.old, &self.new))
    }

    /// Aligns the piece around the lines, between the nearest cuts that leave a margin.
    ///
    /// If that is everything or too much work, the margin is one line.
    fn cut(&mut self, near: (usize, usize)) {
        let (first, last) = near;
        let (from, to) = (first.saturating_sub(MARGIN), last + MARGIN);
        let fits = |piece: &Piece| {
            piece.near == near
                || (piece.old.start == 0 || piece.old.start < from)
                    && (piece.old.end == self.old.len() || piece.old.end > to)
        };
        if self.piece.as_ref().is_some_and(fits) {
            return;
        }
        let (old, new) = (&self.old, &self.new);
        let Landmarks { cuts, .. } = self.landmarks.get_or_insert_with(|| landmarks(old, new));
        let between = |margin: usize| {
            let above = cuts.partition_point(|(line, _)| line + 1 < first.saturating_sub(margin));
            let below = cuts.partition_point(|(line, _)| *line <= last + margin);
            let (old_start, new_start) = above.checked_sub(1).map_or((0, 0), |at| cuts[at]);
            let (old_end, new_end) =
                cuts.get(below).map_or((old.len(), new.len()), |(old, new)| (old + 1, new + 1));
            (old_start..old_end, new_start..new_end)
        };
        let is_part = |(a, b): &(Range<usize>, Range<usize>)| a.len() < old.len() || b.len() < new.len();
        let found = [MARGIN, 1].map(between).into_iter().filter(is_part).find_map(|(a, b)| {
            let passes = Passes::new(&old[a.clone()], &new[b.clone()], budget(old, new))?;
            Some((a, b, passes))
        });
        // A piece without passes is empty, so that the next place is tried again.
        let (old, new, passes) = found.map_or((0..0, 0..0, None), |(a, b, passes)| (a, b, Some(passes)));
        self.piece = Some(Piece { near, old, new, passes });
    }
}

/// Edits of whole lines that turn `old` into `new`, between unique lines.
///
/// Takes time proportional to the texts; the edits are not minimal.
pub(crate) fn edits(old: &Lines, new: &Lines) -> Vec<TextEdit> {
    let whole = |lines: &Lines| -> Vec<u64> {
        (1..=lines.count()).map(|line| xxh3_64(lines.text()[lines.range(line)].as_bytes())).collect()
    };
    let (old_lines, new_lines) = (whole(old), whole(new));
    let same = |a: usize, b: usize| old.text()[old.range(a + 1)] == new.text()[new.range(b + 1)];
    let (n, m) = (old.count(), new.count());
    let mut edits = Vec::new();
    // The first unprocessed line of each text; bytes before the first line belong to it.
    let (mut i, mut j) = (0, 0);
    let start = |lines: &Lines, at: usize| if at == 0 { 0 } else { lines.start(at + 1) };
    let end =
        |lines: &Lines, at: usize| if at == lines.count() { lines.text().len() } else { start(lines, at) };
    let Landmarks { mut cuts, .. } = landmarks(&old_lines, &new_lines);
    cuts.push((n, m));
    for (old_cut, new_cut) in cuts {
        if old_cut < i || new_cut < j {
            continue;
        }
        while i < old_cut && j < new_cut && i > 0 && j > 0 && same(i, j) {
            (i, j) = (i + 1, j + 1);
        }
        let (mut old_end, mut new_end) = (old_cut, new_cut);
        while old_end > i && new_end > j && old_end > 1 && new_end > 1 && same(old_end - 1, new_end - 1) {
            (old_end, new_end) = (old_end - 1, new_end - 1);
        }
        let (from, to) = (start(old, i)..end(old, old_end), start(new, j)..end(new, new_end));
        if old.text()[from.clone()] != new.text()[to.clone()] {
            edits.push(TextEdit::replace(from, &new.text()[to]));
        }
        (i, j) = (old_cut, new_cut);
    }
    edits
}

fn budget(old: &[u64], new: &[u64]) -> usize {
    FREE + STEPS * (old.len() + new.len())
}

fn hashes(lines: &Lines, unindented: bool) -> Vec<u64> {
    let bytes = |line| match lines.bytes_without_blanks(line) {
        bytes if unindented => bytes.trim_ascii_start(),
        bytes => bytes,
    };
    (1..=lines.count()).map(|line| xxh3_64(bytes(line))).collect()
}

/// The shortest scripts from both ends.
#[derive(Debug)]
struct Passes {
    /// Lines removed and added by a shortest script.
    cost: usize,
    forward: Reach,
    backward: Reach,
}

impl Passes {
    fn new(old: &[u64], new: &[u64], budget: usize) -> Option<Self> {
        let forward = Reach::new(old, new, budget / 2)?;
        let (back_old, back_new): (Vec<u64>, Vec<u64>) =
            (old.iter().rev().copied().collect(), new.iter().rev().copied().collect());
        let backward = Reach::new(&back_old, &back_new, budget / 2)?;
        Some(Self { cost: forward.rounds, forward, backward })
    }

    /// The fate of a line; `line` and the place in the result are 1-based.
    fn fate(&self, old: &[u64], new: &[u64], line: usize) -> Fate {
        let (n, m) = (old.len(), new.len());
        let row = line - 1;
        // The columns that a script of this cost can reach.
        let columns = row.saturating_sub(self.cost)..=(row + self.cost).min(m);
        let mut so_far = Costs::default();
        let mut rest = Costs::default();
        let mut found: Option<usize> = None;
        let mut removed = false;
        // The loop runs from right to left, like the backward costs; `after` is the remaining cost
        // one column to the right.
        let mut after: Option<usize> = None;
        if *columns.end() < m {
            after = rest.next(&self.backward, n - row - 1, m - columns.end() - 1);
        }
        for column in columns.rev() {
            let here = rest.next(&self.backward, n - row - 1, m - column);
            let fits =
                |cost: Option<usize>, so_far: usize| cost.is_some_and(|cost| so_far + cost == self.cost);
            if let Some(so_far) = so_far.next(&self.forward, row, column) {
                if column < m && old[row] == new[column] && fits(after, so_far) {
                    if found.is_some() {
                        return Fate::Unsure;
                    }
                    found = Some(column + 1);
                }
                removed = removed || fits(here, so_far + 1);
            }
            after = here;
        }
        match (found, removed) {
            (Some(at), false) => Fate::At(at),
            (None, _) => Fate::Gone,
            (Some(_), true) => Fate::Unsure,
        }
    }
}

/// Costs to points of one row, queried column by column.
///
/// Costs of neighbouring columns differ by one, so each query takes constant time.
#[derive(Default)]
struct Costs {
    /// The previous cost; `Some(None)` where it exceeded the whole script's.
    last: Option<Option<usize>>,
}

impl Costs {
    fn next(&mut self, reach: &Reach, row: usize, column: usize) -> Option<usize> {
        let diagonal = column as isize - row as isize;
        let leads = |cost: usize| reach.at(cost, diagonal).is_some_and(|far| far as usize >= row);
        let cost = match self.last {
            None => reach.cost(row, column),
            Some(None) => Some(reach.rounds).filter(|cost| leads(*cost)),
            Some(Some(cost)) => {
                let less = cost.checked_sub(1).filter(|cost| leads(*cost));
                less.or_else(|| Some(cost + 1).filter(|cost| *cost <= reach.rounds && leads(*cost)))
            }
        };
        self.last = Some(cost);
        cost
    }
}

/// The reach of each cost along each diagonal (`column - row`) from the start.
#[derive(Debug)]
struct Reach {
    /// Furthest row per cost, on the diagonals from `-cost` in steps of 2.
    rows: Vec<u32>,
    rounds: usize,
}

/// Mark for a diagonal that no script of this cost reaches.
const NOWHERE: u32 = u32::MAX;

impl Reach {
    fn index(cost: usize, diagonal: isize) -> usize {
        cost * (cost + 1) / 2 + (diagonal + cost as isize) as usize / 2
    }

    fn at(&self, cost: usize, diagonal: isize) -> Option<u32> {
        let apart = diagonal.unsigned_abs();
        if apart > cost || !(cost - apart).is_multiple_of(2) {
            return None;
        }
        Some(self.rows[Self::index(cost, diagonal)]).filter(|row| *row != NOWHERE)
    }

    /// Computes the reach; `None` if it takes more steps than `budget`.
    fn new(old: &[u64], new: &[u64], budget: usize) -> Option<Self> {
        let (n, m) = (old.len() as isize, new.len() as isize);
        let mut this = Self { rows: Vec::new(), rounds: 0 };
        let mut steps = 0;
        let goal = m - n;
        if goal.unsigned_abs().saturating_mul(goal.unsigned_abs()) / 2 > budget {
            return None;
        }
        for cost in 0usize.. {
            let limit = cost as isize;
            for diagonal in (-limit..=limit).step_by(2) {
                let mut row: Option<isize> = None;
                // A path past the end of a diagonal reached that end earlier.
                let last = n.min(m - diagonal);
                let mut take = |candidate: Option<u32>, more: isize| {
                    let candidate = candidate.map(|row| (row as isize + more).min(last));
                    row = row.max(candidate.filter(|row| *row >= 0 && row + diagonal >= 0));
                };
                if cost == 0 {
                    take(Some(0), 0);
                } else {
                    take(this.at(cost - 1, diagonal - 1), 0);
                    take(this.at(cost - 1, diagonal + 1), 1);
                    if cost > 1 {
                        take(this.at(cost - 2, diagonal), 0);
                    }
                }
                let Some(start) = row else {
                    this.rows.push(NOWHERE);
                    continue;
                };
                let column = (start + diagonal) as usize;
                let start = start as usize;
                let same = old[start..].iter().zip(&new[column..]).take_while(|(a, b)| a == b).count();
                steps += 1 + same / 8;
                this.rows.push((start + same) as u32);
            }
            this.rounds = cost;
            if this.at(cost, goal) == Some(n as u32) {
                return Some(this);
            }
            if steps > budget {
                return None;
            }
        }
        None
    }

    /// The shortest cost to a point; `None` if it exceeds the whole script's.
    fn cost(&self, row: usize, column: usize) -> Option<usize> {
        let diagonal = column as isize - row as isize;
        let least = diagonal.unsigned_abs();
        if least > self.rounds {
            return None;
        }
        // Along one diagonal a higher cost reaches further.
        let (mut low, mut high) = (0, (self.rounds - least) / 2 + 1);
        let end = high;
        while low < high {
            let middle = (low + high) / 2;
            match self.at(least + 2 * middle, diagonal) {
                Some(far) if far as usize >= row => high = middle,
                _ => low = middle + 1,
            }
        }
        (low < end).then_some(least + 2 * low)
    }
}

fn nearest(pairs: &[(usize, usize)], from: usize, to: usize) -> [Option<(usize, usize)>; 2] {
    let above = pairs.partition_point(|(line, _)| *line < from);
    let below = pairs.partition_point(|(line, _)| *line < to);
    [above.checked_sub(1).map(|at| pairs[at]), pairs.get(below).copied()]
}

fn landmarks(old: &[u64], new: &[u64]) -> Landmarks {
    // The number of occurrences of a line in each text (at most 2), and their places.
    let mut places: HashMap<u64, [(u32, u8); 2], BuildHasherDefault<IdentityHasher>> = HashMap::default();
    places.reserve(old.len());
    for (side, lines) in [old, new].into_iter().enumerate() {
        for (at, line) in lines.iter().enumerate() {
            let place = &mut places.entry(*line).or_default()[side];
            *place = (at as u32, (place.1 + 1).min(2));
        }
    }
    let once = |line: &u64| match places.get(line) {
        Some([(_, 1), (at, 1)]) => Some(*at as usize),
        _ => None,
    };
    let pairs: Vec<(usize, usize)> =
        old.iter().enumerate().filter_map(|(at, line)| Some((at, once(line)?))).collect();
    let places: Vec<usize> = pairs.iter().map(|pair| pair.1).collect();
    // Lengths of the longest increasing sequences that end and begin at each place.
    let ends = increasing(&places);
    let backward: Vec<usize> = places.iter().rev().map(|place| usize::MAX - place).collect();
    let mut begins = increasing(&backward);
    begins.reverse();
    let longest = ends.iter().max().copied().unwrap_or(0);
    let mut alone = vec![0usize; longest + 1];
    let on_longest = |at: usize| ends[at] + begins[at] == longest + 1;
    for at in (0..pairs.len()).filter(|at| on_longest(*at)) {
        alone[ends[at]] += 1;
    }
    let cuts = (0..pairs.len()).filter(|at| on_longest(*at) && alone[ends[*at]] == 1).map(|at| pairs[at]);
    Landmarks { cuts: cuts.collect(), all: pairs }
}

/// The longest increasing sequence that ends with each number.
fn increasing(numbers: &[usize]) -> Vec<usize> {
    let mut lowest: Vec<usize> = Vec::new();
    numbers
        .iter()
        .map(|number| {
            let at = lowest.partition_point(|low| low < number);
            match lowest.get_mut(at) {
                Some(low) => *low = *number,
                None => lowest.push(*number),
            }
            at + 1
        })
        .collect()
}

/// Hasher that returns its keys, which are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Costs from the beginning to every point, by brute force.
    fn table(old: &[u64], new: &[u64]) -> Vec<Vec<usize>> {
        let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
        for row in 0..=old.len() {
            for column in 0..=new.len() {
                let mut best = row + column;
                if row > 0 {
                    best = best.min(table[row - 1][column] + 1);
                }
                if column > 0 {
                    best = best.min(table[row][column - 1] + 1);
                }
                if row > 0 && column > 0 && old[row - 1] == new[column - 1] {
                    best = best.min(table[row - 1][column - 1]);
                }
                table[row][column] = best;
            }
        }
        table
    }

    fn slow_fate(old: &[u64], new: &[u64], line: usize) -> Fate {
        let forward = table(old, new);
        let back = |lines: &[u64]| lines.iter().rev().copied().collect::<Vec<u64>>();
        let backward = table(&back(old), &back(new));
        let rest = |row: usize, column: usize| backward[old.len() - row][new.len() - column];
        let cost = forward[old.len()][new.len()];
        let kept = |column: usize| {
            old[line - 1] == new[column] && forward[line - 1][column] + rest(line, column + 1) == cost
        };
        let places: Vec<usize> = (0..new.len()).filter(|column| kept(*column)).collect();
        let removed =
            (0..=new.len()).any(|column| forward[line - 1][column] + 1 + rest(line, column) == cost);
        match (places.as_slice(), removed) {
            ([], _) => Fate::Gone,
            ([at], false) => Fate::At(at + 1),
            _ => Fate::Unsure,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn edits_produce_the_new_text(old in "(\u{feff})?[ab\n\r]{0,30}", new in "(\u{feff})?[ab\n\r]{0,30}") {
            let [old, new] = [old, new].map(|text| Lines::new(text.into()));
            let made = text::apply(old.text(), &edits(&old, &new)).unwrap();
            prop_assert_eq!(made.as_str(), &**new.text());
        }

        #[test]
        fn fates_agree_with_every_shortest_script(
            old in prop::collection::vec(0u64..3, 0..12),
            new in prop::collection::vec(0u64..3, 0..12),
        ) {
            let passes = Passes::new(&old, &new, 1 << 20).unwrap();
            for line in 1..=old.len() {
                prop_assert_eq!(passes.fate(&old, &new, line), slow_fate(&old, &new, line), "line {}", line);
            }
        }
    }
}
