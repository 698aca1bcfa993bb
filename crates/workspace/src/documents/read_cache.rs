//! Files as last read, so that an unchanged one is not read again.

use std::collections::HashMap;

use parking_lot::Mutex;
use paths::AbsPath;

use crate::Workspace;
use crate::documents::document::{Document, ReadError};
use crate::documents::stamp::Stamp;

/// Maximum number of files; one more drops all of them.
const LIMIT: usize = 512;

/// Documents read from the disk, with their stamps.
#[derive(Debug, Default)]
pub struct ReadCache(Mutex<HashMap<AbsPath, (Stamp, Document)>>);

impl ReadCache {
    /// Reads like [`Workspace::document`]; an unchanged file costs only a `stat`.
    ///
    /// Blocks.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn document(&self, workspace: &Workspace, path: &AbsPath) -> Result<Document, ReadError> {
        if let Some(document) = workspace.held_document(path) {
            return Ok(document);
        }
        // Stamp the file before reading the text: a later change has another stamp.
        let stamp = Stamp::of(path.as_path());
        if let Some((known, document)) = self.0.lock().get(path)
            && known.is_same(&stamp)
        {
            return Ok(document.clone());
        }
        let document = workspace.saved(path)?;
        let mut known = self.0.lock();
        if known.len() >= LIMIT {
            known.clear();
        }
        known.insert(path.clone(), (stamp, document.clone()));
        Ok(document)
    }
}
