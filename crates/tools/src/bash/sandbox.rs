//! The notes about the sandbox in a result.

use agent::ToolCx;
use paths::AbsPath;
use policy::{Confinement, SandboxMode};
use process::{SandboxLevel, SandboxStatus};
use workspace::ProtectedChange;

use super::jobs::Shell;

/// The sandbox of the next command; `None` if it is off or waived.
pub(crate) async fn status(shell: &Shell, wanted: bool, cx: &ToolCx) -> Option<SandboxStatus> {
    let is_on = cx.policy().is_some_and(|policy| policy.sandbox_mode() != SandboxMode::Off);
    if wanted && is_on { Some(shell.processes.sandbox().await) } else { None }
}

pub(crate) fn confinement(status: Option<&SandboxStatus>) -> Confinement {
    match status {
        None => Confinement::Waived,
        Some(SandboxStatus { level: SandboxLevel::None, .. }) => Confinement::Unavailable,
        Some(_) => Confinement::Sandbox,
    }
}

/// The sandbox of one command.
pub(super) struct Report {
    pub level: SandboxLevel,
    /// Lines for the model: what the sandbox prevented, and once for a run its name.
    pub text: String,
    /// Protected files whose changes were reverted.
    pub reverted: Vec<String>,
    /// Accesses that the sandbox denied, such as `write /etc/hosts`.
    pub denied: Vec<String>,
    /// Protected files beyond the limits.
    pub unprotected: Vec<String>,
}

impl Report {
    pub(super) fn new(shell: &Shell, status: Option<SandboxStatus>, cx: &ToolCx) -> Self {
        let SandboxStatus { level, detail, .. } = status.unwrap_or(SandboxStatus::none("off"));
        if !cx.is_in_run() || !shell.notes_sandbox(&cx.starter) {
            return Self::of(level, String::new());
        }
        let text = match level {
            SandboxLevel::None => format!("\nsandbox: none ({detail}); commands run with the user's rights"),
            level => format!(
                "\nsandbox: {}. Commands change only the project, /tmp and caches, read no keys or logins, and reach \
                 hosts only by HTTP, which asks for each new host; only `git fetch`, `pull` and `push` have keys, in a line of their own. \
                 `\"sandbox\": false` asks to run a command without it.",
                level.name()
            ),
        };
        Self::of(level, text)
    }

    fn of(level: SandboxLevel, text: String) -> Self {
        Self { level, text, reverted: Vec::new(), denied: Vec::new(), unprotected: Vec::new() }
    }

    /// Adds the files that the limits leave unprotected; once for a run to the text.
    pub(super) fn note_unprotected(&mut self, unprotected: Vec<String>) {
        if !self.text.is_empty() && !unprotected.is_empty() {
            let text = "changes of protected files are not reverted in";
            self.text.push_str(&format!("\n{text}: {}", unprotected.join(", ")));
        }
        self.unprotected = unprotected;
    }

    /// Adds the denials to the result, and how to ask for the access.
    pub(super) fn note_denied(&mut self, denied: Vec<String>) {
        if !denied.is_empty() {
            let ask = "`\"sandbox\": false` asks the user to run the command without it";
            self.text = format!("\nthe sandbox denied: {}; {ask}{}", denied.join(", "), self.text);
        }
        self.denied = denied;
    }

    /// Adds a line about a limit that the command may have met.
    pub(super) fn note(&mut self, text: &str) {
        self.text = format!(
            "\n{text}; `\"sandbox\": false` asks the user to run it without the sandbox{}",
            self.text
        );
    }

    /// Adds the changes of protected files to the result.
    pub(super) fn note_reverted(&mut self, changes: &[ProtectedChange], show: impl Fn(&AbsPath) -> String) {
        self.reverted = changes.iter().map(|change| show(&change.path)).collect();
        let text = describe_reverted(changes, show);
        if !text.is_empty() {
            self.text = format!("\n{}{}", text.trim_end(), self.text);
        }
    }
}

/// Maximum number of protected files that a result names.
const MAX_NAMED: usize = 10;

/// One line for each change of a protected file.
pub(crate) fn describe_reverted(changes: &[ProtectedChange], show: impl Fn(&AbsPath) -> String) -> String {
    let line = |change: &ProtectedChange| match &change.outcome {
        Ok(how) => format!("reverted: {} ({how})\n", show(&change.path)),
        Err(why) => format!("changed although protected: {} (not reverted: {why})\n", show(&change.path)),
    };
    changes.iter().take(MAX_NAMED).map(line).collect()
}
