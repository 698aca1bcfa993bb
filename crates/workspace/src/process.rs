//! Child processes: each in a group of its own, each with one owner that ends it.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};

use crate::{AbsPath, ErrorCode, SpawnGrant};

/// A command as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// Absolute path, or a name to be found on PATH.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set beside those inherited.
    pub env: Vec<(String, String)>,
    /// Where it runs.
    pub cwd: AbsPath,
}

/// Starts children, knows them all, ends them all.
#[derive(Debug)]
pub struct Processes {}

/// A running child with pipes for stdin, stdout and stderr.
#[derive(Debug)]
pub struct Process {}

/// Why a child did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No such program.
    #[error("{program} was not found")]
    MissingProgram {
        /// What was looked for.
        program: String,
    },
    /// The system's error.
    #[error("{program} cannot be started: {source}")]
    Io {
        /// What was to run.
        program: String,
        /// The cause.
        source: std::io::Error,
    },
}

impl SpawnError {
    /// The code that surfaces and models are given.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::MissingProgram { .. } => ErrorCode::MissingTool,
            Self::Io { .. } => ErrorCode::IoError,
        }
    }
}

impl Processes {
    /// One for the process. `guard` is Pilcrow's own executable, started as `__guard` before the
    /// first child; `None` does without (tests).
    pub fn new(guard: Option<PathBuf>) -> Arc<Self> {
        let _ = guard;
        unimplemented!()
    }

    /// Starts `command` under `grant`.
    ///
    /// # Errors
    /// [`SpawnError`]; nothing runs then.
    pub async fn spawn(
        self: &Arc<Self>,
        command: &CommandLine,
        grant: &SpawnGrant,
    ) -> Result<Process, SpawnError> {
        let _ = (command, grant);
        unimplemented!()
    }

    /// Ends every child with its group, and what came back to us as orphans. Returns what the
    /// system would not end within `deadline`.
    pub async fn end_all(&self, deadline: Duration) -> Vec<u32> {
        let _ = deadline;
        unimplemented!()
    }
}

impl Process {
    /// Its process id, which is also its group's.
    pub fn id(&self) -> u32 {
        unimplemented!()
    }

    /// Its standard input, once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        unimplemented!()
    }

    /// Its standard output, once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        unimplemented!()
    }

    /// The newest lines of its standard error, at most 64 KiB.
    pub fn stderr_tail(&self) -> String {
        unimplemented!()
    }

    /// Resolves when it has ended. May be called from several tasks, again and again.
    pub async fn exited(&self) -> ExitStatus {
        unimplemented!()
    }

    /// Ends it with its group: SIGTERM, `grace`, SIGKILL; reaped when this returns.
    pub async fn end(&self, grace: Duration) -> ExitStatus {
        let _ = grace;
        unimplemented!()
    }
}
