//! Language-server client: a pool of servers, their documents and their answers.
//!
//! Knows nothing of agents, models or tools, and never writes a file of a project: edits of servers
//! are returned as [`workspace::WorkspaceEdit`].
//!
//! Invariants: positions are byte offsets, and each server's encoding stays inside; a server
//! receives the current texts before a request; every request ends with an answer or with a
//! [`ServerError`] that says what to do.

mod answer;
mod diagnostics;
mod error;
mod features;
mod files;
mod note;
mod pool;
mod server;

pub use adapters::{SearchPath, find_root};
pub use answer::{Answer, Diagnostic, Diagnostics, Location, RawJson, Related, Severity, Symbol};
pub use error::{Refusal, Result, ServerError, StartCause};
pub use features::*;
pub use note::{Note, SaveCheckError};
pub use pool::{
    PoolLimits, PoolOptions, RequestCx, Reread, ServerLog, ServerLogState, ServerPool, ServerState,
    ServerStatus,
};
pub use server::Clock;
pub use server::host::{Host, MessageType, NoHost, ShowDocument};
pub use server::server_log::ServerEnd;
pub use server::traffic::TrafficEntry;
