//! Which workspaces the person trusts, kept by canonical path; parents count.

use crate::{AbsPath, StateDir, StateError};

/// The list of trusted folders.
#[derive(Debug, Clone)]
pub struct TrustStore {
    state: StateDir,
}

impl TrustStore {
    /// The store in `trust.json` of our state folder.
    pub fn new(state: StateDir) -> Self {
        Self { state }
    }

    /// Whether `root` or one of its parents is trusted.
    pub fn is_trusted(&self, root: &AbsPath) -> bool {
        let _ = (&self.state, root);
        unimplemented!()
    }

    /// Trusts `root` from now on.
    ///
    /// # Errors
    /// When the list cannot be read or written.
    pub fn trust(&self, root: &AbsPath) -> Result<(), StateError> {
        let _ = root;
        unimplemented!()
    }

    /// Takes `root` off the list; says whether it was on it.
    ///
    /// # Errors
    /// When the list cannot be read or written.
    pub fn remove(&self, root: &AbsPath) -> Result<bool, StateError> {
        let _ = root;
        unimplemented!()
    }

    /// Every trusted folder.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn list(&self) -> Result<Vec<AbsPath>, StateError> {
        unimplemented!()
    }
}
