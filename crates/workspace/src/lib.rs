//! The person's files and processes, and the only way to them.
//!
//! Everything the agent does to the outside world is planned as a value, permitted by [`Policy`],
//! and carried out here: edits by [`Workspace::commit`], processes by [`Processes::spawn`]. Our own
//! files go through [`StateDir`]. This crate knows nothing of hashline, language servers, debug
//! adapters, models or tools.
#![expect(clippy::disallowed_methods, reason = "this is the crate that touches files and processes")]

mod aftermath;
mod approver;
mod audit;
mod beforehand;
mod commit;
mod content;
mod disk;
mod disk_copy;
mod document;
mod edit;
mod editor;
mod effects;
mod error_code;
mod fault;
mod git_index;
mod guard;
mod hash;
mod held;
mod inverse;
mod journal;
mod memory;
mod others;
mod path;
mod permit;
mod plan;
mod policy;
#[cfg(test)]
mod policy_tests;
mod proc_table;
mod process;
#[cfg(test)]
mod process_tests;
mod protected;
mod reaper;
mod record;
mod recovery;
mod resolve;
mod rules;
mod run;
mod search;
mod secrets;
mod shell;
mod simulate;
mod state;
mod transaction;
mod trust;
mod undo;
mod uri;
mod walk;
mod watch;
mod workspace;
mod write;

pub use aftermath::{Aftermath, Before, Wrote};
pub use approver::{Answer, Approver, Choice, Chosen, Nobody, Question, QuestionKind};
pub use commit::{Commit, CommitError, CommitId, CommitRecord, CommittedFile, RecoveryNote};
pub use disk_copy::{DiskCopy, plain_hash};
pub use document::{Document, Owner, ReadError, Version};
pub use edit::{Operation, WorkspaceEdit};
pub use editor::{Editor, Settled};
pub use effects::{Effects, Writes};
pub use error_code::ErrorCode;
pub use guard::guard_main;
pub use hash::ContentHash;
pub use others::{Hold, Holds, Others};
pub use path::AbsPath;
pub use permit::{Permit, SpawnGrant};
pub use plan::{ChangeKind, FileChange, Overwritten, Plan, PlanError};
pub use policy::{Decision, Denied, ExecOptions, Mode, Policy, PolicyOptions, SpawnRequest, Verdict};
pub use process::{CommandLine, Process, ProcessView, Processes, SpawnError, memory as process_memory};
pub use resolve::canonical;
pub use rules::{Capability, Rule, RuleError};
pub use run::RunId;
pub use search::{
    Bounds, FileHits, Findings, Fit, Form, GlobError, Globs, LineMatch, LookOnly, Name, NamePattern, Names,
    Query, QueryError, QueryOptions, Scope, SearchError, TreeEntry,
};
pub use secrets::{Pieces, Redactor, is_secret_name, learn_passing_secret, learn_secret};
pub use shell::{Tier, may_write};
pub use state::{Homes, StateDir, StateError, StateLock};
pub use trust::{TrustStore, trust_command};
pub use undo::{Skipped, Undo, UndoError, UndoPlan};
pub use uri::{path_to_uri, uri_to_path};
pub use walk::files_below;
pub use watch::process_ended;
pub use workspace::{Entry, EntryKind, OpenError, PathError, UNTITLED, Workspace};

#[cfg(test)]
mod tests;
