//! An edit as a value: text edits and file operations over many files.

use paths::AbsPath;
use text::TextEdit;

use crate::Version;

/// Operations that apply in order, all or none.
///
/// Later operations see the effects of earlier ones.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceEdit {
    /// One line for the user, such as `rename a to b`.
    pub label: String,
    /// The steps, in order.
    pub operations: Vec<Operation>,
    /// Lines that the user must confirm whatever the rules allow.
    ///
    /// They name parts of which the author of the edit is not sure.
    pub confirm: Vec<String>,
}

/// One operation of a [`WorkspaceEdit`].
#[derive(Debug, Clone)]
pub enum Operation {
    /// Changes the text of a file.
    Edit {
        path: AbsPath,
        /// The version that the edits are made for.
        expected: Version,
        /// Byte ranges of that text.
        edits: Vec<TextEdit>,
    },
    /// Creates a file, or gives an existing one a whole new text.
    Create {
        path: AbsPath,
        /// Its text, without a byte order mark.
        text: String,
        /// The version that may be replaced; `None` if the path must not exist.
        replaces: Option<Version>,
    },
    /// Writes a file that was just created empty for this edit.
    ///
    /// Undo removes the file, as if it had not existed before.
    Adopt {
        path: AbsPath,
        /// Its text, without a byte order mark.
        text: String,
        /// The version at the path; it must be empty.
        found: Version,
    },
    /// Moves a file or a directory.
    Rename {
        from: AbsPath,
        to: AbsPath,
        /// The version to move; `None` accepts any, as for a directory.
        expected: Option<Version>,
        /// The version at `to` that may be replaced; `None` if `to` must not exist.
        replaces: Option<Version>,
    },
    Delete {
        path: AbsPath,
        /// The version that may be removed.
        expected: Version,
    },
    DeleteDirectory {
        path: AbsPath,
        /// Whether to remove its contents too; without it, the directory must be empty.
        recursive: bool,
    },
}
