//! One version of a text that the model was shown, and the lines it saw.

pub(crate) mod chain;
pub(crate) mod history;
pub(crate) mod store;

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::{Lines, Tag};

/// The exact text of one version of one path, identified by its [`Tag`].
///
/// A [`SnapshotStore`](crate::SnapshotStore) creates it. It is immutable.
#[derive(Debug, Clone)]
pub struct Snapshot {
    lines: Lines,
    tag: Tag,
}

impl Snapshot {
    pub(crate) fn new(lines: Lines, tag: Tag) -> Self {
        Self { lines, tag }
    }

    /// The text as recorded.
    pub fn text(&self) -> &Arc<str> {
        self.lines.text()
    }

    /// The text's lines.
    pub fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The version's tag in the store that created it.
    pub fn tag(&self) -> Tag {
        self.tag
    }
}

/// The lines of a version that were shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SeenLines {
    /// Ranges in order, not adjacent.
    shown: Vec<RangeInclusive<usize>>,
}

impl SeenLines {
    pub(crate) fn show(&mut self, lines: RangeInclusive<usize>) {
        if lines.is_empty() {
            return;
        }
        let (mut first, mut last) = (*lines.start(), *lines.end());
        let touches = |range: &RangeInclusive<usize>| *range.start() <= last + 1 && first <= *range.end() + 1;
        let from = self.shown.partition_point(|range| *range.end() + 1 < first);
        let to = from + self.shown[from..].iter().take_while(|range| touches(range)).count();
        if from < to {
            first = first.min(*self.shown[from].start());
            last = last.max(*self.shown[to - 1].end());
        }
        self.shown.splice(from..to, [first..=last]);
    }

    /// Adds the lines shown in another version, by their numbers.
    pub(crate) fn show_all(&mut self, other: &SeenLines) {
        other.shown.iter().for_each(|lines| self.show(lines.clone()));
    }

    pub(crate) fn contains(&self, line: usize) -> bool {
        let at = self.shown.partition_point(|range| *range.end() < line);
        self.shown.get(at).is_some_and(|range| range.contains(&line))
    }

    pub(crate) fn shown(&self) -> &[RangeInclusive<usize>] {
        &self.shown
    }

    /// Number of lines shown.
    pub(crate) fn count(&self) -> usize {
        self.shown.iter().map(|range| range.end() + 1 - range.start()).sum()
    }

    /// Lines of the range that the model has not seen.
    pub(crate) fn missing(&self, lines: RangeInclusive<usize>) -> Vec<usize> {
        lines.filter(|line| !self.contains(*line)).collect()
    }

    /// Whether all of `count` lines were shown.
    pub(crate) fn is_all(&self, count: usize) -> bool {
        self.shown.iter().any(|range| *range.start() <= 1 && *range.end() >= count) || count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_shown_in_any_range_is_seen(ranges in prop::collection::vec((1usize..30, 0usize..6), 0..12)) {
            let mut seen = SeenLines::default();
            for (first, more) in &ranges {
                seen.show(*first..=first + more);
            }
            for line in 1..40 {
                let expected = ranges.iter().any(|(first, more)| (*first..=first + more).contains(&line));
                prop_assert_eq!(seen.contains(line), expected);
            }
            prop_assert!(seen.shown().windows(2).all(|pair| pair[0].end() + 1 < *pair[1].start()));
        }
    }
}
