//! Waiting for a process that this process did not start.

use std::time::Duration;

use crate::process_table::Entry;

/// Interval between two checks whether the process exists.
const LOOKS: Duration = Duration::from_millis(500);

/// Waits until the process `id` ends, reaped or not. Cancel-safe.
///
/// Never returns for one that does not exist at the start: it may run in another container, whose
/// processes are not visible.
pub async fn process_ended(id: u32) {
    let Some(pid) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) else {
        return std::future::pending().await;
    };
    if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
        tracing::debug!(id, "no such process, so no wait for its end");
        return std::future::pending().await;
    }
    let first = Entry::read(id);
    let mut looks = tokio::time::interval(LOOKS);
    loop {
        looks.tick().await;
        let there = match (&first, Entry::read(id)) {
            // The process has ended, reaped or not, or the number belongs to another one.
            (Some(first), now) => now.is_some_and(|now| !now.zombie && now.started == first.started),
            (None, _) => rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH),
        };
        if !there {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn a_process_that_ended_is_noticed_before_it_is_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut ended = Box::pin(process_ended(child.id()));
        assert!((&mut ended).now_or_never().is_none());
        drop(child.stdin.take());
        tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
        child.wait().unwrap();
        assert!(process_ended(child.id()).now_or_never().is_none());
    }
}
