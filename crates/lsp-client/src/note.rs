//! Notes: why an answer may be incomplete, as data to be rendered.

use paths::AbsPath;

use crate::error::ServerError;
use crate::features::SaveCheckError;

/// A reason why an answer may be incomplete or old.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// The server has not loaded its project.
    Loading {
        server: String,
        /// Its progress, as the server reports it.
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
    /// The scan for files that other programs changed did not end in time.
    ScanUnfinished { server: String },
    /// The server is not verified: it may be silent before it has read the project.
    Unverified { server: String },
    /// A server that did not answer, and why.
    Failed(ServerError),
    /// Files that contain the name and were not opened in the server.
    CandidatesOmitted {
        omitted: usize,
        /// Whether there may be more, in files that were not read.
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
    /// Not all packages were asked.
    PackagesFailed(ServerError),
    /// Packages whose files contain the name, which the server may not have searched.
    PackagesUnsearched { server: String, packages: Vec<AbsPath> },
}
