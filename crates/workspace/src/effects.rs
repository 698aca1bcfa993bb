//! What a call does to the world, as far as it is known.

use crate::{AbsPath, CommandLine};

/// Declared before a call to schedule and refuse early; of a finished plan, to be permitted.
#[derive(Debug, Clone, Default)]
pub struct Effects {
    /// Reads files of the workspace.
    pub reads: bool,
    /// Files it changes.
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
    /// These.
    Paths(Vec<AbsPath>),
    /// Some, known when its plan is made.
    Unknown,
}
