//! Client for debug adapters: launch, protocol, sessions, and the hub that clients join.
//!
//! Knows nothing of agents, models or tools, asks for no permission (callers pass a grant) and
//! writes no file.
//!
//! Invariants: a pure state machine derives a session's state, in wire order; every request ends
//! with an answer or a [`DapError`] that says what to do next; everything that a session started
//! ends with it.

mod client;
mod debuggee;
mod error;
pub mod hub;
mod launch;
mod session;
mod sessions;
mod transport;

pub use client::envelope::{AdapterError, Malformed};
pub use client::{Client, Handler, InFlight, RequestError};
pub use debuggee::{
    BadHandle, Breakpoints, Category, DataBreakpoint, End, Ending, ExceptionFilter, FunctionBreakpoint,
    Handle, Input, InstructionBreakpoint, Machine, Need, Output, Piece, Placed, Since, SourceBreakpoint,
    State, Stop, WrongState, conditional, runs_on,
};
pub use error::{DapError, Result};
pub use launch::{LaunchPlan, LaunchSpec, Target};
pub use session::{Clock, ExceptionInfo, Frame, GotoTarget, Page, Scope, Session, Thread, Variable};
pub use sessions::reverse::{DenySpawns, SpawnApprover};
pub use sessions::{ExternalAdapter, ExternalSession, ExternalStart, ProgramOutput, Sessions};
