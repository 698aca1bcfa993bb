//! Proofs of permission, which only this crate's policy creates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paths::AbsPath;
use shell::CommandLine;

use crate::rules::{self, Decision, Rule};
use crate::{CommandLock, PlannedChange, SandboxProfile, is_secret};

/// Permission for one commit of one plan, which consumes it.
#[derive(Debug)]
pub struct Permit {
    pub(crate) digest: u128,
    /// Whether the change may only be proposed.
    pub(crate) is_proposal: bool,
}

impl Permit {
    /// Whether the permit was given for this change.
    pub fn covers(&self, change: &dyn PlannedChange) -> bool {
        self.digest == change.digest()
    }

    /// Whether the change may only be proposed to the user, who decides later.
    pub fn is_proposal(&self) -> bool {
        self.is_proposal
    }
}

/// Permission to start and restart a definition's program for one root.
#[derive(Debug, Clone)]
pub struct SpawnGrant {
    pub(crate) definition: String,
    pub(crate) root: AbsPath,
    pub(crate) program: PathBuf,
    /// The arguments, if the user was asked about the command itself.
    pub(crate) args: Option<Vec<String>>,
    /// Limits of the program; `None` if it runs without a sandbox.
    pub(crate) sandbox: Option<SandboxProfile>,
    /// Variables that the program gets besides those of its command.
    pub(crate) environment: Vec<(String, String)>,
    /// Reason why git has no keys or direct network access, for the result.
    pub(crate) note: Option<String>,
    /// The rules about variables.
    pub(crate) variables: Vec<Rule>,
    /// Bytes of memory that the program may take with what it starts.
    pub(crate) max_memory: Option<u64>,
    /// Held while the program runs.
    pub(crate) lock: Option<Arc<CommandLock>>,
}

impl SpawnGrant {
    /// The same permission in the sandbox of another one.
    pub fn in_sandbox_of(self, other: &Self) -> Self {
        Self { sandbox: other.sandbox.clone(), lock: None, ..self }
    }

    /// Creates a grant for exactly `command`, including its arguments.
    pub(crate) fn exactly(definition: &str, command: &CommandLine) -> Self {
        Self {
            definition: definition.to_owned(),
            root: command.cwd.clone(),
            program: command.program.clone(),
            args: Some(command.args.clone()),
            sandbox: None,
            environment: Vec::new(),
            note: None,
            variables: Vec::new(),
            max_memory: None,
            lock: None,
        }
    }

    /// Grant for `git cat-file --batch` on `git_dir`, given without asking.
    ///
    /// The command prints objects. It runs no filters and no hooks of the repository, and does not
    /// fetch missing objects, for which the repository's configuration may name a program.
    pub fn for_git_objects(root: &AbsPath, git_dir: &Path) -> (CommandLine, Self) {
        let git_dir = git_dir.to_string_lossy();
        let args = ["-c", "protocol.allow=never", "--git-dir", &git_dir, "cat-file", "--batch"];
        let command = CommandLine {
            program: "git".into(),
            args: args.map(str::to_owned).to_vec(),
            env: vec![("GIT_NO_LAZY_FETCH".to_owned(), "1".to_owned())],
            cwd: root.clone(),
        };
        let grant = Self::exactly("git", &command);
        (command, grant)
    }

    /// Limits of the program; `None` if it runs without a sandbox.
    pub fn sandbox(&self) -> Option<&SandboxProfile> {
        self.sandbox.as_ref()
    }

    /// Variables that replace those of the command.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Why a command of git that reaches a remote has no keys and network.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Bytes of memory that the program may take with what it starts, if limited.
    pub fn max_memory(&self) -> Option<u64> {
        self.max_memory
    }

    /// The lock to hold until everything that the program started has ended.
    pub fn lock(&self) -> Option<Arc<CommandLock>> {
        self.lock.clone()
    }

    /// Whether the program gets this variable of Pilcrow's environment.
    ///
    /// Without a rule it gets those that are not secret.
    pub fn passes(&self, name: &str, value: &str) -> bool {
        let rules = || self.variables.iter();
        let allowed = rules::for_variable(rules().filter(|it| !it.tightens()), name, &self.definition);
        let tightened = rules::for_variable(rules().filter(|it| it.tightens()), name, &self.definition);
        let is_allowed = |rule: &Rule| rule.decision == Decision::Allow;
        tightened.is_none_or(is_allowed) && allowed.map_or_else(|| !is_secret(name, value), is_allowed)
    }

    pub fn definition(&self) -> &str {
        &self.definition
    }

    /// Whether the grant allows `command`: this program, in this root or below.
    ///
    /// If the user was shown the arguments, they must be the same.
    pub fn covers(&self, command: &CommandLine) -> bool {
        command.program == self.program
            && command.cwd.starts_with(&self.root)
            && self.args.as_ref().is_none_or(|args| *args == command.args)
    }
}
