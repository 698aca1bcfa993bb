//! A running command and its output.

use std::future::Future;
use std::process::ExitStatus;
use std::time::Duration;

use policy::Redactor;
use process::Process;
use process::deadlines;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::jobs::describe_status;
use super::log::Log;
use super::scrub::Scrubber;

pub(super) const UNKNOWN: &str = "exit status unknown";

/// The end of a job: its exit status or timeout, and processes that it left behind.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobEnd {
    pub reason: EndReason,
    /// Whether the command left processes running, which Pilcrow killed.
    pub left_processes: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum EndReason {
    Exited(ExitStatus),
    TimedOut,
    Stopped,
    /// It took so many bytes of memory, more than the limit.
    OverMemory(u64),
}

impl JobEnd {
    pub fn describe(&self, after: Duration) -> String {
        let how = match self.reason {
            EndReason::Exited(status) => describe_status(status),
            EndReason::TimedOut => format!("timed out after {:.1} s", after.as_secs_f32()),
            EndReason::Stopped => "stopped".to_owned(),
            EndReason::OverMemory(used) => {
                format!("ended by Pilcrow: it used {} MiB, more than `exec.max_memory` allows", used >> 20)
            }
        };
        let left = if self.left_processes {
            "; killed the processes it left running (use background: true)"
        } else {
            ""
        };
        format!("{how}{left}")
    }
}

/// A command that runs, with its output and deadline.
pub(super) struct Running {
    process: Process,
    output: pipe::Receiver,
    scrubber: Scrubber,
}

impl Running {
    pub fn new(process: Process, output: pipe::Receiver, redactor: Redactor) -> Self {
        Self { process, output, scrubber: Scrubber::new(redactor) }
    }

    /// Passes the output to `log` and `on_output` until the command ends.
    ///
    /// The deadline or `stop` ends this earlier.
    ///
    /// Cancel safe: the command continues and can be followed again.
    pub async fn follow<F: Future<Output = ()>>(
        &mut self,
        log: &Log,
        deadline: Option<Instant>,
        stop: &CancellationToken,
        on_output: impl Fn(String) -> F,
    ) -> JobEnd {
        let mut buffer = vec![0; 16 << 10];
        let (mut status, mut is_open, mut quiet_at) = (None, true, None);
        loop {
            if let (Some(status), false) = (status, is_open) {
                let over_memory = self.process.over_memory().map(EndReason::OverMemory);
                let reason = over_memory.unwrap_or(EndReason::Exited(status));
                return JobEnd { reason, left_processes: self.process.has_left() };
            }
            // All branches are cancel safe.
            tokio::select! {
                biased;
                () = stop.cancelled() => return JobEnd { reason: EndReason::Stopped, left_processes: false },
                () = until(deadline) => return JobEnd { reason: EndReason::TimedOut, left_processes: false },
                read = self.output.read(&mut buffer), if is_open => match read {
                    Ok(0) | Err(_) => is_open = false,
                    Ok(count) => {
                        let text = self.scrubber.push(&buffer[..count]);
                        if !text.is_empty() {
                            log.push(&text);
                            on_output(text).await;
                        }
                        if status.is_some() {
                            quiet_at = Some(Instant::now() + deadlines::LEFT_BEHIND);
                        }
                    }
                },
                exited = self.process.exited(), if status.is_none() => {
                    status = Some(exited);
                    quiet_at = Some(Instant::now() + deadlines::LEFT_BEHIND);
                }
                // A process that the command left behind holds the pipe open.
                () = until(quiet_at), if status.is_some() => is_open = false,
            }
        }
    }

    /// Kills the rest of the process group and reads the remaining output into `log`.
    pub async fn finish(&mut self, log: &Log) {
        self.process.end(deadlines::SHELL_COMMAND).await;
        let mut buffer = vec![0; 16 << 10];
        // The output written before the end is in the pipe already.
        while let Ok(count @ 1..) = self.output.try_read(&mut buffer) {
            log.push(&self.scrubber.push(&buffer[..count]));
        }
        log.push(&self.scrubber.rest());
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
