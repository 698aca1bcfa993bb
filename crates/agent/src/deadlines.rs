//! Deadlines of stopping: the time that each part has to end.
//!
//! Two promises hold for the user: a stopped run ends within two seconds ([`RUN`]), and everything that
//! an editor started ends within five seconds of its exit ([`PROCESS`]). The inner deadlines nest in these;
//! a test checks the sums.

use std::time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A hook that runs when the run is cancelled. Part of [`TOOLS`].
pub(crate) const HOOK: Duration = ms(100);
/// A cancelled model stream that does not end by itself. Part of [`RUN`].
pub(crate) const STREAM: Duration = ms(200);
/// An aborted task, part of [`RUN`]; only one that blocks its thread needs longer.
pub(crate) const ABORT: Duration = ms(200);
/// Tools of a cancelled run, until their futures are dropped. Part of [`RUN`].
pub(crate) const TOOLS: Duration = ms(1500);
/// The last entries of a closing session. Part of [`RUN`].
pub const SESSION_CLOSE: Duration = ms(200);
/// A run, from Stop to its last event: tools, stream and session.
pub const RUN: Duration = ms(2000);

/// Programs that a stopped run debugs. Starts after [`RUN`].
pub const STOPPED_PROGRAMS: Duration = ms(1000);
/// Language servers of one request. Starts after its run.
pub const SCOPED_SERVERS: Duration = ms(1000);
/// The servers, programs and shells of a project whose user waits for it.
///
/// Half to end, half after SIGTERM.
pub const PROJECT_STOPPED: Duration = ms(600);
/// The servers, programs and shells of a project whose command ends by itself.
pub const PROJECT: Duration = ms(3000);

/// A request of another process, from cancellation to answer; at least [`RUN`].
pub const REQUEST: Duration = ms(2000);
/// A command that cancelled a request, until it abandons the answer.
///
/// Longer than [`REQUEST`].
pub const REQUEST_ABANDONED: Duration = ms(4000);
/// A debugger that continues for the user, to remove the agent's breakpoints.
pub const DEBUGGER_RELEASE: Duration = ms(2000);
/// A run that a compaction stops first.
///
/// Longer than [`RUN`] with [`STOPPED_PROGRAMS`].
pub const RUN_BEFORE_COMPACTION: Duration = ms(10_000);
/// The last messages to an editor that exits. Part of [`PROCESS`].
pub const OUTPUT: Duration = ms(500);
/// A process whose editor exits: its runs, then its projects.
///
/// The guard ends what is left.
pub const PROCESS: Duration = ms(4500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_deadlines_fit_into_outer_ones() {
        assert!(HOOK <= TOOLS);
        assert!(TOOLS + STREAM + SESSION_CLOSE <= RUN);
        assert!(TOOLS + ABORT + SESSION_CLOSE <= RUN);
        assert!(RUN <= REQUEST);
        assert!(REQUEST < REQUEST_ABANDONED);
        assert!(RUN + STOPPED_PROGRAMS < RUN_BEFORE_COMPACTION);
        assert!(RUN + OUTPUT < PROCESS);
    }
}
