//! A file's text as the agent sees it: the editor's if open there, else the disk's.

use std::sync::Arc;

use paths::AbsPath;
use policy::ErrorCode;

use crate::ContentHash;

/// A file's text at one moment, with its version and owner.
#[derive(Debug, Clone)]
pub struct Document {
    pub path: AbsPath,
    /// Its `file:` URI, in the editor's spelling when an editor has it open.
    pub uri: String,
    /// The text without a byte order mark, line ends as they are.
    pub text: Arc<str>,
    /// Whether the file begins with a byte order mark, which every write keeps.
    pub bom: bool,
    pub version: Version,
    /// The owner of its current text.
    pub owner: Owner,
    /// Reason why it must not be edited now, with the remedy.
    ///
    /// For example, another program changed the file since the editor last read or saved it.
    pub blocked: Option<String>,
}

/// The identity of a text; an edit of one version is not applied to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Hash of the bytes the file has, or would have if the editor saved it.
    pub hash: ContentHash,
    /// The editor's version number, for a document it has open.
    pub editor: Option<i32>,
}

/// The owner of a document's current text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// No editor has the document open.
    Disk,
    /// An editor has the document open; `dirty` when it differs from the disk.
    Editor { dirty: bool },
    /// The text has proposed edits, which neither the disk nor an editor has.
    Proposed,
}

impl Document {
    /// Whether the disk has another text.
    pub fn is_unsaved(&self) -> bool {
        matches!(self.owner, Owner::Editor { dirty: true } | Owner::Proposed)
    }
}

/// The reason why a file cannot be read as text.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{path} does not exist")]
    NotFound { path: AbsPath },
    /// The path is a directory, socket or device.
    #[error("{path} is not a regular file; name a file")]
    NotAFile { path: AbsPath },
    /// The file is binary, or text in another encoding.
    #[error("{path} is not UTF-8 text (first bad byte at {offset}); look at it with `bash` (file, iconv)")]
    NotUtf8 {
        path: AbsPath,
        /// Byte offset of the first invalid sequence.
        offset: usize,
    },
    /// The file has more than 32 MiB.
    #[error(
        "{path} has {bytes} bytes, more than the limit of {limit}; read a part with `bash` (head, sed -n)"
    )]
    TooLarge { path: AbsPath, bytes: u64, limit: u64 },
    #[error("{path} cannot be read: {source}")]
    Io { path: AbsPath, source: std::io::Error },
}

impl ReadError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::NotAFile { .. } => ErrorCode::NotAFile,
            Self::NotUtf8 { .. } => ErrorCode::NotUtf8,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Io { .. } => ErrorCode::IoError,
        }
    }
}
