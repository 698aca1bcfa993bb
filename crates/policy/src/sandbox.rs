//! The sandbox profile of a command: what it may write, read and reach.
//!
//! The policy decides it; the crate `process` applies it.

use paths::AbsPath;
use serde::{Deserialize, Serialize};

/// The setting `exec.sandbox`; later variants are stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SandboxMode {
    /// Commands run with the user's own rights.
    Off,
    /// Commands run in the best sandbox that works here, or in none.
    #[default]
    Auto,
    /// Commands run only in a sandbox.
    Required,
}

/// Files of a project that other programs execute.
pub const EXECUTED: [&str; 5] = [".pilcrow", ".vscode/tasks.json", ".mcp.json", ".envrc", ".husky"];

/// How a command line would run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    Sandbox,
    /// In the sandbox; other commands may wait until it ends.
    SandboxAlone,
    /// No sandbox works here.
    Unavailable,
    /// The caller asks to run it without the sandbox.
    Waived,
}

impl Confinement {
    pub(crate) fn is_sandboxed(self) -> bool {
        matches!(self, Self::Sandbox | Self::SandboxAlone)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    Allowed,
    /// Only a proxy, limited by the rules about hosts, and other commands.
    Proxy,
    /// No sockets that lead out of the sandbox.
    None,
}

/// Changes of protected files that git may make; they are checked afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GitChanges {
    /// The files, which the sandbox leaves writable.
    pub paths: Vec<AbsPath>,
    /// Whether files of linked worktrees may be removed.
    pub worktrees: bool,
    /// Set if files may become what a commit or stash has.
    pub checkout: Option<Checkout>,
}

/// The directories of a work tree that git changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    pub top: AbsPath,
    /// The directory of the work tree's own state.
    pub own: AbsPath,
    /// The directory that it shares with other work trees.
    pub shared: AbsPath,
}

/// Limits of a command's processes.
///
/// Paths are resolved. The sandbox ignores those that do not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxProfile {
    /// Directories and files that may be changed; all others are read-only.
    pub writable: Vec<AbsPath>,
    /// Writable directories to create if they are missing, such as caches.
    pub created: Vec<AbsPath>,
    /// Paths inside writable directories that the sandbox makes read-only where it can.
    ///
    /// Writable ones may be inside.
    pub read_only: Vec<AbsPath>,
    /// Paths inside writable directories that stay as they are, also missing ones.
    pub protected: Vec<AbsPath>,
    /// Exceptions for git, which the sandbox itself does not know.
    #[serde(skip)]
    pub git: GitChanges,
    /// The directories whose subdirectories have their protected files reverted.
    ///
    /// The sandbox does not deny these changes, and missing files are not protected.
    pub nested: Option<ProjectRoots>,
    /// Directories and files that cannot be read.
    pub hidden: Vec<AbsPath>,
    /// Paths inside hidden directories that can be read.
    pub readable: Vec<AbsPath>,
    pub network: Network,
    /// Whether it may open Unix sockets where those of other programs cannot be hidden.
    pub unix_sockets: bool,
    /// Whether the command is refused where no sandbox works.
    pub required: bool,
}

/// The top directories of a project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProjectRoots {
    pub workspace: AbsPath,
    /// The worktree of its repository; the workspace itself without one.
    pub top: AbsPath,
}

impl SandboxProfile {
    /// Whether the sandbox denies changes of `path`.
    pub fn denies_write(&self, path: &AbsPath) -> bool {
        let deepest = |all: &[AbsPath]| {
            let around = all.iter().filter(|it| path.starts_with(it));
            around.map(|it| it.as_path().components().count()).max()
        };
        deepest(&self.writable) <= deepest(&self.read_only)
            || self.protected.iter().any(|it| path.starts_with(it))
            || self.denies_read(path)
    }

    /// Whether the sandbox hides `path`.
    pub fn denies_read(&self, path: &AbsPath) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
            && !self.readable.iter().any(|shown| path.starts_with(shown))
    }
}
