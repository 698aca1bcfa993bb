//! The limits of a run: turns, time, retries and compaction.

use std::time::Duration;

use process::deadlines;

use crate::compaction;
use crate::run::retry::Retries;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum turns; 200 by default.
    pub turns: u32,
    /// Maximum duration; 48 hours by default.
    pub total: Duration,
    /// Time from a cancel until unfinished tools are dropped; 1.2 s by default.
    pub cancel_grace: Duration,
    /// Whether the calls of a response always run sequentially.
    pub sequential_tools: bool,
    /// Retries of a turn that failed while it streamed.
    pub retries: Retries,
    /// Limits that decide when the context is compacted.
    pub compaction: compaction::Limits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            turns: 200,
            total: Duration::from_secs(48 * 60 * 60),
            cancel_grace: deadlines::TOOLS,
            sequential_tools: false,
            retries: Retries::default(),
            compaction: compaction::Limits::default(),
        }
    }
}
