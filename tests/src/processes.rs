//! The processes that a test started, directly or not, and their end.
//!
//! A mark in the environment is inherited by every descendant, also by one that left its group and
//! was adopted by another process, so no process escapes the count. Linux only: it reads `/proc`.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Name of the variable with the mark.
pub const VARIABLE: &str = "TEST_PROCESS_MARK";

/// A process that carries a mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub pid: u32,
    /// Command line, for messages.
    pub command: String,
}

#[derive(Clone, Debug)]
pub struct Mark(String);

impl Mark {
    /// Creates a mark that no other test has.
    pub fn new() -> Mark {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |it| it.as_nanos());
        Mark(format!("{}-{now}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The value of the variable.
    pub fn value(&self) -> &str {
        &self.0
    }

    /// Every living process with the mark. A zombie is not living.
    pub fn living(&self) -> Vec<Found> {
        let wanted = format!("{VARIABLE}={}", self.0);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            // A process may end between these reads; then it is not living.
            let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
            if environment.split(|&byte| byte == 0).any(|line| line == wanted.as_bytes()) {
                let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                found.push(Found { pid, command: String::from_utf8_lossy(&command).replace('\0', " ") });
            }
        }
        found
    }

    /// Waits until none is left. After `deadline`, panics with the rest.
    #[track_caller]
    pub fn none_left(&self, deadline: Duration) {
        let mut left = Vec::new();
        let gone = wait_for(deadline, || {
            left = self.living();
            left.is_empty()
        });
        assert!(gone, "still running after {deadline:?}: {left:?}");
    }

    /// Kills the rest, so that a failing test leaves no process.
    pub fn kill_all(&self) {
        for Found { pid, .. } in self.living() {
            kill(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Default for Mark {
    fn default() -> Mark {
        Mark::new()
    }
}

/// Sends a signal to a process, if it still exists.
pub fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not zero");
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("cannot signal {pid:?}: {error}"),
    }
}

/// Polls until the condition holds or `deadline` passes.
///
/// Returns whether the condition holds.
pub fn wait_for(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        // This is the pause between two polls.
        std::thread::sleep(Duration::from_millis(5));
    }
}
