//! The client of debug adapters: which there are, how one is started and spoken to, where its session is.
//!
//! Knows nothing of agents, models or tools, asks nobody for permission (it is given a grant) and never
//! writes a file. What must stay true: the state of a session is worked out by a pure machine, in the
//! order of the wire; every request ends, with an answer or with a [`DapError`] that says what to do;
//! whatever was started ends with its session.

mod client;
mod debuggee;
mod error;
pub mod hub;
mod launch;
mod session;
mod sessions;
mod transport;

pub use client::envelope::{AdapterError, Malformed, Message, parse};
pub use client::{Client, Handler, InFlight, RequestError};
pub use debuggee::{
    BadHandle, Breakpoints, Category, DataBreakpoint, End, Ending, ExceptionFilter, FunctionBreakpoint,
    Handle, Input, InstructionBreakpoint, Machine, Need, Output, Piece, Placed, Since, SourceBreakpoint,
    State, Stop, WrongState, conditional, runs_on,
};
pub use error::DapError;
pub use launch::{LaunchPlan, LaunchSpec, Target};
pub use session::{Clock, ExceptionInfo, Frame, GotoTarget, Page, Scope, Session, Thread, Variable};
pub use sessions::reverse::{NoRuns, Runs};
pub use sessions::{Ask, ExternalSession, ExternalStart, Ran, Sessions};
