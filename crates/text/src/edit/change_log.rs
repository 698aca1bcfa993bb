//! Recorded edits from one text to another, oldest first.
//!
//! Bounded: a log past its limit drops everything, since a log with a gap is useless.

use std::ops::Range;

use crate::{TextEdit, map_range};

/// Maximum number of stored edits.
const MAX_EDITS: usize = 10_000;
/// Maximum number of stored bytes of inserted text.
const MAX_BYTES: usize = 1 << 20;

/// Steps from an old text to the current one.
///
/// Each step is a list of edits of the text before that step.
#[derive(Debug, Clone, Default)]
pub struct ChangeLog {
    steps: Vec<Vec<TextEdit>>,
    edits: usize,
    bytes: usize,
    broken: bool,
}

impl ChangeLog {
    /// Creates an empty log, for equal texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records one step; `edits` must be in order of place and must not overlap.
    pub fn push(&mut self, edits: Vec<TextEdit>) {
        self.edits += edits.len();
        self.bytes += edits.iter().map(|edit| edit.new_text.len()).sum::<usize>();
        if self.edits > MAX_EDITS || self.bytes > MAX_BYTES {
            self.broken = true;
        }
        if self.broken {
            self.steps.clear();
        } else {
            self.steps.push(edits);
        }
    }

    /// Whether all steps are recorded.
    pub fn is_complete(&self) -> bool {
        !self.broken
    }

    /// Maps `range` of the old text to the current one.
    ///
    /// Returns `None` if a step touched it or the log is incomplete.
    pub fn map_range(&self, range: Range<usize>) -> Option<Range<usize>> {
        if self.broken {
            return None;
        }
        self.steps.iter().try_fold(range, |range, step| map_range(range, step))
    }

    /// The steps, oldest first.
    pub fn steps(&self) -> &[Vec<TextEdit>] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_through_all_steps_or_not_at_all() {
        let mut log = ChangeLog::new();
        log.push(vec![TextEdit::insert(0, "ab")]);
        log.push(vec![TextEdit::replace(0..1, "")]);
        assert_eq!(log.map_range(3..5), Some(4..6));
        log.push(vec![TextEdit::insert(0, "x".repeat(MAX_BYTES + 1))]);
        assert!(!log.is_complete());
        assert_eq!(log.map_range(3..5), None);
    }
}
