//! One command from its start to its end, with what it writes.

use std::future::Future;
use std::process::ExitStatus;
use std::time::Duration;

use policy::Redactor;
use process::Process;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::jobs::told;
use super::log::Log;
use super::scrub::Scrubber;

/// How long what a command left behind may still write before it is ended.
const LINGER: Duration = Duration::from_millis(300);
/// How long a command that is ended has to say goodbye.
const GRACE: Duration = Duration::from_millis(400);

pub(super) const UNKNOWN: &str = "its end is not known";

/// How a command ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub how: How,
    /// It left something running, which was ended.
    pub left: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Exited(ExitStatus),
    TimedOut,
    Stopped,
}

impl Ended {
    pub fn said(&self, after: Duration) -> String {
        let how = match self.how {
            How::Exited(status) => told(status),
            How::TimedOut => format!("ended, since it took more than {:.1} s", after.as_secs_f32()),
            How::Stopped => "stopped".to_owned(),
        };
        let left = if self.left { "; what it left running was ended (use background: true)" } else { "" };
        format!("{how}{left}")
    }
}

/// A command that runs.
pub(super) struct Running {
    process: Process,
    output: pipe::Receiver,
    scrubber: Scrubber,
}

impl Running {
    pub fn new(process: Process, output: pipe::Receiver, redactor: Redactor) -> Self {
        Self { process, output, scrubber: Scrubber::new(redactor) }
    }

    /// Takes what it writes to `log` and `hear`, until it has ended; ends it at the deadline and on
    /// `stop`. May be dropped: it goes on then, and can be followed again.
    pub async fn follow<F: Future<Output = ()>>(
        &mut self,
        log: &Log,
        deadline: Option<Instant>,
        stop: &CancellationToken,
        hear: impl Fn(String) -> F,
    ) -> Ended {
        let mut buffer = vec![0; 16 << 10];
        let (mut status, mut is_open, mut quiet_at) = (None, true, None);
        loop {
            if let (Some(status), false) = (status, is_open) {
                return Ended { how: How::Exited(status), left: self.process.has_left() };
            }
            // A read that is dropped has taken nothing; the others only look.
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ended { how: How::Stopped, left: false },
                () = until(deadline) => return Ended { how: How::TimedOut, left: false },
                read = self.output.read(&mut buffer), if is_open => match read {
                    Ok(0) | Err(_) => is_open = false,
                    Ok(count) => {
                        let text = self.scrubber.push(&buffer[..count]);
                        if !text.is_empty() {
                            log.push(&text);
                            hear(text).await;
                        }
                        if status.is_some() {
                            quiet_at = Some(Instant::now() + LINGER);
                        }
                    }
                },
                exited = self.process.exited(), if status.is_none() => {
                    status = Some(exited);
                    quiet_at = Some(Instant::now() + LINGER);
                }
                // Something else holds the pipe open.
                () = until(quiet_at), if status.is_some() => is_open = false,
            }
        }
    }

    /// Ends what is left of it, and takes its last words to `log`.
    pub async fn finish(&mut self, log: &Log) {
        self.process.end(GRACE).await;
        let mut buffer = vec![0; 16 << 10];
        // What was written before the end is there; nothing is waited for.
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
