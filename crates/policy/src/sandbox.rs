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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    Allowed,
    /// No sockets that lead out of the sandbox.
    None,
}

/// Limits of a command's processes.
///
/// Paths are resolved; those that do not exist have no effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxProfile {
    /// Directories and files that may be changed; all others are read-only.
    pub writable: Vec<AbsPath>,
    /// Writable directories to create if they are missing, such as caches.
    pub created: Vec<AbsPath>,
    /// Paths inside writable directories that stay read-only.
    pub protected: Vec<AbsPath>,
    /// Directories and files that cannot be read.
    pub hidden: Vec<AbsPath>,
    /// Paths inside hidden directories that can be read.
    pub readable: Vec<AbsPath>,
    pub network: Network,
    /// Whether the command is refused where no sandbox works.
    pub required: bool,
}
