//! An edit as a value: text edits and file operations over many files.

use paths::AbsPath;
use text::TextEdit;

use crate::Version;

/// Operations made in order, all or none. Later ones see what earlier ones did.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceEdit {
    /// One line for the user: `rename a to b`.
    pub label: String,
    /// The steps, in order.
    pub operations: Vec<Operation>,
    /// Lines that the user has to confirm whatever the rules allow: parts of which
    /// who proposes the edit is not sure.
    pub confirm: Vec<String>,
}

/// One step of a [`WorkspaceEdit`].
#[derive(Debug, Clone)]
pub enum Operation {
    /// Change the text of a file.
    Edit {
        path: AbsPath,
        /// The text that the edits were made for.
        expected: Version,
        /// Byte ranges of that text.
        edits: Vec<TextEdit>,
    },
    /// Make a file, or give an existing one a whole new text.
    Create {
        path: AbsPath,
        /// Its text, without a byte order mark.
        text: String,
        /// The version that may be replaced; `None` when nothing may be there.
        replaces: Option<Version>,
    },
    /// Write a file that was just created empty for this edit: it counts as
    /// not there before, so that undo removes the file.
    Adopt {
        path: AbsPath,
        /// Its text, without a byte order mark.
        text: String,
        /// The version that is there; it must be empty.
        found: Version,
    },
    /// Move a file or a directory.
    Rename {
        from: AbsPath,
        to: AbsPath,
        /// The version that is meant; `None` takes what is there, as for a directory.
        expected: Option<Version>,
        /// The version at `to` that may be replaced; `None` when nothing may be there.
        replaces: Option<Version>,
    },
    Delete {
        path: AbsPath,
        /// The version that may be removed.
        expected: Version,
    },
    DeleteDirectory {
        path: AbsPath,
        /// With all that is in it; else it must be empty.
        recursive: bool,
    },
}
