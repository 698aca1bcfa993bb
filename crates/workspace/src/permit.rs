//! Proofs that the policy said yes. Only this crate's policy makes them.

use crate::AbsPath;

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
}
