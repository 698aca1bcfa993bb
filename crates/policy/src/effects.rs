//! Effects of a call, as far as they are known before it runs.

use paths::AbsPath;
use shell::CommandLine;

/// Declared before a call to schedule and refuse early; of a finished plan, to be permitted.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Reads files of the workspace.
    pub reads: bool,
    pub writes: Writes,
    /// A command it runs.
    pub exec: Option<CommandLine>,
}

/// Files that a call changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Writes {
    /// None.
    #[default]
    None,
    Paths(Vec<AbsPath>),
    /// Some, known when its plan is made.
    Unknown,
}

/// A change of files that needs a [`Permit`](crate::Permit). Implemented by the workspace's plan.
pub trait PlannedChange: Sync {
    /// One line for the user.
    fn label(&self) -> &str;

    /// Every path that the change touches, sorted.
    fn paths(&self) -> Vec<AbsPath>;

    /// Files, lines added, lines removed.
    fn counts(&self) -> (usize, usize, usize);

    /// A unified diff, paths relative to `root`.
    fn diff(&self, root: &AbsPath) -> String;

    /// Lines that the user has to confirm whatever the rules allow.
    fn confirm(&self) -> &[String];

    /// Identifies exactly this change: a permit fits one digest.
    fn digest(&self) -> u128;
}
