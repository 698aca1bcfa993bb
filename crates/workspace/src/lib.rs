//! The user's files, and the only way to write them.
//!
//! A caller plans an edit as a value, the policy permits it, and [`Workspace::commit`] commits it. This crate
//! knows nothing of hashline, language servers, debug adapters, models or tools.
#![expect(clippy::disallowed_methods, reason = "this is the crate that writes the user's files")]

mod command_snapshot;
mod commit;
mod documents;
mod journal;
mod plan;
mod ports;
mod proposals;
mod review;
mod search;
mod state;
mod undo;
mod workspace;

pub use command_snapshot::{
    CommandChanges, CommandSnapshot, CommandSnapshots, ProtectedChange, ProtectedFiles,
};
pub use commit::CommitError;
pub use documents::{ContentHash, DiskCopy, Document, Owner, ReadCache, ReadError, Version, plain_hash};
pub use journal::{Commit, CommitId, CommitRecord, CommittedFile, RecoveryNote, RunId};
pub use plan::edit::{Operation, WorkspaceEdit};
pub use plan::{ChangeKind, FileChange, Overwritten, Plan, PlanError};
pub use ports::{ApplyOutcome, Editor, Hold, Holds, Peers};
pub use proposals::Acceptance;
pub use review::{Hunk, HunkId, HunkKind, Rejection, Review, ReviewError, ReviewFile, Selection};
pub use search::{
    Bounds, Budget, Candidates, DirectoryWatch, FileHits, Findings, Fit, Form, GlobError, Globs, LineMatch,
    LookOnly, Name, NamePattern, Names, Query, QueryError, QueryOptions, Scope, SearchError, SkipReason,
    TreeEntry, files_below,
};
pub use undo::{Skipped, Undo, UndoError, UndoPlan};
pub use workspace::{Entry, EntryKind, OpenError, PathError, UNTITLED, Workspace, revert_unfinished};

#[cfg(test)]
mod tests;
