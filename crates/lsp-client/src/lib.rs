//! The client of language servers: which there are, which is asked, what it is told, what it answered.
//!
//! Knows nothing of agents, models or tools, and never writes a file of a project: what a server wants changed comes
//! out as a [`workspace::WorkspaceEdit`]. What must stay true: positions here are bytes, each server's
//! encoding stays inside; a server is asked only when it has the texts as they are; every question ends,
//! with an answer or with a [`ServerError`] that says what to do.

mod answer;
mod capabilities;
mod commit;
mod core;
mod definition;
mod definitions;
mod diagnostics;
mod discovery;
mod documents;
mod edit;
mod error;
mod features;
mod file_filter;
mod gate;
mod gone;
mod handler;
mod host;
mod install;
mod life;
mod loading;
mod news;
mod pool;
mod protocol;
mod reports;
mod saved;
mod server;
mod snippet;
mod sweep;
mod traffic;
mod trial;
mod unanswered;
mod usage;
mod view;
mod watchers;

pub use answer::{Answer, Diagnostic, Diagnostics, Location, RawJson, Related, Severity, Symbol};
pub use definition::{
    CheckRule, CleanRule, CommandRule, DefinitionError, DiagnosticsRule, FORMAT, Feature, Language, MoveRule,
    Prefer, ReadyRule, RootRule, ServerDefinition, Verified,
};
pub use definitions::Definitions;
pub use discovery::{SearchPath, find_root};
pub use error::ServerError;
pub use features::{
    ActionQuery, Call, Calls, Checked, CodeAction, CommandEdits, Completion, FoundSaved, Glanced, Highlight,
    InlayHint, Look, Navigate, Offered, Ran, RawAnswer, Reported, Resolved, SavedProblems, ServerCommand,
    Signature, Tried, Types, Unasked, UnaskedWhy, Wishes, WorkspaceSymbols,
};
pub use host::{Host, MessageType, NoHost, ShowDocument};
pub use install::{
    How, Install, InstallError, InstallLock, InstallPlan, Installed, Installer, Locked, PlanProblem,
    Progress, Step, ToInstall,
};
pub use life::ServerEnd;
pub use pool::{
    PoolLimits, PoolOptions, RequestCx, Reread, ServerLife, ServerLog, ServerPool, ServerState, ServerStatus,
};
pub use traffic::TrafficEntry;
pub use trial::{NotTried, TrialFile};
