//! Effects of a call, as far as they are known before the call.

use paths::AbsPath;
use shell::CommandLine;

/// The effects of a call or plan.
///
/// A call declares them before it starts, for scheduling and early refusal; those of a finished plan are
/// permitted.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Reads files of the workspace.
    pub reads: bool,
    pub writes: Writes,
    /// A command that the call runs.
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

/// A change of files that needs a [`Permit`](crate::Permit).
///
/// The workspace's plan implements it.
pub trait PlannedChange: Sync {
    /// One line for the user.
    fn label(&self) -> &str;

    /// Every path that the change touches, sorted.
    fn paths(&self) -> Vec<AbsPath>;

    /// Files, lines added, lines removed.
    fn counts(&self) -> (usize, usize, usize);

    /// A unified diff, paths relative to `root`.
    fn diff(&self, root: &AbsPath) -> String;

    /// Lines that the user must confirm whatever the rules allow.
    fn confirm(&self) -> &[String];

    /// Identifies exactly this change: a permit fits one digest.
    fn digest(&self) -> u128;
}
