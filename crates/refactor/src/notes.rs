//! Notes on a refactoring, as data: tasks that it leaves, and limits of its result.

use lsp_client::Location;
use paths::AbsPath;

use crate::overrides::OverrideSet;

/// A task left after a refactoring, or a reason why it may be incomplete.
#[derive(Debug)]
pub enum Note {
    Server(lsp_client::Note),
    /// The server's edit leaves the old name at the place to rename.
    NameKept {
        name: String,
        place: Location,
    },
    /// Another symbol of the same scope has the new name.
    NameTaken {
        name: String,
        place: Location,
    },
    /// Methods related by overriding keep their name.
    OverridesNotRenamed(Box<OverrideSet>),
    /// Calls of overridden methods may reach the function.
    CallsThroughOverrides(Box<OverrideSet>),
    /// Callers in other packages were found among the references.
    CallersFromReferences {
        server: String,
    },
    /// Packages with references of which none is a call.
    UsesNotCalls {
        server: String,
        packages: Vec<AbsPath>,
    },
    /// The stub of a file keeps its name.
    StubKept {
        file: AbsPath,
        stub: AbsPath,
    },
    /// The stub of a file moves with it.
    StubMoved {
        file: AbsPath,
        stub: AbsPath,
        to: AbsPath,
        /// Whether it leaves its directory, so that its own imports may break.
        leaves_directory: bool,
    },
    /// `#include` lines that follow a move.
    IncludesUpdated {
        lines: usize,
        files: usize,
    },
    /// No server updates the references to the moved file.
    NoServerForMove {
        /// Whether `#include` lines were updated.
        updates_includes: bool,
    },
    /// `#include` lines that lead to another file than before.
    IncludesRedirected(Vec<Redirected>),
    /// Files that may contain `#include` lines but are not text.
    IncludesUnread(Vec<AbsPath>),
    /// Lines that name the old place of a moved file or directory.
    StalePaths(Vec<Line>),
    /// `#include` lines for which both the old and the new place match.
    ///
    /// The include directories decide which file the line means.
    AmbiguousIncludes(Vec<Line>),
    /// The search for references to the old place did not read every file.
    SearchCut,
}

/// A line of a file.
///
/// Lines count from 1; the path is the file's path after the move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub path: AbsPath,
    pub line: usize,
}

/// An `#include` line that leads to another file than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirected {
    pub at: Line,
    /// The new target; `None` if the line leads to no file.
    pub target: Option<AbsPath>,
}

/// Converts the notes of a server.
pub(crate) fn of_server(notes: Vec<lsp_client::Note>) -> Vec<Note> {
    notes.into_iter().map(Note::Server).collect()
}
