//! Runs a program to its end before a session: a build, a list of tests.
//!
//! Requires a grant. Invariants: the program ends with the deadline or the cancellation; its output
//! is bounded.

use std::sync::Arc;

use policy::SpawnGrant;
use process::HostGate;
use shell::CommandLine;
use tokio::io::AsyncReadExt;

use crate::error::{DapError, Result};
use crate::session::Clock;
use crate::sessions::Sessions;

/// Maximum number of bytes stored of its standard output.
const OUTPUT: u64 = 64 * 1024 * 1024;

/// Exit status and output of a program.
#[derive(Debug, Clone)]
pub struct ProgramOutput {
    pub success: bool,
    pub status: String,
    /// The first 64 MiB of its standard output.
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
}

impl Sessions {
    /// Runs `command` to its end. Dropping the future ends it.
    ///
    /// # Errors
    /// [`DapError::Spawn`], [`DapError::Timeout`], [`DapError::Cancelled`].
    pub async fn run(
        &self,
        command: &CommandLine,
        grant: &SpawnGrant,
        gate: Arc<dyn HostGate>,
        clock: &Clock,
    ) -> Result<ProgramOutput> {
        let name = command.program.display().to_string();
        let spawned = self.processes().spawn_gated(command, grant, gate).await;
        let mut process = spawned.map_err(|source| DapError::Spawn { adapter: name.clone(), source })?;
        drop(process.take_stdin());
        let stdout = process.take_stdout();
        let ran = async {
            let mut bytes = Vec::new();
            if let Some(stdout) = stdout
                && let Err(error) = stdout.take(OUTPUT).read_to_end(&mut bytes).await
            {
                tracing::debug!(%error, "cannot read the rest of a program's output");
            }
            (process.exited().await, bytes)
        };
        let ran = tokio::select! {
            biased;
            // This future owns the process and kills it when dropped.
            () = clock.cancel.cancelled() => return Err(DapError::Cancelled),
            ran = tokio::time::timeout_at(clock.until, ran) => ran,
        };
        let (status, bytes) =
            ran.map_err(|_| DapError::Invalid(format!("{command} did not end in time; raise `timeout`")))?;
        Ok(ProgramOutput {
            success: status.success(),
            status: status.to_string(),
            stdout: String::from_utf8_lossy(&bytes).into_owned(),
            stderr: process.stderr_tail(),
        })
    }
}
