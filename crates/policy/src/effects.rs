//! Effects of a call, as far as they are known before it starts.

use paths::AbsPath;
use shell::CommandLine;

/// The effects of a call or plan.
///
/// A call declares them before it starts, for scheduling and early refusal. The policy permits
/// those of a finished plan.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Whether the call reads files of the workspace.
    pub reads: bool,
    pub writes: Writes,
    /// A command that the call runs.
    pub exec: Option<CommandLine>,
}

/// Files that a call changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Writes {
    /// The call changes no files.
    #[default]
    None,
    Paths(Vec<AbsPath>),
    /// The call changes files that are known when its plan is made.
    Unknown,
}

/// A change of files that needs a [`Permit`](crate::Permit).
///
/// The plan of `workspace` implements it.
pub trait PlannedChange: Sync {
    /// One line that describes the change to the user.
    fn label(&self) -> &str;

    /// Every path that the change touches, sorted.
    fn paths(&self) -> Vec<AbsPath>;

    /// Numbers of files, of added lines and of removed lines.
    fn counts(&self) -> (usize, usize, usize);

    /// A unified diff with paths relative to `root`.
    fn diff(&self, root: &AbsPath) -> String;

    /// Lines that the user must confirm, whatever the rules allow.
    fn confirm(&self) -> &[String];

    /// Digest of exactly this change; a permit is for one digest.
    fn digest(&self) -> u128;
}
