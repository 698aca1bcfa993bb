//! Reasons why Pilcrow refuses a refactoring.

use lsp_client::ServerError;
use paths::AbsPath;
use policy::ErrorCode;

/// The reason why Pilcrow refuses a refactoring.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RefactorError {
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server renames some declarations of the symbol and not this one.
    #[error("the server does not rename declaration {index} of the symbol; rename it with `edit`")]
    DeclarationKept { index: usize },
    /// The stub of a file declares the symbol too and cannot be renamed with it.
    #[error(
        "nothing was renamed: {stub}:{line}, the stub of {file}, declares {name} too, but {}\nRename it there with `edit` first{}; then rename again",
        reason(conflict),
        uses(users)
    )]
    Stub {
        file: String,
        stub: String,
        line: usize,
        name: String,
        conflict: Box<StubConflict>,
        /// Files that use the name and are not edited.
        users: Vec<String>,
    },
    /// The server updates references only if the file stays in its directory.
    #[error(
        "{server} updates imports only within a directory, and {file} would leave it\nMove only the file (`git mv`, or an edit with `MV`), then fix its imports"
    )]
    LeavesDirectory { server: String, file: String },
    /// The server's edit removes the old name without inserting the new one.
    #[error(
        "nothing was moved: {server} would remove {old:?} at {file}:{line} without inserting {new:?}\n`reload` it and try again, or move only the file (`git mv`, or an edit with `MV`) and fix the references"
    )]
    DropsReference { server: String, file: String, line: usize, old: String, new: String },
    /// A file cannot be read.
    #[error("{file}: {reason}")]
    Unreadable { file: String, reason: String },
}

/// The reason why the stub of a file cannot be renamed with it.
#[derive(Debug, Clone)]
pub enum StubConflict {
    Refused(ServerError),
    /// The server's edit does not change the stub.
    Unchanged,
    /// Two edits change the same place of this file differently.
    Overlap(AbsPath),
}

/// Files named in a message.
const MAX_NAMED: usize = 10;

fn reason(conflict: &StubConflict) -> String {
    match conflict {
        StubConflict::Refused(error) => error.to_string(),
        StubConflict::Unchanged => "the server does not change it".to_owned(),
        StubConflict::Overlap(path) => format!("the two edits of {path} conflict"),
    }
}

fn uses(users: &[String]) -> String {
    match users.len() {
        0 => String::new(),
        count if count > MAX_NAMED => format!(", and in {count} more files that use it"),
        _ => format!(", and where it is used in {}", users.join(", ")),
    }
}

impl RefactorError {
    /// Returns the code for surfaces and models.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Server(error) => error.code(),
            Self::DeclarationKept { .. } => ErrorCode::Ambiguous,
            Self::Stub { .. } | Self::DropsReference { .. } => ErrorCode::NotApplied,
            Self::LeavesDirectory { .. } => ErrorCode::Unsupported,
            Self::Unreadable { .. } => ErrorCode::IoError,
        }
    }
}
