//! Proofs that the policy said yes. Only this crate's policy makes them.

use std::path::PathBuf;

use crate::{AbsPath, CommandLine};

/// Allows one commit of one plan. Used up by it.
#[derive(Debug)]
pub struct Permit {
    pub(crate) digest: u128,
}

/// Allows a program of a definition to be started, and started again, for one root.
#[derive(Debug, Clone)]
pub struct SpawnGrant {
    pub(crate) definition: String,
    pub(crate) root: AbsPath,
    pub(crate) program: PathBuf,
    /// For a command that was itself the question: its arguments too.
    pub(crate) args: Option<Vec<String>>,
}

impl SpawnGrant {
    /// The definition it was given for.
    pub fn definition(&self) -> &str {
        &self.definition
    }

    /// Whether `command` is what was granted: this program, in this root or below, and where the
    /// person was shown the arguments, with these.
    pub(crate) fn covers(&self, command: &CommandLine) -> bool {
        command.program == self.program
            && command.cwd.starts_with(&self.root)
            && self.args.as_ref().is_none_or(|args| *args == command.args)
    }
}
