//! The note about the sandbox in a run's first result.

use agent::ToolCx;
use policy::SpawnGrant;
use process::{SandboxLevel, SandboxStatus};

use super::jobs::Shell;

/// The sandbox of one command.
pub(super) struct Report {
    pub level: SandboxLevel,
    /// A line for the model; empty after the first command of a run, and outside runs.
    pub text: String,
}

impl Report {
    pub async fn new(shell: &Shell, grant: &SpawnGrant, cx: &ToolCx) -> Self {
        let off = SandboxStatus { level: SandboxLevel::None, detail: "off".to_owned() };
        let SandboxStatus { level, detail } =
            if grant.sandbox().is_some() { shell.processes.sandbox().await } else { off };
        if !cx.is_in_run() || !shell.notes_sandbox(&cx.starter) {
            return Self { level, text: String::new() };
        }
        let text = match level {
            SandboxLevel::None => format!("\nsandbox: none ({detail})"),
            level => format!(
                "\nsandbox: {}. Commands change only the project, /tmp and caches, and read no keys or logins, \
                 except a line of only `git`. `\"sandbox\": false` asks to run a command without it.",
                level.name()
            ),
        };
        Self { level, text }
    }
}
