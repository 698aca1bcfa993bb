//! Compaction: its limits, the cut, stale results and the summary.
//!
//! The module is pure.

mod cut;
pub(crate) mod kept;
pub(crate) mod stale;
pub(crate) mod summary;

pub(crate) use cut::cut;

/// Limits that decide when a context is compacted, and how much is kept.
///
/// A small window has a smaller reserve, and keeps less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Whether compaction happens automatically; on by default.
    pub automatic: bool,
    /// Window in tokens of a model that does not report one; 128,000 by default.
    pub window: u64,
    /// Tokens of the window reserved for the answer; 16,384 by default.
    pub reserve: u64,
    /// Tokens at the end that are kept unchanged; 20,000 by default.
    pub keep: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { automatic: true, window: 128_000, reserve: 16_384, keep: 20_000 }
    }
}

/// Typical size of the instructions and tools of a request, in tokens.
pub(crate) const BEGINNING: u64 = 3_000;
/// Maximum size of a summary, and size of the instructions for it, in tokens.
const SUMMARY: u64 = 4_000;
pub(crate) const INSTRUCTIONS: u64 = 300;

impl Limits {
    /// Returns the limits for a window of this size.
    ///
    /// They reserve at most a quarter, and keep at most as much as they leave free.
    pub(crate) fn within(self, window: u64) -> Limits {
        let reserve = self.reserve.min(window / 4);
        let threshold = window - reserve;
        let keep = self.keep.min((threshold.saturating_sub(BEGINNING) / 2).max(threshold / 5));
        Limits { window, reserve, keep, ..self }
    }

    /// Maximum tokens of a context.
    pub(crate) fn threshold(self) -> u64 {
        self.window.saturating_sub(self.reserve)
    }

    /// Tokens of a long context: a lost cache then replaces stale results.
    pub(crate) fn long(self) -> u64 {
        self.threshold() / 2
    }

    /// Maximum characters of the user's messages that a summary repeats.
    pub(crate) fn said(self) -> usize {
        usize::try_from((self.keep * 2).min(self.window / 5)).unwrap_or(usize::MAX)
    }

    /// Maximum tokens of a summary.
    pub(crate) fn summary(self) -> u64 {
        SUMMARY.min(self.window / 8)
    }
}
