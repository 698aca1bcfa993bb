//! Deadlines of stopping: the time that each part has to end.
//!
//! The only table of such deadlines. Three promises hold for the user: a stopped run ends within two seconds
//! ([`RUN`]), a command within two seconds of a signal ([`COMMAND`]), and everything that an editor started
//! within five seconds of its exit ([`PROCESS`]). The inner deadlines nest in these; a test checks the sums.

use std::time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A hook that runs when the run is cancelled. Part of [`TOOLS`].
pub const HOOK: Duration = ms(100);
/// A cancelled model stream that does not end by itself. Part of [`RUN`].
pub const STREAM: Duration = ms(200);
/// An aborted task, part of [`RUN`]; only one that blocks its thread needs longer.
pub const ABORT: Duration = ms(200);
/// Tools of a cancelled run, until their futures are dropped. Part of [`RUN`].
pub const TOOLS: Duration = ms(1200);
/// Tasks of tools that did not stop. Part of [`RUN`].
pub const STRAGGLERS: Duration = ms(50);
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
/// Part of [`COMMAND`].
pub const REQUEST_ABANDONED: Duration = ms(1600);
/// A command, from the first signal to its end, whatever it computes.
///
/// The guard ends what is left.
pub const COMMAND: Duration = ms(1700);
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

// Processes.

/// A process, from SIGKILL until the system has ended it.
pub(crate) const KILL: Duration = ms(2000);
/// The last output of a child that has ended.
pub(crate) const LAST_OUTPUT: Duration = ms(100);
/// All children of a program, from SIGTERM to SIGKILL.
pub(crate) const CHILDREN: Duration = ms(500);
/// A group that the guard ends, from SIGTERM to SIGKILL.
pub(crate) const GUARDED: Duration = ms(300);
/// A guarded process that ends when its streams close.
pub(crate) const GUARDED_STREAMS: Duration = ms(2000);
/// A program that has done its work, from SIGTERM to SIGKILL.
pub const FINISHED_PROGRAM: Duration = ms(100);
/// A program that did not start as it should, from SIGTERM to SIGKILL.
pub const FAILED_PROGRAM: Duration = ms(200);
/// A cancelled package manager, from SIGTERM to SIGKILL.
pub const PACKAGE_MANAGER: Duration = ms(500);
/// A shell command, from SIGTERM to SIGKILL.
pub const SHELL_COMMAND: Duration = ms(400);
/// A background command that a call stops, until the call reports its state.
pub const STOPPED_JOB: Duration = ms(5000);
/// The output of processes that a shell command left behind.
pub const LEFT_BEHIND: Duration = ms(300);
/// The programs of a command of the command line.
pub const COMMAND_PROGRAMS: Duration = ms(2000);

// Language servers.

/// A server that makes room for others, from `shutdown` to SIGTERM.
pub const SERVER_EVICTED: Duration = ms(2000);
/// A server that is idle or restarts, from `shutdown` to SIGTERM.
pub const SERVER_RESTART: Duration = ms(5000);
/// A server after `exit`, from SIGTERM to SIGKILL.
pub const SERVER: Duration = ms(500);
/// A server whose stream closed. Its last output is read after that.
pub const SERVER_EXIT: Duration = ms(2000);

// Debuggers.

/// The adapter's last answer, and its process after that.
pub const ADAPTER_ANSWER: Duration = ms(1000);
/// A port given by the user, until something listens.
pub const DEBUG_PORT: Duration = ms(2000);
/// An adapter or a program that it started, from SIGTERM to SIGKILL.
pub const ADAPTER: Duration = ms(300);
/// The process of a closed stream, and the stream of an ended process.
pub const ADAPTER_EXIT: Duration = ms(2000);
/// An adapter that detaches from a process that it did not launch.
pub const ADAPTER_DETACH: Duration = ms(5000);
/// The last output of a debugged program.
pub const PROGRAM_OUTPUT: Duration = ms(5000);
/// A debug session whose program ended. Longer than all of its steps together.
pub const DEBUG_SESSION: Duration = ms(15_000);
/// A launcher that reports its end after its program's.
pub const LAUNCHER: Duration = ms(3000);
/// A request that ends the debugged program.
pub const TERMINATION: Duration = ms(2000);
/// A joined client that reads the rest of its messages.
pub const JOINED_CLIENT: Duration = ms(10_000);
/// The breakpoints of an action that ended or was cancelled.
pub const OWN_BREAKPOINTS: Duration = ms(5000);

// Clients.

/// An edit that an editor applies while its run is stopped.
pub const EDIT_IN_FLIGHT: Duration = ms(1000);
/// Responses that the proxy streams when its process ends.
pub const PROXY_RESPONSES: Duration = ms(1000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_deadlines_fit_into_outer_ones() {
        assert!(HOOK <= TOOLS);
        assert!(TOOLS + STREAM + SESSION_CLOSE <= RUN);
        assert!(TOOLS + ABORT + STRAGGLERS + SESSION_CLOSE <= RUN);
        assert!(RUN <= REQUEST);
        assert!(TOOLS + ABORT + SESSION_CLOSE <= REQUEST_ABANDONED);
        assert!(REQUEST_ABANDONED < COMMAND);
        assert!(RUN + STOPPED_PROGRAMS < RUN_BEFORE_COMPACTION);
        assert!(RUN + OUTPUT < PROCESS);
        let steps = [PROGRAM_OUTPUT, 2 * ADAPTER_ANSWER, 2 * ADAPTER, 2 * ADAPTER_EXIT, KILL];
        assert!(steps.iter().sum::<Duration>() < DEBUG_SESSION);
    }
}
