//! The client of debug adapters: which there are, how one is started and spoken to, where its session is.
//!
//! Knows nothing of agents, models or tools, asks nobody for permission (it is given a grant) and never
//! writes a file. What must stay true: the state of a session is worked out by a pure machine, in the
//! order of the wire; every request ends, with an answer or with a [`DapError`] that says what to do;
//! whatever was started ends with its session.

mod breakpoints;
mod client;
mod definition;
mod definitions;
mod envelope;
mod error;
mod handles;
pub mod hub;
mod marks;
mod output;
mod prepare;
mod relaunch;
mod reverse;
mod session;
mod sessions;
mod state;
mod theirs;
mod transport;
mod tree;
mod wrap;

pub use breakpoints::{
    Breakpoints, DataBreakpoint, ExceptionFilter, FunctionBreakpoint, InstructionBreakpoint, Placed,
    SourceBreakpoint, conditional,
};
pub use client::{Client, Handler, InFlight, RequestError};
pub use definition::{
    AdapterDefinition, CommandRule, DefinitionError, ExceptionNames, Executable, FORMAT, Hits, How, Install,
    Quirks, TestRule, Transport, Verified, fill, merge,
};
pub use definitions::Definitions;
pub use envelope::{AdapterError, Malformed, Message, parse};
pub use error::DapError;
pub use handles::{BadHandle, Handle};
pub use output::{Category, Output, Piece, Since};
pub use prepare::Ran;
pub use reverse::{NoRuns, Runs};
pub use session::{Clock, ExceptionInfo, Frame, GotoTarget, Page, Scope, Session, Thread, Variable};
pub use sessions::{LaunchPlan, LaunchSpec, NoPrograms, Programs, Sessions, Target};
pub use state::{End, Ending, Input, Machine, Need, State, Stop, WrongState, runs_on};
pub use theirs::{Ask, Started, Theirs};
pub use wrap::Wrap;
