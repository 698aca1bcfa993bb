//! Notes: reasons why an answer may be incomplete, as data to render.

use paths::AbsPath;

use crate::error::ServerError;

/// A reason why an answer may be incomplete or old.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// The server has not loaded its project.
    Loading {
        server: String,
        /// The progress that the server reports.
        detail: Option<String>,
    },
    /// The server is still reloading its projects after files were created or deleted.
    ReadingAgain { server: String },
    /// The server has not shown that it noticed the deletion of a file.
    DeletionUnnoticed { server: String, path: AbsPath },
    /// Work that the server reported has not ended in time.
    WorkUnfinished { server: String },
    /// The server reports that it cannot load its project.
    ProjectNotLoaded { server: String, reason: String },
    /// A message of the server about its project.
    Reported { server: String, message: String },
    /// The server uses another version of the language than a package has installed.
    OtherVersion { server: String, used: String, installed: String, package: AbsPath },
    /// The scan for files that other programs changed did not end in time.
    ScanUnfinished { server: String },
    /// The server is not verified: it may be silent before it has read the project.
    Unverified { server: String },
    /// A server that did not answer, with its error.
    Failed(ServerError),
    /// Files that contain the name and were not opened in the server.
    CandidatesOmitted {
        omitted: usize,
        /// Whether files that were not read may contain the name too.
        is_cut: bool,
    },
    /// Files that contain the name and are not part of the answer.
    CandidatesMissed { server: String, name: String, files: Vec<AbsPath> },
    /// The diagnostics of a place are not known yet, so fixes for them may be missing.
    DiagnosticsPending,
    /// Saved files could not be checked.
    SaveCheckFailed { server: String, reason: SaveCheckError },
    /// The server excludes the file from its project, so these sources do not check it.
    OutsideSaveCheck { server: String, sources: Vec<String> },
    /// Files with errors may keep the server from checking all saved files.
    SaveCheckIncomplete { server: String, failing: Vec<AbsPath> },
    /// Some packages were not asked.
    PackagesFailed(ServerError),
    /// Packages whose files contain the name, which the server may not have searched.
    PackagesUnsearched { server: String, packages: Vec<AbsPath> },
}

/// Reason why a server's check of saved files has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum SaveCheckError {
    /// The server has no check on save.
    Unsupported,
    /// Files changed during the check.
    FilesChanged,
    /// The server reloaded its project during the check.
    Reloaded,
    /// A file is not saved.
    Unsaved(AbsPath),
    /// The server has not loaded its project.
    Loading(String),
    /// The check did not start.
    NotStarted,
    /// The check found problems in too many files.
    TooManyFiles,
    /// The check did not end in time.
    Unfinished {
        /// Progress that the server reports.
        progress: Option<String>,
    },
    /// A problem of the project, as the server reports it.
    Reported(String),
    Failed(ServerError),
}
