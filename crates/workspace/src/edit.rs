//! What is to change, as a value: text edits and file operations over many files.

use text::TextEdit;

use crate::{AbsPath, Version};

/// Operations made in order, all or none. Later ones see what earlier ones did.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceEdit {
    /// One line for people: `rename a to b`.
    pub label: String,
    /// What to do, in order.
    pub operations: Vec<Operation>,
    /// What the person has to agree to whatever the rules allow, a line for each: parts of which
    /// who proposes the edit is not sure.
    pub confirm: Vec<String>,
}

/// One step of a [`WorkspaceEdit`].
#[derive(Debug, Clone)]
pub enum Operation {
    /// Change the text of a file.
    Edit {
        /// The file.
        path: AbsPath,
        /// The text that the edits were made for.
        expected: Version,
        /// Byte ranges of that text.
        edits: Vec<TextEdit>,
    },
    /// Make a file, or give an existing one a whole new text.
    Create {
        /// The file.
        path: AbsPath,
        /// Its text, without a byte order mark.
        text: String,
        /// The version that may be replaced; `None` when nothing may be there.
        replaces: Option<Version>,
    },
    /// Make a file of which whoever proposes the edit has put an empty one there just now: it counts as
    /// not there before, so that taking the edit back takes the file away.
    Adopt {
        /// The file.
        path: AbsPath,
        /// Its text, without a byte order mark.
        text: String,
        /// The version that is there; it must be empty.
        found: Version,
    },
    /// Move a file or a folder.
    Rename {
        /// From here.
        from: AbsPath,
        /// To there.
        to: AbsPath,
        /// The version that is meant; `None` takes what is there, as for a folder.
        expected: Option<Version>,
        /// The version at `to` that may be replaced; `None` when nothing may be there.
        replaces: Option<Version>,
    },
    /// Remove a file.
    Delete {
        /// The file.
        path: AbsPath,
        /// The version that may be removed.
        expected: Version,
    },
    /// Remove a folder.
    DeleteFolder {
        /// The folder.
        path: AbsPath,
        /// With all that is in it; else it must be empty.
        recursive: bool,
    },
}
