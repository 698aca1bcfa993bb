//! Proofs of a permission. Only this crate's policy creates them.

use std::path::{Path, PathBuf};

use paths::AbsPath;
use shell::CommandLine;

use crate::PlannedChange;

/// Allows one commit of one plan. Used up by it.
#[derive(Debug)]
pub struct Permit {
    pub(crate) digest: u128,
}

impl Permit {
    /// Whether the permit was given for this change.
    pub fn covers(&self, change: &dyn PlannedChange) -> bool {
        self.digest == change.digest()
    }
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
    /// For `command` as it is, arguments included.
    pub(crate) fn exactly(definition: &str, command: &CommandLine) -> Self {
        Self {
            definition: definition.to_owned(),
            root: command.cwd.clone(),
            program: command.program.clone(),
            args: Some(command.args.clone()),
        }
    }

    /// `git cat-file --batch` on `git_dir`, the one command that runs unasked: it prints objects, and runs
    /// neither filters nor hooks of the repository.
    pub fn for_git_objects(root: &AbsPath, git_dir: &Path) -> (CommandLine, Self) {
        let args = ["--git-dir", &git_dir.to_string_lossy(), "cat-file", "--batch"].map(str::to_owned);
        let command =
            CommandLine { program: "git".into(), args: args.to_vec(), env: Vec::new(), cwd: root.clone() };
        let grant = Self::exactly("git", &command);
        (command, grant)
    }

    /// The definition it was given for.
    pub fn definition(&self) -> &str {
        &self.definition
    }

    /// Whether `command` was granted: this program, in this root or below, and where the
    /// user was shown the arguments, with these.
    pub fn covers(&self, command: &CommandLine) -> bool {
        command.program == self.program
            && command.cwd.starts_with(&self.root)
            && self.args.as_ref().is_none_or(|args| *args == command.args)
    }
}
